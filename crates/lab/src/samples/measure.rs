//! The measures of trials: the number of each, its name and unit, and its name in the figures of
//! papers.

use super::{ALL, PERCENTILES, Repetition};
use crate::results::{HOST, LOST_ROWS, is_server};
use crate::statistics::mean;
use crate::trial::{Trial, Work};

/// The measure of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Measure {
    /// Right answers per second, all labels.
    Throughput,
    /// Rows written per second, of writes in batches.
    Rows,
    /// The highest rate sustained for [`PEAK_SECONDS`].
    Peak,
    /// Mean latency of a label, ms.
    Latency(String),
    /// A value of the whole trial; less is better.
    Value(String),
    /// The latency of all operations at this place of [`PERCENTILES`], ms.
    Percentile(usize),
    /// Processors that the servers use.
    Processors(Over),
    /// What the disks of the machine write, kB/s.
    DiskWrites(Over),
}

/// The time over which a use of resources is a mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// The whole trial.
    Trial,
    /// The busiest interval of [`INTERVAL_S`]; the whole trial if it is shorter.
    Interval,
}

/// The latencies at [`PERCENTILES`] in the figures of papers.
const PERCENTILE_MEASURES: [&str; PERCENTILES.len()] = [
    "latency_ms_p25",
    "latency_ms_p50",
    "latency_ms_p75",
    "latency_ms_p90",
    "latency_ms_p95",
    "latency_ms_p99",
    "latency_ms_p99.9",
    "latency_ms_p100",
];

/// Seconds of an interval in which the 2016 study sampled processors and disks.
pub const INTERVAL_S: usize = 30;

/// A peak of a single second would depend on where the second begins.
pub const PEAK_SECONDS: usize = 3;

impl Measure {
    /// The measure that ranks experiments with this workload.
    pub fn of_work(trial: &Trial) -> Measure {
        use crate::workload::Workload::{
            HistoryQueries, LineQueries, LineStream, LineWrites, MeasurementHistory,
            MeasurementWindows,
        };
        if trial.crash_after_s.is_some() {
            return Measure::Value(LOST_ROWS.into());
        }
        match &trial.work {
            Work::RealTime(_) => Measure::Value("delay_ms".into()),
            Work::Load { load, .. } if load.ramp_s > 0.0 => Measure::Peak,
            Work::Load { load, .. } if load.target_per_s.is_some() => Measure::Latency(ALL.into()),
            Work::Load {
                workload: HistoryQueries(_) | MeasurementHistory(_) | MeasurementWindows(_),
                ..
            } => Measure::Latency(ALL.into()),
            Work::Load { workload: LineQueries(queries), .. } => match queries.arriving {
                Some(_) => Measure::Latency(crate::workload::lines::queries::ANY.into()),
                None => Measure::Latency(ALL.into()),
            },
            Work::Load { workload: LineStream { .. }, .. } => Measure::Rows,
            Work::Load { workload: LineWrites { .. }, load } if load.batch_rows > 1 => {
                Measure::Rows
            }
            Work::Load { .. } => Measure::Throughput,
        }
    }

    /// The number of one trial.
    pub fn of(&self, trial: &Repetition) -> Option<f64> {
        match self {
            Measure::Throughput => trial.rate(ALL),
            Measure::Rows => trial.rows_per_s(),
            Measure::Peak => trial.peak().map(|(rate, _)| rate),
            Measure::Latency(label) => trial.labels.get(label)?.mean_ms,
            Measure::Value(name) => trial.values.get(name).copied(),
            Measure::Percentile(at) => trial.percentiles_ms[*at],
            Measure::Processors(over) => {
                let server = trial.usage.iter().find(|(name, _)| is_server(name))?.1;
                match over {
                    Over::Trial => server.cpu_mean(trial.seconds),
                    Over::Interval => busiest(&server.cpu),
                }
            }
            Measure::DiskWrites(over) => {
                let host = trial.usage.get(HOST)?;
                let kilobytes = |bytes: &u64| *bytes as f64 / 1000.0;
                let each: Vec<f64> = host.disk_write_bytes_each.iter().map(kilobytes).collect();
                match over {
                    Over::Trial => mean(&each),
                    Over::Interval => busiest(&each),
                }
            }
        }
    }

