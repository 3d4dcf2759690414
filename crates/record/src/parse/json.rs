//! JSON objects to fields: one pass over the text, straight into the row.
//!
//! Keys of nested objects are joined by dots; arrays, empty objects, and objects deeper than [`JSON_DEPTH_MAX`]
//! stay JSON text; numbers and literals are kept as written; null is no field; of a repeated key the last value
//! counts.
//! A value is a place in the line unless it has escapes. Keys that may hold the time or the message are held
//! back until the object has ended, because another one may be preferred.
//!
//! Lines of one source have the same keys in the same order, so each key is first compared with the one that
//! stood there in the line before (`Flattener::seen`); only a different one is looked up.
//!
//! The grammar is that of RFC 8259, checked to the end. One thing is forgiven: half a surrogate pair in an escape
//! becomes U+FFFD, because loggers that cut messages make them. Left out: the text of comments, NaN, single
//! quotes.

use super::json_scan::{Broken, Scan, unescape};
use super::row::{Given, Own, Rows, is_given, is_taken};
use super::time::Context;
use super::times::Times;
use crate::batch::{FieldId, Kept};
use crate::frame::Hints;

/// Objects nested deeper than that are kept as JSON text in one field.
pub const JSON_DEPTH_MAX: usize = 16;
/// Keys of a line whose place is remembered for the next line.
const SEEN_MAX: usize = 256;
/// Keys that may hold the time, or the message; more of the hints are not looked at.
const CANDIDATES_MAX: usize = 16;

const TIME_FIELDS: [&str; 5] = ["_time", "@timestamp", "timestamp", "time", "ts"];
const MSG_FIELDS: [&str; 3] = ["_msg", "message", "msg"];

/// What a key is for.
#[derive(Clone, Copy, Debug)]
enum Role {
    Field(FieldId),
    /// A field of a name that lines are given.
    Given(FieldId),
    Time(u8),
    Message(u8),
    Ignored,
    NoRoom,
}

/// A value, in the object or in the batch.
#[derive(Clone, Copy, Debug)]
enum Value {
    /// Its place in the object's text.
    Text(u32, u32),
    Made(Kept),
}

/// What the caller knows of the object.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    pub hints: &'a Hints,
    pub origin: u16,
    /// Which names the line is given.
    pub given: Given,
    /// The time is not known yet, so the object's is wanted, under these circumstances.
    pub wants_time: Option<Context>,
}

/// What was found besides fields.
pub(crate) struct Found {
    /// Whether a message was written.
    pub message: bool,
    /// What the keys for the time say.
    pub time: TimeFound,
}

/// The outcome of looking for the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeFound {
    /// No key for it, or a value that says "now" (0 or empty).
    None,
    /// Taken from a key, in nanoseconds since 1970 UTC.
    Resolved(i64),
    /// Taken from a key.
    At(super::time::Written),
    /// A key that was named for it has a value that is no time.
    Unreadable,
}

/// The scanner's memory between lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flattener {
    path: Vec<u8>,
    text: String,
    stack: Vec<u8>,
    seen: Vec<Seen>,
    /// For which origin, with a head or not, with the time wanted or not, `seen` holds.
    seen_for: Option<(u16, bool, bool)>,
    /// Values of the object that may be its time or message, by place among the candidates, ascending.
    times: Vec<(u8, Value)>,
    messages: Vec<(u8, Value)>,
}

/// A key of the line before.
#[derive(Clone, Debug)]
struct Seen {
    /// `"name":` for a key of the object itself, without escapes; else the path alone.
    text: Vec<u8>,
    whole: bool,
    role: Role,
}

impl Seen {
    fn name(&self) -> &[u8] {
        if self.whole { &self.text[1..self.text.len() - 2] } else { &self.text }
    }
}

/// One object on its way.
struct Flight<'a, 'm, 'f> {
    scan: Scan<'a>,
    rows: &'m mut Rows<'f>,
    /// Where the object begins in its line.
    begin: usize,
    around: Around<'a>,
    memory: &'m mut Flattener,
    key_place: usize,
}

impl Flattener {
    /// Forgets what is only good for one batch.
    pub fn begin_batch(&mut self) {
        self.seen.clear();
        self.seen_for = None;
    }

