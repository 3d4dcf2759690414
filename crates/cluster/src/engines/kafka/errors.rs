//! What the errors of the library and of brokers mean, and what can be done about them.

use std::io;

use krafka::KrafkaError;
use krafka::error::ErrorCode;

use super::Config;
use crate::engines::error::{Error, ErrorKind};

/// What a call was about to do when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Storing messages, which is not done twice without doubt.
    Append,
    /// Anything that may be repeated.
    Other,
}

const CHECK_BROKERS: &str = "check that the brokers run, their addresses and the network";

const EXPECTS_MORE: &str = "see the log of the broker; if it expects TLS, set `tls = true`, and if \
                            it expects a login, `user` and its password";

/// Explains an error of the library.
pub fn explain(error: &KrafkaError, call: Call, config: &Config) -> Error {
    let unclear = match call {
        Call::Append => ErrorKind::OutcomeUnknown,
        Call::Other => ErrorKind::Retriable,
    };
    let text = config.hide(&error.to_string());
    match error {
        KrafkaError::Broker { code, .. } => broker(*code, unclear, config),
        KrafkaError::UnknownTopic { .. } => {
            broker(ErrorCode::UnknownTopicOrPartition, unclear, config)
        }
        KrafkaError::DeliveryTimeout { possibly_written, .. } => {
            let kind = match possibly_written {
                true => ErrorKind::OutcomeUnknown,
                false => ErrorKind::Retriable,
            };
            let remedy = "the brokers are away or overloaded, or `timeout` is too short for them";
            Error::new(kind, text, remedy)
        }
        // The library returns it before it sends, or for a request that stores nothing.
        KrafkaError::Timeout { .. } => Error::new(
            ErrorKind::Retriable,
            format!("the brokers did not answer in time: {text}"),
            "the brokers are away or overloaded, or `timeout` is too short for them",
        ),
        KrafkaError::Network(error) => network(error, &text, config),
        KrafkaError::Auth { message, source } => {
            let source = source.as_ref().map(|source| format!("{:?}", source.inner()));
            auth(&config.hide(&format!("{message} {}", source.unwrap_or_default())), config)
        }
        KrafkaError::Config { .. }
        | KrafkaError::Compression { .. }
        | KrafkaError::Serialization { .. } => Error::new(ErrorKind::Refused, text, ""),
        KrafkaError::Protocol { kind, .. } => match call {
            Call::Other if kind.is_retriable() => Error::new(ErrorKind::Retriable, text, ""),
            Call::Other => Error::new(
                ErrorKind::Refused,
                text,
                "use Kafka 3.9 or later; if it is, see the log of the broker",
            ),
            Call::Append => Error::new(ErrorKind::OutcomeUnknown, text, ""),
        },
        KrafkaError::OutOfOrderSequence { .. } => Error::new(
            ErrorKind::Retriable,
            text,
            "brokers lost messages that they had acknowledged: set \
             unclean.leader.election.enable=false and min.insync.replicas=2",
        ),
        _ => Error::new(unclear, text, ""),
    }
}

fn network(error: &io::Error, text: &str, config: &Config) -> Error {
    let all = format!("{text} {error:?}");
    let brokers = config.brokers.join(", ");
    let (what, remedy) = match error.kind() {
        // Of several brokers, the library tells the last error by its text.
        _ if all.contains("Connection refused") => {
            (format!("no broker answers at {brokers}"), CHECK_BROKERS)
        }
        _ if all.contains("received fatal alert") && all.contains("Certificate") => {
            let what = format!("{brokers} refused the certificate of this client: {text}");
            let remedy = "give a certificate, with its key, of a CA that the broker trusts";
            return Error::new(ErrorKind::Refused, what, remedy);
        }
        // What a server for TLS answers is read as a length.
        _ if config.tls.is_none() && all.contains("InvalidLength") => {
            (format!("the answer of {brokers} is none of a Kafka broker"), EXPECTS_MORE)
        }
        _ if config.tls.is_some()
            && (all.contains("InvalidContentType") || all.contains("handshake")) =>
        {
            let what = format!("no encrypted connection to {brokers}: {error}");
            (what, "check that the broker expects TLS at this address")
        }
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
            if config.tls.is_none() || config.sasl.is_none() =>
        {
            (format!("{brokers} closed the connection: {error}"), EXPECTS_MORE)
        }
        _ => (format!("the brokers {brokers} cannot be reached: {error}"), CHECK_BROKERS),
    };
    Error::new(ErrorKind::Retriable, what, remedy)
}

