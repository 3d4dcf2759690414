//! The store's side: one [`Session`] a connection, and the [`Ledger`] of what came from each collector. No input and output:
//! bytes in, what is to be done out.
//!
//! Invariants: a number of a node is kept once, over however many connections it comes; a connection acknowledges its
//! frames in the order in which they came on it, each once it is durable, also when another connection brought it first.

use std::collections::{HashMap, VecDeque};

use record::frame::FRAME_INTERNAL;
use record::{Frame, Numbers, Transport};

use super::wire::{NodeIdentity, StoreHealth, StoreReader, ToCollector, ToStore, WireError};

/// Numbers that came from the collectors.
#[derive(Debug, Default)]
pub struct Ledger {
    nodes: HashMap<u32, Came>,
}

#[derive(Debug, Default)]
struct Came {
    /// Taken, durable or on the way to it.
    taken: Numbers,
    durable: Numbers,
}

impl Ledger {
    /// Adds what the store holds of a node.
    pub fn add_held(&mut self, node: u32, held: &Numbers) {
        let came = self.nodes.entry(node).or_default();
        for (first, last) in held.ranges() {
            came.taken.insert_range(first, last);
            came.durable.insert_range(first, last);
        }
    }

    /// Notes that a frame came; false when it came before.
    pub fn take(&mut self, node: u32, number: u64) -> bool {
        let came = self.nodes.entry(node).or_default();
        let is_new = !came.taken.contains(number);
        came.taken.insert(number);
        is_new
    }

    /// Notes that a frame is durable.
    pub fn set_durable(&mut self, node: u32, number: u64) {
        self.nodes.entry(node).or_default().durable.insert(number);
    }

    /// The last number that is durable without a gap from `first` on, or the one before `first`.
    pub fn through(&self, node: u32, first: u64) -> u64 {
        let through = self.nodes.get(&node).and_then(|came| came.durable.through(first));
        through.unwrap_or(first.saturating_sub(1))
    }

    fn is_durable(&self, node: u32, number: u64) -> bool {
        self.nodes.get(&node).is_some_and(|came| came.durable.contains(number))
    }
}

/// What a connection brought.
#[derive(Debug, PartialEq)]
pub enum Brought {
    /// A collector that is to be [welcomed](Session::welcome).
    Hello,
    /// It may be [admitted](Session::admitted), or refused.
    Start {
        /// Who it is.
        identity: NodeIdentity,
        /// The least number it may still send.
        first: u64,
    },
    /// A frame that is to be kept, unless the [`Ledger`] has its number.
    Frame(Box<Frame>),
    /// A sign of life.
    Keepalive,
}

#[derive(Debug)]
enum State {
    Hello,
    Start(NodeIdentity),
    /// Waits for [`Session::admitted`].
    Asked(NodeIdentity),
    Open(NodeIdentity),
}

/// One connection of a collector.
#[derive(Debug)]
pub struct Session {
    /// Takes the bytes.
    pub reader: StoreReader,
    state: State,
    /// Numbers that came on this connection and are not acknowledged on it, in order.
    unacknowledged: VecDeque<u64>,
    acknowledged: u64,
}

impl Default for Session {
    fn default() -> Self {
        Session {
            reader: StoreReader::default(),
            state: State::Hello,
            unacknowledged: VecDeque::new(),
            acknowledged: 0,
        }
    }
}

impl Session {
    /// Who it is, once it is admitted.
    pub fn node(&self) -> Option<u32> {
        match &self.state {
            State::Open(identity) => Some(identity.node),
            _ => None,
        }
    }

    /// What the bytes in the reader come to.
    pub fn take(&mut self) -> Result<Option<Brought>, WireError> {
        let Some(message) = self.reader.take()? else { return Ok(None) };
        let brought = match (message, &self.state) {
            (ToStore::Hello(identity), State::Hello) => {
                self.state = State::Start(identity);
                Brought::Hello
            }
            (ToStore::Start { first }, &State::Start(identity)) => {
                self.state = State::Asked(identity);
                Brought::Start { identity, first }
            }
            (ToStore::Frame(frame), State::Open(identity)) => {
                check_frame(&frame, identity.node)?;
                self.unacknowledged.push_back(frame.header().sequence);
                Brought::Frame(frame)
            }
            (ToStore::Keepalive, State::Open(_)) => Brought::Keepalive,
            _ => return Err(WireError::Order("a message came out of turn")),
        };
        Ok(Some(brought))
    }

    /// The answer to a hello.
    pub fn welcome(&self, store: u32) -> Vec<u8> {
        ToCollector::Welcome { store }.encode()
    }

