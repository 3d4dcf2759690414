//! The protocols of clients: where a request and an answer end, and of which kind a request is.
//!
//! Only what clients of the lab's drivers send is understood. TLS, compression of whole streams and
//! passwords with a challenge are left out: a sink cannot repeat them.

use std::collections::HashMap;
use std::io::Error;
use std::net::SocketAddr;

/// The protocol between the client of a store and its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// HTTP/1.1 (RFC 9112).
    Http,
    /// The serialization protocol of Redis (RESP 2 and 3).
    Redis,
    /// Version 3 of the protocol of PostgreSQL: "Frontend/Backend Protocol" of its manual.
    Postgres,
    /// Versions 3 and 4 of the native protocol of Cassandra: `native_protocol_v4.spec` of its
    /// source.
    Cassandra,
    /// The protocol of Kafka, with `Produce` from version 9 on: "Kafka protocol guide" of its
    /// manual. Other requests may have any version.
    Kafka,
    /// Lines over TCP without any answer, as syslog sends them.
    Lines,
    /// A line of JSON for a request, and one for its answer: the pipe to a program that knows the
    /// store (`stores/own/protocol.rs`), and that of the store `files`.
    Json,
}

/// The kind of a request: requests of one kind have answers of one form.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// What is asked.
    head: Vec<u8>,
    /// The form of how it is asked, where texts have one; requests are similar without it.
    form: Vec<u8>,
}

impl Key {
    fn of(head: &[u8]) -> Key {
        Key { head: head.to_vec(), form: Vec::new() }
    }

    /// The kind of all requests with the same head; `None` if that is this one.
    pub(super) fn similar(&self) -> Option<Key> {
        (!self.form.is_empty()).then(|| Key::of(&self.head))
    }
}

/// A whole request at the beginning of a stream.
pub(super) struct Request {
    /// Its length.
    pub bytes: usize,
    /// Its kind; `None` for a request without an answer.
    pub key: Option<Key>,
    /// Its number, with which the answer comes back, in protocols that answer in any order.
    pub number: Option<u32>,
}

/// The state of one connection.
pub(super) struct Talk {
    wire: Wire,
    /// Whether the first message of PostgreSQL was read: it alone has no type.
    begun: bool,
    /// The texts of prepared statements of PostgreSQL, by the names that this connection gave them.
    statements: HashMap<Vec<u8>, Vec<u8>>,
}

/// Bytes of the body of a request of HTTP that make its form.
const FORM_BYTES: usize = 256;

/// The type of pushed messages of Cassandra, which answer no request.
const PUSHED: [u8; 2] = [0xFF, 0xFF];

/// The numbers of two requests of Kafka: records to write, and the addresses of brokers.
const PRODUCE: &[u8] = &[0, 0];
const METADATA: &[u8] = &[0, 3];

fn malformed(what: &str) -> Error {
    Error::other(format!("this is not what the protocol has: {what}"))
}

impl Talk {
    pub(super) fn new(wire: Wire) -> Talk {
        Talk { wire, begun: false, statements: HashMap::new() }
    }

