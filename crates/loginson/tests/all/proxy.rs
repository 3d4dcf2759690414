//! The page and the API through a real nginx: with the configuration that `docs/guide.md`
//! recommends, and with a minimal one. Also what requests of foreign web pages get, with and
//! without it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Answer, PATIENCE, Port, Server};

const NAME: &str = "logs.example";
/// The headers of a WebSocket handshake, as a browser sends them.
const UPGRADE: [&str; 8] = [
    "-H",
    "Connection: Upgrade",
    "-H",
    "Upgrade: websocket",
    "-H",
    "Sec-WebSocket-Version: 13",
    "-H",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
];

/// An nginx in front of a server; ended when dropped.
struct Nginx {
    child: Child,
    directory: tempfile::TempDir,
    https: u16,
    http: u16,
}

/// The configuration of the guide, at another port, and with a block that leaves everything to
/// nginx's defaults.
fn configuration(directory: &Path, upstream: &str, https: u16, http: u16) -> String {
    let guide = include_str!("../../../../docs/guide.md");
    let blocks = guide.split("```nginx\n").skip(1).filter_map(|rest| rest.split("```").next());
    let advised = { blocks }.find(|block| block.contains("listen 443 ssl")).unwrap();
    let here = directory.display().to_string();
    let replaced = [
        ("listen 443 ssl", format!("listen 127.0.0.1:{https} ssl")),
        ("http://127.0.0.1:9514", format!("http://{upstream}")),
        ("/etc/ssl/private/logs.example.pem", format!("{here}/key.pem")),
        ("/etc/ssl/logs.example.pem", format!("{here}/certificate.pem")),
    ];
    let advised = replaced.iter().fold(advised.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "the guide has no {from}");
        text.replace(from, to)
    });
    // The limit on logins that docs/access.md recommends.
    let access = include_str!("../../../../docs/access.md");
    let mut blocks = access.split("```nginx\n").skip(1).filter_map(|rest| rest.split("```").next());
    let limit = blocks.find(|block| block.starts_with("limit_req_zone")).unwrap();
    let limit = limit.replace("http://127.0.0.1:9514", &format!("http://{upstream}"));
    let (zone, location) = (limit.lines().next().unwrap(), limit.lines().last().unwrap());
    assert!(zone.starts_with("limit_req_zone") && location.starts_with("location"), "{limit}");
    let named = "server_name logs.example;";
    assert!(advised.contains(named));
    let advised = format!("{zone}\n{}", advised.replace(named, &format!("{named}\n{location}")));
    format!(
        "daemon off; error_log stderr; pid {here}/pid;\nevents {{}}\nhttp {{\naccess_log off;\n\
         client_body_temp_path {here}/body; proxy_temp_path {here}/proxy; fastcgi_temp_path \
         {here}/f;\n\
         uwsgi_temp_path {here}/u; scgi_temp_path {here}/s;\n{advised}\n\
         server {{ listen 127.0.0.1:{http}; location / {{ proxy_pass http://{upstream}; }} }}\n}}\n"
    )
}

impl Nginx {
    fn start(upstream: &str, https: u16, http: u16) -> Nginx {
        Nginx::start_with(https, http, |at| configuration(at, upstream, https, http))
    }

