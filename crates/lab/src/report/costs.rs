//! What data costs: the rate at which it is loaded, its size on disk, and the price of machines.

use super::document::{Document, Table};
use super::summary::Summary;
use super::tables::durability;
use crate::number::{bytes, count, plain};
use crate::samples::{ALL, Measure};
use crate::statistics::mean;

/// The loading of data, and its size on disk.
pub fn loads(document: &mut Document, summary: &Summary) {
    let mut table = Table::new(
        "Data that was loaded for the experiments, in the way the store takes it fastest; means of the loads",
        &[
            "data and store",
            "durability",
            "records",
            "records per second",
            "seconds",
            "table, flushed",
            "bytes per record, flushed",
            "table, compacted",
            "bytes per record, compacted",
            "directory, flushed",
            "directory, compacted",
        ],
    );
    for experiment in summary.experiments.iter().filter(|experiment| experiment.prepares) {
        for group in &experiment.groups {
            let seconds: Vec<f64> = group.completed().map(|trial| trial.seconds).collect();
            let Some(seconds) = mean(&seconds) else { continue };
            let size = |name: &str| mean(&group.sample(&Measure::Value(name.to_owned())));
            let shown = |name: &str| size(name).map(bytes).unwrap_or_default();
            let each = |name: &str| {
                let (size, records) = size(name).zip(group.records)?;
                Some(plain(size / records as f64))
            };
            table.rows.push(vec![
                format!("{}: {}", experiment.title, group.name(true, false)),
                durability(summary, &group.store),
                group.records.map(count).unwrap_or_default(),
                mean(&group.records_per_s()).map(plain).unwrap_or_default(),
                plain(seconds),
                shown("table_bytes_flushed"),
                each("table_bytes_flushed").unwrap_or_default(),
                shown("table_bytes_compacted"),
                each("table_bytes_compacted").unwrap_or_default(),
                shown("directory_bytes_flushed"),
                shown("directory_bytes_compacted"),
            ]);
        }
    }
    if !table.rows.is_empty() {
        document.table(table.compact());
        document.list(vec![
            "Table: what the store itself says the table takes with its indexes, on all nodes; Redis says what it \
             takes in memory, and Loginson what all its tables take together."
                .into(),
            "Directory: all files of the store on this machine, with those of its other tables, its logs of changes \
             and what it allocates ahead."
                .into(),
            "Flushed: after the store wrote what it held in memory. Compacted: after it merged what it could, where \
             the study asks for that. No size is taken before the flush."
                .into(),
        ]);
    }
}

/// The cost of the machines, as in the 2014 study.
pub fn cost(document: &mut Document, summary: &Summary) {
    let Some(price) = summary.price_per_machine_hour else { return };
    let mut table = Table::new(
        format!(
            "Cost of the servers' machines at {} for a machine and hour ({}), one machine for each node",
            plain(price),
            summary.price_of.as_deref().unwrap_or("in the currency of the definition")
        ),
        &[
            "experiment and store",
            "machines",
            "hours of a run, mean",
            "cost of a run",
            "cost of 1,000,000 operations",
        ],
    );
    for experiment in summary.experiments.iter().filter(|experiment| !experiment.prepares) {
        for group in &experiment.groups {
            let trials: Vec<_> = group.completed().collect();
            let seconds: f64 = trials.iter().map(|trial| trial.seconds).sum();
            let operations: u64 =
                trials.iter().filter_map(|trial| trial.labels.get(ALL)).map(|all| all.count).sum();
            if trials.is_empty() {
                continue;
            }
            let cost = seconds / 3600.0 * price * f64::from(group.nodes);
            table.rows.push(vec![
                format!("{}: {}", experiment.title, group.name(false, experiment.has_targets())),
                group.nodes.to_string(),
                plain(seconds / 3600.0 / trials.len() as f64),
                plain(cost / trials.len() as f64),
                if operations > 0 { plain(cost / operations as f64 * 1e6) } else { String::new() },
            ]);
        }
    }
    if !table.rows.is_empty() {
        document.text(
            "The cost of operations follows from the rate that was reached. Under a rate that was asked for it says what such a load \
             costs, not what the machine could do for the money.",
        );
        document.table(table.compact());
    }
}
