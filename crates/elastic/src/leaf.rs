//! Tests of one field, as filters of LogsQL: words, phrases, whole values, patterns, ranges.
//!
//! The message is a field of type `text`: it is searched by words, without regard to case. Other
//! fields are searched by words where Elasticsearch would analyse a text (`match`, `query_string`),
//! and compared as whole values by `term` and its like. A field that is not there passes nothing.

use query::source::TimeRange;
use query::{Comparison, Filter, Number, Pattern, RegexBudget, Test};
use record::Zone;
use text::time::Instants;

use crate::dates::{self, Reading};
use crate::error::Refused;
use crate::names::{Field, ID, INDEX_PREFIX, TIME, TYPE};
use crate::object::cut;

/// Most tests of fields in a request.
///
/// limits.md, Queries: clauses of a query of Elasticsearch | {} | the request is refused (400)
pub const CLAUSES_MAX: usize = 4_096;

/// Makes tests of fields, within the budgets of a request.
pub struct Leaves {
    /// What `now` means.
    pub now_ns: i64,
    regexes: RegexBudget,
    left: usize,
}

/// Which fields a test looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One field.
    One(Field),
    /// All fields whose names begin so.
    Beginning(String),
}

impl Target {
    /// The target of a name that may end with `*`.
    pub fn of(name: &str) -> Result<Target, Refused> {
        match name.find('*') {
            None => Ok(Target::One(Field::of(name))),
            Some(at) if at + 1 == name.len() => Ok(Target::Beginning(name[..at].to_owned())),
            Some(_) => Err(Refused::argument(format!(
                "the field [{}] has a * that is not its end; write a name, or the beginning of names and a *",
                cut(name)
            ))),
        }
    }

    fn is_text(&self) -> bool {
        match self {
            Target::One(field) => field.is_text(),
            Target::Beginning(_) => true,
        }
    }

    fn is_whole(&self) -> bool {
        matches!(self, Target::One(field) if field.keyword)
    }

    /// Whether its values are types, and are asked for by the names of indices.
    fn is_index(&self) -> bool {
        matches!(self, Target::One(field) if field.is_index)
    }

    fn filter(&self, test: Test) -> Filter {
        match self {
            Target::One(field) => Filter::field(&field.name, test),
            Target::Beginning(beginning) => Filter::AnyField { beginning: beginning.clone(), test },
        }
    }
}

/// Nothing.
pub fn none() -> Filter {
    not(Filter::All)
}

/// All that a filter does not select.
pub fn not(filter: Filter) -> Filter {
    match filter {
        Filter::Not(inner) if *inner == Filter::All => Filter::All,
        filter => Filter::Not(Box::new(filter)),
    }
}

/// Rows that all of these select.
pub fn all(mut filters: Vec<Filter>) -> Filter {
    filters.retain(|filter| *filter != Filter::All);
    if filters.iter().any(|filter| *filter == none()) {
        return none();
    }
    Filter::and(filters)
}

/// Rows that any of these selects; none of no filters.
pub fn any(mut filters: Vec<Filter>) -> Filter {
    if filters.contains(&Filter::All) {
        return Filter::All;
    }
    filters.retain(|filter| *filter != none());
    if filters.is_empty() { none() } else { Filter::or(filters) }
}

/// One end of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The value.
    pub value: String,
    /// Whether it is inside.
    pub inside: bool,
}

/// How a range is read.
#[derive(Clone, Copy, Default)]
pub struct RangeOf<'r> {
    /// The format of dates.
    pub format: Option<&'r str>,
    /// The zone of dates.
    pub zone: Zone,
}

impl Leaves {
    /// Tests of a request that came at that time.
    pub fn new(now_ns: i64) -> Leaves {
        Leaves { now_ns, regexes: RegexBudget::default(), left: CLAUSES_MAX }
    }

    fn count(&mut self) -> Result<(), Refused> {
        self.left = self.left.checked_sub(1).ok_or_else(|| Refused {
            kind: "too_many_clauses",
            ..Refused::argument(format!(
                "the query has more than {CLAUSES_MAX} clauses; use [terms] for many values of a field"
            ))
        })?;
        Ok(())
    }

