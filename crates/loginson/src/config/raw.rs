//! The configuration file as it is written: text and numbers, not yet checked.
//!
//! [`RawConfig::default`] is the source of the documented defaults: a test compares it with
//! `docs/configuration.md`, key by key.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use api::access::limits::LimitsText;
use api::access::rights::RightsText;
use node::ingest::rules::RuleSpec;
use node::lookups::LookupSpec;
use node::saved_views::macros::MacroSpec;
use record::TypeRule;
use record::parse::FieldNames;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::config::alerts::RawAlerts;
use crate::config::backup::RawBackup;
use crate::config::collect::RawCollect;
use crate::config::directories::RawLdap;
use crate::config::encryption::RawEncryption;
use crate::config::engines::RawCluster;
use crate::config::integrity::RawIntegrity;
use crate::config::kafka::RawTopics;
use crate::config::logins::{RawGroupRule, RawOidc, RawProxy};
use crate::config::placement::RawPlacement;
use crate::config::programs::{RawAwk, RawProgram};
use crate::config::stores::RawStores;
use crate::config::watch::RawWatch;
use text::nearest::nearest;

/// The whole file. Unknown keys are errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawConfig {
    pub data_dir: PathBuf,
    pub http_listen: String,
    pub http_hosts: Vec<String>,
    pub http_frame_ancestors: Vec<String>,
    pub http_tls: RawHttpTls,
    pub access: RawAccess,
    pub audit: RawAudit,
    pub syslog_udp_listen: String,
    pub syslog_tcp_listen: String,
    pub syslog_tls_listen: String,
    pub fluent_listen: String,
    pub fluent_shared_key_file: String,
    pub beats_listen: String,
    pub relp_listen: String,
    pub statsd_listen: String,
    pub otlp_listen: Vec<String>,
    pub tls: RawTls,
    pub node_listen: String,
    pub node_secret_file: String,
    pub programs_dir: String,
    pub dashboards_dir: String,
    pub retention: RawRetention,
    pub store: RawStore,
    pub insert: RawInsert,
    pub query: RawQuery,
    pub limits: RawLimits,
    pub memory: RawMemory,
    pub summary: RawSummary,
    pub awk: RawAwk,
    pub alerts: RawAlerts,
    pub watch: RawWatch,
    pub backup: RawBackup,
    pub integrity: RawIntegrity,
    pub encryption: RawEncryption,
    pub syslog: RawSyslog,
    pub parse: RawParse,
    pub journald: RawJournald,
    pub placement: RawPlacement,
    pub collect: RawCollect,
    pub stores: RawStores,
    pub cluster: RawCluster,
    #[serde(skip_serializing)]
    pub users: Vec<RawUser>,
    #[serde(skip_serializing)]
    pub tokens: Vec<RawToken>,
    #[serde(skip_serializing)]
    pub tenants: Vec<RawTenant>,
    #[serde(skip_serializing)]
    pub types: Vec<TypeRule>,
    #[serde(skip_serializing)]
    pub rules: Vec<RuleSpec>,
    #[serde(skip_serializing)]
    pub lookups: Vec<LookupSpec>,
    #[serde(skip_serializing)]
    pub macros: Vec<MacroSpec>,
    #[serde(skip_serializing)]
    pub fields: Vec<RawField>,
    #[serde(skip_serializing)]
    pub files: Vec<RawFiles>,
    #[serde(skip_serializing)]
    pub kafka: Vec<RawTopics>,
    #[serde(skip_serializing)]
    pub programs: Vec<RawProgram>,
    #[serde(skip_serializing)]
    pub sinks: Vec<toml::Table>,
}

/// `[[fields]]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawField {
    #[serde(rename = "type")]
    pub log_type: String,
    pub name: String,
    #[serde(default)]
    pub is: String,
    #[serde(default)]
    pub math: String,
}

/// `[http_tls]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawHttpTls {
    pub certificate: String,
    pub key: String,
    pub client_ca: String,
    pub client_certificates: String,
    pub client_name: String,
}

impl Default for RawHttpTls {
    fn default() -> Self {
        let off = || "off".to_owned();
        RawHttpTls {
            certificate: off(),
            key: off(),
            client_ca: off(),
            client_certificates: off(),
            client_name: "cn".into(),
        }
    }
}

