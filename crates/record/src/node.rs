//! Who sends frames to a store.

/// The identity that a node, such as a collector, claims to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeIdentity {
    /// Its id, which all its frames carry; not 0.
    pub node: u32,
    /// Drawn together with the id: distinguishes two nodes with the same id.
    pub key: u64,
    /// How often it was started.
    pub starts: u64,
    /// Drawn at each start: distinguishes a node from a copy of its directory.
    pub run: u64,
}
