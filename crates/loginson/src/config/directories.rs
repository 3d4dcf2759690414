//! `[[access.ldap]]`: directories by whose passwords users log in.
//!
//! The password of the account that searches is in a file or in a variable, never in the
//! configuration.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use api::access::ldap::filter::Filter;
use api::access::ldap::options::{DIRECTORIES_MAX, LdapOptions, SERVERS_MAX, Server};
use cluster::engines::Secret;
use serde::Deserialize;

use super::duration;
use super::logins::{check_system, recheck, secret};
use super::raw::RawAccess;

/// The shortest and the longest time that a server may take for a login.
const TIMEOUT_MIN: Duration = Duration::from_secs(1);
const TIMEOUT_MAX: Duration = Duration::from_secs(30);

/// `[[access.ldap]]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawLdap {
    pub name: String,
    pub servers: Vec<String>,
    #[serde(default = "yes")]
    pub start_tls: bool,
    #[serde(default)]
    pub ca_file: Option<String>,
    #[serde(default)]
    pub bind_dn: Option<String>,
    #[serde(default)]
    pub bind_password_file: Option<String>,
    #[serde(default)]
    pub bind_password_env: Option<String>,
    pub user_base: String,
    #[serde(default = "user_filter")]
    pub user_filter: String,
    #[serde(default = "name_attribute")]
    pub name_attribute: String,
    #[serde(default = "groups_attribute")]
    pub groups_attribute: String,
    #[serde(default)]
    pub groups_base: Option<String>,
    #[serde(default)]
    pub groups_filter: Option<String>,
    #[serde(default = "recheck_default")]
    pub recheck: String,
    #[serde(default = "timeout")]
    pub timeout: String,
}

fn yes() -> bool {
    true
}

fn user_filter() -> String {
    "(uid={user})".to_owned()
}

fn name_attribute() -> String {
    "uid".to_owned()
}

fn groups_attribute() -> String {
    "memberOf".to_owned()
}

fn recheck_default() -> String {
    "5m".to_owned()
}

fn timeout() -> String {
    "5s".to_owned()
}

/// Checks the directories.
pub fn ldap(raw: &RawAccess) -> Result<Vec<LdapOptions>> {
    ensure!(
        raw.ldap.len() <= DIRECTORIES_MAX,
        "access.ldap: there are more than {DIRECTORIES_MAX} directories"
    );
    let mut names: HashSet<&str> = raw.oidc.iter().map(|oidc| &*oidc.name).collect();
    let mut all = Vec::new();
    for ldap in &raw.ldap {
        let checked = match names.insert(&ldap.name) {
            true => directory(ldap),
            false => Err(anyhow!("the name is given twice")),
        };
        all.push(checked.with_context(|| format!("access.ldap: {}", ldap.name))?);
    }
    Ok(all)
}

fn directory(raw: &RawLdap) -> Result<LdapOptions> {
    check_system(&raw.name)?;
    ensure!(
        (1..=SERVERS_MAX).contains(&raw.servers.len()),
        "servers: name between 1 and {SERVERS_MAX}, such as ldaps://dc.example"
    );
    let server =
        |url: &String| Server::parse(url, raw.start_tls).map_err(|why| anyhow!("servers: {why}"));
    let servers = raw.servers.iter().map(server).collect::<Result<Vec<_>>>()?;
    ensure!(!raw.user_base.trim().is_empty(), "user_base is empty; name the entry above users");
    let user_filter = filter("user_filter", &raw.user_filter)?;
    ensure!(
        user_filter.names_user(),
        "user_filter: {{user}} must be in it, for the name that somebody typed"
    );
    ensure!(!user_filter.names_dn(), "user_filter: {{dn}} is known only after it has found a user");
    let given = |text: &Option<String>| {
        text.as_deref()
            .map(str::trim)
            .filter(|text| !text.is_empty() && *text != "off")
            .map(str::to_owned)
    };
    let groups_base = given(&raw.groups_base);
    let groups_filter = given(&raw.groups_filter);
    let groups_filter = groups_filter.map(|text| filter("groups_filter", &text)).transpose()?;
    if let Some(filter) = &groups_filter {
        ensure!(groups_base.is_some(), "groups_filter needs groups_base, the entry above groups");
        ensure!(
            filter.names_dn() || filter.names_user(),
            "groups_filter: {{dn}} or {{user}} must be in it, or all groups would be the user's"
        );
    }
    for (key, name) in
        [("name_attribute", &raw.name_attribute), ("groups_attribute", &raw.groups_attribute)]
    {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        ensure!(
            !name.is_empty() && name.bytes().all(is_part),
            "{key}: '{name}' is no name of an attribute"
        );
    }
    let password = secret("bind_password", &raw.bind_password_file, &raw.bind_password_env)?;
    let account: Option<(String, Secret)> = match (given(&raw.bind_dn), password) {
        (Some(dn), Some(password)) => Some((dn, password)),
        (None, None) => None,
        (Some(_), None) => anyhow::bail!("bind_dn needs bind_password_file or bind_password_env"),
        (None, Some(_)) => anyhow::bail!("the password of bind_dn is given, and bind_dn is not"),
    };
    let timeout = duration("timeout", &raw.timeout)?;
    ensure!((TIMEOUT_MIN..=TIMEOUT_MAX).contains(&timeout), "timeout must be between 1s and 30s");
    Ok(LdapOptions {
        name: Arc::from(&*raw.name),
        servers,
        ca: given(&raw.ca_file).map(Into::into),
        account,
        user_base: raw.user_base.trim().to_owned(),
        user_filter,
        name_attribute: raw.name_attribute.clone(),
        groups_attribute: given(&Some(raw.groups_attribute.clone())),
        groups_base,
        groups_filter,
        recheck: recheck(&raw.recheck)?,
        timeout,
    })
}

