//! Checks a chain: its links, its signatures, its copies, and the files that it names.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

use super::{CHAIN_FILE, HeadCopy, Link, PublicKey, What, Why, read, signed, sum_of, sum_of_file};
use crate::storage::backup::destination::{Destination, Sum};

/// Length of a copy of a head.
const COPY_BYTES_MAX: u64 = 64 << 10;

/// What was checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Links of the chain.
    pub links: u64,
    /// Heads, whose signatures are right.
    pub heads: u64,
    /// Segments that are there as they were linked.
    pub segments: u64,
    /// Links behind the last head, which nothing vouches for yet.
    pub unsigned: u64,
    /// Sealed files that are not linked (yet).
    pub unlinked: u64,
    /// Heads in the second place.
    pub copies: u64,
    /// Who signed.
    pub key: Option<PublicKey>,
    /// What is wrong.
    pub faults: u64,
}

/// The name of a copy of a head in the second place.
pub(super) fn object(chain: &str, n: u64) -> String {
    format!("chains/{chain}/{n:012}.json")
}

/// Checks the chain of a data directory. `key` is who must have signed it; without it, whoever
/// signed first. `copies` is the second place. `fault` is told each fault as a sentence.
///
/// Errors: there is no chain; files cannot be read.
pub fn verify(
    data_dir: &Path,
    key: Option<PublicKey>,
    copies: Option<&Destination>,
    mut fault: impl FnMut(String),
) -> Result<Verified> {
    let path = data_dir.join(CHAIN_FILE);
    let mut verified = Verified { key, ..Verified::default() };
    let mut faults = 0;
    let mut tell = |text: String| {
        faults += 1;
        fault(text);
    };
    // Places and hashes of heads, and segments with the place of their link.
    let mut chain = String::new();
    let mut heads: BTreeMap<u64, Sum> = BTreeMap::new();
    let mut segments: BTreeMap<u64, (u64, u64, Sum)> = BTreeMap::new();
    let (mut expected_n, mut last) = (0, Sum([0; 32]));
    let outcome = read(&path, |line, link| {
        let Link { n, previous, time, what } = link;
        if n != expected_n || previous != last {
            let why = match n == expected_n {
                true => "it does not hold the hash of the link before it",
                false => "links are missing before it, or it was moved",
            };
            tell(format!("{CHAIN_FILE}: the chain is broken at link {expected_n}: {why} ({time})"));
        }
        match what {
            What::Begin { chain: name } => chain = name,
            What::Sealed { segment, bytes, sha256, .. } => {
                segments.insert(segment, (n, bytes, sha256));
            }
            What::Gone { segment, why, .. } => {
                if segments.remove(&segment).is_none() {
                    tell(format!(
                        "{CHAIN_FILE}: link {n}: segment {segment} went, and was not there"
                    ));
                }
                if why == Why::Missing {
                    tell(format!(
                        "segment {segment}: {why} ({time}), and nothing says why: somebody deleted it, or retention did so in \
                         the seconds before a crash"
                    ));
                }
            }
            What::Head { key, signature } => {
                let by = *verified.key.get_or_insert(key);
                if by != key {
                    tell(format!(
                        "{CHAIN_FILE}: link {n} is signed by another key: expected {by}, found {key}"
                    ));
                } else if !key.verifies(&signed(&chain, n, previous), &signature) {
                    tell(format!("{CHAIN_FILE}: the signature of link {n} is wrong ({time})"));
                } else {
                    verified.heads += 1;
                }
                heads.insert(n, sum_of(line));
            }
        }
        verified.links += 1;
        verified.unsigned = if heads.contains_key(&n) { 0 } else { verified.unsigned + 1 };
        (expected_n, last) = (n + 1, sum_of(line));
        Ok(())
    });
    if let Err(error) = outcome {
        if copies.is_none() || path.exists() && verified.links == 0 {
            return Err(error.context("there is no chain that can be read"));
        }
        tell(crate::process::log::one_line(&error));
    }
    for (segment, (n, bytes, sha256)) in &segments {
        let file = data_dir.join(store::SEGMENTS_DIR).join(format!("{segment}.sealed"));
        match sum_of_file(&file) {
            Ok(found) if found == (*bytes, *sha256) => verified.segments += 1,
            Ok((found_bytes, found)) => tell(format!(
                "segment {segment} was changed since link {n}: expected {bytes} bytes with the SHA-256 {sha256}, found \
                 {found_bytes} with {found}"
            )),
            Err(error) => {
                tell(format!("segment {segment} is missing, which link {n} names: {error}"))
            }
        }
    }
    verified.unlinked = unlinked(data_dir, &segments)?;
    if let Some(copies) = copies {
        verified.copies = of_copies(copies, &chain, expected_n, &heads, verified.key, &mut tell)?;
    }
    verified.faults = faults;
    Ok(verified)
}

