//! What a panel shows of the rows of its answer: series over time, numbers, a list, a table. As the
//! page decides it (`lib/chart/shape.ts` and `lib/chart/frame.ts` of `web/src`). Pure.

use std::collections::{BTreeMap, BTreeSet};

use query::{Bucket, Query, Stats, Top, Uniq};
use text::time::parse_timestamp;

use super::panel::{Kind, Panel};
use super::units::{Unit, value_of};

/// Rows that are read for a panel.
///
/// limits.md, Dashboards by mail: rows of a panel; bytes of them | {}; {ROWS_BYTES_MAX} | later
/// ones are left out, and the mail says so
pub const ROWS_MAX: usize = 20_000;
/// Bytes of them.
pub const ROWS_BYTES_MAX: usize = 16 << 20;
/// Rows of a table that are shown.
///
/// limits.md, Dashboards by mail: rows of a table; its columns; characters of a value | {};
/// {COLUMNS_MAX}; {CELL_CHARS_MAX} | the rest is left out and counted
pub const TABLE_ROWS_MAX: usize = 30;
/// Columns of a table that are shown.
const COLUMNS_MAX: usize = 8;
/// Characters of a value.
const CELL_CHARS_MAX: usize = 500;
/// Buckets of a chart that are drawn.
///
/// limits.md, Dashboards by mail: points of a series | {} | later ones are left out, and the mail
/// says so
const POINTS_MAX: usize = 3_000;
/// Large numbers of a panel.
const NUMBERS_MAX: usize = 12;

/// Rows of an answer: texts in columns, an empty one where a row has none.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// The names, in the order in which they came.
    pub names: Vec<String>,
    /// The rows; each may be shorter than `names`.
    pub rows: Vec<Vec<String>>,
    /// Whether there are more.
    pub is_cut: bool,
}

/// What a panel shows.
#[derive(Clone, Debug, PartialEq)]
pub enum Shown {
    /// A text that somebody wrote.
    Text(String),
    /// No line matched.
    Nothing,
    /// The query failed, or the panel is of a kind that is not evaluated here; why.
    Failed(String),
    /// Series over time.
    Chart(Chart),
    /// Large numbers: a label, and the number as text.
    Numbers(Vec<(String, String)>),
    /// The greatest groups.
    List(List),
    /// Rows.
    Table(Table),
}

/// Series over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Where buckets begin, in milliseconds since 1970, ascending.
    pub times_ms: Vec<i64>,
    /// The width of a bucket.
    pub step_ms: i64,
    /// The series.
    pub series: Vec<Series>,
    /// The unit of all.
    pub unit: Unit,
    /// Whether bars are drawn; else lines.
    pub is_bars: bool,
    /// Whether each series stands upon the one before.
    pub is_stacked: bool,
}

/// One series.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its label.
    pub label: String,
    /// A value for each bucket; none where there is none.
    pub points: Vec<Option<f64>>,
    /// The sum of what can be added up, else the greatest.
    pub size: f64,
    /// Whether values are added up.
    pub is_additive: bool,
}

/// The greatest groups.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    /// Labels and sizes, the greatest first.
    pub entries: Vec<(String, f64)>,
    /// The unit of all.
    pub unit: Unit,
}

/// Rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The names of the columns, and whether each is of numbers.
    pub columns: Vec<(String, bool)>,
    /// The rows, with a text for each column.
    pub rows: Vec<Vec<String>>,
}

struct Value {
    column: usize,
    name: String,
    function: Option<&'static str>,
    is_additive: bool,
    unit: Unit,
}

/// The roles of columns.
struct Shape {
    time: Option<usize>,
    step_ms: Option<i64>,
    groups: Vec<usize>,
    /// Whether the first group is of numbers in steps.
    has_steps: bool,
    values: Vec<Value>,
    has_histogram: bool,
    is_grouped: bool,
}

