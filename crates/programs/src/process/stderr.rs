//! What comes on stderr: the report of the sandbox, then the last words of the program.

use std::collections::VecDeque;

use crate::sandbox::{Applied, EXEC_PREFIX, REFUSED_PREFIX, STATUS_PREFIX};

/// A first line that is longer is no report.
const REPORT_BYTES_MAX: usize = 16 << 10;

/// Stderr of one process. Keeps its end.
#[derive(Debug)]
pub(crate) struct Stderr {
    bytes_max: usize,
    /// The first line, until it ends.
    report: Option<Vec<u8>>,
    applied: Option<Applied>,
    tail: VecDeque<u8>,
    is_cut: bool,
}

impl Stderr {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            report: Some(Vec::new()),
            applied: None,
            tail: VecDeque::new(),
            is_cut: false,
        }
    }

    /// Takes the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let Some(report) = &mut self.report else { return self.keep(bytes) };
        let end = bytes.iter().position(|byte| *byte == b'\n');
        report.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
        if end.is_none() && report.len() <= REPORT_BYTES_MAX {
            return;
        }
        let line = self.report.take().unwrap_or_default();
        let text = String::from_utf8_lossy(&line);
        self.applied = text.strip_prefix(STATUS_PREFIX).and_then(Applied::from_line);
        if self.applied.is_none() {
            self.keep(&line);
            self.keep(b"\n");
        }
        self.keep(&bytes[end.map_or(bytes.len(), |end| end + 1)..]);
    }

    /// What the sandbox reported.
    pub(crate) fn applied(&self) -> Option<&Applied> {
        self.applied.as_ref()
    }

    /// Why the sandbox or the start of the interpreter failed, if that is what stderr says.
    pub(crate) fn refusal(&self) -> Option<String> {
        let text = self.text();
        let find = |prefix| text.lines().find_map(|line| line.strip_prefix(prefix));
        find(REFUSED_PREFIX).or_else(|| find(EXEC_PREFIX)).map(str::to_owned)
    }

    /// The end of what the program wrote.
    pub(crate) fn text(&self) -> String {
        let mut bytes = Vec::new();
        // A first line without end is no report.
        bytes.extend(self.report.as_deref().unwrap_or_default());
        bytes.extend(&self.tail);
        let text = String::from_utf8_lossy(&bytes);
        if self.is_cut { format!("\u{2026}{text}") } else { text.into_owned() }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let skipped = bytes.len().saturating_sub(self.bytes_max);
        self.tail.extend(&bytes[skipped..]);
        let over = self.tail.len().saturating_sub(self.bytes_max);
        self.tail.drain(..over);
        self.is_cut |= skipped + over > 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(parts: &[&str], is_applied: bool, text: &str) {
        let mut stderr = Stderr::new(8);
        for part in parts {
            stderr.push(part.as_bytes());
        }
        assert_eq!(
            (stderr.applied().is_some(), stderr.text().as_str()),
            (is_applied, text),
            "{parts:?}"
        );
    }

    #[test]
    fn the_report_comes_before_the_words_of_the_program() {
        check(&[], false, "");
        check(&["loginson-sandbox: {\"steps\":[]}\n"], true, "");
        check(&["loginson-sandbox: {\"steps\"", ":[]}\nab", "c\n"], true, "abc\n");
        check(&["loginson-sandbox: {\n"], false, "\u{2026}dbox: {\n");
        check(&["abc\n", "loginson"], false, "\u{2026}loginson");
        check(&["abc"], false, "abc");
    }

    #[test]
    fn a_refusal_is_found() {
        let mut stderr = Stderr::new(4096);
        stderr.push(b"loginson-sandbox-refused: limit Cpu: no\n");
        assert_eq!(stderr.refusal().as_deref(), Some("limit Cpu: no"));
    }
}
