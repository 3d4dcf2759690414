//! For every type: how many lines of each level, application and host.

use super::Program;

pub(super) const PROGRAM: Program =
    Program { name: "counts", dimensions: &["level", "app_name", "hostname"], sums: &[] };
