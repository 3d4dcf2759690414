//! An alert, and the changes of its state.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::labels::Labels;

/// The state of an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Its series is gone, or was never there.
    Inactive,
    /// Its series is there, for less than `for`.
    Pending,
    /// Its series is there for long enough.
    Firing,
}

impl State {
    /// The state as APIs and rows name it.
    pub fn name(self) -> &'static str {
        match self {
            State::Inactive => "inactive",
            State::Pending => "pending",
            State::Firing => "firing",
        }
    }
}

/// One series of an alerting rule. Times are in nanoseconds since 1970.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alert {
    /// What identifies the alert.
    pub labels: Labels,
    /// The annotations of the last evaluation with this series.
    pub annotations: Labels,
    /// The value of the last evaluation with this series.
    #[serde(with = "number")]
    pub value: f64,
    /// The state.
    pub state: State,
    /// When the series came.
    pub active_at_ns: i64,
    /// When the alert began to fire.
    pub fired_at_ns: Option<i64>,
    /// When the series of a firing alert went, while `keep_firing_for` lasts.
    pub keep_firing_since_ns: Option<i64>,
    /// When the alert ended.
    pub resolved_at_ns: Option<i64>,
    /// Until when a silence covered the end of the alert that a notifier is owed; it is noted once
    /// in a while.
    #[serde(default)]
    pub held_at_ns: Option<i64>,
    /// What each notifier delivered last.
    pub told: BTreeMap<String, Told>,
}

/// What a notifier delivered last about an alert, and what it may have delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Whether the alert was firing then.
    pub is_firing: bool,
    /// Whether it was told that somebody works on it.
    #[serde(default)]
    pub is_acknowledged: bool,
    /// When, in nanoseconds since 1970.
    pub at_ns: i64,
    /// Whether the receiver may take the alert for firing: it was sent that it fires, and took no
    /// end since. This is kept before anything is sent, so that neither a restart nor an answer
    /// that is lost leaves an incident open.
    #[serde(default)]
    pub is_open: bool,
}

impl Told {
    /// Whether the receiver is owed the end of the alert.
    pub fn owes_end(&self) -> bool {
        self.is_firing || self.is_open
    }
}

/// A change of the state of an alert.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The time of the evaluation, in nanoseconds since 1970.
    pub time_ns: i64,
    /// The id of the rule.
    pub rule_id: String,
    /// The name of the rule.
    pub rule: String,
    /// The name of its group.
    pub group: String,
    /// The labels of the alert.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: Labels,
    /// The state before.
    pub from: State,
    /// The state from then on.
    pub to: State,
    /// The value of the last evaluation with this series.
    pub value: f64,
}

/// Numbers as texts, because JSON has no NaN.
mod number {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
