//! Stats functions as the naive evaluator has them, and random ones.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::filters::any_filter;
use super::{Row, any_name, time_of, value};
use crate::number::{compare_values, parse_number, parse_quantity, write_number};
use crate::time::format_time;
use crate::{Bucket, By, Function, NamePattern, Number, SortKey, Stats, StatsFunction};

/// The values of fields in a row; of those that are only a beginning, the ones that are there, by the names of their fields.
fn row_values<'r>(row: &'r Row, names: &'r [NamePattern]) -> impl Iterator<Item = &'r str> {
    let mixed = names.iter().any(|n| n.prefix);
    let exact = names.iter().filter(move |_| !mixed).map(|n| value(row, &n.name));
    let found = row.iter().filter(move |(name, _)| mixed && names.iter().any(|n| n.matches(name)));
    // A row has them by name.
    exact.chain(found.map(|(_, value)| value.as_str()))
}

/// A text as JSON, for values without control characters.
fn json(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The named fields of a row that are not empty, as JSON.
fn object(row: &Row, names: &[NamePattern]) -> String {
    let there = names.iter().filter(|n| !value(row, &n.name).is_empty());
    let members: Vec<String> =
        there.map(|n| format!("{}:{}", json(&n.name), json(value(row, &n.name)))).collect();
    format!("{{{}}}", members.join(","))
}

/// The value of a function over rows; `seconds`: length of the time that they are of, if it is known.
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
        text(numbers.get(place).copied().unwrap_or(f64::NAN))
    };
    match function {
        Function::Count(names) if names.is_empty() => rows.len().to_string(),
        Function::Count(names) => rows.iter().filter(|row| any(row, names)).count().to_string(),
        Function::CountEmpty(names) => {
            rows.iter().filter(|row| !any(row, names)).count().to_string()
        }
        Function::CountUniq(names, limit) | Function::CountUniqHash(names, limit) => {
            uniq(names, limit)
        }
        Function::SumLen(names) => all(names).iter().map(String::len).sum::<usize>().to_string(),
        Function::Rate => text(rows.len() as f64 / seconds.unwrap_or(1.0)),
        Function::RateSum(names) => {
            let numbers = numbers(names);
            let sum = if numbers.is_empty() { f64::NAN } else { numbers.iter().sum() };
            text(sum / seconds.unwrap_or(1.0))
        }
        Function::Stddev(names) => {
            // The text of the result depends on rounding; of one number it does not.
            let numbers = numbers(names);
            assert!(numbers.len() < 2, "others are not generated");
            text(if numbers.is_empty() { f64::NAN } else { 0.0 })
        }
        Function::Any(names) => all(names).into_iter().find(|v| !v.is_empty()).unwrap_or_default(),
        Function::Values(names, limit) => {
            array(all(names).iter().take(limited(limit)).map(|v| json(v)).collect())
        }
        Function::UniqValues(names, _) => {
            let mut values = values(names);
            values.dedup();
            array(values.iter().map(|v| json(v)).collect())
        }
        Function::RowAny(names) => rows.first().map_or("{}".to_owned(), |row| object(row, names)),
        Function::RowMin(by, names) => {
            best(by, Ordering::Less).map_or("{}".to_owned(), |row| object(row, names))
        }
        Function::RowMax(by, names) => {
            best(by, Ordering::Greater).map_or("{}".to_owned(), |row| object(row, names))
        }
        Function::FieldMin(by, name) => {
            best(by, Ordering::Less).map_or(String::new(), |row| value(row, name).to_owned())
        }
        Function::FieldMax(by, name) => {
            best(by, Ordering::Greater).map_or(String::new(), |row| value(row, name).to_owned())
        }
        Function::JsonValues { fields, keys, limit } => {
            let mut rows = rows.to_vec();
            rows.sort_by(|a, b| {
                let orders = keys.iter().map(|key| {
                    let (a, b) = (value(a, &key.name), value(b, &key.name));
                    let order = compare_values(a.as_bytes(), b.as_bytes());
                    if key.descending { order.reverse() } else { order }
                });
                orders.into_iter().find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
            });
            array(rows.into_iter().take(limited(limit)).map(|row| object(row, fields)).collect())
        }
        Function::Histogram(names) => {
            // Ranges one after the other, each told by its upper end.
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
                    // Whole numbers of ten are on a bound, up to rounding.
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
            let member = |(range, hits): (String, u64)| {
                format!("{{\"vmrange\":\"{range}\",\"hits\":{hits}}}")
            };
            array(hits.into_iter().map(member).collect())
        }
        Function::Sum(names) => {
            let numbers = numbers(names);
            text(if numbers.is_empty() { f64::NAN } else { numbers.iter().sum() })
        }
        Function::Avg(names) => {
            let numbers = numbers(names);
            text(numbers.iter().sum::<f64>() / numbers.len() as f64)
        }
        Function::Min(names) => values(names).first().cloned().unwrap_or_default(),
        Function::Max(names) => values(names).last().cloned().unwrap_or_default(),
        Function::Quantile(share, names) => quantile(*share, names),
        Function::Median(names) => quantile(0.5, names),
    }
}

