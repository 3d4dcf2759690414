//! LogQL, the language of Grafana Loki: parses text into a tree, and evaluates it over records.
//!
//! [`parse`] parses a query. Its selector, and its stages as far as possible, are handed to crate
//! `query` as a filter ([`push`]), so that indexes, rollups and threads are used; the rest is
//! evaluated here, line by line. [`logs::run`] returns lines, [`metric::run`] samples,
//! [`patterns::run`] patterns.
//! `docs/grafana.md` lists the supported parts of the language.
//!
//! Invariants: no text makes the parser panic or overflow the stack; a query that is written and
//! parsed again is the same tree; the memory of an evaluation is counted and limited; it can be
//! cancelled at any time.
//!
//! Left out: `variants`, parts of templates ([`stage::template`]).

pub mod ast;
#[cfg(test)]
mod depth_tests;
mod error;
mod lex;
pub mod logs;
mod matcher;
pub mod metric;
mod parse;
pub mod patterns;
pub mod push;
#[cfg(test)]
mod shapes_tests;
mod stage;
mod stored;
pub mod streams;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod units;

/// Lines between two checks for cancellation: a template may compile a regular expression for each.
const CHECK_ROWS: u64 = 64;
/// A line with more bytes is preceded by a check as well.
const CHECK_BYTES: usize = 64 << 10;

pub use error::{EvalError, ParseError};
pub use lex::QUERY_BYTES_MAX;
pub use parse::{NESTING_MAX, STAGES_MAX, parse, parse_matchers};
pub use stage::json::label_name;
pub use stage::{Labels, found_in};
pub use stored::{Reader, detected_level, fields_of, is_field};
pub use units::{
    format_number, parse_bytes, parse_duration_ns, parse_number, parse_value_duration_ns,
};
