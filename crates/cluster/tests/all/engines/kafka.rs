//! What a log promises, on a real broker.

use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use cluster::engines::ErrorKind;
use cluster::engines::kafka::{Compression, Config, Log, Record, TopicSettings, partition_of_key};
use cluster::{FrameLog, LogError};

use super::server::Server;

/// How long a read waits for messages that are there, or come soon: as long as any machine takes.
const WAIT: Duration = Duration::from_secs(300);

/// A configuration for brokers that may be slow.
pub fn patient(broker: String, topic: &str) -> Config {
    Config {
        connect_time_max: WAIT,
        request_time_max: WAIT,
        append_time_max: WAIT,
        ..Config::new([broker], topic)
    }
}

pub fn settings(partitions: u32, copies: u16) -> TopicSettings {
    TopicSettings {
        partitions,
        copies,
        copies_min: copies.min(2),
        message_bytes_max: 2 << 20,
        others: Vec::new(),
    }
}

/// A log whose topic is there.
fn log(server: &Server, topic: &str) -> Log {
    let log = Log::connect(patient(server.broker(0), topic)).unwrap();
    log.create_topic(&settings(2, 1)).unwrap();
    log
}

/// Bytes that cannot be compressed.
pub fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| random.u8(..)).take(count).collect()
}

#[test]
fn a_log_on_one_broker() {
    let server = Server::kafka(1);
    server.run("start");
    messages_come_back(&server);
    reads_are_bounded(&server);
    deleted_and_future_offsets_are_told(&server);
    large_messages_are_refused(&server);
    a_topic_that_does_not_fit_is_refused(&server);
    keys_and_deletions(&server);
    errors_name_the_remedy(&server);
}

fn messages_come_back(server: &Server) {
    for (compression, topic) in [
        (Compression::Plain, "plain"),
        (Compression::Gzip, "gzip"),
        (Compression::Lz4, "lz4"),
        (Compression::Zstd, "zstd"),
    ] {
        let config = Config { compression, ..patient(server.broker(0), topic) };
        let log = Log::connect(config).unwrap();
        log.create_topic(&settings(2, 1)).unwrap();
        // It is there, and fits.
        log.create_topic(&settings(2, 1)).unwrap();
        assert_eq!(log.partitions().unwrap(), 2);
        assert_eq!(log.bounds(1).unwrap(), 0..0);
        let frames: Vec<Vec<u8>> =
            vec![noise(1, 1 << 20), Vec::new(), b"x".to_vec(), vec![0; 1 << 20], noise(2, 100)];
        let parts: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        assert_eq!(log.append(1, &parts).unwrap(), 0);
        assert_eq!(log.append(1, &[b"last"]).unwrap(), 5);
        assert_eq!(log.bounds(1).unwrap(), 0..6);
        assert_eq!(log.bounds(0).unwrap(), 0..0);
        // Another log reads them, as after a restart.
        let other = Log::connect(log.config().clone()).unwrap();
        let mut next = 0;
        while next < 5 {
            for message in other.read(1, next, 64 << 20, WAIT).unwrap() {
                assert_eq!(message.offset, next);
                if next < 5 {
                    assert!(message.bytes == frames[next as usize], "{topic} {next}");
                }
                next += 1;
            }
        }
    }
}

fn reads_are_bounded(server: &Server) {
    let log = log(server, "bounded");
    let begun = Instant::now();
    assert_eq!(log.read(0, 0, 1, Duration::from_millis(300)).unwrap(), []);
    assert!(begun.elapsed() >= Duration::from_millis(300));
    // Many are submitted before the first is waited for.
    let message = noise(3, 1000);
    let pending: Vec<_> = (0..100).map(|_| log.submit(0, &[&message]).unwrap()).collect();
    let offsets: Vec<u64> = pending.into_iter().map(|pending| pending.wait().unwrap()).collect();
    assert_eq!(offsets, (0..100).collect::<Vec<u64>>());
    // At least one, and not more bytes than asked for.
    assert_eq!(log.read(0, 0, 1, WAIT).unwrap().len(), 1);
    assert_eq!(log.read(0, 1, 5_500, WAIT).unwrap().len(), 5);
    // Anywhere, in any order.
    for from in [99, 0, 50, 51, 7] {
        let read = log.read(0, from, 1, WAIT).unwrap();
        assert_eq!((read[0].offset, read[0].bytes.as_ref()), (from, message.as_slice()));
    }
    // A message that comes while it is waited for.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| log.read(0, 100, 1, WAIT).unwrap());
        assert_eq!(log.append(0, &[b"now"]).unwrap(), 100);
        assert_eq!(waiting.join().unwrap()[0].bytes.as_ref(), b"now");
    });
    log.end_reading(0);
    assert_eq!(log.read(0, 100, 1, WAIT).unwrap()[0].offset, 100);
}

fn deleted_and_future_offsets_are_told(server: &Server) {
    let log = log(server, "deleted");
    for _ in 0..10 {
        log.append(0, &[b"message"]).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("offsets.json");
    let text = r#"{"partitions":[{"topic":"deleted","partition":0,"offset":4}],"version":1}"#;
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    server.tool("org.apache.kafka.tools.DeleteRecordsCommand", &["--offset-json-file", file]);
    assert_eq!(log.bounds(0).unwrap(), 4..10);
    assert_eq!(log.read(0, 4, 1, WAIT).unwrap()[0].offset, 4);
    let error = log.read(0, 3, 1, WAIT).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("messages begin at 4; raise retention.ms"), "{error}");
    let error = log.read(0, 11, 1, WAIT).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("messages end before 10"), "{error}");
    let told = FrameLog::read(&log, 0, 3, 1, WAIT).unwrap_err();
    assert_eq!(told, LogError::OutOfRange { wanted: 3, start: 4, end: 10 });
    // It reads on where there is something.
    assert_eq!(log.read(0, 9, 1, WAIT).unwrap()[0].offset, 9);
}

