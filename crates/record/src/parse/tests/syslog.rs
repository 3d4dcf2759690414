//! RFC 5424 and RFC 3164 as specified, and similar formats.

use super::*;

const COMMON: [&str; 1] = ["_remote_ip=10.0.0.7"];

#[test]
fn rfc5424() {
    check(
        &syslog_udp(),
        &["_remote_ip=10.0.0.7", "format=rfc5424", "_type=syslog"],
        &[
            // The examples of RFC 5424 section 6.5.
            (
                "<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - \u{feff}'su root' failed for lonvick on /dev/pts/8",
                "_msg='su root' failed for lonvick on /dev/pts/8|app_name=su|facility=4|facility_keyword=auth|hostname=mymachine.example.com|level=critical|_level=critical|msg_id=ID47|priority=34|severity=2|@2003-10-11T22:14:15.003Z",
            ),
            (
                "<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 - - %% It's time to make the do-nuts.",
                "_msg=%% It's time to make the do-nuts.|app_name=myproc|facility=20|facility_keyword=local4|hostname=192.0.2.1|level=notice|_level=notice|priority=165|proc_id=8710|severity=5|@2003-08-24T12:14:15.000003Z",
            ),
            (
                "<165>1 2003-10-11T22:14:15.003Z h evntslog - ID47 [exampleSDID@32473 iut=\"3\" eventSource=\"Application\" eventID=\"1011\"] An event",
                "_msg=An event|app_name=evntslog|exampleSDID@32473.eventID=1011|exampleSDID@32473.eventSource=Application|exampleSDID@32473.iut=3|facility=20|facility_keyword=local4|hostname=h|level=notice|_level=notice|msg_id=ID47|priority=165|severity=5|@2003-10-11T22:14:15.003Z",
            ),
            (
                "<165>1 2003-10-11T22:14:15.003Z h evntslog - ID47 [a@1 x=\"1\"][b@2]",
                "_msg=|a@1.x=1|app_name=evntslog|b@2=|facility=20|facility_keyword=local4|hostname=h|level=notice|_level=notice|msg_id=ID47|priority=165|severity=5|@2003-10-11T22:14:15.003Z",
            ),
            // Everything nil, with and without a message.
            (
                "<0>1 - - - - - -",
                "_msg=|facility=0|facility_keyword=kern|level=emerg|_level=emerg|priority=0|severity=0",
            ),
            (
                "<15>1 - - - - - - x",
                "_msg=x|facility=1|facility_keyword=user|level=debug|_level=debug|priority=15|severity=7",
            ),
            (
                "<15>1 - - - - -",
                "_msg=|facility=1|facility_keyword=user|level=debug|_level=debug|priority=15|severity=7",
            ),
            // Escapes, and an invalid one.
            (
                r#"<15>1 - - a - - [x y="q\"b\\c\]d\e"] m"#,
                r#"_msg=m|app_name=a|facility=1|facility_keyword=user|level=debug|_level=debug|priority=15|severity=7|x.y=q"b\c]d\e"#,
            ),
            // A parameter that occurs twice, as RFC 5424 section 7.2 allows.
            (
                r#"<15>1 - - a - - [origin ip="192.0.2.1" ip="192.0.2.9"] m"#,
                "_msg=m|_note=a key occurs twice, its last value counts|app_name=a|facility=1|facility_keyword=user|level=debug|_level=debug|origin.ip=192.0.2.9|priority=15|severity=7",
            ),
            // Broken structured data.
            (
                "<15>1 - - a - - [x y=\"1\" m",
                "_msg=[x y=\"1\" m|_note=broken structured data, kept in the message|app_name=a|facility=1|facility_keyword=user|level=debug|_level=debug|priority=15|severity=7",
            ),
            (
                "<15>1 - - a - - [x y=1] m",
                "_msg=m|app_name=a|facility=1|facility_keyword=user|level=debug|_level=debug|priority=15|severity=7|x.y=1",
            ),
            (
                "<15>1 - - a - ID hello",
                "_msg=hello|_note=no structured data before the message|app_name=a|facility=1|facility_keyword=user|level=debug|_level=debug|msg_id=ID|priority=15|severity=7",
            ),
            (
                "<15>1 - - a - - hello",
                "_msg=hello|app_name=a|facility=1|facility_keyword=user|level=debug|_level=debug|priority=15|severity=7",
            ),
            // Heroku's Logplex, whose text may begin with a bracket.
            (
                "<190>1 2026-11-21T11:59:59+00:00 host app web.1 - [worker] started",
                "_msg=[worker] started|app_name=app|facility=23|facility_keyword=local7|hostname=host|level=info|_level=info|priority=190|proc_id=web.1|severity=6|@2026-11-21T11:59:59Z",
            ),
            (
                "<15>1 2026-11-21T11:59:59+00:00 d.9173ea1f-6f14-4976-9cf0-7cd0dafdcdbc heroku router - starting",
                "_msg=starting|app_name=heroku|facility=1|facility_keyword=user|hostname=d.9173ea1f-6f14-4976-9cf0-7cd0dafdcdbc|level=debug|_level=debug|priority=15|proc_id=router|severity=7|@2026-11-21T11:59:59Z",
            ),
            // An element with the name of one of Loginson's own fields.
            (
                "<15>1 - - a - - [type] m",
                "_msg=m|app_name=a|facility=1|facility_keyword=user|level=debug|_level=debug|priority=15|type=|severity=7",
            ),
            // Absurd times.
            (
                "<15>1 2099-01-01T00:00:00Z - a - - - m",
                "_msg=m|_note=absurd time, arrival taken|app_name=a|facility=1|facility_keyword=user|level=debug|_level=debug|priority=15|severity=7",
            ),
            // No PRI.
            (
                "1 2026-11-21T11:59:59.5+00:00 h a 1 - - ERROR m",
                "_msg=ERROR m|app_name=a|hostname=h|_level=error|proc_id=1|@2026-11-21T11:59:59.5Z",
            ),
            // A byte order mark before the PRI, carriage return and NUL at the end.
            (
                "\u{feff}<15>1 - - a - - - m\r\n\0",
                "_msg=m|app_name=a|facility=1|facility_keyword=user|level=debug|_level=debug|priority=15|severity=7",
            ),
        ],
    );
}

