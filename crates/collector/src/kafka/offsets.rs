//! How far partitions are read, and how far that is durable: [`Offsets`].
//!
//! Frames may become durable in another order than that of their records, so a partition has an
//! offset before which everything is durable, and *held* ranges of offsets behind it. What was on
//! its way when the process was killed is in the checkpoint with the number of its frame, so the
//! next start asks the store for these frames alone. Offsets that the group has committed count
//! where they are greater: another member has read up to there.
//!
//! Invariants: a checkpoint names a frame before the frame is delivered. Each record is in one
//! frame, with all lines that it gives, unless these have more than 16 MiB.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The version that this code writes, and the only one it reads.
const VERSION: u32 = 1;
/// Partitions whose offsets are kept. Beyond it those of partitions that others read are forgotten,
/// and the offsets of the group count.
const PARTITIONS_MAX: usize = 10_000;
/// How long giving up a partition waits for its lines.
const REVOKE_WAIT_MAX: Duration = Duration::from_secs(20);

/// A partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Partition {
    /// The topic.
    pub topic: Arc<str>,
    /// Its number.
    pub number: u32,
}

/// Where a partition is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At this offset.
    At(u64),
    /// At its first record.
    First,
    /// Behind its last record.
    End,
}

/// Offsets from the first up to, and without, the second.
type Range = (u64, u64);

/// Records of a partition that are in one frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub partition: Partition,
    epoch: u64,
    range: Range,
}

/// How far partitions are read. Shared by the source, the frames on their way, and the member of
/// the group.
#[derive(Debug)]
pub struct Offsets {
    state: Mutex<State>,
    landed: Condvar,
}

#[derive(Debug)]
struct State {
    member: String,
    is_from_end: bool,
    partitions: BTreeMap<Partition, Progress>,
    flights: BTreeMap<u64, Flight>,
    flight_next: u64,
    epoch_next: u64,
    failed: bool,
    /// Grows with each poll.
    round: u64,
    /// Topics of which a partition was begun, and in which round; 0 for an earlier process.
    topics: BTreeMap<Arc<str>, u64>,
    /// Records that were deleted before they were read.
    records_lost: u64,
}

#[derive(Debug)]
struct Flight {
    frame: u64,
    spans: Vec<Span>,
}

#[derive(Clone, Debug, Default)]
struct Progress {
    topic_id: [u8; 16],
    /// Another one when the partition begins anew: spans of an older one do not count.
    epoch: u64,
    is_begun: bool,
    is_ours: bool,
    durable: u64,
    /// Durable ranges behind, in order, apart from each other.
    held: Vec<Range>,
    next: u64,
    /// What was read already, behind `next`.
    skip: Vec<Range>,
    committed: Option<u64>,
    end: Option<u64>,
}

impl Progress {
    fn hold(&mut self, range: Range) {
        let at = self.held.partition_point(|held| held.1 < range.0);
        let mut whole = range;
        let mut end = at;
        while let Some(held) = self.held.get(end).filter(|held| held.0 <= whole.1) {
            whole = (whole.0.min(held.0), whole.1.max(held.1));
            end += 1;
        }
        drop(self.held.splice(at..end, [whole]));
        self.advance();
    }

    fn advance_to(&mut self, offset: u64) {
        self.durable = self.durable.max(offset);
        self.advance();
    }

    fn advance(&mut self) {
        let passed = self.held.partition_point(|held| held.0 <= self.durable);
        for (_, end) in self.held.drain(..passed) {
            self.durable = self.durable.max(end);
        }
    }
}

/// A partition while its records are taken.
#[derive(Debug)]
pub(super) struct Reading {
    partition: Partition,
    epoch: u64,
    next: u64,
    skip: Vec<Range>,
}

impl Reading {
    #[cfg(test)]
    pub fn next_offset(&self) -> u64 {
        self.next
    }

    /// The span of a record, up to the one before it; `None` if the record was taken before.
    pub fn take(&mut self, offset: u64) -> Option<Span> {
        if offset < self.next {
            return None;
        }
        let from = std::mem::replace(&mut self.next, offset + 1);
        if self.skip.iter().any(|skip| (skip.0..skip.1).contains(&offset)) {
            return None;
        }
        let partition = self.partition.clone();
        Some(Span { partition, epoch: self.epoch, range: (from, offset + 1) })
    }
}

/// Adds a span to those of a frame.
pub(super) fn cover(spans: &mut Vec<Span>, span: Span) {
    match spans.last_mut() {
        Some(last)
            if last.range.1 == span.range.0
                && last.epoch == span.epoch
                && last.partition == span.partition =>
        {
            last.range.1 = span.range.1;
        }
        _ => spans.push(span),
    }
}

