//! Webhooks: the payload that Alertmanager sends to its receivers, version 4.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sinks::{ClientOptions, Fault};
use text::time::format_time;

use super::endpoint::{Endpoint, Reach};
use super::{Channel, Notice, Notification, Sent};
use crate::labels::Labels;

/// What Alertmanager writes for a time that is not known yet.
const NO_TIME: &str = "0001-01-01T00:00:00Z";

/// Posts notifications to one address.
pub struct Webhook {
    endpoint: Endpoint,
    receiver: String,
    external_url: String,
}

impl Webhook {
    /// A webhook; `options` has the whole address. Connects to nothing yet.
    ///
    /// Errors: the certificates cannot be read.
    pub fn new(
        options: &ClientOptions,
        reach: Reach,
        receiver: String,
        external_url: String,
    ) -> Result<Webhook, Fault> {
        let endpoint = Endpoint::new(options, reach, Vec::new())?;
        Ok(Webhook { endpoint, receiver, external_url })
    }
}

impl Channel for Webhook {
    fn send(&mut self, notification: &Notification) -> Sent {
        self.endpoint.post("", &payload(notification, &self.receiver, &self.external_url))
    }
}

fn payload(notification: &Notification, receiver: &str, external_url: &str) -> Value {
    let status = |is_firing: bool| if is_firing { "firing" } else { "resolved" };
    let alert = |notice: &Notice| {
        json!({
            "status": status(notice.is_firing),
            "labels": notice.labels,
            "annotations": notice.annotations_with_line(),
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
        "truncatedAlerts": notification.left_out.len(),
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