impl Shape {
    fn of(rows: &Rows, query: &Query) -> Shape {
        let pipes = query.pipes();
        let stats = pipes.iter().rev().find_map(|pipe| pipe.get::<Stats>());
        let top = pipes.iter().rev().find_map(|pipe| pipe.get::<Top>());
        let uniq = pipes.iter().rev().find_map(|pipe| pipe.get::<Uniq>());
        let keys: BTreeSet<&str> = match (stats, top, uniq) {
            (Some(stats), _, _) => stats.by.iter().map(|by| by.name.as_str()).collect(),
            (_, Some(top), _) => top.by.iter().map(String::as_str).collect(),
            (_, _, Some(uniq)) => uniq.by.iter().map(String::as_str).collect(),
            _ => BTreeSet::new(),
        };
        let bucket = |name: &str| stats?.by.iter().find(|by| by.name == name)?.bucket.as_ref();
        let step_ms = match bucket("_time") {
            Some(Bucket::Time { step_ns, .. }) => Some((step_ns / 1_000_000).max(1)),
            _ => None,
        };
        let mut shape = Shape {
            time: None,
            step_ms,
            groups: Vec::new(),
            has_steps: false,
            values: Vec::new(),
            has_histogram: false,
            is_grouped: !keys.is_empty() || stats.is_some(),
        };
        for (column, name) in rows.names.iter().enumerate() {
            let cells = rows.rows.iter().filter_map(|row| row.get(column));
            let filled = || cells.clone().filter(|cell| !cell.is_empty());
            let all = |holds: &dyn Fn(&str) -> bool| {
                filled().next().is_some() && filled().all(|cell| holds(cell))
            };
            let is_key = keys.contains(name.as_str());
            let is_time =
                |cell: &str| cell.contains('T') && parse_timestamp(cell.as_bytes()).is_some();
            if shape.time.is_none() && (is_key || name == "_time") && all(&is_time) {
                shape.time = Some(column);
                continue;
            }
            let function = stats.and_then(|stats| stats.functions.iter().find(|f| f.name == *name));
            if !shape.has_histogram
                && all(&|cell| cell == "[]" || cell.starts_with("[{\"vmrange\":"))
            {
                shape.has_histogram = true;
            } else if is_key {
                shape.has_steps |=
                    shape.groups.is_empty() && matches!(bucket(name), Some(Bucket::Number { .. }));
                shape.groups.push(column);
            } else if all(&|cell| value_of(cell).is_some() || cell == "NaN") {
                let called = function.map(|function| function.function.name());
                let field = function.map(|function| function.function.to_string());
                let field = field.as_deref().and_then(last_argument);
                let is_written = all(&|cell| cell.parse::<f64>().is_err());
                let guessed = Unit::guess(name, called, field);
                let sums = ["count", "count_empty", "sum", "sum_len", "rate", "rate_sum"];
                shape.values.push(Value {
                    column,
                    name: name.clone(),
                    function: called,
                    is_additive: match called {
                        Some(called) => sums.contains(&called),
                        None => stats.is_none() && (top.is_some() || uniq.is_some()),
                    },
                    unit: if is_written { Unit::Nanos } else { guessed },
                });
            } else if function.is_none() && keys.is_empty() {
                shape.groups.push(column);
            }
        }
        shape
    }

    fn default_kind(&self, rows: usize) -> Kind {
        if self.has_histogram {
            return if self.time.is_none() { Kind::Histogram } else { Kind::Heat };
        }
        match (self.values.is_empty(), self.time.is_some(), self.groups.len()) {
            (true, _, _) => Kind::Table,
            (_, true, 1) if self.has_steps => Kind::Heat,
            (_, true, _) if self.is_grouped => Kind::Line,
            (_, true, _) => Kind::Table,
            (_, _, 0) if rows == 1 => Kind::Single,
            (_, _, 1) if self.has_steps => Kind::Histogram,
            (_, _, 1) => Kind::Top,
            _ => Kind::Table,
        }
    }

    fn can_be(&self, kind: Kind) -> bool {
        let has_numbers = !self.values.is_empty();
        match kind {
            Kind::Line | Kind::Area | Kind::Bars => has_numbers && self.time.is_some(),
            Kind::Heat => (self.has_histogram || has_numbers) && self.time.is_some(),
            Kind::Histogram => self.has_histogram || has_numbers && self.has_steps,
            Kind::Single | Kind::Top | Kind::Pie => has_numbers,
            Kind::Table => true,
        }
    }
}

