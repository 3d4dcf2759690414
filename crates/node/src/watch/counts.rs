//! Counts of lines by minute and value, and the fields whose values are few: by queries.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use analysis::watch::{MINUTE_NS, VALUES_MAX};
use platform::memory::{Budget, Purpose};
use query::source::TimeRange;
use query::{Account, Context, Facets, Query, StatsQuery};
use text::quoted::quote;

use super::WatchOptions;
use crate::cluster::QueriedLines;

/// Fields that are watched, with type and level.
///
/// limits.md, What stands out: watched fields | {} | the ones whose names say the least are left
/// out, and named
const FIELDS_MAX: usize = 12;
/// Lines from whose values fields are chosen: the last ones.
const SAMPLE_LINES_MAX: u64 = 200_000;
/// Spans of the past of which the longest with few enough lines is the sample.
const SAMPLES_S: [i64; 6] = [86_400, 3_600, 600, 60, 10, 1];
/// Values of a field, up to which it is named as left out. One with more is none of few values.
const SAMPLE_VALUES_MAX: u64 = 1_000;
/// Bytes of a value in the sample.
const SAMPLE_VALUE_BYTES_MAX: u64 = 128;
/// A field that few lines have says little.
const LINES_SHARE_MIN: f64 = 0.05;
/// Values of one minute and field that a query returns.
const ROWS_MAX: usize = 1_000;
/// Fields without which no line is.
const ALWAYS: [&str; 2] = ["_type", "_level"];
/// Names of fields that say where a line comes from, or what it is; the first ones say the most.
/// With a point in them, they are those of OpenTelemetry and of the Elastic Common Schema.
const NAMES: [&str; 28] = [
    "service",
    "service.name",
    "app_name",
    "app",
    "application",
    "hostname",
    "host",
    "host.name",
    "_tenant",
    "status",
    "http.response.status_code",
    "region",
    "cloud.region",
    "zone",
    "version",
    "service.version",
    "environment",
    "env",
    "namespace",
    "k8s.namespace.name",
    "container",
    "container.name",
    "job",
    "unit",
    "program",
    "method",
    "event",
    "code",
];
/// Fields that say what the level says, or nothing about where a line comes from.
const NEVER: [&str; 7] =
    ["level", "severity", "priority", "facility", "proc_id", "severity_text", "severity_number"];

/// The fields that are watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Their names.
    pub names: Vec<String>,
    /// Fields that are not, each with the reason.
    pub left_out: Vec<(String, String)>,
}

impl Fields {
    /// The names, after that of all lines, which is empty.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        [""].into_iter().chain(self.names.iter().map(String::as_str))
    }
}

/// Runs the queries of the watch, one at a time on one thread. They do not enter the queue of
/// queries: there are some each minute, and they would fill its list.
pub struct Reader {
    /// The lines.
    pub lines: QueriedLines,
    /// The memory that the queries share with all others.
    pub memory: Arc<Budget>,
    /// Limits of one query.
    pub limits: query::Limits,
    /// Ends the query that runs.
    pub cancelled: Arc<AtomicBool>,
}

/// Values and lines, by the start of their minute.
pub type Minutes = BTreeMap<i64, Vec<(String, f64)>>;

impl Reader {
    fn context(&self, start_ns: i64, end_ns: i64) -> Context {
        Context {
            range: TimeRange { start_ns, end_ns },
            limits: query::Limits { threads: 1, ..self.limits },
            account: Account::new(&self.memory, Purpose::Query),
            cancelled: Arc::clone(&self.cancelled),
            restriction: Arc::new(query::Filter::without_audit()).into(),
            ..Context::default()
        }
    }

