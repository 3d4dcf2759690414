//! Measures how fast queries read lines in memory: `loginson-bench scan_speed`.
//!
//! About a million syslog-like lines are made once. Each query runs a few times; the median is
//! reported. A wrong count fails the measurement. The lower bound to compare with is counting
//! newlines with memchr over the same bytes.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use query::source::{ScanUnit, Source, SourceError, TimeRange, Whose};
use query::{Context, Query, Scratch, run};
use record::{Batch, BatchBuilder, Format, FrameBuilder, LineId, Origin, Transport};

const ROWS: usize = 1_000_000;
const RUNS: usize = 5;

struct Memory(Vec<Arc<Batch>>);
struct Unit(Arc<Batch>);

impl Source for Memory {
    fn units(
        &self,
        _range: TimeRange,
        _whose: Whose,
    ) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
        Ok(self.0.iter().map(|b| -> Box<dyn ScanUnit> { Box::new(Unit(b.clone())) }).collect())
    }
    fn find(&self, _id: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
        Ok(None)
    }
}

impl ScanUnit for Unit {
    fn time_range_ns(&self) -> Option<(i64, i64)> {
        Some(self.0.time_range_ns())
    }
    fn lines(&self) -> u64 {
        self.0.len() as u64
    }
    fn bytes(&self) -> u64 {
        frame_of(&self.0).payload().len() as u64
    }
    fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
        Ok(Some(self.0.clone()))
    }
}

pub(crate) fn main() {
    let source = Memory(batches());
    let bytes: usize = source.0.iter().map(|b| frame_of(b).payload().len()).sum();
    println!("{ROWS} rows, {:.1} MB of raw lines, {} batches", bytes as f64 / 1e6, source.0.len());
    report("memchr: newlines", bytes, || {
        source.0.iter().map(|b| memchr::memchr_iter(b'\n', frame_of(b).payload()).count()).sum()
    });
    let queries = [
        ("* | count()", ROWS),
        ("error | count()", ROWS / 16),
        ("absentword | count()", 0),
        ("hostname:=web7 | count()", 31_251),
        ("_msg:~\"session [0-9]+ of user u7\\\\b\" | count()", ROWS / 100),
        ("* | stats by (app_name) count()", 8),
        ("* | stats by (app_name, level) count()", 9),
        ("* | stats by (_time:1m) count()", 17),
        ("* | stats by (app_name) count_uniq(hostname), quantile(0.9, took)", 8),
        ("* | patterns", 2),
        ("error | limit 1000", 1_000),
    ];
    for (text, expected) in queries {
        let query = Query::parse(text, 0).expect("a query");
        let counts = text.ends_with("| count()");
        let found = report(text, bytes, || answer(&query, &source, counts));
        assert_eq!(found, expected, "{text}");
    }
    // The newest rows, as the user interface reads them.
    let query = Query::parse("error", 0).expect("a query");
    let context = Context { limit: Some(1_000), ..Context::default() };
    let started = Instant::now();
    let outcome = run(&query, &source, &context, &mut |_| ControlFlow::Continue(())).expect("runs");
    let lines = outcome.lines_scanned;
    println!(
        "error, newest 1000: {:.2} ms, {lines} lines read",
        started.elapsed().as_secs_f64() * 1e3
    );
}

/// The count of a query that ends in one, else the number of its rows.
fn answer(query: &Query, source: &Memory, counts: bool) -> usize {
    let (mut rows, mut count) = (0, 0);
    run(query, source, &Context::default(), &mut |block| {
        rows += block.len();
        if counts {
            let mut scratch = Scratch::default();
            let text = block.get(0, "count(*)", &mut scratch);
            count = std::str::from_utf8(text).expect("digits").parse().expect("digits");
        }
        ControlFlow::Continue(())
    })
    .expect("runs");
    if counts { count } else { rows }
}

fn report(what: &str, bytes: usize, mut work: impl FnMut() -> usize) -> usize {
    let mut found = 0;
    let mut times: Vec<Duration> = (0..RUNS)
        .map(|_| {
            let started = Instant::now();
            found = work();
            started.elapsed()
        })
        .collect();
    times.sort();
    let seconds = times[RUNS / 2].as_secs_f64();
    let (million_rows, gigabytes) = (ROWS as f64 / seconds / 1e6, bytes as f64 / seconds / 1e9);
    println!("{what}: {:.2} ms, {million_rows:.1} M rows/s, {gigabytes:.2} GB/s", seconds * 1e3);
    found
}

fn batches() -> Vec<Arc<Batch>> {
    let origin = Origin::new(Transport::SyslogTcp, Format::Syslog, None);
    let mut batches = Vec::new();
    let (mut frame, mut parts) = (FrameBuilder::new(), Vec::new());
    for i in 0..ROWS {
        let level = if i % 16 == 3 { "error" } else { "info" };
        let fields = [
            ("type", "syslog".to_owned()),
            ("hostname", format!("web{}", i / 3 % 32)),
            ("app_name", format!("app{}", i % 8)),
            ("level", level.to_owned()),
            ("proc_id", (1_000 + i % 5_000).to_string()),
            ("took", format!("{}ms", i % 977)),
            (
                "_msg",
                format!(
                    "{level}: request {i} in session {} of user u{} took a while to be answered by the backend",
                    i * 7,
                    i % 100
                ),
            ),
        ];
        let line = fields.iter().map(|(_, v)| v.as_str()).collect::<Vec<_>>().join(" ");
        frame.push_line(&origin, i as i64, line.as_bytes(), false);
        parts.push(fields);
        if frame.is_full() || i + 1 == ROWS {
            let sequence = batches.len() as u64 + 1;
            batches.push(batch(&mut frame, &parts, sequence, i + 1 - parts.len()));
            parts.clear();
        }
    }
    batches
}

/// A batch whose fields are the words of the line, made without the parser.
fn batch(
    frame: &mut FrameBuilder,
    parts: &[[(&'static str, String); 7]],
    sequence: u64,
    first: usize,
) -> Arc<Batch> {
    let frame = Arc::new(frame.finish(1, sequence).expect("has lines"));
    let mut builder = BatchBuilder::new(frame.clone());
    for ((line, fields), row) in frame.lines().zip(parts).zip(first..) {
        builder.begin_row(&line);
        builder.set_time(row as i64 * 1_000_000);
        let mut at = 0;
        for (name, value) in fields {
            let id = builder.field_id(name).expect("few names");
            builder.push_slice(id, at, value.len());
            at += value.len() + 1;
        }
        builder.end_row();
    }
    Arc::new(builder.finish())
}

fn frame_of(batch: &Batch) -> &record::Frame {
    batch.frame().expect("it was parsed from a frame")
}
