//! Arbitrary bytes: nothing panics, each line has a row, and rows are complete.

use proptest::prelude::*;

use super::*;
use crate::frame::LINE_BYTES_MAX;

const SAMPLES: [&str; 77] = [
    "<34>1 2003-10-11T22:14:15.003Z mymachine su - ID47 [a@1 x=\"1\" y=\"\\\"\"][b] \u{feff}msg",
    "<34>Oct 11 22:14:15 mymachine su[1]: 'su root' failed",
    "<189>router1: 000123: *Jan 31 12:00:00.123 UTC: %LINK-3-UPDOWN: x",
    "<166>Jan 31 2026 12:00:00 asa1 : %ASA-6-302013: x",
    "{\"_time\":\"2026-01-01T00:00:00Z\",\"a\":{\"b\":[1,2,{\"c\":\"\\u00e9\"}]},\"msg\":\"x\",\"level\":\"WARN\"}",
    "1.2.3.4 - - [17/May/2015:10:05:03 +0000] \"GET /a HTTP/1.1\" 200 12 \"-\" \"Mozilla\"",
    "2015-10-18 18:01:47,978 INFO [main] x",
    "[Sun Dec 04 04:47:44.5 2005] [core:error] x",
    "<13>Nov 21 12:00:00 [fe80::1] app[12]:hello",
    "<189>684: xr1 RP/0/RSP0/CPU0:Nov 21 12:00:00.000 UTC: config[65]: %SYS-5-CONFIG_I : x",
    "<6>Sep 14 14:12:51 fw1 CEF:0|F|Fire\\|wall|6|7|Allowed|0|src=10.0.0.1 msg=a b\\=c act=x",
    "2026-01-31T12:00:00.25Z stdout P {\"a\":1,\n2026-01-31T12:00:00.26Z stdout F \"b\":2}",
    "{\"log\":\"{\\\"level\\\":\\\"warn\\\",\\\"a\\\":{\\\"b\\\":1}}\\n\",\"stream\":\"stdout\",\"time\":\"2026-01-31T12:00:00Z\"}",
    "ts=2026-01-31T12:00:00.250Z level=warn msg=\"a \\\"b\\\"\" took=1s",
    "{\"t\":{\"$date\":\"2026-01-31T12:00:00Z\"},\"s\":\"I\",\"msg\":\"\\ud83d\",\"a\":NaN,\"a\":[1,],}",
    "type=SYSCALL msg=audit(1769860800.250:1): arch=c000003e",
    "\u{1b}[2m2026-01-31T12:00:00Z\u{1b}[0m \u{1b}[32m INFO\u{1b}[0m x",
    "<166>1 Nov 21 12:00:00 vm1 Vpxa - - [Originator@6876 sub=\"vpxLro\"] [VpxLRO] text",
    "<38>Nov 21 12:00:00 Message forwarded from aix7: sshd[123456]: x",
    "<166>20: ios1: 1 2: %SYSMGR-STANDBY-3-SHUTDOWN_START: started",
    "<166>xr1:Nov 21 11:59:58: config[65539]: %MGBL-SYS-5-CONFIG_I : x",
    "<134>Nov 21 11:59:58 slot1/f5b err mcpd[5]: 01070734:3: x",
    "<30>Nov 21 12:00:00 (\"U7PG2,788a20aabbcc,v4.0.42\") hostapd[9]: x",
    "<134> 11/21/2026:11:59:58 GMT ns1 0-PPE-0 : default SSLLOG SSL_HANDSHAKE_SUCCESS 12 0 : x",
    "<13>Nov 21 12:00:00 relay1 <38>1 2026-11-21T11:59:58Z web1 sshd 7 - - Accepted",
    "<13>1 2026-11-21T11:59:58Z h LEEF:2.0|V|P|4.0 SP1|15345|x5E|src=192.0.2.0^msg=a b",
    "date=2026-11-21 time=12:00:00 devname=\"f\" hostname=\"x\" level=\"notice\"",
    "98738:M 31 Jan 12:00:00.250 * Ready",
    "=ERROR REPORT==== 31-Jan-2026::12:00:00.250000 === x",
    "@40000000697deeca0ee6b280 tcpserver: status: 5/30",
    "web-1  | 2026-01-31T12:00:00.250000000Z WARNING: x",
    "[pid: 1|app: 0|req: 1/1] 192.0.2.1 () {38 vars in 6 bytes} [Sat Jan 31 12:00:00 2026] POST /x",
    "####<Jan 31, 2026, 12:00:00,250 PM Coordinated Universal Time> <Info> x",
    "[1/31/26, 13:00:00:250 CET] 00000001 SystemOut     O x",
    "2026-01-31T13:00:00.250+01:00[Europe/Berlin] local.ERROR: x",
    "Jan 31, 2026 12:00:00\u{202f}PM com.example.Main main",
    "<13>août 19 11:08:37 h app[5]: PHP Fatal error:  x",
    "Started GET \"/x\" for 192.0.2.1 at 2026-01-31 13:00:00 +0100",
    "ERROR [main] 2026-01-31 12:00:00,250 x",
    "[2026-01-31 12:00:00,735: WARNING/MainProcess] \u{1b}[31merror\u{1b}[0m: x",
    "{\"resourceLogs\":[{\"scopeLogs\":[{\"logRecords\":[{\"timeUnixNano\":\"1\",\"body\":{\"stringValue\":\"m\"}}]}]}]}",
    "{\"MESSAGE\":[104,195,169],\"PRIORITY\":\"err\",\"time\":\"soon\"}",
    "{\"_msg\":\"{\\\"level\\\":\\\"warn\\\"}\",\"date\":\"2026-01-31\",\"time\":\"12:00:00\"}",
    "<134>1 2026-11-21T11:59:58Z cp1 CheckPoint 1234 - [action:\"Accept\"; hostname:\"192.0.2.8\"]",
    "1.2.3.4 - - [17/May/2015:10:05:03 +0000] \"GET /a HTTP/1.1\" 200 12 \"-\" \"x\" \"1.2.3.4\" rt=1 a=b",
    "1.2.3.4 - - [17/May/2015:10:05:03 +0000] \"GET /a HTTP/1.1\" 200 12 \"-\" \"x\" 9 0.1 [a] [] b 1 0.1 200 id",
    "1.2.3.4 - - [17/May/2015:10:05:03 +0000] \"GET /a HTTP/1.1\" 200 12 \"-\" \"x\" 9 \"a\" \"http://b\" 3ms",
    "2026/11/20 12:00:00 [error] 1#2: *3 x, client: 1.2.3.4, server: s, request: \"GET / HTTP/1.1\", host: \"h\"",
    "[Fri Nov 20 12:00:00.1 2026] [core:error] [pid 1:tid 2] (1)a: [client 1.2.3.4:5] AH00124: x, referer: y",
    "Nov 20 12:00:00 h haproxy[1]: [2001:db8::1]:5 [20/Nov/2026:12:00:00.1] f b/s 0/0/1/2/3 200 1 - - ---- 1/1/0/0/0 0/0 {a} {b} \"GET / HTTP/1.1\"",
    "1.2.3.4:5 [20/Nov/2026:12:00:00.1] f b/s 0/0/+3 212 -- 1/1/0/0/0 0/0",
    "2026-11-20 12:00:00 192.0.2.1 GET /x - 443 - 192.0.2.2 curl/8 - 500 0 0 15",
    "1795000000.250     49 192.0.2.1 TCP_MISS/200 748 GET http://a/ - DIRECT/192.0.2.9 text/html",
    "https 2026-11-20T12:00:00.186641Z app/a/1 192.0.2.1:2 10.0.0.1:80 0.1 -1 0.3 503 - 1 2 \"GET https://a:443/ HTTP/1.1\" \"a b\" - - \"x\"",
    "2026-11-20T12:00:00.186641Z lb 192.0.2.1:2 - -1 -1 -1 503 0 1 2 \"- - - \" \"-\" - -",
    "2 123456789010 eni-1 192.0.2.1 192.0.2.2 1 2 6 1 1 1795000000 1795000060 ACCEPT OK",
    "node=a type=USER_LOGIN msg=audit(1795000000.250:7): pid=1 msg='op=login acct=\"a\" res=ok'\u{1d}UID=\"a\"",
    "audit: type=1400 audit(1795000000.250:7): apparmor=\"DENIED\" pid=1",
    "Nov 20 12:00:00 h sshd[1]: Accepted publickey for a b from 192.0.2.1 port 22 ssh2: RSA SHA256:x",
    "Nov 20 12:00:00 h sshd[1]: Connection closed by authenticating user root 192.0.2.1 port 22 [preauth]",
    "Nov 20 12:00:00 h sshd[1]: pam_unix(sshd:auth): authentication failure; logname= rhost=192.0.2.1  user=a",
    "Nov 20 12:00:00 h sshd[1]: error: maximum authentication attempts exceeded for a from 192.0.2.1 port 22 ssh2",
    "Nov 20 12:00:00 h dropbear[1]: Password auth succeeded for 'root' from 192.0.2.1:22",
    "Nov 20 12:00:00 h sudo:   bob : no ; TTY=pts/0 ; PWD=/ ; USER=root ; ENV=a ; COMMAND=/bin/ls",
    "2026-11-20 12:00:00.250 UTC [77] a@b 42P01 LOG:  duration: 1.5 ms  x",
    "2026-11-20 12:00:00 UTC:192.0.2.1(5432):a@b:[77]:ERROR:  x",
    "2026-11-20 12:00:00.250 UTC,\"a\",\"b\",7,\"192.0.2.1:5\",1.2,4,\"\",x,3/1,0,LOG,00000,\"a \"\"b\"\"\",,,,,,,,,\"psql\"",
    "20-Nov-2026 12:00:00.250 queries: info: client @0x7f 192.0.2.1#5 (a): view v: query: a IN A +E (192.0.2.53)",
    "Nov 20 12:00:00 h named[1]: client 192.0.2.1#5 (a): query (cache) 'a/A/IN' denied",
    "Nov 20 12:00:00 h postfix/smtp[1]: 3F2A1B9C: to=<a@b>, relay=m[192.0.2.1]:25, delay=1.2, status=sent (x)",
    "Nov 20 12:00:00 h postfix/smtpd[1]: NOQUEUE: reject: RCPT from u[192.0.2.1]: 554 5.7.1 <a>: x; from=<a> to=<b> proto=ESMTP helo=<c>",
    "E1120 12:00:00.250000    1234 a.go:5] x",
    "Nov 20 12:00:00 h kernel: [ 8.9] [UFW BLOCK] IN=eth0 OUT= SRC=192.0.2.1 PROTO=TCP RES=0x00 ACK SYN URGP=0 [SRC=a]",
    "Nov 20 12:00:00 h systemd[1]: a.service: Main process exited, code=exited, status=1/FAILURE",
    "Nov 20 12:00:00 h systemd[1]: Started a.service - A server.",
    "{\"log\":\"2026/11/20 12:00:00 [error] 1#2: *3 x, client: 1.2.3.4\\n\",\"stream\":\"stderr\",\"time\":\"2026-11-20T12:00:00Z\"}",
    "- 1117838570 2005.06.03 R02 2005-06-03-15.42.50.675872 R02 RAS KERNEL INFO x",
];

