//! Starts a store again without anything in memory, so that the first answers come from the disk.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{Advice, fadvise};

use super::{RunError, Runner, Store};
use crate::results::{Line, Outcome};
use crate::stores;
use crate::trial::Trial;

impl Runner<'_> {
    /// Stops a store, takes its data out of memory, and starts it again; with the time that the
    /// start took.
    pub(super) async fn cold(
        &mut self,
        store: &Store,
        trial: &mut Trial,
    ) -> Result<Result<(Store, Line), Outcome>, RunError> {
        let failed = |message: String| Ok(Err(Outcome::Failed { message }));
        let Some(up) = store.up.as_ref().filter(|up| !up.roots().is_empty()) else {
            let ability = "restart (the lab did not start its server)".to_owned();
            return Ok(Err(Outcome::NotSupported { ability }));
        };
        let server = trial.store.server().to_owned();
        self.fleet.down(&server).await?;
        evict(&up.data);
        let began = Instant::now();
        let up = match self.up(&server, trial.nodes).await? {
            Ok(up) if up.lost_data => {
                let ability = "keep data over a restart".to_owned();
                return Ok(Err(Outcome::NotSupported { ability }));
            }
            Ok(up) => up,
            Err(message) => return failed(message),
        };
        let value = began.elapsed().as_secs_f64();
        trial.store.endpoints.clone_from(&up.endpoints);
        match stores::open(&trial.store) {
            Ok(driver) => {
                let line = Line::Value { name: "start_s".to_owned(), value };
                Ok(Ok((Store { driver, up: Some(up) }, line)))
            }
            Err(error) => failed(error.to_string()),
        }
    }
}

/// Takes the files below these directories out of the page cache of the system. The system may keep
/// a file; then the first answers are faster than they would be from the disk.
fn evict(directories: &[PathBuf]) {
    // Only clean pages can be dropped.
    rustix::fs::sync();
    directories.iter().for_each(|directory| evict_below(directory));
}

fn evict_below(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => evict_below(&entry.path()),
            Ok(kind) if kind.is_file() => {
                if let Ok(file) = File::open(entry.path()) {
                    let _ = fadvise(&file, 0, None, Advice::DontNeed);
                }
            }
            _ => {}
        }
    }
}
