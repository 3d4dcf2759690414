//! `loginson mcp`, as an assistant starts it: JSON-RPC over pipes, in front of a real server.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::common::{Server, loginson};

struct Mcp {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    id: u64,
}

impl Mcp {
    fn start(server: &str, token: Option<&str>) -> Mcp {
        let mut command = loginson(&["mcp", "--server", server]);
        if let Some(token) = token {
            command.env("LOGINSON_TOKEN", token);
        }
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut mcp = Mcp { child, input, output, id: 0 };
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {} });
        assert_eq!(mcp.ask("initialize", params)["result"]["protocolVersion"], "2025-06-18");
        mcp.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        mcp
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Sends a request; its id.
    fn request(&mut self, method: &str, params: Value) -> u64 {
        self.id += 1;
        let request =
            json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params });
        self.send(&request);
        self.id
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        let answer = self.receive();
        assert_eq!(answer["id"], id);
        answer
    }

    /// The texts of a result; the first is Loginson's own.
    fn call(&mut self, tool: &str, arguments: Value) -> Result<Vec<String>, String> {
        let answer = self.ask("tools/call", json!({ "name": tool, "arguments": arguments }));
        let result = &answer["result"];
        let content = result["content"].as_array().unwrap_or_else(|| panic!("{answer}"));
        let text = |block: &Value| block["text"].as_str().unwrap().to_owned();
        match result["isError"] == true {
            true => Err(text(&content[0])),
            false => Ok(content.iter().map(text).collect()),
        }
    }

    fn rows(&mut self, tool: &str, arguments: Value) -> Vec<Value> {
        let found = self.call(tool, arguments).unwrap();
        let data = found.get(1).map(String::as_str).unwrap_or_default();
        data.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Mcp {
    fn drop(&mut self) {
        // A client ends it by closing its input.
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }
}

/// Lines of two hours, in the last ten minutes of which payments fail.
fn with_lines() -> Server {
    let server = Server::start();
    let mut lines = String::new();
    for minute in 0..120 {
        let at = |second| {
            format!("2026-01-31T{}:{:02}:{second:02}Z web1", 12 + minute / 60, minute % 60)
        };
        for second in [0, 20, 40] {
            lines.push_str(&format!(
                "<14>1 {} nginx - - - request {minute} took 5 ms\n",
                at(second)
            ));
            for second in (second..second + 10).filter(|_| minute >= 110) {
                lines.push_str(&format!(
                    "<11>1 {} shop - - - payment of user{minute} failed\n",
                    at(second)
                ));
            }
        }
        for second in [15, 55] {
            lines.push_str(&format!("<11>1 {} nginx - - - upstream is slow\n", at(second)));
        }
    }
    assert_eq!(server.post("/insert/lines", lines.as_bytes()).status, 200);
    server
}

#[test]
fn every_tool_finds_what_there_is() {
    let server = with_lines();
    let mut mcp = Mcp::start(&server.http, None);
    let (start, end) = ("2026-01-31T12:00:00Z", "2026-01-31T14:00:00Z");
    let within = |more: Value| {
        let mut arguments = json!({ "start": start, "end": end });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };

    let overview = mcp.call("overview", within(json!({}))).unwrap();
    assert!(overview[0].contains("stores 900 lines, from 2026-01-31T12:00:00Z"), "{overview:?}");
    assert!(overview[1].contains("{\"app_name\":\"shop\",\"lines\":\"300\"}"), "{overview:?}");

    let query = json!({ "query": "failed | fields _msg, _level", "limit": 2 });
    let rows = mcp.rows("query", within(query));
    assert_eq!(rows.len(), 2);
    let row = &mcp.rows("query", within(json!({ "query": "user119", "limit": 1 })))[0];
    assert_eq!(row["_msg"], "payment of user119 failed");
    assert_eq!((row.get("priority"), row.get("_stream")), (None, None));
    let csv = within(json!({ "query": "* | stats by (_level) count() n", "format": "csv" }));
    assert_eq!(mcp.call("query", csv).unwrap()[1], "_level,n\nerror,540\ninfo,360");
    let raw = within(json!({ "query": "user119", "format": "raw", "limit": 1 }));
    let sent = "<11>1 2026-01-31T13:59:49Z web1 shop - - - payment of user119 failed";
    assert_eq!(mcp.call("query", raw).unwrap()[1], sent);

    let around = mcp.rows("context", json!({ "id": row["_line_id"], "before": 1, "after": 1 }));
    assert_eq!(around[0]["stream"], "{_type=\"syslog\",app_name=\"shop\",hostname=\"web1\"}");
    assert_eq!(around.iter().filter(|row| row["_is_target"] == "true").count(), 1);
    assert_eq!(around.len(), 3);

    let names = mcp.rows("fields", within(json!({ "contains": "host" })));
    assert_eq!(names, [json!({ "name": "hostname", "hits": "900" })]);
    let values = mcp.rows("fields", within(json!({ "field": "app_name" })));
    assert_eq!(values[0], json!({ "app_name": "nginx", "hits": "600" }));

    let patterns = mcp.rows("patterns", within(json!({ "query": "app_name:=shop" })));
    assert_eq!(patterns[0]["pattern"], "payment of <*> failed");
    assert_eq!(patterns[0]["hits"], "300");

    let window = json!({ "start": "2026-01-31T13:50:00Z", "end": end });
    let changed = mcp.rows("what_changed", window.clone());
    let text = changed[0]["text"].as_str().unwrap();
    assert!(text.contains("payment of <*> failed: 0 → 300"), "{text}");
    let grouped = mcp.rows("what_changed", within(json!({ "where": "app_name:=shop # why" })));
    assert!(grouped.iter().any(|row| row["value"] == "payment of <*> failed"), "{grouped:?}");

    let standing =
        mcp.call("stands_out", within(json!({ "start": "2026-01-31T13:30:00Z" }))).unwrap();
    assert!(standing[1].contains("\"_level\":\"error\""), "{standing:?}");
    assert!(standing[1].contains("2026-01-31T13:50:00Z"), "{standing:?}");

    assert!(mcp.call("logsql", json!({ "topic": "pipes" })).unwrap()[0].contains("`stats by"));
    let page = mcp.ask("resources/read", json!({ "uri": "loginson://logsql" }));
    assert!(page["result"]["contents"][0]["text"].as_str().unwrap().starts_with("# LogsQL"));
}

#[test]
fn errors_name_the_remedy() {
    let server = Server::start();
    let mut mcp = Mcp::start(&server.http, None);
    let wrong = mcp.call("query", json!({ "query": "* | frobnicate" })).unwrap_err();
    assert!(wrong.contains("* | frobnicate\n      ^"), "{wrong}");
    let none = mcp.call("query", json!({ "query": "*" })).unwrap();
    assert!(none[0].starts_with("No rows in the last hour."), "{none:?}");
    let unknown = mcp.call("context", json!({ "id": "12345678-1-1" })).unwrap_err();
    assert!(unknown.contains("there is no line"), "{unknown}");

    let mut mcp = Mcp::start("http://127.0.0.1:1", None);
    let away = mcp.call("overview", json!({})).unwrap_err();
    assert!(away.contains("no server answers"), "{away}");
    let password = loginson(&["mcp", "--user", "ann"]).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&password.stderr).into_owned();
    assert!(!password.status.success() && said.contains("--token-file"), "{said}");
}

