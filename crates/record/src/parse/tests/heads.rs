//! Lines with cached heads give the same rows as lines parsed from end to end.

use proptest::prelude::*;

use super::*;

/// Lines of a few senders, and variations of their heads.
const LINES: [&str; 93] = [
    "<30>Nov 21 11:59:59 db2 hdfs[27896]: a message of some length",
    "<30>Nov 21 11:59:58 db2 hdfs[27896]: another message, ERROR in it",
    "<31>Nov 21 11:59:58 db2 hdfs[27896]: another message",
    "<30>Nov  1 11:59:58 db2 hdfs[27896]: another message",
    "<30>Nov 21 11:59:58 db2 hdfs[27896]: {\"msg\":\"x\",\"user\":\"me\",\"a\":1}",
    "<30>Nov 21 11:59:58 db2 hdfs[27896]: {\"msg\":\"x\",\"level\":\"warn\",\"type\":\"t\\n\"}",
    "<30>Nov 21 11:59:58 db2 hdfs[27896]: {\"msg\":\"x\",\"level\":\"warn\"",
    "<30>Nov 21 11:59:58 db2 hdfs[27896]: {\"msg\":\"x\",\"level\":\"\"}",
    "<30>Nov 21 11:59:58 db2 hdfs[27896]: {\"msg\":\"x\",\"level\":\"odd\"}",
    "<30>Nov 21 11:59:58 db2 hdfs[27896]: {\"msg\":\"x\",\"lvl\":\"err\"}",
    "<30>Nov 21 11:59:58 db2 hdfs[27896]: {\"msg\":\"x\",\"hostname\":\"own\",\"format\":\"rfc3164\"}",
    "<30>Nov 21 11:59:58 db2 hdfs[27896]: {\"msg\":\"x\",\"_type\":\"own\",\"_level\":\"own\"}",
    "<30>Nov 21 11:59:58 db2 hdfs[27896]: {\"msg\":\"x\",\"_remote_ip\":\"own\",\"_file\":\"own\"}",
    "<30>Nov 21 11:59:58 db2 hdfs[27896]: 1.2.3.4 - - [17/May/2015:10:05:03 +0000] \"GET /a HTTP/1.1\" 200 12",
    "<30>Nov 21 11:59:58 db2 hdfs[27896]: ",
    "<30>Nov 21 11:59:58 db2 hdfs[27896]: \u{feff}a message",
    "<30>Nov 21 11:59:58 db2 sshd: a message",
    "<30>Nov 21 11:59:58 db2 sshd a message",
    "<30>Nov 21 11:59:58 db2 sshd ",
    "<30>Nov 21 11:59:58 db2 sshd",
    "<30>Nov 21 11:59:58 db2 sshd:a message",
    "<30>Nov 21 11:59:58 db2 sshd[1]:a message",
    "<30>Nov 21 11:59:58 db2 last message repeated 2 times",
    "<30>Nov 21 11:59:58 db2 Connection closed by x",
    "<30>NOV 21 11:59:58 db2 sshd: a message",
    "<30>Nov 21 11:59:58 CET db2 sshd: a message",
    "<30>Nov 21 11:59:58 [fe80::1] sshd: a message",
    "<30>Nov 21 11:59:58 fe80::1 sshd: a message",
    "<30>Nov 21 11:59:58 db2 CEF:0|a b|c|d|e|f|3|k=v",
    "<30>Nov 21 11:59:58 db2 : %ASA-6-302013: built",
    "<30>Nov 21 11:59:58 2026 sshd[1]: a message",
    "<30>Nov 21 11:59:58 UTC sshd[1]: a message",
    "<30>Nov 21 11:59:58 CET: %SYS-5-CONFIG_I: a message",
    "<999>Nov 21 11:59:58 db2 sshd[1]: a message",
    "Nov 21 11:59:59 db2 hdfs[27896]: a message of some length",
    "Nov 21 11:59:59 db2 hdfs[27896]: WARN of some length",
    "\u{feff}<30>Nov 21 11:59:59 db2 hdfs[27896]: a message of some length",
    "<30>2026-11-21T11:59:58.123Z db2 hdfs[27896]: a message",
    "2026-11-21T11:59:58.123+01:00 db2 hdfs[27896]: a message",
    "<30>1 2026-11-21T11:59:58.123Z db2 hdfs 27896 - - a message",
    "<30>1 2026-11-21T11:59:58.123456+01:00 db2 hdfs 27896 - - a message",
    "<30>1 2026-11-21T11:59:58.123Z db2 hdfs 27896 - - \u{feff}a message",
    "<30>1 2026-11-21T11:59:58.123Z db2 hdfs 27896 - - {\"severity\":\"x\",\"time\":\"2025-01-01T00:00:00Z\"}",
    "<30>1 2026-11-21T11:59:58.123Z db2 hdfs 27896 ID47 - a message",
    "<30>1 2026-11-21T11:59:58.123Z db2 hdfs 27896 - [a@1 x=\"1\"] a message",
    "<30>1 - db2 hdfs 27896 - - a message",
    "1 2026-11-21T11:59:58.123Z db2 hdfs 27896 - - a message",
    "<30>1 2027-11-21T11:59:58.123Z db2 hdfs 27896 - - of next year",
    "<30>Nov 21 11:59:58 db2 ERROR: a message",
    "<30>Nov 21 11:59:58 db2 info hdfs[1]: a message",
    "<30>Nov 21 11:59:58 db2 : a message",
    "<30>Nov 21 11:59:58 db2 [712]: a message",
    "<30>Nov 21 11:59:58 db2 Nov hello there",
    "<30>Nov 21 11:59:58 db2 NOV hello there",
    "<30>Nov 21 11:59:58 db2 NOV 21 11:59:57 db3 sshd[1]: a message",
    "<30>Nov 21 11:59:58 db2 Nov 21 11:59:57 db3 sshd[1]: a message",
    "<30>Nov 21 11:59:58 db2 <14>Nov 21 11:59:57 db3 sshd[1]: a message",
    "<30>Nov 21 11:59:58 db2 1234: a message",
    "<30>Nov 21 11:59:58 db2: %SYS-5-CONFIG_I: a message",
    "<30>Nov 21 11:59:58 db2: a message",
    "<30>Nov 21 11:59:58 db2 00179 mgr: a message",
    "<30>Nov 21 11:59:58 db2 00180 mgr: a message",
    "<30>Nov 21 11:59:58 [db2:disk.ok:error]: a message",
    "<30>Nov 21 11:59:58 db2 java.io.IOException: a message",
    "<30>Nov 21 11:59:58 db2 \tat a.B.c(B.java:1)",
    "<30>Nov 21 11:59:58 db2 at a.B.c(B.java:1)",
    "<30>Nov 21 11:59:58 db2 1234: Nov 21 11:59:57.1: %SYS-5-CONFIG_I: a message",
    "<30>Nov 21 11:59:58 db2 2026-11-21T11:59:57Z db3 sshd[1]: a message",
    "<30>Nov 21 11:59:58 Message forwarded from db3: sshd[1]: a message",
    "<30>Nov 21 11:59:58 Message forwarded by hand",
    "<30>Nov 21 11:59:58 Message sshd: a message",
    "<30>Nov 21 11:59:58 US-8,18e829aabbcc,5.43: switch: a message",
    "<30>Nov 21 11:59:58 db2 788a20aabbcc,U7PG2-4.0: hostapd[1]: a message",
    "<30>Nov 21 11:59:58 db2 0-PPE-0 : default TCP CONN 1 0 : a message",
    "<30>Nov 21 11:59:58 db2 FVE61035702AE (2026-11-21T11:59:58) firewall: a message",
    "<30>Nov 21 11:59:58 db2 FVE61035702AE (2026-11-21T11:59:58) http-proxy[7]: a message",
    "<30>Nov 21 11:59:58 db2 FVE61035702AE a message",
    "<30>Nov 21 11:59:58 db2 %%01SHELL/5/CMD(l)[12]:a message",
    "<30>Nov 21 11:59:58 db2 %%10SHELL/3/CMD: a message",
    "<30>Nov 21 11:59:58 db2 %LINK-W-Down: a message",
    "<30>Nov 21 11:59:58 db2 %LOG_LOCAL7-6-SYSTEM_MSG a message",
    "<30>2026:11:21-11:59:58 db2 sshd[1]: a message",
    "<30>hdfs[27896]: 2026-11-21 11:59:58 a message",
    "<30>Nov 21 11:59:58 db2 sshd[12]: Accepted publickey for bob from 192.0.2.1 port 22 ssh2",
    "<30>Nov 21 11:59:58 db2 sshd[12]: a message of another kind",
    "<30>Nov 21 11:59:58 db2 nginx: 2026/11/21 11:59:58 [error] 1#2: *3 x, client: 192.0.2.1",
    "<30>Nov 21 11:59:58 db2 nginx: 2026/11/21 11:59:58 a message of another kind",
    "<30>Nov 21 11:59:58 db2 nginx: ERROR a message of another kind",
    "<30>Nov 21 11:59:58 db2 nginx: E1121 12:00:00.250000    1234 a.go:5] x",
    "<30>Nov 21 11:59:58 db2 hdfs[27896]: E1121 12:00:00.250000    1234 a.go:5] x",
    "<30>Nov 21 11:59:58 db2 hdfs[27896]: type=LOGIN msg=audit(1795262398.250:7): hostname=db3",
    "<30>1 2026-11-21T11:59:58.123Z db2 hdfs 27896 - - E1121 12:00:00.250000    1234 a.go:5] x",
    "<30>Nov 21 11:59:58 db2 hdfs[27896]: 1.2.3.4 - - [17/May/2015:10:05:03 +0000] \"GET /a HTTP/1.1\" 200 12 \"-\" \"-\" 0.25",
];

