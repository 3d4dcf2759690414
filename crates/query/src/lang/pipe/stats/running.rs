//! `running_stats [by (a, b)] count() n, sum(c) s`: adds to each row, in order of time, numbers
//! about the rows of its group up to and including it. `total_stats …`: numbers about all rows of
//! its group.
//!
//! The functions are `count`, `sum`, `min` and `max` as in `stats`, and `first` and `last`: the
//! first and last value that is not empty, or with `offset N` the one N values behind or before it;
//! and the functions of a series ([`super::series`]), such as `moving_avg`. `total_stats` has all
//! functions of `stats`. [`TimedRows`] says in what order rows come.

use std::collections::HashSet;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use text::time::parse_timestamp;

use super::aggregate::{Aggregate, Input, PerGroup, States, decode_optional, encode_optional};
use super::call::{Call, Function};
use super::series::{Point, RESULT_BYTES, RUNNING_NAMES, SeriesFunction, TOTAL_NAMES};
use super::{any, count, min_max, parse_call, parse_fields, sum, write_fields};
use crate::base::names::NamePattern;
use crate::base::number::{parse_quantity, write_number};
use crate::base::partial_state::{Decoder, Encoder};
use crate::base::{CHECK_ROWS, FieldSet, Meter, RunError};
use crate::block::{Block, MadeRow, Scratch, VALUE_BYTES_MAX};
use crate::lang::pipe::limit::parse_count;
use crate::lang::pipe::operator::{Documentation, Mode, Operator, Processor, Registration, one};
use crate::lang::pipe::shown::Shown;
use crate::lang::pipe::timed_rows::{TIME, TimedRow, TimedRows};
use crate::lang::pipe::{Next, parse_by, write_names};
use crate::lang::syntax::cursor::{Cursor, quote_name};
use crate::lang::syntax::error::ParseError;

/// The `running_stats` and `total_stats` pipes.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningStats {
    /// Whether the numbers are about all rows of the group, not only about those up to the row.
    pub is_total: bool,
    /// The fields whose values form groups.
    pub by: Vec<String>,
    /// The functions; at least one.
    pub functions: Vec<RunningFunction>,
}

/// A function, with the name of its result.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningFunction {
    /// The function.
    pub kind: RunningKind,
    /// The fields it reads; empty: it counts rows.
    pub fields: Vec<NamePattern>,
    /// Name of the result field.
    pub name: String,
}

/// A function of the rows up to a row.
#[derive(Clone, Debug, PartialEq)]
pub enum RunningKind {
    /// Number of rows; with fields, of rows that have a value in any of them.
    Count,
    /// The first value.
    First,
    /// The last value.
    Last,
    /// The greatest value.
    Max,
    /// The least value.
    Min,
    /// The sum of the numbers.
    Sum,
    /// A function of the numbers of a series, of one field.
    Series(SeriesFunction),
    /// The value this many behind the first, or before the last.
    At(SeriesEnd, u64),
    /// Another function of `stats`, with its fields.
    Stats(Function),
}

/// An end of the values of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesEnd {
    /// The first value.
    First,
    /// The last value.
    Last,
}

impl RunningKind {
    const NAMES: [(&str, RunningKind); 6] = [
        ("count", RunningKind::Count),
        ("first", RunningKind::First),
        ("last", RunningKind::Last),
        ("max", RunningKind::Max),
        ("min", RunningKind::Min),
        ("sum", RunningKind::Sum),
    ];

    fn name(&self) -> &'static str {
        match self {
            RunningKind::Series(function) => function.name(),
            RunningKind::At(SeriesEnd::First, _) => "first",
            RunningKind::At(SeriesEnd::Last, _) => "last",
            RunningKind::Stats(function) => function.name(),
            kind => {
                let named = RunningKind::NAMES.iter().find(|(_, named)| named == kind);
                named.expect("each has a name").0
            }
        }
    }

    /// The states that run the function; none for a function of a series.
    fn states(&self, fields: &[NamePattern]) -> Option<Box<dyn States>> {
        let function = match self {
            RunningKind::Series(_) | RunningKind::At(..) => return None,
            RunningKind::Stats(function) => return Some(function.states()),
            RunningKind::Count => &count::COUNT,
            RunningKind::First => &any::ANY,
            RunningKind::Last => return Some(PerGroup::boxed(Last, fields)),
            RunningKind::Max => &min_max::MAX,
            RunningKind::Min => &min_max::MIN,
            RunningKind::Sum => &sum::SUM,
        };
        Some(function.of(fields.to_vec()).states())
    }
}

