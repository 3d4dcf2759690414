//! For access logs of web servers: status codes, and bytes sent in answers.

use super::{Dimension, Program, Sum};

/// The type of the lines.
pub(super) const TYPE: &str = "access";

pub(super) const PROGRAM: Program = Program {
    name: "access",
    dimensions: &[Dimension { name: "status", field: "status" }],
    sums: &[Sum { name: "response_bytes", field: "bytes" }],
};
