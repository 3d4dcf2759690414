//! Writes and reads segment files in all their states.

use std::path::Path;
use std::sync::Arc;

use platform::{BLOCK_BYTES, Disk, Fault, Operation, RealDisk, SimDisk};
use proptest::prelude::*;
use record::{Format, Frame, FrameBuilder, Transport};
use segment::{
    FrameEntry, HotWriter, Origin, SegmentHeader, index_bytes, read_frame, read_segment,
    write_index,
};

const HEADER: SegmentHeader =
    SegmentHeader { node: 3, segment: 7, created_ns: 5, sequence_next: 11, held: Vec::new() };

fn frame(sequence: u64, bytes: usize) -> Frame {
    let mut builder = FrameBuilder::new();
    let origin = record::Origin::new(Transport::Http, Format::Auto, None);
    builder.push_line(&origin, sequence as i64, &vec![b'x'; bytes], false);
    builder.finish(3, sequence).expect("has lines")
}

fn append(writer: &mut HotWriter, frames: &[Frame]) -> Vec<FrameEntry> {
    let entries = frames
        .iter()
        .map(|f| FrameEntry::new(writer.append(f.bytes()).unwrap(), f.header()))
        .collect();
    writer.commit().unwrap();
    entries
}

fn check(disk: &dyn Disk, path: &Path, frames: &[Frame], entries: &[FrameEntry]) {
    let contents = read_segment(disk, path, 7, None).unwrap();
    assert_eq!(contents.header.unwrap(), HEADER);
    assert_eq!(contents.frames, entries);
    let file = disk.open(path, platform::Access::Read).unwrap();
    for (frame, entry) in frames.iter().zip(entries) {
        assert_eq!(&read_frame(&*file, path, entry).unwrap(), frame);
    }
}

/// Frame sizes that end before, at and behind the ends of blocks, alone and in groups.
#[test]
fn frames_of_any_size_are_found_by_scan_by_index_and_after_resuming() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("7.hot");
    let mut writer = HotWriter::create(&RealDisk, &path, &HEADER).unwrap();
    writer.preallocate(8 << 20).unwrap();
    let overhead = frame(1, 0).bytes().len();
    let sizes = [1, BLOCK_BYTES - overhead - 8, BLOCK_BYTES - overhead, 9000, 5 << 20, 40];
    let frames: Vec<Frame> = (1..).zip(sizes).map(|(n, bytes)| frame(n, bytes)).collect();
    let mut entries = Vec::new();
    for group in [0..1, 1..3, 3..6] {
        entries.extend(append(&mut writer, &frames[group]));
        check(&RealDisk, &path, &frames, &entries);
    }
    drop(writer);
    let data_end = entries[5].end();
    let mut writer = HotWriter::resume(&RealDisk, &path, 7, data_end, 1 << 20).unwrap();
    let more = [frame(7, 100)];
    entries.extend(append(&mut writer, &more));
    let frames: Vec<Frame> = frames.into_iter().chain(more).collect();
    check(&RealDisk, &path, &frames, &entries);
    let data_end = writer.end();
    let bytes = writer.roll(&entries).unwrap();
    assert_eq!(bytes, data_end + index_bytes(7));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), bytes);
    check(&RealDisk, &path, &frames, &entries);
    entries[2].set_time_range_ns((4, 9));
    write_index(&RealDisk, &path, 7, data_end, &entries).unwrap();
    check(&RealDisk, &path, &frames, &entries);
    let contents = read_segment(&RealDisk, &path, 7, None).unwrap();
    assert!(matches!(contents.origin, Origin::Index));
    assert_eq!(contents.frames[2].time_range_ns(), Some((4, 9)));
    assert!(read_segment(&RealDisk, &path, 8, None).is_ok_and(|c| c.frames.len() == 7));
}

#[test]
fn frames_rolled_back_are_gone_and_writing_continues() {
    let disk = SimDisk::new(1);
    let path = Path::new("/d/7.hot");
    let mut writer = HotWriter::create(&disk, path, &HEADER).unwrap();
    let mut entries = append(&mut writer, &[frame(1, 3000)]);
    disk.fail(Fault { operation: Operation::Write, skip: 0, times: 1, errno: 28 });
    writer.append(frame(2, 9000).bytes()).unwrap();
    assert!(writer.commit().unwrap_err().is_disk_full());
    writer.rollback().unwrap();
    let frames = [frame(1, 3000), frame(3, 9000)];
    entries.extend(append(&mut writer, &frames[1..]));
    check(&disk, path, &frames, &entries);
}

#[test]
fn frames_that_a_failed_sync_left_readable_are_durable_once_it_is_resumed() {
    for seed in 0..20 {
        let disk = SimDisk::new(seed);
        let path = Path::new("/d/7.hot");
        let mut writer = HotWriter::create(&disk, path, &HEADER).unwrap();
        let frames = [frame(1, 3000), frame(2, 9000)];
        let mut entries = append(&mut writer, &frames[..1]);
        disk.fail(Fault { operation: Operation::Sync, skip: 0, times: 1, errno: 5 });
        let offset = writer.append(frames[1].bytes()).unwrap();
        assert!(writer.commit().is_err());
        drop(writer);
        entries.push(FrameEntry::new(offset, frames[1].header()));
        check(&disk, path, &frames, &entries);
        let commit_bytes = frames[1].bytes().len() as u64;
        drop(HotWriter::resume(&disk, path, 7, entries[1].end(), commit_bytes).unwrap());
        disk.crash();
        disk.restart();
        check(&disk, path, &frames, &entries);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    /// Whatever bytes follow the valid frames, exactly those frames are found.
    #[test]
    fn any_tail_leaves_the_frames_before_it(
        sizes in prop::collection::vec(0usize..6000, 0..6),
        tail in prop::collection::vec(any::<u8>(), 0..300),
        cut in 0usize..8000,
    ) {
        let disk = SimDisk::new(1);
        let path = Path::new("/d/7.hot");
        let mut writer = HotWriter::create(&disk, path, &HEADER).unwrap();
        let frames: Vec<Frame> = (1..).zip(sizes).map(|(n, bytes)| frame(n, bytes)).collect();
        let entries = append(&mut writer, &frames);
        let data_end = writer.end() as usize;
        let mut bytes = disk.contents(path).unwrap();
        bytes.truncate(data_end);
        // A part of a frame, then arbitrary bytes.
        let torn = frame(99, 7000);
        let (begin, rest) = torn.bytes().split_at(cut.min(torn.bytes().len() - 1));
        prop_assume!(!tail.starts_with(rest));
        bytes.extend_from_slice(begin);
        bytes.extend_from_slice(&tail);
        disk.corrupt(path, bytes);
        let contents = read_segment(&disk as &dyn Disk, path, 7, None).unwrap();
        prop_assert_eq!(&contents.frames, &entries);
        prop_assert_eq!(contents.data_end, data_end as u64);
        let Origin::Scan(scan) = contents.origin else { panic!("there is no index") };
        prop_assert_eq!(scan.damaged_places, 0);
        let shared: Arc<dyn Disk> = Arc::new(disk);
        HotWriter::resume(&*shared, path, 7, contents.data_end, 1 << 20).unwrap();
        check(&*shared, path, &frames, &entries);
    }
}
