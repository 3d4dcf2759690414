//! Dashboards by mail with the real binary and a mail server of the test: rights, what is sent, a
//! mail that was missed, an owner who is gone, and what backups and exports hold.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::access::make_token;
use crate::common::Server;

/// A mail server that takes every mail.
struct MailServer {
    port: u16,
    mails: Arc<Mutex<Vec<String>>>,
}

impl MailServer {
    fn start() -> MailServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mails = Arc::<Mutex<Vec<String>>>::default();
        let kept = Arc::clone(&mails);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut say = |text: &str| stream.write_all(format!("{text}\r\n").as_bytes());
                let mut commands = String::new();
                let mut answered = say("220 test");
                while answered.is_ok() {
                    let mut line = String::new();
                    if reader.read_line(&mut line).unwrap_or(0) == 0 {
                        break;
                    }
                    commands.push_str(&line);
                    if line.starts_with("DATA") {
                        answered = say("354 go");
                        let mut mail = String::new();
                        while !mail.ends_with("\r\n.\r\n") {
                            assert_ne!(
                                reader.read_line(&mut mail).unwrap(),
                                0,
                                "the mail is whole"
                            );
                        }
                        kept.lock().unwrap().push(format!("{commands}{mail}"));
                    }
                    answered = answered.and_then(|()| say("250 ok"));
                }
            }
        });
        MailServer { port, mails }
    }

    fn config(&self) -> String {
        format!(
            "[alerts]\nexternal_url = 'https://logs.example.com'\n[[alerts.notifiers]]\nname = 'ops'\n\
             matchers = ['never=\"1\"']\nemail = {{ server = '127.0.0.1:{}', tls = 'none', from = \
             'logs@example.com', to = ['ops@example.com'] }}\n",
            self.port
        )
    }

    fn count(&self) -> usize {
        self.mails.lock().unwrap().len()
    }

    /// The last mail, as it came.
    fn raw(&self) -> String {
        self.mails.lock().unwrap().last().unwrap().clone()
    }

    /// The last mail, with its lines put together that quoted-printable has cut.
    fn last(&self) -> String {
        self.raw().replace("=\r\n", "").replace("=3D", "=")
    }
}

fn call(server: &Server, method: &str, path: &str, token: &str, body: &Value) -> (u16, Value) {
    let headers = [("Authorization", token)];
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = server.request(method, path, &headers, body.as_bytes());
    (answer.status, answer.json())
}

const MAILS: &str = "/api/v1/dashboards/shop/mails";

fn dashboard() -> Value {
    let panel = |title: &str, query: &str, options: Value| json!({"id": title, "title": title, "query": query, "options": options});
    json!({
        "title": "Shop",
        "version": 0,
        "variables": [{"name": "level", "field": "level"}],
        "panels": [
            panel("Count", "$level | stats count() lines", json!({"kind": "single"})),
            panel("Hosts", "* | stats by (host) count() n", json!({"kind": "top"})),
            panel("Over time", "* | stats by (_time:1h, host) count() n", json!({"kind": "bars"})),
            panel("Broken", "* | stats count(", json!({})),
            {"id": "t", "title": "Text", "text": "Call <Ann> & Bob", "query": ""},
        ],
    })
}

/// Makes every schedule due, as if the server had been down for long.
fn forget_done(server: &Server) {
    let file = server.data_dir().join("dashboards/mails.shop");
    let mut all: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    all.as_array_mut().unwrap().iter_mut().for_each(|one| one["state"]["done_s"] = json!(0));
    std::fs::write(&file, all.to_string()).unwrap();
}

