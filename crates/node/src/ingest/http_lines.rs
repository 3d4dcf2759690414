//! Passes lines of HTTP requests into frames, which go to the store of this process, or to other
//! stores.

use std::cmp::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use collector::{
    Accounting, Deliver, FRAME_AGE_AWAITED_MS, Intake, KeepError, SourceCounters, SourceKind,
    Ticket,
};
use platform::Clock;
use record::frame::LINE_BYTES_MAX;
use record::{FrameBuilder, Origin};

use crate::storage::stored::Parsers;

/// Limit of the lines shown in our own log per minute, over all requests with `debug`. Further ones
/// are not shown.
const SHOWN_LINES_MAX: u32 = 1_000;
/// Limit of the shown part of a line.
const SHOWN_BYTES_MAX: usize = 4_096;

/// Takes lines of requests.
pub struct HttpLines {
    intake: Intake,
    deliver: Arc<dyn Deliver>,
    accounting: Arc<Accounting>,
    clock: Arc<dyn Clock>,
    parsers: Arc<Parsers>,
    shown: Mutex<Shown>,
}

/// Lines shown since that time.
struct Shown {
    since: Instant,
    lines: u32,
}

/// Whether a line may be shown.
enum Room {
    Some,
    /// This line may not, and it is the first one, which has to be reported.
    Last,
    None,
}

impl HttpLines {
    /// Accepts lines from now on. `parsers` show how lines are parsed, for requests with `debug`.
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
        let shown = Mutex::new(Shown { since: Instant::now(), lines: 0 });
        HttpLines { intake, deliver, accounting, clock, parsers, shown }
    }

    /// Accepts as many lines as fit into one frame and returns the rest, to be pushed next. Blocks
    /// while delivery is behind.
    pub fn push<'a>(&self, origin: &Origin, lines: &'a [u8]) -> (Ticket, &'a [u8]) {
        self.intake.push(origin, self.clock.now_ns(), lines)
    }

    /// Accepts one record, which may contain newlines. Blocks while delivery is behind.
    pub fn push_record(&self, origin: &Origin, record: &[u8]) -> Ticket {
        self.intake.push_record(origin, self.clock.now_ns(), record)
    }

    /// Whether a push would probably not block.
    pub fn has_room(&self) -> bool {
        self.intake.has_room()
    }

    /// Whether acknowledged lines may be in the spool of this machine alone.
    pub fn is_spooling(&self) -> bool {
        self.deliver.is_spooling()
    }

    /// Why lines would be refused at present.
    pub fn refusal(&self) -> Option<KeepError> {
        self.deliver.refusal()
    }

    /// Writes to our own log how lines are parsed, without keeping them. Any client may request
    /// that, so only [`SHOWN_LINES_MAX`] lines are shown per minute, long values are truncated, and
    /// names and values are escaped.
    pub fn show_parsed(&self, origin: &Origin, lines: &[u8]) {
        for line in lines.split_inclusive(|&b| b == b'\n') {
            match self.room_to_show() {
                Room::Some => {}
                Room::Last => {
                    tracing::info!(
                        "debug=1: {SHOWN_LINES_MAX} lines were shown in the last minute; further ones are neither shown nor kept"
                    );
                    return;
                }
                Room::None => return,
            }
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let mut frame = FrameBuilder::new();
            let cut = line.len() > LINE_BYTES_MAX;
            let kept = &line[..line.len().min(LINE_BYTES_MAX)];
            frame.push_line(origin, self.clock.now_ns(), kept, cut);
            let frame = frame.finish(0, 0).expect("it has a line");
            let batch = self.parsers.parse(Arc::new(frame));
            let row = batch.row(0);
            let mut fields = String::new();
            for (id, value) in row.fields() {
                let value = &value[..value.len().min(SHOWN_BYTES_MAX)];
                let name = batch.name(id).escape_debug();
                fields.push_str(&format!(" {name}={:?}", String::from_utf8_lossy(value)));
                if fields.len() > SHOWN_BYTES_MAX {
                    let end = fields.floor_char_boundary(SHOWN_BYTES_MAX);
                    fields.truncate(end);
                    fields.push_str(" … (cut)");
                    break;
                }
            }
            let peer = origin.sender.map(|sender| sender.to_string()).unwrap_or_default();
            tracing::info!(time_ns = row.time_ns(), peer, "debug=1, not kept:{fields}");
        }
    }

    /// Checks whether a line may be shown now.
    fn room_to_show(&self) -> Room {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.since.elapsed() > Duration::from_secs(60) {
            *shown = Shown { since: Instant::now(), lines: 0 };
        }
        shown.lines = shown.lines.saturating_add(1);
        match shown.lines.cmp(&(SHOWN_LINES_MAX + 1)) {
            Ordering::Less => Room::Some,
            Ordering::Equal => Room::Last,
            Ordering::Greater => Room::None,
        }
    }

    /// Counters of lines that were not kept.
    pub fn counters(&self) -> &SourceCounters {
        self.accounting.source(SourceKind::Http)
    }

    /// Hands on the waiting lines. Later lines are refused.
    pub fn stop(&self) {
        self.intake.stop();
    }
}
