//! Notifiers: who is told about alerts.
//!
//! After each evaluation, [`due`] decides for each notifier whether there is anything to tell about
//! a rule: an alert began to fire, or ended, or fires for so long that it is told again. Then one
//! [`Notification`] with all its firing alerts goes into the queue of the notifier. Of a rule, one
//! notification at most is in the queue or on its way, and its alerts count as told only once the
//! receiver took it: what was lost by a crash, refused, or given up after some attempts, is due
//! again with the state of then. So a notifier that cannot be reached for hours gets no backlog of
//! old news.
//!
//! A notification may arrive although its answer does not. So the end of an alert is told to
//! whoever was sent that it fires, whether that counts as told or not ([`crate::Told`]).
//!
//! Alertmanager and services of incidents keep each alert by itself: they are told those with news
//! and no others, all of them, in as many requests as that takes. A message to people has at most
//! [`ALERTS_MAX`], and the number of the others.

mod alertmanager;
mod config;
mod email;
mod endpoint;
mod incidents;
mod keys;
mod matrix;
mod message;
mod ntfy;
mod progress;
mod queue;
mod receiver;
mod slack;
mod smtp;
mod tables;
mod teams;
mod webhook;

use std::collections::BTreeSet;
use std::time::Duration;

use sinks::Fault;
use text::duration::ns;
use text::time::format_time;

use crate::alert::{Alert, State, Told};
use crate::labels::{Labels, fingerprint};
use crate::matcher::Matcher;
use crate::rule::{Group, Rule};
use crate::silence::{Covered, Silences};

pub use config::{NotifierConfig, check_names};
pub use email::Mail;
pub use endpoint::Reach;
pub use keys::{ConfigError, Secrets};
pub use queue::{Counts, Delivery, LastError, Notifier};
pub use receiver::NotifierOptions;

use message::{LINE_CHARS_MAX, SHOWN_MAX, Templates, cut_chars, plain};

/// Alerts of one notification to people or a webhook; those beyond are counted in it.
///
/// limits.md, Alerts: alerts of a notification to people or a webhook | {} | those with news come
/// first; the rest is counted in it, and counts as told
const ALERTS_MAX: usize = 500;

/// The longest range of time that the link of an alert has; the end of a longer one is shown.
const LINK_RANGE_MAX: Duration = Duration::from_secs(24 * 3600);

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
    /// Those for which there was no room. They are counted in it, and count as told with it.
    pub left_out: Vec<LeftOut>,
    /// The time of the evaluation, in nanoseconds since 1970.
    pub time_ns: i64,
}

/// An alert that a notification counts and does not show.
#[derive(Debug, Clone, PartialEq)]
pub struct LeftOut {
    /// The labels.
    pub labels: Labels,
    /// Whether it fires; otherwise it ended.
    pub is_firing: bool,
    /// Whether somebody said to work on it.
    pub is_acknowledged: bool,
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
    /// A link to the query of the rule and to the time of the alert; empty if the address of the
    /// page is not known.
    pub source_url: String,
    /// Whether the receiver is to be told about it now: it began, ended, was acknowledged, or is to
    /// be told again. The others of a notification are told beside it.
    pub is_due: bool,
    /// Whether somebody said to work on it.
    pub is_acknowledged: bool,
    /// A line of those that the alert is about, if the receiver wants one.
    pub line: Option<String>,
}

