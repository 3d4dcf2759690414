//! The message of a line: detects its format, and writes the fields in it.
//!
//! A message that begins like JSON, logfmt or an access line, but is not valid, becomes `_msg`
//! unchanged.

use super::json::{self, Faults, FoundParts, LevelFound, ParseContext, TimeFound};
use super::row::{Own, RowsBuilder};
use super::rules::Names;
use super::servers::{self, Key, Name, Program, Value};
use super::{
    Parser, access, cef, container, given, json_parts, json_scan, leef, level, level_text, logfmt,
    otlp, slow_log, syslog, time_plain, traces, trimmed,
};
use crate::frame::{Line, MessageFormat};

/// The note of a time that has the form of one, or stands under a usual key, and is none.
pub(super) const TIME_UNREADABLE: &str = "time not readable, arrival taken";

/// A text within an object is an access line only if its time begins within this many bytes.
const ACCESS_SEARCH_BYTES: usize = 512;

/// What parsing a message needs to know about the line.
#[derive(Clone, Copy)]
pub(super) struct Opening<'a> {
    pub(super) message: &'a [u8],
    pub(super) has_head: bool,
    pub(super) has_time: bool,
    /// The head has a time that cannot be read.
    pub(super) is_time_bad: bool,
    /// The head has a priority.
    pub(super) severe: bool,
    /// The level that the message states in its first word as Cisco does: it needs no search.
    pub(super) mnemonic: Option<&'static str>,
    /// Keys that were configured for time, message and level.
    pub(super) names: Names<'a>,
    /// The program of the head.
    pub(super) program: Program,
}

/// The detected kind of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageKind {
    Plain,
    Json,
    Access,
    Logfmt,
}

impl Parser {
    /// Writes the fields of the message, including `_msg`, and also level, and time where the head
    /// has none.
    pub(super) fn message(
        &mut self,
        opening: Opening<'_>,
        format: MessageFormat,
        line: &Line<'_>,
        rows: &mut RowsBuilder<'_>,
    ) -> MessageKind {
        use MessageFormat::{Access, Auto, Json, Logfmt};
        let message = opening.message;
        // The former CEE marker for JSON messages.
        let object = message.strip_prefix(b"@cee:").unwrap_or(message).trim_ascii_start();
        if format == Json || (format == Auto && object.first() == Some(&b'{')) {
            match self.json(object, opening, line, rows) {
                Ok(()) => return MessageKind::Json,
                Err(note) => {
                    rows.clear();
                    // `{` may begin any text; followed by a quote, it is an object with an error.
                    if format == Json || object.starts_with(b"{\"") {
                        rows.note(note);
                    }
                }
            }
        } else if format == Logfmt || (format == Auto && logfmt::is_logfmt(message)) {
            if self.logfmt(message, opening, line, rows) {
                return MessageKind::Logfmt;
            }
            rows.clear();
            rows.note("not logfmt");
        } else if matches!(format, Access | Auto) {
            match access::parse(message, &mut self.times) {
                Some(access) => {
                    self.put_access(&access, opening, line, rows);
                    return MessageKind::Access;
                }
                None if format == Access => rows.note("not an access line"),
                None => {}
            }
        }
        if format == Auto && matches!(message, [b'C' | b'L', b'E', b'F' | b'E', ..]) {
            self.put_events(message, rows);
        }
        if format == Auto && message.starts_with(b"# ") {
            self.put_slow_log(message, opening, line, rows);
        }
        rows.put(Own::Msg, message);
        if opening.has_head && traces::is_continuation(message) {
            rows.put_static(Own::Continuation, "true");
        }
        let known = format == Auto && servers::find(message, opening.program, &mut self.found);
        if known {
            self.put_known(message, opening, line, rows);
        }
        let of_known = self.found.level.filter(|_| known);
        let timed = match opening.has_head && (opening.has_time || opening.is_time_bad) {
            true => None,
            false => time_plain::find(message, &mut self.plain_form),
        };
        let states_time = known && self.found.written.is_some();
        if let Some((written, _)) = timed
            && !opening.has_time
            && !states_time
        {
            self.set_time(written, line, rows);
        }
        if timed.is_none()
            && !opening.has_head
            && !opening.has_time
            && !states_time
            && is_like_time(message)
        {
            rows.note(TIME_UNREADABLE);
        }
        let time_bytes = timed.map_or(0, |(_, length)| length);
        let head = head_of(message, time_bytes);
        let level = match (opening.mnemonic.or(of_known), timed) {
            (Some(level), _) => Some(level),
            (None, Some((_, length))) => level_text::of_timed(head, length),
            (None, None) if opening.severe => {
                level_text::find(&head[..head.len().min(level_text::NEAR_SEARCH_BYTES)])
            }
            (None, None) => level_text::find(head),
        };
        let level = match level {
            Some("emerg") if traces::is_go_panic(&head[time_bytes.min(head.len())..]) => {
                Some("error")
            }
            None => level_of_failure(&message[time_bytes..], opening),
            level => level,
        };
        if let Some(level) = level {
            rows.put_static(Own::Severe, level);
        }
        MessageKind::Plain
    }

