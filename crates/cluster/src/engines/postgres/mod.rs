//! The catalog in PostgreSQL.
//!
//! Every call is one transaction, and leaves nothing in the session: no prepared statements,
//! settings or locks that outlive the transaction. So PgBouncer may stand in between and pool
//! transactions. A small pool of connections keeps plans of queries from waiting behind a
//! larger transaction of a job.
//!
//! An outcome is unknown only if the answer to `COMMIT` is lost. Whatever fails before has not
//! happened, because the server rolls a transaction back when its connection ends.

mod backup;
mod deletions;
mod leases;
mod log;
mod marks;
mod pool;
mod publishing;
mod region;
mod schema;
mod segments;
mod tls;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crate::catalog::{
    Catalog, Held, Mark, NodeInfo, PartitionState, Publication, SegmentRow, Snapshot, TimeRange,
    Totals, Unsearched, View,
};
use crate::deletions::{DeletionRow, Deletions};
use crate::engines::meter::Metered;
use crate::error::CatalogError;
use crate::ids::{Lease, NodeId, Resource};
use crate::objects::ObjectInfo;
pub use backup::{Dump, DumpedSegment};
use pool::{Access, Pool};
pub use region::{Follows, Moment, REGION};

/// How PostgreSQL is reached.
#[derive(Clone, Debug)]
pub struct PgSettings {
    /// `host=… user=… dbname=…`, or `postgresql://user:password@host/database`. May name several
    /// hosts, which are tried in order, with `target_session_attrs=read-write`.
    pub connection: String,
    /// A PEM file of the certificates that the server's is verified with; then all connections are
    /// encrypted. `None` for connections that are not, for example to a local PgBouncer.
    pub root_certificates: Option<PathBuf>,
    /// Connections at once. Further calls wait for one.
    pub connections_max: usize,
    /// Time of one connection attempt, for each host.
    pub connect_timeout: Duration,
    /// Time of one statement, by the server; it is cancelled then, and the call is
    /// [`CatalogError::Unavailable`].
    pub statement_timeout: Duration,
    /// Time of one call, by this node's clock, the wait for a connection included; for a server
    /// that does not answer at all.
    pub call_timeout: Duration,
}

impl PgSettings {
    /// No encryption; four connections; 5 s to connect, 10 s for a statement, 30 s for a call.
    pub fn new(connection: impl Into<String>) -> PgSettings {
        PgSettings {
            connection: connection.into(),
            root_certificates: None,
            connections_max: 4,
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(10),
            call_timeout: Duration::from_secs(30),
        }
    }
}

/// The catalog in PostgreSQL. Calls block, and may not be made from asynchronous code: they would
/// panic there.
pub struct PgCatalog {
    pool: Pool,
    /// Whether it follows another catalog, and is changed by that alone.
    is_follower: AtomicBool,
}

impl PgCatalog {
    /// Connects, and creates the schema if there is none. Several nodes may do so at the same time.
    pub fn open(settings: PgSettings) -> Result<PgCatalog, CatalogError> {
        let pool = Pool::new(settings)?;
        let known = schema::Known::here();
        pool.run(Access::Write, async |client| schema::prepare(client, &known).await)?;
        Ok(PgCatalog { pool, is_follower: AtomicBool::new(false) })
    }

    /// All that the catalog has at one moment, apart from retired segments and from which nodes are
    /// there. In memory it takes about a kilobyte for each segment. Give the catalog timeouts that
    /// are long enough.
    pub fn dump(&self) -> Result<Dump, CatalogError> {
        self.pool.run(Access::Read, async |client| backup::dump(client).await)
    }

    /// Fills this catalog, which has to be new, with the rows of a dump.
    ///
    /// Errors: the catalog has something already; the rows are not those of a dump of this version.
    pub fn restore(&self, rows: &[(String, String)]) -> Result<(), CatalogError> {
        self.pool.run(Access::Write, async |client| backup::restore(client, rows).await)
    }