/// `[access]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawAccess {
    pub session_max: String,
    pub external_url: String,
    pub proxy: RawProxy,
    #[serde(skip_serializing)]
    pub oidc: Vec<RawOidc>,
    #[serde(skip_serializing)]
    pub ldap: Vec<RawLdap>,
    #[serde(skip_serializing)]
    pub groups: Vec<RawGroupRule>,
}

impl Default for RawAccess {
    fn default() -> Self {
        RawAccess {
            session_max: "12h".into(),
            external_url: "off".into(),
            proxy: RawProxy::default(),
            oidc: Vec::new(),
            ldap: Vec::new(),
            groups: Vec::new(),
        }
    }
}

/// `[audit]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawAudit {
    pub enabled: bool,
    pub admins_read: bool,
}

/// `[[users]]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawUser {
    pub name: String,
    #[serde(default)]
    pub password_hash: Option<String>,
    #[serde(default)]
    pub password_hash_file: Option<String>,
    pub role: String,
    /// The lines that it sees, as a filter of LogsQL.
    #[serde(default)]
    pub filter: Option<String>,
    /// The fields that it does not see; `NAME*` for all that begin with a name.
    #[serde(default)]
    pub hide_fields: Vec<String>,
    /// Limits of its queries; what is missing is that of `[limits.users]`.
    #[serde(default)]
    pub limits: LimitsText,
    /// The tenant whose lines it writes and reads.
    #[serde(default)]
    pub tenant: Option<String>,
}

impl RawUser {
    /// The rights, which are not checked yet.
    pub fn rights(&self) -> RightsText {
        RightsText {
            role: self.role.clone(),
            filter: self.filter.clone(),
            hide_fields: self.hide_fields.clone(),
            limits: self.limits.clone(),
            tenant: self.tenant.clone(),
        }
    }
}

/// `[[tokens]]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawToken {
    pub name: String,
    #[serde(default)]
    pub sha256: Option<String>,
    #[serde(default)]
    pub sha256_file: Option<String>,
    pub role: String,
    /// The lines that it sees, as a filter of LogsQL.
    #[serde(default)]
    pub filter: Option<String>,
    /// The fields that it does not see; `NAME*` for all that begin with a name.
    #[serde(default)]
    pub hide_fields: Vec<String>,
    /// Limits of its queries; what is missing is that of `[limits.users]`.
    #[serde(default)]
    pub limits: LimitsText,
    /// The tenant whose lines it writes and reads.
    #[serde(default)]
    pub tenant: Option<String>,
}

impl RawToken {
    /// The rights, which are not checked yet.
    pub fn rights(&self) -> RightsText {
        RightsText {
            role: self.role.clone(),
            filter: self.filter.clone(),
            hide_fields: self.hide_fields.clone(),
            limits: self.limits.clone(),
            tenant: self.tenant.clone(),
        }
    }
}

/// `[[tenants]]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawTenant {
    pub id: String,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub listeners: Vec<String>,
    #[serde(default)]
    pub retention: Option<String>,
    #[serde(default)]
    pub bytes_per_s: Option<String>,
    #[serde(default)]
    pub lines_per_s: Option<u64>,
    #[serde(default)]
    pub queries_max: Option<usize>,
    #[serde(default)]
    pub query_memory_bytes_max: Option<String>,
    #[serde(default)]
    pub tails_max: Option<usize>,
    #[serde(default)]
    pub background_max: Option<usize>,
    #[serde(default)]
    pub results_bytes_max: Option<String>,
    #[serde(default)]
    pub disk_bytes_max: Option<String>,
}

/// `[memory]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawMemory {
    /// limits.md, Queries: memory of all queries, tails, answers and request bodies |
    /// `memory.bytes_max` | work that finds it used up is refused and does not wait: a query or
    /// tail ends with an error that names the setting, an ingest request gets 503; a quarter is
    /// kept for these requests (`loginson_memory_refused_total`)
    pub bytes_max: String,
}

impl Default for RawMemory {
    fn default() -> Self {
        RawMemory { bytes_max: "auto".into() }
    }
}

/// `[journald]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawJournald {
    pub enabled: bool,
    pub units: Vec<String>,
    pub directory: String,
    pub program: String,
}

impl Default for RawJournald {
    fn default() -> Self {
        RawJournald {
            enabled: false,
            units: Vec::new(),
            directory: String::new(),
            program: "journalctl".into(),
        }
    }
}

