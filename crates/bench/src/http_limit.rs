//! The two ends of an ingest benchmark over HTTP: a sink that only counts newlines, as the upper
//! limit to compare the server with, and a sender that streams a file as fast as it is accepted.
//!
//! ```text
//! http_limit sink ADDRESS                   counts lines of request bodies, with axum and hyper as the server has
//!                                           them; prints a line for each body that is finished
//! http_limit send ADDRESS PATH FILE [N] [--connections C] [--gzip | --zstd]
//!                                           sends FILE N times from memory on each of C connections, one chunked
//!                                           request each; prints what was sent, in bytes before compression
//! ```
//!
//! An example: `http_limit send 127.0.0.1:9514 /insert/jsonline lines.json 20`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use tokio_stream::StreamExt;

/// Bytes of one chunk of a request, as in curl.
const CHUNK_BYTES: usize = 64 << 10;

pub(crate) fn main() -> std::io::Result<()> {
    let mut args: Vec<String> = crate::arguments().collect();
    let connections = option(&mut args, "--connections").map_or(1, |text| number(&text));
    let encoding = ["gzip", "zstd"].into_iter().find(|name| flag(&mut args, &format!("--{name}")));
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["sink", address] => sink(address),
        ["send", address, path, file] => send(address, path, file, 1, connections, encoding),
        ["send", address, path, file, times] => {
            send(address, path, file, number(times), connections, encoding)
        }
        _ => {
            eprintln!(
                "usage: http_limit sink ADDRESS\n       \
                 http_limit send ADDRESS PATH FILE [N] [--connections C] [--gzip | --zstd]"
            );
            std::process::exit(2);
        }
    }
}

fn number(text: &str) -> usize {
    text.parse().unwrap_or_else(|_| panic!("'{text}' is no number"))
}

fn flag(args: &mut Vec<String>, name: &str) -> bool {
    let before = args.len();
    args.retain(|arg| arg != name);
    args.len() < before
}

fn option(args: &mut Vec<String>, name: &str) -> Option<String> {
    let place = args.iter().position(|arg| arg == name)?;
    args.remove(place);
    (place < args.len()).then(|| args.remove(place))
}

fn sink(address: &str) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(address).await?;
        axum::serve(listener, Router::new().fallback(post(count))).await
    })
}

async fn count(body: Body) -> String {
    let started = Instant::now();
    let mut stream = body.into_data_stream();
    let (mut lines, mut bytes) = (0, 0);
    while let Some(Ok(chunk)) = stream.next().await {
        lines += memchr::memchr_iter(b'\n', &chunk).count();
        bytes += chunk.len();
    }
    report("http-sink", lines, bytes, started);
    format!("{{\"lines\":{lines}}}\n")
}

fn send(
    address: &str,
    path: &str,
    file: &str,
    times: usize,
    connections: usize,
    encoding: Option<&str>,
) -> std::io::Result<()> {
    let content = std::fs::read(file)?;
    let lines = memchr::memchr_iter(b'\n', &content).count();
    let body = match encoding {
        None => content.clone(),
        Some("gzip") => {
            let mut gzip =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            gzip.write_all(&content)?;
            gzip.finish()?
        }
        Some(_) => zstd::encode_all(&content[..], 3)?,
    };
    // Encoded for the wire: chunk after chunk, each with its length.
    let mut wire = Vec::with_capacity(body.len() + body.len() / 1000);
    for chunk in body.chunks(CHUNK_BYTES) {
        write!(wire, "{:x}\r\n", chunk.len())?;
        wire.extend_from_slice(chunk);
        wire.extend_from_slice(b"\r\n");
    }
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n{}\r\n",
        encoding.map_or(String::new(), |name| format!("Content-Encoding: {name}\r\n")),
    );
    let started = Instant::now();
    std::thread::scope(|scope| {
        let senders: Vec<_> = (0..connections)
            .map(|_| scope.spawn(|| send_one(address, &head, &wire, times)))
            .collect();
        senders.into_iter().try_for_each(|sender| sender.join().expect("no sender panics"))
    })?;
    let all = times * connections;
    report("http-sender", lines * all, content.len() * all, started);
    Ok(())
}

/// One request, and its response.
fn send_one(address: &str, head: &str, wire: &[u8], times: usize) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(head.as_bytes())?;
    for _ in 0..times {
        stream.write_all(wire)?;
    }
    stream.write_all(b"0\r\n\r\n")?;
    let mut answer = BufReader::new(stream);
    let mut status = String::new();
    answer.read_line(&mut status)?;
    if !status.starts_with("HTTP/1.1 200") {
        let mut rest = String::new();
        answer.read_to_string(&mut rest)?;
        return Err(std::io::Error::other(format!("{status}{rest}")));
    }
    answer.read_to_end(&mut Vec::new())?;
    Ok(())
}

fn report(who: &str, lines: usize, bytes: usize, started: Instant) {
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{who} lines={lines} bytes={bytes} seconds={seconds:.3} lines_per_s={:.0} gbit_per_s={:.2}",
        lines as f64 / seconds,
        bytes as f64 * 8.0 / seconds / 1e9
    );
}
