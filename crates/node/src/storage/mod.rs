//! Work on the store besides appending and querying: its view for queries and for readers behind a
//! cursor, its background work, backups, and checks of files at rest.

pub mod arrivals;
pub mod at_rest;
pub mod backup;
pub mod encryption;
pub mod inspect;
pub mod integrity;
pub mod line_filter;
pub mod row_store;
pub mod stored;
pub mod upkeep;
pub mod verify;
