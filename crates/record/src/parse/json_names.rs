//! The names that loggers use for time, level and message.
//!
//! Names are case-sensitive, as loggers write them: `level` and `Level`, not `LEVEl`. The first
//! name of a list with a usable value wins, so the most certain names come first.
//!
//! A time or level also stays a field under its name; the five usual names of times and the names
//! of messages do not, since `_time` and `_msg` have the same value. An ambiguous name (`event`,
//! `log`, `body`, `T`, `s`) only counts together with other names of its logger ([`Marks`]).
//!
//! Left out: names that equally often mean something else (`created_at`, `start_time`, `status`,
//! `priority`, `text`).

use std::collections::HashMap;
use std::sync::LazyLock;

/// How a key expresses the level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LevelKind {
    /// A word.
    Word,
    /// A word, or a number of pino, bunyan or GELF.
    Level,
    /// A word, or a syslog number if there is a facility.
    Severity,
    /// A severity of syslog, 0 to 7.
    Syslog,
    /// Python's numbers: 10 is debug, 50 critical.
    Python,
    /// Logback's numbers: 10000 is debug, 40000 error.
    Logback,
    /// OpenTelemetry's numbers: four for each level, from 1 (trace) to 24.
    Otel,
    /// Application Insights' numbers: 0 (verbose) to 4 (critical).
    Azure,
    /// MongoDB's letters.
    Mongo,
    /// The type of an event of Kubernetes: `Normal` or `Warning`.
    Kubernetes,
    /// The type of an event of Windows.
    EventLog,
    /// The priority of an alert of Falco.
    Falco,
}

impl LevelKind {
    /// Whether a key of this kind states a level whatever keys are beside it.
    pub fn stands_alone(self) -> bool {
        use LevelKind::{EventLog, Falco, Kubernetes, Mongo};
        !matches!(self, Mongo | Kubernetes | EventLog | Falco)
    }
}

/// Which names with a meaning an object has, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks(u32);

impl Marks {
    pub const NONE: Marks = Marks(0);
    pub const PID: Marks = Marks(1);
    pub const HOSTNAME: Marks = Marks(1 << 1);
    pub const V: Marks = Marks(1 << 2);
    pub const STREAM: Marks = Marks(1 << 3);
    pub const FACILITY: Marks = Marks(1 << 4);
    /// GELF.
    pub const SHORT_MESSAGE: Marks = Marks(1 << 5);
    /// Any name that can only be a level.
    pub const LEVEL: Marks = Marks(1 << 6);
    /// OpenTelemetry.
    pub const OTEL: Marks = Marks(1 << 7);
    /// zap with its names for development.
    pub const L: Marks = Marks(1 << 8);
    /// MongoDB.
    pub const T_DATE: Marks = Marks(1 << 9);
    /// Serilog's time, its message or template, and its level, which is left out if it is
    /// `Information`.
    pub const AT_T: Marks = Marks(1 << 10);
    pub const AT_M: Marks = Marks(1 << 11);
    pub const AT_L: Marks = Marks(1 << 12);
    /// A request of HTTP, in whose object `host` is the site that was asked for.
    pub const REQUEST: Marks = Marks(1 << 13);
    /// An event of Kubernetes.
    pub const INVOLVED: Marks = Marks(1 << 14);
    /// An event of Windows, whose type is a word.
    pub const EVENT_LOG: Marks = Marks(1 << 15);
    /// An event of Windows, whose level is a number.
    pub const EVENT_RECORD: Marks = Marks(1 << 16);
    /// Nextcloud.
    pub const REQUEST_ID: Marks = Marks(1 << 17);
    pub const REMOTE_ADDRESS: Marks = Marks(1 << 18);
    /// Falco.
    pub const RULE: Marks = Marks(1 << 19);
    pub const OUTPUT: Marks = Marks(1 << 20);
    pub const PRIORITY: Marks = Marks(1 << 21);