pub(in crate::lang::pipe) static RUNNING_STATS: Registration = Registration {
    doc: Documentation {
        name: "running_stats",
        aliases: &[],
        syntax: "running_stats [by (<field>, …)] <function>(…) [offset <n>] [as <name>], …",
        summary: "adds to each row, in the order of _time, numbers about the rows of its group up \
                  to it",
        example: "running_stats by (host) count() n, sum(took) s, moving_avg(took, 1h) m",
    },
    parse: |cursor| parse(cursor, false).map(one),
};

pub(in crate::lang::pipe) static TOTAL_STATS: Registration = Registration {
    doc: Documentation {
        name: "total_stats",
        aliases: &[],
        syntax: "total_stats [by (<field>, …)] <function>(…) [offset <n>] [as <name>], …",
        summary: "adds to each row numbers about all rows of its group",
        example: "total_stats by (host) count() n, max(took) m, share(took) p",
    },
    parse: |cursor| parse(cursor, true).map(one),
};

/// Parses the text behind the name of the pipe.
fn parse(cursor: &mut Cursor<'_>, is_total: bool) -> Result<RunningStats, ParseError> {
    let grouped = cursor.eat_keyword("by") || cursor.peek() == Some('(');
    let by = if grouped { parse_by(cursor)? } else { Vec::new() };
    let mut names: HashSet<String> = by.iter().cloned().collect();
    let mut functions: Vec<RunningFunction> = Vec::new();
    loop {
        let position = cursor.position();
        let function = parse_function(cursor, is_total)?;
        if !names.insert(function.name.clone()) {
            let message = format!("the name \"{}\" is used twice", function.name);
            return Err(cursor.error_at(position, &["a name with \"as\""], message));
        }
        functions.push(function);
        if !cursor.eat(',') {
            return Ok(RunningStats { is_total, by, functions });
        }
    }
}

fn parse_function(cursor: &mut Cursor<'_>, is_total: bool) -> Result<RunningFunction, ParseError> {
    let position = cursor.position();
    let word = cursor.peek_word(false);
    let is_word = |name: &&&str| name.eq_ignore_ascii_case(word);
    let of_series: &[&str] = if is_total { &TOTAL_NAMES } else { &RUNNING_NAMES };
    if let Some(name) = of_series.iter().find(is_word) {
        return parse_series_function(cursor, name);
    }
    if RUNNING_NAMES.iter().chain(&TOTAL_NAMES).any(|name| is_word(&name)) {
        let pipe = if is_total { "running_stats" } else { "total_stats" };
        let message = format!("{word}() is a function of {pipe}");
        return Err(cursor.error_at(position, of_series, message));
    }
    let named = RunningKind::NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
    if named.is_none() && is_total && super::is_function(&word.to_ascii_lowercase()) {
        let function = parse_call(cursor)?;
        return parse_name(cursor, RunningKind::Stats(function), Vec::new());
    }
    let Some((name, kind)) = named else {
        let message = match cursor.found() {
            None => "the query ends where a function should be".to_owned(),
            Some(found) => format!("there is no function {found} of running_stats and total_stats"),
        };
        let names: Vec<&str> = RunningKind::NAMES.iter().map(|(name, _)| *name).collect();
        return Err(cursor.error_at(position, &[&names, of_series].concat(), message));
    };
    let mut kind = kind.clone();
    cursor.eat_keyword(name);
    cursor.expect('(', name)?;
    let mut fields = parse_fields(cursor, name)?;
    if kind == RunningKind::Count && fields.contains(&NamePattern::ANY) {
        fields.clear();
    }
    if fields.is_empty() && kind != RunningKind::Count {
        return Err(cursor.error_at(
            position,
            &["a field name"],
            format!("{name}() needs a field"),
        ));
    }
    let end = match kind {
        RunningKind::First => Some(SeriesEnd::First),
        RunningKind::Last => Some(SeriesEnd::Last),
        _ => None,
    };
    if let Some(end) = end
        && cursor.eat_keyword("offset")
    {
        match parse_count(cursor, None)? {
            0 => {}
            offset => kind = RunningKind::At(end, offset),
        }
    }
    parse_name(cursor, kind, fields)
}

