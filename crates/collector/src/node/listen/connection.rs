//! One connection of a collector: reads frames as far as there is room, reports what is durable,
//! and tells the collector why the connection ends.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use record::{Frame, NodeIdentity};

use super::super::lane::{KEEPALIVE, SILENCE_MAX};
use super::super::lock;
use super::super::secret;
use super::super::session::{Brought, Session};
use super::super::status::CollectorStatus;
use super::super::wire::{self, StoreHealth, ToCollector};
use super::shared::Shared;
use crate::accounting::SourceKind;

/// Bytes of frames that are being read, over all connections. Beyond this, a further frame is not
/// read past its header before another is complete; one frame is always read.
///
/// limits.md, Several machines: frames of collectors being read | {} | no further frame is read
/// past its header
const READING_BYTES_MAX: usize = 128 << 20;
/// Base time limit for a frame to be complete.
const FRAME_TIME: Duration = Duration::from_secs(120);
/// Extends the time limit by the frame's bytes at this rate. The limit does not run while the store
/// takes nothing.
const FRAME_BYTES_PER_S_MIN: u64 = 16 << 10;
/// Bytes read from one connection before the next one's turn.
const TURN_BYTES: usize = 8 << 20;
/// Bytes that are read and discarded from a refused connection.
const UNREAD_MAX: u64 = 1 << 20;
/// Time limit for a connection to identify itself.
const GREETING_MAX: Duration = Duration::from_secs(10);
/// Bytes that wait to be written to a connection. Beyond this, it gets fewer acknowledgements: one
/// stands for all before it.
const OUT_BYTES_MAX: usize = 4 << 10;

pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) session: Session,
    pub(super) out: VecDeque<u8>,
    pub(super) begun: Instant,
    pub(super) heard: Instant,
    pub(super) said: Instant,
    /// The socket may have more to read.
    pub(super) readable: bool,
    /// Bytes of the frame that is being read; included in the sum over all connections.
    pub(super) reading_bytes: usize,
    /// When that frame must be complete.
    pub(super) frame_until: Instant,
}

/// Why a connection ended.
pub(super) enum End {
    /// Closed by the other side in good order.
    Closed,
    /// The other side was silent for too long.
    Silent,
    /// A network error.
    Broken(#[expect(dead_code, reason = "for debugging")] std::io::Error),
    /// The peer sent data that was refused.
    Refused { text: String, is_http: bool, is_of_secret: bool },
}

pub(super) fn refused(text: String) -> End {
    End::Refused { text, is_http: false, is_of_secret: false }
}

impl Connection {
    /// Whether the frame that is being read may be read on, given the bytes being read on all
    /// connections.
    pub(super) fn has_room(&self, reading_bytes: usize) -> bool {
        let more = self.session.reader.frame_bytes() - self.reading_bytes;
        more == 0 || reading_bytes == 0 || reading_bytes + more <= READING_BYTES_MAX
    }

    pub(super) fn read(
        &mut self,
        shared: &Arc<Shared>,
        reading_bytes: &mut usize,
    ) -> Result<(), End> {
        let mut turn = TURN_BYTES;
        while self.readable && turn > 0 && !shared.is_full() && self.has_room(*reading_bytes) {
            let frame_bytes = self.session.reader.frame_bytes();
            if frame_bytes > self.reading_bytes {
                *reading_bytes += frame_bytes - self.reading_bytes;
                self.reading_bytes = frame_bytes;
                let more = Duration::from_secs(frame_bytes as u64 / FRAME_BYTES_PER_S_MIN);
                self.frame_until = Instant::now() + FRAME_TIME + more;
            }
            let wanted = self.session.reader.wanted();
            let buffer = self.session.reader.buffer();
            let before = buffer.len();
            let result = (&self.stream).take(wanted as u64).read_to_end(buffer);
            let count = buffer.len() - before;
            turn = turn.saturating_sub(count);
            match result {
                Ok(_) if count < wanted => return Err(End::Closed),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.readable = false,
                Err(error) => return Err(End::Broken(error)),
            }
            if count > 0 {
                self.heard = Instant::now();
                let taken = self.take(shared);
                if self.session.reader.frame_bytes() == 0 {
                    *reading_bytes -= std::mem::take(&mut self.reading_bytes);
                }
                taken?;
            }
        }
        if shared.is_full() || !self.has_room(*reading_bytes) {
            // The collector is not being read at present, so its silence does not count.
            self.heard = Instant::now();
            self.frame_until = self.frame_until.max(self.heard + FRAME_TIME);
        }
        Ok(())
    }

