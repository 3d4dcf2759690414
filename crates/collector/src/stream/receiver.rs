//! One thread that serves connections.
//!
//! `epoll` reports which connections are readable, and each of them gets one bounded read per turn.
//! A connection that was emptied and is readable again comes before those that their last turn did
//! not empty, and `epoll` is called again after every [`ROUND_BYTES`] read from the latter. So a
//! slow sender waits for one round of the fast ones, however many there are. All connections share
//! the frame under construction. When delivery blocks, nothing is read, the kernel's buffers fill,
//! and senders are pushed back: nothing is lost here.
//!
//! Decisions:
//! - A connection may be silent for any time, also in the middle of a line, unless
//!   [`TcpConfig::idle_timeout`](super::TcpConfig::idle_timeout) is set: a quiet machine is not an
//!   error. Vanished peers are found by keep-alive after about two minutes.
//! - If a connection ends in the middle of a line, the received part is kept as a line. It is
//!   counted as [`DropReason::Reset`] if the connection ended by an error, because we closed it, or
//!   inside a counted message; a missing last newline alone is common and no loss.
//! - Beyond [`TcpConfig::connections_max`](super::TcpConfig::connections_max) a connection is
//!   accepted and closed at once, counted, and logged.
//! - A connection of another protocol ([`record::framing::foreign`]) is closed, counted as one line
//!   ([`DropReason::WrongProtocol`]), and logged with the sender's address and the remedy; none of
//!   its bytes are kept.
//! - Bytes are held back while it is unknown how messages are separated, or whether they are
//!   separated at all. They become messages when nothing more arrived for as long as
//!   [`LineSplitter::pause_after`] says. While delivery blocks, no pause is noticed.
//! - A compressed message of rsyslog is decompressed, and so is a compressed connection
//!   ([`super::inflating`]). What cannot be, and lines next to a wrong
//!   octet count, are kept with a note, and counted.
//! - Memory for incomplete lines is bounded per connection and in total: beyond the thread's share
//!   of [`TcpConfig::carry_bytes_total_max`](super::TcpConfig::carry_bytes_total_max) the longest
//!   incomplete line is cut ([`DropReason::Oversized`]).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use platform::Clock;
use record::frame::Doubt;
use record::framing::foreign::Foreign;
use record::framing::{CARRY_IN_PLACE_BYTES_MAX, Ending, LinePiece, LineSplitter};
use record::{Format, Hints, Origin};

use super::inflating::{Damaged, Inflating};
use super::{Accept, LISTENER, Shared, Stream, WAKER, keep_alive};
use crate::accounting::{DropReason, SourceCounters};
use crate::outlet::Outlet;
use crate::packed::{Unpacked, Unpacker};
use crate::source::{LogLimit, PeerLog, STOP_DRAIN_MAX, StopSignal, canonical};

/// Bytes read from one connection before the next one's turn.
const READ_BYTES_MAX: usize = 256 << 10;
/// Room for at least one read. A frame with less room left is finished.
pub(crate) const READ_BYTES_MIN: usize = 64 << 10;
/// Bytes read from connections that were not emptied, between two calls of `epoll`.
const ROUND_BYTES: usize = 4 << 20;
/// Events taken from the kernel at once; the kernel keeps further ones for the next call.
const EVENTS_MAX: usize = 1024;
/// Connections accepted before open connections get their turn.
const ACCEPTS_MAX: usize = 64;
/// If accepting fails (no file descriptor is left), it is retried after this time.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Interval of checks for connections that were silent for too long.
const OVERDUE_INTERVAL: Duration = Duration::from_secs(1);

struct Connection<S> {
    stream: S,
    /// The events it is registered for.
    interest: Interest,
    origin: Origin,
    splitter: LineSplitter,
    /// Whether it waits in [`Receiver::fresh`] or [`Receiver::unemptied`].
    is_ready: bool,
    /// Whether its end, or an error, was signalled: then it is read until that is reached.
    is_ending: bool,
    /// When it was opened, or data last arrived.
    active: Instant,
    /// When its pause is checked next; `None` while it has no entry in [`Receiver::pauses`].
    pause_at: Option<Instant>,
}

