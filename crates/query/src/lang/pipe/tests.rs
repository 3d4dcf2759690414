//! Tests the examples of the documentation, and one row of each kind for every pipe.

use crate::testing::{Record, record, rows_of};

fn records() -> Vec<Record> {
    vec![
        record(10, &[("_msg", "a error"), ("level", "error"), ("size", "10"), ("host", "x")]),
        record(20, &[("_msg", "b ok"), ("level", "info"), ("size", "9"), ("host", "y")]),
        record(30, &[("_msg", "c error"), ("level", "error"), ("size", "1KB"), ("host", "y")]),
        record(40, &[("_msg", "d ok"), ("level", "info"), ("host", "y")]),
    ]
}

pub(crate) fn check(query: &str, expected: &[&str]) {
    assert_eq!(rows_of(query, &records()), expected, "{query}");
}

#[test]
fn columns() {
    check("a | fields level, size", &["level=error size=10"]);
    check("a | fields size, _msg, le*", &["size=10 _msg=a error level=error"]);
    check("a | delete level, h*", &["_msg=a error size=10"]);
    check("a | rename level as severity, host h", &["_msg=a error severity=error size=10 h=x"]);
    check("a | fields _msg, size | rename _msg as size", &["size=a error"]);
    check("a | fields size | copy size as bytes", &["size=10 bytes=10"]);
    check(
        "a | fields size, host | rename host as l | copy s* as l*, s* as m*",
        &["size=10 l=x lize=10 mize=10"],
    );
    check(
        "a | fields _line_id, _line | rename _line as line",
        &["_line_id=00000001-1-0 line=a error"],
    );
    check("a | fields level | filter size:10", &[]);
}

#[test]
fn limit_and_offset() {
    check("* | fields size | sort by (size) | limit 2", &["", "size=9"]);
    check("* | fields _msg | offset 3", &["_msg=d ok"]);
    check("* | limit 0 | stats count() n", &["n=0"]);
}

#[test]
fn sort() {
    check("* | fields _msg | sort by (_msg desc) limit 1", &["_msg=d ok"]);
    check(
        "* | sort by (level, size desc) | fields level, size",
        &["level=error size=1KB", "level=error size=10", "level=info size=9", "level=info"],
    );
    check(
        "* | sort by (_time desc) offset 1 limit 2 | fields _msg",
        &["_msg=c error", "_msg=b ok"],
    );
}

#[test]
fn uniq_and_top() {
    check("* | uniq by (level) with hits", &["level=error hits=2", "level=info hits=2"]);
    check("* | uniq by (host)", &["host=y", "host=x"]);
    check("* | field_values host", &["host=y hits=3", "host=x hits=1"]);
    check("* | top 1 by (host, level)", &["host=y level=info hits=2"]);
    check("* | top 1 (host) hits as n", &["host=y n=3"]);
}

#[test]
fn stats() {
    check("* | stats count() n", &["n=4"]);
    check("* | count()", &["count(*)=4"]);
    check(
        "nothing | stats count(), sum(size) s, avg(size) a, min(size) m, median(size) q",
        &["count(*)=0 s=NaN a=NaN"],
    );
    check(
        "* | stats by (level) count() n, sum(size) s",
        &["level=error n=2 s=1010", "level=info n=2 s=9"],
    );
    check(
        "* | stats count() if (error) errors, count(size) sized, count_empty(size) unsized",
        &["errors=2 sized=3 unsized=1"],
    );
    check(
        "* | stats min(size) a, max(size) b, avg(size) c, quantile(0.5, size) d, median(size) e",
        &["a=9 b=1KB c=339.6666666666667 d=10 e=10"],
    );
    check("* | stats count_uniq(host, level) n, count_uniq(size) limit 2 as few", &["n=3 few=2"]);
    check(
        "* | stats by (size:10) count() n",
        &["n=1", "size=0 n=1", "size=10 n=1", "size=1000 n=1"],
    );
    check("* | stats by (_time:20ns) count() n | sort by (n desc) | limit 1", &["n=2"]);
    check("* | stats by (size:1us) count() n", &["n=1", "size=0 n=2", "size=1000 n=1"]);
    check("* | by (host) count() n", &["host=x n=1", "host=y n=3"]);
}

#[test]
fn names_and_facets() {
    check(
        "a | field_names",
        &[
            "name=_msg hits=1",
            "name=_stream hits=1",
            "name=_time hits=1",
            "name=host hits=1",
            "name=level hits=1",
            "name=size hits=1",
        ],
    );
    check("a | fields level | field_names", &["name=level hits=1"]);
    check(
        "* | facets 1 max_values_per_field 2",
        &["field_name=host field_value=y hits=3", "field_name=level field_value=error hits=2"],
    );
    check(
        "* | fields level | facets",
        &["field_name=level field_value=error hits=2", "field_name=level field_value=info hits=2"],
    );
}

#[test]
fn partitions_and_ranks() {
    check(
        "* | first 1 by (_time) partition by (level) | fields level, _msg",
        &["level=error _msg=a error", "level=info _msg=b ok"],
    );
    check("* | last 2 by (size) rank as r | fields size, r", &["size=1KB r=1", "size=10 r=2"]);
    check(
        "* | sort by (size) partition by (host) offset 1 limit 1 rank | fields host, size, rank",
        &["host=y size=9 rank=2"],
    );
    check("* | top 2 by (host) rank", &["host=y hits=3 rank=1", "host=x hits=1 rank=2"]);
    check("* | first 2 by (host desc, size) rank as size | fields size", &["size=1", "size=2"]);
}

