//! Stats functions of the naive evaluator, and random functions.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use proptest::prelude::*;
use text::quoted::quote;
use text::time::format_time;

use super::filters::any_filter;
use super::{Row, any_name, time_of, value};
use crate::base::names::NamePattern;
use crate::base::number::{compare_values, parse_number, parse_quantity, write_number};
use crate::lang::pipe::{
    FieldsCall, JsonValuesCall, KeptOfRow, QuantileCall, RowMinMaxCall, write_patterns,
};
use crate::{Bucket, By, Function, Number, Query, Stats, StatsFunction};

/// The values of the named fields in a row. A name that is only a beginning gives the values of the
/// matching fields that the row has, ordered by field name.
fn row_values<'r>(row: &'r Row, names: &'r [NamePattern]) -> impl Iterator<Item = &'r str> {
    let mixed = names.iter().any(|n| n.prefix);
    // A name that is given twice counts once.
    let first = move |(at, n): &(usize, &NamePattern)| !mixed && !names[..*at].contains(n);
    let exact = names.iter().enumerate().filter(first).map(|(_, n)| value(row, &n.name));
    let found = row.iter().filter(move |(name, _)| mixed && names.iter().any(|n| n.matches(name)));
    // Rows are maps, so their fields are ordered by name.
    exact.chain(found.map(|(_, value)| value.as_str()))
}

