//! Finds what stands out in more lines or numbers than anybody reads: the [`patterns`] that many
//! messages have in common, [`anomaly`]s in a series of numbers, and what many series of counts say
//! that are [`watch`]ed.
//!
//! None reads a clock, does I/O or starts threads. Left out: where messages and numbers come
//! from, and which parts of two sets of lines differ (crate `query`).

pub mod anomaly;
pub mod patterns;
pub mod watch;
