//! Fills a store from another copy: fetches the lines of frames that it lacks, builds the frames
//! anew, and gives them to it under their old numbers.
//!
//! A frame that was built anew has the same lines, byte for byte, with the same origins and times
//! of arrival, so they are parsed to the same records. Lines keep their ids, except those of a
//! frame of which lines were deleted: they move up. The store takes each number once, so nothing is
//! kept twice, whatever collectors bring meanwhile, and a repair that was interrupted continues
//! where it ended.
//!
//! Left out: lines that the other store received itself, and its own rows of the summary.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use query::SharePiece;
use record::frame::LINE_BYTES_MAX;
use record::{Batch, Frame, FrameBuilder, Numbers, read_rows};

use super::choice::missing;
use super::frames::StoreFrames;
use super::message::{Message, ShareRequest};
use super::node::{Node, NodeError};

/// Frames that are asked for at first; then as many as fit into [`CHUNK_BYTES`].
const FRAMES_AT_FIRST: u64 = 64;
/// The most frames that are asked for at once.
const FRAMES_MAX: u64 = 1 << 16;
/// Bytes of lines that are wanted at once. With twice as many, fewer frames are asked for next.
const CHUNK_BYTES: usize = 24 << 20;
/// Bytes of lines from which on an answer is dropped, and fewer frames are asked for. One frame is
/// taken at any size.
///
/// limits.md, Several stores: lines in the memory of `loginson cluster repair` | {}, or one frame |
/// it asks for fewer frames at a time
const CHUNK_BYTES_MAX: usize = 96 << 20;
/// Bytes of frames that are given to the store at once, or one frame.
const GIVEN_BYTES: usize = 8 << 20;
/// How long the other store has for an answer.
const READ_TIME_MAX: Duration = Duration::from_secs(3_600);

/// What was copied so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Frames that are done, those included that had come meanwhile.
    pub frames: u64,
    /// Lines of the frames that were given to the store.
    pub lines: u64,
}

/// The frames that `to` lacks of `from`, by collector.
pub fn plan(from: &StoreFrames, to: &StoreFrames) -> BTreeMap<u32, Numbers> {
    let none = Numbers::new();
    let lacking = from.collectors.iter().map(|(&collector, theirs)| {
        let own = to.collectors.get(&collector).map_or(&none, |frames| &frames.taken);
        (collector, missing(own, theirs))
    });
    lacking.filter(|(_, numbers)| !numbers.is_empty()).collect()
}

/// Copies the frames of a plan; calls `each` with what is done.
///
/// Errors: a store is away, or refuses; lines cannot be read.
pub fn fill(
    from: &Node,
    to: &Node,
    plan: &BTreeMap<u32, Numbers>,
    mut each: impl FnMut(Copied),
) -> Result<Copied, NodeError> {
    let mut copied = Copied::default();
    let mut at_once = FRAMES_AT_FIRST;
    for (&collector, numbers) in plan {
        for (first, last) in numbers.ranges() {
            let mut next = first;
            while next <= last {
                let end = last.min(next.saturating_add(at_once - 1));
                let Some((frames, bytes)) = fetch(from, collector, (next, end))? else {
                    at_once = (at_once / 2).max(1);
                    continue;
                };
                copied.lines +=
                    frames.iter().map(|frame| u64::from(frame.header().lines)).sum::<u64>();
                give(to, collector, frames, (next, end))?;
                copied.frames += end - next + 1;
                each(copied);
                next = end + 1;
                at_once = match bytes {
                    0..CHUNK_BYTES => (at_once * 2).min(FRAMES_MAX),
                    _ if bytes > 2 * CHUNK_BYTES => (at_once / 2).max(1),
                    _ => at_once,
                };
            }
        }
    }
    Ok(copied)
}