/// `[[files]]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawFiles {
    pub paths: Vec<String>,
    #[serde(default)]
    pub exclude: Vec<String>,
    #[serde(default, rename = "type")]
    pub log_type: Option<String>,
    #[serde(default)]
    pub format: Option<String>,
    #[serde(default)]
    pub time_field: FieldNames,
    #[serde(default)]
    pub msg_field: FieldNames,
    #[serde(default)]
    pub level_field: FieldNames,
    #[serde(default)]
    pub zone: Option<String>,
    #[serde(default)]
    pub fields: BTreeMap<String, String>,
    #[serde(default)]
    pub fields_env: BTreeMap<String, String>,
    #[serde(default)]
    pub path_fields: Option<String>,
    #[serde(default)]
    pub start: Option<String>,
    #[serde(default)]
    pub multiline: Option<RawMultiline>,
    #[serde(default)]
    pub record_bytes_max: Option<String>,
    #[serde(default)]
    pub record_lines_max: Option<usize>,
    #[serde(default)]
    pub record_age: Option<String>,
    #[serde(default)]
    pub line_age: Option<String>,
}

/// `multiline` of `[[files]]`
#[derive(Clone, Debug, PartialEq)]
pub enum RawMultiline {
    Word(String),
    Rule(RawMultilineRule),
}

/// `multiline` of `[[files]]` with a regular expression
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawMultilineRule {
    pub start: Option<String>,
    pub r#continue: Option<String>,
}

/// By hand, so that an error names the key that is wrong.
impl<'de> Deserialize<'de> for RawMultiline {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Wanted;
        impl<'de> Visitor<'de> for Wanted {
            type Value = RawMultiline;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"traces\", \"off\", or a table with start or continue")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<RawMultiline, E> {
                Ok(RawMultiline::Word(word.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawMultiline, A::Error> {
                let rule = MapAccessDeserializer::new(map);
                RawMultilineRule::deserialize(rule).map(RawMultiline::Rule)
            }
        }
        deserializer.deserialize_any(Wanted)
    }
}

impl RawFiles {
    /// A rule for files of these patterns, as `--follow` gives them.
    pub fn new(paths: Vec<String>) -> Self {
        RawFiles {
            paths,
            exclude: Vec::new(),
            log_type: None,
            format: None,
            time_field: FieldNames::default(),
            msg_field: FieldNames::default(),
            level_field: FieldNames::default(),
            zone: None,
            fields: BTreeMap::new(),
            fields_env: BTreeMap::new(),
            path_fields: None,
            start: None,
            multiline: None,
            record_bytes_max: None,
            record_lines_max: None,
            record_age: None,
            line_age: None,
        }
    }
}

/// `[tls]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawTls {
    pub certificate: String,
    pub key: String,
    pub client_ca: String,
    pub client_certificates: String,
}

/// `[retention]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawRetention {
    pub age: String,
    pub bytes: String,
    #[serde(skip_serializing)]
    pub rules: Vec<RawRetentionRule>,
}

/// `[[retention.rules]]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawRetentionRule {
    pub filter: String,
    pub age: String,
}

/// `[store]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawStore {
    pub segment_bytes_max: String,
    pub segment_age: String,
    /// limits.md, Lines on their way in: frames waiting for the writer | `store.queue_bytes_max`,
    /// at most 64 MiB | delivery blocks: TCP senders are pushed back; datagrams wait in the
    /// kernel's buffer, where those that do not fit are dropped and counted
    pub queue_bytes_max: String,
    pub cache_bytes_max: String,
    pub commit_interval: String,
    /// limits.md, The disk and sealing: free space | `store.disk_free_bytes_min`, and a quarter of
    /// the largest unsealed segment | in this order: closed segments, and the active one, are
    /// sealed at once; segments beyond the limits of retention are deleted, nothing else; TCP
    /// waits; HTTP is refused with 507 and `/ready` says 503. Sealing, and rows of the summary, may
    /// use the reserve. Everything resumes by itself when there is space
    pub disk_free_bytes_min: String,
    /// limits.md, The disk and sealing: sealing backlog | `store.backlog_bytes_max`, 4 GiB |
    /// sealing stops giving way to ingest and queries (`loginson_seal_lag_bytes`,
    /// `loginson_seal_urgent_total`). With `retention.bytes`, the youngest segment is sealed first
    /// where the oldest would be deleted meanwhile
    pub backlog_bytes_max: String,
    pub reencode: bool,
    pub reencode_age: String,
    pub collector_age: String,
}

