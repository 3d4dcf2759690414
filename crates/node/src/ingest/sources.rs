//! The sources that listen or follow: started by their options, stopped together, found by
//! name, and restarted after a panic.
//!
//! The listener for collectors of other machines is among them in a server, whose store keeps their
//! frames.
//!
//! A new listening source is a row of [`LISTENERS`] and the function that starts it. The ready
//! file, status and log take its address from there, and a restart keeps its port; metrics and
//! status count it by its [`SourceKind`]. Its address is in
//! [`super::options::Listen`]. HTTP is not among the sources: its requests come through the API
//! ([`crate::ingest::http_lines`]).
//!
//! Invariant: dropping [`Sources`] stops each of them, and returns when everything that had arrived
//! is delivered.

pub mod kafka;
mod supervisor;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;
use collector::file::Recall;
use collector::kafka::{KafkaStatus, KeptFrames, Resumed};
use collector::node::{CollectorStatus, NodeListenConfig, NodeListener, NodeStore};
use collector::{
    Accounting, BeatsSource, BindTries, Credentials, Deliver, FileConfig, FileSource, FluentSource,
    JournalSource, KafkaSource, RelpSource, SourceKind, StatsdSource, TcpConfig, TcpSource,
    TlsSource, UdpConfig, UdpSource,
};
use platform::{Clock, RealDisk};
use store::Store;

use crate::ingest::options::{AnsweredListen, SourceOptions};
use crate::ingest::recall::StoreRecall;
use kafka::{Brokers, KafkaSourceOptions};
use supervisor::Supervisor;

/// How often sources are checked for failures.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// What a source needs besides its own settings.
#[derive(Clone)]
pub struct SourceContext {
    /// Receives its frames.
    pub deliver: Arc<dyn Deliver>,
    /// Its counters.
    pub accounting: Arc<Accounting>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The store of its frames, for sources that look up what became of their lines; `None` in a
    /// collector, whose frames leave this machine.
    pub store: Option<Arc<Store>>,
    /// Keeps the frames of collectors; `None` in a collector.
    pub nodes: Option<Arc<dyn NodeStore>>,
}

/// The address of a listener; `None` when it is off.
pub type Listener = (SourceKind, Option<SocketAddr>);

/// Running sources. Dropping them stops them.
#[derive(Default)]
pub struct Sources {
    running: Arc<Mutex<Running>>,
    watching: Mutex<Option<(Sender<Infallible>, JoinHandle<()>)>>,
}

/// A source that listens at an address.
trait Listening: Send {
    /// Its address, with the port that the kernel chose if port 0 was configured.
    fn local_addr(&self) -> SocketAddr;
    /// Whether one of its threads has panicked.
    fn has_failed(&self) -> bool;
}

macro_rules! listening {
    ($($source:ty),*) => {$(
        impl Listening for $source {
            fn local_addr(&self) -> SocketAddr {
                <$source>::local_addr(self)
            }

            fn has_failed(&self) -> bool {
                <$source>::has_failed(self)
            }
        }
    )*};
}

listening!(UdpSource, TcpSource, TlsSource, FluentSource, BeatsSource, RelpSource, StatsdSource);

/// Binds and starts a source; `None` when it is off. On a restart it binds the same address as
/// before.
type Start = fn(&Starting<'_>) -> Result<Option<Box<dyn Listening>>>;

/// Every source that listens for lines, in the order of display.
const LISTENERS: [(SourceKind, Start); 7] = [
    (SourceKind::SyslogUdp, udp),
    (SourceKind::SyslogTcp, tcp),
    (SourceKind::SyslogTls, tls),
    (SourceKind::Fluent, fluent),
    (SourceKind::Beats, beats),
    (SourceKind::Relp, relp),
    (SourceKind::Statsd, statsd),
];

/// The arguments to start a source.
struct Starting<'a> {
    options: &'a SourceOptions,
    with: &'a SourceContext,
    credentials: Option<&'a Arc<Credentials>>,
    /// The address that it had before a panic; `None` at the first start.
    bound: Option<SocketAddr>,
}

