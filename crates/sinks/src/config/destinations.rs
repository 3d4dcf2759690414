//! Checks the table of each destination.

use std::time::Duration;

use text::url;

use super::check::{ConfigError, DestinationOptions, Keys};
use super::{
    ElasticsearchConfig, FileConfig, JsonLinesConfig, KafkaConfig, LoginsonConfig, LokiConfig,
    SinkConfig, SyslogConfig, reach,
};
use crate::elasticsearch::{ElasticsearchOptions, Operation, Target, TemplateOptions, TimeType};
use crate::file::FileOptions;
use crate::http::compress::Encoding;
use crate::jsonlines::{JsonLinesOptions, Receiver};
use crate::kafka::{KafkaOptions, Mechanism, RecordTime, Sasl};
use crate::loki::LokiOptions;
use crate::rotating::Rotation;
use crate::syslog::{MessageOptions, SyslogOptions, Transport};
use crate::time::DatePattern;
use cluster::engines::Secret;

/// Elasticsearch and OpenSearch refuse longer names of indices.
const INDEX_BYTES_MAX: usize = 255;
/// Kafka refuses longer names of topics.
const TOPIC_BYTES_MAX: usize = 249;

/// Checks that there is one destination, and its options.
pub fn check(config: &SinkConfig, keys: &Keys) -> Result<DestinationOptions, ConfigError> {
    let tables = "[sinks.elasticsearch], [sinks.json_lines], [sinks.loginson], \
                  [sinks.kafka], [sinks.loki], [sinks.syslog] and [sinks.file]";
    let given = [
        config.elasticsearch.is_some(),
        config.json_lines.is_some(),
        config.loginson.is_some(),
        config.kafka.is_some(),
        config.loki.is_some(),
        config.syslog.is_some(),
        config.file.is_some(),
    ];
    let count = given.iter().filter(|is_given| **is_given).count();
    if count != 1 {
        let what = format!("has {count} destinations; give exactly one of {tables}");
        return Err(keys.error("destination", what));
    }
    if let Some(table) = &config.elasticsearch {
        elasticsearch(config, table, keys)
    } else if let Some(table) = &config.json_lines {
        json_lines(config, table, keys)
    } else if let Some(table) = &config.loginson {
        loginson(config, table, keys)
    } else if let Some(table) = &config.kafka {
        kafka(config, table, keys)
    } else if let Some(table) = &config.loki {
        loki(config, table, keys)
    } else if let Some(table) = &config.syslog {
        reach::check_absent(config, keys)?;
        syslog(table, &keys.below("syslog"))
    } else {
        reach::check_absent(config, keys)?;
        file(config.file.as_ref().unwrap_or(&FileConfig::default()), &keys.below("file"))
    }
}