fn rule(name: &str, change: impl Fn(&mut TypeRule)) -> TypeRule {
    let mut rule = TypeRule { name: name.into(), ..TypeRule::default() };
    change(&mut rule);
    rule
}

fn configs() -> Vec<ParserConfig> {
    let app = rule("app", |r| r.app_name = vec!["hdfs".into(), "sshd".into()]);
    let text = rule("text", |r| r.contains = Some("another".into()));
    let host = rule("host", |r| {
        (r.hostname, r.format) = (vec!["db2".into()], MessageFormat::Plain);
    });
    [vec![], vec![app.clone()], vec![text, host, app]]
        .map(|types| ParserConfig {
            types,
            zone: crate::Zone::Fixed(3600),
            ..ParserConfig::default()
        })
        .into()
}

fn origins() -> Vec<Origin> {
    let extra = |name: &str| {
        let extra_fields = vec![("env".into(), "x".into()), (name.into(), "y".into())];
        http(Format::Auto, Hints { extra_fields, ..Hints::default() })
    };
    let typed = Hints { log_type: Some("syslog".into()), ..Hints::default() };
    let named = Hints { file: Some("a.log".into()), ..Hints::default() };
    vec![
        syslog_udp(),
        file(),
        http(Format::Auto, named),
        http(Format::Json, typed),
        extra("hostname"),
        extra("user"),
        extra("level"),
        extra("_level"),
        extra("_type"),
        extra("_msg"),
    ]
}

