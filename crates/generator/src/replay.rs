//! Lines of files instead of generated ones: windows of the files in order, sent as if by the
//! shop's hosts.
//!
//! The text of a line stays, except the digits of identifiers, which are replaced at random in each
//! window: equal numbers in one window stay equal, so that related lines stay related, and numbers
//! differ from those of earlier windows, so that the volume does not compress better than real
//! logs. An identifier is a run of at least [`ID_DIGITS_MIN`] digits; the time at the beginning of
//! a line is not changed. The time of sending advances.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use fastrand::Rng;

use super::world::{Pids, Said, Severity, facility};

/// Digits that a number must have to count as an identifier.
const ID_DIGITS_MIN: usize = 5;
/// Lines of a window.
const WINDOW_LINES: std::ops::Range<usize> = 20..200;
/// Limit of all files together, which are kept in memory. More is refused.
const FILES_BYTES_MAX: u64 = 1 << 30;
/// Limit of a line; the rest of a longer one is cut off.
const LINE_BYTES_MAX: usize = 8 << 10;

/// Lines of files, and the position of the replay.
pub struct Replay {
    files: Vec<File>,
    /// File, host and remaining lines of the window.
    window: (usize, usize, usize),
    salt: u64,
}

struct File {
    /// Name of the application the lines are sent as.
    app: &'static str,
    bytes: Vec<u8>,
    /// Ends of the lines, newline excluded.
    lines: Vec<std::ops::Range<usize>>,
    next: usize,
}

impl Replay {
    /// Reads the files.
    pub fn open(paths: &[PathBuf]) -> Result<Self> {
        let mut files = Vec::new();
        let mut bytes_read = 0;
        for path in paths {
            let bytes =
                std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            bytes_read += bytes.len() as u64;
            if bytes_read > FILES_BYTES_MAX {
                bail!(
                    "the files to replay are kept in memory and may have at most 1 GiB together; give fewer or smaller ones"
                );
            }
            files.push(File::new(app_name(path), bytes));
        }
        files.retain(|file| !file.lines.is_empty());
        if files.is_empty() {
            bail!("the files to replay contain no line");
        }
        Ok(Replay { files, window: (0, 0, 0), salt: 0 })
    }

    /// Appends the next line to `out`; returns its host and its source.
    pub fn line(
        &mut self,
        rng: &mut Rng,
        pids: &Pids,
        hosts: usize,
        out: &mut Vec<u8>,
    ) -> (usize, Said) {
        if self.window.2 == 0 {
            let host = rng.usize(..hosts).min(rng.usize(..hosts));
            self.window = (rng.usize(..self.files.len()), host, rng.usize(WINDOW_LINES));
            self.salt = rng.u64(..);
        }
        let (file, host, left) = self.window;
        self.window.2 = left - 1;
        let file = &mut self.files[file];
        let line = &file.bytes[file.lines[file.next].clone()];
        file.next = (file.next + 1) % file.lines.len();
        redraw(line, self.salt, out);
        let pid = pids.of(host, file.app);
        (host, Said { app: file.app, pid, facility: facility::DAEMON, severity: severity_of(line) })
    }
}

impl File {
    fn new(app: &'static str, bytes: Vec<u8>) -> Self {
        let mut lines = Vec::new();
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', &bytes).chain([bytes.len()]) {
            let mut stop = end.min(start + LINE_BYTES_MAX);
            while stop > start && bytes[stop - 1] == b'\r' {
                stop -= 1;
            }
            if stop > start {
                lines.push(start..stop);
            }
            start = end + 1;
        }
        File { app, bytes, lines, next: 0 }
    }
}

/// `HDFS_2k.log` is sent as `hdfs-2k`. The name is leaked: there is one per file.
fn app_name(path: &Path) -> &'static str {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let name: String =
        stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(48).collect();
    String::leak(if name.is_empty() { "replay".to_owned() } else { name })
}

