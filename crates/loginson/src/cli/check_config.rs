//! `loginson check-config`: all mistakes of a configuration file, each with its line, before a
//! server meets the first of them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::Args;
use collector::{Credentials, TlsFiles};
use platform::RealClock;
use record::{Parser, ParserConfig};

use crate::cli::finding::Finding;
use crate::cli::machine;
use crate::cli::terminal::escaped;
use crate::config::Config;
use crate::config::mistakes::{Mistake, check};
use node::cluster::Cluster;
use node::ingest::rules::RuleSet;
use node::lookups::Lookups;
use node::storage::encryption::KeySource;

#[derive(Args)]
#[command(after_help = "Examples:
  loginson check-config /etc/loginson/loginson.toml
  loginson check-config && loginson reload
  loginson check-config --collector /etc/loginson/collector.toml

All mistakes are shown, as FILE:LINE: error: …, which editors understand. Files that the configuration names are read:
secrets, certificates, lookups. Warnings are what may differ on another machine or at another time: ports in use,
secrets that everybody can read. The exit code is 1 if there are mistakes. Flags and variables of `loginson serve`, which
override the file, are not looked at.")]
pub struct CheckConfigArgs {
    /// The file [default: /etc/loginson/loginson.toml]
    #[arg(value_name = "FILE.toml", env = "LOGINSON_CONFIG")]
    file: Option<PathBuf>,
    /// It is the configuration of `loginson collect`
    #[arg(long)]
    collector: bool,
}

/// Runs the command.
pub fn run(args: &CheckConfigArgs) -> Result<()> {
    let file = machine::configuration(args.file.as_deref())
        .context("name the configuration file: loginson check-config FILE")?;
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("cannot read the configuration file {}", file.display()))?;
    let (mistakes, warnings) = look(&text, args.collector);
    let mut out = std::io::stdout().lock();
    write(&mut out, &file, &mistakes, &warnings)?;
    ensure!(mistakes.is_empty(), "mistakes in {}: {}", file.display(), mistakes.len());
    writeln!(out, "{} has no mistakes", file.display())?;
    Ok(())
}

/// The mistakes of a file, and what may be one.
fn look(text: &str, is_collector: bool) -> (Vec<Mistake>, Vec<Finding>) {
    let checked = check(text);
    let (mut mistakes, mut warnings) = (checked.mistakes, machine::secrets(text));
    if let Some(config) = &checked.config {
        let errors = beyond(config, is_collector);
        mistakes.extend(errors.into_iter().map(|message| Mistake { line: None, message }));
        warnings.extend(machine::ports(config, false));
    }
    (mistakes, warnings)
}

/// What a start would refuse besides single values.
fn beyond(config: &Config, is_collector: bool) -> Vec<String> {
    let mut errors = Vec::new();
    if !is_collector && let Err(error) = config.allow_serving() {
        errors.push(format!("{error:#}"));
    }
    let sources = &config.node.sources;
    let syslog = sources.syslog_tls.as_ref().map(|tls| &tls.files);
    let of_sources = sources.tls.as_ref().or(syslog);
    let mut load = |section: &str, files: Option<&TlsFiles>| {
        if let Some(files) = files
            && let Err(error) = Credentials::load(files.clone(), Arc::new(RealClock::new()))
        {
            errors.push(format!("[{section}]: {error}"));
        }
    };
    load("http_tls", config.http_tls.as_ref());
    load("tls", of_sources);
    // Of these, certificates are read; nothing is asked of them. A collector has none.
    if !is_collector {
        if let Some(Err(error)) = config.stores.as_ref().map(Cluster::new) {
            errors.push(format!("[stores]: {error:#}"));
        }
        for notifier in &config.node.alerts.notifiers {
            if let Err(fault) = notifier.channel() {
                errors.push(format!("[[alerts.notifiers]]: '{}': {fault}", notifier.policy.name));
            }
        }
    }
    let parser = Parser::new(&ParserConfig {
        types: config.node.types.clone(),
        zone: config.node.zone,
        no_server_fields: config.node.no_server_fields,
    });
    if let Err(error) = parser {
        errors.push(format!("[[types]]: {error}"));
    }
    let encryption = &config.node.encryption;
    for source in encryption.key.iter().chain(&encryption.old) {
        // A command is not run: it may ask for something, or count.
        if let KeySource::File(_) = source
            && let Err(error) = source.read()
        {
            errors.push(format!("[encryption]: {error:#}"));
        }
    }
    match Lookups::open(&config.node.lookups) {
        Err(error) => errors.push(format!("[[lookups]]: {error}")),
        Ok(lookups) => {
            let lookups = lookups.for_rules();
            let rules = RuleSet::new(&config.node.rules, &RuleSet::default(), Some(&lookups));
            errors.extend(rules.err().map(|error| format!("[[rules]]: {error}")));
        }
    }
    errors
}

