//! Metrics of a node of a cluster on engines, and of one that answers for copies on several stores.

use cluster::engines::Metered;
use cluster::engines::cache::Counts;
use node::cluster::engines::OwnedPartition;

use crate::wire::metrics::Text;
use node::cluster::{Engines, StoreLacks};

/// The partitions that the node owns, and its cache of segments.
pub fn text(engines: &Engines, out: &mut Text) {
    let owned = engines.all_owned();
    let mut one = |name: &str, kind: &str, help: &str, value: u64| {
        out.one(name, kind, help, &[], value);
    };
    let sum = |value: fn(&OwnedPartition) -> u64| -> u64 {
        owned.iter().map(|partition| value(partition)).sum()
    };
    one(
        "loginson_cluster_partitions_owned",
        "gauge",
        "Partitions that this node owns.",
        owned.len() as u64,
    );
    one(
        "loginson_cluster_partitions_troubled",
        "gauge",
        "Of those, the ones that could not be read or published lately.",
        sum(|partition| partition.trouble().is_some().into()),
    );
    one(
        "loginson_cluster_unpublished_bytes",
        "gauge",
        "Bytes of frames that were read and are in no segment yet.",
        sum(|partition| partition.hot.bytes_unpublished() as u64),
    );
    one(
        "loginson_cluster_unpublished_messages",
        "gauge",
        "Messages of the log that were read and are in no segment yet.",
        sum(|partition| partition.hot.position().saturating_sub(partition.hot.committed())),
    );
    one(
        "loginson_cluster_duplicates_total",
        "counter",
        "Copies of frames that collectors sent again, and that were dropped.",
        sum(|partition| partition.duplicates()),
    );
    one(
        "loginson_cluster_rejected_total",
        "counter",
        "Messages of the log that are no frames, and were passed over.",
        sum(|partition| partition.rejected()),
    );
    one(
        "loginson_cluster_lost_total",
        "counter",
        "Messages that the log deleted before this node could read them.",
        sum(|partition| partition.lost()),
    );
    one(
        "loginson_cluster_accepting",
        "gauge",
        "1 while this node takes partitions, and reads segments for others.",
        u64::from(engines.refusal().is_none()),
    );
    if let Some(lag) = engines.follow_lag() {
        let name = "loginson_cluster_follow_lag_seconds";
        let help = "How far this region is behind the one that it follows.";
        out.head(name, "gauge", help);
        out.sample(name, &[], lag.as_secs_f64());
    }
    caches(engines, out);
    requests(engines, out);
    partitions(&owned, engines.monotonic_ns(), out);
    calls(engines, out);
}

/// The caches on the local disk.
fn caches(engines: &Engines, out: &mut Text) {
    let [lines, index] = engines.cache_counts();
    let mut each = |name: &str, kind: &str, help: &str, value: fn(&Counts) -> u64| {
        out.head(name, kind, help);
        for (of, counts) in [("lines", &lines), ("index", &index)] {
            out.sample(name, &[("of", of)], value(counts) as f64);
        }
    };
    each(
        "loginson_cluster_cache_bytes",
        "gauge",
        "Bytes of parts of segments on the local disk: of lines, and of footers and word filters.",
        |counts| counts.bytes,
    );
    each(
        "loginson_cluster_cache_hits_total",
        "counter",
        "Reads of a part of a segment that the local disk answered.",
        |counts| counts.hits,
    );
    each(
        "loginson_cluster_cache_fetches_total",
        "counter",
        "Parts of segments that came from the object storage.",
        |counts| counts.fetches,
    );
    each(
        "loginson_cluster_cache_requests_total",
        "counter",
        "Requests for these parts; neighbours come with one request.",
        |counts| counts.requests,
    );
    each(
        "loginson_cluster_cache_damaged_total",
        "counter",
        "Parts of segments on the local disk that were damaged, and were fetched again.",
        |counts| counts.damaged,
    );
}

