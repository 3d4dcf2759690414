//! Calls that read lines: one file for each group of calls, and their way through the queue
//! ([`ask`]).

pub mod ask;
pub mod context;
pub mod export;
pub mod queue;
pub mod select;
pub mod summary;
