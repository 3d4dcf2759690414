//! Programs in the running server: the lines of each bucket go through a program, its rows go back
//! into the store. Those that are built in and count lines as they come are in [`summary`]; the
//! rest is about programs of users.
//!
//! ```text
//! lines arrive → discovery notes their buckets → due → runner: query of the bucket → program → rows → own intake
//!                (stage)                     Pending            compute                        rows
//! ```
//!
//! A bucket is computed from the lines in the store, whenever lines of it have come: after its end,
//! after late lines, after a crash, and for a run over a past interval. So there is one way to
//! rows. Only late lines of a bucket whose other lines may be gone ([`gone`]) change nothing.
//!
//! Invariants:
//! - A bucket of which a line came is computed after that: its note is on disk ([`checkpoint`])
//!   together with the cursor up to which lines were noted, and goes away when its rows are
//!   durable.
//! - Rows of a bucket appear together, and replace the earlier ones ([`rows`]). A bucket that is
//!   computed twice has the rows of the last time, so a crash doubles nothing.
//! - Each program has a thread of its own ([`runner`]); a program that fails or hangs delays only
//!   its own buckets, which stay noted.
//!
//! Left out: the processes (crate `programs`).

#[cfg(test)]
mod builtin_tests;
pub mod checkpoint;
pub mod compiled;
pub mod compute;
pub mod gone;
pub mod pending;
pub mod registry;
pub mod rows;
pub mod runner;
pub mod runs;
pub mod stage;
pub mod status;
pub mod summary;
pub mod trial;
