//! Turns JSON objects into fields: one pass over the text, directly into the row.
//!
//! Keys of nested objects are joined by dots; arrays, empty objects, and objects deeper than
//! [`JSON_DEPTH_MAX`] stay JSON text; numbers and literals are kept as written; null is not a
//! field; of a repeated key the last value wins. A value is a position in the line unless it has
//! escapes. Keys that may hold the time, the message or the level are held back until the object
//! has ended, because another one may be preferred: `json_names` has these names, `json_time` and
//! `json_level` the meaning of their values.
//!
//! Lines of one source have the same keys in the same order, so each key is first compared with the
//! one at the same position in the previous line (`Flattener::seen`); only a different key is
//! looked up.
//!
//! The grammar is that of RFC 8259, checked to the end. An object that violates it is read once
//! more ([`Flattener::mend`]): everything that can be understood becomes fields, and a note says
//! what was wrong and where. So a sender's single bad byte, control character, `NaN` or truncated
//! end does not cost the other fields. Half a surrogate pair becomes U+FFFD, since loggers that cut
//! messages produce them; that, and a repeated key, is noted too.
//!
//! Logfmt pairs are processed in the same way ([`Flattener::pairs`]). Left out: comments, single
//! quotes.

use super::json_level;
use super::json_names::{
    DOCKER_RANK, HOST, HOSTS, JOURNAL_RANK, LEVELS, LevelKind, MESSAGES, Marks, Part, TIMES, Use,
    find,
};
use super::json_scan::{Broken, Fault, Scan};
use super::json_time;
use super::logfmt;
use super::row::{GivenFields, NAME_BYTES_MAX, Own, RowsBuilder, is_given, is_taken};
use super::rules::{NAMES_MAX, Names};
use super::time::Context;
use super::times::Times;
use crate::batch::{FieldId, Kept};

/// Objects nested deeper than this are kept as JSON text in one field.
pub const JSON_DEPTH_MAX: usize = 16;
/// Keys of a line that are remembered for the next line.
const SEEN_MAX: usize = 256;

/// Notes about an object.
pub(super) const TWICE: &str = "a key occurs twice, its last value counts";
const HALVES: &str = "half a surrogate pair in JSON, U+FFFD stored";

/// The role of a key.
#[derive(Clone, Copy, Debug)]
enum Role {
    Field(FieldId),
    /// A field that has a meaning besides its value.
    Known(FieldId, Meaning),
    Time(u8, Marks),
    Message(u8, Marks),
    Ignored,
    NoRoom,
}

/// The meaning of a field besides its value.
#[derive(Clone, Copy, Debug, Default)]
struct Meaning {
    /// Its name is one that the line is given anyway.
    given: bool,
    marks: Marks,
    /// Its rank among the keys of the level.
    level: Option<u8>,
    part: Option<Part>,
    /// Its rank among the keys of the host.
    host: Option<u8>,
}

/// A value, in the object or in the batch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    /// Its offset and length in the object's text.
    Text(u32, u32),
    Made(Kept),
}

/// What the caller knows about the object.
#[derive(Clone, Copy)]
pub(crate) struct ParseContext<'a> {
    /// Keys that were named by the source, or by the rule with this index.
    pub names: Names<'a>,
    pub origin: u16,
    /// The object is not a part of the line, so its values have to be copied.
    pub is_made: bool,
    /// Which names the hints give to the line.
    pub given: GivenFields,
    /// Whether an object's host is that of the line: there is no head, and the stream has its
    /// usual fields.
    pub wants_host: bool,
    /// The text is that of a firewall, in whose pairs `hostname` is the site that was asked for.
    pub is_firewall: bool,
    /// Set if the time is not known yet: the object's time is wanted, and this is the context for
    /// parsing it.
    pub wants_time: Option<Context>,
}

/// The results besides fields.
pub(crate) struct FoundParts {
    /// Whether a message was written.
    pub message: bool,
    /// The result of the keys for the time.
    pub time: TimeFound,
    /// The result of the keys for the level.
    pub level: LevelFound,
    /// The log line of a container's program, which is the message.
    pub docker: Option<Value>,
}

/// The outcome of looking for the level.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LevelFound {
    None,
    Known(&'static str),
    /// An unknown word under a key that was configured for the level.
    Other(Value),
}

