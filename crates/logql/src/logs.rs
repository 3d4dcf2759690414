//! Queries for lines: the newest or oldest `limit` lines that pass all stages.
//!
//! Units of the store are read newest (or oldest) first. Once there are enough lines, units that
//! contain only times beyond them are not read. The memory is that of the requested lines, and
//! limited like that of other queries.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Instant;

use query::source::{
    ChooseLines, DamagedUnit, EachCount, Grouped, Phrases, Revisions, ScanUnit, SomeLines, Source,
    SourceError, Tables, TimeRange, Whose, WithColumns,
};
use query::{Context, Outcome, Pulse, Query, RunError, Share, SharePiece, SharePieces, Sides};
use record::{Batch, LineId, Tenant};

use crate::ast::LogQuery;
use crate::error::EvalError;
use crate::push::push;
use crate::stage::{DETECTED_LEVEL, Labels};
use crate::stored::{Reader, RowFields};
use crate::{CHECK_BYTES, CHECK_ROWS};

/// A line of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its id.
    pub id: LineId,
    /// Sequence number of its frame in the store.
    pub sequence: u64,
    /// Its time, nanoseconds since 1970 UTC.
    pub time_ns: i64,
    /// Its text after the stages.
    pub line: String,
    /// Labels of its stream.
    pub stream: Labels,
    /// Its structured metadata with its level, and other fields on request.
    pub metadata: Labels,
    /// Labels that stages made.
    pub parsed: Labels,
}

impl Entry {
    /// Its memory, about.
    pub fn bytes(&self) -> usize {
        let labels = [&self.stream, &self.metadata, &self.parsed];
        let text: usize =
            labels.iter().flat_map(|l| l.iter()).map(|(n, v)| n.len() + v.len() + 48).sum();
        self.line.len() + text + 200
    }
}

