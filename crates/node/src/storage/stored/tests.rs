//! Random queries over a real store, in all forms that its lines pass through, compared with the
//! same queries over the raw lines, parsed now and evaluated one by one.
//!
//! A history makes random lines of several kinds and puts them in a store: hot, sealed, re-encoded,
//! some deleted, with more arriving. In each state random queries run twice, on two threads and
//! with the cached results of earlier states. The raw lines are the reference model: the tests of
//! the crate `query` compare filters and pipes over single lines with a naive evaluator.

use std::collections::HashSet;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use fastrand::Rng;
use platform::{Clock, Disk, ManualClock, OnDurable, Patience, RealDisk, SimDisk};
use query::{Context, Filter, HiddenFields, Limits, Query, Restriction, Scratch, TimeOrder};
use record::{Format, FrameBuilder, Hints, Origin, ParserConfig, Tenant, Transport};
use store::{LineFilter, Position, SegmentState, Step, StoreCallbacks, StoreConfig};

use crate::storage::line_filter::line_filter;
use crate::storage::stored::*;

/// Histories. Each has some thousand lines and some hundred queries.
const HISTORIES: u64 = 2;
/// Queries in each state.
const QUERIES: usize = 40;
const SECOND_NS: i64 = 1_000_000_000;
const START_S: i64 = 1_790_000_000;

fn parsers() -> Arc<Parsers> {
    let config = ParserConfig::default();
    Arc::new(Parsers::new(Parser::new(&config).expect("no rules")))
}

/// The raw lines: no frame was parsed before.
struct Sent {
    frames: Vec<Arc<Batch>>,
}

struct SentFrame(Arc<Batch>);

impl Source for Sent {
    fn units(
        &self,
        _range: TimeRange,
        whose: Whose,
    ) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
        let unit = |batch: &Arc<Batch>| Box::new(SentFrame(batch.clone())) as Box<dyn ScanUnit>;
        let is_seen = |batch: &&Arc<Batch>| whose == Whose::All || !batch.is_internal();
        Ok(self.frames.iter().filter(is_seen).map(unit).collect())
    }

    fn find(&self, _id: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
        Ok(None)
    }
}

impl ScanUnit for SentFrame {
    fn time_range_ns(&self) -> Option<(i64, i64)> {
        None
    }

    fn lines(&self) -> u64 {
        self.0.len() as u64
    }

    fn bytes(&self) -> u64 {
        self.0.raw_bytes()
    }

    fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
        Ok(Some(self.0.clone()))
    }
}

/// Deletes and parses as the server does, and reports the machine as idle if the test wants it.
struct TestCallbacks {
    parsers: Arc<Parsers>,
    idle: AtomicBool,
}

impl StoreCallbacks for TestCallbacks {
    fn parse(&self, frame: Arc<Frame>) -> Batch {
        self.parsers.parse(frame)
    }

    fn filter(&self, text: &str, now_ns: i64) -> Result<LineFilter, String> {
        line_filter(text, now_ns)
    }

    fn is_idle(&self) -> bool {
        self.idle.load(Ordering::Relaxed)
    }
}

/// A store and the lines that were sent to it.
struct History {
    rng: Rng,
    _directory: tempfile::TempDir,
    clock: Arc<ManualClock>,
    callbacks: TestCallbacks,
    store: Arc<Store>,
    stored: Stored,
    sent: Sent,
    /// Whether some frames hold own lines of Loginson. These are never grouped with others.
    with_own: bool,
    /// Whose lines are sent.
    tenants: &'static [Tenant],
}

impl History {
    fn new(seed: u64) -> History {
        let directory = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> =
            Arc::new(SimDisk::new(seed).with_os_dir(directory.path().to_owned()));
        let clock = Arc::new(ManualClock::new(START_S * SECOND_NS));
        let config = StoreConfig {
            commit_interval_ms: 0,
            disk_free_bytes_min: 0,
            background_bytes_per_s_max: None,
            ..StoreConfig::new("/data")
        };
        let store = Store::open(config, disk, clock.clone() as Arc<dyn Clock>).unwrap().0;
        let parsers = parsers();
        let answers = Arc::new(Answers::new(1 << 20));
        History {
            rng: Rng::with_seed(seed),
            _directory: directory,
            clock,
            callbacks: TestCallbacks { parsers: parsers.clone(), idle: false.into() },
            stored: Stored::new(store.clone(), parsers, answers),
            store,
            sent: Sent { frames: Vec::new() },
            with_own: true,
            tenants: &[Tenant::DEFAULT],
        }
    }

