//! Scores the watch: planted anomalies of each kind in made-up series, and, given a folder, the
//! series of the Numenta Anomaly Benchmark.
//!
//! `cargo run --release -p loginson-analysis --example watch [FOLDER]`, where `FOLDER` has `data/`
//! of the benchmark (<https://github.com/numenta/NAB>) and its `labels/combined_windows.json` as
//! `windows.json`.

#[allow(dead_code)]
#[path = "../nab/score.rs"]
mod score;

use std::path::Path;

use analysis::watch::{Board, FieldCounts, Kind, MINUTE_NS, Series, What};

/// Runs of each planted kind, with seeds from 0.
const SEEDS: u64 = 50;
/// A Monday.
const START_NS: i64 = 1_700_438_400_000_000_000;
/// When something happens, and for how long: after two days, for an hour.
const AT: i64 = 2_880;
const FOR: i64 = 60;

fn main() -> anyhow::Result<()> {
    planted();
    match std::env::args_os().nth(1) {
        Some(folder) => nab(Path::new(&folder)),
        None => Ok(()),
    }
}

/// The mean of a minute, of `usual` and of the minutes since it happened.
type Course = fn(usual: f64, since: i64) -> f64;

fn planted() {
    let kinds: [(&str, &[Kind], Course); 9] = [
        (
            "silent",
            &[Kind::Silent],
            |usual, since| {
                if (0..FOR).contains(&since) { 0.0 } else { usual }
            },
        ),
        ("new", &[Kind::New], |usual, since| if since >= 0 { usual } else { 0.0 }),
        ("step, three times", &[Kind::More, Kind::Step], |usual, since| {
            if since >= 0 { 3.0 * usual } else { usual }
        }),
        ("step, a quarter", &[Kind::Less, Kind::Step], |usual, since| {
            if since >= 0 { usual / 4.0 } else { usual }
        }),
        ("more, five times", &[Kind::More], |usual, since| {
            if (0..FOR).contains(&since) { 5.0 * usual } else { usual }
        }),
        ("less, a fifth", &[Kind::Less], |usual, since| {
            if (0..FOR).contains(&since) { usual / 5.0 } else { usual }
        }),
        ("rhythm begins", &[Kind::Rhythm, Kind::More], |usual, since| {
            usual + if since >= 0 && since % 10 == 0 { 8.0 * usual + 20.0 } else { 0.0 }
        }),
        ("a burst is missing", &[Kind::Rhythm], |usual, since| {
            let is_burst = since.rem_euclid(20) == 0 && !(0..FOR).contains(&since);
            usual + if is_burst { 8.0 * usual + 20.0 } else { 0.0 }
        }),
        ("nothing", &[], |usual, _| usual),
    ];
    println!(
        "planted             lines a minute   found of {SEEDS}   median delay   false findings"
    );
    for (name, kinds, course) in kinds {
        for usual in [2.0, 10.0, 100.0, 2_000.0] {
            let (mut delays, mut wrong) = (Vec::new(), 0);
            for seed in 0..SEEDS {
                let begins = found(seed, usual, course);
                let is_right =
                    |(at, kind): &&(i64, Kind)| kinds.contains(kind) && (0..FOR * 4).contains(at);
                delays.extend(begins.iter().find(is_right).map(|(at, _)| *at));
                // What follows within hours is of the same change.
                wrong += begins.iter().filter(|(at, _)| !(0..FOR * 8).contains(at)).count();
                wrong += usize::from(kinds.is_empty())
                    * begins.iter().filter(|(at, _)| (0..FOR * 8).contains(at)).count();
            }
            delays.sort_unstable();
            let delay = delays.get(delays.len() / 2).map_or("-".to_owned(), |m| format!("{m} min"));
            println!("{name:20}{usual:14}{:14}{delay:>15}{wrong:17}", delays.len());
        }
    }
    println!("false findings: of {SEEDS} series of four days each");
}

/// The findings of a series of four days beside an even one: minutes since it happened, and kind.
fn found(seed: u64, usual: f64, course: Course) -> Vec<(i64, Kind)> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut board = Board::new();
    let mut begins = Vec::new();
    for minute in 0..2 * AT {
        let lines = poisson(&mut random, course(usual, minute - AT));
        let mut values = vec![("even".to_owned(), 50.0)];
        if lines > 0.0 {
            values.push(("planted".to_owned(), lines));
        }
        let counts = [FieldCounts { field: "service".to_owned(), values }];
        let news = board.observe(START_NS + minute * MINUTE_NS, &counts, 10);
        let begun = news.iter().filter(|news| news.what == What::Begins);
        begins.extend(begun.map(|news| (minute - AT, news.finding.standing.kind)));
    }
    begins
}

/// A number by chance with a mean: Poisson, by Knuth's product for few, by a normal for many.
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

/// Windows in which a finding begins, and findings that begin in a window, behind the first 15% of
/// a series, of which the benchmark counts none.
fn nab(folder: &Path) -> anyhow::Result<()> {
    println!(
        "\ncategory                found of windows   findings   of them in windows   findings per series and day"
    );
    let all = score::read(folder)?;
    let categories: std::collections::BTreeSet<&str> = all.iter().map(|s| s.category()).collect();
    let mut sum = (0, 0, 0, 0, 0.0);
    for category in categories {
        let mut of = (0, 0, 0, 0, 0.0);
        for series in all.iter().filter(|series| series.category() == category) {
            let step_ns = (series.points[1].0 - series.points[0].0).max(1);
            let mut watch = Series::new(step_ns);
            let mut begins = Vec::new();
            for (index, (time, value)) in series.points.iter().enumerate() {
                let change = watch.observe(*time, *value);
                if matches!(change, Some(analysis::watch::Change::Begins(_)))
                    && index >= series.probation()
                {
                    begins.push(index);
                }
            }
            let has = |window: &(usize, usize)| {
                begins.iter().any(|at| (window.0..=window.1).contains(at))
            };
            let is_in = |at: &&usize| series.windows.iter().any(|w| (w.0..=w.1).contains(*at));
            of.0 += series.windows.iter().filter(|window| has(window)).count();
            of.1 += series.windows.len();
            of.2 += begins.len();
            of.3 += begins.iter().filter(is_in).count();
            of.4 += series.days();
        }
        row(category, of);
        sum = (sum.0 + of.0, sum.1 + of.1, sum.2 + of.2, sum.3 + of.3, sum.4 + of.4);
    }
    row("all", sum);
    println!(
        "recall {:.2}, precision {:.2}",
        sum.0 as f64 / sum.1.max(1) as f64,
        sum.3 as f64 / sum.2.max(1) as f64
    );
    Ok(())
}

fn row(name: &str, (found, windows, findings, right, days): (usize, usize, usize, usize, f64)) {
    println!(
        "{name:24}{found:5} of {windows:2}{findings:15}{right:18}{:26.2}",
        findings as f64 / days
    );
}