/// Runs `query` over lines of `context.range`: returns the newest `limit` of them, newest first, or
/// with `forward` the oldest, oldest first. With `fields` all fields of a line are in its metadata.
pub fn run(
    query: &LogQuery,
    source: &dyn Source,
    context: &Context,
    limit: usize,
    forward: bool,
    fields: bool,
) -> Result<Vec<Entry>, EvalError> {
    let pushed = Query::new(push(query).filter, Vec::new());
    let bound = Arc::new(AtomicI64::new(if forward { i64::MAX } else { i64::MIN }));
    let nearest = Nearest { inner: source, bound: Arc::clone(&bound), forward };
    let mut run_context = Context { oldest_first: forward, limit: None, ..context.clone() };
    // Rows are evaluated here, not sent to the client.
    run_context.limits.rows_max = u64::MAX;
    let mut reader = Reader::default();
    let mut found: BTreeMap<(i64, LineId), Entry> = BTreeMap::new();
    let mut held = 0;
    let mut failed = None;
    let (started, mut looked) = (Instant::now(), 0u64);
    let pulse = Pulse::new(|| context.check(started));
    let memory_max = context.limits.memory_bytes_max;
    query::run(&pushed, &nearest, &run_context, &mut |rows| {
        for index in 0..rows.len() {
            // From the wanted end, so that few lines are added only to be removed later.
            let index = if forward { index } else { rows.len() - 1 - index };
            let (batch, place) = rows.line(index).expect("no pipe made rows");
            looked += 1;
            let is_long = batch.row(place as usize).raw().len() > CHECK_BYTES;
            if (is_long || looked.is_multiple_of(CHECK_ROWS))
                && let Err(error) = context.check(started)
            {
                failed = Some(error);
                return ControlFlow::Break(());
            }
            let row = batch.row(place as usize);
            let key = (row.time_ns(), row.id());
            let edge = if forward { found.last_key_value() } else { found.first_key_value() };
            if found.len() >= limit
                && edge.is_none_or(|(edge, _)| if forward { key > *edge } else { key < *edge })
            {
                continue;
            }
            let entry = look_while(query, &mut reader, (batch, place), fields, &pulse);
            if pulse.is_over() {
                return ControlFlow::Break(());
            }
            let Some(entry) = entry else { continue };
            held += entry.bytes() as u64;
            found.insert(key, entry);
            if found.len() > limit {
                let out = if forward { found.pop_last() } else { found.pop_first() };
                held -= out.map_or(0, |(_, entry)| entry.bytes() as u64);
            }
            context.progress.memory_bytes.store(held, Relaxed);
            if held > memory_max {
                failed = Some(RunError::MemoryLimit(memory_max));
                return ControlFlow::Break(());
            }
            if found.len() >= limit {
                let edge = if forward { found.last_key_value() } else { found.first_key_value() };
                let edge = edge.map_or(0, |((time_ns, _), _)| *time_ns);
                bound.store(edge, Relaxed);
            }
        }
        ControlFlow::Continue(())
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    pulse.end()?;
    context.progress.rows.store(found.len() as u64, Relaxed);
    Ok(if forward { found.into_values().collect() } else { found.into_values().rev().collect() })
}

/// The entry of a line that passes all stages. Nothing ends this before the last one.
pub fn look(
    query: &LogQuery,
    reader: &mut Reader,
    batch: &Arc<Batch>,
    place: u32,
    fields: bool,
) -> Option<Entry> {
    look_while(query, reader, (batch, place), fields, &Pulse::endless())
}

/// As [`look`]; none, or any entry, if the query ended meanwhile.
fn look_while(
    query: &LogQuery,
    reader: &mut Reader,
    (batch, place): (&Arc<Batch>, u32),
    fields: bool,
    pulse: &Pulse<'_>,
) -> Option<Entry> {
    let row = RowFields::of(batch, place);
    let labels = reader.stream(&row.row);
    let mut item = reader.item(batch, &labels, &row, pulse);
    if !query.stages.iter().all(|stage| item.apply(stage)) {
        return None;
    }
    let mut stream = Labels::new();
    item.stream_labels(|name, value| stream.push((name.to_owned(), value.to_owned())));
    let parsed = item.made_labels();
    let mut metadata = Labels::new();
    item.metadata_labels(|name, value| metadata.push((name.to_owned(), value.to_owned())));
    metadata.extend(item.level().map(|level| (DETECTED_LEVEL.to_owned(), level.to_owned())));
    if fields {
        for (id, value) in row.row.fields() {
            let name = batch.name(id);
            let shown = stream.iter().any(|(label, _)| label == name) || !item.shows_field(name);
            if !name.starts_with('_') && !value.is_empty() && !shown {
                metadata.push((name.to_owned(), String::from_utf8_lossy(value).into_owned()));
            }
        }
    }
    metadata.sort_unstable();
    metadata.dedup_by(|a, b| a.0 == b.0);
    Some(Entry {
        id: row.row.id(),
        sequence: row.row.sequence(),
        time_ns: item.time_ns,
        line: item.line.into_owned(),
        stream,
        metadata,
        parsed,
    })
}

/// A source whose units are skipped once they cannot contain nearer lines.
struct Nearest<'s> {
    inner: &'s dyn Source,
    /// The farthest time that is still needed.
    bound: Arc<AtomicI64>,
    forward: bool,
}

struct NearUnit {
    inner: Box<dyn ScanUnit>,
    bound: Arc<AtomicI64>,
    forward: bool,
}

impl Source for Nearest<'_> {
    fn units(&self, range: TimeRange, whose: Whose) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
        let near = |inner| -> Box<dyn ScanUnit> {
            Box::new(NearUnit { inner, bound: Arc::clone(&self.bound), forward: self.forward })
        };
        Ok(self.inner.units(range, whose)?.into_iter().map(near).collect())
    }

    fn sides(&self) -> Option<&dyn Sides> {
        self.inner.sides().map(|_| self as &dyn Sides)
    }

    fn revisions(&self) -> Option<Arc<dyn Revisions>> {
        self.inner.revisions()
    }

    fn tables(&self) -> Option<Arc<dyn Tables>> {
        self.inner.tables()
    }

    fn find(&self, id: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
        self.inner.find(id)
    }
}

/// Shares of sides that end once their lines are too far.
impl Sides for Nearest<'_> {
    fn begin(&self, share: &Share, context: &Context) -> Result<Box<dyn SharePieces>, RunError> {
        let inner = self.inner.sides().expect("it has been asked for before");
        let inner = inner.begin(share, context)?;
        Ok(Box::new(NearPieces { inner, bound: Arc::clone(&self.bound), forward: self.forward }))
    }
}

struct NearPieces {
    inner: Box<dyn SharePieces>,
    bound: Arc<AtomicI64>,
    forward: bool,
}

impl SharePieces for NearPieces {
    fn sides(&self) -> usize {
        self.inner.sides()
    }

    fn next(
        &mut self,
        side: Option<usize>,
        check: &dyn Fn() -> Result<(), RunError>,
    ) -> Result<(usize, Option<SharePiece>), RunError> {
        let (side, piece) = self.inner.next(side, check)?;
        if let Some(SharePiece::Lines(_, Some(rest_ns))) = piece {
            let bound = self.bound.load(Relaxed);
            if if self.forward { rest_ns > bound } else { rest_ns < bound } {
                self.inner.end(side);
            }
        }
        Ok((side, piece))
    }

    fn end(&mut self, side: usize) {
        self.inner.end(side);
    }

    fn outcome(&self) -> Outcome {
        self.inner.outcome()
    }
}

impl NearUnit {
    fn is_too_far(&self) -> bool {
        let bound = self.bound.load(Relaxed);
        self.inner.time_range_ns().is_some_and(|(oldest, newest)| {
            if self.forward { oldest > bound } else { newest < bound }
        })
    }
}

impl ScanUnit for NearUnit {
    fn time_range_ns(&self) -> Option<(i64, i64)> {
        self.inner.time_range_ns()
    }