    /// With the configuration that is made for its folder.
    fn start_with(https: u16, http: u16, configuration: impl FnOnce(&Path) -> String) -> Nginx {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        let issued = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
        std::fs::write(at.join("certificate.pem"), issued.cert.pem()).unwrap();
        std::fs::write(at.join("key.pem"), issued.signing_key.serialize_pem()).unwrap();
        std::fs::write(at.join("nginx.conf"), configuration(at)).unwrap();
        let mut command = Command::new("/usr/sbin/nginx");
        command.arg("-p").arg(at).arg("-c").arg(at.join("nginx.conf"));
        let child = command.spawn().expect("nginx is missing; install it with: make test-deps");
        let nginx = Nginx { child, directory, https, http };
        let started = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", http)).is_err() {
            assert!(started.elapsed() < PATIENCE, "nginx does not listen");
            std::thread::yield_now();
        }
        nginx
    }

    /// curl of a path, over TLS through the recommended block, or else through the other one.
    fn curl(&self, tls: bool, path: &str, arguments: &[&str]) -> Command {
        let (scheme, port) = if tls { ("https", self.https) } else { ("http", self.http) };
        let mut command = Command::new("curl");
        command.args(["-s", "-i", "-N", "--raw", "--http1.1", "--max-time", "300"]);
        command.arg("--cacert").arg(self.directory.path().join("certificate.pem"));
        command.args(["--resolve", &format!("{NAME}:{port}:127.0.0.1")]);
        command.args(arguments).arg(format!("{scheme}://{NAME}:{port}{path}"));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }

    fn get(&self, tls: bool, path: &str, arguments: &[&str]) -> Answer {
        let output = self.curl(tls, path, arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        Answer::read(&*output.stdout).unwrap()
    }

    /// The origin of the page behind it.
    fn origin(&self, tls: bool) -> String {
        match tls {
            true => format!("Origin: https://{NAME}:{}", self.https),
            false => format!("Origin: http://{NAME}:{}", self.http),
        }
    }

    /// The first line of the response to a WebSocket handshake.
    fn upgrade(&self, origin: &str) -> String {
        self.upgrade_with(origin, "X-Nothing: 1")
    }

    /// The same with a further header.
    fn upgrade_with(&self, origin: &str, header: &str) -> String {
        let arguments = [&UPGRADE[..], &["-H", origin, "-H", header]].concat();
        let mut child =
            self.curl(true, "/loki/api/v1/tail?query=%7B%7D", &arguments).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Its workers end with it on a signal to quit, not when it is killed.
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

#[test]
fn the_advised_proxy_works_once_its_name_is_known() {
    let ports = [Port::take(), Port::take()];
    let [https, http] = [ports[0].number, ports[1].number];
    // The minimal configuration does not forward Host, so the port of its pages has to be
    // configured.
    let names = [NAME.to_owned(), format!("{NAME}:{http}")];
    let server = Server::start_with(&["--http-host", &names[0], "--http-host", &names[1]], "");
    let nginx = Nginx::start(&server.http, https, http);
    for tls in [true, false] {
        let page = nginx.get(tls, "/", &[]);
        assert_eq!(
            (page.status, page.header("content-type")),
            (200, Some("text/html; charset=utf-8"))
        );
        let (own, same) = (nginx.origin(tls), "Sec-Fetch-Site: same-origin");
        let form = ["-H", &own, "-H", same, "--data-urlencode", "query=*"];
        assert_eq!(nginx.get(tls, "/select/logsql/query", &form).status, 200);
        let lines = ["-H", &own, "-H", same, "--data-binary", "a line\n"];
        assert_eq!(nginx.get(tls, "/insert/lines", &lines).status, 200);
        let other = ["-H", "Origin: https://evil.example", "--data-urlencode", "query=*"];
        assert_eq!(nginx.get(tls, "/select/logsql/query", &other).status, 403);
        let port = format!("Origin: https://{NAME}:1");
        assert_eq!(nginx.get(tls, "/select/logsql/query?query=*", &["-H", &port]).status, 403);
        let foreign = ["-H", "Sec-Fetch-Site: cross-site"];
        assert_eq!(nginx.get(tls, "/select/logsql/query?query=*", &foreign).status, 403);
    }
    assert_eq!(server.count("line"), 2);
    // WebSockets.
    assert_eq!(nginx.upgrade(&nginx.origin(true)), "HTTP/1.1 101 Switching Protocols");
    assert_eq!(nginx.upgrade("Origin: https://evil.example"), "HTTP/1.1 403 Forbidden");
    // Lines come through as they arrive.
    let mut tail = nginx.curl(true, "/select/logsql/tail?query=fresh", &[]).spawn().unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("HTTP/1.1 200 OK"));
    nginx.get(true, "/insert/lines", &["--data-binary", "fresh line\n"]);
    assert!(lines.any(|line| line.contains("fresh line")));
    tail.kill().unwrap();
    tail.wait().unwrap();
}

#[test]
fn a_login_through_the_advised_proxy() {
    let mut hashing = crate::common::loginson(&["hash-password"]);
    let mut hashing = hashing.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut hashing.stdin.take().unwrap(), b"correct horse\n").unwrap();
    let hash = String::from_utf8(hashing.wait_with_output().unwrap().stdout).unwrap();
    let config = format!(
        "[[users]]\nname = \"ann\"\npassword_hash = \"{}\"\nrole = \"operate\"\n",
        hash.trim()
    );
    let server = Server::start_with(&["--http-host", NAME], &config);
    let ports = [Port::take(), Port::take()];
    let nginx = Nginx::start(&server.http, ports[0].number, ports[1].number);
    let origin = nginx.origin(true);
    let login = |password: &str| {
        let form = format!("name=ann&password={password}");
        nginx.get(true, "/api/v1/login", &["-H", &origin, "-d", &form])
    };
    assert_eq!(nginx.get(true, "/", &[]).status, 200);
    assert_eq!(nginx.get(true, "/api/v1/status", &[]).status, 401);
    let answer = login("correct+horse");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let set = answer.header("set-cookie").unwrap();
    assert!(set.ends_with("; HttpOnly; SameSite=Strict; Secure"), "{set}");
    let cookie = format!("Cookie: {}", set.split(';').next().unwrap());
    assert_eq!(nginx.get(true, "/api/v1/status", &["-H", &cookie]).status, 200);
    let seal = ["-X", "POST", "-H", &cookie];
    assert_eq!(nginx.get(true, "/api/v1/seal", &seal).status, 403);
    let own = [&seal[..], &["-H", &origin]].concat();
    assert_eq!(nginx.get(true, "/api/v1/seal", &own).status, 202);
    let evil = [&seal[..], &["-H", "Origin: https://evil.example"]].concat();
    assert_eq!(nginx.get(true, "/api/v1/seal", &evil).status, 403);
    // WebSockets, with the cookie and without.
    assert_eq!(nginx.upgrade(&origin), "HTTP/1.1 401 Unauthorized");
    assert_eq!(nginx.upgrade_with(&origin, &cookie), "HTTP/1.1 101 Switching Protocols");
    // After ten wrong passwords Loginson refuses the name (429), and nginx an address that asks too
    // often (503). How often that is depends on how long each answer takes here. Passwords count
    // for a minute.
    let asked = Instant::now();
    let statuses: Vec<u16> = (0..25).map(|n| login(&format!("wrong{n}")).status).collect();
    let (tried, refused): (Vec<u16>, Vec<u16>) =
        statuses.iter().partition(|status| **status == 401);
    assert_eq!(statuses[0], 401, "{statuses:?}");
    let is_slow = asked.elapsed() >= Duration::from_secs(60);
    assert!((1..=10).contains(&tried.len()) || is_slow, "{statuses:?}");
    assert!(!refused.is_empty() || is_slow, "{statuses:?}");
    assert!(refused.iter().all(|status| [429, 503].contains(status)), "{statuses:?}");
    assert_eq!(nginx.get(true, "/api/v1/status", &["-H", &cookie]).status, 200);
}

