//! Connects the source of topics to the brokers.

use std::sync::Arc;
use std::time::Duration;

use cluster::engines::kafka::{
    Assignments, Begin, Config, Group, GroupConfig, Partition, Received,
};
use collector::kafka::{self, Connect, KafkaRecord, Member, Offsets};

/// How topics are reached, and read.
#[derive(Clone, Debug)]
pub struct KafkaSourceOptions {
    /// The brokers.
    pub brokers: Config,
    /// The topics; a name that ends in `*` means all with that prefix.
    pub topics: Vec<String>,
    /// What becomes of their records.
    pub read: kafka::KafkaConfig,
}

/// Joins the group of a source.
pub struct Brokers(pub KafkaSourceOptions);

impl Connect for Brokers {
    fn connect(&self, member: &str, offsets: Arc<Offsets>) -> Result<Box<dyn Member>, String> {
        let config = GroupConfig {
            brokers: self.0.brokers.clone(),
            group: self.0.read.group.clone(),
            member: member.to_owned(),
            topics: self.0.topics.clone(),
        };
        match Group::connect(config, Arc::new(Kept(offsets))) {
            Ok(group) => Ok(Box::new(Joined(group))),
            Err(error) => Err(error.to_string()),
        }
    }
}

struct Joined(Group);

impl Member for Joined {
    fn poll(&mut self, wait: Duration) -> Result<Vec<KafkaRecord>, String> {
        let records = self.0.poll(wait).map_err(|error| error.to_string())?;
        Ok(records.into_iter().map(record).collect())
    }

    fn commit(&mut self, offsets: &[(kafka::Partition, u64)]) -> Result<(), String> {
        self.0.commit(&of_cluster(offsets)).map_err(|error| error.to_string())
    }

    fn seek(&mut self, offsets: &[(kafka::Partition, u64)]) -> Result<(), String> {
        self.0.seek(&of_cluster(offsets)).map_err(|error| error.to_string())
    }

    fn pause(&mut self, is_paused: bool) {
        self.0.pause(is_paused);
    }

    fn ends(&mut self) -> Vec<(kafka::Partition, u64)> {
        let ends = self.0.ends();
        ends.into_iter().map(|(partition, end)| (of_collector(&partition), end)).collect()
    }
}

/// Passes on what the brokers decide.
struct Kept(Arc<Offsets>);

impl Assignments for Kept {
    fn begin(&self, partition: &Partition, topic_id: [u8; 16], committed: Option<u64>) -> Begin {
        begin(self.0.begin(&of_collector(partition), topic_id, committed))
    }

    fn begun(&self, partition: &Partition, offset: u64) {
        self.0.begun(&of_collector(partition), offset);
    }

    fn outside(&self, partition: &Partition, first: u64, end: u64) -> Begin {
        begin(self.0.outside(&of_collector(partition), first, end))
    }

    fn revoke(&self, partitions: &[Partition]) -> Vec<(Partition, u64)> {
        let partitions: Vec<_> = partitions.iter().map(of_collector).collect();
        of_cluster(&self.0.revoke(&partitions))
    }

    fn lose(&self, partitions: &[Partition]) {
        let partitions: Vec<_> = partitions.iter().map(of_collector).collect();
        self.0.lose(&partitions);
    }
}

fn begin(begin: kafka::Begin) -> Begin {
    match begin {
        kafka::Begin::At(offset) => Begin::At(offset),
        kafka::Begin::First => Begin::First,
        kafka::Begin::End => Begin::End,
    }
}

fn of_collector(partition: &Partition) -> kafka::Partition {
    kafka::Partition { topic: Arc::clone(&partition.topic), number: partition.number }
}

fn of_cluster(offsets: &[(kafka::Partition, u64)]) -> Vec<(Partition, u64)> {
    let each = offsets.iter().map(|(partition, offset)| {
        let kafka::Partition { topic, number } = partition.clone();
        (Partition { topic, number }, *offset)
    });
    each.collect()
}

fn record(record: Received) -> KafkaRecord {
    let Received { topic, partition, offset, timestamp_ms, key, value, headers } = record;
    KafkaRecord { topic, partition, offset, timestamp_ms, key, value, headers }
}
