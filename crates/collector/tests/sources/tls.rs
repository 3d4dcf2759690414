//! What TLS adds to syslog over TCP: client authentication, how connections end, and certificates
//! that change meanwhile.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use collector::{
    Accounting, ClientCertificates, Credentials, DropReason, SourceKind, TcpConfig, TlsFiles,
    TlsSource,
};
use platform::ManualClock;
use record::{Format, Transport};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::authority::{Authority, Issued};
use crate::recorder::{PATIENCE, Recorder, check_counts, read_until_closed};

const NOW_NS: i64 = 1_700_000_000_000_000_000;

struct Rig {
    source: TlsSource,
    recorder: Arc<Recorder>,
    accounting: Arc<Accounting>,
    authority: Authority,
}

fn start_with(clients: fn(&Authority) -> ClientCertificates, config: TcpConfig) -> Rig {
    let authority = Authority::new();
    let issued = authority.issue("server");
    let clients = clients(&authority);
    let files =
        TlsFiles { certificate: issued.certificate, key: issued.key, clients, section: "tls" };
    let (recorder, accounting) = (Recorder::new(), Arc::new(Accounting::default()));
    let clock = Arc::new(ManualClock::new(NOW_NS));
    let credentials = Credentials::load(files, clock.clone()).unwrap();
    let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let (deliver, counted) = (recorder.clone(), accounting.clone());
    let source = TlsSource::start(address, config, credentials, deliver, counted, clock).unwrap();
    Rig { source, recorder, accounting, authority }
}

fn start() -> Rig {
    start_with(|_| ClientCertificates::Off, TcpConfig::default())
}

type Client = StreamOwned<ClientConnection, TcpStream>;

impl Rig {
    fn connect_plain(&self) -> TcpStream {
        let stream = TcpStream::connect(self.source.local_addr()).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn client(&self, identity: Option<&Issued>) -> ClientConnection {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.authority.certificate()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match identity {
            None => config.with_no_client_auth(),
            Some(issued) => {
                config.with_client_auth_cert(chain(&issued.certificate), key(&issued.key)).unwrap()
            }
        };
        let name = ServerName::try_from("localhost").unwrap();
        ClientConnection::new(Arc::new(config), name).unwrap()
    }

    fn connect(&self) -> Client {
        StreamOwned::new(self.client(None), self.connect_plain())
    }

    fn handshakes_failed(&self) -> u64 {
        self.accounting.source(SourceKind::SyslogTls).handshakes_failed.load(Relaxed)
    }
}

fn chain(path: &Path) -> Vec<CertificateDer<'static>> {
    vec![CertificateDer::from_pem_file(path).unwrap()]
}

fn key(path: &Path) -> PrivateKeyDer<'static> {
    PrivateKeyDer::from_pem_file(path).unwrap()
}

/// Ends the sender's side properly, and waits until the source has closed.
fn finish(mut client: Client) {
    client.conn.send_close_notify();
    client.flush().unwrap();
    assert_eq!(client.read(&mut [0]).unwrap(), 0, "the source answers close_notify");
    assert_eq!(client.sock.read(&mut [0]).unwrap(), 0);
}

#[test]
fn both_framings_on_one_port() {
    let rig = start();
    let (mut counted, mut newline) = (rig.connect(), rig.connect());
    let addresses = [counted.sock.local_addr().unwrap(), newline.sock.local_addr().unwrap()];
    counted.write_all(b"7 <1>five8 <13>four15 <13>counted\n too").unwrap();
    newline.write_all(b"<13>one\n<13>two\r\nend").unwrap();
    finish(counted);
    finish(newline);
    rig.source.stop();
    let expected: [&[u8]; 3] = [b"<1>five", b"<13>four", b"<13>counted\n to"];
    assert_eq!(rig.recorder.lines_of(addresses[0])[..3], expected);
    let expected: [&[u8]; 3] = [b"<13>one", b"<13>two\r", b"end"];
    assert_eq!(rig.recorder.lines_of(addresses[1]), expected);
    check_counts(&rig.accounting, SourceKind::SyslogTls, 7, 7, &[]);
    let origin = rig.recorder.frames()[0].origins()[0].clone();
    assert_eq!((origin.transport, origin.format), (Transport::SyslogTls, Format::Syslog));
}

