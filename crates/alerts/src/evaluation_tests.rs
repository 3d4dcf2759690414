//! The states of rules against a table, limits, labels and clocks.

use super::*;
use crate::rule::{Defaults, RuleFile};
use crate::testing::{FakeEngine, row};

const MINUTE: i64 = 60_000_000_000;

fn group(keys: &str) -> Group {
    let text =
        format!("groups:\n- name: g\n  limit: 3\n  rules:\n  - alert: A\n    expr: x\n{keys}\n");
    let file = RuleFile::parse("f", &text, &Defaults::default(), &FakeEngine::default());
    file.unwrap().groups.remove(0)
}

/// Evaluates a series that is there (`x`) or not (`.`) each minute; the states behind each
/// evaluation: `-` for no alert, `p`ending, `f`iring, `i`nactive.
fn states(keys: &str, series: &str) -> String {
    let group = group(keys);
    let mut state = RuleState::default();
    let mut shown = String::new();
    for (minute, there) in series.chars().enumerate() {
        // A missed evaluation.
        if there == '_' {
            shown.push('_');
            continue;
        }
        let rows = if there == 'x' { vec![row(&[("h", "a")], 1.0)] } else { Vec::new() };
        state.step(&group, &group.rules[0], &rows, minute as i64 * MINUTE, "").unwrap();
        shown.push(state.alerts().next().map_or('-', |alert| match alert.state {
            State::Pending => 'p',
            State::Firing => 'f',
            State::Inactive => 'i',
        }));
    }
    shown
}

/// The table follows `AlertingRule.Eval` of Prometheus (`rules/alerting.go`).
#[test]
fn states_change_as_in_prometheus() {
    for (keys, series, expected) in [
        ("", "x", "f"),
        ("", ".x.x", "-fif"),
        ("    for: 2m", "xxxx", "ppff"),
        ("    for: 2m", "xx.xxx.", "pp-ppfi"),
        ("    for: 90s", "xxx", "ppf"),
        ("    for: 0s", "x.", "fi"),
        // A missed evaluation does not begin `for` anew.
        ("    for: 2m", "x_x", "p_f"),
        ("    for: 2m", "x____x", "p____f"),
        ("    keep_firing_for: 2m", "x.....", "fffiii"),
        ("    keep_firing_for: 2m", "x.x...x", "fffffif"),
        ("    keep_firing_for: 2m", "x..x...", "ffffffi"),
        ("    for: 1m\n    keep_firing_for: 1m", "xx.xx..", "pfffffi"),
        // A pending alert does not keep firing.
        ("    for: 3m\n    keep_firing_for: 5m", "xx.", "pp-"),
        // An alert that ended is kept for 15 minutes.
        ("", "x................", "fiiiiiiiiiiiiiiii-"),
    ] {
        let expected = &expected[..series.len()];
        assert_eq!(states(keys, series), expected, "{keys} {series}");
    }
    assert_eq!(states("", "x................."), "fiiiiiiiiiiiiiiii-");
}

#[test]
fn changes_name_both_states() {
    let group = group("    for: 1m\n    annotations: {s: '{{ $labels.h }}={{ $value }}'}");
    let mut state = RuleState::default();
    let mut changes = Vec::new();
    for (minute, value) in [(0, Some(1.0)), (1, Some(2.0)), (2, Some(3.0)), (3, None)] {
        let rows: Vec<Row> = value.iter().map(|value| row(&[("h", "a")], *value)).collect();
        let step = state.step(&group, &group.rules[0], &rows, minute * MINUTE, "").unwrap();
        assert_eq!(step.is_changed, minute != 2);
        changes.extend(step.changes);
    }
    let shown: Vec<(i64, State, State, f64, &str)> = changes
        .iter()
        .map(|c| (c.time_ns / MINUTE, c.from, c.to, c.value, c.annotations["s"].as_str()))
        .collect();
    use State::{Firing, Inactive, Pending};
    assert_eq!(
        shown,
        [
            (0, Inactive, Pending, 1.0, "a=1"),
            (1, Pending, Firing, 2.0, "a=2"),
            (3, Firing, Inactive, 3.0, "a=3"),
        ]
    );
}

