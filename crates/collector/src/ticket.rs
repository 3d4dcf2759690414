//! The promise that lines will be durable: can be waited for by a thread, or awaited by a task of any executor.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use crate::deliver::DeliverError;

/// Resolves once all lines it stands for are durable, or it is certain that some will not be.
///
/// Dropping it changes nothing for the lines.
#[must_use = "lines are durable only when the ticket says so"]
#[derive(Debug)]
pub struct Ticket(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    settled: Condvar,
}

#[derive(Debug)]
struct State {
    /// Stubs that are not torn off yet.
    stubs: usize,
    /// The first error.
    result: Result<(), DeliverError>,
    waker: Option<Waker>,
}

/// The part of a ticket that a frame holds.
#[derive(Debug)]
pub(crate) struct Stub(Arc<Shared>);

impl Ticket {
    /// A ticket with its first stub. It resolves when all stubs are settled.
    pub(crate) fn new() -> (Ticket, Stub) {
        let state = State { stubs: 1, result: Ok(()), waker: None };
        let shared = Arc::new(Shared { state: Mutex::new(state), settled: Condvar::new() });
        (Ticket(Arc::clone(&shared)), Stub(shared))
    }

    /// Blocks until it is known whether the lines are durable.
    pub fn wait(self) -> Result<(), DeliverError> {
        let pending = |state: &mut State| state.stubs > 0;
        let state = self.0.settled.wait_while(self.0.lock(), pending).expect("nothing panics");
        state.result.clone()
    }
}

impl Future for Ticket {
    type Output = Result<(), DeliverError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.lock();
        if state.stubs == 0 {
            return Poll::Ready(state.result.clone());
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while this is locked")
    }
}

impl Stub {
    /// Another stub of the same ticket, for lines that went into another frame.
    pub fn another(&self) -> Stub {
        self.0.lock().stubs += 1;
        Stub(Arc::clone(&self.0))
    }

    /// Whether both belong to the same ticket.
    pub fn is_of(&self, other: &Stub) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Says what became of the lines.
    pub fn settle(self, result: &Result<(), DeliverError>) {
        let mut state = self.0.lock();
        state.stubs -= 1;
        if state.result.is_ok() {
            state.result = result.clone();
        }
        if state.stubs > 0 {
            return;
        }
        let waker = state.waker.take();
        drop(state);
        self.0.settled.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
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
    fn resolves_when_all_stubs_are_settled_with_the_first_error() {
        let (mut ticket, first) = Ticket::new();
        let (second, third) = (first.another(), first.another());
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut context = Context::from_waker(&waker);
        let mut poll = || Pin::new(&mut ticket).poll(&mut context);
        assert!(poll().is_pending());
        first.settle(&Ok(()));
        second.settle(&Err(DeliverError::DiskFull));
        assert!(poll().is_pending());
        assert_eq!(wakes.0.load(SeqCst), 0);
        third.settle(&Err(DeliverError::Closed));
        assert_eq!(wakes.0.load(SeqCst), 1);
        assert_eq!(poll(), Poll::Ready(Err(DeliverError::DiskFull)));
        assert_eq!(ticket.wait(), Err(DeliverError::DiskFull));
    }

    #[test]
    fn a_thread_can_wait() {
        let (ticket, stub) = Ticket::new();
        let settler = std::thread::spawn(move || stub.settle(&Ok(())));
        assert_eq!(ticket.wait(), Ok(()));
        settler.join().unwrap();
    }
}
