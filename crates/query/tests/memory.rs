//! Measures the allocations of queries: with every pipe, stats function and endpoint over a huge
//! line, many values and many fields, a query stays within its limit and a fixed slack. The
//! allocator of this test counts. Limit, slack and data are small, so that the test takes seconds;
//! the data is several times as large as limit and slack together.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;

use query::source::{ScanUnit, Source, SourceError, Table, Tables, TimeRange, Whose};
use query::{Context, Facets, HitsRequest, Limits, Query, RunError, StatsQuery};
use record::{Batch, BatchBuilder, Format, FrameBuilder, LineId, Origin, Transport};

/// Bytes that this thread holds, and their maximum since the last reset.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that ends has no counter any more; its bytes do not matter.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// SAFETY: all calls are passed unchanged to the system allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Memory limit of the queries in this test.
const LIMIT_BYTES: u64 = 512 << 10;
/// Bytes that a query may hold beyond its limit: the longest value that a pipe makes of the huge
/// line, once while it grows and once in the next pipe; small allocations that are not counted; and
/// room that vectors and tables reserve beyond what is counted.
const SLACK_BYTES: usize = 2 << 20;
/// Length of the huge line. A hundred copies of it far exceed limit and slack.
const LINE_BYTES: usize = 128 << 10;
const COPIES: usize = 100;
/// Lines with all different values: the values alone exceed the limit, and each is kept together
/// with further bytes.
const LINES: usize = 25_000;

struct Memory(Vec<Arc<Batch>>);

struct Unit(Arc<Batch>);

impl Source for Memory {
    fn units(&self, _range: TimeRange, _: Whose) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
        Ok(self
            .0
            .iter()
            .map(|batch| Box::new(Unit(Arc::clone(batch))) as Box<dyn ScanUnit>)
            .collect())
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
        self.0.memory_bytes() as u64
    }
    fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
        Ok(Some(Arc::clone(&self.0)))
    }
}

fn batch(sequence: u64, records: &[Vec<(String, String)>]) -> Arc<Batch> {
    let mut frame = FrameBuilder::new();
    let origin = Origin::new(Transport::Http, Format::Auto, None);
    for fields in records {
        frame.push_line(&origin, 1, fields[0].1.as_bytes(), false);
    }
    let frame = Arc::new(frame.finish(1, sequence).expect("there are records"));
    let mut builder = BatchBuilder::new(frame.clone());
    for (line, fields) in frame.lines().zip(records) {
        builder.begin_row(&line);
        builder.set_time(sequence as i64);
        for (name, value) in fields {
            let id = builder.field_id(name).expect("few names");
            builder.push_made(id, value.as_bytes());
        }
        builder.end_row();
    }
    Arc::new(builder.finish())
}

