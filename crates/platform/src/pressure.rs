//! Whether the threads that take lines are short of processor time, and work that gives way
//! meanwhile.
//!
//! Ingest comes first, but only ingest: beside other programs of the machine, queries, parsing and
//! sealing must work at normal priority. A niceness cannot say that, because it counts against
//! every program, and a thread that has one cannot lose it again without privileges. So the threads
//! of [`Role::Receiver`](crate::placement::Role::Receiver) and
//! [`Role::Writer`](crate::placement::Role::Writer) are looked at: the kernel says of each how long
//! it ran and how long it waited for a processor (`schedstat`). Other work calls [`give_way`]
//! between two steps. It returns at once while no receiver waits. Otherwise it sleeps in
//! proportion to the time that the step took, longer from look to look, up to [`SLEEP_PARTS_MAX`]
//! times as long.
//!
//! Threads that take lines and serve queries as well, those of HTTP, are short of processor time
//! whenever many short queries come, because they carry the answers. If queries gave way to that,
//! they would sleep most of the time, and no line would come sooner. So these threads count only
//! while lines come to them ([`lines_come`]).
//!
//! There is no thread for this: whoever calls [`give_way`] looks, at most every [`LOOK`]. An idle
//! process looks at nothing. Where the kernel has no such statistics, nothing gives way here; then
//! the queue of the writer alone holds work back.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

/// The least time between two looks.
pub const LOOK: Duration = Duration::from_millis(50);
/// Two looks further apart than this are not compared: the first was made for other work.
const LOOK_MAX: Duration = Duration::from_millis(1000);
/// The longest sleep, in times of the step before it: work that gives way gets a sixteenth of a
/// processor for each of its threads.
///
/// limits.md, Queries: work beside receivers that wait for a processor | sleeps of 15 times the
/// work before, 100 ms at a time | queries, parsing and sealing take longer; lines are taken at
/// full speed
const SLEEP_PARTS_MAX: u32 = 15;
/// The longest sleep: what waits for the work (a client that cancels) is heard again after it.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// A receiver is short of processor time if it wants a processor for at least this share of the
/// time, in percent: one that takes few lines waits, too, beside busy programs, but loses none.
const DEMAND_PERCENT_MIN: u64 = 25;
/// And if it waits for at least this share of the time in which it wants one, in percent.
const WAIT_PERCENT_MIN: u64 = 8;

/// How long a thread ran, and how long it waited for a processor, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Times {
    ran_ns: u64,
    waited_ns: u64,
}

impl Times {
    /// Those of a thread of this process; `None` if it has ended, or the kernel does not say.
    fn of(thread: i32) -> Option<Times> {
        let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
        let mut numbers = text.split_ascii_whitespace().map(str::parse);
        Some(Times { ran_ns: numbers.next()?.ok()?, waited_ns: numbers.next()?.ok()? })
    }

    /// Whether a thread was short of processor time between two looks.
    fn is_short_since(self, before: Times, elapsed: Duration) -> bool {
        let waited = self.waited_ns.saturating_sub(before.waited_ns);
        let wanted = waited + self.ran_ns.saturating_sub(before.ran_ns);
        let elapsed = elapsed.as_nanos() as u64;
        wanted * 100 >= elapsed * DEMAND_PERCENT_MIN && waited * 100 >= wanted * WAIT_PERCENT_MIN
    }
}

/// When others give way to a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Precedence {
    Always,
    WhileLinesCome,
}

/// The threads that take lines, as they were at the last look.
struct Looks {
    receivers: HashMap<i32, (Precedence, Times)>,
    at: Option<Instant>,
}

impl Looks {
    /// Looks again; whether a receiver was short since the last look, which was long enough ago.
    /// `lines_came`: whether lines came since then to the threads that do other work, too.
    fn look(
        &mut self,
        now: Instant,
        lines_came: bool,
        times: impl Fn(i32) -> Option<Times>,
    ) -> bool {
        let elapsed = self.at.map_or(Duration::MAX, |at| now.saturating_duration_since(at));
        self.at = Some(now);
        let mut is_short = false;
        self.receivers.retain(|thread, (precedence, before)| {
            let Some(now) = times(*thread) else { return false };
            let counts = lines_came || *precedence == Precedence::Always;
            is_short |= counts && elapsed <= LOOK_MAX && now.is_short_since(*before, elapsed);
            *before = now;
            true
        });
        is_short
    }
}

/// How long to sleep for a step, in sixteenths of its time, after a look: quickly more while
/// receivers are short, slowly less afterwards, so that the work finds the share that they leave.
fn parts_after(parts: u32, is_short: bool) -> u32 {
    const WHOLE: u32 = SLEEP_PARTS_MAX * 16;
    match is_short {
        true => (parts * 4).clamp(16, WHOLE),
        false => parts - parts.div_ceil(8),
    }
}

// Receivers are threads of the whole process, and so is the work that gives way to them.
static LOOKS: Mutex<Option<Looks>> = Mutex::new(None);
/// How long each step sleeps, in sixteenths of its time; 0 while no receiver is short.
static PARTS: AtomicU32 = AtomicU32::new(0);
/// Whether lines came since the last look to threads that do other work, too.
static LINES_CAME: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// When the step of this thread began.
    static BEGUN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The calling thread takes lines: others give way to it for as long as it lives.
