//! The settings of the server: flags override the environment, which overrides a TOML file, which
//! overrides the defaults.
//!
//! [`RawConfig`] is read, then checked once and turned into [`Config`], which holds the settings of
//! the node and of the API as these two define them. Every key is described in
//! `docs/configuration.md`.

mod access;
mod alerts;
pub mod backup;
pub mod changes;
mod collect;
mod directories;
#[cfg(test)]
mod documented;
pub mod encryption;
mod engines;
mod files;
mod integrity;
mod kafka;
pub mod listen;
mod located;
mod logins;
pub mod mistakes;
mod placement;
mod programs;
mod raw;
mod secret;
mod stores;
mod tenants;
mod tls;
pub mod watch;
pub mod zones;

use std::net::{SocketAddr, ToSocketAddrs};
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use ::programs::summary::SummaryConfig;
use anyhow::{Context, Result, anyhow, ensure};
use collector::node::ForwardConfig;
use collector::socket_drops::UDP_SOCKETS_MAX;
use collector::{JournalConfig, TcpConfig, TlsFiles};
use platform::memory::{bytes_auto, cache_bytes_auto, machine_bytes, queue_bytes_auto};
use query::QueueLimits;
use query::derived::{DERIVED_MAX, DerivedField};
use query::macros::Macro;
use store::{Retention, RetentionRule, StoreConfig};

use api::HTTP_CONNECTIONS_MAX;
use api::access::authority::{Authority, Host};
use api::ingest::InsertOptions;
use api::options::ApiOptions;
use api::wire::body::BodyLimits;
use node::alerts::AlertOptions;
use node::cluster::StoresOptions;
use node::cluster::engines::KafkaOptions;
use node::ingest::options::{SourceOptions, SyslogZones};
use node::ingest::rules::{RuleSet, RuleSpec};
use node::pipeline::options::NodeOptions;
use node::process::open_files::{self, Connections};
use node::queries::QueryOptions;
use node::queries::jobs::{JOBS_MAX, JobLimits};
use node::saved_views::macros::check_all;
use node::storage::line_filter::line_filter;
use node::watch::WatchOptions;

pub use integrity::VARIABLE as INTEGRITY_VARIABLE;
pub use located::ConfigFile;
pub use placement::Placement;
use placement::processors;
pub use raw::{RawConfig, RawFiles};
use raw::{RawField, RawRetentionRule};
pub use secret::VARIABLE as SECRET_VARIABLE;

/// A checked configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address of HTTP; port 0 means any free one.
    pub http_listen: SocketAddr,
    /// Addresses that take OTLP alone.
    pub otlp_listen: Vec<SocketAddr>,
    /// Certificate and key of HTTPS; `None` when HTTP is not encrypted.
    pub http_tls: Option<TlsFiles>,
    /// How threads share the machine.
    pub placement: Placement,
    /// The stores whose lines queries read; `None`: this node's own lines.
    pub stores: Option<StoresOptions>,
    /// The log that a collector appends to in place of stores.
    pub kafka: Option<KafkaOptions>,
    /// The settings of the node.
    pub node: NodeOptions,
    /// The settings of the API.
    pub api: ApiOptions,
    /// The rules of retention that `[[tenants]]` makes. They are the last ones of the store.
    pub rules_of_tenants: Vec<RetentionRule>,
}

impl Config {
    /// Raises the limit on open files, or lowers the connections of HTTP and syslog to what it
    /// permits.
    ///
    /// Errors: it permits too few files to work with.
    pub fn allow_files(&mut self) -> Result<()> {
        let sources = &mut self.node.sources;
        let nodes = sources.node_listen.map_or(0, |_| collector::node::CONNECTIONS_MAX);
        let tls = usize::from(sources.syslog_tls.is_some());
        let allowed = open_files::allow(Connections {
            http: self.api.connections_max,
            nodes,
            syslog_listeners: sources.listen.streams() + tls,
            each_syslog: sources.syslog_tcp.connections_max,
        })?;
        self.api.connections_max = allowed.http;
        sources.syslog_tcp.connections_max = allowed.each_syslog;
        Ok(())
    }

