//! Bytes from the network, taken for a collector's and for a store's side of the node protocol: an error, or messages that
//! do not depend on how the bytes were cut.
#![no_main]

use collector::node::sender::Sender;
use collector::node::session::{Brought, Ledger, Session};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&step, bytes)) = bytes.split_first() else { return };
    let (cut, whole) = (serve(bytes, usize::from(step) + 1), serve(bytes, usize::MAX));
    assert_eq!(cut, whole);
    let mut sender = Sender::<()>::default();
    for part in bytes.chunks(usize::from(step) + 1) {
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
