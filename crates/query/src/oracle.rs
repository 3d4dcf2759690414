//! Compares the engine with a naive evaluator over maps, on random records and random queries.

mod filters;
mod stats;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use record::Transport;
use text::time::format_time;
use text::time::parse_timestamp;

use filters::{any_filter, any_level_filter, selects};
use stats::{any_stats, apply, bucketed, seconds_of};

use crate::base::names::NamePattern;
use crate::base::number::compare_values;
use crate::base::{Limits, TimeRange};
use crate::lang::context::Context;
use crate::testing::{Memory, Record, batch_of, collect};
use crate::{
    Bucket, By, Change, DropEmptyFields, Facets, FieldNames, Filter, Format, Function,
    HiddenFields, JsonArray, Limit, Measure, Offset, Overwrite, Parts, Pipe, Query, QueryOptions,
    Restriction, Rewrite, Sample, Select, Sort, SortKey, Stats, StatsFunction, TextChange, Top,
    Uniq, Unroll, ValueNumber,
};

/// A row of the naive evaluator: without empty values.
type Row = BTreeMap<String, String>;

fn value<'r>(row: &'r Row, name: &str) -> &'r str {
    row.get(name).map_or("", String::as_str)
}

fn insert(row: &mut Row, name: &str, value: &str) {
    row.remove(name);
    if !value.is_empty() {
        row.insert(name.to_owned(), value.to_owned());
    }
}

// ---- the naive evaluator ----

fn time_of(row: &Row) -> Option<i64> {
    parse_timestamp(value(row, "_time").as_bytes())
}

fn matches(patterns: &[NamePattern], name: &str) -> bool {
    patterns.iter().any(|p| if p.prefix { name.starts_with(&p.name) } else { name == p.name })
}

fn apply_change(change: &Change, row: &mut Row) {
    match change {
        Change::Keep(patterns) => row.retain(|name, _| matches(patterns, name)),
        Change::Drop(patterns) => row.retain(|name, _| !matches(patterns, name)),
        Change::Rename(pairs) | Change::Copy(pairs) => {
            let is_rename = matches!(change, Change::Rename(_));
            for (from, to) in pairs.iter().filter(|(from, to)| from != to) {
                if !from.prefix {
                    let old = value(row, &from.name).to_owned();
                    if is_rename {
                        row.remove(&from.name);
                    }
                    insert(row, &to.name, &old);
                    continue;
                }
                let found: Vec<(String, String)> = row
                    .iter()
                    .filter(|(name, _)| name.starts_with(&from.name))
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect();
                if is_rename {
                    found.iter().for_each(|(name, _)| drop(row.remove(name)));
                }
                for (name, value) in found {
                    insert(row, &format!("{}{}", to.name, &name[from.name.len()..]), &value);
                }
            }
        }
    }
}

fn tuple(row: &Row, names: &[String]) -> Vec<String> {
    names.iter().map(|name| value(row, name).to_owned()).collect()
}

fn count_tuples(rows: &[Row], by: &[String]) -> Vec<(Vec<String>, u64)> {
    let mut counts: BTreeMap<Vec<String>, u64> = BTreeMap::new();
    rows.iter().for_each(|row| *counts.entry(tuple(row, by)).or_default() += 1);
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    counts
}

fn row_of(names: &[String], values: &[String]) -> Row {
    let mut row = Row::new();
    names.iter().zip(values).for_each(|(name, value)| insert(&mut row, name, value));
    row
}

