//! ntfy: one message for each notification, published as JSON.
//!
//! The message is plain text, since `markdown` is not set. A longer one than ntfy takes would
//! become an attachment, so it is cut before.

use serde_json::json;
use sinks::{ClientOptions, Fault};

use super::endpoint::{Endpoint, Reach};
use super::message::Templates;
use super::{Channel, Notification, Sent};

/// Bytes of a message: ntfy's limit is 4,096.
const MESSAGE_BYTES_MAX: usize = 3_900;
/// The priority of alerts that fire, unless the configuration says another: `high`.
pub const FIRING_PRIORITY: u8 = 4;
/// The priority of alerts that ended: `default`.
const RESOLVED_PRIORITY: u8 = 3;

/// Publishes to one topic.
pub struct Ntfy {
    endpoint: Endpoint,
    topic: String,
    priority: u8,
    templates: Templates,
}

impl Ntfy {
    /// The server of `options`. Connects to nothing yet.
    ///
    /// Errors: the certificates cannot be read.
    pub fn new(
        options: &ClientOptions,
        reach: Reach,
        topic: String,
        priority: u8,
        templates: Templates,
    ) -> Result<Ntfy, Fault> {
        let endpoint = Endpoint::new(options, reach, Vec::new())?;
        Ok(Ntfy { endpoint, topic, priority, templates })
    }
}

impl Channel for Ntfy {
    fn send(&mut self, notification: &Notification) -> Sent {
        let (priority, tag) = match notification.is_firing() {
            true => (self.priority, "rotating_light"),
            false => (RESOLVED_PRIORITY.min(self.priority), "white_check_mark"),
        };
        let mut body = json!({
            "topic": self.topic,
            "title": self.templates.subject(notification),
            "message": notification.plain_message(&self.templates, MESSAGE_BYTES_MAX, false),
            "priority": priority,
            "tags": [tag],
        });
        let (shown, _) = notification.shown();
        let url = shown.first().map_or("", |notice| notice.source_url.as_str());
        if !url.is_empty() {
            body["click"] = url.into();
        }
        self.endpoint.post("", &body)
    }
}
