//! The watch over a real store: it learns from the past, judges minutes, says what stands out in
//! rows, and resumes.

use std::sync::atomic::AtomicI64;

use collector::Accounting;
use record::{Format, Origin, Transport};

use super::*;
use crate::data_dir::DocumentFolder;
use crate::pipeline::Pipeline;
use crate::pipeline::options::NodeOptions;

/// A clock that a test moves.
struct TestClock(Arc<AtomicI64>);

impl Clock for TestClock {
    fn now_ns(&self) -> i64 {
        self.0.load(Relaxed)
    }

    fn wait(&self, time: Duration, _stop: &Stop) {
        self.0.fetch_add(text::duration::ns(time), Relaxed);
    }
}

/// Keeps rows in memory.
#[derive(Default)]
struct Rows(Mutex<Vec<serde_json::Value>>);

impl RowStore for Rows {
    fn store(&self, _origin: &Origin, lines: &[u8], _now_ns: i64) -> Result<(), String> {
        let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lock(&self.0).extend(lines.map(|line| serde_json::from_slice(line).unwrap()));
        Ok(())
    }

    fn close(&self) {}
}

struct Fixture {
    pipeline: Arc<Pipeline>,
    dir: tempfile::TempDir,
    rows: Arc<Rows>,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.pipeline.stop();
    }
}

impl Fixture {
    fn new() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let mut options = NodeOptions::new(dir.path().join("data"));
        options.watch.is_enabled = false;
        let accounting = Arc::<Accounting>::default();
        let pipeline =
            Pipeline::start(&options, accounting, &Budget::unlimited(), Box::new(|| false));
        Fixture { pipeline: pipeline.unwrap(), dir, rows: Arc::default() }
    }

    fn watcher(&self, now_ns: i64) -> Watcher {
        let cancelled = Arc::<AtomicBool>::default();
        Watcher {
            options: WatchOptions { delay: Duration::ZERO, ..WatchOptions::default() },
            reader: Reader {
                lines: QueriedLines::Own(self.pipeline.stored.clone()),
                memory: Arc::clone(&self.pipeline.memory),
                limits: query::Limits::default(),
                cancelled: Arc::clone(&cancelled),
            },
            kept: Kept {
                rows: Arc::clone(&self.rows) as _,
                state: Arc::new(DocumentFolder::new(self.dir.path())),
            },
            clock: Box::new(TestClock(Arc::new(AtomicI64::new(now_ns)))),
            shared: Mutex::default(),
            stop: Stop::default(),
            cancelled,
        }
    }

    /// Stores lines of JSON.
    fn send(&self, lines: &str) {
        let origin = Origin::new(Transport::Http, Format::Json, None);
        let mut rest = lines.as_bytes();
        while !rest.is_empty() {
            let (ticket, left) = self.pipeline.http.push(&origin, rest);
            ticket.wait().unwrap();
            rest = left;
        }
    }
}

/// A full hour.
const NOW_NS: i64 = 1_789_999_200_000_000_000;

/// Lines of the minute that begins so many minutes after `NOW_NS`, as many of each service.
fn minute(at: i64, services: &[(&str, usize)]) -> String {
    let mut lines = String::new();
    for (service, count) in services {
        for line in 0..*count {
            let time = text::time::format_time(NOW_NS + at * MINUTE_NS + line as i64 * 1_000_000);
            lines.push_str(&format!(
                "{{\"_time\":\"{time}\",\"service\":\"{service}\",\"_msg\":\"line {line}\"}}\n"
            ));
        }
    }
    lines
}

/// Four hours in which two services send lines.
fn past() -> String {
    (-240..0)
        .map(|at| minute(at, &[("a", 8 + (at % 2).unsigned_abs() as usize), ("b", 7)]))
        .collect()
}

fn open(told: &Told) -> Vec<(String, String, Kind)> {
    let open = told.findings.iter().filter(|finding| finding.until_ns.is_none());
    open.map(|f| (f.field.clone(), f.value.clone(), f.standing.kind)).collect()
}

#[test]
fn the_fields_of_a_new_server_are_found_within_minutes() {
    let fixture = Fixture::new();
    let watcher = fixture.watcher(NOW_NS);
    let mut at = Loop::default();
    let board = watcher.past(NOW_NS, &mut at);
    lock(&watcher.shared).board = board;
    let mut chosen = Vec::new();
    for minute_at in 0..130 {
        if minute_at >= 3 {
            fixture.send(&minute(minute_at, &[("a", 8), ("b", 7)]));
        }
        let before_ns = at.fields_at_ns;
        watcher.minute(NOW_NS + minute_at * MINUTE_NS, &mut at);
        if at.fields_at_ns != before_ns {
            chosen.push(minute_at);
        }
    }
    assert_eq!(chosen, [0, 2, 6, 14, 30, 62, 122]);
    let told = watcher.told();
    let service = told.fields.iter().find(|view| view.field == "service").unwrap();
    assert_eq!(service.series, 2);
    // What was there when it began to be watched is not new.
    assert!(open(&told).is_empty(), "{:?}", told.findings);
}

