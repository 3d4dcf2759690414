//! What makes a reader doubt a number: everything about the measurement that is not as it should
//! be, found in the raw results and collected by kind.

use std::collections::BTreeMap;

use super::conclusion::{TARGET_SHARE_MIN, capital};
use super::document::Table;
use super::ranking::ranked;
use super::summary::{Experiment, Group, Summary};
use crate::driver::durability::Durability;
use crate::measure::others::Others;
use crate::measure::speed::{ROUNDS_PER_S, SLOWER_SHARE_MAX};
use crate::number::{bytes as bytes_in_words, count, percent, plain, probability};
use crate::results::{
    ACKNOWLEDGED_ROWS, GENERATOR, HOST, LOST_ROWS, Outcome, READ_BACK_PLANNED, READ_BACK_ROWS,
    WRITTEN_ROWS, WRITTEN_TEXT_BYTES,
};
use crate::samples::{ALL, DUE_ROWS, Measure, Repetition, Second};
use crate::statistics::{
    Change, SAMPLE_WARNING, SIGNIFICANCE, change, mean as average, quantile, trend,
};

/// A store that reaches more than this share of the generator's limit may be held back by the
/// generator: near its limit the generator's own queueing is a large part of every latency.
pub const GENERATOR_SHARE_MAX: f64 = 0.8;

/// A machine that is busier than this has no processor to spare: store and generator take from
/// each other.
const HOST_SHARE_MAX: f64 = 0.95;

/// A trial whose last third is faster or slower than its first by more than this share was not in
/// a steady state.
const STEADY_SHARE_MAX: f64 = 0.15;

/// Whole seconds of a trial without which its thirds say nothing.
const STEADY_SECONDS_MIN: usize = 9;

/// A change of the rate within a trial with less than this p is none that happens by chance. It is
/// less than for other tests, because the rates of neighbouring seconds resemble each other.
const CHANGE_SIGNIFICANCE: f64 = 0.001;

/// A process that uses at least this much of one processor may be bound by it.
const BUSY_PROCESSORS_MIN: f64 = 0.9;

/// Disks that write or read more than this may be what a store waits for, bytes per second.
const BUSY_DISK_BYTES_PER_S: f64 = 1e6;

/// A network that carries more than this may be what a store waits for, bytes per second: most of a
/// gigabit.
const BUSY_NETWORK_BYTES_PER_S: f64 = 100e6;

/// The least that a device writes for an answer, bytes: a sector.
const SECTOR_BYTES: f64 = 512.0;

/// Rows of which a loss of one in a hundred is found with a probability of 99.9 %: ln(0.001) /
/// ln(1 - 1/100).
const READ_AGAIN_MIN: f64 = 688.0;

/// No store makes lines smaller than this, as bytes of text for a byte on disk.
const COMPRESSION_MAX: f64 = 100.0;

/// Text of a trial, bytes, from which on the size that a store tells is compared with it: small
/// tables are not yet made small.
const SIZED_TEXT_MIN: f64 = 10e6;

/// A second without an answer is a stall where the median second has at least this many.
const STALL_USUAL_MIN: u64 = 20;

/// The kinds of doubts, the gravest first, each with what it means for the numbers.
const KINDS: [(&str, &str); 17] = [
    (LOSS, "the store acknowledged rows before they were safe from a kill of its process"),
    (UNSYNCED, "the store says that a row is on disk before it acknowledges it"),
    (UNREAD, "whether the store kept what it acknowledged is not known"),
    (TOO_SMALL, "the store alone tells it; the size of its directory stands beside it"),
    (WRONG, "these trials have no number: a store that answers wrongly is not measured"),
    (FAILED, "these trials have no number"),
    (STALL, "the store stood still: means hide it, percentiles show it"),
    (ERRORS, "failed operations have no latency and are not in the rate"),
    (BEHIND, "fewer lines arrived than should, so that queries had the store more for themselves"),
    (BOTTLENECK, "the number is the generator's; the store may do more"),
    (WAITING, "nothing was busy: the number is that of round trips with so many threads"),
    (FULL, "store and generator take processor time from each other"),
    (INTERFERENCE, "something else used the machine meanwhile"),
    (SLOWER, "other virtual machines, or work that servers still did, slowed the processors down"),
    (UNSTEADY, "the store was still warming up, or slowed down"),
    (DRIFT, "repetitions depend on their order; intervals take them to be independent"),
    (SMALL, "tests rest on the assumption that repetitions are about log-normal"),
];

