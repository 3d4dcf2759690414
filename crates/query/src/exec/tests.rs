//! Tests of limits, cancellation, early stop, order of rows, and tails.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use record::{Batch, LineId};

use crate::base::{
    Damages, Limits, LineSet, Outcome, Phrase, Phrases, RowKey, RunError, SourceError, TimeOrder,
    TimeRange, Whose,
};
use crate::dist::run;
use crate::lang::context::Context;
use crate::lang::source::{ScanUnit, Source};
use crate::testing::{Memory, Record, batch, cancelled_at, collect, record};
use crate::{Query, ResultRows, Scratch};

fn query(text: &str) -> Query {
    Query::parse(text, 0).unwrap_or_else(|e| panic!("{e}"))
}

/// Records numbered `from..to`, with these event times and a different value each.
fn numbered(from: i64, to: i64) -> Vec<Record> {
    let value = |i: i64| i.to_string();
    (from..to).map(|i| record(i, &[("_msg", &format!("line {i}")), ("n", &value(i))])).collect()
}

fn limited(limits: Limits) -> Context {
    Context { limits, ..Context::default() }
}

/// A source that counts the units it loads, and may have lost one.
struct Counted {
    units: Vec<(Arc<Batch>, bool)>,
    loaded: Arc<AtomicUsize>,
}

struct Unit(Arc<Batch>, bool, Arc<AtomicUsize>);

impl Source for Counted {
    fn units(
        &self,
        _range: TimeRange,
        _whose: Whose,
    ) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
        let unit = |(batch, gone): &(Arc<Batch>, bool)| -> Box<dyn ScanUnit> {
            Box::new(Unit(batch.clone(), *gone, self.loaded.clone()))
        };
        Ok(self.units.iter().map(unit).collect())
    }

    fn find(&self, _line_id: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
        Ok(None)
    }
}

impl ScanUnit for Unit {
    fn time_range_ns(&self) -> Option<(i64, i64)> {
        Some(self.0.time_range_ns())
    }
    fn lines(&self) -> u64 {
        self.0.len() as u64
    }
    fn bytes(&self) -> u64 {
        100
    }
    fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
        self.2.fetch_add(1, Relaxed);
        Ok((!self.1).then(|| self.0.clone()))
    }
}

fn counted(ranges: &[(i64, i64)]) -> Counted {
    let unit =
        |(i, &(from, to)): (usize, &(i64, i64))| (batch(i as u64 + 1, &numbered(from, to)), false);
    Counted { units: ranges.iter().enumerate().map(unit).collect(), loaded: Arc::default() }
}

/// Units that say which numbers they hold, and on which threads they are asked.
struct Asked {
    units: Vec<Arc<Batch>>,
    threads: Arc<Mutex<HashSet<ThreadId>>>,
}

struct AskedUnit(Arc<Batch>, Arc<Mutex<HashSet<ThreadId>>>);

impl Source for Asked {
    fn units(&self, _: TimeRange, _: Whose) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
        let unit = |batch: &Arc<Batch>| -> Box<dyn ScanUnit> {
            Box::new(AskedUnit(batch.clone(), self.threads.clone()))
        };
        Ok(self.units.iter().map(unit).collect())
    }

    fn find(&self, _line_id: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
        Ok(None)
    }
}

impl ScanUnit for AskedUnit {
    fn time_range_ns(&self) -> Option<(i64, i64)> {
        Some(self.0.time_range_ns())
    }
    fn lines(&self) -> u64 {
        self.0.len() as u64
    }
    fn bytes(&self) -> u64 {
        100
    }
    fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
        Ok(Some(self.0.clone()))
    }
    fn may_hold(&self, phrases: &Phrases) -> Result<Option<Vec<bool>>, SourceError> {
        self.1.lock().unwrap().insert(std::thread::current().id());
        let holds = |phrase: &Phrase| {
            self.0.rows().any(|row| row.get_by_name("n") == Some(phrase.text.as_bytes()))
        };
        Ok(Some(phrases.all().iter().map(holds).collect()))
    }
}

