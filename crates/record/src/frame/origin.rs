//! Encodes origins: the bytes that frames and sealed blocks store about where lines came from.
//!
//! An origin is a list of fields, each a tag, a length and a value, preceded by the length of the
//! whole; numbers are in base 128, low digits first. Tags ascend. A field whose tag or value this
//! program does not know is kept in [`Hints::unknown`]: it is written again when the origin is
//! copied, so that a newer program finds what it wrote.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use super::pieces::{Rest, put_piece, put_varint};
use super::{Format, FrameError, Hints, MessageFormat, Origin, Tenant, Transport};

/// A field of an origin that this program does not know: tag and value.
pub type UnknownField = (u64, Vec<u8>);

const TRANSPORT: u64 = 1;
const FORMAT: u64 = 2;
const SENDER: u64 = 3;
const TYPE: u64 = 16;
const TIME_FIELDS: u64 = 17;
const MSG_FIELDS: u64 = 18;
const LEVEL_FIELDS: u64 = 19;
const MESSAGE_FORMAT: u64 = 20;
const STREAM_FIELDS: u64 = 21;
const IGNORE_FIELDS: u64 = 22;
const EXTRA_FIELDS: u64 = 23;
const FILE: u64 = 24;
const FILE_ID: u64 = 25;
const SUMMARISED_THROUGH: u64 = 26;
const DECOLORIZE_FIELDS: u64 = 27;
const ZONE: u64 = 32;
const LIVE: u64 = 33;
const TENANT: u64 = 34;

impl Transport {
    fn of(number: u8) -> Option<Transport> {
        Some(match number {
            0 => Transport::Internal,
            1 => Transport::SyslogUdp,
            2 => Transport::SyslogTcp,
            3 => Transport::SyslogTls,
            4 => Transport::Http,
            5 => Transport::File,
            6 => Transport::Journald,
            7 => Transport::Fluent,
            8 => Transport::Beats,
            9 => Transport::Relp,
            12 => Transport::Statsd,
            10 => Transport::Kafka,
            _ => return None,
        })
    }
}

impl Format {
    fn of(number: u8) -> Option<Format> {
        Some(match number {
            0 => Format::Auto,
            1 => Format::Syslog,
            2 => Format::Json,
            _ => return None,
        })
    }
}

const MESSAGE_FORMATS: [MessageFormat; 5] = [
    MessageFormat::Auto,
    MessageFormat::Plain,
    MessageFormat::Json,
    MessageFormat::Access,
    MessageFormat::Logfmt,
];

