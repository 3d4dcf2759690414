//! Positions of frames in a store, and ranges.

/// Identifies a frame in this store: its segment, and its index there. Positions grow in the order
/// in which frames became durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// Number of the segment, from 1.
    pub segment: u64,
    /// Index of the frame in the segment, from 0.
    pub frame: u32,
}

impl Position {
    /// Before every frame.
    pub const START: Position = Position { segment: 0, frame: 0 };

    /// The greatest position before this one.
    pub(crate) fn before(self) -> Position {
        match self.frame.checked_sub(1) {
            Some(frame) => Position { frame, ..self },
            None => Position { segment: self.segment - 1, frame: u32::MAX },
        }
    }
}

/// The smallest range that holds both.
pub(crate) fn span<T: Ord + Copy>(a: Option<(T, T)>, b: Option<(T, T)>) -> Option<(T, T)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    }
}
