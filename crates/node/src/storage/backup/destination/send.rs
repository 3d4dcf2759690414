//! Sends a snapshot of a store: the pieces that are not there yet, then the list.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Context, Result, ensure};
use cluster::ObjectBody;
use platform::{check_regular, read_regular};
use serde::{Deserialize, Serialize};
use store::SegmentKind;

use super::contents::{Contents, FileContents, Sum};
use super::lock::Lock;
use super::{Destination, FORMAT, PIECE_BYTES, PIECES, PLACE, Place, Progress, sum_of};
use crate::data_dir::{DocumentFolder, Documents};
use crate::storage::backup::{Manifest, check_name};

/// The sums of sealed segments that were sent before, so that these are not read again. A file that
/// is lost or damaged costs time only.
const SUMS_FILE: &str = ".sums.json";

/// A backup in a directory of the store's disk, which is to be sent. The directory is deleted when
/// it is dropped.
pub struct Snapshot {
    /// Where it is.
    pub path: PathBuf,
    /// What is in it.
    pub manifest: Manifest,
    /// Where the directory of it is, which has a folder of its own.
    folder: PathBuf,
}

impl Snapshot {
    /// Takes a snapshot by `make`, which makes a backup of the name in a folder, where nothing
    /// else is. The folder is on the disk of the store, so that segments are shared.
    pub fn take(
        backups: &Path,
        name: &str,
        make: impl FnOnce(&Path) -> Result<Manifest>,
    ) -> Result<Snapshot> {
        check_name(name)?;
        let folder = backups.join(".sending");
        let made = remove(&folder).and_then(|()| make(&folder));
        match made {
            Ok(manifest) => Ok(Snapshot { path: folder.join(name), manifest, folder }),
            Err(error) => {
                remove(&folder)?;
                Err(error)
            }
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // The next snapshot removes what this leaves.
        let _ = remove(&self.folder);
    }
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot delete {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// What was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Name of the backup.
    pub name: String,
    /// When it was made: RFC 3339.
    pub created: String,
    /// Lines in it.
    pub lines: u64,
    /// Its files.
    pub files: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Bytes that were sent, and not there before.
    pub bytes_sent: u64,
}

/// Sends a snapshot. `by` says who sends: that one takes over the lock that it left when it was
/// killed. `sums_dir` is where the sums of sealed segments are kept between two backups.
///
/// Errors: the place holds backups of another store, or one of this name; somebody is at work there
/// ([`super::Busy`]); it does not answer. What was sent until then is not sent again.
pub fn send(
    destination: &Destination,
    snapshot: &Snapshot,
    by: &str,
    sums_dir: &Path,
    progress: &Progress,
) -> Result<Sent> {
    let store = store_of(&snapshot.path)?;
    let lock = destination.lock(by)?;
    claim(destination, store)?;
    let object = Contents::object(&snapshot.manifest.name);
    let is_there = !destination.names(&object)?.is_empty();
    ensure!(
        !is_there,
        "{destination} has a backup '{}' already; choose another name, or delete it first",
        snapshot.manifest.name
    );
    let mut sender = Sender::new(destination, &lock, sums_dir, progress)?;
    let total = snapshot.manifest.files.iter().map(|file| length(&snapshot.path, &file.file)).sum();
    progress.bytes_total.store(total, Relaxed);
    let mut files = Vec::with_capacity(snapshot.manifest.files.len());
    for listed in &snapshot.manifest.files {
        lock.keep()?;
        let is_sealed = listed.segment().is_some_and(|(kind, _)| kind == SegmentKind::Sealed);
        let path = snapshot.path.join(&listed.file);
        let (bytes, pieces) = match is_sealed {
            true => sender.sealed(&listed.file, &path)?,
            false => sender.file(&path)?,
        };
        files.push(FileContents { file: listed.file.clone(), bytes, lines: listed.lines, pieces });
    }
    let contents = Contents::new(&snapshot.manifest, store, files);
    put_list(destination, &lock, &contents)?;
    sender.keep_sums();
    Ok(Sent {
        name: contents.name,
        created: contents.created,
        lines: contents.lines,
        files: contents.files.len() as u64,
        bytes: contents.bytes,
        bytes_sent: progress.bytes_sent.load(Relaxed),
    })
}

/// A part of a backup that is no file on this disk. Its name stands for its content: a part of the
/// same name in the newest backup of the place is the same.
pub struct Part<'p> {
    /// Its name.
    pub name: String,
    /// Lines in it, if it is a segment.
    pub lines: Option<u64>,
    /// Its bytes.
    pub body: Box<dyn ObjectBody + 'p>,
}

/// What a backup of parts is called and says of itself.
pub struct Heading<'h> {
    /// Its name.
    pub name: &'h str,
    /// The moment that it holds, nanoseconds since 1970 UTC.
    pub created_ns: i64,
    /// The number of the store or cluster.
    pub store: u32,
    /// Who sends.
    pub by: &'h str,
}