    pub(super) fn json(
        &mut self,
        object: &[u8],
        opening: Opening<'_>,
        line: &Line<'_>,
        rows: &mut RowsBuilder<'_>,
    ) -> Result<(), &'static str> {
        let context = self.json_context(opening, false, line);
        let flattened = self.flattener.flatten(object, context, &mut self.times, rows);
        let found = match flattened {
            Ok(found) => found,
            Err(json_scan::Broken) => {
                rows.clear();
                let mended = self.flattener.mend(object, context, &mut self.times, rows);
                let Some((found, faults)) = mended else {
                    return Err("not JSON: broken or cut off");
                };
                note_faults(faults, object, rows);
                found
            }
        };
        self.put_found(&found, object, opening, rows);
        match found.docker {
            Some(value) => {
                let text = json::bytes(value, object, rows).to_vec();
                let has_time = opening.has_time || matches!(found.time, TimeFound::Resolved(_));
                self.made_message(&text, Opening { has_time, ..opening }, line, rows);
            }
            None if !found.message => {
                rows.put(Own::Msg, object);
                self.put_export(opening, line, rows);
            }
            None => self.put_found_in_message(&found, opening, line, rows),
        }
        Ok(())
    }

    /// Writes the first record of an export of OpenTelemetry, if the object is one.
    fn put_export(&mut self, opening: Opening<'_>, line: &Line<'_>, rows: &mut RowsBuilder<'_>) {
        let Some(id) = rows.builder.known_id(otlp::NAME) else { return };
        let Some(export) = rows.builder.get(id).and_then(otlp::first_record) else { return };
        let context = self.json_context(opening, true, line);
        let record = export.record.as_bytes();
        let Ok(found) = self.inner.flatten(record, context, &mut self.times, rows) else { return };
        self.put_found(&found, record, opening, rows);
        if found.message {
            self.put_found_in_message(&found, opening, line, rows);
        }
        for (name, value) in &export.resource {
            match rows.sent_id(name, context.given) {
                Some(id) if rows.has_room(id) && rows.builder.get(id).is_none() => {
                    rows.builder.push_made(id, value.as_bytes());
                }
                Some(_) => {}
                None => rows.no_room(),
            }
        }
        if export.has_more {
            rows.note("several records in one line, the first one gives its fields");
        }
    }

    /// Writes the fields of a message of pairs; returns whether it has any.
    pub(super) fn logfmt(
        &mut self,
        message: &[u8],
        opening: Opening<'_>,
        line: &Line<'_>,
        rows: &mut RowsBuilder<'_>,
    ) -> bool {
        let is_firewall = syslog::is_firewall(message);
        let context = ParseContext { is_firewall, ..self.json_context(opening, false, line) };
        let (found, whole) = self.flattener.pairs(message, context, &mut self.times, rows);
        if rows.builder.row_fields() == 0 && !found.message {
            return false;
        }
        if !whole {
            rows.note("not all of it is logfmt");
        }
        if !found.message {
            rows.put(Own::Msg, message);
        } else if let Some(value) = found.docker {
            let id = rows.id(Own::Msg);
            let text = json::bytes(value, message, rows).to_vec();
            rows.builder.push_made(id, &text);
        }
        self.put_found(&found, message, opening, rows);
        if found.message {
            self.put_found_in_message(&found, opening, line, rows);
        }
        true
    }

    /// Writes the level of the text in `_msg`, and its time, if the keys of the object or the pairs
    /// have none.
    fn put_found_in_message(
        &mut self,
        found: &FoundParts,
        opening: Opening<'_>,
        line: &Line<'_>,
        rows: &mut RowsBuilder<'_>,
    ) {
        let wants_level = matches!(found.level, LevelFound::None) && !rows.has(Own::Severe);
        let wants_time = !opening.has_time && matches!(found.time, TimeFound::None);
        if !wants_level && !wants_time {
            return;
        }
        let id = rows.id(Own::Msg);
        let Some(text) = rows.builder.get(id) else { return };
        // The level alone rarely depends on the time in front.
        let may_be_timed = match text {
            [b'0'..=b'9' | b'[' | 0x1b, ..] | [b'A'..=b'Z', b'0'..=b'9', ..] => true,
            _ => wants_time,
        };
        let timed = match may_be_timed {
            true => time_plain::find(text, &mut self.plain_form),
            false => None,
        };
        let level = match wants_level {
            true => self.level_of_text(text, timed.map(|(_, length)| length), opening),
            false => None,
        };
        if let Some((written, _)) = timed.filter(|_| wants_time) {
            self.set_time(written, line, rows);
        }
        if let Some(level) = level {
            rows.put_static(Own::Severe, level);
        }
    }

    /// The level of a text within an object.
    fn level_of_text(
        &mut self,
        text: &[u8],
        time_bytes: Option<usize>,
        opening: Opening<'_>,
    ) -> Option<&'static str> {
        // Few texts have a bracket, and an access line has it early.
        let window = &text[..text.len().min(ACCESS_SEARCH_BYTES)];
        let access =
            memchr::memchr(b'[', window).and_then(|_| access::parse(text, &mut self.times));
        if let Some(access) = access {
            return Some(level::from_status(access.status));
        }
        let head = match text.first() {
            Some(b'{') => text,
            _ => head_of(text, time_bytes.unwrap_or(0)),
        };
        let rest = &text[time_bytes.unwrap_or(0)..];
        match level_text::of_text(head, time_bytes) {
            Some("emerg") if traces::is_go_panic(rest) => Some("error"),
            None => level_of_failure(rest, opening),
            level => level,
        }
    }

    /// Writes the message of a record that a source joined from lines of a container.
    pub(super) fn joined_message(
        &mut self,
        record: &[u8],
        out: &mut Vec<u8>,
        opening: Opening<'_>,
        line: &Line<'_>,
        rows: &mut RowsBuilder<'_>,
    ) -> Option<MessageKind> {
        match container::join(record, out)? {
            container::Joined::Text => Some(self.made_message(out, opening, line, rows)),
            container::Joined::Object => {
                let context = self.json_context(opening, true, line);
                let flattened = self.inner.flatten(out, context, &mut self.times, rows);
                let found = flattened.ok().and_then(|found| Some((found.docker?, found)));
                let Some((text, found)) = found else {
                    rows.clear();
                    return None;
                };
                self.put_found(&found, out, opening, rows);
                let text = json::bytes(text, out, rows).to_vec();
                let has_time = opening.has_time || matches!(found.time, TimeFound::Resolved(_));
                self.made_message(&text, Opening { has_time, ..opening }, line, rows);
                Some(MessageKind::Json)
            }
        }
    }

    /// Writes a message that is in the line with escapes, or in parts, and its content: the fields
    /// of an object, or the level of a text.
    pub(super) fn made_message(
        &mut self,
        text: &[u8],
        opening: Opening<'_>,
        line: &Line<'_>,
        rows: &mut RowsBuilder<'_>,
    ) -> MessageKind {
        let text = trimmed(text);
        let object = text.trim_ascii();
        let id = rows.id(Own::Msg);
        if object.first() == Some(&b'{') && json_parts::is_object(object) {
            let context = self.json_context(opening, true, line);
            if let Ok(found) = self.inner.flatten(object, context, &mut self.times, rows) {
                if !found.message || found.docker.is_some() {
                    rows.builder.push_made(id, text);
                }
                self.put_found(&found, object, opening, rows);
                return MessageKind::Json;
            }
        }
        rows.builder.push_made(id, text);
        let known = opening.program != Program::Off
            && match access::parse(text, &mut self.times) {
                Some(access) => servers::find_access(text, &access, &mut self.found),
                None => servers::find(text, opening.program, &mut self.found),
            };
        if known {
            self.put_known(text, opening, line, rows);
        }
        let states_time = known && self.found.written.is_some();
        let of_known = self.found.level.filter(|_| known);
        let level = match time_plain::find(text, &mut self.plain_form) {
            _ if of_known.is_some() => of_known,
            Some((written, length)) => {
                if !opening.has_time && !states_time {
                    self.set_time(written, line, rows);
                }
                self.level_of_text(text, Some(length), opening)
            }
            None => self.level_of_text(text, None, opening),
        };
        if let Some(level) = level {
            rows.put_static(Own::Severe, level);
        }
        MessageKind::Plain
    }

    pub(super) fn json_context<'a>(
        &self,
        opening: Opening<'a>,
        is_made: bool,
        line: &Line<'_>,
    ) -> ParseContext<'a> {
        let wants_time = !opening.has_time || !opening.names.time.is_empty();
        ParseContext {
            names: opening.names,
            origin: line.origin_index,
            is_made,
            given: given(opening.has_head, line.origin),
            wants_host: !opening.has_head && line.origin.hints.stream_fields.is_empty(),
            is_firewall: false,
            wants_time: wants_time.then(|| self.context(line)),
        }
    }

    /// Writes time and level from the keys of an object. An unknown word under a key that was
    /// configured for the level is kept unchanged.
    pub(super) fn put_found(
        &mut self,
        found: &FoundParts,
        object: &[u8],
        opening: Opening<'_>,
        rows: &mut RowsBuilder<'_>,
    ) {
        match found.time {
            TimeFound::Resolved(time_ns) => {
                rows.builder.set_time(time_ns);
                rows.set_named_time(!opening.names.time.is_empty());
            }
            TimeFound::Absurd if opening.has_time => rows.note("absurd time in the named field"),
            TimeFound::Absurd => rows.note("absurd time, arrival taken"),
            TimeFound::Unreadable if opening.has_time => rows.note("named time not readable"),
            TimeFound::Unreadable => rows.note(TIME_UNREADABLE),
            TimeFound::None => {}
        }
        // The line may contain an explicit `_level`.
        if rows.is_apart() && rows.has(Own::Severe) {
            return;
        }
        match found.level {
            LevelFound::Known(level) => rows.put_static(Own::Severe, level),
            LevelFound::Other(value) => {
                self.scratch.clear();
                self.scratch.extend_from_slice(json::bytes(value, object, rows));
                let id = rows.id(Own::Severe);
                rows.builder.push_made(id, &self.scratch);
            }
            _ => {}
        }
    }

    /// Writes the fields found in a line of a server, which is part of the line or `made`, and its
    /// time. A field that the row has already keeps its value.
    fn put_known(
        &mut self,
        message: &[u8],
        opening: Opening<'_>,
        line: &Line<'_>,
        rows: &mut RowsBuilder<'_>,
    ) {
        let is_made = !line.bytes.as_ptr_range().contains(&message.as_ptr());
        for &(key, value) in &self.found.fields {
            let part = |at: u32, length: u32| &message[at as usize..][..length as usize];
            let id = match key {
                Key::Known(name) => rows.server_id(name),
                Key::OfLine(at, length) => match std::str::from_utf8(part(at, length)) {
                    Ok(name) => rows.key_id(name),
                    Err(_) => continue,
                },
                Key::Prefixed(at, length) => {
                    let key = String::from_utf8_lossy(part(at, length));
                    rows.key_id(&format!("{}{key}", self.found.prefix))
                }
            };
            let Some(id) = id else { return rows.no_room() };
            if !rows.has_room(id) || rows.builder.get(id).is_some() {
                continue;
            }
            match value {
                Value::Part(at, length) if is_made => rows.builder.push_made(id, part(at, length)),
                Value::Part(at, length) => rows.put_as(id, part(at, length)),
                Value::Word(word) => rows.builder.push_static(id, word),
            }
            if key == Key::Known(Name::Level) {
                rows.set_text_level();
            }
        }
        if let Some(written) = self.found.written.filter(|_| !opening.has_time) {
            self.set_time(written, line, rows);
        }
    }

    /// Writes the fields of CEF or LEEF.
    fn put_events(&mut self, message: &[u8], rows: &mut RowsBuilder<'_>) {
        let scratch = &mut self.scratch;
        if message.starts_with(b"LEEF:") {
            let whole = leef::parse(message, |name, value| match rows.key_id(name) {
                Some(id) if rows.has_room(id) => rows.put_as(id, value),
                Some(_) => {}
                None => rows.no_room(),
            });
            if whole.is_none() {
                rows.note("not LEEF to its end");
            }
            return;
        }
        if !message.starts_with(b"CEF:") {
            return;
        }
        let whole = cef::parse(message, |name, value| {
            let Some(id) = rows.key_id(name) else { return rows.no_room() };
            if !rows.has_room(id) {
                return;
            }
            if memchr::memchr(b'\\', value).is_none() {
                rows.put_as(id, value);
            } else {
                scratch.clear();
                cef::unescape(value, scratch);
                rows.builder.push_made(id, scratch);
            }
        });
        if whole.is_none() {
            rows.note("not CEF to its end");
        }
    }

    /// Writes the fields of an entry of MySQL's slow log, and the time if its head has none.
    fn put_slow_log(
        &mut self,
        message: &[u8],
        opening: Opening<'_>,
        line: &Line<'_>,
        rows: &mut RowsBuilder<'_>,
    ) {
        let given = given(opening.has_head, line.origin);
        let written = slow_log::parse(message, |name, value| match rows.sent_id(name, given) {
            Some(id) if rows.has_room(id) => {
                rows.put_as(id, value);
                if name == "level" {
                    rows.set_text_level();
                }
            }
            Some(_) => {}
            None => rows.no_room(),
        });
        if let Some(written) = written.filter(|_| !opening.has_time) {
            self.set_time(written, line, rows);
        }
    }

    pub(super) fn put_access(
        &mut self,
        access: &access::Access<'_>,
        opening: Opening<'_>,
        line: &Line<'_>,
        rows: &mut RowsBuilder<'_>,
    ) {
        rows.put(Own::Msg, opening.message);
        rows.put_some(Own::Vhost, access.vhost);
        rows.put_some(Own::ClientIp, access.client_ip);
        rows.put_some(Own::Ident, access.ident);
        rows.put_some(Own::User, access.user);
        rows.put_some(Own::Method, access.method);
        rows.put_some(Own::Path, access.path);
        rows.put_some(Own::Protocol, access.protocol);
        rows.put_some(Own::Request, access.request);
        rows.put_some(Own::Status, access.status);
        rows.put_some(Own::Bytes, access.bytes);
        rows.put_some(Own::Referer, access.referer);
        rows.put_some(Own::UserAgent, access.user_agent);
        if !access.tail.is_empty()
            && opening.program != Program::Off
            && servers::find_access_tail(opening.message, access.tail, &mut self.found)
        {
            self.put_known(opening.message, opening, line, rows);
        }
        rows.put_static(Own::Severe, level::from_status(access.status));
        if !opening.has_time
            && let Some(written) = access.written
        {
            self.set_time(written, line, rows);
        }
    }
}