impl Starting<'_> {
    /// The address to bind: on a restart the earlier one, to keep a port that the kernel chose.
    fn address(&self, configured: SocketAddr) -> SocketAddr {
        self.bound.unwrap_or(configured)
    }

    /// What a protocol with answers is started with: its address, its settings, and with TLS the
    /// certificate.
    fn answered(
        &self,
        listen: AnsweredListen,
    ) -> (SocketAddr, TcpConfig, Option<Arc<Credentials>>) {
        let credentials = self.credentials.filter(|_| listen.is_tls).cloned();
        let zone = self.options.syslog_zones.tcp.clone();
        let config = TcpConfig { zone, ..self.options.syslog_tcp.clone() };
        (self.address(listen.address), config, credentials)
    }
}

#[derive(Default)]
struct Running {
    /// In the order of [`LISTENERS`].
    listening: Vec<Supervisor<Box<dyn Listening>>>,
    files: Supervisor<FileSource>,
    journal: Supervisor<JournalSource>,
    /// In the order of the options.
    kafka: Vec<Supervisor<KafkaSource>>,
    nodes: Supervisor<NodeListener>,
    credentials: Option<Arc<Credentials>>,
    listeners: Vec<Listener>,
}

impl Sources {
    /// Starts the configured sources. If one cannot start, those before it are stopped again.
    pub fn start(options: &SourceOptions, with: &SourceContext) -> Result<Sources> {
        let running = Arc::new(Mutex::new(Running::start(options, with)?));
        let (stop, stopped) = channel::<Infallible>();
        let (watched, mut options, with) = (Arc::clone(&running), options.clone(), with.clone());
        lock(&running).fix_ports(&mut options);
        let watch = move || {
            while stopped.recv_timeout(LOOK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let look = || lock(&watched).look(&options, &with, Instant::now());
                // Without this thread no source that fails would be started again.
                if catch_unwind(AssertUnwindSafe(look)).is_err() {
                    tracing::error!("a bug in starting a source again; it is tried in a second");
                }
            }
        };
        let thread = std::thread::Builder::new().name("sources".to_owned()).spawn(watch)?;
        Ok(Sources { running, watching: Mutex::new(Some((stop, thread))) })
    }

    /// Reads the state of followed files; `None` if none are configured.
    pub fn files<R>(&self, look: impl FnOnce(&FileSource) -> R) -> Option<R> {
        lock(&self.running).files.source().map(look)
    }

    /// Reads the state of the journal; `None` if it is not configured.
    pub fn journal<R>(&self, look: impl FnOnce(&JournalSource) -> R) -> Option<R> {
        lock(&self.running).journal.source().map(look)
    }

    /// The states of what is read from Kafka.
    pub fn kafka(&self) -> Vec<KafkaStatus> {
        let running = lock(&self.running);
        running.kafka.iter().filter_map(|kafka| Some(kafka.source()?.status())).collect()
    }

    /// Reads the state of the listener for collectors; `None` if it is off, or about to restart.
    pub fn nodes<R>(&self, look: impl FnOnce(&NodeListener) -> R) -> Option<R> {
        lock(&self.running).nodes.source().map(look)
    }

    /// The addresses of listeners, with the ports that the kernel chose for port 0.
    pub fn listeners(&self) -> Vec<Listener> {
        lock(&self.running).listeners.clone()
    }

    /// The collectors that have connected since the listener started.
    pub fn collectors(&self) -> Vec<CollectorStatus> {
        self.nodes(NodeListener::collectors).unwrap_or_default()
    }

    /// The certificate of syslog over TLS; `None` when that is off.
    pub fn credentials(&self) -> Option<Arc<Credentials>> {
        lock(&self.running).credentials.clone()
    }