/// What was wrong with an object whose fields could be partly read: the problem, and its offset in
/// the object.
pub(crate) type Faults = [Option<Fault>; 2];

/// The outcome of looking for the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeFound {
    /// No key for the time, or a value that means "now" (0 or empty).
    None,
    /// Taken from a key, in nanoseconds since 1970 UTC.
    Resolved(i64),
    /// An impossible time.
    Absurd,
    /// The value of a key that was configured as the time is not a time.
    Unreadable,
}

/// State of the scanner that is kept between lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flattener {
    path: Vec<u8>,
    text: Vec<u8>,
    stack: Vec<u8>,
    seen: Vec<Seen>,
    /// The origin, rule, presence of a head and of a known time, and being a firewall's, for which
    /// `seen` is valid.
    seen_for: Option<(u16, Option<u16>, bool, bool, bool)>,
    /// Values of the object that may be its time or message, by rank among the candidates,
    /// ascending.
    times: Vec<(u8, Value)>,
    messages: Vec<(u8, Value)>,
    levels: Vec<(u8, Value)>,
    hosts: Vec<(u8, Value)>,
    /// Seconds and nanoseconds that are separate members.
    parts: [Option<Value>; 2],
    marks: Marks,
    /// Members that became fields, or were held back.
    members: usize,
}

/// A key of the previous line.
#[derive(Clone, Debug)]
struct Seen {
    /// `"name":` for a top-level key without escapes; otherwise only the path.
    text: Vec<u8>,
    whole: bool,
    role: Role,
}

impl Seen {
    fn name(&self) -> &[u8] {
        if self.whole { &self.text[1..self.text.len() - 2] } else { &self.text }
    }
}

/// One object while it is parsed.
struct ObjectParse<'a, 'm, 'f> {
    scan: Scan<'a>,
    rows: &'m mut RowsBuilder<'f>,
    /// Where the object begins in its line, if it is a part of it.
    begin: usize,
    line_context: ParseContext<'a>,
    memory: &'m mut Flattener,
    key_index: usize,
}

impl Flattener {
    /// Discards everything that is only valid for one batch.
    pub fn begin_batch(&mut self) {
        self.seen.clear();
        self.seen_for = None;
    }

    /// Writes the fields of an object; `text` must be the object from end to end. After an error
    /// the row has fields that the caller must remove.
    pub fn flatten<'a>(
        &mut self,
        text: &'a [u8],
        line_context: ParseContext<'a>,
        times: &mut Times,
        rows: &mut RowsBuilder<'_>,
    ) -> Result<FoundParts, Broken> {
        if !text.is_ascii() && std::str::from_utf8(text).is_err() {
            return Err(Broken);
        }
        let mut flight = self.start(Scan::new(text), text, line_context, rows);
        flight.whole()?;
        Ok(flight.found(times))
    }

    /// As [`flatten`](Self::flatten), for a text that is not entirely a valid object: writes the
    /// fields that can be read, and returns the problems. `None` if there are no fields; the row
    /// may then still have some.
    pub fn mend<'a>(
        &mut self,
        text: &'a [u8],
        line_context: ParseContext<'a>,
        times: &mut Times,
        rows: &mut RowsBuilder<'_>,
    ) -> Option<(FoundParts, Faults)> {
        let mut flight = self.start(Scan::mending(text), text, line_context, rows);
        let encoding = std::str::from_utf8(text).err().map(|error| Fault {
            what: "JSON with bytes that are not UTF-8",
            at: error.valid_up_to() as u32,
        });
        flight.whole_leniently();
        if flight.memory.members == 0 {
            return None;
        }
        let [first, end] = flight.scan.faults();
        let faults = match encoding {
            Some(encoding) => [Some(encoding), end.or(first)],
            None => [first, end.filter(|end| Some(*end) != first)],
        };
        Some((flight.found(times), faults))
    }

    /// Writes the fields of a text of pairs; returns whether all of it was pairs.
    pub fn pairs<'a>(
        &mut self,
        text: &'a [u8],
        line_context: ParseContext<'a>,
        times: &mut Times,
        rows: &mut RowsBuilder<'_>,
    ) -> (FoundParts, bool) {
        let mut flight = self.start(Scan::new(text), text, line_context, rows);
        let whole = logfmt::pairs(text, |pair| {
            let value = if pair.escaped {
                flight.made(pair.value)
            } else {
                let at = pair.value.as_ptr().addr().wrapping_sub(text.as_ptr().addr());
                Value::Text(
                    if pair.value.is_empty() { 0 } else { at as u32 },
                    pair.value.len() as u32,
                )
            };
            let role = flight.role(Some(pair.key));
            flight.take(role, value);
        });
        (flight.found(times), whole)
    }

    fn start<'a, 'm, 'f>(
        &'m mut self,
        scan: Scan<'a>,
        text: &[u8],
        line_context: ParseContext<'a>,
        rows: &'m mut RowsBuilder<'f>,
    ) -> ObjectParse<'a, 'm, 'f> {
        let head = (line_context.given.head, line_context.wants_time.is_some());
        let surroundings = Some((
            line_context.origin,
            line_context.names.rule,
            head.0,
            head.1,
            line_context.is_firewall,
        ));
        if self.seen_for != surroundings {
            self.seen.clear();
            self.seen_for = surroundings;
        }
        self.path.clear();
        self.times.clear();
        self.messages.clear();
        self.levels.clear();
        self.hosts.clear();
        self.parts = [None; 2];
        self.marks = Marks::NONE;
        self.members = 0;
        let begin = if line_context.is_made { 0 } else { rows.offset(text) };
        ObjectParse { scan, rows, begin, line_context, memory: self, key_index: 0 }
    }
}

