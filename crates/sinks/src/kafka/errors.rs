//! What the error codes of brokers mean for the records of a request.

use crate::destination::Fault;

/// What an error says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning {
    /// The batch is larger than the broker or the topic permits.
    TooLarge(Fault),
    /// The broker will never take some record of the batch.
    Content(Fault),
    /// It may pass. `is_moved` says that another broker may lead the partition by now.
    Passing { fault: Fault, is_moved: bool },
}

impl Meaning {
    pub fn into_fault(self) -> Fault {
        match self {
            Meaning::TooLarge(fault) | Meaning::Content(fault) | Meaning::Passing { fault, .. } => {
                fault
            }
        }
    }
}

/// The meaning of an error that is not 0; `message` is what the broker adds.
pub fn meaning(code: i16, message: &str) -> Meaning {
    let (name, remedy) = describe(code);
    let what = match (name, message) {
        ("", "") => format!("the broker answered with error {code}"),
        ("", message) => format!("the broker answered with error {code}: {message}"),
        (name, "") => format!("the broker answered {name} ({code})"),
        (name, message) => format!("the broker answered {name} ({code}): {message}"),
    };
    let fault = Fault::new(what, remedy);
    match code {
        10 | 18 => Meaning::TooLarge(fault),
        32 | 87 => Meaning::Content(fault),
        _ => Meaning::Passing { fault, is_moved: matches!(code, 3 | 5 | 6 | 9 | 56 | 74) },
    }
}

/// The name of an error and its remedy; the remedy is empty if waiting is one.
fn describe(code: i16) -> (&'static str, &'static str) {
    let too_large = "raise message.max.bytes of the broker or max.message.bytes of the topic";
    let permit = "permit the user to write to the topic";
    match code {
        2 => ("CORRUPT_MESSAGE", ""),
        3 => ("UNKNOWN_TOPIC_OR_PARTITION", "create the topic, or correct `topic`"),
        5 => ("LEADER_NOT_AVAILABLE", ""),
        6 => ("NOT_LEADER_OR_FOLLOWER", ""),
        7 => ("REQUEST_TIMED_OUT", "the replicas in sync are slow; see the logs of the brokers"),
        9 => ("REPLICA_NOT_AVAILABLE", ""),
        10 => ("MESSAGE_TOO_LARGE", too_large),
        17 => ("INVALID_TOPIC_EXCEPTION", "correct `topic`"),
        18 => ("RECORD_LIST_TOO_LARGE", too_large),
        19 => ("NOT_ENOUGH_REPLICAS", "start the brokers that are away"),
        20 => ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", "start the brokers that are away"),
        29 => ("TOPIC_AUTHORIZATION_FAILED", permit),
        31 => ("CLUSTER_AUTHORIZATION_FAILED", permit),
        32 => ("INVALID_TIMESTAMP", "raise message.timestamp.before.max.ms of the topic"),
        35 => ("UNSUPPORTED_VERSION", "use Kafka 2.4 or later"),
        56 => ("KAFKA_STORAGE_ERROR", "see the log of the broker, and the space on its disk"),
        74 => ("FENCED_LEADER_EPOCH", ""),
        76 => ("UNSUPPORTED_COMPRESSION_TYPE", "set another `compression`"),
        87 => ("INVALID_RECORD", "see the settings of the topic"),
        89 => ("THROTTLING_QUOTA_EXCEEDED", "raise the quota of the client"),
        _ => ("", ""),
    }
}
