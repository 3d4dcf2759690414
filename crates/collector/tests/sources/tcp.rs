//! Syslog over TCP: framings, limits, back-pressure, and how connections end.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use collector::{Accounting, DropReason, KeepError, SourceError, SourceKind, TcpConfig, TcpSource};
use platform::ManualClock;
use record::frame::{Doubt, LINE_BYTES_MAX, PAYLOAD_BYTES_TARGET};
use record::{Format, Transport};

use crate::recorder::{PATIENCE, Recorder, check_counts, read_until_closed};

const NOW_NS: i64 = 1_700_000_000_000_000_000;

fn start_with(config: TcpConfig) -> (TcpSource, Arc<Recorder>, Arc<Accounting>) {
    let (recorder, accounting) = (Recorder::new(), Arc::new(Accounting::default()));
    let clock = Arc::new(ManualClock::new(NOW_NS));
    let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let source = TcpSource::start(address, config, recorder.clone(), accounting.clone(), clock);
    (source.unwrap(), recorder, accounting)
}

fn threads(threads: usize) -> TcpConfig {
    TcpConfig { threads: NonZero::new(threads).unwrap(), ..TcpConfig::default() }
}

fn start() -> (TcpSource, Arc<Recorder>, Arc<Accounting>) {
    start_with(TcpConfig::default())
}

