//! Functions over the rows of a table: what monitoring asks of measurements.

use crate::row::Value;

/// A function over all rows that fulfil the conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aggregation {
    /// The function.
    pub function: Function,
    /// The index of an integer column in the schema.
    pub column: usize,
    /// The index of a column, and the value that it must have; all of them hold.
    pub conditions: Vec<(usize, Value)>,
    /// The values that an integer column may have. The column has no condition besides: CQL takes
    /// either for a column.
    pub within: Option<Within>,
}

/// A function of integers whose result is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Function {
    /// The largest value.
    Max,
    /// The average, which a store returns as the sum and the number of rows: so answers can be
    /// compared exactly. The sum of the studies' data is below 2⁵³, because some stores compute it
    /// in floating point.
    Average,
}

/// A range of values of an integer column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Within {
    /// The index of the column in the schema.
    pub column: usize,
    /// The first value.
    pub from: i64,
    /// The end, which is not in the range.
    pub to: i64,
}

/// The result of an [`Aggregation`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Aggregate {
    /// Rows that fulfil the conditions.
    pub rows: u64,
    /// The largest value, or the sum of an average; `None` if there are no rows.
    pub value: Option<i64>,
}

impl Function {
    /// The result for these rows together with others. `None` if a sum is too large.
    pub fn merge(self, one: Aggregate, other: Aggregate) -> Option<Aggregate> {
        let value = match (one.value, other.value) {
            (Some(one), Some(other)) => Some(match self {
                Function::Max => one.max(other),
                Function::Average => one.checked_add(other)?,
            }),
            (value, None) | (None, value) => value,
        };
        Some(Aggregate { rows: one.rows.checked_add(other.rows)?, value })
    }

    /// The result for all parts, such as the shards of a store. `None` if a sum is too large.
    pub fn merge_all(self, parts: impl IntoIterator<Item = Aggregate>) -> Option<Aggregate> {
        parts.into_iter().try_fold(Aggregate::default(), |sum, part| self.merge(sum, part))
    }
}

impl Within {
    /// Whether a value is in the range.
    pub fn contains(&self, value: i64) -> bool {
        (self.from..self.to).contains(&value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_become_one() {
        let part = |rows, value| Aggregate { rows, value };
        let parts = [part(2, Some(-5)), part(0, None), part(3, Some(7))];
        assert_eq!(Function::Max.merge_all(parts), Some(part(5, Some(7))));
        assert_eq!(Function::Average.merge_all(parts), Some(part(5, Some(2))));
        assert_eq!(Function::Max.merge_all([]), Some(part(0, None)));
        let large = [part(1, Some(i64::MAX)), part(1, Some(1))];
        assert_eq!(Function::Average.merge_all(large), None);
        let within = Within { column: 0, from: 3, to: 5 };
        assert_eq!([2, 3, 4, 5].map(|value| within.contains(value)), [false, true, true, false]);
    }
}
