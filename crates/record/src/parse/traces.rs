//! Which lines belong to the line before them: stack traces of Java, Python, Go, .NET, Node, Ruby,
//! PHP, Rust and Elixir, indented text, and MySQL's slow log.
//!
//! Decisions:
//! - A line with a time or another head of its own always begins a record.
//! - What looks like a frame of a trace (`\tat …`, `#0 …`, `Caused by: …`) belongs to any line
//!   before it. Other indented lines, and lines that name an exception, belong to it only if that
//!   line has a head (a time, a priority, a level), or if they are within a trace.
//! - A line that begins a trace and has no line with a head before it begins a record. So does
//!   `Error: x` behind `Info: x`: there it is a level, and not the name of an exception.
//! - Blank lines belong to a record only if more of its trace follows.
//!
//! Nothing here holds bytes; a source asks line by line ([`Trace`]) and bounds the record. Left
//! out: lines without indentation that only a reader would recognise as a continuation.
//!
//! Speed: a source asks for every line, so nearly all lines are recognised by their first byte as
//! ones that continue nothing.

use super::{level, level_text, time_plain};

/// Blank lines that may stand within a trace.
const BLANKS_MAX: u32 = 2;
/// Bytes of a line that are searched for a sign that a trace may follow.
const SIGN_BYTES: usize = 512;
/// Bytes of a name of an exception, with the names of its packages.
const NAME_BYTES_MAX: usize = 200;
/// Lines of a record that are searched for the name of an exception, if its head has no level.
const HEAD_LINES: usize = 4;

/// What a record's lines so far say about the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One line, or several of text.
    Line,
    /// In a trace whose frames are indented or marked.
    Trace,
    /// Behind Python's `Traceback`, before the line that names the exception.
    Python,
    /// In Go's list of goroutines.
    Go,
    /// Behind Rust's or Node's line of the place, before the message.
    Place,
    /// In an entry of MySQL's slow log; the flag says whether its user was named.
    Slow(bool),
    /// In an object that is written over several lines.
    Object,
    /// The record is complete.
    Closed,
}

/// Whether a line belongs to a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// It begins the next record.
    No,
    /// It does, and so do the blank lines before it.
    Yes,
    /// It is blank, and belongs to the record if a later line does.
    Blank,
}

/// The lines of one record, as far as they are known.
#[derive(Clone, Copy, Debug)]
pub struct Trace {
    kind: Kind,
    is_headed: Option<bool>,
    /// Blank lines at the end.
    blanks: u32,
    /// A line announced another exception.
    is_chained: bool,
}

impl Trace {
    /// The record that begins with this line.
    pub fn begin(head: &[u8]) -> Trace {
        let kind = match head.first() {
            Some(b'#') if is_slow_time(head) => Kind::Slow(false),
            Some(b'#') if head.starts_with(SLOW_USER) => Kind::Slow(true),
            Some(b'{' | b'[') if head.trim_ascii_end().len() == 1 => Kind::Object,
            Some(b'0'..=b'9' | b'<' | b'{' | b'[') | None => Kind::Line,
            Some(_) => match begins_trace(head) {
                Some(kind) => kind,
                None if is_indented(head) || is_frame(head) => Kind::Trace,
                None => Kind::Line,
            },
        };
        Trace { kind, is_headed: None, blanks: 0, is_chained: false }
    }

    /// Whether the next line of the file belongs to the record that begins with `head`.
    #[inline]
    pub fn takes(&mut self, head: &[u8], line: &[u8]) -> Takes {
        // Nearly all lines: a time, a priority or an object begins a record.
        if self.kind == Kind::Line && matches!(line.first(), Some(b'0'..=b'9' | b'<' | b'{')) {
            return Takes::No;
        }
        self.takes_other(head, line)
    }

    fn takes_other(&mut self, head: &[u8], line: &[u8]) -> Takes {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.trim_ascii().is_empty() {
            let may_go_on = !matches!(self.kind, Kind::Line | Kind::Closed);
            if !may_go_on || self.blanks >= BLANKS_MAX {
                return Takes::No;
            }
            self.blanks += 1;
            return Takes::Blank;
        }
        match self.next(head, line) {
            Some(kind) => {
                (self.kind, self.blanks) = (kind, 0);
                Takes::Yes
            }
            None => Takes::No,
        }
    }

