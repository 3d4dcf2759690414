//! The lines that deletions cover: queries hide them, frames lose them when they are sealed, and
//! segments when they are searched.
//!
//! A unit with such lines is read whole, and its lines are copied without them; what is kept about
//! whole units counts them, so it is not used. This costs time only until the segment is searched.

use std::sync::Arc;

use cluster::deletions::Tombstone;
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

/// Deletions with compiled filters.
#[derive(Default)]
pub struct Covering {
    deletions: Vec<Cover>,
}

struct Cover {
    id: u64,
    before_ns: i64,
    filter: LineFilter,
}

impl Covering {
    /// Compiles the filters.
    ///
    /// Errors: a filter is not understood; the text names the deletion.
    pub fn new(hidden: impl IntoIterator<Item = HiddenLines>) -> Result<Covering, String> {
        let compile = |HiddenLines { id, filter, before_ns }| {
            let filter = line_filter(&filter, before_ns).map_err(|error| {
                format!(
                    "the filter of deletion {id} is not understood, so its lines cannot be hidden: {error}; run the \
                     version of Loginson that began it, or cancel it"
                )
            })?;
            Ok::<_, String>(Cover { id, before_ns, filter })
        };
        let deletions = hidden.into_iter().map(compile).collect::<Result<_, _>>()?;
        Ok(Covering { deletions })
    }

    /// The id of the last one; 0 if there is none.
    pub fn last_id(&self) -> u64 {
        self.deletions.iter().map(|cover| cover.id).max().unwrap_or(0)
    }

    /// Whether a deletion behind `searched` may cover lines with these event times.
    pub fn may_cover(&self, searched: u64, times: Option<(i64, i64)>) -> bool {
        self.deletions.iter().any(|cover| {
            let (first, last) = cover.filter.range_ns;
            cover.id > searched && times.is_none_or(|times| first <= times.1 && times.0 <= last)
        })
    }

    /// Whether a deletion behind `searched` may cover lines of a segment.
    pub fn may_cover_any(&self, searched: u64, file: &SealedFile) -> bool {
        let blocks = &file.footer().blocks;
        blocks.iter().any(|block| self.may_cover(searched, Some(block.time_ns)))
    }

    /// For each row whether a deletion behind `searched` covers it; none if no row is. `each` is
    /// called with the id of the first deletion that covers a row.
    pub fn select(
        &self,
        batch: &Arc<Batch>,
        searched: u64,
        each: &mut dyn FnMut(u64),
    ) -> Option<Vec<bool>> {
        let mut gone: Option<Vec<bool>> = None;
        for Cover { id, before_ns, filter } in &self.deletions {
            let is_early = |received_ns: i64| received_ns < *before_ns;
            if *id <= searched || !batch.rows().any(|row| is_early(row.received_ns())) {
                continue;
            }
            let selected = (filter.selects)(batch);
            for row in batch.rows() {
                let index = row.index() as usize;
                if !selected[index] || !is_early(row.received_ns()) {
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

    /// The unit without the lines that deletions behind `searched` cover.
    pub fn hide(self: &Arc<Self>, unit: Box<dyn ScanUnit>, searched: u64) -> Box<dyn ScanUnit> {
        match self.may_cover(searched, unit.time_range_ns()) {
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
            let covering = Arc::new(Covering::new(deletions.iter().cloned()).unwrap());
            let unit = covering.hide(Box::new(OneBatch(Arc::clone(&all))), searched);
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
        assert!(Covering::new([hidden(5, "(", 1)]).is_err_and(|why| why.contains("deletion 5")));
    }

    #[test]
    fn each_line_counts_for_one_deletion() {
        let covering = Covering::new([hidden(1, "number:=1", 9), hidden(2, "a", 3)]).unwrap();
        let mut counts = std::collections::BTreeMap::new();
        covering.select(&batch(6), 0, &mut |id| *counts.entry(id).or_insert(0) += 1);
        assert_eq!(counts.into_iter().collect::<Vec<_>>(), [(1, 1), (2, 2)]);
    }

    #[test]
    fn a_unit_that_no_deletion_can_cover_stays_as_it_is() {
        let covering = Covering::new([hidden(1, "a _time:[2026-01-01Z, 2026-01-02Z)", 9)]).unwrap();
        let at = |time: &str| text::time::parse_timestamp(time.as_bytes()).unwrap();
        let times = (at("2026-01-02T00:00:00Z"), at("2026-01-03T00:00:00Z"));
        assert!(!covering.may_cover(0, Some(times)));
        assert!(!covering.may_cover(1, None));
        assert!(covering.may_cover(0, None));
        assert!(covering.may_cover(0, Some((at("2026-01-01T23:59:59Z"), times.1))));
        assert_eq!((covering.last_id(), Covering::default().last_id()), (1, 0));
    }
}
