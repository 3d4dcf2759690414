//! Splits JSON text for code that examines values: the members of an object, the items of an array.
//!
//! The rules of [`json_members`] are those of lines ([`super::json`]): keys of nested objects are
//! joined by dots; arrays, empty objects, and objects deeper than [`JSON_DEPTH_MAX`] stay JSON
//! text, and so do objects whose path is longer than [`NAME_BYTES_MAX`], because each of their
//! members would begin with it; numbers and literals are kept as written; null is skipped.
//! Recursion is limited to that depth, or to the requested one, whatever the text.

use super::json::JSON_DEPTH_MAX;
use super::json_scan::{Broken, Scan, unescape};
use super::row::NAME_BYTES_MAX;

/// The kind of a JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonKind {
    /// `null`
    Null,
    /// `true`, `false`, or a number.
    Plain,
    /// A string, without quotes and escapes.
    Text,
    /// An array, as it is written.
    Array,
    /// An object, as it is written.
    Object,
}

/// Calls `each` with path and value of the members, in order, of the object that `text` must be
/// from end to end. `None` if it is not; `each` may have been called before that was detected.
pub fn json_members(text: &[u8], mut each: impl FnMut(&str, &str)) -> Option<()> {
    let join = |path: &mut String, depth: usize, key: &str| {
        if depth > 1 {
            path.push('.');
        }
        path.push_str(key);
    };
    json_members_by(text, JSON_DEPTH_MAX, join, |path, kind, value| {
        if kind != JsonKind::Null {
            each(path, value);
        }
    })
}

/// As [`json_members`], with other rules: objects deeper than `depth_max` stay JSON text, `join`
/// appends a key to the path of the enclosing object, whose members have the given depth (from 1
/// on), and `each` also gets the kind of the value.
pub fn json_members_by(
    text: &[u8],
    depth_max: usize,
    join: impl Fn(&mut String, usize, &str),
    each: impl FnMut(&str, JsonKind, &str),
) -> Option<()> {
    std::str::from_utf8(text).ok()?;
    let mut scan = Scan::new(text);
    let (path, made, stack) = (String::new(), String::new(), Vec::new());
    let mut members = Members { path, made, stack, depth_max, join, each };
    scan.blanks();
    scan.expect(b'{').ok()?;
    members.object(&mut scan, 1).ok()?;
    scan.blanks();
    scan.end().ok()
}

/// Whether a text is an object from end to end, without blanks around it.
pub fn is_object(text: &[u8]) -> bool {
    let mut scan = Scan::new(text);
    text.first() == Some(&b'{')
        && std::str::from_utf8(text).is_ok()
        && scan.nested(&mut Vec::new()).is_ok()
        && scan.end().is_ok()
}

