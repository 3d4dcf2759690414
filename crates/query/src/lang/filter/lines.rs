//! Regular expressions that search many lines at once, and find the same lines as a search of each
//! line alone.
//!
//! A line contains no newline. So the newline is removed from all classes of the expression (`\s`
//! and `[^a]` contain it), and its anchors of the text become anchors of a line: then no match
//! spans two lines. One call searches all lines, and the literal optimizations of the regex engine
//! work on one long text instead of many short ones.
//!
//! These optimizations slow the search down where the literal is everywhere, as the point of
//! `[0-9]+\.[0-9]+` in messages with IP addresses, or where there are many literals, as the ten
//! digits: a search that starts at each of them takes up to three times as long as one that goes
//! over all bytes. A sample from the beginning of the text decides which search is used.
//!
//! Left out are expressions that match the empty text, contain a newline, or distinguish `\r\n`
//! from `\n`: for these each value is tested by itself.

use memchr::memmem::Finder;
use regex_automata::MatchKind;
use regex_automata::util::prefilter::Prefilter;
use regex_syntax::hir::{Capture, Class, ClassBytes, ClassBytesRange, ClassUnicode};
use regex_syntax::hir::{ClassUnicodeRange, Hir, HirKind, Look, Repetition};

use crate::base::Pulse;
use crate::base::expression::Expression;
use crate::lang::syntax::regexes::LARGE_BYTES;

/// Bytes at the beginning of a text in which the literal is counted.
const SAMPLE_BYTES: usize = 16 << 10;

/// The search starts at the literal if there is at most one occurrence in this many bytes.
const LITERAL_DISTANCE_MIN: usize = 64;

/// A regular expression that searches many lines at once.
pub(super) struct LineRegex {
    /// Starts at literals, if the expression has any.
    by_literals: Expression,
    /// Goes over all bytes.
    by_bytes: Expression,
    /// A text that every match contains, if one is known.
    literal: Option<Finder<'static>>,
    /// Whether the expression has only literals that are found no faster than its matches.
    has_slow_literals: bool,
}

impl LineRegex {
    /// The expression that searches many lines for `pattern`. Every match of `pattern` contains
    /// `literal`, which may be empty. None for the expressions that are left out.
    pub fn new(pattern: &str, literal: &str) -> Option<LineRegex> {
        let mut parser = regex_syntax::ParserBuilder::new().utf8(false).build();
        let hir = of_lines(parser.parse(pattern).ok()?)?;
        if hir.properties().minimum_len().is_none_or(|least| least == 0) {
            return None;
        }
        let build = |literals| {
            let limits = (LARGE_BYTES, LARGE_BYTES);
            Expression::new(hir.clone(), limits, literals).ok()
        };
        let prefix = Prefilter::from_hir_prefix(MatchKind::LeftmostFirst, &hir);
        Some(LineRegex {
            by_literals: build(true)?,
            by_bytes: build(false)?,
            literal: (!literal.is_empty()).then(|| Finder::new(literal).into_owned()),
            has_slow_literals: prefix.is_some_and(|literals| !literals.is_fast()),
        })
    }

    /// Most bytes between two checks.
    pub fn piece(&self, pulse: &Pulse<'_>) -> usize {
        self.by_bytes.piece(pulse)
    }

    /// The faster search for this text, chosen by its beginning.
    pub fn for_text(&self, text: &[u8]) -> LineSearch<'_> {
        let sample = &text[..text.len().min(SAMPLE_BYTES)];
        let literals = match &self.literal {
            Some(literal) => {
                literal.find_iter(sample).count() * LITERAL_DISTANCE_MIN <= sample.len()
            }
            None => !self.has_slow_literals,
        };
        LineSearch(if literals { &self.by_literals } else { &self.by_bytes })
    }
}

/// A search through lines.
pub(super) struct LineSearch<'r>(&'r Expression);

impl LineSearch<'_> {
    /// The end of the first match that begins at or behind `at`, or of a shorter match with the
    /// same beginning. None if the query ended.
    #[inline]
    pub fn match_end(&self, text: &[u8], at: usize, pulse: &Pulse<'_>) -> Option<usize> {
        self.0.first_end(text, at, pulse)
    }
}

/// The expression with matches within single lines only; none for the expressions left out.
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

    /// The indexes of the lines in which the search finds a match.
    fn found(search: &LineSearch<'_>, lines: &[&str]) -> Vec<usize> {
        let text: String = lines.iter().flat_map(|line| [*line, "\n"]).collect();
        let (mut found, mut at) = (Vec::new(), 0);
        while let Some(end) = search.match_end(text.as_bytes(), at, &Pulse::endless()) {
            let line = text.as_bytes()[..end - 1].iter().filter(|b| **b == b'\n').count();
            found.push(line);
            at = lines[..=line].iter().map(|line| line.len() + 1).sum();
        }
        found
    }

    #[test]
    fn unsuitable_expressions_are_left_out() {
        for pattern in ["", "a*", "^", "a|", "a\\nb", "(?Rm)a$", "(?:)"] {
            assert!(LineRegex::new(pattern, "").is_none(), "{pattern}");
        }
    }

    #[test]
    fn searches_start_at_rare_literals_only() {
        let rare = format!("{}1.5 ms\n", "no number in it\n".repeat(20));
        let by_literals = |pattern: &str, literal: &str, text: &str| {
            let regex = LineRegex::new(pattern, literal).unwrap();
            std::ptr::eq(regex.for_text(text.as_bytes()).0, &regex.by_literals)
        };
        assert!(by_literals(r"[0-9]+\.[0-9]+", ".", &rare));
        assert!(!by_literals(r"[0-9]+\.[0-9]+", ".", "10.0.0.1\n"));
        assert!(!by_literals("[0-9]{5}", "", &rare), "ten of them, of one byte each");
        assert!(by_literals("error|warning", "", &rare));
        assert!(by_literals("[0-9]+ ms", " ms", ""));
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
            let regex = LineRegex::new(pattern, "").unwrap_or_else(|| panic!("{pattern}"));
            for way in [&regex.by_literals, &regex.by_bytes] {
                assert_eq!(found(&LineSearch(way), &lines), expected, "{pattern}");
            }
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
            let Some(regex) = LineRegex::new(&pattern, "") else { return Ok(()) };
            let alone = regex::bytes::Regex::new(&pattern).unwrap();
            let expected: Vec<usize> =
                (0..lines.len()).filter(|&i| alone.is_match(lines[i].as_bytes())).collect();
            for way in [&regex.by_literals, &regex.by_bytes] {
                prop_assert_eq!(&found(&LineSearch(way), &lines), &expected, "{}", pattern);
            }
        }
    }
}