    /// The kind of the record with this line, if the line belongs to it.
    fn next(&mut self, head: &[u8], line: &[u8]) -> Option<Kind> {
        let kind = self.kind;
        match kind {
            Kind::Closed => return None,
            Kind::Slow(has_user) => return slow_goes_on(line, has_user).map(Kind::Slow),
            Kind::Object if matches!(line, [b'}' | b']', ..]) => return Some(Kind::Closed),
            Kind::Object => return is_indented(line).then_some(kind),
            _ => {}
        }
        if is_indented(line) {
            if has_head(line.trim_ascii_start()) {
                return None;
            }
            let goes_on = kind != Kind::Line || is_frame(line) || self.is_headed(head);
            let kind = if kind == Kind::Line && is_frame(line) { Kind::Trace } else { kind };
            return goes_on.then_some(kind);
        }
        if is_announcement(line) {
            self.is_chained = true;
            return (kind != Kind::Line).then_some(Kind::Trace);
        }
        if let Some(begun) = begins_trace(line) {
            let is_message = matches!(kind, Kind::Python | Kind::Place);
            if is_message || std::mem::take(&mut self.is_chained) {
                return Some(if begun == Kind::Line { Kind::Trace } else { begun });
            }
            if kind == Kind::Go && begun == Kind::Go {
                return Some(kind);
            }
            return (self.is_headed(head) && !are_levels(head, line)).then_some(begun);
        }
        if is_frame(line) {
            let is_trace = kind != Kind::Line || is_sure_frame(line) || self.is_headed(head);
            let next = if kind == Kind::Go { kind } else { Kind::Trace };
            return is_trace.then_some(next);
        }
        match (kind, line) {
            // The line that names the exception ends a trace of Python.
            (Kind::Python | Kind::Place, _) if self.blanks == 0 && !has_head(line) => {
                Some(Kind::Trace)
            }
            (Kind::Go, _) if is_go(line) => Some(kind),
            (Kind::Trace, [b'}' | b']' | b')', ..] | [b'"', b'}', ..]) => Some(kind),
            (Kind::Line, [b'}' | b']' | b')', ..] | [b'"', b'}', ..]) => {
                self.is_headed(head).then_some(kind)
            }
            _ => None,
        }
    }

    fn is_headed(&mut self, head: &[u8]) -> bool {
        *self.is_headed.get_or_insert_with(|| {
            let states_level = || level_text::find(head).is_some();
            has_head(head) || (begins_trace(head).is_none() && states_level())
        })
    }

    /// Whether it is worth waiting for further lines of the record that begins with `head`: it is
    /// a trace, or its only line tells of something wrong.
    pub fn awaits(&self, head: &[u8]) -> bool {
        match self.kind {
            Kind::Line => may_precede_trace(head),
            Kind::Closed => false,
            _ => true,
        }
    }
}

/// Whether a text names an exception that ended a program or was caught: its level is that of an
/// error, unless it states one.
pub(crate) fn is_failure(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    match text.first() {
        Some(b'0'..=b'9' | b'<' | b'{' | b'[') | None => return false,
        _ => {}
    }
    match begins_trace(text) {
        Some(Kind::Trace) => !names_exception(text, true) || names_exception(text, false),
        found => found.is_some(),
    }
}

/// Whether a text begins as Go writes the end of a program: `panic: …`. The word is otherwise a
/// level, the highest.
pub(crate) fn is_go_panic(text: &[u8]) -> bool {
    text.trim_ascii_start().starts_with(b"panic: ")
}

/// Whether a message is a line of a trace that its sender sent line by line.
pub(crate) fn is_continuation(message: &[u8]) -> bool {
    matches!(message.first(), Some(b' ' | b'\t' | b'C' | b'S' | b'.' | b'#')) && is_frame(message)
}

/// Whether one of the first lines behind the head of a record names an exception.
pub(crate) fn has_failure(record: &[u8]) -> bool {
    record.split(|b| *b == b'\n').take(HEAD_LINES).any(is_failure)
}

