//! `[cluster]`: what this node does in a cluster, and the engines of the cluster.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use cluster::engines::kafka::{self, Compression, Mechanism, Sasl, Tls, TopicSettings};
use cluster::engines::{Secret, objects};
use serde::{Deserialize, Serialize};

use crate::config::stores::{RawStores, address, ca_file, token};
use crate::config::{bytes, duration};
use node::cluster::engines::{EngineOptions, KafkaOptions};
use node::cluster::follow::FollowOptions;

/// Most partitions: each collector numbers the frames of each in a range of its own, of which there
/// are twice as many, and has a thread for each.
///
/// limits.md, Nodes of a cluster: partitions | {} | the configuration is refused
const PARTITIONS_MAX: u32 = 4_096;
/// The shortest lease: with less, a pause of the machine moves partitions.
const LEASE_MIN: Duration = Duration::from_secs(2);
/// The longest lease: for as long nobody reads the partitions of a node that died.
const LEASE_MAX: Duration = Duration::from_secs(300);
/// Smaller segments would be too many objects.
const SEGMENT_BYTES_MIN: u64 = 1 << 20;
/// A node holds up to twice as many bytes of each of its partitions in memory.
const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// Bytes of the largest message. A frame of one line of the greatest length fits.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Characters of the name of a node.
const NAME_CHARS_MAX: usize = 64;
/// The shortest and the longest pause between two rounds of a region that follows.
const FOLLOW_EVERY_MIN: Duration = Duration::from_secs(1);
const FOLLOW_EVERY_MAX: Duration = Duration::from_secs(86_400);
/// Time for one append of a collector. Then its frames go to the spool, and are appended again.
const APPEND_TIME_MAX: Duration = Duration::from_secs(10);

/// `[cluster]` as written in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawCluster {
    pub token_file: String,
    pub ca_file: String,
    pub roles: Vec<String>,
    pub name: String,
    pub address: String,
    pub lease: String,
    /// limits.md, Nodes of a cluster: nodes that a query asks itself | `cluster.direct_nodes_max`,
    /// 64 | groups of them are asked by one node each
    pub direct_nodes_max: usize,
    /// limits.md, Nodes of a cluster: frames in memory of a partition that are in no segment |
    /// twice `cluster.segment_bytes` | nothing is read until a segment is published; the frames
    /// wait in Kafka
    pub segment_bytes: String,
    pub segment_age: String,
    pub kafka: RawKafka,
    pub objects: RawObjects,
    pub postgresql: RawPostgresql,
    pub follows: RawFollows,
}

impl Default for RawCluster {
    fn default() -> Self {
        RawCluster {
            token_file: "off".into(),
            ca_file: "off".into(),
            roles: ["collector", "store", "query"].map(str::to_owned).into(),
            name: "auto".into(),
            address: "auto".into(),
            lease: "10s".into(),
            direct_nodes_max: 64,
            segment_bytes: "64MiB".into(),
            segment_age: "1m".into(),
            kafka: RawKafka::default(),
            objects: RawObjects::default(),
            postgresql: RawPostgresql::default(),
            follows: RawFollows::default(),
        }
    }
}

/// `[cluster.follows]` as written in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawFollows {
    pub every: String,
    pub objects_kept: String,
    pub objects: RawFollowsObjects,
    pub postgresql: RawPostgresql,
}

impl Default for RawFollows {
    fn default() -> Self {
        RawFollows {
            every: "10s".into(),
            objects_kept: "1d".into(),
            objects: RawFollowsObjects::default(),
            postgresql: RawPostgresql::default(),
        }
    }
}

/// `[cluster.follows.objects]` as written in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawFollowsObjects {
    pub endpoint: String,
    pub region: String,
    pub bucket: String,
    pub access_key_file: String,
    pub secret_key_file: String,
    pub ca_file: String,
    pub path_style: bool,
}

impl Default for RawFollowsObjects {
    fn default() -> Self {
        let RawObjects {
            endpoint,
            region,
            bucket,
            access_key_file,
            secret_key_file,
            ca_file,
            path_style,
            storage_class: _,
            cache_bytes: _,
        } = RawObjects::default();
        RawFollowsObjects {
            endpoint,
            region,
            bucket,
            access_key_file,
            secret_key_file,
            ca_file,
            path_style,
        }
    }
}

/// `[cluster.kafka]` as written in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawKafka {
    pub brokers: Vec<String>,
    pub topic: String,
    pub partitions: u32,
    pub replicas: u16,
    pub replicas_min: u16,
    pub retention: String,
    pub compression: String,
    pub tls: bool,
    pub ca_file: String,
    pub login: String,
    pub user: String,
    pub password_file: String,
}