    /// Sends some frames, which form one hot segment.
    fn send(&mut self) {
        let frames = self.rng.usize(1..4);
        self.send_frames(frames, 1..1_200, 40);
        if self.rng.bool() {
            self.parse_all();
        }
    }

    /// Sends frames with a number of lines in `lines`, less than `apart_s` seconds apart.
    fn send_frames(&mut self, frames: usize, lines: Range<usize>, apart_s: i64) {
        for _ in 0..frames {
            self.clock.advance_ns(self.rng.i64(0..apart_s) * SECOND_NS);
            let now_ns = self.clock.now_ns();
            let is_own = self.with_own && self.rng.u8(..5) == 0;
            let origins: Vec<Origin> = match is_own {
                true => vec![programs::summary::Recount::origin()],
                false => self.tenants.iter().map(|tenant| origin_of(*tenant)).collect(),
            };
            let has_heads = self.rng.bool();
            let (mut one, mut other) = (FrameBuilder::new(), FrameBuilder::new());
            for _ in 0..self.rng.usize(lines.clone()) {
                let received_ns = now_ns + self.rng.i64(0..3 * SECOND_NS);
                let line = match is_own {
                    true => own_line(&mut self.rng, received_ns),
                    false if has_heads => line_with_head(&mut self.rng, received_ns),
                    false => line(&mut self.rng, received_ns),
                };
                let origin = match &origins[..] {
                    [only] => only,
                    several => &several[self.rng.usize(..several.len())],
                };
                for builder in [&mut one, &mut other] {
                    builder.push_line(origin, received_ns, line.as_bytes(), false);
                }
            }
            let (node, sequence) = self.store.next_sequence();
            let frame = one.finish(node, sequence).expect("it has lines");
            let sent = other.finish(node, sequence).expect("it has lines");
            self.sent.frames.push(Arc::new(self.callbacks.parse(Arc::new(sent))));
            self.keep(frame);
        }
    }

    fn append(&self, mut builder: FrameBuilder) {
        let (node, sequence) = self.store.next_sequence();
        self.keep(builder.finish(node, sequence).expect("it has lines"));
    }

    fn keep(&self, frame: Frame) {
        let (done, durable) = mpsc::channel();
        let on_durable: OnDurable = Box::new(move |kept| done.send(kept).unwrap());
        self.store.append(vec![(frame, on_durable)], Patience::Awaited).unwrap();
        durable.recv().unwrap().unwrap();
    }

    fn parse_all(&self) {
        let mut after = Position::START;
        loop {
            let frames = self.store.wait_committed(after, std::time::Duration::ZERO, || false);
            let Some(last) = frames.last() else { return };
            after = last.position;
            for frame in frames {
                let batch = self.stored.parsers.load_frame(&frame.handle).unwrap().unwrap();
                self.store.set_times(frame.position, batch.time_range_ns());
                self.store.set_settled(frame.position);
            }
        }
    }

    /// Seals the hot segments; if `idle`, also re-encodes.
    fn work(&self, idle: bool) {
        self.store.roll();
        self.parse_all();
        self.callbacks.idle.store(idle, Ordering::Relaxed);
        while self.store.background_step(&self.callbacks) == Step::Worked {}
    }

    fn delete(&mut self) {
        let filter = filter(&mut self.rng);
        self.store.delete_lines(&filter).unwrap();
        self.work(false);
        let doomed = Query::parse(&filter, 0).unwrap();
        let mut gone: HashSet<LineId> = HashSet::new();
        let context = Context::default();
        query::run(&doomed, &self.sent, &context, &mut |rows| {
            (0..rows.len()).for_each(|row| {
                let (batch, row_in_batch) = rows.line(row).expect("a filter makes no rows");
                gone.insert(batch.row(row_in_batch as usize).id());
            });
            ControlFlow::Continue(())
        })
        .unwrap();
        for frame in &mut self.sent.frames {
            if frame.rows().any(|row| gone.contains(&row.id())) {
                let rows: Vec<u32> = (0..frame.len() as u32)
                    .filter(|&row| !gone.contains(&frame.row(row as usize).id()))
                    .collect();
                *frame = Arc::new(without(frame, &rows));
            }
        }
        self.sent.frames.retain(|frame| !frame.is_empty());
    }

