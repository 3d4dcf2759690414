//! Silences: alerts that are not to be notified for a while, by their labels.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use text::duration::ns;

use crate::labels::{Labels, cut};
use crate::matcher::Matcher;

/// Silences that are kept; a new one beyond is refused.
///
/// limits.md, Alerts: silences; matchers of one; regular expression of one | {}; {MATCHERS_MAX}; 1
/// MiB when compiled | a new one is refused
const SILENCES_MAX: usize = 1_000;
/// Matchers of a silence.
const MATCHERS_MAX: usize = 32;
/// Bytes of comment and author; the rest is cut off.
const TEXT_BYTES_MAX: usize = 1 << 10;
/// How the comment of a silence begins by which somebody says to work on an alert.
const ACKNOWLEDGED: &str = "Acknowledged";
/// How long a silence is kept once it ended, as in Alertmanager.
const ENDED_KEPT: Duration = Duration::from_secs(5 * 24 * 3600);

/// A silence, which serialises as in Alertmanager's API. An alert is silenced if all matchers
/// match.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Silence {
    /// Its id; empty for a new one.
    #[serde(default)]
    pub id: String,
    /// Which alerts.
    pub matchers: Vec<Matcher>,
    /// From when, in nanoseconds since 1970.
    #[serde(rename = "startsAt", with = "crate::time::rfc3339")]
    pub starts_at_ns: i64,
    /// Until when, in nanoseconds since 1970.
    #[serde(rename = "endsAt", with = "crate::time::rfc3339")]
    pub ends_at_ns: i64,
    /// Who made it.
    #[serde(default)]
    pub created_by: String,
    /// Why.
    #[serde(default)]
    pub comment: String,
}

/// Why a silence was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum SilenceError {
    #[error("{0}")]
    Invalid(String),
    #[error("there are {SILENCES_MAX} silences already; end some, they are dropped 5 days later")]
    Full,
    #[error("there is no silence '{0}'")]
    NotFound(String),
}

/// All silences.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Silences(Vec<Silence>);

impl Silence {
    /// Whether it is in force at `now_ns`.
    pub fn is_active(&self, now_ns: i64) -> bool {
        self.starts_at_ns <= now_ns && now_ns < self.ends_at_ns
    }

    /// The state as Alertmanager names it: `pending`, `active` or `expired`.
    pub fn state(&self, now_ns: i64) -> &'static str {
        match () {
            () if now_ns >= self.ends_at_ns => "expired",
            () if now_ns < self.starts_at_ns => "pending",
            () => "active",
        }
    }
}

/// What covers an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Covered {
    /// At least one silence.
    Silenced,
    /// Silences by which people say that they work on it, and no other.
    Acknowledged,
}

impl Silences {
    /// All silences, the oldest first.
    pub fn all(&self) -> &[Silence] {
        &self.0
    }

    /// Takes a silence under `id`, in place of the one with the id that it names, if any.
    pub fn put(&mut self, mut silence: Silence, id: &str, now_ns: i64) -> Result<(), SilenceError> {
        let invalid = |what: &str| Err(SilenceError::Invalid(what.to_owned()));
        if silence.matchers.is_empty() || silence.matchers.len() > MATCHERS_MAX {
            return invalid(&format!("a silence needs 1 to {MATCHERS_MAX} matchers"));
        }
        if silence.matchers.iter().all(Matcher::matches_nothing) {
            return invalid("the matchers would silence every alert; add one that names a value");
        }
        if silence.ends_at_ns <= silence.starts_at_ns {
            return invalid("`endsAt` has to be after `startsAt`");
        }
        if silence.ends_at_ns <= now_ns {
            return invalid("`endsAt` is in the past; write a later time");
        }
        self.drop_expired(now_ns);
        if !silence.id.is_empty() {
            let old = silence.id.clone();
            let index = self.0.iter().position(|known| known.id == old);
            self.0.remove(index.ok_or(SilenceError::NotFound(old))?);
        }
        if self.0.len() >= SILENCES_MAX {
            return Err(SilenceError::Full);
        }
        silence.id = id.to_owned();
        silence.comment = cut(silence.comment, TEXT_BYTES_MAX);
        silence.created_by = cut(silence.created_by, TEXT_BYTES_MAX);
        self.0.push(silence);
        Ok(())
    }

    /// Ends a silence now.
    pub fn end(&mut self, id: &str, now_ns: i64) -> Result<(), SilenceError> {
        let silence = self.0.iter_mut().find(|silence| silence.id == id);
        let silence = silence.ok_or_else(|| SilenceError::NotFound(id.to_owned()))?;
        silence.ends_at_ns = silence.ends_at_ns.min(now_ns);
        silence.starts_at_ns = silence.starts_at_ns.min(silence.ends_at_ns);
        self.drop_expired(now_ns);
        Ok(())
    }

