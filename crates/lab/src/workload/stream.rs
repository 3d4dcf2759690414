//! Log lines of one size as collectors get them: frames of syslog (RFC 3164) with a line break
//! behind each, over a connection for every thread.
//!
//! The lines are those of [`lines`](super::lines), cut or repeated to the size. They are made
//! before the trial, in a few blocks that every thread sends again and again: the generator only
//! has to write bytes.

use std::sync::Arc;

use super::lines::line;
use super::{Expect, Request, Step, Steps, WorkloadError, WorkloadPlan};
use crate::driver::Operation;
use crate::driver::stream::Block;
use crate::row::{Row, Value};

/// Sizes of a line, bytes, with its line break. A header alone has up to 45.
pub const LINE_BYTES: std::ops::RangeInclusive<u32> = 64..=8_192;

/// Bytes of a block.
const BLOCK_BYTES: usize = 256 * 1024;

/// Blocks, all of different lines.
const BLOCKS: usize = 16;

/// Syslog's facility `user`, times eight.
const USER: i64 = 8;

/// Sends lines until the time is over.
pub struct Streams {
    blocks: Arc<Vec<Block>>,
}

impl Streams {
    /// Makes the blocks.
    pub fn new(line_bytes: u32) -> Result<Streams, WorkloadError> {
        if !LINE_BYTES.contains(&line_bytes) {
            return Err(WorkloadError::Value {
                name: "line_bytes".to_owned(),
                value: line_bytes.to_string(),
                takes: "64 to 8192".to_owned(),
            });
        }
        let lines = BLOCK_BYTES / line_bytes as usize;
        let block = |block: usize| {
            let numbers = (0..lines).map(|at| (block * lines + at + 1) as u64);
            Block::new(numbers.flat_map(|number| frame(number, line_bytes as usize)).collect())
        };
        Ok(Streams { blocks: Arc::new((0..BLOCKS).map(block).collect()) })
    }
}

impl WorkloadPlan for Streams {
    fn steps(&self, thread: u32) -> Box<dyn Steps> {
        // Threads begin with different blocks.
        Box::new(StreamSteps { blocks: self.blocks.clone(), next: thread as usize * 5 })
    }

    fn row(&self, _: &Value) -> Option<Row> {
        None
    }
}

struct StreamSteps {
    blocks: Arc<Vec<Block>>,
    next: usize,
}

impl Steps for StreamSteps {
    fn next(&mut self) -> Option<Step> {
        let block = self.blocks[self.next % self.blocks.len()].clone();
        self.next += 1;
        let operation = Operation::Stream(block);
        Some(Step::one(Request { label: "stream", operation, expect: Expect::Done }))
    }
}

/// The frame of a line, of this size.
fn frame(number: u64, bytes: usize) -> Vec<u8> {
    let row = line::line(number);
    let [Value::Integer(time), host, program, Value::Integer(severity), Value::Text(message)] =
        &row.values[..]
    else {
        unreachable!("a line has these columns");
    };
    let time = jiff::Timestamp::from_millisecond(*time).expect("times of lines are valid");
    let mut frame =
        format!("<{}>{} {host} {program}: ", USER + severity, time.strftime("%b %e %H:%M:%S"))
            .into_bytes();
    // Collectors differ in what they do to control characters and to spaces at the end.
    let visible = |byte: u8| if byte.is_ascii_graphic() || byte == b' ' { byte } else { b'_' };
    frame.extend(message.bytes().chain([b' ']).cycle().map(visible).take(bytes - 1 - frame.len()));
    if let Some(last @ b' ') = frame.last_mut() {
        *last = b'.';
    }
    frame.push(b'\n');
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_size_and_are_frames_of_syslog() {
        for bytes in [64, 117, 291, 8_192] {
            for number in 1..2_000 {
                let frame = String::from_utf8(frame(number, bytes)).unwrap();
                assert_eq!(frame.len(), bytes, "{frame}");
                assert!(frame.starts_with('<') && frame.ends_with('\n'), "{frame}");
                assert_eq!(frame.matches('\n').count(), 1, "{frame}");
                assert!(!frame.ends_with(" \n"), "{frame}");
                let (_, rest) = frame.split_once('>').unwrap();
                assert!(rest.starts_with("Jul 22 04:2"), "{frame}");
            }
        }
    }

    #[test]
    fn every_thread_sends_all_blocks_in_turn() {
        let plan = Streams::new(291).unwrap();
        let first = |thread| {
            let Some(Step { request, .. }) = plan.steps(thread).next() else { panic!() };
            request.operation
        };
        let mut steps = plan.steps(0);
        let sent: Vec<Operation> =
            (0..=BLOCKS).map(|_| steps.next().unwrap().request.operation).collect();
        assert_eq!(sent[0], sent[BLOCKS]);
        assert!((1..BLOCKS).all(|at| sent[at] != sent[0]));
        assert_ne!(first(0), first(1));
        let Operation::Stream(block) = &sent[3] else { panic!() };
        assert_eq!(block.sum().lines, BLOCK_BYTES as u64 / 291);
        assert_eq!(block.sum().bytes, block.text().len() as u64);
        for refused in [0, 63, 8_193] {
            let error = Streams::new(refused).err().unwrap().to_string();
            assert!(error.contains("it takes 64 to 8192"), "{error}");
        }
    }
}
