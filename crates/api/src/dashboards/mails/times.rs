//! When a schedule is due: a time of day in a time zone, on days of the week or of the month.
//!
//! A time that a change of the clocks leaves out is due as much later as the clocks skipped; one
//! that comes twice is due the first time. So each chosen day has one due time.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use node::saved_views::mails::{Every, Wanted};

/// Days that are looked at for a due time: more than the longest month.
const DAYS_MAX: i32 = 40;
/// A clock that is set back by less than this repeats no mail.
const SET_BACK_S: i64 = 3_600;

/// The time zone of an IANA name.
///
/// # Errors
/// There is none of this name.
pub fn zone(name: &str) -> Result<TimeZone, String> {
    // Jiff would take names in any case, and some systems' `posix/` names; the page writes both
    // as they are.
    TimeZone::get(name).map_err(|_| {
        let shown: String = name.chars().take(60).collect();
        format!("zone: '{shown}' is no time zone; write an IANA name, for example Europe/Berlin")
    })
}

/// Checks the days of a schedule and its time.
///
/// # Errors
/// Which is wrong.
pub fn check(wanted: &Wanted) -> Result<(), String> {
    zone(&wanted.zone)?;
    if wanted.hour > 23 || wanted.minute > 59 {
        return Err("hour is 0 to 23, and minute 0 to 59".to_owned());
    }
    let are_days = |days: &[u8]| {
        let is_day = |day: &u8| (1..=7).contains(day);
        (1..=7).contains(&days.len()) && days.iter().all(is_day)
    };
    match wanted.every {
        Every::Week if !are_days(&wanted.weekdays) => {
            Err("weekdays: choose some days, 1 (Monday) to 7 (Sunday)".to_owned())
        }
        Every::Month if !wanted.month_day.is_some_and(|day| (1..=31).contains(&day)) => {
            Err("month_day: choose a day from 1 to 31".to_owned())
        }
        _ => Ok(()),
    }
}

/// The newest due time at or before `now_s`, in seconds since 1970.
pub fn newest(wanted: &Wanted, now_s: i64) -> Option<i64> {
    let (zone, today) = today(wanted, now_s)?;
    let days = std::iter::successors(Some(today.tomorrow().ok()?), |day| day.yesterday().ok());
    let due = days.take(DAYS_MAX as usize).filter_map(|day| due(wanted, day, &zone));
    due.into_iter().find(|due_s| *due_s <= now_s)
}

/// The due time for which a mail is to be sent, if there is one: the newest, unless due times up to
/// `done_s` are done. Where that is ahead of `now_s`, the clock was set back since, and no mail
/// would be sent until then; so it counts no more.
pub fn unsent(wanted: &Wanted, done_s: i64, now_s: i64) -> Option<i64> {
    newest(wanted, now_s).filter(|due_s| *due_s > done_s || is_ahead(done_s, now_s))
}

/// Whether a time that was noted is so far ahead that the clock must have been set back since.
pub fn is_ahead(noted_s: i64, now_s: i64) -> bool {
    noted_s.saturating_sub(now_s) > SET_BACK_S
}

/// The first due time after `now_s`, in seconds since 1970.
pub fn next(wanted: &Wanted, now_s: i64) -> Option<i64> {
    let (zone, today) = today(wanted, now_s)?;
    let days = std::iter::successors(Some(today.yesterday().ok()?), |day| day.tomorrow().ok());
    let due = days.take(DAYS_MAX as usize).filter_map(|day| due(wanted, day, &zone));
    due.into_iter().find(|due_s| *due_s > now_s)
}

fn today(wanted: &Wanted, now_s: i64) -> Option<(TimeZone, Date)> {
    let zone = zone(&wanted.zone).ok()?;
    let now = Timestamp::from_second(now_s).ok()?;
    let today = now.to_zoned(zone.clone()).date();
    Some((zone, today))
}

