//! Limits the rate at which the background reads and writes while lines arrive.
//!
//! Where the scheduler of a disk ignores priorities (most NVMe disks have no scheduler), a rewrite
//! at full speed delays the syncs of ingest. So while ingest is busy the background keeps to a
//! rate: after each step it pauses until as much time has passed since the beginning of the step as
//! its bytes take at that rate. The background is not held back while nothing arrives, nor when it
//! must not wait ([`Role::Urgent`](platform::placement::Role::Urgent)); bytes of urgent work are
//! not charged later.
//!
//! Left out: bursts. A step is a frame or a chunk of some tens of MiB, so the rate holds over a
//! second, not over less.

/// Ingest counts as busy from this rate of committed bytes on: above it, ingest writes more than
/// the syncs of a quiet system.
const BUSY_BYTES_PER_S: u64 = 8 << 20;
/// Time over which the rate of ingest is measured, nanoseconds.
const WINDOW_NS: u64 = 1_000_000_000;
/// The longest pause, nanoseconds. After it the rate is measured again, whatever was charged.
const PAUSE_NS_MAX: u64 = 1_000_000_000;

/// Counts what the background reads and writes, and computes its pauses.
pub(crate) struct Throttle {
    /// None: no limit.
    bytes_per_s: Option<u64>,
    /// When the bytes charged so far are paid for at that rate, monotonic nanoseconds.
    due_ns: u64,
    /// Start of the measuring window, and the bytes committed by then.
    window: (u64, u64),
    busy: bool,
}

impl Throttle {
    pub(crate) fn new(bytes_per_s: Option<u64>) -> Self {
        assert!(bytes_per_s != Some(0), "checked by the configuration");
        Throttle { bytes_per_s, due_ns: 0, window: (0, 0), busy: false }
    }

    /// Charges bytes that were read or written by a step that began at `began_ns` (monotonic),
    /// unless the step was `urgent`.
    pub(crate) fn charge(&mut self, bytes: u64, began_ns: u64, urgent: bool) {
        let Some(rate) = self.bytes_per_s.filter(|_| !urgent) else { return };
        let takes_ns = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
        let takes_ns = u64::try_from(takes_ns).unwrap_or(u64::MAX);
        self.due_ns = self.due_ns.max(began_ns).saturating_add(takes_ns);
    }

    /// The pause of the background at `now_ns` (monotonic), nanoseconds; `committed_bytes` is what
    /// ingest has written since the start.
    pub(crate) fn pause_ns(&mut self, now_ns: u64, committed_bytes: u64) -> u64 {
        let (since_ns, before) = self.window;
        let elapsed_ns = now_ns.saturating_sub(since_ns);
        if elapsed_ns >= WINDOW_NS {
            let bytes = u128::from(committed_bytes.saturating_sub(before)) * 1_000_000_000;
            self.busy = bytes / u128::from(elapsed_ns) >= u128::from(BUSY_BYTES_PER_S);
            self.window = (now_ns, committed_bytes);
        }
        if !self.busy {
            self.due_ns = now_ns;
        }
        self.due_ns.saturating_sub(now_ns).min(PAUSE_NS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn the_rate_holds_while_ingest_is_busy() {
        let mut throttle = Throttle::new(Some(100 << 20));
        assert_eq!(throttle.pause_ns(S, BUSY_BYTES_PER_S), 0, "busy from here on");
        throttle.charge(1 << 40, S, true);
        assert_eq!(throttle.pause_ns(S, BUSY_BYTES_PER_S), 0, "it was urgent");
        throttle.charge(50 << 20, S, false);
        assert_eq!(throttle.pause_ns(S, BUSY_BYTES_PER_S), S / 2);
        assert_eq!(throttle.pause_ns(S + S / 4, BUSY_BYTES_PER_S), S / 4);
        throttle.charge(50 << 20, S + S / 4, false);
        assert_eq!(throttle.pause_ns(S + S / 4, BUSY_BYTES_PER_S), S / 4 + S / 2);
        assert_eq!(throttle.pause_ns(2 * S, 2 * BUSY_BYTES_PER_S), 0);
        throttle.charge(1 << 40, 2 * S, false);
        assert_eq!(throttle.pause_ns(2 * S, 2 * BUSY_BYTES_PER_S), PAUSE_NS_MAX);
    }

    #[test]
    fn the_time_that_a_step_took_counts() {
        let mut throttle = Throttle::new(Some(100 << 20));
        // Ingest runs at twice the rate from which it counts as busy.
        let pause_ns = |throttle: &mut Throttle, now_ns| {
            throttle.pause_ns(now_ns, 2 * now_ns / S * BUSY_BYTES_PER_S)
        };
        let mut now_ns = S;
        assert_eq!(pause_ns(&mut throttle, now_ns), 0, "busy from here on");
        // Half a second's bytes in steps of a quarter of a second: the rate holds.
        for _ in 0..3 {
            throttle.charge(50 << 20, now_ns, false);
            assert_eq!(pause_ns(&mut throttle, now_ns + S / 4), S / 4);
            now_ns += S / 2;
        }
        // A step slower than the rate: no pause follows, and nothing is saved up for later.
        throttle.charge(50 << 20, now_ns, false);
        now_ns += 3 * S;
        assert_eq!(pause_ns(&mut throttle, now_ns), 0);
        throttle.charge(50 << 20, now_ns, false);
        assert_eq!(pause_ns(&mut throttle, now_ns), S / 2);
    }

    #[test]
    fn nothing_is_held_back_while_little_comes_in() {
        for (limit, committed) in [(Some(1), BUSY_BYTES_PER_S - 1), (None, u64::MAX)] {
            let mut throttle = Throttle::new(limit);
            throttle.charge(1 << 40, 0, false);
            assert_eq!(throttle.pause_ns(S, committed), 0, "{limit:?}");
        }
    }
}
