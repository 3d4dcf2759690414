//! Keeps the positions of files across restarts: checkpoints, and the durable lines behind the last
//! one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;

use super::super::checkpoint::Checkpoint;
use super::super::identity::Inode;
use super::super::recall::{Recall, Window};
use super::{Follower, MS};

/// Interval of checkpoints while files are read (`CHECKPOINT_MS`), and while nothing was read
/// (`CHECKPOINT_IDLE_MS`).
const CHECKPOINT_MS: u64 = 1_000;
const CHECKPOINT_IDLE_MS: u64 = 10_000;
/// Checkpoint bytes written per second: large checkpoints are written less often.
const CHECKPOINT_BYTES_PER_S: u64 = 256 << 10;
/// How long the position of a missing file is remembered: its file system may not be mounted.
const REMEMBER_S: i64 = 7 * 86_400;

impl Follower {
    /// Advances behind lines that were durable before a crash but are not in the checkpoint.
    pub(super) fn skip_durable(&mut self, sequence: u64, recall: &dyn Recall) {
        let by_id: HashMap<u64, Inode> =
            self.follows.values().map(|f| (f.tracked.id, f.inode)).collect();
        let mut lost_track: HashSet<u64> = HashSet::new();
        let (mut window, mut window_of, mut skipped) = (Window::default(), 0, 0u64);
        let mut ahead: HashMap<u64, BTreeMap<u64, u64>> = HashMap::new();
        let follows = &mut self.follows;
        let result = recall.lines_since(sequence, &mut |origin, line| {
            let Some(id) = origin.hints.file_id.filter(|id| !lost_track.contains(id)) else { return };
            let Some(follow) = by_id.get(&id).and_then(|inode| follows.get_mut(inode)) else { return };
            if id != window_of {
                window.clear();
                window_of = id;
            }
            let position = follow.position;
            let ahead = ahead.entry(id).or_default();
            let found = follow.utf16().and_then(|order| {
                let file = follow.open()?;
                match order {
                    Some(order) => window.behind_utf16(file, order, position, line),
                    None => window.behind_woven(file, position, line, ahead),
                }
            });
            match found {
                Ok(Some(behind)) => {
                    follow.position = behind;
                    follow.tracked.read.store(behind, Relaxed);
                    follow.tracked.durable.store(behind, Relaxed);
                    skipped += 1;
                }
                _ => {
                    tracing::warn!(path = %follow.path.display(), "the file does not contain the lines that were read from it before the crash; some lines may be stored twice");
                    lost_track.insert(id);
                }
            }
        });
        if let Err(error) = result {
            tracing::error!(
                "the lines that were read before the crash cannot be looked up; some may be stored twice: {error}"
            );
        }
        // The positions are behind those lines now. A second recall from here would not find them
        // there.
        self.with.ledger.count_up_to(self.with.deliver.mark());
        if skipped > 0 {
            tracing::info!(
                "skipped {skipped} lines of files that became durable after the last checkpoint"
            );
        }
    }

    pub(super) fn seen_s(&self) -> i64 {
        self.with.clock.now_ns() / 1_000_000_000
    }

    pub(super) fn checkpoint_if_due(&mut self) {
        let now_ns = self.now_ns();
        let due = self.checkpoint_wanted && now_ns >= self.checkpoint_ns;
        if due || now_ns >= self.checkpoint_idle_ns {
            self.checkpoint();
        }
    }

    /// Writes the durable position of every file. Files that waited for a checkpoint may be read
    /// after it.
    pub(super) fn checkpoint(&mut self) {
        let (now_ns, seen_s) = (self.now_ns(), self.seen_s());
        self.remembered.retain(|_, entries| {
            entries.retain(|entry| seen_s - entry.seen_s < REMEMBER_S);
            !entries.is_empty()
        });
        let follows = &self.follows;
        let deliver = &self.with.deliver;
        let mut checkpoint = self.with.ledger.look(|sequence| {
            // While nothing is in flight, everything so far is counted and need not be recalled.
            let sequence = sequence.unwrap_or_else(|| deliver.mark());
            let mut checkpoint = Checkpoint::new(sequence);
            checkpoint.files.extend(follows.values().map(|follow| follow.entry(seen_s)));
            checkpoint
        });
        checkpoint.files.extend(self.remembered.values().flatten().cloned());
        checkpoint.files.sort_unstable_by_key(|entry| entry.id);
        checkpoint.id_next = self.id_next;
        checkpoint.patterns = self.patterns().collect();
        self.checkpoint_idle_ns = now_ns + CHECKPOINT_IDLE_MS * MS;
        match self.slot.write(&*self.with.disk, &checkpoint) {
            Ok(bytes) => {
                let pause_ns = bytes * 1000 / CHECKPOINT_BYTES_PER_S * MS;
                self.checkpoint_ns = now_ns + pause_ns.max(CHECKPOINT_MS * MS);
                self.checkpoint_wanted = false;
                self.follows.values_mut().for_each(|follow| follow.recorded = true);
            }
            Err(error) => {
                self.checkpoint_ns = now_ns + CHECKPOINT_MS * MS;
                self.with.board.checkpoints_failed.fetch_add(1, Relaxed);
                if let Some(held_back) = self.checkpoint_limit.pass() {
                    tracing::error!(
                        held_back,
                        "the checkpoint of followed files cannot be written; new files wait: {error}"
                    );
                }
            }
        }
    }
}
