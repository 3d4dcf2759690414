//! A region that follows another one: its bucket gets the objects of the other's segments, and then
//! its catalog becomes what the other was when that began, round after round.
//!
//! ```text
//! first region:   hold ── moment of the catalog ─────────────── let go
//!                              │ names it lacks
//! this region:                 └─ objects ──▶ rows, in one transaction ──▶ objects that nobody needs go
//! ```
//!
//! So the catalog of this region never names an object that is not there, unless the first has lost
//! it too. Such names are noted in the catalog, and each round looks for their objects again. A
//! round that breaks off is begun anew, and finds the objects that were copied.
//!
//! Left out: messages of Kafka, which the first region has not published.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use cluster::engines::objects::{self, Bucket};
use cluster::engines::postgres::{PgCatalog, PgSettings};
use cluster::{Catalog, OBJECT_PREFIX, ObjectError, Objects, TimeRange};

use super::backup::{StoredObject, patient};
use super::engines::{EngineOptions, connect_log};
use super::log_replacement::bases;

/// How long the first region keeps objects after the last sign of life of a round.
const HOLD: Duration = Duration::from_secs(3_600);
/// How often that is prolonged.
const HOLD_TICK: Duration = Duration::from_secs(60);
/// Objects that are copied at the same time. Each takes the memory of an upload.
///
/// limits.md, Nodes of a cluster: objects that a region that follows copies at a time | {} | others
/// wait
const COPIES_MAX: usize = 4;
/// Objects that are deleted with one call of the catalog.
const PAGE: usize = 256;
/// Objects that are listed with one call.
const LISTED: usize = 1_000;
/// Segments whose objects are missing. More of them are rather a wrong bucket than a loss.
///
/// limits.md, Nodes of a cluster: objects that the first region lacks and a region that follows
/// notes | {} | the round fails, and the region stays as it is; it is promoted with
/// `--first-is-lost`
const MISSING_MAX: usize = 10_000;
/// What the first region says once another one goes on.
const MOVED: &str = "another region was promoted in the place of this one";

/// The engines of the region that is followed.
#[derive(Clone, Debug)]
pub struct FollowOptions {
    /// Its object storage.
    pub objects: objects::Config,
    /// Its catalog.
    pub catalog: PgSettings,
    /// The pause between two rounds.
    pub every: Duration,
    /// How long objects stay whose segments the first region has dropped or replaced.
    pub objects_kept: Duration,
}

/// What a round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Objects that were copied.
    pub copied: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that the first region has lost, and this one lacks.
    pub missing: u64,
    /// Objects that were deleted here.
    pub deleted: u64,
    /// The moment of the first region that this one has now, nanoseconds since 1970 UTC.
    pub at_ns: i64,
}

/// Both regions.
pub struct Follower {
    options: FollowOptions,
    from: Arc<Bucket>,
    first: PgCatalog,
    to: Arc<Bucket>,
    own: PgCatalog,
    holder: String,
}

impl Follower {
    /// Connects to the engines of both regions. `engines`: those of this one.
    ///
    /// Errors: an engine does not answer, or refuses.
    pub fn open(engines: &EngineOptions, options: &FollowOptions) -> Result<Follower> {
        let is_same = options.objects.bucket == engines.objects.bucket
            && options.objects.endpoint == engines.objects.endpoint;
        ensure!(
            !is_same,
            "cluster.follows.objects is the bucket of this region: a region has one of its own"
        );
        let bucket = |config: &objects::Config| Bucket::new(config.clone()).map(Arc::new);
        let first = PgCatalog::open(patient(&options.catalog));
        Ok(Follower {
            from: bucket(&options.objects).context("cluster.follows.objects")?,
            first: first.context("cluster.follows.postgresql")?,
            to: bucket(&engines.objects).context("cluster.objects")?,
            own: PgCatalog::open(patient(&engines.catalog)).context("cluster.postgresql")?,
            options: options.clone(),
            holder: format!("a region that follows, {:08x}", fastrand::u32(..)),
        })
    }

    /// The pause between two rounds.
    pub fn every(&self) -> Duration {
        self.options.every
    }

    /// Makes this region what the first one is now. Ends early, with an error, once `is_over`.
    ///
    /// Errors: an engine does not answer; this region is one of its own, or follows another one;
    /// more objects are missing than are noted. The next round resumes.
    pub fn round(&self, is_over: &AtomicBool) -> Result<Round> {
        self.round_of(is_over, false)
    }