    /// What is deleted when in a process that began with `start` and reads these settings again:
    /// tenants change by a restart, and so does how long their lines are kept.
    pub fn retention_since(&self, start: &Config) -> Retention {
        let mut retention = self.node.store.retention();
        let own = retention.rules.len().saturating_sub(self.rules_of_tenants.len());
        retention.rules.truncate(own);
        retention.rules.extend_from_slice(&start.rules_of_tenants);
        retention
    }

    /// Whether it is the configuration of a server, and not of a collector.
    ///
    /// Errors: it names a cluster's Kafka alone. A server would keep its lines to itself.
    pub fn allow_serving(&self) -> Result<()> {
        ensure!(
            self.kafka.is_none() || self.node.engines.is_some(),
            "[cluster.kafka] without [cluster.objects] and [cluster.postgresql] is the configuration of a collector: \
             start it by `loginson collect --config FILE`, or add the two for a node that stores or answers queries"
        );
        Ok(())
    }
}

impl TryFrom<RawConfig> for Config {
    type Error = anyhow::Error;

    fn try_from(raw: RawConfig) -> Result<Config> {
        macros(&raw)?;
        derived_fields(&raw)?;
        let http_listen = parse_listen("http_listen", &raw.http_listen)?;
        ensure!(raw.query.concurrent_max > 0, "query.concurrent_max must be at least 1");
        ensure!(
            raw.query.background_concurrent_max > 0,
            "query.background_concurrent_max must be at least 1"
        );
        ensure!(
            (1..=PAGES_MAX).contains(&raw.query.pages_max),
            "query.pages_max must be between 1 and {PAGES_MAX}"
        );
        let segment_bytes_max = bytes("store.segment_bytes_max", &raw.store.segment_bytes_max)?;
        ensure!(
            (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&segment_bytes_max),
            "store.segment_bytes_max must be between 1MiB and 64GiB"
        );
        let (tenants, rules_of_tenants) = tenants::check(&raw.tenants)?;
        let rules = raw.retention.rules.iter().map(retention_rule);
        let mut retention_rules: Vec<RetentionRule> = rules.collect::<Result<_>>()?;
        retention_rules.extend_from_slice(&rules_of_tenants);
        let age = unless_off(&raw.retention.age, |t| duration("retention.age", t))?;
        let memory = |key, text: &str| Ok::<_, anyhow::Error>(usize::try_from(bytes(key, text)?)?);
        let placement = raw.placement.placement(processors())?;
        let store = StoreConfig {
            segment_bytes_max,
            queue_bytes_max: match raw.store.queue_bytes_max.as_str() {
                "auto" => usize::try_from(queue_bytes_auto(machine_bytes()))?,
                text => memory("store.queue_bytes_max", text)?,
            },
            cache_bytes_max: match raw.store.cache_bytes_max.as_str() {
                "auto" => usize::try_from(cache_bytes_auto(machine_bytes()))?,
                text => memory("store.cache_bytes_max", text)?,
            },
            commit_interval_ms: duration("store.commit_interval", &raw.store.commit_interval)?
                .as_millis() as u64,
            disk_free_bytes_min: bytes(
                "store.disk_free_bytes_min",
                &raw.store.disk_free_bytes_min,
            )?,
            age_ns: age.map(text::duration::ns),
            bytes_max: unless_off(&raw.retention.bytes, |t| bytes("retention.bytes", t))?,
            rules: retention_rules,
            segment_age_ns: text::duration::ns(duration(
                "store.segment_age",
                &raw.store.segment_age,
            )?),
            backlog_bytes_max: bytes("store.backlog_bytes_max", &raw.store.backlog_bytes_max)?,
            reencode: raw.store.reencode,
            reencode_age_ns: text::duration::ns(duration(
                "store.reencode_age",
                &raw.store.reencode_age,
            )?),
            node_age_ns: text::duration::ns(duration(
                "store.collector_age",
                &raw.store.collector_age,
            )?),
            sealing_threads: placement.sealing_threads,
            background_bytes_per_s_max: background_rate(&raw.placement.background_bytes_per_s_max)?,
            ..StoreConfig::new(&raw.data_dir)
        };
        store.check()?;
        let summary = SummaryConfig {
            bucket_s: seconds("summary.bucket", &raw.summary.bucket, 1)?,
            values_max: raw.summary.values_max,
            flush_interval_s: seconds("summary.flush_interval", &raw.summary.flush_interval, 1)?,
            flush_delay_s: seconds("summary.flush_delay", &raw.summary.flush_delay, 0)?,
        };
        ensure!(
            (1..=INSERT_REQUESTS_MAX).contains(&raw.insert.requests_max),
            "insert.requests_max must be between 1 and {INSERT_REQUESTS_MAX}"
        );
        let idle_max = duration("insert.idle_max", &raw.insert.idle_max)?;
        ensure!(!idle_max.is_zero(), "insert.idle_max must be above zero");
        let insert = InsertOptions {
            requests_max: raw.insert.requests_max,
            body: BodyLimits {
                idle_max,
                bytes_per_s_min: bytes("insert.bytes_per_s_min", &raw.insert.bytes_per_s_min)?,
            },
            github_secret: listen::github_secret(&raw.insert.github_secret_file)?,
        };
        let client_idle_max = duration("query.client_idle_max", &raw.query.client_idle_max)?;
        ensure!(
            (CLIENT_IDLE_MIN..=CLIENT_IDLE_MAX).contains(&client_idle_max),
            "query.client_idle_max must be between 1s and 1d"
        );
        let query = QueryOptions {
            queue: QueueLimits {
                concurrent_max: raw.query.concurrent_max,
                waiting_max: raw.query.waiting_max,
                wait_max: duration("query.wait_max", &raw.query.wait_max)?,
                tails_max: raw.query.tails_max,
                background_concurrent_max: raw.query.background_concurrent_max,
                background_waiting_max: raw.query.background_waiting_max,
                pause_max: duration("query.pause_max", &raw.query.pause_max)?,
                ..QueueLimits::default()
            },
            limits: query::Limits {
                run_time: duration("query.run_max", &raw.query.run_max)?,
                memory_bytes_max: bytes("query.memory_bytes_max", &raw.query.memory_bytes_max)?,
                rows_max: raw.query.rows_max,
                threads: match raw.query.threads {
                    0 => std::thread::available_parallelism().map_or(1, NonZero::get),
                    threads => threads,
                },
            },
            background: JobLimits {
                run_time: duration("query.background_run_max", &raw.query.background_run_max)?,
                result_bytes_max: bytes("query.result_bytes_max", &raw.query.result_bytes_max)?,
                result_bytes_total_max: bytes(
                    "query.result_bytes_total_max",
                    &raw.query.result_bytes_total_max,
                )?,
                keep: duration("query.results_keep", &raw.query.results_keep)?,
                disk_free_bytes_min: store.disk_free_bytes_min,
                jobs_max: JOBS_MAX,
            },
            answers_bytes_max: memory("query.answers_bytes_max", &raw.query.answers_bytes_max)?,
            slow: match raw.query.slow.as_str() {
                "off" => None,
                text => Some(duration("query.slow", text)?),
            },
        };
        ensure!(
            raw.syslog.udp_sockets <= UDP_SOCKETS_MAX,
            "syslog.udp_sockets must be at most {UDP_SOCKETS_MAX}, or 0 for a number that fits the processors"
        );
        let engines = engines::check(&raw.cluster, &raw.stores)?;
        let collects = engines.as_ref().is_none_or(|engines| engines.collects);
        let mut raw = raw;
        if !collects {
            // Lines over HTTP are taken by every node.
            raw.files.clear();
            raw.journald.enabled = false;
            raw.kafka.clear();
            let listeners = [
                &mut raw.syslog_udp_listen,
                &mut raw.syslog_tcp_listen,
                &mut raw.syslog_tls_listen,
                &mut raw.fluent_listen,
                &mut raw.beats_listen,
                &mut raw.relp_listen,
                &mut raw.statsd_listen,
            ];
            listeners.into_iter().for_each(|listen| "off".clone_into(listen));
        }
        ensure!(
            engines.is_none() || tenants.all().all(|(options, _)| options.disk_bytes_max.is_none()),
            "disk_bytes_max of tenants does not work in a cluster on Kafka yet; retention.bytes does"
        );
        ensure!(
            engines.is_none() || raw.node_listen == "off",
            "node_listen is for a store with a disk of its own; collectors of a cluster deliver to [cluster.kafka]"
        );
        let listen = listen::listen(&raw)?;
        let otlp_listen = listen::otlp(&raw)?;
        let data_dir = raw.data_dir;
        let node_secret =
            secret::node_secret(&raw.node_secret_file, std::env::var_os(secret::VARIABLE))?;
        let node_listen = parse_listen("node_listen", &raw.node_listen)?;
        let is_loopback = |address: SocketAddr| address.ip().to_canonical().is_loopback();
        ensure!(
            node_secret.is_some() || node_listen.is_none_or(is_loopback),
            "node_listen: anyone who reaches this machine can reach {}; give this store and its collectors a \
             secret: `openssl rand -hex 32 > FILE`, and node_secret_file = \"FILE\" (--node-secret-file, or {}); or listen on \
             127.0.0.1 behind a tunnel",
            raw.node_listen,
            secret::VARIABLE
        );
        let collect = ForwardConfig::try_from(&raw.collect)?;
        let http_tls = access::http_tls(&raw.http_tls)?;
        let alerts = AlertOptions::try_from(&raw.alerts)?;
        let watch = WatchOptions::try_from(&raw.watch)?;
        let sources = SourceOptions {
            data_dir: data_dir.clone(),
            tls: listen::tls(&listen, &raw.tls)?,
            fluent_key: listen::fluent_key(&raw.fluent_shared_key_file)?,
            listen,
            syslog_tcp: syslog_tcp(&raw.syslog)?,
            syslog_udp_sockets: raw.syslog.udp_sockets,
            syslog_zones: SyslogZones {
                udp: zones::name("syslog.udp_zone", &raw.syslog.udp_zone)?,
                tcp: zones::name("syslog.tcp_zone", &raw.syslog.tcp_zone)?,
                tls: zones::name("syslog.tls_zone", &raw.syslog.tls_zone)?,
            },
            syslog_tls: tls::syslog_tls(&raw.syslog_tls_listen, &raw.tls)?,
            node_listen,
            node_secret: node_secret.clone(),
            journald: raw.journald.enabled.then_some(JournalConfig {
                program: raw.journald.program.into(),
                units: raw.journald.units,
                directory: Some(raw.journald.directory)
                    .filter(|d| !d.is_empty())
                    .map(PathBuf::from),
                data_dir: data_dir.clone(),
            }),
            files: raw.files.iter().map(files::rule).collect::<Result<_>>()?,
            kafka: kafka::check(&raw.kafka, &data_dir)?,
        };
        let api = ApiOptions {
            hosts: http_hosts(&raw.http_listen, &raw.http_hosts)?,
            frame_ancestors: http_frame_ancestors(raw.http_frame_ancestors)?,
            is_https: http_tls.is_some(),
            access: access::access(
                &raw.access,
                &raw.limits.users,
                &raw.http_tls,
                &raw.users,
                &raw.tokens,
                &tenants,
            )?,
            auditing: access::auditing(&raw.audit, engines.is_some())?,
            insert,
            query,
            pages_max: raw.query.pages_max,
            client_idle_max,
            connections_max: HTTP_CONNECTIONS_MAX,
            memory_bytes_max: memory_bytes_max(&raw.memory.bytes_max, &query)?,
            store: store.clone(),
            summary_bucket_s: summary.bucket_s,
            alerts_url: alerts.external_url.clone(),
            dashboards_dir: (raw.dashboards_dir != "off").then(|| raw.dashboards_dir.into()),
            has_engines: engines.is_some(),
        };
        let backup = backup::check(&raw.backup)?;
        let integrity = integrity::check(&raw.integrity, &raw.backup, engines.is_some())?;
        let encryption = encryption::check(&raw.encryption, engines.is_some())?;
        let node = NodeOptions {
            types: zones::named(raw.types)?,
            zone: zones::zone("syslog.zone", &raw.syslog.zone)?,
            no_server_fields: !raw.parse.fields,
            rules: ingest_rules(tenants::resolved(raw.rules, &tenants)?)?,
            tenants,
            lookups: raw.lookups,
            sources,
            forward: ForwardConfig { secret: node_secret, ..collect },
            store,
            engines,
            parse_threads: placement.parse_threads,
            summary,
            query,
            programs: programs::options(&raw.programs_dir, &raw.awk, raw.programs, &data_dir)?,
            sinks: node::sinks::config::check(raw.sinks)?,
            alerts,
            watch,
            backup,
            integrity,
            encryption,
        };
        Ok(Config {
            http_listen: http_listen.ok_or_else(|| {
                anyhow!("http_listen cannot be off: it serves the page and answers queries")
            })?,
            otlp_listen,
            http_tls,
            placement,
            stores: stores::check(&raw.stores)?,
            kafka: engines::kafka(&raw.cluster.kafka)?,
            node,
            api,
            rules_of_tenants,
        })
    }
}

