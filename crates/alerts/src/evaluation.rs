//! The state of a rule, and what one evaluation makes of it.
//!
//! The states change as in Prometheus (`rules/alerting.go`):
//!
//! - A series that comes makes an alert *pending*; after `for` it is *firing*. With `for: 0` it
//!   fires at once.
//! - The series of a pending alert goes: the alert is forgotten. That of a firing one goes: it goes
//!   on firing for `keep_firing_for`, then it is *inactive*, and is kept for a while so that
//!   notifiers are told.
//! - Evaluations that were missed change nothing: the next one compares times.
//!
//! Three decisions are our own. An evaluation that fails, be it for too many series, changes
//! nothing at all. A clock that jumped back to before an alert became active begins its `for` (or
//! `keep_firing_for`) anew. An alert that ended is kept for longer than in Prometheus while a
//! notifier could not be told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use text::duration::ns;

use crate::alert::{Alert, Change, State, Told};
use crate::engine::{Recorded, Row};
use crate::labels::{ANNOTATION_BYTES_MAX, LABEL_BYTES_MAX, Labels, cut};
use crate::rule::{Group, Kind, Rule};
use crate::template::Data;

/// How long an alert that ended is shown and kept.
///
/// limits.md, Alerts: alerts that ended | kept for {}, for {RESOLVED_KEPT_MAX} while a notifier
/// could not be told, from the end of a silence that covers them; as many as the limit of series |
/// the oldest are forgotten, those first whose end is told; the end of another is not told
const RESOLVED_KEPT: Duration = Duration::from_secs(15 * 60);
/// How long it is kept while a notifier does not know of the end.
const RESOLVED_KEPT_MAX: Duration = Duration::from_secs(24 * 3600);

/// The alerts of a rule, by their labels.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RuleState {
    alerts: BTreeMap<Labels, Alert>,
}

/// What an evaluation brought about.
#[derive(Debug, Default, PartialEq)]
pub struct Step {
    /// Changes of states.
    pub changes: Vec<Change>,
    /// Whether anything changed that is kept over a restart.
    pub is_changed: bool,
}

/// A series with the labels and annotations that the rule gives it.
struct Series {
    labels: Labels,
    annotations: Labels,
    value: f64,
}

impl RuleState {
    /// The state with these alerts.
    pub fn new(alerts: impl IntoIterator<Item = Alert>) -> RuleState {
        let alerts = alerts.into_iter().map(|alert| (alert.labels.clone(), alert));
        RuleState { alerts: alerts.collect() }
    }

    /// All alerts, those that ended among them.
    pub fn alerts(&self) -> impl Iterator<Item = &Alert> {
        self.alerts.values()
    }

    /// All alerts. Their labels and states are not to be changed.
    pub fn alerts_mut(&mut self) -> impl Iterator<Item = &mut Alert> {
        self.alerts.values_mut()
    }

    /// The alert with these labels.
    pub fn alert_mut(&mut self, labels: &Labels) -> Option<&mut Alert> {
        self.alerts.get_mut(labels)
    }

    /// Takes the result of an alerting rule at `time_ns` into the state. On an error the state is
    /// as it was.
    pub fn step(
        &mut self,
        group: &Group,
        rule: &Rule,
        rows: &[Row],
        time_ns: i64,
        external_url: &str,
    ) -> Result<Step, String> {
        let series = self.series(group, rule, rows, time_ns, external_url)?;
        let present: BTreeSet<&Labels> = series.iter().map(|series| &series.labels).collect();
        let kept = self.alerts.iter().filter(|(labels, alert)| {
            !present.contains(labels) && keeps_firing(alert, rule, time_ns)
        });
        let active = present.len() + kept.count();
        if active > group.series_max {
            return Err(format!(
                "the rule has {active} alerts, above the limit of {}; group by fewer fields, \
                 filter more, or raise `limit` of the group",
                group.series_max
            ));
        }
        let mut step = Step::default();
        for alert in self.alerts.values_mut().filter(|alert| !present.contains(&alert.labels)) {
            absent(alert, group, rule, time_ns, &mut step);
        }
        drop(present);
        for series in series {
            self.present(group, rule, series, time_ns, &mut step);
        }
        step.is_changed |= self.forget(time_ns, group.series_max);
        step.is_changed |= !step.changes.is_empty();
        Ok(step)
    }

