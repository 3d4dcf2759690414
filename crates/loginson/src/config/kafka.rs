//! `[[kafka]]`: topics of Kafka that are read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use cluster::engines::Secret;
use cluster::engines::kafka::{Config, Mechanism, Sasl, Tls};
use cluster::engines::roots::Identity;
use collector::kafka::{Asked, KafkaConfig, ValueFormat};
use node::ingest::sources::kafka::KafkaSourceOptions;
use record::parse::TYPE_NAME_BYTES_MAX;
use serde::Deserialize;

use crate::config::engines::secret;
use crate::config::zones;

/// Most of these sections; each has a thread, and connections of its own.
///
/// limits.md, Lines on their way in: sections of `[[kafka]]` | {} | the configuration is refused
const SECTIONS_MAX: usize = 16;
/// The longest name of a topic, as Kafka has it, and of a group.
const NAME_BYTES_MAX: usize = 249;

/// `[[kafka]]` as written in the file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawTopics {
    pub brokers: Vec<String>,
    pub topics: Vec<String>,
    #[serde(default = "group")]
    pub group: String,
    #[serde(default = "earliest")]
    pub start: String,
    #[serde(default = "auto")]
    pub format: String,
    #[serde(default)]
    pub record_fields: Vec<String>,
    #[serde(default, rename = "type")]
    pub log_type: Option<String>,
    #[serde(default)]
    pub zone: Option<String>,
    #[serde(default)]
    pub fields: BTreeMap<String, String>,
    #[serde(default)]
    pub tls: bool,
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    #[serde(default)]
    pub certificate_file: Option<PathBuf>,
    #[serde(default)]
    pub key_file: Option<PathBuf>,
    #[serde(default = "login")]
    pub login: String,
    #[serde(default)]
    pub user: Option<String>,
    #[serde(default)]
    pub password_file: Option<PathBuf>,
}

fn group() -> String {
    "loginson".into()
}

fn earliest() -> String {
    "earliest".into()
}

fn auto() -> String {
    "auto".into()
}

fn login() -> String {
    "scram-sha-512".into()
}

/// Checks the sections.
pub fn check(raw: &[RawTopics], data_dir: &Path) -> Result<Vec<KafkaSourceOptions>> {
    ensure!(raw.len() <= SECTIONS_MAX, "there are more than {SECTIONS_MAX} sections [[kafka]]");
    for (at, topics) in raw.iter().enumerate() {
        ensure!(
            raw[..at].iter().all(|other| other.group != topics.group),
            "kafka.group: '{}' stands in two sections [[kafka]]; give each a group of its own, or one section both topics",
            topics.group
        );
    }
    raw.iter().map(|topics| options(topics, data_dir)).collect()
}

fn options(raw: &RawTopics, data_dir: &Path) -> Result<KafkaSourceOptions> {
    ensure!(
        !raw.brokers.is_empty(),
        "kafka.brokers is empty; write for example [\"kafka1.example:9092\"]"
    );
    for broker in &raw.brokers {
        let port = broker.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>()));
        ensure!(
            matches!(port, Some((host, Ok(_))) if !host.is_empty() && !broker.contains("://")),
            "kafka.brokers: '{broker}' is no address; write for example kafka1.example:9092"
        );
    }
    ensure!(!raw.topics.is_empty(), "kafka.topics is empty; write for example [\"logs\"]");
    for topic in &raw.topics {
        ensure!(
            topic == "*" || is_name(topic.strip_suffix('*').unwrap_or(topic)),
            "kafka.topics: '{topic}' is no name of a topic; write a name, or a prefix with * behind it"
        );
    }
    ensure!(
        is_name(&raw.group),
        "kafka.group: '{}' must consist of letters, digits, '.', '_' and '-'",
        raw.group
    );
    let is_from_end = match raw.start.as_str() {
        "earliest" => false,
        "latest" => true,
        other => bail!("kafka.start must be \"earliest\" or \"latest\", not '{other}'"),
    };
    let format = match raw.format.as_str() {
        "auto" | "cef" => ValueFormat::Auto,
        "json" => ValueFormat::Json,
        "text" => ValueFormat::Text,
        "syslog" => ValueFormat::Syslog,
        "otlp" => ValueFormat::Otlp,
        other => {
            bail!(
                "kafka.format: '{other}' is not known; write auto, json, text, syslog, cef or otlp"
            )
        }
    };
    let asked = asked(&raw.record_fields)?;
    ensure!(
        !asked.is_of_records() || !matches!(format, ValueFormat::Syslog | ValueFormat::Otlp),
        "kafka.record_fields: offset, key and headers are not there with format = \"{}\"; topic and partition are",
        raw.format
    );
    if let Some(name) = &raw.log_type {
        ensure!(
            !name.is_empty() && name.len() <= TYPE_NAME_BYTES_MAX,
            "kafka.type must be a name of 1 to {TYPE_NAME_BYTES_MAX} bytes"
        );
    }
    let brokers = Config {
        tls: tls(raw)?,
        sasl: sasl(raw)?,
        ..Config::new(&raw.brokers, &raw.topics.join(", "))
    };
    let read = KafkaConfig {
        group: raw.group.clone(),
        format,
        asked,
        is_from_end,
        log_type: raw.log_type.clone(),
        zone: zones::name("kafka.zone", raw.zone.as_deref().unwrap_or_default())?,
        fields: raw.fields.clone().into_iter().collect(),
        data_dir: data_dir.to_owned(),
    };
    Ok(KafkaSourceOptions { brokers, topics: raw.topics.clone(), read })
}