    fn query(&mut self, state: &str) {
        for _ in 0..QUERIES {
            let (text, context) = random_query(&mut self.rng);
            let query = Query::parse(&text, 0).unwrap_or_else(|error| panic!("{text}: {error}"));
            let expected =
                rows(&query, &self.sent, &Context { limits: limits(1), ..context.clone() });
            for time in ["first", "second"] {
                let found =
                    rows(&query, &self.stored, &Context { limits: limits(2), ..context.clone() });
                let (more, less) = (only_in(&found, &expected), only_in(&expected, &found));
                assert!(
                    found == expected,
                    "{state}, the {time} time: {text}, limit {:?}: {} rows, not {}\ntoo much {more:#?}\nmissing {less:#?}",
                    context.limit,
                    found.len(),
                    expected.len()
                );
            }
        }
    }

    /// Random queries with random restrictions, beside the same queries over lines that hold only
    /// what the restriction lets be seen.
    fn query_restricted(&mut self, state: &str, queries: usize) {
        for _ in 0..queries {
            let restriction = random_restriction(&mut self.rng);
            let restriction = match self.tenants {
                [Tenant::DEFAULT] => restriction,
                _ => restriction_to_tenants(&mut self.rng).and(&restriction),
            };
            let (text, context) = match self.rng.u8(..4) {
                0 => (random_pipe(&mut self.rng), Context::default()),
                1 => (random_counts(&mut self.rng), Context::default()),
                _ => random_query(&mut self.rng),
            };
            let query = Query::parse(&text, 0).unwrap_or_else(|error| panic!("{text}: {error}"));
            let allowed = Sent { frames: allowed(&self.sent.frames, &restriction) };
            let expected =
                outcome(&query, &allowed, &Context { limits: limits(1), ..context.clone() });
            for time in ["first", "second"] {
                let context = Context {
                    limits: limits(2),
                    restriction: restriction.clone(),
                    ..context.clone()
                };
                let found = outcome(&query, &self.stored, &context);
                let (more, less) = (only_in(&found, &expected), only_in(&expected, &found));
                assert!(
                    found == expected,
                    "{state}, the {time} time: {text}, restricted to '{restriction}', limit {:?}: \
                     {} rows, not {}\ntoo much {more:#?}\nmissing {less:#?}",
                    context.limit,
                    found.len(),
                    expected.len()
                );
            }
        }
    }

    fn states(&self) -> Vec<SegmentState> {
        self.store.segments().iter().map(|segment| segment.state).collect()
    }
}

/// Of lines that arrive for a tenant.
fn origin_of(tenant: Tenant) -> Origin {
    let hints = Arc::new(Hints { tenant, ..Hints::default() });
    Origin { hints, ..Origin::new(Transport::SyslogTcp, Format::Auto, None) }
}

/// A batch without some of its rows, with the ids that its lines have.
fn without(batch: &Arc<Batch>, rows: &[u32]) -> Batch {
    let names = batch.names().to_vec();
    let origins = batch.origins().into();
    let mut builder = record::RestoredBuilder::new(names, origins, rows.len(), 0, 0);
    for &row in rows {
        let row = batch.row(row as usize);
        builder.line().extend_from_slice(row.raw());
        for (name, value) in row.fields() {
            let at = builder.arena().len() as u32;
            builder.arena().extend_from_slice(value);
            builder.push_field(name, record::Place::Made(at), value.len() as u32);
        }
        let stem = builder.stem_of(row.origin_index());
        builder.end_row((row.id(), row.sequence()), row.time_ns(), row.received_ns(), stem);
    }
    builder.finish()
}

/// What a restriction lets be seen of frames: other code than that which restricts queries.
fn allowed(frames: &[Arc<Batch>], to: &Restriction) -> Vec<Arc<Batch>> {
    let hides = |name: &str| to.hidden.as_ref().is_some_and(|hidden| hidden.hides(name));
    let stripped = |frame: &Arc<Batch>, rows: &[u32]| {
        let names: Vec<Arc<str>> =
            frame.names().iter().filter(|name| !hides(name)).cloned().collect();
        let origins = frame.origins().into();
        let mut builder = record::RestoredBuilder::new(names.clone(), origins, rows.len(), 0, 0);
        for &row in rows {
            let row = frame.row(row as usize);
            if to.hidden.is_none() {
                builder.line().extend_from_slice(row.raw());
            }
            for (id, value) in row.fields() {
                let place = names.iter().position(|name| **name == *frame.name(id));
                let Some(place) = place else { continue };
                let at = builder.arena().len() as u32;
                builder.arena().extend_from_slice(value);
                let name = record::FieldId(place as u16);
                builder.push_field(name, record::Place::Made(at), value.len() as u32);
            }
            let stem = builder.stem_of(row.origin_index());
            builder.end_row((row.id(), row.sequence()), row.time_ns(), row.received_ns(), stem);
        }
        Arc::new(builder.finish())
    };
    let all = |frame: &Arc<Batch>| (0..frame.len() as u32).collect::<Vec<_>>();
    let sent = frames.iter().filter(|frame| !frame.is_internal());
    let frames: Vec<Arc<Batch>> = sent.map(|frame| stripped(frame, &all(frame))).collect();
    let Some(filter) = &to.filter else { return frames };
    let mut seen: HashSet<LineId> = HashSet::new();
    let query = Query::new((**filter).clone(), Vec::new());
    let source = Sent { frames };
    query::run(&query, &source, &Context::default(), &mut |rows| {
        (0..rows.len()).for_each(|row| {
            let (batch, place) = rows.line(row).expect("a filter makes no rows");
            seen.insert(batch.row(place as usize).id());
        });
        ControlFlow::Continue(())
    })
    .unwrap();
    let left = source.frames.iter().map(|frame| {
        let rows = frame.rows().filter(|row| seen.contains(&row.id())).map(|row| row.index());
        stripped(frame, &rows.collect::<Vec<_>>())
    });
    left.filter(|frame| !frame.is_empty()).collect()
}