    /// A round. `looks`: whether it looks which objects this region has, instead of believing its
    /// notes.
    fn round_of(&self, is_over: &AtomicBool, looks: bool) -> Result<Round> {
        let noted = self.own.missing()?;
        let mut known = self.own.live_names()?;
        // Rounds of earlier releases noted nothing.
        if looks || noted.is_none() {
            let absent = absent(&self.to, &known)?;
            known.retain(|name| !absent.contains(name));
        }
        let noted: HashSet<String> = noted.into_iter().flatten().collect();
        known.retain(|name| !noted.contains(name));
        self.first.hold(&self.holder, HOLD)?;
        let done = self.copy(&known, &noted, is_over);
        // One that stays expires.
        if let Err(error) = self.first.let_go(&self.holder) {
            tracing::warn!("{error}; the first region keeps objects for {HOLD:?}");
        }
        let mut round = done?;
        round.deleted = self.delete_old()?;
        Ok(round)
    }

    /// Copies what is not `known`. What is missing and not `noted` is told.
    fn copy(
        &self,
        known: &HashSet<String>,
        noted: &HashSet<String>,
        is_over: &AtomicBool,
    ) -> Result<Round> {
        let moment = self.first.moment(known)?;
        ensure!(moment.cluster > 0, "the database of cluster.follows is not that of a cluster");
        let (copied, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        let missing = Mutex::new(Vec::new());
        let next = Mutex::new((moment.new.iter(), Instant::now()));
        let work = || -> Result<()> {
            while !is_over.load(Relaxed) {
                let mut turn = next.lock().unwrap_or_else(PoisonError::into_inner);
                let Some((name, size)) = turn.0.next() else { return Ok(()) };
                if turn.1.elapsed() >= HOLD_TICK {
                    self.first.hold(&self.holder, HOLD)?;
                    turn.1 = Instant::now();
                }
                drop(turn);
                if self.put(name, *size)? {
                    copied.fetch_add(1, Relaxed);
                    bytes.fetch_add(*size, Relaxed);
                } else {
                    if !noted.contains(name) {
                        tracing::warn!("{name} is missing in the object storage of both regions");
                    }
                    let mut missing = missing.lock().unwrap_or_else(PoisonError::into_inner);
                    ensure!(
                        missing.len() < MISSING_MAX,
                        "more than {MISSING_MAX} objects are missing in the bucket of cluster.follows.objects, {name} among them: \
                         name the bucket of the region whose database cluster.follows.postgresql names"
                    );
                    missing.push(name.clone());
                }
            }
            Err(anyhow!("it was told to end"))
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..COPIES_MAX).map(|_| scope.spawn(work)).collect();
            let done = workers
                .into_iter()
                .map(|worker| worker.join().unwrap_or_else(|_| Err(anyhow!("a bug; see the log"))));
            done.fold(Ok(()), Result::and)
        })?;
        let mut missing = missing.into_inner().unwrap_or_else(PoisonError::into_inner);
        missing.sort_unstable();
        self.own.follow(&moment, &missing)?;
        let (copied, bytes) = (copied.into_inner(), bytes.into_inner());
        let missing = missing.len() as u64;
        Ok(Round { copied, bytes, missing, deleted: 0, at_ns: moment.at_ns })
    }

    /// Copies an object; false if the first region has lost it, and this one does not have it.
    fn put(&self, name: &str, bytes: u64) -> Result<bool> {
        match Objects::size(&*self.from, name) {
            Ok(found) => {
                ensure!(found == bytes, "the object {name} has {found} bytes, expected {bytes}");
            }
            Err(ObjectError::Missing(_)) => return self.has(name, bytes),
            Err(error) => return Err(error.into()),
        }
        let name = name.to_owned();
        let body = StoredObject { bucket: Arc::clone(&self.from), name: name.clone(), bytes };
        match Objects::put_new(&*self.to, &name, &body) {
            Ok(()) => {}
            // A round that broke off has copied it.
            Err(ObjectError::Exists(_)) => ensure!(
                self.has(&name, bytes)?,
                "the object {name} of the bucket of cluster.objects has gone while it was looked at; the next round copies it"
            ),
            Err(error) => return Err(error).with_context(|| format!("cannot copy {name}")),
        }
        Ok(true)
    }

    /// Whether this region has an object. Objects are written whole, so one of another size is of
    /// somebody else.
    fn has(&self, name: &str, bytes: u64) -> Result<bool> {
        match Objects::size(&*self.to, name) {
            Ok(found) => ensure!(
                found == bytes,
                "the bucket of cluster.objects has another object {name}: a region that follows begins with an empty bucket"
            ),
            Err(ObjectError::Missing(_)) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }

    /// Copies what is left, and has no node start in the first region any more.
    fn finish(&self) -> Result<()> {
        let last = |looks| {
            self.round_of(&AtomicBool::new(false), looks).map(drop).context("the last copy")
        };
        last(true)?;
        // A store may have started meanwhile: its epoch is over then, and it gets no other.
        self.first.leave(MOVED)?;
        last(false)
    }

    /// Deletes the objects of segments that were dropped long enough ago.
    fn delete_old(&self) -> Result<u64> {
        let mut deleted = 0;
        loop {
            let names = self.own.retired(self.options.objects_kept, PAGE)?;
            for name in &names {
                Objects::delete(&*self.to, name)?;
            }
            self.own.forget(&names)?;
            deleted += names.len() as u64;
            if names.len() < PAGE {
                return Ok(deleted);
            }
        }
    }
}

