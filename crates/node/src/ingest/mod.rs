//! Ingest: sources that listen or follow, lines of HTTP requests, rules for what arrives, and the
//! delivery of frames to the store of this process.

pub mod delivery;
pub mod format;
pub mod http_lines;
pub mod options;
pub mod quotas;
pub mod recall;
pub mod rules;
pub mod sources;
pub mod tenants;