/// The rows of a result, or its error.
fn outcome(query: &Query, source: &dyn Source, context: &Context) -> Vec<String> {
    match try_rows(query, source, context) {
        Ok(rows) => rows,
        Err(error) => vec![error],
    }
}

fn limits(threads: usize) -> Limits {
    Limits { threads, ..Limits::default() }
}

/// The first rows of one result that are not in the other.
fn only_in<'r>(one: &'r [String], other: &[String]) -> Vec<&'r String> {
    one.iter().filter(|row| !other.contains(row)).take(3).collect()
}

/// The rows of a result as text, with fields by name; sorted, unless the query sorts them.
fn rows(query: &Query, source: &dyn Source, context: &Context) -> Vec<String> {
    try_rows(query, source, context).unwrap_or_else(|error| panic!("{query}: {error}"))
}

fn try_rows(query: &Query, source: &dyn Source, context: &Context) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let mut scratch = Scratch::default();
    query::run(query, source, context, &mut |rows| {
        for row in 0..rows.len() {
            let mut fields = Vec::new();
            rows.visit(row, &mut scratch, |name, value| {
                fields.push(format!("{name}={}", value.escape_ascii()));
            });
            fields.sort();
            found.push(fields.join(" "));
        }
        ControlFlow::Continue(())
    })
    .map_err(|error| error.to_string())?;
    if context.order.is_none() && context.limit.is_none() {
        found.sort();
    }
    Ok(found)
}

// ---- random lines and queries ----

fn pick<'a>(rng: &mut Rng, of: &[&'a str]) -> &'a str {
    of[rng.usize(..of.len())]
}

const WORDS: &[&str] = &[
    "error", "Error", "failed", "root", "10.0.0.7", "x_1", "é", "тест", "timeout", "a-b", "=",
    "\"q\"", "blk_77",
];
const HOSTS: &[&str] = &["web1", "web2", "db-1"];
const APPS: &[&str] = &["sshd", "nginx", "app.shop"];

fn words(rng: &mut Rng) -> String {
    (0..rng.usize(0..5))
        .map(|_| pick(rng, WORDS))
        .collect::<Vec<_>>()
        .join(pick(rng, &[" ", ", ", "", ":"]))
}

fn address(rng: &mut Rng) -> String {
    format!("10.{}.0.{}", rng.u8(0..3), rng.u8(0..30))
}

/// A row of the summary.
fn own_line(rng: &mut Rng, received_ns: i64) -> String {
    let time = text::time::format_time(received_ns / 10 / SECOND_NS * 10 * SECOND_NS);
    let error = rng.u32(..99);
    format!(
        "{{\"_time\":\"{time}\",\"summary_of\":\"{}\",\"bucket_s\":10,\"lines\":{error},\
         \"level\":{{\"error\":{error}}},\"_msg\":\"summary of some error lines\"}}",
        pick(rng, &["syslog", "access"])
    )
}

/// A line whose time is known without parsing it, with few exceptions.
fn line_with_head(rng: &mut Rng, received_ns: i64) -> String {
    if rng.u8(..100) == 0 {
        return line(rng, received_ns);
    }
    let time_s = received_ns / SECOND_NS - rng.i64(0..40);
    let (host, app) = (pick(rng, HOSTS), pick(rng, APPS));
    let zone = pick(rng, &["Z", "+00:00"]);
    let (time, rest) = (text::time::format_time(time_s * SECOND_NS), words(rng));
    let time = time.trim_end_matches('Z');
    match rng.u8(..3) {
        0 => format!(
            "<30>1 {time}.{:03}{zone} {host} {app} {} - - {rest}",
            rng.u16(..999),
            rng.u8(..)
        ),
        1 => format!("<30>1 {time}{zone} {host} {app} - - [a@1 n=\"{}\"] {rest}", rng.u8(..)),
        _ => format!("<30>{time}{zone} {host} {app}[{}]: {rest}", rng.u8(..)),
    }
}

