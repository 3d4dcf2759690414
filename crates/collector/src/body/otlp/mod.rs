//! Records of OpenTelemetry's protocol (OTLP), `ExportLogsServiceRequest`, as JSON lines; and data
//! points of [`metrics`].
//!
//! ```text
//! {"_msg":BODY,"_time":…,"severity_text":…,"severity_number":…,"event_name":…,"trace_id":HEX,
//!  "span_id":HEX,"flags":…,"dropped_attributes_count":…,ATTRIBUTES,RESOURCE'S ATTRIBUTES,
//!  "scope.name":…,"scope.version":…,"scope.attributes.NAME":…}
//! ```
//!
//! Names are those of VictoriaLogs. A body that is a list of keys and values becomes members of the
//! line; any other body is the message. Values that are lists of keys and values become objects,
//! whose members the parser names `a.b`. Of two members with the same name, that of the resource
//! keeps it; the others are named `attributes.NAME` and `body.NAME`. An attribute of the resource
//! with the name of a member of the record itself is renamed likewise (`resource.trace_id`). A
//! member without value or with the value zero is left out. The time is that of the event, or else
//! the time of observation; without both, the line has none, and the time of arrival counts.
//!
//! The bytes of the request are read in place, and a line is written straight from them: no tree
//! of the request is built, and memory beside the request is 16 bytes a record and what is shared
//! by the records of a scope. [`Export::read`] finds all records first, so that a request that
//! cannot be read is refused before a line is kept. What is wrong within a record rejects that
//! record alone, which OTLP calls partial success.
//!
//! Left out: `schema_url`, references to entities, and the time of observation of a record that has
//! a time.

mod json;
mod metrics;
mod protobuf;

use std::collections::HashSet;
use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use record::frame::LINE_BYTES_MAX;
use text::json::write_text;
use text::time::write_time;

use super::json::{write_double, write_number};

/// Limit of the records of a request, each of which may have two bytes only.
///
/// limits.md, Lines on their way in: records of a request of OTLP | {} | it is refused with 413
/// (gRPC: `INVALID_ARGUMENT`) before a line is kept
pub const RECORDS_MAX: usize = 500_000;
/// Limit of the attributes of a resource and a scope, as they are written with each of their
/// records. Records with more are rejected.
const SHARED_BYTES_MAX: usize = 64 << 10;
/// Nesting of a value. A record with a deeper one is rejected.
const DEPTH_MAX: usize = 32;
/// Bytes of lines that any request may become, however small it is.
const WRITTEN_BYTES_MIN: usize = 16 << 20;
/// Bytes of lines per byte of a larger request, up to [`WRITTEN_BYTES_MAX`]. What a resource has is
/// sent once and written with each record; records behind this limit are rejected.
const WRITTEN_PER_BYTE_MAX: usize = 16;
/// Limit of the lines made from one request.
const WRITTEN_BYTES_MAX: usize = 128 << 20;
/// Names that are compared one by one. Further ones are looked up, so that the time of a request
/// does not grow with the square of its names.
const PLACES_MAX: usize = 64;
/// Names that only the record itself gives.
const OWN: [&[u8]; 9] = [
    b"_msg",
    b"_time",
    b"severity_text",
    b"severity_number",
    b"event_name",
    b"trace_id",
    b"span_id",
    b"flags",
    b"dropped_attributes_count",
];

/// Attributes that say where a line comes from. Those that a line has name its stream.
pub const STREAM_FIELDS: [&str; 16] = [
    "service.namespace",
    "service.name",
    "service.instance.id",
    "deployment.environment.name",
    "deployment.environment",
    "cloud.account.id",
    "cloud.region",
    "k8s.cluster.name",
    "k8s.namespace.name",
    "k8s.node.name",
    "k8s.pod.name",
    "k8s.container.name",
    "container.id",
    "container.name",
    "host.id",
    "host.name",
];
/// Fields that hold the level. The first two are those of the record; the others are attributes, or
/// members of its body.
pub const LEVEL_FIELDS: [&str; 6] =
    ["severity_text", "severity_number", "level", "severity", "log.level", "lvl"];