    /// Writes the fields of an object, which `text` has to be from end to end. After an error the row has
    /// fields that the caller takes back.
    pub fn flatten<'a>(
        &mut self,
        text: &'a [u8],
        around: Around<'a>,
        times: &mut Times,
        rows: &mut Rows<'_>,
    ) -> Result<Found, &'static str> {
        let begin = rows.offset(text);
        if !text.is_ascii() && std::str::from_utf8(text).is_err() {
            return Err("not JSON: invalid UTF-8");
        }
        let surroundings = Some((around.origin, around.given.head, around.wants_time.is_some()));
        if self.seen_for != surroundings {
            self.seen.clear();
            self.seen_for = surroundings;
        }
        self.path.clear();
        self.times.clear();
        self.messages.clear();
        let mut flight =
            Flight { scan: Scan::new(text), rows, begin, around, memory: self, key_place: 0 };
        flight.whole().map_err(|Broken| "not JSON: broken or cut off")?;
        Ok(Found { message: flight.put_message(), time: flight.take_time(times) })
    }
}

impl<'a> Flight<'a, '_, '_> {
    fn whole(&mut self) -> Result<(), Broken> {
        self.scan.blanks();
        self.scan.expect(b'{')?;
        self.object(1)?;
        self.scan.blanks();
        self.scan.end()
    }

    /// The members of an object and its closing brace; the opening one is behind us.
    fn object(&mut self, depth: usize) -> Result<(), Broken> {
        self.scan.blanks();
        if self.scan.skip(b'}') {
            return Ok(());
        }
        let prefix = self.memory.path.len();
        loop {
            self.scan.blanks();
            let expected = self.memory.seen.get(self.key_place);
            if depth == 1
                && let Some(Seen { text, role, whole: true }) = expected
                && let Some(key) = self.scan.skip_text(text)
            {
                let role = *role;
                self.scan.blanks();
                self.member(&key[1..key.len() - 2], false, depth, Some(role))?;
            } else {
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
                self.memory.text.clear();
                unescape(utf8(key), &mut self.memory.text);
                self.memory.path.extend_from_slice(self.memory.text.as_bytes());
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
                let begin = self.scan.place();
                let text = self.scan.nested(&mut self.memory.stack)?;
                Value::Text(begin, text.len() as u32)
            }
            Some(b'"') => {
                self.scan.expect(b'"')?;
                let begin = self.scan.place();
                let (text, escaped) = self.scan.string()?;
                if escaped {
                    self.memory.text.clear();
                    unescape(utf8(text), &mut self.memory.text);
                    Value::Made(self.rows.builder.keep_made(self.memory.text.as_bytes()))
                } else {
                    Value::Text(begin, text.len() as u32)
                }
            }
            _ => {
                let begin = self.scan.place();
                match self.scan.scalar()? {
                    b"null" => return Ok(()),
                    text => Value::Text(begin, text.len() as u32),
                }
            }
        };
        let role = match role {
            Some(role) => {
                self.key_place += 1;
                role
            }
            None => self.role(if whole { Some(key) } else { None }),
        };
        match role {
            Role::Field(id) => self.put(id, value),
            Role::Given(id) => {
                self.rows.set_apart();
                self.put(id, value);
            }
            Role::Time(place) => hold(&mut self.memory.times, place, value),
            Role::Message(place) => hold(&mut self.memory.messages, place, value),
            Role::Ignored => {}
            Role::NoRoom => self.rows.no_room(),
        }
        Ok(())
    }

    #[inline]
    fn put(&mut self, id: FieldId, value: Value) {
        if self.rows.has_room(id) {
            self.push(id, value);
        }
    }

    #[inline]
    fn push(&mut self, id: FieldId, value: Value) {
        match value {
            Value::Text(_, 0) => self.rows.builder.push_slice(id, 0, 0),
            Value::Text(at, length) => {
                self.rows.builder.push_slice(id, self.begin + at as usize, length as usize);
            }
            Value::Made(kept) => self.rows.builder.push_kept(id, kept),
        }
    }