#[test]
fn helpers_are_not_woken_for_units_that_words_rule_out() {
    let check = |text: &str, count: i64, expected: &str, alone: bool| {
        let units = (0..count).rev().map(|n| batch(n as u64 + 1, &numbered(n, n + 1))).collect();
        let source = Asked { units, threads: Arc::default() };
        let threads = Limits { threads: 3, ..Limits::default() };
        let (found, outcome) = collect(&query(text), &source, &limited(threads));
        let values: Vec<&str> = found.iter().map(|row| row[0].1.as_str()).collect();
        assert_eq!(values.join(" "), expected, "{text} in {count}");
        assert_eq!(outcome.unwrap().units_skipped, (count as usize - found.len()) as u64);
        if alone {
            let own = HashSet::from([std::thread::current().id()]);
            assert_eq!(*source.threads.lock().unwrap(), own, "{text} in {count}");
        }
    };
    check("n:=3 | fields n", 8, "3", true);
    check("n:=99 | fields n", 8, "", true);
    // Helpers tell of what they ruled out together, and in order.
    check("n:in(0, 40, 3, 41, 7, 99) | fields n", 60, "41 40 7 3 0", false);
    check("n:=99 | fields n", 61, "", false);
    let counted = |count: i64, alone: bool| {
        let units = (0..count).map(|n| batch(n as u64 + 1, &numbered(n, n + 1))).collect();
        let source = Asked { units, threads: Arc::default() };
        let threads = Limits { threads: 3, ..Limits::default() };
        let found = collect(&query("n:=3 | stats count() n"), &source, &limited(threads)).0;
        assert_eq!(found[0][0].1, "1");
        let own = HashSet::from([std::thread::current().id()]);
        assert!(!alone || *source.threads.lock().unwrap() == own);
    };
    counted(8, true);
    counted(60, false);
}

#[test]
fn oldest_first() {
    let check = |limit: Option<usize>, expected: &str| {
        let source = counted(&[(20, 22), (10, 12), (0, 2)]);
        let context = Context { order: Some(TimeOrder::default()), limit, ..Context::default() };
        let (found, outcome) = collect(&query("* | fields n"), &source, &context);
        outcome.unwrap();
        let numbers: Vec<&str> = found.iter().map(|row| row[0].1.as_str()).collect();
        assert_eq!(numbers.join(" "), expected);
    };
    check(None, "0 1 10 11 20 21");
    check(Some(3), "0 1 10");
}