impl<'a> ObjectParse<'a, '_, '_> {
    fn whole(&mut self) -> Result<(), Broken> {
        self.scan.blanks();
        self.scan.expect(b'{')?;
        self.object(1)?;
        self.scan.blanks();
        self.scan.end()
    }

    /// Reads the object at the start of a text as far as possible.
    fn whole_leniently(&mut self) {
        self.scan.blanks();
        if !self.scan.skip(b'{') {
            return;
        }
        if self.object(1).is_err() {
            return self.scan.give_up();
        }
        self.scan.blanks();
        if self.scan.end().is_err() {
            self.scan.set_end("text behind the JSON object");
        }
    }

    fn found(&mut self, times: &mut Times) -> FoundParts {
        let (message, docker) = self.put_message();
        self.put_host();
        let time = match self.take_time(times) {
            time @ (TimeFound::None | TimeFound::Unreadable) => {
                self.of_date_and_time().unwrap_or(time)
            }
            time => time,
        };
        FoundParts { message, time, level: self.take_level(), docker }
    }

    /// The time of firewalls and of other devices, in separate fields for day and time.
    fn of_date_and_time(&self) -> Option<TimeFound> {
        let context = self.line_context.wants_time?;
        if !self.line_context.names.time.is_empty() {
            return None;
        }
        let value = |name: &str| self.rows.builder.get(self.rows.builder.known_id(name)?);
        let date = value("date").filter(|date| !date.is_empty())?;
        let zone = value("tz").or_else(|| value("timezone")).unwrap_or_default();
        let time = value("time")?;
        json_time::of_date_and_time(date, time, zone, context).map(TimeFound::Resolved)
    }

    /// The members of an object and its closing brace; the opening one was consumed.
    fn object(&mut self, depth: usize) -> Result<(), Broken> {
        self.scan.blanks();
        if self.scan.skip(b'}') {
            return Ok(());
        }
        let prefix = self.memory.path.len();
        loop {
            self.scan.blanks();
            let expected = self.memory.seen.get(self.key_index);
            if depth == 1
                && let Some(Seen { text, role, whole: true }) = expected
                && let Some(key) = self.scan.skip_text(text)
            {
                let role = *role;
                self.scan.blanks();
                self.member(&key[1..key.len() - 2], false, depth, Some(role))?;
            } else {
                if self.scan.mends() && self.scan.peek() == Some(b'}') {
                    self.scan.set_fault("JSON with a comma too many");
                    return self.scan.expect(b'}');
                }
                self.scan.expect(b'"')?;
                let (key, escaped) = self.scan.string()?;
                self.scan.blanks();
                self.scan.expect(b':')?;
                self.scan.blanks();
                self.member(key, escaped, depth, None)?;
            }
            self.memory.path.truncate(prefix);
            self.scan.blanks();
            if self.scan.skip(b',') {
                continue;
            }
            return self.scan.expect(b'}');
        }
    }