fn line(rng: &mut Rng, received_ns: i64) -> String {
    // Some lines arrive late, a few of them by days.
    let late_s = if rng.u8(..) < 20 { rng.i64(0..400_000) } else { rng.i64(0..5) };
    let time_s = received_ns / SECOND_NS - late_s;
    let time = text::time::format_time(time_s * SECOND_NS);
    let (host, app) = (pick(rng, HOSTS), pick(rng, APPS));
    match rng.u8(..10) {
        0..4 => format!(
            "<{}>1 {time} {host} {app} {} - - Failed password for {} from {} port {} id {:016x}",
            rng.u8(..64),
            rng.u16(1..2_000),
            pick(rng, &["root", "admin", "guest"]),
            address(rng),
            rng.u16(..),
            rng.u64(..)
        ),
        4..6 => format!("<{}>1 {time} {host} {app} - - - {}", rng.u8(..64), words(rng)),
        6 => format!(
            "{{\"_time\":\"{time}\",\"level\":\"{}\",\"_msg\":\"{}\",\"n\":{},\"user\":{{\"name\":\"{}\"}}}}",
            pick(rng, &["info", "WARN", "error"]),
            words(rng).replace('"', "'"),
            rng.i32(-5..500),
            pick(rng, HOSTS)
        ),
        7 => format!(
            "{} - {} [21/Sep/2026:14:13:{:02} +0000] \"GET /{}?q={} HTTP/1.1\" {} {} \"-\" \"curl/8\"",
            address(rng),
            pick(rng, &["-", "frank"]),
            rng.u8(..60),
            pick(rng, WORDS).replace('"', ""),
            rng.u8(..),
            pick(rng, &["200", "404", "500"]),
            rng.u32(..90_000)
        ),
        8 => words(rng),
        _ => format!("{time} {host} level={} {}", pick(rng, &["info", "error"]), words(rng)),
    }
}

/// A filter with one condition.
fn test(rng: &mut Rng) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\\\""));
    let word = |rng: &mut Rng| quoted(pick(rng, WORDS));
    match rng.u8(..22) {
        0 => word(rng),
        1 => format!("{}*", word(rng)),
        2 => format!("*{}*", quoted(pick(rng, &["rro", "oot f", "10.1", "_7", "é", "port 1"]))),
        3 => pick(
            rng,
            &["\"Failed password\"", "\"password for root\"", "i(ERROR)", "i(\"FAILED pass\"*)"],
        )
        .to_owned(),
        4 => format!(
            "~{}",
            quoted(pick(
                rng,
                &[
                    "port [0-9]{3}1",
                    "err|tim.*out",
                    "^Failed",
                    "[a-f0-9]{16}$",
                    "(root|admin) from"
                ]
            ))
        ),
        5 => format!("\"{}\"", address(rng)),
        6 => format!("app_name:={}", quoted(pick(rng, APPS))),
        7 => format!("hostname:in({}, x)", quoted(pick(rng, HOSTS))),
        8 => format!("level:{}", pick(rng, &["error", "=info", "in(error, warning)", "\"\"", "*"])),
        9 => format!("severity:<{}", rng.u8(..8)),
        10 => format!("n:range[{}, 300)", rng.i32(-5..400)),
        11 => format!("{{hostname={}}}", quoted(pick(rng, HOSTS))),
        12 => format!("user.name:{}", pick(rng, &["web1", "web*", "=db-1"])),
        13 => {
            let from = START_S + rng.i64(-100..200);
            format!("_time:[{from}, {}{}", from + rng.i64(1..100), pick(rng, &["]", ")"]))
        }
        14 => format!("type:{}", pick(rng, &["=json", "syslog*", "*"])),
        15 => format!("status:{}", pick(rng, &["404", ">=404", "in(200, 500)"])),
        16 => format!("proc_id:{}", rng.u16(1..2_000)),
        17 => format!("len_range({}, 60)", rng.u8(..50)),
        18 => format!("client_ip:ipv4_range({}, 10.1.0.255)", address(rng)),
        19 => format!("*:{}", pick(rng, &["error", "root", "web1", "=sshd", "i(WARN)", "\"\""])),
        20 => {
            format!("{}*:{}", pick(rng, &["user.", "h", "none"]), pick(rng, &["web*", "db-1", "*"]))
        }
        _ => "*".to_owned(),
    }
}

