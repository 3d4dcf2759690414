//! Syslog datagrams: kept byte for byte, and every lost one counted.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use collector::{Accounting, DropReason, KeepError, SourceError, SourceKind, UdpConfig, UdpSource};
use platform::ManualClock;
use record::frame::Doubt;
use record::{Format, Transport};

use crate::recorder::{Recorder, check_counts};

const NOW_NS: i64 = 1_700_000_000_000_000_000;

fn start_with(address: &str, config: UdpConfig) -> (UdpSource, Arc<Recorder>, Arc<Accounting>) {
    let (recorder, accounting) = (Recorder::new(), Arc::new(Accounting::default()));
    let address: SocketAddr = address.parse().unwrap();
    let clock = Arc::new(ManualClock::new(NOW_NS));
    let source = UdpSource::start(address, config, recorder.clone(), accounting.clone(), clock);
    (source.unwrap(), recorder, accounting)
}

fn start() -> (UdpSource, Arc<Recorder>, Arc<Accounting>) {
    start_with("127.0.0.1:0", sockets(1))
}

fn sockets(sockets: usize) -> UdpConfig {
    UdpConfig { sockets, ..UdpConfig::default() }
}

fn sender_to(source: &UdpSource) -> UdpSocket {
    let address = source.local_addr();
    let any_port = if address.is_ipv6() { "[::1]:0" } else { "127.0.0.1:0" };
    let sender = UdpSocket::bind(any_port).unwrap();
    sender.connect(address).unwrap();
    sender
}

#[test]
fn a_datagram_is_a_line_byte_for_byte() {
    let (source, recorder, accounting) = start();
    let sender = sender_to(&source);
    let largest = vec![b'x'; 65_507];
    let random: Vec<u8> = (0..1000).map(|_| fastrand::u8(..)).chain([b'.']).collect();
    let datagrams: [(&[u8], Option<&[u8]>); 8] = [
        (b"<13>one", Some(b"<13>one")),
        (b"<13>two\n", Some(b"<13>two")),
        (b"three\nlines\r\n\n", Some(b"three\nlines\r\n")),
        (b"", None),
        (b"\n", None),
        (b"\0", Some(b"\0")),
        (&largest, Some(&largest)),
        (&random, Some(&random)),
    ];
    for (datagram, _) in datagrams {
        sender.send(datagram).unwrap();
    }
    source.stop();
    let expected: Vec<&[u8]> = datagrams.into_iter().filter_map(|datagram| datagram.1).collect();
    assert_eq!(recorder.lines_of(sender.local_addr().unwrap()), expected);
    check_counts(&accounting, SourceKind::SyslogUdp, 6, 6, &[]);
    let origin = recorder.frames()[0].origins()[0].clone();
    assert_eq!((origin.transport, origin.format), (Transport::SyslogUdp, Format::Syslog));
    assert_eq!(recorder.frames()[0].header().received_min_ns, NOW_NS);
}

#[test]
fn datagrams_of_other_protocols_are_refused_and_counted() {
    let (source, recorder, accounting) = start();
    let sender = sender_to(&source);
    let foreign: [&[u8]; 5] = [
        b"x\x9c\xab\x56",
        b"\x1f\x8b\x08\0\0",
        b"\x1e\x0f12345678\x02\x02",
        b"zx\x9c\xab",
        b"\x16\xfe\xfd\0",
    ];
    for datagram in foreign {
        sender.send(datagram).unwrap();
    }
    // Python's SysLogHandler also ends a datagram with NUL; the parser removes it.
    sender.send(b"<14>app: one\0").unwrap();
    // Whole compressed messages of rsyslog and GELF are no other protocol.
    let mut zlib = flate2::write::ZlibEncoder::new(b"z".to_vec(), flate2::Compression::fast());
    zlib.write_all(b"<14>app: two\n").unwrap();
    sender.send(&zlib.finish().unwrap()).unwrap();
    // A checksum that ends as a line does: its last byte is that of the sum of all bytes, and 97 is
    // odd.
    let (text, message) = (0..256)
        .find_map(|length| {
            let text = format!("<14>app: {}", "a".repeat(length));
            let mut zlib =
                flate2::write::ZlibEncoder::new(b"z".to_vec(), flate2::Compression::best());
            zlib.write_all(text.as_bytes()).unwrap();
            let message = zlib.finish().unwrap();
            message.ends_with(b"\n").then_some((text, message))
        })
        .unwrap();
    sender.send(&message).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(b"{\"version\":\"1.1\"}").unwrap();
    let gelf = gzip.finish().unwrap();
    sender.send(&gelf).unwrap();
    // The same in chunks, the last one first, and a message whose other chunk does not come.
    let chunk = |id: u8, number: u8, part: &[u8]| {
        [&[0x1e, 0x0f, id, 0, 0, 0, 0, 0, 0, 0, number, 2], part].concat()
    };
    let (begin, end) = gelf.split_at(7);
    for datagram in [chunk(1, 1, end), chunk(2, 0, b"{"), chunk(1, 0, begin)] {
        sender.send(&datagram).unwrap();
    }
    source.stop();
    let object = b"{\"version\":\"1.1\"}";
    let expected: [&[u8]; 5] =
        [b"<14>app: one\0", b"<14>app: two", text.as_bytes(), object, object];
    assert_eq!(recorder.lines_of(sender.local_addr().unwrap()), expected);
    let dropped = [(DropReason::WrongProtocol, 5), (DropReason::Incomplete, 1)];
    check_counts(&accounting, SourceKind::SyslogUdp, 11, 5, &dropped);
}

