//! Merges the results of several agents: histograms of the same second and label are added, and so
//! are counts, errors and threads.
//!
//! A second is emitted when every agent is past it or has finished. Values are added up at the end,
//! and equal notes are emitted once. The resources that all agents use on their machines become one
//! sum per second.

use std::collections::{BTreeMap, BTreeSet};

use hdrhistogram::Histogram;

use crate::histogram;
use crate::results::{Line, Resource, Second};

/// See the module.
pub struct Merger {
    /// The second that each agent is in; `None` once it has finished.
    at: Vec<Option<u32>>,
    seconds: BTreeMap<(u32, String), Sum>,
    resources: BTreeMap<(u32, String), Resource>,
    values: BTreeMap<String, f64>,
    notes: BTreeSet<String>,
}

struct Sum {
    latencies: Histogram<u64>,
    line: Second,
}

impl Merger {
    /// For `agents` agents.
    pub fn new(agents: usize) -> Merger {
        Merger {
            at: vec![Some(0); agents],
            seconds: BTreeMap::new(),
            resources: BTreeMap::new(),
            values: BTreeMap::new(),
            notes: BTreeSet::new(),
        }
    }

    /// Adds a line of an agent; the error says why it is invalid.
    pub fn take(&mut self, agent: usize, line: Line) -> Result<(), String> {
        match line {
            Line::Second(second) => {
                self.past(agent, second.second);
                let key = (second.second, second.label.clone());
                match self.seconds.get_mut(&key) {
                    None => {
                        let mut latencies = histogram::new();
                        histogram::add(&mut latencies, &second.histogram)
                            .map_err(|error| error.to_string())?;
                        self.seconds.insert(key, Sum { latencies, line: second });
                    }
                    Some(sum) => {
                        histogram::add(&mut sum.latencies, &second.histogram)
                            .map_err(|error| error.to_string())?;
                        sum.line.count += second.count;
                        sum.line.threads += second.threads;
                        for (kind, count) in second.errors {
                            *sum.line.errors.entry(kind).or_default() += count;
                        }
                    }
                }
            }
            Line::Resource(resource) => {
                // An agent sends its resources after the operations of the previous second.
                self.past(agent, resource.second);
                let key = (resource.second, resource.process.clone());
                match self.resources.get_mut(&key) {
                    None => drop(self.resources.insert(key, resource)),
                    Some(sum) => {
                        sum.cpu_s += resource.cpu_s;
                        sum.memory_bytes += resource.memory_bytes;
                        sum.disk_read_bytes += resource.disk_read_bytes;
                        sum.disk_write_bytes += resource.disk_write_bytes;
                        sum.disk_writes =
                            sum.disk_writes.zip(resource.disk_writes).map(|(one, more)| one + more);
                        sum.network_bytes += resource.network_bytes;
                    }
                }
            }
            Line::Value { name, value } => *self.values.entry(name).or_default() += value,
            Line::Note { text } => drop(self.notes.insert(text)),
            Line::Header(_) | Line::End(_) => return Err("it sent a line out of place".to_owned()),
        }
        Ok(())
    }

    fn past(&mut self, agent: usize, second: u32) {
        self.at[agent] = self.at[agent].max(Some(second));
    }

    /// An agent has finished.
    pub fn ended(&mut self, agent: usize) {
        self.at[agent] = None;
    }

    /// Lines of the complete seconds.
    pub fn over(&mut self) -> Vec<Line> {
        let before = self.at.iter().flatten().min().copied().unwrap_or(u32::MAX);
        let later = self.seconds.split_off(&(before, String::new()));
        let seconds = std::mem::replace(&mut self.seconds, later);
        let later = self.resources.split_off(&(before, String::new()));
        let resources = std::mem::replace(&mut self.resources, later);
        let seconds = seconds.into_values().map(|sum| {
            Line::Second(Second { histogram: histogram::encode(&sum.latencies), ..sum.line })
        });
        seconds.chain(resources.into_values().map(Line::Resource)).collect()
    }

    /// All remaining lines, when all agents have finished or are lost.
    pub fn rest(mut self) -> Vec<Line> {
        self.at.fill(None);
        let mut lines = self.over();
        lines.extend(self.values.into_iter().map(|(name, value)| Line::Value { name, value }));
        lines.extend(self.notes.into_iter().map(|text| Line::Note { text }));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: u32, values: &[u64]) -> Line {
        let mut latencies = histogram::new();
        values.iter().for_each(|value| latencies.record(*value).unwrap());
        Line::Second(Second {
            second,
            label: "read".to_owned(),
            count: values.len() as u64,
            errors: BTreeMap::from([("timeout".to_owned(), 1)]),
            histogram: histogram::encode(&latencies),
            threads: 4,
        })
    }

    #[test]
    fn seconds_wait_for_the_slowest_agent_and_add_up() {
        let mut merger = Merger::new(2);
        merger.take(0, second(0, &[10, 20])).unwrap();
        merger.take(0, second(1, &[30])).unwrap();
        assert_eq!(merger.over(), []);
        merger.take(1, second(0, &[1000])).unwrap();
        assert_eq!(merger.over(), [], "the second agent may still say more of this second");
        merger.take(1, second(1, &[])).unwrap();
        let over = merger.over();
        let [Line::Second(sum)] = over.as_slice() else { panic!("{over:?}") };
        assert_eq!((sum.second, sum.count, sum.threads, sum.errors["timeout"]), (0, 3, 8, 2));
        let mut latencies = histogram::new();
        histogram::add(&mut latencies, &sum.histogram).unwrap();
        assert_eq!((latencies.len(), latencies.min(), latencies.max()), (3, 10, 1000));
        merger.ended(1);
        merger.take(0, Line::Value { name: "x".to_owned(), value: 1.0 }).unwrap();
        merger.take(1, Line::Value { name: "x".to_owned(), value: 2.0 }).unwrap();
        let rest = merger.rest();
        assert!(matches!(&rest[0], Line::Second(sum) if sum.second == 1 && sum.count == 1));
        assert_eq!(rest[1..], [Line::Value { name: "x".to_owned(), value: 3.0 }]);
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        let mut merger = Merger::new(1);
        let Line::Second(mut broken) = second(0, &[1]) else { panic!() };
        broken.histogram = "?".to_owned();
        assert!(merger.take(0, Line::Second(broken)).is_err());
    }
}