/// A text as a JSON string, for values without control characters.
fn json(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A JSON object of the named fields of a row that are not empty.
fn object(row: &Row, names: &[NamePattern]) -> String {
    let there = names.iter().filter(|n| !value(row, &n.name).is_empty());
    let members: Vec<String> =
        there.map(|n| format!("{}:{}", json(&n.name), json(value(row, &n.name)))).collect();
    format!("{{{}}}", members.join(","))
}

/// The result of a function over rows; `seconds`: length of the time range of the rows, if it is
/// known.
pub(super) fn apply(function: &Function, rows: &[&Row], seconds: Option<f64>) -> String {
    let any = |row: &&&Row, names: &[NamePattern]| row_values(row, names).any(|v| !v.is_empty());
    let text = |number: f64| {
        let mut out = Vec::new();
        write_number(number, &mut out);
        String::from_utf8(out).unwrap()
    };
    let all = |names: &[NamePattern]| -> Vec<String> {
        rows.iter().flat_map(|row| row_values(row, names)).map(str::to_owned).collect()
    };
    let numbers = |names: &[NamePattern]| -> Vec<f64> {
        all(names).iter().filter_map(|v| parse_quantity(v.as_bytes())).collect()
    };
    let values = |names: &[NamePattern]| -> Vec<String> {
        let mut values: Vec<String> = all(names).into_iter().filter(|v| !v.is_empty()).collect();
        values.sort_by(|a, b| compare_values(a.as_bytes(), b.as_bytes()));
        values
    };
    let uniq = |names: &[NamePattern], limit: &Option<u64>| {
        let tuples = rows.iter().filter(|row| any(row, names));
        let tuples = tuples.map(|row| row_values(row, names).collect::<Vec<_>>());
        let count = tuples.collect::<BTreeSet<_>>().len() as u64;
        count.min(limit.unwrap_or(u64::MAX)).to_string()
    };
    // The row with the first value in an order; the first of equal ones.
    let best = |by: &str, better: Ordering| {
        let with_value = rows.iter().filter(|row| !value(row, by).is_empty());
        with_value.copied().reduce(|best, row| {
            let order = compare_values(value(row, by).as_bytes(), value(best, by).as_bytes());
            if order == better { row } else { best }
        })
    };
    let array = |members: Vec<String>| format!("[{}]", members.join(","));
    let limited = |limit: &Option<u64>| limit.unwrap_or(u64::MAX) as usize;
    let quantile = |share: f64, names: &[NamePattern]| {
        let mut numbers = numbers(names);
        numbers.sort_by(f64::total_cmp);
        let place = ((share * numbers.len() as f64) as usize).min(numbers.len().saturating_sub(1));
        numbers.get(place).map_or(String::new(), |number| text(*number))
    };
    if let Some(QuantileCall { share, fields }) = function.get() {
        return quantile(*share, fields);
    }
    if let Some(RowMinMaxCall { by, kept, .. }) = function.get() {
        let is_least = function.name().ends_with("min");
        let row = best(by, if is_least { Ordering::Less } else { Ordering::Greater });
        return match kept {
            KeptOfRow::Row(names) => row.map_or("{}".to_owned(), |row| object(row, names)),
            KeptOfRow::Field(name) => row.map_or(String::new(), |row| value(row, name).to_owned()),
        };
    }
    if let Some(JsonValuesCall { fields, keys, limit }) = function.get() {
        let mut rows = rows.to_vec();
        rows.sort_by(|a, b| {
            let orders = keys.iter().map(|key| {
                let (a, b) = (value(a, &key.name), value(b, &key.name));
                let order = compare_values(a.as_bytes(), b.as_bytes());
                if key.descending { order.reverse() } else { order }
            });
            orders.into_iter().find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
        });
        return array(rows.into_iter().take(limited(limit)).map(|r| object(r, fields)).collect());
    }
    let FieldsCall { fields: names, limit, .. } = function.get().expect("the others are these");
    let sum = |names: &[NamePattern]| {
        let numbers = numbers(names);
        if numbers.is_empty() { f64::NAN } else { numbers.iter().sum() }
    };
    match function.name() {
        "count" if names.is_empty() => rows.len().to_string(),
        "count" => rows.iter().filter(|row| any(row, names)).count().to_string(),
        "count_empty" => rows.iter().filter(|row| !any(row, names)).count().to_string(),
        "count_uniq" | "count_uniq_hash" => uniq(names, limit),
        "sum_len" => all(names).iter().map(String::len).sum::<usize>().to_string(),
        "rate" => text(rows.len() as f64 / seconds.unwrap_or(1.0)),
        "rate_sum" => text(sum(names) / seconds.unwrap_or(1.0)),
        "stddev" => {
            // The text of the result depends on rounding, except for a single number.
            let numbers = numbers(names);
            assert!(numbers.len() < 2, "others are not generated");
            text(if numbers.is_empty() { f64::NAN } else { 0.0 })
        }
        "any" => all(names).into_iter().find(|v| !v.is_empty()).unwrap_or_default(),
        "values" => array(all(names).iter().take(limited(limit)).map(|v| json(v)).collect()),
        "uniq_values" => {
            let mut values = values(names);
            values.dedup();
            array(values.iter().map(|v| json(v)).collect())
        }
        "row_any" => rows.first().map_or("{}".to_owned(), |row| object(row, names)),
        "histogram" => {
            // Ranges in order, each identified by its upper bound.
            let mut hits: Vec<(String, u64)> = Vec::new();
            let bound = |i: i32| 10f64.powf(-9.0 + f64::from(i) / 18.0);
            let written = |i: i32| {
                let text = format!("{:.3e}", bound(i));
                let (digits, power) = text.split_once('e').unwrap();
                let power: i32 = power.parse().unwrap();
                format!("{digits}e{}{:02}", if power < 0 { '-' } else { '+' }, power.abs())
            };
            for i in 0..=18 * 27 {
                let inside = |n: &&f64| match i {
                    0 => **n >= 0.0 && **n < bound(0),
                    // Decimal powers are bounds of ranges, up to rounding.
                    i => {
                        **n * 0.999_999 >= bound(i - 1) * 0.999_999_5 && **n * 0.999_999 < bound(i)
                    }
                };
                let count = numbers(names).iter().filter(inside).count() as u64;
                if count > 0 {
                    let low = if i == 0 { "0".to_owned() } else { written(i - 1) };
                    hits.push((format!("{low}...{}", written(i)), count));
                }
            }
            // Ranges come in the order of their texts.
            hits.sort();
            let member = |(range, hits): (String, u64)| {
                format!("{{\"vmrange\":\"{range}\",\"hits\":{hits}}}")
            };
            array(hits.into_iter().map(member).collect())
        }
        "sum" => text(sum(names)),
        "avg" => {
            let numbers = numbers(names);
            text(numbers.iter().sum::<f64>() / numbers.len() as f64)
        }
        "min" => values(names).first().cloned().unwrap_or_default(),
        "max" => values(names).last().cloned().unwrap_or_default(),
        "median" => quantile(0.5, names),
        other => panic!("{other} is not generated"),
    }
}

pub(super) fn bucketed(by: &By, row: &Row) -> String {
    let text = value(row, &by.name).to_owned();
    match &by.bucket {
        None => text,
        // Only `_time` is grouped by months here, and times are near the beginning of 1970.
        Some(Bucket::Months { months, .. }) => time_of(row).map_or(String::new(), |ns| {
            let month = if *months == 12 { "01" } else { &format_time(ns)[5..7] };
            format!("{}-{month}-01T00:00:00Z", &format_time(ns)[..4])
        }),
        Some(Bucket::Ipv4 { bits }) => match text.parse::<Ipv4Addr>() {
            Ok(address) => {
                let bit = |bit: u32| if bit < u32::from(*bits) { 1 << (31 - bit) } else { 0 };
                let mask: u32 = (0..32).map(bit).sum();
                Ipv4Addr::from_bits(address.to_bits() & mask).to_string()
            }
            Err(_) => text,
        },
        Some(Bucket::Time { step_ns, offset_ns }) => time_of(row)
            .map_or(String::new(), |time_ns| {
                format_time((time_ns - offset_ns).div_euclid(*step_ns) * step_ns + offset_ns)
            }),
        Some(Bucket::Number { size, offset })
            if text.ends_with(['s', 'm', 'h', 'd', 'w', 'y']) || text.matches('.').count() == 3 =>
        {
            // The tests of the pipe cover how durations and addresses are written in buckets.
            let mut out = Vec::new();
            let shift = offset.as_ref().map_or(0.0, |o| -o.value);
            crate::lang::pipe::write_step(text.as_bytes(), size.value, shift, &mut out);
            String::from_utf8(out).unwrap()
        }
        Some(Bucket::Number { size, offset }) => match parse_number(text.as_bytes()) {
            Some(number) => {
                let offset = offset.as_ref().map_or(0.0, |o| -o.value);
                match decimal_step(number, size.value, offset) {
                    Some(start) => start,
                    None => {
                        let mut out = Vec::new();
                        let steps = ((number - offset) / size.value).floor();
                        write_number(steps * size.value + offset, &mut out);
                        String::from_utf8(out).unwrap()
                    }
                }
            }
            None => text,
        },
    }
}

/// The start of the step of a number, computed with the digits of all three alone. None for numbers
/// of more digits than that takes.
fn decimal_step(number: f64, size: f64, offset: f64) -> Option<String> {
    const PLACES: usize = 9;
    let digits = |number: f64| -> Option<i128> {
        let text = number.to_string();
        let (whole, places) = text.split_once('.').unwrap_or((&text, ""));
        let fits = whole.len() <= 12 && places.len() <= PLACES;
        fits.then(|| format!("{whole}{places:0<PLACES$}").parse().ok())?
    };
    let (number, size, offset) = (digits(number)?, digits(size)?, digits(offset)?);
    let start = (number - offset).div_euclid(size) * size + offset;
    let text = format!("{:0>width$}", start.abs(), width = PLACES + 1);
    let (whole, places) = text.split_at(text.len() - PLACES);
    let text = format!("{whole}.{places}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    Some(if start < 0 { format!("-{text}") } else { text.to_owned() })
}

/// Length of the time bucket of a group, seconds.
pub(super) fn seconds_of(by: &By, group: &Row) -> Option<f64> {
    time_of(group)?;
    Some(match by.bucket.as_ref()? {
        Bucket::Time { step_ns, .. } => *step_ns as f64 / 1e9,
        Bucket::Months { months: 1, .. } => 31.0 * 86_400.0,
        Bucket::Months { .. } => 365.0 * 86_400.0,
        Bucket::Number { .. } | Bucket::Ipv4 { .. } => return None,
    })
}

// ---- random functions ----

/// Parses the call of a function as it is written in a query.
fn parsed(call: &str) -> Function {
    let query = Query::parse(&format!("* | stats {call} x"), 0).unwrap_or_else(|e| panic!("{e}"));
    query.pipes()[0].get::<Stats>().unwrap().functions[0].function.clone()
}

/// A call of one of these functions with fields.
fn of_fields(
    functions: &'static [&'static str],
    names: impl Strategy<Value = Vec<NamePattern>>,
) -> impl Strategy<Value = Function> {
    (prop::sample::select(functions), names)
        .prop_map(|(function, names)| parsed(&format!("{function}({})", write_patterns(&names))))
}

/// A call of one of these functions with fields, with or without a limit.
fn of_fields_limited(
    functions: &'static [&'static str],
    names: impl Strategy<Value = Vec<NamePattern>>,
) -> impl Strategy<Value = Function> {
    (prop::sample::select(functions), names, any_limit()).prop_map(|(function, names, limit)| {
        let limit = limit.map_or(String::new(), |limit| format!(" limit {limit}"));
        parsed(&format!("{function}({}){limit}", write_patterns(&names)))
    })
}

