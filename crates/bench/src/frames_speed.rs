//! Measures building frames from memory in one thread and consuming them in another, compared with
//! copying the same bytes: the cost of building without any I/O.
//!
//! ```text
//! frames_speed FILE [TIMES]
//! ```
//!
//! Building is what a connection does: bytes are copied into the frame as the kernel would, one
//! read at a time, and split there; a full frame is closed with its checksum and passed on.
//! Consuming is what the writer does: the frame is copied into a buffer that would be written. The
//! limit is the first copy alone, in one thread.

use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use record::framing::LineSplitter;
use record::{Format, FrameBuilder, Origin, Transport};

use crate::traffic::{count_lines, number, report};

/// Bytes of a read.
const READ_BYTES: usize = 256 << 10;
/// A frame with less room than this is closed.
const ROOM_BYTES_MIN: usize = 64 << 10;
/// Frames queued between the threads.
const FRAMES_QUEUED_MAX: usize = 16;
/// Size of the buffer the consumer copies to.
const STAGING_BYTES: usize = 4 << 20;
/// Bytes built by default, in as many rounds over the file as that takes.
const BYTES_DEFAULT: usize = 8 << 30;

pub(crate) fn main() -> std::io::Result<()> {
    let args: Vec<String> = crate::arguments().collect();
    let [file, times @ ..] = args.as_slice() else {
        eprintln!("usage: frames_speed FILE [TIMES]");
        std::process::exit(2);
    };
    let content = std::fs::read(file)?;
    assert!(content.ends_with(b"\n"), "the file ends in a newline");
    let times = times.first().map_or(BYTES_DEFAULT.div_ceil(content.len()) as u64, |t| number(t));
    let lines = count_lines(&content) * times;
    let limit = copy(&content, times);
    let limit_lines_per_s = lines as f64 / limit.as_secs_f64();
    let (built, found) = build(&content, times);
    assert_eq!(found, lines, "each line is in a frame");
    let more = format!(" limit_lines_per_s={limit_lines_per_s:.0}");
    report("frames_speed", lines, content.len() as u64 * times, built, &more);
    Ok(())
}

/// The limit: copies the bytes, one read at a time, into the memory of one frame.
fn copy(content: &[u8], times: u64) -> Duration {
    let mut frame = vec![0; 1 << 20];
    let started = Instant::now();
    for _ in 0..times {
        for (index, read) in content.chunks(READ_BYTES).enumerate() {
            let at = index * READ_BYTES % frame.len();
            frame[at..at + read.len()].copy_from_slice(read);
            std::hint::black_box(&mut frame);
        }
    }
    started.elapsed()
}

/// Returns the time and the lines consumed.
fn build(content: &[u8], times: u64) -> (Duration, u64) {
    let (queue, frames) = sync_channel::<record::Frame>(FRAMES_QUEUED_MAX);
    let consumer = std::thread::spawn(move || {
        let mut staging = vec![0; STAGING_BYTES];
        let (mut lines, mut filled) = (0, 0);
        for frame in frames {
            let bytes = frame.bytes();
            if filled + bytes.len() > staging.len() {
                filled = 0;
            }
            staging[filled..filled + bytes.len()].copy_from_slice(bytes);
            filled += bytes.len();
            lines += u64::from(frame.header().lines);
        }
        lines
    });
    let origin = Origin::new(Transport::SyslogTcp, Format::Syslog, None);
    let (mut builder, mut splitter) = (FrameBuilder::new(), LineSplitter::new());
    let mut sequence = 0;
    let mut hand_over = |builder: &mut FrameBuilder| {
        sequence += 1;
        if let Some(frame) = builder.finish(1, sequence) {
            queue.send(frame).expect("the consumer takes all");
        }
    };
    let started = Instant::now();
    for time in 0..times {
        let mut rest = content;
        while !rest.is_empty() {
            let carried = splitter.carried_in_place().expect("lines are newline-framed and short");
            let mut spare = builder.spare();
            if spare.len() < carried.len() + ROOM_BYTES_MIN {
                hand_over(&mut builder);
                spare = builder.spare();
            }
            let front = carried.len();
            spare[..front].copy_from_slice(carried);
            let bytes = rest.len().min(READ_BYTES).min(spare.len() - front);
            let (read, behind) = rest.split_at(bytes);
            spare[front..front + bytes].copy_from_slice(read);
            rest = behind;
            let found = splitter.split_in_place(&spare[..front + bytes]);
            assert!(found.is_rest_carried, "lines are newline-framed and short");
            if found.lines > 0 {
                builder.commit_lines(&origin, time as i64, found.bytes, found.lines);
            }
        }
    }
    hand_over(&mut builder);
    drop(queue);
    let lines = consumer.join().expect("the consumer does not panic");
    (started.elapsed(), lines)
}
