//! `[[users]]`, `[[tokens]]`, `[access]` and `[http_tls]`.
//!
//! The configuration contains only hashes: argon2id of passwords, SHA-256 of tokens (which are
//! random). Each hash is in the configuration file, or in a file of its own. No message shows a
//! hash.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use argon2::password_hash::phc::PasswordHash;
use collector::{ClientCertificates, TlsFiles};
use ring::digest::SHA256;

use crate::config::raw::{RawAccess, RawHttpTls, RawToken, RawUser};
use crate::config::{duration, unless_off};
use api::access::principal::Role;
use api::access::users::{AccessOptions, Token, User};

/// Limit of a name, in characters.
const NAME_CHARS_MAX: usize = 64;
/// Limit of the number of users and tokens together.
const NAMES_MAX: usize = 10_000;
/// The most that computing a hash may cost: KiB of memory, passes, lanes. Beyond it, a few logins
/// could exhaust the memory of the machine.
const HASH_KIB_MAX: u32 = 256 << 10;
const HASH_PASSES_MAX: u32 = 64;
const HASH_LANES_MAX: u32 = 16;
/// Secrets whose hashes are refused, and what they are. The gate refuses an empty token as well.
const GUESSED: [(&str, &str); 3] =
    [("", "an empty text"), ("\n", "an empty line"), ("test", "`test`")];
/// The shortest and the longest session.
const SESSION_MIN: Duration = Duration::from_secs(1);
const SESSION_MAX: Duration = Duration::from_secs(366 * 86_400);

/// Checks names, hashes and roles.
pub fn access(access: &RawAccess, users: &[RawUser], tokens: &[RawToken]) -> Result<AccessOptions> {
    let session_max = duration("access.session_max", &access.session_max)?;
    ensure!(
        (SESSION_MIN..=SESSION_MAX).contains(&session_max),
        "access.session_max must be between 1s and 366d"
    );
    ensure!(
        users.len() + tokens.len() <= NAMES_MAX,
        "there are more than {NAMES_MAX} users and tokens"
    );
    let mut names = HashSet::new();
    let mut checked = |kind: &str, name: &str| {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._@-".contains(c);
        ensure!(
            !name.is_empty() && name.len() <= NAME_CHARS_MAX && name.chars().all(is_allowed),
            "{kind}: the name '{name}' must consist of letters, digits and . _ @ -, \
             {NAME_CHARS_MAX} at most"
        );
        ensure!(names.insert(name.to_owned()), "{kind}: the name '{name}' is given twice");
        Ok(Arc::<str>::from(name))
    };
    let users = users.iter().map(|raw| {
        let name = checked("users", &raw.name)?;
        let at = |error: anyhow::Error| error.context(format!("users: {name}"));
        let hash = secret("password_hash", &raw.password_hash, &raw.password_hash_file);
        let hash = hash.and_then(|text| password_hash(&text)).map_err(at)?;
        Ok(User { role: role(&raw.role).map_err(at)?, hash, name })
    });
    let users = users.collect::<Result<_>>()?;
    let tokens = tokens.iter().map(|raw| {
        let name = checked("tokens", &raw.name)?;
        let at = |error: anyhow::Error| error.context(format!("tokens: {name}"));
        let digest = secret("sha256", &raw.sha256, &raw.sha256_file);
        let digest = digest.and_then(|text| token_digest(&text)).map_err(at)?;
        Ok(Token { role: role(&raw.role).map_err(at)?, digest, name })
    });
    Ok(AccessOptions { users, tokens: tokens.collect::<Result<_>>()?, session_max })
}

fn role(name: &str) -> Result<Role> {
    Role::parse(name).ok_or_else(|| {
        let known = Role::ALL.map(Role::name).join(", ");
        anyhow!("the role '{name}' is not one of {known}")
    })
}

/// The value of a key, or the content of the file that the key with the suffix `_file` names.
fn secret(key: &str, text: &Option<String>, file: &Option<String>) -> Result<String> {
    match (text, file) {
        (Some(text), None) => Ok(text.trim().to_owned()),
        (None, Some(file)) => {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("{key}_file: cannot read {file}"))?;
            Ok(text.trim().to_owned())
        }
        (Some(_), Some(_)) => bail!("{key} and {key}_file are both set; leave one of them out"),
        (None, None) => {
            bail!("{key} is missing; set it, or name a file that contains it in {key}_file")
        }
    }
}

fn password_hash(text: &str) -> Result<PasswordHash> {
    let wrong = || {
        anyhow!(
            "the password_hash is not one of argon2id, which begins with $argon2id$; make it with \
             `loginson hash-password`"
        )
    };
    let hash = PasswordHash::new(text).map_err(|_| wrong())?;
    ensure!(hash.algorithm.as_str() == "argon2id" && hash.hash.is_some(), wrong());
    let params = argon2::Params::try_from(&hash).map_err(|_| wrong())?;
    ensure!(
        params.m_cost() <= HASH_KIB_MAX
            && params.t_cost() <= HASH_PASSES_MAX
            && params.p_cost() <= HASH_LANES_MAX,
        "the password_hash takes too much to compute (m={},t={},p={}); at most \
         m={HASH_KIB_MAX},t={HASH_PASSES_MAX},p={HASH_LANES_MAX} are taken",
        params.m_cost(),
        params.t_cost(),
        params.p_cost()
    );
    Ok(hash)
}

