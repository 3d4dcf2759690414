//! What retention and deletions may have taken of the lines that the rows of a bucket count.

use store::Store;

/// When lines go. Of `retention.bytes` nothing is known: it takes rows together with their lines.
#[derive(Clone, Copy, Debug)]
pub struct Gone {
    /// The shortest time after the arrival at which retention deletes lines, nanoseconds.
    age_ns: Option<i64>,
    /// When the last deletion that takes lines was requested, nanoseconds since 1970 UTC.
    deleted_ns: Option<i64>,
}

impl Gone {
    /// What goes of a store.
    pub fn of(store: &Store) -> Gone {
        let retention = store.retention();
        let ages = retention.rules.iter().map(|rule| rule.age_ns).chain(retention.age_ns);
        let deletions = store.deletions();
        let taking = deletions
            .iter()
            .map(|(deletion, _)| deletion)
            .filter(|deletion| deletion.lines > 0 || deletion.finished_ns.is_none());
        Gone { age_ns: ages.min(), deleted_ns: taking.map(|deletion| deletion.created_ns).max() }
    }

    /// Whether lines may be gone of which the first arrived at `first_ns`, and which were counted
    /// last at `counted_ns`. All times are nanoseconds since 1970 UTC.
    pub fn may_have_taken(&self, first_ns: i64, counted_ns: i64, now_ns: i64) -> bool {
        let is_old = |age_ns: i64| first_ns < now_ns.saturating_sub(age_ns);
        self.age_ns.is_some_and(is_old)
            || self.deleted_ns.is_some_and(|deleted_ns| counted_ns < deleted_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_by_their_age_or_by_a_later_deletion() {
        let check = |age_ns, deleted_ns, expected: [bool; 3]| {
            let gone = Gone { age_ns, deleted_ns };
            // Lines that arrived at 100 and were counted at 110; the same at 200 and 210.
            let found = [
                gone.may_have_taken(100, 110, 150),
                gone.may_have_taken(100, 110, 250),
                gone.may_have_taken(200, 210, 250),
            ];
            assert_eq!(found, expected, "{gone:?}");
        };
        check(None, None, [false; 3]);
        check(Some(100), None, [false, true, false]);
        check(Some(1_000), None, [false; 3]);
        check(None, Some(105), [false; 3]);
        check(None, Some(140), [true, true, false]);
        check(Some(100), Some(220), [true; 3]);
    }
}