    #[inline]
    pub fn add(&mut self, other: Marks) {
        self.0 |= other.0;
    }

    #[inline]
    pub fn has(self, other: Marks) -> bool {
        self.0 & other.0 == other.0
    }

    const fn with(self, other: Marks) -> Marks {
        Marks(self.0 | other.0)
    }
}

/// A name for times.
pub(crate) struct TimeName {
    pub name: &'static str,
    /// Other marks that the object must have.
    pub needs: Marks,
    /// The value must be a number.
    pub number: bool,
    /// It stays a field, too.
    pub keeps: bool,
}

/// A name for messages.
pub(crate) struct MsgName {
    pub name: &'static str,
    pub needs: Marks,
    pub keeps: bool,
}

/// A part of a time that is written as an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Seconds,
    Nanos,
}

/// The use of a name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Use {
    Time(u8),
    TimePart(Part),
    Message(u8),
    Level(u8, LevelKind),
    Host(u8),
    /// No use by itself, only a mark.
    Mark,
}

const fn time(name: &'static str) -> TimeName {
    TimeName { name, needs: Marks::NONE, number: false, keeps: true }
}

const fn usual(name: &'static str) -> TimeName {
    TimeName { keeps: false, ..time(name) }
}

/// Names for times, the most certain first.
pub(crate) const TIMES: [TimeName; 68] = [
    usual("_time"),
    usual("@timestamp"),
    usual("timestamp"),
    usual("time"),
    usual("ts"),
    time("@t"),        // Serilog, compact
    time("asctime"),   // Python
    time("Timestamp"), // .NET, OpenTelemetry
    time("EventTime"), // NXLog
    time("eventTime"), // AWS CloudTrail, Kubernetes
    time("event_time"),
    time("lastTimestamp"),        // events of Kubernetes
    time("__REALTIME_TIMESTAMP"), // journald
    time("timereported"),         // rsyslog
    time("timeMillis"),           // log4j2
    time("datetime"),             // Monolog
    time("t.$date"),              // MongoDB
    time("time.$date"),
    time("timestamp.$date"),
    time("@timestamp.$date"),
    time("timeUnixNano"), // OpenTelemetry
    time("time_unix_nano"),
    time("TimeGenerated"), // Azure
    time("timeGenerated"),
    time("eventTimestamp"),
    time("event_timestamp"),
    time("EventTimestamp"),
    time("TimeCreated"),           // Windows
    time("CreationTime"),          // Microsoft 365
    time("record.time.timestamp"), // loguru
    time("stageTimestamp"),        // audit of Kubernetes
    time("requestReceivedTimestamp"),
    time("receiveTimestamp"), // Google Cloud
    time("observedTimeUnixNano"),
    time("ObservedTimestamp"),
    time("time_iso8601"), // nginx
    time("time_local"),
    time("StartUTC"), // Traefik
    time("log_time"),
    time("logTime"),
    time("LogTime"),
    time("logTimestamp"),
    time("log_timestamp"),
    time("timeStamp"),
    time("TimeStamp"),
    time("Time"),
    time("dateTime"),
    time("date_time"),
    time("DateTime"),
    time("@time"),
    time("@ts"),
    time("t.$date.$numberLong"),                   // MongoDB, canonical
    time("syslog_timestamp"),                      // Logstash
    time("published"),                             // Okta
    time("activityDateTime"),                      // Microsoft Graph
    time("ISODATE"),                               // syslog-ng
    time("calendarTime"),                          // osquery
    time("LogTimestamp"),                          // Zscaler
    time("EdgeStartTimestamp"),                    // Cloudflare
    time("Datetime"),                              // the same, events of its firewall
    time("reqTimeSec"),                            // Akamai
    time("query_timestamp"),                       // Route 53
    time("id.time"),                               // Google Workspace
    time("datetime.date"),                         // Monolog 1
    TimeName { needs: Marks::L, ..time("T") },     // zap for developers
    TimeName { needs: Marks::LEVEL, ..time("t") }, // log15
    TimeName { number: true, ..time("msec") },     // nginx
    TimeName { number: true, ..time("date") },     // Fluent Bit, or day and time as ISO 8601
];

