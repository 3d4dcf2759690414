//! Programs of users with the real binary and a real AWK: rows, late lines, crashes, hostile
//! programs, runs over past intervals, sinks.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use crate::common::{Server, encoded, loginson};
use serde_json::{Value, json};

/// A program that is no hostile one has all the time that a slow machine takes.
const CONFIG: &str =
    "[summary]\nflush_interval = \"1s\"\nflush_delay = \"0s\"\n[awk]\ntimeout = \"10m\"\n";
/// Counts the lines of each level.
const LEVELS: &str = "# type: shop\n# bucket: 10s\n# fields: level\nNR == 1 { next }\n{ n[$1]++ }\n\
                      END { for (l in n) print \"level=\" l, \"lines=\" n[l] }\n";

fn send(server: &Server, seconds: impl IntoIterator<Item = usize>, note: &str) {
    let line = |s: usize| {
        let level = ["info", "error"][s % 2];
        let time = format!("2026-01-31T12:{:02}:{:02}Z", s / 60, s % 60);
        format!(r#"{{"_time":"{time}","_msg":"m {s} {note}","level":"{level}"}}"#)
    };
    let lines: Vec<String> = seconds.into_iter().map(line).collect();
    let answer = server.post("/insert/jsonline?_type=shop", lines.join("\n").as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn save(server: &Server, name: &str, text: &str) {
    let answer = server.post(&format!("/api/v1/programs/{name}"), text.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// Lines of each bucket and level, `12:00:10 error`.
fn rows(server: &Server, name: &str) -> BTreeMap<String, u64> {
    let path = format!("/api/v1/programs/{name}/rows?start=2026-01-31&end=2026-02-01");
    let answer = server.get(&path);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let mut found = BTreeMap::new();
    for row in answer.json()["rows"].as_array().unwrap() {
        let time = &row["time"].as_str().unwrap()[11..19];
        let key = format!("{time} {}", row["fields"]["level"].as_str().unwrap_or("-"));
        let lines = row["fields"]["lines"].as_u64().unwrap();
        assert!(found.insert(key, lines).is_none(), "a row is there twice: {row}");
    }
    found
}

fn expected(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
    pairs.iter().map(|(key, lines)| ((*key).to_owned(), *lines)).collect()
}

fn program(server: &Server, name: &str) -> Value {
    server.get(&format!("/api/v1/programs/{name}")).json()
}

#[test]
fn lines_become_rows_and_late_lines_correct_them() {
    let server = Server::start_with(&[], CONFIG);
    save(&server, "levels", LEVELS);
    send(&server, 0..20, "");
    let whole =
        [("12:00:00 error", 5), ("12:00:00 info", 5), ("12:00:10 error", 5), ("12:00:10 info", 5)];
    server.wait_for("rows", |server| rows(server, "levels") == expected(&whole));
    // A late line: a new revision replaces the rows of its bucket.
    send(&server, [3], "late");
    let mut late = expected(&whole);
    late.insert("12:00:00 error".into(), 6);
    server.wait_for("the late line", |server| rows(server, "levels") == late);
    // Rows are lines like others, for queries that name their type.
    // The last revision of each bucket counts.
    let query = "_type:summary program:levels | stats sum(lines) as n, count() as rows";
    let counted = |parameters: &str| {
        let row = &server.query(query, parameters)[0];
        let number = |name: &str| row[name].as_str().unwrap().parse::<u64>().unwrap();
        (number("n"), number("rows"))
    };
    assert_eq!(counted(""), (21, 4));
    let all = counted("all_revisions=1");
    assert!(all.0 > 21 && all.1 >= 6, "{all:?}");
    assert_eq!(server.count("lines:5"), 0, "rows are not among the lines that were sent");
    let shown = program(&server, "levels");
    assert_eq!(shown["state"], "running", "{shown}");
    assert_eq!(shown["text"], LEVELS);
    assert!(shown["lines_total"].as_u64().unwrap() >= 21, "{shown}");
    let sandbox = shown["sandbox"].as_array().unwrap();
    assert!(sandbox.iter().any(|step| step["what"] == "system calls"), "{shown}");
    let metrics = server.get("/metrics").text();
    assert!(metrics.contains("loginson_program_state{program=\"levels\",state=\"running\"} 1"));
}

#[test]
fn late_lines_do_not_replace_rows_of_lines_that_are_deleted() {
    let server = Server::start_with(&[], CONFIG);
    save(&server, "levels", LEVELS);
    send(&server, 0..10, "");
    let mut all = expected(&[("12:00:00 error", 5), ("12:00:00 info", 5)]);
    server.wait_for("rows", |server| rows(server, "levels") == all);
    let path = format!("/api/v1/deletions?filter={}", encoded("level:=info"));
    assert_eq!(server.post(&path, b"").status, 202);
    server.wait_for("the deletion", |server| {
        server.get("/api/v1/deletions/1").json()["state"] == "done"
    });
    // One line is late; the bucket of the other one has no rows.
    send(&server, [3, 15], "late");
    all.insert("12:00:10 error".into(), 1);
    server.wait_for("the late lines", |server| {
        rows(server, "levels").contains_key("12:00:10 error")
            && program(server, "levels")["buckets_waiting"] == 0
    });
    assert_eq!(rows(&server, "levels"), all);
    assert_eq!(program(&server, "levels")["buckets_stayed_total"], 1);
    let metrics = server.get("/metrics").text();
    assert!(metrics.contains("loginson_program_buckets_stayed_total{program=\"levels\"} 1"));
}

#[test]
fn a_query_is_a_program_too() {
    let server = Server::start_with(&[], CONFIG);
    let text = "# type: shop\n# bucket: 1m\n* | stats by (level) count() lines, min(_msg) first";
    let answer = server.post("/api/v1/programs/q?language=logsql", text.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
    send(&server, 0..120, "");
    let all = [
        ("12:00:00 error", 30),
        ("12:00:00 info", 30),
        ("12:01:00 error", 30),
        ("12:01:00 info", 30),
    ];
    server.wait_for("rows", |server| rows(server, "q") == expected(&all));
}

#[test]
fn a_language_that_is_none_is_refused_and_its_files_are_shown() {
    let server = Server::start_with(&[], CONFIG);
    let answer = server.post("/api/v1/programs/v?language=vrl", b"# type: shop\n.n = 1\n");
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(answer.text().contains("there are 'awk' and 'logsql'"), "{}", answer.text());
    // A file that is there is listed as invalid.
    let folder = server.data_dir().join("programs");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("v.vrl"), "# type: shop\n.n = 1\n").unwrap();
    assert_eq!(server.post("/api/v1/programs/reload", b"").status, 200);
    let shown = program(&server, "v");
    assert_eq!(shown["state"], "invalid", "{shown}");
    assert!(shown["problem"].to_string().contains("there are 'awk' and 'logsql'"), "{shown}");
    // The program that takes its place removes the file.
    save(&server, "v", LEVELS);
    assert!(!folder.join("v.vrl").exists());
}

#[test]
fn mistakes_name_their_line_and_nothing_is_saved() {
    let server = Server::start_with(&[], CONFIG);
    for (text, line, part) in [
        ("{ n++ }", 1, "does not say which lines"),
        ("# type: shop\n# bucket: 7s\nEND { print }", 2, "divides an hour"),
        ("# filter: (a\nEND { print }", 1, ""),
        ("# type: shop\n# mode: stream\n{ print }", 2, "once for each bucket"),
    ] {
        let answer = server.post("/api/v1/programs/p", text.as_bytes());
        assert_eq!(answer.status, 400, "{text}: {}", answer.text());
        assert_eq!(answer.json()["line"], line, "{text}: {}", answer.text());
        assert!(answer.text().contains(part), "{text}: {}", answer.text());
    }
    for name in ["..", "a%2Fb", ".hidden", "a%20b"] {
        let answer = server.post(&format!("/api/v1/programs/{name}"), LEVELS.as_bytes());
        assert!([400, 404].contains(&answer.status), "{name}: {}", answer.text());
    }
    assert_eq!(server.get("/api/v1/programs").json()["programs"], json!([]));
    assert_eq!(server.get("/api/v1/programs/p").status, 404);
    assert_eq!(server.get("/api/v1/programs/p/rows").status, 404);
    assert!(!server.data_dir().join("programs/p.awk").exists());
}

#[test]
fn a_crash_at_any_point_loses_and_doubles_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start_in(directory.path(), &[], CONFIG);
    save(&server, "levels", LEVELS);
    let mut sent: BTreeMap<String, u64> = BTreeMap::new();
    for round in 0..6usize {
        let seconds = || (round * 50..round * 50 + 100).chain(0..7);
        send(&server, seconds(), "x");
        for s in seconds() {
            let level = ["info", "error"][s % 2];
            let key = format!("12:{:02}:{:02} {level}", s / 60, s % 60 / 10 * 10);
            *sent.entry(key).or_default() += 1;
        }
        // At different moments: before lines are noted, while programs run, while rows are stored.
        std::thread::sleep(Duration::from_millis([30, 260, 330, 420, 700, 1500][round]));
        server.kill();
        drop(server);
        server = Server::start_in(directory.path(), &[], CONFIG);
    }
    server.wait_for("all rows", |server| rows(server, "levels") == sent);
    // Nothing is left that could add a row for the second time.
    server.wait_for("all buckets", |server| program(server, "levels")["buckets_waiting"] == 0);
    assert_eq!(rows(&server, "levels"), sent);
}

#[test]
fn hostile_programs_delay_no_other() {
    let server = Server::start_with(&[], CONFIG);
    let head = "# type: shop\n# bucket: 10s\n";
    let hostile = [
        ("endless", "BEGIN { while (1) i++ }", "took longer than 1s"),
        (
            "fork",
            "{ while (1) system(\"sleep 100 &\") }",
            "ended with exit code|took longer than 1s",
        ),
        ("flood", "{ while (1) print \"a=1\" }", "the program was killed, because it"),
        ("exits", "{ exit 3 }", "exit code 3"),
        ("garbage", "{ while (1) print \"no row\" }", "no rows"),
        ("broken", "{ print ( }", "ended with exit code"),
        ("sleeps", "END { while (1) if (getline < \"/dev/zero\") x++ }", ""),
    ];
    // Those that would never end have a second; what the others do wrong comes before their end,
    // however slow the machine is.
    let short = ["endless", "fork", "sleeps"];
    for (name, code, _) in hostile {
        let timeout = if short.contains(&name) { "# timeout: 1s\n" } else { "" };
        save(&server, name, &format!("{head}{timeout}{code}\n"));
    }
    save(&server, "half", &format!("{head}END {{ printf \"lines=%d\", NR }}\n"));
    save(&server, "silent", &format!("{head}{{ n++ }}\n"));
    save(&server, "levels", LEVELS);
    send(&server, 0..20, "");
    server.wait_for("rows of the others", |server| {
        rows(server, "levels").len() == 4 && rows(server, "half").len() == 2
    });
    assert_eq!(rows(&server, "half"), expected(&[("12:00:00 -", 10), ("12:00:10 -", 10)]));
    for (name, _, message) in hostile {
        server.wait_for(name, |server| program(server, name)["state"] == "failing");
        let shown = program(&server, name);
        let said = shown["last_error"]["message"].as_str().unwrap();
        let is_said = message.split('|').any(|message| said.contains(message));
        assert!(is_said, "{name}: {said}");
        assert!(shown["buckets_waiting"].as_u64().unwrap() > 0, "its buckets stay: {shown}");
    }
    assert_eq!(program(&server, "silent")["state"], "running");
    // A program that is mended gets the buckets that it failed on.
    save(&server, "broken", LEVELS);
    server.wait_for("the mended program", |server| rows(server, "broken").len() == 4);
    // Ingest goes on.
    send(&server, 20..30, "");
    server.wait_for("further rows", |server| rows(server, "levels").len() == 6);
}

#[test]
fn a_program_is_disabled_enabled_deleted_and_reloaded() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start_in(directory.path(), &[], CONFIG);
    save(&server, "levels", LEVELS);
    send(&server, 0..10, "");
    server.wait_for("rows", |server| rows(server, "levels").len() == 2);
    assert_eq!(server.post("/api/v1/programs/levels/disable", b"").json()["state"], "disabled");
    assert_eq!(server.terminate(), Some(0));
    drop(server);
    server = Server::start_in(directory.path(), &[], CONFIG);
    assert_eq!(program(&server, "levels")["state"], "disabled");
    send(&server, 10..20, "");
    assert_eq!(server.post("/api/v1/programs/levels/enable", b"").json()["enabled"], true);
    send(&server, 20..30, "");
    server.wait_for("rows after enabling", |server| {
        rows(server, "levels").contains_key("12:00:20 error")
    });
    assert_eq!(server.request("DELETE", "/api/v1/programs/levels", &[], b"").status, 200);
    assert_eq!(server.get("/api/v1/programs/levels").status, 404);
    assert!(rows(&server, "levels").len() >= 4, "rows stay");
    // A file that somebody puts there is a program after a reload, by the API or by SIGHUP.
    let folder = server.data_dir().join("programs");
    std::fs::write(folder.join("own.awk"), LEVELS).unwrap();
    std::fs::write(folder.join("wrong.awk"), "{ n++ }").unwrap();
    let answer = server.post("/api/v1/programs/reload", b"").json();
    assert_eq!(answer, json!({ "programs": 2, "invalid": 1 }));
    let wrong = program(&server, "wrong");
    assert_eq!((&wrong["state"], &wrong["problem"]["line"]), (&json!("invalid"), &json!(1)));
    std::fs::remove_file(folder.join("wrong.awk")).unwrap();
    std::process::Command::new("kill").args(["-HUP", &server.pid().to_string()]).status().unwrap();
    server.wait_for("the signal", |server| {
        server.get("/api/v1/programs").json()["programs"].as_array().unwrap().len() == 1
    });
}

#[test]
fn a_run_replaces_rows_in_one_step() {
    let server = Server::start_with(&[], CONFIG);
    save(&server, "levels", LEVELS);
    send(&server, 0..60, "");
    server.wait_for("rows", |server| rows(server, "levels").len() == 12);
    let before = rows(&server, "levels");
    // Only errors, with a dry run before.
    let changed = LEVELS.replace("{ n[$1]++ }", "$1 == \"error\" { n[$1]++ }");
    let path = format!(
        "/api/v1/programs/levels/runs?start={}&end={}",
        encoded("2026-01-31T12:00:00Z"),
        encoded("2026-01-31T12:00:30Z")
    );
    let dry = server.post(&format!("{path}&dry_run=1"), changed.as_bytes());
    assert_eq!(dry.status, 200, "{}", dry.text());
    let dry = dry.json();
    let count = |key: &str| dry[key].as_array().unwrap().len();
    assert_eq!((count("rows_before"), count("rows_after")), (6, 3), "{dry}");
    assert_eq!(rows(&server, "levels"), before, "a dry run changes nothing");
    let answer = server.post(&path, changed.as_bytes());
    assert_eq!(answer.status, 202, "{}", answer.text());
    server.wait_for("the run", |server| {
        !server.get("/api/v1/programs/levels/runs").json()["runs"].as_array().unwrap().is_empty()
    });
    let after: BTreeMap<String, u64> = (before.iter())
        .filter(|(key, _)| key.as_str() >= "12:00:30" || key.ends_with("error"))
        .map(|(key, lines)| (key.clone(), *lines))
        .collect();
    assert_eq!(rows(&server, "levels"), after);
    // A program that fails replaces nothing.
    let answer = server.post(&path, b"# type: shop\n{ exit 1 }\nEND { print }");
    assert_eq!(answer.status, 202, "{}", answer.text());
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    server.wait_for("the failure", |server| {
        let queries = server.get("/api/v1/queries").json();
        let all = queries["queries"].as_array().unwrap();
        all.iter().any(|query| query["id"] == id.as_str() && query["state"] == "failed")
    });
    assert_eq!(rows(&server, "levels"), after);
}

#[test]
fn a_program_is_tried_on_sample_lines() {
    let server = Server::start_with(&[], CONFIG);
    let lines: Vec<String> = (0..6)
        .map(|s| format!(r#"{{"level":"{}","_msg":"m {s}"}}"#, ["info", "error"][s % 2]))
        .collect();
    let test = |text: &str, language: &str| {
        let body = json!({ "text": text, "language": language, "lines": lines });
        let answer = server.post("/api/v1/programs/test", body.to_string().as_bytes());
        (answer.status, answer.json())
    };
    let (status, tried) = test(LEVELS, "awk");
    assert_eq!(status, 200, "{tried}");
    assert_eq!(tried["lines_matching"], 6, "{tried}");
    let mut made: Vec<String> =
        tried["rows"].as_array().unwrap().iter().map(ToString::to_string).collect();
    made.sort();
    assert_eq!(made, [r#"{"level":"error","lines":3}"#, r#"{"level":"info","lines":3}"#]);
    // The error names the line of the program and the line of the sample.
    let wrong =
        "# type: shop\n# filter: _msg:5\n# fields: level\nNR == 1 { next }\n{ n[1] = 1; n = 2 }";
    let (_, tried) = test(wrong, "awk");
    assert!(tried["error"].as_str().unwrap().contains("exit code"), "{tried}");
    let fault = &tried["faults"][0];
    assert_eq!(fault["program_line"], 5, "{tried}");
    assert_eq!(fault["input_line"], 6, "the only line that matches: {tried}");
    let (_, tried) = test("* | stats by (level) count() lines", "logsql");
    assert_eq!(tried["rows"].as_array().unwrap().len(), 2, "{tried}");
    let (_, tried) = test("# type: shop\nEND { print \"program=1\"; print \"a=1\" }", "awk");
    assert!(tried["rejected"][0]["reason"].as_str().unwrap().contains("Loginson's own"), "{tried}");
    let (status, refused) = test("# type: shop\n# bucket: x\nEND { print }", "awk");
    assert_eq!((status, &refused["line"]), (400, &json!(2)), "{refused}");
    assert_eq!(server.get("/api/v1/programs").json()["programs"], json!([]));
}

#[test]
fn the_command_tries_a_program_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("levels.awk");
    std::fs::write(&file, LEVELS).unwrap();
    let test = |file: &std::path::Path, sample: &str| {
        let mut command = loginson(&["program", "test", file.to_str().unwrap()]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(sample.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    };
    let sample = "{\"level\":\"error\",\"_msg\":\"a\"}\n{\"level\":\"error\",\"_msg\":\"b\"}\n";
    let (is_ok, out, err) = test(&file, sample);
    assert!(is_ok && out == "{\"level\":\"error\",\"lines\":2}\n", "{out}{err}");
    assert!(err.contains("1 rows of 2 lines"), "{err}");
    std::fs::write(&file, "# type: shop\n{ n++ \n").unwrap();
    let (is_ok, out, err) = test(&file, sample);
    assert!(!is_ok && out.is_empty() && err.contains("program line"), "{out}{err}");
    std::fs::write(&file, "# type: shop\n# bukket: 1s\n{ n++ }\n").unwrap();
    let (is_ok, _, err) = test(&file, sample);
    assert!(!is_ok && err.contains("line 2") && err.contains("bukket"), "{err}");
}

/// Rows of each id in the files of a sink, the last of each.
fn delivered(path: &std::path::Path) -> (BTreeMap<String, Value>, usize) {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let whole = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut last = BTreeMap::new();
    let mut count = 0;
    for document in whole {
        count += 1;
        last.insert(document["_id"].as_str().unwrap().to_owned(), document);
    }
    (last, count)
}

#[test]
fn sinks_get_rows_lines_and_results_once() {
    let directory = tempfile::tempdir().unwrap();
    let out = tempfile::tempdir().unwrap();
    let file = |name: &str| out.path().join(format!("{name}.jsonl"));
    let path = |name: &str| file(name).display().to_string();
    let config = format!(
        "{CONFIG}[[sinks]]\nname = \"rows\"\n[sinks.file]\npath = \"{}\"\n\
         [[sinks]]\nname = \"errors\"\nof = \"lines\"\nfilter = \"level:error\"\n[sinks.file]\npath = \"{}\"\n\
         [[sinks]]\nname = \"late\"\nof = \"lines\"\nfilter = \"*\"\nstart = \"beginning\"\n[sinks.file]\npath = \"{}\"\n",
        path("rows"),
        path("errors"),
        path("late"),
    );
    let mut server = Server::start_in(directory.path(), &[], &config);
    save(&server, "levels", LEVELS);
    let mut sent = 0;
    for round in 0..4 {
        send(&server, round * 20..round * 20 + 20, "x");
        sent += 20;
        std::thread::sleep(Duration::from_millis(300 * round as u64));
        server.kill();
        drop(server);
        server = Server::start_in(directory.path(), &[], &config);
    }
    server.wait_for("all documents", |_| {
        delivered(&file("errors")).0.len() == sent / 2
            && delivered(&file("late")).0.len() == sent
            && delivered(&file("rows")).0.len() == 16
    });
    let (last, _) = delivered(&file("rows"));
    let lines: u64 = last.values().map(|row| row["lines"].as_u64().unwrap()).sum();
    assert_eq!(lines, sent as u64);
    let one = last.values().next().unwrap();
    assert_eq!((&one["program"], &one["bucket_s"]), (&json!("levels"), &json!(10)), "{one}");
    // Without a crash nothing is delivered twice.
    server.wait_for("what the last crash repeats", |server| {
        let sinks = server.get("/api/v1/sinks").json();
        let idle = |sink: &Value| sink["state"] == "idle" && sink["lag_frames"] == 0;
        sinks["sinks"].as_array().unwrap().iter().all(idle)
    });
    let (_, before) = delivered(&file("errors"));
    assert_eq!(server.terminate(), Some(0));
    drop(server);
    let server = Server::start_in(directory.path(), &[], &config);
    send(&server, [101], "x");
    server.wait_for("the next line", |_| delivered(&file("errors")).1 == before + 1);
    let errors = |server: &Server| server.get("/api/v1/sinks").json()["sinks"][1].clone();
    server.wait_for("its count", |server| errors(server)["delivered_total"] == 1);
    let errors = errors(&server);
    let told = (&errors["name"], &errors["kind"], &errors["of"]);
    assert_eq!(told, (&json!("errors"), &json!("file"), &json!("lines")));
    let metrics = server.get("/metrics").text();
    assert!(metrics.contains("loginson_sink_delivered_total{sink=\"errors\"} 1"), "{metrics}");
}

#[test]
fn a_bucket_without_rows_deletes_those_that_were_sent() {
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("rows.jsonl");
    let path = file.display();
    let config = format!("{CONFIG}[[sinks]]\nname = \"rows\"\n[sinks.file]\npath = \"{path}\"\n");
    let server = Server::start_with(&[], &config);
    let text = "# type: shop\n# bucket: 10s\n* | stats count() lines | filter lines:<11";
    let answer = server.post("/api/v1/programs/few?language=logsql", text.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
    send(&server, 0..10, "");
    server.wait_for("the row", |server| rows(server, "few") == expected(&[("12:00:00 -", 10)]));
    send(&server, [3], "late");
    server.wait_for("the deletion", |_| {
        std::fs::read_to_string(&file).is_ok_and(|lines| lines.contains("\"deleted\":true"))
    });
    assert_eq!(rows(&server, "few"), expected(&[]));
}
