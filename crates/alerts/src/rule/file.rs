//! Reads a rule file, and checks all of it: keys, durations, templates, expressions.
//!
//! Left out of vmalert: `params`, `headers` and `notifier_headers`, which are about requests that
//! are not made here, and variables of the environment in the file (`%{NAME}`).

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use serde_saphyr::Spanned;

use super::yaml::{RawGroup, RawRule, documents};
use super::{Group, Kind, Rule};
use crate::duration;
use crate::engine::Engine;
use crate::labels::id_of;
use crate::template::Template;

/// Rules of a file.
const RULES_MAX: usize = 1_000;
/// Labels, or annotations, of a rule.
const PAIRS_MAX: usize = 64;
/// Bytes of an expression.
const EXPR_BYTES_MAX: usize = 64 << 10;
/// Bytes of a name.
const NAME_BYTES_MAX: usize = 256;
/// A shorter interval would keep the queue of queries busy with rules.
const INTERVAL_MIN: Duration = Duration::from_secs(1);
/// The most series of one rule, whatever the file says.
///
/// limits.md, Alerts: series of a rule | `limit` of the group, else `alerts.series_max`, 1,000; at
/// most {} | the evaluation is an error, and changes nothing
const SERIES_MAX: usize = 10_000;
/// Labels that evaluation sets.
const OWN_LABELS: [&str; 3] = ["alertname", "alertgroup", "__name__"];

/// What a file need not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defaults {
    /// The interval of a group.
    pub interval: Duration,
    /// How far behind the clock rules are evaluated.
    pub delay: Duration,
    /// The most series of one rule, where a group has no `limit`.
    pub series_max: usize,
}

impl Default for Defaults {
    fn default() -> Defaults {
        Defaults {
            interval: Duration::from_secs(60),
            delay: Duration::from_secs(5),
            series_max: 1_000,
        }
    }
}

/// The rules of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleFile {
    /// The name of the file.
    pub name: String,
    /// The groups, in their order.
    pub groups: Vec<Group>,
}

/// Why a rule file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct RuleError {
    /// The name of the file.
    pub file: String,
    /// The line, from 1.
    pub line: Option<u64>,
    /// What is wrong, and what to write instead.
    pub what: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}, line {line}: {}", self.file, self.what),
            None => write!(f, "{}: {}", self.file, self.what),
        }
    }
}

impl RuleFile {
    /// Reads the text of a file, and has each expression checked by the engine. Nothing of a file
    /// with an error is used.
    pub fn parse(
        name: &str,
        text: &str,
        defaults: &Defaults,
        engine: &dyn Engine,
    ) -> Result<RuleFile, RuleError> {
        let documents = documents(name, text)?;
        let checker = Checker { file: name, defaults, engine };
        let mut groups: Vec<Group> = Vec::new();
        let mut rules = 0;
        for raw in documents.iter().flat_map(|document| &document.groups) {
            rules += raw.rules.len();
            if rules > RULES_MAX {
                let what = format!("the file has more than {RULES_MAX} rules; split it");
                return Err(checker.error(&raw.name, what));
            }
            if groups.iter().any(|group| group.name == raw.name.value) {
                let what = format!("there are two groups '{}'; rename one", raw.name.value);
                return Err(checker.error(&raw.name, what));
            }
            groups.push(checker.group(raw)?);
        }
        Ok(RuleFile { name: name.to_owned(), groups })
    }
}

struct Checker<'a> {
    file: &'a str,
    defaults: &'a Defaults,
    engine: &'a dyn Engine,
}

