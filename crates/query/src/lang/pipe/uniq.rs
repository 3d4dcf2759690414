//! `uniq by (a, b) [with hits] [limit N]` and `field_values a [limit N]`: distinct values.
//!
//! With a limit, at most N distinct values are kept; which of them is undefined. They come with
//! most hits first.

use std::any::Any;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::limit::parse_count;
use super::operator::{Documentation, Merges, Mode, Names, Operator, Processor, Registration};
use super::outgoing::{Outgoing, RowBuilder};
use super::select::Select;
use super::tuples::{Hits, Tuples};
use super::{Pipe, parse_by, tuples, write_names};
use crate::base::partial_state::{Decoder, Encoder};
use crate::base::{CHECK_ROWS, FieldSet, Meter, RunError};
use crate::block::{Block, Column, Tally, Weighted};
use crate::lang::filter::{Filter, Test};
use crate::lang::pipe::{CountedBy, Next};
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// The `uniq` pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uniq {
    /// Fields whose values are distinct; at least one.
    pub by: Vec<String>,
    /// Whether the number of rows is added as field `hits`.
    pub hits: bool,
    /// Most distinct values kept.
    pub limit: Option<u64>,
}

/// A `uniq` pipe as it is written. With `filter x`, only values that contain a text count; a
/// `filter` pipe before it selects them.
struct Written {
    uniq: Uniq,
    filter: Option<String>,
}

pub(super) static UNIQ: Registration = Registration {
    doc: Documentation {
        name: "uniq",
        aliases: &[],
        syntax: "uniq by (<field>, …) [with hits] [filter <text>] [limit <n>]",
        summary: "passes each distinct combination of values once",
        example: "uniq by (hostname, level) with hits limit 100",
    },
    parse: |cursor| parse(cursor).map(Written::pipes),
};

pub(super) static FIELD_VALUES: Registration = Registration {
    doc: Documentation {
        name: "field_values",
        aliases: &[],
        syntax: "field_values <field> [filter <text>] [limit <n>]",
        summary: "lists the distinct values of a field, with the number of rows that have each",
        example: "field_values level limit 10",
    },
    parse: |cursor| parse_field_values(cursor).map(Written::pipes),
};

fn parse(cursor: &mut Cursor<'_>) -> Result<Written, ParseError> {
    cursor.eat_keyword("by");
    let position = cursor.position();
    let by = parse_by(cursor)?;
    if by.is_empty() {
        return Err(cursor.error_at(
            position,
            &["field names"],
            "uniq needs the fields whose values it compares",
        ));
    }
    let mut uniq = Uniq { by, hits: false, limit: None };
    let mut filter = None;
    loop {
        if cursor.eat_keyword("with") {
            if !cursor.eat_keyword("hits") {
                return Err(cursor.error(&["\"hits\""], "\"hits\" is missing behind \"with\""));
            }
            uniq.hits = true;
        } else if cursor.eat_keyword("hits") {
            uniq.hits = true;
        } else if cursor.eat_keyword("limit") {
            uniq.limit = Some(parse_count(cursor, None)?).filter(|&limit| limit > 0);
        } else if cursor.eat_keyword("filter") {
            filter = Some(cursor.expect_string(true, "a text")?.text);
        } else {
            return Ok(Written { uniq, filter });
        }
    }
}

fn parse_field_values(cursor: &mut Cursor<'_>) -> Result<Written, ParseError> {
    let name = cursor.expect_string(false, "a field name")?.text;
    let mut uniq = Uniq { by: vec![name], hits: true, limit: None };
    let mut filter = None;
    if cursor.eat_keyword("filter") {
        filter = Some(cursor.expect_string(true, "a text")?.text);
    }
    if cursor.eat_keyword("limit") {
        uniq.limit = Some(parse_count(cursor, None)?).filter(|&limit| limit > 0);
    }
    Ok(Written { uniq, filter })
}

impl Written {
    /// The pipes that implement it.
    fn pipes(self) -> Vec<Pipe> {
        let Written { uniq, filter } = self;
        let contains = filter.filter(|text| !text.is_empty()).map(|text| {
            let test = |name: &String| Filter::field(name, Test::Substring(text.clone()));
            let mut tests: Vec<Filter> = uniq.by.iter().map(test).collect();
            let filter = match tests.len() {
                1 => tests.remove(0),
                _ => Filter::Or(tests),
            };
            Pipe::new(Select { filter })
        });
        contains.into_iter().chain([Pipe::new(uniq)]).collect()
    }
}

impl fmt::Display for Uniq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hits = if self.hits { " with hits" } else { "" };
        write!(f, "uniq by ({}){hits}", write_names(&self.by))?;
        self.limit.map_or(Ok(()), |limit| write!(f, " limit {limit}"))
    }
}

impl Operator for Uniq {
    fn mode(&self) -> Mode {
        Mode::Collecting
    }