/// The requests to the object storage, by the classes that are paid for.
fn requests(engines: &Engines, out: &mut Text) {
    let requests = engines.object_requests();
    let name = "loginson_cluster_object_requests_total";
    out.head(name, "counter", "Requests to the object storage, by the class that is paid for.");
    for (class, count) in [
        ("put", requests.put),
        ("list", requests.list),
        ("get", requests.get),
        ("delete", requests.delete),
    ] {
        out.sample(name, &[("class", class)], count as f64);
    }
    let name = "loginson_cluster_object_bytes_total";
    out.head(name, "counter", "Bytes that went to the object storage, and came from it.");
    for (way, bytes) in [("sent", requests.bytes_sent), ("received", requests.bytes_received)] {
        out.sample(name, &[("way", way)], bytes as f64);
    }
}

/// Each partition that the node owns.
fn partitions(owned: &[std::sync::Arc<OwnedPartition>], now_ns: u64, out: &mut Text) {
    let mut each = |name: &str, help: &str, value: &dyn Fn(&OwnedPartition) -> f64| {
        out.head(name, "gauge", help);
        for partition in owned {
            let number = partition.number.to_string();
            out.sample(name, &[("partition", &number)], value(partition));
        }
    };
    each(
        "loginson_cluster_partition_end",
        "Where the partition ended in the log when this node last heard of it.",
        &|partition| partition.hot.end() as f64,
    );
    each(
        "loginson_cluster_partition_read",
        "The offset up to which this node has read the partition.",
        &|partition| partition.hot.position() as f64,
    );
    each(
        "loginson_cluster_partition_published",
        "The offset up to which everything is in segments.",
        &|partition| partition.hot.committed() as f64,
    );
    each(
        "loginson_cluster_partition_lag_messages",
        "Messages of the log that this node has not read.",
        &|partition| partition.hot.lag(now_ns).messages as f64,
    );
    each(
        "loginson_cluster_partition_lag_seconds",
        "How long ago this node heard of the oldest of them.",
        &|partition| partition.hot.lag(now_ns).age.as_secs_f64(),
    );
    each(
        "loginson_cluster_partition_unpublished_seconds",
        "How long ago the oldest frame was read that is in no segment.",
        &|partition| partition.hot.unpublished_age(now_ns).as_secs_f64(),
    );
    each(
        "loginson_cluster_partition_troubled",
        "1 while the partition cannot be read or published, or its messages are at risk.",
        &|partition| f64::from(u8::from(partition.trouble().is_some())),
    );
    each(
        "loginson_cluster_partition_at_risk",
        "1 while messages that are in no segment have used half of the log's retention.",
        &|partition| f64::from(u8::from(partition.risk().is_some())),
    );
}

/// The calls of each engine.
fn calls(engines: &Engines, out: &mut Text) {
    let calls = engines.calls();
    let mut each = |name: &str, kind: &str, help: &str, value: &dyn Fn(&Metered) -> f64| {
        out.head(name, kind, help);
        for (engine, metered) in &calls {
            out.sample(name, &[("engine", engine)], value(metered));
        }
    };
    each(
        "loginson_cluster_engine_calls_total",
        "counter",
        "Calls of Kafka (without reads), the object storage and PostgreSQL.",
        &|metered| metered.calls as f64,
    );
    each(
        "loginson_cluster_engine_errors_total",
        "counter",
        "Calls that failed because of the engine or the way to it.",
        &|metered| metered.errors as f64,
    );
    each(
        "loginson_cluster_engine_seconds_total",
        "counter",
        "Time of all calls; divided by their number it is the mean latency.",
        &|metered| metered.time.as_secs_f64(),
    );
    each(
        "loginson_cluster_engine_failing_seconds",
        "gauge",
        "For how long no call has succeeded; 0 while the engine works.",
        &|metered| metered.failing.unwrap_or_default().as_secs_f64(),
    );
}

/// What each store of the copies lacks.
pub fn lacks(stores: &[StoreLacks], out: &mut Text) {
    if stores.is_empty() {
        return;
    }
    let name = "loginson_stores_lacking_frames";
    out.head(name, "gauge", "Frames that a store lacks and another copy has.");
    for store in stores {
        out.sample(name, &[("store", &store.store)], store.frames);
    }
}
