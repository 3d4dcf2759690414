//! What the benchmarks of segments share: processor time, and frames made of a file.

use std::sync::Arc;

use record::{Batch, Format, Frame, FrameBuilder, Origin, Parser, ParserConfig, Transport};

/// Bytes of lines in a frame.
const FRAME_BYTES: usize = 1 << 20;

/// CPU time of this thread in seconds, so that other work on the machine hardly counts.
pub fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    let ran_ns: f64 = text.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    ran_ns / 1e9
}

/// Seconds since the first call.
pub fn wall_s() -> f64 {
    static FIRST: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    FIRST.get_or_init(std::time::Instant::now).elapsed().as_secs_f64()
}

/// The lines of a file in frames; `arrival_ns` returns the arrival time of each frame.
pub fn frames_of(bytes: &[u8], arrival_ns: impl Fn(usize) -> i64) -> Vec<Arc<Frame>> {
    let origin = Origin::new(Transport::File, Format::Auto, None);
    let mut builder = FrameBuilder::new();
    let (mut frames, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        let part = &rest[..rest.len().min(FRAME_BYTES)];
        let end = memchr::memrchr(b'\n', part).map_or(part.len(), |at| at + 1);
        let mut lines = rest[..end].to_vec();
        if lines.last() != Some(&b'\n') {
            lines.push(b'\n');
        }
        builder.push_lines(&origin, arrival_ns(frames.len()), &lines);
        frames.extend(builder.finish(1, frames.len() as u64 + 1).map(Arc::new));
        rest = &rest[end..];
    }
    frames
}

/// The wall clock.
pub fn now_ns() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("after 1970").as_nanos() as i64
}

/// A parser without rules.
pub fn parser() -> Parser {
    Parser::new(&ParserConfig::default()).expect("there are no rules")
}

/// Records of lines whose arrival time is the time they state.
pub fn batches_as_written(bytes: &[u8]) -> Vec<Arc<Batch>> {
    let mut parser = parser();
    let now = now_ns();
    let newest = |frame: Arc<Frame>, parser: &mut Parser| parser.parse(frame).time_range_ns().1;
    let arrivals: Vec<i64> =
        frames_of(bytes, |_| now).into_iter().map(|frame| newest(frame, &mut parser)).collect();
    let frames = frames_of(bytes, |index| arrivals[index]);
    frames.into_iter().map(|frame| Arc::new(parser.parse(frame))).collect()
}
