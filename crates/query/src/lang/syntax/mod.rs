//! From text to tree: characters and tokens ([`cursor`]), options, a query of a filter and pipes,
//! and back to text by `Display`.
//!
//! Each filter and each pipe is parsed in its own file (`filter/`, `pipe/`); this folder has what
//! they share. Nothing here reads lines of the store.

pub(crate) mod cursor;
#[cfg(test)]
mod depth_tests;
pub(crate) mod derived;
pub(crate) mod error;
pub(crate) mod macros;
#[cfg(test)]
mod macros_tests;
pub(crate) mod options;
pub(crate) mod placeholder;
pub(crate) mod query;
#[cfg(test)]
mod query_tests;
pub(crate) mod regexes;
mod restrict;
