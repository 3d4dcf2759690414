//! Reads the lines of a trial.

use std::collections::BTreeMap;

use super::{
    ALL, Histograms, PERCENTILES, Repetition, Second, TrialError, percentile_ms, target_per_s,
};
use crate::histogram;
use crate::results::{Line, Outcome};
use crate::trial::{Role, Trial};

/// The value of an experiment that loads data: how long that took.
const LOAD_S: &str = "load_s";

/// The value of loaded data: the size of the table for each record, as small as the study asks for.
pub const DISK_PER_RECORD: &str = "disk_bytes_per_record";

/// The value of an experiment with on-line queries: the share that was answered in time.
const ONLINE: &str = "answered_within_a_second_percent";

/// The value of queries while lines arrive: how many lines should arrive.
pub const DUE_ROWS: &str = "due_rows";

/// The time in which the 2012 study wants an on-line query answered, µs.
const ONLINE_US_MAX: u64 = 1_000_000;

/// Computes the numbers of one trial from its lines.
pub fn read_trial(
    name: &str,
    lines: Vec<Line>,
) -> Result<(Trial, Repetition, Histograms), TrialError> {
    let length = match lines.last() {
        Some(Line::End(end)) => end.seconds,
        _ => f64::INFINITY,
    };
    let mut lines = lines.into_iter();
    let Some(Line::Header(header)) = lines.next() else {
        return Err(TrialError { trial: name.into(), reason: "it has no header".into() });
    };
    let mut repetition = Repetition {
        order: header.order,
        number: header.trial.repetition,
        target_per_s: target_per_s(&header.trial),
        started: header.started,
        outcome: Outcome::Failed { message: "its results have no end".into() },
        seconds: 0.0,
        labels: BTreeMap::new(),
        series: Vec::new(),
        usage: BTreeMap::new(),
        percentiles_ms: [None; PERCENTILES.len()],
        values: BTreeMap::new(),
        notes: Vec::new(),
    };
    let mut histograms = Histograms::new();
    // For each second: operations, latencies, and the sum of latencies, µs. A composite operation
    // is one operation with two latencies.
    let mut sums: Vec<(i64, u64, f64)> = Vec::new();
    let mut operations_all = 0;
    for line in lines {
        match line {
            Line::Header(_) => {}
            Line::Second(second) => {
                let mut latencies = histogram::new();
                histogram::add(&mut latencies, &second.histogram)
                    .map_err(|e| TrialError { trial: name.into(), reason: e.to_string() })?;
                operations_all += second.operations();
                let all = (!second.is_of_parts()).then_some(ALL);
                for label in std::iter::once(second.label.as_str()).chain(all) {
                    let operations = repetition.labels.entry(label.to_owned()).or_default();
                    operations.count += second.count;
                    for (kind, count) in &second.errors {
                        *operations.errors.entry(kind.clone()).or_default() += count;
                    }
                    let total = histograms.entry(label.to_owned()).or_insert_with(histogram::new);
                    total.add(&latencies).expect("all histograms have the same bounds");
                }
                let at = second.second as usize;
                if repetition.series.len() <= at {
                    repetition.series.resize(at + 1, Second::default());
                    sums.resize(at + 1, (0, 0, 0.0));
                }
                let (sum, (operations, count, sum_us)) =
                    (&mut repetition.series[at], &mut sums[at]);
                sum.threads = sum.threads.max(second.threads);
                *operations += second.operations();
                if !second.is_of_parts() {
                    sum.errors += second.errors.values().sum::<u64>();
                    *count += latencies.len();
                    *sum_us += latencies.mean() * latencies.len() as f64;
                }
            }
            Line::Resource(resource) if !resource.is_within(length) => {}
            Line::Resource(resource) => {
                repetition.usage.entry(resource.process.clone()).or_default().add(&resource);
            }
            Line::Value { name, value } => {
                repetition.values.insert(name, value);
            }
            Line::Note { text } => repetition.notes.push(text),
            Line::End(end) => {
                repetition.outcome = end.outcome;
                repetition.seconds = end.seconds;
            }
        }
    }
    for usage in repetition.usage.values_mut() {
        usage.keep_whole(repetition.seconds);
    }
    for (second, (operations, count, sum_us)) in repetition.series.iter_mut().zip(sums) {
        // Parts in one second may belong to an operation that ended in the next.
        second.count = u64::try_from(operations).unwrap_or(0);
        second.mean_ms = (count > 0).then(|| sum_us / count as f64 / 1000.0);
    }
    for (label, operations) in &mut repetition.labels {
        let latencies = &histograms[label];
        operations.mean_ms = (!latencies.is_empty()).then(|| latencies.mean() / 1000.0);
    }
    if let Some(all) = repetition.labels.get_mut(ALL) {
        // A composite operation takes as long as its parts, which were counted one by one.
        let (parts, operations) = (all.count, u64::try_from(operations_all).unwrap_or(0));
        all.count = operations;
        all.mean_ms = all.mean_ms.filter(|_| operations > 0);
        all.mean_ms = all.mean_ms.map(|mean_ms| mean_ms * parts as f64 / operations as f64);
    }
    if header.trial.role == Role::Measure && header.trial.work.is_load() && repetition.completed() {
        repetition.values.insert(LOAD_S.to_owned(), repetition.seconds);
    }
    if let Some(records) =
        header.trial.work.records().filter(|_| header.trial.role == Role::Prepare)
    {
        let sizes = ["table_bytes_compacted", "table_bytes_flushed"];
        let bytes = sizes.iter().find_map(|name| repetition.values.get(*name).copied());
        let each = bytes.map(|bytes| bytes / records.max(1) as f64);
        repetition.values.extend(each.map(|each| (DISK_PER_RECORD.to_owned(), each)));
    }
    if let Some(due) = header.trial.work.due_rows() {
        repetition.values.insert(DUE_ROWS.to_owned(), due);
    }
    if header.trial.work.is_online() && repetition.completed() {
        let all = &repetition.labels.get(ALL).cloned().unwrap_or_default();
        let asked = all.count + all.errors.values().sum::<u64>();
        let answered = histograms.get(ALL).map_or(0, |all| all.count_between(0, ONLINE_US_MAX));
        if asked > 0 {
            let percent = answered as f64 / asked as f64 * 100.0;
            repetition.values.insert(ONLINE.to_owned(), percent);
        }
    }
    if let Some(all) = histograms.get(ALL) {
        repetition.percentiles_ms = PERCENTILES.map(|percent| percentile_ms(all, percent));
    }
    if histograms.len() == 2 {
        // With one label, all is the same.
        histograms.remove(ALL);
    }
    Ok((header.trial, repetition, histograms))
}
