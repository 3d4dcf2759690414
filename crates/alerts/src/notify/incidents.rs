//! PagerDuty and Opsgenie: services that keep an incident for each alert, which is opened,
//! acknowledged and closed under a key of ours.
//!
//! The key is that of the rule and of the alert's labels, so a repeated event changes the incident
//! that there is. Of a notification, events are sent one after another for the alerts with news; if
//! one fails, the next attempt goes on with it, and those before count as told.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use sinks::{ClientOptions, Fault};
use text::time::format_time;

use cluster::engines::Secret;

use super::endpoint::{Endpoint, Reach};
use super::message::{Templates, cut_chars, one_line, plain};
use super::progress::Progress;
use super::{Channel, Notice, Notification, Sent};
use crate::labels::Labels;

/// Characters of the summary of an event of PagerDuty.
const SUMMARY_CHARS_MAX: usize = 1_024;
/// Characters of the message, the description and the entity of an alert of Opsgenie.
const MESSAGE_CHARS_MAX: usize = 130;
const DESCRIPTION_CHARS_MAX: usize = 15_000;
const ENTITY_CHARS_MAX: usize = 512;
/// Characters of all details together: 8,000 at Opsgenie, and far more at PagerDuty.
const DETAILS_CHARS_MAX: usize = 7_500;
/// Characters of one detail.
const DETAIL_CHARS_MAX: usize = 1_000;
/// Labels that may say where an alert comes from.
const SOURCE_LABELS: [&str; 5] = ["hostname", "host", "instance", "service", "app"];

/// How bad an alert is, by names of PagerDuty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Severity {
    Critical,
    Error,
    Warning,
    Info,
}

impl Severity {
    /// The severity of a name in a label or in the configuration; none for other names.
    pub fn parse(name: &str) -> Option<Severity> {
        match name.to_ascii_lowercase().as_str() {
            "critical" | "crit" | "page" | "fatal" | "emergency" | "alert" | "p1" => {
                Some(Severity::Critical)
            }
            "error" | "err" | "high" | "major" | "p2" => Some(Severity::Error),
            "warning" | "warn" | "medium" | "minor" | "p3" => Some(Severity::Warning),
            "info" | "notice" | "low" | "debug" | "p4" | "p5" => Some(Severity::Info),
            _ => None,
        }
    }

    fn of(notice: &Notice, otherwise: Severity) -> Severity {
        notice.labels.get("severity").and_then(|name| Severity::parse(name)).unwrap_or(otherwise)
    }

    fn of_pagerduty(self) -> &'static str {
        match self {
            Severity::Critical => "critical",
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "info",
        }
    }

    fn of_opsgenie(self) -> &'static str {
        match self {
            Severity::Critical => "P1",
            Severity::Error => "P2",
            Severity::Warning => "P3",
            Severity::Info => "P5",
        }
    }
}

/// What is done with an incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Open,
    Acknowledge,
    Close,
}

impl Action {
    fn of(notice: &Notice) -> Action {
        match (notice.is_firing, notice.is_acknowledged) {
            (false, _) => Action::Close,
            (true, true) => Action::Acknowledge,
            (true, false) => Action::Open,
        }
    }
}

/// PagerDuty, by the Events API v2.
pub struct PagerDuty {
    endpoint: Endpoint,
    key: Secret,
    severity: Severity,
    templates: Templates,
    progress: Progress,
}

impl PagerDuty {
    /// The service of `options`, with the key of an integration. Connects to nothing yet.
    ///
    /// Errors: the certificates cannot be read.
    pub fn new(
        options: &ClientOptions,
        reach: Reach,
        key: Secret,
        severity: Severity,
        templates: Templates,
    ) -> Result<PagerDuty, Fault> {
        let endpoint = Endpoint::new(options, reach, vec![key.clone()])?;
        Ok(PagerDuty { endpoint, key, severity, templates, progress: Progress::default() })
    }

    fn event(&self, notification: &Notification, notice: &Notice) -> Value {
        let action = match Action::of(notice) {
            Action::Open => "trigger",
            Action::Acknowledge => "acknowledge",
            Action::Close => "resolve",
        };
        let mut event = json!({
            "routing_key": self.key.expose(),
            "event_action": action,
            "dedup_key": key_of(notification, notice),
        });
        if action != "trigger" {
            return event;
        }
        let text = self.templates.text(notification, notice);
        let mut details = details(notice);
        details.insert("text".to_owned(), text.into());
        event["client"] = "Loginson".into();
        event["payload"] = json!({
            "summary": summary(notification, notice, &self.templates, SUMMARY_CHARS_MAX),
            "source": source(&notice.labels),
            "severity": Severity::of(notice, self.severity).of_pagerduty(),
            "timestamp": format_time(notice.starts_at_ns),
            "group": cut_chars(&one_line(&notification.group), DETAIL_CHARS_MAX),
            "class": cut_chars(&one_line(&notification.rule), DETAIL_CHARS_MAX),
            "custom_details": details,
        });
        if !notice.source_url.is_empty() {
            event["client_url"] = notice.source_url.clone().into();
            event["links"] = json!([{ "href": notice.source_url, "text": "Lines" }]);
        }
        event
    }
}

