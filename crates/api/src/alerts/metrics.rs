//! Metrics of alerts.

use alerts::{Counts, State};

use crate::wire::metrics::Text;
use node::alerts::AlertStage;

/// Appends the metrics of alerts.
pub fn text(stage: &AlertStage, out: &mut Text) {
    let alerts = stage.alerts();
    let totals = alerts.totals();
    out.head("loginson_alert_rules", "gauge", "Rules that are evaluated.");
    out.sample("loginson_alert_rules", &[], totals.rules);
    out.head("loginson_alert_rule_files_invalid", "gauge", "Rule files left out for a mistake.");
    out.sample("loginson_alert_rule_files_invalid", &[], stage.invalid().len());
    out.head("loginson_alerts", "gauge", "Alerts by state.");
    for (state, count) in [(State::Pending, totals.pending), (State::Firing, totals.firing)] {
        out.sample("loginson_alerts", &[("state", state.name())], count);
    }
    for (name, help, count) in [
        ("loginson_alert_evaluations_total", "Evaluations of rules.", totals.evaluations),
        (
            "loginson_alert_evaluation_failures_total",
            "Evaluations of rules that failed.",
            totals.failures,
        ),
        (
            "loginson_alert_evaluations_missed_total",
            "Evaluations of groups that were left out because earlier ones took too long.",
            totals.missed,
        ),
        (
            "loginson_alert_rows_lost_total",
            "Rows and states of alerts that could not be kept.",
            stage.lost(),
        ),
    ] {
        out.head(name, "counter", help);
        out.sample(name, &[], count);
    }
    let notifiers = alerts.notifiers();
    type Number = fn(&Counts) -> u64;
    let numbers: [(&str, &str, &str, Number); 7] = [
        (
            "loginson_notifications_sent_total",
            "counter",
            "Notifications that the receiver took.",
            |counts| counts.sent,
        ),
        (
            "loginson_notification_attempts_failed_total",
            "counter",
            "Attempts at a notification that failed and may be repeated.",
            |counts| counts.failed_attempts,
        ),
        (
            "loginson_notifications_given_up_total",
            "counter",
            "Notifications given up after some attempts; they are due again after the next evaluation.",
            |counts| counts.given_up,
        ),
        (
            "loginson_notifications_refused_total",
            "counter",
            "Notifications that the receiver refused, in whole or in part.",
            |counts| counts.refused,
        ),
        (
            "loginson_notifications_dropped_total",
            "counter",
            "Notifications for which the queue had no room; they are due again after the next evaluation.",
            |counts| counts.dropped,
        ),
        ("loginson_notifications_waiting", "gauge", "Notifications that wait.", |counts| {
            counts.waiting as u64
        }),
        (
            "loginson_notifier_failing",
            "gauge",
            "1 if the last attempt at a notification failed; /api/v1/alerts/notifiers says why.",
            |counts| u64::from(counts.last_error.is_some()),
        ),
    ];
    for (name, kind, help, number) in numbers {
        out.head(name, kind, help);
        for (notifier, counts) in &notifiers {
            out.sample(name, &[("notifier", notifier)], number(counts));
        }
    }
}
