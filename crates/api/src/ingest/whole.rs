//! Bodies that a handler decodes itself: as a whole, before their lines are known, or chunk by
//! chunk.
//!
//! [`WholeBody`] is the way of every format that is not one of lines: slot, budget, time limits and
//! accounting come with it. The lines that the handler makes of its format are taken like JSON
//! lines.

use std::convert::Infallible;
use std::pin::pin;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use collector::body::{Decoder, Encoding, Shape};

use super::keep::{Counts, Keeper};
use super::slot::Slot;
use super::{Inserting, LENT_BYTES_MAX, Request, at_once, discard, options, prepare};
use crate::wire::body::BodyReader;
use crate::wire::error::{ApiError, ApiResult};

/// Bytes of lines that are handed on at once.
const PIECE_BYTES: usize = 256 << 10;

/// The lines of a body that is text, without their ends; empty ones are left out.
pub fn text_lines(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = content.split(|&byte| byte == b'\n');
    lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line)).filter(|line| !line.is_empty())
}

/// A body whose lines a handler makes. They are taken like JSON lines.
pub struct WholeBody<'r> {
    request: &'r Request,
    reader: BodyReader,
    keeper: Keeper,
    slot: Slot,
}

impl<'r> WholeBody<'r> {
    /// Takes a slot for an ingest request.
    pub async fn enter(
        inserting: &Inserting,
        request: &'r Request,
        body: Body,
    ) -> ApiResult<WholeBody<'r>> {
        let mut reader = BodyReader::new(body, inserting.options.body);
        match prepare(inserting, request, Shape::JsonLines, Ok(Encoding::Plain)).await {
            Ok((keeper, slot)) => Ok(WholeBody { request, reader, keeper, slot }),
            Err(error) => {
                discard(&mut reader, request, &error).await;
                Err(error)
            }
        }
    }

    /// Reads the body as it was sent; `None` if it has more than `bytes_max` bytes.
    pub async fn read(&mut self, bytes_max: usize) -> ApiResult<Option<Vec<u8>>> {
        let mut whole = Vec::new();
        while let Some(chunk) = {
            let holds_little = whole.capacity() <= LENT_BYTES_MAX;
            self.slot.lend(holds_little, self.reader.next()).await??
        } {
            if whole.len() + chunk.len() > bytes_max {
                return Ok(None);
            }
            self.keeper.hold_whole(whole.len() + chunk.len())?;
            whole.extend_from_slice(&chunk);
        }
        Ok(Some(whole))
    }

    /// Reads the next chunk of the body, as it was sent, while the handler holds `held_bytes` of
    /// what came before. If the sender pauses, what it has sent becomes searchable, and its slot is
    /// lent.
    pub async fn next_chunk(&mut self, held_bytes: usize) -> ApiResult<Option<Bytes>> {
        self.keeper.hold_whole(held_bytes)?;
        let mut next = pin!(self.reader.next());
        match at_once(next.as_mut()).await {
            Some(chunk) => chunk,
            None => {
                self.keeper.flush()?;
                self.slot.lend(held_bytes <= LENT_BYTES_MAX, next).await?
            }
        }
    }

    /// Reads and decompresses the body; `None` if it has more than `bytes_max` bytes.
    pub async fn read_decompressed(&mut self, bytes_max: usize) -> ApiResult<Option<Vec<u8>>> {
        let encoding = self.encoding()?;
        let Some(sent) = self.read(bytes_max).await? else { return Ok(None) };
        match encoding {
            Encoding::Plain => Ok(Some(sent)),
            _ => self.decompress(encoding, &sent, bytes_max),
        }
    }

    /// Reads and decompresses the body, or refuses it with 413.
    pub async fn content(&mut self, bytes_max: usize) -> ApiResult<Vec<u8>> {
        self.read_decompressed(bytes_max).await?.ok_or_else(|| {
            let text = format!(
                "the body has more than {bytes_max} bytes; let the sender send smaller batches"
            );
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, text)
        })
    }

    /// Decompresses what was read; `None` if it has more than `bytes_max` bytes.
    pub fn decompress(
        &mut self,
        encoding: Encoding,
        sent: &[u8],
        bytes_max: usize,
    ) -> ApiResult<Option<Vec<u8>>> {
        let wrong = |error: std::io::Error| {
            ApiError::bad_request(format!("the body cannot be decompressed: {error}"))
        };
        let mut decoder = Decoder::new(encoding).map_err(wrong)?;
        let (mut content, mut rest) = (Vec::new(), sent);
        while let Some(piece) = decoder.next(&mut rest).map_err(wrong)? {
            content.extend_from_slice(piece);
            if content.len() > bytes_max {
                return Ok(None);
            }
            self.keeper.hold_whole(sent.len() + content.len())?;
        }
        content.extend_from_slice(decoder.end().map_err(wrong)?);
        Ok((content.len() <= bytes_max).then_some(content))
    }

    /// The compression of the body.
    pub fn encoding(&self) -> ApiResult<Encoding> {
        options::encoding(&self.request.headers)
    }

    /// Sets what parameters leave open about the following lines.
    pub fn name_streams(&mut self, fields: Vec<String>) -> ApiResult<()> {
        self.keeper.name_streams(fields)
    }

    /// Sets the fields that name streams and hold the level, if parameters name none.
    pub fn default_fields(&mut self, stream: &[&str], level: &[&str]) {
        self.keeper.default_fields(stream, level);
    }

    /// Sets the fields that hold time and message, if parameters name none; an empty list leaves
    /// the usual ones.
    pub fn default_names(&mut self, time: &[&str], message: &[&str]) {
        self.keeper.default_names(time, message);
    }

    /// Sets the type of lines, if parameters name none.
    pub fn default_type(&mut self, name: &str) {
        self.keeper.default_type(name);
    }

    /// Counts lines of the body that are not taken.
    pub fn reject(&mut self, lines: u64, bytes: u64) {
        self.keeper.reject(lines, bytes);
    }

    /// Takes complete lines, each a JSON object.
    pub async fn take(&mut self, lines: &[u8]) -> ApiResult<()> {
        self.keeper.take_whole(lines).await
    }

    /// Takes the lines that `write_next` appends, call by call, until it returns false. Its error
    /// ends the body; the lines before that are taken.
    pub async fn take_each<E>(
        &mut self,
        mut write_next: impl FnMut(&mut Vec<u8>) -> Result<bool, E>,
    ) -> ApiResult<Result<(), E>> {
        let mut lines = Vec::new();
        let result = loop {
            match write_next(&mut lines) {
                Ok(true) if lines.len() < PIECE_BYTES => {}
                Ok(true) => {
                    self.take(&lines).await?;
                    lines.clear();
                }
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.take(&lines).await?;
        Ok(result)
    }

    /// The same, where nothing can be wrong.
    pub async fn take_lines(
        &mut self,
        mut write_next: impl FnMut(&mut Vec<u8>) -> bool,
    ) -> ApiResult<()> {
        let taken = self.take_each(|out| Ok::<_, Infallible>(write_next(out))).await?;
        taken.map_err(|never| match never {})
    }

    /// Ends the body. `taken` is the error if it was not taken as a whole. Waits until all lines
    /// taken are durable.
    pub async fn end(mut self, taken: ApiResult<()>) -> ApiResult<Counts> {
        let result = self.keeper.end(taken).await;
        if let Err(error) = &result {
            discard(&mut self.reader, self.request, error).await;
        }
        result
    }
}
