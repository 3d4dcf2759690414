//! The store's side: one [`Session`] per connection, and the [`Ledger`] of the numbers received
//! from each collector. Without I/O: takes received bytes, returns actions.
//!
//! A collector is trusted once it has proved that it knows the secret. The claims of its frames are
//! still checked ([`check_frame`]), since a bug in one collector must not harm the lines of others.
//!
//! Invariants: each number of a node is kept once, over however many connections it arrives. A
//! connection acknowledges the frames it received in their order, each once it is durable, also if
//! another connection delivered it first.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use record::batch::OWN_TYPES;
use record::frame::{FRAME_INTERNAL, Hints};
use record::{Frame, NodeIdentity, Numbers, Transport};

use super::secret::{Nonce, PROOF_BYTES, Proof, Secret, Side};
use super::wire::{
    self, Guarded, NUMBER_MAX, StoreHealth, StoreReader, ToCollector, ToStore, WireError,
};

/// How far the numbers of one connection may jump. A collector gives them one after the other, so a
/// greater jump is a fault: the frame is refused, and the connection ends.
const JUMP_MAX: u64 = 1 << 30;
/// Ranges of numbers that are remembered per node. Beyond this, the ranges are dropped that the
/// node's next start declares obsolete; if there are none, its frames are refused. A crash of the
/// collector leaves one gap, so only a bug makes this many.
const RANGES_MAX: usize = 4096;

/// The numbers received from the collectors.
#[derive(Debug, Default)]
pub struct Ledger {
    nodes: HashMap<u32, ReceivedNumbers>,
}

#[derive(Debug, Default)]
struct ReceivedNumbers {
    /// Numbers that were received, durable or not.
    taken: Numbers,
    durable: Numbers,
}

impl Ledger {
    /// Adds the numbers that the store holds of a node.
    pub fn add_held(&mut self, node: u32, held: &Numbers) {
        let came = self.nodes.entry(node).or_default();
        for (first, last) in held.ranges() {
            came.taken.insert_range(first, last);
            came.durable.insert_range(first, last);
        }
    }

    /// Forgets a node that is disconnected and has no frames in the store.
    pub fn forget_empty(&mut self, node: u32) {
        if self.nodes.get(&node).is_some_and(|came| came.taken.greatest().is_none()) {
            self.nodes.remove(&node);
        }
    }

    /// Whether further numbers of a node can be remembered.
    pub fn has_room(&self, node: u32) -> bool {
        self.nodes.get(&node).is_none_or(|came| came.taken.ranges().len() < RANGES_MAX)
    }

    /// Makes room by forgetting numbers that a node will not send again: those below `first`.
    pub fn forget_below(&mut self, node: u32, first: u64) {
        if !self.has_room(node)
            && let Some(came) = self.nodes.get_mut(&node)
        {
            came.taken.forget_below(first, RANGES_MAX / 2);
            came.durable.forget_below(first, RANGES_MAX / 2);
        }
    }

    /// Records that a frame arrived; returns false if it arrived before.
    pub fn take(&mut self, node: u32, number: u64) -> bool {
        let came = self.nodes.entry(node).or_default();
        let is_new = !came.taken.contains(number);
        came.taken.insert(number);
        is_new
    }

    /// Records that a frame is durable.
    pub fn set_durable(&mut self, node: u32, number: u64) {
        self.nodes.entry(node).or_default().durable.insert(number);
    }

    /// Whether all these frames are durable.
    pub fn are_durable(&self, node: u32, numbers: &Numbers) -> bool {
        let durable = self.nodes.get(&node).map(|came| &came.durable);
        durable.map_or(numbers.is_empty(), |durable| numbers.without(durable).is_empty())
    }

    /// The last number that is durable without a gap from `first` on; `first` minus 1 if there is
    /// none.
    pub fn through(&self, node: u32, first: u64) -> u64 {
        let through = self.nodes.get(&node).and_then(|came| came.durable.through(first));
        through.unwrap_or(first.saturating_sub(1))
    }

    fn is_durable(&self, node: u32, number: u64) -> bool {
        self.nodes.get(&node).is_some_and(|came| came.durable.contains(number))
    }
}

/// A message that arrived on a connection.
#[derive(Debug, PartialEq)]
pub enum Brought {
    /// A collector that must be [welcomed](Session::welcome).
    Hello,
    /// A collector that may be [admitted](Session::admitted), or refused.
    Start {
        /// Its identity.
        identity: NodeIdentity,
        /// The least number it may still send.
        first: u64,
    },
    /// A frame that must be kept, unless the [`Ledger`] has its number.
    Frame(Box<Frame>),
    /// A keep-alive message.
    Keepalive,
}