    /// Whether nothing was published here yet, and no node knows it.
    pub fn is_new(&self) -> Result<bool, CatalogError> {
        self.pool.run(Access::Read, async |client| backup::is_new(client).await)
    }

    /// The names of all live segments.
    pub fn live_names(&self) -> Result<HashSet<String>, CatalogError> {
        self.pool.run(Access::Read, async |client| region::live_names(client).await)
    }

    /// What this catalog is now, for one that follows it and has the live segments `known`.
    pub fn moment(&self, known: &HashSet<String>) -> Result<Moment, CatalogError> {
        self.pool.run(Access::Read, async |client| region::moment(client, known).await)
    }

    /// Makes this catalog what another one was at a moment, in one transaction. The objects of its
    /// segments have to be there before, but for those of `missing`, which are noted. The moments
    /// of one catalog come in their order.
    ///
    /// Errors: this one is a catalog of its own, or follows another cluster.
    pub fn follow(&self, moment: &Moment, missing: &[String]) -> Result<(), CatalogError> {
        self.pool.run(Access::Write, async |client| region::follow(client, moment, missing).await)
    }

    /// The live segments whose objects this region lacks, as the last [`follow`](Self::follow)
    /// noted them; none if an earlier release made it, or nothing is followed.
    pub fn missing(&self) -> Result<Option<Vec<String>>, CatalogError> {
        self.pool.run(Access::Read, async |client| region::missing(client).await)
    }

    /// What this catalog follows; none if it is one of its own. From then on it refuses changes by
    /// the nodes of this process.
    pub fn follows(&self) -> Result<Option<Follows>, CatalogError> {
        let follows = self.pool.run(Access::Read, async |client| region::follows(client).await)?;
        self.is_follower.store(follows.is_some(), Relaxed);
        Ok(follows)
    }

    /// Makes a catalog that follows one of its own. `bases`: what is added to the offsets of each
    /// partition of its log from now on; none where the log is that of the other catalog.
    ///
    /// Errors: it follows nothing.
    pub fn promote(&self, bases: Option<&[i64]>) -> Result<(), CatalogError> {
        self.pool.run(Access::Write, async |client| region::promote(client, bases).await)?;
        self.is_follower.store(false, Relaxed);
        Ok(())
    }

    /// Has no node start with this catalog any more: another region goes on.
    pub fn leave(&self, why: &str) -> Result<(), CatalogError> {
        self.pool.run(Access::Write, async |client| region::leave(client, why).await)
    }

    /// Why no node may start with this catalog; none if nodes may.
    pub fn left(&self) -> Result<Option<String>, CatalogError> {
        self.pool.run(Access::Read, async |client| region::left(client).await)
    }

    /// What is added to the offsets of each partition of the log.
    pub fn log_bases(&self) -> Result<Vec<i64>, CatalogError> {
        self.pool.run(Access::Read, async |client| region::bases(client).await)
    }

    /// The id of the topic that the catalog goes with; none before the first store.
    pub fn log_topic(&self) -> Result<Option<String>, CatalogError> {
        self.pool.run(Access::Read, async |client| log::topic(client).await)
    }

    /// Has the catalog go with a topic if it goes with none yet; returns the one that it goes with.
    pub fn adopt_log(&self, topic: &str) -> Result<String, CatalogError> {
        self.pool.run(Access::Write, async |client| log::adopt(client, topic).await)
    }

    /// For each of the first partitions the offset behind all messages that the catalog knows of.
    pub fn log_next(&self, partitions: u32) -> Result<Vec<u64>, CatalogError> {
        self.pool.run(Access::Read, async |client| log::next(client, partitions).await)
    }

    /// Has the catalog go on with another log, whose offsets get `bases` added. `lease`: how long a
    /// node lives after its last sign.
    ///
    /// Errors: stores or query nodes run, which the text names.
    pub fn replace_log(
        &self,
        topic: &str,
        bases: &[i64],
        lease: Duration,
    ) -> Result<(), CatalogError> {
        self.changeable()?;
        self.pool.run(Access::Write, async |client| log::replace(client, topic, bases, lease).await)
    }