    /// The role of a key: `whole`, or else the path.
    #[inline]
    fn role(&mut self, whole: Option<&[u8]>) -> Role {
        let name = whole.unwrap_or(&self.memory.path);
        let place = self.key_place;
        self.key_place += 1;
        if let Some(seen) = self.memory.seen.get(place)
            && seen.name() == name
        {
            return seen.role;
        }
        let role = find_role(utf8(name), self.around, self.rows);
        let seen = &mut self.memory.seen;
        if place < SEEN_MAX && place == seen.len() {
            seen.push(Seen { text: Vec::new(), whole: false, role });
        }
        if let Some(seen) = seen.get_mut(place) {
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

    /// Writes the preferred message as `_msg` and the other candidates as fields.
    fn put_message(&mut self) -> bool {
        let held = std::mem::take(&mut self.memory.messages);
        let filled = |(_, value): &(u8, Value)| !matches!(value, Value::Text(_, 0));
        let chosen = held.iter().position(filled).unwrap_or(0);
        for (i, &(place, value)) in held.iter().enumerate() {
            if i == chosen {
                let id = self.rows.id(Own::Msg);
                self.push(id, value);
            } else {
                let name = candidate(&self.around.hints.msg_fields, &MSG_FIELDS, place);
                self.put_named(name, value);
            }
        }
        let found = !held.is_empty();
        self.memory.messages = held;
        found
    }

    /// The preferred time that can be read; the other candidates become fields.
    fn take_time(&mut self, times: &mut Times) -> TimeFound {
        let held = std::mem::take(&mut self.memory.times);
        let named = &self.around.hints.time_fields;
        let mut found = TimeFound::None;
        for &(place, value) in &held {
            let text = match value {
                Value::Text(at, length) => self.scan.part(at, length),
                Value::Made(_) => b"escaped",
            };
            let name = candidate(named, &TIME_FIELDS, place);
            if !matches!(found, TimeFound::At(_) | TimeFound::Resolved(_)) {
                // VictoriaLogs: 0 and nothing mean the arrival.
                if matches!(text, b"" | b"0") {
                    continue;
                }
                let context = self.around.wants_time;
                if let Some(time_ns) = context.and_then(|context| times.whole(text, context)) {
                    found = TimeFound::Resolved(time_ns);
                    continue;
                }
                if let Some(written) = read_time(text) {
                    found = TimeFound::At(written);
                    continue;
                }
                if !named.is_empty() || matches!(name, "_time" | "@timestamp") {
                    found = TimeFound::Unreadable;
                }
            }
            self.put_named(name, value);
        }
        self.memory.times = held;
        found
    }

    fn put_named(&mut self, name: &str, value: Value) {
        if is_given(name, self.around.given) {
            self.rows.set_apart();
        }
        match field(name, self.rows) {
            Some(id) => self.put(id, value),
            None => self.rows.no_room(),
        }
    }
}

/// A part of the object as text.
fn utf8(part: &[u8]) -> &str {
    std::str::from_utf8(part).expect("the object is UTF-8, and cut next to ASCII bytes")
}

/// Holds a value back; the last one of a place counts.
fn hold(held: &mut Vec<(u8, Value)>, place: u8, value: Value) {
    let at = held.partition_point(|(other, _)| *other < place);
    match held.get_mut(at) {
        Some(same) if same.0 == place => same.1 = value,
        _ => held.insert(at, (place, value)),
    }
}

/// The time a JSON value says: RFC 3339 or a number since 1970.
fn read_time(text: &[u8]) -> Option<super::time::Written> {
    use super::time;
    if let Some((written, length)) = time::iso(text) {
        return (length == text.len()).then_some(written);
    }
    let exponent = memchr::memchr2(b'e', b'E', text).is_some();
    let (local_s, nanos) = match exponent {
        false => time::since_1970(text)?,
        true => {
            let seconds: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
            (1e8..1e19).contains(&seconds).then_some(())?;
            time::since_1970(format!("{seconds:.0}").as_bytes())?
        }
    };
    Some(time::Written { local_s, nanos, offset_s: Some(0), has_year: true })
}

fn candidate<'a>(hints: &'a [String], common: &[&'a str], place: u8) -> &'a str {
    let place = usize::from(place);
    if hints.is_empty() || place == CANDIDATES_MAX {
        common[place % CANDIDATES_MAX]
    } else {
        &hints[place]
    }
}

fn find_role(name: &str, around: Around<'_>, rows: &mut Rows<'_>) -> Role {
    let ignored = |pattern: &String| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    };
    if around.hints.ignore_fields.iter().any(ignored) {
        return Role::Ignored;
    }
    let place_in = |hints: &[String], common: &[&str]| match hints.is_empty() {
        true => common.iter().position(|c| *c == name),
        false => hints.iter().take(CANDIDATES_MAX).position(|h| h == name),
    };
    // What is called the message is it, unless a key that was named instead is there.
    let is_msg = name == MSG_FIELDS[0] && !around.hints.msg_fields.is_empty();
    if around.wants_time.is_some()
        && let Some(place) = place_in(&around.hints.time_fields, &TIME_FIELDS)
    {
        return Role::Time(place as u8);
    }
    if let Some(place) = place_in(&around.hints.msg_fields, &MSG_FIELDS) {
        return Role::Message(place as u8);
    }
    if is_msg {
        return Role::Message(CANDIDATES_MAX as u8);
    }
    match field(name, rows) {
        None => Role::NoRoom,
        Some(id) if is_given(name, around.given) => Role::Given(id),
        Some(id) => Role::Field(id),
    }
}

fn field(name: &str, rows: &mut Rows<'_>) -> Option<FieldId> {
    if is_taken(name) {
        return rows.key_id(&format!("json.{name}"));
    }
    rows.key_id(name)
}