/// Sends a backup of parts. Calls `before_each` before each of them is read.
///
/// Errors: as of [`send`]; a part cannot be read.
pub fn send_parts(
    destination: &Destination,
    heading: &Heading<'_>,
    parts: Vec<Part<'_>>,
    before_each: &mut dyn FnMut() -> Result<()>,
    progress: &Progress,
) -> Result<Sent> {
    check_name(heading.name)?;
    let lock = destination.lock(heading.by)?;
    claim(destination, heading.store)?;
    let object = Contents::object(heading.name);
    ensure!(
        destination.names(&object)?.is_empty(),
        "{destination} has a backup '{}' already; choose another name, or delete it first",
        heading.name
    );
    // It only spares work, so it must not depend on every list.
    let (mut readable, faults) = destination.readable()?;
    faults.iter().for_each(|fault| tracing::warn!("{fault}"));
    let before = readable.pop().map(|newest| newest.files).unwrap_or_default();
    let known = before.into_iter().map(|file| (file.file.clone(), file)).collect();
    let mut sender = Sender::with(destination, &lock, known, progress)?;
    progress.bytes_total.store(parts.iter().map(|part| part.body.size()).sum(), Relaxed);
    let mut files = Vec::with_capacity(parts.len());
    for Part { name, lines, body } in parts {
        before_each()?;
        lock.keep()?;
        let (bytes, pieces) = sender.part(&name, &*body)?;
        files.push(FileContents { file: name, bytes, lines, pieces });
    }
    let listed = files.iter().map(FileContents::as_listed).collect();
    let manifest = Manifest::new(heading.name, heading.created_ns, listed, 0, 0);
    let contents = Contents::new(&manifest, heading.store, files);
    put_list(destination, &lock, &contents)?;
    Ok(Sent {
        name: contents.name,
        created: contents.created,
        lines: contents.lines,
        files: contents.files.len() as u64,
        bytes: contents.bytes,
        bytes_sent: progress.bytes_sent.load(Relaxed),
    })
}

/// Writes the list of a backup, whose pieces are there as long as the lock is held.
fn put_list(destination: &Destination, lock: &Lock<'_>, contents: &Contents) -> Result<()> {
    let object = Contents::object(&contents.name);
    lock.check()?;
    destination.put(&object, contents.encode())?;
    // Whoever took the lock over meanwhile may have deleted pieces that no list named.
    if let Err(error) = lock.check() {
        let name = &contents.name;
        destination.delete(&object).with_context(|| {
            format!("{error:#}; the backup '{name}' may lack pieces, and stays: delete it")
        })?;
        return Err(error);
    }
    Ok(())
}

fn length(snapshot: &Path, file: &str) -> u64 {
    fs::metadata(snapshot.join(file)).map_or(0, |file| file.len())
}

/// The number of the store that a snapshot is of; 0 if it has no catalog.
fn store_of(snapshot: &Path) -> Result<u32> {
    Ok(store::node_of(snapshot)?.unwrap_or(0))
}

/// Makes the place one of this store.
fn claim(destination: &Destination, store: u32) -> Result<()> {
    match destination.place()? {
        Some(place) => ensure!(
            place.store == store,
            "{destination} holds the backups of another store (its number is {}, that of this one {store}); give each store a \
             place of its own, for example s3://BUCKET/NAME-OF-THE-MACHINE",
            place.store
        ),
        None => {
            let place = serde_json::to_vec(&Place { format: FORMAT, store });
            destination.put(PLACE, place.expect("plain values"))?;
        }
    }
    Ok(())
}

/// The sums of a sealed file, and by what it is known as the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    bytes: u64,
    inode: u64,
    modified_ns: i64,
    pieces: Vec<Sum>,
}

struct Sender<'s> {
    destination: &'s Destination,
    lock: &'s Lock<'s>,
    progress: &'s Progress,
    /// Pieces that are there, whole.
    there: HashMap<Sum, u64>,
    sums_dir: DocumentFolder,
    known: HashMap<String, Known>,
    /// Files of this backup.
    used: HashSet<String>,
    /// Parts of the newest backup of the place.
    parts: HashMap<String, FileContents>,
}

