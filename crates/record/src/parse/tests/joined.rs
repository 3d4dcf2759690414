//! Records that a source joined from several lines, and lines that it did not join.

use proptest::prelude::*;

use super::*;

/// Time, level, `_msg` and further fields of a record of a file.
#[track_caller]
fn check_record(record: &str, time: &str, level: &str, fields: &[(&str, &str)]) {
    let batch = parse_with(&ParserConfig::default(), &file(), &[record.as_bytes()]);
    let row = batch.row(0);
    let get =
        |name: &str| String::from_utf8_lossy(row.get_by_name(name).unwrap_or(b"-")).into_owned();
    assert_eq!((time_text(row.time_ns()), get("_level")), (time.into(), level.into()), "{record}");
    for (name, value) in fields {
        assert_eq!((*name, &*get(name)), (*name, *value), "{record}");
    }
}

const NOON: &str = "2026-01-31T12:00:00Z";
const ARRIVAL: &str = "2026-11-21T12:00:00Z";

#[test]
fn the_head_of_a_record_states_its_level() {
    for (record, time, level) in [
        ("2026-01-31 12:00:00 ERROR x\n\tat a.b(C.java:1)", NOON, "error"),
        ("2026-01-31 12:00:00 INFO x\njava.io.IOException: y\n\tat a.b(C.java:1)", NOON, "info"),
        ("2026-01-31 12:00:00 x\n ERROR in a line behind the head", NOON, "-"),
        (
            "2026-01-31 12:00:00 x\nTraceback (most recent call last):\n  File\nKeyError: 1",
            NOON,
            "error",
        ),
        ("2026-01-31 12:00:00 panic: boom", NOON, "error"),
        ("Traceback (most recent call last):\n  File \"a\"\nKeyError: 'k'", ARRIVAL, "error"),
        ("panic: boom\n\ngoroutine 1 [running]:", ARRIVAL, "error"),
        ("java.lang.IllegalStateException: y\n\tat a", ARRIVAL, "error"),
        ("Traceback (most recent call last):", ARRIVAL, "error"),
        ("a text\n  with more", ARRIVAL, "-"),
    ] {
        check_record(record, time, level, &[("_msg", record)]);
    }
}

#[test]
fn records_of_containers() {
    let cri = "2026-01-31T12:00:00Z stdout F ERROR x\n2026-01-31T12:00:01Z stdout P \tat \n\
        2026-01-31T12:00:02Z stdout F a.b(C.java:1)";
    let text = "ERROR x\n\tat a.b(C.java:1)";
    check_record(cri, NOON, "error", &[("_msg", text), ("stream", "stdout"), ("logtag", "-")]);
    let docker = r#"{"log":"WARN a ","stream":"stderr","attrs":{"k":"v"},"time":"2026-01-31T12:00:00Z"}
{"log":"b\n","stream":"stderr","time":"2026-01-31T12:00:01Z"}
{"log":"\tat \"c\"\n","stream":"stderr","time":"2026-01-31T12:00:01Z"}"#;
    let fields = [
        ("_msg", "WARN a b\n\tat \"c\""),
        ("stream", "stderr"),
        ("attrs.k", "v"),
        ("_note", "-"),
        ("_type", "json"),
    ];
    check_record(docker, NOON, "warning", &fields);
    let object = r#"{"log":"{\"level\":\"error\",","stream":"stdout","time":"2026-01-31T12:00:00Z"}
{"log":"\"msg\":\"m\",\"a\":1}\n","stream":"stdout","time":"2026-01-31T12:00:01Z"}"#;
    check_record(object, NOON, "error", &[("_msg", "m"), ("a", "1")]);
}

#[test]
fn lines_of_a_trace_over_syslog_are_marked() {
    for (line, expected) in [
        ("<11>Jan 31 12:00:00 web1 app: java.lang.X: y", None),
        ("<11>Jan 31 12:00:00 web1 app: \tat a.b(C.java:1)", Some("\tat a.b(C.java:1)")),
        ("<11>Jan 31 12:00:00 web1 app: Caused by: z", Some("Caused by: z")),
        ("<11>Jan 31 12:00:00 web1 app[1]: \t... 3 more", Some("\t... 3 more")),
        ("<11>Jan 31 12:00:00 web1 app[1]: fine", None),
    ] {
        let batch = parse_with(&ParserConfig::default(), &syslog_udp(), &[line.as_bytes()]);
        let row = batch.row(0);
        let mark = row.get_by_name("_continuation");
        assert_eq!(mark, expected.map(|_| &b"true"[..]), "{line}");
        if let Some(message) = expected {
            assert_eq!(row.get_by_name("_msg"), Some(message.as_bytes()));
        }
    }
}

