//! `time_add 1h [at a]`: shifts a time, in `_time` or another field. A value that is not a full RFC
//! 3339 time stays as it is.

use std::fmt;

use text::duration::format_duration;
use text::time::write_time;

use super::compute::{Compute, ComputePipe, Output, needs_for, parse_field, write_field};
use super::operator::{Documentation, Registration, one};
use crate::base::bitmap::Bitmap;
use crate::base::names::TIME;
use crate::base::time::parse_duration;
use crate::base::{FieldSet, RunError};
use crate::block::{Block, Scratch};
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// The `time_add` pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeAdd {
    /// The shift, nanoseconds.
    pub added_ns: i64,
    /// The field of the time.
    pub field: String,
}

pub(super) static TIME_ADD: Registration = Registration {
    doc: Documentation {
        name: "time_add",
        aliases: &[],
        syntax: "time_add <duration> [at <field>]",
        summary: "shifts a time by a duration",
        example: "time_add -1h at began",
    },
    parse: |cursor| parse(cursor).map(one),
};

pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<TimeAdd, ParseError> {
    let what = "a duration such as 1h or -30m";
    let written = cursor.run("|)", what)?;
    let added_ns = parse_duration(&written.text)
        .ok_or_else(|| cursor.error_at(written.position, &[what], "this is not a duration"))?;
    let field = parse_field(cursor, "at")?.unwrap_or(TIME.to_owned());
    Ok(TimeAdd { added_ns, field })
}

impl fmt::Display for TimeAdd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "time_add {}", format_duration(self.added_ns))?;
        write_field("at", &self.field, TIME, f)
    }
}

impl ComputePipe for TimeAdd {
    fn prepare(&self) -> Box<dyn Compute> {
        Box::new(self.clone())
    }

    fn needed_fields(&self, wanted: &mut FieldSet) {
        needs_for(wanted, &self.results(), true, [self.field.as_str()]);
    }

    fn results(&self) -> Vec<&str> {
        vec![&self.field]
    }

    fn keeps_time(&self) -> bool {
        true
    }

    fn moves_time(&self) -> bool {
        self.field == TIME
    }
}

impl Compute for TimeAdd {
    fn compute(
        &self,
        block: &Block,
        rows: &Bitmap,
        out: &mut Output<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), RunError> {
        let (from, to) = (block.column(&self.field), out.column(&self.field));
        rows.iter().try_for_each(|row| match block.time_ns(from, row, scratch) {
            Some(ns) => {
                out.set_with(to, row, |out| write_time(ns.saturating_add(self.added_ns), out))
            }
            None => Ok(()),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::Query;
    use crate::lang::context::Context;
    use crate::testing::{Memory, Shown, batch, check_pipe, collect, record};

    #[test]
    fn times_are_moved() {
        let records = [record(1_000_000_000, &[("t", "2026-01-31T12:00:00.5Z"), ("x", "y")])];
        check_pipe(
            &records,
            "time_add 1h | copy _time as t2 | fields t2",
            &["t2=1970-01-01T01:00:01Z"],
        );
        check_pipe(&records, "time_add -1d at t | fields t", &["t=2026-01-30T12:00:00.5Z"]);
        check_pipe(&records, "time_add 1w at x | fields x", &["x=y"]);
        check_pipe(&records, "time_add 1h | filter _time:1970-01-01T01 | fields x", &["x=y"]);
    }

    /// Checks the rows of a query over units whose times overlap, in each way in which units are
    /// read: as lines, by the counts of segments, and by columns.
    fn check(text: &str, limit: Option<usize>, expected: &[&str]) {
        let at = |minute: i64| record(minute * 60_000_000_000, &[("n", &minute.to_string())]);
        let units = || vec![batch(1, &[at(10), at(40), at(80)]), batch(2, &[at(70), at(75)])];
        let lines = Memory::new(units());
        let counts = Memory { segment_batches: Some(1), ..Memory::new(units()) };
        let columns = Memory { segment_batches: Some(1), columns: Some(0), ..Memory::new(units()) };
        let query = Query::parse(text, 0).unwrap();
        for source in [lines, counts, columns] {
            let context = Context { limit, ..Context::default() };
            let (rows, outcome) = collect(&query, &source, &context);
            outcome.unwrap();
            let show = |row: &Shown| {
                let fields = row.iter().map(|(name, value)| format!("{name}={value}"));
                fields.collect::<Vec<_>>().join(" ")
            };
            assert_eq!(rows.iter().map(show).collect::<Vec<_>>(), expected, "{text} {limit:?}");
        }
    }

    #[test]
    fn rows_are_grouped_by_the_times_they_were_moved_to() {
        let hours = ["_time=1970-01-01T00:00:00Z n=1", "_time=1970-01-01T01:00:00Z n=4"];
        check("* | time_add 30m | stats by (_time:1h) count() n", None, &hours);
        check("options(time_offset=30m) * | stats by (_time:1h) count() n", None, &hours);
    }

    #[test]
    fn the_newest_and_oldest_rows_are_found_among_moved_ones() {
        let newest = ["n=80", "n=75"];
        check("* | time_add 1h | sort by (_time desc) limit 2 | fields n", None, &newest);
        check("* | time_add 1h | fields n", Some(2), &newest);
        let oldest = ["n=10", "n=40", "n=70"];
        check("* | time_add -1h | sort by (_time) limit 3 | fields n", None, &oldest);
    }
}
