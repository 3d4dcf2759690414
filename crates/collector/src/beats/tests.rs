//! Frames of both versions, random windows beside a plain list of events, damage and limits.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::answered::PIECE_BYTES;
use crate::answered::check::{Taken, feed, take};

fn window(version: u8, count: u32) -> Vec<u8> {
    [&[version, b'W'][..], &count.to_be_bytes()].concat()
}

fn event(number: u32, json: &str) -> Vec<u8> {
    let length = json.len() as u32;
    [b"2J", &number.to_be_bytes()[..], &length.to_be_bytes(), json.as_bytes()].concat()
}

fn pairs(number: u32, pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut frame = b"1D".to_vec();
    frame.extend(number.to_be_bytes());
    frame.extend((pairs.len() as u32).to_be_bytes());
    for text in pairs.iter().flat_map(|(key, value)| [key, value]) {
        frame.extend((text.len() as u32).to_be_bytes());
        frame.extend(text.as_bytes());
    }
    frame
}

fn compressed(version: u8, frames: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(frames).unwrap();
    let content = encoder.finish().unwrap();
    [&[version, b'C'][..], &(content.len() as u32).to_be_bytes(), &content].concat()
}

#[track_caller]
fn check(bytes: &[u8], lines: &[&str], answers: &[u8]) {
    let taken = take(Lumberjack::default, bytes);
    let expected = Taken {
        lines: lines.iter().map(|line| (*line).to_owned()).collect(),
        answers: answers.to_vec(),
        ..Taken::default()
    };
    assert_eq!(taken, expected);
}

#[test]
fn windows_are_answered_at_their_end() {
    let events = [event(1, "{\"a\":1}"), event(2, "{\"b\":\n2}\n")].concat();
    let two = [r#"{"a":1}"#, r#"{"b": 2}"#];
    check(&[window(b'2', 2), events.clone()].concat(), &two, b"2A\0\0\0\x02");
    check(&[window(b'2', 2), compressed(b'2', &events)].concat(), &two, b"2A\0\0\0\x02");
    check(&[window(b'2', 3), events.clone()].concat(), &two, b"");
    // Two windows, the second with its frames apart.
    let second = [window(b'2', 2), compressed(b'2', &event(1, "{}")), event(2, "")].concat();
    let bytes = [window(b'2', 2), events, second].concat();
    check(&bytes, &[two[0], two[1], "{}"], b"2A\0\0\0\x022A\0\0\0\x02");
    check(&window(b'2', 0), &[], b"");
}

#[test]
fn version_1_has_keys_and_values() {
    let event = pairs(9, &[("line", "a \"b\""), ("host", "web1")]);
    let line = r#"{"message":"a \"b\"","host":"web1"}"#;
    check(&[window(b'1', 1), event.clone()].concat(), &[line], b"1A\0\0\0\x09");
    check(&[window(b'1', 1), compressed(b'1', &event)].concat(), &[line], b"1A\0\0\0\x09");
    check(&[window(b'1', 1), pairs(1, &[])].concat(), &[], b"1A\0\0\0\x01");
}

#[test]
fn senders_of_version_2_are_told_to_wait() {
    let mut lumberjack = Lumberjack::default();
    assert_eq!(lumberjack.still_waiting(), None);
    feed(&mut lumberjack, &window(b'2', 1), usize::MAX);
    assert_eq!(lumberjack.still_waiting().unwrap(), b"2A\0\0\0\0");
    feed(&mut lumberjack, &window(b'1', 1), usize::MAX);
    assert_eq!(lumberjack.still_waiting(), None);
}

#[test]
fn long_windows_are_answered_in_pieces() {
    let json = format!("{{\"text\":\"{}\"}}", "x".repeat(1000));
    let count = (3 * PIECE_BYTES / json.len()) as u32;
    let events: Vec<u8> = (1..=count).flat_map(|number| event(number, &json)).collect();
    for frames in [events.clone(), compressed(b'2', &events)] {
        let mut input = Input::default();
        input.push(&[window(b'2', count), frames].concat());
        let (mut lumberjack, mut lines, mut answers) = (Lumberjack::default(), 0, 0);
        let mut out = Output::default();
        while lumberjack.step(&mut input, &mut out).unwrap() != Step::NeedsBytes {
            assert!(out.lines.len() < PIECE_BYTES + 2 * json.len());
            if !out.answers.is_empty() {
                lines += out.lines.iter().filter(|byte| **byte == b'\n').count() as u32;
                assert_eq!(out.answers, answer(b'2', lines));
                answers += 1;
                out = Output::default();
            }
        }
        assert_eq!((lines, answers, out.lines.len()), (count, 3, 0));
    }
}

#[test]
fn what_is_wrong_says_so() {
    let check = |bytes: &[u8], expected: &str| {
        let wrong = take(Lumberjack::default, bytes).wrong;
        assert!(wrong.as_ref().is_some_and(|wrong| wrong.contains(expected)), "{wrong:?}");
    };
    check(b"GET / HTTP/1.1\r\n", "no frame of Lumberjack");
    check(b"3W\0\0\0\x01", "no frame of Lumberjack");
    check(b"2A\0\0\0\x01", "no frame of Lumberjack");
    check(&event(1, "{}"), "outside of a window");
    check(b"2C\xff\xff\xff\xff", "set bulk_max_size");
    check(b"2J\0\0\0\x01\xff\xff\xff\xff", "set bulk_max_size");
    check(b"1D\0\0\0\x01\xff\xff\xff\xff", "fields; the limit is");
    check(b"1D\0\0\0\x01\0\0\0\x01\xff\xff\xff\xff", "more than");
    check(b"2C\0\0\0\x04abcd", "cannot be decompressed");
    let inner = compressed(b'2', &event(1, "{}"));
    check(&[window(b'2', 1), compressed(b'2', &inner)].concat(), "compressed again");
    let half = &event(1, "{}")[..11];
    check(&[window(b'2', 1), compressed(b'2', half)].concat(), "ends within an event");
}

proptest! {
    #[test]
    fn events_are_what_was_sent(
        windows in prop::collection::vec(
            (prop::collection::vec(".{0,20}", 1..9), any::<bool>(), any::<bool>()), 0..5,
        ),
    ) {
        let (mut bytes, mut lines, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        for (texts, is_packed, is_old) in windows {
            let version = if is_old { b'1' } else { b'2' };
            let mut frames = Vec::new();
            for (number, text) in (1..).zip(&texts) {
                let json: Value = json!({ "message": text });
                frames.extend(match is_old {
                    true => pairs(number, &[("line", text)]),
                    false => event(number, &json.to_string()),
                });
                lines.push(json);
            }
            bytes.extend(window(version, texts.len() as u32));
            bytes.extend(if is_packed { compressed(version, &frames) } else { frames });
            answers.extend(answer(version, texts.len() as u32));
        }
        let taken = take(Lumberjack::default, &bytes);
        let found: Vec<Value> =
            taken.lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        prop_assert_eq!((found, taken.answers, taken.wrong), (lines, answers, None));
    }

    #[test]
    fn damage_ends_in_an_error_or_waits(at: prop::sample::Index, byte: u8, is_packed: bool) {
        let events = [event(1, "{\"a\":1}"), pairs(2, &[("line", "a")])].concat();
        let frames = if is_packed { compressed(b'2', &events) } else { events };
        let mut bytes = [window(b'2', 2), frames].concat();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        take(Lumberjack::default, &bytes);
    }
}
