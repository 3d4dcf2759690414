//! Live tails of a cluster on engines: each store sends the lines of its partitions, and the node
//! that is asked puts them together.
//!
//! A partition changes its owner at any time: the new one reads the log again from the last
//! published offset, and an old one may still send. So a store tells before each frame where the
//! log has it, `@PARTITION AFTER OFFSET`, and `@.` behind its rows. `AFTER` is the offset behind
//! the frame that it told before: there is no other frame between the two. `-` stands for an
//! `AFTER` that it does not know, because lines were skipped, which the client is told anyway.
//!
//! Invariants, for each partition: a frame is passed once, by one store at a time. If that store
//! goes away in the middle, the rows that were passed are left out when another one sends the same
//! frame: the rows of a frame are always the same, in the same order. What lies between what was
//! passed and the next `AFTER` is in segments alone, and nobody sends it: the client is told how
//! many messages that are, and they are counted.
//!
//! A store that goes away is tried again, with the places of all partitions, and a store that is
//! new is followed. The tail ends when no store can be followed for as long as a query would wait.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use cluster::{HotFrame, Role};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::{CANCEL_TICK, PIECES_MAX, pass};
use crate::access::params::Params;
use crate::access::principal::Caller;
use crate::app::App;
use crate::queries::stream::rows_answer;
use crate::queries::tails::TailPlace;
use crate::wire::error::{ApiError, ApiResult};
use node::cluster::Engines;
use node::cluster::engines::{LogPlace, OwnedPartition};
use node::queries::export::{Format, error_line};
use node::queries::jobs::QUERY_THREADS;

/// The line behind the rows of a frame.
pub const END: &[u8] = b"@.\n";
/// The places of a node that has none yet.
const NO_PLACES: &str = "none";
/// How often it is looked which stores there are.
const STORES_TICK: Duration = Duration::from_millis(250);
/// The pause before a store that went away is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// How many leases a tail goes on without any store.
const LEASES_WITHOUT: u32 = 3;

/// A frame that a store holds, to be sent at the begin.
pub struct Held {
    /// Its partition.
    pub owned: Arc<OwnedPartition>,
    /// The frame.
    pub frame: HotFrame,
    /// Where the log has it.
    pub place: LogPlace,
    /// Only lines that arrived since are sent.
    pub since_ns: i64,
}

/// What a store has told another node of its partitions.
pub struct Told {
    engines: Arc<Engines>,
    /// From where on the other node wants each partition.
    from: BTreeMap<u32, u64>,
    /// Behind the last frame that was sent.
    next: BTreeMap<u32, u64>,
    /// Partitions of which frames may have been skipped.
    skipped: BTreeSet<u32>,
}

impl Told {
    /// `text`: the places that the other node has, `PARTITION:OFFSET,…`, or [`NO_PLACES`].
    pub fn new(engines: Arc<Engines>, text: &str) -> ApiResult<Told> {
        let place = |text: &str| {
            let (partition, offset) = text.split_once(':')?;
            Some((partition.parse().ok()?, offset.parse().ok()?))
        };
        let places = text.split(',').filter(|text| *text != NO_PLACES).map(|text| {
            place(text).ok_or_else(|| {
                ApiError::bad_request(format!("places: '{text}' is not PARTITION:OFFSET"))
            })
        });
        let from = places.collect::<ApiResult<_>>()?;
        Ok(Told { engines, from, next: BTreeMap::new(), skipped: BTreeSet::new() })
    }

    /// What this node holds of its partitions, for the other one.
    pub fn held(&self, since_ns: i64) -> Vec<Held> {
        let mut held = Vec::new();
        for owned in self.engines.all_owned() {
            let partition = owned.number;
            let from = self.from.get(&partition).copied();
            let base = owned.hot.base();
            let mut after = from.map_or(base, |from| from.max(base));
            for frame in owned.hot.frames_from(from.unwrap_or(base)) {
                let received = frame.frame.received_range_ns();
                // What the other node has not seen is wanted whatever its age.
                let is_new = received.is_none_or(|(_, last)| last >= since_ns);
                let offset = frame.offset;
                let place = LogPlace { partition, after, offset };
                after = offset + 1;
                if from.is_some() || is_new {
                    let since_ns = if from.is_some() { i64::MIN } else { since_ns };
                    held.push(Held { owned: Arc::clone(&owned), frame, place, since_ns });
                }
            }
        }
        held
    }

    /// The line before the rows of a frame; none if the frame was sent already.
    pub fn head(&mut self, place: LogPlace) -> Option<Vec<u8>> {
        let LogPlace { partition, after, offset } = place;
        let next = self.next.entry(partition).or_insert(0);
        if offset < *next {
            return None;
        }
        *next = offset + 1;
        Some(match self.skipped.remove(&partition) {
            true => format!("@{partition} - {offset}\n").into_bytes(),
            false => format!("@{partition} {after} {offset}\n").into_bytes(),
        })
    }

