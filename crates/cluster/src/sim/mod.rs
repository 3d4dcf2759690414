//! Simulated engines in memory, with the same contracts as the real ones, and faults on the way to
//! them. A cluster on them runs from a seed.

mod catalog;
mod log;
mod objects;
mod remote;

pub use catalog::SimCatalog;
pub use log::SimLog;
pub use objects::SimObjects;
pub use remote::{Network, Remote, Verdict};
