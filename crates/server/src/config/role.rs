//! Roles of users and tokens. What each may do is in `http::access::principal`.

/// The role of a user or a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Inserts lines, reads none.
    Ingest,
    /// Reads lines, and changes only its own queries.
    Read,
    /// Reads, and operates the server: seals, makes backups, cancels queries of others.
    Operate,
    /// Everything, deletions included.
    Admin,
}

impl Role {
    /// All roles, from the least to the most powerful.
    pub const ALL: [Role; 4] = [Role::Ingest, Role::Read, Role::Operate, Role::Admin];

    /// The role's name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Role::Ingest => "ingest",
            Role::Read => "read",
            Role::Operate => "operate",
            Role::Admin => "admin",
        }
    }

    /// The role of that name.
    pub fn parse(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }
}