fn filter(rng: &mut Rng) -> String {
    match rng.u8(..8) {
        0 => format!("{} {}", test(rng), test(rng)),
        6 => "*".to_owned(),
        // Own lines of Loginson, by type and without it.
        7 => pick(
            rng,
            &[
                "_type:summary",
                "_type:=summary",
                "_type:in(summary, syslog)",
                "!_type:summary",
                "error _type:*",
            ],
        )
        .to_owned(),
        1 => format!("{} or {}", test(rng), test(rng)),
        2 => format!("!{} {}", test(rng), test(rng)),
        _ => test(rng),
    }
}

fn random_query(rng: &mut Rng) -> (String, Context) {
    let mut context = Context::default();
    if rng.u8(..4) == 0 {
        let start_ns =
            (START_S + rng.i64(-50..150)) * SECOND_NS + pick(rng, &["", "x"]).len() as i64;
        context.range = TimeRange { start_ns, end_ns: start_ns + rng.i64(1..120) * SECOND_NS };
    }
    let filter = filter(rng);
    let fields = [
        "app_name",
        "level",
        "_level",
        "hostname",
        "_type",
        "severity",
        "user.name",
        "status",
        "_stream",
        "proc_id",
    ];
    let (one, other) = (pick(rng, &fields), pick(rng, &["_level", "app_name", "n", "facility"]));
    let pipe = match rng.u8(..16) {
        0 => "stats count() c".to_owned(),
        1 | 2 => format!("stats by ({one}) count() c"),
        3 | 4 if one != other => format!("stats by ({one}, {other}) count() c"),
        5 => format!(
            "stats by (_time:{}) count() c",
            pick(rng, &["1s", "7s", "1m", "1h offset 2s", "1d offset 1h"])
        ),
        6 => format!("stats by (_time:{}, {one}) count() c", pick(rng, &["1s", "10s", "1h"])),
        7 => format!("stats count() c, count() if ({other}:*) d, count() if ({one}:=error) e"),
        8 => format!("top 3 by ({one}, {other}_)"),
        9 => format!("uniq by ({one}) with hits"),
        10 => format!("stats by ({one}) sum(n) s, count_uniq({other}) u, max(_time) t"),
        11 => format!("fields _time, {one}, _msg"),
        12 => {
            context.limit = Some(rng.usize(1..40));
            context.include = vec!["_line_id".into()];
            "fields _time, _msg, app_name".to_owned()
        }
        13 => {
            context.limit = Some(rng.usize(1..40));
            format!("filter {}", test(rng))
        }
        14 => {
            context.order = Some(TimeOrder::default());
            context.limit = Some(rng.usize(1..400));
            context.include = vec!["_line_id".into(), "_line".into()];
            "fields *".to_owned()
        }
        _ => {
            context.include = vec!["_line_id".into(), "_line".into(), "_received".into()];
            "fields *".to_owned()
        }
    };
    (format!("{filter} | {pipe}"), context)
}

/// Pipes whose rows say how lines are stored, that are random, or that read further lines, which
/// [`Sent`] does not give.
const OF_STORAGE: &[&str] = &["blocks_count", "sample", "stream_context"];

/// The example of a pipe or of a function of `stats`, over lines in an order that does not depend
/// on how they are stored.
fn random_pipe(rng: &mut Rng) -> String {
    let pipes = query::pipe_documentation().map(|doc| (doc.name, doc.example.to_owned()));
    let functions = query::function_documentation()
        .map(|doc| (doc.name, format!("stats by (hostname) {}", doc.example)));
    let known: Vec<(&str, String)> =
        pipes.chain(functions).filter(|(name, _)| !OF_STORAGE.contains(name)).collect();
    let (_, example) = &known[rng.usize(..known.len())];
    format!("{} | sort by (_time, _line_id) | {example}", filter(rng))
}

/// Some lines, some fields, or both.
fn random_restriction(rng: &mut Rng) -> Restriction {
    let all = [
        "hostname",
        "proc_id",
        "level",
        "_level",
        "user.*",
        "client_ip",
        "_msg",
        "app_name",
        "n",
        "h*",
        "status",
        "severity",
    ];
    let mut hidden: Vec<&str> = Vec::new();
    for _ in 0..rng.usize(..4) {
        hidden.push(pick(rng, &all));
    }
    let hidden = HiddenFields::parse(&hidden).unwrap();
    let filter = match rng.u8(..3) {
        0 => None,
        _ => std::iter::repeat_with(|| format!("{} or {}", test(rng), test(rng)))
            .find_map(|text| Filter::of_restriction(&text, hidden.as_deref()).ok()),
    };
    let without_own = Restriction::from(Arc::new(Filter::without_own()));
    without_own.and(&Restriction { filter: filter.map(Arc::new), hidden })
}

