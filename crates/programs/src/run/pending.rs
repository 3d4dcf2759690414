//! The block of lines that a stream is writing to its process.

use std::collections::VecDeque;

use memchr::memchr_iter;

use crate::block::InputBlock;

/// The block that is being written.
#[derive(Default)]
pub(super) struct Pending {
    bytes: Vec<u8>,
    written: usize,
    lines: u64,
}

impl Pending {
    /// Lines whose end no pipe has taken.
    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    /// Whether the pipe has taken everything.
    pub(super) fn is_empty(&self) -> bool {
        self.written == self.bytes.len()
    }

    /// What the pipe has not taken.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    /// Takes over the lines of a block; returns how many there are.
    pub(super) fn fill(&mut self, block: &mut InputBlock) -> u64 {
        self.bytes.clear();
        self.bytes.extend_from_slice(block.rest());
        self.written = 0;
        self.lines = block.advance(self.bytes.len());
        self.lines
    }

    /// The pipe has taken `bytes`, which begin at `offset` of all that it took.
    pub(super) fn advance(&mut self, bytes: usize, offset: u64, line_ends: &mut VecDeque<u64>) {
        let ends = memchr_iter(b'\n', &self.rest()[..bytes]);
        let before = line_ends.len();
        line_ends.extend(ends.map(|end| offset + end as u64 + 1));
        self.lines -= (line_ends.len() - before) as u64;
        self.written += bytes;
    }

    /// Skips the rest of a line whose beginning a process got that has ended; returns how many
    /// lines that are. The others wait for the next process.
    pub(super) fn drop_begun_line(&mut self) -> u64 {
        let is_begun = self.written > 0 && self.bytes[self.written - 1] != b'\n';
        if !is_begun || self.is_empty() {
            return 0;
        }
        let end =
            memchr::memchr(b'\n', self.rest()).map_or(self.bytes.len(), |e| self.written + e + 1);
        self.written = end;
        self.lines -= 1;
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_begun_is_dropped_and_the_others_wait() {
        let mut block = InputBlock::new();
        block.push_text(b"one\ntwo\nthree\n");
        let mut pending = Pending::default();
        assert_eq!(pending.fill(&mut block), 3);
        let mut line_ends = VecDeque::new();
        pending.advance(6, 100, &mut line_ends);
        assert_eq!((pending.lines, &line_ends), (2, &VecDeque::from([104])));
        assert_eq!(pending.drop_begun_line(), 1);
        assert_eq!((pending.lines, pending.rest()), (1, b"three\n".as_slice()));
        assert_eq!(pending.drop_begun_line(), 0);
        pending.advance(6, 106, &mut line_ends);
        assert_eq!((pending.lines, pending.is_empty()), (0, true));
        assert_eq!(pending.drop_begun_line(), 0);
    }
}