impl Channel for PagerDuty {
    fn send(&mut self, notification: &Notification) -> Sent {
        let mut progress = std::mem::take(&mut self.progress);
        let sent = progress.send_each(notification, |notice| {
            let event = self.event(notification, notice);
            self.endpoint.post("/v2/enqueue", &event)
        });
        self.progress = progress;
        sent
    }

    fn taken(&self) -> BTreeSet<usize> {
        self.progress.taken()
    }
}

/// Opsgenie, by its Alert API.
pub struct Opsgenie {
    endpoint: Endpoint,
    severity: Severity,
    templates: Templates,
    progress: Progress,
}

impl Opsgenie {
    /// The service of `options`, whose headers have the key. Connects to nothing yet.
    ///
    /// Errors: the certificates cannot be read.
    pub fn new(
        options: &ClientOptions,
        reach: Reach,
        key: Secret,
        severity: Severity,
        templates: Templates,
    ) -> Result<Opsgenie, Fault> {
        let endpoint = Endpoint::new(options, reach, vec![key])?;
        Ok(Opsgenie { endpoint, severity, templates, progress: Progress::default() })
    }

    fn opening(&self, notification: &Notification, notice: &Notice) -> Value {
        let mut description = self.templates.text(notification, notice);
        for part in [notice.shown_line().unwrap_or_default(), notice.source_url.clone()] {
            if !part.is_empty() {
                description = format!("{description}\n{part}");
            }
        }
        json!({
            "message": summary(notification, notice, &self.templates, MESSAGE_CHARS_MAX),
            "alias": key_of(notification, notice),
            "description": cut_chars(&description, DESCRIPTION_CHARS_MAX),
            "details": details(notice),
            "entity": cut_chars(&source(&notice.labels), ENTITY_CHARS_MAX),
            "source": "Loginson",
            "priority": Severity::of(notice, self.severity).of_opsgenie(),
        })
    }
}

impl Channel for Opsgenie {
    fn send(&mut self, notification: &Notification) -> Sent {
        let mut progress = std::mem::take(&mut self.progress);
        let sent = progress.send_each(notification, |notice| {
            let of_known = |action: &str| {
                let key = key_of(notification, notice);
                format!("/v2/alerts/{key}/{action}?identifierType=alias")
            };
            let source = json!({ "source": "Loginson" });
            let (path, body) = match Action::of(notice) {
                Action::Open => ("/v2/alerts".to_owned(), self.opening(notification, notice)),
                Action::Acknowledge => (of_known("acknowledge"), source),
                Action::Close => (of_known("close"), source),
            };
            self.endpoint.post(&path, &body)
        });
        self.progress = progress;
        sent
    }

    fn taken(&self) -> BTreeSet<usize> {
        self.progress.taken()
    }
}

/// The key of an incident: letters, digits and `-`, far fewer than the services allow.
fn key_of(notification: &Notification, notice: &Notice) -> String {
    format!("loginson-{}-{}", notification.rule_id, notice.fingerprint())
}

/// What the incident is called: the `summary` of the alert, or else the subject.
fn summary(
    notification: &Notification,
    notice: &Notice,
    templates: &Templates,
    chars_max: usize,
) -> String {
    let one = Notification {
        rule_id: notification.rule_id.clone(),
        rule: notification.rule.clone(),
        group: notification.group.clone(),
        alerts: vec![notice.clone()],
        left_out: Vec::new(),
        time_ns: notification.time_ns,
    };
    let summary = match notice.annotations.get("summary") {
        Some(summary) if !summary.trim().is_empty() && !templates.has_subject() => {
            format!("{}: {summary}", notification.rule)
        }
        _ => templates.subject(&one),
    };
    cut_chars(one_line(&summary).trim(), chars_max)
}

fn source(labels: &Labels) -> String {
    let named = SOURCE_LABELS.iter().find_map(|name| labels.get(*name));
    let named = named.filter(|value| !value.trim().is_empty());
    named.map_or_else(|| "Loginson".to_owned(), |value| cut_chars(&one_line(value), 255))
}

/// Labels, annotations, value and line, as far as there is room.
fn details(notice: &Notice) -> Map<String, Value> {
    let mut details = Map::new();
    let mut left = DETAILS_CHARS_MAX;
    let value = [("value".to_owned(), notice.value.to_string())];
    let line = notice.shown_line().map(|line| ("line".to_owned(), line));
    let pairs = notice.annotations.iter().chain(&notice.labels);
    let pairs = pairs.map(|(name, value)| (one_line(name), plain(value)));
    for (name, value) in value.into_iter().chain(line).chain(pairs) {
        let value = cut_chars(&value, DETAIL_CHARS_MAX);
        let chars = name.chars().count() + value.chars().count();
        if chars <= left && !details.contains_key(&name) {
            left -= chars;
            details.insert(name, value.into());
        }
    }
    details
}