/// Parses a function of a series, whose name comes next.
fn parse_series_function(
    cursor: &mut Cursor<'_>,
    name: &str,
) -> Result<RunningFunction, ParseError> {
    cursor.eat_keyword(name);
    cursor.expect('(', name)?;
    let field = NamePattern::exact(&cursor.expect_string(false, "a field name")?.text);
    let kind = RunningKind::Series(SeriesFunction::parse_rest(name, cursor)?);
    parse_name(cursor, kind, vec![field])
}

/// Parses the name of a result, which may be missing.
fn parse_name(
    cursor: &mut Cursor<'_>,
    kind: RunningKind,
    fields: Vec<NamePattern>,
) -> Result<RunningFunction, ParseError> {
    let mut function = RunningFunction { kind, fields, name: String::new() };
    let named = cursor.eat_keyword("as");
    function.name = match cursor.string(false)? {
        Some(written) => written.text,
        None if named => cursor.expect_string(false, "a name for the result")?.text,
        None => function.call(),
    };
    Ok(function)
}

impl RunningFunction {
    fn call(&self) -> String {
        let mut arguments = write_fields(&self.fields);
        match &self.kind {
            RunningKind::Stats(function) => return function.to_string(),
            RunningKind::Series(function) => function.write_rest(&mut arguments),
            RunningKind::At(_, offset) => {
                return format!("{}({arguments}) offset {offset}", self.kind.name());
            }
            _ => {}
        }
        format!("{}({arguments})", self.kind.name())
    }
}

impl fmt::Display for RunningStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_total { "total_stats " } else { "running_stats " })?;
        if !self.by.is_empty() {
            write!(f, "by ({}) ", write_names(&self.by))?;
        }
        for (i, function) in self.functions.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(f, "{comma}{} as {}", function.call(), quote_name(&function.name))?;
        }
        Ok(())
    }
}

impl Operator for RunningStats {
    fn mode(&self) -> Mode {
        Mode::Collecting
    }

    fn needed_fields(&self, mut wanted: FieldSet) -> FieldSet {
        self.functions.iter().for_each(|function| wanted.remove(&function.name));
        for function in &self.functions {
            function.fields.iter().for_each(|field| wanted.add_pattern(field));
            if let RunningKind::Stats(function) = &function.kind {
                function.add_needed(&mut wanted);
            }
        }
        wanted.add_all(&self.by);
        wanted.add(TIME);
        wanted
    }

    fn processor(&self, carried: &[String]) -> Box<dyn Processor> {
        Box::new(RunningRows::new(self, carried))
    }

    fn follow_names(&self, shown: &mut Shown, _is_range: bool) -> Result<(), String> {
        let by: HashSet<&str> = self.by.iter().map(String::as_str).collect();
        let known = by.iter().all(|name| shown.is_label(name));
        let mut labels = shown.labels().into_iter().filter(|name| name != TIME);
        let complete = self.is_total || labels.all(|name| by.contains(name.as_str()));
        if !known || !complete {
            return Err("must be grouped by the fields of the stats pipe".to_owned());
        }
        self.functions.iter().for_each(|function| shown.add_value(&function.name));
        Ok(())
    }
}

/// `last(a, b)`: the last value that is not empty.
struct Last;

impl Aggregate for Last {
    type State = Option<Box<[u8]>>;

    fn add(
        &mut self,
        kept: &mut Option<Box<[u8]>>,
        input: &Input<'_>,
        row: usize,
        scratch: &mut Scratch,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        input.each(row, scratch, |value| {
            if value.is_empty() {
                return Ok(());
            }
            meter.give_back(kept.as_ref().map_or(0, |kept| kept.len()));
            meter.take(value.len())?;
            *kept = Some(value.into());
            Ok(())
        })
    }

