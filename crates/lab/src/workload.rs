//! What is sent to a store: one file for each kind of workload.

use serde::{Deserialize, Serialize};

use crate::driver::Ability;

/// A workload, as a definition names it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Workload {
    /// Inserts the log records 1 to `records` of the 2015 study, in the order of their keys.
    LogWrites {
        /// How many there are.
        records: u64,
    },
    /// Reads log records under uniformly random keys out of 1 to `records`, and checks every column.
    LogReads {
        /// How many there are.
        records: u64,
    },
    /// Inserts records of the historical data of the 2015 study: four cycles of values whose lengths share no divisor, so that
    /// every count is known.
    HistoryWrites(History),
    /// Asks the queries A, B and C of the historical data, each with other values every time, and checks every count. Labels
    /// `query_a`, `query_b`, `query_c`.
    HistoryQueries(History),
    /// A workload of YCSB's core workload.
    Ycsb {
        /// The load phase inserts the records; the run phase works on them.
        phase: Phase,
        /// YCSB's properties (`recordcount`, `readproportion`, …), as its workload files have them.
        properties: std::collections::BTreeMap<String, String>,
    },
    /// A workload of the 2012 study of application performance monitoring.
    Apm {
        /// The load phase inserts the records; the run phase works on them.
        phase: Phase,
        /// Rows that the load phase inserts.
        records: u64,
        /// Share of reads, %.
        read: u32,
        /// Share of scans, %.
        scan: u32,
        /// Share of inserts, %.
        insert: u32,
        /// A scan asks for 1 to this many rows.
        scan_rows_max: u32,
    },
}

/// The historical data of the 2015 study.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct History {
    /// Records in the table; the whole product of the four cycles at the paper's scale.
    pub records: u64,
    /// Different time stamps.
    pub timestamps: u64,
    /// Different machines.
    pub machines: u64,
    /// Different services.
    pub services: u64,
}

/// The two halves of a workload that works on data of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Inserts the records.
    Load,
    /// Works on them.
    Run,
}

impl Workload {
    /// What a store must be able to do for it.
    pub fn needs(&self) -> Vec<Ability> {
        match self {
            Workload::LogWrites { .. } | Workload::HistoryWrites(_) => vec![Ability::Insert],
            Workload::LogReads { .. } => vec![Ability::Read],
            Workload::HistoryQueries(_) => vec![Ability::Count],
            Workload::Ycsb { phase: Phase::Load, .. }
            | Workload::Apm { phase: Phase::Load, .. } => {
                vec![Ability::Insert]
            }
            Workload::Ycsb { phase: Phase::Run, properties } => ycsb_needs(properties),
            Workload::Apm { read, scan, insert, .. } => {
                let all =
                    [(*read, Ability::Read), (*scan, Ability::Scan), (*insert, Ability::Insert)];
                all.into_iter().filter(|(share, _)| *share > 0).map(|(_, need)| need).collect()
            }
        }
    }
}

fn ycsb_needs(properties: &std::collections::BTreeMap<String, String>) -> Vec<Ability> {
    let share = |name: &str, default: f64| {
        properties.get(name).and_then(|value| value.trim().parse().ok()).unwrap_or(default)
    };
    let both = share("readmodifywriteproportion", 0.0);
    let all = [
        (share("readproportion", 0.95) + both, Ability::Read),
        (share("updateproportion", 0.05) + both, Ability::Update),
        (share("insertproportion", 0.0), Ability::Insert),
        (share("scanproportion", 0.0), Ability::Scan),
    ];
    all.into_iter().filter(|(share, _)| *share > 0.0).map(|(_, need)| need).collect()
}
