//! Nodes behind one listener of this process, which ask each other over HTTP as real ones do.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use query::source::{ScanUnit, Source, SourceError, TimeRange, Whose};
use query::{Limits, Query, answer_share};
use record::{Batch, Format, FrameBuilder, LineId, Origin, Parser, ParserConfig, Transport};
use serde_json::json;

use super::*;
use crate::cluster::engines::{Avoided, HotPiece, SegmentPiece, Spread, Unanswered};
use crate::cluster::message::{Counts, HEARTBEAT, ShareHead, Spoken};
use crate::cluster::source::{Planning, begin_planned};
use crate::cluster::{Missing, TracedPlan};

/// How a node answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Manner {
    /// As a node of this version.
    #[default]
    Plain,
    /// It speaks the version before relays.
    Old,
    /// It says that it speaks this version, and carries out its own share alone.
    Liar,
    /// It says that it relays, and of one share less what became of it.
    Forgetful,
    /// It closes connections.
    Dead,
    /// It closes those on which it should relay, once it has said that it does.
    DiesRelaying,
    /// It says nothing on those.
    SilentRelaying,
    /// It refuses to relay.
    Refuses,
    /// It tells its progress, and nothing else.
    Stuck,
    /// It leaves out its segment, and closes the connection.
    LeavesOut,
}

/// A cluster in which node `n` has segment `s<n>`, or the newest frames of partition `n`.
struct World {
    /// The addresses of the listeners. One has [`NODES_OF_A_LISTENER`] nodes, since the system
    /// keeps few connections that wait to be accepted.
    urls: Vec<String>,
    manners: Mutex<BTreeMap<usize, Manner>>,
    /// The lines of each segment or partition.
    lines: Vec<Arc<Batch>>,
    /// The nodes whose lines are the newest frames of a partition.
    hot: BTreeSet<usize>,
    /// A segment that nobody can read.
    damaged: Option<usize>,
    /// The nodes as each node calls them: their names begin with that of the caller.
    nodes: Mutex<BTreeMap<(String, usize), Arc<Node>>>,
    /// Calls of each caller, those to relay among them, and bytes that it was sent.
    calls: Mutex<BTreeMap<String, (usize, usize, usize)>>,
    /// Connections that are open, and calls that are stuck.
    open: AtomicUsize,
    stuck: AtomicUsize,
}

/// See [`World::urls`].
const NODES_OF_A_LISTENER: usize = 40;

/// How long a test waits for something.
const PATIENCE: Duration = Duration::from_secs(300);

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what} has not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn batch(parser: &Parser, node: usize, lines: usize, hosts: usize) -> Arc<Batch> {
    let mut frame = FrameBuilder::new();
    let origin = Origin::new(Transport::Http, Format::Json, None);
    for line in 0..lines {
        let number = node * 1_000 + line;
        let host = (number * 31) % hosts;
        let took = number * 37 % 101;
        let level = if number.is_multiple_of(5) { "error" } else { "info" };
        let second = number % 3_000;
        let text = format!(
            "{{\"_time\":\"2026-01-31T12:{:02}:{:02}Z\",\"host\":\"h{host}\",\"level\":\"{level}\",\"took\":{took},\"n\":\"{number}\",\
             \"_msg\":\"{level} order {number}\"}}",
            second / 60,
            second % 60
        );
        frame.push_line(&origin, 1_790_000_000_000_000_000, text.as_bytes(), false);
    }
    let frame = frame.finish(7, node as u64 + 1).expect("there are lines");
    Arc::new(parser.clone().parse(Arc::new(frame)))
}

impl World {
    fn start(nodes: usize, lines: usize, change: impl FnOnce(&mut World)) -> Arc<World> {
        World::of_hosts(nodes, lines, 7, change)
    }

