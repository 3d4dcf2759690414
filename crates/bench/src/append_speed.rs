//! How fast lines become durable, compared with plain direct writes of the same bytes to the same
//! file system.
//!
//! `loginson-bench append_speed [DIRECTORY] [MEBIBYTES]`
//!
//! The two run in turn, three times; lines that are read back are counted and compared before a
//! time counts. Then the store is opened again, once after a proper close and once as after a
//! crash, to measure a restart.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use platform::{Access, AlignedBuffer, Clock, Disk, OnDurable, Patience, RealClock, RealDisk};
use record::{Format, Frame, FrameBuilder, Origin, Transport};
use store::{Store, StoreConfig};

const LINE: &[u8] = b"<13>1 2026-01-01T00:00:00.000000Z web1.example shop 4242 - - GET /cart took 17 ms, status 200, \
    12345 bytes, for a customer who put three things into it and took one out again\n";
const PLAIN_WRITE_BYTES: usize = 1 << 20;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = crate::arguments();
    let dir = PathBuf::from(arguments.next().unwrap_or_else(|| "append-speed-data".to_owned()));
    let mebibytes: u64 = arguments.next().map_or(Ok(1024), |text| text.parse())?;
    std::fs::create_dir_all(&dir)?;
    for round in 1..=3 {
        let plain = plain_writes(&dir.join("plain"), mebibytes << 20)?;
        let store = store_appends(&dir.join(format!("store-{round}")), mebibytes << 20)?;
        println!(
            "round {round}: plain {plain:.0} MB/s, store {store:.0} MB/s, ratio {:.2}",
            store / plain
        );
    }
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

/// Direct writes of 1 MiB, synced every 32 MiB as the store does; MB/s.
fn plain_writes(path: &Path, bytes: u64) -> Result<f64, Box<dyn std::error::Error>> {
    let file = RealDisk.open(path, Access::Create)?;
    let mut block = AlignedBuffer::new(PLAIN_WRITE_BYTES);
    for (place, byte) in block.iter_mut().enumerate() {
        *byte = LINE[place % LINE.len()];
    }
    let start = Instant::now();
    let mut allocated = 0;
    for offset in (0..bytes).step_by(PLAIN_WRITE_BYTES) {
        if offset >= allocated {
            allocated += 64 << 20;
            file.preallocate(allocated)?;
        }
        file.write_at(&block, offset)?;
        if (offset + PLAIN_WRITE_BYTES as u64).is_multiple_of(32 << 20) {
            file.sync_data()?;
        }
    }
    file.sync_data()?;
    let seconds = start.elapsed().as_secs_f64();
    RealDisk.remove(path)?;
    Ok(bytes as f64 / 1e6 / seconds)
}

/// Frames of 1 MiB through the store until all are durable; MB/s of payload.
fn store_appends(dir: &Path, bytes: u64) -> Result<f64, Box<dyn std::error::Error>> {
    let config = StoreConfig::new(dir);
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
    let (store, _) = Store::open(config.clone(), disk.clone(), clock.clone())?;
    let frames: Vec<Frame> = (0..bytes >> 20).map(|_| full_frame(store.next_sequence())).collect();
    let payload: u64 = frames.iter().map(|f| f.payload().len() as u64).sum();
    let lines: u64 = frames.iter().map(|f| u64::from(f.header().lines)).sum();
    let (sender, receiver) = std::sync::mpsc::channel();
    let count = frames.len();
    let start = Instant::now();
    for frame in frames {
        let sender = sender.clone();
        let done: OnDurable = Box::new(move |result| sender.send(result).expect("received"));
        store.append(vec![(frame, done)], Patience::Awaited)?;
    }
    for _ in 0..count {
        receiver.recv()??;
    }
    let seconds = start.elapsed().as_secs_f64();
    let stats = store.stats();
    assert_eq!((stats.lines, stats.bytes_raw), (lines, payload), "all is there");
    println!(
        "  {} groups, latency mean {:.1} ms, longest {:.1} ms",
        stats.groups_committed,
        stats.commit_latency.sum_ns as f64 / stats.frames_committed as f64 / 1e6,
        stats.commit_latency.max_ns as f64 / 1e6,
    );
    store.close()?;
    let (store, report) = Store::open(config.clone(), disk.clone(), clock.clone())?;
    assert_eq!(report.lines, lines);
    println!("  after closing: {report}");
    store.roll();
    store.close()?;
    let (store, report) = Store::open(config, disk, clock)?;
    assert_eq!(report.lines, lines);
    println!("  rolled: {report}");
    store.close()?;
    std::fs::remove_dir_all(dir)?;
    Ok(payload as f64 / 1e6 / seconds)
}

fn full_frame(id: (u32, u64)) -> Frame {
    let origin = Origin::new(Transport::SyslogTcp, Format::Syslog, None);
    let mut builder = FrameBuilder::new();
    while !builder.is_full() {
        builder.push_lines(&origin, 1, LINE);
    }
    builder.finish(id.0, id.1).expect("has lines")
}