/// The names of `live` that have no object in a bucket.
fn absent(bucket: &Bucket, live: &HashSet<String>) -> Result<HashSet<String>> {
    let mut absent = live.clone();
    let mut after: Option<String> = None;
    while !absent.is_empty() {
        let page = Objects::list(bucket, OBJECT_PREFIX, after.as_deref(), LISTED)?;
        for info in &page {
            absent.remove(&info.name);
        }
        match page.last() {
            Some(last) if page.len() == LISTED => after = Some(last.name.clone()),
            _ => break,
        }
    }
    Ok(absent)
}

/// How a region is promoted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Promotion {
    /// Whether the first region, or one of its engines, cannot be reached, and never will be.
    pub is_first_lost: bool,
    /// Whether the log of this region is the one of the first.
    pub is_same_log: bool,
}

/// What a promoted region has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promoted {
    /// The moment of the first region, nanoseconds since 1970 UTC.
    pub at_ns: i64,
    /// Whether that was its last moment. Without it, what it published later is not here.
    pub is_last: bool,
    /// The live segments without an object in the bucket of this region, by name: all that were
    /// found when it was listed.
    pub missing: Vec<String>,
}

impl Promoted {
    /// Whether everything is there that the first region published.
    pub fn is_whole(&self) -> bool {
        self.is_last && self.missing.is_empty()
    }
}

/// Makes a region that follows one of its own, in which stores start. The first region is left: no
/// node starts there any more, if it can be reached.
///
/// Errors: the first region has stores; it cannot be reached, and nobody said that it is lost; this
/// region follows nothing, or its bucket cannot be listed.
pub fn promote(
    engines: &EngineOptions,
    options: &FollowOptions,
    promotion: Promotion,
) -> Result<Promoted> {
    let own = PgCatalog::open(patient(&engines.catalog)).context("cluster.postgresql")?;
    ensure!(
        own.follows()?.is_some(),
        "this region follows no other one, so there is nothing to promote"
    );
    let is_last = match Follower::open(engines, options) {
        Ok(follower) => {
            let owners = owners(&follower.first)?;
            ensure!(
                owners == 0,
                "the first region still writes: {owners} of its partitions have owners. Stop its stores, and try again after \
                 cluster.lease; then nothing is lost that they published"
            );
            match follower.finish() {
                Ok(()) => true,
                Err(error) if promotion.is_first_lost => {
                    tracing::warn!("{error:#}");
                    // Its database may be all that is left of it.
                    if let Err(error) = follower.first.leave(MOVED) {
                        tracing::warn!("nodes may still start in the first region: {error}");
                    }
                    false
                }
                Err(error) => return Err(error),
            }
        }
        Err(error) if promotion.is_first_lost => {
            tracing::warn!("{error:#}");
            false
        }
        Err(error) => {
            return Err(error.context(
                "the first region cannot be reached, so that what it published last is not here; where it is lost for good, \
                 give --first-is-lost",
            ));
        }
    };
    let bucket = Bucket::new(engines.objects.clone()).context("cluster.objects")?;
    let mut missing: Vec<String> = absent(&bucket, &own.live_names()?)?.into_iter().collect();
    missing.sort_unstable();
    let bases = match promotion.is_same_log {
        true => None,
        false => {
            let log = connect_log(&engines.kafka).map_err(|error| anyhow!(error))?;
            Some(bases(&own, &log)?.0)
        }
    };
    let at_ns = own.follows()?.map_or(0, |follows| follows.at_ns);
    own.promote(bases.as_deref())?;
    Ok(Promoted { at_ns, is_last, missing })
}

/// How many partitions have owners.
fn owners(catalog: &PgCatalog) -> Result<usize> {
    let none = TimeRange { first_ns: i64::MAX, last_ns: i64::MIN };
    let snapshot = catalog.snapshot(none, 0)?;
    Ok(snapshot.partitions.iter().filter(|row| row.owner.is_some()).count())
}
