//! Writes the audit log: lines of the type `audit` in the own store, which only callers that may
//! read them can see ([`super::gate`]), and which no deletion selects.
//!
//! Entries go into a queue, and one thread makes them durable, in order. Nothing waits for it.
//! While the store does not take them, the queue grows; from [`WAITING_MAX`] on, the gate refuses
//! every call but inserts with 503, so that nothing is read or changed of which there would be no
//! record. The rest of the queue is for calls that have begun. If that is full too, entries are
//! lost: they are counted, and the log says so.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use collector::ALONE_BYTES_MAX;
use node::storage::row_store::RowStore;
use record::batch::AUDIT_TYPE;
use record::{Format, Hints, Origin, Transport};
use serde_json::{Map, Value};
use text::time::format_time;

use crate::wire::clock::now_ns;
use crate::wire::error::{ApiError, ApiResult};

/// Entries that wait for the store.
///
/// limits.md, Queries: entries of the audit log that wait for the store | {}, and {SPARE} of calls
/// that have begun | every call but inserts is refused with 503 until they are written; beyond,
/// entries are lost, which `loginson_audit_lost_total` counts and the log tells
const WAITING_MAX: usize = 4_096;
/// Room for entries of calls that have begun.
const SPARE: usize = 4_096;
/// Entries that are written together.
const BATCH_MAX: usize = 512;
/// Characters of a text, such as a query. A longer one is cut.
const TEXT_CHARS_MAX: usize = 4_096;
/// How long it waits before it tries again to write.
const RETRY: Duration = Duration::from_secs(1);

/// The audit log. Clones share it.
#[derive(Clone)]
pub struct AuditLog(Arc<Shared>);

struct Shared {
    /// `None` once the log is closed.
    sender: Mutex<Option<SyncSender<Vec<u8>>>>,
    waiting: AtomicUsize,
    written: AtomicU64,
    lost: AtomicU64,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AuditLog({} wait)", self.waiting())
    }
}

/// What one entry says, besides its time.
pub struct Entry(Map<String, Value>);

impl Entry {
    /// An entry of that kind, for example `login`. The message is what people read.
    pub fn new(event: &str, message: &str) -> Entry {
        Entry(Map::new()).with("event", event).with("_msg", message)
    }

    /// Adds a field; texts are cut, and empty ones are left out.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Entry {
        match value.into() {
            Value::Null => {}
            Value::String(text) if text.is_empty() => {}
            Value::String(mut text) => {
                if let Some((cut, _)) = text.char_indices().nth(TEXT_CHARS_MAX) {
                    text.truncate(cut);
                    text.push('…');
                }
                self.0.insert(name.to_owned(), text.into());
            }
            value => {
                self.0.insert(name.to_owned(), value);
            }
        }
        self
    }

    fn line(mut self, time_ns: i64) -> Vec<u8> {
        self.0.insert("_time".to_owned(), format_time(time_ns).into());
        let mut line = Value::Object(self.0).to_string().into_bytes();
        line.push(b'\n');
        line
    }
}

impl AuditLog {
    /// Starts the thread that writes to `rows`.
    pub fn start(rows: Arc<dyn RowStore>) -> std::io::Result<AuditLog> {
        let (sender, entries) = sync_channel(WAITING_MAX + SPARE);
        let shared = Arc::new(Shared {
            sender: Mutex::new(Some(sender)),
            waiting: AtomicUsize::new(0),
            written: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            thread: Mutex::default(),
        });
        let of = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("audit".to_owned());
        let thread = thread.spawn(move || of.write_all(&entries, &*rows))?;
        *shared.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(AuditLog(shared))
    }

    /// Adds an entry. Never blocks.
    pub fn add(&self, entry: Entry) {
        let line = entry.line(now_ns());
        let sender = self.0.sender.lock().unwrap_or_else(PoisonError::into_inner);
        // Counted before it is there, so that the count never falls below the truth.
        self.0.waiting.fetch_add(1, Relaxed);
        let sent = sender.as_ref().map(|sender| sender.try_send(line));
        if matches!(sent, Some(Ok(()))) {
            return;
        }
        self.0.waiting.fetch_sub(1, Relaxed);
        if self.0.lost.fetch_add(1, Relaxed) == 0 {
            let why = match sent {
                Some(Err(TrySendError::Full(_))) => "too many wait for the store",
                _ => "the server is shutting down",
            };
            tracing::error!("an entry of the audit log is lost: {why}");
        }
    }

    /// An error if calls must not begin, because their entries could not be kept.
    pub fn check(&self) -> ApiResult<()> {
        match self.waiting() < WAITING_MAX {
            true => Ok(()),
            false => Err(ApiError::unavailable(
                "the audit log cannot be written at present, and nothing is read or changed \
                 without it; look at the server's log and its disk, then try again",
            )
            .retry_after(5)),
        }
    }

    /// Entries that wait for the store.
    pub fn waiting(&self) -> usize {
        self.0.waiting.load(Relaxed)
    }

    /// Entries that are durable.
    pub fn written(&self) -> u64 {
        self.0.written.load(Relaxed)
    }

