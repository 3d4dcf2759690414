//! The ways in that listen or follow: started from the configuration, stopped together, found by
//! name, and started again after a fault of ours.
//!
//! Collectors of other machines are among them where there is a store that keeps their frames.
//!
//! A further source is a field of [`Running`], a function that starts it, and a line in
//! [`Running::look`]. HTTP is not among them: its requests come through the API
//! ([`crate::ingest::http_lines`]).
//!
//! Invariant: dropping [`Sources`] stops each of them, and returns when what had arrived is
//! delivered.

mod place;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;
use collector::file::Recall;
use collector::node::{CollectorStatus, NodeListenConfig, NodeListener, NodeStore};
use collector::{
    Accounting, Credentials, Deliver, FileConfig, FileSource, JournalSource, SourceKind, TcpSource,
    TlsSource, UdpConfig, UdpSource,
};
use platform::{Clock, RealDisk};
use store::Store;

use crate::config::Config;
use crate::ingest::recall::StoreRecall;
use place::Place;

/// How often it is looked whether a source has failed.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// What a source needs besides its own settings.
#[derive(Clone)]
pub struct Surroundings {
    /// Where its frames go.
    pub deliver: Arc<dyn Deliver>,
    /// Where it counts.
    pub accounting: Arc<Accounting>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Where its frames are kept, for those that look what became of their lines; none in a
    /// collector, whose frames leave this machine.
    pub store: Option<Arc<Store>>,
    /// What keeps the frames of collectors; none in a collector.
    pub nodes: Option<Arc<dyn NodeStore>>,
}

/// Where a source listens; none when it is off.
pub type Listener = (SourceKind, Option<SocketAddr>);

/// Running sources. Dropping them stops them.
#[derive(Default)]
pub struct Sources {
    running: Arc<Mutex<Running>>,
    watching: Mutex<Option<(Sender<Infallible>, JoinHandle<()>)>>,
}

#[derive(Default)]
struct Running {
    udp: Place<UdpSource>,
    tcp: Place<TcpSource>,
    tls: Place<TlsSource>,
    files: Place<FileSource>,
    journal: Place<JournalSource>,
    nodes: Place<NodeListener>,
    credentials: Option<Arc<Credentials>>,
    listeners: Vec<Listener>,
}

impl Sources {
    /// Starts those that are configured. When one cannot start, those before it are stopped again.
    pub fn start(config: &Config, with: &Surroundings) -> Result<Sources> {
        let running = Arc::new(Mutex::new(Running::start(config, with)?));
        let (stop, stopped) = channel::<Infallible>();
        let (watched, mut config, with) = (Arc::clone(&running), config.clone(), with.clone());
        lock(&running).fix_ports(&mut config);
        let watch = move || {
            while stopped.recv_timeout(LOOK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                lock(&watched).look(&config, &with, Instant::now());
            }
        };
        let thread = std::thread::Builder::new().name("sources".to_owned()).spawn(watch)?;
        Ok(Sources { running, watching: Mutex::new(Some((stop, thread))) })
    }

    /// Looks at the files that are followed; none when none are asked for.
    pub fn files<R>(&self, look: impl FnOnce(&FileSource) -> R) -> Option<R> {
        lock(&self.running).files.source().map(look)
    }

    /// Looks at the journal; none when it is not asked for.
    pub fn journal<R>(&self, look: impl FnOnce(&JournalSource) -> R) -> Option<R> {
        lock(&self.running).journal.source().map(look)
    }

    /// Looks at the listener for collectors; none when it is off, or about to be started again.
    pub fn nodes<R>(&self, look: impl FnOnce(&NodeListener) -> R) -> Option<R> {
        lock(&self.running).nodes.source().map(look)
    }

    /// Where they listen, with the ports the kernel chose if port 0 was asked for.
    pub fn listeners(&self) -> Vec<Listener> {
        lock(&self.running).listeners.clone()
    }

    /// The collectors that were here since the start of the listener.
    pub fn collectors(&self) -> Vec<CollectorStatus> {
        self.nodes(NodeListener::collectors).unwrap_or_default()
    }

    /// The certificate of syslog over TLS; none when that is off.
    pub fn credentials(&self) -> Option<Arc<Credentials>> {
        lock(&self.running).credentials.clone()
    }

    /// Reads files again that can change while the process runs: certificates. Blocks on the disk.
    pub fn reload(&self) {
        match self.credentials() {
            Some(credentials) => _ = credentials.reload(),
            None => tracing::info!("there is nothing to read again: TLS is off"),
        }
    }

    /// Stops each of them, and returns when what had arrived is delivered.
    pub fn stop(&self) {
        let watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((stop, thread)) = watching {
            drop(stop);
            assert!(thread.join().is_ok() || std::thread::panicking(), "watching panicked");
        }
        *lock(&self.running) = Running::default();
    }
}

