//! A disk in memory that loses power, fills up and fails, from a seed.
//!
//! It keeps two states: what a running process reads, and what is durable. Writes and changes of length are
//! pending until the file is synced, creations and removals until the directory is. A power cut applies to each
//! file a random part of what is pending, in sectors of 512 bytes, and to each directory a random number of its
//! first pending changes: what a disk with a volatile cache and a file system with a metadata journal may do.
//!
//! After a power cut every operation fails until [`SimDisk::restart`]; files and locks from before stay dead.
//! Left out: bit rot (tests flip bytes with [`SimDisk::corrupt`]), latency, and anything but one machine.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::{Access, Disk, DiskFile, DiskLock, DiskSpace, LockError};

/// What a torn write is torn into.
const SECTOR_BYTES: usize = 512;
const ENOSPC: i32 = 28;

/// An operation that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// [`DiskFile::write_at`]; half of the bytes are written.
    Write,
    /// [`DiskFile::sync_data`]; what was pending is lost at the next power cut, though it is still read.
    Sync,
    /// [`DiskFile::read_at`].
    Read,
    /// [`DiskFile::preallocate`].
    Preallocate,
    /// [`DiskFile::truncate`].
    Truncate,
    /// [`Disk::open`] with [`Access::Create`].
    Create,
    /// [`Disk::remove`].
    Remove,
}

/// A failure to come.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// What fails.
    pub operation: Operation,
    /// How many of these still succeed before.
    pub skip: u64,
    /// How many fail then.
    pub times: u64,
    /// Error number of the operating system, such as 5 for EIO.
    pub errno: i32,
}

#[derive(Clone)]
enum Pending {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

#[derive(Default)]
struct Inode {
    live: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Pending>,
}

#[derive(Clone)]
enum Change {
    Link(PathBuf, u64),
    Unlink(PathBuf),
}

struct State {
    rng: fastrand::Rng,
    inodes: BTreeMap<u64, Inode>,
    inode_next: u64,
    names: BTreeMap<PathBuf, u64>,
    names_durable: BTreeMap<PathBuf, u64>,
    changes: BTreeMap<PathBuf, Vec<Change>>,
    locks: BTreeSet<PathBuf>,
    capacity_bytes: u64,
    faults: Vec<Fault>,
    syncs: u64,
    crash_at_sync: Option<u64>,
    crashed: bool,
    /// Counts power cuts; files and locks from before one are dead.
    life: u64,
}

/// A simulated disk; clones are the same disk.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
    os_dir: Option<PathBuf>,
}

struct SimFile {
    disk: SimDisk,
    inode: u64,
    life: u64,
}

struct SimLock {
    disk: SimDisk,
    path: PathBuf,
    life: u64,
}

impl DiskLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.life == self.life {
            state.locks.remove(&self.path);
        }
    }
}

impl SimDisk {
    /// An empty disk of 1 TiB whose accidents follow from `seed`.
    pub fn new(seed: u64) -> Self {
        let state = State {
            rng: fastrand::Rng::with_seed(seed),
            inodes: BTreeMap::new(),
            inode_next: 1,
            names: BTreeMap::new(),
            names_durable: BTreeMap::new(),
            changes: BTreeMap::new(),
            locks: BTreeSet::new(),
            capacity_bytes: 1 << 40,
            faults: Vec::new(),
            syncs: 0,
            crash_at_sync: None,
            crashed: false,
            life: 0,
        };
        SimDisk { state: Arc::new(Mutex::new(state)), os_dir: None }
    }

    /// Lets libraries that open files themselves have them in a real directory, by file name.
    pub fn with_os_dir(mut self, dir: PathBuf) -> Self {
        self.os_dir = Some(dir);
        self
    }

    /// Sets the size of the disk. A smaller one than what is used leaves no room.
    pub fn set_capacity(&self, bytes: u64) {
        self.state().capacity_bytes = bytes;
    }

    /// Bytes taken by files.
    pub fn used_bytes(&self) -> u64 {
        self.state().used_bytes()
    }

    /// Syncs of files and directories so far.
    pub fn syncs(&self) -> u64 {
        self.state().syncs
    }

    /// Cuts the power instead of carrying out sync number `n` from now, counted from 1.
    pub fn crash_at_sync(&self, n: u64) {
        let mut state = self.state();
        state.crash_at_sync = Some(state.syncs + n);
    }

    /// Cuts the power now.
    pub fn crash(&self) {
        self.state().crashed = true;
    }

    /// Whether the power is cut.
    pub fn is_crashed(&self) -> bool {
        self.state().crashed
    }

    /// Power comes back: what is left is read from now on. Also cuts it first if it was not.
    pub fn restart(&self) {
        self.state().restart();
    }

