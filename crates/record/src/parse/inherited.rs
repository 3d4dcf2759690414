//! Lines of files without a time of their own: each gets the time of the line before it in the
//! file.
//!
//! Such lines mostly continue the line before them (a stack trace that was not joined to it), and
//! files may be read years after they were written, so the time of arrival would tear them apart.
//!
//! Invariant: the time of a line is the same whether its frame is parsed as a whole or the line
//! alone ([`Parser::parse_lines`]): the line that has the time is then looked for in the frame.
//! Left out: a line of an earlier frame; the first lines of a frame without a time have that of
//! arrival.

use std::sync::Arc;

use super::Parser;
use super::common::Common;
use super::row::RowsBuilder;
use crate::batch::BatchBuilder;
use crate::frame::{Frame, Line, Transport};

/// Lines behind the one with the time that get it. Further ones have the time of arrival, so that
/// parsing one line of a file without times does not mean to parse all lines before it.
const LINES_MAX: u32 = 1_000;

/// The last time in the lines of each origin.
pub(super) struct LastTimes(Vec<Option<(i64, u32)>>);

impl LastTimes {
    pub fn new(frame: &Frame) -> LastTimes {
        LastTimes(vec![None; frame.origins().len()])
    }

    /// Takes the time of a line that has one of its own.
    #[inline]
    pub fn note(&mut self, line: &Line<'_>, time_ns: i64) {
        if line.origin.transport == Transport::File {
            self.0[usize::from(line.origin_index)] = Some((time_ns, 0));
        }
    }

    /// Gives the row of a line the time of the line before it, if it has none. Every line of the
    /// frame must pass here, or be [noted](Self::note).
    #[inline]
    pub fn pass(&mut self, line: &Line<'_>, rows: &mut RowsBuilder<'_>) {
        if line.origin.transport != Transport::File {
            return;
        }
        let last = &mut self.0[usize::from(line.origin_index)];
        if !is_timeless(line, rows) {
            *last = Some((rows.builder.time_ns(), 0));
        } else if let Some((time_ns, lines)) = last {
            *lines += 1;
            match *lines <= LINES_MAX {
                true => rows.builder.set_time(*time_ns),
                false => *last = None,
            }
        }
    }
}

/// Whether a line of a file has no time of its own.
pub(super) fn is_timeless(line: &Line<'_>, rows: &RowsBuilder<'_>) -> bool {
    line.origin.transport == Transport::File && !rows.builder.has_time() && !rows.has_bad_time()
}

/// A row without a time, and its line.
pub(super) struct Timeless {
    pub row: usize,
    pub line: u32,
}

impl Parser {
    /// Finds the times of rows of single lines, in the lines before them.
    pub(super) fn inherit(
        &mut self,
        frame: &Arc<Frame>,
        timeless: &[Timeless],
        builder: &mut BatchBuilder,
    ) {
        let Some(last) = timeless.last() else { return };
        let lines: Vec<Line<'_>> = frame.lines().take(last.line as usize + 1).collect();
        let mut aside = RowsBuilder::new(BatchBuilder::of_part(frame.clone(), 0));
        let mut commons: Vec<Option<Common>> = vec![None; frame.origins().len()];
        let mut rule_names = vec![None; self.rules.len()];
        self.begin_batch();
        // For each origin: the last line that was looked at, and its time with the distance from
        // it.
        type Looked = Option<(u32, Option<(i64, u32)>)>;
        let mut known: Vec<Looked> = vec![None; frame.origins().len()];
        for Timeless { row, line } in timeless {
            let origin = lines[*line as usize].origin_index;
            let (mut distance, mut found) = (1, None);
            let before = lines[..*line as usize].iter().rev();
            for before in before.filter(|before| before.origin_index == origin) {
                if let Some((_, last)) = known[usize::from(origin)].filter(|k| before.index <= k.0)
                {
                    found = last.map(|(time_ns, lines)| (time_ns, lines + distance));
                    break;
                }
                if distance > LINES_MAX {
                    break;
                }
                aside.begin(before);
                let common = commons[usize::from(origin)]
                    .get_or_insert_with(|| Common::new(before.origin, self.zone, &mut aside));
                self.line(before, frame.bytes(), common, &mut rule_names, &mut aside);
                let time_ns = aside.builder.time_ns();
                let has_time = !is_timeless(before, &aside);
                aside.end();
                if has_time {
                    found = Some((time_ns, distance));
                    break;
                }
                distance += 1;
            }
            let found = found.filter(|(_, distance)| *distance <= LINES_MAX);
            known[usize::from(origin)] = Some((*line, found));
            if let Some((time_ns, _)) = found {
                builder.set_time_of_row(*row, time_ns);
            }
        }
    }
}
