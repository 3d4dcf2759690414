//! Pushes of clouds and of services, each answered in its form: Amazon Data Firehose, Google
//! Pub/Sub, Azure Event Grid, Cloudflare Logpush, webhooks of GitHub, and Heroku's Logplex.
//!
//! What they carry becomes lines: objects are objects, text is `_msg`. The answer is sent when all
//! are durable; all of them send again what was answered with another status than 2xx. So a record
//! that cannot be decoded does not refuse the others of its request, which would be stored again
//! and again: it is kept as it came, with `decode_error`. Their tokens come as those of other
//! senders, or as the parameter `token`, because some can be given nothing but an address.
//!
//! Webhooks of GitHub are signed: with a secret ([`WebhookSecret`]), what it did not sign is
//! refused.
//!
//! Left out: tokens of OpenID of Pub/Sub, which need keys of Google.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use collector::body::logplex::Messages;
use collector::body::{Decoder, Encoding, write_objects};
use ring::hmac;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::json;
use text::json::write_text;
use text::time::write_time;

use crate::access::principal::Scope;
use crate::access::routes::Routes;
use crate::ingest::{Inserting, Request, WholeBody, form, text_lines};
use crate::wire::clock::now_ns;
use crate::wire::error::{ApiError, ApiResult};

/// Limit of a body before and after decompression, and of a record within. A record that is longer
/// is kept as it came, compressed and in base64.
///
/// limits.md, Lines on their way in: a request of Firehose, Pub/Sub, Event Grid, GitHub or Logplex
/// | {} | it is refused with 413 before a line is kept
const BODY_BYTES_MAX: usize = 32 << 20;
/// Limit of a header that is written with each line.
const HEADER_BYTES_MAX: usize = 1024;
/// Attributes of a request, as many as Pub/Sub allows.
///
/// limits.md, Lines on their way in: attributes of a request of Firehose or Pub/Sub | {} | further
/// ones are not kept, which the field `attributes_left_out` of its lines says
const PAIRS_MAX: usize = 100;
/// Bytes of what a request says about all its lines, written with each of them.
///
/// limits.md, Lines on their way in: fields that a request of Firehose, Pub/Sub or GitHub adds to
/// its lines | {} in all of them | further lines have `attributes_left_out` in their place
const MEMBERS_BYTES_MAX: usize = 128 << 20;
/// What lines have in the place of members that take too much room.
const LEFT_OUT: &[u8] =
    b",\"attributes_left_out\":\"all, because they take too much room in the lines before\"";
/// Members that hold the time of a message of Pub/Sub, if nothing else is said: usual ones, and the
/// time at which it was published, which each has.
const PUBSUB_TIMES: [&str; 12] = [
    "_time",
    "@timestamp",
    "timestamp",
    "time",
    "ts",
    "@t",
    "asctime",
    "Timestamp",
    "eventTime",
    "timeMillis",
    "datetime",
    "publishTime",
];
/// Members that hold the message, likewise.
const MESSAGES: [&str; 8] = [
    "_msg",
    "message",
    "msg",
    "textPayload",
    "jsonPayload.message",
    "Message",
    "RenderedMessage",
    "log",
];
/// Times of the data sets of Cloudflare.
const CLOUDFLARE_TIMES: [&str; 6] =
    ["EdgeStartTimestamp", "Datetime", "Timestamp", "When", "EventTimestampMs", "SessionStartTime"];

/// Names the secret in messages.
const SECRET_KEY: &str = "insert.github_secret_file";

/// The secret of webhooks of GitHub.
#[derive(Clone, PartialEq)]
pub struct WebhookSecret(Arc<[u8]>);

/// The secret is not printed.
impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret")
    }
}

impl WebhookSecret {
    /// Takes the text of a file, without the white space around it; `None` if there is no other.
    pub fn new(text: &[u8]) -> Option<WebhookSecret> {
        let secret = text.trim_ascii();
        (!secret.is_empty()).then(|| WebhookSecret(secret.into()))
    }

    /// Whether a body was signed with it. `signature` is that of the header, `sha256=HEX`.
    fn has_signed(&self, body: &[u8], signature: &str) -> bool {
        let Some(digits) = signature.strip_prefix("sha256=") else { return false };
        let tag: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(text::hex::byte).collect();
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        tag.is_some_and(|tag| hmac::verify(&key, body, &tag).is_ok())
    }
}

