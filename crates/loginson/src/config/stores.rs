//! `[stores]`: the stores whose lines this server answers for.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use node::cluster::StoresOptions;

/// Most stores, in all copies together. A query holds a thread and a connection for each.
///
/// limits.md, Several stores: stores, in all copies together | {} | the configuration is refused
pub const STORES_MAX: usize = 1_024;

/// `[stores]` as written in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawStores {
    pub addresses: Vec<String>,
    pub copies: Vec<Vec<String>>,
    pub token_file: String,
    pub ca_file: String,
}

impl Default for RawStores {
    fn default() -> Self {
        RawStores {
            addresses: Vec::new(),
            copies: Vec::new(),
            token_file: "off".into(),
            ca_file: "off".into(),
        }
    }
}

/// Checks the section; none where there are no stores.
pub fn check(raw: &RawStores) -> Result<Option<StoresOptions>> {
    ensure!(
        raw.addresses.is_empty() || raw.copies.is_empty(),
        "stores: give either addresses or copies; addresses are the stores of the only copy"
    );
    let copies = match raw.copies.is_empty() {
        true => vec![raw.addresses.clone()],
        false => raw.copies.clone(),
    };
    if copies.iter().all(Vec::is_empty) {
        return Ok(None);
    }
    let mut all: Vec<String> = Vec::new();
    let mut checked = Vec::new();
    for copy in copies {
        ensure!(!copy.is_empty(), "stores.copies: a copy has no stores");
        let mut stores = Vec::new();
        for store in copy {
            let url = address("stores", &store)?;
            ensure!(!all.contains(&url), "stores: '{store}' is listed twice");
            all.push(url.clone());
            stores.push(url);
        }
        checked.push(stores);
    }
    ensure!(all.len() <= STORES_MAX, "stores: there are more than {STORES_MAX} stores");
    let (token, ca_file) = (token("stores", &raw.token_file)?, ca_file(&raw.ca_file));
    Ok(Some(StoresOptions { copies: checked, token, ca_file }))
}

/// The token in a file that a section names: other nodes know this one by it.
pub fn token(section: &str, path: &str) -> Result<Option<String>> {
    if path == "off" {
        return Ok(None);
    }
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{section}.token_file: cannot read {path}"))?;
    let token = text.trim().to_owned();
    ensure!(
        !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()),
        "{section}.token_file: {path} does not hold a token alone"
    );
    Ok(Some(token))
}

/// A file with certificates, unless it is off.
pub fn ca_file(text: &str) -> Option<PathBuf> {
    (text != "off").then(|| PathBuf::from(text))
}

/// An address of a section in full: `http://` is added where no scheme is given.
pub fn address(section: &str, text: &str) -> Result<String> {
    let url = text.trim_end_matches('/');
    let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let authority = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let Some(authority) = authority else {
        bail!(
            "{section}: '{text}' is not an address; write for example https://store1.example:9514"
        );
    };
    let port = authority.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>()));
    ensure!(
        matches!(port, Some((host, Ok(_))) if !host.is_empty() && !authority.contains(['/', '@'])),
        "{section}: '{text}' is not an address; write for example http://store1.example:9514, the address of its page"
    );
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(toml: &str) -> Result<Option<StoresOptions>> {
        check(&toml::from_str(toml).unwrap())
    }

    #[test]
    fn stores_are_one_copy_and_mistakes_are_named() {
        assert_eq!(checked("").unwrap(), None);
        let one = checked("addresses = ['a:1', 'https://b.example:2/']").unwrap().unwrap();
        assert_eq!(one.copies, [["http://a:1", "https://b.example:2"]]);
        let two = checked("copies = [['a:1'], ['b:1', 'c:1']]").unwrap().unwrap();
        assert_eq!(two.copies.len(), 2);
        for (text, expected) in [
            ("addresses = ['a']", "not an address"),
            ("addresses = ['ftp://a:1']", "not an address"),
            ("addresses = ['http://u:p@a:1']", "not an address"),
            ("addresses = ['a:1', 'http://a:1/']", "listed twice"),
            ("copies = [['a:1'], []]", "has no stores"),
            ("addresses = ['a:1']\ncopies = [['b:1']]", "either addresses or copies"),
            ("addresses = ['a:1']\ntoken_file = '/nowhere/token'", "cannot read"),
        ] {
            let error = format!("{:#}", checked(text).unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
