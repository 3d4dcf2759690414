//! Levels: maps the many words that logs use to one set.
//!
//! The words are those of VictoriaLogs for syslog severities: emerg, alert, critical, error,
//! warning, notice, info, debug. `level_text` finds them in texts; the meaning of numbers in JSON
//! depends on other keys (`json_level`). Words of other languages are those that Windows, Java's
//! own logging and PostgreSQL write in them, as far as they mean nothing else in English.

/// Levels by syslog severity (RFC 5424 section 6.2.1).
pub(crate) const LEVELS: [&str; 8] =
    ["emerg", "alert", "critical", "error", "warning", "notice", "info", "debug"];

const WORDS: [(&[u8], &str); 45] = [
    (b"alert", "alert"),
    (b"advertencia", "warning"),   // Spanish
    (b"avertissement", "warning"), // French
    (b"avvertenza", "warning"),    // Italian
    (b"avviso", "warning"),
    (b"critical", "critical"),
    (b"crit", "critical"),
    (b"debug", "debug"),
    (b"dbg", "debug"),
    (b"dpanic", "critical"),
    (b"error", "error"),
    (b"err", "error"),
    (b"emerg", "emerg"),
    (b"emergency", "emerg"),
    (b"erreur", "error"), // French
    (b"erro", "error"),   // Portuguese, and logrus
    (b"errore", "error"), // Italian
    (b"fatal", "critical"),
    (b"ftl", "critical"),
    (b"fehler", "error"), // German
    (b"fout", "error"),   // Dutch
    (b"info", "info"),
    (b"inf", "info"),
    (b"informational", "info"),
    (b"information", "info"),
    (b"informationen", "info"), // German
    (b"informatie", "info"),    // Dutch
    (b"informazioni", "info"),  // Italian
    (b"infos", "info"),         // French
    (b"kritisch", "critical"),  // German and Dutch
    (b"notice", "notice"),
    (b"panic", "emerg"),
    (b"pnc", "emerg"),
    (b"severe", "error"),
    (b"schwerwiegend", "error"), // German
    (b"trace", "debug"),
    (b"trc", "debug"),
    (b"trivia", "debug"), // VMware
    (b"verbose", "debug"),
    (b"vrb", "debug"),
    (b"warn", "warning"),
    (b"warning", "warning"),
    (b"wrn", "warning"),
    (b"warnung", "warning"),      // German
    (b"waarschuwing", "warning"), // Dutch
];
/// Lengths of the words.
pub(crate) const WORD_BYTES: std::ops::RangeInclusive<usize> = 3..=13;

/// The level of a word, in any case.
pub(crate) fn from_word(word: &[u8]) -> Option<&'static str> {
    if !WORD_BYTES.contains(&word.len()) {
        return None;
    }
    let same = |(known, level): &(&[u8], &'static str)| {
        (known.len() == word.len() && known.eq_ignore_ascii_case(word)).then_some(*level)
    };
    // The words are in the order of their letters, so the first letter selects a few of them.
    let letter = usize::from((word[0] | 0x20).checked_sub(b'a').filter(|n| *n < 26)?);
    let (begin, end) = (WORDS_AT[letter], WORDS_AT[letter + 1]);
    WORDS[usize::from(begin)..usize::from(end)].iter().find_map(same).or_else(|| numbered(word))
}

/// Index of the first word that begins with a letter or a later one.
const WORDS_AT: [u8; 27] = {
    let mut at = [0; 27];
    let mut letter = 0;
    while letter < 26 {
        let mut index = at[letter];
        while (index as usize) < WORDS.len() && WORDS[index as usize].0[0] == b'a' + letter as u8 {
            index += 1;
        }
        at[letter + 1] = index;
        letter += 1;
    }
    at
};
const _: () = assert!(WORDS_AT[26] as usize == WORDS.len(), "in the order of letters");

/// `trace1` to `trace8` of Apache, `DEBUG1` to `DEBUG5` of PostgreSQL.
fn numbered(word: &[u8]) -> Option<&'static str> {
    let (digit, name) = word.split_last()?;
    let known = name.eq_ignore_ascii_case(b"trace") || name.eq_ignore_ascii_case(b"debug");
    (known && matches!(digit, b'1'..=b'8')).then_some("debug")
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

/// Whether a word stands for a level, so that it cannot be a host or a program: a level word, or
/// one of the letters with which loggers abbreviate them.
pub(crate) fn is_level(word: &[u8]) -> bool {
    matches!(word, [b'D' | b'I' | b'W' | b'E' | b'F']) || from_word(word).is_some()
}

/// The level of an access line.
pub(crate) fn from_status(status: &[u8]) -> &'static str {
    match status.first() {
        Some(b'5') => "error",
        Some(b'4') => "warning",
        _ => "info",
    }
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
            ("Informationen", Some("info")),
            ("Fehler", Some("error")),
            ("AVERTISSEMENT", Some("warning")),
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
}