#[test]
fn tokens_are_asked_for_and_sent() {
    let made = loginson(&["make-token"]).output().unwrap();
    let made = String::from_utf8(made.stdout).unwrap();
    let part = |begin: &str| {
        let line = made.lines().find_map(|line| line.strip_prefix(begin));
        line.unwrap_or_else(|| panic!("{made}")).trim().to_owned()
    };
    let (token, hash) = (part("token:"), part("sha256:"));
    let config = format!("[[tokens]]\nname = \"claude\"\nsha256 = \"{hash}\"\nrole = \"read\"\n");
    let server = Server::start_with(&[], &config);
    let mut without = Mcp::start(&server.http, None);
    let refused = without.call("query", json!({ "query": "*" })).unwrap_err();
    assert!(refused.contains("--token-file"), "{refused}");
    let mut with = Mcp::start(&server.http, Some(&token));
    assert!(with.call("query", json!({ "query": "*" })).is_ok());
}

#[test]
fn a_cancelled_call_cancels_its_query() {
    let server = with_lines();
    let mut mcp = Mcp::start(&server.http, None);
    // A query that runs for minutes.
    let query = "* | generate_sequence 1000000000 | stats sum(_msg) n";
    let id = mcp.request(
        "tools/call",
        json!({ "name": "query", "arguments": { "query": query, "start": "all" } }),
    );
    let state = |server: &Server| {
        let queue = server.get("/api/v1/queries").json();
        let entries = queue["queries"].as_array().unwrap().clone();
        let ours = entries.into_iter().find(|entry| entry["query"] == query);
        ours.map(|entry| entry["state"].as_str().unwrap().to_owned()).unwrap_or_default()
    };
    server.wait_for("the query runs", |server| state(server) == "running");
    let params = json!({ "requestId": id, "reason": "the user pressed Esc" });
    mcp.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
    server.wait_for("the query is cancelled", |server| state(server) == "cancelled");
    // No answer comes to it: the next one is that of the ping.
    assert_eq!(mcp.ask("ping", json!({}))["result"], json!({}));
}
