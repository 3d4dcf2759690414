//! Whether a store alone is cut off from an engine that others reach.
//!
//! A store that cannot publish, or cannot read the log, gives its partitions to others, unless the
//! engine is away for all: then partitions would only gather at the store that notices last. What
//! tells the two apart is that partitions of others are published further.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::{NodeId, PartitionRow};

/// What a store knows of the object storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conditions {
    /// The storage has not answered since the store started.
    Unknown,
    /// It replaces objects whose names are written again.
    Replaced,
    /// It keeps them.
    Kept,
}

impl Conditions {
    /// Whether the store looks for outages. One that has never reached the storage does: it may be
    /// the only one that cannot, and it has partitions, which others could publish. Beside a
    /// storage that replaces objects, it has none, and no outage that ends gives it any.
    pub fn may_look_for_outages(self) -> bool {
        self != Conditions::Replaced
    }
}

/// What is known of an outage.
#[derive(Debug, Default)]
pub struct Outage {
    /// The offsets of partitions when the outage had lasted for long enough.
    offsets: Option<BTreeMap<u32, u64>>,
    is_alone: bool,
}

impl Outage {
    /// Looks at the catalog while an engine fails. True once the store is known to be alone with
    /// that, until [`end`](Self::end).
    pub fn look(&mut self, own: NodeId, rows: &[PartitionRow]) -> bool {
        let of_others = rows.iter().filter_map(|row| {
            let owner = row.owner.as_ref().filter(|owner| owner.node != own)?;
            Some((row.partition, row.offset, owner))
        });
        let before = self
            .offsets
            .get_or_insert_with(|| rows.iter().map(|row| (row.partition, row.offset)).collect());
        self.is_alone |= of_others
            .into_iter()
            .any(|(partition, offset, _)| before.get(&partition).is_some_and(|was| offset > *was));
        self.is_alone
    }

    /// Whether the store was found to be alone.
    pub fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// The engine works.
    pub fn end(&mut self) {
        *self = Outage::default();
    }
}

/// How long an engine fails before that is an outage: longer than others go on publishing what they
/// have read when the log is away for all.
pub fn patience(lease: Duration, segment_age: Duration, is_log: bool) -> Duration {
    match is_log {
        true => lease + segment_age,
        false => lease,
    }
}

#[cfg(test)]
mod tests {
    use cluster::Owner;

    use super::*;

    fn row(partition: u32, offset: u64, owner: Option<u32>) -> PartitionRow {
        let owner =
            owner.map(|node| Owner { node: NodeId(node), address: String::new(), epoch: 1 });
        PartitionRow { partition, offset, lost: 0, owner }
    }

    #[test]
    fn a_store_that_never_reached_its_storage_looks_for_outages() {
        let looks = [Conditions::Unknown, Conditions::Replaced, Conditions::Kept]
            .map(Conditions::may_look_for_outages);
        assert_eq!(looks, [true, false, true]);
    }

    #[test]
    fn a_store_is_alone_when_others_publish() {
        let own = NodeId(1);
        let mut outage = Outage::default();
        let rows = |mine, others| [row(0, mine, Some(1)), row(1, others, Some(2)), row(2, 5, None)];
        assert!(!outage.look(own, &rows(10, 20)));
        assert!(!outage.look(own, &rows(10, 20)));
        // What it published itself, a partition without an owner, and a new one say nothing.
        assert!(!outage.look(own, &rows(11, 20)));
        assert!(!outage.look(own, &[row(2, 9, None), row(3, 9, Some(2))]));
        assert!(outage.look(own, &rows(11, 21)));
        // It stays so until the engine works.
        assert!(outage.look(own, &[]) && outage.is_alone());
        outage.end();
        assert!(!outage.look(own, &rows(11, 21)) && !outage.is_alone());
        // A partition that it gave away, and that another publishes, tells too.
        assert!(outage.look(own, &[row(0, 12, Some(2))]));
    }
}
