//! Sends streams of lines over TCP, and waits until the store has them.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::stream::Block;
use super::{StoreError, within};

/// Time between two looks at how much has arrived.
const LOOK: Duration = Duration::from_millis(5);

/// Time without progress after which the rest is taken for lost.
const STALL: Duration = Duration::from_secs(15);

/// The unit in which a store counts its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Lines,
    Bytes,
}

/// The sending side of all connections of a driver.
pub(crate) struct Sender {
    store: String,
    /// Each takes the connections that come to it in turn.
    endpoints: Vec<String>,
    timeout: Duration,
    unit: Unit,
    next: AtomicUsize,
    /// The amount that was sent, in the unit.
    sent: Arc<AtomicU64>,
    /// The amount that the store had taken before the table, in the unit; `None` until it is known.
    before: Mutex<Option<u64>>,
}

impl Sender {
    pub fn new(store: &str, endpoints: &[String], timeout: Duration, unit: Unit) -> Sender {
        Sender {
            store: store.to_owned(),
            endpoints: endpoints.to_vec(),
            timeout,
            unit,
            next: AtomicUsize::new(0),
            sent: Arc::default(),
            before: Mutex::default(),
        }
    }

    /// For addresses with a comma between; none without any.
    pub fn of(store: &str, addresses: &str, timeout: Duration, unit: Unit) -> Option<Sender> {
        let all: Vec<String> =
            addresses.split(',').filter(|at| !at.is_empty()).map(str::to_owned).collect();
        (!all.is_empty()).then(|| Sender::new(store, &all, timeout, unit))
    }

    /// Begins a table: nothing of it is sent, and the store has taken `has` before it.
    pub fn begin(&self, has: u64) {
        self.sent.store(0, Ordering::Relaxed);
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) = Some(has);
    }

    /// Fails where nobody takes a connection.
    pub async fn reach(&self) -> Result<(), StoreError> {
        self.dial().await.map(|_| ())
    }

    /// Opens a connection; `has` is the amount that the store has taken since its start.
    pub async fn connect(&self, has: u64) -> Result<Connection, StoreError> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(has);
        Ok(Connection {
            store: self.store.clone(),
            timeout: self.timeout,
            unit: self.unit,
            stream: self.dial().await?,
            sent: self.sent.clone(),
        })
    }

    async fn dial(&self) -> Result<TcpStream, StoreError> {
        let place = self.next.fetch_add(1, Ordering::Relaxed) % self.endpoints.len();
        let connect = async {
            let stream = TcpStream::connect(&self.endpoints[place]).await;
            stream.map_err(|e| unreachable(&self.store, &e))
        };
        within(&self.store, self.timeout, connect).await
    }

    /// Waits for everything that was sent; `None` before the first connection.
    pub fn waiting(&self) -> Option<Waiting<'_>> {
        let before = (*self.before.lock().unwrap_or_else(PoisonError::into_inner))?;
        let sent = self.sent.load(Ordering::Relaxed);
        Some(Waiting { sender: self, before, sent, most: 0, since: Instant::now() })
    }
}

/// Waits until the store has everything that was sent. The caller asks the store.
pub(crate) struct Waiting<'a> {
    sender: &'a Sender,
    before: u64,
    sent: u64,
    /// What had arrived when anything did for the last time, and when that was.
    most: u64,
    since: Instant,
}

impl Waiting<'_> {
    /// Whether everything is there, now that the store has taken `has` since it began; otherwise
    /// pauses until it is to be asked again. Fails when nothing more arrives.
    pub async fn is_over(&mut self, has: u64) -> Result<bool, StoreError> {
        let arrived = has.saturating_sub(self.before);
        if arrived >= self.sent {
            return Ok(true);
        }
        if arrived > self.most {
            (self.most, self.since) = (arrived, Instant::now());
        }
        if self.since.elapsed() > STALL {
            let unit = match self.sender.unit {
                Unit::Lines => "lines",
                Unit::Bytes => "bytes",
            };
            let reason = format!(
                "{arrived} of {} {unit} arrived, and nothing more within {} s: the rest is lost",
                self.sent,
                STALL.as_secs()
            );
            return Err(StoreError::Refused { store: self.sender.store.clone(), reason });
        }
        tokio::time::sleep(LOOK).await;
        Ok(false)
    }
}

/// A connection that takes lines.
pub(crate) struct Connection {
    store: String,
    timeout: Duration,
    unit: Unit,
    stream: TcpStream,
    sent: Arc<AtomicU64>,
}

impl Connection {
    /// Returns when the system has taken the lines, which is when the store has room for them.
    pub async fn send(&mut self, block: &Block) -> Result<(), StoreError> {
        let write = async {
            let written = self.stream.write_all(block.text()).await;
            written.map_err(|e| unreachable(&self.store, &e))
        };
        within(&self.store, self.timeout, write).await?;
        let units = match self.unit {
            Unit::Lines => block.sum().lines,
            Unit::Bytes => block.sum().bytes,
        };
        self.sent.fetch_add(units, Ordering::Relaxed);
        Ok(())
    }
}

fn unreachable(store: &str, error: &std::io::Error) -> StoreError {
    StoreError::Unreachable { store: store.to_owned(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    /// A time limit that no machine is too slow for.
    const NEVER: Duration = Duration::from_secs(86_400);

    #[tokio::test]
    async fn it_waits_for_what_it_sent_and_says_what_is_lost() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = listener.local_addr().unwrap().to_string();
        let sender = Sender::new("s", &[endpoint], NEVER, Unit::Lines);
        assert!(sender.waiting().is_none(), "nothing is sent before the first connection");

        let taken = tokio::spawn(async move {
            let mut text = Vec::new();
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.read_to_end(&mut text).await.unwrap();
            text
        });
        let mut connection = sender.connect(7).await.unwrap();
        connection.send(&Block::new(b"a\nb\nc\n".to_vec())).await.unwrap();

        let mut waiting = sender.waiting().unwrap();
        tokio::time::pause();
        for (has, is_over) in [(7, false), (9, false), (10, true), (11, true)] {
            assert_eq!(waiting.is_over(has).await.unwrap(), is_over);
        }
        tokio::time::resume();

        // A table that is created again waits for no line of the table before it.
        sender.begin(10);
        assert!(sender.waiting().unwrap().is_over(10).await.unwrap());
        connection.send(&Block::new(b"d\n".to_vec())).await.unwrap();
        assert!(!sender.waiting().unwrap().is_over(10).await.unwrap());
        sender.begin(7);
        for text in [&b"a\nb\n"[..], b"c\n"] {
            connection.send(&Block::new(text.to_vec())).await.unwrap();
        }
        drop(connection);
        assert_eq!(taken.await.unwrap(), b"a\nb\nc\nd\na\nb\nc\n");

        tokio::time::pause();
        let mut waiting = sender.waiting().unwrap();
        let error = loop {
            match waiting.is_over(9).await {
                Ok(is_over) => assert!(!is_over),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("2 of 3 lines arrived"), "{error}");
    }
}