const LOSS: &str = "lost rows";
const UNSYNCED: &str = "not on disk";
const UNREAD: &str = "not read again";
const TOO_SMALL: &str = "size too small";
const WAITING: &str = "waits for round trips";
const WRONG: &str = "wrong answers";
const FAILED: &str = "failed trials";
const STALL: &str = "stalls";
const ERRORS: &str = "errors";
const BEHIND: &str = "behind";
const BOTTLENECK: &str = "generator too slow";
const FULL: &str = "machine full";
const INTERFERENCE: &str = "interference";
const SLOWER: &str = "slower machine";
const UNSTEADY: &str = "not steady";
const DRIFT: &str = "drift";
const SMALL: &str = "small sample";

/// A doubt about one group.
pub struct Doubt {
    /// One of the names in [`KINDS`].
    kind: &'static str,
    /// The group among those of its experiment.
    name: String,
    /// How much.
    text: String,
}

/// A sentence for each kind and amount, with the names of its groups.
pub fn sentences(doubts: &[Doubt]) -> Vec<String> {
    let mut merged: Vec<(&Doubt, Vec<&str>)> = Vec::new();
    for doubt in doubts {
        let same = |(other, _): &&mut (&Doubt, Vec<&str>)| {
            other.kind == doubt.kind && other.text == doubt.text
        };
        match merged.iter_mut().find(same) {
            Some((_, names)) => names.push(&doubt.name),
            None => merged.push((doubt, vec![&doubt.name])),
        }
    }
    let place = |doubt: &Doubt| KINDS.iter().position(|(kind, _)| *kind == doubt.kind);
    merged.sort_by_key(|(doubt, _)| place(doubt));
    let sentence = |(doubt, names): &(&Doubt, Vec<&str>)| {
        format!("{}: {}: {}.", capital(doubt.kind), names.join("; "), doubt.text)
    };
    merged.iter().map(sentence).collect()
}

/// All doubts about one experiment.
pub fn doubts(summary: &Summary, experiment: &Experiment) -> Vec<Doubt> {
    let cores = summary.run.machine.cores;
    let mut all = Vec::new();
    for group in &experiment.groups {
        let name = experiment.name_of(group);
        let mut doubt = |kind, text: Option<String>| {
            all.extend(text.map(|text| Doubt { kind, name: name.clone(), text }));
        };
        doubt(WRONG, ended(group, |outcome| matches!(outcome, Outcome::Wrong { .. })));
        doubt(FAILED, ended(group, |outcome| matches!(outcome, Outcome::Failed { .. })));
        doubt(LOSS, lost(group));
        doubt(UNSYNCED, unsynced(summary, group));
        doubt(UNREAD, unread(group));
        doubt(TOO_SMALL, too_small(group));
        if experiment.measure != Measure::Value(LOST_ROWS.into()) {
            doubt(STALL, stalls(group));
            doubt(ERRORS, errors(group));
        }
        doubt(BEHIND, behind(group));
        doubt(BOTTLENECK, bottleneck(experiment, group));
        doubt(WAITING, waiting(experiment, group));
        doubt(FULL, full(group, cores));
        doubt(INTERFERENCE, interference(group, cores));
        doubt(SLOWER, slower(experiment, group));
        doubt(UNSTEADY, unsteady(experiment, group));
        doubt(DRIFT, drift(experiment, group));
        doubt(SMALL, small(experiment, group));
    }
    all
}