    fn of_hosts(
        nodes: usize,
        lines: usize,
        hosts: usize,
        change: impl FnOnce(&mut World),
    ) -> Arc<World> {
        let listeners = 0..nodes.div_ceil(NODES_OF_A_LISTENER);
        let listeners: Vec<TcpListener> =
            listeners.map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let url = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
        let parser = Parser::new(&ParserConfig::default()).unwrap();
        let mut world = World {
            urls: listeners.iter().map(url).collect(),
            manners: Mutex::default(),
            lines: (0..nodes).map(|node| batch(&parser, node, lines, hosts)).collect(),
            hot: BTreeSet::new(),
            damaged: None,
            nodes: Mutex::default(),
            calls: Mutex::default(),
            open: AtomicUsize::new(0),
            stuck: AtomicUsize::new(0),
        };
        change(&mut world);
        let world = Arc::new(world);
        for listener in listeners {
            let served = Arc::downgrade(&world);
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    let Some(world) = served.upgrade() else { return };
                    world.open.fetch_add(1, Relaxed);
                    let serve = move || {
                        // Whoever asked may be gone.
                        let _ = world.serve(stream.unwrap());
                        world.open.fetch_sub(1, Relaxed);
                    };
                    std::thread::Builder::new().stack_size(512 << 10).spawn(serve).unwrap();
                }
            });
        }
        world
    }

    fn with(&self, node: usize, manner: Manner) {
        lock(&self.manners).insert(node, manner);
    }

    fn address(&self, node: usize) -> String {
        format!("{}/n{node:04}", self.urls[node / NODES_OF_A_LISTENER])
    }

    fn number(&self, address: &str) -> Option<usize> {
        let number = address.rsplit_once("/n")?.1.parse().ok()?;
        (number < self.lines.len()).then_some(number)
    }

    /// A node as `caller` calls it.
    fn node(&self, caller: &str, number: usize) -> Arc<Node> {
        let mut nodes = lock(&self.nodes);
        let node = nodes.entry((caller.to_owned(), number)).or_insert_with(|| {
            let name = Some(format!("n{number:04}"));
            Arc::new(Node::named(name, &self.address(number), Some(caller), None).unwrap())
        });
        Arc::clone(node)
    }

    /// How often a caller called, how often to have shares relayed, and bytes that it was sent.
    fn calls_of(&self, caller: &str) -> (usize, usize, usize) {
        lock(&self.calls).get(caller).copied().unwrap_or_default()
    }

    fn serve(self: &Arc<World>, mut stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let (mut path, mut caller, mut length) = (String::new(), String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            match line.split_once(": ") {
                None => path = line.split(' ').nth(1).unwrap_or_default().to_owned(),
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.parse().unwrap();
                }
                Some((name, value)) if name.eq_ignore_ascii_case("authorization") => {
                    caller = value.trim_start_matches("Bearer ").to_owned();
                }
                Some(_) => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let number: usize = path[2..6].parse().unwrap();
        let manner = lock(&self.manners).get(&number).copied().unwrap_or_default();
        let head: ShareHead = serde_json::from_slice(&body).unwrap();
        let spoken = match manner {
            Manner::Old => Spoken { min: 2, max: 2 },
            _ => Spoken::here(),
        };
        if manner == Manner::Dead {
            return Ok(());
        }
        let refuse = |stream: &mut TcpStream, status: u16, body: serde_json::Value| {
            let body = body.to_string();
            let head = format!(
                "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(format!("{head}{body}").as_bytes())
        };
        if !spoken.has(head.version) {
            return refuse(&mut stream, 503, json!({"error": "another version", "speaks": spoken}));
        }
        let mut request: ShareRequest = serde_json::from_slice(&body).unwrap();
        let is_relayed = request.relayed.is_some();
        assert!(!is_relayed || head.version >= crate::cluster::message::RELAYS_SINCE);
        let mut calls = lock(&self.calls);
        let of_caller = calls.entry(caller.clone()).or_default();
        of_caller.0 += 1;
        of_caller.1 += usize::from(is_relayed);
        drop(calls);
        if is_relayed && manner == Manner::Refuses {
            return refuse(&mut stream, 503, json!({"error": "too many wait already"}));
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")?;
        if is_relayed && manner == Manner::Liar {
            let relayed = request.relayed.take().unwrap_or_default();
            let own = relayed
                .shares
                .into_iter()
                .find(|share| self.number(&share.address) == Some(number));
            request.pieces = own.map(|own| own.pieces);
        }
        let out = Arc::new(Out {
            stream: Mutex::new(stream),
            bytes: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        });
        let _ = out.send(&Message::Hello(head.version, number as u32));
        let context = context_of(None);
        let (beating, cancelled) = (Arc::clone(&out), Arc::clone(&context.cancelled));
        let (progress, is_silent) =
            (Arc::clone(&context.progress), is_relayed && manner == Manner::SilentRelaying);
        // Nodes tell their progress, and notice so that the other end is gone.
        let beat = if self.lines.len() < 100 { HEARTBEAT } else { Duration::from_secs(1) };
        let beats = std::thread::spawn(move || {
            loop {
                std::thread::park_timeout(beat);
                if beating.is_over.load(Relaxed) {
                    return;
                }
                let progress = Message::Progress(Counts::of(&progress));
                if !is_silent && beating.send(&progress).is_err() {
                    cancelled.store(true, Relaxed);
                }
            }
        });
        self.answer(request, number, manner, &context, &out);
        out.is_over.store(true, Relaxed);
        beats.thread().unpark();
        beats.join().unwrap();
        let mut calls = lock(&self.calls);
        calls.entry(caller).or_default().2 += out.bytes.load(Relaxed);
        Ok(())
    }

    fn answer(
        self: &Arc<World>,
        request: ShareRequest,
        number: usize,
        manner: Manner,
        context: &Context,
        out: &Out,
    ) {
        let send = |message: Message| match out.send(&message) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        };
        if manner == Manner::Stuck {
            self.stuck.fetch_add(1, Relaxed);
            wait_for("the end", || context.cancelled.load(Relaxed));
            self.stuck.fetch_sub(1, Relaxed);
            return;
        }
        if request.relayed.is_some() {
            match manner {
                Manner::DiesRelaying => {
                    let _ = send(Message::Relays(2));
                    return;
                }
                Manner::SilentRelaying => {
                    // Until the other end is gone.
                    let mut stream = lock(&out.stream).try_clone().unwrap();
                    let _ = stream.read(&mut [0]);
                    return;
                }
                _ => {}
            }
            let caller = format!("n{number:04}");
            let node = |address: &str| Some(self.node(&caller, self.number(address)?));
            let readers = (0..self.lines.len()).map(|other| self.node(&caller, other)).collect();
            let relay = RelaySides::new(request, node, readers).unwrap();
            let mut send = |message: Message| match message {
                Message::Ran(mut runs) if manner == Manner::Forgetful => {
                    runs.pop();
                    send(Message::Ran(runs))
                }
                message => send(message),
            };
            let outcome = relay.answer(context, &mut send);
            let _ = send(match (outcome, relay.failure()) {
                (Ok(outcome), _) => Message::Done(outcome),
                (Err(_), Some(failure)) => Message::RelayFailed(failure),
                (Err(error), None) => Message::Failed(500, error.to_string()),
            });
            return;
        }
        let may_leave_out = request.may_leave_out;
        if manner == Manner::LeavesOut {
            let (name, error) = (format!("s{number:04}"), "the storage is away".to_owned());
            let _ = send(Message::LeftOut(vec![LeftOut::Segment { name, lines: None, error }]));
            return;
        }
        let pieces = request.pieces.clone().expect("there are pieces");
        let segments =
            pieces.segments.iter().map(|SegmentPiece(name, ..)| name[1..].parse().unwrap());
        let (mut batches, mut failed) = (Vec::new(), None);
        for segment in segments {
            match Some(segment) == self.damaged {
                false => batches.push(Arc::clone(&self.lines[segment])),
                true => failed = Some(segment),
            }
        }
        for piece in &pieces.hot {
            assert_eq!(piece.partition as usize, number, "nobody else has the newest frames");
            batches.push(Arc::clone(&self.lines[number]));
        }
        if let Some(segment) = failed {
            let error = "the object is missing".to_owned();
            if !may_leave_out {
                let _ = send(Message::Failed(500, error));
                return;
            }
            let name = format!("s{segment:04}");
            let _ = send(Message::LeftOut(vec![LeftOut::Segment { name, lines: None, error }]));
        }
        let share = request.share().unwrap();
        let outcome = answer_share(&share, &Lines(batches), context, &mut |piece| {
            send(Message::Piece(piece))
        });
        let _ = send(match outcome {
            Ok(outcome) => Message::Done(outcome),
            Err(error) => Message::Failed(500, error.to_string()),
        });
    }
}

/// The end of a connection at which a node answers.
struct Out {
    stream: Mutex<TcpStream>,
    bytes: AtomicUsize,
    is_over: AtomicBool,
}

impl Out {
    fn send(&self, message: &Message) -> std::io::Result<()> {
        let bytes = message.encode();
        self.bytes.fetch_add(bytes.len(), Relaxed);
        lock(&self.stream).write_all(&bytes)
    }
}

/// Lines in memory.
struct Lines(Vec<Arc<Batch>>);

struct Unit(Arc<Batch>);

impl ScanUnit for Unit {
    fn time_range_ns(&self) -> Option<(i64, i64)> {
        Some(self.0.time_range_ns())
    }

    fn lines(&self) -> u64 {
        self.0.len() as u64
    }

    fn bytes(&self) -> u64 {
        self.0.frame().map_or(0, |frame| frame.bytes().len() as u64)
    }

    fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
        Ok(Some(Arc::clone(&self.0)))
    }
}