    fn merges(&self) -> Merges {
        // With a limit, each stage would keep different values and count only those.
        if self.limit.is_none() { Merges::AnyOrder } else { Merges::Never }
    }

    fn needed_fields(&self, _wanted: FieldSet) -> FieldSet {
        FieldSet::of(&self.by)
    }

    fn processor(&self, _carried: &[String]) -> Box<dyn Processor> {
        Box::new(UniqRows { uniq: self.clone(), tuples: Tuples::default() })
    }

    fn value_field(&self) -> Names {
        Names::Are(self.by.clone())
    }

    fn counted_by(&self) -> Option<CountedBy> {
        let all = self.limit.is_none();
        all.then(|| CountedBy::fields(self.by.iter().map(String::as_str)))
    }
}

struct UniqRows {
    uniq: Uniq,
    tuples: Tuples,
}

impl UniqRows {
    fn count(
        &mut self,
        block: &Block,
        hits: impl Fn(usize) -> u64,
        next: &mut Next<'_>,
    ) -> Result<ControlFlow<()>, RunError> {
        let columns: Vec<Column<'_>> = self.uniq.by.iter().map(|name| block.column(name)).collect();
        let limit = self.uniq.limit.unwrap_or(u64::MAX);
        for row in 0..block.len() {
            if row % CHECK_ROWS == CHECK_ROWS - 1 {
                next.check()?;
            }
            let full = self.tuples.len() as u64 >= limit;
            if full && !self.uniq.hits {
                return Ok(ControlFlow::Break(()));
            }
            self.tuples.count(block, row, &columns, hits(row), full, next.meter())?;
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl Processor for UniqRows {
    fn push(&mut self, block: Block, next: &mut Next<'_>) -> Result<ControlFlow<()>, RunError> {
        self.count(&block, |_| 1, next)
    }

    fn push_weighted(&mut self, rows: &Weighted, next: &mut Next<'_>) -> Result<(), RunError> {
        self.count(&rows.block, |row| rows.lines[row], next).map(drop)
    }

    fn push_tally(&mut self, tally: &Tally, next: &mut Next<'_>) -> Result<(), RunError> {
        self.tuples.count_tally(tally, next)
    }

    fn collected(&mut self) -> Option<&mut dyn Any> {
        let all = self.uniq.limit.is_none();
        all.then_some(&mut self.tuples as &mut dyn Any)
    }

    fn takes_any_order(&self) -> bool {
        self.uniq.limit.is_none()
    }

    fn merge(&mut self, collected: &mut dyn Any, next: &mut Next<'_>) -> Result<(), RunError> {
        let other = collected.downcast_mut::<Tuples>().expect("of the same pipe");
        self.tuples.merge(std::mem::take(other), next)
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), RunError> {
        self.tuples.encode(out)
    }

    fn decode(&mut self, from: &mut Decoder<'_>, meter: &mut Meter) -> Result<(), RunError> {
        self.tuples.decode(self.uniq.by.len(), from, meter)
    }

    fn finish(&mut self, next: &mut Next<'_>) -> Result<(), RunError> {
        let hits = self.uniq.hits.then(|| hits_name(&self.uniq.by));
        let tuples = self.tuples.first(usize::MAX, self.uniq.by.len() == 1, next)?;
        push_tuples(&self.uniq.by, hits.as_deref(), None, tuples, next)
    }
}

/// `hits`, or `hitss` and so on if a field has that name.
pub(super) fn hits_name(by: &[String]) -> String {
    let mut name = "hits".to_owned();
    while by.contains(&name) {
        name.push('s');
    }
    name
}

/// Hands tuples on as rows of the fields `by` and, if requested, the number of hits and the
/// position.
pub(super) fn push_tuples<'t>(
    by: &[String],
    hits: Option<&str>,
    rank: Option<&str>,
    tuples: impl Iterator<Item = Hits<'t>>,
    next: &mut Next<'_>,
) -> Result<(), RunError> {
    let names: Vec<Arc<str>> = by.iter().map(|name| name.as_str().into()).collect();
    let hits: Option<Arc<str>> = hits.map(Into::into);
    let rank: Option<Arc<str>> = rank.map(Into::into);
    let mut outgoing = Outgoing::default();
    for (place, (key, count)) in tuples.enumerate() {
        let mut row = RowBuilder::default();
        let meter = next.meter();
        for (name, value) in names.iter().zip(tuples::values_of(key, by.len() == 1)) {
            row.push(name.clone(), value, meter)?;
        }
        if let Some(hits) = &hits {
            row.push(hits.clone(), count.to_string().as_bytes(), meter)?;
        }
        if let Some(rank) = &rank {
            row.push(rank.clone(), (place + 1).to_string().as_bytes(), meter)?;
        }
        if outgoing.push(row, next)?.is_break() {
            return Ok(());
        }
    }
    outgoing.flush(next).map(drop)
}
