//! `seq("error", "open file")`: the value contains these words and phrases in this order, without
//! overlap.

use super::{Matches, Needed, Test, parse_values};
use crate::base::Pulse;
use crate::base::names::NamePattern;
use crate::lang::filter::Filter;
use crate::lang::filter::word::PhraseFinder;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

pub(in crate::lang::filter) fn parse(
    cursor: &mut Cursor<'_>,
    field: &NamePattern,
    function: &str,
) -> Result<Filter, ParseError> {
    let position = cursor.position();
    match parse_values(cursor, function)? {
        Some(phrases) => Ok(field.filter(Test::Sequence(phrases))),
        None => Err(cursor.error_at(
            position,
            &["words and \"phrases\""],
            "seq(…) does not accept \"*\"",
        )),
    }
}

pub(super) fn needed(phrases: &[String]) -> Needed {
    Needed::all_of(phrases.iter().map(|text| Needed::one(text, true, true)))
}

pub(in crate::lang::filter) struct Matcher(Vec<PhraseFinder>);

impl Matcher {
    pub fn new(phrases: &[String]) -> Matcher {
        let phrases = phrases.iter().filter(|p| !p.is_empty());
        Matcher(phrases.map(|p| PhraseFinder::new(p, false)).collect())
    }
}

impl Matches for Matcher {
    fn cost(&self) -> u32 {
        4 + 2 * self.0.len() as u32
    }

    fn passes(&self, value: &[u8], pulse: &Pulse<'_>) -> bool {
        let mut from = 0;
        pulse.may_continue(value.len())
            && self.0.iter().all(|phrase| match phrase.find_from(value, from, pulse) {
                Some(end) => {
                    from = end;
                    true
                }
                None => false,
            })
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::filter::tests::{check, check_fields};

    #[test]
    fn sequences() {
        check(
            "seq(\"error\", \"open file\")",
            &["some error: cannot open file /foo/bar"],
            &["cannot open file: error"],
        );
        check("seq(ssh, login, fail)", &["ssh login fail"], &["ssh fail"]);
        check("seq(a, a)", &["a b a"], &["a b"]);
        check_fields(
            "\"event:original\":seq(error, \"open file\")",
            &[("event:original", "error open file")],
            true,
        );
    }
}
