//! The messages of Voldemort's client protocol `pb0`: protocol buffers, as the project's
//! `voldemort-client.proto` defines them.
//!
//! Only the fields that the driver needs are written; unknown ones are skipped when they are read,
//! as the format wants it.

/// Kinds of requests (`RequestType`).
const GET: u64 = 0;
const PUT: u64 = 2;
const DELETE: u64 = 3;
const GET_VERSION: u64 = 4;

/// Limit of nodes in the clock of one value. A longer clock is an error.
const CLOCK_ENTRIES_MAX: usize = 1024;

/// Which writes a value has seen, as one counter for each node that wrote it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Clock {
    /// The number of the node, and its counter.
    entries: Vec<(u64, u64)>,
}

impl Clock {
    /// The clock that has seen what any of `clocks` has seen.
    pub fn merged(clocks: impl IntoIterator<Item = Clock>) -> Clock {
        let mut all = std::collections::BTreeMap::new();
        for (node, version) in clocks.into_iter().flat_map(|clock| clock.entries) {
            let known = all.entry(node).or_insert(version);
            *known = version.max(*known);
        }
        Clock { entries: all.into_iter().collect() }
    }

    fn encoded(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (node, version) in &self.entries {
            let mut entry = Vec::new();
            put_number(&mut entry, 1, *node);
            put_number(&mut entry, 2, *version);
            put_bytes(&mut out, 1, &entry);
        }
        out
    }

    fn decoded(bytes: &[u8]) -> Result<Clock, Wrong> {
        let mut entries = Vec::new();
        for field in fields(bytes) {
            let (1, Field::Bytes(entry)) = field? else { continue };
            let (mut node, mut version) = (0, 0);
            for field in fields(entry) {
                match field? {
                    (1, Field::Number(number)) => node = number,
                    (2, Field::Number(number)) => version = number,
                    _ => {}
                }
            }
            if entries.len() == CLOCK_ENTRIES_MAX {
                return Err(Wrong::Malformed(format!("a clock of over {CLOCK_ENTRIES_MAX} nodes")));
            }
            entries.push((node, version));
        }
        Ok(Clock { entries })
    }
}

/// Why a response has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wrong {
    /// The server's own error.
    Refused(String),
    /// The bytes are no such message.
    Malformed(String),
}

/// A value with its clock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Versioned {
    /// As it was put.
    pub value: Vec<u8>,
    /// The writes that it has seen.
    pub clock: Clock,
}

/// Asks for the values of a key: several, if clients wrote it at the same time.
pub(super) fn get(store: &str, key: &[u8], routed: bool) -> Vec<u8> {
    let mut request = Vec::new();
    put_bytes(&mut request, 1, key);
    envelope(GET, store, routed, 4, &request)
}

/// Asks for the clocks of a key's values. It has the key in the same field as [`get`].
pub(super) fn versions(store: &str, key: &[u8]) -> Vec<u8> {
    let mut request = Vec::new();
    put_bytes(&mut request, 1, key);
    envelope(GET_VERSION, store, true, 4, &request)
}

/// Writes a value that has seen `clock`. The server adds its own write to the clock.
pub(super) fn put(store: &str, key: &[u8], value: &[u8], clock: &Clock) -> Vec<u8> {
    let mut versioned = Vec::new();
    put_bytes(&mut versioned, 1, value);
    put_bytes(&mut versioned, 2, &clock.encoded());
    let mut request = Vec::new();
    put_bytes(&mut request, 1, key);
    put_bytes(&mut request, 2, &versioned);
    envelope(PUT, store, true, 6, &request)
}

/// Removes the values that `clock` has seen.
pub(super) fn delete(store: &str, key: &[u8], clock: &Clock) -> Vec<u8> {
    let mut request = Vec::new();
    put_bytes(&mut request, 1, key);
    put_bytes(&mut request, 2, &clock.encoded());
    envelope(DELETE, store, true, 7, &request)
}

