//! Reads trials: turns their lines into the samples of a [`Summary`].

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::summary::{
    ALL, Experiment, Group, Measure, Repetition, Second, Summary, mean, value_at_percentile,
};
use super::{PERCENTILES, ReportError};
use crate::histogram;
use crate::reference::subject;
use crate::results::{Directory, Line, Outcome, ResultsError, Run};
use crate::trial::{Role, Trial, Work};

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

impl Summary {
    /// Reads all trials of a run.
    pub fn read(directory: &Directory, run: Run) -> Result<Summary, ReportError> {
        let definition: toml::Table = toml::from_str(&run.definition).unwrap_or_default();
        let mut experiments: Vec<(u32, Experiment)> = Vec::new();
        let mut trials = 0;
        for name in directory.trials()? {
            let lines = directory.read(&name).map_err(|error| match error {
                // The remedy for a damaged file is that for other faults of a trial.
                ResultsError::Line { number, reason, .. } => {
                    let reason = format!("line {number}: {reason}");
                    ReportError::Trial { trial: name.clone(), reason }
                }
                other => other.into(),
            })?;
            let (trial, repetition, histograms) = read_trial(&name, lines)?;
            if trial.role == Role::WarmUp {
                continue;
            }
            let prepares = trial.role == Role::Prepare;
            trials += u32::from(!prepares);
            let known = experiments
                .iter_mut()
                .find(|(_, known)| known.name == trial.experiment && known.prepares == prepares);
            let (first, experiment) = match known {
                Some(known) => known,
                None => {
                    experiments.push((repetition.order, empty(&trial, &definition)));
                    experiments.last_mut().expect("just added")
                }
            };
            *first = (*first).min(repetition.order);
            match trial.role {
                // Older versions measured a limit for such work too, which says nothing.
                Role::Limit if trial.work.is_paced() => {}
                Role::Limit => experiment.limits.push(repetition),
                Role::Measure | Role::Prepare | Role::WarmUp => {
                    experiment.add(&trial, repetition, histograms)
                }
            }
        }
        experiments.retain(|(_, experiment)| !experiment.groups.is_empty());
        experiments.sort_by_key(|(first, _)| *first);
        let place = |store: &str| run.stores.iter().position(|known| known.label == store);
        for (_, experiment) in &mut experiments {
            for group in &mut experiment.groups {
                group.repetitions.sort_by_key(|trial| trial.order);
                if group.target_share.is_some() {
                    // The rate of which it is a share may have been measured again meanwhile.
                    let targets = group.repetitions.iter().filter_map(|trial| trial.target_per_s);
                    group.target_per_s = mean(&targets.collect::<Vec<f64>>());
                }
            }
            experiment.groups.sort_by(|a, b| {
                let target =
                    |group: &Group| group.target_share.or(group.target_per_s).unwrap_or(0.0);
                let (one, other) = (target(a), target(b));
                (a.nodes.cmp(&b.nodes))
                    .then(one.total_cmp(&other))
                    .then_with(|| place(&a.store).cmp(&place(&b.store)))
                    .then_with(|| a.store.cmp(&b.store))
            });
        }
        let price = definition.get("price_per_machine_hour").and_then(toml::Value::as_float);
        Ok(Summary {
            run,
            experiments: experiments.into_iter().map(|(_, experiment)| experiment).collect(),
            trials,
            price_per_machine_hour: price,
            restart_servers: definition
                .get("restart_servers")
                .and_then(toml::Value::as_bool)
                .unwrap_or_default(),
            bill: definition.get("bill").and_then(|bill| bill.clone().try_into().ok()),
            price_of: definition.get("price_of").and_then(toml::Value::as_str).map(str::to_owned),
        })
    }
}

/// An experiment without trials.
fn empty(trial: &Trial, definition: &toml::Table) -> Experiment {
    let prepares = trial.role == Role::Prepare;
    let tables = definition.get("experiment").and_then(toml::Value::as_array);
    let named = |table: &&toml::Value| {
        table.get("name").and_then(toml::Value::as_str) == Some(&trial.experiment)
    };
    let table = tables.and_then(|tables| tables.iter().find(named)).filter(|_| !prepares);
    let text = |key: &str| {
        let text = table.and_then(|table| table.get(key)).and_then(toml::Value::as_str);
        text.map(|text| text.trim().to_owned())
    };
    Experiment {
        name: trial.experiment.clone(),
        title: text("title").unwrap_or_else(|| trial.experiment.clone()),
        about: text("about").unwrap_or_default(),
        subject: text("subject").unwrap_or_else(|| subject(trial)),
        named: text("subject").is_some(),
        measure: Measure::of_work(trial),
        prepares,
        writes: trial.work.writes(),
        groups: Vec::new(),
        limits: Vec::new(),
    }
}

impl Experiment {
    fn add(&mut self, trial: &Trial, repetition: Repetition, histograms: Histograms) {
        let target_per_s = target_per_s(trial);
        let threads = match &trial.work {
            Work::Load { load, .. } => load.threads,
            Work::RealTime(real_time) => real_time.threads,
        };
        let store = &trial.store.label;
        let same = |group: &Group| {
            group.store == *store
                && group.nodes == trial.nodes
                && group.target_share == trial.target_share
                && (trial.target_share.is_some() || group.target_per_s == target_per_s)
        };
        if self.groups.is_empty() {
            // The trial of the generator's limit may be first; it has no ramp and no rate.
            self.measure = Measure::of_work(trial);
            if !self.named {
                self.subject = subject(trial);
            }
            self.writes = trial.work.writes();
        }
        let group = match self.groups.iter().position(same) {
            Some(at) => &mut self.groups[at],
            None => {
                self.groups.push(Group {
                    store: store.clone(),
                    driver: trial.store.name.clone(),
                    nodes: trial.nodes,
                    target_per_s,
                    target_share: trial.target_share,
                    records: trial.work.records(),
                    threads,
                    repetitions: Vec::new(),
                    histograms: BTreeMap::new(),
                });
                self.groups.last_mut().expect("just added")
            }
        };
        if repetition.completed() {
            for (label, more) in histograms {
                let total = group.histograms.entry(label).or_insert_with(histogram::new);
                total.add(more).expect("all histograms have the same bounds");
            }
        }
        group.repetitions.push(repetition);
    }
}

type Histograms = BTreeMap<String, Histogram<u64>>;

fn target_per_s(trial: &Trial) -> Option<f64> {
    match &trial.work {
        Work::Load { load, .. } => load.target_per_s,
        Work::RealTime(_) => None,
    }
}

/// Computes the numbers of one trial from its lines.
pub fn read_trial(
    name: &str,
    lines: Vec<Line>,
) -> Result<(Trial, Repetition, Histograms), ReportError> {
    let length = match lines.last() {
        Some(Line::End(end)) => end.seconds,
        _ => f64::INFINITY,
    };
    let mut lines = lines.into_iter();
    let Some(Line::Header(header)) = lines.next() else {
        return Err(ReportError::Trial { trial: name.into(), reason: "it has no header".into() });
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
        percentiles_ms: None,
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
                histogram::add(&mut latencies, &second.histogram).map_err(|e| {
                    ReportError::Trial { trial: name.into(), reason: e.to_string() }
                })?;
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
    if let Some(all) = histograms.get(ALL).filter(|all| !all.is_empty()) {
        repetition.percentiles_ms =
            Some(PERCENTILES.map(|p| value_at_percentile(all, p) as f64 / 1000.0));
    }
    if histograms.len() == 2 {
        // With one label, all is the same.
        histograms.remove(ALL);
    }
    Ok((header.trial, repetition, histograms))
}
