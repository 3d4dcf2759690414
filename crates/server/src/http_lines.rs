//! Lines of HTTP requests, on their way into frames and to whoever keeps those: the store of this process, or others elsewhere.

use std::sync::Arc;

use collector::{
    Accounting, Deliver, DeliverError, FRAME_AGE_AWAITED_MS, Intake, SourceCounters, SourceKind,
    Ticket,
};
use platform::Clock;
use record::frame::LINE_BYTES_MAX;
use record::{FrameBuilder, Origin};

use crate::stored::Parsers;

/// Takes lines of requests.
pub struct HttpLines {
    intake: Intake,
    deliver: Arc<dyn Deliver>,
    accounting: Arc<Accounting>,
    clock: Arc<dyn Clock>,
    parsers: Arc<Parsers>,
}

impl HttpLines {
    /// Takes lines from now on. `parsers` show how lines are understood, to those who ask for that alone.
    pub fn start(
        deliver: Arc<dyn Deliver>,
        accounting: Arc<Accounting>,
        clock: Arc<dyn Clock>,
        parsers: Arc<Parsers>,
    ) -> HttpLines {
        let intake = Intake::start(
            SourceKind::Http,
            FRAME_AGE_AWAITED_MS,
            Arc::clone(&deliver),
            Arc::clone(&accounting),
        );
        HttpLines { intake, deliver, accounting, clock, parsers }
    }

    /// Takes lines, as many as fit into one frame; the rest is to be pushed next. Blocks while whoever keeps them is behind.
    pub fn push<'a>(&self, origin: &Origin, lines: &'a [u8]) -> (Ticket, &'a [u8]) {
        self.intake.push(origin, self.clock.now_ns(), lines)
    }

    /// Whether lines would be taken without waiting, most likely.
    pub fn has_room(&self) -> bool {
        self.intake.has_room()
    }

    /// Why lines would be refused at present.
    pub fn refusal(&self) -> Option<DeliverError> {
        self.deliver.refusal()
    }

    /// Writes to our own log how lines are parsed, and keeps nothing of them.
    pub fn show_parsed(&self, origin: &Origin, lines: &[u8]) {
        for line in lines.split_inclusive(|&b| b == b'\n') {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let mut frame = FrameBuilder::new();
            let cut = line.len() > LINE_BYTES_MAX;
            let kept = &line[..line.len().min(LINE_BYTES_MAX)];
            frame.push_line(origin, self.clock.now_ns(), kept, cut);
            let frame = frame.finish(0, 0).expect("it has a line");
            let batch = self.parsers.parse(Arc::new(frame));
            let row = batch.row(0);
            let fields: Vec<String> = row
                .fields()
                .map(|(id, value)| {
                    format!("{}={:?}", batch.name(id), String::from_utf8_lossy(value))
                })
                .collect();
            tracing::info!(time_ns = row.time_ns(), "debug=1, not kept: {}", fields.join(" "));
        }
    }

    /// What came and was not kept.
    pub fn counters(&self) -> &SourceCounters {
        self.accounting.source(SourceKind::Http)
    }

    /// Hands on what waits. Later lines are refused.
    pub fn stop(&self) {
        self.intake.stop();
    }
}
