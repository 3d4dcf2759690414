//! Lines as loggers and programs write them: their time, level and message; and lines of data that
//! only look like log lines.

use super::*;

/// Time (`-` for the arrival), level (`-` for none) and message (`-` for the whole line).
type Row = (&'static str, &'static str, &'static str, &'static str);

const NOON: &str = "2026-01-31T12:00:00Z";
const QUARTER: &str = "2026-01-31T12:00:00.25Z";

fn check_rows(origin: &Origin, rows: &[Row]) {
    for (line, time, level, msg) in rows {
        let batch = parse_with(&ParserConfig::default(), origin, &[line.as_bytes()]);
        let row = batch.row(0);
        let get = |name: &str| {
            row.get_by_name(name).map(|value| String::from_utf8_lossy(value).into_owned())
        };
        let found_time = match row.time_ns() {
            ARRIVAL_NS => "-".to_owned(),
            time_ns => time_text(time_ns),
        };
        let found_msg = get("_msg").filter(|msg| msg != line).unwrap_or("-".into());
        let found = (found_time, get("_level").unwrap_or("-".into()), found_msg);
        assert_eq!(found, ((*time).into(), (*level).into(), (*msg).into()), "{line}");
        assert_eq!(get("_note"), None, "{line}");
        assert_eq!(row.raw(), line.as_bytes());
    }
}

