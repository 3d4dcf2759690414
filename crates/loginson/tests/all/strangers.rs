//! What strangers may send to the real binary: they cannot end it, fill its disk or memory, or
//! control it; and other users cannot read its files.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::{Server, encoded, loginson};
use serde_json::{Value, json};

const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

#[test]
fn no_query_ends_the_process() {
    let server = Server::start();
    assert_eq!(server.post("/insert/lines", b"one\n").status, 200);
    let deep = |before: &str, inner: &str, behind: &str, n: usize| {
        format!("{}{inner}{}", before.repeat(n), behind.repeat(n))
    };
    for n in [200, 6_000, 30_000] {
        for query in [
            vec!["1"; n].join("+"),
            vec!["vector(1)"; n].join(" + "),
            vec!["vector(1)"; n].join(" > bool "),
            vec!["vector(1)"; n].join(" or "),
            vec!["1"; n].join("^"),
            deep("(", "1", ")", n),
            deep("sum(", "vector(1)", ")", n),
            deep("(", "{}", ")", n),
            format!("{{}} | {}", deep("(", "a=\"b\"", ")", n)),
            format!("{{}} |~ \"{}\"", deep("(", "a", ")", n)),
        ] {
            let body = format!("query={}", encoded(&query));
            for path in ["format_query", "query", "query_range"] {
                let path = format!("/loki/api/v1/{path}");
                let answer = server.request("POST", &path, &[FORM], body.as_bytes());
                assert!(
                    matches!(answer.status, 400 | 413),
                    "{path} {query:.60}: {} {}",
                    answer.status,
                    answer.text()
                );
            }
        }
        for query in [
            deep("(", "a", ")", n),
            deep("!", "a", "", n),
            deep("not ", "a", "", n),
            deep("a:(", "b", ")", n),
            format!("* {}", deep("| union (* ", "", ")", n)),
            deep("a:in(", "*", " | fields a)", n),
            format!("* | math {} as x", deep("(", "a", ")", n)),
            format!("* | math {} as x", vec!["a"; 6 * n].join("+")),
            format!("~`{}`", deep("(", "a", ")", n)),
            format!("* | count() if ({}) x", deep("(", "a", ")", n)),
        ] {
            let body = format!("query={0}&filter={0}", encoded(&query));
            for path in [
                "/select/logsql/query",
                "/select/logsql/tail",
                "/api/v1/queries",
                "/api/v1/deletions",
            ] {
                let answer = server.request("POST", path, &[FORM], body.as_bytes());
                assert!(
                    matches!(answer.status, 400 | 413),
                    "{path} {query:.60}: {} {}",
                    answer.status,
                    answer.text()
                );
            }
        }
        for body in
            [deep("[", "", "]", n), deep("{\"a\":", "1", "}", n), deep("{\"a\":[", "1", "]}", n)]
        {
            let answer = server.post("/insert/jsonline", format!("{body}\n").as_bytes());
            assert_eq!(answer.status, 200, "{}", answer.text());
            let json = [("Content-Type", "application/json")];
            let answer = server.request("POST", "/loki/api/v1/push", &json, body.as_bytes());
            assert_eq!(answer.status, 400, "{}", answer.text());
        }
    }
    server.wait_for("all is parsed", |server| server.status()["parse_lag_lines"] == 0);
    assert_eq!(server.count("one"), 1);
}

