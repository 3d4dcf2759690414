//! What each node of a cluster on real engines tells of all of them: background queries, numbers,
//! the shares of a query, rejected documents, live tails; also after one of them died.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::{Value, json};

use crate::cluster_state::wait_until_published;
use crate::common::{Answer, PATIENCE, Server, loginson, read_chunk, read_head};
use crate::engines::Engines;
use crate::queries::Holder;
use crate::shop::{compare, send};

fn submit(node: &Server, query: &str) -> String {
    let answer =
        node.post(&format!("/api/v1/queries?query={}", crate::common::encoded(query)), b"");
    assert_eq!(answer.status, 202, "{}", answer.text());
    answer.json()["id"].as_str().unwrap().to_owned()
}

/// The entries of the list of queries that have an id.
fn listed(node: &Server, id: &str) -> Vec<Value> {
    let list = node.get("/api/v1/queries").json();
    let entries = list["queries"].as_array().unwrap().iter();
    entries.filter(|entry| entry["id"] == *id).cloned().collect()
}

/// The answer to a call that another node answers. On a slow machine a node that lives is not heard
/// of for a moment, and is said to be out of reach: the call is made again.
fn in_reach(node: &Server, call: impl Fn() -> Answer) -> Answer {
    let mut last = None;
    node.wait_for("a node in reach", |_| {
        let answer = call();
        let is_in_reach = answer.status != 503;
        last = Some(answer);
        is_in_reach
    });
    last.unwrap()
}

/// What a node tells as soon as it is as wanted.
fn told(
    node: &Server,
    what: &str,
    mut ask: impl FnMut(&Server) -> Value,
    wanted: impl Fn(&Value) -> bool,
) -> Value {
    let mut last = Value::Null;
    node.wait_for(what, |node| {
        last = ask(node);
        wanted(&last)
    });
    last
}

fn queries(node: &Server) -> Value {
    node.get("/api/v1/queries").json()
}

/// The rows of a query, page by page.
fn fetched(node: &Server, id: &str) -> Vec<u8> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/api/v1/queries/{id}/results?limit=70&cursor={cursor}");
        let page = in_reach(node, || node.get(&path));
        assert_eq!(page.status, 200, "{}", page.text());
        all.extend(&page.body);
        cursor = page.header("x-loginson-cursor").unwrap().to_owned();
        if page.header("x-loginson-more") == Some("false") {
            assert_eq!(page.header("x-loginson-state"), Some("done"));
            return all;
        }
    }
}

fn act(node: &Server, id: &str, action: &str) -> (u16, Value) {
    let answer = in_reach(node, || node.post(&format!("/api/v1/queries/{id}/{action}"), b""));
    (answer.status, answer.json())
}

