//! The protocol of Beats and Logstash, Lumberjack: version 2, and version 1 of older Logstash.
//!
//! ```text
//! VERSION W COUNT                      a window: so many events follow, and one answer
//! VERSION J NUMBER LENGTH JSON         an event (version 2)
//! VERSION D NUMBER PAIRS (LENGTH KEY LENGTH VALUE)*    an event (version 1)
//! VERSION C LENGTH ZLIB                compressed events
//! VERSION A NUMBER                     our answer: all up to this event are durable
//! ```
//!
//! Numbers are big-endian, of 32 bits. The end of a window is answered, and each piece of a long
//! one. A sender of version 2 gets an answer with the number 0 every few seconds while its lines
//! are not durable: then it goes on waiting.
//!
//! Events become lines as they are; how the names of Elastic are read is up to the parser.
//! `@metadata`, which Elasticsearch does not keep either, does not become fields.
//!
//! Left out: frames within compressed frames that are compressed again. Source: the document of the
//! protocol in logstash-forwarder, and go-lumber.

use std::net::SocketAddr;
use std::sync::Arc;

use platform::Clock;
use record::{Format, Hints, Origin, Transport};
use text::json::write_text;

use crate::accounting::{Accounting, SourceKind};
use crate::answered::{
    Answered, AnsweredSource, Input, MESSAGE_BYTES_MAX, Output, Protocol, Step, Wrong,
};
use crate::body::{Decoder, Encoding};
use crate::deliver::Deliver;
use crate::source::SourceError;
use crate::stream::{Identity, TcpConfig};
use crate::tls::Credentials;

const IDENTITY: Identity = Identity {
    kind: SourceKind::Beats,
    transport: Transport::Beats,
    what: "Beats (Lumberjack)",
    flag: "--beats-listen",
    thread_name: "beats",
};

/// The fields that name the stream of an event.
const STREAM_FIELDS: [&str; 7] = [
    "host.name",
    "service.name",
    "event.dataset",
    "log.file.path",
    "container.name",
    "kubernetes.namespace",
    "kubernetes.pod.name",
];
/// Fields that are not kept.
const IGNORED_FIELDS: [&str; 1] = ["@metadata.*"];
/// Pairs of an event of version 1.
const PAIRS_MAX: u32 = 10_000;

/// A listener for Beats. Dropping it stops it.
pub struct BeatsSource(AnsweredSource);

impl BeatsSource {
    /// Binds the address and starts to accept; with TLS if there are credentials.
    pub fn start(
        address: SocketAddr,
        config: TcpConfig,
        credentials: Option<Arc<Credentials>>,
        deliver: Arc<dyn Deliver>,
        accounting: Arc<Accounting>,
        clock: Arc<dyn Clock>,
    ) -> Result<BeatsSource, SourceError> {
        let hints = Hints {
            stream_fields: STREAM_FIELDS.map(str::to_owned).to_vec(),
            ignore_fields: IGNORED_FIELDS.map(str::to_owned).to_vec(),
            ..Hints::default()
        };
        let answered = Answered {
            identity: IDENTITY,
            origin: Origin {
                hints: Arc::new(hints),
                ..Origin::new(IDENTITY.transport, Format::Json, None)
            },
            protocol: Box::new(|| Box::new(Lumberjack::default())),
            config,
            credentials,
        };
        AnsweredSource::start(address, answered, deliver, accounting, clock).map(BeatsSource)
    }

    /// The address it listens on, with the port the kernel chose if port 0 was requested.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local_addr()
    }

    /// Whether its thread ended by a panic. The caller then drops the source and starts it again.
    pub fn has_failed(&self) -> bool {
        self.0.has_failed()
    }
}

/// The receiver of one connection.
#[derive(Default)]
pub struct Lumberjack {
    /// The version of the last frame; 0 before the first one.
    version: u8,
    /// Events of the window that did not come yet.
    left: u32,
    /// The number of the last event, and of the last one in an answer.
    number: u32,
    answered: u32,
    packed: Option<Packed>,
}

/// A compressed frame.
struct Packed {
    decoder: Box<Decoder>,
    bytes: Vec<u8>,
    /// Where the rest begins that is not decompressed.
    at: usize,
    /// Decompressed, and not taken yet.
    held: Vec<u8>,
    is_whole: bool,
}

