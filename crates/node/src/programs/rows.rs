//! The stored rows of programs: as lines of JSON, and read back, the last revision of each bucket.
//!
//! ```json
//! {"_time":"2026-01-31T12:00:10Z","program":"access-status","bucket_s":10,"revision":1769860813000001,
//!  "row":0,"class":"2xx","lines":3,"_msg":"a row of program access-status"}
//! ```
//!
//! They are lines of type `summary`, in frames that Loginson made itself. All rows of a bucket and
//! revision are in one frame, so that there are all of them or none. Rows are never taken back: a
//! bucket that is computed again gets rows with a greater revision, which replace the earlier ones
//! when rows are read. A bucket without rows gets one line without `row`, which does the same.
//!
//! Rows of a run over a past interval carry its number as their revision and in `run`. They count
//! when the run is on the list of completed ones; from then on, they replace all rows of earlier
//! revisions in its interval ([`Completed`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;

use programs::summary::{Reruns, SUMMARY_TYPE};
use programs::{Row, is_reserved};
use query::source::{Revision, Revisions, Source, TimeRange};
use query::{Context, Query, RunError};
use record::{Format, Hints, Origin, Transport};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use text::json::write_text;
use text::quoted::quote;

use super::summary::reruns::KeptReruns;
use crate::cluster::Engines;
use crate::cluster::engines::Marks;
use crate::data_dir::PROGRAM_RUNS_FILE;

const SECOND_NS: i64 = 1_000_000_000;

/// A bucket of a program, and the revision of its rows.
#[derive(Clone, Copy, Debug)]
pub struct BucketOf<'a> {
    /// The program.
    pub program: &'a str,
    /// First instant, nanoseconds since 1970 UTC.
    pub start_ns: i64,
    /// Width, seconds.
    pub width_s: u32,
    /// Greater than those of earlier rows of the bucket.
    pub revision: u64,
    /// Whether the rows belong to a run over a past interval.
    pub is_of_run: bool,
    /// Whether the bucket was not over when it was computed, so that more lines of it may come.
    pub is_partial: bool,
}

/// A row that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRow {
    /// Start of the bucket, nanoseconds since 1970 UTC.
    pub time_ns: i64,
    /// Width of the bucket, seconds.
    pub width_s: u32,
    /// Revision of the bucket.
    pub revision: u64,
    /// Number of the row in the bucket.
    pub row: u64,
    /// Whether the bucket was not over when it was computed.
    pub is_partial: bool,
    /// The fields of the program, in its order.
    pub fields: Fields,
}

/// An object of JSON that keeps the order of its fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields(pub Vec<(String, serde_json::Value)>);

impl Fields {
    fn get(&self, name: &str) -> Option<&serde_json::Value> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value)
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

/// The origin of frames of rows.
pub fn origin() -> Origin {
    let hints = Hints { log_type: Some(SUMMARY_TYPE.to_owned()), ..Hints::default() };
    Origin { hints: Arc::new(hints), ..Origin::new(Transport::Internal, Format::Json, None) }
}

/// Appends the rows of a bucket as lines of JSON.
pub fn write_bucket(bucket: &BucketOf<'_>, rows: &[Row], out: &mut Vec<u8>) {
    let (mut head, mut message) = (Vec::new(), Vec::new());
    head.extend_from_slice(b"{\"_time\":\"");
    text::time::write_time(bucket.start_ns, &mut head);
    head.extend_from_slice(b"\",\"program\":");
    write_text(bucket.program.as_bytes(), &mut head);
    head.extend_from_slice(format!(",\"bucket_s\":{}", bucket.width_s).as_bytes());
    head.extend_from_slice(format!(",\"revision\":{}", bucket.revision).as_bytes());
    if bucket.is_of_run {
        head.extend_from_slice(format!(",\"run\":{}", bucket.revision).as_bytes());
    }
    if bucket.is_partial {
        head.extend_from_slice(b",\"partial\":true");
    }
    // It names no level and no value: a search for a word should find lines, not their counts.
    message.extend_from_slice(b",\"_msg\":");
    let said = format!("a row of program {}", bucket.program);
    write_text(said.as_bytes(), &mut message);
    message.extend_from_slice(b"}\n");
    if rows.is_empty() {
        out.extend_from_slice(&head);
        out.extend_from_slice(&message);
    }
    head.extend_from_slice(b",\"row\":");
    for (number, row) in rows.iter().enumerate() {
        out.extend_from_slice(&head);
        write!(out, "{number},").expect("writing to memory");
        // The fields of the object of the row, without its braces.
        let start = out.len();
        row.write_json(out);
        out.remove(start);
        let is_empty = out.pop().is_some() && out.len() == start;
        if is_empty {
            out.pop();
        }
        out.extend_from_slice(&message);
    }
}