impl Default for RawKafka {
    fn default() -> Self {
        RawKafka {
            brokers: Vec::new(),
            topic: "loginson-lines".into(),
            partitions: 12,
            replicas: 3,
            replicas_min: 2,
            retention: "7d".into(),
            compression: "lz4".into(),
            tls: false,
            ca_file: "off".into(),
            login: "scram-sha-512".into(),
            user: "off".into(),
            password_file: "off".into(),
        }
    }
}

/// `[cluster.objects]` as written in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawObjects {
    pub endpoint: String,
    pub region: String,
    pub bucket: String,
    pub access_key_file: String,
    pub secret_key_file: String,
    pub ca_file: String,
    pub path_style: bool,
    pub storage_class: String,
    pub cache_bytes: String,
}

impl Default for RawObjects {
    fn default() -> Self {
        RawObjects {
            endpoint: "off".into(),
            region: "us-east-1".into(),
            bucket: "off".into(),
            access_key_file: "off".into(),
            secret_key_file: "off".into(),
            ca_file: "off".into(),
            path_style: true,
            storage_class: "off".into(),
            cache_bytes: "10GiB".into(),
        }
    }
}

/// `[cluster.postgresql]` as written in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawPostgresql {
    pub connection: String,
    pub password_file: String,
    pub ca_file: String,
}

impl Default for RawPostgresql {
    fn default() -> Self {
        RawPostgresql {
            connection: "off".into(),
            password_file: "off".into(),
            ca_file: "off".into(),
        }
    }
}

/// Checks `[cluster.kafka]`; none where no brokers are given.
pub fn kafka(raw: &RawKafka) -> Result<Option<KafkaOptions>> {
    if raw.brokers.is_empty() {
        return Ok(None);
    }
    ensure!(
        (1..=PARTITIONS_MAX).contains(&raw.partitions),
        "cluster.kafka.partitions must be between 1 and {PARTITIONS_MAX}"
    );
    ensure!(
        (1..=raw.replicas).contains(&raw.replicas_min),
        "cluster.kafka.replicas_min must be between 1 and replicas"
    );
    ensure!(raw.topic.len() <= 249 && !raw.topic.is_empty(), "cluster.kafka.topic is not a name");
    let compression = match raw.compression.as_str() {
        "off" => Compression::Plain,
        "lz4" => Compression::Lz4,
        "zstd" => Compression::Zstd,
        other => bail!("cluster.kafka.compression: '{other}' is not known; write lz4, zstd or off"),
    };
    let mechanism = match raw.login.as_str() {
        "plain" => Mechanism::Plain,
        "scram-sha-256" => Mechanism::ScramSha256,
        "scram-sha-512" => Mechanism::ScramSha512,
        other => bail!(
            "cluster.kafka.login: '{other}' is not known; write plain, scram-sha-256 or scram-sha-512"
        ),
    };
    let sasl = match raw.user.as_str() {
        "off" => None,
        user => {
            let file = Path::new(&raw.password_file);
            let password = secret("cluster.kafka.password_file", file)?;
            Some(Sasl { mechanism, user: user.to_owned(), password: Secret::new(password) })
        }
    };
    let retention = duration("cluster.kafka.retention", &raw.retention)?;
    let log = kafka::Config {
        tls: raw.tls.then(|| Tls { ca: ca_file(&raw.ca_file), identity: None }),
        sasl,
        compression,
        batch_bytes_max: 4 << 20,
        request_time_max: APPEND_TIME_MAX,
        append_time_max: APPEND_TIME_MAX,
        ..kafka::Config::new(&raw.brokers, &raw.topic)
    };
    let topic = TopicSettings {
        partitions: raw.partitions,
        copies: raw.replicas,
        copies_min: raw.replicas_min,
        message_bytes_max: MESSAGE_BYTES_MAX,
        others: vec![
            ("retention.ms".to_owned(), retention.as_millis().to_string()),
            ("segment.bytes".to_owned(), (256 << 20).to_string()),
        ],
    };
    Ok(Some(KafkaOptions { log, topic }))
}

