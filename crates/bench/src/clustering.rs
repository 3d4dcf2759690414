//! Measures the costs and benefits of grouping lines by stream.
//!
//!     loginson-bench clustering [--best] FILE…
//!
//! For each file and way of grouping: the ratio of raw to stored bytes, the speed of sealing
//! (without parsing), the share of blocks that contain a word of one application, the blocks that a
//! query for the newest 100 lines opens, the blocks that overlap one hundredth of the time, and how
//! fast the whole segment is read in the order of event time.

use std::path::Path;
use std::sync::Arc;

use memchr::memmem;
use platform::RealDisk;
use record::Batch;
use segment::sealed::{
    Clustering, Effort, Footer, SealOptions, SealedFile, SealedHeader, SealedWriter,
};

use crate::frames::{batches_as_written, cpu_s};

/// Lines that a query for the newest ones shows.
const NEWEST: usize = 100;
/// Words that only one application of the corpora writes.
const WORDS: [&str; 4] = ["PacketResponder", "sshd", "jvm", "GET"];

pub(crate) fn main() {
    let mut effort = Effort::Fast;
    let files = crate::arguments().filter(|arg| match arg.as_str() {
        "--best" => {
            effort = Effort::Best;
            false
        }
        _ => true,
    });
    let files: Vec<String> = files.collect();
    println!(
        "| file | grouped by | ratio | seal MB/s | blocks | with a word of one application | newest {NEWEST} lines open | 1% of the time opens | read in order MB/s |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for file in &files {
        let bytes = std::fs::read(file).expect("a file that can be read");
        let batches = batches_as_written(&bytes);
        for clustering in [Clustering::Arrival, Clustering::Application, Clustering::Stream] {
            measure(
                file,
                bytes.len(),
                &batches,
                SealOptions { clustering, ..SealOptions::new(effort) },
            );
        }
    }
}

fn measure(file: &str, raw: usize, batches: &[Arc<Batch>], options: SealOptions) {
    let out = std::env::temp_dir().join(format!("clustering-{}.sealed", std::process::id()));
    let _ = std::fs::remove_file(&out);
    let header = SealedHeader { node: 1, segment: 1, created_ns: 0, sequence_next: 1 };
    let start = cpu_s();
    let mut writer =
        SealedWriter::create(&RealDisk, &out, &header, &[], options).expect("a new file");
    for batch in batches {
        writer.push(Arc::clone(batch), None).expect("the disk takes it");
    }
    let footer = writer.finish().expect("the disk takes it");
    let sealing = cpu_s() - start;
    let sealed = SealedFile::open(&RealDisk, &out).expect("what was written");
    let read = |index: usize| sealed.read_block(index).expect("what was written");
    let blocks = footer.blocks.len();

    let (mut with_word, mut looked) = (0, 0);
    for index in 0..blocks {
        let block = read(index);
        for word in WORDS {
            looked += 1;
            with_word += usize::from(memmem::find(block.text(), word.as_bytes()).is_some());
        }
    }
    let start = cpu_s();
    let mut times: Vec<(i64, u32, u32)> = Vec::new();
    let restored: Vec<Batch> = (0..blocks).map(read).collect();
    for (index, block) in restored.iter().enumerate() {
        times.extend(block.rows().map(|row| (row.time_ns(), index as u32, row.index())));
    }
    times.sort_unstable();
    let bytes: usize = times
        .iter()
        .map(|&(_, block, row)| restored[block as usize].row(row as usize).raw().len())
        .sum();
    let reading = cpu_s() - start;
    assert!(bytes > 0 && times.len() as u64 == footer.lines());
    println!(
        "| {} | {} | {:.2} | {:.0} | {blocks} | {:.0}% | {} | {} | {:.0} |",
        Path::new(file).file_name().expect("a file").to_string_lossy(),
        match options.clustering {
            Clustering::Arrival => "arrival",
            Clustering::Application => "type, application, service",
            Clustering::Stream => "and stream",
        },
        raw as f64 / footer.bytes_disk as f64,
        raw as f64 / 1e6 / sealing,
        100.0 * with_word as f64 / looked as f64,
        opened_for_newest(&footer, &times),
        overlapping(&footer),
        raw as f64 / 1e6 / reading,
    );
    let _ = std::fs::remove_file(&out);
}

/// Blocks that may hold lines newer than the hundredth newest.
fn opened_for_newest(footer: &Footer, times: &[(i64, u32, u32)]) -> usize {
    let least = times[times.len().saturating_sub(NEWEST)].0;
    footer.blocks.iter().filter(|block| block.time_ns.1 >= least).count()
}

/// Blocks that overlap one hundredth of the segment's time, in its middle.
fn overlapping(footer: &Footer) -> usize {
    let (first, last) = footer.time_ns().expect("it has lines");
    let (middle, part) = (first + (last - first) / 2, (last - first) / 100);
    let inside = |range: (i64, i64)| range.0 <= middle + part && middle <= range.1;
    footer.blocks.iter().filter(|block| inside(block.time_ns)).count()
}