    /// Whether more is better.
    pub fn more_is_better(&self) -> bool {
        matches!(self, Measure::Throughput | Measure::Rows | Measure::Peak)
    }

    /// Its name with the unit, for sentences.
    pub fn name(&self) -> String {
        match self {
            Measure::Throughput => "operations per second".into(),
            Measure::Rows => "rows per second".into(),
            Measure::Peak => "highest operations per second".into(),
            Measure::Latency(label) if label == ALL => "mean latency, ms".into(),
            Measure::Latency(label) => format!("mean latency of {label}, ms"),
            Measure::Value(name) => match name.rsplit_once('_') {
                Some((what, "ms")) => format!("{}, ms", what.replace('_', " ")),
                _ => name.replace('_', " "),
            },
            Measure::Percentile(at) => match PERCENTILES[*at] {
                100.0 => "maximum latency, ms".into(),
                percent => format!("{percent}% latency, ms"),
            },
            Measure::Processors(Over::Trial) => "processors of the servers, mean".into(),
            Measure::Processors(Over::Interval) => {
                format!("processors of the servers, busiest {INTERVAL_S} s")
            }
            Measure::DiskWrites(Over::Trial) => "written to the disks, kB/s, mean".into(),
            Measure::DiskWrites(Over::Interval) => {
                format!("written to the disks, kB/s, busiest {INTERVAL_S} s")
            }
        }
    }

    /// The unit behind a number in a sentence.
    pub fn unit(&self) -> &'static str {
        match self {
            Measure::Throughput | Measure::Peak => " operations per second",
            Measure::Rows => " rows per second",
            Measure::Latency(_) | Measure::Percentile(_) => " ms",
            Measure::Processors(_) => " processors",
            Measure::DiskWrites(_) => " kB/s",
            Measure::Value(name) if name.ends_with("_ms") => " ms",
            Measure::Value(_) => "",
        }
    }

    /// Its name in the figures of papers.
    pub fn reference(&self) -> (&str, Option<&str>) {
        match self {
            Measure::Throughput | Measure::Peak => ("throughput_per_s", None),
            Measure::Rows => ("rows_per_s", None),
            Measure::Latency(label) => ("latency_ms", Some(label)),
            Measure::Value(name) => (name, None),
            Measure::Percentile(at) => (PERCENTILE_MEASURES[*at], None),
            Measure::Processors(Over::Trial) => ("cpu_percent", None),
            Measure::Processors(Over::Interval) => ("cpu_percent_peak", None),
            Measure::DiskWrites(Over::Trial) => ("disk_write_kb_per_s", None),
            Measure::DiskWrites(Over::Interval) => ("disk_write_kb_per_s_peak", None),
        }
    }
}

/// The highest mean of an interval of [`INTERVAL_S`] values; of fewer, their mean.
fn busiest(seconds: &[f64]) -> Option<f64> {
    let whole = seconds.chunks_exact(INTERVAL_S).filter_map(mean);
    whole.max_by(f64::total_cmp).or_else(|| mean(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_interval_is_whole_unless_there_is_none() {
        let seconds: Vec<f64> = [[1.0; INTERVAL_S], [2.0; INTERVAL_S]].concat();
        assert_eq!(busiest(&[seconds.clone(), vec![9.0; 5]].concat()), Some(2.0));
        assert_eq!(busiest(&seconds[..INTERVAL_S]), Some(1.0));
        assert_eq!(busiest(&[1.0, 3.0]), Some(2.0), "of a short trial all");
        assert_eq!(busiest(&[]), None);
    }

    #[test]
    fn percentiles_have_the_names_of_the_papers_figures() {
        for (at, percent) in PERCENTILES.iter().enumerate() {
            let name = format!("latency_ms_p{percent}");
            assert_eq!(Measure::Percentile(at).reference(), (&*name, None));
        }
    }
}