/// The macros of a configuration.
pub fn macros(raw: &RawConfig) -> Result<Vec<Macro>> {
    check_all(&raw.macros).map_err(|error| anyhow!("[[macros]]: {error}"))
}

/// The derived fields of a configuration.
pub fn derived_fields(raw: &RawConfig) -> Result<Vec<DerivedField>> {
    let fields = &raw.fields;
    ensure!(fields.len() <= DERIVED_MAX, "[[fields]]: there are more than {DERIVED_MAX}");
    let mut derived: Vec<DerivedField> = Vec::with_capacity(fields.len());
    for RawField { log_type, name, is, math } in fields {
        let is_there = |other: &DerivedField| other.name() == name && other.log_type() == log_type;
        ensure!(!derived.iter().any(is_there), "[[fields]]: {name} of {log_type} is there twice");
        let field = match (is.is_empty(), math.is_empty()) {
            (false, true) => DerivedField::alias(log_type, name, is),
            (true, false) => DerivedField::computed(log_type, name, math),
            _ => Err(format!("{name}: write either is = \"FIELD\" or math = \"EXPRESSION\"")),
        };
        derived.push(field.map_err(|error| anyhow!("[[fields]]: {error}"))?);
    }
    Ok(derived)
}

/// The rules at ingest, if they can be compiled.
fn ingest_rules(rules: Vec<RuleSpec>) -> Result<Vec<RuleSpec>> {
    let compiled = RuleSet::new(&rules, &RuleSet::default(), None);
    compiled.map_err(anyhow::Error::msg).context("[[rules]]")?;
    Ok(rules)
}

