//! `error`, `"cannot open file"`: the value contains the word or phrase, and no word continues
//! beyond its ends.
//!
//! Words are runs of letters, digits and underscores; everything else in a phrase is taken as it
//! stands, and case counts. The empty phrase passes empty values only.
//! [`PhraseFinder`](crate::lang::filter::word::PhraseFinder) does the search.

use super::{Matches, Needed};
use crate::base::Pulse;
use crate::lang::filter::word::PhraseFinder;

pub(super) fn needed(text: &str) -> Needed {
    Needed::one(text, true, true)
}

impl Matches for PhraseFinder {
    fn cost(&self) -> u32 {
        6
    }

    #[inline]
    fn passes(&self, value: &[u8], pulse: &Pulse<'_>) -> bool {
        pulse.may_continue(value.len()) && self.find_from(value, 0, pulse).is_some()
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::filter::tests::{check, check_fields};

    #[test]
    fn words() {
        let errors = ["error", "an error happened", "error: cannot open file"];
        check("error", &errors, &["ERROR", "multiple errors occurred", "terror", "error_code"]);
        check("10.0.0.1", &["from 10.0.0.1 port"], &["10.0.0.12", "110.0.0.1"]);
        check("key=value", &["a key=value"], &["key = value"]);
        check("тест", &["foo: (bar,\"тест\")!"], &["тесты"]);
        check("\"and\"", &["this and that"], &["band"]);
    }

    #[test]
    fn phrases() {
        check(
            "\"ssh: login fail\"",
            &["ERROR: ssh: login fail for user \"foobar\"", "ssh: login fail!"],
            &["ssh login fail", "login fail: ssh error", "ssh: login failed", "SSH: login fail"],
        );
        check(r#"'"foo":"bar"'"#, &[r#"{"foo":"bar"}"#], &["foo bar"]);
        check("`a\\b`", &["x a\\b"], &["a b"]);
    }

    #[test]
    fn in_fields() {
        let fields = [("log.level", "an error"), ("ip:remote", "1.2.3.45"), ("სფერო", "a τιμή")];
        check_fields("log.level:error", &fields, true);
        check_fields("log.level:err", &fields, false);
        check_fields("\"ip:remote\":\"1.2.3.45\"", &fields, true);
        check_fields("სფერო:τιμή", &fields, true);
        check_fields("ip:1.2.3.4:80", &[("ip", "1.2.3.4:80")], true);
    }
}
