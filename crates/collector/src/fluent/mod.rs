//! Fluent forward, version 1: what Fluentd, Fluent Bit, Docker's driver and the fluent-loggers
//! send.
//!
//! ```text
//! [tag, time, record, option?]                          message
//! [tag, [[time, record], …], option?]                   forward
//! [tag, "…[time, record][time, record]…", option?]      packed, also compressed by gzip or zstd
//! {"ack": chunk}                                        our answer, if the option has a chunk
//! ```
//!
//! A record becomes one line of JSON with `_time` and `fluent.tag`, which a member of the record of
//! the same name replaces. A record that is no map is the message of its line; so is an entry that
//! is not a time and a record.
//!
//! Newer Fluent Bit puts events into groups, one for each resource and scope of OpenTelemetry. Two
//! entries that are no events bracket a group: their times are -1 and -2 seconds. The members of
//! the record of the first become fields of the lines of the group, where an event has no member
//! of the same name. A group ends with its message.
//!
//! A sender repeats a message that is not answered, with all its records. So damage within a chunk
//! does not end the connection: its records up to there are kept, the rest is rejected and counted,
//! and the chunk is answered.
//!
//! With a shared key, a connection begins with HELO, PING and PONG, and nothing is taken from a
//! sender that does not know the key.
//!
//! Left out: heartbeats by UDP, which only old senders need (`heartbeat_type tcp` or `none`
//! replaces them); users with passwords besides the shared key; metrics and traces of Fluent Bit,
//! which are refused. Source: "Fluentd Forward Protocol Specification v1.5".

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use platform::Clock;
use record::{Format, Hints, Origin, Transport};
use ring::digest::{Context, SHA512};
use ring::rand::{SecureRandom, SystemRandom};
use text::time::write_time;

use crate::accounting::{Accounting, SourceKind};
use crate::answered::{Answered, AnsweredSource, Input, Output, Protocol, Step, Wrong};
use crate::body::{Decoder, Encoding};
use crate::deliver::Deliver;
use crate::source::SourceError;
use crate::stream::{Identity, TcpConfig};
use crate::tls::Credentials;

mod msgpack;
#[cfg(test)]
mod tests;

use msgpack::{
    Broken, Head, Scan, Unwritten, event_time, head, take_bytes, take_head, take_text, take_value,
    write_key, write_lossy, write_value,
};

const IDENTITY: Identity = Identity {
    kind: SourceKind::Fluent,
    transport: Transport::Fluent,
    what: "Fluent forward",
    flag: "--fluent-listen",
    thread_name: "fluent",
};

/// The field of the tag.
const TAG: &[u8] = b"fluent.tag";
/// The fields that name the stream of a record.
const STREAM_FIELDS: [&str; 6] = [
    "fluent.tag",
    "container_name",
    "hostname",
    "kubernetes.namespace_name",
    "kubernetes.pod_name",
    "kubernetes.container_name",
];
/// The member with the text of a record of Docker's driver, which has these three members besides:
/// `container_id`, `container_name`, `source`. It is the message.
const LOG: &[u8] = b"\"log\"";
const MSG: &[u8] = b"\"_msg\"";
const DOCKER_MEMBERS: usize = 3;
/// Our name in the handshake. Fluentd refuses a receiver with its own name.
const OUR_NAME: &[u8] = b"loginson";
/// What a group states is written with each of its events.
///
/// limits.md, Lines on their way in: what a group of Fluent Bit states for its events | {} | it is
/// rejected and counted as `bad_request`; the events are kept without it
const GROUP_BYTES_MAX: usize = 4 << 10;
/// Each member of an event is compared with those of its group.
///
/// limits.md, Lines on their way in: members of what a group of Fluent Bit states for its events |
/// {} | it is rejected and counted as `bad_request`; the events are kept without it
const GROUP_MEMBERS_MAX: usize = 16;
/// Members of a group that would say something of its events which they say themselves.
const NOT_OF_GROUPS: [&[u8]; 3] = [b"\"_time\"", MSG, b"\"fluent.tag\""];
/// The seconds of the time of an entry with which a group begins, as the 32 bits of an event's.
const GROUP_BEGINS_S: i64 = 0xffff_ffff;
/// The same of the entry with which it ends.
const GROUP_ENDS_S: i64 = 0xffff_fffe;
/// A tag is written with each of its records.
const TAG_BYTES_MAX: usize = 1024;
/// A chunk's id comes back in the answer.
const CHUNK_BYTES_MAX: usize = 1024;
/// Bytes of a message before its sender has shown that it knows the shared key.
const PING_BYTES_MAX: usize = 4096;
const NONCE_BYTES: usize = 16;

