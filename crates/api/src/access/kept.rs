//! Users and tokens that were made over the API, in the file `access.json` of the data directory.
//!
//! ```json
//! {"users":[{"name":"ann","role":"admin","password_hash":"$argon2id$…","created_s":1796040000}],
//!  "tokens":[{"name":"shipper","role":"ingest","sha256":"0f…","created_s":1796040000,
//!             "expires_s":null,"previous":{"sha256":"1e…","until_s":1796043600},
//!             "last_used_s":1796040000}],
//!  "audited":false}
//! ```
//!
//! An entry with restricted rights has `filter`, `hide_fields` and `tenant` beside `role`.
//!
//! The file is replaced as a whole and atomically. A file that cannot be read ends the start:
//! without it, everybody might be let in. Users and tokens of the configuration have precedence: an
//! entry here with a name of theirs has no effect until that name is free.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use node::data_dir::ACCESS_FILE;
use serde::{Deserialize, Serialize};

use super::rights::{Rights, RightsText};
use super::secrets::{parse_password_hash, parse_token_hash};
use super::users::{AccessOptions, NAMES_MAX, Token, User, check_name};

/// What the file holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// People.
    pub users: Vec<KeptUser>,
    /// Programs.
    pub tokens: Vec<KeptToken>,
    /// The store may hold lines of the audit log, also after it was switched off.
    #[serde(default)]
    pub audited: bool,
    /// The store may hold lines of tenants, also after the configuration lost them.
    #[serde(default)]
    pub had_tenants: bool,
}

/// A user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptUser {
    /// Unique among users and tokens.
    pub name: String,
    /// Its rights: `role`, `filter`, `hide_fields`.
    #[serde(flatten)]
    pub rights: RightsText,
    /// The argon2id hash of the password.
    pub password_hash: String,
    /// When it was made, in seconds since 1970.
    pub created_s: i64,
}

/// A token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptToken {
    /// Unique among users and tokens.
    pub name: String,
    /// Its rights: `role`, `filter`, `hide_fields`.
    #[serde(flatten)]
    pub rights: RightsText,
    /// The SHA-256 of the token, in hexadecimal.
    pub sha256: String,
    /// When it was made or rotated, in seconds since 1970.
    pub created_s: i64,
    /// From when on it is not valid.
    pub expires_s: Option<i64>,
    /// The token before the last rotation.
    pub previous: Option<PreviousToken>,
    /// When it was used last, as of the last time that the file was written.
    pub last_used_s: Option<i64>,
}

/// A token that was replaced, and is still valid for a while.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreviousToken {
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
    /// Until when it is valid, in seconds since 1970.
    pub until_s: i64,
}

impl Kept {
    /// Parses and checks the file.
    pub fn parse(text: &[u8]) -> Result<Kept, String> {
        let wrong = |why: String| {
            format!(
                "{ACCESS_FILE} of the data directory, which holds users and tokens, cannot be \
                 used: {why}; repair it, or take it from a backup"
            )
        };
        let kept: Kept = serde_json::from_slice(text).map_err(|error| wrong(error.to_string()))?;
        kept.checked().map(|_| ()).map_err(wrong)?;
        Ok(kept)
    }

    /// Its users and tokens as the gate compares them.
    pub fn checked(&self) -> Result<(Vec<User>, Vec<Token>), String> {
        let mut names = HashSet::new();
        let mut name = |name: &str| {
            check_name(name)?;
            match names.insert(name.to_owned()) {
                true => Ok(Arc::<str>::from(name)),
                false => Err(format!("the name '{name}' is there twice")),
            }
        };
        let users = self.users.iter().map(|user| {
            let hash = parse_password_hash(&user.password_hash);
            let hash = hash.map_err(|why| format!("user {}: {why}", user.name))?;
            let rights =
                rights(&user.rights).map_err(|why| format!("user {}: {why}", user.name))?;
            Ok(User { name: name(&user.name)?, hash, rights })
        });
        let users = users.collect::<Result<_, String>>()?;
        let tokens = self.tokens.iter().map(|token| {
            let at = |why: String| format!("token {}: {why}", token.name);
            let previous = token.previous.as_ref().map(|previous| {
                let hash = parse_token_hash(&previous.sha256).map_err(at)?;
                Ok::<_, String>((hash, previous.until_s))
            });
            Ok(Token {
                name: name(&token.name)?,
                digest: parse_token_hash(&token.sha256).map_err(at)?,
                rights: rights(&token.rights).map_err(at)?,
                expires_s: token.expires_s,
                previous: previous.transpose()?,
                last_used_s: Arc::new(AtomicI64::new(token.last_used_s.unwrap_or(0))),
            })
        });
        Ok((users, tokens.collect::<Result<_, String>>()?))
    }

    /// The users and tokens of the configuration, and of these those whose names are free.
    pub fn added_to(&self, configured: &AccessOptions) -> Result<AccessOptions, String> {
        let (users, tokens) = self.checked()?;
        let mut all = configured.clone();
        all.users.extend(users.into_iter().filter(|user| !configured.has_name(&user.name)));
        all.tokens.extend(tokens.into_iter().filter(|token| !configured.has_name(&token.name)));
        if all.users.len() + all.tokens.len() > NAMES_MAX {
            return Err(format!("there are more than {NAMES_MAX} users and tokens; remove some"));
        }
        Ok(all)
    }

