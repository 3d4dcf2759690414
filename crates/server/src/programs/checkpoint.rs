//! The file that says, across restarts, which buckets are to be computed, and up to which line that
//! is known.
//!
//! A checkpoint may be older than the rows: buckets are then computed once more, and their rows are
//! the same. It is never newer: a bucket leaves it only when its rows are durable.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use store::ArrivalCursor;

use crate::storage::PROGRAMS_FILE;
use crate::summaries::reruns::replace;

const VERSION: u32 = 1;

/// The state of all programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Lines up to here were noted; `None` if there never was a program.
    pub cursor: Option<ArrivalCursor>,
    /// Programs that an operator has disabled.
    pub disabled: BTreeSet<String>,
    /// For each program, event times that are to be computed: nanoseconds since 1970 UTC, start and
    /// the first instant behind.
    pub pending: BTreeMap<String, Vec<(i64, i64)>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    cursor: Option<String>,
    disabled: BTreeSet<String>,
    pending: BTreeMap<String, Vec<(i64, i64)>>,
}

impl Checkpoint {
    /// Reads the file; an empty state if there is none.
    pub fn open(directory: &Path) -> Result<Checkpoint> {
        let path = directory.join(PROGRAMS_FILE);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Checkpoint::default());
            }
            Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
        };
        let read = || -> Result<Checkpoint> {
            let written: Written = serde_json::from_slice(&text)?;
            anyhow::ensure!(written.version == VERSION, "its version is {}", written.version);
            Ok(Checkpoint {
                cursor: written.cursor.map(|cursor| cursor.parse()).transpose()?,
                disabled: written.disabled,
                pending: written.pending,
            })
        };
        read().with_context(|| {
            format!(
                "{} is damaged; without it, programs run on lines from now on: move it away to start, and \
                 run them again over the time that they missed",
                path.display()
            )
        })
    }

    /// Replaces the file, durably.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        let written = Written {
            version: VERSION,
            cursor: self.cursor.map(|cursor| cursor.to_string()),
            disabled: self.disabled.clone(),
            pending: self.pending.clone(),
        };
        let text = serde_json::to_vec(&written).expect("plain values are JSON");
        replace(directory, PROGRAMS_FILE, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_there_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Checkpoint::open(directory.path()).unwrap(), Checkpoint::default());
        let checkpoint = Checkpoint {
            cursor: Some(ArrivalCursor { node: 7, through: 42 }),
            disabled: ["b".to_owned()].into(),
            pending: [("a".to_owned(), vec![(i64::MIN, -5), (0, i64::MAX)])].into(),
        };
        checkpoint.write(directory.path()).unwrap();
        assert_eq!(Checkpoint::open(directory.path()).unwrap(), checkpoint);
        for text in ["{", r#"{"version":2,"cursor":null,"disabled":[],"pending":{}}"#] {
            std::fs::write(directory.path().join(PROGRAMS_FILE), text).unwrap();
            let error = format!("{:#}", Checkpoint::open(directory.path()).unwrap_err());
            assert!(error.contains("move it away"), "{error}");
        }
    }
}