fn is_indented(line: &[u8]) -> bool {
    matches!(line.first(), Some(b' ' | b'\t'))
}

/// Whether a line states its time or priority.
fn has_head(line: &[u8]) -> bool {
    match line {
        [b'<', digits @ ..] => {
            let count = digits.iter().take_while(|b| b.is_ascii_digit()).count();
            (1..=3).contains(&count) && digits.get(count) == Some(&b'>')
        }
        [b'{', b'"', ..] => true,
        _ => time_plain::find(line, &mut 0).is_some(),
    }
}

/// Whether a line announces another exception of the same trace.
fn is_announcement(line: &[u8]) -> bool {
    line.starts_with(b"During handling of the above exception")
        || line.starts_with(b"The above exception was the direct cause")
}

/// Whether two lines begin with levels that are written alike: `Info: x` and `Error: y`.
fn are_levels(head: &[u8], line: &[u8]) -> bool {
    let length = head.iter().take(16).take_while(|b| b.is_ascii_alphabetic()).count();
    let (word, behind) = head.split_at(length);
    line.starts_with(b"Error: ")
        && behind.starts_with(b": ")
        && word.first().is_some_and(u8::is_ascii_uppercase)
        && word[1..].iter().all(u8::is_ascii_lowercase)
        && level::from_word(word).is_some()
}

/// What a line without indentation begins, if it begins a trace.
fn begins_trace(line: &[u8]) -> Option<Kind> {
    let starts = |texts: &[&[u8]]| texts.iter().any(|text| line.starts_with(text));
    match line.first()? {
        b'T' if starts(&[b"Traceback (most recent call last)"]) => return Some(Kind::Python),
        b'p' if starts(&[b"panic: "]) => return Some(Kind::Go),
        b'f' if starts(&[b"fatal error: "]) => return Some(Kind::Go),
        b'g' if is_goroutine(line) => return Some(Kind::Go),
        b'r' if starts(&[b"runtime: goroutine stack exceeds"]) => return Some(Kind::Go),
        // Since Rust 1.91 with the number of the thread: `thread 'main' (4711) panicked at …`
        b't' if starts(&[b"thread '"])
            && memchr::memmem::find(line, b" panicked at ").is_some() =>
        {
            return Some(if line.ends_with(b":") { Kind::Place } else { Kind::Trace });
        }
        b'E' if starts(&[b"Exception in thread "]) => return Some(Kind::Trace),
        // Elixir: `** (RuntimeError) x`
        b'*' if starts(&[b"** ("]) && line.get(4).is_some_and(u8::is_ascii_uppercase) => {
            return Some(Kind::Trace);
        }
        b'U' if starts(&[b"Unhandled exception", b"Unhandled Exception", b"Uncaught "]) => {
            return Some(Kind::Trace);
        }
        // Node names the place before the exception.
        b'/' | b'n' | b'f' if is_place(line) => return Some(Kind::Place),
        _ => {}
    }
    if is_ruby_head(line) || names_exception(line, true) { Some(Kind::Trace) } else { None }
}

/// `goroutine 1 [running]:`; after errors of the runtime `goroutine 1 gp=0xc00002380 m=nil [idle]:`
fn is_goroutine(line: &[u8]) -> bool {
    let Some(rest) = line.strip_prefix(b"goroutine ") else { return false };
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let behind = &rest[digits..];
    digits > 0
        && (behind.starts_with(b" [") || behind.starts_with(b" gp="))
        && rest.ends_with(b"]:")
}

/// `/srv/app/index.js:10` alone.
fn is_place(line: &[u8]) -> bool {
    let Some(colon) = memchr::memrchr(b':', line) else { return false };
    let (path, number) = (&line[..colon], &line[colon + 1..]);
    let is_path =
        path.starts_with(b"/") || path.starts_with(b"node:") || path.starts_with(b"file:");
    let is_script = path.ends_with(b"js") || path.ends_with(b"ts") || path.starts_with(b"node:");
    is_path
        && is_script
        && !number.is_empty()
        && number.iter().all(u8::is_ascii_digit)
        && memchr::memchr(b' ', path).is_none()
}