impl Source for Lines {
    fn units(&self, _: TimeRange, _: Whose) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
        let mut batches = self.0.clone();
        batches.sort_by_key(|batch| std::cmp::Reverse(batch.time_range_ns().1));
        Ok(batches.into_iter().map(|batch| Box::new(Unit(batch)) as Box<dyn ScanUnit>).collect())
    }

    fn find(&self, _: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
        Ok(None)
    }
}

/// The node that answers queries.
struct Asker {
    world: Arc<World>,
    direct_max: usize,
    missing: Option<Arc<Missing>>,
    told: Arc<Missing>,
    plans: AtomicUsize,
}

const ASKER: &str = "asker";

impl Planning for Asker {
    fn spread(&self, avoided: &Avoided) -> Result<Spread, String> {
        self.plans.fetch_add(1, Relaxed);
        let world = &self.world;
        let nodes: Vec<usize> = (0..world.lines.len())
            .filter(|node| !avoided.nodes.contains_key(&world.address(*node)))
            .collect();
        let mut pieces: BTreeMap<usize, Pieces> = BTreeMap::new();
        let (mut unanswered, mut segments) = (Vec::new(), HashMap::new());
        for place in 0..world.lines.len() {
            let owner = world.address(place);
            if !world.hot.contains(&place) {
                let name = format!("s{place:04}");
                let lines = world.lines[place].len() as u64;
                segments.insert(name.clone(), (lines, world.lines[place].time_range_ns()));
                // Its own, where that can be asked.
                let reader = nodes.iter().find(|node| **node >= place).unwrap_or(&nodes[0]);
                pieces.entry(*reader).or_default().segments.push(SegmentPiece(name, 1, 0));
                continue;
            }
            let why = avoided.nodes.get(&owner).or_else(|| avoided.owners.get(&owner));
            match why {
                None => {
                    let piece =
                        HotPiece { partition: place as u32, from: 0, until: 1, open: false };
                    pieces.entry(place).or_default().hot.push(piece);
                }
                Some(why) => {
                    let (partition, why) = (place as u32, why.clone());
                    unanswered.push(Unanswered { partition, messages: Some(1), why });
                }
            }
        }
        let shares = pieces.into_iter().map(|(node, pieces)| (world.node(ASKER, node), pieces));
        Ok(Spread {
            shares: shares.collect(),
            unanswered,
            open: Vec::new(),
            log_error: String::new(),
            catalog_age: None,
            readers: nodes.iter().map(|node| world.node(ASKER, *node)).collect(),
            segments,
        })
    }

