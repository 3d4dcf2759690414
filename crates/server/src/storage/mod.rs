//! Work on the store besides appending and querying: its view for queries, its background work,
//! backups, and checks of files at rest.

pub mod at_rest;
pub mod backup;
pub mod inspect;
pub mod stored;
pub mod upkeep;
pub mod verify;

/// Name of the list of summary reruns in the data directory, which backups contain too.
pub const RERUNS_FILE: &str = "summary-reruns.json";
