//! A summary row: as a value, as a JSON line, and read back from a parsed line.

use std::collections::BTreeMap;

use record::{Batch, Row, Transport};
use serde::{Deserialize, Serialize};
use text::json::write_text;
use text::time::format_time;

use crate::summary::SUMMARY_TYPE;

/// Keys of a row that are neither dimension nor sum.
#[cfg(test)]
pub(crate) const FIXED_KEYS: [&str; 8] =
    ["_time", "_msg", "type", "summary_of", "bucket_s", "lines", "bytes", "rerun"];

/// Counts of one type over one bucket of event time; a part of them if there are several rows for
/// the bucket. Nodes send rows to each other as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryRow {
    /// Start of the bucket, nanoseconds since 1970 UTC.
    pub time_ns: i64,
    /// Width of the bucket, seconds.
    pub bucket_s: u64,
    /// Type of the lines counted.
    pub summary_of: String,
    /// Lines counted.
    pub lines: u64,
    /// Bytes of the raw lines, without the newlines between them.
    pub bytes: u64,
    /// Lines by value, for each dimension.
    pub dimensions: BTreeMap<String, BTreeMap<String, u64>>,
    /// Sums of numbers in the lines.
    pub sums: BTreeMap<String, u64>,
    /// Number of the rerun that it belongs to; `None`: it belongs to the running summary.
    pub rerun: Option<u64>,
    /// The flush that it belongs to, if it was read from the store; not written.
    pub through: Option<u64>,
}

impl SummaryRow {
    /// Appends the row as one line of JSON, newline included.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        let text = |out: &mut Vec<u8>, text: &str| write_text(text.as_bytes(), out);
        let number = |out: &mut Vec<u8>, key: &str, n: u64| {
            out.push(b',');
            text(out, key);
            out.push(b':');
            out.extend_from_slice(n.to_string().as_bytes());
        };
        out.extend_from_slice(b"{\"_time\":");
        text(out, &format_time(self.time_ns));
        out.extend_from_slice(b",\"summary_of\":");
        text(out, &self.summary_of);
        number(out, "bucket_s", self.bucket_s);
        number(out, "lines", self.lines);
        number(out, "bytes", self.bytes);
        if let Some(rerun) = self.rerun {
            number(out, "rerun", rerun);
        }
        for (name, values) in &self.dimensions {
            out.push(b',');
            text(out, name);
            out.extend_from_slice(b":{");
            for (i, (value, lines)) in values.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                text(out, value);
                out.push(b':');
                out.extend_from_slice(lines.to_string().as_bytes());
            }
            out.push(b'}');
        }
        for (name, sum) in &self.sums {
            number(out, name, *sum);
        }
        out.extend_from_slice(b",\"_msg\":");
        text(out, &self.message());
        out.extend_from_slice(b"}\n");
    }

    /// A sentence for people who read the rows as lines. It names no level: a search for the word
    /// `error` should find errors, not their counts.
    fn message(&self) -> String {
        let plural = if self.lines == 1 { "" } else { "s" };
        format!("summary of {}: {} line{plural}", self.summary_of, self.lines)
    }

    /// Reads a row from the time and the fields of a parsed line. `None` if it is not a summary
    /// row. Fields that are neither fixed nor numbers are ignored: a parser may add fields.
    pub fn from_fields<'a>(
        time_ns: i64,
        fields: impl Iterator<Item = (&'a str, &'a [u8])>,
    ) -> Option<SummaryRow> {
        let mut row = SummaryRow {
            time_ns,
            bucket_s: 0,
            summary_of: String::new(),
            lines: 0,
            bytes: 0,
            dimensions: BTreeMap::new(),
            sums: BTreeMap::new(),
            rerun: None,
            through: None,
        };
        for (name, value) in fields {
            if name == "summary_of" {
                row.summary_of = String::from_utf8_lossy(value).into_owned();
                continue;
            }
            let Some(number) = whole_number(value) else { continue };
            match name {
                "bucket_s" => row.bucket_s = number,
                "lines" => row.lines = number,
                "bytes" => row.bytes = number,
                "rerun" => row.rerun = Some(number),
                _ if name.starts_with('_') => {}
                _ => match name.split_once('.') {
                    Some((dimension, value)) => {
                        let values = row.dimensions.entry(dimension.to_owned()).or_default();
                        values.insert(value.to_owned(), number);
                    }
                    None => {
                        row.sums.insert(name.to_owned(), number);
                    }
                },
            }
        }
        (!row.summary_of.is_empty() && row.bucket_s > 0).then_some(row)
    }
}

