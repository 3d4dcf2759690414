//! Pipes that compute fields of a row from other fields of the same row. This module has what they
//! share: the condition `if (filter)`, the words `keep_original_fields` and `skip_empty_results`,
//! and how new values get into a block.
//!
//! Blocks are split into pieces of [`COMPUTED_ROWS_MAX`] rows, which are handed on at once. Memory
//! is therefore bounded by one piece, whatever the size of a block. Its bytes count as memory of
//! the query.

use std::fmt;

use super::operator::{Mode, Node, Operator, RowWise, Work};
use super::shown::Shown;
use crate::base::bitmap::Bitmap;
use crate::base::names::NamePattern;
use crate::base::{FieldSet, Meter, Pulse, RunError};
use crate::block::{
    Block, COMPUTED_ROWS_MAX, Computed, FIELDS_MAX, Scratch, TooLong, VALUE_BYTES_MAX,
};
use crate::lang::filter::{Filter, Selector, parse_filter};
use crate::lang::pipe::ComputesNumbers;
use crate::lang::syntax::cursor::{Cursor, quote_name};
use crate::lang::syntax::error::ParseError;

/// A computing pipe as it is written in a query. Every type that implements this is an
/// [`Operator`].
pub(crate) trait ComputePipe: Node + fmt::Debug + fmt::Display + Send + Sync {
    /// Prepares the pipe to run.
    fn prepare(&self) -> Box<dyn Compute>;

    /// Selects the rows for which the pipe computes; none: all rows.
    fn condition(&self) -> Option<&Filter> {
        None
    }

    /// As [`ComputePipe::condition`], mutable.
    fn condition_mut(&mut self) -> Option<&mut Filter> {
        assert!(self.condition().is_none(), "a condition can be changed where there is one");
        None
    }

    /// Turns the fields that rows need behind the pipe into those they need before it, apart from
    /// the condition.
    fn needed_fields(&self, wanted: &mut FieldSet);

    /// The fields that the pipe sets, if they are known without rows.
    fn results(&self) -> Vec<&str>;

    /// As [`Operator::computes_numbers`].
    fn computes_numbers(&self) -> Option<&dyn ComputesNumbers> {
        None
    }

    /// Whether the pipe sets the time of rows, as far as names tell.
    fn sets_time(&self) -> bool {
        self.results().contains(&TIME)
    }

    /// As [`Operator::moves_time`].
    fn moves_time(&self) -> bool {
        false
    }

    /// As [`Operator::keeps_time`].
    fn keeps_time(&self) -> bool {
        !self.sets_time()
    }

    /// As [`Operator::settle_order`].
    fn settle_order(&mut self, _before: &dyn Fn() -> Option<Vec<String>>) {}

    /// As [`Operator::follow_names`].
    fn follow_names(&self, _shown: &mut Shown, _is_range: bool) -> Result<(), String> {
        Err("may not follow the last stats pipe here".to_owned())
    }
}

/// The field that orders rows.
const TIME: &str = "_time";

impl<P: ComputePipe> Operator for P {
    fn mode(&self) -> Mode {
        // Times that are all moved alike keep their order.
        match self.sets_time() && !ComputePipe::moves_time(self) {
            true => Mode::Streaming,
            false => Mode::RowWise,
        }
    }

    fn needed_fields(&self, mut wanted: FieldSet) -> FieldSet {
        ComputePipe::needed_fields(self, &mut wanted);
        self.condition().iter().for_each(|filter| filter.add_fields(&mut wanted));
        wanted
    }

    fn row_wise(&self) -> Option<Box<dyn RowWise>> {
        Some(Box::new(ComputeRows::new(self)))
    }

    fn keeps_time(&self) -> bool {
        ComputePipe::keeps_time(self)
    }

    fn moves_time(&self) -> bool {
        ComputePipe::moves_time(self)
    }

    fn keeps_rows(&self) -> bool {
        ComputePipe::keeps_time(self)
    }

    fn only_adds_fields(&self) -> bool {
        !self.sets_time()
    }

    fn computes_numbers(&self) -> Option<&dyn ComputesNumbers> {
        ComputePipe::computes_numbers(self)
    }

