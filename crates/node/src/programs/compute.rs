//! Computes buckets: reads their lines from the store and runs the program on them.
//!
//! Lines come in about the order of time: unit by unit, the oldest first, each in the order of its
//! lines. A program in AWK is one process for each bucket that has lines; those of one call are
//! open together, so that lines that are stored together are read once.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use platform::memory::{Budget, Purpose};
use programs::summary::SUMMARY_TYPE;
use programs::{
    BucketOutcome, BucketRun, InputBlock, Interpreter, Language, Launcher, Limits, NoInterpreter,
    ProgramError, Rejected, Row, RowError, RunSpec, Usage, Variable,
};
use query::source::{ScanUnit, Source, SourceError, TimeRange, Whose};
use query::{Account, Context, Filter, Query, ResultRows, RunError, Scratch};
use record::{Batch, LineId, RowsWriter, read_rows};
use text::quoted::quote;

use super::compiled::{Compiled, columns};
use super::gone::Gone;
use super::trial::SampleUnit;
use crate::cluster::QueriedLines;

/// Buckets that are computed in one call, each with an open process.
///
/// limits.md, Programs of users: buckets of a program that are computed at a time | {}, each with a
/// process | they wait
pub const BUCKETS_MAX: i64 = 8;
/// Buckets of a query whose lines are read at once; more lines, or more bytes of them, are read
/// bucket by bucket. A bucket with many lines is computed from columns, which is faster.
///
/// limits.md, Programs of users: buckets of a LogsQL program whose lines a run over the past reads
/// at once | {}, with {TOGETHER_LINES_MAX} lines | further ones are read behind them
pub const TOGETHER_MAX: usize = 1_024;
/// Most lines of these buckets.
pub const TOGETHER_LINES_MAX: u64 = 32_768;
/// Most bytes of these lines.
const TOGETHER_BYTES_MAX: usize = 16 << 20;
/// Bytes of lines that wait for a process before they are written to its pipe.
const FEED_BYTES: usize = 128 << 10;
/// Time for reading the lines of one call. Beyond it the buckets are tried again later.
const READ_TIME_MAX: Duration = Duration::from_secs(600);
/// How long a process is waited for before the run looks whether it is cancelled.
const PATIENCE: Duration = Duration::from_millis(100);
const SECOND_NS: i64 = 1_000_000_000;

/// Runs programs on lines of the store.
pub struct Engine {
    lines: QueriedLines,
    memory: Arc<Budget>,
    launcher: Arc<Launcher>,
    /// The AWK of this machine.
    pub interpreter: Result<Interpreter, NoInterpreter>,
    limits: Limits,
    query_limits: query::Limits,
}

impl Engine {
    /// An engine over `lines`. `limits` are those of each process.
    pub fn new(
        lines: QueriedLines,
        memory: Arc<Budget>,
        launcher: Arc<Launcher>,
        interpreter: Result<Interpreter, NoInterpreter>,
        limits: Limits,
        query_limits: query::Limits,
    ) -> Engine {
        Engine { lines, memory, launcher, interpreter, limits, query_limits }
    }

    /// The lines, for one query.
    pub fn source(&self) -> Box<dyn Source> {
        self.lines.source(None)
    }

    /// The thread that starts processes.
    pub fn launcher(&self) -> &Arc<Launcher> {
        &self.launcher
    }

    /// A program with its interpreter and limits; `None` where there is no interpreter.
    pub fn spec(&self, compiled: &Compiled, variables: Vec<Variable>) -> Option<RunSpec> {
        Some(RunSpec {
            interpreter: self.interpreter.as_ref().ok()?.clone(),
            definition: compiled.definition.clone(),
            limits: self.limits.clone(),
            variables,
        })
    }

    /// A context for reading; `cancelled` ends it.
    pub fn context(&self, range: TimeRange, cancelled: &Arc<AtomicBool>) -> Context {
        Context {
            range,
            oldest_first: true,
            limits: query::Limits {
                run_time: READ_TIME_MAX,
                rows_max: u64::MAX,
                threads: 1,
                ..self.query_limits
            },
            account: Account::new(&self.memory, Purpose::Query),
            cancelled: Arc::clone(cancelled),
            // Operators save programs, and may not read the audit log.
            restriction: Arc::new(Filter::without_audit()).into(),
            ..Context::default()
        }
    }

