//! Turns lines into records: determines the type of each line and its fields.
//!
//! The steps for a line: the parser looks for a head (`syslog`); a rule or the source determines
//! the type and the format of the message (`rules`); the message becomes fields (`json`, `logfmt`,
//! `access`, `cef`, a line of a common server (`servers`), or text); an incomplete time is
//! completed from the arrival time (`time`); the level is mapped to one set of words, as `_level`
//! (`level`, `level_text`).
//!
//! Decisions:
//! - A line never fails. Text that could not be parsed is in `_msg`, and `_note` says what failed.
//! - Each row has `_type` and `_msg`. For JSON without a message `_msg` is the object's text.
//! - A field of a line keeps its name and value. Fields added by Loginson have names that begin
//!   with an underscore; `level` is the line's own word, or the word of its syslog severity if it
//!   has none. If a JSON message has a field with a name of the syslog head (`hostname`), the
//!   head's value is stored as `syslog.NAME`.
//! - The time of a syslog head is preferred to a time in its message: it is the sender's for all
//!   lines alike. The same holds for the time of a container runtime (`cri`). A key that was
//!   configured for the time precedes both. A head without a time leaves it to the message.
//! - A line of a file without a time of its own has the time of the line before it in the file, as
//!   far as that is in the same frame (`inherited`): it continues that line.
//! - A time without zone is only compared with the arrival time if lines arrive as they are
//!   written, that is by syslog and from the end of followed files; other lines have the configured
//!   zone. A zone that is configured for the lines, not for all, is not doubted.
//! - A JSON key `_time` or `_msg` that is neither the time nor the message is stored as
//!   `json.NAME`; an extra field `_time` as `extra._time`.
//!
//! Speed: no allocation per line; names are looked up once per batch; a syslog head that occurred
//! earlier in the batch is not parsed again (`heads`); see `crates/bench/src/parse_speed.rs`.

mod access;
mod cef;
mod common;
mod container;
mod cri;
mod decolor;
mod head;
mod head_fields;
mod heads;
mod inherited;
mod json;
mod json_level;
mod json_names;
mod json_parts;
mod json_scan;
mod json_time;
mod leef;
mod level;
mod level_programs;
mod level_signs;
mod level_text;
mod logfmt;
mod message;
mod only_times;
mod otlp;
mod row;
mod rules;
mod servers;
mod short;
mod slow_log;
mod syslog;
mod tag;
mod time;
mod time_plain;
mod time_zone;
mod times;
mod traces;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use container::ContainerLine;
pub use decolor::decolorize;
pub use json::JSON_DEPTH_MAX;
pub use json_parts::{JsonKind, is_object, json_items, json_members, json_members_by};
pub use row::{EXTRA_FIELDS_MAX, LINE_KEYS_MAX, NAME_BYTES_MAX, OWN_FIELDS_MAX};
pub use rules::{FieldNames, NAMES_MAX, RuleError, TYPE_NAME_BYTES_MAX, TYPE_RULES_MAX, TypeRule};
pub use traces::{Takes, Trace};

use crate::batch::{Batch, BatchBuilder, Kept};
use crate::frame::{Format, Frame, Line, MessageFormat, Origin};
use crate::zone::Zone;
use common::{Common, RequestedParser};
use head::Head;
use head_fields::find_head;
use heads::{HeadSight, Heads, ParsedHead};
use inherited::{LastTimes, Timeless};
use json::Flattener;
use message::{MessageKind, Opening};
use row::{GivenFields, Own, RowsBuilder};
use rules::{Names, Rules, Subject};
use servers::Program;
use time::Expected;
use times::Times;

/// The note of a zone such as `IST` that has several meanings.
const ZONE_UNCLEAR: &str =
    "name of the zone has several meanings; it counts as missing until the source has a zone";

/// Settings of a [`Parser`].
#[derive(Clone, Debug, Default)]
pub struct ParserConfig {
    /// Rules that determine types, in order.
    pub types: Vec<TypeRule>,
    /// Zone of times that name none, where neither the source nor a rule has another.
    pub zone: Zone,
    /// Lines of common servers are not taken apart, unless their rule says so.
    pub no_server_fields: bool,
}

