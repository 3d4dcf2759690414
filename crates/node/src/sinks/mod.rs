//! Sinks in the running server: rows of programs, lines, or results of queries go to other systems.
//!
//! ```text
//! store → feed (rows | lines | query) → batch of documents with a cursor → crate sinks → destination
//!           ↑                                                                 └ acknowledged cursor → file
//!           └── after a start: from the cursor of the file
//! ```
//!
//! Each sink has two threads: one reads and makes documents ([`stage`]), the other delivers (crate
//! `sinks`). A sink that is slow or away delays nothing but itself: what it has not delivered is in
//! the store, and is read again from its cursor.

pub mod config;
pub mod cursor_file;
pub mod feed;
mod lines;
mod queries;
pub mod rejected;
mod rows;
pub mod stage;