/// The completed runs of one program.
#[derive(Clone, Debug, Default)]
pub struct Completed(Vec<(u64, TimeRange)>);

impl Completed {
    /// The runs of a program in the list of all.
    pub fn of(program: &str, runs: &Reruns) -> Completed {
        let of_program = runs.list().iter().filter(|run| run.summary_of == program);
        let run = |run: &programs::summary::Rerun| {
            (run.id, TimeRange { start_ns: run.start_ns, end_ns: run.end_ns })
        };
        Completed(of_program.map(run).collect())
    }

    /// Whether rows of a bucket count, if none of a greater revision replace them.
    pub fn counts(&self, time_ns: i64, revision: u64, is_of_run: bool) -> bool {
        let last = self.0.iter().rev().find(|(_, range)| range.contains(time_ns));
        match (is_of_run, last) {
            (true, last) => last.is_some_and(|(id, _)| *id == revision),
            (false, last) => last.is_none_or(|(id, _)| revision > *id),
        }
    }
}

/// The rows of a program that count, in order of time and row.
#[derive(Debug, Default)]
pub struct FoundRows {
    /// The rows.
    pub rows: Vec<StoredRow>,
    /// Places of rows of earlier revisions that no row of a later one takes.
    pub stale: Vec<RowPlace>,
    /// Where buckets begin that were left out because there were more rows than wanted, nanoseconds
    /// since 1970 UTC; `None` if there are all.
    pub cut_ns: Option<i64>,
}

/// The place of a row: start of its bucket in nanoseconds since 1970 UTC, width of the bucket in
/// seconds, number of the row.
pub type RowPlace = (i64, u32, u64);

/// Reads the rows of a program whose buckets begin in the range of `context`: those that count.
/// When they are more than `rows_max`, the newest buckets are left out, but not the only one.
pub fn read(
    source: &dyn Source,
    context: &Context,
    (program, completed): (&str, &Completed),
    rows_max: usize,
) -> Result<FoundRows, RunError> {
    let text = format!(
        "options(all_revisions=true) _type:={} program:={}",
        quote(SUMMARY_TYPE),
        quote(program)
    );
    let query = Query::parse(&text, 0).map_err(|error| RunError::Failed(error.message))?;
    let mut buckets: BTreeMap<(i64, u32), Bucket> = BTreeMap::new();
    let mut seen: BTreeSet<RowPlace> = BTreeSet::new();
    let mut cut_ns = None;
    let mut held = 0;
    query::run(&query, source, context, &mut |rows| {
        for index in 0..rows.len() {
            let Some(line) = rows.raw(index).and_then(parse_line) else { continue };
            let place = (line.row.time_ns, line.row.width_s);
            if line.program != program || cut_ns.is_some_and(|cut_ns| place.0 >= cut_ns) {
                continue;
            }
            if line.has_row {
                seen.insert((place.0, place.1, line.row.row));
            }
            if !completed.counts(place.0, line.row.revision, line.is_of_run) {
                continue;
            }
            let bucket = buckets.entry(place).or_default();
            if line.row.revision < bucket.revision {
                continue;
            }
            if line.row.revision > bucket.revision {
                held -= bucket.rows.len();
                *bucket = Bucket { revision: line.row.revision, rows: Vec::new() };
            }
            if line.has_row {
                held += 1;
                bucket.rows.push(line.row);
            }
            while held > rows_max && buckets.len() > 1 {
                let ((start_ns, width_s), dropped) = buckets.pop_last().expect("there are two");
                held -= dropped.rows.len();
                cut_ns = Some(start_ns);
                seen.split_off(&(start_ns, width_s, 0));
            }
        }
        ControlFlow::Continue(())
    })?;
    let mut rows: Vec<StoredRow> = Vec::new();
    for (_, mut bucket) in not_overlapping(buckets) {
        bucket.rows.sort_by_key(|row| row.row);
        // A frame that was stored although its writer was told otherwise is there twice.
        bucket.rows.dedup_by_key(|row| row.row);
        rows.append(&mut bucket.rows);
    }
    for row in &rows {
        seen.remove(&(row.time_ns, row.width_s, row.row));
    }
    Ok(FoundRows { rows, stale: seen.into_iter().collect(), cut_ns })
}