/// `[insert]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawInsert {
    /// limits.md, Lines on their way in: ingest requests | `insert.requests_max`, 128 | a request
    /// whose sender pauses lends its slot; if no slot is free, the slowest of those that hold much
    /// is ended (408), else a further request is answered with 503
    pub requests_max: usize,
    pub idle_max: String,
    pub bytes_per_s_min: String,
    pub github_secret_file: String,
}

/// `[query]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawQuery {
    /// limits.md, Queries: queries at a time | `query.concurrent_max` | they wait in order, at most
    /// `query.wait_max`; beyond `query.waiting_max` they are refused with 429
    pub concurrent_max: usize,
    pub waiting_max: usize,
    pub wait_max: String,
    pub tails_max: usize,
    /// limits.md, Queries: time, memory or rows of a query | `query.run_max`,
    /// `query.memory_bytes_max`, `query.rows_max` | it ends with a message that names the setting
    pub run_max: String,
    /// limits.md, Queries: a paused query | `query.pause_max`, an hour | it ends and gives its
    /// memory and files back; a background query can be resumed
    pub pause_max: String,
    pub memory_bytes_max: String,
    pub rows_max: u64,
    pub threads: usize,
    pub background_concurrent_max: usize,
    pub background_waiting_max: usize,
    pub background_run_max: String,
    /// limits.md, Queries: rows of a background query | `query.result_bytes_max`, 256 MiB; 1 GiB of
    /// all | the query ends with a message that names the setting, likewise when the disk is full;
    /// rows found so far can be fetched
    pub result_bytes_max: String,
    pub result_bytes_total_max: String,
    pub results_keep: String,
    pub pages_max: usize,
    /// limits.md, Queries: a client that takes no byte of an answer | `query.client_idle_max`, five
    /// minutes | its connection is ended and its query cancelled with that reason; a page of
    /// results gives its place back (`loginson_http_clients_stalled_total`)
    pub client_idle_max: String,
    pub answers_bytes_max: String,
    pub slow: String,
}

/// `[limits]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawLimits {
    /// limits.md, Queries: queries, tails, time, memory, rows and kept results of one user, token
    /// or address | `[limits.users]`, or `limits` of a user or token; none | refused with 429, or
    /// the query ends with a message that names the limit
    pub users: RawUserLimits,
}

/// `[limits.users]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawUserLimits {
    pub queries_max: usize,
    pub background_max: usize,
    pub tails_max: usize,
    pub run_max: String,
    pub memory_bytes_max: String,
    pub rows_max: u64,
    pub results_bytes_max: String,
}

impl Default for RawUserLimits {
    fn default() -> Self {
        let off = || "off".to_owned();
        RawUserLimits {
            queries_max: 0,
            background_max: 0,
            tails_max: 0,
            run_max: off(),
            memory_bytes_max: off(),
            rows_max: 0,
            results_bytes_max: off(),
        }
    }
}

impl RawUserLimits {
    /// The limits, which are not checked yet; 0 and `off` are none.
    pub fn text(&self) -> LimitsText {
        let text = |text: &str| (text != "off").then(|| text.to_owned());
        let count = |count: usize| (count > 0).then_some(count);
        LimitsText {
            queries_max: count(self.queries_max),
            background_max: count(self.background_max),
            tails_max: count(self.tails_max),
            run_max: text(&self.run_max),
            memory_bytes_max: text(&self.memory_bytes_max),
            rows_max: (self.rows_max > 0).then_some(self.rows_max),
            results_bytes_max: text(&self.results_bytes_max),
        }
    }
}

/// `[summary]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawSummary {
    pub bucket: String,
    /// limits.md, The disk and sealing: hosts or applications of a summary bucket |
    /// `summary.values_max`, 100 | the largest are kept apart, the rest is counted as `other`
    pub values_max: usize,
    pub flush_interval: String,
    pub flush_delay: String,
}

