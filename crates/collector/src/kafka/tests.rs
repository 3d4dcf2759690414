//! Tests the source with a broker without a network; frames go to a `Keeper` that may lose some.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard};

use platform::{RealClock, RealDisk};
use record::frame::Format;

use super::*;
use crate::keeper::Keeper;

fn partition(number: u32) -> Partition {
    Partition { topic: "logs".into(), number }
}

fn config(dir: &std::path::Path) -> KafkaConfig {
    KafkaConfig {
        group: "g".to_owned(),
        format: ValueFormat::Auto,
        asked: Asked::default(),
        is_from_end: false,
        log_type: None,
        zone: None,
        fields: Vec::new(),
        data_dir: dir.to_owned(),
    }
}

fn record(number: u32, offset: u64, value: &[u8]) -> KafkaRecord {
    KafkaRecord {
        topic: "logs".into(),
        partition: number,
        offset,
        timestamp_ms: 1_700_000_000_000,
        key: Some(Bytes::from_static(b"k\"1")),
        value: Some(Bytes::copy_from_slice(value)),
        headers: vec![("trace".to_owned(), Some(Bytes::from_static(b"abc")))],
    }
}

/// Lines of a record, each with its format and note.
fn written(config: &KafkaConfig, record: &KafkaRecord) -> (Vec<(String, Format)>, lines::Told) {
    let origins = Origins::new(config, &partition(record.partition));
    let mut found = Vec::new();
    let mut memory = Vec::new();
    let told = lines::write(config, &origins, record, &mut memory, |piece| {
        match piece {
            Piece::Line { origin, line, .. } => {
                found.push((String::from_utf8_lossy(line).into_owned(), origin.format));
            }
            Piece::Lines { origin, lines } => {
                let text = String::from_utf8_lossy(lines).into_owned();
                found.extend(text.lines().map(|line| (line.to_owned(), origin.format)));
            }
        }
        true
    });
    (found, told.unwrap())
}

#[test]
fn values_become_lines() {
    let dir = std::path::Path::new("");
    let asked = Asked { offset: true, key: true, headers: true, topic: true, partition: true };
    let check = |format: ValueFormat, asked: Asked, value: &[u8], expected: (&str, Format)| {
        let config = KafkaConfig { format, asked, ..config(dir) };
        let (found, told) = written(&config, &record(2, 7, value));
        assert_eq!(found, [(expected.0.to_owned(), expected.1)], "{format:?}");
        assert_eq!(told, lines::Told::default());
    };
    let none = Asked::default();
    check(ValueFormat::Auto, none, b"<13>a\n", ("<13>a", Format::Auto));
    check(ValueFormat::Json, none, b"{\"a\":1}", ("{\"a\":1}", Format::Json));
    check(ValueFormat::Text, none, b"a\nb", ("a\nb", Format::Auto));
    check(ValueFormat::Syslog, none, b"<13>a", ("<13>a", Format::Syslog));
    let added = "\"kafka.offset\":7,\"kafka.key\":\"k\\\"1\",\"kafka.headers.trace\":\"abc\"}";
    for (value, begin) in [
        (&b"{\"a\":1} "[..], "{\"a\":1,"),
        (b"{}", "{"),
        (b"a\tb", "{\"_msg\":\"a\\tb\","),
        (b"\xff", "{\"_msg\":\"\u{fffd}\","),
        // Braces alone make no object.
        (b"{a} and {b}", "{\"_msg\":\"{a} and {b}\","),
    ] {
        let expected = format!("{begin}{added}");
        check(ValueFormat::Auto, asked, value, (&expected, Format::Json));
    }
    let expected = format!("{{\"_msg\":\"{{}}\",{added}");
    check(ValueFormat::Text, asked, b"{}", (&expected, Format::Json));
    let origins = Origins::new(&KafkaConfig { asked, ..config(dir) }, &partition(2));
    let mut memory = Vec::new();
    lines::write(&config(dir), &origins, &record(2, 7, b"a"), &mut memory, |piece| {
        let Piece::Line { origin, .. } = piece else { panic!("it is one line") };
        let expected = [("kafka.topic", "logs"), ("kafka.partition", "2")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(origin.hints.extra_fields, expected);
        true
    })
    .unwrap();
}

#[test]
fn what_has_no_value_or_no_meaning_is_told() {
    let config = config(std::path::Path::new(""));
    for value in [None, Some(Bytes::new())] {
        let (found, told) = written(&config, &KafkaRecord { value, ..record(0, 1, b"") });
        assert!(found.is_empty() && told.is_empty);
    }
    let otlp = KafkaConfig { format: ValueFormat::Otlp, ..config };
    let (found, told) = written(&otlp, &record(0, 1, b"no export"));
    assert_eq!(found, [("no export".to_owned(), Format::Auto)]);
    assert!(told.is_undecoded);
    let export = br#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[
        {"body":{"stringValue":"one"}},{"body":{"stringValue":"two"}}]}]}]}"#;
    let (found, told) = written(&otlp, &record(0, 1, export));
    assert_eq!(found.len(), 2);
    assert!(found[1].0.contains("two") && found[1].1 == Format::Json, "{found:?}");
    assert_eq!(told, lines::Told::default());
}

