//! `{"streams":[{"stream":{"app":"x"},"values":[["1769860800000000000","a
//! line",{"trace":"7"}]]}]}`.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::loki::push::{Entry, Pairs, PushError, Stream};

#[derive(Deserialize)]
struct Body<'b> {
    #[serde(borrow)]
    streams: Vec<Written<'b>>,
}

#[derive(Deserialize)]
struct Written<'b> {
    #[serde(borrow)]
    stream: Members<'b>,
    #[serde(borrow)]
    values: Vec<Line<'b>>,
}

/// A string, borrowed if it has no escapes.
#[derive(Deserialize)]
struct Text<'b>(#[serde(borrow)] Cow<'b, str>);

/// The members of an object, all of them strings.
struct Members<'b>(Pairs<'b>);

/// Time, line, and optional metadata.
struct Line<'b>(Entry<'b>);

/// Parses a body.
pub(crate) fn read(content: &[u8]) -> Result<Vec<Stream<'_>>, PushError> {
    let body: Body<'_> = serde_json::from_slice(content)
        .map_err(|error| PushError::Wrong(format!("the JSON is not in Loki's format: {error}")))?;
    Ok(body.streams.into_iter().map(Written::stream).collect())
}

impl<'b> Written<'b> {
    fn stream(self) -> Stream<'b> {
        let entries = self.values.into_iter().map(|line| line.0).collect();
        Stream { labels: self.stream.0, entries }
    }
}

impl<'de: 'b, 'b> Deserialize<'de> for Members<'b> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut pairs = Pairs::new();
                while let Some((Text(name), Text(value))) = map.next_entry()? {
                    pairs.push((name, value));
                }
                Ok(Members(pairs))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

impl<'de: 'b, 'b> Deserialize<'de> for Line<'b> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Parts;
        impl<'de> Visitor<'de> for Parts {
            type Value = Line<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("[\"nanoseconds\", \"line\"], optionally with an object of metadata")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Line<'de>, A::Error> {
                let Text(time) =
                    parts.next_element()?.ok_or_else(|| A::Error::invalid_length(0, &self))?;
                let time_ns = time.parse().map_err(|_| {
                    A::Error::custom(format!("{time:?} is not a time in nanoseconds since 1970"))
                })?;
                let Text(line) =
                    parts.next_element()?.ok_or_else(|| A::Error::invalid_length(1, &self))?;
                let metadata: Option<Members<'_>> = parts.next_element()?;
                let metadata = metadata.map_or_else(Pairs::new, |members| members.0);
                Ok(Line(Entry { time_ns, line, metadata }))
            }
        }
        deserializer.deserialize_seq(Parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_read() {
        let body = r#"{"streams":[
            {"stream":{"app":"x","h\u00f6st":"a\"b"},"values":[
                ["1769860800000000005","a line"],
                ["-1","é\n",{"trace":"7"}]
            ]},
            {"stream":{},"values":[]}
        ],"more":1}"#;
        let entry =
            |time_ns, line: &'static str, metadata| Entry { time_ns, line: line.into(), metadata };
        let streams = [
            Stream {
                labels: vec![("app".into(), "x".into()), ("höst".into(), "a\"b".into())],
                entries: vec![
                    entry(1_769_860_800_000_000_005, "a line", Vec::new()),
                    entry(-1, "é\n", vec![("trace".into(), "7".into())]),
                ],
            },
            Stream { labels: Vec::new(), entries: Vec::new() },
        ];
        assert_eq!(read(body.as_bytes()).unwrap(), streams);
    }

    #[test]
    fn malformed_bodies_are_refused_with_the_position() {
        for (body, message) in [
            ("", "EOF"),
            ("{}", "streams"),
            (r#"{"streams":[{"stream":{"a":1},"values":[]}]}"#, "string"),
            (r#"{"streams":[{"stream":{},"values":[["x","y"]]}]}"#, "not a time in nanoseconds"),
            (r#"{"streams":[{"stream":{},"values":[["1"]]}]}"#, "nanoseconds"),
            (r#"{"streams":[{"stream":{},"values":[["1","a",{},2]]}]}"#, "trailing"),
        ] {
            let error = read(body.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(message), "{body}: {error}");
        }
        let deep = format!("{{\"streams\":{}", "[".repeat(100_000));
        assert!(read(deep.as_bytes()).is_err());
    }
}
