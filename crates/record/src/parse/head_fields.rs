//! Writes the fields of a head: of syslog, and of the container runtime.

use super::head::Head;
use super::row::{self, GivenFields, Own, RowsBuilder};
use super::syslog::{self, Expect};
use super::{Parser, RequestedParser, cri, given, json, level, time};
use crate::batch::FieldId;
use crate::frame::{Format, Line, Origin};

impl Parser {
    pub(super) fn put_head(
        &mut self,
        head: &Head<'_>,
        line: &Line<'_>,
        rows: &mut RowsBuilder<'_>,
    ) {
        let Some(format) = head.format else { return };
        let mut severity = head.severity;
        if let Some((digits, value)) = head.priority {
            put_part(Own::Priority, digits, rows);
            put_facility(value >> 3, rows);
            severity = Some((value & 7) as u8);
        }
        if let Some(severity) = severity {
            let (number, word) =
                (SMALL_NUMBERS[usize::from(severity)], level::LEVELS[usize::from(severity)]);
            put_word(Own::Severity, number, rows);
            if rows.level().is_none() {
                rows.put_static(Own::Level, word);
            }
            if !rows.has(Own::Severe) {
                rows.put_static(Own::Severe, head.own_level().unwrap_or(word));
            }
        }
        put_word(Own::Format, format, rows);
        put_part(Own::Hostname, head.hostname, rows);
        put_part(Own::AppName, head.app_name, rows);
        put_part(Own::ProcId, head.proc_id, rows);
        put_part(Own::MsgId, head.msg_id, rows);
        put_part(Own::Sequence, head.sequence, rows);
        if !head.structured.is_empty() {
            self.put_structured(head.structured, given(true, line.origin), rows);
        }
        if let Some(note) = head.note {
            rows.note(note);
        }
        if let Some(written) = head.written.filter(|_| !rows.has_named_time()) {
            self.set_head_time(written, head.clock_unset, line, rows);
        }
    }

    /// Parameters as `ID.NAME`; an element without parameters as a field `ID` with an empty value.
    /// A parameter outside an element may have the name of a part of the head: the value of the
    /// head is then stored as `syslog.NAME`.
    pub(super) fn put_structured(
        &mut self,
        structured: &[u8],
        given: GivenFields,
        rows: &mut RowsBuilder<'_>,
    ) {
        let scratch = &mut self.scratch;
        syslog::structured(structured, |element, param| {
            scratch.clear();
            scratch.extend_from_slice(element);
            if let Some((name, _)) = param {
                if !element.is_empty() {
                    scratch.push(b'.');
                }
                scratch.extend_from_slice(name);
            }
            let name = std::str::from_utf8(scratch).expect("names are ASCII");
            // An empty value, as that of an element without parameters, does not hide another one.
            let is_there = |rows: &RowsBuilder<'_>| {
                rows.builder.known_id(name).is_some_and(|id| rows.builder.get(id).is_some())
            };
            let value = param.map_or(&b""[..], |(_, value)| value);
            let is_given = row::is_given(name, given);
            if value.is_empty() && (row::is_taken(name) || is_given || is_there(rows)) {
                return;
            }
            let Some(id) = rows.sent_id(name, given) else { return rows.no_room() };
            if !rows.has_room(id) {
                return;
            }
            match is_given {
                true if !name.starts_with('_') => put_aside(name, id, value, rows),
                // RFC 5424 has parameters that occur several times, such as `ip` of `origin`.
                false if !element.is_empty() && is_there(rows) => rows.note(json::TWICE),
                _ => {}
            }
            if memchr::memchr(b'\\', value).is_none() {
                rows.put_as(id, value);
            } else {
                scratch.clear();
                syslog::unescape(value, scratch);
                rows.builder.push_made(id, scratch);
            }
        });
    }

    /// Writes the fields of the container runtime's prefix.
    pub(super) fn put_container(
        &self,
        container: &cri::Head<'_>,
        alone: bool,
        line: &Line<'_>,
        rows: &mut RowsBuilder<'_>,
    ) {
        if !rows.has_named_time() {
            self.set_time(container.written, line, rows);
        }
        let mut put = |name: &str, part: &[u8]| match rows.key_id(name) {
            Some(id) if rows.has_room(id) && rows.builder.get(id).is_none() => {
                rows.put_as(id, part)
            }
            _ => {}
        };
        put("stream", container.stream);
        if alone && container.is_part() {
            put("logtag", container.tag);
        }
    }

    pub(super) fn set_head_time(
        &self,
        written: time::Written,
        clock_unset: bool,
        line: &Line<'_>,
        rows: &mut RowsBuilder<'_>,
    ) {
        self.set_time(written, line, rows);
        let apart_ns = rows.builder.time_ns().abs_diff(line.received_ns);
        if clock_unset && apart_ns > time::AHEAD_S_MAX as u64 * 1_000_000_000 {
            rows.builder.set_time(line.received_ns);
            rows.note("the sender's clock is not set, arrival taken");
        }
    }
}

