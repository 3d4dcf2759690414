//! What logs cost: processor time and disk for a gigabyte of lines, and money for writing and
//! keeping a month of a load that the definition states.
//!
//! Queries are not in the bill. Their time was measured over one amount of data, from which it does
//! not follow for another one.
//!
//! A gigabyte is 10⁹ bytes of the lines as text ([`crate::row::Row::text_bytes`]), before any store
//! touched them.

use super::document::{Document, Table};
use super::summary::{Experiment, Group, Summary};
use crate::number::{bytes, plain};
use crate::results::WRITTEN_TEXT_BYTES;
use crate::samples::{ALL, Measure, Repetition};
use crate::statistics::mean;

/// Bytes of a gigabyte.
const GIGABYTE: f64 = 1e9;

/// Processors that are paid for one that is used: a machine that is always full has no room for an
/// incident.
const PROCESSORS_PAID_PER_USED: f64 = 2.0;

const SECONDS_PER_DAY: f64 = 86_400.0;
const HOURS_PER_MONTH: f64 = 730.0;

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
    document.heading("What a gigabyte costs");
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
    if let Some(bill) = &summary.bill {
        month(document, bill, &needs);
    }
}

/// The cost of a month of the load in the definition, without its queries.
fn month(document: &mut Document, bill: &crate::definition::Bill, needs: &[Needs]) {
    let mut table = Table::new(
        format!(
            "Writing {} GB a day and keeping them for {} days, without queries, in the currency of the definition",
            plain(bill.gigabytes_per_day),
            plain(bill.retention_days)
        ),
        &[
            "store",
            "processors",
            "memory",
            "disk",
            "processors cost",
            "memory costs",
            "disk costs",
            "a month",
        ],
    );
    let mut rows: Vec<(f64, Vec<String>)> = Vec::new();
    for store in needs {
        let Some(disk_per_text) = store.disk_per_text else { continue };
        let writes = store.write_cpu_s_per_gigabyte * bill.gigabytes_per_day / SECONDS_PER_DAY;
        let processors = writes * PROCESSORS_PAID_PER_USED;
        let disk_gigabytes = disk_per_text * bill.gigabytes_per_day * bill.retention_days;
        let costs = [
            processors * bill.price_per_processor_hour * HOURS_PER_MONTH,
            store.memory_bytes / GIGABYTE * bill.price_per_memory_gigabyte_hour * HOURS_PER_MONTH,
            disk_gigabytes * bill.price_per_disk_gigabyte_month,
        ];
        let all: f64 = costs.iter().sum();
        let mut row = vec![
            store.store.clone(),
            plain(processors),
            bytes(store.memory_bytes),
            bytes(disk_gigabytes * GIGABYTE),
        ];
        row.extend(costs.iter().chain([&all]).map(|cost| format!("{cost:.2}")));
        rows.push((all, row));
    }
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    table.rows = rows.into_iter().map(|(_, row)| row).collect();
    document.table(table);
    document.text(format!(
        "Prices: {} for a processor and hour, {} for a gigabyte of memory and hour, {} for a gigabyte of disk and month. {} processors are \
         paid for each that is used, on average of the day; memory is what the store took here, with the data of this study: a store whose \
         memory grows with its data needs more. One copy of the data, no machine in reserve, no work of people. The {} queries an hour of \
         the definition are not in it: their time was measured over one amount of data, from which it does not follow for {} GB.",
        plain(bill.price_per_processor_hour),
        plain(bill.price_per_memory_gigabyte_hour),
        plain(bill.price_per_disk_gigabyte_month),
        plain(PROCESSORS_PAID_PER_USED),
        plain(bill.queries_per_hour),
        plain(bill.gigabytes_per_day * bill.retention_days),
    ));
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