    fn are_away(&self) -> bool {
        false
    }

    fn lease(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn direct_max(&self) -> usize {
        self.direct_max
    }
}

impl Sides for Asker {
    fn begin(&self, share: &Share, context: &Context) -> Result<Box<dyn SharePieces>, RunError> {
        let told = (self.missing.as_ref(), Some(&self.told));
        begin_planned(self, share, context, told, Instant::now())
    }
}

impl Source for Asker {
    fn units(&self, _: TimeRange, _: Whose) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
        Err(SourceError("the lines are elsewhere".to_owned()))
    }

    fn sides(&self) -> Option<&dyn Sides> {
        Some(self)
    }

    fn find(&self, _: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
        Ok(None)
    }
}

impl Asker {
    /// One that asks up to three nodes directly.
    fn of(world: &Arc<World>) -> Asker {
        Asker::direct(world, 3)
    }

    fn direct(world: &Arc<World>, direct_max: usize) -> Asker {
        let (world, told) = (Arc::clone(world), Arc::<Missing>::default());
        told.trace_shares();
        Asker { world, direct_max, missing: None, told, plans: AtomicUsize::new(0) }
    }

    /// One that takes an answer without what cannot be read.
    fn lenient(world: &Arc<World>) -> Asker {
        let missing = Arc::<Missing>::default();
        missing.trace_shares();
        Asker { missing: Some(missing), ..Asker::of(world) }
    }

