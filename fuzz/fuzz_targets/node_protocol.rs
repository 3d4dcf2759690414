//! Bytes from the network, taken for a collector's and for a store's side of the node protocol: an error, or messages that
//! do not depend on how the bytes were cut. Once as they are, and once as frames behind a good greeting, their checksums right,
//! since random bytes never have those.
#![no_main]

use collector::node::sender::Sender;
use collector::node::session::{Brought, Ledger, Session};
use collector::node::{NodeIdentity, wire};
use libfuzzer_sys::fuzz_target;
use record::frame::{FRAME_MAGIC, FRAME_VERSION, FrameHeader, HEADER_BYTES};

/// Where flags and node stand in the header of a frame (`docs/format/frame.md`).
const FLAGS: std::ops::Range<usize> = 6..8;
const NODE: std::ops::Range<usize> = 8..12;

fuzz_target!(|bytes: &[u8]| {
    let Some((&step, bytes)) = bytes.split_first() else { return };
    let step = usize::from(step) + 1;
    assert_eq!(serve(bytes, step), serve(bytes, usize::MAX));
    let greeted = greeted(bytes);
    assert_eq!(serve(&greeted, step), serve(&greeted, usize::MAX));
    let mut sender = Sender::<()>::default();
    for part in bytes.chunks(step) {
        if sender.receive(part).is_err() {
            return;
        }
    }
});

/// What a store makes of a stream that comes in parts, up to the first error.
fn serve(mut bytes: &[u8], step: usize) -> Vec<String> {
    let (mut session, mut ledger) = (Session::default(), Ledger::default());
    let mut seen = Vec::new();
    while !bytes.is_empty() {
        let part = session.reader.wanted().min(step).min(bytes.len());
        session.reader.buffer().extend_from_slice(&bytes[..part]);
        bytes = &bytes[part..];
        match session.take() {
            Ok(None) => {}
            Ok(Some(brought)) => {
                seen.push(format!("{brought:?}"));
                match brought {
                    Brought::Start { first, .. } => drop(session.admitted(first, &ledger)),
                    Brought::Frame(frame) => {
                        let header = frame.header();
                        ledger.take(header.node, header.sequence);
                        assert_eq!(Some(header.node), session.node());
                    }
                    Brought::Hello | Brought::Keepalive => {}
                }
            }
            Err(error) => {
                // Other protocols are recognised by what has come so far.
                seen.push("an error".to_owned());
                drop(error);
                break;
            }
        }
    }
    seen
}

/// A greeting, and the bytes as frames with magic, version, node and checksums as they should be.
fn greeted(bytes: &[u8]) -> Vec<u8> {
    let identity = NodeIdentity { node: 7, key: 1, starts: 1, run: 1 };
    let mut stream = [&wire::hello(&identity)[..], &wire::start(1)].concat();
    let mut rest = bytes.to_vec();
    while let Some(frame_bytes) = sign(&mut rest, identity.node) {
        stream.extend(rest.drain(..frame_bytes));
    }
    stream.extend(rest);
    stream
}

/// Makes a frame of the first bytes, and says how many they are. None if they are too few, or no frame with any checksums.
fn sign(bytes: &mut [u8], node: u32) -> Option<usize> {
    let sign_header = |bytes: &mut [u8]| {
        let crc = crc32c::crc32c(&bytes[..HEADER_BYTES - 4]);
        bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    };
    bytes.get(..HEADER_BYTES)?;
    bytes[..4].copy_from_slice(&FRAME_MAGIC);
    bytes[4..6].copy_from_slice(&FRAME_VERSION.to_le_bytes());
    bytes[FLAGS].fill(0);
    bytes[NODE].copy_from_slice(&node.to_le_bytes());
    sign_header(bytes);
    let needed = FrameHeader::decode(bytes).ok()?.frame_bytes();
    let crc = crc32c::crc32c(bytes.get(HEADER_BYTES..needed)?);
    bytes[HEADER_BYTES - 8..HEADER_BYTES - 4].copy_from_slice(&crc.to_le_bytes());
    sign_header(bytes);
    Some(needed)
}
