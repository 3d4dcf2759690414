//! `patterns [N] [of field] [by (a, b)]`: the patterns of messages, such as `Connection from <*>
//! closed`, with the number of their rows, the first and last time, and an example.
//!
//! The crate `patterns` documents how patterns are found, and what partial states guarantee: up to
//! [`Counts::SKELETONS_MAX`] different skeletons a group the result does not depend on how rows are
//! distributed. The rarest rows beyond that are counted as the pattern `<*>`.
//!
//! Rows without the field are left out.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use analysis::patterns::{Counts, EXAMPLE_BYTES_MAX, Group, Pattern, SKELETON_BYTES_MAX};
use text::time::format_time;

use super::limit::parse_count;
use super::operator::{Documentation, Merges, Mode, Names, Operator, Processor, Registration, one};
use super::outgoing::{Outgoing, RowBuilder};
use super::tuples::{self, ENTRY_BYTES};
use super::{parse_by, write_names};
use crate::base::partial_state::{Decoder, Encoder, wrong_state};
use crate::base::{Buffer, CHECK_ROWS, FieldSet, Meter, RunError};
use crate::block::{Block, Column, Scratch};
use crate::lang::pipe::Next;
use crate::lang::syntax::cursor::{Cursor, quote_name};
use crate::lang::syntax::error::ParseError;

/// The `patterns` pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patterns {
    /// Most patterns of each group, those with the most rows; none: all.
    pub limit: Option<u64>,
    /// The field with the messages.
    pub field: String,
    /// Fields whose values make groups; each group has patterns of its own.
    pub by: Vec<String>,
}

/// The field with the messages, where the query names none.
const FIELD: &str = "_msg";

/// The fields of the result behind those of `by`.
const RESULTS: [&str; 6] = ["pattern", "pattern_id", "hits", "first", "last", "example"];

pub(super) static PATTERNS: Registration = Registration {
    doc: Documentation {
        name: "patterns",
        aliases: &[],
        syntax: "patterns [<n>] [of <field>] [by (<field>, …)]",
        summary: "finds the patterns of messages, those with the most rows first, with an example \
                  of each",
        example: "patterns 20 of user by (hostname)",
    },
    parse: |cursor| parse(cursor).map(one),
};

fn parse(cursor: &mut Cursor<'_>) -> Result<Patterns, ParseError> {
    let mut patterns = Patterns { limit: None, field: FIELD.to_owned(), by: Vec::new() };
    if cursor.peek().is_some_and(|c| c.is_ascii_digit()) {
        patterns.limit = Some(parse_count(cursor, None)?);
    }
    if cursor.eat_keyword("of") {
        patterns.field = cursor.expect_string(false, "a field name")?.text;
    }
    if cursor.eat_keyword("by") {
        let position = cursor.position();
        patterns.by = parse_by(cursor)?;
        if let Some(name) = patterns.by.iter().find(|name| RESULTS.contains(&name.as_str())) {
            let message = format!("patterns makes a field {name:?} itself; rename the other first");
            return Err(cursor.error_at(position, &["other field names"], message));
        }
    }
    Ok(patterns)
}

impl fmt::Display for Patterns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("patterns")?;
        self.limit.map_or(Ok(()), |limit| write!(f, " {limit}"))?;
        if self.field != FIELD {
            write!(f, " of {}", quote_name(&self.field))?;
        }
        if self.by.is_empty() { Ok(()) } else { write!(f, " by ({})", write_names(&self.by)) }
    }
}

impl Operator for Patterns {
    fn mode(&self) -> Mode {
        Mode::Collecting
    }

    fn merges(&self) -> Merges {
        Merges::AnyOrder
    }

    fn needed_fields(&self, _wanted: FieldSet) -> FieldSet {
        let mut needed = FieldSet::of(self.by.iter().chain([&self.field]));
        needed.add("_time");
        needed
    }

    fn names(&self) -> Names {
        let results = RESULTS.iter().map(|name| (*name).to_owned());
        Names::Are(self.by.iter().cloned().chain(results).collect())
    }

    fn processor(&self, _carried: &[String]) -> Box<dyn Processor> {
        Box::new(PatternCounts {
            patterns: self.clone(),
            groups: Groups::default(),
            key: Buffer::default(),
            scratch: Scratch::default(),
            skeleton: analysis::patterns::Scratch::default(),
        })
    }
}