#[test]
fn entries_of_the_slow_log() {
    let entry = "# Time: 2021-01-26T23:45:57.678222Z\n# User@Host: app[app] @ localhost []  Id:     2\n\
        # Query_time: 0.011853  Lock_time: 0.011542 Rows_sent: 268  Rows_examined: 269\n\
        SET timestamp=1611704757;\nSELECT a FROM t;";
    let fields = [
        ("_msg", entry),
        ("Query_time", "0.011853"),
        ("Lock_time", "0.011542"),
        ("Rows_sent", "268"),
        ("Rows_examined", "269"),
        ("user", "app"),
        ("host", "localhost"),
    ];
    check_record(entry, "2021-01-26T23:45:57.678222Z", "-", &fields);
    let (_, without_time) = entry.split_once('\n').unwrap();
    check_record(without_time, "2021-01-26T23:45:57Z", "-", &[("user", "app")]);
}

fn times(origin: &Origin, lines: &[&[u8]]) -> Vec<String> {
    let batch = parse_with(&ParserConfig::default(), origin, lines);
    (0..batch.len()).map(|row| time_text(batch.row(row).time_ns())).collect()
}

#[test]
fn lines_of_files_without_a_time_have_that_of_the_line_before() {
    let lines: [&[u8]; 4] = [b"first", b"2026-01-31 12:00:00 ERROR x", b"more", b"# 3"];
    assert_eq!(times(&file(), &lines), [ARRIVAL, NOON, NOON, NOON]);
    let others = http(Format::Auto, Hints::default());
    assert_eq!(times(&others, &lines), [ARRIVAL, NOON, ARRIVAL, ARRIVAL]);
    // A time that cannot be read is a time.
    let lines: [&[u8]; 2] = [b"2026-01-31 12:00:00 x", b"2026-99-31 12:00:00 y"];
    assert_eq!(times(&file(), &lines), [NOON, ARRIVAL]);
    // The level is not inherited.
    let lines: [&[u8]; 2] = [b"2026-01-31 12:00:00 ERROR x", b"more"];
    let batch = parse_with(&ParserConfig::default(), &file(), &lines);
    assert_eq!(batch.row(1).get_by_name("_level"), None);
}

#[test]
fn a_time_is_inherited_by_so_many_lines() {
    let mut lines: Vec<&[u8]> = vec![b"2026-01-31 12:00:00 x"];
    lines.resize(1_003, b"more");
    let found = times(&file(), &lines);
    let inherited = found.iter().filter(|time| *time == NOON).count();
    assert_eq!((inherited, found[1_000].as_str(), found[1_001].as_str()), (1_001, NOON, ARRIVAL));
    let frame = frame_of(&[(&file(), &lines)]);
    let mut parser = Parser::new(&ParserConfig::default()).unwrap();
    let some = parser.parse_lines(frame, &[3, 999, 1_000, 1_001, 1_002]);
    let found: Vec<bool> = (0..5).map(|row| some.row(row).time_ns() != ARRIVAL_NS).collect();
    assert_eq!(found, [true, true, true, false, false]);
}

fn frame_of(parts: &[(&Origin, &[&[u8]])]) -> Arc<Frame> {
    let mut builder = FrameBuilder::new();
    for (origin, lines) in parts {
        lines.iter().for_each(|line| builder.push_line(origin, ARRIVAL_NS, line, false));
    }
    Arc::new(builder.finish(1, 1).unwrap())
}

proptest! {
    #[test]
    fn some_lines_have_the_times_of_all_lines(
        lines in prop::collection::vec((0usize..4, 0usize..3), 1..60),
        wanted in prop::collection::vec(any::<bool>(), 60),
    ) {
        const TEXTS: [&[u8]; 4] = [b"2026-01-31 12:00:00 x", b"2026-02-01 00:00:00 y", b"more", b"2026-99-01 00:00:00"];
        let named = |file: &str| {
            let hints = Hints { file: Some(file.into()), ..Hints::default() };
            Origin { hints: Arc::new(hints), ..Origin::new(Transport::File, Format::Auto, None) }
        };
        let origins = [named("a"), named("b"), http(Format::Auto, Hints::default())];
        let mut builder = FrameBuilder::new();
        for (text, origin) in &lines {
            builder.push_line(&origins[*origin], ARRIVAL_NS, TEXTS[*text], false);
        }
        let frame = Arc::new(builder.finish(1, 1).unwrap());
        let mut parser = Parser::new(&ParserConfig::default()).unwrap();
        let all = parser.parse(frame.clone());
        let wanted: Vec<u32> = (0..lines.len() as u32).filter(|i| wanted[*i as usize]).collect();
        let some = parser.parse_lines(frame, &wanted);
        let range = |batch: &Batch| {
            let times: Vec<i64> = (0..batch.len()).map(|row| batch.row(row).time_ns()).collect();
            (times.iter().min().copied(), times.iter().max().copied())
        };
        for (row, line) in wanted.iter().enumerate() {
            prop_assert_eq!(some.row(row).time_ns(), all.row(*line as usize).time_ns());
        }
        if !some.is_empty() {
            prop_assert_eq!(range(&some), (Some(some.time_range_ns().0), Some(some.time_range_ns().1)));
        }
    }
}
