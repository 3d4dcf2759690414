//! Sends lines to their target: TCP, UDP, HTTP, or standard output.
//!
//! A broken TCP connection is reopened, with growing pauses. Syslog over TCP has no
//! acknowledgements, so lines in the buffers of the operating system at that time may be lost, and
//! the line that was cut by the break is sent again; HTTP requests are repeated until the response
//! is 200. A datagram that cannot be sent is counted and not repeated.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::ValueEnum;

use super::clock::append;
use super::envelope::Format;

/// Time limit of the first connection. After later breaks the sender retries forever.
const FIRST_CONNECTION_WITHIN: Duration = Duration::from_secs(10);
/// First pause before a retry of a connection or request; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long a write may block before Ctrl-C is checked.
const LOOK_UP_EVERY: Duration = Duration::from_millis(500);
/// Time for the receiver to read the last lines after the end.
const LINGER: Duration = Duration::from_secs(5);

/// The target of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `tcp://HOST:PORT`
    Tcp(String),
    /// `udp://HOST:PORT`
    Udp(String),
    /// `http://HOST:PORT`
    Http(String),
    /// `-`
    Stdout,
}

impl FromStr for Target {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "-" {
            return Ok(Target::Stdout);
        }
        let error = || {
            format!(
                "'{text}' is not a target; write for example tcp://127.0.0.1:5514, udp://127.0.0.1:5514, http://127.0.0.1:9514, or - for standard output"
            )
        };
        let (scheme, address) = text.split_once("://").ok_or_else(error)?;
        let address = address.trim_end_matches('/');
        let port = match scheme {
            "tcp" | "udp" => 5514,
            "http" => 9514,
            _ => return Err(error()),
        };
        if address.is_empty() || address.contains('/') {
            return Err(error());
        }
        let has_port = address.rsplit_once(':').is_some_and(|(_, p)| p.parse::<u16>().is_ok());
        let bare_v6 =
            address.ends_with(']') || (address.matches(':').count() > 1 && !address.contains(']'));
        let address = match has_port && !bare_v6 {
            true => address.to_owned(),
            false => format!("{address}:{port}"),
        };
        Ok(match scheme {
            "tcp" => Target::Tcp(address),
            "udp" => Target::Udp(address),
            _ => Target::Http(address),
        })
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Tcp(address) => write!(f, "tcp://{address}"),
            Target::Udp(address) => write!(f, "udp://{address}"),
            Target::Http(address) => write!(f, "http://{address}"),
            Target::Stdout => f.write_str("standard output"),
        }
    }
}

/// How lines are framed on a TCP connection (RFC 6587).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Framing {
    /// A newline after each line
    Newline,
    /// The length in front of each line
    Octet,
}

/// Lines, one after another, each followed by a newline.
#[derive(Default)]
pub struct Lines {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Lines {
    /// Adds a line written by `write`, without newline.
    pub fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.bytes.push(b'\n');
        self.ends.push(self.bytes.len());
    }

    /// Number of lines.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes, newlines included.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The lines without newlines.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..end - 1])
    }

    /// Removes all lines.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// Problems while sending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// Connections reopened and requests repeated.
    pub retries: u64,
    /// Datagrams that could not be sent.
    pub refused: u64,
}

/// A connection to the target.
pub struct Sender<'a> {
    target: Target,
    way: Way,
    stop: &'a AtomicBool,
    /// Problems so far.
    pub trouble: Trouble,
}

enum Way {
    Tcp { stream: TcpStream, framing: Framing, framed: Vec<u8>, ends: Vec<usize> },
    Udp(UdpSocket),
    Http { agent: ureq::Agent, url: String },
    Stdout,
}

impl<'a> Sender<'a> {
    /// Connects. `stop` ends every wait.
    pub fn connect(
        target: Target,
        format: Format,
        framing: Framing,
        stop: &'a AtomicBool,
    ) -> Result<Self> {
        let way = match &target {
            Target::Stdout => Way::Stdout,
            Target::Tcp(address) => {
                let stream = connect_first(&target, address, stop)?;
                Way::Tcp { stream, framing, framed: Vec::new(), ends: Vec::new() }
            }
            Target::Udp(address) => Way::Udp(udp(address).with_context(|| {
                format!(
                    "cannot send to {target}; check the address, or start a server with `loginson`"
                )
            })?),
            Target::Http(address) => {
                let path =
                    if format == Format::Json { "/insert/jsonline" } else { "/insert/lines" };
                let config = ureq::Agent::config_builder()
                    .http_status_as_error(false)
                    .timeout_connect(Some(FIRST_CONNECTION_WITHIN / 2))
                    .build();
                Way::Http { agent: config.into(), url: format!("http://{address}{path}") }
            }
        };
        Ok(Sender { target, way, stop, trouble: Trouble::default() })
    }

