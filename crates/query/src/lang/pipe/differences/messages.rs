//! The messages of both sides, by skeleton, each with the fields that all its rows have in common.

use std::collections::HashMap;

use analysis::patterns::{Counts, EXAMPLE_BYTES_MAX, Group, SKELETON_BYTES_MAX, Scratch};

use super::row::{Common, Row};
use crate::base::partial_state::{Decoder, Encoder, wrong_state};
use crate::base::{Meter, RunError};
use crate::lang::pipe::tuples::ENTRY_BYTES;

/// Rows of one side with the same skeleton, or the same pattern.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub group: Group,
    pub common: Common,
}

impl Part {
    fn merge(&mut self, other: Part, meter: &mut Meter) {
        let before = self.group.example.len();
        self.common.keep(&other.common, meter);
        meter.give_back(other.common.counted_bytes() + other.group.example.len());
        self.group.merge(other.group);
        recount(before, self.group.example.len(), meter);
    }
}

/// Counts an example that was replaced by another. An example is short; if it exceeds the limit,
/// the next message fails.
fn recount(before: usize, after: usize, meter: &mut Meter) {
    meter.give_back(before);
    let _ = meter.take(after);
}

/// Rows of both sides: first the others, then the selected ones.
pub(super) type Sides = [Option<Part>; 2];

/// All messages.
#[derive(Default)]
pub(super) struct Messages {
    skeletons: HashMap<Box<[u8]>, Sides, foldhash::fast::RandomState>,
}

/// Most different skeletons. Beyond it, the half with fewer rows is dropped: a skeleton that is
/// rare among so many others makes no difference worth naming.
const SKELETONS_MAX: usize = Counts::SKELETONS_MAX;

impl Messages {
    pub fn push(
        &mut self,
        side: usize,
        (message, time_ns): (&[u8], Option<i64>),
        row: &Row,
        scratch: &mut Scratch,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        let skeleton = scratch.skeleton(message);
        if let Some(sides) = self.skeletons.get_mut(skeleton)
            && let Some(part) = &mut sides[side]
        {
            part.common.keep_row(row, meter);
            let before = part.group.example.len();
            part.group.add(message, time_ns);
            recount(before, part.group.example.len(), meter);
            return Ok(());
        }
        let (group, common) = (Group::of(message, time_ns), Common::of(row, meter)?);
        meter.take(group.example.len())?;
        self.merge_part(skeleton, side, Part { group, common }, meter)
    }

    /// Merges rows whose memory is counted.
    fn merge_part(
        &mut self,
        skeleton: &[u8],
        side: usize,
        part: Part,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        if !self.skeletons.contains_key(skeleton) {
            meter.take(skeleton.len() + size_of::<Sides>() + ENTRY_BYTES)?;
            self.skeletons.insert(skeleton.into(), [None, None]);
        }
        let sides = self.skeletons.get_mut(skeleton).expect("it is there now");
        match &mut sides[side] {
            Some(own) => own.merge(part, meter),
            none => *none = Some(part),
        }
        if self.skeletons.len() > SKELETONS_MAX {
            self.forget_rare(meter);
        }
        Ok(())
    }

    fn forget_rare(&mut self, meter: &mut Meter) {
        let mut all: Vec<_> = std::mem::take(&mut self.skeletons).into_iter().collect();
        let hits = |sides: &Sides| sides.iter().flatten().map(|part| part.group.hits).sum::<u64>();
        all.sort_unstable_by(|a, b| hits(&b.1).cmp(&hits(&a.1)).then_with(|| a.0.cmp(&b.0)));
        for (skeleton, sides) in all.drain(SKELETONS_MAX / 2..) {
            meter.give_back(skeleton_bytes(&skeleton, &sides));
        }
        self.skeletons = all.into_iter().collect();
    }

    pub fn merge(&mut self, other: Messages, meter: &mut Meter) -> Result<(), RunError> {
        for (skeleton, sides) in other.skeletons {
            for (side, part) in sides.into_iter().enumerate() {
                if let Some(part) = part {
                    self.merge_part(&skeleton, side, part, meter)?;
                }
            }
            meter.give_back(skeleton.len() + size_of::<Sides>() + ENTRY_BYTES);
        }
        Ok(())
    }

    /// The rows of each pattern, by its text.
    pub fn patterns(self, meter: &mut Meter) -> HashMap<Vec<u8>, Sides> {
        let mut all: Vec<_> = self.skeletons.into_iter().collect();
        all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let texts = analysis::patterns::texts(all.iter().map(|(skeleton, _)| &**skeleton));
        let mut patterns: HashMap<Vec<u8>, Sides> = HashMap::new();
        for (text, (_, sides)) in texts.into_iter().zip(all) {
            let own = patterns.entry(text).or_default();
            for (own, part) in own.iter_mut().zip(sides) {
                match (own, part) {
                    (Some(own), Some(part)) => own.merge(part, meter),
                    (own @ None, part) => *own = part,
                    (Some(_), None) => {}
                }
            }
        }
        patterns
    }

    /// Format: the number of skeletons, then each with both sides: whether there are rows, and
    /// their number, first and last time, example and common fields.
    pub fn encode(&self, out: &mut Encoder<'_>) -> Result<(), RunError> {
        out.number(self.skeletons.len() as u64)?;
        for (skeleton, sides) in &self.skeletons {
            out.bytes(skeleton)?;
            for part in sides {
                out.flag(part.is_some())?;
                if let Some(Part { group, common }) = part {
                    out.number(group.hits)?;
                    out.time(group.first_ns)?;
                    out.time(group.last_ns)?;
                    out.bytes(&group.example)?;
                    common.encode(out)?;
                }
            }
        }
        Ok(())
    }

    pub fn decode(from: &mut Decoder<'_>, meter: &mut Meter) -> Result<Messages, RunError> {
        let mut messages = Messages::default();
        for _ in 0..from.length(size_of::<u32>() + 2)? {
            let skeleton = from.bytes()?;
            if skeleton.len() > SKELETON_BYTES_MAX {
                return Err(wrong_state("a skeleton is too long"));
            }
            for side in 0..2 {
                if from.flag()? {
                    let part = decode_part(from, meter)?;
                    messages.merge_part(skeleton, side, part, meter)?;
                }
            }
        }
        Ok(messages)
    }
}

fn skeleton_bytes(skeleton: &[u8], sides: &Sides) -> usize {
    let part = |part: &Part| part.common.counted_bytes() + part.group.example.len();
    let parts: usize = sides.iter().flatten().map(part).sum();
    parts + skeleton.len() + size_of::<Sides>() + ENTRY_BYTES
}

fn decode_part(from: &mut Decoder<'_>, meter: &mut Meter) -> Result<Part, RunError> {
    let hits = from.count()?;
    let (first_ns, last_ns) = (from.time()?, from.time()?);
    let example = from.bytes()?;
    if example.len() > EXAMPLE_BYTES_MAX {
        return Err(wrong_state("an example is too long"));
    }
    meter.take(example.len())?;
    let common = Common::decode(from, meter)?;
    Ok(Part { group: Group { hits, first_ns, last_ns, example: example.into() }, common })
}