#[derive(Debug)]
enum State {
    Hello,
    Start(NodeIdentity),
    /// Waits for [`Session::admitted`].
    Asked(NodeIdentity, Proof),
    Open(NodeIdentity),
}

/// One connection of a collector.
#[derive(Debug)]
pub struct Session {
    /// The parser of received bytes.
    pub reader: StoreReader,
    state: State,
    secret: Option<Arc<Secret>>,
    /// The greetings as they were sent, the hello first.
    greetings: Vec<u8>,
    /// The least number that is allowed, and the greatest received.
    first: u64,
    greatest: u64,
    /// Numbers that arrived on this connection and are not acknowledged on it, in order.
    unacknowledged: VecDeque<u64>,
    acknowledged: u64,
}

/// A session without a secret.
impl Default for Session {
    fn default() -> Self {
        Session::new(None)
    }
}

impl Session {
    /// A connection whose collector must know the secret, if there is one.
    pub fn new(secret: Option<Arc<Secret>>) -> Session {
        Session {
            reader: StoreReader::default(),
            state: State::Hello,
            secret,
            greetings: Vec::new(),
            first: 0,
            greatest: 0,
            unacknowledged: VecDeque::new(),
            acknowledged: 0,
        }
    }

    /// The collector's node id, once it is admitted.
    pub fn node(&self) -> Option<u32> {
        match &self.state {
            State::Open(identity) => Some(identity.node),
            _ => None,
        }
    }

    /// The next message in the reader.
    pub fn take(&mut self) -> Result<Option<Brought>, WireError> {
        let Some(message) = self.reader.take()? else { return Ok(None) };
        let brought = match (message, &self.state) {
            (ToStore::Hello { identity, guarded }, State::Hello) => {
                match (&self.secret, guarded.has_secret) {
                    (Some(_), false) => return Err(WireError::NoSecret),
                    (None, true) => return Err(WireError::NoSecretOfStore),
                    _ => {}
                }
                self.greetings = wire::hello(&identity, &guarded).to_vec();
                self.state = State::Start(identity);
                Brought::Hello
            }
            (ToStore::Start { first, proof }, &State::Start(identity)) => {
                if let Some(secret) = &self.secret
                    && !secret.verify(Side::Collector, &self.greetings, first, &proof)
                {
                    return Err(WireError::WrongSecret);
                }
                if !(1..=NUMBER_MAX).contains(&first) {
                    return Err(WireError::Order(
                        "the first number of the start is not one that numbering can begin with",
                    ));
                }
                (self.first, self.greatest) = (first, first);
                self.state = State::Asked(identity, proof);
                Brought::Start { identity, first }
            }
            (ToStore::Frame(frame), &State::Open(identity)) => {
                check_frame(&frame, identity.node)?;
                self.check_number(frame.header().sequence)?;
                self.unacknowledged.push_back(frame.header().sequence);
                Brought::Frame(frame)
            }
            (ToStore::Keepalive, State::Open(_)) => Brought::Keepalive,
            _ => return Err(WireError::Order("a message came out of turn")),
        };
        Ok(Some(brought))
    }

    /// Refuses a number below the one of the start, which the store may have forgotten, and a
    /// number far above, which the store could not distinguish from others.
    fn check_number(&mut self, number: u64) -> Result<(), WireError> {
        if number < self.first {
            return Err(WireError::Order("a frame number below the one of its start"));
        }
        if number > NUMBER_MAX || number > self.greatest.saturating_add(JUMP_MAX) {
            return Err(WireError::Order("a frame number far above the previous ones"));
        }
        self.greatest = self.greatest.max(number);
        Ok(())
    }

    /// The answer to a hello, with a nonce that was never used.
    pub fn welcome(&mut self, store: u32, nonce: Nonce) -> Vec<u8> {
        let guarded = Guarded { has_secret: self.secret.is_some(), nonce };
        let welcome = wire::welcome(store, &guarded);
        self.greetings.extend_from_slice(&welcome);
        welcome.to_vec()
    }

    /// The answer to a start: the collector may send.
    pub fn admitted(&mut self, first: u64, ledger: &Ledger) -> Vec<u8> {
        let State::Asked(identity, proof) = self.state else { unreachable!("a start was taken") };
        self.state = State::Open(identity);
        self.reader.take_frames();
        let through = ledger.through(identity.node, first);
        let greetings = [std::mem::take(&mut self.greetings), proof.to_vec()].concat();
        let proof = match &self.secret {
            Some(secret) => secret.prove(Side::Store, &greetings, through),
            None => [0; PROOF_BYTES],
        };
        ToCollector::Held { through, proof }.encode()
    }

