//! What listening sources share: the reasons why one cannot start, and a thread that can be told to
//! stop.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use platform::placement::{self, Role};

use crate::accounting::{Accounting, SourceKind};

/// Ports below this one are privileged.
const UNPRIVILEGED_PORT_MIN: u16 = 1024;
/// A message that could be logged for each packet or connection is logged at most this often.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Peers whose failures are logged separately. The failures of further peers share one limit.
const PEERS_LOGGED_MAX: usize = 256;
/// A stopping source still reads what has arrived, but for no longer than this, because a fast
/// sender never pauses.
pub(crate) const STOP_DRAIN_MAX: Duration = Duration::from_secs(1);

/// Why a source cannot start.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// Another program, or another Loginson, listens on the address.
    #[error(
        "cannot listen for {what} on {address}: the address is in use; \
         stop the program that has it, or choose another address with {flag}"
    )]
    AddressInUse {
        /// What the source receives.
        what: &'static str,
        /// The address.
        address: SocketAddr,
        /// The flag that sets the address.
        flag: &'static str,
    },
    /// The port is below 1024 and the program may not use it.
    #[error(
        "cannot listen for {what} on {address}: ports below {UNPRIVILEGED_PORT_MIN} need the capability \
         CAP_NET_BIND_SERVICE (AmbientCapabilities=CAP_NET_BIND_SERVICE in a systemd unit, or \
         `setcap cap_net_bind_service=+ep` on the program); or choose a higher port with {flag}"
    )]
    Privileged {
        /// What the source receives.
        what: &'static str,
        /// The address.
        address: SocketAddr,
        /// The flag that sets the address.
        flag: &'static str,
    },
    /// No interface of this machine has the address.
    #[error(
        "cannot listen for {what} on {address}: this machine does not have the address {}; \
         choose one it has, or 0.0.0.0 for all of them, with {flag}", .address.ip()
    )]
    NotLocal {
        /// What the source receives.
        what: &'static str,
        /// The address.
        address: SocketAddr,
        /// The flag that sets the address.
        flag: &'static str,
    },
    /// Any other error.
    #[error("cannot listen for {what} on {address} (set by {flag}): {error}")]
    Other {
        /// What the source receives.
        what: &'static str,
        /// The address.
        address: SocketAddr,
        /// The flag that sets the address.
        flag: &'static str,
        /// The error of the system call.
        error: io::Error,
    },
}

/// How often a start that finds its address in use is tried again. Together with [`BIND_PAUSE`] it
/// is longer than the kernel takes to give back the addresses of a process that was killed, which
/// comes after its memory.
const BIND_TRIES_MAX: u32 = 50;
/// The pause before another try.
const BIND_PAUSE: Duration = Duration::from_millis(100);

/// The tries of one listener to get its address.
#[derive(Debug, Default)]
pub struct BindTries(u32);

impl BindTries {
    /// How long to wait before the next try; `None` if `error` is another one, or stays.
    pub fn pause_after(&mut self, error: &SourceError) -> Option<Duration> {
        let SourceError::AddressInUse { what, address, .. } = error else { return None };
        if self.0 == 0 {
            let s = (BIND_PAUSE * BIND_TRIES_MAX).as_secs();
            tracing::warn!("{address} for {what} is in use; trying again for {s} s");
        }
        self.0 += 1;
        (self.0 <= BIND_TRIES_MAX).then_some(BIND_PAUSE)
    }
}

impl SourceError {
    /// The error of a listener for `what`, whose address is set by `flag`.
    pub fn new(
        what: &'static str,
        flag: &'static str,
        address: SocketAddr,
        error: io::Error,
    ) -> Self {
        match error.kind() {
            io::ErrorKind::AddrInUse => SourceError::AddressInUse { what, address, flag },
            io::ErrorKind::PermissionDenied if address.port() < UNPRIVILEGED_PORT_MIN => {
                SourceError::Privileged { what, address, flag }
            }
            io::ErrorKind::AddrNotAvailable => SourceError::NotLocal { what, address, flag },
            _ => SourceError::Other { what, address, flag, error },
        }
    }
}

/// The sender's address as it is shown: an IPv4-mapped IPv6 address (from a dual-stack socket)
/// becomes an IPv4 address.
pub(crate) fn canonical(sender: SocketAddr) -> SocketAddr {
    match sender.ip() {
        IpAddr::V4(_) => sender,
        IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
            Some(ip) => SocketAddr::from((ip, sender.port())),
            None => sender,
        },
    }
}

