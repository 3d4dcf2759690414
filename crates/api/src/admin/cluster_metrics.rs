//! Metrics of a node of a cluster on engines, and of one that answers for copies on several stores.

use crate::wire::metrics::Text;
use node::cluster::{Engines, StoreLacks};

/// The partitions that the node owns, and its cache of segments.
pub fn text(engines: &Engines, out: &mut Text) {
    let owned = engines.all_owned();
    let mut one = |name: &str, kind: &str, help: &str, value: u64| {
        out.one(name, kind, help, &[], value);
    };
    let sum = |value: fn(&node::cluster::engines::OwnedPartition) -> u64| -> u64 {
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
    let cache = engines.cache_counts();
    one(
        "loginson_cluster_cache_bytes",
        "gauge",
        "Bytes of parts of segments on the local disk.",
        cache.bytes,
    );
    one(
        "loginson_cluster_cache_hits_total",
        "counter",
        "Reads of a part of a segment that the local disk answered.",
        cache.hits,
    );
    one(
        "loginson_cluster_cache_fetches_total",
        "counter",
        "Parts of segments that came from the object storage.",
        cache.fetches,
    );
    one(
        "loginson_cluster_cache_damaged_total",
        "counter",
        "Parts of segments on the local disk that were damaged, and were fetched again.",
        cache.damaged,
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