    /// An acknowledgement if more frames are durable than were acknowledged, or if `always`.
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

/// Checks a frame. Only the store itself may make Loginson's own lines: the watermarks in them
/// would be wrong on another node. Other claims about lines, such as the sender and the transport,
/// are trusted.
pub fn check_frame(frame: &Frame, node: u32) -> Result<(), WireError> {
    if frame.header().node != node {
        return Err(WireError::Order("a frame of another node"));
    }
    let own = frame
        .origins()
        .iter()
        .any(|origin| origin.transport == Transport::Internal || are_own(&origin.hints));
    if own || frame.header().flags & FRAME_INTERNAL != 0 {
        return Err(WireError::Order("a frame of lines that only a store makes itself"));
    }
    let header = frame.header();
    let received = (header.received_min_ns, header.received_max_ns);
    if header.lines == 0 || frame.received_range_ns() != Some(received) {
        return Err(WireError::Order("a frame whose header does not match its lines"));
    }
    if header.flags != 0 || header.number != 0 || header.sequence == 0 {
        return Err(WireError::Order("a frame without a frame number"));
    }
    Ok(())
}

/// Whether lines with these hints would look like Loginson's own lines.
fn are_own(hints: &Hints) -> bool {
    let mut extra = hints.extra_fields.iter();
    hints.summarised_through.is_some()
        || hints.log_type.as_deref().is_some_and(|name| OWN_TYPES.contains(&name))
        || extra.any(|(name, value)| name == "_type" && OWN_TYPES.contains(&value.as_str()))
}

#[cfg(test)]
mod tests {
    use record::{Format, FrameBuilder, Origin};

    use super::super::secret::NONCE_BYTES;
    use super::super::wire::{hello, start};
    use super::*;

    const OPEN: Guarded = Guarded { has_secret: false, nonce: [0; NONCE_BYTES] };
    const NO_PROOF: Proof = [0; PROOF_BYTES];

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
        assert_eq!(give(&mut session, &hello(&identity, &OPEN)).unwrap(), Some(Brought::Hello));
        session.welcome(1, [2; NONCE_BYTES]);
        let expected = Brought::Start { identity, first: 1 };
        assert_eq!(give(&mut session, &start(1, &NO_PROOF)).unwrap(), Some(expected));
        session.admitted(1, ledger);
        session
    }