const fn msg(name: &'static str) -> MsgName {
    MsgName { name, needs: Marks::NONE, keeps: false }
}

const fn kept_msg(name: &'static str, needs: Marks) -> MsgName {
    MsgName { name, needs, keeps: true }
}

/// Names for messages, the most certain first.
pub(crate) const MESSAGES: [MsgName; 28] = [
    msg("_msg"),
    msg("message"),
    msg("msg"),
    msg("Message"),  // .NET
    msg("MESSAGE"),  // journald
    msg("@message"), // HashiCorp
    msg("@m"),       // Serilog
    msg("RenderedMessage"),
    msg("short_message"),  // GELF
    msg("fields.message"), // tracing of Rust
    msg("textPayload"),    // Google Cloud
    msg("jsonPayload.message"),
    msg("properties.message"), // Azure
    msg("record.message"),     // loguru
    msg("eventMessage"),       // macOS
    msg("log_message"),
    msg("logMessage"),
    MsgName { needs: Marks::L, ..msg("M") },
    MsgName { needs: Marks::OTEL, ..msg("body") },
    MsgName { needs: Marks::OTEL, ..msg("Body") },
    MsgName { needs: Marks::OTEL, ..msg("body.stringValue") },
    MsgName { needs: Marks::OTEL, ..msg("body.string_value") },
    DOCKER,
    kept_msg("@mt", Marks::AT_T),
    kept_msg("MessageTemplate", Marks::LEVEL),
    kept_msg("event", Marks::LEVEL),          // structlog
    kept_msg("displayMessage", Marks::LEVEL), // Okta
    kept_msg("output", Marks::RULE.with(Marks::PRIORITY)), // Falco
];

/// The log line of a container's program, in files of Docker's `json-file` driver and from shippers
/// that read these files; the text of a record of Fluent Bit.
const DOCKER: MsgName = MsgName { needs: Marks::STREAM, ..msg("log") };
pub(crate) const DOCKER_RANK: u8 = 22;
/// The message of journald.
pub(crate) const JOURNAL_RANK: u8 = 4;
const _: () = assert!(MESSAGES[DOCKER_RANK as usize].needs.0 == Marks::STREAM.0);

