//! `differences [N] where (filter) [scale R]`: the differences between the rows that a filter
//! selects and all other rows.
//!
//! Both sides are rows of the query: two windows of time (`where (_time:[…])`), or two groups
//! (`where (host:=web7)`). The patterns of messages, the values of each field, and the quantiles of
//! fields with numbers are compared. Each difference has a score, and the fields that all its rows
//! have in common. A difference that another one explains is left out.
//!
//! Numbers of other rows are multiplied by `scale` before they are compared, such as the length of
//! the selected window as a share of the other one. Without it, shares of all rows are compared; if
//! a side has no rows, nothing is compared.

mod fields;
mod found;
mod messages;
mod numbers;
mod row;
mod score;

use std::any::Any;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use text::time::format_time;

use self::fields::Fields;
use self::found::{Difference, DifferenceKind};
use self::messages::Messages;
use self::row::Row;
use super::limit::parse_count;
use super::operator::{Documentation, Merges, Mode, Names, Operator, Processor, Registration, one};
use super::outgoing::{Outgoing, RowBuilder};
use crate::base::bitmap::Bitmap;
use crate::base::names::MSG;
use crate::base::number::{parse_quantity, write_number};
use crate::base::partial_state::{Decoder, Encoder};
use crate::base::{Buffer, CHECK_ROWS, FieldSet, Meter, RunError, json};
use crate::block::{Block, Scratch};
use crate::lang::filter::{Filter, Selector, parse_filter};
use crate::lang::pipe::Next;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// The `differences` pipe.
#[derive(Clone, Debug, PartialEq)]
pub struct Differences {
    /// Most differences.
    pub limit: u64,
    /// Selects one side; the other rows are the other side.
    pub filter: Filter,
    /// Factor of the numbers of other rows; none: shares of all rows are compared.
    pub scale: Option<f64>,
}

const LIMIT: u64 = 20;

/// The fields of the result.
const RESULTS: [&str; 15] = [
    "kind", "field", "value", "selected", "expected", "others", "score", "first", "last", "with",
    "example", "quantile", "from", "to", "text",
];

pub(super) static DIFFERENCES: Registration = Registration {
    doc: Documentation {
        name: "differences",
        aliases: &[],
        syntax: "differences [<n>] where (<filter>) [scale <number>]",
        summary: "lists the differences between the rows that a filter selects and all other rows",
        example: "differences 5 where (hostname:=web7)",
    },
    parse: |cursor| parse(cursor).map(one),
};

fn parse(cursor: &mut Cursor<'_>) -> Result<Differences, ParseError> {
    let mut limit = LIMIT;
    if cursor.peek().is_some_and(|c| c.is_ascii_digit()) {
        limit = parse_count(cursor, None)?;
    }
    let position = cursor.position();
    if !cursor.eat_keyword("where") {
        let message = "a filter must say which rows to compare with all others";
        return Err(cursor.error_at(position, &["where (…)"], message));
    }
    cursor.expect('(', "where (…)")?;
    let filter = cursor.nested(parse_filter)?;
    cursor.expect(')', "where (…)")?;
    let mut scale = None;
    if cursor.eat_keyword("scale") {
        let what = "a number above 0";
        let written = cursor.expect_string(false, what)?;
        let number = parse_quantity(written.text.as_bytes());
        scale = number.filter(|number| number.is_finite() && *number > 0.0);
        if scale.is_none() {
            return Err(cursor.error_at(written.position, &[what], "this is not a number above 0"));
        }
    }
    Ok(Differences { limit, filter, scale })
}

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("differences")?;
        if self.limit != LIMIT {
            write!(f, " {}", self.limit)?;
        }
        write!(f, " where ({})", self.filter)?;
        self.scale.map_or(Ok(()), |scale| write!(f, " scale {scale}"))
    }
}

impl Operator for Differences {
    fn mode(&self) -> Mode {
        Mode::Collecting
    }

    fn merges(&self) -> Merges {
        Merges::AnyOrder
    }

    fn needed_fields(&self, _wanted: FieldSet) -> FieldSet {
        FieldSet::all()
    }

    fn filters(&self) -> Vec<&Filter> {
        vec![&self.filter]
    }