impl<'s> Sender<'s> {
    fn new(
        destination: &'s Destination,
        lock: &'s Lock<'s>,
        sums_dir: &Path,
        progress: &'s Progress,
    ) -> Result<Sender<'s>> {
        let sums_dir = DocumentFolder::new(sums_dir);
        let known = sums_dir.read(SUMS_FILE).ok().flatten();
        let known = known.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        let sender = Sender::with(destination, lock, HashMap::new(), progress)?;
        Ok(Sender { sums_dir, known, ..sender })
    }

    fn with(
        destination: &'s Destination,
        lock: &'s Lock<'s>,
        parts: HashMap<String, FileContents>,
        progress: &'s Progress,
    ) -> Result<Sender<'s>> {
        let listed = destination.names(PIECES)?;
        let there = listed.iter().filter_map(|(name, bytes)| Some((Sum::of_object(name)?, *bytes)));
        Ok(Sender {
            destination,
            lock,
            progress,
            there: there.collect(),
            sums_dir: DocumentFolder::new(Path::new("")),
            known: HashMap::new(),
            used: HashSet::new(),
            parts,
        })
    }

    /// Sends what is missing of a part; returns its length and its pieces. It is not read if the
    /// newest backup has it, and all its pieces are there.
    fn part(&mut self, name: &str, body: &dyn ObjectBody) -> Result<(u64, Vec<Sum>)> {
        let bytes = body.size();
        if let Some(known) = self.parts.get(name)
            && known.bytes == bytes
            && known.pieces().all(|(sum, length)| self.there.get(&sum) == Some(&length))
        {
            self.progress.advance(bytes)?;
            return Ok((bytes, known.pieces.clone()));
        }
        let mut pieces = Vec::new();
        for at in (0..bytes).step_by(PIECE_BYTES as usize) {
            let mut piece = vec![0; usize::try_from(PIECE_BYTES.min(bytes - at))?];
            body.read_exact_at(at, &mut piece).with_context(|| format!("cannot read {name}"))?;
            pieces.push(self.piece(piece)?);
        }
        Ok((bytes, pieces))
    }

    /// Sends what is missing of a file; returns its length and its pieces.
    fn file(&mut self, path: &Path) -> Result<(u64, Vec<Sum>)> {
        let cannot = || format!("cannot read {}", path.display());
        let mut file = read_regular(path).with_context(cannot)?;
        let (mut bytes, mut pieces) = (0, Vec::new());
        loop {
            let mut piece = Vec::new();
            (&mut file).take(PIECE_BYTES).read_to_end(&mut piece).with_context(cannot)?;
            if piece.is_empty() {
                return Ok((bytes, pieces));
            }
            bytes += piece.len() as u64;
            pieces.push(self.piece(piece)?);
        }
    }

    /// The same for a sealed segment, which is not read if all its pieces are there.
    fn sealed(&mut self, name: &str, path: &Path) -> Result<(u64, Vec<Sum>)> {
        self.used.insert(name.to_owned());
        let file =
            check_regular(path).with_context(|| format!("cannot read {}", path.display()))?;
        let modified_ns = file.mtime().saturating_mul(1_000_000_000) + file.mtime_nsec();
        let (bytes, inode) = (file.len(), file.ino());
        if let Some(known) = self.known.get(name)
            && (known.bytes, known.inode, known.modified_ns) == (bytes, inode, modified_ns)
        {
            let pieces = known.pieces.clone();
            let contents = FileContents { file: String::new(), bytes, lines: None, pieces };
            let is_whole = contents.pieces.len() as u64 == bytes.div_ceil(PIECE_BYTES);
            if is_whole && contents.pieces().all(|(sum, len)| self.there.get(&sum) == Some(&len)) {
                self.progress.advance(bytes)?;
                return Ok((bytes, contents.pieces));
            }
        }
        let (bytes, pieces) = self.file(path)?;
        let known = Known { bytes, inode, modified_ns, pieces: pieces.clone() };
        self.known.insert(name.to_owned(), known);
        Ok((bytes, pieces))
    }

    fn piece(&mut self, piece: Vec<u8>) -> Result<Sum> {
        self.lock.keep()?;
        let (sum, bytes) = (sum_of(&piece), piece.len() as u64);
        let there = self.there.get(&sum).copied();
        if there != Some(bytes) {
            if there.is_some() {
                // Something else than this program cut it.
                self.lock.check()?;
                self.destination.delete(&sum.object())?;
            }
            self.destination.put(&sum.object(), piece)?;
            self.there.insert(sum, bytes);
            self.progress.bytes_sent.fetch_add(bytes, Relaxed);
        }
        self.progress.advance(bytes)?;
        Ok(sum)
    }

    /// Keeps the sums of the files of this backup. Without them, the next one reads all of them.
    fn keep_sums(&mut self) {
        self.known.retain(|name, _| self.used.contains(name));
        let text = serde_json::to_vec(&self.known).expect("plain values");
        if let Err(error) = self.sums_dir.replace(SUMS_FILE, &text) {
            tracing::warn!(
                "the next backup reads all segments again: cannot keep {SUMS_FILE}: {error}"
            );
        }
    }
}
