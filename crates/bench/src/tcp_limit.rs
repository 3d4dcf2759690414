//! The two ends of an ingest benchmark over TCP: a sink that only counts newlines, which is the
//! limit that a collector is compared with, and a sender.
//!
//! ```text
//! tcp_limit sink ADDRESS [CONNECTIONS]      counts lines until CONNECTIONS (1) connections have come and ended
//! tcp_limit send ADDRESS FILE [TIMES]       sends FILE TIMES times (once) from memory, as fast as possible
//!           [--connections 1]               distributes it over several connections, in pieces of whole lines
//!           [--rate LINES_PER_S]            limits the rate, in a hundred pieces a second
//!           [--seconds S]                   ends after this time
//! ```
//!
//! Both are one thread with epoll. The sender reports when the other side has read everything and
//! closed.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use crate::traffic::{count_lines, number, report};

/// Bytes read at once by the sink: as many as fit into a core's own cache.
const READ_BYTES: usize = 256 << 10;
/// Bytes of whole lines that a connection gets at once if it is the only one.
const PIECE_BYTES: usize = 256 << 10;
/// The same if there are several connections.
const SHARED_PIECE_BYTES: usize = 32 << 10;
/// Pieces a second when the rate is limited.
const PIECES_PER_S: u64 = 100;
const LISTENER: Token = Token(usize::MAX);

pub(crate) fn main() -> io::Result<()> {
    let args: Vec<String> = crate::arguments().collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["sink", address] => sink(address, 1),
        ["sink", address, connections] => sink(address, number(connections) as usize),
        ["send", address, file, ref options @ ..] => send(address, file, options),
        _ => {
            eprintln!(
                "usage: tcp_limit sink ADDRESS [CONNECTIONS] | tcp_limit send ADDRESS FILE …"
            );
            std::process::exit(2);
        }
    }
}

fn parse(address: &str) -> SocketAddr {
    address.parse().unwrap_or_else(|_| panic!("{address} is not HOST:PORT"))
}

