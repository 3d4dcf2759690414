//! Discovers files: those that match a pattern, and those that were renamed while this process did
//! not run.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::super::checkpoint::CheckpointEntry;
use super::super::follow::{Follow, OpenFile, last_line_end, live_from, start};
use super::super::glob::FoundFiles;
use super::super::identity::{Inode, born_ns};
use super::super::{FILES_MAX, FileRule, Pattern};
use super::{BUSY_PARTS, Follower, MS, names_of, queue_rest};

/// Interval of the search for new files, in addition to notifications from the kernel.
const FIND_MS: u64 = 5_000;

impl Follower {
    pub(super) fn patterns(&self) -> impl Iterator<Item = String> {
        let patterns = self.config.rules.iter().flat_map(|rule| &rule.paths);
        patterns.map(|pattern| pattern.text().to_owned()).collect::<Vec<_>>().into_iter()
    }

    pub(super) fn rule_of(&self, path: &Path) -> Option<usize> {
        self.config.rules.iter().position(|rule| {
            rule.paths.iter().any(|pattern| pattern.matches(path)) && !self.leaves_out(rule, path)
        })
    }

    fn leaves_out(&self, rule: &FileRule, path: &Path) -> bool {
        // Otherwise it would follow its own segments.
        path.starts_with(&self.config.data_dir)
            || rule.exclude.iter().any(|exclude| exclude.matches(path))
    }

    /// Searches for new files.
    pub(super) fn find(&mut self) {
        let begun_ns = self.now_ns();
        let mut directories = BTreeSet::new();
        let mut errors = Vec::new();
        let mut seen: HashSet<PathBuf> = HashSet::new();
        for rule in 0..self.config.rules.len() {
            let mut found = FoundFiles::default();
            for pattern in &self.config.rules[rule].paths {
                pattern.find(&mut found);
            }
            directories.append(&mut found.directories);
            errors.append(&mut found.errors);
            for path in found.files {
                if seen.contains(&path) || self.leaves_out(&self.config.rules[rule], &path) {
                    continue;
                }
                self.consider(&path, rule);
                seen.insert(path);
            }
        }
        self.with.board.still_unreadable(|path| {
            seen.contains(path) || errors.iter().any(|(directory, _)| directory == path)
        });
        for (path, why) in errors {
            self.unreadable(&path, &why);
        }
        for follow in self.follows.values() {
            let real_path = follow.real_path.as_deref().and_then(Path::parent);
            directories.extend(real_path.map(Path::to_owned));
        }
        if directories != self.directories {
            self.directories = directories;
            self.directories_changed = true;
        }
        let now_ns = self.now_ns();
        self.find_ns = now_ns + (FIND_MS * MS).max(BUSY_PARTS * (now_ns - begun_ns));
    }