/// A listener for Fluent forward. Dropping it stops it.
pub struct FluentSource(AnsweredSource);

impl FluentSource {
    /// Binds the address and starts to accept; with TLS if there are credentials.
    pub fn start(
        address: SocketAddr,
        config: TcpConfig,
        credentials: Option<Arc<Credentials>>,
        key: Option<SharedKey>,
        deliver: Arc<dyn Deliver>,
        accounting: Arc<Accounting>,
        clock: Arc<dyn Clock>,
    ) -> Result<FluentSource, SourceError> {
        let hints =
            Hints { stream_fields: STREAM_FIELDS.map(str::to_owned).to_vec(), ..Hints::default() };
        let answered = Answered {
            identity: IDENTITY,
            origin: Origin {
                hints: Arc::new(hints),
                ..Origin::new(IDENTITY.transport, Format::Json, None)
            },
            protocol: Box::new(move || Box::new(Forward::new(key.clone()))),
            config,
            credentials,
        };
        AnsweredSource::start(address, answered, deliver, accounting, clock).map(FluentSource)
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

/// The key that senders must know: `<security> shared_key` of Fluentd, `Shared_Key` of Fluent Bit.
#[derive(Clone)]
pub struct SharedKey(Arc<[u8]>);

impl SharedKey {
    /// The key is the text without white space around it.
    ///
    /// Errors: nothing is left.
    pub fn new(text: &[u8]) -> Result<SharedKey, &'static str> {
        match text.trim_ascii() {
            [] => Err("it is empty; write the key that senders have as shared_key"),
            key => Ok(SharedKey(key.into())),
        }
    }

    /// The proof that `name` knows the key.
    fn digest(&self, salt: &[u8], name: &[u8], nonce: &[u8]) -> Vec<u8> {
        let mut context = Context::new(&SHA512);
        [salt, name, nonce, &self.0].into_iter().for_each(|part| context.update(part));
        let mut hex = Vec::new();
        for byte in context.finish().as_ref() {
            hex.extend(format!("{byte:02x}").bytes());
        }
        hex
    }
}

impl fmt::Debug for SharedKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SharedKey(…)")
    }
}

/// The receiver of one connection.
pub struct Forward {
    key: Option<SharedKey>,
    nonce: [u8; NONCE_BYTES],
    /// The sender has shown that it knows the key, or there is none.
    is_admitted: bool,
    has_begun: bool,
    scan: Scan,
    message: Option<Message>,
}

/// A message whose records are written.
struct Message {
    bytes: Vec<u8>,
    shared: Shared,
    entries: Entries,
    /// The answer.
    ack: Vec<u8>,
}

/// What lines have besides their records.
struct Shared {
    /// The rest of a line behind its record.
    tag: Vec<u8>,
    /// Of the group that the next entry is in, if it is in one.
    group: Vec<Member>,
}

/// A member of what a group states, as JSON.
struct Member {
    key: Vec<u8>,
    value: Vec<u8>,
}

/// What stands where the time of an event is.
#[derive(Clone, Copy)]
enum Time {
    /// Nanoseconds since 1970, if it states a time.
    Of(Option<i64>),
    /// This is no event: a group begins, for which the record speaks.
    GroupBegins,
    /// This is no event: the group ends.
    GroupEnds,
}

/// Records that are not written yet, as positions in the message.
enum Entries {
    /// So many values.
    Listed { at: usize, left: usize },
    /// Values up to the end.
    Packed { at: usize, end: usize },
    /// The same, compressed; `held` is decompressed.
    Compressed { decoder: Box<Decoder>, at: usize, end: usize, held: Vec<u8>, is_whole: bool },
    /// One alone.
    Single { time: Time, at: usize },
}

impl Forward {
    /// For a connection whose sender must know `key`, if there is one.
    pub fn new(key: Option<SharedKey>) -> Forward {
        let mut nonce = [0; NONCE_BYTES];
        if key.is_some() {
            SystemRandom::new().fill(&mut nonce).expect("the system has random numbers");
        }
        Forward {
            is_admitted: key.is_none(),
            key,
            nonce,
            has_begun: false,
            scan: Scan::default(),
            message: None,
        }
    }

