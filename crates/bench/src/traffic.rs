//! What the benchmarks of ways in share: a store that keeps nothing, and the line of a result.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use collector::{Deliver, KeepError, OnDurable, Patience};
use record::Frame;

/// Reports frames as durable, counts their lines, and discards them.
#[derive(Default)]
pub struct Nothing {
    sequence: AtomicU64,
    lines: AtomicU64,
}

impl Nothing {
    /// The lines so far.
    pub fn lines(&self) -> u64 {
        self.lines.load(Relaxed)
    }
}

impl Deliver for Nothing {
    fn next_sequence(&self) -> (u32, u64) {
        (1, self.sequence.fetch_add(1, Relaxed))
    }

    fn deliver(&self, frame: Frame, durable: OnDurable, _: Patience) -> Result<(), KeepError> {
        self.lines.fetch_add(u64::from(frame.header().lines), Relaxed);
        durable(Ok(()));
        Ok(())
    }

    fn refusal(&self) -> Option<KeepError> {
        None
    }
}

/// Prints `name lines=… bytes=… seconds=… lines_per_s=… gbit_per_s=…` and further values.
pub fn report(name: &str, lines: u64, bytes: u64, time: Duration, more: &str) {
    let seconds = time.as_secs_f64();
    println!(
        "{name} lines={lines} bytes={bytes} seconds={seconds:.3} lines_per_s={:.0} gbit_per_s={:.2}{more}",
        lines as f64 / seconds,
        bytes as f64 * 8.0 / seconds / 1e9
    );
}

/// Newlines in `bytes`.
pub fn count_lines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// The value of a flag.
///
/// # Panics
/// When it is not a number.
pub fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text} is not a whole number"))
}