#[test]
fn a_dashboard_is_mailed_with_the_rights_of_its_owner() {
    let mail_server = MailServer::start();
    let [(op, op_hash), (part, part_hash)] = [make_token(), make_token()];
    let (op, part) = (format!("Bearer {op}"), format!("Bearer {part}"));
    let of_op = format!("[[tokens]]\nname = 'op'\nsha256 = '{op_hash}'\nrole = 'admin'\n");
    let of_part = format!(
        "[[tokens]]\nname = 'part'\nsha256 = '{part_hash}'\nrole = 'read'\nfilter = 'host:=a'\n"
    );
    let directory = tempfile::tempdir().unwrap();
    let config = mail_server.config();
    let mut server = Server::start_in(directory.path(), &[], &format!("{config}{of_op}{of_part}"));
    let lines = "{\"_msg\":\"x\",\"host\":\"a\",\"level\":\"error\"}\n".repeat(3)
        + &"{\"_msg\":\"x\",\"host\":\"b\",\"level\":\"info\"}\n".repeat(4);
    let answer =
        server.request("POST", "/insert/jsonline", &[("Authorization", &op)], lines.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
    let (status, saved) = call(&server, "PUT", "/api/v1/dashboards/shop", &op, &dashboard());
    assert_eq!(status, 200, "{saved}");

    // Who only reads chooses no address, and sees its own schedules alone.
    let wanted = json!({
        "receiver": "ops", "every": "day", "hour": 0, "minute": 0, "zone": "UTC", "range": "24h",
    });
    let with = |name: &str, value: Value| {
        let mut wanted = wanted.clone();
        wanted[name] = value;
        wanted
    };
    let of_part = format!("{MAILS}/part");
    let addresses = with("addresses", json!(["ann@example.com"]));
    let (status, refused) = call(&server, "PUT", &of_part, &part, &addresses);
    assert!(status == 400 && refused.to_string().contains("needs the role operate"), "{refused}");
    let (status, refused) = call(&server, "PUT", &of_part, &part, &with("receiver", json!("x")));
    assert!(status == 400 && refused.to_string().contains("known are ops"), "{refused}");
    assert_eq!(call(&server, "PUT", &of_part, &part, &wanted).0, 200);
    let of_op = format!("{MAILS}/op");
    let chosen = with("variables", json!({"level": ["info"]}));
    assert_eq!(call(&server, "PUT", &of_op, &op, &chosen).0, 200);
    assert_eq!(call(&server, "DELETE", &of_op, &part, &Value::Null).0, 404);
    assert_eq!(call(&server, "POST", &format!("{of_op}/send"), &part, &Value::Null).0, 404);
    let ids = |token: &str| {
        let (status, list) = call(&server, "GET", MAILS, token, &Value::Null);
        assert_eq!((status, &list["refusal"]), (200, &Value::Null), "{list}");
        let mails = list["mails"].as_array().unwrap().clone();
        mails.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((ids(&part), ids(&op)), (vec!["part".to_owned()], vec!["part".into(), "op".into()]));

    // Each mail has what its owner sees, and what its values of variables select.
    let send = |mail: &str, token: &str| {
        let (status, sent) = call(&server, "POST", &format!("{mail}/send"), token, &Value::Null);
        assert_eq!((status, &sent["delivered"]), (200, &json!(true)), "{sent}");
        assert!(sent["notes"].to_string().contains("Broken"), "{sent}");
        mail_server.last()
    };
    let mail = send(&of_part, &part);
    assert!(mail.contains("RCPT TO:<ops@example.com>") && mail.contains("Subject: "), "{mail}");
    assert!(mail.contains("lines | 3\r\n") && mail.contains("a | 3\r\n"), "{mail}");
    assert!(!mail.contains("b | 4\r\n") && !mail.contains(">b<"), "{mail}");
    assert!(mail.contains("This panel could not be evaluated"), "{mail}");
    assert!(mail.contains("Call &lt;Ann&gt; &amp; Bob"), "{mail}");
    assert!(
        mail.contains("https://logs.example.com/?view=dashboards&dashboard=shop&from="),
        "{mail}"
    );
    let raw = mail_server.raw();
    let file = raw.split("Content-Disposition: attachment").nth(1).unwrap();
    assert!(file.contains("filename=\"shop.pdf\""), "{file}");
    let body = file.split_once("\r\n\r\n").unwrap().1.split("\r\n--").next().unwrap();
    let pdf = STANDARD.decode(body.replace("\r\n", "")).unwrap();
    assert!(pdf.starts_with(b"%PDF-"));
    let mail = send(&of_op, &op);
    assert!(mail.contains("lines | 4\r\n") && mail.contains("b | 4\r\n"), "{mail}");
    let metrics = server.request("GET", "/metrics", &[("Authorization", &op)], b"").text();
    assert!(metrics.contains("loginson_dashboard_mails_total{result=\"sent\"} 2"), "{metrics}");

    // An import belongs to whoever imports it, and is checked; saving again keeps schedules.
    let mut other = dashboard();
    other["mails"] = json!([wanted, with("zone", json!("Mars"))]);
    let (status, refused) = call(&server, "PUT", "/api/v1/dashboards/other", &op, &other);
    assert!(status == 400 && refused.to_string().contains("number 2: zone"), "{refused}");
    assert_eq!(call(&server, "GET", "/api/v1/dashboards/other", &op, &Value::Null).0, 404);
    other["mails"] = json!([wanted]);
    let (status, saved) = call(&server, "PUT", "/api/v1/dashboards/other", &op, &other);
    assert_eq!((status, &saved["mails"]), (200, &Value::Null), "{saved}");
    other["version"] = json!(1);
    other["mails"] = json!([]);
    assert_eq!(call(&server, "PUT", "/api/v1/dashboards/other", &op, &other).0, 200);
    let (_, list) = call(&server, "GET", "/api/v1/dashboards/other/mails", &op, &Value::Null);
    assert_eq!(list["mails"][0]["owner"], "op", "{list}");

    // What was due while the server was down is sent once, late; of a user who is gone, nothing.
    let sent = mail_server.count();
    server.terminate();
    forget_done(&server);
    drop(server);
    let of_op = format!("[[tokens]]\nname = 'op'\nsha256 = '{op_hash}'\nrole = 'admin'\n");
    let server = Server::start_in(directory.path(), &[], &format!("{config}{of_op}"));
    let state = |server: &Server, id: &str| {
        let (_, list) = call(server, "GET", MAILS, &op, &Value::Null);
        let mails = list["mails"].as_array().unwrap().clone();
        mails.into_iter().find(|one| one["id"] == id).unwrap()
    };
    server.wait_for("the refusal", |server| !state(server, "part")["error"].is_null());
    let refused = state(&server, "part");
    assert!(refused["error"].as_str().unwrap().contains("no user or token 'part' any more"));
    assert!(refused["owner_error"].is_string(), "{refused}");
    server
        .wait_for("the mail", |server| state(server, "op")["notes"].to_string().contains("due at"));
    assert_eq!(mail_server.count(), sent + 1);
    assert!(mail_server.last().contains("and is late: it is sent at"));
    let deleted = call(&server, "DELETE", "/api/v1/dashboards/shop", &op, &Value::Null);
    assert_eq!(deleted.0, 200);
    assert!(!server.data_dir().join("dashboards/mails.shop").exists());
}
