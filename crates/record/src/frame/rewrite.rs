//! A frame with some of its lines left out, written anew, or with other hints: what rules at ingest
//! make of it before it is durable.
//!
//! Node, number, sequence and arrival times stay as they are; the other lines keep their bytes and
//! their order. Lines behind one that is left out get smaller indexes.

use std::collections::HashMap;
use std::sync::Arc;

use super::header::padded;
use super::{
    Doubt, Frame, FrameHeader, FrameLines, HEADER_BYTES, Hints, LINE_BYTES_MAX, Line, ORIGINS_MAX,
    Origin, RUN_CUT, RUN_LENGTHS, Run, encode_origin, put_run,
};

/// What becomes of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineChange {
    /// The line is left out.
    pub dropped: bool,
    /// Its bytes, if they change; cut at [`LINE_BYTES_MAX`].
    pub bytes: Option<Vec<u8>>,
    /// Its hints, if they change. Equal ones should be the same `Arc`, because each becomes an
    /// origin of its own.
    pub hints: Option<Arc<Hints>>,
}

impl LineChange {
    /// Whether the line stays as it is.
    pub fn is_none(&self) -> bool {
        !self.dropped && self.bytes.is_none() && self.hints.is_none()
    }

    /// The bytes of the line with this change.
    pub fn bytes_of<'a>(&'a self, line: &Line<'a>) -> &'a [u8] {
        self.bytes.as_deref().unwrap_or(line.bytes)
    }

    /// The hints of the line with this change.
    pub fn hints_of<'a>(&'a self, line: &Line<'a>) -> &'a Arc<Hints> {
        self.hints.as_ref().unwrap_or(&line.origin.hints)
    }
}

impl Frame {
    /// The frame with changed lines; `None` if no line is left. `changes` are those of some lines,
    /// by their indexes, which rise; the other lines stay as they are.
    ///
    /// # Panics
    /// If the lines have more than [`ORIGINS_MAX`] different pairs of origin and hints.
    pub fn rewritten<'c>(
        &self,
        changes: impl IntoIterator<Item = (u32, &'c LineChange)>,
    ) -> Option<Frame> {
        let mut out = Rewriting::new(self.payload().len());
        let mut lines = self.lines();
        for (index, change) in changes {
            out.copy_to(index, &mut lines);
            if let Some(line) = lines.next().filter(|_| !change.dropped) {
                out.push(&line, change);
            }
        }
        out.copy_to(self.header.lines, &mut lines);
        out.finish(&self.header)
    }

    /// A frame of the changed lines alone; the parameter is as in [`Frame::rewritten`].
    pub fn changed_lines<'c>(
        &self,
        changes: impl IntoIterator<Item = (u32, &'c LineChange)>,
    ) -> Option<Frame> {
        let mut out = Rewriting::new(0);
        let mut lines = self.lines();
        for (index, change) in changes {
            lines.skip_to(index);
            if let Some(line) = lines.next().filter(|_| !change.dropped) {
                out.push(&line, change);
            }
        }
        out.finish(&self.header)
    }
}

/// An origin before, by its index, with the address of its hints, which the frames keep alive.
type OriginKey = (u16, usize);

struct Rewriting {
    bytes: Vec<u8>,
    runs: Vec<Run>,
    origins: Vec<Origin>,
    indexes: HashMap<OriginKey, u16, foldhash::fast::RandomState>,
    /// The origin of the previous line.
    last: Option<(OriginKey, u16)>,
    lines: u32,
}

