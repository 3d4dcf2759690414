//! Evidence that nobody changed what was stored: a chain of hashes over sealed segments.
//!
//! `chain.jsonl` in the data directory is only ever appended to. Each line is a link: a sealed
//! segment with the SHA-256 of its file, or a segment that went and why. A link holds the SHA-256
//! of the line before it, so no link can be changed, left out or moved without changing all that
//! follow. At intervals, and whenever something went, a head is added: a link with a signature
//! (Ed25519) over everything before it. Heads are also written to a second place if one is named,
//! because whoever owns the machine owns the key on it; there they show a chain that was cut off or
//! made anew.
//!
//! What it cannot show: a change before a segment was linked, seconds after it was sealed; lines in
//! hot segments; and, without the second place, a chain made anew with the key. The decision is
//! `docs/decisions/0106-…`.

mod key;
mod stage;
#[cfg(test)]
mod tests;
mod verify;

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use super::backup::destination::Sum;
pub use key::{PublicKey, SigningKey};
pub use stage::{Integrity, IntegrityOptions};
pub use verify::{Verified, verify};

/// Name of the chain in the data directory.
pub const CHAIN_FILE: &str = "chain.jsonl";
/// The longest line of a chain.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// Bytes that are hashed at a time.
const HASH_BYTES: usize = 1 << 20;

/// A line of the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Its place, from 0.
    pub n: u64,
    /// When it was made: RFC 3339.
    pub time: String,
    /// The SHA-256 of the line before it, without its newline; of the first one all zeros.
    pub previous: Sum,
    /// What it says.
    #[serde(flatten)]
    pub what: What,
}

/// What a link says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum What {
    /// The chain begins.
    Begin {
        /// Tells it from all others.
        chain: String,
    },
    /// A segment was sealed.
    Sealed {
        /// Its number.
        segment: u64,
        /// Length of its file.
        bytes: u64,
        /// Lines in it.
        lines: u64,
        /// Of its file.
        sha256: Sum,
    },
    /// A segment went.
    Gone {
        /// Its number.
        segment: u64,
        /// Why.
        why: Why,
        /// The segment that has its lines now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<u64>,
    },
    /// All links before this one are signed.
    Head {
        /// Who signed.
        key: PublicKey,
        /// Over [`signed`].
        signature: String,
    },
}

/// Why a segment went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Its lines are in another segment: merged, encoded again, or without lines that were deleted.
    Rewritten,
    /// The store removed it: retention, or a deletion of all its lines.
    Removed,
    /// It was not there when a server started. Nothing says why.
    Missing,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::Rewritten => "its lines were written into another segment",
            Why::Removed => "retention or a deletion removed it",
            Why::Missing => "it was not there when a server started",
        })
    }
}

/// A head in the second place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadCopy {
    /// The chain.
    pub chain: String,
    /// The place of the head.
    pub n: u64,
    /// The SHA-256 of the line of the head.
    pub sha256: Sum,
    /// The line.
    pub head: Link,
}

/// What a head signs: the chain, its place, and the hash of the line before it.
fn signed(chain: &str, n: u64, previous: Sum) -> Vec<u8> {
    format!("loginson chain 1\n{chain}\n{n}\n{previous}\n").into_bytes()
}

fn sum_of(bytes: &[u8]) -> Sum {
    Sum(digest(&SHA256, bytes).as_ref().try_into().expect("256 bits"))
}

/// Length and SHA-256 of a file.
fn sum_of_file(path: &Path) -> std::io::Result<(u64, Sum)> {
    let mut file = platform::read_regular(path)?;
    let mut context = ring::digest::Context::new(&SHA256);
    let (mut buffer, mut bytes) = (vec![0; HASH_BYTES], 0);
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => {
                context.update(&buffer[..read]);
                bytes += read as u64;
            }
        }
    }
    Ok((bytes, Sum(context.finish().as_ref().try_into().expect("256 bits"))))
}

