//! Rows of programs as documents, each revision of a bucket as it is stored.
//!
//! The id of a document names program, bucket and row, so that a later revision replaces the
//! earlier one. Rows of a run over a past interval are sent when the run is complete: behind the
//! arrivals, run by run, page by page. The cursor has both places: `r1-ARRIVALS-RUN-PAGE`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use programs::summary::Rerun;
use query::source::TimeRange;
use record::Batch;
use sinks::{Batch as Documents, Document, Value};

use super::feed::{ArrivalReader, Feed};
use crate::programs::rows::{Completed, RowPlace, StoredRow, parse_line};
use crate::programs::stage::ProgramStage;
use crate::storage::arrivals::Arrivals;

/// Buckets of a run that are sent together.
const PAGE_BUCKETS: i64 = 1_000;
/// Rows of a page; more are sent all the same, in further pages.
const PAGE_ROWS: usize = 20_000;
const SECOND_NS: i64 = 1_000_000_000;

/// Reads rows behind a cursor.
pub struct RowFeed {
    reader: ArrivalReader,
    programs: Arc<ProgramStage>,
    /// Programs whose rows are wanted; all if there is none.
    names: BTreeSet<String>,
    place: RunPlace,
    stopped: Arc<AtomicBool>,
}

/// Which runs were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RunPlace {
    /// The run that is being sent, or was last.
    run: u64,
    /// Where its next page begins, nanoseconds since 1970 UTC; `None`: it was sent as a whole.
    page_ns: Option<i64>,
}

impl RowFeed {
    /// A feed behind `cursor`, the text of an earlier batch.
    pub fn new(
        arrivals: Arc<dyn Arrivals>,
        programs: Arc<ProgramStage>,
        names: &[String],
        cursor: Option<&str>,
        from_beginning: bool,
        stopped: Arc<AtomicBool>,
    ) -> Result<RowFeed, String> {
        let (read, place) = match cursor.map(parse_cursor) {
            None => {
                // Runs of the past are in the rows that count, where these are sent from the
                // beginning.
                let last = programs.runs().list().iter().map(|run| run.id).max();
                (None, RunPlace { run: last.unwrap_or(0), page_ns: None })
            }
            Some(Some((read, place))) => (Some(read), place),
            Some(None) => {
                let text = cursor.unwrap_or_default();
                return Err(format!("'{text}' is no cursor of rows"));
            }
        };
        let reader = ArrivalReader::new(arrivals, read, from_beginning)?;
        let names = names.iter().cloned().collect();
        Ok(RowFeed { reader, programs, names, place, stopped })
    }

    fn wants(&self, program: &str) -> bool {
        self.names.is_empty() || self.names.contains(program)
    }

    /// A page of the next run that was not sent; `None` if there is no such run.
    fn next_page(&mut self) -> Result<Option<Vec<Document>>, String> {
        let runs = self.programs.runs();
        let is_next = |run: &&Rerun| {
            run.id > self.place.run || (run.id == self.place.run && self.place.page_ns.is_some())
        };
        let Some(run) = runs.list().iter().find(is_next).cloned() else { return Ok(None) };
        let begun = self.place.page_ns.filter(|_| run.id == self.place.run);
        let start_ns = begun.unwrap_or(run.start_ns);
        let mut documents = Vec::new();
        let mut end_ns = run.end_ns;
        if self.wants(&run.summary_of) {
            let width_ns = self.width_s(&run.summary_of) * SECOND_NS;
            end_ns = run.end_ns.min(start_ns.saturating_add(width_ns * PAGE_BUCKETS));
            let range = TimeRange { start_ns, end_ns };
            let context = self.programs.engine().context(range, &self.stopped);
            let found = self.programs.rows(&run.summary_of, &context, PAGE_ROWS);
            let found = found.map_err(|error| error.to_string())?;
            if let Some(cut_ns) = found.cut_ns {
                end_ns = cut_ns;
            }
            documents.extend(found.rows.iter().map(|row| document(&run.summary_of, row)));
            documents.extend(found.stale.iter().map(|place| deletion(&run.summary_of, place)));
        }
        let page_ns = (end_ns < run.end_ns).then_some(end_ns);
        self.place = RunPlace { run: run.id, page_ns };
        Ok(Some(documents))
    }