fn all_origins() -> Vec<Origin> {
    let typed = |name: &str| Hints { log_type: Some(name.into()), ..Hints::default() };
    let mut origins = vec![syslog_udp(), file(), http(Format::Json, Hints::default())];
    for name in ["plain", "json", "access", "logfmt", "syslog", "other"] {
        origins.push(http(Format::Auto, typed(name)));
    }
    let named = Hints {
        time_fields: vec!["ts".into(), "a".into()],
        level_fields: vec!["a.b".into(), "level".into()],
        msg_fields: vec!["log".into()],
        ..Hints::default()
    };
    origins.push(http(Format::Auto, named));
    origins
}

fn check_any(lines: &[&[u8]]) {
    for origin in all_origins() {
        let batch = parse_with(&ParserConfig::default(), &origin, lines);
        assert_eq!(batch.len(), lines.len());
        for (row, line) in batch.rows().zip(lines) {
            assert_eq!(row.raw(), *line);
            assert!(row.get_by_name("_type").is_some_and(|t| !t.is_empty()));
            assert!(row.get_by_name("_msg").is_some());
            assert!(row.time_ns() >= 0 && row.time_ns() <= ARRIVAL_NS + 2 * 86_400_000_000_000);
            let mut ids: Vec<_> = row.fields().map(|(id, _)| id).collect();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), row.fields().count(), "a name occurs once");
            check_streams(&batch, row);
        }
    }
}