/// Parses frames. Each thread has its own; a clone is cheap.
#[derive(Clone, Debug)]
pub struct Parser {
    rules: Arc<Rules>,
    zone: Zone,
    /// What is assumed of times without zone in the line being parsed.
    expected: Expected,
    server_fields: bool,
    flattener: Flattener,
    /// For objects within values.
    inner: Flattener,
    heads: Heads,
    /// Heads that decide the time of their lines, for [`Parser::times`].
    heads_of_times: Heads,
    times: Times,
    scratch: Vec<u8>,
    found: servers::Found,
    plain_form: usize,
    /// Fields and rows of the previous batch: the next one will have about as many.
    stored_before: Option<(usize, usize)>,
}

impl Parser {
    /// A parser with these rules.
    ///
    /// # Errors
    /// If a rule is invalid; the error names the rule and the remedy.
    pub fn new(config: &ParserConfig) -> Result<Parser, RuleError> {
        Ok(Parser {
            rules: Arc::new(Rules::new(&config.types)?),
            zone: config.zone,
            expected: Expected::default(),
            flattener: Flattener::default(),
            inner: Flattener::default(),
            heads: Heads::default(),
            heads_of_times: Heads::default(),
            times: Times::default(),
            server_fields: !config.no_server_fields,
            scratch: Vec::new(),
            found: servers::Found::default(),
            plain_form: 0,
            stored_before: None,
        })
    }

    /// The records of a frame: one row per line, whatever the lines contain.
    pub fn parse(&mut self, frame: Arc<Frame>) -> Batch {
        let builder = match self.stored_before {
            None => BatchBuilder::new(frame.clone()),
            Some((fields, rows)) => {
                let fields = frame.header().lines as usize * fields / rows;
                BatchBuilder::with_fields(frame.clone(), fields + fields / 8 + 64)
            }
        };
        let mut last_times = LastTimes::new(&frame);
        let rows = self.rows_of(builder, &frame, frame.lines(), |line, rows| {
            last_times.pass(line, rows);
        });
        let batch = rows.builder.finish();
        let rows = batch.len().max(1);
        self.stored_before = Some((batch.fields_stored(), rows));
        batch
    }

    /// The records of some lines of a frame, by their places, which rise.
    pub fn parse_lines(&mut self, frame: Arc<Frame>, lines: &[u32]) -> Batch {
        let builder = BatchBuilder::of_part(frame.clone(), lines.len());
        let lines = frame.lines_at(lines);
        let (mut row, mut timeless) = (0, Vec::new());
        let rows = self.rows_of(builder, &frame, lines, |line, rows| {
            if inherited::is_timeless(line, rows) {
                timeless.push(Timeless { row, line: line.index });
            }
            row += 1;
        });
        let mut builder = rows.builder;
        self.inherit(&frame, &timeless, &mut builder);
        builder.finish()
    }

    fn begin_batch(&mut self) {
        self.flattener.begin_batch();
        self.inner.begin_batch();
        self.heads.begin_batch();
    }

