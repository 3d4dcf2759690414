//! Values of records as lines.

use record::Origin;
use record::frame::{Doubt, Format, Hints, LINE_BYTES_MAX, MessageFormat, Transport};
use serde::de::IgnoredAny;
use text::json::write_text;

use super::{KafkaConfig, KafkaRecord, Partition, ValueFormat};
use crate::body::otlp::{self, Export, LEVEL_FIELDS, STREAM_FIELDS};

/// Bytes of lines of one record that are put into a frame at once.
const PIECE_BYTES: usize = 16 << 20;

/// The origins of the lines of a partition.
pub(super) struct Origins {
    /// Of values as they are.
    plain: Origin,
    /// Of objects that are written here.
    written: Origin,
}

impl Origins {
    pub fn new(config: &KafkaConfig, partition: &Partition) -> Origins {
        let mut extra_fields = config.fields.clone();
        let mut add = |is_asked: bool, name: &str, value: String| {
            if is_asked {
                extra_fields.push((name.to_owned(), value));
            }
        };
        add(config.asked.topic, "kafka.topic", partition.topic.to_string());
        add(config.asked.partition, "kafka.partition", partition.number.to_string());
        let is_otlp = config.format == ValueFormat::Otlp;
        let names = |names: &[&str]| match is_otlp {
            true => names.iter().map(|name| (*name).to_owned()).collect(),
            false => Vec::new(),
        };
        let hints = Hints {
            log_type: config.log_type.clone(),
            zone: config.zone.clone(),
            extra_fields,
            stream_fields: names(&STREAM_FIELDS),
            level_fields: names(&LEVEL_FIELDS),
            ..Hints::default()
        };
        let origin = |format: Format, message: Option<MessageFormat>| Origin {
            hints: Hints { format: message, ..hints.clone() }.into(),
            ..Origin::new(Transport::Kafka, format, None)
        };
        let plain = match config.format {
            ValueFormat::Auto | ValueFormat::Otlp => origin(Format::Auto, None),
            ValueFormat::Json => origin(Format::Json, None),
            ValueFormat::Text => origin(Format::Auto, Some(MessageFormat::Plain)),
            ValueFormat::Syslog => origin(Format::Syslog, None),
        };
        Origins { plain, written: origin(Format::Json, None) }
    }
}

/// What a record becomes.
pub(super) enum Piece<'p> {
    /// One line, which may contain newlines.
    Line { origin: &'p Origin, line: &'p [u8], is_cut: bool, doubt: Option<Doubt> },
    /// Lines, each with its newline.
    Lines { origin: &'p Origin, lines: &'p [u8] },
}

/// What is told of a record besides its lines.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// It had no value, or an empty one.
    pub is_empty: bool,
    /// It was kept as it came, because it cannot be decoded.
    pub is_undecoded: bool,
    /// Records within it that were not taken, and their bytes.
    pub rejected: (u64, u64),
}

/// Writes the lines of a record, piece by piece; `memory` is used again. Stops when `push` returns
/// false, and returns `None` then.
pub(super) fn write(
    config: &KafkaConfig,
    origins: &Origins,
    record: &KafkaRecord,
    memory: &mut Vec<u8>,
    mut push: impl FnMut(Piece<'_>) -> bool,
) -> Option<Told> {
    let value = record.value.as_deref().unwrap_or_default();
    let value = value.strip_suffix(b"\n").unwrap_or(value);
    let mut told = Told::default();
    if value.is_empty() {
        told.is_empty = true;
        return Some(told);
    }
    memory.clear();
    memory.shrink_to(2 * PIECE_BYTES);
    if config.format == ValueFormat::Otlp {
        let format = match value.trim_ascii_start().starts_with(b"{") {
            true => otlp::Format::Json,
            false => otlp::Format::Protobuf,
        };
        if let Ok(mut export) = Export::read(format, value) {
            loop {
                memory.clear();
                let has_more = export.write(memory, PIECE_BYTES);
                let piece = Piece::Lines { origin: &origins.written, lines: memory };
                if !memory.is_empty() && !push(piece) {
                    return None;
                }
                if !has_more {
                    break;
                }
            }
            told.rejected =
                export.rejected().map_or((0, 0), |rejected| (rejected.records, rejected.bytes));
            return Some(told);
        }
        told.is_undecoded = true;
        let piece = line(&origins.plain, value, Some(Doubt::Decoding));
        return push(piece).then_some(told);
    }
    let piece = match config.asked.is_of_records() {
        true => {
            write_with_fields(config, record, value, memory);
            line(&origins.written, memory, None)
        }
        false => line(&origins.plain, value, None),
    };
    push(piece).then_some(told)
}

fn line<'p>(origin: &'p Origin, line: &'p [u8], doubt: Option<Doubt>) -> Piece<'p> {
    let kept = &line[..line.len().min(LINE_BYTES_MAX)];
    Piece::Line { origin, line: kept, is_cut: kept.len() < line.len(), doubt }
}

/// Writes an object with the value, which is its message if it is no object, and with the fields
/// that are asked for.
fn write_with_fields(config: &KafkaConfig, record: &KafkaRecord, value: &[u8], out: &mut Vec<u8>) {
    let asked = config.asked;
    match members_of(value).filter(|_| config.format != ValueFormat::Text) {
        Some(members) => {
            out.push(b'{');
            out.extend_from_slice(members);
            if !members.trim_ascii().is_empty() {
                out.push(b',');
            }
        }
        None => {
            out.extend_from_slice(b"{\"_msg\":");
            write_text(value, out);
            out.push(b',');
        }
    }
    if asked.offset {
        out.extend_from_slice(format!("\"kafka.offset\":{},", record.offset).as_bytes());
    }
    if let Some(key) = record.key.as_ref().filter(|_| asked.key) {
        out.extend_from_slice(b"\"kafka.key\":");
        write_text(key, out);
        out.push(b',');
    }
    for (name, value) in record.headers.iter().filter(|_| asked.headers) {
        write_text(format!("kafka.headers.{name}").as_bytes(), out);
        out.push(b':');
        write_text(value.as_deref().unwrap_or_default(), out);
        out.push(b',');
    }
    if out.last() == Some(&b',') {
        out.pop();
    }
    out.push(b'}');
}

/// What is within the braces of a value that is an object.
fn members_of(value: &[u8]) -> Option<&[u8]> {
    let members = value.trim_ascii().strip_prefix(b"{")?.strip_suffix(b"}")?;
    serde_json::from_slice::<IgnoredAny>(value).is_ok().then_some(members)
}
