//! Puts messages of GELF together that were sent in chunks.
//!
//! ```text
//! 0x1e 0x0f | id of the message, 8 bytes | number of the chunk, from 0 | chunks, 1 to 128 | its part
//! ```
//!
//! Chunks may come in any order and more than once. A message must be whole within [`WAIT_MAX`] of
//! its first chunk; what is not is given up and counted. Messages of different senders are told
//! apart, whatever their ids. Source: the documentation of GELF, "Chunking".
//!
//! Invariant: what waits holds at most [`BYTES_MAX`] bytes in [`MESSAGES_MAX`] messages; to make
//! room, the message that began first is given up.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The longest time from the first chunk of a message to its last one, as GELF has it.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Messages of one socket that wait for their chunks.
///
/// limits.md, Lines on their way in: messages of GELF that wait for their chunks, of each socket |
/// {}, {BYTES_MAX}, {WAIT_MAX} | the first one is given up, and counted as `incomplete`
const MESSAGES_MAX: usize = 256;
/// Their bytes.
const BYTES_MAX: usize = 8 << 20;
/// Chunks of a message, as GELF has it.
const CHUNKS_MAX: usize = 128;
const HEAD_BYTES: usize = 12;

/// What became of a datagram.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It is no chunk.
    NoChunk,
    /// It is kept until the others come.
    Waits,
    /// It was the last one of this message.
    Whole(Vec<u8>),
}

/// Messages that were given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GivenUp {
    pub messages: u64,
    pub bytes: u64,
}

/// The messages of one socket that wait for their chunks.
#[derive(Default)]
pub(super) struct Chunks {
    messages: HashMap<Key, Message, foldhash::fast::RandomState>,
    bytes: usize,
    given_up: GivenUp,
}

type Key = (SocketAddr, [u8; 8]);

struct Message {
    begun: Instant,
    parts: Vec<Option<Box<[u8]>>>,
    missing: usize,
    bytes: usize,
}

impl Chunks {
    /// Takes a datagram, if it is a chunk.
    pub fn take(&mut self, sender: SocketAddr, datagram: &[u8], now: Instant) -> Taken {
        let Some((id, number, count, part)) = chunk(datagram) else { return Taken::NoChunk };
        self.give_up_old(now);
        let key = (sender, id);
        let message = self.messages.entry(key).or_insert_with(|| Message {
            begun: now,
            parts: vec![None; count],
            missing: count,
            bytes: 0,
        });
        if message.parts.len() != count {
            // Another message with the same id.
            self.give_up(key);
            return self.take(sender, datagram, now);
        }
        if message.parts[number].is_some() {
            return Taken::Waits;
        }
        message.parts[number] = Some(part.into());
        message.missing -= 1;
        message.bytes += part.len();
        self.bytes += part.len();
        if message.missing == 0 {
            let message = self.remove(key);
            return Taken::Whole(message.parts.into_iter().flatten().flatten().collect());
        }
        while self.messages.len() > MESSAGES_MAX || self.bytes > BYTES_MAX {
            let first = self.messages.iter().min_by_key(|(_, message)| message.begun);
            let key = *first.expect("there is one too many").0;
            self.give_up(key);
        }
        Taken::Waits
    }

    /// Gives up messages that have waited for too long.
    pub fn give_up_old(&mut self, now: Instant) {
        if self.messages.is_empty() {
            return;
        }
        let is_old = |message: &Message| now.duration_since(message.begun) > WAIT_MAX;
        let old = self.messages.iter().filter(|(_, message)| is_old(message));
        let old: Vec<Key> = old.map(|(key, _)| *key).collect();
        old.into_iter().for_each(|key| self.give_up(key));
    }

    /// Gives up all messages.
    pub fn give_up_all(&mut self) {
        let all: Vec<Key> = self.messages.keys().copied().collect();
        all.into_iter().for_each(|key| self.give_up(key));
    }

    /// What was given up since the last call.
    pub fn take_given_up(&mut self) -> GivenUp {
        std::mem::take(&mut self.given_up)
    }

    fn give_up(&mut self, key: Key) {
        let message = self.remove(key);
        self.given_up.messages += 1;
        self.given_up.bytes += message.bytes as u64;
    }

    fn remove(&mut self, key: Key) -> Message {
        let message = self.messages.remove(&key).expect("it is there");
        self.bytes -= message.bytes;
        message
    }
}

