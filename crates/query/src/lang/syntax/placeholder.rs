//! Placeholders for numbers, times, addresses and words in patterns of messages, as `collapse_nums`
//! makes them: `user_id=<N>, ip=<IP4>, time=<DATETIME>`.
//!
//! A number is a run of digits, or an even run of at least four hexadecimal digits, at the bounds
//! of words. Units and letters beside a number (`T10Z`, `v2`, `5ms`) are such bounds too. A run
//! longer than [`PLACEHOLDER_BYTES_MAX`] is neither a number nor a word, so that the time of a
//! search is linear in the length of the text.

use crate::lang::filter::word_before;
use crate::lang::syntax::cursor::is_word_char;

/// Longest number or word that a placeholder stands for, in bytes.
pub(crate) const PLACEHOLDER_BYTES_MAX: usize = 1_024;

/// What a placeholder stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placeholder {
    /// `<N>`: a number.
    Number,
    /// `<UUID>`: five numbers with `-` between them.
    Uuid,
    /// `<IP4>`: four numbers with `.` between them.
    Ipv4,
    /// `<TIME>`: three numbers with `:` between them, optionally a fraction behind `.` or `,`.
    Time,
    /// `<DATE>`: three numbers with `-` or `/` between them.
    Date,
    /// `<DATETIME>`: a date and a time with `T` or a space between them, optionally a zone.
    DateTime,
    /// `<W>`: a word, or a text in quotes.
    Word,
}

impl Placeholder {
    const NAMES: [(&str, Placeholder); 7] = [
        ("<N>", Placeholder::Number),
        ("<UUID>", Placeholder::Uuid),
        ("<IP4>", Placeholder::Ipv4),
        ("<TIME>", Placeholder::Time),
        ("<DATE>", Placeholder::Date),
        ("<DATETIME>", Placeholder::DateTime),
        ("<W>", Placeholder::Word),
    ];

    /// The placeholder at the beginning of `text`, and the text behind it.
    pub fn strip(text: &str) -> Option<(Placeholder, &str)> {
        let strip = |(name, kind): &(&str, Placeholder)| Some((*kind, text.strip_prefix(name)?));
        Placeholder::NAMES.iter().find_map(strip)
    }

    /// The end of the text at `from` that the placeholder stands for; none if there is no such
    /// text.
    pub fn end(self, text: &[u8], from: usize) -> Option<usize> {
        match self {
            Placeholder::Number => number_end(text, from),
            Placeholder::Uuid => numbers_end(text, from, 5, b'-'),
            Placeholder::Ipv4 => numbers_end(text, from, 4, b'.'),
            Placeholder::Time => time_end(text, from),
            Placeholder::Date => date_end(text, from),
            Placeholder::DateTime => {
                let date = date_end(text, from)?;
                let between = matches!(text.get(date), Some(b'T' | b' '));
                let time = time_end(text, date + 1).filter(|_| between)?;
                Some(match text.get(time) {
                    Some(b'Z') => time + 1,
                    Some(b'-' | b'+') => numbers_end(text, time + 1, 2, b':').unwrap_or(time),
                    _ => time,
                })
            }
            Placeholder::Word => match text.get(from)? {
                quote @ (b'"' | b'\'' | b'`') => quoted_end(text, from + 1, *quote),
                _ => word_end(text, from),
            },
        }
    }

    /// The first position at or behind `from` where the placeholder may match.
    pub fn start(self, text: &[u8], from: usize) -> Option<usize> {
        match self {
            Placeholder::Word => word_start(text, from),
            _ => number_start(text, from),
        }
    }
}

fn is_ascii_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The first position at or behind `from` where a number may begin.
pub(crate) fn number_start(text: &[u8], from: usize) -> Option<usize> {
    (from..text.len()).find(|&at| {
        text[at].is_ascii_hexdigit()
            && at.checked_sub(1).is_none_or(|before| {
                let before = text[before];
                !is_ascii_word(before) || b"_TXxvshm".contains(&before)
            })
    })
}

/// The end of the run of digits, decimal or hexadecimal, that begins at `from`.
pub(crate) fn digits_end(text: &[u8], from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    from + rest.iter().take_while(|b| b.is_ascii_hexdigit()).count()
}

/// The end of the number that begins at `from`; none if no number begins there.
pub(crate) fn number_end(text: &[u8], from: usize) -> Option<usize> {
    let rest = text.get(from..)?;
    let bounded = &rest[..rest.len().min(PLACEHOLDER_BYTES_MAX + 1)];
    let digits = &bounded[..digits_end(bounded, 0)];
    let end = from + digits.len();
    let goes_on = text.get(end).is_some_and(|b| is_ascii_word(*b) && !b"_TZsmhun".contains(b));
    let decimal = digits.iter().all(u8::is_ascii_digit);
    let hexadecimal = digits.len() >= 4 && digits.len().is_multiple_of(2);
    let number = !digits.is_empty()
        && digits.len() <= PLACEHOLDER_BYTES_MAX
        && !goes_on
        && (decimal || hexadecimal);
    number.then_some(end)
}