fn token_digest(text: &str) -> Result<[u8; 32]> {
    let wrong = || {
        anyhow!(
            "sha256 must be a hash of 64 hexadecimal digits; `loginson make-token` prints a \
             token and its hash"
        )
    };
    ensure!(text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()), wrong());
    let mut digest = [0; 32];
    for (byte, digits) in digest.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
        *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
    }
    for (secret, what) in GUESSED {
        ensure!(
            ring::digest::digest(&SHA256, secret.as_bytes()).as_ref() != digest,
            "sha256 is the hash of {what}, which everybody can guess; `loginson make-token` prints a \
             token and its hash"
        );
    }
    Ok(digest)
}

/// The files of HTTPS; none if it is off.
pub fn http_tls(raw: &RawHttpTls) -> Result<Option<TlsFiles>> {
    let file = |text: &str| unless_off(text, |path| Ok(path.into()));
    match (file(&raw.certificate)?, file(&raw.key)?) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles {
            certificate,
            key,
            clients: ClientCertificates::Off,
            section: "http_tls",
        })),
        (Some(_), None) => {
            bail!("http_tls.certificate needs http_tls.key, the PEM file of its private key")
        }
        (None, Some(_)) => {
            bail!("http_tls.key needs http_tls.certificate, the PEM file of its certificate")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHRzYWx0$\
        MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE";

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const TEST: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

    fn user(name: &str, hash: &str, role: &str) -> RawUser {
        RawUser {
            name: name.into(),
            password_hash: Some(hash.into()),
            password_hash_file: None,
            role: role.into(),
        }
    }

    fn token(name: &str, sha256: &str, role: &str) -> RawToken {
        RawToken {
            name: name.into(),
            sha256: Some(sha256.into()),
            sha256_file: None,
            role: role.into(),
        }
    }

    fn checked(users: &[RawUser], tokens: &[RawToken]) -> Result<AccessOptions> {
        access(&RawAccess::default(), users, tokens)
    }

    #[test]
    fn it_is_off_without_names() {
        let off = checked(&[], &[]).unwrap();
        assert!(off.is_off() && off.session_max == Duration::from_secs(12 * 3600));
        let hex = "0f".repeat(32);
        let on = checked(&[user("ann", HASH, "read")], &[token("t.1", &hex, "ingest")]).unwrap();
        assert!(!on.is_off());
        assert_eq!(on.tokens[0].digest, [15; 32]);
        assert_eq!(
            format!("{:?} {:?}", on.users, on.tokens),
            "[User(ann read)] [Token(t.1 ingest)]"
        );
    }

    #[test]
    fn errors_do_not_contain_the_secret() {
        let hex = "0f".repeat(32);
        let large = HASH.replace("m=64", "m=4000000");
        for (users, tokens, expected) in [
            (vec![user("", HASH, "read")], vec![], "users: the name ''"),
            (vec![user("a b", HASH, "read")], vec![], "users: the name 'a b'"),
            (vec![user("ann", HASH, "read"); 2], vec![], "'ann' is given twice"),
            (vec![user("ann", HASH, "read")], vec![token("ann", &hex, "read")], "given twice"),
            (vec![user("ann", HASH, "root")], vec![], "the role 'root' is not one of"),
            (vec![user("ann", "hunter2", "read")], vec![], "loginson hash-password"),
            (vec![user("ann", &HASH.replace("2id", "2i"), "read")], vec![], "not one of argon2id"),
            (vec![user("ann", &large, "read")], vec![], "too much to compute"),
            (vec![], vec![token("t", "hunter2", "read")], "loginson make-token"),
            (vec![], vec![token("t", &"é".repeat(32), "read")], "loginson make-token"),
            (vec![], vec![token("t", EMPTY, "read")], "the hash of an empty text"),
            (vec![], vec![token("t", &EMPTY.to_uppercase(), "read")], "the hash of an empty text"),
            (vec![], vec![token("t", TEST, "read")], "the hash of `test`"),
            (
                vec![RawUser { password_hash: None, ..user("ann", "", "read") }],
                vec![],
                "password_hash is missing",
            ),
            (
                vec![RawUser { password_hash_file: Some("x".into()), ..user("ann", HASH, "read") }],
                vec![],
                "both set",
            ),
        ] {
            let error = format!("{:#}", checked(&users, &tokens).unwrap_err());
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("hunter2") && !error.contains("MDEy"), "{error}");
        }
        let short = RawAccess { session_max: "0s".into() };
        assert!(access(&short, &[], &[]).unwrap_err().to_string().contains("between 1s and 366d"));
    }

    #[test]
    fn hashes_may_be_in_files_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hash");
        let mut raw = user("ann", "", "read");
        (raw.password_hash, raw.password_hash_file) = (None, path.to_str().map(str::to_owned));
        let error = format!("{:#}", checked(&[raw.clone()], &[]).unwrap_err());
        assert!(error.contains("password_hash_file: cannot read"), "{error}");
        std::fs::write(&path, format!("{HASH}\n")).unwrap();
        assert_eq!(checked(&[raw], &[]).unwrap().users.len(), 1);
    }

    #[test]
    fn https_needs_both_files() {
        let check = |certificate: &str, key: &str| {
            http_tls(&RawHttpTls { certificate: certificate.into(), key: key.into() })
        };
        assert_eq!(check("off", "off").unwrap(), None);
        assert_eq!(check("c", "k").unwrap().unwrap().section, "http_tls");
        assert!(check("c", "off").unwrap_err().to_string().contains("needs http_tls.key"));
        assert!(check("off", "k").unwrap_err().to_string().contains("needs http_tls.certificate"));
    }
}
