//! Alerts with the real binary: rules over the API and from a folder, a webhook, silences, history,
//! restarts and crashes, rules over the past.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use crate::common::Server;
use serde_json::{Value, json};

const RULES: &str = "groups:\n- name: shop\n  interval: 1s\n  eval_delay: 0s\n  rules:\n\
                     \x20 - alert: Errors\n    expr: '_time:1d error | stats by (host) count() n | filter n:>2'\n\
                     \x20   labels: {severity: page}\n\
                     \x20   annotations: {summary: '{{ $labels.host }} has {{ $value }} errors'}\n\
                     \x20 - record: lines\n    expr: '_time:1d | stats count() n'\n";

/// Takes webhooks on a free port, and keeps their bodies.
struct Receiver {
    url: String,
    bodies: Arc<Mutex<Vec<Value>>>,
}

impl Receiver {
    fn start() -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let bodies = Arc::<Mutex<Vec<Value>>>::default();
        let kept = Arc::clone(&bodies);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut length = 0;
                loop {
                    let mut line = String::new();
                    reader.read_line(&mut line).unwrap();
                    if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    if line == "\r\n" || line.is_empty() {
                        break;
                    }
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                kept.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                stream.write_all(answer).unwrap();
            }
        });
        Receiver { url, bodies }
    }

    fn config(&self) -> String {
        format!("[[alerts.notifiers]]\nname = \"hook\"\nwebhook = {{ url = \"{}\" }}\n", self.url)
    }

    /// State and hosts of each notification, `firing a b`.
    fn told(&self) -> Vec<String> {
        let bodies = self.bodies.lock().unwrap();
        let told = bodies.iter().map(|body| {
            let alerts = body["alerts"].as_array().unwrap().iter();
            let hosts: Vec<&str> =
                alerts.map(|alert| alert["labels"]["host"].as_str().unwrap()).collect();
            format!("{} {}", body["status"].as_str().unwrap(), hosts.join(" "))
        });
        told.collect()
    }
}

