//! One body on its way to the disk: pieces in, lines to the intake, and what became durable of
//! them, in order.
//!
//! Handing lines on blocks while delivery does, and so leaves the threads of the runtime for that
//! time; but only where that may be long. Leaving costs two changes of threads, more than all the
//! rest that is done with a piece of a body.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use axum::http::StatusCode;
use collector::body::{Decoder, Elements, Encoding, Shape, WholeLines, ZSTD_WINDOW_LOG_MAX};
use collector::{DropReason, KeepError, SourceCounters, Ticket};
use platform::memory::Share;
use record::Origin;
use tokio::task::block_in_place;

use crate::http::wire::error::{ApiError, ApiResult};
use crate::ingest::http_lines::HttpLines;

/// Bytes of one request on their way to the disk. More of its body is not read until some are
/// durable.
pub const UNACKNOWLEDGED_BYTES_MAX: u64 = 8 << 20;

/// Memory of what decompresses a body: the largest window, and what comes out at once.
const DECODER_BYTES: usize = (1 << ZSTD_WINDOW_LOG_MAX) + (1 << 20);
/// Bytes of an incomplete line that are not counted: nearly all requests stay below.
const HELD_BYTES_FEW: usize = 256 << 10;
/// Seconds after which a request should come again for which there is no memory.
const RETRY_AFTER_S: u32 = 5;

/// What became durable.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    pub lines: u64,
    pub bytes: u64,
}

/// Takes one body.
pub struct Keeper {
    decoder: Decoder,
    /// Where the body may be an array.
    elements: Option<Elements>,
    /// Its pieces are as long as they came, and cost no time to decode.
    is_plain: bool,
    lines: WholeLines,
    sink: Sink,
    /// Came to the end of the body.
    is_whole: bool,
    /// Bytes beside the line that is not whole.
    fixed_bytes: usize,
    /// What is taken out of the budget.
    share: Share,
}

/// Where whole lines go.
struct Sink {
    to: Arc<HttpLines>,
    origin: Origin,
    shape: Shape,
    /// Lines are shown, not kept.
    debug: bool,
    /// Something stood in the body that cannot be understood, so what follows has no meaning.
    is_broken: bool,
    /// Lines could not be kept. The sender is told so, and goes on from there.
    is_refused: bool,
    scratch: Vec<u8>,
    /// A ticket for each frame that has lines of the body, in order.
    waiting: VecDeque<Ticket>,
    waiting_bytes: u64,
    kept: Counts,
}

impl Keeper {
    /// At the start of a body.
    pub fn new(
        to: Arc<HttpLines>,
        origin: Origin,
        encoding: Encoding,
        shape: Shape,
        share: Share,
    ) -> ApiResult<Keeper> {
        let decoder = Decoder::new(encoding)
            .map_err(|error| ApiError::internal(format!("cannot decompress: {error}")))?;
        let sink = Sink {
            to,
            origin,
            shape,
            debug: false,
            is_broken: false,
            is_refused: false,
            scratch: Vec::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            kept: Counts::default(),
        };
        let elements = (shape == Shape::JsonLines).then(Elements::default);
        let mut keeper = Keeper {
            decoder,
            elements,
            is_plain: encoding == Encoding::Plain,
            lines: WholeLines::new(),
            sink,
            is_whole: false,
            fixed_bytes: if encoding == Encoding::Plain { 0 } else { DECODER_BYTES },
            share,
        };
        keeper.hold()?;
        Ok(keeper)
    }

    /// Takes out of the budget what a body needs that is read whole, before so many bytes of it are
    /// kept.
    pub fn hold_whole(&mut self, bytes: usize) -> ApiResult<()> {
        // A vector that grows may have room for as many again.
        self.fixed_bytes = self.fixed_bytes.max(2 * bytes);
        self.hold()
    }

    /// Takes out of the budget what the body holds now.
    fn hold(&mut self) -> ApiResult<()> {
        let held = self.lines.held().len();
        let needed = self.fixed_bytes + if held > HELD_BYTES_FEW { 2 * held } else { 0 };
        self.share.cover(needed).map_err(|exhausted| {
            ApiError::unavailable(exhausted.to_string()).retry_after(RETRY_AFTER_S)
        })
    }

    /// Shows lines in our own log and does not keep them.
    pub fn debug(mut self, debug: bool) -> Keeper {
        self.sink.debug = debug;
        self
    }

    /// Gives the lines that are taken next the fields that name their streams, and `_time` and
    /// `_msg` their usual names; fields of streams that parameters name stay.
    pub fn name_streams(&mut self, fields: Vec<String>) {
        let hints = Arc::make_mut(&mut self.sink.origin.hints);
        if hints.stream_fields.is_empty() {
            hints.stream_fields = fields;
        }
        hints.time_fields = vec!["_time".to_owned()];
        hints.msg_fields = vec!["_msg".to_owned()];
    }