#[test]
fn rfc3164() {
    let common = [
        "_remote_ip=10.0.0.7",
        "format=rfc3164",
        "_type=syslog",
        "facility=4",
        "facility_keyword=auth",
        "level=critical",
        "_level=critical",
        "severity=2",
        "priority=34",
    ];
    check(
        &syslog_udp(),
        &common,
        &[
            (
                "<34>Oct 11 22:14:15 mymachine su: 'su root' failed for lonvick on /dev/pts/8",
                "_msg='su root' failed for lonvick on /dev/pts/8|app_name=su|hostname=mymachine|@2026-10-11T22:14:15Z",
            ),
            (
                "<34>Nov 21 12:00:00 web1 sshd[24200]: Invalid user webmaster from 173.234.31.186",
                "_msg=Invalid user webmaster from 173.234.31.186|app_name=sshd|client_ip=173.234.31.186|hostname=web1|proc_id=24200|reason=invalid user|result=Invalid|user=webmaster",
            ),
            (
                "<34>Nov 21 12:00:00 h sshd(pam_unix)[19939]: x",
                "_msg=x|app_name=sshd(pam_unix)|hostname=h|proc_id=19939",
            ),
            (
                "<34>Nov 21 12:00:00 h postfix/smtpd[9]: x",
                "_msg=x|app_name=postfix/smtpd|hostname=h|proc_id=9",
            ),
            ("<34>Nov 21 12:00:00 h app[12] x", "_msg=x|app_name=app|hostname=h|proc_id=12"),
            // As systemd names its processes; other words in parentheses are text.
            (
                "<34>Nov 21 12:00:00 h (systemd)[7]: x",
                "_msg=x|app_name=(systemd)|hostname=h|proc_id=7",
            ),
            ("<34>Nov 21 12:00:00 h (systemd)[7] x", "_msg=(systemd)[7] x|hostname=h"),
            ("<34>Nov 21 12:00:00 h (root) x: y", "_msg=(root) x: y|hostname=h"),
            ("<34>Nov 21 12:00:00 h app[]: x", "_msg=x|app_name=app|hostname=h"),
            ("<34>Nov 21 12:00:00 h kernel:[ 1.5] x", "_msg=[ 1.5] x|app_name=kernel|hostname=h"),
            ("<34>Nov 21 12:00:00 h app:", "_msg=|app_name=app|hostname=h"),
            // Repetitions, syslogd's marks, and other messages without a tag.
            (
                "<34>Nov 21 12:00:00 h last message repeated 2 times",
                "_msg=last message repeated 2 times|hostname=h",
            ),
            ("<34>Nov 21 12:00:00 h -- MARK --", "_msg=-- MARK --|hostname=h"),
            (
                "<34>Nov 21 12:00:00 h syslogd 1.4.1: restart.",
                "_msg=1.4.1: restart.|app_name=syslogd|hostname=h",
            ),
            (
                "<34>Nov 21 12:00:00 h C:\\Windows\\x failed",
                "_msg=C:\\Windows\\x failed|hostname=h",
            ),
            // No host.
            ("<34>Nov 21 12:00:00 su: x", "_msg=x|app_name=su"),
            ("<34>Nov 21 12:00:00 su[1]: x", "_msg=x|app_name=su|proc_id=1"),
            ("<34>Nov 21 12:00:00 - su[1]: x", "_msg=x|app_name=su|proc_id=1"),
            // No time.
            ("<34>su[1]: x", "_msg=x|app_name=su|proc_id=1"),
            ("<34>hello world", "_msg=hello world"),
            ("<34>", "_msg="),
            ("<34> su: x", "_msg=x|app_name=su"),
            // Only the time, or cut within it.
            ("<34>Nov 21 12:00:00", "_msg="),
            ("<34>Nov 21 12:00:00 h", "_msg=|hostname=h"),
            ("<34>Nov 21 12:0", "_msg=Nov 21 12:0"),
            (
                "<34>Nov 31 12:00:00 h a: x",
                "_msg=x|_note=time not readable, arrival taken|app_name=a|hostname=h",
            ),
            // An IPv6 address for a host.
            ("<34>Nov 21 12:00:00 2001:db8::1 a: x", "_msg=x|app_name=a|hostname=2001:db8::1"),
            // Zone and year from the arrival.
            ("<34>Nov 21 13:00:02 h a: x", "_msg=x|app_name=a|hostname=h|@2026-11-21T12:00:02Z"),
            ("<34>Dec  1 00:00:00 h a: x", "_msg=x|app_name=a|hostname=h|@2025-12-01T00:00:00Z"),
            // ISO times.
            (
                "<34>2026-11-21T11:59:59.123+01:00 h a[1]: x",
                "_msg=x|app_name=a|hostname=h|proc_id=1|@2026-11-21T10:59:59.123Z",
            ),
            ("<34>2026-11-21 12:00:00 h a: x", "_msg=x|app_name=a|hostname=h"),
            ("<34>2026-11-21T12:00:00Z a: x", "_msg=x|app_name=a"),
            // Carriage return, NUL.
            ("<34>Nov 21 12:00:00 h a: x\r\0", "_msg=x|app_name=a|hostname=h"),
            ("<34>Nov 21 12:00:00 h a: \u{feff}x", "_msg=\u{feff}x|app_name=a|hostname=h"),
            ("<34>\u{feff}Nov 21 12:00:00 h a: x", "_msg=x|app_name=a|hostname=h"),
        ],
    );
}

