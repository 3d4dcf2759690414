//! Calls that read lines: one file per group of calls, and how a query passes through the queue
//! ([`run`]).

pub mod context;
pub mod elsewhere;
pub mod export;
pub mod lucene;
pub mod queue;
pub mod run;
pub mod select;
pub mod share;
pub mod stream;
pub mod summary;
pub mod tails;