    fn changeable(&self) -> Result<(), CatalogError> {
        match self.is_follower.load(Relaxed) {
            true => Err(CatalogError::Refused(FOLLOWER.to_owned())),
            false => Ok(()),
        }
    }

    /// The calls so far.
    pub fn metered(&self) -> Metered {
        self.pool.metered()
    }

    /// What all live segments hold. A million of them take a fraction of a second.
    pub fn held(&self) -> Result<Held, CatalogError> {
        self.pool.run(Access::Read, async |client| segments::held(client).await)
    }

    /// As [`Catalog::snapshot`], within `time_max`.
    pub fn snapshot_within(
        &self,
        time_max: Duration,
        times: TimeRange,
        segments_max: usize,
    ) -> Result<Snapshot, CatalogError> {
        self.pool.run_within(time_max, Access::Read, async |client| {
            segments::snapshot(client, times, segments_max).await
        })
    }
}

/// What a change of a catalog is answered with that follows another one.
const FOLLOWER: &str = "this region follows another one and is read alone: make the change in the region that it follows, or \
    promote this one with `loginson cluster promote`";

impl Catalog for PgCatalog {
    fn now_ns(&self) -> Result<i64, CatalogError> {
        self.pool.run(Access::Read, async |client| segments::now_ns(client).await)
    }

    fn heartbeat(
        &self,
        node: &NodeInfo,
        leases: &[Lease],
        ttl: Duration,
    ) -> Result<View, CatalogError> {
        self.pool
            .run(Access::Write, async |client| leases::heartbeat(client, node, leases, ttl).await)
    }

    fn acquire(
        &self,
        resource: Resource,
        owner: NodeId,
        ttl: Duration,
    ) -> Result<Option<Lease>, CatalogError> {
        // Users are copied from the other region; a node may note those that it has before.
        if resource != Resource::Access && self.is_follower.load(Relaxed) {
            return Ok(None);
        }
        self.pool.run(Access::Write, async |client| {
            if !region::is_held(client).await? {
                return Ok(None);
            }
            leases::acquire(client, resource, owner, ttl).await
        })
    }

    fn release(&self, lease: &Lease) -> Result<(), CatalogError> {
        self.pool.run(Access::Write, async |client| leases::release(client, lease).await)
    }

    fn partition(&self, lease: &Lease) -> Result<PartitionState, CatalogError> {
        self.pool.run(Access::Write, async |client| publishing::partition(client, lease).await)
    }

    fn publish(&self, lease: &Lease, publication: &Publication) -> Result<(), CatalogError> {
        self.changeable()?;
        self.pool.run(Access::Write, async |client| {
            publishing::publish(client, lease, publication).await
        })
    }

    fn replace(
        &self,
        lease: &Lease,
        replaced: &[String],
        by: Option<&SegmentRow>,
    ) -> Result<(), CatalogError> {
        self.changeable()?;
        self.pool.run(Access::Write, async |client| {
            publishing::replace(client, lease, replaced, by).await
        })
    }

    fn snapshot(&self, times: TimeRange, segments_max: usize) -> Result<Snapshot, CatalogError> {
        self.pool
            .run(Access::Read, async |client| segments::snapshot(client, times, segments_max).await)
    }

    fn segments_of(
        &self,
        partition: u32,
        from: u64,
        max: usize,
    ) -> Result<Vec<SegmentRow>, CatalogError> {
        self.pool.run(Access::Read, async |client| {
            segments::segments_of(client, partition, from, max).await
        })
    }

    fn unsearched(
        &self,
        partition: u32,
        wanted: &Unsearched,
        from: u64,
        max: usize,
    ) -> Result<Vec<SegmentRow>, CatalogError> {
        self.pool.run(Access::Read, async |client| {
            segments::unsearched(client, partition, wanted, from, max).await
        })
    }

