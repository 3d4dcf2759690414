//! Bytes from a disk or another node, taken for a frame: an error, or a frame whose lines can all
//! be read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use record::Frame;
use record::frame::{FRAME_MAGIC, FRAME_VERSION, FrameHeader, HEADER_BYTES};

fuzz_target!(|bytes: &[u8]| {
    read(bytes.to_vec());
    // Random bytes never have the right checksums; behind them is what needs trying.
    if let Some(signed) = sign(bytes.to_vec()) {
        read(signed);
    }
});

fn read(bytes: Vec<u8>) {
    let Ok(frame) = Frame::decode(bytes) else { return };
    let mut lines = 0;
    for line in frame.lines() {
        assert_eq!(line.index, lines);
        assert!(line.offset as usize + line.bytes.len() <= frame.bytes().len());
        lines += 1;
    }
    assert_eq!(lines, frame.header().lines);
    assert_eq!(Frame::decode(frame.bytes().to_vec()).as_ref(), Ok(&frame));
}

/// The bytes with magic, version and both checksums as they should be.
fn sign(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    let sign_header = |bytes: &mut Vec<u8>| {
        let crc = crc32c::crc32c(&bytes[..HEADER_BYTES - 4]);
        bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    };
    bytes.get_mut(..4)?.copy_from_slice(&FRAME_MAGIC);
    *bytes.get_mut(4)? = FRAME_VERSION;
    bytes.get(..HEADER_BYTES)?;
    sign_header(&mut bytes);
    let needed = FrameHeader::decode(&bytes).ok()?.frame_bytes();
    let crc = crc32c::crc32c(bytes.get(HEADER_BYTES..needed)?);
    bytes[HEADER_BYTES - 8..HEADER_BYTES - 4].copy_from_slice(&crc.to_le_bytes());
    sign_header(&mut bytes);
    Some(bytes)
}
