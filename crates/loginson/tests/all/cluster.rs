//! Several stores that one server answers for: the answers of a single store with all lines, and
//! stores that are away, with and without another copy.

use std::io::{BufReader, Write};
use std::time::Instant;

use crate::common::{Port, Server, encoded, loginson, read_chunk, read_head};
use crate::shop::{compare, rows, send};

fn controller(copies: &[&[&Server]]) -> Server {
    let copy = |stores: &&[&Server]| {
        let stores: Vec<_> = stores.iter().map(|store| format!("'{}'", store.http)).collect();
        format!("[{}]", stores.join(", "))
    };
    let copies: Vec<_> = copies.iter().map(copy).collect();
    Server::start_with(&[], &format!("[stores]\ncopies = [{}]\n", copies.join(", ")))
}

#[test]
fn a_cluster_answers_as_one_store_does() {
    let stores = [Server::start(), Server::start(), Server::start()];
    let stores: Vec<&Server> = stores.iter().collect();
    let all = Server::start();
    send(&stores, Some(&all), 0..3_000);
    // Sealed lines are answered alike.
    assert_eq!(stores[0].post("/api/v1/seal", b"").status, 202);
    let one = controller(&[&stores]);
    assert_eq!(one.count("*"), 3_000);
    compare(&all, &one);
    let plan = one.get("/select/logsql/explain?query=*|stats+count()").text();
    assert!(plan.contains("merged where the answer is given"), "{plan}");
}

#[test]
fn lines_around_a_line_come_from_all_stores() {
    let stores = [Server::start(), Server::start()];
    let stores: Vec<&Server> = stores.iter().collect();
    send(&stores, None, 0..600);
    let one = controller(&[&stores]);
    let id = &one.query("order:=300", "include=_line_id")[0]["_line_id"];
    let path = format!("/api/v1/context?id={}&before=3&after=2", id.as_str().unwrap());
    let orders = |path: &str| -> Vec<String> {
        let answer = one.whole(path).json();
        let rows = answer["rows"].as_array().unwrap().iter();
        rows.map(|row| row["order"].as_str().unwrap().to_owned()).collect()
    };
    // The stream is that of the host: every third line.
    assert_eq!(orders(&path), ["291", "294", "297", "300", "303", "306"]);
    // Whoever sees a part of the lines sees that part of their surroundings.
    let restricted = |filter: &str| format!("{path}&extra_filters={}", encoded(filter));
    let seen = orders(&restricted("!order:in(294, 303)"));
    assert_eq!(seen, ["288", "291", "297", "300", "306", "309"]);
    assert_eq!(one.get(&restricted("!order:=300")).status, 404);
    assert_eq!(one.get("/api/v1/context?id=00000001-1-1").status, 404);
}

#[test]
fn statistics_of_loki_count_the_lines_of_all_stores() {
    let stores = [Server::start(), Server::start()];
    let stores: Vec<&Server> = stores.iter().collect();
    send(&stores, None, 0..60);
    let one = controller(&[&stores]);
    let stats = one.get("/loki/api/v1/index/stats?query=%7B%7D&start=0&end=9000000000");
    assert_eq!(stats.status, 200, "{}", stats.text());
    let stats = stats.json();
    assert_eq!((stats["entries"].as_u64(), stats["chunks"].as_u64()), (Some(60), Some(0)));
}