/// The last argument of a function as it is written, without its quotes.
fn last_argument(function: &str) -> Option<&str> {
    let inside = function.split_once('(')?.1.rsplit_once(')')?.0;
    let last = inside.rsplit(',').next()?.trim().trim_matches('"');
    (!last.is_empty() && last != "*").then_some(last)
}

/// What a panel shows of an answer over a range in milliseconds. Sentences about what is not as on
/// the page go to `notes`.
pub fn shown(
    panel: &Panel,
    query: &Query,
    rows: &Rows,
    range_ms: (i64, i64),
    notes: &mut Vec<String>,
) -> Shown {
    if rows.rows.is_empty() {
        return Shown::Nothing;
    }
    if rows.is_cut {
        notes.push(format!("Only the first {} rows of its answer were read.", rows.rows.len()));
    }
    let shape = Shape::of(rows, query);
    let chosen = panel.kind.filter(|kind| shape.can_be(*kind));
    let kind = chosen.unwrap_or_else(|| shape.default_kind(rows.rows.len()));
    let values = values(panel, &shape, kind);
    match kind {
        Kind::Line | Kind::Area | Kind::Bars => {
            Shown::Chart(chart(panel, &shape, &values, rows, kind, range_ms, notes))
        }
        Kind::Single => Shown::Numbers(numbers(panel, &shape, &values, rows, range_ms, notes)),
        Kind::Top | Kind::Pie => match values.first() {
            Some(value) => Shown::List(list(panel, &shape, value, rows, notes)),
            None => Shown::Table(table(&shape, rows, notes)),
        },
        Kind::Heat | Kind::Histogram => {
            let name = if kind == Kind::Heat { "A heat map" } else { "A histogram" };
            notes
                .push(format!("{name} is not drawn here: open the dashboard to see it. Its rows:"));
            Shown::Table(table(&shape, rows, notes))
        }
        Kind::Table => Shown::Table(table(&shape, rows, notes)),
    }
}

/// The columns that are shown: the chosen ones, else those with the unit of the first; single
/// numbers have no axis to share.
fn values<'s>(panel: &Panel, shape: &'s Shape, kind: Kind) -> Vec<&'s Value> {
    let is_chosen = |value: &&Value| panel.values.contains(&value.name);
    let chosen: Vec<&Value> = shape.values.iter().filter(is_chosen).collect();
    if !chosen.is_empty() {
        return chosen;
    }
    let Some(first) = shape.values.first() else { return Vec::new() };
    let is_like = |value: &&Value| {
        kind == Kind::Single || value.unit == first.unit && value.is_additive == first.is_additive
    };
    shape.values.iter().filter(is_like).collect()
}

fn cell(row: &[String], column: usize) -> &str {
    row.get(column).map_or("", String::as_str)
}

fn label(row: &[String], groups: &[usize]) -> String {
    let name = |column: &usize| match cell(row, *column) {
        "" => "(none)".to_owned(),
        value => short(value),
    };
    groups.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// A value without control characters, cut.
fn short(text: &str) -> String {
    let mut out: String =
        text.chars().take(CELL_CHARS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if out.len() < text.len() && text.chars().nth(CELL_CHARS_MAX).is_some() {
        out.push('…');
    }
    out
}

/// Where buckets begin: those with rows; and, if all have one width, those between them and up to
/// the ends of the range.
fn bucket_times(
    found: BTreeSet<i64>,
    step_ms: Option<i64>,
    range_ms: (i64, i64),
) -> (Vec<i64>, i64) {
    let times: Vec<i64> = found.into_iter().collect();
    let (Some(&first), Some(&last)) = (times.first(), times.last()) else {
        return (times, step_ms.unwrap_or(1000));
    };
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]).min();
    let step = step_ms.or(gaps).unwrap_or(range_ms.1 - range_ms.0).max(1);
    if times.iter().any(|ms| (ms - first) % step != 0) {
        return (times, step);
    }
    let before = ((first - range_ms.0).max(0) + step - 1) / step;
    let end = range_ms.1.max(last + 1);
    let start = first - before * step;
    if (end - start) / step > POINTS_MAX as i64 {
        return (times, step);
    }
    let all = std::iter::successors(Some(start), |ms| Some(ms + step)).take_while(|ms| *ms < end);
    (all.collect(), step)
}

