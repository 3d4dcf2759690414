//! `err*`, `"unexpected fail"*`: the value contains a word or phrase that begins with this text.
//!
//! The empty prefix, `field:*`, passes values that are not empty.

use super::Needed;

pub(super) fn needed(text: &str) -> Needed {
    Needed::one(text, true, false)
}

#[cfg(test)]
mod tests {
    use crate::lang::filter::tests::{check, check_fields};

    #[test]
    fn prefixes() {
        check(
            "err*",
            &["err: foobar", "cannot open file: error occurred"],
            &["Error: foobar", "fooerror"],
        );
        check(
            "\"unexpected fail\"*",
            &["unexpected fail: IO error", "error:unexpected failure"],
            &["unexpectedly failed", "failed to open file: unexpected EOF"],
        );
        check("'\"foo\":\"bar'*", &[r#"{"foo":"bar baz"}"#, r#"{"foo":"bars"}"#], &["foo bar"]);
        check_fields("\"log:level\":err*", &[("log:level", "error")], true);
    }
}
