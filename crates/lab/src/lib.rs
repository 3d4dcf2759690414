//! The lab: loads, queries and measures data stores as published studies did, and uses statistics
//! to say which one fits a purpose.
//!
//! The path of a study: a [`definition`] in TOML is planned into [`trial`]s; [`load`] runs each
//! against a [`driver`] with the operations of a [`workload`]; [`results`] keeps the raw lines of
//! the measurement; the report is made from these alone.

pub mod agent;
pub mod cli;
pub mod compare;
pub mod definition;
pub mod driver;
pub mod fleet;
pub mod generate;
pub mod histogram;
pub mod load;
pub mod measure;
pub mod number;
pub mod options;
pub mod plan;
mod proc;
pub mod reference;
pub mod report;
pub mod results;
pub mod row;
pub mod run;
pub mod samples;
pub mod scale;
pub mod sending;
pub mod servers;
pub mod sink;
pub mod statistics;
pub mod stores;
pub mod trial;
pub mod workload;
