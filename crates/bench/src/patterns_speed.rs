//! Measures how many messages a second one core counts, and how long patterns take.
//!
//! `loginson-bench patterns_speed [file …]`: the lines of the
//! files are messages; without files, excerpts of real logs. Each round redraws the digits, so that
//! values are new and skeletons are not.

use std::hint::black_box;
use std::time::Instant;

use analysis::patterns::{Counts, Scratch};

/// Messages counted for a figure.
const MESSAGES: usize = 4_000_000;
/// Messages made at once, outside the measured time.
const ROUND: usize = 50_000;

pub(crate) fn main() {
    let files: Vec<String> = crate::arguments().collect();
    if files.is_empty() {
        for entry in std::fs::read_dir("testdata/corpora").expect("run in the root of the project")
        {
            let path = entry.expect("a file").path();
            if path.extension().is_some_and(|extension| extension == "log") {
                measure(&path.display().to_string());
            }
        }
    }
    files.iter().for_each(|file| measure(file));
}

fn measure(file: &str) {
    let text = std::fs::read(file).expect("a readable file");
    let lines: Vec<&[u8]> = text.split(|&b| b == b'\n').filter(|line| !line.is_empty()).collect();
    let mut random = fastrand::Rng::with_seed(7);
    let (mut counts, mut scratch) = (Counts::new(Counts::SKELETONS_MAX), Scratch::default());
    let (mut pushed, mut bytes, mut seconds) = (0, 0, 0.0);
    while pushed < MESSAGES {
        let messages: Vec<Vec<u8>> =
            (0..ROUND).map(|i| redrawn(lines[(pushed + i) % lines.len()], &mut random)).collect();
        let start = cpu_seconds();
        for (i, message) in messages.iter().enumerate() {
            counts.push(message, Some((pushed + i) as i64), &mut scratch);
        }
        seconds += cpu_seconds() - start;
        pushed += ROUND;
        bytes += messages.iter().map(Vec::len).sum::<usize>();
    }
    let (skeletons, state_bytes) = (counts.groups().count(), counts.bytes());
    let start = Instant::now();
    let patterns = black_box(counts.patterns());
    let hits: u64 = patterns.iter().map(|pattern| pattern.group.hits).sum();
    assert_eq!(hits, pushed as u64, "every message is in a pattern");
    println!(
        "{file}: {:.2} million messages/s, {:.0} MB/s; {skeletons} skeletons in {state_bytes} bytes; \
         {} patterns in {:.1} ms",
        pushed as f64 / seconds / 1e6,
        bytes as f64 / seconds / 1e6,
        patterns.len(),
        start.elapsed().as_secs_f64() * 1e3,
    );
}

/// Time that this thread has run, without the time it waited for a core.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let nanoseconds: f64 = text.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    nanoseconds / 1e9
}

/// The line with another last digit in each number of several digits.
fn redrawn(line: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut line = line.to_vec();
    for i in 1..line.len() {
        let is_last = line.get(i + 1).is_none_or(|b| !b.is_ascii_digit());
        if line[i - 1].is_ascii_digit() && line[i].is_ascii_digit() && is_last {
            line[i] = random.u8(b'0'..=b'9');
        }
    }
    line
}
