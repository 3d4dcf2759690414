//! A body that is a JSON array, as Fluent Bit sends with `format json`: each element becomes a
//! line.
//!
//! ```text
//! [{"a":1}, {"a":2}]   →   {"a":1}⏎ {"a":2}⏎
//! ```
//!
//! The first byte that is not white space decides whether a body is an array; every other body
//! passes unchanged. Newlines within an element become spaces, so pretty-printed arrays work; other
//! bytes of elements are not changed. Invalid JSON is passed on as well, and the parser of the
//! lines reports it.
//!
//! Invariants: the output does not depend on how the body was cut into pieces, and the only memory
//! used is a copy of the current piece.

/// Finds the elements of one body.
#[derive(Debug, Default)]
pub struct Elements {
    form: Form,
    /// Depth of open brackets and braces within an element.
    depth: u32,
    in_string: bool,
    /// The previous byte was a backslash in a string.
    escaped: bool,
    /// A part of an element was emitted, but not its end.
    begun: bool,
    made: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Form {
    /// Only white space so far.
    #[default]
    Unknown,
    /// Not an array.
    Other,
    Array,
}

impl Elements {
    /// The lines in the next piece of the body.
    pub fn next<'a>(&'a mut self, piece: &'a [u8]) -> &'a [u8] {
        if self.form == Form::Unknown {
            self.form = match piece.iter().find(|byte| !byte.is_ascii_whitespace()) {
                // White space in front is not part of a line, whatever follows.
                None => return b"",
                Some(b'[') => Form::Array,
                Some(_) => Form::Other,
            };
        }
        match self.form {
            Form::Array => self.cut(piece),
            _ => piece,
        }
    }

    /// Bytes of memory held.
    pub fn bytes_held(&self) -> usize {
        self.made.capacity()
    }

    fn cut(&mut self, piece: &[u8]) -> &[u8] {
        self.made.clear();
        for &byte in piece {
            let shown = if byte == b'\n' || byte == b'\r' { b' ' } else { byte };
            if self.in_string {
                self.in_string = byte != b'"' || self.escaped;
                self.escaped = byte == b'\\' && !self.escaped;
                self.made.push(shown);
                continue;
            }
            let between = self.depth == 0;
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' if between && !self.begun => continue,
                // The start of the array, or of another one behind it.
                b'[' if between && !self.begun => continue,
                b',' | b']' if between => {
                    if std::mem::take(&mut self.begun) {
                        self.made.push(b'\n');
                    }
                    continue;
                }
                b'[' | b'{' => self.depth += 1,
                b']' | b'}' => self.depth = self.depth.saturating_sub(1),
                b'"' => self.in_string = true,
                _ => {}
            }
            self.begun = true;
            self.made.push(shown);
        }
        &self.made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a body that is cut into pieces of `bytes` bytes.
    fn cut(body: &str, bytes: usize) -> String {
        let mut elements = Elements::default();
        let mut made = Vec::new();
        for piece in body.as_bytes().chunks(bytes) {
            made.extend_from_slice(elements.next(piece));
        }
        String::from_utf8(made).unwrap()
    }

    #[test]
    fn elements_become_lines() {
        for (body, expected) in [
            ("", ""),
            ("[]", ""),
            ("[{}]", "{}\n"),
            (r#"[{"a":1},{"a":[2,{"b":3}]}]"#, "{\"a\":1}\n{\"a\":[2,{\"b\":3}]}\n"),
            (" \n[ {\"a\" : 1} ,\r\n  {\"b\": 2}\n]\n", "{\"a\" : 1} \n{\"b\": 2} \n"),
            ("[{\n \"a\": 1\n}]", "{  \"a\": 1 }\n"),
            (
                r#"[{"a":"],[{\"\\"},{"b":"\\\""}]"#,
                "{\"a\":\"],[{\\\"\\\\\"}\n{\"b\":\"\\\\\\\"\"}\n",
            ),
            ("[1,\"x\",null]", "1\n\"x\"\nnull\n"),
            ("[{\"a\":1}][{\"a\":2}]\n[{\"a\":3}]", "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n"),
            // Incomplete: the rest becomes a line at the end of the body.
            ("[{\"a\":1},{\"b\":", "{\"a\":1}\n{\"b\":"),
            ("[}}]", "}}\n"),
            // Not arrays. White space before them may be dropped.
            ("{\"a\":1}\n[2]\n", "{\"a\":1}\n[2]\n"),
            ("text [1]", "text [1]"),
        ] {
            for bytes in 1..=body.len().max(1) {
                assert_eq!(cut(body, bytes), expected, "{body:?} by {bytes}");
            }
        }
    }
}
