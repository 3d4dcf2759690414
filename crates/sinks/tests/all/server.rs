//! A small HTTP server whose answers a closure decides.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use flate2::read::GzDecoder;

/// A request as it arrived, its body decompressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    pub path: String,
    /// Lower-case names, in the order in which they arrived.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Request {
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }
}

/// What the server does with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Answers with a status, more headers, and a body.
    Answer(u16, &'static str, String),
    /// Closes the connection without an answer.
    Close,
    /// Announces a longer body than it sends, and closes.
    CutShort(String),
    /// Sends the start of an answer, and nothing more until the client gives up.
    Stall,
}

impl Action {
    pub fn json(status: u16, body: impl ToString) -> Action {
        Action::Answer(status, "", body.to_string())
    }
}

/// A server on a free port. It serves until the process ends.
pub struct Server {
    pub url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    pub fn start(act: impl Fn(&Request) -> Action + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (act, seen) = (Arc::new(act), Arc::clone(&requests));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (act, seen) = (Arc::clone(&act), Arc::clone(&seen));
                std::thread::spawn(move || {
                    // Clients that give up close the connection in the middle.
                    let _ = serve(stream?, &*act, &seen);
                    io::Result::Ok(())
                });
            }
        });
        Server { url, requests }
    }

    /// Always answers in the same way.
    pub fn answering(status: u16, body: &str) -> Server {
        let body = body.to_owned();
        Server::start(move |_| Action::json(status, &body))
    }

    /// What arrived so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

fn serve(
    stream: TcpStream,
    act: &(impl Fn(&Request) -> Action + ?Sized),
    seen: &Mutex<Vec<Request>>,
) -> io::Result<()> {
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_request(&mut reader)? {
        seen.lock().unwrap().push(request.clone());
        match act(&request) {
            Action::Answer(status, headers, body) => {
                // One write, because the kernel holds a second small one back for a while.
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 {status} Scripted\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
                );
                writer.write_all(answer.as_bytes())?;
            }
            Action::Close => return Ok(()),
            Action::CutShort(body) => {
                let length = body.len() + 10;
                write!(writer, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}")?;
                return Ok(());
            }
            Action::Stall => {
                write!(writer, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{{")?;
                // Returns when the client closes.
                io::copy(&mut reader, &mut io::sink())?;
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The next request; `None` when the client has closed the connection.
pub fn read_request(reader: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.to_owned())),
            None => break,
        }
    }
    let mut request = Request { method, path, headers, body: String::new() };
    let length = request.header("content-length").parse().unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    match request.header("content-encoding") {
        "gzip" => {
            GzDecoder::new(body.as_slice()).read_to_string(&mut request.body)?;
        }
        "zstd" => {
            let decoded = zstd::stream::decode_all(body.as_slice())?;
            request.body = String::from_utf8(decoded).map_err(io::Error::other)?;
        }
        _ => request.body = String::from_utf8(body).map_err(io::Error::other)?,
    }
    Ok(Some(request))
}
