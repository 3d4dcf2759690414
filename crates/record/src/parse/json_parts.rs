//! JSON text taken apart, for those who look into values: the members of an object, the items of an array.
//!
//! The rules are those of lines ([`super::json`]): keys of nested objects are joined by dots; arrays, empty objects, and
//! objects deeper than [`JSON_DEPTH_MAX`] stay JSON text; numbers and literals are kept as written; null is nothing. Neither
//! recurses deeper than that, whatever the text.

use super::json::JSON_DEPTH_MAX;
use super::json_scan::{Broken, Scan, unescape};

/// Calls `each` with path and value of the members of the object that `text` is from end to end, in their order. None, when
/// it is not one: then `each` may have been called before that was found out.
pub fn json_members(text: &[u8], mut each: impl FnMut(&str, &str)) -> Option<()> {
    std::str::from_utf8(text).ok()?;
    let mut scan = Scan::new(text);
    let mut members =
        Members { path: String::new(), made: String::new(), stack: Vec::new(), each: &mut each };
    scan.blanks();
    scan.expect(b'{').ok()?;
    members.object(&mut scan, 1).ok()?;
    scan.blanks();
    scan.end().ok()
}

/// Calls `each` with the items of the array that `text` is from end to end, in their order; strings without quotes and
/// escapes, all else as it is written. None, when it is not one: then `each` may have been called before that was found out.
pub fn json_items(text: &[u8], mut each: impl FnMut(&str)) -> Option<()> {
    std::str::from_utf8(text).ok()?;
    let mut scan = Scan::new(text);
    let (mut made, mut stack) = (String::new(), Vec::new());
    scan.blanks();
    scan.expect(b'[').ok()?;
    scan.blanks();
    if !scan.skip(b']') {
        loop {
            scan.blanks();
            each(value(&mut scan, &mut made, &mut stack).ok()?);
            scan.blanks();
            if !scan.skip(b',') {
                scan.expect(b']').ok()?;
                break;
            }
        }
    }
    scan.blanks();
    scan.end().ok()
}

struct Members<'e> {
    path: String,
    made: String,
    stack: Vec<u8>,
    each: &'e mut dyn FnMut(&str, &str),
}

impl Members<'_> {
    /// The members of an object and its closing brace; the opening one is behind us.
    fn object(&mut self, scan: &mut Scan<'_>, depth: usize) -> Result<(), Broken> {
        scan.blanks();
        if scan.skip(b'}') {
            return Ok(());
        }
        let prefix = self.path.len();
        loop {
            scan.blanks();
            scan.expect(b'"')?;
            let (key, escaped) = scan.string()?;
            if depth > 1 {
                self.path.push('.');
            }
            if escaped {
                unescape(utf8(key), &mut self.path)
            } else {
                self.path.push_str(utf8(key))
            }
            scan.blanks();
            scan.expect(b':')?;
            scan.blanks();
            if scan.peek() == Some(b'{') && depth < JSON_DEPTH_MAX && !scan.at_empty_object() {
                scan.expect(b'{')?;
                self.object(scan, depth + 1)?;
            } else {
                let is_null = scan.peek() == Some(b'n');
                let value = value(scan, &mut self.made, &mut self.stack)?;
                if !is_null {
                    (self.each)(&self.path, value);
                }
            }
            self.path.truncate(prefix);
            scan.blanks();
            if !scan.skip(b',') {
                return scan.expect(b'}');
            }
        }
    }
}

/// A value: what a string says, all else as it is written.
fn value<'v, 'a: 'v>(
    scan: &mut Scan<'a>,
    made: &'v mut String,
    stack: &mut Vec<u8>,
) -> Result<&'v str, Broken> {
    match scan.peek() {
        Some(b'{' | b'[') => scan.nested(stack).map(utf8),
        Some(b'"') => {
            scan.expect(b'"')?;
            let (text, escaped) = scan.string()?;
            if !escaped {
                return Ok(utf8(text));
            }
            made.clear();
            unescape(utf8(text), made);
            Ok(made)
        }
        _ => scan.scalar().map(utf8),
    }
}

/// A part of the text, which was checked.
fn utf8(part: &[u8]) -> &str {
    std::str::from_utf8(part).expect("the text is UTF-8, and cut next to ASCII bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(text: &str) -> Option<String> {
        let mut out = Vec::new();
        json_members(text.as_bytes(), |name, value| out.push(format!("{name}={value}")))?;
        Some(out.join("|"))
    }

    fn items(text: &str) -> Option<String> {
        let mut out = Vec::new();
        json_items(text.as_bytes(), |item| out.push(item.to_owned()))?;
        Some(out.join("|"))
    }

    #[test]
    fn objects() {
        let rows = [
            (
                r#" {"a":"b", "c" : {"d":1.5,"e":{"f":true}},"g":[1, {"h":2}],"i":null,"j":{}} "#,
                Some(r#"a=b|c.d=1.5|c.e.f=true|g=[1, {"h":2}]|j={}"#),
            ),
            (r#"{"a\tb":"c\u00e9\"","":""}"#, Some("a\tb=c\u{e9}\"|=")),
            ("{}", Some("")),
            ("[]", None),
            ("", None),
            (r#"{"a":1"#, None),
            (r#"{"a":1} x"#, None),
            (r#"{"a":nul}"#, None),
        ];
        for (text, expected) in rows {
            assert_eq!(members(text).as_deref(), expected, "{text}");
        }
        assert_eq!(json_members(b"{\"a\":\"\xff\"}", |_, _| {}), None);
    }

    #[test]
    fn arrays() {
        let rows = [
            (
                r#" [1, "a\nb" ,[2,3],{"x":"y"},null, true ] "#,
                Some("1|a\nb|[2,3]|{\"x\":\"y\"}|null|true"),
            ),
            ("[]", Some("")),
            ("[ ]", Some("")),
            ("{}", None),
            ("[1,]", None),
            ("[1", None),
            ("[1] 2", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(items(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn depth_is_no_danger() {
        let deep = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
        let found = members(&deep).expect("an object");
        let dots = found.bytes().take_while(|b| *b != b'=').filter(|b| *b == b'.').count();
        assert_eq!(dots + 1, JSON_DEPTH_MAX);
        assert_eq!(members(&"{\"a\":".repeat(100_000)), None);
    }
}
