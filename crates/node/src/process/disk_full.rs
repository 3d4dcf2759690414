//! Tells a full disk from other errors, wherever it occurred.

use std::error::Error;

use segment::SegmentError;
use store::StoreError;

/// Whether an error, or one of its causes, is that the disk or a quota is full.
pub fn is_disk_full(error: &(dyn Error + 'static)) -> bool {
    let is_it = |error: &(dyn Error + 'static)| {
        error.downcast_ref().is_some_and(platform::is_disk_full)
            || error.downcast_ref().is_some_and(StoreError::is_disk_full)
            || error.downcast_ref().is_some_and(SegmentError::is_disk_full)
    };
    is_it(error) || error.source().is_some_and(is_disk_full)
}

#[cfg(test)]
mod tests {
    use std::io;

    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_full_disk_is_told_below_other_errors() {
        let full = |kind: io::ErrorKind| io::Error::from(kind);
        let segment = SegmentError::io("a".as_ref(), "write")(full(io::ErrorKind::QuotaExceeded));
        let errors: [(anyhow::Error, bool); 6] = [
            (anyhow!(full(io::ErrorKind::StorageFull)).context("a").context("b"), true),
            (anyhow!(StoreError::from(segment)).context("a"), true),
            (anyhow!(StoreError::CatalogFull { file: "c".to_owned() }), true),
            (anyhow!(io::Error::new(io::ErrorKind::StorageFull, "as text")), true),
            (anyhow!(full(io::ErrorKind::NotFound)).context("no space left"), false),
            (anyhow!("the disk is full"), false),
        ];
        for (error, expected) in errors {
            assert_eq!(is_disk_full(error.as_ref()), expected, "{error:#}");
        }
    }
}
