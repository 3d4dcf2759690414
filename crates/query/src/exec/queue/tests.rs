//! Tests of the queue, with threads.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::*;

fn queue(concurrent_max: usize, waiting_max: usize, wait_max: Duration) -> QueryQueue {
    let tails_max = 1;
    QueryQueue::new(QueueLimits {
        concurrent_max,
        waiting_max,
        wait_max,
        background_concurrent_max: 1,
        background_waiting_max: 1,
        finished_kept: 3,
        tails_max,
        turn: Duration::from_secs(3_600),
        ..QueueLimits::default()
    })
}

/// Blocks until `wanted` holds for the list; another thread must bring that about soon.
fn until(queue: &QueryQueue, wanted: impl Fn(&[QueryInfo]) -> bool) {
    while !wanted(&queue.list()) {
        thread::yield_now();
    }
}

fn states(queue: &QueryQueue) -> Vec<(u64, &'static str)> {
    queue.list().iter().map(|q| (q.id, q.state.name())).collect()
}

#[test]
fn queries_wait_in_line() {
    let queue = queue(1, 8, Duration::from_secs(600));
    let first = queue.submit("query", "a", "me").unwrap();
    let (sender, receiver) = mpsc::channel();
    let mut threads = Vec::new();
    for i in 0..3 {
        let (queue_of_thread, sender) = (queue.clone(), sender.clone());
        threads.push(thread::spawn(move || {
            let permit = queue_of_thread.submit("query", "b", "me").unwrap();
            sender.send(permit.id()).unwrap();
        }));
        until(&queue, |list| list.len() == i + 2);
    }
    assert_eq!(states(&queue), [(4, "waiting"), (3, "waiting"), (2, "waiting"), (1, "running")]);
    drop(first);
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [2, 3, 4]);
    // The oldest ended query is no longer listed.
    assert_eq!(states(&queue), [(4, "done"), (3, "done"), (2, "done")]);
    assert!(queue.get(1).is_none());
    assert_eq!(queue.get(4).unwrap().progress, 1.0);
}

/// Waking all that wait for each place that became free took longer than a short query.
#[test]
fn a_place_that_becomes_free_wakes_the_query_that_gets_it() {
    let queue = queue(1, 8, Duration::from_secs(600));
    let tickets: Vec<Ticket> = (1..=5).map(|_| queue.enter("query", "a", "me").unwrap()).collect();
    let mut inner = queue.shared.lock();
    assert_eq!(inner.next_to_wake(), [1], "it waits for nothing");
    inner.entries.values_mut().for_each(|entry| entry.sleepers[Sleep::ToWait as usize] = 1);
    inner.entries.get_mut(&2).unwrap().sleepers = [1, 0];
    inner.places.leave(1);
    assert_eq!(inner.next_to_wake(), [2, 3], "the next, and the one that looks from now on");
    inner.entries.get_mut(&3).unwrap().sleepers = [1, 0];
    assert!(inner.next_to_wake().is_empty());
    inner.places.leave(4);
    assert!(inner.next_to_wake().is_empty());
    inner.places.leave(2);
    assert_eq!(inner.next_to_wake(), [3, 5]);
    drop(inner);
    // They left already.
    tickets.into_iter().for_each(|mut ticket| ticket.used = true);
}

/// Blocks while the queue wants this query to wait, as a query does between two pieces of work.
fn work(permit: &Permit) {
    permit.hold.pass(&permit.cancelled);
}

#[test]
fn a_short_query_does_not_wait_for_the_end_of_a_long_one() {
    let limits = QueueLimits { turn: Duration::ZERO, ..queue(1, 8, Duration::MAX).limits() };
    let queue = QueryQueue::new(limits);
    let long = queue.submit("query", "long", "a 10.0.0.1:1").unwrap();
    let ends = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = Arc::clone(&ends);
    let worker = thread::spawn(move || {
        while !seen.load(Relaxed) {
            work(&long);
        }
        long.id()
    });
    for _ in 0..3 {
        // It would wait for ever otherwise.
        queue.submit("query", "short", "a 10.0.0.1:2").unwrap();
    }
    until(&queue, |list| list.iter().any(|query| query.id == 1 && query.state.name() == "running"));
    ends.store(true, Relaxed);
    assert_eq!(worker.join().unwrap(), 1);
    assert!(queue.list().iter().all(|query| query.state.name() == "done"));
}

#[test]
fn one_user_or_address_leaves_a_share_to_others() {
    let limits = QueueLimits { tails_max: 8, ..queue(1, 3, Duration::ZERO).limits() };
    let queue = QueryQueue::new(limits);
    let tail = |client: &str| queue.submit(TAIL, "a", client);
    let held: Vec<_> = (1..=7).map(|port| tail(&format!("10.0.0.1:{port}")).unwrap()).collect();
    let refused = tail("10.0.0.1:9").err().unwrap().to_string();
    assert!(refused.contains("7 live tails of this user or address"), "{refused}");
    assert!(refused.contains("query.tails_max"), "{refused}");
    assert!(tail("ann 10.0.0.1:10").is_ok(), "a user has a share of their own");
    assert!(tail("[::1]:5").is_ok());
    drop(held);
    assert!(tail("10.0.0.1:11").is_ok());
}

