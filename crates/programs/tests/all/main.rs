//! All integration tests of this crate, in one executable: each file by itself would link the crate
//! and its libraries again.

#![allow(missing_docs)]

mod bucket;
mod common;
mod counting;
mod examples;
mod hostile;
mod leaks;