/// A row with all its properties.
fn whole(row: crate::batch::Row<'_>, batch: &Batch) -> String {
    use crate::batch::Place;
    let mut text = format!("{} {:?} {}", row.time_ns(), row.id(), row.origin_index());
    let values: Vec<_> = row.fields().collect();
    assert_eq!(values.len(), row.fields_count());
    for ((id, position, length), (id_again, value)) in row.places().zip(values) {
        assert_eq!((id, length as usize), (id_again, value.len()));
        assert_eq!(row.get(id), Some(value), "a name occurs once");
        let position = match position {
            Place::Line(at) => format!("line {at}"),
            Place::Made(_) => "made".into(),
            Place::Shared(_) => "shared".into(),
        };
        text.push_str(&format!(
            "|{}={:?} {position}",
            batch.name(id),
            String::from_utf8_lossy(value)
        ));
    }
    text
}

/// Parses frames of these lines, each from one of two senders and some time after the previous one,
/// with and without cached heads.
fn compare(config: &ParserConfig, origin: &Origin, lines: &[Vec<u8>]) {
    let mut knowing = Parser::new(config).unwrap();
    let mut other = knowing.clone();
    other.heads.off = true;
    let second = Origin { sender: Some("10.0.0.8:514".parse().unwrap()), ..origin.clone() };
    for (frame, lines) in lines.chunks(lines.len().div_ceil(2)).enumerate() {
        let mut builder = FrameBuilder::new();
        for (i, line) in lines.iter().enumerate() {
            let origin = if i % 5 == 4 { &second } else { origin };
            let received_ns = ARRIVAL_NS + (i / 7) as i64 * 400_000_000;
            builder.push_line(origin, received_ns, line, i % 11 == 10);
        }
        let frame = Arc::new(builder.finish(1, frame as u64).unwrap());
        let times = knowing.times_parsing(&frame, |_| usize::MAX).expect("there is no limit");
        let (found, expected) = (knowing.parse(frame.clone()), other.parse(frame.clone()));
        let (few, expected_times) = (knowing.times(&frame), expected.rows().map(|r| r.time_ns()));
        assert!(few.is_none_or(|few| few == times));
        for (row, (found, expected)) in expected.rows().zip(times.iter().zip(expected_times)) {
            assert_eq!(*found, expected, "{}", String::from_utf8_lossy(row.raw()));
        }
        assert_eq!(found.names(), expected.names());
        assert_eq!(found.time_range_ns(), expected.time_range_ns());
        for (found_row, expected_row) in found.rows().zip(expected.rows()) {
            let line = String::from_utf8_lossy(found_row.raw());
            assert_eq!(whole(found_row, &found), whole(expected_row, &expected), "{line}");
        }
    }
}

