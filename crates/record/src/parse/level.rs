//! Levels: maps the many words that logs use to one set.
//!
//! The words are those of VictoriaLogs for syslog severities: emerg, alert, critical, error,
//! warning, notice, info, debug. Left out: guessing the level from the text of a message. The
//! meaning of numbers in JSON depends on other keys.

/// Levels by syslog severity (RFC 5424 section 6.2.1).
pub(crate) const LEVELS: [&str; 8] =
    ["emerg", "alert", "critical", "error", "warning", "notice", "info", "debug"];

/// A plain line names its level early; beyond that a level word is part of the message.
pub(crate) const LEVEL_SEARCH_BYTES: usize = 128;

const WORDS: [(&[u8], &str); 26] = [
    (b"info", "info"),
    (b"error", "error"),
    (b"warn", "warning"),
    (b"debug", "debug"),
    (b"warning", "warning"),
    (b"notice", "notice"),
    (b"err", "error"),
    (b"fatal", "critical"),
    (b"critical", "critical"),
    (b"crit", "critical"),
    (b"trace", "debug"),
    (b"alert", "alert"),
    (b"emerg", "emerg"),
    (b"emergency", "emerg"),
    (b"panic", "emerg"),
    (b"severe", "error"),
    (b"dbg", "debug"),
    (b"verbose", "debug"),
    (b"inf", "info"),
    (b"wrn", "warning"),
    (b"informational", "info"),
    (b"information", "info"),
    (b"ftl", "critical"),
    (b"trc", "debug"),
    (b"vrb", "debug"),
    (b"dpanic", "critical"),
];

/// Words that mean a level at the start of a line, followed by a colon: those of .NET.
const FIRST_WORDS: [(&[u8], &str); 3] =
    [(b"fail", "error"), (b"dbug", "debug"), (b"trce", "debug")];

/// The level of a word, in any case.
pub(crate) fn from_word(word: &[u8]) -> Option<&'static str> {
    let same = |(known, level): &(&[u8], &'static str)| {
        (known.len() == word.len() && known.eq_ignore_ascii_case(word)).then_some(*level)
    };
    if word.len() < 3 { None } else { WORDS.iter().find_map(same) }
}

/// The level of a line whose time was found; `rest` is the text behind the time. Recognises what
/// [`find`] does, and also words that mean a level only right behind a time or in lines of one
/// program:
///
/// - the letter before the time of klog and glog: `W0131 12:00:00.123456 1234 a.go:1] x`
/// - the first word in small letters: `2026-01-31T12:00:00Z info x`, `1769860800.12→info→x`
/// - Redis' mark behind process and role: `1:M 31 Jan 2026 12:00:00.123 # x`
/// - the letter of MongoDB before 4.4: `2026-01-31T12:00:00.123+0000 I NETWORK  [conn1] x`
pub(crate) fn of_timed(line: &[u8], rest: &[u8]) -> Option<&'static str> {
    if let [letter @ (b'I' | b'W' | b'E' | b'F'), digits @ ..] = line
        && digits.iter().take(4).filter(|b| b.is_ascii_digit()).count() == 4
    {
        return from_letter(*letter);
    }
    let start = rest.iter().position(|b| !matches!(b, b' ' | b'\t' | b':' | b','));
    let first = &rest[start.unwrap_or(rest.len())..];
    let length = first.iter().position(|b| !is_word(*b)).unwrap_or(first.len());
    match (&first[..length], &first[length..]) {
        ([letter], [b' ', next, ..]) if next.is_ascii_uppercase() && rest.starts_with(b" ") => {
            let words = first[2..].iter().take_while(|b| b.is_ascii_uppercase()).count();
            if words >= 3 && matches!(letter, b'F' | b'E' | b'W' | b'I' | b'D') {
                return from_letter(*letter);
            }
        }
        (word, [b' ' | b'\t' | b'[', ..]) if word.len() >= 3 && word[0].is_ascii_lowercase() => {
            // Not `alert`, `notice`, `trace`: they also begin sentences.
            if matches!(word, b"info" | b"error" | b"warn" | b"warning" | b"debug" | b"fatal") {
                return from_word(word);
            }
        }
        ([], [mark @ (b'.' | b'*' | b'#'), b' ', ..]) if is_redis(line) => {
            return Some(match mark {
                b'#' => "warning",
                b'*' => "notice",
                _ => "debug",
            });
        }
        ([b'-' | b'.'], [b' ', ..]) if is_redis(line) => {
            return Some(if first[0] == b'-' { "info" } else { "debug" });
        }
        _ => {}
    }
    find(rest)
}

/// `1234:M 31 `: process id and role.
fn is_redis(line: &[u8]) -> bool {
    let digits = line.iter().take_while(|b| b.is_ascii_digit()).count();
    digits > 0 && matches!(line[digits..], [b':', b'M' | b'S' | b'C' | b'X', b' ', ..])
}

