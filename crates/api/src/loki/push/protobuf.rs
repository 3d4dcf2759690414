//! `PushRequest` of Loki's `push.proto`, in snappy's block format.
//!
//! The four messages that are needed are read in place ([`collector::body::protobuf`]), and borrow
//! from the body: a body of 4 MiB may have two million empty entries, and entries are counted
//! before anything is made of them. Unknown fields are skipped, as the format demands.

use std::borrow::Cow;

use collector::body::protobuf::{Broken, Fields, Value};

use crate::loki::push::{
    CONTENT_BYTES_MAX, ENTRIES_MAX, Entry, Pairs, PushError, Stream, begin_of, too_long, too_many,
};

impl From<Broken> for PushError {
    fn from(error: Broken) -> PushError {
        PushError::Wrong(error.to_string())
    }
}

/// Decompresses a body.
pub(crate) fn decompressed(sent: &[u8]) -> Result<Vec<u8>, PushError> {
    let wrong = |error: snap::Error| {
        PushError::Wrong(format!(
            "the body is neither application/json nor snappy-compressed protobuf: {error}"
        ))
    };
    if snap::raw::decompress_len(sent).map_err(wrong)? > CONTENT_BYTES_MAX {
        return Err(too_long());
    }
    snap::raw::Decoder::new().decompress_vec(sent).map_err(wrong)
}

/// Parses a `PushRequest`.
pub(crate) fn read(content: &[u8]) -> Result<Vec<Stream<'_>>, PushError> {
    let (mut streams, mut entries) = (Vec::new(), 0);
    for field in Fields(content) {
        if let (1, Value::Bytes(stream)) = field? {
            streams.push(read_stream(stream, &mut entries)?);
        }
    }
    Ok(streams)
}

/// `StreamAdapter`: its labels are written as a selector. `entries` counts the entries of all
/// streams.
fn read_stream<'b>(content: &'b [u8], entries: &mut usize) -> Result<Stream<'b>, PushError> {
    let mut stream = Stream { labels: Vec::new(), entries: Vec::new() };
    for field in Fields(content) {
        match field? {
            (1, Value::Bytes(labels)) => stream.labels = read_labels(text(labels)?)?,
            (2, Value::Bytes(entry)) => {
                *entries += 1;
                if *entries > ENTRIES_MAX {
                    return Err(too_many());
                }
                stream.entries.push(read_entry(entry)?);
            }
            _ => {}
        }
    }
    Ok(stream)
}

fn read_labels(text: &str) -> Result<Pairs<'static>, PushError> {
    let matchers = logql::parse_matchers(text)
        .map_err(|error| PushError::Wrong(format!("the labels '{}': {error}", begin_of(text))))?;
    Ok(matchers.into_iter().map(|m| (Cow::Owned(m.name), Cow::Owned(m.value))).collect())
}

/// `EntryAdapter`.
fn read_entry(content: &[u8]) -> Result<Entry<'_>, PushError> {
    let mut entry = Entry { time_ns: 0, line: Cow::Borrowed(""), metadata: Vec::new() };
    for field in Fields(content) {
        match field? {
            (1, Value::Bytes(time)) => entry.time_ns = read_time(time)?,
            // A line may contain any bytes.
            (2, Value::Bytes(line)) => entry.line = String::from_utf8_lossy(line),
            (3, Value::Bytes(pair)) => entry.metadata.push(read_pair(pair)?),
            _ => {}
        }
    }
    Ok(entry)
}

/// `google.protobuf.Timestamp`, as nanoseconds since 1970 UTC.
fn read_time(content: &[u8]) -> Result<i64, PushError> {
    let (mut seconds, mut nanos) = (0i64, 0i64);
    for field in Fields(content) {
        match field? {
            (1, Value::Number(number)) => seconds = number as i64,
            (2, Value::Number(number)) => nanos = number as i64,
            _ => {}
        }
    }
    let time_ns = seconds.checked_mul(1_000_000_000).and_then(|ns| ns.checked_add(nanos));
    time_ns.ok_or_else(|| PushError::Wrong(format!("the time of {seconds} s is out of range")))
}

