//! `stream_context [before N] [after M] [time_window 1h]`: the lines around the selected lines, in
//! the same stream.
//!
//! Must be the first pipe. Lines come by stream, in order of time. A row with the message `---`
//! separates lines that do not follow one another. Lines farther away in time than the window are
//! not considered.
//!
//! Cost: the units of the store that overlap the window around any selected line are read a second
//! time, to order the lines of these streams (40 bytes per line, counted as memory of the query).
//! Units with lines of the result are read a third time.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use record::LineId;
use text::duration::format_duration;
use text::quoted::quote;
use text::time::format_time;

use super::limit::parse_count;
use super::operator::{Documentation, Mode, Operator, Processor, Registration, one};
use super::tuples;
use crate::base::names::MSG;
use crate::base::time::parse_duration;
use crate::base::{CHECK_ROWS, FieldSet, RunError, TimeRange};
use crate::block::{BLOCK_ROWS_MAX, BatchLines, Block, Column, MadeRow, Scratch};
use crate::lang::pipe::Next;
use crate::lang::source::ScanUnit;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;
use crate::lang::syntax::query::Query;

/// The `stream_context` pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamContext {
    /// Lines before each selected line.
    pub before: u64,
    /// Lines after each selected line.
    pub after: u64,
    /// Greatest distance in time from the selected line, nanoseconds.
    pub window_ns: i64,
}

/// The default window: one hour.
const WINDOW_NS: i64 = 3_600_000_000_000;

/// The message between lines that do not follow one another.
const GAP: &str = "---";

pub(super) static STREAM_CONTEXT: Registration = Registration {
    doc: Documentation {
        name: "stream_context",
        aliases: &[],
        syntax: "stream_context [before <n>] [after <n>] [time_window <duration>]",
        summary: "adds the lines before and after each selected line, of the same stream; must be \
                  the first pipe",
        example: "stream_context before 5 after 10 time_window 2h",
    },
    parse: |cursor| parse(cursor).map(one),
};

fn parse(cursor: &mut Cursor<'_>) -> Result<StreamContext, ParseError> {
    let position = cursor.position();
    let mut context = StreamContext { before: 0, after: 0, window_ns: WINDOW_NS };
    let mut any = false;
    loop {
        if cursor.eat_keyword("before") {
            context.before = parse_count(cursor, None)?;
        } else if cursor.eat_keyword("after") {
            context.after = parse_count(cursor, None)?;
        } else if any && cursor.eat_keyword("time_window") {
            let what = "a duration such as 1h";
            let written = cursor.run("|)", what)?;
            context.window_ns =
                parse_duration(&written.text).filter(|ns| *ns > 0).ok_or_else(|| {
                    cursor.error_at(written.position, &[what], "this is not a window of time")
                })?;
        } else if any {
            return Ok(context);
        } else {
            let expected = &["\"before N\"", "\"after N\""];
            return Err(cursor.error_at(
                position,
                expected,
                "stream_context needs the number of lines around each selected line",
            ));
        }
        any = true;
    }
}

impl fmt::Display for StreamContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream_context before {} after {}", self.before, self.after)?;
        if self.window_ns == WINDOW_NS {
            return Ok(());
        }
        write!(f, " time_window {}", format_duration(self.window_ns))
    }
}

impl Operator for StreamContext {
    fn mode(&self) -> Mode {
        Mode::Collecting
    }

    fn needed_fields(&self, mut wanted: FieldSet) -> FieldSet {
        // Lines are grouped by stream, and read again.
        wanted.add("_stream");
        wanted
    }

    fn processor(&self, carried: &[String]) -> Box<dyn Processor> {
        Box::new(Surroundings::new(self, carried))
    }

    fn reads_other_lines(&self) -> bool {
        true
    }

    fn first_because(&self) -> Option<&'static str> {
        Some("stream_context must be the first pipe, because it reads further lines of the store")
    }
}

/// Orders lines: event time and line id.
type Key = (i64, LineId);

/// A line of a stream: its key and its location.
struct Place {
    key: Key,
    unit: u32,
    row: u32,
}

#[derive(Default)]
struct Stream {
    selected: Vec<Key>,
    lines: Vec<Place>,
}

type Streams = HashMap<Box<[u8]>, Stream, foldhash::fast::RandomState>;

