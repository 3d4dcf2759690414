//! Measures how small lines become when they are sealed, and how fast, on one core or several.
//!
//!     loginson-bench seal_speed [--times N] [--clustering arrival|application|stream] [--threads N] FILE…
//!
//! For each file: bytes of raw lines, of the sealed file, and their ratio; the speed of parsing, of
//! sealing the parsed lines (each block is read back and compared), and of reading everything back;
//! and the number of blocks, with how many contain a rare word. Times are CPU times; with several
//! threads, which seal in parallel, they are wall-clock times.
//!
//! The limit, on one thread, is measured too: the raw bytes in blocks of 2 MiB are compressed by
//! zstd at the level that sealing uses, decompressed and compared. Sealing does the same work and
//! also parses, groups, splits lines and collects words. With `--times` everything is repeated in
//! turn, and each speed is the median.

use std::path::Path;
use std::sync::Arc;

use platform::RealDisk;
use record::Batch;
use segment::sealed::{Clustering, Effort, SealOptions, SealedFile, SealedHeader, SealedWriter};

use crate::frames::{cpu_s, frames_of, now_ns, wall_s};

pub(crate) fn main() {
    let mut options = SealOptions::new(Effort::Fast);
    let mut files = Vec::new();
    let (mut columns, mut threads, mut times) = (false, 1, 1);
    let mut args = crate::arguments();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--clustering" => {
                options.clustering = match args.next().as_deref() {
                    Some("arrival") => Clustering::Arrival,
                    Some("stream") => Clustering::Stream,
                    _ => Clustering::Application,
                }
            }
            "--best" => options.effort = Effort::Best,
            "--columns" => columns = true,
            "--threads" => threads = number(args.next()),
            "--times" => times = number(args.next()).max(1),
            "--block" => options.block_bytes = number(args.next()),
            "--filter-parts" => options.filter_parts = number(args.next()),
            "--chunk" => options.chunk_bytes = number(args.next()),
            _ => files.push(arg),
        }
    }
    println!(
        "{:<20} {:>11} {:>10} {:>7} {:>7} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "file",
        "raw",
        "sealed",
        "ratio",
        "blocks",
        "parse MB/s",
        "seal MB/s",
        "both MB/s",
        "read MB/s",
        "limit MB/s"
    );
    let dir = std::env::temp_dir().join(format!("seal-speed-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a temporary directory");
    for file in &files {
        measure(file, &dir.join("1.sealed"), options, columns, threads, times);
    }
    let _ = std::fs::remove_dir_all(&dir);
}

fn number(arg: Option<String>) -> usize {
    arg.and_then(|arg| arg.parse().ok()).expect("a number of bytes")
}

/// Seconds that the steps of one run took.
struct Seconds {
    parsing: f64,
    sealing: f64,
    reading: f64,
    limit: f64,
}

