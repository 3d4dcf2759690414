//! How steadily frames are appended: lines per 100 ms, with their mean and standard deviation, and
//! the longest time in which nothing became durable.
//!
//! ```text
//! loginson-bench steady_append DIR [SECONDS] [LINES_PER_S] [LINE_BYTES]
//! ```
//!
//! Appends frames of 1 MiB for 60 s, as fast as the store takes them, or at the given rate (80 % of
//! the maximum shows how steady a busy system is). DIR is created and used; if it exists, it must
//! be empty. The background is not started and frames are not parsed, so the numbers show the
//! writer alone, its rolls included. Prints one line:
//!
//! ```text
//! steady_append lines=… bytes=… seconds=… lines_per_s=… gbit_per_s=… per_100_ms_mean=… per_100_ms_cv=… gap_ms_max=…
//!     latency_ms_max=… segments=…
//! ```
//!
//! `cv` is the standard deviation divided by the mean; the first second, in which the file system
//! warms up, does not count.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use platform::{OnDurable, Patience, RealClock, RealDisk};
use record::{Format, Frame, FrameBuilder, Origin, Transport};
use store::{Store, StoreConfig};

/// Payload of a frame, as the collector makes them.
const FRAME_BYTES: usize = 1 << 20;
const INTERVAL: Duration = Duration::from_millis(100);
/// Intervals at the start that do not count.
const WARM_UP: usize = 10;

/// Counts of durable lines, which the writer's thread updates.
struct Durable {
    start: Instant,
    /// Lines by interval.
    lines: Vec<AtomicU64>,
    last_ns: AtomicU64,
    gap_ns_max: AtomicU64,
}

impl Durable {
    fn new(seconds: u64) -> Self {
        let intervals = (u128::from(seconds) * 1_000 / INTERVAL.as_millis()) as usize;
        let lines = (0..intervals).map(|_| AtomicU64::new(0)).collect();
        let (last_ns, gap_ns_max) = Default::default();
        Durable { start: Instant::now(), lines, last_ns, gap_ns_max }
    }

    fn note(&self, lines: u64) {
        let now = self.start.elapsed();
        let place = (now.as_nanos() / INTERVAL.as_nanos()) as usize;
        if let Some(count) = self.lines.get(place) {
            count.fetch_add(lines, Relaxed);
        }
        let now_ns = now.as_nanos() as u64;
        let gap_ns = now_ns.saturating_sub(self.last_ns.swap(now_ns, Relaxed));
        if place > WARM_UP {
            self.gap_ns_max.fetch_max(gap_ns, Relaxed);
        }
    }
}

/// Mean, and standard deviation divided by it.
fn spread(counts: &[u64]) -> (f64, f64) {
    let n = counts.len().max(1) as f64;
    let mean = counts.iter().sum::<u64>() as f64 / n;
    let variance = counts.iter().map(|&c| (c as f64 - mean).powi(2)).sum::<f64>() / n;
    (mean, if mean > 0.0 { variance.sqrt() / mean } else { 0.0 })
}

fn frame(line: &[u8], lines: usize, received_ns: i64, (node, sequence): (u32, u64)) -> Frame {
    let mut builder = FrameBuilder::new();
    let origin = Origin::new(Transport::SyslogTcp, Format::Syslog, None);
    for _ in 0..lines {
        builder.push_line(&origin, received_ns, line, false);
    }
    builder.finish(node, sequence).expect("has lines")
}

pub(crate) fn main() {
    let dir: PathBuf = crate::arguments().next().unwrap_or_else(|| fail("name a directory")).into();
    let seconds: u64 = argument(2, 60).max(2);
    let rate: u64 = argument(3, 0);
    let line_bytes: usize = argument(4, 291).max(2);
    if std::fs::read_dir(&dir).is_ok_and(|mut entries| entries.next().is_some()) {
        fail(&format!("{} is not empty", dir.display()));
    }
    let clock = Arc::new(RealClock::new());
    let (store, _) = Store::open(StoreConfig::new(&dir), Arc::new(RealDisk), clock)
        .unwrap_or_else(|error| fail(&error.to_string()));
    let line = vec![b'x'; line_bytes - 1];
    let lines = FRAME_BYTES / line_bytes;
    let durable = Arc::new(Durable::new(seconds));
    let mut sent = 0;
    while durable.start.elapsed().as_secs() < seconds {
        if rate > 0 {
            let due = Duration::from_secs_f64(sent as f64 / rate as f64);
            std::thread::sleep(due.saturating_sub(durable.start.elapsed()));
        }
        let made = frame(&line, lines, sent as i64, store.next_sequence());
        let (durable, count) = (durable.clone(), lines as u64);
        let done: OnDurable = Box::new(move |result| match result {
            Ok(()) => durable.note(count),
            Err(error) => eprintln!("a frame was not kept: {error}"),
        });
        let queued = store.append(vec![(made, done)], Patience::Unlimited);
        queued.unwrap_or_else(|error| fail(&error.to_string()));
        sent += lines as u64;
    }
    let elapsed = durable.start.elapsed().as_secs_f64();
    store.close().unwrap_or_else(|error| fail(&error.to_string()));
    let stats = store.stats();
    let counts: Vec<u64> = durable.lines.iter().map(|count| count.load(Relaxed)).collect();
    let (mean, cv) = spread(&counts[WARM_UP.min(counts.len())..]);
    let bytes = sent * line_bytes as u64;
    println!(
        "steady_append lines={sent} bytes={bytes} seconds={elapsed:.1} lines_per_s={:.0} gbit_per_s={:.2} \
         per_100_ms_mean={mean:.0} per_100_ms_cv={cv:.3} gap_ms_max={:.0} latency_ms_max={:.0} segments={}",
        sent as f64 / elapsed,
        bytes as f64 * 8.0 / elapsed / 1e9,
        durable.gap_ns_max.load(Relaxed) as f64 / 1e6,
        stats.commit_latency.max_ns as f64 / 1e6,
        stats.segments,
    );
}

/// The argument at a place, or the default.
fn argument<T: std::str::FromStr>(place: usize, default: T) -> T {
    match crate::arguments().nth(place - 1) {
        None => default,
        Some(text) => text.parse().unwrap_or_else(|_| fail(&format!("'{text}' is no number"))),
    }
}

fn fail(text: &str) -> ! {
    eprintln!("{text}");
    std::process::exit(1)
}
