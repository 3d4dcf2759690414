//! The language: examples, and a comparison with a naive evaluation.

use proptest::prelude::*;
use query::Context;
use query::source::TimeRange;

use crate::ast::{Expr, RangeOp};
use crate::metric::{Grid, Value};
use crate::stage::Labels;
use crate::testing::{Memory, Record, batch, record};
use crate::{EvalError, NESTING_MAX, logs, metric, parse};

const SECOND_NS: i64 = 1_000_000_000;

fn records() -> Vec<Record> {
    let web = |s: i64, level: &str, msg: &str| {
        record(
            s * SECOND_NS,
            &[
                ("_type", "syslog"),
                ("app_name", "web"),
                ("hostname", "a"),
                ("_level", level),
                ("level", level),
                ("_msg", msg),
                ("proc_id", "7"),
            ],
        )
    };
    let object = |s: i64, text: &str, msg: &str| {
        record(
            s * SECOND_NS,
            &[
                ("_type", "json"),
                ("app_name", "shop"),
                ("hostname", "b"),
                ("_msg", msg),
                ("_raw", text),
            ],
        )
    };
    vec![
        web(1, "info", "GET /a 200 took=15ms size=2KB ip=10.0.0.1"),
        web(2, "error", "GET /b 500 took=1.5s size=10KB ip=10.0.0.2"),
        web(3, "warning", "POST /a 404 took=x ip=192.168.1.1"),
        object(4, r#"{"msg":"sold","user":{"name":"ann"},"n":3,"tags":["x"]}"#, "sold"),
        object(5, r#"{"msg":"sold","user":{"name":"bob"},"n":5,"hostname":"h2"}"#, "sold"),
        web(6, "", "\u{1b}[31mred\u{1b}[0m plain"),
    ]
}

fn source(records: &[Record]) -> Memory {
    Memory(records.chunks(2).zip(1..).map(|(chunk, sequence)| batch(sequence, chunk)).collect())
}

/// Lines of a query, oldest first, as `time line {labels made by stages}`.
fn lines(text: &str) -> Result<Vec<String>, String> {
    let Expr::Log(query) = parse(text).map_err(|e| e.to_string())? else {
        return Err("a query for samples".to_owned());
    };
    let source = source(&records());
    let found = logs::run(&query, &source, &Context::default(), 100, true, false);
    let show = |entry: &logs::Entry| {
        let labels: Vec<String> = entry
            .parsed
            .iter()
            .filter(|l| l.0 != "__error_details__")
            .map(|(n, v)| format!("{n}={v}"))
            .collect();
        format!("{} {} {{{}}}", entry.time_ns / SECOND_NS, entry.line, labels.join(","))
    };
    found.map(|found| found.iter().map(show).collect()).map_err(|e| e.to_string())
}

fn times(text: &str) -> Vec<i64> {
    let found = lines(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    found.iter().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn regular_expressions_of_a_query_are_bounded_together() {
    let selector = |matchers: usize| {
        let one = |i: usize| format!("a{i}=~\"x.y\"");
        format!("{{{}}}", (0..matchers).map(one).collect::<Vec<_>>().join(","))
    };
    // Each may take 256 KiB.
    assert!(crate::parse(&selector(256)).is_ok());
    let error = crate::parse(&selector(257)).unwrap_err();
    assert!(error.to_string().contains("larger than 67108864 bytes"), "{error}");
    let large = "{a=\"b\"} |~ \"\\\\w{40}\"".to_owned() + &" or \"\\\\w{40}\"".repeat(15);
    assert!(crate::parse(&large).is_ok(), "{large}");
    assert!(crate::parse(&(large + " or \"\\\\w{40}\"")).is_err());
}

#[test]
fn selectors_and_tests_select_lines() {
    for (text, expected) in [
        ("{}", &[1, 2, 3, 4, 5, 6][..]),
        (r#"{app_name="web"}"#, &[1, 2, 3, 6]),
        (r#"{app_name!="web"}"#, &[4, 5]),
        (r#"{app_name=~"w.b|x", level="error"}"#, &[2]),
        (r#"{app_name=~"(web|shop)"}"#, &[1, 2, 3, 4, 5, 6]),
        (r#"{app_name!~"w.*"}"#, &[4, 5]),
        (r#"{level=~".+"}"#, &[1, 2, 3]),
        (r#"{level=""}"#, &[4, 5, 6]),
        (r#"{detected_level="warn"}"#, &[3]),
        (r#"{detected_level="unknown"}"#, &[4, 5, 6]),
        (r#"{} |= "GET""#, &[1, 2]),
        (r#"{_type="syslog"} |= "GET" != "500""#, &[1]),
        (r#"{} |= "GET" or "POST""#, &[1, 2, 3]),
        (r#"{_type="syslog"} != "GET" or "POST""#, &[6]),
        (r#"{} |= "\"ann\"""#, &[4]),
        (r#"{} != "\"ann\"""#, &[1, 2, 3, 5, 6]),
        (r#"{} |~ "(?i)get /[b-z]""#, &[2]),
        (r#"{} !~ "^(GET|POST|\\{)""#, &[6]),
        (r#"{} |= ip("10.0.0.0/8")"#, &[1, 2]),
        (r#"{} != ip("10.0.0.0/8")"#, &[3, 4, 5, 6]),
        (r#"{} |> "<_> /a <_>""#, &[1, 3]),
        (r#"{} !> "<_> /a <_>""#, &[2, 4, 5, 6]),
        (r#"{} | level="error" or level="info""#, &[1, 2]),
        (r#"{} | proc_id > 6"#, &[1, 2, 3, 6]),
        (r#"{} | detected_level="error""#, &[2]),
        (r#"{_type="syslog"} | logfmt | took > 100ms"#, &[2, 3]),
        (r#"{_type="syslog"} | logfmt | took > 100ms | __error__="""#, &[2]),
        (r#"{_type="syslog"} | logfmt | size >= 10KB"#, &[2]),
        (r#"{_type="syslog"} | logfmt | ip = ip("192.168.0.0/16")"#, &[3]),
        (r#"{_type="json"} | json | n >= 5 and user_name="bob""#, &[5]),
        (r#"{_type="json"} | json | (n < 4 or user_name="bob") , msg="sold""#, &[4, 5]),
        (r#"{} | json | __error__!="""#, &[1, 2, 3, 6]),
        (r#"{} | json | drop __error__, __error_details__ | __error__="" | n = 3"#, &[4]),
        ("{} |= \"GET\" # not this\n|= \"/b\"", &[2]),
    ] {
        assert_eq!(times(text), expected, "{text}");
    }
}

#[test]
fn stages_make_labels_and_lines() {
    for (text, expected) in [
        (
            r#"{app_name="shop"} | json"#,
            r#"4 {"msg":"sold","user":{"name":"ann"},"n":3,"tags":["x"]} {msg=sold,n=3,user_name=ann}"#,
        ),
        (
            r#"{app_name="shop"} |= "h2" | json | line_format "{{.hostname}} {{.hostname_extracted}}""#,
            "5 b h2 {hostname_extracted=h2,msg=sold,n=5,user_name=bob}",
        ),
        (
            r#"{app_name="shop"} | json who="user.name", tag="tags[0]" | line_format "{{.who}}""#,
            "4 ann {tag=x,who=ann}",
        ),
        (
            r#"{app_name="web"} | pattern "<method> <path> <status> <_>""#,
            "1 GET /a 200 took=15ms size=2KB ip=10.0.0.1 {method=GET,path=/a,status=200}",
        ),
        (
            r#"{app_name="web"} | regexp "(?P<status>\\d{3})""#,
            "1 GET /a 200 took=15ms size=2KB ip=10.0.0.1 {status=200}",
        ),
        (
            r#"{app_name="web"} | logfmt t="took" | label_format u=t, app_name="{{.app_name}}!" "#,
            "1 GET /a 200 took=15ms size=2KB ip=10.0.0.1 {app_name=web!,u=15ms}",
        ),
        (r#"{} |= "red" | decolorize"#, "6 red plain {}"),
        (r#"{} |= "red" | line_format "{{.level}}-{{.proc_id}}" |= "7""#, "6 -7 {}"),
        (
            r#"{app_name="web"} | logfmt | keep took, proc_id | line_format "{{.hostname}}{{.level}}{{.proc_id}}""#,
            "1 7 {proc_id=7,took=15ms}",
        ),
        (
            r#"{app_name="web"} | logfmt | drop took, size="2KB""#,
            "1 GET /a 200 took=15ms size=2KB ip=10.0.0.1 {ip=10.0.0.1}",
        ),
        (r#"{} | line_format `{"a":"b","_entry":"inner"}` | unpack"#, "1 inner {a=b}"),
    ] {
        assert_eq!(lines(text).unwrap()[0], expected, "{text}");
    }
}

#[test]
fn labels_stand_for_fields_with_points_in_their_names() {
    let of = |second: i64, fields: &[(&str, &str)]| {
        let all = [&[("_type", "json"), ("_msg", "x")][..], fields].concat();
        record(second * SECOND_NS, &all)
    };
    let source = source(&[
        of(1, &[("service.name", "shop")]),
        of(2, &[("service_name", "shop")]),
        of(3, &[("service.name", "bank"), ("service_name", "shop")]),
        of(4, &[]),
    ]);
    for (text, expected) in [
        (r#"{service_name="shop"}"#, &[1, 2][..]),
        (r#"{service_name!="shop"}"#, &[3, 4]),
        (r#"{service_name=~"b.*"}"#, &[3]),
        (r#"{service_name=~"shop|"}"#, &[1, 2, 4]),
        (r#"{service_name=""}"#, &[4]),
        (r#"{} | service_name="shop""#, &[1, 2]),
    ] {
        let Ok(Expr::Log(query)) = parse(text) else { panic!("{text} is for lines") };
        let found = logs::run(&query, &source, &Context::default(), 10, true, false).unwrap();
        let seconds: Vec<i64> = found.iter().map(|entry| entry.time_ns / SECOND_NS).collect();
        assert_eq!(seconds, expected, "{text}");
    }
    let text = "sum by (service_name) (count_over_time({}[1h]))";
    let Ok(Expr::Metric(query)) = parse(text) else { panic!("it is for numbers") };
    let grid = Grid::instant(10 * SECOND_NS);
    let counted = metric::run(&query, &source, &Context::default(), grid).unwrap();
    let Value::Series(series) = counted else { panic!("it gives series") };
    let shown: Vec<String> = series
        .iter()
        .map(|one| {
            let values: Vec<&str> = one.labels.iter().map(|(_, value)| value.as_str()).collect();
            format!("{} {:?}", values.join(","), one.points[0])
        })
        .collect();
    assert_eq!(shown, [" Some(1.0)", "bank Some(1.0)", "shop Some(2.0)"]);
}

#[test]
fn partners_that_never_meet_take_no_memory() {
    let of = |second: i64| {
        let (path, pod) = (format!("p{second}"), format!("q{second}"));
        let of_line = [("_type", "json"), ("_msg", "x")];
        let fields = [&of_line[..], &[("path", path.as_str()), ("pod", pod.as_str())]].concat();
        record(second * SECOND_NS, &fields)
    };
    let source = source(&(1..=60).map(of).collect::<Vec<_>>());
    // At each time one pod, and the paths until then: 1,830 of 3,600 pairs meet.
    let text = "sum by (path) (count_over_time({}[1h])) * on () group_left (pod) \
                sum by (pod) (count_over_time({}[1s]))";
    let Ok(Expr::Metric(query)) = parse(text) else { panic!("{text}") };
    let grid = Grid::new(SECOND_NS, 60 * SECOND_NS, SECOND_NS).unwrap();
    let mut context = Context::default();
    for (memory_bytes_max, fits) in [(3_000_000, true), (1_000_000, false)] {
        context.limits.memory_bytes_max = memory_bytes_max;
        match metric::run(&query, &source, &context, grid) {
            Ok(Value::Series(series)) => assert_eq!((fits, series.len()), (true, 1_830)),
            other => assert!(!fits && other.is_err(), "{other:?}"),
        }
    }
}

#[test]
fn limits_and_directions() {
    let Ok(Expr::Log(query)) = parse("{}") else { panic!("it is one") };
    let source = source(&records());
    let run = |limit, forward, range| {
        let context = Context { range, ..Context::default() };
        let found = logs::run(&query, &source, &context, limit, forward, false).unwrap();
        found.iter().map(|entry| entry.time_ns / SECOND_NS).collect::<Vec<_>>()
    };
    assert_eq!(run(2, false, TimeRange::ALL), [6, 5]);
    assert_eq!(run(2, true, TimeRange::ALL), [1, 2]);
    let range = TimeRange { start_ns: 2 * SECOND_NS, end_ns: 5 * SECOND_NS };
    assert_eq!(run(9, false, range), [4, 3, 2]);
    assert_eq!(run(1, true, range), [2]);
    let mut context = Context::default();
    context.limits.memory_bytes_max = 500;
    let error = logs::run(&query, &source, &context, 100, false, false).unwrap_err();
    assert!(error.to_string().contains("query.memory_bytes_max"), "{error}");
}

/// Series at seconds `start..=end` in steps, as `{labels} value value -`.
fn numbers_at(text: &str, start_s: i64, end_s: i64, step_s: i64) -> Result<Vec<String>, String> {
    let Expr::Metric(query) = parse(text).map_err(|e| e.to_string())? else {
        return Err("a query for lines".to_owned());
    };
    let grid = Grid::new(start_s * SECOND_NS, end_s * SECOND_NS, step_s * SECOND_NS)?;
    let value = metric::run(&query, &source(&records()), &Context::default(), grid);
    let point = |point: &Option<f64>| match point {
        Some(value) => format!("{}", (value * 1e6).round() / 1e6),
        None => "-".to_owned(),
    };
    Ok(match value.map_err(|e| e.to_string())? {
        Value::Scalar(value) => vec![value.to_string()],
        Value::Series(series) => series
            .iter()
            .map(|one| {
                let labels: Vec<String> =
                    one.labels.iter().map(|(n, v)| format!("{n}={v}")).collect();
                let points: Vec<String> = one.points.iter().map(point).collect();
                format!("{{{}}} {}", labels.join(","), points.join(" "))
            })
            .collect(),
    })
}

#[test]
fn numbers_over_lines_and_series() {
    for (text, expected) in [
        ("sum(count_over_time({}[2s]))", &["{} 2 2 2"][..]),
        ("sum(count_over_time({}[10s]))", &["{} 2 4 6"]),
        ("sum(count_over_time({}[1s]))", &["{} 1 1 1"]),
        ("sum(count_over_time({}[3s] offset 1s))", &["{} 1 3 3"]),
        ("sum(rate({}[4s]))", &["{} 0.5 1 1"]),
        (
            "sum by (app_name) (count_over_time({}[10s]))",
            &["{app_name=shop} - 1 2", "{app_name=web} 2 3 4"],
        ),
        (
            "sum by (level, detected_level) (count_over_time({} |= \"GET\" [10s]))",
            &["{detected_level=error,level=error} 1 1 1", "{detected_level=info,level=info} 1 1 1"],
        ),
        (
            "count_over_time({app_name=\"shop\"}[10s])",
            &["{_type=json,app_name=shop,detected_level=unknown,hostname=b} - 1 2"],
        ),
        ("sum(bytes_over_time({app_name=\"web\"} |= \"POST\" [10s]))", &["{} - 33 33"]),
        (
            "sum without (_type, hostname, detected_level, app_name) (sum_over_time({app_name=\"shop\"} | json | unwrap n [10s]))",
            &[
                "{hostname_extracted=h2,msg=sold,user_name=bob} - - 5",
                "{msg=sold,user_name=ann} - 3 3",
            ],
        ),
        (
            "avg_over_time({app_name=\"shop\"} | json | unwrap n [10s]) by (app_name)",
            &["{app_name=shop} - 3 4"],
        ),
        ("max_over_time({app_name=\"shop\"} | json | unwrap n [10s]) by ()", &["{} - 3 5"]),
        ("min_over_time({app_name=\"shop\"} | json | unwrap n [10s]) by ()", &["{} - 3 3"]),
        ("stddev_over_time({app_name=\"shop\"} | json | unwrap n [10s]) by ()", &["{} - 0 1"]),
        (
            "quantile_over_time(0.25, {app_name=\"shop\"} | json | unwrap n [10s]) by ()",
            &["{} - 3 3.5"],
        ),
        ("first_over_time({app_name=\"shop\"} | json | unwrap n [10s]) by ()", &["{} - 3 3"]),
        ("last_over_time({app_name=\"shop\"} | json | unwrap n [10s]) by ()", &["{} - 3 5"]),
        ("sum(rate({app_name=\"shop\"} | json | unwrap n [2s]))", &["{} - 1.5 2.5"]),
        (
            "max_over_time({app_name=\"web\"} | logfmt | unwrap duration(took) | __error__=\"\" [10s]) by ()",
            &["{} 1.5 1.5 1.5"],
        ),
        (
            "sum(sum_over_time({app_name=\"web\"} | logfmt | unwrap bytes(size) [10s]))",
            &["{} 12000 12000 12000"],
        ),
        ("absent_over_time({app_name=\"shop\"}[2s])", &["{app_name=shop} 1 - -"]),
        ("absent_over_time({app_name=\"none\", level=~\".+\"}[2s])", &["{app_name=none} 1 1 1"]),
        ("topk(1, sum by (app_name) (count_over_time({}[10s])))", &["{app_name=web} 2 3 4"]),
        (
            "bottomk(1, sum by (app_name) (count_over_time({}[10s])))",
            &["{app_name=shop} - 1 2", "{app_name=web} 2 - -"],
        ),
        ("count(count_over_time({}[10s]))", &["{} 2 4 5"]),
        (
            "max by (_type) (count_over_time({}[10s]))",
            &["{_type=json} - 1 2", "{_type=syslog} 1 1 1"],
        ),
        ("avg(sum by (app_name) (count_over_time({}[10s])))", &["{} 2 2 3"]),
        (
            "sum by (proc_id) (avg_over_time({_type=\"syslog\"} | unwrap proc_id [10s]))",
            &["{} 14 21 28"],
        ),
        (
            "sum by (n) (sum_over_time({app_name=\"shop\"} | json | unwrap n [10s]))",
            &["{n=3} - 3 3", "{n=5} - - 5"],
        ),
        (
            "avg_over_time({app_name=\"shop\"} | json | unwrap n [10s]) by (n)",
            &["{n=3} - 3 3", "{n=5} - - 5"],
        ),
        ("max by (n) (max_over_time({app_name=\"shop\"} | json | unwrap n [10s]))", &["{} - 3 5"]),
        ("sum(count_over_time({}[10s])) * 2 + 1", &["{} 5 9 13"]),
        ("2 ^ 3 ^ 2", &["512"]),
        ("1 + 2 * 3 - 4 / 2", &["5"]),
        ("-5 % 3", &["-2"]),
        ("sum(count_over_time({}[10s])) > 2", &["{} - 4 6"]),
        ("sum(count_over_time({}[10s])) > bool 2", &["{} 0 1 1"]),
        ("vector(1) + vector(1)", &["{} 2 2 2"]),
        ("sum(count_over_time({app_name=\"none\"}[10s])) or vector(0)", &["{} 0 0 0"]),
        (
            "sum by (app_name) (count_over_time({}[10s])) / on () group_left sum(count_over_time({}[10s]))",
            &["{app_name=shop} - 0.25 0.333333", "{app_name=web} 1 0.75 0.666667"],
        ),
        (
            "sum by (app_name) (count_over_time({} |= \"GET\" [10s])) / sum by (app_name) (count_over_time({}[10s]))",
            &["{app_name=web} 1 0.666667 0.5"],
        ),
        (
            "sum by (app_name) (count_over_time({}[10s])) and on (app_name) sum by (app_name) (count_over_time({_type=\"json\"}[10s]))",
            &["{app_name=shop} - 1 2"],
        ),
        (
            "sum by (app_name) (count_over_time({}[10s])) unless sum by (app_name) (count_over_time({_type=\"json\"}[10s]))",
            &["{app_name=web} 2 3 4"],
        ),
        (
            "label_replace(sum by (app_name) (count_over_time({_type=\"json\"}[10s])), \"short\", \"$1\", \"app_name\", \"(..).*\")",
            &["{app_name=shop,short=sh} - 1 2"],
        ),
        ("sum(count_over_time(({} |= \"GET\")[10s]))", &["{} 2 2 2"]),
        ("sum(count_over_time(({}[10s])))", &["{} 2 4 6"]),
        ("sum(count_over_time({} [10s] |= \"GET\"))", &["{} 2 2 2"]),
    ] {
        let found = numbers_at(text, 2, 6, 2).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn numbers_that_cannot_be() {
    for (text, expected) in [
        (
            "sum(count_over_time({_type=\"syslog\"} | json [10s]))",
            "pipeline error: 'JSONParserErr'",
        ),
        ("sum(sum_over_time({} | logfmt | unwrap took [10s]))", "'SampleExtractionErr'"),
        (
            "count_over_time({}[10s]) + on (type) count_over_time({}[10s])",
            "found duplicate series on the right hand-side",
        ),
        (
            "count_over_time({}[10s]) + on (app_name) sum by (app_name) (count_over_time({}[10s]))",
            "many-to-one matching must be explicit",
        ),
    ] {
        let error = numbers_at(text, 2, 6, 2).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let Ok(Expr::Metric(query)) = parse("count_over_time({} | logfmt [1s])") else { panic!() };
    let mut context = Context::default();
    context.limits.memory_bytes_max = 100;
    let grid = Grid::instant(6 * SECOND_NS);
    let error = metric::run(&query, &source(&records()), &context, grid).unwrap_err();
    assert!(matches!(error, EvalError::Run(query::RunError::MemoryLimit(100))), "{error}");
    // The sides of an operation do not stay counted: this takes three series at a time.
    let chain = vec!["vector(1)"; 60].join(" + ");
    let Ok(Expr::Metric(long)) = parse(&chain) else { panic!("{chain}") };
    let steps = Grid::new(0, 999 * SECOND_NS, SECOND_NS).unwrap();
    context.limits.memory_bytes_max = 100_000;
    let sum = metric::run(&long, &source(&records()), &context, steps).unwrap();
    let Value::Series(sum) = sum else { panic!("{chain}") };
    assert_eq!(sum[0].points, vec![Some(60.0); 1_000]);
    context.cancelled.store(true, std::sync::atomic::Ordering::Relaxed);
    let error = metric::run(&query, &source(&records()), &context, grid).unwrap_err();
    assert!(matches!(error, EvalError::Run(query::RunError::Cancelled)), "{error}");
}

#[test]
fn wrong_queries_say_where_and_what() {
    for (text, expected) in [
        ("", "line 1, col 1: syntax error: the query is empty"),
        (
            "{app",
            "col 5: syntax error: unexpected the end, expecting \"=\", \"!=\", \"=~\" or \"!~\"",
        ),
        ("{app=web}", "col 6: syntax error: unexpected \"web\", expecting a quoted string"),
        ("{app=~\"(\"}", "col 7: error parsing regexp:"),
        ("{}\n| nosuch", "line 2, col 3: syntax error: there is no stage \"nosuch\""),
        ("{} | json a=\"[\"", "is not a path in JSON"),
        ("{} | regexp \"a\"", "at least one named capture"),
        ("{} | line_format \"{{.a\"", "invalid template: an action is not closed"),
        ("{} | unwrap a", "unwrap is for the range of an aggregation only"),
        ("{} | label_format a=b, a=c", "multiple label name 'a' not allowed"),
        ("{} |= ip(\"x\")", "ip: invalid pattern: \"x\" is not an address"),
        ("rate({})", "expecting a range, such as [5m]"),
        ("rate({}[5])", "expecting a duration, such as 5m"),
        ("rate({}[0s])", "the range must be above 0"),
        ("sum_over_time({}[5m])", "invalid aggregation sum_over_time without unwrap"),
        ("count_over_time({} | unwrap a [5m])", "invalid aggregation count_over_time with unwrap"),
        ("rate({}[5m]) by (a)", "grouping not allowed for rate aggregation"),
        ("topk(0, rate({}[5m]))", "invalid parameter for topk"),
        ("sum({})", "a log selector where a number is needed"),
        ("rate_counter({}[5m])", "invalid aggregation rate_counter without unwrap"),
        ("rate_counter({} | unwrap a [5m]) by (b)", "grouping not allowed for rate_counter"),
        ("approx_topk(2, rate({}[5m])) by (a)", "grouping not allowed for approx_topk"),
        ("quantile_over_time(-0.1, {} | unwrap a [5m])", "unexpected \"-\", expecting a number"),
        ("{} | a > 0x10", "unable to parse literal as a float"),
        ("{} | label_format __error__=\"x\"", "__error__ cannot be formatted"),
        (
            "rate({}[5m]) and 1",
            "unexpected literal for right leg of logical/set binary operation (and)",
        ),
        (
            "vector(1) or (1 + 1)",
            "unexpected literal for right leg of logical/set binary operation (or)",
        ),
        (
            "(1 + 2 * 3) unless vector(1)",
            "unexpected literal for left leg of logical/set binary operation (unless)",
        ),
        (
            "(1 > 2) and (2 > 1)",
            "unexpected literal for left leg of logical/set binary operation (and)",
        ),
        ("sum(1 + 1)", "sum needs series, not a number"),
        ("nosuch(1)", "there is no function \"nosuch\""),
        ("{} \"x\"", "unexpected a quoted string, expecting the end"),
        ("{a=\"\\q\"}", "unknown escape"),
        ("{a=\"x}", "literal not terminated"),
        ("1 + $", "unexpected character '$'"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.to_string().contains(expected), "{text}: {error}");
        assert!(text.is_char_boundary(error.position));
    }
    for deep in [
        "(".repeat(100_000),
        format!("{{}} | {}", "(".repeat(100_000)),
        "1+".repeat(10_000) + "1",
        "1^".repeat(10_000) + "1",
    ] {
        let _ = parse(&deep);
    }
    let nested = |depth| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    assert!(parse(&nested(NESTING_MAX - 2)).is_ok());
    assert!(parse(&nested(NESTING_MAX + 1)).is_err());
}

#[test]
fn queries_written_are_read_as_the_same() {
    for text in [
        r#"{a="b",c=~"d.*"} |= "x" or "y" != "z" |~ `\d+` | json a="b[0].c", d | logfmt --strict --keep-empty x"#,
        r#"{} | (a>1 or b<=5ms) and c=ip("10.0.0.0/8") | pattern "<a> <_>" | regexp "(?P<x>.)" | unpack"#,
        r#"{} | line_format "{{.a}}\n" | label_format a=b, c="{{.d}}" | decolorize | drop a, b="c" | keep d"#,
        r#"sum by (a, b) (rate({} | logfmt | unwrap duration(c) | __error__="" [5m] offset -1h)) / 2 > bool 1"#,
        r#"topk(3, quantile_over_time(0.99, {} | unwrap bytes(a) [1h30m]) by (b)) + on (b) group_left (c) vector(1)"#,
        r#"label_replace(absent_over_time({a="b"}[1s]), "x", "$1", "y", "(.*)") unless ignoring (q) vector(-1.5)"#,
    ] {
        let read = parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let written = read.to_string();
        assert_eq!(parse(&written).as_ref(), Ok(&read), "{written}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Counts, sums and window boundaries, compared with an evaluation line by line.
    #[test]
    fn windows_are_as_defined(
        lines in prop::collection::vec((0i64..40, 0u32..3, -20i32..20), 1..60),
        start in -5i64..45,
        length in 0i64..30,
        step in 1i64..9,
        range in 1i64..20,
        offset in -3i64..4,
        op in prop::sample::select(vec!["count_over_time", "rate", "sum_over_time", "min_over_time",
            "max_over_time", "avg_over_time", "stdvar_over_time", "quantile_over_time", "absent_over_time"]),
    ) {
        let records: Vec<Record> = lines.iter().map(|(s, app, n)| {
            record(s * SECOND_NS, &[("_type", "syslog"), ("app_name", &app.to_string()), ("_msg", &format!("n={n}"))])
        }).collect();
        let unwraps = !matches!(op, "count_over_time" | "rate" | "absent_over_time");
        let parameter = if op == "quantile_over_time" { "0.5, " } else { "" };
        let unwrap = if unwraps { "| logfmt | unwrap n " } else { "" };
        let by = if unwraps && op != "sum_over_time" { "by (app_name)" } else { "" };
        let text = format!("{op}({parameter}{{}} {unwrap}[{range}s] offset {offset}s) {by}");
        let text = if by.is_empty() && op != "absent_over_time" { format!("sum by (app_name) ({text})") } else { text };
        let Ok(Expr::Metric(query)) = parse(&text) else { panic!("{text}") };
        let grid = Grid::new(start * SECOND_NS, (start + length) * SECOND_NS, step * SECOND_NS).unwrap();
        let found = metric::run(&query, &source(&records), &Context::default(), grid).unwrap();
        let Value::Series(found) = found else { panic!("series") };

        let window = |end: i64, app: Option<u32>| -> Vec<f64> {
            let end = end - offset;
            lines.iter().filter(|(s, a, _)| end - range < *s && *s <= end && app.is_none_or(|app| app == *a))
                .map(|(_, _, n)| f64::from(*n)).collect()
        };
        let op = RangeOp::named(op).unwrap();
        let apps: Vec<Option<u32>> = if op == RangeOp::Absent { vec![None] } else { (0..3).map(Some).collect() };
        for app in apps {
            let labels: Labels = app.iter().map(|app| ("app_name".to_owned(), app.to_string())).collect();
            let series = found.iter().find(|one| one.labels == labels);
            for place in 0..grid.steps() {
                let mut values = window(start + place as i64 * step, app);
                let n = values.len() as f64;
                let mean = values.iter().sum::<f64>() / n;
                let expected = match op {
                    RangeOp::Absent => values.is_empty().then_some(1.0),
                    _ if values.is_empty() => None,
                    RangeOp::Count => Some(n),
                    RangeOp::Rate => Some(n / range as f64),
                    RangeOp::Sum => Some(values.iter().sum()),
                    RangeOp::Min => values.iter().copied().reduce(f64::min),
                    RangeOp::Max => values.iter().copied().reduce(f64::max),
                    RangeOp::Avg => Some(mean),
                    RangeOp::Stdvar => Some(values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n),
                    _ => {
                        values.sort_by(f64::total_cmp);
                        let (low, high) = ((values.len() - 1) / 2, values.len() / 2);
                        Some((values[low] + values[high]) / 2.0)
                    }
                };
                let got = series.and_then(|one| one.points[place]);
                let same = match (got, expected) {
                    (Some(a), Some(b)) => (a - b).abs() < 1e-6,
                    (a, b) => a == b,
                };
                prop_assert!(same, "{}: at {} got {:?}, not {:?}", text, place, got, expected);
            }
        }
    }

    /// The pushed filter selects at least the lines that the stages pass, whatever the stages are.
    #[test]
    fn pushed_filters_lose_no_line(
        stages in prop::collection::vec(prop::sample::select(vec![
            r#"|= "a""#, r#"!= "a""#, r#"|= "a" or "x""#, r#"!= "b" or "\"k\"""#, r#"|~ "^a""#, r#"!~ "b$""#,
            r#"| level="error""#, r#"| level!="error" or app_name="p""#, r#"| detected_level="warn""#,
            r#"| json"#, r#"| k="a""#, r#"| line_format "{{.level}}b""#, r#"| drop level, no="x""#, r#"| app_name=~"p|q""#,
            r#"| label_format level=app_name"#, r#"| decolorize"#, r#"|= "k""#, r#"|> "<_>b<_>""#,
        ]), 0..5),
        selector in prop::sample::select(vec![
            "{}", r#"{_type="syslog"}"#, r#"{_type="json"}"#, r#"{level=~"error|"}"#, r#"{level!="error"}"#,
            r#"{app_name=~"p|x", detected_level!="error"}"#, r#"{detected_level=~"warn|unknown"}"#, r#"{k="a"}"#,
        ]),
        picks in prop::collection::vec((0usize..3, 0usize..4, 0usize..3, 0usize..5), 1..20),
    ) {
        let records: Vec<Record> = picks.iter().zip(0..).map(|(&(kind, level, app, text), s)| {
            let level = ["error", "warning", "odd", ""][level];
            let app = ["p", "q", ""][app];
            let text = ["a", "ab", "xb", "\"k\"", ""][text];
            let raw = format!("{{\"k\":{:?},\"msg\":\"m\"}}", text);
            match kind {
                0 => record(s, &[("_type", "syslog"), ("_level", level), ("level", level), ("app_name", app), ("_msg", text)]),
                1 => record(s, &[("_type", "json"), ("_level", level), ("level", level), ("app_name", app), ("k", text), ("_msg", "m"), ("_raw", &raw)]),
                _ => record(s, &[("_type", "mine"), ("_level", level), ("level", level), ("app_name", app), ("_msg", text)]),
            }
        }).collect();
        let source = source(&records);
        let pushed = format!("{selector} {}", stages.join(" "));
        let Ok(Expr::Log(query)) = parse(&pushed) else { panic!("{pushed}") };
        let keys = |found: Vec<logs::Entry>| found.iter().map(|e| e.time_ns).collect::<Vec<_>>();
        let got = keys(logs::run(&query, &source, &Context::default(), 100, true, false).unwrap());
        // The same with stages alone: every line is evaluated, with the selector as tests of
        // labels.
        let mut naive = query.clone();
        naive.matchers.clear();
        let tests = query.matchers.iter().map(|m| crate::ast::Stage::Label(crate::stage::filter::LabelTest::Text(m.clone())));
        naive.stages = tests.chain(query.stages.iter().cloned()).collect();
        let mut reader = crate::Reader::default();
        let mut expected = Vec::new();
        for batch in &source.0 {
            for place in 0..batch.len() as u32 {
                expected.extend(logs::look(&naive, &mut reader, batch, place, false).map(|e| e.time_ns));
            }
        }
        prop_assert_eq!(got, expected, "{}", pushed);
    }

    #[test]
    fn no_text_panics(text in "[{}()|=!~<>\"`a-z0-9 \\[\\],.$%^*/+-]{0,60}") {
        if let Ok(read) = parse(&text) {
            prop_assert_eq!(parse(&read.to_string()), Ok(read));
        }
    }
}
