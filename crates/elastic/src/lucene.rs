//! Lucene's query syntax, as `query_string`, `simple_query_string` and people write it:
//! `level:error AND (host:web* OR host:db?) -"connection reset" took:>=500`.
//!
//! ```text
//! query  = clause { ["OR"] clause }             with the default operator OR
//! clause = ["+" | "-"] chain
//! chain  = not { "AND" not }                    or, with the default operator AND, { ["AND"] not }
//! not    = ("NOT" | "!" | "-" | "+") not | atom
//! atom   = "(" query ")" | field ":" value | value
//! value  = "(" query ")" | term | "phrase" | /regex/ | range | (">" | ">=" | "<" | "<=") term
//! ```
//!
//! `AND` binds before `OR`, as everybody expects; in Lucene's own parser it does not. Where clauses
//! stand side by side, `+` is what has to be, `-` and `NOT` what must not be, and what has neither
//! sign counts only if nothing has a `+`, because nothing is ranked here. A boost (`^2`) changes
//! nothing for the same reason. Left out, and refused with the position: `term~` and `"a b"~2`.
//!
//! [`to_logsql`] gives the filter of LogsQL as text; the error has the byte at which something else
//! was expected.

mod lex;
mod simple;

use query::Filter;

use self::lex::{Lexer, Token, Written};
pub use self::simple::parse_simple;
use crate::error::Refused;
use crate::leaf::{End, Leaves, RangeOf, Target, Wild, all, any, none, not};
use crate::names::Field;

/// Most parentheses inside each other. A deeper query is refused, which bounds the stack.
pub const NESTING_MAX: usize = 20;
/// Longest text of a query, in bytes. A longer one is refused.
pub const TEXT_BYTES_MAX: usize = 64 << 10;

/// A query that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} at byte {position}")]
pub struct SyntaxError {
    /// The byte at which something else was expected; at most the length of the text.
    pub position: usize,
    /// What is wrong, and what was expected.
    pub message: String,
}

impl SyntaxError {
    fn new(position: usize, message: impl Into<String>) -> SyntaxError {
        SyntaxError { position, message: message.into() }
    }
}

impl From<SyntaxError> for Refused {
    fn from(error: SyntaxError) -> Refused {
        Refused {
            kind: "query_shard_exception",
            ..Refused::argument(format!("Failed to parse query: {error}"))
        }
    }
}

/// How a text is read.
#[derive(Clone)]
pub struct Options<'o> {
    /// Fields that are searched where none is named; one is enough.
    pub fields: Vec<Target>,
    /// Whether words that stand side by side all have to be there.
    pub all: bool,
    /// How ranges are read.
    pub ranges: RangeOf<'o>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        let message = Target::One(Field::of("message"));
        Options { fields: vec![message], all: false, ranges: RangeOf::default() }
    }
}

/// The filter of LogsQL for a text as people type it into a search box, where words that stand side
/// by side all have to be there.
pub fn to_logsql(text: &str, now_ns: i64) -> Result<String, SyntaxError> {
    let options = Options { all: true, ..Options::default() };
    parse(text, &options, &mut Leaves::new(now_ns)).map(|filter| filter.to_string())
}

/// The filter for a text.
pub fn parse(
    text: &str,
    options: &Options<'_>,
    leaves: &mut Leaves,
) -> Result<Filter, SyntaxError> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("the query is longer than {TEXT_BYTES_MAX} bytes");
        return Err(SyntaxError::new(TEXT_BYTES_MAX, message));
    }
    let mut parser = Parser { lexer: Lexer::new(text)?, options, leaves, depth: 0 };
    if parser.lexer.peek().is_none() {
        return Ok(none());
    }
    let filter = parser.clauses(None)?;
    match parser.lexer.peek() {
        None => Ok(filter),
        Some(token) => {
            let message = format!("unexpected {token}; expected AND, OR, NOT or the end");
            Err(SyntaxError::new(parser.lexer.position(), message))
        }
    }
}

