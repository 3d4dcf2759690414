//! Failures of a simulated disk and when they happen: errors, power cuts, flipped bits.

use std::io;

/// An operation that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// [`DiskFile::write_at`](crate::DiskFile::write_at); half of the bytes are written.
    Write,
    /// [`DiskFile::sync_data`](crate::DiskFile::sync_data); pending data is partly lost at the next
    /// power cut, though it can still be read before that.
    Sync,
    /// [`DiskFile::read_at`](crate::DiskFile::read_at).
    Read,
    /// [`DiskFile::preallocate`](crate::DiskFile::preallocate).
    Preallocate,
    /// [`DiskFile::truncate`](crate::DiskFile::truncate).
    Truncate,
    /// [`Disk::open`](crate::Disk::open) with [`Access::Create`](crate::Access::Create).
    Create,
    /// [`Disk::open`](crate::Disk::open) of an existing file.
    Open,
    /// [`Disk::rename`](crate::Disk::rename).
    Rename,
    /// [`Disk::hard_link`](crate::Disk::hard_link).
    Link,
    /// [`Disk::remove`](crate::Disk::remove).
    Remove,
    /// [`Disk::sync_dir`](crate::Disk::sync_dir).
    SyncDir,
}

impl Operation {
    /// All operations.
    pub const ALL: [Operation; 11] = [
        Operation::Write,
        Operation::Sync,
        Operation::Read,
        Operation::Preallocate,
        Operation::Truncate,
        Operation::Create,
        Operation::Open,
        Operation::Rename,
        Operation::Link,
        Operation::Remove,
        Operation::SyncDir,
    ];

    /// Whether the operation changes the disk.
    fn is_change(self) -> bool {
        !matches!(self, Operation::Read | Operation::Open)
    }

    fn is_sync(self) -> bool {
        matches!(self, Operation::Sync | Operation::SyncDir)
    }
}

/// A scheduled failure.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The operation that fails.
    pub operation: Operation,
    /// How many such operations still succeed before.
    pub skip: u64,
    /// How many then fail.
    pub times: u64,
    /// Error number of the operating system, such as 5 for EIO.
    pub errno: i32,
}

/// Random failures.
struct Chance {
    operations: Vec<Operation>,
    one_in: u32,
    errno: i32,
}

/// When the power is cut, as a number of operations since the start.
#[derive(Clone, Copy)]
enum Cut {
    AtSync(u64),
    AtChange(u64),
}

/// The outcome of an operation that begins.
pub(super) enum Fate {
    /// It is carried out, or fails if an error is given.
    Done(io::Result<()>),
    /// The power is cut before or after the operation; the caller gets no answer.
    Cut {
        /// Whether the operation took effect.
        done: bool,
    },
    /// The caller panics before or after the operation.
    Panic {
        /// Whether the operation took effect.
        done: bool,
    },
}

#[derive(Default)]
pub(super) struct Accidents {
    faults: Vec<Fault>,
    chances: Vec<Chance>,
    cut: Option<Cut>,
    /// The number of the change that makes its thread panic.
    panic_at: Option<u64>,
    /// Syncs of files and directories that were started.
    pub(super) syncs: u64,
    /// Changing operations that were started, including syncs.
    pub(super) changes: u64,
    flip_one_in: u32,
    /// Bits flipped in data that was read or is stored.
    pub(super) flips: u64,
}

impl Accidents {
    pub(super) fn fail(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    pub(super) fn fail_by_chance(&mut self, operations: &[Operation], one_in: u32, errno: i32) {
        assert!(one_in > 0, "a chance is one in a number");
        self.chances.push(Chance { operations: operations.to_vec(), one_in, errno });
    }

    /// Cancels everything that has not happened yet, except flipped bits.
    pub(super) fn clear(&mut self) {
        self.faults.clear();
        self.chances.clear();
        self.cut = None;
        self.panic_at = None;
    }

    pub(super) fn is_any_ordered(&self) -> bool {
        let faults = self.faults.iter().any(|fault| fault.times > 0);
        faults || !self.chances.is_empty() || self.cut.is_some() || self.panic_at.is_some()
    }

    pub(super) fn panic_at_change(&mut self, n: u64) {
        self.panic_at = Some(self.changes + n);
    }

    pub(super) fn cut_at_sync(&mut self, n: u64) {
        self.cut = Some(Cut::AtSync(self.syncs + n));
    }

    pub(super) fn cut_at_change(&mut self, n: u64) {
        self.cut = Some(Cut::AtChange(self.changes + n));
    }

    pub(super) fn begin(&mut self, operation: Operation, rng: &mut fastrand::Rng) -> Fate {
        self.syncs += u64::from(operation.is_sync());
        self.changes += u64::from(operation.is_change());
        let is_cut = match self.cut {
            Some(Cut::AtSync(at)) => operation.is_sync() && self.syncs >= at,
            Some(Cut::AtChange(at)) => operation.is_change() && self.changes >= at,
            None => false,
        };
        if is_cut {
            self.cut = None;
            return Fate::Cut { done: rng.bool() };
        }
        if operation.is_change() && self.panic_at.is_some_and(|at| self.changes >= at) {
            self.panic_at = None;
            return Fate::Panic { done: rng.bool() };
        }
        Fate::Done(self.failure(operation, rng))
    }

    fn failure(&mut self, operation: Operation, rng: &mut fastrand::Rng) -> io::Result<()> {
        for fault in self.faults.iter_mut().filter(|f| f.operation == operation) {
            if fault.skip > 0 {
                fault.skip -= 1;
            } else if fault.times > 0 {
                fault.times -= 1;
                return Err(io::Error::from_raw_os_error(fault.errno));
            }
        }
        for chance in self.chances.iter().filter(|c| c.operations.contains(&operation)) {
            if rng.u32(..chance.one_in) == 0 {
                return Err(io::Error::from_raw_os_error(chance.errno));
            }
        }
        Ok(())
    }

    pub(super) fn flip_reads(&mut self, one_in: u32) {
        self.flip_one_in = one_in;
    }

    /// Randomly flips a bit of data that was read.
    pub(super) fn flip(&mut self, read: &mut [u8], rng: &mut fastrand::Rng) {
        if self.flip_one_in > 0 && !read.is_empty() && rng.u32(..self.flip_one_in) == 0 {
            read[rng.usize(..read.len())] ^= 1 << rng.u8(..8);
            self.flips += 1;
        }
    }
}
