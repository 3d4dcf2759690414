//! Where backups outlive the disk of the store: a directory on another disk, or S3 storage. Every
//! backup there is whole, and takes space only for what the others do not have.
//!
//! ```text
//! place.json             which store the backups are of
//! lock.json              while somebody sends or deletes
//! pieces/ab/abcd…        up to 8 MiB of a file, named by their SHA-256
//! backups/NAME.json      the list of a backup, written last: files, and the pieces of each
//! ```
//!
//! Invariants:
//! - A name stands for one content, and no object is replaced. A piece that is there is not sent
//!   again, whichever backup brought it, so a backup that broke off resumes when it is made again.
//! - A backup exists once its list does. The list is written after all its pieces, and deleted
//!   before any of them; a piece is deleted when no list names it.
//! - Whoever sends or deletes holds the lock, because a piece that nobody names yet would otherwise
//!   be deleted under the backup that relies on it. Who has lost it deletes nothing more, and
//!   writes no list.
//!
//! Left out: encryption and compression (sealed segments are compressed; use the encryption of the
//! storage), and several stores in one place, which would delete each other's backups.

mod contents;
mod directory;
mod fetch;
mod keep;
mod lock;
mod parts;
mod prune;
mod send;
#[cfg(test)]
mod tests;
mod verify;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use anyhow::{Context, Result, bail, ensure};
use cluster::engines::objects::{Bucket, Config, Credentials};
use cluster::{ObjectError, Objects};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

pub use contents::{CLUSTER_CATALOG, Contents, FileContents, Sum};
pub use fetch::{chosen, fetch};
pub use keep::Keep;
pub use lock::Busy;
pub use parts::PiecesBody;
pub use prune::{Pruned, prune};
pub use send::{Heading, Part, Sent, Snapshot, send, send_parts};
pub use verify::{Verified, verify};

use crate::process::log::one_line;
use directory::Directory;

/// Bytes of a piece. One is in memory at a time; S3 takes it in one request.
///
/// limits.md, The disk and sealing: bytes of a piece of a backup elsewhere | {} | a longer file is
/// several pieces
const PIECE_BYTES: u64 = 8 << 20;
/// Objects that are listed: pieces of 32 TiB.
///
/// limits.md, The disk and sealing: pieces of the backups in one place | {} | no backup is made
/// there, and nothing is deleted; begin with an empty place
const OBJECTS_MAX: usize = 4 << 20;
/// Names that the objects of a place begin with.
const PIECES: &str = "pieces/";
const BACKUPS: &str = "backups/";
/// Says that a directory or a bucket holds backups, and of which store.
const PLACE: &str = "place.json";
/// Version of the place.
const FORMAT: u32 = 1;
/// Attempts at a write whose answer was lost.
const WRITES_MAX: u32 = 3;

/// How S3 storage is reached, besides the name of the bucket.
#[derive(Clone, Debug)]
pub struct S3Options {
    /// Where it is; Amazon's if there is none.
    pub endpoint: Option<String>,
    /// The region, which is part of signatures.
    pub region: String,
    /// Whether the bucket is in the path of addresses, and not in their host name.
    pub path_style: bool,
    /// Certificates that the storage is verified with; those of the system if there are none.
    pub ca_file: Option<PathBuf>,
    /// Files with the access key and its secret; without them the environment has both.
    pub key_files: Option<(PathBuf, PathBuf)>,
}

/// A destination as it is configured.
#[derive(Clone)]
pub enum Address {
    /// A directory, on another disk.
    Directory(PathBuf),
    /// A bucket, and what names in it begin with: empty, or with a `/` at its end.
    Bucket(Box<Config>, String),
}

