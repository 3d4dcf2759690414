//! Addresses where sources listen for syslog: the flags that `serve` and `collect` share, and their
//! check.
//!
//! A new listening source gets a flag in [`ListenArgs`], an address in [`Listen`], and a key with
//! its default in [`RawConfig`]. Syslog over TLS has a section of its own ([`crate::config::tls`]),
//! and only `serve` has flags for it.

use anyhow::Result;
use clap::Args;

use crate::config::parse_listen;
use crate::config::raw::RawConfig;
use node::ingest::options::Listen;

/// Flags of the addresses; they override environment and file.
#[derive(Args, Clone)]
pub struct ListenArgs {
    /// Address of syslog datagrams, or off [default: 127.0.0.1:5514]
    #[arg(long, value_name = "HOST:PORT", env = "LOGINSON_SYSLOG_UDP_LISTEN")]
    syslog_udp_listen: Option<String>,
    /// Address of syslog over TCP, or off [default: 127.0.0.1:5514]
    #[arg(long, value_name = "HOST:PORT", env = "LOGINSON_SYSLOG_TCP_LISTEN")]
    syslog_tcp_listen: Option<String>,
}

impl ListenArgs {
    /// Writes the given flags into the configuration.
    pub fn apply(self, raw: &mut RawConfig) {
        for (given, key) in [
            (self.syslog_udp_listen, &mut raw.syslog_udp_listen),
            (self.syslog_tcp_listen, &mut raw.syslog_tcp_listen),
        ] {
            if let Some(given) = given {
                *key = given;
            }
        }
    }
}

/// Checks the addresses. The error names the key.
pub fn listen(raw: &RawConfig) -> Result<Listen> {
    Ok(Listen {
        syslog_udp: parse_listen("syslog_udp_listen", &raw.syslog_udp_listen)?,
        syslog_tcp: parse_listen("syslog_tcp_listen", &raw.syslog_tcp_listen)?,
    })
}
