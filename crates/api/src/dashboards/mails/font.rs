//! The built-in font of PDF, Helvetica: its character set and its widths.
//!
//! A document names the font and does not hold it, so it can show the characters of Windows-1252
//! alone (`WinAnsiEncoding`, PDF 32000-1:2008, annex D). Every other character is written as
//! `\u{4e2d}`, and the document says so: nothing is left out and nothing is replaced by another
//! character.

/// The characters of the bytes 0x80 to 0x9f; `\0` where there is none.
const UPPER: [char; 32] = [
    '€', '\0', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\0', 'Ž', '\0', '\0', '‘',
    '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\0', 'ž', 'Ÿ',
];

/// The widths of the bytes 0x20 to 0x7e, in thousandths of the size (Adobe's metrics of Helvetica).
const WIDTHS: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
    611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667,
    667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500,
    222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
];

/// The width of every other byte: at least that of nearly all of them, so that no text is measured
/// too narrow.
const WIDTH_OTHER: u16 = 778;
/// How much wider the bold font is at most.
const BOLD: f32 = 1.1;

/// A text in the bytes of the font, and whether characters had to be escaped.
pub fn encoded(text: &str) -> (Vec<u8>, bool) {
    let mut out = Vec::with_capacity(text.len());
    let mut is_escaped = false;
    for c in text.chars() {
        match byte_of(c) {
            Some(byte) => out.push(byte),
            None => {
                is_escaped = true;
                out.extend(c.escape_unicode().map(|c| c as u8));
            }
        }
    }
    (out, is_escaped)
}

fn byte_of(c: char) -> Option<u8> {
    match c {
        ' '..='~' | '\u{a0}'..='\u{ff}' => Some(c as u8),
        '\0' => None,
        _ => UPPER.iter().position(|known| *known == c).map(|at| 0x80 + at as u8),
    }
}

/// The width of a text in points.
pub fn width(text: &[u8], size: f32, is_bold: bool) -> f32 {
    let of = |byte: &u8| match byte {
        0x20..=0x7e => WIDTHS[usize::from(byte - 0x20)],
        _ => WIDTH_OTHER,
    };
    let sum: u32 = text.iter().map(|byte| u32::from(of(byte))).sum();
    sum as f32 / 1000.0 * size * if is_bold { BOLD } else { 1.0 }
}

/// A text cut to a width, with `…` where something is left out.
pub fn cut(text: &[u8], size: f32, is_bold: bool, width_max: f32) -> Vec<u8> {
    if width(text, size, is_bold) <= width_max {
        return text.to_vec();
    }
    let mut kept = text.to_vec();
    while !kept.is_empty() && width(&kept, size, is_bold) + size > width_max {
        kept.pop();
    }
    kept.push(0x85);
    kept
}

/// A text in lines of a width: broken at spaces where that is possible.
pub fn wrapped(text: &[u8], size: f32, width_max: f32) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = vec![Vec::new()];
    for word in text.split_inclusive(|byte| *byte == b' ') {
        let mut word = word;
        loop {
            let line = lines.last_mut().expect("there is one");
            let both = width(line, size, false) + width(word.trim_ascii_end(), size, false);
            if both <= width_max {
                line.extend_from_slice(word);
                break;
            }
            if !line.is_empty() {
                lines.push(Vec::new());
                continue;
            }
            // A word that is wider than a line.
            let fits = (1..word.len()).rev().find(|n| width(&word[..*n], size, false) <= width_max);
            let (head, rest) = word.split_at(fits.unwrap_or(1));
            line.extend_from_slice(head);
            word = rest;
            if word.is_empty() {
                break;
            }
            lines.push(Vec::new());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_the_font_lacks_are_escaped() {
        for (text, expected, is_escaped) in [
            ("aé€ ~", &b"a\xe9\x80 ~"[..], false),
            ("中\n", b"\\u{4e2d}\\u{a}", true),
            ("\u{0}\u{81}\u{ad}", b"\\u{0}\\u{81}\xad", true),
        ] {
            assert_eq!(encoded(text), (expected.to_vec(), is_escaped), "{text:?}");
        }
    }

    #[test]
    fn texts_fit_their_width() {
        assert!((width(b"AV i", 10.0, false) - 18.34).abs() < 0.01);
        let long = b"one two threeeeeeeeeeeeeeeeeeeeeeeeeeee four".to_vec();
        for width_max in [8.0, 20.0, 60.0, 500.0] {
            let lines = wrapped(&long, 10.0, width_max);
            assert_eq!(lines.concat(), long);
            let is_fitting =
                |line: &Vec<u8>| width(line.trim_ascii_end(), 10.0, false) <= width_max;
            assert!(lines.iter().all(is_fitting), "{width_max} {lines:?}");
            assert!(width(&cut(&long, 10.0, false, width_max), 10.0, false) <= width_max.max(10.0));
        }
        assert_eq!(wrapped(b"", 10.0, 10.0), [b""]);
    }
}
