//! The differences between both sides, the greatest first, without those that others explain.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use super::fields::{Field, Hits};
use super::messages::Sides;
use super::numbers::Shift;
use super::row::Common;
use super::score::{SCORE_MIN, score};
use crate::base::names::MSG;

/// Most differences of each kind that are compared with each other.
const CANDIDATES_MAX: usize = 1_000;
/// Most fields that are named with a difference, the rarest values first.
const WITH_MAX: usize = 6;
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
}

/// A difference.
#[derive(Debug)]
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
    let has_few = field.values.as_ref().is_some_and(|values| values.len() < NUMBERS_MIN);
    let numbers: u64 = field.numbers.rows().iter().sum();
    !has_few && field.texts <= numbers && !has_number_names(&field.name)
}

/// Finds the differences between the rows of both sides.
///
/// `scale` turns a number of other rows into the expected number of selected rows.
pub(super) fn differences(
    patterns: HashMap<Vec<u8>, Sides>,
    fields: &[Field],
    rows: [u64; 2],
    scale: f64,
) -> Vec<Difference> {
    let known = Known::new(fields, rows);
    let mut patterns: Vec<(Difference, Common)> = patterns
        .into_iter()
        .filter_map(|(text, sides)| pattern_difference(text, sides, scale))
        .collect();
    patterns.sort_unstable_by(|a, b| order(&a.0, &b.0));
    patterns.truncate(CANDIDATES_MAX);
    let mut values = value_differences(fields, &known, scale);

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
    found.extend(fields.iter().filter_map(number_difference));
    found.sort_unstable_by(order);
    found
}

fn pattern_difference(text: Vec<u8>, sides: Sides, scale: f64) -> Option<(Difference, Common)> {
    let hits = |side: usize| sides[side].as_ref().map_or(0, |part| part.group.hits);
    let rows = [hits(0), hits(1)];
    let expected = rows[0] as f64 * scale;
    let score = score(rows[1] as f64, expected);
    if score.abs() < SCORE_MIN {
        return None;
    }
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

/// Differences of values. Of several values with the same rows, only the first makes a difference;
/// it names the others.
fn value_differences(fields: &[Field], known: &Known<'_>, scale: f64) -> Vec<Difference> {
    let mut found = Vec::new();
    for field in fields.iter().filter(|field| !is_measured(field) && !is_noise(&field.name)) {
        for (value, hits) in field.values.iter().flatten() {
            let (rows, expected) = (hits.rows, hits.rows[0] as f64 * scale);
            let score = score(rows[1] as f64, expected);
            if score.abs() < SCORE_MIN || known.is_constant(hits) {
                continue;
            }
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
    let shift = field.numbers.shift().filter(|shift| shift.score.abs() >= SCORE_MIN)?;
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
                let hits = field.values.as_ref().and_then(|values| values.get(value));
                if hits.is_some_and(|hits| self.is_constant(hits)) {
                    return None;
                }
                // A field with too many values to count has rare values.
                let rows = hits.map_or(0, |hits| hits.rows.iter().sum());
                Some((rows, name.clone(), value.into()))
            })
            .collect();
        with.sort_unstable();
        with.truncate(WITH_MAX);
        with.into_iter().map(|(_, name, value)| (name, value)).collect()
    }
}
