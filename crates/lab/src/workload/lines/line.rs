//! A log line as a pure function of its number, from 1.
//!
//! Lines come in runs of one program, as consecutive lines of its sample, in which long numbers
//! (identifiers, sizes, ports) are drawn again, so that a store finds as much to compress as in a
//! real log. Time goes on by 10 ms a line on average: a hundred lines a second.

use super::samples::{self, Sample};
use crate::row::{Column, ColumnKind, Row, Schema, Value};
use crate::workload::letters::mix;

/// Columns of [`schema`].
pub const TIME: usize = 0;
/// See [`TIME`].
pub const HOST: usize = 1;
/// See [`TIME`].
pub const PROGRAM: usize = 2;
/// See [`TIME`].
pub const SEVERITY: usize = 3;
/// See [`TIME`].
pub const MESSAGE: usize = 4;

/// The time of line 0, ms since 1970: 22 July 2023.
pub const TIME_FROM_MS: i64 = 1_690_000_000_000;

/// Time between two lines, ms, on average. Times rise from line to line, so no two are the same.
pub const STEP_MS: i64 = 10;

/// Hosts, of uneven weight.
const HOSTS: u64 = 40;

/// Lines of a program in a row.
const RUN: u64 = 32;

/// Digits in a row that are drawn again; shorter numbers are codes and versions.
const DIGITS_MIN: usize = 4;

/// One in so many lines has an identifier of its own at its end.
const IDENTIFIED: u64 = 8;

/// Digits of such an identifier.
const IDENTIFIER_DIGITS: usize = 15;

/// The table of log lines. The key is the number of the line.
pub fn schema(table: &str) -> Schema {
    let column = |name: &str, kind| Column::new(name, kind, true);
    Schema {
        table: table.to_owned(),
        key: ColumnKind::Integer,
        columns: vec![
            Column { time: true, ..column("time", ColumnKind::Integer) },
            column("host", ColumnKind::Text),
            column("program", ColumnKind::Text),
            column("severity", ColumnKind::Integer),
            Column { words: true, indexed: false, ..column("message", ColumnKind::Text) },
        ],
    }
}

/// The time of a line, ms since 1970.
pub fn time_ms(number: u64) -> i64 {
    let jitter = (mix(number ^ 0x7469_6d65) % STEP_MS as u64) as i64;
    TIME_FROM_MS + number as i64 * STEP_MS + jitter
}

/// The name of a host, from 0.
pub fn host(number: u64) -> String {
    let kind = ["web", "app", "db", "mail"][(number % 4) as usize];
    format!("{kind}{number:02}")
}

/// The number of the host of a line: the square of a random number prefers small ones.
fn host_of(number: u64) -> u64 {
    let random = mix(number ^ 0x686f_7374) % 1_000;
    random * random * HOSTS / 1_000_000
}

/// The line's identifier, if it has one.
pub fn identifier(number: u64) -> Option<String> {
    mix(number ^ 0x6964).is_multiple_of(IDENTIFIED).then(|| {
        // All digits: no word can be in it. The number of the line makes it unique.
        let random = mix(number ^ 0x6964_656e) % 1_000_000;
        format!("q{random:06}{number:0width$}", width = IDENTIFIER_DIGITS - 6)
    })
}

/// The program and the message of a line.
fn message(number: u64) -> (&'static str, String) {
    let samples = samples::all();
    let run = number / RUN;
    let sample = program(samples, mix(run ^ 0x7072_6f67));
    let first = mix(run ^ 0x6669_7273);
    let at = first.wrapping_add(number % RUN) % sample.messages.len() as u64;
    let mut text = redrawn(&sample.messages[at as usize], number);
    if let Some(identifier) = identifier(number) {
        text.push_str(" id ");
        text.push_str(&identifier);
    }
    (sample.program, text)
}