fn elasticsearch(
    config: &SinkConfig,
    table: &ElasticsearchConfig,
    keys: &Keys,
) -> Result<DestinationOptions, ConfigError> {
    let reach = reach::check(config, keys, false)?;
    let keys = keys.below("elasticsearch");
    let operations = [("create", Operation::Create), ("index", Operation::Index)];
    let operation = keys.choice("operation", &table.operation, &operations)?;
    let target = match (&table.index, &table.data_stream) {
        (Some(index), None) => {
            let pattern = DatePattern::parse(index).map_err(|what| keys.error("index", what))?;
            check_index_name("index", &pattern.at(0), &keys)?;
            if pattern.prefix().is_empty() {
                let what = "must begin with a fixed text, which the index template matches";
                return Err(keys.error("index", what));
            }
            Target::Index(pattern)
        }
        (None, Some(name)) => {
            check_index_name("data_stream", name, &keys)?;
            Target::DataStream(name.clone())
        }
        _ => {
            let what = "give either `index`, for example \"logs-%Y.%m.%d\", or `data_stream`";
            return Err(keys.error("index", what));
        }
    };
    if matches!(target, Target::DataStream(_)) && operation == Operation::Index {
        let what = "a data stream takes new documents only; write \"create\"";
        return Err(keys.error("operation", what));
    }
    let time_field = given_or(&table.time_field, "@timestamp");
    if matches!(target, Target::DataStream(_)) && time_field != "@timestamp" {
        let what = "must be \"@timestamp\" in a data stream; remove it";
        return Err(keys.error("time_field", what));
    }
    if table.pipeline.as_deref().is_some_and(|name| !is_path_part(name)) {
        let what = "must consist of letters, digits, '-', '_' and '.'";
        return Err(keys.error("pipeline", what));
    }
    let name = given_or(&table.template.name, &format!("loginson-{}", config.name));
    if !is_path_part(&name) {
        let what = "must consist of letters, digits, '-', '_' and '.'";
        return Err(keys.error("template.name", what));
    }
    let template = TemplateOptions {
        name,
        priority: table.template.priority.unwrap_or(250),
        shards: table.template.shards,
        replicas: table.template.replicas,
        ignore_above_chars: table.template.ignore_above.unwrap_or(1024),
    };
    // A longer term in UTF-8 can exceed what Lucene takes.
    if !(1..=8191).contains(&template.ignore_above_chars) {
        return Err(keys.error("template.ignore_above", "write a number from 1 to 8191"));
    }
    let time_types = [("date_nanos", TimeType::DateNanos), ("date", TimeType::Date)];
    Ok(DestinationOptions::Elasticsearch(Box::new(ElasticsearchOptions {
        client: reach.client,
        target,
        operation,
        time_field,
        time_type: keys.choice("time_type", &table.time_type, &time_types)?,
        template: table.template.enabled.unwrap_or(true).then_some(template),
        pipeline: table.pipeline.clone(),
        body_bytes_max: reach.body_bytes_max,
        encoding: reach.encoding,
    })))
}

fn check_index_name(key: &str, name: &str, keys: &Keys) -> Result<(), ConfigError> {
    let forbidden = "\\/*?\"<>| ,#:";
    let is_wrong = name.is_empty()
        || name.len() > INDEX_BYTES_MAX
        || name.starts_with(['-', '_', '+', '.'])
        || name.chars().any(|c| c.is_uppercase() || c.is_control() || forbidden.contains(c))
        || name.contains('%')
        || !name.is_ascii();
    if is_wrong {
        let what = format!(
            "'{name}' is no name of an index; begin with a letter or digit, and use lower-case \
             letters, digits, '-', '_' and '.'"
        );
        return Err(keys.error(key, what));
    }
    Ok(())
}

fn is_path_part(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.chars().all(is_allowed) && !name.starts_with('.')
}

fn json_lines(
    config: &SinkConfig,
    table: &JsonLinesConfig,
    keys: &Keys,
) -> Result<DestinationOptions, ConfigError> {
    let reach = reach::check(config, keys, true)?;
    let keys = keys.below("json_lines");
    let rejecting = table.rejecting_statuses.clone();
    let rejecting = rejecting.unwrap_or_else(|| crate::http::judge::REFUSING.to_vec());
    if rejecting.iter().any(|status| !(400..500).contains(status)) {
        return Err(keys.error("rejecting_statuses", "write numbers from 400 to 499"));
    }
    let content_type = given_or(&table.content_type, "application/x-ndjson");
    if content_type.contains(|c: char| c.is_control() || !c.is_ascii()) {
        return Err(keys.error("content_type", "write for example application/x-ndjson"));
    }
    Ok(DestinationOptions::JsonLines(Box::new(JsonLinesOptions {
        client: reach.client,
        query: String::new(),
        id_field: given_or_none(&table.id_field, "_id"),
        time_field: given_or(&table.time_field, "_time"),
        body_bytes_max: reach.body_bytes_max,
        encoding: reach.encoding,
        content_type,
        rejecting,
        receiver: Receiver::Any,
    })))
}

