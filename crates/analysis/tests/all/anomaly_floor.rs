//! The score of the detector on four series of the Numenta Anomaly Benchmark does not fall.

#[path = "../../examples/nab/score.rs"]
mod score;

use std::path::Path;

use analysis::anomaly::{Detector, SCORE_ANOMALOUS};
use score::{best_threshold, detections, normalised, worth};

/// Least score; 71.2 was measured.
const FLOOR: f64 = 65.0;

/// Score at the threshold of the detector, score at the best threshold, and alerts per series and
/// day, where the benchmark is told `told` of each verdict.
fn result(told: impl Fn(&analysis::anomaly::Verdict) -> f64) -> (f64, f64, f64) {
    let all = score::read(Path::new("testdata/nab")).unwrap();
    let (mut windows, mut days, mut everything) = (0, 0.0, Vec::new());
    for series in &all {
        let mut detector = Detector::new();
        let judged = series.points.iter().map(|&(time, value)| detector.observe(time, value));
        let scores: Vec<f64> = judged.map(|verdict| told(&verdict)).collect();
        everything.extend(detections(series, &scores, windows));
        windows += series.windows.len();
        days += series.days();
        assert!(!series.category().is_empty() && series.probation() < series.points.len());
    }
    let at = |threshold| normalised(worth(&everything, windows, threshold), windows);
    let alerts = everything.iter().filter(|d| d.score >= SCORE_ANOMALOUS).count();
    assert!(everything.iter().any(|d| !d.is_false()));
    (at(SCORE_ANOMALOUS), at(best_threshold(&everything)), alerts as f64 / days)
}

#[test]
fn the_score_does_not_fall() {
    let (own, best, alerts_per_day) = result(|v| if v.repeated { 0.0 } else { v.score });
    assert!(own >= FLOOR, "{own}");
    assert!(best >= own, "{best} {own}");
    assert!(alerts_per_day < 0.5, "{alerts_per_day}");
}

#[test]
fn the_scale_is_from_no_detection_to_a_perfect_one() {
    assert_eq!(result(|_| 0.0).0, 0.0);
    assert!(result(|_| 1.0).0 < 0.0, "alerts everywhere are worse than none");
}