#[test]
fn a_flood_arrives_whole_beside_a_trickle() {
    let rig = start();
    let mut slow = rig.connect();
    let slow_address = slow.sock.local_addr().unwrap();
    slow.write_all(b"<13>sl").unwrap();
    let fast_lines = 100_000;
    let mut fast = rig.connect();
    let fast_address = fast.sock.local_addr().unwrap();
    let fast = std::thread::spawn(move || {
        let mut text = Vec::new();
        for n in 0..fast_lines {
            writeln!(text, "<13>fast {n}").unwrap();
        }
        // Records of all sizes.
        let mut random = fastrand::Rng::with_seed(7);
        let mut rest = text.as_slice();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(random.usize(1..40_000).min(rest.len()));
            fast.write_all(now).unwrap();
            rest = later;
        }
        finish(fast);
    });
    slow.write_all(b"ow\n").unwrap();
    fast.join().unwrap();
    rig.recorder.wait_for_lines(fast_lines + 1);
    finish(slow);
    rig.source.stop();
    assert_eq!(rig.recorder.lines_of(slow_address), [b"<13>slow"]);
    let expected = (0..fast_lines).map(|n| format!("<13>fast {n}").into_bytes());
    assert!(rig.recorder.lines_of(fast_address).into_iter().eq(expected));
    let total = fast_lines as u64 + 1;
    check_counts(&rig.accounting, SourceKind::SyslogTls, total, total, &[]);
}

#[test]
fn a_connection_that_is_cut_is_counted_and_leaves_what_came() {
    let check = |sent: &[u8], end: fn(Client), truncated: u64, resets: u64| {
        let rig = start();
        let mut client = rig.connect();
        client.write_all(&[b"first\n", sent].concat()).unwrap();
        rig.recorder.wait_for_lines(1);
        end(client);
        rig.recorder.wait_for_lines(2);
        rig.source.stop();
        assert_eq!(rig.recorder.lines()[1].0, sent.strip_suffix(b"\n").unwrap_or(sent));
        let drops = [(DropReason::Reset, resets)];
        check_counts(&rig.accounting, SourceKind::SyslogTls, 2, 2, &drops[..resets as usize]);
        let counters = rig.accounting.source(SourceKind::SyslogTls);
        assert_eq!(counters.connections_truncated.load(Relaxed), truncated);
        assert_eq!(counters.handshakes_failed.load(Relaxed), 0);
    };
    let cut: fn(Client) = |mut client| {
        client.sock.shutdown(Shutdown::Write).unwrap();
        assert!(read_until_closed(&mut client.sock).is_empty());
    };
    check(b"whole\n", finish, 0, 0);
    check(b"no newline", finish, 0, 0);
    check(b"whole\n", cut, 1, 0);
    check(b"no newline", cut, 1, 1);
}

#[test]
fn a_sender_that_never_reads_and_just_closes_loses_nothing() {
    let rig = start();
    rig.recorder.block(true);
    let mut client = rig.connect();
    let text = b"<13>one of many\n".repeat(10_000);
    client.write_all(&text).unwrap();
    rig.recorder.wait_until_blocked();
    // The client has no unread data from the server; with unread data its kernel would answer with
    // a reset, and drop data it has not sent yet.
    client.conn.send_close_notify();
    client.flush().unwrap();
    drop(client);
    rig.recorder.block(false);
    rig.recorder.wait_for_lines(10_000);
    rig.source.stop();
    check_counts(&rig.accounting, SourceKind::SyslogTls, 10_000, 10_000, &[]);
}