    /// Lines of each minute from `start_ns` up to `end_ns`, by the values of `field`; of all lines
    /// if it is empty. Lines without the field are left out.
    pub fn count(&self, field: &str, start_ns: i64, end_ns: i64) -> Result<Minutes, String> {
        let text = match field {
            "" => "* | stats count() n".to_owned(),
            // Of more values than are watched, those with the most lines.
            _ => {
                format!("* | stats by ({}) count() n | first {ROWS_MAX} by (n desc)", quote(field))
            }
        };
        let rows = self.stats(&text, Some(MINUTE_NS), start_ns, end_ns);
        let mut minutes = Minutes::new();
        for (minute_ns, value, lines) in rows.map_err(|error| format!("{field}: {error}"))? {
            if (field.is_empty() || !value.is_empty()) && lines > 0.0 {
                minutes.entry(minute_ns.unwrap_or(start_ns)).or_default().push((value, lines));
            }
        }
        Ok(minutes)
    }

    /// Lines from `start_ns` up to `end_ns`.
    pub fn total(&self, start_ns: i64, end_ns: i64) -> Result<u64, String> {
        let rows = self.stats("* | stats count() n", None, start_ns, end_ns)?;
        Ok(rows.first().map_or(0, |(_, _, lines)| *lines as u64))
    }

    fn stats(
        &self,
        text: &str,
        step_ns: Option<i64>,
        start_ns: i64,
        end_ns: i64,
    ) -> Result<Vec<(Option<i64>, String, f64)>, String> {
        let query = Query::parse(text, end_ns).map_err(|error| error.to_string())?;
        let stats = StatsQuery::new(&query, step_ns.map(|step| (step, 0)));
        let stats = stats.map_err(|error| error.to_string())?;
        let (source, context) = (self.lines.source(None), self.context(start_ns, end_ns));
        let found = stats.run(&*source, &context).map_err(|error| error.to_string())?;
        let rows = found.into_iter().map(|row| {
            let value = row.labels.into_iter().next().map(|(_, value)| value).unwrap_or_default();
            let lines = row.values.first().and_then(|(_, n)| n.parse().ok()).unwrap_or(0.0);
            (row.time_ns, value, lines)
        });
        Ok(rows.collect())
    }

    /// The fields that lines before `end_ns` have, and whose values are few.
    pub fn fields(&self, options: &WatchOptions, end_ns: i64) -> Result<Fields, String> {
        let mut sample = (end_ns, 0);
        for seconds in SAMPLES_S {
            let start_ns = end_ns - seconds * 1_000_000_000;
            let lines = self.total(start_ns, end_ns)?;
            if lines == 0 && sample.1 == 0 && seconds == SAMPLES_S[0] {
                break;
            }
            sample = (start_ns, lines);
            if lines <= SAMPLE_LINES_MAX {
                break;
            }
        }
        let facets = Facets {
            limit: SAMPLE_VALUES_MAX,
            values_max: SAMPLE_VALUES_MAX,
            value_bytes_max: SAMPLE_VALUE_BYTES_MAX,
            keep_const_fields: true,
        };
        let query = Query::parse("*", end_ns).map_err(|error| error.to_string())?;
        let source = self.lines.source(None);
        let context = self.context(sample.0, end_ns);
        let found = query::facets(&query, &*source, &context, &facets);
        let found = found.map_err(|error| error.to_string())?.into_iter().map(|facet| {
            let values = facet.values.into_iter().filter(|value| !value.value.is_empty());
            (facet.field_name, values.map(|value| (value.value, value.hits)).collect())
        });
        Ok(chosen(options, sample.1, found.collect()))
    }
}

