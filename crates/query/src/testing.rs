//! A source of records for tests: records set their fields directly, without a parser.

mod columns;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use record::{Batch, BatchBuilder, Format, FrameBuilder, LineId, Origin, Tenant, Transport};

use columns::BatchColumns;

use crate::base::{
    DamagedUnit, Hold, Outcome, Pauses, Phrase, Phrases, RunError, SourceError, TimeRange, Whose,
};
use crate::exec::delivery::RowDelivery;
use crate::exec::task::{ExecutionContext, QueryThread, Task};
use crate::lang::context::Context;
use crate::lang::pipe::Next;
use crate::lang::source::{
    Answers, ChooseLines, EachCount, Grouped, ScanUnit, SomeLines, Source, UnitKey, WithColumns,
};
use crate::plan::Order;
use crate::{Query, ResultRows, Scratch};

/// A record: event time and fields.
pub(crate) type Record = (i64, Vec<(String, Vec<u8>)>);

pub(crate) fn record(time_ns: i64, fields: &[(&str, &str)]) -> Record {
    (time_ns, fields.iter().map(|(n, v)| (n.to_string(), v.as_bytes().to_vec())).collect())
}

/// A batch of records; each line is the `_msg` of its record, and behind it what else is a part of
/// a line in any format.
pub(crate) fn batch(sequence: u64, records: &[Record]) -> Arc<Batch> {
    batch_of(Transport::Http, sequence, records)
}

/// As [`batch`], for lines that came by this transport.
pub(crate) fn batch_of(transport: Transport, sequence: u64, records: &[Record]) -> Arc<Batch> {
    let mut frame = FrameBuilder::new();
    let origin = Origin::new(transport, Format::Auto, None);
    for (_, fields) in records {
        let msg = fields.iter().find(|(n, _)| n == "_msg").map_or(&b""[..], |(_, v)| v);
        let is_part = |name: &str| ["hostname", "app_name", "proc_id"].contains(&name);
        let parts = fields.iter().filter(|(name, _)| is_part(name));
        let line: Vec<u8> =
            parts.fold(msg.to_vec(), |line, (_, value)| [&line[..], b" ", value].concat());
        frame.push_line(&origin, 1, &line, false);
    }
    let frame = Arc::new(frame.finish(1, sequence).expect("there are records"));
    let mut builder = BatchBuilder::new(frame.clone());
    for (line, (time_ns, fields)) in frame.lines().zip(records) {
        builder.begin_row(&line);
        builder.set_time(*time_ns);
        for (name, value) in fields {
            let id = builder.field_id(name).expect("few names");
            if name == "_msg" {
                builder.push_slice(id, 0, value.len());
            } else {
                builder.push_made(id, value);
            }
        }
        builder.end_row();
    }
    Arc::new(builder.finish())
}

/// A source over batches; `known` selects whether units report their time range.
#[derive(Debug)]
pub(crate) struct Memory {
    pub batches: Vec<Arc<Batch>>,
    pub known: bool,
    /// Number of batches per segment, which keeps counts; none: no segments.
    pub segment_batches: Option<usize>,
    /// Form of the columns by which units are read; none: no columns. Units in segments also cache
    /// answers.
    pub columns: Option<usize>,
    pub answers: Answers,
    /// Index of a batch that cannot be read, and whether this was noticed.
    pub damaged: Option<(usize, Arc<AtomicBool>)>,
}

impl Memory {
    pub fn new(batches: Vec<Arc<Batch>>) -> Memory {
        Memory {
            batches,
            known: true,
            segment_batches: None,
            columns: None,
            answers: Answers::new(4_096),
            damaged: None,
        }
    }

    /// One batch of records.
    pub fn of(records: &[Record]) -> Memory {
        Memory::new(vec![batch(1, records)])
    }
}

struct Unit {
    batch: Arc<Batch>,
    known: bool,
    columns: Option<usize>,
    key: Option<UnitKey>,
    /// Number of the segment, and its batches.
    segment: Option<(u64, Vec<Arc<Batch>>)>,
    /// Of a unit that cannot be read: its index, and whether this was noticed.
    damaged: Option<(usize, Arc<AtomicBool>)>,
}