/// The part of `docs/access.md` in which nginx logs users in.
fn that_logs_in(directory: &Path, upstream: &str, http: u16) -> String {
    let access = include_str!("../../../../docs/access.md");
    let mut blocks = access.split("```nginx\n").skip(1).filter_map(|rest| rest.split("```").next());
    let block = blocks.find(|block| block.contains("auth_basic_user_file")).unwrap();
    let here = directory.display().to_string();
    let block = block.replace("http://127.0.0.1:9514", &format!("http://{upstream}"));
    let block = block.replace("/etc/nginx/logs.users", &format!("{here}/users"));
    let (map, location) = block.split_once("# and within the server block:").unwrap();
    std::fs::write(directory.join("users"), "ann:{PLAIN}of-ann\nbob:{PLAIN}of-bob\n").unwrap();
    format!(
        "daemon off; error_log stderr; pid {here}/pid;\nevents {{}}\nhttp {{\naccess_log off;\n\
         client_body_temp_path {here}/body; proxy_temp_path {here}/proxy; fastcgi_temp_path \
         {here}/f;\n\
         uwsgi_temp_path {here}/u; scgi_temp_path {here}/s;\n{map}\n\
         server {{ listen 127.0.0.1:{http};\n{location} }}\n}}\n"
    )
}

