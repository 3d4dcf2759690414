//! Which file it is, whatever it is called: so that a file that was renamed is not read twice, and
//! another one that was given its name, or its inode, is.
//!
//! Alive, a file is its device and inode; when it was closed meanwhile also the time it was made,
//! since an inode is given again when its file is gone and nobody holds it open. Over a restart it
//! is its inode, the time it was made (where the file system keeps it), and a fingerprint of its
//! first bytes: the numbers of devices may change with a restart of the machine. The fingerprint
//! also tells that a file was written anew in its place, although it is longer than what was read
//! of it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

/// Device and inode: what a file is while this process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Inode {
    /// The file system.
    pub device: u64,
    /// The file there.
    pub inode: u64,
}

impl Inode {
    /// Of a file that was looked at.
    pub fn of(metadata: &Metadata) -> Inode {
        Inode { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// When a file was made, nanoseconds since 1970 UTC; 0 where the file system does not say.
pub fn born_ns(metadata: &Metadata) -> i64 {
    let since = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.and_then(|since| i64::try_from(since.as_nanos()).ok()).unwrap_or(0)
}

/// The first bytes of a file, as a number. Grows with a file that is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// How many bytes it is of.
    pub bytes: u32,
    /// FNV-1a of them.
    pub hash: u64,
}

/// Bytes that a fingerprint is of, at most. Files that begin with the same ones are told apart by
/// inode only.
pub const FINGERPRINT_BYTES_MAX: usize = 1024;

impl Fingerprint {
    /// Of the start of a file.
    pub fn of(start: &[u8]) -> Fingerprint {
        let start = &start[..start.len().min(FINGERPRINT_BYTES_MAX)];
        let hash = start.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Fingerprint { bytes: start.len() as u32, hash }
    }

    /// Whether a file that begins so may be the one this was taken of.
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
        // The number is stored.
        assert_eq!(Fingerprint::of(b"a").hash, 0xaf63_dc4c_8601_ec8c);
    }
}
