//! Identifies a file independently of its name, so that a renamed file is not read twice, and
//! another file that took over its name or inode is read.
//!
//! While the process runs, a file is identified by its device and inode. If it was closed
//! meanwhile, its creation time counts as well, since an inode is reused once its file is gone and
//! nobody holds it open. Across a restart a file is identified by its inode, its creation time (if
//! the file system keeps it), and a fingerprint of its first bytes; device numbers may change when
//! the machine restarts. The fingerprint also detects a file that was rewritten in place, even if
//! it is longer than the part already read.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

/// Device and inode: the identity of a file while this process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Inode {
    /// The device of the file system.
    pub device: u64,
    /// The inode number on that device.
    pub inode: u64,
}

impl Inode {
    /// The inode of a file with this metadata.
    pub fn of(metadata: &Metadata) -> Inode {
        Inode { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// Creation time of a file, nanoseconds since 1970 UTC; 0 if the file system does not record it.
pub fn born_ns(metadata: &Metadata) -> i64 {
    let since = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.and_then(|since| i64::try_from(since.as_nanos()).ok()).unwrap_or(0)
}

/// A hash of the first bytes of a file. Covers more bytes when a short file grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// How many bytes the hash covers.
    pub bytes: u32,
    /// FNV-1a hash of these bytes.
    pub hash: u64,
}

/// Bytes that a fingerprint covers at most. Files with equal first bytes are only distinguished by
/// inode.
pub const FINGERPRINT_BYTES_MAX: usize = 1024;

impl Fingerprint {
    /// The fingerprint of a file that begins with `start`.
    pub fn of(start: &[u8]) -> Fingerprint {
        let start = &start[..start.len().min(FINGERPRINT_BYTES_MAX)];
        let hash = start.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Fingerprint { bytes: start.len() as u32, hash }
    }

    /// Whether a file that begins with `start` may be the file of this fingerprint.
    pub fn fits(&self, start: &[u8]) -> bool {
        start.get(..self.bytes as usize).is_some_and(|start| Fingerprint::of(start) == *self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_fits_what_has_grown_and_nothing_else() {
        let long = vec![b'x'; FINGERPRINT_BYTES_MAX + 1];
        for (taken, now, expected) in [
            (&b""[..], &b""[..], true),
            (b"", b"anything", true),
            (b"abc", b"abc", true),
            (b"abc", b"abcdef", true),
            (b"abc", b"ab", false),
            (b"abc", b"abd", false),
            (b"abc", b"xbcdef", false),
            (&long, &long, true),
            (&long[1..], &long, true),
            (&long, &long[1..], true),
            (&long, &long[2..], false),
        ] {
            assert_eq!(Fingerprint::of(taken).fits(now), expected);
        }
        assert_eq!(Fingerprint::of(&long).bytes as usize, FINGERPRINT_BYTES_MAX);
        // The hash is stored on disk, so it must not change.
        assert_eq!(Fingerprint::of(b"a").hash, 0xaf63_dc4c_8601_ec8c);
    }
}
