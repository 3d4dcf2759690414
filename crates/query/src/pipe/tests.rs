//! The examples of the documentation, and one row of each kind for every pipe.

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
    check("a | fields _id, _raw | rename _raw as line", &["_id=1-0 line=a error"]);
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
        &["count(*)=0 s=NaN a=NaN q=NaN"],
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
