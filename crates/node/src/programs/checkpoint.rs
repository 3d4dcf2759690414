//! The file that says, across restarts, which buckets are to be computed, and up to which line that
//! is known.
//!
//! A checkpoint may be older than the rows: buckets are then computed once more, and their rows are
//! the same. It is never newer: a bucket leaves it only when its rows are durable.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::data_dir::Documents;
use crate::data_dir::PROGRAMS_FILE;

const VERSION: u32 = 1;

/// The state of all programs, as the file has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// The version of the file.
    pub version: Version,
    /// Lines up to here were noted; `None` if there never was a program.
    pub cursor: Option<String>,
    /// Programs that an operator has disabled.
    pub disabled: BTreeSet<String>,
    /// For each program, event times that are to be computed: nanoseconds since 1970 UTC, start and
    /// the first instant behind.
    pub pending: BTreeMap<String, Vec<(i64, i64)>>,
    /// The last revision of rows: the next one is greater, also where the clock went back or the
    /// clock of another node is behind.
    pub revision: u64,
}

/// The one version of the file that can be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Version;

impl TryFrom<u32> for Version {
    type Error = String;

    fn try_from(found: u32) -> Result<Version, String> {
        match found {
            VERSION => Ok(Version),
            _ => Err(format!("it has version {found}, and this program reads version {VERSION}")),
        }
    }
}

impl From<Version> for u32 {
    fn from(_: Version) -> u32 {
        VERSION
    }
}

impl Checkpoint {
    /// Reads the file; an empty state if there is none.
    pub fn open(keep: &dyn Documents) -> Result<Checkpoint> {
        let place = keep.place(PROGRAMS_FILE);
        let text = keep.read(PROGRAMS_FILE).with_context(|| format!("reading {place}"))?;
        let Some(text) = text else { return Ok(Checkpoint::default()) };
        serde_json::from_slice(&text).with_context(|| {
            format!(
                "{place} cannot be read; without it, programs run on lines from now on: move it away to start, and \
                 run them again over the time that they missed"
            )
        })
    }

    /// Replaces the file, durably.
    pub fn write(&self, keep: &dyn Documents) -> io::Result<()> {
        let text = serde_json::to_vec(self).expect("plain values are JSON");
        keep.replace(PROGRAMS_FILE, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_dir::DocumentFolder;

    #[test]
    fn the_state_is_there_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let keep = DocumentFolder::new(directory.path());
        assert_eq!(Checkpoint::open(&keep).unwrap(), Checkpoint::default());
        let checkpoint = Checkpoint {
            version: Version,
            cursor: Some("a1-00000007-42".to_owned()),
            disabled: ["b".to_owned()].into(),
            pending: [("a".to_owned(), vec![(i64::MIN, -5), (0, i64::MAX)])].into(),
            revision: 1 << 50,
        };
        checkpoint.write(&keep).unwrap();
        assert_eq!(Checkpoint::open(&keep).unwrap(), checkpoint);
        for text in ["{", r#"{"version":2,"cursor":null,"disabled":[],"pending":{}}"#] {
            std::fs::write(directory.path().join(PROGRAMS_FILE), text).unwrap();
            let error = format!("{:#}", Checkpoint::open(&keep).unwrap_err());
            assert!(error.contains("move it away"), "{error}");
        }
    }
}
