//! The collector's side of one connection, without I/O: takes received bytes, returns events.
//!
//! A store is trusted once it has proved that it knows the secret, if there is one. No frame is
//! sent before that.
//!
//! Invariants: each item is returned exactly once, either when its frame is acknowledged, or by
//! [`Sender::into_unacknowledged`] when the connection ended; items are acknowledged in the order
//! in which they were sent.

use std::collections::VecDeque;
use std::sync::Arc;

use record::NodeIdentity;

use super::secret::{Nonce, PROOF_BYTES, Proof, Secret, Side};
use super::wire::{
    self, CollectorReader, GREETING_BYTES, Guarded, PROVEN_BYTES, StoreHealth, ToCollector,
    WireError,
};

/// An event that received bytes caused.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard<T> {
    /// The store has identified itself: the start message must be sent.
    Welcome {
        /// Its node id.
        store: u32,
    },
    /// Frames may be sent; those up to `through` need not be.
    Open {
        /// The last number that is stored without a gap from the first number on.
        through: u64,
    },
    /// Frames are durable.
    Acknowledged {
        /// The items of these frames, in the order of sending.
        items: Vec<T>,
        /// Whether the store takes more frames.
        health: StoreHealth,
    },
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SenderError {
    /// The bytes violate the protocol.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The store refused the connection.
    #[error("the store refuses: {0}")]
    Refused(String),
}

/// State of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Hello,
    Welcomed,
    Open,
}

/// One connection to a store. `T` is the data kept per frame until it is acknowledged.
#[derive(Debug)]
pub struct Sender<T> {
    reader: CollectorReader,
    state: State,
    secret: Option<Arc<Secret>>,
    /// The greetings as they were sent, the hello first; then the proof of the start message.
    greetings: Vec<u8>,
    sent: VecDeque<T>,
    /// The last frame of `sent` is not completely sent.
    under_way: bool,
    acknowledged: u64,
}

/// A sender without a secret that has not greeted.
impl<T> Default for Sender<T> {
    fn default() -> Self {
        let reader = CollectorReader::default();
        let (sent, greetings) = (VecDeque::new(), Vec::new());
        let state = State::Hello;
        Sender { reader, state, secret: None, greetings, sent, under_way: false, acknowledged: 0 }
    }
}

impl<T> Sender<T> {
    /// A connection, and the hello to send on it. The nonce must never have been used.
    pub fn new(
        identity: &NodeIdentity,
        secret: Option<Arc<Secret>>,
        nonce: Nonce,
    ) -> (Sender<T>, [u8; GREETING_BYTES]) {
        let guarded = Guarded { has_secret: secret.is_some(), nonce };
        let hello = wire::hello(identity, &guarded);
        (Sender { secret, greetings: hello.to_vec(), ..Sender::default() }, hello)
    }

    /// The start message, to be sent once the store has identified itself.
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

    /// Records that sending of a frame begins.
    pub fn begin(&mut self, item: T) {
        assert!(self.is_open(), "frames are sent when the store has said what it has");
        assert!(!self.under_way, "one frame is sent behind the other");
        self.sent.push_back(item);
        self.under_way = true;
    }

    /// Records that the frame is completely sent: now it may be acknowledged.
    pub fn finish(&mut self) {
        self.under_way = false;
    }

    /// The item sent last, if it is not acknowledged.
    pub fn last(&self) -> Option<&T> {
        self.sent.back()
    }

    /// How many frames wait for their acknowledgement.
    pub fn unacknowledged(&self) -> usize {
        self.sent.len()
    }

    /// Adds bytes received from the store, for [`hear`](Self::hear).
    pub fn push(&mut self, bytes: &[u8]) {
        self.reader.push(bytes);
    }

    /// The event of the next message; `None` while no message is complete. After an error the
    /// connection is unusable.
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

    /// The items that were not acknowledged, in the order of sending, after the connection ended.
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

    /// All events that the bytes cause.
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