    fn regex(&mut self, text: &str) -> Result<Test, Refused> {
        let pattern = Pattern::within(&format!("(?s){text}"), &mut self.regexes);
        pattern.map(Test::Regex).map_err(Refused::argument)
    }

    /// Fields with any value.
    pub fn exists(&mut self, target: &Target) -> Result<Filter, Refused> {
        self.count()?;
        Ok(match target {
            Target::One(field) if matches!(field.name.as_str(), TIME | ID | TYPE) => Filter::All,
            target => target.filter(Test::Prefix(String::new())),
        })
    }

    /// The whole value.
    pub fn term(&mut self, target: &Target, value: &str) -> Result<Filter, Refused> {
        self.count()?;
        Ok(match target {
            Target::One(field) if field.name == TIME => {
                self.date_range(None, None, Some(value), RangeOf::default())?
            }
            Target::One(field) if field.name == TYPE => {
                Filter::field(TYPE, Test::Exact(kind_of(value).to_owned()))
            }
            target if target.is_text() => target.filter(word(value)),
            target => target.filter(exact(value)),
        })
    }

    /// One of some whole values.
    pub fn terms(&mut self, target: &Target, values: Vec<String>) -> Result<Filter, Refused> {
        match target {
            Target::One(field) if !field.is_text() && field.name != TIME && values.len() > 1 => {
                self.count()?;
                let is_type = field.name == TYPE;
                let shorten = |value: String| match is_type {
                    true => kind_of(&value).to_owned(),
                    false => value,
                };
                Ok(target.filter(Test::In(values.into_iter().map(shorten).collect())))
            }
            target => {
                let each = values.iter().map(|value| self.term(target, value));
                Ok(any(each.collect::<Result<_, _>>()?))
            }
        }
    }

    /// The words of a text, each by itself.
    pub fn words(&mut self, target: &Target, text: &str) -> Result<Vec<Filter>, Refused> {
        if let Target::One(field) = target
            && (field.keyword || matches!(field.name.as_str(), TIME | ID | TYPE))
        {
            return Ok(vec![self.term(target, text)?]);
        }
        words(text)
            .into_iter()
            .map(|found| {
                self.count()?;
                Ok(target.filter(word(found)))
            })
            .collect()
    }

    /// The text as it stands, without regard to case.
    pub fn phrase(&mut self, target: &Target, text: &str) -> Result<Filter, Refused> {
        match target {
            Target::One(field)
                if field.keyword || matches!(field.name.as_str(), TIME | ID | TYPE) =>
            {
                self.term(target, text)
            }
            _ if words(text).is_empty() => Ok(none()),
            target => {
                self.count()?;
                Ok(target.filter(word(text.trim())))
            }
        }
    }

    /// Values, or words of a text, that begin so.
    pub fn prefix(
        &mut self,
        target: &Target,
        text: &str,
        any_case: bool,
    ) -> Result<Filter, Refused> {
        if text.is_empty() {
            return self.exists(target);
        }
        self.count()?;
        if target.is_index() {
            return self.index(target, &[Wild::Text(text.to_owned()), Wild::Any]);
        }
        Ok(target.filter(match (target.is_text(), any_case) {
            (true, _) => Test::AnyCasePrefix(text.to_owned()),
            (false, false) => Test::ExactPrefix(text.to_owned()),
            (false, true) => self.regex(&format!("(?i)^{}", escape(text)))?,
        }))
    }

    /// As [`Leaves::prefix`], of words of any field that is not asked for as a keyword.
    pub fn phrase_prefix(&mut self, target: &Target, text: &str) -> Result<Filter, Refused> {
        if target.is_whole() || target.is_index() || text.is_empty() {
            return self.prefix(target, text, false);
        }
        self.count()?;
        Ok(target.filter(Test::AnyCasePrefix(text.trim().to_owned())))
    }