    fn last_plan(&self) -> TracedPlan {
        let told = self.missing.as_ref().unwrap_or(&self.told);
        told.trace().unwrap().plans().0.pop().expect("there is a plan")
    }
}

/// A query that may take as long as a slow machine needs.
fn context_of(limit: Option<usize>) -> Context {
    let limits = Limits { run_time: PATIENCE, ..Limits::default() };
    Context { limit, limits, ..Context::default() }
}

fn rows(text: &str, source: &dyn Source, context: &Context) -> Result<Vec<String>, RunError> {
    let query = Query::parse(text, 0).unwrap();
    let (mut rows, mut scratch) = (Vec::new(), query::Scratch::default());
    query::run(&query, source, context, &mut |block| {
        for row in 0..block.len() {
            let mut fields = Vec::new();
            block.visit(row, &mut scratch, |name, value| {
                fields.push(format!("{name}={}", String::from_utf8_lossy(value)));
            });
            rows.push(fields.join(" "));
        }
        ControlFlow::Continue(())
    })?;
    if context.limit.is_none() {
        rows.sort();
    }
    Ok(rows)
}

const COUNT: &str = "* | stats by (host) count() n, sum(took) s";

/// Queries with whether their shares can be relayed.
const QUERIES: [(&str, Option<usize>, bool); 9] = [
    (COUNT, None, true),
    ("level:error | stats by (_time:10m) count() n, count_uniq(n) u, max(took) m", None, true),
    ("* | sort by (took desc, n) limit 11 | fields took, n", None, true),
    ("level:error | uniq by (host) with hits", None, true),
    ("* | stats quantile(0.9, took) q, median(took) m", None, true),
    ("level:error | fields n", Some(12), true),
    ("level:error | fields n", None, false),
    ("* | running_stats sum(took) t | stats max(t) m", None, false),
    ("nothing | stats count() n", None, true),
];

fn check(asker: &Asker, what: &str) {
    let all = Lines(asker.world.lines.clone());
    for (text, limit, _) in QUERIES {
        let context = context_of(limit);
        let expected = rows(text, &all, &context).unwrap();
        let found =
            rows(text, asker, &context).unwrap_or_else(|error| panic!("{what}: {text}: {error}"));
        assert_eq!(found, expected, "{what}: {text}");
    }
}

