//! Any text is either a query of LogQL, which written back is read as the same, or an error that points into it.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match logql::parse(text) {
        Ok(query) => {
            let written = query.to_string();
            assert_eq!(logql::parse(&written), Ok(query), "{written}");
        }
        Err(error) => assert!(text.is_char_boundary(error.position)),
    }
});
