//! Where the partitions of the log end, as queries ask for it.
//!
//! A query has to know ends that the log told after the query began. Calls are made by threads of
//! their own, so that no query waits for a broker that does not answer: it then goes on with the
//! ends that were told before.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cluster::End;
use cluster::engines::kafka::Log;
use platform::Clock;
use platform::placement::Role;
use platform::threads::Threads;

/// Calls at the same time. A query waits for one that begins after it.
const CALLS_MAX: usize = 4;
/// Time of one call.
const CALL_TIME_MAX: Duration = Duration::from_secs(3);
/// How long a query waits while the log has not answered for [`OUTAGE`].
const WAIT_IN_OUTAGE: Duration = Duration::from_millis(200);
/// Without an answer for this long, the log counts as away.
const OUTAGE: Duration = Duration::from_secs(2);

/// Asks the log. Their number is bounded by [`CALLS_MAX`].
static ASKERS: Threads =
    Threads::new("log-end", Role::Query, crate::process::memory::give_back_own);

/// What the log told of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    end: u64,
    /// Before the call that told it.
    asked: Instant,
    /// The same by the clock that dates lines, nanoseconds since 1970 UTC.
    asked_ns: i64,
}

/// The end of a partition for a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownEnd {
    /// The end; 0 of before for a partition that the log never told of.
    pub end: End,
    /// When the log was asked, nanoseconds since 1970 UTC; 0 if it never told. What it acknowledged
    /// later may be behind the end.
    pub asked_ns: i64,
}

/// The ends of all partitions for a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownEnds {
    /// By partition.
    pub ends: Vec<KnownEnd>,
    /// Why some are older than the query; empty where none is.
    pub error: String,
}

#[derive(Default)]
struct State {
    told: Vec<Option<Told>>,
    calls: usize,
    /// When the call began that began last.
    begun: Option<Instant>,
    /// When the last of the calls began that have ended.
    ended: Option<Instant>,
    /// When the first call began that failed since one succeeded.
    failing: Option<Instant>,
    error: String,
}

/// Asks the log where its partitions end.
pub struct LogEnds {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    changed: Condvar,
}

impl LogEnds {
    /// Knows nothing yet.
    pub fn new(clock: Arc<dyn Clock>) -> LogEnds {
        LogEnds { clock, state: Mutex::default(), changed: Condvar::new() }
    }

    /// What somebody else was told, who asked at `asked`: the end of each partition, none of those
    /// that the log did not tell.
    pub fn hear(&self, ends: &[Option<u64>], asked: Instant) {
        let asked_ns = self.asked_ns(asked);
        let mut state = self.lock();
        state.take(ends.iter().copied(), asked, asked_ns);
        drop(state);
        self.changed.notify_all();
    }

    /// How many partitions the log has, those without a leader included; 0 while that is not known.
    pub fn partitions(&self) -> u32 {
        u32::try_from(self.lock().told.len()).unwrap_or(u32::MAX)
    }

    /// For how long the log has not told where all partitions end; none while it does.
    pub fn outage(&self) -> Option<Duration> {
        self.lock().failing.map(|since| since.elapsed())
    }