    fn filters_mut(&mut self) -> Vec<&mut Filter> {
        vec![&mut self.filter]
    }

    fn names(&self) -> Names {
        Names::Are(RESULTS.iter().map(|name| (*name).to_owned()).collect())
    }

    fn processor(&self, _carried: &[String]) -> Box<dyn Processor> {
        Box::new(Comparison {
            limit: usize::try_from(self.limit).unwrap_or(usize::MAX),
            scale: self.scale,
            selector: Selector::new(&self.filter),
            collected: Collected::default(),
            row: Row::default(),
            scratch: Scratch::default(),
            skeleton: analysis::patterns::Scratch::default(),
        })
    }
}

struct Comparison {
    limit: usize,
    scale: Option<f64>,
    selector: Selector,
    collected: Collected,
    row: Row,
    scratch: Scratch,
    skeleton: analysis::patterns::Scratch,
}

/// The rows of both sides: first the others, then the selected ones.
#[derive(Default)]
struct Collected {
    rows: [u64; 2],
    fields: Fields,
    messages: Messages,
}

impl Processor for Comparison {
    fn push(&mut self, block: Block, next: &mut Next<'_>) -> Result<ControlFlow<()>, RunError> {
        let Comparison { selector, collected, row, scratch, skeleton, .. } = self;
        let Collected { rows, fields, messages } = collected;
        let mut selected = Bitmap::full(block.len());
        selector.narrow(&block, &mut selected, scratch, next.meter())?;
        let mut side_of = vec![0; block.len()];
        selected.iter().for_each(|place| side_of[place] = 1);
        let (message, time) = (block.column(MSG), block.column("_time"));
        for (place, side) in side_of.into_iter().enumerate() {
            if place % CHECK_ROWS == CHECK_ROWS - 1 {
                next.check()?;
            }
            let meter = next.meter();
            rows[side] += 1;
            row.clear();
            let time_ns = block.time_ns(time, place, scratch);
            let mut pushed = Ok(());
            block.visit(place, &[], scratch, &mut |name, value, _| {
                if pushed.is_ok() && !matches!(&**name, "_time" | "_stream" | MSG) {
                    let field = fields.push(name, side, value, time_ns, meter);
                    pushed = field.map(|name| row.push(name, value));
                }
            });
            pushed?;
            let message = block.value(message, place, scratch);
            if !message.is_empty() {
                messages.push(side, (message, time_ns), row, skeleton, meter)?;
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn collected(&mut self) -> Option<&mut dyn Any> {
        Some(&mut self.collected)
    }

    fn takes_any_order(&self) -> bool {
        true
    }

    fn merge(&mut self, collected: &mut dyn Any, next: &mut Next<'_>) -> Result<(), RunError> {
        let other = collected.downcast_mut::<Collected>().expect("of the same pipe");
        let Collected { rows, fields, messages } = std::mem::take(other);
        next.check()?;
        let own = &mut self.collected;
        own.rows = [own.rows[0] + rows[0], own.rows[1] + rows[1]];
        own.fields.merge(fields, next.meter())?;
        own.messages.merge(messages, next.meter())
    }

    /// Format: the rows of both sides, then the fields and the messages.
    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), RunError> {
        self.collected.rows.iter().try_for_each(|rows| out.number(*rows))?;
        self.collected.fields.encode(out)?;
        self.collected.messages.encode(out)
    }

    fn decode(&mut self, from: &mut Decoder<'_>, meter: &mut Meter) -> Result<(), RunError> {
        self.collected.rows = [from.count()?, from.count()?];
        self.collected.fields = Fields::decode(from, meter)?;
        self.collected.messages = Messages::decode(from, meter)?;
        Ok(())
    }

    fn finish(&mut self, next: &mut Next<'_>) -> Result<(), RunError> {
        let Collected { rows, fields, messages } = std::mem::take(&mut self.collected);
        let scale = match self.scale {
            Some(scale) => scale,
            None if rows.contains(&0) => return Ok(()),
            None => rows[1] as f64 / rows[0] as f64,
        };
        let patterns = messages.patterns(next.meter());
        next.check()?;
        let fields = fields.into_sorted();
        let found = found::differences(patterns, &fields, rows, scale, self.scale.is_some());
        let results = RESULTS.map(Arc::<str>::from);
        let mut outgoing = Outgoing::default();
        for difference in found.iter().take(self.limit) {
            next.check()?;
            let row = result(difference, &results, next.meter())?;
            if outgoing.push(row, next)?.is_break() {
                return Ok(());
            }
        }
        outgoing.flush(next).map(drop)
    }
}

fn number(number: f64) -> Vec<u8> {
    let mut text = Vec::new();
    // A score and an expected number are estimates: two digits behind the point are enough.
    write_number((number * 100.0).round() / 100.0, &mut text);
    text
}

fn exact(number: f64) -> Vec<u8> {
    let mut text = Vec::new();
    write_number(number, &mut text);
    text
}

/// The row of a difference; fields that do not apply are absent.
fn result(
    difference: &Difference,
    names: &[Arc<str>; RESULTS.len()],
    meter: &mut Meter,
) -> Result<RowBuilder, RunError> {
    let kind = match difference.kind {
        DifferenceKind::Pattern => "pattern",
        DifferenceKind::Value => "value",
        DifferenceKind::Number => "number",
        DifferenceKind::First => "first",
    };
    let time = |time_ns: Option<i64>| time_ns.map(|time_ns| format_time(time_ns).into_bytes());
    let shift = difference.shift.as_ref();
    let values = [
        Some(kind.as_bytes().to_vec()),
        Some(difference.field.as_bytes().to_vec()),
        (difference.kind != DifferenceKind::Number).then(|| difference.value.clone()),
        Some(difference.rows[1].to_string().into_bytes()),
        Some(number(difference.expected)),
        Some(difference.rows[0].to_string().into_bytes()),
        Some(number(difference.score)),
        time(difference.first_ns),
        time(difference.last_ns),
        with_json(difference, meter)?,
        difference.example.as_ref().map(|example| example.to_vec()),
        shift.map(|shift| exact(shift.quantile)),
        shift.map(|shift| exact(shift.from)),
        shift.map(|shift| exact(shift.to)),
        Some(text(difference)),
    ];
    let mut row = RowBuilder::default();
    for (name, value) in names.iter().zip(values) {
        if let Some(value) = value {
            row.push(name.clone(), &value, meter)?;
        }
    }
    Ok(row)
}

/// The common fields as a JSON object; none if there are none.
fn with_json(difference: &Difference, meter: &mut Meter) -> Result<Option<Vec<u8>>, RunError> {
    if difference.with.is_empty() {
        return Ok(None);
    }
    let mut object = Buffer::default();
    object.room(1, meter)?.push(b'{');
    for (name, value) in &difference.with {
        json::put_member(name, value, &mut object, meter)?;
    }
    object.room(1, meter)?.push(b'}');
    let (object, counted) = object.into_bytes();
    meter.give_back(counted);
    Ok(Some(object))
}

/// The difference in words.
fn text(difference: &Difference) -> Vec<u8> {
    let mut text = match (&difference.kind, &difference.shift) {
        (DifferenceKind::Number, Some(shift)) => {
            let percentile = exact((shift.quantile * 100.0).round());
            let (from, to) = (exact(shift.from), exact(shift.to));
            let arrow = " → ".as_bytes();
            return [difference.field.as_bytes(), b": p", &percentile, b" ", &from, arrow, &to]
                .concat();
        }
        (DifferenceKind::Pattern, _) => difference.value.clone(),
        (DifferenceKind::First, _) => [b"never seen before: ", &*difference.value].concat(),
        _ => [difference.field.as_bytes(), b"=", &difference.value].concat(),
    };
    text.extend_from_slice(b": ");
    text.extend_from_slice(&exact(difference.expected.round()));
    text.extend_from_slice(" → ".as_bytes());
    text.extend_from_slice(difference.rows[1].to_string().as_bytes());
    for (place, (name, value)) in difference.with.iter().enumerate() {
        let before = if place == 0 { ", all with " } else { ", " };
        text.extend_from_slice(&[before.as_bytes(), name.as_bytes(), b"=", value].concat());
    }
    text
}

#[cfg(test)]
mod tests;
