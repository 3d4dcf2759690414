//! The queue of a notifier, and the thread that empties it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sinks::{Backoff, Clock, Fault, Random, Stop};

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
/// How often the thread looks for a notification.
const LOOK: Duration = Duration::from_millis(200);

/// A receiver with its queue and its thread.
pub struct Notifier {
    policy: Policy,
    shared: Arc<Shared>,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

/// What became of a notification at the end.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// The notification.
    pub notification: Notification,
    /// Whether its alerts count as told: it was delivered, or will never be taken.
    pub is_told: bool,
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
    /// Notifications that the receiver will never take.
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
    counts: Counts,
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
        Ok(Notifier { policy, shared, stop, thread: Some(thread) })
    }

    /// Whom the notifier tells about what.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Whether a notification of a rule is on its way.
    pub fn is_busy_with(&self, rule_id: &str) -> bool {
        self.shared.lock().rules.contains(rule_id)
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

    /// Counts and the last error.
    pub fn counts(&self) -> Counts {
        let queue = self.shared.lock();
        Counts { waiting: queue.waiting.len(), ..queue.counts.clone() }
    }
}

impl Drop for Notifier {
    /// Ends the thread after the attempt that it is at. What waits is due again after the next
    /// start.
    fn drop(&mut self) {
        self.stop.request();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported by it.
            let _ = thread.join();
        }
    }
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
        for attempt in 1..=ATTEMPTS_MAX {
            let sent = self.channel.send(&notification);
            let time_ns = self.clock.now_ns();
            let failed = |fault: Fault| Some(LastError { time_ns, message: fault.to_string() });
            let mut queue = self.shared.lock();
            match sent {
                Sent::Accepted => {
                    queue.counts.sent += 1;
                    queue.counts.last_error = None;
                    queue.ended.push(Delivery { notification, is_told: true });
                    return;
                }
                Sent::Refused(fault) => {
                    queue.counts.refused += 1;
                    queue.counts.last_error = failed(fault);
                    queue.ended.push(Delivery { notification, is_told: true });
                    return;
                }
                Sent::Failed { fault, retry_after } => {
                    queue.counts.failed_attempts += 1;
                    queue.counts.last_error = failed(fault);
                    drop(queue);
                    let wait = self.backoff.wait(attempt, (self.random)(), retry_after);
                    self.clock.wait(wait, &self.stop);
                    if self.stop.is_requested() {
                        break;
                    }
                }
            }
        }
        let mut queue = self.shared.lock();
        queue.counts.given_up += 1;
        queue.ended.push(Delivery { notification, is_told: false });
    }
}