/// The doubts of all experiments as a table with a row for each kind.
pub fn table(summary: &Summary) -> Table {
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for experiment in summary.experiments.iter().filter(|experiment| !experiment.prepares) {
        for doubt in doubts(summary, experiment) {
            let place = format!("{} ({})", experiment.title, doubt.name);
            found.entry(doubt.kind).or_default().push(place);
        }
    }
    let mut table = Table::new(
        "What to doubt, by kind; the details of each experiment say how much",
        &["kind", "cases", "where", "what it means"],
    );
    for (kind, meaning) in KINDS {
        let Some(places) = found.get(kind) else { continue };
        table.rows.push(vec![
            kind.to_owned(),
            places.len().to_string(),
            shortened(places),
            meaning.to_owned(),
        ]);
    }
    table
}

/// Places that are named in the table of doubts; the others are counted.
const PLACES_MAX: usize = 3;

fn shortened(places: &[String]) -> String {
    let named = &places[..places.len().min(PLACES_MAX)];
    let rest = places.len() - named.len();
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    named.join(", ") + &more
}

fn ended(group: &Group, kind: fn(&Outcome) -> bool) -> Option<String> {
    let all = group.repetitions.len();
    let those = group.repetitions.iter().filter(|trial| kind(&trial.outcome)).count();
    (those > 0).then(|| format!("{those} of {all} repetitions"))
}

/// Rows that were acknowledged, and are not there after the servers were killed. Results of older
/// versions count them only among those that were looked for.
fn lost(group: &Group) -> Option<String> {
    let sum = |name: &str| group.sample(&Measure::Value(name.into())).iter().sum::<f64>();
    let lost = sum(LOST_ROWS);
    (lost > 0.0).then(|| {
        format!(
            "at least {} of {} acknowledged rows were not there after its process was killed",
            plain(lost),
            plain(sum(ACKNOWLEDGED_ROWS))
        )
    })
}

/// Trials in which the disks wrote less, or less often, than rows need that were acknowledged as
/// being on disk. As many writes at the same time as there are threads need one write of a disk, of
/// a sector at least. More than that cannot be known from outside: a disk may say that it wrote and
/// keep the data in its own memory, and other programs write too.
fn unsynced(summary: &Summary, group: &Group) -> Option<String> {
    let store = summary.run.stores.iter().find(|known| known.label == group.store)?;
    if store.durability.as_ref()?.durability != Durability::Each {
        return None;
    }
    let mut seldom: Vec<(f64, f64)> = Vec::new();
    let bytes = |trial: &Repetition| {
        let host = trial.usage.get(HOST)?;
        let written = host.disk_write_bytes as f64;
        let writes = ["insert", "insert_many", "update"];
        let answers: u64 =
            writes.iter().filter_map(|label| trial.labels.get(*label)).map(|all| all.count).sum();
        let text = trial.values.get(WRITTEN_TEXT_BYTES).copied().unwrap_or(0.0);
        let syncs = answers as f64 / f64::from(group.threads.max(1));
        // A flush in the background merges the writes of many rows into one.
        let writes = host.disk_writes.map(|writes| writes as f64);
        seldom.extend(writes.filter(|writes| *writes < syncs).map(|writes| (writes, syncs)));
        let least = (syncs * SECTOR_BYTES).max(text / COMPRESSION_MAX);
        (written < least).then_some((written, least))
    };
    let short: Vec<(f64, f64)> = group.completed().filter_map(bytes).collect();
    let most = |all: &[(f64, f64)]| all.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    let (found, amounts) = match (most(&short), most(&seldom)) {
        (Some((written, least)), _) => {
            let (written, least) = (bytes_in_words(written), bytes_in_words(least));
            (
                short.len(),
                format!("less than the acknowledged rows take, {written} instead of {least}"),
            )
        }
        (None, Some((writes, syncs))) => {
            let (writes, syncs) = (plain(writes), plain(syncs));
            (
                seldom.len(),
                format!(
                    "less often than rows were acknowledged, {writes} times instead of {syncs}"
                ),
            )
        }
        (None, None) => return None,
    };
    Some(format!(
        "in {found} of {} repetitions the disks of this machine wrote {amounts} at least; or its data is on no disk of this machine",
        group.completed().count(),
    ))
}

