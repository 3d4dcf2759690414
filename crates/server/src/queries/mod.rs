//! Work with the rows of queries that outlives one request: background queries, exports, live
//! tails.

pub mod export;
pub mod jobs;
pub mod tails;
