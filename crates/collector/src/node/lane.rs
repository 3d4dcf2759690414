//! The thread of one store: connects, sends frames, reads acknowledgements, and keeps frames that
//! were not acknowledged.
//!
//! When the connection breaks, a frame that was sent, even in part, is bound to the store in the
//! spool (or kept in memory while the disk fails), and resent with the same number. A frame that
//! was not sent returns to the queue.
//!
//! Invariant: every frame is in exactly one place that survives a panic: the queue, [`Connection`],
//! `unsettled`, or a file of the spool. A frame whose source is about to be notified is in
//! `settled` or in `acknowledged`.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use platform::pauses::{PANIC_PAUSE, Pauses};
use record::Frame;

use super::directory::NumberOwner;
use super::forward_state::ForwardState;
use super::lane_handle::LaneHandle;
use super::lock;
use super::queue::Waiting;
use super::secret;
use super::sender::{Heard, Sender};
use super::spool::{BoundReader, STRIPE, keep_damaged};
use super::status::Link;
use super::wire::{self, StoreHealth};
use crate::deliver::OnDurable;

/// Timeout of connecting to one address of the store; its addresses are tried in turn.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// A keep-alive message is sent when nothing was sent for this long.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(5);
/// A peer that sent nothing for this long is considered gone.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(20);
/// Pauses before reconnecting.
const PAUSES: Pauses = Pauses::new(Duration::from_millis(100), Duration::from_secs(10));
/// How soon the spool is asked again for a file while another thread has it.
pub(super) const SPOOL_RETRY: Duration = Duration::from_millis(20);
/// Bytes of replies read at once.
const READ_BYTES: usize = 16 << 10;

const STREAM: Token = Token(1);

/// A frame with its number at the store.
struct Item {
    number: u64,
    /// Its header has this number only while it is sent.
    frame: Frame,
    from: From,
}

enum From {
    Memory(OnDurable),
    /// A file of the spool.
    File(u64),
}

impl Item {
    fn bytes(&self) -> usize {
        self.frame.bytes().len()
    }
}

/// The state of the lane's thread.
pub(super) struct Lane {
    shared: Arc<ForwardState>,
    index: usize,
    poll: Poll,
    /// Frames from memory that were sent to this store and not acknowledged, while no connection is
    /// open and the spool did not take them. The queue still counts their bytes.
    unsettled: VecDeque<Item>,
    unsettled_of: Option<u32>,
    /// Frames that their store or the spool has, and whose sources were not notified yet.
    settled: VecDeque<Item>,
    /// Whether the last attempt to settle `unsettled` was made.
    gave_up: bool,
}

/// How a connection ended.
enum Ended {
    /// The store never allowed frames to be sent.
    Closed,
    /// The store had allowed frames to be sent.
    Open,
    /// The thread panicked.
    Panicked,
}

impl Lane {
    pub(super) fn new(shared: Arc<ForwardState>, index: usize, poll: Poll) -> Lane {
        Lane {
            shared,
            index,
            poll,
            unsettled: VecDeque::new(),
            unsettled_of: None,
            settled: VecDeque::new(),
            gave_up: false,
        }
    }

    fn out(&self) -> &LaneHandle {
        &self.shared.lanes[self.index]
    }

    fn is_stopped(&self) -> bool {
        self.out().is_stopped()
    }

