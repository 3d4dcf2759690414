//! The Kafka sink against a broker of this process that fails in every way.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use serde_json::json;
use sinks::{Batch, Delivered, Document, Outcome};

use crate::sink::{destination, document, run, sink};

/// What the broker does with one produce request.
#[derive(Debug, Clone)]
enum Behaviour {
    Take,
    /// Answers for each batch with one of these errors, in turn; 0 takes it.
    Errors(Vec<i16>),
    /// Refuses batches with a record whose value contains `bad`, and names such records or not.
    Check {
        is_naming: bool,
    },
    Close,
    TakeAndClose,
    Garbage,
    /// Answers for no partition.
    Silence,
}

fn behaviour() -> impl Strategy<Value = Behaviour> {
    let errors =
        prop_oneof![Just(0_i16), Just(6), Just(7), Just(19), Just(3), Just(56), Just(1234)];
    prop_oneof![
        4 => Just(Behaviour::Take),
        4 => proptest::collection::vec(errors, 1..4).prop_map(Behaviour::Errors),
        2 => any::<bool>().prop_map(|is_naming| Behaviour::Check { is_naming }),
        2 => Just(Behaviour::Close),
        2 => Just(Behaviour::TakeAndClose),
        1 => Just(Behaviour::Garbage),
        1 => Just(Behaviour::Silence),
    ]
}

/// A record: key, and value if it has one.
type Record = (String, Option<String>);

#[derive(Default)]
struct Log {
    script: VecDeque<Behaviour>,
    /// What to do when the script has ended.
    is_checking: bool,
    /// Answers to requests for the leaders that name no leader of partition 0.
    leaderless: usize,
    /// Batches above this size are refused.
    batch_bytes_max: usize,
    records: Vec<Record>,
    partitions: BTreeMap<String, usize>,
    requests: usize,
}

const PARTITIONS: i32 = 3;

fn start(log: &Arc<Mutex<Log>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let log = Arc::clone(log);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let log = Arc::clone(&log);
            // Clients that give up close the connection in the middle.
            std::thread::spawn(move || serve(stream?, port, &log));
        }
        io::Result::Ok(())
    });
    port
}

fn serve(mut stream: TcpStream, port: u16, log: &Mutex<Log>) -> io::Result<()> {
    loop {
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut frame)?;
        let mut reader = Input(&frame);
        let (api, version, correlation) = (reader.i16(), reader.i16(), reader.i32());
        reader.text();
        let mut answer = correlation.to_be_bytes().to_vec();
        match (api, version) {
            (3, 4) => answer.extend(metadata(port, log)),
            (0, 8) => match produce(reader, log) {
                Some(body) => answer.extend(body),
                None => return Ok(()),
            },
            other => panic!("{other:?} is no request of a producer"),
        }
        stream.write_all(&(answer.len() as u32).to_be_bytes())?;
        stream.write_all(&answer)?;
    }
}

fn metadata(port: u16, log: &Mutex<Log>) -> Vec<u8> {
    let mut log = log.lock().unwrap();
    let mut body = Output::default();
    body.i32(0).i32(1).i32(7).text("127.0.0.1").i32(i32::from(port)).i16(-1).i16(-1).i32(7);
    body.i32(1).i16(0).text("rows").0.push(0);
    body.i32(PARTITIONS);
    for partition in 0..PARTITIONS {
        let is_led = partition > 0 || log.leaderless == 0;
        body.i16(if is_led { 0 } else { 5 }).i32(partition).i32(if is_led { 7 } else { -1 });
        body.i32(0).i32(0);
    }
    log.leaderless = log.leaderless.saturating_sub(1);
    body.0
}

