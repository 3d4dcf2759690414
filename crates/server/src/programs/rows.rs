//! The stored rows of programs: as lines of JSON, and read back, the last revision of each bucket.
//!
//! ```json
//! {"_time":"2026-01-31T12:00:10Z","program":"access-status","bucket_s":10,"revision":1769860813000001,
//!  "row":0,"class":"2xx","lines":3,"_msg":"access-status: class=2xx lines=3"}
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

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use programs::{Row, Value, is_reserved};
use query::source::{Source, TimeRange};
use query::{Context, Query, RunError, quote};
use record::{Format, Hints, Origin, Transport};
use summary::{Reruns, SUMMARY_TYPE};

/// Characters of the message of a row.
const MESSAGE_CHARS_MAX: usize = 300;
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
    /// The fields of the program, in its order.
    pub fields: serde_json::Map<String, serde_json::Value>,
}

/// The origin of frames of rows.
pub fn origin() -> Origin {
    let hints = Hints { log_type: Some(SUMMARY_TYPE.to_owned()), ..Hints::default() };
    Origin { hints: Arc::new(hints), ..Origin::new(Transport::Internal, Format::Json, None) }
}

/// Appends the rows of a bucket as lines of JSON.
pub fn write_bucket(bucket: &BucketOf<'_>, rows: &[Row], out: &mut Vec<u8>) {
    let mut head = Vec::new();
    let text = |out: &mut Vec<u8>, text: &str| {
        serde_json::to_writer(out, text).expect("writing to memory");
    };
    head.extend_from_slice(b"{\"_time\":\"");
    query::time::write_time(bucket.start_ns, &mut head);
    head.extend_from_slice(b"\",\"program\":");
    text(&mut head, bucket.program);
    head.extend_from_slice(format!(",\"bucket_s\":{}", bucket.width_s).as_bytes());
    head.extend_from_slice(format!(",\"revision\":{}", bucket.revision).as_bytes());
    if bucket.is_of_run {
        head.extend_from_slice(format!(",\"run\":{}", bucket.revision).as_bytes());
    }
    if rows.is_empty() {
        out.extend_from_slice(&head);
        out.extend_from_slice(b",\"_msg\":");
        text(out, &format!("{}: no rows", bucket.program));
        out.extend_from_slice(b"}\n");
    }
    for (number, row) in rows.iter().enumerate() {
        out.extend_from_slice(&head);
        out.extend_from_slice(format!(",\"row\":{number},").as_bytes());
        let mut fields = Vec::new();
        row.write_json(&mut fields);
        // The object without its braces.
        let fields = &fields[1..fields.len() - 1];
        out.extend_from_slice(fields);
        if !fields.is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(b"\"_msg\":");
        text(out, &message(bucket.program, row));
        out.extend_from_slice(b"}\n");
    }
}

/// A row for people who read rows as lines.
fn message(program: &str, row: &Row) -> String {
    let mut message = format!("{program}:");
    for (name, value) in row.fields() {
        let value = match value {
            Value::Null => String::new(),
            Value::Bool(value) => value.to_string(),
            Value::Integer(value) => value.to_string(),
            Value::Float(value) => value.to_string(),
            Value::Text(value) => value.clone(),
        };
        message.push_str(&format!(" {name}={value}"));
        if message.len() > MESSAGE_CHARS_MAX {
            return message.chars().take(MESSAGE_CHARS_MAX).chain(['…']).collect();
        }
    }
    message
}

/// The completed runs of one program.
#[derive(Clone, Debug, Default)]
pub struct Completed(Vec<(u64, TimeRange)>);

impl Completed {
    /// The runs of a program in the list of all.
    pub fn of(program: &str, runs: &Reruns) -> Completed {
        let of_program = runs.list().iter().filter(|run| run.summary_of == program);
        let run = |run: &summary::Rerun| {
            (run.id, TimeRange { start_ns: run.start_ns, end_ns: run.end_ns })
        };
        Completed(of_program.map(run).collect())
    }

