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

/// Pseudo-random numbers below `end`: SplitMix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// Five minutes of requests without an incident. Each client sends up to 40 requests one behind the
/// other, and is not seen before or after.
fn quiet(seed: u64) -> Vec<Record> {
    let mut random = Random(seed);
    let mut records = Vec::new();
    let mut client = 0;
    let mut left = 0;
    for n in 0..3_000 {
        if left == 0 || random.below(10) == 0 {
            (client, left) = (client + 1, 1 + random.below(40));
        }
        left -= 1;
        let path = format!("/p{}", random.below(30).min(random.below(30)));
        let host = format!("web{}", random.below(12));
        let status = ["200", "200", "200", "404", "500"][random.below(5) as usize];
        let (client, took) = (format!("c-{client}"), (20 + random.below(80)).to_string());
        let word = ["cache hit", "cache miss", "request done", "session renewed"];
        let message = format!("{} for {path}", word[random.below(4) as usize]);
        records.push(record(
            n * 100_000_000,
            &[
                ("_msg", &message),
                ("client", &client),
                ("path", &path),
                ("host", &host),
                ("status", status),
                ("took_ms", &took),
            ],
        ));
    }
    records
}

#[test]
fn without_an_incident_hardly_a_window_shows_anything() {
    let last = "_time:[1970-01-01T00:04:00Z, 1970-01-01T00:05:00Z)";
    let query = format!("* | differences where ({last}) scale 0.25 | fields kind, text");
    let shown: Vec<Vec<String>> = (0..60).map(|seed| rows_of(&query, &quiet(seed))).collect();
    let noisy = shown.iter().filter(|rows| rows.iter().any(|row| !row.starts_with("kind=first")));
    // Three in sixty are expected at most; more than seven would be less likely than 1 in 50.
    assert!(noisy.count() <= 7, "{shown:#?}");
}

#[test]
fn one_client_is_found_among_thousands() {
    let mut records = quiet(7);
    let from = records.len() as i64 * 100_000_000 * 4 / 5;
    records.extend((0..250).map(|n| {
        let fields = [("_msg", "request done for /p1"), ("client", "c-admin"), ("path", "/p1")];
        record(from + n * 200_000_000, &fields)
    }));
    let last = "_time:[1970-01-01T00:04:00Z, 1970-01-01T00:05:00Z)";
    let query = format!("* | differences where ({last}) scale 0.25 | fields text");
    let rows = rows_of(&query, &records);
    assert!(rows.iter().any(|row| row.contains("client=c-admin")), "{rows:#?}");
    assert!(!rows.iter().any(|row| row.contains("client=c-1")), "{rows:#?}");
}

#[test]
fn what_was_never_seen_before_is_named_even_once() {
    let mut records = both();
    let cron = [("_msg", "CRON: LOCK TABLE orders"), ("level", "info")];
    records.push(record(65_000_000_000, &cron));
    let disk = [("_msg", "EXT4-fs error: device sdb1"), ("level", "error")];
    records.push(record(66_000_000_000, &disk));
    let first = |more: &str| {
        let query = format!("* | differences where ({SECOND}) {more}");
        rows_of(&format!("{query} | filter kind:=first | fields value, selected"), &records)
    };
    assert_eq!(
        first("scale 1"),
        ["value=<*> error: device sdb1 selected=1", "value=CRON: LOCK TABLE orders selected=1"]
    );
    // Of two groups, each has what the other one has not.
    assert_eq!(first(""), [""; 0]);
}