#[test]
fn json_loggers() {
    let rows: &[Row] = &[
        // Python: json loggers, structlog, loguru
        (
            r#"{"asctime":"2026-01-31 12:00:00,250","levelname":"WARNING","message":"m"}"#,
            QUARTER,
            "warning",
            "m",
        ),
        (
            r#"{"asctime":"2026-01-31 12:00:00,250","levelno":30,"message":"m"}"#,
            QUARTER,
            "warning",
            "m",
        ),
        (
            r#"{"event":"user_login","level":"info","timestamp":"2026-01-31T12:00:00Z","user":"a"}"#,
            NOON,
            "info",
            "user_login",
        ),
        (
            r#"{"event":"x","level_number":40,"timestamp":"2026-01-31T12:00:00Z"}"#,
            NOON,
            "error",
            "x",
        ),
        (
            r#"{"text":"t","record":{"level":{"name":"INFO","no":20},"message":"m","time":{"repr":"r","timestamp":1769860800.25}}}"#,
            QUARTER,
            "info",
            "m",
        ),
        // Node: pino, bunyan, winston
        (
            r#"{"level":30,"time":1769860800250,"pid":1,"hostname":"h","msg":"m"}"#,
            QUARTER,
            "info",
            "m",
        ),
        (
            r#"{"level":50,"time":1769860800250,"pid":1,"hostname":"h","msg":"m","v":1}"#,
            QUARTER,
            "error",
            "m",
        ),
        (
            r#"{"name":"a","hostname":"h","pid":1,"level":60,"msg":"m","time":"2026-01-31T12:00:00.250Z","v":0}"#,
            QUARTER,
            "critical",
            "m",
        ),
        (
            r#"{"level":"\u001b[32minfo\u001b[39m","message":"m","timestamp":"2026-01-31T12:00:00.250Z"}"#,
            QUARTER,
            "info",
            "m",
        ),
        (
            r#"{"level":"silly","message":"m","timestamp":"2026-01-31 12:00:00"}"#,
            NOON,
            "debug",
            "m",
        ),
        // Go: zap, zerolog, logrus, slog, log15
        (
            r#"{"level":"warn","ts":1769860800.25,"caller":"a.go:1","msg":"m"}"#,
            QUARTER,
            "warning",
            "m",
        ),
        (
            r#"{"L":"INFO","T":"2026-01-31T12:00:00.250Z","C":"a.go:1","M":"m"}"#,
            QUARTER,
            "info",
            "m",
        ),
        (r#"{"level":"dpanic","ts":1769860800.25,"msg":"m"}"#, QUARTER, "critical", "m"),
        (r#"{"level":"trace","time":"2026-01-31T12:00:00Z","message":"m"}"#, NOON, "debug", "m"),
        (r#"{"level":"error","time":1769860800,"message":"m"}"#, NOON, "error", "m"),
        (
            r#"{"level":"fatal","msg":"m","time":"2026-01-31T13:00:00+01:00"}"#,
            NOON,
            "critical",
            "m",
        ),
        (r#"{"time":"2026-01-31T12:00:00.25Z","level":"INFO+2","msg":"m"}"#, QUARTER, "info", "m"),
        (r#"{"lvl":"eror","msg":"m","t":"2026-01-31T12:00:00.250Z"}"#, QUARTER, "error", "m"),
        // .NET: Serilog, NLog, Microsoft
        (
            r#"{"@t":"2026-01-31T12:00:00.2500000Z","@mt":"User {Id}","@l":"Warning","Id":1}"#,
            QUARTER,
            "warning",
            "User {Id}",
        ),
        (
            r#"{"@t":"2026-01-31T12:00:00.2500000Z","@m":"User 1","@i":"a"}"#,
            QUARTER,
            "info",
            "User 1",
        ),
        (r#"{"@t":"2026-01-31T12:00:00Z","@mt":"t","@m":"m","@l":"Fatal"}"#, NOON, "critical", "m"),
        (
            r#"{"Timestamp":"2026-01-31T12:00:00.25+00:00","Level":"Error","MessageTemplate":"t","RenderedMessage":"m"}"#,
            QUARTER,
            "error",
            "m",
        ),
        (
            r#"{"time":"2026-01-31 12:00:00.2500","level":"ERROR","message":"m"}"#,
            QUARTER,
            "error",
            "m",
        ),
        (
            r#"{"Timestamp":"2026-01-31T12:00:00Z","EventId":0,"LogLevel":"Information","Category":"c","Message":"m"}"#,
            NOON,
            "info",
            "m",
        ),
        // Java: log4j2, logback, ECS
        (
            r#"{"instant":{"epochSecond":1769860800,"nanoOfSecond":250000000},"thread":"main","level":"INFO","loggerName":"a","message":"m"}"#,
            QUARTER,
            "info",
            "m",
        ),
        (
            r#"{"timeMillis":1769860800250,"thread":"main","level":"DEBUG","message":"m"}"#,
            QUARTER,
            "debug",
            "m",
        ),
        (
            r#"{"@timestamp":"2026-01-31T12:00:00.250Z","@version":"1","message":"m","level":"WARN","level_value":30000}"#,
            QUARTER,
            "warning",
            "m",
        ),
        (
            r#"{"@timestamp":"2026-01-31T12:00:00.250Z","message":"m","level_value":40000}"#,
            QUARTER,
            "error",
            "m",
        ),
        (
            r#"{"@timestamp":"2026-01-31T12:00:00.250Z","log.level":"ERROR","message":"m"}"#,
            QUARTER,
            "error",
            "m",
        ),
        (
            r#"{"@timestamp":"2026-01-31T12:00:00.250Z","log":{"level":"error"},"message":"m"}"#,
            QUARTER,
            "error",
            "m",
        ),
        // Rust's tracing, PHP's Monolog
        (
            r#"{"timestamp":"2026-01-31T12:00:00.250000Z","level":"INFO","fields":{"message":"m"},"target":"a"}"#,
            QUARTER,
            "info",
            "m",
        ),
        (
            r#"{"message":"m","context":{},"level":300,"level_name":"WARNING","channel":"app","datetime":"2026-01-31T12:00:00.250000+00:00"}"#,
            QUARTER,
            "warning",
            "m",
        ),
        (
            r#"{"message":"m","level":200,"level_name":"INFO","datetime":"2026\u002d01-31T12:00:00Z"}"#,
            NOON,
            "info",
            "m",
        ),
        // OpenTelemetry
        (
            r#"{"Timestamp":"1769860800250000000","SeverityText":"ERROR","SeverityNumber":17,"Body":"m"}"#,
            QUARTER,
            "error",
            "m",
        ),
        (
            r#"{"timeUnixNano":"1769860800250000000","severityNumber":13,"body":{"stringValue":"m"}}"#,
            QUARTER,
            "warning",
            "m",
        ),
        (
            r#"{"timestamp":"2026-01-31T12:00:00Z","severityText":"WARN","body":"m"}"#,
            NOON,
            "warning",
            "m",
        ),
        // GELF
        (
            r#"{"version":"1.1","host":"h","short_message":"m","timestamp":1769860800.25,"level":4}"#,
            QUARTER,
            "warning",
            "m",
        ),
        // HashiCorp, the bytes of journald, an export of OpenTelemetry, audit of Kubernetes
        (
            r#"{"@level":"warn","@message":"m","@module":"storage.raft","@timestamp":"2026-01-31T12:00:00.250000Z","time":4959141198}"#,
            QUARTER,
            "warning",
            "m",
        ),
        (
            r#"{"__REALTIME_TIMESTAMP":"1769860800250000","PRIORITY":"6","MESSAGE":[104,195,169, 32,109]}"#,
            QUARTER,
            "info",
            "hé m",
        ),
        (
            r#"{"resourceLogs":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"pay"}}]},"scopeLogs":[{"logRecords":[{"timeUnixNano":"1769860800250000000","severityText":"ERROR","body":{"stringValue":"m"}}]}]}]}"#,
            QUARTER,
            "error",
            "m",
        ),
        (
            r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"a1","verb":"get","requestReceivedTimestamp":"2026-01-31T11:59:59Z","stageTimestamp":"2026-01-31T12:00:00.25Z"}"#,
            QUARTER,
            "-",
            "-",
        ),
        // Clouds
        (
            r#"{"severity":"CRITICAL","timestamp":{"seconds":1769860800,"nanos":250000000},"message":"m"}"#,
            QUARTER,
            "critical",
            "m",
        ),
        (
            r#"{"severity":"NOTICE","textPayload":"m","timestamp":"2026-01-31T12:00:00.25Z"}"#,
            QUARTER,
            "notice",
            "m",
        ),
        (
            r#"{"timestampSeconds":1769860800,"timestampNanos":250000000,"severity":"INFO","message":"m"}"#,
            QUARTER,
            "info",
            "m",
        ),
        (
            r#"{"eventVersion":"1.08","eventTime":"2026-01-31T12:00:00Z","eventName":"ConsoleLogin"}"#,
            NOON,
            "-",
            "-",
        ),
        (
            r#"{"timestamp":"2026-01-31T12:00:00.250Z","level":"INFO","message":"m","requestId":"r"}"#,
            QUARTER,
            "info",
            "m",
        ),
        (
            r#"{"level":"INFO","location":"l","message":"m","timestamp":"2026-01-31 12:00:00,250+0000"}"#,
            QUARTER,
            "info",
            "m",
        ),
        (
            r#"{"time":"2026-01-31T12:00:00.250Z","category":"c","level":"Informational","properties":{"message":"m"}}"#,
            QUARTER,
            "info",
            "m",
        ),
        (
            r#"{"TimeGenerated":"2026-01-31T12:00:00Z","severityLevel":3,"Message":"m"}"#,
            NOON,
            "error",
            "m",
        ),
        // journald, NXLog, MongoDB, PostgreSQL, macOS, Fluent Bit, nginx
        (
            r#"{"__REALTIME_TIMESTAMP":"1769860800250000","PRIORITY":"3","MESSAGE":"m","_HOSTNAME":"h"}"#,
            QUARTER,
            "error",
            "m",
        ),
        (
            r#"{"EventTime":"2026-01-31 12:00:00","Severity":"WARNING","SeverityValue":3,"Message":"m"}"#,
            NOON,
            "warning",
            "m",
        ),
        (
            r#"{"t":{"$date":"2026-01-31T12:00:00.250+00:00"},"s":"W","c":"NETWORK","id":1,"msg":"m"}"#,
            QUARTER,
            "warning",
            "m",
        ),
        (
            r#"{"timestamp":"2026-01-31 12:00:00.250 UTC","pid":1,"error_severity":"LOG","message":"m"}"#,
            QUARTER,
            "info",
            "m",
        ),
        (
            r#"{"timestamp":"2026-01-31 12:00:00.250000+0000","messageType":"Error","eventMessage":"m"}"#,
            QUARTER,
            "error",
            "m",
        ),
        (r#"{"date":1769860800.25,"level":"info","log":"m"}"#, QUARTER, "info", "m"),
        (r#"{"date":"2026-01-31T12:00:00.250000Z","log":"m"}"#, QUARTER, "-", "m"),
        (r#"{"log":"m","kubernetes":{"pod_name":"p"}}"#, "-", "-", "m"),
        (
            r#"{"time_local":"31/Jan/2026:12:00:00 +0000","status":200,"request":"GET / HTTP/1.1"}"#,
            NOON,
            "-",
            "-",
        ),
        (r#"{"msec":1769860800.250,"status":"200"}"#, QUARTER, "-", "-"),
        // rsyslog, and syslog in ECS
        (
            r#"{"msg":"m","timereported":"2026-01-31T12:00:00.250000+00:00","hostname":"h","syslogseverity":"4"}"#,
            QUARTER,
            "warning",
            "m",
        ),
        (r#"{"message":"m","syslogseverity-text":"err"}"#, "-", "error", "m"),
        (
            r#"{"@timestamp":"2026-01-31T12:00:00Z","message":"m","log":{"syslog":{"severity":{"code":3}}}}"#,
            NOON,
            "error",
            "m",
        ),
        // Events of Kubernetes
        (
            r#"{"involvedObject":{"kind":"Pod","name":"web"},"reason":"BackOff","message":"m","eventTime":null,"lastTimestamp":"2026-01-31T12:00:00Z","type":"Warning"}"#,
            NOON,
            "warning",
            "m",
        ),
        (
            r#"{"regarding":{"kind":"Pod","name":"web"},"note":"n","type":"Normal","eventTime":"2026-01-31T12:00:00.250000Z"}"#,
            QUARTER,
            "info",
            "-",
        ),
        // Events of Windows by Fluent Bit
        (
            r#"{"ProviderName":"p","EventID":7,"Level":2,"EventRecordID":9,"TimeCreated":"2026-01-31 12:00:00 +0000","Message":"m"}"#,
            NOON,
            "error",
            "m",
        ),
        (
            r#"{"RecordNumber":9,"TimeGenerated":"2026-01-31 12:00:00 +0000","EventType":"Error","Message":"m"}"#,
            NOON,
            "error",
            "m",
        ),
        // Nextcloud, and a request that pino tells of
        (
            r#"{"reqId":"a","level":3,"time":"2026-01-31T12:00:00+00:00","remoteAddr":"192.0.2.1","message":"m"}"#,
            NOON,
            "error",
            "m",
        ),
        (
            r#"{"level":30,"time":1769860800250,"pid":1,"hostname":"h","reqId":"r","remoteAddr":"x","msg":"m"}"#,
            QUARTER,
            "info",
            "m",
        ),
        // Falco, Docker's driver for Fluentd
        (
            r#"{"output":"m","priority":"Warning","rule":"r","time":"2026-01-31T12:00:00Z"}"#,
            NOON,
            "warning",
            "m",
        ),
        (
            r#"{"container_id":"a","container_name":"/web","source":"stderr","log":"ERROR x"}"#,
            "-",
            "error",
            "ERROR x",
        ),
        // Route 53, Akamai, Cloudflare, Google Workspace
        (r#"{"query_timestamp":"2026-01-31T12:00:00Z","query_name":"a."}"#, NOON, "-", "-"),
        (r#"{"reqTimeSec":"1769860800.250","statusCode":"200"}"#, QUARTER, "-", "-"),
        (r#"{"Action":"block","Datetime":"2026-01-31T12:00:00Z"}"#, NOON, "-", "-"),
        (r#"{"id":{"time":"2026-01-31T12:00:00.250Z","uniqueQualifier":"1"}}"#, QUARTER, "-", "-"),
    ];
    check_rows(&http(Format::Json, Hints::default()), rows);
    check_rows(&file(), rows);
}

#[test]
fn data_that_is_not_a_log() {
    let rows: &[Row] = &[
        // A number with an unknown scale, or a word that is not a level.
        (r#"{"user":"a","t":1769860800}"#, "-", "-", "-"),
        (r#"{"T":20.5,"M":3}"#, "-", "-", "-"),
        (r#"{"s":"E","event":"x"}"#, "-", "-", "-"),
        (r#"{"log":"x","body":"y","Body":"z"}"#, "-", "-", "-"),
        (r#"{"priority":"high","status":"error"}"#, "-", "-", "-"),
        (r#"{"priority":"error","output":"x"}"#, "-", "-", "-"),
        (r#"{"priority":"error","rule":"x"}"#, "-", "-", "-"),
        (r#"{"type":"Warning","EventType":"Error"}"#, "-", "-", "-"),
        (r#"{"Level":2,"level":3,"reqId":"x"}"#, "-", "-", "-"),
        (r#"{"PRIORITY":"high","levelno":"x"}"#, "-", "-", "-"),
        (
            r#"{"created_at":"2026-01-31T12:00:00Z","start_time":"2026-01-31T12:00:00Z"}"#,
            "-",
            "-",
            "-",
        ),
        (r#"{"date":"2026-01-31 12:00"}"#, "-", "-", "-"),
        (r#"{"date":"2026-01-31"}"#, "-", "-", "-"),
        (r#"{"Timestamp":"soon","EventTime":12}"#, "-", "-", "-"),
        (r#"{"eventTime":"2099-01-31T12:00:00Z"}"#, "-", "-", "-"),
        (r#"{"TIME":"2026-01-31T12:00:00Z","LeVeL":"error"}"#, "-", "-", "-"),
        (r#"{"instant":{"epochSecond":12}}"#, "-", "-", "-"),
        (r#"{"timestamp":{"seconds":"x"}}"#, "-", "-", "-"),
        (r#"{"L":"en","lang":"de"}"#, "-", "-", "-"),
        (r#"{"user":{"level":"error","time":1769860800}}"#, "-", "-", "-"),
    ];
    check_rows(&http(Format::Json, Hints::default()), rows);
}

#[test]
fn sent_fields_keep_their_names() {
    let line = r#"{"@t":"2026-01-31T12:00:00Z","@l":"Warning","@m":"m","levelno":30,"level":"Warn","eventTime":"2020-01-01T00:00:00Z","event":"e"}"#;
    let batch = parse_with(
        &ParserConfig::default(),
        &http(Format::Json, Hints::default()),
        &[line.as_bytes()],
    );
    let row = batch.row(0);
    for (name, value) in [
        ("@t", "2026-01-31T12:00:00Z"),
        ("@l", "Warning"),
        ("level", "Warn"),
        ("levelno", "30"),
        ("eventTime", "2020-01-01T00:00:00Z"),
        ("event", "e"),
        ("_msg", "m"),
        ("_level", "warning"),
    ] {
        assert_eq!(row.get_by_name(name), Some(value.as_bytes()), "{name}");
    }
    assert_eq!(time_text(row.time_ns()), NOON);
}

#[test]
fn lines_of_text() {
    let rows: &[Row] = &[
        ("I0131 12:00:00.250000    1234 main.go:10] x", QUARTER, "info", "-"),
        ("E0131 12:00:00.250000    1234 main.go:10] x", QUARTER, "error", "-"),
        ("2026-01-31 12:00:00,250 - name - WARNING - x", QUARTER, "warning", "-"),
        ("WARNING:root:x", "-", "warning", "-"),
        ("2026/01/31 12:00:00 [error] 12#0: *1 open() failed", NOON, "error", "-"),
        ("2026-01-31 12:00:00.250 UTC [12] LOG:  checkpoint starting: time", QUARTER, "info", "-"),
        ("2026-01-31 12:00:00.250 UTC [12] user@db FATAL:  x", QUARTER, "critical", "-"),
        ("2026-01-31T12:00:00.250000Z 0 [Warning] [MY-010068] [Server] x", QUARTER, "warning", "-"),
        ("2026-01-31T12:00:00.250000Z 0 [System] [MY-010931] [Server] x", QUARTER, "info", "-"),
        ("2026-01-31 12:00:00 0 [Note] InnoDB: x", NOON, "info", "-"),
        ("2026-01-31 12:00:00.250 +00:00 [INF] x", QUARTER, "info", "-"),
        ("fail: Microsoft.Hosting[0]", "-", "error", "-"),
        ("2026/01/31 12:00:00 main.go:1: x", NOON, "-", "-"),
        ("2026/01/31 12:00:00 INFO x a=1", NOON, "info", "-"),
        ("2026-01-31T12:00:00.250Z\tinfo\tmain.go:1\tx\t{\"a\":1}", QUARTER, "info", "-"),
        ("1:M 31 Jan 2026 12:00:00.250 # x", QUARTER, "warning", "-"),
        ("[2026-01-31 12:00:00,250] ERROR x (kafka.Log)", QUARTER, "error", "-"),
        ("E, [2026-01-31T12:00:00.250000 #1] ERROR -- : x", QUARTER, "error", "-"),
        (
            "\u{1b}[2m2026-01-31T12:00:00.250Z\u{1b}[0m \u{1b}[33m WARN\u{1b}[0m mod: x",
            QUARTER,
            "warning",
            "-",
        ),
        ("31-Jan-2026 12:00:00.250 SEVERE [main] x", QUARTER, "error", "-"),
        ("type=SYSCALL msg=audit(1769860800.250:1): arch=c000003e", QUARTER, "-", "-"),
        // Text that is not a level or a time.
        ("the error was found", "-", "-", "-"),
        ("12 of 31 Jan", "-", "-", "-"),
        ("a=1 b=2 c=3", "-", "-", "-"),
        ("{not json} ERROR", "-", "error", "-"),
        ("CEF is a format", "-", "-", "-"),
    ];
    check_rows(&file(), rows);
}

#[test]
fn logfmt() {
    let rows: &[Row] = &[
        (
            r#"ts=2026-01-31T12:00:00.250Z level=warn msg="a \"b\"" took=1s"#,
            QUARTER,
            "warning",
            r#"a "b""#,
        ),
        (r#"time="2026-01-31T12:00:00Z" level=info msg=hello"#, NOON, "info", "hello"),
        (r#"time=2026-01-31T12:00:00.250+00:00 level=DEBUG-4 msg=m"#, QUARTER, "debug", "m"),
        (r#"t=2026-01-31T12:00:00+0000 lvl=eror msg=m"#, NOON, "error", "m"),
        (r#"level=info ts=1769860800.25 caller=a.go:1"#, QUARTER, "info", "-"),
        (r#"date=2026-01-31 time=12:00:00 devname="FGT" level="alert""#, NOON, "alert", "-"),
    ];
    check_rows(&file(), rows);
    let line = rows[0].0;
    let batch = parse_with(&ParserConfig::default(), &file(), &[line.as_bytes()]);
    assert_eq!(batch.row(0).get_by_name("_type"), Some(&b"logfmt"[..]));
    assert_eq!(batch.row(0).get_by_name("level"), Some(&b"warn"[..]));
    assert_eq!(batch.row(0).get_by_name("took"), Some(&b"1s"[..]));
    // In a syslog head, whose time and host are used.
    let line = "<14>Nov 21 11:59:00 h app[1]: ts=2020-01-01T00:00:00Z level=error msg=m a=1";
    let batch =
        parse_with(&ParserConfig::default(), &syslog_udp(), &[line.as_bytes(), line.as_bytes()]);
    for row in batch.rows() {
        assert_eq!(row.get_by_name("_level"), Some(&b"error"[..]));
        assert_eq!(row.get_by_name("_msg"), Some(&b"m"[..]));
        assert_eq!(row.get_by_name("hostname"), Some(&b"h"[..]));
        assert_eq!(time_text(row.time_ns()), "2026-11-21T11:59:00Z");
    }
    // As a configured format.
    let hints = Hints { format: Some(MessageFormat::Logfmt), ..Hints::default() };
    let batch = parse_with(
        &ParserConfig::default(),
        &http(Format::Auto, hints),
        &[b"a=1 ok", b"a=\"open", b"= =", b"x"],
    );
    let get = |row: usize, name: &str| {
        batch.row(row).get_by_name(name).map(|v| String::from_utf8_lossy(v).into_owned())
    };
    assert_eq!(
        (get(0, "a").as_deref(), get(0, "ok").as_deref(), get(0, "_note")),
        (Some("1"), Some(""), None)
    );
    assert_eq!(get(1, "a").as_deref(), Some("open"));
    assert_eq!(get(1, "_note").as_deref(), Some("not all of it is logfmt"));
    assert_eq!(get(2, "_note").as_deref(), Some("not logfmt"));
    assert_eq!(get(2, "_type").as_deref(), Some("plain"));
    assert_eq!(get(3, "x").as_deref(), Some(""));
}

#[test]
fn containers() {
    let rows: &[Row] = &[
        ("2026-01-31T12:00:00.250000000Z stdout F hello", QUARTER, "-", "hello"),
        ("2026-01-31T12:00:00.250000000Z stderr F ERROR: x", QUARTER, "error", "ERROR: x"),
        (
            r#"2026-01-31T12:00:00.25Z stdout F {"level":"warn","time":"2020-01-01T00:00:00Z","msg":"m"}"#,
            QUARTER,
            "warning",
            "m",
        ),
        (
            "2026-01-31T12:00:00.25Z stderr F W0131 11:00:00.000000 1 a.go:1] x",
            QUARTER,
            "warning",
            "W0131 11:00:00.000000 1 a.go:1] x",
        ),
        (
            "2026-01-31T12:00:00.25Z stdout F level=error ts=2020-01-01T00:00:00Z msg=m",
            QUARTER,
            "error",
            "m",
        ),
        ("2026-01-31T12:00:00.25Z stdout P half", QUARTER, "-", "half"),
        (
            "2026-01-31T12:00:00.25Z stdout P {\"a\":1,\n2026-01-31T12:00:00.26Z stdout F \"level\":\"warn\",\"msg\":\"m\"}",
            QUARTER,
            "warning",
            "m",
        ),
        (
            "2026-01-31T12:00:00.25Z stdout P a WA\n2026-01-31T12:00:00.26Z stdout F RN b",
            QUARTER,
            "warning",
            "a WARN b",
        ),
        // Docker's files
        (
            r#"{"log":"hello\n","stream":"stdout","time":"2026-01-31T12:00:00.25Z"}"#,
            QUARTER,
            "-",
            "hello",
        ),
        (
            r#"{"log":"{\"level\":\"warn\",\"msg\":\"m\",\"a\":{\"b\":1}}\n","stream":"stdout","time":"2026-01-31T12:00:00.25Z"}"#,
            QUARTER,
            "warning",
            "m",
        ),
        (
            r#"{"log":"2020-01-01 00:00:00 ERROR x\r\n","stream":"stderr","time":"2026-01-31T12:00:00.25Z"}"#,
            QUARTER,
            "error",
            "2020-01-01 00:00:00 ERROR x",
        ),
        (
            r#"{"log":"{broken\n","stream":"stderr","time":"2026-01-31T12:00:00.25Z"}"#,
            QUARTER,
            "-",
            "{broken",
        ),
        (r#"{"log":"x","stream":"stdout"}"#, "-", "-", "x"),
    ];
    check_rows(&file(), rows);
    let fields = |line: &str, name: &str| {
        let batch = parse_with(&ParserConfig::default(), &file(), &[line.as_bytes()]);
        batch.row(0).get_by_name(name).map(|v| String::from_utf8_lossy(v).into_owned())
    };
    assert_eq!(fields(rows[0].0, "stream").as_deref(), Some("stdout"));
    assert_eq!(fields(rows[0].0, "_type").as_deref(), Some("plain"));
    assert_eq!(fields(rows[2].0, "_type").as_deref(), Some("json"));
    assert_eq!(fields(rows[5].0, "logtag").as_deref(), Some("P"));
    assert_eq!(fields(rows[6].0, "a").as_deref(), Some("1"));
    assert_eq!(fields(rows[6].0, "logtag"), None);
    assert_eq!(fields(rows[9].0, "a.b").as_deref(), Some("1"));
    assert_eq!(fields(rows[9].0, "stream").as_deref(), Some("stdout"));
}

#[test]
fn configured_keys() {
    let named = |time: &str, level: &str, msg: &str| Hints {
        time_fields: vec![time.into()],
        level_fields: vec![level.into()],
        msg_fields: vec![msg.into()],
        ..Hints::default()
    };
    let origin = http(Format::Auto, named("when", "sev", "what"));
    let rows: &[Row] = &[
        (
            r#"{"when":"2026-01-31T12:00:00Z","sev":"ERR","what":"m","level":"info","time":1}"#,
            NOON,
            "error",
            "m",
        ),
        (r#"{"when":1769860800,"what":"m"}"#, NOON, "-", "m"),
    ];
    check_rows(&origin, rows);
    // They precede the time of a head.
    let head = "<14>Nov 21 11:59:00 h app[1]: ";
    let line = format!(r#"{head}{{"when":"2026-01-31T12:00:00Z","sev":"ERR","what":"m"}}"#);
    let other = format!(r#"{head}{{"when":"never","sev":"odd","what":"m"}}"#);
    let lines = [&line, &other, &line, &other].map(|line| line.as_bytes());
    let syslog = Origin { hints: origin.hints.clone(), ..syslog_udp() };
    let batch = parse_with(&ParserConfig::default(), &syslog, &lines);
    for row in [0, 2] {
        assert_eq!(time_text(batch.row(row).time_ns()), NOON);
        assert_eq!(batch.row(row).get_by_name("_level"), Some(&b"error"[..]));
        assert_eq!(time_text(batch.row(row + 1).time_ns()), "2026-11-21T11:59:00Z");
        let note = batch.row(row + 1).get_by_name("_note");
        assert_eq!(note, Some(&b"named time not readable"[..]));
        assert_eq!(batch.row(row + 1).get_by_name("when"), Some(&b"never"[..]));
    }
    // Named by a type rule, also if the rule is found by the content of the object.
    let rule = TypeRule {
        name: "shop".into(),
        app_name: vec!["cart".into()],
        time_field: FieldNames(vec!["when".into()]),
        msg_field: FieldNames(vec!["what".into()]),
        level_field: FieldNames(vec!["sev".into()]),
        ..TypeRule::default()
    };
    let config = ParserConfig { types: vec![rule], ..ParserConfig::default() };
    let body =
        r#"{"app_name":"cart","when":"2026-01-31T12:00:00Z","sev":"crit","what":"m","time":5}"#;
    let with_head = format!("<14>Nov 21 11:59:00 h cart[1]: {body}");
    let lines = [body, &with_head, body, &with_head].map(str::as_bytes);
    let batch = parse_with(&config, &syslog_udp(), &lines);
    for row in batch.rows() {
        assert_eq!(time_text(row.time_ns()), NOON);
        assert_eq!(row.get_by_name("_level"), Some(&b"critical"[..]));
        assert_eq!(row.get_by_name("_msg"), Some(&b"m"[..]));
        assert_eq!(row.get_by_name("_type"), Some(&b"shop"[..]));
        assert_eq!(row.get_by_name("_note"), None);
    }
    let hints = named("when", "sev", "what");
    let line = br#"{"when":"2099-01-01T00:00:00Z","what":"m"}"#;
    let batch = parse_with(&ParserConfig::default(), &http(Format::Json, hints), &[line]);
    assert_eq!(batch.row(0).get_by_name("_note"), Some(&b"absurd time, arrival taken"[..]));
    assert_eq!(batch.row(0).get_by_name("when"), Some(&b"2099-01-01T00:00:00Z"[..]));
}

#[test]
fn readable_fields_of_broken_objects_are_kept() {
    // Line, present fields, absent fields, and the note.
    type Broken = (&'static [u8], &'static [(&'static str, &'static [u8])], &'static str);
    let rows: &[Broken] = &[
        (
            b"{\"a\":\"1\",\"b\":\"x\xffy\",\"msg\":\"m\"}",
            &[("a", b"1"), ("b", b"x\xffy"), ("_msg", b"m")],
            "JSON with bytes that are not UTF-8 at byte 15",
        ),
        (
            b"{\"a\xff\":\"1\",\"b\":2}",
            &[("a\u{fffd}", b"1"), ("b", b"2")],
            "JSON with bytes that are not UTF-8 at byte 3",
        ),
        (
            b"{\"a\":\"x\ty\",\"b\":2}",
            &[("a", b"x\ty"), ("b", b"2")],
            "JSON with a control character at byte 7",
        ),
        (
            b"{\"a\":\"C:\\x\",\"b\":2}",
            &[("a", b"C:\\x"), ("b", b"2")],
            "JSON with a wrong escape at byte 8",
        ),
        (
            b"{\"a\":NaN,\"b\":-Infinity,\"c\":2}",
            &[("a", b"NaN"), ("b", b"-Infinity"), ("c", b"2")],
            "JSON with a wrong value at byte 5",
        ),
        (b"{\"a\":1,}", &[("a", b"1")], "JSON with a comma too many at byte 7"),
        (b"{\"a\":1} and more", &[("a", b"1")], "text behind the JSON object at byte 8"),
        (b"{\"a\":1}{\"b\":2}", &[("a", b"1")], "text behind the JSON object at byte 7"),
        (b"{\"a\":1,\"a\":2}", &[("a", b"2")], "a key occurs twice, its last value counts"),
        (
            b"{\"msg\":\"x\",\"msg\":\"y\"}",
            &[("_msg", b"y")],
            "a key occurs twice, its last value counts",
        ),
        (
            b"{\"a\":\"\\ud83d\"}",
            &[("a", b"\xef\xbf\xbd")],
            "half a surrogate pair in JSON, U+FFFD stored",
        ),
        (
            b"{\"a\":1,\"msg\":\"half a mess",
            &[("a", b"1"), ("_msg", b"half a mess")],
            "JSON cut off at byte 25",
        ),
        (
            b"{\"a\":1,\"b\":{\"c\":2,\"d\":12",
            &[("a", b"1"), ("b.c", b"2")],
            "JSON cut off at byte 24",
        ),
        (b"{\"a\":1,\"b", &[("a", b"1")], "JSON cut off at byte 9"),
        (b"{\"a\":1 \"b\":2}", &[("a", b"1")], "JSON broken at byte 7"),
        (
            b"{\"a\":1,\"b\":[1,],\"c\":2}",
            &[("a", b"1"), ("b", b"[1,]"), ("c", b"2")],
            "JSON broken at byte 14",
        ),
        (b"{\"a\":1,\"b\":[1,2", &[("a", b"1")], "JSON cut off at byte 15"),
    ];
    for (line, fields, note) in rows {
        let shown = String::from_utf8_lossy(line);
        let batch =
            parse_with(&ParserConfig::default(), &http(Format::Json, Hints::default()), &[*line]);
        let row = batch.row(0);
        assert_eq!(row.raw(), *line);
        assert_eq!(row.get_by_name("_type"), Some(&b"json"[..]), "{shown}");
        for (name, value) in *fields {
            let found = row.get_by_name(name).map(String::from_utf8_lossy);
            assert_eq!(found, Some(String::from_utf8_lossy(value)), "{name} of {shown}");
        }
        assert_eq!(row.get_by_name("d"), None);
        let found = row.get_by_name("_note").map(String::from_utf8_lossy);
        assert_eq!(found.as_deref(), Some(*note), "{shown}");
    }
    // Nothing can be read: text.
    for line in ["{", "{\"a", "{\"a\":", "{'a':1}", "{a}", "{\"a\":\"", "{\"a\":[1"] {
        let batch = parse_with(
            &ParserConfig::default(),
            &http(Format::Json, Hints::default()),
            &[line.as_bytes()],
        );
        let row = batch.row(0);
        assert_eq!(row.get_by_name("_note"), Some(&b"not JSON: broken or cut off"[..]), "{line}");
        assert_eq!(row.get_by_name("_msg"), Some(line.as_bytes()));
    }
    // The offset in the line, not in the object.
    let line = b"<14>Nov 21 12:00:00 h app: {\"a\":1";
    let batch = parse_with(
        &ParserConfig::default(),
        &syslog_udp(),
        &[line, b"<14>Nov 21 12:00:00 h app: {\"a\":1,"],
    );
    assert_eq!(batch.row(0).get_by_name("_note"), Some(&b"not JSON: broken or cut off"[..]));
    assert_eq!(batch.row(1).get_by_name("_note"), Some(&b"JSON cut off at byte 34"[..]));
}

#[test]
fn common_event_format() {
    let line = "<6>Sep 14 14:12:51 fw1 CEF:0|F|Fire\\|wall|6|7|Allowed|0|src=10.0.0.1 msg=a b\\=c act=Allow";
    let batch = parse_with(
        &ParserConfig::default(),
        &syslog_udp(),
        &[line.as_bytes(), b"<6>CEF:0|a|b", b"<6>Sep 14 14:12:51 fw1 CEF:x"],
    );
    let get = |row: usize, name: &str| {
        batch.row(row).get_by_name(name).map(|v| String::from_utf8_lossy(v).into_owned())
    };
    for (name, value) in [
        ("hostname", "fw1"),
        ("app_name", "CEF"),
        ("cef.device_product", "Fire|wall"),
        ("cef.name", "Allowed"),
        ("cef.extension.msg", "a b=c"),
        ("cef.extension.act", "Allow"),
        ("_msg", &line[23..]),
    ] {
        assert_eq!(get(0, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(get(0, "_note"), None);
    assert_eq!(get(1, "_note").as_deref(), Some("not CEF to its end"));
    assert_eq!(get(1, "_msg").as_deref(), Some("CEF:0|a|b"));
    assert_eq!(get(2, "app_name").as_deref(), Some("CEF"));
}
