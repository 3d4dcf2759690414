//! Lines of Heroku's Logplex: messages of syslog behind their lengths, without structured data.
//!
//! ```text
//! 83 <40>1 2026-01-31T12:00:00+00:00 host app web.3 - State changed from starting to up
//!     →   {"_time":…,"severity":"0","level":"emerg","facility":"5","hostname":"host","app_name":"app","proc_id":"web.3","_msg":…}⏎
//! ```
//!
//! A message without such a head is `_msg` as it is. What follows the last message whose length is
//! right is kept line by line with `decode_error`, because the messages before it must neither be
//! refused with it nor be stored again. Source: "Log Drains" of Heroku's Dev Center.

use text::json::write_text;

/// Words for severities 0 to 7 (syslog.h).
const LEVELS: [&str; 8] =
    ["emerg", "alert", "critical", "error", "warning", "notice", "info", "debug"];
/// Names of the words of the head.
const WORDS: [&str; 5] = ["_time", "hostname", "app_name", "proc_id", "msg_id"];

/// The body does not begin with a counted message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body should be messages behind their lengths, and does not begin with one")]
pub struct NotCounted;

/// The member of what is no counted message.
const NOT_COUNTED: &[u8] = b",\"decode_error\":\"it is no message behind its length\"";

/// The messages of a body.
pub struct Messages<'b> {
    rest: &'b [u8],
    read: u64,
    /// The rest is no counted messages.
    is_broken: bool,
}

impl<'b> Messages<'b> {
    /// The messages of a body, which is decompressed.
    pub fn of(body: &'b [u8]) -> Messages<'b> {
        Messages { rest: body, read: 0, is_broken: false }
    }

    /// Messages so far.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// Appends the next message as a line; false behind the last one.
    pub fn write_next(&mut self, out: &mut Vec<u8>) -> Result<bool, NotCounted> {
        // White space is looked at once, however much of it there is.
        let begin = self.rest.iter().position(|byte| !byte.is_ascii_whitespace());
        let Some(begin) = begin else { return Ok(false) };
        let message = if self.is_broken { None } else { self.take() };
        match message {
            Some(message) => write_message(message, out),
            None if self.read == 0 => return Err(NotCounted),
            None => {
                self.is_broken = true;
                let before = memchr::memrchr(b'\n', &self.rest[..begin]).map_or(0, |at| at + 1);
                let lines = &self.rest[before..];
                let end = memchr::memchr(b'\n', lines).map_or(lines.len(), |at| at + 1);
                let (line, rest) = lines.split_at(end);
                self.rest = rest;
                out.extend_from_slice(b"{\"_msg\":");
                write_text(line.trim_ascii_end(), out);
                out.extend_from_slice(NOT_COUNTED);
                out.extend_from_slice(b"}\n");
            }
        }
        self.read += 1;
        Ok(true)
    }

    fn take(&mut self) -> Option<&'b [u8]> {
        let digits = self.rest.iter().take(10).take_while(|byte| byte.is_ascii_digit()).count();
        let count: usize = std::str::from_utf8(&self.rest[..digits]).ok()?.parse().ok()?;
        let behind = self.rest[digits..].strip_prefix(b" ")?;
        let (message, rest) = behind.split_at_checked(count)?;
        self.rest = rest;
        Some(message)
    }
}

fn write_message(message: &[u8], out: &mut Vec<u8>) {
    let message = message.trim_ascii_end();
    out.push(b'{');
    let text = write_head(message, out).unwrap_or(message);
    out.extend_from_slice(b"\"_msg\":");
    write_text(text, out);
    out.extend_from_slice(b"}\n");
}

/// Appends the members of the head, each before a comma; returns what is behind it.
fn write_head<'m>(message: &'m [u8], out: &mut Vec<u8>) -> Option<&'m [u8]> {
    let rest = message.strip_prefix(b"<")?;
    let end = memchr::memchr(b'>', rest).filter(|&end| (1..4).contains(&end))?;
    let priority: usize = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    let mut rest = rest[end + 1..].strip_prefix(b"1 ")?;
    let mut words = [&b""[..]; WORDS.len()];
    for word in &mut words {
        let blank = memchr::memchr(b' ', rest)?;
        *word = &rest[..blank];
        rest = &rest[blank + 1..];
    }
    let mut member = |name: &str, value: &[u8]| {
        if value != b"-" && !value.is_empty() {
            write_text(name.as_bytes(), out);
            out.push(b':');
            write_text(value, out);
            out.push(b',');
        }
    };
    member("severity", (priority % 8).to_string().as_bytes());
    member("level", LEVELS[priority % 8].as_bytes());
    member("facility", (priority / 8).to_string().as_bytes());
    WORDS.iter().zip(words).for_each(|(name, word)| member(name, word));
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(body: &str) -> (String, Result<(), NotCounted>) {
        let (mut messages, mut out) = (Messages::of(body.as_bytes()), Vec::new());
        let result = loop {
            match messages.write_next(&mut out) {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let text = String::from_utf8(out).unwrap();
        for line in text.lines() {
            serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(line).unwrap();
        }
        (text, result)
    }

    #[test]
    fn counted_messages_become_lines() {
        let one = "<40>1 2026-01-31T12:00:00+00:00 host app web.3 - State \"changed\"\n";
        let two = "no head";
        let body = format!("{} {one}{} {two}\n", one.len(), two.len());
        let expected = "{\"severity\":\"0\",\"level\":\"emerg\",\"facility\":\"5\",\"_time\":\"2026-01-31T12:00:00+00:00\",\
            \"hostname\":\"host\",\"app_name\":\"app\",\"proc_id\":\"web.3\",\"_msg\":\"State \\\"changed\\\"\"}\n\
            {\"_msg\":\"no head\"}\n";
        assert_eq!(lines(&body), (expected.to_owned(), Ok(())));
        assert_eq!(lines(""), (String::new(), Ok(())));
        for wrong in ["x", "99 short", "5", "<1>", "5short", "99999999999 x"] {
            assert_eq!(lines(wrong), (String::new(), Err(NotCounted)));
            // Behind a message it is kept, up to its end.
            let kept = |text: &str| {
                let note = "\"decode_error\":\"it is no message behind its length\"";
                format!("{{\"_msg\":\"{text}\",{note}}}\n")
            };
            let expected = format!("{{\"_msg\":\"a\"}}\n{}{}", kept(wrong), kept(" 1 b"));
            let found = lines(&format!("1 a{wrong}\n\n \n 1 b\n"));
            assert_eq!(found, (expected, Ok(())), "{wrong}");
        }
    }
}
