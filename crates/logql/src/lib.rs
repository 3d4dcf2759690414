//! LogQL, the language of Grafana Loki: text to a tree, and its evaluation over records.
//!
//! [`parse`] reads a query. Its selector and what of its stages can be are handed to crate `query`
//! as a filter ([`push`]), so that indexes, rollups and threads are used; the rest is done here,
//! line by line. [`logs::run`] gives lines, [`metric::run`] numbers. `docs/grafana.md` says what of
//! the language there is.
//!
//! Invariants: no text makes the parser panic or run out of stack; a query written and read again
//! is the same tree; what an evaluation holds in memory is counted and limited; it can be cancelled
//! at any time.
//!
//! Left out: `rate_counter`, `approx_topk`, `variants`, parts of templates ([`stage::template`]).

pub mod ast;
#[cfg(test)]
mod depth_tests;
mod error;
mod lex;
pub mod logs;
mod matcher;
pub mod metric;
mod parse;
pub mod push;
mod stage;
mod stored;
pub mod streams;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod units;

/// Lines between two looks at the wish to cancel: a template may compile a regular expression for
/// each.
const CHECK_ROWS: u64 = 64;
/// Before a line of more bytes it is looked as well.
const CHECK_BYTES: usize = 64 << 10;

pub use error::{EvalError, ParseError};
pub use lex::QUERY_BYTES_MAX;
pub use parse::{NESTING_MAX, STAGES_MAX, parse, parse_matchers};
pub use stage::Labels;
pub use stage::json::label_name;
pub use stored::{Reader, detected_level, is_field};
pub use units::{format_number, parse_duration_ns};
