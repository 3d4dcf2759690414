//! The stored rows of the summary, and reruns, which replace them.

pub mod reruns;
pub mod rows;