/// Buckets by start, in nanoseconds since 1970 UTC, and width in seconds.
type Buckets = BTreeMap<(i64, u32), Bucket>;

#[derive(Debug, Default)]
struct Bucket {
    revision: u64,
    rows: Vec<StoredRow>,
}

/// Tells queries which rows of programs count, by a list of completed runs.
pub struct ProgramRevisions(RunsNow);

/// Gives the list as it is now.
type RunsNow = Box<dyn Fn() -> Result<Reruns, String> + Send + Sync>;

impl ProgramRevisions {
    /// `runs` gives the completed runs of all programs.
    pub fn new(runs: impl Fn() -> Result<Reruns, String> + Send + Sync + 'static) -> Self {
        ProgramRevisions(Box::new(runs))
    }

    /// With the list that a cluster on engines keeps.
    pub fn of_cluster(engines: &Arc<Engines>) -> Self {
        let engines = Arc::clone(engines);
        ProgramRevisions::new(move || {
            let kept = Arc::new(Marks::new(&engines, None, Marks::STATE));
            let kept = KeptReruns::open(kept, PROGRAM_RUNS_FILE);
            kept.map(|kept| kept.list()).map_err(|error| format!("{error:#}"))
        })
    }
}

impl fmt::Debug for ProgramRevisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgramRevisions")
    }
}

impl Revisions for ProgramRevisions {
    fn counting(&self, revisions: &[Revision]) -> Result<Vec<bool>, RunError> {
        if revisions.is_empty() {
            return Ok(Vec::new());
        }
        let runs = (self.0)().map_err(RunError::Failed)?;
        let mut programs: BTreeMap<&str, (Completed, Buckets)> = BTreeMap::new();
        let place = |revision: &Revision| (revision.start_ns, revision.width_s);
        for revision in revisions {
            let program = programs.entry(&revision.program);
            let (completed, buckets) =
                program.or_insert_with_key(|name| (Completed::of(name, &runs), BTreeMap::new()));
            if completed.counts(revision.start_ns, revision.number, revision.is_of_run) {
                let bucket = buckets.entry(place(revision)).or_default();
                bucket.revision = bucket.revision.max(revision.number);
            }
        }
        let counting: BTreeMap<&str, Buckets> = programs
            .into_iter()
            .map(|(name, (_, buckets))| (name, not_overlapping(buckets)))
            .collect();
        let counts = |revision: &Revision| {
            let bucket = counting[revision.program.as_str()].get(&place(revision));
            bucket.is_some_and(|bucket| bucket.revision == revision.number)
        };
        Ok(revisions.iter().map(counts).collect())
    }
}

/// The buckets without those that overlap others of a greater revision, whose width differs: those
/// are of another version of the program.
fn not_overlapping(buckets: BTreeMap<(i64, u32), Bucket>) -> BTreeMap<(i64, u32), Bucket> {
    let mut by_revision: Vec<_> = buckets.into_iter().collect();
    by_revision.sort_by_key(|(_, bucket)| std::cmp::Reverse(bucket.revision));
    let mut kept: BTreeMap<(i64, u32), Bucket> = BTreeMap::new();
    for ((start_ns, width_s), bucket) in by_revision {
        let end_ns = start_ns.saturating_add(i64::from(width_s) * SECOND_NS);
        let before = kept.range(..(end_ns, 0)).next_back();
        let is_free = before.is_none_or(|((start, width), _)| {
            start.saturating_add(i64::from(*width) * SECOND_NS) <= start_ns
        });
        if is_free {
            kept.insert((start_ns, width_s), bucket);
        }
    }
    kept
}