/// The routes of this file.
pub fn routes() -> Routes<Arc<Inserting>> {
    const EVENTS: &str = "/insert/eventgrid";
    Routes::new()
        .post(Scope::Ingest, "/insert/firehose", firehose)
        .post(Scope::Ingest, "/insert/pubsub", pubsub)
        .post(Scope::Ingest, EVENTS, eventgrid)
        .on(Method::OPTIONS, Scope::Open, EVENTS, allow_events)
        .post(Scope::Ingest, "/insert/logpush", logpush)
        .post(Scope::Ingest, "/insert/github", github)
        .post(Scope::Ingest, "/insert/logplex", logplex)
}

/// A header as text, if it is short.
fn header<'r>(request: &'r Request, name: &str) -> Option<&'r str> {
    let value = request.headers.get(name).and_then(|value| value.to_str().ok());
    value.filter(|value| !value.is_empty() && value.len() <= HEADER_BYTES_MAX)
}

fn wrong(what: &str) -> impl Fn(serde_json::Error) -> ApiError {
    move |error| ApiError::bad_request(format!("the body is not {what}: {error}"))
}

/// Appends `,"NAME":"VALUE"`.
fn member(name: &str, value: &str, out: &mut Vec<u8>) {
    out.push(b',');
    write_text(name.as_bytes(), out);
    out.push(b':');
    write_text(value.as_bytes(), out);
}

/// Bytes that the members of a request may still take in its lines.
struct Room(usize);

impl Room {
    /// Those of the next line.
    fn of_line<'m>(&mut self, members: &'m [u8]) -> &'m [u8] {
        match self.0.checked_sub(members.len()) {
            Some(left) => {
                self.0 = left;
                members
            }
            None => LEFT_OUT,
        }
    }
}

/// Takes what a record holds: objects, or lines of text; each with `members`.
async fn take_content(
    body: &mut WholeBody<'_>,
    content: &[u8],
    members: &[u8],
    room: &mut Room,
) -> ApiResult<()> {
    let mut objects = Vec::new();
    let is_objects = !content.trim_ascii().is_empty() && write_objects(content, &mut objects);
    let mut lines = text_lines(if is_objects { &objects[..] } else { content });
    let write_next = |out: &mut Vec<u8>| {
        let Some(line) = lines.next() else { return false };
        match is_objects {
            true => write_object(line, room.of_line(members), out),
            false => write_line(line, room.of_line(members), out),
        }
        true
    };
    body.take_lines(write_next).await
}

/// Appends an object with `members` before its own.
fn write_object(object: &[u8], members: &[u8], out: &mut Vec<u8>) {
    let inner = object.trim_ascii()[1..].trim_ascii_start();
    let members = &members[usize::from(!members.is_empty())..];
    out.push(b'{');
    out.extend_from_slice(members);
    if !members.is_empty() && inner != b"}" {
        out.push(b',');
    }
    out.extend_from_slice(inner);
    out.push(b'\n');
}

/// Appends a line of text with `members`.
fn write_line(line: &[u8], members: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"_msg\":");
    write_text(line, out);
    out.extend_from_slice(members);
    out.extend_from_slice(b"}\n");
}

/// The result of a handler as an answer without a body.
fn answer(to: &Inserting, result: ApiResult<()>) -> Response {
    match result {
        Ok(()) => to.acknowledged(StatusCode::NO_CONTENT.into_response()),
        Err(error) => error.into_response(),
    }
}

/// A request of Firehose.
#[derive(Deserialize)]
struct Delivery<'b> {
    #[serde(borrow)]
    records: Vec<DeliveryRecord<'b>>,
}

#[derive(Deserialize)]
struct DeliveryRecord<'b> {
    #[serde(borrow)]
    data: Cow<'b, str>,
}

/// Lines of CloudWatch, as its subscriptions write them. What has not all of this is something
/// else, such as an event with a `messageType` of its own.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CloudWatch<'b> {
    message_type: MessageType,
    #[serde(borrow, default)]
    owner: Cow<'b, str>,
    #[serde(borrow)]
    log_group: Cow<'b, str>,
    #[serde(borrow)]
    log_stream: Cow<'b, str>,
    #[serde(borrow)]
    log_events: Vec<CloudWatchEvent<'b>>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum MessageType {
    DataMessage,
    /// It asks whether the destination can be reached.
    ControlMessage,
}

