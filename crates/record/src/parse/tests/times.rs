//! The time of lines in the forms in which programs write it.

use super::*;

const NOON: &str = "2026-01-31T12:00:00Z";
const QUARTER: &str = "2026-01-31T12:00:00.25Z";

/// A line and its time.
type Timed = (&'static str, &'static str);

const LINES: &[Timed] = &[
    // Redis, with and without a year
    ("98738:M 31 Jan 2026 12:00:00.250 # x", QUARTER),
    ("98738:M 31 Jan 12:00:00.250 * Ready", QUARTER),
    // MySQL and MariaDB
    ("260131 12:00:00 [Note] Plugin is disabled.", NOON),
    ("260131  4:18:50 [Note] Plugin is disabled.", "2026-01-31T04:18:50Z"),
    ("2026-01-31  4:48:11 0 [ERROR] InnoDB: failed", "2026-01-31T04:48:11Z"),
    ("# Time: 2026-01-31T12:00:00.250000Z", QUARTER),
    ("# Time: 260131  4:18:50", "2026-01-31T04:18:50Z"),
    // PHP
    ("[31-Jan-2026 12:00:00 UTC] PHP Fatal error:  Uncaught x", NOON),
    ("[31-Jan-2026 12:00:00] WARNING: [pool www] busy", NOON),
    ("[31-Jan-2026 13:00:00 CET] x", NOON),
    // MongoDB 2.4, Nextflow, Bareos, JavaScript, OpenAM, Consul
    ("Sat Jan 31 12:00:00.250 [conn1] x", QUARTER),
    ("Jan-31 12:00:00.250 [main] DEBUG x", QUARTER),
    ("31-Jan 12:00 bareos-sd JobId 1: x", NOON),
    ("Sat Jan 31 2026 13:00:00 GMT+0100 (CET) x", NOON),
    ("\"2026-01-31 12:00:00\" \"x\"", NOON),
    ("    2026-01-31T12:00:00.250Z [ERROR] agent: x", QUARTER),
    // S3, CUPS, Django, HAProxy
    ("79a5 bucket [31/Jan/2026:12:00:00 +0000] 192.0.2.3 79a5 3E REST.GET - \"GET /k\" 200", NOON),
    ("E [31/Jan/2026:13:00:00 +0100] x", NOON),
    ("[31/Jan/2026 12:00:00] \"GET / HTTP/1.1\" 200 12", NOON),
    ("[31/Jan/2026:12:00:00.250] fe be/srv1", QUARTER),
    // The level first
    ("ERROR [main] 2026-01-31 12:00:00,250 Loader.java:92 - Configuration", QUARTER),
    ("INFO  [Service Thread:1] 2026-01-31 12:00:00,250 x", QUARTER),
    ("[error] 2026-01-31T12:00:00.250Z node@x <0.1.0> x", QUARTER),
    ("WARN 2026-01-31 12:00:00 x", NOON),
    ("[INFO][2026-01-31 12:00:00] x", NOON),
    // Rails
    ("Started GET \"/x\" for 192.0.2.1 at 2026-01-31 13:00:00 +0100", NOON),
    ("I, [2026-01-31T12:00:00.250000 #1]  INFO -- : x", QUARTER),
    // Java's own logging
    ("Jan 31, 2026 12:00:00 PM com.example.Main main", NOON),
    ("Jan 31, 2026 12:00:00\u{202f}PM com.example.Main main", NOON),
    ("Jan 31, 2026 4:48:11 AM com.example.Main main", "2026-01-31T04:48:11Z"),
    ("Jan 31, 2026 4:48:11 PM com.example.Main main", "2026-01-31T16:48:11Z"),
    ("Jan 31, 2026 13:00:00 PM CET com.example.Main main", NOON),
    ("2026-01-31 12:00:00 PM x", NOON),
    ("2026-01-31 04:48:11.250 PM UTC x", "2026-01-31T16:48:11.25Z"),
    ("2026/01/31 12:00:00 AM x", "2026-01-31T00:00:00Z"),
    ("2026-01-31 12:00:00 pm", NOON),
    ("Jan 31, 2026 @ 12:00:00.250 x", QUARTER),
    // Erlang
    ("=ERROR REPORT==== 31-Jan-2026::12:00:00.250000 === x", QUARTER),
    ("=INFO REPORT==== 1-Jan-2026::12:00:00 ===", "2026-01-01T12:00:00Z"),
    // uWSGI
    (
        "[pid: 88185|app: 0|req: 1/1] 192.0.2.1 () {38 vars in 696 bytes} [Sat Jan 31 12:00:00 2026] POST /x",
        NOON,
    ),
    // TAI64N
    ("@40000000697deeca0ee6b280 tcpserver: status: 5/30", QUARTER),
    // docker compose
    ("web-1  | 2026-01-31T12:00:00.250000000Z WARNING: x", QUARTER),
    ("web-1  | [2026-01-31 12:00:00] x", NOON),
    ("db_1 | 2026/01/31 12:00:00 [error] x", NOON),
    // date
    ("Sat Jan 31 12:00:00 UTC 2026 x", NOON),
    ("Sat Jan 31 13:00:00 CET 2026 x", NOON),
    ("Sat Jan 31 06:00:00 CST 2026 x", NOON),
    ("Sat Jan 31 12:00:00 PM UTC 2026 x", NOON),
    ("Sat 31 Jan 2026 12:00:00 PM UTC x", NOON),
    ("Sat Jan 31 12:00:00 2026", NOON),
    ("Sat 2026-01-31 12:00:00 UTC x", NOON),
    // Numbers since 1970
    ("1769860800250 Hello", QUARTER),
    ("[1769860800.250000] x", QUARTER),
    // Without separators
    ("20260131.120000,250:DEBUG:foo bar", QUARTER),
    ("20260131 12:00:00 x", NOON),
    ("20260131-12:00:00 x", NOON),
    ("20260131-120000 x", NOON),
    ("20260131T120000.250Z x", QUARTER),
    ("31Jan2026 12:00:00 x", NOON),
    // The day of the year
    ("2026-031T12:00:00,250:DEBUG:foo", QUARTER),
    // WebLogic, WebSphere
    ("####<Jan 31, 2026 12:00:00 PM UTC> <Error> <Server> x", NOON),
    ("####<Jan 31, 2026 12:00:00,250 PM UTC> <Error> <Server> x", QUARTER),
    ("####<Jan 31, 2026, 12:00:00,250 PM Coordinated Universal Time> <Info> x", QUARTER),
    ("[1/31/26 12:00:00:250 UTC] 00000001 SystemErr     R x", QUARTER),
    ("[1/31/26, 13:00:00:250 CET] 00000001 SystemOut     O x", QUARTER),
    // CloudFront, IIS
    ("2026-01-31\t12:00:00\tIAD53\t224281\t192.0.2.1\tGET", NOON),
    ("2026-01-31 12:00:00 W3SVC1 192.0.2.1 GET /", NOON),
    // WebLogic at the standard output, Akka, Windows' DHCP server, Db2, dmesg -xT
    ("<Jan 31, 2026 12:00:00 PM UTC> <Error> <Server> <BEA-000000> <x>", NOON),
    ("<Jan 31, 2026, 12:00:00,250 PM UTC> <Notice> <WebLogicServer> x", QUARTER),
    ("[INFO] [01/31/2026 12:00:00.250] [main] [akka://a] x", QUARTER),
    ("ERROR 31-Jan-2026 12:00:00 x", NOON),
    ("WARN [31/Jan/2026:13:00:00 +0100] x", NOON),
    ("10,01/31/26,12:00:00,Assign,192.0.2.7,pc1,", NOON),
    ("2026-01-31-13.00.00.250000+060 I1234E567           LEVEL: Error", QUARTER),
    ("2026-01-31-07.00.00.250000-300 E1234E567           LEVEL: Info", QUARTER),
    ("kern  :info  : [Sat Jan 31 12:00:00 2026] usb 1-1: x", NOON),
    // Suricata, Snort
    ("01/31/2026-12:00:00.250000  [**] [1:2100498:7] x [**]", QUARTER),
    ("01/31-12:00:00.250000  [**] [1:2100498:7] x [**]", QUARTER),
    // Other orders
    ("1/31/2026 12:00:00 PM x", NOON),
    ("31/01/2026 12:00:00 x", NOON),
    ("12/11/2026 12:00:00 x", "2026-11-12T12:00:00Z"),
    ("01/02/2026 12:00:00 x", "2026-01-02T12:00:00Z"),
    // The year with two digits
    ("17/06/09 20:10:40 INFO x", "2017-06-09T20:10:40Z"),
    ("26/11/20 12:00:00 INFO x", "2026-11-20T12:00:00Z"),
    ("11/10/26 12:00:00 INFO x", "2026-11-10T12:00:00Z"),
    ("11/20/26 12:00:00 INFO x", "2026-11-20T12:00:00Z"),
    ("20/11/26 12:00:00 INFO x", "2026-11-20T12:00:00Z"),
    ("1/31/26 4:48:11 AM x", "2026-01-31T04:48:11Z"),
    ("1/31/26, 12:00:00 PM x", NOON),
    ("[31/01/26 12:00:00] x", NOON),
    // Milliseconds behind a colon
    ("2026-01-31 12:00:00:250 x", QUARTER),
    ("2026-01-31T12:00:00:250Z x", QUARTER),
    ("[2026/01/31 12:00:00:250] x", QUARTER),
    ("31-Jan-2026 12:00:00:250 x", QUARTER),
    ("31.01.2026 12:00:00:250 x", QUARTER),
    ("1/31/2026 12:00:00:250 PM x", QUARTER),
    // Domino, Suricata, Unreal Engine, ntpd, Rust's fern, Chromium, Couchbase
    ("[0A8C:0002-0F9C] 01/31/2026 12:00:00 PM  Server started", NOON),
    ("[12 - Suricata-Main] 2026-01-31 12:00:00 Notice: x", NOON),
    ("31/1/2026 -- 12:00:00 - <Notice> - x", NOON),
    ("1/2/2026 -- 12:00:00 - <Info> - x", "2026-02-01T12:00:00Z"),
    ("[2026.01.31-12.00.00:250][  0]LogInit: x", QUARTER),
    ("31 Jan 12:00:00 ntpd[712]: x", NOON),
    ("[2026-01-31][12:00:00][shop::cart][INFO] x", NOON),
    ("[712:713:0131/120000.250000:ERROR:a.cc(7)] x", QUARTER),
    ("[ns_server:info,2026-01-31T12:00:00.250Z,ns_1@cb1:<0.1.0>:a:7]x", QUARTER),
    // JavaScript in German, NestJS, a network load balancer of AWS, SAP ASE
    ("31.1.2026, 12:00:00 x", NOON),
    ("[Nest] 712  - 01/31/2026, 12:00:00 PM     LOG [App] x", NOON),
    ("[Nest] 12   - 31.1.2026, 12:00:00     WARN [App] x", NOON),
    ("\u{1b}[32m[Nest] 7  - \u{1b}[39m01/31/2026, 12:00:00 PM \u{1b}[32m    LOG\u{1b}[39m", NOON),
    ("tls 2.0 2026-01-31T12:00:00 net/lb1/c6e7 g3d4 192.0.2.1:51341 192.0.2.2:443 5 2", NOON),
    ("00:0002:00000:00012:2026/01/31 12:00:00.25 kernel  x", QUARTER),
    ("01-31-2026 12:00:00.250 +0000 INFO  Metrics - x", QUARTER),
    ("31.01.2026 12:00:00 x", NOON),
    ("01-31 12:00:00.250  1234  1234 E Tag: x", QUARTER),
    ("2026 Jan 31 12:00:00 x", NOON),
    ("31-JAN-2026 12:00:00 x", NOON),
    ("2026-01-31-12.00.00.250000+000 I1E2 LEVEL: Error", QUARTER),
    ("(2026-01-31 12:00:00): [be[x]] [fn] (0x0020): x", NOON),
    ("(Sat Jan 31 12:00:00 2026) [sssd] x", NOON),
    ("[Jan 31 12:00:00] WARNING[1234] chan_sip.c: x", NOON),
    ("[2026-01-31, 12:00:00 UTC] {a.py:1} INFO - x", NOON),
    ("[W 2026-01-31 12:00:00.250 ServerApp] x", QUARTER),
    ("[I 260131 12:00:00 web:2239] 200 GET /", NOON),
    ("I260131 12:00:00.250000 1 file.go:1  x", QUARTER),
    ("Jan 31 12:00:00 ERROR foo: bar", NOON),
    // Zones
    ("2026-01-31 12:00:00 [UTC] x", NOON),
    ("2026-01-31T12:00:00.250Z[UTC] x", QUARTER),
    ("2026-01-31T13:00:00.250+01:00[Europe/Berlin] x", QUARTER),
    ("2026-01-31 13:00:00 GMT+1 x", NOON),
    ("2026-01-31 07:00:00.250 EST [3474] app@shop LOG:  x", QUARTER),
    ("2026-01-31 14:00:00.250 CEST [3474] app@shop LOG:  x", QUARTER),
    ("2026-01-31 08:00:00.250 EDT [3474] app@shop LOG:  x", QUARTER),
    ("2026-01-31 06:00:00.250 CST [3474] app@shop LOG:  x", QUARTER),
    // Minutes and days
    ("2026-01-31 12:00 x", NOON),
    ("2026-01-31T12:00Z x", NOON),
    ("[2026-01-31 12:00] x", NOON),
    ("2026/01/31 12:00: x", NOON),
    ("31.01.2026 12:00 x", NOON),
    ("1/31/2026 12:00 PM x", NOON),
    ("2026-01-31 x", "2026-01-31T00:00:00Z"),
    ("2026/01/31: x", "2026-01-31T00:00:00Z"),
    ("[2026-01-31] x", "2026-01-31T00:00:00Z"),
    ("31.01.2026 x", "2026-01-31T00:00:00Z"),
    ("2026-01-31", "2026-01-31T00:00:00Z"),
    // A day of arrival says less than the arrival.
    ("2026-11-21 x", "2026-11-21T12:00:00Z"),
    // Months in other languages
    ("31. Januar 2026 12:00:00 x", NOON),
    ("31 janvier 2026 12:00:00 x", NOON),
    ("31 janv. 2026 12:00:00 x", NOON),
    ("5 Okt 2025 11:08:37 x", "2025-10-05T11:08:37Z"),
    ("19 août 2026 11:08:37 x", "2026-08-19T11:08:37Z"),
    ("Sa 31. Jan 2026 12:00:00 x", NOON),
    ("7 März 2026 12:00:00 x", "2026-03-07T12:00:00Z"),
    ("31-DEZ-2025 12:00:00 x", "2025-12-31T12:00:00Z"),
];

