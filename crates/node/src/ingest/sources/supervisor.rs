//! Supervises one source: it runs, or has panicked and is restarted after a pause, which grows if
//! it soon fails again.

use std::time::{Duration, Instant};

use anyhow::Result;
use collector::SourceKind;
use platform::pauses::Pauses;

/// The shortest and the longest pause before a source is restarted.
const PAUSES: Pauses = Pauses::new(Duration::from_secs(1), PAUSE_MAX);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The supervisor of a source.
pub struct Supervisor<T> {
    source: Option<T>,
    /// When it is restarted.
    due: Option<Instant>,
    started: Option<Instant>,
    pauses: Pauses,
}

impl<T> Default for Supervisor<T> {
    fn default() -> Supervisor<T> {
        Supervisor { source: None, due: None, started: None, pauses: PAUSES }
    }
}

impl<T> Supervisor<T> {
    /// The source, if it runs.
    pub fn source(&self) -> Option<&T> {
        self.source.as_ref()
    }

    /// Takes over a source that was just started.
    pub fn set(&mut self, source: Option<T>) {
        self.source = source;
    }

    /// Stops a source that has failed, and restarts it when it is time.
    pub fn look(
        &mut self,
        kind: SourceKind,
        now: Instant,
        has_failed: impl FnOnce(&T) -> bool,
        start: impl FnOnce() -> Result<Option<T>>,
    ) {
        if self.source.as_ref().is_some_and(has_failed) {
            // Dropping it delivers what its other threads have.
            self.source = None;
            let ran_long = self.started.is_none_or(|started| now - started > PAUSE_MAX);
            self.wait(now, ran_long);
        }
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        match start() {
            Ok(source) => {
                tracing::info!("{} is running again", kind.title());
                (self.source, self.due, self.started) = (source, None, Some(now));
            }
            Err(error) => {
                tracing::error!("{} cannot be restarted, will try again: {error}", kind.title());
                self.wait(now, false);
            }
        }
    }

    fn wait(&mut self, now: Instant, afresh: bool) {
        if afresh {
            self.pauses.reset();
        }
        self.due = Some(now + self.pauses.pause());
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    /// A source; true if it has failed.
    struct Fake(bool);

    #[test]
    fn a_failed_source_restarts_after_growing_pauses() {
        let begun = Instant::now();
        let mut supervisor = Supervisor::default();
        supervisor.set(Some(Fake(true)));
        let mut starts = Vec::new();
        for second in 0..400 {
            supervisor.look(
                SourceKind::File,
                begun + Duration::from_secs(second),
                |fake| fake.0,
                || {
                    starts.push(second);
                    match starts.len() {
                        // It fails again at once, then cannot be started, then keeps running.
                        3 => Err(anyhow!("no port")),
                        started => Ok(Some(Fake(started < 3))),
                    }
                },
            );
        }
        assert_eq!(starts, [1, 4, 9, 17]);
        // After it has run for long, the shortest pause applies again.
        supervisor.set(Some(Fake(true)));
        let mut started = None;
        for second in 400..410 {
            let now = begun + Duration::from_secs(second);
            supervisor.look(
                SourceKind::File,
                now,
                |fake| fake.0,
                || {
                    started.get_or_insert(second);
                    Ok(Some(Fake(false)))
                },
            );
        }
        assert_eq!(started, Some(401));
    }

    #[test]
    fn healthy_and_disabled_sources_are_left_alone() {
        for mut supervisor in [
            Supervisor::default(),
            Supervisor { source: Some(Fake(false)), ..Supervisor::default() },
        ] {
            for _ in 0..3 {
                let start = || panic!("nothing has failed");
                supervisor.look(SourceKind::File, Instant::now(), |fake: &Fake| fake.0, start);
            }
        }
    }
}