/// Names for levels, the most certain first.
pub(crate) const LEVELS: [(&str, LevelKind); 59] = [
    ("level", LevelKind::Level),
    ("severity", LevelKind::Severity),
    ("lvl", LevelKind::Level),
    ("log.level", LevelKind::Level),
    ("@level", LevelKind::Word),         // HashiCorp
    ("detected_level", LevelKind::Word), // shippers of Loki
    ("levelname", LevelKind::Word),      // Python
    ("level_name", LevelKind::Word),     // Monolog
    ("levelName", LevelKind::Word),
    ("@l", LevelKind::Word),           // Serilog
    ("SeverityText", LevelKind::Word), // OpenTelemetry
    ("severityText", LevelKind::Word),
    ("severity_text", LevelKind::Word),
    ("otel.log.severity.text", LevelKind::Word),
    ("LogLevel", LevelKind::Word), // .NET
    ("logLevel", LevelKind::Word),
    ("loglevel", LevelKind::Word),
    ("log_level", LevelKind::Word),
    ("Level", LevelKind::Level),
    ("LEVEL", LevelKind::Level),
    ("Severity", LevelKind::Severity),
    ("SEVERITY", LevelKind::Severity),
    ("LVL", LevelKind::Level),
    ("Lvl", LevelKind::Level),
    ("LogLevelName", LevelKind::Word),
    ("LOG_LEVEL", LevelKind::Word),
    ("Severity_Text", LevelKind::Word),
    ("SEVERITY_TEXT", LevelKind::Word),
    ("severityName", LevelKind::Word),
    ("SeverityLevel", LevelKind::Word),
    ("LevelDisplayName", LevelKind::Word), // Windows
    ("winlog.level", LevelKind::Word),     // Winlogbeat
    ("fields.level", LevelKind::Word),
    ("context.level", LevelKind::Word),
    ("syslog.severity", LevelKind::Syslog),
    ("syslog_severity", LevelKind::Syslog), // Logstash
    ("severity_label", LevelKind::Word),
    ("L", LevelKind::Word),                 // zap for developers
    ("record.level.name", LevelKind::Word), // loguru
    ("log.syslog.severity.name", LevelKind::Word),
    ("log.syslog.severity.code", LevelKind::Syslog),
    ("syslogseverity-text", LevelKind::Word), // rsyslog
    ("syslogseverity", LevelKind::Syslog),
    ("error_severity", LevelKind::Word), // PostgreSQL
    ("messageType", LevelKind::Word),    // macOS
    ("s", LevelKind::Mongo),
    ("PRIORITY", LevelKind::Syslog), // journald
    ("levelno", LevelKind::Python),
    ("level_number", LevelKind::Python), // structlog
    ("record.level.no", LevelKind::Python),
    ("level_value", LevelKind::Logback),
    ("SeverityNumber", LevelKind::Otel),
    ("severityNumber", LevelKind::Otel),
    ("severity_number", LevelKind::Otel),
    ("otel.log.severity.number", LevelKind::Otel),
    ("severityLevel", LevelKind::Azure),
    ("type", LevelKind::Kubernetes),
    ("EventType", LevelKind::EventLog),
    ("priority", LevelKind::Falco),
];

/// Names for the host, the most certain first, where an object has no `hostname`. They stay fields.
pub(crate) const HOSTS: [&str; 26] = [
    "host.name", // ECS, OpenTelemetry
    "host.hostname",
    "_HOSTNAME", // journald
    "Hostname",  // NXLog
    "HOSTNAME",
    "hostName",
    "HostName",
    "host_name",
    HOST, // GELF, Vector, Fluent Bit
    "HOST",
    "Host",
    "kubernetes.host",
    "kubernetes.node.name",
    "kubernetes.node_name",
    "Computer", // Windows
    "computer_name",
    "ComputerName",
    "MachineName", // .NET
    "machineName",
    "agent.hostname", // Beats
    "beat.hostname",
    "logsource", // Logstash
    "syslog_hostname",
    "hostIdentifier",     // osquery
    "Resource.host.name", // OpenTelemetry, as ClickHouse and others name it
    "resource.host.name",
];
/// In requests this is the site, also with capitals.
pub(crate) const HOST: &str = "host";

const PARTS: [(&str, Part); 8] = [
    ("instant.epochSecond", Part::Seconds), // log4j2
    ("instant.nanoOfSecond", Part::Nanos),
    ("timestamp.seconds", Part::Seconds), // Google Cloud
    ("timestamp.nanos", Part::Nanos),
    ("time.seconds", Part::Seconds),
    ("time.nanos", Part::Nanos),
    ("timestampSeconds", Part::Seconds),
    ("timestampNanos", Part::Nanos),
];

