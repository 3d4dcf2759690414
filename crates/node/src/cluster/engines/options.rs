//! What a node is told of the engines of its cluster.

use std::path::PathBuf;
use std::time::Duration;

use cluster::engines::kafka::{self, TopicSettings};
use cluster::engines::objects;

use crate::cluster::follow::FollowOptions;

/// The log that collectors append to.
#[derive(Clone, Debug)]
pub struct KafkaOptions {
    /// The brokers, the topic, and how both are used.
    pub log: kafka::Config,
    /// What the topic has to be like.
    pub topic: TopicSettings,
}

/// The engines of a cluster, and the part of this node.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Whether the node takes lines.
    pub collects: bool,
    /// Whether it owns partitions.
    pub stores: bool,
    /// Whether it reads segments for queries.
    pub queries: bool,
    /// Its name for people; none: of its host, roles and port.
    pub name: Option<String>,
    /// Where other nodes reach it; none: at the address of HTTP.
    pub address: Option<String>,
    /// The log.
    pub kafka: KafkaOptions,
    /// The object storage.
    pub objects: objects::Config,
    /// Bytes of segments on the local disk.
    pub cache_bytes: u64,
    /// The catalog.
    pub catalog: cluster::engines::postgres::PgSettings,
    /// The region that this one follows, for the commands that copy it; none where it follows none.
    pub follows: Option<FollowOptions>,
    /// How long a node that is silent owns its partitions.
    pub lease: Duration,
    /// Most nodes that a query asks itself. `cluster.direct_nodes_max`.
    pub direct_nodes_max: usize,
    /// Bytes of frames that make a segment.
    pub segment_bytes: usize,
    /// The age at which fewer frames make one.
    pub segment_age: Duration,
    /// The token that other nodes know this one by.
    pub token: Option<String>,
    /// Certificates of the authorities that signed those of other nodes; none: the system's.
    pub ca_file: Option<PathBuf>,
}
