//! What goes on with the rows of a query outside one request: background queries, exports, live
//! tails.

pub mod export;
pub mod jobs;
pub mod tails;
