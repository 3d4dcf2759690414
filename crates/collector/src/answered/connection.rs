//! The loop of one connection: takes messages, hands their lines on, and answers.

use std::collections::VecDeque;
use std::future::{Future, pending, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use record::Origin;
use record::framing::foreign::{Recognised, recognise};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::{
    Input, MESSAGE_BYTES_MAX, Output, Protocol, Shared, Step, UNACKNOWLEDGED_BYTES_MAX, Wrong,
};
use crate::deliver::KeepError;
use crate::intake::Intake;
use crate::ticket::Ticket;

/// Bytes of one read.
const READ_BYTES: usize = 64 << 10;
/// Bytes of an incomplete message that are not taken from the budget of all connections.
const FREE_BYTES: usize = 64 << 10;
/// How long a connection waits for a part of that budget.
const BUDGET_MAX: Duration = Duration::from_secs(10);
/// A sender that pauses for longer within a message is closed and counted.
const PAUSE_MAX: Duration = Duration::from_secs(120);
/// A sender that does not read an answer for so long is closed and counted.
const WRITE_MAX: Duration = Duration::from_secs(60);
/// How often a sender is told that its lines are waited for; those of Beats give up after 30 s.
const STILL_WAITING_INTERVAL: Duration = Duration::from_secs(5);
/// How often a full disk is checked for room again.
const DISK_FULL_RETRY: Duration = Duration::from_millis(100);
/// A stopping source reads on from a connection whose next bytes come within this time.
const STOP_PAUSE: Duration = Duration::from_millis(20);
/// Answers that wait at once; each may belong to few lines.
const WAITING_MAX: usize = 4096;

/// What is read and written.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Why a connection ends.
enum End {
    /// Its sender, or we, came to an end.
    Closed,
    /// It failed, or its sender vanished.
    Failed(io::Error),
    /// Its sender was silent for too long, or does not read.
    TimedOut,
    /// What it sent is none of the protocol.
    Wrong(Wrong),
    /// Lines could not be kept.
    NotKept(KeepError),
    /// There is no memory for its message.
    NoMemory,
}

/// Serves a connection until its end.
pub(super) async fn serve(
    shared: &Arc<Shared>,
    socket: TcpStream,
    sender: SocketAddr,
    stopped: watch::Receiver<bool>,
) {
    let stream: Box<dyn Stream> = match &shared.answered.credentials {
        None => Box::new(socket),
        Some(credentials) => {
            let handshake = TlsAcceptor::from(credentials.config()).accept(socket);
            match timeout(shared.answered.config.handshake_timeout, handshake).await {
                Ok(Ok(stream)) => Box::new(stream),
                Ok(Err(error)) => return handshake_failed(shared, sender, &error.to_string()),
                Err(_) => {
                    return handshake_failed(shared, sender, "it did not come to an end in time");
                }
            }
        }
    };
    let mut connection = Connection {
        stream,
        sender,
        origin: Origin { sender: Some(sender), ..shared.answered.origin.clone() },
        shared: Arc::clone(shared),
        protocol: (shared.answered.protocol)(),
        input: Input::default(),
        out: Output::default(),
        waiting: Waiting::new(),
        held: None,
        stopped,
        buffer: vec![0; READ_BYTES].into(),
    };
    let end = connection.run().await;
    connection.account(end);
}

/// Counts and logs a handshake that failed. A peer that disconnects at once, as health checks do,
/// has not failed.
fn handshake_failed(shared: &Shared, sender: SocketAddr, reason: &str) {
    if reason == "tls handshake eof" {
        return;
    }
    shared.counters().handshakes_failed.fetch_add(1, Relaxed);
    let what = shared.what();
    shared.warn(sender, |held_back| {
        tracing::warn!(
            %sender, reason, held_back,
            "a TLS handshake failed: this port takes {what} by TLS alone; if the sender sends without, turn TLS on there, \
             or write the address without tls://"
        );
    });
}

struct Connection {
    stream: Box<dyn Stream>,
    sender: SocketAddr,
    origin: Origin,
    shared: Arc<Shared>,
    protocol: Box<dyn Protocol>,
    input: Input,
    out: Output,
    waiting: Waiting,
    /// The part of the budget that an incomplete message has.
    held: Option<OwnedSemaphorePermit>,
    stopped: watch::Receiver<bool>,
    buffer: Box<[u8]>,
}

impl Connection {
    async fn run(&mut self) -> End {
        match self.go_on().await {
            Ok(never) => match never {},
            // What was taken before counts, and is answered.
            Err(end @ (End::Closed | End::Wrong(_) | End::NoMemory)) => {
                match self.hand_on().await {
                    Err(end) => end,
                    Ok(()) => self.answer_all().await.err().unwrap_or(end),
                }
            }
            Err(end) => end,
        }
    }

    async fn go_on(&mut self) -> Result<std::convert::Infallible, End> {
        let greeting = self.protocol.greeting();
        write_all(&mut self.stream, &greeting).await?;
        loop {
            match self.protocol.step(&mut self.input, &mut self.out).map_err(End::Wrong)? {
                // What becomes no lines takes time too, and other connections need the thread.
                Step::More if !self.out.is_full() => tokio::task::coop::consume_budget().await,
                Step::More => self.hand_on().await?,
                Step::End => return Err(End::Closed),
                Step::NeedsBytes => {
                    self.hand_on().await?;
                    self.hold().await?;
                    self.read().await?;
                }
            }
        }
    }

    /// Hands on what the protocol wrote. Waits as long as that takes, and answers meanwhile.
    async fn hand_on(&mut self) -> Result<(), End> {
        let (lines, bytes) = std::mem::take(&mut self.out.rejected);
        if lines > 0 {
            self.shared.reject(lines, bytes);
            let (sender, what) = (self.sender, self.shared.what());
            self.shared.warn(sender, |held_back| {
                tracing::warn!(
                    %sender, held_back,
                    "records of {what} were not kept: they are damaged, or nested more deeply than is read; the sender must flatten \
                     them, or repair its buffer"
                );
            });
        }
        let lines = std::mem::take(&mut self.out.lines);
        let record = self.out.record.take();
        if !lines.is_empty() || record.is_some() {
            while self.waiting.bytes > UNACKNOWLEDGED_BYTES_MAX {
                self.settle_some().await?;
            }
            while self.shared.deliver.refusal() == Some(KeepError::DiskFull)
                && !*self.stopped.borrow()
            {
                self.alongside(sleep(DISK_FULL_RETRY)).await?;
            }
            let batch = Batch {
                intake: Arc::clone(&self.shared.intake),
                origin: self.origin.clone(),
                received_ns: self.shared.clock.now_ns(),
                lines,
                record,
            };
            let (tickets, lines) = match self.shared.intake.has_room() {
                true => batch.push(),
                false => {
                    let permit = Arc::clone(&self.shared.handing_on).acquire_owned();
                    let permit = self.alongside(permit).await?.expect("it is never closed");
                    let pushing = tokio::task::spawn_blocking(move || {
                        let pushed = batch.push();
                        drop(permit);
                        pushed
                    });
                    self.alongside(pushing).await?.map_err(|error| {
                        End::Failed(io::Error::other(format!("handing lines on failed: {error}")))
                    })?
                }
            };
            self.out.lines = lines;
            tickets.into_iter().for_each(|ticket| self.waiting.add(ticket));
        }
        self.waiting.answer(&mut self.out.answers);
        while self.waiting.entries.len() > WAITING_MAX {
            self.settle_some().await?;
        }
        Ok(())
    }

    /// Takes memory for an incomplete message before it grows.
    async fn hold(&mut self) -> Result<(), End> {
        let bytes = self.input.rest().len();
        if bytes > MESSAGE_BYTES_MAX {
            return Err(End::Wrong(Wrong(format!(
                "a message has more than {MESSAGE_BYTES_MAX} bytes; make the sender's chunks smaller (Fluentd: \
                 chunk_limit_size 8m; Beats: bulk_max_size 2048)"
            ))));
        }
        if bytes == 0 {
            self.held = None;
            self.input.shrink();
            return Ok(());
        }
        let has = self.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        // The memory of a message that becomes whole is its own, and that of its lines.
        let needs = (2 * bytes).saturating_sub(FREE_BYTES) >> 10;
        if needs <= has {
            return Ok(());
        }
        // A quarter more, so that a growing message asks seldom.
        let more = (needs - has + needs / 4) as u32;
        let more = Arc::clone(&self.shared.held).acquire_many_owned(more);
        let more = self.alongside(timeout(BUDGET_MAX, more)).await?;
        let more = more.map_err(|_| End::NoMemory)?.expect("it is never closed");
        match &mut self.held {
            None => self.held = Some(more),
            Some(held) => held.merge(more),
        }
        Ok(())
    }

    /// Reads once, and answers meanwhile.
    async fn read(&mut self) -> Result<(), End> {
        let patience = match self.input.rest().is_empty() {
            true => self.shared.answered.config.idle_timeout,
            false => Some(PAUSE_MAX),
        };
        let is_stopped = *self.stopped.borrow_and_update();
        let Connection { stream, input, waiting, stopped, buffer, protocol, .. } = self;
        let since = Instant::now();
        let may_read_until = async {
            match patience {
                Some(patience) => tokio::time::sleep_until(since + patience).await,
                None => pending().await,
            }
        };
        let mut may_read_until = pin!(may_read_until);
        loop {
            tokio::select! {
                biased;
                event = waiting.next() => {
                    write_all(stream, &event.answer(&**protocol)?).await?;
                }
                read = read_some(stream, buffer) => {
                    return match read {
                        Ok(0) => Err(End::Closed),
                        Ok(bytes) => {
                            input.push(&buffer[..bytes]);
                            waiting.begin();
                            Ok(())
                        }
                        // Without `close_notify`: messages say by themselves where they end.
                        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                            Err(End::Closed)
                        }
                        Err(error) => Err(End::Failed(error)),
                    };
                }
                () = sleep(STOP_PAUSE), if is_stopped => return Err(End::Closed),
                // What arrived is read before the connection ends.
                Ok(()) = stopped.changed(), if !is_stopped => return Ok(()),
                () = &mut may_read_until => return Err(End::TimedOut),
            }
        }
    }

    /// Waits for `what`, and answers meanwhile.
    async fn alongside<T>(&mut self, what: impl Future<Output = T>) -> Result<T, End> {
        let mut what = pin!(what);
        self.waiting.holds_back(true);
        loop {
            tokio::select! {
                biased;
                result = &mut what => {
                    self.waiting.holds_back(false);
                    return Ok(result);
                }
                event = self.waiting.next() => self.tell(event).await?,
            }
        }
    }

    /// Waits until something is durable, and answers.
    async fn settle_some(&mut self) -> Result<(), End> {
        let event = self.waiting.next().await;
        self.tell(event).await
    }

    /// Tells the sender what became of its lines.
    async fn tell(&mut self, event: Event) -> Result<(), End> {
        let answer = event.answer(&*self.protocol)?;
        write_all(&mut self.stream, &answer).await
    }

    /// Answers all that was taken.
    async fn answer_all(&mut self) -> Result<(), End> {
        while !self.waiting.entries.is_empty() {
            self.settle_some().await?;
        }
        Ok(())
    }

    /// Counts and logs how the connection ended.
    fn account(&self, end: End) {
        let (shared, sender, what) = (&self.shared, self.sender, self.shared.what());
        let rest = self.input.rest();
        match end {
            End::Closed if rest.is_empty() => {}
            End::Closed if !self.protocol.has_begun() => self.account_wrong("it is incomplete"),
            // It was not answered, so its sender sends it again.
            End::Closed => {
                tracing::debug!(%sender, bytes = rest.len(), "{what} ended within a message");
            }
            End::Failed(error) => tracing::debug!(%sender, %error, "{what} ended by an error"),
            End::TimedOut => {
                shared.counters().connections_timed_out.fetch_add(1, Relaxed);
            }
            End::Wrong(wrong) => self.account_wrong(&wrong.0),
            End::NotKept(error) => shared.warn(sender, |held_back| {
                tracing::warn!(
                    %sender, %error, held_back,
                    "{what}: lines were not kept, so the connection is closed without an answer, and its sender sends \
                     them again"
                );
            }),
            End::NoMemory => shared.warn(sender, |held_back| {
                tracing::warn!(
                    %sender, held_back,
                    "{what}: there is no memory for an incomplete message, because other senders have long ones; the \
                     connection is closed, and its sender sends it again"
                );
            }),
        }
    }

    /// Counts and logs a sender that does not speak the protocol, or not well.
    fn account_wrong(&self, reason: &str) {
        let (shared, sender, what) = (&self.shared, self.sender, self.shared.what());
        let rest = self.input.rest();
        if self.protocol.has_begun() {
            shared.reject(1, rest.len() as u64);
            shared.warn(sender, |held_back| {
                tracing::warn!(%sender, held_back, "{what}: connection closed: {reason}");
            });
            return;
        }
        shared.counters().wrong_protocol(rest.len() as u64);
        let reason = match recognise(rest) {
            Recognised::Foreign(foreign) => {
                format!("its sender speaks {}: {}", foreign.name(), foreign.remedy())
            }
            _ => reason.to_owned(),
        };
        shared.warn(sender, |held_back| {
            tracing::warn!(%sender, held_back, "connection refused: this port takes {what}; {reason}");
        });
    }
}

