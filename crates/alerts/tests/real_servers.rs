//! Real receivers: Alertmanager of Prometheus, and Python's `aiosmtpd` where it is installed.

use std::io::Read as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use alerts::{Channel, Labels, Notice, Notification, NotifierConfig, Sent};
use serde_json::Value;

const SECOND_NS: i64 = 1_000_000_000;

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn channel(text: &str) -> Box<dyn Channel> {
    let config: NotifierConfig = toml::from_str(text).unwrap();
    config.check("http://logs").unwrap()[0].channel().unwrap()
}

fn notification(is_firing: bool) -> Notification {
    let now_ns = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now_ns = i64::try_from(now_ns.as_nanos()).unwrap();
    let pairs = |pairs: &[(&str, &str)]| -> Labels {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    };
    let ends_ns = if is_firing { now_ns + 240 * SECOND_NS } else { now_ns - SECOND_NS };
    Notification {
        rule_id: "id".to_owned(),
        rule: "Errors".to_owned(),
        group: "web".to_owned(),
        alerts: vec![Notice {
            labels: pairs(&[
                ("alertname", "Errors"),
                ("kubernetes.pod", "a\"b\r\nX: 1"),
                ("text", "\u{1b}[2J é {{ .Value }}"),
            ]),
            annotations: pairs(&[("summary", "many errors\r\n.\r\nMAIL FROM:<x@y.z>")]),
            is_firing,
            starts_at_ns: now_ns - 60 * SECOND_NS,
            ends_at_ns: ends_ns,
            value: 12.0,
            source_url: "http://logs/?query=x".to_owned(),
            is_due: true,
            is_acknowledged: false,
            line: Some("a line \u{1b}[2J <b>".to_owned()),
        }],
        left_out: Vec::new(),
        time_ns: now_ns,
    }
}

struct Alertmanager {
    port: u16,
}

impl Alertmanager {
    fn start() -> Alertmanager {
        let server = Alertmanager { port: free_port() };
        server.run("wipe");
        server.run("start");
        server
    }

    fn run(&self, command: &str) {
        let data = Path::new(env!("CARGO_TARGET_TMPDIR")).join("servers");
        let done = Command::new("../../scripts/servers/alertmanager.sh")
            .arg(command)
            .env("ALERTMANAGER_PORT", self.port.to_string())
            .env("LOGINSON_SERVERS_DATA", data)
            .status();
        assert!(done.unwrap().success(), "alertmanager.sh {command}");
    }

    /// The alerts that are active.
    fn alerts(&self) -> Vec<Value> {
        let url = format!("http://127.0.0.1:{}/api/v2/alerts", self.port);
        let mut response = ureq::get(&url).call().unwrap();
        serde_json::from_str(&response.body_mut().read_to_string().unwrap()).unwrap()
    }
}

impl Drop for Alertmanager {
    fn drop(&mut self) {
        self.run("wipe");
    }
}

fn wait_for(what: &str, mut is_done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_done() {
        assert!(start.elapsed() < Duration::from_secs(300), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn alertmanager_shows_alerts_and_their_end() {
    let server = Alertmanager::start();
    let text = format!("name = 'am'\n[alertmanager]\nurls = ['http://127.0.0.1:{}']", server.port);
    let mut channel = channel(&text);
    assert_eq!(channel.send(&notification(true)), Sent::Accepted);
    wait_for("the alert is shown", || server.alerts().len() == 1);
    let alert = &server.alerts()[0];
    assert_eq!(alert["labels"]["alertname"], "Errors");
    assert_eq!(alert["labels"]["kubernetes_pod"], "a\"b\r\nX: 1");
    assert_eq!(alert["labels"]["text"], "\u{1b}[2J é {{ .Value }}");
    assert_eq!(alert["status"]["state"], "active");
    assert_eq!(alert["generatorURL"], "http://logs/?query=x");
    // The same alert again is still one.
    assert_eq!(channel.send(&notification(true)), Sent::Accepted);
    assert_eq!(server.alerts().len(), 1);
    assert_eq!(channel.send(&notification(false)), Sent::Accepted);
    wait_for("the alert has ended", || server.alerts().is_empty());
}

/// Ends the process when it is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_real_mail_server_takes_mails() {
    let has =
        Command::new("python3").args(["-c", "import aiosmtpd"]).stderr(Stdio::null()).status();
    if !has.is_ok_and(|status| status.success()) {
        eprintln!("LEFT OUT: Python's aiosmtpd is missing: sudo apt-get install python3-aiosmtpd");
        return;
    }
    let port = free_port();
    let server = Command::new("python3")
        .args(["-u", "-m", "aiosmtpd", "-n", "-l", &format!("127.0.0.1:{port}")])
        .stdout(Stdio::piped())
        .spawn();
    let mut server = Process(server.unwrap());
    let text = format!(
        "name = 'm'\n[email]\nserver = '127.0.0.1:{port}'\ntls = 'none'\n\
         from = 'Logs <logs@example.com>'\nto = ['ops@example.com']"
    );
    let mut channel = channel(&text);
    wait_for("the mail is taken", || channel.send(&notification(true)) == Sent::Accepted);
    let mut output = server.0.stdout.take().unwrap();
    let _ = server.0.kill();
    let mut mail = String::new();
    output.read_to_string(&mut mail).unwrap();
    assert!(mail.contains("Subject: [firing: 1] Errors (web)"), "{mail}");
    assert!(mail.contains("many errors"), "{mail}");
    assert!(!mail.lines().any(|line| line.starts_with("MAIL FROM") || line == "X: 1"), "{mail}");
}
