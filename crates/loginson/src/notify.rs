//! Tells systemd about the life of this process (sd_notify(3)), where it asks for that: ready,
//! reloading, stopping, and that it still runs (`WatchdogSec=`).
//!
//! Each message is one datagram to the socket that `NOTIFY_SOCKET` names; without that variable
//! nothing is sent. A message that cannot be sent is logged and forgotten, since the server does
//! its work without systemd too. Left out: `Type=notify-reload`, which needs a clock that Rust's
//! library does not show; `ExecReload=kill -HUP $MAINPID` does the same.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

/// The connection to systemd, if there is one. Clones share it.
#[derive(Clone, Default)]
pub struct Notify(Option<Arc<(UnixDatagram, SocketAddr)>>);

impl Notify {
    /// To the socket that the environment names.
    pub fn new() -> Notify {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Notify::default();
        };
        Notify::to(name.as_encoded_bytes()).unwrap_or_else(|error| {
            tracing::warn!("cannot tell systemd about this process: {error}");
            Notify::default()
        })
    }

    /// To a socket: a path, or a name without a file, which begins with `@`.
    fn to(name: &[u8]) -> std::io::Result<Notify> {
        let address = match name.strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(std::ffi::OsStr::new(
                std::str::from_utf8(name).map_err(std::io::Error::other)?,
            ))?,
        };
        let socket = UnixDatagram::unbound()?;
        // A manager that does not read its socket does not stop the server.
        socket.set_nonblocking(true)?;
        Ok(Notify(Some(Arc::new((socket, address)))))
    }

    /// Lines are taken, and what a reload changes has changed.
    pub fn ready(&self) {
        self.send("READY=1\nSTATUS=takes lines");
    }

    /// The settings are being read again; [`Notify::ready`] ends it.
    pub fn reloading(&self) {
        self.send("RELOADING=1\nSTATUS=reads its settings again");
    }

    /// The process is about to end.
    pub fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=writes what it has");
    }

    /// Says regularly that the runtime still works, if the unit has `WatchdogSec=`.
    pub fn keep_alive(&self) {
        let variable = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let is_meant =
            variable("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let every = variable("WATCHDOG_USEC").filter(|_| is_meant).and_then(watchdog_every);
        let (Some(every), true) = (every, self.0.is_some()) else { return };
        let notify = self.clone();
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                notify.send("WATCHDOG=1");
            }
        });
    }

    fn send(&self, message: &str) {
        if let Some((socket, address)) = self.0.as_deref()
            && let Err(error) = socket.send_to_addr(message.as_bytes(), address)
        {
            tracing::debug!("cannot tell systemd about this process: {error}");
        }
    }
}

/// Half of the time after which systemd restarts a process that says nothing; none for a time too
/// short to be kept.
fn watchdog_every(us: u64) -> Option<Duration> {
    let every = Duration::from_micros(us / 2);
    (every >= Duration::from_millis(1)).then_some(every)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 256];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    #[test]
    fn messages_go_to_a_path_or_a_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let by_path = UnixDatagram::bind(&path).unwrap();
        let name = format!("loginson-test-{}", std::process::id());
        let by_name =
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        for (notify, socket) in [
            (Notify::to(path.as_os_str().as_encoded_bytes()).unwrap(), by_path),
            (Notify::to(format!("@{name}").as_bytes()).unwrap(), by_name),
        ] {
            notify.ready();
            notify.reloading();
            notify.stopping();
            assert!(received(&socket).starts_with("READY=1\n"));
            assert!(received(&socket).starts_with("RELOADING=1\n"));
            assert!(received(&socket).starts_with("STOPPING=1\n"));
        }
    }

    #[test]
    fn nobody_who_listens_is_no_trouble() {
        Notify::default().ready();
        Notify::to(b"/nothing/is/here").unwrap().ready();
        assert!(Notify::to(&[b'x'; 200]).is_err());
    }

    #[test]
    fn the_watchdog_is_fed_twice_in_its_time() {
        assert_eq!(watchdog_every(30_000_000), Some(Duration::from_secs(15)));
        assert_eq!(watchdog_every(0), None);
        assert_eq!(watchdog_every(1_999), None);
    }
}
