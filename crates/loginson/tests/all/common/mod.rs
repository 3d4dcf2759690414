//! Starts the real binary for a test, sends it HTTP requests, and stops it.

// Each test file uses other parts of this module.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use serde_json::Value;

/// The binary under test.
pub const LOGINSON: &str = env!("CARGO_BIN_EXE_loginson");
/// The longest wait in a test; beyond it the test fails.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// A running server. Killed when dropped; its log is shown if the test failed.
pub struct Server {
    child: Child,
    data: Data,
    /// `host:port` of HTTP.
    pub http: String,
    log: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
    /// Whether it asks other nodes for lines.
    is_one_of_several: bool,
    /// Time from starting the process until it was ready.
    pub start_time: Duration,
}

/// The data directory of a server: removed with it, or kept by the test for the next one.
enum Data {
    Own(tempfile::TempDir),
    Lent(PathBuf),
}

impl Data {
    fn path(&self) -> &Path {
        match self {
            Data::Own(directory) => directory.path(),
            Data::Lent(path) => path,
        }
    }
}

impl Server {
    /// A server with an empty directory.
    pub fn start() -> Server {
        Server::start_with(&[], "")
    }

    /// A server with an empty directory, further arguments, and a configuration file unless it is
    /// empty.
    pub fn start_with(arguments: &[&str], config: &str) -> Server {
        let directory = tempfile::tempdir().expect("a directory for the test");
        Server::launch(Data::Own(directory), arguments, config)
    }

    /// A server over a directory that the caller keeps.
    pub fn start_in(directory: &Path, arguments: &[&str], config: &str) -> Server {
        Server::launch(Data::Lent(directory.to_owned()), arguments, config)
    }

    /// A server over a directory that the caller keeps, with variables of the environment.
    pub fn start_with_variables(
        directory: &Path,
        config: &str,
        variables: &[(&str, &str)],
    ) -> Server {
        let mut command = serve_command(directory);
        command.envs(variables.iter().copied());
        Server::run(command, Data::Lent(directory.to_owned()), &[], config)
    }

    /// A server with an empty directory that listens for HTTP at another address.
    pub fn start_at(http_listen: &str, config: &str) -> Server {
        let directory = tempfile::tempdir().expect("a directory for the test");
        let command = serve_command_at(directory.path(), http_listen);
        Server::run(command, Data::Own(directory), &[], config)
    }

    /// A server over a directory that the caller keeps, at an address of HTTP.
    pub fn start_in_at(directory: &Path, http_listen: &str, arguments: &[&str]) -> Server {
        let command = serve_command_at(directory, http_listen);
        Server::run(command, Data::Lent(directory.to_owned()), arguments, "")
    }

    fn launch(data: Data, arguments: &[&str], config: &str) -> Server {
        Server::run(serve_command(data.path()), data, arguments, config)
    }