fn loginson(
    config: &SinkConfig,
    table: &LoginsonConfig,
    keys: &Keys,
) -> Result<DestinationOptions, ConfigError> {
    let reach = reach::check(config, keys, true)?;
    let mut parameters = vec![("_time_field", "_time".to_owned())];
    parameters.extend(table.kind.clone().map(|kind| ("_type", kind)));
    parameters.extend(table.message_field.clone().map(|field| ("_msg_field", field)));
    if !table.stream_fields.is_empty() {
        parameters.push(("_stream_fields", table.stream_fields.join(",")));
    }
    for (name, value) in &table.parameters {
        if parameters.iter().any(|(known, _)| known == name) {
            let what = format!("'{name}' is given twice, or made by the sink; remove it here");
            return Err(keys.below("loginson").error("parameters", what));
        }
        parameters.push((name, value.clone()));
    }
    let pairs: Vec<String> = parameters
        .iter()
        .map(|(name, value)| {
            let mut pair = Vec::new();
            url::encode(name.as_bytes(), b"-_.~", &mut pair);
            pair.push(b'=');
            url::encode(value.as_bytes(), b"-_.~", &mut pair);
            String::from_utf8(pair).expect("ASCII")
        })
        .collect();
    Ok(DestinationOptions::JsonLines(Box::new(JsonLinesOptions {
        client: reach.client,
        query: format!("/insert/jsonline?{}", pairs.join("&")),
        id_field: given_or_none(&table.id_field, "sink_id"),
        time_field: "_time".to_owned(),
        body_bytes_max: reach.body_bytes_max,
        encoding: reach.encoding,
        content_type: "application/x-ndjson".to_owned(),
        // Loginson refuses no line for its content: a 400 is about the request as a whole.
        rejecting: Vec::new(),
        receiver: Receiver::Loginson,
    })))
}

fn loki(
    config: &SinkConfig,
    table: &LokiConfig,
    keys: &Keys,
) -> Result<DestinationOptions, ConfigError> {
    let mut reach = reach::check(config, keys, false)?;
    let keys = keys.below("loki");
    let mut labels = table.labels.clone();
    for name in labels.keys() {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_digit = |c: char| c.is_ascii_digit();
        if name.is_empty() || name.starts_with(is_digit) || !name.chars().all(is_allowed) {
            let what = format!("'{name}' is no label; use letters, digits and '_'");
            return Err(keys.error("labels", what));
        }
    }
    if labels.is_empty() {
        labels.insert("job".to_owned(), "loginson".to_owned());
    }
    if let Some(tenant) = &table.tenant {
        if !is_path_part(tenant) {
            let what = "must consist of letters, digits, '-', '_' and '.'";
            return Err(keys.error("tenant", what));
        }
        reach.client.headers.push(("X-Scope-OrgID".to_owned(), Secret::new(tenant)));
    }
    Ok(DestinationOptions::Loki(Box::new(LokiOptions {
        client: reach.client,
        labels,
        label_fields: table.label_fields.clone(),
        line_field: table.line_field.clone(),
        body_bytes_max: reach.body_bytes_max,
        encoding: reach.encoding,
    })))
}

fn kafka(
    config: &SinkConfig,
    table: &KafkaConfig,
    keys: &Keys,
) -> Result<DestinationOptions, ConfigError> {
    let reach = reach::check_kafka(config, keys)?;
    let keys = keys.below("kafka");
    if table.brokers.is_empty() {
        return Err(keys.error("brokers", "is missing; write for example [\"HOST:9092\"]"));
    }
    let brokers = table.brokers.iter();
    let brokers = brokers.map(|address| host_and_port("brokers", address, &keys));
    let topic = given_or(&table.topic, "");
    if !is_path_part(&topic) || topic.len() > TOPIC_BYTES_MAX || topic == "." || topic == ".." {
        let what = format!(
            "'{topic}' is no name of a topic; write 1 to {TOPIC_BYTES_MAX} letters, digits, '-', \
             '_' and '.'"
        );
        return Err(keys.error("topic", what));
    }
    let mechanisms = [
        ("scram-sha-512", Mechanism::ScramSha512),
        ("scram-sha-256", Mechanism::ScramSha256),
        ("plain", Mechanism::Plain),
    ];
    let mechanism = keys.choice("sasl", &table.sasl, &mechanisms)?;
    if table.sasl.is_some() && reach.login.is_none() {
        return Err(keys.error("sasl", "needs a login; add `user` and `password_file`"));
    }
    if config.ca.is_some() && !table.tls {
        return Err(
            keys.error("tls", "is false although `ca` is given; write true, or remove `ca`")
        );
    }
    let times = [("sending", RecordTime::Sending), ("document", RecordTime::Document)];
    let range = (1 << 10, 95 << 20);
    let batch = keys.bytes("batch_bytes_max", &table.batch_bytes_max, 1_000_000, range)?;
    Ok(DestinationOptions::Kafka(Box::new(KafkaOptions {
        brokers: brokers.collect::<Result<_, _>>()?,
        topic,
        sasl: reach.login.map(|(user, password)| Sasl { mechanism, user, password }),
        is_tls: table.tls,
        ca: config.ca.clone(),
        connect_time_max: reach.connect_time_max,
        request_time_max: reach.request_time_max,
        time_field: given_or(&table.time_field, "_time"),
        id_field: given_or_none(&table.id_field, ""),
        record_time: keys.choice("record_time", &table.record_time, &times)?,
        batch_bytes_max: batch as usize,
        body_bytes_max: reach.body_bytes_max,
        encoding: reach.encoding,
    })))
}