    /// The value of a key, whose role may be known.
    #[inline]
    fn member(
        &mut self,
        key: &'a [u8],
        escaped: bool,
        depth: usize,
        role: Option<Role>,
    ) -> Result<(), Broken> {
        let whole = depth == 1 && !escaped;
        if !whole {
            if depth > 1 {
                self.memory.path.push(b'.');
            }
            if escaped {
                if text::json::unescape(key, &mut self.memory.path) {
                    self.rows.note(HALVES);
                }
            } else {
                self.memory.path.extend_from_slice(key);
            }
        }
        let value = match self.scan.peek() {
            Some(b'{') if depth < JSON_DEPTH_MAX && !self.scan.at_empty_object() => {
                if whole {
                    self.memory.path.extend_from_slice(key);
                }
                self.scan.expect(b'{')?;
                return self.object(depth + 1);
            }
            Some(b'{' | b'[') => {
                let begin = self.scan.offset();
                let text = self.scan.nested(&mut self.memory.stack)?;
                Value::Text(begin, text.len() as u32)
            }
            Some(b'"') => {
                self.scan.expect(b'"')?;
                let begin = self.scan.offset();
                let (text, escaped) = self.scan.string()?;
                if text.is_empty() && self.scan.is_cut() {
                    return Err(Broken);
                }
                if escaped {
                    self.made_of_json(text)
                } else {
                    Value::Text(begin, text.len() as u32)
                }
            }
            _ => {
                let begin = self.scan.offset();
                match self.scan.scalar()? {
                    b"null" => return Ok(()),
                    text => Value::Text(begin, text.len() as u32),
                }
            }
        };
        let role = match role {
            Some(role) => {
                self.key_index += 1;
                role
            }
            None => self.role(if whole { Some(key) } else { None }),
        };
        self.take(role, value);
        Ok(())
    }

    /// A value without JSON escapes.
    fn made_of_json(&mut self, text: &[u8]) -> Value {
        self.memory.text.clear();
        if text::json::unescape(text, &mut self.memory.text) {
            self.rows.note(HALVES);
        }
        Value::Made(self.rows.builder.keep_made(&self.memory.text))
    }

    /// A value without logfmt escapes, which are those of Go: `\"`, `\\`, `\n`, `\u00e9`.
    fn made(&mut self, text: &[u8]) -> Value {
        self.made_of_json(text)
    }

    /// Uses a value according to the role of its key.
    #[inline]
    fn take(&mut self, role: Role, value: Value) {
        self.memory.members += 1;
        let memory = &mut *self.memory;
        let twice = match role {
            Role::Field(id) => return self.put(id, value),
            Role::Known(id, meaning) => {
                if meaning.given {
                    self.rows.set_apart();
                }
                memory.marks.add(meaning.marks);
                if let Some(rank) = meaning.level {
                    hold(&mut memory.levels, rank, value);
                }
                if let Some(rank) = meaning.host {
                    hold(&mut memory.hosts, rank, value);
                }
                if let Some(part) = meaning.part {
                    memory.parts[part as usize] = Some(value);
                }
                return self.put(id, value);
            }
            Role::Time(rank, marks) => {
                memory.marks.add(marks);
                hold(&mut memory.times, rank, value)
            }
            Role::Message(rank, marks) => {
                memory.marks.add(marks);
                hold(&mut memory.messages, rank, value)
            }
            Role::Ignored => false,
            Role::NoRoom => return self.rows.no_room(),
        };
        if twice {
            self.rows.note(TWICE);
        }
    }

    #[inline]
    fn put(&mut self, id: FieldId, value: Value) {
        if self.rows.builder.get(id).is_some() {
            self.rows.note(TWICE);
        }
        if self.rows.has_room(id) {
            self.push(id, value);
        }
    }

    #[inline]
    fn push(&mut self, id: FieldId, value: Value) {
        match value {
            Value::Text(at, length) if self.line_context.is_made => {
                self.rows.builder.push_made(id, self.scan.part(at, length));
            }
            Value::Text(_, 0) => self.rows.builder.push_slice(id, 0, 0),
            Value::Text(at, length) => {
                self.rows.builder.push_slice(id, self.begin + at as usize, length as usize);
            }
            Value::Made(kept) => self.rows.builder.push_kept(id, kept),
        }
    }