#[test]
fn a_store_that_is_away_is_named_and_never_left_out_silently() {
    let (here, mut away) = (Server::start(), Server::start());
    send(&[&here, &away], None, 0..400);
    let one = controller(&[&[&here, &away]]);
    assert_eq!(one.count("*"), 400);
    one.wait_for("readiness", |one| one.get("/ready").status == 200);
    let name = away.http.clone();
    away.kill();
    for path in [
        "/select/logsql/query?query=*|stats+count()",
        "/select/logsql/query?query=*&limit=5",
        "/select/logsql/query?query=*",
        "/select/logsql/hits?query=*",
        "/api/v1/summary?type=json",
        "/loki/api/v1/query_range?query=%7Bhostname%3D%22web1%22%7D",
    ] {
        let answer = one.get(path);
        assert_eq!(answer.status, 503, "{path}: {}", answer.text());
        assert!(answer.text().contains(&name), "{path}: {}", answer.text());
    }
    let part = one.get("/select/logsql/query?query=*|stats+count()n&allow_partial_response=1");
    assert_eq!((part.status, part.rows()[0]["n"].as_str()), (200, Some("200")));
    assert_eq!(part.header("x-loginson-missing-stores"), Some(name.as_str()));
    let rows = one.get("/select/logsql/query?query=*&allow_partial_response=1");
    assert_eq!((rows.status, rows.rows().len()), (200, 200));
    assert_eq!(rows.header("x-loginson-missing-stores"), Some(name.as_str()));
    // A load balancer is told that no complete answer is possible.
    one.wait_for("the end of readiness", |one| one.get("/ready").status == 503);
    let unready = one.get("/ready").text();
    assert!(unready.contains(&name) && unready.contains("no copy"), "{unready}");
    // A deletion has to reach all stores.
    let deletion = one.post("/api/v1/deletions?filter=error", b"");
    assert_eq!(deletion.status, 503);
    assert!(deletion.text().contains(&name));
    let status = loginson(&["cluster", "status", "--server", &format!("http://{}", one.http)])
        .output()
        .unwrap();
    let text = String::from_utf8(status.stdout).unwrap();
    assert_eq!(status.status.code(), Some(1), "{text}");
    assert!(text.contains("away") && text.contains(&here.http), "{text}");
}

#[test]
fn another_copy_answers_when_a_store_is_away() {
    let mut first = [Server::start(), Server::start()];
    let second = Server::start();
    let copy: Vec<&Server> = first.iter().collect();
    send(&copy, Some(&second), 0..1_000);
    let one = controller(&[&copy, &[&second]]);
    for query in ["*", "error | fields order", "* | stats by (hostname) count() n"] {
        assert_eq!(rows(&one, query, "", false).len(), rows(&second, query, "", false).len());
    }
    first[1].kill();
    for query in ["*", "error | fields order", "* | stats by (hostname) count() n"] {
        let (expected, found) = (rows(&second, query, "", false), rows(&one, query, "", false));
        assert_eq!(found, expected, "{query}");
    }
    one.wait_for_log("another copy is asked");
    // A store that lives may not tell its state in time on a slow machine.
    one.wait_for("the state of all stores", |one| {
        let status = one.get("/api/v1/cluster").json();
        status["copies_whole"] == 1
            && status["copies"][0]["stores"][1]["state"] == "away"
            && status["copies"][1]["stores"][0]["lines"] == 1_000
    });
    one.wait_for("readiness", |one| one.get("/ready").status == 200);
}

#[test]
fn deletions_reach_all_stores_and_tails_follow_them() {
    let stores = [Server::start(), Server::start()];
    let stores: Vec<&Server> = stores.iter().collect();
    send(&stores, None, 0..200);
    let one = controller(&[&stores]);
    let mut stream = one.connect();
    let head =
        "GET /select/logsql/tail?query=order%3A%3E%3D1000&start_offset=1s HTTP/1.1\r\nHost: ";
    write!(stream, "{head}{}\r\n\r\n", one.http).unwrap();
    let mut reader = BufReader::new(stream);
    assert_eq!(read_head(&mut reader).unwrap().0, 200);
    // Lines with old times are followed once the tail of their store has begun.
    let has_tail = |store: &&Server| {
        let listed = store.get("/api/v1/queries").json();
        listed["queries"].as_array().unwrap().iter().any(|query| query["kind"] == "tail")
    };
    one.wait_for("both stores are followed", |_| stores.iter().all(has_tail));
    send(&stores, None, 1_000..1_100);
    let mut lines = 0;
    let started = Instant::now();
    while lines < 100 {
        assert!(started.elapsed() < crate::common::PATIENCE, "{lines} lines came");
        let chunk = read_chunk(&mut reader).unwrap().expect("the tail goes on");
        lines += chunk.split(|&b| b == b'\n').filter(|line| !line.is_empty()).count();
    }
    assert_eq!(lines, 100);

    let deletion = one.post(&format!("/api/v1/deletions?filter={}", encoded("order:<100")), b"");
    assert_eq!(deletion.status, 202, "{}", deletion.text());
    one.wait_for("the lines are deleted", |one| one.count("*") == 200);
    let listed = one.get("/api/v1/deletions").json();
    assert_eq!(listed["stores"].as_array().unwrap().len(), 2);
    // Each store has its own, which is found under its name alone.
    let entry = &listed["stores"][1];
    let (name, id) = (entry["store"].as_str().unwrap(), &entry["answer"]["deletions"][0]["id"]);
    let path = format!("/api/v1/deletions/{}", id.as_str().unwrap());
    for method in ["GET", "DELETE"] {
        let unnamed = one.request(method, &path, &[], b"");
        assert_eq!(unnamed.status, 400, "{}", unnamed.text());
        assert!(unnamed.text().contains("store=NAME"), "{}", unnamed.text());
        assert_eq!(one.request(method, &format!("{path}?store=none"), &[], b"").status, 400);
        let at_it = one.request(method, &format!("{path}?store={name}"), &[], b"");
        assert_eq!((at_it.status, &at_it.json()["id"]), (200, id), "{}", at_it.text());
        assert_eq!(one.request(method, &format!("{path}9?store={name}"), &[], b"").status, 404);
    }
    assert_eq!(stores[0].get(&format!("{path}?store={name}")).status, 400);
}

