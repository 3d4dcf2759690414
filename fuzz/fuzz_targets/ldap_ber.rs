//! Bytes as an answer of a directory: elements, however deeply nested, that are read again as they
//! are written.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The reader needs nothing else of its crate, which takes long to build.
#[allow(dead_code)]
#[path = "../../crates/api/src/access/ldap/ber.rs"]
mod ber;

use ber::{ENUMERATED, INTEGER, Reader};

fuzz_target!(|input: &[u8]| {
    let mut open = vec![input];
    while let Some(bytes) = open.pop() {
        for (tag, content) in Reader(bytes) {
            assert!(content.len() + 2 <= bytes.len());
            let written = ber::element(tag, content);
            assert_eq!(Reader(&written).next(), Some((tag, content)));
            open.push(content);
        }
        for tag in [INTEGER, ENUMERATED] {
            if let Some(number) = Reader(bytes).number(tag) {
                let written = ber::number(tag, number);
                assert_eq!(Reader(&written).number(tag), Some(number));
            }
        }
        let _ = Reader(bytes).text();
    }
});
