//! Sinks whose destination panics, and whose cursor cannot be written.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;

use platform::RealClock;
use sinks::{Delivered, Document, RejectStore, Rejected};

use super::*;
use crate::data_dir::{DocumentFolder, ListedDocument};
use crate::sinks::config;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_there() {
        assert!(begun.elapsed() < PATIENCE, "{what}: it does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Documents with the ids 0 to before `end`, one in a batch. The cursor is the next id.
struct Numbered {
    next: u64,
    end: u64,
}

impl Feed for Numbered {
    fn next(&mut self) -> Result<Option<Batch>, String> {
        if self.next == self.end {
            return Ok(None);
        }
        let documents = vec![Document::new(self.next.to_string(), 0, Vec::new())];
        self.next += 1;
        Ok(Some(Batch { documents, cursor: self.cursor() }))
    }

    fn cursor(&self) -> String {
        self.next.to_string()
    }
}

/// Panics some times, then takes everything.
#[derive(Clone, Default)]
struct Panicking {
    panics_left: Arc<AtomicU64>,
    delivered: Arc<Mutex<Vec<String>>>,
}

impl Destination for Panicking {
    fn deliver(&mut self, documents: &[Document]) -> Delivered {
        let left = self.panics_left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        assert!(left.is_err(), "a test of what happens then");
        lock(&self.delivered).extend(documents.iter().map(|document| document.id.clone()));
        Delivered::accepted(documents.len())
    }
}

/// A sink that runs without a store.
struct Fixture {
    sink: Arc<RunningSink>,
    destination: Panicking,
    stages: Arc<Stages>,
    thread: Option<JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl Fixture {
    /// A sink of documents up to before `end`, which [`run`](Self::run) starts.
    fn new(panics: u64, end: u64, cursors: Option<Arc<dyn Documents>>) -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let text = "name = \"a\"\n[file]\npath = \"/nonexistent/a.jsonl\"\n";
        let table: toml::Table = toml::from_str(text).unwrap();
        let options = config::check(vec![table]).unwrap();
        let rejected = RejectedDocuments::new(folder.path(), &options);
        let cursors = cursors.unwrap_or_else(|| Arc::new(DocumentFolder::new(folder.path())));
        let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
        let stages = Arc::<Stages>::default();
        let destination = Panicking::default();
        destination.panics_left.store(panics, Relaxed);
        let made = destination.clone();
        let makers = Makers {
            feed: Box::new(move |cursor: Option<&str>| -> Result<Box<dyn Feed>, String> {
                let next = cursor.map_or(0, |cursor| cursor.parse().unwrap());
                Ok(Box::new(Numbered { next, end }))
            }),
            destination: Box::new(move || -> Result<Box<dyn Destination>, Fault> {
                Ok(Box::new(made.clone()))
            }),
        };
        let keeping =
            Keeping { cursors: &cursors, rejected: &rejected, clock: &clock, stages: &stages };
        let sink = Arc::new(RunningSink::new(&options[0], keeping, makers, Arc::default()));
        Fixture { sink, destination, stages, thread: None, _folder: folder }
    }

    fn run(&mut self) {
        let sink = Arc::clone(&self.sink);
        self.thread = Some(std::thread::spawn(move || sink.run()));
    }

    fn delivered(&self) -> Vec<String> {
        lock(&self.destination.delivered).clone()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.sink.stopped.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

#[test]
fn a_destination_that_panics_misses_nothing() {
    // Behind a single document comes nothing that would show that the thread has ended.
    for end in [1, 10] {
        let mut fixture = Fixture::new(1, end, None);
        fixture.run();
        wait_for("the last cursor", || *lock(&fixture.sink.acknowledged) == Some(end.to_string()));
        let all: Vec<String> = (0..end).map(|id| id.to_string()).collect();
        assert_eq!(fixture.delivered(), all);
        assert_eq!(fixture.stages.panics(), 1);
        wait_for("its rest", || fixture.sink.told().state == "idle");
        let told = fixture.sink.told();
        assert_eq!((told.runner.accepted, told.error), (end, None));
    }
}

#[test]
fn a_panic_over_rejected_documents_leaves_them_and_the_sink_goes_on() {
    let mut fixture = Fixture::new(1, 0, None);
    let rejected = Document::new("r", 0, Vec::new());
    let rejected = Rejected { document: &rejected, reason: "a test", time_ns: 0 };
    lock(&fixture.sink.rejects).keep(&[rejected]).unwrap();
    let files = || lock(&fixture.sink.rejects).files().unwrap().len();
    assert_eq!(files(), 1);
    fixture.sink.redelivers.store(true, Relaxed);
    let sink = Arc::clone(&fixture.sink);
    let thread = std::thread::spawn(move || sink.run());
    wait_for("the panic", || fixture.stages.panics() == 1);
    assert_eq!((fixture.delivered(), files()), (Vec::new(), 1));
    fixture.sink.redelivers.store(true, Relaxed);
    wait_for("the document", || fixture.delivered() == ["r"] && files() == 0);
    fixture.thread = Some(thread);
}

/// A folder that takes nothing while it fails. It notes what the sink tells at each failure.
struct Failing {
    folder: DocumentFolder,
    fails: AtomicBool,
    sink: OnceLock<Arc<RunningSink>>,
    told: Mutex<Vec<(&'static str, Option<String>)>>,
}

impl Documents for Failing {
    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.folder.read(name)
    }

    fn replace(&self, name: &str, body: &[u8]) -> io::Result<()> {
        if !self.fails.load(Relaxed) {
            return self.folder.replace(name, body);
        }
        let told = self.sink.get().unwrap().told();
        lock(&self.told).push((told.state, told.error));
        Err(io::Error::other("a test"))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.folder.remove(name)
    }

    fn list(&self, bytes_max: usize) -> io::Result<Vec<ListedDocument>> {
        self.folder.list(bytes_max)
    }

    fn place(&self, name: &str) -> String {
        self.folder.place(name)
    }
}

#[test]
fn a_cursor_that_cannot_be_written_is_told_until_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let cursors = Arc::new(Failing {
        folder: DocumentFolder::new(folder.path()),
        fails: AtomicBool::new(false),
        sink: OnceLock::new(),
        told: Mutex::default(),
    });
    let mut fixture = Fixture::new(0, 3, Some(Arc::clone(&cursors) as Arc<dyn Documents>));
    assert!(cursors.sink.set(Arc::clone(&fixture.sink)).is_ok());
    // The first cursor is written before anything is read.
    let begun = fixture.sink.begin().unwrap();
    *lock(&fixture.sink.begun) = Some(begun);
    cursors.fails.store(true, Relaxed);
    fixture.run();
    wait_for("three attempts", || lock(&cursors.told).len() >= 3);
    let told = lock(&cursors.told).clone();
    for (state, error) in &told[1..] {
        assert_eq!(*state, "failing");
        let error = error.as_deref().unwrap();
        assert!(error.contains("its cursor cannot be written: a test"), "{error}");
    }
    assert_eq!(fixture.delivered(), ["0", "1", "2"]);
    cursors.fails.store(false, Relaxed);
    wait_for("the cursor", || cursors.read("a.cursor").unwrap().as_deref() == Some(&b"3\n"[..]));
    wait_for("its rest", || fixture.sink.told().state == "idle");
    assert_eq!(fixture.sink.told().error, None);
}