#[derive(Deserialize)]
struct CloudWatchEvent<'b> {
    timestamp: i64,
    #[serde(borrow)]
    message: Cow<'b, str>,
}

/// What Firehose adds to all records of a request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Attributes {
    #[serde(default)]
    common_attributes: Pairs,
}

/// Names and values; those beyond [`PAIRS_MAX`] are left out and counted.
#[derive(Default)]
struct Pairs {
    pairs: Vec<(String, String)>,
    left_out: u64,
}

impl Pairs {
    /// Appends them as members.
    fn write(&self, prefix: &str, out: &mut Vec<u8>) {
        for (name, value) in &self.pairs {
            member(&format!("{prefix}{name}"), value, out);
        }
        if self.left_out > 0 {
            let text = format!("{} behind the first {PAIRS_MAX}", self.left_out);
            member("attributes_left_out", &text, out);
        }
    }
}

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pairs, D::Error> {
        struct Few;
        impl<'de> Visitor<'de> for Few {
            type Value = Pairs;

            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("names and values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while pairs.len() < PAIRS_MAX {
                    match map.next_entry()? {
                        Some(pair) => pairs.push(pair),
                        None => return Ok(Pairs { pairs, left_out: 0 }),
                    }
                }
                let mut left_out = 0;
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    left_out += 1;
                }
                Ok(Pairs { pairs, left_out })
            }
        }
        deserializer.deserialize_map(Few)
    }
}

async fn firehose(State(to): State<Arc<Inserting>>, request: Request, body: Body) -> Response {
    let id = header(&request, "x-amz-firehose-request-id").unwrap_or_default();
    let timestamp = now_ns() / 1_000_000;
    match insert_firehose(&to, &request, body).await {
        Ok(()) => {
            let answer = json!({ "requestId": id, "timestamp": timestamp });
            to.acknowledged(Json(answer).into_response())
        }
        Err(error) => {
            let text = error.to_string();
            error.in_form(json!({ "requestId": id, "timestamp": timestamp, "errorMessage": text }))
        }
    }
}

async fn insert_firehose(to: &Inserting, request: &Request, body: Body) -> ApiResult<()> {
    let mut body = WholeBody::enter(to, request, body).await?;
    let taken = take_firehose(request, &mut body).await;
    body.end(taken).await.map(drop)
}

async fn take_firehose(request: &Request, body: &mut WholeBody<'_>) -> ApiResult<()> {
    body.default_fields(&["logGroup", "logStream"], &[]);
    body.default_names(&[], &MESSAGES);
    let mut members = Vec::new();
    if let Some(header) = request.headers.get("x-amz-firehose-common-attributes") {
        match serde_json::from_slice::<Attributes>(header.as_bytes()) {
            Ok(attributes) => attributes.common_attributes.write("", &mut members),
            // What cannot be read is kept as it is.
            Err(_) => {
                let text = String::from_utf8_lossy(header.as_bytes());
                member("commonAttributes", &text, &mut members);
            }
        }
    }
    let content = body.content(BODY_BYTES_MAX).await?;
    let delivery: Delivery<'_> =
        serde_json::from_slice(&content).map_err(wrong("a delivery of Amazon Data Firehose"))?;
    let mut room = Room(MEMBERS_BYTES_MAX);
    for record in &delivery.records {
        match decode(body, &record.data)? {
            Ok(data) => match cloudwatch(&data) {
                Some(found) => take_cloudwatch(body, found, &members, &mut room).await?,
                None => take_content(body, &data, &members, &mut room).await?,
            },
            Err(why) => {
                let mut members = members.clone();
                member("decode_error", &why, &mut members);
                take_content(body, record.data.as_bytes(), &members, &mut room).await?;
            }
        }
    }
    Ok(())
}