    /// Frames of any partition were skipped.
    pub fn skipped(&mut self) {
        self.skipped.extend(self.next.keys());
    }
}

/// What a store says between rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// The rows of a frame follow: its partition, `AFTER` if it is known, and its offset.
    Begins(u32, Option<u64>, u64),
    /// The rows of the frame have ended.
    Ends,
}

impl Said {
    /// None for a row.
    fn of(line: &[u8]) -> Option<Result<Said, ()>> {
        let text = line.strip_prefix(b"@")?;
        if line == END {
            return Some(Ok(Said::Ends));
        }
        let read = || {
            let mut words = std::str::from_utf8(text).ok()?.trim_end().split(' ');
            let partition = words.next()?.parse().ok()?;
            let after = match words.next()? {
                "-" => None,
                after => Some(after.parse().ok()?),
            };
            Some(Said::Begins(partition, after, words.next()?.parse().ok()?))
        };
        Some(read().ok_or(()))
    }
}

/// How far a partition was passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Part {
    /// The offset of the first message that was not passed as a whole.
    next: u64,
    /// Rows of the frame at `next` that were passed.
    passed: u64,
    /// The stream that passes this frame now.
    by: Option<u64>,
}

/// How far all partitions were passed on, by all streams.
#[derive(Default)]
struct Parts {
    parts: Mutex<BTreeMap<u32, Part>>,
    ended: Condvar,
}

impl Parts {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Part>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The places as a parameter.
    fn shown(&self) -> String {
        let parts = self.lock();
        let places = parts.iter().map(|(partition, part)| format!("{partition}:{}", part.next));
        match places.collect::<Vec<String>>() {
            places if places.is_empty() => NO_PLACES.to_owned(),
            places => places.join(","),
        }
    }
}

/// What one store sends.
struct Stream<'p> {
    parts: &'p Parts,
    number: u64,
    /// The partition and offset of the frame whose rows follow, and how many of them are left out;
    /// none: it is not wanted.
    current: Option<(u32, u64, u64)>,
    /// Whether rows belong to a frame.
    is_inside: bool,
}

impl Stream<'_> {
    /// A frame begins. Waits while another store passes the same partition. Returns the messages
    /// before it that nobody passed.
    fn begins(
        &mut self,
        (partition, after, offset): (u32, Option<u64>, u64),
        is_over: &dyn Fn() -> bool,
    ) -> u64 {
        self.lets_go();
        self.is_inside = true;
        let mut parts = self.parts.lock();
        loop {
            let first = Part { next: after.unwrap_or(offset), ..Part::default() };
            let part = parts.entry(partition).or_insert(first);
            if offset < part.next {
                return 0;
            }
            if part.by.is_none() {
                break;
            }
            if is_over() {
                return 0;
            }
            let waited = self.parts.ended.wait_timeout(parts, CANCEL_TICK);
            parts = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let part = parts.get_mut(&partition).expect("it was just there");
        let missed = after.map_or(0, |after| after.saturating_sub(part.next));
        if offset > part.next {
            part.passed = 0;
        }
        (part.next, part.by) = (offset, Some(self.number));
        self.current = Some((partition, offset, part.passed));
        missed
    }

    /// Whether a row is to be passed.
    fn wants_row(&mut self) -> bool {
        match &mut self.current {
            Some((_, _, 0)) => true,
            Some((_, _, left)) => {
                *left -= 1;
                false
            }
            None => !self.is_inside,
        }
    }

    /// A row was passed.
    fn passed(&self) {
        if let Some((partition, ..)) = self.current
            && let Some(part) = self.parts.lock().get_mut(&partition)
        {
            part.passed += 1;
        }
    }

    /// The frame has ended.
    fn ends(&mut self) {
        self.is_inside = false;
        let Some((partition, offset, _)) = self.current.take() else { return };
        if let Some(part) = self.parts.lock().get_mut(&partition) {
            *part = Part { next: offset + 1, passed: 0, by: None };
        }
        self.parts.ended.notify_all();
    }

    /// Another store may send the rest of the frame.
    fn lets_go(&mut self) {
        let Some((partition, ..)) = self.current.take() else { return };
        if let Some(part) = self.parts.lock().get_mut(&partition) {
            part.by = None;
        }
        self.parts.ended.notify_all();
    }
}

impl Drop for Stream<'_> {
    /// The store is gone.
    fn drop(&mut self) {
        self.lets_go();
    }
}

