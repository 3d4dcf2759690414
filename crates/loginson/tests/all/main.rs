//! All integration tests of this crate, in one executable: each file by itself would link the crate
//! and its libraries again.

#![allow(missing_docs)]

mod access;
mod accounts;
mod alerts;
mod api;
mod at_rest;
mod backup;
mod bad_input;
mod certificates;
mod cli;
mod cluster;
#[cfg(feature = "real-servers")]
mod cluster_answers;
#[cfg(feature = "real-servers")]
mod cluster_backup;
#[cfg(feature = "real-servers")]
mod cluster_deletions;
#[cfg(feature = "real-servers")]
mod cluster_log;
#[cfg(feature = "real-servers")]
mod cluster_on_engines;
#[cfg(feature = "real-servers")]
mod cluster_partitions;
#[cfg(feature = "real-servers")]
mod cluster_region;
#[cfg(feature = "real-servers")]
mod cluster_relays;
#[cfg(feature = "real-servers")]
mod cluster_state;
#[cfg(feature = "real-servers")]
mod cluster_upgrade;
mod common;
mod copies;
mod crash;
mod crowds;
mod dashboard_mails;
mod data_files;
mod elastic;
mod encryption;
#[cfg(feature = "real-servers")]
mod engines;
mod export;
mod fairness;
mod files;
mod import;
mod ingest;
mod integrity;
mod journald;
mod logsql;
mod loki;
mod macros;
mod mcp;
mod migrate;
mod nodes;
mod operating;
mod other_senders;
mod otlp;
mod own_lines;
mod parameters;
mod programs;
mod proxy;
mod queries;
mod rerun;
mod rules;
mod sealing;
mod senders;
mod shop;
mod stands_out;
mod strangers;
mod streams;
