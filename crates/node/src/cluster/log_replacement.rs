//! Has a cluster go on with another Kafka, or with a topic that was made anew, when what the
//! earlier one had is lost.
//!
//! The offsets of the new log are counted on behind everything that the catalog knows of. So no
//! message of it is taken for one that is published already, or for one that a deletion covers.

use anyhow::{Context, Result, anyhow, ensure};
use cluster::FrameLog;
use cluster::engines::kafka::Log;
use cluster::engines::postgres::PgCatalog;
use cluster::{Catalog, TimeRange};

use super::backup::patient;
use super::engines::{EngineOptions, connect_log};

/// What a cluster goes on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// Partitions of the new log.
    pub partitions: u32,
    /// Messages that it has already, which will be read.
    pub messages: u64,
}

/// Has the cluster go on with the log that `engines` names. What another one had and was not
/// published is given up.
///
/// Errors: the log has everything that was published; stores or query nodes run; an engine cannot
/// be reached; the region follows another one.
pub fn replace_log(engines: &EngineOptions) -> Result<Replaced> {
    let own = PgCatalog::open(patient(&engines.catalog)).context("cluster.postgresql")?;
    ensure!(
        own.follows()?.is_none(),
        "this region follows another one, and reads no log; `loginson cluster promote` has it go on with its own"
    );
    let log = connect_log(&engines.kafka).map_err(|error| anyhow!(error))?;
    let topic = log.topic_id()?.context(
        "the brokers tell no id of the topic, so that an earlier one cannot be told from it; Kafka does from 2.8 on",
    )?;
    let is_other = own.log_topic()?.is_some_and(|known| known != topic);
    log.set_bases(own.log_bases()?);
    ensure!(
        is_other || went_back(&own, &log)?,
        "cluster.kafka is the log of this cluster, and has everything that was published: there is nothing to replace"
    );
    let (bases, messages) = bases(&own, &log)?;
    own.replace_log(&topic, &bases, engines.lease)?;
    Ok(Replaced { partitions: u32::try_from(bases.len()).unwrap_or(u32::MAX), messages })
}

/// Whether a partition ends before what is published.
fn went_back(own: &PgCatalog, log: &Log) -> Result<bool> {
    let none = TimeRange { first_ns: i64::MAX, last_ns: i64::MIN };
    let rows = own.snapshot(none, 0)?.partitions;
    let ends = FrameLog::ends(log)?;
    let end = |partition: u32| ends.get(partition as usize).copied().unwrap_or(0);
    Ok(rows.iter().any(|row| end(row.partition) < row.offset))
}

/// What has to be added to the offsets of each partition of a log, so that it goes on behind
/// everything that a catalog knows of; and the messages that it has.
pub(super) fn bases(own: &PgCatalog, log: &Log) -> Result<(Vec<i64>, u64)> {
    let next = own.log_next(log.partitions()?)?;
    let mut messages = 0;
    let base = |(partition, next): (u32, u64)| {
        let stored = log.bounds(partition)?;
        messages += stored.end - stored.start;
        let base = i64::try_from(i128::from(next) - i128::from(stored.start));
        base.context("an offset is beyond all that Kafka counts")
    };
    let bases = (0..).zip(next).map(base).collect::<Result<_>>()?;
    Ok((bases, messages))
}
