//! `loginson doctor`: whether this machine suits a server, and what to do if not.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use platform::{Clock, RealClock};
use serde_json::json;
use text::time::format_time;

use crate::cli::ServerArgs;
use crate::cli::client::Client;
use crate::cli::finding::{self, Finding};
use crate::cli::{machine, status};
use crate::config::mistakes::check;
use crate::config::{Config, RawConfig};
use node::data_dir::BACKUPS_FOLDER;
use node::storage::backup;
use node::storage::backup::schedule::{BackupOptions, Last};

#[derive(Args)]
#[command(after_help = "Examples:
  sudo -u loginson loginson doctor                of the configuration /etc/loginson/loginson.toml
  loginson doctor --config loginson.toml
  loginson doctor --data-dir /var/lib/loginson --json

It looks at the configuration, the data directory and its disk, the clock, limits of the kernel, ports, backups, and the
version of the server if one runs. Nothing is changed. The exit code is 1 if there is an error. `loginson status` looks at
what the server says of itself.")]
pub struct DoctorArgs {
    /// Configuration file [default: /etc/loginson/loginson.toml if it is there]
    #[arg(long, value_name = "FILE.toml", env = "LOGINSON_CONFIG")]
    config: Option<PathBuf>,
    /// Data directory, if it is not that of the configuration
    #[arg(long, value_name = "DIR", env = "LOGINSON_DATA_DIR")]
    data_dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Seconds that the clocks of server and client may differ.
const CLOCKS_S_MAX: f64 = 2.0;

/// Runs the command.
pub fn run(args: &DoctorArgs) -> Result<()> {
    let findings = look(args)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(
            out,
            "{}",
            finding::json(&findings, json!({ "version": env!("CARGO_PKG_VERSION") }))
        )?;
    } else {
        finding::write(&mut out, &findings)?;
    }
    finding::judge(&findings)
}

fn look(args: &DoctorArgs) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let config = match machine::configuration(args.config.as_deref()) {
        None => Some(Config::try_from(RawConfig::default())?),
        Some(file) => configuration(&file, &mut findings),
    };
    let running = server(args, &mut findings);
    if let Some(config) = &config {
        let dir = args.data_dir.as_deref().unwrap_or_else(|| config.node.data_dir());
        findings.extend(machine::data_dir(dir));
        findings.extend(machine::disk(dir, config.node.store.disk_free_bytes_min));
        let ports = machine::ports(config, running);
        if ports.is_empty() {
            let found = if running { "the server has them" } else { "all can be listened on" };
            findings.push(Finding::ok("port", found));
        }
        findings.extend(ports);
        findings.extend(backups(dir, config.node.backup.as_ref()));
    }
    findings.push(machine::clock());
    findings.extend(machine::limits());
    Ok(findings)
}

fn configuration(file: &Path, findings: &mut Vec<Finding>) -> Option<Config> {
    let shown = file.display();
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => {
            findings.push(Finding::error(
                "config",
                format!("cannot read {shown}: {error}"),
                "name it with --config, and run this as the user of the server",
            ));
            return None;
        }
    };
    let checked = check(&text);
    let number = checked.mistakes.len();
    findings.push(match number {
        0 => Finding::ok("config", format!("{shown} has no mistakes")),
        _ => Finding::error(
            "config",
            format!("mistakes in {shown}: {number}"),
            format!("`loginson check-config {shown}` shows them"),
        ),
    });
    findings.extend(machine::secrets(&text));
    checked.config
}

/// Compares a running server with this program; whether one runs.
fn server(args: &DoctorArgs, findings: &mut Vec<Finding>) -> bool {
    let Ok(client) = Client::new(&args.server) else { return false };
    if !client.get("/health", &[]).is_ok_and(|answer| answer.is_ok()) {
        findings.push(Finding::ok("server", "none answers at present"));
        return false;
    }
    let own = env!("CARGO_PKG_VERSION");
    match client.get_json("/api/v1/status") {
        Err(error) => findings.push(Finding::warning(
            "server",
            format!("one runs, but does not say how it is: {error:#}"),
            "give a token or user that may read, for example --user NAME",
        )),
        Ok(status) => {
            let theirs = status["version"].as_str().unwrap_or("another program");
            findings.push(match theirs == own {
                true => Finding::ok("server", format!("version {own} runs")),
                false => Finding::warning(
                    "server",
                    format!("it is {theirs}, this program is {own}"),
                    "restart the server to finish the upgrade: systemctl restart loginson",
                ),
            });
            let now = format_time(RealClock::new().now_ns());
            let days = status::days_between(status["now"].as_str().unwrap_or_default(), &now);
            let apart_s = days.map_or(0.0, |days| (days * 86_400.0).abs());
            if apart_s > CLOCKS_S_MAX {
                findings.push(Finding::warning(
                    "clock",
                    format!("that of the server and that of this machine differ by {apart_s:.0} s"),
                    "`timedatectl set-ntp true` on both, or install chrony",
                ));
            }
        }
    }
    true
}

/// The newest backup: that in the destination if there is one, else that in the data directory.
fn backups(dir: &Path, options: Option<&BackupOptions>) -> Option<Finding> {
    if !dir.exists() {
        return None;
    }
    if let Some(options) = options {
        let state = json!({
            "to": options.to.to_string(),
            "every_s": options.every.map(|every| every.as_secs()),
            "last": Last::read(dir, &options.to),
        });
        return Some(status::sent_backup(&state, &format_time(RealClock::new().now_ns())));
    }
    match backup::list(&dir.join(BACKUPS_FOLDER)) {
        Err(error) => Some(Finding::warning(
            "backup",
            format!("{error:#}"),
            "run this as the user of the server",
        )),
        Ok(found) if !found.damaged.is_empty() => {
            let whys: Vec<&str> = found.damaged.iter().map(|(_, why)| why.as_str()).collect();
            Some(Finding::warning(
                "backup",
                whys.join("; "),
                "run this as the user of the server; if it is damaged, delete it and make another",
            ))
        }
        Ok(found) => {
            let newest = found.readable.iter().map(|manifest| manifest.created.as_str()).max();
            Some(status::backup(newest, &format_time(RealClock::new().now_ns())))
        }
    }
}