pub fn take_precedence() {
    register(Precedence::Always);
}

/// As [`take_precedence`], for a thread that does other work as well: others give way to it while
/// [lines come](lines_come).
pub fn take_precedence_for_lines() {
    register(Precedence::WhileLinesCome);
}

/// Says that lines come to threads that do other work as well.
pub fn lines_come() {
    LINES_CAME.store(true, Relaxed);
}

fn register(precedence: Precedence) {
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    let Some(times) = Times::of(thread) else { return };
    let mut looks = LOOKS.lock().unwrap_or_else(PoisonError::into_inner);
    let looks = looks.get_or_insert_with(|| Looks { receivers: HashMap::new(), at: None });
    looks.receivers.insert(thread, (precedence, times));
}

/// Between two steps of work that gives way to ingest: sleeps while receivers are short of
/// processor time, for longer the longer the step took. A step begins where the last call ended;
/// one that began more than a second ago was idle meanwhile and counts as none.
pub fn give_way() {
    let now = Instant::now();
    look(now);
    let begun = BEGUN.replace(Some(now));
    let parts = PARTS.load(Relaxed);
    if parts == 0 {
        return;
    }
    let worked = begun.map_or(Duration::ZERO, |begun| now.saturating_duration_since(begun));
    if worked <= LOOK_MAX {
        thread::sleep((worked * parts / 16).min(SLEEP_MAX));
        BEGUN.set(Some(Instant::now()));
    }
}

/// Looks at the receivers, if nobody does and the last look is long enough ago.
fn look(now: Instant) {
    let mut looks = match LOOKS.try_lock() {
        Ok(looks) => looks,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return,
    };
    let Some(looks) = looks.as_mut() else { return };
    if looks.at.is_some_and(|at| now.saturating_duration_since(at) < LOOK) {
        return;
    }
    let is_short = looks.look(now, LINES_CAME.swap(false, Relaxed), Times::of);
    PARTS.store(parts_after(PARTS.load(Relaxed), is_short), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn times(ran_ms: u64, waited_ms: u64) -> Times {
        Times { ran_ns: ran_ms * MS, waited_ns: waited_ms * MS }
    }

    #[test]
    fn a_receiver_is_short_if_it_wants_much_and_waits() {
        let elapsed = Duration::from_millis(100);
        let is_short = |ran_ms: u64, waited_ms: u64| {
            times(1000 + ran_ms, 500 + waited_ms).is_short_since(times(1000, 500), elapsed)
        };
        assert!(is_short(60, 40));
        assert!(is_short(5, 95), "it hardly gets to run");
        assert!(!is_short(100, 0), "it has a processor of its own");
        assert!(!is_short(98, 2), "everybody waits a little");
        assert!(!is_short(2, 20), "it takes few lines, and other programs are busy");
        assert!(!is_short(0, 0));
    }

    #[test]
    fn looks_are_compared_only_with_recent_ones() {
        let begun = Instant::now();
        let receivers = HashMap::from([(7, (Precedence::Always, times(0, 0)))]);
        let mut looks = Looks { receivers, at: None };
        let busy = |_| Some(times(60, 40));
        assert!(!looks.look(begun, false, busy), "there is nothing to compare it with");
        let more = |_| Some(times(120, 80));
        assert!(looks.look(begun + Duration::from_millis(100), false, more));
        let late = |_| Some(times(1800, 1200));
        assert!(!looks.look(begun + Duration::from_secs(3), false, late), "that was long ago");
        assert!(
            !looks.look(begun + Duration::from_secs(4), false, |_| None),
            "the thread has ended"
        );
        assert!(looks.receivers.is_empty());
    }

    /// Many short queries keep the threads of HTTP busy: they would sleep most of the time if they
    /// gave way to that.
    #[test]
    fn threads_that_carry_answers_count_while_lines_come() {
        let receivers = HashMap::from([(7, (Precedence::WhileLinesCome, times(0, 0)))]);
        let begun = Instant::now();
        let mut looks = Looks { receivers, at: Some(begun) };
        let mut is_short = |round: u64, lines_came: bool| {
            let now = begun + Duration::from_millis(100) * round as u32;
            looks.look(now, lines_came, |_| Some(times(60 * round, 40 * round)))
        };
        assert!(!is_short(1, false));
        assert!(is_short(2, true));
        assert!(!is_short(3, false));
    }

    #[test]
    fn work_gives_way_quickly_and_comes_back_slowly() {
        let mut parts = 0;
        let mut looks = 0;
        while parts < SLEEP_PARTS_MAX * 16 {
            parts = parts_after(parts, true);
            looks += 1;
        }
        assert_eq!((parts, looks), (SLEEP_PARTS_MAX * 16, 3));
        assert_eq!(parts_after(parts, true), parts, "that is the most");
        while parts > 0 {
            let less = parts_after(parts, false);
            assert!(less < parts);
            parts = less;
            looks += 1;
        }
        assert!((10..60).contains(&looks), "{looks} looks");
    }

    #[test]
    fn this_thread_has_times_and_others_have_none() {
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        let before = Times::of(own).unwrap();
        let mut sum = 0_u64;
        // Work until the kernel counts some.
        while Times::of(own).unwrap() == before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert_eq!(Times::of(i32::MAX), None);
    }
}
