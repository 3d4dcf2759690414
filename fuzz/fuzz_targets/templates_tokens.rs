//! Columns of text as templates, and filters of their words: what was encoded comes back and is
//! found; bytes that were not encoded by us are an error, or values within the bounds that were
//! given.
#![no_main]

use libfuzzer_sys::fuzz_target;
use segment::template::{TemplateColumn, Values, decode, encode};
use segment::tokens::{TokenFilter, TokenSet, required_tokens};

fuzz_target!(|bytes: &[u8]| {
    there_and_back(bytes);
    read(bytes);
});

/// The bytes as values, one a line.
fn there_and_back(bytes: &[u8]) {
    let values: Vec<&[u8]> = bytes.split(|&b| b == b'\n').collect();
    let text = values.concat();
    let mut end = 0;
    let ends: Vec<u32> = values
        .iter()
        .map(|value| {
            end += value.len() as u32;
            end
        })
        .collect();
    let encoded = encode(Values::new(&text, &ends));
    let [tables, numbers, texts] = &encoded.sections;
    let sections = [&tables[..], &numbers[..], &texts[..]];
    let decoded = decode(sections, values.len(), text.len()).expect("it was encoded");
    assert!(decoded.values().iter().eq(values.iter().copied()));
    // The first value's middle as a needle.
    let needle = &values[0][values[0].len() / 3..values[0].len() * 2 / 3];
    if !needle.is_empty() {
        let column = TemplateColumn::open(sections, values.len(), text.len()).expect("as before");
        let found = column.matching_rows(needle, None).expect("as before");
        let holds = |value: &&[u8]| value.windows(needle.len()).any(|part| part == needle);
        let expected: Vec<u32> =
            (0..).zip(&values).filter_map(|(row, value)| holds(value).then_some(row)).collect();
        assert_eq!(found, expected);
    }
    let mut set = TokenSet::default();
    values.iter().for_each(|value| set.add(value));
    let filter = set.build();
    let filter = TokenFilter::open(&filter).expect("it was built");
    for value in &values {
        assert!(filter.may_contain_all(&required_tokens(value, true, true)), "a word is hidden");
    }
}

/// The bytes as what is in a file.
fn read(bytes: &[u8]) {
    if let Ok(filter) = TokenFilter::open(bytes) {
        filter.may_contain_all(&required_tokens(b"some words", true, true));
    }
    let [rows, text_bytes, first, second, sections @ ..] = bytes else { return };
    let (tables, rest) = sections.split_at(usize::from(*first).min(sections.len()));
    let (numbers, texts) = rest.split_at(usize::from(*second).min(rest.len()));
    let (rows, text_bytes) = (usize::from(*rows), usize::from(*text_bytes) * 16);
    let sections = [tables, numbers, texts];
    if let Ok(texts) = decode(sections, rows, text_bytes) {
        assert_eq!(texts.len(), rows);
        assert_eq!(texts.values().text().len(), text_bytes);
    }
    if let Ok(column) = TemplateColumn::open(sections, rows, text_bytes) {
        let _ = column.matching_rows(b"a", None);
        let _ = column.decode_rows(&[]);
        let _ = column.outline(&|bytes| bytes.len());
    }
}
