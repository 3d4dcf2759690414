//! `[[access.oidc]]`, `[access.proxy]` and `[[access.groups]]`: who vouches for users, and what
//! their groups may do.
//!
//! The secret of a client is in a file or in a variable, never in the configuration.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow, ensure};
use api::access::certificates::{self, NamedBy};
use api::access::groups::{GROUP_RULES_MAX, GroupRule, Groups};
use api::access::ldap;
use api::access::limits::LimitsText;
use api::access::oidc::options::{OidcOptions, PROVIDERS_MAX, check_url};
use api::access::proxy::{self, NETWORKS_MAX, Network, Proxy, ProxyOptions};
use api::access::rights::RightsText;
use api::access::users::check_name;
use cluster::engines::Secret;
use http::HeaderName;
use node::ingest::tenants::Tenants;
use serde::{Deserialize, Serialize};

use super::access::rights;
use super::raw::{RawAccess, RawHttpTls};
use super::{duration, unless_off};

/// The shortest and the longest time between two checks of a session at its provider.
const RECHECK_MIN: Duration = Duration::from_secs(1);
const RECHECK_MAX: Duration = Duration::from_secs(86_400);
/// Characters of the name of a system. With it users are named, of 64 characters at most.
const NAME_CHARS_MAX: usize = 24;
/// What has a meaning of its own in lists of users and in rules.
const OWN: [&str; 4] = ["configuration", "api", proxy::SOURCE, certificates::SOURCE];

/// `[[access.oidc]]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawOidc {
    pub name: String,
    pub issuer: String,
    pub client_id: String,
    #[serde(default)]
    pub client_secret_file: Option<String>,
    #[serde(default)]
    pub client_secret_env: Option<String>,
    #[serde(default = "scopes")]
    pub scopes: Vec<String>,
    #[serde(default = "name_claim")]
    pub name_claim: String,
    #[serde(default = "groups_claim")]
    pub groups_claim: String,
    #[serde(default)]
    pub email_domains: Vec<String>,
    #[serde(default = "recheck_default")]
    pub recheck: String,
    #[serde(default)]
    pub ca_file: Option<String>,
}

fn scopes() -> Vec<String> {
    ["openid", "profile", "email"].map(str::to_owned).to_vec()
}

fn name_claim() -> String {
    "preferred_username".to_owned()
}

fn groups_claim() -> String {
    "groups".to_owned()
}

fn recheck_default() -> String {
    "5m".to_owned()
}

/// `[access.proxy]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawProxy {
    pub from: Vec<String>,
    pub user_header: String,
    pub groups_header: String,
    pub groups_separator: String,
    pub address_header: String,
}

impl Default for RawProxy {
    fn default() -> Self {
        let off = || "off".to_owned();
        RawProxy {
            from: Vec::new(),
            user_header: off(),
            groups_header: off(),
            groups_separator: ",".into(),
            address_header: off(),
        }
    }
}

/// `[[access.groups]]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawGroupRule {
    #[serde(default)]
    pub group: Option<String>,
    #[serde(default)]
    pub from: Option<String>,
    pub role: String,
    #[serde(default)]
    pub filter: Option<String>,
    #[serde(default)]
    pub hide_fields: Vec<String>,
    #[serde(default)]
    pub limits: LimitsText,
    #[serde(default)]
    pub tenant: Option<String>,
}

/// Checks the providers.
pub fn oidc(raw: &RawAccess) -> Result<Vec<OidcOptions>> {
    ensure!(
        raw.oidc.len() <= PROVIDERS_MAX,
        "access.oidc: there are more than {PROVIDERS_MAX} providers"
    );
    let mut names: HashSet<&str> = HashSet::new();
    let mut all = Vec::new();
    for oidc in &raw.oidc {
        let checked = match names.insert(&oidc.name) {
            true => provider(raw, oidc),
            false => Err(anyhow!("the name is given twice")),
        };
        all.push(checked.with_context(|| format!("access.oidc: {}", oidc.name))?);
    }
    Ok(all)
}

