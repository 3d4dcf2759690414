//! Plans over many segments. `LOGINSON_CLUSTER_SEGMENTS=10000000` measures that many, and prints
//! the times and the plan of the server.

use std::time::{Duration, Instant};

use cluster::engines::postgres::PgCatalog;
use cluster::{Catalog, DueRules, TimeRange, Unsearched};

use super::server::Server;

const SECOND_NS: i64 = 1_000_000_000;
/// Enough that reading them all would take much longer than is allowed.
const SEGMENTS: i64 = 100_000;

#[test]
fn a_plan_reads_what_overlaps_alone() {
    let segments: i64 = std::env::var("LOGINSON_CLUSTER_SEGMENTS")
        .map_or(SEGMENTS, |text| text.parse().expect("a number"));
    let server = Server::start();
    let settings = server.database();
    let catalog = PgCatalog::open(settings).unwrap();
    // One segment a second in 16 partitions, each of a minute; every thousandth has late lines of
    // a day, every hundred thousandth lines of all times.
    let began = Instant::now();
    let index = server
        .sql("test_0", "SELECT indexdef FROM pg_indexes WHERE indexname = 'segments_by_time'");
    server.sql("test_0", "DROP INDEX segments_by_time");
    server.sql(
        "test_0",
        &format!(
            "INSERT INTO segments (name, partition, first_offset, end_offset, first_ns, last_ns,
                received_last_ns, lines, bytes, searched, published, retired)
             SELECT
                'segments/partition-' || i % 16 || '/1-00000001-' || i, i % 16, i, i + 1,
                CASE WHEN i % 100000 = 0 THEN 0
                    WHEN i % 1000 = 0 THEN (i - 86400) * {SECOND_NS} ELSE i * {SECOND_NS} END,
                (i + 60) * {SECOND_NS}, (i + 60) * {SECOND_NS}, 1000, 1000,
                CASE WHEN i % 1001 = 0 THEN 4 ELSE 5 END, now(),
                CASE WHEN i % 10 = 0 AND i % 1000 > 0 THEN now() END
             FROM generate_series(1::bigint, {segments}) AS i"
        ),
    );
    println!("{segments} segments inserted in {:?}", began.elapsed());
    let began = Instant::now();
    server.sql("test_0", &index);
    println!("index made in {:?}", began.elapsed());
    server.sql("test_0", "INSERT INTO partitions SELECT i, 1, 0 FROM generate_series(0, 15) AS i");
    server.sql("test_0", "VACUUM ANALYZE");
    for (name, from_s, length_s) in [
        ("a minute", segments / 2, 60),
        ("an hour", segments / 2, 3600),
        ("the last hour", segments - 3600, 7200),
        ("before all", -1000, 10),
    ] {
        let first_ns = from_s * SECOND_NS;
        let times = TimeRange { first_ns, last_ns: first_ns + length_s * SECOND_NS };
        let mut taken: Vec<Duration> = Vec::new();
        let mut found = 0;
        for _ in 0..21 {
            let began = Instant::now();
            found = catalog.snapshot(times, 100_000).unwrap().segments.len();
            taken.push(began.elapsed());
        }
        taken.sort();
        println!("{name}: {found} segments, median {:?}, worst {:?}", taken[10], taken[20]);
        let expected: i64 = server
            .sql(
                "test_0",
                &format!(
                    "SELECT count(*) FROM segments WHERE retired IS NULL
                     AND first_ns <= {} AND last_ns >= {}",
                    times.last_ns, times.first_ns
                ),
            )
            .parse()
            .unwrap();
        assert_eq!(found as i64, expected, "{name}");
        let plan = server.sql(
            "test_0",
            &format!(
                "EXPLAIN (ANALYZE, BUFFERS) SELECT name FROM segments WHERE retired IS NULL
                 AND int8range(LEAST(first_ns, 9223372036854775806),
                    LEAST(last_ns, 9223372036854775806), '[]') && int8range({0}, {1}, '[]')
                 AND first_ns <= {1} AND last_ns >= {0} LIMIT 100001",
                times.first_ns, times.last_ns
            ),
        );
        println!("{plan}");
        assert!(plan.contains("segments_by_time"), "{plan}");
    }
    println!(
        "{}",
        server.sql(
            "test_0",
            "SELECT relname, pg_size_pretty(pg_relation_size(oid))
        FROM pg_class WHERE relname LIKE 'segments%'"
        )
    );
    // A search for the deletion 5, and one for rules that are due for the older half.
    let half_ns = segments / 2 * SECOND_NS;
    let due = vec![DueRules { received_ns: i64::MIN..half_ns, rules: 0 }];
    for (name, wanted, condition) in [
        ("a deletion", Unsearched { below: 5, due: Vec::new() }, "searched < 5".to_owned()),
        ("rules", Unsearched { below: 5, due }, "searched < 5".to_owned()),
        (
            "new rules",
            Unsearched {
                below: 0,
                due: vec![DueRules { received_ns: i64::MIN..half_ns, rules: 1 }],
            },
            format!("received_last_ns < {half_ns}"),
        ),
    ] {
        let began = Instant::now();
        let found = catalog.unsearched(3, &wanted, 0, 100_000_000).unwrap().len();
        println!("unsearched, {name}: {found} in {:?}", began.elapsed());
        let sql = format!(
            "SELECT count(*) FROM segments WHERE retired IS NULL AND partition = 3 AND {condition}"
        );
        assert_eq!(found.to_string(), server.sql("test_0", &sql), "{name}");
    }
    for (name, call) in [
        (
            "segments_of",
            Box::new(|| catalog.segments_of(3, 0, 256).unwrap().len()) as Box<dyn Fn() -> usize>,
        ),
        ("older_than", Box::new(|| catalog.older_than(Duration::ZERO, 256).unwrap().len())),
        ("retired", Box::new(|| catalog.retired(Duration::ZERO, 256).unwrap().len())),
        ("totals", Box::new(|| catalog.totals().unwrap().segments as usize)),
    ] {
        let began = Instant::now();
        let found = call();
        println!("{name}: {found} in {:?}", began.elapsed());
    }
}
