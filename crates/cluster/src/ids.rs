//! Names of nodes, leases and objects.

use std::fmt;
use std::str::FromStr;

use crate::error::CatalogError;

/// A node, by the id that it draws once and stores beside its data. It is the id in the headers of
/// its frames. A node that lost its data directory draws another id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// What a node can have a lease of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    /// Reading a partition, holding its newest frames, and publishing its segments.
    Partition(u32),
    /// Merging small segments of a partition.
    Merge(u32),
    /// Dropping segments by age and total size.
    Retention,
    /// Deleting objects that no query can need any more.
    Sweep,
    /// Running the programs and sinks of the cluster.
    Programs,
    /// Changing the users and tokens of the cluster.
    Access,
    /// Telling the others which background queries a node keeps.
    Queries(NodeId),
}

impl Resource {
    /// The partition, for methods of the catalog that work on one.
    pub(crate) fn partition(self) -> Result<u32, CatalogError> {
        match self {
            Resource::Partition(partition) => Ok(partition),
            other => Err(CatalogError::Refused(format!(
                "the lease is of {other}, which is no partition"
            ))),
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::Partition(partition) => write!(f, "partition-{partition}"),
            Resource::Merge(partition) => write!(f, "merge-{partition}"),
            Resource::Retention => f.write_str("retention"),
            Resource::Sweep => f.write_str("sweep"),
            Resource::Programs => f.write_str("programs"),
            Resource::Access => f.write_str("access"),
            Resource::Queries(node) => write!(f, "queries-{node}"),
        }
    }
}

impl FromStr for Resource {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let unknown = || UnknownName(text.to_owned());
        let resource = match text.split_once('-') {
            Some(("partition", number)) => {
                Resource::Partition(number.parse().map_err(|_| unknown())?)
            }
            Some(("merge", number)) => Resource::Merge(number.parse().map_err(|_| unknown())?),
            Some(("queries", node)) => {
                Resource::Queries(NodeId(u32::from_str_radix(node, 16).map_err(|_| unknown())?))
            }
            None if text == "retention" => Resource::Retention,
            None if text == "sweep" => Resource::Sweep,
            None if text == "programs" => Resource::Programs,
            None if text == "access" => Resource::Access,
            _ => return Err(unknown()),
        };
        // One resource has one text: "+3" and "03" parse as numbers too.
        if resource.to_string() == text { Ok(resource) } else { Err(unknown()) }
    }
}

/// A text that is no name of a resource or object of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a name that a Loginson cluster gives")]
pub struct UnknownName(pub String);

/// The right of one node to a resource. It ends when the catalog has a later epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lease {
    /// What it is for.
    pub resource: Resource,
    /// The node that has it.
    pub owner: NodeId,
    /// Grows whenever the resource is acquired or released, also by the same node.
    pub epoch: u64,
}

/// The prefix of the names of all objects.
pub const OBJECT_PREFIX: &str = "segments/";

/// The name of an object: `segments/RESOURCE/EPOCH-NODE-COUNTER`. The epoch belongs to one node for
/// as long as it is valid, and that node counts, so no name is given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectName {
    /// The lease under which the object is written. Only its holder can publish the object.
    pub lease: Lease,
    /// Grows with each object of the lease.
    pub counter: u64,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lease { resource, owner, epoch } = self.lease;
        write!(f, "{OBJECT_PREFIX}{resource}/{epoch}-{owner}-{}", self.counter)
    }
}

impl FromStr for ObjectName {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let parse = || {
            let (resource, numbers) = text.strip_prefix(OBJECT_PREFIX)?.split_once('/')?;
            let mut numbers = numbers.split('-');
            let epoch = numbers.next()?.parse().ok()?;
            let owner = NodeId(u32::from_str_radix(numbers.next()?, 16).ok()?);
            let counter = numbers.next()?.parse().ok()?;
            let lease = Lease { resource: resource.parse().ok()?, owner, epoch };
            Some(ObjectName { lease, counter })
        };
        parse().filter(|name| name.to_string() == text).ok_or_else(|| UnknownName(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for resource in [
            Resource::Partition(7),
            Resource::Merge(0),
            Resource::Retention,
            Resource::Sweep,
            Resource::Programs,
            Resource::Access,
            Resource::Queries(NodeId(0xcd)),
        ] {
            let lease = Lease { resource, owner: NodeId(0xab), epoch: 12 };
            let name = ObjectName { lease, counter: 3 };
            assert_eq!(name.to_string(), format!("segments/{resource}/12-000000ab-3"));
            assert_eq!(name.to_string().parse(), Ok(name));
        }
    }

    #[test]
    fn other_names_are_not_ours() {
        for text in [
            "",
            "segments/",
            "segments/sweep",
            "segments/sweep/1-2",
            "segments/sweep/1-00000002-+3",
            "segments/sweep/01-00000002-3",
            "segments/sweep/1-2-3",
            "segments/partition/1-00000002-3",
            "segments/partition--1/1-00000002-3",
            "segments/partition-01/1-00000002-3",
            "segments/queries-cd/1-00000002-3",
            "segments/partition-1/1-00000002-3-4",
            "segments/partition-1/1-00000002-3/x",
            "segments/partition-4294967296/1-00000002-3",
            "backup/partition-1/1-00000002-3",
        ] {
            assert!(text.parse::<ObjectName>().is_err(), "{text}");
        }
    }
}