#[test]
fn filters_without_their_name() {
    check("* | stats by (host) count() n | n:>1", &["host=y n=3"]);
    check("* | fields level, _msg | \"a error\" | fields level", &["level=error"]);
    check("* | fields size | =\"x\"", &[]);
}

#[test]
fn queries_inside_filters() {
    check(
        "host:in(size:9 | fields host) | fields _msg",
        &["_msg=b ok", "_msg=c error", "_msg=d ok"],
    );
    check("!host:in(size:9 | uniq by (host)) | fields _msg", &["_msg=a error"]);
    check(
        "contains_any(level:error | fields level) | fields _msg",
        &["_msg=a error", "_msg=c error"],
    );
    check("contains_all(* | uniq by (level)) | fields _msg", &[]);
    check("contains_all(nothing | fields level) | count() n", &["n=4"]);
    check("contains_any(nothing | fields level) | count() n", &["n=0"]);
    check("size:in(* | stats min(size) m) | fields size", &["size=9"]);
    check(
        "* | filter host:in(a | fields host) | stats count() if (level:in(a | fields level)) n",
        &["n=1"],
    );
    check(
        "host:in(level:in(a | fields level) size:10 | fields host) | fields _msg",
        &["_msg=a error"],
    );
    check(
        "* | format if (host:in(a | fields host)) 'x' as host | uniq by (host)",
        &["host=y", "host=x"],
    );
}

mod limits {
    use std::time::Duration;

    use crate::Query;
    use crate::base::{Limits, RunError};
    use crate::lang::context::Context;
    use crate::testing::{Memory, Record, collect, record};

    fn records(count: i64) -> Vec<Record> {
        (0..count)
            .map(|i| record(i, &[("_msg", "some text of a line"), ("n", &i.to_string())]))
            .collect()
    }

    fn run(text: &str, limits: Limits, lines: i64) -> Result<usize, RunError> {
        let query = Query::parse(text, 0).unwrap_or_else(|e| panic!("{e}"));
        let context = Context { limits, ..Context::default() };
        let (rows, outcome) = collect(&query, &Memory::of(&records(lines)), &context);
        outcome.map(|_| rows.len())
    }

    #[test]
    fn a_text_that_is_put_into_itself_ends_the_query() {
        let double = " | format '<_msg><_msg>'";
        let limits = Limits { memory_bytes_max: u64::MAX, ..Limits::default() };
        let text = |times: usize| format!("* | limit 1{} | fields n", double.repeat(times));
        assert_eq!(run(&text(5), limits, 1).unwrap(), 1);
        let error = run(&text(40), limits, 1).unwrap_err();
        assert!(matches!(error, RunError::ValueLimit(_)), "{error}");
        let wide = format!("* | limit 1{} | format '{}'", double.repeat(18), "<_msg>".repeat(999));
        assert!(matches!(run(&wide, limits, 1), Err(RunError::ValueLimit(_))));
        let replaced = format!(
            "* | limit 1{} | replace_regexp ('', '{}')",
            double.repeat(18),
            "x".repeat(99_999)
        );
        assert!(matches!(run(&replaced, limits, 1), Err(RunError::ValueLimit(_))));
    }

    #[test]
    fn what_pipes_hold_is_counted() {
        let small = Limits { memory_bytes_max: 5_000, ..Limits::default() };
        for pipes in [
            "* | math n + 1 as a, n + 2 as b, n + 3 as c, n + 4 as d, n + 5 as e, n + 6 as f",
            "* | format '<_msg><_msg><_msg><_msg><_msg><_msg><_msg><_msg><_msg><_msg>'",
            "* | split '' as a | unroll a | unroll a | stats count()",
            "n:in(* | fields n)",
            "* | join by (n) (*)",
            "* | sort by (n) partition by (n)",
            "n:0 | stream_context after 1000",
        ] {
            let outcome = run(pipes, small, 1_000);
            assert!(matches!(outcome, Err(RunError::MemoryLimit(_))), "{pipes}: {outcome:?}");
        }
        // Rows that were handed on are no longer held.
        for pipes in ["* | len(_msg) as x", "* | union (*)", "* | len(n) as n | union (*)"] {
            assert!(run(pipes, small, 1_000).is_ok(), "{pipes}");
        }
    }

    #[test]
    fn too_many_values_are_not_searched_for() {
        let lines = |lines| run("contains_any(* | fields n) | count()", Limits::default(), lines);
        assert!(lines(200).is_ok());
        assert!(matches!(lines(10_001), Err(RunError::ValuesLimit(10_000))));
    }

    #[test]
    fn queries_inside_end_with_the_query() {
        let none = Limits { run_time: Duration::ZERO, ..Limits::default() };
        for text in ["n:in(* | fields n)", "* | join by (n) (*)", "* | union (*)"] {
            assert!(matches!(run(text, none, 10), Err(RunError::TimeLimit(_))), "{text}");
        }
        let inside =
            |levels: usize| format!("*{}{}", " | union (*".repeat(levels), ")".repeat(levels));
        assert_eq!(run(&inside(9), Limits::default(), 2).unwrap(), 20);
        assert!(Query::parse(&inside(10), 0).is_ok());
        assert!(Query::parse(&inside(11), 0).is_err());
        let filters =
            |levels: usize| format!("{}*{}", "n:in(".repeat(levels), " | fields n)".repeat(levels));
        assert_eq!(run(&filters(9), Limits::default(), 2).unwrap(), 2);
        assert!(Query::parse(&filters(11), 0).is_err());
        assert!(Query::parse("n:in(a | fields n)", 0).unwrap().tail(&[]).is_err());
    }
}
