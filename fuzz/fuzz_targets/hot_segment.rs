//! A hot segment of which any bytes were changed, some checksums right again: an error, or frames
//! whose lines can all be read.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use platform::{Access, Disk, SimDisk};
use record::frame::HEADER_BYTES as FRAME_HEADER_BYTES;
use record::{Format, FrameBuilder, Origin, Transport};
use segment::{FrameEntry, HEADER_BYTES, HotWriter, SegmentHeader, read_frame, read_segment};

const PATH: &str = "/d/7.hot";

fuzz_target!(|bytes: &[u8]| {
    // As a file of their own, behind a good header or not.
    read(bytes.to_vec());
    static SAMPLE: OnceLock<(Vec<u8>, Vec<usize>)> = OnceLock::new();
    let (file, starts) = SAMPLE.get_or_init(sample);
    let mut file = file.clone();
    let Some((&first, patches)) = bytes.split_first() else { return };
    // Patches of three bytes: place, from the end of the file header, and value.
    for patch in patches.chunks_exact(3) {
        let at = u16::from_le_bytes([patch[0], patch[1]]) as usize;
        let at = HEADER_BYTES - 64 + at % (file.len() - HEADER_BYTES + 64);
        file[at] ^= patch[2];
    }
    if first & 1 != 0 {
        file.truncate(HEADER_BYTES + patches.len() * 7 % (file.len() - HEADER_BYTES));
    }
    read(file.clone());
    sign(&mut file, starts);
    read(file);
});

fn read(bytes: Vec<u8>) {
    let path = Path::new(PATH);
    let disk = SimDisk::new(0);
    disk.open(path, Access::Create).expect("an empty disk");
    disk.corrupt(path, bytes);
    let Ok(contents) = read_segment(&disk, path, 7, None) else { return };
    let file = disk.open(path, Access::Read).expect("it is there");
    for entry in &contents.frames {
        assert!(entry.end() <= contents.data_end && contents.data_end <= contents.file_bytes);
        if let Ok(frame) = read_frame(&*file, path, entry) {
            assert_eq!(frame.lines().count(), frame.header().lines as usize);
        }
    }
}

/// A rolled segment of three frames, and where its frames begin, its index last.
fn sample() -> (Vec<u8>, Vec<usize>) {
    let disk = SimDisk::new(0);
    let header = SegmentHeader { node: 3, segment: 7, created_ns: 5, sequence_next: 11, held: Vec::new() };
    let mut writer = HotWriter::create(&disk, Path::new(PATH), &header).expect("room");
    let mut entries = Vec::new();
    for sequence in 1..4 {
        let mut builder = FrameBuilder::new();
        let origin = Origin::new(Transport::Http, Format::Auto, None);
        builder.push_line(&origin, sequence as i64, b"a line", false);
        builder.push_line(&origin, sequence as i64, b"a line\nof two", true);
        let frame = builder.finish(3, sequence).expect("has lines");
        entries.push(FrameEntry::new(writer.append(frame.bytes()).expect("room"), frame.header()));
    }
    writer.commit().expect("room");
    let data_end = writer.end() as usize;
    writer.roll(&entries).expect("room");
    let starts = entries.iter().map(|entry| entry.offset as usize).chain([data_end]).collect();
    (disk.contents(Path::new(PATH)).expect("it is there"), starts)
}

/// Sets the checksums right, as far as the parts are still there: what is behind them is what needs
/// trying.
fn sign(file: &mut [u8], starts: &[usize]) {
    let mut put = |covered: std::ops::Range<usize>, at: usize| {
        if at + 4 <= file.len() && covered.end <= file.len() && covered.start <= covered.end {
            let crc = crc32c::crc32c(&file[covered]);
            file[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        }
    };
    put(0..HEADER_BYTES - 4, HEADER_BYTES - 4);
    for frame in starts.windows(2) {
        let body = frame[0] + FRAME_HEADER_BYTES;
        put(body..frame[1], body - 8);
        put(frame[0]..body - 4, body - 4);
    }
    let trailer = file.len().saturating_sub(40);
    let index = starts[starts.len() - 1];
    let mut put = |covered: std::ops::Range<usize>, at: usize| {
        if covered.start < covered.end && at + 4 <= file.len() {
            let crc = crc32c::crc32c(&file[covered]);
            file[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        }
    };
    put(index..trailer, trailer + 32);
    put(trailer..trailer + 36, trailer + 36);
}