    fn holding(
        &self,
        node: NodeId,
        sequence: u64,
        max: usize,
    ) -> Result<Vec<SegmentRow>, CatalogError> {
        self.pool
            .run(Access::Read, async |client| segments::holding(client, node, sequence, max).await)
    }

    fn delete(&self, filter: &str, ends: &[u64]) -> Result<DeletionRow, CatalogError> {
        self.changeable()?;
        self.pool.run(Access::Write, async |client| deletions::add(client, filter, ends).await)
    }

    fn deletions(&self) -> Result<Deletions, CatalogError> {
        self.pool.run(Access::Read, async |client| deletions::all(client).await)
    }

    fn cancel_deletion(&self, id: u64) -> Result<bool, CatalogError> {
        self.changeable()?;
        self.pool.run(Access::Write, async |client| deletions::cancel(client, id).await)
    }

    fn end_deletions(&self, lease: &Lease) -> Result<u64, CatalogError> {
        self.pool.run(Access::Write, async |client| deletions::end(client, lease).await)
    }

    fn note_searched(
        &self,
        lease: &Lease,
        names: &[String],
        searched: u64,
        rules: u64,
    ) -> Result<(), CatalogError> {
        self.pool.run(Access::Write, async |client| {
            deletions::note_searched(client, lease, names, searched, rules).await
        })
    }

    fn rewrite(
        &self,
        lease: &Lease,
        replaced: &str,
        by: Option<&SegmentRow>,
        deleted: &[(u64, u64)],
    ) -> Result<(), CatalogError> {
        self.changeable()?;
        self.pool.run(Access::Write, async |client| {
            publishing::replace(client, lease, &[replaced.to_owned()], by).await?;
            deletions::count(client, deleted).await
        })
    }

    fn older_than(&self, age: Duration, max: usize) -> Result<Vec<SegmentRow>, CatalogError> {
        self.pool.run(Access::Read, async |client| segments::older_than(client, age, max).await)
    }

    fn totals(&self) -> Result<Totals, CatalogError> {
        self.pool.run(Access::Read, async |client| segments::totals(client).await)
    }

    fn hold(&self, holder: &str, ttl: Duration) -> Result<(), CatalogError> {
        self.pool.run(Access::Write, async |client| segments::hold(client, holder, ttl).await)
    }

    fn let_go(&self, holder: &str) -> Result<(), CatalogError> {
        self.pool.run(Access::Write, async |client| segments::let_go(client, holder).await)
    }

    fn retired(&self, grace: Duration, max: usize) -> Result<Vec<String>, CatalogError> {
        self.pool.run(Access::Read, async |client| segments::retired(client, grace, max).await)
    }

    fn forget(&self, names: &[String]) -> Result<(), CatalogError> {
        self.pool.run(Access::Write, async |client| segments::forget(client, names).await)
    }

    fn orphans(
        &self,
        objects: &[ObjectInfo],
        grace: Duration,
    ) -> Result<Vec<String>, CatalogError> {
        self.pool.run(Access::Read, async |client| segments::orphans(client, objects, grace).await)
    }

    fn marks(&self, prefix: &str) -> Result<Vec<Mark>, CatalogError> {
        self.pool.run(Access::Read, async |client| marks::read(client, prefix).await)
    }

    fn put_mark(&self, lease: &Lease, name: &str, body: Option<&[u8]>) -> Result<(), CatalogError> {
        self.pool.run(Access::Write, async |client| marks::put(client, lease, name, body).await)
    }
}

/// A number as the database has it; it has no unsigned ones.
fn signed(number: u64) -> Result<i64, CatalogError> {
    let refused = || CatalogError::Refused(format!("{number} is more than the catalog can store"));
    i64::try_from(number).map_err(|_| refused())
}

/// The inverse of [`signed`]; a negative number is damage, and becomes 0.
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// A duration in microseconds, the unit of the database's clock.
fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
