//! Planted anomalies of each kind are said, and series without are quiet.

use super::*;

const MINUTE_NS: i64 = super::super::MINUTE_NS;
/// A Monday.
const START_NS: i64 = 1_700_438_400_000_000_000;

/// Lines by chance with a mean: Poisson, by Knuth's product for few, by a normal for many.
fn poisson(random: &mut fastrand::Rng, mean: f64) -> f64 {
    if mean > 50.0 {
        let normal: f64 = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        return (mean + normal * mean.sqrt()).round().max(0.0);
    }
    let (limit, mut product, mut count) = ((-mean).exp(), random.f64(), 0.0);
    while product > limit {
        product *= random.f64();
        count += 1.0;
    }
    count
}

/// What is said of a series of minutes with these means, with the minute in which it is said.
fn said(seed: u64, minutes: i64, mean: impl Fn(i64) -> f64) -> Vec<(i64, Change)> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut series = Series::new(MINUTE_NS);
    (0..minutes)
        .filter_map(|minute| {
            let count = poisson(&mut random, mean(minute));
            series.observe(START_NS + minute * MINUTE_NS, count).map(|change| (minute, change))
        })
        .collect()
}

/// The findings that begin: the minute in which each is said, and its kind.
fn begins(said: &[(i64, Change)]) -> Vec<(i64, Kind)> {
    let begins = said.iter().filter_map(|(minute, change)| match change {
        Change::Begins(standing) => Some((*minute, standing.kind)),
        _ => None,
    });
    begins.collect()
}

#[test]
fn quiet_series_say_nothing() {
    let day = |minute: i64| (minute as f64 / 1_440.0 * std::f64::consts::TAU).sin();
    for seed in 0..10 {
        for mean in [0.02, 0.3, 2.0, 20.0, 400.0] {
            let found = said(seed, 4_000, |_| mean);
            assert!(found.is_empty(), "seed {seed}, mean {mean}: {found:?}");
        }
        let found = said(seed, 8_000, |minute| 100.0 + 60.0 * day(minute));
        assert!(found.is_empty(), "seed {seed}, a day: {found:?}");
        // A job at equal distances since ever, one that lasts, and pauses.
        let found = said(seed, 4_000, |minute| if minute % 30 < 2 { 200.0 } else { 1.0 });
        assert!(found.is_empty(), "seed {seed}, a job: {found:?}");
        let found = said(seed, 4_000, |minute| if minute % 90 < 60 { 50.0 } else { 0.0 });
        assert!(begins(&found).len() <= 3, "seed {seed}, pauses: {:?}", begins(&found));
    }
}

#[test]
fn each_kind_is_said_soon() {
    for seed in 0..10 {
        for mean in [6.0, 40.0, 1_000.0] {
            let at = 1_000;
            let check = |name: &str, kind: Kind, soon: i64, course: &dyn Fn(i64) -> f64| {
                let found = said(seed, at + 200, |minute| mean * course(minute));
                let begins = begins(&found);
                let first = begins.first().copied();
                let is_soon = first
                    .is_some_and(|(minute, of)| of == kind && (at..at + soon).contains(&minute));
                assert!(is_soon, "seed {seed}, mean {mean}, {name}: {found:?}");
                found
            };
            let during =
                |from: i64, minutes: i64| move |m: i64| (from..from + minutes).contains(&m);
            let silent = check("silent", Kind::Silent, 8, &|m| f64::from(!during(at, 60)(m)));
            let ended = silent.iter().find(|(_, change)| matches!(change, Change::Ends(_)));
            assert!((at + 60..at + 64).contains(&ended.unwrap().0), "{silent:?}");
            check("more", Kind::More, 12, &|m| if during(at, 20)(m) { 5.0 } else { 1.0 });
            let step = check("step", Kind::More, 12, &|m| if m >= at { 6.0 } else { 1.0 });
            let is_step = |(_, change): &(i64, Change)| matches!(change, Change::Changes(standing) if standing.kind == Kind::Step);
            assert!(step.iter().any(is_step), "seed {seed}, mean {mean}: {step:?}");
            if mean > 10.0 {
                check("less", Kind::Less, 20, &|m| if during(at, 40)(m) { 0.15 } else { 1.0 });
            }
        }
    }
}

#[test]
fn a_rhythm_is_said_when_it_begins_and_when_a_burst_is_missing() {
    for seed in 0..10 {
        let found = said(seed, 3_000, |m| if m >= 1_000 && m % 15 == 0 { 60.0 } else { 4.0 });
        let kinds = begins(&found);
        let rhythm = kinds.iter().find(|(_, kind)| *kind == Kind::Rhythm);
        assert!(rhythm.is_some_and(|(minute, _)| *minute < 1_150), "seed {seed}: {found:?}");
        let found = said(seed, 3_000, |m| if m % 60 == 0 && m != 2_400 { 80.0 } else { 0.5 });
        let Some((2_430..2_460, Change::Begins(standing))) = found.first() else {
            panic!("seed {seed}: {found:?}");
        };
        assert_eq!(standing.kind, Kind::Rhythm);
        assert!(standing.reason.starts_with("no burst for 1h3"), "{}", standing.reason);
        assert!(matches!(found[..], [_, .., (2_460, Change::Ends(_))]), "seed {seed}: {found:?}");
    }
}

#[test]
fn a_time_that_nobody_watched_is_no_silence() {
    let mut series = Series::new(MINUTE_NS);
    for minute in (0..600).chain(900..1_500) {
        let change = series.observe(START_NS + minute * MINUTE_NS, 30.0 + (minute % 5) as f64);
        assert_eq!(change, None, "{minute}");
    }
    // What stands out ends with the gap.
    let mut last = None;
    for minute in (1_500..1_510).chain([2_000]) {
        last = series.observe(START_NS + minute * MINUTE_NS, 0.0).or(last);
    }
    assert!(matches!(last, Some(Change::Ends(_))), "{last:?}");
}

#[test]
fn an_hour_has_to_pass_first() {
    let found = said(1, 61, |minute| if minute >= 50 { 0.0 } else { 40.0 });
    assert!(begins(&found).iter().all(|(minute, _)| *minute >= 60), "{found:?}");
    let found = said(1, 60, |minute| if minute >= 50 { 0.0 } else { 40.0 });
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn what_lasts_a_day_is_usual() {
    let found = said(3, 6_000, |minute| if minute >= 1_000 { 0.0 } else { 40.0 });
    let ends = found.iter().filter(|(_, change)| matches!(change, Change::Ends(_)));
    assert_eq!(ends.count(), 1);
    assert_eq!(begins(&found).len(), 1, "{found:?}");
}

#[test]
fn no_number_panics() {
    let mut series = Series::new(MINUTE_NS);
    let values = [f64::NAN, f64::INFINITY, -5.0, 1e300, f64::MAX, f64::MIN_POSITIVE, 0.0];
    for (at, value) in values.iter().cycle().take(2_000).enumerate() {
        series.observe(i64::MAX / 2 + at as i64, *value);
        series.observe(at as i64 - 1_000, *value);
    }
    series.observe(i64::MAX, 1.0);
    series.observe(i64::MIN, 1.0);
}
