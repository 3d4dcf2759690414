//! Reads processes from `/proc`: parents, processor time and start time. Used by the code that
//! starts servers and by the code that measures them.

use std::collections::BTreeMap;

/// The content of `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The state as one letter; `Z` is a process that has ended and was not waited for.
    pub state: u8,
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
        Stat::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Fields 3, 4, 14, 15 and 22 of proc(5). The name of the command, field 2, may contain any
    /// characters, including brackets.
    fn parse(text: &str) -> Option<Stat> {
        let (_, rest) = text.rsplit_once(')')?;
        // Numbered as in proc(5); the first word here is its third field.
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Stat {
            state: *fields.first()?.as_bytes().first()?,
            parent: u32::try_from(field(4)?).ok()?,
            cpu_ticks: field(14)? + field(15)?,
            began_ticks: field(22)?,
        })
    }
}

/// `roots` and all their current descendants; the roots first.
pub fn trees(roots: &[u32]) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parents: BTreeMap<u32, u32> =
        pids.filter_map(|pid| Some((pid, Stat::of(pid)?.parent))).collect();
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
    fn the_name_of_a_command_may_hold_anything() {
        let rest = "S 3 7 7 0 -1 4194560 1 2 3 4 11 22 7 8 20 0 1 0 4711 9 9";
        for name in ["a", "a b", "a) S 9 (b"] {
            let stat = Stat::parse(&format!("7 ({name}) {rest}")).unwrap();
            let expected = Stat { state: b'S', parent: 3, cpu_ticks: 33, began_ticks: 4711 };
            assert_eq!(stat, expected, "{name}");
        }
        for cut in ["", "7", "7 (a", "7 (a)", "7 (a) S", "7 (a) S x", "7 (a) S 1 2 3"] {
            assert!(Stat::parse(cut).is_none(), "{cut}");
        }
    }

    #[test]
    fn trees_hold_the_children_of_children() {
        let parents = BTreeMap::from([(2, 1), (3, 2), (4, 3), (5, 1)]);
        assert_eq!(trees_in(&[2], &parents), [2, 3, 4]);
        assert_eq!(trees_in(&[2, 3, 9], &parents), [2, 3, 9, 4]);
    }
}
