//! Changes each byte of a small sealed segment, and cuts it at each length: each block is as it was
//! written, or there is an error that gives the offset; the other blocks stay readable.

use std::path::Path;
use std::sync::Arc;

use platform::{Access, Disk, SimDisk};
use record::{Batch, Format, FrameBuilder, LineId, Origin, Parser, ParserConfig, Transport};
use segment::sealed::{Effort, SealOptions, SealedFile, SealedHeader, SealedWriter};

const PATH: &str = "/d/7.sealed";

type Lines = Vec<(LineId, i64, i64, Vec<u8>)>;

/// A sealed file of several blocks, and the lines of each.
struct Sample {
    disk: SimDisk,
    bytes: Vec<u8>,
    blocks: Vec<Lines>,
}

impl Sample {
    fn new(effort: Effort) -> Self {
        let disk = SimDisk::new(1);
        let header = SealedHeader { node: 3, segment: 7, created_ns: 11, sequence_next: 40 };
        let options =
            SealOptions { block_bytes: 700, chunk_bytes: 700, ..SealOptions::new(effort) };
        let path = Path::new(PATH);
        let mut writer = SealedWriter::create(&disk, path, &header, &[5, 6], options).unwrap();
        for sequence in 1..4 {
            writer.push(Arc::new(batch(sequence)), None).unwrap();
        }
        writer.finish().unwrap();
        let bytes = disk.contents(path).unwrap();
        let file = SealedFile::open(&disk, path).unwrap();
        let blocks = 0..file.footer().blocks.len();
        let blocks: Vec<Lines> =
            blocks.map(|index| lines(&file.read_block(index).unwrap())).collect();
        assert!(blocks.len() >= 3, "{} blocks", blocks.len());
        Sample { disk, bytes, blocks }
    }

    /// The lines of each block when the file has these bytes, or the error.
    fn read(&self, bytes: Vec<u8>) -> Result<Vec<Result<Lines, String>>, String> {
        let path = Path::new(PATH);
        self.disk.corrupt(path, bytes);
        let file = SealedFile::open(&self.disk, path).map_err(|error| error.to_string())?;
        let read = |index| {
            let verified = file.verify_block(index).map_err(|error| error.to_string());
            let read = file.read_block(index).map(|batch| lines(&batch));
            if let Ok(lines) = &read {
                // Its filter may be damaged while its lines are intact; they must be as they were
                // written.
                assert_eq!(lines, &self.blocks[index]);
            }
            verified.and(read.map_err(|error| error.to_string()))
        };
        Ok((0..file.footer().blocks.len()).map(read).collect())
    }
}

fn batch(sequence: u64) -> Batch {
    let mut builder = FrameBuilder::new();
    let origin = Origin::new(Transport::SyslogTcp, Format::Auto, None);
    for i in 0..12 {
        let line = match i % 4 {
            0 => format!("<13>1 2026-01-02T03:04:{i:02}Z host app {i} - - took {i} ms"),
            1 => format!(r#"{{"level":"info","n":{i},"msg":"JSON {sequence}"}}"#),
            2 => format!("plain text of {sequence}, {i}"),
            _ => format!("two\nlines \u{1f600} {i}"),
        };
        builder.push_line(&origin, 1_000 + i64::from(i), line.as_bytes(), false);
    }
    let frame = Arc::new(builder.finish(3, sequence).expect("has lines"));
    Parser::new(&ParserConfig::default()).unwrap().parse(frame)
}

fn lines(batch: &Batch) -> Lines {
    let rows = batch.rows();
    rows.map(|row| (row.id(), row.time_ns(), row.received_ns(), row.raw().to_vec())).collect()
}

/// Checks that the text gives file and offset, and what was expected and found.
fn check_text(text: &str, what: &str) {
    assert!(text.starts_with("/d/7.sealed"), "{what}: {text}");
    let is_version = text.contains("version");
    assert!(is_version || text.contains(" at byte "), "{what}: {text}");
    assert!(is_version || (text.contains("expected") && text.contains("found")), "{what}: {text}");
}

#[test]
fn each_flipped_bit_costs_at_most_its_block() {
    for effort in [Effort::Fast, Effort::Best] {
        let sample = Sample::new(effort);
        for at in 0..sample.bytes.len() {
            let mut bytes = sample.bytes.clone();
            bytes[at] ^= 1 << (at % 8);
            let what = format!("byte {at} of {effort:?}");
            match sample.read(bytes) {
                // In the header, footer or trailer.
                Err(text) => check_text(&text, &what),
                Ok(blocks) => {
                    let errors: Vec<&String> =
                        blocks.iter().filter_map(|block| block.as_ref().err()).collect();
                    assert_eq!(errors.len(), 1, "{what}: {errors:?}");
                    check_text(errors[0], &what);
                    for (read, written) in blocks.iter().zip(&sample.blocks) {
                        assert!(read.as_ref().is_ok_and(|lines| lines == written) || read.is_err());
                    }
                }
            }
        }
    }
}

#[test]
fn each_cut_is_an_error() {
    for effort in [Effort::Fast, Effort::Best] {
        let sample = Sample::new(effort);
        for length in 0..sample.bytes.len() {
            let text = sample.read(sample.bytes[..length].to_vec()).expect_err("it is cut");
            check_text(&text, &format!("cut at {length}"));
        }
    }
}

#[test]
fn bytes_behind_the_end_are_an_error() {
    let sample = Sample::new(Effort::Fast);
    for more in [1, 48, 4096] {
        let bytes = [&sample.bytes[..], &vec![0; more]].concat();
        check_text(&sample.read(bytes).expect_err("it is longer"), "longer");
    }
    let twice = [&sample.bytes[..], &sample.bytes[..]].concat();
    check_text(&sample.read(twice).expect_err("it is twice"), "twice");
}

#[test]
fn flipped_reads_are_never_believed() {
    let sample = Sample::new(Effort::Best);
    let path = Path::new(PATH);
    sample.disk.flip_reads(2);
    let mut errors = 0;
    for _ in 0..2_000 {
        let Ok(file) = SealedFile::open(&sample.disk, path) else {
            errors += 1;
            continue;
        };
        for (index, written) in sample.blocks.iter().enumerate() {
            match file.read_block(index) {
                Ok(batch) => assert_eq!(&lines(&batch), written),
                Err(_) => errors += 1,
            }
        }
    }
    assert!(errors > 100 && sample.disk.flips() > 100);
    sample.disk.flip_reads(0);
    assert!(sample.disk.open(path, Access::Read).is_ok());
    assert_eq!(sample.read(sample.bytes.clone()).unwrap().len(), sample.blocks.len());
}
