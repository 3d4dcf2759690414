//! The server is killed while nodes publish; they go on when it is back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use cluster::engines::postgres::{PgCatalog, PgSettings};
use cluster::sim::{SimLog, SimObjects};
use cluster::{
    Catalog, CatalogError, Change, Failure, FrameLog, HotFrame, LeaseSettings, Member, NodeId,
    Objects, Partition, Progress, PublishError, PublisherSettings, ReaderSettings, Resource,
    SealError, Sealed, Sealer, TimeRange, plan,
};
use platform::{Clock, RealClock};
use record::{Format, FrameBuilder, Origin, Transport};

use super::contract::{HOUR, info};
use super::holds::Session;
use super::server::Server;

const PARTITIONS: u32 = 4;
const FRAMES: u64 = 300;

struct CountLines;

impl Sealer for CountLines {
    fn seal(&self, _: u32, frames: &[HotFrame]) -> Result<Sealed, SealError> {
        let lines = frames.iter().map(|frame| u64::from(frame.frame.header().lines)).sum();
        Ok(Sealed {
            body: Box::new(vec![0; 8]),
            times: TimeRange { first_ns: 0, last_ns: 1 },
            received_last_ns: 0,
            searched: 0,
            frames: Vec::new(),
            lines,
        })
    }
}

/// A store on threads of its own: leases, then readers and publishers in turn.
fn store(node: u32, settings: PgSettings, log: &SimLog, objects: &SimObjects, done: &AtomicBool) {
    let clock = RealClock::new();
    let Some(catalog) = open(settings, done) else { return };
    let times = LeaseSettings::of_ttl(Duration::from_secs(2));
    let mut member = Member::new(info(NodeId(node)), times);
    let mut partitions: Vec<(cluster::Lease, Partition)> = Vec::new();
    let reading = ReaderSettings {
        read_bytes_max: 500,
        unpublished_bytes_max: 1 << 20,
        patience: Duration::from_secs(2),
    };
    let publishing = PublisherSettings {
        segment_bytes: 400,
        segment_age_max: Duration::from_millis(20),
        keep_published: Duration::ZERO,
        published_bytes_max: 0,
    };
    while !done.load(Relaxed) {
        match member.step(&catalog, PARTITIONS, clock.monotonic_ns()) {
            Ok(Some(Change::Gained(lease))) if lease.resource == Resource::Programs => {}
            Ok(Some(Change::Gained(lease))) => {
                match Partition::open(&catalog, lease, reading, publishing) {
                    Ok(partition) => partitions.push((lease, partition)),
                    Err(_) => member.give_up(lease.resource),
                }
            }
            Ok(Some(Change::Lost(lease) | Change::Expired(lease))) => {
                partitions.retain(|(held, _)| *held != lease)
            }
            Ok(None) => {}
            Err(error) => assert_ne!(error.failure(), Failure::Refused, "{error}"),
        }
        partitions.retain_mut(|(lease, partition)| {
            let now_ns = clock.monotonic_ns();
            partition.reader.step(log, Duration::ZERO, now_ns).unwrap();
            match partition.publisher.step(&catalog, objects, &CountLines, now_ns) {
                Ok(Progress::Idle) => thread::sleep(Duration::from_millis(1)),
                Ok(_) => {}
                Err(PublishError::Over(_)) => {
                    member.is_over(lease);
                    return false;
                }
                Err(PublishError::Catalog(error)) => {
                    assert!(
                        error.failure() != Failure::Refused
                            || matches!(error, CatalogError::OffsetMoved { .. }),
                        "{error}"
                    );
                    thread::sleep(Duration::from_millis(5));
                }
                Err(error) => panic!("{error}"),
            }
            true
        });
    }
}

/// Connects, once there is a server.
fn open(settings: PgSettings, done: &AtomicBool) -> Option<PgCatalog> {
    loop {
        match PgCatalog::open(settings.clone()) {
            Ok(catalog) => return Some(catalog),
            Err(_) if done.load(Relaxed) => return None,
            Err(error) => assert_ne!(error.failure(), Failure::Refused, "{error}"),
        }
    }
}

