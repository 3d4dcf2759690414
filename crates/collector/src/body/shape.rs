//! Which lines of a body are records.

/// What the lines of a body contain. Each body needs its own value, which tracks the position in
/// the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Each line is a record, blank lines too.
    Lines,
    /// One JSON object per line; blank lines are ignored. Several objects in one line, as Fluent
    /// Bit's `json_stream` writes them, become a line each.
    JsonLines,
    /// Elasticsearch's `_bulk`: an action line, then the document.
    Bulk {
        /// Lines so far, for error messages.
        lines: u64,
        /// The next line is a document.
        document: bool,
    },
}

/// A body that is not a valid `_bulk` request, or requests an action that a log does not support.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BulkError {
    /// An action other than `index` or `create`.
    #[error(
        "line {line} of the bulk request should be an action ({{\"create\":{{}}}}) but is {found:?}; \
         lines are only added here, by create or index"
    )]
    NoAction {
        /// Line number, counted from 1.
        line: u64,
        /// The start of the line.
        found: String,
    },
}

/// Bytes of the wrong line that the error shows.
const SHOWN_BYTES_MAX: usize = 80;

impl Shape {
    /// `_bulk`, at the start of the body.
    pub const BULK: Shape = Shape::Bulk { lines: 0, document: false };

    /// The records among whole lines: either `block` itself or a copy in `scratch`. On an error,
    /// `scratch` holds the records before it.
    pub fn records<'a>(
        &mut self,
        block: &'a [u8],
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], BulkError> {
        scratch.clear();
        match self {
            Shape::Lines => Ok(block),
            Shape::JsonLines if !may_have_blank_line(block) && !may_join(block) => Ok(block),
            Shape::JsonLines => {
                for line in lines(block).filter(|line| !is_blank(line)) {
                    let mut rest = line;
                    if may_join(line) && is_objects(line) {
                        let followed =
                            |rest: &[u8]| object_end(rest).filter(|end| !is_blank(&rest[*end..]));
                        while let Some(end) = followed(rest) {
                            scratch.extend_from_slice(rest[..end].trim_ascii_start());
                            scratch.push(b'\n');
                            rest = rest[end..].trim_ascii_start();
                        }
                    }
                    scratch.extend_from_slice(rest);
                }
                Ok(scratch)
            }
            Shape::Bulk { lines: line_number, document } => {
                for line in lines(block) {
                    *line_number += 1;
                    if is_blank(line) {
                        continue;
                    }
                    if *document {
                        scratch.extend_from_slice(line);
                    } else if !adds(line) {
                        let line = line.trim_ascii();
                        let shown = &line[..line.len().min(SHOWN_BYTES_MAX)];
                        let found = String::from_utf8_lossy(shown).into_owned();
                        return Err(BulkError::NoAction { line: *line_number, found });
                    }
                    *document = !*document;
                }
                Ok(scratch)
            }
        }
    }
}

fn lines(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    block.split_inclusive(|&b| b == b'\n')
}

fn is_blank(line: &[u8]) -> bool {
    line.trim_ascii().is_empty()
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

/// Whether an action of `_bulk` adds a document: `{"create":…` or `{"index":…`.
fn adds(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    let Some(inside) = line.strip_prefix(b"{") else { return false };
    let Some(name) = inside.trim_ascii_start().strip_prefix(b"\"") else { return false };
    name.starts_with(b"create\"") || name.starts_with(b"index\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records(shape: &mut Shape, block: &str) -> Result<String, BulkError> {
        let mut scratch = b"left over".to_vec();
        let records = shape.records(block.as_bytes(), &mut scratch)?;
        Ok(String::from_utf8(records.to_vec()).unwrap())
    }

    #[test]
    fn blank_lines_are_records_or_nothing() {
        for (block, expected) in [
            ("{}\n{}\n", "{}\n{}\n"),
            ("\n{}\n", "{}\n"),
            ("{}\n\n{}", "{}\n{}"),
            ("{}\r\n\r\n {}\n", "{}\r\n {}\n"),
            ("\n", ""),
            ("", ""),
        ] {
            assert_eq!(records(&mut Shape::JsonLines, block).unwrap(), expected, "{block:?}");
            assert_eq!(records(&mut Shape::Lines, block).unwrap(), block);
        }
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
            assert_eq!(records(&mut Shape::JsonLines, block).unwrap(), expected, "{block:?}");
            assert_eq!(records(&mut Shape::Lines, block).unwrap(), block);
        }
    }

    #[test]
    fn documents_of_a_bulk_request_across_blocks() {
        let mut shape = Shape::BULK;
        let first = "{\"create\":{}}\n{\"index\":1}\n\n { \"index\" : {\"_index\":\"a\"}}\n";
        assert_eq!(records(&mut shape, first).unwrap(), "{\"index\":1}\n");
        assert_eq!(shape, Shape::Bulk { lines: 4, document: true });
        assert_eq!(records(&mut shape, "{\"b\":2}\n").unwrap(), "{\"b\":2}\n");
        assert_eq!(shape, Shape::Bulk { lines: 5, document: false });
    }

    #[test]
    fn other_actions_are_errors_that_name_the_line() {
        for wrong in
            ["{\"delete\":{}}", "{\"update\":{}}", "{\"created\":{}}", "x", "{", "{\"", "[]"]
        {
            let mut scratch = Vec::new();
            let block = format!("{{\"create\":{{}}}}\n{{}}\n{wrong}\n");
            let mut shape = Shape::BULK;
            let error = shape.records(block.as_bytes(), &mut scratch).unwrap_err();
            assert_eq!(error, BulkError::NoAction { line: 3, found: wrong.into() });
            assert_eq!(scratch, b"{}\n");
        }
        let long = "x".repeat(1000);
        let mut shape = Shape::BULK;
        let error = records(&mut shape, &long).unwrap_err();
        assert!(error.to_string().len() < 300, "{error}");
    }

    proptest! {
        #[test]
        fn no_blank_line_is_overlooked(block in "[ \\n\\r\\ta{]{0,40}") {
            let expected: String =
                block.split_inclusive('\n').filter(|line| !line.trim().is_empty()).collect();
            prop_assert_eq!(records(&mut Shape::JsonLines, &block).unwrap(), expected);
        }
    }
}