fn write(
    out: &mut impl Write,
    file: &Path,
    mistakes: &[Mistake],
    warnings: &[Finding],
) -> std::io::Result<()> {
    let file = escaped(&file.display().to_string());
    for Mistake { line, message } in mistakes {
        let line = line.map_or(String::new(), |line| format!("{line}:"));
        writeln!(out, "{file}:{line} error: {}", escaped(message))?;
    }
    for Finding { found, remedy, .. } in warnings {
        writeln!(out, "{file}: warning: {}; {}", escaped(found), escaped(remedy))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_named_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        std::fs::write(at("wrong.pem"), "no certificate").unwrap();
        let off =
            "http_listen = '127.0.0.1:0'\nsyslog_udp_listen = 'off'\nsyslog_tcp_listen = 'off'\n";
        let check = |text: &str, expected: &[&str]| {
            let (mistakes, _) = look(&format!("{off}{text}"), false);
            assert_eq!(mistakes.len(), expected.len(), "{text}\n{mistakes:#?}");
            for (mistake, part) in mistakes.iter().zip(expected) {
                assert!(mistake.message.contains(part), "{mistakes:#?}");
            }
        };
        check("", &[]);
        let pem = at("wrong.pem");
        check(&format!("[http_tls]\ncertificate = '{pem}'\nkey = '{pem}'\n"), &["[http_tls]: "]);
        check(&format!("[tls]\ncertificate = '{pem}'\nkey = '{pem}'\n"), &["[tls]: "]);
        check(&format!("[encryption]\nkey_file = '{pem}'\n"), &["[encryption]: "]);
        let lookup = at("none.csv");
        check(
            &format!(
                "node_secret_file = '{}'\n[[lookups]]\nname = 'a'\nfile = '{lookup}'\nkeys = ['b']\n",
                at("no")
            ),
            &["cannot read", "[[lookups]]: "],
        );
        let stores = "addresses = ['https://a.example:9514']";
        check(&format!("[stores]\n{stores}\nca_file = '{pem}'\n"), &["[stores]: "]);
        let absent = at("no");
        check(&format!("[stores]\n{stores}\nca_file = '{absent}'\n"), &["[stores]: "]);
        let notifier = "webhook = { url = 'https://a.example/x' }";
        check(
            &format!("[[alerts.notifiers]]\nname = 'ops'\nca = '{absent}'\n{notifier}\n"),
            &["[[alerts.notifiers]]: 'ops': "],
        );
        check("cluster.kafka.brokers = ['a:9092']\n", &["loginson collect --config FILE"]);
    }

    #[test]
    fn mistakes_are_shown_as_editors_read_them() {
        let mistakes = [
            Mistake { line: Some(7), message: "a\u{1b}b".into() },
            Mistake { line: None, message: "c".into() },
        ];
        let mut out = Vec::new();
        let warnings = [Finding::warning("port", "d", "e")];
        write(&mut out, Path::new("/f.toml"), &mistakes, &warnings).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "/f.toml:7: error: a\\x1bb\n/f.toml: error: c\n/f.toml: warning: d; e\n"
        );
    }
}