#[test]
fn refusals_name_the_setting() {
    let queue = queue(1, 0, Duration::ZERO);
    let permit = queue.submit("query", "a", "me").unwrap();
    let error = queue.submit("query", "b", "me").err().unwrap();
    assert!(error.to_string().contains("query.waiting_max"));
    let waiting = QueryQueue::new(QueueLimits { waiting_max: 1, ..queue.limits() });
    let other = waiting.submit("query", "a", "me").unwrap();
    let error = waiting.submit("query", "b", "me").err().unwrap();
    assert!(error.to_string().contains("query.wait_max"));
    assert_eq!(waiting.get(2).unwrap().state, QueryState::Failed);
    // Tails have places of their own, up to their own limit.
    let tail = queue.submit(TAIL, "c", "me").unwrap();
    assert!(queue.submit(TAIL, "d", "me").err().unwrap().to_string().contains("query.tails_max"));
    drop((permit, tail, other));
    assert!(queue.submit("query", "e", "me").is_ok());
    assert!(queue.submit(TAIL, "f", "me").is_ok());
}

#[test]
fn cancel_while_waiting_running_and_after() {
    let queue = queue(1, 8, Duration::from_secs(600));
    let first = queue.submit("query", "a", "me").unwrap();
    let of_thread = queue.clone();
    let waiter = thread::spawn(move || of_thread.submit("query", "b", "me").err());
    until(&queue, |list| list.len() == 2);
    assert_eq!(queue.cancel(2), Cancel::Cancelled);
    assert_eq!(waiter.join().unwrap(), Some(QueueError::Cancelled));
    assert_eq!(queue.cancel(2), Cancel::Ended(QueryState::Cancelled));
    assert_eq!(queue.cancel(1), Cancel::Cancelled);
    assert!(first.cancelled.load(Relaxed));
    first.finish(QueryState::Failed, Some("x".to_owned()));
    assert_eq!(queue.get(1).unwrap().error.as_deref(), Some("x"));
    assert_eq!(queue.cancel(1), Cancel::Ended(QueryState::Failed));
    assert_eq!(queue.cancel(77), Cancel::Unknown);
}

#[test]
fn a_closed_queue_lets_nobody_in() {
    let queue = queue(1, 8, Duration::from_secs(600));
    let first = queue.submit("query", "a", "me").unwrap();
    let of_thread = queue.clone();
    let waiter = thread::spawn(move || of_thread.submit("query", "b", "me").err());
    until(&queue, |list| list.len() == 2);
    queue.close();
    assert_eq!(waiter.join().unwrap(), Some(QueueError::Closed));
    assert!(first.cancelled.load(Relaxed));
    assert_eq!(queue.submit("query", "c", "me").err(), Some(QueueError::Closed));
}

#[test]
fn background_queries_are_in_nobodys_way() {
    let queue = queue(1, 0, Duration::ZERO);
    let first = queue.enter(BACKGROUND, "a", "me").unwrap();
    let second = queue.enter(BACKGROUND, "b", "me").unwrap();
    let error = queue.enter(EXPORT, "c", "me").err().unwrap();
    assert!(error.to_string().contains("query.background_waiting_max"), "{error}");
    let interactive = queue.submit("query", "d", "me").unwrap();
    drop(second);
    // A client waits for an export, so an export does not wait without limit.
    let error = queue.submit(EXPORT, "c", "me").err().unwrap();
    assert!(error.to_string().contains("query.background_concurrent_max"), "{error}");
    let permit = first.wait().unwrap();
    let id = permit.id();
    permit.finish(QueryState::Done, None);
    for _ in 0..4 {
        drop(queue.submit(EXPORT, "e", "me").unwrap());
    }
    assert!(queue.get(id).is_some(), "its results are still there");
    queue.forget(id);
    assert!(queue.get(id).is_none());
    drop(interactive);
}