    #[test]
    fn a_frame_on_two_connections_is_kept_once_and_acknowledged_on_both() {
        let mut ledger = Ledger::default();
        let mut both = [open(7, &ledger), open(7, &ledger)];
        for (index, session) in both.iter_mut().enumerate() {
            for number in [1, 2] {
                give(session, frame(Transport::SyslogTcp, 7, number).bytes()).unwrap();
                assert_eq!(ledger.take(7, number), index == 0);
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
    fn frames_of_other_nodes_and_internal_lines_are_refused() {
        let ledger = Ledger::default();
        for (frame, expected) in [
            (frame(Transport::SyslogTcp, 8, 1), "another node"),
            (frame(Transport::Internal, 7, 1), "only a store makes"),
            (frame(Transport::SyslogTcp, 7, 0), "without a frame number"),
        ] {
            let error = give(&mut open(7, &ledger), frame.bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let early = give(&mut Session::default(), &start(1, &NO_PROOF)).unwrap_err();
        assert_eq!(early, WireError::Order("a message came out of turn"));
    }

    #[test]
    fn claims_of_a_frame_are_checked() {
        let built = |hints: Hints| {
            let mut builder = FrameBuilder::new();
            let origin = Origin {
                hints: Arc::new(hints),
                ..Origin::new(Transport::Http, Format::Json, None)
            };
            builder.push_lines(&origin, 1, b"{}\n");
            builder.finish(7, 1).unwrap()
        };
        let own = |name: &str| vec![(name.to_owned(), OWN_TYPES[0].to_owned())];
        for (hints, is_taken) in [
            (Hints { log_type: Some(OWN_TYPES[0].into()), ..Hints::default() }, false),
            (Hints { log_type: Some(OWN_TYPES[1].into()), ..Hints::default() }, false),
            (Hints { extra_fields: own("type"), ..Hints::default() }, true),
            (Hints { extra_fields: own("_type"), ..Hints::default() }, false),
            (Hints { summarised_through: Some(9), ..Hints::default() }, false),
            (Hints { extra_fields: own("team"), ..Hints::default() }, true),
            (Hints { log_type: Some("shop".into()), ..Hints::default() }, true),
        ] {
            let taken = give(&mut open(7, &Ledger::default()), built(hints.clone()).bytes());
            assert_eq!(taken.is_ok(), is_taken, "{hints:?}");
        }
    }

    #[test]
    fn numbers_below_the_start_and_far_away_are_refused() {
        let at = |number| frame(Transport::SyslogTcp, 7, number);
        let ledger = Ledger::default();
        let identity = NodeIdentity { node: 7, key: 1, starts: 1, run: 1 };
        let start_at = |first| {
            let mut session = Session::default();
            give(&mut session, &hello(&identity, &OPEN)).unwrap();
            session.welcome(1, [2; NONCE_BYTES]);
            give(&mut session, &start(first, &NO_PROOF)).map(|_| {
                session.admitted(first, &ledger);
                session
            })
        };
        let mut session = start_at(5).unwrap();
        give(&mut session, at(5 + JUMP_MAX).bytes()).unwrap();
        give(&mut session, at(5).bytes()).unwrap();
        assert!(give(&mut session, at(4).bytes()).is_err());
        let mut session = start_at(5).unwrap();
        assert!(give(&mut session, at(6 + JUMP_MAX).bytes()).is_err());
        assert!(start_at(0).is_err() && start_at(NUMBER_MAX + 1).is_err());
        let mut session = start_at(NUMBER_MAX).unwrap();
        give(&mut session, at(NUMBER_MAX).bytes()).unwrap();
        assert!(give(&mut session, at(NUMBER_MAX + 1).bytes()).is_err());
    }

    #[test]
    fn only_collectors_with_the_secret_are_admitted() {
        let secret = |text: &[u8]| Arc::new(Secret::new(text).unwrap());
        let (ours, other) = (secret(b"0123456789abcdef"), secret(b"another secret 1"));
        let identity = NodeIdentity { node: 7, key: 1, starts: 1, run: 1 };
        let greet = |session: &mut Session, has_secret, nonce| {
            let guarded = Guarded { has_secret, nonce: [nonce; NONCE_BYTES] };
            let hello = hello(&identity, &guarded);
            give(session, &hello)?;
            Ok::<_, WireError>([&hello[..], &session.welcome(1, [nonce + 1; NONCE_BYTES])].concat())
        };
        let mut session = Session::new(Some(Arc::clone(&ours)));
        assert_eq!(greet(&mut session, false, 3).unwrap_err(), WireError::NoSecret);
        assert_eq!(
            greet(&mut Session::new(None), true, 3).unwrap_err(),
            WireError::NoSecretOfStore
        );
        let proof = |secret: &Secret, greetings: &[u8], first| {
            start(first, &secret.prove(Side::Collector, greetings, first))
        };
        let session = || {
            let mut session = Session::new(Some(Arc::clone(&ours)));
            let greetings = greet(&mut session, true, 3).unwrap();
            (session, greetings)
        };
        let (mut right, greetings) = session();
        let start_right = proof(&ours, &greetings, 9);
        assert!(give(&mut right, &start_right).is_ok());
        let check = |bytes: &[u8]| {
            let (mut session, _) = session();
            assert_eq!(give(&mut session, bytes).unwrap_err(), WireError::WrongSecret);
        };
        check(&proof(&other, &greetings, 9));
        check(&start(9, &NO_PROOF));
        // A proof overheard on another connection, of the other side, or for another number.
        let mut again = Session::new(Some(Arc::clone(&ours)));
        greet(&mut again, true, 4).unwrap();
        assert_eq!(give(&mut again, &start_right).unwrap_err(), WireError::WrongSecret);
        check(&start(9, &ours.prove(Side::Store, &greetings, 9)));
        check(&start(8, &ours.prove(Side::Collector, &greetings, 9)));
    }

    #[test]
    fn gaps_are_remembered_up_to_a_limit() {
        let mut ledger = Ledger::default();
        for number in (1..).step_by(2).take(RANGES_MAX) {
            assert!(ledger.has_room(7) && ledger.take(7, number));
            ledger.set_durable(7, number);
        }
        assert!(!ledger.has_room(7) && ledger.has_room(8));
        ledger.forget_below(7, 5);
        assert!(ledger.has_room(7));
        assert!(!ledger.take(7, 5), "what may come again is remembered");
    }
}