struct PatternCounts {
    patterns: Patterns,
    groups: Groups,
    key: Buffer,
    scratch: Scratch,
    skeleton: analysis::patterns::Scratch,
}

/// The messages of each group, by the values of the group.
#[derive(Default)]
struct Groups {
    /// Each in a box, because a hash table has up to twice as many buckets as entries, and a
    /// growing table exists twice.
    counts: HashMap<Box<[u8]>, Box<Counts>, foldhash::fast::RandomState>,
    /// Memory reserved for making the patterns of one group.
    working_bytes: usize,
}

/// Memory of a group besides its values and messages.
const GROUP_BYTES: usize = ENTRY_BYTES + size_of::<Counts>();

impl Groups {
    /// The messages of a group. The key is empty in a query without groups.
    fn of(&mut self, key: &[u8], meter: &mut Meter) -> Result<&mut Counts, RunError> {
        if !self.counts.contains_key(key) {
            meter.take(key.len() + GROUP_BYTES)?;
            self.counts.insert(key.into(), Counts::new(Counts::SKELETONS_MAX).into());
        }
        Ok(self.counts.get_mut(key).expect("it is there now"))
    }

    /// Changes the messages of a group, and counts the memory that this takes or frees.
    fn change(
        &mut self,
        key: &[u8],
        meter: &mut Meter,
        change: impl FnOnce(&mut Counts),
    ) -> Result<(), RunError> {
        let counts = self.of(key, meter)?;
        let before = counts.bytes();
        change(counts);
        let (after, working_bytes) = (counts.bytes(), counts.working_bytes());
        match after.checked_sub(before) {
            Some(more) => meter.take(more)?,
            None => meter.give_back(before - after),
        }
        if working_bytes > self.working_bytes {
            meter.take(working_bytes - self.working_bytes)?;
            self.working_bytes = working_bytes;
        }
        Ok(())
    }
}