/// What a text gives as fields is a part of it, or one of few words, and never the host.
fn check_streams(batch: &Batch, row: crate::batch::Row<'_>) {
    let is_text = row.get_by_name("_type").is_some_and(|kind| matches!(kind, b"plain" | b"syslog"));
    if !is_text || row.raw().iter().any(|b| matches!(b, b'{' | b'\\')) {
        return;
    }
    const WORDS: &str = " accept reject master replica child sentinel Accepted Failed Invalid closed \
                         reset connected disconnected success started starting stopped stopping \
                         finished reloaded reloading mounted mounting unmounted reached listening \
                         failed connect disconnect timeout removed password unknown ";
    let is_word = |value: &[u8]| {
        std::str::from_utf8(value).is_ok_and(|word| WORDS.contains(&format!(" {word} ")))
    };
    for (id, value) in row.fields() {
        let name = batch.name(id);
        let is_ours = name.starts_with('_')
            || matches!(name, "level" | "facility" | "facility_keyword" | "severity" | "format");
        let is_part = memchr::memmem::find(row.raw(), value).is_some();
        assert!(is_ours || is_part || is_word(value), "{name}");
    }
}

#[test]
fn each_cut_of_each_sample() {
    for sample in SAMPLES {
        let cuts: Vec<&[u8]> = (0..=sample.len()).map(|at| &sample.as_bytes()[..at]).collect();
        check_any(&cuts);
        let cuts: Vec<&[u8]> = (0..=sample.len()).map(|at| &sample.as_bytes()[at..]).collect();
        check_any(&cuts);
    }
}

