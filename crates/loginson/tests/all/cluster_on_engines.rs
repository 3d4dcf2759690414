//! A cluster on a real Kafka, S3 server and PostgreSQL: the answers of a single store with all
//! lines, also while a node is away and engines come back.

use std::collections::BTreeMap;
use std::path::Path;

use crate::cluster_state::{state as status, told, wait_for_partitions, wait_until_published};
use crate::common::{Server, loginson};
use crate::engines::Engines;
use crate::shop::{compare, send};
use serde_json::Value;

/// Sends lines in small batches, to each node in turn and to `all`.
fn send_to(nodes: &[&Server], all: &Server, numbers: std::ops::Range<usize>) {
    send(nodes, Some(all), numbers);
}

fn is_of_broker(error: &Value) -> bool {
    error.as_str().is_some_and(|error| error.contains("broker"))
}

/// Counts the lines of each host, a minute each.
const HOSTS: &str = "# filter: app_name:shop\n# bucket: 60s\n# fields: hostname\nNR == 1 { next }\n\
                     { n[$1]++ } END { for (h in n) print \"host=\" h, \"lines=\" n[h] }\n";
/// The same lines by level.
const LEVELS: &str =
    "# bucket: 60s\napp_name:shop | stats by (level) count() lines, sum(took) took\n";

/// The rows of a program, as texts.
fn program_rows(node: &Server, program: &str) -> Vec<String> {
    let path = format!("/api/v1/programs/{program}/rows?start=2026-01-31&end=2026-02-01");
    let answer = node.whole(&path);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = answer.json();
    assert_eq!(answer["is_cut"], false);
    let row = |row: &Value| format!("{} {}", row["time"], row["fields"]);
    let mut rows: Vec<String> = answer["rows"].as_array().unwrap().iter().map(row).collect();
    rows.sort();
    rows
}

/// Waits until the programs of all nodes have the rows of the single store.
fn wait_for_rows(all: &Server, nodes: &[&Server]) {
    for program in ["hosts", "levels"] {
        for node in nodes {
            node.wait_for("rows of programs", |node| {
                let rows = program_rows(all, program);
                rows.len() > 90 && program_rows(node, program) == rows
            });
        }
    }
}

/// The last document of each id that a sink wrote.
fn delivered(path: &Path) -> BTreeMap<String, Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let whole = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    whole.map(|document| (document["_id"].as_str().unwrap().to_owned(), document)).collect()
}