    /// A text with `*` and `?`.
    pub fn wildcard(
        &mut self,
        target: &Target,
        parts: &[Wild],
        any_case: bool,
    ) -> Result<Filter, Refused> {
        if let [Wild::Any] = parts {
            return self.exists(target);
        }
        if let ([Wild::Text(text), Wild::Any], false) = (parts, target.is_text()) {
            return self.prefix(target, text, any_case);
        }
        self.count()?;
        if target.is_index() {
            return self.index(target, parts);
        }
        let in_words = target.is_text();
        let body: String = parts
            .iter()
            .map(|part| match (part, in_words) {
                (Wild::Any, true) => r"\w*".to_owned(),
                (Wild::Any, false) => ".*".to_owned(),
                (Wild::One, true) => r"\w".to_owned(),
                (Wild::One, false) => ".".to_owned(),
                (Wild::Text(text), _) => escape(text),
            })
            .collect();
        let regex = match (in_words, any_case) {
            (true, _) => format!(r"(?i)\b{body}\b"),
            (false, true) => format!("(?i)^{body}$"),
            (false, false) => format!("^{body}$"),
        };
        Ok(target.filter(self.regex(&regex)?))
    }

    /// The types whose indices have names of a pattern. The prefix may be left out in it.
    fn index(&mut self, target: &Target, parts: &[Wild]) -> Result<Filter, Refused> {
        let mut patterns = vec![parts.to_vec()];
        behind_prefix(parts, INDEX_PREFIX, &mut patterns);
        let bodies: Vec<String> = patterns.iter().map(|parts| type_pattern(parts)).collect();
        let regex = format!("^(?:{})$", bodies.join("|"));
        Ok(target.filter(self.regex(&regex)?))
    }

    /// An expression of Lucene, which matches whole values, or whole words of a text.
    pub fn regexp(
        &mut self,
        target: &Target,
        text: &str,
        any_case: bool,
    ) -> Result<Filter, Refused> {
        self.count()?;
        let in_words = target.is_text();
        let text = match target.is_index() {
            // Types have no prefix.
            true => text.replace(r"logs\-", "").replace(INDEX_PREFIX, ""),
            false => text.to_owned(),
        };
        let body = translated(&text, in_words)?;
        let flags = if any_case || in_words { "(?i)" } else { "" };
        let regex = match in_words {
            true => format!(r"{flags}\b(?:{body})\b"),
            false => format!("{flags}^(?:{body})$"),
        };
        Ok(target.filter(self.regex(&regex)?))
    }

    /// Values between two ends.
    pub fn range(
        &mut self,
        target: &Target,
        low: Option<End>,
        high: Option<End>,
        of: RangeOf<'_>,
    ) -> Result<Filter, Refused> {
        self.count()?;
        if low.is_none() && high.is_none() {
            return self.exists(target);
        }
        if matches!(target, Target::One(field) if field.name == TIME) {
            return self.date_range(low, high, None, of);
        }
        let mut ends = Vec::new();
        for (end, is_low) in [(low, true), (high, false)] {
            let Some(end) = end else { continue };
            ends.push((self.comparable(end, is_low, of)?, is_low));
        }
        let numbers: Option<Vec<Number>> =
            ends.iter().map(|(end, _)| Number::parse(&end.value)).collect();
        if let Some(numbers) = numbers {
            let (mut low, mut low_inside) = (infinity("-inf"), true);
            let (mut high, mut high_inside) = (infinity("inf"), true);
            for ((end, is_low), number) in ends.iter().zip(numbers) {
                match is_low {
                    true => (low, low_inside) = (number, end.inside),
                    false => (high, high_inside) = (number, end.inside),
                }
            }
            return Ok(target.filter(Test::Range { low, low_inside, high, high_inside }));
        }
        let mut filters = vec![target.filter(Test::Prefix(String::new()))];
        for (end, is_low) in ends {
            let comparison = match (is_low, end.inside) {
                (true, true) => Comparison::GreaterOrEqual,
                (true, false) => Comparison::Greater,
                (false, true) => Comparison::LessOrEqual,
                (false, false) => Comparison::Less,
            };
            filters.push(target.filter(Test::Compare { comparison, value: end.value }));
        }
        Ok(Filter::and(filters))
    }

