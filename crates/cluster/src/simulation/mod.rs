//! A whole cluster from a seed: collectors, stores and queries over simulated engines, with faults,
//! beside a reference model. Long runs: `LOGINSON_CLUSTER_HISTORIES=1000000 cargo test -p
//! loginson-cluster`; one history again: `LOGINSON_CLUSTER_SEED=17`.

mod collector;
mod model;
pub mod producer;
mod query;
mod site;
mod store;
mod tests;
mod weak;
mod world;

/// A deliberately broken variant, which the checks must catch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weakness {
    /// The catalog publishes whatever epoch and offset it has.
    NoFence,
    /// The catalog publishes and replaces whatever epoch it has.
    NoEpoch,
    /// The segment is added in one transaction, and the offset moved in another.
    OffsetApart,
    /// The catalog does not store the last sequence numbers of producers.
    NoProducers,
    /// A query reads segments and offsets from two states of the catalog.
    TornSnapshot,
    /// Objects are deleted when their segments are retired.
    DeleteAtOnce,
    /// Objects without a segment are deleted, whatever epoch they are of.
    SweepUnpublished,
    /// The owner answers with what it has, whoever owns the partition now.
    ServeAfterLease,
    /// The owner answers with what is not published when it is asked.
    HotFromNow,
    /// A collector repeats an append to another partition.
    OtherPartition,
    /// A query hides lines of deletions in segments alone.
    HotUnhidden,
    /// Segments count as searched for deletions that they were not searched for.
    SearchedUnread,
    /// A reader takes an empty read for "nothing new", whatever end the log has.
    NeverRenews,
    /// The catalog stores the last sequence number of each producer, and not which of those below
    /// it are missing.
    LastNumberAlone,
    /// A collector appends new frames however far they are from the oldest that failed.
    NoWindow,
    /// While the catalog is away, a query uses the last snapshot however old it is.
    SnapshotForEver,
    /// While the log is away, a query takes the ends that it told before for those of now.
    EndsFromBefore,
    /// A node counts its lease from when it heard of the renewal, and not from before it asked.
    LeaseFromAnswer,
    /// The catalog gives a lease to whoever asks, although its owner lives.
    TakesLive,
    /// The catalog replaces segments whatever epoch a job has.
    JobsWithoutEpoch,
}