fn any_function() -> impl Strategy<Value = Function> {
    let names = prop::collection::vec(any_field(), 1..3);
    let one = any_name().prop_map(|name| vec![NamePattern::exact(&name)]);
    prop_oneof![
        4 => any_row_function(),
        2 => Just(Function::count()),
        1 => Just(parsed("rate()")),
        8 => of_fields(&["count", "count_empty", "sum", "avg", "min", "max", "median"], names.clone()),
        5 => of_fields(&["sum_len", "rate_sum", "any", "uniq_values"], names.clone()),
        1 => of_fields(&["histogram"], one),
        1 => Just(parsed("stddev(none)")),
        3 => of_fields_limited(&["count_uniq", "count_uniq_hash", "values"], names.clone()),
        1 => (0f64..=1.0, names)
            .prop_map(|(share, n)| parsed(&format!("quantile({share}, {})", write_patterns(&n)))),
    ]
}

/// A field, or a beginning of names. No beginning matches two fields of a row, since the order of
/// their values would be that of the line.
fn any_field() -> impl Strategy<Value = NamePattern> + Clone {
    prop_oneof![
        4 => any_name().prop_map(|name| NamePattern::exact(&name)),
        1 => prop::sample::select(vec!["lev", "ho", "x", "none"])
            .prop_map(|name| NamePattern { name: name.to_owned(), prefix: true }),
    ]
}

