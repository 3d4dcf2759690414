//! The shop whose logs are generated: its hosts, and the context in which a template writes a line.

use fastrand::Rng;

use super::clock::Stamp;

/// A host and how much it logs.
pub struct Host {
    /// Name, as in its logs.
    pub name: &'static str,
    /// Address, for other hosts' logs.
    pub address: &'static str,
    /// Share of the lines.
    pub weight: u32,
    /// Its role.
    pub role: Role,
}

/// The role of a host, which determines the applications that log there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// nginx in front of the application.
    Web,
    /// The `orders` service.
    App,
    /// PostgreSQL.
    Database,
    /// Postfix.
    Mail,
    /// HAProxy.
    Balancer,
    /// A Cisco router.
    Router,
    /// Only what every Unix host logs.
    Plain,
}

/// The hosts, of uneven weight.
pub const HOSTS: [Host; 13] = [
    host("web1", "10.0.1.11", 22, Role::Web),
    host("web2", "10.0.1.12", 15, Role::Web),
    host("web3", "10.0.1.13", 8, Role::Web),
    host("app1", "10.0.2.21", 13, Role::App),
    host("app2", "10.0.2.22", 10, Role::App),
    host("db1", "10.0.3.31", 7, Role::Database),
    host("db2", "10.0.3.32", 3, Role::Database),
    host("lb1", "10.0.0.5", 9, Role::Balancer),
    host("mail1", "10.0.4.41", 5, Role::Mail),
    host("gw1", "10.0.0.1", 3, Role::Router),
    host("bastion1", "10.0.5.51", 3, Role::Plain),
    host("build1", "10.0.5.52", 2, Role::Plain),
    host("nas1.example.net", "10.0.5.53", 1, Role::Plain),
];

const fn host(name: &'static str, address: &'static str, weight: u32, role: Role) -> Host {
    Host { name, address, weight, role }
}

/// Index of a host in [`HOSTS`].
pub fn place(name: &str) -> usize {
    HOSTS.iter().position(|h| h.name == name).expect("a host of the shop")
}

/// Syslog severities (RFC 5424, table 2) that occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Severity {
    /// 2
    Critical = 2,
    /// 3
    Error = 3,
    /// 4
    Warning = 4,
    /// 5
    Notice = 5,
    /// 6
    Info = 6,
    /// 7
    Debug = 7,
}

impl Severity {
    /// The name as a level of a JSON log.
    pub fn level(self) -> &'static str {
        match self {
            Severity::Critical => "critical",
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Notice => "notice",
            Severity::Info => "info",
            Severity::Debug => "debug",
        }
    }
}

/// Syslog facilities (RFC 5424, table 1) that occur.
pub mod facility {
    /// Kernel.
    pub const KERN: u8 = 0;
    /// Mail.
    pub const MAIL: u8 = 2;
    /// Daemons.
    pub const DAEMON: u8 = 3;
    /// Logins, which not everybody may read.
    pub const AUTHPRIV: u8 = 10;
    /// Cron.
    pub const CRON: u8 = 9;
    /// PostgreSQL, HAProxy by custom.
    pub const LOCAL0: u8 = 16;
    /// The shop's own service.
    pub const LOCAL1: u8 = 17;
    /// nginx, Cisco by default.
    pub const LOCAL7: u8 = 23;
}

/// The source and severity of a line: what an envelope needs besides time, host and message.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    /// Application.
    pub app: &'static str,
    /// Process id; 0 for none.
    pub pid: u32,
    /// Facility number.
    pub facility: u8,
    /// Severity.
    pub severity: Severity,
}

/// The input of a template.
pub struct Context<'a> {
    /// Random numbers.
    pub rng: &'a mut Rng,
    /// The time of the line.
    pub stamp: &'a Stamp,
    /// The host, as an index in [`HOSTS`].
    pub host: usize,
    /// Ids of long-lived processes.
    pub pids: &'a Pids,
    /// Whether the database is out of order at that time.
    pub is_failing: bool,
}

impl Context<'_> {
    /// The long-lived process of an application on the context's host.
    pub fn pid(&self, app: &str) -> u32 {
        self.pids.of(self.host, app)
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.rng.usize(..of.len())]
    }

    /// One of several; earlier ones are chosen more often.
    pub fn pick_uneven<T: Copy>(&mut self, of: &[T]) -> T {
        let r = self.rng.f64();
        of[((r * r * of.len() as f64) as usize).min(of.len() - 1)]
    }

    /// Milliseconds, mostly near `usual`, now and then much more.
    pub fn duration_ms(&mut self, usual: f64) -> f64 {
        usual * (0.4 + 0.2 / (1.0 - 0.99 * self.rng.f64()))
    }

    /// An address from the networks reserved for documentation (RFC 5737), some far more often than
    /// others.
    pub fn visitor(&mut self) -> Visitor {
        let net = self.pick(&["192.0.2", "198.51.100", "203.0.113"]);
        let r = self.rng.f64();
        Visitor { net, host: 1 + (r * r * r * 253.0) as u8 }
    }
}

/// Address of a client outside the shop.
#[derive(Clone, Copy)]
pub struct Visitor {
    net: &'static str,
    host: u8,
}

impl std::fmt::Display for Visitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.net, self.host)
    }
}

/// Process ids that stay the same while the shop runs.
pub struct Pids {
    salt: u64,
}

impl Pids {
    /// Ids derived from a seed.
    pub fn new(seed: u64) -> Self {
        Pids { salt: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) }
    }

    /// The process of `app` on a host.
    pub fn of(&self, host: usize, app: &str) -> u32 {
        let start = self.salt ^ (host as u64 + 1);
        // FNV-1a: short, and the same on every machine.
        let hash = app.bytes().fold(start, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        300 + ((hash >> 20) % 32_000) as u32
    }
}
