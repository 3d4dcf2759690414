//! `[[sinks]]`: what goes to a sink, besides the keys of the destination, which crate `sinks`
//! reads.

use std::time::Duration;

use anyhow::{Result, anyhow, bail, ensure};
use query::macros::Callable;
use query::{Query, Stats};
use serde::Deserialize;
use sinks::config::{Sink, SinkConfig};

use crate::storage::line_filter::sink_filter;

/// The keys of this file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawFeed {
    of: Option<String>,
    programs: Vec<String>,
    filter: Option<String>,
    query: Option<String>,
    every: Option<String>,
    delay: Option<String>,
    start: Option<String>,
}

const KEYS: [&str; 7] = ["of", "programs", "filter", "query", "every", "delay", "start"];
/// The shortest and longest `every`.
const EVERY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(86_400));
const DELAY_DEFAULT: Duration = Duration::from_secs(10);

/// A checked sink.
#[derive(Clone, Debug)]
pub struct SinkOptions {
    /// The destination.
    pub sink: Sink,
    /// What kind of destination it is: the name of its table.
    pub kind: &'static str,
    /// What goes there.
    pub of: Of,
    /// Whether a new sink begins with the first line of the store, instead of with the next one.
    pub from_beginning: bool,
}

/// What goes to a sink.
#[derive(Clone, Debug, PartialEq)]
pub enum Of {
    /// Rows of these programs; of all where none is named.
    Rows(Vec<String>),
    /// Lines that the filter in LogsQL lets through.
    Lines(String),
    /// Rows of a query over each interval.
    Query {
        /// The query.
        query: String,
        /// The length of an interval.
        every: Duration,
        /// How long after the end of an interval the query runs.
        delay: Duration,
    },
}

impl Of {
    /// Its name in the configuration.
    pub fn name(&self) -> &'static str {
        match self {
            Of::Rows(_) => "rows",
            Of::Lines(_) => "lines",
            Of::Query { .. } => "query",
        }
    }
}

/// Checks all sinks. Their names differ.
pub fn check(tables: Vec<toml::Table>) -> Result<Vec<SinkOptions>> {
    let mut checked: Vec<SinkOptions> = Vec::new();
    for table in tables {
        let options = one(table)?;
        let is_twice = checked.iter().any(|other| other.sink.name == options.sink.name);
        ensure!(!is_twice, "sinks: the name '{}' is there twice", options.sink.name);
        checked.push(options);
    }
    Ok(checked)
}

fn one(mut table: toml::Table) -> Result<SinkOptions> {
    let name = table.get("name").and_then(toml::Value::as_str).unwrap_or("?").to_owned();
    let wrong = |error: toml::de::Error| anyhow!("sinks.{name}: {}", error.message());
    let own: toml::Table = KEYS.iter().filter_map(|key| table.remove_entry(*key)).collect();
    let feed: RawFeed = own.try_into().map_err(wrong)?;
    let of = of(&name, &feed)?;
    let mut config: SinkConfig = table.try_into().map_err(wrong)?;
    if let (Of::Rows(_), Some(elasticsearch)) = (&of, &mut config.elasticsearch) {
        ensure!(
            elasticsearch.data_stream.is_none(),
            "sinks.{name}.elasticsearch.data_stream: rows are corrected when late lines come, and a data \
             stream takes no corrections; write an index, for example index = \"{name}-%Y.%m\""
        );
        // A later revision of a row replaces the earlier one.
        elasticsearch.operation.get_or_insert_with(|| "index".to_owned());
    }
    let kind = kind(&config);
    let sink = config.check()?;
    let from_beginning = match feed.start.as_deref() {
        None | Some("now") => false,
        Some("beginning") => true,
        Some(other) => bail!("sinks.{name}.start: '{other}' is neither 'now' nor 'beginning'"),
    };
    Ok(SinkOptions { sink, kind, of, from_beginning })
}

