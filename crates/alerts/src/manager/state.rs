//! The states of all groups, and which is due.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use text::duration::ns;

use crate::alert::{Change, State, Told};
use crate::evaluation::RuleState;
use crate::notify::{Delivery, Notification};
use crate::rule::{Group, Rule};
use crate::silence::Silences;

/// How exactly it is known until when a silence covered the end of an alert.
const HELD_STEP: Duration = Duration::from_secs(3600);

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

impl RuleStatus {
    /// Notes that a notification is handed over to the notifier `name`: whoever gets it takes its
    /// alerts for firing, whatever becomes known of that. Returns whether that is news.
    pub fn hand_over(&mut self, name: &str, notification: &Notification) -> bool {
        let alerts = notification.alerts.iter().map(|one| (&one.labels, one.is_firing));
        let counted = notification.left_out.iter().map(|one| (&one.labels, one.is_firing));
        let firing = alerts.chain(counted).filter(|(_, is_firing)| *is_firing);
        let mut is_changed = false;
        for (labels, _) in firing {
            let Some(alert) = self.state.alert_mut(labels) else { continue };
            let unknown = Told {
                is_firing: false,
                is_acknowledged: false,
                at_ns: notification.time_ns,
                is_open: false,
            };
            let told = alert.told.entry(name.to_owned()).or_insert(unknown);
            is_changed |= !told.is_open;
            told.is_open = true;
        }
        is_changed
    }

    /// Notes of alerts that ended, and whose ends somebody is owed, that a silence covers them at
    /// `time_ns`: they are kept until it ends. Returns whether that is to be kept.
    pub fn hold(&mut self, silences: &Silences, time_ns: i64) -> bool {
        let mut is_changed = false;
        for alert in self.state.alerts_mut() {
            let is_owed = alert.told.values().any(Told::owes_end);
            let held_ns = alert.held_at_ns.unwrap_or(i64::MIN);
            let is_noted = time_ns.saturating_sub(held_ns).saturating_abs() < ns(HELD_STEP);
            if alert.state != State::Inactive || !is_owed || is_noted {
                continue;
            }
            if silences.covering(&alert.labels, time_ns).is_some() {
                alert.held_at_ns = Some(time_ns);
                is_changed = true;
            }
        }
        is_changed
    }
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

    /// Notes on the alerts of a notification that the notifier `name` delivered them.
    pub fn take_delivery(&mut self, name: &str, delivery: &Delivery) {
        let notification = &delivery.notification;
        let mut states = self.groups.values_mut();
        let Some(state) = states.find(|state| state.rules.contains_key(&notification.rule_id))
        else {
            return;
        };
        let Some(status) = state.rules.get_mut(&notification.rule_id) else { return };
        let alerts = notification.alerts.iter().enumerate();
        let taken = alerts.filter(|(place, _)| delivery.taken.contains(place));
        let taken = taken.map(|(_, one)| (&one.labels, one.is_firing, one.is_acknowledged));
        // Those that are counted alone are told with the others, or not at all.
        let is_whole = delivery.taken.len() == notification.alerts.len();
        let counted = notification.left_out.iter().filter(|_| is_whole);
        let counted = counted.map(|one| (&one.labels, one.is_firing, one.is_acknowledged));
        for (labels, is_firing, is_acknowledged) in taken.chain(counted) {
            let Some(alert) = status.state.alert_mut(labels) else { continue };
            let at_ns = notification.time_ns;
            let told = Told { is_firing, is_acknowledged, at_ns, is_open: is_firing };
            alert.told.insert(name.to_owned(), told);
            state.is_changed = true;
        }
    }
}