impl Unit {
    fn check(&self) -> Result<(), SourceError> {
        let Some((place, noticed)) = &self.damaged else { return Ok(()) };
        noticed.store(true, Relaxed);
        Err(SourceError(format!("unit {place} is damaged")))
    }
}

impl Source for Memory {
    fn units(
        &self,
        _range: TimeRange,
        whose: Whose,
    ) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
        let unit = |(place, batch): (usize, &Arc<Batch>)| -> Box<dyn ScanUnit> {
            let segment = self.segment_batches.map(|count| {
                let segment = place / count;
                let batches = self.batches.chunks(count).nth(segment).expect("it is in one");
                (segment as u64, batches.to_vec())
            });
            let columns = self.columns.map(|form| form + place);
            let key = segment.is_some().then_some((0, place as u32));
            let damaged = self.damaged.clone().filter(|(at, _)| *at == place);
            let batch = batch.clone();
            Box::new(Unit { batch, known: self.known, columns, key, segment, damaged })
        };
        let batches = self.batches.iter().enumerate();
        let seen = batches.filter(|(_, batch)| whose == Whose::All || !batch.is_internal());
        Ok(seen.map(unit).collect())
    }

    fn answers(&self) -> Option<&Answers> {
        Some(&self.answers)
    }

    fn find(&self, id: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
        let found = |b: &&Arc<Batch>| b.rows().any(|row| row.id() == id);
        Ok(self.batches.iter().find(found).cloned())
    }
}

impl ScanUnit for Unit {
    fn time_range_ns(&self) -> Option<(i64, i64)> {
        self.known.then(|| self.batch.time_range_ns())
    }

    fn lines(&self) -> u64 {
        self.batch.len() as u64
    }

    fn bytes(&self) -> u64 {
        self.batch.raw_bytes()
    }

    fn damage(&self) -> Option<DamagedUnit> {
        let (place, _) = self.damaged.as_ref().filter(|(_, noticed)| noticed.load(Relaxed))?;
        let (segment, lines) = (self.segment()?.0, self.lines());
        Some(DamagedUnit { segment, unit: Some(*place as u32), lines, error: "a flip".into() })
    }

    fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
        self.check()?;
        Ok(Some(self.batch.clone()))
    }

    fn load_lines(&self, choose: ChooseLines<'_>) -> Result<Option<SomeLines>, SourceError> {
        self.check()?;
        let rows = self.batch.frame().and_then(|frame| choose(frame));
        Ok(rows.map(|rows| SomeLines { batch: self.batch.clone(), rows }))
    }

    fn tenant(&self) -> Option<Tenant> {
        self.columns?;
        let of = |row: record::Row<'_>| {
            self.batch.origins()[usize::from(row.origin_index())].hints.tenant
        };
        let first = of(self.batch.rows().next()?);
        self.batch.rows().all(|row| of(row) == first).then_some(first)
    }

    /// Gives exact answers, so that as many tests as possible are ruled out.
    fn may_hold(&self, phrases: &Phrases) -> Result<Option<Vec<bool>>, SourceError> {
        if self.columns.is_none() {
            return Ok(None);
        }
        let holds = |phrase: &Phrase| {
            let finder = memchr::memmem::Finder::new(&phrase.text);
            self.batch.rows().any(|row| row.fields().any(|(_, v)| finder.find(v).is_some()))
        };
        Ok(Some(phrases.all().iter().map(holds).collect()))
    }

    fn with_columns(&self, with: WithColumns<'_>) -> Result<bool, SourceError> {
        let Some(form) = self.columns else { return Ok(false) };
        self.check()?;
        with(&BatchColumns::new(&self.batch, form))?;
        Ok(true)
    }

    fn key(&self) -> Option<UnitKey> {
        self.key
    }

    fn segment(&self) -> Option<(u64, usize)> {
        self.segment.as_ref().map(|(number, batches)| (*number, batches.len()))
    }

    fn count_segment(
        &self,
        grouped: Grouped<'_>,
        each: EachCount<'_>,
    ) -> Result<bool, SourceError> {
        let (_, batches) = self.segment.as_ref().expect("it is in one");
        let sent = batches.iter().filter(|batch| !batch.is_internal());
        let rows = sent.flat_map(|batch| batch.rows());
        for row in rows.filter(|row| grouped.range.contains(row.time_ns())) {
            let value = |name: &&str| row.get_by_name(name).unwrap_or_default();
            let values: Vec<&[u8]> = grouped.fields.iter().map(value).collect();
            each(row.time_ns(), &values, 1);
        }
        Ok(true)
    }
}

