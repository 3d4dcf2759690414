//! Measures how fast lines become records, on one core.
//!
//!     loginson-bench parse_speed FILE…
//!
//! For each file: lines and bytes a second of the parser, and of `memchr` counting newlines in the
//! same frames, which is the limit. Each pass goes through all frames, so that with a large file no
//! frame is in a cache when its turn comes; for each frame, the fastest of the passes that fit into
//! about a second counts, because other work on the machine only adds time. Rows and lines are
//! compared first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use record::{Format, Frame, FrameBuilder, Origin, Parser, ParserConfig, Transport};

const PASSES_MIN: usize = 5;
const TIME_PER_FILE: Duration = Duration::from_secs(1);

pub(crate) fn main() {
    let files: Vec<String> = crate::arguments().collect();
    if files.is_empty() {
        eprintln!("usage: parse_speed FILE…  (log files of any format)");
        std::process::exit(2);
    }
    println!(
        "{:<24} {:>9} {:>9} {:>12} {:>10} {:>8}",
        "file", "lines", "MB/s", "lines/s", "limit MB/s", "notes"
    );
    for file in files {
        let bytes = std::fs::read(&file).unwrap_or_else(|error| {
            eprintln!("{file}: {error}");
            std::process::exit(1);
        });
        measure(&file, &bytes);
    }
}

fn measure(file: &str, bytes: &[u8]) {
    let frames = frames_of(bytes);
    let lines: usize = frames.iter().map(|f| f.header().lines as usize).sum();
    let payload: usize = frames.iter().map(|f| f.payload().len()).sum();
    let mut parser = Parser::new(&ParserConfig::default()).expect("there are no rules");
    let (mut rows, mut notes) = (0, 0);
    for frame in &frames {
        let batch = parser.parse(frame.clone());
        let note = batch.field_id("_note");
        rows += batch.len();
        notes += batch.rows().filter(|row| note.is_some_and(|id| row.get(id).is_some())).count();
    }
    assert_eq!(rows, lines, "a row for each line");
    let parsing = fastest(&frames, |frame| {
        std::hint::black_box(parser.parse(frame.clone()));
    });
    let counting = fastest(&frames, |frame| {
        std::hint::black_box(memchr::memchr_iter(b'\n', frame.payload()).count());
    });
    let megabytes = |time: Duration| payload as f64 / 1e6 / time.as_secs_f64();
    println!(
        "{:<24} {lines:>9} {:>9.0} {:>12.0} {:>10.0} {notes:>8}",
        file.rsplit('/').next().unwrap_or(file),
        megabytes(parsing),
        lines as f64 / parsing.as_secs_f64(),
        megabytes(counting),
    );
}

/// The file as frames of about the usual size; a small file is repeated to fill some of them.
fn frames_of(bytes: &[u8]) -> Vec<Arc<Frame>> {
    const BYTES_MIN: usize = 2 << 20;
    let origin = Origin::new(Transport::File, Format::Auto, None);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now_ns = now.expect("the clock is behind 1970").as_nanos() as i64;
    let mut builder = FrameBuilder::new();
    let mut frames = Vec::new();
    let mut total = 0;
    while total < BYTES_MIN {
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            builder.push_line(&origin, now_ns, line, false);
            total += line.len() + 1;
            if builder.is_full() {
                frames.extend(builder.finish(1, frames.len() as u64).map(Arc::new));
            }
        }
    }
    frames.extend(builder.finish(1, frames.len() as u64).map(Arc::new));
    frames
}

/// The sum of the fastest times of each frame.
fn fastest(frames: &[Arc<Frame>], mut work: impl FnMut(&Arc<Frame>)) -> Duration {
    let begin = Instant::now();
    let mut fastest = vec![Duration::MAX; frames.len()];
    for done in 0.. {
        if done >= PASSES_MIN && begin.elapsed() >= TIME_PER_FILE {
            break;
        }
        for (frame, fastest) in frames.iter().zip(&mut fastest) {
            let start = Instant::now();
            work(frame);
            *fastest = start.elapsed().min(*fastest);
        }
    }
    fastest.iter().sum()
}
