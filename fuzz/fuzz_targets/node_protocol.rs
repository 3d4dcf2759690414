//! Bytes from the network, taken for a collector's and for a store's side of the node protocol: an
//! error, or messages that do not depend on how the bytes were cut. Once as they are, and once as
//! frames behind a good greeting, their checksums right, since random bytes never have those.
#![no_main]

use std::sync::Arc;

use collector::node::Secret;
use collector::node::secret::NONCE_BYTES;
use collector::node::sender::Sender;
use collector::node::session::{Brought, Ledger, Session};
use libfuzzer_sys::fuzz_target;
use record::NodeIdentity;
use record::frame::{FRAME_MAGIC, FRAME_VERSION, FrameHeader, HEADER_BYTES};

/// Where the node stands in the header of a frame (`docs/format/frame.md`).
const NODE: std::ops::Range<usize> = 8..12;

fuzz_target!(|bytes: &[u8]| {
    let Some((&step, bytes)) = bytes.split_first() else { return };
    let step = usize::from(step) + 1;
    assert_eq!(serve(bytes, step), serve(bytes, usize::MAX));
    let greeted = greeted(bytes);
    assert_eq!(serve(&greeted, step), serve(&greeted, usize::MAX));
    // Nothing is admitted by bytes that do not know the secret.
    let secret = || Some(Arc::new(Secret::new(b"a secret that no input has").expect("it is long")));
    assert!(!serve_by(Session::new(secret()), bytes, step).iter().any(|seen| seen == OPEN));
    assert!(!serve_by(Session::new(secret()), &greeted, step).iter().any(|seen| seen == OPEN));
    for secret in [None, secret()] {
        let is_guarded = secret.is_some();
        let (mut sender, _) = Sender::<()>::new(&IDENTITY, secret, [1; NONCE_BYTES]);
        'parts: for part in bytes.chunks(step) {
            sender.push(part);
            loop {
                match sender.hear() {
                    Ok(Some(_)) => _ = sender.start(1),
                    Ok(None) => break,
                    Err(_) => break 'parts,
                }
            }
        }
        assert!(!(is_guarded && sender.is_open()));
    }
});

const IDENTITY: NodeIdentity = NodeIdentity { node: 7, key: 1, starts: 1, run: 1 };
const OPEN: &str = "admitted";

/// What a store makes of a stream that comes in parts, up to the first error.
fn serve(bytes: &[u8], step: usize) -> Vec<String> {
    serve_by(Session::default(), bytes, step)
}

fn serve_by(mut session: Session, mut bytes: &[u8], step: usize) -> Vec<String> {
    let mut ledger = Ledger::default();
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
                    Brought::Start { first, .. } => {
                        seen.push(OPEN.to_owned());
                        drop(session.admitted(first, &ledger));
                    }
                    Brought::Frame(frame) => {
                        let header = frame.header();
                        ledger.take(header.node, header.sequence);
                        assert_eq!(Some(header.node), session.node());
                    }
                    Brought::Hello => drop(session.welcome(1, [2; NONCE_BYTES])),
                    Brought::Keepalive => {}
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
    let (mut sender, hello) = Sender::<()>::new(&IDENTITY, None, [1; NONCE_BYTES]);
    let mut stream = [&hello[..], &sender.start(1)].concat();
    let mut rest = bytes.to_vec();
    while let Some(frame_bytes) = sign(&mut rest, IDENTITY.node) {
        stream.extend(rest.drain(..frame_bytes));
    }
    stream.extend(rest);
    stream
}

/// Makes a frame of the first bytes, and says how many they are. None if they are too few, or no
/// frame with any checksums.
fn sign(bytes: &mut [u8], node: u32) -> Option<usize> {
    let sign_header = |bytes: &mut [u8]| {
        let crc = crc32c::crc32c(&bytes[..HEADER_BYTES - 4]);
        bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    };
    bytes.get(..HEADER_BYTES)?;
    bytes[..4].copy_from_slice(&FRAME_MAGIC);
    // Neither flags nor a number on another node.
    bytes[4..8].copy_from_slice(&[FRAME_VERSION, 0, 0, 0]);
    bytes[NODE].copy_from_slice(&node.to_le_bytes());
    sign_header(bytes);
    let needed = FrameHeader::decode(bytes).ok()?.frame_bytes();
    let crc = crc32c::crc32c(bytes.get(HEADER_BYTES..needed)?);
    bytes[HEADER_BYTES - 8..HEADER_BYTES - 4].copy_from_slice(&crc.to_le_bytes());
    sign_header(bytes);
    Some(needed)
}
