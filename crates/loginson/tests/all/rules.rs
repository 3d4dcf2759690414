//! Rules at ingest: what they hide or leave out is nowhere on disk, whatever happens, and what they
//! add stays when the rules change.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::common::Server;

const SECRET: &str = "4111111111111111";
const RULES: &str = "
[[rules]]
name = 'cards'
mask = ['cards', 'tokens']
[[rules]]
name = 'no debug of the cart'
filter = 'app_name:=cart debug'
drop = true
[[rules]]
name = 'team'
filter = 'app_name:=cart'
pipes = 'extract \"order <order>:\" from _msg'
set = { team = 'shop' }
";

/// The files of a directory that hold a text.
fn files_with(directory: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if let Ok(bytes) = fs::read(&path)
            && memchr::memmem::find(&bytes, text.as_bytes()).is_some()
        {
            found.push(path.display().to_string());
        }
    }
    found
}

fn send(server: &Server, first: u32) {
    let lines: String = (first..first + 50)
        .flat_map(|n| {
            [
                format!("<14>1 - web1 cart - - - order {n}: paid with {SECRET}\n"),
                format!("<15>1 - web1 cart - - - debug hidden-{n}\n"),
                format!(
                    "{{\"msg\":\"login\",\"password\":\"hunter2\",\"card\":{SECRET},\"n\":{n}}}\n"
                ),
            ]
        })
        .collect();
    assert_eq!(server.post("/insert/lines", lines.as_bytes()).status, 200);
}

#[test]
fn what_rules_hide_is_nowhere_on_disk_and_what_they_add_stays() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start_in(directory.path(), &[], RULES);
    send(&server, 1000);
    server.kill();
    let check = |server: &Server, orders: u64| {
        assert_eq!(server.count("*"), 2 * orders);
        assert_eq!(server.count("team:=shop order:*"), orders);
        assert_eq!(server.count("team:=shop order:=1007"), 1);
        assert_eq!(server.count("card:='[card]' password:='[token]'"), orders);
        assert_eq!(server.count("hidden"), 0);
        for text in [SECRET, "hunter2", "hidden-10"] {
            assert_eq!(files_with(directory.path(), text), [""; 0], "{text}");
        }
    };
    // The rules are others now; what they made of the lines before stays.
    let config = "[[rules]]\nname = 'cards'\nmask = ['cards', 'tokens']\n";
    let mut server = Server::start_in(directory.path(), &[], config);
    check(&server, 50);
    server.kill();
    let server = Server::start_in(directory.path(), &[], RULES);
    check(&server, 50);
    send(&server, 2000);
    check(&server, 100);
    assert_eq!(server.post("/api/v1/seal", b"").status, 202);
    check(&server, 100);
    let metrics = server.get("/metrics").text();
    let dropped = "loginson_rule_lines_total{rule=\"no debug of the cart\",action=\"dropped\"} 50";
    assert!(metrics.contains(dropped), "{metrics}");
    let listed = server.get("/api/v1/ingest/rules").json();
    assert_eq!(listed["rules"][0]["masked"], 100, "{listed}");
}

#[test]
fn rules_are_tried_and_changed_while_the_server_runs() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("loginson.toml");
    let server = Server::start_in(directory.path(), &[], "# no rules\n");
    assert_eq!(server.post("/insert/lines", b"<14>1 - web1 cart - - - order 7: x\n").status, 200);
    let body = json!({ "rules": RULES, "query": "order" }).to_string();
    let tried = server.post("/api/v1/ingest/rules/trial", body.as_bytes()).json();
    assert_eq!(tried["lines"][0]["rules"], json!(["team"]), "{tried}");
    assert_eq!(tried["lines"][0]["after"]["fields"]["order"], "7", "{tried}");
    let body = json!({ "rules": RULES, "lines": ["<15>1 - web1 cart - - - debug", SECRET] });
    let tried = server.post("/api/v1/ingest/rules/trial", body.to_string().as_bytes()).json();
    assert_eq!(tried["lines"][0]["after"], json!(null), "{tried}");
    assert_eq!(tried["lines"][1]["after"]["line"], "[card]", "{tried}");
    assert_eq!(tried["lines"][1]["rules"], json!(["cards"]), "{tried}");
    let wrong = json!({ "rules": "[[rules]]\nname='a'" }).to_string();
    let refused = server.post("/api/v1/ingest/rules/trial", wrong.as_bytes());
    assert_eq!((refused.status, refused.text().contains("does nothing")), (400, true));

    // Nothing was changed by trying.
    assert_eq!(server.count("team:*"), 0);
    let reload = || server.post("/api/v1/config/reload", b"");
    let before = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{before}\n[[rules]]\nname='wrong'\nfilter='('\ndrop=true\n"))
        .unwrap();
    assert_ne!(reload().status, 200);
    fs::write(&config, format!("{before}\n{RULES}")).unwrap();
    let reloaded = reload();
    assert!(
        reloaded.text().contains("rules: cards, no debug of the cart, team"),
        "{}",
        reloaded.text()
    );
    assert_eq!(server.post("/insert/lines", b"<14>1 - web1 cart - - - order 8: x\n").status, 200);
    assert_eq!(server.count("team:=shop order:=8"), 1);
}
