//! Users, tokens, roles and HTTPS of the real binary, as `docs/access.md` describes them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{
    Answer, LOGINSON, PATIENCE, Server, loginson, read_head, read_until_closed, request_to,
};

const PAGE: &str = include_str!("../../../../docs/access.md");
const ROLES: [&str; 6] = ["ingest", "read", "auditor", "node", "operate", "admin"];
const PASSWORD: &str = "correct horse battery";

/// The output of a command that succeeds.
fn printed(command: &mut Command, input: &str) -> String {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the binary starts");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A token and its hash.
pub fn make_token() -> (String, String) {
    let text = printed(&mut loginson(&["make-token"]), "");
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().to_owned()
    };
    (value("token:"), value("sha256:"))
}

fn hash_password(password: &str) -> String {
    let hash = printed(&mut loginson(&["hash-password"]), &format!("{password}\n"));
    assert!(hash.starts_with("$argon2id$"), "{hash}");
    hash.trim().to_owned()
}

/// Configuration with a token of each role, and the tokens.
fn tokens() -> (String, Vec<String>) {
    let (mut config, mut tokens) = (String::new(), Vec::new());
    for role in ROLES {
        let (token, sha256) = make_token();
        config +=
            &format!("[[tokens]]\nname = \"{role}\"\nsha256 = \"{sha256}\"\nrole = \"{role}\"\n");
        tokens.push(format!("Bearer {token}"));
    }
    (config, tokens)
}

/// Configuration of a user.
fn user(name: &str, role: &str) -> String {
    let hash = hash_password(PASSWORD);
    format!("[[users]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\nrole = \"{role}\"\n")
}

/// What stands in a path for a name or a number.
const NAMED: &str = "999999999";

/// Method, path and scope of every call in the documentation.
fn documented() -> Vec<(String, String, String)> {
    let rows = PAGE.split("| call | scope |").nth(1).expect("the table of routes");
    let rows = rows.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |"));
    let mut calls = Vec::new();
    for row in rows {
        let (call, scope) = row.split_once("` | ").unwrap();
        let (methods, path) = call.rsplit_once(' ').unwrap();
        // No query has this number: one that exists belongs to whoever asked.
        let named = path.split('/').map(|part| if part.starts_with('{') { NAMED } else { part });
        let path = named.collect::<Vec<_>>().join("/");
        for method in methods.split(", ") {
            calls.push((method.to_owned(), path.clone(), scope.to_owned()));
        }
    }
    calls
}

/// Whether a role covers a scope, according to the table of roles.
fn may(role: &str, scope: &str) -> bool {
    match scope {
        "open" => true,
        "ingest" => matches!(role, "ingest" | "admin"),
        "read" | "read-all" => matches!(role, "read" | "auditor" | "node" | "operate" | "admin"),
        "node" => matches!(role, "node" | "operate" | "admin"),
        "operate" => matches!(role, "operate" | "admin"),
        "admin" => role == "admin",
        other => panic!("{other} is no scope"),
    }
}