/// The values in the response to [`get`].
pub(super) fn values_of(response: &[u8]) -> Result<Vec<Versioned>, Wrong> {
    let mut values = Vec::new();
    for field in fields(response) {
        match field? {
            (1, Field::Bytes(bytes)) => {
                let mut versioned = Versioned::default();
                for field in fields(bytes) {
                    match field? {
                        (1, Field::Bytes(value)) => versioned.value = value.to_vec(),
                        (2, Field::Bytes(clock)) => versioned.clock = Clock::decoded(clock)?,
                        _ => {}
                    }
                }
                values.push(versioned);
            }
            (2, Field::Bytes(error)) => return Err(error_of(error)),
            _ => {}
        }
    }
    Ok(values)
}

/// The clocks in the response to [`versions`].
pub(super) fn versions_of(response: &[u8]) -> Result<Vec<Clock>, Wrong> {
    let mut clocks = Vec::new();
    for field in fields(response) {
        match field? {
            (1, Field::Bytes(clock)) => clocks.push(Clock::decoded(clock)?),
            (2, Field::Bytes(error)) => return Err(error_of(error)),
            _ => {}
        }
    }
    Ok(clocks)
}

/// Whether the response to [`put`] is an error.
pub(super) fn put_done(response: &[u8]) -> Result<(), Wrong> {
    done(response, 1)
}

/// Whether the response to [`delete`] is an error. That there was no value is none.
pub(super) fn delete_done(response: &[u8]) -> Result<(), Wrong> {
    done(response, 2)
}

fn done(response: &[u8], error: u32) -> Result<(), Wrong> {
    for field in fields(response) {
        match field? {
            (number, Field::Bytes(bytes)) if number == error => return Err(error_of(bytes)),
            _ => {}
        }
    }
    Ok(())
}

fn error_of(bytes: &[u8]) -> Wrong {
    let (mut code, mut text) = (0, String::new());
    for field in fields(bytes) {
        match field {
            Ok((1, Field::Number(number))) => code = number,
            Ok((2, Field::Bytes(message))) => text = String::from_utf8_lossy(message).into_owned(),
            Ok(_) => {}
            Err(wrong) => return wrong,
        }
    }
    Wrong::Refused(format!("{text} (code {code})"))
}

/// A `VoldemortRequest`; `routed` lets the server find the nodes that have the key.
fn envelope(kind: u64, store: &str, routed: bool, field: u32, request: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_number(&mut out, 1, kind);
    put_number(&mut out, 2, u64::from(routed));
    put_bytes(&mut out, 3, store.as_bytes());
    put_bytes(&mut out, field, request);
    out
}

/// The value of a field.
#[derive(Debug, PartialEq, Eq)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Of a fixed length, which none of the known fields has.
    Other,
}

/// The fields of a message, each with its number. It ends after an error.
fn fields(bytes: &[u8]) -> impl Iterator<Item = Result<(u32, Field<'_>), Wrong>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let field = take_field(&mut rest);
        if field.is_none() {
            rest = &[];
        }
        Some(field.ok_or_else(|| Wrong::Malformed("a message that ends early".to_owned())))
    })
}

fn take_field<'a>(rest: &mut &'a [u8]) -> Option<(u32, Field<'a>)> {
    let tag = take_number(rest)?;
    let number = u32::try_from(tag >> 3).ok()?;
    let field = match tag & 7 {
        0 => Field::Number(take_number(rest)?),
        1 => take_bytes(rest, 8).map(|_| Field::Other)?,
        2 => {
            let length = usize::try_from(take_number(rest)?).ok()?;
            Field::Bytes(take_bytes(rest, length)?)
        }
        5 => take_bytes(rest, 4).map(|_| Field::Other)?,
        _ => return None,
    };
    Some((number, field))
}

fn take_bytes<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(bytes)
}

