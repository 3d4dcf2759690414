//! Regular expressions that search many lines at once and find in each what they would find in it
//! alone.
//!
//! A line has no newline in it. So a newline is taken out of all classes of the expression (`\s`
//! and `[^a]` have it), and its beginning and end of text become those of a line: then no match
//! goes over the end of one. The search goes over all lines in one call, and the regex engine's own
//! way with literals works on a long text instead of many short ones.
//!
//! That way is the wrong one where the literal stands everywhere, as the point of `[0-9]+\.[0-9]+`
//! in messages with addresses, or where there are many, as a digit is: to start at each of them
//! takes up to three times as long as to go over all bytes. Which it is, the beginning of the text
//! shows.
//!
//! Left out, for whom each value is looked at: expressions that match the empty text, that hold a
//! newline, or tell `\r\n` from `\n`.

use memchr::memmem::Finder;
use regex_automata::util::prefilter::Prefilter;
use regex_automata::{Input, MatchKind, meta};
use regex_syntax::hir::{Capture, Class, ClassBytes, ClassBytesRange, ClassUnicode};
use regex_syntax::hir::{ClassUnicodeRange, Hir, HirKind, Look, Repetition};

use crate::syntax::regexes::LARGE_BYTES;

/// Bytes of a text that show whether a literal stands everywhere.
const SAMPLE_BYTES: usize = 16 << 10;

/// A literal is started at where it stands once in so many bytes, or more rarely.
const LITERAL_DISTANCE_MIN: usize = 64;

/// An expression that is searched in many lines at once.
pub(super) struct LineRegex {
    /// Starts at literals, if there are any.
    by_literals: meta::Regex,
    /// Goes over all bytes.
    by_bytes: meta::Regex,
    /// What stands in every match, if that is known.
    literal: Option<Finder<'static>>,
    /// Whether there are only literals that are found no faster than matches.
    has_slow_literals: bool,
}

impl LineRegex {
    /// The expression that does for lines what `pattern`, in each match of which `literal` stands,
    /// does for single ones; none for those left out.
    pub fn new(pattern: &str, literal: &str) -> Option<LineRegex> {
        let mut parser = regex_syntax::ParserBuilder::new().utf8(false).build();
        let hir = of_lines(parser.parse(pattern).ok()?)?;
        if hir.properties().minimum_len().is_none_or(|least| least == 0) {
            return None;
        }
        let build = |literals| {
            let config = meta::Config::new()
                .utf8_empty(false)
                .nfa_size_limit(Some(LARGE_BYTES))
                .hybrid_cache_capacity(LARGE_BYTES)
                .auto_prefilter(literals);
            meta::Builder::new().configure(config).build_from_hir(&hir).ok()
        };
        let prefix = Prefilter::from_hir_prefix(MatchKind::LeftmostFirst, &hir);
        Some(LineRegex {
            by_literals: build(true)?,
            by_bytes: build(false)?,
            literal: (!literal.is_empty()).then(|| Finder::new(literal).into_owned()),
            has_slow_literals: prefix.is_some_and(|literals| !literals.is_fast()),
        })
    }

    /// What finds matches in such a text.
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

/// Searches lines.
pub(super) struct LineSearch<'r>(&'r meta::Regex);

impl LineSearch<'_> {
    /// The end of a match that begins at or behind `at`: of the first one, or of a shorter one at
    /// the same place.
    #[inline]
    pub fn match_end(&self, text: &[u8], at: usize) -> Option<usize> {
        let input = Input::new(text).range(at..).earliest(true);
        self.0.search_half(&input).map(|found| found.offset())
    }
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
    fn found(search: &LineSearch<'_>, lines: &[&str]) -> Vec<usize> {
        let text: String = lines.iter().flat_map(|line| [*line, "\n"]).collect();
        let (mut found, mut at) = (Vec::new(), 0);
        while let Some(end) = search.match_end(text.as_bytes(), at) {
            let line = text.as_bytes()[..end - 1].iter().filter(|b| **b == b'\n').count();
            found.push(line);
            at = lines[..=line].iter().map(|line| line.len() + 1).sum();
        }
        found
    }

    #[test]
    fn some_are_left_out() {
        for pattern in ["", "a*", "^", "a|", "a\\nb", "(?Rm)a$", "(?:)"] {
            assert!(LineRegex::new(pattern, "").is_none(), "{pattern}");
        }
    }

    #[test]
    fn literals_are_started_at_where_they_are_rare() {
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
