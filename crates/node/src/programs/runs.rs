//! Runs over a past interval: a program computes the buckets of the interval again, and its rows
//! replace the earlier ones in one step, when the run is added to the list of completed runs.
//!
//! A bucket that fails ends the run, and nothing is replaced.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use collector::ALONE_BYTES_MAX;
use programs::Language;
use programs::summary::Rerun;
use query::source::TimeRange;
use query::{Query, RunError, Scratch};

use super::compiled::Compiled;
use super::compute::{BUCKETS_MAX, Engine, TOGETHER_LINES_MAX, TOGETHER_MAX};
use super::rows::{self, BucketOf, StoredRow};
use super::runner::RowWriter;
use crate::programs::summary::reruns::{KeptReruns, RerunError};

/// Buckets of one run.
///
/// limits.md, Programs of users: buckets of a run over the past | {} with lines | it is refused
const RUN_BUCKETS_MAX: usize = 1_000_000;

/// What runs work with.
pub struct RunContext<'a> {
    /// What computes a bucket.
    pub engine: &'a Engine,
    /// Makes rows durable.
    pub writer: &'a RowWriter,
    /// The runs so far, whose rows later ones replace.
    pub kept: &'a KeptReruns,
    /// Limits, progress and cancellation of the entry in the queue.
    pub context: &'a query::Context,
    /// An error if the run has to stop.
    pub check: &'a dyn Fn() -> Result<(), RunError>,
}

/// A completed run.
#[derive(Debug)]
pub struct Done {
    /// Buckets that had lines.
    pub buckets: u64,
    /// Rows.
    pub rows: u64,
}

/// Computes an interval again, and replaces its rows.
pub fn run(
    with: &RunContext<'_>,
    compiled: &Compiled,
    range: TimeRange,
) -> Result<Done, RerunError> {
    let _guard = with.kept.enter()?;
    let id = with.writer.next_revision();
    let write = |lines: &[u8]| with.writer.write(lines).map_err(RerunError::NotKept);
    let (mut lines, mut rows) = (Vec::new(), 0);
    let (range, buckets) = compute(with, compiled, range, &mut |start_ns, made| {
        let width_ns = i64::from(compiled.definition.width_s) * text::duration::SECOND_NS;
        let end_ns = start_ns.saturating_add(width_ns);
        let bucket = BucketOf {
            program: &compiled.definition.name,
            start_ns,
            width_s: compiled.definition.width_s,
            revision: id,
            is_of_run: true,
            is_partial: end_ns > with.writer.now_ns(),
        };
        let mut own = Vec::new();
        rows::write_bucket(&bucket, made, &mut own);
        if own.len() > ALONE_BYTES_MAX {
            return Err(too_large(start_ns));
        }
        if lines.len() + own.len() > ALONE_BYTES_MAX {
            write(&lines)?;
            lines.clear();
        }
        lines.append(&mut own);
        rows += made.len() as u64;
        Ok(())
    })?;
    if !lines.is_empty() {
        write(&lines)?;
    }
    // The last chance to cancel the run.
    (with.check)()?;
    let run = Rerun {
        id,
        summary_of: compiled.definition.name.clone(),
        start_ns: range.start_ns,
        end_ns: range.end_ns,
        through: None,
    };
    with.kept.add(run)?;
    Ok(Done { buckets, rows })
}

/// Rows of a trial.
#[derive(Debug)]
pub struct Tried {
    /// The rows, in order of time.
    pub rows: Vec<StoredRow>,
    /// Buckets that had lines.
    pub buckets: u64,
    /// Whether rows were left out.
    pub is_cut: bool,
}

/// Computes an interval and stores nothing; gives at most `rows_max` rows.
pub fn try_out(
    with: &RunContext<'_>,
    compiled: &Compiled,
    range: TimeRange,
    rows_max: usize,
) -> Result<Tried, RerunError> {
    let (mut found, mut is_cut) = (Vec::new(), false);
    let (_, buckets) = compute(with, compiled, range, &mut |time_ns, made| {
        for (number, row) in made.iter().enumerate() {
            if found.len() >= rows_max {
                is_cut = true;
                return Ok(());
            }
            let mut text = Vec::new();
            row.write_json(&mut text);
            found.push(StoredRow {
                is_partial: false,
                time_ns,
                width_s: compiled.definition.width_s,
                revision: 0,
                row: number as u64,
                fields: serde_json::from_slice(&text).expect("it was just written"),
            });
        }
        Ok(())
    })?;
    Ok(Tried { rows: found, buckets, is_cut })
}

/// Called with the start of a bucket, nanoseconds since 1970 UTC, and its rows.
type EachBucket<'a> = &'a mut dyn FnMut(i64, &[programs::Row]) -> Result<(), RerunError>;