#[test]
fn labels_of_rules_stand_before_those_of_lines() {
    let group = group("    labels: {severity: page, h: '', team: '{{ $labels.h }}'}");
    let rows = [row(&[("h", "a"), ("severity", "low"), ("e", ""), ("stats_result", "n")], 1.0)];
    let mut state = RuleState::default();
    state.step(&group, &group.rules[0], &rows, 0, "").unwrap();
    let labels: Vec<(&str, &str)> = state
        .alerts()
        .flat_map(|alert| alert.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())))
        .collect();
    assert_eq!(
        labels,
        [
            ("alertgroup", "g"),
            ("alertname", "A"),
            ("exported_severity", "low"),
            ("severity", "page"),
            ("stats_result", "n"),
            ("team", "a"),
        ]
    );
}

#[test]
fn a_failed_evaluation_changes_nothing() {
    let group = group("    labels: {h: x}");
    let mut state = RuleState::default();
    let rows = |count: usize| -> Vec<Row> {
        (0..count).map(|n| row(&[("n", &n.to_string())], 1.0)).collect()
    };
    state.step(&group, &group.rules[0], &rows(3), 0, "").unwrap();
    let before = state.clone();
    let error = state.step(&group, &group.rules[0], &rows(4), MINUTE, "").unwrap_err();
    assert!(error.contains("4 alerts, above the limit of 3"), "{error}");
    let twice = [row(&[("h", "x")], 1.0), row(&[], 1.0)];
    let error = state.step(&group, &group.rules[0], &twice, MINUTE, "").unwrap_err();
    assert!(error.contains("two series"), "{error}");
    assert_eq!(state, before);
    assert!(record(&group, &group.rules[0], &rows(4), 0, "").is_err());
}

#[test]
fn a_clock_that_jumps_back_begins_for_anew() {
    let group = group("    for: 2m");
    let mut state = RuleState::default();
    let rows = [row(&[], 1.0)];
    let mut at = |minute: i64| {
        state.step(&group, &group.rules[0], &rows, minute * MINUTE, "").unwrap();
        state.alerts().next().unwrap().state
    };
    assert_eq!(at(1000), State::Pending);
    assert_eq!(at(10), State::Pending);
    assert_eq!(at(11), State::Pending);
    assert_eq!(at(12), State::Firing);
}

#[test]
fn an_alert_that_ended_waits_for_its_notifiers() {
    let group = group("");
    let mut state = RuleState::default();
    state.step(&group, &group.rules[0], &[row(&[], 1.0)], 0, "").unwrap();
    let labels = state.alerts().next().unwrap().labels.clone();
    let told =
        crate::alert::Told { is_firing: true, is_acknowledged: false, at_ns: 0, is_open: false };
    state.alert_mut(&labels).unwrap().told.insert("mail".to_owned(), told);
    for minute in [1, 60, 600, 24 * 60] {
        state.step(&group, &group.rules[0], &[], minute * MINUTE, "").unwrap();
        assert_eq!(state.alerts().count(), 1);
    }
    state.step(&group, &group.rules[0], &[], 24 * 61 * MINUTE, "").unwrap();
    assert_eq!(state.alerts().count(), 0);
}

#[test]
fn an_end_that_is_owed_outlives_a_series_that_comes_back_for_a_moment() {
    let group = group("    for: 2m");
    let mut state = RuleState::default();
    let at = |state: &mut RuleState, minute: i64, rows: &[crate::engine::Row]| {
        state.step(&group, &group.rules[0], rows, minute * MINUTE, "").unwrap();
    };
    for minute in 0..3 {
        at(&mut state, minute, &[row(&[], 1.0)]);
    }
    let labels = state.alerts().next().unwrap().labels.clone();
    let told =
        crate::alert::Told { is_firing: true, is_acknowledged: false, at_ns: 0, is_open: true };
    state.alert_mut(&labels).unwrap().told.insert("mail".to_owned(), told);
    at(&mut state, 3, &[]);
    at(&mut state, 4, &[row(&[], 1.0)]);
    assert_eq!(state.alert_mut(&labels).unwrap().state, State::Pending);
    at(&mut state, 5, &[]);
    let alert = state.alert_mut(&labels).unwrap();
    assert_eq!((alert.state, alert.resolved_at_ns), (State::Inactive, Some(5 * MINUTE)));
}

#[test]
fn alerts_that_ended_are_bounded() {
    let group = group("");
    let mut state = RuleState::default();
    for second in 0..20 {
        let rows = [row(&[("h", &second.to_string())], 1.0)];
        state.step(&group, &group.rules[0], &rows, second * 1_000_000_000, "").unwrap();
    }
    assert_eq!(state.alerts().count(), 4);
}
