//! Log lines as a stream of bytes, as collectors take them. A collector answers nothing, so what
//! has arrived is compared with what was sent.

use std::hash::{DefaultHasher, Hasher};
use std::io::BufRead;
use std::ops::AddAssign;
use std::sync::Arc;

use super::StoreError;

/// The table of streams, for stores that have only one.
pub const TABLE: &str = "stream";

/// The error of a stream to another table, or to a server without `option`.
pub(crate) fn elsewhere(store: &str, option: &str) -> StoreError {
    let reason =
        format!("streams go to the table `{TABLE}` of a server with the option `{option}`");
    StoreError::Refused { store: store.to_owned(), reason }
}

/// Whole lines, each with a line break at its end. Copies share the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    text: Arc<[u8]>,
    sum: Sum,
}

impl Block {
    /// The lines of a text that ends in a line break.
    pub fn new(text: Vec<u8>) -> Block {
        let mut sum = Sum::default();
        text.split_inclusive(|byte| *byte == b'\n').for_each(|line| sum.add_line(line));
        Block { text: text.into(), sum }
    }

    /// Its lines.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The sum of its lines.
    pub fn sum(&self) -> Sum {
        self.sum
    }
}

/// A sum over lines that does not depend on their order, because lines of several connections
/// arrive in any order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// Number of lines.
    pub lines: u64,
    /// Their bytes, with line breaks.
    pub bytes: u64,
    /// The sum of their hashes, which wraps around.
    digest: u64,
}

impl Sum {
    /// Adds a line; its line break is not hashed, so that it may be missing.
    pub fn add_line(&mut self, line: &[u8]) {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let mut hasher = DefaultHasher::new();
        hasher.write(text);
        *self += Sum { lines: 1, bytes: text.len() as u64 + 1, digest: hasher.finish() };
    }

    /// Adds the lines of a text up to its end.
    pub fn add_lines(&mut self, mut text: impl BufRead) -> std::io::Result<()> {
        let mut line = Vec::new();
        loop {
            line.clear();
            if text.read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            self.add_line(&line);
        }
    }

    /// How lines that arrived differ from these, which were sent; `None` if they do not.
    pub fn difference(&self, arrived: &Sum) -> Option<String> {
        if self == arrived {
            return None;
        }
        Some(match self.lines == arrived.lines {
            true => format!("all {} lines arrived, but not as they were sent", self.lines),
            false => format!("{} lines were sent, and {} arrived", self.lines, arrived.lines),
        })
    }
}

impl AddAssign for Sum {
    fn add_assign(&mut self, other: Sum) {
        self.lines += other.lines;
        self.bytes += other.bytes;
        self.digest = self.digest.wrapping_add(other.digest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(text: &str) -> Sum {
        let mut sum = Sum::default();
        sum.add_lines(text.as_bytes()).unwrap();
        sum
    }

    #[test]
    fn the_order_of_lines_does_not_matter_and_everything_else_does() {
        let sent = Block::new(b"one\ntwo\ntwo\n".to_vec()).sum();
        assert_eq!((sent.lines, sent.bytes), (3, 12));
        assert_eq!(sent.difference(&sum("two\none\ntwo\n")), None);
        assert_eq!(sent.difference(&sum("two\none\ntwo")), None);
        assert_eq!(
            sent.difference(&sum("one\ntwo\n")).unwrap(),
            "3 lines were sent, and 2 arrived"
        );
        for other in ["one\none\ntwo\n", "one\ntwo\ntwO\n", "on\netwo\ntwo\n"] {
            let difference = sent.difference(&sum(other)).unwrap();
            assert_eq!(difference, "all 3 lines arrived, but not as they were sent");
        }
    }
}
