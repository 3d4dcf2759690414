//! The clock of handlers.

use platform::{Clock, RealClock};

/// The wall clock, nanoseconds since 1970 UTC.
pub fn now_ns() -> i64 {
    RealClock::new().now_ns()
}