fn any_limit() -> impl Strategy<Value = Option<u64>> + Clone {
    prop::option::of(1u64..4)
}

fn any_row_function() -> impl Strategy<Value = Function> {
    let fields = prop::collection::btree_set(any_name(), 1..3)
        .prop_map(|names| names.iter().map(|name| NamePattern::exact(name)).collect::<Vec<_>>());
    let key = (any_name(), any::<bool>())
        .prop_map(|(name, descending)| quote(&name) + if descending { " desc" } else { "" });
    let by_and_fields =
        (prop::sample::select(&["row_min", "row_max"][..]), any_name(), fields.clone());
    let two = (prop::sample::select(&["field_min", "field_max"][..]), any_name(), any_name());
    prop_oneof![
        of_fields(&["row_any"], fields.clone()),
        by_and_fields.prop_map(|(function, by, fields)| {
            parsed(&format!("{function}({}, {})", quote(&by), write_patterns(&fields)))
        }),
        two.prop_map(|(function, by, field)| {
            parsed(&format!("{function}({}, {})", quote(&by), quote(&field)))
        }),
        (fields, prop::collection::vec(key, 0..3), any_limit()).prop_map(
            |(fields, keys, limit)| {
                let keys = match keys.is_empty() {
                    true => String::new(),
                    false => format!(" sort by ({})", keys.join(", ")),
                };
                let limit = limit.map_or(String::new(), |limit| format!(" limit {limit}"));
                parsed(&format!("json_values({}){keys}{limit}", write_patterns(&fields)))
            }
        ),
    ]
}

pub(super) fn any_stats() -> impl Strategy<Value = Stats> {
    let bucket = prop_oneof![
        Just(None),
        (1i64..20, -5i64..5)
            .prop_map(|(step_ns, offset_ns)| Some(Bucket::Time { step_ns, offset_ns })),
        (
            prop::sample::select(&["2.5", "0.1"][..]),
            prop::option::of(prop::sample::select(&["1", "0.3"][..])),
        )
            .prop_map(|(size, offset)| Some(Bucket::Number {
                size: Number::parse(size).unwrap(),
                offset: offset.and_then(Number::parse),
            })),
        prop::sample::select(vec![1u8, 12])
            .prop_map(|months| Some(Bucket::Months { months, offset_ns: 0 })),
        (0u8..33).prop_map(|bits| Some(Bucket::Ipv4 { bits })),
    ];
    let by = (any_name(), bucket).prop_map(|(name, bucket)| match bucket {
        Some(Bucket::Time { .. } | Bucket::Months { .. }) => {
            By { name: "_time".to_owned(), bucket }
        }
        bucket => By { name, bucket },
    });
    let function = (any_function(), prop::option::of(any_filter()));
    (prop::collection::vec(by, 0..3), prop::collection::vec(function, 1..4)).prop_map(
        |(by, functions)| {
            let mut seen = BTreeSet::new();
            let by = by.into_iter().filter(|by| seen.insert(by.name.clone())).collect();
            let named = (0..).zip(functions).map(|(i, (function, filter))| StatsFunction {
                function,
                filter,
                name: format!("f{i}"),
            });
            Stats { by, functions: named.collect() }
        },
    )
}