/// The summary rows of a batch read from the store, without those of flushes that `settled_through`
/// (of a [`Snapshot`](crate::summary::Snapshot)) does not cover: the snapshot still has their
/// counts. Lines of type `summary` that were sent are no rows.
pub fn stored_rows(
    batch: &Batch,
    settled_through: Option<u64>,
) -> impl Iterator<Item = SummaryRow> + use<'_> {
    let settled = move |row: &Row<'_>| {
        let origin = &batch.origins()[usize::from(row.origin_index())];
        origin.transport == Transport::Internal
            && origin.hints.summarised_through <= settled_through
    };
    let type_id = batch.field_id("_type");
    let of_type = type_id.map(|id| {
        let is_summary = move |row: &Row<'_>| row.get(id) == Some(SUMMARY_TYPE.as_bytes());
        batch.rows().filter(move |row| is_summary(row) && settled(row))
    });
    of_type.into_iter().flatten().filter_map(|row| {
        let fields = row.fields().map(|(id, value)| (batch.name(id), value));
        let mut summary = SummaryRow::from_fields(row.time_ns(), fields)?;
        summary.through = batch.origins()[usize::from(row.origin_index())].hints.summarised_through;
        Some(summary)
    })
}

/// A value as a whole number, the way sums and stored counts are read.
pub(crate) fn whole_number(value: &[u8]) -> Option<u64> {
    if !value.first()?.is_ascii_digit() {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Flattens a JSON line as the parser does: the reference for rows read from the store.
    pub(crate) fn parse(line: &[u8]) -> Option<SummaryRow> {
        let json: serde_json::Value = serde_json::from_slice(line).expect("one JSON object");
        let mut fields: Vec<(String, Vec<u8>)> = Vec::new();
        for (key, value) in json.as_object().unwrap() {
            match value {
                serde_json::Value::Object(map) => {
                    for (inner, value) in map {
                        fields.push((format!("{key}.{inner}"), value.to_string().into_bytes()));
                    }
                }
                serde_json::Value::String(s) => fields.push((key.clone(), s.clone().into_bytes())),
                other => fields.push((key.clone(), other.to_string().into_bytes())),
            }
        }
        SummaryRow::from_fields(0, fields.iter().map(|(k, v)| (k.as_str(), v.as_slice())))
    }

    fn counts(values: &[(&str, u64)]) -> BTreeMap<String, u64> {
        values.iter().map(|(v, n)| ((*v).to_owned(), *n)).collect()
    }

    fn sample() -> SummaryRow {
        SummaryRow {
            time_ns: 1_769_860_800_000_000_000,
            bucket_s: 10,
            summary_of: "access".into(),
            lines: 123,
            bytes: 45_678,
            dimensions: BTreeMap::from([
                ("level".to_owned(), counts(&[("error", 3), ("info", 120)])),
                ("hostname".to_owned(), counts(&[("web1", 60), ("web2.example.com", 63)])),
                ("status".to_owned(), counts(&[("200", 120), ("500", 3)])),
                ("app_name".to_owned(), counts(&[("a\"b\n\u{fffd}<script>", 123)])),
            ]),
            sums: counts(&[("response_bytes", 123_456)]),
            rerun: None,
            through: None,
        }
    }

    #[test]
    fn json_reads_as_documented() {
        let mut out = Vec::new();
        sample().write_json(&mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            concat!(
                r#"{"_time":"2026-01-31T12:00:00Z","summary_of":"access","bucket_s":10,"#,
                r#""lines":123,"bytes":45678,"app_name":{"a\"b\n�<script>":123},"#,
                r#""hostname":{"web1":60,"web2.example.com":63},"level":{"error":3,"info":120},"#,
                r#""status":{"200":120,"500":3},"response_bytes":123456,"_msg":"summary of access: 123 lines"}"#,
                "\n"
            )
        );
    }

    #[test]
    fn a_written_row_is_read_back() {
        let mut out = Vec::new();
        sample().write_json(&mut out);
        let read = parse(&out).unwrap();
        assert_eq!(read, SummaryRow { time_ns: 0, ..sample() });
    }

    #[test]
    fn other_lines_are_not_rows() {
        for line in [
            r#"{"type":"summary"}"#,
            r#"{"summary_of":"x"}"#,
            r#"{"summary_of":"x","bucket_s":0,"lines":1}"#,
            r#"{"summary_of":"","bucket_s":10,"lines":1}"#,
            r#"{"summary_of":"x","bucket_s":-10,"lines":1}"#,
        ] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
        let row = parse(
            br#"{"summary_of":"x","bucket_s":1,"lines":-1,"level":{"a":1.5,"b":2},"n":"+7"}"#,
        );
        let row = row.unwrap();
        assert_eq!((row.lines, row.sums.len()), (0, 0));
        assert_eq!(row.dimensions["level"], counts(&[("b", 2)]));
    }
}
