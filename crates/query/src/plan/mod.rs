//! What is decided about a query before anything is read.

pub(crate) mod counting;
pub(crate) mod fields;
pub(crate) mod needs;
pub(crate) mod rolled;
