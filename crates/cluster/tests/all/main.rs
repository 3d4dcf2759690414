//! All integration tests of this crate, in one executable: each file linked by itself would link
//! the crate and its libraries again.

#![allow(missing_docs)]

#[cfg(feature = "real-servers")]
mod engines;
mod postgres;
