//! Recognises senders of other protocols by their first bytes, so that a source can refuse them
//! with a remedy.
//!
//! Only data that cannot be a log line is recognised: a signature is longer than two bytes, or is
//! not text. Everything else is treated as text, including random bytes; no line is refused for its
//! content.
//!
//! Invariant: once the answer for a stream is not [`Recognised::TooShort`], more bytes do not
//! change it, so it does not depend on how the stream was split into reads. Left out: understanding
//! any of these protocols.

/// A protocol that is not syslog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// A ClientHello of TLS, or of DTLS in a datagram.
    Tls,
    /// A request line of HTTP/1, or the preface of HTTP/2.
    Http,
    /// A zlib stream or message: rsyslog with `compression.mode`, GELF over UDP.
    Zlib,
    /// A gzip stream or message.
    Gzip,
    /// A zstd stream.
    Zstd,
    /// RELP, the protocol of rsyslog's omrelp.
    Relp,
    /// The forward protocol of Fluentd and Fluent Bit (MessagePack).
    FluentForward,
    /// The protocol of Beats and Logstash (Lumberjack).
    Beats,
    /// A wrong part of a chunked message of GELF over UDP.
    GelfChunk,
    /// An SSH client.
    Ssh,
    /// A collector of Loginson.
    Collector,
    /// A client of an MQTT broker.
    Mqtt,
    /// A client of an AMQP broker (RabbitMQ).
    Amqp,
    /// A client of Kafka.
    Kafka,
    /// A client of PostgreSQL.
    Postgres,
    /// A client of Redis.
    Redis,
    /// A trap of SNMP.
    Snmp,
    /// Flows of NetFlow or IPFIX.
    NetFlow,
}

impl Foreign {
    /// The protocol's name.
    pub fn name(self) -> &'static str {
        match self {
            Foreign::Tls => "TLS",
            Foreign::Http => "HTTP",
            Foreign::Zlib => "compressed data (zlib)",
            Foreign::Gzip => "compressed data (gzip)",
            Foreign::Zstd => "compressed data (zstd)",
            Foreign::Relp => "RELP",
            Foreign::FluentForward => "Fluent forward (MessagePack)",
            Foreign::Beats => "the Beats protocol (Lumberjack)",
            Foreign::GelfChunk => "chunked GELF",
            Foreign::Ssh => "SSH",
            Foreign::Collector => "the node protocol of loginson collect",
            Foreign::Mqtt => "MQTT",
            Foreign::Amqp => "AMQP",
            Foreign::Kafka => "the protocol of Kafka",
            Foreign::Postgres => "the protocol of PostgreSQL",
            Foreign::Redis => "the protocol of Redis",
            Foreign::Snmp => "SNMP",
            Foreign::NetFlow => "NetFlow",
        }
    }

    /// How to make such a sender's lines arrive.
    pub fn remedy(self) -> &'static str {
        match self {
            Foreign::Tls => "send to syslog_tls_listen, or turn TLS off at the sender",
            Foreign::Http => "send to http_listen (port 9514), see docs/api.md",
            Foreign::Zlib | Foreign::Gzip | Foreign::Zstd => {
                "turn compression off at the sender (rsyslog: compression.mode=\"none\"; GELF: \
                 compress off)"
            }
            Foreign::Relp => {
                "send to the port of relp_listen, or use syslog over TCP (rsyslog: type=\"omfwd\" \
                 protocol=\"tcp\" instead of omrelp)"
            }
            Foreign::FluentForward => {
                "send to the port of fluent_listen, or use the output http with format json_lines \
                 instead of forward"
            }
            Foreign::Beats => {
                "send to the port of beats_listen, or use the output elasticsearch with \
                 http_listen (port 9514) instead of logstash"
            }
            Foreign::GelfChunk => "it has a wrong number of chunks; use GELF over TCP",
            Foreign::Ssh => "it does not send logs",
            Foreign::Collector => "name the address of node_listen (port 9515)",
            Foreign::Mqtt | Foreign::Amqp | Foreign::Kafka => {
                "Loginson is no broker; let a shipper (Fluent Bit, Vector) read the topic and send it"
            }
            Foreign::Postgres | Foreign::Redis => "it does not send logs",
            Foreign::Snmp => "let snmptrapd write traps to syslog",
            Foreign::NetFlow => "let a collector of flows (nfacctd) write them as lines of JSON",
        }
    }
}

impl Recognised {
    /// This result, or else that of another look if this one is text.
    fn or_else(self, other: impl FnOnce() -> Recognised) -> Recognised {
        if self == Recognised::Text { other() } else { self }
    }
}