    fn filters(&self) -> Vec<&Filter> {
        self.condition().into_iter().collect()
    }

    fn filters_mut(&mut self) -> Vec<&mut Filter> {
        self.condition_mut().into_iter().collect()
    }

    fn settle_order(&mut self, before: &dyn Fn() -> Option<Vec<String>>) {
        ComputePipe::settle_order(self, before);
    }

    fn follow_names(&self, shown: &mut Shown, is_range: bool) -> Result<(), String> {
        ComputePipe::follow_names(self, shown, is_range)
    }
}

/// As [`ComputePipe::needed_fields`], for a pipe that computes `results` from `sources`. `always`:
/// for every row.
pub(super) fn needs_for<'n>(
    wanted: &mut FieldSet,
    results: &[&str],
    always: bool,
    sources: impl IntoIterator<Item = &'n str>,
) {
    if !results.iter().any(|result| wanted.contains(result)) {
        return;
    }
    if always {
        results.iter().for_each(|result| wanted.remove(result));
    }
    sources.into_iter().for_each(|source| wanted.add(source));
}

/// As [`needs_for`], for sources that may be beginnings of names.
pub(super) fn needs_for_patterns(
    wanted: &mut FieldSet,
    results: &[&str],
    always: bool,
    sources: &[NamePattern],
) {
    let is_wanted = results.iter().any(|result| wanted.contains(result));
    needs_for(wanted, results, always, []);
    if is_wanted {
        sources.iter().for_each(|source| wanted.add_pattern(source));
    }
}

/// Computes fields of rows, each from the fields of its row.
pub(crate) trait Compute: Send + Sync {
    /// Computes values for the rows in `rows`.
    fn compute(
        &self,
        block: &Block,
        rows: &Bitmap,
        out: &mut Output<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), RunError>;
}

/// When a computed value replaces the present value of a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overwrite {
    /// Does not replace a value that is not empty.
    pub keep_original: bool,
    /// Does not set empty values.
    pub skip_empty: bool,
}

impl Overwrite {
    /// Parses `keep_original_fields` and `skip_empty_results`, if they come next.
    pub(super) fn parse(cursor: &mut Cursor<'_>) -> Overwrite {
        let mut overwrite = Overwrite::default();
        loop {
            if cursor.eat_keyword("keep_original_fields") {
                overwrite.keep_original = true;
            } else if cursor.eat_keyword("skip_empty_results") {
                overwrite.skip_empty = true;
            } else {
                return overwrite;
            }
        }
    }
}

impl Overwrite {
    /// Whether every row gets the new value.
    pub fn is_always(self) -> bool {
        self == Overwrite::default()
    }
}

impl fmt::Display for Overwrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.keep_original { " keep_original_fields" } else { "" })?;
        f.write_str(if self.skip_empty { " skip_empty_results" } else { "" })
    }
}

/// Parses `if (filter)`, if it comes next.
pub(super) fn parse_condition(cursor: &mut Cursor<'_>) -> Result<Option<Filter>, ParseError> {
    if !cursor.eat_keyword("if") {
        return Ok(None);
    }
    cursor.expect('(', "if (…)")?;
    if cursor.eat(')') {
        return Ok(Some(Filter::All));
    }
    let filter = cursor.nested(parse_filter)?;
    cursor.expect(')', "if (…)")?;
    Ok(Some(filter))
}

/// Writes ` if (filter)`.
pub(super) fn write_condition(
    condition: &Option<Filter>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    condition.as_ref().map_or(Ok(()), |filter| write!(f, " if ({filter})"))
}

/// Parses a field behind `word`; `_msg`, or none, if the word does not come next.
pub(super) fn parse_field(
    cursor: &mut Cursor<'_>,
    word: &str,
) -> Result<Option<String>, ParseError> {
    if !cursor.eat_keyword(word) {
        return Ok(None);
    }
    Ok(Some(cursor.expect_string(false, "a field name")?.text))
}

/// Writes ` word name`, or nothing if the name is the default.
pub(super) fn write_field(
    word: &str,
    name: &str,
    otherwise: &str,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    if name == otherwise { Ok(()) } else { write!(f, " {word} {}", quote_name(name)) }
}

