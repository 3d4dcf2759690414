//! Connections that are answered: when the answer is sent, and what happens while and if it is not.
//! RELP stands for all protocols, for its messages are text; one test for what only Beats has.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

use collector::{
    Accounting, BeatsSource, ClientCertificates, Credentials, DropReason, FluentSource, KeepError,
    RelpSource, SourceKind, TcpConfig, TlsFiles,
};
use platform::ManualClock;
use record::{Format, Transport};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::authority::Authority;
use crate::recorder::{PATIENCE, Recorder, check_counts, read_until_closed};

const NOW_NS: i64 = 1_700_000_000_000_000_000;

struct Rig {
    source: RelpSource,
    recorder: Arc<Recorder>,
    accounting: Arc<Accounting>,
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(NOW_NS))
}

fn any_port() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn start_with(config: TcpConfig, credentials: Option<Arc<Credentials>>) -> Rig {
    let (recorder, accounting) = (Recorder::new(), Arc::new(Accounting::default()));
    let (deliver, counted) = (recorder.clone(), accounting.clone());
    let source =
        RelpSource::start(any_port(), config, credentials, deliver, counted, clock()).unwrap();
    Rig { source, recorder, accounting }
}

fn start() -> Rig {
    start_with(TcpConfig::default(), None)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Reads as much as is expected.
#[track_caller]
fn expect(stream: &mut impl Read, expected: &[u8]) {
    let mut found = vec![0; expected.len()];
    stream.read_exact(&mut found).unwrap();
    assert_eq!(found.escape_ascii().to_string(), expected.escape_ascii().to_string());
}

const OPENED: &[u8] = b"1 rsp 60 200 OK\nrelp_version=0\nrelp_software=loginson\ncommands=syslog\n";

fn open(stream: &mut (impl Read + Write)) {
    stream.write_all(b"1 open 0\n").unwrap();
    expect(stream, OPENED);
}

/// Nothing more comes.
#[track_caller]
fn expect_end(mut stream: TcpStream) {
    let rest = read_until_closed(&mut stream);
    assert_eq!(rest.escape_ascii().to_string(), "");
}

#[test]
fn an_answer_is_sent_once_its_lines_are_durable() {
    let rig = start();
    let address = rig.source.local_addr();
    let (mut waits, mut other) = (connect(address), connect(address));
    open(&mut waits);
    open(&mut other);
    rig.recorder.hold();
    waits.write_all(b"2 syslog 5 <13>a\n3 syslog 7 <13>b\nc\n").unwrap();
    rig.recorder.wait_for_lines(2);
    waits.set_nonblocking(true).unwrap();
    let nothing = waits.read(&mut [0]).unwrap_err();
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
    waits.set_nonblocking(false).unwrap();
    // A connection that waits keeps no other one waiting.
    other.write_all(b"2 unknown 0\n").unwrap();
    expect(&mut other, b"2 rsp 24 500 command is not known\n");
    rig.recorder.let_become_durable();
    expect(&mut waits, b"2 rsp 6 200 OK\n3 rsp 6 200 OK\n");
    waits.write_all(b"4 close 0\n").unwrap();
    expect(&mut waits, b"4 rsp 0\n0 serverclose 0\n");
    expect_end(waits);
    let lines = rig.recorder.lines();
    let texts: Vec<&[u8]> = lines.iter().map(|line| &line.0[..]).collect();
    assert_eq!(texts, [&b"<13>a"[..], b"<13>b\nc"]);
    assert_eq!(lines[0].1.transport, Transport::Relp);
    assert_eq!((lines[0].1.format, lines[0].1.sender.is_some()), (Format::Syslog, true));
    check_counts(&rig.accounting, SourceKind::Relp, 2, 2, &[]);
}

#[test]
fn lines_that_are_not_kept_are_not_answered() {
    let rig = start();
    let mut stream = connect(rig.source.local_addr());
    open(&mut stream);
    rig.recorder.fail(KeepError::Failed("broken".into()));
    stream.write_all(b"2 syslog 5 <13>a\n").unwrap();
    expect_end(stream);
    check_counts(&rig.accounting, SourceKind::Relp, 1, 0, &[(DropReason::WriteFailed, 1)]);
}

#[test]
fn while_the_disk_is_full_nothing_is_read() {
    let rig = start();
    let mut stream = connect(rig.source.local_addr());
    open(&mut stream);
    rig.recorder.refuse(Some(KeepError::DiskFull));
    stream.write_all(b"2 syslog 5 <13>a\n").unwrap();
    rig.recorder.wait_until_asked_while_full();
    check_counts(&rig.accounting, SourceKind::Relp, 0, 0, &[]);
    rig.recorder.refuse(None);
    expect(&mut stream, b"2 rsp 6 200 OK\n");
    check_counts(&rig.accounting, SourceKind::Relp, 1, 1, &[]);
}

#[test]
fn a_sender_of_beats_is_told_that_its_events_are_waited_for() {
    let (recorder, accounting) = (Recorder::new(), Arc::new(Accounting::default()));
    let config = TcpConfig::default();
    let (deliver, counted) = (recorder.clone(), accounting.clone());
    let source = BeatsSource::start(any_port(), config, None, deliver, counted, clock()).unwrap();
    let window = b"2W\0\0\0\x012J\0\0\0\x01\0\0\0\x02{}";
    let (mut written, mut held_back) = (connect(source.local_addr()), connect(source.local_addr()));
    recorder.hold();
    written.write_all(window).unwrap();
    recorder.wait_for_lines(1);
    recorder.refuse(Some(KeepError::DiskFull));
    held_back.write_all(window).unwrap();
    for stream in [&mut written, &mut held_back] {
        expect(stream, b"2A\0\0\0\0");
    }
    recorder.refuse(None);
    recorder.let_become_durable();
    for stream in [&mut written, &mut held_back] {
        // It may have been told once more.
        let mut answer = [0; 6];
        while answer != *b"2A\0\0\0\x01" {
            stream.read_exact(&mut answer).unwrap();
        }
    }
    check_counts(&accounting, SourceKind::Beats, 2, 2, &[]);
    assert_eq!(recorder.lines()[0].1.transport, Transport::Beats);
}

#[test]
fn what_arrived_before_a_stop_is_kept_and_answered() {
    let rig = start();
    let mut stream = connect(rig.source.local_addr());
    open(&mut stream);
    rig.recorder.hold();
    stream.write_all(b"2 syslog 5 <13>a\n").unwrap();
    rig.recorder.wait_for_lines(1);
    stream.write_all(b"3 syslog 5 <13>b\n").unwrap();
    let (source, recorder) = (rig.source, rig.recorder.clone());
    let stopping = std::thread::spawn(move || drop(source));
    recorder.let_become_durable();
    expect(&mut stream, b"2 rsp 6 200 OK\n");
    stopping.join().unwrap();
    let counts = rig.accounting.source(SourceKind::Relp).counts();
    assert_eq!((counts.lines_missing(), counts.connections_open), (0, 0));
}

#[test]
fn other_protocols_are_refused_and_counted() {
    let rig = start();
    for (index, bytes) in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\x16\x03\x01\0\x05\x01", b"<13>a line\n"]
            .iter()
            .enumerate()
    {
        let mut stream = connect(rig.source.local_addr());
        stream.write_all(bytes).unwrap();
        expect_end(stream);
        let refused = index as u64 + 1;
        let dropped = [(DropReason::WrongProtocol, refused)];
        check_counts(&rig.accounting, SourceKind::Relp, refused, 0, &dropped);
    }
    // A health check is no sender.
    let stream = connect(rig.source.local_addr());
    stream.shutdown(Shutdown::Write).unwrap();
    expect_end(stream);
    check_counts(&rig.accounting, SourceKind::Relp, 3, 0, &[(DropReason::WrongProtocol, 3)]);
}

#[test]
fn what_is_wrong_later_ends_the_connection_after_its_answers() {
    let rig = start();
    let mut stream = connect(rig.source.local_addr());
    open(&mut stream);
    stream.write_all(b"2 syslog 5 <13>a\n3 syslog 5 <13>b?").unwrap();
    expect(&mut stream, b"2 rsp 6 200 OK\n");
    expect_end(stream);
    check_counts(&rig.accounting, SourceKind::Relp, 2, 1, &[(DropReason::BadRequest, 1)]);
}

#[test]
fn too_many_connections_are_refused() {
    let rig = start_with(TcpConfig { connections_max: 1, ..TcpConfig::default() }, None);
    let mut first = connect(rig.source.local_addr());
    open(&mut first);
    expect_end(connect(rig.source.local_addr()));
    let counts = rig.accounting.source(SourceKind::Relp).counts();
    assert_eq!((counts.connections_open, counts.connections_refused), (1, 1));
}

#[test]
fn with_tls_answers_are_encrypted_and_plain_senders_refused() {
    let authority = Authority::new();
    let issued = authority.issue("server");
    let (certificate, key) = (issued.certificate, issued.key);
    let clients = ClientCertificates::Off;
    let files = TlsFiles { certificate, key, clients, section: "tls" };
    let rig = start_with(TcpConfig::default(), Some(Credentials::load(files, clock()).unwrap()));
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.certificate()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(client, connect(rig.source.local_addr()));
    open(&mut stream);
    stream.write_all(b"2 syslog 5 <13>a\n").unwrap();
    expect(&mut stream, b"2 rsp 6 200 OK\n");
    check_counts(&rig.accounting, SourceKind::Relp, 1, 1, &[]);
    let mut plain = connect(rig.source.local_addr());
    plain.write_all(b"1 open 0\n").unwrap();
    read_until_closed(&mut plain);
    // The connection is closed before its end is counted.
    while rig.accounting.source(SourceKind::Relp).counts().handshakes_failed != 1 {
        std::thread::yield_now();
    }
}

#[test]
fn fluent_answers_chunks_and_streams_by_tags() {
    let (recorder, accounting) = (Recorder::new(), Arc::new(Accounting::default()));
    let config = TcpConfig::default();
    let (deliver, counted) = (recorder.clone(), accounting.clone());
    let source =
        FluentSource::start(any_port(), config, None, None, deliver, counted, clock()).unwrap();
    let mut stream = connect(source.local_addr());
    stream.write_all(b"\x94\xa1t\x01\x81\xa1a\x01\x81\xa5chunk\xa1c").unwrap();
    expect(&mut stream, b"\x81\xa3ack\xd9\x01c");
    let lines = recorder.lines();
    assert_eq!(lines[0].0, br#"{"a":1,"_time":"1970-01-01T00:00:01Z","fluent.tag":"t"}"#);
    assert!(lines[0].1.hints.stream_fields.contains(&"fluent.tag".to_owned()));
    check_counts(&accounting, SourceKind::Fluent, 1, 1, &[]);
}
