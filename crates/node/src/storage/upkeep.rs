//! Callbacks for the background work of the store: parsing, filters of lines, and whether the
//! machine is idle.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use procfs::process::Process;
use procfs::{CpuTime, CurrentSI, KernelStats};
use record::{Batch, Frame};
use store::{LineFilter, StoreCallbacks};

use crate::storage::line_filter::line_filter;
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
    let all = KernelStats::current().ok()?.total;
    let mut sealing = 0;
    for thread in Process::myself().ok()?.tasks().ok()? {
        // A thread that has ended meanwhile has no entry.
        let Ok(stat) = thread.and_then(|thread| thread.stat()) else { continue };
        if SEALING_NAMES.iter().any(|name| stat.comm.starts_with(name)) {
            sealing += stat.utime + stat.stime;
        }
    }
    Some(Ticks { busy: busy_ticks(&all), all: busy_ticks(&all) + idle_ticks(&all), sealing })
}

/// Time in which processors worked. `guest` is within `user` (proc_stat(5)).
fn busy_ticks(time: &CpuTime) -> u64 {
    let interrupts = [time.irq, time.softirq, time.steal];
    let interrupts: u64 = interrupts.into_iter().flatten().sum();
    time.user + time.nice + time.system + interrupts
}

/// Time in which processors had nothing to do, or waited for a disk.
fn idle_ticks(time: &CpuTime) -> u64 {
    time.idle + time.iowait.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_read() {
        let ticks = ticks().unwrap();
        assert!(0 < ticks.busy && ticks.busy < ticks.all, "{ticks:?}");
    }

    #[test]
    fn threads_that_seal_are_known_by_their_names() {
        let before = ticks().unwrap().sealing;
        let deadline = Instant::now() + Duration::from_secs(600);
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
