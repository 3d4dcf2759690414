//! The binary `loginson`.

fn main() {}
