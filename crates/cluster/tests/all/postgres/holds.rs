//! Holds beside transactions that retire segments: what a dump has is kept, whichever came first.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout};
use std::time::{Duration, Instant};

use cluster::engines::postgres::{PgCatalog, PgSettings};
use cluster::{Catalog, Lease, NodeId, Publication, Resource};

use super::contract::{HOUR, segment};
use super::server::Server;

/// What transactions that retire segments share, and holds that begin take alone.
const RETIRING: i64 = 5_139_515;

/// A session of `psql` with a transaction that is open between two statements.
pub struct Session {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Session {
    pub fn new(server: &Server, database: &str) -> Session {
        let mut process = server.psql(database);
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Session { process, input, output }
    }

    /// Runs SQL to its end.
    pub fn run(&mut self, sql: &str) {
        writeln!(self.input, "{sql};\n\\echo done").unwrap();
        self.input.flush().unwrap();
        let mut line = String::new();
        while line.trim() != "done" {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "psql ended");
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Place {
    server: Server,
    database: String,
    catalog: PgCatalog,
    lease: Lease,
}

/// A catalog with the segments `a` and `b`.
fn place() -> Place {
    let server = Server::start();
    // Calls wait for as long as the test does.
    let patient = PgSettings { statement_timeout: HOUR, call_timeout: HOUR, ..server.database() };
    let catalog = PgCatalog::open(patient).unwrap();
    let lease = catalog.acquire(Resource::Partition(0), NodeId(1), HOUR).unwrap().unwrap();
    catalog.partition(&lease).unwrap();
    for (name, start) in [("a", 0), ("b", 10)] {
        let publication = Publication {
            offsets: start..start + 10,
            segment: Some(segment(name, 0, start..start + 10)),
            producers: Vec::new(),
            lost: 0,
        };
        catalog.publish(&lease, &publication).unwrap();
    }
    Place { server, database: "test_0".to_owned(), catalog, lease }
}

impl Place {
    /// Waits until a session waits for the advisory lock.
    fn wait_for_a_waiter(&self) {
        let deadline = Instant::now() + Duration::from_secs(300);
        let sql = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        while self.server.sql(&self.database, sql) == "0" {
            assert!(Instant::now() < deadline, "nobody waits");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn dumped(&self) -> Vec<String> {
        let segments = self.catalog.dump().unwrap().segments;
        segments.into_iter().map(|segment| segment.name).collect()
    }
}

/// A transaction retires a segment, and has not committed yet. A backup that begins meanwhile must
/// not have it, since it was retired before the hold began.
#[test]
fn a_hold_waits_for_segments_that_are_being_retired() {
    let place = place();
    let mut session = Session::new(&place.server, &place.database);
    session.run("BEGIN");
    session.run(&format!("SELECT pg_advisory_xact_lock_shared({RETIRING})"));
    session.run("UPDATE segments SET retired = clock_timestamp() WHERE name = 'a'");
    std::thread::scope(|scope| {
        let held = scope.spawn(|| place.catalog.hold("backup", HOUR));
        place.wait_for_a_waiter();
        assert!(!held.is_finished());
        session.run("COMMIT");
        held.join().unwrap().unwrap();
    });
    assert_eq!(place.dumped(), ["b"]);
    assert_eq!(place.catalog.retired(Duration::ZERO, 9), Ok(vec!["a".to_owned()]));
    // A hold that is prolonged waits for nobody.
    session.run("BEGIN");
    session.run(&format!("SELECT pg_advisory_xact_lock_shared({RETIRING})"));
    place.catalog.hold("backup", HOUR).unwrap();
}

/// A hold begins while a segment is to be retired: it is retired later than the hold began, so the
/// backup, which has it, keeps it.
#[test]
fn segments_are_retired_after_a_hold_that_begins() {
    let place = place();
    let mut session = Session::new(&place.server, &place.database);
    session.run("BEGIN");
    session.run(&format!("SELECT pg_advisory_xact_lock({RETIRING})"));
    std::thread::scope(|scope| {
        let retired = scope.spawn(|| place.catalog.replace(&place.lease, &["a".to_owned()], None));
        place.wait_for_a_waiter();
        session.run("INSERT INTO holds VALUES ('backup', clock_timestamp(), 'infinity')");
        assert!(!retired.is_finished());
        // The dump of the backup would be made here.
        assert_eq!(place.dumped(), ["a", "b"]);
        session.run("COMMIT");
        retired.join().unwrap().unwrap();
    });
    assert_eq!(place.catalog.retired(Duration::ZERO, 9), Ok(Vec::new()));
    place.catalog.let_go("backup").unwrap();
    assert_eq!(place.catalog.retired(Duration::ZERO, 9), Ok(vec!["a".to_owned()]));
}
