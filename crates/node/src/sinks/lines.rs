//! Lines that a filter lets through, as documents: the fields of each, and its id. Of Loginson's
//! own lines these are those whose type the filter names.

use std::sync::Arc;

use record::Row;
use sinks::{Batch as Documents, Document, Value};
use store::LineFilter;

use super::feed::{ArrivalReader, Feed};
use crate::storage::arrivals::Arrivals;
use crate::storage::line_filter::sink_filter;

/// Reads lines behind a cursor.
pub struct LineFeed {
    reader: ArrivalReader,
    filter: LineFilter,
}

impl LineFeed {
    /// A feed behind `cursor`, the text of an earlier batch.
    pub fn new(
        arrivals: Arc<dyn Arrivals>,
        filter: &str,
        cursor: Option<&str>,
        from_beginning: bool,
    ) -> Result<LineFeed, String> {
        let filter = sink_filter(filter)?;
        Ok(LineFeed { reader: ArrivalReader::new(arrivals, cursor, from_beginning)?, filter })
    }
}

impl Feed for LineFeed {
    fn next(&mut self) -> Result<Option<Documents>, String> {
        let Some(batches) = self.reader.read()? else { return Ok(None) };
        let (first_ns, last_ns) = self.filter.range_ns;
        let mut documents = Vec::new();
        for batch in &batches {
            let selected = (self.filter.selects)(batch);
            for (row, _) in batch.rows().zip(selected).filter(|(_, is_selected)| *is_selected) {
                if (first_ns..=last_ns).contains(&row.time_ns()) {
                    documents.push(document(&row, |id| batch.name(id)));
                }
            }
        }
        Ok(Some(Documents { documents, cursor: self.cursor() }))
    }

    fn cursor(&self) -> String {
        self.reader.cursor().to_owned()
    }

    fn frames_left(&self) -> u64 {
        self.reader.frames_left()
    }
}

/// A line with all its fields as text. Bytes that are not UTF-8 are replaced.
fn document<'b>(row: &Row<'b>, name: impl Fn(record::FieldId) -> &'b str) -> Document {
    let fields = row.fields().filter(|(_, value)| !value.is_empty());
    let fields = fields.map(|(id, value)| {
        (name(id).to_owned(), Value::String(String::from_utf8_lossy(value).into_owned()))
    });
    Document::new(row.id().to_string(), row.time_ns(), fields.collect())
}

#[cfg(test)]
mod tests {
    use record::{Format, FrameBuilder, Origin, Parser, ParserConfig, Transport};

    use super::*;
    use crate::storage::arrivals::{Arrived, Skipped};

    /// Some lines that arrive together.
    struct Together(Arc<record::Batch>);

    impl Arrivals for Together {
        fn first(&self) -> Result<String, String> {
            Ok("first".to_owned())
        }

        fn now(&self) -> Result<String, String> {
            Ok("last".to_owned())
        }

        fn after(&self, cursor: &str, _: u64) -> Result<Option<Arrived>, String> {
            let batches = vec![Arc::clone(&self.0)];
            let skipped = Skipped::Lines(0);
            let arrived = Arrived { batches, next: "last".to_owned(), skipped };
            Ok((cursor == "first").then_some(arrived))
        }

        fn frames_left(&self, _: &str) -> u64 {
            0
        }

        fn check(&self, _: &str) -> Result<(), String> {
            Ok(())
        }
    }

    #[test]
    fn the_last_nanosecond_of_a_range_is_sent() {
        let mut frame = FrameBuilder::new();
        let origin = Origin::new(Transport::Http, Format::Json, None);
        for time in ["11:59:59.999999999", "12:00:00", "12:00:00.999999999", "12:00:01"] {
            let line = format!(r#"{{"_time":"2026-01-31T{time}Z","_msg":"m"}}"#);
            // 2026-01-31T13:00:00Z
            frame.push_line(&origin, 1_769_864_400_000_000_000, line.as_bytes(), false);
        }
        let frame = Arc::new(frame.finish(1, 1).unwrap());
        let batch = Arc::new(Parser::new(&ParserConfig::default()).unwrap().parse(frame));
        let from = Arc::new(Together(batch)) as Arc<dyn Arrivals>;
        for (filter, expected) in [
            ("_time:[2026-01-31T12:00:00Z, 2026-01-31T12:00:01Z)", 2),
            ("_time:=2026-01-31T12:00:00.999999999Z", 1),
            ("_time:<=2026-01-31T12:00:01Z", 4),
            ("*", 4),
        ] {
            let mut feed = LineFeed::new(Arc::clone(&from), filter, None, true).unwrap();
            let sent = feed.next().unwrap().unwrap();
            assert_eq!((sent.documents.len(), &*sent.cursor), (expected, "last"), "{filter}");
            assert!(feed.next().unwrap().is_none());
        }
    }
}