/// Limit of `insert.requests_max`: there are 1024 connections, so more could not be used.
const INSERT_REQUESTS_MAX: usize = 1024;

/// Limit of `query.pages_max`: there are 1024 connections, so more could not be used.
const PAGES_MAX: usize = 1024;

/// Least `query.client_idle_max`: less would cut off clients behind a network that pauses; above
/// the maximum it would be no limit.
const CLIENT_IDLE_MIN: Duration = Duration::from_secs(1);
const CLIENT_IDLE_MAX: Duration = Duration::from_secs(86_400);

/// Limit of `syslog.tcp_threads`: more than any network adapter can use.
const TCP_THREADS_MAX: usize = 64;

fn syslog_tcp(raw: &raw::RawSyslog) -> Result<TcpConfig> {
    ensure!(
        raw.tcp_threads <= TCP_THREADS_MAX,
        "syslog.tcp_threads must be at most {TCP_THREADS_MAX}, or 0 for a number that fits the processors"
    );
    ensure!(raw.tcp_connections_max > 0, "syslog.tcp_connections_max must be at least 1");
    let idle_timeout = unless_off(&raw.tcp_idle_max, |text| duration("syslog.tcp_idle_max", text))?;
    ensure!(
        idle_timeout.is_none_or(|idle| idle >= Duration::from_secs(1)),
        "syslog.tcp_idle_max must be at least a second, or off"
    );
    let defaults = TcpConfig::default();
    Ok(TcpConfig {
        threads: NonZero::new(raw.tcp_threads).unwrap_or(defaults.threads),
        connections_max: raw.tcp_connections_max,
        idle_timeout,
        ..defaults
    })
}