/// Tenants of histories: their lines, and of whom there are none.
const TENANTS: [Tenant; 4] = [
    Tenant { account: 12, project: 3 },
    Tenant { account: 13, project: 0 },
    Tenant::DEFAULT,
    Tenant { account: 99, project: 0 },
];

/// The lines of one tenant or of two.
fn restriction_to_tenants(rng: &mut Rng) -> Restriction {
    let mut tenants: Vec<Tenant> =
        (0..rng.usize(1..3)).map(|_| TENANTS[rng.usize(..TENANTS.len())]).collect();
    tenants.dedup();
    Restriction::from(Arc::new(Filter::of_tenants(&tenants)))
}

/// A query that segments may answer from the counts that they keep.
fn random_counts(rng: &mut Rng) -> String {
    let filters =
        ["*", "hostname:=web1", "!level:error", "_tenant:=\"12:3\"", "!_tenant:=\"\"", "error"];
    let by = [
        "",
        "by (_time:10s)",
        "by (_time:1h, level)",
        "by (hostname)",
        "by (_tenant)",
        "by (_type)",
        "by (level, _tenant)",
        "by (hostname, level)",
    ];
    let range = pick(rng, &["", "", "_time:>2026-09-21T14:13:30Z "]);
    format!("{range}{} | stats {} count() n", pick(rng, &filters), pick(rng, &by))
}

// ---- the tests ----

/// Restricted queries in each of the states of a history of [`check_restricted`].
const RESTRICTED: usize = 100;

/// 500 queries, in the forms that lines have.
fn check_restricted(seed: u64) {
    // Lines of the default tenant alone, of one tenant, of two of them, or of three.
    let tenants = [&TENANTS[2..3], &TENANTS[..1], &TENANTS[..2], &TENANTS[..3]];
    let mut history =
        History { tenants: tenants[seed as usize % tenants.len()], ..History::new(seed) };
    history.send_frames(3, 1..300, 40);
    history.query_restricted(&format!("history {seed}, not parsed"), RESTRICTED);
    history.parse_all();
    history.query_restricted(&format!("history {seed}, hot"), RESTRICTED);
    history.work(false);
    history.query_restricted(&format!("history {seed}, sealed"), RESTRICTED);
    history.send_frames(2, 1..300, 40);
    history.delete();
    history.query_restricted(&format!("history {seed}, some deleted"), RESTRICTED);
    history.work(true);
    history.query_restricted(&format!("history {seed}, encoded again"), RESTRICTED);
}

/// `LOGINSON_RESTRICTED=200` makes a long run, of 500 queries each.
#[test]
fn a_restricted_query_sees_only_what_it_may() {
    let histories = std::env::var("LOGINSON_RESTRICTED").map(|count| count.parse().unwrap());
    (100..100 + histories.unwrap_or(4)).for_each(check_restricted);
}

#[test]
fn queries_have_the_same_answers_in_every_form_of_lines() {
    for seed in 0..HISTORIES {
        let mut history = History::new(seed);
        history.send();
        history.query(&format!("history {seed}, hot"));
        history.send();
        history.work(false);
        history.query(&format!("history {seed}, sealed"));
        history.send();
        history.query(&format!("history {seed}, sealed and hot"));
        history.delete();
        history.query(&format!("history {seed}, some deleted"));
        history.send();
        history.work(true);
        assert!(history.states().iter().all(|state| *state == SegmentState::Sealed));
        history.query(&format!("history {seed}, encoded again"));
        history.delete();
        history.query(&format!("history {seed}, encoded again and some deleted"));
    }
}

#[test]
fn small_frames_are_read_as_one() {
    let mut history = History { with_own: false, ..History::new(11) };
    let groups = |history: &History| {
        let (groups, units) = history.store.snapshot_in_groups((i64::MIN, i64::MAX)).unwrap();
        let made = groups.iter().filter(|group| group.batch().is_some()).count();
        let frames: usize = groups.iter().map(|group| group.frames().len()).sum();
        (made, frames + units.len())
    };
    history.send_frames(300, 1..4, 2);
    history.parse_all();
    history.query("single lines");
    assert_eq!(groups(&history), (2, 300));
    // More lines arrive, some large, and some that are not parsed yet.
    history.send_frames(1, 600..1_200, 2);
    history.send_frames(200, 1..3, 2);
    history.parse_all();
    history.send_frames(5, 1..3, 2);
    history.query("single lines and more");
    assert_eq!(groups(&history), (4, 506));
    history.delete();
    history.query("single lines, sealed");
    assert_eq!(groups(&history).0, 0);
}

