//! Documents of the catalog: as the node that runs programs and sinks keeps them, and one that
//! every node may change.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use cluster::{Catalog, Lease, Resource};

use super::Engines;
use crate::data_dir::{Documents, ListedDocument, SharedDocument};

/// The marks whose names begin with a prefix.
pub struct Marks {
    engines: Arc<Engines>,
    lease: Option<Lease>,
    prefix: &'static str,
}

impl Marks {
    /// What is pending, and the runs over the past.
    pub const STATE: &str = "state/";
    /// Programs that were saved over the API.
    pub const PROGRAMS: &str = "programs/";
    /// Dashboards of the page.
    pub const DASHBOARDS: &str = "dashboards/";
    /// Short links to views of the page.
    pub const LINKS: &str = "links/";
    /// Rule files of alerts that were saved over the API.
    pub const ALERT_RULES: &str = "alert-rules/";
    /// States of alerts, and silences.
    pub const ALERTS: &str = "alerts/";
    /// Receivers of alerts that were made over the API, with their secrets.
    pub const RECEIVERS: &str = "receivers/";
    /// Cursors of sinks.
    pub const SINKS: &str = "sinks/";

    /// The marks of a prefix. They can be changed under the lease alone, as long as it holds; if
    /// none is given, under that with which programs and sinks run on this node at the time.
    pub fn new(engines: &Arc<Engines>, lease: Option<Lease>, prefix: &'static str) -> Marks {
        Marks { engines: Arc::clone(engines), lease, prefix }
    }

    fn put(&self, name: &str, body: Option<&[u8]>) -> io::Result<()> {
        let lease = self.lease.or_else(|| self.engines.work_lease());
        let lease = lease.ok_or(io::ErrorKind::PermissionDenied)?;
        let name = format!("{}{name}", self.prefix);
        self.engines.catalog.put_mark(&lease, &name, body).map_err(io::Error::other)
    }

    fn all(&self, prefix: &str) -> io::Result<Vec<(String, Vec<u8>)>> {
        self.engines.catalog.marks(prefix).map_err(io::Error::other)
    }
}

impl Documents for Marks {
    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let name = format!("{}{name}", self.prefix);
        let marks = self.all(&name)?;
        Ok(marks.into_iter().find(|(found, _)| *found == name).map(|(_, body)| body))
    }

    fn replace(&self, name: &str, body: &[u8]) -> io::Result<()> {
        self.put(name, Some(body))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.put(name, None)
    }

    fn list(&self, bytes_max: usize) -> io::Result<Vec<ListedDocument>> {
        let marks = self.all(self.prefix)?;
        let listed = marks.into_iter().map(|(name, mut body)| {
            body.truncate(bytes_max.saturating_add(1));
            (name[self.prefix.len()..].to_owned(), Ok(body))
        });
        Ok(listed.collect())
    }

    fn place(&self, name: &str) -> String {
        format!("the catalog of the cluster (table marks, {}{name})", self.prefix)
    }
}

/// The mark with the users and tokens of the cluster.
const ACCESS: &str = "access/users-and-tokens.json";
/// How long a node may change it at a time: longer than two calls of the catalog.
const ACCESS_LEASE: Duration = Duration::from_secs(90);
/// How often a node tries that finds another one at it.
const ACCESS_TRIES: u32 = 50;
/// The pause between two tries.
const ACCESS_PAUSE: Duration = Duration::from_millis(200);

/// The users and tokens of the cluster. Any node changes them, one at a time.
pub struct SharedAccess {
    engines: Arc<Engines>,
}

impl SharedAccess {
    /// Those of the catalog that the engines reach.
    pub fn new(engines: &Arc<Engines>) -> SharedAccess {
        SharedAccess { engines: Arc::clone(engines) }
    }

    fn lease(&self) -> io::Result<Lease> {
        let Engines { catalog, info, .. } = &*self.engines;
        for _ in 0..ACCESS_TRIES {
            let lease = catalog.acquire(Resource::Access, info.node, ACCESS_LEASE);
            if let Some(lease) = lease.map_err(io::Error::other)? {
                return Ok(lease);
            }
            std::thread::sleep(ACCESS_PAUSE);
        }
        Err(io::Error::other(
            "another node changes users and tokens, or died while it did; try again in a minute",
        ))
    }
}

impl SharedDocument for SharedAccess {
    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        let marks = self.engines.catalog.marks(ACCESS).map_err(io::Error::other)?;
        Ok(marks.into_iter().find(|(name, _)| name == ACCESS).map(|(_, body)| body))
    }

    fn change(&self, change: &mut dyn FnMut(Option<Vec<u8>>) -> Option<Vec<u8>>) -> io::Result<()> {
        let lease = self.lease()?;
        let catalog = &self.engines.catalog;
        let done = self.read().and_then(|present| match change(present) {
            None => Ok(()),
            Some(body) => catalog.put_mark(&lease, ACCESS, Some(&body)).map_err(io::Error::other),
        });
        // One that stays expires.
        if let Err(error) = catalog.release(&lease) {
            tracing::warn!("{error}; users and tokens can be changed again in a minute");
        }
        done
    }
}
