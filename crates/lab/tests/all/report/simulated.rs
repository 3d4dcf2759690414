//! Results of simulated stores: rates and latencies with known distributions, written by the same
//! code as real ones.

use std::collections::BTreeMap;
use std::path::Path;

use lab::driver::StoreSpec;
use lab::histogram;
use lab::results::{
    Directory, End, FORMAT, Header, Line, Machine, Outcome, Resource, ResultsError, Run, Second,
    StoreInfo,
};
use lab::row::{ColumnKind, Schema};
use lab::trial::{Load, RealTime, Role, Share, Trial, Work};
use lab::workload::{History, Phase, Workload};

/// Pseudo-random numbers that are the same on every machine and with every version of every
/// library.
pub struct Noise(u64);

impl Noise {
    fn uniform(&mut self) -> f64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Approximately normal with mean 0 and deviation 1: the sum of twelve uniform numbers.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// The result of a simulated trial.
#[derive(Clone)]
pub struct Outcomes {
    /// Operations per second.
    pub rate: f64,
    /// Relative deviation between repetitions.
    pub spread: f64,
    /// Labels, each with its share of the operations and its median latency, ms.
    pub labels: Vec<(&'static str, f64, f64)>,
    /// Length, in seconds.
    pub seconds: u32,
    /// Operations that fail in the last second.
    pub errors: u64,
    /// Values of the whole trial, with 2% of noise.
    pub values: Vec<(&'static str, f64)>,
    /// Notes for the report.
    pub note: Option<&'static str>,
    /// The outcome.
    pub outcome: Outcome,
}

impl Outcomes {
    /// A completed trial with one label.
    pub fn of(rate: f64, label: &'static str, median_ms: f64) -> Outcomes {
        Outcomes {
            rate,
            spread: 0.03,
            labels: vec![(label, 1.0, median_ms)],
            seconds: 6,
            errors: 0,
            values: Vec::new(),
            note: None,
            outcome: Outcome::Completed,
        }
    }
}

/// A run that is written trial by trial.
pub struct Simulated {
    directory: Directory,
    noise: Noise,
    order: u32,
}

impl Simulated {
    /// Begins a run.
    pub fn new(path: &Path, study: &str, scale: &str, stores: &[&str], seed: u64) -> Simulated {
        let definition = lab::definition::text(study, &[]).expect("a study of the program");
        let stores = stores.iter().map(|label| StoreInfo {
            label: (*label).to_owned(),
            version: format!("{label} 1.0 (simulated)"),
            note: None,
            durability: lab::stores::find(label.split(' ').next().expect("a name"))
                .ok()
                .and_then(|store| store.promise(&BTreeMap::new(), Some(&BTreeMap::new()))),
            states: Vec::new(),
            has_foreign_client: *label == "redis",
            options: BTreeMap::new(),
            configuration: vec!["memory = 1 GB".into(), "# <simulated> & `quoted`".into()],
        });
        let run = Run {
            format: FORMAT,
            study: study.into(),
            definition,
            scale: scale.into(),
            seed,
            started: "2026-01-02T03:04:05Z".into(),
            command: ["loginson-lab", "run", study, "--scale", scale].map(String::from).to_vec(),
            lab_version: "0.1.0".into(),
            machine: Machine {
                processor: "Simulated processor".into(),
                cores: 2,
                memory_bytes: 8_000_000_000,
                kernel: "Linux 6.1".into(),
                system: "Debian".into(),
            },
            stores: stores.collect(),
            trials_planned: 0,
            again: Vec::new(),
        };
        let directory = Directory::create(path, &run).expect("a directory for the results");
        Simulated { directory, noise: Noise(seed), order: 0 }
    }

    /// Writes one trial.
    pub fn trial(
        &mut self,
        (experiment, role, work): (&str, Role, Work),
        (store, nodes, repetition): (&str, u32, u32),
        outcomes: &Outcomes,
    ) -> Result<(), ResultsError> {
        self.order += 1;
        let name = format!("{:04}-{experiment}-{nodes}-{repetition}", self.order);
        let ramp = matches!(&work, Work::Load { load, .. } if load.ramp_s > 0.0);
        let threads = match &work {
            Work::Load { load, .. } => load.threads,
            Work::RealTime(real_time) => real_time.threads,
        };
        let trial = Trial {
            experiment: experiment.into(),
            role,
            store: StoreSpec {
                name: store.split(' ').next().unwrap_or(store).into(),
                label: store.into(),
                endpoints: vec!["127.0.0.1:1".into()],
                options: BTreeMap::new(),
            },
            nodes,
            schema: Schema { table: "log".into(), key: ColumnKind::Integer, columns: Vec::new() },
            work,
            repetition,
            seed: 1,
            target_share: None,
            share: Share::default(),
            cold: false,
            crash_after_s: None,
        };
        let mut file = self.directory.begin(&name)?;
        file.write(&Line::Header(Box::new(Header {
            trial,
            order: self.order,
            started: "2026-01-02T03:04:05Z".into(),
        })))?;
        let factor = 1.0 + outcomes.spread * self.noise.normal();
        for second in 0..outcomes.seconds {
            let at_work = if ramp { threads * (second + 1) / outcomes.seconds } else { threads };
            for (label, share, median_ms) in &outcomes.labels {
                // With few threads a store is not at its limit yet.
                let reached = if ramp { (f64::from(at_work) / 12.0).min(1.0) } else { 1.0 };
                let noise = 1.0 + 0.02 * self.noise.normal();
                let count =
                    (outcomes.rate * factor * share * reached * noise).round().max(1.0) as u64;
                let waits = if ramp { f64::from(at_work) / 12.0 / reached } else { 1.0 };
                let last = second + 1 == outcomes.seconds;
                let mut errors = BTreeMap::new();
                if last && outcomes.errors > 0 {
                    errors.insert("timeout".to_owned(), outcomes.errors);
                }
                file.write(&Line::Second(Second {
                    second,
                    label: (*label).to_owned(),
                    count,
                    errors,
                    histogram: self.latencies(count, median_ms * waits / factor),
                    threads: at_work,
                }))?;
            }
            for (process, share) in [(store, 0.8), ("generator", 0.3), ("host", 1.2)] {
                file.write(&Line::Resource(Resource {
                    second,
                    process: process.to_owned(),
                    cpu_s: share * (1.0 + 0.1 * self.noise.normal()),
                    memory_bytes: 500_000_000,
                    disk_write_bytes: 2_000_000,
                    network_bytes: if process == "host" { 9_000_000 } else { 0 },
                    ..Resource::default()
                }))?;
            }
        }
        for (name, value) in &outcomes.values {
            let value = value * (1.0 + 0.02 * self.noise.normal());
            file.write(&Line::Value { name: (*name).to_owned(), value })?;
        }
        if let Some(text) = outcomes.note {
            file.write(&Line::Note { text: text.to_owned() })?;
        }
        let seconds = f64::from(outcomes.seconds);
        file.end(End { outcome: outcomes.outcome.clone(), seconds })
    }

    /// Latencies around a median, one in a hundred far above it.
    fn latencies(&mut self, count: u64, median_ms: f64) -> String {
        let mut latencies = histogram::new();
        let kinds = count.min(40);
        for kind in 0..kinds {
            let many = count / kinds + u64::from(kind < count % kinds);
            let out = if self.noise.uniform() < 0.01 { 12.0 } else { 1.0 };
            let ms = median_ms * 2_f64.powf(0.7 * self.noise.normal()) * out;
            latencies.record_n(((ms * 1000.0) as u64).max(1), many).expect("below an hour");
        }
        histogram::encode(&latencies)
    }
}

/// The workload of log records.
pub fn work(workload: Workload, threads: u32, ramp_s: f64, target_per_s: Option<f64>) -> Work {
    let load = Load {
        threads,
        ramp_s,
        operations: Some(1000),
        operations_per_thread: None,
        seconds: None,
        target_per_s,
        warm_up_s: 0.0,
        until_visible: false,
        batch_rows: 1,
    };
    Work::Load { workload, load }
}

/// A whole run of Study 1 on four stores, one of them with two options.
pub fn study1(path: &Path, scale: &str, repetitions: u32, seed: u64) -> Result<(), ResultsError> {
    let stores = ["postgres", "elasticsearch", "cassandra", "cassandra index=none", "loginson"];
    let mut run = Simulated::new(path, "study1", scale, &stores, seed);
    let writes = || work(Workload::LogWrites { records: 30_000 }, 32, 0.0, None);
    let history = History { records: 215_441, timestamps: 29, machines: 23, services: 17 };
    for store in stores {
        let mut loaded = Outcomes::of(20_000.0, "insert_many", 20.0);
        // The size before the flush is no useful size: it is 0 if the store still holds the data in
        // memory.
        loaded.values = vec![
            ("table_bytes_visible", 0.0),
            ("directory_bytes_visible", 0.0),
            ("table_bytes_flushed", 60_000_000.0),
            ("directory_bytes_flushed", 90_000_000.0),
        ];
        let fill = work(Workload::HistoryWrites(history.clone()), 4, 0.0, None);
        run.trial(("history", Role::Prepare, fill), (store, 1, 1), &loaded)?;
    }
    let ramp = || work(Workload::LogWrites { records: 200_000 }, 50, 15.0, None);
    let mut rising = Outcomes::of(9_000.0, "insert", 1.0);
    rising.seconds = 25;
    run.trial(
        ("saturation", Role::Limit, ramp()),
        ("null", 1, 1),
        &Outcomes { rate: 90_000.0, ..rising.clone() },
    )?;
    for (store, rate) in stores.iter().zip([1_100.0, 5_000.0, 8_000.0, 9_000.0, 80_000.0]) {
        run.trial(
            ("saturation", Role::Measure, ramp()),
            (store, 1, 1),
            &Outcomes { rate, ..rising.clone() },
        )?;
    }
    run.trial(
        ("writes", Role::Limit, writes()),
        ("null", 1, 1),
        &Outcomes::of(14_000.0, "insert", 0.1),
    )?;
    for repetition in 1..=repetitions {
        let rates =
            [(6_400.0, 5.0), (4_930.0, 6.5), (7_160.0, 4.4), (12_270.0, 2.6), (6_350.0, 5.0)];
        for (store, (rate, median)) in stores.iter().zip(rates) {
            let mut outcomes = Outcomes::of(rate, "insert", median);
            if *store == "elasticsearch" {
                // Slower with each repetition.
                outcomes.rate *= 1.0 - 0.02 * f64::from(repetition);
                outcomes.spread = 0.002;
                outcomes.errors = 3;
            }
            if *store == "loginson" {
                outcomes.note = Some("the server answered <b>slowly</b> | twice");
            }
            run.trial(("writes", Role::Measure, writes()), (store, 1, repetition), &outcomes)?;
        }
    }
    for repetition in 1..=repetitions {
        let medians = [
            [60.0, 140.0, 170.0],
            [5.0, 9.0, 13.0],
            [1400.0, 1380.0, 1370.0],
            [0.0; 3],
            [4.0, 5.0, 5.5],
        ];
        for (store, medians) in stores.iter().zip(medians) {
            let mut outcomes = Outcomes::of(69.0, "query_a", 1.0);
            outcomes.labels = ["query_a", "query_b", "query_c"]
                .into_iter()
                .zip(medians)
                .map(|(label, median)| (label, 1.0 / 3.0, median))
                .collect();
            outcomes.seconds = 3;
            if *store == "cassandra index=none" {
                outcomes.labels.clear();
                outcomes.outcome = Outcome::NotSupported { ability: "count".into() };
            }
            if *store == "postgres" && repetition == 2 {
                outcomes.outcome =
                    Outcome::Wrong { message: "query_b answered 322, expected 323".into() };
            }
            let queries = work(Workload::HistoryQueries(history.clone()), 1, 0.0, None);
            run.trial(("history", Role::Measure, queries), (store, 1, repetition), &outcomes)?;
        }
    }
    let real_time = RealTime {
        records: 10_000,
        per_s: 2_000.0,
        threads: 8,
        interval_s: 0.1,
        counts_max: 20,
        batch_rows: 1,
    };
    let mut nothing = Outcomes::of(2_000.0, "insert", 0.01);
    nothing.values = vec![("delay_ms", 0.02)];
    run.trial(
        ("real-time", Role::Limit, Work::RealTime(real_time.clone())),
        ("null", 1, 1),
        &nothing,
    )?;
    for repetition in 1..=repetitions {
        for (store, delay) in stores.iter().zip([17.8, 514.5, 366.7, 370.0, 3.0]) {
            let mut outcomes = Outcomes::of(2_000.0, "insert", 1.0);
            outcomes.values = vec![("delay_ms", delay), ("write_rate_per_s", 2_000.0)];
            if *store == "cassandra index=none" {
                outcomes.outcome =
                    Outcome::Failed { message: "the server died: see its log".into() };
            }
            run.trial(
                ("real-time", Role::Measure, Work::RealTime(real_time.clone())),
                (store, 1, repetition),
                &outcomes,
            )?;
        }
    }
    run.trial(
        ("cluster-writes", Role::Limit, writes()),
        ("null", 1, 1),
        &Outcomes::of(90_000.0, "insert", 0.1),
    )?;
    for repetition in 1..=repetitions.min(5) {
        for (nodes, rate) in [(1, 4_930.0), (2, 5_957.0), (3, 6_050.0)] {
            for (store, factor) in [("elasticsearch", 1.0), ("cassandra", 1.5)] {
                let outcomes = Outcomes::of(rate * factor, "insert", 6.0);
                run.trial(
                    ("cluster-writes", Role::Measure, writes()),
                    (store, nodes, repetition),
                    &outcomes,
                )?;
            }
        }
    }
    Ok(())
}

/// A run of workload A of YCSB at two targets.
pub fn ycsb(path: &Path, repetitions: u32, seed: u64) -> Result<(), ResultsError> {
    let stores = ["postgres", "cassandra", "redis"];
    let mut run = Simulated::new(path, "ycsb", "small", &stores, seed);
    let properties: BTreeMap<String, String> = [
        ("recordcount", "50000"),
        ("readproportion", "0.5"),
        ("updateproportion", "0.5"),
        ("requestdistribution", "zipfian"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect();
    for repetition in 1..=repetitions {
        for target in [1_000.0_f64, 4_000.0] {
            for (store, most, median) in
                [("postgres", 3_000.0, 0.8), ("cassandra", 9_000.0, 1.4), ("redis", 50_000.0, 0.2)]
            {
                let workload = Workload::Ycsb { phase: Phase::Run, properties: properties.clone() };
                let mut outcomes = Outcomes::of(target.min(most), "read", median);
                let late = if most < target { 80.0 } else { 1.0 };
                outcomes.labels =
                    vec![("read", 0.5, median * late), ("update", 0.5, median * 0.7 * late)];
                outcomes.spread = 0.01;
                run.trial(
                    ("a", Role::Measure, work(workload, 64, 0.0, Some(target))),
                    (store, 1, repetition),
                    &outcomes,
                )?;
            }
        }
    }
    Ok(())
}