#[test]
fn a_message_in_chunks_that_cannot_be_decompressed_is_kept_with_a_doubt() {
    let (source, recorder, accounting) = start();
    let sender = sender_to(&source);
    let damaged = b"\x1f\x8b\x08 no gzip";
    let (begin, end) = damaged.split_at(5);
    for (number, part) in [(0, begin), (1, end)] {
        let head = [0x1e, 0x0f, 1, 0, 0, 0, 0, 0, 0, 0, number, 2];
        sender.send(&[&head[..], part].concat()).unwrap();
    }
    source.stop();
    let frames = recorder.frames();
    let lines: Vec<_> = frames.iter().flat_map(record::Frame::lines).collect();
    assert_eq!((lines[0].bytes, lines[0].doubt), (&damaged[..], Some(Doubt::Compression)));
    assert_eq!(accounting.source(SourceKind::SyslogUdp).counts().undecompressed, 1);
    check_counts(&accounting, SourceKind::SyslogUdp, 1, 1, &[]);
}

#[test]
fn a_frame_leaves_when_it_is_old_and_senders_are_told_apart() {
    let (source, recorder, _) = start();
    let senders = [sender_to(&source), sender_to(&source)];
    for (count, sender) in senders.iter().cycle().take(6).enumerate() {
        sender.send(format!("{count}").as_bytes()).unwrap();
        recorder.wait_for_lines(count + 1);
    }
    assert_eq!(recorder.lines_of(senders[0].local_addr().unwrap()), [b"0", b"2", b"4"]);
    assert_eq!(recorder.lines_of(senders[1].local_addr().unwrap()), [b"1", b"3", b"5"]);
    assert_eq!(recorder.frames().len(), 6);
}

#[test]
fn ipv6_and_mapped_ipv4_senders_have_their_address() {
    let (source, recorder, _) = start_with("[::]:0", sockets(3));
    let port = source.local_addr().port();
    for (count, (own, to)) in [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "::1")].iter().enumerate()
    {
        let sender = UdpSocket::bind(own).unwrap();
        let to: std::net::IpAddr = to.parse().unwrap();
        sender.send_to(b"x", (to, port)).unwrap();
        recorder.wait_for_lines(count + 1);
        assert_eq!(recorder.lines().last().unwrap().1.sender, Some(sender.local_addr().unwrap()));
    }
    source.stop();
    assert_eq!(recorder.lines().len(), 2);
}

#[test]
fn under_overload_kept_and_dropped_by_the_kernel_are_what_was_sent() {
    let config = UdpConfig { receive_buffer_bytes: 64 << 10, ..sockets(1) };
    let (source, recorder, accounting) = start_with("127.0.0.1:0", config);
    let sender = sender_to(&source);
    recorder.block(true);
    sender.send(b"first").unwrap();
    recorder.wait_until_blocked();
    for n in 1..10_000 {
        sender.send(format!("{n} {}", "x".repeat(200)).as_bytes()).unwrap();
    }
    recorder.block(false);
    source.stop();
    let kept = recorder.lines().len() as u64;
    assert!((1..10_000).contains(&kept), "{kept} lines were kept");
    check_counts(
        &accounting,
        SourceKind::SyslogUdp,
        kept,
        kept,
        &[(DropReason::Kernel, 10_000 - kept)],
    );
}

#[test]
fn several_sockets_share_the_senders_and_count_their_drops() {
    const SOCKETS: usize = 4;
    const SENDERS: usize = 64;
    const EACH: usize = 200;
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let config = UdpConfig { receive_buffer_bytes: 64 << 10, ..sockets(SOCKETS) };
        let (source, recorder, accounting) = start_with(address, config);
        let senders: Vec<_> = (0..SENDERS).map(|_| sender_to(&source)).collect();
        recorder.block(true);
        for n in 0..EACH {
            for sender in &senders {
                sender
                    .send(format!("{n:04} {}", "x".repeat(fastrand::usize(..900))).as_bytes())
                    .unwrap();
            }
        }
        recorder.block(false);
        source.stop();
        let mut kept = 0;
        for sender in senders {
            let lines = recorder.lines_of(sender.local_addr().unwrap());
            assert!(
                lines.is_sorted_by(|a, b| a[..4] < b[..4]),
                "order of one sender, each line once"
            );
            kept += lines.len() as u64;
        }
        assert_eq!(kept, recorder.lines().len() as u64);
        let dropped = (SENDERS * EACH) as u64 - kept;
        let drops = [(DropReason::Kernel, dropped)];
        check_counts(&accounting, SourceKind::SyslogUdp, kept, kept, &drops);
        // How many of them drop depends on thread scheduling.
        let by_socket: Vec<u64> = accounting.udp_sockets.counts().collect();
        assert_eq!((by_socket.len(), by_socket.iter().sum()), (SOCKETS, dropped));
    }
}