fn measure(
    file: &str,
    out: &Path,
    options: SealOptions,
    columns: bool,
    threads: usize,
    times: usize,
) {
    let bytes = std::fs::read(file).expect("a file that can be read");
    let runs: Vec<(Seconds, SealedFile)> =
        (0..times).map(|_| run(&bytes, out, options, threads)).collect();
    let (_, sealed) = runs.last().expect("one at least");
    let footer = sealed.footer();
    let speed = |seconds: fn(&Seconds) -> f64| {
        let mut all: Vec<f64> = runs.iter().map(|(run, _)| seconds(run)).collect();
        all.sort_by(f64::total_cmp);
        bytes.len() as f64 / 1e6 / all[all.len() / 2]
    };
    println!(
        "{:<20} {:>11} {:>10} {:>7.2} {:>7} {:>10.0} {:>10.0} {:>10.0} {:>10.0} {:>10.0}",
        Path::new(file).file_name().expect("a file").to_string_lossy(),
        bytes.len(),
        footer.bytes_disk,
        bytes.len() as f64 / footer.bytes_disk as f64,
        footer.blocks.len(),
        speed(|run| run.parsing),
        speed(|run| run.sealing),
        speed(|run| run.parsing + run.sealing),
        speed(|run| run.reading),
        speed(|run| run.limit),
    );
    let filters: Vec<u64> =
        footer.blocks.iter().filter_map(|b| Some(u64::from(b.filter?.bytes))).collect();
    if !filters.is_empty() {
        let bytes: u64 = filters.iter().sum();
        println!(
            "    {} of {} blocks have filters, {bytes} bytes",
            filters.len(),
            footer.blocks.len()
        );
    }
    if columns {
        let mut sums: std::collections::BTreeMap<(String, &str), (u64, u64)> = Default::default();
        for block in 0..footer.blocks.len() {
            for column in sealed.columns(block).expect("what was written") {
                let sum = sums.entry((column.name, column.encoding.name())).or_default();
                (sum.0, sum.1) = (sum.0 + column.bytes, sum.1 + column.bytes_disk);
            }
        }
        let packs: u64 = footer.blocks.iter().map(|b| u64::from(b.chunks[0].bytes_disk)).sum();
        let entries: u64 = footer.blocks.iter().map(|b| b.bytes_disk()).sum();
        println!("    packs {packs}, footer {}", footer.bytes_disk - entries);
        for ((name, encoding), (bytes, bytes_disk)) in sums {
            println!("    {name:<28} {encoding:<11} {bytes:>10} {bytes_disk:>10}");
        }
    }
}

/// Seals the lines and reads them back; measures the limit too.
fn run(bytes: &[u8], out: &Path, options: SealOptions, threads: usize) -> (Seconds, SealedFile) {
    let seconds = if threads == 1 { cpu_s } else { wall_s };
    let now = now_ns();
    let frames = frames_of(bytes, |_| now);
    let mut parser = crate::frames::parser();
    let (mut parsing, mut sealing) = (0.0, 0.0);
    let _ = std::fs::remove_file(out);
    let header = SealedHeader { node: 1, segment: 1, created_ns: 0, sequence_next: 1 };
    let mut writer =
        SealedWriter::create(&RealDisk, out, &header, &[], options).expect("a new file");
    writer.set_threads(threads);
    for frame in frames {
        let start = seconds();
        let batch = Arc::new(parser.parse(frame));
        parsing += seconds() - start;
        let start = seconds();
        writer.push(batch, None).expect("the disk takes it");
        sealing += seconds() - start;
    }
    let start = seconds();
    let footer = writer.finish().expect("the disk takes it");
    sealing += seconds() - start;
    let start = seconds();
    let sealed = SealedFile::open(&RealDisk, out).expect("what was written");
    let mut lines = 0;
    for block in 0..footer.blocks.len() {
        let batch: Batch = sealed.read_block(block).expect("what was written");
        lines += batch.len();
    }
    let reading = seconds() - start;
    assert_eq!(lines as u64, footer.lines());
    let start = seconds();
    compress_and_compare(bytes, options.effort.level());
    let limit = seconds() - start;
    (Seconds { parsing, sealing, reading, limit }, sealed)
}

/// Compresses blocks of the raw bytes with zstd, and decompresses them.
fn compress_and_compare(bytes: &[u8], level: i32) {
    const BLOCK_BYTES: usize = 2 << 20;
    let mut compressor = zstd::bulk::Compressor::new(level).expect("zstd has that level");
    let mut decompressor = zstd::bulk::Decompressor::new().expect("there is memory for zstd");
    let mut small = vec![0; zstd::zstd_safe::compress_bound(BLOCK_BYTES)];
    let mut again = vec![0; BLOCK_BYTES];
    for block in bytes.chunks(BLOCK_BYTES) {
        let length = compressor.compress_to_buffer(block, &mut small[..]).expect("there is room");
        let length = decompressor
            .decompress_to_buffer(&small[..length], &mut again[..])
            .expect("what was compressed");
        assert!(again[..length] == *block);
    }
}