/// What survives a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Checkpoint {
    pub version: u32,
    member: String,
    partitions: Vec<KnownPartition>,
    flights: Vec<KnownFlight>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownPartition {
    topic: String,
    number: u32,
    id: [u8; 16],
    durable: u64,
    held: Vec<Range>,
}

/// A frame that was on its way: its number, and topic, partition and offsets of its records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownFlight {
    frame: u64,
    spans: Vec<(String, u32, u64, u64)>,
}

impl Checkpoint {
    /// Of a source that never ran.
    pub fn new() -> Checkpoint {
        let member = format!("loginson-{:016x}", fastrand::u64(..));
        Checkpoint { version: VERSION, member, partitions: Vec::new(), flights: Vec::new() }
    }

    /// Whether this program reads it.
    pub fn is_known(&self) -> bool {
        self.version == VERSION
    }

    /// The frame before the first one that was on its way.
    pub fn before_flights(&self) -> Option<u64> {
        self.flights.iter().map(|flight| flight.frame.saturating_sub(1)).min()
    }
}

/// A partition for the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lag {
    pub topic: Arc<str>,
    pub records: u64,
}

impl Offsets {
    /// Goes on from a checkpoint. `durable` are the frames of which the store has lines, among
    /// those that were on their way.
    pub(super) fn new(
        checkpoint: Checkpoint,
        durable: &BTreeSet<u64>,
        is_from_end: bool,
    ) -> Offsets {
        let mut state = State {
            member: checkpoint.member,
            is_from_end,
            partitions: BTreeMap::new(),
            flights: BTreeMap::new(),
            flight_next: 0,
            epoch_next: 1,
            failed: false,
            round: 1,
            topics: BTreeMap::new(),
            records_lost: 0,
        };
        for known in checkpoint.partitions {
            let topic: Arc<str> = known.topic.into();
            state.topics.insert(Arc::clone(&topic), 0);
            let partition = Partition { topic, number: known.number };
            let progress = Progress {
                topic_id: known.id,
                is_begun: true,
                durable: known.durable,
                held: known.held,
                ..Progress::default()
            };
            state.partitions.insert(partition, progress);
        }
        for flight in checkpoint.flights.iter().filter(|flight| durable.contains(&flight.frame)) {
            for (topic, number, from, to) in &flight.spans {
                let partition = Partition { topic: topic.as_str().into(), number: *number };
                if let Some(progress) = state.partitions.get_mut(&partition) {
                    progress.hold((*from, *to));
                }
            }
        }
        Offsets { state: Mutex::new(state), landed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while this is locked")
    }

    /// The name of this member of the group.
    pub(super) fn member(&self) -> String {
        self.lock().member.clone()
    }

    pub(super) fn snapshot(&self) -> Checkpoint {
        let state = self.lock();
        let partitions = state.partitions.iter().filter(|(_, progress)| progress.is_begun);
        let partitions = partitions.map(|(partition, progress)| KnownPartition {
            topic: partition.topic.to_string(),
            number: partition.number,
            id: progress.topic_id,
            durable: progress.durable,
            held: progress.held.clone(),
        });
        let flights = state.flights.values().map(|flight| KnownFlight {
            frame: flight.frame,
            spans: flight
                .spans
                .iter()
                .filter(|span| state.is_current(span))
                .map(span_text)
                .collect(),
        });
        Checkpoint {
            version: VERSION,
            member: state.member.clone(),
            partitions: partitions.collect(),
            flights: flights.collect(),
        }
    }

    /// Called before each poll.
    pub(super) fn begin_round(&self) {
        self.lock().round += 1;
    }

    /// Where a partition begins that this member is about to read.
    pub fn begin(
        &self,
        partition: &Partition,
        topic_id: [u8; 16],
        committed: Option<u64>,
    ) -> Begin {
        let mut state = self.lock();
        let round = state.round;
        let first_round = *state.topics.entry(Arc::clone(&partition.topic)).or_insert(round);
        // A partition that was added to a topic later is read from its first record.
        let is_new_topic = first_round == round;
        let epoch = state.epoch_next;
        state.epoch_next += 1;
        let is_from_end = state.is_from_end;
        if let Some(known) = state.partitions.get_mut(partition)
            && known.is_begun
            && (known.topic_id == topic_id || [known.topic_id, topic_id].contains(&[0; 16]))
        {
            known.topic_id = topic_id;
            known.advance_to(committed.unwrap_or_default());
            return Begin::At(known.durable);
        }
        state.make_room();
        let fresh = Progress { topic_id, epoch, ..Progress::default() };
        state.partitions.insert(partition.clone(), fresh);
        match committed {
            Some(offset) => Begin::At(offset),
            None if is_from_end && is_new_topic => Begin::End,
            None => Begin::First,
        }
    }

    /// The partition is read from this offset.
    pub fn begun(&self, partition: &Partition, offset: u64) {
        let mut state = self.lock();
        let in_flight = state.in_flight(partition);
        let Some(progress) = state.partitions.get_mut(partition) else { return };
        if !std::mem::replace(&mut progress.is_begun, true) {
            progress.durable = offset;
        }
        progress.is_ours = true;
        progress.committed = None;
        progress.next = offset;
        progress.skip = [&progress.held[..], &in_flight].concat();
    }

    /// The offset that was to be read is not there; the partition has these offsets. Returns where
    /// it begins now.
    pub fn outside(&self, partition: &Partition, first: u64, end: u64) -> Begin {
        let mut state = self.lock();
        let epoch = state.epoch_next;
        state.epoch_next += 1;
        let Some(progress) = state.partitions.get_mut(partition) else { return Begin::First };
        let (next, topic, number) = (progress.next, &partition.topic, partition.number);
        if next > end {
            tracing::warn!(
                "partition {number} of topic {topic} of Kafka ends at {end}, and {next} was to be read: the topic was \
                 made anew, or brokers lost records; it is read from its beginning"
            );
            let topic_id = progress.topic_id;
            *progress = Progress { topic_id, epoch, ..Progress::default() };
            return Begin::First;
        }
        if next < first {
            tracing::warn!(
                "records {next} to {} of partition {number} of topic {topic} of Kafka were deleted before they were \
                 read; raise retention.ms and retention.bytes of the topic",
                first - 1
            );
            progress.advance_to(first);
            let now = progress.durable;
            state.records_lost += first - next;
            return Begin::At(now);
        }
        Begin::At(next)
    }

    /// Partitions are about to be given up: waits until their lines are durable, for at most 20
    /// seconds, and returns the offsets to commit.
    pub fn revoke(&self, partitions: &[Partition]) -> Vec<(Partition, u64)> {
        let is_flying = |state: &mut State| {
            let is_of = |span: &Span| partitions.contains(&span.partition);
            state.flights.values().any(|flight| flight.spans.iter().any(is_of))
        };
        let waited = self.landed.wait_timeout_while(self.lock(), REVOKE_WAIT_MAX, is_flying);
        let (mut state, timeout) = waited.expect("nothing panics while this is locked");
        if timeout.timed_out() {
            tracing::warn!(
                "partitions of Kafka are given up while lines of them are still on their way; these may be stored \
                 twice, here and by the next reader"
            );
        }
        let mut offsets = Vec::new();
        for partition in partitions {
            if let Some(progress) = state.partitions.get_mut(partition)
                && std::mem::take(&mut progress.is_ours)
                && progress.is_begun
            {
                offsets.push((partition.clone(), progress.durable));
            }
        }
        offsets
    }

    /// Partitions were lost to others.
    pub fn lose(&self, partitions: &[Partition]) {
        let mut state = self.lock();
        for partition in partitions {
            if let Some(progress) = state.partitions.get_mut(partition) {
                progress.is_ours = false;
            }
        }
    }

    /// The member is not there any more.
    pub(super) fn leave(&self) {
        self.lock().partitions.values_mut().for_each(|progress| progress.is_ours = false);
    }

    /// A partition whose records are about to be taken; `None` if it is not assigned.
    pub(super) fn reading(&self, partition: &Partition) -> Option<Reading> {
        let state = self.lock();
        let progress = state.partitions.get(partition).filter(|progress| progress.is_ours)?;
        Some(Reading {
            partition: partition.clone(),
            epoch: progress.epoch,
            next: progress.next,
            skip: progress.skip.clone(),
        })
    }

    /// Records were taken.
    pub(super) fn read(&self, reading: Reading) {
        let mut state = self.lock();
        if let Some(progress) = state.partitions.get_mut(&reading.partition)
            && progress.epoch == reading.epoch
        {
            progress.next = reading.next;
            progress.skip.retain(|skip| skip.1 > reading.next);
        }
    }

    /// Registers a frame that is about to be delivered; returns the number of its flight.
    pub(super) fn take_off(&self, frame: u64, spans: Vec<Span>) -> u64 {
        let mut state = self.lock();
        let flight = state.flight_next;
        state.flight_next += 1;
        state.flights.insert(flight, Flight { frame, spans });
        flight
    }

    /// A frame is not delivered after all; returns its spans.
    pub(super) fn turn_back(&self, flight: u64) -> Vec<Span> {
        self.lock().flights.remove(&flight).map(|flight| flight.spans).unwrap_or_default()
    }

    /// The outcome of a frame is known.
    pub(super) fn land(&self, flight: u64, is_kept: bool) {
        let mut state = self.lock();
        if let Some(flight) = state.flights.remove(&flight) {
            match is_kept {
                true => state.settle(flight.spans),
                false => state.failed = true,
            }
        }
        self.landed.notify_all();
    }

    /// Counts records of which no line is kept.
    pub(super) fn settle(&self, spans: Vec<Span>) {
        self.lock().settle(spans);
    }

    /// Whether a frame was not kept.
    pub(super) fn has_failed(&self) -> bool {
        self.lock().failed
    }

    /// Waits until no frame is on its way. Returns whether that is so.
    pub(super) fn wait_idle(&self, time_max: Duration) -> bool {
        let on_way = |state: &mut State| !state.flights.is_empty();
        let waited = self.landed.wait_timeout_while(self.lock(), time_max, on_way);
        waited.expect("nothing panics while this is locked").0.flights.is_empty()
    }

    /// After frames were not kept: goes back to what is durable, and returns where that is. Called
    /// while no frame is on its way.
    pub(super) fn go_back(&self) -> Vec<(Partition, u64)> {
        let mut state = self.lock();
        state.failed = false;
        let mut offsets = Vec::new();
        for (partition, progress) in &mut state.partitions {
            if progress.is_ours {
                progress.next = progress.durable;
                progress.skip.clone_from(&progress.held);
                offsets.push((partition.clone(), progress.durable));
            }
        }
        offsets
    }

    /// Offsets that are durable and not committed.
    pub(super) fn uncommitted(&self) -> Vec<(Partition, u64)> {
        let state = self.lock();
        let ours = state.partitions.iter().filter(|(_, progress)| {
            progress.is_ours && progress.committed != Some(progress.durable)
        });
        ours.map(|(partition, progress)| (partition.clone(), progress.durable)).collect()
    }

    pub(super) fn committed(&self, offsets: &[(Partition, u64)]) {
        let mut state = self.lock();
        for (partition, offset) in offsets {
            if let Some(progress) = state.partitions.get_mut(partition) {
                progress.committed = Some(*offset);
            }
        }
    }

    /// Notes where partitions end.
    pub(super) fn note_ends(&self, ends: &[(Partition, u64)]) {
        let mut state = self.lock();
        for (partition, end) in ends {
            if let Some(progress) = state.partitions.get_mut(partition) {
                progress.end = Some(*end);
            }
        }
    }

    /// Records of each assigned partition that are not durable.
    pub(super) fn lags(&self) -> Vec<Lag> {
        let state = self.lock();
        let ours = state.partitions.iter().filter(|(_, progress)| progress.is_ours);
        ours.map(|(partition, progress)| Lag {
            topic: Arc::clone(&partition.topic),
            records: progress.end.unwrap_or_default().saturating_sub(progress.durable),
        })
        .collect()
    }

    pub(super) fn records_lost(&self) -> u64 {
        self.lock().records_lost
    }
}

impl State {
    fn is_current(&self, span: &Span) -> bool {
        self.partitions.get(&span.partition).is_some_and(|progress| progress.epoch == span.epoch)
    }

    fn in_flight(&self, partition: &Partition) -> Vec<Range> {
        let spans = self.flights.values().flat_map(|flight| &flight.spans);
        let of_it = spans.filter(|span| span.partition == *partition && self.is_current(span));
        of_it.map(|span| span.range).collect()
    }

    fn settle(&mut self, spans: Vec<Span>) {
        for span in spans {
            if let Some(progress) = self.partitions.get_mut(&span.partition)
                && progress.epoch == span.epoch
            {
                progress.hold(span.range);
            }
        }
    }

    fn make_room(&mut self) {
        if self.partitions.len() >= PARTITIONS_MAX {
            self.partitions.retain(|_, progress| progress.is_ours);
        }
    }
}

fn span_text(span: &Span) -> (String, u32, u64, u64) {
    let Partition { topic, number } = &span.partition;
    (topic.to_string(), *number, span.range.0, span.range.1)
}