fn program(samples: &[Sample], random: u64) -> &Sample {
    let all: u64 = samples.iter().map(|sample| sample.weight).sum();
    let mut at = random % all;
    let chosen = samples.iter().find(|sample| match at.checked_sub(sample.weight) {
        Some(rest) => {
            at = rest;
            false
        }
        None => true,
    });
    chosen.expect("the rest is below the sum of all weights")
}

/// The text with other digits in its long numbers.
fn redrawn(text: &str, number: u64) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut random = mix(number ^ 0x6469_6769);
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits >= DIGITS_MIN {
            // The first digit stays, so that a number keeps its length and its magnitude.
            for digit in &mut bytes[at + 1..at + digits] {
                *digit = b'0' + (random % 10) as u8;
                random = (random / 10) ^ mix(random);
            }
        }
        at += digits.max(1);
    }
    String::from_utf8(bytes).expect("digits of an ASCII text are ASCII")
}

/// Syslog's severity, by what the message says.
fn severity(message: &str, number: u64) -> i64 {
    let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
    match () {
        () if has(&["FATAL", "fatal", "panic"]) => 2,
        () if has(&["ERROR", "error", "Error", "fail", "Fail", "FAILURE"]) => 3,
        () if has(&["WARN", "warn", "Invalid", "invalid", "denied"]) => 4,
        () if has(&["notice", "session"]) => 5,
        () if mix(number ^ 0x7365_7665).is_multiple_of(20) => 7,
        () => 6,
    }
}

/// The line of a number, from 1.
pub fn line(number: u64) -> Row {
    let (program, message) = message(number);
    Row {
        key: Value::Integer(number as i64),
        values: vec![
            Value::Integer(time_ms(number)),
            Value::Text(host(host_of(number))),
            Value::Text(program.to_owned()),
            Value::Integer(severity(&message, number)),
            Value::Text(message),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::lines::vocabulary::Vocabulary;

    #[test]
    fn lines_have_the_columns_of_their_table_and_rising_times() {
        let schema = schema("lines");
        let mut last = 0;
        for number in 1..5_000 {
            let row = line(number);
            assert_eq!(row, line(number));
            assert!(row.values.iter().zip(&schema.columns).all(|(v, c)| v.kind() == c.kind));
            let Value::Integer(time) = row.values[TIME] else { panic!() };
            assert!(time > last, "line {number}");
            last = time;
        }
    }

    #[test]
    fn an_identifier_is_in_one_line() {
        let of: Vec<String> = (1..50_000).filter_map(identifier).collect();
        assert!(of.len() > 5_000, "{}", of.len());
        let distinct: std::collections::HashSet<&String> = of.iter().collect();
        assert_eq!(distinct.len(), of.len());
        assert!(of.iter().all(|id| id.len() == IDENTIFIER_DIGITS + 1));
    }

    #[test]
    fn lines_are_as_various_as_the_samples() {
        let lines: Vec<Row> = (1..20_000).map(line).collect();
        let distinct = |column: usize| {
            let values = lines.iter().map(|row| row.values[column].to_string());
            values.collect::<std::collections::BTreeSet<_>>().len()
        };
        assert_eq!(distinct(PROGRAM), samples::all().len());
        assert_eq!(distinct(HOST), HOSTS as usize);
        assert!(distinct(SEVERITY) >= 5);
        assert!(distinct(MESSAGE) > 10_000, "{}", distinct(MESSAGE));
        let mean = lines.iter().map(Row::text_bytes).sum::<u64>() / lines.len() as u64;
        assert!((100..300).contains(&mean), "{mean} bytes a line");
    }

    #[test]
    fn drawn_digits_make_no_words() {
        let vocabulary = Vocabulary::get();
        for number in (1..20_000).step_by(13) {
            let row = line(number);
            let message = row.values[MESSAGE].to_string();
            for word in vocabulary.words.iter().step_by(29) {
                let is_word = message.split(' ').any(|token| token == *word);
                assert_eq!(is_word, message.contains(word), "{word}: {message}");
            }
        }
    }
}
