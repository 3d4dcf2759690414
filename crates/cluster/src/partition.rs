//! A partition that this node owns.

use std::sync::Arc;

use crate::catalog::Catalog;
use crate::duplicates::Duplicates;
use crate::error::CatalogError;
use crate::hot::HotPart;
use crate::ids::Lease;
use crate::publisher::{Publisher, PublisherSettings};
use crate::reader::{Reader, ReaderSettings};

/// A partition that this node owns: reader and publisher, which may be stepped by two threads, and
/// the hot part between them, which queries read. Dropped when the lease is over.
pub struct Partition {
    /// Its newest frames.
    pub hot: Arc<HotPart>,
    /// Reads the log.
    pub reader: Reader,
    /// Publishes segments.
    pub publisher: Publisher,
}

impl Partition {
    /// Resumes at the offset of the catalog, with one call. The lease is one of a partition.
    pub fn open(
        catalog: &dyn Catalog,
        lease: Lease,
        reading: ReaderSettings,
        publishing: PublisherSettings,
    ) -> Result<Partition, CatalogError> {
        let partition = lease.resource.partition()?;
        let state = catalog.partition(&lease)?;
        let duplicates = Duplicates::new(&state.producers);
        let hot = Arc::new(HotPart::resume(state.offset, duplicates.clone()));
        Ok(Partition {
            reader: Reader::new(partition, hot.clone(), duplicates, reading),
            publisher: Publisher::new(lease, partition, hot.clone(), publishing),
            hot,
        })
    }
}