#[test]
fn a_cluster_answers_as_one_store_does_whatever_is_killed() {
    let Some(engines) = Engines::start("cluster") else { return };
    let all = Server::start();
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let out = tempfile::tempdir().unwrap();
    let file = |name: &str| out.path().join(name);
    let sinks = format!(
        "[[sinks]]\nname = 'rows'\n[sinks.file]\npath = '{}'\n\
         [[sinks]]\nname = 'errors'\nof = 'lines'\nfilter = 'level:error'\n[sinks.file]\npath = '{}'\n",
        file("rows").display(),
        file("errors").display(),
    );
    let start = |index: usize, roles: &str| {
        let config = engines.config(roles) + &sinks;
        Server::start_in(dirs[index].path(), &[], &config)
    };
    let mut first = start(0, "'collector', 'store'");
    let mut second = start(1, "'store', 'query'");
    let third = start(2, "'query'");

    // Programs are saved at any node, and known at all.
    let is_there = |node: &Server| node.get("/api/v1/sinks").status == 200;
    [&first, &second, &third].iter().for_each(|node| node.wait_for("the programs", is_there));
    for (name, text, language) in [("hosts", HOSTS, "awk"), ("levels", LEVELS, "logsql")] {
        for node in [&all, &third] {
            let path = format!("/api/v1/programs/{name}?language={language}");
            let answer = node.post(&path, text.as_bytes());
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
        for node in [&first, &second, &third] {
            let shown = told(node, &format!("/api/v1/programs/{name}"));
            assert_eq!(shown["text"], text, "{shown}");
        }
    }

    // So are dashboards.
    let board = r#"{"title":"Shop","version":0,"panels":[]}"#;
    let saved = third.request("PUT", "/api/v1/dashboards/shop", &[], board.as_bytes());
    assert_eq!((saved.status, &saved.json()["version"]), (200, &1.into()), "{}", saved.text());
    assert_eq!(told(&first, "/api/v1/dashboards/shop"), saved.json());

    // Lines that are in no segment yet, and then those that are.
    send_to(&[&first, &second, &third], &all, 0..3_000);
    assert_eq!(third.count("*"), 3_000);
    compare(&all, &third);
    wait_for_rows(&all, &[&first, &second, &third]);
    // Sealing reaches all stores, and says what it began.
    let sealed = third.post("/api/v1/seal", b"");
    assert_eq!((sealed.status, &sealed.json()["stores"]), (202, &2.into()), "{}", sealed.text());
    assert!(sealed.json()["frames"].is_u64(), "{}", sealed.text());
    wait_until_published(&third);
    wait_for_partitions(&third, "the end of all lags", |partitions| {
        partitions.iter().all(|p| {
            (&p["lag_messages"], &p["lost"], &p["trouble"]) == (&0.into(), &0.into(), &Value::Null)
                && p["read"] == p["end"]
        })
    });
    third.wait_for("engines that answer all nodes", |node| {
        let state = status(node);
        let mut nodes = state["nodes"].as_array().unwrap().iter();
        state["partitions_troubled"] == 0
            && nodes.all(|node| {
                let engines = node["engines"].as_object().map(|all| all.values());
                let mut engines = engines.into_iter().flatten().peekable();
                engines.peek().is_some() && engines.all(|engine| engine["failing_s"].is_null())
            })
    });
    let metrics = first.get("/metrics").text();
    for name in ["partition_lag_seconds{partition=", "engine_calls_total{engine=\"kafka\"}"] {
        assert!(metrics.contains(&format!("loginson_cluster_{name}")), "{metrics}");
    }
    wait_for_rows(&all, &[&third]);
    compare(&all, &third);
    compare(&all, &first);
    third.wait_for("segments of each partition", |node| {
        status(node)["segments"].as_u64().is_some_and(|segments| segments >= 3)
    });

    // A line by its id, and those around it.
    let id = &third.query("order:=300", "include=_line_id")[0]["_line_id"];
    let path = format!("/api/v1/context?id={}&before=2&after=2", id.as_str().unwrap());
    let orders = |answer: &Value| -> Vec<String> {
        let rows = answer["rows"].as_array().unwrap().iter();
        rows.map(|row| row["order"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(orders(&third.whole(&path).json()), ["294", "297", "300", "303", "306"]);

    // A store dies with the newest frames: the next query waits for the other store.
    send_to(&[&second, &third], &all, 3_000..3_300);
    first.kill();
    send_to(&[&second, &third], &all, 3_300..3_600);
    assert_eq!(third.count("*"), 3_600);
    compare(&all, &third);
    // Programs and sinks go on elsewhere, from where they were.
    wait_for_rows(&all, &[&second, &third]);
    let server = format!("http://{}", third.http);
    third.wait_for("the dead node in the command, and nothing that is wrong besides", |_| {
        let shown = loginson(&["cluster", "status", "--server", &server]).output().unwrap();
        let text = String::from_utf8(shown.stdout).unwrap();
        shown.status.success() && text.contains("away") && text.contains("PARTITION")
    });

    // It comes back with what it had on its disk, and takes lines again.
    let first = start(0, "'collector', 'store'");
    send_to(&[&first, &second], &all, 3_600..3_900);
    assert_eq!(third.count("*"), 3_900);

    // Kafka is away: lines are acknowledged by the spool, and come later. Queries say what is away.
    let line = br#"{"_time":"2026-01-31T12:00:30Z","_msg":"where it is durable"}"#;
    let mut lines = 3_900;
    first.wait_for("a line that Kafka has before the spool takes it", |first| {
        let sent = first.post("/insert/jsonline", line);
        assert_eq!((sent.status, all.post("/insert/jsonline", line).status), (200, 200));
        lines += 1;
        sent.header("x-loginson-durable").is_none()
    });
    engines.run("kafka", "stop");
    send_to(&[&first], &all, 3_900..4_000);
    let sent = first.post("/insert/jsonline", line);
    assert_eq!((sent.status, sent.header("x-loginson-durable")), (200, Some("spool")));
    assert_eq!(all.post("/insert/jsonline", line).status, 200);
    lines += 101;
    third.wait_for("what is away in the state of the cluster", |node| {
        let state = status(node);
        state["errors"].as_array().is_some_and(|all| all.iter().any(is_of_broker))
            && state["partitions"][0]["end"].is_null()
            && state["nodes"].is_array()
    });
    let answer = third.get("/select/logsql/query?query=*|stats+count()n&timeout=5s");
    assert_eq!(answer.status, 503, "{}", answer.text());
    engines.run("kafka", "start");
    third.wait_for("what waited in the spool", |node| {
        let answer = node.get("/select/logsql/query?query=*|stats+count()n");
        answer.status == 200 && answer.rows()[0]["n"] == *lines.to_string()
    });
    compare(&all, &third);

    // A store that stops gives programs and sinks away; late lines correct the rows of a bucket.
    assert_eq!(second.terminate(), Some(0));
    drop(second);
    send_to(&[&first, &third], &all, 200..300);
    wait_for_rows(&all, &[&first, &third]);
    let errors = all.count("level:error");
    first.wait_for("the documents of sinks", |_| delivered(&file("errors")).len() as u64 == errors);
    first.wait_for("the rows in the sink", |_| {
        let rows = delivered(&file("rows"));
        let lines = rows.values().filter(|row| row["program"] == "hosts");
        lines.map(|row| row["lines"].as_u64().unwrap()).sum::<u64>() == 4_100
    });
    assert_eq!(told(&third, "/api/v1/dashboards")["dashboards"][0]["title"], "Shop");
    // Runs over the past are begun where the programs run; each node has their rows.
    let run = "/api/v1/programs/hosts/runs?start=2026-01-31T12:00:00Z&end=2026-01-31T12:10:00Z";
    let (_, port) = first.http.rsplit_once(':').unwrap();
    third.wait_for("a refusal that names the node of the programs", |third| {
        let refused = third.post(run, b"");
        refused.status == 409 && refused.text().contains(port)
    });
    let other = HOSTS.replace("lines=\"", "lines=\" 1000 +");
    first.wait_for("a run where the programs run", |first| {
        first.post(run, other.as_bytes()).status == 202
    });
    third.wait_for("the rows of the run", |node| {
        program_rows(node, "hosts").iter().filter(|row| row.contains("\"lines\":10")).count() == 30
    });

    // What the cluster does not do is said, not silently left out.
    let answer = third.post("/api/v1/summary/rerun?type=json&start=1h&end=now", b"");
    assert_eq!(answer.status, 501, "{}", answer.text());
    assert!(answer.text().contains("stored with the lines"), "{}", answer.text());

    // An object is missing: the answer names its segment, and is without it where it may be.
    let mut third = third;
    wait_until_published(&third);
    third.kill();
    drop((first, third));
    std::fs::remove_dir_all(dirs[2].path().join("objects")).unwrap();
    let lost = engines.lose_a_segment();
    let third = start(2, "'store', 'query'");
    let query = "/select/logsql/query?query=*|stats+count()n";
    third.wait_for("an answer that names the segment", |node| {
        let answer = node.get(query);
        answer.status >= 500 && answer.text().contains(&format!("segment {lost} is missing"))
    });
    // Nothing else is missing, once all engines and this node have answered in time.
    third.wait_for("an answer without the segment alone", |node| {
        let answer = node.get(&format!("{query}&allow_partial_response=1"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        let missing = answer.header("x-loginson-missing-stores").unwrap_or_default();
        let lines = missing.strip_prefix(&format!("segment {lost} with "));
        let lines = lines.and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
        let found: u64 = answer.rows()[0]["n"].as_str().unwrap().parse().unwrap();
        lines > Some(0) && found > 0
    });
}
