//! The differences between both sides, the greatest first, without those that others explain.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use super::fields::{Field, Hits};
use super::messages::Sides;
use super::numbers::{QUANTILES, Shift};
use super::row::Common;
use super::score::{among_peers, counts, least_score, score};
use crate::base::names::MSG;

/// Most differences of each kind that are compared with each other.
const CANDIDATES_MAX: usize = 1_000;
/// Most fields that are named with a difference, the rarest values first.
const WITH_MAX: usize = 6;
/// Most patterns that are named only because they were never seen before.
const FIRST_MAX: usize = 10;
/// A value is explained by patterns with it that make up this share of its difference.
const EXPLAINED_SHARE: f64 = 0.8;
/// A field with fewer different numbers than this has values, such as a status, and no quantiles.
const NUMBERS_MIN: usize = 12;

/// What a difference is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DifferenceKind {
    /// Messages of one pattern.
    Pattern,
    /// Rows with one value of a field.
    Value,
    /// The numbers of a field.
    Number,
    /// Messages of one pattern that no other row has, too few of them to be a difference.
    First,
}

/// A difference.
#[derive(Clone, Debug)]
pub(super) struct Difference {
    pub kind: DifferenceKind,
    pub field: Arc<str>,
    /// The text of the pattern, or the value.
    pub value: Vec<u8>,
    /// Rows of both sides: first the others, then the selected ones. For a difference of numbers,
    /// the rows beyond the quantile of the others.
    pub rows: [u64; 2],
    /// Expected number of selected rows.
    pub expected: f64,
    pub score: f64,
    pub first_ns: Option<i64>,
    pub last_ns: Option<i64>,
    pub example: Option<Box<[u8]>>,
    /// Fields that have the same value in all these rows, the rarest values first.
    pub with: Vec<(Arc<str>, Box<[u8]>)>,
    pub shift: Option<Shift>,
}

impl Difference {
    /// Rows more or less than expected.
    fn size(&self) -> f64 {
        (self.rows[1] as f64 - self.expected).abs()
    }

    fn is_rise(&self) -> bool {
        self.score > 0.0
    }
}

/// By size, then by what they are about.
fn order(a: &Difference, b: &Difference) -> Ordering {
    let by_score = b.score.abs().total_cmp(&a.score.abs());
    by_score.then_with(|| a.field.cmp(&b.field)).then_with(|| a.value.cmp(&b.value))
}

/// The last word of the name of a field: `id` of `trace_id`.
fn last_word(name: &str) -> &str {
    name.rsplit(['.', '_', '-', '/']).next().unwrap_or(name)
}

/// Whether a field explains nothing: it differs between any two processes or times, or it is a part
/// of the syslog header that `_level` or the name of the program replaces.
fn is_noise(name: &str) -> bool {
    name.starts_with("_stream")
        || matches!(name, "proc_id" | "process_id" | "thread_id" | "_received")
        || matches!(name, "priority" | "severity" | "facility" | "facility_keyword" | "format")
        || matches!(
            last_word(name),
            "pid" | "procid" | "tid" | "time" | "timestamp" | "ts" | "date" | "seq" | "sequence"
        )
}

/// Whether the numbers in a field are identifiers.
fn has_number_names(name: &str) -> bool {
    matches!(last_word(name), "id" | "port" | "code" | "status" | "version" | "line" | "uid")
}

/// Whether quantiles say more about a field than its values do.
fn is_measured(field: &Field) -> bool {
    let has_few = field.values.len() < NUMBERS_MIN && !field.values.is_cut();
    let numbers: u64 = field.numbers.rows().iter().sum();
    !has_few && field.texts <= numbers && !has_number_names(&field.name)
}

