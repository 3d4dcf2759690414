//! The queries whose partial states are fuzzed, and the lines that they collect: shared by the
//! target and by the example that writes its seeds.

use std::sync::Arc;

use query::source::{ScanUnit, Source, SourceError, TimeRange, Whose};
use query::{Context, Query, function_documentation, pipe_documentation, run_partial};
use record::{Batch, BatchBuilder, Format, FrameBuilder, LineId, Origin, Transport};

/// Bytes of the version and the fingerprint at the beginning of each state. The target writes them
/// itself, because a state with another fingerprint is refused before the rest is read.
pub const HEAD_BYTES: usize = 9;

/// Lines in memory, as one unit.
pub struct Memory(Option<Arc<Batch>>);

struct Unit(Arc<Batch>);

impl Source for Memory {
    fn units(&self, _: TimeRange, _: Whose) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
        Ok(self.0.iter().map(|batch| Box::new(Unit(batch.clone())) as Box<dyn ScanUnit>).collect())
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
        Ok(Some(self.0.clone()))
    }
}

impl Memory {
    /// No lines.
    pub fn empty() -> Memory {
        Memory(None)
    }

    /// So many lines, with the fields that the examples of the documentation name.
    pub fn of_lines(count: usize) -> Memory {
        let mut frame = FrameBuilder::new();
        let origin = Origin::new(Transport::Http, Format::Auto, None);
        (0..count).for_each(|_| frame.push_line(&origin, 1, b"some text", false));
        let frame = Arc::new(frame.finish(1, 1).expect("there are lines"));
        let mut builder = BatchBuilder::new(frame.clone());
        for (number, line) in frame.lines().enumerate() {
            let (host, took) = (format!("h{}", number % 2), (number * 37 % 101).to_string());
            let user = format!("u{number}");
            builder.begin_row(&line);
            builder.set_time(number as i64);
            for (name, value) in [
                ("_msg", "some text"),
                ("host", &host),
                ("hostname", &host),
                ("level", &took),
                ("num", &took),
                ("took", &took),
                ("bytes", &took),
                ("path", &host),
                ("user", &user),
            ] {
                let id = builder.field_id(name).expect("few names");
                builder.push_made(id, value.as_bytes());
            }
            builder.end_row();
        }
        Memory(Some(Arc::new(builder.finish())))
    }
}

/// The queries that have a partial state, one for each operator and kind of groups, with the head
/// of their states.
pub fn queries() -> Vec<(Query, Vec<u8>)> {
    let pipes = pipe_documentation().map(|doc| doc.example.to_owned());
    let stats = function_documentation().flat_map(|doc| {
        ["", "by (host)", "by (_time:3ns)", "by (host, num:5)"]
            .map(|by| format!("stats {by} {}", doc.example))
    });
    let more = ["sort by (num, _time)", "top 3 by (host)", "uniq by (host, num)"];
    let texts = pipes.chain(stats).chain(more.map(str::to_owned));
    let with_state = |text: String| {
        let query = Query::parse(&format!("* | {text}"), 0).ok()?;
        let state = run_partial(&query, &Memory::empty(), &Context::default()).ok()??;
        Some((query, state.bytes[..HEAD_BYTES].to_vec()))
    };
    texts.filter_map(with_state).collect()
}