    /// Parses lines; `each` sees each row before it is closed.
    fn rows_of<'f>(
        &mut self,
        builder: BatchBuilder,
        frame: &'f Frame,
        lines: impl Iterator<Item = Line<'f>>,
        mut each: impl FnMut(&Line<'f>, &mut RowsBuilder<'f>),
    ) -> RowsBuilder<'f> {
        let mut rows = RowsBuilder::new(builder);
        let mut commons: Vec<Option<Common>> = vec![None; frame.origins().len()];
        let mut rule_names: Vec<Option<Kept>> = vec![None; self.rules.len()];
        self.begin_batch();
        for line in lines {
            rows.begin(&line);
            let common = commons[line.origin_index as usize]
                .get_or_insert_with(|| Common::new(line.origin, self.zone, &mut rows));
            self.line(&line, frame.bytes(), common, &mut rule_names, &mut rows);
            if common.decolorizes {
                decolor::decolorize_row(&line.origin.hints.decolorize_fields, &mut rows.builder);
            }
            each(&line, &mut rows);
            rows.end();
        }
        rows
    }

    fn line(
        &mut self,
        line: &Line<'_>,
        frame: &[u8],
        common: &mut Common,
        rule_names: &mut [Option<Kept>],
        rows: &mut RowsBuilder<'_>,
    ) {
        let text = trimmed(line.bytes);
        self.expected = common.expected;
        let mut sight = None;
        // Positions in a line count from its first byte, so a byte order mark must not be skipped.
        if common.may_have_head
            && !common.decolorizes
            && line.origin.hints.time_fields.is_empty()
            && text.as_ptr() == line.bytes.as_ptr()
        {
            let context = self.context(line);
            sight = self.heads.sight(text, line.origin_index, &mut self.times, context);
        }
        if let Some(sight) = &sight
            && self.line_of_known_head(sight, text, line, frame, common, rows)
        {
            return;
        }
        let container = if common.may_be_container { cri::head(text) } else { None };
        let head = match &container {
            Some(container) => Head { message: container.message, ..Head::default() },
            None => find_head(text, line.origin, common.forced),
        };
        let subject = Subject {
            app_name: head.app_name,
            hostname: head.hostname,
            remote_ip: common.sender,
            line: text,
        };
        let mut rule = match common.type_name {
            None if !self.rules.is_empty() => self.rules.find(subject),
            _ => None,
        };
        self.use_zone(rule);
        // A rule for texts as they are, which does not ask for the parts of a head.
        let is_plain = line.origin.format == Format::Auto
            && rule.is_some_and(|(index, format)| {
                format == MessageFormat::Plain && !self.rules.asks_for_head(index)
            });
        let (head, container) = match is_plain {
            true => (Head { message: text, ..Head::default() }, None),
            false => (head, container),
        };
        let format = match (common.forced, rule) {
            (Some(RequestedParser::Message(format)), _) => format,
            (_, Some((_, format))) if format != MessageFormat::Auto => format,
            _ if line.origin.format == Format::Json => MessageFormat::Json,
            _ => MessageFormat::Auto,
        };
        let named_rules = self.rules.have_names().then(|| self.rules.clone());
        let names = |rule: Option<(usize, MessageFormat)>| match (&named_rules, rule) {
            (Some(rules), Some((index, _))) => rules.names(index, &line.origin.hints),
            _ => Names::of(&line.origin.hints),
        };
        let mut opening = Opening {
            message: head.message,
            has_head: head.format.is_some(),
            has_time: head.written.is_some() || container.is_some(),
            is_time_bad: head.note == Some(message::TIME_UNREADABLE),
            severe: head.priority.is_some(),
            mnemonic: head.own_level(),
            names: names(rule),
            program: self.program(head.app_name, rule),
        };
        let mut joined = Vec::new();
        let made = match common.may_be_container && memchr::memchr(b'\n', text).is_some() {
            true => self.joined_message(text, &mut joined, opening, line, rows),
            false => None,
        };
        let mut kind = match made {
            Some(kind) => kind,
            None => self.message(opening, format, line, rows),
        };
        if kind == MessageKind::Json
            && head.format.is_none()
            && rule.is_none()
            && common.type_name.is_none()
        {
            rule = self.rule_of_json(subject, rows);
            self.use_zone(rule);
            opening.names = names(rule);
            opening.program = self.program(head.app_name, rule);
            // The rule may name keys, or another format.
            let format = match (common.forced, rule) {
                (None, Some((_, format))) if format != MessageFormat::Auto => format,
                _ => format,
            };
            let is_other = !matches!(format, MessageFormat::Auto | MessageFormat::Json);
            if (opening.names.rule.is_some() || is_other) && made.is_none() {
                rows.clear();
                kind = self.message(opening, format, line, rows);
            }
        }
        if let Some(container) = container {
            self.put_container(&container, made.is_none(), line, rows);
        }
        let detected = match kind {
            MessageKind::Json => "json",
            MessageKind::Access => "access",
            MessageKind::Logfmt => "logfmt",
            MessageKind::Plain if opening.has_head => "syslog",
            MessageKind::Plain => "plain",
        };
        let own = rows.builder.row_fields();
        let variant = variant(kind, rows);
        let learns = sight.filter(|s| {
            s.fits(&head, line.bytes)
                && common.may_share(line, rows)
                && opening.names.rule.is_none()
        });
        self.put_head(&head, line, rows);
        if learns.is_some() {
            self.put_tail(detected, rule, line, common, rule_names, rows);
            if !rows.has_notes()
                && let Some(stem) = rows.builder.share_from(own)
                && let Some(sight) = &sight
            {
                let rule = rule.map(|(index, _)| index as u16);
                self.heads.learn(
                    sight,
                    line,
                    frame,
                    ParsedHead {
                        head: &head,
                        format,
                        program: opening.program,
                        rule,
                        variant,
                        stem,
                    },
                );
            }
            return;
        }
        let may_share = common.may_share(line, rows);
        let tail = match rule {
            None => common.tails[kind as usize + 4 * usize::from(opening.has_head)],
            Some((index, _)) => common.rule_tail.filter(|t| t.0 == index).map(|t| t.1),
        };
        if may_share && let Some(tail) = tail {
            return rows.builder.use_stem(tail);
        }
        let own = rows.builder.row_fields();
        self.put_tail(detected, rule, line, common, rule_names, rows);
        if may_share && let Some(tail) = rows.builder.share_from(own) {
            match rule {
                None => {
                    common.tails[kind as usize + 4 * usize::from(opening.has_head)] = Some(tail)
                }
                Some((index, _)) => common.rule_tail = Some((index, tail)),
            }
        }
    }

    /// Writes the row of a line whose head is cached; returns whether it was.
    #[inline]
    fn line_of_known_head(
        &mut self,
        sight: &HeadSight,
        text: &[u8],
        line: &Line<'_>,
        frame: &[u8],
        common: &Common,
        rows: &mut RowsBuilder<'_>,
    ) -> bool {
        let Some(known) = self.heads.find(sight, line, frame) else { return false };
        if self.rules.look_at_lines() && common.type_name.is_none() {
            let subject = Subject {
                app_name: known.app_name(sight, text),
                hostname: known.hostname(sight, text),
                remote_ip: common.sender,
                line: text,
            };
            if self.rules.find(subject).map(|(index, _)| index as u16) != known.rule {
                return false;
            }
        }
        let known = *known;
        let message = &text[sight.message_at()..];
        let message = if known.bom { without_bom(message) } else { message };
        let names = Names::of(&line.origin.hints);
        let opening = Opening {
            message,
            has_head: true,
            has_time: true,
            is_time_bad: false,
            severe: known.severe,
            mnemonic: None,
            names,
            program: known.program,
        };
        let kind = self.message(opening, known.format, line, rows);
        match known.stem(variant(kind, rows)) {
            Some(stem) if common.may_share(line, rows) => {
                rows.builder.set_time(sight.time_ns);
                rows.builder.use_stem(stem);
                true
            }
            _ => {
                rows.clear();
                false
            }
        }
    }

    /// Writes the type, `detected` or a better one, and the fields that the origin adds to its
    /// lines.
    fn put_tail(
        &self,
        detected: &'static str,
        rule: Option<(usize, MessageFormat)>,
        line: &Line<'_>,
        common: &Common,
        rule_names: &mut [Option<Kept>],
        rows: &mut RowsBuilder<'_>,
    ) {
        match (common.type_name, rule) {
            _ if rows.is_apart() && rows.has(Own::Type) => {
                if common.is_sent {
                    rows.disown_type();
                }
            }
            (Some(name), _) => put_kept(Own::Type, Some(name), rows),
            (None, Some((index, _))) => {
                let name = *rule_names[index]
                    .get_or_insert_with(|| rows.builder.keep(self.rules.name(index).as_bytes()));
                put_kept(Own::Type, Some(name), rows);
            }
            (None, None) => rows.put_static(Own::Type, detected),
        }
        for (own, value) in [(Own::RemoteIp, common.remote_ip), (Own::File, common.file)] {
            // A line that another Loginson sends on has those of its first sender.
            if !(rows.is_apart() && value.is_some() && rows.has(own)) {
                put_kept(own, value, rows);
            }
        }
        put_kept(Own::Tenant, common.tenant, rows);
        for &(id, value) in &common.extra {
            rows.builder.push_kept(id, value);
        }
        if common.extra_left_out {
            rows.note("too many extra fields, some left out");
        }
        if line.cut {
            rows.note("longer than a line may be, cut off");
        }
        if let Some(doubt) = line.doubt {
            rows.note(doubt.note());
        }
    }

    /// The program of a head, as far as it matters here; a setting may say that it does not.
    #[inline]
    fn program(&self, app_name: &[u8], rule: Option<(usize, MessageFormat)>) -> Program {
        let of_rule = rule.and_then(|(index, _)| self.rules.fields(index));
        match of_rule.unwrap_or(self.server_fields) {
            true => Program::of(app_name),
            false => Program::Off,
        }
    }

    fn rule_of_json(
        &self,
        subject: Subject<'_>,
        rows: &RowsBuilder<'_>,
    ) -> Option<(usize, MessageFormat)> {
        if self.rules.is_empty() {
            return None;
        }
        let value = |name: &str| rows.builder.get(rows.builder.known_id(name)?);
        let (app_name, hostname) = (value("app_name"), value("hostname"));
        self.rules.find(Subject {
            app_name: app_name.unwrap_or_default(),
            hostname: hostname.unwrap_or_default(),
            ..subject
        })
    }

    fn set_time(&self, written: time::Written, line: &Line<'_>, rows: &mut RowsBuilder<'_>) {
        let context = self.context(line);
        if time::is_unclear(written, context) {
            rows.note(ZONE_UNCLEAR);
        }
        match time::resolve(written, context) {
            Ok(time_ns) => rows.builder.set_time(time_ns),
            Err(time::Absurd) => rows.note("absurd time, arrival taken"),
        }
    }

    fn context(&self, line: &Line<'_>) -> time::Context {
        time::Context { arrival_ns: line.received_ns, expected: self.expected }
    }

    /// Takes the zone of a rule for the times of this line.
    fn use_zone(&mut self, rule: Option<(usize, MessageFormat)>) {
        if let Some(zone) = rule.and_then(|(index, _)| self.rules.zone(index)) {
            (self.expected.zone, self.expected.is_sure) = (zone, true);
        }
    }
}

