//! Reads processes from `/proc`: parents, processor time and start time. Used by the code that
//! starts servers and by the code that measures them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use procfs::process::{Process, all_processes};

/// The content of `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The state as one letter; `Z` is a process that has ended and was not waited for.
    pub state: char,
    /// Its parent.
    pub parent: u32,
    /// Processor time in user and system mode, ticks.
    pub cpu_ticks: u64,
    /// When it began, ticks since the machine booted: together with its number this identifies a
    /// process for good.
    pub began_ticks: u64,
}

impl Stat {
    /// Reads the process with this number; `None` if there is none.
    pub fn of(pid: u32) -> Option<Stat> {
        let stat = process(pid)?.stat().ok()?;
        Some(Stat {
            state: stat.state,
            parent: u32::try_from(stat.ppid).ok()?,
            cpu_ticks: stat.utime + stat.stime,
            began_ticks: stat.starttime,
        })
    }
}

/// Processes that are a part of this one: clients of stores in other languages.
static CLIENTS: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// The processes that are a part of this one.
pub fn clients() -> Vec<u32> {
    CLIENTS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// From now on, `pid` is a part of this process.
pub fn client_began(pid: u32) {
    CLIENTS.lock().unwrap_or_else(PoisonError::into_inner).push(pid);
}

/// The process has ended.
pub fn client_ended(pid: u32) {
    CLIENTS.lock().unwrap_or_else(PoisonError::into_inner).retain(|client| *client != pid);
}

/// The process with this number; none where there is none.
pub fn process(pid: u32) -> Option<Process> {
    Process::new(i32::try_from(pid).ok()?).ok()
}

/// `roots` and all their current descendants; the roots first.
pub fn trees(roots: &[u32]) -> Vec<u32> {
    let processes = all_processes().into_iter().flatten().flatten();
    let parents: BTreeMap<u32, u32> = processes
        .filter_map(|process| {
            let pid = u32::try_from(process.pid()).ok()?;
            Some((pid, u32::try_from(process.stat().ok()?.ppid).ok()?))
        })
        .collect();
    trees_in(roots, &parents)
}

fn trees_in(roots: &[u32], parents: &BTreeMap<u32, u32>) -> Vec<u32> {
    let mut found = roots.to_vec();
    let mut next = 0;
    while next < found.len() {
        let children = parents.iter().filter(|(_, parent)| **parent == found[next]);
        let new: Vec<u32> =
            children.map(|(pid, _)| *pid).filter(|pid| !found.contains(pid)).collect();
        found.extend(new);
        next += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_hold_the_children_of_children() {
        let parents = BTreeMap::from([(2, 1), (3, 2), (4, 3), (5, 1)]);
        assert_eq!(trees_in(&[2], &parents), [2, 3, 4]);
        assert_eq!(trees_in(&[2, 3, 9], &parents), [2, 3, 9, 4]);
    }
}