impl<S: Stream> Connection<S> {
    /// Reads once, directly into the frame if the lines can stay there, and adds the complete lines
    /// to the frame. Returns how many bytes were read, and how many could have been.
    fn read(
        &mut self,
        outlet: &mut Outlet,
        unpacker: &mut Unpacker,
        buffer: &mut [u8],
        clock: &dyn Clock,
    ) -> (io::Result<usize>, usize) {
        let Some(carried) = self.splitter.carried_in_place() else {
            let into = &mut buffer[..READ_BYTES_MAX];
            let read = self.stream.read(into);
            if let Ok(bytes) = read {
                let emit = &mut emit(outlet, unpacker, &self.origin, clock.now_ns());
                self.splitter.split(&into[..bytes], emit);
            }
            return (read, READ_BYTES_MAX);
        };
        let front = carried.len();
        let spare = outlet.spare(front + READ_BYTES_MIN);
        spare[..front].copy_from_slice(carried);
        let room = READ_BYTES_MAX.min(spare.len() - front);
        let read = self.stream.read(&mut spare[front..front + room]);
        if let Ok(bytes @ 1..) = read {
            let found = self.splitter.split_in_place(&spare[..front + bytes]);
            let rest = match found.is_rest_carried {
                true => &[],
                false => {
                    let rest = &spare[found.bytes..front + bytes];
                    buffer[..rest.len()].copy_from_slice(rest);
                    &buffer[..rest.len()]
                }
            };
            let received_ns = clock.now_ns();
            outlet.commit_lines(&self.origin, received_ns, found.bytes, found.lines);
            self.splitter.split(rest, &mut emit(outlet, unpacker, &self.origin, received_ns));
        }
        (read, room)
    }
}

/// The result of a turn.
enum Progress {
    /// Bytes that were read; more may follow.
    More(usize),
    Emptied,
    Closed,
}

/// The state of one thread.
pub(super) struct Receiver<A: Accept> {
    shared: Arc<Shared<A>>,
    /// Index of the thread.
    lane: usize,
    /// Only in the accepting thread.
    listener: Option<TcpListener>,
    poll: Poll,
    outlet: Outlet,
    stop: Arc<StopSignal>,
    /// Connections by token; unused indexes are in `free`.
    connections: Vec<Option<Connection<Inflating<A::Stream>>>>,
    free: Vec<usize>,
    /// Connections with an event since they were emptied, in the order of their turns.
    fresh: VecDeque<usize>,
    /// Connections that their last turn did not empty, in the order of their turns.
    unemptied: VecDeque<usize>,
    /// When to accept connections; `None` while none waits.
    accept_at: Option<Instant>,
    /// When to look for connections that were silent for too long.
    overdue_at: Instant,
    /// When to check which connection for a pause. An entry is stale if it differs from its
    /// connection's `pause_at`.
    pauses: BinaryHeap<Reverse<(Instant, usize)>>,
    /// The time of this round.
    now: Instant,
    /// Bytes of incomplete lines of this thread's connections.
    carried_bytes: usize,
    /// Limit of `carried_bytes`.
    carried_bytes_max: usize,
    /// Data that cannot stay where it was read.
    buffer: Vec<u8>,
    unpacker: Unpacker,
    /// The origin of lines, without the sender.
    origin: Origin,
    accept_log: LogLimit,
    refused_log: LogLimit,
    protocol_log: PeerLog,
}