fn time_of(origin: &Origin, lines: &[&[u8]]) -> String {
    let batch = parse_with(&ParserConfig::default(), origin, lines);
    let row = batch.row(lines.len() - 1);
    assert_eq!(row.raw(), lines[lines.len() - 1]);
    assert_eq!(row.get_by_name("_note"), None, "{}", String::from_utf8_lossy(row.raw()));
    time_text(row.time_ns())
}

#[test]
fn lines() {
    for (line, time) in LINES {
        assert_eq!(time_of(&file(), &[line.as_bytes()]), *time, "{line}");
        // In the message of an object that has no time of its own.
        let object = format!("{{\"message\":{}}}", serde_json::to_string(line).unwrap());
        let json = http(Format::Json, Hints::default());
        assert_eq!(time_of(&json, &[object.as_bytes()]), *time, "{object}");
    }
}

/// The form of the line before is tried first, and must not make a difference.
#[test]
fn each_line_after_each_other() {
    for (before, _) in LINES {
        for (line, time) in LINES {
            let lines = [before.as_bytes(), line.as_bytes()];
            assert_eq!(time_of(&file(), &lines), *time, "{line} after {before}");
        }
    }
}

#[test]
fn heads() {
    let rows = [
        ("<13>Okt  5 11:08:37 hst32 app[5]: x", "hst32", "2026-10-05T11:08:37Z"),
        ("<13>août 19 11:08:37 hst33 app[5]: x", "hst33", "2026-08-19T11:08:37Z"),
        ("<13>Dez 31 12:00:00 h app[5]: x", "h", "2025-12-31T12:00:00Z"),
        ("<13>déc. 31 12:00:00 h app[5]: x", "h", "2025-12-31T12:00:00Z"),
        ("<13>Jan 31 13:00:00 CET h app[5]: x", "h", NOON),
        ("<13>Jan 31 08:00:00 EDT h app[5]: x", "h", NOON),
        ("<13>Jan 31 06:00:00 CST h app[5]: x", "h", NOON),
    ];
    for (line, host, time) in rows {
        let batch = parse_with(&ParserConfig::default(), &syslog_udp(), &[line.as_bytes()]);
        let row = batch.row(0);
        assert_eq!(row.get_by_name("hostname"), Some(host.as_bytes()), "{line}");
        assert_eq!(row.get_by_name("app_name"), Some(&b"app"[..]), "{line}");
        assert_eq!(row.get_by_name("_note"), None, "{line}");
        assert_eq!(time_text(row.time_ns()), time, "{line}");
    }
}