    /// Entries that were lost.
    pub fn lost(&self) -> u64 {
        self.0.lost.load(Relaxed)
    }

    /// Writes what waits, and ends. Entries that the store does not take now are lost. Blocks.
    pub fn close(&self) {
        drop(self.0.sender.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.0.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the thread of the audit log panicked");
        }
    }
}

impl Shared {
    fn write_all(&self, entries: &Receiver<Vec<u8>>, rows: &dyn RowStore) {
        let mut next = None;
        while let Some(first) = next.take().or_else(|| entries.recv().ok()) {
            let (mut lines, mut count) = (first, 1);
            while count < BATCH_MAX
                && let Ok(line) = entries.try_recv()
            {
                if lines.len() + line.len() > ALONE_BYTES_MAX {
                    next = Some(line);
                    break;
                }
                lines.extend_from_slice(&line);
                count += 1;
            }
            self.write(&lines, count, rows);
            self.waiting.fetch_sub(count, Relaxed);
        }
    }

    /// Makes lines durable. Tries again until that succeeds; once the log is closed, each batch has
    /// one try.
    fn write(&self, lines: &[u8], count: usize, rows: &dyn RowStore) {
        let mut is_news = true;
        loop {
            let Err(error) = rows.store(&origin(), lines, now_ns()) else {
                self.written.fetch_add(count as u64, Relaxed);
                return;
            };
            if std::mem::take(&mut is_news) {
                tracing::error!("the audit log cannot be written, tries go on: {error}");
            }
            if self.sender.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
                self.lost.fetch_add(count as u64, Relaxed);
                tracing::error!("{count} entries of the audit log are lost: {error}");
                return;
            }
            std::thread::sleep(RETRY);
        }
    }
}

/// The origin of frames of the audit log.
fn origin() -> Origin {
    let hints = Hints { log_type: Some(AUDIT_TYPE.to_owned()), ..Hints::default() };
    Origin { hints: Arc::new(hints), ..Origin::new(Transport::Internal, Format::Json, None) }
}

#[cfg(test)]
mod tests {
    use std::sync::Condvar;

    use super::*;

    /// A store that takes lines once it is open.
    #[derive(Default)]
    struct Gated {
        state: Mutex<(bool, Vec<u8>)>,
        opened: Condvar,
    }

    impl RowStore for Gated {
        fn store(&self, _: &Origin, lines: &[u8], _: i64) -> Result<(), String> {
            let mut state = self.state.lock().unwrap();
            while !state.0 {
                state = self.opened.wait(state).unwrap();
            }
            state.1.extend_from_slice(lines);
            Ok(())
        }

        fn close(&self) {}
    }

    impl Gated {
        fn open(&self) {
            self.state.lock().unwrap().0 = true;
            self.opened.notify_all();
        }
    }

    #[test]
    fn entries_are_written_in_order() {
        let rows = Arc::<Gated>::default();
        rows.open();
        let log = AuditLog::start(Arc::clone(&rows) as _).unwrap();
        for n in 0..2_000 {
            log.add(Entry::new("login", "ann logged in").with("n", n).with("empty", ""));
        }
        log.close();
        let state = rows.state.lock().unwrap();
        let lines: Vec<Value> =
            state.1.split(|&b| b == b'\n').flat_map(serde_json::from_slice).collect();
        assert!(lines.iter().map(|line| line["n"].as_i64().unwrap()).eq(0..2_000));
        assert!(lines[0]["_time"].is_string() && lines[0].get("empty").is_none());
        assert_eq!((log.written(), log.lost(), log.waiting()), (2_000, 0, 0));
        // After the end entries are counted as lost.
        log.add(Entry::new("login", "ann logged in"));
        assert_eq!((log.written(), log.lost(), log.waiting()), (2_000, 1, 0));
    }

    #[test]
    fn calls_are_refused_while_the_store_takes_nothing() {
        let rows = Arc::<Gated>::default();
        let log = AuditLog::start(Arc::clone(&rows) as _).unwrap();
        let add = || log.add(Entry::new("query", "a query"));
        (1..WAITING_MAX).for_each(|_| add());
        assert!(log.check().is_ok());
        add();
        let refused = log.check().unwrap_err();
        assert!(refused.status() == 503 && refused.to_string().contains("audit log"));
        // Calls that have begun still have room. The thread may hold a batch beside the queue.
        (0..SPARE).for_each(|_| add());
        assert_eq!(log.lost(), 0);
        (0..=BATCH_MAX).for_each(|_| add());
        assert!(log.lost() > 0);
        rows.open();
        log.close();
        assert!(log.check().is_ok());
        let all = (WAITING_MAX + SPARE + BATCH_MAX + 1) as u64;
        assert_eq!(log.written() + log.lost(), all);
    }

    #[test]
    fn long_texts_are_cut() {
        let entry = Entry::new("query", &"é".repeat(TEXT_CHARS_MAX + 1));
        let line: Value = serde_json::from_slice(&entry.line(0)).unwrap();
        assert_eq!(line["_msg"].as_str().unwrap().chars().count(), TEXT_CHARS_MAX + 1);
        assert!(line["_msg"].as_str().unwrap().ends_with('…'));
    }
}
