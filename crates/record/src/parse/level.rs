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
        if !text[at].is_ascii_alphabetic() {
            at += 1;
            continue;
        }
        let length = text[at..].iter().take_while(|b| b.is_ascii_alphabetic()).count();
        let (word, behind) = (&text[at..at + length], text.get(at + length));
        if (3..=9).contains(&length)
            && let Some(level) = from_word(word)
            && taken(&text[..at], word, behind, text.get(at + length + 1), at == start)
        {
            return Some(level);
        }
        at += length;
        // What follows letters directly is part of the same word.
        at += text[at..].iter().take_while(|b| is_word(**b)).count();
    }
    None
}

fn taken(before: &[u8], word: &[u8], behind: Option<&u8>, next: Option<&u8>, first: bool) -> bool {
    let previous = before.last();
    let bracketed = matches!(previous, Some(b'[' | b':' | b'<' | b'('))
        && matches!(behind, Some(b']' | b'>' | b')'));
    let assigned = before.ends_with(b"level=") || before.ends_with(b"level=\"");
    let leading =
        first && (behind == Some(&b':') || (behind == Some(&b' ') && next == Some(&b' ')));
    let alone = word.iter().all(u8::is_ascii_uppercase)
        && previous.is_none_or(|b| matches!(b, b' ' | b'\t' | b'|' | b'[' | b',' | b'(' | b'<'))
        && behind
            .is_none_or(|b| matches!(b, b' ' | b'\t' | b'|' | b']' | b':' | b',' | b')' | b'>'));
    bracketed || assigned || leading || alone
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'$' | b'/')
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
