//! Sides in memory, for tests.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use record::{Batch, LineId};

use super::sides::with_counts;
use super::{answer_share, relay_share};
use crate::base::{Outcome, RunError, SourceError, TimeRange, Whose};
use crate::lang::context::Context;
use crate::lang::source::{ScanUnit, Share, SharePiece, SharePieces, Sides, Source};
use crate::testing::Memory;

/// A side in memory.
pub(super) enum Side {
    /// It has lines.
    Lines(Box<Memory>),
    /// It relays its share to other ones.
    Relay(Together),
}

impl Side {
    pub fn of(lines: Memory) -> Side {
        Side::Lines(Box::new(lines))
    }
}

/// Sides in memory. Pieces are made at once, and handed out one by one.
pub(super) struct Together {
    pub sides: Vec<Side>,
    /// Bytes of the pieces that these sides gave, and the number of the sides that were asked.
    pub given: AtomicUsize,
    pub asked: AtomicUsize,
}

impl Together {
    pub fn new(sides: Vec<Side>) -> Together {
        Together { sides, given: 0.into(), asked: 0.into() }
    }

    /// The sides that are asked: those behind the relays where a share cannot be relayed.
    fn asked_for(&self, share: &Share) -> Vec<&Side> {
        let each = self.sides.iter().flat_map(|side| match side {
            Side::Relay(sides) if !share.can_be_relayed() => sides.asked_for(share),
            side => vec![side],
        });
        each.collect()
    }
}

struct Kept {
    pieces: Vec<VecDeque<SharePiece>>,
    ended: Vec<bool>,
    outcome: Outcome,
}

impl Source for Together {
    fn units(&self, _: TimeRange, _: Whose) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
        Err(SourceError("the lines are elsewhere".into()))
    }

    fn sides(&self) -> Option<&dyn Sides> {
        Some(self)
    }

    fn find(&self, _: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
        Ok(None)
    }
}

impl Sides for Together {
    fn begin(&self, share: &Share, context: &Context) -> Result<Box<dyn SharePieces>, RunError> {
        let mut kept = Kept { pieces: Vec::new(), ended: Vec::new(), outcome: Outcome::default() };
        for side in self.asked_for(share) {
            let mut pieces = VecDeque::new();
            let own = Context { limits: context.limits, ..Context::default() };
            let mut take = |piece: SharePiece| {
                self.given.fetch_add(piece.bytes(), Relaxed);
                pieces.push_back(piece);
                ControlFlow::Continue(())
            };
            let outcome = match side {
                Side::Lines(lines) => answer_share(share, &**lines, &own, &mut take)?,
                Side::Relay(sides) => relay_share(share, sides, &own, &mut take)?,
            };
            self.asked.fetch_add(1, Relaxed);
            kept.outcome = with_counts(kept.outcome, outcome);
            kept.pieces.push(pieces);
            kept.ended.push(false);
        }
        Ok(Box::new(kept))
    }
}

impl SharePieces for Kept {
    fn sides(&self) -> usize {
        self.pieces.len()
    }

    fn next(
        &mut self,
        side: Option<usize>,
        check: &dyn Fn() -> Result<(), RunError>,
    ) -> Result<(usize, Option<SharePiece>), RunError> {
        check()?;
        // Sides take turns. An end is told once.
        let fullest = (0..self.pieces.len()).max_by_key(|&side| self.pieces[side].len());
        let fullest = fullest.expect("there are sides");
        let other = || match self.pieces[fullest].is_empty() {
            true => self.ended.iter().position(|ended| !ended).expect("one goes on"),
            false => fullest,
        };
        let side = side.unwrap_or_else(other);
        assert!(!self.ended[side], "nobody waits for a side that has ended");
        let piece = self.pieces[side].pop_front();
        self.ended[side] |= piece.is_none();
        Ok((side, piece))
    }

    fn end(&mut self, side: usize) {
        self.pieces[side].clear();
    }

    fn outcome(&self) -> Outcome {
        self.outcome
    }
}
