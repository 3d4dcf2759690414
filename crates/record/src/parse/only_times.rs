//! The event times of the lines of a frame, without their fields.
//!
//! A query that counts lines, or wants the newest ones, asks a frame for its times only. Most
//! frames consist of lines with a syslog head, whose time is that of the line whatever its message
//! holds. Finding it takes about a fifth of the time of parsing the line.
//!
//! Invariant: the times are those of [`Parser::parse`]. A line whose head does not decide its time
//! is therefore parsed. A frame with many such lines is left to its reader, who parses it.

use std::sync::Arc;

use super::common::Common;
use super::head_fields::find_head;
use super::heads::ParsedHead;
use super::inherited::LastTimes;
use super::row::RowsBuilder;
use super::servers::Program;
use super::{Parser, cri, time, trimmed};
use crate::batch::{BatchBuilder, StemId};
use crate::frame::{Frame, Line, MessageFormat};

/// Lines that are parsed for their times, of any frame.
const PARSED_MIN: usize = 32;
/// Of the lines that were passed, one in this many may be parsed, besides those.
const PARSED_PART: usize = 8;

impl Parser {
    /// The event time of each line of a frame, nanoseconds since 1970 UTC, as in the records of the
    /// frame. None where finding the times would take about as long as parsing the frame.
    pub fn times(&mut self, frame: &Arc<Frame>) -> Option<Vec<i64>> {
        self.times_parsing(frame, |passed| PARSED_MIN + passed / PARSED_PART)
    }

    /// As [`times`](Self::times); `parsed_max` says how many of the lines that were passed may have
    /// been parsed.
    pub(super) fn times_parsing(
        &mut self,
        frame: &Arc<Frame>,
        parsed_max: impl Fn(usize) -> usize,
    ) -> Option<Vec<i64>> {
        let mut times = Vec::with_capacity(frame.header().lines as usize);
        // Takes the rows of lines that are parsed.
        let mut rows = RowsBuilder::new(BatchBuilder::of_part(frame.clone(), 0));
        let mut commons: Vec<Option<Common>> = vec![None; frame.origins().len()];
        let mut rule_names = vec![None; self.rules.len()];
        let mut last_times = LastTimes::new(frame);
        let mut parsed = 0;
        self.begin_batch();
        self.heads_of_times.begin_batch();
        for line in frame.lines() {
            let common = commons[usize::from(line.origin_index)]
                .get_or_insert_with(|| Common::new(line.origin, self.zone, &mut rows));
            if let Some(time_ns) = self.time_of_head(&line, frame.bytes(), common) {
                last_times.note(&line, time_ns);
                times.push(time_ns);
                continue;
            }
            parsed += 1;
            if parsed > parsed_max(times.len()) {
                return None;
            }
            rows.begin(&line);
            self.line(&line, frame.bytes(), common, &mut rule_names, &mut rows);
            last_times.pass(&line, &mut rows);
            times.push(rows.builder.time_ns());
            rows.end();
        }
        Some(times)
    }

    /// The time of a line as far as its head decides it, whatever follows the head.
    fn time_of_head(&mut self, line: &Line<'_>, frame: &[u8], common: &Common) -> Option<i64> {
        let text = trimmed(line.bytes);
        if !common.may_have_head
            || !line.origin.hints.time_fields.is_empty()
            || common.type_name.is_none() && self.rules.may_change_times()
        {
            return None;
        }
        let context = time::Context { arrival_ns: line.received_ns, expected: common.expected };
        let mut sight = None;
        if text.as_ptr() == line.bytes.as_ptr() {
            sight = self.heads.sight(text, line.origin_index, &mut self.times, context);
            if let Some(sight) = &sight
                && self.heads_of_times.find(sight, line, frame).is_some()
            {
                return Some(sight.time_ns);
            }
        }
        if common.may_be_container && cri::head(text).is_some() {
            return None;
        }
        let head = find_head(text, line.origin, common.forced);
        let written = head.written.filter(|_| head.format.is_some() && !head.clock_unset)?;
        let time_ns = time::resolve(written, context).ok()?;
        if let Some(sight) = sight.filter(|sight| sight.fits(&head, line.bytes)) {
            // Lines of the same head differ in their times, which are sighted, and in what no time
            // depends on.
            let learnt = ParsedHead {
                head: &head,
                format: MessageFormat::Auto,
                program: Program::Off,
                rule: None,
                variant: 0,
                stem: StemId(0),
            };
            self.heads_of_times.learn(&sight, line, frame, learnt);
        }
        Some(time_ns)
    }
}