    /// The answer to a PING.
    fn pong(&self, message: &[u8]) -> Result<Vec<u8>, Wrong> {
        let key = self.key.as_ref().expect("asked with a key only");
        let [name, salt, digest] = ping(message).map_err(|Broken| {
            Wrong::new(
                "it begins without the shared key that fluent_shared_key_file asks for; set shared_key at the sender \
                 (Fluentd: <security>, Fluent Bit: Shared_Key and Self_Hostname)",
            )
        })?;
        let expected = key.digest(salt, name, &self.nonce);
        let differ = expected.iter().zip(digest).fold(0, |differ, (a, b)| differ | (a ^ b));
        if differ != 0 || expected.len() != digest.len() {
            return Err(Wrong::new(
                "its shared key is another one than that of fluent_shared_key_file",
            ));
        }
        let mut pong = vec![0x95, 0xa4];
        pong.extend_from_slice(b"PONG\xc3\xa0");
        put_text(OUR_NAME, &mut pong);
        put_text(&key.digest(salt, OUR_NAME, &self.nonce), &mut pong);
        Ok(pong)
    }
}

impl Protocol for Forward {
    fn greeting(&mut self) -> Vec<u8> {
        if self.key.is_none() {
            return Vec::new();
        }
        let mut helo = vec![0x92, 0xa4];
        helo.extend_from_slice(b"HELO\x83\xa5nonce\xc4\x10");
        helo.extend_from_slice(&self.nonce);
        helo.extend_from_slice(b"\xa4auth\xa0\xa9keepalive\xc3");
        helo
    }

    fn has_begun(&self) -> bool {
        self.has_begun
    }

    fn step(&mut self, input: &mut Input, out: &mut Output) -> Result<Step, Wrong> {
        if let Some(message) = &mut self.message {
            if message.write(out)? {
                out.answers.append(&mut message.ack);
                self.message = None;
            }
            return Ok(Step::More);
        }
        let bytes = input.rest();
        match bytes.first() {
            None => return Ok(Step::NeedsBytes),
            Some(0x92..=0x96 | 0xdc | 0xdd) => {}
            // A heartbeat of old senders.
            Some(0xc0) if self.is_admitted => {
                input.consume(1);
                return Ok(Step::More);
            }
            Some(_) => return Err(not_forward(Broken)),
        }
        let Some(end) = self.scan.end(bytes).map_err(not_forward)? else {
            if !self.is_admitted && bytes.len() > PING_BYTES_MAX {
                return Err(Wrong::new("it did not begin with the shared key"));
            }
            return Ok(Step::NeedsBytes);
        };
        if self.is_admitted {
            let parts = Message::parts(&bytes[..end]).map_err(|Broken| {
                Wrong::new(
                    "a message is none of the four kinds of Fluent forward: an array of a tag, and of a time and a record, \
                     or of records",
                )
            })?;
            let (entries, tag, ack) = parts?;
            let shared = Shared { tag, group: Vec::new() };
            self.message = Some(Message { bytes: input.take(end), shared, entries, ack });
        } else {
            // Nobody waits for lines: the answer is sent at once.
            out.answers.append(&mut self.pong(&bytes[..end])?);
            self.is_admitted = true;
            input.consume(end);
        }
        (self.scan, self.has_begun) = (Scan::default(), true);
        Ok(Step::More)
    }
}

fn not_forward(_: Broken) -> Wrong {
    Wrong::new(
        "what it sends is no message of Fluent forward; send to this port by Fluentd's or Fluent Bit's output forward",
    )
}

/// The parts of `["PING", name, salt, digest, …]`.
fn ping(mut message: &[u8]) -> Result<[&[u8]; 3], Broken> {
    let rest = &mut message;
    let Head::Array(4..) = take_head(rest)? else { return Err(Broken) };
    if take_text(rest)? != Some(b"PING") {
        return Err(Broken);
    }
    let mut part = || take_text(rest)?.ok_or(Broken);
    Ok([part()?, part()?, part()?])
}

fn put_text(text: &[u8], out: &mut Vec<u8>) {
    match u8::try_from(text.len()) {
        Ok(bytes) => out.extend([0xd9, bytes]),
        Err(_) => {
            out.push(0xda);
            out.extend((text.len() as u16).to_be_bytes());
        }
    }
    out.extend_from_slice(text);
}