impl Rewriting {
    fn new(payload_bytes: usize) -> Rewriting {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + payload_bytes + payload_bytes / 16);
        bytes.resize(HEADER_BYTES, 0);
        Rewriting {
            bytes,
            runs: Vec::new(),
            origins: Vec::new(),
            indexes: HashMap::default(),
            last: None,
            lines: 0,
        }
    }

    /// Takes the lines in front of that index as they are: all of a run at once, where nothing but
    /// newlines stands between them.
    fn copy_to(&mut self, index: u32, lines: &mut FrameLines<'_>) {
        let frame = lines.frame;
        while lines.index < index && lines.begin_run() {
            let run = &frame.runs[lines.run - 1];
            if run.flags != 0 {
                let line = lines.next().expect("the run has lines");
                self.push(&line, &LineChange::default());
                continue;
            }
            let (from, first) = (lines.offset, lines.index);
            lines.skip_to(index.min(lines.index + lines.left_in_run));
            self.bytes.extend_from_slice(&frame.bytes[from..lines.offset]);
            let before = &frame.origins[run.origin as usize];
            let origin = self.origin(run.origin, before, &before.hints);
            let (bytes, lines) = ((lines.offset - from) as u32, lines.index - first);
            self.push_run(Run { received_ns: run.received_ns, bytes, lines, origin, flags: 0 });
        }
    }

    fn push(&mut self, line: &Line<'_>, change: &LineChange) {
        let bytes = change.bytes_of(line);
        let is_too_long = bytes.len() > LINE_BYTES_MAX;
        let bytes = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
        let origin = self.origin(line.origin_index, line.origin, change.hints_of(line));
        let mut flags = if line.cut || is_too_long { RUN_CUT } else { 0 };
        let doubt = Doubt::ALL.into_iter().find(|(known, _)| Some(*known) == line.doubt);
        flags |= doubt.map_or(0, |(_, flag)| flag);
        let mut stored = bytes.len() as u32 + 1;
        if memchr::memchr(b'\n', bytes).is_some() {
            flags |= RUN_LENGTHS;
            self.bytes.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            stored += 4;
        }
        self.bytes.extend_from_slice(bytes);
        self.bytes.push(b'\n');
        let received_ns = line.received_ns;
        self.push_run(Run { received_ns, bytes: stored, lines: 1, origin, flags });
    }

    fn push_run(&mut self, run: Run) {
        self.lines += run.lines;
        match self.runs.last_mut() {
            Some(last)
                if (last.origin, last.received_ns, last.flags, run.flags)
                    == (run.origin, run.received_ns, 0, 0) =>
            {
                last.bytes += run.bytes;
                last.lines += run.lines;
            }
            _ => self.runs.push(run),
        }
    }

    fn origin(&mut self, index: u16, before: &Origin, hints: &Arc<Hints>) -> u16 {
        let key = (index, Arc::as_ptr(hints).addr());
        if let Some((known, index)) = self.last
            && known == key
        {
            return index;
        }
        let origins = &mut self.origins;
        let index = *self.indexes.entry(key).or_insert_with(|| {
            assert!(origins.len() < ORIGINS_MAX, "whoever changes lines counts their origins");
            origins.push(Origin { hints: Arc::clone(hints), ..before.clone() });
            (origins.len() - 1) as u16
        });
        self.last = Some((key, index));
        index
    }

    fn finish(self, header: &FrameHeader) -> Option<Frame> {
        let Rewriting { mut bytes, runs, origins, lines, .. } = self;
        let received = || runs.iter().map(|run| run.received_ns);
        let (received_min_ns, received_max_ns) = (received().min()?, received().max()?);
        let payload_bytes = (bytes.len() - HEADER_BYTES) as u32;
        bytes.resize(padded(bytes.len()), 0);
        runs.iter().for_each(|run| put_run(run, &mut bytes));
        let before = bytes.len();
        origins.iter().for_each(|origin| encode_origin(origin, &mut bytes));
        let origins_bytes = (bytes.len() - before) as u32;
        bytes.resize(padded(bytes.len()), 0);
        let header = FrameHeader {
            received_min_ns,
            received_max_ns,
            lines,
            payload_bytes,
            runs: runs.len() as u32,
            origins_bytes,
            body_crc: crc32c::crc32c(&bytes[HEADER_BYTES..]),
            ..*header
        };
        bytes[..HEADER_BYTES].copy_from_slice(&header.encode());
        Some(Frame { header, bytes: Arc::new(bytes.into()), origins, runs })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Format, FrameBuilder, Transport};
    use super::*;

    #[derive(Clone, Debug)]
    struct Given {
        text: Vec<u8>,
        sender: u8,
        received_ns: i64,
        cut: bool,
        change: u8,
    }

    fn given() -> impl Strategy<Value = Given> {
        let text = prop_oneof![
            Just(b"".to_vec()),
            Just(b"two\nlines\r".to_vec()),
            proptest::collection::vec(b'a'..=b'z', 0..20),
        ];
        (text, 0..3_u8, 0..3_i64, proptest::bool::weighted(0.1), 0..6_u8).prop_map(
            |(text, sender, received_ns, cut, change)| Given {
                text,
                sender,
                received_ns,
                cut,
                change,
            },
        )
    }

    fn origin(sender: u8, team: &str) -> Origin {
        let extra_fields =
            if team.is_empty() { vec![] } else { vec![("team".into(), team.into())] };
        let hints = Arc::new(Hints { extra_fields, ..Hints::default() });
        Origin {
            hints,
            ..Origin::new(Transport::Http, Format::Auto, Some(([1, 1, 1, sender], 1).into()))
        }
    }

    proptest! {
        #[test]
        fn a_rewritten_frame_is_as_one_built_of_the_changed_lines(
            lines in proptest::collection::vec(given(), 1..40)
        ) {
            let mut before = FrameBuilder::new();
            let mut after = FrameBuilder::new();
            let teams = [origin(0, "a").hints, origin(0, "b").hints];
            let mut changes = Vec::new();
            for line in &lines {
                let from = origin(line.sender, "");
                before.push_line(&from, line.received_ns, &line.text, line.cut);
                let mut change = LineChange::default();
                match line.change {
                    1 => change.dropped = true,
                    2 => change.bytes = Some(b"masked".to_vec()),
                    3 => change.hints = Some(Arc::clone(&teams[0])),
                    4 => {
                        change.bytes = Some(b"n\nm".to_vec());
                        change.hints = Some(Arc::clone(&teams[1]));
                    }
                    _ => {}
                }
                if !change.dropped {
                    let hints = change.hints.clone().unwrap_or(from.hints.clone());
                    let to = Origin { hints, ..from };
                    let text = change.bytes.as_ref().unwrap_or(&line.text);
                    after.push_line(&to, line.received_ns, text, line.cut);
                }
                changes.push(change);
            }
            let before = before.finish(7, 9).unwrap();
            let given = (0..).zip(&changes).filter(|(_, change)| !change.is_none());
            let frame = before.rewritten(given.clone());
            prop_assert_eq!(&frame, &after.finish(7, 9));
            let changed = before.changed_lines(given);
            let texts = |frame: &Frame| -> Vec<Vec<u8>> {
                frame.lines().map(|line| line.bytes.to_vec()).collect()
            };
            let expected: Vec<Vec<u8>> = before
                .lines()
                .zip(&changes)
                .filter(|(_, change)| !change.is_none() && !change.dropped)
                .map(|(line, change)| change.bytes_of(&line).to_vec())
                .collect();
            prop_assert_eq!(changed.as_ref().map(texts).unwrap_or_default(), expected);
            for frame in frame.into_iter().chain(changed) {
                prop_assert_eq!(Frame::decode(frame.bytes().to_vec()), Ok(frame));
            }
            // Lines by their indexes are those of the walk over all lines.
            let offsets: Vec<u32> = before.lines().map(|line| line.offset).collect();
            prop_assert_eq!(before.line_offsets(), &offsets[..]);
            let some: Vec<u32> =
                (0..).zip(&changes).filter(|(_, change)| change.is_none()).map(|(at, _)| at).collect();
            let found: Vec<(u32, u32)> =
                before.lines_at(&some).map(|line| (line.index, line.offset)).collect();
            let expected: Vec<(u32, u32)> =
                some.iter().map(|&line| (line, offsets[line as usize])).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_frame_keeps_its_name_and_a_line_that_grew_is_cut() {
        let mut frame = FrameBuilder::new();
        frame.push_line(&origin(0, ""), 5, b"x", false);
        let mut frame = frame.finish(3, 4).unwrap();
        frame.set_forwarded(8);
        let long =
            LineChange { bytes: Some(vec![b'y'; LINE_BYTES_MAX + 1]), ..LineChange::default() };
        let rewritten = frame.rewritten([(0, &long)]).unwrap();
        let (was, is) = (frame.header(), rewritten.header());
        assert_eq!((is.flags, is.node, is.number, is.sequence), (was.flags, 3, 4, 8));
        let line = rewritten.lines().next().unwrap();
        assert_eq!((line.bytes.len(), line.cut), (LINE_BYTES_MAX, true));
        let drop = LineChange { dropped: true, ..LineChange::default() };
        assert_eq!(frame.rewritten([(0, &drop)]), None);
    }
}