/// Computes the buckets of an interval that have lines, in order of time. Returns the interval,
/// extended to whole buckets, and how many there were.
fn compute(
    with: &RunContext<'_>,
    compiled: &Compiled,
    range: TimeRange,
    each: EachBucket<'_>,
) -> Result<(TimeRange, u64), RerunError> {
    let all = compiled.buckets();
    let last = all.at(range.end_ns.saturating_sub(1));
    let range = TimeRange {
        start_ns: all.start_ns(all.at(range.start_ns)),
        end_ns: all.start_ns(last.saturating_add(1)),
    };
    let buckets = buckets_with_lines(with, compiled, range)?;
    let progress = &with.context.progress;
    progress.units_planned.store(buckets.len() as u64, Relaxed);
    let mut at = 0;
    while at < buckets.len() {
        (with.check)()?;
        let language = compiled.definition.language;
        let count = together(language, &buckets[at..]);
        let own: Vec<i64> = buckets[at..at + count].iter().map(|(bucket, _)| *bucket).collect();
        let cancelled = Arc::clone(&with.context.cancelled);
        let outcomes = match language {
            Language::LogsQl if count > 1 => {
                with.engine.compute_together(compiled, &own, &cancelled)?
            }
            _ => with.engine.compute(compiled, (own[0], own[count - 1] + 1), &cancelled)?,
        };
        for (bucket, outcome) in outcomes {
            let start_ns = all.start_ns(bucket);
            let rows = outcome.result.map_err(|error| {
                let time = text::time::format_time(start_ns);
                RerunError::Program(format!("bucket {time}: {error}"))
            })?;
            each(start_ns, &rows)?;
            progress.rows.fetch_add(rows.len() as u64, Relaxed);
            progress.lines_scanned.fetch_add(outcome.usage.lines_given(), Relaxed);
        }
        at += count;
        progress.units_done.fetch_add(count as u64, Relaxed);
    }
    Ok((range, buckets.len() as u64))
}

/// How many of the first of these buckets, which have so many lines, are computed in one call, so
/// that a block is read once for them.
fn together(language: Language, buckets: &[(i64, u64)]) -> usize {
    let count = match language {
        Language::Awk => {
            let end = buckets.first().map_or(0, |(start, _)| start + BUCKETS_MAX);
            buckets.iter().take_while(|(bucket, _)| *bucket < end).count()
        }
        Language::LogsQl => {
            let mut sum = 0;
            let few = buckets.iter().take(TOGETHER_MAX).take_while(|(_, lines)| {
                sum = u64::saturating_add(sum, *lines);
                sum <= TOGETHER_LINES_MAX
            });
            few.count()
        }
    };
    count.max(1).min(buckets.len())
}

/// The numbers of the buckets that have lines for the program, in order, each with their number.
fn buckets_with_lines(
    with: &RunContext<'_>,
    compiled: &Compiled,
    range: TimeRange,
) -> Result<Vec<(i64, u64)>, RerunError> {
    let all = compiled.buckets();
    let text = format!("* | stats by (_time:{}s) count() lines", compiled.definition.width_s);
    let stats = Query::parse(&text, 0).map_err(|error| RunError::Failed(error.message))?;
    let query = Query::new(compiled.query.filter().clone(), stats.pipes().to_vec());
    let context = with.engine.context(range, &with.context.cancelled);
    let mut buckets = Vec::new();
    let mut scratch = Scratch::default();
    query::run(&query, &*with.engine.source(), &context, &mut |rows| {
        for index in 0..rows.len() {
            let lines = std::str::from_utf8(rows.get(index, "lines", &mut scratch));
            let lines = lines.ok().and_then(|lines| lines.parse().ok()).unwrap_or(u64::MAX);
            let time_ns = text::time::parse_timestamp(rows.get(index, "_time", &mut scratch));
            buckets.extend(time_ns.map(|time_ns| (all.at(time_ns), lines)));
        }
        match buckets.len() > RUN_BUCKETS_MAX {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    if buckets.len() > RUN_BUCKETS_MAX {
        return Err(RerunError::Program(format!(
            "the interval has more than {RUN_BUCKETS_MAX} buckets with lines; run it in parts"
        )));
    }
    buckets.sort_unstable();
    buckets.dedup_by_key(|(bucket, _)| *bucket);
    Ok(buckets)
}

fn too_large(start_ns: i64) -> RerunError {
    let time = text::time::format_time(start_ns);
    RerunError::Program(format!(
        "bucket {time}: its rows have more than {} MiB; group by fewer values",
        ALONE_BYTES_MAX >> 20
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_with_few_lines_are_computed_together() {
        let check = |language, buckets: &[(i64, u64)], expected: usize| {
            assert_eq!(together(language, buckets), expected, "{language:?} {buckets:?}");
        };
        let many: Vec<(i64, u64)> = (0..5_000).map(|n| (10 * n, 3)).collect();
        check(Language::LogsQl, &many, TOGETHER_MAX);
        check(Language::LogsQl, &[(1, 5), (900, 7)], 2);
        check(Language::LogsQl, &[(1, TOGETHER_LINES_MAX), (2, 1)], 1);
        check(Language::LogsQl, &[(1, u64::MAX), (2, 1)], 1);
        check(Language::LogsQl, &[(1, 1), (2, TOGETHER_LINES_MAX)], 1);
        // Each bucket of a program in AWK is an open process.
        check(Language::Awk, &many, 1);
        check(Language::Awk, &[(1, 1), (2, 1), (8, 1), (9, 1)], 3);
    }
}
