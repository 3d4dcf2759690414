//! Levels: one set of words for the many that logs have.
//!
//! The words are those of VictoriaLogs for syslog severities: emerg, alert, critical, error, warning, notice,
//! info, debug. Left out: numbers (10 to 60 mean one thing to pino and another to Python), and levels that
//! would have to be guessed from the text of a message.

/// Levels by syslog severity (RFC 5424 section 6.2.1).
pub(crate) const LEVELS: [&str; 8] =
    ["emerg", "alert", "critical", "error", "warning", "notice", "info", "debug"];

/// A plain line names its level early; beyond that a level word is part of the message.
pub(crate) const LEVEL_SEARCH_BYTES: usize = 128;

const WORDS: [(&[u8], &str); 22] = [
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
];

/// The level a word stands for, whatever its case.
pub(crate) fn from_word(word: &[u8]) -> Option<&'static str> {
    let same = |(known, level): &(&[u8], &'static str)| {
        (known.len() == word.len() && known.eq_ignore_ascii_case(word)).then_some(*level)
    };
    if word.len() < 3 { None } else { WORDS.iter().find_map(same) }
}

/// The level of an access line.
pub(crate) fn from_status(status: &[u8]) -> &'static str {
    match status.first() {
        Some(b'5') => "error",
        Some(b'4') => "warning",
        _ => "info",
    }
}

/// Looks for the level of a plain line or message, `text` without its leading time.
///
/// Taken are, within [`LEVEL_SEARCH_BYTES`]: a level word in capitals that stands alone (` ERROR `, `|WARN|`); one
/// in brackets or behind `level=` in any case (`[error]`, `[core:error]`); and as first word also in any case
/// when a colon or two blanks follow (`error: …`, `Info   CBS`), or Android's `W/Tag`.
pub(crate) fn find(text: &[u8]) -> Option<&'static str> {
    let text = &text[..text.len().min(LEVEL_SEARCH_BYTES)];
    let start = text.iter().position(|b| !matches!(b, b' ' | b',' | b'\t' | b'|'))?;
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
            at += 1;
            continue;
        }
        let length = text[at..].iter().position(|b| !is_word(*b)).unwrap_or(text.len() - at);
        // Where a word stands is cheaper to see than what it is, and rules nearly all out.
        if (3..=13).contains(&length)
            && stands_out(text, at, length, at == start)
            && let Some(level) = from_word(&text[at..at + length])
        {
            return Some(level);
        }
        at += length;
    }
    None
}

fn stands_out(text: &[u8], at: usize, length: usize, first: bool) -> bool {
    let (before, behind) = (&text[..at], &text[at + length..]);
    let capitals = text[at].is_ascii_uppercase() && text[at + 1].is_ascii_uppercase();
    match (before.last(), behind.first()) {
        (Some(b'[' | b':' | b'<' | b'('), Some(b']' | b'>' | b')')) => true,
        (Some(b'='), _) => before.ends_with(b"level="),
        (Some(b'"'), _) => before.ends_with(b"level=\""),
        _ if first && (behind.starts_with(b":") || behind.starts_with(b"  ")) => true,
        (
            None | Some(b' ' | b'\t' | b'|' | b'[' | b',' | b'(' | b'<'),
            None | Some(b' ' | b'\t' | b'|' | b']' | b':' | b',' | b')' | b'>'),
        ) => capitals && text[at..at + length].iter().all(u8::is_ascii_uppercase),
        _ => false,
    }
}

/// What belongs to a word, so that `ERROR_CODE` and `x.ERROR` are no levels.
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
    fn only_the_start_is_searched() {
        let at = |n: usize| format!("{:n$}ERROR x", "x ");
        assert_eq!(find(at(LEVEL_SEARCH_BYTES - 6).as_bytes()), Some("error"));
        assert_eq!(find(at(LEVEL_SEARCH_BYTES).as_bytes()), None);
    }
}