enum Frame<'b> {
    Window(u32),
    Json(u32, &'b [u8]),
    Pairs(u32, &'b [u8]),
    Compressed(&'b [u8]),
}

impl Protocol for Lumberjack {
    fn has_begun(&self) -> bool {
        self.version != 0
    }

    fn still_waiting(&self) -> Option<Vec<u8>> {
        (self.version == b'2').then(|| answer(self.version, 0))
    }

    fn step(&mut self, input: &mut Input, out: &mut Output) -> Result<Step, Wrong> {
        if let Some(mut packed) = self.packed.take() {
            if !packed.is_at_end() {
                self.unpack(&mut packed, out)?;
                self.packed = Some(packed);
            }
            return Ok(Step::More);
        }
        let Some((version, frame, bytes)) = frame(input.rest())? else {
            return Ok(Step::NeedsBytes);
        };
        match frame {
            Frame::Compressed(content) => {
                let decoder = Decoder::new(Encoding::Deflate).map_err(|e| undecodable(&e))?;
                self.packed = Some(Packed {
                    decoder: Box::new(decoder),
                    bytes: content.to_vec(),
                    at: 0,
                    held: Vec::new(),
                    is_whole: false,
                });
            }
            frame => self.take(version, &frame, out)?,
        }
        self.version = version;
        input.consume(bytes);
        Ok(Step::More)
    }
}

impl Lumberjack {
    /// Takes a frame that is not compressed.
    fn take(&mut self, version: u8, frame: &Frame<'_>, out: &mut Output) -> Result<(), Wrong> {
        let number = match *frame {
            Frame::Window(count) => {
                self.left = count;
                return Ok(());
            }
            Frame::Json(number, json) => {
                self.expect_event()?;
                put_json(json, out);
                number
            }
            Frame::Pairs(number, pairs) => {
                self.expect_event()?;
                put_pairs(pairs, out)?;
                number
            }
            Frame::Compressed(_) => {
                return Err(Wrong::new("a compressed frame is compressed again"));
            }
        };
        (self.number, self.left) = (number, self.left - 1);
        if self.left == 0 || out.is_full() {
            out.answers.extend(answer(version, number));
            self.answered = number;
        }
        Ok(())
    }

    fn expect_event(&self) -> Result<(), Wrong> {
        match self.left {
            0 => Err(Wrong::new("it sends an event outside of a window")),
            _ => Ok(()),
        }
    }

    /// Takes frames of a compressed one until there are enough lines.
    fn unpack(&mut self, packed: &mut Packed, out: &mut Output) -> Result<(), Wrong> {
        let mut taken = 0;
        while !out.is_full()
            && let Some((version, frame, bytes)) = frame(&packed.held[taken..])?
        {
            self.take(version, &frame, out)?;
            taken += bytes;
        }
        packed.held.drain(..taken);
        match out.is_full() {
            true => Ok(()),
            false => packed.decompress(),
        }
    }
}

impl Packed {
    fn is_at_end(&self) -> bool {
        self.is_whole && self.held.is_empty()
    }

    /// Decompresses as much as is held again, so that a long frame is not looked at too often.
    fn decompress(&mut self) -> Result<(), Wrong> {
        if self.held.len() > MESSAGE_BYTES_MAX {
            return Err(Wrong::new("an event in a compressed frame is too long"));
        }
        if self.is_whole {
            return match self.held[..] {
                [] => Ok(()),
                _ => Err(Wrong::new("a compressed frame ends within an event")),
            };
        }
        let wanted = 2 * self.held.len();
        while self.held.len() <= wanted && !self.is_whole {
            let mut rest = &self.bytes[self.at..];
            let piece = self.decoder.next(&mut rest).map_err(|error| undecodable(&error))?;
            self.is_whole = piece.is_none();
            self.held.extend_from_slice(piece.unwrap_or_default());
            self.at = self.bytes.len() - rest.len();
            if self.is_whole {
                let last = self.decoder.end().map_err(|error| undecodable(&error))?;
                self.held.extend_from_slice(last);
            }
        }
        Ok(())
    }
}

fn undecodable(error: &std::io::Error) -> Wrong {
    Wrong(format!("a compressed frame cannot be decompressed: {error}"))
}

fn answer(version: u8, number: u32) -> Vec<u8> {
    let mut answer = vec![version, b'A'];
    answer.extend(number.to_be_bytes());
    answer
}

/// The frame at the start of `bytes`, its version and its length; `None` if it is not whole.
fn frame(bytes: &[u8]) -> Result<Option<(u8, Frame<'_>, usize)>, Wrong> {
    let not_beats = || {
        Wrong::new(
            "what it sends is no frame of Lumberjack; send to this port by the output logstash of a Beat, or by \
             Logstash's output lumberjack",
        )
    };
    match bytes {
        [b'1' | b'2', b'W' | b'J' | b'D' | b'C', ..] | [b'1' | b'2'] | [] => {}
        _ => return Err(not_beats()),
    }
    let number = |at: usize| {
        let number = bytes.get(at..at + 4)?;
        Some(u32::from_be_bytes(number.try_into().expect("4 bytes")))
    };
    let content = |at: usize, length: u32| match length as usize {
        length if length > MESSAGE_BYTES_MAX => Err(Wrong(format!(
            "a frame has {length} bytes, more than {MESSAGE_BYTES_MAX}; set bulk_max_size to a smaller number"
        ))),
        length => Ok(bytes.get(at..at + length)),
    };
    let (Some(&version), Some(kind)) = (bytes.first(), bytes.get(1)) else { return Ok(None) };
    let Some(first) = number(2) else { return Ok(None) };
    Ok(match kind {
        b'W' => Some((version, Frame::Window(first), 6)),
        b'C' => content(6, first)?
            .map(|content| (version, Frame::Compressed(content), 6 + content.len())),
        b'J' => match number(6) {
            None => None,
            Some(length) => content(10, length)?
                .map(|json| (version, Frame::Json(first, json), 10 + json.len())),
        },
        _ => pairs_end(bytes)?.map(|end| (version, Frame::Pairs(first, &bytes[6..end]), end)),
    })
}

/// The end of an event of version 1.
fn pairs_end(bytes: &[u8]) -> Result<Option<usize>, Wrong> {
    let number = |at: usize| {
        let number = bytes.get(at..at + 4)?;
        Some(u32::from_be_bytes(number.try_into().expect("4 bytes")))
    };
    let Some(pairs) = number(6) else { return Ok(None) };
    let mut end = 10;
    if pairs > PAIRS_MAX {
        return Err(Wrong(format!("an event has {pairs} fields; the limit is {PAIRS_MAX}")));
    }
    for _ in 0..2 * pairs {
        let Some(length) = number(end) else { return Ok(None) };
        end += 4 + length as usize;
        if end > MESSAGE_BYTES_MAX {
            return Err(Wrong(format!("an event has more than {MESSAGE_BYTES_MAX} bytes")));
        }
    }
    Ok((end <= bytes.len()).then_some(end))
}

/// Writes an event, whose newlines can only be white space.
fn put_json(json: &[u8], out: &mut Output) {
    let json = json.trim_ascii();
    if json.is_empty() {
        return;
    }
    let begin = out.lines.len();
    out.lines.extend_from_slice(json);
    out.lines[begin..].iter_mut().filter(|byte| **byte < b' ').for_each(|byte| *byte = b' ');
    out.lines.push(b'\n');
}

/// Writes an event of version 1 as an object. `line` is its message.
fn put_pairs(mut pairs: &[u8], out: &mut Output) -> Result<(), Wrong> {
    let broken = || Wrong::new("an event of version 1 is incomplete");
    let number = |rest: &mut &[u8]| {
        let (number, behind) = rest.split_first_chunk::<4>()?;
        *rest = behind;
        Some(u32::from_be_bytes(*number) as usize)
    };
    let count = number(&mut pairs).ok_or_else(broken)?;
    let begin = out.lines.len();
    for index in 0..count {
        out.lines.push(if index == 0 { b'{' } else { b',' });
        for part in 0..2 {
            let length = number(&mut pairs).ok_or_else(broken)?;
            let (text, behind) = pairs.split_at_checked(length).ok_or_else(broken)?;
            pairs = behind;
            match text {
                b"line" if part == 0 => out.lines.extend_from_slice(b"\"message\""),
                text => write_text(String::from_utf8_lossy(text).as_bytes(), &mut out.lines),
            }
            if part == 0 {
                out.lines.push(b':');
            }
        }
    }
    if out.lines.len() > begin {
        out.lines.extend_from_slice(b"}\n");
    }
    Ok(())
}

#[cfg(test)]
#[path = "beats/tests.rs"]
mod tests;
