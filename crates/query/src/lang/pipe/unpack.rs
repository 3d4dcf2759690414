//! `unpack_json`, `unpack_logfmt` and `unpack_syslog`: unpacks the fields that a value holds, `from
//! a` or else from `_msg`.
//!
//! JSON and syslog are parsed as lines are on arrival: keys of nested objects are joined by dots,
//! arrays stay JSON text. A value that is not a JSON object gives no fields. Words of logfmt
//! without `=` give no field. The message of a syslog line goes to `message`, its time to
//! `timestamp`. A time of RFC 5424 is kept as it is written. A time of RFC 3164 is completed from
//! `offset` and the row's `_time`, or from the time of the query if the row has no `_time`.
//!
//! With `preserve_keys (a, b.c)` the objects of JSON with these paths stay JSON text.
//!
//! With `fields (a, b*)` only these fields are taken. Fields without `*` that the object lacks are
//! set to empty.

use std::fmt;
use std::sync::Arc;

use record::parse::{JSON_DEPTH_MAX, JsonKind, is_object, json_members, json_members_by};
use record::{
    Format, FrameBuilder, Origin, Parser, ParserConfig, Transport, frame::LINE_BYTES_MAX,
};
use text::duration::format_duration;
use text::quoted::quote;
use text::quoted::{Dialect, unquote};
use text::time::format_time;

use super::columns::{parse_patterns, write_patterns};
use super::compute::{
    Compute, ComputePipe, Output, Overwrite, parse_condition, parse_field, write_condition,
    write_field,
};
use super::operator::{Documentation, Registration, one};
use super::shown::Shown;
use crate::base::bitmap::Bitmap;
use crate::base::names::{MSG, NamePattern};
use crate::base::time::parse_duration;
use crate::base::{FieldSet, RunError};
use crate::block::{Block, Scratch};
use crate::lang::filter::Filter;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// The `unpack_json`, `unpack_logfmt` and `unpack_syslog` pipes.
#[derive(Clone, Debug, PartialEq)]
pub struct Unpack {
    /// Selects the rows to unpack; none: all rows.
    pub condition: Option<Filter>,
    /// The format of the value.
    pub form: PackedForm,
    /// The field of the value.
    pub from: String,
    /// The fields to take; empty: all.
    pub fields: Vec<NamePattern>,
    /// Paths of the objects of JSON that stay text.
    pub preserved: Vec<NamePattern>,
    /// Prefix for the names of the fields.
    pub prefix: String,
    /// When fields get new values.
    pub overwrite: Overwrite,
    /// Completes times in rows without `_time`, nanoseconds since 1970 UTC.
    pub(crate) now_ns: i64,
}

/// The format of fields in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackedForm {
    /// A JSON object.
    Json,
    /// `key=value key="va lue"`.
    Logfmt,
    /// A line of RFC 3164 or RFC 5424.
    Syslog {
        /// Offset of times without a zone, seconds east of UTC.
        zone_offset_s: i32,
    },
}

pub(super) static UNPACK_JSON: Registration = Registration {
    doc: Documentation {
        name: "unpack_json",
        aliases: &[],
        syntax: "unpack_json [if (<filter>)] [from <field>] [fields (<field>, …)] [preserve_keys (<key>, …)] [result_prefix \"<text>\"] [keep_original_fields] [skip_empty_results]",
        summary: "unpacks the members of a JSON object into fields",
        example: "unpack_json from body fields (b, c*) result_prefix \"x_\"",
    },
    parse: |cursor| parse(cursor, PackedForm::Json).map(one),
};

pub(super) static UNPACK_LOGFMT: Registration = Registration {
    doc: Documentation {
        name: "unpack_logfmt",
        aliases: &[],
        syntax: "unpack_logfmt [if (<filter>)] [from <field>] [fields (<field>, …)] [result_prefix \"<text>\"] [keep_original_fields] [skip_empty_results]",
        summary: "unpacks key=value pairs into fields",
        example: "unpack_logfmt from body",
    },
    parse: |cursor| parse(cursor, PackedForm::Logfmt).map(one),
};