#[test]
fn nginx_logs_users_in() {
    let access = include_str!("../../../../docs/access.md");
    let block = access.split("```toml\n").find(|block| block.starts_with("[access.proxy]"));
    let config = block.and_then(|block| block.split("```").next()).unwrap();
    let server = Server::start_with(&["--http-host", NAME], config);
    let ports = [Port::take(), Port::take()];
    let [https, http] = [ports[0].number, ports[1].number];
    let nginx = Nginx::start_with(https, http, |at| that_logs_in(at, &server.http, http));
    let me = |arguments: &[&str]| {
        let me = nginx.get(false, "/api/v1/me", arguments).json();
        (me["name"].clone(), me["role"].clone())
    };
    assert_eq!(nginx.get(false, "/", &[]).status, 401);
    assert_eq!(nginx.get(false, "/", &["-u", "ann:wrong"]).status, 401);
    assert_eq!(me(&["-u", "ann:of-ann"]), ("ann@proxy".into(), "operate".into()));
    // What a client writes into these headers does not reach the server.
    let forged = ["-u", "ann:of-ann", "-H", "X-Forwarded-User: root", "-H", "X-Forwarded-User: x"];
    assert_eq!(me(&forged).0, "ann@proxy");
    let bob = ["-u", "bob:of-bob", "-H", "X-Forwarded-Groups: ops"];
    let refused = nginx.get(false, "/api/v1/status", &bob);
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains("no group of bob@proxy may log in here"), "{}", refused.text());
    // A call that changes something says which page made it.
    let seal = ["-u", "ann:of-ann", "-X", "POST"];
    assert_eq!(nginx.get(false, "/api/v1/seal", &seal).status, 403);
    let origin = nginx.origin(false);
    let seal = [&seal[..], &["-H", &origin]].concat();
    assert_eq!(nginx.get(false, "/api/v1/seal", &seal).status, 202);
    // Somebody else who sends the header is refused, and the log says so.
    let direct = |arguments: &[&str]| {
        let mut command = Command::new("curl");
        command.args(["-s", "-i", "--raw", "--max-time", "300"]).args(arguments);
        let output = command.arg(format!("http://{}/api/v1/status", server.http)).output().unwrap();
        Answer::read(&*output.stdout).unwrap().status
    };
    let header = ["-H", "X-Forwarded-User: ann", "-H", "X-Forwarded-Groups: ops"];
    assert_eq!(direct(&[&header[..], &["--interface", "127.0.0.2"]].concat()), 401);
    server.wait_for_log("a login by 'proxy'");
}

#[test]
fn an_unknown_name_is_logged_once() {
    let server = Server::start();
    let ports = [Port::take(), Port::take()];
    let nginx = Nginx::start(&server.http, ports[0].number, ports[1].number);
    for _ in 0..3 {
        let answer = nginx.get(true, "/", &[]);
        assert_eq!(answer.status, 403);
        assert!(answer.text().contains("--http-host logs.example,"), "{}", answer.text());
    }
    server.wait_for_log("the host 'logs.example' are refused");
    assert_eq!(server.log().matches("the host 'logs.example' are refused").count(), 1);
    // Where nginx inserts its own Host, reading works, and writing reports what is missing.
    assert_eq!(nginx.get(false, "/", &[]).status, 200);
    let origin = nginx.origin(false);
    let answer = nginx.get(false, "/select/logsql/query", &["-H", &origin, "-d", "query=*"]);
    let expected = format!("--http-host {NAME}:{},", nginx.http);
    assert_eq!(answer.status, 403);
    assert!(answer.text().contains(&expected), "{}", answer.text());
    let metrics = server.get("/metrics").text();
    assert!(metrics.contains("loginson_http_refused_total{reason=\"host\"} 3\n"), "{metrics}");
    assert!(metrics.contains("loginson_http_refused_total{reason=\"origin\"} 1\n"), "{metrics}");
}

/// Requests of a foreign web page that a browser on this machine shows.
#[test]
fn web_pages_of_others_read_nothing() {
    let server = Server::start();
    server.post("/insert/lines", b"a secret\n");
    let get = |path: &str, headers: &[(&str, &str)]| server.request("GET", path, headers, b"");
    let upgrade = [
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let tail = "/loki/api/v1/tail?query=%7B%7D";
    for origin in ["http://evil.example", "null", "http://localhost:1", "https://127.0.0.1"] {
        let headers = [&upgrade[..], &[("Origin", origin)]].concat();
        assert_eq!(get(tail, &headers).status, 403, "{origin}");
    }
    let rebound = [&upgrade[..], &[("Host", "evil.example"), ("Origin", "http://evil.example")]];
    assert_eq!(get(tail, &rebound.concat()).status, 403);
    let paths = [
        "/",
        "/select/logsql/query?query=*",
        "/select/logsql/tail?query=*",
        "/api/v1/export?format=raw",
        "/loki/api/v1/labels",
        "/metrics",
        "/health",
        "/api/v1/status",
        "/assets/none.js",
        "/none",
    ];
    for path in paths {
        assert_eq!(get(path, &[("Host", "evil.example")]).status, 403, "{path}");
        let image = [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors")];
        assert_eq!(get(path, &image).status, 403, "{path}");
        let link = [
            ("Sec-Fetch-Site", "cross-site"),
            ("Sec-Fetch-Mode", "navigate"),
            ("Sec-Fetch-Dest", "document"),
        ];
        assert_eq!(get(path, &link).status, if path == "/" { 200 } else { 403 }, "{path}");
    }
    // Which responses browsers may store, and who may embed them.
    for path in ["/select/logsql/query?query=*", "/api/v1/status", "/none", "/loki/api/v1/labels"] {
        let answer = get(path, &[]);
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
        assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"), "{path}");
    }
    assert_eq!(get("/", &[]).header("cache-control"), Some("no-cache"));
}
