//! JSON lines over HTTP, among them another Loginson.
//!
//! A success means that the whole request was taken. The receiver of a request whose answer was
//! lost gets its documents again: they carry their id in a field, so that the receiver can tell.
//! Another Loginson says how many lines from the start it kept when a request fails in the middle;
//! these are not sent again.
//!
//! A deletion is a line with the id and `"deleted": true`, which the receiver carries out or keeps.
//! Without a field for the id it is ignored.

use serde::Deserialize;

use crate::destination::{Delivered, Destination, Fault, Outcome};
use crate::document::Document;
use crate::http::compress::Encoding;
use crate::http::{Client, ClientOptions, Method, Reply, Request, judge};

/// Options of the destination.
#[derive(Debug, Clone)]
pub struct JsonLinesOptions {
    /// The servers, with their paths.
    pub client: ClientOptions,
    /// Appended to the address: empty, or `?` and parameters.
    pub query: String,
    /// The field that gets the document's id; `None` to leave it out.
    pub id_field: Option<String>,
    /// The field that gets the document's time.
    pub time_field: String,
    /// Bytes of a request before compression. A larger document is rejected.
    pub body_bytes_max: usize,
    /// How requests are compressed.
    pub encoding: Encoding,
    /// The media type of requests.
    pub content_type: String,
    /// Statuses that say that a document will never be taken.
    pub rejecting: Vec<u16>,
    /// What the receiver is.
    pub receiver: Receiver,
}

/// What receives the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receiver {
    /// Any server that answers with a status from 200 to 299 when it has taken all lines.
    Any,
    /// Another Loginson, at `/insert/jsonline`.
    Loginson,
}

/// The destination.
pub struct JsonLines {
    client: Client,
    options: JsonLinesOptions,
}

/// What Loginson answers, also in errors.
#[derive(Deserialize)]
struct Kept {
    /// Lines from the start that are durable.
    lines: u64,
}

impl JsonLines {
    /// A destination that connects with the first documents.
    pub fn new(options: JsonLinesOptions) -> Result<JsonLines, Fault> {
        Ok(JsonLines { client: Client::new(&options.client)?, options })
    }

    /// What a response says about the `count` lines of its request.
    fn judge(&self, reply: &Reply, count: usize) -> Delivered {
        let kept = match self.options.receiver {
            Receiver::Any => None,
            Receiver::Loginson => serde_json::from_str::<Kept>(&reply.body).ok(),
        };
        let kept = kept.map(|kept| usize::try_from(kept.lines).unwrap_or(count).min(count));
        let Some(failure) = judge::failure(&self.client, reply, &self.options.rejecting) else {
            if self.options.receiver == Receiver::Loginson && kept != Some(count) {
                let what = format!(
                    "{}, which does not confirm {count} lines",
                    judge::describe(&self.client, reply)
                );
                let remedy = "check that the address is that of Loginson itself";
                return Delivered::unavailable(Fault::new(what, remedy));
            }
            return Delivered::accepted(count);
        };
        let Some(kept) = kept.filter(|kept| *kept > 0) else { return failure };
        let (fault, retry_after) = match failure {
            Delivered::Unavailable { fault, retry_after } => (fault, retry_after),
            Delivered::Refused(fault) | Delivered::TimedOut(fault) => (fault, None),
            answered @ Delivered::Answered { .. } => return answered,
        };
        let mut outcomes = vec![Outcome::Accepted; kept];
        outcomes.resize(count, Outcome::Retry(fault));
        Delivered::Answered { outcomes, retry_after }
    }
}

impl Destination for JsonLines {
    fn deliver(&mut self, documents: &[Document]) -> Delivered {
        let (time_field, id_field) = (&self.options.time_field, self.options.id_field.as_deref());
        let mut body = Vec::new();
        let mut outcomes = Vec::new();
        for document in documents {
            let start = body.len();
            let outcome = document.write_line(time_field, id_field, &mut body);
            if body.len() > self.options.body_bytes_max {
                if outcomes.is_empty() {
                    let bytes = body.len();
                    return too_large(bytes, self.options.body_bytes_max);
                }
                body.truncate(start);
                break;
            }
            outcomes.push(outcome);
        }
        let count = outcomes.iter().filter(|outcome| **outcome == Outcome::Accepted).count();
        if count == 0 {
            return Delivered::Answered { outcomes, retry_after: None };
        }
        let body = self.options.encoding.encode(body);
        let sent = self.client.send(Request {
            method: Method::Post,
            path: &self.options.query,
            content_type: &self.options.content_type,
            encoding: self.options.encoding,
            body: &body,
        });
        match sent {
            Ok(reply) => self.judge(&reply, count).with_ignored(outcomes),
            Err(trouble) => trouble.into(),
        }
    }
}

/// The first document alone is larger than a request may be.
pub(crate) fn too_large(bytes: usize, bytes_max: usize) -> Delivered {
    let reason = format!("the document has {bytes} bytes, more than body_bytes_max ({bytes_max})");
    Delivered::Answered { outcomes: vec![Outcome::Rejected(reason)], retry_after: None }
}