    /// Stops all sources, and returns when everything that had arrived is delivered.
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

/// A panic leaves a valid state, because a source is stored only once it has started.
fn lock(running: &Mutex<Running>) -> MutexGuard<'_, Running> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    fn start(options: &SourceOptions, with: &SourceContext) -> Result<Running> {
        let mut running = Running::default();
        // Before anything gets a number of a frame that never came.
        let resumed = options.kafka.iter().map(|options| resumed(options, with));
        let resumed = resumed.collect::<Result<Vec<_>>>()?;
        let tls = options.syslog_tls.as_ref().map(|tls| &tls.files).or(options.tls.as_ref());
        if let Some(tls) = tls {
            running.credentials = Some(Credentials::load(tls.clone(), Arc::clone(&with.clock))?);
        }
        for (kind, start) in LISTENERS {
            let credentials = running.credentials.as_ref();
            let starting = Starting { options, with, credentials, bound: None };
            let source = once_free(|| start(&starting))?;
            running.listeners.push((kind, source.as_ref().map(|source| source.local_addr())));
            let mut supervisor = Supervisor::default();
            supervisor.set(source);
            running.listening.push(supervisor);
        }
        running.files.set(files(options, with)?);
        running.journal.set(journal(options, with)?);
        for (options, resumed) in options.kafka.iter().zip(resumed) {
            let mut supervisor = Supervisor::default();
            supervisor.set(Some(topics(options, resumed, with)?));
            running.kafka.push(supervisor);
        }
        running.nodes.set(once_free(|| nodes(options, with))?);
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

    /// Keeps the port of the listener for collectors on a restart. The sources of [`LISTENERS`]
    /// keep theirs by [`Starting::bound`].
    fn fix_ports(&self, options: &mut SourceOptions) {
        options.node_listen = self.nodes.source().map(NodeListener::local_addr);
    }

    /// Restarts sources that have failed.
    fn look(&mut self, options: &SourceOptions, with: &SourceContext, now: Instant) {
        let credentials = self.credentials.as_ref();
        for (index, (kind, start)) in LISTENERS.into_iter().enumerate() {
            // A source that was off at the start stays off.
            let (Some(supervisor), Some((_, Some(bound)))) =
                (self.listening.get_mut(index), self.listeners.get(index))
            else {
                continue;
            };
            let starting = Starting { options, with, credentials, bound: Some(*bound) };
            supervisor.look(kind, now, |source| source.has_failed(), || start(&starting));
        }
        self.files.look(SourceKind::File, now, FileSource::has_failed, || files(options, with));
        self.journal
            .look(SourceKind::Journald, now, JournalSource::has_failed, || journal(options, with));
        for (supervisor, options) in self.kafka.iter_mut().zip(&options.kafka) {
            let start = || topics(options, resumed(options, with)?, with).map(Some);
            supervisor.look(SourceKind::Kafka, now, KafkaSource::has_failed, start);
        }
        self.nodes.look(SourceKind::Node, now, NodeListener::has_failed, || nodes(options, with));
    }
}

/// Starts a listener; tries again for some seconds if its address is in use.
fn once_free<T>(start: impl Fn() -> Result<T>) -> Result<T> {
    let mut tries = BindTries::default();
    loop {
        let error = match start() {
            Ok(started) => return Ok(started),
            Err(error) => error,
        };
        match error.downcast_ref().and_then(|error| tries.pause_after(error)) {
            Some(pause) => std::thread::sleep(pause),
            None => return Err(error),
        }
    }
}

impl SourceContext {
    fn cloned(&self) -> (Arc<dyn Deliver>, Arc<Accounting>, Arc<dyn Clock>) {
        (Arc::clone(&self.deliver), Arc::clone(&self.accounting), Arc::clone(&self.clock))
    }

    fn recall(&self) -> Option<Box<dyn Recall>> {
        let store = self.store.as_ref()?;
        Some(Box::new(StoreRecall::new(Arc::clone(store))))
    }
}

fn udp(starting: &Starting<'_>) -> Result<Option<Box<dyn Listening>>> {
    let options = starting.options;
    let Some(address) = options.listen.syslog_udp else { return Ok(None) };
    let (deliver, accounting, clock) = starting.with.cloned();
    let udp_config = UdpConfig {
        sockets: options.syslog_udp_sockets,
        zone: options.syslog_zones.udp.clone(),
        ..UdpConfig::default()
    };
    let address = starting.address(address);
    Ok(Some(Box::new(UdpSource::start(address, udp_config, deliver, accounting, clock)?)))
}

