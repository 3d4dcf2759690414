//! What pipes read as vectors of values instead of rows (see [`crate::block::Vectors`]).
//!
//! `stats` says which fields its functions read ([`VectorsRead`]). A pipe before it that computes
//! numbers from numbers of the same row computes them for all rows of a unit at once
//! ([`ComputesNumbers`]).

use crate::lang::filter::Filter;

/// What a pipe reads of the rows.
pub(crate) struct VectorsRead<'q> {
    /// Stored fields whose values form groups.
    pub by: Vec<&'q str>,
    /// Length and shift of the buckets of event time that form groups, nanoseconds.
    pub bucket_ns: Option<(i64, i64)>,
    /// Each function.
    pub functions: Vec<FunctionRead<'q>>,
}

/// What a function reads of the rows.
pub(crate) struct FunctionRead<'q> {
    /// Its only field; none if it only counts rows.
    pub field: Option<String>,
    /// Selects the rows; none: all rows.
    pub filter: Option<&'q Filter>,
}

/// A pipe that computes numbers from numbers.
pub(crate) trait ComputesNumbers: Send + Sync {
    /// The fields that it reads, those that it computed itself before left out.
    fn read(&self) -> Vec<&str>;

    /// The fields that it computes.
    fn computed(&self) -> Vec<&str>;

    /// The numbers of each field that it [computes](Self::computed) in `rows` rows; a later field
    /// replaces one of the same name. `read` has the numbers of the fields that it
    /// [reads](Self::read), in that order.
    fn compute(&self, rows: usize, read: &[&[f64]]) -> Vec<Vec<f64>>;
}
