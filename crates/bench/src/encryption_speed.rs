//! What encryption of files costs: writing, reading whole files, and reading single values, with
//! and without it.
//!
//! `loginson-bench encryption_speed [DIRECTORY] [MEBIBYTES]`
//!
//! The two run in turn, three times. What is read is compared with what was written before a time
//! counts. Files are written past the page cache, and synced every 32 MiB, as a store does; values
//! are read through it, so that the time is that of the processor.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use platform::encryption::{EncryptedDisk, Keyring, MasterKey};
use platform::{Access, AlignedBuffer, Disk, DiskFile, RealDisk};

const WRITE_BYTES: usize = 1 << 20;
/// Bytes of a value: a column of a sealed block.
const VALUE_BYTES: usize = 8 << 10;
const VALUES: usize = 20_000;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = crate::arguments();
    let dir = arguments.next().unwrap_or_else(|| "encryption-speed-data".to_owned());
    let dir = PathBuf::from(dir);
    let mebibytes: u64 = arguments.next().map_or(Ok(512), |text| text.parse())?;
    std::fs::create_dir_all(&dir)?;
    let keys = Keyring::open(&RealDisk, &dir, &[MasterKey::random()?])?.ok_or("a key was given")?;
    let encrypted = EncryptedDisk::new(Arc::new(RealDisk), Arc::new(keys));
    for round in 1..=3 {
        for (name, disk) in [("plain", &RealDisk as &dyn Disk), ("encrypted", &encrypted)] {
            let path = dir.join(name);
            let [written, read, values] = measure(disk, &path, mebibytes << 20)?;
            println!(
                "round {round}: {name:9} written {written:5.0} MB/s, read {read:5.0} MB/s, {values:.1} µs a value"
            );
        }
    }
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

/// MB/s written, MB/s read, and microseconds for a value.
fn measure(
    disk: &dyn Disk,
    path: &Path,
    bytes: u64,
) -> Result<[f64; 3], Box<dyn std::error::Error>> {
    let mut block = AlignedBuffer::new(WRITE_BYTES);
    let mut random = fastrand::Rng::with_seed(1);
    random.fill(&mut block);
    let file = disk.open(path, Access::Create)?;
    let begun = Instant::now();
    for offset in (0..bytes).step_by(WRITE_BYTES) {
        block[..8].copy_from_slice(&offset.to_le_bytes());
        file.write_at(&block, offset)?;
        if (offset + WRITE_BYTES as u64).is_multiple_of(32 << 20) {
            file.sync_data()?;
        }
    }
    file.truncate(bytes)?;
    file.sync_data()?;
    let written = bytes as f64 / 1e6 / begun.elapsed().as_secs_f64();
    drop(file);

    let file = disk.open(path, Access::Read)?;
    let mut found = vec![0; WRITE_BYTES];
    let begun = Instant::now();
    for offset in (0..bytes).step_by(WRITE_BYTES) {
        assert_eq!(file.read_once_at(&mut found, offset)?, WRITE_BYTES);
        assert_eq!(found[..8], offset.to_le_bytes());
        assert_eq!(found[WRITE_BYTES - 99..], block[WRITE_BYTES - 99..]);
    }
    let read = bytes as f64 / 1e6 / begun.elapsed().as_secs_f64();

    // The first time fills the page cache.
    read_values(&*file, &block, bytes)?;
    let values = read_values(&*file, &block, bytes)?;
    drop(file);
    disk.remove(path)?;
    Ok([written, read, values])
}

/// Microseconds for a value at a random place.
fn read_values(
    file: &dyn DiskFile,
    block: &[u8],
    bytes: u64,
) -> Result<f64, Box<dyn std::error::Error>> {
    let mut random = fastrand::Rng::with_seed(2);
    let mut value = vec![0; VALUE_BYTES];
    let begun = Instant::now();
    for _ in 0..VALUES {
        let within = random.usize(8..WRITE_BYTES - VALUE_BYTES);
        let at = random.u64(..bytes / WRITE_BYTES as u64) * WRITE_BYTES as u64 + within as u64;
        assert_eq!(file.read_at(&mut value, at)?, VALUE_BYTES);
        assert_eq!(value[..32], block[within..within + 32]);
    }
    Ok(begun.elapsed().as_secs_f64() * 1e6 / VALUES as f64)
}
