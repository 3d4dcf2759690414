//! Secrets appear in the header of a request and nowhere else, also when a server repeats them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use sinks::Batch;

use crate::server::{Action, Server};
use crate::sink::{document, run, sink};

/// The secret of each configuration, and other forms in which it is sent.
const CASES: [(&str, &[&str]); 4] = [
    ("user = \"me\"\npassword = \"hunter22\"", &["hunter22", "bWU6aHVudGVyMjI="]),
    ("api_key = \"bXlpZDpteXNlY3JldGtleQ==\"", &["bXlpZDpteXNlY3JldGtleQ==", "mysecretkey"]),
    ("token = \"toktoktok\"", &["toktoktok"]),
    ("headers = { X-Key = \"headersecret\" }", &["headersecret"]),
];

/// Everything that libraries log, at every level that they have.
static LOGGED: Mutex<String> = Mutex::new(String::new());

struct Logger;

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = format!("{} {}: {}\n", record.level(), record.target(), record.args());
        LOGGED.lock().unwrap().push_str(&line);
    }

    fn flush(&self) {}
}

/// The bytes of a text in the way in which `ureq` would dump them.
fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn no_log_of_a_library_contains_a_secret() {
    log::set_logger(&Logger).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
    let server = Server::answering(302, "go to /login?key=hunter22");
    for (credentials, _) in CASES {
        let urls = format!("urls = [\"{}/path?key=urlsecret\"]", server.url);
        let sink = sink(&format!("name = \"x\"\n{urls}\n{credentials}\n[json_lines]"));
        let delivered = sink.destination().unwrap().deliver(&[document("id", 0, &[])]);
        assert!(!format!("{delivered:?}").contains("urlsecret"));
    }
    let logged = LOGGED.lock().unwrap().clone();
    assert!(logged.contains("DEBUG ureq::"), "{logged}");
    let hex_logged = logged.replace(' ', "");
    for secret in CASES.iter().flat_map(|(_, secrets)| *secrets).chain([&"urlsecret"]) {
        assert!(!logged.contains(secret), "{secret} is in {logged}");
        assert!(!hex_logged.contains(&hex(secret)[..12]), "{secret} is dumped in {logged}");
    }
}

#[test]
fn no_text_contains_a_secret() {
    for (table, statuses) in [
        ("[elasticsearch]\nindex = \"logs\"", [401, 403, 500, 400]),
        ("[json_lines]", [401, 400, 500, 413]),
        ("[loki]", [401, 400, 500, 422]),
        ("[loginson]", [401, 400, 500, 507]),
    ] {
        for (credentials, secrets) in CASES {
            let script = Arc::new(Mutex::new(statuses.to_vec()));
            let left = Arc::clone(&script);
            let is_second = Arc::new(AtomicBool::new(false));
            let is_running = Arc::clone(&is_second);
            let forms = secrets.join(" ");
            let server = Server::start(move |request| {
                let echo = format!(
                    "you sent {} {} {forms}",
                    request.header("authorization"),
                    request.header("x-key")
                );
                // In the second part, only requests with documents fail.
                let is_spared = is_running.load(Ordering::SeqCst) && request.method != "POST";
                let status = if is_spared { None } else { left.lock().unwrap().pop() };
                if request.path.contains("/_bulk") && status == Some(400) {
                    let error = json!({"type": "t", "reason": echo});
                    let item = json!({"create": {"status": 400, "error": error}});
                    return Action::json(200, json!({"errors": true, "items": [item]}));
                }
                match status {
                    Some(status) => Action::json(status, &echo),
                    None if request.path.contains("/_bulk") => {
                        let item = json!({"create": {"status": 201}});
                        Action::json(200, json!({"errors": false, "items": [item]}))
                    }
                    None if request.path == "/" && request.method == "GET" => {
                        Action::json(200, json!({"version": {"number": "8.1.0"}}))
                    }
                    None => Action::json(200, json!({"lines": 1, "index_templates": []})),
                }
            });
            let text = format!("name = \"x\"\nurls = [{:?}]\n{credentials}\n{table}", server.url);
            let sink = sink(&text);
            let mut texts = vec![format!("{sink:?}")];
            // Each fault is seen as the last error of a delivery of its own.
            let mut to = sink.destination().unwrap();
            for _ in 0..statuses.len() {
                texts.push(format!("{:?}", to.deliver(&[document("id", 0, &[])])));
            }
            script.lock().unwrap().extend([400, 422, 500]);
            is_second.store(true, Ordering::SeqCst);
            let folder = tempfile::tempdir().unwrap();
            let batch = |cursor: &str| Batch {
                documents: vec![document(cursor, 0, &[])],
                cursor: cursor.to_owned(),
            };
            let (state, _) = run(&sink, folder.path(), vec![batch("a"), batch("b")]);
            texts.push(format!("{state:?}"));
            for file in std::fs::read_dir(folder.path()).unwrap() {
                texts.push(std::fs::read_to_string(file.unwrap().path()).unwrap());
            }
            let all = texts.join("\n");
            assert!(all.contains("you sent"), "{all}");
            for secret in secrets {
                assert!(!all.contains(secret), "{secret} is in {all}");
            }
            let headers = format!("{:?}", server.requests()[0].headers);
            assert!(secrets.iter().any(|secret| headers.contains(secret)), "{headers}");
        }
    }
}