/// Id, number, count and part of a chunk.
fn chunk(datagram: &[u8]) -> Option<([u8; 8], usize, usize, &[u8])> {
    let ([0x1e, 0x0f, id @ .., number, count], part) =
        datagram.split_first_chunk::<HEAD_BYTES>()?
    else {
        return None;
    };
    let (number, count) = (usize::from(*number), usize::from(*count));
    (number < count && count <= CHUNKS_MAX).then_some((*id, number, count, part))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENDER: SocketAddr =
        SocketAddr::V4(std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 1));

    fn datagram(id: u64, number: u8, count: u8, part: &[u8]) -> Vec<u8> {
        [&[0x1e, 0x0f][..], &id.to_be_bytes(), &[number, count], part].concat()
    }

    fn given_up(chunks: &mut Chunks) -> (u64, u64) {
        let GivenUp { messages, bytes } = chunks.take_given_up();
        (messages, bytes)
    }

    #[test]
    fn chunks_in_any_order_become_a_message() {
        let (mut chunks, now) = (Chunks::default(), Instant::now());
        let mut take = |datagram: Vec<u8>| chunks.take(SENDER, &datagram, now);
        assert_eq!(take(datagram(1, 2, 3, b"c")), Taken::Waits);
        assert_eq!(take(datagram(2, 0, 2, b"x")), Taken::Waits);
        assert_eq!(take(datagram(1, 0, 3, b"a")), Taken::Waits);
        assert_eq!(take(datagram(1, 0, 3, b"again")), Taken::Waits);
        assert_eq!(take(datagram(1, 1, 3, b"b")), Taken::Whole(b"abc".to_vec()));
        assert_eq!(take(datagram(2, 1, 2, b"")), Taken::Whole(b"x".to_vec()));
        assert_eq!(take(datagram(3, 0, 1, b"one")), Taken::Whole(b"one".to_vec()));
        assert_eq!((chunks.bytes, chunks.messages.len()), (0, 0));
        assert_eq!(given_up(&mut chunks), (0, 0));
    }

    #[test]
    fn other_datagrams_are_no_chunks() {
        let mut chunks = Chunks::default();
        for other in [
            b"".to_vec(),
            b"<14>app: one".to_vec(),
            b"\x1e\x0f1234567\0\x01".to_vec(),
            datagram(1, 0, 0, b"x"),
            datagram(1, 2, 2, b"x"),
            datagram(1, 0, 129, b"x"),
        ] {
            assert_eq!(chunks.take(SENDER, &other, Instant::now()), Taken::NoChunk);
        }
    }

    #[test]
    fn what_does_not_come_is_given_up_and_counted() {
        let (mut chunks, now) = (Chunks::default(), Instant::now());
        chunks.take(SENDER, &datagram(1, 0, 2, b"abc"), now);
        chunks.give_up_old(now + WAIT_MAX);
        assert_eq!(given_up(&mut chunks), (0, 0));
        let late = now + WAIT_MAX + Duration::from_millis(1);
        assert_eq!(chunks.take(SENDER, &datagram(1, 1, 2, b"d"), late), Taken::Waits);
        assert_eq!(given_up(&mut chunks), (1, 3));
        // The same id with another count is another message.
        assert_eq!(chunks.take(SENDER, &datagram(1, 0, 3, b"e"), late), Taken::Waits);
        assert_eq!(given_up(&mut chunks), (1, 1));
        chunks.give_up_all();
        assert_eq!((given_up(&mut chunks), chunks.bytes), ((1, 1), 0));
    }

    #[test]
    fn what_waits_is_bounded() {
        let (mut chunks, now) = (Chunks::default(), Instant::now());
        for id in 0..=MESSAGES_MAX as u64 {
            chunks.take(SENDER, &datagram(id, 0, 2, b"x"), now + Duration::from_millis(id));
        }
        assert_eq!((given_up(&mut chunks), chunks.messages.len()), ((1, 1), MESSAGES_MAX));
        assert!(!chunks.messages.contains_key(&(SENDER, [0; 8])));
        let large = vec![0; 60_000];
        for number in 0..128 {
            chunks.take(SENDER, &datagram(1_000, number, 128, &large), now + WAIT_MAX);
            chunks.take(SENDER, &datagram(1_001, number, 128, &large), now + WAIT_MAX);
            assert!(chunks.bytes <= BYTES_MAX);
        }
    }
}
