//! Scores the detector on the Numenta Anomaly Benchmark, standard profile.
//!
//! `cargo run --release -p loginson-analysis --example nab FOLDER`, where `FOLDER` has `data/` of
//! the benchmark (<https://github.com/numenta/NAB>) and its `labels/combined_windows.json` as
//! `windows.json`. A name of a series behind it prints the alerts of that series with their
//! reasons.

mod score;

use std::collections::BTreeSet;
use std::path::PathBuf;

use analysis::anomaly::{Detector, SCORE_ANOMALOUS, Verdict};
use anyhow::Context;
use score::{Detection, Series, best_threshold, detections, normalised, worth};

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let folder = PathBuf::from(arguments.next().context("the folder of the benchmark is missing")?);
    let all = score::read(&folder)?;
    match arguments.next() {
        Some(name) => print_alerts(&all, &name.to_string_lossy()),
        None => print_scores(&all),
    }
    Ok(())
}

fn print_scores(all: &[Series]) {
    let mut windows = 0;
    let mut results = Vec::new();
    for series in all {
        let scores: Vec<f64> = judged(series).map(|verdict| score_of(&verdict)).collect();
        results.push((series, detections(series, &scores, windows)));
        windows += series.windows.len();
    }
    let everything: Vec<Detection> = results.iter().flat_map(|(_, d)| d.clone()).collect();
    let best = best_threshold(&everything);

    println!("category                found of windows   false alerts   alerts per series and day");
    let categories: BTreeSet<&str> = all.iter().map(Series::category).collect();
    let mut cross_validated = 0.0;
    for &category in &categories {
        let (of, others): (Vec<_>, Vec<_>) =
            results.iter().partition(|(series, _)| series.category() == category);
        let (own, others) = (joined(&of), joined(&others));
        let own_windows: usize = of.iter().map(|(series, _)| series.windows.len()).sum();
        let days: f64 = of.iter().map(|(series, _)| series.days()).sum();
        cross_validated += worth(&own, own_windows, best_threshold(&others));
        let found = (worth(&own, own_windows, SCORE_ANOMALOUS) + own_windows as f64) / 2.0;
        let alerts = own.iter().filter(|d| d.score >= SCORE_ANOMALOUS).count();
        let wrong = own.iter().filter(|d| d.score >= SCORE_ANOMALOUS && d.is_false()).count();
        let rate = alerts as f64 / days;
        println!("{category:24}{found:5.1} of {own_windows:2}{wrong:18}{rate:20.2}");
    }
    let at = |threshold| normalised(worth(&everything, windows, threshold), windows);
    let days: f64 = all.iter().map(Series::days).sum();
    let alerts = everything.iter().filter(|d| d.score >= SCORE_ANOMALOUS).count();
    println!("series {}, windows {windows}", all.len());
    println!("alerts per series and day: {:.2}", alerts as f64 / days);
    println!("score at the best threshold, {best:.3}: {:.1}", at(best));
    println!(
        "score at the threshold of the detector, {SCORE_ANOMALOUS}: {:.1}",
        at(SCORE_ANOMALOUS)
    );
    let cross_validated = normalised(cross_validated, windows);
    println!("score with the threshold chosen on the other categories: {cross_validated:.1}");
}

fn joined(results: &[&(&Series, Vec<Detection>)]) -> Vec<Detection> {
    results.iter().flat_map(|(_, detections)| detections.clone()).collect()
}

fn judged(series: &Series) -> impl Iterator<Item = Verdict> {
    let mut detector = Detector::new();
    series.points.iter().map(move |&(time, value)| detector.observe(time, value))
}

/// What the benchmark is told: repetitions of an alert are none.
fn score_of(verdict: &Verdict) -> f64 {
    if verdict.repeated { 0.0 } else { verdict.score }
}

fn print_alerts(all: &[Series], name: &str) {
    for series in all.iter().filter(|series| series.name.contains(name)) {
        println!("{} windows {:?}", series.name, series.windows);
        for (index, verdict) in judged(series).enumerate().filter(|(_, v)| v.is_alert()) {
            let Some(reason) = verdict.reason else { continue };
            println!("{index:6} {:.2} {:?}: {reason}", verdict.score, reason.kind);
        }
    }
}