struct Parser<'p> {
    lexer: Lexer<'p>,
    options: &'p Options<'p>,
    leaves: &'p mut Leaves,
    depth: usize,
}

/// What a clause says about the rows that it selects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Occurs {
    May,
    Must,
    MustNot,
}

type Parsed = Result<Filter, SyntaxError>;

impl Parser<'_> {
    /// Clauses up to the end or a closing parenthesis.
    fn clauses(&mut self, field: Option<&Target>) -> Parsed {
        let (mut may, mut must) = (Vec::new(), Vec::new());
        let mut or = false;
        loop {
            let (occurs, filter) = self.clause(field, or)?;
            match occurs {
                Occurs::May => may.push(filter),
                Occurs::Must => must.push(filter),
                Occurs::MustNot => must.push(not(filter)),
            }
            or = self.lexer.eat(&Token::Or);
            if !or && matches!(self.lexer.peek(), None | Some(Token::Close)) {
                break;
            }
        }
        let has_required = !must.is_empty() && may.is_empty();
        let only_excluded = |must: &[Filter]| must.iter().all(|f| matches!(f, Filter::Not(_)));
        Ok(match (has_required, may.is_empty()) {
            (true, _) => all(must),
            (false, true) => none(),
            // What has no sign counts, unless something that has to be there was named.
            (false, false) if only_excluded(&must) => {
                must.push(any(may));
                all(must)
            }
            (false, false) => all(must),
        })
    }

    /// A clause, and what its sign says. Behind an `OR`, a `NOT` is plain logic.
    fn clause(
        &mut self,
        field: Option<&Target>,
        or: bool,
    ) -> Result<(Occurs, Filter), SyntaxError> {
        let mut occurs = match self.lexer.peek() {
            Some(Token::Plus) => Occurs::Must,
            Some(Token::Minus | Token::Not) if !or => Occurs::MustNot,
            _ => Occurs::May,
        };
        if self.options.all && occurs == Occurs::MustNot {
            occurs = Occurs::May;
        }
        if occurs != Occurs::May {
            self.lexer.next();
        }
        let first = self.negated(field)?;
        let mut chain = vec![first];
        loop {
            let and = self.lexer.eat(&Token::And);
            let ends = matches!(self.lexer.peek(), None | Some(Token::Close | Token::Or));
            if !and && (ends || !self.options.all) {
                break;
            }
            if chain.len() == 1 && occurs == Occurs::MustNot {
                // `NOT a AND b`: the sign is that of the first word alone.
                occurs = Occurs::May;
                chain = chain.into_iter().map(not).collect();
            }
            chain.push(self.negated(field)?);
        }
        Ok((occurs, all(chain)))
    }

    fn negated(&mut self, field: Option<&Target>) -> Parsed {
        match self.lexer.peek() {
            Some(Token::Not | Token::Minus) => {
                self.lexer.next();
                self.deeper(|parser| parser.negated(field)).map(not)
            }
            Some(Token::Plus) => {
                self.lexer.next();
                self.deeper(|parser| parser.negated(field))
            }
            _ => self.atom(field),
        }
    }

    fn deeper(&mut self, parse: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        if self.depth == NESTING_MAX {
            let message = format!("more than {NESTING_MAX} parentheses and NOTs in each other");
            return Err(SyntaxError::new(self.lexer.position(), message));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn atom(&mut self, field: Option<&Target>) -> Parsed {
        let position = self.lexer.position();
        if let Some(name) = self.lexer.eat_field() {
            if name.text() == "_exists_" {
                return self.exists();
            }
            let target =
                name.target().map_err(|refused| SyntaxError::new(position, refused.reason))?;
            if name.is_star() && self.lexer.eat_star() {
                return Ok(Filter::All);
            }
            return self.value(Some(&target));
        }
        self.value(field)
    }

    fn exists(&mut self) -> Parsed {
        let position = self.lexer.position();
        let name = match self.lexer.next() {
            Some(Token::Term(written)) => written.text(),
            Some(Token::Phrase(text)) => text,
            _ => return Err(SyntaxError::new(position, "expected the name of a field")),
        };
        let target = Target::of(&name);
        let filter = target.and_then(|target| self.leaves.exists(&target));
        filter.map_err(|refused| SyntaxError::new(position, refused.reason))
    }

    fn value(&mut self, field: Option<&Target>) -> Parsed {
        let position = self.lexer.position();
        let expected = "expected a word, a \"phrase\", field:value or \"(\"";
        let Some(token) = self.lexer.next() else {
            return Err(SyntaxError::new(
                position,
                format!("the query ends too early; {expected}"),
            ));
        };
        if token == Token::Open {
            let filter = self.deeper(|parser| parser.clauses(field))?;
            if !self.lexer.eat(&Token::Close) {
                let message = "a parenthesis is open; expected \")\"";
                return Err(SyntaxError::new(self.lexer.position(), message));
            }
            self.boost()?;
            return Ok(filter);
        }
        if token == Token::Term(Written::star()) && field.is_none() {
            return Ok(Filter::All);
        }
        let targets = match field {
            Some(target) => vec![target.clone()],
            None => self.options.fields.clone(),
        };
        let mut filters = Vec::new();
        for target in &targets {
            let filter = match &token {
                Token::Term(written) => self.term(target, written),
                Token::Phrase(text) => self.leaves.phrase(target, text),
                Token::Regex(text) => self.leaves.regexp(target, text, false),
                Token::Range(low, high) => {
                    self.leaves.range(target, low.clone(), high.clone(), self.options.ranges)
                }
                other => {
                    return Err(SyntaxError::new(
                        position,
                        format!("unexpected {other}; {expected}"),
                    ));
                }
            };
            filters.push(filter.map_err(|refused| SyntaxError::new(position, refused.reason))?);
        }
        self.boost()?;
        Ok(any(filters))
    }

    fn term(&mut self, target: &Target, written: &Written) -> Result<Filter, Refused> {
        let parts = written.parts();
        match parts {
            [Wild::Text(text)] => {
                let words = self.leaves.words(target, text)?;
                Ok(if words.is_empty() { none() } else { all(words) })
            }
            _ => self.leaves.wildcard(target, parts, false),
        }
    }

    fn boost(&mut self) -> Result<(), SyntaxError> {
        let position = self.lexer.position();
        if self.lexer.eat_tilde() {
            let message = "~ (similar words, and words near each other) is not understood here; use a wildcard or AND";
            return Err(SyntaxError::new(position, message));
        }
        self.lexer.eat_boost();
        Ok(())
    }
}

impl Written {
    fn is_star(&self) -> bool {
        *self == Written::star()
    }

    fn target(&self) -> Result<Target, Refused> {
        match self.parts() {
            [Wild::Text(name)] => Ok(Target::One(Field::of(name))),
            [Wild::Any] => Ok(Target::Beginning(String::new())),
            [Wild::Text(beginning), Wild::Any] => Ok(Target::Beginning(beginning.clone())),
            _ => Err(Refused::argument("the name of a field takes a * at its end only")),
        }
    }
}

/// An end of a range that is open when it is `*`.
fn end(value: String, inside: bool, quoted: bool) -> Option<End> {
    (quoted || value != "*").then_some(End { value, inside })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str) -> String {
        match parse(text, &Options::default(), &mut Leaves::new(0)) {
            Ok(filter) => filter.to_string(),
            Err(error) => format!("{}", error.position),
        }
    }

    fn query(text: &str) -> Filter {
        query::Query::parse(text, 0).unwrap().filter().clone()
    }

    #[test]
    fn texts_become_filters() {
        for (text, expected) in [
            ("error", "i(error)"),
            ("error 404", "i(error) or 404"),
            ("error AND 404", "i(error) 404"),
            ("a OR b AND c", "i(a) or i(b) i(c)"),
            ("(a OR b) AND c", "(i(a) or i(b)) i(c)"),
            ("+a b", "i(a)"),
            ("a -b", "!i(b) i(a)"),
            ("a NOT b", "!i(b) i(a)"),
            ("a OR NOT b", "i(a) or !i(b)"),
            ("NOT a AND b", "!i(a) i(b)"),
            ("-a", "!i(a)"),
            ("a && !b || c", "i(a) !i(b) or i(c)"),
            ("\"connection reset\"", "i(\"connection reset\")"),
            ("level:error", "level:i(error)"),
            ("level:(error OR warn)", "level:i(error) or level:i(warn)"),
            ("level.keyword:error", "level:=error"),
            ("host:web*", "host:=web*"),
            ("host:w?b*", "host:~\"(?-s)(?s)^w.b.*$\""),
            ("conn*", "~\"(?-s)(?s)(?i)\\\\bconn\\\\w*\\\\b\""),
            ("took:[1 TO 5]", "took:range[1, 5]"),
            ("took:{1 TO 5]", "took:range(1, 5]"),
            ("took:[1 TO *]", "took:range[1, inf]"),
            ("took:>=500", "took:range[500, inf]"),
            ("took:>500", "took:range(500, inf]"),
            ("took:<-5", "took:range[-inf, -5)"),
            ("host:/web-[0-9]+/", "host:~\"(?-s)(?s)^(?:web-[0-9]+)$\""),
            ("_exists_:user", "user:*"),
            ("user:*", "user:*"),
            ("*:*", "*"),
            ("*", "*"),
            ("a^2 OR b", "i(a) or i(b)"),
            (r"host:a\:b", "host:i(\"a\") host:i(b)"),
            (
                "@timestamp:[2026-01-01 TO 2026-01-02]",
                "_time:[2026-01-01T00:00:00Z, 2026-01-03T00:00:00Z)",
            ),
            ("k8s.*:x", "k8s.*:i(x)"),
            ("and", "i(\"and\")"),
            ("_index:logs-json", "_type:=json"),
        ] {
            let found = filter(text);
            assert_eq!(found.parse::<usize>().ok(), None, "{text}");
            assert_eq!(query(&found), query(expected), "{text}: {found}");
        }
        assert_eq!(filter(""), "!*");
    }

    #[test]
    fn errors_have_positions() {
        for (text, position) in [
            ("a AND", 5),
            ("(a", 2),
            ("a)", 1),
            ("a:", 2),
            ("\"a", 0),
            ("x:[1 TO", 2),
            ("x:[1 2]", 2),
            ("a~2", 1),
            ("\"a b\"~2", 5),
            ("x:/a", 2),
            ("AND a", 0),
            ("f*o:x", 0),
            ("@timestamp:>soon", 11),
            ("x:/a~b/", 2),
        ] {
            assert_eq!(filter(text), position.to_string(), "{text}");
        }
        assert!(filter(&"(".repeat(1_000)).parse::<usize>().is_ok());
        assert!(filter(&"NOT ".repeat(1_000)).parse::<usize>().is_ok());
    }

    #[test]
    fn the_search_box_takes_all_words() {
        assert_eq!(
            query(&to_logsql("level:error host:web* -debug", 0).unwrap()),
            query("level:i(error) host:=web* !i(debug)")
        );
        let error = to_logsql("level:error AND (", 0).unwrap_err();
        assert_eq!(error.position, 17);
    }

    proptest::proptest! {
        #[test]
        fn a_filter_is_written_so_that_it_is_read_as_the_same(
            text in "([ab_\"'\\\\:*?()+!/<>={}~^. -]|AND|OR|NOT|TO|\\[|\\]|é){0,24}",
        ) {
            if let Ok(filter) = parse(&text, &Options::default(), &mut Leaves::new(0)) {
                let written = filter.to_string();
                assert_eq!(query(&written).to_string(), written, "{text}");
            }
        }

        #[test]
        fn a_quoted_value_stays_that_value(value in "\\PC{1,12}") {
            let text = format!("f.keyword:\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""));
            let found = parse(&text, &Options::default(), &mut Leaves::new(0)).unwrap();
            assert_eq!(found, Filter::field("f", query::Test::Exact(value)));
        }
    }
}
