//! Addresses where sources listen for syslog, Fluent forward, Beats, RELP, StatsD and OTLP: the
//! flags that `serve` and `collect` share, and their check.
//!
//! A new listening source gets a flag in [`ListenArgs`], an address in [`Listen`], and a key with
//! its default in [`RawConfig`]. Syslog over TLS has a section of its own ([`crate::config::tls`]),
//! and only `serve` has flags for it.

use std::net::SocketAddr;

use anyhow::{Context, Result, anyhow, ensure};
use api::ingest::WebhookSecret;
use clap::Args;
use collector::{SharedKey, TlsFiles};

use crate::config::parse_listen;
use crate::config::raw::{RawConfig, RawTls};
use node::ingest::options::{AnsweredListen, Listen};

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
    /// Address of Fluent forward, which Fluentd, Fluent Bit and Docker send, or off; tls:// in
    /// front of it turns TLS on, with the certificate of syslog over TLS [default: off]
    #[arg(long, value_name = "HOST:PORT", env = "LOGINSON_FLUENT_LISTEN")]
    fluent_listen: Option<String>,
    /// Address of Beats and Logstash, or off; tls:// as for Fluent forward [default: off]
    #[arg(long, value_name = "HOST:PORT", env = "LOGINSON_BEATS_LISTEN")]
    beats_listen: Option<String>,
    /// Address of RELP, or off; tls:// as for Fluent forward [default: off]
    #[arg(long, value_name = "HOST:PORT", env = "LOGINSON_RELP_LISTEN")]
    relp_listen: Option<String>,
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
            (self.fluent_listen, &mut raw.fluent_listen),
            (self.beats_listen, &mut raw.beats_listen),
            (self.relp_listen, &mut raw.relp_listen),
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
        fluent: answered("fluent_listen", &raw.fluent_listen)?,
        beats: answered("beats_listen", &raw.beats_listen)?,
        relp: answered("relp_listen", &raw.relp_listen)?,
        statsd: parse_listen("statsd_listen", &raw.statsd_listen)?,
    })
}

/// The address of a protocol with answers. A port alone is one on loopback.
fn answered(key: &str, text: &str) -> Result<Option<AnsweredListen>> {
    let (is_tls, address) = match text.strip_prefix("tls://") {
        Some(address) => (true, address),
        None => (false, text),
    };
    let port = address.strip_prefix(':').unwrap_or(address);
    let on_loopback = port.parse::<u16>().map(|port| format!("127.0.0.1:{port}"));
    let address = parse_listen(key, on_loopback.as_deref().unwrap_or(address))?;
    Ok(address.map(|address| AnsweredListen { address, is_tls }))
}

/// Checks the certificate that listeners with `tls://` need; `None` if there are none.
pub fn tls(listen: &Listen, raw: &RawTls) -> Result<Option<TlsFiles>> {
    let of = [
        ("fluent_listen", listen.fluent),
        ("beats_listen", listen.beats),
        ("relp_listen", listen.relp),
    ];
    let with_tls = of.into_iter().find(|(_, listen)| listen.is_some_and(|listen| listen.is_tls));
    let Some((key, _)) = with_tls else { return Ok(None) };
    let files = super::tls::files(raw)?.with_context(|| {
        format!("{key}: tls:// needs a certificate: give tls.certificate and tls.key, or leave out tls://")
    })?;
    Ok(Some(files))
}

/// Reads the key that senders of Fluent forward must know.
pub fn fluent_key(file: &str) -> Result<Option<SharedKey>> {
    let Some(text) = secret_text("fluent_shared_key_file", file)? else { return Ok(None) };
    let key = SharedKey::new(&text);
    key.map(Some).map_err(|error| anyhow!("fluent_shared_key_file: {file}: {error}"))
}

/// Reads the secret that webhooks of GitHub must be signed with.
pub fn github_secret(file: &str) -> Result<Option<WebhookSecret>> {
    const KEY: &str = "insert.github_secret_file";
    let Some(text) = secret_text(KEY, file)? else { return Ok(None) };
    let secret = WebhookSecret::new(&text);
    secret.map(Some).with_context(|| {
        format!("{KEY}: {file} is empty; write the secret into it that the webhook has")
    })
}

/// The text of a file with a secret; `None` if it is off.
fn secret_text(key: &str, file: &str) -> Result<Option<Vec<u8>>> {
    if file == "off" {
        return Ok(None);
    }
    std::fs::read(file).map(Some).with_context(|| format!("{key}: cannot read {file}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_on_loopback_and_tls_stands_in_front() {
        let check = |text: &str, expected: Option<(&str, bool)>| {
            let found = answered("fluent_listen", text).unwrap();
            let found = found.map(|listen| (listen.address.to_string(), listen.is_tls));
            assert_eq!(found, expected.map(|(address, tls)| (address.to_owned(), tls)), "{text}");
        };
        check("off", None);
        check("24224", Some(("127.0.0.1:24224", false)));
        check(":24224", Some(("127.0.0.1:24224", false)));
        check("0.0.0.0:24224", Some(("0.0.0.0:24224", false)));
        check("tls://[::]:24224", Some(("[::]:24224", true)));
        check("tls://24224", Some(("127.0.0.1:24224", true)));
        for text in ["", "tls://", "host", "70000", "http://a:1"] {
            let error = format!("{:#}", answered("fluent_listen", text).unwrap_err());
            assert!(error.starts_with("fluent_listen: "), "{text}: {error}");
        }
    }

    #[test]
    fn tls_needs_a_certificate() {
        let mut raw = RawConfig { beats_listen: "tls://5044".into(), ..RawConfig::default() };
        let check = |raw: &RawConfig| tls(&listen(raw).unwrap(), &raw.tls);
        let error = check(&raw).unwrap_err().to_string();
        assert!(error.contains("beats_listen: tls:// needs a certificate"), "{error}");
        (raw.tls.certificate, raw.tls.key) = ("c".into(), "k".into());
        assert!(check(&raw).unwrap().is_some());
        raw.beats_listen = "5044".into();
        assert!(check(&raw).unwrap().is_none());
    }

    #[test]
    fn a_key_of_a_file_has_text() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key").display().to_string();
        assert!(fluent_key("off").unwrap().is_none());
        let error = format!("{:#}", fluent_key(&file).unwrap_err());
        assert!(error.contains("fluent_shared_key_file: cannot read"), "{error}");
        std::fs::write(&file, " \n").unwrap();
        let error = format!("{:#}", fluent_key(&file).unwrap_err());
        assert!(error.contains("it is empty"), "{error}");
        let error = format!("{:#}", github_secret(&file).unwrap_err());
        assert!(error.contains("insert.github_secret_file"), "{error}");
        std::fs::write(&file, "key\n").unwrap();
        assert!(fluent_key(&file).unwrap().is_some());
        assert!(github_secret(&file).unwrap().is_some());
        assert!(github_secret("off").unwrap().is_none());
    }
}