/// The end of `count` numbers with `separator` between them.
fn numbers_end(text: &[u8], from: usize, count: usize, separator: u8) -> Option<usize> {
    let mut end = number_end(text, from)?;
    for _ in 1..count {
        if text.get(end) != Some(&separator) {
            return None;
        }
        end = number_end(text, end + 1)?;
    }
    Some(end)
}

fn time_end(text: &[u8], from: usize) -> Option<usize> {
    let end = numbers_end(text, from, 3, b':')?;
    match text.get(end) {
        Some(b'.' | b',') => Some(number_end(text, end + 1).unwrap_or(end)),
        _ => Some(end),
    }
}

fn date_end(text: &[u8], from: usize) -> Option<usize> {
    numbers_end(text, from, 3, b'-').or_else(|| numbers_end(text, from, 3, b'/'))
}

/// The end of a quoted text; `from` is behind its first quote.
fn quoted_end(text: &[u8], from: usize, quote: u8) -> Option<usize> {
    let mut at = from;
    let last = text.len().min(from + PLACEHOLDER_BYTES_MAX);
    while at < last {
        match text[at] {
            b'\\' if quote != b'`' => at += 2,
            byte if byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
    None
}

/// The characters of a text up to the first byte that is not UTF-8.
fn characters(text: &[u8]) -> std::str::Chars<'_> {
    let text = match std::str::from_utf8(text) {
        Ok(text) => text,
        Err(e) => std::str::from_utf8(&text[..e.valid_up_to()]).expect("it is valid up to there"),
    };
    text.chars()
}

fn word_end(text: &[u8], from: usize) -> Option<usize> {
    let rest = text.get(from..)?;
    let rest = &rest[..rest.len().min(PLACEHOLDER_BYTES_MAX + 4)];
    let bytes: usize = characters(rest).take_while(|c| is_word_char(*c)).map(char::len_utf8).sum();
    (bytes <= PLACEHOLDER_BYTES_MAX).then_some(from + bytes)
}

/// The first position at or behind `from` where a word may begin. As in VictoriaLogs, a pattern
/// that begins with this placeholder does not find quoted texts.
fn word_start(text: &[u8], from: usize) -> Option<usize> {
    (from..text.len()).find(|&at| {
        let byte = text[at];
        let letter = is_ascii_word(byte) || byte >= 0xc2;
        letter && !word_before(text, at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends() {
        let check = |name: &str, text: &str, expected: Option<&str>| {
            let (kind, _) = Placeholder::strip(name).unwrap();
            let found = kind.end(text.as_bytes(), 0).map(|end| &text[..end]);
            assert_eq!(found, expected, "{name} {text}");
        };
        check("<N>", "123", Some("123"));
        check("<N>", "12abcdEF", Some("12abcdEF"));
        check("<N>", "123.456", Some("123"));
        check("<N>", "5ms", Some("5"));
        check("<N>", "abc", None);
        check("<N>", "bead", Some("bead"));
        check("<N>", "12x", None);
        check("<N>", "", None);
        check(
            "<UUID>",
            "2edfed59-3e98-4073-bbb2-28d321ca71a7.",
            Some("2edfed59-3e98-4073-bbb2-28d321ca71a7"),
        );
        check("<IP4>", "123.45.67.89/24", Some("123.45.67.89"));
        check("<IP4>", "123.45.67", None);
        check("<TIME>", "10:20:30", Some("10:20:30"));
        check("<TIME>", "10:20:30,123 x", Some("10:20:30,123"));
        check("<TIME>", "10:20:30.", Some("10:20:30"));
        check("<DATE>", "2025/10/20", Some("2025/10/20"));
        check("<DATETIME>", "2025-10-20T08:09:11.5+02:00", Some("2025-10-20T08:09:11.5+02:00"));
        check("<DATETIME>", "2025-10-20 08:09:11Z", Some("2025-10-20 08:09:11Z"));
        check("<DATETIME>", "2025-10-20x08:09:11", None);
        check("<W>", "тест=1", Some("тест"));
        check("<W>", r#""a \" b" c"#, Some(r#""a \" b""#));
        check("<W>", "'a", None);
        check("<W>", "=", Some(""));
        check("<W>", "", None);
    }

    #[test]
    fn long_runs_are_no_placeholders() {
        for (length, expected) in
            [(PLACEHOLDER_BYTES_MAX, true), (PLACEHOLDER_BYTES_MAX + 1, false)]
        {
            let digits = "1".repeat(length);
            assert_eq!(number_end(digits.as_bytes(), 0).is_some(), expected, "{length}");
            assert_eq!(word_end(digits.as_bytes(), 0).is_some(), expected, "{length}");
        }
    }
}
