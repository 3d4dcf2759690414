//! Parameters and headers that describe the lines of a request.

use std::sync::Arc;

use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use collector::body::{Encoding, Shape};
use record::batch::OWN_TYPES;
use record::parse::TYPE_NAME_BYTES_MAX;
use record::{Format, Hints, MessageFormat, Origin, Transport, Zone};

use crate::ingest::Request;
use crate::wire::error::{ApiError, ApiResult};

/// Limit of the parameters that describe lines. They count for each line and are stored with each
/// frame.
const HINTS_BYTES_MAX: usize = 16 << 10;
/// Limit of the fields that name a stream, each of which is looked up in each line.
const STREAM_FIELDS_MAX: usize = 64;

/// The compression of the body.
pub fn encoding(headers: &HeaderMap) -> ApiResult<Encoding> {
    let form = headers.get(CONTENT_TYPE).is_some_and(|t| t.as_bytes().starts_with(b"multipart/"));
    if form {
        return Err(ApiError::bad_request(
            "send the lines as the body itself (curl --data-binary @FILE), not as a form",
        ));
    }
    let packed = headers.get(CONTENT_TYPE).is_some_and(|t| {
        let t = t.as_bytes().to_ascii_lowercase();
        t.starts_with(b"application/msgpack") || t.starts_with(b"application/x-msgpack")
    });
    if packed {
        return Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "MessagePack is not supported; make the sender write JSON (Fluent Bit: format json_lines)",
        ));
    }
    let encoding = headers.get(CONTENT_ENCODING).map(|value| value.as_bytes().to_ascii_lowercase());
    match encoding.as_deref() {
        None | Some(b"" | b"identity") => Ok(Encoding::Plain),
        Some(b"gzip" | b"x-gzip") => Ok(Encoding::Gzip),
        Some(b"zstd") => Ok(Encoding::Zstd),
        // Exporters of OpenTelemetry's collector have the second name, too.
        Some(b"deflate" | b"zlib") => Ok(Encoding::Deflate),
        Some(b"snappy" | b"x-snappy-framed") => Ok(Encoding::Snappy),
        Some(other) => Err(ApiError::bad_request(format!(
            "Content-Encoding '{}' is not supported; use zstd, gzip, deflate, snappy or none",
            String::from_utf8_lossy(other)
        ))),
    }
}

/// Whether the body is said to be a form whose fields are those of a record. Whether it is one, its
/// bytes tell: `curl --data-binary` says the same of lines.
pub fn may_be_form(request: &Request, shape: Shape, encoding: Encoding) -> bool {
    let is_form = request.headers.get(CONTENT_TYPE).is_some_and(|value| {
        let value = value.as_bytes().to_ascii_lowercase();
        value.starts_with(b"application/x-www-form-urlencoded")
    });
    is_form
        && shape != Shape::Bulk
        && encoding == Encoding::Plain
        && request.params.get("format").is_none()
}

/// Whether lines are shown in our own log instead of kept.
pub fn debug(request: &Request) -> bool {
    option(request, "debug", "vl-debug").is_some_and(|value| value != "0")
}

/// Whether a vertical tab within a line stands for a newline of its record.
pub fn line_break(request: &Request) -> ApiResult<bool> {
    match request.params.get("line_break") {
        None | Some("") => Ok(false),
        Some("vt") => Ok(true),
        Some(other) => Err(ApiError::bad_request(format!(
            "line_break is '{other}'; it may be vt, the vertical tab (byte 0x0b)"
        ))),
    }
}

/// A parameter, from the URL or else from its header.
fn option<'a>(request: &'a Request, name: &str, header: &str) -> Option<&'a str> {
    let in_header = || request.headers.get(header).and_then(|value| value.to_str().ok());
    request.params.get(name).or_else(in_header).filter(|value| !value.is_empty())
}

