//! Engines that fail for this node alone: others take its partitions until they work again.

use std::sync::Arc;

use cluster::engines::Metered;
use cluster::{Catalog, FrameLog, ObjectError, Objects};

use super::super::Engines;
use super::super::outage::{Conditions, Outage, patience};
use super::{PROBE_PREFIX, PROBE_TICK, Shared, lock};

impl Shared {
    /// The loop of the thread that gives the partitions away while an engine fails for this node
    /// alone, and takes some again when it works. Meanwhile others read segments for queries.
    pub(super) fn watch_for_outages(self: &Arc<Self>) {
        let mut outage = Outage::default();
        // A node that only queries writes no segments.
        let mut conditions = match self.engines.config.stores {
            true => Conditions::Unknown,
            false => Conditions::Kept,
        };
        while !self.is_over() {
            // The call takes a minute where the storage does not answer, so it is not made while an
            // outage is known.
            conditions = match conditions {
                Conditions::Kept => Conditions::Kept,
                Conditions::Unknown if self.outage().is_some() => Conditions::Unknown,
                _ => self.check_storage(outage.is_alone()),
            };
            self.pause(PROBE_TICK);
            if !conditions.may_look_for_outages() {
                continue;
            }
            if outage.is_alone() {
                match self.probe() {
                    Ok(()) => {
                        outage.end();
                        lock(&self.unpublished).clear();
                        // A store that does not know its storage yet waits until it does.
                        if conditions == Conditions::Kept {
                            *lock(&self.cut_off) = None;
                            tracing::info!(
                                "what failed works again; this node takes its part again"
                            );
                        }
                    }
                    Err(error) => *lock(&self.cut_off) = Some(error),
                }
                continue;
            }
            let Some(why) = self.outage() else {
                outage.end();
                continue;
            };
            let Ok(snapshot) = self.engines.catalog.snapshot(super::super::none(), 0) else {
                continue;
            };
            if outage.look(self.engines.info.node, &snapshot.partitions) {
                tracing::error!(
                    "stores publish, and this node cannot do its part: {why}; others do it"
                );
                *lock(&self.cut_off) = Some(why);
            }
        }
    }

    /// Finds out whether the storage keeps objects whose names are written again. A store takes no
    /// partitions beside one that does not: a node that was believed dead could replace a segment.
    /// `is_alone`: the store takes no partitions anyway until [`probe`](Self::probe) succeeds.
    fn check_storage(&self, is_alone: bool) -> Conditions {
        let name = format!("{PROBE_PREFIX}{}-conditions", self.engines.info.node);
        match self.engines.bucket.check_conditions(&name) {
            Ok(None) => {
                if !is_alone {
                    *lock(&self.cut_off) = None;
                }
                Conditions::Kept
            }
            Ok(Some(unfit)) => {
                let known = lock(&self.cut_off).replace(unfit.clone());
                if known.as_ref() != Some(&unfit) {
                    tracing::error!("{unfit}");
                }
                Conditions::Replaced
            }
            Err(error) => {
                tracing::debug!("{error}");
                Conditions::Unknown
            }
        }
    }

    /// What has failed for so long that other stores should have the partitions, if they can.
    fn outage(&self) -> Option<String> {
        let config = &self.engines.config;
        let unpublished = lock(&self.unpublished).values().min_by_key(|(since, _)| *since).cloned();
        let unpublished = unpublished.map(|(since, why)| (since.elapsed(), why));
        let failing = |metered: Metered| {
            let error = metered.error.unwrap_or_default();
            metered.failing.map(|failing| (failing, error))
        };
        let Engines { log, bucket, .. } = &*self.engines;
        let all = [
            (unpublished, false),
            (failing(bucket.metered()), false),
            (failing(log.metered()), true),
        ];
        all.into_iter().find_map(|(failing, is_log)| {
            let (failing, why) = failing?;
            (failing >= patience(config.lease, config.segment_age, is_log)).then_some(why)
        })
    }

    /// Whether the store can do its work: seal, store segments, read the log.
    fn probe(&self) -> Result<(), String> {
        let file = self.directory.join("probe");
        let written = std::fs::write(&file, b"probe").and_then(|()| std::fs::remove_file(&file));
        written.map_err(|error| format!("{}: {error}", file.display()))?;
        let Engines { log, bucket, info, .. } = &*self.engines;
        let name = format!("{PROBE_PREFIX}{}", info.node);
        match Objects::put_new(&**bucket, &name, &b"probe".to_vec()) {
            Ok(()) | Err(ObjectError::Exists(_)) => {}
            Err(error) => return Err(error.to_string()),
        }
        // One that stays is there the next time.
        if let Err(error) = Objects::delete(&**bucket, &name) {
            tracing::debug!("{error}");
        }
        FrameLog::ends(&**log).map(drop).map_err(|error| error.to_string())
    }
}
