//! The real log lines that the workload is made of: samples of twelve systems, without the time and
//! the host at their beginning, which are columns of their own.
//!
//! Sources: Loghub (Zhu et al., "Loghub: A Large Collection of System Log Datasets for AI-driven
//! Log Analytics", ISSRE 2023) and Elastic's public examples, as `testdata/corpora/README.md` says.

use std::sync::OnceLock;

/// A program with its sample of messages.
pub struct Sample {
    /// Name of the program.
    pub program: &'static str,
    /// Consecutive messages: ASCII, not empty, without tabs.
    pub messages: Vec<String>,
    /// Its share of all lines, in relation to the others'.
    pub weight: u64,
}

/// What stands at the beginning of a line before its message.
enum Head {
    /// This many words.
    Words(usize),
    /// Everything before the first of these characters.
    Until(char),
}

macro_rules! sample {
    ($file:literal) => {
        include_str!(concat!("../../../../../testdata/corpora/", $file, ".log"))
    };
}

/// All samples.
pub fn all() -> &'static [Sample] {
    static ALL: OnceLock<Vec<Sample>> = OnceLock::new();
    ALL.get_or_init(|| {
        [
            ("httpd", sample!("Apache"), Head::Words(5), 1),
            ("kernel", sample!("BGL"), Head::Words(5), 1),
            ("datanode", sample!("HDFS"), Head::Words(3), 2),
            ("cluster", sample!("HPC"), Head::Words(1), 1),
            ("yarn", sample!("Hadoop"), Head::Words(2), 1),
            ("healthd", sample!("HealthApp"), Head::Until('|'), 1),
            ("linux", sample!("Linux"), Head::Words(4), 2),
            ("sshd", sample!("OpenSSH"), Head::Words(4), 3),
            ("nova", sample!("OpenStack"), Head::Words(3), 2),
            ("spark", sample!("Spark"), Head::Words(2), 1),
            ("cbs", sample!("Windows"), Head::Words(2), 1),
            ("nginx", sample!("apache_access"), Head::Words(0), 4),
        ]
        .into_iter()
        .map(|(program, text, head, weight)| {
            let messages = text.lines().filter_map(|line| message(line, &head)).collect();
            Sample { program, messages, weight }
        })
        .collect()
    })
}

/// The message of a line; `None` for an empty one.
fn message(line: &str, head: &Head) -> Option<String> {
    let mut rest = line.trim();
    match head {
        Head::Words(words) => {
            for _ in 0..*words {
                rest = rest.split_once(' ').map_or("", |(_, rest)| rest).trim_start();
            }
        }
        Head::Until(end) => rest = rest.split_once(*end).map_or(rest, |(_, rest)| rest),
    }
    let plain = |c: char| if c.is_ascii_graphic() { c } else { ' ' };
    let text: String = rest.chars().map(plain).collect();
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_has_messages_without_their_heads() {
        for sample in all() {
            assert!(sample.messages.len() >= 250, "{}", sample.program);
        }
        let first = |program: &str| {
            let sample = all().iter().find(|sample| sample.program == program).unwrap();
            sample.messages[0].clone()
        };
        assert!(first("sshd").starts_with("sshd["), "{}", first("sshd"));
        assert!(first("healthd").starts_with("Step_"), "{}", first("healthd"));
        assert!(first("kernel").contains("RAS KERNEL"), "{}", first("kernel"));
    }
}