    /// The first request in `bytes`; `None` until it is whole.
    pub(super) fn request(&mut self, bytes: &[u8]) -> Result<Option<Request>, Error> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let in_order = |bytes, key| Request { bytes, key, number: None };
        match self.wire {
            Wire::Lines => Ok(Some(in_order(bytes.len(), None))),
            Wire::Json => {
                Ok(line(bytes).map(|length| in_order(length, Some(json_key(&bytes[..length])))))
            }
            Wire::Redis => {
                let Some(length) = resp(bytes)? else { return Ok(None) };
                // `*3\r\n$4\r\nHGET\r\n…`: the third line is the command.
                let command = bytes[..length].split(|byte| *byte == b'\n').nth(2);
                let command = command.unwrap_or_default().trim_ascii_end().to_ascii_uppercase();
                Ok(Some(in_order(length, Some(Key::of(&command)))))
            }
            Wire::Http => Ok(http(bytes, Kind::Request)?
                .map(|length| in_order(length, Some(http_key(&bytes[..length]))))),
            Wire::Cassandra => {
                let Some(frame) = Frame::of(bytes)? else { return Ok(None) };
                let head = match frame.opcode {
                    // A prepared statement with its values: the identifier alone.
                    0x0A => frame.body.get(..2 + short(frame.body)?),
                    // The options of a new connection come in any order.
                    0x01 | 0x0D => Some(&[][..]),
                    _ => Some(frame.body),
                };
                let head = head.ok_or_else(|| malformed("a statement without an identifier"))?;
                let key = Key::of(&[&[frame.opcode], head].concat());
                Ok(Some(Request { bytes: frame.bytes, key: Some(key), number: Some(frame.number) }))
            }
            Wire::Kafka => {
                let Some((length, message)) = sized(bytes) else { return Ok(None) };
                let key = kafka_key(message).ok_or_else(|| malformed("a request of Kafka"))?;
                let number = Some(number_of_kafka(&message[4..])?);
                Ok(Some(Request { bytes: length, key: Some(key), number }))
            }
            Wire::Postgres => self.postgres(bytes),
        }
    }

    /// A request of PostgreSQL: messages up to the one that asks for the answers to all of them.
    fn postgres(&mut self, bytes: &[u8]) -> Result<Option<Request>, Error> {
        let request = |bytes, key| Ok(Some(Request { bytes, key, number: None }));
        if !self.begun {
            let Some(length) = bytes.first_chunk().map(|length| u32::from_be_bytes(*length)) else {
                return Ok(None);
            };
            let length = length as usize;
            if bytes.len() < length {
                return Ok(None);
            }
            self.begun = true;
            return request(length, Some(Key::of(b"startup")));
        }
        let (mut at, mut head) = (0, Vec::new());
        while let Some((kind, body)) = message(&bytes[at..])? {
            at += 5 + body.len();
            head.push(kind);
            let mut texts = body.split(|byte| *byte == 0);
            let mut text = || texts.next().unwrap_or_default();
            match kind {
                b'P' => {
                    let (name, text) = (text().to_vec(), text().to_vec());
                    head.extend_from_slice(&text);
                    self.statements.insert(name, text);
                }
                b'B' => {
                    let (_portal, name) = (text(), text());
                    head.extend_from_slice(self.statements.get(name).map_or(name, Vec::as_slice));
                }
                b'D' if body.first() == Some(&b'S') => {
                    let name = &text()[1..];
                    head.extend_from_slice(self.statements.get(name).map_or(name, Vec::as_slice));
                }
                b'C' if body.first() == Some(&b'S') => drop(self.statements.remove(&text()[1..])),
                b'Q' => {
                    head.extend_from_slice(text());
                    return request(at, Some(Key::of(&head)));
                }
                b'S' | b'p' => return request(at, Some(Key::of(&head))),
                b'X' => return request(at, None),
                _ => {}
            }
        }
        Ok(None)
    }
}

/// The length of an answer, and the number of its request where the protocol has one.
type FirstAnswer = (usize, Option<u32>);

impl Wire {
    /// The first answer in `bytes`; `None` until it is whole.
    pub(super) fn answer(self, bytes: &[u8]) -> Result<Option<FirstAnswer>, Error> {
        if bytes.is_empty() {
            return Ok(None);
        }
        Ok(match self {
            Wire::Lines => Some((bytes.len(), None)),
            Wire::Json => line(bytes).map(|length| (length, None)),
            Wire::Redis => resp(bytes)?.map(|length| (length, None)),
            Wire::Http => http(bytes, Kind::Response)?.map(|length| (length, None)),
            Wire::Cassandra => Frame::of(bytes)?.map(|frame| (frame.bytes, Some(frame.number))),
            Wire::Kafka => match sized(bytes) {
                Some((length, message)) => Some((length, Some(number_of_kafka(message)?))),
                None => None,
            },
            Wire::Postgres => {
                let mut at = 0;
                loop {
                    let Some((kind, body)) = message(&bytes[at..])? else { return Ok(None) };
                    at += 5 + body.len();
                    // Ready for the next request, or for the password that it asks for.
                    if kind == b'Z' || (kind == b'R' && !matches!(body, [0, 0, 0, 0 | 12, ..])) {
                        return Ok(Some((at, None)));
                    }
                }
            }
        })
    }