/// The status of a call, whose answer may have no body.
fn status(http: &str, method: &str, path: &str, headers: &[(&str, &str)]) -> u16 {
    let mut stream = crate::common::connect_to(http).unwrap();
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {http}\r\nConnection: close\r\n");
    head.push_str("Content-Length: 0\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    read_head(&mut std::io::BufReader::new(stream)).unwrap().0
}

#[test]
fn every_role_on_every_route() {
    let (config, tokens) = tokens();
    let server = Server::start_with(&[], &config);
    let calls = documented();
    assert!(calls.len() > 100, "{}", calls.len());
    for (method, path, scope) in &calls {
        let call = |headers: &[(&str, &str)]| status(&server.http, method, path, headers);
        let nobody = call(&[]);
        assert_eq!(nobody == 401, scope != "open", "{method} {path}: {nobody}");
        let unknown = call(&[("Authorization", "Bearer lgs_unknown")]);
        assert_eq!(unknown == 401, scope != "open", "{method} {path}: {unknown}");
        for (role, token) in ROLES.into_iter().zip(&tokens) {
            let status = call(&[("Authorization", token)]);
            assert_ne!(status, 401, "{method} {path} as {role}");
            assert_eq!(status != 403, may(role, scope), "{method} {path} as {role}: {status}");
        }
    }
    // Paths without a documented call.
    for path in ["/", "/index.html"] {
        assert_eq!(status(&server.http, "GET", path, &[]), 200, "{path}");
    }
}

#[test]
fn settings_are_read_again_all_or_nothing() {
    let (config, tokens) = tokens();
    let server = Server::start_with(&[], &format!("{config}{}", user("ann", "read")));
    let file = server.data_dir().join("loginson.toml");
    let origin = format!("http://{}", server.http);
    let cookie = cookie(&login(&server, "ann", PASSWORD, &origin));
    let of_ann = || server.request("GET", "/api/v1/status", &[("Cookie", &cookie)], b"").status;
    assert_eq!(of_ann(), 200);
    let reload = || {
        let admin = tokens.last().unwrap();
        let headers = [("Authorization", admin.as_str())];
        let answer = server.request("POST", "/api/v1/config/reload", &headers, b"");
        (answer.status, answer.json())
    };
    assert_eq!(reload(), (200, serde_json::json!({ "changed": [], "needs_restart": [] })));
    let written = std::fs::read_to_string(&file).unwrap();
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    let more = "[query]\nrun_max = '7s'\n[retention]\nage = '60d'\n[syslog]\nzone = '+01:00'\n";
    let (token, sha256) = make_token();
    let new = format!("[[tokens]]\nname = 'new'\nsha256 = '{sha256}'\nrole = 'read'\n");
    let bearer = format!("Bearer {token}");
    let of_new = || status(&server.http, "GET", "/api/v1/status", &[("Authorization", &bearer)]);

    // With one mistake nothing changes.
    write(&format!("{written}{new}{}", more.replace("60d", "soon")));
    let (code, answer) = reload();
    let error = answer["error"].as_str().unwrap();
    assert!(code == 400 && error.contains("loginson.toml: line "), "{code} {error}");
    assert!(error.contains("retention.age: 'soon'"), "{error}");
    assert_eq!((of_new(), of_ann()), (401, 200));

    write(&format!("{written}{new}{more}"));
    let expected = serde_json::json!({
        "changed": ["token new: new, role read", "query.run_max: 1m → 7s", "retention.age: off → 60d"],
        "needs_restart": ["syslog.zone"],
    });
    assert_eq!(reload(), (200, expected));
    assert_eq!((of_new(), of_ann()), (200, 200));
    server.wait_for_log("token new: new, role read");
    let seen = |path: &str| {
        let headers = [("Authorization", bearer.as_str())];
        server.request("GET", path, &headers, b"").json()
    };
    assert_eq!(seen("/api/v1/status")["store"]["retention"]["age_s"], 60 * 86_400);
    assert_eq!(seen("/api/v1/queries")["limits"]["run_s"], 7);

    // The same at SIGHUP; the session of a user who is removed ends.
    let without_ann = written.split("[[users]]").next().unwrap();
    write(&format!("{without_ann}{new}{more}"));
    let pid = rustix::process::Pid::from_raw(server.pid().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    server.wait_for_log("user ann: removed");
    assert_eq!((of_new(), of_ann()), (200, 401));
    // Nobody opens the server to everybody with a file that is empty for a moment.
    write("");
    let (code, answer) = reload();
    assert!(
        code == 400 && answer["error"].as_str().unwrap().contains("restart Loginson"),
        "{answer}"
    );
    assert_eq!(of_new(), 200);
}

#[test]
fn a_collector_authenticates_callers_too() {
    let (mut config, tokens) = tokens();
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    config.insert_str(0, &format!("[collect]\nspool_dir = \"{}\"\n", at("spool")));
    std::fs::write(at("collect.toml"), config).unwrap();
    let mut command = loginson(&["collect", "--store", "127.0.0.1:1", "--http-listen"]);
    command.args(["127.0.0.1:0", "--syslog-udp-listen", "off", "--syslog-tcp-listen", "off"]);
    command.args(["--config", &at("collect.toml"), "--ready-file", &at("ready")]);
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    while !Path::new(&at("ready")).exists() {
        assert!(started.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
    let ready: serde_json::Value =
        serde_json::from_slice(&std::fs::read(at("ready")).unwrap()).unwrap();
    let http = ready["http"].as_str().unwrap();
    for (method, path, scope) in [
        ("GET", "/health", "open"),
        ("GET", "/ready", "open"),
        ("GET", "/metrics", "read"),
        ("GET", "/api/v1/nodes", "read"),
        ("GET", "/api/v1/files", "read"),
        ("POST", "/insert/lines", "ingest"),
        ("POST", "/insert/jsonline", "ingest"),
        ("POST", "/insert/elasticsearch/_bulk", "ingest"),
        ("POST", "/_bulk", "ingest"),
    ] {
        assert_eq!(status(http, method, path, &[]) == 401, scope != "open", "{method} {path}");
        for (role, token) in ROLES.into_iter().zip(&tokens) {
            let status = status(http, method, path, &[("Authorization", token)]);
            let refused = status == 401 || status == 403;
            assert_eq!(!refused, may(role, scope), "{method} {path} as {role}: {status}");
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A login, as the page performs it.
fn login(server: &Server, name: &str, password: &str, origin: &str) -> Answer {
    let form = format!("name={name}&password={}", crate::common::encoded(password));
    let headers = [("Content-Type", "application/x-www-form-urlencoded"), ("Origin", origin)];
    server.request("POST", "/api/v1/login", &headers, form.as_bytes())
}

/// The cookie as a browser sends it back.
fn cookie(answer: &Answer) -> String {
    answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
}

#[test]
fn a_login_at_the_page() {
    let server = Server::start_with(&[], &user("ann", "operate"));
    let origin = format!("http://{}", server.http);
    let me = |headers: &[(&str, &str)]| {
        let answer = server.request("GET", "/api/v1/me", headers, b"");
        assert_eq!(answer.status, 200);
        answer.text().trim().to_owned()
    };
    let shown = |name: &str, role: &str| {
        format!(
            r#"{{"exposed":false,"login":"on","name":{name},"passwords":true,"providers":[],"restricted":false,"role":{role}}}"#
        )
    };
    let nobody = shown("null", "null");
    assert_eq!(me(&[]), nobody);
    for (name, password) in [("ann", "wrong"), ("bob", PASSWORD), ("", ""), ("ann", "")] {
        assert_eq!(login(&server, name, password, &origin).status, 401, "{name}");
    }
    // Requests of other sites are refused earlier.
    assert_eq!(login(&server, "ann", PASSWORD, "http://evil.example").status, 403);
    let answer = login(&server, "ann", PASSWORD, &origin);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let set = answer.header("set-cookie").unwrap();
    assert!(set.contains("; HttpOnly; SameSite=Strict") && !set.contains("Secure"), "{set}");
    let cookie = cookie(&answer);
    let own = ("Cookie", cookie.as_str());
    assert_eq!(me(&[own]), shown("\"ann\"", "\"operate\""));
    let call = |method, path, headers: &[(&str, &str)]| status(&server.http, method, path, headers);
    assert_eq!(call("GET", "/api/v1/status", &[own]), 200);
    // A cookie alone changes nothing: the origin of the page is required too.
    assert_eq!(call("POST", "/api/v1/seal", &[own]), 403);
    assert_eq!(call("POST", "/api/v1/seal", &[own, ("Origin", "http://evil.example")]), 403);
    assert_eq!(call("POST", "/api/v1/seal", &[own, ("Origin", &origin)]), 202);
    assert_eq!(call("DELETE", "/api/v1/deletions/1", &[own, ("Origin", &origin)]), 403);
    // WebSockets pass the same gate.
    let upgrade = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let tail = "/loki/api/v1/tail?query=%7B%7D";
    let websocket = |more: &[(&str, &str)]| {
        let mut stream = crate::common::connect_to(&server.http).unwrap();
        let mut head = format!("GET {tail} HTTP/1.1\r\nHost: {}\r\n", server.http);
        for (name, value) in upgrade.iter().chain(more) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        read_head(&mut std::io::BufReader::new(stream)).unwrap().0
    };
    assert_eq!(websocket(&[]), 401);
    assert_eq!(websocket(&[own]), 101);
    assert_eq!(websocket(&[own, ("Origin", "http://evil.example")]), 403);
    // Logout.
    let out = server.request("POST", "/api/v1/logout", &[own, ("Origin", &origin)], b"");
    assert_eq!(out.status, 200);
    assert_eq!(call("GET", "/api/v1/status", &[own]), 401);
    assert_eq!(me(&[own]), nobody);
    for entry in [
        "(ann): logged in",
        "(ann): logged out",
        "'ann' is refused: the password is wrong",
        "somebody is refused: there is no user of that name",
        "(ann): active segment closed",
    ] {
        server.wait_for_log(entry);
    }
    let log = server.log();
    let id = cookie.split('=').nth(1).unwrap();
    assert!(!log.contains(PASSWORD) && !log.contains("bob") && !log.contains(id), "{log}");
}

#[test]
fn logins_end_by_themselves() {
    let config = format!("[access]\nsession_max = \"2s\"\n{}", user("ann", "read"));
    let server = Server::start_with(&[], &config);
    let asked = Instant::now();
    let answer = login(&server, "ann", PASSWORD, &format!("http://{}", server.http));
    assert!(answer.header("set-cookie").unwrap().contains("; Max-Age=2;"));
    let cookie = cookie(&answer);
    let called = || status(&server.http, "GET", "/api/v1/status", &[("Cookie", &cookie)]);
    // On a machine that stood still for two seconds, the session is over already.
    let first = called();
    assert!(first == 200 || asked.elapsed() >= Duration::from_secs(2), "{first}");
    server.wait_for("the end of the session", |_| called() == 401);
    // The session began after the question for it, however long its answer took.
    assert!(asked.elapsed() >= Duration::from_secs(2), "{:?}", asked.elapsed());
}

#[test]
fn strangers_try_passwords_in_vain() {
    let (server, limited) = loop {
        let server = Server::start_with(&[], &user("ann", "read"));
        let origin = format!("http://{}", server.http);
        let asked = Instant::now();
        let guess = |n| login(&server, "ann", &format!("guess{n}"), &origin).status;
        let statuses: Vec<u16> = (0..15).map(guess).collect();
        let limited = login(&server, "ann", PASSWORD, &origin);
        // Guesses count for a minute, in which a slow machine may not answer as many.
        if asked.elapsed() < Duration::from_secs(60) {
            assert_eq!(statuses, [vec![401; 10], vec![429; 5]].concat());
            break (server, limited);
        }
    };
    assert_eq!(limited.status, 429, "nobody was in before");
    assert!(limited.header("retry-after").unwrap().parse::<u32>().unwrap() <= 61);
    assert!(!server.log().contains("guess"));
    // Many at once: passwords that are not computed at once wait, or are refused with a request to
    // retry.
    let threads: Vec<_> = (0..60)
        .map(|n| {
            let http = server.http.clone();
            std::thread::spawn(move || {
                let form = format!("name=user{n}&password=guess");
                let headers = [("Content-Type", "application/x-www-form-urlencoded")];
                request_to(&http, "POST", "/api/v1/login", &headers, form.as_bytes())
                    .unwrap()
                    .status
            })
        })
        .collect();
    let statuses: Vec<u16> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(statuses.iter().all(|status| matches!(status, 401 | 503)), "{statuses:?}");
    assert!(statuses.contains(&401), "{statuses:?}");
    assert_eq!(server.get("/health").status, 200);
}

// ---- HTTPS ----

/// A directory with a certificate, made by the command of the documentation.
struct Certificate {
    directory: tempfile::TempDir,
}

impl Certificate {
    fn new() -> Certificate {
        let certificate = Certificate { directory: tempfile::tempdir().unwrap() };
        certificate.make();
        certificate
    }

    /// Makes it, in place of the earlier one.
    fn make(&self) {
        let script =
            PAGE.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        assert!(script.starts_with("openssl req"));
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(self.directory.path()).stderr(Stdio::null());
        assert!(command.status().unwrap().success());
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn config(&self) -> String {
        format!(
            "[http_tls]\ncertificate = \"{}\"\nkey = \"{}\"\n",
            self.path("certificate.pem").display(),
            self.path("key.pem").display()
        )
    }

    /// curl of a path, which trusts this certificate.
    fn curl(&self, server: &Server, path: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new("curl");
        command.args(["-s", "-S", "-i", "--raw", "--max-time", "60", "--cacert"]);
        command.arg(self.path("certificate.pem")).args(arguments);
        command.arg(format!("https://{}{path}", server.http)).output().unwrap()
    }

    fn get(&self, server: &Server, path: &str, arguments: &[&str]) -> Answer {
        let output = self.curl(server, path, arguments);
        assert!(output.status.success(), "{output:?}");
        Answer::read(&*output.stdout).unwrap()
    }

    /// A client command with these arguments.
    fn command(&self, server: &Server, arguments: &[&str]) -> Command {
        let mut command = loginson(arguments);
        command.arg("--server").arg(format!("https://{}", server.http));
        command.arg("--ca").arg(self.path("certificate.pem"));
        command
    }
}

/// The error of a failing command.
fn error_of(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn the_five_minutes_of_the_documentation() {
    let certificate = Certificate::new();
    let block = PAGE
        .split("```toml loginson.toml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .unwrap();
    let (token, sha256) = make_token();
    let value = |key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(&format!("{key} = ")));
        line.unwrap().trim_matches('"').to_owned()
    };
    let config = [
        ("0.0.0.0:9514".to_owned(), "127.0.0.1:0".to_owned()),
        ("\"certificate.pem\"".to_owned(), format!("{:?}", certificate.path("certificate.pem"))),
        ("\"key.pem\"".to_owned(), format!("{:?}", certificate.path("key.pem"))),
        (value("password_hash"), hash_password(PASSWORD)),
        (value("sha256"), sha256),
    ]
    .iter()
    .fold(block.to_owned(), |text, (from, to)| text.replace(from, to));
    let server = Server::start_with(&[], &config);

    // The page for everybody; ingest with the token; queries with the password.
    assert_eq!(certificate.get(&server, "/", &[]).status, 200);
    let query = ["-d", "query=line | stats count() n"];
    let refused = certificate.get(&server, "/select/logsql/query", &query);
    assert_eq!(refused.status, 401);
    assert!(refused.header("www-authenticate").unwrap().starts_with("Basic realm="));
    let bearer = format!("Authorization: Bearer {token}");
    let lines = ["-H", &bearer, "--data-binary", "a line\nanother line\n"];
    assert_eq!(certificate.get(&server, "/insert/lines?type=app", &lines).status, 200);
    let large = certificate.path("large");
    std::fs::write(&large, "a line of a large body\n".repeat(100_000)).unwrap();
    let body = format!("@{}", large.display());
    for expect in ["Expect:", "Expect: 100-continue"] {
        let large = ["--data-binary", &body, "-H", expect];
        let refused = certificate.get(&server, "/insert/lines", &large);
        assert_eq!(refused.status, 401, "refused with a status, though its body is not kept");
    }
    let forbidden =
        certificate.get(&server, "/select/logsql/query", &[&query[..], &["-H", &bearer]].concat());
    assert_eq!(forbidden.status, 403);
    assert!(forbidden.text().contains(
        "'shipper' has the role ingest, and this call needs read or auditor or node or operate or admin"
    ));
    let as_ann = format!("ann:{PASSWORD}");
    let answer =
        certificate.get(&server, "/select/logsql/query", &[&query[..], &["-u", &as_ann]].concat());
    assert_eq!((answer.status, answer.rows()[0]["n"].as_str()), (200, Some("2")));
    // Browsers would show a dialog of their own.
    let browser = certificate.get(&server, "/api/v1/status", &["-A", "Mozilla/5.0 (X11)"]);
    assert!(!browser.header("www-authenticate").unwrap().contains("Basic"));

    // The CLI.
    let token_file = certificate.path("shipper.token");
    std::fs::write(&token_file, format!("{token}\n")).unwrap();
    let file = token_file.to_str().unwrap();
    let file_of_lines = certificate.path("import.log");
    std::fs::write(&file_of_lines, "an imported line\n").unwrap();
    let import = ["import", "--token-file", file, file_of_lines.to_str().unwrap()];
    printed(&mut certificate.command(&server, &import), "");
    let count = ["query", "--format", "json", "line | stats count() n", "--user", "ann"];
    let counted =
        printed(certificate.command(&server, &count).env("LOGINSON_PASSWORD", PASSWORD), "");
    assert_eq!(counted, "{\"n\":\"3\"}\n");
    let counted = printed(&mut certificate.command(&server, &count), &format!("{PASSWORD}\n"));
    assert_eq!(counted, "{\"n\":\"3\"}\n");
    let nobody = error_of(&mut certificate.command(&server, &count[..4]));
    assert!(nobody.contains("log in first"), "{nobody}");
    let wrong = error_of(certificate.command(&server, &count).env("LOGINSON_PASSWORD", "wrong"));
    assert!(wrong.contains("the name or the password is wrong"), "{wrong}");
    let shipper = error_of(certificate.command(&server, &count[..4]).env("LOGINSON_TOKEN", &token));
    assert!(shipper.contains("has the role ingest"), "{shipper}");
    // The certificate is not trusted by default, and the port does not speak HTTP.
    let server_of = |scheme: &str| format!("{scheme}://{}", server.http);
    let unknown = error_of(&mut loginson(&["query", "*", "--server", &server_of("https")]));
    assert!(unknown.contains("--ca"), "{unknown}");
    let plain = error_of(&mut loginson(&["query", "*", "--server", &server_of("http")]));
    assert!(plain.contains("write https:// in the address"), "{plain}");
    let in_address = ["query", "*", "--server", "https://ann:secret@localhost"];
    assert!(error_of(&mut loginson(&in_address)).contains("leave name and password out"));
    let http = request_to(&server.http, "GET", "/", &[], b"").unwrap();
    assert_eq!((http.status, http.text().contains("https://")), (400, true));

    // After a login over HTTPS the cookie is for HTTPS only.
    let form = format!("name=ann&password={}", crate::common::encoded(PASSWORD));
    let answer = certificate.get(&server, "/api/v1/login", &["-d", &form]);
    assert!(answer.header("set-cookie").unwrap().ends_with("; Secure"));
    let log = server.log();
    assert!(!log.contains(PASSWORD) && !log.contains(&token) && !log.contains("$argon2"), "{log}");
}

#[test]
fn changed_certificates_are_reloaded() {
    let certificate = Certificate::new();
    let server = Server::start_with(&[], &certificate.config());
    let believed =
        |certificate: &Certificate| certificate.curl(&server, "/health", &[]).status.success();
    let status = || certificate.get(&server, "/api/v1/status", &[]).json()["https"].clone();
    assert!(believed(&certificate));
    assert!(status()["error"].is_null() && status()["reloads"] == 0);
    // A new certificate is noticed; the old one is not used any more.
    let old = std::fs::read(certificate.path("certificate.pem")).unwrap();
    certificate.make();
    server.wait_for("the new certificate", |_| believed(&certificate));
    assert_eq!(status()["reloads"], 1);
    let new = std::fs::read(certificate.path("certificate.pem")).unwrap();
    std::fs::write(certificate.path("certificate.pem"), &old).unwrap();
    assert!(!believed(&certificate));
    // The key does not match, so the certificate in use stays; after SIGHUP the log says so at
    // once.
    let pid = rustix::process::Pid::from_raw(server.pid() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    server.wait_for_log("does not belong to the first certificate");
    std::fs::write(certificate.path("certificate.pem"), &new).unwrap();
    assert!(believed(&certificate));
    let metrics = certificate.get(&server, "/metrics", &[]).text();
    assert!(metrics.contains("loginson_https_reload_failures_total 1\n"), "{metrics}");
    let documented = include_str!("../../../../docs/metrics.md");
    for name in metrics.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split(' ').next()) {
        assert!(documented.contains(&format!("`{name}`")), "{name} is not in docs/metrics.md");
    }
}

#[test]
fn an_unusable_certificate_is_reported_at_the_start() {
    let certificate = Certificate::new();
    std::fs::write(certificate.path("key.pem"), "no key").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("loginson.toml");
    std::fs::write(&config, certificate.config()).unwrap();
    let mut command = crate::common::serve_command(directory.path());
    let error = error_of(command.arg("--config").arg(&config).stderr(Stdio::piped()));
    assert!(error.contains("[http_tls]") && error.contains("there is no private key"), "{error}");
}

#[test]
fn handshakes_that_never_end_hinder_nobody() {
    let certificate = Certificate::new();
    let server = Server::start_with(&[], &certificate.config());
    // More than the share of one address; further connections replace those that have waited
    // longest.
    let silent: Vec<TcpStream> =
        (0..900).map(|_| TcpStream::connect(&server.http).unwrap()).collect();
    assert_eq!(certificate.get(&server, "/health", &[]).status, 200);
    let began = Instant::now();
    let mut slow = crate::common::connect_to(&server.http).unwrap();
    // The start of a TLS handshake record, and nothing more.
    slow.write_all(&[22, 3, 1, 0, 200, 1]).unwrap();
    // An alert, or a reset, or a plain end.
    read_until_closed(&mut slow);
    let waited = began.elapsed();
    assert!(waited > Duration::from_secs(5), "{waited:?}");
    assert_eq!(certificate.get(&server, "/health", &[]).status, 200);
    let metrics = certificate.get(&server, "/metrics", &[]).text();
    let failed = metrics
        .lines()
        .find_map(|line| line.strip_prefix("loginson_https_handshakes_failed_total "));
    assert!(failed.unwrap().parse::<u64>().unwrap() >= 1, "{metrics}");
    drop(silent);
}

// ---- the commands that make secrets ----

#[test]
fn a_password_is_not_shown_while_it_is_typed() {
    let mut child = Command::new("script")
        .args(["-q", "-e", "-c", &format!("{LOGINSON} hash-password"), "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script of util-linux");
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut shown = String::new();
    let mut wait_for = |what: &str, shown: &mut String| {
        let mut byte = [0];
        while !shown.ends_with(what) {
            assert_eq!(output.read(&mut byte).unwrap(), 1, "{shown}");
            shown.push(byte[0] as char);
        }
    };
    wait_for("Password: ", &mut shown);
    input.write_all(format!("{PASSWORD}\r").as_bytes()).unwrap();
    wait_for("Once more: ", &mut shown);
    input.write_all(format!("{PASSWORD}\r").as_bytes()).unwrap();
    wait_for("$argon2id$", &mut shown);
    drop(input);
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(!shown.contains("correct") && !rest.contains("correct"), "{shown}{rest}");
}

#[test]
fn weak_and_wrong_input_is_refused() {
    let refused = |input: &[u8]| {
        let mut child = loginson(&["hash-password"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(b"").contains("at least 8 characters"));
    assert!(refused(b"1234567\n").contains("at least 8 characters"));
    assert!(refused(&[b'x'; 1025]).contains("at most 1024 bytes"));
    assert!(refused(b"\xff\xfe\xff\xfe\xff\xfe\xff\xfe\n").contains("not UTF-8"));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    let path = file.to_str().unwrap();
    let hash = printed(&mut loginson(&["make-token", "--file", path]), "");
    assert!(hash.starts_with("sha256: ") && !hash.contains("lgs_"), "{hash}");
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("lgs_"));
    assert!(error_of(&mut loginson(&["make-token", "--file", path])).contains("cannot write"));
}

#[test]
fn a_listener_without_users_says_so() {
    let open = Server::start_at("0.0.0.0:0", "");
    open.wait_for_log("everybody who reaches 0.0.0.0:");
    open.wait_for_log("docs/access.md");
    assert!(open.get("/api/v1/me").json()["exposed"] == true);
    let loopback = Server::start();
    assert!(!loopback.log().contains("everybody who reaches"));
    assert!(loopback.get("/api/v1/me").json()["exposed"] == false);
    let (config, _) = tokens();
    let clear = Server::start_at("0.0.0.0:0", &config);
    clear.wait_for_log("are not encrypted");
    assert!(clear.get("/api/v1/me").json()["exposed"] == false);
}
