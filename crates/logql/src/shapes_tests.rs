//! What Loki answers to shapes of lines and queries: pushed lines with labels and structured
//! metadata, clashes of names, values that are missing, empty, infinite or no numbers, and errors.

use query::Context;

use crate::ast::Expr;
use crate::metric::{Grid, Value};
use crate::testing::{Memory, Record, batch, record};
use crate::{logs, metric, parse};

const SECOND_NS: i64 = 1_000_000_000;

/// A pushed line at a second: its application, its text, and its structured metadata.
type Pushed<'l> = (i64, &'l str, &'l str, &'l [(&'l str, &'l str)]);

fn pushed(lines: &[Pushed<'_>]) -> Memory {
    let one = |&(second, app, line, metadata): &Pushed<'_>| -> Record {
        let mut raw = Vec::from(b"{\"_msg\":");
        text::json::write_text(line.as_bytes(), &mut raw);
        for (name, value) in [&[("app_name", app)][..], metadata].concat() {
            raw.push(b',');
            text::json::write_text(name.as_bytes(), &mut raw);
            raw.push(b':');
            text::json::write_text(value.as_bytes(), &mut raw);
        }
        raw.push(b'}');
        let raw = String::from_utf8(raw).unwrap();
        let mut fields = vec![("_msg", line), ("app_name", app), ("_raw", raw.as_str())];
        // Found in the line by Loginson: this is no metadata.
        fields.push(("found", "yes"));
        fields.extend(metadata);
        record(second * SECOND_NS, &fields)
    };
    let records: Vec<Record> = lines.iter().map(one).collect();
    Memory(records.chunks(2).zip(1..).map(|(chunk, sequence)| batch(sequence, chunk)).collect())
}

