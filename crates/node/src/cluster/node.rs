//! One store, as the node that answers for it sees it.

use std::io::{self, BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use ureq::Agent;
use ureq::http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use ureq::http::{Method, StatusCode};

use super::frames::{FRAMES_PATH, StoreFrames, Told};
use super::message::{Message, RELAYS_SINCE, ShareRequest, Spoken};
use super::trust::tls_config;

/// Marks a call that was handed on: the node that gets it does not hand it on once more.
pub const HANDED_ON: HeaderName = HeaderName::from_static("loginson-handed-on");
/// How the names of headers of our own begin.
const OWN_HEADERS: &str = "x-loginson-";
/// Time limit for connecting. Beyond it the store counts as away.
///
/// limits.md, Several stores: connecting to a store | {} | it is away: another copy is asked, or
/// the query fails and names it
const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);
/// Time limit from a request to the head of its answer, which does not wait for a place in the
/// queue.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// Time limit of calls besides shares.
const CALL_TIME_MAX: Duration = Duration::from_secs(30);
/// Bytes that are read of an answer besides shares.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// The longest line of a stream.
const LINE_BYTES_MAX: u64 = 128 << 20;
/// The longest silence of a store whose tail is followed. A store sends an empty line every five
/// seconds where it has no others, so it is gone without having closed the connection. One of an
/// older release says nothing while it looks for the first lines, which takes less.
///
/// limits.md, Several stores: tail of a store that says nothing | {} | it is away: the tail ends
/// with an error; in a cluster on engines the store is followed again
const TAIL_SILENCE_MAX: Duration = Duration::from_secs(60);
/// How long a store that was away is asked last.
const AWAY: Duration = Duration::from_secs(5);
/// Time limit of the call by which a store tells its frames. Beyond it the store is away.
const FRAMES_TIME_MAX: Duration = Duration::from_secs(3);
/// How long a store has to make frames of another copy durable.
const GIVE_TIME_MAX: Duration = Duration::from_secs(300);
/// A store that failed to tell its frames after this long is not asked again for [`AWAY`], so that
/// not every query waits for it.
const FAILS_SLOWLY: Duration = Duration::from_millis(500);

/// Why a store did not do its part. The text names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeError {
    /// The whole sentence.
    pub message: String,
    /// Whether another copy may be able to: it cannot be reached, stops, or is of another version.
    pub is_away: bool,
    /// Whether the query has to be planned again: the node does not have what the plan says.
    pub is_stale: bool,
    /// The versions of the protocol that the node speaks, where it refused the one of the request.
    pub speaks: Option<Spoken>,
    /// Whether it answered that it does not do its part.
    pub is_refusal: bool,
    /// Whether it was asked to relay shares and did not: it may do one of its own.
    pub is_no_relay: bool,
    /// The address of the node that failed, where it is not the one that was asked.
    pub of: Option<String>,
}

impl NodeError {
    /// A failure of which the text says all.
    pub fn new(message: String) -> NodeError {
        NodeError {
            message,
            is_away: false,
            is_stale: false,
            speaks: None,
            is_refusal: false,
            is_no_relay: false,
            of: None,
        }
    }

    /// The node does not relay shares.
    pub fn no_relay(message: String) -> NodeError {
        NodeError { is_no_relay: true, ..NodeError::new(message) }
    }

    /// The node cannot be reached.
    pub fn away(message: String) -> NodeError {
        NodeError { is_away: true, ..NodeError::new(message) }
    }
}

/// A call that is handed on to another node.
pub struct HandedOn {
    /// Its method.
    pub method: Method,
    /// Its path and parameters.
    pub path: String,
    /// The type of its body.
    pub content_type: Option<HeaderValue>,
    /// Its body; may be empty.
    pub body: Vec<u8>,
}

/// What a node answered.
pub struct NodeAnswer {
    /// The status.
    pub status: StatusCode,
    /// The type of the body.
    pub content_type: Option<HeaderValue>,
    /// The headers that say more about the body, and when to ask again.
    pub told: Vec<(HeaderName, HeaderValue)>,
    /// The body.
    pub body: Vec<u8>,
}