/// A row as names and values.
pub(crate) type Shown = Vec<(String, String)>;

/// Runs a query and collects its rows.
pub(crate) fn collect(
    query: &Query,
    source: &dyn Source,
    context: &Context,
) -> (Vec<Shown>, Result<Outcome, RunError>) {
    let mut rows = Vec::new();
    let mut scratch = Scratch::default();
    let outcome = crate::dist::run(query, source, context, &mut |block| {
        for i in 0..block.len() {
            let mut row = Vec::new();
            block.visit(i, &mut scratch, |name, value| {
                row.push((name.to_owned(), String::from_utf8_lossy(value).into_owned()));
            });
            rows.push(row);
        }
        ControlFlow::Continue(())
    });
    (rows, outcome)
}

/// A context that cancels its query at the check of this number, and the number of checks so far.
pub(crate) fn cancelled_at(check: usize) -> (Context, Arc<AtomicUsize>) {
    let checks = Arc::new(AtomicUsize::new(0));
    let (pauses, seen) = (Arc::new(Pauses::default()), Arc::clone(&checks));
    pauses.request();
    // A paused query calls this at each of its checks.
    let hold = Hold::new(
        &pauses,
        Arc::new(move |cancelled| {
            if seen.fetch_add(1, Relaxed) + 1 >= check {
                cancelled.store(true, Relaxed);
            }
        }),
    );
    (Context { hold, ..Context::default() }, checks)
}

/// The rows of a query over records, each as `name=value` pairs joined by spaces, without `_time`
/// and `_stream` unless `all`.
pub(crate) fn rows_of(text: &str, records: &[Record]) -> Vec<String> {
    let query = Query::parse(text, 0).unwrap_or_else(|e| panic!("{e}"));
    let (rows, outcome) = collect(&query, &Memory::of(records), &Context::default());
    outcome.unwrap();
    let show = |row: &Shown| {
        let shown = row.iter().filter(|(name, _)| name != "_time" && name != "_stream");
        shown.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    };
    rows.iter().map(show).collect()
}

/// Checks the rows that pipes make of records.
pub(crate) fn check_pipe(records: &[Record], pipes: &str, expected: &[&str]) {
    assert_eq!(rows_of(&format!("* | {pipes}"), records), expected, "{pipes}");
}

/// Calls `with` with the stages behind a last pipe, for tests of single pipes.
pub(crate) fn with_next<T>(with: impl FnOnce(&mut Next<'_>) -> T) -> (T, Vec<ResultRows>) {
    let mut sent = Vec::new();
    let (context, nothing) = (Context::default(), Memory::new(Vec::new()));
    let result = {
        let mut out = |rows| {
            sent.push(rows);
            ControlFlow::Continue(())
        };
        let execution = ExecutionContext::new(&nothing, &context, |_, _, _, _| {
            unreachable!("there is no query inside")
        });
        let (range, outcome) = (context.range, Outcome::default());
        let mut delivery = RowDelivery::new(&Order::Stream, &execution, &mut out);
        let task = Task { execution, range, whose: Whose::Sent, outcome };
        with(&mut QueryThread::new(Vec::new(), task).chain(Some(&mut delivery)))
    };
    (result, sent)
}
