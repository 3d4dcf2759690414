//! Limits the memory that all regular expressions of one query take together. A short text may
//! compile to a large program.
//!
//! An expression counts as [`SMALL_BYTES`], or as [`LARGE_BYTES`] if it does not fit into that. One
//! that does not fit into [`LARGE_BYTES`] is refused, and so is a query of more than
//! [`REGEXES_BYTES_MAX`]. The caches of the regex engine have the same limits for each thread, and
//! so have those of the search step by step ([`Expression`]); the automaton that searches templates
//! (`filter/automaton.rs`) takes at most [`SMALL_BYTES`]. A query may therefore hold a few times
//! its limit.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Hir, HirKind};

use crate::base::expression::{Expression, Refused};

/// Most memory of all compiled regular expressions of a query. A query with more is refused.
///
/// limits.md, Queries: compiled regular expressions of a query | 4 MiB each, {} together | it is
/// refused
pub const REGEXES_BYTES_MAX: usize = 64 << 20;
/// Most memory of one regular expression. A larger one is refused.
pub(crate) const LARGE_BYTES: usize = 4 << 20;
/// Longest text of a regular expression, in bytes. A longer one is refused, because parsing takes a
/// multiple of it before anything is compiled.
pub const REGEX_BYTES_MAX: usize = 64 << 10;
/// Most levels of nested groups, classes, repetitions and alternatives of a regular expression. A
/// deeper one is refused, because compiling is recursive.
pub const REGEX_NESTING_MAX: u32 = 100;
/// Largest count of a repetition, as 40 in `a{1,40}`; of repetitions inside others, the largest
/// product. A larger one is refused, as by RE2 and VictoriaLogs, because each of the repetitions is
/// compiled, and makes the search slower.
///
/// limits.md, Queries: repetitions that a regular expression counts | {}, those inside others
/// multiplied | it is refused
pub const REGEX_REPETITIONS_MAX: u32 = 1_000;
/// Classes of characters (`[a-z]`, `\\w`, `\\pL`) of all regular expressions of a query. A query
/// with more is refused, because each class may take some KiB and milliseconds before anything is
/// compiled.
const CLASSES_MAX: usize = 500;
/// Classes that a class counts as if case is ignored, `(?i)`: the other cases of up to a million
/// characters are looked up.
const ANY_CASE_CLASSES: usize = 20;
/// Memory into which nearly all regular expressions fit.
const SMALL_BYTES: usize = 256 << 10;
/// Memory per character of a text that is searched regardless of case: its states, forward and
/// backward.
const CHARACTER_BYTES: usize = 512;

/// The budget that is left for the regular expressions of a query.
#[derive(Clone, Debug)]
pub struct RegexBudget {
    left_bytes: usize,
    left_classes: usize,
}

impl Default for RegexBudget {
    fn default() -> Self {
        RegexBudget { left_bytes: REGEXES_BYTES_MAX, left_classes: CLASSES_MAX }
    }
}

impl RegexBudget {
    /// Compiles the expression `source`, which was written as `text`, at most
    /// [`REGEX_NESTING_MAX`] deep. The error is one line.
    pub(crate) fn build(&mut self, text: &str, source: &str) -> Result<Expression, String> {
        if text.len() > REGEX_BYTES_MAX {
            return Err(format!(
                "it is longer than {REGEX_BYTES_MAX} bytes; compare whole values with in(), or \
                 split it into several filters"
            ));
        }
        self.left_classes = self.left_classes.checked_sub(classes(text)).ok_or_else(|| {
            format!(
                "the regular expressions of the query have more than {CLASSES_MAX} classes of \
                 characters, such as [a-z] or \\w; use fewer, or (?-i) where case matters"
            )
        })?;
        // Parsed for bytes: values need not be UTF-8.
        let mut parser = ParserBuilder::new().nest_limit(REGEX_NESTING_MAX).utf8(false).build();
        let last_line = |text: &str| text.lines().last().unwrap_or_default().trim().to_owned();
        let hir = parser.parse(source).map_err(|error| last_line(&error.to_string()))?;
        if repetitions(&hir) > u64::from(REGEX_REPETITIONS_MAX) {
            return Err(format!(
                "it counts more than {REGEX_REPETITIONS_MAX} repetitions, those inside others \
                 multiplied; write *, + or {{n,}} instead, or a smaller count"
            ));
        }
        let (built, bytes) = match Expression::new(hir.clone(), (SMALL_BYTES, SMALL_BYTES), true) {
            Err(Refused::TooLarge) => {
                self.take(LARGE_BYTES)?;
                (Expression::new(hir, (LARGE_BYTES, LARGE_BYTES), true), 0)
            }
            built => (built, SMALL_BYTES),
        };
        self.take(bytes)?;
        built.map_err(|refused| match refused {
            Refused::TooLarge => format!(
                "it is larger than {LARGE_BYTES} bytes when compiled; use smaller counts of \
                 repetitions, or [a-z] and (?-u:\\w) instead of \\w, which has thousands of letters"
            ),
            Refused::TooManyGroups => "it has too many groups for its size; write those that \
                                       extract nothing as (?:…)"
                .to_owned(),
            Refused::Other(error) => last_line(&error),
        })
    }

