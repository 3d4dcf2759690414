//! Callbacks for the background work of the store: parsing, filters of lines, and whether the
//! machine is idle.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use record::{Batch, Frame};
use store::{LineFilter, StoreCallbacks};

use crate::config::line_filter::line_filter;
use crate::storage::stored::Parsers;

/// The machine counts as idle if it was for this long.
const IDLE_TIME: Duration = Duration::from_secs(5);
/// The share of the time of all processors, used by any process, below which the machine is idle.
const BUSY_SHARE_MAX: f64 = 0.25;

/// Prefixes of the names of threads that seal, merge and re-encode.
const SEALING_NAMES: [&str; 2] = ["store-seal", segment::sealed::HELPERS_NAME];

/// The callbacks.
pub struct Upkeep {
    parsers: Arc<Parsers>,
    /// Whether queries run.
    runs_queries: Box<dyn Fn() -> bool + Send + Sync>,
    load: Mutex<Load>,
}

/// The load of the machine in recent seconds.
struct Load {
    since: Instant,
    processor: Option<Ticks>,
    is_idle: bool,
}

impl Upkeep {
    /// `runs_queries` says whether queries run.
    pub fn new(parsers: Arc<Parsers>, runs_queries: Box<dyn Fn() -> bool + Send + Sync>) -> Self {
        let load = Load { since: Instant::now(), processor: ticks(), is_idle: false };
        Upkeep { parsers, runs_queries, load: Mutex::new(load) }
    }
}

impl StoreCallbacks for Upkeep {
    fn parse(&self, frame: Arc<Frame>) -> Batch {
        self.parsers.parse(frame)
    }

    fn filter(&self, text: &str, now_ns: i64) -> Result<LineFilter, String> {
        line_filter(text, now_ns)
    }

    /// No query runs, and for some seconds nearly all used processor time went to the threads that
    /// re-encode.
    fn is_idle(&self) -> bool {
        if (self.runs_queries)() {
            return false;
        }
        let mut load = self.load.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if load.since.elapsed() >= IDLE_TIME {
            let now = ticks();
            let share = now.as_ref().zip(load.processor.as_ref());
            let share = share.map(|(now, before)| now.busy_share(before));
            *load = Load {
                since: Instant::now(),
                processor: now,
                is_idle: share.is_some_and(|share| share < BUSY_SHARE_MAX),
            };
        }
        load.is_idle
    }

    fn at_rest(&self) {
        crate::process::memory::give_back_own();
    }
}

/// Time of all processors since boot, in ticks of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    all: u64,
    /// The part of `busy` that our own sealing threads used.
    sealing: u64,
}

impl Ticks {
    fn busy_share(&self, before: &Ticks) -> f64 {
        let all = self.all.saturating_sub(before.all);
        // A thread may have ended; its time is missing then.
        let sealing = self.sealing.saturating_sub(before.sealing);
        let busy = self.busy.saturating_sub(before.busy).saturating_sub(sealing);
        if all == 0 { 1.0 } else { busy as f64 / all as f64 }
    }
}

fn ticks() -> Option<Ticks> {
    let (busy, all) = parse_ticks(&std::fs::read_to_string("/proc/stat").ok()?)?;
    let mut sealing = 0;
    for thread in std::fs::read_dir("/proc/self/task").ok()? {
        // A thread that has ended meanwhile has no file.
        let Ok(stat) = std::fs::read_to_string(thread.ok()?.path().join("stat")) else { continue };
        let (name, ticks) = parse_thread_ticks(&stat)?;
        sealing += if SEALING_NAMES.iter().any(|n| name.starts_with(n)) { ticks } else { 0 };
    }
    Some(Ticks { busy, all, sealing })
}

/// Name and time of one thread, from its line in `/proc` (proc_pid_stat(5)): the time is `utime`
/// and `stime`, the 14th and 15th word. The name, the second word, is in brackets and may contain
/// any characters.
fn parse_thread_ticks(stat: &str) -> Option<(&str, u64)> {
    let (head, words) = stat.rsplit_once(')')?;
    let mut words = words.split_ascii_whitespace().skip(11);
    let ticks = words.next()?.parse::<u64>().ok()? + words.next()?.parse::<u64>().ok()?;
    Some((head.split_once('(')?.1, ticks))
}

/// Used and total time, from the first line of `/proc/stat` (proc_stat(5)): user, nice, system,
/// idle, iowait, irq, softirq, steal.
fn parse_ticks(stat: &str) -> Option<(u64, u64)> {
    let mut words = stat.lines().next()?.split_ascii_whitespace();
    if words.next()? != "cpu" {
        return None;
    }
    let counts: Vec<u64> = words.take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    let [_user, _nice, _system, idle, iowait, _irq, _softirq, _steal] = counts[..] else {
        return None;
    };
    let all: u64 = counts.iter().sum();
    Some((all - idle - iowait, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_read() {
        let stat = "cpu  10 1000 20 300 40 1 2 3 7 7\ncpu0 1 2 3\n";
        assert_eq!(parse_ticks(stat), Some((1036, 1376)));
        assert_eq!(parse_ticks("cpu 1 2\n"), None);
        assert_eq!(parse_ticks(""), None);
        let thread = "17 (a) b (c)) R 1 1 1 0 -1 64 10 0 0 0 30 12 0 0 39 19 40 0 5 6\n";
        assert_eq!(parse_thread_ticks(thread), Some(("a) b (c)", 42)));
        assert_eq!(parse_thread_ticks("17 (a"), None);
        assert!(ticks().is_some_and(|ticks| ticks.busy < ticks.all));
    }

    #[test]
    fn threads_that_seal_are_known_by_their_names() {
        let before = ticks().unwrap().sealing;
        let deadline = Instant::now() + Duration::from_secs(30);
        let spin = move || {
            while ticks().unwrap().sealing < before + 2 {
                assert!(Instant::now() < deadline, "no time was counted");
            }
        };
        let named =
            std::thread::Builder::new().name(format!("{}-0", segment::sealed::HELPERS_NAME));
        named.spawn(spin).unwrap().join().unwrap();
    }

    #[test]
    fn the_share_is_that_of_the_others() {
        let ticks = |busy, all, sealing| Ticks { busy, all, sealing };
        let before = ticks(10, 100, 3);
        for (now, expected) in [
            (ticks(20, 200, 3), 0.1),
            (ticks(80, 200, 63), 0.1),
            (ticks(80, 200, 0), 0.7),
            (before.clone(), 1.0),
        ] {
            let share = now.busy_share(&before);
            assert!((share - expected).abs() < 1e-9, "{share}, not {expected}");
        }
    }

    #[test]
    fn a_filter_selects_rows_and_refuses_pipes() {
        let filter = line_filter("error", 0).unwrap();
        let parsers =
            Parsers::new(record::Parser::new(&record::ParserConfig::default()).expect("no rules"));
        let mut frame = record::FrameBuilder::new();
        let origin =
            record::Origin::new(record::Transport::SyslogTcp, record::Format::Syslog, None);
        for line in ["an error", "fine", "error again"] {
            frame.push_line(&origin, 1, line.as_bytes(), false);
        }
        let batch = Arc::new(parsers.parse(Arc::new(frame.finish(1, 1).unwrap())));
        assert_eq!((filter.selects)(&batch), [true, false, true]);
        assert!(line_filter("error | limit 1", 0).is_err_and(|text| text.contains("pipes")));
        assert!(line_filter("(", 0).is_err());
    }
}
