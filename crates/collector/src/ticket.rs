//! The promise that lines will be durable. A thread can wait for it, or a task of any executor can
//! await it.
//!
//! The outcome is decided frame by frame, so a ticket covers lines of one frame; all tickets of a
//! frame share one state.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use crate::deliver::KeepError;

/// Resolves once its lines are durable, or once it is certain that they will not be.
///
/// Dropping a ticket changes nothing for its lines.
#[must_use = "lines are durable only when the ticket says so"]
#[derive(Debug)]
pub struct Ticket {
    frame: Arc<FrameFate>,
    lines: u64,
    bytes: u64,
}

/// The outcome of a frame.
#[derive(Debug, Default)]
pub(crate) struct FrameFate {
    state: Mutex<State>,
    settled: Condvar,
}

#[derive(Debug, Default)]
struct State {
    result: Option<Result<(), KeepError>>,
    wakers: Vec<Waker>,
}

impl Ticket {
    pub(crate) fn new(frame: Arc<FrameFate>, lines: u64, bytes: u64) -> Ticket {
        Ticket { frame, lines, bytes }
    }

    /// A ticket whose outcome is already known.
    pub(crate) fn settled(result: Result<(), KeepError>, lines: u64, bytes: u64) -> Ticket {
        let frame = Arc::new(FrameFate::default());
        frame.settle(&result);
        Ticket { frame, lines, bytes }
    }

    /// The number of lines the ticket covers.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// The bytes of those lines as they were pushed, without newlines but including what was cut
    /// off a long line.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes this ticket cover the lines of `other` too if both belong to the same frame; otherwise
    /// returns `other`.
    pub fn join(&mut self, other: Ticket) -> Result<(), Ticket> {
        if !Arc::ptr_eq(&self.frame, &other.frame) {
            return Err(other);
        }
        self.lines += other.lines;
        self.bytes += other.bytes;
        Ok(())
    }

    /// Blocks until the outcome of the lines is known.
    pub fn wait(self) -> Result<(), KeepError> {
        let pending = |state: &mut State| state.result.is_none();
        let state = self.frame.lock();
        let state = self.frame.settled.wait_while(state, pending).expect("nothing panics");
        state.result.clone().expect("waited for")
    }
}

impl Future for Ticket {
    type Output = Result<(), KeepError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.frame.lock();
        if let Some(result) = &state.result {
            return Poll::Ready(result.clone());
        }
        if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            state.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}

impl FrameFate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while this is locked")
    }

    /// Sets the outcome of the frame. Called once.
    pub fn settle(&self, result: &Result<(), KeepError>) {
        let mut state = self.lock();
        assert!(state.result.is_none(), "the fate of a frame is decided once");
        state.result = Some(result.clone());
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.settled.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    #[derive(Default)]
    struct Wakes(AtomicU32);

    impl std::task::Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    #[test]
    fn all_tickets_of_a_frame_resolve_with_it() {
        let frame = Arc::new(FrameFate::default());
        let mut tickets = [1, 2].map(|lines| Ticket::new(Arc::clone(&frame), lines, 10 * lines));
        let wakes = [(); 2].map(|()| Arc::new(Wakes::default()));
        let wakers = wakes.each_ref().map(|wakes| Waker::from(Arc::clone(wakes)));
        for _ in 0..2 {
            for (ticket, waker) in tickets.iter_mut().zip(&wakers) {
                assert!(Pin::new(ticket).poll(&mut Context::from_waker(waker)).is_pending());
            }
        }
        frame.settle(&Err(KeepError::DiskFull));
        assert_eq!(wakes.map(|wakes| wakes.0.load(SeqCst)), [1, 1]);
        let [mut first, second] = tickets;
        let polled = Pin::new(&mut first).poll(&mut Context::from_waker(&wakers[0]));
        assert_eq!(polled, Poll::Ready(Err(KeepError::DiskFull)));
        assert_eq!(second.wait(), Err(KeepError::DiskFull));
    }

    #[test]
    fn tickets_of_one_frame_can_be_joined() {
        let frame = Arc::new(FrameFate::default());
        let mut ticket = Ticket::new(Arc::clone(&frame), 1, 10);
        assert!(ticket.join(Ticket::new(frame, 2, 20)).is_ok());
        let other = ticket.join(Ticket::settled(Ok(()), 4, 40)).unwrap_err();
        assert_eq!((ticket.lines(), ticket.bytes(), other.lines()), (3, 30, 4));
    }

    #[test]
    fn a_thread_can_wait() {
        let frame = Arc::new(FrameFate::default());
        let ticket = Ticket::new(Arc::clone(&frame), 1, 1);
        let settler = std::thread::spawn(move || frame.settle(&Ok(())));
        assert_eq!(ticket.wait(), Ok(()));
        settler.join().unwrap();
    }
}
