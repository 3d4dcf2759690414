//! Backups of a cluster on engines: one moment of the catalog, and the objects of its segments.
//!
//! The catalog is read in one transaction. A hold in it keeps the objects of that moment until they
//! are sent, so the moment is whole, however long that takes. What is not published is not in the
//! backup: Kafka has it, and the restored cluster reads on there.
//!
//! Left out: the data directories of nodes, Kafka.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use cluster::engines::objects::Bucket;
use cluster::engines::postgres::{Dump, DumpedSegment, PgCatalog, PgSettings};
use cluster::{Catalog, OBJECT_PREFIX, ObjectBody, ObjectError, Objects};

use super::engines::{EngineOptions, Engines};
use crate::storage::backup::destination::{
    CLUSTER_CATALOG, Contents, Destination, Heading, Part, PiecesBody, Progress, Sent, send_parts,
};
use crate::storage::backup::schedule::SendBackup;

/// Time of one call of the catalog that reads or writes all of it.
const CATALOG_TIME_MAX: Duration = Duration::from_secs(1_800);
/// How long objects are kept after the last sign of life of a backup.
const HOLD: Duration = Duration::from_secs(3_600);
/// How often the hold is prolonged.
const HOLD_TICK: Duration = Duration::from_secs(60);
/// The first line of the rows of a catalog.
const HEAD: &str = "loginson cluster catalog 1";

/// The backups of the cluster that this node is part of.
#[derive(Default)]
pub struct ClusterBackups {
    engines: OnceLock<Arc<Engines>>,
}

impl ClusterBackups {
    /// From now on backups can be made.
    pub fn set(&self, engines: &Arc<Engines>) {
        let _ = self.engines.set(Arc::clone(engines));
    }
}

impl SendBackup for ClusterBackups {
    fn by(&self) -> String {
        let node = self.engines.get().map(|engines| engines.info.node);
        format!("node {} of the cluster", node.map_or_else(String::new, |node| node.to_string()))
    }

    fn send(
        &self,
        destination: &Destination,
        name: &str,
        _: i64,
        _: &Path,
        progress: &Progress,
    ) -> Result<Sent> {
        let engines =
            self.engines.get().context("the engines of the cluster are not reached yet")?;
        let catalog = PgCatalog::open(patient(&engines.config.catalog))?;
        let holder = format!("backup {name} by {}", engines.info.node);
        catalog.hold(&holder, HOLD)?;
        let sent =
            send(&catalog, engines.bucket(), destination, name, &holder, &self.by(), progress);
        // One that stays expires.
        if let Err(error) = catalog.let_go(&holder) {
            tracing::warn!("{error}; objects of deleted segments stay for {HOLD:?}");
        }
        sent
    }
}

/// The settings of a catalog for calls that take long.
pub(super) fn patient(settings: &PgSettings) -> PgSettings {
    PgSettings {
        connections_max: 2,
        statement_timeout: CATALOG_TIME_MAX,
        call_timeout: CATALOG_TIME_MAX,
        ..settings.clone()
    }
}

fn send(
    catalog: &PgCatalog,
    bucket: &Arc<Bucket>,
    destination: &Destination,
    name: &str,
    holder: &str,
    by: &str,
    progress: &Progress,
) -> Result<Sent> {
    let dump = catalog.dump()?;
    let heading = Heading { name, created_ns: dump.created_ns, store: dump.cluster, by };
    let mut held = Instant::now();
    let mut prolong = || -> Result<()> {
        if held.elapsed() < HOLD_TICK {
            return Ok(());
        }
        match catalog.hold(holder, HOLD) {
            Ok(()) => held = Instant::now(),
            // The objects stay for long enough to try again.
            Err(error) if held.elapsed() < HOLD / 2 => {
                tracing::warn!("{error}; the backup goes on, and tries again");
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    };
    send_parts(destination, &heading, parts(&dump, bucket), &mut prolong, progress)
}

/// The rows of a catalog, and the objects of its segments.
fn parts(dump: &Dump, bucket: &Arc<Bucket>) -> Vec<Part<'static>> {
    let part = |DumpedSegment { name, bytes, lines }: &DumpedSegment| {
        let body = StoredObject { bucket: Arc::clone(bucket), name: name.clone(), bytes: *bytes };
        Part { name: name.clone(), lines: Some(*lines), body: Box::new(body) }
    };
    let mut parts: Vec<Part<'static>> = dump.segments.iter().map(part).collect();
    let rows = Box::new(encode(&dump.rows));
    parts.push(Part { name: CLUSTER_CATALOG.to_owned(), lines: None, body: rows });
    parts
}

/// Rows as text: a line for each, of the table and of JSON, which has no newlines.
fn encode(rows: &[(String, String)]) -> Vec<u8> {
    let mut text = format!("{HEAD}\n");
    for (table, row) in rows {
        text.push_str(&format!("{table} {row}\n"));
    }
    text.into_bytes()
}

fn decode(text: &str) -> Result<Vec<(String, String)>> {
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    ensure!(
        head == HEAD,
        "the rows of the catalog begin with '{}', and this program reads '{HEAD}': use the release of Loginson that made the \
         backup",
        head.escape_default()
    );
    let row = |line: &str| {
        let (table, row) = line.split_once(' ').context("a row of the catalog is damaged")?;
        Ok((table.to_owned(), row.to_owned()))
    };
    lines.map(row).collect()
}

/// An object of the bucket.
pub(super) struct StoredObject {
    pub bucket: Arc<Bucket>,
    pub name: String,
    pub bytes: u64,
}

impl ObjectBody for StoredObject {
    fn size(&self) -> u64 {
        self.bytes
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            let at = offset + filled as u64;
            let read = Objects::read_range(&*self.bucket, &self.name, at, &mut buffer[filled..]);
            match read.map_err(io::Error::other)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => filled += count,
            }
        }
        Ok(())
    }
}