/// What each share of the last plan of a query read: the node, the lines, the blocks.
fn read(asker: &Asker, is_whole: bool) -> Vec<(String, u64, u64)> {
    let shares = asker.last_plan().shares.into_iter();
    let share = |share: crate::cluster::trace::TracedShare| {
        let run = share.run.expect("it is accounted for");
        assert!(run.error.is_none() && (run.complete || !is_whole), "{run:?}");
        if run.asked_elsewhere.is_none() && run.complete {
            assert_eq!(run.answered_by.as_ref(), Some(&share.node));
        }
        (share.node, run.lines_scanned, run.blocks_skipped)
    };
    shares.map(share).collect()
}

#[test]
fn two_stages_answer_as_one_store_with_fewer_calls() {
    for (nodes, direct_max) in [(1, 1), (2, 1), (7, 3), (30, 29), (30, 30)] {
        let world = World::start(nodes, 40, |world| {
            world.hot = (0..nodes).filter(|node| node % 3 == 1).collect();
        });
        let all = Lines(world.lines.clone());
        for (text, limit, can_be_relayed) in QUERIES {
            let context = context_of(limit);
            let expected = rows(text, &all, &context).unwrap();
            let one = Asker::direct(&world, usize::MAX);
            assert_eq!(rows(text, &one, &context).unwrap(), expected, "{nodes} {text}");
            let two = Asker::direct(&world, direct_max);
            // On a slow machine, a second node is asked now and then: then once more.
            wait_for("an answer with as few calls as wanted", || {
                let before = world.calls_of(ASKER);
                assert_eq!(rows(text, &two, &context).unwrap(), expected, "{nodes} {text}");
                let after = world.calls_of(ASKER);
                let (calls, relays) = (after.0 - before.0, after.1 - before.1);
                let is_relayed = two.last_plan().shares.iter().any(|share| share.relay.is_some());
                assert_eq!(is_relayed, relays > 0, "{nodes} {text}");
                match can_be_relayed && nodes > direct_max {
                    true => relays > 0 && calls <= nodes.isqrt() + 1,
                    false => (calls, relays) == (nodes, 0),
                }
            });
            let is_whole = limit.is_none();
            let (one, two) = (read(&one, is_whole), read(&two, is_whole));
            assert_eq!(one.len(), nodes);
            if is_whole {
                assert_eq!(two, one, "{nodes} {text}");
            }
        }
    }
}

#[test]
fn queries_have_different_relays() {
    let world = World::start(16, 5, |_| {});
    let asker = Asker::of(&world);
    let mut relays = BTreeSet::new();
    for _ in 0..12 {
        rows(COUNT, &asker, &context_of(None)).unwrap();
        relays.extend(asker.last_plan().shares.into_iter().filter_map(|share| share.relay));
    }
    assert!(relays.len() > 8, "{relays:?}");
}

#[test]
fn nodes_of_the_version_before_are_asked_directly() {
    let world = World::start(12, 20, |_| {});
    for node in [1, 2, 3, 9] {
        world.with(node, Manner::Old);
    }
    let asker = Asker::of(&world);
    // It learns their versions.
    check(&asker, "some are old");
    let before = asker.plans.load(Relaxed);
    check(&asker, "some are known to be old");
    assert_eq!(asker.plans.load(Relaxed) - before, QUERIES.len(), "nothing is planned again");
    for node in 0..12 {
        world.with(node, Manner::Old);
    }
    let asker = Asker::of(&world);
    check(&asker, "all are old");
    let before = world.calls_of(ASKER);
    rows(COUNT, &asker, &context_of(None)).unwrap();
    let after = world.calls_of(ASKER);
    assert_eq!((after.0 - before.0, after.1 - before.1), (12, 0));
}