fn tcp(starting: &Starting<'_>) -> Result<Option<Box<dyn Listening>>> {
    let options = starting.options;
    let Some(address) = options.listen.syslog_tcp else { return Ok(None) };
    let (deliver, accounting, clock) = starting.with.cloned();
    let address = starting.address(address);
    let zone = options.syslog_zones.tcp.clone();
    let tcp_config = TcpConfig { zone, ..options.syslog_tcp.clone() };
    Ok(Some(Box::new(TcpSource::start(address, tcp_config, deliver, accounting, clock)?)))
}

fn tls(starting: &Starting<'_>) -> Result<Option<Box<dyn Listening>>> {
    let options = starting.options;
    let Some((tls, credentials)) = options.syslog_tls.as_ref().zip(starting.credentials) else {
        return Ok(None);
    };
    let (deliver, accounting, clock) = starting.with.cloned();
    let address = starting.address(tls.listen);
    let zone = options.syslog_zones.tls.clone();
    let tcp_config = TcpConfig { zone, ..options.syslog_tcp.clone() };
    let credentials = Arc::clone(credentials);
    let source = TlsSource::start(address, tcp_config, credentials, deliver, accounting, clock)?;
    Ok(Some(Box::new(source)))
}

fn fluent(starting: &Starting<'_>) -> Result<Option<Box<dyn Listening>>> {
    let Some(listen) = starting.options.listen.fluent else { return Ok(None) };
    let (address, config, credentials) = starting.answered(listen);
    let key = starting.options.fluent_key.clone();
    let (deliver, accounting, clock) = starting.with.cloned();
    let source =
        FluentSource::start(address, config, credentials, key, deliver, accounting, clock)?;
    Ok(Some(Box::new(source)))
}

fn beats(starting: &Starting<'_>) -> Result<Option<Box<dyn Listening>>> {
    let Some(listen) = starting.options.listen.beats else { return Ok(None) };
    let (address, config, credentials) = starting.answered(listen);
    let (deliver, accounting, clock) = starting.with.cloned();
    let source = BeatsSource::start(address, config, credentials, deliver, accounting, clock)?;
    Ok(Some(Box::new(source)))
}

fn relp(starting: &Starting<'_>) -> Result<Option<Box<dyn Listening>>> {
    let Some(listen) = starting.options.listen.relp else { return Ok(None) };
    let (address, config, credentials) = starting.answered(listen);
    let (deliver, accounting, clock) = starting.with.cloned();
    let source = RelpSource::start(address, config, credentials, deliver, accounting, clock)?;
    Ok(Some(Box::new(source)))
}

fn statsd(starting: &Starting<'_>) -> Result<Option<Box<dyn Listening>>> {
    let Some(address) = starting.options.listen.statsd else { return Ok(None) };
    let (deliver, accounting, clock) = starting.with.cloned();
    let address = starting.address(address);
    Ok(Some(Box::new(StatsdSource::start(address, deliver, accounting, clock)?)))
}

fn files(options: &SourceOptions, with: &SourceContext) -> Result<Option<FileSource>> {
    if options.files.is_empty() {
        return Ok(None);
    }
    let (deliver, accounting, clock) = with.cloned();
    let disk = Arc::new(RealDisk);
    let files = FileConfig::new(options.files.clone(), options.data_dir.clone());
    Ok(Some(FileSource::start(files, deliver, accounting, clock, disk, with.recall())?))
}

fn journal(options: &SourceOptions, with: &SourceContext) -> Result<Option<JournalSource>> {
    let Some(journal) = options.journald.clone() else { return Ok(None) };
    let (deliver, accounting, clock) = with.cloned();
    let disk = Arc::new(RealDisk);
    Ok(Some(JournalSource::start(journal, deliver, accounting, clock, disk, with.recall())?))
}

/// How far topics were read when the process ended.
fn resumed(options: &KafkaSourceOptions, with: &SourceContext) -> Result<Resumed> {
    let recall = with.store.as_ref().map(|store| StoreRecall::new(Arc::clone(store)));
    let kept = recall.as_ref().map(|recall| recall as &dyn KeptFrames);
    Ok(Resumed::read(&options.read, &RealDisk, kept)?)
}

fn topics(
    options: &KafkaSourceOptions,
    resumed: Resumed,
    with: &SourceContext,
) -> Result<KafkaSource> {
    let (deliver, accounting, clock) = with.cloned();
    let connect = Box::new(Brokers(options.clone()));
    let with = (clock, Arc::new(RealDisk) as _);
    let read = options.read.clone();
    Ok(KafkaSource::start(read, resumed, connect, deliver, accounting, with)?)
}