#[test]
fn who_gets_in() {
    let off: fn(&Authority) -> _ = |_| ClientCertificates::Off;
    let optional: fn(&Authority) -> _ =
        |authority| ClientCertificates::Optional { ca: authority.certificate() };
    let required: fn(&Authority) -> _ =
        |authority| ClientCertificates::Required { ca: authority.certificate() };
    let stranger = Authority::new();
    let check = |clients, who: Option<&Authority>, is_ours, gets_in| {
        let rig = start_with(clients, TcpConfig::default());
        let issued = match is_ours {
            true => Some(rig.authority.issue("client")),
            false => who.map(|authority| authority.issue("client")),
        };
        let client = rig.client(issued.as_ref());
        let mut client = StreamOwned::new(client, rig.connect_plain());
        let written = client.write_all(b"line\n").and_then(|()| {
            client.conn.send_close_notify();
            client.flush()
        });
        let read = written.and_then(|()| client.read(&mut [0]));
        // A refused client sees an alert, or the end of the connection.
        let is_late = |error: &std::io::Error| {
            matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
        };
        assert!(!read.as_ref().is_err_and(is_late), "{read:?}");
        assert_eq!(read.is_ok(), gets_in, "{read:?}");
        drop(client);
        if gets_in {
            rig.recorder.wait_for_lines(1);
        }
        rig.source.stop();
        let counters = rig.accounting.source(SourceKind::SyslogTls);
        assert_eq!(counters.handshakes_failed.load(Relaxed), u64::from(!gets_in));
        assert_eq!(rig.recorder.lines().len(), usize::from(gets_in));
    };
    check(off, None, false, true);
    check(off, Some(&stranger), false, true);
    check(optional, None, false, true);
    check(optional, Some(&stranger), false, false);
    check(optional, None, true, true);
    check(required, None, false, false);
    check(required, Some(&stranger), false, false);
    check(required, None, true, true);
}

#[test]
fn non_tls_peers_are_refused_and_counted() {
    let rig = start();
    let mut plain = rig.connect_plain();
    plain.write_all(b"<13>1 - - - - - not TLS\n").unwrap();
    read_until_closed(&mut plain);
    assert_eq!(rig.handshakes_failed(), 1);
    let counts = rig.accounting.source(SourceKind::SyslogTls).counts();
    assert_eq!(counts.dropped(DropReason::WrongProtocol).lines, 1);
    assert_eq!((counts.lines_missing(), counts.bytes_missing()), (0, 0));
    // A client that disconnects in the middle.
    let mut leaves = rig.connect_plain();
    leaves.write_all(&[22, 3, 1, 1, 0, 1]).unwrap();
    leaves.shutdown(Shutdown::Write).unwrap();
    read_until_closed(&mut leaves);
    assert_eq!(rig.handshakes_failed(), 2);
    // A client that only checks whether the port is open.
    let mut looks = rig.connect_plain();
    looks.shutdown(Shutdown::Write).unwrap();
    read_until_closed(&mut looks);
    assert_eq!(rig.handshakes_failed(), 2);
    // A silent client, until the source stops.
    let silent = rig.connect_plain();
    let mut client = rig.connect();
    client.write_all(b"line\n").unwrap();
    finish(client);
    rig.source.stop();
    drop(silent);
    assert_eq!(rig.recorder.lines().len(), 1);
    let counters = rig.accounting.source(SourceKind::SyslogTls);
    assert_eq!(counters.connections_open.load(Relaxed), 0);
}