/// Receives computed values.
pub(crate) struct Output<'a> {
    block: &'a Block,
    computed: Computed,
    meter: &'a mut Meter,
    /// Bytes counted so far.
    counted: usize,
    scratch: Scratch,
    names: Vec<String>,
}

impl Output<'_> {
    /// The index of the column called `name`.
    pub fn column(&mut self, name: &str) -> usize {
        let column = self.computed.column(name);
        if column == self.names.len() {
            self.names.push(name.to_owned());
        }
        column
    }

    /// Sets a value, whatever the row has.
    pub fn set(&mut self, column: usize, row: usize, value: &[u8]) -> Result<(), RunError> {
        self.set_with(column, row, |out| out.extend_from_slice(value))
    }

    /// Sets the value that `write` appends, whatever the row has.
    pub fn set_with(
        &mut self,
        column: usize,
        row: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), RunError> {
        self.computed
            .set_with(column, row, write)
            .map_err(|TooLong| RunError::ValueLimit(VALUE_BYTES_MAX))?;
        self.count()
    }

    /// Sets a value, if `overwrite` allows it.
    pub fn put(
        &mut self,
        column: usize,
        row: usize,
        value: &[u8],
        overwrite: Overwrite,
    ) -> Result<(), RunError> {
        match self.wants(column, row, value.is_empty(), overwrite) {
            true => self.set(column, row, value),
            // Creating the column may have taken memory.
            false => self.count(),
        }
    }

    /// Whether the row takes a value under the rules of `overwrite`.
    pub fn wants(
        &mut self,
        column: usize,
        row: usize,
        is_empty: bool,
        overwrite: Overwrite,
    ) -> bool {
        if overwrite.skip_empty && is_empty {
            return false;
        }
        if !overwrite.keep_original {
            return true;
        }
        let old = self.block.column(&self.names[column]);
        self.block.value(old, row, &mut self.scratch).is_empty()
    }

    /// Checks now and then, while values are computed, whether the query may continue.
    pub fn pulse(&self) -> Pulse<'static> {
        self.meter.pulse()
    }

    /// The computed value of a row, if any.
    pub fn get(&self, column: usize, row: usize) -> Option<&[u8]> {
        self.computed.get(column, row)
    }

    /// Counts working memory for a row; [`Output::release`] gives it back.
    pub fn hold(&mut self, bytes: usize) -> Result<(), RunError> {
        self.meter.take(bytes)
    }

    /// Gives back working memory of a row.
    pub fn release(&mut self, bytes: usize) {
        self.meter.give_back(bytes);
    }

    /// Counts memory that was allocated since the last call.
    fn count(&mut self) -> Result<(), RunError> {
        let held = self.computed.memory_bytes();
        let more = held.saturating_sub(self.counted);
        if more > 0 {
            self.counted = held;
            self.meter.take(more)?;
        }
        Ok(())
    }
}

/// Runs a computation on the rows that pass a condition.
struct ComputeRows {
    compute: Box<dyn Compute>,
    condition: Option<Selector>,
}

impl ComputeRows {
    fn new(pipe: &dyn ComputePipe) -> ComputeRows {
        ComputeRows { compute: pipe.prepare(), condition: pipe.condition().map(Selector::new) }
    }
}

impl RowWise for ComputeRows {
    fn apply(&self, block: &mut Block, work: &mut Work<'_>) -> Result<usize, RunError> {
        let Work { scratch, meter, .. } = work;
        let mut rows = Bitmap::full(block.len());
        if let Some(condition) = &self.condition {
            condition.narrow(block, &mut rows, scratch, meter)?;
        }
        let computed = Computed::new(block.len());
        let mut out = Output {
            block,
            computed,
            meter,
            counted: 0,
            scratch: Scratch::default(),
            names: Vec::new(),
        };
        self.compute.compute(block, &rows, &mut out, scratch)?;
        out.count()?;
        let Output { computed, counted, .. } = out;
        if computed.columns() > FIELDS_MAX {
            return Err(RunError::FieldLimit(FIELDS_MAX));
        }
        Ok(counted + computed.add_to(block, scratch, meter)?)
    }

    fn rows_max(&self) -> usize {
        COMPUTED_ROWS_MAX
    }
}
