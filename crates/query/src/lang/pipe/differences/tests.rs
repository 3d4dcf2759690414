//! Every difference is found and named once, and nothing else is.

use crate::Query;
use crate::testing::{Record, check_pipe, record, rows_of};

/// A minute of a shop with three hosts; `incident` adds what happens in the second one.
fn shop(minute: i64, incident: bool) -> Vec<Record> {
    let at = |n: i64| (minute * 60_000 + n) * 1_000_000;
    let mut records = Vec::new();
    for n in 0..300 {
        let host = ["web1", "web2", "web3"][n as usize % 3];
        // web3 stops in the incident.
        if incident && host == "web3" {
            continue;
        }
        let took = (40 + n % 30) * if incident && n % 20 == 1 { 9 } else { 1 };
        let (took, proc_id) = (took.to_string(), (minute * 1_000 + n).to_string());
        records.push(record(
            at(n * 200),
            &[
                ("_msg", "request done"),
                ("app", "shop"),
                ("host", host),
                ("level", "info"),
                ("took_ms", &took),
                ("proc_id", &proc_id),
            ],
        ));
    }
    for n in 0..if incident { 80 } else { 0 } {
        let message = format!("could not get connection after {n} ms");
        let host = ["web1", "web2"][n as usize % 2];
        records.push(record(
            at(10_000 + n),
            &[
                ("_msg", &message),
                ("app", "shop"),
                ("host", host),
                ("level", "error"),
                ("pool", "db1:5432/shop"),
            ],
        ));
    }
    records
}

fn both() -> Vec<Record> {
    [shop(0, false), shop(1, true)].concat()
}

const SECOND: &str = "_time:[1970-01-01T00:01:00Z, 1970-01-01T00:02:00Z)";

#[test]
fn what_happened_is_named_and_nothing_else() {
    let rows = rows_of(&format!("* | differences where ({SECOND}) scale 1 | fields text"), &both());
    assert_eq!(
        rows,
        [
            "text=could not get connection after <*>: 0 → 80, all with level=error, \
             pool=db1:5432/shop",
            "text=host=web3: 100 → 0",
            "text=took_ms: p99 68.6 → 548",
        ]
    );
}

#[test]
fn a_difference_says_when_and_where() {
    let query = format!("* | differences 1 where ({SECOND}) scale 1 | delete score, text");
    assert_eq!(
        rows_of(&query, &both()),
        ["kind=pattern field=_msg value=could not get connection after <*> selected=80 \
          expected=0 others=0 first=1970-01-01T00:01:10Z \
          with={\"level\":\"error\",\"pool\":\"db1:5432/shop\"} \
          example=could not get connection after 0 ms"]
    );
}

#[test]
fn groups_are_compared_by_their_shares() {
    // One host of three is slow; it has as many lines as the others.
    let records: Vec<Record> = (0..600)
        .map(|n| {
            let host = ["a", "b", "c"][n as usize % 3];
            let upstream = if host == "b" && n % 2 == 0 { "10.0.0.7" } else { "10.0.0.8" };
            let fields = [("_msg", "request done"), ("host", host), ("upstream", upstream)];
            record(n, &fields)
        })
        .collect();
    check_pipe(
        &records,
        "differences where (upstream:=10.0.0.7) | filter field:=host | fields value, selected",
        &["value=b selected=100", "value=a selected=0", "value=c selected=0"],
    );
    check_pipe(&records, "differences where (host:=a or host:=b or host:=c)", &[]);
}

#[test]
fn small_numbers_are_written_whole() {
    let took =
        |n: i64| format!("{}", (40.0 + (n % 20) as f64) / if n < 200 { 10_000.0 } else { 1_000.0 });
    let records: Vec<Record> = (0..400)
        .map(|n| {
            record(
                n,
                &[("_msg", "done"), ("took_s", &took(n)), ("set", if n < 200 { "a" } else { "b" })],
            )
        })
        .collect();
    let text =
        rows_of("* | differences where (set:=b) | filter kind:=number | fields text", &records);
    assert_eq!(text.len(), 1);
    assert!(text[0].contains(" 0.00") && text[0].contains(" → 0.0"), "{text:?}");
}

#[test]
fn sides_without_rows_are_compared_by_a_scale_only() {
    let compared = |scale: &str| {
        rows_of(&format!("* | differences where ({SECOND}) {scale} | fields text"), &shop(1, true))
    };
    assert!(compared("scale 1")[0].starts_with("text=request done: 0 → 200"));
    assert_eq!(compared(""), [""; 0]);
    assert_eq!(rows_of("none | differences where (a:b) scale 1", &both()), [""; 0]);
}

#[test]
fn the_syntax_is_checked() {
    let parse = |text: &str| Query::parse(&format!("* | {text}"), 0).map(|query| query.to_string());
    let same = "* | differences 5 where (host:=\"a\") scale 0.5";
    assert_eq!(parse("differences 5 where (host:=a) scale 0.5").unwrap(), same);
    for wrong in [
        "differences",
        "differences where",
        "differences where ()",
        "differences host:=a",
        "differences where (a) scale 0",
        "differences where (a) scale -1",
        "differences where (a) scale inf",
        "differences where (a) scale x",
        "differences x where (a)",
    ] {
        let error = parse(wrong).expect_err(wrong);
        assert!(error.position >= "* | differences".len(), "{wrong}: {error}");
    }
}
