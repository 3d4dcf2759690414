//! Webhooks: the payload that Alertmanager sends to its receivers, version 4.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sinks::{Client, ClientOptions, Fault, Method, Request, Trouble};
use text::time::format_time;

use super::{Channel, Notice, Notification, Sent};
use crate::labels::Labels;

/// What Alertmanager writes for a time that is not known yet.
const NO_TIME: &str = "0001-01-01T00:00:00Z";

/// Posts notifications to one address.
pub struct Webhook {
    client: Client,
    /// The address, which often holds a secret in its path.
    url: String,
    receiver: String,
    external_url: String,
}

impl Webhook {
    /// A webhook; `options` has the whole address. Connects to nothing yet.
    pub fn new(
        options: &ClientOptions,
        receiver: String,
        external_url: String,
    ) -> Result<Webhook, Fault> {
        let url = options.urls.concat();
        Ok(Webhook { client: Client::new(options)?, url, receiver, external_url })
    }
}

impl Channel for Webhook {
    fn send(&mut self, notification: &Notification) -> Sent {
        let body = payload(notification, &self.receiver, &self.external_url);
        let hide = |fault: Fault| Fault {
            what: fault.what.replace(&self.url, server(&self.url)),
            remedy: fault.remedy,
        };
        match post(&mut self.client, "", &body) {
            Sent::Accepted => Sent::Accepted,
            Sent::Refused(fault) => Sent::Refused(hide(fault)),
            Sent::Failed { fault, retry_after } => Sent::Failed { fault: hide(fault), retry_after },
        }
    }
}

/// Posts a JSON document, and judges the answer.
pub fn post(client: &mut Client, path: &str, body: &Value) -> Sent {
    let body = body.to_string();
    let request = Request {
        method: Method::Post,
        path,
        content_type: "application/json",
        encoding: sinks::Encoding::Plain,
        body: body.as_bytes(),
    };
    let reply = match client.send(request) {
        Ok(reply) => reply,
        Err(Trouble::TimedOut(fault) | Trouble::Broken(fault)) => {
            return Sent::Failed { fault, retry_after: None };
        }
    };
    let text: String = client.redacted(&reply.body).chars().take(300).collect();
    let what = format!("{} answered {}: {}", server(&reply.url), reply.status, text.trim());
    match reply.status {
        200..=299 => Sent::Accepted,
        408 | 429 | 500.. => {
            Sent::Failed { fault: Fault::new(what, ""), retry_after: reply.retry_after }
        }
        401 | 403 => Sent::Failed {
            fault: Fault::new(what, "correct the token or password of the notifier"),
            retry_after: reply.retry_after,
        },
        404 | 405 => Sent::Failed {
            fault: Fault::new(what, "correct the address of the notifier"),
            retry_after: reply.retry_after,
        },
        _ => Sent::Refused(Fault::new(what, "the receiver does not take this notification")),
    }
}

/// The address without what may hold a secret: a webhook often has one in its path.
fn server(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?']).map_or(url.len(), |at| start + at);
    &url[..end]
}

fn payload(notification: &Notification, receiver: &str, external_url: &str) -> Value {
    let status = |is_firing: bool| if is_firing { "firing" } else { "resolved" };
    let alert = |notice: &Notice| {
        json!({
            "status": status(notice.is_firing),
            "labels": notice.labels,
            "annotations": notice.annotations,
            "startsAt": format_time(notice.starts_at_ns),
            "endsAt": if notice.is_firing { NO_TIME.into() } else { format_time(notice.ends_at_ns) },
            "generatorURL": notice.source_url,
            "fingerprint": notice.fingerprint(),
        })
    };
    let alerts = &notification.alerts;
    json!({
        "version": "4",
        "groupKey": notification.rule_id,
        "truncatedAlerts": notification.left_out,
        "status": status(notification.is_firing()),
        "receiver": receiver,
        "groupLabels": { "alertgroup": notification.group, "alertname": notification.rule },
        "commonLabels": common(alerts.iter().map(|notice| &notice.labels)),
        "commonAnnotations": common(alerts.iter().map(|notice| &notice.annotations)),
        "externalURL": external_url,
        "alerts": alerts.iter().map(alert).collect::<Vec<Value>>(),
    })
}

/// What all of them have alike.
fn common<'a>(mut all: impl Iterator<Item = &'a Labels>) -> BTreeMap<&'a str, &'a str> {
    let first = all.next().into_iter().flatten();
    let mut common: BTreeMap<&str, &str> =
        first.map(|(name, value)| (name.as_str(), value.as_str())).collect();
    for labels in all {
        common.retain(|name, value| labels.get(*name).is_some_and(|other| other == value));
    }
    common
}
