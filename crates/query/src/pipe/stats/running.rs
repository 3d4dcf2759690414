//! `running_stats [by (a, b)] count() n, sum(c) s`: adds to each row, in order of time, numbers
//! about the rows of its group up to and including it. `total_stats …`: numbers about all rows of
//! its group.
//!
//! The functions are `count`, `sum`, `min` and `max` as in `stats`, and `first` and `last`: the
//! first and last value that is not empty. Groups come in the order of their values. Within a
//! group, rows come by `_time`, those without a time last, equal ones as they came. All rows are
//! held in the query's memory.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::aggregate::{Aggregate, Input, PerGroup, States, decode_optional, encode_optional};
use super::call::Call;
use super::{any, count, min_max, parse_fields, sum, write_fields};
use crate::block::{BLOCK_ROWS_MAX, Block, Column, MadeRow, NamePattern, Scratch, VALUE_BYTES_MAX};
use crate::exec::{Buffer, CHECK_ROWS, Meter, Next, RunError};
use crate::pipe::operator::{Documentation, Mode, Operator, Processor, Registration, one};
use crate::pipe::partial::{Decoder, Encoder};
use crate::pipe::shown::Shown;
use crate::pipe::sort::compare_groups;
use crate::pipe::{parse_by, tuples, write_names};
use crate::plan::fields::FieldSet;
use crate::syntax::cursor::{Cursor, quote_name};
use crate::syntax::error::ParseError;

/// The field that orders rows.
const TIME: &str = "_time";

/// The `running_stats` and `total_stats` pipes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningStats {
    /// Whether the numbers are about all rows of the group, not only about those up to the row.
    pub is_total: bool,
    /// The fields whose values form groups.
    pub by: Vec<String>,
    /// The functions; at least one.
    pub functions: Vec<RunningFunction>,
}

/// A function, with the name of its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningFunction {
    /// The function.
    pub kind: RunningKind,
    /// The fields it reads; empty: it counts rows.
    pub fields: Vec<NamePattern>,
    /// Name of the result field.
    pub name: String,
}

/// A function of the rows up to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

    fn name(self) -> &'static str {
        let named = RunningKind::NAMES.iter().find(|(_, kind)| *kind == self);
        named.expect("each has a name").0
    }

    fn states(self, fields: &[NamePattern]) -> Box<dyn States> {
        let function = match self {
            RunningKind::Count => &count::COUNT,
            RunningKind::First => &any::ANY,
            RunningKind::Last => return PerGroup::boxed(Last, fields),
            RunningKind::Max => &min_max::MAX,
            RunningKind::Min => &min_max::MIN,
            RunningKind::Sum => &sum::SUM,
        };
        function.of(fields.to_vec()).states()
    }
}

pub(in crate::pipe) static RUNNING_STATS: Registration = Registration {
    doc: Documentation {
        name: "running_stats",
        aliases: &[],
        syntax: "running_stats [by (<field>, …)] <function>(…) [as <name>], …",
        summary: "the rows, each with numbers about those of its group up to it, in the order of _time",
        example: "running_stats by (host) count() n, sum(took) s",
    },
    parse: |cursor| parse(cursor, false).map(one),
};