/// The answer; `None` to close the connection.
fn produce(mut reader: Input<'_>, log: &Mutex<Log>) -> Option<Vec<u8>> {
    let mut log = log.lock().unwrap();
    log.requests += 1;
    assert_eq!((reader.i16(), reader.i16()), (-1, -1), "no transaction, acks=all");
    reader.i32();
    assert_eq!((reader.i32(), reader.text()), (1, "rows".to_owned()));
    let behaviour = match log.script.pop_front() {
        Some(behaviour) => behaviour,
        None if log.is_checking => Behaviour::Check { is_naming: false },
        None => Behaviour::Take,
    };
    let mut body = Output::default();
    let count = reader.i32();
    body.i32(1).text("rows").i32(if matches!(behaviour, Behaviour::Silence) { 0 } else { count });
    for n in 0..count as usize {
        let partition = reader.i32();
        let size = reader.i32() as usize;
        let records = records(reader.take(size));
        let bad = |record: &Record| record.1.as_ref().is_some_and(|value| value.contains("bad"));
        let refused: Vec<usize> = (0..records.len()).filter(|at| bad(&records[*at])).collect();
        let (error, named) = match &behaviour {
            _ if log.batch_bytes_max > 0 && size > log.batch_bytes_max => (10, Vec::new()),
            Behaviour::Errors(errors) => (errors[n % errors.len()], Vec::new()),
            Behaviour::Check { is_naming } if !refused.is_empty() => {
                (87, if *is_naming { refused } else { Vec::new() })
            }
            _ => (0, Vec::new()),
        };
        if error == 0 && !matches!(behaviour, Behaviour::Close | Behaviour::Silence) {
            for record in records {
                let known = log.partitions.insert(record.0.clone(), partition as usize);
                assert!(known.is_none_or(|known| known == partition as usize));
                log.records.push(record);
            }
        }
        if !matches!(behaviour, Behaviour::Silence) {
            body.i32(partition).i16(error).i64(-1).i64(-1).i64(-1).i32(named.len() as i32);
            for at in named {
                body.i32(at as i32).text("a bad value");
            }
            body.i16(-1);
        }
    }
    body.i32(0);
    match behaviour {
        Behaviour::Close | Behaviour::TakeAndClose => None,
        Behaviour::Garbage => Some(vec![1; 10]),
        _ => Some(body.0),
    }
}

/// The records of a batch that is not compressed.
fn records(batch: &[u8]) -> Vec<Record> {
    let mut reader = Input(&batch[57..]);
    let count = reader.i32();
    let record = |_| {
        reader.varint();
        reader.take(1);
        reader.varint();
        reader.varint();
        let length = reader.varint() as usize;
        let key = String::from_utf8(reader.take(length).to_vec()).unwrap();
        let length = reader.varint();
        let value = usize::try_from(length).ok();
        let value = value.map(|length| String::from_utf8(reader.take(length).to_vec()).unwrap());
        assert_eq!(reader.varint(), 0);
        (key, value)
    };
    (0..count).map(record).collect()
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn i16(&mut self) -> i16 {
        i16::from_be_bytes(self.take(2).try_into().unwrap())
    }

    fn i32(&mut self) -> i32 {
        i32::from_be_bytes(self.take(4).try_into().unwrap())
    }

    fn text(&mut self) -> String {
        let length = self.i16() as usize;
        String::from_utf8(self.take(length).to_vec()).unwrap()
    }

    fn varint(&mut self) -> i64 {
        let (mut value, mut shift) = (0_u64, 0);
        loop {
            let byte = self.take(1)[0];
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return (value >> 1) as i64 ^ -((value & 1) as i64);
            }
        }
    }
}

#[derive(Default)]
struct Output(Vec<u8>);