    /// Sends the lines; false if `stop` came before all were sent.
    pub fn send(&mut self, lines: &Lines) -> Result<bool> {
        match &mut self.way {
            Way::Stdout => match io::stdout().lock().write_all(lines.bytes()) {
                Ok(()) => Ok(true),
                // The reader has ended, as `head` does.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                    self.stop.store(true, Ordering::Relaxed);
                    Ok(false)
                }
                Err(error) => Err(error).context("cannot write to standard output"),
            },
            Way::Udp(socket) => {
                for line in lines.iter() {
                    if let Err(error) = socket.send(line) {
                        if self.trouble.refused == 0 {
                            eprintln!(
                                "{}: {error}; is a server listening there? Lines that cannot be sent are counted and skipped",
                                self.target
                            );
                        }
                        self.trouble.refused += 1;
                    }
                }
                Ok(true)
            }
            Way::Tcp { stream, framing, framed, ends } => {
                framed.clear();
                ends.clear();
                for line in lines.iter() {
                    match framing {
                        Framing::Octet => append(framed, format_args!("{} ", line.len())),
                        Framing::Newline => {}
                    }
                    framed.extend_from_slice(line);
                    if *framing == Framing::Newline {
                        framed.push(b'\n');
                    }
                    ends.push(framed.len());
                }
                let mut sent = 0;
                while sent < framed.len() {
                    match stream.write(&framed[sent..]) {
                        Ok(n) if n > 0 => sent += n,
                        Err(error) if is_wait(&error) => {}
                        result => {
                            let cause = result.err().unwrap_or_else(|| ErrorKind::WriteZero.into());
                            let Target::Tcp(address) = &self.target else {
                                unreachable!("its way is TCP")
                            };
                            self.trouble.retries += 1;
                            let Some(again) = reconnect(&self.target, address, &cause, self.stop)?
                            else {
                                return Ok(false);
                            };
                            *stream = again;
                            // From the beginning of the line that was cut.
                            let whole = ends.partition_point(|end| *end <= sent);
                            sent = if whole == 0 { 0 } else { ends[whole - 1] };
                        }
                    }
                    if self.stop.load(Ordering::Relaxed) && sent < framed.len() {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Way::Http { agent, url } => {
                let first = self.trouble == Trouble::default();
                post(agent, url, lines.bytes(), first, self.stop, &mut self.trouble.retries)
            }
        }
    }

    /// Ends the connection: waits until a TCP receiver has read everything and closed its side, for
    /// at most five seconds.
    pub fn finish(self) -> Result<()> {
        if let Way::Tcp { mut stream, .. } = self.way {
            stream.shutdown(Shutdown::Write).ok();
            let until = Instant::now() + LINGER;
            let mut rest = [0; 1024];
            while Instant::now() < until {
                match stream.read(&mut rest) {
                    Ok(n) if n > 0 => {}
                    Err(error) if is_wait(&error) => {}
                    _ => break,
                }
            }
        }
        io::stdout().flush().ok();
        Ok(())
    }
}

fn is_wait(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn tcp(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_write_timeout(Some(LOOK_UP_EVERY))?;
    stream.set_read_timeout(Some(LOOK_UP_EVERY))?;
    Ok(stream)
}

fn udp(address: &str) -> io::Result<UdpSocket> {
    let to = address.to_socket_addrs()?.next().ok_or(ErrorKind::AddrNotAvailable)?;
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    Ok(socket)
}

fn connect_first(target: &Target, address: &str, stop: &AtomicBool) -> Result<TcpStream> {
    let begin = Instant::now();
    let mut pause = PAUSE_MIN;
    loop {
        match tcp(address) {
            Ok(stream) => return Ok(stream),
            Err(error)
                if begin.elapsed() > FIRST_CONNECTION_WITHIN || stop.load(Ordering::Relaxed) =>
            {
                return Err(error).with_context(|| {
                    format!("no server answers at {target}; start a server with `loginson`, or give the address of another with --to")
                });
            }
            Err(_) => sleep(&mut pause, stop),
        }
    }
}

fn reconnect(
    target: &Target,
    address: &str,
    cause: &io::Error,
    stop: &AtomicBool,
) -> Result<Option<TcpStream>> {
    eprintln!("{target}: {cause}; retrying until the server is back (Ctrl-C ends)");
    let mut pause = PAUSE_MIN;
    while !stop.load(Ordering::Relaxed) {
        if let Ok(stream) = tcp(address) {
            eprintln!("{target}: connected again");
            return Ok(Some(stream));
        }
        sleep(&mut pause, stop);
    }
    Ok(None)
}

fn post(
    agent: &ureq::Agent,
    url: &str,
    body: &[u8],
    first: bool,
    stop: &AtomicBool,
    retries: &mut u64,
) -> Result<bool> {
    let begin = Instant::now();
    let mut pause = PAUSE_MIN;
    loop {
        let cause = match agent.post(url).content_type("application/stream+json").send(body) {
            Ok(response) if response.status().is_success() => return Ok(true),
            Ok(mut response) => {
                let status = response.status().as_u16();
                let text =
                    response.body_mut().with_config().limit(4096).lossy_utf8(true).read_to_string();
                let text = text.unwrap_or_default();
                if !matches!(status, 429 | 503 | 507) {
                    bail!("{url} answered {status}: {}", text::terminal::escaped(text.trim()));
                }
                anyhow!("status {status}: {}", text::terminal::escaped(text.trim()))
            }
            Err(error) => anyhow!("{error}"),
        };
        if first && begin.elapsed() > FIRST_CONNECTION_WITHIN {
            bail!(
                "{url}: {cause}; start a server with `loginson`, or give the address of another with --to"
            );
        }
        if pause == PAUSE_MIN && !first {
            eprintln!("{url}: {cause}; retrying until the server accepts lines (Ctrl-C ends)");
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        *retries += 1;
        sleep(&mut pause, stop);
    }
}

/// Sleeps for the pause, unless stopped, and doubles it.
fn sleep(pause: &mut Duration, stop: &AtomicBool) {
    let until = Instant::now() + *pause;
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        thread::sleep(PAUSE_MIN.min(until.saturating_duration_since(Instant::now())));
    }
    *pause = (*pause * 2).min(PAUSE_MAX);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn targets() {
        for (text, expected) in [
            ("tcp://127.0.0.1:5514", Some("tcp://127.0.0.1:5514")),
            ("tcp://logs.example", Some("tcp://logs.example:5514")),
            ("udp://[::1]", Some("udp://[::1]:5514")),
            ("udp://[::1]:514", Some("udp://[::1]:514")),
            ("http://logs.example/", Some("http://logs.example:9514")),
            ("-", Some("standard output")),
            ("https://logs.example", None),
            ("127.0.0.1:5514", None),
            ("tcp://", None),
            ("http://a/b", None),
        ] {
            let target = text.parse::<Target>().ok().map(|t| t.to_string());
            assert_eq!(target.as_deref(), expected, "{text}");
        }
    }

    fn some_lines() -> Lines {
        let mut lines = Lines::default();
        lines.push(|out| out.extend_from_slice(b"<13>one"));
        lines.push(|out| out.extend_from_slice(b""));
        lines.push(|out| out.extend_from_slice("zwölf".as_bytes()));
        lines
    }

    #[test]
    fn tcp_frames_lines_in_both_ways() {
        for (framing, expected) in
            [(Framing::Newline, "<13>one\n\nzwölf\n"), (Framing::Octet, "7 <13>one0 6 zwölf")]
        {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let target = Target::Tcp(listener.local_addr().unwrap().to_string());
            let receiver = thread::spawn(move || {
                let mut text = String::new();
                listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
                text
            });
            let stop = AtomicBool::new(false);
            let mut sender = Sender::connect(target, Format::Rfc5424, framing, &stop).unwrap();
            assert!(sender.send(&some_lines()).unwrap());
            sender.finish().unwrap();
            assert_eq!(receiver.join().unwrap(), expected);
        }
    }

    #[test]
    fn each_line_is_a_datagram() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let target = Target::Udp(receiver.local_addr().unwrap().to_string());
        let stop = AtomicBool::new(false);
        let mut sender = Sender::connect(target, Format::Rfc5424, Framing::Newline, &stop).unwrap();
        assert!(sender.send(&some_lines()).unwrap());
        let mut buffer = [0; 100];
        for expected in ["<13>one", "", "zwölf"] {
            let bytes = receiver.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..bytes], expected.as_bytes());
        }
    }

    #[test]
    fn a_broken_connection_is_made_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target::Tcp(listener.local_addr().unwrap().to_string());
        let stop = AtomicBool::new(false);
        let mut sender = Sender::connect(target, Format::Rfc5424, Framing::Newline, &stop).unwrap();
        // The receiver closes with unread bytes, so that the sender's side is reset.
        let (mut first, _) = listener.accept().unwrap();
        assert!(sender.send(&some_lines()).unwrap());
        first.read_exact(&mut [0; 1]).unwrap();
        drop(first);
        while sender.trouble.retries == 0 {
            assert!(sender.send(&some_lines()).unwrap());
        }
        let second = thread::spawn(move || {
            let mut text = String::new();
            listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
            text
        });
        sender.finish().unwrap();
        let text = second.join().unwrap();
        assert!(text.starts_with("<13>one\n"), "{text}");
    }
}
