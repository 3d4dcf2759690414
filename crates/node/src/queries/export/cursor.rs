//! The cursor of an export: an opaque text for the client, from which the export resumes.
//!
//! It names two sets of lines, those that belong to the export and those that an earlier export
//! had, and the last row that was sent. So no row is sent twice and none is missed, although lines
//! with any event time arrive meanwhile: they are not in the set, and belong to the export that
//! resumes behind the end of this one.

use std::fmt::{self, Write};
use std::str::FromStr;

use query::{LineSet, RowKey, TimeOrder};

/// Prefix of cursors: the version of their form.
const VERSION: &str = "c2";

/// A position from which an export resumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The time that relative times refer to, nanoseconds since 1970 UTC; `None` behind the end,
    /// where a new export begins.
    pub now_ns: Option<i64>,
    /// The remaining rows.
    pub order: TimeOrder,
    /// A checksum of the columns, for formats with columns.
    pub columns: Option<u32>,
}

/// A text that is not a cursor.
#[derive(Debug, thiserror::Error)]
#[error("'{0}' is not a cursor of this version; take it from an export with cursors=1")]
pub struct NoCursor(String);

impl Cursor {
    /// A cursor behind a row.
    pub fn after(&self, key: RowKey) -> Cursor {
        let order = TimeOrder { after: Some(key), ..self.order.clone() };
        Cursor { order, ..self.clone() }
    }

    /// A cursor behind the end; it resumes with the lines that have arrived since.
    pub fn behind_the_end(&self) -> Cursor {
        let order = TimeOrder { after: None, since: self.order.within.clone(), within: None };
        Cursor { now_ns: None, order, columns: self.columns }
    }
}

/// A checksum of the names of columns.
pub fn checksum(columns: &[String]) -> u32 {
    columns.iter().fold(0, |sum, name| {
        crc32c::crc32c_append(crc32c::crc32c_append(sum, name.as_bytes()), &[0])
    })
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TimeOrder { after, since, within } = &self.order;
        f.write_str(VERSION)?;
        f.write_char('_')?;
        self.now_ns.map_or(Ok(()), |now_ns| write!(f, "{now_ns}"))?;
        for set in [since, within] {
            f.write_char('_')?;
            let Some(LineSet { through, missing }) = set else { continue };
            write!(f, "{through}")?;
            // The difference to the number before, which is mostly small.
            let mut above = *through;
            for number in missing.iter().rev() {
                write!(f, "~{}", above - number)?;
                above = *number;
            }
        }
        f.write_char('_')?;
        after.map_or(Ok(()), |RowKey { time_ns, id }| write!(f, "{time_ns}~{id}"))?;
        f.write_char('_')?;
        self.columns.map_or(Ok(()), |columns| write!(f, "{columns}"))
    }
}

impl FromStr for Cursor {
    type Err = NoCursor;

    fn from_str(text: &str) -> Result<Cursor, NoCursor> {
        read(text).ok_or_else(|| NoCursor(text.chars().take(100).collect()))
    }
}

fn read(text: &str) -> Option<Cursor> {
    let parts: Vec<&str> = text.split('_').collect();
    let [version, now_ns, since, within, after, columns] = parts[..] else { return None };
    if version != VERSION {
        return None;
    }
    let after = match after {
        "" => None,
        after => {
            let (time_ns, id) = after.split_once('~')?;
            Some(RowKey { time_ns: time_ns.parse().ok()?, id: id.parse().ok()? })
        }
    };
    let order = TimeOrder { after, since: set(since)?, within: set(within)? };
    Some(Cursor { now_ns: number(now_ns)?, order, columns: number(columns)? })
}

fn number<T: FromStr>(text: &str) -> Option<Option<T>> {
    if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) }
}

fn set(text: &str) -> Option<Option<LineSet>> {
    if text.is_empty() {
        return Some(None);
    }
    let mut numbers = text.split('~').map(|number| number.parse::<u64>().ok());
    let through = numbers.next()??;
    let mut above = through;
    let mut missing = Vec::new();
    for below in numbers {
        above = above.checked_sub(below?)?;
        missing.push(above);
    }
    missing.reverse();
    Some(Some(LineSet { through, missing }))
}

#[cfg(test)]
mod tests {
    use record::LineId;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let set = |through, missing: &[u64]| Some(LineSet { through, missing: missing.into() });
        let key = RowKey {
            time_ns: i64::MIN,
            id: LineId { node: 0xfe, sequence: u64::MAX, line: u32::MAX },
        };
        let order = |after, since, within| TimeOrder { after, since, within };
        for (now_ns, order, columns, text) in [
            (None, order(None, None, None), None, "c2_____"),
            (Some(-5), order(None, None, set(9, &[])), Some(7), "c2_-5__9__7"),
            (
                Some(5),
                order(Some(key), set(9, &[3, 4, 8]), set(u64::MAX, &[0])),
                None,
                "c2_5_9~1~4~1_18446744073709551615~18446744073709551615_-9223372036854775808~000000fe-18446744073709551615-4294967295_",
            ),
        ] {
            let cursor = Cursor { now_ns, order, columns };
            assert_eq!(cursor.to_string(), text);
            assert_eq!(text.parse::<Cursor>().unwrap(), cursor);
        }
    }

    #[test]
    fn invalid_cursors_are_refused() {
        for text in [
            "",
            "c1_____",
            "c3_____",
            "c2____",
            "c2______",
            "c2_x____",
            "c2__9~10___",
            "c2____5_",
            "c2__~___",
            "c_____",
        ] {
            assert!(text.parse::<Cursor>().is_err(), "{text}");
        }
    }
}
