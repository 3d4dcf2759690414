//! What sources are told: addresses, certificates, files to follow.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::ingest::sources::kafka::KafkaSourceOptions;
use collector::node::Secret;
use collector::{FileRule, JournalConfig, SharedKey, TcpConfig, TlsFiles};

/// How lines are received.
#[derive(Clone, Debug)]
pub struct SourceOptions {
    /// The directory of checkpoints.
    pub data_dir: PathBuf,
    /// Addresses where sources listen.
    pub listen: Listen,
    /// How connections of syslog over TCP and over TLS are served.
    pub syslog_tcp: TcpConfig,
    /// Sockets for datagrams; 0 for as many as suit the processors.
    pub syslog_udp_sockets: usize,
    /// Zones of times that name none, by listener.
    pub syslog_zones: SyslogZones,
    /// Syslog over TLS; `None` when off.
    pub syslog_tls: Option<SyslogTls>,
    /// The certificate of other listeners with TLS; `None` if there are none.
    pub tls: Option<TlsFiles>,
    /// The key that senders of Fluent forward must know.
    pub fluent_key: Option<SharedKey>,
    /// Address where collectors deliver; `None` when off.
    pub node_listen: Option<SocketAddr>,
    /// The secret that collectors and stores prove to each other to know.
    pub node_secret: Option<Arc<Secret>>,
    /// The journal to read; `None` when off.
    pub journald: Option<JournalConfig>,
    /// Files to follow.
    pub files: Vec<FileRule>,
    /// Topics of Kafka to read.
    pub kafka: Vec<KafkaSourceOptions>,
}

impl SourceOptions {
    /// No sources.
    pub fn none(data_dir: &Path) -> SourceOptions {
        SourceOptions {
            data_dir: data_dir.to_owned(),
            listen: Listen::default(),
            syslog_tcp: TcpConfig::default(),
            syslog_udp_sockets: 0,
            syslog_zones: SyslogZones::default(),
            syslog_tls: None,
            tls: None,
            fluent_key: None,
            node_listen: None,
            node_secret: None,
            journald: None,
            files: Vec::new(),
            kafka: Vec::new(),
        }
    }
}

/// Zones of the senders that reach a listener, by name; `None` if nothing is known of them.
#[derive(Clone, Debug, Default)]
pub struct SyslogZones {
    /// Of datagrams.
    pub udp: Option<String>,
    /// Of TCP.
    pub tcp: Option<String>,
    /// Of TLS.
    pub tls: Option<String>,
}

/// Addresses where sources listen; `None` for a source that is off.
#[derive(Clone, Debug, Default)]
pub struct Listen {
    /// Syslog datagrams.
    pub syslog_udp: Option<SocketAddr>,
    /// Syslog over TCP.
    pub syslog_tcp: Option<SocketAddr>,
    /// Fluent forward.
    pub fluent: Option<AnsweredListen>,
    /// Beats and Logstash.
    pub beats: Option<AnsweredListen>,
    /// RELP.
    pub relp: Option<AnsweredListen>,
    /// Datagrams of StatsD.
    pub statsd: Option<SocketAddr>,
}

/// Where a protocol with answers listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnsweredListen {
    /// The address.
    pub address: SocketAddr,
    /// Whether connections are encrypted.
    pub is_tls: bool,
}

impl Listen {
    /// Number of these listeners that accept connections, which need open files; datagrams need
    /// none.
    pub fn streams(&self) -> usize {
        let answered = [self.fluent, self.beats, self.relp].into_iter().flatten().count();
        usize::from(self.syslog_tcp.is_some()) + answered
    }
}

/// A listener for syslog over TLS.
#[derive(Clone, Debug)]
pub struct SyslogTls {
    /// Its address.
    pub listen: SocketAddr,
    /// Its certificate, key, and client CA.
    pub files: TlsFiles,
}
