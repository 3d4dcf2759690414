//! Records in memory for tests: fields are set by hand, no parser is needed.

use std::sync::Arc;

use query::source::{ScanUnit, Source, SourceError, TimeRange, Whose};
use record::{Batch, BatchBuilder, Format, FrameBuilder, LineId, Origin, Transport};

/// A record: event time, and fields.
#[derive(Clone, Debug)]
pub struct Record {
    pub time_ns: i64,
    pub fields: Vec<(String, String)>,
}

pub fn record(time_ns: i64, fields: &[(&str, &str)]) -> Record {
    let fields = fields.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
    Record { time_ns, fields }
}

/// A batch of records; the line of each is its field `_raw`, or else its `_msg`.
pub fn batch(sequence: u64, records: &[Record]) -> Arc<Batch> {
    let mut frame = FrameBuilder::new();
    let origin = Origin::new(Transport::Http, Format::Auto, None);
    let get = |record: &Record, name: &str| {
        record.fields.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone())
    };
    for record in records {
        let raw = get(record, "_raw").or_else(|| get(record, "_msg")).unwrap_or_default();
        frame.push_line(&origin, 1, raw.as_bytes(), false);
    }
    let frame = Arc::new(frame.finish(1, sequence).expect("there are records"));
    let mut builder = BatchBuilder::new(Arc::clone(&frame));
    for (line, record) in frame.lines().zip(records) {
        builder.begin_row(&line);
        builder.set_time(record.time_ns);
        for (name, value) in record.fields.iter().filter(|(name, _)| name != "_raw") {
            let id = builder.field_id(name).expect("few names");
            builder.push_made(id, value.as_bytes());
        }
        builder.end_row();
    }
    Arc::new(builder.finish())
}

/// A source over batches.
pub struct Memory(pub Vec<Arc<Batch>>);

struct Unit(Arc<Batch>);

impl Source for Memory {
    fn units(&self, _: TimeRange, _: Whose) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
        Ok(self.0.iter().map(|b| Box::new(Unit(Arc::clone(b))) as Box<dyn ScanUnit>).collect())
    }

    fn find(&self, _: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
        Ok(None)
    }
}

impl ScanUnit for Unit {
    fn time_range_ns(&self) -> Option<(i64, i64)> {
        Some(self.0.time_range_ns())
    }

    fn lines(&self) -> u64 {
        self.0.len() as u64
    }

    fn bytes(&self) -> u64 {
        self.0.raw_bytes()
    }

    fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
        Ok(Some(Arc::clone(&self.0)))
    }
}