/// A store.
pub struct Node {
    /// Its name, or its address without the scheme, for messages.
    pub name: String,
    url: String,
    agent: Agent,
    authorization: Option<String>,
    /// The version of the protocol in which it is asked: the newest that both speak.
    version: AtomicU32,
    /// Whether it was said that there is no such version.
    is_foreign: AtomicBool,
    /// When it was last found away; none: it answered last.
    away: Mutex<Option<Instant>>,
    /// When it last failed to tell its frames after a long time, and why.
    fails_slowly: Mutex<Option<(Instant, NodeError)>>,
    /// [`TAIL_SILENCE_MAX`], or less in tests.
    tail_silence_max: Duration,
}

impl Node {
    /// The store at `http://HOST:PORT` or `https://HOST:PORT`.
    ///
    /// Errors: the certificates in `ca_file` cannot be read.
    pub fn new(url: &str, token: Option<&str>, ca_file: Option<&Path>) -> anyhow::Result<Node> {
        Node::named(None, url, token, ca_file)
    }

    /// As [`new`](Self::new), with a name for messages; none: the address without the scheme.
    pub fn named(
        name: Option<String>,
        url: &str,
        token: Option<&str>,
        ca_file: Option<&Path>,
    ) -> anyhow::Result<Node> {
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT_TIME_MAX))
            .timeout_recv_response(Some(HEAD_TIME_MAX))
            // Shares end at once when they are not wanted any more, so their connections are not
            // used again.
            .max_idle_connections_per_host(4);
        if url.starts_with("https://") {
            config = config.tls_config(tls_config(ca_file)?);
        }
        let authority = url.split_once("://").map_or(url, |(_, authority)| authority);
        Ok(Node {
            name: name.unwrap_or_else(|| authority.to_owned()),
            url: url.to_owned(),
            agent: config.build().into(),
            authorization: token.map(|token| format!("Bearer {token}")),
            version: AtomicU32::new(Spoken::here().max),
            is_foreign: AtomicBool::new(false),
            away: Mutex::new(None),
            fails_slowly: Mutex::new(None),
            tail_silence_max: TAIL_SILENCE_MAX,
        })
    }

    /// Its address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether it was away lately.
    pub fn is_away(&self) -> bool {
        self.away().is_some_and(|since| since.elapsed() < AWAY)
    }

    /// Notes that it says nothing: it counts as away for a while.
    pub fn was_silent(&self) {
        *self.away() = Some(Instant::now());
    }

    /// Whether it relays shares, as far as it is known: a node that was never asked is taken for
    /// one of this version.
    pub fn relays(&self) -> bool {
        self.version.load(Relaxed) >= RELAYS_SINCE
    }

    /// Sends a request for a share, and calls `each` with the messages of the answer until `each`
    /// breaks. Blocks; a store that falls silent blocks until `request.timeout_ms` and some seconds
    /// have passed.
    pub fn share(
        &self,
        request: &ShareRequest,
        each: &mut dyn FnMut(Message) -> ControlFlow<()>,
    ) -> Result<(), NodeError> {
        let asked = self.version.load(Relaxed);
        let mut result = self.try_share(request, asked, each);
        if let Err(NodeError { speaks: Some(speaks), message, .. }) = &result {
            let here = Spoken::here();
            match here.common(speaks) {
                // It was upgraded, or put back, since it was asked last.
                Some(version) if version != asked => {
                    self.version.store(version, Relaxed);
                    self.is_foreign.store(false, Relaxed);
                    if request.relayed.is_some() && version < RELAYS_SINCE {
                        return Err(NodeError::no_relay(format!("{message}: it relays no shares")));
                    }
                    result = self.try_share(request, version, each);
                }
                _ => {
                    let message = format!(
                        "{message}: this node speaks {here} of the protocol of shares, and {} {speaks}; upgrade nodes by one \
                         version at a time",
                        self.name
                    );
                    // Others do its work, as far as they can; so queries may say nothing of it.
                    if !self.is_foreign.swap(true, Relaxed) {
                        tracing::warn!("{message}");
                    }
                    result = Err(NodeError::away(message));
                }
            }
        }
        *self.away() = match &result {
            Err(error) if error.is_away => Some(Instant::now()),
            _ => None,
        };
        result
    }

    fn try_share(
        &self,
        request: &ShareRequest,
        version: u32,
        each: &mut dyn FnMut(Message) -> ControlFlow<()>,
    ) -> Result<(), NodeError> {
        let request = &ShareRequest { version, ..request.clone() };
        let body = serde_json::to_vec(request).expect("it is plain data");
        let body_time = Duration::from_millis(request.timeout_ms).saturating_add(HEAD_TIME_MAX);
        let mut post = self.agent.post(format!("{}/api/v1/shares", self.url));
        if let Some(authorization) = &self.authorization {
            post = post.header(AUTHORIZATION, authorization);
        }
        let post = post.content_type("application/json");
        let sent = post.config().timeout_recv_body(Some(body_time)).build().send(&body[..]);
        let response = sent.map_err(|error| self.unreached(&error))?;
        let status = response.status().as_u16();
        if status != 200 {
            return Err(self.refused(status, response));
        }
        let mut reader = BufReader::with_capacity(256 << 10, response.into_body().into_reader());
        loop {
            let message = Message::read(&mut reader).map_err(|error| self.broken(&error))?;
            let is_last =
                matches!(message, Message::Done(_) | Message::Failed(..) | Message::RelayFailed(_));
            if each(message).is_break() || is_last {
                return Ok(());
            }
        }
    }

    /// Sends a request and returns the JSON of the answer: of this store alone, even if it answers
    /// for others. A status that is no success is an error.
    pub fn call(
        &self,
        method: &str,
        path: &str,
        form: &[(&str, &str)],
    ) -> Result<Value, NodeError> {
        let url = format!("{}{path}", self.url);
        let authorization = self.authorization.as_deref();
        let form = form.iter().copied();
        let result = match method {
            "GET" => {
                let request = authorized(self.agent.get(url), authorization).query_pairs(form);
                let request = request.header(HANDED_ON, "1");
                request.config().timeout_global(Some(CALL_TIME_MAX)).build().call()
            }
            "DELETE" => {
                let request = authorized(self.agent.delete(url), authorization).query_pairs(form);
                let request = request.header(HANDED_ON, "1");
                request.config().timeout_global(Some(CALL_TIME_MAX)).build().call()
            }
            _ => {
                let request = authorized(self.agent.post(url), authorization);
                let request = request.header(HANDED_ON, "1");
                request.config().timeout_global(Some(CALL_TIME_MAX)).build().send_form(form)
            }
        };
        let mut response = result.map_err(|error| self.unreached(&error))?;
        let status = response.status().as_u16();
        if !(200..300).contains(&status) {
            return Err(self.refused(status, response));
        }
        let text = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let text = text.map_err(|error| self.unreached(&error))?;
        serde_json::from_str(&text).map_err(|_| self.answered_wrong())
    }

    /// The frames that it has taken. Blocks for some seconds at most.
    pub fn frames(&self) -> Result<StoreFrames, NodeError> {
        let lock = || self.fails_slowly.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, error)) = &*lock()
            && since.elapsed() < AWAY
        {
            return Err(error.clone());
        }
        let begun = Instant::now();
        let result = self.try_frames();
        let failed = result.as_ref().err().filter(|_| begun.elapsed() >= FAILS_SLOWLY);
        *lock() = failed.map(|error| (Instant::now(), error.clone()));
        result
    }

    fn try_frames(&self) -> Result<StoreFrames, NodeError> {
        let url = format!("{}{FRAMES_PATH}", self.url);
        let request = authorized(self.agent.get(url), self.authorization.as_deref());
        let request = request.config().timeout_global(Some(FRAMES_TIME_MAX)).build();
        let mut response = request.call().map_err(|error| self.unreached(&error))?;
        let status = response.status().as_u16();
        if status != 200 {
            return Err(self.refused(status, response));
        }
        let text = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let text = text.map_err(|error| self.unreached(&error))?;
        let told: Told = serde_json::from_str(&text).map_err(|_| self.answered_wrong())?;
        Ok(StoreFrames::from(told))
    }

    /// Gives it frames of a collector, back to back: all that is left of those with the numbers
    /// from `first` to `last`. Blocks until they are durable there.
    pub fn give_frames(
        &self,
        collector: u32,
        (first, last): (u64, u64),
        frames: &[u8],
    ) -> Result<(), NodeError> {
        let url = format!("{}{FRAMES_PATH}/{collector:08x}/{first}/{last}", self.url);
        let request = authorized(self.agent.post(url), self.authorization.as_deref())
            .content_type("application/octet-stream");
        let request = request
            .config()
            .timeout_recv_response(Some(GIVE_TIME_MAX))
            .timeout_global(Some(GIVE_TIME_MAX))
            .build();
        let response = request.send(frames).map_err(|error| self.unreached(&error))?;
        match response.status().as_u16() {
            200 => Ok(()),
            status => Err(self.refused(status, response)),
        }
    }

    /// Makes a call of somebody else, and returns the answer as it is, whatever its status.
    pub fn hand_on(&self, call: HandedOn) -> Result<NodeAnswer, NodeError> {
        self.hand_on_within(CALL_TIME_MAX, call)
    }

    /// As [`hand_on`](Self::hand_on), with another time limit.
    pub fn hand_on_within(
        &self,
        time_max: Duration,
        call: HandedOn,
    ) -> Result<NodeAnswer, NodeError> {
        let wrong = |error: &dyn std::fmt::Display| {
            NodeError::new(format!("the call cannot be handed on to {}: {error}", self.name))
        };
        let mut request = ureq::http::Request::builder()
            .method(call.method)
            .uri(format!("{}{}", self.url, call.path))
            .header(HANDED_ON, "1");
        if let Some(content_type) = call.content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(call.body).map_err(|error| wrong(&error))?;
        let request = self
            .agent
            .configure_request(request)
            .timeout_recv_response(Some(time_max))
            .timeout_global(Some(time_max))
            .build();
        let mut response = self.agent.run(request).map_err(|error| self.unreached(&error))?;
        let content_type = response.headers().get(CONTENT_TYPE).cloned();
        let is_told =
            |name: &HeaderName| name == RETRY_AFTER || name.as_str().starts_with(OWN_HEADERS);
        let told = response.headers().iter().filter(|(name, _)| is_told(name));
        let told = told.map(|(name, value)| (name.clone(), value.clone())).collect();
        let status = response.status();
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let body = body.map_err(|error| self.unreached(&error))?;
        Ok(NodeAnswer { status, content_type, told, body })
    }

    /// The error of an answer that is not as expected.
    pub fn answered_wrong(&self) -> NodeError {
        let message =
            format!("store {} answers something else; run the same version of Loginson", self.name);
        NodeError::away(message)
    }

    /// Gets a stream of lines of text, and calls `each` with whole lines until `each` breaks.
    /// Blocks; a store that says nothing for [`TAIL_SILENCE_MAX`] is away. What `each` takes is not
    /// counted.
    pub fn follow(
        &self,
        path: &str,
        params: &[(String, String)],
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), NodeError> {
        let request = authorized(
            self.agent.get(format!("{}{path}", self.url)),
            self.authorization.as_deref(),
        );
        let params = params.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let request = request.query_pairs(params);
        let request = request.config().timeout_per_read(Some(self.tail_silence_max)).build();
        let response = request.call().map_err(|error| self.unreached(&error))?;
        let status = response.status().as_u16();
        if status != 200 {
            return Err(self.refused(status, response));
        }
        let mut reader = BufReader::new(response.into_body().into_reader());
        let mut line = Vec::new();
        loop {
            line.clear();
            // A line is at most as long as a store lets one of a tail be.
            let read = (&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            let read = read.map_err(|error| self.broken(&error))?;
            if read == 0 || !line.ends_with(b"\n") {
                return Err(self.broken(&io::ErrorKind::UnexpectedEof.into()));
            }
            if each(&line).is_break() {
                return Ok(());
            }
        }
    }

    fn away(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.away.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unreached(&self, error: &ureq::Error) -> NodeError {
        // It answered, and another copy would answer as much.
        if let ureq::Error::BodyExceedsLimit(most) = error {
            return NodeError::new(format!(
                "store {} answers with more than {most} bytes; ask for less, such as a shorter range or a wider step",
                self.name
            ));
        }
        let why = match error {
            ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                "nothing listens there".to_owned()
            }
            ureq::Error::HostNotFound => "its host name cannot be resolved".to_owned(),
            ureq::Error::Timeout(_) => "it did not answer in time".to_owned(),
            error => error.to_string(),
        };
        NodeError::away(format!("store {} is away: {why}", self.name))
    }

    fn broken(&self, error: &io::Error) -> NodeError {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<ureq::Error>());
        let why = match (cause, error.kind()) {
            (Some(ureq::Error::Timeout(ureq::Timeout::PerRead)), _) => {
                "it said nothing for too long".to_owned()
            }
            (_, io::ErrorKind::UnexpectedEof) => "it closed the connection".to_owned(),
            _ => error.to_string(),
        };
        NodeError::away(format!("store {} is away: {why}", self.name))
    }

    fn refused(&self, status: u16, mut response: ureq::http::Response<ureq::Body>) -> NodeError {
        let text = response.body_mut().with_config().limit(64 << 10).lossy_utf8(true);
        let text = text.read_to_string().unwrap_or_default();
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        let why = match (status, body["error"].as_str()) {
            (401, _) => {
                "it does not know this node; make a token with the role node there, and give it to stores.token_file, in a cluster to cluster.token_file"
                    .to_owned()
            }
            (403, Some(why)) => format!(
                "{why}; give a token with that role to stores.token_file, in a cluster to \
                 cluster.token_file"
            ),
            (_, Some(why)) => why.to_owned(),
            (404, None) => "there is no such call; it is no Loginson, or an old one".to_owned(),
            (_, None) => format!("it answered with status {status}"),
        };
        NodeError {
            message: format!("store {}: {why}", self.name),
            is_away: matches!(status, 404 | 502..=504),
            is_stale: status == 409,
            speaks: serde_json::from_value(body["speaks"].clone()).ok(),
            is_refusal: true,
            ..NodeError::new(String::new())
        }
    }
}

