//! Reads topics of Kafka as a member of a group of consumers.
//!
//! - [`offsets`](Offsets): how far each partition is read and durable; the checkpoint.
//! - `lines`: values of records as lines.
//! - `status`: what is told of the source.
//!
//! The protocol of Kafka is behind [`Connect`] and [`Member`], whose implementation is not here.
//! One thread polls, builds frames of what came, names them in the checkpoint, and delivers them;
//! then it polls again. The times of records are the times of arrival of their lines, so a line
//! that states no time has that of its record.
//!
//! Invariants:
//! - Every record is stored once, whatever happens to this process, as long as its partition stays
//!   with this member. Where frames leave this machine nothing can be recalled: records whose
//!   frames were on their way are then stored twice after a crash.
//! - Offsets are committed to the group once the lines are durable, for others to see, and for the
//!   next member that gets the partition.
//! - Nothing is taken while the disk is full: the partitions are paused, and the membership is
//!   kept.
//!
//! Bounded: [`FRAMES_MAX`] frames are built before they are delivered; a poll returns a bounded
//! number of records. Left out: schemas of registries (Avro, Protobuf other than OTLP), which are
//! kept as they come.

mod lines;
mod offsets;
mod status;

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mio::{Poll, Token};
use platform::pauses::Pauses;
use platform::{Clock, Disk};
use record::FrameBuilder;
use record::frame::PAYLOAD_BYTES_TARGET;

pub use offsets::{Begin, Offsets, Partition};
pub use status::{KafkaStatus, TopicStatus};

use crate::accounting::{Accounting, DropReason, SourceKind};
use crate::deliver::{Deliver, KeepError, Patience};
use crate::file::{FileError, Slot};
use crate::outlet::Destination;
use crate::source::{LogLimit, STOP_DRAIN_MAX, SourceThread, StopSignal};
use lines::{Origins, Piece};
use offsets::{Checkpoint, Span, cover};
use status::Board;

/// Frames that are built and named in the checkpoint together.
const FRAMES_MAX: usize = 8;
/// Pauses before the brokers are tried again.
const PAUSES: Pauses = Pauses::new(Duration::from_secs(1), Duration::from_secs(30));
/// How long a poll waits for records: within this time the source stops.
const POLL_WAIT: Duration = Duration::from_millis(200);
/// How often offsets are committed, and the checkpoint is written where nothing asks for it sooner.
const UPKEEP_NS: u64 = 1_000_000_000;
/// How long a number of a frame may be without its frame. The store gives a frame that comes later
/// another number, by which it would not be found after a crash; that is after 10 seconds.
const NUMBER_AGE_MAX_NS: u64 = 5_000_000_000;
/// How long frames that were not kept are waited for.
const LAND_WAIT: Duration = Duration::from_millis(100);
/// The pause after lines were not kept, or the checkpoint could not be written.
const FAILED_PAUSE: Duration = Duration::from_secs(1);
/// Records from before 2000 have no time that means something.
const TIME_MIN_NS: i64 = 946_684_800_000_000_000;

const WAKE: Token = Token(0);

/// Why topics cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TopicsError {
    /// The checkpoint is unusable.
    #[error(
        "cannot read {}, the checkpoint of topics of Kafka: {why}; remove it to go on where the group has committed",
        path.display()
    )]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The checkpoint cannot be written, or the thread cannot be started.
    #[error("cannot read topics of Kafka: {0}")]
    Start(#[from] io::Error),
}

impl From<FileError> for TopicsError {
    fn from(error: FileError) -> TopicsError {
        match error {
            FileError::Checkpoint { path, why } => TopicsError::Checkpoint { path, why },
            other => TopicsError::Start(io::Error::other(other)),
        }
    }
}

/// How values of records are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValueFormat {
    /// JSON objects, messages of syslog, CEF and other formats are recognised; anything else is
    /// text.
    #[default]
    Auto,
    /// JSON objects.
    Json,
    /// Text, whatever it contains.
    Text,
    /// Messages of syslog.
    Syslog,
    /// Exports of logs of OpenTelemetry, as protobuf or JSON.
    Otlp,
}

