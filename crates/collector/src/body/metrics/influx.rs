//! Points in the line protocol of InfluxDB, as Telegraf and its libraries send them.
//!
//! ```text
//! cpu,host=a,core=0 user=1.5,system=2i 1769860800000000000
//!     →   {"_time":…,"name":"cpu_user","value":1.5,"host":"a","core":"0"}⏎
//!         {"_time":…,"name":"cpu_system","value":2,"host":"a","core":"0"}⏎
//! ```
//!
//! Each field becomes a row, whose name is that of the measurement and the field, or of the
//! measurement alone if the field is `value`. Truth is 1 or 0; a text stays one. A point without a
//! time has that of its arrival. Source: "Line protocol" of the InfluxDB v2 reference.

use std::ops::Range;

use record::frame::LINE_BYTES_MAX;
use text::json::write_text;
use text::time::write_time;

use super::write_label;
use crate::body::json::write_double;

/// Bytes of the tags and the measurement of a line, which are written with each of its fields.
const SHARED_BYTES_MAX: usize = 16 << 10;
/// Fields of a line.
const FIELDS_MAX: usize = 4_096;
/// How many times as long as a body all is that is looked through for the ends of quotes, and has
/// none. Beyond it, a newline ends each line, so that many such lines do not take hours.
const VAIN_FACTOR: usize = 16;

/// A line that is not a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct NoPoint {
    /// Its number, from 1.
    pub line: u64,
    what: &'static str,
}

/// The points of a body.
pub struct Points<'b> {
    rest: &'b [u8],
    unit_ns: i64,
    /// Bytes that may still be looked through in vain.
    vain_bytes: usize,
    lines: u64,
    /// Lines that are not points, their bytes, and the first of them.
    rejected: (u64, u64),
    first: Option<NoPoint>,
}

impl<'b> Points<'b> {
    /// The points of a body, whose times count units of `unit_ns` nanoseconds.
    pub fn of(body: &'b [u8], unit_ns: i64) -> Points<'b> {
        let vain_bytes = body.len().saturating_mul(VAIN_FACTOR);
        Points { rest: body, unit_ns, vain_bytes, lines: 0, rejected: (0, 0), first: None }
    }

    /// Appends the rows of the next line; false behind the last one.
    pub fn write_next(&mut self, out: &mut Vec<u8>) -> bool {
        if self.rest.is_empty() {
            return false;
        }
        let end = line_end(self.rest, &mut self.vain_bytes);
        let line = &self.rest[..end];
        self.rest = self.rest.get(end + 1..).unwrap_or_default();
        self.lines += 1;
        let trimmed = line.trim_ascii();
        if trimmed.is_empty() || trimmed[0] == b'#' {
            return true;
        }
        let begin = out.len();
        if let Err(what) = write_point(trimmed, self.unit_ns, out) {
            out.truncate(begin);
            self.rejected.0 += 1;
            self.rejected.1 += line.len() as u64;
            self.first.get_or_insert(NoPoint { line: self.lines, what });
        }
        true
    }

    /// Lines that were not taken, their bytes, and what is wrong with the first one.
    pub fn rejected(&self) -> (u64, u64, Option<NoPoint>) {
        (self.rejected.0, self.rejected.1, self.first)
    }
}

/// Where the line at the start ends: at a newline outside of quotes, which only values have. Of
/// `vain_bytes`, those are taken that are looked through for the end of a quote that has none.
fn line_end(content: &[u8], vain_bytes: &mut usize) -> usize {
    let first = memchr::memchr(b'\n', content).unwrap_or(content.len());
    // Quotes are rare, and a line that has none ends at its newline.
    if memchr::memchr(b'"', &content[..first]).is_none() || *vain_bytes == 0 {
        return first;
    }
    let (mut quoted, mut at, mut before) = (false, 0, b' ');
    let mut in_values = false;
    while at < content.len() {
        match content[at] {
            b'\\' => at += 1,
            b' ' if !quoted => in_values = true,
            b'"' if in_values && (quoted || before == b'=') => quoted = !quoted,
            b'\n' if !quoted => return at,
            _ => {}
        }
        before = content.get(at).copied().unwrap_or_default();
        at += 1;
    }
    if !quoted {
        return content.len();
    }
    // A quote without its end is a fault of that line alone.
    *vain_bytes = vain_bytes.saturating_sub(content.len());
    first
}

fn write_point(line: &[u8], unit_ns: i64, out: &mut Vec<u8>) -> Result<(), &'static str> {
    let key_end = find(line, 0, |byte| byte == b' ').ok_or("it has no fields")?;
    let key = &line[..key_end];
    let rest = line[key_end..].trim_ascii_start();
    let fields_end = fields_end(rest);
    let (fields, time) = (&rest[..fields_end], rest[fields_end..].trim_ascii());
    if key.len() > SHARED_BYTES_MAX {
        return Err("its measurement and tags are too long");
    }
    let measurement_end = find(key, 0, |byte| byte == b',').unwrap_or(key.len());
    let measurement = unescaped(&key[..measurement_end]);
    if measurement.is_empty() {
        return Err("it has no measurement");
    }
    let mut labels = Vec::new();
    for tag in pairs(&key[measurement_end..]) {
        let (name, value) = tag.ok_or("a tag is not NAME=VALUE")?;
        let (name, value) = (&key[measurement_end..][name], &key[measurement_end..][value]);
        if name.is_empty() {
            return Err("a tag has no name");
        }
        write_label(&unescaped(name), &unescaped(value), &mut labels);
    }
    let mut start = b"{".to_vec();
    if !time.is_empty() {
        let time = std::str::from_utf8(time).ok().and_then(|time| time.parse::<i64>().ok());
        let time_ns = time.and_then(|time| time.checked_mul(unit_ns));
        start.extend_from_slice(b"\"_time\":\"");
        write_time(time_ns.ok_or("its time is not a whole number, or too large")?, &mut start);
        start.extend_from_slice(b"\",");
    }
    start.extend_from_slice(b"\"name\":");
    let mut count = 0;
    // A comma in front makes a list of fields like a list of tags.
    let fields = [b",", fields].concat();
    for field in pairs(&fields) {
        let (name, value) = field.ok_or("a field is not NAME=VALUE")?;
        let (name, value) = (unescaped(&fields[name]), &fields[value]);
        count += 1;
        if count > FIELDS_MAX {
            return Err("it has too many fields");
        }
        let begin = out.len();
        out.extend_from_slice(&start);
        match &name[..] {
            b"" => return Err("a field has no name"),
            b"value" => write_text(&measurement, out),
            name => write_text(&[&measurement, &b"_"[..], name].concat(), out),
        }
        out.extend_from_slice(b",\"value\":");
        write_value(value, out)?;
        out.extend_from_slice(&labels);
        out.extend_from_slice(b"}\n");
        if out.len() - begin > LINE_BYTES_MAX {
            return Err("a value is too long");
        }
    }
    if count == 0 { Err("it has no fields") } else { Ok(()) }
}

