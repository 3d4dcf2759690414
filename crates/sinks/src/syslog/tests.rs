//! Messages over real sockets.

use std::io::BufRead;
use std::io::BufReader;
use std::net::TcpListener;

use serde_json::json;

use super::*;

fn options(address: &str, transport: Transport) -> SyslogOptions {
    SyslogOptions {
        address: address.to_owned(),
        transport,
        time_max: Duration::from_secs(300),
        message: MessageOptions {
            facility: 1,
            severity_field: "level".to_owned(),
            hostname_field: "host".to_owned(),
            app_name_field: "app".to_owned(),
            proc_id_field: "pid".to_owned(),
            message_field: "message".to_owned(),
            data_id: None,
        },
    }
}

fn document(message: &str) -> Document {
    let fields = vec![("message".to_owned(), json!(message))];
    Document::new("id", 0, fields)
}

/// Reads one message with its length in front.
fn read_message(reader: &mut impl BufRead) -> String {
    let mut length = Vec::new();
    reader.read_until(b' ', &mut length).unwrap();
    let length: usize = std::str::from_utf8(&length).unwrap().trim_end().parse().unwrap();
    let mut message = vec![0; length];
    reader.read_exact(&mut message).unwrap();
    String::from_utf8(message).unwrap()
}

#[test]
fn tcp_counts_octets_and_reconnects() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut syslog = Syslog::new(options(&address, Transport::Tcp));
    let documents = [document("one\ntwo ü"), document("three")];
    assert_eq!(syslog.deliver(&documents), Delivered::accepted(2));
    let mut reader = BufReader::new(listener.accept().unwrap().0);
    let start = "<14>1 1970-01-01T00:00:00.000000Z - - - - - ";
    assert_eq!(read_message(&mut reader), format!("{start}one\ntwo ü"));
    assert_eq!(read_message(&mut reader), format!("{start}three"));
    // The server closes; the next call notices before it writes.
    drop(reader);
    while !is_closed(syslog.tcp.as_mut().unwrap()) {
        std::thread::yield_now();
    }
    assert_eq!(syslog.deliver(&documents[..1]), Delivered::accepted(1));
    let mut reader = BufReader::new(listener.accept().unwrap().0);
    assert_eq!(read_message(&mut reader), format!("{start}one\ntwo ü"));
}

#[test]
fn an_absent_server_is_a_fault_with_a_remedy() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut syslog = Syslog::new(options(&address, Transport::Tcp));
    let Delivered::Unavailable { fault, .. } = syslog.deliver(&[document("x")]) else { panic!() };
    assert!(fault.to_string().contains(&address), "{fault}");
    assert!(fault.remedy.contains("check that the server runs"), "{fault}");
}

#[test]
fn large_messages_do_not_fit_into_datagrams() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let transport = Transport::Udp { datagram_bytes_max: 100 };
    let mut syslog = Syslog::new(options(&address, transport));
    let documents = [document("one"), document(&"x".repeat(100)), document("two")];
    let Delivered::Answered { outcomes, .. } = syslog.deliver(&documents) else { panic!() };
    assert_eq!((&outcomes[0], &outcomes[2]), (&Outcome::Accepted, &Outcome::Accepted));
    let Outcome::Rejected(reason) = &outcomes[1] else { panic!() };
    assert!(reason.contains("datagram_bytes_max (100)"), "{reason}");
    let mut buffer = [0; 1000];
    for expected in ["one", "two"] {
        let length = socket.recv(&mut buffer).unwrap();
        assert!(std::str::from_utf8(&buffer[..length]).unwrap().ends_with(expected));
    }
}
