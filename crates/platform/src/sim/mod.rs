//! A simulated disk in memory that loses power, fills up, fails and decays, controlled by a seed.
//!
//! | behaviour | module |
//! |---|---|
//! | data that was not synced is lost, torn, or kept without earlier data | [`contents`] |
//! | the same for creations, links, renames and removals that were not synced | [`names`] |
//! | operations fail, once or at random; the power is cut at any of them; bits flip | [`accidents`] |
//! | the disk is full: [`SimDisk::set_capacity`] | here |
//!
//! After a power cut every operation fails until [`SimDisk::restart`]; files and locks from before
//! stay dead. A disk behaves the same for the same seed and the same operations in the same order;
//! racing threads change that order.
//!
//! Left out: latency, and anything beyond one machine. Bits flip only if a test requests it, and
//! are counted.

mod accidents;
mod contents;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::accidents::{Accidents, Fate};
pub use self::accidents::{Fault, Operation};
use self::contents::Contents;
use self::names::Names;
use crate::disk::{Access, Disk, DiskFile, DiskLock, DiskSpace, LockError};

const ENOSPC: i32 = 28;

struct State {
    rng: fastrand::Rng,
    files: BTreeMap<u64, Contents>,
    inode_next: u64,
    names: Names,
    locks: BTreeSet<PathBuf>,
    capacity_bytes: u64,
    accidents: Accidents,
    crashed: bool,
    on_crash: Option<Box<dyn Fn() + Send>>,
    /// Counts power cuts; files and locks from before the last one are dead.
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

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.life == self.life {
            if let Some(file) = state.files.get_mut(&self.inode) {
                file.open -= 1;
            }
            state.drop_unused(self.inode);
        }
    }
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
    /// An empty disk of 1 TiB whose failures depend on `seed`.
    pub fn new(seed: u64) -> Self {
        let state = State {
            rng: fastrand::Rng::with_seed(seed),
            files: BTreeMap::new(),
            inode_next: 1,
            names: Names::default(),
            locks: BTreeSet::new(),
            capacity_bytes: 1 << 40,
            accidents: Accidents::default(),
            crashed: false,
            on_crash: None,
            life: 0,
        };
        SimDisk { state: Arc::new(Mutex::new(state)), os_dir: None }
    }

    /// Maps file names to a real directory, for libraries that open files themselves.
    pub fn with_os_dir(mut self, dir: PathBuf) -> Self {
        self.os_dir = Some(dir);
        self
    }

    /// Sets the size of the disk. If it is smaller than the used space, there is no room.
    pub fn set_capacity(&self, bytes: u64) {
        self.state().capacity_bytes = bytes;
    }

    /// Bytes used by files.
    pub fn used_bytes(&self) -> u64 {
        self.state().used_bytes()
    }

    /// Syncs of files and directories so far.
    pub fn syncs(&self) -> u64 {
        self.state().accidents.syncs
    }

    /// Changing operations so far: all except opening, reading and listing.
    pub fn changes(&self) -> u64 {
        self.state().accidents.changes
    }

    /// Cuts the power at sync number `n` from now, counted from 1. The sync may take effect, but is
    /// never answered.
    pub fn crash_at_sync(&self, n: u64) {
        self.state().accidents.cut_at_sync(n);
    }

    /// As [`crash_at_sync`](Self::crash_at_sync), for any changing operation.
    pub fn crash_at_change(&self, n: u64) {
        self.state().accidents.cut_at_change(n);
    }

    /// Cuts the power now.
    pub fn crash(&self) {
        self.state().crash();
    }

    /// Calls `look` at each power cut, before any operation fails because of it. `look` must not
    /// use the disk.
    pub fn on_crash(&self, look: impl Fn() + Send + 'static) {
        self.state().on_crash = Some(Box::new(look));
    }

    /// Whether the power is cut.
    pub fn is_crashed(&self) -> bool {
        self.state().crashed
    }

    /// Restores power: from now on reads return what survived. Cuts the power first if it is on.
    /// Scheduled failures are cancelled.
    pub fn restart(&self) {
        self.state().restart();
    }

    /// Simulates the end of the process, not of the machine: everything written is still there,
    /// durable or not. Otherwise as [`restart`](Self::restart).
    pub fn restart_process(&self) {
        let mut state = self.state();
        state.crash();
        state.files.values_mut().for_each(Contents::sync);
        state.names.sync_all();
        state.restart();
    }

    /// The caller of the `n`-th change from now (including syncs) panics before or after it. This
    /// simulates a bug in a thread whose process survives.
    pub fn panic_at_change(&self, n: u64) {
        self.state().accidents.panic_at_change(n);
    }

    /// Schedules a failure.
    pub fn fail(&self, fault: Fault) {
        self.state().accidents.fail(fault);
    }

    /// From now on one in `one_in` of these operations fails at random with that error number.
    pub fn fail_by_chance(&self, operations: &[Operation], one_in: u32, errno: i32) {
        self.state().accidents.fail_by_chance(operations, one_in, errno);
    }

    /// Whether no failure is scheduled.
    pub fn is_healthy(&self) -> bool {
        let state = self.state();
        !state.crashed && !state.accidents.is_any_ordered()
    }

    /// Cancels the scheduled failures and power cut.
    pub fn clear_faults(&self) {
        self.state().accidents.clear();
    }

    /// From now on one in `one_in` reads returns one flipped bit; reading again may return the
    /// right one. 0: none.
    pub fn flip_reads(&self, one_in: u32) {
        self.state().accidents.flip_reads(one_in);
    }

    /// Bits flipped so far, by [`flip_reads`](Self::flip_reads) and [`rot`](Self::rot).
    pub fn flips(&self) -> u64 {
        self.state().accidents.flips
    }

    /// Flips a random stored bit of a file; returns the offset of its byte. `None`: the file is
    /// missing or empty.
    pub fn rot(&self, path: &Path) -> Option<u64> {
        let mut state = self.state();
        let State { rng, files, names, accidents, .. } = &mut *state;
        let file = files.get_mut(&names.get(path)?)?;
        let offset = rng.usize(..file.live().len().max(1));
        file.live().get(offset)?;
        file.flip(offset, 1 << rng.u8(..8));
        accidents.flips += 1;
        Some(offset as u64)
    }

    /// The bytes of a file as a process reads them.
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state();
        Some(state.files[&state.names.get(path)?].live().to_vec())
    }

    /// Replaces the bytes of a file, durably: simulates a file that was damaged or cut.
    pub fn corrupt(&self, path: &Path, bytes: Vec<u8>) {
        let mut state = self.state();
        let inode = state.names.get(path).expect("the file is there");
        state.files.get_mut(&inode).expect("every name has a file").replace(bytes);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn alive(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.state();
        if state.crashed { Err(power_cut()) } else { Ok(state) }
    }

    /// Executes an operation that either takes full effect or fails.
    fn attempt<R>(
        &self,
        operation: Operation,
        f: impl FnOnce(&mut State) -> io::Result<R>,
    ) -> io::Result<R> {
        self.attempt_in_part(operation, |state, failure| failure.and_then(|()| f(state)))
    }

    /// Executes an operation that may leave partial effects when it fails: `f` gets the failure.
    fn attempt_in_part<R>(
        &self,
        operation: Operation,
        f: impl FnOnce(&mut State, io::Result<()>) -> io::Result<R>,
    ) -> io::Result<R> {
        let mut state = self.alive()?;
        let State { accidents, rng, .. } = &mut *state;
        match accidents.begin(operation, rng) {
            Fate::Done(result) => f(&mut state, result),
            Fate::Cut { done } => {
                let unanswered = done.then(|| f(&mut state, Ok(())));
                state.crash();
                // A file that was opened gets closed, which takes the lock.
                drop(state);
                drop(unanswered);
                Err(power_cut())
            }
            Fate::Panic { done } => {
                let unanswered = done.then(|| f(&mut state, Ok(())));
                drop(state);
                drop(unanswered);
                panic!("a simulated fault at {operation:?}");
            }
        }
    }

    fn opened(&self, state: &mut State, inode: u64) -> Arc<dyn DiskFile> {
        state.files.get_mut(&inode).expect("every name has a file").open += 1;
        Arc::new(SimFile { disk: self.clone(), inode, life: state.life })
    }
}

