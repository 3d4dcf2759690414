//! Schedules by which dashboards are sent by mail, and what became of them.
//!
//! They stand beside their dashboard, in a document of their own (`mails.ID`): whoever saves a
//! dashboard does not touch them, those of a provided dashboard can be kept too, and backups have
//! both. The name has no `.json`, so it is none of a dashboard.
//!
//! When a schedule is due, and what is sent, is decided elsewhere (`api/src/dashboards/mails/`).

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use serde::{Deserialize, Serialize};

use super::dashboards::{Dashboards, file_name};
use super::documents::DocumentError;

/// Schedules of one dashboard.
///
/// limits.md, Dashboards by mail: schedules of one dashboard | {} | a further one is refused
pub const SCHEDULES_MAX: usize = 20;
/// Bytes of the schedules of one dashboard.
const BYTES_MAX: usize = 1 << 20;
/// The beginning of the name of their document.
const BEGIN: &str = "mails.";

/// How often a dashboard is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Every {
    /// Each day.
    Day,
    /// On some days of each week.
    Week,
    /// On a day of each month.
    Month,
}

/// What a user chose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// The receiver of alerts by whose mail server it is sent.
    pub receiver: String,
    /// To whom it is sent; nobody: to the addresses of the receiver.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// How often.
    pub every: Every,
    /// The hour, from 0 to 23, and the minute.
    pub hour: u8,
    /// See [`hour`](Self::hour).
    #[serde(default)]
    pub minute: u8,
    /// Of a week, the days: 1 is Monday, 7 is Sunday.
    #[serde(default)]
    pub weekdays: Vec<u8>,
    /// Of a month, the day from 1 to 31; a shorter month has it on its last day.
    #[serde(default)]
    pub month_day: Option<u8>,
    /// The IANA name of the time zone, such as `Europe/Berlin`.
    pub zone: String,
    /// How long a time before it is shown, such as `24h`.
    pub range: String,
    /// The chosen values of variables, by name; none for all.
    #[serde(default)]
    pub variables: BTreeMap<String, Vec<String>>,
}

/// With whose rights it is evaluated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// The user or token that made it; none where nobody needs to log in.
    pub name: Option<String>,
    /// The tenant whose dashboard it is, as `ACCOUNT:PROJECT`; none: that of all.
    #[serde(default)]
    pub tenant: Option<String>,
}

/// A schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Names it among those of its dashboard.
    pub id: String,
    /// With whose rights.
    pub owner: Owner,
    /// What was chosen.
    pub wanted: Wanted,
    /// What became of it.
    #[serde(default)]
    pub state: State,
}

/// What became of a schedule. Times are in seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// Due times up to here are done: sent, given up, or left out.
    pub done_s: i64,
    /// When it was sent last.
    pub sent_s: Option<i64>,
    /// Why the last attempt failed; none since the last success.
    pub error: Option<String>,
    /// When that was.
    pub error_s: Option<i64>,
    /// What the last mail lacked or left out, a sentence each.
    pub notes: Vec<String>,
}

impl Dashboards {
    /// The schedules of a dashboard.
    pub fn mails(&self, id: &str) -> Result<Vec<Schedule>, DocumentError> {
        self.get(id)?;
        self.read_mails(id)
    }

    fn read_mails(&self, id: &str) -> Result<Vec<Schedule>, DocumentError> {
        Ok(self.kept.read(&mails_name(id)?)?.unwrap_or_default())
    }