/// The result for the first bytes of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recognised {
    /// Another protocol.
    Foreign(Foreign),
    /// Not a known protocol: lines.
    Text,
    /// More bytes are needed.
    TooShort,
}

/// Methods of HTTP, each followed by a space.
const METHODS: [&[u8]; 9] = [
    b"GET ",
    b"POST ",
    b"PUT ",
    b"HEAD ",
    b"OPTIONS ",
    b"DELETE ",
    b"PATCH ",
    b"CONNECT ",
    b"PRI * HTTP/2.0\r\n",
];

/// Examines the first bytes of a connection.
pub fn recognise(bytes: &[u8]) -> Recognised {
    use Recognised::*;
    let Some(&first) = bytes.first() else { return TooShort };
    match first {
        b'<' | b'{' => Text,
        0x16 => signature(bytes, &[0x16, 3], |rest| match rest.first() {
            None => TooShort,
            Some(0..=4) => Foreign(self::Foreign::Tls),
            Some(_) => Text,
        }),
        b'x' => zlib(bytes),
        // One compressed message of rsyslog.
        b'z' => zlib(&bytes[1..]),
        0x1f => signature(bytes, &[0x1f, 0x8b, 8], |_| Foreign(self::Foreign::Gzip)),
        0x28 => signature(bytes, &[0x28, 0xb5, 0x2f, 0xfd], |_| Foreign(self::Foreign::Zstd)),
        0x92..=0x94 => match bytes.get(1) {
            None => TooShort,
            // The tag is a string.
            Some(0xa0..=0xbf | 0xd9..=0xdb) => Foreign(self::Foreign::FluentForward),
            Some(_) => Text,
        },
        b'1' => match bytes.get(1) {
            None => TooShort,
            Some(b'W') => signature(bytes, b"1W\0", |_| Foreign(self::Foreign::Beats)),
            Some(_) => relp(bytes),
        },
        b'2' => signature(bytes, b"2W\0", |_| Foreign(self::Foreign::Beats)),
        b'S' => signature(bytes, b"SSH-2.0-", |_| Foreign(self::Foreign::Ssh)),
        b'L' => match bytes.get(4) {
            // The version, as two bytes.
            Some(1..=9) => signature(bytes, b"LGNH", |_| Foreign(self::Foreign::Collector)),
            Some(_) => Text,
            None => signature(bytes, b"LGNH", |_| TooShort),
        },
        // The fixed header, its length, and the name of the protocol behind its own length.
        0x10 => mqtt(bytes),
        b'A' => signature(bytes, b"AMQP", |rest| match rest.first() {
            None => TooShort,
            Some(0..=3) => Foreign(self::Foreign::Amqp),
            Some(_) => Text,
        }),
        b'*' => redis(bytes),
        0 => by_length(bytes),
        b'B'..=b'Z' => http(bytes),
        _ => Text,
    }
}

/// Examines a datagram, which is complete.
pub fn recognise_datagram(bytes: &[u8]) -> Option<Foreign> {
    match bytes {
        [0x1e, 0x0f, _, ..] => Some(Foreign::GelfChunk),
        [0x16, 0xfe, 0xfd | 0xff, ..] => Some(Foreign::Tls),
        // A sequence with the version of SNMP: 1, 2c or 3.
        [0x30, 0..=0x7f, 2, 1, 0 | 1 | 3, ..]
        | [0x30, 0x81, _, 2, 1, 0 | 1 | 3, ..]
        | [0x30, 0x82, _, _, 2, 1, 0 | 1 | 3, ..] => Some(Foreign::Snmp),
        // The version, and a count of flows or a length.
        [0, 5 | 9 | 10, _, _, _, ..] => Some(Foreign::NetFlow),
        [b'x', ..] | [b'z', b'x', ..] | [0x1f, ..] => match recognise(bytes) {
            Recognised::Foreign(foreign) => Some(foreign),
            _ => None,
        },
        _ => None,
    }
}

/// If the bytes begin with a signature, the result of `then` for the bytes behind it.
fn signature(bytes: &[u8], signature: &[u8], then: impl Fn(&[u8]) -> Recognised) -> Recognised {
    match bytes.strip_prefix(signature) {
        Some(rest) => then(rest),
        None if signature.starts_with(bytes) => Recognised::TooShort,
        None => Recognised::Text,
    }
}