    /// An end as it is compared: a date as a full time, everything else as it is.
    fn comparable(&self, end: End, is_low: bool, of: RangeOf<'_>) -> Result<End, Refused> {
        let is_date = of.format.is_some_and(|format| !format.starts_with("epoch"))
            || end.value.starts_with("now")
            || end.value.contains("||");
        if !is_date {
            return Ok(end);
        }
        let instants = self.date(&end.value, of)?;
        // What is beyond the end begins behind it.
        let (time_ns, inside) = match (is_low, end.inside) {
            (true, true) => (instants.start_ns, true),
            (true, false) => (instants.end_ns, true),
            (false, true) => (instants.end_ns, false),
            (false, false) => (instants.start_ns, false),
        };
        Ok(End { value: text::time::format_time(time_ns), inside })
    }

    fn date(&self, text: &str, of: RangeOf<'_>) -> Result<Instants, Refused> {
        dates::parse(text, Reading { format: of.format, zone: of.zone, now_ns: self.now_ns })
    }

    fn date_range(
        &self,
        low: Option<End>,
        high: Option<End>,
        at: Option<&str>,
        of: RangeOf<'_>,
    ) -> Result<Filter, Refused> {
        let mut range = TimeRange { start_ns: i64::MIN, end_ns: i64::MAX };
        if let Some(at) = at {
            let instants = self.date(at, of)?;
            range = TimeRange { start_ns: instants.start_ns, end_ns: instants.end_ns };
        }
        if let Some(End { value, inside }) = low {
            let instants = self.date(&value, of)?;
            range.start_ns = if inside { instants.start_ns } else { instants.end_ns };
        }
        if let Some(End { value, inside }) = high {
            let instants = self.date(&value, of)?;
            range.end_ns = if inside { instants.end_ns } else { instants.start_ns };
        }
        Ok(if range.start_ns < range.end_ns { Filter::Time(range) } else { none() })
    }
}

fn infinity(text: &str) -> Number {
    Number::parse(text).expect("it is a number")
}

fn exact(value: &str) -> Test {
    // A missing value is empty.
    match value.is_empty() {
        true => Test::Phrase(String::new()),
        false => Test::Exact(value.to_owned()),
    }
}

/// A word or phrase in any case. One without letters is found by the word filters of blocks.
fn word(text: &str) -> Test {
    let has_case = |c: char| c.is_lowercase() || c.is_uppercase();
    match text.contains(has_case) {
        true => Test::AnyCasePhrase(text.to_owned()),
        false => Test::Phrase(text.to_owned()),
    }
}

/// The type of an index.
pub fn kind_of(index: &str) -> &str {
    index.strip_prefix(INDEX_PREFIX).unwrap_or(index)
}

/// A part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wild {
    /// `*`
    Any,
    /// `?`
    One,
    /// A text that stands for itself.
    Text(String),
}

impl Wild {
    /// Reads a pattern in which a backslash makes the next character stand for itself.
    pub fn parse(pattern: &str) -> Vec<Wild> {
        let mut parts: Vec<Wild> = Vec::new();
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            match c {
                '*' if parts.last() == Some(&Wild::Any) => {}
                '*' => parts.push(Wild::Any),
                '?' => parts.push(Wild::One),
                c => {
                    let c = if c == '\\' { chars.next().unwrap_or(c) } else { c };
                    match parts.last_mut() {
                        Some(Wild::Text(text)) => text.push(c),
                        _ => parts.push(Wild::Text(c.to_string())),
                    }
                }
            }
        }
        parts
    }

    /// Whether a text is as the pattern says.
    pub fn matches(parts: &[Wild], text: &str) -> bool {
        let (mut at, mut rest) = (0, text);
        // The last `*`: the part behind it, and the text from which on that part is looked for.
        let mut star: Option<(usize, &str)> = None;
        loop {
            let behind = match parts.get(at) {
                Some(Wild::Any) => {
                    at += 1;
                    star = Some((at, rest));
                    continue;
                }
                Some(Wild::One) => without_first(rest),
                Some(Wild::Text(own)) => rest.strip_prefix(own.as_str()),
                None if rest.is_empty() => return true,
                None => None,
            };
            if let Some(behind) = behind {
                (at, rest) = (at + 1, behind);
                continue;
            }
            // The last `*` stands for one character more; those before it need not.
            let Some((part, from)) = star else { return false };
            let Some(from) = without_first(from) else { return false };
            star = Some((part, from));
            (at, rest) = (part, from);
        }
    }
}