#[test]
fn no_line_is_missing_where_relays_lie_refuse_or_die() {
    for manner in
        [Manner::Liar, Manner::Refuses, Manner::DiesRelaying, Manner::Dead, Manner::SilentRelaying]
    {
        let world = World::start(9, 20, |_| {});
        // Each group has one of these, the first one two, unless a query waits for long for each.
        for node in [0, 1, 4, 8] {
            if node != 1 || manner != Manner::SilentRelaying {
                world.with(node, manner);
            }
        }
        check(&Asker::of(&world), &format!("{manner:?}"));
    }
    // All of them: then all nodes are asked directly.
    for manner in [Manner::Liar, Manner::Refuses] {
        let world = World::start(9, 20, |_| {});
        for node in 0..9 {
            world.with(node, manner);
        }
        check(&Asker::of(&world), &format!("all: {manner:?}"));
    }
}

#[test]
fn a_relay_that_does_not_account_for_a_share_gives_no_answer() {
    let world = World::start(9, 20, |_| {});
    for node in 0..9 {
        world.with(node, Manner::Forgetful);
    }
    let asker = Asker::of(&world);
    for (text, limit, can_be_relayed) in QUERIES {
        let context = context_of(limit);
        let expected = rows(text, &Lines(world.lines.clone()), &context).unwrap();
        match rows(text, &asker, &context) {
            Ok(found) => assert_eq!(found, expected, "{text}"),
            Err(error) => {
                let error = error.to_string();
                assert!(can_be_relayed && error.contains("in place of 3"), "{text}: {error}");
            }
        }
    }
}

#[test]
fn what_nodes_of_a_group_leave_out_is_named() {
    let change = |world: &mut World| {
        world.damaged = Some(5);
        world.hot = [7].into();
    };
    let world = World::start(9, 20, change);
    let error = rows(COUNT, &Asker::of(&world), &context_of(None)).unwrap_err().to_string();
    assert!(error.contains("the object is missing"), "{error}");
    let asker = Asker::lenient(&world);
    let found = rows("* | stats count() n", &asker, &context_of(None)).unwrap();
    assert_eq!(found, ["n=160"]);
    let missing = asker.missing.as_ref().unwrap();
    assert_eq!(missing.stores(), ["segment s0005 with 20 lines"]);
    assert!(asker.last_plan().shares.iter().any(|share| share.relay.is_some()));

    // A node that is away is avoided by name, whoever noticed; only its newest frames are missing.
    world.with(7, Manner::Dead);
    let asker = Asker::lenient(&world);
    let found = rows("* | stats count() n", &asker, &context_of(None)).unwrap();
    assert_eq!(found, ["n=140"]);
    let missing = asker.missing.as_ref().unwrap();
    assert_eq!(missing.stores(), ["partition 7", "segment s0005 with 20 lines"]);
    let world = World::start(9, 20, |world| world.hot = [7].into());
    world.with(7, Manner::Dead);
    let error = rows(COUNT, &Asker::of(&world), &context_of(None)).unwrap_err().to_string();
    assert!(error.contains("partition 7"), "{error}");
}

/// What a node left out that is gone is read by another one.
#[test]
fn what_another_node_reads_is_not_missing() {
    let world = World::start(3, 20, |_| {});
    world.with(1, Manner::LeavesOut);
    let asker = Asker::lenient(&world);
    let found = rows("* | stats count() n", &asker, &context_of(None)).unwrap();
    assert_eq!(found, ["n=60"]);
    assert_eq!(asker.missing.as_ref().unwrap().stores(), [""; 0]);
    assert!(asker.plans.load(Relaxed) >= 2);
}

#[test]
fn a_query_that_is_cancelled_ends_everywhere() {
    let world = World::start(12, 20, |_| {});
    for node in [2, 7] {
        world.with(node, Manner::Stuck);
    }
    let context = context_of(None);
    let cancelled = Arc::clone(&context.cancelled);
    let asker = Asker::of(&world);
    let running = std::thread::spawn(move || rows(COUNT, &asker, &context));
    // Both are asked by relays, or are relays themselves.
    wait_for("calls that are stuck", || world.stuck.load(Relaxed) >= 2);
    cancelled.store(true, Relaxed);
    let error = running.join().unwrap().unwrap_err();
    assert!(matches!(error, RunError::Cancelled), "{error}");
    wait_for("the end of all calls", || world.open.load(Relaxed) == 0);
    assert_eq!(world.stuck.load(Relaxed), 0);
}

