//! Names of simulated files: as processes see them, and as they are on the medium.
//!
//! Creations, links, renames and removals are pending until their directory is synced. After a
//! power cut, none of them remain, or all, the first few (a journalling file system), or any subset
//! in order (a file system that writes directories separately). A rename is never half done.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

type Map = BTreeMap<PathBuf, u64>;

enum Change {
    Link(PathBuf, u64),
    Unlink(PathBuf),
    Rename { from: PathBuf, to: PathBuf, inode: u64 },
}

#[derive(Default)]
pub(super) struct Names {
    live: Map,
    durable: Map,
    pending: Vec<Change>,
}

impl Names {
    pub(super) fn get(&self, path: &Path) -> Option<u64> {
        self.live.get(path).copied()
    }

    /// Gives a file a name that is not in use.
    pub(super) fn link(&mut self, path: &Path, inode: u64) {
        self.make(Change::Link(path.to_owned(), inode));
    }

    pub(super) fn unlink(&mut self, path: &Path) {
        self.make(Change::Unlink(path.to_owned()));
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path, inode: u64) {
        self.make(Change::Rename { from: from.to_owned(), to: to.to_owned(), inode });
    }

    fn make(&mut self, change: Change) {
        apply(&mut self.live, &change);
        self.pending.push(change);
    }

    /// Makes the changes of a directory durable.
    pub(super) fn sync(&mut self, dir: &Path) {
        let (now, later) =
            std::mem::take(&mut self.pending).into_iter().partition(|change| change.is_in(dir));
        self.pending = later;
        let now: Vec<Change> = now;
        now.iter().for_each(|change| apply(&mut self.durable, change));
    }

    /// Makes the changes of all directories durable.
    pub(super) fn sync_all(&mut self) {
        self.pending.clear();
        self.durable.clone_from(&self.live);
    }

    pub(super) fn cut_power(&mut self, rng: &mut fastrand::Rng) {
        let pending = std::mem::take(&mut self.pending);
        let (lot, first) = (rng.u8(..4), rng.usize(..=pending.len()));
        for (index, change) in pending.iter().enumerate() {
            let is_left = match lot {
                0 => false,
                1 => true,
                2 => index < first,
                _ => rng.bool(),
            };
            if is_left {
                apply(&mut self.durable, change);
            }
        }
        self.live.clone_from(&self.durable);
    }

    /// Whether a file has a name, or may have one after a power cut.
    pub(super) fn is_named(&self, inode: u64) -> bool {
        let pending = self.pending.iter().filter_map(|change| match change {
            Change::Link(_, inode) | Change::Rename { inode, .. } => Some(inode),
            Change::Unlink(_) => None,
        });
        self.live.values().chain(self.durable.values()).chain(pending).any(|&named| named == inode)
    }

    /// Names in a directory, in order.
    pub(super) fn list(&self, dir: &Path) -> Vec<String> {
        let under = self.live.range(dir.to_owned()..).take_while(|(path, _)| path.starts_with(dir));
        let inside = under.filter(|(path, _)| path.parent() == Some(dir));
        inside.filter_map(|(path, _)| Some(path.file_name()?.to_str()?.to_owned())).collect()
    }
}

impl Change {
    fn is_in(&self, dir: &Path) -> bool {
        match self {
            Change::Link(path, _) | Change::Unlink(path) => path.parent() == Some(dir),
            Change::Rename { from, to, .. } => {
                to.parent() == Some(dir) || from.parent() == Some(dir)
            }
        }
    }
}

fn apply(names: &mut Map, change: &Change) {
    match change {
        Change::Link(path, inode) => {
            names.insert(path.clone(), *inode);
        }
        Change::Unlink(path) => {
            names.remove(path);
        }
        Change::Rename { from, to, inode } => {
            names.remove(from);
            names.insert(to.clone(), *inode);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The directories that can remain after changes and a power cut, as joined "name=inode".
    fn left(change: impl Fn(&mut Names)) -> BTreeSet<String> {
        let cut = |seed| {
            let mut names = Names::default();
            names.link(Path::new("/d/old"), 1);
            names.sync(Path::new("/d"));
            change(&mut names);
            names.cut_power(&mut fastrand::Rng::with_seed(seed));
            let list = names.list(Path::new("/d")).into_iter();
            let inodes = list.map(|name| {
                let inode = names.get(&Path::new("/d").join(&name)).unwrap();
                format!("{name}={inode}")
            });
            inodes.collect::<Vec<_>>().join(" ")
        };
        (0..256).map(cut).collect()
    }

    fn set(expected: &[&str]) -> BTreeSet<String> {
        expected.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn unsynced_changes_survive_in_any_subset() {
        let found = left(|names| {
            names.link(Path::new("/d/new"), 2);
            names.unlink(Path::new("/d/old"));
        });
        assert_eq!(found, set(&["old=1", "new=2 old=1", "", "new=2"]));
        let found = left(|names| {
            names.link(Path::new("/d/a"), 2);
            names.link(Path::new("/d/b"), 3);
        });
        assert!(found.contains("b=3 old=1"), "the later without the earlier");
    }

    #[test]
    fn a_rename_is_done_or_not() {
        let found = left(|names| {
            names.link(Path::new("/d/temporary"), 2);
            names.sync(Path::new("/d"));
            names.rename(Path::new("/d/temporary"), Path::new("/d/old"), 2);
        });
        assert_eq!(found, set(&["old=1 temporary=2", "old=2"]));
    }

    #[test]
    fn a_sync_is_of_one_directory() {
        let found = left(|names| {
            names.link(Path::new("/d/a"), 2);
            names.link(Path::new("/other/b"), 3);
            names.sync(Path::new("/other"));
            assert_eq!(names.list(Path::new("/other")), ["b"]);
        });
        assert_eq!(found, set(&["old=1", "a=2 old=1"]));
        let found = left(|names| {
            names.link(Path::new("/d/a"), 2);
            names.sync(Path::new("/d"));
        });
        assert_eq!(found, set(&["a=2 old=1"]));
    }

    #[test]
    fn a_file_is_kept_while_a_name_of_it_may_come_back() {
        let mut names = Names::default();
        let (dir, file) = (Path::new("/d"), Path::new("/d/f"));
        names.link(file, 7);
        assert!(names.is_named(7));
        names.sync(dir);
        names.unlink(file);
        assert!(names.is_named(7), "the removal may be lost");
        names.sync(dir);
        assert!(!names.is_named(7));
    }
}
