//! Cuts values into tokens, which may vary, and the text between them, which is static.
//!
//! There are three grains. Lines are cut coarsely, so that an address, a time or a quoted text
//! stays whole: its parts then repeat together. The structure of such a token is found by finer
//! grains in the column of its values.

use super::texts::Span;

/// Tokens of a value. The last one contains the rest of the value.
pub(super) const TOKENS_MAX: usize = 192;

/// How finely values are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Grain {
    /// At white space, brackets, commas and the like; a text in double quotes is one token.
    Line,
    /// At everything but letters and digits.
    Word,
    /// Between letters and digits too.
    Digits,
}

/// A token, and whether it holds a digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub span: Span,
    pub digit: bool,
}

const BREAK: u8 = 1;
const DIGIT: u8 = 2;
const LETTER: u8 = 4;
/// Trimmed from both ends of a line's token.
const TRAIL: u8 = 8;
const SPACE: u8 = 16;

static CLASS: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            0..=b' ' | 0x7f => BREAK | SPACE,
            b'"' | b'\'' | b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'<' | b'>' | b',' | b';'
            | b'=' | b'|' => BREAK,
            b'0'..=b'9' => DIGIT,
            b'a'..=b'z' | b'A'..=b'Z' | 0x80..=0xff => LETTER,
            b':' | b'.' | b'!' | b'?' => TRAIL,
            _ => 0,
        };
        byte += 1;
    }
    table
}

#[inline]
fn class(byte: u8) -> u8 {
    CLASS[usize::from(byte)]
}

/// Whether cutting at [`Grain::Line`] would find more than one token.
pub(super) fn has_space(value: &[u8]) -> bool {
    value.iter().any(|&b| class(b) & SPACE != 0)
}

/// Appends the tokens of `value`, which is at offset `base` of the text.
pub(super) fn cut(value: &[u8], base: u32, grain: Grain, out: &mut Vec<Token>) {
    let first = out.len();
    let mut at = 0;
    while at < value.len() {
        let (start, end, classes) = match grain {
            Grain::Line => next_of_line(value, at),
            Grain::Word => next_word(value, at, DIGIT | LETTER),
            Grain::Digits => {
                let start = next_word(value, at, DIGIT | LETTER).0;
                let kind = if start < value.len() { class(value[start]) } else { DIGIT };
                next_word(value, start, kind)
            }
        };
        if start == value.len() {
            break;
        }
        let last = out.len() - first + 1 == TOKENS_MAX;
        let end = if last { value.len() } else { end };
        let digit = last || classes & DIGIT != 0;
        let span = Span { start: base + start as u32, end: base + end as u32 };
        out.push(Token { span, digit });
        let quoted = grain == Grain::Line && start > at && value[start - 1] == b'"';
        at = if quoted && value.get(end) == Some(&b'"') { end + 1 } else { end };
    }
}

/// The next run of bytes of these classes, and which of the classes it has; an empty run at the end
/// of the value when there is none.
#[inline]
fn next_word(value: &[u8], from: usize, classes: u8) -> (usize, usize, u8) {
    let mut start = from;
    while start < value.len() && class(value[start]) & classes == 0 {
        start += 1;
    }
    let mut end = start;
    let mut found = 0;
    while end < value.len() && class(value[end]) & classes != 0 {
        found |= class(value[end]);
        end += 1;
    }
    (start, end, found)
}

#[inline]
fn next_of_line(value: &[u8], from: usize) -> (usize, usize, u8) {
    let mut start = from;
    loop {
        while start < value.len() && class(value[start]) & (BREAK | TRAIL) != 0 {
            if value[start] == b'"'
                && let Some(end) = closing_quote(value, start + 1)
            {
                if end > start + 1 {
                    let classes = value[start + 1..end].iter().fold(0, |all, &b| all | class(b));
                    return (start + 1, end, classes);
                }
                start = end;
            }
            start += 1;
        }
        if start >= value.len() {
            return (value.len(), value.len(), 0);
        }
        let mut end = start;
        let mut classes = 0;
        while end < value.len() && class(value[end]) & BREAK == 0 {
            classes |= class(value[end]);
            end += 1;
        }
        while end > start && class(value[end - 1]) & TRAIL != 0 {
            end -= 1;
        }
        if end > start {
            return (start, end, classes);
        }
        start += 1;
    }
}

/// Where the quoted text that begins at `from` ends; a backslash escapes the next byte.
fn closing_quote(value: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while at < value.len() {
        match value[at] {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_each_grain() {
        let check = |value: &str, grain, expected: &[&str]| {
            let mut tokens = Vec::new();
            cut(value.as_bytes(), 0, grain, &mut tokens);
            let found: Vec<_> = tokens.iter().map(|t| t.span.of(value.as_bytes())).collect();
            let expected: Vec<_> = expected.iter().map(|e| e.as_bytes()).collect();
            assert_eq!(found, expected, "{value}");
        };
        check(
            "sshd[24365]: Failed for 1.2.3.4.",
            Grain::Line,
            &["sshd", "24365", "Failed", "for", "1.2.3.4"],
        );
        check("a=\"GET / \\\" x\" \"\" b", Grain::Line, &["a", "GET / \\\" x", "b"]);
        check("an \"open quote", Grain::Line, &["an", "open", "quote"]);
        check("\"\\", Grain::Line, &["\\"]);
        check(": . ..", Grain::Line, &[]);
        check("", Grain::Line, &[]);
        check("blk_-12/é-x9", Grain::Word, &["blk", "12", "é", "x9"]);
        check("n219.net-x9", Grain::Digits, &["n", "219", "net", "x", "9"]);
    }

    #[test]
    fn too_many_tokens_end_in_a_long_one() {
        for (words, last) in [(TOKENS_MAX - 1, "a"), (TOKENS_MAX, "a "), (TOKENS_MAX + 1, "a a ")] {
            let value = "a ".repeat(words);
            let mut tokens = Vec::new();
            cut(value.as_bytes(), 0, Grain::Line, &mut tokens);
            assert_eq!(tokens.len(), words.min(TOKENS_MAX));
            assert_eq!(tokens[tokens.len() - 1].span.of(value.as_bytes()), last.as_bytes());
        }
    }
}
