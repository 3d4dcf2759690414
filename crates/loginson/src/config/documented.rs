//! The tables of `docs/configuration.md` and the keys of the file.

use crate::config::RawConfig;

/// A key with its section, in a table of the page, is one of the file.
#[test]
fn the_keys_in_the_tables_are_known_keys() {
    // A file, and a list that is empty by default.
    const NO_KEYS: [&str; 2] = ["watch.json", "encryption.keys"];
    let page = include_str!("../../../../docs/configuration.md");
    let known = toml::Table::try_from(RawConfig::default()).expect("defaults are plain values");
    let is_key = |text: &str| {
        let is_of_key = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        text.contains('.') && text.chars().all(|c| is_of_key(c) || c == '.')
    };
    let mut keys = 0;
    for row in page.lines().filter(|line| line.starts_with('|')) {
        for text in row.split('`').skip(1).step_by(2).filter(|text| is_key(text)) {
            let mut parts = text.split('.');
            let section = parts.next().and_then(|section| known.get(section));
            if !section.is_some_and(toml::Value::is_table) || NO_KEYS.contains(&text) {
                continue;
            }
            let found = parts.try_fold(section.unwrap(), |table, key| table.get(key));
            assert!(found.is_some(), "there is no key {text}: {row}");
            keys += 1;
        }
    }
    assert!(keys > 100, "{keys} keys");
}