/// Appends frames of one line, each now and then twice.
fn produce(log: &SimLog, appended: &AtomicU64) {
    let origin = Origin::new(Transport::SyslogTcp, Format::Auto, None);
    for sequence in 1..=FRAMES {
        for partition in 0..PARTITIONS {
            let mut builder = FrameBuilder::new();
            builder.push_line(&origin, 1, b"a line", false);
            let frame = builder.finish(7, sequence).unwrap();
            for _ in 0..1 + u32::from(sequence % 5 == 0) {
                log.append(partition, &[frame.bytes()]).unwrap();
            }
            appended.fetch_add(1, Relaxed);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn nodes_go_on_after_the_server_was_killed() {
    let mut server = Server::start();
    let settings = server.database();
    let catalog = PgCatalog::open(settings.clone()).unwrap();
    let (log, objects) = (SimLog::new(PARTITIONS), SimObjects::new(Arc::new(RealClock::new())));
    let (done, appended) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let end = scopeguard(&done);
        for node in 1..=3 {
            let (log, objects, done) = (&log, &objects, &done);
            let settings = PgSettings::new(settings.connection.clone());
            scope.spawn(move || store(node, settings, log, objects, done));
        }
        scope.spawn(|| produce(&log, &appended));
        for share in [1, 2, 3] {
            while appended.load(Relaxed) < u64::from(PARTITIONS) * FRAMES * share / 4 {
                thread::sleep(Duration::from_millis(1));
            }
            server.kill();
            server.run();
        }
        let deadline = Instant::now() + Duration::from_secs(600);
        let ends = |partition| log.bounds(partition).unwrap().end;
        let is_published = || {
            let snapshot = catalog.snapshot(TimeRange::ALL, usize::MAX);
            snapshot.is_ok_and(|snapshot| {
                let rows = snapshot.partitions;
                appended.load(Relaxed) == u64::from(PARTITIONS) * FRAMES
                    && rows.len() == PARTITIONS as usize
                    && rows.iter().all(|row| row.offset == ends(row.partition))
            })
        };
        while !is_published() {
            assert!(Instant::now() < deadline, "{:?}", plan(&catalog, &log, TimeRange::ALL, 9999));
            thread::sleep(Duration::from_millis(20));
        }
        drop(end);
    });
    let snapshot = catalog.snapshot(TimeRange::ALL, usize::MAX).unwrap();
    for partition in 0..PARTITIONS {
        let mut rows: Vec<_> =
            snapshot.segments.iter().filter(|row| row.partition == partition).collect();
        rows.sort_by_key(|row| row.offsets.start);
        let mut end = 0;
        for row in &rows {
            // Between segments may be copies alone.
            assert!(row.offsets.start >= end, "{row:?}");
            assert!(objects.size(&row.name).is_ok(), "{row:?}");
            end = row.offsets.end;
        }
        assert_eq!(rows.iter().map(|row| row.lines).sum::<u64>(), FRAMES);
    }
    let lease = catalog.acquire(Resource::Sweep, NodeId(1), HOUR);
    assert!(matches!(lease, Ok(Some(_))));
}

/// Ends the stores, also if the test fails, so that their threads can be joined.
fn scopeguard(done: &AtomicBool) -> impl Drop {
    struct End<'a>(&'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    End(done)
}

#[test]
fn nodes_that_start_together_make_one_schema() {
    let server = Server::start();
    let settings = server.database();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| PgCatalog::open(settings.clone()).unwrap());
        }
    });
    assert_eq!(server.sql("test_0", "SELECT version FROM schema_version"), "3");
    let set = |version: u32, usable_by: u32| {
        let sql = format!("UPDATE schema_version SET version = {version}, usable_by = {usable_by}");
        server.sql("test_0", &sql);
    };
    for (version, usable_by, more) in [
        (1, 1, "use the release of Loginson that created it"),
        (5, 4, "programs of schema version 4 or later may use it"),
    ] {
        set(version, usable_by);
        let error = PgCatalog::open(settings.clone()).err().unwrap();
        let named = format!("has schema version {version}, and this program works with version 3");
        let is_named = matches!(&error, CatalogError::Refused(text)
            if text.contains(&named) && text.contains(more));
        assert!(is_named, "{error}");
    }
    // The next release upgraded it in a way that this one can live with.
    set(4, 3);
    PgCatalog::open(settings.clone()).unwrap();
    assert_eq!(server.sql("test_0", "SELECT version FROM schema_version"), "4");
}