    /// The answer to a start: the collector may send.
    pub fn admitted(&mut self, first: u64, ledger: &Ledger) -> Vec<u8> {
        let State::Asked(identity) = self.state else { unreachable!("a start was taken") };
        self.state = State::Open(identity);
        ToCollector::Held { through: ledger.through(identity.node, first) }.encode()
    }

    /// An acknowledgement, if more frames are durable than were told, or `always`.
    pub fn ack(&mut self, ledger: &Ledger, health: StoreHealth, always: bool) -> Option<Vec<u8>> {
        let node = self.node()?;
        let before = self.acknowledged;
        while let Some(&number) = self.unacknowledged.front()
            && ledger.is_durable(node, number)
        {
            self.unacknowledged.pop_front();
            self.acknowledged += 1;
        }
        let frames = self.acknowledged;
        (always || frames > before).then(|| ToCollector::Ack { frames, health }.encode())
    }
}

/// Lines of Loginson itself are made by the store alone: what says how far they count would be wrong elsewhere.
fn check_frame(frame: &Frame, node: u32) -> Result<(), WireError> {
    if frame.header().node != node {
        return Err(WireError::Order("a frame of another node"));
    }
    let own = frame.origins().iter().any(|origin| {
        origin.transport == Transport::Internal || origin.hints.summarised_through.is_some()
    });
    if own || frame.header().flags & FRAME_INTERNAL != 0 {
        return Err(WireError::Order("a frame of lines that only a store makes"));
    }
    if frame.header().flags != 0 || frame.header().sequence == 0 {
        return Err(WireError::Order("a frame without a number of its node"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use record::{Format, FrameBuilder, Origin};

    use super::super::wire::{hello, start};
    use super::*;

    fn frame(transport: Transport, node: u32, number: u64) -> Frame {
        let mut builder = FrameBuilder::new();
        builder.push_lines(&Origin::new(transport, Format::Auto, None), 1, b"a\n");
        builder.finish(node, number).unwrap()
    }

    fn give(session: &mut Session, mut bytes: &[u8]) -> Result<Option<Brought>, WireError> {
        while !bytes.is_empty() {
            let part = session.reader.wanted().min(bytes.len());
            session.reader.buffer().extend_from_slice(&bytes[..part]);
            bytes = &bytes[part..];
            if let Some(brought) = session.take()? {
                return Ok(Some(brought));
            }
        }
        Ok(None)
    }

    fn open(node: u32, ledger: &Ledger) -> Session {
        let identity = NodeIdentity { node, key: 1, starts: 1, run: 1 };
        let mut session = Session::default();
        assert_eq!(give(&mut session, &hello(&identity)).unwrap(), Some(Brought::Hello));
        let expected = Brought::Start { identity, first: 1 };
        assert_eq!(give(&mut session, &start(1)).unwrap(), Some(expected));
        session.admitted(1, ledger);
        session
    }

    #[test]
    fn a_frame_on_two_connections_is_kept_once_and_acknowledged_on_both() {
        let mut ledger = Ledger::default();
        let mut both = [open(7, &ledger), open(7, &ledger)];
        for (place, session) in both.iter_mut().enumerate() {
            for number in [1, 2] {
                give(session, frame(Transport::SyslogTcp, 7, number).bytes()).unwrap();
                assert_eq!(ledger.take(7, number), place == 0);
            }
        }
        ledger.set_durable(7, 2);
        let ack =
            |session: &mut Session, ledger: &Ledger| session.ack(ledger, StoreHealth::Ok, false);
        assert_eq!(ack(&mut both[1], &ledger), None, "the first is not durable");
        ledger.set_durable(7, 1);
        let expected = ToCollector::Ack { frames: 2, health: StoreHealth::Ok }.encode();
        for session in &mut both {
            assert_eq!(ack(session, &ledger), Some(expected.clone()));
        }
        assert_eq!((ledger.through(7, 1), ledger.through(7, 9), ledger.through(8, 1)), (2, 8, 0));
    }

    #[test]
    fn frames_of_others_and_of_stores_are_refused() {
        let ledger = Ledger::default();
        for (frame, expected) in [
            (frame(Transport::SyslogTcp, 8, 1), "another node"),
            (frame(Transport::Internal, 7, 1), "only a store makes"),
            (frame(Transport::SyslogTcp, 7, 0), "without a number"),
        ] {
            let error = give(&mut open(7, &ledger), frame.bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let early = give(&mut Session::default(), &start(1)).unwrap_err();
        assert_eq!(early, WireError::Order("a message came out of turn"));
    }
}
