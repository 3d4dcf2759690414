//! Changes each byte of a small hot segment, and cuts it at each length: the frames read are those
//! that were written, or there is an error that gives the offset; nothing else is lost.

use std::path::Path;

use platform::{Access, Disk, SimDisk};
use record::{Format, Frame, FrameBuilder, Origin as LineOrigin, Transport};
use segment::{
    Contents, FrameEntry, HEADER_BYTES, HotWriter, Origin, SegmentHeader, read_frame, read_segment,
};

const PATH: &str = "/d/7.hot";
const FRAMES: u64 = 4;

/// A segment file with its frames, in memory.
struct Sample {
    disk: SimDisk,
    bytes: Vec<u8>,
    frames: Vec<Frame>,
    entries: Vec<FrameEntry>,
}

impl Sample {
    /// `rolled`: closed with an index; otherwise as a process leaves it when it ends.
    fn new(rolled: bool) -> Self {
        let disk = SimDisk::new(1);
        let header = SegmentHeader {
            node: 3,
            segment: 7,
            created_ns: 5,
            sequence_next: 11,
            held: Vec::new(),
        };
        let mut writer = HotWriter::create(&disk, Path::new(PATH), &header).unwrap();
        let frames: Vec<Frame> = (1..=FRAMES).map(frame).collect();
        let append =
            |frame: &Frame| FrameEntry::new(writer.append(frame.bytes()).unwrap(), frame.header());
        let mut entries: Vec<FrameEntry> = frames.iter().map(append).collect();
        entries[1].set_time_range_ns((4, 9));
        writer.commit().unwrap();
        match rolled {
            true => writer.roll(&entries).unwrap(),
            false => writer.close().unwrap(),
        };
        let bytes = disk.contents(Path::new(PATH)).unwrap();
        Sample { disk, bytes, frames, entries }
    }

    /// The content found in the file with these bytes, and the result of reading each frame.
    fn read(&self, bytes: Vec<u8>) -> (Contents, Vec<Result<Frame, String>>) {
        let path = Path::new(PATH);
        self.disk.corrupt(path, bytes);
        let contents = read_segment(&self.disk, path, 7, None).expect("damage is no failure");
        let file = self.disk.open(path, Access::Read).unwrap();
        let read = |entry| read_frame(&*file, path, entry).map_err(|error| error.to_string());
        let frames = contents.frames.iter().map(read).collect();
        (contents, frames)
    }

    /// The sequence numbers of the frames that were read; checks that each is as it was written.
    fn sequences(&self, frames: &[Result<Frame, String>]) -> Vec<u64> {
        let read = frames.iter().flatten().inspect(|frame| {
            let written = &self.frames[frame.header().sequence as usize - 1];
            assert_eq!(frame.bytes(), written.bytes());
        });
        read.map(|frame| frame.header().sequence).collect()
    }

    /// The index of the frame that byte `at` of the file belongs to.
    fn frame_of(&self, at: usize) -> Option<usize> {
        let inside = |entry: &FrameEntry| (entry.offset..entry.end()).contains(&(at as u64));
        self.entries.iter().position(inside)
    }
}

fn frame(sequence: u64) -> Frame {
    let mut builder = FrameBuilder::new();
    let origin = LineOrigin::new(Transport::SyslogTcp, Format::Syslog, None);
    for line in 0..3 {
        let text = format!("<13>1 - host app - - - line {line} of frame {sequence}");
        builder.push_line(&origin, sequence as i64, text.as_bytes(), false);
    }
    builder.finish(3, sequence).expect("has lines")
}

/// All problems that were found in the file, as text.
fn complaints(contents: &Contents, frames: &[Result<Frame, String>]) -> Vec<String> {
    let mut texts: Vec<String> = frames.iter().filter_map(|f| f.clone().err()).collect();
    texts.extend(contents.header.as_ref().err().map(ToString::to_string));
    if let Origin::Scan(scan) = &contents.origin {
        texts.extend(scan.damages.iter().map(ToString::to_string));
    }
    for text in &texts {
        assert!(text.starts_with("/d/7.hot at byte "), "names file and offset: {text}");
        let says_what = ["expected", "known", "needed", "well formed"];
        assert!(says_what.iter().any(|words| text.contains(words)), "says what is wrong: {text}");
    }
    texts
}

#[test]
fn each_flipped_bit_of_a_rolled_segment_costs_at_most_its_frame() {
    let sample = Sample::new(true);
    for at in 0..sample.bytes.len() {
        let mut bytes = sample.bytes.clone();
        bytes[at] ^= 1 << (at % 8);
        let (contents, frames) = sample.read(bytes);
        let damaged = sample.frame_of(at);
        let expected: Vec<u64> =
            (1..=FRAMES).filter(|&n| damaged != Some(n as usize - 1)).collect();
        assert_eq!(sample.sequences(&frames), expected, "byte {at}");
        let scanned = matches!(contents.origin, Origin::Scan(_));
        let found = complaints(&contents, &frames);
        // An invalid trailer is the same as none: the segment was not completely rolled.
        assert!(scanned || !found.is_empty(), "byte {at} is not noticed");
    }
}