impl Address {
    /// Reads `s3://BUCKET/PREFIX`, or a directory.
    pub fn parse(text: &str, s3: &S3Options) -> Result<Address> {
        let Some(rest) = text.strip_prefix("s3://") else {
            ensure!(
                !text.is_empty() && !text.contains("://"),
                "'{}' is no place for backups; write a directory, or s3://BUCKET/PREFIX",
                text.escape_default()
            );
            return Ok(Address::Directory(text.into()));
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_matches('/');
        let is_plain = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        };
        let parts_are_plain =
            prefix.is_empty() || prefix.split('/').all(|part| is_plain(part) && part != "..");
        ensure!(
            is_plain(bucket) && parts_are_plain,
            "'{}' is no place for backups; write s3://BUCKET/PREFIX, of letters, digits, '.', '_' and '-'",
            text.escape_default()
        );
        let credentials = match &s3.key_files {
            Some((key, secret)) => Credentials::from_files(key, secret),
            None => Credentials::from_environment(),
        };
        let config = Config {
            region: s3.region.clone(),
            path_style: s3.path_style,
            ca: s3.ca_file.clone(),
            ..Config::new(s3.endpoint.clone(), bucket, credentials?)
        };
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Ok(Address::Bucket(Box::new(config), prefix))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Directory(path) => path.display().fmt(f),
            Address::Bucket(config, prefix) => {
                write!(f, "s3://{}/{}", config.bucket, prefix.trim_end_matches('/'))
            }
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How far a long call is, and whether it is to end early.
#[derive(Debug, Default)]
pub struct Progress {
    /// All bytes.
    pub bytes_total: AtomicU64,
    /// Those that are done.
    pub bytes_done: AtomicU64,
    /// Those that were sent, and not there before.
    pub bytes_sent: AtomicU64,
    stopped: AtomicBool,
}

impl Progress {
    /// Has the call end early. What it did so far is of use to the next one.
    pub fn stop(&self) {
        self.stopped.store(true, Relaxed);
    }

    fn advance(&self, bytes: u64) -> Result<()> {
        self.bytes_done.fetch_add(bytes, Relaxed);
        ensure!(!self.stopped.load(Relaxed), "it was ended before it was complete; start it again");
        Ok(())
    }
}

/// `place.json`
#[derive(Debug, Serialize, Deserialize)]
struct Place {
    format: u32,
    /// The number of the store; 0 if the directory had no catalog.
    store: u32,
}

/// A place that holds backups.
#[derive(Clone)]
pub struct Destination {
    objects: Arc<dyn Objects>,
    prefix: String,
    shown: String,
}

impl Destination {
    /// The place at an address. A bucket is contacted with the first call.
    ///
    /// Errors: there is no such directory.
    pub fn open(address: &Address) -> Result<Destination> {
        let shown = address.to_string();
        Ok(match address {
            Address::Directory(path) => {
                Destination::of(Arc::new(Directory::open(path)?), String::new(), shown)
            }
            Address::Bucket(config, prefix) => {
                let bucket = Bucket::new((**config).clone())?;
                Destination::of(Arc::new(bucket), prefix.clone(), shown)
            }
        })
    }

    fn of(objects: Arc<dyn Objects>, prefix: String, shown: String) -> Destination {
        Destination { objects, prefix, shown }
    }

    /// Whether a local directory is a place with backups, and not a backup itself.
    pub fn is_at(path: &Path) -> bool {
        path.join(PLACE).exists()
    }

    /// The lists of all backups there, the oldest first. A list that cannot be read is an error.
    pub fn backups(&self) -> Result<Vec<Contents>> {
        let names = self.names(BACKUPS)?;
        let mut found: Vec<Contents> =
            names.iter().map(|(name, _)| self.contents(name)).collect::<Result<_>>()?;
        found.sort_by_key(|contents| (contents.created_ns(), contents.name.clone()));
        Ok(found)
    }

    /// The lists that can be read, the oldest first, and for each of the others a sentence.
    pub fn readable(&self) -> Result<(Vec<Contents>, Vec<String>)> {
        let (mut found, mut faults) = (Vec::new(), Vec::new());
        for (name, _) in self.names(BACKUPS)? {
            match self.contents(&name) {
                Ok(contents) => found.push(contents),
                Err(error) => faults.push(one_line(&error)),
            }
        }
        found.sort_by_key(|contents| (contents.created_ns(), contents.name.clone()));
        Ok((found, faults))
    }

    /// Names below a folder, with their lengths.
    pub(in crate::storage) fn names(&self, folder: &str) -> Result<Vec<(String, u64)>> {
        let prefix = format!("{}{folder}", self.prefix);
        let listed = self.objects.list(&prefix, None, OBJECTS_MAX + 1);
        let listed = listed.with_context(|| format!("cannot list {}", self.shown))?;
        ensure!(
            listed.len() <= OBJECTS_MAX,
            "{} has more than {OBJECTS_MAX} objects; begin with an empty place",
            self.shown
        );
        let own = |info: cluster::ObjectInfo| {
            Some((info.name.strip_prefix(&self.prefix)?.to_owned(), info.bytes))
        };
        Ok(listed.into_iter().filter_map(own).collect())
    }

    /// The list of a backup by the name of its object.
    fn contents(&self, name: &str) -> Result<Contents> {
        let read = self.read(name, contents::BYTES_MAX)?;
        Contents::parse(name, &read).with_context(|| format!("{}/{name}", self.shown))
    }

    /// A whole object.
    pub(in crate::storage) fn read(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>> {
        let full = format!("{}{name}", self.prefix);
        let cannot = || format!("cannot read {name} of {}", self.shown);
        let bytes = self.objects.size(&full).with_context(cannot)?;
        ensure!(bytes <= bytes_max, "{name} of {} is too long: {bytes} bytes", self.shown);
        let mut buffer = vec![0; usize::try_from(bytes)?];
        let read = self.objects.read_range(&full, 0, &mut buffer).with_context(cannot)?;
        buffer.truncate(read);
        Ok(buffer)
    }

    /// Writes an object, which may be there already with the same bytes.
    pub(in crate::storage) fn put(&self, name: &str, bytes: Vec<u8>) -> Result<()> {
        let full = format!("{}{name}", self.prefix);
        let mut attempt = 1;
        loop {
            match self.objects.put_new(&full, &bytes) {
                Ok(()) => return Ok(()),
                Err(ObjectError::Exists(_)) => {
                    let there = self.read(name, contents::BYTES_MAX)?;
                    ensure!(
                        there == bytes,
                        "{name} is in {} already, with other bytes; choose another name, or delete it first",
                        self.shown
                    );
                    return Ok(());
                }
                Err(ObjectError::Unknown(_)) if attempt < WRITES_MAX => attempt += 1,
                Err(error) => {
                    return Err(error)
                        .with_context(|| format!("cannot write {name} to {}", self.shown));
                }
            }
        }
    }

    fn delete(&self, name: &str) -> Result<()> {
        let deleted = self.objects.delete(&format!("{}{name}", self.prefix));
        deleted.with_context(|| format!("cannot delete {name} of {}", self.shown))
    }

    /// The store whose backups are here; none for a place without backups.
    fn place(&self) -> Result<Option<Place>> {
        match self.objects.size(&format!("{}{PLACE}", self.prefix)) {
            Err(ObjectError::Missing(_)) => return Ok(None),
            size => size.with_context(|| format!("cannot read {}", self.shown))?,
        };
        let text = self.read(PLACE, 1 << 16)?;
        let place: Place = serde_json::from_slice(&text)
            .with_context(|| format!("{PLACE} of {} is damaged", self.shown))?;
        if place.format != FORMAT {
            bail!(
                "{}: format {} is not known; this program reads format {FORMAT}: use the release of Loginson that made \
                 the backups",
                self.shown,
                place.format
            );
        }
        Ok(Some(place))
    }

    /// Whether backups were sent there.
    pub fn holds_backups(&self) -> Result<bool> {
        Ok(self.place()?.is_some())
    }

    /// Errors: there are no backups.
    fn need_place(&self) -> Result<Place> {
        self.place()?.with_context(|| {
            format!("{} holds no backups: it has no {PLACE}; check its name", self.shown)
        })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

fn sum_of(bytes: &[u8]) -> Sum {
    Sum(digest(&SHA256, bytes).as_ref().try_into().expect("256 bits"))
}
