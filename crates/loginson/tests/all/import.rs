//! A million lines of real logs through `loginson import`: fields counted by queries equal those
//! counted over the files by plain means, and the start after that is quick.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::common::{Server, loginson};

/// Repetitions of each excerpt, so that all together are a million lines.
const REPEATS: usize = 190;

fn corpora() -> Vec<PathBuf> {
    let directory = Path::new("../../testdata/corpora");
    let files = fs::read_dir(directory).expect("the excerpts are part of the repository");
    let mut files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "log"));
    files.sort();
    files
}

fn import(server: &Server, arguments: &[&str]) -> Output {
    let address = format!("http://{}", server.http);
    loginson(&["import", "--server", &address]).args(arguments).output().unwrap()
}

/// Counts by the value of a field, as the server sees it.
fn counted(server: &Server, filter: &str, field: &str) -> HashMap<String, u64> {
    let rows = server.query(&format!("{filter} | stats by ({field}) count() n"), "");
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    rows.iter().map(|row| (text(&row[field]), text(&row["n"]).parse().unwrap())).collect()
}

/// The same, as a reader of the file would.
fn counted_in(text: &str, field: impl Fn(&str) -> Option<&str>) -> HashMap<String, u64> {
    let mut counts = HashMap::new();
    for line in text.lines() {
        *counts.entry(field(line).unwrap_or_default().to_owned()).or_default() += REPEATS as u64;
    }
    counts
}

#[test]
fn a_million_lines() {
    let directory = tempfile::tempdir().unwrap();
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start_in(data.path(), &[], "");
    let mut files = Vec::new();
    let mut by_file = HashMap::new();
    let mut lines = 0;
    for path in corpora() {
        let text = fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let target = directory.path().join(name);
        let mut file: Box<dyn Write> = match name {
            "OpenSSH.log" => {
                let file = fs::File::create(&target).unwrap();
                Box::new(flate2::write::GzEncoder::new(file, flate2::Compression::fast()))
            }
            "Spark.log" => Box::new(
                zstd::Encoder::new(fs::File::create(&target).unwrap(), 1).unwrap().auto_finish(),
            ),
            _ => Box::new(fs::File::create(&target).unwrap()),
        };
        for _ in 0..REPEATS {
            file.write_all(&text).unwrap();
        }
        drop(file);
        let count = (text.iter().filter(|&&b| b == b'\n').count() * REPEATS) as u64;
        lines += count;
        by_file.insert(target.to_str().unwrap().to_owned(), count);
        files.push(target.to_str().unwrap().to_owned());
    }
    assert!(lines >= 1_000_000, "{lines} lines only");

    // Each line is counted by itself.
    let off = ["--multiline", "off"].into_iter();
    let arguments: Vec<&str> = off.chain(files.iter().map(String::as_str)).collect();
    let output = import(&server, &arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains(&format!("{lines} lines, ")) && said.contains("acknowledged"), "{said}");
    eprintln!("{}", said.trim());

    server.wait_for("everything is parsed", |server| server.status()["parse_lag_lines"] == 0);
    assert_eq!(server.count("_time:[1970,2100] NOT _type:summary"), lines);
    assert_eq!(counted(&server, "NOT _type:summary", "_file"), by_file);

    let corpus = |name: &str| {
        let path = corpora().into_iter().find(|path| path.ends_with(name)).unwrap();
        fs::read_to_string(path).unwrap()
    };
    let in_file = |name: &str| format!("_file:{:?}", directory.path().join(name));
    // `… "GET / HTTP/1.1" 200 123 "referer" "agent"`: the status is behind the second quote.
    let access = corpus("apache_access.log");
    let expected = counted_in(&access, |line| line.split('"').nth(2)?.split(' ').nth(1));
    assert_eq!(counted(&server, &in_file("apache_access.log"), "status"), expected);
    // `Jun 14 15:16:01 combo sshd(pam_unix)[19939]: …`
    let linux = corpus("Linux.log");
    let expected = counted_in(&linux, |line| line.split_whitespace().nth(3));
    assert_eq!(counted(&server, &in_file("Linux.log"), "hostname"), expected);
    let ssh = corpus("OpenSSH.log");
    let with = |line: &&str| line.contains("Failed password");
    let expected = (ssh.lines().filter(with).count() * REPEATS) as u64;
    assert!(expected > 0);
    assert_eq!(server.count(&format!("{} \"Failed password\"", in_file("OpenSSH.log"))), expected);
    let raw = server.raw(&format!("{} | limit 300", in_file("BGL.log")));
    assert!(raw.iter().all(|line| line.ends_with(b"\r")), "raw lines keep what ends them");

    assert_eq!(server.terminate(), Some(0));
    let again = Server::start_in(data.path(), &[], "");
    eprintln!(
        "ready {} ms after the start, {}",
        again.start_time.as_millis(),
        again.status()["recovery"]
    );
    assert_eq!(again.count("_time:[1970,2100] NOT _type:summary"), lines);
}

