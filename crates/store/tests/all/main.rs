//! All integration tests of this crate, in one executable: each file by itself would link the crate
//! and its libraries again.

#![allow(missing_docs)]

mod arrivals;
mod basics;
mod common;
mod damage;
mod faults;
mod fixture;
mod foreign;
mod forwarded;
mod oracle;
mod retained;
mod retention;
mod sealing;
mod start;