#[test]
fn an_unfinished_handshake_times_out_without_other_events() {
    // On a slow machine a handshake that goes on may take longer than the time that the others get.
    let times = [200, 2_000, 20_000, 200_000].map(Duration::from_millis);
    let begun = times.into_iter().find_map(|handshake_timeout| {
        let config = TcpConfig { handshake_timeout, ..TcpConfig::default() };
        let rig = start_with(|_| ClientCertificates::Off, config);
        let mut established = rig.connect();
        let _ = established.write_all(b"before\n").and_then(|()| established.flush());
        while rig.recorder.lines().is_empty() && rig.handshakes_failed() == 0 {
            std::thread::yield_now();
        }
        (rig.handshakes_failed() == 0).then_some((rig, established))
    });
    let (rig, mut established) = begun.expect("a time that is long enough");
    let mut hello = Vec::new();
    rig.client(None).write_tls(&mut hello).unwrap();
    for (ended, begun) in [&[][..], &hello[..hello.len() / 2]].into_iter().enumerate() {
        let mut slow = rig.connect_plain();
        slow.write_all(begun).unwrap();
        // Returns when the other side has closed.
        read_until_closed(&mut slow);
        let counters = rig.accounting.source(SourceKind::SyslogTls);
        assert_eq!(counters.connections_timed_out.load(Relaxed), ended as u64 + 1);
        assert_eq!(rig.handshakes_failed(), ended as u64 + 1);
    }
    // A client with a completed handshake may be silent.
    established.write_all(b"behind\n").unwrap();
    finish(established);
    rig.source.stop();
    check_counts(&rig.accounting, SourceKind::SyslogTls, 2, 2, &[]);
}

#[test]
fn a_handshake_in_single_bytes_completes() {
    let rig = start();
    let mut client = rig.client(None);
    let mut socket = rig.connect_plain();
    while client.is_handshaking() {
        while client.wants_write() {
            let mut wire = Vec::new();
            client.write_tls(&mut wire).unwrap();
            wire.iter().for_each(|&byte| socket.write_all(&[byte]).unwrap());
        }
        if client.is_handshaking() {
            client.read_tls(&mut socket).unwrap();
            client.process_new_packets().unwrap();
        }
    }
    let mut client = StreamOwned::new(client, socket);
    client.write_all(b"line\n").unwrap();
    finish(client);
    rig.source.stop();
    check_counts(&rig.accounting, SourceKind::SyslogTls, 1, 1, &[]);
}

#[test]
fn certificates_change_under_load_and_nothing_is_lost() {
    const RELOADS: usize = 20;
    let rig = start();
    let mut old = rig.connect();
    old.write_all(b"<13>before\n").unwrap();
    rig.recorder.wait_for_lines(1);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let sent: usize = std::thread::scope(|scope| {
        let sender = || {
            let mut lines = 0;
            while !stop.load(Relaxed) || lines == 0 {
                let mut client = rig.connect();
                client.write_all(&b"<13>meanwhile\n".repeat(500)).unwrap();
                finish(client);
                lines += 500;
            }
            lines
        };
        let senders = [scope.spawn(sender), scope.spawn(sender)];
        let credentials = rig.source.credentials();
        for n in 0..RELOADS {
            rig.authority.issue("server");
            assert!(credentials.reload());
            // A broken file in between changes nothing.
            std::fs::write(rig.authority.file("server.key.pem"), "broken").unwrap();
            assert!(!credentials.reload());
            assert_eq!(credentials.status().reloads, n as u64 + 1);
            assert!(credentials.status().error.is_some());
        }
        stop.store(true, Relaxed);
        senders.into_iter().map(|sender| sender.join().unwrap()).sum()
    });
    old.write_all(b"<13>after\n").unwrap();
    finish(old);
    rig.source.stop();
    let total = sent as u64 + 2;
    check_counts(&rig.accounting, SourceKind::SyslogTls, total, total, &[]);
    let counters = rig.accounting.source(SourceKind::SyslogTls);
    assert_eq!(counters.handshakes_failed.load(Relaxed), 0);
    assert_eq!(counters.connections_truncated.load(Relaxed), 0);
}

#[test]
fn a_new_certificate_is_shown_to_new_connections() {
    let rig = start();
    let shown = || {
        let mut client = rig.connect();
        client.write_all(b"x\n").unwrap();
        let shown = client.conn.peer_certificates().unwrap()[0].to_vec();
        finish(client);
        shown
    };
    let first = shown();
    assert_eq!(first, shown());
    let renewed = rig.authority.issue("server");
    assert!(rig.source.credentials().reload());
    assert_eq!(shown(), chain(&renewed.certificate)[0].to_vec());
}
