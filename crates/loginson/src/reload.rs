//! Reads the settings again while the process runs, at SIGHUP or by a call.
//!
//! All or nothing: the whole configuration is read and checked first, and with any mistake in it
//! nothing changes. What cannot change while the process runs is named, and left as it is.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use api::access::audit_log::Entry;
use api::{App, Gate, Reloaded};
use node::ingest::rules::{RuleSet, Rules};
use node::lookups::Lookups;
use node::pipeline::Pipeline;
use node::process::log::one_line;

use crate::config::changes;
use crate::settings::{Loaded, Settings, hold};

/// The settings of this process, and what they can change.
pub struct Reloader {
    settings: Settings,
    start: Loaded,
    /// What holds now.
    now: Mutex<Loaded>,
    gate: Gate,
    /// The rules at ingest.
    rules: Arc<Rules>,
    lookups: Arc<Lookups>,
    /// Of a server; none in a collector.
    server: Option<(Weak<App>, Arc<Pipeline>)>,
}

impl Reloader {
    /// Of a process that started with these settings. Without a server, only users, tokens and
    /// rules at ingest change.
    pub fn new(
        settings: Settings,
        start: Loaded,
        gate: Gate,
        (rules, lookups): (Arc<Rules>, Arc<Lookups>),
        server: Option<(&Arc<App>, &Arc<Pipeline>)>,
    ) -> Reloader {
        let server = server.map(|(app, pipeline)| (Arc::downgrade(app), Arc::clone(pipeline)));
        Reloader { settings, now: Mutex::new(start.clone()), start, gate, rules, lookups, server }
    }

    /// Reads the settings and applies them. The log says what changed, or why nothing did.
    pub fn reload(&self) -> Result<Reloaded, String> {
        let reloaded = self.try_reload();
        match &reloaded {
            Ok(reloaded) => {
                let changed = match reloaded.changed.is_empty() {
                    true => "nothing changed".to_owned(),
                    false => reloaded.changed.join("; "),
                };
                tracing::info!("the settings were read again: {changed}");
                if let Some(audit) = self.gate.audit() {
                    let message = format!("the settings were read again: {changed}");
                    audit.add(Entry::new("change", &message));
                }
                if !reloaded.needs_restart.is_empty() {
                    let keys = reloaded.needs_restart.join(", ");
                    tracing::warn!("changed settings that hold after a restart only: {keys}");
                }
            }
            Err(why) => {
                // The new ones held while the rest was checked.
                let now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
                hold(&now.raw);
                tracing::error!("{why}");
            }
        }
        reloaded
    }

    fn try_reload(&self) -> Result<Reloaded, String> {
        let refused = |why: &str| format!("the settings stay as they were: {why}");
        // Held throughout, so that two calls do not mix.
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = self.settings.load().map_err(|error| refused(&one_line(&error)))?;
        if let Some(why) = self.gate.refusal(&fresh.config.api.access) {
            return Err(refused(&why));
        }
        let retention = fresh.config.retention_since(&self.start.config);
        // Counts go on under the same names.
        let lookups = self.lookups.read(&fresh.config.node.lookups).map_err(|why| refused(&why))?;
        let rules = RuleSet::new(&fresh.config.node.rules, &self.rules.now(), Some(&lookups));
        let rules = rules.map_err(|why| refused(&why))?;
        let mut changed = Vec::new();
        let (was, is) = (&now.config.api.access, &fresh.config.api.access);
        changes::of_access(was, is, &mut changed);
        if self.server.is_some() {
            changes::of_settings(&now.raw, &fresh.raw, &mut changed);
        } else {
            changes::of_rules(&now.raw, &fresh.raw, &mut changed);
        }
        let needs_restart = changes::needs_restart(&self.start.raw, &fresh.raw);
        if let Some((_, pipeline)) = &self.server {
            pipeline.set_retention(retention).map_err(|error| refused(&one_line(&error)))?;
        }
        // Nothing below can fail.
        self.gate.set_access(is);
        self.lookups.set(lookups);
        self.rules.set(rules);
        if let Some(app) = self.server.as_ref().and_then(|(app, _)| app.upgrade()) {
            let mut query = fresh.config.api.query;
            // It is a setting of the store, which changes by a restart.
            query.background.disk_free_bytes_min = self.start.config.node.store.disk_free_bytes_min;
            app.set_query_options(query);
        }
        *now = fresh;
        Ok(Reloaded { changed, needs_restart })
    }
}