fn provider(access: &RawAccess, raw: &RawOidc) -> Result<OidcOptions> {
    check_system(&raw.name)?;
    let external_url = access.external_url.trim_end_matches('/');
    ensure!(
        external_url != "off",
        "set access.external_url to the address of the page, such as https://logs.example: the \
         provider sends browsers back there"
    );
    check_url(external_url).map_err(|why| anyhow!("access.external_url: {why}"))?;
    check_url(&raw.issuer).map_err(|why| anyhow!("issuer: {why}"))?;
    ensure!(!raw.client_id.is_empty(), "client_id is empty; take it from the provider");
    ensure!(raw.scopes.iter().any(|scope| scope == "openid"), "scopes: openid must be one of them");
    let is_domain = |domain: &String| !domain.is_empty() && !domain.contains('@');
    ensure!(
        raw.email_domains.iter().all(is_domain),
        "email_domains: write what is behind the @, such as example.com"
    );
    let client_secret = secret("client_secret", &raw.client_secret_file, &raw.client_secret_env)?;
    Ok(OidcOptions {
        name: Arc::from(&*raw.name),
        issuer: raw.issuer.clone(),
        client_id: raw.client_id.clone(),
        client_secret,
        scopes: raw.scopes.clone(),
        name_claim: raw.name_claim.clone(),
        groups_claim: raw.groups_claim.clone(),
        email_domains: raw.email_domains.clone(),
        recheck: recheck(&raw.recheck)?,
        ca: raw.ca_file.as_ref().filter(|file| *file != "off").map(Into::into),
        external_url: external_url.to_owned(),
    })
}

/// Checks the name of a system that vouches for users.
pub fn check_system(name: &str) -> Result<()> {
    check_name(name).map_err(Error::msg)?;
    ensure!(
        name.len() <= NAME_CHARS_MAX && !name.contains('@') && !OWN.contains(&name),
        "the name of a provider or a directory has at most {NAME_CHARS_MAX} characters and no @, \
         and is none of {}",
        OWN.join(", ")
    );
    Ok(())
}

/// Checks how often a system is asked whether a session may go on.
pub fn recheck(text: &str) -> Result<Duration> {
    let recheck = duration("recheck", text)?;
    ensure!((RECHECK_MIN..=RECHECK_MAX).contains(&recheck), "recheck must be between 1s and 1d");
    Ok(recheck)
}

/// The secret in the file, or in the variable, that the keys with the suffixes `_file` and `_env`
/// name; none if there is neither.
pub fn secret(
    key: &str,
    file: &Option<String>,
    variable: &Option<String>,
) -> Result<Option<Secret>> {
    let text = match (file, variable) {
        (None, None) => return Ok(None),
        (Some(file), None) => std::fs::read_to_string(file)
            .with_context(|| format!("{key}_file: cannot read {file}"))?,
        (None, Some(name)) => {
            std::env::var(name).map_err(|_| anyhow!("{key}_env: the variable {name} is not set"))?
        }
        (Some(_), Some(_)) => {
            anyhow::bail!("{key}_file and {key}_env are both set; leave one of them out")
        }
    };
    ensure!(!text.trim().is_empty(), "{key}: the secret is empty");
    Ok(Some(Secret::new(text.trim())))
}

/// Checks the settings of proxies; none if there is no proxy.
pub fn proxy(raw: &RawProxy) -> Result<Proxy> {
    let header = |key: &str, name: &str| {
        unless_off(name, |name| {
            HeaderName::try_from(name)
                .map_err(|_| anyhow!("access.proxy.{key}: '{name}' is no header"))
        })
    };
    let user_header = header("user_header", &raw.user_header)?;
    let groups_header = header("groups_header", &raw.groups_header)?;
    let address_header = header("address_header", &raw.address_header)?;
    let has_header = user_header.is_some() || address_header.is_some();
    ensure!(
        groups_header.is_none() || user_header.is_some(),
        "access.proxy.groups_header needs access.proxy.user_header"
    );
    ensure!(
        raw.from.is_empty() != has_header,
        "access.proxy: set `from` to the addresses of the proxy, and user_header, address_header \
         or both to the headers that count from there"
    );
    ensure!(
        raw.from.len() <= NETWORKS_MAX,
        "access.proxy.from: there are more than {NETWORKS_MAX} networks"
    );
    let network = |text: &String| {
        let network = Network::parse(text).ok_or_else(|| {
            anyhow!("access.proxy.from: '{text}' is no network; write 127.0.0.1/32 or 10.0.0.0/8")
        })?;
        ensure!(
            !text.ends_with("/0"),
            "access.proxy.from: with '{text}' everybody could be any user; name the proxy alone"
        );
        Ok(network)
    };
    let from = raw.from.iter().map(network).collect::<Result<Vec<_>>>()?;
    ensure!(!raw.groups_separator.is_empty(), "access.proxy.groups_separator is empty");
    Ok(has_header.then(|| {
        Arc::new(ProxyOptions {
            from,
            user_header,
            groups_header,
            groups_separator: raw.groups_separator.clone(),
            address_header,
        })
    }))
}