    /// Gives an answer the number of its request, unless it answers none.
    pub(super) fn set_number(self, answer: &mut [u8], number: u32) {
        let bytes = number.to_be_bytes();
        let (place, number) = match self {
            Wire::Kafka => (4..8, &bytes[..]),
            _ => (2..4, &bytes[2..]),
        };
        if let Some(place) = answer.get_mut(place).filter(|place| *place != PUSHED) {
            place.copy_from_slice(number);
        }
    }

    /// Puts the addresses of a sink in the place of those of the store, where an answer names them
    /// and the client would go there. `places` has those of the store and those of the sink, on the
    /// same hosts.
    pub(super) fn lead_here(
        self,
        key: &Key,
        answer: &mut [u8],
        places: &[(String, SocketAddr)],
    ) -> Result<(), Error> {
        if self != Wire::Kafka || !key.head.starts_with(METADATA) {
            return Ok(());
        }
        let mut is_here = false;
        for (upstream, own) in places {
            let Some((host, port)) = upstream.rsplit_once(':') else { continue };
            let port: u32 = port.parse().map_err(|_| malformed("a port that is no number"))?;
            // A host is followed by its port.
            let theirs = [host.as_bytes(), &port.to_be_bytes()].concat();
            let ends: Vec<usize> = (theirs.len()..=answer.len())
                .filter(|end| answer[..*end].ends_with(&theirs))
                .collect();
            for end in ends {
                answer[end - 4..end].copy_from_slice(&u32::from(own.port()).to_be_bytes());
                is_here = true;
            }
        }
        // The client would go on with the store, and nobody would see it.
        is_here.then_some(()).ok_or_else(|| malformed("brokers at other addresses"))
    }
}

/// A frame of Cassandra.
struct Frame<'a> {
    bytes: usize,
    number: u32,
    opcode: u8,
    body: &'a [u8],
}

impl Frame<'_> {
    fn of(bytes: &[u8]) -> Result<Option<Frame<'_>>, Error> {
        let Some([version, _, n1, n2, opcode, length @ ..]) = bytes.first_chunk::<9>() else {
            return Ok(None);
        };
        if !matches!(version & 0x7F, 3 | 4) {
            return Err(malformed("a frame of another version"));
        }
        let end = 9 + u32::from_be_bytes(*length) as usize;
        let number = u16::from_be_bytes([*n1, *n2]).into();
        let frame = |body| Frame { bytes: end, number, opcode: *opcode, body };
        Ok(bytes.get(9..end).map(frame))
    }
}

fn short(bytes: &[u8]) -> Result<usize, Error> {
    let short = bytes.first_chunk().ok_or_else(|| malformed("a body without a length"))?;
    Ok(u16::from_be_bytes(*short).into())
}

/// The length of the first message of Kafka, and what stands behind its size.
fn sized(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let end = 4 + u32::from_be_bytes(*bytes.first_chunk()?) as usize;
    Some((end, bytes.get(4..end)?))
}

/// The number of a request of Kafka, or of its answer.
fn number_of_kafka(bytes: &[u8]) -> Result<u32, Error> {
    let number = bytes.first_chunk().ok_or_else(|| malformed("a message without a number"))?;
    Ok(u32::from_be_bytes(*number))
}

