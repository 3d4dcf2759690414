//! Passes one body on to the disk: takes chunks of it, hands lines to the intake, and tracks in
//! order which of them became durable.
//!
//! Handing lines on blocks while delivery does. During that time the task leaves the threads of the
//! runtime, but only if it may take long: leaving costs two thread switches, more than all other
//! work on a chunk of a body.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use axum::http::StatusCode;
use collector::body::{
    Bulk, Decoder, Elements, Encoding, Runs, Shape, WholeLines, ZSTD_WINDOW_LOG_MAX, json_records,
};
use collector::{DropReason, KeepError, SourceCounters, Ticket};
use platform::memory::Share;
use record::Origin;
use tokio::task::block_in_place;

use crate::wire::error::{ApiError, ApiResult};
use node::ingest::http_lines::HttpLines;

/// Bytes of one request that are not durable yet. Beyond it, reading the body pauses until some
/// are.
pub const UNACKNOWLEDGED_BYTES_MAX: u64 = 8 << 20;

/// The byte that stands for a newline within a record, with `line_break=vt`: a vertical tab, which
/// is rare in logs.
pub const LINE_BREAK: u8 = 0x0b;

/// Memory of a decompressor: the largest window, and its output buffer.
const DECODER_BYTES: usize = (1 << ZSTD_WINDOW_LOG_MAX) + (1 << 20);
/// Bytes of an incomplete line that are not counted: nearly all requests stay below.
const HELD_BYTES_FEW: usize = 256 << 10;
/// Seconds after which a request that found no memory should be sent again.
const RETRY_AFTER_S: u32 = 5;

/// Lines and bytes that became durable.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    pub lines: u64,
    pub bytes: u64,
}

/// Takes the lines of one body.
pub struct Keeper {
    decoder: Decoder,
    /// Set if the body may be a JSON array.
    elements: Option<Elements>,
    /// The body is not compressed, so decoding costs no time.
    is_plain: bool,
    lines: WholeLines,
    sink: Sink,
    /// The end of the body was reached.
    is_whole: bool,
    /// The stream fields are those of the lines, not of a parameter.
    names_streams: bool,
    /// The part of the last chunk that an error left.
    unread: Vec<u8>,
    /// Bytes besides the incomplete line.
    fixed_bytes: usize,
    /// The share of the memory budget.
    share: Share,
}

/// The destination of complete lines.
struct Sink {
    to: Arc<HttpLines>,
    origin: Origin,
    shape: Shape,
    /// The actions of a `_bulk` request.
    bulk: Bulk,
    /// Lines are shown in the log, not kept.
    debug: bool,
    /// A [`LINE_BREAK`] within a line is a newline of its record.
    has_breaks: bool,
    /// The body contains something that cannot be parsed, so the rest has no meaning.
    is_broken: bool,
    /// Lines could not be kept. The sender is told, and resumes from there.
    is_refused: bool,
    scratch: Vec<u8>,
    /// A ticket for each frame with lines of the body, in order.
    waiting: VecDeque<Ticket>,
    waiting_bytes: u64,
    kept: Counts,
}