impl State {
    fn used_bytes(&self) -> u64 {
        self.files.values().map(|file| file.live().len() as u64).sum()
    }

    fn room_bytes(&self) -> u64 {
        self.capacity_bytes.saturating_sub(self.used_bytes())
    }

    fn crash(&mut self) {
        if !self.crashed {
            self.crashed = true;
            self.on_crash.iter().for_each(|look| look());
        }
    }

    fn restart(&mut self) {
        self.crash();
        let State { rng, files, names, .. } = self;
        files.values_mut().for_each(|file| file.cut_power(rng));
        names.cut_power(rng);
        files.retain(|&inode, _| names.is_named(inode));
        files.values_mut().for_each(|file| file.open = 0);
        self.locks.clear();
        self.accidents.clear();
        self.crashed = false;
        self.life += 1;
    }

    /// Frees the space of a file without name once nobody has it open.
    fn drop_unused(&mut self, inode: u64) {
        let is_open = self.files.get(&inode).is_some_and(|file| file.open > 0);
        if !is_open && !self.names.is_named(inode) {
            self.files.remove(&inode);
        }
    }
}

fn power_cut() -> io::Error {
    io::Error::other("the simulated power is cut")
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        if access != Access::Create {
            return self.attempt(Operation::Open, |state| {
                let inode = state.names.get(path).ok_or(io::ErrorKind::NotFound)?;
                Ok(self.opened(state, inode))
            });
        }
        self.attempt(Operation::Create, |state| {
            if state.names.get(path).is_some() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            let inode = state.inode_next;
            state.inode_next += 1;
            state.files.insert(inode, Contents::default());
            state.names.link(path, inode);
            Ok(self.opened(state, inode))
        })
    }

    fn create_dir_all(&self, _path: &Path) -> io::Result<()> {
        // A directory exists as soon as a file is in it.
        self.alive().map(|_| ())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.attempt(Operation::Rename, |state| {
            let inode = state.names.get(from).ok_or(io::ErrorKind::NotFound)?;
            let replaced = state.names.get(to);
            state.names.rename(from, to, inode);
            replaced.into_iter().for_each(|inode| state.drop_unused(inode));
            Ok(())
        })
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.attempt(Operation::Link, |state| {
            let inode = state.names.get(from).ok_or(io::ErrorKind::NotFound)?;
            if state.names.get(to).is_some() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            state.names.link(to, inode);
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.attempt(Operation::Remove, |state| {
            let inode = state.names.get(path).ok_or(io::ErrorKind::NotFound)?;
            state.names.unlink(path);
            state.drop_unused(inode);
            Ok(())
        })
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.attempt(Operation::SyncDir, |state| {
            state.names.sync(path);
            let State { files, names, .. } = state;
            files.retain(|&inode, file| file.open > 0 || names.is_named(inode));
            Ok(())
        })
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        Ok(self.alive()?.names.list(path))
    }

    fn file_bytes(&self, path: &Path) -> io::Result<u64> {
        let state = self.alive()?;
        let inode = state.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(state.files[&inode].live().len() as u64)
    }

    fn space(&self, _path: &Path) -> io::Result<DiskSpace> {
        let state = self.alive()?;
        let (free_bytes, total_bytes) = (state.room_bytes(), state.capacity_bytes);
        let used_bytes = total_bytes.saturating_sub(free_bytes);
        Ok(DiskSpace { free_bytes, used_bytes, total_bytes })
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
    /// The file, if its disk has had power since it was opened.
    fn contents<'a>(&self, state: &'a mut State) -> io::Result<&'a mut Contents> {
        if state.life != self.life {
            return Err(power_cut());
        }
        Ok(state.files.get_mut(&self.inode).expect("an open file stays"))
    }
}