    /// Whether rows of a bucket count, if none of a greater revision replace them.
    fn counts(&self, time_ns: i64, revision: u64, is_of_run: bool) -> bool {
        let last = self.0.iter().rev().find(|(_, range)| range.contains(time_ns));
        match (is_of_run, last) {
            (true, last) => last.is_some_and(|(id, _)| *id == revision),
            (false, last) => last.is_none_or(|(id, _)| revision > *id),
        }
    }
}

/// The rows of a program that count, in order of time and row. `is_cut` says that there were more
/// than wanted.
#[derive(Debug, Default)]
pub struct Found {
    /// The rows.
    pub rows: Vec<StoredRow>,
    /// Whether rows were left out.
    pub is_cut: bool,
}

/// Reads the rows of a program whose buckets begin in `range`: those that count, at most `rows_max`
/// of the oldest buckets.
pub fn read(
    source: &dyn Source,
    context: &Context,
    (program, completed): (&str, &Completed),
    rows_max: usize,
) -> Result<Found, RunError> {
    let text = format!("_type:={} program:={}", quote(SUMMARY_TYPE), quote(program));
    let query = Query::parse(&text, 0).map_err(|error| RunError::Failed(error.message))?;
    let mut buckets: BTreeMap<(i64, u32), Bucket> = BTreeMap::new();
    let mut is_cut = false;
    let mut held = 0;
    query::run(&query, source, context, &mut |rows| {
        for index in 0..rows.len() {
            let Some((row, is_of_run, has_row)) = rows.raw(index).and_then(parse) else { continue };
            if row_program(&row) != Some(program)
                || !completed.counts(row.time_ns, row.revision, is_of_run)
            {
                continue;
            }
            let bucket = buckets.entry((row.time_ns, row.width_s)).or_default();
            if row.revision < bucket.revision {
                continue;
            }
            if row.revision > bucket.revision {
                held -= bucket.rows.len();
                *bucket = Bucket { revision: row.revision, rows: Vec::new() };
            }
            if has_row {
                held += 1;
                bucket.rows.push(row);
            }
            while held > rows_max && buckets.len() > 1 {
                let (_, dropped) = buckets.pop_last().expect("there are two");
                held -= dropped.rows.len();
                is_cut = true;
            }
        }
        ControlFlow::Continue(())
    })?;
    let mut rows: Vec<StoredRow> = Vec::new();
    for (_, mut bucket) in not_overlapping(buckets) {
        bucket.rows.sort_by_key(|row| row.row);
        // A crash between a frame and its acknowledgement can leave it twice.
        bucket.rows.dedup_by_key(|row| row.row);
        rows.append(&mut bucket.rows);
    }
    for row in &mut rows {
        row.fields.retain(|name, _| !is_reserved(name));
    }
    is_cut |= rows.len() > rows_max;
    rows.truncate(rows_max);
    Ok(Found { rows, is_cut })
}

#[derive(Debug, Default)]
struct Bucket {
    revision: u64,
    rows: Vec<StoredRow>,
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

fn row_program(row: &StoredRow) -> Option<&str> {
    row.fields.get("program")?.as_str()
}

/// A row from its line, whether it is of a run, and whether it is more than the sign that there are
/// no rows.
fn parse(line: &[u8]) -> Option<(StoredRow, bool, bool)> {
    let fields: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(line).ok()?;
    let number = |name: &str| fields.get(name).and_then(serde_json::Value::as_u64);
    let time_ns = query::parse_timestamp(fields.get("_time")?.as_str()?.as_bytes())?;
    let (row, is_of_run) = (number("row"), number("run").is_some());
    let width_s = number("bucket_s").and_then(|width| u32::try_from(width).ok())?;
    let (revision, has_row) = (number("revision")?, row.is_some());
    Some((
        StoredRow { time_ns, width_s, revision, row: row.unwrap_or(0), fields },
        is_of_run,
        has_row,
    ))
}
