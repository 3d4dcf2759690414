//! Users and tokens of a running server, by its commands; the first administrator; the audit log of
//! the real binary.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Output, Stdio};

use crate::common::{Server, loginson};

const PASSWORD: &str = "correct horse battery";

/// Runs a command against a server as somebody.
fn run(server: &Server, who: &[(&str, &str)], arguments: &[&str], input: &str) -> Output {
    let mut command = loginson(arguments);
    command.env("LOGINSON_SERVER", format!("http://{}", server.http));
    command.envs(who.iter().copied());
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("the binary starts");
    // A command that needs no input may have ended.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// What a command prints that succeeds.
fn printed(server: &Server, who: &[(&str, &str)], arguments: &[&str], input: &str) -> String {
    let output = run(server, who, arguments, input);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn status_with(server: &Server, token: &str) -> u16 {
    let bearer = format!("Bearer {token}");
    server.request("GET", "/api/v1/status", &[("Authorization", &bearer)], b"").status
}

#[test]
fn users_and_tokens_come_and_go_while_the_server_runs() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start_in(directory.path(), &[], "");
    let input = format!("{PASSWORD}\n");
    printed(&server, &[], &["user", "add", "ann", "--role", "admin"], &input);
    assert_eq!(server.get("/api/v1/status").status, 401);
    let ann = [("LOGINSON_USER", "ann"), ("LOGINSON_PASSWORD", PASSWORD)];
    let mode = directory.path().join("access.json").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let first = printed(&server, &ann, &["token", "add", "t", "--role", "read"], "");
    assert_eq!(status_with(&server, &first), 200);
    let second = printed(&server, &ann, &["token", "rotate", "t", "--overlap", "1h"], "");
    assert_eq!((status_with(&server, &first), status_with(&server, &second)), (200, 200));
    let listed = printed(&server, &ann, &["token", "list"], "");
    assert!(listed.contains("used 20") && listed.contains("is valid until"), "{listed}");
    let output = run(&server, &ann, &["user", "remove", "ann"], "");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && error.contains("nobody could administer"), "{error}");

    // After a crash all is as it was.
    server.kill();
    let server = Server::start_in(directory.path(), &[], "");
    assert_eq!((status_with(&server, &first), status_with(&server, &second)), (200, 200));
    let listed = printed(&server, &ann, &["user", "list"], "");
    assert!(listed.starts_with("ann") && listed.contains("admin"), "{listed}");
    printed(&server, &ann, &["token", "revoke", "t"], "");
    assert_eq!((status_with(&server, &first), status_with(&server, &second)), (401, 401));
}

#[test]
fn the_log_of_the_first_start_has_a_link_for_the_first_administrator() {
    let server = Server::start_at("0.0.0.0:0", "");
    server.wait_for_log("/#first-admin=");
    let log = server.log();
    let secret = log.split("/#first-admin=").nth(1).unwrap().lines().next().unwrap().to_owned();
    let form = |secret: &str| format!("secret={secret}&name=ann&password={PASSWORD}");
    let post = |form: String| server.post("/api/v1/first-admin", form.as_bytes()).status;
    assert_eq!(post(form("lgs_wrong")), 403);
    assert_eq!(post(form(&secret)), 200);
    assert_eq!(post(form(&secret)), 403);
    assert_eq!(server.get("/api/v1/status").status, 401);
}

#[test]
fn an_auditor_sees_who_read_what() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start_in(directory.path(), &[], "[audit]\nenabled = true\n");
    let input = format!("{PASSWORD}\n");
    printed(&server, &[], &["user", "add", "ann", "--role", "admin"], &input);
    let ann = [("LOGINSON_USER", "ann"), ("LOGINSON_PASSWORD", PASSWORD)];
    let token = printed(&server, &ann, &["token", "add", "eve", "--role", "auditor"], "");
    let eve = [("LOGINSON_TOKEN", token.as_str())];
    printed(&server, &ann, &["query", "giraffe"], "");
    let query = ["query", "_type:=audit giraffe user:=ann", "--format", "json"];
    server.wait_for("the entry", |server| printed(server, &eve, &query, "").contains("giraffe"));
    assert_eq!(printed(&server, &ann, &query, ""), "");
}