    /// Runs until the lane is stopped, and resumes after panics.
    pub(super) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        while shared.survive(|| self.serve()).is_none() {
            self.sleep(PANIC_PAUSE);
        }
    }

    fn serve(&mut self) {
        let mut pauses = PAUSES;
        while !self.is_stopped() {
            self.settle();
            let ended = match self.connect() {
                Ok(stream) => self.converse(stream),
                Err(error) => {
                    self.note_away(error);
                    Ended::Closed
                }
            };
            self.settle();
            if matches!(ended, Ended::Open) {
                pauses.reset();
            }
            let pause = pauses.spread_pause();
            let is_panic = matches!(ended, Ended::Panicked);
            self.sleep(if is_panic { pause.max(PANIC_PAUSE) } else { pause });
        }
        if !std::mem::replace(&mut self.gave_up, true) {
            self.settle();
        }
        while let Some(item) = self.unsettled.pop_front() {
            self.shared.queue().release(self.index, item.bytes());
            if let From::Memory(on_durable) = item.from {
                on_durable(Err(crate::deliver::KeepError::NoRoom));
            }
        }
        self.notify_settled();
    }

    fn sleep(&mut self, time: Duration) {
        let until = Instant::now() + time;
        let mut events = Events::with_capacity(8);
        while !self.is_stopped() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.poll.poll(&mut events, Some(left)).is_err() {
                return;
            }
        }
    }

    fn note_away(&self, error: String) {
        if self.is_stopped() {
            return;
        }
        if self.out().set_away(&error) {
            let (address, dir) = (&self.out().address, self.shared.config.spool_dir.display());
            let elsewhere = match self.shared.copy {
                None => "lines go to other stores, or wait",
                Some(_) => "lines for it wait",
            };
            tracing::warn!(
                "store {address} is away: {error}; {elsewhere} in {dir}; the connection will be retried"
            );
        }
    }

    fn connect(&self) -> Result<TcpStream, String> {
        let address = &self.out().address;
        let addresses: Vec<SocketAddr> = address
            .to_socket_addrs()
            .map_err(|error| format!("cannot look up the address: {error}"))?
            .collect();
        let mut last = "the name has no address".to_owned();
        for address in addresses {
            match std::net::TcpStream::connect_timeout(&address, CONNECT_MAX) {
                Ok(stream) => {
                    let ready =
                        stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true));
                    ready.map_err(|error| error.to_string())?;
                    return Ok(TcpStream::from_std(stream));
                }
                Err(error) => last = format!("cannot connect to {address}: {error}"),
            }
        }
        Err(last)
    }

    /// Serves one connection until it ends.
    fn converse(&mut self, stream: TcpStream) -> Ended {
        self.out().connects.fetch_add(1, Relaxed);
        let identity = lock(&self.shared.directory).identity();
        let now = Instant::now();
        let secret = self.shared.config.secret.clone();
        let (sender, hello) = Sender::new(&identity, secret, secret::nonce());
        let mut connection = Connection {
            stream,
            sender,
            out: hello.to_vec(),
            frame_left: 0,
            taken: None,
            resend: VecDeque::new(),
            acknowledged: VecDeque::new(),
            files: VecDeque::new(),
            unacknowledged: HashMap::new(),
            read: HashSet::new(),
            store: 0,
            last_file: 0,
            is_spool_busy: false,
            heard: now,
            said: now,
            file_turn: false,
        };
        let shared = Arc::clone(&self.shared);
        let (error, ended) = match shared.survive(|| connection.run(self)) {
            None => ("a bug in Loginson".to_owned(), Ended::Panicked),
            Some(result) => {
                let error = result.err().unwrap_or_else(|| "the collector stops".to_owned());
                let ended = if connection.sender.is_open() { Ended::Open } else { Ended::Closed };
                (error, ended)
            }
        };
        self.take_over(connection);
        self.note_away(error);
        ended
    }

    /// Takes over the frames of a connection that has ended. Frames from files are read again
    /// later.
    fn take_over(&mut self, connection: Connection) {
        let from_memory = |item: &Item| matches!(item.from, From::Memory(_));
        self.settled.extend(connection.acknowledged.into_iter().filter(from_memory));
        let sent = connection.sender.into_unacknowledged().into_iter().chain(connection.resend);
        self.unsettled.extend(sent.filter(from_memory));
        if !self.unsettled.is_empty() && connection.store != 0 {
            self.unsettled_of = Some(connection.store);
        }
        let mut queue = self.shared.queue();
        if let Some(waiting) = connection.taken {
            queue.give_back(self.index, waiting);
        }
        queue.close(self.index, self.unsettled.iter().map(Item::bytes).sum());
        drop(queue);
        if connection.store != 0 {
            lock(&self.shared.claimed).remove(&connection.store);
        }
        self.shared.notify();
    }

    /// Notifies the sources of settled frames.
    fn notify_settled(&mut self) {
        while let Some(item) = self.settled.pop_front() {
            if let From::Memory(on_durable) = item.from {
                on_durable(Ok(()));
            }
        }
    }

    /// Moves frames that wait for their store into the spool, bound to it, if there is room.
    fn settle(&mut self) {
        self.notify_settled();
        let Some(store) = self.unsettled_of.filter(|_| !self.unsettled.is_empty()) else { return };
        self.unsettled.make_contiguous().sort_by_key(|item| item.number);
        let bytes: usize = self.unsettled.iter().map(Item::bytes).sum();
        let mut numbered: Vec<(u64, &mut Frame)> =
            self.unsettled.iter_mut().map(|item| (item.number, &mut item.frame)).collect();
        let mut spool = self.shared.spool();
        let bound = match spool.has_room(numbered.len(), bytes as u64) {
            true => spool
                .bind(self.shared.spool_key(store), &mut numbered)
                .map_err(|error| error.to_string()),
            false => Err("the spool has reached its limit".to_owned()),
        };
        drop(spool);
        match bound {
            Ok(()) => {
                self.settled.append(&mut self.unsettled);
                self.shared.queue().release(self.index, bytes);
                self.shared.notify();
                self.notify_settled();
            }
            Err(error) => {
                tracing::warn!("{bytes} bytes sent to a store that is away stay in memory: {error}")
            }
        }
    }
}