impl<A: Accept> Receiver<A> {
    pub fn new(
        shared: Arc<Shared<A>>,
        lane: usize,
        listener: Option<TcpListener>,
        poll: Poll,
        outlet: Outlet,
        stop: Arc<StopSignal>,
    ) -> Self {
        let carried_bytes_max = shared.config.carry_bytes_total_max / shared.lanes.len();
        let hints = Hints { zone: shared.config.zone.clone(), ..Hints::default() };
        let origin = Origin {
            hints: Arc::new(hints),
            ..Origin::new(shared.identity.transport, Format::Syslog, None)
        };
        Receiver {
            shared,
            lane,
            listener,
            poll,
            outlet,
            stop,
            connections: Vec::new(),
            free: Vec::new(),
            fresh: VecDeque::new(),
            unemptied: VecDeque::new(),
            accept_at: None,
            overdue_at: Instant::now() + OVERDUE_INTERVAL,
            pauses: BinaryHeap::new(),
            now: Instant::now(),
            carried_bytes: 0,
            carried_bytes_max,
            buffer: vec![0; CARRY_IN_PLACE_BYTES_MAX + READ_BYTES_MAX],
            unpacker: Unpacker::default(),
            origin,
            accept_log: LogLimit::default(),
            refused_log: LogLimit::default(),
            protocol_log: PeerLog::default(),
        }
    }