/// Checks that each is an origin, such as `https://wiki.example:8443`, and nothing else that a
/// header would understand.
fn http_frame_ancestors(origins: Vec<String>) -> Result<Vec<String>> {
    for origin in &origins {
        let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
        anyhow::ensure!(
            host.and_then(|host| Authority::parse(host.as_bytes())).is_some(),
            "http_frame_ancestors: '{origin}' is not the origin of a page; write for example \
             https://wiki.example, without a path"
        );
    }
    Ok(origins)
}

/// The configured names, and the host of `http_listen` if it is a name.
fn http_hosts(listen: &str, names: &[String]) -> Result<Vec<Authority>> {
    let listens = Authority::parse(listen.as_bytes()).filter(|a| matches!(a.host, Host::Name(_)));
    let mut hosts: Vec<Authority> = listens.into_iter().collect();
    for name in names {
        hosts.push(Authority::parse(name.as_bytes()).ok_or_else(|| {
            anyhow!(
                "http_hosts: '{name}' is not a host name; write for example logs.example, without \
                 http:// and in ASCII \
                 (xn--…), with a port only if a proxy listens on another than 80 and 443"
            )
        })?);
    }
    Ok(hosts)
}

/// Least `memory.bytes_max`: with less, every query and every large line would be refused.
const MEMORY_BYTES_MIN: u64 = 64 << 20;

