//! A real Kafka, read back by its own consumer.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use sinks::{Batch, Delivered, Document, Outcome, Runner, RunnerParts};

use super::{Real, deliver_while_killing, wait_for};
use crate::sink::{destination, document, sink};

const PORT: u16 = 19770;
/// Where brokers expect TLS and a login.
const SECURE_PORT: u16 = 19780;
const DOCUMENTS: u64 = 60_000;
const BATCH_DOCUMENTS: u64 = 1_000;
/// The broker is killed before these batches are submitted, and started again.
const KILLED_BEFORE_BATCHES: [u64; 2] = [25, 45];

impl Real {
    /// Runs a tool of Kafka; returns what it prints.
    fn tool(&self, class: &str, arguments: &[&str]) -> String {
        let server = format!("127.0.0.1:{}", self.port);
        let command = [&["tool", class, "--bootstrap-server", &server], arguments].concat();
        let out = self.command(&command).output().unwrap();
        let printed =
            String::from_utf8(out.stdout).unwrap() + &String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{class} {arguments:?}: {printed}");
        printed
    }

    /// The values of each key, in their order.
    ///
    /// Each partition is read by its number and not through a group: a group waits for the other
    /// brokers of its coordinator, and for its members.
    fn consume(&self, topic: &str) -> BTreeMap<String, Vec<String>> {
        let offsets = self.tool("org.apache.kafka.tools.GetOffsetShell", &["--topic", topic]);
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for line in offsets.lines() {
            // A line is `topic:partition:offset`.
            let mut parts = line.rsplit(':');
            let (Some(count), Some(partition)) = (parts.next(), parts.next()) else { continue };
            if count.parse::<u64>().is_ok_and(|count| count > 0) {
                self.consume_partition(topic, partition, count, &mut found);
            }
        }
        found
    }

    /// Reads the first `count` records, so that the end does not depend on the time.
    fn consume_partition(
        &self,
        topic: &str,
        partition: &str,
        count: &str,
        found: &mut BTreeMap<String, Vec<String>>,
    ) {
        let printed = self.tool(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            &[
                "--topic",
                topic,
                "--partition",
                partition,
                "--offset",
                "earliest",
                "--timeout-ms",
                "120000",
                "--max-messages",
                count,
                "--property",
                "print.key=true",
                "--property",
                "key.separator=|",
            ],
        );
        let mut records = 0;
        for (key, value) in printed.lines().filter_map(|line| line.split_once('|')) {
            found.entry(key.to_owned()).or_default().push(value.to_owned());
            records += 1;
        }
        let others: Vec<&str> = printed.lines().filter(|line| !line.contains('|')).collect();
        assert_eq!(records.to_string(), count, "{topic}/{partition}: {others:?}");
    }
}

/// Creates a topic, with arguments of the tool.
fn create(real: &Real, topic: &str, arguments: &[&str]) {
    let create = ["--create", "--topic", topic];
    real.tool("org.apache.kafka.tools.TopicCommand", &[create.as_slice(), arguments].concat());
}

