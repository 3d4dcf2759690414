//! What all histories reached together.

/// Counts of what the histories reached, so that a run that no longer tests something is noticed.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    pub lines: u64,
    pub crashes: u64,
    pub crashes_in_rewrites: u64,
    pub failed_opens: u64,
    pub sealed: u64,
    pub trailed: u64,
    pub merged: u64,
    pub encoded_again: u64,
    pub deleted_lines: u64,
    pub expired_lines: u64,
    pub deletions_done: u64,
    pub snapshots_read: u64,
    pub backups_read: u64,
    pub catalogs_lost: u64,
    pub catalogs_old: u64,
    pub refused_frames: u64,
    pub words_found: u64,
    pub lines_followed: u64,
    pub lines_skipped: u64,
}

impl Coverage {
    fn each(&mut self) -> [(&'static str, &mut u64); 19] {
        [
            ("lines", &mut self.lines),
            ("crashes", &mut self.crashes),
            ("crashes in rewrites", &mut self.crashes_in_rewrites),
            ("failed opens", &mut self.failed_opens),
            ("sealed segments", &mut self.sealed),
            ("segments sealed while written", &mut self.trailed),
            ("merges", &mut self.merged),
            ("segments encoded again", &mut self.encoded_again),
            ("lines deleted", &mut self.deleted_lines),
            ("lines expired", &mut self.expired_lines),
            ("deletions done", &mut self.deletions_done),
            ("snapshots read later", &mut self.snapshots_read),
            ("backups read", &mut self.backups_read),
            ("catalogs lost", &mut self.catalogs_lost),
            ("catalogs old", &mut self.catalogs_old),
            ("frames refused", &mut self.refused_frames),
            ("words found", &mut self.words_found),
            ("lines followed", &mut self.lines_followed),
            ("lines skipped", &mut self.lines_skipped),
        ]
    }

    pub fn add(&mut self, other: &Coverage) {
        let mut other = other.clone();
        for ((_, sum), (_, more)) in self.each().into_iter().zip(other.each()) {
            *sum += *more;
        }
    }

    /// Asserts that the histories reached everything they can reach.
    pub fn check(mut self) {
        for (name, count) in self.each() {
            assert!(*count > 10, "only {count} {name}: the histories are not what they were");
        }
    }
}