    /// Computes the buckets from `start` to before `end`, at most [`BUCKETS_MAX`]. A bucket without
    /// lines gives no outcome, but for a single one in LogsQL. Errors are those of reading; then
    /// there are none.
    pub fn compute(
        &self,
        compiled: &Compiled,
        (start, end): (i64, i64),
        cancelled: &Arc<AtomicBool>,
    ) -> Result<Vec<(i64, BucketOutcome)>, RunError> {
        let buckets = compiled.buckets();
        let range = |start, end| TimeRange {
            start_ns: buckets.start_ns(start),
            end_ns: buckets.start_ns(end),
        };
        match compiled.definition.language {
            Language::Awk => self.run_awk(compiled, &self.context(range(start, end), cancelled)),
            Language::LogsQl => {
                let context = |range| self.context(range, cancelled);
                run_each(compiled, &*self.source(), &context, (start, end))
            }
        }
    }

    /// The buckets from `start` to before `end` that have rows of lines of which some may be gone:
    /// computed again from what is left, these rows would be replaced by lesser ones. Rows of a
    /// bucket that was not over do not stay. Only known of the lines of this node.
    pub fn rows_that_stay(
        &self,
        compiled: &Compiled,
        (start, end): (i64, i64),
        now_ns: i64,
        cancelled: &Arc<AtomicBool>,
    ) -> Result<BTreeSet<i64>, RunError> {
        let mut stay = BTreeSet::new();
        let QueriedLines::Own(stored) = &self.lines else { return Ok(stay) };
        let gone = Gone::of(stored.store());
        let (buckets, definition) = (compiled.buckets(), &compiled.definition);
        let start_ns = buckets.start_ns(start);
        // Rows are not older than their bucket, and lines come about a width before them.
        let before = |time_ns: i64| time_ns.saturating_sub(buckets.width_ns);
        if !gone.may_have_taken(before(start_ns), start_ns, now_ns) {
            return Ok(stay);
        }
        let stats = format!(
            "options(all_revisions=true) _type:={} program:={} bucket_s:={} \
             -partial:true | stats by (_time) min(revision) earliest, max(revision) latest",
            quote(SUMMARY_TYPE),
            quote(&definition.name),
            definition.width_s
        );
        let query = Query::parse(&stats, 0).map_err(|error| RunError::Failed(error.message))?;
        let range = TimeRange { start_ns, end_ns: buckets.start_ns(end) };
        let context = self.context(range, cancelled);
        let mut scratch = Scratch::default();
        query::run(&query, &*self.source(), &context, &mut |rows| {
            for index in 0..rows.len() {
                let time_ns = text::time::parse_timestamp(rows.get(index, "_time", &mut scratch));
                let first_ns = revision_ns(rows.get(index, "earliest", &mut scratch));
                let last_ns = revision_ns(rows.get(index, "latest", &mut scratch));
                let (Some(time), Some(first), Some(last)) = (time_ns, first_ns, last_ns) else {
                    continue;
                };
                if gone.may_have_taken(before(first), last, now_ns) {
                    stay.insert(buckets.at(time));
                }
            }
            ControlFlow::Continue(())
        })?;
        Ok(stay)
    }

    /// Computes these buckets, which ascend and have few lines, by the query of a program. Blocks
    /// that hold lines of several buckets are read once, and not once for each bucket. Errors are
    /// those of reading.
    pub fn compute_together(
        &self,
        compiled: &Compiled,
        buckets: &[i64],
        cancelled: &Arc<AtomicBool>,
    ) -> Result<Vec<(i64, BucketOutcome)>, RunError> {
        let context = |range| self.context(range, cancelled);
        run_together(compiled, &*self.source(), &context, buckets)
    }

