//! The queue of a notifier, and the thread that empties it.
//!
//! What the receiver refuses does not count as told: it is due again, a minute later at the
//! earliest, and shown as an error until something is taken.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sinks::{Backoff, Clock, Fault, Random, Stop};
use text::duration::ns;

use super::{Channel, Notification, Policy, Sent};

/// Notifications that wait. One beyond is dropped and counted; it is due again after the next
/// evaluation of its rule.
///
/// limits.md, Alerts: notifications of a notifier that wait | {}, one of each rule | dropped and
/// counted; due again after the next evaluation
const WAITING_MAX: usize = 1_000;
/// Attempts at one notification before it is given up; it is then due again after the next
/// evaluation.
///
/// limits.md, Alerts: attempts at a notification | {}, with waits up to 8 s | given up and counted;
/// due again after the next evaluation
const ATTEMPTS_MAX: u32 = 5;
/// How long a rule is not told again whose notification the receiver refused. What it is refused
/// for may be in an alert that ends, or at the receiver.
///
/// limits.md, Alerts: a notification that a receiver refuses | again after {} at the earliest, by
/// an evaluation | counted, and shown as an error
const REFUSED_WAIT: Duration = Duration::from_secs(60);
/// How often the thread looks for a notification.
const LOOK: Duration = Duration::from_millis(200);

/// A receiver with its queue and its thread.
pub struct Notifier {
    policy: Policy,
    shared: Arc<Shared>,
    stop: Arc<Stop>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What became of a notification at the end.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// The notification.
    pub notification: Notification,
    /// The places of its alerts that count as told: those that the receiver has.
    pub taken: BTreeSet<usize>,
}

/// Counts since the start, and the last error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Notifications that the receiver took.
    pub sent: u64,
    /// Attempts that failed and may be repeated.
    pub failed_attempts: u64,
    /// Notifications that were given up after some attempts.
    pub given_up: u64,
    /// Notifications that the receiver refused, in whole or in part.
    pub refused: u64,
    /// Notifications for which the queue had no room.
    pub dropped: u64,
    /// Notifications that wait now.
    pub waiting: usize,
    /// The last error; none since the last success.
    pub last_error: Option<LastError>,
}

/// Why the last attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastError {
    /// When that was, in nanoseconds since 1970.
    pub time_ns: i64,
    /// What happened, with its remedy.
    pub message: String,
}

#[derive(Default)]
struct Shared {
    state: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Notification>,
    /// The rules with a notification that waits, is on its way, or is in `ended`.
    rules: BTreeSet<String>,
    ended: Vec<Delivery>,
    /// The rules whose notification was refused a moment ago, and the time of its evaluation.
    refused: BTreeMap<String, i64>,
    counts: Counts,
}