    /// The ids of the silences that are in force for these labels.
    pub fn of(&self, labels: &Labels, now_ns: i64) -> Vec<String> {
        let active = self.0.iter().filter(|silence| silence.is_active(now_ns));
        let silencing = active.filter(|silence| silence.matchers.iter().all(|m| m.matches(labels)));
        silencing.map(|silence| silence.id.clone()).collect()
    }

    /// What covers an alert with these labels; none if no silence does.
    pub fn covering(&self, labels: &Labels, now_ns: i64) -> Option<Covered> {
        let active = self.0.iter().filter(|silence| silence.is_active(now_ns));
        let mut covering =
            active.filter(|silence| silence.matchers.iter().all(|m| m.matches(labels)));
        let first = covering.next()?;
        let is_told = |silence: &Silence| silence.comment.starts_with(ACKNOWLEDGED);
        Some(match is_told(first) && covering.all(is_told) {
            true => Covered::Acknowledged,
            false => Covered::Silenced,
        })
    }

    /// Drops the silences that ended five days ago.
    pub fn drop_expired(&mut self, now_ns: i64) {
        self.0.retain(|silence| now_ns.saturating_sub(silence.ends_at_ns) <= ns(ENDED_KEPT));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000_000_000;

    fn silence(matchers: &[&str], starts_at_ns: i64, ends_at_ns: i64) -> Silence {
        Silence {
            id: String::new(),
            matchers: matchers.iter().map(|text| Matcher::parse(text).unwrap()).collect(),
            starts_at_ns,
            ends_at_ns,
            created_by: "me".to_owned(),
            comment: "works".to_owned(),
        }
    }

    #[test]
    fn silences_are_in_force_for_their_labels_and_time() {
        let mut silences = Silences::default();
        silences.put(silence(&["host=a", "sev!=page"], 10, 20), "1", 0).unwrap();
        let labels = |host: &str, severity: &str| -> Labels {
            [("host", host), ("sev", severity)].map(|(n, v)| (n.to_owned(), v.to_owned())).into()
        };
        for (host, severity, now, expected) in [
            ("a", "low", 9, 0),
            ("a", "low", 10, 1),
            ("a", "low", 19, 1),
            ("a", "low", 20, 0),
            ("b", "low", 15, 0),
            ("a", "page", 15, 0),
        ] {
            assert_eq!(silences.of(&labels(host, severity), now).len(), expected);
        }
        assert_eq!(silences.all()[0].state(5), "pending");
        silences.end("1", 15).unwrap();
        assert_eq!(silences.all()[0].state(15), "expired");
        assert_eq!(silences.end("2", 15), Err(SilenceError::NotFound("2".to_owned())));
        silences.drop_expired(15 + 5 * DAY);
        assert_eq!(silences.all().len(), 1);
        silences.drop_expired(16 + 5 * DAY);
        assert_eq!(silences.all().len(), 0);
    }

    #[test]
    fn wrong_silences_are_refused() {
        let mut silences = Silences::default();
        for (silence, part) in [
            (silence(&[], 0, 10), "1 to 32 matchers"),
            (silence(&["a=~.*", "b!=c"], 0, 10), "every alert"),
            (silence(&["a=b"], 10, 10), "after `startsAt`"),
            (silence(&["a=b"], -10, -5), "in the past"),
        ] {
            let error = silences.put(silence, "1", 0).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        for n in 0..SILENCES_MAX {
            silences.put(silence(&["a=b"], 0, 10), &n.to_string(), 0).unwrap();
        }
        assert_eq!(silences.put(silence(&["a=b"], 0, 10), "x", 0), Err(SilenceError::Full));
        let changed = Silence { id: "7".to_owned(), ..silence(&["a=c"], 0, 10) };
        silences.put(changed, "8a", 0).unwrap();
        assert_eq!(silences.all().len(), SILENCES_MAX);
    }

    #[test]
    fn json_is_that_of_alertmanager() {
        let json = r#"{"id":"1","matchers":[{"name":"a","value":"b","isRegex":false,"isEqual":true}],"startsAt":"1970-01-01T00:00:00Z","endsAt":"1970-01-01T00:00:10Z","createdBy":"me","comment":"works"}"#;
        let silence: Silence = serde_json::from_str(json).unwrap();
        assert_eq!(silence.ends_at_ns, 10_000_000_000);
        assert_eq!(serde_json::to_string(&silence).unwrap(), json);
    }
}