struct Surroundings {
    context: StreamContext,
    carried: Vec<String>,
    streams: Streams,
    scratch: Scratch,
}

/// Approximate memory of a stream besides its lines.
const STREAM_BYTES: usize = 128;

impl Surroundings {
    fn new(context: &StreamContext, carried: &[String]) -> Surroundings {
        Surroundings {
            context: context.clone(),
            carried: carried.to_vec(),
            streams: HashMap::default(),
            scratch: Scratch::default(),
        }
    }

    /// The query for all lines of the streams.
    fn query_of_streams(&self) -> Result<Query, RunError> {
        let names = self.streams.keys().map(|name| quote(&String::from_utf8_lossy(name)));
        let text = format!("_stream:in({})", names.collect::<Vec<_>>().join(", "));
        Query::parse_share(&text).map_err(|error| RunError::Failed(error.message))
    }

    /// Whether a line may be in the window of a selected line; `selected` is in order.
    fn is_near(&self, selected: &[Key], time_ns: i64) -> bool {
        let from = time_ns.saturating_sub(self.context.window_ns);
        let first = selected.partition_point(|key| key.0 < from);
        selected
            .get(first)
            .is_some_and(|key| key.0 <= time_ns.saturating_add(self.context.window_ns))
    }

    /// Collects the lines of the streams that are near selected lines.
    fn collect(
        &mut self,
        units: &[Box<dyn ScanUnit>],
        next: &mut Next<'_>,
    ) -> Result<(), RunError> {
        let mut streams = std::mem::take(&mut self.streams);
        for (number, unit) in units.iter().enumerate() {
            next.check()?;
            let Some(block) = lines_of(&**unit, next)? else { continue };
            for row in 0..block.len() {
                if row % CHECK_ROWS == CHECK_ROWS - 1 {
                    next.check()?;
                }
                let Some(key) = block.line_key(row) else { continue };
                let stream = block.value(Column::Stream, row, &mut self.scratch);
                let Some(stream) = streams.get_mut(stream) else { continue };
                if self.is_near(&stream.selected, key.0) {
                    next.meter().take(size_of::<Place>())?;
                    stream.lines.push(Place { key, unit: number as u32, row: row as u32 });
                }
            }
        }
        self.streams = streams;
        Ok(())
    }

    /// The indexes of the lines of a stream that belong to the result: ranges in their order, with
    /// other lines between them. Selected lines are often near each other, and many lines may be
    /// wanted around each, so that no line is looked at for each of them.
    fn wanted(&self, stream: &Stream, next: &Next<'_>) -> Result<Vec<Range<usize>>, RunError> {
        let StreamContext { before, after, window_ns } = self.context;
        let [before, after] = [before, after].map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let lines = &stream.lines;
        let mut wanted: Vec<Range<usize>> = Vec::new();
        for (number, selected) in stream.selected.iter().enumerate() {
            if number % CHECK_ROWS == CHECK_ROWS - 1 {
                next.check()?;
            }
            let Ok(at) = lines.binary_search_by_key(selected, |line| line.key) else {
                continue; // deleted meanwhile
            };
            let first_ns = selected.0.saturating_sub(window_ns);
            let last_ns = selected.0.saturating_add(window_ns);
            let begin = lines.partition_point(|line| line.key.0 < first_ns);
            let end = lines.partition_point(|line| line.key.0 <= last_ns);
            let begin = begin.max(at.saturating_sub(before));
            let end = end.min(at.saturating_add(after).saturating_add(1));
            match wanted.last_mut() {
                Some(last) if begin <= last.end => last.end = last.end.max(end),
                _ => wanted.push(begin..end),
            }
        }
        Ok(wanted)
    }
}

/// All lines of a unit; none when it was deleted, or when it is damaged and may be passed over.
fn lines_of(unit: &dyn ScanUnit, next: &Next<'_>) -> Result<Option<Block>, RunError> {
    let batch = match (unit.load(), unit.damage()) {
        (Err(_), Some(damage)) => {
            next.query.sharing().context.pass_over(damage)?;
            None
        }
        (batch, _) => batch?,
    };
    Ok(batch.map(|batch| {
        let rows = (0..batch.len() as u32).collect();
        Block::Lines(BatchLines::new(batch, rows))
    }))
}

