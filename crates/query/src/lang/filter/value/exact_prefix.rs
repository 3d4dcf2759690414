//! `="Processing request"*`: the value begins with this text. The empty prefix passes every value.

use super::{Matches, Needed};

pub(super) fn needed(text: &str) -> Needed {
    Needed::one(text, true, false)
}

pub(in crate::lang::filter) struct Matcher(pub Vec<u8>);

impl Matches for Matcher {
    fn cost(&self) -> u32 {
        3
    }

    #[inline]
    fn matches(&self, value: &[u8]) -> bool {
        value.starts_with(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::filter::tests::{check, check_fields};

    #[test]
    fn beginnings() {
        check(
            "=\"Processing request\"*",
            &["Processing request foobar", "Processing requests from ..."],
            &["processing request foobar", "start: Processing request"],
        );
        check("=a*", &["a", "ab"], &["ba"]);
        check("exact(a*)", &["a", "ab"], &["ba"]);
        check_fields("\"log:level\":=\"err\"*", &[("log:level", "error")], true);
    }
}
