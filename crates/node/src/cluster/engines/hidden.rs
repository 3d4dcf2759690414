//! The lines that deletions cover: queries hide them, frames lose them when they are sealed, and
//! segments when they are searched.
//!
//! A unit with such lines is read whole, and its lines are copied without them; what is kept about
//! whole units counts them, so it is not used. This costs time only until the segment is searched.
//!
//! Filters are compiled once on a node, and not for each query. A segment costs nothing for
//! deletions that it was searched for, and frames nothing for those from before they arrived; so
//! deletions that are done, and wait for lines that come late, cost a query next to nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cluster::deletions::{IN_FORCE_MAX, Tombstone};
use query::source::{ChooseLines, DamagedUnit, Phrases, ScanUnit, SomeLines, SourceError};
use record::{Batch, LineId, RowsWriter, Tenant, read_rows};
use segment::sealed::SealedFile;
use serde::{Deserialize, Serialize};
use store::LineFilter;

use crate::storage::line_filter::line_filter;

/// A deletion, as one node tells it another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HiddenLines {
    /// The id of the deletion.
    pub id: u64,
    /// Selects the lines.
    pub filter: String,
    /// Lines that arrived before are covered: nanoseconds since 1970 UTC.
    pub before_ns: i64,
}

impl From<&Tombstone> for HiddenLines {
    fn from(tombstone: &Tombstone) -> HiddenLines {
        let Tombstone { id, filter, created_ns } = tombstone;
        HiddenLines { id: *id, filter: filter.clone(), before_ns: *created_ns }
    }
}

/// The compiled filters of the deletions that this node met last.
#[derive(Default)]
pub struct Compiled {
    covers: Mutex<BTreeMap<u64, Arc<Cover>>>,
}

impl Compiled {
    /// Deletions with their filters, of which those are compiled that are not known yet.
    ///
    /// Errors: a filter is not understood; the text names the deletion.
    pub fn covering(
        &self,
        hidden: impl IntoIterator<Item = HiddenLines>,
    ) -> Result<Covering, String> {
        let mut deletions = Vec::new();
        for hidden in hidden {
            let known = self.lock().get(&hidden.id).filter(|cover| cover.hidden == hidden).cloned();
            deletions.push(match known {
                Some(cover) => cover,
                None => {
                    let cover = Arc::new(Cover::new(hidden)?);
                    let mut covers = self.lock();
                    covers.insert(cover.hidden.id, Arc::clone(&cover));
                    while covers.len() > IN_FORCE_MAX {
                        covers.pop_first();
                    }
                    cover
                }
            });
        }
        deletions.sort_by_key(|cover| cover.hidden.id);
        Ok(Covering { deletions })
    }