    /// Starts to follow a file, unless it is followed already.
    pub(super) fn consider(&mut self, path: &Path, rule: usize) {
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return self.unreadable(path, &error.to_string()),
        };
        if !metadata.is_file() {
            return;
        }
        let inode = Inode::of(&metadata);
        if let Some(before) = self.by_path.insert(path.to_owned(), inode)
            && before != inode
            && let Some(follow) = self.follows.get_mut(&before)
        {
            // Renamed, or its symbolic link leads elsewhere now.
            follow.renamed = true;
            follow.publish_state();
        }
        if let Some(follow) = self.follows.get_mut(&inode) {
            follow.real_path.get_or_insert_with(|| path.to_owned());
            return;
        }
        if self.follows.len() >= FILES_MAX {
            self.by_path.remove(path);
            return self.unreadable(path, "there are more files than can be followed");
        }
        if let Err(error) = self.follow(path, rule, None) {
            self.by_path.remove(path);
            if error.kind() != io::ErrorKind::NotFound {
                self.unreadable(path, &error.to_string());
            }
        }
    }

    /// Follows a file from its remembered position, or from where a new one begins. With `only`,
    /// the file must be that one, although it may have been truncated meanwhile.
    fn follow(
        &mut self,
        path: &Path,
        rule: usize,
        only: Option<&CheckpointEntry>,
    ) -> io::Result<()> {
        let file = OpenFile::open(path, &self.with.board.open)?;
        let metadata = file.metadata()?;
        if self.follows.contains_key(&Inode::of(&metadata)) {
            return Ok(());
        }
        let start = start(&file)?;
        let born_ns = born_ns(&metadata);
        let known = |entry: &CheckpointEntry| {
            entry.born_ns == born_ns
                && entry.fingerprint.fits(&start)
                && entry.position <= metadata.len()
                && only.is_none_or(|only| only == entry)
        };
        let remembered = self.remembered.get(&metadata.ino()).map_or(&[][..], Vec::as_slice);
        // An inode is reused when its file is gone, and the fingerprint of an empty file matches
        // everything. If the creation time does not distinguish the entries, the last file with the
        // inode is meant.
        let entry = remembered.iter().filter(|entry| known(entry)).max_by_key(|entry| entry.id);
        let entry = entry.cloned();
        let has_other_start = |only: &CheckpointEntry| only.born_ns != 0 && only.born_ns == born_ns;
        if entry.is_none() && !only.is_none_or(has_other_start) {
            return Ok(());
        }
        // Entries are removed only once the file is followed. It continues from its entry; lines of
        // it before a truncation are gone.
        if let Some(remembered) = self.remembered.get_mut(&metadata.ino()) {
            remembered.retain(|old| {
                Some(old) != entry.as_ref() && (old.born_ns == 0 || old.born_ns != born_ns)
            });
            if remembered.is_empty() {
                self.remembered.remove(&metadata.ino());
            }
        }
        let settings = &self.config.rules[rule];
        let is_known = |pattern: &Pattern| self.patterns_known.contains(pattern.text());
        let position = match &entry {
            Some(entry) => entry.position,
            None if settings.from_end && !settings.paths.iter().all(is_known) => {
                last_line_end(&file, metadata.len())?
            }
            None => 0,
        };
        let id = entry.as_ref().map_or(self.id_next, |entry| entry.id);
        self.id_next = self.id_next.max(id + 1);
        // Lines keep the name under which the file was first discovered.
        let name = only.or(entry.as_ref());
        let name = name.map_or_else(|| path.to_owned(), |entry| PathBuf::from(&entry.path));
        let now_ns = self.now_ns();
        let mut follow =
            Follow::new(id, (rule, settings), name, (file, &metadata), &start, position);
        follow.real_path = Some(fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()));
        follow.grown_ns = now_ns;
        follow.recorded = entry.is_some();
        follow.renamed = only.is_some();
        if self.has_begun && entry.is_none() {
            follow.live_from = live_from(metadata.len());
        }
        self.checkpoint_wanted |= !follow.recorded;
        follow.publish_state();
        self.enter(follow);
        self.close_some();
        Ok(())
    }

    fn enter(&mut self, mut follow: Follow) {
        self.with.board.add(&follow.tracked);
        if let Some(real_path) = &follow.real_path {
            self.by_path.insert(real_path.clone(), follow.inode);
        }
        queue_rest(&mut self.queue, &mut follow);
        self.follows.insert(follow.inode, follow);
    }

    /// Follows the remaining bytes of files that were renamed while this process did not run.
    pub(super) fn find_renamed(&mut self) {
        let mut by_directory: HashMap<PathBuf, Vec<CheckpointEntry>> = HashMap::new();
        for entry in self.remembered.values().flatten() {
            if let Some(directory) = Path::new(&entry.path).parent() {
                by_directory.entry(directory.to_owned()).or_default().push(entry.clone());
            }
        }
        for (directory, mut entries) in by_directory {
            // If several had the same inode, the latest one owns it now.
            entries.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.id));
            let names = names_of(&directory, entries.iter().map(|entry| entry.inode));
            for entry in entries {
                let Some(path) = names.get(&entry.inode) else { continue };
                let Some(rule) = self.rule_of(Path::new(&entry.path)) else { continue };
                if let Err(error) = self.follow(path, rule, Some(&entry)) {
                    self.unreadable(path, &error.to_string());
                }
            }
        }
    }

    pub(super) fn unreadable(&self, path: &Path, why: &str) {
        if self.with.board.unreadable(path, why) {
            let path = path.display();
            tracing::warn!("{path} cannot be followed, will try again: {why}");
        }
    }
}
