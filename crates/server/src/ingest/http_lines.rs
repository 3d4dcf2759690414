//! Lines of HTTP requests, on their way into frames and to whoever keeps those: the store of this
//! process, or others elsewhere.

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

/// Lines that are shown in our own log within a minute, of all requests with `debug`. Further ones
/// are not.
const SHOWN_LINES_MAX: u32 = 1_000;
/// Bytes of a line that are shown there.
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

/// What was shown of lines since then.
struct Shown {
    since: Instant,
    lines: u32,
}

/// For lines to be shown.
enum Room {
    Some,
    /// This one has none, and that is to be said.
    Last,
    None,
}

impl HttpLines {
    /// Takes lines from now on. `parsers` show how lines are understood, to those who ask for that
    /// alone.
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

    /// Takes lines, as many as fit into one frame; the rest is to be pushed next. Blocks while
    /// whoever keeps them is behind.
    pub fn push<'a>(&self, origin: &Origin, lines: &'a [u8]) -> (Ticket, &'a [u8]) {
        self.intake.push(origin, self.clock.now_ns(), lines)
    }

    /// Whether lines would be taken without waiting, most likely.
    pub fn has_room(&self) -> bool {
        self.intake.has_room()
    }

    /// Why lines would be refused at present.
    pub fn refusal(&self) -> Option<KeepError> {
        self.deliver.refusal()
    }

    /// Writes to our own log how lines are parsed, and keeps nothing of them. Any client may ask
    /// for that, so a minute has room for [`SHOWN_LINES_MAX`] lines only, what is too long is cut,
    /// and names and values are escaped.
    pub fn show_parsed(&self, origin: &Origin, lines: &[u8]) {
        for line in lines.split_inclusive(|&b| b == b'\n') {
            match self.room_to_show() {
                Room::Some => {}
                Room::Last => {
                    tracing::info!(
                        "debug=1: {SHOWN_LINES_MAX} lines were shown within a minute; further ones are neither shown nor kept"
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

    /// Whether a line may be shown now.
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

    /// What came and was not kept.
    pub fn counters(&self) -> &SourceCounters {
        self.accounting.source(SourceKind::Http)
    }

    /// Hands on what waits. Later lines are refused.
    pub fn stop(&self) {
        self.intake.stop();
    }
}