/// What the options of a message say.
#[derive(Default)]
struct Options<'m> {
    chunk: Option<&'m [u8]>,
    compression: Option<&'m [u8]>,
    has_other_signal: bool,
}

impl<'m> Options<'m> {
    fn of(mut option: &'m [u8]) -> Result<Options<'m>, Broken> {
        let (rest, mut options) = (&mut option, Options::default());
        let pairs = match take_head(rest)? {
            Head::Map(pairs) => pairs,
            Head::Nil => 0,
            _ => return Err(Broken),
        };
        for _ in 0..pairs {
            match take_text(rest)? {
                Some(b"chunk") => options.chunk = take_text(rest)?,
                Some(b"compressed") => options.compression = take_text(rest)?,
                // Of Fluent Bit: 0 logs, 1 metrics, 2 traces.
                Some(b"fluent_signal") => {
                    options.has_other_signal = take_value(rest)? != [0];
                }
                _ => drop(take_value(rest)?),
            }
        }
        Ok(options)
    }
}

impl Message {
    /// The records of a message that is whole, the rest of their lines, and its answer.
    ///
    /// Errors: it is none of the kinds of messages; or else, what is wrong with it.
    #[expect(clippy::type_complexity, reason = "read in one place")]
    fn parts(bytes: &[u8]) -> Result<Result<(Entries, Vec<u8>, Vec<u8>), Wrong>, Broken> {
        let mut rest = bytes;
        let Head::Array(parts @ 2..=4) = take_head(&mut rest)? else { return Err(Broken) };
        let tag = take_text(&mut rest)?.ok_or(Broken)?;
        let at = |rest: &[u8]| bytes.len() - rest.len();
        let mut content = rest;
        let second = take_value(&mut rest)?;
        let (mut entries, used) = match take_head(&mut content)? {
            Head::Array(left) => (Entries::Listed { at: at(content), left }, 2),
            Head::Text(length) | Head::Bytes(length) => {
                let at = at(content);
                (Entries::Packed { at, end: at + length }, 2)
            }
            Head::Int(_)
            | Head::Float32(_)
            | Head::Float64(_)
            | Head::Extension(..)
            | Head::Nil => {
                let single = Entries::Single { time: time_of(second)?, at: at(rest) };
                take_value(&mut rest)?;
                (single, 3)
            }
            Head::Bool(_) | Head::Map(_) => return Err(Broken),
        };
        let options = match parts > used {
            true => Options::of(take_value(&mut rest)?)?,
            false => Options::default(),
        };
        if !rest.is_empty() {
            return Err(Broken);
        }
        let wrong = |reason: &str| Ok(Err(Wrong::new(reason)));
        if options.has_other_signal {
            return wrong(
                "it sends metrics or traces of Fluent Bit; let the output's match name the tags of logs alone",
            );
        }
        if tag.len() > TAG_BYTES_MAX || options.chunk.is_some_and(|c| c.len() > CHUNK_BYTES_MAX) {
            return wrong("a tag or chunk of it has more than 1024 bytes");
        }
        let encoding = match options.compression {
            None | Some(b"" | b"text") => Encoding::Plain,
            Some(b"gzip") => Encoding::Gzip,
            Some(b"zstd") => Encoding::Zstd,
            Some(_) => {
                return wrong("its chunks are compressed; set compress to gzip, zstd or text");
            }
        };
        if let Entries::Packed { at, end } = entries
            && encoding != Encoding::Plain
        {
            let Ok(decoder) = Decoder::new(encoding) else {
                return wrong("there is no memory to decompress its chunks");
            };
            let decoder = Box::new(decoder);
            entries = Entries::Compressed { decoder, at, end, held: Vec::new(), is_whole: false };
        }
        let mut behind = Vec::new();
        write_lossy(TAG, &mut behind);
        behind.push(b':');
        write_lossy(tag, &mut behind);
        let mut ack = Vec::new();
        if let Some(chunk) = options.chunk {
            ack.extend_from_slice(b"\x81\xa3ack");
            put_text(chunk, &mut ack);
        }
        Ok(Ok((entries, behind, ack)))
    }

