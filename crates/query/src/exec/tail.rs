//! Live tail: a query over lines as they arrive.
//!
//! Its pipes are row-wise. Pipes that compute fields do so for a bounded number of lines at a time,
//! whose new values may take [`TAIL_BYTES_MAX`].

use std::sync::Arc;

use record::Batch;

use crate::base::{Account, Limits, Pulse, RunError, Whose};
use crate::block::{BatchLines, Block, NewNames, Scratch};
use crate::exec::ResultRows;
use crate::lang::context::Context;
use crate::lang::filter::Selector;
use crate::lang::pipe::{Pipe, RowWise, Work};
use crate::lang::restriction::Restriction;
use crate::lang::syntax::error::ParseError;
use crate::lang::syntax::query::Query;

/// Memory of the values that pipes compute for the lines handled at a time. A tail whose pipes need
/// more ends with [`RunError::MemoryLimit`].
const TAIL_BYTES_MAX: u64 = 64 << 20;

/// A query that runs over each new batch: a filter and row-wise pipes.
pub struct TailQuery {
    whose: Whose,
    selector: Selector,
    steps: Vec<Box<dyn RowWise>>,
    include: Arc<[String]>,
    /// What the options of the query hide.
    seen: Restriction,
}

impl Query {
    /// Prepares the query to run over each new batch; `include` as in
    /// [`crate::lang::context::Context::include`]. An error when a pipe needs all rows before it
    /// can hand on the first.
    pub fn tail(&self, include: &[String]) -> Result<TailQuery, ParseError> {
        if self.has_subqueries() {
            return Err(ParseError {
                position: 0,
                expected: vec!["a list of values".to_owned()],
                message: "a query inside a filter cannot be followed live".to_owned(),
                query: self.to_string(),
            });
        }
        let step = |pipe: &Pipe| {
            pipe.row_wise().ok_or_else(|| {
                let (query, written) = (self.to_string(), pipe.to_string());
                let name = written.split(' ').next().unwrap_or_default();
                let message =
                    format!("\"{name}\" does not work line by line, so it cannot be followed live");
                let position = query.find(&format!("| {written}")).map_or(0, |at| at + 2);
                let expected = ["filter", "fields", "format", "extract", "math", "replace"];
                ParseError { position, expected: expected.map(String::from).into(), message, query }
            })
        };
        let steps: Vec<Box<dyn RowWise>> =
            self.pipes().iter().map(step).collect::<Result<_, _>>()?;
        Ok(TailQuery {
            whose: self.filter().whose(),
            selector: Selector::new(self.filter()),
            steps,
            include: include.into(),
            seen: Restriction { filter: None, hidden: self.options().hidden },
        })
    }
}

impl TailQuery {
    /// Also reads Loginson's own lines.
    pub fn with_own(self) -> TailQuery {
        TailQuery { whose: Whose::All, ..self }
    }

    /// Whose lines the tail reads.
    pub fn whose(&self) -> Whose {
        self.whose
    }

    /// The lines of a batch that the filter selects, in order, as they are before the pipes.
    /// Nothing ends this before the last line.
    pub fn selected(&self, batch: &Arc<Batch>, scratch: &mut Scratch) -> ResultRows {
        self.selected_while(batch, scratch, &Pulse::endless())
    }

    /// As [`TailQuery::selected`]; any lines if the pulse is over.
    pub fn selected_while(
        &self,
        batch: &Arc<Batch>,
        scratch: &mut Scratch,
        pulse: &Pulse<'_>,
    ) -> ResultRows {
        self.selected_of(batch, (0..batch.len() as u32).collect(), scratch, pulse)
    }

    /// As [`TailQuery::selected_while`], of some rows of a batch, which rise.
    pub fn selected_of(
        &self,
        batch: &Arc<Batch>,
        rows: Vec<u32>,
        scratch: &mut Scratch,
        pulse: &Pulse<'_>,
    ) -> ResultRows {
        let is_seen = self.whose == Whose::All || !batch.is_internal();
        let rows = if is_seen { rows } else { Vec::new() };
        let mut block = Block::Lines(BatchLines::new(self.seen.seen(batch), rows));
        self.selector.select(&mut block, scratch, pulse);
        ResultRows::new(block, self.include.clone())
    }

    /// Calls `each` with the rows that the query makes of a batch, in the order of its lines. The
    /// memory of computed values is counted in `account`. An error when a pipe makes values that
    /// are too long or too many, when this takes longer than a query may by default
    /// ([`Limits::default`]), or when `each` returns an error.
    pub fn rows(
        &self,
        batch: &Arc<Batch>,
        account: &Arc<Account>,
        scratch: &mut Scratch,
        each: &mut dyn FnMut(&ResultRows) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        self.rows_of(batch, (0..batch.len() as u32).collect(), account, scratch, each)
    }

    /// As [`TailQuery::rows`], of some rows of a batch, which rise.
    pub fn rows_of(
        &self,
        batch: &Arc<Batch>,
        rows: Vec<u32>,
        account: &Arc<Account>,
        scratch: &mut Scratch,
        each: &mut dyn FnMut(&ResultRows) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        let limits = Limits { memory_bytes_max: TAIL_BYTES_MAX, ..Limits::default() };
        let account = Arc::clone(account);
        let context = Context { limits, account, ..Context::default() };
        let pulse = context.meter().pulse();
        let block = self.selected_of(batch, rows, scratch, &pulse).into_block();
        pulse.end()?;
        let rows_max = self.steps.iter().map(|step| step.rows_max()).min().unwrap_or(usize::MAX);
        for mut part in block.into_parts(rows_max) {
            // The time that `each` takes does not count.
            let (mut meter, mut held) = (context.meter(), 0);
            let mut names: Vec<NewNames> = self.steps.iter().map(|_| NewNames::default()).collect();
            for (step, names) in self.steps.iter().zip(&mut names) {
                if part.is_empty() {
                    break;
                }
                let meter = &mut meter;
                held += step.apply(&mut part, &mut Work { scratch, names, meter })?;
            }
            if !part.is_empty() {
                each(&ResultRows::new(part, self.include.clone()))?;
            }
            names.into_iter().for_each(|names| names.give_back(&mut meter));
            meter.give_back(held);
        }
        Ok(())
    }
}