/// What of a record becomes fields besides its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// `kafka.topic`
    pub topic: bool,
    /// `kafka.partition`
    pub partition: bool,
    /// `kafka.offset`
    pub offset: bool,
    /// `kafka.key`
    pub key: bool,
    /// `kafka.headers.NAME`
    pub headers: bool,
}

impl Asked {
    /// Whether something is asked that differs from record to record.
    pub fn is_of_records(self) -> bool {
        self.offset || self.key || self.headers
    }
}

/// How topics are read.
#[derive(Clone, Debug)]
pub struct KafkaConfig {
    /// The group, which names the checkpoint too: its name is one for files.
    pub group: String,
    /// The format of values.
    pub format: ValueFormat,
    /// What becomes fields.
    pub asked: Asked,
    /// Whether partitions that nobody in the group has read begin at their end.
    pub is_from_end: bool,
    /// The type of lines; found from each line if not set.
    pub log_type: Option<String>,
    /// Zone of times that name none.
    pub zone: Option<String>,
    /// Fields that each line gets in addition.
    pub fields: Vec<(String, String)>,
    /// The directory of the checkpoint.
    pub data_dir: PathBuf,
}

/// A record of a topic.
#[derive(Clone, Debug)]
pub struct KafkaRecord {
    /// Its topic.
    pub topic: Arc<str>,
    /// Its partition.
    pub partition: u32,
    /// Its place there.
    pub offset: u64,
    /// Its time, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// Its key.
    pub key: Option<Bytes>,
    /// Its content; `None` for a deletion.
    pub value: Option<Bytes>,
    /// Its headers.
    pub headers: Vec<(String, Option<Bytes>)>,
}

/// Connects to brokers.
pub trait Connect: Send {
    /// Joins the group as `member`. The member asks `offsets` where partitions begin.
    ///
    /// # Errors
    /// Why not, with the remedy.
    fn connect(&self, member: &str, offsets: Arc<Offsets>) -> Result<Box<dyn Member>, String>;
}

/// A member of a group. Dropping it leaves the group.
pub trait Member {
    /// Returns records, or none after `wait`. Partitions are assigned and given up within this
    /// call.
    ///
    /// # Errors
    /// Why not, with the remedy; the member is dropped then.
    fn poll(&mut self, wait: Duration) -> Result<Vec<KafkaRecord>, String>;
    /// Commits offsets to the group.
    ///
    /// # Errors
    /// Why not.
    fn commit(&mut self, offsets: &[(Partition, u64)]) -> Result<(), String>;
    /// Goes to other offsets.
    ///
    /// # Errors
    /// Why not.
    fn seek(&mut self, offsets: &[(Partition, u64)]) -> Result<(), String>;
    /// Stops returning records, or goes on with it.
    fn pause(&mut self, is_paused: bool);
    /// Behind the last record of each partition, as far as it is known.
    fn ends(&mut self) -> Vec<(Partition, u64)>;
}

/// Tells which frames are durable.
pub trait KeptFrames: Send {
    /// The numbers above `sequence` of frames of this node of which the store has lines of Kafka.
    ///
    /// # Errors
    /// When they cannot be read; the text says why.
    fn frames_since(&self, sequence: u64) -> Result<BTreeSet<u64>, String>;
}

/// How far topics were read when the process ended.
///
/// A store issues the number of a frame that never came to another one after a restart, so this is
/// read before any source of Kafka starts.
pub struct Resumed {
    slot: Slot,
    offsets: Arc<Offsets>,
    is_recalled: bool,
}

impl Resumed {
    /// Reads the checkpoint. `kept` tells which frames are durable; `None` if frames leave this
    /// machine.
    ///
    /// # Errors
    /// When the checkpoint cannot be read or written.
    pub fn read(
        config: &KafkaConfig,
        disk: &dyn Disk,
        kept: Option<&dyn KeptFrames>,
    ) -> Result<Resumed, TopicsError> {
        let name = format!("kafka-{}.checkpoint", config.group);
        let slot = Slot::new(&config.data_dir, &name);
        let read: Option<Checkpoint> = slot.read(disk)?;
        if read.as_ref().is_some_and(|read| !read.is_known()) {
            let why = "it was written by another version of Loginson".to_owned();
            return Err(TopicsError::Checkpoint { path: config.data_dir.join(name), why });
        }
        let checkpoint = read.unwrap_or_else(Checkpoint::new);
        let durable = match (kept, checkpoint.before_flights()) {
            (Some(kept), Some(before)) => kept.frames_since(before).unwrap_or_else(|error| {
                tracing::error!(
                    "the lines of Kafka that were on their way cannot be looked up; some may be stored twice: {error}"
                );
                BTreeSet::new()
            }),
            _ => BTreeSet::new(),
        };
        let offsets = Arc::new(Offsets::new(checkpoint, &durable, config.is_from_end));
        slot.write(disk, &offsets.snapshot())?;
        Ok(Resumed { slot, offsets, is_recalled: kept.is_some() })
    }
}

