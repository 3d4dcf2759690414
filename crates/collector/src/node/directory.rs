//! The state a collector keeps across restarts: its identity, and the numbers it may have issued. A
//! small file in its spool directory, `node.json`, which is replaced as a whole.
//!
//! Invariant: a number is issued only after the file durably reserves a number at least as large.
//! So no number is issued twice, however the process ends; a crash wastes at most [`RESERVED`]
//! numbers.
//!
//! With copies ([`super::copies`]), numbers are issued for stripes instead of stores, and the file
//! also says which store has which [`Place`].

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::{Access, Disk};
use record::frame::FORWARDED_NUMBER_MAX;
use serde::{Deserialize, Serialize};

use record::NodeIdentity;

/// Numbers reserved at once: the file is written once per this many frames.
const RESERVED: u64 = 1 << 20;
/// Size of a store's range of numbers. Each store has its own range, so a number identifies a frame
/// of this collector independently of the store. With a hundred frames a second it lasts for ten
/// years; then its numbers go on in the next one, and ids of lines may repeat.
const RANGE: u64 = 1 << 35;
/// How many ranges fit below the greatest number a frame can have. Stores beyond this share the
/// last range.
const RANGES: u64 = (FORWARDED_NUMBER_MAX + 1) / RANGE;
const FILE: &str = "node.json";
/// A longer file was not written by this program.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Whom a range of numbers belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NumberOwner {
    /// A store, by its node id.
    Store(u32),
    /// A stripe: one store of each copy.
    Stripe(u32),
}

/// The place of a store among the copies. Copies and stripes count from 0, and are shown from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The copy.
    pub copy: u32,
    /// The stripe, which is the index of the store in its copy.
    pub stripe: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "store {} of copy {}", self.stripe + 1, self.copy + 1)
    }
}

/// A place, and the store that has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Placed {
    place: Place,
    /// Its node id, once it has connected.
    store: Option<u32>,
}

/// The file's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    node: u32,
    key: u64,
    starts: u64,
    /// By the node id of a store: numbers up to this one may have been issued.
    reserved: BTreeMap<u32, u64>,
    /// The same by stripe.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    stripes: BTreeMap<u32, u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    places: Vec<Placed>,
}

impl Content {
    /// All reserved numbers.
    fn all_reserved(&self) -> impl Iterator<Item = (NumberOwner, u64)> + '_ {
        let stores = self.reserved.iter().map(|(&id, &through)| (NumberOwner::Store(id), through));
        let stripes = self.stripes.iter().map(|(&id, &through)| (NumberOwner::Stripe(id), through));
        stores.chain(stripes)
    }

    fn reserve(&mut self, owner: NumberOwner, through: u64) {
        match owner {
            NumberOwner::Store(store) => self.reserved.insert(store, through),
            NumberOwner::Stripe(stripe) => self.stripes.insert(stripe, through),
        };
    }

    fn reserved(&self, owner: NumberOwner) -> u64 {
        let reserved = match owner {
            NumberOwner::Store(store) => self.reserved.get(&store),
            NumberOwner::Stripe(stripe) => self.stripes.get(&stripe),
        };
        reserved.copied().unwrap_or(0)
    }
}

/// The persistent state of a collector.
pub struct Directory {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    content: Content,
    run: u64,
    /// The next number of each range.
    next: BTreeMap<NumberOwner, u64>,
}

/// Why the spool directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// An input or output error.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// File or directory.
        path: PathBuf,
        /// The operation that failed.
        action: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is invalid.
    #[error(
        "{}: {reason}; restore the file, or, if no frames wait in that directory, move the whole directory away",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

impl DirectoryError {
    pub(crate) fn io(
        path: &Path,
        action: &'static str,
    ) -> impl FnOnce(io::Error) -> DirectoryError {
        move |source| DirectoryError::Io { path: path.to_owned(), action, source }
    }
}