/// The origin of the lines.
pub fn origin(request: &Request, shape: Shape) -> ApiResult<Origin> {
    let format = if shape == Shape::Lines { Format::Auto } else { Format::Json };
    let names = |name: &str, header: &str| -> Vec<String> {
        let list = option(request, name, header).unwrap_or_default();
        list.split(',').map(str::trim).filter(|n| !n.is_empty()).map(str::to_owned).collect()
    };
    let mut extra_fields = Vec::new();
    for pair in names("extra_fields", "vl-extra-fields") {
        let (name, value) = pair.split_once('=').ok_or_else(|| {
            ApiError::bad_request(format!(
                "extra_fields: '{pair}' is not NAME=VALUE; write for example env=prod,site=berlin"
            ))
        })?;
        check_extra_field(name)?;
        extra_fields.push((name.to_owned(), value.to_owned()));
    }
    let type_name = if format == Format::Json { "_type" } else { "type" };
    let log_type = request.params.get(type_name).map(str::to_owned);
    if let Some(name) = &log_type {
        check_type(name)?;
    }
    let file = request.params.get("file").map(str::to_owned).filter(|_| format == Format::Auto);
    // Lines of a file come from that file, not from the program that sends them.
    let (transport, sender) = match &file {
        Some(_) => (Transport::File, None),
        None => (Transport::Http, Some(request.peer)),
    };
    let hints = Hints {
        log_type,
        time_fields: names("_time_field", "vl-time-field"),
        msg_fields: names("_msg_field", "vl-msg-field"),
        level_fields: names("_level_field", "vl-level-field"),
        format: message_format(request)?,
        stream_fields: names("_stream_fields", "vl-stream-fields"),
        ignore_fields: names("ignore_fields", "vl-ignore-fields"),
        decolorize_fields: names("decolorize_fields", "vl-decolorize-fields"),
        extra_fields,
        file,
        zone: zone(request)?,
        tenant: request.tenants.written(),
        ..Hints::default()
    };
    check_bounds(&hints)?;
    Ok(Origin { hints: Arc::new(hints), ..Origin::new(transport, format, sender) })
}

/// Refuses fields that clients may not set: own fields of Loginson, with which lines could pose as
/// others or hide.
fn check_extra_field(name: &str) -> ApiResult<()> {
    if name.is_empty() || name.starts_with('_') {
        return Err(ApiError::bad_request(format!(
            "extra_fields: '{name}' cannot be set; names that begin with '_' are reserved for Loginson"
        )));
    }
    Ok(())
}

/// Checks that the description of the lines is small enough to be stored with each frame.
fn check_bounds(hints: &Hints) -> ApiResult<()> {
    let Hints {
        log_type,
        time_fields,
        msg_fields,
        level_fields,
        stream_fields,
        ignore_fields,
        decolorize_fields,
        extra_fields,
        ..
    } = hints;
    if stream_fields.len() > STREAM_FIELDS_MAX {
        return Err(ApiError::bad_request(format!(
            "_stream_fields names {} fields; the limit is {STREAM_FIELDS_MAX}",
            stream_fields.len()
        )));
    }
    let lists =
        [time_fields, msg_fields, level_fields, stream_fields, ignore_fields, decolorize_fields];
    let lists = lists.into_iter().flatten();
    let extra = extra_fields.iter().flat_map(|(name, value)| [name, value]);
    let all = lists.chain(extra).chain(log_type).chain(&hints.file);
    let bytes: usize = all.map(String::len).sum();
    if bytes > HINTS_BYTES_MAX {
        return Err(ApiError::bad_request(format!(
            "extra_fields, _stream_fields and the other parameters have {bytes} bytes; the limit is {HINTS_BYTES_MAX}, \
             because they are stored with all lines; write long values into the lines themselves"
        )));
    }
    Ok(())
}

/// The zone of times that name none, if the request gives one.
fn zone(request: &Request) -> ApiResult<Option<String>> {
    let name = request.params.get("timezone").filter(|name| !name.is_empty());
    let zone = name.map(Zone::parse).transpose();
    let zone = zone.map_err(|error| ApiError::bad_request(format!("timezone: {error}")))?;
    Ok(zone.map(|zone| zone.to_string()))
}

/// The format of raw lines, if the request names one.
fn message_format(request: &Request) -> ApiResult<Option<MessageFormat>> {
    let name = request.params.get("format");
    let format = name.map(node::ingest::format::message_format).transpose();
    format.map_err(|error| ApiError::bad_request(format!("format: {error}")))
}

/// Checks that a name can be a type; the rules of the configuration accept the same names.
fn check_type(name: &str) -> ApiResult<()> {
    let known = |c: u8| c.is_ascii_alphanumeric() || b"._-".contains(&c);
    if name.len() > TYPE_NAME_BYTES_MAX || !name.bytes().all(known) || OWN_TYPES.contains(&name) {
        return Err(ApiError::bad_request(format!(
            "'{name}' is not a valid type; use 1 to {TYPE_NAME_BYTES_MAX} letters, digits, '.', '_' or '-' \
             (but not '{}', which Loginson uses itself)",
            OWN_TYPES.join("' and '")
        )));
    }
    Ok(())
}
