//! A request of OTLP, as protobuf or JSON: whole lines that are objects, the same in pieces of any
//! size, or an error; and each record is a line or rejected.
#![no_main]

use collector::body::otlp::{Export, Format};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [how, content @ ..] = input else { return };
    let format = if how % 2 == 0 { Format::Protobuf } else { Format::Json };
    let Ok(mut export) = Export::read(format, content) else { return };
    let mut whole = Vec::new();
    assert!(!export.write(&mut whole, usize::MAX));
    let text = std::str::from_utf8(&whole).expect("lines are UTF-8");
    assert!(text.is_empty() || text.ends_with('\n'));
    for line in text.lines() {
        assert!(line.starts_with('{') && line.ends_with('}'), "{line}");
        assert!(!line.bytes().any(|byte| byte < 0x20), "{line}");
    }
    let mut in_pieces = Vec::new();
    let mut pieces = Export::read(format, content).expect("it was read");
    loop {
        let mut piece = Vec::new();
        let has_more = pieces.write(&mut piece, 1 + usize::from(*how));
        in_pieces.extend(piece);
        if !has_more {
            break;
        }
    }
    assert_eq!(in_pieces, whole);
    assert_eq!(pieces.rejected(), export.rejected());
});
