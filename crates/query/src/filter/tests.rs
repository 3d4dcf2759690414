//! The examples of the documentation of LogsQL, and the edges of each filter.

use crate::testing::{record, rows_of};

/// Checks which messages a filter selects.
fn check(filter: &str, selected: &[&str], others: &[&str]) {
    let messages: Vec<&str> = selected.iter().chain(others).copied().collect();
    let records: Vec<_> = messages.iter().map(|m| record(1, &[("_msg", m)])).collect();
    let expected: Vec<String> = selected.iter().map(|m| format!("_msg={m}")).collect();
    let shown = |rows: Vec<String>| rows.into_iter().filter(|r| !r.is_empty()).collect::<Vec<_>>();
    assert_eq!(shown(rows_of(&format!("{filter} | fields _msg"), &records)), expected, "{filter}");
}

/// Checks whether a filter selects a record.
fn check_fields(filter: &str, fields: &[(&str, &str)], expected: bool) {
    let found = rows_of(filter, &[record(5, fields)]).len() == 1;
    assert_eq!(found, expected, "{filter} on {fields:?}");
}

#[test]
fn words_and_phrases() {
    let errors = ["error", "an error happened", "error: cannot open file"];
    check("error", &errors, &["ERROR", "multiple errors occurred", "terror", "error_code"]);
    check(
        "\"ssh: login fail\"",
        &["ERROR: ssh: login fail for user \"foobar\"", "ssh: login fail!"],
        &["ssh login fail", "login fail: ssh error", "ssh: login failed", "SSH: login fail"],
    );
    check(r#"'"foo":"bar"'"#, &[r#"{"foo":"bar"}"#], &["foo bar"]);
    check("`a\\b`", &["x a\\b"], &["a b"]);
    check("10.0.0.1", &["from 10.0.0.1 port"], &["10.0.0.12", "110.0.0.1"]);
    check("key=value", &["a key=value"], &["key = value"]);
    check("тест", &["foo: (bar,\"тест\")!"], &["тесты"]);
}

#[test]
fn prefixes_and_substrings() {
    check(
        "err*",
        &["err: foobar", "cannot open file: error occurred"],
        &["Error: foobar", "fooerror"],
    );
    check(
        "\"unexpected fail\"*",
        &["unexpected fail: IO error", "error:unexpected failure"],
        &["unexpectedly failed", "failed to open file: unexpected EOF"],
    );
    check("*ampl*", &["Example message", "This is a sample"], &["EXAMPLE message"]);
    check("*\"a b\"*", &["xa by"], &["a  b"]);
}

#[test]
fn exact_values() {
    check(
        "=\"fatal error: cannot find /foo/bar\"",
        &["fatal error: cannot find /foo/bar"],
        &[
            "fatal error: cannot find /foo/bar/baz",
            "some-text fatal error: cannot find /foo/bar",
            "FATAL ERROR",
        ],
    );
    check(
        "=\"Processing request\"*",
        &["Processing request foobar", "Processing requests from ..."],
        &["processing request foobar", "start: Processing request"],
    );
    check("in(a, \"b c\")", &["a", "b c"], &["b", "a b"]);
    check("!=a", &["b"], &["a"]);
    check("=a*", &["a", "ab"], &["ba"]);
}

#[test]
fn regular_expressions_and_cases() {
    check(
        "~\"err|warn\"",
        &["error: cannot read data", "2 warnings have been raised"],
        &["ERROR: cannot open file", "it is war"],
    );
    check("~\"a\\\\.b\"", &["a.b"], &["axb"]);
    check("~'(?i)(err|warn)'", &["ERROR"], &["e r r"]);
    check(
        "i(error)",
        &[
            "unknown error happened",
            "ERROR: cannot read file",
            "Error: unknown arg",
            "An ErRoR occurred",
        ],
        &["FooError", "too many Errors"],
    );
    check("i(err*)", &["Errors"], &["FooError"]);
    check("i(\"ÄRGER x\")", &["ärger X"], &["ärgerx"]);
}

#[test]
fn sequences_lists_and_lengths() {
    check(
        "seq(\"error\", \"open file\")",
        &["some error: cannot open file /foo/bar"],
        &["cannot open file: error"],
    );
    check("contains_all(foo, \"bar baz\")", &["bar baz foo"], &["foo bar", "bar baz"]);
    check("contains_any(foo, \"bar baz\")", &["foo bar", "bar baz"], &["bar"]);
    check("len_range(5, 10)", &["foobar", "foo bar", "ärgerärger"], &["foo", "foo bar baz abc"]);
    check("len_range(5, inf)", &["foobar"], &["foo"]);
    check("in(*)", &["a", "b"], &[]);
}

#[test]
fn logic() {
    check("NOT info OR debug", &["x", "info debug"], &["info"]);
    check("NOT (info OR debug)", &["x"], &["info debug", "info"]);
    check("a b or c", &["a b", "c"], &["a", "b"]);
    check("a AND (b or c)", &["a b", "a c"], &["a", "b c"]);
    check("a -b", &["a"], &["a b", "b"]);
    check("!!a", &["a"], &["b"]);
    check("a !\"b c\"", &["a b"], &["a b c"]);
}

#[test]
fn fields() {
    let check = check_fields;
    let fields = [
        ("log.level", "error"),
        ("ip:remote", "1.2.3.45"),
        ("size", "10KB"),
        ("took", "1.5s"),
        ("e", ""),
    ];
    check("log.level:error", &fields, true);
    check("log.level:=err", &fields, false);
    check("\"ip:remote\":\"1.2.3.45\"", &fields, true);
    check("log.level:(info or error)", &fields, true);
    check("log.level:(info or !=error)", &fields, false);
    check("log.level:!error", &fields, false);
    check("log.level:in(error, fatal)", &fields, true);
    check("log.level:\"\"", &fields, false);
    check("other:\"\"", &fields, true);
    check("other:*", &fields, false);
    check("e:\"\" log.level:*", &fields, true);
    check("size:>=10000 size:<10KiB", &fields, true);
    check("took:>1s took:<=1500ms", &fields, true);
    check("log.level:>10", &fields, false);
    check("log.level:<\"f\"", &fields, true);
    check("other:<\"f\"", &fields, false);
    check("size:range(1, 10KB)", &fields, false);
    check("size:range[1, 10KB]", &fields, true);
    check("size:range(4.2, Inf)", &fields, true);
    check("size:>-5", &fields, true);
    check("ip:1.2.3.4:80", &[("ip", "1.2.3.4:80")], true);
    check("ip:>1.2.3.0 ip:<1.2.4.0", &[("ip", "1.2.3.4")], true);
    check("_id:=1-0", &fields, true);
    check("_raw:foo _received:*", &[("_msg", "a foo")], true);
}

#[test]
fn streams() {
    let check = check_fields;
    let fields = [("hostname", "web1"), ("type", "syslog")];
    check("{hostname=\"web1\"}", &fields, true);
    check("_stream:{hostname=\"web1\",type!=\"syslog\"}", &fields, false);
    check("{hostname=~\"web\"}", &fields, false);
    check("{hostname=~\"web.\", type=~\"a|syslog\"}", &fields, true);
    check("{hostname!~\"web.\"}", &fields, false);
    check("{hostname in (\"a\", web1)} foo", &fields, false);
    check("{hostname not_in (\"a\")}", &fields, true);
    check("{hostname=a or type=syslog}", &fields, true);
    check("{}", &fields, true);
    check("_stream:=`{hostname=\"web1\",type=\"syslog\"}`", &fields, true);
}

mod times {
    use crate::Query;
    use crate::source::TimeRange;
    use crate::time::{SECOND_NS, format_time};

    /// 2026-01-31T12:00:00Z.
    const NOW: i64 = 1_769_860_800 * SECOND_NS;

    fn check(filter: &str, start: &str, end: &str) {
        let query = Query::parse(filter, NOW).unwrap_or_else(|e| panic!("{e}"));
        let TimeRange { start_ns, end_ns } = query.filter().time_range();
        let shown = |ns: i64| match ns {
            i64::MIN | i64::MAX => "-".to_owned(),
            ns => format_time(ns),
        };
        assert_eq!((shown(start_ns).as_str(), shown(end_ns).as_str()), (start, end), "{filter}");
    }

    #[test]
    fn every_form_of_time() {
        check("_time:5m", "2026-01-31T11:55:00.000000001Z", "2026-01-31T12:00:00.000000001Z");
        check(
            "_time:1h offset 5m",
            "2026-01-31T10:55:00.000000001Z",
            "2026-01-31T11:55:00.000000001Z",
        );
        check("_time:offset 1h", "-", "2026-01-31T11:00:00.000000001Z");
        check("_time:2026-01-31", "2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z");
        check("_time:2026-01-31T12Z", "2026-01-31T12:00:00Z", "2026-01-31T13:00:00Z");
        check("_time:2023-04-25+05:30", "2023-04-24T18:30:00Z", "2023-04-25T18:30:00Z");
        check("_time:[2026-01-01Z, 2026-01-30Z]", "2026-01-01T00:00:00Z", "2026-01-31T00:00:00Z");
        check("_time:[2026-01-01,2026-01-30)", "2026-01-01T00:00:00Z", "2026-01-30T00:00:00Z");
        check(
            "_time:(2026-01-01, 2026-01-30)",
            "2026-01-01T00:00:00.000000001Z",
            "2026-01-30T00:00:00Z",
        );
        check(
            "_time:[2023-02-01Z, 2023-03-01Z) offset 1w",
            "2023-01-25T00:00:00Z",
            "2023-02-22T00:00:00Z",
        );
        check("_time:>2026-01-01", "2026-01-01T00:00:00.000000001Z", "-");
        check("_time:>=2026-01-01", "2026-01-01T00:00:00Z", "-");
        check("_time:<2026-01-01", "-", "2026-01-01T00:00:00Z");
        check("_time:<=2026-01-01", "-", "2026-01-02T00:00:00Z");
        check("_time:>1h", "-", "2026-01-31T11:00:00Z");
        check("_time:[now-2h, now]", "2026-01-31T10:00:00Z", "2026-01-31T12:00:00.000000001Z");
        check("_time:*", "-", "-");
    }

    #[test]
    fn times_in_logic() {
        check(
            "a _time:[2026-01-01,2026-02-01) (_time:>=2026-01-15 b)",
            "2026-01-15T00:00:00Z",
            "2026-02-01T00:00:00Z",
        );
        check(
            "_time:2026-01-01 or _time:2026-01-03",
            "2026-01-01T00:00:00Z",
            "2026-01-04T00:00:00Z",
        );
        check("_time:2026-01-01 or a", "-", "-");
        check("!_time:2026-01-01", "-", "-");
    }

    #[test]
    fn a_time_inside_or_selects_rows() {
        let records: Vec<_> = [NOW - 1, NOW, NOW + SECOND_NS]
            .iter()
            .map(|&t| crate::testing::record(t, &[("_msg", &format!("m{t}"))]))
            .collect();
        let found = crate::testing::rows_of(
            "_time:2026-01-31T12:00:00Z or _time:<2026-01-31T12Z",
            &records,
        );
        assert_eq!(found, [format!("_msg=m{}", NOW - 1), format!("_msg=m{NOW}")]);
        assert_eq!(crate::testing::rows_of("!_time:2026-01-31T12:00:00Z", &records).len(), 2);
    }
}