pub(super) fn bucketed(by: &By, row: &Row) -> String {
    let text = value(row, &by.name).to_owned();
    match &by.bucket {
        None => text,
        // Only `_time` is put in buckets of time here, and times are near the beginning of 1970.
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
            // How durations and addresses are written in buckets, the tests of the pipe say.
            let mut out = Vec::new();
            let shift = offset.as_ref().map_or(0.0, |o| -o.value);
            crate::pipe::write_step(text.as_bytes(), size.value, shift, &mut out);
            String::from_utf8(out).unwrap()
        }
        Some(Bucket::Number { size, offset }) => match parse_number(text.as_bytes()) {
            Some(number) => {
                let mut out = Vec::new();
                let (size, offset) = (size.value, offset.as_ref().map_or(0.0, |o| -o.value));
                write_number(((number - offset) / size).floor() * size + offset, &mut out);
                String::from_utf8(out).unwrap()
            }
            None => text,
        },
    }
}

/// Length of the bucket of time that a group is of.
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

fn any_function() -> impl Strategy<Value = Function> {
    let names = prop::collection::vec(any_field(), 1..3);
    prop_oneof![
        any_row_function(),
        any_other_function(),
        Just(Function::Count(Vec::new())),
        names.clone().prop_map(Function::Count),
        names.clone().prop_map(Function::CountEmpty),
        (names.clone(), prop::option::of(1u64..4))
            .prop_map(|(n, limit)| Function::CountUniq(n, limit)),
        names.clone().prop_map(Function::Sum),
        names.clone().prop_map(Function::Avg),
        names.clone().prop_map(Function::Min),
        names.clone().prop_map(Function::Max),
        (0f64..=1.0, names.clone()).prop_map(|(share, n)| Function::Quantile(share, n)),
        names.prop_map(Function::Median),
    ]
}

/// A field, or all that begin so. One field does not take in another's values: their order is that of the line.
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
    let key =
        (any_name(), any::<bool>()).prop_map(|(name, descending)| SortKey { name, descending });
    prop_oneof![
        fields.clone().prop_map(Function::RowAny),
        (any_name(), fields.clone()).prop_map(|(by, fields)| Function::RowMin(by, fields)),
        (any_name(), fields.clone()).prop_map(|(by, fields)| Function::RowMax(by, fields)),
        (any_name(), any_name()).prop_map(|(by, field)| Function::FieldMin(by, field)),
        (any_name(), any_name()).prop_map(|(by, field)| Function::FieldMax(by, field)),
        (fields, prop::collection::vec(key, 0..3), any_limit())
            .prop_map(|(fields, keys, limit)| Function::JsonValues { fields, keys, limit }),
    ]
}

fn any_other_function() -> impl Strategy<Value = Function> {
    let names = prop::collection::vec(any_field(), 1..3);
    prop_oneof![
        (names.clone(), any_limit()).prop_map(|(n, limit)| Function::CountUniqHash(n, limit)),
        names.clone().prop_map(Function::SumLen),
        any_name().prop_map(|n| Function::Histogram(vec![NamePattern::exact(&n)])),
        Just(Function::Rate),
        names.clone().prop_map(Function::RateSum),
        names.clone().prop_map(Function::Any),
        (names.clone(), any_limit()).prop_map(|(n, limit)| Function::Values(n, limit)),
        names.prop_map(|n| Function::UniqValues(n, None)),
        Just(Function::Stddev(vec![NamePattern::exact("none")])),
    ]
}

pub(super) fn any_stats() -> impl Strategy<Value = Stats> {
    let bucket = prop_oneof![
        Just(None),
        (1i64..20, -5i64..5)
            .prop_map(|(step_ns, offset_ns)| Some(Bucket::Time { step_ns, offset_ns })),
        prop::option::of(Just("1")).prop_map(|offset| Some(Bucket::Number {
            size: Number::parse("2.5").unwrap(),
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