/// Fills an empty bucket and an empty database with a backup. One that broke off resumes: objects
/// that are there stay, and the database is filled last, in one transaction.
///
/// Errors: the bucket has other objects, or the database something of a cluster; an engine or the
/// place does not answer; a piece is damaged.
pub fn restore(
    options: &EngineOptions,
    destination: &Destination,
    contents: &Contents,
    progress: &Progress,
) -> Result<()> {
    let bucket = Bucket::new(options.objects.clone()).context("cluster.objects")?;
    let catalog = PgCatalog::open(patient(&options.catalog))?;
    ensure!(
        catalog.is_new()?,
        "the database of cluster.postgresql is not new: it has segments, nodes or programs of a cluster; restore into an empty \
         database"
    );
    progress.bytes_total.store(contents.bytes, Relaxed);
    refuse_others(&bucket, contents)?;
    let mut rows = None;
    for file in &contents.files {
        let body = PiecesBody::new(destination, file);
        let is_catalog = file.file == CLUSTER_CATALOG;
        if is_catalog {
            let mut text = vec![0; usize::try_from(file.bytes)?];
            body.read_exact_at(0, &mut text)?;
            let text = String::from_utf8(text).context("the rows of the catalog are damaged")?;
            rows = Some(decode(&text)?);
        } else {
            put(&bucket, &file.file, &body)?;
        }
        progress.bytes_done.fetch_add(file.bytes, Relaxed);
    }
    let rows = rows.context("the backup is of a data directory, and not of a cluster")?;
    Ok(catalog.restore(&rows)?)
}

/// Segments of another cluster would be deleted as orphans, or taken for those of the backup.
fn refuse_others(bucket: &Bucket, contents: &Contents) -> Result<()> {
    let known: std::collections::HashSet<&str> =
        contents.files.iter().map(|file| file.file.as_str()).collect();
    let mut after: Option<String> = None;
    loop {
        let page = Objects::list(bucket, OBJECT_PREFIX, after.as_deref(), 1_000)?;
        if let Some(other) = page.iter().find(|info| !known.contains(info.name.as_str())) {
            bail!(
                "the bucket of cluster.objects is not empty: it has {}, which is not of the backup; restore into an empty bucket",
                other.name
            );
        }
        match page.last() {
            Some(last) if page.len() == 1_000 => after = Some(last.name.clone()),
            _ => return Ok(()),
        }
    }
}

fn put(bucket: &Bucket, name: &str, body: &PiecesBody<'_>) -> Result<()> {
    match Objects::size(bucket, name) {
        Ok(bytes) if bytes == body.size() => return Ok(()),
        // It broke off while this one was written.
        Ok(_) => Objects::delete(bucket, name)?,
        Err(ObjectError::Missing(_)) => {}
        Err(error) => return Err(error.into()),
    }
    match Objects::put_new(bucket, name, body) {
        Ok(()) => Ok(()),
        // The answer to an earlier attempt was lost.
        Err(ObjectError::Exists(_)) => {
            let found = Objects::size(bucket, name)?;
            ensure!(
                found == body.size(),
                "somebody else writes to the bucket of cluster.objects: its object {name} has {found} bytes, expected {}",
                body.size()
            );
            Ok(())
        }
        Err(error) => Err(error).with_context(|| format!("cannot write {name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_from_their_text() {
        let rows = [("leases", "{}"), ("marks", r#"{"name":"a b","body":"\\x0a"}"#)];
        let rows: Vec<(String, String)> =
            rows.iter().map(|(table, row)| ((*table).to_owned(), (*row).to_owned())).collect();
        let text = String::from_utf8(encode(&rows)).unwrap();
        assert_eq!(decode(&text).unwrap(), rows);
        for wrong in ["", "loginson cluster catalog 9\n", &format!("{HEAD}\nleases\n")] {
            assert!(decode(wrong).is_err(), "{wrong}");
        }
    }
}