fn large_messages_are_refused(server: &Server) {
    let log = log(server, "large");
    let error = log.append(0, &[&noise(4, 3 << 20)]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLarge, "{error}");
    assert!(error.to_string().contains("max.message.bytes of the topic"), "{error}");
    // What comes before it is there, and what comes behind it is not.
    let error = log.append(0, &[b"before", &noise(4, 3 << 20), b"behind"]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::OutcomeUnknown, "{error}");
    assert!(error.to_string().starts_with("1 of 3 messages are known to be stored"), "{error}");
    assert_eq!(log.bounds(0).unwrap(), 0..1);
    assert_eq!(log.append(0, &[&noise(5, 2 << 20)]).unwrap(), 1);
}

fn a_topic_that_does_not_fit_is_refused(server: &Server) {
    let tool = |arguments: &[&str]| {
        server.tool("org.apache.kafka.tools.TopicCommand", arguments);
    };
    let check = |topic: &str, settings: &TopicSettings| {
        let log = Log::connect(patient(server.broker(0), topic)).unwrap();
        log.create_topic(settings).map_err(|error| error.to_string())
    };
    tool(&["--create", "--topic", "small", "--partitions", "3"]);
    let error = check("small", &settings(2, 1)).unwrap_err();
    assert!(error.contains("max.message.bytes=1048588, and 2101248 is needed"), "{error}");
    assert!(error.contains("--add-config max.message.bytes=2101248"), "{error}");
    let fitting = TopicSettings { message_bytes_max: 1000, ..settings(2, 1) };
    let config = Config { batch_bytes_max: 1 << 19, ..patient(server.broker(0), "small") };
    Log::connect(config).unwrap().create_topic(&fitting).unwrap();
    let error = check("small", &settings(4, 1)).unwrap_err();
    assert!(error.contains("has 3 partitions, and 4 are needed"), "{error}");
    let compacted = ["--config", "cleanup.policy=compact", "--config", "max.message.bytes=9000000"];
    tool(&[&["--create", "--topic", "compacted"], compacted.as_slice()].concat());
    let error = check("compacted", &settings(1, 1)).unwrap_err();
    assert!(error.contains("--add-config cleanup.policy=delete"), "{error}");
    let error = check("copies", &settings(1, 3)).unwrap_err();
    assert!(error.contains("have as many brokers as copies"), "{error}");
    let error = check("a name", &settings(1, 1)).unwrap_err();
    assert!(error.contains("name"), "{error}");
}

fn keys_and_deletions(server: &Server) {
    let log = log(server, "keys");
    // Old enough to differ from the time of sending, and too young for retention.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let time_ms = now.as_millis() as i64 - 3_600_000;
    let record = |key: &str, value: Option<&'static str>| Record {
        partition: partition_of_key(key.as_bytes(), 2),
        key: Some(Bytes::copy_from_slice(key.as_bytes())),
        value: value.map(Bytes::from),
        time_ms: Some(time_ms),
    };
    let records: Vec<Record> = (0..50)
        .map(|n| record(&format!("key-{n}"), Some("value")))
        .chain([record("key-0", None)])
        .collect();
    for outcome in log.send(records) {
        outcome.unwrap();
    }
    let printed = server.tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        &[
            "--topic",
            "keys",
            "--from-beginning",
            "--max-messages",
            "51",
            "--timeout-ms",
            "300000",
            "--property",
            "print.key=true",
            "--property",
            "print.timestamp=true",
        ],
    );
    let start = format!("CreateTime:{time_ms}\tkey-");
    let lines = printed.lines().filter(|line| line.starts_with(&start));
    assert_eq!(lines.count(), 51, "{printed}");
    assert!(printed.contains("key-0\tnull"), "{printed}");
}

fn errors_name_the_remedy(server: &Server) {
    let config = Config::new([server.broker(0)], "absent");
    let config = Config { append_time_max: Duration::from_secs(5), ..config };
    let log = Log::connect(Config { request_time_max: Duration::from_secs(4), ..config }).unwrap();
    for error in [
        log.append(0, &[b"x"]).unwrap_err(),
        log.read(0, 0, 1, Duration::from_secs(1)).unwrap_err(),
        log.bounds(0).unwrap_err(),
        log.partitions().unwrap_err(),
    ] {
        assert_eq!(error.kind, ErrorKind::Retriable, "{error}");
        assert!(error.remedy.contains("create the topic, or correct its name"), "{error}");
    }
    assert_eq!(log.append(0, &[]).unwrap_err().kind, ErrorKind::Refused);

    let log = self::log(server, "there");
    let error = log.append(7, &[b"x"]).unwrap_err();
    assert!(!error.may_pass(), "{error}");

    let error = Log::connect(Config::new(["127.0.0.1:1"], "x")).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Retriable);
    assert!(error.to_string().starts_with("no broker answers at 127.0.0.1:1; check"), "{error}");
    let error = Log::connect(Config::new([] as [&str; 0], "x")).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
}
