//! Slack, by an incoming webhook: one message for each notification.
//!
//! Texts of alerts stand in elements of a `rich_text` block, which Slack shows as they are: neither
//! `*` nor `<!channel>` mean anything there. The `text` beside it, which Slack shows where it has
//! no room for blocks, has `&`, `<` and `>` escaped, as Slack's documentation demands for data.
//!
//! Left out: threads, updates of earlier messages and other channels than that of the webhook,
//! which need a token of a bot.

use serde_json::{Value, json};
use sinks::{ClientOptions, Fault};

use super::endpoint::{Endpoint, Reach};
use super::message::Templates;
use super::{Channel, Notice, Notification, Sent};

/// Bytes of a message. Slack refuses blocks that are longer than about 13,000 characters.
const MESSAGE_BYTES_MAX: usize = 12_000;

/// Posts messages to one webhook.
pub struct Slack {
    endpoint: Endpoint,
    templates: Templates,
}

impl Slack {
    /// The webhook of `options`. Connects to nothing yet.
    ///
    /// Errors: the certificates cannot be read.
    pub fn new(
        options: &ClientOptions,
        reach: Reach,
        templates: Templates,
    ) -> Result<Slack, Fault> {
        Ok(Slack { endpoint: Endpoint::new(options, reach, Vec::new())?, templates })
    }
}

impl Channel for Slack {
    fn send(&mut self, notification: &Notification) -> Sent {
        self.endpoint.post("", &message(notification, &self.templates))
    }
}

fn message(notification: &Notification, templates: &Templates) -> Value {
    let subject = templates.subject(notification);
    notification.fitting(MESSAGE_BYTES_MAX, |shown, rest| {
        let mut elements = vec![section(json!([
            { "type": "text", "text": subject, "style": { "bold": true } }
        ]))];
        for notice in shown {
            elements.extend(alert(notification, notice, templates));
        }
        if rest > 0 {
            let text = format!("{rest} more alerts are left out.");
            elements.push(section(json!([{ "type": "text", "text": text }])));
        }
        json!({
            "text": escaped(&subject),
            "mrkdwn": false,
            "unfurl_links": false,
            "blocks": [{ "type": "rich_text", "elements": elements }],
        })
    })
}

fn alert(notification: &Notification, notice: &Notice, templates: &Templates) -> Vec<Value> {
    let mut inline = vec![json!({
        "type": "text",
        "text": format!("\n{}\n", templates.text(notification, notice)),
    })];
    if !notice.source_url.is_empty() {
        inline.push(json!({ "type": "link", "url": notice.source_url, "text": "Lines" }));
    }
    let mut elements = vec![section(Value::Array(inline))];
    if let Some(line) = notice.shown_line() {
        elements.push(json!({
            "type": "rich_text_preformatted",
            "elements": [{ "type": "text", "text": line }],
        }));
    }
    elements
}

fn section(elements: Value) -> Value {
    json!({ "type": "rich_text_section", "elements": elements })
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