fn is_name(name: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !["", ".", ".."].contains(&name) && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_of_name)
}

fn asked(names: &[String]) -> Result<Asked> {
    let mut asked = Asked::default();
    for name in names {
        match name.as_str() {
            "topic" => asked.topic = true,
            "partition" => asked.partition = true,
            "offset" => asked.offset = true,
            "key" => asked.key = true,
            "headers" => asked.headers = true,
            other => bail!(
                "kafka.record_fields: '{other}' is not known; write topic, partition, offset, key or headers"
            ),
        }
    }
    Ok(asked)
}

fn tls(raw: &RawTopics) -> Result<Option<Tls>> {
    let identity = match (&raw.certificate_file, &raw.key_file) {
        (Some(certificate), Some(key)) => {
            Some(Identity { certificate: certificate.clone(), key: key.clone() })
        }
        (None, None) => None,
        _ => bail!("kafka.certificate_file and kafka.key_file go together; one of them is missing"),
    };
    ensure!(
        raw.tls || (identity.is_none() && raw.ca_file.is_none()),
        "kafka.tls is false although certificates are given; write tls = true"
    );
    Ok(raw.tls.then(|| Tls { ca: raw.ca_file.clone(), identity }))
}

fn sasl(raw: &RawTopics) -> Result<Option<Sasl>> {
    let mechanism = match raw.login.as_str() {
        "plain" => Mechanism::Plain,
        "scram-sha-256" => Mechanism::ScramSha256,
        "scram-sha-512" => Mechanism::ScramSha512,
        other => bail!(
            "kafka.login: '{other}' is not known; write plain, scram-sha-256 or scram-sha-512"
        ),
    };
    let Some(user) = &raw.user else { return Ok(None) };
    let file = raw.password_file.as_ref().context("kafka.password_file is missing")?;
    let password = secret("kafka.password_file", file)?;
    Ok(Some(Sasl { mechanism, user: user.clone(), password: Secret::new(password) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, RawConfig};

    fn parse(text: &str) -> Result<Vec<KafkaSourceOptions>> {
        let raw: RawConfig = toml::from_str(text)?;
        Ok(Config::try_from(raw)?.node.sources.kafka)
    }

    #[test]
    fn sections_are_read() {
        let found = parse(
            r#"
            [[kafka]]
            brokers = ["a:9092", "b:9092"]
            topics = ["logs", "audit-*"]

            [[kafka]]
            brokers = ["c:1"]
            topics = ["otel"]
            group = "second"
            start = "latest"
            format = "otlp"
            record_fields = ["topic", "partition"]
            type = "shop"
            fields = { env = "prod" }
            tls = true
            "#,
        )
        .unwrap();
        assert_eq!(found[0].topics, ["logs", "audit-*"]);
        assert_eq!(found[0].read.group, "loginson");
        assert!(!found[0].read.is_from_end && found[0].brokers.tls.is_none());
        let second = &found[1].read;
        assert_eq!(second.format, ValueFormat::Otlp);
        assert!(second.is_from_end && second.asked.topic && !second.asked.is_of_records());
        assert_eq!(second.fields, [("env".to_owned(), "prod".to_owned())]);
        assert_eq!(found[1].brokers.tls, Some(Tls::default()));
    }

    #[test]
    fn mistakes_are_named() {
        let check = |rest: &str, expected: &str| {
            let text = format!("[[kafka]]\nbrokers = ['h:1']\ntopics = ['t']\n{rest}");
            let error = format!("{:#}", parse(&text).unwrap_err());
            assert!(error.contains(expected), "{rest}: {error}");
        };
        check("start = 'end'", "kafka.start must be");
        check("format = 'avro'", "kafka.format: 'avro' is not known");
        check("record_fields = ['value']", "kafka.record_fields: 'value' is not known");
        check("format = 'syslog'\nrecord_fields = ['key']", "are not there with format");
        check("group = 'a/b'", "kafka.group: 'a/b' must consist");
        check("ca_file = 'f'", "write tls = true");
        check("tls = true\nkey_file = 'f'", "go together");
        check("user = 'u'", "kafka.password_file is missing");
        check("login = 'kerberos'", "kafka.login: 'kerberos'");
        check("[[kafka]]\nbrokers = ['h:1']\ntopics = ['u']", "stands in two sections");
        let error = parse("[[kafka]]\nbrokers = ['http://h:1']\ntopics = ['t']").unwrap_err();
        assert!(error.to_string().contains("is no address"), "{error}");
        let error = parse("[[kafka]]\nbrokers = ['h:1']\ntopics = ['a b']").unwrap_err();
        assert!(error.to_string().contains("is no name of a topic"), "{error}");
    }
}
