//! Macros of queries and uploaded tables over the API: all that asks can call them, they are there
//! after a start, and they change nothing that they must not.

use std::fs;

use serde_json::json;

use crate::common::{Answer, Server, encoded};

const LINES: &[u8] = b"<14>1 - web1 shop - - - took=7s error one\n\
    <14>1 - web1 shop - - - took=1s fine two\n\
    <14>1 - web2 cart - - - took=9s error three\n";
const CONFIG: &str = "
[[macros]]
name = 'of'
parameters = ['app']
text = 'app_name:=$app'
[[rules]]
name = 'team'
filter = '@of(shop)'
set = { team = 'sales' }
";

fn put(server: &Server, path: &str, body: &str) -> Answer {
    server.request("PUT", path, &[], body.as_bytes())
}

fn delete(server: &Server, path: &str) -> Answer {
    server.request("DELETE", path, &[], b"")
}

#[test]
fn macros_are_called_saved_and_changed_while_the_server_runs() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("loginson.toml");
    let mut server = Server::start_in(directory.path(), &[], CONFIG);
    assert_eq!(server.post("/insert/lines", LINES).status, 200);
    assert_eq!(server.count("@of(shop)"), 2);
    assert_eq!(server.count("team:=sales"), 2);

    let body = json!({ "parameters": ["word"], "text": "$word @of(shop)" }).to_string();
    let saved = put(&server, "/api/v1/macros/shop_with", &body);
    assert_eq!(saved.status, 200, "{}", saved.text());
    assert_eq!(server.count("@shop_with(error)"), 1);
    assert_eq!(server.count("@shop_with(error or fine)"), 2);
    let pipes = json!({ "parameters": ["by"], "text": "| stats by ($by) count() n | sort by (n)" });
    assert_eq!(put(&server, "/api/v1/macros/counted", &pipes.to_string()).status, 200);
    let rows = server.query("error | @counted(app_name)", "");
    assert_eq!(rows.len(), 2, "{rows:?}");
    let explain = format!("/select/logsql/explain?query={}", encoded("@shop_with(error)"));
    let explained = server.get(&explain).text();
    assert!(explained.contains("shop") && !explained.contains("@shop_with"), "{explained}");
    let listed = server.get("/api/v1/macros").json();
    let found = |place: usize, key: &str| listed["macros"][place][key].clone();
    assert_eq!([found(0, "name"), found(0, "form")], ["counted", "pipes"]);
    assert_eq!([found(1, "name"), found(1, "source")], ["of", "configuration"]);
    assert_eq!([found(2, "name"), found(2, "source")], ["shop_with", "saved"]);

    // What is wrong is refused, and named.
    let wrong = server.get(&format!("/select/logsql/query?query={}", encoded("x @shop_wit(a)")));
    assert_eq!((wrong.status, wrong.json()["position"].as_u64()), (400, Some(2)));
    assert!(wrong.text().contains("did you mean @shop_with"), "{}", wrong.text());
    assert_eq!(put(&server, "/api/v1/macros/wrong", r#"{"text":"(a"}"#).status, 400);
    assert_eq!(put(&server, "/api/v1/macros/of", r#"{"text":"a"}"#).status, 409);
    assert_eq!(delete(&server, "/api/v1/macros/of").status, 409);
    assert_eq!(delete(&server, "/api/v1/macros/nothing").status, 404);
    // Neither what somebody may see nor what is deleted depends on a macro.
    let restricted =
        format!("/select/logsql/query?query=error&extra_filters={}", encoded("@shop_with(error)"));
    assert_eq!(server.get(&restricted).status, 400);
    let deletion = format!("/api/v1/deletions?filter={}", encoded("@of(shop)"));
    assert_eq!(server.post(&deletion, b"").status, 400);

    // The macros of the configuration change as a whole, or not at all.
    let reload = || server.post("/api/v1/config/reload", b"");
    let written = fs::read_to_string(&config).unwrap();
    fs::write(&config, written.replace("app_name:=$app", "app_name:=$wrong")).unwrap();
    assert_ne!(reload().status, 200);
    fs::write(&config, written.replace("app_name:=$app", "hostname:=$app").replace("'@of", "'("))
        .unwrap();
    assert_ne!(reload().status, 200);
    assert_eq!(server.count("@of(shop)"), 2);
    fs::write(&config, written.replace("app_name:=$app", "hostname:=$app")).unwrap();
    let reloaded = reload();
    assert!(reloaded.text().contains("macros: @of"), "{}", reloaded.text());
    assert_eq!(server.count("@of(web1)"), 2);

    server.kill();
    let server = Server::start_in(directory.path(), &[], CONFIG);
    assert_eq!(server.count("@shop_with(error)"), 1);
    assert_eq!(delete(&server, "/api/v1/macros/shop_with").status, 200);
    let gone = format!("/select/logsql/query?query={}", encoded("@shop_with(error)"));
    assert_eq!(server.get(&gone).status, 400);
}

#[test]
fn fields_have_other_names_and_are_computed_where_they_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("loginson.toml");
    let server = Server::start_in(
        directory.path(),
        &[],
        "[[fields]]\ntype = 'json'\nname = 'client'\nis = 'ip'\n\
         [[fields]]\ntype = 'json'\nname = 'total'\nmath = 'a + b'\n",
    );
    let lines = b"{\"_msg\":\"one\",\"ip\":\"10.0.0.1\",\"a\":1,\"b\":2}\n\
        {\"_msg\":\"two\",\"ip\":\"10.0.0.2\",\"a\":5,\"b\":2}\n\
        {\"_msg\":\"three\",\"client\":\"10.0.0.1\",\"a\":5}\n";
    assert_eq!(server.post("/insert/jsonline", lines).status, 200);
    assert_eq!(server.count("client:=10.0.0.1"), 2);
    assert_eq!(server.count("* | filter total:>=3"), 2);
    let rows = server.query("* | stats by (client) sum(total) t | filter client:=10.0.0.1", "");
    assert_eq!(rows[0]["t"], "3", "{rows:?}");
    assert_eq!(server.post("/api/v1/seal", b"").status, 202);
    assert_eq!(server.count("client:=10.0.0.1"), 2);
    let refused = server.get(&format!("/select/logsql/query?query={}", encoded("total:>3")));
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("| filter total"), "{}", refused.text());

    let reload = || server.post("/api/v1/config/reload", b"");
    let written = fs::read_to_string(&config).unwrap();
    fs::write(&config, written.replace("'a + b'", "'a +'")).unwrap();
    assert_ne!(reload().status, 200);
    assert_eq!(server.count("* | filter total:>=3"), 2);
    fs::write(&config, written.replace("'a + b'", "'a * b'")).unwrap();
    let reloaded = reload();
    assert!(reloaded.text().contains("fields: client of json"), "{}", reloaded.text());
    assert_eq!(server.count("* | filter total:>=3"), 1);
}

#[test]
fn a_table_is_uploaded_for_queries_and_a_broken_one_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start_in(directory.path(), &[], "# no tables\n");
    assert_eq!(server.post("/insert/lines", LINES).status, 200);
    let path = "/api/v1/lookups/hosts?match=wildcard&keys=host";
    let uploaded = put(&server, path, "host,owner\nweb1,ann\nweb*,bob\n");
    assert_eq!(uploaded.status, 200, "{}", uploaded.text());
    assert_eq!(uploaded.json()["rows"], 2);
    let counted = |server: &Server, owner: &str| {
        server.count(&format!("* | lookup hosts on (hostname) as (host) | filter owner:={owner}"))
    };
    assert_eq!((counted(&server, "ann"), counted(&server, "bob")), (2, 1));
    for (path, body) in [
        (path, "host,owner\nweb1\n"),
        ("/api/v1/lookups/hosts?keys=other", "host,owner\nweb1,eve\n"),
        ("/api/v1/lookups/hosts?match=any", "host,owner\nweb1,eve\n"),
        ("/api/v1/lookups/a%2Fb", "host,owner\nweb1,eve\n"),
    ] {
        let refused = put(&server, path, body);
        assert_eq!(refused.status, 400, "{path}: {}", refused.text());
    }
    assert_eq!((counted(&server, "ann"), counted(&server, "eve")), (2, 0));
    let found = server.get("/api/v1/lookups/hosts?value=web7").json();
    assert_eq!(found, json!({ "found": true, "row": { "owner": "bob" } }));
    let found = server.get("/api/v1/lookups/hosts?value=db7").json();
    assert_eq!(found, json!({ "found": false, "row": {} }));
    assert_eq!(server.get("/api/v1/lookups/hosts?value=a&value=b").status, 400);
    assert_eq!(server.get("/api/v1/lookups/none?value=a").status, 404);

    server.kill();
    let server = Server::start_in(directory.path(), &[], "# no tables\n");
    assert_eq!(counted(&server, "ann"), 2);
    let listed = server.get("/api/v1/lookups").json();
    let table = &listed["lookups"][0];
    assert_eq!([&table["source"], &table["match"]], ["uploaded", "wildcard"]);
    assert!(table["version"].is_string() && table["error"].is_null(), "{listed}");
    assert_eq!(delete(&server, "/api/v1/lookups/hosts").status, 200);
    assert_eq!(delete(&server, "/api/v1/lookups/hosts").status, 404);
    assert_eq!(server.get("/api/v1/lookups").json(), json!({ "lookups": [] }));
}
