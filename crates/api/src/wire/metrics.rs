//! The text that metrics are answered in: the exposition format of Prometheus.

use std::fmt::{Display, Write};

use platform::{BOUNDS_MS, DurationCounts};

/// Text in the exposition format.
#[derive(Default)]
pub struct Text(String);

impl Text {
    /// The whole text.
    pub fn into_text(self) -> String {
        self.0
    }

    /// Name, type and help of the samples that follow.
    pub fn head(&mut self, name: &str, kind: &str, help: &str) {
        writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}")
            .expect("writing to a string");
    }

    /// A sample. Label values are our own names and need no escaping.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (i, (label, text)) in labels.iter().enumerate() {
            let before = if i == 0 { '{' } else { ',' };
            write!(self.0, "{before}{label}=\"{text}\"").expect("writing to a string");
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        writeln!(self.0, " {value}").expect("writing to a string");
    }

    /// A histogram of durations, in seconds.
    pub fn durations(&mut self, name: &str, help: &str, counts: &DurationCounts) {
        self.head(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        for (end_ms, up_to) in BOUNDS_MS.iter().zip(&counts.up_to) {
            let end = (*end_ms as f64 / 1e3).to_string();
            self.sample(&bucket, &[("le", &end)], up_to);
        }
        self.sample(&bucket, &[("le", "+Inf")], counts.count());
        self.sample(&format!("{name}_sum"), &[], counts.sum_ns as f64 / 1e9);
        self.sample(&format!("{name}_count"), &[], counts.count());
    }

    /// A metric with one sample.
    pub fn one(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        labels: &[(&str, &str)],
        value: impl Display,
    ) {
        self.head(name, kind, help);
        self.sample(name, labels, value);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_histogram_has_all_bounds_in_seconds() {
        let durations = platform::Durations::default();
        durations.add(Duration::from_millis(2_000));
        durations.add(Duration::from_micros(500));
        let mut out = Text::default();
        out.durations("wait_seconds", "Waiting.", &durations.counts());
        let text = out.into_text();
        let expected = "# HELP wait_seconds Waiting.\n# TYPE wait_seconds histogram\n\
                        wait_seconds_bucket{le=\"0.001\"} 1\n";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("wait_seconds_bucket{le=\"1\"} 1\n"), "{text}");
        let expected = "wait_seconds_bucket{le=\"2.5\"} 2\n";
        assert!(text.contains(expected), "{text}");
        let expected = "wait_seconds_bucket{le=\"+Inf\"} 2\nwait_seconds_sum 2.0005\n\
                        wait_seconds_count 2\n";
        assert!(text.ends_with(expected), "{text}");
    }
}
