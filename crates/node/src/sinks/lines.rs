//! Lines that a filter lets through, as documents: the fields of each, and its id.

use std::sync::Arc;

use record::Row;
use sinks::{Batch as Documents, Document, Value};
use store::LineFilter;

use super::feed::{ArrivalReader, Feed};
use crate::storage::arrivals::Arrivals;
use crate::storage::line_filter::line_filter;

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
        let filter = line_filter(filter, 0)?;
        Ok(LineFeed { reader: ArrivalReader::new(arrivals, cursor, from_beginning)?, filter })
    }
}

impl Feed for LineFeed {
    fn next(&mut self) -> Result<Option<Documents>, String> {
        let Some(batches) = self.reader.read()? else { return Ok(None) };
        let (from_ns, to_ns) = self.filter.range_ns;
        let mut documents = Vec::new();
        for batch in batches.iter().filter(|batch| !batch.is_internal()) {
            let selected = (self.filter.selects)(batch);
            for (row, _) in batch.rows().zip(selected).filter(|(_, is_selected)| *is_selected) {
                let time_ns = row.time_ns();
                if from_ns <= time_ns && (time_ns < to_ns || to_ns == i64::MAX) {
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