/// The frames with these numbers of which the store has lines, and about how many bytes they have;
/// none if they are too many.
fn fetch(
    from: &Node,
    collector: u32,
    range: (u64, u64),
) -> Result<Option<(Vec<Frame>, usize)>, NodeError> {
    let request = ShareRequest::frames(collector, range, READ_TIME_MAX);
    let (mut batches, mut bytes) = (Vec::new(), 0);
    let mut ended: Option<Result<(), NodeError>> = None;
    let mut is_too_much = false;
    from.share(&request, &mut |message| {
        match message {
            Message::Piece(SharePiece::Lines(lines, _)) => match read_rows(&lines) {
                Ok(batch) => {
                    bytes += lines.len();
                    batches.push(batch);
                    is_too_much = bytes > CHUNK_BYTES_MAX && range.0 < range.1;
                }
                Err(_) => ended = Some(Err(from.answered_wrong())),
            },
            Message::Failed(_, why) => {
                ended = Some(Err(NodeError::new(format!("store {}: {why}", from.name))));
            }
            Message::Done(_) => ended = Some(Ok(())),
            _ => {}
        }
        match is_too_much || ended.is_some() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    match ended {
        _ if is_too_much => Ok(None),
        None => Err(NodeError::away(format!("store {} ended its answer too early", from.name))),
        Some(Err(error)) => Err(error),
        Some(Ok(())) => Ok(Some((build(collector, &batches), bytes))),
    }
}

/// Builds the frames that some records of a collector came in, in the order of their numbers.
fn build(collector: u32, batches: &[Batch]) -> Vec<Frame> {
    let mut rows: Vec<(u64, u32, usize, usize)> = Vec::new();
    for (place, batch) in batches.iter().enumerate() {
        let ids = batch.rows().map(|row| row.id()).enumerate();
        rows.extend(ids.map(|(row, id)| (id.sequence, id.line, place, row)));
    }
    rows.sort_unstable();
    let mut frames = Vec::new();
    for of_frame in rows.chunk_by(|one, two| one.0 == two.0) {
        let mut builder = FrameBuilder::new();
        for &(_, _, place, row) in of_frame {
            let batch = &batches[place];
            let row = batch.row(row);
            let origin = &batch.origins()[usize::from(row.origin_index())];
            let is_cut = row.raw().len() >= LINE_BYTES_MAX;
            builder.push_line(origin, row.received_ns(), row.raw(), is_cut);
        }
        frames.extend(builder.finish(collector, of_frame[0].0));
    }
    frames
}

/// Gives frames to the store: all that are left of those with the numbers of `range`.
fn give(
    to: &Node,
    collector: u32,
    frames: Vec<Frame>,
    (first, last): (u64, u64),
) -> Result<(), NodeError> {
    let (mut next, mut body) = (first, Vec::new());
    for frame in frames {
        let number = frame.header().sequence;
        if !body.is_empty() && body.len() + frame.bytes().len() > GIVEN_BYTES {
            to.give_frames(collector, (next, number - 1), &body)?;
            (next, body) = (number, Vec::new());
        }
        body.extend_from_slice(frame.bytes());
    }
    to.give_frames(collector, (next, last), &body)
}

#[cfg(test)]
mod tests {
    use record::{Format, Origin, Parser, ParserConfig, RowsWriter, Transport};
    use std::sync::Arc;

    use super::*;

    /// A frame with lines of several origins, one of which has newlines.
    fn frame(number: u64) -> Frame {
        let mut builder = FrameBuilder::new();
        let tcp = Origin::new(Transport::SyslogTcp, Format::Auto, "10.0.0.1:514".parse().ok());
        let http = Origin::new(Transport::Http, Format::Json, None);
        let at_ns = 1_790_000_000_000_000_000 + number as i64;
        builder.push_lines(&tcp, at_ns, b"<13>one\n<14>two\n");
        builder.push_line(&http, at_ns + 5, b"{\"a\":1,\n\"b\":\"\xff\"}", false);
        builder.push_line(&tcp, at_ns + 1, b"", false);
        builder.push_line(&tcp, at_ns + 9, format!("number {number}").as_bytes(), false);
        builder.finish(7, number).unwrap()
    }

    #[test]
    fn frames_are_built_as_they_were() {
        let parser = Parser::new(&ParserConfig::default()).unwrap();
        let parse = |frame: &Frame| parser.clone().parse(Arc::new(frame.clone()));
        let frames: Vec<Frame> = [3, 1, 2].map(frame).into();
        // Rows come in any order, as they are sealed by type.
        let mut pieces = Vec::new();
        for part in 0..2 {
            let mut writer = RowsWriter::default();
            for frame in &frames {
                let batch = parse(frame);
                for row in batch.rows().rev().filter(|row| row.id().line % 2 == part) {
                    assert!(writer.push(&batch, &row));
                }
            }
            pieces.push(read_rows(&writer.take()).unwrap());
        }
        let built = build(7, &pieces);
        assert_eq!(built.len(), 3);
        for (built, number) in built.iter().zip(1..) {
            let (expected, found) = (parse(&frame(number)), parse(built));
            assert_eq!(built.header().sequence, number);
            assert_eq!(expected.len(), found.len());
            for (one, two) in expected.rows().zip(found.rows()) {
                let all = |batch: &Batch, row: &record::Row<'_>| -> Vec<(String, Vec<u8>)> {
                    row.fields()
                        .map(|(name, value)| (batch.name(name).to_owned(), value.to_vec()))
                        .collect()
                };
                assert_eq!((one.id(), one.raw()), (two.id(), two.raw()));
                assert_eq!((one.time_ns(), one.received_ns()), (two.time_ns(), two.received_ns()));
                assert_eq!(all(&expected, &one), all(&found, &two));
                let origin = |batch: &Batch, row: &record::Row<'_>| {
                    batch.origins()[usize::from(row.origin_index())].clone()
                };
                assert_eq!(origin(&expected, &one), origin(&found, &two));
            }
        }
    }
}