impl Keeper {
    /// Begins a body.
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
            bulk: Bulk::default(),
            debug: false,
            has_breaks: false,
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
            names_streams: false,
            unread: Vec::new(),
            fixed_bytes: if encoding == Encoding::Plain { 0 } else { DECODER_BYTES },
            share,
        };
        keeper.hold()?;
        Ok(keeper)
    }

    /// Reserves memory for a body that is read as a whole, before `bytes` bytes of it are buffered.
    pub fn hold_whole(&mut self, bytes: usize) -> ApiResult<()> {
        // A growing vector may have twice the capacity.
        self.fixed_bytes = self.fixed_bytes.max(2 * bytes);
        self.hold()
    }

    /// Adjusts the share of the memory budget to what the body holds now.
    fn hold(&mut self) -> ApiResult<()> {
        let fixed_bytes = self.fixed_bytes.max(self.decoder.bytes_held());
        self.share.cover(needed(fixed_bytes, &self.lines)).map_err(|exhausted| {
            ApiError::unavailable(exhausted.to_string()).retry_after(RETRY_AFTER_S)
        })
    }

    /// Makes lines be shown in our own log instead of kept.
    pub fn debug(mut self, debug: bool) -> Keeper {
        self.sink.debug = debug;
        self
    }

    /// Makes [`LINE_BREAK`] within a line be a newline within its record.
    pub fn breaks(mut self, has_breaks: bool) -> Keeper {
        self.sink.has_breaks = has_breaks;
        self
    }

    /// Sets the fields that name the streams of the following lines, and the usual names for
    /// `_time` and `_msg`; stream fields that parameters name stay.
    pub fn name_streams(&mut self, fields: Vec<String>) -> ApiResult<()> {
        // Lines that were taken before have the names of before.
        self.flush()?;
        let hints = Arc::make_mut(&mut self.sink.origin.hints);
        if self.names_streams || hints.stream_fields.is_empty() {
            self.names_streams = true;
            hints.stream_fields = fields;
        }
        hints.time_fields = vec!["_time".to_owned()];
        hints.msg_fields = vec!["_msg".to_owned()];
        Ok(())
    }

    /// Sets the fields that name streams and hold the level, if parameters name none. Called before
    /// the first line.
    pub fn default_fields(&mut self, stream: &[&str], level: &[&str]) {
        let hints = Arc::make_mut(&mut self.sink.origin.hints);
        let names = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect();
        if hints.stream_fields.is_empty() {
            hints.stream_fields = names(stream);
        }
        if hints.level_fields.is_empty() {
            hints.level_fields = names(level);
        }
    }

    /// Sets the fields that hold time and message, if parameters name none; an empty list leaves
    /// the usual ones. Called before the first line.
    pub fn default_names(&mut self, time: &[&str], message: &[&str]) {
        let hints = Arc::make_mut(&mut self.sink.origin.hints);
        for (fields, defaults) in [(&mut hints.time_fields, time), (&mut hints.msg_fields, message)]
        {
            if fields.is_empty() {
                *fields = defaults.iter().map(|&name| name.to_owned()).collect();
            }
        }
    }

    /// Sets the type of lines, if parameters name none. Called before the first line.
    pub fn default_type(&mut self, name: &str) {
        let hints = Arc::make_mut(&mut self.sink.origin.hints);
        hints.log_type.get_or_insert_with(|| name.to_owned());
    }

    /// Counts lines of the body that are not taken.
    pub fn reject(&mut self, lines: u64, bytes: u64) {
        let counters = self.sink.counters();
        counters.received(lines, bytes);
        counters.dropped(DropReason::BadRequest, lines);
        counters.dropped_bytes(DropReason::BadRequest, bytes);
    }

    /// Takes bytes from the front of `chunk`. Returns false when it is used up, and true when too
    /// many bytes are not durable yet: then call [`Keeper::make_room`] and this function again.
    fn take(&mut self, chunk: &mut &[u8]) -> ApiResult<bool> {
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
            if !keeper.is_plain {
                keeper.hold()?;
            }
            Ok(false)
        })
    }

    /// Takes a chunk, and waits until few enough bytes are not durable.
    pub async fn take_whole(&mut self, chunk: &[u8]) -> ApiResult<()> {
        let mut rest = chunk;
        let mut taken = self.take(&mut rest);
        while let Ok(true) = taken {
            taken = match self.make_room().await {
                Ok(()) => self.take(&mut rest),
                Err(error) => Err(error),
            };
        }
        let taken = match taken {
            Ok(_) => self.make_room().await,
            Err(error) => Err(error),
        };
        if taken.is_err() && self.sink.shape == Shape::Bulk {
            self.unread = rest.to_vec();
        }
        taken
    }

    /// Hands on the lines collected so far.
    pub fn flush(&mut self) -> ApiResult<()> {
        if !self.lines.has_collected() {
            return Ok(());
        }
        self.handing_on(|keeper| keeper.lines.flush(|block| keeper.sink.push(block)))
    }

    /// Bytes in memory that wait for the rest of the body.
    pub fn bytes_held(&mut self) -> usize {
        let elements = self.elements.as_ref().map_or(0, Elements::bytes_held);
        self.lines.bytes_held() + self.decoder.bytes_held() + elements
    }

    /// Waits until few enough bytes are not durable.
    async fn make_room(&mut self) -> ApiResult<()> {
        self.sink.settle(UNACKNOWLEDGED_BYTES_MAX).await
    }

    /// Ends the body, as [`Keeper::end`] does, but stays, for [`Keeper::actions`].
    pub async fn settle(&mut self, taken: ApiResult<()>) -> ApiResult<Counts> {
        let ended = match taken {
            Ok(()) => self.handing_on(Keeper::end_lines),
            Err(error) => {
                // Lines that were complete before the fault count.
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

    /// Ends the body. `taken` is the error if it was not taken as a whole. Waits until all lines
    /// taken are durable.
    pub async fn end(mut self, taken: ApiResult<()>) -> ApiResult<Counts> {
        self.settle(taken).await
    }

    /// Lines that are durable.
    pub fn kept(&self) -> Counts {
        self.sink.kept
    }

    /// The actions of a `_bulk` request that was taken whole.
    pub fn runs(mut self) -> Runs {
        std::mem::take(&mut self.sink.bulk).runs()
    }

    /// The actions of a `_bulk` request so far; counts those of the rest, from where the keeper
    /// ended, in memory of `share`.
    pub fn actions(&mut self, share: Share) -> ActionCount {
        let plain = Decoder::new(Encoding::Plain).expect("it needs no memory");
        let mut count = ActionCount {
            decoder: std::mem::replace(&mut self.decoder, plain),
            lines: std::mem::take(&mut self.lines),
            bulk: std::mem::take(&mut self.sink.bulk),
            is_readable: !self.sink.is_broken,
            fixed_bytes: self.fixed_bytes,
            share,
        };
        count.take(&std::mem::take(&mut self.unread));
        count
    }

    /// Runs work that may wait for the disk.
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

/// An incomplete body is counted, even if its client has gone away and nobody waits for the result.
impl Drop for Keeper {
    fn drop(&mut self) {
        if self.is_whole || self.sink.is_refused {
            return;
        }
        // At least one line of the unread rest is lost. Its bytes count as far as they arrived.
        let held = self.lines.held();
        let newlines = memchr::memchr_iter(b'\n', held).count() as u64;
        let (lines, bytes) = (newlines + 1, held.len() as u64 - newlines);
        let counters = self.sink.counters();
        counters.received(lines, bytes);
        counters.dropped(DropReason::BadRequest, lines);
        counters.dropped_bytes(DropReason::BadRequest, bytes);
    }
}

/// Counts the actions of a `_bulk` request without keeping its documents, so that its answer can
/// name each.
pub struct ActionCount {
    decoder: Decoder,
    lines: WholeLines,
    bulk: Bulk,
    /// All so far could be decompressed and taken apart, and there was memory for it.
    is_readable: bool,
    /// Bytes besides the incomplete line.
    fixed_bytes: usize,
    /// The share of the memory budget.
    share: Share,
}

impl ActionCount {
    /// Begins at the start of a body.
    pub fn new(encoding: Encoding, share: Share) -> io::Result<ActionCount> {
        let decoder = Decoder::new(encoding)?;
        let (lines, bulk) = (WholeLines::new(), Bulk::default());
        let fixed_bytes = if encoding == Encoding::Plain { 0 } else { DECODER_BYTES };
        Ok(ActionCount { decoder, lines, bulk, is_readable: true, fixed_bytes, share })
    }

    /// Takes memory for what is held now.
    fn has_memory(&mut self) -> bool {
        let fixed_bytes = self.fixed_bytes.max(self.decoder.bytes_held());
        self.share.cover(needed(fixed_bytes, &self.lines)).is_ok()
    }

    /// Takes the next bytes of the body.
    pub fn take(&mut self, mut chunk: &[u8]) {
        while self.is_readable && self.has_memory() {
            match self.decoder.next(&mut chunk) {
                Ok(Some(piece)) => {
                    let taken = self.lines.take(piece, |block| self.bulk.take(block, |_| {}));
                    self.is_readable = taken.is_ok();
                }
                Ok(None) => return,
                Err(_) => break,
            }
        }
        self.is_readable = false;
    }

    /// The actions of the whole body; `None` if it could not be read.
    pub fn end(mut self) -> Option<Runs> {
        let mut take = |block: &[u8]| self.bulk.take(block, |_| {});
        let last = self.decoder.end().ok().filter(|_| self.is_readable)?;
        self.lines.take(last, &mut take).ok()?;
        self.lines.end(&mut take).ok()?;
        Some(self.bulk.runs())
    }
}

impl Sink {
    fn push(&mut self, block: &[u8]) -> ApiResult<()> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut result = Ok(());
        match self.shape {
            Shape::Lines if self.has_breaks => self.push_with_breaks(block),
            Shape::Lines => self.push_records(block),
            Shape::JsonLines => self.push_records(json_records(block, &mut scratch)),
            Shape::Bulk => {
                scratch.clear();
                let taken = self.bulk.take(block, |line| scratch.extend_from_slice(line));
                result = taken.map_err(|error| {
                    self.is_broken = true;
                    ApiError::bad_request(error.to_string())
                });
                self.push_records(&scratch);
            }
        }
        self.scratch = scratch;
        result
    }

    fn push_records(&mut self, mut records: &[u8]) {
        if self.is_refused {
            return;
        }
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
            self.wait_for(ticket);
        }
    }

    /// Pushes lines of which some are records of several lines.
    fn push_with_breaks(&mut self, mut lines: &[u8]) {
        while let Some(at) = memchr::memchr(LINE_BREAK, lines) {
            let begin = memchr::memrchr(b'\n', &lines[..at]).map_or(0, |newline| newline + 1);
            let length = memchr::memchr(b'\n', &lines[begin..]);
            let end = length.map_or(lines.len(), |length| begin + length);
            if begin > 0 {
                self.push_records(&lines[..begin]);
            }
            let newlines = |byte: &u8| if *byte == LINE_BREAK { b'\n' } else { *byte };
            let record: Vec<u8> = lines[begin..end].iter().map(newlines).collect();
            if self.debug {
                self.push_records(&lines[begin..end]);
            } else if !self.is_refused {
                let ticket = self.to.push_record(&self.origin, &record);
                self.wait_for(ticket);
            }
            lines = &lines[(end + 1).min(lines.len())..];
        }
        self.push_records(lines);
    }

    fn wait_for(&mut self, ticket: Ticket) {
        self.waiting_bytes += ticket.bytes();
        let in_another_frame = match self.waiting.back_mut() {
            Some(last) => last.join(ticket).err(),
            None => Some(ticket),
        };
        self.waiting.extend(in_another_frame);
    }

    /// Waits until at most `bytes_max` bytes are not durable.
    async fn settle(&mut self, bytes_max: u64) -> ApiResult<()> {
        while self.waiting_bytes > bytes_max || (bytes_max == 0 && !self.waiting.is_empty()) {
            let ticket = self.waiting.front_mut().expect("something waits");
            let result = ticket.await;
            let ticket = self.waiting.pop_front().expect("waited for");
            self.waiting_bytes -= ticket.bytes();
            if let Err(error) = result {
                // Nothing behind lost lines counts as kept.
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

/// Bytes of memory for a body: so many, and those of an incomplete line.
fn needed(fixed_bytes: usize, lines: &WholeLines) -> usize {
    let held = lines.held().len();
    fixed_bytes + if held > HELD_BYTES_FEW { 2 * held } else { 0 }
}

fn undecodable(error: io::Error) -> ApiError {
    if error.kind() == io::ErrorKind::FileTooLarge {
        return ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, error.to_string());
    }
    ApiError::bad_request(format!("the body cannot be decompressed: {error}"))
}

/// The response that says why lines were not kept, and when to send them again.
pub fn refused(error: &KeepError) -> ApiError {
    let refusal = match error {
        KeepError::DiskFull => ApiError::new(StatusCode::INSUFFICIENT_STORAGE, error.to_string()),
        KeepError::NoRoom | KeepError::Closed => ApiError::unavailable(error.to_string()),
        KeepError::Failed(_) => ApiError::internal(error.to_string()),
    };
    refusal.retry_after(RETRY_AFTER_S)
}

#[cfg(test)]
mod tests {
    use axum::http::header::RETRY_AFTER;
    use axum::response::IntoResponse;

    use super::*;

    #[test]
    fn each_refusal_says_when_to_send_again() {
        for (error, status) in [
            (KeepError::DiskFull, 507),
            (KeepError::NoRoom, 503),
            (KeepError::Closed, 503),
            (KeepError::Failed("x".to_owned()), 500),
        ] {
            let answer = refused(&error).into_response();
            assert_eq!(answer.status().as_u16(), status);
            assert_eq!(answer.headers()[RETRY_AFTER], "5", "{status}");
        }
    }
}
