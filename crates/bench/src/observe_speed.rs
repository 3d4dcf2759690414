//! Measures how many lines a second the summary counts: `loginson-bench observe_speed FILE`.
//!
//! The file's lines are put into frames and parsed beforehand; only counting is timed. Each round
//! checks that all lines were counted.

use std::sync::Arc;
use std::time::Instant;

use programs::summary::{Summariser, SummaryConfig};
use record::{Format, FrameBuilder, Origin, Parser, ParserConfig, Transport};

const ROUNDS: u64 = 15;

pub(crate) fn main() {
    let path = crate::arguments().next().expect("usage: observe_speed FILE");
    let bytes = std::fs::read(&path).expect("the file can be read");
    let origin = Origin::new(Transport::File, Format::Auto, None);
    let mut parser = Parser::new(&ParserConfig::default()).expect("no rules");
    let (mut builder, mut batches) = (FrameBuilder::new(), Vec::new());
    for line in bytes.split_inclusive(|b| *b == b'\n').filter(|line| line.ends_with(b"\n")) {
        builder.push_lines(&origin, 1_800_000_000_000_000_000, line);
        if builder.is_full() {
            batches.extend(builder.finish(1, 1).map(|frame| parser.parse(Arc::new(frame))));
        }
    }
    batches.extend(builder.finish(1, 1).map(|frame| parser.parse(Arc::new(frame))));
    let lines: u64 = batches.iter().map(|batch| batch.len() as u64).sum();

    let mut rates: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let mut summariser = Summariser::new(SummaryConfig::default(), None);
            let begin = Instant::now();
            for (batch, position) in batches.iter().zip(1..) {
                summariser.observe(batch, position, 0);
            }
            let rate = lines as f64 / begin.elapsed().as_secs_f64();
            let rows = summariser.snapshot(None, i64::MIN, i64::MAX).rows;
            assert_eq!(rows.iter().map(|row| row.lines).sum::<u64>(), lines);
            rate
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    println!(
        "{lines} lines: {:.2} million a second (median of {ROUNDS})",
        rates[rates.len() / 2] / 1e6
    );
}
