//! What is decided about a query before anything is read.
//!
//! A [`Plan`] is a value: which times and whose lines a query looks at, by which words units are
//! left out ([`needs`]), whether lines are counted from rollups ([`rolled`]) or columns
//! ([`counting`]) instead of being read, which fields of lines are needed ([`fields`]), in which
//! order rows come, and which pipe collects on several threads. The executor carries it out;
//! [`explain`] prints it.
//!
//! Left out: what is known only once units are listed, such as how many there are, and only while
//! they are read, such as from which time on the newest rows are complete.

pub(crate) mod counting;
pub(crate) mod explain;
pub(crate) mod fields;
pub(crate) mod first_rows;
pub(crate) mod needs;
pub(crate) mod raw_lines;
pub(crate) mod rolled;

use crate::exec::Context;
use crate::exec::ordered::TimeOrder;
use crate::pipe::{Merges, Pipe, Processor, Sort};
use crate::source::{TimeRange, Whose};
use crate::syntax::query::Query;

use counting::CountedBy;
use fields::FieldSet;
use needs::Needs;
use raw_lines::RawLines;
use rolled::Rolled;

/// In which order rows go to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// As they come from the last pipe.
    Stream,
    /// The newest so many, newest first. Units that hold only older lines are not read.
    Newest(usize),
    /// By event time, the oldest first.
    Time(TimeOrder),
}

/// Where a pipe can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Site {
    /// Where the lines are.
    Lines,
    /// There, by partial states that are merged where the answer is given.
    Merged,
    /// Where the answer is given.
    Answer,
}

impl Site {
    fn shown(self) -> &'static str {
        match self {
            Site::Lines => "where the lines are",
            Site::Merged => "where the lines are, merged where the answer is given",
            Site::Answer => "where the answer is given",
        }
    }
}

/// What a query will do.
pub(crate) struct Plan<'q> {
    pub query: &'q Query,
    /// Event times that it looks at.
    pub range: TimeRange,
    /// Whose lines it looks at.
    pub whose: Whose,
    /// The words without which a unit is not read.
    pub needs: Needs,
    /// The texts without which a line of a frame is not parsed.
    pub raw_lines: Option<RawLines>,
    /// Fields that pipes and client need of the lines that the filter selects.
    pub needed: FieldSet,
    /// Hidden computed fields that copies of rows keep.
    pub carried: Vec<String>,
    /// By what rows are counted, if the first pipe does nothing else with them.
    pub counted: Option<CountedBy>,
    /// How they are counted from what segments keep, if that can be.
    pub rolled: Option<Rolled>,
    /// In which order rows go to the client.
    pub order: Order,
    /// Whether the oldest units are read first.
    pub oldest_first: bool,
    /// Only so many of the newest lines of a unit are needed.
    pub newest_lines: Option<usize>,
    /// How many rows of each pipe, from the first on, can get to the client; none where all can.
    pub rows_wanted: Vec<Option<u64>>,
    /// The place of the `sort` that keeps only the newest rows: units are read as for
    /// [`Order::Newest`], the newest first, until no other can hold one of them.
    pub newest_at: Option<usize>,
    /// The place of the pipe that several threads can collect for, each by itself.
    pub merged_at: Option<usize>,
}

impl<'q> Plan<'q> {
    /// The plan of a query whose filters have no queries inside any more; `whose`: whose lines the
    /// filter named before these were filled in.
    pub fn new(query: &'q Query, context: &Context, whose: Whose) -> Plan<'q> {
        let pipes = query.pipes();
        let row_wise = pipes.iter().all(Pipe::is_row_wise);
        let order = match (&context.order, context.limit) {
            (Some(order), _) if row_wise => Order::Time(order.clone()),
            (None, Some(limit)) if row_wise && !context.oldest_first => {
                Order::Newest(limit.saturating_add(context.offset))
            }
            _ => Order::Stream,
        };
        // Behind a filter, more than the newest lines may be needed for as many rows.
        let newest_rows = first_rows::newest(pipes, context);
        let newest_lines = match (&order, newest_rows) {
            (Order::Newest(count), _) if pipes.iter().all(Pipe::keeps_rows) => Some(*count),
            (_, Some((place, count))) if pipes[..place].iter().all(Pipe::keeps_rows) => Some(count),
            _ => None,
        };
        let newest_at = newest_rows.map(|(place, _)| place);
        let collects = pipes.iter().position(|pipe| !pipe.is_row_wise());
        // Several threads that take units as they come would read them all.
        let merges =
            |&place: &usize| newest_at.is_none() && pipes[place].merges() == Merges::AnyOrder;
        Plan {
            range: context.range.intersect(query.filter().time_range()),
            whose,
            needs: Needs::new(query.filter()),
            raw_lines: RawLines::of(query.filter()),
            needed: query.needed_fields(&context.include),
            carried: query.computed_fields(&context.include),
            counted: CountedBy::of(pipes.first()),
            rolled: Rolled::of(query),
            order,
            oldest_first: context.order.is_some() || context.oldest_first,
            newest_lines,
            newest_at,
            merged_at: collects.filter(merges),
            rows_wanted: (0..pipes.len())
                .map(|place| first_rows::wanted(&pipes[place + 1..], context))
                .collect(),
            query,
        }
    }

    /// Where a pipe can run once lines are on several nodes: those before the first that is not
    /// row-wise beside the lines, the next by partial states, if these can be merged in whichever
    /// order nodes answer, and the rest where the answer is put together.
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

    /// The place of the pipe that runs by partial states, if the query can be taken apart into a
    /// part beside the lines and one where the answer is given.
    pub fn split_at(&self) -> Option<usize> {
        let places = 0..self.query.pipes().len();
        let is_merged = |place: &usize| self.site(*place) == Site::Merged;
        places.rev().find(is_merged).filter(|_| !self.query.has_subqueries())
    }

    /// What runs the pipes.
    pub fn stages(&self) -> Vec<Box<dyn Processor>> {
        let pipes = self.query.pipes().iter().zip(&self.rows_wanted);
        let stage = |(pipe, wanted): (&Pipe, &Option<u64>)| match (pipe.get::<Sort>(), wanted) {
            (Some(sort), Some(rows)) => Pipe::new(sort.limited(*rows)).processor(&self.carried),
            _ => pipe.processor(&self.carried),
        };
        pipes.map(stage).collect()
    }
}
