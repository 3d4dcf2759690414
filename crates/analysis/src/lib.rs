//! Finds what stands out in more lines or numbers than anybody reads: the [`patterns`] that many
//! messages have in common, and [`anomaly`]s in a series of numbers.
//!
//! Neither reads a clock, does I/O or starts threads. Left out: where messages and numbers come
//! from, and which parts of two sets of lines differ (crate `query`).

pub mod anomaly;
pub mod patterns;
