//! Invariants: compares the store with the reference model, after each step and at the end.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use platform::{Clock, Disk};
use segment::sealed::SealedFile;
use segment::tokens::{for_each_token, required_tokens};
use store::{DeletionState, SegmentState, Store, StoreCallbacks, StoreConfig, Unit};

use super::{Asked, Backup, DIR, Life, REST_NS};
use crate::oracle::lines::number_of;
use crate::oracle::truth::{Fate, Shown};

impl Life {
    /// Checks everything that must hold between two steps.
    pub(super) fn compare(&mut self) {
        if self.config.bytes_max.is_some() {
            // A rewrite may have made files grow by some bytes; the ledger's thread looks at the
            // limit each second.
            self.store().writer_step();
        }
        let shown = self.show().expect("the disk is fine");
        let (limits, now_ns) = (self.limits(), self.clock.now_ns());
        let (went, with_segments) = self.truth.compare(&shown, &limits, now_ns);
        let stats = self.store().stats();
        assert_eq!(stats.lines, shown.len() as u64, "lines by the statistics");
        let counted = stats.lines_expired + stats.sealing.lines_deleted;
        // Lines of refused frames that are found after a failed write are counted, too, when they
        // are deleted.
        let unknown = self.truth.lines.iter().any(|line| line.fate == Fate::Unknown);
        if !unknown && !std::mem::take(&mut self.reopened) {
            assert!(went <= counted - self.counted, "{went} lines went, {counted} were counted");
            let expired = stats.lines_expired - self.expired;
            assert!(with_segments <= expired, "{with_segments} lines went, {expired} expired");
        }
        (self.counted, self.expired) = (counted, stats.lines_expired);
        if let Some(bytes_max) = self.config.bytes_max {
            let bytes = stats.bytes_disk;
            assert!(bytes <= bytes_max || self.removal_failed, "{bytes} bytes of {bytes_max}");
        }
        self.check_deletions();
    }

    /// Asserts that the lines of a deletion are gone once the store reports it as done.
    fn check_deletions(&mut self) {
        let states = self.store().deletions();
        let is_done = |asked: &Asked| {
            let found = states.iter().find(|(deletion, _)| deletion.id == asked.id);
            let (deletion, _) = found.expect("a deletion is listed");
            assert_ne!(deletion.state, DeletionState::Failed, "{:?}", deletion.note);
            deletion.state == DeletionState::Done && deletion.note.is_none()
        };
        let (done, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.deletions).into_iter().partition(is_done);
        self.deletions = left;
        for asked in done {
            self.coverage.deletions_done += 1;
            for number in asked.numbers {
                let line = &self.truth.lines[number];
                assert!(line.fate != Fate::Kept, "deleted and there: {}", line.text());
            }
        }
    }

    /// Asserts that lines are gone that exceed the limit on age by more than the span of a segment.
    pub(super) fn check_age(&mut self) {
        let Some(age_ns) = self.config.age_ns else { return };
        let Ok(shown) = self.show() else { return };
        let oldest_ns = self.clock.now_ns() - age_ns - age_ns / 8 - 3 * REST_NS;
        for line in shown {
            assert!(line.received_ns >= oldest_ns, "line {} should have expired", line.id);
        }
    }

    /// Asserts that an earlier snapshot still shows all its lines, except those deleted since.
    pub(super) fn read_snapshot(&mut self) {
        if self.snapshots.is_empty() {
            return;
        }
        let snapshot = self.snapshots.remove(self.rng.usize(..self.snapshots.len()));
        self.tell("read an earlier snapshot");
        let Ok(shown) = self.read(&snapshot.units) else { return };
        let found = self.numbers(&shown);
        let (limits, now_ns) = (self.limits(), self.clock.now_ns());
        for &number in snapshot.numbers.difference(&found) {
            let line = &self.truth.lines[number];
            let may_go = line.fate == Fate::Gone || limits.may_go(line, now_ns);
            assert!(may_go, "an earlier snapshot lacks line {number}: {}", line.text());
        }
        self.coverage.snapshots_read += 1;
    }

    /// Looks a line up by its id.
    pub(super) fn look_up(&mut self) {
        if self.truth.lines.is_empty() {
            return;
        }
        let number = self.rng.usize(..self.truth.lines.len());
        let line = &self.truth.lines[number];
        let Ok(units) = self.store().find(line.id) else { return };
        let Ok(shown) = self.read(&units) else { return };
        let found = shown.iter().filter(|shown| shown.id == line.id).count();
        let may_go = self.limits().may_go(line, self.clock.now_ns());
        match line.fate {
            Fate::Kept if !may_go => assert_eq!(found, 1, "find {}", line.text()),
            Fate::Gone if !self.disk.is_crashed() => {
                let same = shown.iter().filter(|s| s.id == line.id && s.raw == line.raw).count();
                assert_eq!(same, 0, "find {}", line.text());
            }
            _ => {}
        }
    }