    fn run(mut command: Command, data: Data, arguments: &[&str], config: &str) -> Server {
        let started = Instant::now();
        if !config.is_empty() {
            let file = data.path().join("loginson.toml");
            std::fs::write(&file, config).expect("the directory is writable");
            command.arg("--config").arg(file);
        }
        let mut child =
            command.args(arguments).stderr(Stdio::piped()).spawn().expect("the binary starts");
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        let (found, address) = mpsc::channel();
        let copy = Arc::clone(&log);
        let reader = std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if let Some((_, rest)) = line.split_once("page and API at http")
                    && let Some((_, rest)) = rest.split_once("://")
                {
                    let _ = found.send(rest.trim_end_matches('/').to_owned());
                }
                copy.lock().unwrap().push(line);
            }
        });
        let is_one_of_several = config.contains("[cluster]") || config.contains("[stores]");
        let mut server = Server {
            child,
            data,
            http: String::new(),
            log,
            reader: Some(reader),
            is_one_of_several,
            start_time: Duration::ZERO,
        };
        server.http = address.recv_timeout(PATIENCE).expect("the server starts");
        server.start_time = started.elapsed();
        server
    }

    /// Its data directory.
    pub fn data_dir(&self) -> &Path {
        self.data.path()
    }

    /// The text of its log.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The address of syslog over TCP.
    pub fn syslog_tcp(&self) -> SocketAddr {
        self.status()["listeners"]["syslog_tcp"].as_str().unwrap().parse().unwrap()
    }

    /// The address of syslog datagrams.
    pub fn syslog_udp(&self) -> SocketAddr {
        self.status()["listeners"]["syslog_udp"].as_str().unwrap().parse().unwrap()
    }

    /// The address of syslog over TLS.
    pub fn syslog_tls(&self) -> SocketAddr {
        self.status()["listeners"]["syslog_tls"].as_str().unwrap().parse().unwrap()
    }

    /// `/api/v1/status`.
    pub fn status(&self) -> Value {
        self.get("/api/v1/status").json()
    }

    /// The counters of one source.
    pub fn ingest(&self, source: &str) -> Value {
        let status = self.status();
        let mut sources = status["ingest"].as_array().unwrap().iter();
        sources.find(|s| s["source"] == source).unwrap().clone()
    }

    /// GET.
    pub fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[], b"")
    }

    /// POST of a body.
    pub fn post(&self, path: &str, body: &[u8]) -> Answer {
        self.request("POST", path, &[], body)
    }

    /// A request with headers, on a connection of its own.
    pub fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let answer = request_to(&self.http, method, path, headers, body);
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// A connection to HTTP.
    pub fn connect(&self) -> TcpStream {
        connect_to(&self.http).expect("the server listens")
    }

    /// The answer of a query, once it is whole and of now. On a slow machine a node or an engine
    /// that lives does not answer in time for a moment; a query of several nodes then names what is
    /// missing, or says that it is by an older state of the catalog, and is asked again here.
    pub fn whole(&self, path: &str) -> Answer {
        let started = Instant::now();
        loop {
            let answer = self.get(path);
            let breaks_off = answer.body.windows(10).any(|bytes| bytes == b"{\"_error\":");
            let lacks = answer.status == 503 || answer.header("x-loginson-catalog-age").is_some();
            let asks_again = self.is_one_of_several && (lacks || breaks_off);
            if !asks_again || started.elapsed() >= PATIENCE {
                return answer;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Rows of a query, newest first when `parameters` has a limit.
    pub fn query(&self, query: &str, parameters: &str) -> Vec<Value> {
        let path = format!("/select/logsql/query?query={}&{parameters}", encoded(query));
        let answer = self.whole(&path);
        assert_eq!(answer.status, 200, "{query}: {}", answer.text());
        answer.rows()
    }

    /// Number of rows a query finds, counted by the server.
    pub fn count(&self, query: &str) -> u64 {
        let rows = self.query(&format!("{query} | stats count() n"), "");
        rows[0]["n"].as_str().unwrap().parse().unwrap()
    }

    /// Raw lines a query finds, as sent.
    pub fn raw(&self, query: &str) -> Vec<Vec<u8>> {
        let path = format!("/select/logsql/query?query={}&format=raw", encoded(query));
        let answer = self.whole(&path);
        assert_eq!(answer.status, 200, "{query}: {}", answer.text());
        match answer.body.strip_suffix(b"\n") {
            Some(lines) => lines.split(|&b| b == b'\n').map(<[u8]>::to_vec).collect(),
            None => Vec::new(),
        }
    }

    /// Polls until the condition holds.
    pub fn wait_for(&self, what: &str, mut holds: impl FnMut(&Server) -> bool) {
        let started = Instant::now();
        while !holds(self) {
            assert!(started.elapsed() < PATIENCE, "waited too long for: {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until its log contains a text. What it wrote may still be on its way through the pipe.
    pub fn wait_for_log(&self, text: &str) {
        self.wait_for(&format!("{text:?} in the log"), |server| server.log().contains(text));
    }

    /// Ends it with SIGKILL, as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.ended();
    }

    /// Stops it with SIGTERM and returns its exit code.
    pub fn terminate(&mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        self.ended()
    }

    fn ended(&mut self) -> Option<i32> {
        let status = self.child.wait().expect("it was started here");
        if let Some(reader) = self.reader.take() {
            reader.join().expect("reading the log does not panic");
        }
        status.code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        self.ended();
        if std::thread::panicking() {
            eprintln!("--- log of the server ---\n{}\n---", self.log());
        }
    }
}

/// A port of loopback on which a server may listen, also again after its end. Until it is dropped,
/// the system gives the port to nobody who asks for any, because a socket that does not listen has
/// it too.
pub struct Port {
    pub number: u16,
    _held: OwnedFd,
}

impl Port {
    pub fn take() -> Port {
        let socket = rustix::net::socket_with(
            AddressFamily::INET,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        );
        let held = socket.unwrap();
        // Servers set it too: then several sockets may have the port, as long as one of them
        // listens at most.
        sockopt::set_socket_reuseaddr(&held, true).unwrap();
        rustix::net::bind(&held, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = SocketAddrV4::try_from(rustix::net::getsockname(&held).unwrap()).unwrap();
        Port { number: address.port(), _held: held }
    }

    /// `127.0.0.1` and the port.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.number)
    }
}

/// `loginson serve` on free ports over a directory.
pub fn serve_command(data_dir: &Path) -> Command {
    serve_command_at(data_dir, "127.0.0.1:0")
}

/// The same with another address of HTTP.
pub fn serve_command_at(data_dir: &Path, http_listen: &str) -> Command {
    let mut command = loginson(&["serve", "--http-listen", http_listen]);
    command.args(["--syslog-udp-listen", "127.0.0.1:0", "--syslog-tcp-listen", "127.0.0.1:0"]);
    command.arg("--data-dir").arg(data_dir).stdout(Stdio::null());
    command
}

/// A command of the binary, without settings from the environment.
pub fn loginson(arguments: &[&str]) -> Command {
    let mut command = Command::new(LOGINSON);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LOGINSON_") {
            command.env_remove(name);
        }
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

/// A connection that gives up after [`PATIENCE`].
pub fn connect_to(http: &str) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(http)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Reads until the server has closed a connection, and returns what came. A reset closes it, too:
/// the server did not read all that was sent.
#[track_caller]
pub fn read_until_closed(stream: &mut impl Read) -> Vec<u8> {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("it is not closed: {error}"),
    }
    rest
}

/// Whether nothing came for [`PATIENCE`].
pub fn is_late(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// A request to a server that may be gone.
pub fn request_to(
    http: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> std::io::Result<Answer> {
    let mut stream = connect_to(http)?;
    let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        head.push_str(&format!("Host: {http}\r\n"));
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    Answer::read(stream)
}

/// An HTTP response.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Fields of the head, names in lower case.
    pub head: Vec<(String, String)>,
    /// The body, without the framing of chunks.
    pub body: Vec<u8>,
}

impl Answer {
    /// Reads a response to its end.
    pub fn read(stream: impl Read) -> std::io::Result<Answer> {
        let mut reader = BufReader::new(stream);
        let (status, head) = read_head(&mut reader)?;
        let mut answer = Answer { status, head, body: Vec::new() };
        if answer.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = read_chunk(&mut reader)? {
                answer.body.extend(chunk);
            }
        } else if let Some(length) = answer.header("content-length") {
            answer.body = vec![0; length.parse().expect("a number")];
            reader.read_exact(&mut answer.body)?;
        } else {
            reader.read_to_end(&mut answer.body)?;
        }
        Ok(answer)
    }

    /// A field of the head.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as one JSON value.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The body as JSON lines.
    pub fn rows(&self) -> Vec<Value> {
        let lines = self.body.split(|&b| b == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
    }
}

/// Reads the head of a response: status, and fields with names in lower case.
pub fn read_head(reader: &mut impl BufRead) -> std::io::Result<(u16, Vec<(String, String)>)> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status =
        status.ok_or_else(|| std::io::Error::other(format!("no status line: {line:?}")))?;
    let mut head = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => head.push((name.to_ascii_lowercase(), value.to_owned())),
            None => return Ok((status, head)),
        }
    }
}

/// Reads one chunk of a body; `None` at its end.
pub fn read_chunk(reader: &mut impl BufRead) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let length = usize::from_str_radix(line.trim_end(), 16)
        .map_err(|_| std::io::Error::other(format!("the body was cut off: {line:?}")))?;
    let mut chunk = vec![0; length + 2];
    reader.read_exact(&mut chunk)?;
    chunk.truncate(length);
    Ok(Some(chunk).filter(|chunk| !chunk.is_empty()))
}

/// Percent-encodes a parameter.
pub fn encoded(text: &str) -> String {
    let each = |b: u8| match b {
        b if b.is_ascii_alphanumeric() => (b as char).to_string(),
        b => format!("%{b:02X}"),
    };
    text.bytes().map(each).collect()
}