impl Directory {
    /// Reads the file, or creates it with a new identity, and durably counts this start.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path) -> Result<Directory, DirectoryError> {
        let path = dir.join(FILE);
        let mut content = match disk.open(&path, Access::Read) {
            Ok(file) => {
                let bytes = file.bytes().map_err(DirectoryError::io(&path, "get the length of"))?;
                let mut text = vec![0; bytes.min(FILE_BYTES_MAX) as usize];
                file.read_at(&mut text, 0).map_err(DirectoryError::io(&path, "read"))?;
                Self::parse(&text).map_err(|reason| {
                    let path = path.clone();
                    DirectoryError::Damaged { path, reason }
                })?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if has_frames(&*disk, dir).map_err(DirectoryError::io(dir, "list"))? {
                    // Stores take them from no other identity, and would refuse all frames.
                    let reason = "it is not there, and frames of its collector wait beside it";
                    let reason = reason.to_owned();
                    return Err(DirectoryError::Damaged { path, reason });
                }
                Content {
                    version: 1,
                    node: fastrand::u32(1..),
                    key: fastrand::u64(..),
                    starts: 0,
                    reserved: BTreeMap::new(),
                    stripes: BTreeMap::new(),
                    places: Vec::new(),
                }
            }
            Err(error) => return Err(DirectoryError::io(&path, "open")(error)),
        };
        content.starts += 1;
        let next = content.all_reserved().map(|(owner, through)| (owner, through + 1)).collect();
        let dir = dir.to_owned();
        let directory = Directory { disk, dir, content, run: fastrand::u64(..), next };
        directory.save(&directory.content)?;
        Ok(directory)
    }

    fn parse(text: &[u8]) -> Result<Content, String> {
        let content: Content = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        match content.version {
            1 => Ok(content),
            other => Err(format!("version {other} is not known; this program reads version 1")),
        }
    }

    /// The identity of this collector in this run.
    pub fn identity(&self) -> NodeIdentity {
        let Content { node, key, starts, .. } = self.content;
        NodeIdentity { node, key, starts, run: self.run }
    }

    /// The next unissued number of a store or stripe.
    pub fn next_number(&self, owner: NumberOwner) -> u64 {
        self.next.get(&owner).copied().unwrap_or_else(|| {
            let ranges = self.next.values().map(|next| next / RANGE + 1).max().unwrap_or(0);
            ranges.min(RANGES - 1) * RANGE + 1
        })
    }

    /// Issues `count` numbers for a store or stripe; returns the first.
    pub fn issue_numbers(&mut self, owner: NumberOwner, count: u64) -> Result<u64, DirectoryError> {
        let first = self.next_number(owner);
        let last = first + count - 1;
        if last > self.content.reserved(owner) {
            let mut content = self.content.clone();
            content.reserve(owner, last.saturating_add(RESERVED));
            self.replace(content)?;
        }
        self.next.insert(owner, last + 1);
        Ok(first)
    }

    /// The places of the previous start.
    pub fn places(&self) -> impl Iterator<Item = Place> + '_ {
        self.content.places.iter().map(|placed| placed.place)
    }

    /// Replaces the places by those of this start. A place keeps its store, unless that is one of
    /// `lost`.
    pub fn set_places(&mut self, places: &[Place], lost: &[u32]) -> Result<(), DirectoryError> {
        let before = |place: Place| self.content.places.iter().find(|placed| placed.place == place);
        let store = |place| before(place)?.store.filter(|store| !lost.contains(store));
        let places = places.iter().map(|&place| Placed { place, store: store(place) }).collect();
        if self.content.places == places {
            return Ok(());
        }
        self.replace(Content { places, ..self.content.clone() })
    }

    /// Gives a place to the store that its address leads to. An error if the place has another
    /// store, whose frames may wait or be on their way, or the store has another place.
    pub fn claim_place(&mut self, place: Place, store: u32) -> Result<(), String> {
        let mut content = self.content.clone();
        if let Some(other) = content.places.iter().find(|placed| placed.store == Some(store)) {
            return match other.place == place {
                true => Ok(()),
                false => Err(format!(
                    "the address leads to {} ({store:08x}); list each store once, and in the same order as before",
                    other.place
                )),
            };
        }
        let mine = content.places.iter_mut().find(|placed| placed.place == place);
        let mine = mine.ok_or_else(|| format!("{place} is not in the configuration"))?;
        match mine.store {
            Some(before) => Err(format!(
                "the address leads to another store ({store:08x}) than before ({before:08x}); list the stores in the same order \
                 as before, or, if that one will not come back, start with --lost-store {before:08x}"
            )),
            None => {
                mine.store = Some(store);
                self.replace(content).map_err(|error| error.to_string())
            }
        }
    }

    /// Releases reserved numbers that were not issued, at an orderly end.
    pub fn close(&mut self) -> Result<(), DirectoryError> {
        for (&owner, &next) in &self.next {
            self.content.reserve(owner, next - 1);
        }
        self.save(&self.content)
    }

    fn replace(&mut self, content: Content) -> Result<(), DirectoryError> {
        self.save(&content)?;
        self.content = content;
        Ok(())
    }

    fn save(&self, content: &Content) -> Result<(), DirectoryError> {
        let path = self.dir.join(FILE);
        let part = self.dir.join("node.json.part");
        let text = serde_json::to_vec_pretty(content).expect("numbers only");
        let written = || {
            match self.disk.remove(&part) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let file = self.disk.open(&part, Access::Create)?;
            file.write_at(&text, 0)?;
            file.sync_data()?;
            self.disk.rename(&part, &path)?;
            self.disk.sync_dir(&self.dir)
        };
        written().map_err(DirectoryError::io(&path, "write"))
    }
}

