//! State for the rows of one batch, with ids of that batch: the shape of rows with certain fields,
//! and how the previous row of a stem was split.

use record::{Place, StemId};

use super::Part;
use super::alike::Alike;
use crate::sealed::column::ByHash;

/// A shape as rows of one batch have it, with the batch's ids.
pub(super) struct BatchShape {
    /// The stem whose values are folded.
    pub(super) folded: Option<StemId>,
    /// The parts of a row of that shape, without the folded ones; positions in the line and lengths
    /// are ignored.
    pub(super) parts: Vec<Part>,
    /// Index among the shapes of all layouts.
    pub(super) shape: u32,
}

/// The shapes found in one batch.
#[derive(Default)]
pub(crate) struct BatchShapes {
    pub(super) shapes: Vec<BatchShape>,
    pub(super) alikes: Vec<Alike>,
    pub(super) by_hash: ByHash<Vec<u32>>,
    pub(super) stems: Vec<StemRows>,
    /// For each name of the batch, its number among the names of all layouts.
    pub(super) names: Vec<Option<u32>>,
}

/// The rows of one stem.
#[derive(Clone, Copy, Default)]
pub(super) struct StemRows {
    pub(super) count: u32,
    /// Index in [`BatchShapes::shapes`] of the last shape that was seen.
    pub(super) last: u32,
    /// Index in [`BatchShapes::alikes`], from 1; 0 if there is none.
    pub(super) alike: u32,
    /// How many were made for this stem.
    pub(super) alikes: u8,
}

impl BatchShapes {
    /// For a batch; `rows_of_stems` is the number of rows to split of each stem.
    pub(crate) fn new(rows_of_stems: impl Iterator<Item = u32>) -> Self {
        let stems = rows_of_stems.map(|count| StemRows { count, ..StemRows::default() });
        let stems = stems.collect();
        BatchShapes { stems, ..BatchShapes::default() }
    }

    /// How the previous rows of a stem were split.
    #[inline]
    pub(crate) fn alike(&self, stem: StemId) -> Option<&Alike> {
        let index = self.stems[usize::from(stem.0)].alike.checked_sub(1)?;
        Some(&self.alikes[index as usize])
    }

    /// Forgets the shapes, whose numbers were issued by [`super::Layouts`].
    pub(crate) fn forget(&mut self) {
        *self = BatchShapes::new(std::mem::take(&mut self.stems).into_iter().map(|s| s.count));
    }
}

impl BatchShape {
    /// Whether a row has the same fields from the same kinds of positions.
    #[inline]
    pub(super) fn holds(&self, folded: Option<StemId>, parts: &[Part]) -> bool {
        let alike = |(a, b): (&Part, &Part)| {
            let kind = match (a.1, b.1) {
                (Place::Line(_), Place::Line(_)) | (Place::Made(_), Place::Made(_)) => true,
                (Place::Shared(a), Place::Shared(b)) => a == b,
                _ => false,
            };
            a.0 == b.0 && kind && (a.2 == 0) == (b.2 == 0)
        };
        folded == self.folded
            && parts.len() == self.parts.len()
            && self.parts.iter().zip(parts).all(alike)
    }
}

/// Hash of the kinds and names of the parts, without their positions, and of the folded stem.
#[inline]
pub(super) fn hash_of(folded: Option<StemId>, parts: &[Part]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = folded.map_or(0, |stem| (u64::from(stem.0) + 1) << 10) + parts.len() as u64;
    for (name, position, length) in parts {
        let kind = match position {
            Place::Line(_) => 0,
            Place::Made(_) => 1,
            Place::Shared(at) => 2 + u64::from(*at),
        };
        let empty = u64::from(*length == 0);
        hash = (hash.rotate_left(7) ^ (u64::from(name.0) << 34 | kind << 1 | empty))
            .wrapping_mul(FACTOR);
    }
    hash ^ hash >> 29
}