    /// Forgets the filters of deletions that are not in force any more: they may name the very
    /// value that had to go.
    pub fn retain(&self, in_force: &[Tombstone]) {
        let is_in_force = |id| in_force.binary_search_by_key(&id, |tombstone| tombstone.id).is_ok();
        self.lock().retain(|id, _| is_in_force(*id));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Cover>>> {
        self.covers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Deletions with compiled filters, by id.
#[derive(Default)]
pub struct Covering {
    deletions: Vec<Arc<Cover>>,
}

struct Cover {
    hidden: HiddenLines,
    filter: LineFilter,
}

impl Cover {
    fn new(hidden: HiddenLines) -> Result<Cover, String> {
        let HiddenLines { id, filter, before_ns } = &hidden;
        let filter = line_filter(filter, *before_ns).map_err(|error| {
            format!(
                "the filter of deletion {id} is not understood, so its lines cannot be hidden: {error}; run the \
                 version of Loginson that began it, or cancel it"
            )
        })?;
        Ok(Cover { hidden, filter })
    }

    /// Whether it may cover lines with these event times that arrived at `received_ns` or later.
    fn may_cover(&self, times: Option<(i64, i64)>, received_ns: Option<i64>) -> bool {
        let (first, last) = self.filter.range_ns;
        times.is_none_or(|times| first <= times.1 && times.0 <= last)
            && received_ns.is_none_or(|received_ns| received_ns < self.hidden.before_ns)
    }
}

impl Covering {
    /// The id of the last one; 0 if there is none.
    pub fn last_id(&self) -> u64 {
        self.deletions.last().map_or(0, |cover| cover.hidden.id)
    }

    /// Those behind `searched`.
    fn behind(&self, searched: u64) -> &[Arc<Cover>] {
        &self.deletions[self.deletions.partition_point(|cover| cover.hidden.id <= searched)..]
    }

    /// Whether a deletion behind `searched` may cover lines with these event times.
    pub fn may_cover(&self, searched: u64, times: Option<(i64, i64)>) -> bool {
        self.behind(searched).iter().any(|cover| cover.may_cover(times, None))
    }

    /// Whether a deletion behind `searched` may cover lines of a segment.
    pub fn may_cover_any(&self, searched: u64, file: &SealedFile) -> bool {
        let blocks = &file.footer().blocks;
        !self.behind(searched).is_empty()
            && blocks.iter().any(|block| self.may_cover(searched, Some(block.time_ns)))
    }

    /// For each row whether a deletion behind `searched` covers it; none if no row is. `each` is
    /// called with the id of the first deletion that covers a row.
    pub fn select(
        &self,
        batch: &Arc<Batch>,
        searched: u64,
        each: &mut dyn FnMut(u64),
    ) -> Option<Vec<bool>> {
        let deletions = self.behind(searched);
        if deletions.is_empty() {
            return None;
        }
        let first_ns = batch.rows().map(|row| row.received_ns()).min()?;
        let mut gone: Option<Vec<bool>> = None;
        for cover in deletions {
            let Cover { hidden: HiddenLines { id, before_ns, .. }, filter } = &**cover;
            if first_ns >= *before_ns {
                continue;
            }
            let selected = (filter.selects)(batch);
            for row in batch.rows() {
                let index = row.index() as usize;
                if !selected[index] || row.received_ns() >= *before_ns {
                    continue;
                }
                let gone = gone.get_or_insert_with(|| vec![false; batch.len()]);
                if !std::mem::replace(&mut gone[index], true) {
                    each(*id);
                }
            }
        }
        gone
    }

    /// Whether a line of a batch is covered.
    pub fn covers(&self, batch: &Arc<Batch>, searched: u64, id: LineId) -> bool {
        let gone = self.select(batch, searched, &mut |_| {});
        gone.is_some_and(|gone| {
            batch.rows().any(|row| row.id() == id && gone[row.index() as usize])
        })
    }

    /// The unit without the lines that deletions behind `searched` cover. `received_ns`: when the
    /// first of its lines arrived, where that is known.
    pub fn hide(
        self: &Arc<Self>,
        unit: Box<dyn ScanUnit>,
        searched: u64,
        received_ns: Option<i64>,
    ) -> Box<dyn ScanUnit> {
        let times = unit.time_range_ns();
        match self.behind(searched).iter().any(|cover| cover.may_cover(times, received_ns)) {
            false => unit,
            true => Box::new(HidingUnit { unit, covering: Arc::clone(self), searched }),
        }
    }
}

/// The rows of a batch that are not gone.
fn without(batch: &Arc<Batch>, gone: &[bool]) -> Result<Batch, SourceError> {
    let failed = |error: &dyn std::fmt::Display| {
        SourceError(format!("lines cannot be copied without those that a deletion covers: {error}"))
    };
    let mut parts: Vec<Arc<Batch>> = Vec::new();
    let mut writer = RowsWriter::default();
    for row in batch.rows().filter(|row| !gone[row.index() as usize]) {
        if !writer.push(batch, &row) {
            parts.push(Arc::new(read_rows(&writer.take()).map_err(|error| failed(&error))?));
            writer.push(batch, &row);
        }
    }
    let last = read_rows(&writer.take()).map_err(|error| failed(&error))?;
    if parts.is_empty() {
        return Ok(last);
    }
    parts.push(Arc::new(last));
    Batch::merged(&parts).ok_or_else(|| failed(&"they have too many fields"))
}

struct HidingUnit {
    unit: Box<dyn ScanUnit>,
    covering: Arc<Covering>,
    searched: u64,
}

impl HidingUnit {
    fn gone(&self, batch: &Arc<Batch>) -> Option<Vec<bool>> {
        self.covering.select(batch, self.searched, &mut |_| {})
    }
}

impl ScanUnit for HidingUnit {
    fn time_range_ns(&self) -> Option<(i64, i64)> {
        self.unit.time_range_ns()
    }

    fn lines(&self) -> u64 {
        self.unit.lines()
    }

    fn are_lines_exact(&self) -> bool {
        false
    }

    fn bytes(&self) -> u64 {
        self.unit.bytes()
    }

    fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
        let Some(batch) = self.unit.load()? else { return Ok(None) };
        match self.gone(&batch) {
            None => Ok(Some(batch)),
            Some(gone) => Ok(Some(Arc::new(without(&batch, &gone)?))),
        }
    }

    fn load_lines(&self, choose: ChooseLines<'_>) -> Result<Option<SomeLines>, SourceError> {
        let Some(SomeLines { batch, mut rows }) = self.unit.load_lines(choose)? else {
            return Ok(None);
        };
        if let Some(gone) = self.gone(&batch) {
            rows.retain(|row| !gone[*row as usize]);
        }
        Ok(Some(SomeLines { batch, rows }))
    }

    fn may_hold(&self, phrases: &Phrases) -> Result<Option<Vec<bool>>, SourceError> {
        self.unit.may_hold(phrases)
    }

    fn tenant(&self) -> Option<Tenant> {
        self.unit.tenant()
    }

    fn damage(&self) -> Option<DamagedUnit> {
        self.unit.damage()
    }
}

#[cfg(test)]
mod tests {
    use record::{Format, FrameBuilder, Origin, Parser, ParserConfig, Transport};

    use super::*;

    /// Lines `a N` that arrived at N nanoseconds.
    fn batch(lines: u32) -> Arc<Batch> {
        let mut builder = FrameBuilder::new();
        let origin = Origin::new(Transport::SyslogTcp, Format::Auto, None);
        for number in 0..lines {
            let text = format!(r#"{{"_msg":"a {number}","number":"{number}"}}"#);
            builder.push_line(&origin, number.into(), text.as_bytes(), false);
        }
        let frame = builder.finish(7, 9).unwrap();
        Arc::new(Parser::new(&ParserConfig::default()).unwrap().parse(Arc::new(frame)))
    }

    struct OneBatch(Arc<Batch>);

    impl ScanUnit for OneBatch {
        fn time_range_ns(&self) -> Option<(i64, i64)> {
            None
        }
        fn lines(&self) -> u64 {
            self.0.len() as u64
        }
        fn bytes(&self) -> u64 {
            1
        }
        fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
            Ok(Some(Arc::clone(&self.0)))
        }
        fn load_lines(&self, choose: ChooseLines<'_>) -> Result<Option<SomeLines>, SourceError> {
            let rows = self.0.frame().and_then(|frame| choose(frame));
            Ok(rows.map(|rows| SomeLines { batch: Arc::clone(&self.0), rows }))
        }
    }

    fn hidden(id: u64, filter: &str, before_ns: i64) -> HiddenLines {
        HiddenLines { id, filter: filter.to_owned(), before_ns }
    }

    #[test]
    fn units_are_read_without_the_lines_of_deletions() {
        let all = batch(6);
        let check = |deletions: &[HiddenLines], searched, expected: &[u32]| {
            let covering =
                Arc::new(Compiled::default().covering(deletions.iter().cloned()).unwrap());
            let unit = covering.hide(Box::new(OneBatch(Arc::clone(&all))), searched, None);
            let loaded = unit.load().unwrap().unwrap();
            let lines: Vec<u32> = loaded.rows().map(|row| row.id().line).collect();
            assert_eq!(lines, expected, "{deletions:?}");
            for row in loaded.rows() {
                let before = all.row(row.id().line as usize);
                assert_eq!((row.raw(), row.id()), (before.raw(), before.id()));
                let fields = |row: record::Row<'_>, batch: &Batch| -> Vec<(String, Vec<u8>)> {
                    let owned = |(id, value): (_, &[u8])| (batch.name(id).to_owned(), value.into());
                    row.fields().map(owned).collect()
                };
                assert_eq!(fields(row, &loaded), fields(before, &all));
            }
            let chosen = unit.load_lines(&|_| Some(vec![1, 3, 5])).unwrap().unwrap();
            let expected: Vec<u32> =
                [1, 3, 5].into_iter().filter(|line| expected.contains(line)).collect();
            assert_eq!(chosen.rows, expected);
            let covered = (0..6).filter(|line| {
                let id = LineId { node: 7, sequence: 9, line: *line };
                !covering.covers(&all, searched, id)
            });
            assert_eq!(covered.collect::<Vec<u32>>(), lines);
        };
        check(&[], 0, &[0, 1, 2, 3, 4, 5]);
        check(&[hidden(3, "number:=2", 100)], 0, &[0, 1, 3, 4, 5]);
        check(&[hidden(3, "number:=2", 100)], 2, &[0, 1, 3, 4, 5]);
        check(&[hidden(3, "number:=2", 100)], 3, &[0, 1, 2, 3, 4, 5]);
        // Lines that arrived at the request, or later, stay.
        check(&[hidden(3, "a", 2)], 0, &[2, 3, 4, 5]);
        check(&[hidden(3, "a", 100)], 0, &[]);
        check(&[hidden(3, "number:=2", 100), hidden(4, "number:=4", 100)], 0, &[0, 1, 3, 5]);
        check(&[hidden(3, "number:=2", 100), hidden(4, "number:=4", 100)], 3, &[0, 1, 2, 3, 5]);
        let wrong = Compiled::default().covering([hidden(5, "(", 1)]);
        assert!(wrong.is_err_and(|why| why.contains("deletion 5")));
    }

    #[test]
    fn each_line_counts_for_one_deletion() {
        let both = [hidden(1, "number:=1", 9), hidden(2, "a", 3)];
        let covering = Compiled::default().covering(both).unwrap();
        let mut counts = std::collections::BTreeMap::new();
        covering.select(&batch(6), 0, &mut |id| *counts.entry(id).or_insert(0) += 1);
        assert_eq!(counts.into_iter().collect::<Vec<_>>(), [(1, 1), (2, 2)]);
    }

    #[test]
    fn a_unit_that_no_deletion_can_cover_stays_as_it_is() {
        let hidden = hidden(1, "a _time:[2026-01-01Z, 2026-01-02Z)", 9);
        let covering = Compiled::default().covering([hidden]).unwrap();
        let at = |time: &str| text::time::parse_timestamp(time.as_bytes()).unwrap();
        let times = (at("2026-01-02T00:00:00Z"), at("2026-01-03T00:00:00Z"));
        assert!(!covering.may_cover(0, Some(times)));
        assert!(!covering.may_cover(1, None));
        assert!(covering.may_cover(0, None));
        assert!(covering.may_cover(0, Some((at("2026-01-01T23:59:59Z"), times.1))));
        assert_eq!((covering.last_id(), Covering::default().last_id()), (1, 0));
    }

    #[test]
    fn a_filter_is_compiled_once_and_forgotten_with_its_deletion() {
        let compiled = Compiled::default();
        let of = |hidden: &[HiddenLines]| compiled.covering(hidden.iter().cloned()).unwrap();
        let (a, b) = (hidden(1, "number:=1", 9), hidden(2, "a", 3));
        let first = of(&[b.clone(), a.clone()]);
        let ids: Vec<u64> = first.deletions.iter().map(|cover| cover.hidden.id).collect();
        assert_eq!(ids, [1, 2]);
        let again = of(std::slice::from_ref(&b));
        assert!(Arc::ptr_eq(&again.deletions[0], &first.deletions[1]));
        // A restored catalog may give an id once more, to another deletion.
        let other = of(&[hidden(2, "a", 4)]);
        assert!(!Arc::ptr_eq(&other.deletions[0], &first.deletions[1]));
        let in_force = [Tombstone { id: 1, filter: a.filter.clone(), created_ns: 9 }];
        compiled.retain(&in_force);
        assert_eq!(compiled.lock().keys().copied().collect::<Vec<u64>>(), [1]);
        for id in 10..12 + IN_FORCE_MAX as u64 {
            of(&[hidden(id, "a", 1)]);
        }
        let known = compiled.lock();
        assert_eq!((known.len(), known.contains_key(&1)), (IN_FORCE_MAX, false));
    }

    /// What is hidden in frames is what was asked for after the first of their lines arrived.
    #[test]
    fn frames_that_arrived_after_a_deletion_are_read_as_they_are() {
        let covering = Arc::new(Compiled::default().covering([hidden(3, "a", 5)]).unwrap());
        let is_hidden = |received_ns| {
            let unit = Box::new(OneBatch(batch(6)));
            !covering.hide(unit, 0, received_ns).are_lines_exact()
        };
        assert_eq!([None, Some(4), Some(5)].map(is_hidden), [true, true, false]);
    }
}