#[test]
fn frames_that_nobody_parsed_give_the_same_answers() {
    for seed in 20..24 {
        let mut history = History::new(seed);
        history.send_frames(3, 1..900, 40);
        history.query(&format!("history {seed}, not parsed"));
        history.send_frames(2, 1..300, 40);
        history.query(&format!("history {seed}, partly parsed by queries"));
        history.work(false);
        history.query(&format!("history {seed}, sealed"));
    }
}

/// The parse stage has not come to these frames yet.
#[test]
fn what_a_query_finds_out_about_a_frame_stays_known() {
    let history = History { with_own: false, ..History::new(5) };
    let origin = Origin::new(Transport::SyslogTcp, Format::Auto, None);
    for second in 0..3 {
        let mut builder = FrameBuilder::new();
        for line in 0..200 {
            let text = format!(
                "<30>1 2026-09-21T14:13:{:02}Z web1 app - - - word{line}",
                10 * second + line % 7
            );
            builder.push_line(&origin, START_S * SECOND_NS, text.as_bytes(), false);
        }
        history.append(builder);
    }
    let count = |text: &str| {
        let query = Query::parse(text, 0).unwrap();
        rows(&query, &history.stored, &Context { limits: limits(2), ..Context::default() })
    };
    assert_eq!(history.store.stats().frames_unparsed, 3);
    // The second of the three is in the range in part.
    let in_range = "_time:[2026-09-21T14:13:12Z, 2026-09-21T14:14:00Z)";
    assert_eq!(count(&format!("{in_range} | stats count() n")), ["n=342"]);
    assert_eq!(history.store.stats().frames_unparsed, 0);
    let is_cached = || {
        let frames = history.store.hot_frames();
        frames.iter().map(|frame| frame.cached().is_some()).collect::<Vec<_>>()
    };
    assert_eq!(is_cached(), [false; 3], "no frame was parsed");
    assert_eq!(
        count("* | stats by (_time:10s) count() n | sort by (_time) | fields n"),
        ["n=200"; 3]
    );
    let newest = "* | sort by (_time desc) | limit 1 | fields _time";
    assert_eq!(count(newest), ["_time=2026-09-21T14:13:26Z"]);
    assert_eq!(is_cached(), [false, false, true], "only the newest frame was parsed");
}

/// Files that were written before, as the tests of the crate `segment` keep them.
#[test]
fn fixtures_give_the_answers_of_their_lines() {
    let fixtures = Path::new("../segment/tests/fixtures");
    let mut rng = Rng::with_seed(7);
    for name in std::fs::read_dir(fixtures).unwrap().map(|entry| entry.unwrap().file_name()) {
        let name = name.into_string().unwrap();
        if !name.ends_with(".sealed") {
            continue;
        }
        let directory = tempfile::tempdir().unwrap();
        let segments = directory.path().join("segments");
        std::fs::create_dir(&segments).unwrap();
        let opened = segment::sealed::SealedFile::open(&RealDisk, &fixtures.join(&name)).unwrap();
        let number = opened.footer().header.segment;
        std::fs::copy(fixtures.join(&name), segments.join(format!("{number}.sealed"))).unwrap();
        let blocks = 0..opened.footer().blocks.len();
        let frames = blocks.map(|block| Arc::new(opened.read_block(block).unwrap())).collect();
        let sent = Sent { frames };
        let config = StoreConfig { disk_free_bytes_min: 0, ..StoreConfig::new(directory.path()) };
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(START_S * SECOND_NS));
        let store = Store::open(config, Arc::new(RealDisk), clock).unwrap().0;
        assert_eq!(store.segments().iter().map(|s| s.lines).sum::<u64>(), opened.footer().lines());
        let stored = Stored::new(store, parsers(), Arc::new(Answers::new(1 << 20)));
        for _ in 0..3 * QUERIES {
            let (text, context) = random_query(&mut rng);
            let query = Query::parse(&text, 0).unwrap();
            let expected = rows(&query, &sent, &context);
            assert_eq!(rows(&query, &stored, &context), expected, "{name}: {text}");
        }
    }
}
