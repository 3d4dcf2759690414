//! The level of a text is the same, whichever way the text comes in.

use super::*;

/// A text and its level (`-` for none).
type Text = (&'static str, &'static str);

/// Lines of programs whose time is in the line.
const TIMED: &[Text] = &[
    // An ISO time, then a level.
    ("2026-01-31T12:00:00Z ERROR foo: bar", "error"),
    ("2026-01-31T12:00:00.735123Z ERROR my_crate: request{id=7}: failed", "error"),
    ("2026-01-31T12:00:00.735Z DEBUG request: GET /", "debug"),
    ("2026-01-31T12:00:00Z INF starting app=foo", "info"),
    ("2026-01-31T12:00:00Z ERR failed to connect error=\"x\"", "error"),
    ("2026-01-31T12:00:00Z WRN retry: 3", "warning"),
    ("2026-01-31T12:00:00.735Z warning vpxd[47756] [Originator@6876 sub=x] y", "warning"),
    ("2026-01-31T12:00:00.735Z verbose hostd[2099] [Originator@6876 sub=x] y", "debug"),
    ("2026-01-31T12:00:00.677+0000 E STORAGE  [initandlisten] failed", "error"),
    ("2026-01-31T12:00:00.677+0000 E  STORAGE  [initandlisten] failed", "error"),
    ("2026-01-31T12:00:00.677+0000 D2 REPL     [conn1] x", "debug"),
    ("2026-01-31T12:00:00Z E! [outputs.influxdb] failed", "error"),
    ("[1] 2026/01/31 12:00:00.123456 [ERR] failed", "error"),
    ("2026-01-31T12:00:00+00:00 err rbd  [22968]lotus:ERROR:no answer", "error"),
    ("2026-01-31T12:00:00Z crit: disk full", "critical"),
    ("2026-01-31T12:00:00.735Z [ERROR] core: failed", "error"),
    ("2026-01-31T12:00:00.735Z\tWARN\tmain\tx", "warning"),
    ("2026-01-31 12:00:00.735:WARN:oejs.Server:main: x", "warning"),
    ("2026-01-31 12:00:00,735:ERROR:worker:x", "error"),
    ("2026-01-31 12:00:00.735 [error] <0.123.0> x", "error"),
    ("2026-01-31 12:00:00.735 I | etcdserver: x", "info"),
    ("2026-01-31 12:00:00.735  1234  5678 E AndroidRuntime: x", "error"),
    ("[2026-01-31 12:00:00] local.ERROR: Undefined variable {\"a\":1}", "error"),
    ("[2026-01-31T12:00:00.123456+00:00] app.CRITICAL: x [] []", "critical"),
    ("[2026-01-31 12:00:00,735: WARNING/MainProcess] x", "warning"),
    ("[2026-01-31 12:00:00,735: ERROR/ForkPoolWorker-1] Task failed", "error"),
    ("[2026/01/31 12:00:00] [ warn] [input:tail:0] x", "warning"),
    ("[2026/01/31 12:00:00 +00:00] [INFO] [server.rs:1] x", "info"),
    ("2026-01-31 12:00:00 +0000 [warn]: #0 x", "warning"),
    ("[2026-01-31 12:00:00] ERROR[1234] chan_sip.c: x", "error"),
    ("2026/01/31 12:00:00 [E] x", "error"),
    ("2026-01-31T12:00:00.735Z [7F3C error 'Default' opID=x] failed", "error"),
    ("2026-01-31T12:00:00.735Z [7F3C is 'Default'] x", "-"),
    ("2026-01-31T12:00:00.735Z - error: failed", "error"),
    ("2026-01-31T12:00:00.735Z cpu2:2097)WARNING: NFS: x", "warning"),
    ("E [31/Jan/2026:12:00:00 +0000] x", "error"),
    ("N [31/Jan/2026:12:00:00 +0000] x", "notice"),
    ("[2026-01-31 12:00:00 +0000] critical/Checker: x", "critical"),
    ("[2026-01-31 12:00:00 +0000] a/Checker: x", "-"),
    ("[2026-01-31T12:00:00.735Z] W santad: x", "warning"),
    ("[2026-01-31T12:00:00.735Z] I am: x y", "info"),
    ("[2026-01-31T12:00:00.735Z] I am here", "-"),
    ("    2026-01-31T12:00:00.735Z [ERROR] agent: x", "error"),
    ("2026/01/31 12:00:00 ossec-agentd(1): INFO: x", "info"),
    ("2026/01/31 12:00:00 kid1| WARNING: x", "warning"),
    ("[2026-01-31T12:00:00,735][WARN ][o.e.x] [node] y", "warning"),
    ("2026.01.31 12:00:00.735123 [ 123 ] {} <Error> Application: x", "error"),
    ("2026.01.31 12:00:00.735123 [ 123 ] {} <Trace> Application: x", "debug"),
    ("2026-01-31 12:00:00.735  WARN 1 --- [main] x", "warning"),
    ("2026-01-31 12:00:00.735 UTC [12] app@shop ERROR:  relation does not exist", "error"),
    ("2026-01-31 12:00:00.735 UTC [12] app@shop LOG:  duration: 3 ms", "info"),
    ("2026-01-31 12:00:00.735 UTC [12] app@shop DEBUG3:  x", "debug"),
    ("2026-01-31 12:00:00.735 UTC [12] app@shop PANIC:  x", "emerg"),
    ("2026-01-31 12:00:00.735 UTC [12] app@shop STATEMENT:  SELECT ERROR FROM t", "-"),
    ("[31-Jan-2026 12:00:00 UTC] PHP Fatal error:  Uncaught x", "critical"),
    ("[31-Jan-2026 12:00:00] PHP Warning:  x", "warning"),
    ("31-Jan-2026 12:00:00.735 general: error: x", "error"),
    ("31-Jan-2026 12:00:00.735 queries: info: client 192.0.2.1#53: query: a IN A", "info"),
    ("31-Jan-2026 12:00:00.735 security: warning: client x", "warning"),
    ("[Sat Jan 31 12:00:00.735 2026] [ssl:trace5] [pid 1] x", "debug"),
    ("[Sat Jan 31 12:00:00.735 2026] [core:error] [pid 1] x", "error"),
    ("[Sat Jan 31 12:00:00 2026] [mpm_event:notice] [pid 1] x", "notice"),
    ("[1769860800] unbound[1234:0] error: x", "error"),
    ("[1769860800] unbound[1234:0] info: x", "info"),
    ("[1769860800] SERVICE ALERT: web1;http;OK;SOFT;1;x", "-"),
    ("W0131 12:00:00.735123    1234 main.go:10] x", "warning"),
    ("F0131 12:00:00.735123    1234 main.go:10] x", "critical"),
    ("1:M 31 Jan 2026 12:00:00.735 # x", "warning"),
    ("E, [2026-01-31T12:00:00.735123 #1] ERROR -- : x", "error"),
    // WebSphere, GlusterFS, ESXi 8, Puppet, libvirt, Db2
    ("[1/31/26 12:00:00:735 UTC] 0000004a ServletWrappe E   com.ibm.x SRVE0068E: x", "error"),
    ("[1/31/26, 12:00:00:735 UTC] 00000001 com.ibm.ws.kernel.Manager    A CWWKE0001I: x", "notice"),
    ("[1/31/26 12:00:00:735 UTC] 00000001 SystemOut     O x", "-"),
    ("[2026-01-31 12:00:00.735123 +0000] E [MSGID: 108006] [afr-common.c:1:x] 0-vol: x", "error"),
    ("[2026-01-31 12:00:00.735123] N [glusterfsd.c:1:main] x", "notice"),
    ("2026-01-31T12:00:00.735Z Wa(164) Hostd[2099]: [Originator@6876 sub=x] y", "warning"),
    ("2026-01-31T12:00:00.735Z In(163) Hostd[2099]: x", "-"),
    ("2026-01-31 12:00:00 +0000 Puppet (err): Could not retrieve catalog", "error"),
    ("2026-01-31 12:00:00.735+0000: 712: error : virNetSocketReadWire:1 : End of file", "error"),
    ("2026-01-31-12.00.00.735123+000 I1234E567           LEVEL: Error", "error"),
    // NestJS, PgBouncer, EXOS, SAP HANA, macOS
    ("[Nest] 712  - 01/31/2026, 12:00:00 PM     LOG [NestFactory] Starting", "info"),
    ("[Nest] 712  - 01/31/2026, 12:00:00 PM   ERROR [App] x", "error"),
    (
        "\u{1b}[32m[Nest] 712  - \u{1b}[39m01/31/2026, 12:00:00 PM \u{1b}[32m    LOG\u{1b}[39m \u{1b}[33m[App] x",
        "info",
    ),
    ("2026-01-31 12:00:00.735 UTC [712] LOG C-0x5581: shop/app@192.0.2.1:1234 login", "info"),
    ("2026-01-31 12:00:00.735 UTC [712] WARNING C-0x5581: x", "warning"),
    ("01/31/2026 12:00:00.73 <Noti:vlan.msgs.portLinkStateDown> Port 1 link down", "notice"),
    ("01/31/2026 12:00:00.73 <Erro:HAL.Port.Error> x", "error"),
    ("01/31/2026 12:00:00.73 <Info:element>x", "-"),
    ("[712]{-1}[-1/-1] 2026-01-31 12:00:00.735123 e TraceContext     a.cpp(1) : x", "error"),
    ("[712]{200}[9/-1] 2026-01-31 12:00:00.735123 i Backup           x", "info"),
    ("2026-01-31 12:00:00.735123+0000 0x1f3      Error       0x0  712  0  launchd: x", "error"),
    ("2026-01-31 12:00:00.735123+0000 0x1f3      Fault       0x0  712  0  launchd: x", "critical"),
    ("2026-01-31 12:00:00.735123+0000 0x1f3      Default     0x0  712  0  launchd: x", "-"),
    // NLog, Veeam, Couchbase, Chromium, Unreal Engine
    ("2026-01-31 12:00:00.7|Info|Bootstrap|x", "info"),
    ("2026-01-31 12:00:00 | warn | x", "warning"),
    ("2026-01-31 12:00:00 | error of x | y", "-"),
    ("[31.01.2026 12:00:00] <01> Error        x", "error"),
    ("[31.01.2026 12:00:00.735]    <01>    Warning (3)    x", "warning"),
    ("[ns_server:warn,2026-01-31T12:00:00.735Z,ns_1@cb1:<0.1.0>:a:7]x", "warning"),
    ("[712:713:0131/120000.735123:ERROR:a.cc(7)] x", "error"),
    ("[2026.01.31-12.00.00:735][  0]LogInit: Warning: x", "warning"),
    ("[2026-01-31][12:00:00][shop::cart][WARN] x", "warning"),
    // SQL Server
    ("2026-01-31 12:00:00.73 spid51      Error: 1205, Severity: 13, State: 51.", "error"),
    ("2026-01-31 12:00:00.73 spid51      Starting up database 'shop'.", "-"),
    // In other languages
    ("31-Jan-2026 12:00:00.735 SCHWERWIEGEND [main] org.apache.catalina.x y", "error"),
    ("31-Jan-2026 12:00:00.735 GRAVE [main] org.apache.catalina.x y", "error"),
    ("2026-01-31 12:00:00.735 CET [12] app@shop FEHLER:  Relation existiert nicht", "error"),
    ("2026-01-31 12:00:00.735 CET [12] app@shop ATTENTION:  x", "warning"),
    ("2026-01-31 12:00:00.735 CET [12] app@shop ANWEISUNG:  SELECT ERROR FROM t", "-"),
    // Not a level.
    ("2026-01-31T12:00:00Z Server listening on port: 80", "-"),
    ("2026-01-31T12:00:00Z Starting worker: 5", "-"),
    ("2026-01-31T12:00:00Z 12 workers: ready", "-"),
    ("2026-01-31T12:00:00Z alert rules were loaded", "-"),
    ("2026-01-31T12:00:00Z no errors were found", "-"),
    ("2026-01-31T12:00:00Z started with --level=debug", "-"),
    ("2026-01-31T12:00:00Z error_count=0 warnings=3", "-"),
    ("2026-01-31T12:00:00Z loglevel=7", "-"),
];

