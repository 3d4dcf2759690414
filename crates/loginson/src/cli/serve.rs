//! `loginson serve`: merges flags, environment, file and defaults, in this order of precedence, and
//! runs the server.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::config::listen::ListenArgs;
use crate::config::{RawConfig, RawFiles};
use crate::server;
use crate::settings::Settings;
use node::process::log;

#[derive(Args, Clone)]
#[command(after_help = "Examples:
  loginson serve --data-dir /var/lib/loginson
  loginson serve --syslog-udp-listen 0.0.0.0:5514 --syslog-tcp-listen 0.0.0.0:5514     listen on the network
  loginson serve --syslog-udp-listen off
  loginson serve --follow '/var/log/*.log'                                              follow files
  loginson serve --config /etc/loginson.toml
  LOGINSON_HTTP_LISTEN=127.0.0.1:8080 loginson serve
  LOGINSON_LOG=debug loginson serve                                                     more of its own log

Flags override the environment, which overrides the file. docs/configuration.md lists all settings.")]
pub struct ServeArgs {
    /// Data directory: everything that is kept is below it [default: ./loginson-data]
    #[arg(long, value_name = "DIR", env = "LOGINSON_DATA_DIR")]
    data_dir: Option<PathBuf>,
    /// Address of the page and the API [default: 127.0.0.1:9514]
    #[arg(long, value_name = "HOST:PORT", env = "LOGINSON_HTTP_LISTEN")]
    http_listen: Option<String>,
    /// A host name by which this server or its proxy is reached, besides localhost; repeatable
    #[arg(
        long = "http-host",
        value_name = "NAME",
        env = "LOGINSON_HTTP_HOSTS",
        value_delimiter = ','
    )]
    http_hosts: Vec<String>,
    /// Certificate of the page and the API, for HTTPS, followed by its chain up to the CA
    #[arg(long, value_name = "FILE.pem", env = "LOGINSON_HTTP_TLS_CERTIFICATE")]
    http_tls_certificate: Option<String>,
    /// Private key of that certificate
    #[arg(long, value_name = "FILE.pem", env = "LOGINSON_HTTP_TLS_KEY")]
    http_tls_key: Option<String>,
    #[command(flatten)]
    listen: ListenArgs,
    /// Address of syslog over TLS, or off [default: 127.0.0.1:6514 when there is a certificate]
    #[arg(long, value_name = "HOST:PORT", env = "LOGINSON_SYSLOG_TLS_LISTEN")]
    syslog_tls_listen: Option<String>,
    /// Certificate of the server for syslog over TLS, followed by its chain up to the CA
    #[arg(long, value_name = "FILE.pem", env = "LOGINSON_TLS_CERTIFICATE")]
    tls_certificate: Option<String>,
    /// Private key of that certificate
    #[arg(long, value_name = "FILE.pem", env = "LOGINSON_TLS_KEY")]
    tls_key: Option<String>,
    /// CA that issued the certificates of senders
    #[arg(long, value_name = "FILE.pem", env = "LOGINSON_TLS_CLIENT_CA")]
    tls_client_ca: Option<String>,
    /// Whether senders present a certificate: off, optional or required [default: off]
    #[arg(long, value_name = "WHETHER", env = "LOGINSON_TLS_CLIENT_CERTIFICATES")]
    tls_client_certificates: Option<String>,
    /// Follow these files, besides those of the configuration: paths and patterns, for example
    /// '/var/log/*.log'
    #[arg(long, value_name = "PATTERN", num_args = 1..)]
    follow: Vec<String>,
    /// Address to which `loginson collect` delivers, or off [default: off]
    #[arg(long, value_name = "HOST:PORT", env = "LOGINSON_NODE_LISTEN")]
    node_listen: Option<String>,
    /// File with the secret that stores and collectors share, or off; LOGINSON_NODE_SECRET can hold
    /// the secret itself [default: off]
    #[arg(long, value_name = "FILE", env = "LOGINSON_NODE_SECRET_FILE")]
    node_secret_file: Option<String>,
    /// Configuration file
    #[arg(long, value_name = "FILE.toml", env = "LOGINSON_CONFIG")]
    config: Option<PathBuf>,
    /// Write the addresses to this file, as JSON, once lines are accepted: for scripts that use
    /// port 0, which stands for any free port
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
}

/// Runs the server until a signal stops it.
pub fn run(args: ServeArgs) -> Result<()> {
    let ready_file = args.ready_file.clone();
    let settings = Settings::new(args.config.clone(), move |raw| args.clone().apply(raw));
    let loaded = settings.load()?;
    loaded.config.allow_serving()?;
    log::start()?;
    super::variables::warn(&settings.text());
    server::run(settings, loaded, ready_file)
}

impl ServeArgs {
    /// Writes what is given into the configuration.
    fn apply(self, raw: &mut RawConfig) {
        if let Some(data_dir) = self.data_dir {
            raw.data_dir = data_dir;
        }
        if !self.http_hosts.is_empty() {
            raw.http_hosts = self.http_hosts;
        }
        self.listen.apply(raw);
        for (given, key) in [
            (self.http_listen, &mut raw.http_listen),
            (self.http_tls_certificate, &mut raw.http_tls.certificate),
            (self.http_tls_key, &mut raw.http_tls.key),
            (self.syslog_tls_listen, &mut raw.syslog_tls_listen),
            (self.tls_certificate, &mut raw.tls.certificate),
            (self.tls_key, &mut raw.tls.key),
            (self.tls_client_ca, &mut raw.tls.client_ca),
            (self.tls_client_certificates, &mut raw.tls.client_certificates),
            (self.node_listen, &mut raw.node_listen),
            (self.node_secret_file, &mut raw.node_secret_file),
        ] {
            if let Some(given) = given {
                *key = given;
            }
        }
        if !self.follow.is_empty() {
            raw.files.push(RawFiles::new(self.follow));
        }
    }
}
