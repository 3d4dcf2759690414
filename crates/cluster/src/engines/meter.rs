//! Counts the calls of an engine, and knows whether it works at present.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// An engine that has not been called for this long is not called failing because its last call
/// failed.
const CALLED_WITHIN: Duration = Duration::from_secs(60);
/// Longest text of an error that is kept.
const ERROR_CHARS_MAX: usize = 500;

/// The calls of one engine since the start of the process.
#[derive(Debug, Default)]
pub struct Meter {
    calls: AtomicU64,
    errors: AtomicU64,
    time_ns: AtomicU64,
    failing: Mutex<Failing>,
}

#[derive(Debug, Default)]
struct Failing {
    /// When the first and the last call failed since one succeeded; none while the engine works.
    since: Option<(Instant, Instant)>,
    /// What failed last, even if calls succeed again.
    error: Option<String>,
}

/// What a [`Meter`] shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metered {
    /// Calls, those that failed included.
    pub calls: u64,
    /// Calls that failed because of the engine or the way to it.
    pub errors: u64,
    /// The sum of the times of all calls.
    pub time: Duration,
    /// For how long no call has succeeded; none while the engine works.
    pub failing: Option<Duration>,
    /// What failed last, even if calls succeed again.
    pub error: Option<String>,
}

/// An engine that does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// How long ago the first call failed since one succeeded.
    pub since: Duration,
    /// How long ago the last call failed.
    pub last: Duration,
    /// How it failed.
    pub error: String,
}

impl Meter {
    /// Since when no call has succeeded; none while the engine works.
    pub fn outage(&self) -> Option<Outage> {
        let failing = self.failing();
        let (first, last) = failing.since.filter(|(_, last)| last.elapsed() < CALLED_WITHIN)?;
        let error = failing.error.clone().unwrap_or_default();
        let now = Instant::now();
        Some(Outage { since: now - first, last: now - last, error })
    }

    /// Makes a call and counts it. `is_failure` tells the errors of the engine from its answers,
    /// such as "there is no such object".
    pub fn call<T, E: Display>(
        &self,
        is_failure: impl FnOnce(&E) -> bool,
        call: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let begun = Instant::now();
        let result = call();
        self.note(begun, result.as_ref().err().filter(|error| is_failure(error)));
        result
    }

    /// Counts a call that began at some time, and failed or not.
    pub fn note(&self, begun: Instant, error: Option<&impl Display>) {
        let time_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.calls.fetch_add(1, Relaxed);
        self.time_ns.fetch_add(time_ns, Relaxed);
        match error {
            Some(error) => self.failed(begun, error),
            None => self.failing().since = None,
        }
    }

    /// Counts a failure of something else than a call that is counted.
    pub fn failed(&self, begun: Instant, error: &impl Display) {
        self.errors.fetch_add(1, Relaxed);
        let mut failing = self.failing();
        let now = Instant::now();
        failing.since = Some((failing.since.map_or(begun, |(first, _)| first), now));
        failing.error = Some(error.to_string().chars().take(ERROR_CHARS_MAX).collect());
    }

    /// The counts so far.
    pub fn read(&self) -> Metered {
        let failing = self.failing();
        let since = failing.since.filter(|(_, last)| last.elapsed() < CALLED_WITHIN);
        Metered {
            calls: self.calls.load(Relaxed),
            errors: self.errors.load(Relaxed),
            time: Duration::from_nanos(self.time_ns.load(Relaxed)),
            failing: since.map(|(first, _)| first.elapsed()),
            error: failing.error.clone(),
        }
    }

    fn failing(&self) -> MutexGuard<'_, Failing> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_fails_until_a_call_succeeds() {
        let meter = Meter::default();
        assert_eq!(meter.read(), Metered::default());
        let call = |result: Result<(), &str>| {
            let _ = meter.call(|error| *error != "no such object", || result);
            let Metered { calls, errors, failing, error, .. } = meter.read();
            (calls, errors, failing.is_some(), error.unwrap_or_default())
        };
        assert_eq!(call(Ok(())), (1, 0, false, String::new()));
        assert_eq!(call(Err("away")), (2, 1, true, "away".to_owned()));
        assert_eq!(call(Err("refused")), (3, 2, true, "refused".to_owned()));
        let outage = meter.outage().unwrap();
        assert!(outage.since >= outage.last && outage.error == "refused");
        // An answer, although it is not what was hoped for.
        assert_eq!(call(Err("no such object")), (4, 2, false, "refused".to_owned()));
        assert_eq!(call(Err(&"ä".repeat(600))).3, "ä".repeat(ERROR_CHARS_MAX));
        assert_eq!(call(Ok(())), (6, 3, false, "ä".repeat(ERROR_CHARS_MAX)));
    }
}