/// By which of their names certificates name users; none if no rule is for them.
pub fn certificates(raw: &RawAccess, http_tls: &RawHttpTls) -> Result<Option<NamedBy>> {
    let known = NamedBy::ALL.iter().find(|(name, _)| *name == http_tls.client_name);
    let (_, named_by) = known.ok_or_else(|| {
        let all = NamedBy::ALL.map(|(name, _)| name).join(", ");
        anyhow!("http_tls.client_name: '{}' is not one of {all}", http_tls.client_name)
    })?;
    let is_for_them =
        |rule: &RawGroupRule| rule.from.as_deref().is_none_or(|from| from == certificates::SOURCE);
    let is_on = http_tls.client_certificates != "off" && raw.groups.iter().any(is_for_them);
    Ok(is_on.then_some(*named_by))
}

/// Checks the rules of groups.
pub fn groups(raw: &RawAccess, http_tls: &RawHttpTls, tenants: &Tenants) -> Result<Groups> {
    ensure!(
        raw.groups.len() <= GROUP_RULES_MAX,
        "access.groups: there are more than {GROUP_RULES_MAX} rules"
    );
    let mut known: Vec<&str> = raw.oidc.iter().map(|oidc| &*oidc.name).collect();
    let by_proxy = raw.proxy.user_header != "off";
    known.extend(raw.ldap.iter().map(|ldap| &*ldap.name));
    known.extend(by_proxy.then_some(proxy::SOURCE));
    let needs_rules = !known.is_empty();
    let by_certificate = http_tls.client_certificates != "off";
    known.extend(by_certificate.then_some(certificates::SOURCE));
    // Directories tell the names of entries in a normalised form, too.
    let is_entry = |rule: &RawGroupRule, group: &str| {
        let of_directory = raw.ldap.iter().any(|ldap| rule.from.as_ref() == Some(&ldap.name));
        of_directory && group.contains('=')
    };
    let rule = |rule: &RawGroupRule| {
        let at = |error: Error| error.context("access.groups");
        if let Some(from) = &rule.from
            && !known.contains(&&**from)
        {
            return Err(at(anyhow!(
                "from: there is no provider, directory or other system '{from}'"
            )));
        }
        if rule.group.as_ref().is_none_or(String::is_empty) && rule.from.is_none() {
            return Err(at(anyhow!(
                "name a group, or with `from` a system all of whose users are meant"
            )));
        }
        let text = RightsText {
            role: rule.role.clone(),
            filter: rule.filter.clone(),
            hide_fields: rule.hide_fields.clone(),
            limits: rule.limits.clone(),
            tenant: rule.tenant.clone(),
        };
        Ok(GroupRule {
            from: rule.from.as_deref().map(Into::into),
            group: rule.group.as_deref().map(|group| match is_entry(rule, group) {
                true => ldap::names::normalised(group).into(),
                false => group.into(),
            }),
            rights: Arc::new(rights(&text, tenants).map_err(at)?),
        })
    };
    let rules = raw.groups.iter().map(rule).collect::<Result<Vec<_>>>()?;
    ensure!(
        !needs_rules || !rules.is_empty(),
        "access: no group may log in; add [[access.groups]] with group = \"…\" and a role"
    );
    Ok(Groups(rules))
}

#[cfg(test)]
mod tests {
    use api::access::certificates::NamedBy;

    use crate::config::Config;
    use crate::config::raw::RawConfig;

    const PROVIDER: &str = "[access]\nexternal_url = 'https://logs.example/'\n[[access.oidc]]\n\
        name = 'corp'\nissuer = 'https://id.example'\nclient_id = 'loginson'\n";
    const GROUP: &str = "[[access.groups]]\ngroup = 'ops'\nrole = 'operate'\n";

    fn checked(text: &str) -> Result<Config, String> {
        let raw = RawConfig::parse(text)?;
        Config::try_from(raw).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn providers_and_groups() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secret");
        std::fs::write(&file, "hunter2\n").unwrap();
        let secret = format!("client_secret_file = '{}'\n", file.display());
        let config = checked(&format!("{PROVIDER}{secret}{GROUP}")).unwrap();
        let access = config.api.access;
        assert!(!access.is_off() && !access.has_admin());
        let [oidc] = &access.oidc[..] else { panic!() };
        assert_eq!(oidc.redirect_uri(), "https://logs.example/api/v1/login/oidc/corp/callback");
        assert_eq!(oidc.client_secret.as_ref().unwrap().expose(), "hunter2");
        assert!(!format!("{access:?}").contains("hunter2"));
        assert_eq!((oidc.recheck.as_secs(), oidc.scopes.len()), (300, 3));
        let everybody = "[[access.groups]]\nfrom = 'corp'\nrole = 'admin'\n";
        assert!(checked(&format!("{PROVIDER}{everybody}")).unwrap().api.access.has_admin());
    }