    /// Asks the log, and waits up to `wait`. Where it does not answer, the ends are those that it
    /// told before. A partition that had no leader since this node started ends nowhere: its owner
    /// is asked for all that it has.
    ///
    /// Errors: the log has told the end of no partition yet.
    pub fn ask(self: &Arc<Self>, log: &Arc<Log>, wait: Duration) -> Result<KnownEnds, String> {
        let asked = Instant::now();
        let mut state = self.lock();
        let is_away = state.failing.is_some_and(|since| since.elapsed() >= OUTAGE);
        let until = asked + if is_away { WAIT_IN_OUTAGE.min(wait) } else { wait };
        loop {
            let is_told = !state.told.is_empty()
                && state.told.iter().all(|told| told.is_some_and(|told| told.asked >= asked));
            let has_ended = state.ended.is_some_and(|begun| begun >= asked);
            let now = Instant::now();
            if is_told || has_ended || now >= until {
                break;
            }
            if state.begun.is_none_or(|begun| begun < asked) && state.calls < CALLS_MAX {
                self.begin(&mut state, log)?;
            }
            let waited = self.changed.wait_timeout(state, until - now);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.known(asked)
    }

    /// Begins a call.
    fn begin(self: &Arc<Self>, state: &mut State, log: &Arc<Log>) -> Result<(), String> {
        let (ends, log) = (Arc::clone(self), Arc::clone(log));
        let (begun, known) = (Instant::now(), state.told.len());
        let call = move || {
            let told = log.known_ends(u32::try_from(known).unwrap_or(u32::MAX), CALL_TIME_MAX);
            let asked_ns = ends.asked_ns(begun);
            let mut state = ends.lock();
            state.calls -= 1;
            state.ended = state.ended.max(Some(begun));
            match told {
                Ok(told) => state.take(told.into_iter(), begun, asked_ns),
                Err(error) => state.failed(begun, error.to_string()),
            }
            drop(state);
            ends.changed.notify_all();
        };
        ASKERS.run(call).map_err(|error| format!("no thread can be started: {error}"))?;
        state.calls += 1;
        state.begun = Some(begun);
        Ok(())
    }

    fn asked_ns(&self, asked: Instant) -> i64 {
        let ago_ns = i64::try_from(asked.elapsed().as_nanos()).unwrap_or(i64::MAX);
        self.clock.now_ns().saturating_sub(ago_ns)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes what a call told. Calls may overtake each other.
    fn take(&mut self, ends: impl Iterator<Item = Option<u64>>, asked: Instant, asked_ns: i64) {
        let mut untold = 0_usize;
        for (partition, end) in ends.enumerate() {
            if self.told.len() <= partition {
                self.told.push(None);
            }
            let told = &mut self.told[partition];
            match end {
                Some(end) if told.is_none_or(|told| told.asked < asked) => {
                    *told = Some(Told { end, asked, asked_ns });
                }
                Some(_) => {}
                None => untold += 1,
            }
        }
        match untold {
            0 => (self.failing, self.error) = (None, String::new()),
            _ => self.failed(asked, format!("{untold} partitions have no leader that answers")),
        }
    }

    fn failed(&mut self, begun: Instant, error: String) {
        self.failing.get_or_insert(begun);
        self.error = error;
    }

    /// The ends for a query that began at `asked`.
    fn known(&self, asked: Instant) -> Result<KnownEnds, String> {
        let slow = "it has not answered in time";
        let why = if self.error.is_empty() { slow } else { &self.error };
        if self.told.iter().all(Option::is_none) {
            return Err(format!("Kafka has not told where its partitions end: {why}"));
        }
        let mut is_now = true;
        let known = |told: &Option<Told>| match *told {
            Some(Told { end, asked: at, asked_ns }) if at >= asked => {
                KnownEnd { end: End::Now(end), asked_ns }
            }
            Some(Told { end, asked_ns, .. }) => {
                is_now = false;
                KnownEnd { end: End::Before(end), asked_ns }
            }
            None => {
                is_now = false;
                KnownEnd { end: End::Before(0), asked_ns: 0 }
            }
        };
        let ends: Vec<KnownEnd> = self.told.iter().map(known).collect();
        Ok(KnownEnds { ends, error: if is_now { String::new() } else { why.to_owned() } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_of_now_when_they_were_asked_for_after_the_query_began() {
        let mut state = State::default();
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        assert!(state.known(at(0)).is_err());
        state.take([None, None].into_iter(), at(5), 5);
        assert!(state.known(at(0)).is_err(), "no partition is known");
        let end = |end, asked_ns| KnownEnd { end, asked_ns };
        // One partition has no leader since this node started: the other one is known all the same.
        state.take([Some(5), None].into_iter(), at(10), 10);
        let known = state.known(at(10)).unwrap();
        assert_eq!(known.ends, [end(End::Now(5), 10), end(End::Before(0), 0)]);
        assert!(known.error.contains("1 partitions"), "{}", known.error);
        assert!(state.failing.is_some());
        state.take([Some(6), Some(7)].into_iter(), at(20), 20);
        let ends = vec![end(End::Now(6), 20), end(End::Now(7), 20)];
        assert_eq!(state.known(at(20)), Ok(KnownEnds { ends, error: String::new() }));
        // An older call that ends later changes nothing.
        state.take([Some(5), Some(5)].into_iter(), at(15), 15);
        state.failed(at(30), "away".to_owned());
        let ends = vec![end(End::Before(6), 20), end(End::Before(7), 20)];
        assert_eq!(state.known(at(21)), Ok(KnownEnds { ends, error: "away".to_owned() }));
        // One partition alone is told again.
        state.take([None, Some(9)].into_iter(), at(40), 40);
        let known = state.known(at(40)).unwrap();
        assert_eq!(known.ends, [end(End::Before(6), 20), end(End::Now(9), 40)]);
        assert!(known.error.contains("1 partitions"), "{}", known.error);
    }

    /// A store that starts while a partition has no leader takes its share of the others.
    #[test]
    fn a_partition_without_a_leader_is_one_of_the_partitions() {
        let ends = LogEnds::new(Arc::new(platform::ManualClock::new(0)));
        assert_eq!(ends.partitions(), 0);
        ends.hear(&[Some(5), None, Some(0)], Instant::now());
        assert_eq!(ends.partitions(), 3);
        ends.hear(&[Some(5), Some(1)], Instant::now());
        assert_eq!(ends.partitions(), 3, "partitions do not go away");
    }
}
