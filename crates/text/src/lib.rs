//! Small grammars of text that several crates read and write: durations, sizes, times, escapes.
//!
//! - [`duration`]: `1h30m`, in each dialect that we read.
//! - [`size`]: `512MiB`, likewise.
//! - [`civil`] and [`time`]: dates of the calendar, RFC 3339.
//! - [`json`], [`quoted`], [`url`], [`hex`]: texts within texts, and their escapes.
//! - [`utf16`]: files in UTF-16.
//! - [`template`]: templates of Go, for the functions of whoever uses them.
//! - [`nearest`]: the known word that a misspelled one probably means.
//! - [`terminal`]: text of strangers, made harmless for a terminal.
//!
//! Invariants: nothing here does I/O, reads a clock or keeps state; no text panics; what is written
//! is read back as the same. Left out: time zones with rules, which `jiff` has; JSON documents,
//! which `serde_json` reads, and lines of JSON, which `record` reads.

pub mod civil;
pub mod duration;
pub mod hex;
pub mod json;
pub mod nearest;
pub mod quoted;
pub mod size;
pub mod template;
pub mod terminal;
pub mod time;
pub mod url;
pub mod utf16;