/// `app.rb:10:in 'run': message (RuntimeError)`
fn is_ruby_head(line: &[u8]) -> bool {
    ruby_frame(line).is_some_and(|rest| rest.starts_with(b": ") && rest.ends_with(b")"))
}

/// What follows in a line behind `app.rb:10:in 'run'`.
fn ruby_frame(line: &[u8]) -> Option<&[u8]> {
    let window = &line[..line.len().min(4 * NAME_BYTES_MAX)];
    let at = memchr::memmem::find(window, b":in ")?;
    let digits = line[..at].iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let is_numbered = digits > 0 && line[..at - digits].ends_with(b":");
    let quoted = line[at + 4..].strip_prefix(b"`").or_else(|| line[at + 4..].strip_prefix(b"'"));
    let (true, Some(quoted)) = (is_numbered, quoted) else { return None };
    let end = memchr::memchr(b'\'', quoted)?;
    Some(&quoted[end + 1..])
}

/// Whether a line begins with the name of an exception: `java.lang.IllegalStateException: …`,
/// `System.IO.IOException`, `TypeError: …`. With `any_class`, also another class behind the names
/// of its packages: `java.lang.X: …`.
fn names_exception(line: &[u8], any_class: bool) -> bool {
    let is_part = |b: &u8| is_letter(*b) || matches!(b, b'.' | b'\\');
    let window = &line[..line.len().min(NAME_BYTES_MAX)];
    let length = window.iter().position(|b| !is_part(b)).unwrap_or(window.len());
    let name = &line[..length];
    let (last, packages) = match name.iter().rposition(|b| matches!(b, b'.' | b'\\')) {
        Some(at) => (&name[at + 1..], name[..at].iter().filter(|b| !is_letter(**b)).count() + 1),
        None => (name, 0),
    };
    if !name.first().is_some_and(u8::is_ascii_alphabetic)
        || !last.first().is_some_and(u8::is_ascii_uppercase)
        || (packages == 0 && !last.iter().any(u8::is_ascii_lowercase))
    {
        return false;
    }
    let rest = &line[length..];
    let is_message = rest.starts_with(b": ") || rest == b":";
    // Node adds the code in brackets.
    let is_code = rest.starts_with(b" [") && memchr::memmem::find(rest, b"]").is_some();
    let is_failure = [&b"Exception"[..], b"Error", b"Throwable", b"Fault", b"Interrupt"]
        .iter()
        .any(|word| last.ends_with(word));
    match (is_failure, packages) {
        (true, 0) => is_message || is_code,
        (true, _) => is_message || is_code || rest.is_empty(),
        (false, 2..) => any_class && is_message && name[0].is_ascii_lowercase(),
        (false, _) => false,
    }
}

fn is_letter(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$')
}

/// Whether a line is a frame of a trace, or joins frames.
fn is_frame(line: &[u8]) -> bool {
    let text = line.trim_ascii_start();
    let starts = |texts: &[&[u8]]| texts.iter().any(|start| text.starts_with(start));
    let indented = text.len() < line.len();
    match text.first() {
        Some(b'a') if indented => starts(&[b"at "]),
        Some(b'.') => starts(&[b"... "]) && (text.ends_with(b" more") || indented),
        Some(b'f') if indented => starts(&[b"from "]),
        Some(b'F') if indented => starts(&[b"File \""]),
        Some(b'C') => starts(&[b"Caused by: "]),
        Some(b'S') => starts(&[b"Suppressed: ", b"Stack trace:"]),
        Some(b'W') => starts(&[b"Wrapped by: "]),
        Some(b'N') => starts(&[b"Node.js v"]),
        Some(b'-') => starts(&[b"--- End of "]),
        Some(b'n') => starts(&[b"note: run with `RUST_BACKTRACE"]),
        Some(b's') => starts(&[b"stack backtrace:"]),
        Some(b'[') => starts(&[b"[stacktrace]", b"[previous exception]", b"[signal "]),
        Some(b'#') => is_numbered(text),
        _ => !indented && ruby_frame(line).is_some_and(<[u8]>::is_empty),
    }
}

/// `#0 /srv/a.php(3): f()` of PHP, and of debuggers.
fn is_numbered(text: &[u8]) -> bool {
    let digits = text[1..].iter().take(6).take_while(|b| b.is_ascii_digit()).count();
    digits > 0 && text.get(1 + digits) == Some(&b' ')
}

