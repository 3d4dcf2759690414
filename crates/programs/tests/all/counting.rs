//! Compares the summariser with a reference model, over schedules of frames, flushes, failures and
//! crashes.

use std::collections::BTreeMap;
use std::sync::Arc;

use programs::summary::{
    ChartBuilder, ChartRange, FLUSH_BYTES_MAX, FLUSH_NAMES_MAX, Flush, OTHER, Summariser,
    SummaryConfig, SummaryRow, TypesBuilder, VALUE_BYTES_MAX, stored_rows,
};
use proptest::prelude::*;
use record::{Batch, BatchBuilder, Format, FrameBuilder, Origin, Parser, ParserConfig, Transport};

const S: i64 = 1_000_000_000;

type Line = (i64, Vec<(&'static str, String)>);

fn line(time_ns: i64, log_type: &str, fields: &[(&'static str, &str)]) -> Line {
    let mut all = vec![("_type", log_type.to_owned())];
    all.extend(fields.iter().map(|(k, v)| (*k, (*v).to_owned())));
    (time_ns, all)
}

/// A batch of lines whose fields are as given; each raw line is ten bytes long.
fn batch(lines: &[Line]) -> Batch {
    let mut frame = FrameBuilder::new();
    let origin = Origin::new(Transport::SyslogTcp, Format::Auto, None);
    frame.push_lines(&origin, 1_000 * S, "0123456789\n".repeat(lines.len()).as_bytes());
    let frame = Arc::new(frame.finish(1, 1).expect("there are lines"));
    let mut builder = BatchBuilder::new(frame.clone());
    for (line, (time_ns, fields)) in frame.lines().zip(lines) {
        builder.begin_row(&line);
        builder.set_time(*time_ns);
        for (name, value) in fields {
            let id = builder.field_id(name).expect("few names");
            builder.push_made(id, value.as_bytes());
        }
        builder.end_row();
    }
    builder.finish()
}

/// The frame of a flush, parsed as the store returns it.
fn flush_batch(flush: &Flush) -> Batch {
    assert!(flush.lines.len() <= FLUSH_BYTES_MAX);
    let mut frame = FrameBuilder::new();
    frame.push_lines(&flush.origin(), 1_000 * S, &flush.lines);
    let frame = Arc::new(frame.finish(1, 1).expect("there are rows"));
    assert_eq!(frame.header().lines as usize, flush.rows);
    let batch = Parser::new(&ParserConfig::default()).expect("no rules").parse(frame);
    for row in batch.rows() {
        assert_eq!(row.get_by_name("_note"), None);
    }
    batch
}

/// What rows should add up to: (type, bucket, key, value) → count, with keys `lines`, `bytes`,
/// dimensions, sums.
type Counts = BTreeMap<(String, i64, String, String), u64>;

fn naive(lines: &[Line]) -> Counts {
    let mut counts = Counts::new();
    for (time_ns, fields) in lines {
        let get = |name: &str| fields.iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone());
        let log_type = get("_type").unwrap_or_default();
        let bucket = time_ns.div_euclid(10 * S).saturating_mul(10 * S);
        let mut add = |key: &str, value: String, n: u64| {
            let log_type = if log_type.is_empty() { OTHER.to_owned() } else { log_type.clone() };
            *counts.entry((log_type, bucket, key.to_owned(), value)).or_default() += n;
        };
        add("lines", String::new(), 1);
        add("bytes", String::new(), 10);
        let access = log_type == "access";
        for name in ["level", "app_name", "hostname"].into_iter().chain(access.then_some("status"))
        {
            let field = if name == "level" { "_level" } else { name };
            if let Some(value) = get(field).filter(|v| !v.is_empty()) {
                add(name, value, 1);
            }
        }
        if access {
            let bytes = get("bytes").and_then(|b| b.parse().ok()).unwrap_or(0);
            add("response_bytes", String::new(), bytes);
        }
    }
    counts
}

fn added<'a>(rows: impl Iterator<Item = &'a SummaryRow>) -> Counts {
    let mut counts = Counts::new();
    for row in rows {
        let mut add = |key: &str, value: &str, n: u64| {
            let key = (row.summary_of.clone(), row.time_ns, key.to_owned(), value.to_owned());
            *counts.entry(key).or_default() += n;
        };
        add("lines", "", row.lines);
        add("bytes", "", row.bytes);
        row.sums.iter().for_each(|(name, n)| add(name, "", *n));
        for (name, values) in &row.dimensions {
            values.iter().for_each(|(value, n)| add(name, value, *n));
        }
    }
    counts
}

/// A store: frames in order; the position of a frame is its index plus 1.
struct Store {
    frames: Vec<Batch>,
    summariser: Summariser,
    lines: Vec<Line>,
    now_ns: i64,
}

#[derive(Clone, Debug)]
enum Step {
    Lines(Vec<Line>),
    /// Seconds pass; a due flush is written: `Some(true)` and settled, `Some(false)` and not yet
    /// settled when the process dies, `None` not written at all.
    Flush {
        after_s: i64,
        force: bool,
        outcome: Option<bool>,
    },
    Crash,
}

impl Store {
    fn new() -> Self {
        let summariser = Summariser::new(SummaryConfig::default(), None);
        Store { frames: Vec::new(), summariser, lines: Vec::new(), now_ns: 0 }
    }

    fn append(&mut self, batch: Batch) {
        self.frames.push(batch);
        let position = self.frames.len() as u64;
        self.summariser.observe(&self.frames[position as usize - 1], position, self.now_ns);
    }

    fn crash(&mut self) {
        let marks = self.frames.iter().flat_map(|f| f.origins());
        let mark = marks.filter_map(|o| o.hints.summarised_through).max();
        self.summariser = Summariser::new(SummaryConfig::default(), mark);
        for (frame, position) in self.frames.iter().zip(1..) {
            if Some(position) > mark {
                self.summariser.observe(frame, position, self.now_ns);
            }
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Lines(lines) => {
                self.append(batch(&lines));
                self.lines.extend(lines);
            }
            Step::Crash => self.crash(),
            Step::Flush { after_s, force, outcome } => {
                self.now_ns += after_s * S;
                let Some(flush) = self.summariser.flush(self.now_ns, force) else { return };
                let again = self.summariser.flush(self.now_ns, force);
                assert_eq!(again.as_ref(), Some(&flush), "unsettled, it is the same");
                let Some(settle) = outcome else { return };
                self.frames.push(flush_batch(&flush));
                self.check();
                if settle {
                    self.summariser.settled(flush.through);
                    let position = self.frames.len() as u64;
                    let last = &self.frames[position as usize - 1];
                    self.summariser.observe(last, position, self.now_ns);
                } else {
                    self.crash();
                }
            }
        }
        self.check();
    }

    fn rows(&self) -> Vec<SummaryRow> {
        let snapshot = self.summariser.snapshot(None, i64::MIN, i64::MAX);
        let mut rows = snapshot.rows;
        rows.extend(self.frames.iter().flat_map(|f| stored_rows(f, snapshot.settled_through)));
        rows
    }

    fn check(&self) {
        assert_eq!(added(self.rows().iter()), naive(&self.lines));
    }
}

fn some_line() -> impl Strategy<Value = Line> {
    let time = (0i64..60).prop_map(|s| s * S + 5);
    let log_type = prop::sample::select(vec!["access", "syslog", "json", "summary", ""]);
    let host = prop::sample::select(vec!["web1", "a.b.c", "", "x\"\n\\y", "ü"]);
    let level = prop::sample::select(vec!["error", "info", "other"]);
    let number = prop::sample::select(vec!["200", "0", "-", "12x", "-5"]);
    (time, log_type, host, level, number).prop_map(|(time, log_type, host, level, number)| {
        let fields = [("hostname", host), ("_level", level), ("status", number), ("bytes", number)];
        line(time, log_type, &fields)
    })
}

fn some_step() -> impl Strategy<Value = Step> {
    let flush = (0i64..15, any::<bool>(), prop::option::of(any::<bool>()))
        .prop_map(|(after_s, force, outcome)| Step::Flush { after_s, force, outcome });
    prop_oneof![
        4 => prop::collection::vec(some_line(), 1..20).prop_map(Step::Lines),
        4 => flush,
        1 => Just(Step::Crash),
    ]
}

proptest! {
    #[test]
    fn each_line_counts_once_whatever_happens(steps in prop::collection::vec(some_step(), 0..25)) {
        let mut store = Store::new();
        steps.into_iter().for_each(|step| store.step(step));

        let range = ChartRange::new(i64::MIN, i64::MAX, None, 10).unwrap();
        let mut chart = ChartBuilder::new(range, "access");
        let mut types = TypesBuilder::new();
        for row in store.rows() {
            chart.add(&row);
            types.add(&row);
        }
        let expected = naive(&store.lines);
        let count = |wanted: &str| -> u64 {
            expected.iter().filter(|(k, _)| k.0 == wanted && k.2 == "lines").map(|(_, n)| n).sum()
        };
        let chart = chart.finish();
        prop_assert_eq!(chart.lines.iter().sum::<u64>(), count("access"));
        if let Some(levels) = chart.totals.get("level") {
            prop_assert_eq!(levels.values().sum::<u64>(), count("access"));
        }
        for of_type in types.finish().types {
            prop_assert_eq!(of_type.lines, count(&of_type.log_type));
        }
    }
}

#[test]
fn a_flush_is_due_after_the_interval_and_the_delay() {
    // (time of the first line, time asked, due), seconds; interval 10, delay 2.
    for (first_s, asked_s, due) in [
        (100, 100, false),
        (100, 111, false),
        (100, 112, true),
        (109, 111, false),
        (109, 112, true),
        (110, 112, false),
        (110, 122, true),
        (100, 90, true), // the clock was set back
    ] {
        let mut summariser = Summariser::new(SummaryConfig::default(), Some(7));
        summariser.observe(&batch(&[line(0, "a", &[])]), 9, first_s * S);
        let flush = summariser.flush(asked_s * S, false);
        assert_eq!(flush.map(|f| f.through), due.then_some(9), "{first_s} {asked_s}");
    }
}

#[test]
fn summary_rows_alone_make_no_flush() {
    let mut summariser = Summariser::new(SummaryConfig::default(), None);
    assert_eq!(summariser.flush(0, true), None);
    let mut other = Summariser::new(SummaryConfig::default(), None);
    other.observe(&batch(&[line(0, "a", &[])]), 1, 0);
    summariser.observe(&flush_batch(&other.flush(100 * S, true).unwrap()), 1, 0);
    assert_eq!(summariser.flush(100 * S, true), None);
    assert_eq!(summariser.observed_through(), Some(1));
}

#[test]
#[should_panic(expected = "frames are observed in order")]
fn a_frame_observed_twice_is_a_bug() {
    let mut summariser = Summariser::new(SummaryConfig::default(), Some(4));
    summariser.observe(&batch(&[line(0, "a", &[])]), 4, 0);
}

#[test]
fn values_beyond_the_limit_count_as_other() {
    let longest = "x".repeat(VALUE_BYTES_MAX);
    for (hosts, named, other) in [(99, 99, 0), (100, 100, 0), (101, 100, 1)] {
        let mut lines: Vec<Line> =
            (0..hosts).map(|h| line(0, "a", &[("hostname", &format!("h{h}"))])).collect();
        lines.push(line(0, "a", &[("app_name", &longest)]));
        lines.push(line(0, "a", &[("app_name", &format!("{longest}x"))]));
        let mut summariser = Summariser::new(SummaryConfig::default(), None);
        summariser.observe(&batch(&lines), 1, 0);
        let rows = summariser.snapshot(Some("a"), 0, 1).rows;
        let hostname = &rows[0].dimensions["hostname"];
        assert_eq!(hostname.get(OTHER).copied().unwrap_or(0), other);
        assert_eq!(hostname.keys().filter(|k| *k != OTHER).count(), named);
        let apps = &rows[0].dimensions["app_name"];
        assert_eq!((apps[&longest], apps[OTHER]), (1, 1));
    }
}

#[test]
fn a_million_hosts_and_types_stay_small() {
    let mut summariser = Summariser::new(SummaryConfig::default(), None);
    for frame in 0..100 {
        let lines: Vec<Line> = (0..10_000)
            .map(|i| {
                let host = format!("host-{}", frame * 10_000 + i);
                let log_type = if i % 2 == 0 { "syslog" } else { host.as_str() };
                line(i64::from(i % 20) * S, log_type, &[("hostname", &host)])
            })
            .collect();
        summariser.observe(&batch(&lines), frame as u64 + 1, 0);
    }
    let flush = summariser.flush(0, true).unwrap();
    let rows = summariser.snapshot(None, i64::MIN, i64::MAX).rows;
    assert_eq!(rows.iter().map(|r| r.lines).sum::<u64>(), 1_000_000);
    // 1,000 types at most, two buckets each for `syslog` and `other`, one for the others.
    assert!(flush.rows <= 1_002, "{} rows", flush.rows);
    assert!(flush.lines.len() < 1 << 20, "{} bytes", flush.lines.len());
}

#[test]
fn rows_of_a_flush_fit_the_names_of_a_batch() {
    // 200 buckets with 100 hosts each, none twice.
    let lines: Vec<Line> = (0..20_000)
        .map(|i| line((i % 200) * 10 * S, "a", &[("hostname", &format!("h{i}"))]))
        .collect();
    let mut summariser = Summariser::new(SummaryConfig::default(), None);
    summariser.observe(&batch(&lines), 1, 0);
    let parsed = flush_batch(&summariser.flush(0, true).unwrap());
    let hosts = parsed.names().iter().filter(|n| n.starts_with("hostname.")).count();
    assert_eq!(hosts, FLUSH_NAMES_MAX + 1, "and `other`");
    let rows: Vec<SummaryRow> = stored_rows(&parsed, Some(1)).collect();
    assert_eq!(rows.len(), 200);
    assert_eq!(rows.iter().flat_map(|r| r.dimensions["hostname"].values()).sum::<u64>(), 20_000);
}

#[test]
fn absurd_times_in_any_number_fit_a_flush() {
    let step_ns = (u64::MAX / 60_000) as i64;
    let lines: Vec<Line> = (0..60_000i64)
        .map(|i| {
            line(
                i64::MIN.wrapping_add(i.wrapping_mul(step_ns)),
                "a",
                &[("hostname", &format!("\u{1}h{i}"))],
            )
        })
        .collect();
    let mut summariser = Summariser::new(SummaryConfig::default(), None);
    summariser.observe(&batch(&lines), 1, 0);
    let flush = summariser.flush(0, false).expect("due by its size alone");
    assert!(flush.rows > 5_000, "{} rows", flush.rows);
    let snapshot = summariser.snapshot(None, i64::MIN, i64::MAX);
    assert_eq!(snapshot.rows.iter().map(|r| r.lines).sum::<u64>(), 60_000);
    let arrived = snapshot.rows.iter().find(|r| r.summary_of == OTHER).expect("no room for all");
    assert_eq!(arrived.time_ns, 1_000 * S);
}