#[test]
fn a_server_that_is_one_of_its_stores_deletes_its_lines_once() {
    let (port, other) = (Port::take(), Server::start());
    let config = format!("[stores]\naddresses = ['{}', '{}']\n", port.address(), other.http);
    let one = Server::start_at(&port.address(), &config);
    send(&[&one, &other], None, 0..200);
    one.wait_for("all stores answer", |one| one.get("/ready").status == 200);
    let begun = one.post(&format!("/api/v1/deletions?filter={}", encoded("order:<100")), b"");
    assert_eq!(begun.status, 202, "{}", begun.text());
    let listed = one.get("/api/v1/deletions").json();
    for store in listed["stores"].as_array().unwrap() {
        assert_eq!(store["answer"]["deletions"].as_array().unwrap().len(), 1, "{listed}");
    }
    one.wait_for("the lines are deleted", |one| one.count("*") == 100);
}

#[test]
fn a_query_is_cancelled_at_all_stores() {
    let stores = [Server::start(), Server::start()];
    let stores: Vec<&Server> = stores.iter().collect();
    send(&stores, None, 0..2_000);
    let one = controller(&[&stores]);
    // A client that reads nothing of a large answer keeps its query running.
    let large = "* | unroll by (x) | format 'x' as y";
    let endless = format!("{large} | join by (hostname) (*) | join by (hostname) (*)");
    let mut stream = one.connect();
    let path = format!("/select/logsql/query?query={}", encoded(&endless));
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", one.http).unwrap();
    let running = |server: &Server| {
        let listed = server.get("/api/v1/queries").json();
        let queries = listed["queries"].as_array().unwrap().clone();
        queries.into_iter().filter(|query| query["state"] == "running").collect::<Vec<_>>()
    };
    one.wait_for("the query runs", |one| !running(one).is_empty());
    let id = running(&one)[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(one.request("DELETE", &format!("/api/v1/queries/{id}"), &[], b"").status, 200);
    one.wait_for("it has ended everywhere", |one| {
        running(one).is_empty() && stores.iter().all(|store| running(store).is_empty())
    });
}

#[test]
fn mistakes_in_the_list_of_stores_are_named() {
    let store = Server::start();
    send(&[&store], None, 0..50);
    let port = store.http.rsplit_once(':').unwrap().1;
    let config = format!("[stores]\naddresses = ['{}', 'localhost:{port}']\n", store.http);
    let one = Server::start_with(&[], &config);
    let answer = one.get("/select/logsql/query?query=*|stats+count()");
    assert_eq!(answer.status, 503);
    assert!(answer.text().contains("list it once"), "{}", answer.text());
    // A store may answer for itself and others.
    let share = store.post("/api/v1/shares", b"{}");
    assert_eq!(share.status, 400);
    assert!(share.text().contains("no share"), "{}", share.text());
    let other = br#"{"version":99,"query":"*","wanted":"state","start_ns":0,"end_ns":1,"own":false,"limit":null,"oldest_first":false,"after":null,"include":[],"timeout_ms":1000}"#;
    let other = store.post("/api/v1/shares", other);
    assert_eq!(other.status, 503);
    assert!(other.text().contains("version"), "{}", other.text());
    assert_eq!(store.get("/api/v1/cluster").status, 404);
}

/// Listens, and answers every request with these bytes, or, with none, not at all.
fn stranger(answer: Option<&'static [u8]>) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        for mut stream in listener.incoming().map_while(Result::ok) {
            match answer {
                Some(bytes) => {
                    let mut request = [0; 4_096];
                    let _ = std::io::Read::read(&mut stream, &mut request);
                    let _ = stream.write_all(bytes);
                }
                None => silent.push(stream),
            }
        }
    });
    address
}