/// Copies a line with new digits in its identifiers; with one salt, equal identifiers stay equal.
fn redraw(line: &[u8], salt: u64, out: &mut Vec<u8>) {
    let head = line.iter().take_while(|b| b.is_ascii_digit() || b" -:.,/T+[]".contains(b)).count();
    out.extend_from_slice(&line[..head]);
    let mut rest = &line[head..];
    while !rest.is_empty() {
        let text = rest.iter().position(u8::is_ascii_digit).unwrap_or(rest.len());
        out.extend_from_slice(&rest[..text]);
        rest = &rest[text..];
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let (number, behind) = rest.split_at(digits);
        rest = behind;
        if digits < ID_DIGITS_MIN {
            out.extend_from_slice(number);
            continue;
        }
        let start =
            number.iter().fold(salt, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3));
        let mut rng = Rng::with_seed(start);
        // The first digit is not replaced by 0, so that the number keeps its length when it is
        // parsed.
        out.push(if number[0] == b'0' { b'0' } else { rng.u8(b'1'..=b'9') });
        out.extend((1..digits).map(|_| rng.u8(b'0'..=b'9')));
    }
}

/// The severity of a line, by the words at its beginning.
fn severity_of(line: &[u8]) -> Severity {
    const WORDS: [(&str, Severity); 8] = [
        ("FATAL", Severity::Critical),
        ("ERROR", Severity::Error),
        ("[error]", Severity::Error),
        ("error:", Severity::Error),
        ("WARN", Severity::Warning),
        ("[warn]", Severity::Warning),
        ("[notice]", Severity::Notice),
        ("DEBUG", Severity::Debug),
    ];
    let head = &line[..line.len().min(120)];
    let found =
        WORDS.iter().find(|(word, _)| memchr::memmem::find(head, word.as_bytes()).is_some());
    found.map_or(Severity::Info, |(_, severity)| *severity)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redrawn(line: &str, salt: u64) -> String {
        let mut out = Vec::new();
        redraw(line.as_bytes(), salt, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// Every digit as `0`: the shape of the line.
    fn shape(line: &str) -> String {
        line.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect()
    }

    #[test]
    fn identifiers_change_and_the_rest_stays() {
        let line = "081109 203615 148 INFO dfs.DataNode: blk_-1608999687919862906 from 10.250.19.102:54106 size 91178 of 1234";
        let first = redrawn(line, 1);
        assert_eq!(shape(&first), shape(line));
        assert!(first.starts_with("081109 203615 148 INFO dfs.DataNode: blk_-"), "{first}");
        assert!(first.contains(" from 10.250.19.102:") && first.ends_with(" of 1234"), "{first}");
        assert!(!first.contains("1608999687919862906"));
        assert_ne!(first, redrawn(line, 2));
    }

    #[test]
    fn one_identifier_stays_one_in_a_window() {
        let text = redrawn("a 123456 b 123456 c 123457", 9);
        let words: Vec<&str> = text.split(' ').collect();
        assert_eq!(words[1], words[3]);
        assert_ne!(words[1], words[5]);
    }

    #[test]
    fn lines_come_in_order_and_again_from_the_beginning() {
        let mut replay = Replay {
            files: vec![File::new("x", b"one\r\n\ntwo\nthree".to_vec())],
            window: (0, 0, 0),
            salt: 0,
        };
        let (mut rng, pids) = (Rng::with_seed(5), Pids::new(5));
        let lines: Vec<String> = (0..5)
            .map(|_| {
                let mut out = Vec::new();
                replay.line(&mut rng, &pids, 3, &mut out);
                String::from_utf8(out).unwrap()
            })
            .collect();
        assert_eq!(lines, ["one", "two", "three", "one", "two"]);
    }

    #[test]
    fn names_and_severities() {
        assert_eq!(app_name(Path::new("/x/HDFS_2k.log")), "hdfs-2k");
        for (line, severity) in [
            ("[Sun Dec 04 04:47:44 2005] [error] mod_jk child", Severity::Error),
            ("17/06/09 20:10:40 WARN executor", Severity::Warning),
            ("hello", Severity::Info),
        ] {
            assert_eq!(severity_of(line.as_bytes()), severity);
        }
    }
}