    /// Takes over when tokens were used last.
    pub fn note_uses(&mut self, tokens: &[Token]) {
        for kept in &mut self.tokens {
            let token = tokens.iter().find(|token| *token.name == *kept.name);
            let used_s = token.map_or(0, |token| token.last_used_s.load(Relaxed));
            kept.last_used_s = kept.last_used_s.max((used_s > 0).then_some(used_s));
        }
    }

    /// Whether there is a user or a token of that name.
    pub fn has_name(&self, name: &str) -> bool {
        self.users.iter().any(|user| user.name == name)
            || self.tokens.iter().any(|token| token.name == name)
    }
}

fn rights(text: &RightsText) -> Result<Arc<Rights>, String> {
    text.checked().map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::principal::Role;

    const HASH: &str = "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHRzYWx0$\
        MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE";

    fn user(name: &str) -> KeptUser {
        KeptUser {
            name: name.into(),
            rights: RightsText::of_role("read"),
            password_hash: HASH.into(),
            created_s: 7,
        }
    }

    fn token(name: &str) -> KeptToken {
        KeptToken {
            name: name.into(),
            rights: RightsText::of_role("ingest"),
            sha256: "0f".repeat(32),
            created_s: 7,
            expires_s: Some(9),
            previous: Some(PreviousToken { sha256: "1e".repeat(32), until_s: 8 }),
            last_used_s: None,
        }
    }

    fn kept_of(users: Vec<KeptUser>, tokens: Vec<KeptToken>) -> Kept {
        Kept { users, tokens, ..Kept::default() }
    }

    #[test]
    fn the_file_comes_back_as_it_was_written() {
        let kept = kept_of(vec![user("ann")], vec![token("t")]);
        let text = serde_json::to_vec(&kept).unwrap();
        assert_eq!(Kept::parse(&text).unwrap(), kept);
        let (users, tokens) = kept.checked().unwrap();
        assert_eq!((&*users[0].name, users[0].rights.role), ("ann", Role::Read));
        let rights = RightsText {
            filter: Some("app:=shop".into()),
            hide_fields: vec!["client_ip".into()],
            ..RightsText::of_role("read")
        };
        let restricted = kept_of(vec![KeptUser { rights, ..user("bob") }], vec![]);
        let text = serde_json::to_vec(&restricted).unwrap();
        assert_eq!(Kept::parse(&text).unwrap(), restricted);
        assert!(restricted.checked().unwrap().0[0].rights.is_restricted());
        assert_eq!((tokens[0].expires_s, tokens[0].previous), (Some(9), Some(([30; 32], 8))));
    }

    #[test]
    fn a_file_with_a_mistake_is_refused_without_its_secrets() {
        let text = |kept: Kept| serde_json::to_vec(&kept).unwrap();
        for (text, expected) in [
            (b"{".to_vec(), "EOF"),
            (b"{}".to_vec(), "missing field"),
            (b"{\"users\":[],\"tokens\":[],\"more\":1}".to_vec(), "unknown field"),
            (
                b"{\"users\":[{\"name\":\"a\",\"role\":\"read\",\"password_hash\":\"x\",\
                \"created_s\":1,\"filtre\":\"a\"}],\"tokens\":[]}"
                    .to_vec(),
                "unknown field",
            ),
            (text(kept_of(vec![user("a"), user("a")], vec![])), "there twice"),
            (text(kept_of(vec![user("a")], vec![token("a")])), "there twice"),
            (text(kept_of(vec![user("a b")], vec![])), "must consist of letters"),
            (
                text(kept_of(
                    vec![KeptUser { rights: RightsText::of_role("root"), ..user("a") }],
                    vec![],
                )),
                "the role 'root' is not one of",
            ),
            (
                text(kept_of(
                    vec![KeptUser { password_hash: "hunter2".into(), ..user("a") }],
                    vec![],
                )),
                "argon2id",
            ),
            (
                text(kept_of(vec![], vec![KeptToken { sha256: "hunter2".into(), ..token("a") }])),
                "64 hexadecimal digits",
            ),
        ] {
            let why = Kept::parse(&text).unwrap_err();
            assert!(why.contains(expected) && why.contains("access.json"), "{why}");
            assert!(!why.contains("hunter2") && !why.contains("MDEy"), "{why}");
        }
    }

    #[test]
    fn names_of_the_configuration_have_precedence() {
        let (users, tokens) = kept_of(vec![user("ann")], vec![token("t")]).checked().unwrap();
        let configured = AccessOptions { users, tokens, ..AccessOptions::default() };
        let admin = KeptUser { rights: RightsText::of_role("admin"), ..user("ann") };
        let kept = kept_of(vec![admin, user("bob")], vec![token("u")]);
        let all = kept.added_to(&configured).unwrap();
        let named =
            all.users.iter().map(|user| (&*user.name, user.rights.role)).collect::<Vec<_>>();
        assert_eq!(named, [("ann", Role::Read), ("bob", Role::Read)]);
        assert_eq!(all.tokens.len(), 2);
    }

    #[test]
    fn uses_are_taken_over_and_never_go_back() {
        let mut kept = kept_of(vec![], vec![token("t"), token("u")]);
        let (_, tokens) = kept.checked().unwrap();
        tokens[0].used(50);
        tokens[0].used(40);
        kept.note_uses(&tokens);
        kept.note_uses(&[]);
        assert_eq!((kept.tokens[0].last_used_s, kept.tokens[1].last_used_s), (Some(50), None));
    }
}
