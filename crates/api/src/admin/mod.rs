//! Calls for the operator: status, metrics, sealing, deletions, backups, nodes.

pub mod backups;
pub mod cluster;
pub mod cluster_metrics;
pub mod deletions;
pub mod forwarding;
pub mod metrics;
pub mod nodes;
pub mod seal;
pub mod status;