/// A number of up to ten bytes, the lowest 7 bits first.
fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = take_bytes(rest, 1)?[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn put_number(out: &mut Vec<u8>, field: u32, number: u64) {
    varint(out, u64::from(field) << 3);
    varint(out, number);
}

fn put_bytes(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    varint(out, (u64::from(field) << 3) | 2);
    varint(out, bytes.len() as u64);
    out.extend(bytes);
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number as u8) | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The frames below were written by Google's library for protocol buffers, from the project's
    /// definition.
    fn bytes(hex: &str) -> Vec<u8> {
        let digits = hex.as_bytes().chunks(2);
        let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.map(byte).collect()
    }

    fn clock() -> Clock {
        Clock { entries: vec![(2, 1), (5, 300)] }
    }

    #[test]
    fn requests_are_those_of_the_definition() {
        for (request, hex) in [
            (get("usertable", b"k1", true), "080010011a09757365727461626c6522040a026b31"),
            (versions("usertable", b"k1"), "080410011a09757365727461626c6522040a026b31"),
            (
                put("usertable", b"k1", b"v", &clock()),
                "080210011a09757365727461626c6532180a026b3112120a0176120d0a04080210010a05080510ac02",
            ),
            (
                put("usertable", b"k1", b"v", &Clock::default()),
                "080210011a09757365727461626c65320b0a026b3112050a01761200",
            ),
            (
                delete("usertable", b"k1", &clock()),
                "080310011a09757365727461626c653a130a026b31120d0a04080210010a05080510ac02",
            ),
        ] {
            assert_eq!(request, bytes(hex), "{hex}");
        }
    }

    const TWO_VALUES: &str = "0a1d0a055b2261225d12140a04080210010a05080510ac0210e8d9cde2e526\
                              0a0b0a017812060a0408021007";

    #[test]
    fn responses_are_read() {
        let other = Clock { entries: vec![(2, 7)] };
        let values = values_of(&bytes(TWO_VALUES)).unwrap();
        let expected = [(&b"[\"a\"]"[..], clock()), (b"x", other.clone())];
        let expected = expected.map(|(v, clock)| Versioned { value: v.to_vec(), clock });
        assert_eq!(values, expected);
        let merged = Clock::merged(values.into_iter().map(|value| value.clock));
        assert_eq!(merged, Clock { entries: vec![(2, 7), (5, 300)] });
        assert_eq!(versions_of(&bytes("0a0d0a04080210010a05080510ac02")), Ok(vec![clock()]));
        assert_eq!(values_of(&[]), Ok(Vec::new()));
        assert_eq!(put_done(&[]), Ok(()));
        assert_eq!(delete_done(&bytes("0800")), Ok(()), "there was no value");
    }

    #[test]
    fn errors_of_the_server_are_read() {
        let refused = |text: &str| Wrong::Refused(text.to_owned());
        let missing = bytes("120c080412086e6f2073746f7265");
        assert_eq!(values_of(&missing), Err(refused("no store (code 4)")));
        assert_eq!(versions_of(&missing), Err(refused("no store (code 4)")));
        let obsolete = bytes("0a0c080412086f62736f6c657465");
        assert_eq!(put_done(&obsolete), Err(refused("obsolete (code 4)")));
        assert_eq!(delete_done(&bytes("080012050801120178")), Err(refused("x (code 1)")));
    }

    #[test]
    fn damaged_responses_are_errors_or_other_answers_and_never_a_panic() {
        let good = bytes(TWO_VALUES);
        for at in 0..good.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut other = good.clone();
                other[at] = byte;
                let _ = (values_of(&other), versions_of(&other), put_done(&other));
            }
        }
        for wrong in
            ["0a", "0aff", "0affffffffffffffffff01", "08", "0880", "0b", "0f", "09ff", "0dff"]
        {
            let wrong = bytes(wrong);
            assert!(matches!(values_of(&wrong), Err(Wrong::Malformed(_))), "{wrong:x?}");
        }
        let entry = bytes("0a0408021001");
        let clock = |entries: usize| Clock::decoded(&entry.repeat(entries));
        assert!(clock(CLOCK_ENTRIES_MAX).is_ok() && clock(CLOCK_ENTRIES_MAX + 1).is_err());
    }
}