/// Inputs that fuzzing found, and its seeds.
#[test]
fn seeds_of_the_fuzzer() {
    let folder = std::path::Path::new("../../fuzz/seeds/parse_lines");
    let mut seeds = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let seed = std::fs::read(entry.unwrap().path()).unwrap();
        // Two bytes of options precede the lines.
        let lines = seed.get(2..).unwrap_or_default();
        check_any(&[lines]);
        check_any(&lines.split(|b| *b == b'\n').collect::<Vec<_>>());
        seeds += 1;
    }
    assert!(seeds > 0);
}

/// Whatever a line repeats, it is parsed in bounded depth.
#[test]
fn repeated_beginnings() {
    for part in [
        "# Time: ",
        "####<",
        "\u{1b}[0m# Time: ",
        "web-1  | ",
        "<13>Nov 21 12:00:00 h ",
        "Nov 21 12:00:00 h ",
        "<13>1 2026-11-21T12:00:00Z h a - - - ",
        "<13>1 Nov 21 12:00:00 h a - - - ",
        "1: ",
        "h:Nov 21 12:00:00 ",
        "Message forwarded from a: ",
        "{\"_msg\":\"",
        "{\"resourceLogs\":[{\"scopeLogs\":[",
        "ERROR [main] ",
        "level=",
        "[[",
        "LEEF:1.0|",
        "date=2026-11-21 devname=a ",
        "2026/11/20 12:00:00 [error] 1#2: *3 x, client: 1.2.3.4, client: ",
        "2026/11/20 12:00:00 [error] 1#2: *3 , request: \"",
        "[Fri Nov 20 12:00:00 2026] [error] ",
        "[Fri Nov 20 12:00:00 2026] [error] [client 1] ",
        "type=A msg=audit(1795000000.250:7): msg='",
        "IN= OUT= LEN=1 LEN ",
        "IN=",
        "2026-11-20 12:00:00.250 UTC [77] LOG:  ",
        "20-Nov-2026 12:00:00.250 client ",
        "1.2.3.4 - - [17/May/2015:10:05:03 +0000] \"GET /a HTTP/1.1\" 200 12 \"-\" \"-\" , ",
    ] {
        let line = part.repeat((1 << 18) / part.len());
        check_any(&[line.as_bytes()]);
        // Behind a head as well.
        check_any(&[format!("<13>Nov 21 12:00:00 {line}").as_bytes()]);
    }
}

#[test]
fn the_longest_line() {
    for start in
        ["", "{\"a\":\"", "<13>1 - - - - - [x y=\"", "1.2.3.4 - - [", "<13>", "{\"a\":[[[["]
    {
        let mut line = start.as_bytes().to_vec();
        line.resize(LINE_BYTES_MAX, b'x');
        check_any(&[&line]);
    }
    let mut origin = FrameBuilder::new();
    origin.push_line(&file(), ARRIVAL_NS, b"x", true);
    let frame = Arc::new(origin.finish(1, 1).unwrap());
    let batch = Parser::new(&ParserConfig::default()).unwrap().parse(frame);
    let note = batch.row(0).get_by_name("_note");
    assert_eq!(note, Some(&b"longer than a line may be, cut off"[..]));
}

proptest! {
    #[test]
    fn random_bytes(lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..20)) {
        let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
        check_any(&lines);
    }

    #[test]
    fn changed_samples(
        sample in prop::sample::select(&SAMPLES[..]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..3), 1..6),
    ) {
        let mut line = sample.as_bytes().to_vec();
        for (at, byte, kind) in changes {
            let at = at.index(line.len().max(1)).min(line.len().saturating_sub(1));
            match kind {
                0 if !line.is_empty() => line[at] = byte,
                1 if !line.is_empty() => { line.remove(at); }
                _ => line.insert(at, byte),
            }
        }
        check_any(&[&line]);
    }
}