#[test]
fn a_slow_statement_is_cancelled_and_nothing_happened() {
    let server = Server::start();
    // Its calls wait for as long as the test does.
    let settings = PgSettings { statement_timeout: HOUR, call_timeout: HOUR, ..server.database() };
    let catalog = PgCatalog::open(settings.clone()).unwrap();
    catalog.acquire(Resource::Sweep, NodeId(1), HOUR).unwrap();
    // Another transaction holds the row.
    let mut session = Session::new(&server, "test_0");
    session.run("BEGIN");
    session.run("SELECT 1 FROM leases FOR UPDATE");
    let hasty = PgSettings { statement_timeout: Duration::from_millis(300), ..settings };
    let deadline = Instant::now() + Duration::from_secs(300);
    let hasty = loop {
        match PgCatalog::open(hasty.clone()) {
            Ok(catalog) => break catalog,
            // On a slow machine, statements that wait for nobody may be cancelled, too.
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    };
    let error = hasty.acquire(Resource::Sweep, NodeId(1), HOUR).unwrap_err();
    assert_eq!(error.failure(), Failure::Retry, "{error}");
    session.run("ROLLBACK");
    let lease = catalog.acquire(Resource::Sweep, NodeId(1), HOUR).unwrap().unwrap();
    assert_eq!(lease.epoch, 2);
}

#[test]
fn a_wrong_connection_is_refused_with_its_reason() {
    let error = PgCatalog::open(PgSettings::new("host=127.0.0.1 prot=1")).err().unwrap();
    assert_eq!(error.failure(), Failure::Refused, "{error}");
    let encrypted = PgSettings::new("host=127.0.0.1 user=x sslmode=require");
    let error = PgCatalog::open(encrypted).err().unwrap();
    assert!(matches!(&error, CatalogError::Refused(text) if text.contains("root")), "{error}");
    let error = PgCatalog::open(PgSettings::new("host=127.0.0.1 port=1 user=x")).err().unwrap();
    assert_eq!(error.failure(), Failure::Retry, "{error}");
}

#[test]
fn connections_are_encrypted_and_the_server_is_verified() {
    let mut server = Server::start();
    let plain = server.database();
    let roots = server.encrypt();
    // The server takes a moment to read its configuration.
    let connection = plain.connection.replace("127.0.0.1", "localhost");
    let settings =
        PgSettings { connection, root_certificates: Some(roots.clone()), ..plain.clone() };
    let deadline = Instant::now() + Duration::from_secs(300);
    let catalog = loop {
        match PgCatalog::open(settings.clone()) {
            Ok(catalog) => break catalog,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        thread::sleep(Duration::from_millis(10));
    };
    catalog.acquire(Resource::Sweep, NodeId(1), HOUR).unwrap();
    // Not encrypted, of another name, of an unknown issuer, and without certificates.
    let refused = |settings: PgSettings| PgCatalog::open(settings).err().unwrap().to_string();
    let error = refused(plain.clone());
    assert!(error.contains("no encryption"), "{error}");
    let error = refused(PgSettings { root_certificates: Some(roots.clone()), ..plain });
    assert!(error.contains("not valid for name"), "{error}");
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(&roots, other.cert.pem()).unwrap();
    let error = refused(settings.clone());
    assert!(error.contains("certificate"), "{error}");
    std::fs::write(&roots, "").unwrap();
    let error = refused(settings);
    assert!(error.contains("there is none"), "{error}");
}