impl Notice {
    /// The id of the alert.
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.labels)
    }

    /// The line, as far as messages show it.
    fn shown_line(&self) -> Option<String> {
        let line = self.line.as_deref().map(|line| cut_chars(&plain(line), LINE_CHARS_MAX));
        line.filter(|line| !line.trim().is_empty())
    }

    /// The annotations, and the line under the name `line`.
    fn annotations_with_line(&self) -> Labels {
        let mut annotations = self.annotations.clone();
        if let Some(line) = self.shown_line() {
            annotations.entry("line".to_owned()).or_insert(line);
        }
        annotations
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
            is_due: true,
            is_acknowledged: false,
            line: None,
        };
        Notification {
            rule_id: TEST_NAME.to_owned(),
            rule: TEST_NAME.to_owned(),
            group: "test".to_owned(),
            alerts: vec![notice],
            left_out: Vec::new(),
            time_ns,
        }
    }

    /// Whether any alert fires.
    pub fn is_firing(&self) -> bool {
        self.firing() > 0
    }

    /// How many alerts fire, those that are left out among them.
    fn firing(&self) -> usize {
        let left_out = self.left_out.iter().filter(|one| one.is_firing).count();
        self.alerts.iter().filter(|notice| notice.is_firing).count() + left_out
    }

    /// How many alerts ended, those that are left out among them.
    fn resolved(&self) -> usize {
        self.alerts.len() + self.left_out.len() - self.firing()
    }

    /// The alerts that a message shows, those with news first, and how many there are beside.
    fn shown(&self) -> (Vec<&Notice>, usize) {
        let mut shown: Vec<&Notice> = self.alerts.iter().collect();
        shown.sort_by_key(|notice| (!notice.is_due, !notice.is_firing));
        shown.truncate(SHOWN_MAX);
        let rest = self.alerts.len() - shown.len() + self.left_out.len();
        (shown, rest)
    }

    /// A message of `bytes_max` bytes at most, which `made` makes of as many alerts as fit, and of
    /// the number of the others. One alert always fits, because its texts are bounded.
    fn fitting(
        &self,
        bytes_max: usize,
        made: impl Fn(&[&Notice], usize) -> serde_json::Value,
    ) -> serde_json::Value {
        let (mut shown, mut rest) = self.shown();
        loop {
            let message = made(&shown, rest);
            if shown.len() <= 1 || message.to_string().len() <= bytes_max {
                return message;
            }
            shown.pop();
            rest += 1;
        }
    }

    /// The alerts as plain text of `bytes_max` bytes at most, with or without links.
    fn plain_message(&self, templates: &Templates, bytes_max: usize, has_links: bool) -> String {
        let (shown, rest) = self.shown();
        let mut parts = Vec::new();
        for notice in shown {
            let mut part = templates.text(self, notice);
            if let Some(line) = notice.shown_line() {
                part = format!("{part}\n> {}", line.replace('\n', "\n> "));
            }
            if has_links && !notice.source_url.is_empty() {
                part = format!("{part}\n{}", notice.source_url);
            }
            parts.push(part);
        }
        if rest > 0 {
            parts.push(format!("{rest} more alerts are left out."));
        }
        crate::labels::cut(parts.join("\n\n"), bytes_max)
    }
}

/// Sends notifications to one receiver.
pub trait Channel: Send {
    /// Sends a notification. May block up to the time limits of the channel.
    fn send(&mut self, notification: &Notification) -> Sent;

    /// The places of the alerts that the receiver has of the notification that was sent last,
    /// although it was not accepted as a whole.
    fn taken(&self) -> BTreeSet<usize> {
        BTreeSet::new()
    }
}