/// Reads topics until it is dropped.
pub struct KafkaSource {
    board: Arc<Board>,
    thread: SourceThread,
}

impl KafkaSource {
    /// Starts to read.
    ///
    /// # Errors
    /// When the thread cannot be started. Brokers that are away are no error here: that is logged,
    /// and they are tried again.
    pub fn start(
        config: KafkaConfig,
        resumed: Resumed,
        connect: Box<dyn Connect>,
        deliver: Arc<dyn Deliver>,
        accounting: Arc<Accounting>,
        (clock, disk): (Arc<dyn Clock>, Arc<dyn Disk>),
    ) -> Result<KafkaSource, TopicsError> {
        let Resumed { slot, offsets, is_recalled } = resumed;
        let board = Arc::new(Board::new(&config.group, Arc::clone(&offsets)));
        let stop = Arc::<StopSignal>::default();
        let poll = Poll::new()?;
        let waker = mio::Waker::new(poll.registry(), WAKE)?;
        let counted = (Arc::clone(&accounting), SourceKind::Kafka);
        let mut reader = Reader {
            is_recalled,
            config: Arc::new(config),
            connect,
            destination: Destination::new(SourceKind::Kafka, deliver, accounting),
            clock,
            disk,
            slot,
            written: None,
            offsets,
            board: Arc::clone(&board),
            stop: Arc::clone(&stop),
            origins: HashMap::new(),
            memory: Vec::new(),
            built: Vec::new(),
            upkeep_ns: 0,
            limit: LogLimit::default(),
        };
        let thread = SourceThread::start("kafka-topics", counted, stop, waker, move || {
            reader.run();
            // The waker works while the poll is there.
            drop(poll);
        })?;
        Ok(KafkaSource { board, thread })
    }

    /// The current state.
    pub fn status(&self) -> KafkaStatus {
        self.board.status()
    }

    /// Whether the thread ended by a panic. The caller then drops the source and starts it again.
    pub fn has_failed(&self) -> bool {
        self.thread.has_failed()
    }
}

/// A frame that is being built.
#[derive(Default)]
struct Built {
    builder: FrameBuilder,
    line_bytes: u64,
    spans: Vec<Span>,
}

struct Reader {
    config: Arc<KafkaConfig>,
    connect: Box<dyn Connect>,
    destination: Destination,
    clock: Arc<dyn Clock>,
    disk: Arc<dyn Disk>,
    slot: Slot,
    written: Option<Checkpoint>,
    is_recalled: bool,
    offsets: Arc<Offsets>,
    board: Arc<Board>,
    stop: Arc<StopSignal>,
    origins: HashMap<Partition, Arc<Origins>>,
    memory: Vec<u8>,
    built: Vec<Built>,
    upkeep_ns: u64,
    limit: LogLimit,
}

impl Reader {
    fn run(&mut self) {
        let mut pauses = PAUSES;
        while !self.stop.is_raised() {
            let member = self.offsets.member();
            let joined = self.connect.connect(&member, Arc::clone(&self.offsets));
            let result = joined.and_then(|mut member| {
                let result = self.follow(&mut *member, &mut pauses);
                self.offsets.wait_idle(STOP_DRAIN_MAX);
                self.checkpoint();
                let committed = self.commit(&mut *member);
                result.and(committed)
            });
            if let Err(error) = result {
                self.board.failed(&error);
                if let Some(held_back) = self.limit.pass() {
                    let group = &self.config.group;
                    tracing::error!(
                        group,
                        held_back,
                        "topics of Kafka cannot be read, will try again: {error}"
                    );
                }
            }
            self.built.clear();
            self.offsets.leave();
            if self.stop.wait(pauses.pause()) {
                break;
            }
        }
        self.offsets.wait_idle(STOP_DRAIN_MAX);
        self.checkpoint();
    }