    fn series(
        &self,
        group: &Group,
        rule: &Rule,
        rows: &[Row],
        time_ns: i64,
        external_url: &str,
    ) -> Result<Vec<Series>, String> {
        let mut found = BTreeSet::new();
        let mut all = Vec::with_capacity(rows.len());
        for row in rows {
            let mut data = Data {
                labels: &row.labels,
                value: row.value,
                expr: &rule.expr,
                active_at_ns: time_ns,
                hold: rule.hold,
                external_url,
            };
            let labels = labels_of(group, rule, row, &data);
            if !found.insert(labels.clone()) {
                return Err(format!(
                    "two series have the labels {labels:?}; keep the fields that tell them apart, \
                     or set fewer labels in the rule"
                ));
            }
            if let Some(alert) = self.alerts.get(&labels).filter(|alert| is_active(alert)) {
                data.active_at_ns = alert.active_at_ns;
            }
            let annotations = rule.annotations.iter().map(|(name, template)| {
                (name.clone(), template.expand(&data, ANNOTATION_BYTES_MAX))
            });
            all.push(Series { annotations: annotations.collect(), labels, value: row.value });
        }
        Ok(all)
    }

    fn present(
        &mut self,
        group: &Group,
        rule: &Rule,
        series: Series,
        time_ns: i64,
        step: &mut Step,
    ) {
        let old = self.alerts.remove(&series.labels);
        let from = old.as_ref().map_or(State::Inactive, |alert| alert.state);
        let mut alert = match old {
            Some(mut alert) if from != State::Inactive => {
                step.is_changed |= alert.keep_firing_since_ns.take().is_some();
                alert.value = series.value;
                alert.annotations = series.annotations;
                alert
            }
            old => Alert {
                labels: series.labels,
                annotations: series.annotations,
                value: series.value,
                state: State::Pending,
                active_at_ns: time_ns,
                fired_at_ns: None,
                keep_firing_since_ns: None,
                resolved_at_ns: None,
                held_at_ns: None,
                told: old.map(|old| old.told).unwrap_or_default(),
            },
        };
        if alert.state == State::Pending {
            alert.active_at_ns = alert.active_at_ns.min(time_ns);
            if time_ns.saturating_sub(alert.active_at_ns) >= ns(rule.hold) {
                alert.state = State::Firing;
                alert.fired_at_ns = Some(time_ns);
            }
        }
        note(step, group, rule, &alert, from, time_ns);
        self.alerts.insert(alert.labels.clone(), alert);
    }

    /// Drops alerts that ended long ago, and the first that ended if they are too many. Returns
    /// whether there were any.
    fn forget(&mut self, time_ns: i64, series_max: usize) -> bool {
        let count = self.alerts.len();
        self.alerts.retain(|_, alert| match (alert.state, alert.resolved_at_ns) {
            (State::Inactive, Some(resolved_at_ns)) => {
                let owes = owes_end(alert);
                let kept = if owes { RESOLVED_KEPT_MAX } else { RESOLVED_KEPT };
                // Nobody is told while a silence covers the end.
                let held_at_ns = alert.held_at_ns.filter(|_| owes).unwrap_or(i64::MIN);
                time_ns.saturating_sub(resolved_at_ns.max(held_at_ns)) <= ns(kept)
            }
            (state, _) => state != State::Inactive,
        });
        let mut ended: Vec<(bool, i64, Labels)> = self
            .alerts
            .values()
            .filter_map(|alert| {
                Some((owes_end(alert), alert.resolved_at_ns?, alert.labels.clone()))
            })
            .collect();
        ended.sort();
        let beyond = ended.len().saturating_sub(series_max);
        for (_, _, labels) in &ended[..beyond] {
            self.alerts.remove(labels);
        }
        self.alerts.len() < count
    }
}