/// What became of a notification.
#[derive(Debug, Clone, PartialEq)]
pub enum Sent {
    /// The receiver has it.
    Accepted,
    /// A part of it was sent; the next call goes on with the rest.
    InPart,
    /// The receiver does not take it as it is, or not all of it ([`Channel::taken`]).
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
    /// Whether it is told that somebody works on an alert.
    pub sends_acknowledged: bool,
    /// Whether the receiver keeps each alert by itself: it is told those with news and no others,
    /// however many there are.
    pub tells_each: bool,
    /// Whether a line is told as an example.
    pub wants_line: bool,
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
    let mut wanted = Vec::new();
    for alert in alerts.filter(|alert| alert.state != State::Pending) {
        let told = alert.told.get(&policy.name);
        let is_firing = alert.state == State::Firing;
        // The end is owed to whoever may have heard that the alert fires.
        let is_known = match is_firing {
            true => told.is_some_and(|told| told.is_firing),
            false => told.is_some_and(Told::owes_end),
        };
        let is_new = is_firing != is_known;
        let is_wanted = is_firing || is_new && policy.sends_resolved;
        if !is_wanted || !policy.matchers.iter().all(|matcher| matcher.matches(&alert.labels)) {
            continue;
        }
        // Of an alert that somebody works on, an incident is told that, and its end.
        let silenced = silences.covering(&alert.labels, time_ns);
        let is_acknowledged = policy.sends_acknowledged && silenced == Some(Covered::Acknowledged);
        if silenced.is_some() && !(is_acknowledged && is_known) {
            continue;
        }
        let is_newly_acknowledged =
            is_acknowledged && is_firing && !told.is_some_and(|told| told.is_acknowledged);
        let is_repeated = told.is_some_and(|told| {
            // A clock that jumped back does not put repetitions off.
            time_ns.saturating_sub(told.at_ns).saturating_abs() >= ns(policy.repeat_interval)
        });
        let is_due = is_new || is_newly_acknowledged || is_repeated;
        if is_due || !policy.tells_each {
            wanted.push(Wanted { alert, is_firing, is_due, is_acknowledged });
        }
    }
    if !wanted.iter().any(|one| one.is_due) {
        return None;
    }
    let mut left_out = Vec::new();
    if wanted.len() > ALERTS_MAX && !policy.tells_each {
        wanted.sort_by_key(|one| (!one.is_due, !one.is_firing));
        left_out = wanted.split_off(ALERTS_MAX);
    }
    // Whoever hears nothing for this long takes an alert for ended, as in Prometheus.
    let valid_ns = ns(policy.repeat_interval.max(group.interval)).saturating_mul(4);
    let notice = |one: Wanted<'_>| {
        let alert = one.alert;
        let starts_at_ns = alert.fired_at_ns.unwrap_or(alert.active_at_ns);
        let ended_at_ns = alert.resolved_at_ns.filter(|_| !one.is_firing);
        let seen_ns = alert.active_at_ns.min(starts_at_ns).saturating_sub(ns(group.interval));
        let range = (seen_ns, ended_at_ns.unwrap_or(time_ns));
        Notice {
            labels: alert.labels.clone(),
            annotations: alert.annotations.clone(),
            is_firing: one.is_firing,
            starts_at_ns,
            ends_at_ns: ended_at_ns.unwrap_or_else(|| time_ns.saturating_add(valid_ns)),
            value: alert.value,
            source_url: source_url(external_url, &rule.expr, range),
            is_due: one.is_due,
            is_acknowledged: one.is_acknowledged,
            line: None,
        }
    };
    let counted = |one: Wanted<'_>| LeftOut {
        labels: one.alert.labels.clone(),
        is_firing: one.is_firing,
        is_acknowledged: one.is_acknowledged,
    };
    Some(Notification {
        rule_id: rule.id.clone(),
        rule: rule.name.clone(),
        group: group.name.clone(),
        alerts: wanted.into_iter().map(notice).collect(),
        left_out: left_out.into_iter().map(counted).collect(),
        time_ns,
    })
}

/// An alert that a notifier is to be told, if anything is.
struct Wanted<'a> {
    alert: &'a Alert,
    is_firing: bool,
    is_due: bool,
    is_acknowledged: bool,
}

/// A link to a query and to a range of time, in nanoseconds since 1970. A query with a time of its
/// own has no other range: `_time:5m` means the last minutes before the query is run.
fn source_url(external_url: &str, expr: &str, (start_ns, end_ns): (i64, i64)) -> String {
    if external_url.is_empty() {
        return String::new();
    }
    let start = format!("{external_url}/?");
    let behind = start.len();
    let mut link = form_urlencoded::Serializer::for_suffix(start, behind);
    link.append_pair("query", expr);
    if !expr.contains("_time:") {
        let start_ns = start_ns.max(end_ns.saturating_sub(ns(LINK_RANGE_MAX)));
        // Whole milliseconds, as the page takes them, and none of the end is missing.
        let ms = |time_ns: i64| time_ns.div_euclid(1_000_000).saturating_mul(1_000_000);
        link.append_pair("from", &format_time(ms(start_ns)));
        link.append_pair("to", &format_time(ms(end_ns.saturating_add(999_999))));
    }
    link.finish()
}

#[cfg(test)]
mod services_tests;
#[cfg(test)]
mod tests;
