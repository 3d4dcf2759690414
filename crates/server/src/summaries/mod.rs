//! The stored rows of the summary, and reruns that make them again.

pub mod reruns;
pub mod rows;
