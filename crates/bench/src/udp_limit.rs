//! The two ends of an ingest benchmark over UDP: a sink that only counts datagrams, which is the
//! limit for the collector; the collector in front of a store that discards everything; and a
//! sender with many addresses.
//!
//! ```text
//! udp_limit sink ADDRESS SOCKETS       counts datagrams, one thread per socket, until none came for two seconds
//! udp_limit collect ADDRESS SOCKETS    the same with the collector's source, which builds frames and discards them
//! udp_limit send ADDRESS [--sources 50] [--sizes mixed|BYTES] [--rate 0] [--datagrams 1000000] [--burst 8]
//! ```
//!
//! `send` binds a socket to each of the addresses 127.0.0.2, 127.0.0.3, … (one network namespace:
//! the receiver must be on this machine) and takes them in turn, `--burst` datagrams each, in one
//! call (sendmmsg). `--sizes mixed` are 33, 117, 291, 1,024 and 4,176 bytes in equal numbers and
//! `--rate` is in datagrams a second; 0 is as fast as the kernel takes them. Each printed line has
//! `kernel_drops`, the datagrams the kernel dropped because a socket's receive buffer was full:
//! sent = received + dropped, or something is wrong.

use std::fs::read_to_string;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use collector::{Accounting, DropReason, SourceKind, UdpConfig, UdpSource};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg};
use platform::RealClock;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
use socket2::{Domain, Socket, Type};

use crate::traffic::{Nothing, report};

/// Datagrams read by one call of the sink.
const BATCH: usize = 64;
/// Longer than any datagram.
const DATAGRAM_BYTES_MAX: usize = 64 << 10;
/// Receive buffer requested from the kernel.
const RECEIVE_BUFFER_BYTES: usize = 64 << 20;
/// The sink polls again after this time if datagrams arrive faster than that, as the collector
/// does. Waking it for each would make sender and sink up to three times slower, so that the sink
/// would be no limit.
const PAUSE: Duration = Duration::from_micros(100);
/// A sink ends when nothing arrived for this long; this time is not counted.
const IDLE: Duration = Duration::from_secs(2);
/// Sizes of lines in the benchmarks.
const SIZES: [usize; 5] = [33, 117, 291, 1024, 4176];

pub(crate) fn main() -> io::Result<()> {
    let args: Vec<String> = crate::arguments().collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["sink", address, sockets] => sink(parse(address), parse(sockets)),
        ["collect", address, sockets] => collect(parse(address), parse(sockets)),
        ["send", address, ref options @ ..] => send(parse(address), options),
        _ => {
            eprintln!("usage: udp_limit sink|collect ADDRESS SOCKETS | udp_limit send ADDRESS …");
            std::process::exit(2);
        }
    }
}

fn parse<T: std::str::FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("'{text}' is not a valid value"))
}