/// Lines and messages without a time.
const UNTIMED: &[Text] = &[
    ("ERROR:root:x", "error"),
    ("ERROR: x", "error"),
    ("Error: x", "error"),
    ("INFO:     192.0.2.1:1234 - \"GET / HTTP/1.1\" 200 OK", "info"),
    ("FINE: x", "debug"),
    ("CONFIG: x", "info"),
    ("SEVERE: x", "error"),
    ("PHP Fatal error:  Uncaught Error: x in /srv/a.php:3", "critical"),
    ("PHP Parse error:  syntax error", "critical"),
    ("PHP Warning:  Undefined variable", "warning"),
    ("PHP Notice:  x", "notice"),
    ("PHP Deprecated:  x", "notice"),
    ("PHP message: PHP Warning:  x", "warning"),
    ("Fatal error: Uncaught x", "critical"),
    ("=ERROR REPORT==== x", "error"),
    ("=CRASH REPORT==== x", "error"),
    ("=PROGRESS REPORT==== x", "info"),
    ("INFO[0012] started", "info"),
    ("ERRO[0012] failed", "error"),
    ("[error] 12#0: *1 open() failed", "error"),
    ("<info>  [1769860800.1] manager: x", "info"),
    ("level=warn msg=\"x y\" user=a", "warning"),
    ("msg=\"x y\" LVL=eror", "error"),
    ("at=error code=H12 desc=\"Request timeout\"", "error"),
    ("x {\"level\":\"error\",\"a\":1}", "error"),
    ("W/ActivityManager(  123): x", "warning"),
    ("\u{1b}[31merror\u{1b}[39m: x", "error"),
    ("\u{1b}[31mERROR: x\u{1b}[0m", "error"),
    ("NOTIFY [NOTIFICATION] [x]", "notice"),
    ("[soa_server1] [NOTIFICATION:16] [x]", "notice"),
    ("info hostd[2099] [Originator@6876] x", "info"),
    ("web-1  | error: x", "error"),
    ("an ERROR was seen", "error"),
    ("%MGBL-SYS-3-CONFIG_I : x", "error"),
    ("kern  :err   : [    1.234567] usb 1-1: x", "error"),
    ("daemon:notice: [    1.234567] systemd[1]: x", "notice"),
    ("[ID 702911 auth.error] x", "error"),
    ("[ID 800047 auth.info] error: x", "error"),
    ("[12:00:00] [Server thread/WARN]: Can't keep up!", "warning"),
    ("[    52.123] (EE) Failed to load module", "error"),
    ("(WW) The directory does not exist", "warning"),
    ("(shell:712): GLib-GObject-CRITICAL **: 12:00:00.735: x", "critical"),
    ("pacemakerd  [712] (crm_log)\tnotice: x", "notice"),
    ("Fehler: x", "error"),
    ("WARNUNG: x", "warning"),
    ("AVERTISSEMENT: x", "warning"),
    ("GRAVE: x", "error"),
    // Not a level.
    ("mail: error reports (EE) of [ID 7 x]", "-"),
    ("GET /API/ERROR of it", "-"),
    ("the log of (error) x", "-"),
    ("the GRAVE of it", "-"),
    ("ATTENTION: x", "-"),
    ("an error was seen", "-"),
    ("I/O error on device sda", "-"),
    ("A/B ERROR_COUNT of the test", "-"),
    ("LOG_LEVEL=3 DEBUG_MODE=1", "-"),
    ("x.ERROR.y CBS_E_INFO ERROR-5", "-"),
    ("<error>x</error>text", "error"),
    ("the <error> of <info>", "-"),
    ("run --log-level=debug --level=info", "-"),
    ("level=error-prone/x.log", "error"),
    ("level=high", "-"),
    ("std::error: x", "-"),
    ("setting the log level: debug", "-"),
    ("RequestResponse", "-"),
    ("informational", "-"),
    ("", "-"),
];