/// A text without its first character; none of an empty one.
fn without_first(text: &str) -> Option<&str> {
    text.chars().next().map(|c| &text[c.len_utf8()..])
}

/// Adds what is left of a pattern behind `prefix`, in each way in which it matches the prefix.
fn behind_prefix(parts: &[Wild], prefix: &str, found: &mut Vec<Vec<Wild>>) {
    let Some(shorter) = without_first(prefix) else {
        if !found.iter().any(|known| known == parts) {
            found.push(parts.to_vec());
        }
        return;
    };
    match parts.split_first() {
        None => {}
        Some((Wild::Any, rest)) => {
            behind_prefix(rest, prefix, found);
            behind_prefix(parts, shorter, found);
        }
        Some((Wild::One, rest)) => behind_prefix(rest, shorter, found),
        Some((Wild::Text(text), rest)) => {
            if let Some(behind) = prefix.strip_prefix(text.as_str()) {
                behind_prefix(rest, behind, found);
            } else if let Some(text) = text.strip_prefix(prefix) {
                let left: Vec<Wild> =
                    std::iter::once(Wild::Text(text.to_owned())).chain(rest.to_vec()).collect();
                behind_prefix(&left, "", found);
            }
        }
    }
}

/// A pattern as an expression.
fn type_pattern(parts: &[Wild]) -> String {
    let part = |part: &Wild| match part {
        Wild::Any => ".*".to_owned(),
        Wild::One => ".".to_owned(),
        Wild::Text(text) => escape(text),
    };
    parts.iter().map(part).collect()
}

/// The words of a text, as the standard analyser cuts them: runs of letters, digits and
/// underscores, with dots and apostrophes between letters, and dots and commas between digits.
pub fn words(text: &str) -> Vec<&str> {
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut begin = None;
    for (index, &(at, c)) in chars.iter().enumerate() {
        let joins = begin.is_some() && {
            let (before, after) = (chars[index - 1].1, chars.get(index + 1).map(|next| next.1));
            after.is_some_and(|after| match c {
                '.' => {
                    before.is_alphabetic() && after.is_alphabetic()
                        || before.is_numeric() && after.is_numeric()
                }
                '\'' => before.is_alphabetic() && after.is_alphabetic(),
                ',' => before.is_numeric() && after.is_numeric(),
                _ => false,
            })
        };
        match (is_word(c) || joins, begin) {
            (true, None) => begin = Some(at),
            (false, Some(from)) => {
                found.push(&text[from..at]);
                begin = None;
            }
            _ => {}
        }
    }
    found.extend(begin.map(|from| &text[from..]));
    found
}

/// The text as an expression that matches it alone.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_punctuation() {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    // These are no signs of expressions, and may not be escaped.
    escaped.replace(r"\_", "_")
}