fn unlinked(data_dir: &Path, segments: &BTreeMap<u64, (u64, u64, Sum)>) -> Result<u64> {
    let folder = data_dir.join(store::SEGMENTS_DIR);
    let entries = std::fs::read_dir(&folder);
    let entries = entries.with_context(|| format!("cannot list {}", folder.display()))?;
    let mut unlinked = 0;
    for entry in entries {
        let name = entry?.file_name();
        let sealed = name.to_str().and_then(|name| name.strip_suffix(".sealed"));
        let number = sealed.and_then(|number| number.parse::<u64>().ok());
        unlinked += u64::from(number.is_some_and(|number| !segments.contains_key(&number)));
    }
    Ok(unlinked)
}

/// Compares heads of the second place with those of the chain.
fn of_copies(
    copies: &Destination,
    chain: &str,
    links: u64,
    heads: &BTreeMap<u64, Sum>,
    key: Option<PublicKey>,
    tell: &mut impl FnMut(String),
) -> Result<u64> {
    let names = copies.names("chains/")?;
    let mut of_this = 0;
    let mut others: Vec<String> = Vec::new();
    for (name, _) in names {
        let text = copies.read(&name, COPY_BYTES_MAX)?;
        let Ok(copy) = serde_json::from_slice::<HeadCopy>(&text) else {
            tell(format!("{name} of {copies} is no head: it was changed there"));
            continue;
        };
        if name != object(&copy.chain, copy.n) {
            tell(format!("{name} of {copies} is the head of another place: it was changed there"));
            continue;
        }
        if copy.chain != chain {
            others.push(copy.chain);
            continue;
        }
        of_this += 1;
        let line = serde_json::to_vec(&copy.head).expect("plain values");
        let is_signed = match &copy.head.what {
            What::Head { key: by, signature } => {
                key.is_none_or(|key| key == *by)
                    && by.verifies(&signed(chain, copy.n, copy.head.previous), signature)
            }
            _ => false,
        };
        if copy.head.n != copy.n || sum_of(&line) != copy.sha256 || !is_signed {
            tell(format!(
                "{name} of {copies} is not signed as it should be: it was changed there, or the chain's key was"
            ));
        } else if copy.n >= links {
            tell(format!(
                "the chain was cut off: {copies} has a head at link {} ({}), and the chain ends before link {links}",
                copy.n, copy.head.time
            ));
        } else if heads.get(&copy.n) != Some(&copy.sha256) {
            tell(format!(
                "the chain was made anew: {copies} has another head at link {} ({})",
                copy.n, copy.head.time
            ));
        }
    }
    if of_this == 0 {
        others.dedup();
        let has = match others.is_empty() {
            true => "none at all".to_owned(),
            false => format!("those of {}", others.join(", ")),
        };
        tell(format!(
            "{copies} has no head of this chain ({chain}) but {has}: the chain was made anew, or it is another place"
        ));
    }
    Ok(of_this)
}
