//! Microsoft Teams, by the webhook of a workflow: one Adaptive Card for each notification.
//!
//! Texts of alerts are `TextRun`s, which cards show as they are; a `TextBlock` would read them as
//! Markdown. A mention needs an entry in `msteams.entities`, and there is none.
//!
//! Left out: the old connectors of Office 365, which take another format and are switched off.

use serde_json::{Value, json};
use sinks::{ClientOptions, Fault};

use super::endpoint::{Endpoint, Reach};
use super::message::Templates;
use super::{Channel, Notice, Notification, Sent};

/// Bytes of a message. Teams refuses those of more than 28 KB.
const MESSAGE_BYTES_MAX: usize = 24_000;
/// Lines of the text of an alert that stay lines; the others are put into one.
const LINES_MAX: usize = 20;

/// Posts cards to one workflow.
pub struct Teams {
    endpoint: Endpoint,
    templates: Templates,
}

impl Teams {
    /// The workflow of `options`. Connects to nothing yet.
    ///
    /// Errors: the certificates cannot be read.
    pub fn new(
        options: &ClientOptions,
        reach: Reach,
        templates: Templates,
    ) -> Result<Teams, Fault> {
        Ok(Teams { endpoint: Endpoint::new(options, reach, Vec::new())?, templates })
    }
}

impl Channel for Teams {
    fn send(&mut self, notification: &Notification) -> Sent {
        self.endpoint.post("", &message(notification, &self.templates))
    }
}

fn message(notification: &Notification, templates: &Templates) -> Value {
    let subject = templates.subject(notification);
    notification.fitting(MESSAGE_BYTES_MAX, |shown, rest| {
        let colour = if notification.is_firing() { "attention" } else { "good" };
        let mut body = vec![text(json!({
            "type": "TextRun", "text": subject, "weight": "bolder", "size": "medium",
            "color": colour,
        }))];
        for notice in shown {
            body.extend(alert(notification, notice, templates));
        }
        if rest > 0 {
            let left_out = format!("{rest} more alerts are left out.");
            body.push(text(json!({ "type": "TextRun", "text": left_out, "isSubtle": true })));
        }
        let urls = shown.iter().map(|notice| &notice.source_url).filter(|url| !url.is_empty());
        let open = |url: &String| json!({ "type": "Action.OpenUrl", "title": "Lines", "url": url });
        // All alerts of a rule have its query, and those that are shown begin with the newest.
        let actions: Vec<Value> = urls.take(1).map(open).collect();
        json!({
            "type": "message",
            "attachments": [{
                "contentType": "application/vnd.microsoft.card.adaptive",
                "contentUrl": null,
                "content": {
                    "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                    "type": "AdaptiveCard",
                    "version": "1.4",
                    "msteams": { "width": "Full" },
                    "body": body,
                    "actions": actions,
                },
            }],
        })
    })
}

fn alert(notification: &Notification, notice: &Notice, templates: &Templates) -> Vec<Value> {
    let shown = templates.text(notification, notice);
    let mut lines: Vec<&str> = shown.lines().filter(|line| !line.is_empty()).collect();
    // Each block takes some of the message, whose length is limited.
    let rest = lines.split_off(lines.len().min(LINES_MAX)).join(" ");
    lines.extend(Some(rest.as_str()).filter(|rest| !rest.is_empty()));
    let of = |line: &&str| text(json!({ "type": "TextRun", "text": line }));
    let mut blocks: Vec<Value> = lines.iter().map(of).collect();
    if let Some(line) = notice.shown_line() {
        let run = json!({ "type": "TextRun", "text": line, "fontType": "monospace" });
        blocks.push(text(run));
    }
    if let Some(first) = blocks.first_mut() {
        first["separator"] = true.into();
    }
    blocks
}

fn text(run: Value) -> Value {
    json!({ "type": "RichTextBlock", "inlines": [run] })
}