/// `LabelPairAdapter`.
fn read_pair(content: &[u8]) -> Result<(Cow<'_, str>, Cow<'_, str>), PushError> {
    let (mut name, mut value) = ("", Cow::Borrowed(""));
    for field in Fields(content) {
        match field? {
            (1, Value::Bytes(bytes)) => name = text(bytes)?,
            (2, Value::Bytes(bytes)) => value = String::from_utf8_lossy(bytes),
            _ => {}
        }
    }
    Ok((Cow::Borrowed(name), value))
}

fn text(bytes: &[u8]) -> Result<&str, PushError> {
    std::str::from_utf8(bytes).map_err(|_| PushError::Wrong("a name is not UTF-8".to_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn varint(mut number: u64, out: &mut Vec<u8>) {
        while number >= 0x80 {
            out.push(number as u8 | 0x80);
            number >>= 7;
        }
        out.push(number as u8);
    }

    fn bytes(field: u64, content: &[u8], out: &mut Vec<u8>) {
        varint(field << 3 | 2, out);
        varint(content.len() as u64, out);
        out.extend_from_slice(content);
    }

    fn message(fields: &[(u64, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        fields.iter().for_each(|(field, content)| bytes(*field, content, &mut out));
        out
    }

    fn time(seconds: u64, nanos: u64) -> Vec<u8> {
        let mut out = vec![8];
        varint(seconds, &mut out);
        out.push(16);
        varint(nanos, &mut out);
        out
    }

    #[test]
    fn a_request_is_read() {
        let pair = message(&[(1, b"trace"), (2, b"7")]);
        let entry = message(&[(1, &time(1_769_860_800, 5)), (2, b"a \xff"), (3, &pair)]);
        let mut stream = message(&[(1, br#"{app="x", host="a\"b"}"#), (2, &entry)]);
        // A hash, as clients send it, and unknown fields of each wire type.
        stream.extend([3 << 3, 9, 9 << 3 | 1, 0, 0, 0, 0, 0, 0, 0, 0, 8 << 3 | 5, 0, 0, 0, 0]);
        let request = message(&[(1, &stream), (7, b"?"), (1, &message(&[(1, b"{}")]))]);
        let sent = snap::raw::Encoder::new().compress_vec(&request).unwrap();
        let content = decompressed(&sent).unwrap();
        let entry = Entry {
            time_ns: 1_769_860_800_000_000_005,
            line: "a \u{fffd}".into(),
            metadata: vec![("trace".into(), "7".into())],
        };
        let labels = vec![("app".into(), "x".into()), ("host".into(), "a\"b".into())];
        assert_eq!(
            read(&content).unwrap(),
            [
                Stream { labels, entries: vec![entry] },
                Stream { labels: Vec::new(), entries: Vec::new() }
            ]
        );
        // A request cut at any byte is another request, or an error.
        (0..request.len()).for_each(|end| drop(read(&request[..end])));
        let far = message(&[(1, &message(&[(2, &message(&[(1, &time(u64::MAX >> 1, 0))]))]))]);
        assert!(read(&far).unwrap_err().to_string().contains("out of range"));
    }

    #[test]
    fn entries_are_counted_while_they_are_read() {
        let half = message(&vec![(2, &b""[..]); ENTRIES_MAX / 2]);
        let mut request = message(&[(1, &half), (1, &half)]);
        assert_eq!(read(&request).unwrap().len(), 2);
        bytes(1, &message(&[(2, b"")]), &mut request);
        assert!(matches!(read(&request), Err(PushError::TooLarge(_))));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        assert!(matches!(decompressed(b"no snappy"), Err(PushError::Wrong(_))));
        let huge = [0xff, 0xff, 0xff, 0xff, 0x0f];
        assert!(matches!(decompressed(&huge), Err(PushError::TooLarge(_) | PushError::Wrong(_))));
        for broken in [&b"\x0a\x05ab"[..], b"\x0b", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"]
        {
            assert!(matches!(read(broken), Err(PushError::Wrong(_))), "{broken:?}");
        }
        let labels = message(&[(1, &message(&[(1, b"app=x")]))]);
        assert!(read(&labels).unwrap_err().to_string().contains("app=x"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(content in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&content);
            let _ = decompressed(&content);
        }
    }
}