/// The level of a letter.
pub(crate) fn from_letter(letter: u8) -> Option<&'static str> {
    Some(match letter.to_ascii_uppercase() {
        b'V' | b'D' | b'T' => "debug",
        b'I' => "info",
        b'W' => "warning",
        b'E' => "error",
        b'F' | b'C' => "critical",
        _ => return None,
    })
}

/// Length of the terminal colours (`ESC [ … m`) at the start.
pub(crate) fn colours(text: &[u8]) -> usize {
    const BYTES_MAX: usize = 24;
    let mut at = 0;
    while let [0x1b, b'[', inner @ ..] = &text[at..] {
        let digits = inner.iter().take(BYTES_MAX).take_while(|b| matches!(b, b'0'..=b'9' | b';'));
        let digits = digits.count();
        if inner.get(digits) != Some(&b'm') {
            break;
        }
        at += digits + 3;
    }
    at
}

/// The level of an access line.
pub(crate) fn from_status(status: &[u8]) -> &'static str {
    match status.first() {
        Some(b'5') => "error",
        Some(b'4') => "warning",
        _ => "info",
    }
}

/// Searches the level of a plain line or message; `text` begins behind its leading time.
///
/// Recognised within [`LEVEL_SEARCH_BYTES`]: a level word in capitals between separators (` ERROR
/// `, `|WARN|`); one in brackets or behind `level=` in any case (`[error]`, `[core:error]`); the
/// first word in any case if a colon or two blanks follow (`error: …`, `Info   CBS`), or Android's
/// `W/Tag`. Terminal colours are skipped. Words of a single program: `| SUCCESS |` of loguru, `LOG:
/// ` of PostgreSQL, `[Note]` and `[System] [MY-…` of MySQL.
pub(crate) fn find(text: &[u8]) -> Option<&'static str> {
    let text = &text[..text.len().min(LEVEL_SEARCH_BYTES)];
    let blanks = text.iter().position(|b| !matches!(b, b' ' | b',' | b'\t' | b'|'))?;
    let start = blanks + colours(&text[blanks..]);
    if let [letter, b'/', next, ..] = &text[start..]
        && next.is_ascii_alphabetic()
    {
        return Some(match letter {
            b'V' | b'D' => "debug",
            b'I' => "info",
            b'W' => "warning",
            b'E' => "error",
            b'F' => "critical",
            _ => return None,
        });
    }
    let mut at = start;
    while at < text.len() {
        if !is_word(text[at]) {
            at += colours(&text[at..]).max(1);
            continue;
        }
        let length = text[at..].iter().position(|b| !is_word(*b)).unwrap_or(text.len() - at);
        // The surroundings of a word are cheaper to check than the word, and exclude nearly all
        // words.
        if (3..=13).contains(&length)
            && stands_out(text, at, length, at == start)
            && let Some(level) = from_word(&text[at..at + length])
                .or_else(|| of_one_program(text, at, length, at == start))
        {
            return Some(level);
        }
        at += length;
    }
    None
}

/// The level of a word that has this meaning only in the lines of one program.
fn of_one_program(text: &[u8], at: usize, length: usize, first: bool) -> Option<&'static str> {
    let (word, behind) = (&text[at..at + length], &text[at + length..]);
    match word {
        b"LOG" if behind.starts_with(b":  ") => Some("info"),
        [b'D', b'E', b'B', b'U', b'G', b'1'..=b'5'] if behind.starts_with(b":  ") => Some("debug"),
        b"SUCCESS" if text[..at].ends_with(b"| ") && behind.starts_with(b"  |") => Some("info"),
        b"Note" if behind.starts_with(b"] ") => Some("info"),
        b"System" if behind.starts_with(b"] [MY-") => Some("info"),
        _ if first && behind.starts_with(b": ") => {
            FIRST_WORDS.iter().find_map(|(known, level)| (*known == word).then_some(*level))
        }
        _ => None,
    }
}

fn stands_out(text: &[u8], at: usize, length: usize, first: bool) -> bool {
    let (before, behind) = (&text[..at], &text[at + length..]);
    let capitals = text[at].is_ascii_uppercase() && text[at + 1].is_ascii_uppercase();
    match (before.last(), behind.first()) {
        (Some(b'[' | b':' | b'<' | b'('), Some(b']' | b'>' | b')')) => true,
        (Some(b'='), _) => before.ends_with(b"level="),
        (Some(b'"'), _) => before.ends_with(b"level=\""),
        _ if first && (behind.starts_with(b":") || behind.starts_with(b"  ")) => true,
        (Some(b'm'), Some(0x1b)) => true, // in a colour of its own
        (
            None | Some(b' ' | b'\t' | b'|' | b'[' | b',' | b'(' | b'<' | b'm'),
            None | Some(b' ' | b'\t' | b'|' | b']' | b':' | b',' | b')' | b'>' | 0x1b),
        ) => capitals && text[at..at + length].iter().all(|b| !b.is_ascii_lowercase()),
        _ => false,
    }
}