fn delete(node: &Server, id: &str) -> Value {
    let path = format!("/api/v1/queries/{id}");
    let answer = in_reach(node, || node.request("DELETE", &path, &[], b""));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn wait_for_state(node: &Server, id: &str, state: &str) {
    node.wait_for(&format!("a query that is {state}"), |node| {
        node.get(&format!("/api/v1/queries/{id}")).json()["state"] == *state
    });
}

fn all_nodes(node: &Server) -> Value {
    node.get("/api/v1/status").json()["all_nodes"].clone()
}

fn explained(node: &Server, filter: &str, parameters: &str) -> Value {
    let query = format!("took:*{filter}|stats+count()n");
    let path = format!("/select/logsql/explain?format=json&query={query}{parameters}");
    let answer = node.get(&path);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// The shares of the last plan.
fn shares(explained: &Value) -> Vec<Value> {
    let plan = explained["plans"].as_array().and_then(|plans| plans.last()).expect("a plan");
    plan["shares"].as_array().unwrap().clone()
}

#[test]
fn each_node_tells_what_all_of_them_do_and_names_those_that_died() {
    let Some(engines) = Engines::start("answers") else { return };
    let all = Server::start();
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let start = |index: usize, roles: &str| {
        let config = engines.config(roles) + "[query]\nbackground_concurrent_max = 1\n";
        Server::start_in(dirs[index].path(), &[], &config)
    };
    let first = start(0, "'collector', 'store', 'query'");
    let mut second = start(1, "'store', 'query'");
    let third = start(2, "'query'");
    send(&[&first, &second, &third], Some(&all), 0..900);
    compare(&all, &third);
    let name = second.get("/api/v1/cluster").json()["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|node| node["address"].as_str().is_some_and(|url| url.ends_with(&second.http)))
        .expect("it is one of the nodes")["name"]
        .as_str()
        .unwrap()
        .to_owned();

    // A background query of one node is one of all.
    let done = submit(&second, "hostname:web1 | fields order");
    for node in [&first, &third, &second] {
        node.wait_for("the query", |node| {
            let found = listed(node, &done);
            found.len() == 1 && found[0]["state"] == "done" && found[0]["node"] == *name
        });
        told(node, "a list of all nodes", queries, |list| list["out_of_reach"] == json!([]));
        let entry = in_reach(node, || node.get(&format!("/api/v1/queries/{done}"))).json();
        assert_eq!((&entry["rows"], &entry["submission"]), (&json!(300), &Value::Null), "{entry}");
    }
    let rows = fetched(&second, &done);
    assert_eq!(rows.iter().filter(|byte| **byte == b'\n').count(), 300);
    for node in [&first, &third] {
        assert!(fetched(node, &done) == rows, "the same rows from each node");
    }
    let wrong = in_reach(&third, || third.get(&format!("/api/v1/queries/{done}/results?cursor=x")));
    assert_eq!(wrong.status, 400, "{}", wrong.text());
    assert_eq!(delete(&third, &done), json!({"id": done, "state": "deleted"}));
    assert_eq!(first.get(&format!("/api/v1/queries/{done}")).status, 404);
    assert!(listed(&first, &done).is_empty());

    // One that waits is paused and resumed from other nodes.
    let holder = Holder::take(&second);
    let held = submit(&second, "hostname:web2 | stats count() n");
    assert_eq!(act(&first, &held, "pause"), (200, json!({"id": held, "state": "paused"})));
    wait_for_state(&third, &held, "paused");
    assert_eq!(act(&third, &held, "resume"), (200, json!({"id": held, "state": "waiting"})));
    assert_eq!(act(&third, &held, "resume").0, 409);
    assert_eq!(delete(&first, &holder.id)["state"], "cancelled");
    wait_for_state(&first, &held, "done");
    assert_eq!(fetched(&third, &held), b"{\"n\":\"300\"}\n");

    // The numbers of all nodes are the same at each.
    wait_until_published(&first);
    for node in [&first, &second, &third] {
        let numbers = told(node, "the numbers of all nodes", all_nodes, |numbers| {
            numbers["nodes"].as_array().is_some_and(|nodes| nodes.len() == 3)
                && numbers["missing"] == json!([])
                && numbers["lines"] == all_nodes(&first)["lines"]
                && numbers["lines_unpublished"] == 0
        });
        // Lines of the shop, and those of the holder.
        assert_eq!(numbers["lines_received"], 900 + 4_800, "{numbers}");
        assert!(numbers["lines"].as_u64() >= Some(900 + 4_800), "{numbers}");
        assert!(numbers["bytes_objects"].as_u64() > Some(0), "{numbers}");
        assert_eq!(numbers["oldest"], "2026-01-31T12:00:00Z", "{numbers}");
        assert!(numbers["disk"]["used_bytes"].is_u64(), "{numbers}");
    }

    // A plan names who is asked for what; a run says what they did.
    let lines_of = |shares: &[Value], lines: fn(&Value) -> &Value| -> u64 {
        shares.iter().filter_map(|share| lines(share).as_u64()).sum()
    };
    let plan = explained(&third, "", "");
    let planned = shares(&plan);
    assert!(planned.iter().all(|share| share["run"].is_null()) && plan["run"].is_null(), "{plan}");
    assert!(lines_of(&planned, |share| &share["segments_lines"]) >= 900, "{plan}");
    // A share that takes long on a slow machine is asked of another node, too. Each run is of
    // another query, since the parts of an answer are kept.
    let mut runs = 0;
    let run = |node: &Server| {
        runs += 1;
        explained(node, &format!("+!order:none{runs}"), "&analyze=1")
    };
    told(&third, "each share at its node", run, |run| {
        let ran = shares(run);
        run["run"]["rows"] == 1
            && lines_of(&ran, |share| &share["run"]["lines_scanned"]) >= 900
            && ran.iter().all(|share| {
                let run = &share["run"];
                run["complete"] == true
                    && run["error"].is_null()
                    && run["answered_by"] == share["node"]
                    && run["blocks_done"] == run["blocks_planned"]
            })
    });
    let shown = loginson(&[
        "query",
        "--explain",
        "--analyze",
        "--server",
        &format!("http://{}", third.http),
        "took:*",
    ])
    .output()
    .unwrap();
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.status.success()
            && text.contains("share     ")
            && text.contains("run       900 rows"),
        "{text}"
    );

    // A node dies with its background queries: they are named.
    first.wait_for("the list in the catalog", |_| engines.marks("queries/").contains(&held));
    // Its newest lines are on it alone until another store has read them.
    second.kill();
    for node in [&first, &third] {
        node.wait_for("the query of the dead node", |node| {
            let found = listed(node, &held);
            found.len() == 1 && found[0]["state"] == "out_of_reach" && found[0]["node"] == *name
        });
        let list = node.get("/api/v1/queries").json();
        assert_eq!(list["out_of_reach"][0]["node"], *name, "{list}");
        for path in ["", "/results"] {
            let answer = node.get(&format!("/api/v1/queries/{held}{path}"));
            assert_eq!(answer.status, 503, "{}", answer.text());
            assert!(answer.text().contains(&name), "{}", answer.text());
        }
        node.wait_for("numbers without the dead node", |node| {
            let missing = all_nodes(node)["missing"].clone();
            missing.as_array().is_some_and(|all| all.len() == 1 && all[0]["node"] == *name)
        });
        assert_eq!(all_nodes(node)["nodes"].as_array().unwrap().len(), 2);
    }
    let shown =
        loginson(&["queries", "--server", &format!("http://{}", first.http)]).output().unwrap();
    let text = [shown.stdout, shown.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(text[0].contains(&held) && text[0].contains("out_of_reach"), "{}", text[0]);
    assert!(text[1].contains(&name), "{}", text[1]);
    // The others answer all, and say who did.
    let run = |node: &Server| explained(node, "", "&analyze=1");
    told(&third, "an answer of the others", run, |run| {
        let by_others = shares(run).iter().all(|share| share["node"] != *name);
        by_others && run["run"]["rows"] == 1
    });
    third.wait_for("all lines", |node| node.count("took:*") == 900);

    // It comes back, and its query with it.
    let second = start(1, "'store', 'query'");
    first.wait_for("the query", |node| {
        listed(node, &held).iter().all(|entry| entry["state"] == "done")
            && node.get("/api/v1/queries").json()["out_of_reach"] == json!([])
    });
    assert_eq!(fetched(&first, &held), b"{\"n\":\"300\"}\n");
    assert_eq!(delete(&first, &held)["state"], "deleted");
    assert!(listed(&second, &held).is_empty());
    // No number is given twice.
    let next = submit(&second, "hostname:web1");
    assert!(next.parse::<u64>().unwrap() > held.parse::<u64>().unwrap(), "{next} {held}");
}

/// A live tail.
struct Tail {
    reader: BufReader<TcpStream>,
    rest: Vec<u8>,
}

impl Tail {
    fn begin(node: &Server, query: &str) -> Tail {
        let mut stream = node.connect();
        let query = crate::common::encoded(query);
        let head = format!("GET /select/logsql/tail?query={query} HTTP/1.1\r\nHost: {}", node.http);
        write!(stream, "{head}\r\n\r\n").unwrap();
        let mut reader = BufReader::new(stream);
        assert_eq!(read_head(&mut reader).unwrap().0, 200);
        Tail { reader, rest: Vec::new() }
    }

    /// Reads until the rows with all these numbers came, each once.
    fn takes(&mut self, numbers: std::ops::Range<usize>) {
        let mut missing: BTreeSet<String> = numbers.map(|number| number.to_string()).collect();
        let started = Instant::now();
        while !missing.is_empty() {
            assert!(started.elapsed() < PATIENCE, "{} rows have not come", missing.len());
            self.rest.extend(read_chunk(&mut self.reader).unwrap().expect("the tail goes on"));
            while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                if line.len() > 1 {
                    let row: Value = serde_json::from_slice(&line).unwrap();
                    let order = row["order"].as_str().unwrap_or_else(|| panic!("{row}"));
                    assert!(missing.remove(order), "{order} came again, or for no reason");
                }
            }
        }
    }
}

#[test]
fn a_tail_shows_each_line_once_whoever_owns_the_partitions() {
    let Some(engines) = Engines::start("tails") else { return };
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let start = |index: usize, roles: &str| {
        Server::start_in(dirs[index].path(), &[], &engines.config(roles))
    };
    let first = start(0, "'collector', 'store'");
    let mut second = start(1, "'store'");
    let third = start(2, "'collector', 'query'");
    let has_owners = |node: &Server, owners: usize| {
        let state = node.get("/api/v1/cluster").json();
        let partitions = state["partitions"].as_array().unwrap();
        let found = partitions.iter().map(|partition| partition["owner"].to_string());
        state["partitions_unowned"] == 0 && found.collect::<BTreeSet<String>>().len() == owners
    };
    third.wait_for("both stores own partitions", |node| has_owners(node, 2));
    let mut tail = Tail::begin(&third, "took:* | fields order");
    let has_tail = |node: &Server| {
        let listed = node.request("GET", "/api/v1/queries", &[("loginson-handed-on", "1")], b"");
        listed.json()["queries"].as_array().unwrap().iter().any(|query| query["kind"] == "tail")
    };
    third.wait_for("a tail at both stores", |_| has_tail(&first) && has_tail(&second));
    send(&[&first, &third], None, 0..600);
    tail.takes(0..600);

    // A store dies: the other one reads its partitions again from the last published offset.
    second.kill();
    send(&[&first, &third], None, 600..1_200);
    tail.takes(600..1_200);

    // It comes back, and gets partitions of the other one while lines come.
    let mut second = start(1, "'store'");
    let mut sent = 1_200;
    third.wait_for("both stores own partitions again", |node| {
        send(&[&first, &third], None, sent..sent + 100);
        sent += 100;
        has_owners(node, 2)
    });
    send(&[&first, &third], None, sent..sent + 300);
    tail.takes(1_200..sent + 300);

    // A store that ends gives its partitions away.
    assert_eq!(second.terminate(), Some(0));
    send(&[&first, &third], None, sent + 300..sent + 600);
    tail.takes(sent + 300..sent + 600);
    let metrics = third.get("/metrics").text();
    assert!(metrics.contains("loginson_tail_messages_missed_total 0"), "{metrics}");
}

/// A destination that answers requests with documents of one host with a status, and keeps the ids
/// of what it took.
struct Destination {
    url: String,
    status: Arc<AtomicU16>,
    ids: Arc<Mutex<BTreeSet<String>>>,
}

impl Destination {
    fn start(status: u16) -> Destination {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let (status, ids) = (Arc::new(AtomicU16::new(status)), Arc::<Mutex<_>>::default());
        let destination = Destination { url, status: Arc::clone(&status), ids: Arc::clone(&ids) };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // A store that was killed leaves its connection.
                let _ = stream.and_then(|stream| Destination::answer(stream, &status, &ids));
            }
        });
        destination
    }

    fn answer(
        mut stream: TcpStream,
        status: &AtomicU16,
        ids: &Mutex<BTreeSet<String>>,
    ) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let is_refused = body.windows(5).any(|bytes| bytes == b"\"db1\"");
        let status = if is_refused { status.load(Relaxed) } else { 200 };
        if status == 200 {
            let documents = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            let id = |line: &[u8]| {
                let document: Value = serde_json::from_slice(line).unwrap();
                document["_id"].as_str().unwrap().to_owned()
            };
            ids.lock().unwrap().extend(documents.map(id));
        }
        let head = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes())
    }
}