/// Finds the differences between the rows of both sides.
///
/// `scale` turns a number of other rows into the expected number of selected rows. With
/// `with_first`, patterns that no other row has follow, however few rows they have.
pub(super) fn differences(
    patterns: HashMap<Vec<u8>, Sides>,
    fields: &[Field],
    rows: [u64; 2],
    scale: f64,
    with_first: bool,
) -> Vec<Difference> {
    let known = Known::new(fields, rows);
    let mut patterns = scored_patterns(patterns, scale);
    let mut values = scored_values(fields, &known, scale);
    let mut numbers: Vec<Difference> = fields.iter().filter_map(number_difference).collect();

    // The more scores there are, the larger some of them are by chance.
    let looked_at = patterns.iter().map(|(pattern, _)| pattern).chain(&values);
    let measured = fields.iter().filter(|field| is_measured(field) && !is_noise(&field.name));
    let tests = looked_at.filter(|one| counts(one.rows, scale)).count()
        + measured.count() * QUANTILES.len();
    let all = patterns.iter().map(|(pattern, _)| pattern).chain(&values).chain(&numbers);
    let least = least_score(all.map(|one| one.score), tests);
    let is_found = |one: &Difference| one.score.abs() >= least;
    let first = if with_first && rows[0] > 0 { first_seen(&patterns, is_found) } else { vec![] };
    patterns.retain(|(pattern, _)| is_found(pattern));
    patterns.sort_unstable_by(|a, b| order(&a.0, &b.0));
    patterns.truncate(CANDIDATES_MAX);
    values.retain(is_found);
    let mut values = distinct(values);
    numbers.retain(is_found);

    // Of values with more lines, the patterns say what these lines are, so a pattern explains its
    // values.
    values.retain(|value| !value.is_rise() || !is_explained(value, &patterns));
    // Of values with fewer lines, the value says who is silent, so it explains the patterns that
    // only it had.
    patterns.retain(|(pattern, common)| {
        let explains = |value: &Difference| {
            !value.is_rise()
                && value.score <= pattern.score
                && common.get(&value.field) == Some(&value.value)
        };
        pattern.is_rise() || !values.iter().any(explains)
    });

    let mut found = values;
    for (mut pattern, common) in patterns {
        pattern.with = known.telling(&common);
        found.push(pattern);
    }
    found.extend(numbers);
    found.sort_unstable_by(order);
    found.extend(first.into_iter().map(|(mut pattern, common)| {
        pattern.with = known.telling(&common);
        pattern
    }));
    found
}

/// The patterns of selected rows that no other row has and that are no differences: the worst level
/// first, then the earliest line. One line of a job, a deployment or a disk may be the cause of all
/// differences.
fn first_seen(
    patterns: &[(Difference, Common)],
    is_found: impl Fn(&Difference) -> bool,
) -> Vec<(Difference, Common)> {
    let rank = |common: &Common| {
        let level = common.get("_level").or_else(|| common.get("level"));
        level.map_or(LEVELS.len(), |level| {
            LEVELS.iter().position(|name| name.as_bytes() == level).unwrap_or(LEVELS.len())
        })
    };
    let mut first: Vec<&(Difference, Common)> =
        patterns.iter().filter(|(one, _)| one.rows[0] == 0 && !is_found(one)).collect();
    first.sort_by_key(|(one, common)| (rank(common), one.first_ns.unwrap_or(i64::MAX)));
    let named = first.into_iter().take(FIRST_MAX).map(|(one, common)| {
        let one = Difference { kind: DifferenceKind::First, ..one.clone() };
        (one, common.clone())
    });
    named.collect()
}

/// Levels that say that something went wrong, the worst first.
const LEVELS: [&str; 7] = ["emerg", "alert", "critical", "fatal", "error", "warning", "notice"];

/// The score of some rows, before its peers are looked at.
fn scored(rows: [u64; 2], scale: f64) -> ([u64; 2], f64) {
    (rows, score(rows.map(|rows| rows as f64), scale))
}

/// All patterns with their scores.
fn scored_patterns(patterns: HashMap<Vec<u8>, Sides>, scale: f64) -> Vec<(Difference, Common)> {
    let mut patterns: Vec<_> = patterns.into_iter().collect();
    patterns.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let hits =
        |sides: &Sides| [0, 1].map(|side| sides[side].as_ref().map_or(0, |part| part.group.hits));
    let found = patterns.into_iter().filter_map(|(text, sides)| {
        let (rows, score) = scored(hits(&sides), scale);
        pattern_difference(text, sides, rows, score, scale)
    });
    found.collect()
}

fn pattern_difference(
    text: Vec<u8>,
    sides: Sides,
    rows: [u64; 2],
    score: f64,
    scale: f64,
) -> Option<(Difference, Common)> {
    let expected = rows[0] as f64 * scale;
    let [others, selected] = sides;
    let first_ns = selected.as_ref().and_then(|part| part.group.first_ns);
    let last_ns = others.as_ref().and_then(|part| part.group.last_ns);
    let part = if score > 0.0 { selected.or(others) } else { others.or(selected) }?;
    let difference = Difference {
        kind: DifferenceKind::Pattern,
        field: MSG.into(),
        value: text,
        rows,
        expected,
        score,
        first_ns,
        last_ns,
        example: Some(part.group.example),
        with: Vec::new(),
        shift: None,
    };
    Some((difference, part.common))
}

