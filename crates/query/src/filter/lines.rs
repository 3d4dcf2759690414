//! Regular expressions that search many lines at once and find in each what they would find in it alone.
//!
//! A line has no newline in it. So a newline is taken out of all classes of the expression (`\s` and `[^a]` have it),
//! and its beginning and end of text become those of a line: then no match goes over the end of one. The search goes over
//! all lines in one call, and the regex engine's own way with literals works on a long text instead of many short ones.
//!
//! Left out, for whom each value is looked at: expressions that match the empty text, that hold a newline, or tell `\r\n` from `\n`.

use regex_syntax::hir::{Capture, Class, ClassBytes, ClassBytesRange, ClassUnicode};
use regex_syntax::hir::{ClassUnicodeRange, Hir, HirKind, Look, Repetition};

use crate::regexes::LARGE_BYTES;

/// The expression that does for lines what `pattern` does for single ones; none for those left out.
pub(super) fn line_regex(pattern: &str) -> Option<regex::bytes::Regex> {
    let mut parser = regex_syntax::ParserBuilder::new().utf8(false).build();
    let hir = of_lines(parser.parse(pattern).ok()?)?;
    if hir.properties().minimum_len().is_none_or(|least| least == 0) {
        return None;
    }
    regex::bytes::RegexBuilder::new(&hir.to_string())
        .size_limit(LARGE_BYTES)
        .dfa_size_limit(LARGE_BYTES)
        .build()
        .ok()
}

fn of_lines(hir: Hir) -> Option<Hir> {
    let all = |parts: Vec<Hir>| parts.into_iter().map(of_lines).collect::<Option<Vec<Hir>>>();
    Some(match hir.into_kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) => {
            if literal.0.contains(&b'\n') {
                return None;
            }
            Hir::literal(literal.0)
        }
        HirKind::Class(Class::Unicode(mut class)) => {
            class.difference(&ClassUnicode::new([ClassUnicodeRange::new('\n', '\n')]));
            Hir::class(Class::Unicode(class))
        }
        HirKind::Class(Class::Bytes(mut class)) => {
            class.difference(&ClassBytes::new([ClassBytesRange::new(b'\n', b'\n')]));
            Hir::class(Class::Bytes(class))
        }
        HirKind::Look(Look::Start | Look::StartLF) => Hir::look(Look::StartLF),
        HirKind::Look(Look::End | Look::EndLF) => Hir::look(Look::EndLF),
        HirKind::Look(Look::StartCRLF | Look::EndCRLF) => return None,
        HirKind::Look(boundary) => Hir::look(boundary),
        HirKind::Repetition(repetition) => {
            let sub = Box::new(of_lines(*repetition.sub)?);
            Hir::repetition(Repetition { sub, ..repetition })
        }
        HirKind::Capture(capture) => {
            Hir::capture(Capture { sub: Box::new(of_lines(*capture.sub)?), ..capture })
        }
        HirKind::Concat(parts) => Hir::concat(all(parts)?),
        HirKind::Alternation(parts) => Hir::alternation(all(parts)?),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The lines in which the expression for many finds something.
    fn found(regex: &regex::bytes::Regex, lines: &[&str]) -> Vec<usize> {
        let text: String = lines.iter().flat_map(|line| [*line, "\n"]).collect();
        let (mut found, mut at) = (Vec::new(), 0);
        while let Some(end) = regex.shortest_match_at(text.as_bytes(), at) {
            let line = text.as_bytes()[..end - 1].iter().filter(|b| **b == b'\n').count();
            found.push(line);
            at = lines[..=line].iter().map(|line| line.len() + 1).sum();
        }
        found
    }

    #[test]
    fn some_are_left_out() {
        for pattern in ["", "a*", "^", "a|", "a\\nb", "(?Rm)a$", "(?:)"] {
            assert!(line_regex(pattern).is_none(), "{pattern}");
        }
    }

    #[test]
    fn each_line_is_matched_by_itself() {
        let lines = ["abc", "", "bc a", "c\u{e9} b", "a", "  ", "A1"];
        for pattern in [
            "^a",
            "a$",
            "^a$",
            "\\s+",
            "[^a]{2}",
            "(?s)c.",
            "\\bb",
            "\\W",
            "\\D",
            "(?i)a",
            "é",
            "c\\b",
            "(a|b)c?",
            "[0-9]",
            "a\\z",
            "\\Aa",
            "(?m)^b",
            "c\\B",
            "(?-u:\\xc3)",
            "[[:^alpha:]]",
            "x|^c",
        ] {
            let alone = regex::bytes::Regex::new(pattern).unwrap();
            let expected: Vec<usize> =
                (0..lines.len()).filter(|&i| alone.is_match(lines[i].as_bytes())).collect();
            let regex = line_regex(pattern).unwrap_or_else(|| panic!("{pattern}"));
            assert_eq!(found(&regex, &lines), expected, "{pattern} as {regex}");
        }
    }

    proptest! {
        #[test]
        fn any_expression_agrees(
            parts in prop::collection::vec(
                prop::sample::select(
                    "a b [ab] [^a] . \\s \\S \\w \\W ^ $ \\b \\B a* b+ (a|bb) x? (?s:.) [0-9]{2}"
                        .split(' ')
                        .collect::<Vec<_>>(),
                ),
                1..5,
            ),
            lines in prop::collection::vec("[ab0 ]{0,4}", 0..6),
        ) {
            let pattern = parts.concat();
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let Some(regex) = line_regex(&pattern) else { return Ok(()) };
            let alone = regex::bytes::Regex::new(&pattern).unwrap();
            let expected: Vec<usize> =
                (0..lines.len()).filter(|&i| alone.is_match(lines[i].as_bytes())).collect();
            prop_assert_eq!(found(&regex, &lines), expected, "{} as {}", pattern, regex);
        }
    }
}
