//! `simple_query_string`: `+` and `|` join, `-` negates, `"…"` is a phrase, `x*` a prefix,
//! parentheses group. Nothing that is written is an error, as in Elasticsearch.

use query::Filter;

use super::{NESTING_MAX, Options, TEXT_BYTES_MAX};
use crate::error::Refused;
use crate::leaf::{Leaves, all, any, none, not};

/// The filter for a text.
pub fn parse_simple(
    text: &str,
    options: &Options<'_>,
    leaves: &mut Leaves,
) -> Result<Filter, Refused> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("the query is longer than {TEXT_BYTES_MAX} bytes");
        return Err(Refused::argument(message));
    }
    let mut parser = Simple { rest: text, options, leaves };
    let mut found = Vec::new();
    loop {
        found.extend(parser.joined(0)?);
        if parser.rest.is_empty() {
            break;
        }
        // A parenthesis that was not opened.
        parser.rest = &parser.rest[1..];
    }
    let has_nothing = found.is_empty();
    Ok(match (has_nothing, options.all) {
        (true, _) => none(),
        (false, true) => all(found),
        (false, false) => any(found),
    })
}

struct Simple<'s> {
    rest: &'s str,
    options: &'s Options<'s>,
    leaves: &'s mut Leaves,
}

impl Simple<'_> {
    /// Clauses up to the end or a closing parenthesis, which stays.
    fn joined(&mut self, depth: usize) -> Result<Option<Filter>, Refused> {
        let mut found: Option<Filter> = None;
        let mut joins = None;
        loop {
            self.rest = self.rest.trim_start();
            match self.rest.chars().next() {
                None | Some(')') => return Ok(found),
                Some(sign @ ('+' | '|')) => {
                    joins = Some(sign == '+');
                    self.rest = &self.rest[1..];
                }
                Some(_) => {
                    let Some(next) = self.one(depth)? else { continue };
                    let with_all = joins.take().unwrap_or(self.options.all);
                    found = Some(match found {
                        None => next,
                        Some(found) if with_all => all(vec![found, next]),
                        Some(found) => any(vec![found, next]),
                    });
                }
            }
        }
    }

    fn one(&mut self, depth: usize) -> Result<Option<Filter>, Refused> {
        let mut negated = false;
        while let Some(rest) = self.rest.strip_prefix('-') {
            negated = !negated;
            self.rest = rest;
        }
        let filter = match self.rest.chars().next() {
            None => None,
            Some('(') => {
                if depth == NESTING_MAX {
                    return Err(Refused::argument(format!(
                        "more than {NESTING_MAX} parentheses in each other"
                    )));
                }
                self.rest = &self.rest[1..];
                let inner = self.joined(depth + 1)?;
                self.rest = self.rest.strip_prefix(')').unwrap_or(self.rest);
                inner
            }
            Some('"') => {
                let inner = &self.rest[1..];
                let (phrase, behind) = inner.split_once('"').unwrap_or((inner, ""));
                self.rest = behind;
                self.each(|leaves, target| leaves.phrase(target, phrase))?
            }
            Some(_) => {
                let end = self.rest.find(|c: char| c.is_whitespace() || "()|\"".contains(c));
                let (word, behind) = self.rest.split_at(end.unwrap_or(self.rest.len()));
                self.rest = behind;
                match word.strip_suffix('*') {
                    Some(prefix) => {
                        self.each(|leaves, target| leaves.phrase_prefix(target, prefix))?
                    }
                    None => {
                        let every = self.options.all;
                        self.each(|leaves, target| {
                            let words = leaves.words(target, word)?;
                            Ok(if every && !words.is_empty() { all(words) } else { any(words) })
                        })?
                    }
                }
            }
        };
        Ok(filter.map(|filter| if negated { not(filter) } else { filter }))
    }

    fn each(
        &mut self,
        mut make: impl FnMut(&mut Leaves, &crate::leaf::Target) -> Result<Filter, Refused>,
    ) -> Result<Option<Filter>, Refused> {
        let each = self.options.fields.iter().map(|target| make(self.leaves, target));
        Ok(Some(any(each.collect::<Result<_, _>>()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_texts() {
        for (text, expected) in [
            ("error + timeout", "i(error) i(timeout)"),
            ("error | timeout", "i(error) or i(timeout)"),
            ("error timeout", "i(error) or i(timeout)"),
            ("\"a b\" -c", "i(\"a b\") or !i(c)"),
            ("(a + b) | c*", "i(a) i(b) or i(c*)"),
            (") a (", "i(a)"),
        ] {
            let found = parse_simple(text, &Options::default(), &mut Leaves::new(0)).unwrap();
            let expected = query::Query::parse(expected, 0).unwrap();
            assert_eq!(&found, expected.filter(), "{text}: {found}");
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_is_an_error(text in "[ab \"()+|*-]{0,20}") {
            assert!(parse_simple(&text, &Options::default(), &mut Leaves::new(0)).is_ok());
        }
    }
}
