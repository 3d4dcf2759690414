//! Bucket arithmetic, defined for all of `i64`.

/// The start of the bucket of `width_ns` that contains `time_ns`. Buckets are aligned to 1970, also
/// before it. The one bucket that would begin before the earliest representable instant begins at
/// that instant.
pub(crate) fn bucket_start(time_ns: i64, width_ns: i64) -> i64 {
    time_ns.div_euclid(width_ns).saturating_mul(width_ns)
}

#[cfg(test)]
mod tests {
    use text::duration::SECOND_NS;

    use super::*;

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
