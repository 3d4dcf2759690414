//! How brokers are reached, and what a log may use.

use std::path::PathBuf;
use std::time::Duration;

use krafka::auth::{AuthConfig, TlsConfig};

use crate::engines::error::{Error, ErrorKind};
use crate::engines::roots::{self, Identity};
use crate::engines::secret::Secret;

/// How long a message may wait for others that go to the broker in the same batch.
pub(super) const LINGER: Duration = Duration::from_millis(1);

/// Options of a [`Log`](super::Log).
#[derive(Debug, Clone)]
pub struct Config {
    /// Brokers that are asked for the others: `HOST:PORT`.
    pub brokers: Vec<String>,
    /// The topic.
    pub topic: String,
    /// Encryption of connections; `None` for none.
    pub tls: Option<Tls>,
    /// Who logs in, and how; `None` for no login.
    pub sasl: Option<Sasl>,
    /// How messages are compressed on the way to the brokers and on their disks.
    pub compression: Compression,
    /// Whether a topic that is not there is created with the settings of the brokers, if these
    /// permit it (`auto.create.topics.enable`).
    pub creates_topic: bool,
    /// Bytes of messages that are sent in one batch. A larger message is sent alone. The topic must
    /// permit batches of this size (`max.message.bytes`).
    pub batch_bytes_max: usize,
    /// Bytes of messages that wait to be acknowledged. Beyond them [`Log::submit`] blocks.
    ///
    /// [`Log::submit`]: super::Log::submit
    pub buffer_bytes_max: usize,
    /// Bytes that a broker is asked for at once, and that are kept in memory for each partition
    /// that is read. A batch of messages that is larger is read nevertheless, alone.
    pub fetch_bytes_max: usize,
    /// The longest time for connecting to one broker.
    pub connect_time_max: Duration,
    /// The longest time for a request and its response.
    pub request_time_max: Duration,
    /// The longest time until messages are acknowledged, all repetitions included. At least
    /// `request_time_max`.
    pub append_time_max: Duration,
}

/// Encryption of connections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// A file with the certificates that brokers are verified with; `None` for those of the system.
    pub ca: Option<PathBuf>,
    /// The certificate that is shown to brokers.
    pub identity: Option<Identity>,
}

/// A login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sasl {
    /// How the password is proved.
    pub mechanism: Mechanism,
    /// The name.
    pub user: String,
    /// The password.
    pub password: Secret,
}

/// How a password is proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// By sending it, which is safe with TLS alone.
    Plain,
    /// By a challenge with SHA-256.
    ScramSha256,
    /// By a challenge with SHA-512.
    ScramSha512,
}

/// How messages are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all, for messages that are compressed already.
    Plain,
    /// By gzip at its fastest level.
    Gzip,
    /// By LZ4.
    Lz4,
    /// By zstd at level 1.
    Zstd,
}

impl Config {
    /// The defaults: plain text, no login, no compression, batches of 1 MiB, 32 MiB of messages
    /// that wait, 8 MiB for each partition that is read, 30 s for a request, and two minutes for an
    /// append.
    pub fn new(brokers: impl IntoIterator<Item = impl Into<String>>, topic: &str) -> Config {
        Config {
            brokers: brokers.into_iter().map(Into::into).collect(),
            topic: topic.to_owned(),
            tls: None,
            sasl: None,
            compression: Compression::Plain,
            creates_topic: false,
            batch_bytes_max: 1 << 20,
            buffer_bytes_max: 32 << 20,
            fetch_bytes_max: 8 << 20,
            connect_time_max: Duration::from_secs(5),
            request_time_max: Duration::from_secs(30),
            append_time_max: Duration::from_secs(120),
        }
    }

    /// The settings of the library for connections.
    pub(super) fn builder(&self) -> Result<krafka::KafkaBuilder, Error> {
        if self.brokers.is_empty() {
            return Err(Error::new(
                ErrorKind::Refused,
                "no broker is given",
                "write for example brokers = [\"HOST:9092\"]",
            ));
        }
        let builder = krafka::Kafka::builder(self.brokers.join(","))
            .client_id("loginson")
            .allow_auto_create_topics(self.creates_topic)
            .connect_timeout(self.connect_time_max.min(self.request_time_max))
            .request_timeout(self.request_time_max);
        Ok(match self.security()? {
            Some(security) => builder.security(security),
            None => builder,
        })
    }

    fn security(&self) -> Result<Option<AuthConfig>, Error> {
        let login = self.sasl.as_ref().map(|Sasl { mechanism, user, password }| {
            let password = password.expose();
            match mechanism {
                Mechanism::Plain => AuthConfig::sasl_plain(user, password),
                Mechanism::ScramSha256 => AuthConfig::sasl_scram_sha256(user, password),
                Mechanism::ScramSha512 => AuthConfig::sasl_scram_sha512(user, password),
            }
        });
        let Some(tls) = &self.tls else { return Ok(login) };
        // The library reports a wrong file with the first connection, and less clearly.
        roots::client_config(tls.ca.as_deref(), tls.identity.as_ref())?;
        let mut settings = TlsConfig::new().with_ca_cert_pem(roots::pem(tls.ca.as_deref())?);
        if let Some(Identity { certificate, key }) = &tls.identity {
            let path = |path: &PathBuf| path.to_string_lossy().into_owned();
            settings = settings.with_client_cert(path(certificate), path(key));
        }
        Ok(Some(match login {
            Some(login) => login.with_tls(settings),
            None => AuthConfig::ssl(settings),
        }))
    }

    /// `text` without the password: brokers repeat parts of requests in their errors.
    pub(super) fn hide(&self, text: &str) -> String {
        match &self.sasl {
            Some(sasl) => sasl.password.hidden_in(text),
            None => text.to_owned(),
        }
    }
}

impl Compression {
    pub(super) fn codec(self) -> (krafka::Compression, Option<i32>) {
        match self {
            Compression::Plain => (krafka::Compression::None, None),
            Compression::Gzip => (krafka::Compression::Gzip, Some(1)),
            Compression::Lz4 => (krafka::Compression::Lz4, None),
            Compression::Zstd => (krafka::Compression::Zstd, Some(1)),
        }
    }
}
