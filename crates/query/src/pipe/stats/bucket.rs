//! Buckets of values: `_time:5m`, `_time:1d offset 2h`, `size:1KB`.

use std::fmt;

use crate::cursor::Cursor;
use crate::error::ParseError;
use crate::filter::parse_duration_argument;
use crate::number::parse_number;
use crate::time::{format_duration, parse_duration};

/// How values of a grouping field are put together. Buckets begin at multiples of the size, plus the offset.
#[derive(Clone, Debug, PartialEq)]
pub enum Bucket {
    /// Times in steps of a duration.
    Time {
        /// Length of a bucket; positive.
        step_ns: i64,
        /// Shift of all buckets.
        offset_ns: i64,
    },
    /// Numbers in steps.
    Number {
        /// Size of a bucket; positive, as written.
        text: String,
        /// Its value.
        size: f64,
    },
}

/// Reads what stands behind the colon.
pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<Bucket, ParseError> {
    let what = "the size of buckets, such as 5m or 10KB";
    let written = cursor.run("(),|", what)?;
    let named = match written.text.to_ascii_lowercase().as_str() {
        "second" => Some("1s"),
        "minute" => Some("1m"),
        "hour" => Some("1h"),
        "day" => Some("1d"),
        _ => None,
    };
    let duration = parse_duration(named.unwrap_or(&written.text)).filter(|&step| step > 0);
    let number =
        parse_number(written.text.as_bytes()).filter(|size| *size > 0.0 && size.is_finite());
    let mut bucket = match (duration, number) {
        (Some(step_ns), _) => Bucket::Time { step_ns, offset_ns: 0 },
        (None, Some(size)) => Bucket::Number { text: written.text, size },
        (None, None) => {
            return Err(cursor.error_at(written.position, &[what], "not a size of buckets"));
        }
    };
    if let Bucket::Time { offset_ns, .. } = &mut bucket
        && cursor.eat_keyword("offset")
    {
        *offset_ns = parse_duration_argument(cursor)?;
    }
    Ok(bucket)
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bucket::Time { step_ns, offset_ns: 0 } => f.write_str(&format_duration(*step_ns)),
            Bucket::Time { step_ns, offset_ns } => {
                write!(f, "{} offset {}", format_duration(*step_ns), format_duration(*offset_ns))
            }
            Bucket::Number { text, .. } => f.write_str(&crate::cursor::quote(text)),
        }
    }
}

/// The beginning of the bucket that holds a time.
#[inline]
pub(crate) fn time_bucket(time_ns: i64, step_ns: i64, offset_ns: i64) -> i64 {
    let shifted = i128::from(time_ns) - i128::from(offset_ns);
    // Nearly all times are far from the ends of what 64 bits hold.
    match i64::try_from(shifted) {
        Ok(shifted) => time_ns.saturating_sub(shifted.rem_euclid(step_ns)),
        Err(_) => time_ns.saturating_sub(shifted.rem_euclid(i128::from(step_ns)) as i64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_buckets() {
        let check = |time, step, offset, expected| {
            assert_eq!(time_bucket(time, step, offset), expected, "{time} {step} {offset}");
        };
        check(12, 5, 0, 10);
        check(10, 5, 0, 10);
        check(-1, 5, 0, -5);
        check(12, 5, 3, 8);
        check(13, 5, 3, 13);
        check(13, 5, -2, 13);
        check(i64::MIN, 5, 3, i64::MIN);
        check(i64::MAX, i64::MAX, i64::MIN, i64::MAX - 1);
    }
}
