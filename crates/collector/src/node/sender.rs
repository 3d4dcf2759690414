//! The collector's side of one connection, without input and output: bytes in, what happened out.
//!
//! A store is believed once it has proved that it knows the secret, if there is one: no frame is
//! sent to another.
//!
//! Invariants: an item is given back exactly once, when its frame is acknowledged, or by
//! [`Sender::into_unacknowledged`] when the connection ended; items are acknowledged in the order
//! in which they were sent.

use std::collections::VecDeque;
use std::sync::Arc;

use super::secret::{Nonce, PROOF_BYTES, Proof, Secret, Side};
use super::wire::{
    self, CollectorReader, GREETING_BYTES, Guarded, NodeIdentity, PROVEN_BYTES, StoreHealth,
    ToCollector, WireError,
};

/// What became of the connection by bytes that came.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard<T> {
    /// The store named itself: the start is to be sent.
    Welcome {
        /// Its node id.
        store: u32,
    },
    /// Frames may be sent, and those through this number need not be.
    Open {
        /// The last that is there without a gap from the start's number on.
        through: u64,
    },
    /// Frames are durable.
    Acknowledged {
        /// Theirs, in the order of sending.
        items: Vec<T>,
        /// Whether the store takes more.
        health: StoreHealth,
    },
}

/// Why a connection ends.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SenderError {
    /// The bytes make no sense.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The store does not want it.
    #[error("the store refuses: {0}")]
    Refused(String),
}

/// How far the greeting is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Hello,
    Welcomed,
    Open,
}

/// One connection to a store. `T` is what is to be kept of a frame until it is acknowledged.
#[derive(Debug)]
pub struct Sender<T> {
    reader: CollectorReader,
    state: State,
    secret: Option<Arc<Secret>>,
    /// As they were sent, the hello first; behind them the proof of the start.
    greetings: Vec<u8>,
    sent: VecDeque<T>,
    /// The last of them is not sent to its end.
    under_way: bool,
    acknowledged: u64,
}

/// Without a secret, and without having greeted.
impl<T> Default for Sender<T> {
    fn default() -> Self {
        let reader = CollectorReader::default();
        let (sent, greetings) = (VecDeque::new(), Vec::new());
        let state = State::Hello;
        Sender { reader, state, secret: None, greetings, sent, under_way: false, acknowledged: 0 }
    }
}

impl<T> Sender<T> {
    /// A connection, and the hello that is to be sent on it. The nonce was never used.
    pub fn new(
        identity: &NodeIdentity,
        secret: Option<Arc<Secret>>,
        nonce: Nonce,
    ) -> (Sender<T>, [u8; GREETING_BYTES]) {
        let guarded = Guarded { has_secret: secret.is_some(), nonce };
        let hello = wire::hello(identity, &guarded);
        (Sender { secret, greetings: hello.to_vec(), ..Sender::default() }, hello)
    }

    /// The start that is to be sent once the store has named itself.
    pub fn start(&mut self, first: u64) -> [u8; PROVEN_BYTES] {
        let proof: Proof = match &self.secret {
            Some(secret) => secret.prove(Side::Collector, &self.greetings, first),
            None => [0; PROOF_BYTES],
        };
        self.greetings.extend_from_slice(&proof);
        wire::start(first, &proof)
    }

    /// Whether frames may be sent.
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Notes that a frame is begun to be sent.
    pub fn begin(&mut self, item: T) {
        assert!(self.is_open(), "frames are sent when the store has said what it has");
        assert!(!self.under_way, "one frame is sent behind the other");
        self.sent.push_back(item);
        self.under_way = true;
    }

    /// Notes that it is sent to its end: now it may be acknowledged.
    pub fn finish(&mut self) {
        self.under_way = false;
    }

    /// The item sent last, if it is not acknowledged.
    pub fn last(&self) -> Option<&T> {
        self.sent.back()
    }

    /// How many wait for their acknowledgement.
    pub fn unacknowledged(&self) -> usize {
        self.sent.len()
    }

    /// Takes bytes from the store, for [`hear`](Self::hear).
    pub fn push(&mut self, bytes: &[u8]) {
        self.reader.push(bytes);
    }

    /// What the next message comes to; none when no whole one is there. After an error the
    /// connection is over.
    pub fn hear(&mut self) -> Result<Option<Heard<T>>, SenderError> {
        let Some(message) = self.reader.take()? else { return Ok(None) };
        Ok(Some(match (message, self.state) {
            (ToCollector::Refusal { text }, _) => return Err(SenderError::Refused(text)),
            (ToCollector::Welcome { store, guarded }, State::Hello) => {
                if self.secret.is_some() && !guarded.has_secret {
                    return Err(WireError::NoSecretOfStore.into());
                }
                self.greetings.extend_from_slice(&wire::welcome(store, &guarded));
                self.state = State::Welcomed;
                Heard::Welcome { store }
            }
            (ToCollector::Held { through, proof }, State::Welcomed) => {
                if let Some(secret) = &self.secret
                    && !secret.verify(Side::Store, &self.greetings, through, &proof)
                {
                    return Err(WireError::WrongSecretOfStore.into());
                }
                self.state = State::Open;
                Heard::Open { through }
            }
            (ToCollector::Ack { frames, health }, State::Open) => {
                let more = frames.checked_sub(self.acknowledged);
                let whole = self.sent.len() as u64 - u64::from(self.under_way);
                let more = more.filter(|&more| more <= whole);
                let Some(more) = more else {
                    return Err(
                        WireError::Order("frames are acknowledged that were not sent").into()
                    );
                };
                self.acknowledged = frames;
                let items = self.sent.drain(..more as usize).collect();
                Heard::Acknowledged { items, health }
            }
            _ => return Err(WireError::Order("a message came out of turn").into()),
        }))
    }