    fn run_awk(
        &self,
        compiled: &Compiled,
        context: &Context,
    ) -> Result<Vec<(i64, BucketOutcome)>, RunError> {
        let buckets = compiled.buckets();
        let mut open: BTreeMap<i64, OpenBucket> = BTreeMap::new();
        let mut scratch = Scratch::default();
        let mut push = |rows: ResultRows| {
            for index in 0..rows.len() {
                if let Some((batch, row)) = rows.line(index) {
                    let bucket = buckets.at(batch.row(row as usize).time_ns());
                    let start_ns = buckets.start_ns(bucket);
                    let open = (open.entry(bucket))
                        .or_insert_with(|| OpenBucket::start(self, compiled, start_ns));
                    open.lines.push(index);
                }
            }
            let names = columns(&compiled.definition);
            for open in open.values_mut() {
                open.take(&rows, names, &mut scratch, &context.cancelled);
            }
            ControlFlow::Continue(())
        };
        query::run(&compiled.query, &*self.source(), context, &mut push)?;
        // All inputs end first, so that the programs print at the same time.
        open.values_mut().for_each(|open| open.close(&context.cancelled));
        let finished = open.into_iter().map(|(bucket, open)| {
            let outcome = open.finish(&context.cancelled).ok_or(RunError::Cancelled);
            outcome.map(|outcome| (bucket, outcome))
        });
        finished.collect()
    }
}

/// When rows of a revision were computed, nanoseconds since 1970 UTC: revisions are microseconds.
fn revision_ns(text: &[u8]) -> Option<i64> {
    let revision: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some((revision as i64).saturating_mul(1_000))
}

/// A bucket whose lines are being read, and its process.
struct OpenBucket {
    run: Result<BucketRun, ProgramError>,
    block: InputBlock,
    /// Indexes of its lines in the rows that are being taken.
    lines: Vec<usize>,
}

impl OpenBucket {
    fn start(engine: &Engine, compiled: &Compiled, start_ns: i64) -> OpenBucket {
        let start_s = start_ns.div_euclid(SECOND_NS);
        let variable = |name: &str, value: String| Variable { name: name.to_owned(), value };
        let variables = vec![
            variable("BUCKET", start_s.to_string()),
            variable("BUCKET_S", compiled.definition.width_s.to_string()),
        ];
        let run = match (engine.spec(compiled, variables), &engine.interpreter) {
            (Some(spec), _) => BucketRun::start(&engine.launcher, &spec),
            (None, error) => Err(ProgramError::Start {
                message: error.as_ref().err().map(ToString::to_string).unwrap_or_default(),
            }),
        };
        OpenBucket { run, block: InputBlock::new(), lines: Vec::new() }
    }

    /// Takes over the lines that are marked, and feeds the process when many wait.
    fn take(
        &mut self,
        rows: &ResultRows,
        names: Option<&[String]>,
        scratch: &mut Scratch,
        cancelled: &AtomicBool,
    ) {
        if self.run.is_ok() {
            match names {
                None => {
                    for line in self.lines.iter().filter_map(|index| rows.raw(*index)) {
                        self.block.push_raw(line);
                    }
                }
                Some(names) => {
                    let (block, names_count) = (&mut self.block, names.len());
                    let names = names.iter().map(String::as_str);
                    rows.visit_columns(&self.lines, names, scratch, |_, place, value| {
                        block.push_field(place == 0, value);
                        if place + 1 == names_count {
                            block.end_line();
                        }
                    });
                }
            }
        }
        self.lines.clear();
        if self.block.bytes() >= FEED_BYTES {
            self.feed(cancelled);
        }
    }

    /// Writes the waiting lines to the process; waits for it, but not when the run is cancelled.
    fn feed(&mut self, cancelled: &AtomicBool) {
        if let Ok(run) = &mut self.run {
            // A run that failed reports that again at its end.
            while !cancelled.load(Relaxed) && run.try_feed(&mut self.block, PATIENCE) == Ok(false) {
            }
        }
        self.block.clear();
    }

    fn close(&mut self, cancelled: &AtomicBool) {
        self.feed(cancelled);
        if let Ok(run) = &mut self.run {
            run.close_input();
        }
    }

    /// The outcome; none when the run was cancelled.
    fn finish(self, cancelled: &AtomicBool) -> Option<BucketOutcome> {
        let mut run = match self.run {
            Ok(run) => run,
            Err(error) => return Some(BucketOutcome::of(Err(error))),
        };
        while !run.poll(PATIENCE) {
            if cancelled.load(Relaxed) {
                return None;
            }
        }
        Some(run.finish())
    }
}