/// Keys of times, and times as values.
#[test]
fn keys() {
    let json = http(Format::Json, Hints::default());
    for line in [
        r#"{"time":"2026-01-31 12:00:00 PM","msg":"m"}"#,
        r#"{"timestamp":"Sat Jan 31 12:00:00 UTC 2026","msg":"m"}"#,
        r#"{"time":"2026-01-31T12:00:00Z[UTC]","msg":"m"}"#,
        r#"{"ts":"1/31/2026 12:00:00 PM","msg":"m"}"#,
        r#"{"dateTime":"2026-01-31T12:00:00Z","msg":"m"}"#,
        r#"{"DateTime":"2026-01-31T12:00:00Z","msg":"m"}"#,
        r#"{"t":{"$date":{"$numberLong":"1769860800000"}},"s":"I","msg":"m"}"#,
        r#"{"date":"2026-01-31","time":"12:00:00","msg":"m"}"#,
        r#"{"date":"2026-01-31","time":"13:00:00","tz":"+0100","msg":"m"}"#,
        r#"{"date":"2026-01-31","time":"13:00:00","timezone":"CET","msg":"m"}"#,
        r#"{"ISODATE":"2026-01-31T12:00:00Z","msg":"m"}"#,
        r#"{"calendarTime":"Sat Jan 31 12:00:00 2026 UTC","msg":"m"}"#,
        r#"{"LogTimestamp":"Sat Jan 31 12:00:00 2026","msg":"m"}"#,
        r#"{"EdgeStartTimestamp":"2026-01-31T12:00:00Z","msg":"m"}"#,
        r#"{"datetime":{"date":"2026-01-31 12:00:00","timezone":"UTC"},"msg":"m"}"#,
    ] {
        assert_eq!(time_of(&json, &[line.as_bytes()]), NOON, "{line}");
    }
}