/// A zlib header (RFC 1950) with a window of 32 KiB. One of its four forms is text, `x^`: then the
/// block behind it must not be text.
fn zlib(bytes: &[u8]) -> Recognised {
    let zlib = Recognised::Foreign(Foreign::Zlib);
    match bytes {
        [] | [b'x'] => Recognised::TooShort,
        [b'x', 0x9c | 0xda, ..] => zlib,
        [b'x', 1 | b'^'] => Recognised::TooShort,
        [b'x', 1 | b'^', block, ..] => match block {
            b' '..=b'~' | b'\t' | b'\r' | b'\n' => Recognised::Text,
            _ => zlib,
        },
        _ => Recognised::Text,
    }
}

/// `1 open LENGTH`, the start of every RELP session.
fn relp(bytes: &[u8]) -> Recognised {
    signature(bytes, b"1 open ", |rest| {
        let digits = rest.iter().take(10).take_while(|byte| byte.is_ascii_digit()).count();
        match rest.get(digits) {
            None => Recognised::TooShort,
            // With an offer, or without.
            Some(b' ') => signature(&rest[digits..], b" relp_version=", |_| {
                Recognised::Foreign(Foreign::Relp)
            }),
            Some(b'\n') if &rest[..digits] == b"0" => Recognised::Foreign(Foreign::Relp),
            Some(_) => Recognised::Text,
        }
    })
}

/// CONNECT of MQTT 3.1, 3.1.1 or 5.
fn mqtt(bytes: &[u8]) -> Recognised {
    // The length has up to four bytes, each but the last with its highest bit set.
    let lengths = bytes[1..].iter().take(4).take_while(|byte| **byte & 0x80 != 0).count();
    match bytes.get(lengths + 2..) {
        _ if lengths > 3 => Recognised::Text,
        None => Recognised::TooShort,
        Some(rest) => signature(rest, b"\0\x04MQTT", |_| Recognised::Foreign(Foreign::Mqtt))
            .or_else(|| signature(rest, b"\0\x06MQIsdp", |_| Recognised::Foreign(Foreign::Mqtt))),
    }
}

/// A command of Redis: the number of its words, and the length of the first one.
fn redis(bytes: &[u8]) -> Recognised {
    match bytes.get(1) {
        None => Recognised::TooShort,
        Some(b'1'..=b'9') => {
            signature(&bytes[2..], b"\r\n$", |_| Recognised::Foreign(Foreign::Redis))
        }
        Some(_) => Recognised::Text,
    }
}

/// What begins with its length in four bytes: the first request of a client of PostgreSQL or Kafka.
fn by_length(bytes: &[u8]) -> Recognised {
    let Some(first) = bytes.first_chunk::<8>() else {
        let may_be = bytes.iter().zip([0..=0u8, 0..=0x10]).all(|(byte, may)| may.contains(byte));
        return if may_be { Recognised::TooShort } else { Recognised::Text };
    };
    match first {
        // SSLRequest, GSSENCRequest, and version 3.
        [0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f | 0x30] | [0, 0, _, _, 0, 3, 0, 0..=2] => {
            Recognised::Foreign(Foreign::Postgres)
        }
        // Metadata, SaslHandshake and ApiVersions, with their version.
        [0, 0..=0x10, _, _, 0, 3 | 17 | 18, 0, 0..=20] => Recognised::Foreign(Foreign::Kafka),
        _ => Recognised::Text,
    }
}