pub(super) static UNPACK_SYSLOG: Registration = Registration {
    doc: Documentation {
        name: "unpack_syslog",
        aliases: &[],
        syntax: "unpack_syslog [if (<filter>)] [from <field>] [offset <duration>] [result_prefix \"<text>\"] [keep_original_fields]",
        summary: "unpacks the parts of a syslog line into fields",
        example: "unpack_syslog from body offset 2h",
    },
    parse: |cursor| parse(cursor, PackedForm::Syslog { zone_offset_s: 0 }).map(one),
};

pub(super) fn parse(cursor: &mut Cursor<'_>, mut form: PackedForm) -> Result<Unpack, ParseError> {
    let condition = parse_condition(cursor)?;
    let words = [
        "fields",
        "preserve_keys",
        "result_prefix",
        "keep_original_fields",
        "skip_empty_results",
        "offset",
    ];
    let mut from = parse_field(cursor, "from")?;
    if from.is_none() && !words.iter().any(|w| cursor.peek_word(false).eq_ignore_ascii_case(w)) {
        from = cursor.string(false)?.map(|name| name.text);
    }
    let mut unpack = Unpack {
        condition,
        form,
        from: from.unwrap_or(MSG.to_owned()),
        fields: Vec::new(),
        preserved: Vec::new(),
        prefix: String::new(),
        overwrite: Overwrite::default(),
        now_ns: cursor.now_ns,
    };
    loop {
        if !matches!(form, PackedForm::Syslog { .. }) && cursor.eat_keyword("fields") {
            unpack.fields = parse_patterns(cursor)?;
            // `*` among the fields means all fields.
            if unpack.fields.contains(&NamePattern::ANY) {
                unpack.fields.clear();
            }
        } else if form == PackedForm::Json && cursor.eat_keyword("preserve_keys") {
            unpack.preserved = parse_patterns(cursor)?;
        } else if cursor.eat_keyword("result_prefix") {
            unpack.prefix = cursor.expect_string(true, "a prefix")?.text;
        } else if let PackedForm::Syslog { zone_offset_s } = &mut form
            && cursor.eat_keyword("offset")
        {
            let what = "a duration such as 5h30m";
            let written = cursor.run("|)", what)?;
            let seconds = parse_duration(&written.text).map(|ns| ns / 1_000_000_000);
            let seconds = seconds.and_then(|s| i32::try_from(s).ok()).filter(|s| s.abs() <= 86_400);
            *zone_offset_s = seconds.ok_or_else(|| {
                cursor.error_at(written.position, &[what], "this is not an offset of a time zone")
            })?;
            unpack.form = form;
        } else {
            unpack.overwrite = Overwrite::parse(cursor);
            return Ok(unpack);
        }
    }
}

impl fmt::Display for Unpack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.form {
            PackedForm::Json => "unpack_json",
            PackedForm::Logfmt => "unpack_logfmt",
            PackedForm::Syslog { .. } => "unpack_syslog",
        })?;
        write_condition(&self.condition, f)?;
        write_field("from", &self.from, MSG, f)?;
        if let PackedForm::Syslog { zone_offset_s: offset } = self.form
            && offset != 0
        {
            write!(f, " offset {}", format_duration(i64::from(offset) * 1_000_000_000))?;
        }
        if !self.fields.is_empty() {
            write!(f, " fields ({})", write_patterns(&self.fields))?;
        }
        if !self.preserved.is_empty() {
            write!(f, " preserve_keys ({})", write_patterns(&self.preserved))?;
        }
        if !self.prefix.is_empty() {
            write!(f, " result_prefix {}", quote(&self.prefix))?;
        }
        write!(f, "{}", self.overwrite)
    }
}

impl ComputePipe for Unpack {
    fn prepare(&self) -> Box<dyn Compute> {
        Box::new(self.clone())
    }

    fn condition(&self) -> Option<&Filter> {
        self.condition.as_ref()
    }

    fn condition_mut(&mut self) -> Option<&mut Filter> {
        self.condition.as_mut()
    }

    fn needed_fields(&self, wanted: &mut FieldSet) {
        wanted.add(&self.from);
        // The time of the row completes the times of lines.
        if matches!(self.form, PackedForm::Syslog { .. }) {
            wanted.add("_time");
        }
    }

    fn results(&self) -> Vec<&str> {
        // The names depend on the values; the time is never among them.
        Vec::new()
    }