impl DiskFile for SimFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.attempt_in_part(Operation::Write, |state, failure| {
            let room = state.room_bytes();
            let file = self.contents(state)?;
            let offset = offset as usize;
            let growth = (offset + bytes.len()).saturating_sub(file.live().len()) as u64;
            let fits = bytes.len() - growth.saturating_sub(room).min(bytes.len() as u64) as usize;
            let written = if failure.is_err() { fits / 2 } else { fits };
            file.write(&bytes[..written], offset);
            failure?;
            if fits < bytes.len() { Err(io::Error::from_raw_os_error(ENOSPC)) } else { Ok(()) }
        })
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.attempt(Operation::Read, |state| {
            let from = self.contents(state)?.live().get(offset as usize..).unwrap_or_default();
            let bytes = from.len().min(buffer.len());
            buffer[..bytes].copy_from_slice(&from[..bytes]);
            let State { accidents, rng, .. } = state;
            accidents.flip(&mut buffer[..bytes], rng);
            Ok(bytes)
        })
    }

    fn preallocate(&self, bytes: u64) -> io::Result<()> {
        self.disk.attempt(Operation::Preallocate, |state| {
            let room = state.room_bytes();
            let file = self.contents(state)?;
            if bytes.saturating_sub(file.live().len() as u64) > room {
                return Err(io::Error::from_raw_os_error(ENOSPC));
            }
            file.grow(bytes as usize);
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.attempt_in_part(Operation::Sync, |state, failure| {
            self.contents(state)?;
            let State { files, rng, .. } = state;
            let file = files.get_mut(&self.inode).expect("an open file stays");
            match &failure {
                Ok(()) => file.sync(),
                Err(_) => file.fail_sync(rng),
            }
            failure
        })
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.disk.attempt(Operation::Truncate, |state| {
            self.contents(state)?.set_length(bytes as usize);
            Ok(())
        })
    }

    fn bytes(&self) -> io::Result<u64> {
        let mut state = self.disk.alive()?;
        Ok(self.contents(&mut state)?.live().len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "/d/f";

    fn file(disk: &SimDisk) -> Arc<dyn DiskFile> {
        disk.open(Path::new(FILE), Access::Create).unwrap()
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
            let left = disk.contents(Path::new(FILE)).unwrap();
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
                disk.contents(Path::new(FILE)).is_some()
            });
            left.count()
        };
        assert_eq!(found(true), 32);
        assert!((1..32).contains(&found(false)));
    }

    #[test]
    fn everything_remains_when_only_the_process_ends() {
        for seed in 0..16 {
            let disk = SimDisk::new(seed);
            let f = file(&disk);
            f.write_at(&[1; 2048], 0).unwrap();
            disk.restart_process();
            assert!(f.write_at(b"x", 0).is_err(), "files from before are dead");
            assert_eq!(disk.contents(Path::new(FILE)).unwrap(), [1; 2048]);
        }
    }

    /// Creates, writes, syncs, links, renames and removes: each changing operation occurs once or
    /// twice.
    fn scenario(disk: &SimDisk) -> io::Result<()> {
        let (dir, second, third) = (Path::new("/d"), Path::new("/d/g"), Path::new("/d/h"));
        let f = disk.open(Path::new(FILE), Access::Create)?;
        f.preallocate(4096)?;
        f.write_at(&[1; 1024], 0)?;
        f.truncate(1024)?;
        f.sync_data()?;
        disk.hard_link(Path::new(FILE), second)?;
        disk.rename(second, third)?;
        disk.sync_dir(dir)?;
        disk.remove(Path::new(FILE))?;
        disk.sync_dir(dir)
    }

    #[test]
    fn the_power_can_be_cut_at_each_change_and_at_each_sync() {
        let whole = SimDisk::new(0);
        scenario(&whole).unwrap();
        assert_eq!((whole.changes(), whole.syncs()), (10, 3));
        type Order = fn(&SimDisk, u64);
        let orders: [(Order, u64); 2] =
            [(SimDisk::crash_at_change, 10), (SimDisk::crash_at_sync, 3)];
        for (order, count) in orders {
            let mut after_last_sync = BTreeSet::new();
            for (at, seed) in (1..=count).flat_map(|at| (0..64).map(move |seed| (at, seed))) {
                let disk = SimDisk::new(seed);
                order(&disk, at);
                assert!(scenario(&disk).is_err() && disk.is_crashed(), "at {at}");
                disk.restart();
                let linked = disk.contents(Path::new("/d/h"));
                if at == count {
                    assert_eq!(linked.unwrap(), [1; 1024], "what was synced is there");
                    after_last_sync.insert(disk.contents(Path::new(FILE)).is_some());
                }
            }
            assert_eq!(after_last_sync.len(), 2, "a sync without answer may be done or not");
            let disk = SimDisk::new(0);
            order(&disk, count + 1);
            scenario(&disk).unwrap();
        }
    }

    #[test]
    fn on_crash_is_called_once_before_the_crash_takes_effect() {
        let disk = SimDisk::new(1);
        let looks = Arc::new(Mutex::new(0));
        let count = looks.clone();
        disk.on_crash(move || *count.lock().unwrap() += 1);
        disk.crash_at_change(1);
        assert!(scenario(&disk).is_err());
        assert_eq!(*looks.lock().unwrap(), 1);
        disk.crash();
        disk.restart();
        assert_eq!(*looks.lock().unwrap(), 1);
        disk.restart();
        assert_eq!(*looks.lock().unwrap(), 2);
    }

    #[test]
    fn a_removed_file_stays_readable_and_takes_space_while_open() {
        let disk = SimDisk::new(1);
        let f = file(&disk);
        f.write_at(&[1; 100], 0).unwrap();
        disk.remove(Path::new(FILE)).unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        let mut found = [0; 100];
        assert_eq!(f.read_at(&mut found, 0).unwrap(), 100);
        assert_eq!((found, disk.used_bytes()), ([1; 100], 100));
        drop(f);
        assert_eq!(disk.used_bytes(), 0);
        // The other way round: closed first.
        file(&disk).write_at(&[1; 100], 0).unwrap();
        disk.remove(Path::new(FILE)).unwrap();
        assert_eq!(disk.used_bytes(), 100, "the removal may still be lost");
        disk.sync_dir(Path::new("/d")).unwrap();
        assert_eq!(disk.used_bytes(), 0);
    }

    #[test]
    fn a_link_shares_bytes_and_outlives_the_first_name() {
        let disk = SimDisk::new(1);
        let (first, second) = (Path::new(FILE), Path::new("/backup/f"));
        file(&disk).write_at(b"both", 0).unwrap();
        disk.hard_link(first, second).unwrap();
        let again = disk.hard_link(first, second).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        disk.remove(first).unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
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
    fn scheduled_faults_happen() {
        let disk = SimDisk::new(1);
        disk.fail(Fault { operation: Operation::Sync, skip: 1, times: 1, errno: 5 });
        let f = file(&disk);
        f.write_at(&[1; 4], 0).unwrap();
        f.sync_data().unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        assert_eq!(f.sync_data().unwrap_err().raw_os_error(), Some(5));
        f.sync_data().unwrap();
    }

    #[test]
    fn each_operation_can_fail_and_then_changes_nothing_but_a_write() {
        let names = |disk: &SimDisk| disk.list(Path::new("/d")).unwrap();
        for operation in Operation::ALL {
            let disk = SimDisk::new(1);
            let fault = Fault { operation, skip: 0, times: 1, errno: 5 };
            let failed = |result: io::Result<()>| {
                assert_eq!(result.unwrap_err().raw_os_error(), Some(5), "{operation:?}");
            };
            let (path, other) = (Path::new(FILE), Path::new("/d/g"));
            if operation == Operation::Create {
                disk.fail(fault);
                failed(disk.open(path, Access::Create).map(|_| ()));
                assert!(names(&disk).is_empty());
                continue;
            }
            let f = file(&disk);
            f.write_at(&[1; 4], 0).unwrap();
            disk.fail(fault);
            failed(match operation {
                Operation::Write => f.write_at(&[2; 4], 4),
                Operation::Sync => f.sync_data(),
                Operation::Read => f.read_at(&mut [0], 0).map(|_| ()),
                Operation::Preallocate => f.preallocate(8),
                Operation::Truncate => f.truncate(0),
                Operation::Open => disk.open(path, Access::Read).map(|_| ()),
                Operation::Rename => disk.rename(path, other),
                Operation::Link => disk.hard_link(path, other),
                Operation::Remove => disk.remove(path),
                Operation::SyncDir => disk.sync_dir(Path::new("/d")),
                Operation::Create => unreachable!("tried above"),
            });
            assert_eq!(names(&disk), ["f"], "{operation:?}");
            let bytes = if operation == Operation::Write { 6 } else { 4 };
            assert_eq!(f.bytes().unwrap(), bytes, "{operation:?}");
        }
    }

    #[test]
    fn random_failures_happen_at_their_rate_until_cleared() {
        let disk = SimDisk::new(1);
        let f = file(&disk);
        disk.fail_by_chance(&[Operation::Write], 4, 28);
        let failures = (0..1000).filter(|_| f.write_at(b"x", 0).is_err()).count();
        assert!((150..350).contains(&failures), "{failures}");
        f.sync_data().unwrap();
        disk.clear_faults();
        assert!((0..100).all(|_| f.write_at(b"x", 0).is_ok()));
    }

    #[test]
    fn bits_flip_only_on_request_and_are_counted() {
        let disk = SimDisk::new(1);
        let f = file(&disk);
        f.write_at(&[0; 64], 0).unwrap();
        let bits = |f: &Arc<dyn DiskFile>| {
            let mut found = [0; 64];
            f.read_at(&mut found, 0).unwrap();
            found.iter().map(|byte| byte.count_ones()).sum::<u32>()
        };
        assert!((0..100).all(|_| bits(&f) == 0));
        disk.flip_reads(10);
        let flipped: u32 = (0..1000).map(|_| bits(&f)).sum();
        assert_eq!(u64::from(flipped), disk.flips());
        assert!((50..200).contains(&flipped), "{flipped}");
        disk.flip_reads(0);
        assert_eq!(bits(&f), 0, "it is stored as it was");
        let offset = disk.rot(Path::new(FILE)).unwrap();
        assert_eq!(bits(&f), 1);
        disk.sync_dir(Path::new("/d")).unwrap();
        f.sync_data().unwrap();
        disk.restart();
        let left = disk.contents(Path::new(FILE)).unwrap();
        assert_eq!(left[offset as usize].count_ones(), 1);
        assert_eq!(disk.flips(), u64::from(flipped) + 1);
        assert_eq!(disk.rot(Path::new("/d/none")), None);
    }

    #[test]
    fn the_same_seed_does_the_same_again() {
        let run = |seed| {
            let disk = SimDisk::new(seed);
            disk.crash_at_change(7);
            let _ = scenario(&disk);
            disk.restart();
            let names = disk.list(Path::new("/d")).unwrap();
            let bytes = names.iter().map(|name| disk.contents(&Path::new("/d").join(name)));
            (names.clone(), bytes.collect::<Vec<_>>())
        };
        assert!((0..32).all(|seed| run(seed) == run(seed)));
    }
}