/// Trials of which too few acknowledged rows were read again.
fn unread(group: &Group) -> Option<String> {
    // Results of older versions do not have how many should have been.
    let few = |trial: &&Repetition| {
        let of = |name: &str| trial.values.get(name).copied();
        let (rows, planned) = (of(READ_BACK_ROWS), of(READ_BACK_PLANNED));
        rows.zip(planned).is_some_and(|(rows, planned)| rows < planned.min(READ_AGAIN_MIN))
    };
    let all = group.completed().count();
    let found = group.completed().filter(few).count();
    (found > 0).then(|| {
        format!("in {found} of {all} repetitions too few acknowledged rows were read again to find the loss of one in a hundred")
    })
}

/// Trials after which the store told a size that no store reaches. Streams are left out: they send
/// the same few lines again and again.
fn too_small(group: &Group) -> Option<String> {
    let told = |trial: &Repetition| {
        let of = |name: &str| trial.values.get(name).copied();
        let told = of("table_bytes_compacted").or_else(|| of("table_bytes_flushed"))?;
        let text = of(WRITTEN_TEXT_BYTES).filter(|text| *text >= SIZED_TEXT_MIN)?;
        let is_stream = trial.labels.contains_key("stream");
        (!is_stream && told < text / COMPRESSION_MAX).then_some((told, text))
    };
    let found: Vec<(f64, f64)> = group.completed().filter_map(told).collect();
    let (told, text) = found.iter().copied().min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(format!(
        "in {} of {} repetitions the store told less than a hundredth of the text of its lines as the size of its table, {} for {}",
        found.len(),
        group.completed().count(),
        bytes_in_words(told),
        bytes_in_words(text),
    ))
}

/// A rate at which nothing was busy, for loads that go as fast as the store answers.
fn waiting(experiment: &Experiment, group: &Group) -> Option<String> {
    let is_rate = matches!(experiment.measure, Measure::Throughput | Measure::Rows);
    if !is_rate || group.target_per_s.is_some() {
        return None;
    }
    // Processors of the servers and of the generator, if nothing was busy.
    let idle = |trial: &Repetition| {
        let of = |name: &str| trial.usage.get(name)?.cpu_mean(trial.seconds);
        let (servers, generator) = (of(&group.store)?, of(GENERATOR)?);
        let host = trial.usage.get(HOST)?;
        let disk = (host.disk_write_bytes + host.disk_read_bytes) as f64 / trial.seconds;
        let network = host.network_bytes as f64 / trial.seconds;
        let is_busy = servers.max(generator) >= BUSY_PROCESSORS_MIN
            || disk > BUSY_DISK_BYTES_PER_S
            || network > BUSY_NETWORK_BYTES_PER_S;
        (!is_busy).then_some((servers, generator))
    };
    let idle: Vec<(f64, f64)> = group.completed().filter_map(idle).collect();
    let all = group.completed().count();
    if idle.is_empty() || idle.len() * 2 <= all {
        return None;
    }
    let mean = |part: fn(&(f64, f64)) -> f64| {
        average(&idle.iter().map(part).collect::<Vec<_>>()).map(plain).unwrap_or_default()
    };
    Some(format!(
        "in {} of {all} repetitions the servers used {} processors, the generator {}, and disks and network were idle: more threads than {} may reach more",
        idle.len(),
        mean(|one| one.0),
        mean(|one| one.1),
        group.threads
    ))
}

