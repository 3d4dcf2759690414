//! Tests of what a panel shows of the rows of its answer.

use serde_json::json;

use super::super::panel::panels;
use super::super::times::zone;
use super::*;

const HOUR: i64 = 3_600_000;
/// 2026-03-29T00:00:00Z, in milliseconds.
const START: i64 = 1_774_742_400_000;

fn rows(names: &[&str], cells: &[&[&str]]) -> Rows {
    let texts = |row: &[&str]| row.iter().map(|cell| (*cell).to_owned()).collect();
    Rows { names: texts(names), rows: cells.iter().map(|row| texts(row)).collect(), is_cut: false }
}

/// What a panel with these options shows of an answer, and its notes.
fn check(query: &str, options: serde_json::Value, rows: &Rows) -> (Shown, Vec<String>) {
    let dashboard = json!({"panels": [{"query": query, "options": options}]});
    let panel = panels(dashboard.as_object().unwrap()).0.remove(0);
    let mut notes = Vec::new();
    let query = Query::parse(query, 0).unwrap();
    let (panel, query, range_ms) = (&panel, &query, (START, START + 3 * HOUR));
    let zone = &zone("Europe/Berlin").unwrap();
    let shown = Answered { panel, query, rows, range_ms, zone }.shown(&mut notes);
    (shown, notes)
}

#[test]
fn rows_over_time_are_series_over_the_whole_range() {
    let rows = rows(
        &["_time", "level", "n"],
        &[
            &["2026-03-29T01:00:00Z", "error", "5"],
            &["2026-03-29T01:00:00Z", "", "2"],
            &["2026-03-29T02:00:00Z", "error", "1"],
            &["2026-03-29T02:00:00Z", "info", "1"],
        ],
    );
    let query = "* | stats by (_time:1h, level) count() n";
    let (Shown::Chart(chart), notes) = check(query, json!({"kind": "bars", "top": 2}), &rows)
    else {
        panic!()
    };
    assert_eq!(chart.times_ms, [START, START + HOUR, START + 2 * HOUR]);
    assert!(chart.is_bars && chart.is_stacked && notes.is_empty());
    let found: Vec<_> = chart.series.iter().map(|one| (&*one.label, one.size)).collect();
    assert_eq!(found, [("error", 6.0), ("(none)", 2.0), ("others (1)", 1.0)]);
    assert_eq!(chart.series[0].points, [Some(0.0), Some(5.0), Some(1.0)]);
    let (Shown::Chart(chart), _) = check(query, json!({"only": ["info"]}), &rows) else { panic!() };
    assert_eq!(chart.series.len(), 1);
    assert!(!chart.is_bars, "a line is the default");
}

#[test]
fn of_many_groups_the_greatest_have_points_and_the_others_share_theirs() {
    let row = |at: usize| {
        let (second, group) = (at * 5 % 10_800, format!("host{at}"));
        let clock = format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
        vec![format!("2026-03-29T{clock}Z"), group, (at + 1).to_string(), (at % 7).to_string()]
    };
    let names = ["_time", "host", "n", "most"].map(str::to_owned).to_vec();
    let rows = Rows { names, rows: (0..ROWS_MAX).map(row).collect(), is_cut: false };
    let query = "* | stats by (_time:5s, host) count() n, max(bytes) most";
    let options = json!({"kind": "line", "top": 4, "values": ["n", "most"]});
    let (Shown::Chart(chart), notes) = check(query, options, &rows) else { panic!() };
    let labels: Vec<&str> = chart.series.iter().map(|one| &*one.label).collect();
    let all = ["n · host19999", "n · host19998", "others (19998)", "most · host1000"];
    assert_eq!(labels[..4], all, "and one more: {labels:?}");
    assert_eq!((labels.len(), notes), (5, vec!["19998 smaller series are left out.".to_owned()]));
    let sum = |at: usize| chart.series[at].points.iter().flatten().sum::<f64>();
    let total = (ROWS_MAX * (ROWS_MAX + 1) / 2) as f64;
    assert_eq!(sum(0) + sum(1) + sum(2), total);
    assert_eq!((sum(0), chart.series[2].size), (20_000.0, total - 39_999.0));
    assert_eq!(chart.series[3].points.iter().flatten().collect::<Vec<_>>(), [&6.0]);
}

#[test]
fn what_cannot_be_added_up_has_gaps() {
    let rows = rows(
        &["_time", "p99_ms"],
        &[&["2026-03-29T00:00:00Z", "12.5"], &["2026-03-29T02:00:00Z", "NaN"]],
    );
    let query = "* | stats by (_time:1h) quantile(0.99, duration_ms) p99_ms";
    let (Shown::Chart(chart), _) = check(query, json!({}), &rows) else { panic!() };
    assert_eq!(chart.series[0].points, [Some(12.5), None, None]);
    assert_eq!(chart.unit, Unit::Millis);
}

