//! A sender of few lines is served while another sends as fast as it can: on the whole server,
//! measured in lines and not in seconds.
//!
//! The flood may be a limited number of lines ahead of the last line of the trickle that was found,
//! and then waits. The lines of both have no time, so their event time is that of their arrival: a
//! query tells how many lines of the flood came before a line of the trickle.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Condvar, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::common::{PATIENCE, Server};

/// Bytes of a line of the flood with its newline.
const LINE_BYTES: usize = 1_000;
/// Lines that the flood sends at once.
const BLOCK_LINES: u64 = 256;
/// Lines by which the flood may be ahead of the last line of the trickle that was found: 64 MB.
const AHEAD_LINES: u64 = 64_000;
/// Lines of the flood that may be read before a line of the trickle that is already in the server's
/// kernel, in addition to those sent earlier: 16 MB. The receiver checks the other connections
/// after every 4 MiB.
const OVERTAKING_LINES: u64 = 16_000;
/// Lines of the trickle.
const TRICKLE_LINES: u64 = 4;

/// What the flood has sent and may send.
#[derive(Default)]
struct Valve {
    state: Mutex<Flow>,
    changed: Condvar,
}

#[derive(Default)]
struct Flow {
    sent: u64,
    allowed: u64,
    closed: bool,
}

impl Valve {
    /// Lets the flood send `AHEAD_LINES` from here on, and waits until it is well under way.
    fn open(&self) {
        let mut flow = self.state.lock().unwrap();
        flow.allowed = flow.sent + AHEAD_LINES;
        let under_way = flow.sent + AHEAD_LINES / 8;
        self.changed.notify_all();
        let waited = self.changed.wait_timeout_while(flow, PATIENCE, |flow| flow.sent < under_way);
        let (flow, waited) = waited.unwrap();
        drop(flow);
        assert!(!waited.timed_out(), "the server takes nothing");
    }

    fn sent(&self) -> u64 {
        self.state.lock().unwrap().sent
    }

    fn close(&self) {
        self.state.lock().unwrap().closed = true;
        self.changed.notify_all();
    }

    /// Counts lines that were sent; false if the flood has to end.
    fn pass(&self, lines: u64) -> bool {
        let mut flow = self.state.lock().unwrap();
        flow.sent += lines;
        self.changed.notify_all();
        let shut = |flow: &mut Flow| flow.sent >= flow.allowed && !flow.closed;
        !self.changed.wait_while(flow, shut).unwrap().closed
    }
}

/// Ends the flood, even if the test fails.
struct Closing<'a>(&'a Valve);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Sends as fast as the server accepts it, within the limits of the valve.
fn flood(to: SocketAddr, valve: &Valve) {
    let mut line = b"<13>1 - flood generator - - - ".to_vec();
    line.resize(LINE_BYTES - 1, b'x');
    line.push(b'\n');
    let block = line.repeat(BLOCK_LINES as usize);
    let mut stream = TcpStream::connect(to).unwrap();
    while valve.pass(0) {
        stream.write_all(&block).unwrap();
        valve.pass(BLOCK_LINES);
    }
}

#[test]
fn a_trickle_is_durable_and_found_while_another_sender_floods() {
    // This tests the rounds of one thread, not how a system shares its processors among several.
    let config = "[syslog]\ntcp_threads = 1\n[placement]\nquery_nice = 0\nparse_nice = 0\n";
    let server = Server::start_with(&[], config);
    let to = server.syslog_tcp();
    let valve = Valve::default();
    let mut trickle = TcpStream::connect(to).unwrap();
    trickle.set_nodelay(true).unwrap();
    // The lines of the flood written by the time that the kernel has a line of the trickle.
    let mut sent = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| flood(to, &valve));
        let _closing = Closing(&valve);
        for number in 0..TRICKLE_LINES {
            valve.open();
            // Most of the flood came before, and need not be checked.
            let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
            let line = format!("<13>1 - trickle sensor - - - reading r{number}\n");
            trickle.write_all(line.as_bytes()).unwrap();
            sent.push(valve.sent());
            let (query, since) = (format!("hostname:trickle r{number}"), format!("start={start}"));
            server.wait_for(&query, |server| !server.query(&query, &since).is_empty());
        }
    });
    drop(trickle);
    let flooded = valve.sent();
    let lines = flooded + TRICKLE_LINES;
    server.wait_for("all lines are kept", |server| {
        let counters = server.ingest("syslog_tcp");
        counters["lines_received"] == lines && counters["lines_kept"] == lines
    });
    let counters = server.ingest("syslog_tcp");
    let dropped = counters["dropped"].as_object().unwrap();
    assert!(dropped.values().all(|lines| *lines == 0), "{counters}");
    assert_eq!(counters["lines_in_flight"], 0);
    assert_eq!(server.count("hostname:flood"), flooded);
    assert_eq!(server.count("hostname:trickle"), TRICKLE_LINES);
    // The first line of a connection may wait 100 ms, until its framing is known.
    for (number, sent) in sent.into_iter().enumerate().skip(1) {
        let row = &server.query(&format!("hostname:trickle r{number}"), "")[0];
        let arrived = row["_time"].as_str().unwrap();
        let earlier = server.query("hostname:flood | stats count() n", &format!("end={arrived}"));
        let earlier: u64 = earlier[0]["n"].as_str().unwrap().parse().unwrap();
        let overtook = earlier.saturating_sub(sent);
        assert!(overtook <= OVERTAKING_LINES, "{overtook} lines were read before r{number}");
    }
}
