//! Lines of any content and every kind of origin: each becomes a whole row.
//!
//! The first byte picks the origin, the second whether newlines part the lines; the rest are the
//! lines.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use record::{Format, FrameBuilder, Hints, MessageFormat, Origin, Parser, ParserConfig, Transport, TypeRule};

/// 2026-11-21T12:00:00Z.
const ARRIVAL_NS: i64 = 1_795_262_400_000_000_000;

fuzz_target!(|bytes: &[u8]| {
    let [which, split, lines @ ..] = bytes else { return };
    let origin = origin(*which);
    let mut builder = FrameBuilder::new();
    if split % 2 == 0 {
        builder.push_line(&origin, ARRIVAL_NS, lines, false);
    } else {
        for line in lines.split(|byte| *byte == b'\n') {
            builder.push_line(&origin, ARRIVAL_NS, line, false);
        }
    }
    let frame = Arc::new(builder.finish(1, 1).expect("there is a line"));
    let batch = parser(*which).parse(frame.clone());
    assert_eq!(batch.len(), frame.header().lines as usize);
    for (row, line) in batch.rows().zip(frame.lines()) {
        assert_eq!(row.raw(), line.bytes);
        assert!(row.get_by_name("_type").is_some_and(|name| !name.is_empty()));
        assert!(row.get_by_name("_msg").is_some());
        let mut names: Vec<_> = row.fields().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), row.fields().count());
    }
});

fn origin(which: u8) -> Origin {
    let sender = Some("10.0.0.7:514".parse().expect("an address"));
    let hints = |hints| Origin {
        hints: Arc::new(hints),
        ..Origin::new(Transport::Http, Format::Auto, sender)
    };
    let typed = |name: &str| hints(Hints { log_type: Some(name.into()), ..Hints::default() });
    match which % 8 {
        0 => Origin::new(Transport::SyslogUdp, Format::Syslog, sender),
        1 => Origin::new(Transport::Http, Format::Json, sender),
        2 => typed("json"),
        3 => typed("access"),
        4 => typed("plain"),
        5 => hints(Hints {
            time_fields: vec!["a.t".into(), "t".into()],
            msg_fields: vec!["m".into()],
            ignore_fields: vec!["x*".into()],
            extra_fields: vec![("_type".into(), "mine".into()), ("_time".into(), String::new())],
            file: Some("f".into()),
            ..Hints::default()
        }),
        6 => hints(Hints {
            format: Some(MessageFormat::Logfmt),
            level_fields: vec!["l".into()],
            ..Hints::default()
        }),
        _ => Origin::new(Transport::File, Format::Auto, None),
    }
}

/// A parser without rules and one with; made once, because a regular expression takes long to make.
static PARSERS: LazyLock<[Parser; 2]> = LazyLock::new(|| {
    let types = vec![
        TypeRule { name: "a".into(), app_name: vec!["su".into()], ..TypeRule::default() },
        TypeRule { name: "b".into(), regex: Some("x+y".into()), ..TypeRule::default() },
    ];
    let ruled = ParserConfig { types, zone: record::Zone::Fixed(-12_600), ..ParserConfig::default() };
    [ParserConfig::default(), ruled]
        .map(|config| Parser::new(&config).expect("the rules are right"))
});

fn parser(which: u8) -> Parser {
    PARSERS[usize::from(which >> 7)].clone()
}
