//! `*ampl*`, `*"a b"*`: the value contains the text anywhere. The empty text passes every value.

use memchr::memmem::Finder;

use super::{Matches, Needed, Test};
use crate::base::names::NamePattern;
use crate::lang::filter::Filter;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// Parses the text behind the first `*`, up to the second.
pub(in crate::lang::filter) fn parse(
    cursor: &mut Cursor<'_>,
    field: &NamePattern,
) -> Result<Filter, ParseError> {
    let written = cursor.expect_string(true, "a substring")?;
    if !cursor.eat_adjacent('*') {
        let message = "a substring needs a \"*\" on both sides";
        return Err(cursor.error(&["\"*\""], message));
    }
    Ok(field.filter(Test::Substring(written.text)))
}

pub(super) fn needed(text: &str) -> Needed {
    Needed::one(text, false, false)
}

pub(in crate::lang::filter) struct Matcher(Finder<'static>);

impl Matcher {
    pub fn new(text: &str) -> Matcher {
        Matcher(Finder::new(text.as_bytes()).into_owned())
    }
}

impl Matches for Matcher {
    fn cost(&self) -> u32 {
        6
    }

    #[inline]
    fn matches(&self, value: &[u8]) -> bool {
        self.0.find(value).is_some()
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::filter::tests::check;

    #[test]
    fn parts_of_values() {
        check("*ampl*", &["Example message", "This is a sample"], &["EXAMPLE message"]);
        check("*\"a b\"*", &["xa by"], &["a  b"]);
    }
}
