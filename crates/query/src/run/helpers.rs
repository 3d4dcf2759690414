//! The threads that help one that runs questions.
//!
//! A thread that runs one question after the other keeps its helpers in between. So they are at work sooner: a thread
//! that was just started is often put on the processor of the one that started it, and stays there for milliseconds. And
//! they find memory that the system gave them before. They end with the thread that they help.

use std::cell::Cell;

use rayon_core::{Scope, ThreadPool, ThreadPoolBuilder};

use super::context::RunError;
use crate::source::SourceError;

thread_local! {
    static HELPERS: Cell<Option<ThreadPool>> = const { Cell::new(None) };
}

/// Does `own` on this thread, beside what it gives to so many helpers at most; each that is given has one of its own. Ends when all
/// have ended; a panic of a helper goes on here.
pub(crate) fn with_helpers<'s, R>(
    count: usize,
    own: impl FnOnce(&Scope<'s>) -> R,
) -> Result<R, SourceError> {
    // Taken while it works: what `own` does may need some, too.
    let kept = HELPERS.take().filter(|kept| kept.current_num_threads() >= count);
    let helpers = kept.map_or_else(|| start(count), Ok)?;
    let done = helpers.in_place_scope(own);
    HELPERS.set(Some(helpers));
    Ok(done)
}

fn start(count: usize) -> Result<ThreadPool, SourceError> {
    let named = ThreadPoolBuilder::new().thread_name(|number| format!("query-help-{number}"));
    let started = named.num_threads(count).build();
    started.map_err(|error| SourceError(format!("cannot start a thread: {error}")))
}

/// Does `own` on this thread and each of `others` on one of its own. The error is that of the first that has one.
pub(crate) fn side_by_side<W>(
    own: impl FnOnce() -> Result<(), RunError>,
    others: impl IntoIterator<Item = W>,
) -> Result<(), RunError>
where
    W: FnOnce() -> Result<(), RunError> + Send,
{
    let others: Vec<W> = others.into_iter().collect();
    if others.is_empty() {
        return own();
    }
    let mut ended: Vec<Result<(), RunError>> = others.iter().map(|_| Ok(())).collect();
    let done = with_helpers(others.len(), |scope| {
        for (work, ended) in others.into_iter().zip(&mut ended) {
            scope.spawn(move |_| *ended = work());
        }
        own()
    })?;
    ended.into_iter().fold(done, Result::and)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::{Barrier, Mutex};
    use std::thread::{ThreadId, current};

    use super::*;

    /// The threads that `count` pieces of work are done by, all at the same time.
    fn threads_of(count: usize) -> BTreeSet<String> {
        let (names, met) = (Mutex::new(BTreeSet::new()), Barrier::new(count + 1));
        let work = || {
            met.wait();
            let id: ThreadId = current().id();
            names.lock().unwrap().insert(format!("{id:?}"));
            Ok(())
        };
        side_by_side(work, (0..count).map(|_| work)).unwrap();
        names.into_inner().unwrap()
    }

    #[test]
    fn helpers_are_kept_and_are_more_where_more_are_needed() {
        let first = threads_of(2);
        assert_eq!(first.len(), 3);
        assert_eq!(threads_of(2), first);
        assert!(threads_of(1).is_subset(&first));
        let more = threads_of(5);
        assert_eq!(more.len(), 6);
        assert!(threads_of(2).is_subset(&more));
    }

    #[test]
    fn helpers_may_be_needed_within() {
        let inner = || side_by_side(|| Ok(()), [|| Ok(()), || Ok(())]);
        side_by_side(inner, [inner, inner]).unwrap();
    }

    #[test]
    fn the_first_error_is_told_and_a_panic_goes_on() {
        let limits = |limit: f64| Err(RunError::TimeLimit(limit));
        let done = side_by_side(|| Ok(()), [2.0, 3.0].map(|limit| move || limits(limit)));
        assert!(matches!(done, Err(RunError::TimeLimit(2.0))));
        let done = side_by_side(|| limits(1.0), [|| Ok(()), || Ok(())]);
        assert!(matches!(done, Err(RunError::TimeLimit(1.0))));
        let panics = || -> Result<(), RunError> { panic!("as asked for") };
        let caught = std::panic::catch_unwind(|| side_by_side(|| Ok(()), [panics]));
        assert!(caught.is_err());
        assert_eq!(threads_of(2).len(), 3);
    }
}
