//! The state of a group as bytes, for the next start.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::alert::Alert;
use crate::evaluation::RuleState;

/// The version of the format.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Snapshot {
    version: u32,
    /// The alerts of each rule, by its id.
    rules: BTreeMap<String, Vec<Alert>>,
}

/// The states of rules, by the id of each, as JSON.
pub fn write<'a>(rules: impl Iterator<Item = (&'a str, &'a RuleState)>) -> Vec<u8> {
    let rules = rules.map(|(id, state)| (id.to_owned(), state.alerts().cloned().collect()));
    let rules = rules.filter(|(_, alerts): &(String, Vec<Alert>)| !alerts.is_empty());
    let snapshot = Snapshot { version: VERSION, rules: rules.collect() };
    // Maps with texts as keys can be written.
    serde_json::to_vec(&snapshot).unwrap_or_default()
}

/// Reads what [`write()`] wrote.
pub fn read(bytes: &[u8]) -> Result<BTreeMap<String, RuleState>, String> {
    let snapshot: Snapshot = serde_json::from_slice(bytes)
        .map_err(|error| format!("the state of the alerts cannot be read: {error}"))?;
    if snapshot.version != VERSION {
        return Err(format!(
            "the state of the alerts has version {}, and this program reads version {VERSION}",
            snapshot.version
        ));
    }
    let rules = snapshot.rules.into_iter().map(|(id, alerts)| (id, RuleState::new(alerts)));
    Ok(rules.collect())
}