    fn merge(
        &mut self,
        kept: &mut Option<Box<[u8]>>,
        other: Option<Box<[u8]>>,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        if other.is_some() {
            meter.give_back(kept.as_ref().map_or(0, |kept| kept.len()));
            *kept = other;
        }
        Ok(())
    }

    fn encode(&self, kept: &Self::State, out: &mut Encoder<'_>) -> Result<(), RunError> {
        encode_optional(kept, out)
    }

    fn decode(&self, from: &mut Decoder<'_>, meter: &mut Meter) -> Result<Self::State, RunError> {
        decode_optional(from, meter)
    }

    fn write(&self, kept: &mut Option<Box<[u8]>>, _seconds: Option<f64>, out: &mut Vec<u8>) {
        out.extend_from_slice(kept.as_deref().unwrap_or_default());
    }
}

/// The running pipe.
struct RunningRows {
    pipe: RunningStats,
    rows: TimedRows,
}

impl RunningRows {
    fn new(pipe: &RunningStats, carried: &[String]) -> RunningRows {
        RunningRows { pipe: pipe.clone(), rows: TimedRows::new(&pipe.by, carried) }
    }
}

/// The functions, run over one group after the other.
struct Functions {
    states: Vec<(Arc<str>, Box<dyn States>)>,
    group: u32,
    scratch: Scratch,
    /// The results as text.
    texts: Vec<Vec<u8>>,
}

impl Functions {
    fn new(pipe: &RunningStats) -> Functions {
        let of = |f: &RunningFunction| Some((f.name.as_str().into(), f.kind.states(&f.fields)?));
        let states: Vec<_> = pipe.functions.iter().filter_map(of).collect();
        let texts = vec![Vec::new(); states.len()];
        Functions { states, group: 0, scratch: Scratch::default(), texts }
    }

    fn begin(&mut self, group: usize, meter: &mut Meter) -> Result<(), RunError> {
        self.group = u32::try_from(group).expect("memory ends before 2^32 groups");
        meter.take(self.states.iter().map(|(_, states)| states.state_bytes()).sum())?;
        self.states.iter_mut().for_each(|(_, states)| states.grow(group + 1));
        Ok(())
    }

    /// Adds a row to the states, and returns it.
    fn add(&mut self, row: MadeRow, meter: &mut Meter) -> Result<MadeRow, RunError> {
        let block = Block::Made(vec![row]);
        for (_, states) in &mut self.states {
            states.add(&block, &[self.group], None, &mut self.scratch, meter)?;
        }
        let Block::Made(mut rows) = block else { unreachable!("just made") };
        Ok(rows.remove(0))
    }

    /// Writes the present results.
    fn write_results(&mut self) -> Result<(), RunError> {
        for ((_, states), text) in self.states.iter_mut().zip(&mut self.texts) {
            text.clear();
            if states.text_bytes(self.group) <= VALUE_BYTES_MAX {
                states.write(self.group, None, text);
            }
            if text.len().max(states.text_bytes(self.group)) > VALUE_BYTES_MAX {
                return Err(RunError::ValueLimit(VALUE_BYTES_MAX));
            }
        }
        Ok(())
    }

    /// Sets the written results in a row.
    fn set_results(&self, row: &mut MadeRow, meter: &mut Meter) -> Result<(), RunError> {
        let mut results = self.states.iter().zip(&self.texts);
        results.try_for_each(|((name, _), text)| row.set_counted(name, text, meter))
    }
}

impl Processor for RunningRows {
    fn push(&mut self, block: Block, next: &mut Next<'_>) -> Result<ControlFlow<()>, RunError> {
        self.rows.push(&block, next)?;
        Ok(ControlFlow::Continue(()))
    }

