//! What a run knows between steps, kept beside the results, so that a resumed run knows which data
//! is loaded.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::results::{Directory, ResultsError};
use crate::row::Schema;

/// The state between steps.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct RunState {
    /// The number of nodes that a store's data was made with, by its name.
    pub nodes: BTreeMap<String, u32>,
    /// Loaded data: the label of the store, and `DATA SET in TABLE`.
    pub loaded: BTreeSet<(String, String)>,
    /// Tables that may hold data, by the name of the store whose servers have them.
    #[serde(default)]
    pub tables: BTreeMap<String, Vec<Schema>>,
}

impl RunState {
    /// The state of the run in `directory`. If it cannot be read, all data is loaded again.
    pub fn read(directory: &Directory) -> RunState {
        let kept = std::fs::read(path(directory)).unwrap_or_default();
        serde_json::from_slice(&kept).unwrap_or_default()
    }

    /// Replaces the kept state.
    pub fn write(&self, directory: &Directory) -> Result<(), ResultsError> {
        let path = path(directory);
        let text = serde_json::to_string(self).expect("it is plain data");
        std::fs::write(&path, text)
            .map_err(|source| ResultsError::Io { path: path.display().to_string(), source })
    }

    /// Forgets the data of a store.
    pub fn forget(&mut self, store: &str) {
        self.loaded.retain(|(label, _)| label.split(' ').next() != Some(store));
        self.tables.remove(store);
    }

    /// Forgets the data of one table of a store, of whatever data set.
    pub fn forget_table(&mut self, store: &str, table: &str) {
        let same = |(label, data): &(String, String)| {
            label.split(' ').next() == Some(store)
                && data.rsplit_once(" in ").is_some_and(|(_, other)| other == table)
        };
        self.loaded.retain(|known| !same(known));
    }
}

/// Call this after the servers of a run were removed with their data: a run that is resumed
/// afterwards loads the data again. External servers still have theirs.
pub fn forget_removed(
    directory: &Directory,
    is_external: impl Fn(&str) -> bool,
) -> Result<(), ResultsError> {
    let mut state = RunState::read(directory);
    state.nodes.retain(|store, _| is_external(store));
    state.loaded.retain(|(label, _)| label.split(' ').next().is_some_and(&is_external));
    state.tables.retain(|store, _| is_external(store));
    state.write(directory)
}

fn path(directory: &Directory) -> PathBuf {
    directory.path().join("state.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_forgotten_for_one_store_only() {
        let names = [
            ("redis", "users in people"),
            ("redis", "guests in people"),
            ("redis", "users in users"),
            ("postgres", "users in people"),
        ];
        let all = names.map(|(store, data)| (store.to_owned(), data.to_owned()));
        let mut state = RunState { loaded: all.clone().into(), ..RunState::default() };
        state.forget_table("redis", "people");
        assert_eq!(state.loaded, BTreeSet::from([all[2].clone(), all[3].clone()]));
        state.forget("redis");
        assert_eq!(state.loaded, BTreeSet::from([all[3].clone()]));
    }
}