/// All values that not every row has, with their scores.
fn scored_values(fields: &[Field], known: &Known<'_>, scale: f64) -> Vec<Difference> {
    let mut found = Vec::new();
    for field in fields.iter().filter(|field| !is_measured(field) && !is_noise(&field.name)) {
        let mut values: Vec<(&[u8], Hits)> = field.values.iter(scale).collect();
        values.sort_unstable_by_key(|(value, _)| *value);
        let own: Vec<_> = values.iter().map(|(_, hits)| scored(hits.rows, scale)).collect();
        for ((value, hits), score) in values.into_iter().zip(among_peers(&own)) {
            if known.is_constant(&hits) {
                continue;
            }
            let (rows, expected) = (hits.rows, hits.rows[0] as f64 * scale);
            found.push(Difference {
                kind: DifferenceKind::Value,
                field: field.name.clone(),
                value: value.to_vec(),
                rows,
                expected,
                score,
                first_ns: hits.first_ns,
                last_ns: hits.last_ns,
                example: None,
                with: Vec::new(),
                shift: None,
            });
        }
    }
    found
}

/// Of several values with the same rows, only the first makes a difference; it names the others.
fn distinct(mut found: Vec<Difference>) -> Vec<Difference> {
    found.sort_unstable_by(order);
    found.truncate(CANDIDATES_MAX);
    let mut distinct: Vec<Difference> = Vec::new();
    for value in found {
        let times = |one: &Difference| (one.rows, one.first_ns, one.last_ns);
        match distinct.iter_mut().find(|one| times(one) == times(&value)) {
            Some(same) if same.field != value.field => {
                if same.with.len() < WITH_MAX {
                    same.with.push((value.field, value.value.into()));
                }
            }
            _ => distinct.push(value),
        }
    }
    distinct
}

/// Whether rising patterns that all have a value make up nearly all of its difference.
fn is_explained(value: &Difference, patterns: &[(Difference, Common)]) -> bool {
    let with_it = patterns.iter().filter(|(pattern, common)| {
        pattern.is_rise() && common.get(&value.field) == Some(&value.value)
    });
    with_it.map(|(pattern, _)| pattern.size()).sum::<f64>() >= EXPLAINED_SHARE * value.size()
}

fn number_difference(field: &Field) -> Option<Difference> {
    if !is_measured(field) || is_noise(&field.name) {
        return None;
    }
    let shift = field.numbers.shift()?;
    Some(Difference {
        kind: DifferenceKind::Number,
        field: field.name.clone(),
        value: Vec::new(),
        rows: shift.beyond,
        expected: shift.expected,
        score: shift.score,
        first_ns: None,
        last_ns: None,
        example: None,
        with: Vec::new(),
        shift: Some(shift),
    })
}

/// All values, to find those that distinguish rows.
struct Known<'f> {
    values: HashMap<&'f str, &'f Field>,
    rows: [u64; 2],
}

impl<'f> Known<'f> {
    fn new(fields: &'f [Field], rows: [u64; 2]) -> Known<'f> {
        Known { values: fields.iter().map(|field| (&*field.name, field)).collect(), rows }
    }

    /// Whether all rows of both sides have a value.
    fn is_constant(&self, hits: &Hits) -> bool {
        hits.rows == self.rows
    }

    /// The common fields that distinguish these rows: not those that all rows have; the rarest
    /// values first.
    fn telling(&self, common: &Common) -> Vec<(Arc<str>, Box<[u8]>)> {
        let has_level = common.get("_level").is_some();
        let told = common.iter().filter(|(name, _)| {
            let is_said = &***name == MSG || has_level && &***name == "level";
            !is_said && !is_noise(name)
        });
        let mut with: Vec<(u64, Arc<str>, Box<[u8]>)> = told
            .filter_map(|(name, value)| {
                let field = self.values.get(&**name)?;
                let hits = field.values.get(value);
                if hits.is_some_and(|hits| self.is_constant(hits)) {
                    return None;
                }
                // A value that is not counted is rare.
                let rows = hits.map_or(0, |hits| hits.rows.iter().sum());
                Some((rows, name.clone(), value.into()))
            })
            .collect();
        with.sort_unstable();
        with.truncate(WITH_MAX);
        with.into_iter().map(|(_, name, value)| (name, value)).collect()
    }
}