fn level_of(origin: &Origin, line: &str) -> String {
    let batch = parse_with(&ParserConfig::default(), origin, &[line.as_bytes()]);
    let row = batch.row(0);
    assert_eq!(row.raw(), line.as_bytes());
    row.get_by_name("_level").map_or("-".into(), |l| String::from_utf8_lossy(l).into_owned())
}

/// A text as a string of JSON.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

#[test]
fn a_text_has_the_same_level_in_every_way_in() {
    let tcp = Origin::new(Transport::SyslogTcp, Format::Syslog, None);
    let json = http(Format::Json, Hints::default());
    for (text, level) in TIMED.iter().chain(UNTIMED) {
        assert_eq!(level_of(&file(), text), *level, "a file: {text}");
        assert_eq!(level_of(&tcp, text), *level, "syslog without PRI: {text}");
        let line = format!("{{\"_msg\":{}}}", quoted(text));
        assert_eq!(level_of(&json, &line), *level, "JSON: {text}");
        let line = format!("{{\"time\":\"2026-01-31T12:00:00Z\",\"message\":{}}}", quoted(text));
        assert_eq!(level_of(&json, &line), *level, "JSON with a time: {text}");
        let line = format!(
            "{{\"log\":{},\"stream\":\"stderr\",\"time\":\"2026-01-31T12:00:00Z\"}}",
            quoted(&format!("{text}\n"))
        );
        assert_eq!(level_of(&file(), &line), *level, "Docker: {text}");
        let line = format!("2026-01-31T12:00:00Z stderr F {text}");
        assert_eq!(level_of(&file(), &line), *level, "CRI: {text}");
    }
}

