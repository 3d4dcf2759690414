//! What a panel shows of the rows of its answer: series over time, numbers, a list, a table. As the
//! page decides it (`lib/chart/shape.ts` and `lib/chart/frame.ts` of `web/src`). Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use query::{Bucket, Query, Stats, Top, Uniq};
use text::time::parse_timestamp;

use super::bins::{Bin, Scale, ranges_of};
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
/// Steps of a distribution or a heat map of numbers in steps.
///
/// limits.md, Dashboards by mail: steps of a distribution or a heat map | {} | higher ones are left
/// out and counted
const STEPS_MAX: usize = 100;
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
    /// The greatest groups, or the bins of a distribution.
    List(List),
    /// A grid of times and groups or bins.
    Heat(Heat),
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

/// A grid of times and rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Heat {
    /// Where buckets begin, in milliseconds since 1970, ascending.
    pub times_ms: Vec<i64>,
    /// The width of a bucket.
    pub step_ms: i64,
    /// Labels, and a number for each bucket, from the bottom.
    pub rows: Vec<(String, Vec<f64>)>,
    /// The unit of the numbers.
    pub unit: Unit,
}

/// Groups or bins with their sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    /// Labels and sizes: groups with the greatest first, bins with the lowest first.
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
    /// The width of the steps, where the first group is of numbers in steps.
    step: Option<f64>,
    values: Vec<Value>,
    /// The column of the function `histogram`, and the unit of its ranges.
    histogram: Option<(usize, Unit)>,
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
            step: None,
            values: Vec::new(),
            histogram: None,
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
            if shape.histogram.is_none()
                && all(&|cell| cell == "[]" || cell.starts_with("[{\"vmrange\":"))
            {
                let field = function.map(|function| function.function.to_string());
                let field = field.as_deref().and_then(last_argument);
                shape.histogram = Some((column, Unit::guess(name, None, field)));
            } else if is_key {
                if let (true, Some(Bucket::Number { size, .. })) =
                    (shape.groups.is_empty(), bucket(name))
                {
                    shape.step = value_of(&size.text);
                }
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

    /// The time of a row.
    fn time_ms(&self, row: &[String]) -> Option<i64> {
        let ns = parse_timestamp(cell(row, self.time?).as_bytes())?;
        Some(ns.div_euclid(1_000_000))
    }

    fn default_kind(&self, rows: usize) -> Kind {
        if self.histogram.is_some() {
            return if self.time.is_none() { Kind::Histogram } else { Kind::Heat };
        }
        match (self.values.is_empty(), self.time.is_some(), self.groups.len()) {
            (true, _, _) => Kind::Table,
            (_, true, 1) if self.step.is_some() => Kind::Heat,
            (_, true, _) if self.is_grouped => Kind::Line,
            (_, true, _) => Kind::Table,
            (_, _, 0) if rows == 1 => Kind::Single,
            (_, _, 1) if self.step.is_some() => Kind::Histogram,
            (_, _, 1) => Kind::Top,
            _ => Kind::Table,
        }
    }

    fn can_be(&self, kind: Kind) -> bool {
        let has_numbers = !self.values.is_empty();
        match kind {
            Kind::Line | Kind::Area | Kind::Bars => has_numbers && self.time.is_some(),
            Kind::Heat => (self.histogram.is_some() || has_numbers) && self.time.is_some(),
            Kind::Histogram => self.histogram.is_some() || has_numbers && self.step.is_some(),
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

/// The answer to a panel's query.
#[derive(Clone, Copy)]
pub struct Answered<'a> {
    /// The panel.
    pub panel: &'a Panel,
    /// Its query.
    pub query: &'a Query,
    /// The rows of the answer.
    pub rows: &'a Rows,
    /// The range that was asked, in milliseconds since 1970.
    pub range_ms: (i64, i64),
    /// The zone in which times are written.
    pub zone: &'a TimeZone,
}

impl Answered<'_> {
    /// What the panel shows of it. Sentences about what is not as on the page go to `notes`.
    pub fn shown(self, notes: &mut Vec<String>) -> Shown {
        let rows = self.rows.rows.len();
        if rows == 0 {
            return Shown::Nothing;
        }
        if self.rows.is_cut {
            notes.push(format!("Only the first {rows} rows of its answer were read."));
        }
        let shape = Shape::of(self.rows, self.query);
        let chosen = self.panel.kind.filter(|kind| shape.can_be(*kind));
        let kind = chosen.unwrap_or_else(|| shape.default_kind(rows));
        let values = values(self.panel, &shape, kind);
        let look = Look { of: self, shape: &shape, values: &values };
        match kind {
            Kind::Line | Kind::Area | Kind::Bars => Shown::Chart(look.chart(kind, notes)),
            Kind::Single => Shown::Numbers(look.numbers(notes)),
            Kind::Top | Kind::Pie => match values.first() {
                Some(value) => Shown::List(look.list(value, notes)),
                None => Shown::Table(look.table(notes)),
            },
            Kind::Heat => Shown::Heat(look.heat(notes)),
            Kind::Histogram => Shown::List(look.distribution(notes)),
            Kind::Table => Shown::Table(look.table(notes)),
        }
    }
}

/// An answer, and what its columns are.
struct Look<'a> {
    of: Answered<'a>,
    shape: &'a Shape,
    /// The columns of numbers that are shown.
    values: &'a [&'a Value],
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

