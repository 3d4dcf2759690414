//! Any text is either a query, which written back is read as the same, or an error that points into
//! it.
//!
//! A text is also tried as the repeated part of a deep or long one: the first byte says how often,
//! and where it is cut into what is repeated before and behind the rest. So chains of any kind are
//! found without being written out.

#![no_main]

use libfuzzer_sys::fuzz_target;
use query::Query;

fuzz_target!(|text: &str| {
    try_text(text);
    try_text(&repeated(text));
});

fn try_text(text: &str) {
    match Query::parse(text, 0) {
        Ok(query) => {
            let written = query.to_string();
            // What is written may be longer than a query may be.
            if written.len() <= query::QUERY_BYTES_MAX {
                assert_eq!(Query::parse(&written, 0), Ok(query), "{written}");
            }
        }
        Err(error) => {
            assert!(text.is_char_boundary(error.position));
            assert!(error.to_string().contains('^'));
        }
    }
}

/// `BEFORE^nINNER$BEHIND^n` of a text `nBEFORE$INNER$BEHIND`, where `$` stands for a section sign.
fn repeated(text: &str) -> String {
    let mut chars = text.chars();
    let times = chars.next().map_or(0, |c| c as usize % 128) * 50;
    let mut parts = chars.as_str().splitn(3, '\u{a7}');
    let (before, inner) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let behind = parts.next().unwrap_or_default();
    let times = times.min((300 << 10) / (before.len() + behind.len() + 1));
    format!("{}{inner}{}", before.repeat(times), behind.repeat(times))
}