/// `range_s`: length of the time range of the query, seconds; none without beginning or end.
fn run_pipe(pipe: &Pipe, mut rows: Vec<Row>, range_s: Option<f64>) -> Vec<Row> {
    if let Some(change) = pipe.get::<Change>() {
        rows.iter_mut().for_each(|row| apply_change(change, row));
    } else if let Some(Select { filter }) = pipe.get::<Select>() {
        rows.retain(|row| selects(filter, row));
    } else if let Some(Limit { count }) = pipe.get::<Limit>() {
        rows.truncate(*count as usize);
    } else if let Some(Offset { count }) = pipe.get::<Offset>() {
        drop(rows.drain(..(*count as usize).min(rows.len())));
    } else if let Some(sort) = pipe.get::<Sort>() {
        rows.sort_by(|a, b| {
            let key = |key: &SortKey| {
                let (a, b) = (value(a, &key.name), value(b, &key.name));
                let ordering = compare_values(a.as_bytes(), b.as_bytes());
                if key.descending { ordering.reverse() } else { ordering }
            };
            sort.keys.iter().map(key).find(|o| o.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
        });
        let mut groups: Vec<(Vec<String>, Vec<Row>)> = Vec::new();
        for row in rows {
            let key = tuple(&row, &sort.partition);
            match groups.iter_mut().find(|(known, _)| *known == key) {
                Some((_, group)) => group.push(row),
                None => groups.push((key, vec![row])),
            }
        }
        groups.sort_by(|(a, _), (b, _)| {
            let pairs = a.iter().zip(b);
            let orders = pairs.map(|(a, b)| compare_values(a.as_bytes(), b.as_bytes()));
            orders.into_iter().find(|o| o.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
        });
        rows = Vec::new();
        for (_, mut group) in groups {
            if let Some(rank) = &sort.rank {
                (1..).zip(&mut group).for_each(|(i, row)| insert(row, rank, &i.to_string()));
            }
            let limit = sort.limit.unwrap_or(u64::MAX) as usize;
            rows.extend(group.into_iter().skip(sort.offset as usize).take(limit));
        }
    } else if let Some(uniq) = pipe.get::<Uniq>() {
        let counts = count_tuples(&rows, &uniq.by);
        let row = |(values, hits): (Vec<String>, u64)| {
            let mut row = row_of(&uniq.by, &values);
            if uniq.hits {
                insert(&mut row, "hits", &hits.to_string());
            }
            row
        };
        rows = counts.into_iter().map(row).collect();
    } else if let Some(top) = pipe.get::<Top>() {
        let row = |(values, hits): (Vec<String>, u64)| {
            let mut row = row_of(&top.by, &values);
            insert(&mut row, &top.hits, &hits.to_string());
            row
        };
        rows = count_tuples(&rows, &top.by).into_iter().take(top.limit as usize).map(row).collect();
    } else if let Some(stats) = pipe.get::<Stats>() {
        let mut groups: BTreeMap<Vec<String>, Vec<&Row>> = BTreeMap::new();
        if stats.by.is_empty() {
            groups.insert(Vec::new(), Vec::new());
        }
        for row in &rows {
            let key = stats.by.iter().map(|by| bucketed(by, row)).collect();
            groups.entry(key).or_default().push(row);
        }
        let names: Vec<String> = stats.by.iter().map(|by| by.name.clone()).collect();
        let mut made = Vec::new();
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by(|(a, _), (b, _)| {
            let orders = a.iter().zip(b).map(|(a, b)| compare_values(a.as_bytes(), b.as_bytes()));
            orders.into_iter().find(|o| o.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
        });
        for (key, group) in groups {
            let mut row = row_of(&names, &key);
            let timed = stats.by.iter().find(|by| by.name == "_time" && by.bucket.is_some());
            let seconds = timed.and_then(|by| seconds_of(by, &row)).or(range_s);
            for StatsFunction { function, filter, name } in &stats.functions {
                let counted: Vec<&Row> = group
                    .iter()
                    .copied()
                    .filter(|row| filter.as_ref().is_none_or(|f| selects(f, row)))
                    .collect();
                insert(&mut row, name, &apply(function, &counted, seconds));
            }
            made.push(row);
        }
        rows = made;
    } else if let Some(FieldNames) = pipe.get::<FieldNames>() {
        let mut hits: BTreeMap<&String, u64> = BTreeMap::new();
        rows.iter().flat_map(|row| row.keys()).for_each(|name| *hits.entry(name).or_default() += 1);
        let names = ["name".to_owned(), "hits".to_owned()];
        rows = hits.iter().map(|(n, h)| row_of(&names, &[n.to_string(), h.to_string()])).collect();
    } else if let Some(facets) = pipe.get::<Facets>() {
        let mut made = Vec::new();
        let names: BTreeSet<&String> = rows.iter().flat_map(|row| row.keys()).collect();
        for name in names.into_iter().filter(|n| !matches!(n.as_str(), "_time" | "_stream")) {
            let mut counts = count_tuples(&rows, std::slice::from_ref(name));
            counts.retain(|(v, _)| !v[0].is_empty());
            let constant = counts.len() == 1 && counts[0].1 == rows.len() as u64;
            let long = counts.iter().any(|(v, _)| v[0].len() as u64 > facets.value_bytes_max);
            if long
                || counts.len() as u64 > facets.values_max
                || constant && !facets.keep_const_fields
            {
                continue;
            }
            for (values, hits) in counts.into_iter().take(facets.limit as usize) {
                let columns = ["field_name", "field_value", "hits"].map(str::to_owned);
                made.push(row_of(&columns, &[name.clone(), values[0].clone(), hits.to_string()]));
            }
        }
        rows = made;
    } else if let Some(number) = pipe.get::<ValueNumber>() {
        assert_eq!(number.what, Measure::Len, "the others are not generated");
        for row in &mut rows {
            let length = value(row, &number.field).len().to_string();
            insert(row, &number.result, &length);
        }
    } else if let Some(Format { condition, pattern, result, overwrite }) = pipe.get::<Format>() {
        for row in rows.iter_mut().filter(|row| is_selected(condition, row)) {
            let names = pattern.split(['<', '>']).skip(1).step_by(2);
            let texts = pattern.split(['<', '>']).step_by(2);
            let fields = names.map(|name| value(row, name)).chain([""]);
            let made: String = texts.zip(fields).flat_map(|(text, field)| [text, field]).collect();
            let kept = overwrite.keep_original && !value(row, result).is_empty();
            if !(kept || overwrite.skip_empty && made.is_empty()) {
                insert(row, result, &made);
            }
        }
    } else if let Some(Rewrite { condition, change, field }) = pipe.get::<Rewrite>() {
        let TextChange::Replace { old, new, limit } = change else {
            panic!("the others are not generated")
        };
        for row in rows.iter_mut().filter(|row| is_selected(condition, row)) {
            let times = limit.map_or(usize::MAX, |limit| limit as usize);
            let replaced = value(row, field).replacen(old.as_str(), new, times);
            insert(row, field, &replaced);
        }
    } else if let Some(JsonArray { from, result, .. }) = pipe.get::<JsonArray>() {
        for row in &mut rows {
            let parts = value(row, from).replace('\\', "\\\\").replace('"', "\\\"");
            let parts = parts.split(' ').collect::<Vec<_>>().join("\",\"");
            insert(row, result, &format!("[\"{parts}\"]"));
        }
    } else if let Some(unroll) = pipe.get::<Unroll>() {
        let items = |text: &str| -> Vec<String> {
            let mut items = Vec::new();
            let whole =
                record::parse::json_items(text.as_bytes(), |_, item| items.push(item.to_owned()));
            whole.map_or(Vec::new(), |()| items)
        };
        let mut made = Vec::new();
        for row in rows {
            if !is_selected(&unroll.condition, &row) {
                made.push(row);
                continue;
            }
            let all: Vec<Vec<String>> =
                unroll.fields.iter().map(|name| items(value(&row, name))).collect();
            for place in 0..all.iter().map(Vec::len).max().unwrap_or(0).max(1) {
                let mut row = row.clone();
                for (name, items) in unroll.fields.iter().zip(&all) {
                    insert(&mut row, name, items.get(place).map_or("", String::as_str));
                }
                made.push(row);
            }
        }
        rows = made;
    } else if let Some(DropEmptyFields) = pipe.get::<DropEmptyFields>() {
        rows.retain(|row| !row.is_empty());
    } else if let Some(Sample { one_in: 1 }) = pipe.get::<Sample>() {
    } else {
        panic!("{pipe} is not generated");
    }
    rows
}

fn is_selected(condition: &Option<Filter>, row: &Row) -> bool {
    condition.as_ref().is_none_or(|filter| selects(filter, row))
}

/// All records as rows, in the order in which the engine reads them by default.
fn naive_rows(source: &Memory) -> Vec<Row> {
    // None of these queries names the type of Loginson's own lines.
    let sent = source.batches.iter().filter(|batch| !batch.is_internal());
    let mut batches: Vec<_> = sent.collect();
    if source.known {
        batches.sort_by_key(|batch| std::cmp::Reverse(batch.time_range_ns().1));
    }
    let mut rows = Vec::new();
    for batch in batches {
        for row in batch.rows() {
            let mut naive = Row::new();
            for (id, value) in row.fields() {
                insert(&mut naive, batch.name(id), std::str::from_utf8(value).unwrap());
            }
            let mut stream = String::new();
            row.write_stream(&mut stream);
            insert(&mut naive, "_stream", &stream);
            insert(&mut naive, "_time", &format_time(row.time_ns()));
            rows.push(naive);
        }
    }
    rows
}

fn check(query: &Query, source: &Memory) {
    check_as(query, source, &Restriction::default(), source);
}

/// Compares a restricted query with the naive evaluator over what it may see.
fn check_as(query: &Query, source: &Memory, restriction: &Restriction, seen: &Memory) {
    let mut expected: Vec<Row> =
        naive_rows(seen).into_iter().filter(|row| selects(query.filter(), row)).collect();
    let range_s = query.filter().time_range().seconds();
    for pipe in query.pipes() {
        expected = run_pipe(pipe, expected, range_s);
    }
    let ordered = query.pipes().last().is_some_and(|pipe| pipe.get::<Sort>().is_some());
    if !ordered {
        expected.sort();
    }
    let limits = Limits { threads: 1 + source.batches.len() % 3, ..Limits::default() };
    // The second run finds answers in the cache.
    for _ in 0..2 {
        let restriction = restriction.clone();
        let context = Context { limits, restriction, ..Context::default() };
        let (rows, outcome) = collect(query, source, &context);
        outcome.unwrap();
        let mut found: Vec<Row> = rows.into_iter().map(|row| row.into_iter().collect()).collect();
        if !ordered {
            found.sort();
        }
        assert_eq!(found, expected, "{query}");
    }
}

// ---- random records and queries ----

const NAMES: &[&str] = &["_msg", "level", "n", "hostname", "x y"];

fn any_name() -> impl Strategy<Value = String> + Clone {
    prop::sample::select(NAMES).prop_map(str::to_owned)
}

fn any_word() -> impl Strategy<Value = String> + Clone {
    let words = vec![
        "err", "error", "Err", "open", "a", "é", "тест", "", "10", "=", "a b", "x_1", ": ",
        r#"["a"]"#,
    ];
    prop::sample::select(words).prop_map(str::to_owned)
}

fn any_number() -> impl Strategy<Value = String> + Clone {
    let numbers = vec!["0", "1", "-3", "2.5", "10", "1KB", "2ms", "abc", "", "7", "10.0"];
    prop::sample::select(numbers).prop_map(str::to_owned)
}

fn any_record() -> impl Strategy<Value = Record> {
    let words = prop::collection::vec(any_word(), 0..5);
    let gap = prop::sample::select(vec![" ", "", ":", "_"]);
    let level = prop::option::of(prop::sample::select(vec!["error", "info", ""]));
    let host = prop::option::of(prop::sample::select(vec!["web1", "web2"]));
    (
        0i64..50,
        words,
        gap,
        level,
        prop::option::of(any_number()),
        host,
        prop::option::of(any_word()),
    )
        .prop_map(|(time_ns, words, gap, level, number, host, other)| {
            let mut fields = vec![("_msg".to_owned(), words.join(gap).into_bytes())];
            let mut push = |name: &str, value: Option<String>| {
                fields.extend(value.map(|v| (name.to_owned(), v.into_bytes())));
            };
            push("level", level.map(str::to_owned));
            push("n", number);
            push("hostname", host.map(str::to_owned));
            push("x y", other);
            (time_ns, fields)
        })
}

fn any_source() -> impl Strategy<Value = Memory> {
    let records = prop::collection::vec(any_record(), 1..12);
    let is_own = prop::sample::select(vec![false, false, false, true]);
    let batches = prop::collection::vec((records, is_own), 1..5);
    let segments = prop::option::of(1usize..3);
    let columns = prop::option::of(0usize..50);
    (batches, any::<bool>(), segments, columns).prop_map(
        |(mut batches, known, segment_batches, columns)| {
            // What is read first arrived first, so that both orders are the same.
            if known {
                let newest = |records: &[Record]| records.iter().map(|(time_ns, _)| *time_ns).max();
                batches.sort_by_key(|(records, _)| std::cmp::Reverse(newest(records)));
            }
            let batch = |(sequence, (records, is_own)): (u64, &(Vec<Record>, bool))| {
                let transport = if *is_own { Transport::Internal } else { Transport::Http };
                batch_of(transport, sequence, records)
            };
            let batches = (1..).zip(&batches).map(batch).collect();
            Memory { known, segment_batches, columns, ..Memory::new(batches) }
        },
    )
}

fn any_change() -> impl Strategy<Value = Change> {
    let name =
        prop_oneof![4 => any_name(), 1 => Just("_time".to_owned()), 1 => Just("other".to_owned())];
    let pattern = prop_oneof![
        3 => name.clone().prop_map(|name| NamePattern { name, prefix: false }),
        1 => prop::sample::select(vec!["", "_", "h"]).prop_map(|n| NamePattern { name: n.to_owned(), prefix: true }),
    ];
    let patterns = prop::collection::vec(pattern, 1..4);
    let exact = (name.clone(), name)
        .prop_map(|(from, to)| (NamePattern::exact(&from), NamePattern::exact(&to)));
    let beginning = || {
        prop::sample::select(vec!["", "_", "h", "ho", "l"])
            .prop_map(|name| NamePattern { name: name.to_owned(), prefix: true })
    };
    let pairs =
        prop::collection::vec(prop_oneof![4 => exact, 1 => (beginning(), beginning())], 1..3);
    prop_oneof![
        patterns.clone().prop_map(Change::Keep),
        patterns.prop_map(Change::Drop),
        pairs.clone().prop_map(Change::Rename),
        pairs.prop_map(Change::Copy),
    ]
}

/// Pipes that compute fields of each row, and pipes that unroll arrays.
fn any_computing() -> impl Strategy<Value = Pipe> {
    let condition = prop::option::of(any_filter()).boxed();
    let overwrite = (any::<bool>(), any::<bool>())
        .prop_map(|(keep_original, skip_empty)| Overwrite { keep_original, skip_empty });
    let pattern = (any_name(), any_name()).prop_flat_map(|(a, b)| {
        let patterns = vec![
            format!("<{a}>"),
            format!("<{a}><{b}>"),
            format!("x <{a}>-<{b}>."),
            "x".to_owned(),
        ];
        prop::sample::select(patterns)
    });
    let text = prop::sample::select(vec!["e", "r", "or", " ", "é", "a b"]).prop_map(str::to_owned);
    prop_oneof![
        (condition.clone(), pattern, any_name(), overwrite).prop_map(
            |(condition, pattern, result, overwrite)| {
                Pipe::from(Format { condition, pattern, result, overwrite })
            }
        ),
        (condition.clone(), text.clone(), text, prop::option::of(1u64..3), any_name()).prop_map(
            |(condition, old, new, limit, field)| {
                Pipe::from(Rewrite {
                    condition,
                    change: TextChange::Replace { old, new, limit },
                    field,
                })
            }
        ),
        (any_name(), any_name()).prop_map(|(from, result)| {
            Pipe::from(JsonArray { parts: Parts::Separated(" ".to_owned()), from, result })
        }),
        (condition, prop::collection::btree_set(any_name(), 1..3)).prop_map(
            |(condition, fields)| {
                Pipe::from(Unroll { condition, fields: fields.into_iter().collect() })
            }
        ),
        Just(Pipe::from(DropEmptyFields)),
        Just(Pipe::from(Sample { one_in: 1 })),
    ]
}

fn any_pipe() -> impl Strategy<Value = Pipe> {
    let names = prop::collection::btree_set(any_name(), 1..3).prop_map(Vec::from_iter);
    let key =
        (any_name(), any::<bool>()).prop_map(|(name, descending)| SortKey { name, descending });
    prop_oneof![
        any_change().prop_map(Pipe::from),
        any_filter().prop_map(|filter| Pipe::from(Select { filter })),
        (
            prop::collection::vec(key, 1..3),
            prop::collection::vec(any_name(), 0..2),
            0u64..5,
            prop::option::of(0u64..20),
            prop::option::of(any_name())
        )
            .prop_map(|(keys, partition, offset, limit, rank)| Pipe::from(Sort {
                keys,
                partition,
                offset,
                limit,
                rank
            })),
        any_computing(),
        (names.clone(), any::<bool>()).prop_map(|(by, hits)| Pipe::from(Uniq {
            by,
            hits,
            limit: None
        })),
        (names, 0u64..5).prop_map(|(by, limit)| Pipe::from(Top {
            limit,
            by,
            hits: "hits".to_owned(),
            rank: None,
        })),
        any_stats().prop_map(Pipe::from),
        Just(Pipe::from(FieldNames)),
        (any_name(), any_name()).prop_map(|(field, result)| {
            Pipe::from(ValueNumber { what: Measure::Len, field, result })
        }),
        (1u64..4, 1u64..9, 1u64..9, any::<bool>()).prop_map(
            |(limit, values_max, value_bytes_max, keep)| {
                Pipe::from(crate::Facets {
                    limit,
                    values_max,
                    value_bytes_max,
                    keep_const_fields: keep,
                })
            }
        ),
    ]
}

fn any_query() -> impl Strategy<Value = Query> {
    let pipes = prop::collection::vec(any_pipe(), 0..4);
    (any_filter(), pipes, prop::option::of(1usize..3)).prop_map(|(filter, pipes, concurrency)| {
        let options = QueryOptions { concurrency, ..QueryOptions::default() };
        Query::new(filter, pipes).with_options(options)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn engine_and_naive_evaluator_agree(query in any_query(), source in any_source()) {
        check(&query, &source);
    }

    /// Also where columns, counts of segments and answers of before know them.
    #[test]
    fn hidden_fields_are_as_if_they_had_never_been(
        query in any_query(),
        source in any_source(),
        names in prop::collection::vec(prop::sample::select(vec!["_msg", "level", "n", "host*", "x y"]), 1..4),
    ) {
        let restriction = Restriction { filter: None, hidden: HiddenFields::parse(&names).unwrap() };
        let seen = source.batches.iter().map(|batch| restriction.seen(batch)).collect();
        let seen = Memory { known: source.known, ..Memory::new(seen) };
        check(&query, &source);
        check_as(&query, &source, &restriction, &seen);
    }

    /// Counts of segments answer such queries where there are segments.
    #[test]
    fn counts_by_time_and_one_field_agree(
        filter in any_level_filter(),
        condition in prop::option::of(any_level_filter()),
        step_ns in prop::option::of((1i64..20, -5i64..5)),
        by_level in any::<bool>(),
        top in any::<bool>(),
        range in prop::option::of((0i64..30, 20i64..60)),
        source in any_source(),
    ) {
        let time = step_ns.map(|(step_ns, offset_ns)| By {
            name: "_time".to_owned(),
            bucket: Some(Bucket::Time { step_ns, offset_ns }),
        });
        let level = By { name: "level".to_owned(), bucket: None };
        let count = |name: &str, filter| StatsFunction {
            function: Function::count(),
            filter,
            name: name.to_owned(),
        };
        let pipe = if top {
            Pipe::from(Top { limit: 9, by: vec!["level".to_owned()], hits: "hits".to_owned(), rank: None })
        } else {
            Pipe::from(Stats {
                by: time.into_iter().chain(by_level.then_some(level)).collect(),
                functions: vec![count("n", None), count("m", condition)],
            })
        };
        let filter = match range {
            None => filter,
            Some((start_ns, end_ns)) => {
                Filter::And(vec![Filter::Time(TimeRange { start_ns, end_ns }), filter])
            }
        };
        check(&Query::new(filter, vec![pipe]), &source);
    }

    #[test]
    fn written_queries_are_read_as_the_same(query in any_query()) {
        let written = query.to_string();
        prop_assert_eq!(Query::parse(&written, 0), Ok(query), "{}", written);
    }

    #[test]
    fn a_limit_gives_the_newest_rows(
        filter in any_filter(),
        changes in prop::collection::vec(any_change(), 0..2),
        source in any_source(),
        limit in 0usize..30,
        offset in 0usize..4,
        range in (0i64..50, 0i64..60),
    ) {
        let query = Query::new(filter, changes.into_iter().map(Pipe::from).collect());
        let range = TimeRange { start_ns: range.0, end_ns: range.1 };
        let sent = || source.batches.iter().filter(|batch| !batch.is_internal());
        let mut lines: Vec<_> = sent().flat_map(|batch| batch.rows()).collect();
        lines.sort_by_key(|row| std::cmp::Reverse((row.time_ns(), row.id())));
        let all = naive_rows(&Memory { known: false, ..Memory::new(source.batches.clone()) });
        let places: Vec<_> = sent().flat_map(|batch| batch.rows()).map(|row| row.id()).collect();
        let place = |id| places.iter().position(|p| *p == id).unwrap();
        let in_order = lines.iter().filter(|row| range.contains(row.time_ns())).map(|row| all[place(row.id())].clone());
        let mut expected: Vec<Row> = in_order.filter(|row| selects(query.filter(), row)).collect();
        for pipe in query.pipes() {
            expected = run_pipe(pipe, expected, None);
        }
        let expected: Vec<Row> = expected.into_iter().skip(offset).take(limit).collect();
        let limits = Limits { threads: 1 + limit % 3, ..Limits::default() };
        let context = Context { range, limit: Some(limit), offset, limits, ..Context::default() };
        let (rows, outcome) = collect(&query, &source, &context);
        outcome.unwrap();
        let found: Vec<Row> = rows.into_iter().map(|row| row.into_iter().collect()).collect();
        prop_assert_eq!(found, expected, "{}", query);
    }

    #[test]
    fn a_limit_behind_a_sort_gives_its_first_rows(
        filter in any_filter(),
        changes in prop::collection::vec(any_change(), 0..2),
        source in any_source(),
        by in prop::sample::select(vec!["(_time desc)", "(_time desc)", "(_time)", "(_time desc, n)", "(n)"]),
        limit in 0usize..8,
        offset in 0usize..4,
        is_pipe in any::<bool>(),
    ) {
        let mut pipes: Vec<Pipe> = changes.into_iter().map(Pipe::from).collect();
        let sort = Query::parse(&format!("* | sort by {by}"), 0).unwrap();
        pipes.extend(sort.pipes().iter().cloned());
        let mut expected: Vec<Row> =
            naive_rows(&source).into_iter().filter(|row| selects(&filter, row)).collect();
        for pipe in &pipes {
            expected = run_pipe(pipe, expected, None);
        }
        let expected: Vec<Row> = expected.into_iter().skip(offset).take(limit).collect();
        let limits = Limits { threads: 1 + limit % 3, ..Limits::default() };
        let mut context = Context { limits, ..Context::default() };
        if is_pipe {
            let behind = Query::parse(&format!("* | offset {offset} | limit {limit}"), 0).unwrap();
            pipes.extend(behind.pipes().iter().cloned());
        } else {
            (context.limit, context.offset) = (Some(limit), offset);
        }
        let query = Query::new(filter, pipes);
        let (rows, outcome) = collect(&query, &source, &context);
        outcome.unwrap();
        let found: Vec<Row> = rows.into_iter().map(|row| row.into_iter().collect()).collect();
        prop_assert_eq!(found, expected, "{}", query);
    }
}
