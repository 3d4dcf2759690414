//! The servers of a run: started here, or already running elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::servers::{self, Home, Running, Say, ServerError};

/// A store that answers.
#[derive(Debug, Clone)]
pub struct Up {
    /// Where.
    pub endpoints: Vec<String>,
    /// Options that its driver takes from its servers.
    pub options: BTreeMap<String, String>,
    /// What the lab set in its configuration; nothing of servers that were started by others.
    pub configuration: Vec<String>,
    /// Its directories on this machine; none of servers that were started by others.
    pub data: Vec<PathBuf>,
    /// Whether this call started it without the data that it held before.
    pub lost_data: bool,
    running: Option<Running>,
}

impl Up {
    /// Its processes on this machine at this moment; none of servers that were started by others.
    pub fn pids(&self) -> Vec<u32> {
        self.running.as_ref().map(Running::pids).unwrap_or_default()
    }
}

/// Starts and stops the servers of a run.
pub struct Fleet {
    home: Home,
    external: BTreeMap<String, Vec<String>>,
    settings: BTreeMap<String, BTreeMap<String, String>>,
    up: BTreeMap<String, (u32, Up)>,
    /// Stores that were asked to start: a start that was cut off may have left processes.
    begun: BTreeSet<String>,
    say: Say,
}

impl Fleet {
    /// Servers live in `home`. `external` has the endpoints of stores that run already, by their
    /// names; `settings` the options of the servers that are started here.
    pub fn new(
        home: Home,
        external: BTreeMap<String, Vec<String>>,
        settings: BTreeMap<String, BTreeMap<String, String>>,
        say: Say,
    ) -> Fleet {
        Fleet { home, external, settings, up: BTreeMap::new(), begun: BTreeSet::new(), say }
    }

    /// The store with as many nodes; started if it does not run. Of servers that others started,
    /// the number of nodes is theirs.
    pub async fn up(&mut self, store: &str, nodes: u32) -> Result<Up, ServerError> {
        if let Some(endpoints) = self.external.get(store) {
            return Ok(Up {
                endpoints: endpoints.clone(),
                options: BTreeMap::new(),
                configuration: Vec::new(),
                data: Vec::new(),
                lost_data: false,
                running: None,
            });
        }
        if let Some((size, up)) = self.up.get(store) {
            let whole = up.running.as_ref().is_none_or(|running| running.check(&self.home).is_ok());
            if *size == nodes && whole {
                return Ok(Up { lost_data: false, ..up.clone() });
            }
            self.down(store).await?;
        }
        let given = self.settings.get(store).cloned().unwrap_or_default();
        self.begun.insert(store.to_owned());
        let running = servers::start(&self.home, store, nodes, &given, &self.say).await?;
        let spec = running.spec();
        let up = Up {
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

    /// Stops a store and removes its data; not those that others started.
    pub async fn wipe(&mut self, store: &str) -> Result<(), ServerError> {
        self.up.remove(store);
        self.begun.remove(store);
        if self.external.contains_key(store) {
            return Ok(());
        }
        servers::wipe(&self.home, store, &self.say).await
    }

    /// Stops a store; its data stays.
    pub async fn down(&mut self, store: &str) -> Result<(), ServerError> {
        self.up.remove(store);
        match self.begun.remove(store) {
            true => servers::stop(&self.home, store, &self.say).await,
            false => Ok(()),
        }
    }

    /// Stops all that were started here; the first error is told, after all were asked.
    pub async fn down_all(&mut self) -> Result<(), ServerError> {
        let mut outcome = Ok(());
        for store in self.begun.clone() {
            outcome = outcome.and(self.down(&store).await);
        }
        outcome
    }
}