fn sink(address: SocketAddr, sockets: usize) -> io::Result<()> {
    let sockets: Vec<Socket> = (0..sockets)
        .map(|_| {
            let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
            socket.set_reuse_port(true)?;
            if rustix::net::sockopt::set_socket_recv_buffer_size_force(
                &socket,
                RECEIVE_BUFFER_BYTES,
            )
            .is_err()
            {
                socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
            }
            socket.set_read_timeout(Some(IDLE))?;
            socket.bind(&address.into())?;
            Ok(socket)
        })
        .collect::<io::Result<_>>()?;
    println!("listening");
    let counted: Vec<Counted> = thread::scope(|scope| {
        let threads: Vec<_> = sockets.iter().map(|s| scope.spawn(|| count(s))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    tell("sink", &counted, kernel_drops(address)?);
    Ok(())
}

/// The datagrams of one thread, and when the first and the last arrived.
struct Counted {
    datagrams: u64,
    bytes: u64,
    first: Instant,
    last: Instant,
}

fn count(socket: &Socket) -> Counted {
    let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, None);
    let mut buffer = vec![0; BATCH * DATAGRAM_BYTES_MAX];
    let now = Instant::now();
    let mut counted = Counted { datagrams: 0, bytes: 0, first: now, last: now };
    let mut looked = now;
    loop {
        let mut slots = buffer.chunks_exact_mut(DATAGRAM_BYTES_MAX);
        let mut slots: [_; BATCH] =
            std::array::from_fn(|_| [IoSliceMut::new(slots.next().expect("one each"))]);
        let waits = MsgFlags::MSG_WAITFORONE;
        match recvmmsg(socket.as_raw_fd(), &mut headers, slots.iter_mut(), waits, None) {
            Ok(datagrams) => {
                counted.last = Instant::now();
                if counted.datagrams == 0 {
                    counted.first = counted.last;
                }
                let before = counted.datagrams;
                for datagram in datagrams {
                    counted.datagrams += 1;
                    counted.bytes += datagram.bytes as u64;
                }
                let last_but_one = std::mem::replace(&mut looked, counted.last);
                if counted.datagrams - before < BATCH as u64
                    && counted.last - last_but_one < 2 * PAUSE
                {
                    thread::sleep(PAUSE);
                }
            }
            Err(Errno::EAGAIN) if counted.datagrams == 0 && counted.first.elapsed() < 10 * IDLE => {
            }
            Err(Errno::EAGAIN) => return counted,
            Err(error) => panic!("recvmmsg: {error}"),
        }
    }
}

fn collect(address: SocketAddr, sockets: usize) -> io::Result<()> {
    let accounting = Arc::new(Accounting::default());
    let config = UdpConfig { sockets, ..UdpConfig::default() };
    let store = Arc::new(Nothing::default());
    let clock = Arc::new(RealClock::new());
    let source = UdpSource::start(address, config, store, Arc::clone(&accounting), clock);
    let source = source.map_err(io::Error::other)?;
    println!("listening");
    let counters = accounting.source(SourceKind::SyslogUdp);
    let now = Instant::now();
    let mut counted = Counted { datagrams: 0, bytes: 0, first: now, last: now };
    // Checked often enough to see begin and end to a hundredth of a second.
    while counted.last.elapsed() < IDLE * if counted.datagrams == 0 { 10 } else { 1 } {
        thread::sleep(Duration::from_millis(10));
        let lines = counters.lines_received.load(Relaxed);
        if lines > counted.datagrams {
            counted.last = Instant::now();
            if counted.datagrams == 0 {
                counted.first = counted.last;
            }
            counted.datagrams = lines;
        }
    }
    source.stop();
    counted.datagrams = counters.lines_received.load(Relaxed);
    counted.bytes = counters.bytes_received.load(Relaxed);
    tell("collect", &[counted], counters.dropped_count(DropReason::Kernel));
    Ok(())
}

/// Drops of all sockets bound to that port, from the kernel's table (proc_pid_net(5)).
fn kernel_drops(address: SocketAddr) -> io::Result<u64> {
    let table = if address.is_ipv6() { "/proc/net/udp6" } else { "/proc/net/udp" };
    let port = format!(":{:04X}", address.port());
    let rows = read_to_string(table)?;
    let rows = rows.lines().skip(1).map(|row| row.split_ascii_whitespace().collect::<Vec<_>>());
    Ok(rows
        .filter(|columns| columns.get(1).is_some_and(|local| local.ends_with(&port)))
        .map(|columns| columns.last().map_or(0, |drops| parse::<u64>(drops)))
        .sum())
}

/// The options of `send`.
struct Plan {
    sources: usize,
    sizes: Vec<usize>,
    rate: u64,
    datagrams: u64,
    burst: usize,
}

impl Plan {
    fn of(options: &[&str]) -> Plan {
        let sizes = SIZES.to_vec();
        let mut plan = Plan { sources: 50, sizes, rate: 0, datagrams: 1_000_000, burst: 8 };
        for option in options.chunks(2) {
            match *option {
                ["--sources", n] => plan.sources = parse(n),
                ["--sizes", "mixed"] => plan.sizes = SIZES.to_vec(),
                ["--sizes", n] => plan.sizes = vec![parse(n)],
                ["--rate", n] => plan.rate = parse(n),
                ["--datagrams", n] => plan.datagrams = parse(n),
                ["--burst", n] => plan.burst = parse(n),
                _ => panic!("not an option with a value: {option:?}"),
            }
        }
        plan
    }
}

fn send(address: SocketAddr, options: &[&str]) -> io::Result<()> {
    let plan = Plan::of(options);
    let senders = (0..plan.sources as u32)
        .map(|n| UdpSocket::bind((Ipv4Addr::from_bits(0x7f00_0002 + n), 0)))
        .collect::<io::Result<Vec<_>>>()?;
    // As many lines as a burst of each sender has, at least a thousand, used repeatedly.
    let mut random = fastrand::Rng::with_seed(1);
    let lines: Vec<Vec<u8>> = (0..plan.burst * plan.sources.max(1000 / plan.burst + 1))
        .map(|n| line(n, plan.sizes[random.usize(..plan.sizes.len())]))
        .collect();
    let to = address.as_any();
    let (mut sent, mut bytes) = (0, 0);
    let started = Instant::now();
    for (burst, sender) in lines.chunks_exact(plan.burst).cycle().zip(senders.iter().cycle()) {
        let left = (plan.datagrams - sent).min(plan.burst as u64) as usize;
        if left == 0 {
            break;
        }
        if plan.rate > 0 {
            let due = Duration::from_secs_f64(sent as f64 / plan.rate as f64);
            thread::sleep(due.saturating_sub(started.elapsed()));
        }
        let slices: Vec<_> = burst[..left].iter().map(|line| [IoSlice::new(line)]).collect();
        let mut controls: Vec<_> = slices.iter().map(|_| SendAncillaryBuffer::default()).collect();
        let mut messages: Vec<_> = slices
            .iter()
            .zip(&mut controls)
            .map(|(slice, control)| MMsgHdr::new_with_addr(&to, slice, control))
            .collect();
        let mut done = 0;
        while done < left {
            done += sendmmsg(sender, &mut messages[done..], SendFlags::empty())?;
        }
        sent += left as u64;
        bytes += burst[..left].iter().map(|line| line.len() as u64).sum::<u64>();
    }
    let counted = Counted { datagrams: sent, bytes, first: started, last: Instant::now() };
    tell("sender", &[counted], 0);
    Ok(())
}

/// A syslog line (RFC 3164) of this many bytes.
fn line(number: usize, bytes: usize) -> Vec<u8> {
    let mut line = format!("<13>Jan  1 00:00:00 h a: {number} ").into_bytes();
    let words = b"connection from 192.0.2.17 port 40022 accepted for user anna, session 4711; ";
    line.extend(words.iter().cycle().take(bytes.saturating_sub(line.len())));
    line.truncate(bytes);
    line
}

fn tell(who: &str, counted: &[Counted], kernel_drops: u64) {
    let seen = || counted.iter().filter(|counted| counted.datagrams > 0);
    let lines: u64 = seen().map(|counted| counted.datagrams).sum();
    let bytes: u64 = seen().map(|counted| counted.bytes).sum();
    let first = seen().map(|counted| counted.first).min();
    let last = seen().map(|counted| counted.last).max();
    let time = first.zip(last).map_or(Duration::ZERO, |(first, last)| last - first);
    report(who, lines, bytes, time, &format!(" kernel_drops={kernel_drops}"));
}