    fn follow_names(&self, shown: &mut Shown, _is_range: bool) -> Result<(), String> {
        if self.form != PackedForm::Json {
            return Err("may not follow the last stats pipe here".to_owned());
        }
        if self.fields.is_empty() || self.fields.iter().any(|field| field.prefix) {
            return Err("must name its fields here".to_owned());
        }
        for field in &self.fields {
            shown.add_label(&format!("{}{}", self.prefix, field.name));
        }
        Ok(())
    }
}

impl Compute for Unpack {
    fn compute(
        &self,
        block: &Block,
        rows: &Bitmap,
        out: &mut Output<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), RunError> {
        let mut taker = Taker { unpack: self, out, name: self.prefix.clone() };
        if let PackedForm::Syslog { zone_offset_s } = self.form {
            return taker.syslog(block, rows, zone_offset_s, scratch);
        }
        let from = block.column(&self.from);
        for row in rows.iter() {
            let value = block.value(from, row, scratch);
            let is_object = match self.form {
                PackedForm::Json => taker.json(row, value)?,
                _ => taker.logfmt(row, value)?,
            };
            if is_object {
                taker.empty_missing(row)?;
            }
        }
        Ok(())
    }
}

/// Sets the unpacked fields in rows.
struct Taker<'t, 'o> {
    unpack: &'t Unpack,
    out: &'t mut Output<'o>,
    /// The prefix with the name of a field.
    name: String,
}

impl Taker<'_, '_> {
    fn take(&mut self, row: usize, name: &str, value: &[u8]) -> Result<(), RunError> {
        let Unpack { fields, prefix, overwrite, .. } = self.unpack;
        if !fields.is_empty() && !fields.iter().any(|p| p.matches(name)) {
            return Ok(());
        }
        self.name.truncate(prefix.len());
        self.name.push_str(name);
        let column = self.out.column(&self.name);
        self.out.put(column, row, value, *overwrite)
    }

    /// Sets the fields to empty that are wanted by name and were not found.
    fn empty_missing(&mut self, row: usize) -> Result<(), RunError> {
        let Unpack { fields, prefix, overwrite, .. } = self.unpack;
        for pattern in fields.iter().filter(|p| !p.prefix) {
            self.name.truncate(prefix.len());
            self.name.push_str(&pattern.name);
            let column = self.out.column(&self.name);
            if self.out.get(column, row).is_none() {
                self.out.put(column, row, b"", *overwrite)?;
            }
        }
        Ok(())
    }

    /// Whether the value was an object. Nothing is taken from a malformed one.
    fn json(&mut self, row: usize, value: &[u8]) -> Result<bool, RunError> {
        let value = value.trim_ascii();
        if !is_object(value) {
            return Ok(false);
        }
        if !self.unpack.preserved.is_empty() {
            return self.preserving(row, "", value, 1);
        }
        let mut result = Ok(());
        let whole = json_members(value, |name, value| {
            if result.is_ok() {
                result = self.take(row, name, value.as_bytes());
            }
        });
        result.map(|()| whole.is_some())
    }

    /// As [`Taker::json`], where some objects stay text; `path` is that of the object, with its
    /// depth. Each level reads its text anew.
    fn preserving(
        &mut self,
        row: usize,
        path: &str,
        object: &[u8],
        depth: usize,
    ) -> Result<bool, RunError> {
        let mut result = Ok(());
        let join = |path: &mut String, _: usize, key: &str| path.push_str(key);
        let whole = json_members_by(object, 1, join, |key, kind, value| {
            if result.is_err() || kind == JsonKind::Null {
                return;
            }
            let name = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
            let stays_text = kind != JsonKind::Object
                || depth == JSON_DEPTH_MAX
                || value[1..value.len() - 1].trim().is_empty()
                || self.unpack.preserved.iter().any(|pattern| pattern.matches(&name));
            result = if stays_text {
                self.take(row, &name, value.as_bytes())
            } else {
                self.preserving(row, &name, value.as_bytes(), depth + 1).map(drop)
            };
        });
        result.map(|()| whole.is_some())
    }

    fn logfmt(&mut self, row: usize, value: &[u8]) -> Result<bool, RunError> {
        let mut rest = value;
        let mut unquoted = Vec::new();
        while let Some(at) = memchr::memchr2(b'=', b' ', rest) {
            let (name, sign) = (&rest[..at], rest[at]);
            rest = &rest[at + 1..];
            if sign == b' ' || name.is_empty() {
                continue;
            }
            let name = String::from_utf8_lossy(name);
            unquoted.clear();
            if let Ok(length) = unquote(rest, Dialect::GoOrJson, &mut unquoted) {
                self.take(row, &name, &unquoted)?;
                rest = &rest[length..];
            } else {
                let end = memchr::memchr(b' ', rest).unwrap_or(rest.len());
                self.take(row, &name, &rest[..end])?;
                rest = &rest[end..];
            }
        }
        Ok(true)
    }

