//! `level:""`: lines without the field, or with an empty one; `level:*`: lines where the field is
//! not empty.
//!
//! They are the empty phrase and the empty prefix: the files of those filters parse and print them.
//! An empty exact prefix or substring passes every value, as `in(*)`, `contains_all(*)` and
//! `contains_any(*)` do.

use super::Matches;

/// Passes empty values.
pub(in crate::lang::filter) struct Empty;

/// Passes values that are not empty.
pub(in crate::lang::filter) struct NotEmpty;

/// Passes everything.
pub(in crate::lang::filter) struct Any;

impl Matches for Empty {
    fn cost(&self) -> u32 {
        2
    }

    #[inline]
    fn matches(&self, value: &[u8]) -> bool {
        value.is_empty()
    }
}

impl Matches for NotEmpty {
    fn cost(&self) -> u32 {
        2
    }

    #[inline]
    fn matches(&self, value: &[u8]) -> bool {
        !value.is_empty()
    }
}

impl Matches for Any {
    fn cost(&self) -> u32 {
        0
    }

    #[inline]
    fn matches(&self, _value: &[u8]) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::filter::tests::{check, check_fields};

    #[test]
    fn empty_and_any_values() {
        let fields = [("log.level", "error"), ("e", "")];
        check_fields("log.level:\"\"", &fields, false);
        check_fields("host.hostname:\"\"", &fields, true);
        check_fields("e:\"\" log.level:*", &fields, true);
        check_fields("host.hostname:*", &fields, false);
        check_fields("e:*", &fields, false);
        check_fields("none:i(\"\")", &fields, true);
        check_fields("log.level:i(\"\"*)", &fields, true);
        check_fields("none:=\"\"", &fields, true);
        check_fields("none:=\"\"*", &fields, true);
    }

    #[test]
    fn filters_that_pass_everything() {
        check("in(*)", &["a", "b"], &[]);
        check("contains_any(*)", &["a", "b"], &[]);
        check("contains_all(*)", &["a", "b"], &[]);
        check("other:in(*)", &["a", "b"], &[]);
    }
}
