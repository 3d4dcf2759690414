//! Ends work on long values when the query ends.
//!
//! Rows are checked by their number ([`CHECK_ROWS`](super::CHECK_ROWS)), but one value may be as
//! large as many rows, and a slow test of one value may take seconds. So whatever looks at values
//! tells a [`Pulse`] how many bytes it is about to look at, and the pulse checks the time limit and
//! the cancellation of the query every [`PULSE_BYTES`].
//!
//! Loops over bytes return no errors. After a failed check, [`Pulse::may_continue`] returns false,
//! the loop ends with any result, and its caller returns the error ([`Pulse::end`]).

use std::cell::{Cell, RefCell};

use crate::base::RunError;

/// Bytes of values between two checks of the time limit and of cancellation: a few milliseconds
/// with most tests. Slow tests count a byte several times.
///
/// Fewer in the tests of this crate: they search step by step what is long, and are soon at a
/// check.
pub(crate) const PULSE_BYTES: usize = if cfg!(test) { 1 << 10 } else { 64 << 10 };

/// Checks, each time some bytes of values were looked at, whether the query may continue.
pub struct Pulse<'p> {
    check: Box<dyn Fn() -> Result<(), RunError> + 'p>,
    /// Bytes between two checks.
    piece_bytes: usize,
    /// Bytes until the next check.
    left: Cell<usize>,
    ended: RefCell<Result<(), RunError>>,
    is_over: Cell<bool>,
}

impl<'p> Pulse<'p> {
    /// A pulse that calls `check`.
    pub fn new(check: impl Fn() -> Result<(), RunError> + 'p) -> Self {
        Pulse::every(PULSE_BYTES, check)
    }

    /// A pulse for work that nothing ends: its values are few and short, or it has no limit.
    pub fn endless() -> Pulse<'static> {
        Pulse::new(|| Ok(()))
    }

    /// As [`Pulse::new`], with other pieces.
    pub(crate) fn every(
        piece_bytes: usize,
        check: impl Fn() -> Result<(), RunError> + 'p,
    ) -> Pulse<'p> {
        Pulse {
            check: Box::new(check),
            piece_bytes,
            left: Cell::new(piece_bytes),
            ended: RefCell::new(Ok(())),
            is_over: Cell::new(false),
        }
    }

    /// Bytes between two checks. Work on more bytes is done in pieces.
    #[inline]
    pub(crate) fn piece_bytes(&self) -> usize {
        self.piece_bytes
    }

    /// Counts `bytes` that are about to be looked at. False if the query has ended, and they need
    /// not be looked at.
    #[inline]
    pub fn may_continue(&self, bytes: usize) -> bool {
        match self.left.get().checked_sub(bytes.saturating_add(1)) {
            Some(left) => self.left.set(left),
            None => self.check_now(),
        }
        !self.is_over.get()
    }

    #[cold]
    fn check_now(&self) {
        self.left.set(self.piece_bytes);
        if !self.is_over.get()
            && let Err(error) = (self.check)()
        {
            self.is_over.set(true);
            *self.ended.borrow_mut() = Err(error);
        }
    }

    /// Whether the query has ended, so that what was found is incomplete.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// Why the query ended, if it did.
    pub fn end(self) -> Result<(), RunError> {
        self.ended.into_inner()
    }
}