fn batch(number: u64) -> Batch {
    let documents = (0..BATCH_DOCUMENTS).map(|place| {
        let n = number * BATCH_DOCUMENTS + place;
        document(&format!("id-{n}"), n as i64, &[("n", json!(n)), ("host", json!("web"))])
    });
    Batch { documents: documents.collect(), cursor: number.to_string() }
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn kafka_has_every_document_although_it_is_killed() {
    let real = Real::new("kafka", "KAFKA_PORT", PORT);
    real.run("start");
    let sink = sink(&format!(
        "name = \"real\"\ntimeout = \"20s\"\nretry = {{ longest = \"1s\" }}\n[kafka]\n\
         brokers = [\"127.0.0.1:{PORT}\"]\ntopic = \"rows\""
    ));
    let folder = tempfile::tempdir().unwrap();
    let batches = DOCUMENTS / BATCH_DOCUMENTS;
    let mut all: Vec<Batch> = (0..batches).map(batch).collect();
    // A deletion is the last record of its key.
    let last = all.last_mut().unwrap();
    last.documents.push(Document::delete("id-0", 0));
    let state = deliver_while_killing(&real, &sink, folder.path(), all, &KILLED_BEFORE_BATCHES);
    assert_eq!((state.accepted, state.rejected), (DOCUMENTS + 1, 0));

    let found = real.consume("rows");
    assert_eq!(found.len() as u64, DOCUMENTS);
    let records: usize = found.values().map(Vec::len).sum();
    eprintln!("{} records by retries besides {DOCUMENTS}", records as u64 - DOCUMENTS - 1);
    for (key, values) in found {
        let n = key.strip_prefix("id-").unwrap();
        let nanoseconds = format!("{n:0>9}");
        let expected = format!(
            "{{\"_time\":\"2026-01-02T03:04:05.{nanoseconds}Z\",\"n\":{n},\"host\":\"web\"}}"
        );
        let (written, deleted) = values.split_at(values.len() - usize::from(n == "0"));
        assert!(written.iter().all(|value| *value == expected), "{key}: {values:?}");
        assert!(deleted.iter().all(|value| value == "null"), "{key}: {values:?}");
    }
    large_records(&real);
    requests_are_bounded(&real);
    compressed(&real);
}

/// A topic that takes records of 2 KB: smaller batches are found, and larger records rejected.
fn large_records(real: &Real) {
    create(real, "small", &["--partitions", "2", "--config", "max.message.bytes=2000"]);
    let sink = sink(&format!(
        "name = \"real\"\ncompression = \"none\"\nretry = {{ longest = \"1s\" }}\n[kafka]\n\
         brokers = [\"127.0.0.1:{PORT}\"]\ntopic = \"small\""
    ));
    let documents = (0..100).map(|n| {
        let bytes = if n == 50 { 3_000 } else { 300 };
        document(&format!("{n}"), n, &[("text", json!("x".repeat(bytes)))])
    });
    let batch = Batch { documents: documents.collect(), cursor: "end".to_owned() };
    let folder = tempfile::tempdir().unwrap();
    let state = deliver_while_killing(real, &sink, folder.path(), vec![batch], &[]);
    assert_eq!((state.accepted, state.rejected), (99, 1));
    let rejected = std::fs::read_to_string(folder.path().join("real-rejected.jsonl")).unwrap();
    assert!(rejected.contains("MESSAGE_TOO_LARGE (10)"), "{rejected}");
    let found = real.consume("small");
    assert_eq!((found.len(), found.contains_key("50")), (99, false));

    // The record whose time the broker refuses is found by smaller batches. The other records are
    // months old: the broker would delete them as soon as it looks for expired ones.
    create(
        real,
        "times",
        &[
            "--partitions",
            "1",
            "--config",
            "message.timestamp.after.max.ms=1000",
            "--config",
            "retention.ms=-1",
        ],
    );
    let sink = self::sink(&format!(
        "name = \"real\"\nretry = {{ longest = \"1s\" }}\n[kafka]\n\
         brokers = [\"127.0.0.1:{PORT}\"]\ntopic = \"times\"\nrecord_time = \"document\""
    ));
    let documents = (0..50)
        .map(|n| document(&format!("{n}"), i64::from(n == 33) * 3_000_000_000_000_000_000, &[]));
    let batch = Batch { documents: documents.collect(), cursor: "end".to_owned() };
    let folder = tempfile::tempdir().unwrap();
    let state = deliver_while_killing(real, &sink, folder.path(), vec![batch], &[]);
    assert_eq!((state.accepted, state.rejected), (49, 1));
    let rejected = std::fs::read_to_string(folder.path().join("real-rejected.jsonl")).unwrap();
    assert!(rejected.contains("INVALID_TIMESTAMP (32)"), "{rejected}");
    let found = real.consume("times");
    assert_eq!((found.len(), found.contains_key("33")), (49, false));
}

/// Documents that no request holds are rejected; others are sent in several calls.
fn requests_are_bounded(real: &Real) {
    create(real, "bounded", &["--partitions", "1"]);
    let mut to = destination(&format!(
        "name = \"real\"\nbody_bytes_max = \"4KiB\"\n[kafka]\n\
         brokers = [\"127.0.0.1:{PORT}\"]\ntopic = \"bounded\"\nid_field = \"id\""
    ));
    let large = |id: &str, bytes| document(id, 0, &[("text", json!("x".repeat(bytes)))]);
    let documents = [large("a", 5000), large("b", 1500), large("c", 1500), large("d", 1500)];
    let Delivered::Answered { outcomes, .. } = to.deliver(&documents) else { panic!() };
    assert_eq!(outcomes[1..], [Outcome::Accepted, Outcome::Accepted]);
    let Outcome::Rejected(reason) = &outcomes[0] else { panic!() };
    assert!(reason.contains("more than body_bytes_max (4096)"), "{reason}");
    assert_eq!(to.deliver(&documents[3..]), Delivered::accepted(1));
    assert_eq!(to.deliver(&[Document::delete("b", 0)]), Delivered::accepted(1));
    let found = real.consume("bounded");
    assert!(
        found["b"][0].starts_with("{\"_time\":\"2026-01-02T03:04:05.000000000Z\",\"id\":\"b\"")
    );
    assert_eq!((found.len(), found["b"][1].as_str()), (3, "null"));
}

fn compressed(real: &Real) {
    for compression in ["none", "gzip", "zstd"] {
        create(real, compression, &["--partitions", "3"]);
        let sink = sink(&format!(
            "name = \"real\"\ncompression = {compression:?}\n[kafka]\n\
             brokers = [\"127.0.0.1:{PORT}\"]\ntopic = {compression:?}"
        ));
        let folder = tempfile::tempdir().unwrap();
        deliver_while_killing(real, &sink, folder.path(), vec![batch(0)], &[]);
        assert_eq!(real.consume(compression).len(), 1_000);
    }
}

/// Three brokers of which one after the other is killed while documents are delivered, and started
/// again before the next one: partitions get other leaders.
#[test]
#[ignore = "takes minutes: make test-long"]
fn kafka_goes_on_without_one_of_its_brokers() {
    let real = Real::new("kafka", "KAFKA_PORT", PORT + 2);
    real.run("start 3");
    create(&real, "rows", &["--partitions", "6", "--config", "min.insync.replicas=2"]);
    let brokers: Vec<String> = (0..3).map(|n| format!("127.0.0.1:{}", real.port + n)).collect();
    let sink = sink(&format!(
        "name = \"real\"\ntimeout = \"20s\"\nretry = {{ longest = \"1s\" }}\n[kafka]\n\
         brokers = {brokers:?}\ntopic = \"rows\""
    ));
    let folder = tempfile::tempdir().unwrap();
    let done = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&done);
    let rejects = Box::new(sink.reject_store(folder.path()));
    let parts = RunnerParts::new(sink.destination().unwrap(), rejects, move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let runner = Runner::start("real", parts, sink.runner).unwrap();
    let batches = 60;
    for number in 0..batches {
        if number % 20 == 10 {
            // All is delivered by the two brokers that are left.
            real.kill(number as u16 / 20);
        }
        runner.submit(batch(number)).unwrap();
        if number % 20 == 19 {
            wait_for(&done, number + 1);
            real.run("start 3");
        }
    }
    let state = runner.finish();
    eprintln!("{state:?}");
    assert_eq!((state.accepted, state.rejected), (batches * BATCH_DOCUMENTS, 0));
    // The broker that was started last catches up before all is counted.
    let describe = ["--describe", "--topic", "rows", "--under-replicated-partitions"];
    while real.tool("org.apache.kafka.tools.TopicCommand", &describe).contains("Partition:") {}
    let found = real.consume("rows");
    let records: usize = found.values().map(Vec::len).sum();
    eprintln!("{} records by retries", records as u64 - batches * BATCH_DOCUMENTS);
    assert_eq!(found.len() as u64, batches * BATCH_DOCUMENTS);
}

/// Starts the broker with one more listener, for TLS with logins.
fn secured(folder: &Path) -> (Real, String) {
    let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (key, ca) = (folder.join("key.pem"), folder.join("ca.pem"));
    std::fs::write(&ca, issued.cert.pem()).unwrap();
    std::fs::write(&key, issued.signing_key.serialize_pem() + &issued.cert.pem()).unwrap();
    let module = "org.apache.kafka.common.security";
    let settings = format!(
        "listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},\
         SASL_SSL://127.0.0.1:{SECURE_PORT}\n\
         advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL_SSL://localhost:{SECURE_PORT}\n\
         listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,\
         SASL_SSL:SASL_SSL\n\
         sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n\
         listener.name.sasl_ssl.plain.sasl.jaas.config={module}.plain.PlainLoginModule required \
         user_loginson=\"hunter22\";\n\
         listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config={module}.scram.ScramLoginModule \
         required;\n\
         listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={module}.scram.ScramLoginModule \
         required;\n\
         ssl.keystore.type=PEM\nssl.keystore.location={}\n",
        key.display(),
        port = PORT + 1,
        controller = PORT + 101,
    );
    let file = folder.join("settings");
    std::fs::write(&file, settings).unwrap();
    let mut real = Real::new("kafka", "KAFKA_PORT", PORT + 1);
    real.variables.push(("KAFKA_SETTINGS", file.to_str().unwrap().to_owned()));
    real.run("start");
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let password = format!("{mechanism}=[password=hunter22]");
        let arguments = [
            "--alter",
            "--entity-type",
            "users",
            "--entity-name",
            "loginson",
            "--add-config",
            &password,
        ];
        eprintln!("{}", real.tool("kafka.admin.ConfigCommand", &arguments));
    }
    (real, ca.to_str().unwrap().to_owned())
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn kafka_with_tls_and_logins() {
    let folder = tempfile::tempdir().unwrap();
    let (real, ca) = secured(folder.path());
    create(&real, "secure", &[]);
    let to = |password: &str, sasl: &str, ca: &str| {
        let mut to = destination(&format!(
            "name = \"x\"\nuser = \"loginson\"\npassword = {password:?}\n{ca}\n[kafka]\ntls = true\n\
             brokers = [\"localhost:{SECURE_PORT}\"]\ntopic = \"secure\"\nsasl = {sasl:?}"
        ));
        to.deliver(&[document(sasl, 0, &[])])
    };
    let ca = format!("ca = {ca:?}");
    for sasl in ["plain", "scram-sha-256", "scram-sha-512"] {
        assert_eq!(to("hunter22", sasl, &ca), Delivered::accepted(1), "{sasl}");
        let Delivered::Unavailable { fault, .. } = to("hunter33", sasl, &ca) else { panic!() };
        assert!(fault.remedy.contains("check `user` and its password"), "{fault}");
        assert!(!fault.to_string().contains("hunter33"), "{fault}");
    }
    assert_eq!(real.consume("secure").len(), 3);
    let Delivered::Unavailable { fault, .. } = to("hunter22", "plain", "") else { panic!() };
    assert!(fault.remedy.contains("with `ca`"), "{fault}");
    let mut to = destination(&format!(
        "name = \"x\"\n[kafka]\nbrokers = [\"localhost:{SECURE_PORT}\"]\ntopic = \"secure\""
    ));
    let Delivered::Unavailable { fault, .. } = to.deliver(&[document("id", 0, &[])]) else {
        panic!()
    };
    assert!(fault.remedy.contains("set `tls = true`"), "{fault}");
}