fn send(server: &Server, host: &str, count: usize) {
    let line = format!("{{\"_msg\":\"an error\",\"host\":\"{host}\"}}\n");
    let answer = server.post("/insert/jsonline", line.repeat(count).as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn save(server: &Server, name: &str, text: &str) -> (u16, Value) {
    let path = format!("/api/v1/alerts/rules/{name}");
    let answer = server.request("PUT", &path, &[], text.as_bytes());
    (answer.status, answer.json())
}

fn alerts(server: &Server) -> Vec<Value> {
    let answer = server.get("/api/v1/alerts");
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["data"]["alerts"].as_array().unwrap().clone()
}

fn history(server: &Server, parameters: &str) -> Vec<Value> {
    let answer = server.get(&format!("/api/v1/alerts/history?{parameters}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["changes"].as_array().unwrap().clone()
}

#[test]
fn a_notifier_can_be_tested_and_says_why_it_fails() {
    let receiver = Receiver::start();
    // Nothing listens there: the port was free a moment ago, and is given to nobody else.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = receiver.config()
        + &format!(
            "[[alerts.notifiers]]\nname = \"gone\"\nwebhook = {{ url = \"http://{closed}/\" }}\n\
             matchers = ['level!~\"x\"']\n"
        );
    let server = Server::start_with(&[], &config);
    let test = |name: &str| {
        let answer = server.post(&format!("/api/v1/alerts/notifiers/{name}/test"), b"");
        (answer.status, answer.json())
    };
    let (status, told) = test("hook");
    assert_eq!((status, &told["delivered"], &told["error"]), (200, &json!(true), &Value::Null));
    assert_eq!(receiver.bodies.lock().unwrap()[0]["alerts"][0]["labels"]["notifier"], "hook");
    let (status, told) = test("gone");
    assert_eq!((status, &told["delivered"]), (200, &json!(false)));
    assert!(!told["error"].as_str().unwrap().is_empty(), "{told}");
    assert_eq!(test("none").0, 404);
    let notifiers = || server.get("/api/v1/alerts/notifiers").json()["notifiers"].clone();
    assert_eq!(notifiers()[1]["name"], "gone");
    let matcher = json!({"name": "level", "value": "x", "isRegex": true, "isEqual": false});
    assert_eq!(notifiers()[1]["matchers"], json!([matcher]), "who is told about which alerts");
    assert_eq!(notifiers()[0]["matchers"], json!([]));
    assert_eq!(notifiers()[1]["last_error"], Value::Null, "a test is no notification");

    assert_eq!(save(&server, "shop.yml", RULES).0, 200);
    send(&server, "loud", 3);
    server.wait_for("the failure", |_| notifiers()[1]["state"] == "failing");
    let failing = notifiers()[1].clone();
    assert!(!failing["last_error"].as_str().unwrap().is_empty(), "{failing}");
    assert!(failing["last_error_time"].is_string());
    assert!(
        server.get("/metrics").text().contains("loginson_notifier_failing{notifier=\"gone\"} 1")
    );
    server.wait_for("the other one", |_| notifiers()[0]["sent_total"] == 1);
    assert_eq!(notifiers()[0]["state"], "ok");
    server.wait_for_log("the notifier gone fails: ");
}

#[test]
fn alerts_fire_are_told_and_are_there_after_a_crash() {
    let receiver = Receiver::start();
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start_in(directory.path(), &[], &receiver.config());
    assert_eq!(save(&server, "shop.yml", RULES).0, 200);
    send(&server, "quiet", 2);
    send(&server, "loud", 3);
    server.wait_for("the alert", |server| !alerts(server).is_empty());
    let alert = alerts(&server).remove(0);
    assert_eq!(alert["state"], "firing");
    assert_eq!(alert["annotations"]["summary"], "loud has 3 errors");
    assert_eq!(
        alert["labels"],
        json!({"alertname": "Errors", "alertgroup": "shop", "host": "loud", "severity": "page",
               "stats_result": "n"})
    );
    server.wait_for("the notification", |_| !receiver.told().is_empty());
    assert_eq!(receiver.told(), ["firing loud"]);

    // Rows of alerts are lines that only queries see that name their type.
    server.wait_for("rows", |server| server.count("_type:alert record:lines") > 0);
    let changed = "_type:=alert alert:Errors to:firing";
    server.wait_for("the row of the change", |server| server.count(changed) > 0);
    assert_eq!((server.count("*"), server.count(changed)), (5, 1));
    let changes = history(&server, "rule=Errors");
    assert_eq!(changes.len(), 1);
    assert_eq!((&changes[0]["from"], &changes[0]["to"]), (&json!("inactive"), &json!("firing")));
    assert_eq!(changes[0]["labels"]["host"], "loud");
    assert!(history(&server, "rule=Other").is_empty());
    let refused = server.post("/insert/jsonline?_type=alert", b"{}");
    assert_eq!(refused.status, 400, "{}", refused.text());

    // The alert goes on after a crash, and is not told again.
    server.wait_for("the state is kept", |_| {
        let files = std::fs::read_dir(directory.path().join("alerts")).unwrap();
        // A file whose name ends in `.new` is not the state yet.
        files.flatten().filter(|file| file.path().extension().is_none_or(|e| e != "new")).any(
            |file| {
                // Before, it is kept that the notification is handed over.
                let told = "\"hook\":{\"is_firing\":true";
                std::fs::read_to_string(file.path()).is_ok_and(|state| state.contains(told))
            },
        )
    });
    server.kill();
    let mut server = Server::start_in(directory.path(), &[], &receiver.config());
    server.wait_for("an evaluation", |server| {
        let rules = server.get("/api/v1/rules").json();
        rules["data"]["groups"][0]["rules"][0]["health"] == "ok"
    });
    assert_eq!(alerts(&server)[0]["activeAt"], alert["activeAt"]);
    send(&server, "quiet", 1);
    server.wait_for("the second alert", |_| receiver.told().len() == 2);
    assert_eq!(receiver.told()[1], "firing loud quiet");
    assert_eq!(server.terminate(), Some(0));

    // The alerts end once their rule says so.
    let server = Server::start_in(directory.path(), &[], &receiver.config());
    let deleted = server.request("DELETE", "/api/v1/alerts/rules/shop.yml", &[], b"");
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    assert!(alerts(&server).is_empty());
    assert_eq!(server.get("/api/v1/alerts/rules/shop.yml").status, 404);
    let changes = history(&server, "limit=2");
    assert!(changes.iter().all(|change| change["to"] == "inactive"), "{changes:?}");
}

#[test]
fn mistakes_change_nothing_and_name_the_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("good.yml"), RULES).unwrap();
    std::fs::write(folder.path().join("bad.yaml"), "groups:\n- name: x\n  colour: red\n").unwrap();
    let config = format!("[alerts]\nrules = \"{}\"\n", folder.path().display());
    let server = Server::start_with(&[], &config);
    let groups = |server: &Server| {
        let rules = server.get("/api/v1/rules").json();
        rules["data"]["groups"].as_array().unwrap().len()
    };
    server.wait_for("the rules", |server| groups(server) == 1);
    let files = server.get("/api/v1/alerts/rules").json();
    assert!(files["files"][0]["error"].as_str().unwrap().contains("bad.yaml, line 3"), "{files}");
    assert_eq!(files["files"][1], json!({"name": "good.yml", "provisioned": true, "error": null}));
    for (name, text, status, part) in [
        ("good.yml", RULES, 409, "reload"),
        ("..%2Fx.yml", RULES, 400, ".yml"),
        ("x.txt", RULES, 400, ".yml"),
        ("x.yml", "groups: [", 400, ""),
        ("x.yml", "groups:\n- name: g\n  rules:\n  - alert: A\n    expr: error\n", 400, "stats"),
        (
            "x.yml",
            "groups:\n- name: g\n  rules:\n  - alert: A\n    expr: '* | stats by (_time:1m) count()'\n",
            400,
            "_time",
        ),
        ("x.yml", "groups:\n- name: g\n  type: prometheus\n", 400, "vlogs"),
    ] {
        let (found, answer) = save(&server, name, text);
        assert_eq!(found, status, "{name} {text}: {answer}");
        assert!(answer.to_string().contains(part), "{answer}");
        assert_eq!(groups(&server), 1);
    }
    let (_, answer) = save(&server, "x.yml", "groups:\n- name: g\n  x: 1\n");
    assert_eq!(answer["line"], 3, "{answer}");
    assert_eq!(server.post("/api/v1/alerts/reload", b"").status, 400);
    std::fs::remove_file(folder.path().join("bad.yaml")).unwrap();
    let reloaded = server.post("/api/v1/alerts/reload", b"");
    assert_eq!((reloaded.status, reloaded.json()["files"].clone()), (200, json!(1)));
    let metrics = server.get("/metrics").text();
    assert!(metrics.contains("loginson_alert_rules 2"), "{metrics}");
    assert_eq!(
        server.get("/api/v1/rules?type=record").json()["data"]["groups"][0]["rules"][0]["name"],
        "lines"
    );
}

#[test]
fn what_cannot_be_kept_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start_in(directory.path(), &[], "");
    assert_eq!(save(&server, "shop.yml", RULES).0, 200);
    send(&server, "loud", 3);
    server.wait_for("the alert", |server| !alerts(server).is_empty());
    // A folder is where a document is written first.
    std::fs::create_dir_all(directory.path().join("alert-rules/shop.yml.new")).unwrap();
    let (status, answer) = save(&server, "shop.yml", &RULES.replace("Errors", "Other"));
    assert_eq!(status, 500, "{answer}");
    let rules = server.get("/api/v1/rules").json();
    assert_eq!(rules["data"]["groups"][0]["rules"][0]["name"], "Errors");
    assert_eq!(alerts(&server)[0]["labels"]["alertname"], "Errors");
    std::fs::create_dir_all(directory.path().join("alerts/silences.json.new")).unwrap();
    let silence = json!({
        "matchers": [{"name": "host", "value": "a", "isRegex": false, "isEqual": true}],
        "startsAt": "2026-01-01T00:00:00Z", "endsAt": "2126-01-01T00:00:00Z",
    });
    let answer = server.post("/api/v1/silences", silence.to_string().as_bytes());
    assert_eq!(answer.status, 500, "{}", answer.text());
    assert_eq!(server.get("/api/v1/silences").json(), json!([]));
}

#[test]
fn a_file_that_is_saved_leaves_those_of_the_folder_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("good.yml"), RULES).unwrap();
    let config = format!("[alerts]\nrules = \"{}\"\n", folder.path().display());
    let server = Server::start_with(&[], &config);
    let groups = |server: &Server| {
        let rules = server.get("/api/v1/rules").json();
        rules["data"]["groups"].as_array().unwrap().len()
    };
    server.wait_for("the rules", |server| groups(server) == 1);
    // Somebody is at work on it, and has not said `reload` yet.
    std::fs::write(folder.path().join("good.yml"), "groups:\n- name: x\n  colour: red\n").unwrap();
    assert_eq!(save(&server, "x.yml", RULES).0, 200);
    assert_eq!(groups(&server), 2);
    let deleted = server.request("DELETE", "/api/v1/alerts/rules/x.yml", &[], b"");
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    assert_eq!(groups(&server), 1);
}