/// Decodes and decompresses the data of a record. The inner error says why that is not possible.
fn decode(body: &mut WholeBody<'_>, data: &str) -> ApiResult<Result<Vec<u8>, String>> {
    let data = match STANDARD.decode(data.as_bytes()) {
        Ok(data) => data,
        Err(error) => return Ok(Err(format!("the data is not base64: {error}"))),
    };
    if !data.starts_with(&[0x1f, 0x8b]) {
        return Ok(Ok(data));
    }
    match body.decompress(Encoding::Gzip, &data, BODY_BYTES_MAX) {
        Ok(Some(content)) => Ok(Ok(content)),
        Ok(None) => Ok(Err(format!("the data decompresses to more than {BODY_BYTES_MAX} bytes"))),
        Err(error) if error.status() == StatusCode::BAD_REQUEST => {
            Ok(Err(format!("the data is gzip, and damaged: {error}")))
        }
        // There is no memory now.
        Err(error) => Err(error),
    }
}

/// The messages of a subscription of CloudWatch; `None` if the record is something else.
fn cloudwatch(data: &[u8]) -> Option<Vec<CloudWatch<'_>>> {
    let messages = serde_json::Deserializer::from_slice(data).into_iter::<CloudWatch<'_>>();
    messages.collect::<Result<Vec<_>, _>>().ok().filter(|messages| !messages.is_empty())
}

/// Takes the lines of a subscription of CloudWatch.
async fn take_cloudwatch(
    body: &mut WholeBody<'_>,
    messages: Vec<CloudWatch<'_>>,
    shared: &[u8],
    room: &mut Room,
) -> ApiResult<()> {
    for message in messages {
        if message.message_type == MessageType::ControlMessage {
            continue;
        }
        let mut members = Vec::new();
        member("logGroup", &message.log_group, &mut members);
        member("logStream", &message.log_stream, &mut members);
        member("owner", &message.owner, &mut members);
        members.extend_from_slice(shared);
        let mut events = message.log_events.iter();
        let write_next = |out: &mut Vec<u8>| {
            let Some(event) = events.next() else { return false };
            out.extend_from_slice(b"{\"_time\":\"");
            write_time(event.timestamp.saturating_mul(1_000_000), out);
            out.extend_from_slice(b"\",\"_msg\":");
            write_text(event.message.trim_end().as_bytes(), out);
            out.extend_from_slice(room.of_line(&members));
            out.extend_from_slice(b"}\n");
            true
        };
        body.take_lines(write_next).await?;
    }
    Ok(())
}

/// A push of Pub/Sub.
#[derive(Deserialize)]
struct Push<'b> {
    #[serde(borrow)]
    message: PushMessage<'b>,
    #[serde(borrow, default)]
    subscription: Cow<'b, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PushMessage<'b> {
    #[serde(borrow, default)]
    data: Cow<'b, str>,
    #[serde(default)]
    attributes: Pairs,
    #[serde(borrow, default)]
    message_id: Cow<'b, str>,
    #[serde(borrow, default)]
    publish_time: Cow<'b, str>,
    #[serde(borrow, default)]
    ordering_key: Cow<'b, str>,
}

async fn pubsub(State(to): State<Arc<Inserting>>, request: Request, body: Body) -> Response {
    answer(&to, insert_pubsub(&to, &request, body).await)
}

async fn insert_pubsub(to: &Inserting, request: &Request, body: Body) -> ApiResult<()> {
    let mut body = WholeBody::enter(to, request, body).await?;
    let taken = take_pubsub(&mut body).await;
    body.end(taken).await.map(drop)
}

async fn take_pubsub(body: &mut WholeBody<'_>) -> ApiResult<()> {
    body.default_fields(&["logName", "subscription"], &[]);
    body.default_names(&PUBSUB_TIMES, &MESSAGES);
    let content = body.content(BODY_BYTES_MAX).await?;
    let push: Push<'_> = serde_json::from_slice(&content).map_err(wrong("a push of Pub/Sub"))?;
    let message = push.message;
    let mut members = Vec::new();
    for (name, value) in [
        ("subscription", &push.subscription),
        ("messageId", &message.message_id),
        ("publishTime", &message.publish_time),
        ("orderingKey", &message.ordering_key),
    ] {
        if !value.is_empty() {
            member(name, value, &mut members);
        }
    }
    message.attributes.write("attributes.", &mut members);
    let data = STANDARD.decode(message.data.as_bytes()).unwrap_or_else(|error| {
        member("decode_error", &format!("the data is not base64: {error}"), &mut members);
        message.data.as_bytes().to_vec()
    });
    // A message may have attributes alone.
    if data.trim_ascii().is_empty() {
        let mut lines = Vec::new();
        write_line(b"", &members, &mut lines);
        return body.take(&lines).await;
    }
    take_content(body, &data, &members, &mut Room(MEMBERS_BYTES_MAX)).await
}

