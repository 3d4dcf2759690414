//! Answers in Loki's shape.

use std::collections::BTreeMap;
use std::time::Duration;

use ::query::Progress;
use axum::Json;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use logql::Labels;
use logql::format_number;
use logql::logs::Entry;
use logql::metric::{Grid, Series, Value as Numbers};
use serde_json::{Map, Value, json};
use std::sync::atomic::Ordering::Relaxed;

const SECOND_NS: i64 = 1_000_000_000;

/// What Grafana sends when it wants the kinds of labels apart.
pub const CATEGORIZE_LABELS: &str = "categorize-labels";

/// What a query cost.
pub struct Cost {
    bytes: u64,
    lines: u64,
    waited: Duration,
    ran: Duration,
}

impl Cost {
    /// That of a query that ran so long, after it waited so long.
    pub fn new(progress: &Progress, waited: Duration, ran: Duration) -> Cost {
        Cost {
            bytes: progress.bytes_scanned.load(Relaxed),
            lines: progress.lines_scanned.load(Relaxed),
            waited,
            ran,
        }
    }
}

fn object(labels: &Labels) -> Value {
    let pairs = labels.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
    Value::Object(pairs.collect::<Map<_, _>>())
}

/// Unix seconds, without a fraction where there is none.
pub fn seconds(time_ns: i64) -> Value {
    match time_ns % SECOND_NS {
        0 => (time_ns / SECOND_NS).into(),
        // Loki's times of numbers have milliseconds.
        _ => (time_ns.div_euclid(1_000_000) as f64 / 1e3).into(),
    }
}

/// Entries as streams, in the order in which each begins.
pub fn streams(entries: &[Entry], categorize: bool) -> Vec<Value> {
    let mut places: BTreeMap<Labels, usize> = BTreeMap::new();
    let mut streams: Vec<(Labels, Vec<Value>)> = Vec::new();
    for entry in entries {
        let mut labels = entry.stream.clone();
        if !categorize {
            labels.extend(entry.metadata.iter().chain(&entry.parsed).cloned());
            labels.sort_unstable();
        }
        let place = *places.entry(labels.clone()).or_insert_with(|| {
            streams.push((labels, Vec::new()));
            streams.len() - 1
        });
        let time = entry.time_ns.to_string();
        streams[place].1.push(match categorize {
            false => json!([time, entry.line]),
            true => {
                let mut kinds = Map::new();
                for (name, labels) in
                    [("structuredMetadata", &entry.metadata), ("parsed", &entry.parsed)]
                {
                    if !labels.is_empty() {
                        kinds.insert(name.to_owned(), object(labels));
                    }
                }
                json!([time, entry.line, kinds])
            }
        });
    }
    let one = |(labels, values): (Labels, Vec<Value>)| json!({ "stream": object(&labels), "values": values });
    streams.into_iter().map(one).collect()
}

/// The answer with lines.
pub fn lines(entries: &[Entry], categorize: bool, cost: &Cost) -> Response {
    let flags: &[&str] = if categorize { &[CATEGORIZE_LABELS] } else { &[] };
    let result = Value::Array(streams(entries, categorize));
    typed("streams", &result, flags, &stats(cost, entries.len() as u64))
}

/// The answer with the numbers of one time.
pub fn instant(numbers: &Numbers, grid: &Grid, cost: &Cost) -> Response {
    let time = seconds(grid.time_ns(0));
    let (kind, result, count) = match numbers {
        Numbers::Scalar(value) => ("scalar", json!([time, format_number(*value)]), 1),
        Numbers::Series(series) => {
            let one = |one: &Series| {
                let value = one.points.first().copied().flatten()?;
                Some(
                    json!({ "metric": object(&one.labels), "value": [time, format_number(value)] }),
                )
            };
            let result: Vec<Value> = series.iter().filter_map(one).collect();
            let count = result.len() as u64;
            ("vector", Value::Array(result), count)
        }
    };
    typed(kind, &result, &[], &stats(cost, count))
}

/// The answer with the numbers of many times.
pub fn range(numbers: &Numbers, grid: &Grid, cost: &Cost) -> Response {
    let constant;
    let series = match numbers {
        Numbers::Series(series) => series,
        Numbers::Scalar(value) => {
            constant =
                vec![Series { labels: Labels::new(), points: vec![Some(*value); grid.steps()] }];
            &constant
        }
    };
    let one = |one: &Series| {
        let points = one.points.iter().enumerate().filter_map(|(step, point)| {
            Some(json!([seconds(grid.time_ns(step)), format_number((*point)?)]))
        });
        json!({ "metric": object(&one.labels), "values": points.collect::<Vec<_>>() })
    };
    let result: Value = series.iter().map(one).collect();
    typed("matrix", &result, &[], &stats(cost, series.len() as u64))
}

/// The answer to a query. Clients that read it as it comes need the type before the result.
fn typed(kind: &str, result: &Value, flags: &[&str], stats: &Value) -> Response {
    let flags = if flags.is_empty() {
        String::new()
    } else {
        format!(r#""encodingFlags":{},"#, json!(flags))
    };
    let body = format!(
        r#"{{"status":"success","data":{{"resultType":"{kind}",{flags}"result":{result},"stats":{stats}}}}}"#
    );
    ([(CONTENT_TYPE, "application/json; charset=UTF-8")], body).into_response()
}

/// `{"status":"success","data":…}`.
pub fn success(data: Value) -> Response {
    Json(json!({ "status": "success", "data": data })).into_response()
}

/// What Grafana and `logcli --stats` show. There are no ingesters, caches or chunks here, so theirs are zero.
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
