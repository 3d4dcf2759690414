//! `loginson collect`: sources without a store; lines are delivered to stores on other machines.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};

use crate::collect;
use crate::config::listen::ListenArgs;
use crate::config::{RawConfig, RawFiles};
use crate::settings::Settings;
use node::process::log;

#[derive(Args, Clone)]
#[command(after_help = "Examples:
  openssl rand -hex 32 > node.secret                            one secret for all machines, readable by Loginson alone
  loginson serve --node-listen 0.0.0.0:9515 --node-secret-file node.secret        on store1: accept collectors
  loginson collect --store store1:9515 --node-secret-file node.secret             on another machine
  loginson collect --store store1:9515 --store store2:9515      alternates between both; the secret in LOGINSON_NODE_SECRET
  loginson collect --copy store1:9515 --copy store2:9515        delivers each line to both
  loginson collect --store store1:9515 --syslog-tcp-listen 0.0.0.0:5514 --spool-dir /var/spool/loginson
  loginson collect --store store1:9515 --spool always           lose nothing, even when this process is killed
  loginson collect --store store1:9515 --follow '/var/log/*.log'

http://127.0.0.1:9514/api/v1/nodes and /metrics show the backlog of each store. docs/guide.md, \"Several
machines\", describes what happens when a store is unreachable.")]
pub struct CollectArgs {
    /// Address of a store (its node_listen); repeatable: frames go to the stores in turn
    #[arg(
        long = "store",
        value_name = "HOST:PORT",
        env = "LOGINSON_STORES",
        value_delimiter = ','
    )]
    stores: Vec<String>,
    /// Instead of --store: the stores of one copy of all lines; repeatable: each frame goes to one
    /// store of every copy. Copies have equally many stores
    #[arg(
        long = "copy",
        value_name = "HOST:PORT,…",
        env = "LOGINSON_COPIES",
        value_delimiter = ';',
        conflicts_with = "stores"
    )]
    copies: Vec<String>,
    /// File with the secret that stores and collectors share, or off; LOGINSON_NODE_SECRET can hold
    /// the secret itself [default: off]
    #[arg(long, value_name = "FILE", env = "LOGINSON_NODE_SECRET_FILE")]
    node_secret_file: Option<String>,
    /// Directory for frames that no store accepts at present [default: ./loginson-spool]
    #[arg(long, value_name = "DIR", env = "LOGINSON_SPOOL_DIR")]
    spool_dir: Option<PathBuf>,
    /// Size of that directory at which senders are pushed back; with copies, each store has an
    /// equal share of it [default: 10GiB]
    #[arg(long, value_name = "SIZE", env = "LOGINSON_SPOOL_BYTES_MAX")]
    spool_bytes_max: Option<String>,
    /// When frames are written to that directory [default: overflow]
    #[arg(long, value_name = "WHEN", env = "LOGINSON_SPOOL")]
    spool: Option<Spool>,
    /// Id, in /api/v1/nodes, of a store that will not come back: what was sent to it goes to the
    /// other stores; with copies, to the store that has its address now
    #[arg(long, value_name = "ID", value_parser = node_id)]
    lost_store: Vec<u32>,
    /// Address of the HTTP API: ingest, health, metrics and the state of the stores [default:
    /// 127.0.0.1:9514]
    #[arg(long, value_name = "HOST:PORT", env = "LOGINSON_HTTP_LISTEN")]
    http_listen: Option<String>,
    /// A host name by which this collector or its proxy is reached, besides localhost; repeatable
    #[arg(
        long = "http-host",
        value_name = "NAME",
        env = "LOGINSON_HTTP_HOSTS",
        value_delimiter = ','
    )]
    http_hosts: Vec<String>,
    /// Certificate of the API, for HTTPS, followed by its chain up to the CA
    #[arg(long, value_name = "FILE.pem", env = "LOGINSON_HTTP_TLS_CERTIFICATE")]
    http_tls_certificate: Option<String>,
    /// Private key of that certificate
    #[arg(long, value_name = "FILE.pem", env = "LOGINSON_HTTP_TLS_KEY")]
    http_tls_key: Option<String>,
    #[command(flatten)]
    listen: ListenArgs,
    /// Follow these files, besides those of the configuration: paths and patterns, for example
    /// '/var/log/*.log'
    #[arg(long, value_name = "PATTERN", num_args = 1..)]
    follow: Vec<String>,
    /// Configuration file
    #[arg(long, value_name = "FILE.toml", env = "LOGINSON_CONFIG")]
    config: Option<PathBuf>,
    /// Write the addresses to this file, as JSON, once lines are accepted: for scripts that use
    /// port 0, which stands for any free port
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Spool {
    /// Only frames that no store accepts; lines in memory are lost when this process is killed
    Overflow,
    /// Every frame
    Always,
}

/// Parses the id of a node as it is shown.
fn node_id(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 16).map_err(|_| "a store's id is up to 8 hexadecimal digits".into())
}

/// Collects until a signal stops it.
pub fn run(args: CollectArgs) -> Result<()> {
    let (ready_file, lost_stores) = (args.ready_file.clone(), args.lost_store.clone());
    let settings = Settings::new(args.config.clone(), move |raw| args.clone().apply(raw));
    let mut loaded = settings.load()?;
    loaded.config.node.forward.lost_stores = lost_stores;
    let config = &loaded.config;
    ensure!(
        !config.node.forward.stores.is_empty()
            || !config.node.forward.copies.is_empty()
            || config.kafka.is_some(),
        "give the address of a store to deliver to, for example --store store1.example:9515 (its node_listen), or the \
         brokers of a cluster in [cluster.kafka]"
    );
    ensure!(
        config.node.forward.stores.is_empty() && config.node.forward.copies.is_empty()
            || config.kafka.is_none(),
        "give either stores to deliver to, or the brokers of a cluster in [cluster.kafka]"
    );
    log::start()?;
    super::variables::warn(&settings.text());
    collect::run(settings, loaded, ready_file)
}

impl CollectArgs {
    /// Writes what is given into the configuration.
    fn apply(self, raw: &mut RawConfig) {
        if !self.stores.is_empty() {
            raw.collect.stores = self.stores;
            raw.collect.copies.clear();
        }
        if !self.copies.is_empty() {
            let stores =
                |copy: &String| copy.split(',').map(|store| store.trim().to_owned()).collect();
            raw.collect.copies = self.copies.iter().map(stores).collect();
            raw.collect.stores.clear();
        }
        if let Some(spool_dir) = self.spool_dir {
            raw.collect.spool_dir = spool_dir;
        }
        if let Some(spool) = self.spool {
            raw.collect.spool = match spool {
                Spool::Overflow => "overflow".into(),
                Spool::Always => "always".into(),
            };
        }
        if !self.http_hosts.is_empty() {
            raw.http_hosts = self.http_hosts;
        }
        self.listen.apply(raw);
        for (given, key) in [
            (self.node_secret_file, &mut raw.node_secret_file),
            (self.spool_bytes_max, &mut raw.collect.spool_bytes_max),
            (self.http_listen, &mut raw.http_listen),
            (self.http_tls_certificate, &mut raw.http_tls.certificate),
            (self.http_tls_key, &mut raw.http_tls.key),
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