fn series(
    panel: &Panel,
    shape: &Shape,
    values: &[&Value],
    rows: &Rows,
    range_ms: (i64, i64),
    notes: &mut Vec<String>,
) -> (Vec<i64>, i64, Vec<Series>) {
    let Some(time) = shape.time else { return (Vec::new(), 1000, Vec::new()) };
    let at = |row: &[String]| {
        parse_timestamp(cell(row, time).as_bytes()).map(|ns| ns.div_euclid(1_000_000))
    };
    let found = rows.rows.iter().filter_map(|row| at(row)).collect();
    let (mut times, step_ms) = bucket_times(found, shape.step_ms, range_ms);
    if times.len() > POINTS_MAX {
        times.truncate(POINTS_MAX);
        notes.push(format!("Only the first {POINTS_MAX} points of each series are shown."));
    }
    let mut all: BTreeMap<(usize, String), Series> = BTreeMap::new();
    for row in &rows.rows {
        let Some(bucket) = at(row).and_then(|ms| times.binary_search(&ms).ok()) else { continue };
        let group = label(row, &shape.groups);
        for (place, value) in values.iter().enumerate() {
            let Some(number) = value_of(cell(row, value.column)) else { continue };
            let made = all.entry((place, group.clone())).or_insert_with(|| Series {
                label: match (shape.groups.is_empty(), values.len()) {
                    (true, _) => value.name.clone(),
                    (false, 1) => group.clone(),
                    (false, _) => format!("{} · {group}", value.name),
                },
                points: vec![value.is_additive.then_some(0.0); times.len()],
                size: if value.is_additive { 0.0 } else { f64::NEG_INFINITY },
                is_additive: value.is_additive,
            });
            match value.is_additive {
                true => {
                    made.points[bucket] = Some(made.points[bucket].unwrap_or(0.0) + number);
                    made.size += number;
                }
                false => {
                    made.points[bucket] = Some(number);
                    made.size = made.size.max(number);
                }
            }
        }
    }
    // Several columns share the number of series.
    let each = match shape.groups.is_empty() {
        true => usize::MAX,
        false => (panel.top / values.len().max(1)).max(1),
    };
    let mut kept = Vec::new();
    for (place, value) in values.iter().enumerate() {
        let mut own: Vec<Series> =
            all.iter().filter(|((of, _), _)| *of == place).map(|(_, one)| one.clone()).collect();
        own.sort_by(|a, b| b.size.total_cmp(&a.size));
        let rest = own.split_off(own.len().min(each));
        kept.append(&mut own);
        if rest.is_empty() {
            continue;
        }
        if !value.is_additive {
            notes.push(format!("{} smaller series are left out.", rest.len()));
            continue;
        }
        let points = (0..times.len())
            .map(|at| Some(rest.iter().filter_map(|one| one.points[at]).sum()))
            .collect();
        let size = rest.iter().map(|one| one.size).sum();
        let label = format!("others ({})", rest.len());
        kept.push(Series { label, points, size, is_additive: true });
    }
    kept.retain(|one| panel.shows(&one.label));
    (times, step_ms, kept)
}

fn chart(
    panel: &Panel,
    shape: &Shape,
    values: &[&Value],
    rows: &Rows,
    kind: Kind,
    range_ms: (i64, i64),
    notes: &mut Vec<String>,
) -> Chart {
    let (times_ms, step_ms, series) = series(panel, shape, values, rows, range_ms, notes);
    let first = values.first();
    let can_stack = values.iter().all(|value| Some(value.unit) == first.map(|first| first.unit));
    let stacks_itself = series.len() > 1 && values.len() == 1 && values[0].is_additive;
    let is_stacked = can_stack && panel.stacks.unwrap_or(stacks_itself);
    if kind == Kind::Area {
        let how = if is_stacked { "as stacked bars" } else { "as lines" };
        notes.push(format!("Areas are drawn {how}."));
    }
    let is_bars = kind == Kind::Bars || kind == Kind::Area && is_stacked;
    let unit = panel.unit.or(first.map(|first| first.unit)).unwrap_or(Unit::Number);
    Chart { times_ms, step_ms, series, unit, is_bars, is_stacked: is_stacked && is_bars }
}