const MARKED: [(&str, Marks); 46] = [
    ("pid", Marks::PID),
    ("hostname", Marks::HOSTNAME),
    ("v", Marks::V),
    ("stream", Marks::STREAM),
    // Fluent Bit, whose records have their text under `log` wherever they come from.
    ("date", Marks::STREAM),
    ("kubernetes.pod_name", Marks::STREAM),
    // Docker's driver for Fluentd
    ("container_id", Marks::STREAM),
    ("container_name", Marks::STREAM),
    ("facility", Marks::FACILITY),
    ("short_message", Marks::SHORT_MESSAGE),
    ("SeverityText", Marks::OTEL),
    ("severityText", Marks::OTEL),
    ("severity_text", Marks::OTEL),
    ("SeverityNumber", Marks::OTEL),
    ("severityNumber", Marks::OTEL),
    ("severity_number", Marks::OTEL),
    ("timeUnixNano", Marks::OTEL),
    ("observedTimeUnixNano", Marks::OTEL),
    ("L", Marks::L),
    ("t.$date", Marks::T_DATE),
    ("@t", Marks::AT_T),
    ("@m", Marks::AT_M),
    ("@mt", Marks::AT_M),
    ("@l", Marks::AT_L),
    ("request", Marks::REQUEST),
    ("request_method", Marks::REQUEST),
    ("request_uri", Marks::REQUEST),
    ("uri", Marks::REQUEST),
    ("url", Marks::REQUEST),
    ("method", Marks::REQUEST),
    ("http_user_agent", Marks::REQUEST),
    ("user_agent", Marks::REQUEST),
    ("http_host", Marks::REQUEST),
    // ASP.NET Core
    ("Scheme", Marks::REQUEST),
    ("QueryString", Marks::REQUEST),
    ("RequestMethod", Marks::REQUEST),
    ("involvedObject.kind", Marks::INVOLVED),
    ("regarding.kind", Marks::INVOLVED),
    ("RecordNumber", Marks::EVENT_LOG),
    ("EventRecordID", Marks::EVENT_RECORD),
    ("EventRecordId", Marks::EVENT_RECORD),
    ("reqId", Marks::REQUEST_ID),
    ("remoteAddr", Marks::REMOTE_ADDRESS),
    ("rule", Marks::RULE),
    ("output", Marks::OUTPUT),
    ("priority", Marks::PRIORITY),
];

type Known = HashMap<&'static str, (Use, Marks), foldhash::fast::RandomState>;

// A constant table, built once: a hash map cannot be a `const`.
static KNOWN: LazyLock<Known> = LazyLock::new(|| {
    let mut known = Known::default();
    for (rank, time) in TIMES.iter().enumerate() {
        known.insert(time.name, (Use::Time(rank as u8), Marks::NONE));
    }
    for (name, part) in PARTS {
        known.insert(name, (Use::TimePart(part), Marks::NONE));
    }
    for (rank, message) in MESSAGES.iter().enumerate() {
        known.insert(message.name, (Use::Message(rank as u8), Marks::NONE));
    }
    for (rank, (name, kind)) in LEVELS.iter().enumerate() {
        let sure = kind.stands_alone() && *name != "L";
        let mark = if sure { Marks::LEVEL } else { Marks::NONE };
        known.insert(name, (Use::Level(rank as u8, *kind), mark));
    }
    for (rank, name) in HOSTS.iter().enumerate() {
        known.insert(name, (Use::Host(rank as u8), Marks::NONE));
    }
    for (name, mark) in MARKED {
        let entry = known.entry(name).or_insert((Use::Mark, Marks::NONE));
        entry.1 = entry.1.with(mark);
    }
    known
});

/// Length of the longest known name: longer ones are not looked up.
const NAME_BYTES_MAX: usize = 24;

/// The use of a name, and the mark it sets for its object.
pub(crate) fn find(name: &str) -> Option<(Use, Marks)> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    KNOWN.get(name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_use_and_are_found() {
        let names = TIMES.iter().map(|t| t.name).chain(MESSAGES.iter().map(|m| m.name));
        let names = names.chain(LEVELS.map(|l| l.0)).chain(PARTS.map(|p| p.0)).chain(HOSTS);
        let all: Vec<&str> = names.collect();
        let different: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        for name in &all {
            assert!(find(name).is_some(), "{name}");
        }
        let longest = all.iter().map(|name| name.len()).max();
        assert_eq!(longest, Some(NAME_BYTES_MAX));
    }
}