    /// Asserts that the filter of a block contains each word of a line of it.
    pub(super) fn ask_for_words(&mut self) {
        let Ok(units) = self.store().snapshot((i64::MIN, i64::MAX)) else { return };
        for unit in &units {
            let Unit::Block(block) = unit else { continue };
            let (Ok(Some(file)), Ok(Some(batch))) = (block.file(), block.read()) else { return };
            let row = batch.row(self.rng.usize(..batch.len()));
            let mut words = Vec::new();
            for (_, value) in row.fields() {
                for_each_token(value, |word| words.push(required_tokens(word, true, true)));
            }
            let Ok(held) = file.may_contain(block.position().frame as usize, &words) else {
                return;
            };
            let Some(held) = held else { continue };
            let text = String::from_utf8_lossy(row.raw());
            assert!(held.iter().all(|held| *held), "a word of this line is not found: {text}");
            self.coverage.words_found += held.len() as u64;
        }
    }

    /// Asserts that no file is left over, and that each sealed one is complete.
    pub(super) fn check_files(&self) {
        let segments = self.store().segments();
        let mut listed: Vec<String> = segments
            .iter()
            .map(|s| s.path.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        listed.sort();
        let dir = Path::new(DIR).join("segments");
        let mut files = self.disk.list(&dir).unwrap();
        // What a power cut or a failed write left is kept, since it may be damage.
        let is_kept = |name: &str| name.contains(".hot.torn") || name.ends_with(".hot.damaged");
        files.retain(|name| !is_kept(name));
        assert_eq!(files, listed, "files and what is listed");
        for segment in segments.iter().filter(|s| s.state == SegmentState::Sealed) {
            let file = SealedFile::open(&*self.seen, &segment.path).unwrap();
            for block in 0..file.footer().blocks.len() {
                file.verify_block(block).unwrap();
            }
        }
    }

    pub(super) fn check_backup(&mut self, backup: &Backup) {
        self.tell(format!("open {}", backup.dir.display()));
        let disk = super::seen(&self.bare_disk, &self.keys);
        let clock: Arc<dyn Clock> = self.clock.clone();
        let config = StoreConfig {
            data_dir: backup.dir.clone(),
            age_ns: None,
            bytes_max: None,
            rules: Vec::new(),
            ..self.config.clone()
        };
        let (store, report) = Store::open_stepped(config, disk, clock).expect("opens");
        for warning in &report.warnings {
            let of_source = warning.replace(backup.dir.to_str().expect("as made"), DIR);
            // The write of an index failed halfway, in a file that the source still has open. The
            // lines of the backup are compared below.
            let is_half_an_index = warning.ends_with("; its frames are intact");
            assert!(is_half_an_index || backup.warnings.contains(&of_source), "{warning}");
        }
        let units = store.snapshot((i64::MIN, i64::MAX)).unwrap();
        let shown = self.read(&units).unwrap();
        assert_eq!(self.numbers(&shown), backup.numbers, "lines of a backup");
        self.coverage.backups_read += 1;
    }

    /// All lines that the store shows.
    pub(super) fn show(&self) -> Result<Vec<Shown>, String> {
        let units = self.store().snapshot((i64::MIN, i64::MAX)).map_err(|e| e.to_string())?;
        self.read(&units)
    }

    fn read(&self, units: &[Unit]) -> Result<Vec<Shown>, String> {
        let mut shown = Vec::new();
        for unit in units {
            let batch = match unit {
                Unit::Frame(frame) => match frame.cached() {
                    Some(batch) => Some(batch),
                    None => {
                        let frame = frame.read_frame().map_err(|error| error.to_string())?;
                        frame.map(|frame| Arc::new(self.host.parse(frame)))
                    }
                },
                Unit::Block(block) => block.read().map_err(|error| error.to_string())?,
            };
            let Some(batch) = batch else { continue };
            assert_eq!(batch.len() as u64, unit.lines(), "lines of a unit");
            if let Some(range) = unit.time_range() {
                assert_eq!(range, batch.time_range_ns(), "times of a unit");
            }
            shown.extend(batch.rows().map(|row| Shown {
                id: row.id(),
                received_ns: row.received_ns(),
                raw: row.raw().to_vec(),
            }));
        }
        Ok(shown)
    }

    pub(super) fn numbers(&self, shown: &[Shown]) -> BTreeSet<usize> {
        shown.iter().filter_map(|line| number_of(&line.raw)).collect()
    }
}