#[test]
fn without_priority() {
    check(
        &file(),
        &["format=rfc3164", "_type=syslog"],
        &[
            (
                "Dec 10 06:55:46 LabSZ sshd[24200]: Invalid user webmaster",
                "_msg=Invalid user webmaster|app_name=sshd|hostname=LabSZ|proc_id=24200|@2025-12-10T06:55:46Z",
            ),
            (
                "Dec 10 09:11:21 LabSZ sshd[1]: error: Received disconnect",
                "_msg=error: Received disconnect|app_name=sshd|hostname=LabSZ|_level=error|proc_id=1|@2025-12-10T09:11:21Z",
            ),
            (
                "2026:11:21-11:59:58 utm1 httpproxy[5678]: x",
                "_msg=x|app_name=httpproxy|hostname=utm1|proc_id=5678|@2026-11-21T11:59:58Z",
            ),
            (
                "2026-01-31T12:00:00.5+01:00 web1 app[7]: x",
                "_msg=x|app_name=app|hostname=web1|proc_id=7|@2026-01-31T11:00:00.5Z",
            ),
        ],
    );
    // A source that declares syslog accepts less evidence, but not anything.
    check(
        &syslog_udp(),
        &["_remote_ip=10.0.0.7"],
        &[
            (
                "2026-01-31 12:00:00 web1 app[7]: x",
                "_msg=x|app_name=app|format=rfc3164|hostname=web1|proc_id=7|_type=syslog|@2026-01-31T12:00:00Z",
            ),
            (
                "12: *Nov 21 12:00:00.5: %SYS-5-RESTART: x",
                "_msg=%SYS-5-RESTART: x|app_name=SYS|format=rfc3164|level=notice|_level=notice|msg_id=RESTART|sequence=12|severity=5|_type=syslog|@2026-11-21T12:00:00.5Z",
            ),
            (
                "2015-10-18 18:01:47,978 INFO [main] org.x: y",
                "_msg=2015-10-18 18:01:47,978 INFO [main] org.x: y|_level=info|_type=plain|@2015-10-18T18:01:47.978Z",
            ),
        ],
    );
    // Not syslog for a source that does not declare it.
    check(
        &file(),
        &["_type=plain"],
        &[
            (
                "2026-01-31T12:00:00 web1 app[7]: x",
                "_msg=2026-01-31T12:00:00 web1 app[7]: x|@2026-01-31T12:00:00Z",
            ),
            ("May the force be with you", "_msg=May the force be with you"),
            ("<1234>x", "_msg=<1234>x"),
            ("<x>y", "_msg=<x>y"),
            ("<>", "_msg=<>"),
        ],
    );
}