    /// The role of a key: of `whole`, or else of the path.
    #[inline]
    fn role(&mut self, whole: Option<&[u8]>) -> Role {
        let name = whole.unwrap_or(&self.memory.path);
        // A longer name has no room. An object's may be that of each of its members, so that all of
        // it is neither looked at nor remembered.
        let whole = whole.filter(|name| name.len() <= NAME_BYTES_MAX);
        let name = &name[..name.len().min(NAME_BYTES_MAX + 1)];
        let index = self.key_index;
        self.key_index += 1;
        if let Some(seen) = self.memory.seen.get(index)
            && seen.name() == name
        {
            return seen.role;
        }
        let role = match std::str::from_utf8(name) {
            Ok(name) => find_role(name, self.line_context, self.rows),
            Err(_) => find_role(&String::from_utf8_lossy(name), self.line_context, self.rows),
        };
        let seen = &mut self.memory.seen;
        if index < SEEN_MAX && index == seen.len() {
            seen.push(Seen { text: Vec::new(), whole: false, role });
        }
        if let Some(seen) = seen.get_mut(index) {
            (seen.whole, seen.role) = (whole.is_some(), role);
            seen.text.clear();
            match whole {
                Some(key) => [b"\"", key, b"\":"]
                    .into_iter()
                    .for_each(|part| seen.text.extend_from_slice(part)),
                None => seen.text.extend_from_slice(name),
            }
        }
        role
    }

    /// Writes the preferred message as `_msg` and the other candidates as fields; returns whether
    /// there was one. A container's log line is returned instead.
    fn put_message(&mut self) -> (bool, Option<Value>) {
        let held = std::mem::take(&mut self.memory.messages);
        let named = self.line_context.names.msg;
        let marks = self.memory.marks;
        let can = |rank: u8| !named.is_empty() || marks.has(MESSAGES[usize::from(rank)].needs);
        let filled = |(rank, value): &(u8, Value)| can(*rank) && !value.is_empty();
        let chosen = held.iter().position(filled).or_else(|| held.iter().position(|m| can(m.0)));
        let mut docker = None;
        for (i, &(rank, value)) in held.iter().enumerate() {
            let is_chosen = Some(i) == chosen;
            if is_chosen && named.is_empty() && rank == DOCKER_RANK {
                docker = Some(value);
                continue;
            }
            if is_chosen {
                let id = self.rows.id(Own::Msg);
                let is_journal = named.is_empty() && rank == JOURNAL_RANK;
                let bytes = if is_journal { self.bytes_of_numbers(value) } else { None };
                self.push(id, bytes.unwrap_or(value));
            }
            let name = match named.is_empty() {
                true => MESSAGES[usize::from(rank)].name,
                false if usize::from(rank) == NAMES_MAX => MESSAGES[0].name,
                false => &named[usize::from(rank)],
            };
            if !is_chosen || (named.is_empty() && MESSAGES[usize::from(rank)].keeps) {
                self.put_named(name, value);
            }
        }
        self.memory.messages = held;
        (chosen.is_some(), docker)
    }

    /// The bytes of `[104,195,169]`: so `journalctl` writes a message that is not plain text.
    fn bytes_of_numbers(&mut self, value: Value) -> Option<Value> {
        let text = self.text(value);
        let inner = text.strip_prefix(b"[")?.strip_suffix(b"]")?;
        let byte = |part: &[u8]| std::str::from_utf8(part.trim_ascii()).ok()?.parse::<u8>().ok();
        let bytes: Option<Vec<u8>> = inner.split(|b| *b == b',').map(byte).collect();
        Some(Value::Made(self.rows.builder.keep_made(&bytes?)))
    }