    pub fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !self.stop.is_raised() {
            self.wait(&mut events);
            self.accept_some();
            self.read_round();
            self.look_for_pauses();
            self.close_overdue();
            self.outlet.flush_if_old();
        }
        self.drain();
    }

    /// Waits until there is something to do, and records it.
    fn wait(&mut self, events: &mut Events) {
        let wait = match self.unemptied.is_empty() {
            false => Some(Duration::ZERO),
            true => {
                let left = |at: Instant| at.saturating_duration_since(Instant::now());
                let accept_due = self.accept_at.map(left);
                let overdue_due = self.has_deadlines().then(|| left(self.overdue_at));
                let pause_due = self.pauses.peek().map(|Reverse((at, _))| left(*at));
                let due = [accept_due, overdue_due, pause_due, self.outlet.due_in()];
                due.into_iter().flatten().min()
            }
        };
        if let Err(error) = self.poll.poll(events, wait)
            && error.kind() != io::ErrorKind::Interrupted
            && let Some(held_back) = self.accept_log.pass()
        {
            tracing::error!(%error, held_back, "waiting for connections");
        }
        self.now = Instant::now();
        for event in events.iter() {
            match event.token() {
                LISTENER => self.accept_at = Some(self.now),
                WAKER => self.take_handed_over(),
                Token(index) => {
                    self.make_ready(index, event.is_read_closed() || event.is_error());
                }
            }
        }
    }

    fn make_ready(&mut self, index: usize, is_ending: bool) {
        // An event may be left over from a connection that is already closed, even if its index is
        // in use again: then the read finds nothing.
        if let Some(Some(connection)) = self.connections.get_mut(index) {
            connection.is_ending |= is_ending;
            if !connection.is_ready {
                connection.is_ready = true;
                self.fresh.push_back(index);
            }
        }
    }

    fn accept_some(&mut self) {
        if self.accept_at.is_none_or(|at| at > self.now) {
            return;
        }
        for _ in 0..ACCEPTS_MAX {
            if !self.shared.accept.has_room() {
                self.accept_at = Some(self.now + ACCEPT_RETRY);
                return;
            }
            match self.listener.as_ref().expect("this thread accepts").accept() {
                Ok((socket, sender)) => self.assign(socket, canonical(sender)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.accept_at = None;
                    return;
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    // The connection keeps waiting in the backlog.
                    if let Some(held_back) = self.accept_log.pass() {
                        tracing::error!(%error, held_back, "accepting a syslog connection");
                    }
                    self.accept_at = Some(self.now + ACCEPT_RETRY);
                    return;
                }
            }
        }
    }

    /// Opens a connection here, hands it to another thread, or refuses it.
    fn assign(&mut self, socket: TcpStream, sender: SocketAddr) {
        let connections_max = self.shared.config.connections_max;
        if self.shared.connections() >= connections_max {
            self.counters().connections_refused.fetch_add(1, Relaxed);
            if let Some(held_back) = self.refused_log.pass() {
                tracing::warn!(%sender, connections_max, held_back, "connection refused: too many are open");
            }
            return;
        }
        // When this thread is told to stop, the other threads may have checked for handed-over
        // connections for the last time.
        let stopping = self.stop.is_raised();
        let lane = if stopping { self.lane } else { self.shared.lane_with_fewest() };
        let of_lane = &self.shared.lanes[lane];
        of_lane.connections.fetch_add(1, Relaxed);
        if lane == self.lane {
            self.open(socket, sender);
            return;
        }
        of_lane.inbox.lock().expect("nothing panics").push((socket, sender));
        if let Err(error) = of_lane.waker.wake() {
            tracing::error!(%error, "a thread could not be woken for a connection");
        }
    }

    fn take_handed_over(&mut self) {
        let inbox = &self.shared.lanes[self.lane].inbox;
        let handed_over = std::mem::take(&mut *inbox.lock().expect("nothing panics"));
        handed_over.into_iter().for_each(|(socket, sender)| self.open(socket, sender));
    }

    fn open(&mut self, socket: TcpStream, sender: SocketAddr) {
        let index = self.free.pop().unwrap_or(self.connections.len());
        if index == self.connections.len() {
            self.connections.push(None);
        }
        match self.make(socket, sender, index) {
            Ok(connection) => {
                self.connections[index] = Some(connection);
                self.counters().connections_total.fetch_add(1, Relaxed);
                self.counters().connections_open.fetch_add(1, Relaxed);
            }
            Err(error) => {
                tracing::error!(%sender, %error, "a syslog connection cannot be served");
                self.free.push(index);
                self.shared.lanes[self.lane].connections.fetch_sub(1, Relaxed);
            }
        }
    }

    fn make(
        &self,
        socket: TcpStream,
        sender: SocketAddr,
        index: usize,
    ) -> io::Result<Connection<Inflating<A::Stream>>> {
        keep_alive(&socket)?;
        let mut stream = Inflating::new(self.shared.accept.open(socket, sender)?);
        let interest = stream.interest();
        self.poll.registry().register(stream.socket(), Token(index), interest)?;
        Ok(Connection {
            stream,
            interest,
            origin: Origin { sender: Some(sender), ..self.origin.clone() },
            splitter: LineSplitter::new(),
            is_ready: false,
            is_ending: false,
            active: self.now,
            pause_at: None,
        })
    }

    /// Gives a turn to each connection with a new event, then to some of the others.
    fn read_round(&mut self) {
        for _ in 0..self.fresh.len() {
            let index = self.fresh.pop_front().expect("as many as counted");
            self.turn(index);
        }
        let mut bytes = 0;
        while bytes < ROUND_BYTES
            && let Some(index) = self.unemptied.pop_front()
        {
            bytes += self.turn(index);
        }
    }

    /// Reads once from a connection. Returns the number of bytes.
    fn turn(&mut self, index: usize) -> usize {
        let progress = self.read(index).unwrap_or_else(|error| {
            let sender = self.connections[index].as_ref().and_then(|c| c.origin.sender);
            if Damaged::is(&error) {
                self.report_damage(sender);
            }
            let sender = sender.map(tracing::field::display);
            tracing::debug!(sender, %error, "a syslog connection ended by an error");
            self.close(index, true);
            Progress::Closed
        });
        self.outlet.flush_if_old();
        match progress {
            Progress::More(bytes) => {
                self.unemptied.push_back(index);
                bytes
            }
            Progress::Emptied => {
                self.connections[index].as_mut().expect("is open").is_ready = false;
                0
            }
            Progress::Closed => 0,
        }
    }

    fn read(&mut self, index: usize) -> io::Result<Progress> {
        let connection = self.connections[index].as_mut().expect("a ready connection is open");
        let carried_before = connection.splitter.carried_bytes();
        let (read, room) = connection.read(
            &mut self.outlet,
            &mut self.unpacker,
            &mut self.buffer,
            &*self.shared.clock,
        );
        self.carried_bytes += connection.splitter.carried_bytes();
        self.carried_bytes -= carried_before;
        let interest = connection.stream.interest();
        if interest != connection.interest {
            connection.interest = interest;
            self.poll.registry().reregister(connection.stream.socket(), Token(index), interest)?;
        }
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Ok(Progress::Emptied);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                return Ok(Progress::More(0));
            }
            Err(error) => return Err(error),
        };
        if bytes == 0 {
            self.close(index, false);
            return Ok(Progress::Closed);
        }
        connection.active = self.now;
        if let Some(foreign) = connection.splitter.foreign() {
            self.refuse(index, foreign, carried_before + bytes);
            return Ok(Progress::Closed);
        }
        if let Some(pause) = connection.splitter.pause_after() {
            let at = self.now + pause;
            if connection.pause_at.is_none_or(|before| at < before) {
                connection.pause_at = Some(at);
                self.pauses.push(Reverse((at, index)));
            }
        }
        let has_more = connection.stream.has_more(bytes, room) || connection.is_ending;
        if self.carried_bytes > self.carried_bytes_max {
            self.cut_longest();
        }
        Ok(if has_more { Progress::More(bytes) } else { Progress::Emptied })
    }

    /// Counts and reports a connection whose compressed data end by damage.
    fn report_damage(&mut self, sender: Option<SocketAddr>) {
        self.counters().received(1, 0);
        self.counters().dropped(DropReason::BadRequest, 1);
        let Some(sender) = sender else { return };
        if let Some(held_back) = self.protocol_log.pass(sender.ip()) {
            tracing::warn!(
                %sender,
                held_back,
                "connection closed: its compressed data are damaged; lines before that are kept. If it happens \
                 again, turn compression off at the sender (rsyslog: compression.mode=\"none\")"
            );
        }
    }

    /// Closes a connection of another protocol.
    fn refuse(&mut self, index: usize, foreign: Foreign, bytes: usize) {
        let connection = self.connections[index].as_mut().expect("is open");
        let (name, remedy, what) = (foreign.name(), foreign.remedy(), self.shared.identity.what);
        if foreign == Foreign::Http {
            let text = format!("this port takes {what}, not HTTP: {remedy}\n");
            let (status, bytes) = ("HTTP/1.1 400 Bad Request", text.len());
            let answer = format!(
                "{status}\r\ncontent-type: text/plain\r\ncontent-length: {bytes}\r\nconnection: \
                 close\r\n\r\n{text}"
            );
            connection.stream.answer(answer.as_bytes());
        }
        let sender = connection.origin.sender.expect("it is a connection");
        if let Some(held_back) = self.protocol_log.pass(sender.ip()) {
            tracing::warn!(
                %sender,
                held_back,
                "connection refused: its sender speaks {name}, and this port takes {what}: {remedy}"
            );
        }
        self.counters().wrong_protocol(bytes as u64);
        self.close(index, false);
    }

    /// Completes the held-back messages of connections on which nothing more arrived.
    fn look_for_pauses(&mut self) {
        while let Some(&Reverse((at, index))) = self.pauses.peek()
            && at <= self.now
        {
            self.pauses.pop();
            let Some(Some(connection)) = self.connections.get_mut(index) else { continue };
            if connection.pause_at != Some(at) {
                continue;
            }
            connection.pause_at = None;
            let Some(pause) = connection.splitter.pause_after() else { continue };
            // A ready connection has data, and is read first.
            let due = match connection.is_ready {
                true => self.now + pause,
                false => connection.active + pause,
            };
            if due > self.now {
                connection.pause_at = Some(due);
                self.pauses.push(Reverse((due, index)));
                continue;
            }
            let carried_before = connection.splitter.carried_bytes();
            let received_ns = self.shared.clock.now_ns();
            connection.splitter.pause(&mut emit(
                &mut self.outlet,
                &mut self.unpacker,
                &connection.origin,
                received_ns,
            ));
            self.carried_bytes -= carried_before - connection.splitter.carried_bytes();
            let due = connection.splitter.pause_after().map(|pause| connection.active + pause);
            if let Some(due) = due.filter(|due| *due > self.now) {
                connection.pause_at = Some(due);
                self.pauses.push(Reverse((due, index)));
            }
        }
    }

    /// Makes room for the start of other lines by cutting the longest incomplete one.
    fn cut_longest(&mut self) {
        let connections = self.connections.iter_mut().flatten();
        let longest = connections.max_by_key(|c| c.splitter.carried_bytes());
        let longest = longest.expect("some connection carries bytes");
        let carried_before = longest.splitter.carried_bytes();
        let received_ns = self.shared.clock.now_ns();
        longest.splitter.cut(&mut emit(
            &mut self.outlet,
            &mut self.unpacker,
            &longest.origin,
            received_ns,
        ));
        self.carried_bytes -= carried_before - longest.splitter.carried_bytes();
    }

    fn close(&mut self, index: usize, by_error: bool) {
        let connection = self.connections[index].take().expect("is open");
        self.free.push(index);
        self.shared.lanes[self.lane].connections.fetch_sub(1, Relaxed);
        self.counters().connections_open.fetch_sub(1, Relaxed);
        self.carried_bytes -= connection.splitter.carried_bytes();
        let received_ns = self.shared.clock.now_ns();
        let ending = connection.splitter.end(&mut emit(
            &mut self.outlet,
            &mut self.unpacker,
            &connection.origin,
            received_ns,
        ));
        if ending == Ending::Short || (by_error && ending == Ending::Unterminated) {
            self.counters().dropped(DropReason::Reset, 1);
        }
    }

    /// Whether some connection may have to be closed by a time limit.
    fn has_deadlines(&self) -> bool {
        let any_open = self.connections.len() > self.free.len();
        any_open && (A::Stream::HAS_HANDSHAKE || self.shared.config.idle_timeout.is_some())
    }

    /// Closes connections that were silent for too long, or did not finish their handshake in time.
    fn close_overdue(&mut self) {
        if self.now < self.overdue_at {
            return;
        }
        self.overdue_at = self.now + OVERDUE_INTERVAL;
        for index in 0..self.connections.len() {
            let Some(connection) = &self.connections[index] else { continue };
            let timeout = match connection.stream.is_established() {
                true => self.shared.config.idle_timeout,
                false => Some(self.shared.config.handshake_timeout),
            };
            // A ready connection has data, and is read first.
            let is_overdue = !connection.is_ready
                && timeout.is_some_and(|timeout| self.now - connection.active >= timeout);
            if is_overdue {
                self.counters().connections_timed_out.fetch_add(1, Relaxed);
                self.close(index, true);
            }
        }
    }

    /// Reads what has arrived, and ends.
    fn drain(mut self) {
        let deadline = Instant::now() + STOP_DRAIN_MAX;
        self.now = Instant::now();
        self.take_handed_over();
        self.accept_at = self.listener.is_some().then_some(self.now);
        while self.accept_at.is_some_and(|at| at <= self.now) && Instant::now() < deadline {
            self.accept_some();
        }
        (0..self.connections.len()).for_each(|index| self.make_ready(index, true));
        while !(self.fresh.is_empty() && self.unemptied.is_empty()) && Instant::now() < deadline {
            self.read_round();
        }
        let connections = self.fresh.len() + self.unemptied.len();
        if connections > 0 {
            tracing::warn!(connections, "closed while their senders were still sending");
        }
        for index in 0..self.connections.len() {
            if self.connections[index].is_some() {
                self.close(index, true);
            }
        }
        self.outlet.flush();
    }

    fn counters(&self) -> &SourceCounters {
        self.shared.accounting.source(self.shared.identity.kind)
    }
}

/// Puts the lines of one read into the frame.
fn emit<'a>(
    outlet: &'a mut Outlet,
    unpacker: &'a mut Unpacker,
    origin: &'a Origin,
    received_ns: i64,
) -> impl FnMut(LinePiece<'_>) + 'a {
    move |piece| match piece {
        LinePiece::Lines(lines) => outlet.push_lines(origin, received_ns, lines),
        LinePiece::Line { bytes, cut, lost } => {
            let doubt = lost.then_some(Doubt::Framing);
            match unpacker.unpack(bytes).filter(|_| !cut && !lost) {
                None => outlet.push_line_in_doubt(origin, received_ns, bytes, cut, doubt),
                Some(Unpacked { line, cut, doubt }) => {
                    outlet.push_line_in_doubt(origin, received_ns, line, cut, doubt);
                }
            }
        }
    }
}
