//! Work on the store besides appending and querying: its view for queries, its background work,
//! backups, and checks of files at rest.

pub mod at_rest;
pub mod backup;
pub mod inspect;
pub mod keep;
pub mod stored;
pub mod upkeep;
pub mod verify;

/// Files of the data directory besides segments and catalog that backups contain, where they exist.
/// Each may be older than the segments.
pub const STATE_FILES: [&str; 3] = [RERUNS_FILE, PROGRAM_RUNS_FILE, PROGRAMS_FILE];
/// Name of the list of the runs of programs over the past.
pub const PROGRAM_RUNS_FILE: &str = "program-runs.json";
/// Name of the file that says which buckets programs have to compute.
pub const PROGRAMS_FILE: &str = "programs.json";
/// Name of the list of summary reruns.
pub const RERUNS_FILE: &str = "summary-reruns.json";
