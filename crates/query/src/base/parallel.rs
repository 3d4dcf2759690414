//! Runs the work of one query on several threads, each of which may fail.

use platform::helpers::{self, Scope};

use crate::base::{RunError, SourceError};

/// As [`helpers::with_helpers`], with helpers that are named after queries.
pub(crate) fn with_helpers<'s, R>(
    count: usize,
    own: impl FnOnce(&Scope<'s>) -> R,
) -> Result<R, SourceError> {
    helpers::with_helpers("query-help", count, own)
        .map_err(|error| SourceError(format!("cannot start a thread: {error}")))
}

/// Runs `own` on this thread and each of `others` on a thread of its own. Returns the error of the
/// first of them that has one.
pub(crate) fn in_parallel<W>(
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
    use super::*;

    #[test]
    fn the_first_error_is_told_and_a_panic_goes_on() {
        let limits = |limit: f64| Err(RunError::TimeLimit(limit));
        let done = in_parallel(|| Ok(()), [2.0, 3.0].map(|limit| move || limits(limit)));
        assert!(matches!(done, Err(RunError::TimeLimit(2.0))));
        let done = in_parallel(|| limits(1.0), [|| Ok(()), || Ok(())]);
        assert!(matches!(done, Err(RunError::TimeLimit(1.0))));
        let panics = || -> Result<(), RunError> { panic!("as asked for") };
        let caught = std::panic::catch_unwind(|| in_parallel(|| Ok(()), [panics]));
        assert!(caught.is_err());
    }
}
