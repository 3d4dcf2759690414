//! Messages in the Common Event Format: `CEF:0|vendor|product|version|class|name|severity|key=value
//! …`.
//!
//! Fields are named as in VictoriaLogs: `cef.version`, `cef.device_vendor`, … and
//! `cef.extension.KEY`. The message stays whole in `_msg`, so that its words are found. A message
//! that is not valid CEF up to its end is kept without fields, with a note.

/// The fields before the extension.
const NAMES: [&str; 7] = [
    "cef.version",
    "cef.device_vendor",
    "cef.device_product",
    "cef.device_version",
    "cef.device_event_class_id",
    "cef.name",
    "cef.severity",
];

/// Calls `each` with name and value (which may contain escapes) of each field of a message. If the
/// message is not valid, returns `None` without having called `each`.
pub(crate) fn parse<'a>(message: &'a [u8], mut each: impl FnMut(&str, &'a [u8])) -> Option<()> {
    // Some senders put a blank behind the colon.
    let mut rest = message.strip_prefix(b"CEF:")?.trim_ascii_start();
    let mut values = [&b""[..]; NAMES.len()];
    for value in &mut values {
        let end = unescaped(rest, b'|')?;
        (*value, rest) = (&rest[..end], &rest[end + 1..]);
    }
    values[0].iter().all(u8::is_ascii_digit).then_some(())?;
    // A first pass checks that it is valid.
    extension(rest, &mut |_, _| ())?;
    for (name, value) in NAMES.iter().zip(values) {
        each(name, value);
    }
    let mut name = String::from("cef.extension.");
    let prefix = name.len();
    extension(rest, &mut |key, value| {
        name.truncate(prefix);
        name.push_str(&String::from_utf8_lossy(key));
        each(&name, value);
    })
}

/// Pairs whose values may contain blanks: a value extends to the blank before the next key. A `=`
/// that no blank and key precede is a part of the value: senders leave it as it is in addresses
/// (`request=http://x/?a=b`).
pub(crate) fn extension<'a>(
    text: &'a [u8],
    each: &mut dyn FnMut(&'a [u8], &'a [u8]),
) -> Option<()> {
    let mut rest = text.trim_ascii();
    while !rest.is_empty() {
        let equals = unescaped(rest, b'=')?;
        let (key, behind) = (&rest[..equals], &rest[equals + 1..]);
        (!key.is_empty() && !key.contains(&b' ')).then_some(())?;
        let end = next_key(behind).unwrap_or(behind.len());
        each(key, &behind[..end]);
        rest = behind[end..].trim_ascii_start();
    }
    Some(())
}

/// Offset of the blank before the next key.
fn next_key(text: &[u8]) -> Option<usize> {
    let is_of_key =
        |b: &&u8| b.is_ascii_alphanumeric() || matches!(**b, b'_' | b'.' | b'-' | b'[' | b']');
    let mut at = 0;
    loop {
        at += unescaped(text.get(at..)?, b'=')?;
        let key = text[..at].iter().rev().take_while(is_of_key).count();
        if key > 0 && text[..at - key].ends_with(b" ") {
            return Some(at - key - 1);
        }
        at += 1;
    }
}

/// Offset of the first unescaped `byte`.
fn unescaped(text: &[u8], byte: u8) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr2(byte, b'\\', text.get(at..)?)?;
        if text[at] == byte {
            return Some(at);
        }
        at += 2;
    }
}

/// Appends a value without its escapes.
pub(crate) fn unescape(value: &[u8], out: &mut Vec<u8>) {
    let mut rest = value;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        match rest.get(at + 1) {
            Some(b'n') => out.push(b'\n'),
            Some(b'r') => out.push(b'\r'),
            Some(other) => out.push(*other),
            None => out.push(b'\\'),
        }
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Option<String> {
        let mut out = Vec::new();
        parse(text.as_bytes(), |name, value| {
            let mut made = Vec::new();
            unescape(value, &mut made);
            out.push(format!("{}={}", &name[4..], String::from_utf8_lossy(&made)));
        })?;
        Some(out.join(";"))
    }

    /// The rows of VictoriaLogs' own tests, among others.
    #[test]
    fn messages() {
        let rows = [
            (
                "CEF:1|Security|threatmanager|1.0|100|worm successfully stopped|10|src=10.0.0.1 dst=2.1.2.2 spt=1232",
                "version=1;device_vendor=Security;device_product=threatmanager;device_version=1.0;\
                 device_event_class_id=100;name=worm successfully stopped;severity=10;\
                 extension.src=10.0.0.1;extension.dst=2.1.2.2;extension.spt=1232",
            ),
            (
                "CEF:0|a\\|b|c|d|e|f\\\\|3|msg=a b c\\=d act=x y",
                "version=0;device_vendor=a|b;device_product=c;device_version=d;device_event_class_id=e;\
                 name=f\\;severity=3;extension.msg=a b c=d;extension.act=x y",
            ),
            (
                "CEF:0|a|b|c|d|e|3|request=http://x/?a=b&c=d msg=1 = 1 x?y=z act[0]=ok end=",
                "version=0;device_vendor=a;device_product=b;device_version=c;device_event_class_id=d;\
                 name=e;severity=3;extension.request=http://x/?a=b&c=d;extension.msg=1 = 1 x?y=z;\
                 extension.act[0]=ok;extension.end=",
            ),
            (
                "CEF:0|a|b|c|d|e|f|",
                "version=0;device_vendor=a;device_product=b;device_version=c;device_event_class_id=d;\
                 name=e;severity=f",
            ),
        ];
        for (text, expected) in rows {
            assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
        }
        for text in
            ["", "CEF:", "CEF:0", "CEF:0|a|b|c|d|e|f", "CEF:x|a|b|c|d|e|f|", "CEF:0|a|b|c|d|e|f|g"]
        {
            assert_eq!(shown(text), None, "{text}");
        }
    }
}
