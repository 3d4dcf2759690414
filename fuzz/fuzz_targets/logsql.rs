//! Any text is either a query, which written back is read as the same, or an error that points into it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use query::Query;

fuzz_target!(|text: &str| {
    match Query::parse(text, 0) {
        Ok(query) => {
            let written = query.to_string();
            assert_eq!(Query::parse(&written, 0), Ok(query), "{written}");
        }
        Err(error) => {
            assert!(text.is_char_boundary(error.position));
            assert!(error.to_string().contains('^'));
        }
    }
});