/// The text's own level precedes the priority; without one, the priority counts.
#[test]
fn behind_a_priority_the_text_has_its_own_level() {
    for (text, level) in UNTIMED {
        let expected = if *level == "-" { "notice" } else { level };
        for head in
            ["<13>Nov 21 11:59:00 web1 app[7]: ", "<13>1 2026-11-21T11:59:00Z web1 app 7 - - "]
        {
            let line = format!("{head}{text}");
            assert_eq!(level_of(&syslog_udp(), &line), expected, "{line}");
            // The second time the head is cached; between them is a text with another level.
            let other = format!("{head}a text");
            let lines = [&line, &other, &line, &other].map(|line| line.as_bytes());
            let batch = parse_with(&ParserConfig::default(), &syslog_udp(), &lines);
            for row in batch.rows() {
                let expected = if row.raw() == line.as_bytes() { expected } else { "notice" };
                assert_eq!(row.get_by_name("_level"), Some(expected.as_bytes()), "{line}");
                // `level` and `severity` remain those of the head.
                assert_eq!(row.get_by_name("severity"), Some(&b"5"[..]));
            }
        }
    }
}

#[test]
fn a_level_is_neither_host_nor_program() {
    let tcp = Origin::new(Transport::SyslogTcp, Format::Syslog, None);
    let get = |origin: &Origin, line: &str, name: &str| {
        let batch = parse_with(&ParserConfig::default(), origin, &[line.as_bytes()]);
        batch.row(0).get_by_name(name).map(|v| String::from_utf8_lossy(v).into_owned())
    };
    let bsd =
        ["Jan 31 12:00:00 ERROR foo: bar", "Jan 31 12:00:00 warn: x", "Jan 31 12:00:00 E x: y"];
    // `ossec-agentd(1):` is a tag where syslog is expected.
    let timed = TIMED.iter().map(|(line, _)| line).filter(|line| !line.contains("ossec"));
    for line in timed.chain(&bsd) {
        for origin in [&tcp, &file()] {
            assert_eq!(get(origin, line, "hostname"), None, "{line}");
            assert_eq!(get(origin, line, "app_name"), None, "{line}");
            assert_eq!(get(origin, line, "_msg").as_deref(), Some(*line));
            assert_eq!(get(origin, line, "_type").as_deref(), Some("plain"), "{line}");
        }
    }
    // Behind a PRI the level stays in the message.
    for (line, msg) in [
        ("<13>Nov 21 12:00:00 ERROR foo: bar", "ERROR foo: bar"),
        ("<13>Nov 21 12:00:00 error: x", "error: x"),
        ("<13>2026-11-21T12:00:00Z WARN x: y", "WARN x: y"),
    ] {
        assert_eq!(get(&tcp, line, "_msg").as_deref(), Some(msg));
        assert_eq!(get(&tcp, line, "hostname"), None, "{line}");
        assert_eq!(get(&tcp, line, "app_name"), None, "{line}");
    }
    let line = "<13>Nov 21 12:00:00 web1 ERROR: x";
    assert_eq!(get(&tcp, line, "hostname").as_deref(), Some("web1"));
    assert_eq!(get(&tcp, line, "app_name"), None);
    assert_eq!(get(&tcp, line, "_msg").as_deref(), Some("ERROR: x"));
    // Heads of syslog remain some.
    for (line, host, app) in [
        ("2026-01-31T12:00:00Z web1 app[7]: fine", "web1", "app"),
        ("2026-01-31T12:00:00Z Router app[7]: fine", "Router", "app"),
        ("2026-01-31T12:00:00+01:00 web1 kernel: fine", "web1", "kernel"),
        ("2026-01-31T12:00:00Z 192.0.2.1 app: fine", "192.0.2.1", "app"),
    ] {
        for origin in [&tcp, &file()] {
            assert_eq!(get(origin, line, "hostname").as_deref(), Some(host), "{line}");
            assert_eq!(get(origin, line, "app_name").as_deref(), Some(app), "{line}");
        }
    }
}

