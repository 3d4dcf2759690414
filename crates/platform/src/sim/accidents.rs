//! What goes wrong on a simulated disk, and when: failures, power cuts, flipped bits.

use std::io;

/// An operation that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// [`DiskFile::write_at`](crate::DiskFile::write_at); half of the bytes are written.
    Write,
    /// [`DiskFile::sync_data`](crate::DiskFile::sync_data); what was pending is lost in part at the
    /// next power cut, though it is still read.
    Sync,
    /// [`DiskFile::read_at`](crate::DiskFile::read_at).
    Read,
    /// [`DiskFile::preallocate`](crate::DiskFile::preallocate).
    Preallocate,
    /// [`DiskFile::truncate`](crate::DiskFile::truncate).
    Truncate,
    /// [`Disk::open`](crate::Disk::open) with [`Access::Create`](crate::Access::Create).
    Create,
    /// [`Disk::open`](crate::Disk::open) of a file that is there.
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
    /// All of them.
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

    /// Whether the disk is another one after it.
    fn is_change(self) -> bool {
        !matches!(self, Operation::Read | Operation::Open)
    }

    fn is_sync(self) -> bool {
        matches!(self, Operation::Sync | Operation::SyncDir)
    }
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

/// Failures that come by chance.
struct Chance {
    operations: Vec<Operation>,
    one_in: u32,
    errno: i32,
}

/// When the power is cut, counted in operations from the start.
#[derive(Clone, Copy)]
enum Cut {
    AtSync(u64),
    AtChange(u64),
}

/// What becomes of an operation that begins.
pub(super) enum Fate {
    /// It is carried out, or fails if an error is given.
    Done(io::Result<()>),
    /// The power is cut before it, or behind it without an answer.
    Cut {
        /// Whether it was carried out.
        done: bool,
    },
    /// Whoever asked for it panics before it, or behind it.
    Panic {
        /// Whether it was carried out.
        done: bool,
    },
}

#[derive(Default)]
pub(super) struct Accidents {
    faults: Vec<Fault>,
    chances: Vec<Chance>,
    cut: Option<Cut>,
    /// The number of the change over which its thread panics.
    panic_at: Option<u64>,
    /// Syncs of files and directories that began.
    pub(super) syncs: u64,
    /// Operations that change something and that began, syncs among them.
    pub(super) changes: u64,
    flip_one_in: u32,
    /// Bits flipped in what was read or is stored.
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

    /// Forgets all that has not come yet, but for flipped bits.
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

    /// Perhaps flips a bit of what was read.
    pub(super) fn flip(&mut self, read: &mut [u8], rng: &mut fastrand::Rng) {
        if self.flip_one_in > 0 && !read.is_empty() && rng.u32(..self.flip_one_in) == 0 {
            read[rng.usize(..read.len())] ^= 1 << rng.u8(..8);
            self.flips += 1;
        }
    }
}
