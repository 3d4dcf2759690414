//! Rows for a terminal. Control characters in text of logs are escaped, so that it cannot drive the
//! terminal.

use std::io::{IsTerminal, Write};

use clap::ValueEnum;
use serde_json::{Map, Value};
pub use text::terminal::{escaped, escaped_lines};

/// Format of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Time, level, host, application and message
    Text,
    /// One JSON object per row
    Json,
    /// The lines as they were sent
    Raw,
}

/// Limit of the part of a line that [`Harmless`] holds back; a longer line is written in parts.
const HELD_BYTES_MAX: usize = 64 << 10;

/// Passes text on to a terminal, with all control characters but newlines [`escaped`].
pub struct Harmless<W: Write> {
    to: W,
    held: Vec<u8>,
}

impl<W: Write> Harmless<W> {
    /// Writes to a terminal.
    pub fn new(to: W) -> Harmless<W> {
        Harmless { to, held: Vec::new() }
    }

    fn write_held(&mut self, bytes: usize) -> std::io::Result<()> {
        let text = escaped_lines(&String::from_utf8_lossy(&self.held[..bytes]));
        self.held.drain(..bytes);
        self.to.write_all(text.as_bytes())
    }
}

impl<W: Write> Write for Harmless<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.held.extend_from_slice(bytes);
        let whole = memchr::memrchr(b'\n', &self.held).map_or(0, |at| at + 1);
        if whole > 0 {
            self.write_held(whole)?;
        }
        if self.held.len() > HELD_BYTES_MAX {
            // Not inside a character.
            let end = (self.held.len() - 3..self.held.len())
                .rev()
                .find(|&at| self.held[at] & 0xc0 != 0x80)
                .unwrap_or(self.held.len());
            self.write_held(end)?;
        }
        Ok(bytes.len())
    }

    /// Also writes the part of a line that is held back.
    fn flush(&mut self) -> std::io::Result<()> {
        self.write_held(self.held.len())?;
        self.to.flush()
    }
}

/// Writes rows to standard output.
pub struct Printer {
    format: Format,
    out: std::io::BufWriter<std::io::Stdout>,
    terminal: bool,
    colour: bool,
}

impl Printer {
    /// A printer; colours are used on a terminal unless `NO_COLOR` is set.
    pub fn new(format: Format) -> Self {
        let terminal = std::io::stdout().is_terminal();
        let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        Printer { format, out: std::io::BufWriter::new(std::io::stdout()), terminal, colour }
    }

    /// Writes one line of the server's answer.
    pub fn print(&mut self, line: &[u8]) -> std::io::Result<()> {
        let text = match self.format {
            // Unchanged for a file or program, escaped for a terminal.
            Format::Raw | Format::Json if !self.terminal => {
                self.out.write_all(line)?;
                return self.out.write_all(b"\n");
            }
            Format::Raw | Format::Json => escaped(&String::from_utf8_lossy(line)),
            Format::Text => match serde_json::from_slice::<Map<String, Value>>(line) {
                Ok(row) => row_text(&row, self.colour),
                Err(_) => escaped(&String::from_utf8_lossy(line)),
            },
        };
        self.out.write_all(text.as_bytes())?;
        self.out.write_all(b"\n")
    }

    /// Writes out what is buffered.
    pub fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// A row as text: `time level host app message`; all fields if it is not a log line.
fn row_text(row: &Map<String, Value>, colour: bool) -> String {
    let field = |name: &str| escaped(row.get(name).and_then(Value::as_str).unwrap_or_default());
    if !(row.contains_key("_time") && row.contains_key("_msg")) {
        let fields = row.iter().map(|(name, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("{}={}", escaped(name), escaped(&value))
        });
        return fields.collect::<Vec<_>>().join("  ");
    }
    let level = match field("_level") {
        level if level.is_empty() => field("level"),
        level => level,
    };
    let (start, end) = match level.as_str() {
        _ if !colour => ("", ""),
        "emergency" | "emerg" | "alert" | "critical" | "crit" | "fatal" | "error" => {
            ("\x1b[31m", "\x1b[0m")
        }
        "warning" | "warn" => ("\x1b[33m", "\x1b[0m"),
        "debug" | "trace" => ("\x1b[2m", "\x1b[0m"),
        _ => ("\x1b[32m", "\x1b[0m"),
    };
    let app = match field("app_name") {
        app if app.is_empty() => field("_type"),
        app => app,
    };
    format!(
        "{} {start}{level:<7}{end} {} {app}: {}",
        field("_time"),
        field("hostname"),
        field("_msg")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_however_it_is_split() {
        let text = "a\u{1b}[2Jé\u{9b}\nb\u{202e}\r\n\nlast";
        let expected = "a\\x1b[2Jé\\u{9b}\nb\\u{202e}\\x0d\n\nlast";
        for cut in 1..text.len() {
            let mut harmless = Harmless::new(Vec::new());
            for part in text.as_bytes().chunks(cut) {
                harmless.write_all(part).unwrap();
            }
            harmless.flush().unwrap();
            assert_eq!(String::from_utf8(harmless.to).unwrap(), expected, "{cut}");
        }
        let mut harmless = Harmless::new(Vec::new());
        let long = "é".repeat(HELD_BYTES_MAX);
        for part in long.as_bytes().chunks(1001) {
            harmless.write_all(part).unwrap();
            assert!(harmless.held.len() <= HELD_BYTES_MAX + 1001);
        }
        harmless.flush().unwrap();
        assert!(String::from_utf8(harmless.to).unwrap() == long);
    }

    #[test]
    fn rows_as_text() {
        let check = |json: &str, expected: &str| {
            assert_eq!(row_text(&serde_json::from_str(json).unwrap(), false), expected);
        };
        check(
            r#"{"_time":"2026-01-31T12:00:00Z","_level":"error","level":"ERR","hostname":"web1","app_name":"nginx","_msg":"a\u001bb"}"#,
            "2026-01-31T12:00:00Z error   web1 nginx: a\\x1bb",
        );
        check(r#"{"level":"error","count(*)":"3"}"#, "count(*)=3  level=error");
        check(r#"{"_msg":"a","level":"error","n":"3"}"#, "_msg=a  level=error  n=3");
        check(r#"{"_time":"2026-01-31T12:00:00Z","n":"3"}"#, "_time=2026-01-31T12:00:00Z  n=3");
    }
}
