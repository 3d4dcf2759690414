//! What the server does with the store beside appending and querying: its view for queries, its
//! background work, backups, and checks of files at rest.

pub mod at_rest;
pub mod backup;
pub mod inspect;
pub mod stored;
pub mod upkeep;
pub mod verify;

/// Name of the list of summary reruns in the data directory, which backups hold as well.
pub const RERUNS_FILE: &str = "summary-reruns.json";