/// `[syslog]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawSyslog {
    pub zone: String,
    pub udp_zone: String,
    pub tcp_zone: String,
    pub tls_zone: String,
    pub udp_sockets: usize,
    pub tcp_threads: usize,
    pub tcp_connections_max: usize,
    pub tcp_idle_max: String,
}

/// `[parse]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawParse {
    pub fields: bool,
}

impl Default for RawParse {
    fn default() -> Self {
        RawParse { fields: true }
    }
}

impl Default for RawConfig {
    fn default() -> Self {
        RawConfig {
            data_dir: "./loginson-data".into(),
            http_listen: "127.0.0.1:9514".into(),
            http_hosts: Vec::new(),
            http_frame_ancestors: Vec::new(),
            http_tls: RawHttpTls::default(),
            access: RawAccess::default(),
            audit: RawAudit::default(),
            syslog_udp_listen: "127.0.0.1:5514".into(),
            syslog_tcp_listen: "127.0.0.1:5514".into(),
            syslog_tls_listen: "auto".into(),
            fluent_listen: "off".into(),
            fluent_shared_key_file: "off".into(),
            beats_listen: "off".into(),
            relp_listen: "off".into(),
            statsd_listen: "off".into(),
            otlp_listen: Vec::new(),
            tls: RawTls::default(),
            node_listen: "off".into(),
            node_secret_file: "off".into(),
            programs_dir: "auto".into(),
            dashboards_dir: "off".into(),
            retention: RawRetention::default(),
            store: RawStore::default(),
            insert: RawInsert::default(),
            query: RawQuery::default(),
            limits: RawLimits::default(),
            memory: RawMemory::default(),
            summary: RawSummary::default(),
            awk: RawAwk::default(),
            alerts: RawAlerts::default(),
            watch: RawWatch::default(),
            backup: RawBackup::default(),
            integrity: RawIntegrity::default(),
            encryption: RawEncryption::default(),
            syslog: RawSyslog::default(),
            parse: RawParse::default(),
            journald: RawJournald::default(),
            placement: RawPlacement::default(),
            collect: RawCollect::default(),
            stores: RawStores::default(),
            cluster: RawCluster::default(),
            users: Vec::new(),
            tokens: Vec::new(),
            tenants: Vec::new(),
            types: Vec::new(),
            rules: Vec::new(),
            lookups: Vec::new(),
            macros: Vec::new(),
            fields: Vec::new(),
            files: Vec::new(),
            kafka: Vec::new(),
            programs: Vec::new(),
            sinks: Vec::new(),
        }
    }
}

impl Default for RawTls {
    fn default() -> Self {
        RawTls {
            certificate: "off".into(),
            key: "off".into(),
            client_ca: "off".into(),
            client_certificates: "off".into(),
        }
    }
}

impl Default for RawRetention {
    fn default() -> Self {
        RawRetention { age: "off".into(), bytes: "off".into(), rules: Vec::new() }
    }
}

impl Default for RawStore {
    fn default() -> Self {
        RawStore {
            segment_bytes_max: "1GiB".into(),
            segment_age: "30s".into(),
            queue_bytes_max: "auto".into(),
            cache_bytes_max: "auto".into(),
            commit_interval: "10ms".into(),
            disk_free_bytes_min: "256MiB".into(),
            backlog_bytes_max: "4GiB".into(),
            reencode: true,
            reencode_age: "1d".into(),
            collector_age: "30d".into(),
        }
    }
}

impl Default for RawInsert {
    fn default() -> Self {
        RawInsert {
            requests_max: 128,
            idle_max: "30s".into(),
            bytes_per_s_min: "16B".into(),
            github_secret_file: "off".into(),
        }
    }
}

impl Default for RawQuery {
    fn default() -> Self {
        RawQuery {
            concurrent_max: 4,
            waiting_max: 32,
            wait_max: "10s".into(),
            tails_max: 100,
            run_max: "1m".into(),
            pause_max: "1h".into(),
            memory_bytes_max: "512MiB".into(),
            rows_max: 10_000_000,
            threads: 0,
            background_concurrent_max: 2,
            background_waiting_max: 32,
            background_run_max: "1d".into(),
            answers_bytes_max: "64MiB".into(),
            result_bytes_max: "256MiB".into(),
            result_bytes_total_max: "1GiB".into(),
            results_keep: "1d".into(),
            pages_max: 16,
            client_idle_max: "5m".into(),
            slow: "10s".into(),
        }
    }
}