    /// Reads until the source stops.
    fn follow(&mut self, member: &mut dyn Member, pauses: &mut Pauses) -> Result<(), String> {
        while !self.stop.is_raised() {
            if self.offsets.has_failed() {
                if !self.offsets.wait_idle(LAND_WAIT) {
                    continue;
                }
                tracing::warn!("lines of Kafka were not kept; their records are read again");
                member.seek(&self.offsets.go_back())?;
                self.stop.wait(FAILED_PAUSE);
            }
            member.pause(self.destination.is_full());
            self.offsets.begin_round();
            let records = member.poll(POLL_WAIT)?;
            self.board.reading();
            pauses.reset();
            if !self.take(&records) {
                return Ok(());
            }
            if self.clock.monotonic_ns() >= self.upkeep_ns {
                self.upkeep_ns = self.clock.monotonic_ns() + UPKEEP_NS;
                self.offsets.note_ends(&member.ends());
                self.checkpoint();
                self.commit(member)?;
            }
        }
        Ok(())
    }

    fn commit(&mut self, member: &mut dyn Member) -> Result<(), String> {
        let offsets = self.offsets.uncommitted();
        if !offsets.is_empty() {
            member.commit(&offsets)?;
            self.offsets.committed(&offsets);
        }
        Ok(())
    }

    /// Delivers the lines of records. Returns false when stopping.
    fn take(&mut self, records: &[KafkaRecord]) -> bool {
        let now_ns = self.clock.now_ns();
        let of_one =
            |a: &KafkaRecord, b: &KafkaRecord| a.partition == b.partition && a.topic == b.topic;
        for records in records.chunk_by(of_one) {
            let first = &records[0];
            let partition = Partition { topic: Arc::clone(&first.topic), number: first.partition };
            // Lost within the poll: another member reads it.
            let Some(mut reading) = self.offsets.reading(&partition) else { continue };
            let origins = match self.origins.get(&partition) {
                Some(origins) => Arc::clone(origins),
                None => {
                    let origins = Arc::new(Origins::new(&self.config, &partition));
                    self.origins.insert(partition.clone(), Arc::clone(&origins));
                    origins
                }
            };
            let mut counts = TopicStatus::default();
            for record in records {
                let Some(span) = reading.take(record.offset) else { continue };
                if !self.take_one(record, &origins, now_ns, &mut counts) {
                    self.built.clear();
                    return false;
                }
                if self.built.is_empty() {
                    self.built.push(Built::default());
                }
                cover(&mut self.built.last_mut().expect("there is one").spans, span);
            }
            self.offsets.read(reading);
            self.board.count(&partition.topic, &counts);
        }
        self.deliver()
    }

    /// Puts the lines of a record into frames. Returns false when stopping.
    fn take_one(
        &mut self,
        record: &KafkaRecord,
        origins: &Origins,
        now_ns: i64,
        counts: &mut TopicStatus,
    ) -> bool {
        let time_ns = record.timestamp_ms.saturating_mul(1_000_000);
        let received_ns = if (TIME_MIN_NS..now_ns).contains(&time_ns) { time_ns } else { now_ns };
        let mut memory = std::mem::take(&mut self.memory);
        let mut cut = 0;
        let config = Arc::clone(&self.config);
        let told = lines::write(&config, origins, record, &mut memory, |piece| {
            cut += u64::from(matches!(piece, Piece::Line { is_cut: true, .. }));
            self.push(&piece, received_ns)
        });
        self.memory = memory;
        let Some(told) = told else { return false };
        let bytes = record.value.as_ref().map_or(0, |value| value.len() as u64);
        counts.records += 1;
        counts.bytes += bytes;
        counts.empty += u64::from(told.is_empty);
        counts.undecoded += u64::from(told.is_undecoded);
        counts.rejected += told.rejected.0;
        let counters = self.destination.counters();
        if told.rejected.0 > 0 {
            let (records, bytes) = told.rejected;
            counters.received(records, bytes);
            counters.dropped(DropReason::BadRequest, records);
            counters.dropped_bytes(DropReason::BadRequest, bytes);
        }
        if cut > 0 {
            let rest = bytes.saturating_sub(record::frame::LINE_BYTES_MAX as u64);
            counters.received(0, rest);
            counters.dropped(DropReason::Oversized, cut);
            counters.dropped_bytes(DropReason::Oversized, rest);
        }
        true
    }

