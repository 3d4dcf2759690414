//! Runs filters over blocks of rows.
//!
//! A filter narrows a bitmap: AND asks each part only for the rows that are left, cheap parts first; OR asks
//! only for rows that are not in yet; NOT takes away. Names are resolved once a block, and the kind of test is
//! chosen once a block, so that the loops over rows only look at bytes.

use std::cmp::Ordering;

use super::word::{PhraseFinder, matches_any_case};
use super::{Comparison, Filter, Test};
use crate::bitmap::Bitmap;
use crate::block::{Block, Column, Lines, Scratch};
use crate::cursor::is_word_char;
use crate::number::parse_number;
use crate::source::TimeRange;

/// A filter made ready to run.
pub(crate) struct Selector {
    node: Node,
}

enum Node {
    All,
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    Time(TimeRange),
    Field { name: String, matcher: Box<Matcher> },
}

enum Matcher {
    Empty,
    NotEmpty,
    Any,
    Phrase(PhraseFinder),
    Exact(Vec<u8>),
    ExactPrefix(Vec<u8>),
    Substring(memchr::memmem::Finder<'static>),
    Regex(regex::bytes::Regex),
    AnyCase { regex: regex::bytes::Regex, starts_with_word: bool, ends_with_word: bool },
    In(std::collections::HashSet<Vec<u8>, foldhash::fast::RandomState>),
    Sequence(Vec<PhraseFinder>),
    Number { low: f64, low_inside: bool, high: f64, high_inside: bool },
    Text { comparison: Comparison, value: Vec<u8> },
    Length { min: u64, max: u64 },
}

impl Selector {
    pub fn new(filter: &Filter) -> Selector {
        Selector { node: Node::new(filter) }
    }

    /// Takes the rows out of `bits` that the filter does not select.
    pub fn narrow(&self, block: &Block, bits: &mut Bitmap, scratch: &mut Scratch) {
        self.node.narrow(block, bits, scratch);
    }

    /// The rows of `block` that the filter selects.
    pub fn select(&self, block: &mut Block, scratch: &mut Scratch) {
        if matches!(self.node, Node::All) {
            return;
        }
        let mut bits = Bitmap::full(block.len());
        self.narrow(block, &mut bits, scratch);
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
            Filter::Field { name, test } => {
                Node::Field { name: name.clone(), matcher: Box::new(Matcher::new(test)) }
            }
        }
    }

    /// Rough time a row, in units of looking a field up.
    fn cost(&self) -> u32 {
        match self {
            Node::All => 0,
            Node::Time(_) => 1,
            Node::And(nodes) | Node::Or(nodes) => nodes.iter().map(Node::cost).sum(),
            Node::Not(node) => node.cost(),
            Node::Field { name, matcher } => {
                let computed = matches!(name.as_str(), "_stream" | "_id" | "_received" | "_raw");
                matcher.cost() + if computed { 10 } else { 0 }
            }
        }
    }

    fn narrow(&self, block: &Block, bits: &mut Bitmap, scratch: &mut Scratch) {
        match self {
            Node::All => {}
            Node::And(nodes) => {
                for node in nodes {
                    if bits.is_empty() {
                        return;
                    }
                    node.narrow(block, bits, scratch);
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
                    node.narrow(block, &mut found, scratch);
                    open.subtract(&found);
                    selected.add(&found);
                }
                *bits = selected;
            }
            Node::Not(node) => {
                let mut found = bits.clone();
                node.narrow(block, &mut found, scratch);
                bits.subtract(&found);
            }
            Node::Time(range) => {
                let column = block.column("_time");
                let inside = |ns: Option<i64>| ns.is_some_and(|ns| range.contains(ns));
                bits.retain(|row| inside(block.time_ns(column, row, scratch)));
            }
            Node::Field { name, matcher } => match (block, block.column(name)) {
                (_, Column::Absent) => {
                    if !matcher.matches(b"") {
                        bits.clear();
                    }
                }
                (Block::Lines(lines), Column::Field(id)) => {
                    let Lines { batch, rows, .. } = lines;
                    matcher.retain(bits, |row, test| {
                        test(batch.row(rows[row] as usize).get(id).unwrap_or_default())
                    });
                }
                (_, column) => {
                    matcher.retain(bits, |row, test| test(block.value(column, row, scratch)));
                }
            },
        }
    }
}