/// Lines that are handed on.
struct Batch {
    intake: Arc<Intake>,
    origin: Origin,
    received_ns: i64,
    lines: Vec<u8>,
    record: Option<Vec<u8>>,
}

impl Batch {
    /// Hands the lines on. Blocks while delivery does. Returns the memory of the lines.
    fn push(mut self) -> (Vec<Ticket>, Vec<u8>) {
        let (mut tickets, mut rest) = (Vec::new(), &self.lines[..]);
        while !rest.is_empty() {
            let ticket;
            (ticket, rest) = self.intake.push(&self.origin, self.received_ns, rest);
            tickets.push(ticket);
        }
        if let Some(record) = &self.record {
            tickets.push(self.intake.push_record(&self.origin, self.received_ns, record));
        }
        self.lines.clear();
        self.lines.shrink_to(2 * super::PIECE_BYTES);
        (tickets, self.lines)
    }
}

/// Lines that are not durable yet, and the answers behind them.
struct Waiting {
    entries: VecDeque<Entry>,
    /// Bytes of the lines.
    bytes: u64,
    /// Lines are held back that are not among the entries yet.
    is_holding_back: bool,
    tick: Interval,
}

enum Entry {
    Lines(Ticket),
    Answer(Vec<u8>),
}

/// What became of what waits.
enum Event {
    /// All before these answers is durable.
    Answers(Vec<u8>),
    NotKept(KeepError),
    /// Nothing yet, for a while.
    Still,
}

