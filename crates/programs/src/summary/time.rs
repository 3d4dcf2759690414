//! Bucket arithmetic and RFC 3339, defined for all of `i64`.

/// Nanoseconds of a second.
pub(crate) const SECOND_NS: i64 = 1_000_000_000;

/// The start of the bucket of `width_ns` that contains `time_ns`. Buckets are aligned to 1970, also
/// before it. The one bucket that would begin before the earliest representable instant begins at
/// that instant.
pub(crate) fn bucket_start(time_ns: i64, width_ns: i64) -> i64 {
    time_ns.div_euclid(width_ns).saturating_mul(width_ns)
}

/// RFC 3339 in UTC; with a fraction of a second only if it is not zero.
pub(crate) fn rfc3339(time_ns: i64) -> String {
    let seconds = time_ns.div_euclid(SECOND_NS);
    let nanos = time_ns.rem_euclid(SECOND_NS);
    let (year, month, day) = record::civil::civil_from_days(seconds.div_euclid(86_400));
    let of_day = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let fraction = match nanos {
        0 => String::new(),
        _ => format!(".{nanos:09}").trim_end_matches('0').to_owned(),
    };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc3339_forms() {
        for (time_ns, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (1_769_860_800 * SECOND_NS, "2026-01-31T12:00:00Z"),
            (1_709_251_199 * SECOND_NS + 500_000_000, "2024-02-29T23:59:59.5Z"),
            (-1, "1969-12-31T23:59:59.999999999Z"),
            (i64::MIN, "1677-09-21T00:12:43.145224192Z"),
            (i64::MAX, "2262-04-11T23:47:16.854775807Z"),
        ] {
            assert_eq!(rfc3339(time_ns), expected);
        }
    }

    #[test]
    fn buckets_hold_their_times() {
        let width = 10 * SECOND_NS;
        for (time_ns, expected) in [
            (0, 0),
            (width - 1, 0),
            (width, width),
            (-1, -width),
            (-width, -width),
            (i64::MAX, i64::MAX - i64::MAX % width),
            (i64::MIN, i64::MIN),
        ] {
            assert_eq!(bucket_start(time_ns, width), expected);
        }
    }
}