/// The memory budget of the process; `auto` follows the machine.
fn memory_bytes_max(text: &str, query: &QueryOptions) -> Result<u64> {
    if text == "auto" {
        return Ok(bytes_auto(machine_bytes(), query.limits.memory_bytes_max));
    }
    let bytes_max = bytes("memory.bytes_max", text)?;
    ensure!(bytes_max >= MEMORY_BYTES_MIN, "memory.bytes_max must be at least 64MiB, or auto");
    Ok(bytes_max)
}

/// Bytes per second; `None` when off.
fn background_rate(text: &str) -> Result<Option<u64>> {
    let key = "placement.background_bytes_per_s_max";
    let rate = unless_off(text, |text| bytes(key, text))?;
    ensure!(rate != Some(0), "{key} must be above zero, or off");
    Ok(rate)
}

/// Smaller segments would be too many files.
const SEGMENT_BYTES_MIN: u64 = 1 << 20;
/// Larger segments would make retention, which deletes whole segments, too coarse.
const SEGMENT_BYTES_MAX: u64 = 64 << 30;

/// A size; the error names the key.
fn bytes(key: &str, text: &str) -> Result<u64> {
    text::size::parse_setting(text).map_err(|error| anyhow!("{key}: {error}"))
}

/// Checks a rule of retention and parses its filter.
fn retention_rule(raw: &RawRetentionRule) -> Result<RetentionRule> {
    line_filter(&raw.filter, 0)
        .map_err(|error| anyhow!("retention.rules: the filter '{}': {error}", raw.filter))?;
    let age = duration("retention.rules.age", &raw.age)?;
    ensure!(!age.is_zero(), "retention.rules.age must be above zero");
    Ok(RetentionRule { filter: raw.filter.clone(), age_ns: text::duration::ns(age) })
}

/// A duration; the error names the key.
fn duration(key: &str, text: &str) -> Result<Duration> {
    text::duration::parse_setting(text).map_err(|error| anyhow!("{key}: {error}"))
}

/// A duration of whole seconds, between `least` and a year.
fn seconds(key: &str, text: &str, least: u64) -> Result<u64> {
    let value = duration(key, text)?;
    ensure!(
        value.subsec_nanos() == 0 && (least..=366 * 86_400).contains(&value.as_secs()),
        "{key} must be a whole number of seconds, at least {least}s and at most a year"
    );
    Ok(value.as_secs())
}

fn unless_off<T>(text: &str, parse: impl FnOnce(&str) -> Result<T>) -> Result<Option<T>> {
    if text == "off" { Ok(None) } else { parse(text).map(Some) }
}

/// Reads `HOST:PORT` or `off`. A host name is looked up once.
fn parse_listen(key: &str, text: &str) -> Result<Option<SocketAddr>> {
    unless_off(text, |text| {
        let mut addresses = text.to_socket_addrs().with_context(|| {
            format!("{key}: '{text}' is not an address; write for example 127.0.0.1:5514, [::]:5514 or off")
        })?;
        addresses.next().ok_or_else(|| anyhow!("{key}: the host name in '{text}' has no address"))
    })
}

#[cfg(test)]
mod tests {
    use record::TypeRule;

    use super::*;

    #[test]
    fn the_defaults_make_sense() {
        let raw = RawConfig {
            syslog_udp_listen: "off".into(),
            syslog_tcp_listen: "off".into(),
            ..RawConfig::default()
        };
        let config = Config::try_from(raw).unwrap();
        assert!(config.http_listen.ip().is_loopback());
        // Threads, cache and queue follow the machine.
        let mut node = NodeOptions::new("./loginson-data");
        node.parse_threads = config.placement.parse_threads;
        node.store.sealing_threads = config.placement.sealing_threads;
        node.store.cache_bytes_max = config.node.store.cache_bytes_max;
        node.store.queue_bytes_max = config.node.store.queue_bytes_max;
        node.query.limits.threads = config.node.query.limits.threads;
        assert!(node.query.limits.threads > 0);
        assert_eq!(format!("{:#?}", config.node), format!("{node:#?}"));
        assert_eq!(format!("{:#?}", config.api), format!("{:#?}", ApiOptions::new(&node)));
    }