    /// Changes the schedules of a dashboard.
    ///
    /// # Errors
    /// There is no such dashboard, `change` refuses, or they cannot be kept; nothing changed then.
    pub fn change_mails<T>(
        &self,
        id: &str,
        change: impl FnOnce(&mut Vec<Schedule>) -> Result<T, DocumentError>,
    ) -> Result<T, DocumentError> {
        let _guard = self.kept.changing();
        self.get(id)?;
        let mut all = self.read_mails(id)?;
        let done = change(&mut all)?;
        self.mails_changes.fetch_add(1, Relaxed);
        if all.len() > SCHEDULES_MAX {
            return Err(DocumentError::Full(SCHEDULES_MAX));
        }
        if all.is_empty() {
            self.remove_mails(id)?;
        } else if !self.kept.write(&mails_name(id)?, &all, BYTES_MAX)? {
            let why = "the schedules of a dashboard have at most 1 MiB together";
            return Err(DocumentError::Invalid(why.to_owned()));
        }
        Ok(done)
    }

    /// The dashboards that have schedules, by id. Documents that are damaged are left out, and
    /// logged.
    pub fn all_mails(&self) -> Result<Vec<(String, Vec<Schedule>)>, DocumentError> {
        let mut found = Vec::new();
        for (name, body) in self.kept.list_of(BEGIN, BYTES_MAX)? {
            let Some(id) = name.strip_prefix(BEGIN) else { continue };
            let read = body.and_then(|body| Ok(serde_json::from_slice(&body)?));
            match read {
                Ok(schedules) => found.push((id.to_owned(), schedules)),
                Err(error) => tracing::warn!("{}: {error}", self.kept.place(&name)),
            }
        }
        Ok(found)
    }

    /// A number that is another one once schedules changed here.
    pub fn mails_changes(&self) -> u64 {
        self.mails_changes.load(Relaxed)
    }

    /// Forgets the schedules of a dashboard.
    pub(super) fn remove_mails(&self, id: &str) -> Result<(), DocumentError> {
        self.mails_changes.fetch_add(1, Relaxed);
        Ok(self.kept.remove(&mails_name(id)?)?)
    }
}

fn mails_name(id: &str) -> Result<String, DocumentError> {
    let name = file_name(id)?;
    Ok(format!("{BEGIN}{}", name.strip_suffix(".json").unwrap_or(&name)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::data_dir::DocumentFolder;

    fn schedule(id: &str) -> Schedule {
        Schedule {
            id: id.to_owned(),
            owner: Owner { name: Some("ann".to_owned()), tenant: None },
            wanted: serde_json::from_value(json!({
                "receiver": "ops", "every": "day", "hour": 7, "zone": "Europe/Berlin", "range": "24h",
            }))
            .unwrap(),
            state: State::default(),
        }
    }

    #[test]
    fn schedules_stand_beside_their_dashboard_and_go_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let open = || Dashboards::new(Arc::new(DocumentFolder::new(directory.path())), None);
        let dashboards = open();
        assert!(matches!(dashboards.mails("web"), Err(DocumentError::NotFound(_))));
        let body =
            |version: u64| json!({"title": "Web", "version": version, "panels": []}).to_string();
        dashboards.save("web", &body(0)).unwrap();
        assert_eq!(dashboards.mails("web").unwrap(), []);
        let add = |id: &str| {
            dashboards.change_mails("web", |all| {
                all.push(schedule(id));
                Ok(())
            })
        };
        add("a").unwrap();
        // Saving the dashboard keeps them, and they are no dashboard.
        dashboards.save("web", &body(1)).unwrap();
        assert_eq!(open().list().unwrap().len(), 1);
        assert_eq!(open().all_mails().unwrap(), [("web".to_owned(), vec![schedule("a")])]);
        for number in 1..SCHEDULES_MAX {
            add(&number.to_string()).unwrap();
        }
        assert!(matches!(add("more"), Err(DocumentError::Full(SCHEDULES_MAX))));
        assert_eq!(open().mails("web").unwrap().len(), SCHEDULES_MAX);
        std::fs::write(directory.path().join("mails.other"), "{").unwrap();
        assert_eq!(open().all_mails().unwrap().len(), 1);
        dashboards.delete("web").unwrap();
        assert_eq!(open().all_mails().unwrap(), []);
    }
}