#[test]
fn priorities() {
    check(
        &syslog_udp(),
        &COMMON,
        &[
            (
                "<191>su: x",
                "_msg=x|app_name=su|facility=23|facility_keyword=local7|format=rfc3164|level=debug|_level=debug|priority=191|severity=7|_type=syslog",
            ),
            (
                "<192>su: x",
                "_msg=x|_note=priority above 191|app_name=su|facility=24|facility_keyword=unknown|format=rfc3164|level=emerg|_level=emerg|priority=192|severity=0|_type=syslog",
            ),
            (
                "<999>su: x",
                "_msg=x|_note=priority above 191|app_name=su|facility=124|facility_keyword=unknown|format=rfc3164|level=debug|_level=debug|priority=999|severity=7|_type=syslog",
            ),
            ("<1000>su: x", "_msg=<1000>su: x|_type=plain"),
        ],
    );
}

/// What `journalctl` prints in its short formats.
#[test]
fn journalctl() {
    let of = |origin: &Origin, line: &str| {
        let batch = parse_with(&ParserConfig::default(), origin, &[line.as_bytes()]);
        let row = batch.row(0);
        let get = |name: &str| {
            row.get_by_name(name).map(|value| String::from_utf8_lossy(value).into_owned())
        };
        let fields = ["hostname", "app_name", "proc_id", "_msg"].map(get);
        (fields, time_text(row.time_ns()))
    };
    for line in [
        "Sat 2026-01-31 12:00:00 UTC web1 app[7]: x",
        "Sat 2026-01-31 13:00:00 CET web1 app[7]: x",
        "1769860800.000000 web1 app[7]: x",
        "2026-01-31T12:00:00.000000+00:00 web1 app[7]: x",
        "2026-01-31T13:00:00+0100 web1 app[7]: x",
    ] {
        for origin in [file(), syslog_udp()] {
            let (fields, time) = of(&origin, line);
            let fields = fields.map(Option::unwrap_or_default);
            assert_eq!(fields, ["web1", "app", "7", "x"], "{line}");
            assert_eq!(time, "2026-01-31T12:00:00Z", "{line}");
        }
    }
    // Texts of programs.
    for line in [
        "Sat 2026-01-31 12:00:00 UTC Backup done: x",
        "Sat 2026-01-31 12:00:00 UTC x",
        "1769860800.000000 ERROR app: x",
        "1769860800.000000 app: x y: z",
        "1769860800.000    178 192.0.2.1 TCP_MISS/200 12 GET http://a/ - HIER_NONE/- text/html",
    ] {
        for origin in [file(), syslog_udp()] {
            let ([hostname, app_name, ..], time) = of(&origin, line);
            assert_eq!((hostname, app_name), (None, None), "{line}");
            assert_eq!(time, "2026-01-31T12:00:00Z", "{line}");
        }
    }
}
