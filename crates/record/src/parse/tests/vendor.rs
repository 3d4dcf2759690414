//! Heads as vendors and programs write them: host, application, process, message and time.
//!
//! If VictoriaLogs 1.52.1 parses a line differently, the row says so (`VL:`).

use super::*;

struct Head {
    line: &'static str,
    hostname: &'static str,
    app_name: &'static str,
    proc_id: &'static str,
    msg: &'static str,
    /// `-` for the time of arrival.
    time: &'static str,
}

const NOON: &str = "-";
const STARTED: &str = "2026-01-31T12:00:00Z";

fn head(
    line: &'static str,
    [hostname, app_name, proc_id]: [&'static str; 3],
    msg: &'static str,
    time: &'static str,
) -> Head {
    Head { line, hostname, app_name, proc_id, msg, time }
}

fn check_heads(origin: &Origin, note: Option<&str>, heads: &[Head]) {
    for head in heads {
        let batch = parse_with(&ParserConfig::default(), origin, &[head.line.as_bytes()]);
        let row = batch.row(0);
        let get = |name: &str| {
            String::from_utf8_lossy(row.get_by_name(name).unwrap_or_default()).into_owned()
        };
        let time = match row.time_ns() {
            ARRIVAL_NS => "-".to_owned(),
            time_ns => time_text(time_ns),
        };
        let found = [get("hostname"), get("app_name"), get("proc_id"), get("_msg"), time];
        let expected = [head.hostname, head.app_name, head.proc_id, head.msg, head.time];
        assert_eq!(found, expected, "{}", head.line);
        let found = row.get_by_name("_note").map(|n| String::from_utf8_lossy(n).into_owned());
        assert_eq!(found.as_deref(), note, "{}", head.line);
        assert_eq!(row.raw(), head.line.as_bytes());
    }
}

#[test]
fn tags() {
    check_heads(
        &syslog_udp(),
        None,
        &[
            head("<13>Nov 21 12:00:00 h app[12]:hello", ["h", "app", "12"], "hello", NOON),
            head("<13>Nov 21 12:00:00 h app:hello", ["h", "app", ""], "hello", NOON),
            head("<13>Nov 21 12:00:00 h app[]:hello", ["h", "app", ""], "hello", NOON),
            head("<13>Nov 21 12:00:00 h app[12]: hello", ["h", "app", "12"], "hello", NOON),
            head("<13>Nov 21 12:00:00 h app[12]", ["h", "app", "12"], "", NOON),
            head("<13>Nov 21 12:00:00 h app[12]:", ["h", "app", "12"], "", NOON),
            head("<13>Nov 21 12:00:00 app[12]:hello", ["", "app", "12"], "hello", NOON),
            head("<13>Nov 21 12:00:00 app:hello", ["", "app", ""], "hello", NOON),
            head("<13>app[12]:hello", ["", "app", "12"], "hello", NOON),
            head("<13>app:hello", ["", "app", ""], "hello", NOON),
            head("<13>app: hello", ["", "app", ""], "hello", NOON),
            head("app: hello", ["", "", ""], "app: hello", NOON),
            head("<13>Nov 21 12:00:00 web1 app hello", ["web1", "app", ""], "hello", NOON),
            head(
                "<13>Nov 21 12:00:00 web1 app hello world",
                ["web1", "app", ""],
                "hello world",
                NOON,
            ),
            head("<13>Nov 21 12:00:00 web1 app  hello", ["web1", "app", ""], " hello", NOON),
            head("<13>Nov 21 12:00:00 web1 CRON hello", ["web1", "CRON", ""], "hello", NOON),
            head(
                "<13>Nov 21 12:00:00 web1 NetworkManager hello",
                ["web1", "NetworkManager", ""],
                "hello",
                NOON,
            ),
            head("<13>Nov 21 12:00:00 - app hello", ["", "app", ""], "hello", NOON),
            head("Nov 21 12:00:00 web1 app hello", ["web1", "app", ""], "hello", NOON),
            // Text that is more likely a message. VL: its first word is the application.
            head("<13>Nov 21 12:00:00 h restarting", ["h", "", ""], "restarting", NOON),
            head(
                "<13>Nov 21 12:00:00 h last message repeated 2 times",
                ["h", "", ""],
                "last message repeated 2 times",
                NOON,
            ),
            head(
                "<13>Nov 21 12:00:00 h Connection closed",
                ["h", "", ""],
                "Connection closed",
                NOON,
            ),
            head("<13>Nov 21 12:00:00 h ERROR in x", ["h", "", ""], "ERROR in x", NOON),
            head("<13>Nov 21 12:00:00 h 42 is it", ["h", "", ""], "42 is it", NOON),
            // Addresses, paths and URLs are not tags. VL: `localhost`, `http`, `C`.
            head(
                "<13>Nov 21 12:00:00 h localhost:5432 refused",
                ["h", "", ""],
                "localhost:5432 refused",
                NOON,
            ),
            head(
                "<13>Nov 21 12:00:00 h http://x/ is down",
                ["h", "", ""],
                "http://x/ is down",
                NOON,
            ),
            head("<13>Nov 21 12:00:00 h std::bad_alloc", ["h", "", ""], "std::bad_alloc", NOON),
            head(
                "<13>Nov 21 12:00:00 h aa:bb:cc:dd:ee:ff joined",
                ["h", "", ""],
                "aa:bb:cc:dd:ee:ff joined",
                NOON,
            ),
            head("<13>Nov 21 12:00:00 h 12:30 it is", ["h", "", ""], "12:30 it is", NOON),
        ],
    );
}

#[test]
fn hosts() {
    check_heads(
        &syslog_udp(),
        None,
        &[
            head("<13>Nov 21 12:00:00 fe80::1 app: x", ["fe80::1", "app", ""], "x", NOON),
            // VL: no host, and an application without name.
            head("<13>Nov 21 12:00:00 [fe80::1] app: x", ["fe80::1", "app", ""], "x", NOON),
            head(
                "<13>Nov 21 12:00:00 [fe80::1%eth0] app[1]: x",
                ["fe80::1%eth0", "app", "1"],
                "x",
                NOON,
            ),
            head(
                "<13>Nov 21 12:00:00 2001:db8::a:b app: x",
                ["2001:db8::a:b", "app", ""],
                "x",
                NOON,
            ),
            head("<13>Nov 21 12:00:00 [2001:db8::1] app x", ["2001:db8::1", "app", ""], "x", NOON),
            head(
                "<13>1 2026-11-21T12:00:00Z [2001:db8::1] app 1 - - x",
                ["2001:db8::1", "app", "1"],
                "x",
                NOON,
            ),
            head(
                "<13>1 2026-11-21T12:00:00Z 2001:db8::1 app 1 - - x",
                ["2001:db8::1", "app", "1"],
                "x",
                NOON,
            ),
            head("<13>Nov 21 12:00:00 10.0.0.1 app: x", ["10.0.0.1", "app", ""], "x", NOON),
            head("<13>Nov 21 12:00:00 [12] x", ["", "", ""], "[12] x", NOON),
            head("<13>Nov 21 12:00:00 : x", ["", "", ""], "x", NOON),
        ],
    );
}

#[test]
fn times_of_heads() {
    let rows: Vec<Head> = [
        ("<13>NOV 21 11:59:00 h a: x", "2026-11-21T11:59:00Z"),
        ("<13>nov 21 11:59:00 h a: x", "2026-11-21T11:59:00Z"),
        ("<13>Jan 31 2026 12:00:00 h a: x", STARTED),
        ("<13>2026 Jan 31 12:00:00 h a: x", STARTED),
        ("<13>Jan 31 12:00:00 2026 h a: x", STARTED),
        ("<13>2026-01-31T12:00:00Z h a: x", STARTED),
        ("<13>2026-01-31T13:00:00+01:00 h a: x", STARTED),
        ("<13>2026-01-31 12:00:00 h a: x", STARTED),
        ("<13>Jan 31 12:00:00.250 h a: x", "2026-01-31T12:00:00.25Z"),
        ("<13>Jan 31 12:00:00,250 h a: x", "2026-01-31T12:00:00.25Z"),
        ("<13>Jan 31 13:00:00.250+01:00 h a: x", "2026-01-31T12:00:00.25Z"),
        ("<13>Jan 31 2026 13:00:00 +0100 h a: x", STARTED),
        ("<13>Jan 31 12:00:00 UTC h a: x", STARTED),
        // Names of zones, skipped if they have several meanings. VL: the zone is the host.
        ("<13>Jan 31 13:00:00 CET h a: x", STARTED),
        ("<13>Jan 31 2026 07:00:00 EST h a: x", STARTED),
        ("<13>Jan 31 2026 06:00:00 CST h a: x", STARTED),
        // A version before an RFC 3164 head. VL: everything is the message.
        ("<13>1 Jan 31 12:00:00 h a: x", STARTED),
        // Without PRI, as in octet-counted messages.
        ("Jan 31 12:00:00 h a: x", STARTED),
        ("2026-01-31T12:00:00Z h a: x", STARTED),
        ("2026-01-31 12:00:00 h a: x", STARTED),
        ("1 2026-01-31T12:00:00Z h a - - - x", STARTED),
    ]
    .map(|(line, time)| head(line, ["h", "a", ""], "x", time))
    .into();
    check_heads(&syslog_udp(), None, &rows);
}

#[test]
fn nil_and_damaged_heads() {
    let nil = ["", "", ""];
    check_heads(
        &syslog_udp(),
        None,
        &[
            head("<13>1 -", nil, "", NOON),
            head("<13>1 - -", nil, "", NOON),
            head("<13>1 - - -", nil, "", NOON),
            head("<13>1 - - - -", nil, "", NOON),
            head("<13>1 - - - - -", nil, "", NOON),
            head("<13>1 - - - - - -", nil, "", NOON),
            head("<13>1 ", nil, "", NOON),
            head("<13>1 2026-01-31T12:00:00Z", nil, "", STARTED),
            head("<13>1 2026-01-31T12:00:00Z h", ["h", "", ""], "", STARTED),
            head("<13>1 2026-01-31T12:00:00Z h a", ["h", "a", ""], "", STARTED),
            head("<13>1", nil, "1", NOON),
            head("\u{feff}<13>1 - h a 1 - - x", ["h", "a", "1"], "x", NOON),
            head("<13>\u{feff}1 - h a 1 - - x", ["h", "a", "1"], "x", NOON),
            head("<13>1 - h a 1 - - \u{feff}x", ["h", "a", "1"], "x", NOON),
            head("<13>1 - h a 1 - [b@1][c@2 d=\"e\"] x", ["h", "a", "1"], "x", NOON),
            head("<13>1 - h a 1 - [b@1 d=\"]\\\"\\]\"] x", ["h", "a", "1"], "x", NOON),
            head("<13>1 - h a 1 - @cee:{\"b\":1,\"msg\":\"x\"}", ["h", "a", "1"], "x", NOON),
        ],
    );
    let unreadable = Some("time not readable, arrival taken");
    check_heads(
        &syslog_udp(),
        unreadable,
        &[
            head("<13>1 soon h a 1 - - x", ["h", "a", "1"], "x", NOON),
            head("<13>1 2026-13-31T12:00:00Z h a 1 m [b@1] x", ["h", "a", "1"], "x", NOON),
        ],
    );
    check_heads(
        &syslog_udp(),
        Some("priority above 191"),
        &[
            head("<192>Nov 21 12:00:00 h a: x", ["h", "a", ""], "x", NOON),
            head("<999>1 - h a 1 - - x", ["h", "a", "1"], "x", NOON),
        ],
    );
    // VL: the message is lost.
    check_heads(
        &syslog_udp(),
        Some("broken structured data, kept in the message"),
        &[
            head("<13>1 - h a 1 - [b@1 c=\"d\" x", ["h", "a", "1"], "[b@1 c=\"d\" x", NOON),
            head("<13>1 - h a 1 - [b@1 c] x", ["h", "a", "1"], "[b@1 c] x", NOON),
            head("<13>1 - h a 1 - [] x", ["h", "a", "1"], "[] x", NOON),
            head("<13>1 - h a 1 - [ x", ["h", "a", "1"], "[ x", NOON),
        ],
    );
}

#[test]
fn structured_data_beyond_the_rfc() {
    let rows = [
        ("[x y=1] m", "m", &[("x.y", "1")][..]),
        ("[x y=1 z=\"a b\"] m", "m", &[("x.y", "1"), ("x.z", "a b")]),
        (
            "[abc=def][b=y z=a q=\"]= \"] m",
            "m",
            &[("abc", "def"), ("b", "y"), ("z", "a"), ("q", "]= ")],
        ),
        ("[foo=\"a b\"] m", "m", &[("foo", "a b")]),
        ("[x y=] m", "m", &[("x.y", "")]),
    ];
    for (text, msg, fields) in rows {
        let line = format!("<13>1 - h a 1 - {text}");
        let batch = parse_with(&ParserConfig::default(), &syslog_udp(), &[line.as_bytes()]);
        let row = batch.row(0);
        assert_eq!(row.get_by_name("_note"), None, "{text}");
        for (name, value) in fields.iter().chain(&[("_msg", msg)]) {
            assert_eq!(row.get_by_name(name), Some(value.as_bytes()), "{name} of {text}");
        }
    }
}

#[test]
fn cisco() {
    check_heads(
        &syslog_udp(),
        None,
        &[
            head(
                "<189>1234: *Nov 21 11:59:00.123: %SYS-5-CONFIG_I: x",
                ["", "SYS", ""],
                "%SYS-5-CONFIG_I: x",
                "2026-11-21T11:59:00.123Z",
            ),
            head(
                "<189>1234: Nov 21 2026 12:59:00.123 CET: %SYS-5-CONFIG_I: x",
                ["", "SYS", ""],
                "%SYS-5-CONFIG_I: x",
                "2026-11-21T11:59:00.123Z",
            ),
            head(
                "<189>sw1: 001234: .Nov 21 12:00:00: %LINK-3-UPDOWN: x",
                ["sw1", "LINK", ""],
                "%LINK-3-UPDOWN: x",
                NOON,
            ),
            // Nexus
            head(
                "<189>: 2026 Nov 21 12:00:00 UTC: %ETHPORT-5-IF_UP: x",
                ["", "ETHPORT", ""],
                "%ETHPORT-5-IF_UP: x",
                NOON,
            ),
            head(
                "<189>n9k: 2026 Nov 21 12:00:00.000 UTC: %ETHPORT-5-IF_UP: x",
                ["n9k", "ETHPORT", ""],
                "%ETHPORT-5-IF_UP: x",
                NOON,
            ),
            // IOS XR
            head(
                "<189>684: xr1 RP/0/RSP0/CPU0:Nov 21 12:00:00.000 UTC: config[65]: %MGBL-SYS-5-CONFIG_I : x",
                ["xr1", "config", "65"],
                "%MGBL-SYS-5-CONFIG_I : x",
                NOON,
            ),
            head(
                "<189>RP/0/RSP0/CPU0:Nov 21 12:00:00 : SSHD_[657]: %SECURITY-SSHD-6-INFO : x",
                ["", "SSHD_", "657"],
                "%SECURITY-SSHD-6-INFO : x",
                NOON,
            ),
            // AireOS
            head(
                "<188>wlc1: *spamApTask0: Nov 21 12:00:00.000: %CAPWAP-4-DISC: x",
                ["wlc1", "CAPWAP", ""],
                "%CAPWAP-4-DISC: x",
                NOON,
            ),
            // ASA
            head(
                "<166>Jan 31 2026 12:00:00 asa1 : %ASA-6-302013: x",
                ["asa1", "ASA", ""],
                "%ASA-6-302013: x",
                STARTED,
            ),
            head(
                "<166>Jan 31 2026 12:00:00 : %ASA-6-302013: x",
                ["", "ASA", ""],
                "%ASA-6-302013: x",
                STARTED,
            ),
            head("<166>%ASA-6-302013: x", ["", "ASA", ""], "%ASA-6-302013: x", NOON),
            // ISE
            head(
                "<181>Nov 21 12:00:00 ise1 CISE_RADIUS_Accounting 0000012345 1 0 x",
                ["ise1", "CISE_RADIUS_Accounting", ""],
                "0000012345 1 0 x",
                NOON,
            ),
            // Meraki. VL: the address of the flow is the process.
            head(
                "<134>1 1769860800.250000000 MX84 flows src=10.0.0.1 dst=10.0.0.2",
                ["MX84", "flows", ""],
                "src=10.0.0.1 dst=10.0.0.2",
                "2026-01-31T12:00:00.25Z",
            ),
        ],
    );
}

#[test]
fn other_vendors() {
    check_heads(
        &syslog_udp(),
        None,
        &[
            // Juniper
            head(
                "<165>Jan 31 12:00:00 2026 srx1 mgd[4321]: UI_COMMIT: x",
                ["srx1", "mgd", "4321"],
                "UI_COMMIT: x",
                STARTED,
            ),
            head("<165>Nov 21 12:00:00  srx1 rpd[1]: x", ["srx1", "rpd", "1"], "x", NOON),
            head(
                "<165>1 2026-11-21T12:00:00.000Z srx1 RT_FLOW - RT_FLOW_SESSION_CLOSE [junos@2636.1.1.1.2.129 reason=\"TCP FIN\"] x",
                ["srx1", "RT_FLOW", ""],
                "x",
                NOON,
            ),
            head(
                "<133>ns5gt: NetScreen device_id=ns5gt [Root]system-notification-00257(traffic): x",
                ["", "ns5gt", ""],
                "NetScreen device_id=ns5gt [Root]system-notification-00257(traffic): x",
                NOON,
            ),
            // Palo Alto
            head(
                "<14>Nov 21 12:00:00 pa1 1,2026/11/21 12:00:00,0123,TRAFFIC,end",
                ["pa1", "", ""],
                "1,2026/11/21 12:00:00,0123,TRAFFIC,end",
                NOON,
            ),
            // HPE
            head(
                "<14> Nov 21 12:00:00 10.0.0.1 00076 ports: port 1 is now on-line",
                ["10.0.0.1", "ports", ""],
                "port 1 is now on-line",
                NOON,
            ),
            // Windows by Snare and by NXLog
            head(
                "<14>Nov 21 12:00:00 win1 MSWinEventLog\t1\tSecurity\t1234",
                ["win1", "MSWinEventLog", ""],
                "1\tSecurity\t1234",
                NOON,
            ),
            head(
                "<14>1 2026-11-21T12:00:00.000000+00:00 win1 Microsoft-Windows-Security-Auditing 4 - [NXLOG@14506 Keywords=\"-921\" EventType=\"AUDIT_SUCCESS\"] x",
                ["win1", "Microsoft-Windows-Security-Auditing", "4"],
                "x",
                NOON,
            ),
            head(
                "<14>Nov 21 12:00:00 win1 Microsoft-Windows-Security-Auditing[4]: x",
                ["win1", "Microsoft-Windows-Security-Auditing", "4"],
                "x",
                NOON,
            ),
            // VMware
            head(
                "<166>2026-11-21T12:00:00.000Z esx1.example.com Hostd: info hostd[2099] x",
                ["esx1.example.com", "Hostd", ""],
                "info hostd[2099] x",
                NOON,
            ),
            head(
                "<166>2026-11-21T12:00:00.000Z esx1 Hostd[2099]: x",
                ["esx1", "Hostd", "2099"],
                "x",
                NOON,
            ),
            head(
                "<14>1 2026-11-21T12:00:00.000000+00:00 vc1 vpxd 2099 - - x",
                ["vc1", "vpxd", "2099"],
                "x",
                NOON,
            ),
            // busybox and FreeBSD: no host
            head("<13>Nov 21 12:00:00 root: hello", ["", "root", ""], "hello", NOON),
            head("<38>Nov 21 12:00:00 sshd[14308]: x", ["", "sshd", "14308"], "x", NOON),
            // OpenWrt, DD-WRT
            head(
                "<30>Nov 21 12:00:00 OpenWrt dnsmasq-dhcp[12]: x",
                ["OpenWrt", "dnsmasq-dhcp", "12"],
                "x",
                NOON,
            ),
            // F5
            head(
                "<134>Nov 21 12:00:00 f5.example.com info tmm1[12]: 01220002:6: x",
                ["f5.example.com", "tmm1", "12"],
                "01220002:6: x",
                NOON,
            ),
            // HAProxy, Docker's log driver, Postfix
            head(
                "<134>Nov 21 12:00:00 haproxy[14389]: 10.0.1.2:33317 [x] y",
                ["", "haproxy", "14389"],
                "10.0.1.2:33317 [x] y",
                NOON,
            ),
            head(
                "<30>Nov 21 12:00:00 h 0123456789ab[812]: x",
                ["h", "0123456789ab", "812"],
                "x",
                NOON,
            ),
            head(
                "<22>Nov 21 12:00:00 h postfix/smtpd[812]: x",
                ["h", "postfix/smtpd", "812"],
                "x",
                NOON,
            ),
        ],
    );
}
