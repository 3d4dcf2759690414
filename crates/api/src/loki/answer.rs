//! Responses in Loki's format, encoded once, as text, within [`ANSWER_BYTES_MAX`]. The total of
//! what clients have not received yet is bounded too.

use std::collections::HashMap;
use std::io::{self, Write};
use std::time::Duration;

use ::query::Progress;
use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use logql::logs::Entry;
use logql::metric::{Grid, Series, Value as Numbers};
use logql::{EvalError, Labels, format_number};
use serde_json::{Value, json};
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::loki::{LokiError, LokiResult};
use crate::wire::error::ApiError;

/// Limit of a response. A larger one is refused with a message that says what to change.
const ANSWER_BYTES_MAX: usize = 128 << 20;
/// KiB of all responses that clients have not received yet. Beyond it responses are refused with
/// 503.
const SENT_KIB_MAX: usize = 512 << 10;
static SENT: Semaphore = Semaphore::const_new(SENT_KIB_MAX);

const SECOND_NS: i64 = 1_000_000_000;

/// The encoding flag by which Grafana requests labels by category.
pub const CATEGORIZE_LABELS: &str = "categorize-labels";

/// The cost of a query.
pub struct Cost {
    bytes: u64,
    lines: u64,
    waited: Duration,
    ran: Duration,
}

impl Cost {
    /// The cost of a query with that progress, which waited and then ran for these times.
    pub fn new(progress: &Progress, waited: Duration, ran: Duration) -> Cost {
        Cost {
            bytes: progress.bytes_scanned.load(Relaxed),
            lines: progress.lines_scanned.load(Relaxed),
            waited,
            ran,
        }
    }
}

/// The text of a response, with a limit on its bytes: [`ANSWER_BYTES_MAX`], or that of a message of
/// a tail.
pub struct Text {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Default for Text {
    fn default() -> Self {
        Text::of_at_most(ANSWER_BYTES_MAX)
    }
}

impl Text {
    /// An empty text with that limit.
    pub fn of_at_most(bytes_max: usize) -> Text {
        Text { bytes: Vec::new(), bytes_max }
    }

    /// Removes and returns what has been written.
    pub fn take(&mut self) -> String {
        String::from_utf8(std::mem::take(&mut self.bytes)).expect("JSON is UTF-8")
    }

    /// Writes a value as JSON.
    pub fn json(&mut self, value: &(impl serde::Serialize + ?Sized)) -> io::Result<()> {
        serde_json::to_writer(self, value).map_err(io::Error::from)
    }

    /// Writes an object of strings.
    pub fn object<'p>(
        &mut self,
        pairs: impl IntoIterator<Item = (&'p str, &'p str)>,
    ) -> io::Result<()> {
        self.write_all(b"{")?;
        for (index, (name, value)) in pairs.into_iter().enumerate() {
            self.write_all(if index > 0 { b"," } else { b"" })?;
            self.json(name)?;
            self.write_all(b":")?;
            self.json(value)?;
        }
        self.write_all(b"}")
    }

    /// Writes a list; `one` writes each item.
    pub fn list<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut one: impl FnMut(&mut Text, T) -> io::Result<()>,
    ) -> io::Result<()> {
        self.write_all(b"[")?;
        for (index, item) in items.into_iter().enumerate() {
            self.write_all(if index > 0 { b"," } else { b"" })?;
            one(self, item)?;
        }
        self.write_all(b"]")
    }
}

impl io::Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.bytes_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a response; the error for one that is too large says what to do.
pub fn written(write: impl FnOnce(&mut Text) -> io::Result<()>) -> Result<Text, EvalError> {
    let mut text = Text::default();
    match write(&mut text) {
        Ok(()) => Ok(text),
        Err(_) => Err(EvalError::Refused(format!(
            "the answer has more than {ANSWER_BYTES_MAX} bytes; request fewer lines or series (limit, a narrower range, a more \
             specific selector), or a larger step"
        ))),
    }
}

/// The response `{"status":"success","data":…}`.
pub fn succeeded(write_data: impl FnOnce(&mut Text) -> io::Result<()>) -> Result<Text, EvalError> {
    written(|out| {
        out.write_all(b"{\"status\":\"success\",\"data\":")?;
        write_data(out)?;
        out.write_all(b"}")
    })
}

/// A text that is being sent, and its share of the limit on all of them.
struct Sent {
    bytes: Vec<u8>,
    _part: SemaphorePermit<'static>,
}

impl AsRef<[u8]> for Sent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Sends a response. Fails if clients read the responses that are being sent too slowly.
pub fn respond(text: Text) -> LokiResult {
    let bytes = text.bytes;
    let part_kib = (bytes.len() >> 10) as u32;
    let Ok(part) = SENT.try_acquire_many(part_kib) else {
        return Err(LokiError::from(ApiError::unavailable(
            "the answers that are being sent to clients take too much memory; try again, or request less",
        )));
    };
    let body = Body::from(Bytes::from_owner(Sent { bytes, _part: part }));
    Ok(([(CONTENT_TYPE, "application/json; charset=UTF-8")], body).into_response())
}