impl Queue {
    fn end(&mut self, notification: Notification, taken: BTreeSet<usize>) {
        self.ended.push(Delivery { notification, taken });
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Notifier {
    /// Starts the thread of a notifier.
    pub fn start(
        policy: Policy,
        channel: Box<dyn Channel>,
        clock: Arc<dyn Clock>,
        random: Random,
    ) -> std::io::Result<Notifier> {
        let shared = Arc::new(Shared::default());
        let stop = Arc::new(Stop::default());
        let mut worker = Worker {
            channel,
            shared: shared.clone(),
            stop: stop.clone(),
            clock,
            random,
            backoff: Backoff::default(),
        };
        let name = format!("notify-{}", policy.name);
        let thread = thread::Builder::new().name(name).spawn(move || worker.run())?;
        Ok(Notifier { policy, shared, stop, thread: Mutex::new(Some(thread)) })
    }

    /// Whom the notifier tells about what.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Whether a notification of a rule may be handed over that was evaluated at `time_ns`: none is
    /// on its way, and none was refused a moment ago.
    pub fn may_tell(&self, rule_id: &str, time_ns: i64) -> bool {
        let queue = self.shared.lock();
        let refused = queue.refused.get(rule_id);
        let is_refused = refused.is_some_and(|at_ns| is_recent(*at_ns, time_ns));
        !queue.rules.contains(rule_id) && !is_refused
    }

    /// Whether anything waits or is on its way.
    #[cfg(test)]
    pub fn is_busy_with_any(&self) -> bool {
        let queue = self.shared.lock();
        queue.rules.len() > queue.ended.len()
    }

    /// Hands a notification over. It is dropped and counted if the queue is full.
    pub fn hand_over(&self, notification: Notification) {
        let mut queue = self.shared.lock();
        if queue.waiting.len() >= WAITING_MAX {
            queue.counts.dropped += 1;
        } else if queue.rules.insert(notification.rule_id.clone()) {
            queue.waiting.push_back(notification);
        }
    }

    /// Takes out what was delivered or given up since the last call.
    pub fn take_ended(&self) -> Vec<Delivery> {
        let mut queue = self.shared.lock();
        let ended = std::mem::take(&mut queue.ended);
        for delivery in &ended {
            queue.rules.remove(&delivery.notification.rule_id);
        }
        ended
    }

    /// Asks the thread to end after the attempt that it is at.
    pub fn request_end(&self) {
        self.stop.request();
    }

    /// Ends the thread after the attempt that it is at, and waits for that. What waits is due again
    /// after the next start.
    pub fn end(&self) {
        self.request_end();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic of the thread was reported by it.
            let _ = thread.join();
        }
    }

    /// Counts and the last error.
    pub fn counts(&self) -> Counts {
        let queue = self.shared.lock();
        Counts { waiting: queue.waiting.len(), ..queue.counts.clone() }
    }
}

impl Drop for Notifier {
    /// As [`end`](Notifier::end).
    fn drop(&mut self) {
        self.end();
    }
}

/// Whether a refusal is so recent that its rule is not told again. A clock that jumped back puts
/// nothing off.
fn is_recent(refused_ns: i64, time_ns: i64) -> bool {
    time_ns.saturating_sub(refused_ns).saturating_abs() < ns(REFUSED_WAIT)
}

struct Worker {
    channel: Box<dyn Channel>,
    shared: Arc<Shared>,
    stop: Arc<Stop>,
    clock: Arc<dyn Clock>,
    random: Random,
    backoff: Backoff,
}

impl Worker {
    fn run(&mut self) {
        while !self.stop.is_requested() {
            let next = self.shared.lock().waiting.pop_front();
            match next {
                Some(notification) => self.deliver(notification),
                None => self.clock.wait(LOOK, &self.stop),
            }
        }
    }

    fn deliver(&mut self, notification: Notification) {
        let all: BTreeSet<usize> = (0..notification.alerts.len()).collect();
        let mut failures = 0;
        while failures < ATTEMPTS_MAX {
            let sent = self.send(&notification);
            let time_ns = self.clock.now_ns();
            let failed = |fault: Fault| Some(LastError { time_ns, message: fault.to_string() });
            let mut queue = self.shared.lock();
            match sent {
                Sent::Accepted => {
                    queue.counts.sent += 1;
                    queue.counts.last_error = None;
                    queue.refused.remove(&notification.rule_id);
                    queue.end(notification, all);
                    return;
                }
                Sent::InPart => failures = 0,
                Sent::Refused(fault) => {
                    let taken = self.channel.taken();
                    let refused_ns = notification.time_ns;
                    queue.refused.retain(|_, at_ns| is_recent(*at_ns, refused_ns));
                    if taken == all {
                        queue.counts.sent += 1;
                    } else {
                        queue.refused.insert(notification.rule_id.clone(), refused_ns);
                    }
                    queue.counts.refused += 1;
                    queue.counts.last_error = failed(fault);
                    queue.end(notification, taken);
                    return;
                }
                Sent::Failed { fault, retry_after } => {
                    failures += 1;
                    queue.counts.failed_attempts += 1;
                    queue.counts.last_error = failed(fault);
                    drop(queue);
                    let wait = self.backoff.wait(failures, (self.random)(), retry_after);
                    self.clock.wait(wait, &self.stop);
                }
            }
            if self.stop.is_requested() {
                break;
            }
        }
        let taken = self.channel.taken();
        let mut queue = self.shared.lock();
        queue.counts.given_up += 1;
        queue.end(notification, taken);
    }

    /// Sends a notification. A bug in a channel ends this attempt, and not the notifier.
    fn send(&mut self, notification: &Notification) -> Sent {
        let channel = &mut self.channel;
        let sent = catch_unwind(AssertUnwindSafe(|| channel.send(notification)));
        sent.unwrap_or_else(|_| Sent::Failed {
            fault: Fault::new(
                "sending it ended in a bug",
                "report it with the panic that the log of the process has",
            ),
            retry_after: None,
        })
    }
}