/// Says to Azure that events of CloudEvents may be sent here.
async fn allow_events(request: Request) -> Response {
    let origin = request.headers.get("webhook-request-origin").cloned();
    let headers = [
        (
            HeaderName::from_static("webhook-allowed-origin"),
            origin.unwrap_or(HeaderValue::from_static("*")),
        ),
        (HeaderName::from_static("webhook-allowed-rate"), HeaderValue::from_static("*")),
    ];
    (StatusCode::OK, headers).into_response()
}

/// The event by which Event Grid asks whether the address is meant.
#[derive(Deserialize)]
struct Validation {
    data: ValidationData,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ValidationData {
    validation_code: String,
}

async fn eventgrid(State(to): State<Arc<Inserting>>, request: Request, body: Body) -> Response {
    let mut code = None;
    match insert_eventgrid(&to, &request, body, &mut code).await {
        Ok(()) => match code {
            Some(code) => Json(json!({ "validationResponse": code })).into_response(),
            None => to.acknowledged(StatusCode::OK.into_response()),
        },
        Err(error) => error.into_response(),
    }
}

async fn insert_eventgrid(
    to: &Inserting,
    request: &Request,
    body: Body,
    code: &mut Option<String>,
) -> ApiResult<()> {
    let mut body = WholeBody::enter(to, request, body).await?;
    let taken = take_events(request, &mut body, code).await;
    body.end(taken).await.map(drop)
}

async fn take_events(
    request: &Request,
    body: &mut WholeBody<'_>,
    code: &mut Option<String>,
) -> ApiResult<()> {
    body.default_fields(&["topic", "source", "eventType"], &[]);
    body.default_names(&[], &MESSAGES);
    let content = body.content(BODY_BYTES_MAX).await?;
    if header(request, "aeg-event-type") == Some("SubscriptionValidation") {
        let asked: [Validation; 1] =
            serde_json::from_slice(&content).map_err(wrong("a validation of Event Grid"))?;
        let [Validation { data }] = asked;
        *code = Some(data.validation_code);
        return Ok(());
    }
    let mut lines = Vec::new();
    if !write_objects(&content, &mut lines) {
        return Err(ApiError::bad_request(
            "the body is neither events of Event Grid nor of CloudEvents",
        ));
    }
    body.take(&lines).await
}

async fn logpush(State(to): State<Arc<Inserting>>, request: Request, body: Body) -> Response {
    match insert_logpush(&to, &request, body).await {
        Ok(()) => to.acknowledged(StatusCode::OK.into_response()),
        Err(error) => error.into_response(),
    }
}

async fn insert_logpush(to: &Inserting, request: &Request, body: Body) -> ApiResult<()> {
    let mut body = WholeBody::enter(to, request, body).await?;
    let taken = take_logpush(&mut body).await;
    body.end(taken).await.map(drop)
}

/// Lines of JSON, of any number, which are handed on as they arrive. The first file that Cloudflare
/// sends asks whether the address can be reached; it is a line like any other.
async fn take_logpush(body: &mut WholeBody<'_>) -> ApiResult<()> {
    body.default_names(&CLOUDFLARE_TIMES, &[]);
    let undecodable = |error: std::io::Error| {
        ApiError::bad_request(format!("the body cannot be decompressed: {error}"))
    };
    let mut decoder = Decoder::new(body.encoding()?).map_err(undecodable)?;
    while let Some(chunk) = body.next_chunk(decoder.bytes_held()).await? {
        let mut rest = &chunk[..];
        while let Some(piece) = decoder.next(&mut rest).map_err(undecodable)? {
            body.take(piece).await?;
        }
    }
    body.take(decoder.end().map_err(undecodable)?).await
}

/// What the message of a webhook says.
#[derive(Deserialize)]
struct Webhook<'b> {
    #[serde(borrow)]
    action: Option<Cow<'b, str>>,
    #[serde(borrow)]
    repository: Option<Repository<'b>>,
    #[serde(borrow)]
    sender: Option<Sender<'b>>,
}

