//! Bodies that are forms: Python's `HTTPHandler` sends the fields of a record so, and webhooks of
//! Slack put a JSON object into the field `payload`.
//!
//! Left out: forms with parts (`multipart/form-data`), which are refused.

use text::json::write_text;

/// The longest form. It is held as a whole, because its last field may be a part of any text.
///
/// limits.md, Lines on their way in: a body that is a form | {} | it is taken as lines, like any
/// other body
pub const BYTES_MAX: usize = 1 << 20;

/// Whether these bytes may be a part of a form: all others are encoded there.
pub fn may_contain(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"*-._+%&=~!'()[]:/@,$;".contains(byte))
}

/// The record of a form, as a line of JSON. `None` if the body is not a form: fields without a
/// name or value, one field alone that is not that of Slack, or a wrong escape.
pub fn record(body: &[u8]) -> Option<Vec<u8>> {
    let mut fields = Vec::new();
    for field in body.split(|&byte| byte == b'&').filter(|field| !field.is_empty()) {
        let (name, value) = field.split_at(memchr::memchr(b'=', field)?);
        fields.push((decoded(name)?, decoded(&value[1..])?));
    }
    if let [(name, value)] = &mut fields[..] {
        let is_object = value.trim_ascii().starts_with(b"{");
        if name != b"payload" || !is_object {
            return None;
        }
        // Newlines within an object are white space.
        value.iter_mut().filter(|b| matches!(**b, b'\n' | b'\r')).for_each(|b| *b = b' ');
        value.push(b'\n');
        return Some(std::mem::take(value));
    }
    if fields.is_empty() || fields.iter().any(|(name, _)| name.is_empty()) {
        return None;
    }
    let mut line = b"{".to_vec();
    let has = |wanted: &[u8]| fields.iter().any(|(name, _)| name == wanted);
    if has(b"levelname")
        && !has(b"_time")
        && let Some((_, created)) = fields.iter().find(|(name, _)| name == b"created")
        && created.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
    {
        // The time of a record of Python.
        line.extend_from_slice(b"\"_time\":\"");
        line.extend_from_slice(created);
        line.extend_from_slice(b"\",");
    }
    for (index, (name, value)) in fields.iter().enumerate() {
        if index > 0 {
            line.push(b',');
        }
        write_text(String::from_utf8_lossy(name).as_bytes(), &mut line);
        line.push(b':');
        write_text(String::from_utf8_lossy(value).as_bytes(), &mut line);
    }
    line.extend_from_slice(b"}\n");
    Some(line)
}

/// The text of a name or value; `None` if an escape is wrong.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let (digits, behind) = rest.split_at_checked(2)?;
                rest = behind;
                let digit = |byte: u8| char::from(byte).to_digit(16);
                (16 * digit(digits[0])? + digit(digits[1])?) as u8
            }
            byte => byte,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_become_records() {
        let check = |body: &str, expected: Option<&str>| {
            let found = record(body.as_bytes());
            let found = found.map(|line| String::from_utf8(line).unwrap());
            assert_eq!(found.as_deref(), expected, "{body:?}");
        };
        check(
            "name=root&msg=disk+%22full%22%0Anow&levelname=ERROR&exc_info=",
            Some(
                "{\"name\":\"root\",\"msg\":\"disk \\\"full\\\"\\nnow\",\"levelname\":\"ERROR\",\"exc_info\":\"\"}\n",
            ),
        );
        check(
            "msg=a&levelname=INFO&created=1686026891.5",
            Some(
                "{\"_time\":\"1686026891.5\",\"msg\":\"a\",\"levelname\":\"INFO\",\"created\":\"1686026891.5\"}\n",
            ),
        );
        check("payload=%7B%22text%22%3A%0A%22hi%22%7D", Some("{\"text\": \"hi\"}\n"));
        check("a=%C3%A9&b=%ff", Some("{\"a\":\"é\",\"b\":\"\u{fffd}\"}\n"));
        // Text that is no form.
        for body in ["", "a", "a=b", "a=b&c", "=b&c=d", "a=%4&b=c", "a=%4x&b=c", "payload=x", "&"] {
            check(body, None);
        }
    }

    #[test]
    fn lines_and_json_are_not_held_as_forms() {
        assert!(may_contain(b"name=root&msg=disk+full%21"));
        for body in ["{\"a\":1}", "a line", "a\n", "[1]\"", "\u{e9}"] {
            assert!(!may_contain(body.as_bytes()), "{body:?}");
        }
    }
}