    /// The rows among lines that arrived, and deletions of rows that they replace.
    fn documents(&self, batches: &[Arc<Batch>]) -> Result<Vec<Document>, String> {
        let runs = self.programs.runs();
        let mut documents = Vec::new();
        // Buckets of which earlier revisions may have had more rows.
        let mut late: BTreeSet<(String, i64, u32)> = BTreeSet::new();
        for batch in batches.iter().filter(|batch| batch.is_internal()) {
            for row in batch.rows() {
                let Some(parsed) = parse_line(row.raw()) else { continue };
                let wanted = self.wants(&parsed.program)
                    && !parsed.is_of_run
                    && Completed::of(&parsed.program, &runs).counts(
                        parsed.row.time_ns,
                        parsed.row.revision,
                        false,
                    );
                // A bucket that has no rows any more may have had some, too.
                if wanted && is_late(&parsed.row) {
                    let place = (parsed.row.time_ns, parsed.row.width_s);
                    late.insert((parsed.program.clone(), place.0, place.1));
                }
                if wanted && parsed.has_row {
                    documents.push(document(&parsed.program, &parsed.row));
                }
            }
        }
        for (program, start_ns, width_s) in late {
            let end_ns = start_ns.saturating_add(i64::from(width_s) * SECOND_NS);
            let context =
                self.programs.engine().context(TimeRange { start_ns, end_ns }, &self.stopped);
            let found = self.programs.rows(&program, &context, PAGE_ROWS);
            let found = found.map_err(|error| error.to_string())?;
            documents.extend(found.stale.iter().map(|place| deletion(&program, place)));
        }
        Ok(documents)
    }

    fn width_s(&self, program: &str) -> i64 {
        let listed = self.programs.registry().get(program).ok();
        let compiled = listed.and_then(|listed| listed.compiled.ok());
        compiled.map_or(1, |compiled| i64::from(compiled.definition.width_s))
    }
}

impl Feed for RowFeed {
    fn next(&mut self) -> Result<Option<Documents>, String> {
        let before = self.reader.cursor().to_owned();
        let Some(batches) = self.reader.read()? else {
            let page = self.next_page()?;
            return Ok(page.map(|documents| Documents { documents, cursor: self.cursor() }));
        };
        match self.documents(&batches) {
            Ok(documents) => Ok(Some(Documents { documents, cursor: self.cursor() })),
            Err(error) => {
                self.reader.go_back(before);
                Err(error)
            }
        }
    }

    fn cursor(&self) -> String {
        let RunPlace { run, page_ns } = self.place;
        let page = page_ns.map_or("done".to_owned(), |page_ns| page_ns.to_string());
        format!("r1/{}/{run}/{page}", self.reader.cursor())
    }

    fn frames_left(&self) -> u64 {
        self.reader.frames_left()
    }
}

fn parse_cursor(text: &str) -> Option<(&str, RunPlace)> {
    let mut parts = text.strip_prefix("r1/")?.split('/');
    let (arrivals, run, page) = (parts.next()?, parts.next()?, parts.next()?);
    let page_ns = match page {
        "done" => None,
        page => Some(page.parse().ok()?),
    };
    Some((arrivals, RunPlace { run: run.parse().ok()?, page_ns }))
}

/// Whether a bucket was computed so long after its end that it was probably computed before.
fn is_late(row: &StoredRow) -> bool {
    let width_ns = i64::from(row.width_s) * SECOND_NS;
    let computed_ns = i64::try_from(row.revision).unwrap_or(i64::MAX).saturating_mul(1_000);
    computed_ns.saturating_sub(row.time_ns) > 2 * width_ns + 60 * SECOND_NS
}

fn id(program: &str, (time_ns, width_s, row): RowPlace) -> String {
    format!("{program}-{}-{width_s}-{row}", time_ns.div_euclid(SECOND_NS))
}

fn deletion(program: &str, place: &RowPlace) -> Document {
    Document::delete(id(program, *place), place.0)
}

fn document(program: &str, row: &StoredRow) -> Document {
    let own = [
        ("program", Value::from(program)),
        ("bucket_s", Value::from(row.width_s)),
        ("revision", Value::from(row.revision)),
    ];
    let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
    let fields = row.fields.0.iter().cloned();
    let id = id(program, (row.time_ns, row.width_s, row.row));
    Document::new(id, row.time_ns, own.chain(fields).collect())
}