    fn finish(&mut self, next: &mut Next<'_>) -> Result<(), RunError> {
        let mut functions = Functions::new(&self.pipe);
        let mut group = 0;
        self.rows.finish(next, |rows, next| {
            functions.begin(group, next.meter())?;
            group += 1;
            if self.pipe.is_total {
                each(rows, next, |row, next| {
                    *row = functions.add(std::mem::take(row), next.meter())?;
                    Ok(())
                })?;
                functions.write_results()?;
            }
            each(rows, next, |row, next| {
                if !self.pipe.is_total {
                    *row = functions.add(std::mem::take(row), next.meter())?;
                    functions.write_results()?;
                }
                functions.set_results(row, next.meter())
            })?;
            let is_total = self.pipe.is_total;
            self.pipe.functions.iter().try_for_each(|f| {
                add_series_results(f, rows, next)?;
                add_values_at(f, is_total, rows, next)
            })
        })
    }
}

/// Calls `change` for each row, and checks now and then whether the query may continue.
fn each(
    rows: &mut [TimedRow],
    next: &mut Next<'_>,
    mut change: impl FnMut(&mut MadeRow, &mut Next<'_>) -> Result<(), RunError>,
) -> Result<(), RunError> {
    for (place, (_, row)) in rows.iter_mut().enumerate() {
        if place % CHECK_ROWS == CHECK_ROWS - 1 {
            next.check()?;
        }
        change(row, next)?;
    }
    Ok(())
}

/// Adds the results of a function of a series to the rows of the series.
fn add_series_results(
    function: &RunningFunction,
    rows: &mut [TimedRow],
    next: &mut Next<'_>,
) -> Result<(), RunError> {
    let (RunningKind::Series(series), [field]) = (&function.kind, &function.fields[..]) else {
        return Ok(());
    };
    let held = rows.len() * (size_of::<Point>() + 2 * RESULT_BYTES);
    next.meter().take(held)?;
    // Times are nanoseconds, of which a double holds the differences but not the sums since 1970.
    // What depends on differences alone is therefore counted from the first time.
    let counted_from = match series.depends_on_changes() {
        true => rows.iter().find_map(|(_, row)| parse_timestamp(row.get(&field.name))).unwrap_or(0),
        false => 0,
    };
    let number = |row: &MadeRow| {
        let value = row.get(&field.name);
        let time = || Some((parse_timestamp(value)?.checked_sub(counted_from)?) as f64);
        parse_quantity(value).or_else(time).filter(|n| n.is_finite())
    };
    let points: Vec<Point> = rows.iter().map(|(time_ns, row)| (*time_ns, number(row))).collect();
    let mut results = series.results(&points, next.meter())?.into_iter();
    let name: Arc<str> = function.name.as_str().into();
    let mut text = Vec::new();
    each(rows, next, |row, next| {
        text.clear();
        if let Some(result) = results.next().flatten() {
            write_number(result, &mut text);
        }
        row.set_counted(&name, &text, next.meter())
    })?;
    next.meter().give_back(held);
    Ok(())
}

/// Adds to each row the value so many values behind the first, or before the last: of all rows, or
/// of those up to the row.
fn add_values_at(
    function: &RunningFunction,
    is_total: bool,
    rows: &mut [TimedRow],
    next: &mut Next<'_>,
) -> Result<(), RunError> {
    let RunningKind::At(end, offset) = function.kind else { return Ok(()) };
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    let mut held = 0;
    // The values that are not empty, and how many there are up to each row.
    let (mut values, mut counts): (Vec<Box<[u8]>>, Vec<usize>) = (Vec::new(), Vec::new());
    each(rows, next, |row, next| {
        let before = values.len();
        row.visit(&[], &mut |name, value, _| {
            if !value.is_empty() && function.fields.iter().any(|field| field.matches(name)) {
                values.push(value.into());
            }
        });
        let bytes: usize = values[before..].iter().map(|v| v.len() + size_of::<Box<[u8]>>()).sum();
        let bytes = bytes + size_of::<usize>();
        held += bytes;
        counts.push(values.len());
        next.meter().take(bytes)
    })?;
    let name: Arc<str> = function.name.as_str().into();
    let mut counts = counts.into_iter();
    each(rows, next, |row, next| {
        let count = counts.next().expect("one for each row");
        let count = if is_total { values.len() } else { count };
        let place = match end {
            SeriesEnd::First => Some(offset).filter(|place| *place < count),
            SeriesEnd::Last => count.checked_sub(1).and_then(|last| last.checked_sub(offset)),
        };
        row.set_counted(&name, place.map_or(b"", |place| &values[place]), next.meter())
    })?;
    next.meter().give_back(held);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::Query;
    use crate::base::{Limits, RunError};
    use crate::lang::context::Context;
    use crate::testing::{check_pipe, record};

    #[test]
    fn numbers_of_the_rows_so_far() {
        let at =
            |time: i64, host: &str, hits: &str| record(time, &[("host", host), ("hits", hits)]);
        let records = [
            at(30, "a", "5"),
            at(10, "b", "1"),
            at(20, "a", "2"),
            at(10, "a", ""),
            at(40, "b", "x"),
        ];
        let check = |pipes: &str, expected: &[&str]| check_pipe(&records, pipes, expected);
        check(
            "running_stats count() n, sum(hits) s | fields host, hits, n, s",
            &[
                "host=b hits=1 n=1 s=1",
                "host=a n=2 s=1",
                "host=a hits=2 n=3 s=3",
                "host=a hits=5 n=4 s=8",
                "host=b hits=x n=5 s=8",
            ],
        );
        check(
            "running_stats by (host) first(hits) f, last(hits) as l, min(hits) a, max(hits) b | delete _msg, _time, _stream",
            &[
                "host=a",
                "host=a hits=2 f=2 l=2 a=2 b=2",
                "host=a hits=5 f=2 l=5 a=2 b=5",
                "host=b hits=1 f=1 l=1 a=1 b=1",
                "host=b hits=x f=1 l=x a=1 b=x",
            ],
        );
        check(
            "total_stats (host) count(), sum(hits) | fields host, hits, \"count()\", \"sum(hits)\"",
            &[
                "host=a count()=3 sum(hits)=7",
                "host=a hits=2 count()=3 sum(hits)=7",
                "host=a hits=5 count()=3 sum(hits)=7",
                "host=b hits=1 count()=2 sum(hits)=1",
                "host=b hits=x count()=2 sum(hits)=1",
            ],
        );
        check(
            "stats by (_time:20ns) count() hits | running_stats sum(hits) sum | fields hits, sum",
            &["hits=2 sum=2", "hits=2 sum=4", "hits=1 sum=5"],
        );
        check("filter none | running_stats count() n", &[]);
        check(
            "fields hits | running_stats count() n | fields n",
            &["n=1", "n=2", "n=3", "n=4", "n=5"],
        );
    }

    #[test]
    fn functions_of_a_series() {
        let at = |second: i64, host: &str, n: &str| {
            record(second * 1_000_000_000, &[("host", host), ("n", n)])
        };
        let records = [
            at(20, "a", "30"),
            at(0, "a", "10"),
            at(0, "b", "5"),
            at(10, "a", "20"),
            at(10, "b", "none"),
        ];
        let check = |pipes: &str, expected: &[&str]| check_pipe(&records, pipes, expected);
        check(
            "running_stats by (host) derivative(n) d, moving_sum(n, 2) m, shift(n, 20s) s, \
             difference(n) | fields host, n, d, m, s, \"difference(n, 1)\"",
            &[
                "host=a n=10 m=10",
                "host=a n=20 d=1 m=30 difference(n, 1)=10",
                "host=a n=30 d=1 m=50 s=10 difference(n, 1)=10",
                "host=b n=5 m=5",
                "host=b n=none m=5",
            ],
        );
        check(
            "total_stats by (host) share(n), count() c | fields host, \"share(n)\", c | first 2 by (host desc)",
            &["host=b share(n)=100 c=2", "host=b c=2"],
        );
        check(
            "stats by (_time:10s) count() hits | running_stats moving_avg(hits, 10s) a, rate(hits) r | fields hits, a, r",
            &["hits=2 a=2", "hits=2 a=2 r=0", "hits=1 a=1 r=0.1"],
        );
        for (wrong, says) in [
            ("running_stats share(n)", "share() is a function of total_stats"),
            ("total_stats rate(n)", "rate() is a function of running_stats"),
            ("running_stats moving_avg(n)", "the span is missing"),
            ("running_stats shift(n, 0)", "\"0\" is no span"),
            ("running_stats shift(n, -1h)", "\"-1h\" is no span"),
            ("running_stats rate()", "field name"),
            ("running_stats moving_avg(a, b, 1h)", "no span"),
        ] {
            let error = Query::parse(&format!("* | {wrong}"), 0).expect_err(wrong).to_string();
            assert!(error.contains(says), "{wrong}: {error}");
        }
    }

    #[test]
    fn values_at_an_offset_and_functions_of_stats() {
        let at = |time: i64, host: &str, n: &str| record(time, &[("host", host), ("n", n)]);
        let records = [
            at(10, "a", "1"),
            at(20, "a", ""),
            at(30, "a", "3"),
            at(40, "a", "5"),
            at(15, "b", "7"),
        ];
        check_pipe(
            &records,
            "running_stats by (host) first(n) offset 1 f, last(n) offset 1 l | fields n, f, l",
            &["n=1", "", "n=3 f=3 l=1", "n=5 f=3 l=3", "n=7"],
        );
        check_pipe(
            &records,
            "total_stats by (host) first(n) offset 2 f, last(n) offset 1 l, last(n) offset 9 z | fields f, l, z",
            &["f=5 l=3", "f=5 l=3", "f=5 l=3", "f=5 l=3", ""],
        );
        check_pipe(
            &records,
            "total_stats by (host) avg(n) m, quantile(0.5, n) q, uniq_values(n) u, last(n) offset 0 e | \
             fields host, m, q, u, e | first 1 by (host) partition by (host)",
            &["host=a m=3 q=3 u=[\"1\",\"3\",\"5\"] e=5", "host=b m=7 q=7 u=[\"7\"] e=7"],
        );
        let text = "* | total_stats by (host) avg(n) as m, first(n) offset 2 as f";
        let query = Query::parse(text, 0).unwrap();
        assert_eq!(query.to_string(), text);
        assert!(Query::parse("* | running_stats median(n)", 0).is_err());
    }

    #[test]
    fn times_differ_by_nanoseconds() {
        // 2026-01-31T12:00:00.000000001Z and later.
        let start = 1_769_860_800_000_000_001;
        let at = |after: i64, text: &str| record(start + after, &[("at", text)]);
        let records = [
            at(0, "2026-01-31T12:00:00Z"),
            at(7, "2026-01-31T12:00:00.000000003Z"),
            at(1_000_000_007, "none"),
        ];
        check_pipe(
            &records,
            "running_stats difference(_time) d, difference(at) e | fields d, e",
            &["", "d=7 e=3", "d=1000000000"],
        );
    }

    #[test]
    fn what_it_needs_is_read_and_counted() {
        let query = |text: &str| Query::parse(text, 0).unwrap_or_else(|e| panic!("{e}"));
        let needed = query("* | running_stats by (h) sum(x) s | fields s").needed_fields(&[]);
        for (name, expected) in [("h", true), ("x", true), ("_time", true), ("s", false)] {
            assert_eq!(needed.contains(name), expected, "{name}");
        }
        let records: Vec<_> = (0..1_000).map(|i| record(i, &[("_msg", "some text")])).collect();
        let source = crate::testing::Memory::new(vec![crate::testing::batch(1, &records)]);
        for (memory_bytes_max, fits) in [(4 << 20, true), (50_000, false)] {
            let limits = Limits { memory_bytes_max, ..Limits::default() };
            let context = Context { limits, ..Context::default() };
            let query = query("* | total_stats count() n");
            let result = crate::dist::run(&query, &source, &context, &mut |_| {
                std::ops::ControlFlow::Continue(())
            });
            assert_eq!(result.is_ok(), fits, "{memory_bytes_max}");
            assert!(fits || matches!(result, Err(RunError::MemoryLimit(_))));
        }
        for wrong in
            ["running_stats avg(a) b", "total_stats sum()", "running_stats count() a, sum(b) a"]
        {
            assert!(Query::parse(&format!("* | {wrong}"), 0).is_err(), "{wrong}");
        }
    }
}