    #[test]
    fn mistakes_name_their_remedy() {
        let with = |from: &str, to: &str| format!("{}{GROUP}", PROVIDER.replace(from, to));
        for (text, expected) in [
            (PROVIDER.to_owned(), "no group may log in; add [[access.groups]]"),
            (with("external_url = 'https://logs.example/'", ""), "set access.external_url"),
            (with("https://logs.example/", "http://logs.example"), "must begin with https://"),
            (with("https://id.example", "http://id.example"), "issuer: 'http://id.example' must"),
            (with("https://id.example", "id.example"), "must begin with https://"),
            (with("https://id.example", "https://a@id.example"), "is not an address"),
            (with("'corp'", "'a b'"), "must consist of letters"),
            (with("'corp'", "'a@b'"), "no @"),
            (with("'corp'", "'api'"), "none of configuration, api"),
            (with("'loginson'", "''"), "client_id is empty"),
            (with("client_id", "scopes = ['email']\nclient_id"), "openid must be one of them"),
            (with("client_id", "recheck = '0s'\nclient_id"), "between 1s and 1d"),
            (with("client_id", "email_domains = ['a@b']\nclient_id"), "behind the @"),
            (
                with("client_id", "client_secret_env = 'NO_SUCH_VARIABLE'\nclient_id"),
                "NO_SUCH_VARIABLE is not set",
            ),
            (
                with("client_id", "client_secret_file = '/no/such'\nclient_id"),
                "cannot read /no/such",
            ),
            (format!("{PROVIDER}{}", GROUP.replace("operate", "root")), "'root' is not one of"),
            (
                format!("{PROVIDER}{}", GROUP.replace("group = 'ops'", "from = 'x'")),
                "there is no provider, directory or other system 'x'",
            ),
            (format!("{PROVIDER}{}", GROUP.replace("group = 'ops'", "")), "name a group, or"),
        ] {
            let error = checked(&text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        for (text, expected) in [
            ("user_header = 'X-User'", "set `from` to the addresses"),
            ("from = ['10.0.0.0/8']", "set `from` to the addresses"),
            ("from = ['10.0.0.1/8']\nuser_header = 'X-User'", "'10.0.0.1/8' is no network"),
            ("from = ['0.0.0.0/0']\nuser_header = 'X-User'", "everybody could be any user"),
            ("from = ['::1']\nuser_header = 'X User'", "'X User' is no header"),
            (
                "from = ['::1']\naddress_header = 'a'\ngroups_header = 'b'",
                "needs access.proxy.user",
            ),
            ("from = ['::1']\nuser_header = 'a'\ngroups_separator = ''", "separator is empty"),
        ] {
            let error = checked(&format!("[access.proxy]\n{text}\n{GROUP}")).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let proxy = "[access.proxy]\nfrom = ['::1']\nuser_header = 'X-User'\n";
        assert!(checked(proxy).unwrap_err().contains("no group may log in"));
        let access = checked(&format!("{proxy}{GROUP}")).unwrap().api.access;
        assert!(!access.is_off() && !access.proxy.unwrap().is_from([0; 16].into()));
        let addresses = "[access.proxy]\nfrom = ['::1']\naddress_header = 'X-Forwarded-For'\n";
        assert!(checked(addresses).unwrap().api.access.is_off());
        let tls = "[http_tls]\ncertificate = 'c'\nkey = 'k'\nclient_ca = 'a'\n\
            client_certificates = 'optional'\n";
        let by_certificate = GROUP.replace("role", "from = 'certificate'\nrole");
        let named = |text: String| checked(&text).map(|config| config.api.access.certificates);
        assert_eq!(named(format!("{tls}{by_certificate}")), Ok(Some(NamedBy::CommonName)));
        assert_eq!(named(format!("{tls}client_name = 'dns'\n{GROUP}")), Ok(Some(NamedBy::Host)));
        assert_eq!(named(tls.to_owned()), Ok(None));
        assert_eq!(named(GROUP.to_owned()), Ok(None));
        for (text, expected) in [
            (format!("{tls}client_name = 'x'\n{GROUP}"), "'x' is not one of cn, email, dns"),
            (by_certificate, "directory or other system 'certificate'"),
            (tls.replace("client_ca = 'a'\n", ""), "needs http_tls.client_ca"),
            (tls.replace("certificate = 'c'\nkey = 'k'\n", ""), "needs http_tls.certificate"),
        ] {
            let error = named(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let twice = PROVIDER.split_once("[[").unwrap().1;
        let error = checked(&format!("{PROVIDER}[[{twice}{GROUP}")).unwrap_err();
        assert!(error.contains("corp: the name is given twice"), "{error}");
    }
}
