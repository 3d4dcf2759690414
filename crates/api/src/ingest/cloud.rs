//! Pushes of clouds and of services, each answered in its form: Amazon Data Firehose, Google
//! Pub/Sub, Azure Event Grid, Cloudflare Logpush, webhooks of GitHub, and Heroku's Logplex.
//!
//! What they carry becomes lines: objects are objects, text is `_msg`. The answer is sent when all
//! are durable; all of them send again what was answered with another status than 2xx. Their tokens
//! come as those of other senders, or as the parameter `token`, because some can be given nothing
//! but an address.
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

/// Limit of a body before and after decompression, and of a record within.
///
/// limits.md, Lines on their way in: a request of Firehose, Pub/Sub, Event Grid, GitHub or Logplex
/// | {} | it is refused with 413 before a line is kept
const BODY_BYTES_MAX: usize = 32 << 20;
/// Limit of a header that is written with each line.
const HEADER_BYTES_MAX: usize = 1024;
/// Attributes of a request, as many as Pub/Sub allows.
const PAIRS_MAX: usize = 100;
/// Members that hold the time, and those that hold the message, if nothing else is said.
const TIMES: [&str; 6] = ["_time", "timestamp", "time", "eventTime", "@timestamp", "publishTime"];
const MESSAGES: [&str; 5] = ["_msg", "message", "msg", "textPayload", "log"];
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

/// Appends what a record holds: objects, or lines of text; each with `members`.
fn write_content(content: &[u8], members: &[u8], out: &mut Vec<u8>) {
    let mut objects = Vec::new();
    if !content.trim_ascii().is_empty() && write_objects(content, &mut objects) {
        for object in text_lines(&objects) {
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
        return;
    }
    for line in text_lines(content) {
        out.extend_from_slice(b"{\"_msg\":");
        write_text(line, out);
        out.extend_from_slice(members);
        out.extend_from_slice(b"}\n");
    }
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

/// Lines of CloudWatch, as its subscriptions write them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CloudWatch<'b> {
    #[serde(borrow)]
    message_type: Cow<'b, str>,
    #[serde(borrow, default)]
    owner: Cow<'b, str>,
    #[serde(borrow, default)]
    log_group: Cow<'b, str>,
    #[serde(borrow, default)]
    log_stream: Cow<'b, str>,
    #[serde(borrow, default)]
    log_events: Vec<CloudWatchEvent<'b>>,
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
    common_attributes: Pairs,
}

/// Names and values; those beyond [`PAIRS_MAX`] are left out.
#[derive(Default)]
struct Pairs(Vec<(String, String)>);

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
                        None => return Ok(Pairs(pairs)),
                    }
                }
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Pairs(pairs))
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
    body.default_names(&TIMES, &MESSAGES);
    let mut members = Vec::new();
    let attributes = header(request, "x-amz-firehose-common-attributes");
    if let Some(attributes) =
        attributes.and_then(|text| serde_json::from_str::<Attributes>(text).ok())
    {
        for (name, value) in attributes.common_attributes.0 {
            member(&name, &value, &mut members);
        }
    }
    let content = body.content(BODY_BYTES_MAX).await?;
    let delivery: Delivery<'_> =
        serde_json::from_slice(&content).map_err(wrong("a delivery of Amazon Data Firehose"))?;
    let mut lines = Vec::new();
    for (index, record) in delivery.records.iter().enumerate() {
        let data = STANDARD.decode(record.data.as_bytes()).map_err(|error| {
            ApiError::bad_request(format!("the data of record {index} is not base64: {error}"))
        })?;
        let data = match data.starts_with(&[0x1f, 0x8b]) {
            false => data,
            true => body.decompress(Encoding::Gzip, &data, BODY_BYTES_MAX)?.ok_or_else(|| {
                let text = format!("record {index} has more than {BODY_BYTES_MAX} bytes");
                ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, text)
            })?,
        };
        if !write_cloudwatch(&data, &members, &mut lines) {
            write_content(&data, &members, &mut lines);
        }
        body.take(&lines).await?;
        lines.clear();
    }
    Ok(())
}

/// Appends the lines of a subscription of CloudWatch; false if the record is something else.
fn write_cloudwatch(data: &[u8], members: &[u8], out: &mut Vec<u8>) -> bool {
    let begin = out.len();
    let mut found = serde_json::Deserializer::from_slice(data).into_iter::<CloudWatch<'_>>();
    let mut is_any = false;
    for of_stream in &mut found {
        let Ok(of_stream) = of_stream else {
            out.truncate(begin);
            return false;
        };
        is_any = true;
        // CONTROL_MESSAGE asks whether the destination can be reached.
        if of_stream.message_type != "DATA_MESSAGE" {
            continue;
        }
        for event in &of_stream.log_events {
            out.extend_from_slice(b"{\"_time\":\"");
            write_time(event.timestamp.saturating_mul(1_000_000), out);
            out.extend_from_slice(b"\",\"_msg\":");
            write_text(event.message.trim_end().as_bytes(), out);
            member("logGroup", &of_stream.log_group, out);
            member("logStream", &of_stream.log_stream, out);
            member("owner", &of_stream.owner, out);
            out.extend_from_slice(members);
            out.extend_from_slice(b"}\n");
        }
    }
    is_any
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
    body.default_names(&TIMES, &MESSAGES);
    let content = body.content(BODY_BYTES_MAX).await?;
    let push: Push<'_> = serde_json::from_slice(&content).map_err(wrong("a push of Pub/Sub"))?;
    let message = push.message;
    let data = STANDARD.decode(message.data.as_bytes()).map_err(|error| {
        ApiError::bad_request(format!("the data of the message is not base64: {error}"))
    })?;
    let (mut members, mut lines) = (Vec::new(), Vec::new());
    for (name, value) in [
        ("subscription", &push.subscription),
        ("messageId", &message.message_id),
        ("publishTime", &message.publish_time),
    ] {
        if !value.is_empty() {
            member(name, value, &mut members);
        }
    }
    for (name, value) in &message.attributes.0 {
        member(&format!("attributes.{name}"), value, &mut members);
    }
    // A message may have attributes alone.
    match data.trim_ascii().is_empty() {
        true => {
            lines.extend_from_slice(b"{\"_msg\":\"\"");
            lines.extend_from_slice(&members);
            lines.extend_from_slice(b"}\n");
        }
        false => write_content(&data, &members, &mut lines),
    }
    body.take(&lines).await
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
    body.default_names(&TIMES, &MESSAGES);
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
    let (mut members, mut lines) = (Vec::new(), Vec::new());
    member("_msg", &message, &mut members);
    member("event", event, &mut members);
    if let Some(delivery) = header(request, "x-github-delivery") {
        member("delivery", delivery, &mut members);
    }
    write_content(&content, &members, &mut lines);
    body.take(&lines).await
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