impl Matcher {
    fn new(test: &Test) -> Matcher {
        match test {
            Test::Phrase(text) | Test::Exact(text) | Test::AnyCasePhrase(text)
                if text.is_empty() =>
            {
                Matcher::Empty
            }
            Test::Prefix(text) | Test::AnyCasePrefix(text) if text.is_empty() => Matcher::NotEmpty,
            Test::ExactPrefix(text) | Test::Substring(text) if text.is_empty() => Matcher::Any,
            Test::Phrase(text) => Matcher::Phrase(PhraseFinder::new(text, false)),
            Test::Prefix(text) => Matcher::Phrase(PhraseFinder::new(text, true)),
            Test::Exact(text) => Matcher::Exact(text.clone().into_bytes()),
            Test::ExactPrefix(text) => Matcher::ExactPrefix(text.clone().into_bytes()),
            Test::Substring(text) => {
                Matcher::Substring(memchr::memmem::Finder::new(text.as_bytes()).into_owned())
            }
            Test::Regex(pattern) => Matcher::Regex(pattern.regex.clone()),
            Test::AnyCasePhrase(text) => Matcher::any_case(text, false),
            Test::AnyCasePrefix(text) => Matcher::any_case(text, true),
            Test::In(values) => {
                Matcher::In(values.iter().map(|v| v.clone().into_bytes()).collect())
            }
            Test::Sequence(phrases) => {
                let phrases = phrases.iter().filter(|p| !p.is_empty());
                Matcher::Sequence(phrases.map(|p| PhraseFinder::new(p, false)).collect())
            }
            Test::Compare { comparison, value } => match parse_number(value.as_bytes()) {
                None => {
                    Matcher::Text { comparison: *comparison, value: value.clone().into_bytes() }
                }
                Some(number) => {
                    let (infinity, inside) = (
                        f64::INFINITY,
                        matches!(comparison, Comparison::LessOrEqual | Comparison::GreaterOrEqual),
                    );
                    match comparison {
                        Comparison::Less | Comparison::LessOrEqual => Matcher::Number {
                            low: -infinity,
                            low_inside: true,
                            high: number,
                            high_inside: inside,
                        },
                        _ => Matcher::Number {
                            low: number,
                            low_inside: inside,
                            high: infinity,
                            high_inside: true,
                        },
                    }
                }
            },
            Test::Range { low, low_inside, high, high_inside } => Matcher::Number {
                low: low.value,
                low_inside: *low_inside,
                high: high.value,
                high_inside: *high_inside,
            },
            Test::Length { min, max } => Matcher::Length { min: *min, max: *max },
        }
    }

    fn any_case(text: &str, prefix: bool) -> Matcher {
        let regex = regex::bytes::RegexBuilder::new(&regex::escape(text))
            .case_insensitive(true)
            .size_limit(usize::MAX)
            .build()
            .expect("an escaped text is a regular expression");
        Matcher::AnyCase {
            regex,
            starts_with_word: text.chars().next().is_some_and(is_word_char),
            ends_with_word: !prefix && text.chars().next_back().is_some_and(is_word_char),
        }
    }

    fn cost(&self) -> u32 {
        match self {
            Matcher::Empty | Matcher::NotEmpty | Matcher::Any => 2,
            Matcher::Exact(_) | Matcher::ExactPrefix(_) | Matcher::In(_) => 3,
            Matcher::Number { .. } | Matcher::Text { .. } | Matcher::Length { .. } => 4,
            Matcher::Phrase(_) | Matcher::Substring(_) => 6,
            Matcher::Sequence(phrases) => 4 + 2 * phrases.len() as u32,
            Matcher::AnyCase { .. } => 20,
            Matcher::Regex(_) => 30,
        }
    }

    fn matches(&self, value: &[u8]) -> bool {
        let mut bits = Bitmap::full(1);
        self.retain(&mut bits, |_, test| test(value));
        !bits.is_empty()
    }

    /// Keeps the rows whose value passes; `with_value` gives the value of a row to a test.
    #[inline]
    fn retain(
        &self,
        bits: &mut Bitmap,
        mut with_value: impl FnMut(usize, &mut dyn FnMut(&[u8]) -> bool) -> bool,
    ) {
        let mut keep =
            |test: &mut dyn FnMut(&[u8]) -> bool| bits.retain(|row| with_value(row, test));
        match self {
            Matcher::Any => {}
            Matcher::Empty => keep(&mut |v| v.is_empty()),
            Matcher::NotEmpty => keep(&mut |v| !v.is_empty()),
            Matcher::Phrase(finder) => keep(&mut |v| finder.matches(v)),
            Matcher::Exact(value) => keep(&mut |v| v == value),
            Matcher::ExactPrefix(prefix) => keep(&mut |v| v.starts_with(prefix)),
            Matcher::Substring(finder) => keep(&mut |v| finder.find(v).is_some()),
            Matcher::Regex(regex) => keep(&mut |v| regex.is_match(v)),
            Matcher::AnyCase { regex, starts_with_word, ends_with_word } => {
                keep(&mut |v| matches_any_case(regex, *starts_with_word, *ends_with_word, v));
            }
            Matcher::In(values) => keep(&mut |v| values.contains(v)),
            Matcher::Sequence(phrases) => keep(&mut |v| {
                let mut from = 0;
                phrases.iter().all(|phrase| match phrase.find_from(v, from) {
                    Some(end) => {
                        from = end;
                        true
                    }
                    None => false,
                })
            }),
            Matcher::Number { low, low_inside, high, high_inside } => keep(&mut |v| {
                parse_number(v).is_some_and(|n| {
                    (n > *low || *low_inside && n == *low)
                        && (n < *high || *high_inside && n == *high)
                })
            }),
            Matcher::Text { comparison, value } => keep(&mut |v| {
                let ordering: Ordering = v.cmp(value);
                !v.is_empty() && comparison.holds(ordering)
            }),
            Matcher::Length { min, max } => keep(&mut |v| {
                let characters = v.iter().filter(|b| *b & 0xc0 != 0x80).count() as u64;
                (*min..=*max).contains(&characters)
            }),
        }
    }
}