fn sink(address: &str, connections_max: usize) -> io::Result<()> {
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind(parse(address))?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    println!("listening at {}", listener.local_addr()?);
    let mut connections: Vec<Option<TcpStream>> = Vec::new();
    let (mut ended, mut lines, mut bytes) = (0, 0, 0);
    let mut started = None;
    let mut buffer = vec![0; READ_BYTES];
    let mut events = Events::with_capacity(1024);
    while ended < connections_max {
        poll.poll(&mut events, None)?;
        for event in events.iter() {
            if event.token() == LISTENER {
                while let Ok((mut socket, _)) = listener.accept() {
                    let token = Token(connections.len());
                    poll.registry().register(&mut socket, token, Interest::READABLE)?;
                    connections.push(Some(socket));
                    started.get_or_insert_with(Instant::now);
                }
                continue;
            }
            let connection = &mut connections[event.token().0];
            let Some(socket) = connection else { continue };
            loop {
                match socket.read(&mut buffer) {
                    Ok(0) => {
                        *connection = None;
                        ended += 1;
                        break;
                    }
                    Ok(read) => {
                        lines += count_lines(&buffer[..read]);
                        bytes += read as u64;
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
        }
    }
    report("sink", lines, bytes, started.expect("a connection ended").elapsed(), "");
    Ok(())
}

struct Options {
    times: u64,
    connections: usize,
    lines_per_s: Option<u64>,
    time_max: Option<Duration>,
}

impl Options {
    fn parse(mut args: &[&str]) -> Options {
        let mut options = Options { times: 1, connections: 1, lines_per_s: None, time_max: None };
        if let [times, rest @ ..] = args
            && !times.starts_with("--")
        {
            options.times = number(times);
            args = rest;
        }
        while let [flag, value, rest @ ..] = args {
            match *flag {
                "--connections" => options.connections = number(value) as usize,
                // 0 is unlimited.
                "--rate" => options.lines_per_s = Some(number(value)).filter(|rate| *rate > 0),
                "--seconds" => options.time_max = Some(Duration::from_secs(number(value))),
                _ => panic!("unknown flag {flag}"),
            }
            args = rest;
        }
        assert!(args.is_empty(), "{} has no value", args[0]);
        options
    }

    fn piece_bytes(&self, file_bytes: usize, file_lines: u64) -> usize {
        match (self.lines_per_s, self.connections) {
            (Some(rate), _) => {
                let line_bytes = file_bytes as u64 / file_lines.max(1);
                (rate * line_bytes / PIECES_PER_S).clamp(1, PIECE_BYTES as u64) as usize
            }
            (None, 1) => PIECE_BYTES,
            (None, _) => SHARED_PIECE_BYTES,
        }
    }
}

/// Cuts the file into pieces of whole lines; returns each with its number of lines.
fn pieces(file: &[u8], piece_bytes: usize) -> Vec<(&[u8], u64)> {
    let mut pieces = Vec::new();
    let mut rest = file;
    while !rest.is_empty() {
        let least = piece_bytes.min(rest.len()) - 1;
        let end = memchr::memchr(b'\n', &rest[least..]).map_or(rest.len(), |at| least + at + 1);
        let (piece, behind) = rest.split_at(end);
        pieces.push((piece, count_lines(piece)));
        rest = behind;
    }
    pieces
}

fn send(address: &str, file: &str, args: &[&str]) -> io::Result<()> {
    let options = Options::parse(args);
    let content = std::fs::read(file)?;
    let pieces = pieces(&content, options.piece_bytes(content.len(), count_lines(&content)));
    let mut poll = Poll::new()?;
    let mut connections = Vec::new();
    for token in 0..options.connections {
        let socket = std::net::TcpStream::connect(parse(address))?;
        socket.set_nonblocking(true)?;
        let mut socket = TcpStream::from_std(socket);
        poll.registry().register(&mut socket, Token(token), Interest::WRITABLE)?;
        connections.push((socket, &[][..]));
    }
    let mut left = (0..options.times).flat_map(|_| &pieces);
    let started = Instant::now();
    let (mut lines, mut bytes, mut unfinished) = (0, 0, 0);
    // Writable connections; each takes one piece per turn.
    let mut ready: std::collections::VecDeque<usize> = std::collections::VecDeque::new();
    let mut events = Events::with_capacity(1024);
    loop {
        let wait = if ready.is_empty() { None } else { Some(Duration::ZERO) };
        poll.poll(&mut events, wait)?;
        ready.extend(events.iter().map(|event| event.token().0));
        let is_over = options.time_max.is_some_and(|time_max| started.elapsed() >= time_max);
        for _ in 0..ready.len() {
            let index = ready.pop_front().expect("as many as counted");
            let (socket, rest) = &mut connections[index];
            if rest.is_empty() {
                let next = if is_over { None } else { left.next() };
                let Some((piece, piece_lines)) = next else { continue };
                wait_for_turn(started, lines, options.lines_per_s);
                *rest = piece;
                lines += piece_lines;
                bytes += piece.len() as u64;
                unfinished += 1;
            }
            match socket.write(rest) {
                Ok(written) => {
                    *rest = &rest[written..];
                    unfinished -= usize::from(rest.is_empty());
                    ready.push_back(index);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        if ready.is_empty() && unfinished == 0 {
            break;
        }
    }
    for (socket, _) in connections {
        let mut socket: std::net::TcpStream = socket.into();
        socket.set_nonblocking(false)?;
        socket.shutdown(Shutdown::Write)?;
        // Returns once the other side has read everything and closed.
        let _ = socket.read(&mut [0]);
    }
    report("sender", lines, bytes, started.elapsed(), "");
    Ok(())
}

/// Sleeps until `lines` lines should have been sent.
fn wait_for_turn(started: Instant, lines: u64, lines_per_s: Option<u64>) {
    if let Some(rate) = lines_per_s {
        let due = Duration::from_secs_f64(lines as f64 / rate as f64);
        std::thread::sleep(due.saturating_sub(started.elapsed()));
    }
}