/// The first line of a text, which alone states its level; all of the text if its time, of
/// `time_bytes`, is not in the first line.
fn head_of(text: &[u8], time_bytes: usize) -> &[u8] {
    match memchr::memchr(b'\n', text) {
        Some(end) if end >= time_bytes => &text[..end],
        _ => text,
    }
}

/// The level of a text without one that begins with the topics of RouterOS, or names an exception:
/// in its first line, or in the lines that follow it in the same record.
fn level_of_failure(text: &[u8], opening: Opening<'_>) -> Option<&'static str> {
    if opening.severe {
        return None;
    }
    if let Some(level) = level_text::of_topics(text.trim_ascii_start()) {
        return Some(level);
    }
    let found = match memchr::memchr(b'\n', text) {
        Some(_) => traces::has_failure(text),
        None => traces::is_failure(text),
    };
    found.then_some("error")
}

/// Whether a text begins like a time in numbers.
fn is_like_time(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"[").unwrap_or(text);
    text.first().is_some_and(u8::is_ascii_digit) && syslog::like_timestamp(text).is_some()
}

fn note_faults(faults: Faults, object: &[u8], rows: &mut RowsBuilder<'_>) {
    let begin = rows.offset(object) as u32;
    let mut noted = false;
    for fault in faults.into_iter().flatten() {
        rows.note_at(fault.what, begin + fault.at);
        noted = true;
    }
    if !noted {
        rows.note("JSON broken");
    }
}
