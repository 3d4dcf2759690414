//! The states of all groups, and which is due.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use text::duration::ns;

use crate::alert::{Change, State, Told};
use crate::evaluation::RuleState;
use crate::notify::Delivery;
use crate::rule::{Group, Rule};
use crate::silence::Silences;

/// What the lock of [`Alerts`](super::Alerts) guards.
#[derive(Default)]
pub struct Inner {
    /// Groups by their ids.
    pub groups: BTreeMap<String, GroupState>,
    pub silences: Silences,
    pub evaluations: u64,
    pub failures: u64,
}

/// A group and its state.
pub struct GroupState {
    pub group: Arc<Group>,
    /// By the ids of the rules.
    pub rules: BTreeMap<String, RuleStatus>,
    /// Whether a thread evaluates it.
    pub is_running: bool,
    /// Whether its state is to be kept anew.
    pub is_changed: bool,
    /// The time that was evaluated last, since the start.
    pub evaluated_ns: Option<i64>,
    /// Evaluations that were left out.
    pub missed: u64,
}

/// A rule's state, and its last evaluation.
#[derive(Default)]
pub struct RuleStatus {
    pub state: RuleState,
    pub evaluation: Option<Evaluation>,
}

/// An evaluation of a rule.
pub struct Evaluation {
    pub time_ns: i64,
    pub took: Duration,
    pub rows: usize,
    pub error: Option<String>,
}

impl GroupState {
    /// The state of `group`, with what there was `before` under its id, or else what was kept.
    pub fn new(
        group: Group,
        before: Option<GroupState>,
        mut kept: BTreeMap<String, RuleState>,
    ) -> GroupState {
        let mut state = before.unwrap_or_else(|| GroupState {
            group: Arc::new(group.clone()),
            rules: BTreeMap::new(),
            is_running: false,
            is_changed: false,
            evaluated_ns: None,
            missed: 0,
        });
        let mut old = std::mem::take(&mut state.rules);
        let status = |rule: &Rule| {
            let status = old.remove(&rule.id).unwrap_or_else(|| RuleStatus {
                state: kept.remove(&rule.id).unwrap_or_default(),
                evaluation: None,
            });
            (rule.id.clone(), status)
        };
        state.rules = group.rules.iter().map(status).collect();
        state.is_changed |= !old.is_empty();
        state.group = Arc::new(group);
        state
    }

    /// The ends of the alerts whose rules `after` does not have.
    pub fn ended(&self, after: Option<&Group>, now_ns: i64) -> Vec<Change> {
        let stays = |rule: &Rule| {
            after.is_some_and(|after| after.rules.iter().any(|other| other.id == rule.id))
        };
        let mut changes = Vec::new();
        for rule in self.group.rules.iter().filter(|rule| !stays(rule)) {
            let alerts = self.rules.get(&rule.id).into_iter().flat_map(|rule| rule.state.alerts());
            changes.extend(alerts.filter(|alert| alert.state != State::Inactive).map(|alert| {
                Change {
                    time_ns: now_ns,
                    rule_id: rule.id.clone(),
                    rule: rule.name.clone(),
                    group: self.group.name.clone(),
                    labels: alert.labels.clone(),
                    annotations: alert.annotations.clone(),
                    from: alert.state,
                    to: State::Inactive,
                    value: alert.value,
                }
            }));
        }
        changes
    }

    /// The time to evaluate now, and how long it is due; `None` if there is nothing to evaluate.
    fn due(&self, now_ns: i64) -> Option<(i64, i64)> {
        let time_ns = self.group.evaluation_time_ns(now_ns);
        let interval_ns = ns(self.group.interval);
        let Some(last_ns) = self.evaluated_ns else { return Some((time_ns, i64::MAX)) };
        let late_ns = time_ns.saturating_sub(last_ns).saturating_sub(interval_ns);
        // A clock that was set back by more than an interval begins a new order of times.
        let is_set_back = late_ns <= interval_ns.saturating_mul(-3);
        (late_ns >= 0 || is_set_back).then_some((time_ns, late_ns.saturating_abs()))
    }
}

impl Inner {
    /// The group that is due for the longest time, and the time to evaluate it for; it is marked as
    /// running.
    pub fn take_due(&mut self, now_ns: i64) -> Option<(Arc<Group>, i64)> {
        let waiting = self.groups.values_mut().filter(|state| !state.is_running);
        let due = waiting.filter_map(|state| {
            let (time_ns, late_ns) = state.due(now_ns)?;
            Some((state, time_ns, late_ns))
        });
        let (state, time_ns, _) = due.max_by_key(|(_, _, late_ns)| *late_ns)?;
        let interval_ns = ns(state.group.interval).max(1);
        let passed =
            state.evaluated_ns.map_or(0, |last| time_ns.saturating_sub(last) / interval_ns);
        state.missed += u64::try_from(passed - 1).unwrap_or(0);
        state.evaluated_ns = Some(time_ns);
        state.is_running = true;
        Some((state.group.clone(), time_ns))
    }

    /// Notes on the alerts of a notification that the notifier `name` delivered it.
    pub fn take_delivery(&mut self, name: &str, delivery: Delivery) {
        let notification = &delivery.notification;
        if !delivery.is_told {
            return;
        }
        let mut states = self.groups.values_mut();
        let Some(state) = states.find(|state| state.rules.contains_key(&notification.rule_id))
        else {
            return;
        };
        state.is_changed = true;
        let Some(status) = state.rules.get_mut(&notification.rule_id) else { return };
        for notice in &notification.alerts {
            if let Some(alert) = status.state.alert_mut(&notice.labels) {
                let told = Told {
                    is_firing: notice.is_firing,
                    is_acknowledged: notice.is_acknowledged,
                    at_ns: notification.time_ns,
                };
                alert.told.insert(name.to_owned(), told);
            }
        }
    }
}