fn fields(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// One huge line.
fn huge() -> Memory {
    let text = "words x=1 1.2.3.4 \"q\" ".repeat(LINE_BYTES / 22);
    Memory(vec![batch(1, &[fields(&[("_msg", &text), ("n", "1"), ("a", "[1,2,3]")])])])
}

/// Values that are all different.
fn many() -> Memory {
    let records = |from: usize| -> Vec<_> {
        let one = |i: usize| {
            let text = format!("line number {i:08} of many, with some words behind it");
            fields(&[("_msg", &text), ("n", &i.to_string()), ("a", "[1,2]")])
        };
        (from..from + LINES / 5).map(one).collect()
    };
    Memory((0..5).map(|part| batch(part as u64 + 1, &records(part * (LINES / 5)))).collect())
}

/// Lines of many fields.
fn wide() -> Memory {
    let record = |line: usize| -> Vec<(String, String)> {
        let field = |i: usize| (format!("field_{i:03}"), format!("value {line} of {i} and more"));
        let mut fields = fields(&[("_msg", "wide"), ("n", "1"), ("a", "[1]")]);
        fields.extend((0..900).map(field));
        fields
    };
    Memory(vec![batch(1, &(0..20).map(record).collect::<Vec<_>>())])
}

fn context() -> Context {
    context_with(LIMIT_BYTES)
}

/// A table that has every key; its only field has the value of the key.
#[derive(Debug)]
struct Echo {
    keys: Vec<String>,
    fields: Vec<String>,
}

impl Table for Echo {
    fn keys(&self) -> &[String] {
        &self.keys
    }

    fn fields(&self) -> &[String] {
        &self.fields
    }

    fn find(&self, key: &[&[u8]], each: &mut dyn FnMut(usize, &[u8])) {
        each(0, key[0]);
    }
}

#[derive(Debug)]
struct Echoes;

impl Tables for Echoes {
    fn table(&self, _: &str) -> Option<Arc<dyn Table>> {
        let (keys, fields) = (vec!["key".to_owned()], vec!["echo".to_owned()]);
        Some(Arc::new(Echo { keys, fields }))
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

fn context_with(memory_bytes_max: u64) -> Context {
    let run_time = std::time::Duration::MAX;
    let limits = Limits { memory_bytes_max, run_time, ..Limits::default() };
    Context { limits, tables: Some(Arc::new(Echoes)), ..Context::default() }
}

/// Runs `work`, and returns a failure if it exceeded limit and slack.
fn check(name: &str, work: impl FnOnce() -> Result<(), RunError>) -> Option<String> {
    check_with(name, LIMIT_BYTES as usize + SLACK_BYTES, work)
}

/// Runs `work`, and returns a failure if it held more than `bytes_max`.
fn check_with(
    name: &str,
    bytes_max: usize,
    work: impl FnOnce() -> Result<(), RunError>,
) -> Option<String> {
    let before = HELD.get();
    PEAK.set(before);
    let result = work();
    let peak = (PEAK.get() - before).max(0) as usize;
    if let Err(error) = &result {
        let text = error.to_string();
        assert!(
            text.contains("memory") || text.contains("bytes") || text.contains("fields"),
            "{text}"
        );
    }
    (peak > bytes_max).then(|| format!("{name}: {} KiB, {:?}", peak >> 10, result.err()))
}

fn run(text: &str, source: &Memory, context: &Context) -> Result<(), RunError> {
    let query = Query::parse(text, 0).unwrap_or_else(|error| panic!("{text:.200}: {error}"));
    query::run(&query, source, context, &mut |_| ControlFlow::Continue(())).map(drop)
}

/// For each pipe, texts behind the `|`; `{f}` is a field, `{c}` many fields.
const PIPES: &[(&str, &[&str])] = &[
    ("fields", &["fields {c} | sort by (n)"]),
    ("delete", &["delete n | sort by (_msg)"]),
    ("rename", &["rename {f} as r | sort by (r)"]),
    ("copy", &["sort by (n) | copy {f} as x1, {f} as x2 | sort by (n)"]),
    ("filter", &["filter {f}:* | sort by (n)"]),
    ("limit", &["limit 1000000 | sort by (n)"]),
    ("offset", &["offset 0 | sort by (n)"]),
    ("deduplicate", &["deduplicate by ({f})", "deduplicate"]),
    ("sort", &["sort by ({c})", "sort by ({f} desc) limit 3", "sort by (n) partition by ({c})"]),
    ("first", &["first 2 by ({c})"]),
    ("last", &["last 2 by ({c})"]),
    ("uniq", &["uniq by ({c}) with hits", "uniq by ({f})"]),
    ("top", &["top 100000000 by ({c})", "top by ({f})"]),
    ("stats", &["stats by ({c}) count() x", "stats by ({f}) max(n) x"]),
    (
        "running_stats",
        &[
            "running_stats by ({c}) count() x",
            "running_stats last({f}) x",
            "running_stats moving_avg(n, 9) x",
        ],
    ),
    ("total_stats", &["total_stats by ({f}) max({f}) x", "total_stats by ({c}) share(n) x"]),
    ("anomalies", &["anomalies by ({c}) n", "anomalies n step 1s"]),
    ("field_names", &["field_names"]),
    ("field_values", &["field_values {f}"]),
    ("facets", &["facets 1000000 max_values_per_field 1000000 max_value_len 100000000"]),
    ("patterns", &["patterns of {f}", "patterns by ({c})", "patterns by (n)"]),
    ("differences", &["differences where (n:1)", "differences 5 where ({f}:x) scale 0.5"]),
    ("extract", &["extract \"<x1> <x2> <x3>\" from {f} | sort by (n)"]),
    ("extract_regexp", &["extract_regexp \"(?P<x1>.+)\" from {f} | sort by (n)"]),
    ("unpack_json", &["pack_json as p | unpack_json from p result_prefix u. | sort by (n)"]),
    ("unpack_logfmt", &["pack_logfmt as p | unpack_logfmt from p result_prefix u. | sort by (n)"]),
    ("unpack_syslog", &["unpack_syslog from {f} | sort by (n)"]),
    (
        "unpack_words",
        &[
            "unpack_words from {f} as x | sort by (n)",
            "unpack_words from {f} as x drop_duplicates | sort by (n)",
        ],
    ),
    ("split", &["split ' ' from {f} as x | sort by (n)", "split '' from {f} as x | sort by (n)"]),
    ("lookup", &["lookup echo on ({f}) | sort by (n)"]),
    ("coalesce", &["coalesce ({c}) as x | sort by (n)", "coalesce (none, {f}) | sort by (n)"]),
    (
        "json_array_concat",
        &["split ' ' from {f} as x | json_array_concat '; ' from x as x | sort by (n)"],
    ),
    ("generate_sequence", &["generate_sequence 30000 | sort by (_msg)"]),
    (
        "unroll",
        &[
            "replace_regexp ('.', '1,') at {f} | format '[<{f}>1]' as x | unroll by (x) | stats count() x",
            "split ' ' from {f} as x | unroll by (x) | stats count() x",
            "sort by (n) | unroll by (a) | stats count() x",
        ],
    ),
    ("join", &["join by ({c}) (* | fields _msg, n)", "join by (a) (*) prefix x."]),
    ("union", &["union (* | sort by (n))"]),
    ("stream_context", &["stream_context before 1000 after 1000"]),
    ("math", &["math n + 1 as x | sort by (n)"]),
    ("format", &["format '<{f}><{f}><{f}>' as x | sort by (n)"]),
    ("replace", &["replace (' ', '          ') at {f} | sort by (n)"]),
    ("replace_regexp", &["replace_regexp ('[a-z]', '$0$0$0$0') at {f} | sort by (n)"]),
    ("collapse_nums", &["collapse_nums at {f} prettify | sort by (n)"]),
    ("decolorize", &["decolorize {f} | sort by (n)"]),
    ("pack_json", &["pack_json as x | sort by (n)"]),
    ("pack_logfmt", &["pack_logfmt as x | sort by (n)"]),
    ("len", &["len({f}) as x | sort by (n)"]),
    ("json_array_len", &["json_array_len({f}) as x | sort by (n)"]),
    ("hash", &["hash({f}) as x | sort by (n)"]),
    ("time_add", &["time_add 1h | sort by (n)"]),
    ("set_stream_fields", &["set_stream_fields {f} | sort by (n)"]),
    ("sample", &["sample 1 | sort by (n)"]),
    ("drop_empty_fields", &["drop_empty_fields | sort by (n)"]),
    ("blocks_count", &["blocks_count"]),
];

/// For each stats function, its arguments.
const FUNCTIONS: &[(&str, &[&str])] = &[
    ("count", &["{c}", "c*"]),
    ("count_empty", &["{c}"]),
    ("count_uniq", &["{c}", "{f}", "c*"]),
    ("count_uniq_hash", &["{c}", "{f}"]),
    ("sum", &["{c}"]),
    ("sum_len", &["{c}"]),
    ("avg", &["{c}"]),
    ("stddev", &["{c}"]),
    ("min", &["{c}"]),
    ("max", &["{c}"]),
    ("sketch", &["{c}"]),
    ("sketch_quantile", &["0.9, {c}"]),
    ("quantile", &["0.9, {c}"]),
    ("median", &["{c}"]),
    ("histogram", &["{f}"]),
    ("range", &["{c}"]),
    ("rate", &[""]),
    ("rate_sum", &["{c}"]),
    ("any", &["{c}"]),
    ("values", &["{c}", "{f}", "c*"]),
    ("uniq_values", &["{c}", "{f}", "c*"]),
    ("row_any", &["{c}", "", "c*"]),
    ("row_min", &["n, {c}", "n"]),
    ("row_max", &["n, {c}", "n"]),
    ("field_min", &["n, {f}"]),
    ("field_max", &["n, {f}"]),
    ("json_values", &["{c}", "", "n"]),
];

/// Names that the parser accepts behind `text`.
fn known_after(text: &str) -> Vec<String> {
    let names = Query::parse(text, 0).expect_err("something is missing").expected;
    let is_name = |name: &String| name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    names.into_iter().filter(is_name).collect()
}

fn all_copies() -> (String, String) {
    let copies: Vec<String> = (0..COPIES).map(|i| format!("_msg as c{i}")).collect();
    let names: Vec<String> = (0..COPIES).map(|i| format!("c{i}")).collect();
    (format!("copy {}", copies.join(", ")), names.join(", "))
}

/// Calls `each` with the query of a template over each source, without and with copies of its
/// largest field.
fn each_text(template: &str, mut each: impl FnMut(String)) {
    let (copy, names) = all_copies();
    let repeated = vec!["_msg"; COPIES].join(", ");
    if template.contains("{c}") || template.contains("c*") {
        each(format!("* | {copy} | {}", template.replace("{c}", &names).replace("{f}", "_msg")));
    }
    each(format!("* | {}", template.replace("{c}", &repeated).replace("{f}", "_msg")));
}

fn check_all(templates: impl Iterator<Item = String>) {
    let sources = [("huge", huge()), ("many", many()), ("wide", wide())];
    let mut failed = Vec::new();
    for template in templates {
        for (kind, source) in &sources {
            each_text(&template, |text| {
                // Grouping by the same field twice is an error.
                if Query::parse(&text, 0).is_ok() {
                    let name = format!("{kind}: {template}");
                    failed.extend(check(&name, || run(&text, source, &context())));
                }
            });
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn every_pipe_stays_within_its_limit() {
    for name in known_after("* | ") {
        assert!(PIPES.iter().any(|(known, _)| *known == name), "no case for the pipe {name}");
    }
    check_all(PIPES.iter().flat_map(|(_, templates)| *templates).map(|text| text.to_string()));
}

#[test]
fn every_stats_function_stays_within_its_limit() {
    for name in known_after("* | stats ") {
        assert!(FUNCTIONS.iter().any(|(known, _)| *known == name), "no case for {name}()");
    }
    let calls = FUNCTIONS.iter().flat_map(|(name, arguments)| {
        arguments.iter().map(move |arguments| format!("{name}({arguments})"))
    });
    check_all(calls.flat_map(|call| [format!("stats {call} x"), format!("stats by (n) {call} x")]));
}

#[test]
fn many_functions_stay_within_the_limit() {
    let all = |call: &str| {
        let calls: Vec<String> = (0..COPIES).map(|i| format!("{call} r{i}")).collect();
        format!("stats {}", calls.join(", "))
    };
    let calls = ["row_any(_msg)", "max(_msg)", "any(_msg)", "values(_msg)", "count_uniq(_msg)"];
    check_all(calls.into_iter().map(all));
}

#[test]
fn a_limit_of_many_times_the_slack_holds() {
    // Each value is a group of its own. A pipe that counts half of what it holds passes with a
    // small limit, because of the slack, and fails with this one.
    const LIMIT_BYTES: usize = 8 << 20;
    let bytes_max = LIMIT_BYTES + LIMIT_BYTES / 4 + SLACK_BYTES;
    let source = many();
    let pipes = PIPES.iter().flat_map(|(_, templates)| *templates).map(|text| text.to_string());
    let functions = FUNCTIONS.iter().flat_map(|(name, arguments)| {
        arguments.iter().map(move |arguments| format!("stats by (_msg) {name}({arguments}) x"))
    });
    let groups = ["patterns of n by ({c})", "sort by (n) partition by ({c}) limit 1"];
    let mut failed = Vec::new();
    for template in pipes.chain(functions).chain(groups.map(str::to_owned)) {
        let text = format!("* | {}", template.replace("{c}", "_msg").replace("{f}", "_msg"));
        let context = context_with(LIMIT_BYTES as u64);
        failed.extend(check_with(&template, bytes_max, || run(&text, &source, &context)));
    }
    let (query, context) = (Query::parse("*", 0).unwrap(), context_with(LIMIT_BYTES as u64));
    let request = HitsRequest {
        step_ns: 1,
        offset_ns: 0,
        fields: vec!["_msg".to_owned()],
        fields_limit: None,
        empty_buckets: true,
    };
    let hits = || query::hits(&query, &source, &context, &request).map(drop);
    failed.extend(check_with("hits", bytes_max, hits));
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn every_endpoint_stays_within_its_limit() {
    let mut failed = Vec::new();
    let repeated = vec!["_msg".to_owned(); COPIES];
    let (copy, names) = all_copies();
    let names: Vec<String> = names.split(", ").map(str::to_owned).collect();
    for (kind, source) in [("huge", huge()), ("many", many()), ("wide", wide())] {
        for (what, text, fields) in
            [("repeated", "*".to_owned(), &repeated), ("copies", format!("* | {copy}"), &names)]
        {
            let query = Query::parse(&text, 0).unwrap();
            let mut check = |name: &str, work: &dyn Fn(&Context) -> Result<(), RunError>| {
                let one = context();
                failed.extend(self::check(&format!("{kind}, {what}: {name}"), || work(&one)));
            };
            let request = HitsRequest {
                step_ns: 1,
                offset_ns: 0,
                fields: fields.clone(),
                fields_limit: None,
                empty_buckets: true,
            };
            check("hits", &|context| query::hits(&query, &source, context, &request).map(drop));
            let most = Facets {
                limit: 1 << 30,
                values_max: 1 << 30,
                value_bytes_max: 1 << 30,
                keep_const_fields: true,
            };
            check("facets", &|context| query::facets(&query, &source, context, &most).map(drop));
            check("field_names", &|context| {
                query::field_names(&query, &source, context, "").map(drop)
            });
            check("field_values", &|context| {
                query::field_values(&query, &source, context, "_msg", "", None).map(drop)
            });
            check("streams", &|context| query::streams(&query, &source, context, None).map(drop));
            let stats = format!("{text} | stats by ({}) count() x, max(_msg) y", names.join(", "));
            let stats = StatsQuery::new(&Query::parse(&stats, 0).unwrap(), Some((1, 0))).unwrap();
            check("stats", &|context| stats.run(&source, context).map(drop));
            check("newest", &|context| {
                let context = Context { limit: Some(100), ..context.clone() };
                run(&text, &source, &context)
            });
            // The rest is read again each time the memory is full of earlier rows, so the limit
            // keeps the number of passes small.
            check("ordered", &|context| {
                let (order, limit) = (Some(Default::default()), Some(1_000));
                run(&text, &source, &Context { order, limit, ..context.clone() })
            });
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn rows_that_grow_from_pipe_to_pipe_end() {
    let source = wide();
    let doubled: String = (0..25).map(|i| format!(" | copy field_* as field_{i}_*")).collect();
    let in_one: Vec<String> = (0..25).map(|i| format!("field_* as field_{i}_*")).collect();
    let long = "n".repeat(20_000);
    let renamed: String = (0..8).map(|i| format!(" | copy field_* as {long}{i}*")).collect();
    for text in [
        format!("*{doubled}"),
        format!("* | sort by (n){doubled}"),
        format!("* | copy {}", in_one.join(", ")),
        format!("*{renamed}"),
        format!("* | sort by (n){renamed}"),
        format!("* | rename field_* as {long}* | sort by (n)"),
    ] {
        let failed = check("fields", || match run(&text, &source, &context()) {
            Err(error @ (RunError::FieldLimit(_) | RunError::MemoryLimit(_))) => Err(error),
            other => panic!("{:.100}: {other:?}", text),
        });
        assert_eq!(failed, None);
    }
}
