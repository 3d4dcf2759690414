//! What a node is told of the stores whose lines it answers for.

use std::path::PathBuf;

/// The stores that hold the lines.
#[derive(Clone, Debug, PartialEq)]
pub struct StoresOptions {
    /// The stores of each copy: addresses `http://HOST:PORT`. Each copy has all lines.
    pub copies: Vec<Vec<String>>,
    /// The token that the stores know this node by.
    pub token: Option<String>,
    /// Certificates of the authorities that signed those of the stores; none: those of the system.
    pub ca_file: Option<PathBuf>,
}
