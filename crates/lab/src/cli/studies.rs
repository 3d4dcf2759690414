//! `loginson-lab list` and `show`.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use crate::definition::{STUDIES, Study, text};
use crate::plan::{Choices, Step, StoreChoice, expected_s, plan};
use crate::scale::Scale;
use crate::trial::Work;

/// Lists the studies.
pub fn list() -> anyhow::Result<String> {
    let mut out = String::new();
    for (name, text) in STUDIES {
        let study = Study::parse(name, text, Scale::Small)?;
        writeln!(out, "{name:8} {}\n         after {}", study.title, study.source)?;
        writeln!(out, "         stores: {}\n", study.stores.join(", "))?;
    }
    writeln!(out, "`loginson-lab show STUDY` says what it measures.")?;
    Ok(out)
}

/// Shows what a study measures, or its definition.
pub fn show(name: &str, scale: Scale, definition: bool) -> anyhow::Result<String> {
    let text = text(name, &[])?;
    if definition {
        return Ok(text);
    }
    let study = Study::parse(name, &text, scale)?;
    let mut out = String::new();
    writeln!(out, "{} ({}), at scale {}", study.title, study.name, scale.name())?;
    writeln!(out, "after {}\n\n{}\n", study.source, study.about)?;
    for experiment in &study.experiments {
        writeln!(out, "{}: {}", experiment.name, experiment.title)?;
        writeln!(out, "    {}", experiment.about)?;
        let work = match (&experiment.load, &experiment.real_time) {
            (Some(load), _) => load.amount(),
            (None, Some(real_time)) => format!(
                "{} records at {} a second, then at most {} counts",
                real_time.records, real_time.per_s, real_time.counts_max
            ),
            (None, None) => String::new(),
        };
        writeln!(out, "    {work}; {} times for each store", experiment.repetitions)?;
        if experiment.nodes != [1] {
            writeln!(out, "    on clusters of {} nodes", joined(&experiment.nodes))?;
        }
        if !experiment.targets_per_s.is_empty() {
            writeln!(out, "    at {} operations a second", joined(&experiment.targets_per_s))?;
        }
        if let Some(of) = &experiment.shares_of {
            writeln!(
                out,
                "    at shares of the rate of `{}`: {}",
                of.experiment,
                joined(&of.shares)
            )?;
        }
        writeln!(out)?;
    }
    let stores = study.stores.iter().map(|store| StoreChoice::parse(store));
    let stores = stores.collect::<Result<Vec<_>, _>>().map_err(anyhow::Error::msg)?;
    // A study may name no stores.
    if !stores.is_empty() {
        writeln!(out, "{}", expectation(&study, &plan(&study, &stores, &Choices::default())))?;
    }
    Ok(out)
}

fn joined<T: std::fmt::Display>(values: &[T]) -> String {
    values.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

/// Describes the work of a trial in a few words.
pub fn described(work: &Work) -> String {
    match work {
        Work::Load { load, .. } => match load.target_per_s {
            Some(target) => format!("{} threads, {target:.0}/s", load.threads),
            None => format!("{} threads", load.threads),
        },
        Work::RealTime(real_time) => format!("{} records", real_time.records),
    }
}

/// How much a run does, and how long that takes.
pub fn expectation(study: &Study, steps: &[Step]) -> String {
    let (least, most) = expected_s(study, steps);
    let stores: BTreeSet<&str> = steps.iter().map(|step| &*step.trial.store.label).collect();
    format!(
        "{} trial{} of {}: expect {} to {}",
        steps.len(),
        if steps.len() == 1 { "" } else { "s" },
        if stores.len() == 1 { "one store".to_owned() } else { format!("{} stores", stores.len()) },
        rough(Duration::from_secs_f64(least)),
        rough(Duration::from_secs_f64(most))
    )
}

/// An approximate duration.
pub fn rough(time: Duration) -> String {
    match time.as_secs() {
        s @ 0..90 => format!("{s} s"),
        s @ 90..5_400 => format!("{} min", s.div_ceil(60)),
        s => format!("{:.1} h", s as f64 / 3_600.0),
    }
}