#[test]
fn silenced_alerts_are_shown_and_not_told() {
    let receiver = Receiver::start();
    let server = Server::start_with(&[], &receiver.config());
    let silence = |starts: &str, ends: &str| {
        json!({
            "matchers": [{"name": "host", "value": "a.*", "isRegex": true, "isEqual": true}],
            "startsAt": starts, "endsAt": ends, "createdBy": "me", "comment": "works",
        })
    };
    let put = |silence: &Value| server.post("/api/v1/silences", silence.to_string().as_bytes());
    let refused = put(&silence("2026-01-01T00:00:00Z", "2025-01-01T00:00:00Z"));
    assert_eq!(refused.status, 400, "{}", refused.text());
    let answer = put(&silence("2026-01-01T00:00:00Z", "2126-01-01T00:00:00Z"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(save(&server, "shop.yml", RULES).0, 200);
    send(&server, "a1", 3);
    send(&server, "b1", 3);
    server.wait_for("the notification", |_| !receiver.told().is_empty());
    assert_eq!(receiver.told(), ["firing b1"]);
    let shown = alerts(&server);
    assert_eq!((&shown[0]["silenced"], &shown[1]["silenced"]), (&json!(true), &json!(false)));
    assert_eq!(shown[0]["silencedBy"], json!([id]));
    let listed = server.get("/api/v1/silences").json();
    assert_eq!(listed[0]["status"]["state"], "active", "{listed}");
    let ended = server.request("DELETE", &format!("/api/v1/silences/{id}"), &[], b"");
    assert_eq!(ended.status, 200, "{}", ended.text());
    server.wait_for("the other one", |_| receiver.told().len() == 2);
    assert_eq!(receiver.told()[1], "firing a1 b1");
}

#[test]
fn rules_run_over_the_past() {
    let server = Server::start();
    let lines: String = (10..20)
        .map(|minute| {
            format!("{{\"_time\":\"2026-01-31T12:{minute}:30Z\",\"_msg\":\"an error\",\"host\":\"a\"}}\n")
        })
        .collect();
    assert_eq!(server.post("/insert/jsonline", lines.as_bytes()).status, 200);
    let rules = "groups:\n- name: g\n  rules:\n  - alert: A\n    for: 2m\n    \
                 expr: 'error | stats by (host) count() n'\n";
    let test = |step: Option<&str>| {
        let body = json!({"rules": rules, "start": "2026-01-31T12:00:00Z",
                          "end": "2026-01-31T12:30:00Z", "step": step});
        let answer = server.post("/api/v1/alerts/test", body.to_string().as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    };
    let replayed = test(None);
    assert_eq!(replayed["truncated"], false);
    assert_eq!(replayed["rules"][0]["evaluations"], 31, "{replayed}");
    let changes: Vec<(String, String)> = replayed["rules"][0]["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| {
            let time = change["time"].as_str().unwrap()[11..16].to_owned();
            (time, change["to"].as_str().unwrap().to_owned())
        })
        .collect();
    let expected = [("12:11", "pending"), ("12:13", "firing"), ("12:21", "inactive")];
    assert_eq!(changes, expected.map(|(time, to)| (time.to_owned(), to.to_owned())));
    assert_eq!(test(Some("10m"))["rules"][0]["evaluations"], 4);
    assert!(history(&server, "").is_empty());
    let wrong = json!({"rules": "groups: 1", "start": "1h", "end": "0s"});
    assert_eq!(server.post("/api/v1/alerts/test", wrong.to_string().as_bytes()).status, 400);
}

/// Sends a receiver; the status and the answer.
fn put_receiver(server: &Server, name: &str, sent: &Value) -> (u16, Value) {
    let path = format!("/api/v1/alerts/notifiers/{name}");
    let answer = server.request("PUT", &path, &[], sent.to_string().as_bytes());
    (answer.status, answer.json())
}

#[test]
fn a_receiver_is_made_tested_told_changed_and_deleted_and_its_secret_is_never_shown() {
    let (first, second) = (Receiver::start(), Receiver::start());
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("master.key");
    std::fs::write(&key, "5f".repeat(32)).unwrap();
    let data = directory.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let config = format!(
        "[alerts]\nreceivers = \"local\"\n{}[encryption]\nkey_file = \"{}\"\n\
         [audit]\nenabled = true\nadmins_read = true\n",
        first.config(),
        key.display()
    );
    let mut server = Server::start_in(&data, &[], &config);
    let secret = format!("{}/s3cr3t-of-the-hook", second.url);
    let receiver = json!({
        "matchers": ["severity=\"page\""], "sample_line": true,
        "webhook": {}, "secrets": { "url": secret, "token": "t0k3n-of-the-hook" },
    });
    assert_eq!(put_receiver(&server, "mine", &receiver), (200, json!({ "name": "mine" })));
    let notifiers = |server: &Server| {
        let found = server.get("/api/v1/alerts/notifiers").json()["notifiers"].clone();
        let each = found.as_array().unwrap().iter();
        each.map(|one| (one["name"].as_str().unwrap().to_owned(), one["provided"] == true))
            .collect::<Vec<_>>()
    };
    let both = [("hook".to_owned(), true), ("mine".to_owned(), false)];
    assert_eq!(notifiers(&server), both);
    let shown = server.get("/api/v1/alerts/notifiers/mine");
    assert_eq!(shown.json()["secrets"], json!(["token", "url"]));
    let answer = server.post("/api/v1/alerts/notifiers/mine/test", b"").json();
    assert_eq!(answer["delivered"], true, "{answer}");
    let tested = second.bodies.lock().unwrap().remove(0);
    assert_eq!(tested["alerts"][0]["labels"]["alertname"], "LoginsonTest");

    // What is in the configuration file stays there; what is wrong changes nothing.
    let hook = json!({ "ntfy": { "topic": "x" } });
    assert_eq!(put_receiver(&server, "hook", &hook).0, 409);
    assert_eq!(server.request("DELETE", "/api/v1/alerts/notifiers/hook", &[], b"").status, 409);
    assert_eq!(server.get("/api/v1/alerts/notifiers/hook").status, 409);
    assert_eq!(server.get("/api/v1/alerts/notifiers/none").status, 404);
    for (sent, part) in [
        (json!({ "webhook": { "url": "http://evil" } }), "give the secrets again"),
        (json!({ "webhook": { "url_file": "/etc/passwd" } }), "no file and no variable"),
        (json!({ "webhook": {}, "text": "{{ $x }}" }), "text"),
    ] {
        let (status, answer) = put_receiver(&server, "mine", &sent);
        assert!(status == 400 && answer.to_string().contains(part), "{answer}");
    }
    // The metadata of a cloud is refused whatever is set; a test says so.
    let metadata = json!({ "webhook": { "url": "http://169.254.169.254/latest" } });
    assert_eq!(put_receiver(&server, "cloud", &metadata).0, 200);
    let answer = server.post("/api/v1/alerts/notifiers/cloud/test", b"").json();
    let refused = answer["error"].as_str().unwrap().contains("169.254.169.254 is refused");
    assert!(refused, "{answer}");
    assert_eq!(server.request("DELETE", "/api/v1/alerts/notifiers/cloud", &[], b"").status, 200);

    // Both are told, the one with a line, also after a crash.
    server.kill();
    let server = Server::start_in(&data, &[], &config);
    assert_eq!(notifiers(&server), both);
    assert_eq!(save(&server, "shop.yml", RULES).0, 200);
    send(&server, "loud", 3);
    server.wait_for("both are told", |_| !first.told().is_empty() && !second.told().is_empty());
    assert_eq!(second.told(), ["firing loud"]);
    let body = second.bodies.lock().unwrap()[0].clone();
    let line = body["alerts"][0]["annotations"]["line"].as_str().unwrap_or_default().to_owned();
    assert!(line.contains("an error") && line.contains("loud"), "{body}");
    let link = body["alerts"][0]["generatorURL"].as_str().unwrap();
    assert!(link.is_empty(), "the address of the page is not known: {link}");

    // Other members are changed without the secrets, which no answer, log or file has.
    let changed = json!({ "webhook": {}, "send_resolved": false });
    assert_eq!(put_receiver(&server, "mine", &changed).0, 200);
    let shown = server.get("/api/v1/alerts/notifiers/mine").text();
    let (listed, log) = (server.get("/api/v1/alerts/notifiers").text(), server.log());
    server.wait_for("the audit log", |server| server.count("_type:=audit mine saved") > 0);
    let audited = format!("{:?}", server.query("_type:=audit", ""));
    let stored = std::fs::read(data.join("receivers/mine.json")).unwrap();
    let stored = String::from_utf8_lossy(&stored);
    for text in [&shown, &listed, &log, &audited, &*stored] {
        assert!(!text.contains("s3cr3t") && !text.contains("t0k3n"), "{text}");
    }
    assert!(log.contains("notifier mine saved"), "{log}");
    assert_eq!(server.request("DELETE", "/api/v1/alerts/notifiers/mine", &[], b"").status, 200);
    assert_eq!(notifiers(&server), both[..1]);
    assert_eq!(server.post("/api/v1/alerts/notifiers/mine/test", b"").status, 404);
}

#[test]
fn receivers_over_the_api_do_not_reach_this_machine_unless_they_may() {
    let receiver = Receiver::start();
    let server = Server::start();
    let sent = json!({ "webhook": { "url": receiver.url } });
    assert_eq!(put_receiver(&server, "here", &sent).0, 200);
    let answer = server.post("/api/v1/alerts/notifiers/here/test", b"").json();
    let error = answer["error"].as_str().unwrap();
    assert!(error.contains("is refused") && error.contains("alerts.receivers"), "{error}");
    assert!(receiver.bodies.lock().unwrap().is_empty());
    // A page of another origin changes nothing.
    let origin = [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")];
    let path = "/api/v1/alerts/notifiers/here";
    assert_eq!(server.request("DELETE", path, &origin, b"").status, 403);
    assert_eq!(server.get(path).status, 200);
    let server = Server::start_with(&[], "[alerts]\nreceivers = \"off\"\n");
    let (status, answer) = put_receiver(&server, "here", &sent);
    assert!(status == 409 && answer.to_string().contains("alerts.receivers"), "{answer}");
}
