//! CPU and disk priorities of threads, by the role of the thread.
//!
//! A thread takes its role once, at its start ([`enter`]); the levels are those of the table in
//! `docs/placement.md`. They only order the process's own threads: no priority is ever raised above
//! that of the process, so no privilege is needed, and a thread that has lowered its priority
//! cannot raise it again. Work that becomes urgent is therefore done by another thread
//! ([`Role::Urgent`]).
//!
//! CPU: niceness, which Linux keeps per thread. Each step of niceness is a quarter more or less of
//! CPU time when threads compete (sched(7)), with threads of other programs too. So parsing and
//! queries have none by default: they give way to ingest alone ([`pressure`](crate::pressure)).
//! Disk:
//! ioprio_set(2), which has an effect if the disk's scheduler supports it (`bfq` uses class and
//! level, `mq-deadline` the class, `none` neither).
//!
//! Left out: pinning threads to processors (the kernel knows better where a cache is warm) and
//! real-time classes (they need privileges, and a bug in such a thread would stop the machine).
#![expect(unsafe_code)]

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::pressure;

/// The role of a thread. Earlier ones have priority over later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Reads lines from a socket, a file or a request, and builds frames of them.
    Receiver,
    /// Appends frames and makes them durable.
    Writer,
    /// Keeps files and catalog in agreement, so that the writer does not have to.
    Ledger,
    /// Seals when sealing must not wait.
    Urgent,
    /// Helps urgent work.
    UrgentHelper,
    /// Parses durable frames, and counts their lines in the summary.
    Parse,
    /// Runs a query.
    Query,
    /// Seals, merges, deletes lines, re-encodes.
    Background,
}

/// The levels that can be configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priorities {
    /// Niceness of [`Role::Parse`], 0 to 19.
    pub parse_nice: u8,
    /// Niceness of [`Role::Query`], 0 to 19.
    pub query_nice: u8,
}

impl Default for Priorities {
    /// Beside other programs of the machine, both work at normal priority.
    fn default() -> Self {
        Priorities { parse_nice: 0, query_nice: 0 }
    }
}

/// Niceness of helpers of urgent work. When the processors are busy, each gets a quarter of the CPU
/// time of a receiver: urgent work sometimes waits for its helpers, so they must not have the
/// lowest priority.
const URGENT_HELPER_NICE: u8 = 5;
/// Niceness of background work: beside a busy thread it gets a tenth of a processor. With
/// SCHED_IDLE it would get nothing for seconds, and with it who waits for a lock that it holds.
const BACKGROUND_NICE: u8 = 10;

/// Class and level of ioprio_set(2), in the kernel's encoding: the class in the three highest of 16
/// bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DiskPriority(u16);

impl DiskPriority {
    const IDLE: DiskPriority = DiskPriority(3 << 13);

    /// Level 0 has the highest priority, 7 the lowest.
    const fn best_effort(level: u16) -> DiskPriority {
        assert!(level < 8);
        DiskPriority((2 << 13) | level)
    }
}

/// The scheduling settings of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scheduling {
    nice: u8,
    disk: DiskPriority,
}

impl Role {
    fn scheduling(self, chosen: &Priorities) -> Scheduling {
        let scheduling = |nice, disk| Scheduling { nice, disk };
        match self {
            Role::Receiver => scheduling(0, DiskPriority::best_effort(4)),
            Role::Writer => scheduling(0, DiskPriority::best_effort(0)),
            Role::Ledger | Role::Urgent => scheduling(0, DiskPriority::best_effort(2)),
            Role::UrgentHelper => scheduling(URGENT_HELPER_NICE, DiskPriority::best_effort(3)),
            Role::Parse => scheduling(chosen.parse_nice, DiskPriority::best_effort(4)),
            Role::Query => scheduling(chosen.query_nice, DiskPriority::best_effort(5)),
            Role::Background => scheduling(BACKGROUND_NICE, DiskPriority::IDLE),
        }
    }
}

