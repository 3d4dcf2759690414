//! Which lines of a body are records.

/// What the lines of a body contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Each line is a record, blank lines too.
    Lines,
    /// One JSON object per line; blank lines are ignored. Several objects in one line, as Fluent
    /// Bit's `json_stream` writes them, become a line each.
    JsonLines,
    /// Elasticsearch's `_bulk`: an action line, then the document. [`Bulk`](super::Bulk) takes them
    /// apart.
    Bulk,
}

/// The records among whole lines of JSON: either `block` itself or a copy in `scratch`.
pub fn json_records<'a>(block: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
    if !may_have_blank_line(block) && !may_join(block) {
        return block;
    }
    scratch.clear();
    for line in lines(block).filter(|line| !is_blank(line)) {
        let mut rest = line;
        if may_join(line) && is_objects(line) {
            let followed = |rest: &[u8]| object_end(rest).filter(|end| !is_blank(&rest[*end..]));
            while let Some(end) = followed(rest) {
                scratch.extend_from_slice(rest[..end].trim_ascii_start());
                scratch.push(b'\n');
                rest = rest[end..].trim_ascii_start();
            }
        }
        scratch.extend_from_slice(rest);
    }
    scratch
}

fn lines(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    block.split_inclusive(|&b| b == b'\n')
}

fn is_blank(line: &[u8]) -> bool {
    // Not by trimming, which would look through the blanks at the end for each object before them.
    line.iter().all(u8::is_ascii_whitespace)
}

/// Whether a blank line is possible: every blank line begins with white space.
fn may_have_blank_line(block: &[u8]) -> bool {
    let blank_at = |at: usize| block.get(at).is_some_and(|&byte| byte <= b' ');
    blank_at(0) || memchr::memchr_iter(b'\n', block).any(|newline| blank_at(newline + 1))
}

/// Quick check whether several objects may share a line.
fn may_join(block: &[u8]) -> bool {
    let finds = |what: &[u8]| memchr::memmem::find(block, what).is_some();
    finds(b"}{") || finds(b"} {")
}

/// Whether a line consists of objects only. Other lines stay whole.
fn is_objects(mut line: &[u8]) -> bool {
    while !is_blank(line) {
        match object_end(line) {
            Some(end) => line = &line[end..],
            None => return false,
        }
    }
    true
}

/// Where the object at the start of the line ends.
fn object_end(line: &[u8]) -> Option<usize> {
    let begin = line.iter().position(|byte| !byte.is_ascii_whitespace())?;
    if line[begin] != b'{' {
        return None;
    }
    let (mut depth, mut in_string, mut escaped) = (0u32, false, false);
    for (at, &byte) in line.iter().enumerate().skip(begin) {
        if in_string {
            in_string = byte != b'"' || escaped;
            escaped = byte == b'\\' && !escaped;
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use proptest::prelude::*;

    fn records(block: &str) -> String {
        let mut scratch = b"left over".to_vec();
        let records = json_records(block.as_bytes(), &mut scratch);
        String::from_utf8(records.to_vec()).unwrap()
    }

    #[test]
    fn blank_lines_are_ignored() {
        for (block, expected) in [
            ("{}\n{}\n", "{}\n{}\n"),
            ("\n{}\n", "{}\n"),
            ("{}\n\n{}", "{}\n{}"),
            ("{}\r\n\r\n {}\n", "{}\r\n {}\n"),
            ("\n", ""),
            ("", ""),
        ] {
            assert_eq!(records(block), expected, "{block:?}");
        }
    }

    /// With a look at the blanks for each object it would take minutes, also on a fast machine.
    #[test]
    fn blanks_behind_many_objects_are_looked_at_once() {
        const OBJECTS: usize = 500_000;
        let block = format!("{}{}\n", "{}".repeat(OBJECTS), " ".repeat(4 << 20));
        let begun = Instant::now();
        assert_eq!(records(&block).lines().count(), OBJECTS);
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    }

    #[test]
    fn objects_in_one_line() {
        for (block, expected) in [
            ("{\"a\":1}{\"a\":2}\n", "{\"a\":1}\n{\"a\":2}\n"),
            ("{\"a\":1} {\"a\":[{}]}{}", "{\"a\":1}\n{\"a\":[{}]}\n{}"),
            (" {}{} \r\n{}\n", "{}\n{} \r\n{}\n"),
            ("{\"a\":\"}{\"}\n{}\n", "{\"a\":\"}{\"}\n{}\n"),
            ("{\"a\":\"\\\"}{\"}\n", "{\"a\":\"\\\"}{\"}\n"),
            // Lines with anything besides objects stay whole.
            ("{}{} x\n", "{}{} x\n"),
            ("{}{\n{}\n", "{}{\n{}\n"),
            ("x }{\n", "x }{\n"),
        ] {
            assert_eq!(records(block), expected, "{block:?}");
        }
    }

    proptest! {
        #[test]
        fn no_blank_line_is_overlooked(block in "[ \\n\\r\\ta{]{0,40}") {
            let expected: String =
                block.split_inclusive('\n').filter(|line| !line.trim().is_empty()).collect();
            prop_assert_eq!(records(&block), expected);
        }
    }
}