    /// Adds a failure to come.
    pub fn fail(&self, fault: Fault) {
        self.state().faults.push(fault);
    }

    /// Forgets the failures that have not come yet.
    pub fn clear_faults(&self) {
        self.state().faults.clear();
    }

    /// The bytes of a file as a process reads them.
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state();
        state.names.get(path).map(|inode| state.inodes[inode].live.clone())
    }

    /// Replaces the bytes of a file, durably: bit rot, or a file cut by hand.
    pub fn corrupt(&self, path: &Path, bytes: Vec<u8>) {
        let mut state = self.state();
        let inode = state.names[path];
        let inode = state.inodes.get_mut(&inode).expect("every name has a file");
        *inode = Inode { live: bytes.clone(), durable: bytes, pending: Vec::new() };
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn alive(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.state();
        if state.crashed { Err(power_cut()) } else { Ok(state) }
    }
}

impl State {
    fn used_bytes(&self) -> u64 {
        self.inodes.values().map(|inode| inode.live.len() as u64).sum()
    }

    fn check(&mut self, operation: Operation) -> io::Result<()> {
        for fault in self.faults.iter_mut().filter(|f| f.operation == operation) {
            if fault.skip > 0 {
                fault.skip -= 1;
            } else if fault.times > 0 {
                fault.times -= 1;
                return Err(io::Error::from_raw_os_error(fault.errno));
            }
        }
        Ok(())
    }

    fn count_sync(&mut self) -> io::Result<()> {
        self.syncs += 1;
        if self.crash_at_sync.is_some_and(|at| self.syncs >= at) {
            self.crash_at_sync = None;
            self.crashed = true;
            return Err(power_cut());
        }
        Ok(())
    }

    fn change(&mut self, path: &Path, change: Change) {
        let dir = path.parent().unwrap_or(Path::new("")).to_owned();
        self.changes.entry(dir).or_default().push(change);
    }

    fn restart(&mut self) {
        let State { rng, inodes, .. } = self;
        for inode in inodes.values_mut() {
            for pending in std::mem::take(&mut inode.pending) {
                survive(&mut inode.durable, pending, rng);
            }
            inode.live = inode.durable.clone();
        }
        for changes in std::mem::take(&mut self.changes).into_values() {
            let kept = self.rng.usize(..=changes.len());
            for change in changes.into_iter().take(kept) {
                apply(&mut self.names_durable, change);
            }
        }
        self.names = self.names_durable.clone();
        self.drop_unnamed();
        self.locks.clear();
        self.faults.clear();
        self.crash_at_sync = None;
        self.crashed = false;
        self.life += 1;
    }

    fn drop_unnamed(&mut self) {
        let named: BTreeSet<u64> = self.names.values().copied().collect();
        self.inodes.retain(|inode, _| named.contains(inode));
    }
}

fn apply(names: &mut BTreeMap<PathBuf, u64>, change: Change) {
    match change {
        Change::Link(path, inode) => names.insert(path, inode),
        Change::Unlink(path) => names.remove(&path),
    };
}

/// Applies to what is durable the part of a pending change that a power cut leaves.
fn survive(durable: &mut Vec<u8>, pending: Pending, rng: &mut fastrand::Rng) {
    let fate = rng.u8(..3);
    match pending {
        _ if fate == 0 => {}
        Pending::Length(bytes) => set_length(durable, bytes),
        Pending::Write { offset, bytes } if fate == 1 => write(durable, &bytes, offset),
        Pending::Write { offset, bytes } => {
            for (i, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                if rng.bool() {
                    write(durable, sector, offset + i * SECTOR_BYTES);
                }
            }
        }
    }
}

fn write(file: &mut Vec<u8>, bytes: &[u8], offset: usize) {
    let end = offset + bytes.len();
    if file.len() < end {
        set_length(file, end);
    }
    file[offset..end].copy_from_slice(bytes);
}

/// As `resize` with zeros, but quick in tests that are not optimised.
fn set_length(file: &mut Vec<u8>, bytes: usize) {
    file.truncate(bytes);
    file.extend_from_slice(&vec![0; bytes - file.len()]);
}