fn authorized<B>(
    request: ureq::RequestBuilder<B>,
    authorization: Option<&str>,
) -> ureq::RequestBuilder<B> {
    match authorization {
        Some(authorization) => request.header(AUTHORIZATION, authorization),
        None => request,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_store_that_answers_too_much_is_not_away() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // What is not read when a connection ends takes the answer with it.
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            let bytes = ANSWER_BYTES_MAX + 1;
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n");
            // The other side closes the connection before it has read all.
            let _ = stream.write_all(head.as_bytes());
            let part = vec![b' '; 1 << 20];
            for _ in 0..=ANSWER_BYTES_MAX >> 20 {
                let _ = stream.write_all(&part);
            }
        });
        let node = Node::new(&url, None, None).unwrap();
        let error = node.call("GET", "/", &[]).unwrap_err();
        assert!(!error.is_away, "{}", error.message);
        assert!(error.message.contains("answers with more than"), "{}", error.message);
    }

    #[test]
    fn a_store_that_falls_silent_is_not_followed_for_ever() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        // Answers with a line, and is silent on an open connection from then on.
        std::thread::spawn(move || {
            let mut open = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
                // The other side may have given up.
                let _ = stream.write_all(format!("{head}7\r\na line\n\r\n").as_bytes());
                open.push(stream);
            }
        });
        // On a slow machine the line takes longer than the time that the store may be silent.
        let times = [200, 2_000, 20_000, 100_000].map(Duration::from_millis);
        let ended = times.into_iter().find_map(|tail_silence_max| {
            let node = Node { tail_silence_max, ..Node::new(&url, None, None).unwrap() };
            let (sender, outcome) = mpsc::channel();
            std::thread::spawn(move || {
                let mut lines = Vec::new();
                let result = node.follow("/", &[], &mut |line| {
                    lines.push(line.to_vec());
                    ControlFlow::Continue(())
                });
                sender.send((lines, result)).unwrap();
            });
            let outcome = outcome.recv_timeout(Duration::from_secs(300));
            let (lines, result) = outcome.expect("it is followed for ever");
            (!lines.is_empty()).then_some((lines, result))
        });
        let (lines, result) = ended.expect("a time that is long enough");
        assert_eq!(lines, [b"a line\n"]);
        let error = result.unwrap_err();
        assert!(error.is_away && error.message.contains("it said nothing"), "{}", error.message);
    }
}