fn auth(text: &str, config: &Config) -> Error {
    let remedy = if text.contains("UnknownIssuer") {
        "if you trust the broker, give its certificate, or that of its CA, with `ca`"
    } else if text.to_lowercase().contains("certificate") {
        "check the certificates of the broker and of `ca`, and the names in them"
    } else if config.sasl.is_some() {
        "check `user` and its password, and that the broker offers this kind of login (`sasl`)"
    } else {
        "see the log of the broker"
    };
    Error::new(ErrorKind::Refused, format!("the login failed: {}", text.trim()), remedy)
}

fn broker(code: ErrorCode, unclear: ErrorKind, config: &Config) -> Error {
    use ErrorKind::{Content, NotFound, Refused, Retriable, TooLarge};
    let number = code.to_i16();
    let too_large = "raise message.max.bytes of the broker or max.message.bytes of the topic";
    let permit = "permit the user to use the topic";
    let (name, kind, remedy) = match number {
        1 => ("OFFSET_OUT_OF_RANGE", NotFound, "begin at one of the bounds of the partition"),
        2 => ("CORRUPT_MESSAGE", Retriable, ""),
        // Brokers that start, or have just learnt of a topic, say so for a while.
        3 => ("UNKNOWN_TOPIC_OR_PARTITION", Retriable, "create the topic, or correct its name"),
        5 => ("LEADER_NOT_AVAILABLE", Retriable, "start the brokers that are away"),
        6 => ("NOT_LEADER_OR_FOLLOWER", Retriable, ""),
        10 => ("MESSAGE_TOO_LARGE", TooLarge, too_large),
        17 => ("INVALID_TOPIC_EXCEPTION", Refused, "correct the name of the topic"),
        18 => ("RECORD_LIST_TOO_LARGE", TooLarge, too_large),
        19 => ("NOT_ENOUGH_REPLICAS", Retriable, "start the brokers that are away"),
        20 => ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", unclear, "start the brokers that are away"),
        29 => ("TOPIC_AUTHORIZATION_FAILED", Refused, permit),
        31 => ("CLUSTER_AUTHORIZATION_FAILED", Refused, permit),
        32 => ("INVALID_TIMESTAMP", Content, "raise message.timestamp.before.max.ms of the topic"),
        35 => ("UNSUPPORTED_VERSION", Refused, "use Kafka 3.9 or later"),
        37 => ("INVALID_PARTITIONS", Refused, "correct the number of partitions"),
        38 => ("INVALID_REPLICATION_FACTOR", Refused, "have as many brokers as copies"),
        40 => ("INVALID_CONFIG", Refused, "correct the settings of the topic"),
        44 => ("POLICY_VIOLATION", Refused, "see create.topic.policy.class.name of the brokers"),
        56 => ("KAFKA_STORAGE_ERROR", unclear, "see the log of the broker, and its disk"),
        76 => ("UNSUPPORTED_COMPRESSION_TYPE", Refused, "set another `compression`"),
        87 => ("INVALID_RECORD", Content, "see the settings of the topic"),
        89 => ("THROTTLING_QUOTA_EXCEEDED", Retriable, "raise the quota of the client"),
        _ => ("", unclear, ""),
    };
    let what = match name {
        "" => format!("the broker answered with error {number} ({code:?})"),
        name => format!("the broker answered {name} ({number})"),
    };
    let of = match kind {
        NotFound | Refused => format!("topic {}: {what}", config.topic),
        _ if number == 3 => format!("topic {}: {what}", config.topic),
        _ => what,
    };
    Error::new(kind, of, remedy)
}
