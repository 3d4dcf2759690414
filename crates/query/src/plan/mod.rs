//! Decides how a query runs, before anything is read.
//!
//! A [`QueryPlan`] is a value. It holds which event times and whose lines a query reads, by which
//! words units are skipped ([`needs`]), whether lines are counted from rollups ([`rolled`]) or
//! columns instead of being read, which fields of lines are needed, the order of the rows, and
//! which pipe collects on several threads. `exec` carries the plan out and explains it.
//!
//! Planning knows the query and its context. Left out: the source, its units and rows, and with
//! them all facts known only once units are listed, such as their number, or only while they are
//! read, such as the time from which on the newest rows are complete.

pub(crate) mod counted;
pub(crate) mod first_rows;
pub(crate) mod needs;
pub(crate) mod raw_lines;
pub(crate) mod rolled;
pub(crate) mod vectors;

use crate::base::{FieldSet, TimeOrder, TimeRange, Whose};
use crate::lang::context::Context;
use crate::lang::pipe::{CountedBy, Facets, Merges, Pipe};
use crate::lang::syntax::query::Query;

use counted::counted_by;
use first_rows::FirstBy;
use needs::Needs;
use raw_lines::RawLines;
use rolled::Rolled;
use vectors::VectorPlan;

/// The order in which rows go to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// As they come from the last pipe.
    Stream,
    /// The newest rows, this many, newest first. Units that hold only older lines are not read.
    Newest(usize),
    /// By event time, the oldest first.
    Time(TimeOrder),
}

/// Where a pipe runs when lines are on several nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Site {
    /// Where the lines are.
    Lines,
    /// Where the lines are; the partial states are merged where the answer is given.
    Merged,
    /// Where the answer is given.
    Answer,
}

impl Site {
    pub fn shown(self) -> &'static str {
        match self {
            Site::Lines => "where the lines are",
            Site::Merged => "where the lines are, merged where the answer is given",
            Site::Answer => "where the answer is given",
        }
    }
}

/// What a query will do.
pub(crate) struct QueryPlan<'q> {
    pub query: &'q Query,
    /// Event times that the query reads.
    pub range: TimeRange,
    /// Whose lines the query reads.
    pub whose: Whose,
    /// The words without which a unit is not read.
    pub needs: Needs,
    /// The texts without which a line of a frame is not parsed; none: all lines are parsed.
    pub raw_lines: Option<RawLines>,
    /// Fields that pipes and client need of the lines that the filter selects.
    pub needed: FieldSet,
    /// Hidden computed fields that copies of rows keep, because the client or a pipe needs them.
    pub carried: Vec<String>,
    /// How rows are counted, if the first pipes do nothing else with them.
    pub counted: Option<CountedBy>,
    /// The first pipe, if it counts the values of all fields.
    pub facets: Option<&'q Facets>,
    /// How lines are counted from the counts that segments keep, if that is possible.
    pub rolled: Option<Rolled>,
    /// How the first pipes read vectors of values instead of rows, if they do.
    pub vectors: Option<VectorPlan<'q>>,
    /// In which order rows go to the client.
    pub order: Order,
    /// Whether the oldest units are read first.
    pub oldest_first: bool,
    /// How the first pipe chooses lines by a field, if it keeps only so many.
    pub first_by: Option<FirstBy>,
    /// Only this many of the newest lines of a unit are needed.
    pub newest_lines: Option<usize>,
    /// Only this many lines of a unit are needed, the first that the filter selects.
    pub lines_wanted: Option<usize>,
    /// For each pipe, the number of its rows that can reach the client; none where all can.
    pub rows_wanted: Vec<Option<u64>>,
    /// Index of the `sort` that keeps only the newest rows. Units are read as for
    /// [`Order::Newest`]: the newest first, until no other unit can hold one of the rows.
    pub newest_at: Option<usize>,
    /// Index of the `sort` that keeps only the oldest rows. The oldest units are read first, until
    /// no other unit can hold one of the rows.
    pub oldest_at: Option<usize>,
    /// Index of the pipe of which each thread can have its own instance.
    pub merged_at: Option<usize>,
}

impl<'q> QueryPlan<'q> {
    /// Plans a query whose subqueries have been replaced by values. `whose`: whose lines the filter
    /// selected before that.
    pub fn new(query: &'q Query, context: &Context, whose: Whose) -> QueryPlan<'q> {
        let pipes = query.pipes();
        let row_wise = pipes.iter().all(Pipe::is_row_wise);
        let order = match (&context.order, context.limit) {
            (Some(order), _) if row_wise => Order::Time(order.clone()),
            (None, Some(limit)) if row_wise && !context.oldest_first => {
                Order::Newest(limit.saturating_add(context.offset))
            }
            _ => Order::Stream,
        };
        // Pipes that drop rows may need more lines than the rows that are wanted.
        let newest_rows = first_rows::newest(pipes, context);
        let newest_lines = match (&order, newest_rows) {
            (Order::Newest(count), _) if pipes.iter().all(Pipe::keeps_rows) => Some(*count),
            (_, Some((place, count))) if pipes[..place].iter().all(Pipe::keeps_rows) => Some(count),
            _ => None,
        };
        let lines_wanted = first_rows::wanted(pipes, context)
            .filter(|_| order == Order::Stream)
            .map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        let newest_at = newest_rows.map(|(place, _)| place);
        let oldest_at = first_rows::oldest(pipes, context).map(|(place, _)| place);
        let collects = pipes.iter().position(|pipe| !pipe.is_row_wise());
        // A sort by time stops reading early; threads that take units in no order would read all
        // units.
        let merges = |&place: &usize| {
            newest_at.or(oldest_at).is_none() && pipes[place].merges() == Merges::AnyOrder
        };
        QueryPlan {
            range: context.range.intersect(query.filter().time_range()),
            whose,
            needs: Needs::new(query.filter()),
            raw_lines: RawLines::of(query.filter()),
            needed: query.needed_fields(&context.include),
            carried: query.computed_fields(&context.include),
            counted: counted_by(pipes),
            facets: pipes.first().and_then(Pipe::get),
            rolled: Rolled::of(query),
            vectors: VectorPlan::of(query),
            order,
            oldest_first: context.order.is_some() || context.oldest_first || oldest_at.is_some(),
            first_by: FirstBy::of(pipes, context),
            newest_lines,
            lines_wanted,
            newest_at,
            oldest_at,
            merged_at: collects.filter(merges),
            rows_wanted: (0..pipes.len())
                .map(|place| first_rows::wanted(&pipes[place + 1..], context))
                .collect(),
            query,
        }
    }

    /// Where a pipe can run when lines are on several nodes. Row-wise pipes at the start run where
    /// the lines are. The next pipe does so too if its partial states can be merged in any order,
    /// since nodes answer in any order. The rest run where the answer is given.
    pub fn site(&self, place: usize) -> Site {
        let pipes = self.query.pipes();
        match pipes.iter().position(|pipe| !pipe.is_row_wise()) {
            Some(first) if place > first => Site::Answer,
            Some(first) if place == first => match pipes[place].merges() {
                Merges::AnyOrder => Site::Merged,
                Merges::InOrder | Merges::Never => Site::Answer,
            },
            _ => Site::Lines,
        }
    }

    /// Index of the pipe whose partial states are merged; none if the query cannot be split into a
    /// part where the lines are and a part where the answer is given.
    pub fn split_at(&self) -> Option<usize> {
        let places = 0..self.query.pipes().len();
        let is_merged = |place: &usize| self.site(*place) == Site::Merged;
        places.rev().find(is_merged).filter(|_| !self.query.has_subqueries())
    }
}