#[test]
fn an_import_resumes_where_it_ended() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.log");
    fs::write(&file, "one\ntwo\n\nfour without newline").unwrap();
    let file = file.to_str().unwrap();
    let server = Server::start();
    assert!(import(&server, &["--skip-lines", "1", "--type", "notes", file]).status.success());
    let mut raw = server.raw("_type:notes");
    raw.sort();
    assert_eq!(raw, [&b""[..], b"four without newline", b"two"]);
    assert_eq!(counted(&server, "*", "_file"), HashMap::from([(file.to_owned(), 3)]));

    let failed = |arguments: &[&str], what: &str| {
        let output = import(&server, arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(what), "{said}");
    };
    failed(&["--skip-lines", "9", file], "the file has 4 lines");
    failed(&["--type", "no type", file], "is not a valid type");
    failed(&["/nowhere/a.log"], "/nowhere/a.log: cannot open it");
    failed(
        &[file, "/nowhere/a.log"],
        "no line of it was acknowledged; the files before it are kept",
    );
    let output = loginson(&["import", "--server", "http://127.0.0.1:1", file]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("start one with `loginson`"), "{said}");

    // Of a file that was cut off, the lines before the cut are kept.
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    (0..50_000).for_each(|i| writeln!(gzip, "line {i}").unwrap());
    let mut bytes = gzip.finish().unwrap();
    bytes.truncate(bytes.len() / 2);
    let cut = directory.path().join("cut.gz");
    fs::write(&cut, bytes).unwrap();
    let output = import(&server, &["--type", "cut", cut.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let kept = server.count("_type:cut");
    assert!((1_000..50_000).contains(&kept), "{kept}");
    assert!(said.contains(&format!("--skip-lines {kept}")), "{said}");
    assert_eq!(server.count("_type:cut ~\"^line [0-9]+$\""), kept);
}

/// The fields of the rows of a query, ordered by time.
fn rows(server: &Server, query: &str, fields: &[&str]) -> Vec<Vec<String>> {
    let rows = server.query(&format!("{query} | sort by (_time)"), "");
    let value =
        |row: &serde_json::Value, name: &&str| row[*name].as_str().unwrap_or("-").to_owned();
    rows.iter().map(|row| fields.iter().map(|name| value(row, name)).collect()).collect()
}

#[test]
fn traces_are_imported_as_records() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.log");
    let trace = "2023-06-06 04:48:11,735 ERROR app boom\njava.lang.X: y\n\tat a.B.c(B.java:1)";
    let next = "2023-06-06 04:48:12,000 INFO app next";
    fs::write(&file, format!("{trace}\n{next}\n")).unwrap();
    let file = file.to_str().unwrap();
    let server = Server::start();
    assert!(import(&server, &["--type", "joined", file]).status.success());
    let fields = ["_time", "_level", "_msg"];
    let expected =
        [["2023-06-06T04:48:11.735Z", "error", trace], ["2023-06-06T04:48:12Z", "info", next]];
    assert_eq!(rows(&server, "_time:[2020,2100] _type:joined", &fields), expected);
    assert!(import(&server, &["--type", "lines", "--multiline", "off", file]).status.success());
    let times: Vec<String> = rows(&server, "_time:[2020,2100] _type:lines", &fields)
        .into_iter()
        .map(|r| r[0].clone())
        .collect();
    let head = "2023-06-06T04:48:11.735Z";
    assert_eq!(times, [head, head, head, "2023-06-06T04:48:12Z"]);
    // An import that ended within the file resumes by lines.
    assert!(import(&server, &["--type", "rest", "--skip-lines", "3", file]).status.success());
    assert_eq!(rows(&server, "_time:[2020,2100] _type:rest", &["_msg"]), [[next]]);
}