#[test]
fn strangers_among_the_stores_are_named() {
    let store = Server::start();
    send(&[&store], None, 0..50);
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\r\n";
    let endless = [&head[..], b"H\xff\xff\xff\xff and no more"].concat();
    for (answer, expected) in [
        (Some(&b"SSH-2.0-OpenSSH_9.2\r\n"[..]), "is away"),
        (Some(&b"HTTP/1.1 302 Found\r\nLocation: http://login.example/\r\n\r\n"[..]), "status 302"),
        (Some(&b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"[..]), "token_file"),
        (Some(endless.leak()), "it sent something else"),
        (None, "is away"),
    ] {
        let address = stranger(answer);
        let config = format!("[stores]\naddresses = ['{}', '{address}']\n", store.http);
        let one = Server::start_with(&[], &config);
        let failed = one.get("/select/logsql/query?query=*|stats+count()");
        let text = failed.text();
        assert_eq!(failed.status, 503, "{text}");
        assert!(text.contains(expected) && text.contains(&address), "{expected}: {text}");
    }
}

#[test]
fn stores_add_up_the_rows_of_charts_and_count_again_themselves() {
    let stores = [Server::start(), Server::start()];
    let stores: Vec<&Server> = stores.iter().collect();
    send(&stores, None, 0..3_000);
    let one = controller(&[&stores]);
    let range = "start=2026-01-31T12:00:00Z&end=2026-02-01T00:00:00Z";
    let rows = |step: &str| {
        let path = format!("/api/v1/summary/rows?type=json&{range}{step}");
        let answer = stores[0].get(&path);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json().as_array().unwrap().clone()
    };
    stores[0].wait_for("the lines are counted", |_| {
        rows("").iter().map(|row| row["lines"].as_u64().unwrap()).sum::<u64>() == 1_500
    });
    assert!(rows("").len() > 100, "a row for each bucket");
    let days = rows("&step=1d");
    assert_eq!((days.len(), &days[0]["lines"]), (1, &1_500.into()), "{days:?}");
    one.wait_for("the chart has all lines", |one| {
        let chart = one.get(&format!("/api/v1/summary?type=json&{range}&step=1h")).json();
        let lines = chart["lines"].as_array().into_iter().flatten();
        lines.filter_map(serde_json::Value::as_u64).sum::<u64>() == 3_000
    });
    // The server that answers has no lines to count again; a store has.
    let rerun = format!("/api/v1/summary/rerun?type=json&{range}");
    let refused = one.post(&rerun, b"");
    assert_eq!(refused.status, 501, "{}", refused.text());
    assert!(refused.text().contains("run this at the stores"), "{}", refused.text());
    let own = format!("{rerun}&own=1");
    one.wait_for("it counts its own lines again", |one| one.post(&own, b"").status == 200);
    let counted = stores[0].post(&rerun, b"");
    assert_eq!(counted.status, 200, "{}", counted.text());
}

#[test]
fn the_automatic_step_of_an_open_range_does_not_depend_on_the_server_that_answers() {
    let stores = [Server::start(), Server::start()];
    let stores: Vec<&Server> = stores.iter().collect();
    send(&stores, None, 0..3_000);
    let one = controller(&[&stores]);
    for range in ["", "&start=2026-01-31T12:00:00Z", "&end=2026-02-01T00:00:00Z"] {
        let hits = one.get(&format!("/select/logsql/hits?query=*&step=auto{range}")).json();
        assert_eq!(hits["step_s"], 86_400.0, "{range}: {hits}");
        assert_eq!(hits["hits"][0]["total"], 3_000, "{range}: {hits}");
    }
}