    /// Parses the values with the parser for lines, as lines of frames.
    fn syslog(
        &mut self,
        block: &Block,
        rows: &Bitmap,
        zone_offset_s: i32,
        scratch: &mut Scratch,
    ) -> Result<(), RunError> {
        // Only the head: what servers write is taken apart on arrival.
        let config = ParserConfig {
            zone: record::Zone::Fixed(zone_offset_s),
            no_server_fields: true,
            ..ParserConfig::default()
        };
        let mut parser = Parser::new(&config).expect("there are no rules");
        let origin = Origin::new(Transport::SyslogUdp, Format::Syslog, None);
        let (from, time) = (block.column(&self.unpack.from), block.column("_time"));
        let mut frame = FrameBuilder::new();
        let mut places = Vec::new();
        for row in rows.iter() {
            let time_ns = block.time_ns(time, row, scratch).unwrap_or(self.unpack.now_ns);
            let value = block.value(from, row, scratch);
            // Longer lines are cut on arrival as well.
            let value = &value[..value.len().min(LINE_BYTES_MAX)];
            if value.is_empty() {
                continue;
            }
            frame.push_line(&origin, time_ns, value, false);
            places.push((row, time_of_rfc5424(value).map(<[u8]>::to_vec)));
            if frame.is_full() {
                self.syslog_frame(&mut parser, std::mem::take(&mut frame), &places)?;
                places.clear();
            }
        }
        self.syslog_frame(&mut parser, frame, &places)
    }

    fn syslog_frame(
        &mut self,
        parser: &mut Parser,
        frame: FrameBuilder,
        places: &[(usize, Option<Vec<u8>>)],
    ) -> Result<(), RunError> {
        let mut frame = frame;
        let Some(frame) = frame.finish(0, 0) else { return Ok(()) };
        let batch = parser.parse(Arc::new(frame));
        for (line, (row, written)) in batch.rows().zip(places) {
            let row = *row;
            let mut is_syslog = false;
            for (id, value) in line.fields() {
                let name = match batch.name(id) {
                    "_msg" => "message",
                    // Loginson's own fields of a line are not in the value.
                    "_type" | "_level" | "_note" | "_remote_ip" | "_file" => continue,
                    name => name,
                };
                is_syslog |= name == "format";
                self.take(row, name, value)?;
            }
            if is_syslog {
                let time = format_time(line.time_ns());
                self.take(row, "timestamp", written.as_deref().unwrap_or(time.as_bytes()))?;
            }
        }
        Ok(())
    }
}

/// The time of a line of RFC 5424 as it is written, behind `<PRI>1 `.
fn time_of_rfc5424(line: &[u8]) -> Option<&[u8]> {
    let behind = line.strip_prefix(b"<")?;
    let digits = behind.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = behind[digits..].strip_prefix(b">1 ")?;
    rest.split(|byte| *byte == b' ').next().filter(|time| !time.is_empty())
}

#[cfg(test)]
mod tests {
    use crate::lang::context::Context;
    use crate::testing::{Memory, Record, check_pipe, collect, record};

    fn records(text: &str) -> Vec<Record> {
        vec![record(1_769_900_000_000_000_000, &[("_msg", text), ("ip", "old"), ("host", "h")])]
    }