    /// Writes lines until there are enough, or a piece was decompressed. Returns whether all are
    /// written.
    fn write(&mut self, out: &mut Output) -> Result<bool, Wrong> {
        let broken = |Broken| Wrong::new("a record is no MessagePack");
        while !out.is_full() {
            match &mut self.entries {
                Entries::Single { time, at } => {
                    let rest = &mut &self.bytes[*at..];
                    write_record(*time, rest, &mut self.shared, out).map_err(broken)?;
                    return Ok(true);
                }
                Entries::Listed { left: 0, .. } => return Ok(true),
                Entries::Listed { at, left } => {
                    let mut rest = &self.bytes[*at..];
                    write_entry(&mut rest, &mut self.shared, out).map_err(broken)?;
                    (*at, *left) = (self.bytes.len() - rest.len(), *left - 1);
                }
                Entries::Packed { at, end } if at == end => return Ok(true),
                Entries::Packed { at, end } => {
                    let mut rest = &self.bytes[*at..*end];
                    write_entry_or_reject(&mut rest, &mut self.shared, out);
                    *at = *end - rest.len();
                }
                Entries::Compressed { held, is_whole: true, .. } if held.is_empty() => {
                    return Ok(true);
                }
                Entries::Compressed { decoder, at, end, held, is_whole } => {
                    let mut rest = &held[..];
                    while !rest.is_empty() && !out.is_full() {
                        if !*is_whole && Scan::default().end(rest) == Ok(None) {
                            break;
                        }
                        // Behind damage it is not known where an entry begins.
                        *is_whole |= !write_entry_or_reject(&mut rest, &mut self.shared, out);
                    }
                    let written = held.len() - rest.len();
                    held.drain(..written);
                    if out.is_full() || *is_whole {
                        continue;
                    }
                    if held.len() > crate::answered::MESSAGE_BYTES_MAX {
                        return Err(Wrong::new("a record in a compressed chunk is too long"));
                    }
                    // As much as is held again, so that a long record is not looked for too often.
                    let wanted = 2 * held.len();
                    loop {
                        let mut input = &self.bytes[*at..*end];
                        let piece =
                            decoder.next(&mut input).map_err(|error| undecodable(&error))?;
                        let is_used_up = piece.is_none();
                        held.extend_from_slice(piece.unwrap_or_default());
                        *at = *end - input.len();
                        if is_used_up {
                            let last = decoder.end().map_err(|error| undecodable(&error))?;
                            held.extend_from_slice(last);
                            *is_whole = true;
                        }
                        if is_used_up || held.len() > wanted {
                            // Records that become no lines take time as well.
                            return Ok(false);
                        }
                    }
                }
            }
        }
        Ok(false)
    }
}

fn undecodable(error: &std::io::Error) -> Wrong {
    Wrong(format!("a compressed chunk cannot be decompressed: {error}"))
}

/// What the time of an entry says.
fn time_of(mut value: &[u8]) -> Result<Time, Broken> {
    let rest = &mut value;
    let mut head = take_head(rest)?;
    // Fluent Bit: the time, and metadata. A list within that is no time.
    if let Head::Array(1..) = head {
        head = take_head(rest)?;
    }
    let time_ns = match head {
        Head::Int(seconds) => i64::try_from(seconds.saturating_mul(1_000_000_000)).ok(),
        Head::Float32(seconds) => Some((f64::from(seconds) * 1e9) as i64),
        Head::Float64(seconds) => Some((seconds * 1e9) as i64),
        Head::Extension(kind, bytes) => {
            let time_ns = event_time(kind, take_bytes(rest, bytes)?);
            match time_ns.map(|time_ns| time_ns / 1_000_000_000) {
                Some(GROUP_BEGINS_S) => return Ok(Time::GroupBegins),
                Some(GROUP_ENDS_S) => return Ok(Time::GroupEnds),
                _ => time_ns,
            }
        }
        _ => None,
    };
    Ok(Time::Of(time_ns.filter(|time_ns| *time_ns > 0)))
}

/// Takes an entry of a chunk, and writes its line. If the chunk is damaged, all of it is taken and
/// rejected; returns whether it was not.
fn write_entry_or_reject(rest: &mut &[u8], shared: &mut Shared, out: &mut Output) -> bool {
    let bytes = rest.len();
    let is_written = write_entry(rest, shared, out).is_ok();
    if !is_written {
        *rest = &[];
        out.rejected.0 += 1;
        out.rejected.1 += bytes as u64;
    }
    is_written
}

/// Takes `[time, record]`, and writes its line. Any other value is a record without a time.
fn write_entry(rest: &mut &[u8], shared: &mut Shared, out: &mut Output) -> Result<(), Broken> {
    let Some((Head::Array(parts @ 2..), length)) = head(rest)? else {
        return write_record(Time::Of(None), rest, shared, out);
    };
    *rest = &rest[length..];
    let time = time_of(take_value(rest)?)?;
    write_record(time, rest, shared, out)?;
    for _ in 2..parts {
        take_value(rest)?;
    }
    Ok(())
}

/// Takes a record, and writes its line, or keeps what it states for a group; one that is nested too
/// deeply is rejected.
fn write_record(
    time: Time,
    rest: &mut &[u8],
    shared: &mut Shared,
    out: &mut Output,
) -> Result<(), Broken> {
    let record = take_value(rest)?;
    let begin = out.lines.len();
    let written = match time {
        Time::Of(time_ns) => write_line(time_ns, record, shared, &mut out.lines),
        Time::GroupBegins => {
            shared.group.clear();
            group_of(record).map(|group| shared.group = group)
        }
        Time::GroupEnds => {
            shared.group.clear();
            Ok(())
        }
    };
    match written {
        Ok(()) => Ok(()),
        Err(Unwritten::Broken) => Err(Broken),
        Err(Unwritten::Deep | Unwritten::Large) => {
            out.lines.truncate(begin);
            out.rejected.0 += 1;
            out.rejected.1 += record.len() as u64;
            Ok(())
        }
    }
}

/// What a group states for its events. A member that is an empty map states nothing.
fn group_of(mut record: &[u8]) -> Result<Vec<Member>, Unwritten> {
    let content = &mut record;
    let Head::Map(pairs) = take_head(content)? else { return Ok(Vec::new()) };
    let (mut group, mut bytes) = (Vec::new(), 0);
    for _ in 0..pairs {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        write_key(content, 0, &mut key)?;
        write_value(content, 1, &mut value)?;
        if value == b"{}" || NOT_OF_GROUPS.contains(&&key[..]) {
            continue;
        }
        bytes += key.len() + value.len();
        if bytes > GROUP_BYTES_MAX || group.len() == GROUP_MEMBERS_MAX {
            return Err(Unwritten::Large);
        }
        group.push(Member { key, value });
    }
    Ok(group)
}

fn write_line(
    time_ns: Option<i64>,
    mut record: &[u8],
    shared: &Shared,
    lines: &mut Vec<u8>,
) -> Result<(), Unwritten> {
    let (mut has_time, mut has_tag) = (time_ns.is_none(), false);
    // Members of the group that the record replaces.
    let mut replaced = [false; GROUP_MEMBERS_MAX];
    // Members of a record of Docker's driver, and where its text is written.
    let (mut of_docker, mut log_at) = (0, None);
    lines.push(b'{');
    let mut content = record;
    if let Head::Map(pairs) = take_head(&mut content)? {
        for _ in 0..pairs {
            let mut key = content;
            match take_text(&mut key)? {
                Some(b"_time") => has_time = true,
                Some(TAG) => has_tag = true,
                Some(b"log") => log_at = Some(lines.len()),
                Some(b"container_id" | b"container_name" | b"source") => of_docker += 1,
                _ => {}
            }
            let begin = lines.len();
            write_key(&mut content, 0, lines)?;
            for (member, is_replaced) in shared.group.iter().zip(&mut replaced) {
                *is_replaced |= lines[begin..] == member.key[..];
            }
            lines.push(b':');
            write_value(&mut content, 1, lines)?;
            lines.push(b',');
        }
        if let Some(at) = log_at.filter(|_| of_docker == DOCKER_MEMBERS) {
            lines.splice(at..at + LOG.len(), MSG.iter().copied());
        }
    } else {
        lines.extend_from_slice(b"\"_msg\":");
        write_value(&mut record, 1, lines)?;
        lines.push(b',');
    }
    for (member, is_replaced) in shared.group.iter().zip(replaced) {
        if is_replaced {
            continue;
        }
        lines.extend_from_slice(&member.key);
        lines.push(b':');
        lines.extend_from_slice(&member.value);
        lines.push(b',');
    }
    if let Some(time_ns) = time_ns.filter(|_| !has_time) {
        lines.extend_from_slice(b"\"_time\":\"");
        write_time(time_ns, lines);
        lines.extend_from_slice(b"\",");
    }
    match has_tag {
        true => _ = lines.pop(),
        false => lines.extend_from_slice(&shared.tag),
    }
    lines.extend_from_slice(b"}\n");
    Ok(())
}