    /// Takes from the front of `chunk` until it is used up, or as much is on its way as may be:
    /// then it returns true, and is to be called again after [`Keeper::make_room`].
    pub fn take(&mut self, chunk: &mut &[u8]) -> ApiResult<bool> {
        self.handing_on(|keeper| {
            while let Some(piece) = keeper.decoder.next(chunk).map_err(undecodable)? {
                let piece = match &mut keeper.elements {
                    Some(elements) => elements.next(piece),
                    None => piece,
                };
                let taken = keeper.lines.take(piece, |block| keeper.sink.push(block));
                keeper.sink.count_skipped(&mut keeper.lines);
                taken?;
                keeper.hold()?;
                if keeper.sink.waiting_bytes > UNACKNOWLEDGED_BYTES_MAX {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    /// Hands on the lines that were collected.
    pub fn flush(&mut self) -> ApiResult<()> {
        if !self.lines.has_collected() {
            return Ok(());
        }
        self.handing_on(|keeper| keeper.lines.flush(|block| keeper.sink.push(block)))
    }

    /// Bytes of memory that wait for the rest of the body.
    pub fn bytes_held(&mut self) -> usize {
        let elements = self.elements.as_ref().map_or(0, Elements::bytes_held);
        self.lines.bytes_held() + self.decoder.bytes_held() + elements
    }

    /// Waits until no more than is allowed is on its way.
    pub async fn make_room(&mut self) -> ApiResult<()> {
        self.sink.settle(UNACKNOWLEDGED_BYTES_MAX).await
    }

    /// Ends the body, which was `taken` whole or not, and waits until all that was taken is
    /// durable.
    pub async fn end(mut self, taken: ApiResult<()>) -> ApiResult<Counts> {
        let ended = match taken {
            Ok(()) => self.handing_on(Keeper::end_lines),
            Err(error) => {
                // What was whole before the fault counts.
                let whole =
                    if self.sink.is_broken || self.sink.is_refused { Ok(()) } else { self.flush() };
                whole.and(Err(error))
            }
        };
        self.is_whole = ended.is_ok();
        let settled = self.sink.settle(0).await;
        let kept = self.sink.kept;
        ended
            .and(settled)
            .map(|()| kept)
            .map_err(|error| error.with("lines", kept.lines).with("bytes", kept.bytes))
    }

    /// Does what may wait for the disk.
    fn handing_on<R>(&mut self, work: impl FnOnce(&mut Keeper) -> R) -> R {
        match self.is_plain && !self.sink.debug && self.sink.to.has_room() {
            true => work(self),
            false => block_in_place(|| work(self)),
        }
    }

    fn end_lines(&mut self) -> ApiResult<()> {
        let last = self.decoder.end().map_err(undecodable)?;
        let last = match &mut self.elements {
            Some(elements) => elements.next(last),
            None => last,
        };
        let taken = self
            .lines
            .take(last, |block| self.sink.push(block))
            .and_then(|()| self.lines.end(|block| self.sink.push(block)));
        self.sink.count_skipped(&mut self.lines);
        taken
    }
}

/// A body that did not come whole is counted, also when its client went away and nobody asks any
/// more.
impl Drop for Keeper {
    fn drop(&mut self) {
        if self.is_whole || self.sink.is_refused {
            return;
        }
        // Of the unread rest at least one line is lost. Its bytes are known as far as they came.
        let held = self.lines.held();
        let newlines = memchr::memchr_iter(b'\n', held).count() as u64;
        let (lines, bytes) = (newlines + 1, held.len() as u64 - newlines);
        let counters = self.sink.counters();
        counters.received(lines, bytes);
        counters.dropped(DropReason::BadRequest, lines);
        counters.dropped_bytes(DropReason::BadRequest, bytes);
    }
}

impl Sink {
    fn push(&mut self, block: &[u8]) -> ApiResult<()> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let (records, result) = match self.shape.records(block, &mut scratch) {
            Ok(records) => (records, Ok(())),
            Err(error) => {
                self.is_broken = true;
                (&scratch[..], Err(ApiError::bad_request(error.to_string())))
            }
        };
        self.push_records(records);
        self.scratch = scratch;
        result
    }

    fn push_records(&mut self, mut records: &[u8]) {
        if self.debug {
            self.to.show_parsed(&self.origin, records);
            let newlines = memchr::memchr_iter(b'\n', records).count() as u64;
            let unterminated = records.last().is_some_and(|&last| last != b'\n');
            self.kept.lines += newlines + u64::from(unterminated);
            self.kept.bytes += records.len() as u64 - newlines;
            return;
        }
        while !records.is_empty() {
            let (ticket, rest) = self.to.push(&self.origin, records);
            records = rest;
            self.waiting_bytes += ticket.bytes();
            let in_another_frame = match self.waiting.back_mut() {
                Some(last) => last.join(ticket).err(),
                None => Some(ticket),
            };
            self.waiting.extend(in_another_frame);
        }
    }

    /// Waits until at most so many bytes are not durable.
    async fn settle(&mut self, bytes_max: u64) -> ApiResult<()> {
        while self.waiting_bytes > bytes_max || (bytes_max == 0 && !self.waiting.is_empty()) {
            let ticket = self.waiting.front_mut().expect("something waits");
            let result = ticket.await;
            let ticket = self.waiting.pop_front().expect("waited for");
            self.waiting_bytes -= ticket.bytes();
            if let Err(error) = result {
                // Behind lines that were lost nothing counts as kept.
                self.is_refused = true;
                self.waiting.clear();
                self.waiting_bytes = 0;
                return Err(refused(&error));
            }
            self.kept.lines += ticket.lines();
            self.kept.bytes += ticket.bytes();
        }
        Ok(())
    }

    fn count_skipped(&self, lines: &mut WholeLines) {
        let bytes = lines.take_skipped_bytes();
        if bytes > 0 {
            self.counters().received(0, bytes);
            self.counters().dropped_bytes(DropReason::Oversized, bytes);
        }
    }

    fn counters(&self) -> &SourceCounters {
        self.to.counters()
    }
}

fn undecodable(error: io::Error) -> ApiError {
    if error.kind() == io::ErrorKind::FileTooLarge {
        return ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, error.to_string());
    }
    ApiError::bad_request(format!("the body cannot be decompressed: {error}"))
}

/// Why lines were not kept, as an answer.
pub fn refused(error: &KeepError) -> ApiError {
    let status = match error {
        KeepError::DiskFull => StatusCode::INSUFFICIENT_STORAGE,
        KeepError::Closed => StatusCode::SERVICE_UNAVAILABLE,
        KeepError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    ApiError::new(status, error.to_string())
}
