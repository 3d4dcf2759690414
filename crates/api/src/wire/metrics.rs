//! The text that metrics are answered in: the exposition format of Prometheus.

use std::fmt::{Display, Write};

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