fn power_cut() -> io::Error {
    io::Error::other("the simulated power is cut")
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.alive()?;
        let inode = match (state.names.get(path), access) {
            (Some(_), Access::Create) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Some(&inode), _) => inode,
            (None, Access::Create) => {
                state.check(Operation::Create)?;
                let inode = state.inode_next;
                state.inode_next += 1;
                state.inodes.insert(inode, Inode::default());
                state.names.insert(path.to_owned(), inode);
                state.change(path, Change::Link(path.to_owned(), inode));
                inode
            }
            (None, _) => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(Arc::new(SimFile { disk: self.clone(), inode, life: state.life }))
    }

    fn create_dir_all(&self, _path: &Path) -> io::Result<()> {
        // Directories are there as soon as a file is in them.
        self.alive().map(|_| ())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.alive()?;
        let inode = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), inode);
        state.change(to, Change::Link(to.to_owned(), inode));
        state.change(from, Change::Unlink(from.to_owned()));
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.alive()?;
        let inode = *state.names.get(from).ok_or(io::ErrorKind::NotFound)?;
        if state.names.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.names.insert(to.to_owned(), inode);
        state.change(to, Change::Link(to.to_owned(), inode));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.alive()?;
        state.check(Operation::Remove)?;
        state.names.remove(path).ok_or(io::ErrorKind::NotFound)?;
        state.change(path, Change::Unlink(path.to_owned()));
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.alive()?;
        state.count_sync()?;
        for change in state.changes.remove(path).unwrap_or_default() {
            apply(&mut state.names_durable, change);
        }
        // Space of removed files is free once nobody has them open; readers here are short.
        let durable: BTreeSet<u64> = state.names_durable.values().copied().collect();
        let named: BTreeSet<u64> = state.names.values().copied().collect();
        state.inodes.retain(|inode, _| durable.contains(inode) || named.contains(inode));
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let state = self.alive()?;
        let inside = state.names.keys().filter(|name| name.parent() == Some(path));
        Ok(inside.filter_map(|name| Some(name.file_name()?.to_str()?.to_owned())).collect())
    }

    fn file_bytes(&self, path: &Path) -> io::Result<u64> {
        let state = self.alive()?;
        let inode = state.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(state.inodes[inode].live.len() as u64)
    }

    fn space(&self, _path: &Path) -> io::Result<DiskSpace> {
        let state = self.alive()?;
        let total_bytes = state.capacity_bytes;
        Ok(DiskSpace { free_bytes: total_bytes.saturating_sub(state.used_bytes()), total_bytes })
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn DiskLock>, LockError> {
        let mut state = self.alive()?;
        if !state.locks.insert(path.to_owned()) {
            return Err(LockError::Held { holder: Some(std::process::id()) });
        }
        Ok(Box::new(SimLock { disk: self.clone(), path: path.to_owned(), life: state.life }))
    }

    fn os_path(&self, path: &Path) -> Option<PathBuf> {
        Some(self.os_dir.as_ref()?.join(path.file_name()?))
    }
}

impl SimFile {
    /// Runs `f` on the file with the room left on the disk and the failure ordered for this operation, if any.
    fn with<R>(
        &self,
        operation: Operation,
        f: impl FnOnce(&mut Inode, u64, io::Result<()>) -> io::Result<R>,
    ) -> io::Result<R> {
        let mut state = self.disk.alive()?;
        if state.life != self.life {
            return Err(power_cut());
        }
        let failure = state.check(operation);
        let room = state.capacity_bytes.saturating_sub(state.used_bytes());
        let inode = state.inodes.get_mut(&self.inode).ok_or(io::ErrorKind::NotFound)?;
        f(inode, room, failure)
    }
}