/// Unix seconds, without a fraction if there is none.
pub fn seconds(time_ns: i64) -> Value {
    match time_ns % SECOND_NS {
        0 => (time_ns / SECOND_NS).into(),
        // Loki's times of samples have milliseconds.
        _ => (time_ns.div_euclid(1_000_000) as f64 / 1e3).into(),
    }
}

/// Name and value.
type Pair<'e> = (&'e str, &'e str);

fn pairs(labels: &Labels) -> impl Iterator<Item = Pair<'_>> {
    labels.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}

/// Writes entries as streams, in the order of the first entry of each.
pub fn write_streams(out: &mut Text, entries: &[Entry], categorize: bool) -> io::Result<()> {
    let mut indexes: HashMap<Vec<Pair<'_>>, usize> = HashMap::new();
    let mut streams: Vec<(Vec<Pair<'_>>, Vec<&Entry>)> = Vec::new();
    for entry in entries {
        let mut labels: Vec<Pair<'_>> = pairs(&entry.stream).collect();
        if !categorize {
            labels.extend(pairs(&entry.metadata).chain(pairs(&entry.parsed)));
        }
        labels.sort_unstable();
        // If a name occurs twice, its last value is shown.
        labels.reverse();
        labels.dedup_by_key(|(name, _)| *name);
        labels.reverse();
        let index = *indexes.entry(labels.clone()).or_insert_with(|| {
            streams.push((labels, Vec::new()));
            streams.len() - 1
        });
        streams[index].1.push(entry);
    }
    out.list(streams, |out, (labels, entries)| {
        out.write_all(b"{\"stream\":")?;
        out.object(labels)?;
        out.write_all(b",\"values\":")?;
        out.list(entries, |out, entry| {
            write!(out, "[\"{}\",", entry.time_ns)?;
            out.json(&entry.line)?;
            if categorize {
                out.write_all(b",{")?;
                let mut comma: &[u8] = b"";
                for (name, labels) in
                    [("parsed", &entry.parsed), ("structuredMetadata", &entry.metadata)]
                {
                    if !labels.is_empty() {
                        out.write_all(comma)?;
                        write!(out, "\"{name}\":")?;
                        out.object(pairs(labels))?;
                        comma = b",";
                    }
                }
                out.write_all(b"}")?;
            }
            out.write_all(b"]")
        })?;
        out.write_all(b"}")
    })
}

/// The response with lines.
pub fn lines(entries: &[Entry], categorize: bool, cost: &Cost) -> Result<Text, EvalError> {
    let flags: &[&str] = if categorize { &[CATEGORIZE_LABELS] } else { &[] };
    let stats = stats(cost, entries.len() as u64);
    typed("streams", flags, &stats, |out| write_streams(out, entries, categorize))
}

/// The response with the samples of one time.
pub fn instant(numbers: &Numbers, grid: &Grid, cost: &Cost) -> Result<Text, EvalError> {
    let time = seconds(grid.time_ns(0));
    match numbers {
        Numbers::Scalar(value) => {
            typed("scalar", &[], &stats(cost, 1), |out| write_point(out, &time, *value))
        }
        Numbers::Series(series) => {
            let count = series.iter().filter_map(with_value).count() as u64;
            typed("vector", &[], &stats(cost, count), |out| {
                out.list(series.iter().filter_map(with_value), |out, (one, value)| {
                    out.write_all(b"{\"metric\":")?;
                    out.object(pairs(&one.labels))?;
                    out.write_all(b",\"value\":")?;
                    write_point(out, &time, value)?;
                    out.write_all(b"}")
                })
            })
        }
    }
}

/// The response with the samples of many times.
pub fn range(numbers: &Numbers, grid: &Grid, cost: &Cost) -> Result<Text, EvalError> {
    let constant;
    let series = match numbers {
        Numbers::Series(series) => series,
        Numbers::Scalar(value) => {
            constant =
                vec![Series { labels: Labels::new(), points: vec![Some(*value); grid.steps()] }];
            &constant
        }
    };
    typed("matrix", &[], &stats(cost, series.len() as u64), |out| {
        out.list(series, |out, one| {
            out.write_all(b"{\"metric\":")?;
            out.object(pairs(&one.labels))?;
            out.write_all(b",\"values\":")?;
            let points = one.points.iter().enumerate();
            let points = points.filter_map(|(step, point)| Some((step, (*point)?)));
            out.list(points, |out, (step, value)| {
                write_point(out, &seconds(grid.time_ns(step)), value)
            })?;
            out.write_all(b"}")
        })
    })
}

/// A series with its first point; `None` if it has no point.
fn with_value(one: &Series) -> Option<(&Series, f64)> {
    Some((one, one.points.first().copied().flatten()?))
}

fn write_point(out: &mut Text, time: &Value, value: f64) -> io::Result<()> {
    write!(out, "[{time},\"{}\"]", format_number(value))
}

/// The response to a query. Clients that parse it as a stream need the type before the result.
fn typed(
    kind: &str,
    flags: &[&str],
    stats: &Value,
    write_result: impl FnOnce(&mut Text) -> io::Result<()>,
) -> Result<Text, EvalError> {
    succeeded(|out| {
        write!(out, "{{\"resultType\":\"{kind}\",")?;
        if !flags.is_empty() {
            write!(out, "\"encodingFlags\":{},", json!(flags))?;
        }
        out.write_all(b"\"result\":")?;
        write_result(out)?;
        write!(out, ",\"stats\":{stats}}}")
    })
}

/// The statistics that Grafana and `logcli --stats` show. Loginson has no ingesters, caches or
/// chunks like Loki's, so their numbers are zero.
fn stats(cost: &Cost, entries: u64) -> Value {
    let ran_s = cost.ran.as_secs_f64();
    let a_second = |count: u64| if ran_s > 0.0 { (count as f64 / ran_s) as u64 } else { 0 };
    let store = json!({
        "totalChunksRef": 0, "totalChunksDownloaded": 0, "chunksDownloadTime": 0,
        "chunk": {
            "headChunkBytes": 0, "headChunkLines": 0,
            "decompressedBytes": cost.bytes, "decompressedLines": cost.lines,
            "compressedBytes": 0, "totalDuplicates": 0,
        },
    });
    let nothing = json!({
        "totalChunksRef": 0, "totalChunksDownloaded": 0, "chunksDownloadTime": 0,
        "chunk": {
            "headChunkBytes": 0, "headChunkLines": 0, "decompressedBytes": 0, "decompressedLines": 0,
            "compressedBytes": 0, "totalDuplicates": 0,
        },
    });
    json!({
        "summary": {
            "bytesProcessedPerSecond": a_second(cost.bytes),
            "linesProcessedPerSecond": a_second(cost.lines),
            "totalBytesProcessed": cost.bytes,
            "totalLinesProcessed": cost.lines,
            "execTime": ran_s,
            "queueTime": cost.waited.as_secs_f64(),
            "subqueries": 0, "splits": 0, "shards": 0,
            "totalEntriesReturned": entries,
            "totalPostFilterLines": entries,
            "totalStructuredMetadataBytesProcessed": 0,
        },
        "querier": { "store": store },
        "ingester": {
            "totalReached": 0, "totalChunksMatched": 0, "totalBatches": 0, "totalLinesSent": 0,
            "store": nothing,
        },
        "cache": {},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(time_ns: i64, line: &str, parsed: &[(&str, &str)]) -> Entry {
        let owned = |pairs: &[(&str, &str)]| -> Labels {
            pairs.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect()
        };
        Entry {
            id: record::LineId { node: 1, sequence: 1, line: 0 },
            sequence: 1,
            time_ns,
            line: line.to_owned(),
            stream: owned(&[("app", "x")]),
            metadata: owned(&[("detected_level", "info")]),
            parsed: owned(parsed),
        }
    }

    #[test]
    fn entries_become_streams() {
        let entries = [
            entry(1, "a \"b\"\n", &[("app", "y"), ("k", "1")]),
            entry(2, "c", &[]),
            entry(3, "d", &[("app", "y"), ("k", "1")]),
        ];
        let of = |categorize| -> Value {
            let mut out = Text::default();
            write_streams(&mut out, &entries, categorize).unwrap();
            serde_json::from_slice(&out.bytes).unwrap()
        };
        assert_eq!(
            of(false),
            json!([
                { "stream": { "app": "y", "detected_level": "info", "k": "1" },
                  "values": [["1", "a \"b\"\n"], ["3", "d"]] },
                { "stream": { "app": "x", "detected_level": "info" }, "values": [["2", "c"]] },
            ])
        );
        let info = json!({ "detected_level": "info" });
        let both = json!({ "parsed": { "app": "y", "k": "1" }, "structuredMetadata": info });
        assert_eq!(
            of(true),
            json!([{ "stream": { "app": "x" }, "values": [
                ["1", "a \"b\"\n", both],
                ["2", "c", { "structuredMetadata": info }],
                ["3", "d", both],
            ] }])
        );
    }

    #[test]
    fn an_answer_that_is_too_large_is_refused() {
        let entries = [entry(1, &"x".repeat(1_000), &[]), entry(2, &"x".repeat(1_000), &[])];
        let fits =
            |entries: &[Entry]| write_streams(&mut Text::of_at_most(1_500), entries, false).is_ok();
        assert!(fits(&entries[..1]) && !fits(&entries));
        let error = written(|_| Err(io::ErrorKind::FileTooLarge.into())).err().unwrap();
        assert!(error.to_string().contains("the answer has more than 134217728 bytes"), "{error}");
    }
}