/// The same; none if the file is not there, because its segment was replaced meanwhile.
fn sum_if_there(path: &Path) -> std::io::Result<Option<(u64, Sum)>> {
    match sum_of_file(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// The end of a chain that is appended to.
struct Chain {
    path: PathBuf,
    file: File,
    /// Its name.
    name: String,
    /// The place of the next link.
    n: u64,
    /// The hash of the last one.
    last: Sum,
    /// Links behind the last head.
    unsigned: u64,
}

impl Chain {
    /// The chain of a data directory, which is begun if there is none; `each` is told its links.
    ///
    /// A last line without newline was being written when a crash came. It is cut off.
    fn open(
        data_dir: &Path,
        name: impl FnOnce() -> String,
        time: &str,
        mut each: impl FnMut(&Link),
    ) -> Result<Chain> {
        let path = data_dir.join(CHAIN_FILE);
        let cannot = || format!("cannot use {}", path.display());
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true);
        let file = options.open(&path).with_context(cannot)?;
        let mut chain = Chain {
            path: path.clone(),
            file,
            name: String::new(),
            n: 0,
            last: Sum([0; 32]),
            unsigned: 0,
        };
        let end = read(&path, |line, link| {
            if let What::Begin { chain: name } = &link.what {
                chain.name.clone_from(name);
            }
            chain.unsigned += 1;
            if matches!(link.what, What::Head { .. }) {
                chain.unsigned = 0;
            }
            (chain.n, chain.last) = (link.n + 1, sum_of(line));
            each(&link);
            Ok(())
        })?;
        chain.file.set_len(end).with_context(cannot)?;
        std::io::Seek::seek(&mut chain.file, std::io::SeekFrom::Start(end)).with_context(cannot)?;
        if chain.n == 0 {
            chain.name = name();
            let begin = What::Begin { chain: chain.name.clone() };
            chain.append(time, begin)?;
            // A power cut must not take the whole chain.
            chain.sync()?;
            File::open(data_dir).and_then(|folder| folder.sync_all()).with_context(cannot)?;
        }
        ensure!(
            !chain.name.is_empty(),
            "{} does not begin as a chain; move it away, and a new one is begun",
            path.display()
        );
        Ok(chain)
    }

    /// Adds a link; returns its line. It is durable after [`sync`](Self::sync).
    fn append(&mut self, time: &str, what: What) -> Result<(Link, Sum)> {
        self.unsigned += 1;
        if matches!(what, What::Head { .. }) {
            self.unsigned = 0;
        }
        let link = Link { n: self.n, time: time.to_owned(), previous: self.last, what };
        let mut line = serde_json::to_vec(&link).expect("plain values");
        let sum = sum_of(&line);
        line.push(b'\n');
        self.file
            .write_all(&line)
            .with_context(|| format!("cannot write {}", self.path.display()))?;
        (self.n, self.last) = (self.n + 1, sum);
        Ok((link, sum))
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data().with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Adds a head.
    fn sign(&mut self, time: &str, key: &SigningKey) -> Result<HeadCopy> {
        let signature = key.sign(&signed(&self.name, self.n, self.last));
        let what = What::Head { key: key.public(), signature };
        let n = self.n;
        let (head, sha256) = self.append(time, what)?;
        self.sync()?;
        Ok(HeadCopy { chain: self.name.clone(), n, sha256, head })
    }
}

/// Reads a chain: each whole line, and the link that it is. Returns where the whole lines end.
fn read(path: &Path, mut each: impl FnMut(&[u8], Link) -> Result<()>) -> Result<u64> {
    let file = platform::read_regular(path);
    let mut reader =
        BufReader::new(file.with_context(|| format!("cannot read {}", path.display()))?);
    let (mut end, mut number, mut line) = (0, 0, Vec::new());
    loop {
        line.clear();
        let read = (&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        let Some(text) = line.strip_suffix(b"\n") else {
            ensure!(
                (read as u64) < LINE_BYTES_MAX,
                "{}: line {} is too long: the chain is broken there",
                path.display(),
                number + 1
            );
            return Ok(end);
        };
        number += 1;
        let link: Link = serde_json::from_slice(text).with_context(|| {
            format!("{}: line {number} is no link: the chain is broken there", path.display())
        })?;
        each(text, link)?;
        end += read as u64;
    }
}