impl Processor for PatternCounts {
    fn push(&mut self, block: Block, next: &mut Next<'_>) -> Result<ControlFlow<()>, RunError> {
        let PatternCounts { patterns, groups, key, scratch, skeleton } = self;
        let by: Vec<Column<'_>> = patterns.by.iter().map(|name| block.column(name)).collect();
        let (field, time) = (block.column(&patterns.field), block.column("_time"));
        for row in 0..block.len() {
            if row % CHECK_ROWS == CHECK_ROWS - 1 {
                next.check()?;
            }
            let meter = next.meter();
            key.clear(meter);
            for &column in &by {
                tuples::put_part(block.value(column, row, scratch), key, meter)?;
            }
            let time_ns = block.time_ns(time, row, scratch);
            let message = block.value(field, row, scratch);
            if !message.is_empty() {
                let push = |counts: &mut Counts| counts.push(message, time_ns, skeleton);
                groups.change(key.bytes(), meter, push)?;
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn collected(&mut self) -> Option<&mut dyn Any> {
        Some(&mut self.groups)
    }

    fn takes_any_order(&self) -> bool {
        true
    }

    fn merge(&mut self, collected: &mut dyn Any, next: &mut Next<'_>) -> Result<(), RunError> {
        let other = collected.downcast_mut::<Groups>().expect("of the same pipe");
        let Groups { counts, working_bytes } = std::mem::take(other);
        next.meter().give_back(working_bytes);
        for (key, counts) in counts {
            next.check()?;
            let bytes = key.len() + GROUP_BYTES + counts.bytes();
            self.groups.change(&key, next.meter(), |own| own.merge(*counts))?;
            next.meter().give_back(bytes);
        }
        Ok(())
    }

    /// Format: the number of groups, then each: its values, the number of its skeletons, and each
    /// of these with the number of its rows, the first and the last time and an example.
    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), RunError> {
        out.number(self.groups.counts.len() as u64)?;
        for (key, counts) in &self.groups.counts {
            out.bytes(key)?;
            out.number(counts.groups().count() as u64)?;
            for (skeleton, group) in counts.groups() {
                out.bytes(skeleton)?;
                out.number(group.hits)?;
                out.time(group.first_ns)?;
                out.time(group.last_ns)?;
                out.bytes(&group.example)?;
            }
        }
        Ok(())
    }

    fn decode(&mut self, from: &mut Decoder<'_>, meter: &mut Meter) -> Result<(), RunError> {
        for _ in 0..from.length(size_of::<u32>() + size_of::<u64>())? {
            let key = from.bytes()?;
            if !tuples::parts_fit(key, self.patterns.by.len()) {
                return Err(wrong_state("a group is not of these fields"));
            }
            if self.groups.counts.contains_key(key) {
                return Err(wrong_state("a group comes twice"));
            }
            for _ in 0..from.length(2 * size_of::<u32>() + size_of::<u64>())? {
                let (skeleton, group) = decode_group(from)?;
                self.groups.change(key, meter, |own| own.merge_group(skeleton.into(), group))?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, next: &mut Next<'_>) -> Result<(), RunError> {
        let mut groups = tuples::taken_out(&mut self.groups.counts, next.meter())?;
        groups.sort_unstable_by(|a, b| tuples::parts(&a.0).cmp(tuples::parts(&b.0)));
        let by: Vec<Arc<str>> = self.patterns.by.iter().map(|name| name.as_str().into()).collect();
        let results = RESULTS.map(Arc::<str>::from);
        let limit = self.patterns.limit.and_then(|limit| usize::try_from(limit).ok());
        let mut outgoing = Outgoing::default();
        for (key, counts) in groups {
            next.check()?;
            let bytes = counts.bytes();
            for pattern in counts.patterns().iter().take(limit.unwrap_or(usize::MAX)) {
                let mut row = RowBuilder::default();
                for (name, value) in by.iter().zip(tuples::parts(&key)) {
                    row.push(name.clone(), value, next.meter())?;
                }
                push_results(pattern, &results, &mut row, next.meter())?;
                if outgoing.push(row, next)?.is_break() {
                    return Ok(());
                }
            }
            next.meter().give_back(bytes);
        }
        outgoing.flush(next).map(drop)
    }
}

/// Reads a skeleton with its messages.
fn decode_group<'b>(from: &mut Decoder<'b>) -> Result<(&'b [u8], Group), RunError> {
    let skeleton = from.bytes()?;
    if skeleton.len() > SKELETON_BYTES_MAX {
        return Err(wrong_state("a skeleton is too long"));
    }
    let hits = from.count()?;
    let (first_ns, last_ns) = (from.time()?, from.time()?);
    let example = from.bytes()?;
    if example.len() > EXAMPLE_BYTES_MAX {
        return Err(wrong_state("an example is too long"));
    }
    Ok((skeleton, Group { hits, first_ns, last_ns, example: example.into() }))
}

/// Appends the fields of a pattern, without times where no row has one.
fn push_results(
    pattern: &Pattern,
    names: &[Arc<str>; RESULTS.len()],
    row: &mut RowBuilder,
    meter: &mut Meter,
) -> Result<(), RunError> {
    let Group { hits, first_ns, last_ns, example } = &pattern.group;
    let time = |time_ns: &Option<i64>| time_ns.map(|time_ns| format_time(time_ns).into_bytes());
    let values = [
        Some(pattern.text.clone()),
        Some(pattern.id.to_string().into_bytes()),
        Some(hits.to_string().into_bytes()),
        time(first_ns),
        time(last_ns),
        Some(example.to_vec()),
    ];
    let known = names.iter().zip(values).filter_map(|(name, value)| Some((name, value?)));
    for (name, value) in known {
        row.push(name.clone(), &value, meter)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use text::quoted::quote;

    use super::*;
    use crate::testing::{Record, check_pipe, record, rows_of};

    fn records() -> Vec<Record> {
        let row = |n: i64, host: &str, message: String| {
            record(n * 1_000_000_000, &[("_msg", message.as_str()), ("host", host)])
        };
        let mut records: Vec<Record> =
            (1..6).map(|n| row(n, "a", format!("login of u{n}{n} failed"))).collect();
        records.push(row(6, "b", "login of u7x7 failed".to_owned()));
        records.push(row(7, "b", "disk /dev/sda is full".to_owned()));
        records.push(record(8_000_000_000, &[("_msg", ""), ("host", "c"), ("text", "a 1")]));
        records
    }

    #[test]
    fn rows_are_grouped_by_pattern() {
        let check = |pipes: &str, expected: &[&str]| check_pipe(&records(), pipes, expected);
        check(
            "patterns",
            &[
                "pattern=login of <*> failed pattern_id=90acf0f8ea7742f4 hits=6 \
                 first=1970-01-01T00:00:01Z last=1970-01-01T00:00:06Z example=login of u11 failed",
                "pattern=disk <*> is full pattern_id=48dc89eecd2dc30d hits=1 \
                 first=1970-01-01T00:00:07Z last=1970-01-01T00:00:07Z example=disk /dev/sda is full",
            ],
        );
        check("patterns 1 | fields pattern, hits", &["pattern=login of <*> failed hits=6"]);
        check("patterns of text | fields pattern, hits", &["pattern=a <*> hits=1"]);
        check("patterns of none", &[]);
        check("delete _time | patterns 1 | fields first, hits", &["hits=6"]);
        check(
            "patterns by (host) | fields host, pattern, hits",
            &[
                "host=a pattern=login of <*> failed hits=5",
                "host=b pattern=disk <*> is full hits=1",
                "host=b pattern=login of <*> failed hits=1",
            ],
        );
        check("patterns 1 by (host) | fields host, hits", &["host=a hits=5", "host=b hits=1"]);
        check("patterns 5 by (host, text) | stats sum(hits) n", &["n=7"]);
    }

    #[test]
    fn names_of_results_are_refused_as_groups() {
        let parse = |text: &str| crate::Query::parse(&format!("* | {text}"), 0);
        assert!(parse("patterns by (pattern)").is_err());
        assert!(parse("patterns of pattern by (host)").is_ok());
        assert_eq!(parse("patterns of _msg by ()").unwrap().to_string(), "* | patterns");
    }

    #[test]
    fn too_many_skeletons_leave_a_rest() {
        let name = |mut n: usize| {
            let letter = |_| {
                let letter = (b'a' + (n % 26) as u8) as char;
                n /= 26;
                letter
            };
            (0..4).map(letter).collect::<String>()
        };
        let records: Vec<Record> =
            (0..Counts::SKELETONS_MAX + 1).map(|n| record(1, &[("_msg", &name(n))])).collect();
        let rows = rows_of("* | patterns | stats sum(hits) n, max(hits) rest", &records);
        let half = Counts::SKELETONS_MAX / 2;
        assert_eq!(rows, [format!("n={} rest={}", 2 * half + 1, half + 1)]);
    }

    /// Messages with words, values and marks, and with white space where it is unusual.
    fn message() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            "[a-c]{1,2}",
            "[0-9]{1,3}",
            "user|host|ms|May|=|\\(|\\)|<|>|\"|/|:|,|-|\\.|\\*|\\\\",
            "[ \t\r\n\u{0}-\u{2}\u{7f}]{1,3}",
            "[\u{a0}-\u{ff}]{1,2}",
        ];
        let short = proptest::collection::vec(part, 0..12).prop_map(|parts| parts.concat());
        let long = ("[a-c,. ]{1,2}", 100_usize..1_100).prop_map(|(part, n)| part.repeat(n));
        prop_oneof![15 => short, 1 => long]
    }

    proptest! {
        #[test]
        fn the_filter_of_a_pattern_selects_its_lines(
            messages in proptest::collection::vec(message(), 1..40),
        ) {
            let records: Vec<Record> =
                messages.iter().map(|message| record(1, &[("_msg", message.as_str())])).collect();
            let number = |text: &str| text.rsplit_once('=').unwrap().1.parse::<u64>().unwrap();
            for row in rows_of("* | patterns | fields pattern, hits", &records) {
                let text = row.rsplit_once("hits=").unwrap().0;
                let pattern = text.strip_prefix("pattern=").unwrap_or_default();
                let pattern = quote(pattern.strip_suffix(' ').unwrap_or(pattern));
                let query = format!("_msg:* pattern_match_full({pattern}) | stats count() n");
                let found = number(&rows_of(&query, &records)[0]);
                prop_assert!(found >= number(&row), "{row}: {found} lines");
            }
        }
    }
}