    /// What was not acknowledged, in the order of sending, when the connection has ended.
    pub fn into_unacknowledged(self) -> VecDeque<T> {
        self.sent
    }
}

#[cfg(test)]
mod tests {
    use super::super::secret::NONCE_BYTES;
    use super::*;

    const OPEN: Guarded = Guarded { has_secret: false, nonce: [0; NONCE_BYTES] };
    const NO_PROOF: Proof = [0; PROOF_BYTES];

    fn ack(frames: u64) -> Vec<u8> {
        ToCollector::Ack { frames, health: StoreHealth::Ok }.encode()
    }

    /// All that the bytes come to.
    fn receive<T>(sender: &mut Sender<T>, bytes: &[u8]) -> Result<Vec<Heard<T>>, SenderError> {
        sender.push(bytes);
        std::iter::from_fn(|| sender.hear().transpose()).collect()
    }

    #[test]
    fn only_what_was_sent_is_acknowledged_once() {
        let mut sender = Sender::default();
        let welcome = ToCollector::Welcome { store: 4, guarded: OPEN };
        let greeting = [welcome, ToCollector::Held { through: 2, proof: NO_PROOF }];
        let bytes: Vec<u8> = greeting.iter().flat_map(ToCollector::encode).collect();
        let heard = receive(&mut sender, &bytes).unwrap();
        assert_eq!(heard, [Heard::Welcome { store: 4 }, Heard::Open { through: 2 }]);
        for item in 1..=3 {
            sender.begin(item);
            sender.finish();
        }
        let health = StoreHealth::Ok;
        let heard = receive(&mut sender, &[ack(2), ack(2)].concat()).unwrap();
        let first = Heard::Acknowledged { items: vec![1, 2], health };
        assert_eq!(heard, [first, Heard::Acknowledged { items: vec![], health }]);
        assert!(receive(&mut sender, &ack(4)).is_err(), "more than was sent");
        assert!(receive(&mut sender, &ack(1)).is_err(), "fewer than before");
        sender.begin(4);
        assert!(receive(&mut sender, &ack(4)).is_err(), "not sent to its end");
        assert_eq!(sender.into_unacknowledged(), [3, 4]);
    }

    #[test]
    fn messages_out_of_turn_end_it() {
        let check = |message: ToCollector, expected: &str| {
            let mut sender = Sender::<()>::default();
            let error = receive(&mut sender, &message.encode()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(ToCollector::Held { through: 1, proof: NO_PROOF }, "out of turn");
        check(ToCollector::Ack { frames: 0, health: StoreHealth::Ok }, "out of turn");
        check(ToCollector::Refusal { text: "no place".into() }, "the store refuses: no place");
    }

    #[test]
    fn frames_are_sent_only_to_a_store_that_knows_the_secret() {
        let secret = |text: &[u8]| Arc::new(Secret::new(text).unwrap());
        let (ours, other) = (secret(b"0123456789abcdef"), secret(b"another secret 1"));
        let identity = NodeIdentity { node: 7, key: 1, starts: 1, run: 1 };
        let guarded = Guarded { has_secret: true, nonce: [5; NONCE_BYTES] };
        let greet = |guarded| {
            let ours = Some(Arc::clone(&ours));
            let (mut sender, hello) = Sender::<()>::new(&identity, ours, [3; NONCE_BYTES]);
            let welcome = ToCollector::Welcome { store: 4, guarded };
            receive(&mut sender, &welcome.encode())?;
            let start = sender.start(9);
            let proof = &start[wire::NOTE_BYTES..];
            Ok::<_, SenderError>((sender, [&hello[..], &welcome.encode(), proof].concat()))
        };
        let error = greet(OPEN).unwrap_err();
        assert_eq!(error, WireError::NoSecretOfStore.into());
        for (proves, side, is_believed) in [
            (&ours, Side::Store, true),
            (&other, Side::Store, false),
            (&ours, Side::Collector, false),
        ] {
            let (mut sender, greetings) = greet(guarded).unwrap();
            let held = ToCollector::Held { through: 8, proof: proves.prove(side, &greetings, 8) };
            let heard = receive(&mut sender, &held.encode());
            assert_eq!(heard.is_ok() && sender.is_open(), is_believed, "{side:?}");
            assert!(is_believed || heard.unwrap_err() == WireError::WrongSecretOfStore.into());
        }
        let (mut sender, _) = greet(guarded).unwrap();
        let held = ToCollector::Held { through: 8, proof: NO_PROOF };
        assert!(receive(&mut sender, &held.encode()).is_err() && !sender.is_open());
    }
}