    #[test]
    fn a_collector_of_a_cluster_is_no_server() {
        let mut raw = RawConfig::default();
        assert!(Config::try_from(raw.clone()).unwrap().allow_serving().is_ok());
        raw.cluster.kafka.brokers = vec!["a:9092".into()];
        let error = Config::try_from(raw).unwrap().allow_serving().unwrap_err();
        assert!(error.to_string().contains("`loginson collect --config FILE`"), "{error}");
    }

    #[test]
    fn wrong_values_name_their_key() {
        let check = |change: fn(&mut RawConfig), expected: &str| {
            let mut raw = RawConfig::default();
            change(&mut raw);
            let error = format!("{:#}", Config::try_from(raw).unwrap_err());
            assert!(error.contains(expected), "{error}");
        };
        check(|c| c.http_listen = "off".into(), "http_listen cannot be off");
        for origin in [
            "wiki.example",
            "https://wiki.example/path",
            "https://a b",
            "https://a; script-src *",
            "'self'",
            "*",
            "",
        ] {
            let error = http_frame_ancestors(vec![origin.to_owned()]).unwrap_err().to_string();
            assert!(error.contains("is not the origin of a page"), "{error}");
        }
        for name in ["http://logs.example", "a b", "*", "", "büro.example", "user@logs.example"] {
            let error = http_hosts("off", &[name.to_owned()]).unwrap_err().to_string();
            assert!(error.contains("http_hosts: '"), "{error}");
        }
        check(
            |c| c.syslog_tcp_listen = "5514".into(),
            "syslog_tcp_listen: '5514' is not an address",
        );
        check(|c| c.otlp_listen = vec!["4317".into()], "otlp_listen: '4317' is not an address");
        let many = |c: &mut RawConfig| c.otlp_listen = vec!["127.0.0.1:0".into(); 9];
        check(many, "otlp_listen has 9 addresses; the limit is 8");
        check(|c| c.retention.age = "30".into(), "retention.age: '30' is not a duration");
        check(|c| c.retention.bytes = "much".into(), "retention.bytes: 'much' is not a size");
        fn rule(c: &mut RawConfig, filter: &str, age: &str) {
            c.retention.rules = vec![RawRetentionRule { filter: filter.into(), age: age.into() }];
        }
        check(|c| rule(c, "(", "1d"), "retention.rules: the filter '('");
        check(|c| rule(c, "a | limit 1", "1d"), "a filter of lines has no pipes");
        check(|c| rule(c, "a", "soon"), "retention.rules.age: 'soon' is not a duration");
        check(|c| rule(c, "a", "0s"), "retention.rules.age must be above zero");
        for age in ["0s", "0d"] {
            let raw = RawConfig::parse(&format!("retention.age = '{age}'")).unwrap();
            let error = format!("{:#}", Config::try_from(raw).unwrap_err());
            assert!(error.contains("retention.age must be above zero"), "{error}");
        }
        for (bytes, good) in [("0", false), ("0B", false), ("8191KiB", false), ("8MiB", true)] {
            let raw = RawConfig::parse(&format!("retention.bytes = '{bytes}'")).unwrap();
            let error = Config::try_from(raw).err().map(|error| format!("{error:#}"));
            assert_eq!(error.is_none(), good, "{bytes}: {error:?}");
            assert!(error.is_none_or(|said| said.starts_with("retention.bytes is ")), "{bytes}");
        }
        check(|c| c.summary.bucket = "500ms".into(), "summary.bucket must be");
        check(|c| c.insert.requests_max = 0, "insert.requests_max must be");
        check(|c| c.insert.idle_max = "0s".into(), "insert.idle_max must be");
        check(|c| c.query.concurrent_max = 0, "query.concurrent_max must be");
        check(|c| c.query.background_concurrent_max = 0, "query.background_concurrent_max must be");
        check(|c| c.query.result_bytes_max = "x".into(), "query.result_bytes_max: 'x'");
        check(|c| c.query.answers_bytes_max = "-1".into(), "query.answers_bytes_max: '-1'");
        check(|c| c.query.slow = "long".into(), "query.slow: 'long'");
        let idle = "query.client_idle_max must be between 1s and 1d";
        check(|c| c.query.client_idle_max = "999ms".into(), idle);
        check(|c| c.query.client_idle_max = "25h".into(), idle);
        check(|c| c.memory.bytes_max = "63MiB".into(), "memory.bytes_max must be at least 64MiB");
        check(|c| c.memory.bytes_max = "off".into(), "memory.bytes_max: 'off'");
        check(|c| c.query.pages_max = 0, "query.pages_max must be between 1 and 1024");
        check(|c| c.query.pages_max = 1025, "query.pages_max must be between 1 and 1024");
        check(
            |c| c.placement.background_bytes_per_s_max = "0MiB".into(),
            "placement.background_bytes_per_s_max must be above zero",
        );
        check(|c| c.store.segment_bytes_max = "1kB".into(), "store.segment_bytes_max must be");
        check(|c| c.syslog.zone = "CEST".into(), "syslog.zone: 'CEST' is no time zone");
        check(|c| c.syslog.tcp_zone = "Rome".into(), "syslog.tcp_zone: 'Rome' is no time zone");
        let rule =
            || TypeRule { name: "x".into(), zone: Some("local".into()), ..TypeRule::default() };
        assert_ne!(zones::named(vec![rule()]).unwrap()[0].zone.as_deref(), Some("local"));
        check(|c| c.syslog.udp_sockets = 65, "syslog.udp_sockets must be at most 64");
        check(|c| c.syslog.tcp_threads = 65, "syslog.tcp_threads must be at most 64");
        check(
            |c| c.syslog.tcp_connections_max = 0,
            "syslog.tcp_connections_max must be at least 1",
        );
        check(
            |c| c.syslog.tcp_idle_max = "999ms".into(),
            "syslog.tcp_idle_max must be at least a second",
        );
    }

