//! Limits on age and bytes hold, to the nanosecond and the byte.

mod common;

use std::sync::Arc;

use common::{all, append, config, frame_at, open, sequences};
use platform::{Clock, Disk, ManualClock, SimDisk};
use store::{Store, StoreConfig};

fn setup(config: &StoreConfig) -> (SimDisk, Arc<Store>) {
    let disk = SimDisk::new(1);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(0));
    (disk, open(config, &shared, &clock))
}

fn add(store: &Store, received_ns: i64) {
    let frame = frame_at(store.next_sequence(), 1000, 100, received_ns);
    assert!(append(store, vec![frame])[0].is_ok());
}

#[test]
fn a_segment_goes_when_its_newest_line_is_older_than_the_age() {
    let mut config = config("/data");
    config.age_ns = Some(800);
    for (now_ns, left) in [(1_899, 2), (1_900, 2), (1_901, 1)] {
        let (_, store) = setup(&config);
        add(&store, 1_000);
        add(&store, 1_100);
        store.roll();
        add(&store, now_ns - 1);
        store.run_retention(now_ns);
        assert_eq!(store.stats().segments, left, "at {now_ns}");
        assert_eq!(store.stats().lines_expired, if left == 1 { 2_000 } else { 0 });
    }
}

#[test]
fn the_active_segment_is_closed_at_an_eighth_of_the_age_and_leaves_no_number_free() {
    let mut config = config("/data");
    config.age_ns = Some(800);
    let (disk, store) = setup(&config);
    add(&store, 1_000);
    store.run_retention(1_100);
    add(&store, 1_100);
    assert_eq!(store.stats().segments, 1);
    store.run_retention(1_101);
    add(&store, 1_101);
    assert_eq!(store.stats().segments, 2);
    let handle = all(&store)[0].clone();
    store.run_retention(10_000);
    assert_eq!((store.stats().lines, sequences(&store).len()), (0, 0));
    assert!(handle.read_frame().unwrap().is_none(), "deleted meanwhile");
    assert!(handle.cached().is_none());
    drop(store);
    let shared: Arc<dyn Disk> = Arc::new(disk);
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(0));
    assert_eq!(open(&config, &shared, &clock).next_sequence().1, 4);
}

#[test]
fn bytes_on_disk_never_exceed_the_limit() {
    let mut config = config("/data");
    let bytes_max = 9 << 20;
    config.bytes_max = Some(bytes_max);
    let (disk, store) = setup(&config);
    for i in 0..200 {
        add(&store, i);
        let bytes = store.stats().bytes_disk;
        assert!(bytes <= bytes_max, "{bytes} after {i}");
        assert!(disk.used_bytes() <= bytes_max);
    }
    let stats = store.stats();
    assert!(stats.bytes_disk > bytes_max / 4 * 3, "most of it is used: {}", stats.bytes_disk);
    assert_eq!(stats.lines + stats.lines_expired, 200_000);
    let left = sequences(&store);
    let oldest = 200 - left.len() as u64 + 1;
    assert_eq!(left, (oldest..=200).collect::<Vec<_>>(), "the newest are kept");
}