/// The parts of `HOST:PORT`.
fn host_and_port(key: &str, address: &str, keys: &Keys) -> Result<(String, u16), ConfigError> {
    match address.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>())) {
        Some((host, Ok(port @ 1..))) if !host.is_empty() => Ok((host.to_owned(), port)),
        _ => Err(keys.error(key, format!("'{address}' is no address; write HOST:PORT"))),
    }
}

fn syslog(table: &SyslogConfig, keys: &Keys) -> Result<DestinationOptions, ConfigError> {
    let address = table.address.clone().unwrap_or_default();
    host_and_port("address", &address, keys)?;
    let datagram =
        keys.bytes("datagram_bytes_max", &table.datagram_bytes_max, 8 << 10, (480, 65_507))?;
    let udp = Transport::Udp { datagram_bytes_max: datagram as usize };
    let facility = table.facility.unwrap_or(16);
    if facility > 23 {
        return Err(keys.error("facility", "write a number from 0 to 23"));
    }
    let data_id = given_or_none(&table.data_id, "fields@32473");
    let is_wrong = |c: char| !c.is_ascii_graphic() || "=]\"".contains(c);
    if data_id.as_deref().is_some_and(|id| id.len() > 32 || id.contains(is_wrong)) {
        return Err(keys.error("data_id", "write NAME@NUMBER, at most 32 characters"));
    }
    Ok(DestinationOptions::Syslog(Box::new(SyslogOptions {
        address,
        transport: keys.choice(
            "transport",
            &table.transport,
            &[("tcp", Transport::Tcp), ("udp", udp)],
        )?,
        time_max: keys.duration("timeout", &table.timeout, Duration::from_secs(30))?,
        message: MessageOptions {
            facility,
            severity_field: given_or(&table.severity_field, "level"),
            hostname_field: given_or(&table.hostname_field, "hostname"),
            app_name_field: given_or(&table.app_name_field, "app_name"),
            proc_id_field: given_or(&table.proc_id_field, "proc_id"),
            message_field: given_or(&table.message_field, "_msg"),
            data_id,
        },
    })))
}

fn file(table: &FileConfig, keys: &Keys) -> Result<DestinationOptions, ConfigError> {
    let Some(path) = table.path.clone().filter(|path| path.file_name().is_some()) else {
        return Err(keys.error("path", "is missing; write the path of the file"));
    };
    let range = (1 << 10, 1 << 50);
    let file_bytes_max = keys.bytes("file_bytes_max", &table.file_bytes_max, 100 << 20, range)?;
    let age = keys.duration("file_age_max", &table.file_age_max, Duration::ZERO)?;
    let compress = [("none", Encoding::Plain), ("gzip", Encoding::Gzip)];
    Ok(DestinationOptions::Files(Box::new(FileOptions {
        path,
        rotation: Rotation {
            file_bytes_max,
            file_age_max: table.file_age_max.is_some().then_some(age),
            rotated_files_max: table.rotated_files_max,
            is_compressed: keys.choice("compress", &table.compress, &compress)? == Encoding::Gzip,
        },
        id_field: given_or_none(&table.id_field, "_id"),
        time_field: given_or(&table.time_field, "_time"),
    })))
}

fn given_or(given: &Option<String>, default: &str) -> String {
    given.clone().unwrap_or_else(|| default.to_owned())
}

/// An empty text means that there shall be none.
fn given_or_none(given: &Option<String>, default: &str) -> Option<String> {
    Some(given_or(given, default)).filter(|text| !text.is_empty())
}
