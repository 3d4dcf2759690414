//! All integration tests of this crate, in one executable: each file linked by itself would link
//! the crate and its libraries again.

#![allow(missing_docs)]

mod anomaly_floor;
mod patterns_accuracy;
mod patterns_counts;
