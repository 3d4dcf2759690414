//! For every type: how many lines of each level, application and host.

use super::{Dimension, Program};

pub(super) const PROGRAM: Program = Program {
    name: "counts",
    dimensions: &[
        Dimension { name: "level", field: "_level" },
        Dimension { name: "app_name", field: "app_name" },
        Dimension { name: "hostname", field: "hostname" },
    ],
    sums: &[],
};