/// Seconds without any answer between seconds with many.
fn stalls(group: &Group) -> Option<String> {
    let (mut seconds, mut stood, mut longest) = (0, 0, 0);
    for trial in group.completed() {
        let whole = trial.whole_seconds();
        seconds += whole.len();
        let mut counts: Vec<u64> = whole.iter().map(|second| second.count).collect();
        let runs = counts.chunk_by(|a, b| (*a == 0) == (*b == 0));
        let still: Vec<usize> = runs.filter(|run| run[0] == 0).map(<[u64]>::len).collect();
        counts.sort_unstable();
        let usual = counts.get(counts.len() / 2).copied().unwrap_or(0);
        if usual >= STALL_USUAL_MIN {
            stood += still.iter().sum::<usize>();
            longest = still.into_iter().max().unwrap_or(0).max(longest);
        }
    }
    (stood > 0).then(|| {
        format!(
            "no answer at all in {stood} of {seconds} seconds; the longest pause has {longest} s"
        )
    })
}

fn errors(group: &Group) -> Option<String> {
    let errors: u64 = group.completed().map(Repetition::errors).sum();
    let right: u64 =
        group.completed().filter_map(|trial| trial.labels.get(ALL)).map(|all| all.count).sum();
    (errors > 0).then(|| {
        format!("{} of {} operations ended with an error", count(errors), count(errors + right))
    })
}

/// Lines that should have arrived while queries were asked, and did not.
fn behind(group: &Group) -> Option<String> {
    let sum = |name: &str| group.sample(&Measure::Value(name.into())).iter().sum::<f64>();
    let (due, written) = (sum(DUE_ROWS), sum(WRITTEN_ROWS));
    (written < due * TARGET_SHARE_MIN)
        .then(|| format!("{} of the {} lines arrived that should have", plain(written), plain(due)))
}

fn bottleneck(experiment: &Experiment, group: &Group) -> Option<String> {
    let share = experiment.share_of_limit(group).filter(|share| *share > GENERATOR_SHARE_MAX)?;
    let limit = plain(experiment.limit(group)?);
    let share = percent(share);
    Some(match &experiment.measure {
        Measure::Value(_) => {
            format!("without the store the number is {limit}, which is {share} of that with it")
        }
        _ => {
            format!(
                "it comes to {share} of the {limit}{} that the generator reaches without the store",
                experiment.rate_measure().unit()
            )
        }
    })
}

fn full(group: &Group, cores: u32) -> Option<String> {
    let cores = f64::from(cores.max(1));
    let share = |trial: &Repetition| Some(trial.usage.get(HOST)?.cpu_mean(trial.seconds)? / cores);
    let shares: Vec<f64> = group.completed().filter_map(share).collect();
    let mean = average(&shares)?;
    (mean > HOST_SHARE_MAX).then(|| {
        let generator =
            |trial: &Repetition| trial.usage.get(GENERATOR)?.cpu_mean(trial.seconds);
        let used: Vec<f64> = group.completed().filter_map(generator).collect();
        format!(
            "{} of the processors of the machine were in use, and the generator used {} of its {cores}",
            percent(mean.min(1.0)),
            plain(average(&used).unwrap_or(0.0))
        )
    })
}

fn interference(group: &Group, cores: u32) -> Option<String> {
    let disturbed: Vec<Others> = group
        .completed()
        .filter_map(|trial| trial.others(cores))
        .filter(Others::is_interference)
        .collect();
    let most = disturbed.iter().max_by(|a, b| a.share.total_cmp(&b.share))?;
    let all = group.completed().count();
    Some(format!("in {} of {all} repetitions {most:#}", disturbed.len()))
}

/// How fast the machine computed before a trial.
fn speed(trial: &Repetition) -> Option<f64> {
    trial.values.get(ROUNDS_PER_S).copied()
}

/// The median speed of the machine in an experiment, in rounds for each second of a processor;
/// `None` if it was not measured.
pub fn usual_speed(experiment: &Experiment) -> Option<f64> {
    let trials = experiment.groups.iter().flat_map(Group::completed);
    quantile(&trials.filter_map(speed).collect::<Vec<_>>(), 0.5)
}