#[test]
fn ten_thousand_senders_in_turn_have_their_lines() {
    const SENDERS: usize = 10_000;
    let (source, recorder, accounting) = start_with("0.0.0.0:0", sockets(2));
    let to = (Ipv4Addr::LOCALHOST, source.local_addr().port());
    let mut sent = Vec::new();
    for n in 0..SENDERS as u32 {
        let from = Ipv4Addr::from_bits(0x7f01_0000 + n);
        let sender = UdpSocket::bind((from, 0)).unwrap();
        sender.send_to(from.to_string().as_bytes(), to).unwrap();
        sent.push((from.to_string().into_bytes(), sender.local_addr().unwrap()));
        // No more than the smallest receive buffer holds.
        if n % 100 == 0 {
            recorder.wait_for_lines(n as usize);
        }
    }
    source.stop();
    let mut lines: Vec<_> = recorder
        .lines()
        .into_iter()
        .map(|(line, origin, _)| (line, origin.sender.unwrap()))
        .collect();
    lines.sort();
    sent.sort();
    assert_eq!(lines, sent);
    check_counts(&accounting, SourceKind::SyslogUdp, SENDERS as u64, SENDERS as u64, &[]);
}

#[test]
fn stopping_under_a_flood_ends() {
    for count in [1, 3] {
        let (source, recorder, accounting) = start_with("127.0.0.1:0", sockets(count));
        let senders: Vec<_> = (0..4).map(|_| sender_to(&source)).collect();
        std::thread::scope(|scope| {
            for sender in &senders {
                // Until the source is gone: then the kernel answers that nobody listens.
                scope.spawn(move || while sender.send(b"<13>flood").is_ok() {});
            }
            recorder.wait_for_lines(10_000);
            source.stop();
        });
        let counts = accounting.source(SourceKind::SyslogUdp).counts();
        assert_eq!(counts.lines_received, recorder.lines().len() as u64);
    }
}

#[test]
fn the_kernel_holds_bursts_while_delivery_blocks() {
    let (source, recorder, accounting) = start();
    let sender = sender_to(&source);
    recorder.block(true);
    sender.send(b"first").unwrap();
    recorder.wait_until_blocked();
    // As many as fit into any kernel's default buffer.
    for _ in 0..200 {
        sender.send(b"next").unwrap();
    }
    recorder.block(false);
    source.stop();
    check_counts(&accounting, SourceKind::SyslogUdp, 201, 201, &[]);
}

#[test]
fn drops_of_an_earlier_socket_are_not_forgotten() {
    let (recorder, accounting) = (Recorder::new(), Arc::new(Accounting::default()));
    let clock = Arc::new(ManualClock::new(NOW_NS));
    accounting.source(SourceKind::SyslogUdp).dropped(DropReason::Kernel, 7);
    let source = UdpSource::start(
        "127.0.0.1:0".parse().unwrap(),
        UdpConfig::default(),
        recorder,
        accounting.clone(),
        clock,
    );
    source.unwrap().stop();
    check_counts(&accounting, SourceKind::SyslogUdp, 0, 0, &[(DropReason::Kernel, 7)]);
}

#[test]
fn a_failing_store_is_counted_and_a_full_disk_waited_for() {
    let (source, recorder, accounting) = start();
    let sender = sender_to(&source);
    recorder.refuse(Some(KeepError::DiskFull));
    sender.send(b"kept").unwrap();
    recorder.wait_until_asked_while_full();
    assert_eq!(recorder.lines().len(), 0);
    recorder.refuse(None);
    recorder.wait_for_lines(1);
    recorder.fail(KeepError::Failed("broken".into()));
    sender.send(b"lost").unwrap();
    source.stop();
    check_counts(&accounting, SourceKind::SyslogUdp, 2, 1, &[(DropReason::WriteFailed, 1)]);
}

#[test]
fn a_port_in_use_is_an_error_with_a_remedy() {
    for count in [1, 2] {
        let (source, recorder, accounting) = start_with("127.0.0.1:0", sockets(count));
        let address = source.local_addr();
        let clock = Arc::new(ManualClock::new(NOW_NS));
        let second = UdpSource::start(address, sockets(count), recorder, accounting, clock);
        let Err(error) = second else { panic!("two sources on one address") };
        assert!(matches!(error, SourceError::AddressInUse { .. }));
        assert!(error.to_string().contains("--syslog-udp-listen"), "{error}");
    }
}