    /// Gives the line the host of the object, if it has no `hostname`.
    fn put_host(&mut self) {
        if self.memory.hosts.is_empty() || !self.line_context.wants_host {
            return;
        }
        let named = self.line_context.names.host;
        let is_site = |rank: u8| {
            named.is_empty()
                && HOSTS[usize::from(rank)].eq_ignore_ascii_case(HOST)
                && self.memory.marks.has(Marks::REQUEST)
        };
        let chosen =
            self.memory.hosts.iter().find(|(rank, value)| !value.is_empty() && !is_site(*rank));
        let Some(value) = chosen.map(|(_, value)| *value) else { return };
        if self.rows.has(Own::Hostname) {
            if named.is_empty() {
                return;
            }
            // What was sent under that name is kept beside.
            let id = self.rows.id(Own::Hostname);
            let sent = self.rows.builder.get(id).map(<[u8]>::to_vec).unwrap_or_default();
            if let Some(beside) = self.rows.key_id("json.hostname")
                && self.rows.has_room(beside)
            {
                self.rows.builder.push_made(beside, &sent);
            }
        }
        let id = self.rows.id(Own::Hostname);
        self.push(id, value);
    }

    /// The preferred readable time; the other candidates become fields.
    fn take_time(&mut self, times: &mut Times) -> TimeFound {
        let Some(context) = self.line_context.wants_time else { return TimeFound::None };
        let held = std::mem::take(&mut self.memory.times);
        let named = self.line_context.names.time;
        let mut found = TimeFound::None;
        for &(rank, value) in &held {
            let known = named.is_empty().then(|| &TIMES[usize::from(rank)]);
            let name = known.map_or_else(|| named[usize::from(rank)].as_str(), |known| known.name);
            let can = known.is_none_or(|known| self.memory.marks.has(known.needs));
            let keeps = known.is_some_and(|known| known.keeps);
            if can && !matches!(found, TimeFound::Resolved(_)) {
                let text = self.text(value);
                // As in VictoriaLogs, 0 and empty mean the arrival time.
                if matches!(*text, [] | [b'0']) && !keeps {
                    continue;
                }
                let number_only = known.is_some_and(|known| known.number);
                let outcome = match json_time::read(&text, number_only, context, times) {
                    Some(Ok(time_ns)) => TimeFound::Resolved(time_ns),
                    // A name that can mean something else does not count as a time then.
                    Some(Err(_)) if keeps => TimeFound::None,
                    Some(Err(_)) => TimeFound::Absurd,
                    None if number_only => TimeFound::None,
                    None if keeps && !json_time::looks_like_time(&text) => TimeFound::None,
                    None if !keeps
                        && !matches!(name, "_time" | "@timestamp")
                        && known.is_some()
                        && json_time::is_duration(&text) =>
                    {
                        TimeFound::None
                    }
                    None => TimeFound::Unreadable,
                };
                // A time that was found first to be absurd is noted, even if a further one cannot
                // be read.
                if matches!(outcome, TimeFound::Resolved(_)) || found == TimeFound::None {
                    found = outcome;
                }
                if matches!(found, TimeFound::Resolved(_)) && !keeps {
                    continue;
                }
            }
            self.put_named(name, value);
        }
        self.memory.times = held;
        if let ([Some(seconds), nanos], false) =
            (self.memory.parts, matches!(found, TimeFound::Resolved(_)))
        {
            let nanos = nanos.map(|nanos| self.text(nanos)).unwrap_or_default();
            if let Some(time_ns) = json_time::of_parts(&self.text(seconds), &nanos, context) {
                found = TimeFound::Resolved(time_ns);
            }
        }
        found
    }

    /// The preferred valid level. An unknown word counts if its key was configured.
    fn take_level(&mut self) -> LevelFound {
        let held = std::mem::take(&mut self.memory.levels);
        let named = self.line_context.names.level;
        let marks = self.memory.marks;
        let mut found = LevelFound::None;
        for &(rank, value) in &held {
            let kind = match named.is_empty() {
                true => LEVELS[usize::from(rank)].1,
                false => named_kind(&named[usize::from(rank)]),
            };
            let text = self.text(value);
            if let Some(level) = json_level::find(kind, &text, marks) {
                found = LevelFound::Known(level);
                break;
            }
            if matches!(found, LevelFound::None) && !named.is_empty() && !text.is_empty() {
                found = LevelFound::Other(value);
            }
        }
        self.memory.levels = held;
        match (found, json_level::unnamed(marks)) {
            (LevelFound::None, Some(level)) if named.is_empty() => LevelFound::Known(level),
            _ => found,
        }
    }

