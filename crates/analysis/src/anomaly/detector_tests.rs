//! Tests of the detector: each kind of anomaly is found, steady series are quiet, no input panics.

use proptest::prelude::*;

use super::*;
use crate::anomaly::reason::Kind;

const STEP_NS: i64 = 300 * NANOSECONDS;
/// Values of a day.
const DAY: i64 = 288;

/// A number from 0 to 1 that looks random.
fn noise(index: i64) -> f64 {
    let mixed = (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    ((mixed ^ (mixed >> 17)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11) as f64
        / (1_u64 << 53) as f64
}

fn steady(index: i64) -> f64 {
    50.0 + 10.0 * noise(index)
}

fn watch(count: i64, value: impl Fn(i64) -> f64) -> (Detector, Vec<Verdict>) {
    let mut detector = Detector::new();
    let verdicts =
        (0..count).map(|index| detector.observe(index * STEP_NS, value(index))).collect();
    (detector, verdicts)
}

/// The first alert from `from` on, and its index.
fn first_alert(verdicts: &[Verdict], from: usize) -> Option<(usize, Reason)> {
    let alert = |(index, verdict): (usize, &Verdict)| {
        verdict.is_alert().then(|| verdict.reason.map(|reason| (index, reason))).flatten()
    };
    verdicts.iter().enumerate().skip(from).find_map(alert)
}

#[test]
fn each_kind_is_found() {
    type Values = fn(i64) -> f64;
    let (from, within) = (2_000, 24);
    for (kind, after) in [
        (Kind::Spike, (|_| 160.0) as Values),
        (Kind::Drop, |_| 12.0),
        (Kind::Silence, |_| 0.0),
        (Kind::LevelShift, |index| steady(index) + if index < 2_001 { 4.0 } else { 7.0 }),
        (Kind::Variation, |index| if index % 2 == 0 { 46.0 } else { 64.0 }),
        (Kind::Flat, |_| 55.0),
    ] {
        let value = |index| if index < from { steady(index) } else { after(index) };
        let (_, verdicts) = watch(from + within, value);
        let kinds: Vec<Kind> =
            verdicts[from as usize..].iter().filter_map(|v| Some(v.reason?.kind)).collect();
        assert!(kinds.contains(&kind), "{kind:?} is not among {kinds:?}");
        let alert = first_alert(&verdicts, from as usize);
        assert!(alert.is_some(), "no alert of {kind:?}");
    }
}

#[test]
fn a_reason_tells_the_usual_values() {
    let (detector, _) = watch(1_000, steady);
    let says = |value| {
        let verdict = detector.clone().observe(1_000 * STEP_NS, value);
        verdict.reason.map(|reason| reason.to_string()).unwrap_or_default()
    };
    assert_eq!(says(0.0), "silent: 0, where 49 to 60 are usual");
    assert_eq!(says(160.0), "2.94 times the usual value: 160 instead of 54.4");
    assert_eq!(says(55.0), "");
}

#[test]
fn steady_series_are_quiet() {
    type Values = fn(i64) -> f64;
    let by_day =
        |index: i64| 100.0 - 80.0 * (index as f64 / DAY as f64 * std::f64::consts::TAU).cos();
    let _ = by_day;
    for (name, values, alerts_max) in [
        ("constant", (|_| 5.0) as Values, 0),
        ("zero", |_| 0.0, 0),
        ("even", steady, 6),
        // One value in a hundred is about a hundred times the least one.
        ("heavy", |index| 1.0 / (0.001 + noise(index)), 20),
        ("counts", |index| (6.0 * noise(index)).floor(), 6),
        ("day", |index| 60.0 + 40.0 * (index as f64 / 45.8).sin() + noise(index), 6),
    ] {
        let (_, verdicts) = watch(20 * DAY, values);
        let alerts = verdicts.iter().filter(|verdict| verdict.is_alert()).count();
        assert!(alerts <= alerts_max, "{name}: {alerts} alerts in 20 days");
    }
}

#[test]
fn about_two_of_a_hundred_lie_outside_the_band() {
    let (_, verdicts) = watch(5_000, steady);
    let outside = (1_000..5_000).filter(|&index| {
        let Verdict { low, high, .. } = verdicts[index];
        !(low..=high).contains(&steady(index as i64))
    });
    let share = outside.count() as f64 / 4_000.0;
    assert!(share < 0.03, "{share}");
    let last = verdicts.last().expect("there are some");
    assert!(last.high - last.low < 16.0, "{last:?}");
}

#[test]
fn a_value_is_judged_by_its_hour() {
    let by_day = |index: i64| if index % DAY < 144 { steady(index) } else { 10.0 * steady(index) };
    let (mut detector, _) = watch(14 * DAY + 60, by_day);
    let verdict = detector.observe((14 * DAY + 60) * STEP_NS, 550.0);
    assert!(verdict.is_alert(), "{verdict:?}");
    let reason = verdict.reason.expect("it is an alert").to_string();
    assert!(reason.starts_with("10 times the usual value at this hour: 550"), "{reason}");
}

#[test]
fn outliers_do_not_poison_the_baseline() {
    let (_, clean) = watch(1_500, steady);
    let (_, dirty) = watch(1_500, |index| if index % 250 == 99 { 1e12 } else { steady(index) });
    let (clean, dirty) = (clean[1_499], dirty[1_499]);
    assert!((clean.expected - dirty.expected).abs() < 2.0, "{clean:?} {dirty:?}");
    assert!(dirty.high < 80.0 && dirty.low > 40.0, "{dirty:?}");
}

#[test]
fn an_incident_is_one_alert() {
    let (_, verdicts) = watch(1_050, |index| if index < 1_000 { steady(index) } else { 500.0 });
    let alerts = verdicts[1_000..].iter().filter(|verdict| verdict.is_alert()).count();
    assert!((1..=3).contains(&alerts), "{alerts}");
    assert!(verdicts[1_003..1_006].iter().any(|verdict| verdict.score >= SCORE_ANOMALOUS));
}

#[test]
fn a_gap_is_no_anomaly() {
    let (mut detector, _) = watch(1_000, steady);
    for index in 2_000..2_100 {
        let verdict = detector.observe(index * STEP_NS, steady(index));
        assert!(verdict.score < SCORE_ANOMALOUS, "{index}: {verdict:?}");
    }
}

#[test]
fn no_number_is_not_learnt() {
    let (mut detector, _) = watch(500, steady);
    let untouched = detector.clone();
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let verdict = detector.observe(500 * STEP_NS, value);
        assert_eq!((verdict.score, verdict.is_alert()), (0.0, false));
        assert!((45.0..65.0).contains(&verdict.expected), "{verdict:?}");
    }
    assert_eq!(format!("{detector:?}"), format!("{untouched:?}"));
}

#[test]
fn a_stored_detector_resumes() {
    let (mut detector, _) = watch(700, steady);
    let stored = serde_json::to_string(&detector).unwrap();
    let mut resumed: Detector = serde_json::from_str(&stored).unwrap();
    for index in 700..800 {
        let value = if index == 750 { 400.0 } else { steady(index) };
        let verdicts = [&mut detector, &mut resumed].map(|d| d.observe(index * STEP_NS, value));
        // The text has fewer digits than the numbers.
        assert!((verdicts[0].score - verdicts[1].score).abs() < 1e-6, "{index}: {verdicts:?}");
        assert_eq!(verdicts[0].is_alert(), verdicts[1].is_alert(), "{index}");
    }
    let short = stored.replacen("\"counts\":[", "\"counts\":[1,", 1);
    assert!(serde_json::from_str::<Detector>(&short).is_err());
}

#[test]
fn a_damaged_state_does_not_panic() {
    let (detector, _) = watch(300, steady);
    let stored = serde_json::to_value(&detector).unwrap();
    let text = stored.to_string();
    let damage = ["-1e308", "-2147483648", "2147483647", "0"];
    for (start, digits) in text.match_indices(char::is_numeric).step_by(397) {
        for number in damage {
            let damaged = format!("{}{number}{}", &text[..start], &text[start + digits.len()..]);
            let Ok(mut detector) = serde_json::from_str::<Detector>(&damaged) else { continue };
            for index in 300..310 {
                detector.observe(index * STEP_NS, steady(index));
            }
        }
    }
}

#[test]
fn the_state_is_bounded() {
    let (detector, _) = watch(3_000, |index| steady(index) * 1e9);
    let tails = 10 * (64 * size_of::<f32>());
    let courses = (48 + 168) * (size_of::<f64>() + size_of::<u8>());
    let windows = (detector.recent.capacity() + detector.residuals.capacity()) * size_of::<f64>();
    let bytes = size_of::<Detector>() + tails + courses + windows;
    assert!(bytes <= Detector::BYTES_MAX, "{bytes}");
}

fn any_value() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>(),
        Just(f64::MAX),
        Just(f64::MIN),
        Just(f64::MIN_POSITIVE),
        Just(5e-324),
        Just(0.0),
        0.0..100.0_f64,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_series_is_judged(
        points in proptest::collection::vec((any::<i64>(), any_value(), 1_usize..40), 1..60),
    ) {
        let mut detector = Detector::new();
        for (time, value, times) in points {
            for _ in 0..times {
                let verdict = detector.observe(time, value);
                prop_assert!((0.0..=1.0).contains(&verdict.score), "{verdict:?}");
                prop_assert!(verdict.low <= verdict.expected, "{verdict:?}");
                prop_assert!(verdict.expected <= verdict.high, "{verdict:?}");
                prop_assert_eq!(verdict.reason.is_some(), verdict.score >= SCORE_ANOMALOUS);
                let _ = verdict.reason.map(|reason| reason.to_string());
            }
        }
    }
}