#[test]
fn rejected_documents_are_listed_delivered_and_discarded_from_every_node() {
    let Some(engines) = Engines::start("rejected") else { return };
    let destination = Destination::start(422);
    let sink = format!(
        "[[sinks]]\nname = 'errors'\nof = 'lines'\nfilter = 'level:error'\nurls = ['{}']\n\
         compression = 'none'\n[sinks.json_lines]\n",
        destination.url
    );
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let start = |index: usize, roles: &str| {
        Server::start_in(dirs[index].path(), &[], &(engines.config(roles) + &sink))
    };
    let runs = |node: &Server| node.get("/api/v1/sinks").status == 200;
    let rejected = |node: &Server| node.get("/api/v1/sinks/errors/rejected").json();
    let names = |list: &Value| -> BTreeSet<String> {
        let documents = list["documents"].as_array().unwrap().iter();
        documents.map(|document| document["node"].as_str().unwrap().to_owned()).collect()
    };
    // The first store alone runs the sinks.
    let mut first = start(0, "'store'");
    first.wait_for("the sinks", runs);
    let second = start(1, "'collector', 'store'");
    let third = start(2, "'query'");
    send(&[&second], None, 0..300);
    let has_all = |list: &Value| list["documents_total"] == 10 && list["out_of_reach"] == json!([]);
    for node in [&second, &first] {
        told(node, "the rejected documents", rejected, has_all);
    }
    let list = told(&third, "the rejected documents", rejected, has_all);
    assert_eq!(names(&list).len(), 1, "{list}");
    let one = &list["documents"][0];
    assert!(one["reason"].as_str().is_some_and(|why| why.contains("422")), "{one}");
    assert_eq!(one["fields"]["level"], "error", "{one}");
    let cut = |node: &Server| node.get("/api/v1/sinks/errors/rejected?limit=7").json();
    let cut = told(&third, "a part of them", cut, has_all);
    assert_eq!(cut["documents"].as_array().unwrap().len(), 7);
    assert_eq!(third.get("/api/v1/sinks/none/rejected").status, 404);

    // It dies: another store runs the sinks, and what the first one has is out of reach.
    first.kill();
    send(&[&second], None, 300..600);
    third.wait_for("the documents of the other store", |node| {
        let list = rejected(node);
        list["documents_total"].as_u64() >= Some(10) && list["out_of_reach"][0]["node"].is_string()
    });
    assert_eq!(names(&rejected(&third)).len(), 1);
    let first = start(0, "'store'");
    third.wait_for("the documents of both", |node| {
        let list = rejected(node);
        list["documents_total"].as_u64() >= Some(20) && names(&list).len() == 2
    });

    // The cause is mended, and they are delivered again, from a node that does not run the sinks.
    destination.status.store(200, Relaxed);
    let mut documents = 0;
    told(
        &third,
        "a retry at all nodes",
        |node| {
            let begun = node.post("/api/v1/sinks/errors/rejected/retry", b"");
            assert_eq!(begun.status, 202, "{}", begun.text());
            documents += begun.json()["documents"].as_u64().unwrap();
            begun.json()
        },
        |begun| begun["out_of_reach"] == json!([]),
    );
    assert!(documents >= 20, "{documents}");
    for node in [&third, &first] {
        node.wait_for("an empty list", |node| rejected(node)["documents_total"] == 0);
    }
    assert_eq!(destination.ids.lock().unwrap().len(), 60);

    // Or they are discarded.
    destination.status.store(400, Relaxed);
    send(&[&second], None, 600..750);
    third.wait_for("rejected documents", |node| rejected(node)["documents_total"] == 5);
    let path = "/api/v1/sinks/errors/rejected";
    let mut removed = 0;
    told(
        &third,
        "a deletion at all nodes",
        |node| {
            let answer = node.request("DELETE", path, &[], b"");
            assert_eq!(answer.status, 200, "{}", answer.text());
            removed += answer.json()["documents"].as_u64().unwrap();
            answer.json()
        },
        |answer| answer["out_of_reach"] == json!([]),
    );
    assert_eq!(removed, 5);
    assert_eq!(rejected(&second)["documents_total"], 0);
    assert_eq!(destination.ids.lock().unwrap().len(), 70);
}
