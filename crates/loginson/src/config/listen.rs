//! Addresses where sources listen for syslog, StatsD and OTLP: the flags that `serve` and `collect`
//! share, and their check.
//!
//! A new listening source gets a flag in [`ListenArgs`], an address in [`Listen`], and a key with
//! its default in [`RawConfig`]. Syslog over TLS has a section of its own ([`crate::config::tls`]),
//! and only `serve` has flags for it.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use clap::Args;

use crate::config::parse_listen;
use crate::config::raw::RawConfig;
use node::ingest::options::Listen;

/// Addresses of `otlp_listen`. More are refused at the start.
const OTLP_LISTENERS_MAX: usize = 8;

/// Flags of the addresses; they override environment and file.
#[derive(Args, Clone)]
pub struct ListenArgs {
    /// Address of syslog datagrams, or off [default: 127.0.0.1:5514]
    #[arg(long, value_name = "HOST:PORT", env = "LOGINSON_SYSLOG_UDP_LISTEN")]
    syslog_udp_listen: Option<String>,
    /// Address of syslog over TCP, or off [default: 127.0.0.1:5514]
    #[arg(long, value_name = "HOST:PORT", env = "LOGINSON_SYSLOG_TCP_LISTEN")]
    syslog_tcp_listen: Option<String>,
    /// Address of StatsD over UDP, or off; the usual one is 127.0.0.1:8125 [default: off]
    #[arg(long, value_name = "HOST:PORT", env = "LOGINSON_STATSD_LISTEN")]
    statsd_listen: Option<String>,
    /// Address that takes logs of OpenTelemetry alone, by gRPC and HTTP, besides the address of the
    /// API, which takes them too; repeatable: the usual ones are 127.0.0.1:4317 and 127.0.0.1:4318
    /// [default: none]
    #[arg(
        long = "otlp-listen",
        value_name = "HOST:PORT",
        env = "LOGINSON_OTLP_LISTEN",
        value_delimiter = ','
    )]
    otlp_listen: Vec<String>,
}

impl ListenArgs {
    /// Writes the given flags into the configuration.
    pub fn apply(self, raw: &mut RawConfig) {
        for (given, key) in [
            (self.syslog_udp_listen, &mut raw.syslog_udp_listen),
            (self.syslog_tcp_listen, &mut raw.syslog_tcp_listen),
            (self.statsd_listen, &mut raw.statsd_listen),
        ] {
            if let Some(given) = given {
                *key = given;
            }
        }
        if !self.otlp_listen.is_empty() {
            raw.otlp_listen = self.otlp_listen;
        }
    }
}

/// Checks the addresses of OTLP.
pub fn otlp(raw: &RawConfig) -> Result<Vec<SocketAddr>> {
    let addresses = raw.otlp_listen.iter().map(|text| parse_listen("otlp_listen", text));
    let addresses = addresses.filter_map(Result::transpose).collect::<Result<Vec<_>>>()?;
    ensure!(
        addresses.len() <= OTLP_LISTENERS_MAX,
        "otlp_listen has {} addresses; the limit is {OTLP_LISTENERS_MAX}",
        addresses.len()
    );
    Ok(addresses)
}

/// Checks the addresses. The error names the key.
pub fn listen(raw: &RawConfig) -> Result<Listen> {
    Ok(Listen {
        syslog_udp: parse_listen("syslog_udp_listen", &raw.syslog_udp_listen)?,
        syslog_tcp: parse_listen("syslog_tcp_listen", &raw.syslog_tcp_listen)?,
        statsd: parse_listen("statsd_listen", &raw.statsd_listen)?,
    })
}