#[test]
fn each_line_after_each_other() {
    let mut lines = Vec::new();
    for first in LINES {
        for second in LINES {
            lines.extend([first, second].map(|line| line.as_bytes().to_vec()));
        }
    }
    for config in configs() {
        for origin in origins() {
            compare(&config, &origin, &lines);
        }
    }
}

/// Where a rule decides the time of a line, its head does not.
#[test]
fn times_under_rules_that_change_them() {
    let lines: Vec<Vec<u8>> = LINES.iter().map(|line| line.as_bytes().to_vec()).collect();
    let rules = [
        rule("zone", |r| {
            (r.app_name, r.zone) = (vec!["hdfs".into()], Some("America/New_York".into()));
        }),
        rule("time", |r| {
            (r.hostname, r.time_field) = (vec!["db2".into()], FieldNames(vec!["time".into()]))
        }),
        rule("plain", |r| (r.contains, r.format) = (Some("another".into()), MessageFormat::Plain)),
    ];
    for rule in rules {
        let config = ParserConfig { types: vec![rule], ..ParserConfig::default() };
        for origin in origins() {
            compare(&config, &origin, &[lines.clone(), lines.clone()].concat());
        }
    }
}

#[test]
fn times_of_usual_heads_are_found_without_parsing() {
    let line = |i: usize| match i % 3 {
        0 => format!("<30>Nov 21 11:59:{:02} db2 hdfs[{i}]: message {i}", i % 60),
        1 => format!("<30>1 2026-11-21T11:59:58.{i:03}Z db2 hdfs {i} - [a@1 x=\"{i}\"] message"),
        _ => format!("<30>1 2026-11-21T11:59:58.{i:03}+01:00 db2 hdfs 7 - - {{\"time\":{i}}}"),
    };
    let mut builder = FrameBuilder::new();
    for i in 0..600 {
        builder.push_line(&syslog_udp(), ARRIVAL_NS, line(i).as_bytes(), false);
    }
    let frame = Arc::new(builder.finish(1, 1).unwrap());
    let mut parser = Parser::new(&ParserConfig::default()).unwrap();
    let times = parser.times_parsing(&frame, |_| 0).expect("no line needs parsing");
    assert!(times.iter().copied().eq(parser.parse(frame).rows().map(|row| row.time_ns())));
}