/// How a request is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Protocol buffers.
    Protobuf,
    /// The JSON of OTLP.
    Json,
}

/// Why a request cannot be read. The text is for the sender.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// It is damaged, or something else.
    #[error("the request is not an export of OTLP of its kind: {0}")]
    Wrong(String),
    /// It has too many records.
    #[error(
        "the request has more than {RECORDS_MAX} records; let the exporter send smaller batches"
    )]
    TooMany,
}

/// Why a record is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// It is damaged.
    #[error("a record cannot be read")]
    Broken,
    /// A value is nested too deep.
    #[error("a value is nested more than {DEPTH_MAX} deep")]
    Deep,
    /// It would be cut in its middle.
    #[error("a record takes more than {LINE_BYTES_MAX} bytes as a line")]
    Long,
    /// The resource and the scope have too many attributes.
    #[error(
        "the attributes of a resource and its scope take more than {SHARED_BYTES_MAX} bytes, which would be \
         written with each record"
    )]
    Shared,
    /// All lines of the request are too long.
    #[error(
        "the lines of the request take too much room, because attributes of the resource are written with \
         each; send fewer or shorter ones, or smaller batches"
    )]
    Written,
}

impl From<super::protobuf::Broken> for Rejection {
    fn from(_: super::protobuf::Broken) -> Rejection {
        Rejection::Broken
    }
}

/// Records that were not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// How many.
    pub records: u64,
    /// Their bytes in the request.
    pub bytes: u64,
    /// The reason of the first one.
    pub first: Rejection,
}

/// The records of a request.
pub struct Export<'b> {
    format: Format,
    records: Vec<&'b [u8]>,
    groups: Vec<Group<'b>>,
    /// If the records are data points: their metrics, and the one of each record.
    metrics: Vec<metrics::Metric<'b>>,
    metric_of: Vec<u32>,
    /// The next record.
    at: usize,
    /// Its group, which has been entered if `is_entered`.
    group: usize,
    is_entered: bool,
    shared: Shared<'b>,
    names: Names,
    rejected: Option<Rejected>,
    written_bytes: usize,
    written_bytes_max: usize,
}

/// Records with the same resource and scope.
#[derive(Debug, Default)]
struct Group<'b> {
    resource: &'b [u8],
    scope: &'b [u8],
    /// The index behind its last record.
    end: usize,
}

