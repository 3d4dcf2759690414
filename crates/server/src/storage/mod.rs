//! Work on the store besides appending and querying: its view for queries and for readers behind a
//! cursor, its background work, backups, and checks of files at rest.

pub mod arrivals;
pub mod at_rest;
pub mod backup;
pub mod inspect;
pub mod keep;
pub mod row_store;
pub mod stored;
pub mod upkeep;
pub mod verify;

/// Files of the data directory besides segments and catalog that backups contain, where they exist.
/// Each may be older than the segments.
pub const STATE_FILES: [&str; 3] = [RERUNS_FILE, PROGRAM_RUNS_FILE, PROGRAMS_FILE];
/// Folders of the data directory whose files backups contain: what people made on the page or over
/// the API.
pub const STATE_FOLDERS: [&str; 5] = [
    crate::alerts::RULES_FOLDER,
    crate::alerts::FOLDER,
    crate::dashboards::FOLDER,
    crate::links::FOLDER,
    PROGRAMS_FOLDER,
];
/// Name of the folder of programs.
pub const PROGRAMS_FOLDER: &str = "programs";
/// Name of the list of the runs of programs over the past.
pub const PROGRAM_RUNS_FILE: &str = "program-runs.json";
/// Name of the file that says which buckets programs have to compute.
pub const PROGRAMS_FILE: &str = "programs.json";
/// Name of the list of summary reruns.
pub const RERUNS_FILE: &str = "summary-reruns.json";

/// Whether a backup may contain a file of this name, from its directory, besides segments and
/// catalog.
pub fn is_state(file: &str) -> bool {
    let in_folder = |(folder, name): (&str, &str)| {
        let is_plain =
            !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0']);
        STATE_FOLDERS.contains(&folder) && is_plain
    };
    STATE_FILES.contains(&file) || file.split_once('/').is_some_and(in_folder)
}