fn numbers(
    panel: &Panel,
    shape: &Shape,
    values: &[&Value],
    rows: &Rows,
    range_ms: (i64, i64),
    notes: &mut Vec<String>,
) -> Vec<(String, String)> {
    let unit = |value: &Value| panel.unit.unwrap_or(value.unit);
    if shape.time.is_some() {
        let (_, _, series) = series(panel, shape, values, rows, range_ms, notes);
        let of = |one: &Series| {
            let value = values
                .iter()
                .find(|value| one.label.starts_with(&value.name))
                .unwrap_or(&values[0]);
            let is_rate = value.function.is_some_and(|name| name.starts_with("rate"));
            let (word, number) = match one.is_additive && !is_rate {
                true => ("total", Some(one.size)),
                false => ("last", one.points.iter().rev().find_map(|point| *point)),
            };
            let shown = number.map_or("–".to_owned(), |number| unit(value).long(number));
            (format!("{}, {word}", one.label), shown)
        };
        return series.iter().take(NUMBERS_MAX).map(of).collect();
    }
    if let (false, Some(value)) = (shape.groups.is_empty(), values.first()) {
        let list = list(panel, shape, value, rows, notes);
        let shown = |(label, size): &(String, f64)| (label.clone(), list.unit.long(*size));
        return list.entries.iter().take(NUMBERS_MAX).map(shown).collect();
    }
    let of = |value: &&Value| {
        let number = value_of(cell(&rows.rows[0], value.column));
        (value.name.clone(), number.map_or("–".to_owned(), |number| unit(value).long(number)))
    };
    values.iter().take(NUMBERS_MAX).map(of).collect()
}

fn list(panel: &Panel, shape: &Shape, value: &Value, rows: &Rows, notes: &mut Vec<String>) -> List {
    let mut all: BTreeMap<String, f64> = BTreeMap::new();
    for row in &rows.rows {
        let Some(number) = value_of(cell(row, value.column)) else { continue };
        let label =
            if shape.groups.is_empty() { value.name.clone() } else { label(row, &shape.groups) };
        let one = all.entry(label).or_insert(if value.is_additive { 0.0 } else { number });
        *one = if value.is_additive { *one + number } else { one.max(number) };
    }
    let mut entries: Vec<(String, f64)> =
        all.into_iter().filter(|(label, _)| panel.shows(label)).collect();
    entries.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let unit = panel.unit.unwrap_or(value.unit);
    let rest = entries.split_off(entries.len().min(panel.top));
    if !rest.is_empty() && value.is_additive {
        let sum: f64 = rest.iter().map(|(_, size)| size).sum();
        notes.push(format!("{} other groups have {} together.", rest.len(), unit.long(sum)));
    } else if !rest.is_empty() {
        notes.push(format!("{} smaller groups are left out.", rest.len()));
    }
    List { entries, unit }
}

fn table(shape: &Shape, rows: &Rows, notes: &mut Vec<String>) -> Table {
    let of = |column: usize| shape.values.iter().find(|value| value.column == column);
    let columns: Vec<(String, bool)> = rows
        .names
        .iter()
        .enumerate()
        .take(COLUMNS_MAX)
        .map(|(column, name)| (short(name), of(column).is_some()))
        .collect();
    if rows.names.len() > COLUMNS_MAX {
        notes.push(format!("{} columns are left out.", rows.names.len() - COLUMNS_MAX));
    }
    let texts = |row: &Vec<String>| {
        let text = |column: usize| match (of(column), value_of(cell(row, column))) {
            (Some(value), Some(number)) => value.unit.long(number),
            _ => short(cell(row, column)),
        };
        (0..columns.len()).map(text).collect()
    };
    let shown: Vec<Vec<String>> = rows.rows.iter().take(TABLE_ROWS_MAX).map(texts).collect();
    let more = rows.rows.len() - shown.len();
    if more > 0 {
        let at_least = if rows.is_cut { "at least " } else { "" };
        notes.push(format!("{at_least}{more} more rows are left out."));
    }
    Table { columns, rows: shown }
}

#[cfg(test)]
#[path = "shown_tests.rs"]
mod tests;