#[test]
fn who_is_paused_gives_the_place_up_and_waits_for_another() {
    let queue = queue(1, 8, Duration::from_secs(600));
    let first = queue.submit("query", "a", "me").unwrap();
    let (of_thread, cancelled) = (queue.clone(), Arc::clone(&first.cancelled));
    assert_eq!(queue.pause(1), QueueChange::Changed(QueryState::Paused));
    assert_eq!(queue.pause(1), QueueChange::Changed(QueryState::Paused));
    let hold = first.hold.clone();
    let paused = thread::spawn(move || hold.pass(&cancelled));
    let second = queue.submit("query", "b", "me").unwrap();
    assert_eq!(queue.resume(1), QueueChange::Changed(QueryState::Waiting));
    assert_eq!(queue.get(1).unwrap().position, Some(1));
    assert_eq!(queue.resume(1), QueueChange::Refused(QueryState::Waiting));
    assert!(!paused.is_finished());
    drop(second);
    paused.join().unwrap();
    assert_eq!(of_thread.get(1).unwrap().state, QueryState::Running);
    // Paused again, and cancelled.
    queue.pause(1);
    assert_eq!(queue.cancel(1), Cancel::Cancelled);
    first.hold.pass(&first.cancelled);
    assert!(!first.hold.expired());
    drop(first);
    assert_eq!(states(&queue)[1], (1, "cancelled"));
    assert_eq!(queue.resume(1), QueueChange::Refused(QueryState::Cancelled));
    assert_eq!(queue.pause(99), QueueChange::Unknown);
    let tail = queue.submit(TAIL, "c", "me").unwrap();
    assert_eq!(queue.pause(tail.id()), QueueChange::Endless);
}

#[test]
fn a_pause_has_an_end() {
    let limits = QueueLimits { pause_max: Duration::ZERO, ..QueueLimits::default() };
    let queue = QueryQueue::new(limits);
    let permit = queue.submit(BACKGROUND, "a", "me").unwrap();
    queue.pause(permit.id());
    permit.hold.pass(&permit.cancelled);
    assert!(permit.hold.expired() && permit.cancelled.load(Relaxed));
}

#[test]
fn a_pause_in_line_has_an_end_too() {
    for (kind, state) in [(BACKGROUND, QueryState::Interrupted), (EXPORT, QueryState::Cancelled)] {
        let limits = QueueLimits { pause_max: Duration::ZERO, ..QueueLimits::default() };
        let queue = QueryQueue::new(QueueLimits { background_concurrent_max: 0, ..limits });
        let ticket = queue.enter(kind, "a", "me").unwrap();
        queue.pause(1);
        assert_eq!(ticket.wait().err(), Some(QueueError::PausedTooLong(0)));
        assert_eq!(queue.get(1).unwrap().state, state, "{kind}");
    }
}

#[test]
fn whoever_enters_again_what_has_not_ended_is_alone_with_that() {
    let queue = queue(1, 8, Duration::ZERO);
    let permit = queue.submit("query", "a", "me").unwrap();
    let of_thread = queue.clone();
    assert!(thread::spawn(move || drop(of_thread.enter_again(1))).join().is_err());
    permit.finish(QueryState::Done, None);
    assert_eq!(queue.get(1).unwrap().state, QueryState::Done);
}

#[test]
fn what_was_interrupted_is_listed_and_enters_again() {
    let before = queue(1, 8, Duration::ZERO);
    let permit = before.submit(BACKGROUND, "a", "me").unwrap();
    permit.progress.bytes_planned.store(10, Relaxed);
    permit.progress.bytes_scanned.store(5, Relaxed);
    permit.finish(QueryState::Interrupted, None);
    let info = before.get(1).unwrap();

    let after = queue(1, 8, Duration::ZERO);
    after.restore(&info);
    assert_eq!((after.get(1).unwrap().state, after.get(1).unwrap().progress), (info.state, 0.5));
    assert_eq!(after.cancel(1), Cancel::Ended(QueryState::Interrupted));
    let permit = after.enter_again(1).unwrap().wait().unwrap();
    assert_eq!((permit.id(), after.get(1).unwrap().state), (1, QueryState::Running));
    drop(permit);
    assert_eq!(after.get(1).unwrap().state, QueryState::Done);
    assert_eq!(after.submit("query", "b", "me").unwrap().id(), 2);
}

#[test]
fn owners_have_limits_of_their_own_and_are_counted() {
    let queue = queue(4, 32, Duration::from_secs(600));
    let few = OwnerLimits { queries_max: Some(1), ..OwnerLimits::default() };
    queue.note_owner("ann 10.0.0.1:1", few);
    let first = queue.submit("query", "a", "ann 10.0.0.1:1").unwrap();
    let refused = queue.enter("query", "b", "ann 10.0.0.2:2").err();
    assert_eq!(refused, Some(QueueError::OwnLimit(1, "queries", "queries_max")));
    let other = queue.submit("query", "a", "10.0.0.1:1").unwrap();
    first.progress.rows.store(7, Relaxed);
    first.progress.memory_bytes.store(100, Relaxed);
    let usage = queue.usage();
    assert_eq!(usage.iter().map(|one| &*one.owner).collect::<Vec<_>>(), ["10.0.0.1", "ann"]);
    assert_eq!((usage[1].running, usage[1].memory_bytes), (1, 100));
    assert_eq!((usage[1].lately.queries, usage[1].lately.refused), (0, 1));
    drop((first, other));
    let usage = queue.usage();
    assert_eq!((usage[1].running, usage[1].lately.queries, usage[1].lately.rows), (0, 1, 7));
    assert!(queue.submit("query", "b", "ann 10.0.0.2:2").is_ok());
}