/// An expression of Lucene in the syntax of LogsQL.
fn translated(text: &str, in_words: bool) -> Result<String, Refused> {
    let mut out = String::with_capacity(text.len() + 8);
    let mut chars = text.chars();
    let refused = |sign: char| {
        Refused::argument(format!(
            "[regexp] the operator [{sign}] is not understood; there are . ? + * | {{ }} [ ] ( ) \" @; write \\{sign} for the sign itself"
        ))
    };
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                let c = chars.next().ok_or_else(|| {
                    Refused::argument(
                        "[regexp] a backslash ends the expression; write \\\\ for one",
                    )
                })?;
                out.push_str(&escape(&c.to_string()));
            }
            '"' => {
                let rest = chars.as_str();
                let (quoted, behind) = rest.split_once('"').ok_or_else(|| {
                    Refused::argument(
                        "[regexp] a quoted text does not end; write \\\" for the sign",
                    )
                })?;
                out.push_str(&format!("(?:{})", escape(quoted)));
                chars = behind.chars();
            }
            '@' => out.push_str(if in_words { r"\w*" } else { ".*" }),
            '.' if in_words => out.push_str(r"\w"),
            '#' | '~' | '&' | '<' | '>' => return Err(refused(c)),
            '^' | '$' => {
                out.push('\\');
                out.push(c);
            }
            '[' => {
                out.push('[');
                let mut first = true;
                loop {
                    match chars.next() {
                        None => {
                            return Err(Refused::argument(
                                "[regexp] a class [ does not end with ]",
                            ));
                        }
                        Some('^') if first => out.push('^'),
                        Some(']') => break,
                        Some('-') => out.push('-'),
                        Some('\\') => {
                            out.push_str(&escape(&chars.next().unwrap_or('\\').to_string()));
                        }
                        Some(c) => out.push_str(&escape(&c.to_string())),
                    }
                    first = false;
                }
                out.push(']');
            }
            '(' => out.push_str("(?:"),
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_texts() {
        for (text, expected) in [
            ("GET /a/b.html HTTP/1.1", &["GET", "a", "b.html", "HTTP", "1.1"][..]),
            ("10.0.0.1: can't, 1,000!", &["10.0.0.1", "can't", "1,000"]),
            ("a_b.", &["a_b"]),
            (" … ", &[]),
            ("é1.x", &["é1", "x"]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn patterns_of_names() {
        for (pattern, text, expected) in [
            ("logs-*", "logs-json", true),
            ("*-js?n", "logs-json", true),
            ("logs-", "logs-json", false),
            (r"a\*", "a*", true),
            (r"a\*", "ab", false),
            ("*", "", true),
            ("a*b*c", "aXbYbc", true),
            ("*?", "", false),
            ("a?*z", "az", false),
            ("*ab*ab", "ab", false),
            ("*a?c", "aaxc", true),
            ("*-js?n", "a-js-json", true),
            ("*a?", "aab", true),
            ("*a?", "ba", false),
            ("*a?c*d", "a-c-axc-d", true),
            ("é?*é", "éxéé", true),
        ] {
            assert_eq!(Wild::matches(&Wild::parse(pattern), text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn patterns_of_indices_are_those_of_types() {
        let kinds = ["json", "log", "logs-x", "nginx-json"];
        let patterns = [
            "logs-*",
            "logs-js*",
            "*-json",
            "l*n",
            "log?-json",
            "?????json",
            "logs*",
            "log*",
            "js*",
            "json",
            "x*",
        ];
        for pattern in patterns {
            let parts = Wild::parse(pattern);
            let mut behind = vec![parts.clone()];
            behind_prefix(&parts, INDEX_PREFIX, &mut behind);
            for kind in kinds {
                let index = crate::names::index_of(kind);
                let expected = Wild::matches(&parts, &index) || Wild::matches(&parts, kind);
                let found = behind.iter().any(|parts| Wild::matches(parts, kind));
                assert_eq!(found, expected, "{pattern} {index}");
            }
        }
        let filter = |name: &str, pattern: &str| {
            let target = Target::of(name).unwrap();
            let parts = Wild::parse(pattern);
            Leaves::new(0).wildcard(&target, &parts, false).unwrap().to_string()
        };
        assert!(filter("_index", "logs-js*").contains("|js.*"), "{}", filter("_index", "logs-js*"));
        assert!(!filter("_type", "log*").contains('|'));
    }

    #[test]
    fn expressions_of_lucene() {
        for (text, expected) in [
            ("web-[0-9]+", "web-[0-9]+"),
            ("a.c|d", "a.c|d"),
            ("a\\.b", r"a\.b"),
            ("^a$", r"\^a\$"),
            ("\"a.b\"@", r"(?:a\.b).*"),
            ("[^a&&b]", r"[^a\&\&b]"),
            ("(a)", "(?:a)"),
        ] {
            assert_eq!(translated(text, false).unwrap(), expected, "{text}");
        }
        for wrong in ["a~b", "<1-5>", "a\\", "\"a", "[a"] {
            assert!(translated(wrong, false).is_err(), "{wrong}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_pattern_panics(text in ".{0,20}") {
            let mut leaves = Leaves::new(0);
            let target = Target::of("f").unwrap();
            let _ = leaves.regexp(&target, &text, true);
            let parts = Wild::parse(&text);
            leaves.wildcard(&target, &parts, false).unwrap();
            leaves.wildcard(&Target::of("message").unwrap(), &parts, false).unwrap();
        }
    }
}