/// Chooses among fields with their values and lines, of so many lines.
fn chosen(
    options: &WatchOptions,
    lines: u64,
    mut found: Vec<(String, Vec<(String, u64)>)>,
) -> Fields {
    let is_ignored = |name: &str| options.ignored.iter().any(|ignored| ignored == name);
    let mut fields = Fields::default();
    let first = options.fields.iter().map(String::as_str).chain(ALWAYS);
    for name in first.filter(|name| !is_ignored(name)) {
        if !fields.names.iter().any(|known| known == name) && fields.names.len() < FIELDS_MAX {
            fields.names.push(name.to_owned());
        }
    }
    let rank = |name: &str| NAMES.iter().position(|known| *known == name).unwrap_or(NAMES.len());
    found.sort_by_key(|(name, values)| {
        (rank(name), std::cmp::Reverse(values.iter().map(|(_, hits)| hits).sum::<u64>()))
    });
    // Two fields that divide lines alike say the same.
    let mut divisions: HashSet<Vec<u64>> = HashSet::new();
    for (name, values) in found {
        let is_named = rank(&name) < NAMES.len();
        let is_own = name.starts_with('_') && !is_named;
        if fields.names.contains(&name) || is_own || NEVER.contains(&name.as_str()) {
            continue;
        }
        let of_field: u64 = values.iter().map(|(_, hits)| hits).sum();
        let share = of_field as f64 / lines.max(1) as f64;
        let is_number = |(value, _): &(String, u64)| value.parse::<f64>().is_ok();
        let reason = if is_ignored(&name) {
            "`watch.ignored` names it"
        } else if values.len() > VALUES_MAX {
            "it has too many values"
        } else if !is_named && (values.len() < 2 || share < LINES_SHARE_MIN) {
            // A field with one value is as good as all lines; too many have one to name them.
            continue;
        } else if !is_named && values.len() > 20 && values.iter().all(is_number) {
            "its values are numbers"
        } else {
            let mut division: Vec<u64> = values.iter().map(|(_, hits)| *hits).collect();
            division.sort_unstable();
            if values.len() > 1 && !divisions.insert(division) {
                "another field divides lines alike"
            } else if fields.names.len() >= FIELDS_MAX {
                "there are enough others"
            } else {
                fields.names.push(name);
                continue;
            }
        };
        fields.left_out.push((name, reason.to_owned()));
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, hits: &[u64]) -> (String, Vec<(String, u64)>) {
        let values = hits.iter().enumerate().map(|(n, hits)| (format!("{name}-{n}"), *hits));
        (name.to_owned(), values.collect())
    }

    #[test]
    fn fields_of_few_values_are_chosen_and_others_named() {
        let many = vec![1; VALUES_MAX + 1];
        let numbers: Vec<(String, u64)> = (0..30).map(|n| (n.to_string(), 10)).collect();
        let found = vec![
            field("color", &[500, 500]),
            field("rare", &[1, 2]),
            field("level", &[900, 100]),
            field("region", &[1_000]),
            field("service", &[700, 300]),
            field("app", &[300, 700]),
            field("request", &many),
            field("secret", &[10, 990]),
            ("duration".to_owned(), numbers),
            field("constant", &[1_000]),
        ];
        let options = WatchOptions {
            fields: vec!["shop".to_owned()],
            ignored: vec!["secret".to_owned(), "_type".to_owned()],
            ..WatchOptions::default()
        };
        let fields = chosen(&options, 1_000, found);
        assert_eq!(fields.names, ["shop", "_level", "service", "region", "color"]);
        assert_eq!(fields.names().next(), Some(""));
        let reasons: Vec<String> =
            fields.left_out.iter().map(|(name, reason)| format!("{name}: {reason}")).collect();
        assert_eq!(
            reasons,
            [
                "app: another field divides lines alike",
                "secret: `watch.ignored` names it",
                "duration: its values are numbers",
                "request: it has too many values",
            ]
        );
    }

    #[test]
    fn fields_have_a_limit() {
        let found: Vec<_> =
            (0..30).map(|n| field(&format!("f{n:02}"), &[100 + n, 900 - n])).collect();
        let fields = chosen(&WatchOptions::default(), 1_000, found);
        assert_eq!(fields.names.len(), FIELDS_MAX);
        assert_eq!(fields.left_out.len(), 30 + ALWAYS.len() - FIELDS_MAX);
        assert!(fields.left_out.iter().all(|(_, reason)| reason == "there are enough others"));
    }
}