    fn lines(&self) -> u64 {
        self.inner.lines()
    }

    fn are_lines_exact(&self) -> bool {
        self.inner.are_lines_exact()
    }

    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }

    fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
        if self.is_too_far() { Ok(None) } else { self.inner.load() }
    }

    // A unit that is too far is then loaded, which returns nothing.
    fn load_lines(&self, choose: ChooseLines<'_>) -> Result<Option<SomeLines>, SourceError> {
        if self.is_too_far() { Ok(None) } else { self.inner.load_lines(choose) }
    }

    fn times_ns(&self) -> Result<Option<Vec<i64>>, SourceError> {
        if self.is_too_far() { Ok(None) } else { self.inner.times_ns() }
    }

    fn damage(&self) -> Option<DamagedUnit> {
        self.inner.damage()
    }

    fn tenant(&self) -> Option<Tenant> {
        self.inner.tenant()
    }

    fn may_hold(&self, phrases: &Phrases) -> Result<Option<Vec<bool>>, SourceError> {
        if self.is_too_far() {
            Ok(Some(vec![false; phrases.all().len()]))
        } else {
            self.inner.may_hold(phrases)
        }
    }

    fn with_columns(&self, with: WithColumns<'_>) -> Result<bool, SourceError> {
        // A unit that is too far is then loaded, which returns nothing.
        if self.is_too_far() { Ok(false) } else { self.inner.with_columns(with) }
    }

    fn segment(&self) -> Option<(u64, usize)> {
        self.inner.segment()
    }

    fn count_segment(
        &self,
        grouped: Grouped<'_>,
        each: EachCount<'_>,
    ) -> Result<bool, SourceError> {
        self.inner.count_segment(grouped, each)
    }
}

#[cfg(test)]
mod tests {
    use query::source::{Damages, Revision};

    use super::*;
    use crate::ast::Expr;
    use crate::testing::{Memory, batch, record};

    /// Lines, of whose programs the second revision counts, and perhaps a unit that is damaged.
    struct Stored {
        lines: Memory,
        has_damage: bool,
    }

    #[derive(Debug)]
    struct SecondCounts;

    struct Damaged;

    impl Source for Stored {
        fn units(
            &self,
            range: TimeRange,
            whose: Whose,
        ) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
            let mut units = self.lines.units(range, whose)?;
            if self.has_damage {
                units.push(Box::new(Damaged));
            }
            Ok(units)
        }

        fn revisions(&self) -> Option<Arc<dyn Revisions>> {
            Some(Arc::new(SecondCounts))
        }

        fn find(&self, id: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
            self.lines.find(id)
        }
    }

    impl Revisions for SecondCounts {
        fn counting(&self, revisions: &[Revision]) -> Result<Vec<bool>, RunError> {
            Ok(revisions.iter().map(|revision| revision.number == 2).collect())
        }
    }

    impl ScanUnit for Damaged {
        fn time_range_ns(&self) -> Option<(i64, i64)> {
            Some((1, 2))
        }

        fn lines(&self) -> u64 {
            3
        }

        fn bytes(&self) -> u64 {
            30
        }

        fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
            Err(SourceError("a flip".to_owned()))
        }

        fn damage(&self) -> Option<DamagedUnit> {
            Some(DamagedUnit { segment: 1, unit: Some(0), lines: 3, error: "a flip".to_owned() })
        }
    }

    fn lines(text: &str, source: &Stored, context: &Context) -> Vec<String> {
        let Ok(Expr::Log(query)) = crate::parse(text) else { panic!("{text} is for lines") };
        let found = run(&query, source, context, 10, false, false).unwrap();
        found.into_iter().map(|entry| entry.line).collect()
    }

    #[test]
    fn rows_of_programs_that_later_ones_replaced_are_left_out() {
        let row = |revision: &str, text: &str| {
            let of_program = [
                ("_type", "summary"),
                ("program", "p"),
                ("revision", revision),
                ("bucket_s", "10"),
                ("row", "0"),
                ("_msg", text),
            ];
            record(10_000_000_000, &of_program)
        };
        let lines_of = Memory(vec![batch(1, &[row("1", "old"), row("2", "new")])]);
        let source = Stored { lines: lines_of, has_damage: false };
        let found = lines("{_type=\"summary\"}", &source, &Context::default());
        assert_eq!(found, ["new"]);
    }

    #[test]
    fn damaged_units_are_passed_over_where_the_caller_allows_it() {
        let plain = record(1, &[("_type", "plain"), ("_msg", "one")]);
        let source = Stored { lines: Memory(vec![batch(1, &[plain])]), has_damage: true };
        let damages = Arc::<Damages>::default();
        let context = Context { damages: Some(Arc::clone(&damages)), ..Context::default() };
        assert_eq!(lines("{}", &source, &context), ["one"]);
        assert_eq!(damages.lines(), 3);
    }
}
