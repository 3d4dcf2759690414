//! Elasticsearch's search API over the query engine: the JSON of a request becomes filters and
//! pipes of crate `query`, and the rows that they give become the JSON of the answer.
//!
//! [`search`] reads the body of a search and answers it; [`dsl`] reads the query DSL, [`lucene`]
//! the syntax of `query_string`, [`aggs`] aggregations; [`indices`] says which lines an index is,
//! and which fields there are.
//!
//! Invariants: no request makes it panic or overflow the stack; nothing of a request is ignored
//! silently, but what the documentation names; the memory of an answer is counted and limited. Left
//! out: scores, so hits come in the order of time; scripts; whatever writes.

pub mod aggs;
pub mod dates;
pub mod dsl;
mod error;
mod hits;
pub mod indices;
pub mod leaf;
pub mod lucene;
pub mod names;
pub mod object;
pub mod rows;
pub mod search;
#[cfg(test)]
mod testing;

pub use error::{Refused, SearchError, error_json};