/// Tells a source to stop.
#[derive(Debug, Default)]
pub(crate) struct StopSignal {
    raised: Mutex<bool>,
    changed: Condvar,
}

impl StopSignal {
    pub fn raise(&self) {
        *self.raised.lock().expect("nothing panics") = true;
        self.changed.notify_all();
    }

    pub fn is_raised(&self) -> bool {
        *self.raised.lock().expect("nothing panics")
    }

    /// Blocks until the signal is raised or `time` has passed. Returns whether it is raised.
    pub fn wait(&self, time: Duration) -> bool {
        let raised = self.raised.lock().expect("nothing panics");
        *self.changed.wait_timeout_while(raised, time, |raised| !*raised).expect("nothing panics").0
    }
}

/// The thread of a source. Dropping it stops the source and joins the thread. A panic ends only
/// this thread: it is counted and logged, and senders wait or go elsewhere.
pub(crate) struct SourceThread {
    stop: Arc<StopSignal>,
    waker: Arc<mio::Waker>,
    failed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SourceThread {
    /// Runs `work` until `stop` is raised. The waker must interrupt any wait of `work`. A panic is
    /// counted for `source`.
    pub fn start(
        name: &str,
        counted: (Arc<Accounting>, SourceKind),
        stop: Arc<StopSignal>,
        waker: impl Into<Arc<mio::Waker>>,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<SourceThread> {
        let failed = Arc::<AtomicBool>::default();
        let fails = Arc::clone(&failed);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            placement::enter(Role::Receiver);
            run_guarded(&counted, &fails, work);
        })?;
        Ok(SourceThread { stop, waker: waker.into(), failed, thread: Some(thread) })
    }

    /// Whether the thread ended by a panic.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Relaxed)
    }

    /// Tells the source to stop, without waiting for its end.
    pub fn signal_stop(&self) {
        self.stop.raise();
        // A source that cannot be woken still sees the signal at the next line, or when its wait
        // times out.
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "a source could not be woken to stop");
        }
    }
}

impl Drop for SourceThread {
    fn drop(&mut self) {
        self.signal_stop();
        let ended = self.thread.take().expect("taken only here").join();
        assert!(ended.is_ok() || std::thread::panicking(), "panics are caught");
    }
}

/// Runs the work of a thread of a source. A panic is counted for the source, logged, and noted in
/// `failed`.
pub(crate) fn run_guarded(
    (accounting, source): &(Arc<Accounting>, SourceKind),
    failed: &AtomicBool,
    work: impl FnOnce(),
) {
    // What `work` owns is dropped with it, so nobody sees it half changed.
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        accounting.source(*source).threads_failed.fetch_add(1, Relaxed);
        let (name, source) = (std::thread::current(), source.title());
        let name = name.name().unwrap_or_default();
        tracing::error!(
            "thread {name} failed because of a bug in Loginson; {source} is restarted; please report the messages before \
             this line"
        );
        failed.store(true, Relaxed);
    }
}

/// Lets a message pass once per [`LOG_INTERVAL`], and counts those held back.
#[derive(Debug, Default)]
pub(crate) struct LogLimit {
    passed: Option<Instant>,
    held_back: u64,
}

impl LogLimit {
    /// `Some` if the message may be logged, with the number of messages held back before.
    pub fn pass(&mut self) -> Option<u64> {
        if self.passed.is_some_and(|passed| passed.elapsed() < LOG_INTERVAL) {
            self.held_back += 1;
            return None;
        }
        self.passed = Some(Instant::now());
        Some(std::mem::take(&mut self.held_back))
    }

    /// Whether the next message would pass, and none is held back.
    pub fn is_idle(&self) -> bool {
        self.held_back == 0 && self.passed.is_none_or(|passed| passed.elapsed() >= LOG_INTERVAL)
    }
}

/// Limits how often a message about one peer is logged, each peer by itself.
#[derive(Default)]
pub struct PeerLog {
    peers: HashMap<IpAddr, LogLimit>,
    others: LogLimit,
}