/// Whether a frame without indentation cannot be anything else.
fn is_sure_frame(line: &[u8]) -> bool {
    matches!(line.first(), Some(b'C' | b'W' | b'.'))
}

/// Whether a line belongs to a list of goroutines.
fn is_go(line: &[u8]) -> bool {
    line.ends_with(b")")
        || line.starts_with(b"created by ")
        || line.starts_with(b"exit status ")
        || line.starts_with(b"[signal ")
        || line.starts_with(b"runtime stack:")
        || line.starts_with(b"...additional frames elided")
}

const SLOW_TIME: &[u8] = b"# Time: ";
const SLOW_USER: &[u8] = b"# User@Host: ";

/// Whether a line is the first of an entry of MySQL's slow log: `# Time: 2026-01-31T12:00:00Z`.
fn is_slow_time(line: &[u8]) -> bool {
    line.strip_prefix(SLOW_TIME).is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_digit))
}

/// Whether an entry of MySQL's slow log goes on with this line; then, whether its user is named.
fn slow_goes_on(line: &[u8], has_user: bool) -> Option<bool> {
    if line.starts_with(SLOW_USER) {
        return (!has_user).then_some(true);
    }
    // The server writes these at its start.
    let is_banner = memchr::memmem::find(line, b", Version: ").is_some()
        && line.trim_ascii_end().ends_with(b"started with:")
        || line.starts_with(b"Tcp port: ")
        || line.starts_with(b"Time                 Id Command");
    let begins = is_slow_time(line) || is_banner;
    let has_head = || line[0].is_ascii_digit() && has_head(line);
    (!begins && !has_head()).then_some(has_user)
}

/// Whether a line tells of something wrong, or ends so that more must follow.
fn may_precede_trace(line: &[u8]) -> bool {
    const SIGNS: [&[u8]; 14] = [
        b"err",
        b"exce",
        b"fatal",
        b"panic",
        b"warn",
        b"fail",
        b"crit",
        b"severe",
        b"trace",
        b"emerg",
        b"alert",
        b"unhandled",
        b"uncaught",
        b"abort",
    ];
    let text = line[..line.len().min(SIGN_BYTES)].to_ascii_lowercase();
    SIGNS.iter().any(|sign| memchr::memmem::find(&text, sign).is_some())
        || line.trim_ascii_end().ends_with(b":")
        || is_dotnet(line)
}

