//! A sealed segment of which any bytes were changed behind the compression and the checksums: an
//! error, or lines that can all be read.
#![no_main]

use std::path::Path;
use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use platform::{Access, Disk, SimDisk};
use record::{Format, FrameBuilder, Origin, Parser, ParserConfig, Transport};
use segment::sealed::{
    BlockEntry, Effort, SEALED_HEADER_BYTES, SealOptions, SealedFile, SealedHeader, SealedWriter,
};
use segment::tokens::required_tokens;

const PATH: &str = "/d/7.sealed";

/// A block without compression.
struct Sample {
    header: Vec<u8>,
    entry: BlockEntry,
    /// Its chunks, and its filter last if it has one.
    parts: Vec<Vec<u8>>,
}

fuzz_target!(|bytes: &[u8]| {
    static SAMPLES: OnceLock<[Sample; 2]> = OnceLock::new();
    let samples = SAMPLES.get_or_init(|| [sample(Effort::Fast), sample(Effort::Best)]);
    read(bytes.to_vec());
    let Some((&first, patches)) = bytes.split_first() else { return };
    let sample = &samples[usize::from(first & 1)];
    let mut parts = sample.parts.clone();
    let mut footer_patches = Vec::new();
    // Patches of four bytes: part, place, value; of the part behind the last, the footer.
    for patch in patches.chunks_exact(4) {
        let at = u16::from_le_bytes([patch[1], patch[2]]) as usize;
        let part = usize::from(patch[0] & 63) % (parts.len() + 1);
        match parts.get_mut(part) {
            Some(part) if part.is_empty() => {}
            Some(part) if patch[0] & 192 == 64 => part.truncate(at % part.len()),
            Some(part) if patch[0] & 192 == 128 => part.insert(at % part.len(), patch[3]),
            Some(part) => {
                let at = at % part.len();
                part[at] ^= patch[3];
            }
            None => footer_patches.push((at, patch[3])),
        }
    }
    // A pack of nothing but what the fuzzer says.
    if first & 6 == 6 {
        parts[0] = patches.to_vec();
    }
    read(file(sample, &parts, &footer_patches));
});

fn read(bytes: Vec<u8>) {
    let path = Path::new(PATH);
    let disk = SimDisk::new(0);
    disk.open(path, Access::Create).expect("an empty disk");
    disk.corrupt(path, bytes);
    let Ok(file) = SealedFile::open(&disk, path) else { return };
    let words = [required_tokens(b"app", true, true)];
    for place in 0..file.footer().blocks.len().min(16) {
        let _ = file.verify_block(place);
        let _ = file.columns(place);
        let _ = file.may_contain(place, &words);
        let Ok(batch) = file.read_block(place) else { continue };
        let mut bytes = 0;
        for row in batch.rows() {
            bytes += row.raw().len();
            bytes += row.fields().map(|(_, value)| value.len()).sum::<usize>();
            let _ = (row.id(), row.time_ns(), batch.origins().get(usize::from(row.origin_index())));
        }
        std::hint::black_box(bytes);
    }
}

fn sample(effort: Effort) -> Sample {
    let disk = SimDisk::new(0);
    let path = Path::new(PATH);
    let header = SealedHeader { node: 3, segment: 7, created_ns: 11, sequence_next: 40 };
    let options = SealOptions::new(effort);
    let mut writer = SealedWriter::create(&disk, path, &header, &[5], options).expect("room");
    let mut builder = FrameBuilder::new();
    let origin = Origin::new(Transport::SyslogTcp, Format::Auto, None);
    for i in 0..24 {
        let line = match i % 4 {
            0 => format!("<13>1 2026-01-02T03:04:{i:02}Z host{i} app {i} - - user {i} took {i} ms"),
            1 => format!(r#"{{"level":"info","n":{i},"msg":"JSON of 10.0.0.{i}"}}"#),
            2 => format!("plain text of {i}"),
            _ => format!("two\nlines {i}"),
        };
        builder.push_line(&origin, 1_000 + i64::from(i), line.as_bytes(), false);
    }
    let frame = Arc::new(builder.finish(3, 1).expect("has lines"));
    let batch = Parser::new(&ParserConfig::default()).expect("no rules").parse(frame);
    writer.push(Arc::new(batch), None).expect("room");
    writer.finish().expect("room");
    let bytes = disk.contents(path).expect("it is there");
    let entry = SealedFile::open(&disk, path).expect("whole").footer().blocks[0].clone();
    let mut at = entry.offset as usize;
    let chunks = entry.chunks.iter().chain(&entry.filter).map(|chunk| {
        let stored = &bytes[at..at + chunk.bytes_disk as usize];
        at += stored.len();
        match chunk.bytes == chunk.bytes_disk {
            true => stored.to_vec(),
            false => zstd::bulk::decompress(stored, chunk.bytes as usize).expect("whole"),
        }
    });
    let parts = chunks.collect();
    Sample { header: bytes[..SEALED_HEADER_BYTES].to_vec(), entry, parts }
}

/// The file with these parts as they are, and all checksums right.
fn file(sample: &Sample, parts: &[Vec<u8>], patches: &[(usize, u8)]) -> Vec<u8> {
    let entry = &sample.entry;
    let mut file = sample.header.clone();
    parts.iter().for_each(|part| file.extend_from_slice(part));
    // Nothing replaced, the effort, no mark, one block.
    let mut body = vec![0, 0, 0, 1];
    let (chunks, filter) = parts.split_at(entry.chunks.len());
    varint(&mut body, chunks.len() as u64);
    for chunk in chunks {
        varint(&mut body, chunk.len() as u64);
        varint(&mut body, chunk.len() as u64);
        body.extend_from_slice(&crc32c::crc32c(chunk).to_le_bytes());
    }
    match filter.first() {
        None => varint(&mut body, 0),
        Some(filter) => {
            varint(&mut body, filter.len() as u64 + 1);
            body.extend_from_slice(&crc32c::crc32c(filter).to_le_bytes());
        }
    }
    varint(&mut body, u64::from(entry.lines));
    varint(&mut body, u64::from(entry.lines_internal));
    varint(&mut body, entry.bytes_raw);
    for (first, last) in [entry.time_ns, entry.received_ns] {
        signed(&mut body, first);
        signed(&mut body, last.wrapping_sub(first));
    }
    varint(&mut body, entry.sequence.0);
    varint(&mut body, entry.sequence.1 - entry.sequence.0);
    body.extend_from_slice(&entry.lines_crc.to_le_bytes());
    // No rollups.
    body.push(0);
    for (at, value) in patches {
        let at = at % body.len();
        body[at] ^= value;
    }
    let mut trailer = b"LGNSLEND".to_vec();
    trailer.extend_from_slice(&7u64.to_le_bytes());
    trailer.extend_from_slice(&(file.len() as u64).to_le_bytes());
    trailer.extend_from_slice(&(body.len() as u64).to_le_bytes());
    trailer.extend_from_slice(&(body.len() as u64).to_le_bytes());
    trailer.extend_from_slice(&crc32c::crc32c(&body).to_le_bytes());
    let crc = crc32c::crc32c(&trailer);
    trailer.extend_from_slice(&crc.to_le_bytes());
    file.extend_from_slice(&body);
    file.extend_from_slice(&trailer);
    file
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

fn signed(out: &mut Vec<u8>, value: i64) {
    varint(out, (value.wrapping_shl(1) ^ (value >> 63)) as u64);
}