/// Objects and pairs, also within the text of an object as shippers of Loki send them.
#[test]
fn levels_of_objects_and_pairs() {
    let sophos =
        "device=\"SFW\" date=2026-11-21 time=12:00:00 device_name=\"fw1\" priority=Warning";
    assert_eq!(level_of(&file(), sophos), "warning");
    assert_eq!(level_of(&file(), "time=2026-11-21T12:00:00Z msg=m priority=Warning"), "-");
    let fortimail =
        "date=2026-11-21 time=12:00:00.123 device_id=FE1 type=event pri=warning msg=\"x y\"";
    assert_eq!(level_of(&file(), fortimail), "warning");
    assert_eq!(level_of(&file(), "time=2026-11-21T12:00:00Z msg=m pri=warning"), "-");
    let rows: &[Text] = &[
        (r#"{"level":"error","msg":"x"}"#, "error"),
        (r#"{"log":{"level":"informationen"},"message":"x"}"#, "info"),
        (r#"{"LevelDisplayName":"Warnung","Message":"x"}"#, "warning"),
        (r#"{"@level":"warn","@message":"x"}"#, "warning"),
        (r#"{"LVL":"dbg","msg":"x"}"#, "debug"),
        (r#"{"detected_level":"warn","msg":"x"}"#, "warning"),
        (r#"{"PRIORITY":"err","MESSAGE":"x"}"#, "error"),
        (r#"{"PRIORITY":"4","MESSAGE":"x"}"#, "warning"),
        (r#"{"log":{"level":"fatal"},"message":"x"}"#, "critical"),
        (r#"{"level":50,"pid":1,"hostname":"h","msg":"x"}"#, "error"),
        (r#"{"level":"RequestResponse","auditID":"a","verb":"get"}"#, "-"),
        (r#"{"level":"Metadata","auditID":"a","verb":"get"}"#, "-"),
        (r#"{"level":"RequestResponse","msg":"ERROR x"}"#, "error"),
        (r#"{"level":42,"msg":"x"}"#, "-"),
        (r#"{"level":"","msg":"level=info x"}"#, "info"),
        (r#"ts=2026-01-31T12:00:00Z caller=a.go:1 level=warn msg="x y""#, "warning"),
        (r#"level=error msg="x""#, "error"),
        (r#"time="2026-01-31T12:00:00Z" level=fatal msg=x"#, "critical"),
    ];
    let json = http(Format::Json, Hints::default());
    for (text, level) in rows {
        assert_eq!(level_of(&file(), text), *level, "{text}");
        let line = format!(
            "{{\"job\":\"a\",\"_time\":\"2026-01-31T12:00:00Z\",\"_msg\":{}}}",
            quoted(text)
        );
        assert_eq!(level_of(&json, &line), *level, "{line}");
    }
    let late = format!("a=1 b=\"{}\" level=error", "x".repeat(400));
    let access = r#"192.0.2.1 - - [31/Jan/2026:12:00:00 +0000] "GET / HTTP/1.1" 503 12"#;
    for (text, level) in [(late.as_str(), "error"), (access, "error")] {
        assert_eq!(level_of(&json, &format!("{{\"_msg\":{}}}", quoted(text))), level);
    }
    // A key that was configured for the level keeps its word.
    let hints = Hints { level_fields: vec!["sev".into()], ..Hints::default() };
    let line = r#"{"sev":"P1","msg":"x"}"#;
    assert_eq!(level_of(&http(Format::Json, hints), line), "P1");
}

/// RouterOS sends its topics without a priority by default.
#[test]
fn topics_of_routers() {
    let rows: &[Text] = &[
        ("system,error,critical login failure for user root from 192.0.2.7", "critical"),
        ("firewall,info input: in:ether1 out:(unknown 0), proto UDP", "info"),
        ("dhcp,info,debug dhcp1 assigned 192.0.2.77", "info"),
        ("Nov 21 11:59:58 mt1 pppoe,ppp,warning x", "warning"),
        ("system,account user ada logged in", "-"),
        ("shop,error x", "-"),
        ("system,error", "-"),
    ];
    let tcp = Origin::new(Transport::SyslogTcp, Format::Syslog, None);
    for (text, level) in rows {
        assert_eq!(level_of(&file(), text), *level, "{text}");
        assert_eq!(level_of(&tcp, text), *level, "{text}");
    }
}

/// A level is found wherever it stands in the window, whatever stands before it.
#[test]
fn each_place_in_the_window() {
    for (sign, level) in [("ERROR x", "error"), ("[warn] x", "warning"), ("level=info x", "info")] {
        for before in 0..level_text::LEVEL_SEARCH_BYTES - sign.len() {
            for filler in ["x", "[", "A", ":", "=", "\u{1b}", "."] {
                let text = format!("{} {sign}", filler.repeat(before));
                assert_eq!(level_text::find(text.as_bytes()), Some(level), "{text:?}");
            }
        }
    }
}