/// Trials before which the machine computed more slowly than in the others of the experiment.
fn slower(experiment: &Experiment, group: &Group) -> Option<String> {
    let usual = usual_speed(experiment)?;
    let lost = |trial: &Repetition| Some(1.0 - speed(trial)? / usual);
    let slow: Vec<f64> =
        group.completed().filter_map(lost).filter(|lost| *lost > SLOWER_SHARE_MAX).collect();
    let most = slow.iter().copied().max_by(f64::total_cmp)?;
    Some(format!(
        "before {} of {} repetitions the machine computed up to {} more slowly than it mostly did in this experiment",
        slow.len(),
        group.completed().count(),
        percent(most)
    ))
}

/// Whether the rate rose or fell within trials, for loads without a ramp.
fn unsteady(experiment: &Experiment, group: &Group) -> Option<String> {
    if experiment.measure == Measure::Peak {
        return None;
    }
    if let Some(text) = changed(group) {
        return Some(text);
    }
    // At a rate that is given, a store which is throttled falls behind it at once.
    if group.target_per_s.is_some() {
        return None;
    }
    let change = |trial: &Repetition| {
        let whole = trial.whole_seconds();
        let third = whole.len() / 3;
        if whole.len() < STEADY_SECONDS_MIN {
            return None;
        }
        let rate = |part: &[Second]| part.iter().map(|s| s.count).sum::<u64>() as f64;
        let (first, last) = (rate(&whole[..third]), rate(&whole[whole.len() - third..]));
        (first > 0.0).then(|| last / first - 1.0)
    };
    let changes: Vec<f64> = group.completed().filter_map(change).collect();
    let moved: Vec<f64> =
        changes.iter().copied().filter(|change| change.abs() > STEADY_SHARE_MAX).collect();
    let most = moved.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs()))?;
    Some(format!(
        "in {} of {} repetitions the rate {} by up to {} from the first third to the last",
        moved.len(),
        changes.len(),
        if most > 0.0 { "rose" } else { "fell" },
        percent(most)
    ))
}

/// Trials whose rate went to another level and stayed there, as that of a store that is throttled
/// after a while.
fn changed(group: &Group) -> Option<String> {
    let found = |trial: &Repetition| {
        let whole = trial.whole_seconds();
        let rates: Vec<f64> = whole.iter().map(|second| second.count as f64).collect();
        let found = change(&rates)?;
        (found.p < CHANGE_SIGNIFICANCE && found.share.abs() > STEADY_SHARE_MAX).then_some(found)
    };
    let all: Vec<Change> = group.completed().filter_map(found).collect();
    let most = all.iter().max_by(|a, b| a.share.abs().total_cmp(&b.share.abs()))?;
    Some(format!(
        "in {} of {} repetitions the rate {} to another level and stayed there, by up to {} after {} s",
        all.len(),
        group.completed().count(),
        if most.share > 0.0 { "rose" } else { "fell" },
        percent(most.share.abs()),
        most.at
    ))
}

fn drift(experiment: &Experiment, group: &Group) -> Option<String> {
    let sample = group.sample(&experiment.measure);
    let mean = average(&sample)?;
    let found = trend(&sample).filter(|found| found.p < SIGNIFICANCE)?;
    Some(format!(
        "the number {} with the order of the repetitions, from the first to the last by {} of its mean (Mann-Kendall p {})",
        if found.change >= 0.0 { "rises" } else { "falls" },
        percent(found.change / mean),
        probability(found.p)
    ))
}

fn small(experiment: &Experiment, group: &Group) -> Option<String> {
    let fewest = ranked(std::slice::from_ref(group), &experiment.measure).pop()?.sample.len();
    (fewest < SAMPLE_WARNING)
        .then(|| format!("{fewest} repetition{}", if fewest == 1 { "" } else { "s" }))
}
