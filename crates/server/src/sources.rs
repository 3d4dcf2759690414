//! The ways in that listen or follow: started from the configuration, stopped together, found by name.
//!
//! A further source is a field here and a line in [`Sources::start`]. HTTP is not among them: its requests come through
//! the API, by `Pipeline::push_http`.
//!
//! Invariant: dropping [`Sources`] stops each of them, and returns when what had arrived is delivered.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use collector::{
    Accounting, Credentials, Deliver, FileConfig, FileSource, JournalSource, SourceKind, TcpSource,
    TlsSource, UdpConfig, UdpSource,
};
use platform::{Clock, RealDisk};
use store::Store;

use crate::config::Config;
use crate::recall::StoreRecall;

/// What a source needs besides its own settings.
pub struct Surroundings {
    /// Where its frames go.
    pub deliver: Arc<dyn Deliver>,
    /// Where it counts.
    pub accounting: Arc<Accounting>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Where its frames are kept, for those that look what became of their lines; none in a collector, which then follows
    /// no files and no journal.
    pub store: Option<Arc<Store>>,
}

/// Where a source listens; none when it is off.
pub type Listener = (SourceKind, Option<SocketAddr>);

/// Running sources. Dropping them stops them.
#[derive(Default)]
pub struct Sources {
    udp: Option<UdpSource>,
    tcp: Option<TcpSource>,
    tls: Option<TlsSource>,
    files: Option<FileSource>,
    journal: Option<JournalSource>,
}

impl Sources {
    /// Starts those that are configured. When one cannot start, those before it are stopped again.
    pub fn start(config: &Config, with: &Surroundings) -> Result<Sources> {
        let store = with.store.as_ref();
        let with =
            || (Arc::clone(&with.deliver), Arc::clone(&with.accounting), Arc::clone(&with.clock));
        let mut sources = Sources::default();
        if let Some(address) = config.syslog_udp_listen {
            let (deliver, accounting, clock) = with();
            let udp_config =
                UdpConfig { sockets: config.syslog_udp_sockets, ..UdpConfig::default() };
            sources.udp = Some(UdpSource::start(address, udp_config, deliver, accounting, clock)?);
        }
        if let Some(address) = config.syslog_tcp_listen {
            let (deliver, accounting, clock) = with();
            let tcp_config = config.syslog_tcp.clone();
            sources.tcp = Some(TcpSource::start(address, tcp_config, deliver, accounting, clock)?);
        }
        if let Some(tls) = &config.syslog_tls {
            let (deliver, accounting, clock) = with();
            let credentials = Credentials::load(tls.files.clone(), Arc::clone(&clock))?;
            sources.tls = Some(TlsSource::start(
                tls.listen,
                config.syslog_tcp.clone(),
                credentials,
                deliver,
                accounting,
                clock,
            )?);
        }
        if let Some(store) = store.filter(|_| !config.files.is_empty()) {
            let (deliver, accounting, clock) = with();
            let (disk, recall) = (Arc::new(RealDisk), StoreRecall::new(Arc::clone(store)));
            let files = FileConfig::new(config.files.clone(), config.data_dir.clone());
            let recall = Box::new(recall);
            let files = FileSource::start(files, deliver, accounting, clock, disk, recall)?;
            sources.files = Some(files);
        }
        if let (Some(journal), Some(store)) = (&config.journald, store) {
            let (deliver, accounting, clock) = with();
            let (disk, recall) = (Arc::new(RealDisk), StoreRecall::new(Arc::clone(store)));
            let (journal, recall) = (journal.clone(), Box::new(recall));
            let journal = JournalSource::start(journal, deliver, accounting, clock, disk, recall)?;
            sources.journal = Some(journal);
        }
        for (kind, address) in sources.listeners() {
            if let Some(address) = address {
                tracing::info!("{} at {address}", kind.title());
            }
        }
        Ok(sources)
    }

    /// The files that are followed; none when none are asked for.
    pub fn files(&self) -> Option<&FileSource> {
        self.files.as_ref()
    }

    /// Where they listen, with the ports the kernel chose if port 0 was asked for.
    pub fn listeners(&self) -> Vec<Listener> {
        vec![
            (SourceKind::SyslogUdp, self.udp.as_ref().map(UdpSource::local_addr)),
            (SourceKind::SyslogTcp, self.tcp.as_ref().map(TcpSource::local_addr)),
            (SourceKind::SyslogTls, self.tls.as_ref().map(TlsSource::local_addr)),
        ]
    }

    /// The certificate of syslog over TLS; none when that is off.
    pub fn credentials(&self) -> Option<Arc<Credentials>> {
        self.tls.as_ref().map(|tls| Arc::clone(tls.credentials()))
    }
}

/// Addresses by the names of their listeners, HTTP among them: for the ready file and the status.
pub fn addresses(http: SocketAddr, listeners: &[Listener]) -> serde_json::Value {
    let text = |address: SocketAddr| address.to_string().into();
    let sources = listeners.iter().map(|&(kind, address)| {
        (kind.name().to_owned(), address.map_or(serde_json::Value::Null, text))
    });
    std::iter::once(("http".to_owned(), text(http))).chain(sources).collect()
}