/// Calls `each` with the items, in order, of the array that `text` must be from end to end; strings
/// without quotes and escapes, all others as written. `None` if it is not; `each` may have been
/// called before that was detected.
pub fn json_items(text: &[u8], mut each: impl FnMut(JsonKind, &str)) -> Option<()> {
    std::str::from_utf8(text).ok()?;
    let mut scan = Scan::new(text);
    let (mut made, mut stack) = (String::new(), Vec::new());
    scan.blanks();
    scan.expect(b'[').ok()?;
    scan.blanks();
    if !scan.skip(b']') {
        loop {
            scan.blanks();
            let (kind, item) = value(&mut scan, &mut made, &mut stack).ok()?;
            each(kind, item);
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

struct Members<J, E> {
    path: String,
    made: String,
    stack: Vec<u8>,
    depth_max: usize,
    join: J,
    each: E,
}

impl<J: Fn(&mut String, usize, &str), E: FnMut(&str, JsonKind, &str)> Members<J, E> {
    /// The members of an object and its closing brace; the opening one was consumed.
    fn object(&mut self, scan: &mut Scan<'_>, depth: usize) -> Result<(), Broken> {
        scan.blanks();
        if scan.skip(b'}') {
            return Ok(());
        }
        let prefix = self.path.len();
        loop {
            scan.blanks();
            scan.expect(b'"')?;
            let key = string(scan, &mut self.made)?;
            (self.join)(&mut self.path, depth, key);
            scan.blanks();
            scan.expect(b':')?;
            scan.blanks();
            let may_enter = depth < self.depth_max && self.path.len() <= NAME_BYTES_MAX;
            if scan.peek() == Some(b'{') && may_enter && !scan.at_empty_object() {
                scan.expect(b'{')?;
                self.object(scan, depth + 1)?;
            } else {
                let (kind, value) = value(scan, &mut self.made, &mut self.stack)?;
                (self.each)(&self.path, kind, value);
            }
            self.path.truncate(prefix);
            scan.blanks();
            if !scan.skip(b',') {
                return scan.expect(b'}');
            }
        }
    }
}

/// A value: the content of a string, all others as written.
fn value<'v, 'a: 'v>(
    scan: &mut Scan<'a>,
    made: &'v mut String,
    stack: &mut Vec<u8>,
) -> Result<(JsonKind, &'v str), Broken> {
    Ok(match scan.peek() {
        Some(b'{') => (JsonKind::Object, utf8(scan.nested(stack)?)),
        Some(b'[') => (JsonKind::Array, utf8(scan.nested(stack)?)),
        Some(b'"') => {
            scan.expect(b'"')?;
            (JsonKind::Text, string(scan, made)?)
        }
        first => {
            let kind = if first == Some(b'n') { JsonKind::Null } else { JsonKind::Plain };
            (kind, utf8(scan.scalar()?))
        }
    })
}

/// The content of a string whose opening quote was consumed.
fn string<'v, 'a: 'v>(scan: &mut Scan<'a>, made: &'v mut String) -> Result<&'v str, Broken> {
    let (text, escaped) = scan.string()?;
    if !escaped {
        return Ok(utf8(text));
    }
    made.clear();
    unescape(utf8(text), made);
    Ok(made)
}

/// A part of the text, whose encoding was checked.
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
        json_items(text.as_bytes(), |_, item| out.push(item.to_owned()))?;
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
    fn objects_by_other_rules() {
        let check = |depth_max: usize, expected: &str| {
            let text = r#"{"a":{"b":{"c":"x\ny"}},"n":null,"t":[1],"o":{},"p":true,"q":"{}"}"#;
            let mut out = Vec::new();
            let join = |path: &mut String, depth: usize, key: &str| {
                path.push_str(&format!("/{depth}{key}"));
            };
            let each = |path: &str, kind: JsonKind, value: &str| {
                out.push(format!("{path} {kind:?} {value}"))
            };
            assert_eq!(json_members_by(text.as_bytes(), depth_max, join, each), Some(()));
            assert_eq!(out.join("|"), expected);
        };
        let rest = "/1n Null null|/1t Array [1]|/1o Object {}|/1p Plain true|/1q Text {}";
        check(1, &format!(r#"/1a Object {{"b":{{"c":"x\ny"}}}}|{rest}"#));
        check(2, &format!(r#"/1a/2b Object {{"c":"x\ny"}}|{rest}"#));
        check(3, &format!("/1a/2b/3c Text x\ny|{rest}"));
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
    fn objects_with_long_paths_stay_text() {
        for (length, path) in [(NAME_BYTES_MAX, ".b=1"), (NAME_BYTES_MAX + 1, "={\"b\":1}")] {
            let key = "k".repeat(length);
            let found = members(&format!("{{\"{key}\":{{\"b\":1}}}}"));
            assert_eq!(found, Some(format!("{key}{path}")), "{length}");
        }
    }

    #[test]
    fn deep_nesting_does_not_recurse() {
        let deep = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
        let found = members(&deep).expect("an object");
        let dots = found.bytes().take_while(|b| *b != b'=').filter(|b| *b == b'.').count();
        assert_eq!(dots + 1, JSON_DEPTH_MAX);
        assert_eq!(members(&"{\"a\":".repeat(100_000)), None);
    }
}