/// Checks the engines of a node that stores or queries; none where no catalog is given.
pub fn check(raw: &RawCluster, stores: &RawStores) -> Result<Option<EngineOptions>> {
    let RawCluster { kafka: raw_kafka, objects, postgresql, .. } = raw;
    let has = [
        ("kafka.brokers", !raw_kafka.brokers.is_empty()),
        ("objects.bucket", objects.bucket != "off"),
        ("postgresql.connection", postgresql.connection != "off"),
    ];
    if !has[1].1 && !has[2].1 {
        ensure!(
            has[0].1 || *raw == RawCluster::default(),
            "[cluster] names no engine: a node needs cluster.kafka.brokers, cluster.objects.bucket and \
             cluster.postgresql.connection, a collector the first; without a cluster, remove the section"
        );
        return Ok(None);
    }
    if let Some((missing, _)) = has.iter().find(|(_, is_given)| !is_given) {
        bail!("cluster.{missing} is missing: a cluster needs Kafka, object storage and PostgreSQL");
    }
    ensure!(
        *stores == RawStores::default(),
        "give either [stores] or [cluster]: a node of a cluster answers for all of its lines"
    );
    let kafka = kafka(raw_kafka)?.expect("there are brokers");
    for role in &raw.roles {
        ensure!(
            ["collector", "store", "query"].contains(&role.as_str()),
            "cluster.roles: '{role}' is not known; write collector, store or query"
        );
    }
    let has_role = |role: &str| raw.roles.iter().any(|given| given == role);
    let lease = duration("cluster.lease", &raw.lease)?;
    ensure!((LEASE_MIN..=LEASE_MAX).contains(&lease), "cluster.lease must be between 2s and 5m");
    ensure!(raw.direct_nodes_max > 0, "cluster.direct_nodes_max must be above zero");
    let segment_bytes = bytes("cluster.segment_bytes", &raw.segment_bytes)?;
    ensure!(
        (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&segment_bytes),
        "cluster.segment_bytes must be between 1MiB and 1GiB"
    );
    let segment_age = duration("cluster.segment_age", &raw.segment_age)?;
    ensure!(!segment_age.is_zero(), "cluster.segment_age must be above zero");
    let address = match raw.address.as_str() {
        "auto" => None,
        text => Some(address("cluster.address", text)?),
    };
    let name = match raw.name.as_str() {
        "auto" => None,
        name => {
            let is_fit = |char: char| char.is_ascii_graphic() && char != ',';
            ensure!(
                (1..=NAME_CHARS_MAX).contains(&name.len()) && name.chars().all(is_fit),
                "cluster.name: '{name}' must be 1 to {NAME_CHARS_MAX} printable characters without spaces and commas"
            );
            Some(name.to_owned())
        }
    };
    Ok(Some(EngineOptions {
        name,
        collects: has_role("collector"),
        stores: has_role("store"),
        queries: has_role("query"),
        address,
        kafka,
        objects: bucket("cluster.objects", objects)?,
        follows: follows(&raw.follows)?,
        cache_bytes: bytes("cluster.objects.cache_bytes", &objects.cache_bytes)?,
        catalog: catalog("cluster.postgresql", postgresql)?,
        lease,
        direct_nodes_max: raw.direct_nodes_max,
        segment_bytes: usize::try_from(segment_bytes)?,
        segment_age,
        token: token("cluster", &raw.token_file)?,
        ca_file: ca_file(&raw.ca_file),
    }))
}

/// Checks `[cluster.follows]`; none where it names no region.
fn follows(raw: &RawFollows) -> Result<Option<FollowOptions>> {
    let RawFollows { every, objects_kept, objects, postgresql } = raw;
    if objects.bucket == "off" && postgresql.connection == "off" {
        ensure!(
            *raw == RawFollows::default(),
            "cluster.follows names no region: give cluster.follows.objects.bucket and \
             cluster.follows.postgresql.connection, or remove the section"
        );
        return Ok(None);
    }
    ensure!(
        objects.bucket != "off" && postgresql.connection != "off",
        "cluster.follows needs both cluster.follows.objects.bucket and cluster.follows.postgresql.connection"
    );
    let every = duration("cluster.follows.every", every)?;
    ensure!(
        (FOLLOW_EVERY_MIN..=FOLLOW_EVERY_MAX).contains(&every),
        "cluster.follows.every must be between 1s and 1d"
    );
    let raw_objects = RawObjects {
        endpoint: objects.endpoint.clone(),
        region: objects.region.clone(),
        bucket: objects.bucket.clone(),
        access_key_file: objects.access_key_file.clone(),
        secret_key_file: objects.secret_key_file.clone(),
        ca_file: objects.ca_file.clone(),
        path_style: objects.path_style,
        ..RawObjects::default()
    };
    Ok(Some(FollowOptions {
        objects: bucket("cluster.follows.objects", &raw_objects)?,
        catalog: catalog("cluster.follows.postgresql", postgresql)?,
        every,
        objects_kept: duration("cluster.follows.objects_kept", objects_kept)?,
    }))
}

