//! `time_add 1h [at a]`: shifts a time, in `_time` or another field. A value that is not a full RFC
//! 3339 time stays as it is.

use std::fmt;

use text::duration::format_duration;
use text::time::write_time;

use super::compute::{Compute, ComputePipe, Output, needs_for, parse_field, write_field};
use super::operator::{Documentation, Registration, one};
use crate::base::bitmap::Bitmap;
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
    let field = parse_field(cursor, "at")?.unwrap_or("_time".to_owned());
    Ok(TimeAdd { added_ns, field })
}

impl fmt::Display for TimeAdd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "time_add {}", format_duration(self.added_ns))?;
        write_field("at", &self.field, "_time", f)
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
    use crate::testing::{check_pipe, record};

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
}