impl Event {
    /// What the sender is told; perhaps nothing.
    fn answer(self, protocol: &dyn Protocol) -> Result<Vec<u8>, End> {
        match self {
            Event::Answers(answers) => Ok(answers),
            Event::Still => Ok(protocol.still_waiting().unwrap_or_default()),
            Event::NotKept(error) => Err(End::NotKept(error)),
        }
    }
}

impl Waiting {
    fn new() -> Waiting {
        let mut tick = interval_at(Instant::now() + STILL_WAITING_INTERVAL, STILL_WAITING_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Waiting { entries: VecDeque::new(), bytes: 0, is_holding_back: false, tick }
    }

    fn add(&mut self, ticket: Ticket) {
        self.bytes += ticket.bytes();
        self.entries.push_back(Entry::Lines(ticket));
    }

    /// Lets the sender be told that it must wait only after a while, if nothing waits yet.
    fn begin(&mut self) {
        if self.entries.is_empty() {
            self.tick.reset();
        }
    }

    /// Sets whether lines are held back besides the entries.
    fn holds_back(&mut self, is_holding_back: bool) {
        self.is_holding_back = is_holding_back;
    }

    /// Takes answers to what was added.
    fn answer(&mut self, answers: &mut Vec<u8>) {
        if !answers.is_empty() {
            self.entries.push_back(Entry::Answer(std::mem::take(answers)));
        }
    }

    /// The next event; never, if nothing waits.
    async fn next(&mut self) -> Event {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        let (mut answers, mut is_any) = (Vec::new(), false);
        while let Some(front) = self.entries.front_mut() {
            match front {
                Entry::Answer(answer) => answers.append(answer),
                Entry::Lines(ticket) => match Pin::new(&mut *ticket).poll(context) {
                    Poll::Pending => break,
                    Poll::Ready(Ok(())) => self.bytes -= ticket.bytes(),
                    // Answers before these lines are sent first.
                    Poll::Ready(Err(_)) if is_any => break,
                    Poll::Ready(Err(error)) => return Poll::Ready(Event::NotKept(error)),
                },
            }
            is_any = true;
            self.entries.pop_front();
        }
        if is_any {
            self.tick.reset();
            return Poll::Ready(Event::Answers(answers));
        }
        match self.entries.is_empty() && !self.is_holding_back {
            true => Poll::Pending,
            false => self.tick.poll_tick(context).map(|_| Event::Still),
        }
    }
}

async fn read_some(stream: &mut Box<dyn Stream>, into: &mut [u8]) -> io::Result<usize> {
    poll_fn(|context| {
        let mut buffer = ReadBuf::new(into);
        Pin::new(&mut *stream).poll_read(context, &mut buffer).map_ok(|()| buffer.filled().len())
    })
    .await
}

async fn write_all(stream: &mut Box<dyn Stream>, bytes: &[u8]) -> Result<(), End> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut rest = bytes;
    let writing = async {
        while !rest.is_empty() {
            let written =
                poll_fn(|context| Pin::new(&mut *stream).poll_write(context, rest)).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            rest = &rest[written..];
        }
        poll_fn(|context| Pin::new(&mut *stream).poll_flush(context)).await
    };
    match timeout(WRITE_MAX, writing).await {
        Ok(written) => written.map_err(End::Failed),
        Err(_) => Err(End::TimedOut),
    }
}