#[test]
fn dumps_of_other_programs_are_imported() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start();
    let mut export = b"__CURSOR=s=1\n__REALTIME_TIMESTAMP=1686026891735000\n_HOSTNAME=web1\nPRIORITY=3\nMESSAGE\n".to_vec();
    export.extend_from_slice(&10u64.to_le_bytes());
    export.extend_from_slice(b"boom\nagain\nSYSLOG_IDENTIFIER=cart\n\n");
    let dumps: [(&str, &[u8], &str); 9] = [
        (
            "elastic",
            br#"{"took":1,"hits":{"hits":[{"_index":"i","_source":{"@timestamp":"2023-06-06T04:48:11.735Z","host":{"name":"web1"},"log":{"level":"error"},"message":"boom"}}]}}"#,
            "boom",
        ),
        (
            "elasticdump",
            br#"{"_index":"i","_id":"1","_source":{"@timestamp":"2023-06-06T04:48:11.735Z","host.name":"web1","level":"ERROR","message":"boom"}}"#,
            "boom",
        ),
        (
            "logcli",
            br#"{"labels":{"host":"web1","app":"cart"},"line":"ERROR boom","timestamp":"2023-06-06T04:48:11.735Z"}"#,
            "ERROR boom",
        ),
        ("export", &export, "boom\nagain"),
        (
            "journal",
            br#"{"__CURSOR":"s=1","__REALTIME_TIMESTAMP":"1686026891735000","PRIORITY":"3","_HOSTNAME":"web1","SYSLOG_IDENTIFIER":"cart","MESSAGE":"boom"}"#,
            "boom",
        ),
        (
            "victoria",
            br#"{"_time":"2023-06-06T04:48:11.735Z","_stream_id":"00","_stream":"{host=\"web1\"}","_msg":"boom","host":"web1","level":"error"}"#,
            "boom",
        ),
        (
            "splunk",
            br#"{"preview":false,"result":{"_raw":"Jun  6 04:48:11 web1 cart: error: boom","_time":"2023-06-06T04:48:11.735+00:00","host":"web1","_cd":"1:2"}}"#,
            "Jun  6 04:48:11 web1 cart: error: boom",
        ),
        (
            "cloudwatch",
            br#"{"logGroup":"g","logStream":"s","events":[{"timestamp":1686026891735,"message":"[ERROR] boom"}]}"#,
            "[ERROR] boom",
        ),
        (
            "loki",
            br#"{"status":"success","data":{"resultType":"streams","result":[{"stream":{"host":"web1"},"values":[["1686026891735000000","level=error msg=boom"]]}]}}"#,
            "level=error msg=boom",
        ),
    ];
    for (name, dump, message) in dumps {
        let file = directory.path().join(name);
        fs::write(&file, dump).unwrap();
        let output = import(&server, &[file.to_str().unwrap()]);
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let query = format!("_time:[2020,2100] _file:{:?}", file.to_str().unwrap());
        let found = rows(&server, &query, &["_time", "_level", "_msg"]);
        assert_eq!(found, [["2023-06-06T04:48:11.735Z", "error", message]], "{name}");
        let stream = server.query(&query, "")[0]["_stream"].as_str().unwrap_or_default().to_owned();
        let names = if name == "cloudwatch" { "logStream=\"s\"" } else { "web1" };
        assert!(stream.contains(names), "{name}: {stream}");
    }
}

/// Times without zone are counted at the end of an import, and read in the zone that is given.
#[test]
fn times_without_zone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.log");
    let lines =
        "2026-01-31 12:00:00 winter\n2026-07-31 12:00:00 summer\n2026-01-31T12:00:00Z told\n";
    fs::write(&path, lines).unwrap();
    let path = path.to_str().unwrap();
    let server = Server::start();
    let check = |arguments: &[&str], said: &str, times: [&str; 3]| {
        let output = import(&server, arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && text.contains(said), "{text}");
        assert_eq!(text.contains("--timezone"), !said.is_empty(), "{text}");
        let kind = arguments[1];
        let rows = server.query(&format!("_type:{kind} | sort by (_msg) | fields _time"), "");
        let found: Vec<&str> = rows.iter().map(|row| row["_time"].as_str().unwrap()).collect();
        assert_eq!(found, times);
    };
    let told = "2026-01-31T12:00:00Z";
    check(
        &["--type", "a", path],
        "2 of these lines have a time without a zone",
        ["2026-01-31T12:00:00Z", told, "2026-07-31T12:00:00Z"],
    );
    check(
        &["--type", "b", "--timezone", "Europe/Berlin", path],
        "",
        ["2026-01-31T11:00:00Z", told, "2026-07-31T10:00:00Z"],
    );
    let output = import(&server, &["--timezone", "Europe/Berln", path]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("did you mean 'Europe/Berlin'?"), "{text}");
}