    /// The text of a value.
    fn text(&self, value: Value) -> std::borrow::Cow<'a, [u8]> {
        match value {
            Value::Text(at, length) => self.scan.part(at, length).into(),
            Value::Made(kept) => self.rows.builder.kept(kept).to_vec().into(),
        }
    }

    fn put_named(&mut self, name: &str, value: Value) {
        if is_given(name, self.line_context.given) {
            self.rows.set_apart();
        }
        match field(name, self.rows) {
            Some(id) => self.put(id, value),
            None => self.rows.no_room(),
        }
    }
}

impl Value {
    fn is_empty(self) -> bool {
        match self {
            Value::Text(_, length) => length == 0,
            Value::Made(kept) => kept.is_empty(),
        }
    }
}

/// How a key that was configured for the level expresses it.
fn named_kind(name: &str) -> LevelKind {
    match find(name) {
        Some((Use::Level(_, kind), _)) if kind.stands_alone() => kind,
        _ => LevelKind::Level,
    }
}

/// The text of a value of an object.
pub(crate) fn bytes<'v>(value: Value, object: &'v [u8], rows: &'v RowsBuilder<'_>) -> &'v [u8] {
    match value {
        Value::Text(at, length) => &object[at as usize..][..length as usize],
        Value::Made(kept) => rows.builder.kept(kept),
    }
}

/// Holds a value back; the last one of a rank counts. Returns whether there was one already.
fn hold(held: &mut Vec<(u8, Value)>, rank: u8, value: Value) -> bool {
    let at = held.partition_point(|(other, _)| *other < rank);
    match held.get_mut(at) {
        Some(same) if same.0 == rank => {
            same.1 = value;
            true
        }
        _ => {
            held.insert(at, (rank, value));
            false
        }
    }
}

fn find_role(name: &str, line_context: ParseContext<'_>, rows: &mut RowsBuilder<'_>) -> Role {
    let ignored = |pattern: &String| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    };
    let names = line_context.names;
    if names.ignore.iter().any(ignored) {
        return Role::Ignored;
    }
    let (usage, marks) = find(name).unwrap_or((Use::Mark, Marks::NONE));
    let named = |list: &[String]| {
        let rank = list.iter().take(NAMES_MAX).position(|n| n == name);
        rank.map(|rank| rank as u8)
    };
    if line_context.wants_time.is_some() {
        match usage {
            _ if !names.time.is_empty() => {
                if let Some(rank) = named(names.time) {
                    return Role::Time(rank, marks);
                }
            }
            Use::Time(rank) => return Role::Time(rank, marks),
            _ => {}
        }
    }
    match usage {
        _ if !names.msg.is_empty() => {
            if let Some(rank) = named(names.msg) {
                return Role::Message(rank, marks);
            }
            // A key named `_msg` is the message, unless a key that was configured instead is
            // present.
            if name == MESSAGES[0].name {
                return Role::Message(NAMES_MAX as u8, marks);
            }
        }
        Use::Message(rank) => return Role::Message(rank, marks),
        _ => {}
    }
    let in_firewall = line_context.is_firewall && name == "hostname";
    let id = if in_firewall { rows.key_id("logfmt.hostname") } else { field(name, rows) };
    let Some(id) = id else { return Role::NoRoom };
    let host = match usage {
        _ if !names.host.is_empty() => named(names.host),
        Use::Host(rank) => Some(rank),
        _ if line_context.is_firewall && matches!(name, "devname" | "device_name") => Some(0),
        _ => None,
    };
    let level = match usage {
        _ if !names.level.is_empty() => named(names.level),
        // Sophos, and FortiMail
        _ if line_context.is_firewall && matches!(name, "priority" | "pri") => Some(1),
        Use::Level(rank, _) => Some(rank),
        _ => None,
    };
    let part = match usage {
        Use::TimePart(part) => Some(part),
        _ => None,
    };
    let given = !in_firewall && is_given(name, line_context.given);
    let meaning = Meaning { given, marks, level, part, host };
    match given || marks != Marks::NONE || level.is_some() || part.is_some() || host.is_some() {
        true => Role::Known(id, meaning),
        false => Role::Field(id),
    }
}

fn field(name: &str, rows: &mut RowsBuilder<'_>) -> Option<FieldId> {
    if is_taken(name) {
        return rows.key_id(&format!("json.{name}"));
    }
    rows.key_id(name)
}
