//! `[[users]]`, `[[tokens]]`, `[access]`, `[audit]` and `[http_tls]`.
//!
//! The configuration contains only hashes: argon2id of passwords, SHA-256 of tokens (which are
//! random). Each hash is in the configuration file, or in a file of its own. No message shows a
//! hash.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use collector::{ClientCertificates, TlsFiles};

use crate::config::raw::{RawAccess, RawAudit, RawHttpTls, RawToken, RawUser, RawUserLimits};
use crate::config::{directories, duration, logins, tls, unless_off};
use api::access::gate::Auditing;
use api::access::rights::{Rights, RightsText};
use api::access::secrets::{parse_password_hash, parse_token_hash};
use api::access::users::{AccessOptions, NAMES_MAX, Token, User, check_name};
use node::ingest::tenants::Tenants;

/// The shortest and the longest session.
const SESSION_MIN: Duration = Duration::from_secs(1);
const SESSION_MAX: Duration = Duration::from_secs(366 * 86_400);

/// Checks names, hashes and roles.
pub fn access(
    access: &RawAccess,
    limits: &RawUserLimits,
    http_tls: &RawHttpTls,
    users: &[RawUser],
    tokens: &[RawToken],
    tenants: &Tenants,
) -> Result<AccessOptions> {
    let rights = |text: &RightsText| rights(text, tenants);
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
        check_name(name).map_err(|why| anyhow!("{kind}: {why}"))?;
        ensure!(names.insert(name.to_owned()), "{kind}: the name '{name}' is given twice");
        Ok(Arc::<str>::from(name))
    };
    let users = users.iter().map(|raw| {
        let name = checked("users", &raw.name)?;
        let at = |error: anyhow::Error| error.context(format!("users: {name}"));
        let hash = secret("password_hash", &raw.password_hash, &raw.password_hash_file);
        let hash =
            hash.and_then(|text| parse_password_hash(&text).map_err(Error::msg)).map_err(at)?;
        Ok(User { rights: Arc::new(rights(&raw.rights()).map_err(at)?), hash, name })
    });
    let users = users.collect::<Result<_>>()?;
    let tokens = tokens.iter().map(|raw| {
        let name = checked("tokens", &raw.name)?;
        let at = |error: anyhow::Error| error.context(format!("tokens: {name}"));
        let digest = secret("sha256", &raw.sha256, &raw.sha256_file);
        let digest =
            digest.and_then(|text| parse_token_hash(&text).map_err(Error::msg)).map_err(at)?;
        Ok(Token::new(name.clone(), digest, rights(&raw.rights()).map_err(at)?))
    });
    let limits = limits
        .text()
        .checked()
        .map_err(|why| anyhow!("{}", why.replacen("limits.", "limits.users.", 1)))?;
    Ok(AccessOptions {
        users,
        tokens: tokens.collect::<Result<_>>()?,
        session_max,
        limits,
        oidc: logins::oidc(access)?,
        ldap: directories::ldap(access)?,
        proxy: logins::proxy(&access.proxy)?,
        certificates: logins::certificates(access, http_tls)?,
        groups: logins::groups(access, http_tls, tenants)?,
    })
}

/// The settings of the audit log. In a cluster on engines no node has a store of its own for it.
pub fn auditing(raw: &RawAudit, in_cluster: bool) -> Result<Auditing> {
    ensure!(
        !(raw.enabled && in_cluster),
        "audit.enabled: a node of [cluster] keeps no audit log yet; leave it out there, and let a \
         proxy in front of the nodes log who calls"
    );
    Ok(Auditing { enabled: raw.enabled, admins_read: raw.admins_read })
}

pub fn rights(text: &RightsText, tenants: &Tenants) -> Result<Rights> {
    let rights = text.checked().map_err(Error::msg)?;
    rights.tenant.check(tenants).map_err(Error::msg)?;
    Ok(rights)
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

/// The files of HTTPS; none if it is off.
pub fn http_tls(raw: &RawHttpTls) -> Result<Option<TlsFiles>> {
    let file = |text: &str| unless_off(text, |path| Ok(path.into()));
    let clients = tls::clients("http_tls", &raw.client_certificates, &raw.client_ca)?;
    match (file(&raw.certificate)?, file(&raw.key)?) {
        (None, None) => {
            ensure!(
                clients == ClientCertificates::Off,
                "http_tls.client_certificates needs http_tls.certificate and http_tls.key"
            );
            Ok(None)
        }
        (Some(certificate), Some(key)) => {
            Ok(Some(TlsFiles { certificate, key, clients, section: "http_tls" }))
        }
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
            filter: None,
            hide_fields: Vec::new(),
            limits: Default::default(),
            tenant: None,
        }
    }

    fn token(name: &str, sha256: &str, role: &str) -> RawToken {
        RawToken {
            name: name.into(),
            sha256: Some(sha256.into()),
            sha256_file: None,
            role: role.into(),
            filter: None,
            hide_fields: Vec::new(),
            limits: Default::default(),
            tenant: None,
        }
    }

    fn checked(users: &[RawUser], tokens: &[RawToken]) -> Result<AccessOptions> {
        let (limits, http_tls) = (RawUserLimits::default(), RawHttpTls::default());
        access(&RawAccess::default(), &limits, &http_tls, users, tokens, &Tenants::default())
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
            (
                vec![RawUser { filter: Some("a |".into()), ..user("ann", HASH, "read") }],
                vec![],
                "users: ann: filter: 'a |'",
            ),
            (
                vec![RawUser { tenant: Some("shop".into()), ..user("ann", HASH, "read") }],
                vec![],
                "there are no tenants",
            ),
            (
                vec![RawUser { tenant: Some("shop".into()), ..user("ann", HASH, "admin") }],
                vec![],
                "the role admin is for all tenants",
            ),
            (
                vec![RawUser { hide_fields: vec!["a".into()], ..user("ann", HASH, "admin") }],
                vec![],
                "users: ann: the role admin cannot be restricted",
            ),
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
        let (none, tenants) = (RawUserLimits::default(), Tenants::default());
        let wrong = RawUserLimits { run_max: "soon".into(), ..RawUserLimits::default() };
        let http_tls = RawHttpTls::default();
        let wrong = access(&RawAccess::default(), &wrong, &http_tls, &[], &[], &tenants);
        let why = wrong.unwrap_err().to_string();
        assert!(why.starts_with("limits.users.run_max: 'soon'"), "{why}");
        let short = RawAccess { session_max: "0s".into(), ..RawAccess::default() };
        assert!(
            access(&short, &none, &RawHttpTls::default(), &[], &[], &tenants)
                .unwrap_err()
                .to_string()
                .contains("between 1s and 366d")
        );
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
    fn a_node_of_a_cluster_has_no_audit_log() {
        let raw = RawAudit { enabled: true, admins_read: false };
        assert!(auditing(&raw, false).unwrap().enabled);
        assert!(auditing(&raw, true).unwrap_err().to_string().starts_with("audit.enabled"));
        assert!(auditing(&RawAudit::default(), true).is_ok());
    }

    #[test]
    fn https_needs_both_files() {
        let check = |certificate: &str, key: &str| {
            let (certificate, key) = (certificate.into(), key.into());
            http_tls(&RawHttpTls { certificate, key, ..RawHttpTls::default() })
        };
        assert_eq!(check("off", "off").unwrap(), None);
        assert_eq!(check("c", "k").unwrap().unwrap().section, "http_tls");
        assert!(check("c", "off").unwrap_err().to_string().contains("needs http_tls.key"));
        assert!(check("off", "k").unwrap_err().to_string().contains("needs http_tls.certificate"));
    }
}