pub(in crate::pipe) static TOTAL_STATS: Registration = Registration {
    doc: Documentation {
        name: "total_stats",
        aliases: &[],
        syntax: "total_stats [by (<field>, …)] <function>(…) [as <name>], …",
        summary: "the rows, each with numbers about all of its group",
        example: "total_stats by (host) count() n, max(took) m",
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
        let function = parse_function(cursor)?;
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

fn parse_function(cursor: &mut Cursor<'_>) -> Result<RunningFunction, ParseError> {
    let position = cursor.position();
    let word = cursor.peek_word(false);
    let named = RunningKind::NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
    let Some(&(name, kind)) = named else {
        let message = match cursor.found() {
            None => "the query ends where a function should be".to_owned(),
            Some(found) => format!("there is no function {found} of running_stats and total_stats"),
        };
        let names = RunningKind::NAMES.map(|(name, _)| name);
        return Err(cursor.error_at(position, &names, message));
    };
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
        format!("{}({})", self.kind.name(), write_fields(&self.fields))
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

/// Bytes of rows that are handed on at a time, unless one row has more.
const BLOCK_BYTES_MAX: usize = 4 << 20;

type Groups = HashMap<Box<[u8]>, Vec<(Option<i64>, MadeRow)>, foldhash::fast::RandomState>;

/// The running pipe.
struct RunningRows {
    pipe: RunningStats,
    carried: Vec<String>,
    /// Rows with their times, by group.
    groups: Groups,
    scratch: Scratch,
}

impl RunningRows {
    fn new(pipe: &RunningStats, carried: &[String]) -> RunningRows {
        RunningRows {
            pipe: pipe.clone(),
            carried: carried.to_vec(),
            groups: Groups::default(),
            scratch: Scratch::default(),
        }
    }
}

/// The functions, run over one group after the other.
struct Functions {
    states: Vec<(Arc<str>, Box<dyn States>)>,
    group: u32,
    scratch: Scratch,
    text: Vec<u8>,
}

impl Functions {
    fn new(pipe: &RunningStats) -> Functions {
        let of = |f: &RunningFunction| (f.name.as_str().into(), f.kind.states(&f.fields));
        Functions {
            states: pipe.functions.iter().map(of).collect(),
            group: 0,
            scratch: Scratch::default(),
            text: Vec::new(),
        }
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

    /// Sets the present results in a row.
    fn write_results(&mut self, row: &mut MadeRow, meter: &mut Meter) -> Result<(), RunError> {
        for (name, states) in &mut self.states {
            self.text.clear();
            if states.text_bytes(self.group) <= VALUE_BYTES_MAX {
                states.write(self.group, None, &mut self.text);
            }
            if self.text.len().max(states.text_bytes(self.group)) > VALUE_BYTES_MAX {
                return Err(RunError::ValueLimit(VALUE_BYTES_MAX));
            }
            row.set_counted(name, &self.text, meter)?;
        }
        Ok(())
    }
}

impl Processor for RunningRows {
    fn push(&mut self, block: Block, next: &mut Next<'_, '_>) -> Result<ControlFlow<()>, RunError> {
        let by: Vec<Column<'_>> = self.pipe.by.iter().map(|name| block.column(name)).collect();
        let time = block.column(TIME);
        let mut key = Buffer::default();
        for row in 0..block.len() {
            if row % CHECK_ROWS == CHECK_ROWS - 1 {
                next.check()?;
            }
            key.clear(next.meter());
            for &column in &by {
                let value = block.value(column, row, &mut self.scratch);
                tuples::put_part(value, &mut key, next.meter())?;
            }
            let time_ns = block.time_ns(time, row, &mut self.scratch);
            let row = block.copy_row(row, &self.carried, &mut self.scratch, next.meter())?;
            let bytes = size_of::<(Option<i64>, MadeRow)>();
            match self.groups.get_mut(key.bytes()) {
                Some(rows) => {
                    next.meter().take(bytes)?;
                    rows.push((time_ns, row));
                }
                None => {
                    next.meter().take(bytes + key.bytes().len() + tuples::ENTRY_BYTES)?;
                    self.groups.insert(key.bytes().into(), vec![(time_ns, row)]);
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn finish(&mut self, next: &mut Next<'_, '_>) -> Result<(), RunError> {
        let mut groups: Vec<_> = std::mem::take(&mut self.groups).into_iter().collect();
        groups.sort_unstable_by(|a, b| compare_groups(&a.0, &b.0));
        let mut functions = Functions::new(&self.pipe);
        let (mut out, mut held, mut held_now) = (Vec::new(), 0_usize, 0_usize);
        for (number, (_, mut rows)) in groups.into_iter().enumerate() {
            next.check()?;
            functions.begin(number, next.meter())?;
            rows.sort_by_key(|(time_ns, _)| (time_ns.is_none(), *time_ns));
            if self.pipe.is_total {
                for (place, (_, row)) in rows.iter_mut().enumerate() {
                    if place % CHECK_ROWS == CHECK_ROWS - 1 {
                        next.check()?;
                    }
                    *row = functions.add(std::mem::take(row), next.meter())?;
                }
            }
            for (_, mut row) in rows {
                held += row.memory_bytes() + size_of::<(Option<i64>, MadeRow)>();
                if !self.pipe.is_total {
                    row = functions.add(row, next.meter())?;
                }
                let before = row.memory_bytes();
                functions.write_results(&mut row, next.meter())?;
                held += row.memory_bytes().saturating_sub(before);
                held_now = held_now.saturating_add(row.memory_bytes());
                out.push(row);
                if out.len() == BLOCK_ROWS_MAX || held_now > BLOCK_BYTES_MAX {
                    held_now = 0;
                    let flow = next.push(Block::Made(std::mem::take(&mut out)))?;
                    next.meter().give_back(std::mem::take(&mut held));
                    if flow.is_break() {
                        return Ok(());
                    }
                    next.check()?;
                }
            }
        }
        let _ = next.push(Block::Made(out))?;
        next.meter().give_back(held);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{check_pipe, record};
    use crate::{Context, Limits, Query, RunError};

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
            let result =
                crate::run(&query, &source, &context, &mut |_| std::ops::ControlFlow::Continue(()));
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