#[test]
fn other_kinds() {
    let one = rows(&["lines", "bytes"], &[&["1234", "2048"]]);
    let (found, _) = check("* | stats count() lines, sum(bytes) bytes", json!({}), &one);
    let number = |label: &str, number: &str| (label.to_owned(), number.to_owned());
    assert_eq!(found, Shown::Numbers(vec![number("lines", "1,234"), number("bytes", "2 KiB")]));
    let groups = rows(&["path", "n"], &[&["/a", "1"], &["/b", "7"], &["", "2"]]);
    let query = "* | stats by (path) count() n";
    let (found, notes) = check(query, json!({"top": 1}), &groups);
    let entries = vec![("/b".to_owned(), 7.0)];
    assert_eq!(found, Shown::List(List { entries, unit: Unit::Number }));
    assert_eq!(notes, ["2 other groups have 3 together."]);
    let (Shown::Table(table), _) = check(query, json!({"kind": "table"}), &groups) else {
        panic!()
    };
    assert_eq!(table.columns, [("path".to_owned(), false), ("n".to_owned(), true)]);
    let (found, notes) = check(query, json!({"kind": "heat"}), &groups);
    assert!(matches!(found, Shown::List(_)), "no heat map without time");
    assert!(notes.is_empty());
    assert_eq!(check(query, json!({}), &Rows::default()).0, Shown::Nothing);
}

#[test]
fn distributions_are_lists_of_bins() {
    let range = |from: &str, to: &str, hits: u32| {
        format!("{{\"vmrange\":\"{from}...{to}\",\"hits\":{hits}}}")
    };
    let cell =
        format!("[{},{}]", range("1.000e+00", "1.136e+00", 3), range("1.136e+00", "1.292e+00", 4));
    let (found, notes) =
        check("* | stats histogram(duration_ms) h", json!({}), &rows(&["h"], &[&[&cell]]));
    let Shown::List(list) = found else { panic!("{found:?}") };
    assert_eq!(
        list.entries,
        [("1 ms – 1.14 ms".to_owned(), 3.0), ("1.14 ms – 1.29 ms".to_owned(), 4.0)]
    );
    let steps = rows(&["bytes", "n"], &[&["200", "1"], &["0", "7"], &["100", "2"]]);
    let (found, _) = check("* | stats by (bytes:100) count() n", json!({}), &steps);
    let Shown::List(list) = found else { panic!("{found:?}") };
    assert_eq!(list.entries.iter().map(|(_, hits)| *hits).collect::<Vec<_>>(), [7.0, 2.0, 1.0]);
    assert!(notes.is_empty());
}

#[test]
fn heat_maps_are_grids_from_the_bottom() {
    let cells = |time: &str, group: &str, n: &str| [time, group, n].map(str::to_owned);
    let answer = |names: &[&str], all: &[[String; 3]]| Rows {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        rows: all.iter().map(|row| row.to_vec()).collect(),
        is_cut: false,
    };
    let (one, two) = ("2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z");
    let steps = answer(
        &["_time", "took_ms", "n"],
        &[cells(one, "200", "5"), cells(one, "0", "2"), cells(two, "0", "9")],
    );
    let query = "* | stats by (_time:1h, took_ms:100) count() n";
    let (Shown::Heat(heat), notes) = check(query, json!({}), &steps) else { panic!() };
    let expected = [
        ("0 s – 100 ms".to_owned(), vec![2.0, 9.0, 0.0]),
        ("200 ms – 300 ms".to_owned(), vec![5.0, 0.0, 0.0]),
    ];
    assert_eq!((heat.rows.as_slice(), heat.unit, notes.len()), (&expected[..], Unit::Number, 0));
    let groups = answer(
        &["_time", "host", "n"],
        &[cells(one, "a", "5"), cells(two, "b", "9"), cells(two, "", "1")],
    );
    let query = "* | stats by (_time:1h, host) count() n";
    let (Shown::Heat(heat), notes) = check(query, json!({"kind": "heat", "top": 2}), &groups)
    else {
        panic!()
    };
    let labels: Vec<&str> = heat.rows.iter().map(|(label, _)| label.as_str()).collect();
    assert_eq!((labels.as_slice(), heat.times_ms.len()), (&["a", "b"][..], 3));
    assert_eq!(notes, ["1 smaller rows are left out."]);
    let cell = r#"[{"vmrange":"1.000e+00...1.136e+00","hits":3}]"#;
    let ranges = rows(&["_time", "h"], &[&[one, cell], &[two, "[]"]]);
    let query = "* | stats by (_time:1h) histogram(a) h";
    let (Shown::Heat(heat), _) = check(query, json!({}), &ranges) else { panic!() };
    assert_eq!(heat.rows, [("1 – 1.14".to_owned(), vec![3.0, 0.0, 0.0])]);
}

#[test]
fn times_of_a_table_are_those_of_the_zone() {
    let rows = rows(
        &["_time", "_msg"],
        &[&["2026-03-29T00:59:59.25Z", "a"], &["2026-03-29T01:00:00Z", "2026-03-29T01:00:00Z"]],
    );
    let (Shown::Table(table), _) = check("a", json!({}), &rows) else { panic!() };
    // Clocks go from 02:00 to 03:00; a text that looks like a time stays as it is.
    let expected =
        [["2026-03-29 01:59:59.25", "a"], ["2026-03-29 03:00:00", "2026-03-29T01:00:00Z"]];
    assert_eq!(table.rows, expected);
}

#[test]
fn large_answers_are_cut_and_say_so() {
    let many: Vec<Vec<String>> = (0..40).map(|n| vec![n.to_string(); 10]).collect();
    let names = (0..10).map(|n| format!("c{n}")).collect();
    let rows = Rows { names, rows: many, is_cut: true };
    let (Shown::Table(table), notes) = check("a", json!({}), &rows) else { panic!() };
    assert_eq!((table.rows.len(), table.columns.len()), (TABLE_ROWS_MAX, COLUMNS_MAX));
    let expected = [
        "Only the first 40 rows of its answer were read.",
        "2 columns are left out.",
        "at least 10 more rows are left out.",
    ];
    assert_eq!(notes, expected);
}