/// Groups messages whose rows may share the fields of a head: messages of one kind that also agree
/// in having `level` and `_level` or not. A row whose `level` is empty is marked as one that shares
/// nothing: the value of the head replaces it.
fn variant(kind: MessageKind, rows: &mut RowsBuilder<'_>) -> usize {
    if rows.level_keys()[0].and_then(|id| rows.builder.get(id)) == Some(b"") {
        rows.set_apart();
    }
    let (has_level, is_severe) = match kind {
        MessageKind::Plain => (rows.has_text_level(), rows.has(Own::Severe)),
        MessageKind::Access => (false, true),
        MessageKind::Json | MessageKind::Logfmt => (rows.level().is_some(), rows.has(Own::Severe)),
    };
    4 * kind as usize + 2 * usize::from(has_level) + usize::from(is_severe)
}

fn given(has_head: bool, origin: &Origin) -> GivenFields {
    GivenFields {
        head: has_head,
        sender: origin.sender.is_some(),
        file: origin.hints.file.is_some(),
    }
}

fn put_kept(own: Own, value: Option<Kept>, rows: &mut RowsBuilder<'_>) {
    if let Some(value) = value {
        let id = rows.id(own);
        rows.builder.push_kept(id, value);
    }
}

/// A line without a leading byte order mark, and without trailing carriage returns, newlines and
/// NUL.
fn trimmed(line: &[u8]) -> &[u8] {
    let end = line.iter().rposition(|b| !matches!(b, b'\r' | b'\n' | 0)).map_or(0, |at| at + 1);
    without_bom(&line[..end])
}

fn without_bom(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}