#[test]
fn each_flipped_bit_of_an_unrolled_segment_is_noticed_and_costs_no_other_frame() {
    let sample = Sample::new(false);
    for at in 0..sample.bytes.len() {
        let mut bytes = sample.bytes.clone();
        bytes[at] ^= 1 << (at % 8);
        let (contents, frames) = sample.read(bytes);
        assert!(!complaints(&contents, &frames).is_empty(), "byte {at} is not noticed");
        let damaged = sample.frame_of(at);
        let expected: Vec<u64> =
            (1..=FRAMES).filter(|&n| damaged != Some(n as usize - 1)).collect();
        assert_eq!(sample.sequences(&frames), expected, "byte {at}");
        let Origin::Scan(scan) = &contents.origin else { panic!("there is no index") };
        let follows = damaged.filter(|damaged| damaged + 1 < FRAMES as usize);
        assert_eq!(scan.damaged_places, u64::from(follows.is_some()), "byte {at}");
        assert_eq!(scan.damaged_at, follows.map(|frame| sample.entries[frame].offset), "byte {at}");
        assert_eq!(scan.tail_bytes > 0, damaged.is_some() && follows.is_none(), "byte {at}");
    }
}

#[test]
fn frames_behind_each_range_of_damaged_bytes_are_found() {
    let sample = Sample::new(false);
    let frames_end = sample.entries[FRAMES as usize - 1].end() as usize;
    for first in (HEADER_BYTES..frames_end).step_by(29) {
        for last in (first..frames_end).step_by(31) {
            for fill in [0, 0xa5] {
                let mut bytes = sample.bytes.clone();
                bytes[first..=last].fill(fill);
                let is_intact = |n: &u64| {
                    let entry = &sample.entries[*n as usize - 1];
                    let range = entry.offset as usize..entry.end() as usize;
                    bytes[range.clone()] == sample.bytes[range]
                };
                let expected: Vec<u64> = (1..=FRAMES).filter(is_intact).collect();
                let (contents, frames) = sample.read(bytes);
                assert_eq!(sample.sequences(&frames), expected, "{first} to {last}");
                let Origin::Scan(scan) = &contents.origin else { panic!("there is no index") };
                let before_last = expected.last().is_some_and(|last| *last > expected.len() as u64);
                assert_eq!(scan.damaged_places > 0, before_last, "{first} to {last}");
            }
        }
    }
}

#[test]
fn each_cut_keeps_every_frame_before_it() {
    for rolled in [true, false] {
        let sample = Sample::new(rolled);
        for length in 0..sample.bytes.len() {
            let (contents, frames) = sample.read(sample.bytes[..length].to_vec());
            let whole = sample.entries.iter().filter(|entry| entry.end() <= length as u64).count();
            let expected: Vec<u64> = (1..=whole as u64).collect();
            assert_eq!(sample.sequences(&frames), expected, "cut at {length}");
            assert_eq!(frames.len(), whole, "cut at {length}");
            assert_eq!(contents.header.is_err(), length < HEADER_BYTES, "cut at {length}");
            let Origin::Scan(scan) = &contents.origin else { panic!("cut at {length}") };
            let ends = |entry: &FrameEntry| entry.end() == length as u64;
            let between = length == HEADER_BYTES || sample.entries.iter().any(ends);
            let in_frames = length > HEADER_BYTES && whole < FRAMES as usize;
            if in_frames && !between {
                assert!(!complaints(&contents, &frames).is_empty(), "cut at {length}");
                assert!(scan.tail_bytes > 0, "cut at {length}");
            }
        }
    }
}

#[test]
fn an_index_with_frames_outside_the_data_or_twice_is_rejected() {
    type Wrong = fn(&mut Vec<FrameEntry>);
    let wrongs: [Wrong; 4] = [
        |entries| entries[0].offset = HEADER_BYTES as u64 - 8,
        |entries| entries[3].frame_bytes += 8,
        |entries| entries[2].offset = u64::MAX,
        |entries| entries.insert(1, entries[1]),
    ];
    for wrong in wrongs {
        let sample = Sample::new(false);
        let mut entries = sample.entries.clone();
        let data_end = entries[3].end();
        wrong(&mut entries);
        segment::write_index(&sample.disk, Path::new(PATH), 7, data_end, &entries).unwrap();
        let bytes = sample.disk.contents(Path::new(PATH)).unwrap();
        let (contents, frames) = sample.read(bytes);
        assert_eq!(sample.sequences(&frames), [1, 2, 3, 4]);
        let found = complaints(&contents, &frames);
        assert!(found[0].contains("the index is damaged: expected a frame between"), "{found:?}");
    }
}