/// Appends an origin as frames and sealed blocks store it; [`decode_origins`] reads it.
pub fn encode_origin(origin: &Origin, out: &mut Vec<u8>) {
    let mut fields: Vec<(u64, Vec<u8>)> = Vec::with_capacity(4);
    let hints = &*origin.hints;
    let is_known = |tag: u64| !hints.unknown.iter().any(|(unknown, _)| *unknown == tag);
    if is_known(TRANSPORT) {
        fields.push((TRANSPORT, vec![origin.transport as u8]));
    }
    if origin.format != Format::Auto {
        fields.push((FORMAT, vec![origin.format as u8]));
    }
    if let Some(sender) = origin.sender {
        let mut bytes = match sender.ip() {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        bytes.extend_from_slice(&sender.port().to_le_bytes());
        fields.push((SENDER, bytes));
    }
    if let Some(log_type) = &hints.log_type {
        fields.push((TYPE, log_type.clone().into_bytes()));
    }
    for (tag, names) in [
        (TIME_FIELDS, &hints.time_fields),
        (MSG_FIELDS, &hints.msg_fields),
        (LEVEL_FIELDS, &hints.level_fields),
        (STREAM_FIELDS, &hints.stream_fields),
        (IGNORE_FIELDS, &hints.ignore_fields),
        (DECOLORIZE_FIELDS, &hints.decolorize_fields),
    ] {
        if !names.is_empty() {
            fields.push((tag, pieces(names.iter().map(String::as_str))));
        }
    }
    if let Some(format) = hints.format {
        let number = MESSAGE_FORMATS.iter().position(|known| *known == format);
        fields.push((MESSAGE_FORMAT, vec![number.expect("all are listed") as u8]));
    }
    if !hints.extra_fields.is_empty() {
        let texts = hints.extra_fields.iter().flat_map(|(name, value)| [&**name, &**value]);
        fields.push((EXTRA_FIELDS, pieces(texts)));
    }
    if let Some(file) = &hints.file {
        fields.push((FILE, file.clone().into_bytes()));
    }
    for (tag, number) in [(FILE_ID, hints.file_id), (SUMMARISED_THROUGH, hints.summarised_through)]
    {
        if let Some(number) = number {
            let mut bytes = Vec::with_capacity(10);
            put_varint(&mut bytes, number);
            fields.push((tag, bytes));
        }
    }
    if let Some(zone) = &hints.zone {
        fields.push((ZONE, zone.clone().into_bytes()));
    }
    if hints.live {
        fields.push((LIVE, Vec::new()));
    }
    if !hints.tenant.is_default() {
        let mut bytes = Vec::with_capacity(10);
        put_varint(&mut bytes, u64::from(hints.tenant.account));
        put_varint(&mut bytes, u64::from(hints.tenant.project));
        fields.push((TENANT, bytes));
    }
    fields.extend(hints.unknown.iter().cloned());
    fields.sort_by_key(|field| field.0);
    let mut body = Vec::with_capacity(64);
    for (tag, value) in &fields {
        put_varint(&mut body, *tag);
        put_piece(&mut body, value);
    }
    put_piece(out, &body);
}

/// Decodes origins stored back to back.
///
/// Errors: the bytes are not such origins.
pub fn decode_origins(bytes: &[u8]) -> Result<Vec<Origin>, FrameError> {
    let mut rest = Rest(bytes);
    let mut origins = Vec::new();
    while !rest.0.is_empty() {
        origins.push(decode_origin(rest.piece()?)?);
    }
    Ok(origins)
}

fn decode_origin(bytes: &[u8]) -> Result<Origin, FrameError> {
    const WRONG: FrameError = FrameError::Malformed("a field of an origin");
    let mut rest = Rest(bytes);
    let mut origin = Origin::new(Transport::Other, Format::Auto, None);
    let mut hints = Hints::default();
    let mut last = 0;
    while !rest.0.is_empty() {
        let tag = rest.varint()?;
        if tag <= last {
            return Err(FrameError::Malformed("the order of an origin's fields"));
        }
        last = tag;
        let value = rest.piece()?;
        let text = || std::str::from_utf8(value).map(str::to_owned).map_err(|_| WRONG);
        let byte = || <[u8; 1]>::try_from(value).ok().map(|[byte]| byte);
        let number = || {
            let mut rest = Rest(value);
            let number = rest.varint()?;
            if rest.0.is_empty() { Ok(number) } else { Err(WRONG) }
        };
        let mut is_known = true;
        match tag {
            TRANSPORT => match byte().and_then(Transport::of) {
                Some(transport) => origin.transport = transport,
                None => is_known = false,
            },
            FORMAT => match byte().and_then(Format::of).filter(|format| *format != Format::Auto) {
                Some(format) => origin.format = format,
                None => is_known = false,
            },
            SENDER => match sender_of(value) {
                Some(sender) => origin.sender = Some(sender),
                None => is_known = false,
            },
            TYPE => hints.log_type = Some(text()?),
            TIME_FIELDS => hints.time_fields = texts(value)?,
            MSG_FIELDS => hints.msg_fields = texts(value)?,
            LEVEL_FIELDS => hints.level_fields = texts(value)?,
            MESSAGE_FORMAT => match byte().and_then(|n| MESSAGE_FORMATS.get(usize::from(n))) {
                Some(format) => hints.format = Some(*format),
                None => is_known = false,
            },
            STREAM_FIELDS => hints.stream_fields = texts(value)?,
            IGNORE_FIELDS => hints.ignore_fields = texts(value)?,
            EXTRA_FIELDS => {
                let mut texts = texts(value)?.into_iter();
                while let Some(name) = texts.next() {
                    hints.extra_fields.push((name, texts.next().ok_or(WRONG)?));
                }
            }
            FILE => hints.file = Some(text()?),
            FILE_ID => hints.file_id = Some(number()?),
            SUMMARISED_THROUGH => hints.summarised_through = Some(number()?),
            DECOLORIZE_FIELDS => hints.decolorize_fields = texts(value)?,
            ZONE => hints.zone = Some(text()?),
            LIVE if value.is_empty() => hints.live = true,
            // Lines whose tenant cannot be read must not become those of another one.
            TENANT => hints.tenant = tenant_of(value)?,
            _ => is_known = false,
        }
        if !is_known {
            hints.unknown.push((tag, value.to_vec()));
        }
    }
    let is_kept = hints.unknown.iter().any(|(tag, _)| *tag == TRANSPORT);
    if origin.transport == Transport::Other && !is_kept {
        return Err(FrameError::Malformed("an origin without its transport"));
    }
    if hints != Hints::default() {
        origin.hints = Arc::new(hints);
    }
    Ok(origin)
}

fn sender_of(bytes: &[u8]) -> Option<SocketAddr> {
    let (address, port) = bytes.split_last_chunk::<2>()?;
    let port = u16::from_le_bytes(*port);
    if let Ok(v4) = <[u8; 4]>::try_from(address) {
        return Some((Ipv4Addr::from(v4), port).into());
    }
    let v6 = <[u8; 16]>::try_from(address).ok()?;
    Some((Ipv6Addr::from(v6), port).into())
}

fn tenant_of(bytes: &[u8]) -> Result<Tenant, FrameError> {
    const WRONG: FrameError = FrameError::Malformed("the tenant of an origin");
    let mut rest = Rest(bytes);
    let mut number = || u32::try_from(rest.varint()?).map_err(|_| WRONG);
    let tenant = Tenant { account: number()?, project: number()? };
    if rest.0.is_empty() && !tenant.is_default() { Ok(tenant) } else { Err(WRONG) }
}

fn pieces<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let mut out = Vec::new();
    texts.for_each(|text| put_piece(&mut out, text.as_bytes()));
    out
}

