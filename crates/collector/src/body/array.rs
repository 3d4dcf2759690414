//! A body that is a JSON array, as Fluent Bit sends with `format json`: each element becomes a
//! line.
//!
//! ```text
//! [{"a":1}, {"a":2}]   →   {"a":1}⏎ {"a":2}⏎
//! ```
//!
//! The first byte that is not white space decides whether a body is an array. Newlines within an
//! element become spaces, so pretty-printed arrays work; other bytes of elements are not changed.
//! Invalid JSON is passed on as well, and the parser of the lines reports it.
//!
//! Objects that are pretty-printed without an array become a line each as well. The first line
//! shows it: it begins an object, and ends within that behind `{`, `[`, `,` or `:`. Such objects
//! are joined as elements are, but a newline within a text, which no JSON has, ends the line: so a
//! damaged object does not take in what follows. Every other body passes unchanged.
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
    /// The last byte of the first line that is not white space.
    last: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Form {
    /// Only white space so far.
    #[default]
    Unknown,
    /// Neither an array nor a pretty-printed object.
    Other,
    Array,
    /// In the first line of an object.
    FirstLine,
    /// Objects over several lines.
    Pretty,
}

impl Elements {
    /// The lines in the next piece of the body.
    pub fn next<'a>(&'a mut self, mut piece: &'a [u8]) -> &'a [u8] {
        if self.form == Form::Unknown {
            self.form = match piece.iter().find(|byte| !byte.is_ascii_whitespace()) {
                // White space in front is not part of a line, whatever follows.
                None => return b"",
                Some(b'[') => Form::Array,
                Some(b'{') => {
                    piece = piece.trim_ascii_start();
                    Form::FirstLine
                }
                Some(_) => Form::Other,
            };
        }
        match self.form {
            Form::Array => self.cut(piece),
            Form::FirstLine => match self.look_at_first_line(piece) {
                Some(newline) => self.join(piece, newline),
                None => piece,
            },
            Form::Pretty => self.join(piece, 0),
            Form::Unknown | Form::Other => piece,
        }
    }

    /// Decides at the end of the first line whether its object is pretty-printed: then returns
    /// where it ends in this piece.
    fn look_at_first_line(&mut self, piece: &[u8]) -> Option<usize> {
        for (at, &byte) in piece.iter().enumerate() {
            if byte == b'\n' {
                let goes_on = self.depth > 0 && !self.in_string;
                let is_pretty = goes_on && b"{[,:".contains(&self.last);
                self.form = if is_pretty { Form::Pretty } else { Form::Other };
                return is_pretty.then_some(at);
            }
            self.step(byte);
            if !byte.is_ascii_whitespace() {
                self.last = byte;
            }
        }
        None
    }

    /// Joins the lines of objects; the first `done` bytes of the piece were looked at.
    fn join(&mut self, piece: &[u8], done: usize) -> &[u8] {
        self.made.clear();
        self.made.extend_from_slice(&piece[..done]);
        for &byte in &piece[done..] {
            let is_newline = byte == b'\n' || byte == b'\r';
            if byte == b'\n' && self.in_string {
                (self.depth, self.in_string, self.escaped) = (0, false, false);
            }
            let is_within = self.depth > 0 && !self.in_string;
            self.made.push(if is_newline && is_within { b' ' } else { byte });
            self.step(byte);
        }
        &self.made
    }

    /// Follows brackets and texts.
    fn step(&mut self, byte: u8) {
        if self.in_string {
            self.in_string = byte != b'"' || self.escaped;
            self.escaped = byte == b'\\' && !self.escaped;
            return;
        }
        match byte {
            b'[' | b'{' => self.depth = self.depth.saturating_add(1),
            b']' | b'}' => self.depth = self.depth.saturating_sub(1),
            b'"' => self.in_string = true,
            _ => {}
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
            // Pretty-printed objects.
            (
                "{\n  \"a\": 1,\n  \"b\": [\n    2\n  ]\n}\n{\n  \"a\": \"}\\n\"\n}\n",
                "{   \"a\": 1,   \"b\": [     2   ] }\n{   \"a\": \"}\\n\" }\n",
            ),
            ("{\"a\": 1,\r\n \"b\": 2}\r\n{\"c\":\n3}", "{\"a\": 1,\r  \"b\": 2}\r\n{\"c\": 3}"),
            ("\n{ \n\"a\": {}\n}", "{  \"a\": {} }"),
            // A text without its end takes in no other line.
            ("{\n\"a\": \"b\n}\n{\"c\":1}\n", "{ \"a\": \"b\n}\n{\"c\":1}\n"),
            // Lines, the first of them damaged.
            ("{\"a\":{\"b\":1}\n{\"c\":1}\n", "{\"a\":{\"b\":1}\n{\"c\":1}\n"),
            ("{\"a\":\"b,\n{\n", "{\"a\":\"b,\n{\n"),
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