/// A line of a row.
pub struct ParsedLine {
    /// The program.
    pub program: String,
    /// The row; without fields of Loginson itself.
    pub row: StoredRow,
    /// Whether it belongs to a run over a past interval.
    pub is_of_run: bool,
    /// Whether it is more than the sign that a bucket has no rows.
    pub has_row: bool,
}

/// Reads a line; `None` if it is no row of a program.
pub fn parse_line(line: &[u8]) -> Option<ParsedLine> {
    let mut fields: Fields = serde_json::from_slice(line).ok()?;
    let number = |name: &str| fields.get(name).and_then(serde_json::Value::as_u64);
    let program = fields.get("program")?.as_str()?.to_owned();
    let time_ns = text::time::parse_timestamp(fields.get("_time")?.as_str()?.as_bytes())?;
    let (row, is_of_run) = (number("row"), number("run").is_some());
    let width_s = number("bucket_s").and_then(|width| u32::try_from(width).ok())?;
    let revision = number("revision")?;
    let is_partial = fields.get("partial").is_some();
    fields.0.retain(|(name, _)| !is_reserved(name));
    let row_number = row.unwrap_or(0);
    let stored = StoredRow { time_ns, width_s, revision, row: row_number, is_partial, fields };
    Some(ParsedLine { program, row: stored, is_of_run, has_row: row.is_some() })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use query::source::{ScanUnit, SourceError, Whose};
    use record::{Batch, FrameBuilder, LineId, Parser, ParserConfig};

    use super::*;

    const S: i64 = 1_000_000_000;

    /// Rows in the store: a frame for each revision.
    #[derive(Clone)]
    struct Rows(Vec<Arc<Batch>>);

    /// The same, for queries that see the last revisions alone.
    struct Latest(Rows, Reruns);

    impl Source for Latest {
        fn units(
            &self,
            range: TimeRange,
            whose: Whose,
        ) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
            self.0.units(range, whose)
        }
        fn find(&self, id: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
            self.0.find(id)
        }
        fn revisions(&self) -> Option<Arc<dyn Revisions>> {
            let runs = self.1.clone();
            Some(Arc::new(ProgramRevisions::new(move || Ok(runs.clone()))))
        }
    }

    /// The rows that a query over those of program `p` gives, as [`shown`] gives them.
    fn queried(rows: &Rows, runs: &Reruns, options: &str, range: TimeRange) -> Vec<String> {
        let text = format!("{options} _type:summary program:p");
        let query = Query::parse(&text, 0).unwrap();
        let context = Context { range, ..Context::default() };
        let mut found = FoundRows::default();
        query::run(&query, &Latest(rows.clone(), runs.clone()), &context, &mut |block| {
            let lines = (0..block.len()).filter_map(|index| block.raw(index));
            found.rows.extend(lines.filter_map(parse_line).map(|line| line.row));
            ControlFlow::Continue(())
        })
        .unwrap();
        found.rows.sort_by_key(|row| (row.time_ns, row.row));
        shown(&found)
    }

    struct Unit(Arc<Batch>);

    impl ScanUnit for Unit {
        fn time_range_ns(&self) -> Option<(i64, i64)> {
            Some(self.0.time_range_ns())
        }
        fn lines(&self) -> u64 {
            self.0.len() as u64
        }
        fn bytes(&self) -> u64 {
            self.0.raw_bytes()
        }
        fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
            Ok(Some(Arc::clone(&self.0)))
        }
    }

    impl Source for Rows {
        fn units(&self, _: TimeRange, whose: Whose) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
            assert_eq!(whose, Whose::All, "rows are lines of Loginson itself");
            Ok(self.0.iter().map(|b| Box::new(Unit(Arc::clone(b))) as Box<dyn ScanUnit>).collect())
        }
        fn find(&self, _: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
            Ok(None)
        }
    }

    impl Rows {
        fn add(&mut self, bucket: &BucketOf<'_>, rows: &[&str]) {
            let parsed: Vec<Row> =
                rows.iter().map(|row| programs::parse_row(row.as_bytes(), 9).unwrap()).collect();
            let mut lines = Vec::new();
            write_bucket(bucket, &parsed, &mut lines);
            let mut frame = FrameBuilder::new();
            frame.push_lines(&origin(), 1, &lines);
            let frame = Arc::new(frame.finish(1, self.0.len() as u64 + 1).unwrap());
            let mut parser = Parser::new(&ParserConfig::default()).unwrap();
            self.0.push(Arc::new(parser.parse(frame)));
        }

        fn read(&self, completed: &Completed, rows_max: usize) -> FoundRows {
            read(self, &Context::default(), ("p", completed), rows_max).unwrap()
        }
    }

    fn bucket(start_s: i64, revision: u64) -> BucketOf<'static> {
        BucketOf {
            program: "p",
            start_ns: start_s * S,
            width_s: 10,
            revision,
            is_of_run: false,
            is_partial: false,
        }
    }

    fn shown(found: &FoundRows) -> Vec<String> {
        let row = |row: &StoredRow| {
            format!("{} {}", row.time_ns / S, serde_json::to_string(&row.fields).unwrap())
        };
        found.rows.iter().map(row).collect()
    }

    #[test]
    fn the_last_revision_counts() {
        let mut rows = Rows(Vec::new());
        rows.add(&bucket(10, 1), &["a=1", "a=2"]);
        rows.add(&bucket(0, 2), &["b=\"x \\\" y\" c=0.5"]);
        rows.add(&bucket(10, 3), &["a=3"]);
        rows.add(&bucket(20, 4), &["a=4"]);
        rows.add(&bucket(20, 5), &[]);
        rows.add(&BucketOf { program: "other", ..bucket(0, 9) }, &["a=9"]);
        let found = rows.read(&Completed::default(), 100);
        assert_eq!(shown(&found), [r#"0 {"b":"x \" y","c":0.5}"#, r#"10 {"a":3}"#]);
        assert_eq!(found.stale, [(10 * S, 10, 1), (20 * S, 10, 0)]);
        assert_eq!(found.cut_ns, None);
    }

    #[test]
    fn rows_of_a_run_count_when_it_is_complete() {
        let mut rows = Rows(Vec::new());
        rows.add(&bucket(0, 1), &["a=1"]);
        rows.add(&bucket(10, 1), &["a=1"]);
        rows.add(&BucketOf { is_of_run: true, ..bucket(0, 5) }, &["a=5"]);
        let found = |completed: &Completed, rows: &Rows| shown(&rows.read(completed, 100));
        assert_eq!(found(&Completed::default(), &rows), [r#"0 {"a":1}"#, r#"10 {"a":1}"#]);
        let range = TimeRange { start_ns: 0, end_ns: 20 * S };
        let completed = Completed(vec![(5, range)]);
        assert_eq!(found(&completed, &rows), [r#"0 {"a":5}"#]);
        rows.add(&bucket(10, 6), &["a=6"]);
        assert_eq!(found(&completed, &rows), [r#"0 {"a":5}"#, r#"10 {"a":6}"#]);
        let later = Completed(vec![(5, range), (7, range)]);
        assert_eq!(found(&later, &rows), Vec::<String>::new());
    }

    #[test]
    fn rows_of_another_width_are_replaced() {
        let mut rows = Rows(Vec::new());
        for start_s in [0, 10, 50, 60] {
            rows.add(&bucket(start_s, 1), &["a=1"]);
        }
        rows.add(&BucketOf { width_s: 60, ..bucket(0, 2) }, &["a=60"]);
        assert_eq!(
            shown(&rows.read(&Completed::default(), 100)),
            [r#"0 {"a":60}"#, r#"60 {"a":1}"#]
        );
    }

    #[test]
    fn beyond_the_bound_the_newest_buckets_are_left_out() {
        let mut rows = Rows(Vec::new());
        for start_s in [30, 10, 20, 0, 40] {
            rows.add(&bucket(start_s, 1), &["a=1", "a=2"]);
        }
        let found = rows.read(&Completed::default(), 4);
        assert_eq!((found.rows.len(), found.cut_ns), (4, Some(20 * S)));
        let found = rows.read(&Completed::default(), 1);
        assert_eq!((found.rows.len(), found.cut_ns), (2, Some(10 * S)));
    }

    fn completed_run(id: u64, start_s: i64, end_s: i64) -> programs::summary::Rerun {
        let (start_ns, end_ns) = (start_s * S, end_s * S);
        programs::summary::Rerun { id, summary_of: "p".into(), start_ns, end_ns, through: None }
    }

    /// Queries count what the reader of rows counts: one revision of each bucket, of one width.
    #[test]
    fn queries_see_the_rows_that_count() {
        let mut rows = Rows(Vec::new());
        rows.add(&bucket(10, 1), &["a=1", "a=2"]);
        rows.add(&bucket(0, 2), &["b=2"]);
        rows.add(&BucketOf { is_partial: true, ..bucket(10, 3) }, &["a=3"]);
        rows.add(&bucket(20, 4), &["a=4"]);
        rows.add(&bucket(20, 5), &[]);
        for start_s in [60, 70, 120] {
            rows.add(&bucket(start_s, 6), &["a=6"]);
        }
        rows.add(&BucketOf { width_s: 60, ..bucket(60, 7) }, &["a=60"]);
        // Two runs: the later one replaces the middle of the earlier one. A third is not complete.
        for start_s in [200, 210, 220] {
            rows.add(&bucket(start_s, 8), &["a=8"]);
            rows.add(&BucketOf { is_of_run: true, ..bucket(start_s, 9) }, &["a=9"]);
        }
        rows.add(&BucketOf { is_of_run: true, ..bucket(210, 11) }, &["a=11"]);
        rows.add(&BucketOf { is_of_run: true, ..bucket(0, 12) }, &["a=12"]);
        rows.add(&BucketOf { program: "other", ..bucket(0, 99) }, &["a=9"]);
        let runs = Reruns::new(vec![completed_run(9, 200, 230), completed_run(11, 210, 220)]);
        let expected = shown(&rows.read(&Completed::of("p", &runs), 100));
        assert_eq!(expected.len(), 7, "{expected:?}");
        assert_eq!(queried(&rows, &runs, "", TimeRange::ALL), expected);
        let every = queried(&rows, &runs, "options(all_revisions=true)", TimeRange::ALL);
        assert_eq!(every.len(), 18, "{every:?}");
        // A range that begins within a wider bucket, or behind the rows that replace others.
        let from = |start_s: i64| TimeRange { start_ns: start_s * S, end_ns: i64::MAX };
        assert_eq!(queried(&rows, &runs, "", from(70)), expected[3..]);
        assert_eq!(queried(&rows, &runs, "", from(210)), expected[5..]);
        let partial = "_type:summary program:p partial:true | stats count() n";
        let query = Query::parse(partial, 0).unwrap();
        let source = Latest(rows, runs);
        query::run(&query, &source, &Context::default(), &mut |block| {
            let mut scratch = query::Scratch::default();
            assert_eq!(block.get(0, "n", &mut scratch), b"1");
            ControlFlow::Continue(())
        })
        .unwrap();
    }

    proptest! {
        /// The rows are those of a table in which each revision replaces the one before.
        #[test]
        fn rows_are_those_of_a_table(
            revisions in proptest::collection::vec((0i64..4, 0usize..3), 0..20),
        ) {
            let mut rows = Rows(Vec::new());
            let mut table: BTreeMap<i64, Vec<String>> = BTreeMap::new();
            for (revision, (at, count)) in revisions.into_iter().enumerate() {
                let made: Vec<String> =
                    (0..count).map(|row| format!("r={revision} n={row}")).collect();
                let texts: Vec<&str> = made.iter().map(String::as_str).collect();
                rows.add(&bucket(at * 10, revision as u64 + 1), &texts);
                let row = |row| format!("{} {{\"r\":{revision},\"n\":{row}}}", at * 10);
                table.insert(at, (0..count).map(row).collect());
            }
            let expected: Vec<String> = table.into_values().flatten().collect();
            prop_assert_eq!(&shown(&rows.read(&Completed::default(), 1000)), &expected);
            let queried = queried(&rows, &Reruns::default(), "", TimeRange::ALL);
            prop_assert_eq!(queried, expected);
        }
    }
}