/// A row of the result.
enum Out {
    Line { unit: u32, row: u32 },
    Gap { time_ns: i64 },
}

impl Processor for Surroundings {
    fn push(&mut self, block: Block, next: &mut Next<'_>) -> Result<ControlFlow<()>, RunError> {
        let column = block.column("_stream");
        for row in 0..block.len() {
            let Some(key) = block.line_key(row) else { continue };
            let stream = block.value(column, row, &mut self.scratch);
            let meter = next.meter();
            meter.take(size_of::<Key>())?;
            if let Some(known) = self.streams.get_mut(stream) {
                known.selected.push(key);
            } else {
                meter.take(stream.len() + STREAM_BYTES)?;
                let new = Stream { selected: vec![key], lines: Vec::new() };
                self.streams.insert(stream.into(), new);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn finish(&mut self, next: &mut Next<'_>) -> Result<(), RunError> {
        self.streams.values_mut().for_each(|stream| stream.selected.sort_unstable());
        let keys = || self.streams.values().flat_map(|stream| &stream.selected);
        let Some(first) = keys().map(|key| key.0).min() else { return Ok(()) };
        let last = keys().map(|key| key.0).max().expect("there is one");
        let window_ns = self.context.window_ns;
        let range = TimeRange {
            start_ns: first.saturating_sub(window_ns),
            end_ns: last.saturating_add(window_ns).saturating_add(1),
        };
        let mut units = match next.query.source().sides() {
            Some(_) => {
                let query = self.query_of_streams()?;
                next.query.lines_of_sides(&query, range)?
            }
            None => next.query.source().units(range, next.query.whose())?,
        };
        units.retain(|unit| unit.time_range_ns().is_none_or(|(old, new)| range.overlaps(old, new)));
        self.collect(&units, next)?;
        let mut streams = tuples::taken_out(&mut self.streams, next.meter())?;
        streams.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        for (name, stream) in &mut streams {
            stream.lines.sort_unstable_by_key(|line| line.key);
            // A list of ranges may reserve room for as many again.
            let ranges_bytes = 2 * stream.selected.len() * size_of::<Range<usize>>();
            next.meter().take(ranges_bytes)?;
            let mut part = Vec::new();
            let mut last = None;
            for range in self.wanted(stream, next)? {
                if let Some(last) = last.replace(range.end - 1) {
                    let time_ns = stream.lines[last].key.0.saturating_add(1);
                    part.push(Out::Gap { time_ns });
                }
                for line in &stream.lines[range] {
                    part.push(Out::Line { unit: line.unit, row: line.row });
                    let is_full = part.len() >= BLOCK_ROWS_MAX;
                    if is_full && self.hand_on(&mut part, name, &units, next)?.is_break() {
                        return Ok(());
                    }
                }
            }
            if self.hand_on(&mut part, name, &units, next)?.is_break() {
                return Ok(());
            }
            next.meter().give_back(ranges_bytes);
        }
        Ok(())
    }
}

impl Surroundings {
    /// Hands on the rows of a part of the result, and empties it.
    fn hand_on(
        &mut self,
        part: &mut Vec<Out>,
        stream: &[u8],
        units: &[Box<dyn ScanUnit>],
        next: &mut Next<'_>,
    ) -> Result<ControlFlow<()>, RunError> {
        next.check()?;
        let rows = self.rows(part, stream, units, next)?;
        part.clear();
        let held = rows.iter().map(MadeRow::memory_bytes).sum();
        let flow = next.push(Block::Made(rows))?;
        next.meter().give_back(held);
        Ok(flow)
    }

    /// Makes the rows of the result; each unit is read once.
    fn rows(
        &mut self,
        chunk: &[Out],
        stream: &[u8],
        units: &[Box<dyn ScanUnit>],
        next: &mut Next<'_>,
    ) -> Result<Vec<MadeRow>, RunError> {
        let mut rows: Vec<Option<MadeRow>> = Vec::with_capacity(chunk.len());
        let mut by_unit: BTreeMap<u32, Vec<(usize, u32)>> = BTreeMap::new();
        for (place, out) in chunk.iter().enumerate() {
            rows.push(match out {
                Out::Line { unit, row } => {
                    by_unit.entry(*unit).or_default().push((place, *row));
                    None
                }
                Out::Gap { time_ns } => {
                    let gap = gap(*time_ns, stream);
                    next.meter().take(gap.memory_bytes())?;
                    Some(gap)
                }
            });
        }
        for (unit, places) in by_unit {
            let Some(block) = lines_of(&*units[unit as usize], next)? else { continue };
            for (place, row) in places {
                let (scratch, meter) = (&mut self.scratch, next.meter());
                rows[place] = Some(block.copy_row(row as usize, &self.carried, scratch, meter)?);
            }
        }
        Ok(rows.into_iter().flatten().collect())
    }
}

fn gap(time_ns: i64, stream: &[u8]) -> MadeRow {
    let mut row = MadeRow::default();
    let names: [Arc<str>; 3] = ["_time", "_stream", MSG].map(Into::into);
    let [time, stream_name, msg] = names;
    row.push(time, format_time(time_ns).as_bytes());
    row.push(stream_name, stream);
    row.push(msg, GAP.as_bytes());
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::context::Context;
    use crate::testing::{Memory, Record, batch, collect, record, with_next};

    fn check(pipes: &str, expected: &str) {
        let line = |ns: i64, host: &str, text: &str| -> Record {
            record(ns, &[("_msg", text), ("hostname", host)])
        };
        let batches = vec![
            batch(
                1,
                &[
                    line(10, "x", "a"),
                    line(20, "y", "other"),
                    line(30, "x", "b"),
                    line(40, "x", "panic 1"),
                ],
            ),
            batch(
                2,
                &[
                    line(35, "x", "c"),
                    line(50, "x", "d"),
                    line(60, "x", "panic 2"),
                    line(60, "y", "z"),
                ],
            ),
            batch(
                3,
                &[
                    line(70, "x", "e"),
                    line(80, "x", "f"),
                    line(90, "x", "panic 3"),
                    line(100, "y", "panic 4"),
                ],
            ),
        ];
        let query = Query::parse(pipes, 0).unwrap_or_else(|e| panic!("{e}"));
        let (rows, outcome) = collect(&query, &Memory::new(batches), &Context::default());
        outcome.unwrap();
        let message = |row: &Vec<(String, String)>| {
            row.iter().find(|(name, _)| name == "_msg").map_or(String::new(), |(_, v)| v.clone())
        };
        assert_eq!(rows.iter().map(message).collect::<Vec<_>>().join(", "), expected, "{pipes}");
    }

    #[test]
    fn lines_around_others() {
        check(
            "panic | stream_context before 1",
            "c, panic 1, d, panic 2, ---, f, panic 3, z, panic 4",
        );
        check("\"panic 1\" | stream_context after 2", "panic 1, d, panic 2");
        check("\"panic 1\" | stream_context before 2 after 1", "b, c, panic 1, d");
        check("\"panic 1\" | stream_context before 9 time_window 10ns", "b, c, panic 1");
        check("\"panic 2\" | stream_context before 0 after 0 | fields _msg", "panic 2");
        check("nothing | stream_context before 5", "");
    }

    #[test]
    fn lines_around_selected_ones_are_ranges() {
        let key = |second: i64| (second, LineId { node: 1, sequence: 1, line: second as u32 });
        let place = |second| Place { key: key(second), unit: 0, row: 0 };
        let check = |(before, after): (u64, u64), window_ns, selected: &[i64], expected: &str| {
            let context = StreamContext { before, after, window_ns };
            let selected = selected.iter().map(|&second| key(second)).collect();
            let stream = Stream { selected, lines: (0..1_000).map(place).collect() };
            let around = Surroundings::new(&context, &[]);
            let (found, _) = with_next(|next| around.wanted(&stream, next).unwrap());
            assert_eq!(format!("{found:?}"), expected);
        };
        let all: Vec<i64> = (0..1_000).collect();
        check((u64::MAX, u64::MAX), i64::MAX, &all, "[0..1000]");
        check((1, 1), i64::MAX, &[2, 4, 6, 900], "[1..8, 899..902]");
        check((0, 0), 5, &[2, 3, 7], "[2..4, 7..8]");
        check((9, 9), 2, &[0, 500, 999], "[0..3, 498..503, 997..1000]");
        check((1, 1), 5, &[2_000], "[]");
    }
}