/// `info: Shop.Orders[0]`, the first of two lines of .NET's console.
fn is_dotnet(line: &[u8]) -> bool {
    let starts: [&[u8]; 3] = [b"info: ", b"dbug: ", b"trce: "];
    starts.iter().any(|start| line.starts_with(start)) && line.trim_ascii_end().ends_with(b"]")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The records of a text: as a source joins them, without its limits.
    fn records(text: &str) -> Vec<String> {
        let lines: Vec<&str> = text.split('\n').collect();
        let mut records: Vec<Vec<&str>> = Vec::new();
        let mut open: Option<(Trace, Vec<&str>, usize)> = None;
        for line in lines {
            if let Some((trace, taken, blanks)) = &mut open {
                match trace.takes(taken[0].as_bytes(), line.as_bytes()) {
                    Takes::No => {}
                    took => {
                        taken.push(line);
                        *blanks = if took == Takes::Blank { *blanks + 1 } else { 0 };
                        continue;
                    }
                }
            }
            if let Some((_, mut taken, blanks)) = open.take() {
                let rest = taken.split_off(taken.len() - blanks);
                records.push(taken);
                records.extend(rest.into_iter().map(|blank| vec![blank]));
            }
            open = Some((Trace::begin(line.as_bytes()), vec![line], 0));
        }
        if let Some((_, taken, _)) = open {
            records.push(taken);
        }
        records.into_iter().map(|lines| lines.join("\n")).collect()
    }

    #[track_caller]
    fn is_one(text: &str) {
        let before = "2026-01-31 12:00:00 INFO before";
        let after = "2026-01-31 12:00:01 INFO after";
        let found = records(&format!("{before}\n{text}\n{after}"));
        assert_eq!(found, [before, text, after]);
    }

    #[test]
    fn traces_of_many_languages_are_one_record() {
        for text in [
            "2023-06-06 04:48:11,735 ERROR app boom\njava.lang.X: y\n\tat a.B.c(B.java:1)",
            "2026-01-31 12:00:00 INFO retry\njava.io.IOException: Broken pipe\n\tat a.b(C.java:1)\n\
             \t... 12 more\nCaused by: java.net.SocketException\n\tat d.e(F.java:2)\n\
             \tSuppressed: x.y.ZException: q\n\t\tat g.h(I.java:3)",
            "2026-01-31 12:00:00 ERROR x\nTraceback (most recent call last):\n  File \"a.py\", line 1, in f\n\
             \x20   g()\n    ^^^\nValueError: bad\n\nDuring handling of the above exception, another exception occurred:\n\n\
             Traceback (most recent call last):\n  File \"a.py\", line 3, in h\nKeyError: 'k'",
            "2026/01/31 12:00:00 http: panic serving 1.2.3.4:5: x\ngoroutine 7 [running]:\n\
             net/http.(*conn).serve.func1()\n\t/usr/go/server.go:1868 +0xb9\npanic({0x1, 0x2})\n\
             \t/usr/go/panic.go:1 +0x1\ncreated by net/http.(*Server).Serve in goroutine 1\n\t/usr/go/server.go:3086 +0x5cb",
            "2026-01-31 12:00:00 fail: Shop[0]\n      An unhandled exception\n      System.InvalidOperationException: x\n\
             \x20        at Shop.A.B() in /a.cs:line 1\n      --- End of inner exception stack trace ---",
            "2026-01-31 12:00:00 [ERR] boom\nSystem.InvalidOperationException: x\n ---> System.Exception: y\n\
             \x20  at A.B()\n   --- End of inner exception stack trace ---\n   at C.D()",
            "2026-01-31T12:00:00Z error: boom\nTypeError: Cannot read x\n    at f (/a.js:1:2)\n    at async g (/a.js:3:4) {\n\
             \x20 code: 'E'\n}",
            "E, [2026-01-31T12:00:00.000000 #1] ERROR -- : boom (RuntimeError)\napp.rb:10:in `run'\napp.rb:3:in '<main>'",
            "[31-Jan-2026 12:00:00 UTC] PHP Fatal error:  Uncaught Exception: x in /a.php:3\nStack trace:\n\
             #0 /a.php(7): f()\n#1 {main}\n  thrown in /a.php on line 3",
            "[2026-01-31 12:00:00] local.ERROR: x {\"exception\":\"[object] (E(code: 0): x at /a.php:1)\n[stacktrace]\n\
             #0 /a.php(3): f()\n#1 {main}\n\"}",
            "2026-01-31 12:00:00 UTC [1] ERROR:  syntax error\n\tSELECT\n\t  1",
            "2026-01-31 12:00:00 [error] GenServer Shop terminating\n** (RuntimeError) boom\n\
             \x20   (shop 0.1.0) lib/shop.ex:7: Shop.run/0",
        ] {
            is_one(text);
        }
    }

    #[test]
    fn traces_without_a_line_before_them_begin_records() {
        for (text, expected) in [
            ("plain\nTraceback (most recent call last):\n  File \"a\"\nE: x\nplain", vec![1, 3, 1]),
            (
                "panic: x\n\ngoroutine 1 [running]:\nmain.main()\n\t/a.go:1 +0x1d\nexit status 2\nnext",
                vec![6, 1],
            ),
            ("java.lang.A: x\n\tat b\nnext\njava.lang.A: x\n\tat b", vec![2, 1, 2]),
            (
                "/a/b.js:10\n    throw x;\n    ^\n\nError: x\n    at f (/a/b.js:10:2)\n\nNode.js v18.0.0\nnext",
                vec![8, 1],
            ),
            ("a.rb:1:in 'f': x (RuntimeError)\n\tfrom a.rb:3:in '<main>'\nnext", vec![2, 1]),
            (
                "thread 'main' panicked at src/main.rs:2:5:\nboom\nnote: run with `RUST_BACKTRACE=1` x\nnext",
                vec![3, 1],
            ),
            (
                "thread 'main' (4711) panicked at src/main.rs:2:5:\nboom\nnote: run with `RUST_BACKTRACE=1` x\nnext",
                vec![3, 1],
            ),
            (
                "fatal error: x\n\ngoroutine 1 gp=0xc000002380 m=nil [idle]:\nmain.main()\n\t/a.go:1 +0x1\n\n\
                 goroutine 7 gp=0xc000002fc0 m=0 mp=0x5 [running]:\nmain.f()\n\t/a.go:2 +0x1\nnext",
                vec![9, 1],
            ),
            ("{\n  \"a\": 1\n}\n{\n  \"a\": 2\n}", vec![3, 3]),
            ("\tat a\n\tat b\nnext", vec![2, 1]),
        ] {
            let sizes: Vec<usize> = records(text).iter().map(|r| r.split('\n').count()).collect();
            assert_eq!(sizes, expected, "{text}");
        }
    }

    #[test]
    fn other_lines_begin_records() {
        for text in [
            "a\nb\n\nc",
            "a\n",
            "Error: a\nError: b",
            "Info: a\nError: b\nWarning: c",
            "2026-01-31 12:00:00 ERROR a\n2026-01-31 12:00:01 ERROR b",
            "2026-01-31 12:00:00 ERROR a\n  2026-01-31 12:00:01 ERROR b",
            "2026-01-31 12:00:00 ERROR a\n<14>Jan 31 12:00:00 web1 app: b",
            "2026-01-31 12:00:00 ERROR a\n{\"level\":\"info\"}",
            "2026-01-31 12:00:00 ERROR a\nsomething else",
            "2026-01-31 12:00:00 ERROR a\n\nsomething else",
            "Jan 31 12:00:00 web1 app: a\nJan 31 12:00:00 web1 app: b",
            "127.0.0.1 - - [31/Jan/2026:12:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n127.0.0.1 - x",
            "a=1\nb=2",
        ] {
            assert_eq!(records(text).len(), text.split('\n').count(), "{text}");
        }
    }

    #[test]
    fn entries_of_the_slow_log() {
        let entry = "# Time: 2021-01-26T23:45:57.678222Z\n# User@Host: app[app] @ localhost []  Id:     2\n\
            # Query_time: 0.011853  Lock_time: 0.011542 Rows_sent: 268  Rows_examined: 268\n\
            SET timestamp=1611704757;\nSELECT a\n\nFROM t;";
        let same_second =
            "# User@Host: app[app] @ localhost []\n# Query_time: 1  Lock_time: 0\nSELECT 1;";
        let banner = "/usr/sbin/mysqld, Version: 8.0.36 (MySQL). started with:";
        let text = format!("{entry}\n{entry}\n{same_second}\n{same_second}\n{banner}");
        assert_eq!(records(&text), [entry, entry, same_second, same_second, banner]);
    }

    #[test]
    fn what_to_wait_for() {
        for (line, expected) in [
            ("2026-01-31 12:00:00 ERROR a", true),
            ("java.lang.A: x", true),
            ("\tat a", true),
            ("info: Shop[0]", true),
            ("# Time: 2026-01-31T12:00:00Z", true),
            ("2026-01-31 12:00:00 INFO started", false),
            ("Jan 31 12:00:00 web1 app: hello", false),
        ] {
            let found = Trace::begin(line.as_bytes()).awaits(line.as_bytes());
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn failures() {
        for (text, expected) in [
            ("Traceback (most recent call last):", true),
            ("panic: x", true),
            ("java.lang.IllegalStateException", true),
            ("java.lang.IllegalStateException: x", true),
            ("App\\Exceptions\\NotFoundException: x", true),
            ("TypeError: x", true),
            ("Error [ERR_X]: y", true),
            ("Unhandled exception. System.Exception: x", true),
            ("** (RuntimeError) boom", true),
            ("** note (x)", false),
            ("TypeError is a class", false),
            ("Errors: 3", false),
            ("com.example.Service: started", false),
            ("example.com: started", false),
            ("a plain text", false),
            ("", false),
        ] {
            assert_eq!(is_failure(text.as_bytes()), expected, "{text}");
        }
    }
}
