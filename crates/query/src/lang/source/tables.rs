//! Tables that queries look values up in: the interface of what the server reads from files.

use std::fmt;
use std::sync::Arc;

/// A table with rows that are found by a key. It does not change.
pub trait Table: fmt::Debug + Send + Sync {
    /// The names of the fields that make up a key; at least one.
    fn keys(&self) -> &[String];

    /// The names of the other fields.
    fn fields(&self) -> &[String];

    /// Calls `each` with the place in [`Table::fields`] and the value of each field of the row that
    /// has this key, if there is one. `key` has a value for each of [`Table::keys`].
    fn find(&self, key: &[&[u8]], each: &mut dyn FnMut(usize, &[u8]));
}

/// The tables by their names.
pub trait Tables: fmt::Debug + Send + Sync {
    /// A table as it is now.
    fn table(&self, name: &str) -> Option<Arc<dyn Table>>;

    /// The names of all tables.
    fn names(&self) -> Vec<String>;
}