/// Whether a spool directory, or one of those of its copies, has files of frames.
fn has_frames(disk: &dyn Disk, dir: &Path) -> io::Result<bool> {
    let is_spooled = |name: &String| name.ends_with(".hot");
    let names = disk.list(dir)?;
    if names.iter().any(is_spooled) {
        return Ok(true);
    }
    for copy in names.iter().filter(|name| name.starts_with("copy-")) {
        match disk.list(&dir.join(copy)) {
            Ok(names) if names.iter().any(is_spooled) => return Ok(true),
            Err(error) if error.kind() != io::ErrorKind::NotADirectory => return Err(error),
            _ => {}
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use platform::SimDisk;

    use super::NumberOwner::{Store, Stripe};
    use super::*;

    #[test]
    fn no_number_is_given_twice() {
        let sim = SimDisk::new(5);
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let dir = Path::new("/spool");
        disk.create_dir_all(dir).unwrap();
        let mut identity = None;
        let mut given = 0;
        for start in 1..20 {
            let mut directory = Directory::open(disk.clone(), dir).unwrap();
            let found = directory.identity();
            assert_eq!(found.starts, start);
            let (node, key) = *identity.get_or_insert((found.node, found.key));
            assert_eq!((found.node, found.key), (node, key), "it stays who it is");
            let range = if start == 1 { 0 } else { RANGE };
            assert_eq!(
                directory.next_number(Store(4)),
                range + 1,
                "another store has other numbers"
            );
            for count in [1, 3, start] {
                let first = directory.issue_numbers(Store(9), count).unwrap();
                assert!(first > given);
                given = first + count - 1;
            }
            if start % 3 == 0 {
                directory.close().unwrap();
                let mut directory = Directory::open(disk.clone(), dir).unwrap();
                assert_eq!(
                    directory.next_number(Store(9)),
                    given + 1,
                    "an orderly end wastes none"
                );
                directory.content.starts -= 1;
                directory.close().unwrap();
            }
            sim.crash();
            sim.restart();
        }
    }

    #[test]
    fn a_stripe_has_numbers_of_its_own() {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(5));
        let dir = Path::new("/spool");
        disk.create_dir_all(dir).unwrap();
        let mut directory = Directory::open(disk.clone(), dir).unwrap();
        assert_eq!(directory.issue_numbers(Store(0), 1).unwrap(), 1);
        assert_eq!(directory.issue_numbers(Stripe(0), 1).unwrap(), RANGE + 1);
        assert_eq!(directory.issue_numbers(Stripe(1), 2).unwrap(), 2 * RANGE + 1);
        directory.close().unwrap();
        let directory = Directory::open(disk, dir).unwrap();
        assert_eq!(directory.next_number(Store(0)), 2);
        assert_eq!(directory.next_number(Stripe(1)), 2 * RANGE + 3);
        assert_eq!(directory.next_number(Store(1)), 3 * RANGE + 1);
    }

    #[test]
    fn a_store_keeps_its_place() {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(5));
        let dir = Path::new("/spool");
        disk.create_dir_all(dir).unwrap();
        let [a, b] = [0, 1].map(|copy| Place { copy, stripe: 0 });
        let start = |places: &[Place], lost: &[u32]| {
            let mut directory = Directory::open(disk.clone(), dir).unwrap();
            directory.set_places(places, lost).unwrap();
            directory
        };
        let mut directory = start(&[a, b], &[]);
        directory.claim_place(a, 7).unwrap();
        directory.claim_place(a, 7).unwrap();
        assert!(directory.claim_place(b, 7).unwrap_err().contains("leads to store 1 of copy 1"));
        let mut directory = start(&[a, b], &[]);
        assert!(directory.claim_place(a, 8).unwrap_err().contains("--lost-store 00000007"));
        directory.claim_place(b, 8).unwrap();
        let mut directory = start(&[a, b], &[7]);
        directory.claim_place(a, 9).unwrap();
        let mut directory = start(&[a], &[]);
        directory.claim_place(a, 9).unwrap();
        assert!(directory.claim_place(b, 8).is_err());
    }

    #[test]
    fn frames_that_wait_keep_the_identity_of_their_collector() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Directory::open(Arc::new(platform::RealDisk), dir.path());
        drop(open().unwrap());
        let copy = dir.path().join("copy-1-store-1");
        std::fs::create_dir(&copy).unwrap();
        std::fs::write(dir.path().join("copy-notes"), "no directory").unwrap();
        for waiting in [dir.path().join("1.hot"), copy.join("7-00000000-1.hot")] {
            std::fs::write(&waiting, "frames").unwrap();
            open().unwrap();
            std::fs::remove_file(dir.path().join(FILE)).unwrap();
            let error = open().err().unwrap().to_string();
            assert!(error.contains("node.json: it is not there"), "{error}");
            assert!(error.contains("restore the file"), "{error}");
            assert!(!dir.path().join(FILE).exists());
            std::fs::remove_file(&waiting).unwrap();
            open().unwrap();
        }
    }

    #[test]
    fn a_damaged_file_is_an_error_with_a_remedy() {
        let dir = tempfile::tempdir().unwrap();
        for (text, expected) in [("", "EOF"), ("{}", "missing field"), ("{\"version\":2}", "")] {
            std::fs::write(dir.path().join(FILE), text).unwrap();
            let error = Directory::open(Arc::new(platform::RealDisk), dir.path()).err().unwrap();
            let error = error.to_string();
            assert!(error.contains(expected) && error.contains("move the whole"), "{error}");
        }
    }
}