fn write_value(value: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
    const WRONG: &str = "a value is neither a number, nor true or false, nor a text in quotes";
    let text = std::str::from_utf8(value).map_err(|_| WRONG);
    match value {
        [b'"', inner @ .., b'"'] => {
            let mut plain = Vec::with_capacity(inner.len());
            let mut rest = inner.iter();
            while let Some(&byte) = rest.next() {
                match (byte, rest.as_slice().first()) {
                    (b'\\', Some(next @ (b'"' | b'\\'))) => {
                        plain.push(*next);
                        rest.next();
                    }
                    _ => plain.push(byte),
                }
            }
            write_text(&plain, out);
        }
        b"t" | b"T" | b"true" | b"True" | b"TRUE" => out.push(b'1'),
        b"f" | b"F" | b"false" | b"False" | b"FALSE" => out.push(b'0'),
        [digits @ .., b'i' | b'u'] => {
            let sign = digits.strip_prefix(b"-").unwrap_or(digits);
            if sign.is_empty() || !sign.iter().all(u8::is_ascii_digit) || sign.len() > 20 {
                return Err(WRONG);
            }
            // JSON has no zeros in front.
            let number: i128 = text?[..digits.len()].parse().map_err(|_| WRONG)?;
            out.extend_from_slice(number.to_string().as_bytes());
        }
        _ => {
            let number: f64 = text?.parse().map_err(|_| WRONG)?;
            let is_number = value.iter().any(u8::is_ascii_digit);
            write_double(Some(number).filter(|_| is_number).ok_or(WRONG)?, out);
        }
    }
    Ok(())
}

/// The first byte from `at` on that is wanted, and has no backslash before it.
fn find(text: &[u8], mut at: usize, is_wanted: impl Fn(u8) -> bool) -> Option<usize> {
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            byte if is_wanted(byte) => return Some(at),
            _ => at += 1,
        }
    }
    None
}

/// The end of a list of fields: a blank outside of quotes.
fn fields_end(text: &[u8]) -> usize {
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 1,
            b'"' if at > 0 && text[at - 1] == b'=' => match quote_end(text, at) {
                Some(end) => at = end - 1,
                None => return text.len(),
            },
            b' ' => return at,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// Behind the quote that ends the text at `at`.
fn quote_end(text: &[u8], at: usize) -> Option<usize> {
    find(text, at + 1, |byte| byte == b'"').map(|end| end + 1)
}

/// The places of names and values in `,NAME=VALUE,NAME=VALUE`; `None` for what is no pair.
fn pairs(list: &[u8]) -> impl Iterator<Item = Option<(Range<usize>, Range<usize>)>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= list.len() {
            return None;
        }
        let name = at + 1;
        let pair = find(list, name, |byte| byte == b'=').and_then(|equals| {
            let value = equals + 1;
            let end = match list.get(value) {
                Some(b'"') => quote_end(list, value)?,
                _ => find(list, value, |byte| byte == b',').unwrap_or(list.len()),
            };
            let is_whole = end == list.len() || list[end] == b',';
            at = end;
            is_whole.then_some((name..equals, value..end))
        });
        if pair.is_none() {
            at = list.len();
        }
        Some(pair)
    })
}

