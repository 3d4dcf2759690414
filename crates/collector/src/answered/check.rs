//! Feeds bytes to a protocol in tests, in one piece and in many.

use super::{Input, Output, Protocol, Step, Wrong};

/// What became of a stream of bytes.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Taken {
    /// Lines; a newline within a record is `⏎`.
    pub lines: Vec<String>,
    pub answers: Vec<u8>,
    pub rejected: u64,
    pub wrong: Option<String>,
    pub is_ended: bool,
    /// Bytes that wait for more.
    pub rest: usize,
}

/// Feeds pieces of `piece_bytes`.
pub(crate) fn feed(protocol: &mut dyn Protocol, bytes: &[u8], piece_bytes: usize) -> Taken {
    let (mut input, mut taken) = (Input::default(), Taken::default());
    for piece in bytes.chunks(piece_bytes.max(1)) {
        input.push(piece);
        loop {
            let mut out = Output::default();
            let step = protocol.step(&mut input, &mut out);
            let text = String::from_utf8_lossy(&out.lines);
            taken.lines.extend(text.lines().map(str::to_owned));
            let record =
                out.record.map(|record| String::from_utf8_lossy(&record).replace('\n', "⏎"));
            taken.lines.extend(record);
            taken.answers.extend(out.answers);
            taken.rejected += out.rejected.0;
            match step {
                Ok(Step::More) => {}
                Ok(Step::NeedsBytes) => break,
                Ok(Step::End) => {
                    taken.is_ended = true;
                    return taken;
                }
                Err(Wrong(reason)) => {
                    taken.wrong = Some(reason);
                    return taken;
                }
            }
        }
    }
    taken.rest = input.rest().len();
    taken
}

/// Feeds bytes in pieces of several sizes, which must make no difference.
#[track_caller]
pub(crate) fn take<P: Protocol>(make: impl Fn() -> P, bytes: &[u8]) -> Taken {
    let whole = feed(&mut make(), bytes, usize::MAX);
    for piece_bytes in [1, 2, 3, 7, 64] {
        let pieces = feed(&mut make(), bytes, piece_bytes);
        if whole.wrong.is_some() {
            assert_eq!(pieces.wrong, whole.wrong, "pieces of {piece_bytes}");
            assert_eq!(pieces.lines, whole.lines, "pieces of {piece_bytes}");
        } else {
            assert_eq!(pieces, whole, "pieces of {piece_bytes}");
        }
    }
    whole
}
