//! Messages in the Log Event Extended Format: `LEEF:1.0|vendor|product|version|event|key=value→…`,
//! and `LEEF:2.0`, which names the character between the pairs behind the event.
//!
//! Fields are named as those of CEF: `leef.version`, `leef.device_vendor`, …, `leef.event_id` and
//! `leef.extension.KEY`. The message stays whole in `_msg`, so that its words are found. A message
//! that is not valid LEEF is kept without fields, with a note. Where the pairs are separated by
//! blanks, as some relays make them of tabs, a value extends to the blank before the next key.

use super::cef;

/// The fields before the pairs.
const NAMES: [&str; 5] = [
    "leef.version",
    "leef.device_vendor",
    "leef.device_product",
    "leef.device_version",
    "leef.event_id",
];

/// Calls `each` with name and value of each field of a message. If the message is not valid,
/// returns `None` without having called `each`.
pub(crate) fn parse<'a>(message: &'a [u8], mut each: impl FnMut(&str, &'a [u8])) -> Option<()> {
    let mut rest = message.strip_prefix(b"LEEF:")?;
    let mut values = [&b""[..]; NAMES.len()];
    for value in &mut values {
        let end = memchr::memchr(b'|', rest)?;
        (*value, rest) = (&rest[..end], &rest[end + 1..]);
    }
    let is_version = |b: &u8| b.is_ascii_digit() || *b == b'.';
    (!values[0].is_empty() && values[0].iter().all(is_version)).then_some(())?;
    let mut separator = b'\t';
    if values[0].starts_with(b"2")
        && let Some(end) = rest.iter().take(5).position(|b| *b == b'|')
    {
        separator = named_separator(&rest[..end])?;
        rest = &rest[end + 1..];
    }
    let is_separated = memchr::memchr(separator, rest).is_some();
    let one = !is_separated && rest.iter().filter(|b| **b == b'=').take(2).count() < 2;
    if !is_separated && !one {
        cef::extension(rest, &mut |_, _| ())?;
    }
    for (name, value) in NAMES.iter().zip(values) {
        each(name, value);
    }
    let mut name = String::from("leef.extension.");
    let prefix = name.len();
    let mut put = |key: &[u8], value: &'a [u8]| {
        name.truncate(prefix);
        name.push_str(&String::from_utf8_lossy(key));
        each(&name, value);
    };
    if !is_separated && !one {
        return cef::extension(rest, &mut put);
    }
    for pair in rest.split(|b| *b == separator) {
        let pair = pair.trim_ascii_start();
        if let Some(equals) = memchr::memchr(b'=', pair).filter(|at| *at > 0) {
            put(&pair[..equals], &pair[equals + 1..]);
        }
    }
    Some(())
}

/// A character as it is, or as its number: `^`, `x5E`, `0x09`; a tab if there is none.
fn named_separator(text: &[u8]) -> Option<u8> {
    match text {
        [] => Some(b'\t'),
        [one] => Some(*one),
        [b'x' | b'X', digits @ ..] | [b'0', b'x' | b'X', digits @ ..] => {
            u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Option<String> {
        let mut out = Vec::new();
        parse(text.as_bytes(), |name, value| {
            out.push(format!("{}={}", &name[5..], String::from_utf8_lossy(value)));
        })?;
        Some(out.join(";"))
    }

    #[test]
    fn messages() {
        let head = "device_vendor=V;device_product=P q;device_version=4.0 SP1;event_id=15345";
        let rows = [
            (
                "LEEF:1.0|V|P q|4.0 SP1|15345|src=192.0.2.0\tdst=192.0.2.1\tmsg=a b=c",
                format!(
                    "version=1.0;{head};extension.src=192.0.2.0;extension.dst=192.0.2.1;extension.msg=a b=c"
                ),
            ),
            (
                "LEEF:2.0|V|P q|4.0 SP1|15345|^|src=192.0.2.0^msg=a b",
                format!("version=2.0;{head};extension.src=192.0.2.0;extension.msg=a b"),
            ),
            (
                "LEEF:2.0|V|P q|4.0 SP1|15345|x5E|src=192.0.2.0^msg=a b",
                format!("version=2.0;{head};extension.src=192.0.2.0;extension.msg=a b"),
            ),
            (
                "LEEF:2.0|V|P q|4.0 SP1|15345|src=192.0.2.0\tmsg=a b",
                format!("version=2.0;{head};extension.src=192.0.2.0;extension.msg=a b"),
            ),
            (
                "LEEF:1.0|V|P q|4.0 SP1|15345|src=192.0.2.0 msg=a b act=x",
                format!(
                    "version=1.0;{head};extension.src=192.0.2.0;extension.msg=a b;extension.act=x"
                ),
            ),
            ("LEEF:1.0|V|P q|4.0 SP1|15345|", format!("version=1.0;{head}")),
            (
                "LEEF:1.0|V|P q|4.0 SP1|15345|msg=a b",
                format!("version=1.0;{head};extension.msg=a b"),
            ),
        ];
        for (text, expected) in rows {
            assert_eq!(shown(text), Some(expected), "{text}");
        }
        for text in
            ["", "LEEF:", "LEEF:1.0|a|b|c|d", "LEEF:x|a|b|c|d|", "LEEF:1.0", "CEF:0|a|b|c|d|e|f|"]
        {
            assert_eq!(shown(text), None, "{text}");
        }
    }
}