/// The rows of a recording rule.
pub fn record(
    group: &Group,
    rule: &Rule,
    rows: &[Row],
    time_ns: i64,
    external_url: &str,
) -> Result<Vec<Recorded>, String> {
    if rows.len() > group.series_max {
        return Err(format!(
            "the rule has {} series, above the limit of {}; group by fewer fields, or raise \
             `limit` of the group",
            rows.len(),
            group.series_max
        ));
    }
    let one = |row: &Row| Recorded {
        time_ns,
        record: rule.name.clone(),
        group: group.name.clone(),
        labels: labels_of(
            group,
            rule,
            row,
            &Data {
                labels: &row.labels,
                value: row.value,
                expr: &rule.expr,
                active_at_ns: time_ns,
                hold: rule.hold,
                external_url,
            },
        ),
        value: row.value,
    };
    Ok(rows.iter().map(one).collect())
}

/// Whether a notifier is owed the end of an alert.
fn owes_end(alert: &Alert) -> bool {
    alert.told.values().any(Told::owes_end)
}

fn is_active(alert: &Alert) -> bool {
    alert.state != State::Inactive
}

/// The labels of the series with those of the rule. As in vmalert, the rule's stand before those of
/// the series, which are then called `exported_…`, and an empty value removes a label.
fn labels_of(group: &Group, rule: &Rule, row: &Row, data: &Data<'_>) -> Labels {
    let mut labels: Labels = row
        .labels
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (name.clone(), cut(value.clone(), LABEL_BYTES_MAX)))
        .collect();
    let own = match rule.kind {
        Kind::Alert => vec![("alertname", &rule.name), ("alertgroup", &group.name)],
        Kind::Record => Vec::new(),
    };
    let given = rule
        .labels
        .iter()
        .map(|(name, template)| (name.as_str(), template.expand(data, LABEL_BYTES_MAX)));
    let own = own.into_iter().map(|(name, value)| (name, value.clone()));
    for (name, value) in given.chain(own) {
        let old = labels.remove(name);
        if value.is_empty() {
            continue;
        }
        if let Some(old) = old.filter(|old| *old != value) {
            labels.insert(format!("exported_{name}"), old);
        }
        labels.insert(name.to_owned(), value);
    }
    labels
}

/// Whether a firing alert whose series is gone still fires.
fn keeps_firing(alert: &Alert, rule: &Rule, time_ns: i64) -> bool {
    let since_ns = alert.keep_firing_since_ns.unwrap_or(time_ns).min(time_ns);
    alert.state == State::Firing && time_ns.saturating_sub(since_ns) < ns(rule.keep_firing_for)
}

fn absent(alert: &mut Alert, group: &Group, rule: &Rule, time_ns: i64, step: &mut Step) {
    if keeps_firing(alert, rule, time_ns) {
        let since_ns = alert.keep_firing_since_ns.unwrap_or(time_ns).min(time_ns);
        step.is_changed |= alert.keep_firing_since_ns != Some(since_ns);
        alert.keep_firing_since_ns = Some(since_ns);
        return;
    }
    let from = alert.state;
    if from == State::Inactive {
        return;
    }
    alert.state = State::Inactive;
    alert.keep_firing_since_ns = None;
    // An alert that never fired has no end, and is forgotten. One that fired before, and whose end
    // somebody is still owed, is not.
    alert.resolved_at_ns = (from == State::Firing || owes_end(alert)).then_some(time_ns);
    note(step, group, rule, alert, from, time_ns);
}

fn note(step: &mut Step, group: &Group, rule: &Rule, alert: &Alert, from: State, time_ns: i64) {
    if from != alert.state {
        step.changes.push(Change {
            time_ns,
            rule_id: rule.id.clone(),
            rule: rule.name.clone(),
            group: group.name.clone(),
            labels: alert.labels.clone(),
            annotations: alert.annotations.clone(),
            from,
            to: alert.state,
            value: alert.value,
        });
    }
}

#[cfg(test)]
#[path = "evaluation_tests.rs"]
mod tests;
