//! Alerts: rules over log lines, whose series become alerts that people are told about.
//!
//! [`RuleFile`] reads the rule files of vmalert and Prometheus, with expressions in LogsQL.
//! [`Alerts`] evaluates their groups when they are due: an [`Engine`] runs the expressions, the
//! state of each rule changes as in Prometheus ([`evaluation`]), changes and rows of recording
//! rules go to an [`Output`], and [`Notifier`]s tell Alertmanager, webhooks, chats, services of
//! incidents, or people by e-mail, except about alerts that a [`Silence`] covers. [`replay()`] runs
//! rules over the past by the same code.
//!
//! This crate has no store and no query language: both are behind [`Engine`] and [`Output`]. It
//! has one thread for each notifier; evaluation runs on threads of its caller
//! ([`Alerts::run`]).
//!
//! Texts of log lines are data everywhere: they are never read as templates, headers, markup or
//! regular expressions, and their length is bounded where they become labels or annotations.
//!
//! Left out: rules in PromQL or Graphite, templates with control structures, routes and groups of
//! notifications (Alertmanager has them), inhibition.

mod alert;
mod duration;
mod engine;
mod evaluation;
mod labels;
mod manager;
mod matcher;
mod notify;
mod replay;
mod rule;
mod silence;
mod snapshot;
mod template;
#[cfg(test)]
mod testing;
mod time;

pub use alert::{Alert, Change, State, Told};
pub use duration::parse as parse_duration;
pub use engine::{Engine, Output, Recorded, Row, STATS_RESULT};
pub use evaluation::{RuleState, Step};
pub use labels::{Labels, fingerprint};
pub use manager::{AlertView, Alerts, GroupView, RuleView, Totals};
pub use matcher::Matcher;
pub use notify::{
    Channel, ConfigError, Counts, LastError, LeftOut, Mail, Notice, Notification, Notifier,
    NotifierConfig, NotifierOptions, Policy, Reach, Secrets, Sent, check_names,
};
pub use replay::{Range, Replay, ReplayedRule, replay};
pub use rule::{Defaults, Group, Kind, Rule, RuleError, RuleFile};
pub use silence::{Silence, SilenceError, Silences};
pub use template::Template;
