//! Measures the resources of a trial on this machine: processor, memory, disk and network, per
//! second; describes the machine; and measures the size of data on disk.

pub mod machine;
pub mod others;
pub mod process;
pub mod speed;

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes that the files under `path` occupy on disk: whole blocks, so reserved space counts and
/// holes do not; a file with several names counts once. Files that vanish meanwhile, for example in
/// a merge, count as nothing.
pub fn directory_bytes(path: &Path) -> std::io::Result<u64> {
    // Blocks of 512 bytes, whatever the file system's block size.
    const BLOCK_BYTES: u64 = 512;
    let mut bytes = 0;
    let mut seen = BTreeSet::new();
    let mut folders = vec![path.to_owned()];
    let mut is_first = true;
    while let Some(folder) = folders.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if is_first => return Err(error),
            Err(_) => continue,
        };
        is_first = false;
        for entry in entries.flatten() {
            // Symbolic links are not followed: they could lead out of the directory, or form a
            // cycle.
            let Ok(data) = entry.path().symlink_metadata() else { continue };
            if data.is_dir() {
                folders.push(entry.path());
            }
            if data.nlink() == 1 || data.is_dir() || seen.insert((data.dev(), data.ino())) {
                bytes += data.blocks() * BLOCK_BYTES;
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_count_once_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let empty = directory_bytes(path).unwrap();
        std::fs::create_dir(path.join("inner")).unwrap();
        let folders = directory_bytes(path).unwrap();
        std::fs::write(path.join("inner/data"), vec![7; 100_000]).unwrap();
        std::fs::File::open(path.join("inner/data")).unwrap().sync_all().unwrap();
        let once = directory_bytes(path).unwrap();
        assert!(once - folders >= 4096 && once > empty);
        std::fs::hard_link(path.join("inner/data"), path.join("again")).unwrap();
        std::os::unix::fs::symlink("/", path.join("root")).unwrap();
        assert!(directory_bytes(path).unwrap() - once < 65_536);
        assert!(directory_bytes(&path.join("nowhere")).is_err());
    }
}