#[test]
fn a_query_inside_one_that_resumes_reads_all_lines() {
    let of = |time_ns, text: &str, user: &str| record(time_ns, &[("_msg", text), ("user", user)]);
    let source = Memory::new(vec![
        batch(1, &[of(1, "error", "a")]),
        batch(2, &[of(2, "ok", "a"), of(3, "ok", "b")]),
    ]);
    let asked = query("user:in(error | fields user) | fields _msg, user");
    let first = RowKey { time_ns: 1, id: LineId { node: 1, sequence: 1, line: 0 } };
    let behind_it = TimeOrder { after: Some(first), ..TimeOrder::default() };
    let known = LineSet { through: 1, missing: Vec::new() };
    let arrived_since = TimeOrder { since: Some(known), ..TimeOrder::default() };
    for order in [behind_it, arrived_since] {
        let context = Context { order: Some(order), ..Context::default() };
        let (found, outcome) = collect(&asked, &source, &context);
        outcome.unwrap();
        let expected = [("_msg", "ok"), ("user", "a")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        assert_eq!(found, [expected.to_vec()]);
    }
}

#[test]
fn units_that_cannot_matter_are_not_read() {
    let check = |text: &str, context: Context, loaded: usize, rows: usize| {
        let source = counted(&[(0, 10), (10, 20), (20, 30), (25, 35)]);
        let (found, outcome) = collect(&query(text), &source, &context);
        assert_eq!((source.loaded.load(Relaxed), found.len()), (loaded, rows), "{text}");
        assert_eq!(outcome.unwrap().rows, rows as u64);
    };
    let limit = |limit| Context { limit: Some(limit), ..Context::default() };
    check("*", Context::default(), 4, 40);
    check("*", limit(0), 0, 0);
    check("*", limit(5), 1, 5);
    check("*", limit(6), 2, 6);
    check("*", limit(20), 2, 20);
    check("*", limit(21), 3, 21);
    check("*", Context { offset: 15, ..limit(5) }, 2, 5);
    check("* | fields n", limit(5), 1, 5);
    check("* | limit 5", Context::default(), 1, 5);
    check("* | sort by (n) | limit 5", limit(3), 4, 3);
    check("* | sort by (_time desc) | limit 5", Context::default(), 1, 5);
    check("* | sort by (_time desc)", limit(6), 2, 6);
    check("* | last 20 by (_time)", Context::default(), 2, 20);
    check("* | filter n:* | sort by (_time desc) | fields n | offset 15 | limit 5", limit(9), 2, 5);
    check("* | sort by (_time) | limit 5", Context::default(), 1, 5);
    check("* | sort by (_time) | limit 10", Context::default(), 1, 10);
    check("* | first 11 by (_time)", Context::default(), 2, 11);
    check("* | filter n:* | sort by (_time) | fields n | offset 15 | limit 5", limit(9), 2, 5);
    check("* | sort by (_time)", limit(25), 3, 25);
    check("* | sort by (_time)", limit(26), 4, 26);
    check("* | uniq by (n) limit 5", Context::default(), 1, 5);
    let range = TimeRange { start_ns: 10, end_ns: 12 };
    check("*", Context { range, ..Context::default() }, 1, 2);
    check("_time:<1970-01-01T00:00:00.000000011Z", Context { range, ..Context::default() }, 1, 1);
}

#[test]
fn deleted_units_are_counted() {
    let mut source = counted(&[(0, 10), (10, 20)]);
    source.units[0].1 = true;
    let (rows, outcome) = collect(&query("*"), &source, &Context::default());
    let expected = Outcome { rows: 10, lines_scanned: 10, units_gone: 1, ..Outcome::default() };
    assert_eq!((rows.len(), outcome.unwrap()), (10, expected));
}

#[test]
fn rows_are_limited() {
    let source = Memory::of(&numbered(0, 3_000));
    for (rows_max, fails) in [(2_999, true), (3_000, false), (3_001, false)] {
        let context = limited(Limits { rows_max, ..Limits::default() });
        let (rows, outcome) = collect(&query("*"), &source, &context);
        assert_eq!(rows.len() as u64, rows_max.min(3_000));
        match outcome {
            Err(error @ RunError::RowLimit(_)) => {
                assert!(fails && error.to_string().contains("query.rows_max"))
            }
            other => assert!(!fails && other.is_ok()),
        }
        assert_eq!(context.progress.rows.load(Relaxed), rows_max.min(3_000));
    }
}

#[test]
fn memory_is_limited_and_given_back() {
    let source = Memory::of(&numbered(0, 2_000));
    for text in [
        "* | stats by (n) count() x",
        "* | stats by (_time:1ns) count() x",
        "* | stats by (n, _msg) count() x",
        "* | stats count_uniq(n) x",
        "* | stats quantile(0.9, n) x",
        "* | sort by (n)",
        "* | uniq by (n)",
        "* | top 5 by (n)",
        "* | facets 5 max_values_per_field 10000",
        "* | patterns by (n)",
        "* | differences where (n:1)",
    ] {
        let small = limited(Limits { memory_bytes_max: 10_000, ..Limits::default() });
        let (_, outcome) = collect(&query(text), &source, &small);
        let error = outcome.expect_err(text);
        assert!(matches!(error, RunError::MemoryLimit(10_000)), "{text}");
        assert!(error.to_string().contains("query.memory_bytes_max"));
        let (_, outcome) = collect(&query(text), &source, &Context::default());
        outcome.unwrap();
    }
    // Rows that are dropped do not count as held.
    let context = limited(Limits { memory_bytes_max: 2_000_000, ..Limits::default() });
    let batches = (0..20)
        .map(|i| batch(i + 1, &numbered(1_000 * i as i64, 1_000 * (i as i64 + 1))))
        .collect();
    let source = Memory::new(batches);
    let (rows, outcome) = collect(&query("* | sort by (n) limit 10"), &source, &context);
    outcome.unwrap();
    assert_eq!(rows.len(), 10);
    let newest = Context { limit: Some(10), ..context.clone() };
    let (rows, outcome) = collect(&query("*"), &source, &newest);
    outcome.unwrap();
    assert_eq!(rows.len(), 10);
}

#[test]
fn time_is_limited() {
    let source = Memory::of(&numbered(0, 10));
    let context = limited(Limits { run_time: Duration::ZERO, ..Limits::default() });
    let (rows, outcome) = collect(&query("*"), &source, &context);
    let error = outcome.unwrap_err();
    assert!(rows.is_empty() && matches!(error, RunError::TimeLimit(_)));
    assert!(error.to_string().contains("query.run_max"));
}

#[test]
fn work_on_one_long_value_ends_when_the_query_does() {
    let spaced = "ab ".repeat(20_000);
    let letters = format!("{} b", "a".repeat(60_000));
    let digits = format!("{}- ab", "1 a".repeat(20_000));
    let quotes = format!("\"{letters}");
    let phrase = "a".repeat(2_000);
    let slow = "~\"(ab ){1,1000}z\"";
    let long = "~\"(a{1,20} ?){1,50}(z|é)\\\\b\"";
    let cases = [
        (&spaced, slow.to_owned()),
        (&spaced, format!("!{slow}")),
        (&spaced, format!("*:{slow}")),
        (&letters, long.to_owned()),
        (&spaced, format!("* | filter {slow}")),
        (&spaced, format!("* | stats count() if ({slow}) n")),
        (&spaced, format!("* | uniq by (_msg) | filter {slow}")),
        (&spaced, format!("* | unroll if ({slow}) (_msg)")),
        (&spaced, "* | extract_regexp \"(?P<x>(ab ){1,1000})z\"".to_owned()),
        (&spaced, format!("* | extract_regexp if ({slow}) \"(?P<x>a)\"")),
        (&spaced, "* | replace_regexp (\"(ab ){1,1000}z\", \"\")".to_owned()),
        // Each match looks at all bytes behind it.
        (&letters, "* | replace_regexp (\"a*z|a\", \"b\")".to_owned()),
        (&letters, format!("i(\"{phrase}\")")),
        (&letters, format!("contains_common_case(\"{phrase}\")")),
        (&letters, format!("\"{phrase}\"")),
        (&letters, format!("seq(\"{phrase}\", b)")),
        (&digits, format!("pattern_match(\"<N> a{}b\")", "<N> a".repeat(30))),
        (&quotes, format!("* | extract `\"{}<x>\"`", "<x>a".repeat(200))),
    ];
    for (value, text) in cases {
        let records = [record(1, &[("_msg", value)])];
        for columns in [None, Some(0)] {
            let source = Memory { columns, ..Memory::of(&records) };
            let (context, checks) = cancelled_at(30);
            let (_, outcome) = collect(&query(&text), &source, &context);
            let (begin, seen) = (&text[..text.len().min(60)], checks.load(Relaxed));
            assert!(matches!(outcome, Err(RunError::Cancelled)), "{begin}, {columns:?}: {seen}");
            assert!(seen < 50, "{begin}, {columns:?}: {seen} checks");
        }
    }
}

#[test]
fn a_cancelled_query_ends_soon() {
    // The source gives this batch again and again: uncancelled, the query would run for hours.
    let batch = batch(1, &numbered(0, 5_000));
    let source = Memory::new(vec![batch; 100_000]);
    for text in ["~\"x.*y.*z\"", "* | stats by (_msg, n) count() x, median(n) y", "* | facets", "*"]
    {
        let context = Context::default();
        let cancelled = context.cancelled.clone();
        let progress = context.progress.clone();
        let canceller = std::thread::spawn(move || {
            while progress.units_done.load(Relaxed) < 3 {
                std::thread::yield_now();
            }
            cancelled.store(true, Relaxed);
            progress.units_done.load(Relaxed)
        });
        let outcome = run(&query(text), &source, &context, &mut |_| ControlFlow::Continue(()));
        assert!(matches!(outcome, Err(RunError::Cancelled)), "{text}");
        // Each thread ends the unit that it looks at, and begins no other.
        let before = canceller.join().unwrap();
        let after = context.progress.units_done.load(Relaxed) - before;
        assert!(after <= 64, "{text}: {after} units after the end");
    }
}

#[test]
fn a_client_that_goes_away_ends_the_query() {
    let source = counted(&[(0, 10), (10, 20)]);
    let mut blocks = 0;
    let outcome = run(&query("*"), &source, &Context::default(), &mut |_| {
        blocks += 1;
        ControlFlow::Break(())
    });
    assert!(outcome.unwrap().stopped);
    assert_eq!((blocks, source.loaded.load(Relaxed)), (1, 1));
}

#[test]
fn rows_show_their_fields_in_order() {
    let fields = [("level", "info"), ("_type", "x"), ("_msg", "hello"), ("empty", ""), ("a", "1")];
    let source = Memory::of(&[record(5, &fields)]);
    let check = |text: &str, limit: Option<usize>, expected: &str| {
        let include = vec!["_line_id".to_owned(), "_line".to_owned()];
        let context = Context { limit, include, ..Context::default() };
        let (mut shown, mut raw) = (Vec::new(), Vec::new());
        let mut show = |rows: ResultRows| {
            rows.visit(0, &mut Scratch::default(), |name, value| {
                shown.push(format!("{name}={}", String::from_utf8_lossy(value)));
            });
            raw.extend_from_slice(rows.raw(0).unwrap());
            ControlFlow::Continue(())
        };
        run(&query(text), &source, &context, &mut show).unwrap();
        assert_eq!(shown.join(" "), expected);
        assert_eq!(raw, b"hello");
    };
    let all = "_time=1970-01-01T00:00:00.000000005Z _stream={_type=\"x\"} _msg=hello level=info _type=x a=1";
    let all = format!("{all} _line=hello _line_id=00000001-1-0");
    check("*", None, &all);
    check("*", Some(10), &all);
    check("* | sort by (a)", None, &all);
    check(
        "* | fields level, _msg",
        Some(10),
        "level=info _msg=hello _line=hello _line_id=00000001-1-0",
    );
    check("* | fields level, _line_id", None, "level=info _line_id=00000001-1-0 _line=hello");
    check(
        "* | sort by (a) | fields level, _line_id",
        None,
        "level=info _line_id=00000001-1-0 _line=hello",
    );
}

#[test]
fn tails_look_at_each_batch() {
    let batch = batch(1, &numbered(0, 10));
    let tail = query("n:>6 | filter !n:8 | fields n | rename n as m")
        .tail(&["_line_id".to_owned()])
        .unwrap();
    assert_eq!(tail.selected(&batch, &mut Scratch::default()).len(), 3);
    let shown = |tail: &crate::TailQuery, batch| {
        let mut shown = Vec::new();
        tail.rows(batch, &Arc::default(), &mut Scratch::default(), &mut |rows| {
            for row in 0..rows.len() {
                rows.visit(row, &mut Scratch::default(), |name, value| {
                    shown.push(format!("{name}={}", String::from_utf8_lossy(value)));
                });
            }
            Ok(())
        })
        .map(|()| shown)
    };
    assert_eq!(
        shown(&tail, &batch).unwrap(),
        ["m=7", "_line_id=00000001-1-7", "m=9", "_line_id=00000001-1-9"]
    );
    for (text, expected) in [
        ("n:>7 | math n * 2 as m | format \"<n>/<m>\" as t | fields t", vec!["t=8/16", "t=9/18"]),
        ("n:9 | extract \"line <x>\" | len(n) as l | fields l | sample 1", vec!["l=1"]),
        ("n:>7 | fields none | drop_empty_fields", vec![]),
    ] {
        assert_eq!(shown(&query(text).tail(&[]).unwrap(), &batch).unwrap(), expected, "{text}");
    }
    // A tail gives the same rows as a query, also for more lines than are computed at once.
    let many = crate::testing::batch(1, &numbered(0, 500));
    let tail = query("* | math n + 1 as m | m:>=100 | fields m").tail(&[]).unwrap();
    let expected: Vec<String> = (100..=500).map(|m| format!("m={m}")).collect();
    assert_eq!(shown(&tail, &many).unwrap(), expected);
    let doubled = "| format \"<n><n><n><n><n><n><n><n>\" as n ".repeat(9);
    let error = shown(&query(&format!("* {doubled}")).tail(&[]).unwrap(), &many).unwrap_err();
    assert!(matches!(error, RunError::MemoryLimit(_) | RunError::ValueLimit(_)), "{error}");
    for text in ["* | sort by (a)", "* | count()", "* | fields a | limit 5", "* | uniq by (a)"] {
        let error = query(text).tail(&[]).err().unwrap();
        assert!(error.to_string().contains("live") && error.position > 0, "{error}");
    }
}

/// A unit that cannot be read, or takes long.
struct Broken(Arc<std::sync::atomic::AtomicBool>, bool);

impl Source for Broken {
    fn units(
        &self,
        _range: TimeRange,
        _whose: Whose,
    ) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
        let good = || {
            Box::new(Unit(batch(1, &numbered(0, 5)), false, Arc::default())) as Box<dyn ScanUnit>
        };
        let bad = || Box::new(Broken(self.0.clone(), self.1)) as Box<dyn ScanUnit>;
        Ok(vec![good(), good(), good(), bad(), good(), bad(), good(), good()])
    }
    fn find(&self, _line_id: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
        Ok(None)
    }
}

