//! A connection of Fluent forward, Beats or RELP: the lines and answers are the same in pieces of
//! any size, lines of Fluent are objects, and lines have no newlines within.
#![no_main]

use collector::answered::{Input, Output, Protocol, Step};
use collector::beats::Lumberjack;
use collector::fluent::Forward;
use collector::relp::Relp;
use libfuzzer_sys::fuzz_target;

fn protocol(which: u8) -> Box<dyn Protocol> {
    match which % 3 {
        0 => Box::new(Forward::new(None)),
        1 => Box::new(Lumberjack::default()),
        _ => Box::new(Relp::default()),
    }
}

/// Lines, records, answers, and whether it was wrong.
fn feed(which: u8, content: &[u8], piece_bytes: usize) -> (Vec<u8>, Vec<Vec<u8>>, Vec<u8>, bool) {
    let (mut protocol, mut input) = (protocol(which), Input::default());
    let (mut lines, mut records, mut answers) = (Vec::new(), Vec::new(), Vec::new());
    for piece in content.chunks(piece_bytes) {
        input.push(piece);
        loop {
            let mut out = Output::default();
            let step = protocol.step(&mut input, &mut out);
            lines.extend(out.lines);
            records.extend(out.record);
            answers.extend(out.answers);
            match step {
                Ok(Step::More) => {}
                Ok(Step::NeedsBytes) => break,
                Ok(Step::End) => return (lines, records, answers, false),
                Err(_) => return (lines, records, answers, true),
            }
        }
    }
    (lines, records, answers, false)
}

/// Input as it is, or with a byte of it repeated up to 2¹⁷ times, so that values nest deeply.
fn lengthened(is_long: bool, content: &[u8]) -> Vec<u8> {
    match content {
        [at, times, rest @ ..] if is_long && usize::from(*at) < rest.len() => {
            let (before, behind) = rest.split_at(usize::from(*at));
            [before, &vec![behind[0]; 1 << (times % 18)][..], behind].concat()
        }
        _ => content.to_vec(),
    }
}

fuzz_target!(|input: &[u8]| {
    let [which, size, content @ ..] = input else { return };
    let content = &lengthened(*which >= 128, content)[..];
    let whole = feed(*which, content, usize::MAX);
    let pieces = feed(*which, content, 1 + usize::from(*size));
    // A wrong head is seen sooner in pieces, but never something else before it.
    assert_eq!(pieces.0, whole.0);
    assert_eq!(pieces.1, whole.1);
    assert_eq!(pieces.2, whole.2);
    assert_eq!(pieces.3, whole.3);
    assert!(whole.0.is_empty() || whole.0.ends_with(b"\n"));
    if which % 3 == 0 {
        let text = std::str::from_utf8(&whole.0).expect("lines are UTF-8");
        assert!(text.lines().all(|line| line.starts_with('{') && line.ends_with('}')));
    }
});