/// Runs a query on the lines of one bucket.
pub fn run_query(
    compiled: &Compiled,
    source: &dyn Source,
    context: &Context,
) -> Result<BucketOutcome, RunError> {
    let (mut made, mut rejected) = (Vec::new(), Rejected::default());
    let limits = Limits::default().output;
    let mut scratch = Scratch::default();
    let outcome = query::run(&compiled.query, source, context, &mut |rows| {
        for index in 0..rows.len() {
            let mut fields: Vec<(String, String)> = Vec::new();
            rows.visit(index, &mut scratch, |name, value| {
                fields.push((name.to_owned(), String::from_utf8_lossy(value).into_owned()));
            });
            let pairs = fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            match Row::from_text(pairs, limits.fields_max) {
                Ok(row) => made.push(row),
                Err(problem) => {
                    rejected.lines += 1;
                    if rejected.first.len() < REJECTED_KEPT {
                        let line: Vec<String> =
                            fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
                        rejected.first.push(RowError {
                            line_number: made.len() as u64 + rejected.lines,
                            line: line.join(" ").chars().take(REJECTED_CHARS_MAX).collect(),
                            problem,
                        });
                    }
                }
            }
        }
        match made.len() as u64 > limits.rows_max {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    let rows = if made.len() as u64 > limits.rows_max {
        Err(ProgramError::Output(programs::OutputError::Rows { rows_max: limits.rows_max }))
    } else {
        Ok(made)
    };
    let usage = Usage { lines: outcome.lines_scanned, ..Usage::default() };
    Ok(BucketOutcome { rejected, usage, ..BucketOutcome::of(rows) })
}

/// Runs the query of a program on each of the buckets from `start` to before `end`, of several only
/// on those with lines. Buckets that are computed because ranges of pending ones were joined may
/// have none: a query would count zero lines there, and they may be millions.
fn run_each(
    compiled: &Compiled,
    source: &dyn Source,
    context: &dyn Fn(TimeRange) -> Context,
    (start, end): (i64, i64),
) -> Result<Vec<(i64, BucketOutcome)>, RunError> {
    let buckets = compiled.buckets();
    let range = |start: i64, end: i64| TimeRange {
        start_ns: buckets.start_ns(start),
        end_ns: buckets.start_ns(end),
    };
    let with_lines = match end.saturating_sub(start) > 1 {
        true => Some(buckets_with_lines(compiled, source, &context(range(start, end)))?),
        false => None,
    };
    let has_lines =
        |bucket: &i64| with_lines.as_ref().is_none_or(|with_lines| with_lines.contains(bucket));
    let computed = (start..end).filter(has_lines).map(|bucket| {
        let context = context(range(bucket, bucket.saturating_add(1)));
        let outcome = run_query(compiled, source, &context);
        outcome.map(|outcome| (bucket, outcome))
    });
    computed.collect()
}

/// The buckets in the range of `context` with lines of the type of a program, whether its query
/// selects them or not: a query may count zero of them.
fn buckets_with_lines(
    compiled: &Compiled,
    source: &dyn Source,
    context: &Context,
) -> Result<BTreeSet<i64>, RunError> {
    let of_type = match &compiled.definition.log_type {
        Some(log_type) => format!("_type:={}", quote(log_type)),
        None => "*".to_owned(),
    };
    let width_s = compiled.definition.width_s;
    let stats = format!("{of_type} | stats by (_time:{width_s}s) count() lines");
    let query = Query::parse(&stats, 0).map_err(|error| RunError::Failed(error.message))?;
    let buckets = compiled.buckets();
    let mut found = BTreeSet::new();
    let mut scratch = Scratch::default();
    query::run(&query, source, context, &mut |rows| {
        for index in 0..rows.len() {
            let time_ns = text::time::parse_timestamp(rows.get(index, "_time", &mut scratch));
            found.extend(time_ns.map(|time_ns| buckets.at(time_ns)));
        }
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// Runs the query of a program on each of these buckets, which ascend. Their lines are read once.
/// A query that reads more than its own lines, such as those of another query inside it, reads the
/// source for each bucket, as does one whose lines are too large to be held.
fn run_together(
    compiled: &Compiled,
    source: &dyn Source,
    context: &dyn Fn(TimeRange) -> Context,
    buckets: &[i64],
) -> Result<Vec<(i64, BucketOutcome)>, RunError> {
    let all = compiled.buckets();
    let range = |first: i64, last: i64| TimeRange {
        start_ns: all.start_ns(first),
        end_ns: all.start_ns(last.saturating_add(1)),
    };
    let (Some(&first), Some(&last)) = (buckets.first(), buckets.last()) else {
        return Ok(Vec::new());
    };
    let mut lines = lines_by_bucket(compiled, source, &context(range(first, last)))?;
    let outcome = |&bucket: &i64| {
        let context = context(range(bucket, bucket));
        // A bucket without an entry has no lines.
        let own = lines.as_mut().map(|lines| lines.entry(bucket).or_default().take());
        if let Some(rows) = own {
            let batch = read_rows(&rows).map_err(|error| RunError::Failed(error.to_string()))?;
            let own = OwnLines { lines: Arc::new(batch), is_read: AtomicBool::new(false) };
            match run_query(compiled, &own, &context) {
                Err(RunError::Source(_)) => {}
                outcome => return outcome.map(|outcome| (bucket, outcome)),
            }
        }
        run_query(compiled, source, &context).map(|outcome| (bucket, outcome))
    };
    buckets.iter().map(outcome).collect()
}

/// The lines that the filter of a program selects, by their buckets; none if they are too large to
/// be held.
fn lines_by_bucket(
    compiled: &Compiled,
    source: &dyn Source,
    context: &Context,
) -> Result<Option<BTreeMap<i64, RowsWriter>>, RunError> {
    let filter = Query::new(compiled.query.filter().clone(), Vec::new());
    let filter = filter.with_options(compiled.query.options());
    let buckets = compiled.buckets();
    let mut lines: BTreeMap<i64, RowsWriter> = BTreeMap::new();
    let (mut bytes, mut fits) = (0, true);
    query::run(&filter, source, context, &mut |rows| {
        for index in 0..rows.len() {
            let Some((batch, row)) = rows.line(index) else {
                fits = false;
                break;
            };
            let row = batch.row(row as usize);
            let own = lines.entry(buckets.at(row.time_ns())).or_default();
            let before = own.bytes();
            fits &= own.push(batch, &row);
            bytes += own.bytes() - before;
        }
        fits &= bytes <= TOGETHER_BYTES_MAX;
        if fits { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(fits.then_some(lines))
}

/// The lines of one bucket, as a source that is read once.
struct OwnLines {
    lines: Arc<Batch>,
    is_read: AtomicBool,
}

impl Source for OwnLines {
    /// Errors: a query inside the query asks, too; its lines may be others.
    fn units(&self, _: TimeRange, _: Whose) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
        match self.is_read.swap(true, Relaxed) {
            false => Ok(vec![Box::new(SampleUnit(Arc::clone(&self.lines)))]),
            true => Err(SourceError("only the lines of one bucket are here".to_owned())),
        }
    }

    fn find(&self, _: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
        Err(SourceError("only the lines of one bucket are here".to_owned()))
    }
}

/// Rows of a query that cannot be stored, of which the text is kept.
const REJECTED_KEPT: usize = 10;
const REJECTED_CHARS_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use programs::Definition;
    use record::{Format, FrameBuilder, Origin, Parser, ParserConfig, Transport};

    use super::*;

    /// One block of lines, which counts how often it is asked for.
    struct Block {
        lines: Arc<Batch>,
        asked: AtomicUsize,
    }

    impl Source for Block {
        fn units(&self, _: TimeRange, _: Whose) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
            self.asked.fetch_add(1, Relaxed);
            Ok(vec![Box::new(SampleUnit(Arc::clone(&self.lines)))])
        }

        fn find(&self, _: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
            Ok(None)
        }
    }

    #[test]
    fn buckets_without_lines_have_no_rows() {
        let mut frame = FrameBuilder::new();
        let origin = Origin::new(Transport::Http, Format::Json, None);
        for second in [3, 4, 52] {
            let time_ns = (1_790_000_000 + second) * SECOND_NS;
            let line = format!(r#"{{"_time":"{}","_msg":"m"}}"#, text::time::format_time(time_ns));
            frame.push_line(&origin, time_ns, line.as_bytes(), false);
        }
        let frame = Arc::new(frame.finish(1, 1).unwrap());
        let batch = Parser::new(&ParserConfig::default()).unwrap().parse(frame);
        let block = Block { lines: Arc::new(batch), asked: AtomicUsize::new(0) };
        let context = |range| Context { range, oldest_first: true, ..Context::default() };
        let check = |text: &str, expected: &[(i64, &str)]| {
            let definition = Definition::parse_as("p", Language::LogsQl, text).unwrap();
            let compiled = Compiled::new(definition).unwrap();
            let first = compiled.buckets().at(1_790_000_000 * SECOND_NS);
            let found = run_each(&compiled, &block, &context, (first, first + BUCKETS_MAX));
            let shown = found.unwrap().into_iter().map(|(bucket, outcome)| {
                let mut rows = Vec::new();
                outcome.result.unwrap().iter().for_each(|row| row.write_json(&mut rows));
                (bucket - first, String::from_utf8(rows).unwrap())
            });
            let expected = expected.iter().map(|(bucket, row)| (*bucket, (*row).to_owned()));
            assert_eq!(shown.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{text}");
        };
        let all = "# bucket: 10s\n* | stats count() lines";
        check(all, &[(0, r#"{"lines":2}"#), (5, r#"{"lines":1}"#)]);
        check(&format!("# type: json\n{all}"), &[(0, r#"{"lines":2}"#), (5, r#"{"lines":1}"#)]);
        check(&format!("# type: access\n{all}"), &[]);
        // Lines that the query does not select are counted as none.
        let none = "# bucket: 10s\nother | stats count() lines";
        check(none, &[(0, r#"{"lines":0}"#), (5, r#"{"lines":0}"#)]);
    }

    #[test]
    fn buckets_with_few_lines_are_read_once() {
        let mut frame = FrameBuilder::new();
        let origin = Origin::new(Transport::Http, Format::Json, None);
        for n in 0..300 {
            let second = text::time::format_time((1_790_000_000 + n) * SECOND_NS);
            let line =
                format!(r#"{{"_time":"{second}","client":"c{}","bytes":{n},"_msg":"m"}}"#, n % 7);
            // A time long after the arrival would not be believed.
            let received_ns = (1_790_000_000 + 300) * SECOND_NS;
            frame.push_line(&origin, received_ns, line.as_bytes(), false);
        }
        let frame = Arc::new(frame.finish(1, 1).unwrap());
        let batch = Parser::new(&ParserConfig::default()).unwrap().parse(frame);
        let block = Block { lines: Arc::new(batch), asked: AtomicUsize::new(0) };
        let context = |range| Context { range, oldest_first: true, ..Context::default() };
        for (code, asked) in [
            ("* | stats by (client) count() n, sum(bytes) bytes", 1),
            ("bytes:>100 | stats by (client) count() n | sort by (client) | limit 2", 1),
            // The lines of a query inside are read from the source, so all are.
            ("client:in(bytes:<50 | fields client) | stats count() n", 1 + 2 * 31),
        ] {
            let text = format!("# bucket: 10s\n{code}");
            let definition = Definition::parse_as("p", Language::LogsQl, &text).unwrap();
            let compiled = Compiled::new(definition).unwrap();
            let all = compiled.buckets();
            let (oldest, newest) = block.lines.time_range_ns();
            let buckets: Vec<i64> = (all.at(oldest)..=all.at(newest)).collect();
            assert_eq!(buckets.len(), 30);
            block.asked.store(0, Relaxed);
            let found = run_together(&compiled, &block, &context, &buckets).unwrap();
            assert!(block.asked.load(Relaxed) <= asked, "{code}: {:?}", block.asked);
            for (bucket, outcome) in found {
                let range =
                    TimeRange { start_ns: all.start_ns(bucket), end_ns: all.start_ns(bucket + 1) };
                let alone = run_query(&compiled, &block, &context(range)).unwrap();
                assert_eq!(outcome.result.unwrap(), alone.result.unwrap(), "{code}");
            }
        }
    }
}
