//! The servers of a run: started here, or already running elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::servers::{Logs, Running, Say, ServerError, Servers};

/// A running store.
#[derive(Debug, Clone)]
pub struct RunningStore {
    /// Its addresses.
    pub endpoints: Vec<String>,
    /// Options that its driver needs for these servers.
    pub options: BTreeMap<String, String>,
    /// The configuration that the lab set; empty for external servers.
    pub configuration: Vec<String>,
    /// Its directories on this machine; none for external servers.
    pub data: Vec<PathBuf>,
    /// Whether this call started it without its earlier data.
    pub lost_data: bool,
    running: Option<Running>,
}

impl RunningStore {
    /// The processes that were started for its nodes on this machine.
    pub fn roots(&self) -> Vec<u32> {
        let nodes = self.running.iter().flat_map(|running| &running.nodes);
        nodes.map(|(_, process)| process.pid).collect()
    }
}

/// Starts and stops the servers of a run.
pub struct Fleet {
    servers: Servers,
    external: BTreeMap<String, Vec<String>>,
    settings: BTreeMap<String, BTreeMap<String, String>>,
    up: BTreeMap<String, (u32, RunningStore)>,
    /// Stores whose start was attempted: an interrupted start may have left processes.
    begun: BTreeSet<String>,
    say: Say,
}

impl Fleet {
    /// Servers that are started here are of `servers`. `external` has the endpoints of stores that
    /// run already, by name; `settings` has the options of servers that are started here.
    pub fn new(
        servers: Servers,
        external: BTreeMap<String, Vec<String>>,
        settings: BTreeMap<String, BTreeMap<String, String>>,
        say: Say,
    ) -> Fleet {
        Fleet { servers, external, settings, up: BTreeMap::new(), begun: BTreeSet::new(), say }
    }

    /// The options of the servers of a store that are started here; `None` for an external one.
    pub fn server_options(&self, store: &str) -> Option<BTreeMap<String, String>> {
        match self.external.contains_key(store) {
            true => None,
            false => Some(self.settings.get(store).cloned().unwrap_or_default()),
        }
    }

    /// Whether this fleet started the store, and its processes still run; true for an external one.
    pub fn runs(&self, store: &str) -> bool {
        let whole = |up: &RunningStore| {
            up.running.as_ref().is_none_or(|one| self.servers.check_alive(one).is_ok())
        };
        self.external.contains_key(store) || self.up.get(store).is_some_and(|(_, up)| whole(up))
    }

    /// Whether this fleet started the store, and its processes ended by themselves.
    pub fn has_died(&self, store: &str) -> bool {
        self.up.contains_key(store) && !self.runs(store)
    }

    /// The store with this number of nodes; started if it does not run. External servers determine
    /// their number themselves.
    pub async fn up(&mut self, store: &str, nodes: u32) -> Result<RunningStore, ServerError> {
        if let Some(endpoints) = self.external.get(store) {
            return Ok(RunningStore {
                endpoints: endpoints.clone(),
                options: BTreeMap::new(),
                configuration: Vec::new(),
                data: Vec::new(),
                lost_data: false,
                running: None,
            });
        }
        if let Some((size, up)) = self.up.get(store) {
            if *size == nodes && self.runs(store) {
                return Ok(RunningStore { lost_data: false, ..up.clone() });
            }
            self.down(store).await?;
        }
        let given = self.settings.get(store).cloned().unwrap_or_default();
        self.begun.insert(store.to_owned());
        let running = self.servers.start(store, nodes, &given, &self.say).await?;
        let spec = running.spec();
        let up = RunningStore {
            endpoints: spec.endpoints,
            options: spec.options,
            configuration: running.configuration(),
            data: running.data(),
            lost_data: !running.keeps_data,
            running: Some(running),
        };
        self.up.insert(store.to_owned(), (nodes, up.clone()));
        Ok(up)
    }

    /// Stops a store and removes its data, unless it is external.
    pub async fn wipe(&mut self, store: &str) -> Result<(), ServerError> {
        self.up.remove(store);
        if self.external.contains_key(store) {
            return Ok(());
        }
        self.servers.wipe(store, Logs::Keep, &self.say).await?;
        self.begun.remove(store);
        Ok(())
    }

    /// Stops a store; its data stays.
    pub async fn down(&mut self, store: &str) -> Result<(), ServerError> {
        self.up.remove(store);
        if self.begun.contains(store) {
            self.servers.stop(store, &self.say).await?;
            self.begun.remove(store);
        }
        Ok(())
    }

    /// Stops all stores that were started here; the first error is returned after all were tried.
    pub async fn down_all(&mut self) -> Result<(), ServerError> {
        let mut outcome = Ok(());
        for store in self.begun.clone() {
            outcome = outcome.and(self.down(&store).await);
        }
        outcome
    }
}