impl Drop for Sources {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A source that is half started is none, whatever panicked.
fn lock(running: &Mutex<Running>) -> MutexGuard<'_, Running> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    fn start(config: &Config, with: &Surroundings) -> Result<Running> {
        let mut running = Running::default();
        if let Some(tls) = &config.syslog_tls {
            running.credentials =
                Some(Credentials::load(tls.files.clone(), Arc::clone(&with.clock))?);
        }
        running.udp.set(udp(config, with)?);
        running.tcp.set(tcp(config, with)?);
        running.tls.set(tls(config, with, running.credentials.as_ref())?);
        running.files.set(files(config, with)?);
        running.journal.set(journal(config, with)?);
        running.nodes.set(nodes(config, with)?);
        running.listeners = vec![
            (SourceKind::SyslogUdp, running.udp.source().map(UdpSource::local_addr)),
            (SourceKind::SyslogTcp, running.tcp.source().map(TcpSource::local_addr)),
            (SourceKind::SyslogTls, running.tls.source().map(TlsSource::local_addr)),
        ];
        if with.nodes.is_some() {
            let nodes = running.nodes.source().map(NodeListener::local_addr);
            running.listeners.push((SourceKind::Node, nodes));
        }
        for (kind, address) in &running.listeners {
            if let Some(address) = address {
                tracing::info!("{} at {address}", kind.title());
            }
        }
        Ok(running)
    }

    /// A source that is started again has the port that it had.
    fn fix_ports(&self, config: &mut Config) {
        config.syslog_udp_listen = self.udp.source().map(UdpSource::local_addr);
        config.syslog_tcp_listen = self.tcp.source().map(TcpSource::local_addr);
        if let (Some(tls), Some(source)) = (&mut config.syslog_tls, self.tls.source()) {
            tls.listen = source.local_addr();
        }
        config.node_listen = self.nodes.source().map(NodeListener::local_addr);
    }

    /// Starts those again that have failed.
    fn look(&mut self, config: &Config, with: &Surroundings, now: Instant) {
        let credentials = self.credentials.as_ref();
        self.udp.look(SourceKind::SyslogUdp, now, UdpSource::has_failed, || udp(config, with));
        self.tcp.look(SourceKind::SyslogTcp, now, TcpSource::has_failed, || tcp(config, with));
        self.tls.look(SourceKind::SyslogTls, now, TlsSource::has_failed, || {
            tls(config, with, credentials)
        });
        self.files.look(SourceKind::File, now, FileSource::has_failed, || files(config, with));
        self.journal
            .look(SourceKind::Journald, now, JournalSource::has_failed, || journal(config, with));
        self.nodes.look(SourceKind::Node, now, NodeListener::has_failed, || nodes(config, with));
    }
}

impl Surroundings {
    fn cloned(&self) -> (Arc<dyn Deliver>, Arc<Accounting>, Arc<dyn Clock>) {
        (Arc::clone(&self.deliver), Arc::clone(&self.accounting), Arc::clone(&self.clock))
    }

    fn recall(&self) -> Option<Box<dyn Recall>> {
        let store = self.store.as_ref()?;
        Some(Box::new(StoreRecall::new(Arc::clone(store))))
    }
}

fn udp(config: &Config, with: &Surroundings) -> Result<Option<UdpSource>> {
    let Some(address) = config.syslog_udp_listen else { return Ok(None) };
    let (deliver, accounting, clock) = with.cloned();
    let udp_config = UdpConfig { sockets: config.syslog_udp_sockets, ..UdpConfig::default() };
    Ok(Some(UdpSource::start(address, udp_config, deliver, accounting, clock)?))
}

fn tcp(config: &Config, with: &Surroundings) -> Result<Option<TcpSource>> {
    let Some(address) = config.syslog_tcp_listen else { return Ok(None) };
    let (deliver, accounting, clock) = with.cloned();
    let tcp_config = config.syslog_tcp.clone();
    Ok(Some(TcpSource::start(address, tcp_config, deliver, accounting, clock)?))
}

fn tls(
    config: &Config,
    with: &Surroundings,
    credentials: Option<&Arc<Credentials>>,
) -> Result<Option<TlsSource>> {
    let Some((tls, credentials)) = config.syslog_tls.as_ref().zip(credentials) else {
        return Ok(None);
    };
    let (deliver, accounting, clock) = with.cloned();
    let (tcp_config, credentials) = (config.syslog_tcp.clone(), Arc::clone(credentials));
    let source = TlsSource::start(tls.listen, tcp_config, credentials, deliver, accounting, clock)?;
    Ok(Some(source))
}

fn files(config: &Config, with: &Surroundings) -> Result<Option<FileSource>> {
    if config.files.is_empty() {
        return Ok(None);
    }
    let (deliver, accounting, clock) = with.cloned();
    let disk = Arc::new(RealDisk);
    let files = FileConfig::new(config.files.clone(), config.data_dir.clone());
    Ok(Some(FileSource::start(files, deliver, accounting, clock, disk, with.recall())?))
}