/// A frame on its way: its flight, its number, and its records by partition.
type Flying = (u64, u64, Vec<(u32, u64)>);

/// Frames that are cut at random land in any order, or not at all, and the process is killed at any
/// point: each record is kept once.
#[test]
fn each_record_is_kept_once() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let places = [partition(0), partition(1)];
        // Offsets with gaps, as compaction leaves them.
        let logs: Vec<Vec<u64>> =
            places.iter().map(|_| (0..200).filter(|_| random.u8(..) > 40).collect()).collect();
        let mut kept: BTreeMap<(u32, u64), u32> = BTreeMap::new();
        let mut durable = BTreeSet::new();
        let mut committed = [None, None];
        let mut frame_next = 1;
        let mut checkpoint = Checkpoint::new();
        let mut is_done = false;
        while !is_done {
            let offsets = Offsets::new(checkpoint.clone(), &durable, false);
            for (place, committed) in places.iter().zip(committed) {
                let begin = match offsets.begin(place, [1; 16], committed) {
                    Begin::At(offset) => offset,
                    Begin::First => 0,
                    Begin::End => panic!("it begins at the first record"),
                };
                offsets.begun(place, begin);
            }
            checkpoint = offsets.snapshot();
            let mut flying: Vec<Flying> = Vec::new();
            // Until it is killed.
            for _ in 0..random.usize(1..40) {
                if offsets.has_failed() && flying.is_empty() {
                    offsets.go_back();
                }
                let mut spans = Vec::new();
                let mut records = Vec::new();
                for (place, log) in places.iter().zip(&logs) {
                    let Some(mut reading) = offsets.reading(place) else { continue };
                    for _ in 0..random.usize(..20) {
                        let next = reading.next_offset();
                        let Some(offset) = log.iter().find(|offset| **offset >= next) else {
                            break;
                        };
                        if let Some(span) = reading.take(*offset) {
                            cover(&mut spans, span);
                            records.push((place.number, *offset));
                        }
                    }
                    offsets.read(reading);
                }
                if !offsets.has_failed() && !records.is_empty() {
                    let flight = offsets.take_off(frame_next, spans);
                    checkpoint = offsets.snapshot();
                    flying.push((flight, frame_next, records));
                    frame_next += 1;
                }
                while !flying.is_empty() && random.bool() {
                    let (flight, frame, records) = flying.swap_remove(random.usize(..flying.len()));
                    let is_kept = random.u8(..) > 30;
                    if is_kept {
                        durable.insert(frame);
                        records.iter().for_each(|at| *kept.entry(*at).or_default() += 1);
                    }
                    offsets.land(flight, is_kept);
                }
                if random.bool() {
                    checkpoint = offsets.snapshot();
                    for (place, offset) in offsets.uncommitted() {
                        committed[place.number as usize] = Some(offset);
                    }
                }
            }
            // What is on its way at the kill may still become durable.
            for (_, frame, records) in flying {
                if random.bool() {
                    durable.insert(frame);
                    records.iter().for_each(|at| *kept.entry(*at).or_default() += 1);
                }
            }
            is_done = kept.len() == logs.iter().map(Vec::len).sum::<usize>();
        }
        assert!(kept.values().all(|times| *times == 1), "seed {seed}: {kept:?}");
    }
}

#[test]
fn a_partition_begins_where_it_was_read_to() {
    let offsets = Offsets::new(Checkpoint::new(), &BTreeSet::new(), true);
    let place = partition(0);
    assert_eq!(offsets.begin(&place, [1; 16], None), Begin::End);
    offsets.begun(&place, 50);
    offsets.begin_round();
    assert_eq!(offsets.begin(&partition(1), [1; 16], None), Begin::First, "it was added later");
    let again = Offsets::new(offsets.snapshot(), &BTreeSet::new(), true);
    assert_eq!(again.begin(&place, [1; 16], Some(40)), Begin::At(50));
    assert_eq!(again.begin(&place, [1; 16], Some(60)), Begin::At(60), "another member read on");
    again.begun(&place, 60);
    assert_eq!(again.outside(&place, 70, 90), Begin::At(70), "10 were deleted");
    assert_eq!(again.records_lost(), 10);
    again.begun(&place, 70);
    assert_eq!(again.outside(&place, 0, 20), Begin::First, "it was made anew");
    again.begun(&place, 0);
    assert_eq!(again.revoke(std::slice::from_ref(&place)), [(place.clone(), 0)]);
    assert!(again.reading(&place).is_none());
    assert_eq!(again.begin(&place, [2; 16], None), Begin::First, "another topic of that name");
}