impl DiskFile for SimFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.with(Operation::Write, |inode, room, failure| {
            let offset = offset as usize;
            let growth = (offset + bytes.len()).saturating_sub(inode.live.len()) as u64;
            let fits = bytes.len() - growth.saturating_sub(room).min(bytes.len() as u64) as usize;
            let written = if failure.is_err() { fits / 2 } else { fits };
            let part = &bytes[..written];
            write(&mut inode.live, part, offset);
            inode.pending.push(Pending::Write { offset, bytes: part.to_vec() });
            failure?;
            if fits < bytes.len() { Err(io::Error::from_raw_os_error(ENOSPC)) } else { Ok(()) }
        })
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.with(Operation::Read, |inode, _, failure| {
            failure?;
            let from = inode.live.get(offset as usize..).unwrap_or_default();
            let bytes = from.len().min(buffer.len());
            buffer[..bytes].copy_from_slice(&from[..bytes]);
            Ok(bytes)
        })
    }

    fn preallocate(&self, bytes: u64) -> io::Result<()> {
        self.with(Operation::Preallocate, |inode, room, failure| {
            failure?;
            let growth = bytes.saturating_sub(inode.live.len() as u64);
            if growth > room {
                return Err(io::Error::from_raw_os_error(ENOSPC));
            }
            if growth > 0 {
                set_length(&mut inode.live, bytes as usize);
                inode.pending.push(Pending::Length(bytes as usize));
            }
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.alive()?.count_sync()?;
        self.with(Operation::Sync, |inode, _, failure| {
            let pending = std::mem::take(&mut inode.pending);
            failure?;
            for pending in pending {
                match pending {
                    Pending::Write { offset, bytes } => write(&mut inode.durable, &bytes, offset),
                    Pending::Length(bytes) => set_length(&mut inode.durable, bytes),
                }
            }
            Ok(())
        })
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.with(Operation::Truncate, |inode, _, failure| {
            failure?;
            set_length(&mut inode.live, bytes as usize);
            inode.pending.push(Pending::Length(bytes as usize));
            Ok(())
        })
    }

    fn bytes(&self) -> io::Result<u64> {
        let state = self.disk.alive()?;
        let inode = state.inodes.get(&self.inode).ok_or(io::ErrorKind::NotFound)?;
        Ok(inode.live.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(disk: &SimDisk) -> Arc<dyn DiskFile> {
        disk.open(Path::new("/d/f"), Access::Create).unwrap()
    }

    #[test]
    fn synced_data_survives_and_the_rest_is_torn() {
        let mut outcomes = BTreeSet::new();
        for seed in 0..64 {
            let disk = SimDisk::new(seed);
            let f = file(&disk);
            f.write_at(&[1; 2048], 0).unwrap();
            f.sync_data().unwrap();
            disk.sync_dir(Path::new("/d")).unwrap();
            f.write_at(&[2; 2048], 2048).unwrap();
            disk.crash();
            assert!(f.write_at(b"x", 0).is_err());
            disk.restart();
            assert!(f.write_at(b"x", 0).is_err(), "files from before are dead");
            let left = disk.contents(Path::new("/d/f")).unwrap();
            assert_eq!(left[..2048], [1; 2048]);
            outcomes.insert(left[2048..].iter().filter(|&&b| b == 2).count());
        }
        assert!(outcomes.contains(&0) && outcomes.contains(&2048) && outcomes.len() > 3);
    }

    #[test]
    fn a_file_is_there_after_a_crash_only_if_the_directory_was_synced() {
        let found = |synced: bool| {
            let left = (0..32).filter(|&seed| {
                let disk = SimDisk::new(seed);
                file(&disk).sync_data().unwrap();
                if synced {
                    disk.sync_dir(Path::new("/d")).unwrap();
                }
                disk.restart();
                disk.contents(Path::new("/d/f")).is_some()
            });
            left.count()
        };
        assert_eq!(found(true), 32);
        assert!((1..32).contains(&found(false)));
    }

    #[test]
    fn a_link_shares_bytes_and_outlives_the_first_name() {
        let disk = SimDisk::new(1);
        let (first, second) = (Path::new("/d/f"), Path::new("/backup/f"));
        file(&disk).write_at(b"both", 0).unwrap();
        disk.hard_link(first, second).unwrap();
        let again = disk.hard_link(first, second).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        disk.remove(first).unwrap();
        assert_eq!(disk.file_bytes(second).unwrap(), 4);
        assert_eq!(disk.file_bytes(first).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn full_disk_takes_what_fits() {
        let disk = SimDisk::new(1);
        disk.set_capacity(1000);
        let f = file(&disk);
        f.write_at(&[1; 1000], 0).unwrap();
        f.write_at(&[2; 10], 990).unwrap();
        let error = f.write_at(&[3; 20], 990).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(f.bytes().unwrap(), 1000);
        assert_eq!(f.preallocate(1001).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(disk.space(Path::new("/")).unwrap().free_bytes, 0);
    }

    #[test]
    fn faults_come_when_ordered() {
        let disk = SimDisk::new(1);
        disk.fail(Fault { operation: Operation::Sync, skip: 1, times: 1, errno: 5 });
        let f = file(&disk);
        f.write_at(&[1; 4], 0).unwrap();
        f.sync_data().unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        f.write_at(&[2; 4], 0).unwrap();
        assert_eq!(f.sync_data().unwrap_err().raw_os_error(), Some(5));
        disk.restart();
        assert_eq!(disk.contents(Path::new("/d/f")).unwrap(), [1; 4]);
    }

    #[test]
    fn success_after_a_failed_sync_does_not_bring_back_what_was_lost() {
        let disk = SimDisk::new(1);
        disk.fail(Fault { operation: Operation::Sync, skip: 0, times: 1, errno: 5 });
        let f = file(&disk);
        f.write_at(&[1; 4], 0).unwrap();
        f.sync_data().unwrap_err();
        disk.sync_dir(Path::new("/d")).unwrap();
        f.write_at(&[2; 4], 4).unwrap();
        f.sync_data().unwrap();
        disk.restart();
        assert_eq!(disk.contents(Path::new("/d/f")).unwrap(), [0, 0, 0, 0, 2, 2, 2, 2]);
    }
}
