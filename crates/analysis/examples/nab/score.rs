//! The score of the Numenta Anomaly Benchmark (NAB), as defined by Lavin and Ahmad, "Evaluating
//! Real-time Anomaly Detection Algorithms", 2015, and by version 1.1 of the benchmark.
//!
//! Each labelled window counts once, by its earliest detection: nearly 1 at its start, towards 0 at
//! its end; a window without one counts -1. A detection outside costs a share of `FALSE_POSITIVE`,
//! little just behind a window. The first 15% of a series, at most 750 values, do not count. The
//! sum is put on a scale on which no detection is 0 and a perfect detector 100.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;

/// Cost of a detection far from any window, in the standard profile. Weights of other results are
/// 1.
const FALSE_POSITIVE: f64 = 0.11;

/// A series of the benchmark.
pub struct Series {
    /// Its path below the data, with the category before the slash.
    pub name: String,
    /// Times in nanoseconds, and values.
    pub points: Vec<(i64, f64)>,
    /// First and last index of each window.
    pub windows: Vec<(usize, usize)>,
}

impl Series {
    /// The category: the folder of the series.
    pub fn category(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }

    /// Length in days.
    pub fn days(&self) -> f64 {
        match (self.points.first(), self.points.last()) {
            (Some(first), Some(last)) => (last.0 - first.0) as f64 / 86_400e9,
            _ => 0.0,
        }
    }

    /// Values at the start that are not scored.
    pub fn probation(&self) -> usize {
        ((self.points.len() as f64 * 0.15).floor() as usize).min(750)
    }
}

/// Reads all series that `windows.json` in `folder` names, from `data/` beside it.
pub fn read(folder: &Path) -> anyhow::Result<Vec<Series>> {
    let text = fs::read_to_string(folder.join("windows.json")).context("windows.json")?;
    let windows: BTreeMap<String, Vec<(String, String)>> = serde_json::from_str(&text)?;
    let mut series = Vec::new();
    for (name, windows) in windows {
        let text = fs::read_to_string(folder.join("data").join(&name)).context(name.clone())?;
        let rows = text.lines().skip(1).map(|line| line.split_once(',').context("no comma"));
        let rows = rows.collect::<anyhow::Result<Vec<_>>>().context(name.clone())?;
        let index = |time: &str| {
            let time = time.split('.').next().unwrap_or_default();
            rows.iter().position(|row| row.0 == time).context(format!("{name}: no value at {time}"))
        };
        let windows = windows.iter().map(|(start, end)| Ok((index(start)?, index(end)?)));
        let windows = windows.collect::<anyhow::Result<Vec<_>>>()?;
        let points = rows.iter().map(|(time, value)| Ok((nanoseconds(time)?, value.parse()?)));
        let points = points.collect::<anyhow::Result<Vec<_>>>().context(name.clone())?;
        series.push(Series { name, points, windows });
    }
    Ok(series)
}

/// Nanoseconds since 1970 of a time such as `2014-04-10 07:15:00`.
fn nanoseconds(time: &str) -> anyhow::Result<i64> {
    let period = text::time::parse_period(time).with_context(|| format!("{time} is no time"))?;
    Ok(period.start_ns)
}

/// What a detection at one value is worth.
#[derive(Clone, Copy)]
pub struct Detection {
    /// The score that the detector gave.
    pub score: f64,
    /// Its part in the result.
    worth: f64,
    /// The window that it lies in, counted over all series.
    window: Option<usize>,
}

impl Detection {
    /// Whether it lies in no window.
    pub fn is_false(&self) -> bool {
        self.window.is_none()
    }
}

/// What is detected at each scored value of a series; `windows_before` counts those of earlier
/// series.
pub fn detections(series: &Series, scores: &[f64], windows_before: usize) -> Vec<Detection> {
    let at = |(index, &score): (usize, &f64)| {
        let inside = series.windows.iter().position(|&(a, b)| (a..=b).contains(&index));
        let worth = match inside {
            Some(window) => {
                let (start, end) = series.windows[window];
                let position = -((end - index + 1) as f64) / (end - start + 1) as f64;
                sigmoid(position) / sigmoid(-1.0)
            }
            None => {
                let before = series.windows.iter().rfind(|(_, end)| *end < index);
                let position = before.map_or(f64::INFINITY, |&(start, end)| {
                    (index - end) as f64 / (end - start) as f64
                });
                sigmoid(position) * FALSE_POSITIVE
            }
        };
        Detection { score, worth, window: inside.map(|window| windows_before + window) }
    };
    scores.iter().enumerate().skip(series.probation()).map(at).collect()
}

fn sigmoid(position: f64) -> f64 {
    if position >= 3.0 { -1.0 } else { 2.0 / (1.0 + (5.0 * position).exp()) - 1.0 }
}

/// The result with a threshold, from the number of windows (none detected) up to the same number
/// (all detected at once).
pub fn worth(detections: &[Detection], windows: usize, threshold: f64) -> f64 {
    let mut found: BTreeMap<usize, f64> = BTreeMap::new();
    let mut sum = 0.0;
    for detection in detections.iter().filter(|detection| detection.score >= threshold) {
        match detection.window {
            None => sum += detection.worth,
            Some(window) => {
                let best = found.entry(window).or_insert(detection.worth);
                *best = best.max(detection.worth);
            }
        }
    }
    sum + found.values().sum::<f64>() - (windows - found.len()) as f64
}

/// The threshold with the best result.
pub fn best_threshold(detections: &[Detection]) -> f64 {
    let mut ordered = detections.to_vec();
    ordered.sort_unstable_by(|a, b| b.score.total_cmp(&a.score));
    let mut found: BTreeMap<usize, f64> = BTreeMap::new();
    let (mut sum, mut best) = (0.0, (0.0, f64::INFINITY));
    for (index, detection) in ordered.iter().enumerate() {
        match detection.window {
            None => sum += detection.worth,
            Some(window) => {
                let known = found.entry(window).or_insert(-1.0);
                sum += detection.worth.max(*known) - *known;
                *known = known.max(detection.worth);
            }
        }
        let is_last = ordered.get(index + 1).is_none_or(|next| next.score < detection.score);
        if is_last && sum > best.0 {
            best = (sum, detection.score);
        }
    }
    best.1
}

/// A result on the scale from 0 (no detection) to 100 (perfect).
pub fn normalised(worth: f64, windows: usize) -> f64 {
    100.0 * (worth + windows as f64) / (2.0 * windows as f64)
}