impl ScanUnit for Broken {
    fn time_range_ns(&self) -> Option<(i64, i64)> {
        Some((0, 5))
    }
    fn lines(&self) -> u64 {
        1
    }
    fn bytes(&self) -> u64 {
        1
    }
    fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
        if self.1 {
            return Err(SourceError("seg-1 at byte 7: damaged".into()));
        }
        // Simulates a client that cancels the query while it reads.
        self.0.store(true, Relaxed);
        Ok(None)
    }
}

#[test]
fn errors_and_cancelling_end_all_threads() {
    for threads in 1..5 {
        let limits = Limits { threads, ..Limits::default() };
        let cancelled = Arc::default();
        let context = Context { limits, cancelled: Arc::clone(&cancelled), ..Context::default() };
        let text = query("line | stats count()");
        let (rows, outcome) = collect(&text, &Broken(Arc::clone(&cancelled), true), &context);
        assert_eq!(rows.len(), 0);
        assert!(outcome.unwrap_err().to_string().contains("damaged"), "{threads}");
        let (_, outcome) = collect(&text, &Broken(cancelled, false), &context);
        assert!(matches!(outcome, Err(RunError::Cancelled)), "{threads}");
    }
}

#[test]
fn a_damaged_unit_is_an_error_or_passed_over_and_counts_agree_with_rows() {
    let batches = || (0..6).map(|i| batch(i + 1, &numbered(i as i64 * 10, i as i64 * 10 + 10)));
    let texts = [
        "*",
        "line",
        "* | stats count()",
        "line | stats count()",
        "n:>=0 | stats by (n) count()",
        "* | stats by (_time:10ns) count()",
        "* | sort by (_time) | limit 100",
        "line | top 100 by (n)",
    ];
    let count = |text: &str, rows: &[crate::testing::Shown]| match text.contains("count()") {
        true => rows.iter().map(|row| row.last().unwrap().1.parse::<usize>().unwrap()).sum(),
        false => rows.len(),
    };
    for (threads, columns) in [(1, None), (1, Some(0)), (4, None), (4, Some(0))] {
        // In the second round the damage is known before the query begins.
        for (text, is_known) in texts.iter().flat_map(|text| [(text, false), (text, true)]) {
            let case = format!("{text}, {threads} threads, known: {is_known}");
            let source = Memory {
                segment_batches: Some(3),
                columns,
                damaged: Some((4, Arc::new(is_known.into()))),
                ..Memory::new(batches().collect())
            };
            let limits = Limits { threads, ..Limits::default() };
            let context = Context { limits, ..Context::default() };
            let (rows, outcome) = collect(&query(text), &source, &context);
            // Counts that are kept of the segment are right as long as nothing was read of it.
            if outcome.is_ok() {
                assert_eq!((is_known, count(text, &rows)), (false, 60), "{case}");
                continue;
            }
            let error = outcome.unwrap_err();
            let RunError::Damaged(unit) = &error else { panic!("{case}: {error}") };
            assert_eq!((unit.segment, unit.unit, unit.lines), (1, Some(4), 10), "{case}");
            let text_of_it = error.to_string();
            for part in ["segment 1, block 4 with 10 lines", "verify", "allow_partial_response"] {
                assert!(text_of_it.contains(part), "{text_of_it}");
            }
            let damages = Arc::new(Damages::default());
            let context = Context { damages: Some(damages.clone()), ..context };
            let (rows, outcome) = collect(&query(text), &source, &context);
            outcome.unwrap();
            assert_eq!(count(text, &rows), 50, "{case}");
            assert_eq!((damages.units().len(), damages.lines()), (1, 10), "{case}");
        }
    }
}

