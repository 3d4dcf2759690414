//! The language, and what queries in it run against: filters, pipes, their syntax, and the traits
//! by which a pipe reaches the rest of its query ([`pipe::Next`]) and a query its lines
//! ([`source::Source`]).
//!
//! Filters, pipes and syntax use each other: a filter may hold a query, which has a filter and
//! pipes.
//!
//! Left out: how a query is planned and run. A pipe knows its own rows alone.

pub(crate) mod context;
pub(crate) mod filter;
pub(crate) mod pipe;
pub(crate) mod restriction;
pub(crate) mod source;
pub(crate) mod syntax;