    fn take(&mut self, shared: &Arc<Shared>) -> Result<(), End> {
        let is_http =
            self.session.node().is_none() && wire::is_http_request(self.session.reader.buffer());
        let brought = self.session.take();
        let end = |error: wire::WireError| {
            let is_of_secret = error.is_of_secret();
            End::Refused { text: error.to_string(), is_http, is_of_secret }
        };
        match brought.map_err(end)? {
            None | Some(Brought::Keepalive) => {}
            Some(Brought::Hello) => {
                self.out.extend(self.session.welcome(shared.store.id(), secret::nonce()));
            }
            Some(Brought::Start { identity, first }) => self.admit(identity, first, shared)?,
            Some(Brought::Frame(frame)) => self.hand_over(*frame, shared)?,
        }
        Ok(())
    }

    fn admit(&mut self, identity: NodeIdentity, first: u64, shared: &Shared) -> Result<(), End> {
        let node = identity.node;
        let held = shared.store.admit(&identity, first).map_err(refused)?;
        let mut ledger = lock(&shared.ledger);
        ledger.add_held(node, &held);
        ledger.forget_below(node, first);
        self.out.extend(self.session.admitted(first, &ledger));
        drop(ledger);
        let mut collectors = lock(&shared.collectors);
        let status = collectors.entry(node).or_insert_with(|| CollectorStatus {
            node,
            address: self.peer,
            connections: 0,
            frames: 0,
            lines: 0,
            bytes: 0,
            duplicates: 0,
            heard: self.heard,
        });
        status.address = self.peer;
        status.connections += 1;
        tracing::info!("collector {node:08x} at {} is connected", self.peer);
        Ok(())
    }

    fn hand_over(&mut self, mut frame: Frame, shared: &Shared) -> Result<(), End> {
        let header = frame.header();
        let is_new = {
            let mut ledger = lock(&shared.ledger);
            if !ledger.has_room(header.node) {
                return Err(refused("too many gaps between the numbers of its frames".to_owned()));
            }
            ledger.take(header.node, header.sequence)
        };
        if let Some(status) = lock(&shared.collectors).get_mut(&header.node) {
            status.heard = self.heard;
            status.duplicates += u64::from(!is_new);
        }
        if !is_new {
            return Ok(());
        }
        let counters = shared.accounting.source(SourceKind::Node);
        counters.received(u64::from(header.lines), frame.line_bytes());
        shared.correct_times(&mut frame, self.peer);
        let mut waiting = lock(&shared.waiting);
        waiting.bytes += frame.bytes().len();
        waiting.frames.push_back(frame);
        drop(waiting);
        shared.changed.notify_one();
        Ok(())
    }

    /// Sends acknowledgements, or a keep-alive message with the state of the store.
    pub(super) fn tell(&mut self, shared: &Shared, health: StoreHealth) -> Result<(), End> {
        let now = Instant::now();
        let greeted = self.session.node().is_some();
        let is_slow = self.reading_bytes > 0 && now > self.frame_until;
        let is_late = !greeted && now - self.begun > GREETING_MAX;
        if is_late || is_slow || now - self.heard > SILENCE_MAX {
            return Err(End::Silent);
        }
        if self.out.len() > OUT_BYTES_MAX {
            return Ok(());
        }
        let due = now - self.said >= KEEPALIVE;
        if let Some(ack) = self.session.ack(&lock(&shared.ledger), health, due) {
            self.out.extend(ack);
            self.said = now;
        }
        Ok(())
    }

    pub(super) fn write(&mut self) -> Result<(), End> {
        while !self.out.is_empty() {
            let (bytes, _) = self.out.as_slices();
            match self.stream.write(bytes) {
                Ok(0) => return Err(End::Closed),
                Ok(count) => drop(self.out.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(End::Broken(error)),
            }
        }
        Ok(())
    }

    /// Sends the reason of a refusal, as far as the socket takes it without blocking.
    pub(super) fn end(&mut self, end: &End) {
        if let End::Refused { text, is_http, .. } = end {
            let message = match is_http {
                true => format!(
                    "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n\r\n{text}\n"
                )
                .into_bytes(),
                false => ToCollector::Refusal { text: text.clone() }.encode(),
            };
            self.out.extend(message);
            let _ = self.write();
            // Closing a socket with unread bytes resets the connection, and the peer would lose the
            // answer.
            let _ = self.stream.shutdown(Shutdown::Write);
            let _ = std::io::copy(&mut (&self.stream).take(UNREAD_MAX), &mut std::io::sink());
        }
    }
}