fn nodes(options: &SourceOptions, with: &SourceContext) -> Result<Option<NodeListener>> {
    let Some((address, store)) = options.node_listen.zip(with.nodes.clone()) else {
        return Ok(None);
    };
    let (secret, clock) = (options.node_secret.clone(), Arc::clone(&with.clock));
    let config = NodeListenConfig { address, secret, clock };
    Ok(Some(NodeListener::start(config, store, Arc::clone(&with.accounting))?))
}

/// Addresses by the names of their listeners, including HTTP, and OTLP if there are any, separated
/// by commas: for the ready file and the status.
pub fn addresses(
    http: SocketAddr,
    otlp: &[SocketAddr],
    listeners: &[Listener],
) -> serde_json::Value {
    let text = |address: SocketAddr| address.to_string().into();
    let sources = listeners.iter().map(|&(kind, address)| {
        (kind.name().to_owned(), address.map_or(serde_json::Value::Null, text))
    });
    let otlp: Vec<String> = otlp.iter().map(SocketAddr::to_string).collect();
    let otlp = Some(("otlp".to_owned(), otlp.join(",").into())).filter(|_| !otlp.is_empty());
    std::iter::once(("http".to_owned(), text(http))).chain(sources).chain(otlp).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpStream;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use collector::node::sender::Sender;
    use collector::node::{secret, wire};
    use collector::{KeepError, OnDurable, Patience, SourceError};
    use platform::RealClock;
    use record::{Frame, NodeIdentity, Numbers};

    use super::*;

    /// Panics when it admits the first collector.
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

    /// Whether a collector that connects is admitted. Its connection may be refused, or end.
    fn is_admitted(address: SocketAddr) -> bool {
        try_to_enter(address).unwrap_or_else(|error| {
            let is_late = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
            assert!(!is_late, "it is not answered, and its connection stays: {error}");
            false
        })
    }

    fn try_to_enter(address: SocketAddr) -> std::io::Result<bool> {
        let identity = NodeIdentity { node: 7, key: 1, starts: 1, run: 1 };
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(600)))?;
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
    fn a_listener_starts_once_its_address_is_free() {
        let address: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let failed = |kind: std::io::ErrorKind| {
            anyhow::Error::new(SourceError::new("syslog", "--a", address, kind.into()))
        };
        let tried = std::cell::Cell::new(0);
        let started = once_free(|| {
            tried.set(tried.get() + 1);
            match tried.get() {
                3 => Ok(tried.get()),
                _ => Err(failed(std::io::ErrorKind::AddrInUse)),
            }
        });
        assert_eq!(started.unwrap(), 3);
        let other = once_free::<()>(|| {
            tried.set(tried.get() + 1);
            Err(failed(std::io::ErrorKind::AddrNotAvailable))
        });
        assert!(other.is_err() && tried.get() == 4);
    }

    #[test]
    fn the_listener_for_collectors_restarts_after_a_panic_at_its_address() {
        let options = SourceOptions {
            node_listen: Some("127.0.0.1:0".parse().unwrap()),
            ..SourceOptions::none(std::path::Path::new(""))
        };
        let (faulty, accounting) = (Arc::<Faulty>::default(), Arc::<Accounting>::default());
        let with = SourceContext {
            deliver: Arc::clone(&faulty) as _,
            accounting: Arc::clone(&accounting),
            clock: Arc::new(RealClock::new()),
            store: None,
            nodes: Some(faulty),
        };
        let sources = Sources::start(&options, &with).unwrap();
        let listeners = sources.listeners();
        let Some(&(SourceKind::Node, Some(address))) = listeners.last() else {
            panic!("{listeners:?}")
        };
        assert!(!is_admitted(address), "it panics on the first");
        // A collector retries as well.
        while !is_admitted(address) {
            std::thread::yield_now();
        }
        assert_eq!(accounting.source(SourceKind::Node).counts().threads_failed, 1);
        assert_eq!(sources.nodes(|nodes| nodes.collectors().len()), Some(1));
    }
}
