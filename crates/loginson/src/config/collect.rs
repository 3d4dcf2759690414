//! `[collect]`: where `loginson collect` delivers.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use collector::node::ForwardConfig;
use serde::{Deserialize, Serialize};

use crate::config::bytes;

/// With a smaller window, a connection would wait for an acknowledgement after each frame.
const WINDOW_BYTES_MIN: u64 = 1 << 20;
/// Space for one file of the spool, and for a second one. With copies, each store needs it.
const SPOOL_BYTES_MIN: u64 = 256 << 20;

/// `[collect]` as written in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawCollect {
    pub stores: Vec<String>,
    /// limits.md, Several machines: frames for a store of one of several copies (`collect.copies`)
    /// | the same window; 32 MiB wait in memory for each store, and copies share this memory; on
    /// disk an equal share of `collect.spool_bytes_max` for each store | when one store of every
    /// stripe has no room, senders are pushed back, also if other copies have room: lines would
    /// have one copy, and nobody would know (`loginson_copies_frames_held_back_total`)
    pub copies: Vec<Vec<String>>,
    pub spool_dir: PathBuf,
    pub spool_bytes_max: String,
    pub spool: String,
    /// limits.md, Several machines: bytes sent to a store and not acknowledged |
    /// `collect.window_bytes`, 32 MiB for each store | frames wait in memory (32 MiB), after a
    /// second on disk (`collect.spool_bytes_max`); then TCP waits, and datagrams are dropped by the
    /// kernel
    pub window_bytes: String,
}

impl Default for RawCollect {
    fn default() -> Self {
        RawCollect {
            stores: Vec::new(),
            copies: Vec::new(),
            spool_dir: "./loginson-spool".into(),
            spool_bytes_max: "10GiB".into(),
            spool: "overflow".into(),
            window_bytes: "32MiB".into(),
        }
    }
}

impl TryFrom<&RawCollect> for ForwardConfig {
    type Error = anyhow::Error;

    fn try_from(raw: &RawCollect) -> Result<ForwardConfig> {
        ensure!(
            raw.stores.is_empty() || raw.copies.is_empty(),
            "collect: give either stores or copies; each frame goes to one of the stores, or to one store of every copy"
        );
        check_copies(&raw.copies)?;
        let spool_bytes_max = bytes("collect.spool_bytes_max", &raw.spool_bytes_max)?;
        // With copies, each store has a spool of its own.
        let spools = raw.copies.iter().map(Vec::len).sum::<usize>().max(1) as u64;
        ensure!(
            spool_bytes_max / spools >= SPOOL_BYTES_MIN,
            "collect.spool_bytes_max must be at least {}MiB{}",
            (spools * SPOOL_BYTES_MIN) >> 20,
            if spools > 1 { ", 256MiB for each store of each copy" } else { "" }
        );
        let window_bytes = bytes("collect.window_bytes", &raw.window_bytes)?;
        ensure!(window_bytes >= WINDOW_BYTES_MIN, "collect.window_bytes must be at least 1MiB");
        for store in raw.stores.iter().chain(raw.copies.iter().flatten()) {
            let port = store.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>()));
            ensure!(
                matches!(port, Some((host, Ok(_))) if !host.is_empty()),
                "collect: '{store}' is not an address; write for example store1.example:9515"
            );
        }
        Ok(ForwardConfig {
            stores: raw.stores.clone(),
            copies: raw.copies.clone(),
            spool_dir: raw.spool_dir.clone(),
            spool_bytes_max,
            window_bytes: usize::try_from(window_bytes)?,
            spool_always: match raw.spool.as_str() {
                "overflow" => false,
                "always" => true,
                other => bail!("collect.spool: '{other}' is not known; write overflow or always"),
            },
            lost_stores: Vec::new(),
            secret: None,
        })
    }
}

/// Checks the number of stores of each copy, and that each address is listed once.
fn check_copies(copies: &[Vec<String>]) -> Result<()> {
    let Some(first) = copies.first() else { return Ok(()) };
    ensure!(copies.len() > 1, "collect.copies has one copy; write its stores as collect.stores");
    for (index, copy) in copies.iter().enumerate() {
        ensure!(!copy.is_empty(), "collect.copies: copy {} has no stores", index + 1);
        ensure!(
            copy.len() == first.len(),
            "collect.copies: copy 1 has {} stores, copy {} has {}; each copy needs equally many, because a store holds the \
             same lines as the store at its position in the other copies",
            first.len(),
            index + 1,
            copy.len()
        );
    }
    let mut seen = BTreeSet::new();
    let twice = copies.iter().flatten().find(|store| !seen.insert(*store));
    match twice {
        Some(store) => {
            bail!("collect.copies: '{store}' is listed twice; each copy needs stores of its own")
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<ForwardConfig> {
        ForwardConfig::try_from(&toml::from_str::<RawCollect>(text)?)
    }

    #[test]
    fn copies_have_equally_many_stores_each_listed_once() {
        let two = check("copies = [['a:1', 'b:1'], ['c:1', 'd:1']]").unwrap();
        assert_eq!((two.copies.len(), two.stores.len()), (2, 0));
        for (text, expected) in [
            ("stores = ['a:1']\ncopies = [['b:1'], ['c:1']]", "either stores or copies"),
            ("copies = [['a:1']]", "write its stores as collect.stores"),
            ("copies = [['a:1'], []]", "copy 2 has no stores"),
            ("copies = [['a:1'], ['b:1', 'c:1']]", "copy 1 has 1 stores, copy 2 has 2"),
            ("copies = [['a:1'], ['a:1']]", "listed twice"),
            ("copies = [['a:1'], ['b']]", "not an address"),
            ("copies = [['a:1'], ['b:1']]\nspool_bytes_max = '500MiB'", "at least 512MiB"),
            ("spool_bytes_max = '255MiB'", "at least 256MiB"),
        ] {
            let error = check(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