/// A name or a tag without its escapes.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = match (byte, behind) {
            (b'\\', [next @ (b',' | b'=' | b' ' | b'\\' | b'"'), behind @ ..]) => {
                plain.push(*next);
                behind
            }
            _ => {
                plain.push(byte);
                behind
            }
        };
    }
    plain
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn rows(body: &str, unit_ns: i64) -> (String, (u64, Option<NoPoint>)) {
        let (mut points, mut out) = (Points::of(body.as_bytes(), unit_ns), Vec::new());
        while points.write_next(&mut out) {}
        let (lines, _, first) = points.rejected();
        let text = String::from_utf8(out).unwrap();
        for row in text.lines() {
            serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(row).unwrap();
        }
        (text, (lines, first))
    }

    #[test]
    fn each_field_becomes_a_row() {
        for (body, unit_ns, expected) in [
            (
                "cpu,host=a,core=0 user=1.5,system=2i 1769860800\n# a note\n\n",
                1_000_000_000,
                "{\"_time\":\"2026-01-31T12:00:00Z\",\"name\":\"cpu_user\",\"value\":1.5,\"host\":\"a\",\"core\":\"0\"}\n\
                 {\"_time\":\"2026-01-31T12:00:00Z\",\"name\":\"cpu_system\",\"value\":2,\"host\":\"a\",\"core\":\"0\"}\n",
            ),
            ("up value=t", 1, "{\"name\":\"up\",\"value\":1}\n"),
            (
                "a\\ b\\,c,t\\=x=y\\ z,name=n v=\"x \\\"y\\\", z=\\\\\",w=-3u,u=F 7",
                1,
                "{\"_time\":\"1970-01-01T00:00:00.000000007Z\",\"name\":\"a b,c_v\",\"value\":\"x \\\"y\\\", z=\\\\\",\
                 \"t=x\":\"y z\",\"labels.name\":\"n\"}\n\
                 {\"_time\":\"1970-01-01T00:00:00.000000007Z\",\"name\":\"a b,c_w\",\"value\":-3,\
                 \"t=x\":\"y z\",\"labels.name\":\"n\"}\n\
                 {\"_time\":\"1970-01-01T00:00:00.000000007Z\",\"name\":\"a b,c_u\",\"value\":0,\
                 \"t=x\":\"y z\",\"labels.name\":\"n\"}\n",
            ),
            (
                "log msg=\"two\nlines\"\r\nup value=1e3,neg=-007i",
                1,
                "{\"name\":\"log_msg\",\"value\":\"two\\nlines\"}\n\
                 {\"name\":\"up\",\"value\":1000}\n{\"name\":\"up_neg\",\"value\":-7}\n",
            ),
        ] {
            assert_eq!(rows(body, unit_ns), (expected.to_owned(), (0, None)), "{body}");
        }
    }

    #[test]
    fn a_line_that_is_no_point_is_rejected_alone() {
        for wrong in [
            "text",
            "text of a log",
            " =1",
            ",a=b v=1",
            "m,a v=1",
            "m,=b v=1",
            "m v",
            "m v=",
            "m v=x",
            "m v=i",
            "m v=inf",
            "m v=\"open",
            "m v=\"a\"b",
            "m =1",
            "m v=1 now",
            "m v=1 1 2",
            "m v=1 9223372036854775807000",
        ] {
            let body = format!("a value=1\n{wrong}\nb value=2\n");
            let (text, (lines, first)) = rows(&body, 1_000);
            let expected = "{\"name\":\"a\",\"value\":1}\n{\"name\":\"b\",\"value\":2}\n";
            assert_eq!((&text[..], lines), (expected, 1), "{wrong}: {first:?}");
            assert_eq!(first.unwrap().line, 2, "{wrong}");
        }
    }

    /// With a look through the whole body for each line it would take hours.
    #[test]
    fn many_quotes_without_an_end_do_not_take_the_square_of_their_time() {
        const LINES: usize = 1_000_000;
        // Whether a quote is open at its start or not, one is open at its end.
        let body = "a b=\"x\"y=\"\n".repeat(LINES);
        let begun = Instant::now();
        let (text, (lines, _)) = rows(&body, 1);
        assert_eq!((&text[..], lines), ("", LINES as u64));
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_give_objects(body in "[a-b,= \\\\\"\\n0-1iv]{0,60}") {
            rows(&body, 1);
        }
    }
}
