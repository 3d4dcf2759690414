//! Results in the text format of YCSB, for tools that parse it.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::histogram::{self, HistogramError};
use crate::results::Line;
use crate::workload::READ_MODIFY_WRITE;

/// The lines of one trial as YCSB prints them at the end of a run. Latencies of operations without
/// a right answer are not measured here, so there are no sections of failed ones; their counts have
/// return codes other than `OK`.
pub fn text(lines: &[Line]) -> Result<String, HistogramError> {
    let mut labels = BTreeMap::new();
    let mut seconds = None;
    for line in lines {
        match line {
            Line::Second(second) => {
                let (latencies, errors) = labels
                    .entry(second.label.as_str())
                    .or_insert_with(|| (histogram::new(), BTreeMap::<&str, u64>::new()));
                histogram::add(latencies, &second.histogram)?;
                for (kind, count) in &second.errors {
                    *errors.entry(kind).or_default() += count;
                }
            }
            Line::End(end) => seconds = Some(end.seconds),
            _ => {}
        }
    }
    let count = |label: &str| labels.get(label).map_or(0, |(latencies, _)| latencies.len());
    // A read-modify-write is one operation, and is also measured as its read and its update.
    let all: u64 = labels.values().map(|(latencies, _)| latencies.len()).sum();
    let operations = all - 2 * count(READ_MODIFY_WRITE);
    let seconds = seconds.unwrap_or(0.0);
    let mut out = String::new();
    let mut say = |section: &str, name: &str, value: &dyn std::fmt::Display| {
        writeln!(out, "[{section}], {name}, {value}").expect("a string takes all text");
    };
    say("OVERALL", "RunTime(ms)", &((seconds * 1000.0).round() as u64));
    let per_s = if seconds > 0.0 { operations as f64 / seconds } else { 0.0 };
    say("OVERALL", "Throughput(ops/sec)", &per_s);
    for (label, (latencies, errors)) in &labels {
        let section = label.to_uppercase().replace('_', "-");
        say(&section, "Operations", &latencies.len());
        say(&section, "AverageLatency(us)", &latencies.mean());
        say(&section, "MinLatency(us)", &latencies.min());
        say(&section, "MaxLatency(us)", &latencies.max());
        for percentile in [50, 95, 99] {
            let value = latencies.value_at_percentile(f64::from(percentile));
            say(&section, &format!("{percentile}thPercentileLatency(us)"), &value);
        }
        say(&section, "Return=OK", &latencies.len());
        for (kind, count) in errors {
            let name = match *kind {
                "missing" => "NOT_FOUND".to_owned(),
                "wrong" => "UNEXPECTED_STATE".to_owned(),
                "not_supported" => "NOT_IMPLEMENTED".to_owned(),
                "unreachable" => "SERVICE_UNAVAILABLE".to_owned(),
                _ => "ERROR".to_owned(),
            };
            say(&section, &format!("Return={name}"), count);
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{End, Outcome, Second};

    #[test]
    fn the_text_is_ycsbs() {
        let second = |label: &str, values: &[u64], errors: &[(&str, u64)]| {
            let mut latencies = histogram::new();
            values.iter().for_each(|value| latencies.record(*value).unwrap());
            Line::Second(Second {
                second: 0,
                label: label.to_owned(),
                count: latencies.len(),
                errors: errors.iter().map(|(kind, count)| (kind.to_string(), *count)).collect(),
                histogram: histogram::encode(&latencies),
                threads: 1,
            })
        };
        let lines = [
            second("read", &[100, 200], &[("missing", 3)]),
            second("update", &[300], &[]),
            second("read_modify_write", &[500], &[]),
            Line::End(End { outcome: Outcome::Completed, seconds: 0.5 }),
        ];
        let expected = "\
[OVERALL], RunTime(ms), 500
[OVERALL], Throughput(ops/sec), 4
[READ], Operations, 2
[READ], AverageLatency(us), 150
[READ], MinLatency(us), 100
[READ], MaxLatency(us), 200
[READ], 50thPercentileLatency(us), 100
[READ], 95thPercentileLatency(us), 200
[READ], 99thPercentileLatency(us), 200
[READ], Return=OK, 2
[READ], Return=NOT_FOUND, 3
[READ-MODIFY-WRITE], Operations, 1
[READ-MODIFY-WRITE], AverageLatency(us), 500
[READ-MODIFY-WRITE], MinLatency(us), 500
[READ-MODIFY-WRITE], MaxLatency(us), 500
[READ-MODIFY-WRITE], 50thPercentileLatency(us), 500
[READ-MODIFY-WRITE], 95thPercentileLatency(us), 500
[READ-MODIFY-WRITE], 99thPercentileLatency(us), 500
[READ-MODIFY-WRITE], Return=OK, 1
[UPDATE], Operations, 1
[UPDATE], AverageLatency(us), 300
[UPDATE], MinLatency(us), 300
[UPDATE], MaxLatency(us), 300
[UPDATE], 50thPercentileLatency(us), 300
[UPDATE], 95thPercentileLatency(us), 300
[UPDATE], 99thPercentileLatency(us), 300
[UPDATE], Return=OK, 1
";
        assert_eq!(text(&lines).unwrap(), expected);
    }
}