#[derive(Deserialize)]
struct Repository<'b> {
    #[serde(borrow)]
    full_name: Cow<'b, str>,
}

#[derive(Deserialize)]
struct Sender<'b> {
    #[serde(borrow)]
    login: Cow<'b, str>,
}

async fn github(State(to): State<Arc<Inserting>>, request: Request, body: Body) -> Response {
    answer(&to, insert_github(&to, &request, body).await)
}

async fn insert_github(to: &Inserting, request: &Request, body: Body) -> ApiResult<()> {
    let mut body = WholeBody::enter(to, request, body).await?;
    let taken = take_github(to, request, &mut body).await;
    body.end(taken).await.map(drop)
}

async fn take_github(to: &Inserting, request: &Request, body: &mut WholeBody<'_>) -> ApiResult<()> {
    body.default_fields(&["event", "repository.full_name"], &[]);
    // Times of commits and of issues are not that of the event.
    body.default_names(&["_time"], &["_msg"]);
    let mut content = body.content(BODY_BYTES_MAX).await?;
    if let Some(secret) = &to.options.github_secret {
        let signature = header(request, "x-hub-signature-256").unwrap_or_default();
        if !secret.has_signed(&content, signature) {
            let remedy = format!("set the webhook's secret to that of {SECRET_KEY}");
            to.refuse_protocol(request.peer, "webhooks without the right signature", &remedy);
            let text = format!("X-Hub-Signature-256 is no signature of this body; {remedy}");
            return Err(ApiError::new(StatusCode::UNAUTHORIZED, text));
        }
    }
    if request.media_type() == "application/x-www-form-urlencoded" {
        content = form::record(&content).unwrap_or(content);
    }
    let hook: Webhook<'_> =
        serde_json::from_slice(&content).map_err(wrong("a webhook of GitHub"))?;
    let event = header(request, "x-github-event").unwrap_or("event");
    let mut message = event.to_owned();
    if let Some(action) = &hook.action {
        message.push_str(&format!(" {action}"));
    }
    if let Some(repository) = &hook.repository {
        message.push_str(&format!(" in {}", repository.full_name));
    }
    if let Some(sender) = &hook.sender {
        message.push_str(&format!(" by {}", sender.login));
    }
    let mut members = Vec::new();
    member("_msg", &message, &mut members);
    member("event", event, &mut members);
    if let Some(delivery) = header(request, "x-github-delivery") {
        member("delivery", delivery, &mut members);
    }
    take_content(body, &content, &members, &mut Room(MEMBERS_BYTES_MAX)).await
}

async fn logplex(State(to): State<Arc<Inserting>>, request: Request, body: Body) -> Response {
    answer(&to, insert_logplex(&to, &request, body).await)
}

async fn insert_logplex(to: &Inserting, request: &Request, body: Body) -> ApiResult<()> {
    let mut body = WholeBody::enter(to, request, body).await?;
    let taken = take_logplex(&mut body).await;
    body.end(taken).await.map(drop)
}

async fn take_logplex(body: &mut WholeBody<'_>) -> ApiResult<()> {
    body.default_fields(&["hostname", "app_name"], &[]);
    let content = body.content(BODY_BYTES_MAX).await?;
    let mut messages = Messages::of(&content);
    let taken = body.take_each(|out| messages.write_next(out)).await?;
    taken.map_err(|error| ApiError::bad_request(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_members_as_long_as_there_is_room() {
        let members = &b",\"a\":1"[..];
        let mut room = Room(2 * members.len() + 1);
        let mut lines = Vec::new();
        for line in 0..3 {
            match line {
                0 => write_line(b"x", room.of_line(members), &mut lines),
                _ => write_object(b"{\"b\":2}", room.of_line(members), &mut lines),
            }
        }
        let expected = concat!(
            "{\"_msg\":\"x\",\"a\":1}\n",
            "{\"a\":1,\"b\":2}\n",
            "{\"attributes_left_out\":\"all, because they take too much room in the lines before\",",
            "\"b\":2}\n",
        );
        assert_eq!(String::from_utf8(lines).unwrap(), expected);
        assert_eq!(room.of_line(b""), b"");
    }
}
