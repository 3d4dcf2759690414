//! Notifiers: who is told about alerts.
//!
//! After each evaluation, [`due`] decides for each notifier whether there is anything to tell about
//! a rule: an alert began to fire, or ended, or fires for so long that it is told again. Then one
//! [`Notification`] with all its firing alerts goes into the queue of the notifier. Of a rule, one
//! notification at most is in the queue or on its way, and its alerts count as told only once it
//! was delivered: what was lost by a crash, or given up after some attempts, is due again with the
//! state of then. So a notifier that cannot be reached for hours gets no backlog of old news.

mod alertmanager;
mod config;
mod email;
mod keys;
mod queue;
mod webhook;

use std::time::Duration;

use sinks::Fault;
use text::duration::ns;

use crate::alert::{Alert, State};
use crate::labels::{Labels, fingerprint};
use crate::matcher::Matcher;
use crate::rule::{Group, Rule};
use crate::silence::Silences;

pub use config::{
    AlertmanagerConfig, EmailConfig, NotifierConfig, NotifierOptions, WebhookConfig, check_names,
};
pub use keys::ConfigError;
pub use queue::{Counts, Delivery, LastError, Notifier};

/// Alerts of one notification; those beyond are counted in it.
///
/// limits.md, Alerts: alerts of a notification | {} | the rest is counted in it
const ALERTS_MAX: usize = 500;

/// What a test calls itself.
const TEST_NAME: &str = "LoginsonTest";
/// How long the alert of a test counts as firing.
const TEST_LASTS: Duration = Duration::from_secs(60);

/// What a notifier is told about one rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Notification {
    /// The id of the rule.
    pub rule_id: String,
    /// The name of the rule.
    pub rule: String,
    /// The name of its group.
    pub group: String,
    /// The alerts: those that fire, and those that ended since the last notification.
    pub alerts: Vec<Notice>,
    /// How many more there are.
    pub left_out: usize,
    /// The time of the evaluation, in nanoseconds since 1970.
    pub time_ns: i64,
}

/// One alert of a notification. Times are in nanoseconds since 1970.
#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    /// The labels.
    pub labels: Labels,
    /// The annotations.
    pub annotations: Labels,
    /// Whether it fires; otherwise it ended.
    pub is_firing: bool,
    /// When it began to fire.
    pub starts_at_ns: i64,
    /// When it ended; of one that fires, until when it counts as firing unless it is told again.
    pub ends_at_ns: i64,
    /// The value of the last evaluation.
    pub value: f64,
    /// A link to the query of the rule; empty if the address of the page is not known.
    pub source_url: String,
}

impl Notice {
    /// The id of the alert.
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.labels)
    }
}

impl Notification {
    /// One that says it is a test. Its alert ends by itself after a minute.
    pub fn test(notifier: &str, external_url: &str, time_ns: i64) -> Notification {
        let pairs = |pairs: [(&str, &str); 2]| -> Labels {
            pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        let summary = format!("A test of the notifier {notifier} of Loginson. Nothing is wrong.");
        let notice = Notice {
            labels: pairs([("alertname", TEST_NAME), ("notifier", notifier)]),
            annotations: pairs([("summary", &summary), ("description", &summary)]),
            is_firing: true,
            starts_at_ns: time_ns,
            ends_at_ns: time_ns.saturating_add(ns(TEST_LASTS)),
            value: 0.0,
            source_url: external_url.to_owned(),
        };
        Notification {
            rule_id: TEST_NAME.to_owned(),
            rule: TEST_NAME.to_owned(),
            group: "test".to_owned(),
            alerts: vec![notice],
            left_out: 0,
            time_ns,
        }
    }

    /// Whether any alert fires.
    pub fn is_firing(&self) -> bool {
        self.alerts.iter().any(|notice| notice.is_firing)
    }
}

/// Sends notifications to one receiver.
pub trait Channel: Send {
    /// Sends a notification. May block up to the time limits of the channel.
    fn send(&mut self, notification: &Notification) -> Sent;
}

/// What became of a notification.
#[derive(Debug, Clone, PartialEq)]
pub enum Sent {
    /// The receiver has it.
    Accepted,
    /// The receiver will never take it.
    Refused(Fault),
    /// It may be taken later.
    Failed {
        /// Why.
        fault: Fault,
        /// How long the receiver asked to wait.
        retry_after: Option<Duration>,
    },
}

/// Which alerts a notifier is told about, and how often.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// The name of the notifier.
    pub name: String,
    /// Conditions on the labels, which all have to match.
    pub matchers: Vec<Matcher>,
    /// After which time an alert that still fires is told again.
    pub repeat_interval: Duration,
    /// Whether the end of an alert is told.
    pub sends_resolved: bool,
}

/// What a notifier is to be told about a rule after an evaluation at `time_ns`; `None` if there is
/// no news.
pub fn due<'a>(
    policy: &Policy,
    group: &Group,
    rule: &Rule,
    alerts: impl Iterator<Item = &'a Alert>,
    silences: &Silences,
    time_ns: i64,
    external_url: &str,
) -> Option<Notification> {
    let mut has_news = false;
    let mut notices = Vec::new();
    let mut left_out = 0;
    // Whoever hears nothing for this long takes an alert for ended, as in Prometheus.
    let valid_ns = ns(policy.repeat_interval.max(group.interval)).saturating_mul(4);
    for alert in alerts.filter(|alert| alert.state != State::Pending) {
        let told = alert.told.get(&policy.name);
        let is_firing = alert.state == State::Firing;
        let is_new = is_firing != told.is_some_and(|told| told.is_firing);
        let is_wanted = is_firing || is_new && policy.sends_resolved;
        if !is_wanted
            || !policy.matchers.iter().all(|matcher| matcher.matches(&alert.labels))
            || !silences.of(&alert.labels, time_ns).is_empty()
        {
            continue;
        }
        let is_repeated = told.is_some_and(|told| {
            // A clock that jumped back does not put repetitions off.
            time_ns.saturating_sub(told.at_ns).saturating_abs() >= ns(policy.repeat_interval)
        });
        has_news |= is_new || is_repeated;
        if notices.len() == ALERTS_MAX {
            left_out += 1;
            continue;
        }
        notices.push(Notice {
            labels: alert.labels.clone(),
            annotations: alert.annotations.clone(),
            is_firing,
            starts_at_ns: alert.fired_at_ns.unwrap_or(alert.active_at_ns),
            ends_at_ns: match alert.resolved_at_ns {
                Some(resolved_at_ns) if !is_firing => resolved_at_ns,
                _ => time_ns.saturating_add(valid_ns),
            },
            value: alert.value,
            source_url: source_url(external_url, &rule.expr),
        });
    }
    has_news.then(|| Notification {
        rule_id: rule.id.clone(),
        rule: rule.name.clone(),
        group: group.name.clone(),
        alerts: notices,
        left_out,
        time_ns,
    })
}

fn source_url(external_url: &str, expr: &str) -> String {
    match external_url {
        "" => String::new(),
        url => {
            let query: String = form_urlencoded::byte_serialize(expr.as_bytes()).collect();
            format!("{url}/?query={query}")
        }
    }
}

#[cfg(test)]
mod tests;
