//! A request body in chunks of any size, plain or compressed: the same lines as in one chunk, none
//! over the limit, no byte made up; `_bulk` and JSON lines of it, or an error. A body that we
//! compressed gives the same lines as it does plain.
#![no_main]

use std::io::Write;

use collector::body::{Bulk, Decoder, Encoding, Shape, WholeLines, json_records};
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use libfuzzer_sys::fuzz_target;
use record::frame::LINE_BYTES_MAX;

fuzz_target!(|input: &[u8]| {
    let [how, size, body @ ..] = input else { return };
    if *how >= 128 {
        compressed_or_not(*how, 1 + usize::from(*size), body);
    }
    use Encoding::{Deflate, Gzip, Plain, Snappy, Zstd};
    let encoding = [Plain, Gzip, Zstd, Deflate, Snappy][usize::from(how % 5)];
    let shape = [Shape::Lines, Shape::JsonLines, Shape::Bulk][usize::from(how / 3 % 3)];
    let chunk_bytes = 1 + usize::from(*size);
    let whole = records(encoding, shape, [body]);
    check(&whole, &records(encoding, shape, body.chunks(chunk_bytes)));
});

/// What is broken may be noticed earlier or later; what came before is the same.
fn check(whole: &(Vec<u8>, bool), chunks: &(Vec<u8>, bool)) {
    let common = whole.0.len().min(chunks.0.len());
    assert_eq!(whole.1, chunks.1);
    assert_eq!(whole.0[..common], chunks.0[..common]);
    assert!(!whole.1 || whole.0 == chunks.0);
}

/// The same lines come of a body, whether it is compressed, in chunks of any size.
fn compressed_or_not(how: u8, chunk_bytes: usize, body: &[u8]) {
    let shape = || [Shape::Lines, Shape::JsonLines, Shape::Bulk][usize::from(how % 3)];
    let plain = records(Encoding::Plain, shape(), [body]);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(body).expect("there is memory");
    let gzip = gzip.finish().expect("there is memory");
    let zstd = zstd::bulk::compress(body, 1).expect("there is memory");
    check(&plain, &records(Encoding::Gzip, shape(), gzip.chunks(chunk_bytes)));
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
    zlib.write_all(body).expect("there is memory");
    let zlib = zlib.finish().expect("there is memory");
    check(&plain, &records(Encoding::Zstd, shape(), zstd.chunks(chunk_bytes)));
    check(&plain, &records(Encoding::Deflate, shape(), zlib.chunks(chunk_bytes)));
}

/// The records of a body, and whether it could be read to its end.
fn records<'a>(
    encoding: Encoding,
    shape: Shape,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<u8>, bool) {
    let mut found = Vec::new();
    let mut scratch = Vec::new();
    let mut bulk = Bulk::default();
    let mut lines = WholeLines::new();
    let mut emit = |block: &[u8]| -> Result<(), ()> {
        assert!(block.split(|&b| b == b'\n').all(|line| line.len() <= LINE_BYTES_MAX + 1));
        match shape {
            Shape::Lines => found.extend_from_slice(block),
            Shape::JsonLines => found.extend_from_slice(json_records(block, &mut scratch)),
            Shape::Bulk => {
                return bulk.take(block, |line| found.extend_from_slice(line)).map_err(drop);
            }
        }
        Ok(())
    };
    let mut decoder = Decoder::new(encoding).expect("there is memory");
    let read = || -> Result<(), ()> {
        for mut chunk in chunks {
            while let Some(piece) = decoder.next(&mut chunk).map_err(drop)? {
                lines.take(piece, &mut emit)?;
            }
        }
        let last = decoder.end().map_err(drop)?;
        lines.take(last, &mut emit)?;
        lines.end(&mut emit)
    };
    let ended = read().is_ok();
    (found, ended)
}