fn texts(bytes: &[u8]) -> Result<Vec<String>, FrameError> {
    let mut rest = Rest(bytes);
    let mut texts = Vec::new();
    while !rest.0.is_empty() {
        let text = std::str::from_utf8(rest.piece()?);
        texts.push(text.map_err(|_| FrameError::Malformed("a text of an origin"))?.to_owned());
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(origins: &[Origin]) -> Vec<u8> {
        let mut out = Vec::new();
        origins.iter().for_each(|origin| encode_origin(origin, &mut out));
        out
    }

    #[test]
    fn fields_of_a_newer_program_are_kept_and_rewritten() {
        let mut body = Vec::new();
        for (tag, value) in [
            (TRANSPORT, &b"\xc8"[..]),
            (FORMAT, b"\x09"),
            (SENDER, b"socket."),
            (7, b"a new field"),
            (TYPE, b"shop"),
            (MESSAGE_FORMAT, b"\xff"),
            (1 << 40, b""),
        ] {
            put_varint(&mut body, tag);
            put_piece(&mut body, value);
        }
        let mut bytes = encoded(&[Origin::new(Transport::Http, Format::Json, None)]);
        put_piece(&mut bytes, &body);
        let origins = decode_origins(&bytes).unwrap();
        assert_eq!(origins.len(), 2);
        assert_eq!((origins[1].transport, origins[1].format), (Transport::Other, Format::Auto));
        assert_eq!(origins[1].hints.log_type.as_deref(), Some("shop"));
        assert_eq!(origins[1].hints.unknown.len(), 6);
        assert_eq!(encoded(&origins), bytes);
    }

    #[test]
    fn repeated_unordered_or_truncated_fields_are_errors() {
        let origin = encoded(&[Origin::new(Transport::Http, Format::Json, None)]);
        for end in 1..origin.len() {
            assert!(decode_origins(&origin[..end]).is_err(), "cut at {end}");
        }
        for body in [
            &b""[..],
            b"\x02\x01\x01",
            b"\x01\x01\x04\x01\x01\x04",
            b"\x02\x01\x01\x01\x01\x04",
            b"\x01\x01\x04\x00\x00",
            b"\x01\x01\x04\x10\x01\xff",
            b"\x01\x01\x04\x19\x00",
            // A tenant of one number, of three, that is the default one, and that is too large.
            b"\x01\x01\x04\x22\x01\x05",
            b"\x01\x01\x04\x22\x03\x05\x05\x05",
            b"\x01\x01\x04\x22\x02\x00\x00",
            b"\x01\x01\x04\x22\x06\xff\xff\xff\xff\x7f\x01",
        ] {
            let mut bytes = Vec::new();
            put_piece(&mut bytes, body);
            assert!(decode_origins(&bytes).is_err(), "{body:?}");
        }
    }

    fn any_origin() -> impl Strategy<Value = Origin> {
        let names = || prop::collection::vec("[a-z]{0,4}", 0..3);
        let numbers = (any::<Option<u64>>(), any::<Option<u64>>());
        let sender = prop_oneof![
            Just(None),
            any::<([u8; 4], u16)>().prop_map(|(ip, port)| Some((ip, port).into())),
            any::<([u8; 16], u16)>().prop_map(|(ip, port)| Some((ip, port).into())),
        ];
        let unknown =
            prop::collection::btree_map(35u64.., prop::collection::vec(any::<u8>(), 0..5), 0..3);
        let fields = (names(), names(), names(), names(), names(), names());
        let extra = prop::collection::vec(("[a-z]{1,3}", ".{0,3}"), 0..3);
        let zone = (any::<Option<String>>(), any::<bool>(), any::<(u32, u8)>());
        let texts = (any::<Option<String>>(), any::<Option<String>>(), extra, zone);
        (0u8..7, 0u8..3, sender, fields, texts, numbers, 0usize..6, unknown).prop_map(
            |(transport, format, sender, names, texts, numbers, message, unknown)| {
                let hints = Hints {
                    log_type: texts.0,
                    time_fields: names.0,
                    msg_fields: names.1,
                    level_fields: names.2,
                    format: MESSAGE_FORMATS.get(message).copied(),
                    stream_fields: names.3,
                    ignore_fields: names.4,
                    extra_fields: texts.2,
                    file: texts.1,
                    file_id: numbers.0,
                    summarised_through: numbers.1,
                    decolorize_fields: names.5,
                    zone: texts.3.0,
                    live: texts.3.1,
                    tenant: Tenant { account: texts.3.2.0, project: u32::from(texts.3.2.1) },
                    unknown: unknown.into_iter().collect(),
                };
                Origin {
                    transport: Transport::of(transport).unwrap(),
                    format: Format::of(format).unwrap(),
                    sender,
                    hints: Arc::new(hints),
                }
            },
        )
    }

    proptest! {
        #[test]
        fn origins_come_back(origins in prop::collection::vec(any_origin(), 0..4)) {
            prop_assert_eq!(decode_origins(&encoded(&origins)).unwrap(), origins);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(origins) = decode_origins(&bytes) {
                prop_assert_eq!(decode_origins(&encoded(&origins)).unwrap(), origins);
            }
        }
    }
}