/// Series at these seconds, each as `{labels} point point`; the level, which is always unknown, is
/// left out.
fn series(lines: &[Pushed<'_>], text: &str, seconds: (i64, i64, i64)) -> Result<String, String> {
    let Expr::Metric(query) = parse(text).map_err(|e| e.to_string())? else {
        return Err("a query for lines".to_owned());
    };
    let (start, end, step) = seconds;
    let grid = match start == end {
        true => Grid::instant(end * SECOND_NS),
        false => Grid::new(start * SECOND_NS, end * SECOND_NS, step * SECOND_NS)?,
    };
    let value = metric::run(&query, &pushed(lines), &Context::default(), grid);
    let point = |point: &Option<f64>| match point {
        Some(value) if value.is_finite() => format!("{}", (value * 1e6).round() / 1e6),
        Some(value) => crate::format_number(*value),
        None => "_".to_owned(),
    };
    match value.map_err(|e| e.to_string())? {
        Value::Scalar(value) => Ok(crate::format_number(value)),
        Value::Series(series) => {
            let shown = series.iter().map(|one| {
                let labels = one.labels.iter().filter(|(name, _)| name != "detected_level");
                let labels: Vec<_> = labels.map(|(n, v)| format!("{n}={v}")).collect();
                let points: Vec<String> = one.points.iter().map(point).collect();
                format!("{{{}}} {}", labels.join(","), points.join(" "))
            });
            Ok(shown.collect::<Vec<_>>().join("; "))
        }
    }
}

/// The series at second 60.
fn at_60(lines: &[Pushed<'_>], text: &str) -> String {
    series(lines, text, (60, 60, 1)).unwrap_or_else(|error| format!("failed: {error}"))
}

#[track_caller]
fn check(lines: &[Pushed<'_>], cases: &[(&str, &str)]) {
    for (query, expected) in cases {
        let found = at_60(lines, query);
        match expected.strip_prefix("failed: ") {
            Some(part) => assert!(found.starts_with("failed: ") && found.contains(part), "{found}"),
            None => assert_eq!(found, *expected, "{query}"),
        }
    }
}

#[test]
fn metadata_is_among_the_labels() {
    let lines: &[Pushed<'_>] = &[
        (20, "s", "one", &[("zone", "eu"), ("ratio", "2")]),
        (40, "s", "two", &[("zone", "eu"), ("ratio", "4")]),
        (50, "s", "three", &[("zone", "us")]),
    ];
    check(
        lines,
        &[
            (
                r#"count_over_time({app_name="s"} | drop ratio [1m])"#,
                "{app_name=s,zone=eu} 2; {app_name=s,zone=us} 1",
            ),
            (r#"count_over_time({app_name="s"} | zone="us" [1m])"#, "{app_name=s,zone=us} 1"),
            (r#"count_over_time({app_name="s"} | keep zone [1m])"#, "{zone=eu} 2; {zone=us} 1"),
            (r#"count_over_time({app_name="s"} | drop zone, ratio [1m])"#, "{app_name=s} 3"),
            (
                r#"count_over_time({app_name="s"} | drop ratio | drop zone="us" [1m])"#,
                "{app_name=s} 1; {app_name=s,zone=eu} 2",
            ),
            (
                r#"count_over_time({app_name="s"} | drop ratio | label_format area=zone [1m])"#,
                "{app_name=s,area=eu} 2; {app_name=s,area=us} 1",
            ),
            (r#"avg_over_time({app_name="s"} | unwrap ratio [1m])"#, "{app_name=s,zone=eu} 3"),
            (r#"sum by (zone) (count_over_time({}[1m]))"#, "{zone=eu} 2; {zone=us} 1"),
            (
                r#"sum without (app_name, ratio) (count_over_time({}[1m]))"#,
                "{zone=eu} 2; {zone=us} 1",
            ),
            // What Loginson found can be named, but makes no series.
            (r#"sum by (found) (count_over_time({}[1m]))"#, "{found=yes} 3"),
        ],
    );
    let Ok(Expr::Log(query)) = parse(r#"{app_name="s"} | drop ratio"#) else { panic!() };
    for (fields, expected) in [(false, "zone=us"), (true, "found=yes,zone=us")] {
        let source = pushed(lines);
        let found = logs::run(&query, &source, &Context::default(), 1, false, fields).unwrap();
        let labels = found[0].metadata.iter().filter(|(name, _)| name != "detected_level");
        let labels: Vec<String> = labels.map(|(n, v)| format!("{n}={v}")).collect();
        assert_eq!(labels.join(","), expected);
        assert_eq!(found[0].stream, [("app_name".to_owned(), "s".to_owned())]);
    }
}

#[test]
fn a_name_belongs_to_the_stream_then_to_metadata_then_to_what_is_parsed() {
    let metadata: &[(&str, &str)] = &[("md", "m")];
    for (line, stage) in [
        ("app_name=p md=p", "logfmt"),
        ("app_name=p md=p", "logfmt app_name, md"),
        (r#"{"app_name":"p","md":"p"}"#, "json"),
        (r#"{"app_name":"p","md":"p"}"#, "json app_name, md"),
        (r#"{"app_name":"p","md":"p","_entry":"x"}"#, "unpack"),
        ("p p", "regexp `(?P<app_name>\\S+) (?P<md>\\S+)`"),
        ("p p", "pattern `<app_name> <md>`"),
    ] {
        let found =
            at_60(&[(20, "a", line, metadata)], &format!("count_over_time({{}} | {stage} [1m])"));
        let expected = "{app_name=a,app_name_extracted=p,md=m,md_extracted=p} 1";
        assert_eq!(found, expected, "{stage}");
    }
    // Of parsers in a row, the first one names a label.
    check(
        &[(20, "a", r#"{"k":"json","rest":"k=logfmt x=1"}"#, &[])],
        &[(
            r#"count_over_time({} | json | line_format "{{.rest}}" | logfmt | drop rest [1m])"#,
            "{app_name=a,k=json,x=1} 1",
        )],
    );
}

#[test]
fn the_first_value_of_a_repeated_key_counts_and_empty_labels_are_labels() {
    let logfmt: &[Pushed<'_>] = &[(20, "a", "a-b=1 9x=2 dup=first dup=second empty= lone", &[])];
    let json: &[Pushed<'_>] =
        &[(20, "a", r#"{"dup":"first","dup":"second","user":{},"e":"","n":null}"#, &[])];
    check(
        logfmt,
        &[
            ("count_over_time({} | logfmt [1m])", "{_9x=2,a_b=1,app_name=a,dup=first} 1"),
            (
                "count_over_time({} | logfmt --keep-empty [1m])",
                "{_9x=2,a_b=1,app_name=a,dup=first,empty=,lone=} 1",
            ),
            (
                "count_over_time({} | logfmt dup, gone, e=\"empty\" [1m])",
                "{app_name=a,dup=first,e=,gone=} 1",
            ),
            (
                "sum by (empty, dup) (count_over_time({} | logfmt --keep-empty [1m]))",
                "{dup=first,empty=} 1",
            ),
            (
                "count_over_time({} | logfmt --keep-empty | empty=\"\" | keep empty [1m])",
                "{empty=} 1",
            ),
            ("count_over_time({} | logfmt --keep-empty | empty=~\".+\" [1m])", ""),
        ],
    );
    check(
        json,
        &[
            ("count_over_time({} | json [1m])", "{app_name=a,dup=first,e=} 1"),
            ("count_over_time({} | json age=\"user.age\" [1m])", "{age=,app_name=a} 1"),
            ("count_over_time({} | json n, dup [1m])", "{app_name=a,dup=first,n=} 1"),
            ("count_over_time({} | json app_name=\"no\" [1m])", "{app_name=a} 1"),
            // Only a packed line is unpacked.
            ("count_over_time({} | unpack [1m])", "{app_name=a} 1"),
            ("count_over_time({} | label_format x=\"{{.no}}\" [1m])", "{app_name=a,x=} 1"),
        ],
    );
}

#[test]
fn values_are_read_as_by_go() {
    let one = |value: &str| format!("v={value}");
    let value = |text: &str, query: &str| {
        let line = one(text);
        let query = format!("{query}({{}} | logfmt | unwrap {{v}} [1m]) by ()");
        move |conversion: &str| {
            let query = query.replace("{v}", conversion);
            at_60(&[(20, "a", &line, &[]), (30, "a", &line, &[])], &query)
        }
    };
    for (text, conversion, expected) in [
        ("Inf", "v", "{} +Inf"),
        ("-inf", "v", "{} -Inf"),
        ("NaN", "v", "{} NaN"),
        ("0x1p3", "v", "{} 8"),
        ("1e3", "v", "{} 1000"),
        ("0x10", "v", "failed: SampleExtractionErr"),
        ("1d", "duration(v)", "failed: SampleExtractionErr"),
        ("1w", "duration_seconds(v)", "failed: SampleExtractionErr"),
        ("90", "duration(v)", "failed: SampleExtractionErr"),
        ("1h30m", "duration(v)", "{} 5400"),
        ("1.5B", "bytes(v)", "{} 1"),
        ("2,048", "bytes(v)", "{} 2048"),
        ("1XB", "bytes(v)", "failed: SampleExtractionErr"),
    ] {
        let found = value(text, "avg_over_time")(conversion);
        match expected.strip_prefix("failed: ") {
            Some(part) => assert!(found.contains(part), "{text} {conversion}: {found}"),
            None => assert_eq!(found, expected, "{text} {conversion}"),
        }
    }
    check(
        &[(20, "a", "took=1d", &[]), (30, "a", "took=25h", &[])],
        &[
            ("count_over_time({} | logfmt | took > 1d [1m])", "failed: LabelFilterErr"),
            (
                "count_over_time({} | logfmt | took > 1d | __error__=\"\" [1m])",
                "{app_name=a,took=25h} 1",
            ),
        ],
    );
    check(
        &[],
        &[("0x1p3", "8"), ("0x1p-1 * 4", "2"), ("0x1.8p1", "3"), ("vector(0X1P+2)", "{} 4")],
    );
}

#[test]
fn means_and_quantiles_of_values_that_are_no_numbers() {
    let lines = |values: &[&'static str]| -> Vec<Pushed<'static>> {
        values.iter().zip(10..).map(|(line, second)| (second, "a", *line, &[][..])).collect()
    };
    for (values, function, expected) in [
        (&["v=Inf", "v=5"][..], "avg_over_time(", "+Inf"),
        (&["v=5", "v=Inf"], "avg_over_time(", "+Inf"),
        (&["v=Inf", "v=-Inf"], "avg_over_time(", "NaN"),
        (&["v=Inf", "v=Inf"], "avg_over_time(", "+Inf"),
        (&["v=7", "v=NaN"], "avg_over_time(", "NaN"),
        (&["v=NaN", "v=7"], "max_over_time(", "7"),
        (&["v=NaN", "v=NaN"], "min_over_time(", "NaN"),
        (&["v=2", "v=NaN", "v=4"], "quantile_over_time(1, ", "4"),
        (&["v=2", "v=4"], "quantile_over_time(1.5, ", "+Inf"),
        (&["v=2", "v=Inf"], "stdvar_over_time(", "NaN"),
        (&["v=7", "v=NaN"], "last_over_time(", "NaN"),
    ] {
        let query = format!("{function}{{}} | logfmt | unwrap v [1m]) by ()");
        assert_eq!(at_60(&lines(values), &query), format!("{{}} {expected}"), "{values:?} {query}");
    }
}

#[test]
fn addresses_are_found_within_values() {
    let lines: &[Pushed<'_>] = &[
        (20, "a", "addr=\"client 192.0.2.7:80\"", &[]),
        (30, "a", "addr=\"[2001:db8::5]:443\"", &[]),
        (40, "a", "addr=none", &[]),
        (50, "a", "other=192.0.2.9", &[]),
    ];
    check(
        lines,
        &[
            ("sum(count_over_time({} | logfmt | addr = ip(\"192.0.2.0/24\") [1m]))", "{} 1"),
            ("sum(count_over_time({} | logfmt | addr = ip(\"2001:db8::/32\") [1m]))", "{} 1"),
            ("sum(count_over_time({} | logfmt | addr != ip(\"192.0.2.0/24\") [1m]))", "{} 2"),
            ("sum(count_over_time({} | logfmt | addr = ip(\"192.0.2.1-192.0.2.9\") [1m]))", "{} 1"),
        ],
    );
}

#[test]
fn a_gap_is_filled_within_one_series() {
    let lines: &[Pushed<'_>] = &[(20, "a", "x", &[]), (60, "a", "x", &[])];
    for (query, expected) in [
        ("sum(count_over_time({app_name=\"a\"}[10s])) or vector(0)", "{} 1 0 1 0"),
        ("vector(0) or sum(count_over_time({app_name=\"a\"}[10s]))", "{} 0 0 0 0"),
        ("sum(count_over_time({app_name=\"none\"}[10s])) or vector(7)", "{} 7 7 7 7"),
        (
            "sum by (app_name) (count_over_time({}[10s])) or vector(0)",
            "{app_name=a} 1 _ 1 _; {} 0 0 0 0",
        ),
    ] {
        assert_eq!(series(lines, query, (20, 80, 20)).unwrap(), expected, "{query}");
    }
}

#[test]
fn counters_grow_begin_again_and_are_extrapolated() {
    let counter = |samples: &[(i64, &'static str)]| -> Vec<Pushed<'static>> {
        samples.iter().map(|&(second, line)| (second, "a", line, &[][..])).collect()
    };
    let growing = counter(&[(90, "c=100"), (120, "c=130"), (150, "c=160"), (180, "c=250")]);
    let query = "rate_counter({} | logfmt | unwrap c [1m])";
    assert_eq!(series(&growing, query, (60, 180, 60)).unwrap(), "{app_name=a} _ 1 3");
    // One sample says nothing.
    let short = "rate_counter({} | logfmt | unwrap c [10s])";
    assert_eq!(series(&growing, short, (90, 90, 1)).unwrap(), "{app_name=a} 0");
    // A counter that begins again at 30.
    let again = counter(&[(60, "c=60"), (90, "c=90"), (120, "c=30"), (150, "c=60")]);
    let long = "rate_counter({} | logfmt | unwrap c [2m])";
    assert_eq!(series(&again, long, (150, 150, 1)).unwrap(), "{app_name=a} 1");
    // Not below 0: it was 0 at second 60.
    let begun = counter(&[(75, "c=30"), (105, "c=90"), (135, "c=150")]);
    assert_eq!(series(&begun, query, (105, 135, 30)).unwrap(), "{app_name=a} 1.5 2");
    // By half of a usual distance where the next sample is far.
    let far = counter(&[(150, "c=600"), (180, "c=660")]);
    for (range, at, expected) in [("90s", 180, "1"), ("90s", 210, "2"), ("150s", 240, "0.8")] {
        let query = format!("rate_counter({{}} | logfmt | unwrap c [{range}])");
        let found = series(&far, &query, (at, at, 1)).unwrap();
        assert_eq!(found, format!("{{app_name=a}} {expected}"), "{range} at {at}");
    }
    let of_metadata: &[Pushed<'_>] =
        &[(30, "a", "x", &[("c", "40")]), (60, "a", "x", &[("c", "100")])];
    assert_eq!(at_60(of_metadata, "rate_counter({} | unwrap c [90s])"), "{app_name=a} 1");
}

#[test]
fn different_values_are_counted() {
    let lines: &[Pushed<'_>] = &[
        (10, "a", "id=1", &[("zone", "x")]),
        (20, "a", "id=1", &[("zone", "y")]),
        (30, "a", "id=2", &[("zone", "x")]),
        (40, "b", "id=2", &[]),
        (50, "a", "other=3", &[]),
        (55, "a", "id=", &[]),
    ];
    check(
        lines,
        &[
            ("approx_count_distinct(id, {} | logfmt [1m])", "{app_name=a} 2; {app_name=b} 1"),
            ("approx_count_distinct(id, {} | logfmt [1m]) by ()", "{} 2"),
            ("approx_count_distinct(zone, {}[1m])", "{app_name=a} 2"),
            ("approx_count_distinct(app_name, {}[1m])", "{} 2"),
            ("sum(approx_count_distinct(id, {} | logfmt --keep-empty [1m]) by (app_name))", "{} 3"),
            ("approx_count_distinct(none, {}[1m])", ""),
        ],
    );
    for (query, expected) in [
        ("approx_count_distinct(id, {} | unwrap id [1m])", "unwrap is not supported for"),
        ("approx_count_distinct(id, {}[1m]) without (a)", "without is not supported for"),
        ("approx_count_distinct(id, {}[1m]) by (id)", "cannot group by the counted field \"id\""),
        ("approx_count_distinct({}[1m])", "expecting the label whose values are counted"),
    ] {
        let error = parse(query).unwrap_err().to_string();
        assert!(error.contains(expected), "{query}: {error}");
    }
    let query = "approx_count_distinct(id, {} [1m]) by (a)";
    assert_eq!(parse(&parse(query).unwrap().to_string()), parse(query));
}

#[test]
fn the_greatest_series_by_their_other_name() {
    let lines: &[Pushed<'_>] = &[(20, "a", "x", &[]), (30, "b", "x", &[]), (40, "b", "x", &[])];
    check(
        lines,
        &[("approx_topk(1, sum by (app_name) (count_over_time({}[1m])))", "{app_name=b} 2")],
    );
}

#[test]
fn numbers_are_compared_where_they_are_and_sorted_before_what_is_none() {
    let lines: &[Pushed<'_>] = &[(20, "a", r#"{"took":"2s"}"#, &[]), (30, "a", "no json", &[])];
    check(
        lines,
        &[
            // The line with the error lacks the label, and goes with it.
            ("count_over_time({} | json | took > 1s [1m])", "{app_name=a,took=2s} 1"),
            ("count_over_time({} | json | took = ip(\"10.0.0.1\") [1m])", "failed: JSONParserErr"),
        ],
    );
    let values: &[Pushed<'_>] = &[
        (20, "b", "v=2", &[]),
        (20, "a", "v=NaN", &[]),
        (20, "c", "v=Inf", &[]),
        (20, "d", "v=-Inf", &[]),
    ];
    let of = "max_over_time({} | logfmt | unwrap v [1m]) by (app_name)";
    let sorted = "{app_name=d} -Inf; {app_name=b} 2; {app_name=c} +Inf; {app_name=a} NaN";
    assert_eq!(at_60(values, &format!("sort({of})")), sorted);
    let sorted = "{app_name=c} +Inf; {app_name=b} 2; {app_name=d} -Inf; {app_name=a} NaN";
    assert_eq!(at_60(values, &format!("sort_desc({of})")), sorted);
}

#[test]
fn errors_are_kept_where_a_test_names_them() {
    let lines: &[Pushed<'_>] = &[
        (20, "a", r#"{"ok":1}"#, &[("n", "5")]),
        (40, "a", "{", &[("n", "7")]),
        (50, "b", "{", &[("n", "x")]),
    ];
    let kept = "__error__=JSONParserErr,__error_details__=the line is not a JSON object,\
                __preserve_error__=true";
    check(
        lines,
        &[
            (
                "first_over_time({app_name=\"a\"} | json | unwrap n [1m]) by ()",
                "failed: JSONParserErr",
            ),
            (
                "first_over_time({app_name=\"a\"} | json | __error__=\"\" | unwrap n [1m]) by ()",
                "{} 5",
            ),
            (
                "first_over_time({app_name=\"a\"} | json | __error__!=\"\" | unwrap n [1m]) by (app_name)",
                &format!("{{{kept},app_name=a}} 7"),
            ),
            (
                "first_over_time({app_name=\"a\"} | json | unwrap n | __error__!=\"\" [1m]) by ()",
                &format!("{{{kept}}} 7"),
            ),
            // The groups of series show no error.
            (
                "sum by (app_name) (count_over_time({} | json | __error__!=\"\" [1m]))",
                "{app_name=a} 1; {app_name=b} 1",
            ),
            ("max (count_over_time({} | json | __error__!=\"\" [1m]))", "{} 1"),
            // A value that cannot be read counts as 0 then, and its error is the last one.
            (
                "sum (sum_over_time({app_name=\"b\"} | json | __error__=~\".*\" | unwrap n [1m]))",
                "{} 0",
            ),
            (
                "count_over_time({app_name=\"a\"} | json | drop __error__, __error_details__, n [1m])",
                "{app_name=a} 1; {app_name=a,ok=1} 1",
            ),
        ],
    );
    let Ok(Expr::Log(query)) = parse(r#"{app_name="b"} | json | drop __error__"#) else { panic!() };
    let found = logs::run(&query, &pushed(lines), &Context::default(), 9, true, false).unwrap();
    let names: Vec<&str> = found[0].parsed.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["__error_details__"]);
}