/// A usual key, or a head, that holds a time which cannot be read is noted, and nothing else is.
#[test]
fn unreadable_times_are_noted() {
    let note = |origin: &Origin, line: &str| {
        let batch = parse_with(&ParserConfig::default(), origin, &[line.as_bytes()]);
        assert_eq!(time_text(batch.row(0).time_ns()), "2026-11-21T12:00:00Z", "{line}");
        batch.row(0).get_by_name("_note").map(|n| String::from_utf8_lossy(n).into_owned())
    };
    let unreadable = Some("time not readable, arrival taken".to_owned());
    let json = http(Format::Json, Hints::default());
    for line in [
        r#"{"time":"soon","msg":"m"}"#,
        r#"{"timestamp":"31-31-2026 12:00:00","msg":"m"}"#,
        r#"{"ts":"2026-13-31T12:00:00Z","msg":"m"}"#,
        r#"{"@timestamp":"x","msg":"m"}"#,
        r#"{"eventTime":"2026-31-01T12:00:00Z","msg":"m"}"#,
        r#"{"time":"12:00:00","msg":"m"}"#,
    ] {
        assert_eq!(note(&json, line), unreadable, "{line}");
    }
    for line in [
        r#"{"time":0.25,"msg":"m"}"#,
        r#"{"time":12,"msg":"m"}"#,
        r#"{"time":"12.5ms","msg":"m"}"#,
        r#"{"time":"","msg":"m"}"#,
        r#"{"ts":0,"msg":"m"}"#,
        r#"{"eventTime":"soon","msg":"m"}"#,
        r#"{"msg":"m"}"#,
    ] {
        assert_eq!(note(&json, line), None, "{line}");
    }
    for line in [
        "<13>Nov 31 12:00:00 h app: x",
        "<13>Xyz 21 12:00:00 h app: x",
        "<13>Nov 21 25:00:00 h app: x",
        "<13>2026-13-21T12:00:00Z h app: x",
        "<13>2026-11-21 12:61:00 h app: x",
        "<13>1 yesterday h app 1 - - x",
    ] {
        assert_eq!(note(&syslog_udp(), line), unreadable, "{line}");
    }
    for line in ["2026-13-01 12:00:00 ERROR x", "[2026-01-31 25:00:00,123] x"] {
        assert_eq!(note(&file(), line), unreadable, "{line}");
    }
    for line in ["2026-13-01", "0000 x", "12:00:00 x", "Nov 31 of x"] {
        assert_eq!(note(&file(), line), None, "{line}");
    }
    let batch = parse_with(
        &ParserConfig::default(),
        &syslog_udp(),
        &[b"<13>Nov 31 12:00:00 h app[7]: x", b"<13>2026-13-21T12:00:00Z h app[7]: x"],
    );
    for row in batch.rows() {
        assert_eq!(row.get_by_name("hostname"), Some(&b"h"[..]));
        assert_eq!(row.get_by_name("app_name"), Some(&b"app"[..]));
        assert_eq!(row.get_by_name("_msg"), Some(&b"x"[..]));
    }
}