fn filter(key: &str, text: &str) -> Result<Filter> {
    Filter::parse(text).map_err(|why| anyhow!("{key}: {why}"))
}

#[cfg(test)]
mod tests {
    use api::access::ldap::options::Encryption;

    use crate::config::Config;
    use crate::config::raw::RawConfig;

    const DIRECTORY: &str = "[[access.ldap]]\nname = 'corp'\nservers = ['ldaps://dc.example']\n\
        user_base = 'ou=people,dc=x'\n";
    const GROUP: &str = "[[access.groups]]\ngroup = 'CN=Ops, OU=groups, DC=x'\nfrom = 'corp'\n\
        role = 'operate'\n";

    fn checked(text: &str) -> Result<Config, String> {
        let raw = RawConfig::parse(text)?;
        Config::try_from(raw).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn directories() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        std::fs::write(&file, "hunter2\n").unwrap();
        let account =
            format!("bind_dn = 'cn=reader,dc=x'\nbind_password_file = '{}'\n", file.display());
        let more = "groups_base = 'ou=groups,dc=x'\ngroups_filter = '(member={dn})'\n\
                    groups_attribute = 'off'\nca_file = '/ca.pem'\n";
        let config = checked(&format!("{DIRECTORY}{account}{more}{GROUP}")).unwrap();
        let access = config.api.access;
        assert!(!access.is_off());
        let [ldap] = &access.ldap[..] else { panic!() };
        assert_eq!(ldap.account.as_ref().unwrap().1.expose(), "hunter2");
        assert!(!format!("{access:?}").contains("hunter2"));
        assert_eq!((ldap.servers[0].port, ldap.servers[0].encryption), (636, Encryption::Tls));
        assert_eq!((ldap.recheck.as_secs(), ldap.timeout.as_secs()), (300, 5));
        assert_eq!((&*ldap.name_attribute, &ldap.groups_attribute), ("uid", &None));
        // Names of entries are compared without regard to case and blanks.
        let group = access.groups.0[0].group.as_deref();
        assert_eq!(group, Some("cn=ops,ou=groups,dc=x"));
    }

    #[test]
    fn mistakes_name_their_remedy() {
        let with = |from: &str, to: &str| format!("{}{GROUP}", DIRECTORY.replace(from, to));
        let and = |more: &str| format!("{DIRECTORY}{more}\n{GROUP}");
        for (text, expected) in [
            (DIRECTORY.to_owned(), "no group may log in; add [[access.groups]]"),
            (format!("{DIRECTORY}{DIRECTORY}{GROUP}"), "the name is given twice"),
            (with("'corp'", "'a@b'"), "no @"),
            (with("'corp'", "'proxy'"), "none of configuration, api"),
            (with("'ldaps://dc.example'", ""), "name between 1 and 8"),
            (with("ldaps://", "https://"), "'https://dc.example' is not an address"),
            (
                with("'ldaps://dc.example']", "'ldap://dc.example']\nstart_tls = false"),
                "in the clear",
            ),
            (with("ou=people,dc=x", " "), "user_base is empty"),
            (and("user_filter = '(uid=ann)'"), "{user} must be in it"),
            (and("user_filter = '(&(uid={user})(a={dn}))'"), "{dn} is known only after"),
            (and("user_filter = '(uid={user}'"), "user_filter: a parenthesis is missing"),
            (and("groups_filter = '(member={dn})'"), "needs groups_base"),
            (
                and("groups_base = 'dc=x'\ngroups_filter = '(objectClass=*)'"),
                "{dn} or {user} must be in it",
            ),
            (and("name_attribute = 'a b'"), "is no name of an attribute"),
            (and("bind_dn = 'cn=a'"), "bind_dn needs bind_password_file"),
            (and("bind_password_env = 'NO_SUCH_VARIABLE'"), "NO_SUCH_VARIABLE is not set"),
            (and("timeout = '1h'"), "between 1s and 30s"),
            (and("recheck = '0s'"), "between 1s and 1d"),
            (
                format!("{DIRECTORY}{}", GROUP.replace("'corp'", "'other'")),
                "there is no provider, directory or other system 'other'",
            ),
        ] {
            let error = checked(&text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
