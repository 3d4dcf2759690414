//! The properties shared by the lines of an origin, and the parser settings in the origin's hints.

use std::net::IpAddr;

use super::level;
use super::row::{self, EXTRA_FIELDS_MAX, RowsBuilder};
use super::time::Expected;
use crate::batch::{AUDIT_TYPE, FieldId, Kept, SENT_AUDIT_TYPE, StemId};
use crate::frame::{Format, Hints, Line, MessageFormat, Origin, Transport};
use crate::zone::Zone;

/// Properties shared by the lines of an origin, determined once per batch.
#[derive(Clone)]
pub(crate) struct Common {
    pub sender: Option<IpAddr>,
    pub remote_ip: Option<Kept>,
    pub file: Option<Kept>,
    /// The tenant, unless it is the default one.
    pub tenant: Option<Kept>,
    pub extra: Vec<(FieldId, Kept)>,
    /// Whether the lines come from a sender, and not from Loginson itself.
    pub is_sent: bool,
    pub extra_left_out: bool,
    /// Whether escape sequences are removed from values. Then all fields of a row are its own.
    pub decolorizes: bool,
    pub type_name: Option<Kept>,
    pub forced: Option<RequestedParser>,
    /// Whether `find_head` looks for a syslog head.
    pub may_have_head: bool,
    /// Whether lines may have the prefix of a container runtime.
    pub may_be_container: bool,
    /// What is assumed of times without zone.
    pub expected: Expected,
    /// Stems of lines that share only their type and origin; by kind of message, with and without
    /// head.
    pub tails: [Option<StemId>; 8],
    /// The same for the rule that matched last.
    pub rule_tail: Option<(usize, StemId)>,
}

/// A parser that was requested by the name of the type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestedParser {
    Syslog,
    Message(MessageFormat),
}

impl Common {
    /// `zone` is that of times which name none, where the origin has no other.
    pub fn new(origin: &Origin, zone: Zone, rows: &mut RowsBuilder<'_>) -> Common {
        use Transport::{SyslogTcp, SyslogTls, SyslogUdp};
        let hints: &Hints = &origin.hints;
        let own_zone = hints.zone.as_deref().and_then(|zone| Zone::parse(zone).ok());
        let sender = origin.sender.map(|s| s.ip().to_canonical());
        let is_sent = origin.transport != Transport::Internal;
        let type_name = hints.log_type.as_deref().filter(|name| !name.is_empty());
        let mut extra = Vec::new();
        for (name, value) in hints.extra_fields.iter().take(EXTRA_FIELDS_MAX) {
            if name == "_type" && value.is_empty() {
                continue;
            }
            // The message may be overridden, the time may not.
            let id = match name != "_msg" && row::is_taken(name) {
                true => rows.key_id(&format!("extra.{name}")),
                false => rows.key_id(name),
            };
            let forges = is_sent && name == "_type" && value == AUDIT_TYPE;
            let value = if forges { SENT_AUDIT_TYPE } else { value };
            if let Some(id) = id {
                extra.push((id, rows.builder.keep(value.as_bytes())));
            }
        }
        let extra_left_out = extra.len() < hints.extra_fields.len();
        if let Some((id, level)) = level_of(&hints.extra_fields, rows) {
            extra.push((id, level));
        }
        let forced = match type_name {
            // The name of a type says nothing about lines that are known to be JSON.
            _ if origin.format == Format::Json => None,
            Some("syslog") => Some(RequestedParser::Syslog),
            Some("json") => Some(RequestedParser::Message(MessageFormat::Json)),
            Some("access") => Some(RequestedParser::Message(MessageFormat::Access)),
            Some("logfmt") => Some(RequestedParser::Message(MessageFormat::Logfmt)),
            Some("plain") => Some(RequestedParser::Message(MessageFormat::Plain)),
            _ => None,
        };
        let of_hints = hints.format.filter(|format| *format != MessageFormat::Auto);
        let forced = of_hints.map(RequestedParser::Message).or(forced);
        let is_plain = forced == Some(RequestedParser::Message(MessageFormat::Plain));
        Common {
            is_sent,
            extra_left_out,
            decolorizes: !hints.decolorize_fields.is_empty(),
            sender,
            remote_ip: sender.map(|ip| rows.builder.keep(ip.to_string().as_bytes())),
            file: hints.file.as_ref().map(|file| rows.builder.keep(file.as_bytes())),
            tenant: (!hints.tenant.is_default())
                .then(|| rows.builder.keep(hints.tenant.to_string().as_bytes())),
            extra,
            type_name: type_name.map(|name| rows.builder.keep(name.as_bytes())),
            forced,
            may_have_head: match forced {
                Some(RequestedParser::Syslog) => true,
                Some(RequestedParser::Message(_)) => origin.format == Format::Syslog,
                None => origin.format != Format::Json,
            },
            may_be_container: origin.format == Format::Auto && !is_plain,
            expected: Expected {
                zone: own_zone.unwrap_or(zone),
                is_sure: own_zone.is_some(),
                live: hints.live || matches!(origin.transport, SyslogUdp | SyslogTcp | SyslogTls),
            },
            tails: [None; 8],
            rule_tail: None,
        }
    }

    /// Whether the fields of the row so far allow the rest to be shared with other rows.
    pub fn may_share(&self, line: &Line<'_>, rows: &RowsBuilder<'_>) -> bool {
        let apart = |(id, _): &(FieldId, Kept)| rows.builder.get(*id).is_none();
        !rows.is_apart()
            && !rows.has_notes()
            && !line.cut
            && line.doubt.is_none()
            && !self.extra_left_out
            && !self.decolorizes
            && self.extra.iter().all(apart)
    }
}

/// The level in the extra fields, unless they set `_level` themselves.
fn level_of(extra: &[(String, String)], rows: &mut RowsBuilder<'_>) -> Option<(FieldId, Kept)> {
    let value = |wanted: &str| {
        let found = extra.iter().take(EXTRA_FIELDS_MAX).find(|(name, _)| name == wanted);
        found.map(|(_, value)| value.as_bytes()).filter(|value| !value.is_empty())
    };
    if value("_level").is_some() {
        return None;
    }
    let known = row::LEVEL_KEYS.into_iter().filter_map(value).find_map(level::from_word);
    let level = known.map(str::as_bytes).or_else(|| value("level"))?;
    let id = rows.key_id("_level")?;
    Some((id, rows.builder.keep(level)))
}
