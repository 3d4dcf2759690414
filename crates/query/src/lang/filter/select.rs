//! Runs filters over blocks of rows.
//!
//! A filter narrows a bitmap. AND tests with each part only the rows that are left, cheap parts
//! first; OR tests only the rows that no part has selected yet; NOT removes the selected rows.
//! Names are resolved and the kind of test is chosen once per block, so that the loops over rows
//! only compare bytes.

use super::value::{Matcher, Test};
use super::{FieldComparison, Filter, Recurring};
use crate::base::bitmap::Bitmap;
use crate::base::names::is_stored;
use crate::base::{Meter, Pulse, RunError, TimeRange};
use crate::block::{BatchLines, Block, Column, Scratch};

/// A filter prepared to run over blocks.
pub(crate) struct Selector {
    node: Node,
}

enum Node {
    All,
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    Time(TimeRange),
    Recurring(Recurring),
    Fields { left: String, comparison: FieldComparison, right: String },
    Field { name: String, matcher: Box<Matcher> },
    AnyField { beginning: String, parsed: Test, matcher: Box<Matcher> },
}

impl Selector {
    pub fn new(filter: &Filter) -> Selector {
        Selector { node: Node::new(filter) }
    }

    /// Removes from `bits` the rows that the filter does not select. The query is that of `meter`.
    pub fn narrow(
        &self,
        block: &Block,
        bits: &mut Bitmap,
        scratch: &mut Scratch,
        meter: &Meter,
    ) -> Result<(), RunError> {
        let pulse = meter.pulse();
        self.narrow_while(block, bits, scratch, &pulse);
        pulse.end()
    }

    /// As [`Selector::narrow`]. Any rows are left if the query ended meanwhile.
    pub fn narrow_while(
        &self,
        block: &Block,
        bits: &mut Bitmap,
        scratch: &mut Scratch,
        pulse: &Pulse<'_>,
    ) {
        self.node.narrow(block, bits, scratch, pulse);
    }

    /// Removes from `block` the rows that the filter does not select; any rows if the query ended
    /// meanwhile.
    pub fn select(&self, block: &mut Block, scratch: &mut Scratch, pulse: &Pulse<'_>) {
        if matches!(self.node, Node::All) {
            return;
        }
        let mut bits = Bitmap::full(block.len());
        self.narrow_while(block, &mut bits, scratch, pulse);
        block.retain(&bits);
    }
}

impl Node {
    fn new(filter: &Filter) -> Node {
        let cheap_first = |filters: &[Filter]| {
            let mut nodes: Vec<Node> = filters.iter().map(Node::new).collect();
            nodes.sort_by_key(Node::cost);
            nodes
        };
        match filter {
            Filter::All => Node::All,
            Filter::And(filters) => Node::And(cheap_first(filters)),
            Filter::Or(filters) => Node::Or(cheap_first(filters)),
            Filter::Not(filter) => Node::Not(Box::new(Node::new(filter))),
            Filter::Time(range) => Node::Time(*range),
            Filter::Recurring(range) => Node::Recurring(*range),
            Filter::Subquery(_) => unreachable!("queries inside are replaced by their values"),
            Filter::Fields { left, comparison, right } => {
                Node::Fields { left: left.clone(), comparison: *comparison, right: right.clone() }
            }
            Filter::AnyField { beginning, test } => Node::AnyField {
                beginning: beginning.clone(),
                parsed: test.clone(),
                matcher: Box::new(Matcher::new(test)),
            },
            Filter::Field { name, test } => {
                Node::Field { name: name.clone(), matcher: Box::new(Matcher::new(test)) }
            }
        }
    }

    /// Rough time per row, in units of one field lookup.
    fn cost(&self) -> u32 {
        match self {
            Node::All => 0,
            Node::Time(_) => 1,
            Node::Recurring(_) => 2,
            Node::Fields { .. } => 8,
            Node::And(nodes) | Node::Or(nodes) => nodes.iter().map(Node::cost).sum(),
            Node::Not(node) => node.cost(),
            Node::AnyField { matcher, .. } => 10 * (1 + matcher.cost()),
            Node::Field { name, matcher } => {
                let computed = !is_stored(name);
                matcher.cost() + if computed { 10 } else { 0 }
            }
        }
    }

    fn narrow(&self, block: &Block, bits: &mut Bitmap, scratch: &mut Scratch, pulse: &Pulse<'_>) {
        match self {
            Node::All => {}
            Node::And(nodes) => {
                for node in nodes {
                    if bits.is_empty() {
                        return;
                    }
                    node.narrow(block, bits, scratch, pulse);
                }
            }
            Node::Or(nodes) => {
                let mut open = bits.clone();
                let mut selected = Bitmap::empty(block.len());
                for node in nodes {
                    if open.is_empty() {
                        break;
                    }
                    let mut found = open.clone();
                    node.narrow(block, &mut found, scratch, pulse);
                    open.subtract(&found);
                    selected.add(&found);
                }
                *bits = selected;
            }
            Node::Not(node) => {
                let mut found = bits.clone();
                node.narrow(block, &mut found, scratch, pulse);
                bits.subtract(&found);
            }
            Node::Time(range) => {
                let column = block.column("_time");
                let inside = |ns: Option<i64>| ns.is_some_and(|ns| range.contains(ns));
                bits.retain(|row| inside(block.time_ns(column, row, scratch)));
            }
            Node::Recurring(range) => {
                let column = block.column("_time");
                let inside = |ns: Option<i64>| ns.is_some_and(|ns| range.contains(ns));
                bits.retain(|row| inside(block.time_ns(column, row, scratch)));
            }
            Node::Fields { left, comparison, right } => {
                let (left, right) = (block.column(left), block.column(right));
                let mut other = Scratch::default();
                bits.retain(|row| {
                    let left = block.value(left, row, scratch);
                    comparison.holds(left, block.value(right, row, &mut other))
                });
            }
            Node::AnyField { beginning, parsed, matcher } => bits.retain(|row| {
                let mut any = false;
                block.visit(row, &[], scratch, &mut |name, value, _| {
                    any |= !any
                        && parsed.looks_at(name, beginning)
                        && !value.is_empty()
                        && matcher.passes(value, pulse);
                });
                any
            }),
            Node::Field { name, matcher } => match (block, block.column(name)) {
                (_, Column::Absent) => {
                    if !matcher.takes_empty() {
                        bits.clear();
                    }
                }
                (Block::Lines(lines), Column::Field(id)) => {
                    let BatchLines { batch, rows, .. } = lines;
                    matcher.retain(bits, pulse, |row, test| {
                        test(batch.row(rows[row] as usize).get(id).unwrap_or_default())
                    });
                }
                (_, column) => {
                    matcher
                        .retain(bits, pulse, |row, test| test(block.value(column, row, scratch)));
                }
            },
        }
    }
}
