//! Where the results of evaluation go: rows into the store, states into documents.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use alerts::{Change, Output, Recorded};
use platform::{Clock, RealClock};

use super::rows;
use crate::data_dir::Documents;
use crate::storage::row_store::RowStore;

/// Keeps rows and states.
pub struct RowOutput {
    rows: Arc<dyn RowStore>,
    state: Arc<dyn Documents>,
    lost: AtomicU64,
}

impl RowOutput {
    /// Rows go to `rows`, states to `state`.
    pub fn new(rows: Arc<dyn RowStore>, state: Arc<dyn Documents>) -> RowOutput {
        RowOutput { rows, state, lost: AtomicU64::new(0) }
    }

    /// Rows and states that could not be kept.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// The state of a group that was kept.
    ///
    /// Errors: it cannot be read.
    pub fn read(&self, group_id: &str) -> io::Result<Option<Vec<u8>>> {
        let name = document(group_id);
        self.state.read(&name).map_err(|error| {
            let place = self.state.place(&name);
            let text = format!("the state of alerts cannot be read: {place}: {error}");
            io::Error::new(error.kind(), text)
        })
    }

    /// The state of a group that was kept; one that cannot be read is logged, and there is none
    /// then.
    pub fn kept(&self, group_id: &str) -> Option<Vec<u8>> {
        self.read(group_id).unwrap_or_else(|error| {
            tracing::error!("{error}");
            None
        })
    }

    fn store(&self, lines: Vec<Vec<u8>>) {
        let now_ns = RealClock::new().now_ns();
        let (portions, too_long) = rows::portions(lines);
        if too_long > 0 {
            self.lost.fetch_add(too_long, Relaxed);
            tracing::warn!(
                "{too_long} rows of alerts are too long to be kept; shorten annotations"
            );
        }
        for lines in portions {
            if let Err(error) = self.rows.store(&rows::origin(), &lines, now_ns) {
                self.lost.fetch_add(1, Relaxed);
                tracing::warn!("rows of alerts were not kept: {error}");
            }
        }
    }
}

impl Output for RowOutput {
    fn changes(&self, changes: &[Change]) {
        for change in changes {
            tracing::debug!(
                "alert {} is {} in place of {}",
                text::terminal::escaped(&change.rule),
                change.to.name(),
                change.from.name()
            );
        }
        self.store(changes.iter().map(rows::change).collect());
    }

    fn recorded(&self, recorded: &[Recorded]) {
        self.store(recorded.iter().map(rows::recorded).collect());
    }

    fn keep(&self, group_id: &str, state: Option<&[u8]>) -> bool {
        let name = document(group_id);
        let kept = match state {
            Some(state) => self.state.replace(&name, state),
            None => self.state.remove(&name),
        };
        if let Err(error) = &kept {
            self.lost.fetch_add(1, Relaxed);
            tracing::warn!("the state of alerts is not kept for the next start: {error}");
        }
        kept.is_ok()
    }
}

/// The name of the document of a group, whose id is hexadecimal.
fn document(group_id: &str) -> String {
    format!("group-{group_id}.json")
}

#[cfg(test)]
mod tests {
    use record::Origin;

    use super::*;
    use crate::data_dir::DocumentFolder;

    struct NoRows;

    impl RowStore for NoRows {
        fn store(&self, _: &Origin, _: &[u8], _: i64) -> Result<(), String> {
            Ok(())
        }

        fn close(&self) {}
    }

    #[test]
    fn a_state_that_cannot_be_read_or_kept_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let state = Arc::new(DocumentFolder::new(directory.path()));
        let output = RowOutput::new(Arc::new(NoRows), state);
        assert!(output.keep("1", Some(b"{}")));
        assert_eq!(output.read("1").unwrap().as_deref(), Some(&b"{}"[..]));
        assert_eq!(output.read("2").unwrap(), None);
        // A folder is no document.
        std::fs::create_dir(directory.path().join(document("3"))).unwrap();
        let error = output.read("3").unwrap_err().to_string();
        assert!(error.contains("state of alerts cannot be read"), "{error}");
        assert!(!output.keep("3", Some(b"{}")));
        assert_eq!(output.lost(), 1);
    }
}