fn of(name: &str, feed: &RawFeed) -> Result<Of> {
    let only = |key: &str, is_given: bool, of: &str| {
        ensure!(!is_given, "sinks.{name}.{key} is only for of = \"{of}\"");
        Ok(())
    };
    let of = feed.of.as_deref().unwrap_or("rows");
    if of != "rows" {
        only("programs", !feed.programs.is_empty(), "rows")?;
    }
    if of != "lines" {
        only("filter", feed.filter.is_some(), "lines")?;
    }
    if of != "query" {
        only("query", feed.query.is_some(), "query")?;
        only("every", feed.every.is_some(), "query")?;
        only("delay", feed.delay.is_some(), "query")?;
    }
    let duration = |key: &str, text: &Option<String>, default| match text {
        None => Ok(default),
        Some(text) => text::duration::parse_setting(text)
            .map_err(|error| anyhow!("sinks.{name}.{key}: {error}")),
    };
    match of {
        "rows" => Ok(Of::Rows(feed.programs.clone())),
        "lines" => {
            let filter = feed.filter.clone().ok_or_else(|| {
                anyhow!("sinks.{name}.filter is missing; write \"*\" for all lines")
            })?;
            sink_filter(&filter).map_err(|error| anyhow!("sinks.{name}.filter: {error}"))?;
            Ok(Of::Lines(filter))
        }
        "query" => {
            let query = feed.query.clone().ok_or_else(|| {
                anyhow!("sinks.{name}.query is missing; for example \"* | stats by (hostname) count() lines\"")
            })?;
            let parsed = Query::parse_with(&query, 0, Callable::Configured)
                .map_err(|error| anyhow!("sinks.{name}.query: {error}"))?;
            ensure!(
                parsed.pipes().iter().any(|pipe| pipe.get::<Stats>().is_some()),
                "sinks.{name}.query has no stats pipe; write of = \"lines\" to send lines"
            );
            let every = duration("every", &feed.every, Duration::from_secs(60))?;
            ensure!(
                (EVERY.0..=EVERY.1).contains(&every),
                "sinks.{name}.every must be between 1s and 1d"
            );
            let delay = duration("delay", &feed.delay, DELAY_DEFAULT)?;
            Ok(Of::Query { query, every, delay })
        }
        other => bail!("sinks.{name}.of: '{other}' is none of 'rows', 'lines' and 'query'"),
    }
}

fn kind(config: &SinkConfig) -> &'static str {
    let kinds = [
        (config.elasticsearch.is_some(), "elasticsearch"),
        (config.kafka.is_some(), "kafka"),
        (config.json_lines.is_some(), "json_lines"),
        (config.loginson.is_some(), "loginson"),
        (config.loki.is_some(), "loki"),
        (config.syslog.is_some(), "syslog"),
        (config.file.is_some(), "file"),
    ];
    kinds.iter().find(|(is_given, _)| *is_given).map_or("?", |(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(text: &str) -> Result<Vec<SinkOptions>, String> {
        #[derive(Deserialize)]
        struct Sinks {
            sinks: Vec<toml::Table>,
        }
        let parsed: Sinks = toml::from_str(text).unwrap();
        check(parsed.sinks).map_err(|error| format!("{error:#}"))
    }

    const FILE: &str = "[sinks.file]\npath = \"/tmp/x.jsonl\"\n";

    #[test]
    fn a_sink_says_what_goes_there() {
        let of = |keys: &str| {
            let text = format!("[[sinks]]\nname = \"a\"\n{keys}\n{FILE}");
            check_text(&text).map(|mut sinks| sinks.remove(0).of)
        };
        assert_eq!(of("").unwrap(), Of::Rows(Vec::new()));
        assert_eq!(of("programs = [\"p\"]").unwrap(), Of::Rows(vec!["p".to_owned()]));
        assert_eq!(
            of("of = \"lines\"\nfilter = \"_level:error\"").unwrap(),
            Of::Lines("_level:error".to_owned())
        );
        let query = of("of = \"query\"\nquery = \"* | stats count() n\"\nevery = \"5m\"").unwrap();
        let Of::Query { every, delay, .. } = query else { panic!("{query:?}") };
        assert_eq!((every, delay), (Duration::from_secs(300), DELAY_DEFAULT));
        for (keys, part) in [
            ("of = \"x\"", "none of 'rows'"),
            ("of = \"lines\"", "filter is missing"),
            ("of = \"lines\"\nfilter = \"(\"", "sinks.a.filter"),
            ("of = \"lines\"\nfilter = \"_time:5m x\"", "sinks.a.filter: a time relative to now"),
            ("filter = \"x\"", "only for of = \"lines\""),
            ("of = \"query\"\nquery = \"* | fields a\"", "no stats pipe"),
            ("of = \"query\"\nquery = \"* | stats count()\"\nevery = \"1ms\"", "between 1s and 1d"),
            ("start = \"x\"", "neither 'now'"),
            ("nme = 1", "unknown field `nme`"),
        ] {
            let error = of(keys).unwrap_err();
            assert!(error.contains(part), "{keys}: {error}");
        }
    }

    #[test]
    fn names_differ_and_rows_need_an_index() {
        let twice = format!("[[sinks]]\nname = \"a\"\n{FILE}[[sinks]]\nname = \"a\"\n{FILE}");
        assert!(check_text(&twice).unwrap_err().contains("twice"));
        let stream = "[[sinks]]\nname = \"a\"\nurls = [\"http://127.0.0.1:9200\"]\n\
                      [sinks.elasticsearch]\ndata_stream = \"logs-a-b\"\n";
        let error = check_text(stream).unwrap_err();
        assert!(error.contains("takes no corrections"), "{error}");
    }
}
