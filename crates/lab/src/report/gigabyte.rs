//! What logs cost: processor time and disk for a gigabyte of lines.
//!
//! Money for a month is left out. It would be that of a thousand times the data that was measured,
//! from which neither the time of queries nor the memory for them follows.
//!
//! A gigabyte is 10⁹ bytes of the lines as text ([`crate::row::Row::text_bytes`]), before any store
//! touched them.

use super::document::{Block, Document, Table};
use super::summary::{Experiment, Group, Summary};
use crate::number::{bytes, plain};
use crate::results::WRITTEN_TEXT_BYTES;
use crate::samples::{ALL, Measure, Repetition};
use crate::statistics::mean;

/// Bytes of a gigabyte.
const GIGABYTE: f64 = 1e9;

/// What one store needs for its logs. Means of repetitions.
struct Needs {
    store: String,
    /// Lines that it takes per second.
    rows_per_s: f64,
    /// Gigabytes of text that it takes per second.
    gigabytes_per_s: f64,
    /// Processor time for writing a gigabyte, with the work that it does in the background until
    /// all is on disk, s.
    write_cpu_s_per_gigabyte: f64,
    /// Disk bytes for a byte of text.
    disk_per_text: Option<f64>,
    /// Processor time of a query, s.
    query_cpu_s: Option<f64>,
    /// The most resident memory in any trial.
    memory_bytes: f64,
}

/// The tables; nothing for a study without batches of lines.
pub fn gigabyte(document: &mut Document, summary: &Summary) {
    let needs = needs(summary);
    if needs.is_empty() {
        return;
    }
    document.blocks.push(Block::Heading(3, "What a gigabyte costs".into()));
    let mut table = Table::new(
        "A gigabyte of lines: 10⁹ bytes of their text",
        &[
            "store",
            "lines per second",
            "text per second",
            "processor time to write it, s",
            "disk for it",
            "processor time of a query, s",
            "memory, peak",
        ],
    );
    for store in &needs {
        table.rows.push(vec![
            store.store.clone(),
            plain(store.rows_per_s),
            bytes(store.gigabytes_per_s * GIGABYTE),
            plain(store.write_cpu_s_per_gigabyte),
            store.disk_per_text.map(|share| bytes(share * GIGABYTE)).unwrap_or_default(),
            store.query_cpu_s.map(plain).unwrap_or_default(),
            bytes(store.memory_bytes),
        ]);
    }
    document.table(table);
    document.list(vec![
        "Processor time is that of the servers alone, while they took the lines and until everything was on their disk; background work \
         that a store does later is not in it."
            .into(),
        "Disk is what the store says that the table takes with its indexes, after it merged its first data set. Logs of changes, files that \
         are removed later, and what a store allocates ahead are not in it: the directory stands under the loading of data."
            .into(),
        "The processor time of a query is the mean over all kinds of queries that the store can answer: a store that cannot answer the \
         expensive ones looks cheaper."
            .into(),
    ]);
}

fn needs(summary: &Summary) -> Vec<Needs> {
    let ingest = summary.experiments.iter().find(|e| e.measure == Measure::Rows && !e.prepares);
    let groups = ingest.map_or(&[][..], |experiment| &experiment.groups);
    groups.iter().filter_map(|group| of_store(summary, group)).collect()
}

/// The needs of the store that took the lines of `ingest`.
fn of_store(summary: &Summary, ingest: &Group) -> Option<Needs> {
    let per_trial = |of: &dyn Fn(&Repetition) -> Option<f64>| {
        mean(&ingest.completed().filter_map(of).collect::<Vec<_>>())
    };
    let gigabytes = |trial: &Repetition| Some(trial.values.get(WRITTEN_TEXT_BYTES)? / GIGABYTE);
    let write_cpu_s = |trial: &Repetition| {
        let settled = ["settle_cpu_s_visible", "settle_cpu_s_flushed"];
        let settled = settled.iter().filter_map(|name| trial.values.get(*name)).sum::<f64>();
        Some((trial.usage.get(&ingest.store)?.cpu_s + settled) / gigabytes(trial)?)
    };
    let same = |experiment: &'_ &Experiment| {
        experiment.groups.iter().any(|group| group.store == ingest.store)
    };
    let of_same = || {
        let experiments = summary.experiments.iter().filter(same);
        experiments.flat_map(|e| e.groups.iter().map(move |group| (e, group)))
    };
    let of_same = || of_same().filter(|(_, group)| group.store == ingest.store);
    let disk_per_text = of_same().filter(|(e, _)| e.prepares).find_map(|(_, group)| {
        let trial = group.completed().next()?;
        let compacted = trial.values.get("table_bytes_compacted");
        let bytes = compacted.or(trial.values.get("table_bytes_flushed"))?;
        Some(bytes / trial.values.get(WRITTEN_TEXT_BYTES)?)
    });
    let asked = of_same().filter(|(e, _)| e.subject == "line_queries" && !e.writes);
    let query_cpu_s: Vec<f64> = asked
        .filter_map(|(_, group)| {
            let trials = group.completed().filter_map(|trial| {
                let used = trial.usage.get(&group.store)?.cpu_s;
                let asked = trial.labels.get(ALL)?.count;
                (asked > 0).then(|| used / asked as f64)
            });
            mean(&trials.collect::<Vec<_>>())
        })
        .collect();
    let memory = of_same().flat_map(|(_, group)| {
        group.completed().filter_map(|trial| Some(trial.usage.get(&group.store)?.memory_bytes_peak))
    });
    Some(Needs {
        store: ingest.store.clone(),
        rows_per_s: per_trial(&|trial| trial.rows_per_s())?,
        gigabytes_per_s: per_trial(&|trial| Some(gigabytes(trial)? / trial.seconds))?,
        write_cpu_s_per_gigabyte: per_trial(&write_cpu_s)?,
        disk_per_text,
        query_cpu_s: mean(&query_cpu_s),
        memory_bytes: memory.max().unwrap_or(0) as f64,
    })
}