#[test]
fn requests_to_relay_are_checked() {
    let share = || RelayedShare { address: "http://a:1".into(), pieces: Pieces::default() };
    let id = LineId { node: 1, sequence: 2, line: 3 };
    let request = |shares: usize| {
        let relayed =
            Relayed { shares: (0..shares).map(|_| share()).collect(), hidden: Vec::new() };
        ShareRequest { relayed: Some(relayed), ..ShareRequest::line(id, Duration::from_secs(1)) }
    };
    let known = |address: &str| Node::new(address, None, None).ok().map(Arc::new);
    for (request, expected) in [
        (request(0), Some("between 1 and 256")),
        (request(1), None),
        (request(RELAYED_MAX), None),
        (request(RELAYED_MAX + 1), Some("between 1 and 256")),
        (ShareRequest { pieces: Some(Pieces::default()), ..request(1) }, Some("nothing else")),
    ] {
        let error = RelaySides::new(request, known, Vec::new()).err();
        assert_eq!(error.is_some(), expected.is_some(), "{error:?}");
        assert!(error.unwrap_or_default().contains(expected.unwrap_or_default()));
    }
    // The token of this node goes to no address that a caller makes up.
    let error = RelaySides::new(request(1), |_| None, Vec::new()).err().unwrap();
    assert!(error.contains("'http://a:1' is not the address of a node of this cluster"), "{error}");
}

#[test]
fn groups_are_about_as_many_as_there_are_nodes_in_one() {
    for (nodes, expected) in [(2, 2), (4, 2), (5, 3), (64, 8), (65, 9), (1_000, 32), (10_000, 100)]
    {
        assert_eq!(group_size(nodes), expected, "{nodes}");
    }
}

/// Processor time of this thread.
fn thread_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0);
    Duration::from_nanos(ns)
}

/// Prints what the node that answers a query does in one and in two stages. With
/// `LOGINSON_RELAY_NODES=1000` as many nodes as `docs/benchmarks/cluster.md` tells of.
#[test]
fn the_asking_node_does_less_in_two_stages() {
    let nodes = std::env::var("LOGINSON_RELAY_NODES").ok();
    let nodes: usize = nodes.map_or(36, |nodes| nodes.parse().expect("a number of nodes"));
    println!("| query | stages | calls | bytes received | processor time of the merging thread |");
    for (text, limit) in [
        ("* | stats by (host) count() n, sum(took) s, quantile(0.9, took) q", None),
        ("* | stats count_uniq(n) u", None),
        ("* | sort by (took desc, n) limit 100", None),
        ("level:error", Some(100)),
    ] {
        let mut of_one = None;
        for (stages, direct_max) in [(1, usize::MAX), (2, 8)] {
            let world = World::of_hosts(nodes, 100, 50, |_| {});
            let asker = Asker::direct(&world, direct_max);
            let context = context_of(limit);
            let begun = thread_time();
            let found = rows(text, &asker, &context).unwrap();
            let took = thread_time() - begun;
            // The nodes note what they sent when they have sent it.
            wait_for("the end of all calls", || world.open.load(Relaxed) == 0);
            let (calls, _, bytes) = world.calls_of(ASKER);
            println!("| `{text}` | {stages} | {calls} | {bytes} | {took:.1?} |");
            let (one_found, one_calls) = of_one.get_or_insert((found.clone(), calls));
            assert_eq!(&found, one_found, "{text}");
            // A second node may be asked for what is slow.
            assert!(*one_calls >= nodes, "{text}: {one_calls}");
            assert!(stages == 1 || calls < nodes / 2, "{text}: {calls}");
        }
    }
}
