//! Dates of the Gregorian calendar as days since 1970, and back. Time zones are left to the caller.

/// Days since 1970 of a date of the Gregorian calendar; `None` if the date does not exist. After H.
/// Hinnant, "chrono-compatible low-level date algorithms".
#[inline]
pub fn days_from_civil(year: i64, month: u32, day: u32) -> Option<i64> {
    const DAYS: [u32; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let (era, year) = (year.div_euclid(400), year.rem_euclid(400) as u32);
    let leap = year % 4 == 0 && (year % 100 != 0 || year == 0);
    let length = *DAYS.get((month as usize).wrapping_sub(1))? + u32::from(leap && month == 2);
    if day == 0 || day > length {
        return None;
    }
    // Years begin with March, and are relative to the era.
    let year = year + 400 - u32::from(month <= 2);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    let of_eras = year * 365 + year / 4 - year / 100 + year / 400 + of_year;
    Some((era - 1) * 146_097 + i64::from(of_eras) - 719_468)
}

/// Year, month and day from days since 1970.
#[inline]
pub fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month as u32, day as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_are_inverse() {
        for days in -200_000..200_000 {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), Some(days));
        }
        assert_eq!(days_from_civil(1970, 1, 1), Some(0));
        assert_eq!(days_from_civil(2023, 2, 29), None);
        assert_eq!(days_from_civil(2000, 2, 29), Some(11_016));
        assert_eq!(days_from_civil(2023, 13, 1), None);
        assert_eq!(days_from_civil(2023, 0, 1), None);
        assert_eq!(days_from_civil(2023, 4, 31), None);
    }
}
