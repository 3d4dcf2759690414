//! A line for each trial, for other programs: the numbers that the statistics begin with.

use super::summary::{Experiment, Group, Summary};
use crate::number::exact;
use crate::results::Outcome;
use crate::samples::{ALL, Repetition};

/// The name of the file beside a report.
pub const NAME: &str = "samples.csv";

const HEAD: &str = "experiment,store,nodes,target_per_s,target_share,repetition,order,outcome,seconds,operations,errors,per_s,mean_ms,measure,value\n";

/// All measured trials, as CSV (RFC 4180).
pub fn write(summary: &Summary) -> String {
    let mut out = HEAD.to_owned();
    for experiment in &summary.experiments {
        for group in &experiment.groups {
            for trial in &group.repetitions {
                out += &line(experiment, group, trial);
            }
        }
    }
    out
}

fn line(experiment: &Experiment, group: &Group, trial: &Repetition) -> String {
    let number = |value: Option<f64>| value.map(exact).unwrap_or_default();
    let outcome = match &trial.outcome {
        Outcome::Completed => "completed",
        Outcome::NotSupported { .. } => "not supported",
        Outcome::Wrong { .. } => "wrong",
        Outcome::Failed { .. } => "failed",
    };
    let all = trial.labels.get(ALL);
    let name = match experiment.prepares {
        true => format!("load of {}", experiment.name),
        false => experiment.name.clone(),
    };
    let cells = [
        name,
        group.store.clone(),
        group.nodes.to_string(),
        number(trial.target_per_s),
        number(group.target_share),
        trial.number.to_string(),
        trial.order.to_string(),
        outcome.to_owned(),
        exact(trial.seconds),
        all.map_or(0, |all| all.count).to_string(),
        trial.errors().to_string(),
        number(trial.rate(ALL)),
        number(all.and_then(|all| all.mean_ms)),
        experiment.measure.name(),
        number(experiment.measure.of(trial).filter(|_| trial.completed())),
    ];
    cells.map(|cell| quoted(&cell)).join(",") + "\n"
}

/// A cell; one with a comma, quote or line break is quoted.
fn quoted(cell: &str) -> String {
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("mean latency, ms"), "\"mean latency, ms\"");
        assert_eq!(quoted("a \"b\"\n"), "\"a \"\"b\"\"\n\"");
    }
}