/// The head is the kind of the request with its version, and of records also their place: the topic
/// and the partition, which the answer repeats. The form is the rest.
fn kafka_key(request: &[u8]) -> Option<Key> {
    let (head, rest) = (request.get(..4)?, request.get(8..)?);
    if !head.starts_with(PRODUCE) {
        return Some(Key { head: head.to_vec(), form: rest.to_vec() });
    }
    let version = u16::from_be_bytes([head[2], head[3]]);
    // Short texts and lists have their size plus one in a byte.
    let text = |at: usize| Some(at + 1 + usize::from(*rest.get(at)?).saturating_sub(1));
    // The name of the client and no further fields, the transaction, two bytes and four that say
    // when and for how long, the number of topics.
    let topic = text(2 + short(rest).ok()? + 1)? + 2 + 4 + 1;
    let partition = if version < 13 { text(topic)? } else { topic + 16 } + 1;
    let place = rest.get(..partition + 4).filter(|_| version >= 9)?;
    Some(Key::of(&[head, place].concat()))
}

/// The type and the body of the first message of PostgreSQL.
fn message(bytes: &[u8]) -> Result<Option<(u8, &[u8])>, Error> {
    let Some([kind, length @ ..]) = bytes.first_chunk::<5>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length) as usize;
    if length < 4 {
        return Err(malformed("a message shorter than its length"));
    }
    Ok(bytes.get(5..1 + length).map(|body| (*kind, body)))
}

/// The length of the first value of RESP.
fn resp(bytes: &[u8]) -> Result<Option<usize>, Error> {
    // Values that are still to come: those of nested arrays are counted with their parents.
    let (mut at, mut left) = (0, 1_usize);
    while left > 0 {
        let Some(end) = bytes[at..].iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        let line = &bytes[at..at + end];
        at += end + 1;
        left -= 1;
        let number = || {
            let text = std::str::from_utf8(line.get(1..).unwrap_or_default()).ok();
            let number = text.and_then(|text| text.trim_end().parse::<i64>().ok());
            number.ok_or_else(|| malformed("a length that is no number"))
        };
        match line.first() {
            // -1 is none.
            Some(b'$' | b'!' | b'=') => {
                at += usize::try_from(number()?).map_or(0, |length| length + 2);
            }
            Some(b'*' | b'~' | b'>') => left += usize::try_from(number()?).unwrap_or(0),
            Some(b'%') => left += 2 * usize::try_from(number()?).unwrap_or(0),
            Some(b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(') => {}
            _ => return Err(malformed("a value of an unknown type")),
        }
        if at > bytes.len() {
            return Ok(None);
        }
    }
    Ok(Some(at))
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Request,
    Response,
}

/// The length of the first message of HTTP.
fn http(bytes: &[u8], kind: Kind) -> Result<Option<usize>, Error> {
    let Some(head) = bytes.windows(4).position(|end| end == b"\r\n\r\n") else { return Ok(None) };
    let mut length = 0;
    let mut chunked = false;
    for line in bytes[..head].split(|byte| *byte == b'\n').skip(1) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let value = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
            length = value.ok_or_else(|| malformed("a length that is no number"))?;
        }
        chunked |= name.eq_ignore_ascii_case(b"transfer-encoding")
            && value.to_ascii_lowercase().ends_with(b"chunked");
    }
    // 204 and 304 have no body, whatever they say of its length.
    let status = bytes.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    if kind == Kind::Response && matches!(status, b"204" | b"304") {
        return Ok(Some(head + 4));
    }
    if !chunked {
        let end = head + 4 + length;
        return Ok((bytes.len() >= end).then_some(end));
    }
    let mut at = head + 4;
    loop {
        let Some(end) = bytes[at..].windows(2).position(|end| end == b"\r\n") else {
            return Ok(None);
        };
        let size = bytes[at..at + end].split(|byte| *byte == b';').next().unwrap_or_default();
        let size = std::str::from_utf8(size).ok();
        let size = size.and_then(|size| usize::from_str_radix(size.trim(), 16).ok());
        let size = size.ok_or_else(|| malformed("a chunk without a size"))?;
        at += end + 2 + size + 2;
        if at > bytes.len() {
            return Ok(None);
        }
        if size == 0 {
            return Ok(Some(at));
        }
    }
}

