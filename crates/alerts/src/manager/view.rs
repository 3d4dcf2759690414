//! What APIs and metrics show.

use std::sync::Arc;
use std::time::Duration;

use super::Alerts;
use super::state::{GroupState, Inner, RuleStatus};
use crate::alert::{Alert, State};
use crate::notify::Counts;
use crate::rule::Group;
use crate::silence::Silence;

/// A group as APIs show it.
#[derive(Debug, Clone)]
pub struct GroupView {
    /// The group with its rules.
    pub group: Arc<Group>,
    /// The time that was evaluated last, in nanoseconds since 1970.
    pub evaluated_ns: Option<i64>,
    /// Evaluations that were left out because earlier ones took too long.
    pub missed: u64,
    /// The state of each rule of the group, in their order.
    pub rules: Vec<RuleView>,
}

/// The state of a rule.
#[derive(Debug, Clone, Default)]
pub struct RuleView {
    /// Its alerts, those that ended among them.
    pub alerts: Vec<AlertView>,
    /// The time that was evaluated last, in nanoseconds since 1970; none before the first time.
    pub evaluated_ns: Option<i64>,
    /// How long that took.
    pub took: Duration,
    /// The series of the last evaluation.
    pub rows: usize,
    /// Why the last evaluation failed.
    pub error: Option<String>,
}

/// An alert, and the ids of the silences that cover it.
#[derive(Debug, Clone)]
pub struct AlertView {
    /// The alert.
    pub alert: Alert,
    /// Ids of silences.
    pub silenced_by: Vec<String>,
}

/// Numbers of all rules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Rules.
    pub rules: usize,
    /// Alerts that are pending.
    pub pending: usize,
    /// Alerts that fire.
    pub firing: usize,
    /// Evaluations of rules since the start.
    pub evaluations: u64,
    /// Those of them that failed.
    pub failures: u64,
    /// Evaluations of groups that were left out since the start.
    pub missed: u64,
}

impl RuleView {
    /// The state of the rule: that of its alert that is nearest to firing.
    pub fn state(&self) -> State {
        self.alerts.iter().map(|view| view.alert.state).max().unwrap_or(State::Inactive)
    }
}

impl Alerts {
    /// All groups with their rules and alerts, by file and name.
    pub fn groups(&self) -> Vec<GroupView> {
        let now_ns = self.clock.now_ns();
        let inner = self.lock();
        let mut views: Vec<GroupView> =
            inner.groups.values().map(|state| group_view(state, &inner, now_ns)).collect();
        views.sort_by(|a, b| (&a.group.file, &a.group.name).cmp(&(&b.group.file, &b.group.name)));
        views
    }

    /// All silences, the oldest first.
    pub fn silences(&self) -> Vec<Silence> {
        self.lock().silences.all().to_vec()
    }

    /// The numbers of all rules.
    pub fn totals(&self) -> Totals {
        let inner = self.lock();
        let mut totals = Totals {
            evaluations: inner.evaluations,
            failures: inner.failures,
            ..Totals::default()
        };
        for state in inner.groups.values() {
            totals.missed += state.missed;
            totals.rules += state.rules.len();
            for alert in state.rules.values().flat_map(|rule| rule.state.alerts()) {
                totals.pending += usize::from(alert.state == State::Pending);
                totals.firing += usize::from(alert.state == State::Firing);
            }
        }
        totals
    }

    /// The counts of each notifier, by its name.
    pub fn notifiers(&self) -> Vec<(String, Counts)> {
        let notifiers = self.lock_notifiers();
        let each = notifiers.iter();
        each.map(|notifier| (notifier.policy().name.clone(), notifier.counts())).collect()
    }
}

fn group_view(state: &GroupState, inner: &Inner, now_ns: i64) -> GroupView {
    let rules = state.group.rules.iter().map(|rule| {
        state.rules.get(&rule.id).map(|status| rule_view(status, inner, now_ns)).unwrap_or_default()
    });
    GroupView {
        group: state.group.clone(),
        evaluated_ns: state.evaluated_ns,
        missed: state.missed,
        rules: rules.collect(),
    }
}

fn rule_view(status: &RuleStatus, inner: &Inner, now_ns: i64) -> RuleView {
    let alerts = status.state.alerts().map(|alert| AlertView {
        alert: alert.clone(),
        silenced_by: inner.silences.of(&alert.labels, now_ns),
    });
    let mut view = RuleView { alerts: alerts.collect(), ..RuleView::default() };
    if let Some(evaluation) = &status.evaluation {
        view.evaluated_ns = Some(evaluation.time_ns);
        view.took = evaluation.took;
        view.rows = evaluation.rows;
        view.error.clone_from(&evaluation.error);
    }
    view
}
