//! Host, program, process, time and level of lines as devices and shippers send them.

use super::*;

const NOON: &str = "2026-11-21T12:00:00Z";
const BEFORE: &str = "2026-11-21T11:59:58Z";

/// Line, host, program and process (separated by blanks, `-` if there is none), time, level, and
/// how the message begins.
type Line = (&'static str, &'static str, &'static str, &'static str, &'static str);

#[test]
fn devices() {
    let rows: &[Line] = &[
        // RFC 5424 with the time of RFC 3164: Prisma SD-WAN, Vormetric, VMware
        (
            "<166>1 Nov 21 12:00:00 ion1 log - - - ION_HOST=\"x\" MSG=\"a\"",
            "ion1 log -",
            NOON,
            "info",
            "ION_HOST",
        ),
        (
            "<166>1 Nov 21 12:00:00 vm1 Vpxa - - [Originator@6876 sub=\"vpxLro\"] [VpxLRO] text",
            "vm1 Vpxa -",
            NOON,
            "info",
            "[VpxLRO]",
        ),
        (
            "<13>1 Nov 21 11:59:58 2026 dsm1 vee-fs 712 DAO0445I - x",
            "dsm1 vee-fs 712",
            BEFORE,
            "notice",
            "x",
        ),
        ("<13>1 Nov 21 12:00:00 h app: x", "h app -", NOON, "notice", "x"),
        // FTD with a colon behind its name
        ("<189>Nov 21 11:59:58 fw1: %FTD-6-302013: x", "fw1 FTD -", BEFORE, "info", "%FTD"),
        // strongSwan, whose threads are no programs
        ("<30>Nov 21 11:59:58 vpn1 12[IKE] x", "vpn1 - -", BEFORE, "info", "12[IKE] x"),
        // A tag that is empty
        ("<30>Nov 21 11:59:58 fw1 : no tag", "fw1 - -", BEFORE, "info", "no tag"),
        // Data ONTAP
        ("<5>Nov 21 11:59:58 [fas1:disk.full:error]: x", "fas1 - -", BEFORE, "error", "x"),
        ("<5>Nov 21 11:59:58 [fas1:disk:error]: x", "- - -", BEFORE, "notice", "[fas1"),
        // ProCurve, with the number of the event
        ("<14>Nov 21 11:59:58 sw2 00179 mgr: SSH", "sw2 mgr -", BEFORE, "info", "SSH"),
        // FortiOS 5
        ("<185>logver=54 devid=FG devname=fw2 level=alert", "fw2 - -", NOON, "alert", "logver"),
        // A key that looks like a tag
        (
            "<134>Nov 21 11:59:58 cmc1 Severity: Informational, Category: Audit",
            "cmc1 - -",
            BEFORE,
            "info",
            "Severity",
        ),
        // A blank within the mark of CEF
        ("<13>Nov 21 11:59:58 gw1 CEF: 0|v|p|1|2|n|5|a=b", "gw1 CEF -", BEFORE, "notice", "CEF"),
        // Lines of a trace
        ("<11>Nov 21 11:59:58 vm1 java.io.IOException: x", "vm1 - -", BEFORE, "error", "java"),
        ("<11>Nov 21 11:59:58 java.io.IOException: x", "- - -", BEFORE, "error", "java"),
        ("<11>Nov 21 11:59:58 vm1 \tat a.B.c(B.java:1)", "vm1 - -", BEFORE, "error", "\tat"),
        // klog behind a head
        (
            "<14>Nov 21 11:59:58 n1 kl[7]: E1121 12:00:00.25 1 a.go:5] x",
            "n1 kl 7",
            BEFORE,
            "error",
            "E",
        ),
        // AIX
        (
            "<38>Nov 21 12:00:00 Message forwarded from aix7: sshd[123456]: Accepted publickey",
            "aix7 sshd 123456",
            NOON,
            "info",
            "Accepted",
        ),
        (
            "<13>Nov 21 11:59:58 Message forwarded from 192.0.2.7: root: x",
            "192.0.2.7 root -",
            BEFORE,
            "notice",
            "x",
        ),
        // Cisco IOS XR, ASA, Nexus, MDS
        (
            "<166>xr1:Nov 21 11:59:58: config[65539]: %MGBL-SYS-5-CONFIG_I : Configured",
            "xr1 config 65539",
            BEFORE,
            "notice",
            "%MGBL",
        ),
        (
            "<166>:Nov 21 11:59:58 UTC: %ASA-6-302015: Built outbound UDP connection",
            "- ASA -",
            BEFORE,
            "info",
            "%ASA",
        ),
        (
            "<162>:Nov 21 11:59:58 EST: %ASA-session-2-106001: Inbound",
            "- ASA-session -",
            "2026-11-21T16:59:58Z",
            "critical",
            "%ASA",
        ),
        (
            "<166>: 2026 Nov 21 11:59:58 ET: %L2FM-4-L2FM_MAC_MOVE: Mac moved",
            "- L2FM -",
            BEFORE,
            "warning",
            "%L2FM",
        ),
        (
            "<166>20: ios1: 1 2: %SYSMGR-STANDBY-3-SHUTDOWN_START: started",
            "ios1 SYSMGR-STANDBY -",
            NOON,
            "error",
            "%SYSMGR",
        ),
        (
            "<166>2026-11-21T11:59:58Z asa2 : %ASA-4-106023: Deny tcp",
            "asa2 ASA -",
            BEFORE,
            "warning",
            "%ASA",
        ),
        ("<166>2026-11-21T11:59:58Z: %FTD-1-430003: x", "- FTD -", BEFORE, "alert", "%FTD"),
        (
            "<189>Nov 21 12:00:00 192.0.2.3 1234: Nov 21 11:59:58.000: %SYS-5-CONFIG_I: x",
            "192.0.2.3 SYS -",
            BEFORE,
            "notice",
            "%SYS",
        ),
        (
            "<189>Nov 21 12:00:00 rt1 4711: *Nov 21 11:59:58.000 CST: %LINK-3-UPDOWN: x",
            "rt1 LINK -",
            BEFORE,
            "error",
            "%LINK",
        ),
        // AIX
        (
            "<38>Nov 21 12:00:00 aix7 auth|security:info sshd[12]: x",
            "aix7 sshd 12",
            NOON,
            "info",
            "x",
        ),
        // F5
        (
            "<134>Nov 21 12:00:00 f5a.example.com info tmm1[12]: 01220002:6: x",
            "f5a.example.com tmm1 12",
            NOON,
            "info",
            "01220002",
        ),
        (
            "<134>Nov 21 11:59:58 slot1/f5b err mcpd[5]: 01070734:3: x",
            "slot1/f5b mcpd 5",
            BEFORE,
            "error",
            "01070734",
        ),
        ("<134>Nov 21 12:00:00 f5c warning httpd: x", "f5c httpd -", NOON, "warning", "x"),
        // Ubiquiti
        (
            "<30>Nov 21 12:00:00 US-8,18e829aabbcc,5.43: switch: x",
            "US-8 switch -",
            NOON,
            "info",
            "x",
        ),
        (
            "<30>Nov 21 12:00:00 (\"U7PG2,788a20aabbcc,v4.0.42\") hostapd[9]: x",
            "U7PG2 hostapd 9",
            NOON,
            "info",
            "x",
        ),
        (
            "<30>Nov 21 12:00:00 AP-Office 788a20aabbcc,U7PG2-4.0.42: hostapd[123]: ath1: x",
            "AP-Office hostapd 123",
            NOON,
            "info",
            "ath1",
        ),
        // NetScaler
        (
            "<134> 11/21/2026:11:59:58 GMT ns1 0-PPE-0 : default SSLLOG SSL_HANDSHAKE_SUCCESS 12 0 : x",
            "ns1 SSLLOG 0-PPE-0",
            BEFORE,
            "info",
            "default",
        ),
        (
            "<134> 11/21/2026:11:59:58 GMT  0-PPE-0 : TCP CONN_DELINK 1 0 : Source 192.0.2.1",
            "- TCP 0-PPE-0",
            BEFORE,
            "info",
            "TCP",
        ),
        (
            "<134> 21/11/2026:11:59:58 ns2 PPE-1 : default AAA Message 7 0 : \"x\"",
            "ns2 AAA PPE-1",
            BEFORE,
            "info",
            "default",
        ),
        (
            "<134> 2026/11/21:11:59:58 GMT ns3 0-PPE-0 : default SSLLOG SSL_HANDSHAKE_SUCCESS 12 0 : x",
            "ns3 SSLLOG 0-PPE-0",
            BEFORE,
            "info",
            "default",
        ),
        // An empty tag, a process without a name
        ("<13>Nov 21 12:00:00 web1 : hello", "web1 - -", NOON, "notice", "hello"),
        ("<13>Nov 21 12:00:00 web1 [712]: hello", "web1 - 712", NOON, "notice", "hello"),
        ("<13>Nov 21 12:00:00 web1 1234: hello", "web1 - -", NOON, "notice", "1234"),
        // Behind the head of a relay
        (
            "<13>Nov 21 12:00:00 relay1 Nov 21 11:59:58 web1 sshd[7]: Accepted",
            "web1 sshd 7",
            BEFORE,
            "notice",
            "Accepted",
        ),
        (
            "<13>Nov 21 12:00:00 relay1 <38>Nov 21 11:59:58 web1 sshd[7]: Accepted",
            "web1 sshd 7",
            BEFORE,
            "info",
            "Accepted",
        ),
        (
            "<13>Nov 21 12:00:00 relay1 <38>1 2026-11-21T11:59:58Z web1 sshd 7 - - Accepted",
            "web1 sshd 7",
            BEFORE,
            "info",
            "Accepted",
        ),
        (
            "<13>Nov 21 12:00:00 relay1 2026-11-21T11:59:58+00:00 web1 cron[8]: x",
            "web1 cron 8",
            BEFORE,
            "notice",
            "x",
        ),
        // A message that only begins with a time is none.
        (
            "<13>Nov 21 12:00:00 web1 2026-01-31 12:00:00,123 ERROR [main] x",
            "web1 - -",
            NOON,
            "error",
            "2026-01-31",
        ),
        (
            "<13>Nov 21 12:00:00 web1 2026/01/31 12:00:00 [warn] 7#7: x",
            "web1 - -",
            NOON,
            "warning",
            "2026/01/31",
        ),
        // CEF and LEEF
        (
            "<13>1 2026-11-21T11:59:58Z 192.0.2.1 LEEF:1.0|M|MSExchange|4.0 SP1|15345|src=192.0.2.0",
            "192.0.2.1 LEEF -",
            BEFORE,
            "notice",
            "LEEF:1.0|M",
        ),
        (
            "<13>Nov 21 11:59:58 192.0.2.1 LEEF:1.0|M|MSExchange|4.0 SP1|15345|src=192.0.2.0",
            "192.0.2.1 LEEF -",
            BEFORE,
            "notice",
            "LEEF:1.0|M",
        ),
        (
            "<13>1 2026-11-21T11:59:58Z fw1 CEF:0|V|P|1|2|n|3|src=192.0.2.1",
            "fw1 CEF -",
            BEFORE,
            "notice",
            "CEF:0|V",
        ),
        (
            "<13>1 2026-11-21T11:59:58Z fw1 app - - - LEEF:2.0|V|P|1|2|^|src=192.0.2.1",
            "fw1 app -",
            BEFORE,
            "notice",
            "LEEF:2.0",
        ),
        // A priority, and the time in the message
        ("<134>Sat Nov 21 11:59:58 2026 fw1 app: x", "- - -", BEFORE, "info", "Sat Nov 21"),
        ("<13>[2026-11-21T11:59:58Z] ERROR x", "- - -", BEFORE, "error", "[2026"),
        ("<30>app[7]: 2026-11-21 11:59:58 WARN x", "- app 7", BEFORE, "warning", "2026-11-21"),
        ("<30>shop: 2026-11-21 11:59:58 WARN x", "- shop -", BEFORE, "warning", "2026-11-21"),
        ("<13>1 - h app 7 - - [21/Nov/2026:11:59:58 +0000] x", "h app 7", BEFORE, "notice", "[21"),
        // WatchGuard
        (
            "<142>Nov 21 11:59:58 wg1 FVE61035702AE (2026-11-21T11:59:58) http-proxy[2765]: Allow 1-Trusted",
            "wg1 http-proxy 2765",
            BEFORE,
            "info",
            "FVE61035702AE (2026",
        ),
        ("<142>Nov 21 11:59:58 wg1 FVE61035702AE (1) x", "wg1 - -", BEFORE, "info", "FVE61035"),
        ("<142>Nov 21 11:59:58 wg1 APP (1) of: x", "wg1 APP -", BEFORE, "info", "(1) of"),
        // Sophos: UTM, and SFOS since 18
        (
            "<30>2026:11:21-11:59:58 utm1 httpproxy[5678]: id=\"0001\" severity=\"warn\" name=\"x\"",
            "utm1 httpproxy 5678",
            BEFORE,
            "warning",
            "id=",
        ),
        (
            "<30>device_name=\"xgs1\" timestamp=\"2026-11-21T12:59:58+0100\" log_type=\"Firewall\" severity=\"Warning\"",
            "xgs1 - -",
            BEFORE,
            "warning",
            "device_name",
        ),
        // Huawei, H3C
        (
            "<190>Nov 21 2026 11:59:58 hw1 %%01SHELL/5/CMDRECORD(l)[12]:Recorded command (User=ada)",
            "hw1 SHELL -",
            BEFORE,
            "notice",
            "%%01SHELL",
        ),
        (
            "<190>Nov 21 2026 12:59:58+01:00 hw2 %%01IFNET/4/LINK_STATE(s):CID=0x807a0405;x",
            "hw2 IFNET -",
            BEFORE,
            "warning",
            "%%01IFNET",
        ),
        (
            "<189>Nov 21 11:59:58 2026 h3c1 %%10IFNET/3/PHY_UPDOWN: -DevIP=192.0.2.4; Interface is up",
            "h3c1 IFNET -",
            BEFORE,
            "error",
            "%%10IFNET",
        ),
        ("<189>Nov 21 11:59:58 h %%10 of it: x", "h - -", BEFORE, "notice", "%%10 of"),
        ("<189>Nov 21 11:59:58 h %%10A/9/B: x", "h - -", BEFORE, "notice", "%%10A"),
        // Cisco's small switches, and ACI
        (
            "<190>Nov 21 11:59:58 sg1 %STP-W-PORTSTATUS: gi5: STP status Forwarding",
            "sg1 STP -",
            BEFORE,
            "warning",
            "%STP",
        ),
        (
            "<189>Nov 21 11:59:58 sw3 %PLATFORM-3-A-E-B: x",
            "sw3 PLATFORM -",
            BEFORE,
            "error",
            "%PLATFORM",
        ),
        (
            "<190>Nov 21 11:59:58 apic1 %LOG_LOCAL7-6-SYSTEM_MSG [login,session][info] x",
            "apic1 LOG_LOCAL7 -",
            BEFORE,
            "info",
            "%LOG_LOCAL7",
        ),
        ("<190>Nov 21 11:59:58 h %a-3-b of it", "h - -", BEFORE, "error", "%a-3-b"),
        // PostgreSQL and Cisco with a zone of several meanings
        ("<166>Nov 21 11:59:58 CST: %ASA-6-302015: x", "- ASA -", BEFORE, "info", "%ASA"),
    ];
    for (line, head, time, level, begin) in rows {
        // Twice, with others between, so that cached heads are used.
        let other = "<13>Nov 21 12:00:00 relay1 app: x";
        let lines = [line, other, line, other].map(|line| line.as_bytes());
        let batch = parse_with(&ParserConfig::default(), &syslog_udp(), &lines);
        for index in [0, 2] {
            let row = batch.row(index);
            let get = |name: &str| {
                let value = row.get_by_name(name).filter(|value| !value.is_empty());
                value.map_or("-".into(), |v| String::from_utf8_lossy(v).into_owned())
            };
            let found = format!("{} {} {}", get("hostname"), get("app_name"), get("proc_id"));
            assert_eq!(found, *head, "{line}");
            assert_eq!(time_text(row.time_ns()), *time, "{line}");
            assert_eq!(get("_level"), *level, "{line}");
            assert!(get("_msg").starts_with(begin), "{line}: {}", get("_msg"));
            assert_eq!(get("_note"), "-", "{line}");
            assert_eq!(row.raw(), line.as_bytes());
        }
    }
}

#[test]
fn leef_is_parsed() {
    let line = b"<13>Nov 21 12:00:00 fw1 LEEF:1.0|V|P|4.0 SP1|15345|src=192.0.2.0\tmsg=a b";
    let batch = parse_with(&ParserConfig::default(), &syslog_udp(), &[line, b"<13>LEEF:1.0|a|b"]);
    for (name, value) in [
        ("leef.device_version", "4.0 SP1"),
        ("leef.event_id", "15345"),
        ("leef.extension.src", "192.0.2.0"),
        ("leef.extension.msg", "a b"),
    ] {
        assert_eq!(batch.row(0).get_by_name(name), Some(value.as_bytes()), "{name}");
    }
    assert_eq!(batch.row(1).get_by_name("_note"), Some(&b"not LEEF to its end"[..]));
}

fn stream_of(origin: &Origin, config: &ParserConfig, line: &str) -> String {
    let batch = parse_with(config, origin, &[line.as_bytes()]);
    let mut text = String::new();
    batch.row(0).write_stream(&mut text);
    text
}

/// The keys under which shippers and loggers send the host give the stream its host.
#[test]
fn hosts_of_objects() {
    let json = http(Format::Json, Hints::default());
    let rows = [
        (r#"{"version":"1.1","host":"web1","short_message":"m"}"#, "web1"),
        (r#"{"host":{"name":"web1","ip":["192.0.2.1"]},"message":"m"}"#, "web1"),
        (r#"{"host.name":"web1","host":"x","message":"m"}"#, "web1"),
        (r#"{"host":{"hostname":"web1"},"message":"m"}"#, "web1"),
        (r#"{"HOST":"web1","message":"m"}"#, "web1"),
        (r#"{"Hostname":"web1","Message":"m"}"#, "web1"),
        (r#"{"_HOSTNAME":"web1","MESSAGE":"m"}"#, "web1"),
        (r#"{"kubernetes":{"host":"node1","pod_name":"p"},"log":"m"}"#, "node1"),
        (r#"{"Computer":"win1","EventID":1,"Message":"m"}"#, "win1"),
        (r#"{"ComputerName":"win1","EventID":1,"Message":"m"}"#, "win1"),
        (r#"{"MachineName":"win1","Message":"m"}"#, "win1"),
        (r#"{"hostIdentifier":"web1","calendarTime":"x","name":"m"}"#, "web1"),
        (r#"{"Body":"m","SeverityText":"INFO","Resource":{"host.name":"web1"}}"#, "web1"),
        (r#"{"agent":{"hostname":"web1"},"message":"m"}"#, "web1"),
        (r#"{"hostname":"own","host":"other","message":"m"}"#, "own"),
        (r#"{"host":"","message":"m"}"#, ""),
        (r#"{"message":"m"}"#, ""),
        // The site that was asked for.
        (r#"{"host":"www.example.com","request_method":"GET","status":200}"#, ""),
        (r#"{"host":"www.example.com","uri":"/","status":200}"#, ""),
        (
            r#"{"@t":"2026-11-21T12:00:00Z","@mt":"m","Method":"GET","Scheme":"https","Host":"www.example.com","QueryString":"","MachineName":"web1"}"#,
            "web1",
        ),
        (r#"{"RequestMethod":"GET","Host":"www.example.com","@mt":"m"}"#, ""),
        (r#"{"Host":"web1","Method":"Save","Message":"m"}"#, "web1"),
    ];
    for (line, host) in rows {
        let host = if host.is_empty() { String::new() } else { format!(",hostname=\"{host}\"") };
        let expected = format!("{{_type=\"json\"{host}}}");
        assert_eq!(stream_of(&json, &ParserConfig::default(), line), expected, "{line}");
    }
    // The key keeps its name.
    let batch = parse_with(&ParserConfig::default(), &json, &[rows[0].0.as_bytes()]);
    assert_eq!(batch.row(0).get_by_name("host"), Some(&b"web1"[..]));
    // Behind a head, its host counts; with streams of the sender's own, no field is added.
    let line = r#"<13>Nov 21 12:00:00 relay app: {"host":"web1","message":"m"}"#;
    let stream = stream_of(&syslog_udp(), &ParserConfig::default(), line);
    assert_eq!(stream, r#"{_type="json",app_name="app",hostname="relay"}"#);
    let named = Hints { stream_fields: vec!["job".into()], ..Hints::default() };
    let batch =
        parse_with(&ParserConfig::default(), &http(Format::Json, named), &[rows[0].0.as_bytes()]);
    assert_eq!(batch.row(0).get_by_name("hostname"), None);
    // Named by a rule.
    let rule = TypeRule {
        name: "shop".into(),
        contains: Some("shop".into()),
        host_field: FieldNames(vec!["node".into()]),
        ..TypeRule::default()
    };
    let config = ParserConfig { types: vec![rule], ..ParserConfig::default() };
    let line = r#"{"node":"n1","host":"h1","message":"shop"}"#;
    assert_eq!(stream_of(&json, &config, line), r#"{_type="shop",hostname="n1"}"#);
    let line = r#"{"node":"n1","hostname":"h1","message":"shop"}"#;
    assert_eq!(stream_of(&json, &config, line), r#"{_type="shop",hostname="n1"}"#);
    let batch = parse_with(&config, &json, &[line.as_bytes()]);
    assert_eq!(batch.row(0).get_by_name("json.hostname"), Some(&b"h1"[..]));
}

/// The site that somebody visited is not the host of a firewall's line.
#[test]
fn a_host_name_in_the_pairs_of_a_firewall_is_no_stream() {
    let pairs = "date=2026-11-21 time=12:00:00 devname=\"fgt1\" devid=\"FG1\" logid=\"1\" hostname=\"www.example.com\" level=\"notice\"";
    let other =
        "date=2026-11-21 time=12:00:00 devname=\"fgt1\" devid=\"FG1\" logid=\"1\" level=\"notice\"";
    for head in ["<189>", "<189>Nov 21 12:00:00 fgt1 ", ""] {
        let origin = if head.is_empty() { file() } else { syslog_udp() };
        let of =
            |pairs: &str| stream_of(&origin, &ParserConfig::default(), &format!("{head}{pairs}"));
        assert_eq!(of(pairs), of(other), "{head}");
        assert!(of(pairs).contains("hostname=\"fgt1\""), "{head}: {}", of(pairs));
        let line = format!("{head}{pairs}");
        let batch = parse_with(&ParserConfig::default(), &origin, &[line.as_bytes()]);
        let site = batch.row(0).get_by_name("logfmt.hostname");
        assert_eq!(site, Some(&b"www.example.com"[..]), "{head}");
    }
    // Other pairs keep their name.
    let line = "ts=2026-11-21T12:00:00Z level=info hostname=web1 msg=x";
    assert_eq!(
        stream_of(&file(), &ParserConfig::default(), line),
        r#"{_type="logfmt",hostname="web1"}"#
    );
}