/// The method and the path are the head; the form is that of the query and of the body's beginning:
/// their punctuation and their words, without digits.
fn http_key(request: &[u8]) -> Key {
    // `METHOD TARGET VERSION`
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let version = line.iter().rposition(|byte| *byte == b' ').unwrap_or(line.len());
    let line = &line[..version];
    let end = line.iter().position(|byte| *byte == b'?').unwrap_or(line.len());
    let body = request.windows(4).position(|end| end == b"\r\n\r\n").map_or(0, |head| head + 4);
    let body = &request[body..];
    let form = line[end..].iter().chain(&body[..body.len().min(FORM_BYTES)]);
    let form = form.filter(|byte| !byte.is_ascii_digit()).copied().collect();
    let head = line[..end].iter().filter(|byte| !byte.is_ascii_digit()).copied().collect();
    Key { head, form }
}

/// The length of the first line.
fn line(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n').map(|end| end + 1)
}

/// The head is the name of the request, which stands first, with what a search wants, which stands
/// last and decides which answer fits. The form is the beginning of the line without digits.
fn json_key(line: &[u8]) -> Key {
    let name = line.splitn(3, |byte| *byte == b',' || *byte == b'}').next().unwrap_or_default();
    let wants = line.windows(8).rposition(|part| part == b",\"want\":" || part == b"\"print\":");
    let want = wants.map_or(&[][..], |at| &line[at..]);
    let plain = |text: &[u8]| -> Vec<u8> {
        text.iter().take(FORM_BYTES).filter(|byte| !byte.is_ascii_digit()).copied().collect()
    };
    Key { head: [name, &plain(want)].concat(), form: plain(line) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kinds of the requests of a connection, which is cut at every place.
    #[track_caller]
    fn kinds(wire: Wire, stream: &[u8]) -> Vec<Option<Key>> {
        let all = |talk: &mut Talk, stream: &[u8]| {
            let (mut at, mut kinds) = (0, Vec::new());
            while let Some(request) = talk.request(&stream[at..]).unwrap() {
                at += request.bytes;
                kinds.push(request.key);
            }
            (at, kinds)
        };
        let whole = all(&mut Talk::new(wire), stream);
        assert_eq!(whole.0, stream.len());
        for cut in 1..stream.len() {
            let mut talk = Talk::new(wire);
            let (at, mut kinds) = all(&mut talk, &stream[..cut]);
            kinds.extend(all(&mut talk, &stream[at..]).1);
            assert_eq!(kinds, whole.1, "cut at {cut}");
        }
        whole.1
    }

    #[track_caller]
    fn answers(wire: Wire, stream: &[u8]) -> Vec<usize> {
        let (mut at, mut lengths) = (0, Vec::new());
        while let Some((length, _)) = wire.answer(&stream[at..]).unwrap() {
            for cut in 0..length {
                assert!(wire.answer(&stream[at..at + cut]).unwrap().is_none(), "cut at {cut}");
            }
            at += length;
            lengths.push(length);
        }
        assert_eq!(at, stream.len());
        lengths
    }

    #[test]
    fn requests_of_redis_are_told_by_their_command() {
        let stream = b"*2\r\n$3\r\nget\r\n$3\r\na\r\n\r\n*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$0\r\n\r\n";
        let expected = ["GET", "SET"].map(|command| Some(Key::of(command.as_bytes())));
        assert_eq!(kinds(Wire::Redis, stream), expected);
        let stream =
            b"+OK\r\n$-1\r\n*2\r\n$1\r\na\r\n*1\r\n:3\r\n%1\r\n+a\r\n$2\r\n\r\n\r\n*-1\r\n";
        assert_eq!(answers(Wire::Redis, stream), [5, 5, 19, 16, 5]);
        assert!(Talk::new(Wire::Redis).request(b"hello\r\n").is_err());
    }

    #[test]
    fn requests_of_http_are_told_by_path_and_form() {
        let post = |target: &str, body: &str| {
            format!("POST {target} HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        };
        let stream =
            [post("/a/1?x=1", "count 12"), post("/a/2?x=7", "count 3"), post("/a/2", "rows")]
                .concat();
        let kinds = kinds(Wire::Http, stream.as_bytes());
        assert_eq!(kinds[0], kinds[1]);
        assert_ne!(kinds[1], kinds[2]);
        let similar = |at: usize| kinds[at].as_ref().unwrap().similar();
        assert_eq!(similar(1), similar(2));
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        let none = "HTTP/1.1 204 No Content\r\n\r\n";
        let sized = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab";
        let stream = [chunked, none, sized].concat();
        let lengths = [chunked, none, sized].map(str::len);
        assert_eq!(answers(Wire::Http, stream.as_bytes()), lengths);
    }

    #[test]
    fn requests_of_a_pipe_are_told_by_their_name_and_what_they_want() {
        let search = |text: &str, want: &str| {
            format!("{{\"do\":\"search\",\"text\":{{\"value\":\"{text}\"}},\"want\":{want}}}\n")
        };
        let stream = [
            search("a1", "\"count\""),
            search("a2", "\"count\""),
            search("b", "\"count\""),
            search("b", "{\"latest\":{\"rows_max\":100}}"),
            "{\"do\":\"create\"}\n".to_owned(),
        ]
        .concat();
        let kinds = kinds(Wire::Json, stream.as_bytes());
        let similar = |at: usize| kinds[at].as_ref().unwrap().similar();
        assert_eq!(kinds[0], kinds[1]);
        assert!(kinds[1] != kinds[2] && similar(1) == similar(2));
        assert!(similar(2) != similar(3) && similar(3) != similar(4));
        assert_eq!(answers(Wire::Json, b"{\"done\":true}\n{\"count\":1}\n"), [14, 12]);
    }

    fn pg(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32 + 4).to_be_bytes();
        [&[kind][..], &length, body].concat()
    }

    #[test]
    fn requests_of_postgresql_are_told_by_their_statements() {
        let begin = [&8_u32.to_be_bytes()[..], b"abcd"].concat();
        let prepare = |name: &str, text: &str| {
            let body = [name.as_bytes(), b"\0", text.as_bytes(), b"\0\0\0"].concat();
            [pg(b'P', &body), pg(b'D', &[b"S", name.as_bytes(), b"\0"].concat()), pg(b'S', b"")]
                .concat()
        };
        let bind = |name: &str| {
            let body = [b"\0", name.as_bytes(), b"\0\0\0"].concat();
            [pg(b'B', &body), pg(b'E', b"\0\0\0\0\0"), pg(b'S', b"")].concat()
        };
        let stream = [
            begin,
            prepare("s1", "select 1"),
            prepare("s2", "select 1"),
            bind("s1"),
            bind("s2"),
            pg(b'Q', b"begin\0"),
            pg(b'X', b""),
        ]
        .concat();
        let kinds = kinds(Wire::Postgres, &stream);
        assert_eq!(kinds.len(), 7);
        assert_eq!((&kinds[1], &kinds[3]), (&kinds[2], &kinds[4]));
        assert!(kinds[1] != kinds[3] && kinds[6].is_none());
        let answer = [pg(b'2', b""), pg(b'C', b"INSERT 0 1\0"), pg(b'Z', b"I")].concat();
        let ask = pg(b'R', &[0, 0, 0, 3]);
        let stream = [&ask[..], &answer, &answer].concat();
        assert_eq!(answers(Wire::Postgres, &stream), [ask.len(), answer.len(), answer.len()]);
    }

    #[test]
    fn requests_of_cassandra_are_told_by_their_statements_and_keep_their_numbers() {
        let frame = |number: u8, opcode: u8, body: &[u8]| {
            let length = (body.len() as u32).to_be_bytes();
            [&[4, 0, 0, number, opcode][..], &length, body].concat()
        };
        let execute = |number, value: &[u8]| frame(number, 0x0A, &[b"\0\x02id", value].concat());
        let begin = |options: &[u8]| frame(0, 1, options);
        let stream = [
            execute(1, b"a"),
            execute(2, b"bc"),
            frame(3, 7, b"select"),
            begin(b"a b"),
            begin(b"b a"),
        ];
        let kinds = kinds(Wire::Cassandra, &stream.concat());
        assert_eq!((&kinds[0], &kinds[3]), (&kinds[1], &kinds[4]));
        assert_ne!(kinds[1], kinds[2]);
        let mut answer = frame(9, 8, b"rows");
        let number = Wire::Cassandra.answer(&answer).unwrap().unwrap().1;
        assert_eq!(number, Some(9));
        Wire::Cassandra.set_number(&mut answer, 0x0102);
        assert_eq!(&answer[2..4], [1, 2]);
        assert!(Talk::new(Wire::Cassandra).request(&[9; 20]).is_err());
    }

    /// A message of Kafka with its size.
    fn kafka(parts: &[&[u8]]) -> Vec<u8> {
        let message = parts.concat();
        [&(message.len() as u32).to_be_bytes()[..], &message].concat()
    }

    #[test]
    fn requests_of_kafka_are_told_by_the_place_of_their_records() {
        let produce = |number: u8, partition: u8, records: &[u8]| {
            let client = b"\0\x03lab\0";
            let place = [b"\x02\x06topic\x02\0\0\0", &[partition][..]].concat();
            let head = [0, 0, 0, 11, 0, 0, 0, number];
            kafka(&[&head, client, b"\0\xff\xff\0\0\x75\x30", &place, records])
        };
        let metadata = |topic: &[u8]| kafka(&[&[0, 3, 0, 12, 0, 0, 0, 9], b"\0\x03lab\0", topic]);
        let stream = [
            produce(1, 0, b"one"),
            produce(2, 0, b"another"),
            produce(3, 1, b"one"),
            metadata(b"a"),
            metadata(b"b"),
        ]
        .concat();
        let kinds = kinds(Wire::Kafka, &stream);
        assert_eq!(kinds[0], kinds[1]);
        assert_ne!(kinds[0], kinds[2]);
        let similar = |at: usize| kinds[at].as_ref().unwrap().similar();
        assert!(kinds[3] != kinds[4] && similar(3) == similar(4) && similar(3).is_some());
        assert!(Talk::new(Wire::Kafka).request(&kafka(&[b"\0\0\0\x03\0\0\0\0"])).is_err());

        let mut answer = kafka(&[&[0, 0, 0, 7], b"\x0a127.0.0.1\0\0\x4c\xec rest"]);
        let number = Wire::Kafka.answer(&answer).unwrap().unwrap().1;
        assert_eq!(number, Some(7));
        Wire::Kafka.set_number(&mut answer, 0xFFFF_0102);
        assert_eq!(&answer[4..8], [0xFF, 0xFF, 1, 2]);
        let own: SocketAddr = "127.0.0.1:513".parse().unwrap();
        let (brokers, produced) = (kinds[3].as_ref().unwrap(), kinds[0].as_ref().unwrap());
        let mut led = |key: &Key, upstream: &str| {
            Wire::Kafka.lead_here(key, &mut answer, &[(upstream.to_owned(), own)]).is_ok()
        };
        assert!(!led(brokers, "127.0.0.1:19693"), "the client would go to another broker");
        assert!(led(produced, "127.0.0.1:19693"), "nobody goes anywhere by it");
        assert!(led(brokers, "127.0.0.1:19692"));
        assert!(answer.ends_with(b"127.0.0.1\0\0\x02\x01 rest"));
    }
}
