//! The streams that lines belong to.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use query::source::{ScanUnit, Source, SourceError, TimeRange, Whose};
use query::{Context, Query, RunError, Sides};
use record::{Batch, LineId};

use crate::ast::Matcher;
use crate::push::matcher;
use crate::stage::Labels;
use crate::stored::Reader;

/// Memory of a stream besides its labels.
const STREAM_BYTES: u64 = 200;
/// Limit of the label names that [`names`] returns; others are left out.
const NAMES_MAX: usize = 10_000;

/// The streams of lines that pass all of `matchers`, with their numbers of lines, in order of
/// labels.
pub fn streams(
    matchers: &[Matcher],
    source: &dyn Source,
    context: &Context,
) -> Result<BTreeMap<Labels, u64>, RunError> {
    streams_of(&[matchers], source, context)
}

/// The streams of lines that pass all matchers of any of `selectors`, with their numbers of lines,
/// in order of labels.
pub fn streams_of(
    selectors: &[&[Matcher]],
    source: &dyn Source,
    context: &Context,
) -> Result<BTreeMap<Labels, u64>, RunError> {
    let one = |matchers: &&[Matcher]| query::Filter::and(matchers.iter().map(matcher).collect());
    let filter = query::Filter::or(selectors.iter().map(one).collect());
    let mut context = Context { limit: None, ..context.clone() };
    // Rows are evaluated here, not sent to the client.
    context.limits.rows_max = u64::MAX;
    let memory_max = context.limits.memory_bytes_max;
    let mut reader = Reader::default();
    let mut found: BTreeMap<Labels, u64> = BTreeMap::new();
    let mut held = 0;
    query::run(&Query::new(filter, Vec::new()), source, &context, &mut |rows| {
        for index in 0..rows.len() {
            let (batch, place) = rows.line(index).expect("no pipe made rows");
            let labels = reader.stream(&batch.row(place as usize));
            match found.get_mut(&*labels) {
                Some(lines) => *lines += 1,
                None => {
                    held += STREAM_BYTES
                        + labels.iter().map(|(n, v)| (n.len() + v.len() + 48) as u64).sum::<u64>();
                    context.progress.memory_bytes.store(held, Relaxed);
                    if held > memory_max {
                        return ControlFlow::Break(());
                    }
                    found.insert((*labels).clone(), 1);
                }
            }
        }
        ControlFlow::Continue(())
    })?;
    match held > memory_max {
        true => Err(RunError::MemoryLimit(memory_max)),
        false => Ok(found),
    }
}

/// The names, at most [`NAMES_MAX`], of labels of streams in the newest `units_max` units of the
/// store with lines of `range`.
pub fn names(
    source: &dyn Source,
    range: TimeRange,
    units_max: usize,
    check: &dyn Fn() -> Result<(), RunError>,
) -> Result<Vec<String>, RunError> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for unit in source.units(range, Whose::Sent)?.iter().take(units_max) {
        check()?;
        let Some(batch) = unit.load()? else { continue };
        // The origin of a line determines which fields make its stream.
        let mut seen = vec![false; batch.origins().len()];
        for row in batch.rows() {
            if std::mem::replace(&mut seen[usize::from(row.origin_index())], true) {
                continue;
            }
            check()?;
            for name in row.stream_fields() {
                if names.len() < NAMES_MAX {
                    names.insert(crate::label_name(name));
                }
            }
        }
    }
    Ok(names.into_iter().collect())
}

/// The number of streams of lines that pass all of `matchers`, in the newest `units_max` units of
/// the store.
pub fn count(
    matchers: &[Matcher],
    source: &dyn Source,
    context: &Context,
    units_max: usize,
) -> Result<usize, RunError> {
    let newest = Newest { inner: source, units_max };
    Ok(streams(matchers, &newest, context)?.len())
}

/// The newest part of a source.
struct Newest<'s> {
    inner: &'s dyn Source,
    units_max: usize,
}

impl Source for Newest<'_> {
    fn units(&self, range: TimeRange, whose: Whose) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
        let mut units = self.inner.units(range, whose)?;
        units.truncate(self.units_max);
        Ok(units)
    }

    /// Other nodes count all their lines.
    fn sides(&self) -> Option<&dyn Sides> {
        self.inner.sides()
    }

    fn find(&self, id: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
        self.inner.find(id)
    }
}