// The levels hold for the whole process, as its own niceness does. Threads are started in every
// crate and at every depth, helpers included, so each of those calls would have to pass the levels
// on.
static CHOSEN: OnceLock<Priorities> = OnceLock::new();

/// Sets the levels for all threads that [`enter`] afterwards. The first call counts.
pub fn choose(priorities: Priorities) {
    let _ = CHOSEN.set(priorities);
}

/// Gives the calling thread its priorities, for the rest of its life; other work gives way to
/// threads that take lines. If the system refuses (in a container, for example), that is logged
/// once and has no other consequence.
pub fn enter(role: Role) {
    if matches!(role, Role::Receiver | Role::Writer) {
        pressure::take_precedence();
    }
    // One flag for the process: the system refuses all threads alike.
    static REPORTED: AtomicBool = AtomicBool::new(false);
    let scheduling = role.scheduling(CHOSEN.get_or_init(Priorities::default));
    if let Err(error) = apply(scheduling)
        && !REPORTED.swap(true, Ordering::Relaxed)
    {
        tracing::warn!("cannot set the priorities of threads: {role:?}: {error}");
    }
}

fn apply(scheduling: Scheduling) -> io::Result<()> {
    let nice = rustix::process::getpriority_process(None)?;
    // Never above the priority of the process.
    if i32::from(scheduling.nice) > nice {
        rustix::process::setpriority_process(None, scheduling.nice.into())?;
    }
    set_disk_priority(scheduling.disk)
}

fn set_disk_priority(priority: DiskPriority) -> io::Result<()> {
    const IOPRIO_WHO_PROCESS: libc::c_int = 1;
    // SAFETY: ioprio_set takes three integers and touches no memory of ours. Thread 0 is the
    // calling one.
    let result = unsafe {
        libc::syscall(
            libc::SYS_ioprio_set,
            IOPRIO_WHO_PROCESS,
            0 as libc::c_int,
            libc::c_int::from(priority.0),
        )
    };
    checked(result)
}

fn checked(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Niceness and disk priority of the calling thread.
    fn found() -> (i32, u16) {
        let nice = rustix::process::getpriority_process(None).unwrap();
        // SAFETY: takes two integers and touches no memory.
        let disk = unsafe { libc::syscall(libc::SYS_ioprio_get, 1, 0) };
        (nice, u16::try_from(disk).unwrap())
    }

    fn in_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(work).join().unwrap()
    }

    #[test]
    fn each_thread_has_its_own_priorities_and_the_others_keep_theirs() {
        let before = found();
        let base = before.0;
        for (role, nice, disk) in [
            (Role::Receiver, 0, 2 << 13 | 4),
            (Role::Writer, 0, 2 << 13),
            (Role::Ledger, 0, 2 << 13 | 2),
            (Role::Urgent, 0, 2 << 13 | 2),
            (Role::UrgentHelper, 5, 2 << 13 | 3),
            (Role::Parse, 0, 2 << 13 | 4),
            (Role::Query, 0, 2 << 13 | 5),
            (Role::Background, 10, 3 << 13),
        ] {
            let there = in_thread(move || {
                enter(role);
                found()
            });
            assert_eq!(there, (nice.max(base), disk), "{role:?}");
        }
        assert_eq!(found(), before);
    }

    #[test]
    fn a_lowered_priority_cannot_be_raised() {
        let (nice, ..) = in_thread(|| {
            apply(Scheduling { nice: 10, disk: DiskPriority::IDLE }).unwrap();
            enter(Role::Writer);
            found()
        });
        assert!(nice >= 10);
    }

    #[test]
    fn chosen_levels_are_used() {
        let chosen = Priorities { parse_nice: 3, query_nice: 4 };
        assert_eq!(Role::Parse.scheduling(&chosen).nice, 3);
        assert_eq!(Role::Query.scheduling(&chosen).nice, 4);
        assert_eq!(Role::Background.scheduling(&chosen).nice, BACKGROUND_NICE);
    }
}