impl Output {
    fn i16(&mut self, value: i16) -> &mut Output {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn i32(&mut self, value: i32) -> &mut Output {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn i64(&mut self, value: i64) -> &mut Output {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn text(&mut self, text: &str) -> &mut Output {
        self.i16(text.len() as i16).0.extend(text.as_bytes());
        self
    }
}

fn config(port: u16, rest: &str) -> String {
    format!(
        "name = \"x\"\ntimeout = \"2s\"\ncompression = \"none\"\n{rest}\n[kafka]\n\
         brokers = [\"127.0.0.1:{port}\"]\ntopic = \"rows\""
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Each document is in the log, at least once, or kept as rejected; the changes to one key are
    /// in their order, apart from repetitions.
    #[test]
    fn every_document_is_there_or_kept_as_rejected(
        script in proptest::collection::vec(behaviour(), 0..16),
        sizes in proptest::collection::vec(0_usize..30, 1..6),
        bad in proptest::collection::vec(0_usize..150, 0..5),
        leaderless in 0_usize..4,
        batch_bytes_max in prop_oneof![Just(0_usize), Just(400)],
    ) {
        let log = Log { script: script.into(), is_checking: true, leaderless, batch_bytes_max, ..Log::default() };
        let log = Arc::new(Mutex::new(log));
        let port = start(&log);
        let mut number = 0;
        let batches: Vec<Batch> = sizes.iter().enumerate().map(|(cursor, size)| {
            let documents = (0..*size).map(|_| {
                let text = if bad.contains(&number) { "bad" } else { "good" };
                number += 1;
                // Ten keys, so that most are written several times.
                let fields = [("n", json!(number)), ("text", json!(text))];
                document(&format!("id-{}", number % 10), 0, &fields)
            });
            Batch { documents: documents.collect(), cursor: cursor.to_string() }
        }).collect();
        let folder = tempfile::tempdir().unwrap();
        let (state, cursors) = run(&sink(&config(port, "")), folder.path(), batches);
        prop_assert_eq!(cursors.len(), sizes.len());
        prop_assert_eq!((state.accepted + state.rejected) as usize, number);

        let rejected = std::fs::read_to_string(folder.path().join("x-rejected.jsonl"));
        let rejected = rejected.unwrap_or_default();
        let log = log.lock().unwrap();
        let mut seen: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (key, value) in &log.records {
            let value: serde_json::Value = serde_json::from_str(value.as_deref().unwrap()).unwrap();
            let n = value["n"].as_u64().unwrap() as usize;
            let seen = seen.entry(key).or_default();
            if !seen.contains(&n) {
                seen.push(n);
            }
        }
        for n in 1..=number {
            let is_there = seen.get(format!("id-{}", n % 10).as_str()).is_some_and(|seen| seen.contains(&n));
            let is_kept = rejected.contains(&format!("\"n\":{n},"));
            prop_assert!(is_there || is_kept, "{} is lost", n);
            prop_assert!(!is_kept || bad.contains(&(n - 1)), "{} is rejected", n);
        }
        for (key, seen) in seen {
            prop_assert!(seen.is_sorted(), "{}: {:?}", key, seen);
        }
    }
}

#[test]
fn a_deletion_has_no_value() {
    let log = Arc::new(Mutex::new(Log::default()));
    let mut to = destination(&(config(start(&log), "") + "\nid_field = \"id\""));
    let documents = [document("a", 0, &[("n", json!(1))]), Document::delete("a", 0)];
    assert_eq!(to.deliver(&documents), Delivered::accepted(2));
    let value = "{\"_time\":\"2026-01-02T03:04:05.000000000Z\",\"id\":\"a\",\"n\":1}";
    let expected = [("a".to_owned(), Some(value.to_owned())), ("a".to_owned(), None)];
    assert_eq!(log.lock().unwrap().records, expected);
}

#[test]
fn faults_say_what_to_do() {
    let delivered = |behaviour: Behaviour| {
        let log = Log { script: VecDeque::from([behaviour]), ..Log::default() };
        let log = Arc::new(Mutex::new(log));
        let mut to = destination(&config(start(&log), ""));
        let Delivered::Answered { outcomes, .. } = to.deliver(&[document("a", 0, &[])]) else {
            panic!()
        };
        match &outcomes[0] {
            Outcome::Retry(fault) => format!("retry: {fault}"),
            Outcome::Rejected(reason) => format!("rejected: {reason}"),
            other => format!("{other:?}"),
        }
    };
    for (behaviour, expected) in [
        (
            Behaviour::Errors(vec![10]),
            "rejected: the broker answered MESSAGE_TOO_LARGE (10); raise",
        ),
        (Behaviour::Errors(vec![87]), "rejected: the broker answered INVALID_RECORD (87)"),
        (Behaviour::Errors(vec![29]), "retry: the broker answered TOPIC_AUTHORIZATION_FAILED (29)"),
        (Behaviour::Errors(vec![1234]), "retry: the broker answered with error 1234"),
        (Behaviour::Silence, "retry: the broker said nothing about partition"),
        (Behaviour::Close, "retry: the broker 127.0.0.1:"),
        (Behaviour::Garbage, "retry: the broker 127.0.0.1:"),
    ] {
        let found = delivered(behaviour.clone());
        assert!(found.starts_with(expected), "{behaviour:?}: {found}");
    }
    let mut to = destination(&config(1, ""));
    let Delivered::Unavailable { fault, .. } = to.deliver(&[document("a", 0, &[])]) else {
        panic!()
    };
    assert!(fault.what.starts_with("no broker answers at 127.0.0.1:1"), "{fault}");
}

#[test]
fn requests_are_bounded() {
    let log = Arc::new(Mutex::new(Log::default()));
    let port = start(&log);
    let mut to = destination(&config(port, "body_bytes_max = \"4KiB\""));
    let large = |id: &str, bytes| document(id, 0, &[("text", json!("x".repeat(bytes)))]);
    let documents = [large("a", 5000), large("b", 1500), large("c", 1500), large("d", 1500)];
    let Delivered::Answered { outcomes, .. } = to.deliver(&documents) else { panic!() };
    assert_eq!(outcomes.len(), 3);
    let Outcome::Rejected(reason) = &outcomes[0] else { panic!() };
    assert!(reason.contains("more than body_bytes_max (4096)"), "{reason}");

    // Sixty records of one partition go in batches of at most that many bytes.
    let mut to = destination(&(config(port, "") + "\nbatch_bytes_max = \"1KiB\""));
    log.lock().unwrap().batch_bytes_max = 1024;
    let mut documents: Vec<Document> = (0..60).map(|n| large("a", 200 + n)).collect();
    while !documents.is_empty() {
        let Delivered::Answered { outcomes, .. } = to.deliver(&documents) else { panic!() };
        assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Accepted), "{outcomes:?}");
        documents.drain(..outcomes.len());
    }
    assert!(log.lock().unwrap().requests > 10);
}