impl Checker<'_> {
    fn error<T>(&self, at: &Spanned<T>, what: impl Into<String>) -> RuleError {
        let line = Some(at.referenced.line()).filter(|line| *line > 0);
        RuleError { file: self.file.to_owned(), line, what: what.into() }
    }

    fn group(&self, raw: &RawGroup) -> Result<Group, RuleError> {
        let name = self.name(&raw.name, "name")?;
        if let Some(kind) = raw.kind.as_ref().filter(|kind| kind.value != "vlogs") {
            let what = format!(
                "the type '{}' is not supported, because there are no metrics here; write rules \
                 in LogsQL with `type: vlogs`",
                kind.value
            );
            return Err(self.error(kind, what));
        }
        let interval = self.duration(&raw.interval, "interval", self.defaults.interval)?;
        if interval < INTERVAL_MIN {
            let what = format!("the interval of group '{name}' is too short; write at least 1s");
            return Err(self.error(raw.interval.as_ref().unwrap_or(&raw.name), what));
        }
        let offset = match &raw.eval_offset {
            Some(at) => Some(self.duration(&raw.eval_offset, "eval_offset", Duration::ZERO)?)
                .filter(|offset| *offset < interval)
                .ok_or_else(|| self.error(at, "`eval_offset` has to be below `interval`"))
                .map(Some)?,
            None => None,
        };
        if let (Some(_), Some(at)) = (offset, &raw.eval_delay) {
            return Err(self.error(at, "`eval_delay` is of no use with `eval_offset`; remove one"));
        }
        let series_max = match &raw.limit {
            Some(limit) if limit.value > SERIES_MAX as u64 => {
                let what = format!("the limit is too large; write at most {SERIES_MAX}");
                return Err(self.error(limit, what));
            }
            Some(limit) if limit.value > 0 => limit.value as usize,
            _ => self.defaults.series_max,
        };
        let mut group = Group {
            id: id_of([self.file, name]),
            file: self.file.to_owned(),
            name: name.to_owned(),
            interval,
            delay: self.duration(&raw.eval_delay, "eval_delay", self.defaults.delay)?,
            offset,
            is_aligned: raw.eval_alignment.unwrap_or(true),
            series_max,
            labels: raw
                .labels
                .iter()
                .map(|(name, value)| (name.clone(), value.value.clone()))
                .collect(),
            rules: Vec::new(),
        };
        let mut ids = BTreeSet::new();
        for rule in &raw.rules {
            let checked = self.rule(&group.id, raw, rule)?;
            if !ids.insert(checked.id.clone()) {
                let what = format!("the group has the rule '{}' twice; remove one", checked.name);
                return Err(self.error(&rule.expr, what));
            }
            group.rules.push(checked);
        }
        Ok(group)
    }

    fn rule(&self, group_id: &str, group: &RawGroup, raw: &RawRule) -> Result<Rule, RuleError> {
        let (kind, name) = match (&raw.alert, &raw.record) {
            (Some(alert), None) => (Kind::Alert, self.name(alert, "alert")?),
            (None, Some(record)) => (Kind::Record, self.name(record, "record")?),
            _ => {
                let what = "a rule needs either `alert` or `record`";
                return Err(self.error(&raw.expr, what));
            }
        };
        if let (Kind::Record, Some(at)) = (kind, raw.hold.as_ref().or(raw.keep_firing_for.as_ref()))
        {
            let what = "`for` and `keep_firing_for` are for rules with `alert`; remove them";
            return Err(self.error(at, what));
        }
        let expr = raw.expr.value.trim();
        if expr.is_empty() || expr.len() > EXPR_BYTES_MAX {
            let what = format!("`expr` is empty or longer than {EXPR_BYTES_MAX} bytes");
            return Err(self.error(&raw.expr, what));
        }
        self.engine.check(expr).map_err(|what| {
            self.error(&raw.expr, format!("`expr` of the rule '{name}': {what}"))
        })?;
        // A label of the rule stands before that of the group.
        let labels = group.labels.iter().filter(|(name, _)| !raw.labels.contains_key(*name));
        let labels = self.templates(labels.chain(&raw.labels), "label", name, &raw.expr)?;
        let mut identity = vec![group_id, if kind == Kind::Alert { "alert" } else { "record" }];
        identity.extend([name, expr]);
        identity.extend(labels.iter().flat_map(|(name, value)| [name.as_str(), value.text()]));
        Ok(Rule {
            id: id_of(identity),
            kind,
            name: name.to_owned(),
            expr: expr.to_owned(),
            hold: self.duration(&raw.hold, "for", Duration::ZERO)?,
            keep_firing_for: self.duration(
                &raw.keep_firing_for,
                "keep_firing_for",
                Duration::ZERO,
            )?,
            annotations: self.templates(raw.annotations.iter(), "annotation", name, &raw.expr)?,
            labels,
        })
    }

    fn templates<'a>(
        &self,
        pairs: impl Iterator<Item = (&'a String, &'a Spanned<String>)>,
        what: &str,
        rule: &str,
        at: &Spanned<String>,
    ) -> Result<Vec<(String, Template)>, RuleError> {
        let mut templates = Vec::new();
        for (name, value) in pairs {
            if name.is_empty() || name.len() > NAME_BYTES_MAX {
                let what = format!("a {what} of '{rule}' has a name of wrong length");
                return Err(self.error(value, what));
            }
            if what == "label" && OWN_LABELS.contains(&name.as_str()) {
                let what = format!("the label '{name}' is set by evaluation; rename it");
                return Err(self.error(value, what));
            }
            let template = Template::parse(&value.value).map_err(|error| {
                self.error(value, format!("the {what} '{name}' of '{rule}': {error}"))
            })?;
            templates.push((name.clone(), template));
        }
        if templates.len() > PAIRS_MAX {
            let what = format!("the rule '{rule}' has more than {PAIRS_MAX} of `{what}s`");
            return Err(self.error(at, what));
        }
        Ok(templates)
    }

    fn name<'a>(&self, name: &'a Spanned<String>, key: &str) -> Result<&'a str, RuleError> {
        let text = name.value.trim();
        if text.is_empty() || text.len() > NAME_BYTES_MAX || text.contains(char::is_control) {
            let what = format!("`{key}` has to be a text of 1 to {NAME_BYTES_MAX} bytes");
            return Err(self.error(name, what));
        }
        Ok(text)
    }

    fn duration(
        &self,
        value: &Option<Spanned<String>>,
        key: &str,
        default: Duration,
    ) -> Result<Duration, RuleError> {
        match value {
            Some(at) => duration::parse(&at.value)
                .map_err(|what| self.error(at, format!("`{key}`: {what}"))),
            None => Ok(default),
        }
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