/// A whole request line: `METHOD TARGET HTTP/1.x`. Anything less may be a log line.
fn http(bytes: &[u8]) -> Recognised {
    let may_be = |method: &&[u8]| method.starts_with(bytes) || bytes.starts_with(method);
    let Some(method) = METHODS.into_iter().find(may_be) else { return Recognised::Text };
    if bytes.len() < method.len() {
        return Recognised::TooShort;
    }
    if method.ends_with(b"\n") {
        return Recognised::Foreign(Foreign::Http);
    }
    let Some(end) = memchr::memchr2(b'\n', 0, bytes) else { return Recognised::TooShort };
    let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
    match line.strip_suffix(b" HTTP/1.1").or(line.strip_suffix(b" HTTP/1.0")) {
        Some(request) if !request[method.len()..].contains(&b' ') => {
            Recognised::Foreign(Foreign::Http)
        }
        _ => Recognised::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the result for the whole is that of the shortest start that has one.
    fn check(bytes: &[u8], expected: Recognised) {
        for end in 0..=bytes.len() {
            let found = recognise(&bytes[..end]);
            assert!(
                found == expected || found == Recognised::TooShort,
                "{found:?} for {:?}",
                bytes[..end].escape_ascii().to_string()
            );
        }
        assert_eq!(recognise(bytes), expected, "{}", bytes.escape_ascii());
    }

    #[test]
    fn other_protocols_are_recognised() {
        use super::Foreign::*;
        for (bytes, expected) in [
            (&b"\x16\x03\x01\x02\x00\x01\x00"[..], Tls),
            (b"\x16\x03\x03\x00\xf1\x01", Tls),
            (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", Http),
            (b"POST /insert/jsonline?_msg=a HTTP/1.0\n", Http),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Http),
            (b"x\x9c\xb3\xb1\x34\x36", Zlib),
            (b"x\x01\x00\x05", Zlib),
            (b"x\xda\x4b", Zlib),
            (b"x\x5e\xb3\xc9", Zlib),
            (b"zx\x9c\xb3\xb1\n", Zlib),
            (b"\x1f\x8b\x08\0\0\0\0\0", Gzip),
            (b"\x28\xb5\x2f\xfd\x04", Zstd),
            (b"1 open 92 relp_version=0\nrelp_software=librelp", Relp),
            (b"1 open 0\n", Relp),
            (b"\x93\xaaapp.follow\xce\x65", FluentForward),
            (b"\x92\xd9\x20", FluentForward),
            (b"2W\0\0\0\x012J", Beats),
            (b"SSH-2.0-OpenSSH_9.2\r\n", Ssh),
            (b"LGNH\x02\0", Collector),
            (b"\x10\x10\0\x04MQTT\x04\x02", Mqtt),
            (b"\x10\xf0\x01\0\x06MQIsdp\x03", Mqtt),
            (b"AMQP\0\0\x09\x01", Amqp),
            (b"AMQP\x03\x01\0\0", Amqp),
            (b"\0\0\0\x1c\0\x12\0\x03\0\0\0\x01", Kafka),
            (b"\0\0\0\x08\x04\xd2\x16\x2f", Postgres),
            (b"\0\0\0\x29\0\x03\0\0user", Postgres),
            (b"*1\r\n$4\r\nPING\r\n", Redis),
        ] {
            check(bytes, Recognised::Foreign(expected));
            assert!(!expected.name().is_empty() && !expected.remedy().is_empty());
        }
    }

    #[test]
    fn lines_are_not_taken_for_another_protocol() {
        for bytes in [
            &b"<13>1 2026-01-31T12:00:00Z host app - - - hello\n"[..],
            b"17 <13>1 - - - - - x",
            b"1 <13>",
            b"1 open file\n",
            b"1 open 17 files\n",
            b"1 open 12\n",
            b"2Word\n",
            b"GET /index.html\n",
            b"GET /a b HTTP/1.1\n",
            b"GET / HTTP/1.1 200 17\n",
            b"GETTING started\n",
            b"POSTED\n",
            b"SSH login of root\n",
            b"Oct 11 22:14:15 host app: hello\n",
            b"x\n",
            b"x^2 + 1\n",
            b"zoo\n",
            b"{\"short_message\":\"a\"}\0",
            b"\x93a\n",
            b"\x16\x02\n",
            b"(a)\n",
            b"LGNH is a word\n",
            b"PRI * HTTP\n",
            b"AMQP is a protocol\n",
            b"AM\n",
            b"*2 items\n",
            b"* a\n",
            b"\x10\x10\0\x04text",
            b"\x10\xff\xff\xff\xff\0\x04MQTT",
            b"\0<13>a\0",
            b"\0\0\0\0\0\0\0\0",
        ] {
            check(bytes, Recognised::Text);
        }
        assert_eq!(recognise(b""), Recognised::TooShort);
    }

    #[test]
    fn datagrams_that_are_not_text() {
        let check = |bytes: &[u8], expected| assert_eq!(recognise_datagram(bytes), expected);
        check(b"x\x9c\xb3\xb1", Some(Foreign::Zlib));
        check(b"zx\x9c\xb3\xb1", Some(Foreign::Zlib));
        check(b"\x1f\x8b\x08\0", Some(Foreign::Gzip));
        check(b"\x1e\x0f12345678\0\x02", Some(Foreign::GelfChunk));
        check(b"\x16\xfe\xfd\0", Some(Foreign::Tls));
        check(b"\x30\x2c\x02\x01\x01\x04\x06public", Some(Foreign::Snmp));
        check(b"\x30\x82\x01\x0c\x02\x01\x03", Some(Foreign::Snmp));
        check(b"\0\x05\0\x01\0\0", Some(Foreign::NetFlow));
        check(b"\0\x0a\0\x40\0", Some(Foreign::NetFlow));
        check(b"0, a\x02\x01", None);
        check(b"<13>Oct 11 22:14:15 host app: hello\0", None);
        check(b"x", None);
        check(b"GET / HTTP/1.1\r\n\r\n", None);
    }
}