fn connect(source: &TcpSource) -> TcpStream {
    let stream = TcpStream::connect(source.local_addr()).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Ends the sender's side and waits until the source has closed, so that everything sent is in
/// frames.
fn finish(mut stream: TcpStream) {
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

/// Waits until the source has closed a connection, whether it read all that was sent or not.
#[track_caller]
fn expect_closed(stream: &mut TcpStream) {
    assert_eq!(read_until_closed(stream), b"");
}

/// Ends the connection with a reset.
fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
}

/// The largest buffer that the kernel gives to one side of a connection.
fn kernel_limit(name: &str) -> usize {
    let limits = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap();
    limits.split_whitespace().last().unwrap().parse().unwrap()
}

#[test]
fn both_framings_on_one_port() {
    let (source, recorder, accounting) = start();
    let mut newline = connect(&source);
    let mut counted = connect(&source);
    let addresses = [newline.local_addr().unwrap(), counted.local_addr().unwrap()];
    newline.write_all(b"<13>one\n<13>two\r\n15 <13>counted\n too").unwrap();
    counted.write_all(b"7 <1>five8 <13>four\n9 <13>plain<2>newline\nend").unwrap();
    finish(newline);
    finish(counted);
    source.stop();
    let expected: [&[u8]; 3] = [b"<13>one", b"<13>two\r", b"<13>counted\n to"];
    assert_eq!(recorder.lines_of(addresses[0])[..3], expected);
    assert_eq!(recorder.lines_of(addresses[0])[3], b"o");
    let expected: [&[u8]; 5] = [b"<1>five", b"<13>four", b"<13>plain", b"<2>newline", b"end"];
    assert_eq!(recorder.lines_of(addresses[1]), expected);
    check_counts(&accounting, SourceKind::SyslogTcp, 9, 9, &[]);
    let counters = accounting.source(SourceKind::SyslogTcp);
    assert_eq!(counters.connections_total.load(Relaxed), 2);
    assert_eq!(counters.connections_open.load(Relaxed), 0);
    let origin = recorder.frames()[0].origins()[0].clone();
    assert_eq!((origin.transport, origin.format), (Transport::SyslogTcp, Format::Syslog));
    assert_eq!(recorder.frames()[0].header().received_min_ns, NOW_NS);
}

#[test]
fn random_bytes_come_back_as_they_were_sent() {
    let seed = std::env::var("LOGINSON_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("LOGINSON_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut stream: Vec<u8> = (0..5 << 20).map(|_| random.u8(..)).collect();
    // A stream that begins as one of another protocol is refused.
    stream[0] = b'x';
    stream.push(b'\n');
    let (source, recorder, accounting) = start();
    let mut sender = connect(&source);
    let mut rest = stream.as_slice();
    while !rest.is_empty() {
        let (write, left) = rest.split_at(random.usize(1..=rest.len().min(100_000)));
        sender.write_all(write).unwrap();
        rest = left;
    }
    finish(sender);
    source.stop();
    let mut found = Vec::new();
    for (line, ..) in recorder.lines() {
        found.extend_from_slice(&line);
        found.push(b'\n');
    }
    assert!(found == stream, "the bytes differ");
    let lines = stream.iter().filter(|&&byte| byte == b'\n').count() as u64;
    check_counts(&accounting, SourceKind::SyslogTcp, lines, lines, &[]);
}

#[test]
fn a_line_without_end_is_cut_and_counted() {
    let (source, recorder, accounting) = start();
    let mut sender = connect(&source);
    let mebibyte = vec![b'x'; 1 << 20];
    for _ in 0..64 {
        sender.write_all(&mebibyte).unwrap();
    }
    sender.write_all(b"\n<13>next\n").unwrap();
    finish(sender);
    source.stop();
    let lines: Vec<_> = recorder.lines().into_iter().map(|line| (line.0.len(), line.2)).collect();
    assert_eq!(lines, [(LINE_BYTES_MAX, true), (8, false)]);
    check_counts(&accounting, SourceKind::SyslogTcp, 2, 2, &[(DropReason::Oversized, 1)]);
}

#[test]
fn incomplete_lines_of_all_connections_are_bounded_together() {
    let config = TcpConfig { carry_bytes_total_max: 100_000, ..TcpConfig::default() };
    let (source, recorder, accounting) = start_with(config);
    let mut senders: Vec<_> = (0..3).map(|_| connect(&source)).collect();
    // One after the other, so that it is known which is the longest when the limit is exceeded.
    senders[0].write_all(&[b'a'; 60_000]).unwrap();
    senders[1].write_all(&[b'b'; 30_000]).unwrap();
    senders[2].write_all(&[b'c'; 20_000]).unwrap();
    recorder.wait_for_lines(1);
    let cut = recorder.lines().remove(0);
    assert!(cut.2 && cut.0.len() < 60_001, "{} bytes, cut: {}", cut.0.len(), cut.2);
    for mut sender in senders {
        sender.write_all(b"end\nnext\n").unwrap();
        finish(sender);
    }
    source.stop();
    check_counts(&accounting, SourceKind::SyslogTcp, 6, 6, &[(DropReason::Oversized, 1)]);
    let lines = recorder.lines();
    assert_eq!(lines.iter().filter(|line| line.0 == b"next").count(), 3);
    assert_eq!(lines.iter().filter(|line| line.0.ends_with(b"end")).count(), 2);
}

#[test]
fn silent_and_slow_senders_do_not_delay_a_fast_one() {
    let (source, recorder, accounting) = start();
    let silent = connect(&source);
    let mut half_line = connect(&source);
    half_line.write_all(b"<13>half a li").unwrap();
    let mut slow = connect(&source);
    let slow_address = slow.local_addr().unwrap();
    let fast_lines = 200_000;
    let fast = connect(&source);
    let fast_address = fast.local_addr().unwrap();
    let fast = std::thread::spawn(move || {
        let mut writer = std::io::BufWriter::new(fast);
        for n in 0..fast_lines {
            writeln!(writer, "<13>fast {n}").unwrap();
        }
        finish(writer.into_inner().unwrap());
    });
    for (written, byte) in b"<13>slow\n<13>slow\n".iter().enumerate() {
        slow.write_all(&[*byte]).unwrap();
        if written == 8 {
            recorder.wait_for_lines(1);
        }
    }
    fast.join().unwrap();
    finish(slow);
    recorder.wait_for_lines(fast_lines + 2);
    half_line.write_all(b"ne\n").unwrap();
    recorder.wait_for_lines(fast_lines + 3);
    drop(silent);
    source.stop();
    assert_eq!(recorder.lines_of(slow_address), [b"<13>slow", b"<13>slow"]);
    assert_eq!(recorder.lines_of(half_line.local_addr().unwrap()), [b"<13>half a line"]);
    let expected = (0..fast_lines).map(|n| format!("<13>fast {n}").into_bytes());
    assert!(recorder.lines_of(fast_address).into_iter().eq(expected));
    let total = fast_lines as u64 + 3;
    check_counts(&accounting, SourceKind::SyslogTcp, total, total, &[]);
}

#[test]
fn a_trickle_arrives_while_a_flood_goes_on() {
    // One thread, so that both connections share it.
    let (source, recorder, _) = start_with(threads(1));
    let floods: Vec<_> = (0..4)
        .map(|_| {
            let (mut flood, is_over) = (connect(&source), Arc::new(AtomicBool::new(false)));
            let told = Arc::clone(&is_over);
            let lines = b"<13>a line of the flood\n".repeat(10_000);
            let thread = std::thread::spawn(move || {
                let mut bytes = 0;
                while !told.load(Relaxed) {
                    flood.write_all(&lines).unwrap();
                    bytes += lines.len();
                }
                finish(flood);
                bytes
            });
            (is_over, thread)
        })
        .collect();
    recorder.count_lines_with(b"trickle");
    let mut trickle = connect(&source);
    for number in 1..=20 {
        writeln!(trickle, "<13>trickle {number}").unwrap();
        recorder.wait_for_lines_with(number);
        assert!(floods.iter().all(|(_, thread)| !thread.is_finished()), "the flood goes on");
    }
    let mut bytes = 0;
    for (is_over, thread) in floods {
        is_over.store(true, Relaxed);
        bytes += thread.join().unwrap();
    }
    assert!(bytes > 0);
}

#[test]
fn several_threads_share_the_connections_and_keep_the_order_of_each() {
    let (source, recorder, accounting) = start_with(threads(3));
    let mut senders: Vec<_> = (0..30).map(|_| connect(&source)).collect();
    for round in 0..100 {
        for sender in &mut senders {
            writeln!(sender, "<13>{round}").unwrap();
        }
    }
    recorder.wait_for_lines(3000);
    let counters = accounting.source(SourceKind::SyslogTcp);
    assert_eq!(counters.connections_open.load(Relaxed), 30);
    let addresses: Vec<_> = senders.iter().map(|sender| sender.local_addr().unwrap()).collect();
    // Half of them end; the others are closed by stopping.
    senders.drain(..15).for_each(finish);
    senders.iter_mut().for_each(|sender| sender.write_all(b"<13>last\n").unwrap());
    source.stop();
    check_counts(&accounting, SourceKind::SyslogTcp, 3015, 3015, &[]);
    assert_eq!(counters.connections_open.load(Relaxed), 0);
    for address in addresses {
        let lines = recorder.lines_of(address);
        assert!(
            lines.iter().take(100).cloned().eq((0..100).map(|r| format!("<13>{r}").into_bytes()))
        );
    }
}

#[test]
fn random_framings_in_random_writes_over_several_connections() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (source, recorder, accounting) = start_with(threads(2));
    let mut connections: Vec<_> = (0..8)
        .map(|_| {
            let (mut stream, mut lines) = (Vec::new(), Vec::new());
            let counted_one_in = [1, 2, 1000][random.usize(..3)];
            let mut is_counted = false;
            for number in 0..2000 {
                let fill = "x".repeat(random.usize(..10).pow(random.u32(1..5)));
                if random.usize(..counted_one_in) == 0 {
                    let line = format!("<13>{number}\n{fill}");
                    stream.extend_from_slice(format!("{} {line}", line.len()).as_bytes());
                    lines.push(line.trim_end_matches('\n').as_bytes().to_vec());
                    is_counted = true;
                } else {
                    // Behind a counted message, this would be a count.
                    let may_look_counted = !std::mem::take(&mut is_counted);
                    let digits = if may_look_counted && random.bool() { "17 <b" } else { "<13>" };
                    let line = format!("{digits}{number} 5 <1 {fill}");
                    stream.extend_from_slice(format!("{line}\n").as_bytes());
                    lines.push(line.into_bytes());
                }
            }
            let sender = connect(&source);
            (sender.local_addr().unwrap(), sender, stream, 0, lines)
        })
        .collect();
    while connections.iter().any(|(_, _, stream, written, _)| *written < stream.len()) {
        let (_, sender, stream, written, _) = random.choice(connections.iter_mut()).unwrap();
        let rest = &stream[*written..];
        if !rest.is_empty() {
            let largest = [10, 1000, 1 << 20][random.usize(..3)];
            let bytes = random.usize(1..=rest.len().min(largest));
            sender.write_all(&rest[..bytes]).unwrap();
            *written += bytes;
        }
    }
    let total: u64 = connections.iter().map(|connection| connection.4.len() as u64).sum();
    for (address, sender, _, _, expected) in connections {
        finish(sender);
        recorder.wait_for_sender(address, expected.len());
        assert!(recorder.lines_of(address) == expected, "the lines differ");
    }
    source.stop();
    check_counts(&accounting, SourceKind::SyslogTcp, total, total, &[]);
    let counts = accounting.source(SourceKind::SyslogTcp).counts();
    let bytes: usize = recorder.lines().iter().map(|line| line.0.len()).sum();
    assert_eq!((counts.bytes_received, counts.bytes_missing()), (bytes as u64, 0));
}

#[test]
fn a_silent_connection_is_closed_only_when_asked_for() {
    // On a slow machine the time may be over before the first bytes are sent.
    let times = [100, 1_000, 10_000, 100_000].map(Duration::from_millis);
    let closed = times.into_iter().find_map(|time| {
        let idle_timeout = Some(time);
        let (source, recorder, accounting) =
            start_with(TcpConfig { idle_timeout, ..TcpConfig::default() });
        let mut silent = connect(&source);
        let _ = silent.write_all(b"<13>one\n<13>half");
        expect_closed(&mut silent);
        source.stop();
        (!recorder.lines().is_empty()).then_some((recorder, accounting))
    });
    let (recorder, accounting) = closed.expect("a time that is long enough");
    assert_eq!(recorder.lines().len(), 2);
    check_counts(&accounting, SourceKind::SyslogTcp, 2, 2, &[(DropReason::Reset, 1)]);
    let counters = accounting.source(SourceKind::SyslogTcp);
    assert_eq!(counters.connections_timed_out.load(Relaxed), 1);
}

#[test]
fn a_thousand_connections() {
    let (source, recorder, accounting) = start();
    let mut senders: Vec<_> = (0..1000).map(|_| connect(&source)).collect();
    for round in 0..3 {
        for sender in &mut senders {
            writeln!(sender, "<13>{} {round}", sender.local_addr().unwrap()).unwrap();
        }
    }
    recorder.wait_for_lines(3000);
    assert_eq!(accounting.source(SourceKind::SyslogTcp).connections_open.load(Relaxed), 1000);
    let addresses: Vec<_> = senders.iter().map(|sender| sender.local_addr().unwrap()).collect();
    senders.into_iter().for_each(finish);
    source.stop();
    let mut lines = recorder.lines();
    lines.sort_by_key(|line| line.1.sender);
    assert_eq!(lines.len(), 3000);
    for address in addresses {
        let first = lines.partition_point(|line| line.1.sender < Some(address));
        let texts = lines[first..first + 3].iter().map(|line| line.0.clone());
        assert!(texts.eq((0..3).map(|round| format!("<13>{address} {round}").into_bytes())));
    }
    assert_eq!(accounting.source(SourceKind::SyslogTcp).connections_open.load(Relaxed), 0);
}

#[test]
fn one_connection_more_than_allowed_is_closed_and_counted() {
    let (source, recorder, accounting) =
        start_with(TcpConfig { connections_max: 2, ..TcpConfig::default() });
    let mut senders = [connect(&source), connect(&source)];
    for sender in &mut senders {
        sender.write_all(b"x\n").unwrap();
    }
    recorder.wait_for_lines(2);
    let mut refused = connect(&source);
    expect_closed(&mut refused);
    let counters = accounting.source(SourceKind::SyslogTcp);
    assert_eq!(counters.connections_refused.load(Relaxed), 1);
    // A slot is free again once another connection has closed.
    let [first, mut second] = senders;
    finish(first);
    let mut third = connect(&source);
    third.write_all(b"third\n").unwrap();
    recorder.wait_for_lines(3);
    second.write_all(b"second\n").unwrap();
    recorder.wait_for_lines(4);
    assert_eq!(counters.connections_refused.load(Relaxed), 1);
    assert_eq!(counters.connections_total.load(Relaxed), 3);
}

#[test]
fn blocked_delivery_pushes_the_sender_back_and_loses_nothing() {
    let (source, recorder, accounting) = start();
    recorder.block(true);
    let mut sender = connect(&source);
    let mut sent = 0;
    sender.set_nonblocking(true).unwrap();
    let lines = b"<13>a line that is sent over and over again\n".repeat(1000);
    // More than all buffers on the way hold: at some point the sender blocks.
    let error = loop {
        match sender.write(&lines[sent % lines.len()..]) {
            Ok(bytes) => sent += bytes,
            Err(error) => break error,
        }
        assert!(sent < 1 << 30, "the sender is never pushed back");
    };
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    recorder.wait_until_blocked();
    // The sent lines are in the kernel's buffers and in two frames: the one being delivered, and
    // the next.
    let kernel_bytes = kernel_limit("tcp_wmem") + kernel_limit("tcp_rmem");
    assert!(sent < kernel_bytes + 2 * PAYLOAD_BYTES_TARGET, "{sent} bytes were taken");
    recorder.block(false);
    sender.set_nonblocking(false).unwrap();
    sender.write_all(&lines[sent % lines.len()..]).unwrap();
    finish(sender);
    source.stop();
    let expected = sent.div_ceil(lines.len()) as u64 * 1000;
    assert_eq!(recorder.lines().len() as u64, expected);
    check_counts(&accounting, SourceKind::SyslogTcp, expected, expected, &[]);
}

#[test]
fn a_full_disk_is_waited_for_and_given_up_only_when_stopping() {
    let (source, recorder, accounting) = start();
    let mut sender = connect(&source);
    recorder.refuse(Some(KeepError::DiskFull));
    sender.write_all(b"one\n").unwrap();
    recorder.wait_until_asked_while_full();
    recorder.refuse(None);
    recorder.wait_for_lines(1);
    recorder.refuse(Some(KeepError::DiskFull));
    recorder.fail(KeepError::DiskFull);
    sender.write_all(b"two\nthree\n").unwrap();
    source.stop();
    check_counts(&accounting, SourceKind::SyslogTcp, 3, 1, &[(DropReason::DiskFull, 2)]);
}

#[test]
fn a_connection_that_ends_within_a_line_leaves_what_came() {
    let check = |sent: &[u8], line: &[u8], end: fn(TcpStream), resets: u64| {
        let (source, recorder, accounting) = start();
        let mut sender = connect(&source);
        // In one write, so that once the first line is there, the second has been read as well.
        sender.write_all(&[b"first\n", sent].concat()).unwrap();
        recorder.wait_for_lines(1);
        end(sender);
        recorder.wait_for_lines(2);
        source.stop();
        assert_eq!(recorder.lines()[1].0, line);
        let drops = [(DropReason::Reset, resets)];
        check_counts(&accounting, SourceKind::SyslogTcp, 2, 2, &drops[..resets as usize]);
    };
    check(b"no newline", b"no newline", finish, 0);
    check(b"no newline", b"no newline", reset, 1);
    check(b"12 <13>short", b"<13>short", finish, 1);
    check(b"12 <13>short", b"<13>short", reset, 1);
    check(b"12 <1", b"12 <1", finish, 0);
    check(b"whole\n", b"whole", finish, 0);
    check(b"whole\n", b"whole", reset, 0);
}

#[test]
fn stopping_takes_what_has_arrived() {
    for delivery_blocks in [false, true] {
        let (source, recorder, accounting) = start();
        recorder.block(delivery_blocks);
        let mut senders: Vec<_> = (0..50).map(|_| connect(&source)).collect();
        for sender in &mut senders {
            sender.write_all(&b"<13>one of many\n".repeat(100)).unwrap();
            sender.write_all(b"half").unwrap();
        }
        recorder.block(false);
        source.stop();
        let drops = [(DropReason::Reset, 50)];
        check_counts(&accounting, SourceKind::SyslogTcp, 5050, 5050, &drops);
        assert_eq!(accounting.source(SourceKind::SyslogTcp).connections_open.load(Relaxed), 0);
        expect_closed(&mut senders[0]);
    }
}

#[test]
fn a_port_in_use_is_an_error_with_a_remedy() {
    let (source, recorder, accounting) = start();
    let clock = Arc::new(ManualClock::new(NOW_NS));
    let address = source.local_addr();
    let second = TcpSource::start(address, TcpConfig::default(), recorder, accounting, clock);
    let Err(error) = second else { panic!("two sources on one address") };
    assert!(matches!(error, SourceError::AddressInUse { .. }));
    assert!(error.to_string().contains("--syslog-tcp-listen"), "{error}");
}

/// What the standard library of Python sends by `SysLogHandler` with `SOCK_STREAM`, log4j2 and
/// winston without a newline, and GELF: each message in a write of its own, or several in one.
#[test]
fn messages_separated_by_nul_or_by_pauses_are_split() {
    let check = |writes: &[&[u8]], expected: &[&[u8]]| {
        let (source, recorder, accounting) = start();
        let mut sender = connect(&source);
        for write in writes {
            sender.write_all(write).unwrap();
        }
        // They arrive before the end of the connection.
        recorder.wait_for_lines(expected.len());
        finish(sender);
        source.stop();
        let found: Vec<_> = recorder.lines().into_iter().map(|line| line.0).collect();
        assert_eq!(found, expected, "{:?}", writes[0].escape_ascii().to_string());
        let lines = expected.len() as u64;
        check_counts(&accounting, SourceKind::SyslogTcp, lines, lines, &[]);
    };
    check(
        &[
            b"<14>app: one\nTraceback (most recent call last):\n  File \"a.py\"\nValueError: x\0",
            b"<14>app: two <13> three\0<11>app: four\0",
        ],
        &[
            b"<14>app: one\nTraceback (most recent call last):\n  File \"a.py\"\nValueError: x",
            b"<14>app: two <13> three",
            b"<11>app: four",
        ],
    );
    check(&[b"<14>app: only\0"], &[b"<14>app: only"]);
    check(
        &[
            b"<14>Oct 11 22:14:15 host app: one <13>",
            b"<14>Oct 11 22:14:15 host app: two\n\tat three<14>Oct 11 22:14:15 host app: four",
        ],
        &[
            b"<14>Oct 11 22:14:15 host app: one <13>",
            b"<14>Oct 11 22:14:15 host app: two\n\tat three",
            b"<14>Oct 11 22:14:15 host app: four",
        ],
    );
    check(
        &[b"{\"version\":\"1.1\",\"short_message\":\"one\"}\0{\"version\":\"1.1\"}\0"],
        &[b"{\"version\":\"1.1\",\"short_message\":\"one\"}", b"{\"version\":\"1.1\"}"],
    );
    check(&[b"<14>a line\n"], &[b"<14>a line"]);
    check(&[b"5 hello5 world"], &[b"hello", b"world"]);
}

/// rsyslog with `ZipLevel`, which counts compressed messages only; a sender that counts characters;
/// and data that looks compressed.
#[test]
fn compressed_messages_are_decompressed_and_wrong_counts_are_noted() {
    let zipped = |text: &str| {
        let mut encoder =
            flate2::write::ZlibEncoder::new(b"z".to_vec(), flate2::Compression::best());
        encoder.write_all(text.as_bytes()).unwrap();
        let message = encoder.finish().unwrap();
        [format!("{} ", message.len()).into_bytes(), message].concat()
    };
    let long = format!("<13>Oct 11 22:14:15 host app: {}", "a".repeat(500));
    let (source, recorder, accounting) = start();
    let mut sender = connect(&source);
    let parts =
        [b"<13>plain\n".to_vec(), zipped(&long), zipped("<13>a\nb"), b"<13>more\n".to_vec()];
    sender.write_all(&parts.concat()).unwrap();
    finish(sender);
    recorder.wait_for_lines(4);
    let mut sender = connect(&source);
    let parts = ["7 <13>hé", "xy7 <13>one7 <13>two", "10 zx\u{1}       "].concat();
    sender.write_all(parts.as_bytes()).unwrap();
    finish(sender);
    recorder.wait_for_lines(8);
    source.stop();
    let frames = recorder.frames();
    let lines: Vec<_> = frames.iter().flat_map(record::Frame::lines).collect();
    let found: Vec<_> = lines
        .iter()
        .map(|line| (String::from_utf8_lossy(line.bytes).into_owned(), line.doubt))
        .collect();
    let text = |text: &str, doubt| (text.to_owned(), doubt);
    let expected = [
        text("<13>plain", None),
        text(&long, None),
        text("<13>a\nb", None),
        text("<13>more", None),
        text("<13>héxy", Some(Doubt::Framing)),
        text("<13>one", None),
        text("<13>two", None),
        text("zx\u{1}       ", Some(Doubt::Compression)),
    ];
    assert_eq!(found, expected);
    let counts = accounting.source(SourceKind::SyslogTcp).counts();
    assert_eq!((counts.framing_lost, counts.undecompressed), (1, 1));
    check_counts(&accounting, SourceKind::SyslogTcp, 8, 8, &[]);
}

/// rsyslog with `compression.mode="stream:always"`, and compressed data that are damaged.
#[test]
fn compressed_connections_are_decompressed() {
    let compressed = |text: &str| {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.flush().unwrap();
        encoder.get_ref().clone()
    };
    let (source, recorder, accounting) = start();
    let mut sender = connect(&source);
    let long = format!("<14>{}", "a".repeat(300_000));
    sender.write_all(&compressed(&format!("<14>one\n{long}\n<14>two\n"))).unwrap();
    finish(sender);
    recorder.wait_for_lines(3);
    let mut sender = connect(&source);
    sender.write_all(&[compressed("<14>three\n"), vec![0xff; 100]].concat()).unwrap();
    expect_closed(&mut sender);
    recorder.wait_for_lines(4);
    source.stop();
    let frames = recorder.frames();
    let lines: Vec<_> = frames.iter().flat_map(record::Frame::lines).map(|l| l.bytes).collect();
    assert_eq!(lines, [&b"<14>one"[..], long.as_bytes(), b"<14>two", b"<14>three"]);
    let counts = accounting.source(SourceKind::SyslogTcp).counts();
    assert_eq!(counts.dropped(DropReason::BadRequest).lines, 1);
    assert_eq!((counts.lines_kept, counts.lines_missing()), (4, 0));
}

#[test]
fn connections_of_other_protocols_are_refused_and_counted() {
    let (source, recorder, accounting) = start();
    let samples: [&[u8]; 7] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"1 open 92 relp_version=0\nrelp_software=librelp,1.11.0\n",
        b"\x93\xa7app.log\xcejU\xf0\x00\x81\xa3msg\xa5hello",
        b"2W\0\0\0\x012J\0\0\0\x01",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"LGNH\x02\0\0\0",
        b"\x1f\x8b\x08\0\0\0\0\0",
    ];
    for sample in samples {
        // In one write, and byte by byte.
        for step in [sample.len(), 1] {
            let mut sender = connect(&source);
            let _ = sample.chunks(step).try_for_each(|part| sender.write_all(part));
            expect_closed(&mut sender);
        }
    }
    let mut browser = connect(&source);
    browser.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut answer = String::new();
    browser.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("http_listen"), "{answer}");
    source.stop();
    assert_eq!(recorder.lines(), [], "nothing of it is kept");
    let refused = 2 * samples.len() as u64 + 1;
    let drops = [(DropReason::WrongProtocol, refused)];
    check_counts(&accounting, SourceKind::SyslogTcp, refused, 0, &drops);
    let counts = accounting.source(SourceKind::SyslogTcp).counts();
    assert_eq!((counts.connections_open, counts.bytes_missing()), (0, 0));
}

#[test]
fn many_undecided_connections_are_bounded_and_do_not_delay_others() {
    let config = TcpConfig { carry_bytes_total_max: 100_000, ..TcpConfig::default() };
    let (source, recorder, accounting) = start_with(config);
    let held = b"<14>held ".iter().copied().chain([b'x'; 3_000]).collect::<Vec<u8>>();
    let mut senders: Vec<_> = (0..100).map(|_| connect(&source)).collect();
    for sender in &mut senders {
        sender.write_all(&held).unwrap();
    }
    let mut honest = connect(&source);
    honest.write_all(b"<14>one\n<14>two\n").unwrap();
    recorder.wait_for_lines(102);
    for sender in senders {
        finish(sender);
    }
    finish(honest);
    source.stop();
    let lines = recorder.lines();
    assert_eq!(lines.iter().filter(|line| line.0 == b"<14>two").count(), 1);
    assert_eq!(lines.iter().filter(|line| line.0 == held).count(), 100);
    assert!(accounting.source(SourceKind::SyslogTcp).counts().lines_missing() == 0);
}
