//! Finds anomalies in a series of numbers as they come: spikes, drops, silence, level shifts,
//! changes of variation and flat lines.
//!
//! ```
//! use analysis::anomaly::Detector;
//!
//! const MINUTE_NS: i64 = 60_000_000_000;
//! let mut detector = Detector::new();
//! for minute in 0..1_000 {
//!     detector.observe(minute * MINUTE_NS, 50.0 + (minute % 7) as f64);
//! }
//! let verdict = detector.observe(1_000 * MINUTE_NS, 0.0);
//! assert!(verdict.is_alert());
//! assert_eq!(verdict.reason.unwrap().to_string(), "silent: 0, where 50 to 56 are usual");
//! ```
//!
//! How it works, for each value:
//!
//! 1. Windows of the last values, the usual course of a day and of a week, and a long-run centre
//!    say what was to be expected. Whether the series follows such a course is found from the data.
//!    All are robust: medians and clipped means.
//! 2. Eight magnitudes are measured, such as the distance from the expected value, from the values
//!    just before, or of the mean of the last values from the level before.
//! 3. Each magnitude is compared with its own distribution in this series. The result is its
//!    surprise: `-log10` of the probability of one as large. No magnitude needs a threshold of its
//!    own, and the unit of the values does not matter.
//! 4. The sum of the surprises (after Fisher's method of combining tests) becomes the score, from 0
//!    to 1. The magnitudes depend on each other, so the sum is no probability: where an anomaly
//!    begins was chosen with public data (`examples/nab`).
//! 5. For 96 values after a peak, only a larger peak is an alert.
//!
//! Invariants: the state of a series is bounded ([`Detector::BYTES_MAX`]); no input panics; a value
//! is judged before it is learnt, and by earlier values only.
//!
//! Left out: reading of series, clocks and threads; relations between series; forecasts beyond the
//! next value.

mod boxed;
mod detector;
mod reason;
mod recent;
mod season;
mod tail;
mod typical;

pub use detector::{Detector, SCORE_ANOMALOUS, Verdict};
pub use reason::{Kind, Reason};
