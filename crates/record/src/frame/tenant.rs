//! Whose lines they are: the tenant of an origin, as VictoriaLogs names tenants.

use std::fmt;
use std::str::FromStr;

/// Two numbers that name whom lines belong to. Lines of different tenants never share a sealed
/// block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant {
    /// The account.
    pub account: u32,
    /// The project of the account.
    pub project: u32,
}

impl Tenant {
    /// The tenant `0:0` of all lines for which no tenant was named.
    pub const DEFAULT: Tenant = Tenant { account: 0, project: 0 };

    /// Whether it is `0:0`, whose lines have no field [`TENANT`](crate::batch::TENANT).
    pub fn is_default(self) -> bool {
        self == Tenant::DEFAULT
    }

    /// The value of the field [`TENANT`](crate::batch::TENANT) of the lines of this tenant: empty
    /// for `0:0`, whose lines have no such field.
    pub fn field_value(self) -> String {
        if self.is_default() { String::new() } else { self.to_string() }
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.account, self.project)
    }
}

/// A text is not the id of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a tenant is two numbers below 2^32 with a colon between them, account and project, such as 12:3"
)]
pub struct NoTenant;

impl FromStr for Tenant {
    type Err = NoTenant;

    /// Reads `ACCOUNT:PROJECT` or `ACCOUNT`, for project 0, in decimal digits.
    fn from_str(text: &str) -> Result<Tenant, NoTenant> {
        let number = |text: &str| match text.bytes().all(|c| c.is_ascii_digit()) {
            true => text.parse::<u32>().map_err(|_| NoTenant),
            false => Err(NoTenant),
        };
        let (account, project) = text.split_once(':').unwrap_or((text, "0"));
        Ok(Tenant { account: number(account)?, project: number(project)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_and_written() {
        for (text, shown) in [
            ("12:3", Some("12:3")),
            ("12", Some("12:0")),
            ("0:0", Some("0:0")),
            ("4294967295:4294967295", Some("4294967295:4294967295")),
            ("", None),
            (":", None),
            ("1:", None),
            (":1", None),
            ("+1:2", None),
            ("1:2:3", None),
            ("4294967296:0", None),
            ("shop", None),
        ] {
            let read = text.parse::<Tenant>().ok().map(|tenant| tenant.to_string());
            assert_eq!(read.as_deref(), shown, "{text}");
        }
        assert_eq!(Tenant::DEFAULT.field_value(), "");
        assert_eq!(Tenant { account: 0, project: 1 }.field_value(), "0:1");
    }
}