/// A text as the request holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text<'b> {
    Plain(&'b [u8]),
    /// A string of JSON, with its quotes and escapes.
    Json(&'b [u8]),
    /// Bytes that are shown in hexadecimal digits.
    Hex(&'b [u8]),
}

/// A list of values or of keys and values. In protobuf its items are the fields of this number.
#[derive(Clone, Copy, Debug)]
struct List<'b> {
    content: &'b [u8],
    field: u64,
}

/// `AnyValue`
enum AnyValue<'b> {
    Empty,
    Text(Text<'b>),
    Bool(bool),
    Int(i64),
    Double(f64),
    /// A number as JSON has it.
    Number(&'b [u8]),
    Bytes(&'b [u8]),
    List(List<'b>),
    Members(List<'b>),
}

/// `Resource`
struct Resource<'b> {
    attributes: List<'b>,
    dropped: u64,
}

/// `InstrumentationScope`
struct Scope<'b> {
    name: Text<'b>,
    version: Text<'b>,
    attributes: List<'b>,
    dropped: u64,
}

/// `LogRecord`
struct Record<'b> {
    time_ns: u64,
    observed_ns: u64,
    severity_number: i64,
    severity_text: Text<'b>,
    body: AnyValue<'b>,
    attributes: List<'b>,
    dropped: u64,
    flags: u64,
    trace_id: Text<'b>,
    span_id: Text<'b>,
    event_name: Text<'b>,
}

/// An encoding of the messages.
trait Wire {
    fn resource(content: &[u8]) -> Result<Resource<'_>, Rejection>;
    fn scope(content: &[u8]) -> Result<Scope<'_>, Rejection>;
    fn record(content: &[u8]) -> Result<Record<'_>, Rejection>;
    fn value(content: &[u8]) -> Result<AnyValue<'_>, Rejection>;
    /// Visits the values of a list.
    fn items<'b>(
        list: List<'b>,
        visit: impl FnMut(&'b [u8]) -> Result<(), Rejection>,
    ) -> Result<(), Rejection>;
    /// A key and the content of its value, which may be empty.
    fn pair(content: &[u8]) -> Result<(Text<'_>, &[u8]), Rejection>;
}

/// What all lines of a group end with: members, each behind a comma.
#[derive(Default)]
struct Shared<'b> {
    /// The resource whose members are written, and whether they could be: it is read once,
    /// although each of many scopes may be a group of it.
    resource: Option<(&'b [u8], Result<(), Rejection>)>,
    resource_names: Names,
    resource_bytes: usize,
    /// Those of the resource, and behind them those of the scope.
    members: Vec<u8>,
    scope_names: Names,
}

/// Names of members: the first ones by their places in a text, further ones by themselves.
#[derive(Default)]
struct Names {
    places: Vec<Range<usize>>,
    more: HashSet<Box<[u8]>>,
    /// A bit for each length, modulo 64: most names are found to be new by their length alone.
    lengths: u64,
}

impl<'b> Export<'b> {
    /// Finds the records of a request.
    pub fn read(format: Format, content: &'b [u8]) -> Result<Export<'b>, ExportError> {
        let mut found = Found::default();
        match format {
            Format::Protobuf => protobuf::find(content, &mut found)?,
            Format::Json => json::find(content, &mut found)?,
        }
        Ok(Export::of(format, content, found))
    }

    /// Finds the data points of a request with metrics. They are its records.
    pub fn read_metrics(format: Format, content: &'b [u8]) -> Result<Export<'b>, ExportError> {
        let mut found = Found::default();
        match format {
            Format::Protobuf => metrics::find(content, &mut found)?,
            Format::Json => metrics::json::find(content, &mut found)?,
        }
        Ok(Export::of(format, content, found))
    }

    fn of(format: Format, content: &'b [u8], found: Found<'b>) -> Export<'b> {
        let per_byte = content.len().saturating_mul(WRITTEN_PER_BYTE_MAX);
        Export {
            format,
            records: found.records,
            groups: found.groups,
            metrics: found.metrics,
            metric_of: found.metric_of,
            at: 0,
            group: 0,
            is_entered: false,
            shared: Shared::default(),
            names: Names::default(),
            rejected: None,
            written_bytes: 0,
            written_bytes_max: per_byte.clamp(WRITTEN_BYTES_MIN, WRITTEN_BYTES_MAX),
        }
    }

    /// Appends lines until `out` has `bytes` bytes or more; false once there are no more records.
    pub fn write(&mut self, out: &mut Vec<u8>, bytes: usize) -> bool {
        while self.at < self.records.len() {
            if out.len() >= bytes {
                return true;
            }
            match self.format {
                Format::Protobuf => self.write_next::<protobuf::Protobuf>(out),
                Format::Json => self.write_next::<json::Json>(out),
            }
        }
        false
    }

    /// The records that were not taken so far.
    pub fn rejected(&self) -> Option<Rejected> {
        self.rejected
    }

    fn write_next<W: metrics::Points>(&mut self, out: &mut Vec<u8>) {
        let group = &self.groups[self.group];
        if !self.is_entered {
            self.is_entered = true;
            let own = if self.metrics.is_empty() { &OWN[..] } else { &super::metrics::OWN[..] };
            if let Err(why) = self.shared.enter::<W>(group, own) {
                let lost = self.at..group.end;
                self.at = lost.end;
                self.leave_group_at_its_end();
                for at in lost {
                    self.reject(self.records[at].len(), why);
                }
                return;
            }
        }
        let record = self.records[self.at];
        let metric = self.metric_of.get(self.at).map(|&metric| &self.metrics[metric as usize]);
        self.at += 1;
        let begin = out.len();
        let has_room = self.written_bytes + self.shared.members.len() <= self.written_bytes_max;
        let mut written = match metric {
            // Whatever else it has, its line ends with the shared members.
            _ if !has_room => Err(Rejection::Written),
            Some(metric) => metrics::write_point::<W>(metric, record, &self.shared, out),
            None => write_record::<W>(record, &self.shared, &mut self.names, out),
        };
        let bytes = out.len() - begin;
        if written.is_ok() && bytes > LINE_BYTES_MAX {
            written = Err(Rejection::Long);
        }
        if written.is_ok() && self.written_bytes + bytes > self.written_bytes_max {
            written = Err(Rejection::Written);
        }
        match written {
            Ok(()) => self.written_bytes += bytes,
            Err(why) => {
                out.truncate(begin);
                self.reject(record.len(), why);
            }
        }
        self.leave_group_at_its_end();
    }

    fn leave_group_at_its_end(&mut self) {
        if self.at == self.groups[self.group].end {
            self.group += 1;
            self.is_entered = false;
        }
    }

    fn reject(&mut self, bytes: usize, why: Rejection) {
        let rejected = self.rejected.get_or_insert(Rejected { records: 0, bytes: 0, first: why });
        rejected.records += 1;
        rejected.bytes += bytes as u64;
    }
}

/// What a request is made of.
#[derive(Default)]
struct Found<'b> {
    records: Vec<&'b [u8]>,
    groups: Vec<Group<'b>>,
    metrics: Vec<metrics::Metric<'b>>,
    metric_of: Vec<u32>,
}

impl<'b> Found<'b> {
    fn push(&mut self, record: &'b [u8]) -> Result<(), ExportError> {
        if self.records.len() >= RECORDS_MAX {
            return Err(ExportError::TooMany);
        }
        self.records.push(record);
        Ok(())
    }

    /// The records since the last group are those of another one.
    fn end_group(&mut self, resource: &'b [u8], scope: &'b [u8]) {
        let end = self.records.len();
        if self.groups.last().map_or(0, |group| group.end) < end {
            self.groups.push(Group { resource, scope, end });
        }
    }
}

impl<'b> Shared<'b> {
    /// Writes what the records of a group share. `own` are names that only the record itself gives.
    fn enter<W: Wire>(&mut self, group: &Group<'b>, own: &[&[u8]]) -> Result<(), Rejection> {
        match self.resource {
            Some((known, entered)) if std::ptr::eq(known, group.resource) => entered?,
            _ => {
                let entered = self.enter_resource::<W>(group.resource, own);
                self.resource = Some((group.resource, entered));
                entered?;
            }
        }
        self.members.truncate(self.resource_bytes);
        self.scope_names.clear();
        let (members, names) = (&mut self.members, &mut self.scope_names);
        let scope = W::scope(group.scope)?;
        if scope.dropped > 0 {
            write_own("scope.dropped_attributes_count", names, members);
            write_number(scope.dropped, members);
        }
        for (name, value) in [("scope.name", scope.name), ("scope.version", scope.version)] {
            if !value.is_empty() {
                write_own(name, names, members);
                value.write(members);
            }
        }
        write_members::<W>(scope.attributes, 0, members, |key, out| {
            let place = write_name(key, "scope.attributes", out, |_, _| true);
            names.add(place, out);
        })?;
        if self.members.len() > SHARED_BYTES_MAX {
            return Err(Rejection::Shared);
        }
        Ok(())
    }

    fn enter_resource<W: Wire>(
        &mut self,
        content: &'b [u8],
        own: &[&[u8]],
    ) -> Result<(), Rejection> {
        self.members.clear();
        self.resource_names.clear();
        let (members, names) = (&mut self.members, &mut self.resource_names);
        let resource = W::resource(content)?;
        write_members::<W>(resource.attributes, 0, members, |key, out| {
            let place = write_name(key, "resource", out, |_, name| own.contains(&name));
            names.add(place, out);
        })?;
        if resource.dropped > 0 {
            write_own("resource.dropped_attributes_count", names, members);
            write_number(resource.dropped, members);
        }
        self.resource_bytes = self.members.len();
        if self.resource_bytes > SHARED_BYTES_MAX {
            return Err(Rejection::Shared);
        }
        Ok(())
    }

    /// Whether one of the members has this name.
    #[inline]
    fn have(&self, name: &[u8]) -> bool {
        self.resource_names.have(&self.members, name) || self.scope_names.have(&self.members, name)
    }
}

/// Appends the name of a member that is none of an attribute.
fn write_own(name: &str, names: &mut Names, out: &mut Vec<u8>) {
    let place = write_name(Text::Plain(name.as_bytes()), "", out, |_, _| false);
    names.add(place, out);
}

impl Names {
    fn clear(&mut self) {
        self.places.clear();
        self.more.clear();
        self.lengths = 0;
    }

    /// Adds the name at a place in `text`.
    fn add(&mut self, place: Range<usize>, text: &[u8]) {
        self.lengths |= 1 << (place.len() % 64);
        match self.places.len() < PLACES_MAX {
            true => self.places.push(place),
            false => _ = self.more.insert(Box::from(&text[place])),
        }
    }

    /// Whether `name` is one of them; their places are those in `text`.
    #[inline]
    fn have(&self, text: &[u8], name: &[u8]) -> bool {
        self.lengths >> (name.len() % 64) & 1 == 1
            && (self.places.iter().any(|place| text.get(place.clone()) == Some(name))
                || self.more.contains(name))
    }
}

impl Text<'_> {
    fn is_empty(self) -> bool {
        match self {
            Text::Plain(text) => text.is_empty(),
            // Zeros stand for no id.
            Text::Hex(bytes) => bytes.iter().all(|&byte| byte == 0),
            Text::Json(quoted) => quoted.len() <= 2,
        }
    }

    #[inline]
    fn write(self, out: &mut Vec<u8>) {
        match self {
            Text::Plain(text) => write_text(text, out),
            Text::Json(quoted) => out.extend_from_slice(quoted),
            Text::Hex(bytes) => {
                out.push(b'"');
                for &byte in bytes {
                    let digits = text::hex::digits(byte);
                    out.extend(digits.map(|digit| digit.to_ascii_lowercase()));
                }
                out.push(b'"');
            }
        }
    }
}

/// Appends a record as a line.
fn write_record<W: Wire>(
    content: &[u8],
    shared: &Shared<'_>,
    names: &mut Names,
    out: &mut Vec<u8>,
) -> Result<(), Rejection> {
    let record = W::record(content)?;
    let begin = out.len();
    names.clear();
    // The message is the first member, so that the API of Loki shows it instead of the object.
    let mut members_of_body = None;
    match record.body {
        AnyValue::Empty => {}
        AnyValue::Members(list) => members_of_body = Some(list),
        body => {
            out.extend_from_slice(b",\"_msg\":");
            write_value::<W>(body, 0, out)?;
        }
    }
    let time_ns = if record.time_ns > 0 { record.time_ns } else { record.observed_ns };
    if let Some(time_ns) = i64::try_from(time_ns).ok().filter(|&ns| ns > 0) {
        out.extend_from_slice(b",\"_time\":\"");
        write_time(time_ns, out);
        out.push(b'"');
    }
    let text = |name: &[u8], value: Text<'_>, out: &mut Vec<u8>| {
        if !value.is_empty() {
            out.extend_from_slice(name);
            value.write(out);
        }
    };
    let number = |name: &[u8], value: u64, out: &mut Vec<u8>| {
        if value > 0 {
            out.extend_from_slice(name);
            write_number(value, out);
        }
    };
    text(b",\"severity_text\":", record.severity_text, out);
    if record.severity_number != 0 {
        out.extend_from_slice(b",\"severity_number\":");
        write_number(record.severity_number, out);
    }
    text(b",\"event_name\":", record.event_name, out);
    text(b",\"trace_id\":", record.trace_id, out);
    text(b",\"span_id\":", record.span_id, out);
    number(b",\"flags\":", record.flags, out);
    number(b",\"dropped_attributes_count\":", record.dropped, out);
    let is_taken = |name: &[u8]| OWN.contains(&name) || shared.have(name);
    if let Some(list) = members_of_body {
        write_members::<W>(list, 0, out, |key, out| {
            let place = write_name(key, "body", out, |_, name| is_taken(name));
            names.add(place, out);
        })?;
    }
    write_members::<W>(record.attributes, 0, out, |key, out| {
        let is_taken = |before: &[u8], name: &[u8]| is_taken(name) || names.have(before, name);
        write_name(key, "attributes", out, is_taken);
    })?;
    out.extend_from_slice(&shared.members);
    if out.len() == begin {
        out.push(b',');
    }
    // All members begin with a comma.
    out[begin] = b'{';
    out.extend_from_slice(b"}\n");
    Ok(())
}

/// Appends keys and values as members, each behind a comma. `name` writes the name of one.
fn write_members<W: Wire>(
    list: List<'_>,
    depth: usize,
    out: &mut Vec<u8>,
    mut name: impl FnMut(Text<'_>, &mut Vec<u8>),
) -> Result<(), Rejection> {
    W::items(list, |content| {
        let (key, value) = W::pair(content)?;
        match W::value(value)? {
            AnyValue::Empty => Ok(()),
            value => {
                name(key, out);
                write_value::<W>(value, depth, out)
            }
        }
    })
}

/// Appends `,"NAME":`, or `,"PREFIX.NAME":` if the name is empty or taken, and returns the place of
/// the name. `is_taken` gets what was written before, and the name as it is written.
#[inline]
fn write_name(
    name: Text<'_>,
    prefix: &str,
    out: &mut Vec<u8>,
    is_taken: impl Fn(&[u8], &[u8]) -> bool,
) -> Range<usize> {
    out.push(b',');
    let begin = out.len() + 1;
    name.write(out);
    let end = out.len() - 1;
    let (before, written) = out.split_at(begin);
    let written = &written[..end - begin];
    if written.is_empty() || is_taken(before, written) {
        let name = written.to_vec();
        out.truncate(begin);
        out.extend_from_slice(prefix.as_bytes());
        out.push(b'.');
        out.extend_from_slice(&name);
        out.push(b'"');
    }
    let place = begin..out.len() - 1;
    out.push(b':');
    place
}

fn write_value<W: Wire>(
    value: AnyValue<'_>,
    depth: usize,
    out: &mut Vec<u8>,
) -> Result<(), Rejection> {
    if depth >= DEPTH_MAX {
        return Err(Rejection::Deep);
    }
    match value {
        AnyValue::Empty => out.extend_from_slice(b"null"),
        AnyValue::Text(text) => text.write(out),
        AnyValue::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
        AnyValue::Int(number) => write_number(number, out),
        AnyValue::Number(number) => out.extend_from_slice(number),
        AnyValue::Double(number) => write_double(number, out),
        AnyValue::Bytes(bytes) => write_text(STANDARD.encode(bytes).as_bytes(), out),
        AnyValue::List(list) => {
            let begin = out.len();
            W::items(list, |content| {
                out.push(b',');
                write_value::<W>(W::value(content)?, depth + 1, out)
            })?;
            close(begin, [b'[', b']'], out);
        }
        AnyValue::Members(list) => {
            let begin = out.len();
            write_members::<W>(list, depth + 1, out, |key, out| {
                write_name(key, "", out, |_, _| false);
            })?;
            close(begin, [b'{', b'}'], out);
        }
    }
    Ok(())
}

/// Puts brackets around what was written since `begin`, the first in the place of a comma.
fn close(begin: usize, [open, close]: [u8; 2], out: &mut Vec<u8>) {
    match out.get_mut(begin) {
        Some(comma) => *comma = open,
        None => out.push(open),
    }
    out.push(close);
}

#[cfg(test)]
mod tests;