/// Facilities and severities as text.
const SMALL_NUMBERS: [&str; 24] = [
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16",
    "17", "18", "19", "20", "21", "22", "23",
];

/// The head of a line; for lines that are known to have none, the whole line is the message.
pub(super) fn find_head<'a>(
    text: &'a [u8],
    origin: &Origin,
    forced: Option<RequestedParser>,
) -> Head<'a> {
    match (forced, origin.format) {
        (Some(RequestedParser::Syslog), _) | (_, Format::Syslog) => {
            syslog::head(text, Expect::Syslog)
        }
        (None, Format::Auto) => syslog::head(text, Expect::Maybe),
        _ => Head { message: text, ..Head::default() },
    }
}

/// Writes a part of the head, unless it is empty.
#[inline]
fn put_part(own: Own, part: &[u8], rows: &mut RowsBuilder<'_>) {
    if rows.is_apart() {
        if !part.is_empty()
            && let Some(id) = rows.put_beside(own, part)
        {
            rows.put_as(id, part);
        }
        return;
    }
    rows.put_some(own, part);
}

/// Stores the value that a field has from the head as `syslog.NAME`, because structured data sends
/// another one under that name.
fn put_aside(name: &str, id: FieldId, sent: &[u8], rows: &mut RowsBuilder<'_>) {
    let of_head = rows.builder.get(id).filter(|value| !value.is_empty() && *value != sent);
    let Some(of_head) = of_head.map(<[u8]>::to_vec) else { return };
    let Some(beside) = rows.key_id(&format!("syslog.{name}")) else { return rows.no_room() };
    // The value of a further parameter of that name is not that of the head.
    if rows.has_room(beside) && rows.builder.get(beside).is_none() {
        rows.builder.push_made(beside, &of_head);
    }
}

/// Writes a property of the head as one of our words.
#[inline]
fn put_word(own: Own, word: &'static str, rows: &mut RowsBuilder<'_>) {
    if rows.is_apart() {
        if let Some(id) = rows.put_beside(own, word.as_bytes()) {
            rows.builder.push_static(id, word);
        }
        return;
    }
    rows.put_static(own, word);
}

fn put_facility(facility: u16, rows: &mut RowsBuilder<'_>) {
    match SMALL_NUMBERS.get(usize::from(facility)) {
        Some(number) => {
            put_word(Own::Facility, number, rows);
            put_word(Own::FacilityKeyword, syslog::FACILITY_KEYWORDS[usize::from(facility)], rows);
        }
        None => {
            let number = facility.to_string();
            if let Some(id) = rows.put_beside(Own::Facility, number.as_bytes()) {
                rows.builder.push_made(id, number.as_bytes());
            }
            put_word(Own::FacilityKeyword, "unknown", rows);
        }
    }
}
