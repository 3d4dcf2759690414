//! The two ends of an ingest benchmark over TCP: a sink that only counts newlines, which is the limit that
//! a collector is compared with, and a sender that sends a file as fast as it is taken.
//!
//! ```text
//! tcp_limit sink 127.0.0.1:6000            counts lines until the connection ends, prints lines/s
//! tcp_limit send 127.0.0.1:6000 FILE [N]   sends FILE N times from memory, prints what was sent and when
//! ```

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Instant;

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[1..] {
        ["sink", address] => sink(address),
        ["send", address, file] => send(address, file, 1),
        ["send", address, file, times] => {
            send(address, file, times.parse().expect("N is a number"))
        }
        _ => {
            eprintln!("usage: tcp_limit sink ADDRESS | tcp_limit send ADDRESS FILE [N]");
            std::process::exit(2);
        }
    }
}

fn sink(address: &str) -> std::io::Result<()> {
    let (mut stream, _) = TcpListener::bind(address)?.accept()?;
    let mut buffer = vec![0; 1 << 20];
    let (mut lines, mut bytes) = (0, 0);
    let started = Instant::now();
    loop {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        lines += memchr::memchr_iter(b'\n', &buffer[..read]).count();
        bytes += read;
    }
    report("sink", lines, bytes, started);
    Ok(())
}

fn send(address: &str, file: &str, times: usize) -> std::io::Result<()> {
    let content = std::fs::read(file)?;
    let mut stream = TcpStream::connect(address)?;
    let started = Instant::now();
    for _ in 0..times {
        stream.write_all(&content)?;
    }
    stream.shutdown(Shutdown::Write)?;
    // Returns once the other side has read everything and closed.
    let _ = stream.read(&mut [0]);
    let lines = memchr::memchr_iter(b'\n', &content).count() * times;
    report("sender", lines, content.len() * times, started);
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
