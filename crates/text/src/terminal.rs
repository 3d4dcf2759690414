//! Text from logs and from other machines, made harmless for a terminal.

use std::fmt::Write as _;

/// `text` with every control character but tab as `\x1b` or `\u{85}`.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => out.push(c),
            c if (c as u32) < 0x80 && c.is_control() => {
                write!(out, "\\x{:02x}", c as u32).expect("to a string")
            }
            c if c.is_control() || is_direction_mark(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// As [`escaped`], but keeps line breaks, for a text of several lines.
pub fn escaped_lines(text: &str) -> String {
    text.split('\n').map(escaped).collect::<Vec<_>>().join("\n")
}

/// Control characters that change the direction of text, with which a text can disguise itself as
/// another.
fn is_direction_mark(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        for (text, expected) in [
            ("plain\ttext é", "plain\ttext é"),
            ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
            ("a\nb\r", "a\\x0ab\\x0d"),
            ("\u{9b}2J\u{7f}", "\\u{9b}2J\\x7f"),
            ("\u{202e}txt", "\\u{202e}txt"),
        ] {
            assert_eq!(escaped(text), expected);
        }
    }
}