#[test]
fn corpora() {
    let folder = std::path::Path::new("../../testdata/corpora");
    for name in ["Linux", "OpenSSH", "Apache", "Hadoop", "apache_access"] {
        let bytes = std::fs::read(folder.join(format!("{name}.log"))).unwrap();
        let plain = bytes.split(|b| *b == b'\n').map(<[u8]>::to_vec);
        let in_head = bytes
            .split(|b| *b == b'\n')
            .map(|line| [b"<13>1 2026-11-21T11:59:59.5Z web app 7 - - ", line].concat());
        let lines: Vec<Vec<u8>> = plain.chain(in_head).collect();
        for config in configs() {
            compare(&config, &syslog_udp(), &lines);
            compare(&config, &file(), &lines);
        }
    }
}

#[test]
fn rows_of_one_head_share_their_fields() {
    let line = |i: usize| format!("<30>Nov 21 11:59:{:02} db2 hdfs[27896]: message {i}", i % 60);
    let lines: Vec<String> = (0..100).map(line).collect();
    let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    let batch = parse_with(&ParserConfig::default(), &syslog_udp(), &lines);
    let first = batch.row(0);
    for row in batch.rows() {
        assert_eq!(row.stem(), first.stem());
        assert_eq!(row.fields().count() - row.stem_fields(), 1, "only the message differs");
    }
}

#[test]
fn senders_with_the_same_head_have_a_stem_each() {
    let origin = |sender: usize| Origin {
        sender: Some(([10, 0, 0, sender as u8 + 1], 514).into()),
        ..syslog_udp()
    };
    for senders in [1, 2, 50] {
        let origins: Vec<Origin> = (0..senders).map(origin).collect();
        let mut builder = FrameBuilder::new();
        for i in 0..20 * senders {
            let line = format!("<30>Nov 21 11:59:{:02} db2 hdfs[27896]: message {i}", i % 60);
            builder.push_line(&origins[i % senders], ARRIVAL_NS, line.as_bytes(), false);
        }
        let frame = Arc::new(builder.finish(1, 1).unwrap());
        let batch = Parser::new(&ParserConfig::default()).unwrap().parse(frame);
        // One per origin without shared fields, and one for its head.
        assert_eq!(batch.stems(), 2 * senders);
    }
}

proptest! {
    #[test]
    fn changed_lines(
        picks in prop::collection::vec(
            (
                prop::sample::select(&LINES[..]),
                prop::collection::vec((0usize..70, prop::sample::select(&b" :[]{-.<>1\xff\xefA%"[..]), 0u8..3), 0..3),
            ),
            1..60,
        ),
        origin in prop::sample::select(origins()),
        config in 0usize..3,
    ) {
        let changed = |(line, changes): (&str, Vec<(usize, u8, u8)>)| {
            let mut line = line.as_bytes().to_vec();
            for (at, byte, kind) in changes {
                let at = at.min(line.len().saturating_sub(1));
                match kind {
                    0 => line[at] = byte,
                    1 => line.insert(at, byte),
                    _ => line.truncate(at + 1),
                }
            }
            line
        };
        let lines: Vec<Vec<u8>> = picks.into_iter().map(changed).collect();
        // Repeated, so that heads cached from the first lines are used.
        compare(&configs()[config], &origin, &[lines.clone(), lines.clone(), lines].concat());
    }
}
