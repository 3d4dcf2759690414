//! One source: running, or failed by a fault of ours and about to be started again, after a pause
//! that grows while it fails again soon.

use std::time::{Duration, Instant};

use anyhow::Result;
use collector::SourceKind;

/// The pause before a source is started again, at first and at most.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Where a source is, or is not.
pub struct Place<T> {
    source: Option<T>,
    /// When it is started again.
    due: Option<Instant>,
    started: Option<Instant>,
    pause: Duration,
}

impl<T> Default for Place<T> {
    fn default() -> Place<T> {
        Place { source: None, due: None, started: None, pause: PAUSE_MIN }
    }
}

impl<T> Place<T> {
    /// The source, if there is one.
    pub fn source(&self) -> Option<&T> {
        self.source.as_ref()
    }

    /// Puts a source here that was just started.
    pub fn set(&mut self, source: Option<T>) {
        self.source = source;
    }

    /// Stops a source that has failed, and starts it again when it is time.
    pub fn look(
        &mut self,
        kind: SourceKind,
        now: Instant,
        has_failed: impl FnOnce(&T) -> bool,
        start: impl FnOnce() -> Result<Option<T>>,
    ) {
        if self.source.as_ref().is_some_and(has_failed) {
            // What its other threads have is delivered.
            self.source = None;
            let ran_long = self.started.is_none_or(|started| now - started > PAUSE_MAX);
            self.wait(now, ran_long);
        }
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        match start() {
            Ok(source) => {
                tracing::info!("{} is started again", kind.title());
                (self.source, self.due, self.started) = (source, None, Some(now));
            }
            Err(error) => {
                tracing::error!("{} cannot be started again, will try: {error}", kind.title());
                self.wait(now, false);
            }
        }
    }

    fn wait(&mut self, now: Instant, afresh: bool) {
        self.pause = if afresh { PAUSE_MIN } else { (2 * self.pause).min(PAUSE_MAX) };
        self.due = Some(now + self.pause);
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    /// A source that has failed or not.
    struct Fake(bool);

    #[test]
    fn a_source_that_fails_is_started_again_after_a_pause_that_grows() {
        let begun = Instant::now();
        let mut place = Place::default();
        place.set(Some(Fake(true)));
        let mut starts = Vec::new();
        for second in 0..400 {
            place.look(
                SourceKind::File,
                begun + Duration::from_secs(second),
                |fake| fake.0,
                || {
                    starts.push(second);
                    match starts.len() {
                        // It fails again at once, then cannot be started, then holds.
                        3 => Err(anyhow!("no port")),
                        started => Ok(Some(Fake(started < 3))),
                    }
                },
            );
        }
        assert_eq!(starts, [1, 4, 9, 17]);
        // Once it has run for long, it begins with the shortest pause.
        place.set(Some(Fake(true)));
        let mut started = None;
        for second in 400..410 {
            let now = begun + Duration::from_secs(second);
            place.look(
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
    fn what_does_not_fail_or_is_off_is_left_alone() {
        for mut place in [Place::default(), Place { source: Some(Fake(false)), ..Place::default() }]
        {
            for _ in 0..3 {
                let start = || panic!("nothing has failed");
                place.look(SourceKind::File, Instant::now(), |fake: &Fake| fake.0, start);
            }
        }
    }
}