fn bucket(key: &'static str, raw: &RawObjects) -> Result<objects::Config> {
    let files = (raw.access_key_file.as_str(), raw.secret_key_file.as_str());
    let credentials = match files {
        ("off", "off") => objects::Credentials::from_environment(),
        (key, secret) => objects::Credentials::from_files(Path::new(key), Path::new(secret)),
    };
    let credentials = credentials.context(key)?;
    let endpoint = (raw.endpoint != "off").then(|| raw.endpoint.clone());
    let class = &raw.storage_class;
    ensure!(
        class == "off" || class.bytes().all(|b| b.is_ascii_uppercase() || b"_".contains(&b)),
        "cluster.objects.storage_class: '{}' is no class of objects; write one like STANDARD_IA, or off",
        class.escape_default()
    );
    Ok(objects::Config {
        storage_class: (class != "off").then(|| class.clone()),
        region: raw.region.clone(),
        path_style: raw.path_style,
        ca: ca_file(&raw.ca_file),
        ..objects::Config::new(endpoint, &raw.bucket, credentials)
    })
}

fn catalog(key: &str, raw: &RawPostgresql) -> Result<cluster::engines::postgres::PgSettings> {
    let mut connection = raw.connection.clone();
    if raw.password_file != "off" {
        ensure!(
            !connection.contains("://"),
            "{key}.connection: beside password_file, write host=… user=… dbname=… in place of an address"
        );
        let file = Path::new(&raw.password_file);
        let password = secret(&format!("{key}.password_file"), file)?;
        let quoted = password.replace('\\', "\\\\").replace('\'', "\\'");
        connection.push_str(&format!(" password='{quoted}'"));
    }
    let root_certificates = ca_file(&raw.ca_file);
    Ok(cluster::engines::postgres::PgSettings {
        root_certificates,
        ..cluster::engines::postgres::PgSettings::new(connection)
    })
}

/// The content of a file with one secret.
pub fn secret(key: &str, file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("{key}: cannot read {}", file.display()))?;
    let text = text.trim().to_owned();
    ensure!(
        !text.is_empty() && !text.contains(char::is_control),
        "{key}: {} is empty, or has several lines",
        file.display()
    );
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(toml: &str) -> Result<Option<EngineOptions>> {
        check(&toml::from_str(toml).unwrap(), &RawStores::default())
    }

    #[test]
    fn engines_are_complete_and_mistakes_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secret");
        std::fs::write(&file, "it's\\secret\n").unwrap();
        let file = file.display();
        let engines = format!(
            "roles = ['store']\nkafka = {{ brokers = ['a:9092'] }}\n\
             objects = {{ bucket = 'b', access_key_file = '{file}', secret_key_file = '{file}' }}\n\
             postgresql = {{ connection = 'host=c user=d', password_file = '{file}' }}\n"
        );
        assert!(checked("").unwrap().is_none());
        assert!(checked("kafka = { brokers = ['a:9092'] }").unwrap().is_none());
        let config = checked(&engines).unwrap().unwrap();
        assert_eq!((config.stores, config.queries, config.collects), (true, false, false));
        assert_eq!(config.catalog.connection, r"host=c user=d password='it\'s\\secret'");
        assert_eq!(config.kafka.topic.partitions, 12);
        assert_eq!((config.name, config.direct_nodes_max), (None, 64));
        let named = checked(&format!("name = 'east-1'\n{engines}")).unwrap().unwrap();
        assert_eq!(named.name.as_deref(), Some("east-1"));
        for (text, expected) in [
            ("roles = ['query']", "[cluster] names no engine"),
            ("kafka = { partitions = 3 }", "[cluster] names no engine"),
            ("objects = { bucket = 'b' }", "cluster.kafka.brokers is missing"),
            (&engines.replace("roles = ['store']", "roles = ['shop']"), "'shop' is not known"),
            (&format!("name = 'a b'\n{engines}"), "cluster.name: 'a b' must be"),
            (&format!("lease = '1s'\n{engines}"), "between 2s and 5m"),
            (&format!("direct_nodes_max = 0\n{engines}"), "direct_nodes_max must be above zero"),
            (&engines.replace("host=c user=d", "postgresql://c/d"), "beside password_file"),
            (&engines.replace("['a:9092']", "['a:9092'], partitions = 0"), "partitions must be"),
            (&engines.replace("['a:9092']", "['a:9092'], login = 'x'"), "'x' is not known"),
        ] {
            let error = format!("{:#}", checked(text).unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
        }
        let stores = RawStores { addresses: vec!["a:1".into()], ..RawStores::default() };
        let error = check(&toml::from_str(&engines).unwrap(), &stores).unwrap_err();
        assert!(error.to_string().contains("either [stores] or [cluster]"), "{error}");
    }
}