impl Default for RawSummary {
    fn default() -> Self {
        RawSummary {
            bucket: "10s".into(),
            values_max: 100,
            flush_interval: "10s".into(),
            flush_delay: "2s".into(),
        }
    }
}

impl Default for RawSyslog {
    fn default() -> Self {
        RawSyslog {
            zone: "UTC".into(),
            udp_zone: String::new(),
            tcp_zone: String::new(),
            tls_zone: String::new(),
            udp_sockets: 0,
            tcp_threads: 0,
            tcp_connections_max: collector::stream::CONNECTIONS_MAX,
            tcp_idle_max: "off".into(),
        }
    }
}

impl RawConfig {
    /// Parses the text of a configuration file. The error names line, key and, for an unknown key,
    /// the nearest known one.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| {
            let line = error
                .span()
                .map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
            format!("line {line}: {}", explain(&error))
        })
    }
}

/// What is wrong; of an unknown key with the nearest known one.
pub fn explain(error: &toml::de::Error) -> String {
    match unknown_key(error.message()) {
        Some((key, known)) => {
            let hint = match nearest(key, known.iter().copied()) {
                Some(word) => format!("did you mean '{word}'?"),
                None => format!("known keys here: {}", known.join(", ")),
            };
            format!("unknown key '{key}'; {hint}")
        }
        None => error.message().to_owned(),
    }
}

/// Splits serde's message into the unknown key and the known ones.
fn unknown_key(message: &str) -> Option<(&str, Vec<&str>)> {
    let mut quoted = message.strip_prefix("unknown field ")?.split('`').skip(1).step_by(2);
    Some((quoted.next()?, quoted.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_line_key_and_remedy() {
        for (text, expected) in [
            (
                "data_dir = 'x'\nhttp_lisen = ':1'\n",
                "line 2: unknown key 'http_lisen'; did you mean 'http_listen'?",
            ),
            (
                "[retention]\nage = '1d'\n\nbites = '1'\n",
                "line 4: unknown key 'bites'; did you mean 'bytes'?",
            ),
            (
                "[retention]\ncolour = 'red'\n",
                "line 2: unknown key 'colour'; known keys here: age, bytes, rules",
            ),
            (
                "[query]\nconcurrent_max = 'many'\n",
                "line 2: invalid type: string \"many\", expected usize",
            ),
            (
                "[query]\nrun_s_max = 7\n",
                "line 2: unknown key 'run_s_max'; did you mean 'run_max'?",
            ),
            ("[query]\nrun_max = 7\n", "line 2: invalid type: integer `7`, expected a string"),
            ("x = [\n", "line "),
        ] {
            let error = RawConfig::parse(text).unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    #[test]
    fn nothing_written_means_the_defaults() {
        assert_eq!(RawConfig::parse("").unwrap(), RawConfig::default());
        assert_eq!(RawConfig::parse("[query]\n").unwrap(), RawConfig::default());
    }

    /// The first TOML block of the page is the whole file with every default.
    #[test]
    fn the_documented_keys_are_the_known_keys() {
        let page = include_str!("../../../../docs/configuration.md");
        let block = page
            .split("```toml\n")
            .nth(1)
            .and_then(|rest| rest.split("```").next())
            .expect("a TOML block");
        let documented: toml::Table = toml::from_str(block).expect("the documented file is TOML");
        let known = toml::Table::try_from(RawConfig::default()).expect("defaults are plain values");
        assert_eq!(documented, known);
    }

    /// Every block of TOML in the documents is a configuration.
    #[test]
    fn the_documented_settings_are_accepted() {
        let mut pages = Vec::new();
        let mut folders = vec![PathBuf::from("../../docs")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|end| end == "md") {
                    pages.push(path);
                }
            }
        }
        let mut blocks = 0;
        for page in pages {
            let text = std::fs::read_to_string(&page).unwrap();
            for block in text.split("```toml").skip(1) {
                // The rest of the first line may name a file.
                let (_, block) = block.split_once('\n').unwrap();
                let block = block.split("```").next().unwrap();
                RawConfig::parse(block)
                    .unwrap_or_else(|error| panic!("{}: {error}:\n{block}", page.display()));
                blocks += 1;
            }
        }
        assert!(blocks > 15, "{blocks} blocks");
    }
}