/// The stores that are followed.
#[derive(Default)]
struct Followed {
    /// The addresses, and when those that failed are tried again.
    stores: BTreeMap<String, Option<Instant>>,
    /// Why a store failed last.
    error: String,
}

/// A JSON line with the number of messages of a partition that a tail missed here.
fn missed_line(partition: u32, messages: u64) -> Vec<u8> {
    let missed =
        json!({ "_skipped": { "lines": 0, "messages": messages, "partition": partition } });
    format!("{missed}\n").into_bytes()
}

/// Follows the stores of a cluster on engines.
pub async fn tail_of_partitions(
    app: &Arc<App>,
    engines: Arc<Engines>,
    caller: &Caller,
    params: &Params,
    restricted: String,
) -> ApiResult {
    let permit = Arc::new(TailPlace::take(app, caller, params.required("query")?)?);
    let id = permit.id();
    let (sender, chunks) = mpsc::channel(PIECES_MAX);
    // The stores do not know the caller: what restricts the query is a part of its text.
    let mut passed = params.pairs();
    let replaced =
        ["query", "ignore_pipes", "extra_filters", "extra_stream_filters", "own_lines", "places"];
    passed.retain(|(name, _)| !replaced.contains(&name.as_str()));
    passed.push(("query".to_owned(), restricted));
    passed.push(("own_lines".to_owned(), "1".to_owned()));
    let (app, stopping) = (Arc::clone(app), app.stopping.clone());
    let runtime = tokio::runtime::Handle::current();
    let parts = Arc::<Parts>::default();
    let followed = Arc::<Mutex<Followed>>::default();
    // Follows one store, until it goes away.
    let follow = {
        let (permit, sender, parts) = (Arc::clone(&permit), sender.clone(), Arc::clone(&parts));
        let (followed, stopping) = (Arc::clone(&followed), stopping.clone());
        Arc::new(move |node: Arc<node::cluster::Node>, number: u64| {
            let _runtime = runtime.enter();
            let is_over = || permit.cancelled.load(Relaxed) || *stopping.borrow();
            let mut params = passed.clone();
            params.push(("places".to_owned(), parts.shown()));
            let mut stream = Stream { parts: &parts, number, current: None, is_inside: false };
            let send = |line: &[u8]| pass(line, &sender, is_over).is_ok();
            let ended = node.follow("/select/logsql/tail", &params, &mut |line| {
                let is_sent = match Said::of(line) {
                    Some(Ok(Said::Begins(partition, after, offset))) => {
                        match stream.begins((partition, after, offset), &is_over) {
                            0 => true,
                            missed => {
                                app.tail_messages_missed.fetch_add(missed, Relaxed);
                                send(&missed_line(partition, missed))
                            }
                        }
                    }
                    Some(Ok(Said::Ends)) => {
                        stream.ends();
                        true
                    }
                    // It is of another release, which says more.
                    Some(Err(())) => true,
                    // Keeps the connection open.
                    None if line.len() <= 1 => send(line),
                    None if stream.wants_row() => {
                        let is_sent = send(line);
                        stream.passed();
                        permit.progress.rows.fetch_add(1, Relaxed);
                        is_sent
                    }
                    None => true,
                };
                match is_over() || !is_sent {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
            let mut followed = followed.lock().unwrap_or_else(PoisonError::into_inner);
            match ended {
                Ok(()) => permit.cancelled.store(true, Relaxed),
                Err(error) => {
                    tracing::debug!("a tail: {}", error.message);
                    followed.error = error.message;
                }
            }
            followed.stores.insert(node.url().to_owned(), Some(Instant::now() + RETRY));
        })
    };
    let runtime = tokio::runtime::Handle::current();
    let supervise = move || {
        let _runtime = runtime.enter();
        let is_over = || permit.cancelled.load(Relaxed) || *stopping.borrow() || sender.is_closed();
        let patience = engines.config.lease * LEASES_WITHOUT;
        let (mut number, mut reached) = (0, Instant::now());
        while !is_over() {
            let mut to_follow = Vec::new();
            {
                let mut followed = followed.lock().unwrap_or_else(PoisonError::into_inner);
                for node in engines.live(Role::Store) {
                    let due = followed.stores.get(node.url());
                    if due.is_none_or(|due| due.is_some_and(|due| due <= Instant::now())) {
                        followed.stores.insert(node.url().to_owned(), None);
                        to_follow.push(node);
                    }
                }
                if followed.stores.values().any(Option::is_none) {
                    reached = Instant::now();
                } else if reached.elapsed() > patience {
                    let why = match followed.error.is_empty() {
                        true => "no store heartbeats at present; start a store",
                        false => &followed.error,
                    };
                    let _ = pass(&error_line(why), &sender, is_over);
                    break;
                }
            }
            for node in to_follow {
                number += 1;
                let follow = Arc::clone(&follow);
                if let Err(error) = QUERY_THREADS.run(move || follow(node, number)) {
                    let why = format!("no thread can be started for the tail: {error}");
                    let _ = pass(&error_line(&why), &sender, is_over);
                    permit.cancelled.store(true, Relaxed);
                }
            }
            std::thread::sleep(STORES_TICK);
        }
        permit.cancelled.store(true, Relaxed);
    };
    QUERY_THREADS.run(supervise).map_err(|error| {
        ApiError::unavailable(format!("no thread can be started for the tail: {error}"))
    })?;
    let body = Body::from_stream(ReceiverStream::new(chunks));
    Ok(rows_answer(Some(id), Format::Jsonl.media_type(), body))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads what stores send, in turn; returns the rows that are passed, and `?N` for messages
    /// that are missed.
    fn passed(streams: &mut [Stream<'_>], sent: &[(usize, &str)]) -> Vec<String> {
        let mut all = Vec::new();
        for (number, line) in sent {
            let stream = &mut streams[*number];
            match Said::of(format!("{line}\n").as_bytes()) {
                Some(said) => match said.unwrap() {
                    Said::Ends => stream.ends(),
                    Said::Begins(partition, after, offset) => {
                        let missed = stream.begins((partition, after, offset), &|| true);
                        all.extend((missed > 0).then(|| format!("?{missed}")));
                    }
                },
                None => {
                    if stream.wants_row() {
                        all.push((*line).to_owned());
                        stream.passed();
                    }
                }
            }
        }
        all
    }

    fn stream(parts: &Parts, number: u64) -> Stream<'_> {
        Stream { parts, number, current: None, is_inside: false }
    }

    #[test]
    fn a_frame_is_passed_once_whoever_sends_it() {
        let parts = Parts::default();
        let mut streams = [stream(&parts, 1), stream(&parts, 2)];
        let all = passed(
            &mut streams,
            &[
                (0, "@3 7 7"),
                (0, "a"),
                (0, "b"),
                (0, "@."),
                (0, "@4 0 0"),
                (0, "other"),
                (0, "@."),
                // The new owner begins at the last published offset.
                (1, "@3 6 6"),
                (1, "x"),
                (1, "@."),
                (1, "@3 7 7"),
                (1, "a"),
                (1, "b"),
                (1, "@."),
                // There was a copy of a frame at 8.
                (1, "@3 8 9"),
                (1, "c"),
                (1, "@."),
                // The old one is late.
                (0, "@3 8 9"),
                (0, "c"),
                (0, "@."),
            ],
        );
        assert_eq!(all, ["a", "b", "other", "c"]);
        assert_eq!(parts.shown(), "3:10,4:1");
    }

    #[test]
    fn the_rest_of_a_frame_comes_from_another_store() {
        let parts = Parts::default();
        {
            let mut streams = [stream(&parts, 1)];
            let sent = [(0, "@3 7 7"), (0, "a"), (0, "b")];
            assert_eq!(passed(&mut streams, &sent), ["a", "b"]);
            // Another one cannot send it meanwhile.
            let mut other = [stream(&parts, 2)];
            assert!(passed(&mut other, &[(0, "@3 7 7"), (0, "a"), (0, "@.")]).is_empty());
        }
        assert_eq!(parts.shown(), "3:7");
        let mut streams = [stream(&parts, 3)];
        let sent = [
            (0, "@3 7 7"),
            (0, "a"),
            (0, "b"),
            (0, "c"),
            (0, "@."),
            (0, "@3 8 8"),
            (0, "d"),
            (0, "@."),
        ];
        assert_eq!(passed(&mut streams, &sent), ["c", "d"]);
    }

    #[test]
    fn what_nobody_sends_is_counted() {
        let parts = Parts::default();
        let mut streams = [stream(&parts, 1), stream(&parts, 2)];
        let all = passed(
            &mut streams,
            &[
                (0, "@3 7 7"),
                (0, "a"),
                (0, "@."),
                // It begins behind what others published and never sent.
                (1, "@3 10 12"),
                (1, "b"),
                (1, "@."),
                // Lines were skipped, which was told.
                (1, "@3 - 20"),
                (1, "c"),
                (1, "@."),
            ],
        );
        assert_eq!(all, ["a", "?2", "b", "c"]);
        for wrong in ["@\n", "@3\n", "@3 4\n", "@a 4 5\n", "@3 4 x\n"] {
            assert_eq!(Said::of(wrong.as_bytes()), Some(Err(())), "{wrong}");
        }
        assert_eq!(Said::of(b"{}\n"), None);
    }
}