/// One connection to the store.
struct Connection {
    stream: TcpStream,
    sender: Sender<Item>,
    /// Short messages that are not written yet.
    out: Vec<u8>,
    /// Unwritten bytes of the frame being sent.
    frame_left: usize,
    /// A frame from the queue that has no number yet.
    taken: Option<Waiting>,
    resend: VecDeque<Item>,
    /// Frames that the store has, and whose sources were not notified yet.
    acknowledged: VecDeque<Item>,
    /// Files bound to the store; the first is being sent.
    files: VecDeque<BoundReader>,
    /// For each file, how many frames were sent and not acknowledged.
    unacknowledged: HashMap<u64, usize>,
    /// Files that were sent completely.
    read: HashSet<u64>,
    /// The store's id; 0 until it is known.
    store: u32,
    /// With copies: the last file of the spool that was put into `files`.
    last_file: u64,
    /// Whether another thread had the spool when the next file was asked for.
    is_spool_busy: bool,
    heard: Instant,
    said: Instant,
    /// Whether the next frame is taken from the spool if there are frames in memory too.
    file_turn: bool,
}

impl Connection {
    fn run(&mut self, lane: &mut Lane) -> Result<(), String> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = lane.poll.registry().register(&mut self.stream, STREAM, interest);
        registered.map_err(|error| error.to_string())?;
        let mut events = Events::with_capacity(16);
        while !lane.is_stopped() {
            self.is_spool_busy = false;
            self.write(lane)?;
            let now = Instant::now();
            if now - self.heard > SILENCE_MAX {
                return Err(format!("nothing was heard for {} s", SILENCE_MAX.as_secs()));
            }
            if self.sender.is_open() && now - self.said >= KEEPALIVE && self.frame_left == 0 {
                self.out.extend_from_slice(&wire::keepalive());
                self.said = now;
                continue;
            }
            let mut quiet =
                KEEPALIVE.saturating_sub(now - self.said).max(Duration::from_millis(10));
            if self.is_spool_busy {
                quiet = quiet.min(SPOOL_RETRY);
            }
            match lane.poll.poll(&mut events, Some(quiet)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => {
                    return Err(error.to_string());
                }
                _ => {}
            }
            if events.iter().any(|event| event.token() == STREAM && event.is_readable()) {
                self.read(lane)?;
            }
        }
        Ok(())
    }

    /// Writes until the socket takes no more or nothing is left.
    fn write(&mut self, lane: &mut Lane) -> Result<(), String> {
        loop {
            // A message never begins within a frame.
            let from_frame = self.frame_left > 0;
            let bytes = match from_frame {
                true => {
                    let frame = self.sender.last().expect("it is being written").frame.bytes();
                    &frame[frame.len() - self.frame_left..]
                }
                false if !self.out.is_empty() => &self.out[..],
                false if self.begin_frame(lane)? => continue,
                false => return Ok(()),
            };
            match self.stream.write(bytes) {
                Ok(0) => return Err("the connection was closed".to_owned()),
                Ok(written) => {
                    self.said = Instant::now();
                    match from_frame {
                        true => {
                            self.frame_left -= written;
                            if self.frame_left == 0 {
                                self.sender.finish();
                            }
                        }
                        false => drop(self.out.drain(..written)),
                    }
                    lane.out().bytes_sent.fetch_add(written as u64, Relaxed);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A refusal with the reason may have arrived already.
                Err(error) => {
                    self.read(lane)?;
                    return Err(format!("the connection broke: {error}"));
                }
            }
        }
    }

    /// Starts the next frame; returns false when there is none, or no room in the window.
    fn begin_frame(&mut self, lane: &mut Lane) -> Result<bool, String> {
        if !self.sender.is_open() {
            return Ok(false);
        }
        let item = match self.resend.pop_front() {
            Some(item) => Some(item),
            None => {
                self.file_turn = !self.file_turn;
                match self.file_turn {
                    true => match self.next_in_file(lane)? {
                        Some(item) => Some(item),
                        None => self.next_in_memory(lane)?,
                    },
                    false => match self.next_in_memory(lane)? {
                        Some(item) => Some(item),
                        None => self.next_in_file(lane)?,
                    },
                }
            }
        };
        let Some(mut item) = item else { return Ok(false) };
        item.frame.set_sequence(item.number);
        self.frame_left = item.bytes();
        if let From::File(id) = item.from {
            *self.unacknowledged.entry(id).or_default() += 1;
        }
        self.sender.begin(item);
        Ok(true)
    }

    fn next_in_memory(&mut self, lane: &Lane) -> Result<Option<Item>, String> {
        self.taken = lane.shared.queue().take(lane.index);
        if self.taken.is_none() {
            return Ok(None);
        }
        // Until it gets a number, it stays in `taken`, and returns to the queue when the connection
        // ends.
        let number = match self.taken.as_ref().and_then(|waiting| waiting.number) {
            Some(number) => number,
            None => lock(&lane.shared.directory)
                .issue_numbers(NumberOwner::Store(self.store), 1)
                .map_err(|error| error.to_string())?,
        };
        let Waiting { frame, on_durable, .. } = self.taken.take().expect("just taken");
        Ok(Some(Item { number, frame, from: From::Memory(on_durable) }))
    }

    fn next_in_file(&mut self, lane: &Lane) -> Result<Option<Item>, String> {
        let shared = &lane.shared;
        loop {
            if !shared.queue().has_room(lane.index, record::frame::PAYLOAD_BYTES_TARGET) {
                return Ok(None);
            }
            if self.files.is_empty() {
                match self.take_file(lane)? {
                    Some(file) => self.files.push_back(file),
                    None => return Ok(None),
                }
            }
            let file = self.files.front_mut().expect("just looked");
            let id = file.bound.id;
            match file.next_frame() {
                Some(Ok(frame)) => {
                    shared.queue().add(lane.index, frame.bytes().len());
                    let number = frame.header().sequence;
                    return Ok(Some(Item { number, frame, from: From::File(id) }));
                }
                Some(Err((error, lines))) => {
                    tracing::error!("{error}; its {lines} lines are lost");
                    keep_damaged(&mut shared.spool(), id);
                    shared.lines_damaged.fetch_add(lines, Relaxed);
                }
                None => {
                    self.files.pop_front();
                    self.read.insert(id);
                    self.remove_if_done(id, lane);
                }
            }
        }
    }

    /// Binds the oldest unbound file to this store; with copies, the next file is bound already.
    /// `None` if there is none, or while another thread has the spool, which is noted.
    fn take_file(&mut self, lane: &Lane) -> Result<Option<BoundReader>, String> {
        let Some(mut spool) = lane.shared.try_spool() else {
            self.is_spool_busy = true;
            return Ok(None);
        };
        if lane.shared.copy.is_some() {
            let next = spool.bound_after(STRIPE, self.last_file);
            let Some(bound) = next.map_err(|error| error.to_string())? else { return Ok(None) };
            self.last_file = bound.id;
            return spool.read(&bound).map(Some).map_err(|error| error.to_string());
        }
        let frames = spool.free_frames().map_err(|error| error.to_string())?;
        let Some(frames) = frames else { return Ok(None) };
        let owner = NumberOwner::Store(self.store);
        let numbers = lock(&lane.shared.directory).issue_numbers(owner, frames);
        let first = numbers.map_err(|error| error.to_string())?;
        let taken = spool.take(self.store, first);
        let read = taken.and_then(|bound| bound.map(|bound| spool.read(&bound)).transpose());
        read.map_err(|error| error.to_string())
    }

    fn remove_if_done(&mut self, id: u64, lane: &Lane) {
        let none_left = self.unacknowledged.get(&id).is_none_or(|&count| count == 0);
        if none_left && self.read.remove(&id) {
            self.unacknowledged.remove(&id);
            if let Err(error) = lane.shared.spool().remove(id) {
                tracing::warn!("{error}; it is tried again after the next start");
            }
        }
    }

    /// Reads what has arrived.
    fn read(&mut self, lane: &mut Lane) -> Result<(), String> {
        let mut bytes = [0; READ_BYTES];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err("the store closed the connection".to_owned()),
                Ok(count) => {
                    self.heard = Instant::now();
                    self.sender.push(&bytes[..count]);
                    while let Some(heard) = self.sender.hear().map_err(|e| e.to_string())? {
                        self.hear(heard, lane)?;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("the connection broke: {error}")),
            }
        }
    }

    fn hear(&mut self, heard: Heard<Item>, lane: &mut Lane) -> Result<(), String> {
        match heard {
            Heard::Welcome { store } => self.on_welcome(store, lane),
            Heard::Open { through } => self.on_open(through, lane),
            Heard::Acknowledged { items, health } => {
                lock(&lane.out().state).health = health;
                self.acknowledged.extend(items);
                self.notify_acknowledged(lane);
                Ok(())
            }
        }
    }

    /// The store has identified itself: tells it from which number on this collector sends.
    fn on_welcome(&mut self, store: u32, lane: &mut Lane) -> Result<(), String> {
        if lane.unsettled_of.is_some_and(|before| before != store) {
            lane.settle();
            if !lane.unsettled.is_empty() {
                return Err(format!(
                    "the address leads to another store ({store:08x}) than before, and the spool has no room for the frames sent to the previous one"
                ));
            }
        }
        let other = *lock(&lane.shared.claimed).entry(store).or_insert(lane.index);
        if other != lane.index {
            let address = &lane.shared.lanes[other].address;
            return Err(format!("{address} leads to the same store; list it only once"));
        }
        self.store = store;
        lock(&lane.out().state).store = Some(store);
        // Frames with numbers move from the queue to the spool, so the queue is asked first.
        let next = match &lane.shared.copy {
            None => lock(&lane.shared.directory).next_number(NumberOwner::Store(store)),
            Some(copy) => {
                lock(&lane.shared.directory).claim_place(copy.place, store)?;
                lane.shared.queue().number_least()
            }
        };
        let mut spool = lane.shared.spool();
        if lane.shared.copy.is_some() {
            spool.roll().map_err(|error| error.to_string())?;
        }
        let mut first = next;
        let files = spool.bound_to(lane.shared.spool_key(store));
        for bound in files.map_err(|error| error.to_string())? {
            first = first.min(bound.first);
            self.last_file = self.last_file.max(bound.id);
            match spool.read(&bound) {
                Ok(file) => self.files.push_back(file),
                // A file that cannot be read does not block the others.
                Err(error) => tracing::error!(
                    "{error}; its lines stay in the file and are retried with the next connection"
                ),
            }
        }
        drop(spool);
        let unsettled = lane.unsettled.iter().map(|item| item.number).min();
        let first = first.min(unsettled.unwrap_or(next));
        let start = self.sender.start(first);
        self.out.extend_from_slice(&start);
        Ok(())
    }

    /// The store allows frames to be sent, and has reported which need not be sent.
    fn on_open(&mut self, through: u64, lane: &mut Lane) -> Result<(), String> {
        let unsettled = std::mem::take(&mut lane.unsettled);
        lane.unsettled_of = None;
        (self.acknowledged, self.resend) =
            unsettled.into_iter().partition(|item| item.number <= through);
        self.notify_acknowledged(lane);
        for file in &mut self.files {
            file.skip_through(through);
        }
        {
            let mut state = lock(&lane.out().state);
            state.link = Link::Connected;
            state.since = Instant::now();
            state.health = StoreHealth::Ok;
        }
        let (address, store) = (&lane.out().address, self.store);
        tracing::info!("store {address} ({store:08x}) is connected");
        lane.shared.queue().open(lane.index);
        lane.shared.notify();
        Ok(())
    }

    fn notify_acknowledged(&mut self, lane: &Lane) {
        let out = lane.out();
        while let Some(item) = self.acknowledged.pop_front() {
            out.frames_acknowledged.fetch_add(1, Relaxed);
            out.lines_acknowledged.fetch_add(u64::from(item.frame.header().lines), Relaxed);
            lane.shared.queue().release(lane.index, item.bytes());
            match item.from {
                From::Memory(on_durable) => on_durable(Ok(())),
                From::File(id) => {
                    *self.unacknowledged.get_mut(&id).expect("it was sent") -= 1;
                    self.remove_if_done(id, lane);
                }
            }
        }
        lane.shared.notify();
    }
}