    #[test]
    fn json() {
        let check = |text: &str, pipes: &str, expected: &str| {
            check_pipe(&records(text), pipes, &[expected]);
        };
        let text = r#"{"ip":"1.2.3.4","a":{"b":1.50,"c":[1,"x"]},"host":"","n":null}"#;
        check(
            text,
            "unpack_json from _msg | fields ip, a.b, a.c, host, n",
            "ip=1.2.3.4 a.b=1.50 a.c=[1,\"x\"]",
        );
        check(text, "unpack_json fields (ip, none) | fields ip, host, a.b", "ip=1.2.3.4 host=h");
        check(text, "unpack_json fields (a*) | fields ip, a*", "ip=old a.b=1.50 a.c=[1,\"x\"]");
        check(text, "unpack_json keep_original_fields | fields ip, host", "ip=old host=h");
        check(text, "unpack_json skip_empty_results | fields ip, host", "ip=1.2.3.4 host=h");
        check(text, "unpack_json fields (ip, none, host) | fields host, ip", "ip=1.2.3.4");
        check(
            text,
            "unpack_json result_prefix \"j_\" | fields ip, j_ip, j_a.b",
            "ip=old j_ip=1.2.3.4 j_a.b=1.50",
        );
        check(text, "unpack_json if (ip:\"\") | fields ip", "ip=old");
        check(
            text,
            "unpack_json preserve_keys (a) | fields ip, a, a*",
            "ip=1.2.3.4 a={\"b\":1.50,\"c\":[1,\"x\"]}",
        );
        let deep = r#"{"a":{"b":{"c":1},"d":{ },"e":{"f":null,"g":"x"}}}"#;
        check(
            deep,
            "unpack_json preserve_keys (b, a.b) result_prefix p | fields p*",
            "pa.b={\"c\":1} pa.d={ } pa.e.g=x",
        );
        check(deep, "unpack_json fields (a.b*) preserve_keys (a.b) | fields a*", "a.b={\"c\":1}");
        check("no object", "unpack_json fields (ip) | fields ip", "ip=old");
        check("{\"ip\":\"x\",", "unpack_json | fields ip", "ip=old");
        check(r#"{"ip":"x","ip":"y"}"#, "unpack_json | fields ip", "ip=y");
    }

    #[test]
    fn logfmt() {
        let check = |text: &str, pipes: &str, expected: &str| {
            check_pipe(&records(text), pipes, &[expected]);
        };
        let text = r#"level=info msg="a \"b\"" ip= took=1.5s done x==y"#;
        check(
            text,
            "unpack_logfmt | fields level, msg, took, ip, done, x",
            "level=info msg=a \"b\" took=1.5s x==y",
        );
        check(text, "unpack_logfmt from _msg fields (took) | fields took, msg", "took=1.5s");
        check(
            text,
            "unpack_logfmt result_prefix p_ skip_empty_results | fields ip, p_level",
            "ip=old p_level=info",
        );
        check("", "unpack_logfmt | fields ip", "ip=old");
    }

    #[test]
    fn syslog() {
        let check = |text: &str, pipes: &str, expected: &str| {
            check_pipe(
                &records(text),
                &format!("{pipes} | delete _msg, ip, host, _time, _stream"),
                &[expected],
            );
        };
        check(
            r#"<165>1 2026-01-31T22:14:15.003Z mymachine.example.com evntslog 12 ID47 [ex@32473 iut="3"] An event"#,
            "unpack_syslog",
            "message=An event priority=165 facility=20 facility_keyword=local4 severity=5 level=notice \
             format=rfc5424 hostname=mymachine.example.com app_name=evntslog proc_id=12 msg_id=ID47 \
             ex@32473.iut=3 timestamp=2026-01-31T22:14:15.003Z",
        );
        check(
            "<34>Jan 31 22:14:15 mymachine su[12]: 'su root' failed",
            "unpack_syslog result_prefix \"s.\" offset 1h | fields s.hostname, s.message, s.timestamp, s.proc_id",
            "s.hostname=mymachine s.message='su root' failed s.timestamp=2026-01-31T21:14:15Z s.proc_id=12",
        );
        check("plain", "unpack_syslog | fields message, hostname", "message=plain");
        check(
            "<14>1 2026-01-31T22:14:15.500+02:00 h a - - - m",
            "delete _time | unpack_syslog | fields timestamp",
            "timestamp=2026-01-31T22:14:15.500+02:00",
        );
    }

    #[test]
    fn a_row_without_time_is_of_the_year_of_the_query() {
        let now_ns = 1_769_900_000_000_000_000;
        let text = "* | delete _time | unpack_syslog | fields timestamp";
        let query = crate::Query::parse(text, now_ns).unwrap();
        let source = Memory::of(&records("<14>Jan 30 22:14:15 h a: m"));
        let (rows, outcome) = collect(&query, &source, &Context::default());
        outcome.unwrap();
        let expected = ("timestamp".to_owned(), "2026-01-30T22:14:15Z".to_owned());
        assert_eq!(rows, [[expected]]);
    }
}