    #[test]
    fn tenants_keep_their_retention_until_a_restart() {
        let read = |text: &str| Config::try_from(RawConfig::parse(text).unwrap()).unwrap();
        let start = read(
            "retention.age = '90d'\n[[retention.rules]]\nfilter = 'a'\nage = '1d'\n\
             [[tenants]]\nid = '1:0'\nretention = '30d'\n",
        );
        assert_eq!(start.retention_since(&start), start.node.store.retention());
        let days = |days: i64| days * text::duration::DAY_NS;
        let rule =
            |filter: &str, age: i64| RetentionRule { filter: filter.to_owned(), age_ns: days(age) };
        let of_tenant = rule("_tenant:=\"1:0\"", 30);
        // One is kept shorter, one is new, and one is gone.
        for tenants in [
            "[[tenants]]\nid = '1:0'\nretention = '3d'\n",
            "[[tenants]]\nid = '1:0'\nretention = '30d'\n\
             [[tenants]]\nid = '2:0'\nretention = '3d'\n",
            "[[tenants]]\nid = '1:0'\n",
        ] {
            let fresh = read(&format!(
                "retention.age = '60d'\n[[retention.rules]]\nfilter = 'b'\nage = '2d'\n{tenants}"
            ));
            let expected = Retention {
                age_ns: Some(days(60)),
                bytes_max: None,
                rules: vec![rule("b", 2), of_tenant.clone()],
            };
            assert_eq!(fresh.retention_since(&start), expected, "{tenants}");
        }
    }

    #[test]
    fn names_of_the_server() {
        let check = |listen: &str, names: &[&str], expected: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            let hosts = http_hosts(listen, &names).unwrap();
            let hosts: Vec<String> = hosts.iter().map(Authority::to_string).collect();
            assert_eq!(hosts, expected);
        };
        check("127.0.0.1:9514", &[], &[]);
        check(
            "[::]:9514",
            &["Logs.Example", "x.example:8443"],
            &["logs.example", "x.example:8443"],
        );
        check("logs1:9514", &[], &["logs1:9514"]);
    }

    #[test]
    fn off_disables_a_source() {
        let raw = RawConfig { syslog_udp_listen: "off".into(), ..RawConfig::default() };
        assert_eq!(Config::try_from(raw).unwrap().node.sources.listen.syslog_udp, None);
    }
}
