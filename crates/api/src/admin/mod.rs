//! Calls for the operator: status, metrics, sealing, deletions, backups, nodes,
//! settings.

pub mod all_nodes;
pub mod backups;
pub mod cluster;
pub mod cluster_metrics;
pub mod config;
pub mod deletions;
pub mod engines;
pub mod forwarding;
pub mod frames;
pub mod metrics;
pub mod nodes;
pub mod seal;
pub mod status;
pub mod tenants;