    /// Puts lines into the frame. Returns false when stopping.
    fn push(&mut self, piece: &Piece<'_>, received_ns: i64) -> bool {
        let bytes = match piece {
            Piece::Line { line, .. } => line.len() + 1,
            Piece::Lines { lines, .. } => lines.len(),
        };
        let is_full = |built: &Built| {
            let filled = built.builder.payload_bytes();
            built.builder.is_full() || filled > 0 && filled + bytes > PAYLOAD_BYTES_TARGET
        };
        if self.built.last().is_none_or(is_full) {
            if self.built.len() >= FRAMES_MAX && !self.deliver() {
                return false;
            }
            self.built.push(Built::default());
        }
        let built = self.built.last_mut().expect("there is one");
        match *piece {
            Piece::Line { origin, line, is_cut, doubt } => {
                built.builder.push_line_in_doubt(origin, received_ns, line, is_cut, doubt);
                built.line_bytes += line.len() as u64;
            }
            Piece::Lines { origin, lines } => {
                let before = built.builder.lines();
                built.builder.push_lines(origin, received_ns, lines);
                let newlines = built.builder.lines() - before;
                built.line_bytes += lines.len() as u64 - u64::from(newlines);
            }
        }
        true
    }

    /// Delivers the frames. Blocks while delivery does and while the disk is full. Returns false
    /// when stopping; the frames are then given up, which loses nothing.
    fn deliver(&mut self) -> bool {
        let mut frames = std::mem::take(&mut self.built);
        frames.retain_mut(|built| {
            let has_lines = !built.builder.is_empty();
            if !has_lines {
                self.offsets.settle(std::mem::take(&mut built.spans));
            }
            has_lines
        });
        while !frames.is_empty() {
            if !self.destination.wait_for_room(&self.stop) {
                return false;
            }
            let drawn_ns = self.clock.monotonic_ns();
            let mut flights = Vec::new();
            for built in &mut frames {
                let number = self.destination.next_number();
                let spans = std::mem::take(&mut built.spans);
                flights.push((number, self.offsets.take_off(number.1, spans)));
            }
            let mut may_go = !self.is_recalled || self.checkpoint();
            if !may_go && self.stop.wait(FAILED_PAUSE) {
                flights.iter().for_each(|(_, flight)| drop(self.offsets.turn_back(*flight)));
                return false;
            }
            let mut left = Vec::new();
            for (mut built, (number, flight)) in frames.into_iter().zip(flights) {
                // Each waits until there is room for it.
                may_go &= self.clock.monotonic_ns() - drawn_ns < NUMBER_AGE_MAX_NS;
                if !may_go {
                    built.spans = self.offsets.turn_back(flight);
                    left.push(built);
                    continue;
                }
                let lines = u64::from(built.builder.lines());
                self.destination.counters().received(lines, built.line_bytes);
                let offsets = Arc::clone(&self.offsets);
                let fate = move |_, result: &Result<(), KeepError>| {
                    offsets.land(flight, result.is_ok());
                };
                let fate = Some(Box::new(fate) as _);
                self.destination.deliver(number, &mut built.builder, Patience::Unlimited, fate);
            }
            frames = left;
        }
        true
    }

    /// Writes the checkpoint if it has changed. Returns whether the one on disk is that of now.
    fn checkpoint(&mut self) -> bool {
        let now = self.offsets.snapshot();
        if self.written.as_ref() == Some(&now) {
            return true;
        }
        match self.slot.write(&*self.disk, &now) {
            Ok(_) => {
                self.written = Some(now);
                true
            }
            Err(error) => {
                self.board.checkpoint_failed();
                if let Some(held_back) = self.limit.pass() {
                    tracing::error!(
                        held_back,
                        "the checkpoint of Kafka cannot be written; its topics wait: {error}"
                    );
                }
                false
            }
        }
    }
}
