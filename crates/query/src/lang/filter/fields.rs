//! `user_id:eq_field(customer_id)`, `took:lt_field(limit)`, also `le_field`, `gt_field`,
//! `ge_field`: comparisons of the values of two fields of a line.
//!
//! Equality is that of bytes. The others compare as numbers if both values are numbers, as times if
//! both are full times, else as text, byte by byte. A missing field counts as empty.

use std::cmp::Ordering;

use super::Filter;
use super::value::Comparison;
use crate::base::names::NamePattern;
use crate::base::number::{Bound, SortKind};
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// How the values of two fields are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldComparison {
    /// `eq_field`
    Equal,
    /// `lt_field`, `le_field`, `gt_field`, `ge_field`
    Ordered(Comparison),
}

impl FieldComparison {
    const NAMES: [(&str, FieldComparison); 5] = [
        ("eq_field", FieldComparison::Equal),
        ("lt_field", FieldComparison::Ordered(Comparison::Less)),
        ("le_field", FieldComparison::Ordered(Comparison::LessOrEqual)),
        ("gt_field", FieldComparison::Ordered(Comparison::Greater)),
        ("ge_field", FieldComparison::Ordered(Comparison::GreaterOrEqual)),
    ];

    /// The name of the filter.
    pub(super) fn function(self) -> &'static str {
        let named = FieldComparison::NAMES.iter().find(|(_, comparison)| *comparison == self);
        named.expect("each has a name").0
    }

    /// Whether the comparison holds for two values.
    #[inline]
    pub(crate) fn holds(self, left: &[u8], right: &[u8]) -> bool {
        let FieldComparison::Ordered(comparison) = self else { return left == right };
        let ordering = match (SortKind::of(left), SortKind::of(right)) {
            (SortKind::Number(number), SortKind::Number(_)) => {
                Bound::parse(right).map(|bound| bound.order(left, number))
            }
            (SortKind::Time(left), SortKind::Time(right)) => Some(left.cmp(&right)),
            _ => Some(left.cmp(right)),
        };
        ordering.is_some_and(|ordering: Ordering| comparison.holds(ordering))
    }
}

pub(super) fn parse(
    cursor: &mut Cursor<'_>,
    field: &NamePattern,
    function: &str,
) -> Result<Filter, ParseError> {
    if field.prefix {
        return Err(cursor.error(&["one field name"], format!("{function}(…) compares two fields")));
    }
    let (_, comparison) = FieldComparison::NAMES
        .iter()
        .find(|(name, _)| *name == function)
        .expect("it is called for these names");
    cursor.expect('(', &format!("{function}(…)"))?;
    let right = cursor.expect_string(true, "the name of another field")?.text;
    cursor.expect(')', &format!("{function}(…)"))?;
    Ok(Filter::Fields { left: field.name.clone(), comparison: *comparison, right })
}

#[cfg(test)]
mod tests {
    use crate::lang::filter::tests::check_fields as check;

    #[test]
    fn two_fields() {
        let fields = [
            ("user_id", "42"),
            ("customer_id", "42"),
            ("took", "1.5s"),
            ("limit", "200ms"),
            ("from", "2026-01-31T12:00:00Z"),
            ("to", "2026-01-31T12:00:00.5Z"),
            ("big", "9007199254740993"),
            ("less", "9007199254740992"),
            ("a", "10x"),
            ("b", "9x"),
        ];
        check("user_id:eq_field(customer_id)", &fields, true);
        check("NOT user_id:eq_field(customer_id)", &fields, false);
        check("user_id:eq_field(took)", &fields, false);
        check("none:eq_field(nothing)", &fields, true);
        check("limit:lt_field(took) limit:le_field(took)", &fields, true);
        check("took:lt_field(limit) or took:le_field(limit)", &fields, false);
        check("took:gt_field(limit) took:ge_field(limit)", &fields, true);
        check("user_id:le_field(customer_id) user_id:ge_field(customer_id)", &fields, true);
        check("user_id:lt_field(customer_id) or user_id:gt_field(customer_id)", &fields, false);
        check("from:lt_field(to)", &fields, true);
        check("less:lt_field(big) big:gt_field(less) big:ge_field(less)", &fields, true);
        check("big:le_field(less)", &fields, false);
        check("a:lt_field(b)", &fields, true);
        check("none:lt_field(a)", &fields, true);
    }
}