/// Bytes that belong to a word, so that `ERROR_CODE` and `x.ERROR` are not levels.
#[inline]
fn is_word(byte: u8) -> bool {
    const WORD: [bool; 256] = {
        let mut word = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            let b = byte as u8;
            word[byte] = b.is_ascii_alphanumeric()
                || matches!(b, b'_' | b'.' | b'-' | b'$' | b'/')
                || b >= 0x80;
            byte += 1;
        }
        word
    };
    WORD[byte as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let rows = [
            ("ERR", Some("error")),
            ("Warn", Some("warning")),
            ("fatal", Some("critical")),
            ("TRACE", Some("debug")),
            ("Informational", Some("info")),
            ("30", None),
            ("", None),
            ("errors", None),
        ];
        for (word, level) in rows {
            assert_eq!(from_word(word.as_bytes()), level, "{word}");
        }
        for level in LEVELS {
            assert_eq!(from_word(level.as_bytes()), Some(level));
        }
    }

    #[test]
    fn levels_of_plain_lines() {
        let rows = [
            (" INFO [main] org.apache", Some("info")),
            (" 148 INFO dfs.DataNode$PacketResponder: x", Some("info")),
            (" [notice] jk2_init() Found", Some("notice")),
            (" [core:error] [pid 1] x", Some("error")),
            (" [error] x", Some("error")),
            (", Info                  CBS    Loaded", Some("info")),
            (" R02-M1-N0-C:J12-U11 RAS KERNEL FATAL data", Some("critical")),
            ("W/ActivityManager(  123): x", Some("warning")),
            ("error: Received disconnect", Some("error")),
            ("fatal: x", Some("critical")),
            ("ts=1 level=warn msg=x", Some("warning")),
            ("|Step|ERROR|x", Some("error")),
            ("ERROR", Some("error")),
            (" UTC [12] LOG:  checkpoint starting", Some("info")),
            (" UTC [12] DEBUG2:  x", Some("debug")),
            (" UTC [12] u@d FATAL:  x", Some("critical")),
            (" | SUCCESS  | app:main:1 - x", Some("info")),
            (" SUCCESS x", None),
            ("Z 0 [Note] InnoDB: x", Some("info")),
            ("Z 0 [System] [MY-010931] [Server] x", Some("info")),
            ("fail: Microsoft.X[0]", Some("error")),
            ("dbug: Microsoft.X[0]", Some("debug")),
            (" +01:00 [FTL] x", Some("critical")),
            ("\u{1b}[32mINFO\u{1b}[0m x", Some("info")),
            ("\u{1b}[0m \u{1b}[33m WARN\u{1b}[0m \u{1b}[2mmod\u{1b}[0m: x", Some("warning")),
            ("\u{1b}[1;31merror\u{1b}[0m: x", Some("error")),
            ("LOG: x", None),
            ("the LOG of it", None),
            ("[System] started", None),
            ("failed: x", None),
            ("it did fail: x", None),
            ("\u{1b}[31mred\u{1b}[0m", None),
            ("an error occurred", None),
            ("no ERRORS here", None),
            ("ERROR_CODE=3 x", None),
            ("CBS_E_INFO x", None),
            ("x.ERROR.y", None),
            ("info about this", None),
            ("A/B test", None),
            ("", None),
            ("   ", None),
        ];
        for (text, level) in rows {
            assert_eq!(find(text.as_bytes()), level, "{text}");
        }
    }

    #[test]
    fn levels_of_timed_lines() {
        let rows = [
            ("W0131 12:00:00.1", "    1234 a.go:1] x", Some("warning")),
            ("2026", " info hostd[2099] [Originator@6876] x", Some("info")),
            ("1769860800.12", "info\tx", Some("info")),
            ("2026", " I NETWORK  [conn1] x", Some("info")),
            ("1:M 31 Jan", "* Ready", Some("notice")),
            ("1:M 31 Jan", "# Out", Some("warning")),
            ("1:M 31 Jan", "- Accepted", Some("info")),
            ("1:M 31 Jan", ". DB 0", Some("debug")),
            ("2026", " - name - WARNING - x", Some("warning")),
            ("2026", " [error] 12#0: *1 open() failed", Some("error")),
            ("2026", " information is missing", None),
            ("2026", " I am here", None),
            ("2026", " I AM", None),
            ("2026", " * x", None),
            ("2026", " notice that", None),
            ("Warnings", " x", None),
            ("2026", "", None),
        ];
        for (line, rest, level) in rows {
            assert_eq!(of_timed(line.as_bytes(), rest.as_bytes()), level, "{line}{rest}");
        }
    }

    #[test]
    fn only_the_start_is_searched() {
        let at = |n: usize| format!("{:n$}ERROR x", "x ");
        assert_eq!(find(at(LEVEL_SEARCH_BYTES - 6).as_bytes()), Some("error"));
        assert_eq!(find(at(LEVEL_SEARCH_BYTES).as_bytes()), None);
    }
}