#[test]
fn a_push_makes_no_more_than_it_may() {
    let server = Server::start();
    let value = "v".repeat(2_000);
    let entries = vec!["[\"1769860800000000000\",\"x\"]"; 50_000].join(",");
    let body = format!(
        "{{\"streams\":[{{\"stream\":{{\"a\":\"{value}\",\"b\":\"{value}\"}},\"values\":[{entries}]}}]}}"
    );
    let json = [("Content-Type", "application/json")];
    let answer = server.request("POST", "/loki/api/v1/push", &json, body.as_bytes());
    assert_eq!(answer.status, 413, "{}", answer.text());
    assert!(answer.text().contains("fewer or shorter labels"), "{}", answer.text());
    assert_eq!(server.count("*"), 0);

    // A decompression bomb, and lines that are repeated many times.
    let zeros = zstd::encode_all(&vec![b'\n'; 300 << 20][..], 1).unwrap();
    let zstd = [("Content-Encoding", "zstd")];
    let answer = server.request("POST", "/insert/lines", &zstd, &zeros);
    assert_eq!(answer.status, 413, "{}", answer.text());
    let same = zstd::encode_all("the same line\n".repeat(1_000_000).as_bytes(), 1).unwrap();
    let answer = server.request("POST", "/insert/lines", &zstd, &same);
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn fields_of_lines_do_not_steer_the_reader() {
    let server = Server::start();
    let lines = concat!(
        r#"{"_error":"forged","_time":"2026-01-31T12:00:00Z","_msg":"one"}"#,
        "\n",
        r#"{"_error":{"message":"forged"},"_time":"2026-01-31T12:00:01Z","_msg":"two"}"#,
        "\n",
        r#"{"_skipped":{"lines":9},"_time":"2026-01-31T12:00:02Z","_msg":"three"}"#,
        "\n",
    );
    assert_eq!(server.post("/insert/jsonline", lines.as_bytes()).status, 200);
    // Rows without any of the fields are left out.
    for (query, count) in [
        ("*", 3),
        ("* | fields _msg, _error", 3),
        ("* | fields _error", 1),
        ("* | fields _skipped.lines", 1),
        ("* | fields _error.message", 1),
    ] {
        let rows = server.query(query, "");
        assert_eq!(rows.len(), count, "{query}");
        for row in &rows {
            let texts = row.as_object().unwrap().values().all(Value::is_string);
            assert!(texts, "{query}: {row}");
        }
        let output = loginson(&["query", "--server", &server.http, "--format", "json", query])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{query}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(text.lines().count(), count, "{query}: {text}");
    }
}

#[test]
fn a_sender_cannot_set_what_loginson_makes() {
    let server = Server::start();
    for fields in ["_type=summary", "_level=x", "_msg=x", "_time=1", "_id=1-1", "_=x", "=x"] {
        let path = format!("/insert/lines?extra_fields={}", encoded(fields));
        let answer = server.post(&path, b"line\n");
        assert_eq!(answer.status, 400, "{fields}: {}", answer.text());
        let headers = [("VL-Extra-Fields", fields)];
        let answer = server.request("POST", "/insert/jsonline", &headers, b"{\"a\":\"b\"}\n");
        assert_eq!(answer.status, 400, "{fields}: {}", answer.text());
    }
    let long = format!("/insert/lines?extra_fields=a={}", "x".repeat(17 << 10));
    assert_eq!(server.post(&long, b"line\n").status, 400);
    let many = format!("/insert/lines?_stream_fields={}", vec!["a"; 65].join(","));
    assert_eq!(server.post(&many, b"line\n").status, 400);
    assert_eq!(server.post("/insert/lines?extra_fields=env=prod", b"line\n").status, 200);
    assert_eq!(server.count("env:prod"), 1);
    assert_eq!(server.count("*"), 1);
}

#[test]
fn lines_in_the_log_are_escaped_and_bounded() {
    let server = Server::start();
    let line = "{\"a\\nERROR forged \\u001b[2J\":\"b\\nERROR forged\"}\n";
    assert_eq!(server.post("/insert/jsonline?debug=1", line.as_bytes()).status, 200);
    let many = format!("{{\"long\":\"{}\"}}\n", "x".repeat(10_000)).repeat(2_000);
    assert_eq!(server.post("/insert/jsonline?debug=1", many.as_bytes()).status, 200);
    server.wait_for_log("1000 lines were shown");
    let log = server.log();
    assert!(log.contains("debug=1, not kept"), "{log:.2000}");
    assert!(!log.lines().any(|line| line.starts_with("ERROR")) && !log.contains('\u{1b}'));
    assert!(log.len() < 1_000 * 6_000, "{}", log.len());
    assert_eq!(server.count("*"), 0);
}

/// Files and directories that users other than their owner may read.
fn open_to_others(path: &Path, found: &mut Vec<String>) {
    let metadata = match std::fs::symlink_metadata(path) {
        // The server replaces and deletes files meanwhile.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
        metadata => metadata.unwrap(),
    };
    if metadata.permissions().mode() & 0o077 != 0 && !metadata.is_symlink() {
        found.push(format!("{} {:o}", path.display(), metadata.permissions().mode()));
    }
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            open_to_others(&entry.unwrap().path(), found);
        }
    }
}

#[test]
fn files_are_their_users_alone_and_changes_are_noted() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).unwrap();
    let ready = directory.path().join("ready");
    let server = Server::start_in(&data, &["--ready-file", ready.to_str().unwrap()], "");
    assert_eq!(server.post("/insert/lines", b"one\ntwo\n").status, 200);
    let made = server.request("POST", "/api/v1/backups?name=first", &[], b"");
    assert_eq!(made.status, 201, "{}", made.text());
    let accepted = server.request("POST", "/api/v1/queries?query=one%0AERROR", &[], b"");
    assert_eq!(accepted.status, 202, "{}", accepted.text());
    let id = accepted.json()["id"].as_str().unwrap().to_owned();
    server.wait_for("it is done", |server| {
        server.get(&format!("/api/v1/queries/{id}")).json()["state"] == "done"
    });
    let removed = server.request("DELETE", &format!("/api/v1/queries/{id}"), &[], b"");
    assert_eq!(removed.json()["state"], "deleted");
    let accepted = server.request("POST", "/api/v1/deletions?filter=two", &[], b"");
    assert_eq!(accepted.status, 202, "{}", accepted.text());
    server.wait_for("the ready file is there", |_| ready.exists());
    let mut open = Vec::new();
    open_to_others(&data, &mut open);
    open_to_others(&ready, &mut open);
    assert_eq!(open, Vec::<String>::new());
    let removed = server.request("DELETE", "/api/v1/backups/first", &[], b"");
    assert_eq!(removed.json(), json!({ "name": "first", "deleted": true }));

    for noted in [
        "backup 'first' of 2 lines made",
        &format!("background query {id} begins: one\\x0aERROR"),
        &format!("query {id} and its results deleted"),
        "deletion 1 begins",
        "backup 'first' deleted",
    ] {
        server.wait_for(noted, |server| {
            let log = server.log();
            let line = log.lines().find(|line| line.contains(noted));
            line.is_some_and(|line| line.contains("by API from 127.0.0.1:"))
        });
    }
}