fn journal(config: &Config, with: &Surroundings) -> Result<Option<JournalSource>> {
    let Some(journal) = config.journald.clone() else { return Ok(None) };
    let (deliver, accounting, clock) = with.cloned();
    let disk = Arc::new(RealDisk);
    Ok(Some(JournalSource::start(journal, deliver, accounting, clock, disk, with.recall())?))
}

fn nodes(config: &Config, with: &Surroundings) -> Result<Option<NodeListener>> {
    let Some((address, store)) = config.node_listen.zip(with.nodes.clone()) else {
        return Ok(None);
    };
    let (secret, clock) = (config.node_secret.clone(), Arc::clone(&with.clock));
    let config = NodeListenConfig { address, secret, clock };
    Ok(Some(NodeListener::start(config, store, Arc::clone(&with.accounting))?))
}

/// Addresses by the names of their listeners, HTTP among them: for the ready file and the status.
pub fn addresses(http: SocketAddr, listeners: &[Listener]) -> serde_json::Value {
    let text = |address: SocketAddr| address.to_string().into();
    let sources = listeners.iter().map(|&(kind, address)| {
        (kind.name().to_owned(), address.map_or(serde_json::Value::Null, text))
    });
    std::iter::once(("http".to_owned(), text(http))).chain(sources).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use collector::node::sender::Sender;
    use collector::node::{NodeIdentity, secret, wire};
    use collector::{KeepError, OnDurable, Patience};
    use platform::RealClock;
    use record::{Frame, Numbers};

    use super::*;
    use crate::config::RawConfig;

    /// Brings down the first that admits a collector.
    #[derive(Default)]
    struct Faulty {
        admitted: AtomicBool,
    }

    impl NodeStore for Faulty {
        fn id(&self) -> u32 {
            1
        }

        fn admit(&self, _: &NodeIdentity, _: u64) -> Result<Numbers, String> {
            assert!(self.admitted.swap(true, Relaxed), "a fault, which is tested");
            Ok(Numbers::default())
        }

        fn keep(&self, _: Frame, _: OnDurable) -> Result<(), KeepError> {
            Err(KeepError::Closed)
        }

        fn refusal(&self) -> Option<KeepError> {
            None
        }
    }

    impl Deliver for Faulty {
        fn next_sequence(&self) -> (u32, u64) {
            (1, 1)
        }

        fn deliver(&self, _: Frame, _: OnDurable, _: Patience) -> Result<(), KeepError> {
            Err(KeepError::Closed)
        }

        fn refusal(&self) -> Option<KeepError> {
            None
        }
    }

    /// Whether a collector that comes is admitted.
    fn is_admitted(address: SocketAddr) -> std::io::Result<bool> {
        let identity = NodeIdentity { node: 7, key: 1, starts: 1, run: 1 };
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let (mut sender, hello) = Sender::<()>::new(&identity, None, secret::nonce());
        stream.write_all(&[&hello[..], &sender.start(1)].concat())?;
        let mut reader = wire::CollectorReader::default();
        let mut bytes = [0; 64];
        loop {
            match stream.read(&mut bytes)? {
                0 => return Ok(false),
                count => reader.push(&bytes[..count]),
            }
            while let Some(message) = reader.take().expect("it is ours") {
                if matches!(message, wire::ToCollector::Held { .. }) {
                    return Ok(true);
                }
            }
        }
    }

    #[test]
    fn collectors_are_listened_for_again_after_a_panic_at_the_same_address() {
        let config = Config::try_from(RawConfig {
            syslog_udp_listen: "off".into(),
            syslog_tcp_listen: "off".into(),
            node_listen: "127.0.0.1:0".into(),
            ..RawConfig::default()
        });
        let (faulty, accounting) = (Arc::<Faulty>::default(), Arc::<Accounting>::default());
        let with = Surroundings {
            deliver: Arc::clone(&faulty) as _,
            accounting: Arc::clone(&accounting),
            clock: Arc::new(RealClock::new()),
            store: None,
            nodes: Some(faulty),
        };
        let sources = Sources::start(&config.unwrap(), &with).unwrap();
        let listeners = sources.listeners();
        let Some(&(SourceKind::Node, Some(address))) = listeners.last() else {
            panic!("{listeners:?}")
        };
        assert!(!is_admitted(address).is_ok_and(|admitted| admitted), "it panics over the first");
        // A collector tries again as well.
        while !is_admitted(address).is_ok_and(|admitted| admitted) {
            std::thread::yield_now();
        }
        assert_eq!(accounting.source(SourceKind::Node).counts().threads_failed, 1);
        assert_eq!(sources.nodes(|nodes| nodes.collectors().len()), Some(1));
    }
}