/// A broker without a network.
#[derive(Default)]
struct Broker {
    log: Vec<KafkaRecord>,
    next: usize,
    committed: Option<u64>,
    polls: usize,
    failures: VecDeque<String>,
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Broker>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Broker> {
        self.0.lock().unwrap()
    }
}

struct Joined(Shared, Arc<Offsets>);

impl Connect for Shared {
    fn connect(&self, _: &str, offsets: Arc<Offsets>) -> Result<Box<dyn Member>, String> {
        if let Some(failure) = self.lock().failures.pop_front() {
            return Err(failure);
        }
        let begin = offsets.begin(&partition(0), [1; 16], self.lock().committed);
        let Begin::At(offset) = begin else {
            offsets.begun(&partition(0), 0);
            self.lock().next = 0;
            return Ok(Box::new(Joined(self.clone(), offsets)));
        };
        offsets.begun(&partition(0), offset);
        self.lock().next = offset as usize;
        Ok(Box::new(Joined(self.clone(), offsets)))
    }
}

impl Member for Joined {
    fn poll(&mut self, _: Duration) -> Result<Vec<KafkaRecord>, String> {
        let mut broker = self.0.lock();
        broker.polls += 1;
        let end = broker.log.len().min(broker.next + 10);
        let from = std::mem::replace(&mut broker.next, end);
        let records = broker.log[from..end].to_vec();
        drop(broker);
        std::thread::yield_now();
        Ok(records)
    }

    fn commit(&mut self, offsets: &[(Partition, u64)]) -> Result<(), String> {
        self.0.lock().committed = Some(offsets[0].1);
        Ok(())
    }

    fn seek(&mut self, offsets: &[(Partition, u64)]) -> Result<(), String> {
        self.0.lock().next = offsets[0].1 as usize;
        Ok(())
    }

    fn pause(&mut self, _: bool) {}

    fn ends(&mut self) -> Vec<(Partition, u64)> {
        vec![(partition(0), self.0.lock().log.len() as u64)]
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        let offsets = self.1.revoke(&[partition(0)]);
        self.0.lock().committed = Some(offsets[0].1);
    }
}

fn broker_with(records: u64) -> Shared {
    let shared = Shared::default();
    let record = |offset| record(0, offset, format!("line {offset}").as_bytes());
    shared.lock().log = (0..records).map(record).collect();
    shared
}

fn start(
    broker: &Shared,
    keeper: &Arc<Keeper>,
    dir: &std::path::Path,
) -> (KafkaSource, Arc<Accounting>) {
    let accounting = Arc::<Accounting>::default();
    let with = (Arc::new(RealClock::new()) as _, Arc::new(RealDisk) as _);
    let connect = Box::new(broker.clone());
    let deliver = Arc::clone(keeper) as _;
    let config = config(dir);
    let resumed = Resumed::read(&config, &RealDisk, None).unwrap();
    let counted = Arc::clone(&accounting);
    let source = KafkaSource::start(config, resumed, connect, deliver, counted, with);
    (source.unwrap(), accounting)
}

#[test]
fn records_are_delivered_committed_and_not_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let (broker, keeper) = (broker_with(100), Arc::<Keeper>::default());
    broker.lock().failures.push_back("no broker answers".to_owned());
    let (source, accounting) = start(&broker, &keeper, dir.path());
    keeper.wait_for_lines(100);
    let status = source.status();
    assert_eq!((status.errors, status.topics["logs"].records), (1, 100));
    drop(source);
    let counts = accounting.source(SourceKind::Kafka).counts();
    assert_eq!((counts.lines_kept, counts.lines_missing(), counts.bytes_missing()), (100, 0, 0));
    assert_eq!(broker.lock().committed, Some(100));
    broker.lock().log.push(record(0, 100, b"line 100"));
    let (source, _) = start(&broker, &keeper, dir.path());
    keeper.wait_for_lines(101);
    drop(source);
    let lines: Vec<String> = keeper.lines().into_iter().map(|(line, _)| line).collect();
    assert_eq!(lines, (0..=100).map(|n| format!("line {n}")).collect::<Vec<_>>());
}

#[test]
fn records_of_a_lost_frame_are_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let (broker, keeper) = (broker_with(100), Arc::<Keeper>::default());
    keeper.lose(2);
    let (source, _) = start(&broker, &keeper, dir.path());
    keeper.wait_for_lines(100);
    drop(source);
    assert!(keeper.lost() >= 2);
    let mut lines: Vec<String> = keeper.lines().into_iter().map(|(line, _)| line).collect();
    lines.sort_unstable();
    let mut expected: Vec<String> = (0..100).map(|n| format!("line {n}")).collect();
    expected.sort_unstable();
    assert_eq!(lines, expected);
}