/// Many lines of the same time come in the order of their arrival, however units hold them, and in
/// whatever order lines are inside the units.
#[test]
fn equal_rows_come_in_the_order_of_arrival() {
    let line = |name: &str| record(7, &[("n", name), ("k", "same")]);
    let later = record(9, &[("n", "later"), ("k", "same")]);
    let together = vec![batch(1, &["a", "b", "c", "d", "e", "f"].map(line))];
    // A unit with a newer line is read first, and one that arrived last may be listed first.
    let apart = |order: [u64; 3]| {
        let records = |sequence| match sequence {
            1 => vec![line("a"), line("b")],
            2 => vec![line("c"), line("d")],
            _ => vec![line("e"), line("f"), later.clone()],
        };
        order.map(|sequence| batch(sequence, &records(sequence))).to_vec()
    };
    let names = |text: &str, batches: Vec<Arc<Batch>>, known, threads| {
        let source = Memory { known, ..Memory::new(batches) };
        let limits = Limits { threads, ..Limits::default() };
        let (rows, outcome) = collect(&query(text), &source, &limited(limits));
        outcome.unwrap();
        rows.iter().map(|row| row[0].1.as_str()).collect::<Vec<_>>().join("")
    };
    for (text, expected) in [
        ("n:!later | sort by (_time desc) | limit 3 | fields n", "abc"),
        ("n:!later | sort by (_time) | limit 3 | fields n", "abc"),
        ("n:!later | sort by (k) offset 2 limit 2 | fields n", "cd"),
        ("n:!later | sort by (k) | fields n", "abcdef"),
        ("n:!later | last 2 by (k) | fields n", "ab"),
        ("n:!later | running_stats last(n) x | fields x", "abcdef"),
        ("n:!later | stats field_min(k, n) x", "a"),
        ("n:!later | stats field_max(k, n) x", "a"),
    ] {
        assert_eq!(names(text, together.clone(), true, 1), expected, "{text}");
        for order in [[1, 2, 3], [3, 1, 2], [2, 3, 1]] {
            for (known, threads) in [(true, 1), (true, 3), (false, 1), (false, 3)] {
                let found = names(text, apart(order), known, threads);
                assert_eq!(found, expected, "{text} {order:?} {known} {threads}");
            }
        }
    }
}