    /// Counts a text that is searched regardless of case.
    pub(crate) fn take_text(&mut self, text: &str) -> Result<(), String> {
        self.take(SMALL_BYTES.max(text.len().saturating_mul(CHARACTER_BYTES)))
    }

    fn take(&mut self, bytes: usize) -> Result<(), String> {
        match self.left_bytes.checked_sub(bytes) {
            Some(left) => self.left_bytes = left,
            None => {
                return Err(format!(
                    "the regular expressions of the query are larger than {REGEXES_BYTES_MAX} bytes \
                     when compiled; use fewer or smaller ones"
                ));
            }
        }
        Ok(())
    }
}

/// The largest product of the counts of repetitions that are inside each other.
fn repetitions(hir: &Hir) -> u64 {
    match hir.kind() {
        HirKind::Repetition(repetition) => {
            let count = repetition.max.unwrap_or(repetition.min).max(1);
            u64::from(count).saturating_mul(repetitions(&repetition.sub))
        }
        kind => kind.subs().iter().map(repetitions).max().unwrap_or(1),
    }
}

/// An upper bound of the number of classes of characters in an expression.
fn classes(text: &str) -> usize {
    let bytes = text.as_bytes();
    let escape = |pair: &[u8]| pair[0] == b'\\' && b"wWdDsSpP".contains(&pair[1]);
    let count =
        memchr::memchr_iter(b'[', bytes).count() + bytes.windows(2).filter(|p| escape(p)).count();
    let is_flag = |c: &char| c.is_ascii_alphabetic() || *c == '-';
    let any_case = text
        .match_indices("(?")
        .any(|(at, _)| text[at + 2..].chars().take_while(is_flag).any(|c| c == 'i'));
    if any_case { count * ANY_CASE_CLASSES } else { count }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Query;

    fn parses(query: &str) -> bool {
        match Query::parse(query, 0) {
            Ok(_) => true,
            Err(error) => {
                assert!(error.message.contains("are larger than 67108864 bytes"), "{error}");
                false
            }
        }
    }

    #[test]
    fn a_query_has_so_many_and_no_more() {
        let small = REGEXES_BYTES_MAX / SMALL_BYTES;
        for (part, most) in [
            ("~\"a.b\" ", small),
            ("i(a) ", small),
            ("contains_common_case(Ab) ", small),
            ("~\"\\\\w{40}\" ", REGEXES_BYTES_MAX / LARGE_BYTES),
        ] {
            assert!(parses(&part.repeat(most)), "{part}");
            assert!(!parses(&part.repeat(most + 1)), "{part}");
        }
        let pipes = "| extract_regexp \"(?P<a>.)x\" | replace_regexp (\"a.\", \"\") ".repeat(40);
        let filter = "~\"a.b\" ".repeat(small - 80);
        assert!(parses(&format!("{filter}{pipes}")));
        assert!(!parses(&format!("{filter}~a {pipes}")));
        assert!(!parses(&format!("i({})", "a".repeat(REGEXES_BYTES_MAX / CHARACTER_BYTES + 1))));
    }

    #[test]
    fn classes_are_counted_before_they_are_read() {
        let parses = |pattern: String| match Query::parse(&format!("~`{pattern}`"), 0) {
            Ok(_) => true,
            Err(error) => {
                assert!(error.message.contains("more than 500 classes"), "{error}");
                false
            }
        };
        assert!(parses("[ab]".repeat(CLASSES_MAX)));
        assert!(!parses("[ab]".repeat(CLASSES_MAX + 1)));
        assert!(!parses(r"\w?".repeat(CLASSES_MAX + 1)));
        for flags in ["i", "si", "i-s", "x-i"] {
            let of = |n: usize| format!("(?{flags}:{})", "[ab]".repeat(n));
            assert!(parses(of(CLASSES_MAX / ANY_CASE_CLASSES)), "{flags}");
            assert!(!parses(of(CLASSES_MAX / ANY_CASE_CLASSES + 1)), "{flags}");
        }
    }

    #[test]
    fn one_that_is_too_large_is_refused() {
        let refusal = |pattern: &str| {
            Query::parse(&format!("~`{pattern}`"), 0).map_err(|error| error.message).err()
        };
        for (pattern, expected) in [
            (r"\w{1000}", "larger than 4194304 bytes when compiled"),
            ("a{1001}", "counts more than 1000 repetitions"),
            ("a{1,1001}", "counts more than 1000 repetitions"),
            ("a{1001,}", "counts more than 1000 repetitions"),
            ("((a{11}b){10}c?){10}", "counts more than 1000 repetitions"),
            ("(a{65536}){65536}", "counts more than 1000 repetitions"),
            (&"()".repeat(10_000), "too many groups"),
            (&"a".repeat(REGEX_BYTES_MAX + 1), "longer than 65536 bytes"),
            ("(", "unclosed group"),
        ] {
            let message = refusal(pattern).unwrap_or_else(|| panic!("{pattern} is accepted"));
            assert!(message.contains(expected), "{message}");
        }
        for pattern in ["a{1000}", "(ab ){1,1000}z", "((a{10}b){10}c?){10}", "(a*b+)*a{999,}"] {
            assert_eq!(refusal(pattern), None, "{pattern}");
        }
    }
}
