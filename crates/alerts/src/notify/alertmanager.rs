//! Alertmanager of Prometheus, by version 2 of its API.
//!
//! Alertmanager takes an alert for ended when it was not told again before `endsAt`, so a notifier
//! of it repeats alerts each minute. It also decides who is told: groups, routes and mails are its.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sinks::{ClientOptions, Fault};
use text::time::format_time;

use super::endpoint::{Endpoint, Reach};
use super::progress::Progress;
use super::{ALERTS_MAX, Channel, Notice, Notification, Sent};
use crate::labels::Labels;

/// One server with Alertmanager's API.
pub struct Alertmanager {
    endpoint: Endpoint,
    progress: Progress,
}

impl Alertmanager {
    /// The server of `options`. Connects to nothing yet.
    pub fn new(options: &ClientOptions, reach: Reach) -> Result<Alertmanager, Fault> {
        let endpoint = Endpoint::new(options, reach, Vec::new())?;
        Ok(Alertmanager { endpoint, progress: Progress::default() })
    }
}

impl Channel for Alertmanager {
    fn send(&mut self, notification: &Notification) -> Sent {
        let Alertmanager { endpoint, progress } = self;
        progress.send(notification, ALERTS_MAX, |notices| {
            endpoint.post("/api/v2/alerts", &body(notices))
        })
    }

    fn taken(&self) -> BTreeSet<usize> {
        self.progress.taken()
    }
}

fn body(notices: &[&Notice]) -> Value {
    let alerts = notices.iter().map(|notice| {
        json!({
            "labels": with_known_names(&notice.labels),
            "annotations": with_known_names(&notice.annotations_with_line()),
            "startsAt": format_time(notice.starts_at_ns),
            "endsAt": format_time(notice.ends_at_ns),
            "generatorURL": notice.source_url,
        })
    });
    alerts.collect()
}

/// Alertmanager refuses names with other characters than letters, digits and `_`, which fields of
/// log lines often have: `kubernetes.pod` becomes `kubernetes_pod`.
fn with_known_names(labels: &Labels) -> Labels {
    let known = |name: &String| {
        let is_known = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let name: String = name.chars().map(|c| if is_known(c) { c } else { '_' }).collect();
        if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name }
    };
    // A label that has its name from the start stands before one that gets it.
    let mut all: Labels = labels.iter().map(|(name, value)| (known(name), value.clone())).collect();
    let kept = labels.iter().filter(|(name, _)| known(name) == **name);
    all.extend(kept.map(|(name, value)| (name.clone(), value.clone())));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_alertmanager_takes() {
        let labels: Labels = [("a.b", "1"), ("a_b", "2"), ("9é", "3"), ("ok", "{{x}}\n")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let shown = serde_json::to_string(&with_known_names(&labels)).unwrap();
        assert_eq!(shown, r#"{"_9_":"3","a_b":"2","ok":"{{x}}\n"}"#);
    }
}
