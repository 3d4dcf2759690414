//! Matrix: one message for each notification into one room, by the client-server API.
//!
//! The message has a plain body and no formatted one. Its empty `m.mentions` says that nobody is
//! mentioned, whatever names the text has; servers before version 1.7 of the specification look
//! for `@room` in the text, so it is broken up. The id of the transaction is that of the
//! notification, so that a repeated attempt makes no second message.
//!
//! Left out: encrypted rooms, whose keys a bot would have to keep.

use serde_json::json;
use sinks::{ClientOptions, Fault, Method};

use super::endpoint::{Endpoint, Reach};
use super::message::Templates;
use super::{Channel, Notification, Sent};
use crate::labels::id_of;

/// Bytes of a body. An event has at most 65,536 bytes, of which the escapes of JSON are a part.
const BODY_BYTES_MAX: usize = 24 << 10;

/// Sends messages into one room.
pub struct Matrix {
    endpoint: Endpoint,
    /// The start of the path: up to the id of the transaction.
    path: String,
    templates: Templates,
}

impl Matrix {
    /// The homeserver of `options`, and the id of a room. Connects to nothing yet.
    ///
    /// Errors: the certificates cannot be read.
    pub fn new(
        options: &ClientOptions,
        reach: Reach,
        room: &str,
        templates: Templates,
    ) -> Result<Matrix, Fault> {
        let path = format!("/_matrix/client/v3/rooms/{}/send/m.room.message/", encoded(room));
        Ok(Matrix { endpoint: Endpoint::new(options, reach, Vec::new())?, path, templates })
    }
}

impl Channel for Matrix {
    fn send(&mut self, notification: &Notification) -> Sent {
        let text = format!(
            "{}\n\n{}",
            self.templates.subject(notification),
            notification.plain_message(&self.templates, BODY_BYTES_MAX, true)
        );
        let body = json!({
            "msgtype": "m.text",
            "body": text.replace("@room", "@\u{2060}room"),
            "m.mentions": {},
        });
        let transaction =
            id_of([notification.rule_id.as_str(), &notification.time_ns.to_string(), &self.path]);
        self.endpoint.send(Method::Put, &format!("{}{transaction}", self.path), &body)
    }
}

/// `text` as a segment of a path.
fn encoded(text: &str) -> String {
    let mut path = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                path.push(char::from(byte));
            }
            byte => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}