/// The due time of a day, if it has one.
fn due(wanted: &Wanted, day: Date, zone: &TimeZone) -> Option<i64> {
    let is_chosen = match wanted.every {
        Every::Day => true,
        Every::Week => {
            let weekday = day.weekday().to_monday_one_offset();
            wanted.weekdays.iter().any(|chosen| *chosen as i8 == weekday)
        }
        Every::Month => {
            let chosen = wanted.month_day.unwrap_or(1) as i8;
            day.day() == chosen.min(day.days_in_month())
        }
    };
    let time = day.at(wanted.hour as i8, wanted.minute as i8, 0, 0);
    is_chosen.then(|| time.to_zoned(zone.clone()).ok()).flatten().map(|z| z.timestamp().as_second())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wanted(parts: serde_json::Value) -> Wanted {
        let mut all = json!({
            "receiver": "ops", "every": "day", "hour": 7, "minute": 30, "zone": "Europe/Berlin",
            "range": "24h",
        });
        for (name, value) in parts.as_object().unwrap() {
            all[name] = value.clone();
        }
        serde_json::from_value(all).unwrap()
    }

    /// Due times from `start` on, and that `newest` finds each of them.
    fn check_times(parts: serde_json::Value, start: &str, expected: &[&str]) {
        let wanted = wanted(parts);
        check(&wanted).unwrap();
        let second = |text: &str| text.parse::<Timestamp>().unwrap().as_second();
        let mut at = second(start);
        for expected in expected {
            let due = next(&wanted, at).unwrap();
            assert_eq!(Timestamp::from_second(due).unwrap().to_string(), *expected, "{wanted:?}");
            assert_eq!(newest(&wanted, due), Some(due));
            assert!(newest(&wanted, due - 1).is_none_or(|before| before <= at.max(due - 1)));
            assert_ne!(newest(&wanted, due - 1), Some(due));
            at = due;
        }
    }

    #[test]
    fn a_time_of_day_follows_the_clocks() {
        // The clocks of Berlin go forward on 29 March 2026, and back on 25 October.
        let early = ["2026-03-28T06:30:00Z", "2026-03-29T05:30:00Z", "2026-03-30T05:30:00Z"];
        check_times(json!({}), "2026-03-27T12:00:00Z", &early);
        let late = ["2026-10-24T05:30:00Z", "2026-10-25T06:30:00Z", "2026-10-26T06:30:00Z"];
        check_times(json!({}), "2026-10-23T12:00:00Z", &late);
        // 02:30 is left out in March, and comes twice in October: once is due.
        let gap = ["2026-03-28T01:30:00Z", "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"];
        check_times(json!({"hour": 2}), "2026-03-27T12:00:00Z", &gap);
        let fold = ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"];
        check_times(json!({"hour": 2}), "2026-10-24T12:00:00Z", &fold);
        // A zone whose clocks change at midnight, and one without changes.
        let gap = ["2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z"];
        check_times(
            json!({"hour": 0, "minute": 0, "zone": "Africa/Cairo"}),
            "2026-04-23T12:00:00Z",
            &gap,
        );
        check_times(json!({"zone": "UTC"}), "2026-03-28T07:30:00Z", &["2026-03-29T07:30:00Z"]);
    }

    #[test]
    fn a_clock_that_was_set_back_does_not_end_mails() {
        let second = |text: &str| text.parse::<Timestamp>().unwrap().as_second();
        let (due, now) = (second("2026-12-01T06:30:00Z"), second("2026-12-01T07:00:00Z"));
        for (done, expected) in [
            ("2026-11-30T06:30:00Z", Some(due)),
            ("2026-12-01T06:30:00Z", None),
            ("2026-12-01T07:50:00Z", None),
            ("2026-12-01T08:01:00Z", Some(due)),
            ("2027-12-01T06:30:00Z", Some(due)),
        ] {
            assert_eq!(unsent(&wanted(json!({})), second(done), now), expected, "{done}");
        }
    }

    #[test]
    fn days_of_the_week_and_of_the_month() {
        // 1 December 2026 is a Tuesday.
        let week = ["2026-12-01T06:30:00Z", "2026-12-05T06:30:00Z", "2026-12-08T06:30:00Z"];
        check_times(json!({"every": "week", "weekdays": [6, 2]}), "2026-12-01T00:00:00Z", &week);
        let month = ["2027-01-31T06:30:00Z", "2027-02-28T06:30:00Z", "2027-03-31T05:30:00Z"];
        check_times(json!({"every": "month", "month_day": 31}), "2027-01-01T00:00:00Z", &month);
        for wrong in [
            json!({"hour": 24}),
            json!({"minute": 60}),
            json!({"zone": "Mars/Olympus"}),
            json!({"every": "week"}),
            json!({"every": "week", "weekdays": [0]}),
            json!({"every": "week", "weekdays": [8]}),
            json!({"every": "month"}),
            json!({"every": "month", "month_day": 32}),
        ] {
            assert!(check(&wanted(wrong.clone())).is_err(), "{wrong}");
        }
    }
}