#[test]
fn a_service_that_ends_is_said_and_kept_for_the_next_start() {
    let fixture = Fixture::new();
    fixture.send(&past());
    let watcher = fixture.watcher(NOW_NS);
    let mut at = Loop::default();
    let board = watcher.past(NOW_NS, &mut at);
    lock(&watcher.shared).board = board;
    lock(&watcher.shared).phase = Phase::Watches;
    let told = watcher.told();
    assert!(open(&told).is_empty(), "{:?}", told.findings);
    let service = told.fields.iter().find(|view| view.field == "service").unwrap();
    assert_eq!((service.series, service.learning), (2, 0));
    assert_eq!(told.since_ns, Some(NOW_NS - 240 * MINUTE_NS));

    for minute_at in 0..5 {
        fixture.send(&minute(minute_at, &[("a", 8)]));
        watcher.minute(NOW_NS + minute_at * MINUTE_NS, &mut at);
    }
    let told = watcher.told();
    let silent = ("service".to_owned(), "b".to_owned(), Kind::Silent);
    assert!(open(&told).contains(&silent), "{:?}", told.findings);
    assert_eq!((told.totals.minutes, told.totals.failures), (5, 0), "{:?}", told.error);
    let finding = told.findings.iter().find(|finding| finding.value == "b").unwrap();
    assert_eq!(finding.standing.since_ns, NOW_NS);
    assert!((6.0..8.0).contains(&finding.standing.expected), "{finding:?}");
    {
        let rows = lock(&fixture.rows.0);
        let of_b: Vec<_> = rows.iter().filter(|row| row["watched_value"] == "b").collect();
        assert_eq!(
            (&of_b[0]["state"], &of_b[0]["stands_out"]),
            (&"begins".into(), &"silent".into())
        );
        assert_eq!(of_b[0]["_msg"], "stands out: silent");
    }

    // The next start resumes, and the service comes back.
    let again = fixture.watcher(NOW_NS + 5 * MINUTE_NS);
    let board = again.kept.read(NOW_NS + 5 * MINUTE_NS).unwrap();
    lock(&again.shared).board = board;
    lock(&again.shared).phase = Phase::Watches;
    assert_eq!(open(&again.told()), open(&told));
    for minute_at in 5..8 {
        fixture.send(&minute(minute_at, &[("a", 8), ("b", 7)]));
        again.minute(NOW_NS + minute_at * MINUTE_NS, &mut at);
    }
    assert!(!open(&again.told()).contains(&silent), "{:?}", again.told().findings);
    let rows = lock(&fixture.rows.0);
    let last = rows.iter().rfind(|row| row["watched_value"] == "b").unwrap();
    assert_eq!(last["state"], "ends");
}

#[test]
fn late_lines_are_counted() {
    let fixture = Fixture::new();
    let watcher = fixture.watcher(NOW_NS);
    let mut at = Loop { fields_at_ns: NOW_NS, ..Loop::default() };
    fixture.send(&minute(0, &[("a", 3)]));
    watcher.minute(NOW_NS, &mut at);
    fixture.send(&minute(0, &[("a", 4)]));
    for minute_at in 1..=LATE_MINUTES as i64 {
        watcher.minute(NOW_NS + minute_at * MINUTE_NS, &mut at);
    }
    assert_eq!(watcher.told().totals.late_lines, 4);
    // What could not be counted is not known to have come late.
    let mut uncounted = Loop::default();
    assert_eq!(watcher.late_lines(0, &[], &mut uncounted), 0);
    assert!(uncounted.counted.is_empty());
}

#[test]
fn a_board_that_is_damaged_or_old_is_learnt_anew() {
    let fixture = Fixture::new();
    let watcher = fixture.watcher(NOW_NS);
    assert!(watcher.kept.read(NOW_NS).is_none());
    watcher.kept.keep(b"{\"fields\":7".to_vec());
    assert!(watcher.kept.read(NOW_NS).is_none());
    let mut board = Board::new();
    board.observe(NOW_NS, &[], 10);
    watcher.kept.keep(serde_json::to_vec(&board).unwrap());
    assert!(watcher.kept.read(NOW_NS + 2 * MINUTE_NS).is_some());
    assert!(watcher.kept.read(NOW_NS + 15 * 1_440 * MINUTE_NS).is_none());
}

/// A clock that is set back by a day whenever a minute is waited for.
struct SetBack(AtomicI64);

impl Clock for SetBack {
    fn now_ns(&self) -> i64 {
        self.0.load(Relaxed)
    }

    fn wait(&self, _time: Duration, _stop: &Stop) {
        self.0.fetch_sub(1_440 * MINUTE_NS, Relaxed);
    }
}

#[test]
fn a_clock_that_is_set_back_does_not_end_the_watch() {
    let fixture = Fixture::new();
    let clock = Box::new(SetBack(AtomicI64::new(NOW_NS)));
    let watcher = Watcher { clock, ..fixture.watcher(NOW_NS) };
    // It would wait for a day.
    assert!(watcher.watch());
    assert_eq!(watcher.told().totals.minutes, 0);
    assert!(watcher.kept.read(NOW_NS).is_none(), "what was learnt of the future is not kept");
    watcher.stop.request();
    assert!(!watcher.watch());
}
