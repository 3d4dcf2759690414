//! Distributes batches to live tails, each as soon as it is parsed.
//!
//! All readers share one queue of the newest batches. It is bounded in bytes
//! ([`WAITING_BYTES_MAX`]) and takes its memory from the budget of the process; so a hundred slow
//! readers cost as much as one. If a batch leaves the queue before a slow reader has seen it, that
//! reader is told how many lines it missed ([`TailBatch::lines_total`]); neither the parse stage
//! nor other readers wait for it. Without readers nothing is kept.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use platform::memory::{Budget, Purpose, Share};
use record::Batch;
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;

use crate::cluster::engines::LogPlace;

/// Limit of the batches that wait for the slowest reader. Beyond it, readers miss the oldest. The
/// last batch is kept whatever its size.
///
/// limits.md, Queries: lines waiting for slow live tails | {} for all tails | the oldest are
/// skipped for the tails that have not seen them; each is told how many, and they are counted
const WAITING_BYTES_MAX: usize = 32 << 20;

/// A batch for live tails.
#[derive(Clone, Debug)]
pub struct TailBatch {
    /// The records.
    pub batch: Arc<Batch>,
    /// Lines of all batches so far, including this one: from the difference a reader knows what it
    /// missed.
    pub lines_total: u64,
    /// Where the log of a cluster has the frame.
    pub place: Option<LogPlace>,
}

/// The source of batches.
#[derive(Debug)]
pub struct Tails {
    state: Mutex<State>,
    more: Notify,
}

#[derive(Debug)]
struct State {
    /// The newest batches with their sizes; the number of the first is `first`.
    waiting: VecDeque<(TailBatch, usize)>,
    first: u64,
    bytes: usize,
    share: Share,
    readers: usize,
    is_closed: bool,
}

impl Tails {
    /// Without readers.
    pub fn new(budget: &Arc<Budget>) -> Arc<Tails> {
        Arc::new(Tails {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                first: 0,
                bytes: 0,
                share: budget.share(Purpose::Tail),
                readers: 0,
                is_closed: false,
            }),
            more: Notify::new(),
        })
    }

    /// Sends a batch to all readers. If the budget has no memory for it, they miss it.
    pub fn send(&self, batch: TailBatch) {
        let mut state = self.lock();
        if state.readers == 0 {
            return;
        }
        let bytes = batch.batch.memory_bytes();
        while state.bytes + bytes > WAITING_BYTES_MAX && state.drop_first() {}
        let needed = state.bytes + bytes;
        while state.share.cover(needed).is_err() {
            if !state.drop_first() {
                return;
            }
        }
        state.bytes += bytes;
        state.waiting.push_back((batch, bytes));
        drop(state);
        self.more.notify_waiters();
    }

    /// Ends all readers, once they have seen the waiting batches.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.more.notify_waiters();
    }

    /// A reader of batches from now on.
    pub fn follow(self: &Arc<Self>) -> TailReader {
        let mut state = self.lock();
        state.readers += 1;
        TailReader { next: state.first + state.waiting.len() as u64, tails: Arc::clone(self) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Drops the oldest batch; returns whether there was one.
    fn drop_first(&mut self) -> bool {
        let Some((_, bytes)) = self.waiting.pop_front() else { return false };
        self.first += 1;
        self.bytes -= bytes;
        self.share.shrink(self.bytes);
        true
    }
}

/// A reader of batches.
#[derive(Debug)]
pub struct TailReader {
    tails: Arc<Tails>,
    next: u64,
}

impl TailReader {
    /// The next batch. An error means that batches were missed, or that there are no more.
    /// Cancelling the future loses nothing.
    pub async fn recv(&mut self) -> Result<TailBatch, RecvError> {
        let tails = Arc::clone(&self.tails);
        loop {
            let more = tails.more.notified();
            tokio::pin!(more);
            // From here on no batch is sent unnoticed.
            more.as_mut().enable();
            if let Some(result) = self.take() {
                return result;
            }
            more.await;
        }
    }

    fn take(&mut self) -> Option<Result<TailBatch, RecvError>> {
        let state = self.tails.lock();
        if self.next < state.first {
            let missed = state.first - self.next;
            self.next = state.first;
            return Some(Err(RecvError::Lagged(missed)));
        }
        match state.waiting.get((self.next - state.first) as usize) {
            Some((batch, _)) => {
                self.next += 1;
                Some(Ok(batch.clone()))
            }
            None => state.is_closed.then_some(Err(RecvError::Closed)),
        }
    }
}

impl Drop for TailReader {
    fn drop(&mut self) {
        let mut state = self.tails.lock();
        state.readers -= 1;
        if state.readers == 0 {
            while state.drop_first() {}
        }
    }
}

#[cfg(test)]
mod tests {
    use record::{Format, FrameBuilder, Origin, Parser, ParserConfig, Transport};

    use super::*;

    fn batch(bytes: usize) -> Arc<Batch> {
        let mut frame = FrameBuilder::new();
        let origin = Origin::new(Transport::Http, Format::Auto, None);
        frame.push_line(&origin, 1, &vec![b'x'; bytes], false);
        let frame = frame.finish(1, 1).unwrap();
        Parser::new(&ParserConfig::default()).unwrap().parse(Arc::new(frame)).into()
    }

    #[tokio::test]
    async fn slow_readers_hold_little_and_learn_what_they_missed() {
        let budget = Budget::new(1 << 30);
        let tails = Tails::new(&budget);
        let large = batch(4 << 20);
        tails.send(TailBatch { batch: Arc::clone(&large), lines_total: 1, place: None });
        assert_eq!(budget.held(), 0, "nobody follows");
        let (mut quick, mut slow) = (tails.follow(), tails.follow());
        for lines_total in 2..102 {
            tails.send(TailBatch { batch: Arc::clone(&large), lines_total, place: None });
            assert_eq!(quick.recv().await.unwrap().lines_total, lines_total);
            let most = WAITING_BYTES_MAX.max(large.memory_bytes()) as u64;
            assert!(budget.held() <= most + platform::memory::PIECE_BYTES);
        }
        let Err(RecvError::Lagged(missed)) = slow.recv().await else { panic!("it missed some") };
        assert_eq!(slow.recv().await.unwrap().lines_total, 2 + missed);
        tails.close();
        while let Ok(batch) = slow.recv().await {
            assert!(batch.lines_total < 102);
        }
        assert_eq!(slow.recv().await.unwrap_err(), RecvError::Closed);
        drop((quick, slow));
        assert_eq!(budget.held(), 0);
    }

    #[tokio::test]
    async fn without_memory_in_the_budget_batches_are_missed() {
        let budget = Budget::new(1 << 20);
        let tails = Tails::new(&budget);
        let mut reader = tails.follow();
        tails.send(TailBatch { batch: batch(4 << 20), lines_total: 1, place: None });
        tails.send(TailBatch { batch: batch(10), lines_total: 2, place: None });
        assert_eq!(reader.recv().await.unwrap().lines_total, 2);
    }
}
