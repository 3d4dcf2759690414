//! What stands out, with the real binary: learnt from lines of the past at the first start, kept
//! over a restart and a crash, refused to callers who do not see all lines, and switched off.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::access::make_token;
use crate::common::Server;
use serde_json::Value;

const OFF: &str = "[watch]\nenabled = false\n";
const MINUTE_NS: i64 = 60_000_000_000;

/// Five hours of lines until now, a minute at a time: `shop` sends ten a minute and has been silent
/// for half an hour, `mail` goes on.
fn past() -> String {
    let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
    let mut lines = String::new();
    for minute in 0..300 {
        let start_ns = now_ns - (300 - minute) * MINUTE_NS;
        let services: &[&str] = if minute < 270 { &["shop", "mail"] } else { &["mail"] };
        for service in services {
            for line in 0..10 + minute % 3 {
                let time = text::time::format_time(start_ns + line * 1_000_000_000);
                let row =
                    serde_json::json!({ "_time": time, "service": service, "_msg": "a line" });
                lines.push_str(&format!("{row}\n"));
            }
        }
    }
    lines
}

fn stands_out(server: &Server) -> Value {
    let answer = server.get("/api/v1/stands_out");
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// What is found once the past is learnt.
fn learnt(server: &Server) -> Value {
    server.wait_for("the past to be learnt", |server| stands_out(server)["state"] == "watching");
    stands_out(server)
}

fn of_shop(found: &Value) -> Value {
    let findings = found["findings"].as_array().unwrap();
    let shop = findings.iter().find(|f| f["field"] == "service" && f["value"] == "shop");
    shop.unwrap_or_else(|| panic!("{found}")).clone()
}

#[test]
fn a_service_that_is_silent_stands_out_after_the_first_start_and_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start_in(directory.path(), &[], OFF);
    assert_eq!(server.post("/insert/jsonline", past().as_bytes()).status, 200);
    assert_eq!(stands_out(&server)["state"], "off");
    assert!(!server.get("/metrics").text().contains("loginson_watch_"));
    server.kill();

    let mut server = Server::start_in(directory.path(), &[], "");
    let found = learnt(&server);
    let shop = of_shop(&found);
    assert_eq!((&shop["kind"], &shop["until"]), (&"silent".into(), &Value::Null), "{shop}");
    assert_eq!(shop["filter"], r#""service":="shop""#);
    assert!((9.0..13.0).contains(&shop["expected"].as_f64().unwrap()), "{shop}");
    assert_eq!(server.count(shop["filter"].as_str().unwrap()), 270 * 11);
    let fields = found["fields"].as_array().unwrap();
    assert!(fields.iter().any(|field| field["field"] == "service" && field["series"] == 2));
    let metrics = server.get("/metrics").text();
    assert!(metrics.contains("loginson_watch_findings{kind=\"silent\"}"), "{metrics}");
    server.kill();

    // The crash kept what was written at the end of the past, or it is learnt again.
    let server = Server::start_in(directory.path(), &[], "");
    assert_eq!(of_shop(&learnt(&server))["since"], shop["since"]);
}

#[test]
fn who_sees_a_part_of_the_lines_gets_no_findings() {
    let (part, part_sha256) = make_token();
    let (all, all_sha256) = make_token();
    let config = format!(
        "[[tokens]]\nname = 'part'\nsha256 = '{part_sha256}'\nrole = 'read'\nfilter = 'service:=mail'\n\
         [[tokens]]\nname = 'all'\nsha256 = '{all_sha256}'\nrole = 'read'\n"
    );
    let server = Server::start_with(&[], &config);
    let status = |token: &str| {
        let header = format!("Bearer {token}");
        server.request("GET", "/api/v1/stands_out", &[("Authorization", &header)], b"").status
    };
    assert_eq!((status(&part), status(&all)), (403, 200));
}