impl Look<'_> {
    fn series(&self, notes: &mut Vec<String>) -> (Vec<i64>, i64, Vec<Series>) {
        let Look { of: Answered { panel, rows, range_ms, .. }, shape, values } = *self;
        let found = rows.rows.iter().filter_map(|row| shape.time_ms(row)).collect();
        let (mut times, step_ms) = bucket_times(found, shape.step_ms, range_ms);
        if times.len() > POINTS_MAX {
            times.truncate(POINTS_MAX);
            notes.push(format!("Only the first {POINTS_MAX} points of each series are shown."));
        }
        // The sizes first: points are made for the chosen series alone, as there may be as many
        // groups as rows.
        let mut sizes: Vec<BTreeMap<String, f64>> = vec![BTreeMap::new(); values.len()];
        let bucket = |row: &[String]| times.binary_search(&shape.time_ms(row)?).ok();
        for row in rows.rows.iter().filter(|row| bucket(row).is_some()) {
            let group = label(row, &shape.groups);
            for (value, sizes) in values.iter().zip(&mut sizes) {
                let Some(number) = value_of(cell(row, value.column)) else { continue };
                match (sizes.get_mut(&group), value.is_additive) {
                    (Some(size), true) => *size += number,
                    (Some(size), false) => *size = size.max(number),
                    (None, _) => _ = sizes.insert(group.clone(), number),
                }
            }
        }
        // Several columns share the number of series.
        let each = match shape.groups.is_empty() {
            true => usize::MAX,
            false => (panel.top / values.len().max(1)).max(1),
        };
        let mut kept: Vec<Series> = Vec::new();
        let mut places: Vec<BTreeMap<String, usize>> = Vec::new();
        for (value, sizes) in values.iter().zip(sizes) {
            let points = vec![value.is_additive.then_some(0.0); times.len()];
            let is_additive = value.is_additive;
            let mut own: Vec<(String, f64)> = sizes.into_iter().collect();
            own.sort_by(|a, b| b.1.total_cmp(&a.1));
            let rest = own.split_off(own.len().min(each));
            let mut place = BTreeMap::new();
            for (group, size) in own {
                let label = match (shape.groups.is_empty(), values.len()) {
                    (true, _) => value.name.clone(),
                    (false, 1) => group.clone(),
                    (false, _) => format!("{} · {group}", value.name),
                };
                place.insert(group, kept.len());
                kept.push(Series { label, points: points.clone(), size, is_additive });
            }
            if !rest.is_empty() && !is_additive {
                notes.push(format!("{} smaller series are left out.", rest.len()));
            } else if !rest.is_empty() {
                let label = format!("others ({})", rest.len());
                let size = rest.iter().map(|(_, size)| size).sum();
                place.extend(rest.into_iter().map(|(group, _)| (group, kept.len())));
                kept.push(Series { label, points, size, is_additive });
            }
            places.push(place);
        }
        for row in &rows.rows {
            let Some(bucket) = bucket(row) else { continue };
            let group = label(row, &shape.groups);
            for (value, place) in values.iter().zip(&places) {
                let number = value_of(cell(row, value.column));
                let (Some(number), Some(at)) = (number, place.get(&group)) else { continue };
                let point = &mut kept[*at].points[bucket];
                *point =
                    Some(if value.is_additive { point.unwrap_or(0.0) + number } else { number });
            }
        }
        kept.retain(|one| panel.shows(&one.label));
        (times, step_ms, kept)
    }

    fn chart(&self, kind: Kind, notes: &mut Vec<String>) -> Chart {
        let Look { of: Answered { panel, .. }, values, .. } = *self;
        let (times_ms, step_ms, series) = self.series(notes);
        let first = values.first();
        let can_stack =
            values.iter().all(|value| Some(value.unit) == first.map(|first| first.unit));
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

    fn numbers(&self, notes: &mut Vec<String>) -> Vec<(String, String)> {
        let Look { of: Answered { panel, rows, .. }, shape, values } = *self;
        let unit = |value: &Value| panel.unit.unwrap_or(value.unit);
        if shape.time.is_some() {
            let (_, _, series) = self.series(notes);
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
            let list = self.list(value, notes);
            let shown = |(label, size): &(String, f64)| (label.clone(), list.unit.long(*size));
            return list.entries.iter().take(NUMBERS_MAX).map(shown).collect();
        }
        let of = |value: &&Value| {
            let number = value_of(cell(&rows.rows[0], value.column));
            (value.name.clone(), number.map_or("–".to_owned(), |number| unit(value).long(number)))
        };
        values.iter().take(NUMBERS_MAX).map(of).collect()
    }

    fn list(&self, value: &Value, notes: &mut Vec<String>) -> List {
        let Look { of: Answered { panel, rows, .. }, shape, .. } = *self;
        let mut all: BTreeMap<String, f64> = BTreeMap::new();
        for row in &rows.rows {
            let Some(number) = value_of(cell(row, value.column)) else { continue };
            let label = if shape.groups.is_empty() {
                value.name.clone()
            } else {
                label(row, &shape.groups)
            };
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

    /// The unit of the numbers whose distribution is shown.
    fn scale_unit(&self) -> Unit {
        let Look { of: Answered { panel, rows, .. }, shape, values } = *self;
        let of_steps = || shape.step.and_then(|_| rows.names.get(*shape.groups.first()?));
        let guessed = match (shape.histogram, of_steps()) {
            (Some((_, unit)), _) => unit,
            (None, Some(name)) => Unit::guess(name, None, None),
            (None, None) => values.first().map_or(Unit::Number, |value| value.unit),
        };
        panel.unit.unwrap_or(guessed)
    }

    /// One distribution over all rows.
    fn distribution(&self, notes: &mut Vec<String>) -> List {
        let Look { of: Answered { rows, .. }, shape, values } = *self;
        let mut bins = Vec::new();
        if let Some((column, _)) = shape.histogram {
            let ranges: Vec<Bin> =
                rows.rows.iter().flat_map(|row| ranges_of(cell(row, column))).collect();
            let scale = Scale::over(ranges.iter());
            bins.clone_from(&scale.bins);
            ranges.iter().for_each(|range| bins[scale.bin_of(range)].hits += range.hits);
        } else if let (Some(step), Some(value), Some(group)) =
            (shape.step, values.first(), shape.groups.first())
        {
            for row in &rows.rows {
                let Some(from) = value_of(cell(row, *group)) else { continue };
                let hits = value_of(cell(row, value.column)).unwrap_or(0.0);
                bins.push(Bin { from, to: from + step, hits });
            }
            bins.sort_by(|a, b| a.from.total_cmp(&b.from));
            bins.dedup_by(|next, bin| {
                let is_same = next.from == bin.from;
                bin.hits += if is_same { next.hits } else { 0.0 };
                is_same
            });
            if bins.len() > STEPS_MAX {
                notes.push(format!("{} higher steps are left out.", bins.len() - STEPS_MAX));
                bins.truncate(STEPS_MAX);
            }
        }
        let unit = self.scale_unit();
        let entries = bins.iter().map(|bin| (bin.label(unit), bin.hits)).collect();
        List { entries, unit: Unit::Number }
    }

    fn heat(&self, notes: &mut Vec<String>) -> Heat {
        let Look { of: Answered { panel, rows, range_ms, .. }, shape, values } = *self;
        let times: Vec<Option<i64>> = rows.rows.iter().map(|row| shape.time_ms(row)).collect();
        let found = times.iter().flatten().copied().collect();
        let (mut times_ms, step_ms) = bucket_times(found, shape.step_ms, range_ms);
        if times_ms.len() > POINTS_MAX {
            times_ms.truncate(POINTS_MAX);
            notes.push(format!("Only the first {POINTS_MAX} points of each series are shown."));
        }
        let bucket = |at: usize| times_ms.binary_search(&times[at]?).ok();
        let blank = || vec![0.0; times_ms.len()];
        let unit = self.scale_unit();
        if let Some((column, _)) = shape.histogram {
            let ranges: Vec<Vec<Bin>> =
                rows.rows.iter().map(|row| ranges_of(cell(row, column))).collect();
            let scale = Scale::over(ranges.iter().flatten());
            let mut grid: Vec<(String, Vec<f64>)> =
                scale.bins.iter().map(|bin| (bin.label(unit), blank())).collect();
            for (at, ranges) in ranges.iter().enumerate() {
                let Some(bucket) = bucket(at) else { continue };
                ranges.iter().for_each(|range| grid[scale.bin_of(range)].1[bucket] += range.hits);
            }
            return Heat { times_ms, step_ms, rows: grid, unit: Unit::Number };
        }
        let cells_unit = values.first().map_or(Unit::Number, |value| value.unit);
        let step = shape.step.filter(|_| shape.groups.len() == 1);
        // Groups, each with its place, label and sum. Cells are made for the chosen ones alone:
        // there may be as many groups as rows.
        let mut groups: BTreeMap<String, (f64, String, f64)> = BTreeMap::new();
        let number = |at: usize, row: &[String]| {
            Some((bucket(at)?, value_of(cell(row, values.first()?.column))?))
        };
        for (at, row) in rows.rows.iter().enumerate() {
            let Some((_, number)) = number(at, row) else { continue };
            let range = step.and_then(|step| {
                let from = value_of(cell(row, *shape.groups.first()?))?;
                Some(Bin { from, to: from + step, hits: 0.0 })
            });
            let group = label(row, &shape.groups);
            let shown = range.map_or_else(|| group.clone(), |range| range.label(unit));
            let order = range.map_or(f64::NEG_INFINITY, |range| range.from);
            groups.entry(group).or_insert((order, shown, 0.0)).2 += number;
        }
        let mut all: Vec<(String, (f64, String, f64))> = groups.into_iter().collect();
        let found = all.len();
        match step {
            Some(_) => {
                all.sort_by(|(_, a), (_, b)| a.0.total_cmp(&b.0));
                all.truncate(STEPS_MAX);
            }
            None => {
                // The biggest group is on top.
                all.sort_by(|(_, a), (_, b)| b.2.total_cmp(&a.2));
                all.truncate(panel.top);
                all.reverse();
            }
        }
        if found > all.len() {
            let which = if step.is_some() { "higher" } else { "smaller" };
            notes.push(format!("{} {which} rows are left out.", found - all.len()));
        }
        let places: BTreeMap<&str, usize> =
            all.iter().enumerate().map(|(place, (group, _))| (group.as_str(), place)).collect();
        let mut grid: Vec<(String, Vec<f64>)> =
            all.iter().map(|(_, (_, label, _))| (label.clone(), blank())).collect();
        for (at, row) in rows.rows.iter().enumerate() {
            let Some((bucket, number)) = number(at, row) else { continue };
            if let Some(place) = places.get(label(row, &shape.groups).as_str()) {
                grid[*place].1[bucket] += number;
            }
        }
        Heat { times_ms, step_ms, rows: grid, unit: cells_unit }
    }

    fn table(&self, notes: &mut Vec<String>) -> Table {
        let Look { of: Answered { rows, zone, .. }, shape, .. } = *self;
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
            let text = |column: usize| {
                let cell = cell(row, column);
                let time = (shape.time == Some(column)).then(|| local_time(cell, zone)).flatten();
                match (time, of(column), value_of(cell)) {
                    (Some(time), _, _) => time,
                    (None, Some(value), Some(number)) => value.unit.long(number),
                    _ => short(cell),
                }
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
}

/// A time of an answer in a zone, as charts write it; `None`: no time.
fn local_time(cell: &str, zone: &TimeZone) -> Option<String> {
    let at = Timestamp::from_nanosecond(parse_timestamp(cell.as_bytes())?.into()).ok()?;
    Some(at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S%.f").to_string())
}

#[cfg(test)]
#[path = "shown_tests.rs"]
mod tests;