impl PeerLog {
    /// Whether a message about this peer may be logged now; if so, how many were held back since
    /// the last one.
    pub fn pass(&mut self, peer: IpAddr) -> Option<u64> {
        if self.peers.len() >= PEERS_LOGGED_MAX && !self.peers.contains_key(&peer) {
            self.peers.retain(|_, limit| !limit.is_idle());
            if self.peers.len() >= PEERS_LOGGED_MAX {
                return self.others.pass();
            }
        }
        self.peers.entry(peer).or_default().pass()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_address_and_the_remedy() {
        let check = |kind: io::ErrorKind, address: &str, expected: &[&str]| {
            let address = address.parse().unwrap();
            let error = SourceError::new("syslog", "--a-listen", address, kind.into()).to_string();
            for part in expected.iter().chain(&["--a-listen"]) {
                assert!(error.contains(part), "{error:?} does not say {part:?}");
            }
        };
        check(io::ErrorKind::AddrInUse, "127.0.0.1:5514", &["127.0.0.1:5514", "in use"]);
        check(io::ErrorKind::PermissionDenied, "[::]:514", &["[::]:514", "CAP_NET_BIND_SERVICE"]);
        check(io::ErrorKind::PermissionDenied, "127.0.0.1:5514", &["127.0.0.1:5514", "permission"]);
        check(io::ErrorKind::AddrNotAvailable, "192.0.2.1:5514", &["192.0.2.1", "0.0.0.0"]);
    }

    #[test]
    fn an_address_in_use_is_tried_again_for_a_while() {
        let error = |kind: io::ErrorKind| {
            SourceError::new("syslog", "--a-listen", "127.0.0.1:1".parse().unwrap(), kind.into())
        };
        let mut tries = BindTries::default();
        assert_eq!(tries.pause_after(&error(io::ErrorKind::AddrNotAvailable)), None);
        let in_use = error(io::ErrorKind::AddrInUse);
        let pauses = std::iter::from_fn(|| tries.pause_after(&in_use)).count();
        assert_eq!(pauses as u32, BIND_TRIES_MAX);
        assert_eq!(tries.pause_after(&in_use), None);
    }

    #[test]
    fn mapped_senders_are_shown_as_ipv4() {
        let check = |sender: &str, expected: &str| {
            assert_eq!(canonical(sender.parse().unwrap()), expected.parse().unwrap());
        };
        check("[::ffff:10.0.0.1]:7", "10.0.0.1:7");
        check("10.0.0.1:7", "10.0.0.1:7");
        check("[fe80::1]:7", "[fe80::1]:7");
    }

    #[test]
    fn a_panic_is_counted_and_takes_nothing_else_down() {
        let accounting = Arc::new(Accounting::default());
        let start = |work: fn()| {
            let poll = mio::Poll::new().unwrap();
            let waker = mio::Waker::new(poll.registry(), mio::Token(0)).unwrap();
            let counted = (Arc::clone(&accounting), SourceKind::File);
            SourceThread::start("a-thread", counted, Arc::default(), waker, work).unwrap()
        };
        let (faulty, sound) = (start(|| panic!("a fault")), start(|| {}));
        while !faulty.has_failed() {
            std::thread::yield_now();
        }
        assert!(!sound.has_failed());
        drop((faulty, sound));
        assert_eq!(accounting.source(SourceKind::File).counts().threads_failed, 1);
        assert_eq!(accounting.source(SourceKind::Journald).counts().threads_failed, 0);
    }

    #[test]
    fn a_message_passes_once_an_interval() {
        let mut limit = LogLimit::default();
        assert_eq!((limit.pass(), limit.pass(), limit.pass()), (Some(0), None, None));
        limit.passed = Instant::now().checked_sub(LOG_INTERVAL);
        assert_eq!(limit.pass(), Some(2));
    }

    #[test]
    fn each_peer_is_logged_apart_as_long_as_they_are_few() {
        let mut log = PeerLog::default();
        let peer = |n: usize| IpAddr::from([10, 0, (n / 256) as u8, (n % 256) as u8]);
        for n in 0..PEERS_LOGGED_MAX {
            assert_eq!((log.pass(peer(n)), log.pass(peer(n))), (Some(0), None), "{n}");
        }
        assert_eq!(log.pass(peer(PEERS_LOGGED_MAX)), Some(0));
        assert_eq!(log.pass(peer(PEERS_LOGGED_MAX + 1)), None);
        assert_eq!(log.peers.len(), PEERS_LOGGED_MAX);
    }
}
