//! Backups in another place, which this program reads itself: no server need run.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use indicatif::ProgressBar;
use node::storage::backup::destination::{self, Address, Destination, Keep, Progress};
use platform::{Clock, RealClock};
use serde_json::json;
use text::size::show_bytes;

use crate::cli::machine;
use crate::cli::progress::bytes_bar;
use crate::cli::terminal::escaped;
use crate::config::RawConfig;
use crate::config::backup::{RawBackup, address};

/// How often progress is shown.
const SHOWN_EVERY: Duration = Duration::from_millis(200);

/// How S3 storage is reached. What is not given is that of the configuration.
#[derive(Args)]
pub struct S3Args {
    /// Configuration file whose [backup] says how S3 storage is reached
    #[arg(long, value_name = "FILE.toml", env = "LOGINSON_CONFIG")]
    config: Option<PathBuf>,
    /// Address of S3 storage, if it is not Amazon's
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Region of S3 storage
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// File with the access key of S3 storage; else AWS_ACCESS_KEY_ID has it
    #[arg(long, value_name = "FILE", requires = "secret_key_file")]
    access_key_file: Option<String>,
    /// File with the secret key of S3 storage; else AWS_SECRET_ACCESS_KEY has it
    #[arg(long, value_name = "FILE", requires = "access_key_file")]
    secret_key_file: Option<String>,
    /// Certificates that S3 storage is verified with, if the system does not trust it
    #[arg(long, value_name = "FILE.pem")]
    s3_ca: Option<String>,
}

impl S3Args {
    /// The configuration file that is given.
    pub fn config(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// The address of a place; without one that of the configuration.
    pub fn address(&self, place: Option<&str>) -> Result<Address> {
        let mut raw = match machine::configuration(self.config.as_deref()) {
            // A packaged configuration is of no interest to who names everything.
            Some(file) if self.config.is_some() || place.is_none() => {
                let text = std::fs::read_to_string(&file)
                    .with_context(|| format!("cannot read {}", file.display()))?;
                RawConfig::parse(&text).map_err(|why| anyhow!("{}: {why}", file.display()))?.backup
            }
            _ => RawBackup::default(),
        };
        let given = [
            (&mut raw.to, place),
            (&mut raw.endpoint, self.endpoint.as_deref()),
            (&mut raw.region, self.region.as_deref()),
            (&mut raw.access_key_file, self.access_key_file.as_deref()),
            (&mut raw.secret_key_file, self.secret_key_file.as_deref()),
            (&mut raw.ca_file, self.s3_ca.as_deref()),
        ];
        for (setting, given) in given {
            if let Some(given) = given {
                given.clone_into(setting);
            }
        }
        if raw.to == "off" {
            bail!(
                "name the place of the backups: a directory, or s3://BUCKET/PREFIX; or give --config with backup.to"
            );
        }
        address(&raw)
    }
}

/// A place with backups.
#[derive(Args)]
pub struct PlaceArgs {
    /// Where the backups are: a directory, or s3://BUCKET/PREFIX [default: backup.to of --config]
    #[arg(value_name = "PLACE")]
    place: Option<String>,
    #[command(flatten)]
    s3: S3Args,
}

impl PlaceArgs {
    /// Whether a place is named, by itself or by a configuration.
    pub fn is_given(&self) -> bool {
        self.place.is_some() || self.s3.config.is_some()
    }

    fn open(&self) -> Result<Destination> {
        Destination::open(&self.s3.address(self.place.as_deref())?)
    }
}

#[derive(Args)]
#[command(after_help = "Examples:
  loginson backup verify /mnt/backups
  loginson backup verify s3://bucket/web1 --name 2026-11-22T00-15-00Z
  loginson backup verify --config /etc/loginson/loginson.toml

Each object that is missing or damaged is a line, with the file and the backups that it is a piece of. The exit code is 1 if
there is one. `loginson restore` also reads the lines, block by block.")]
pub struct VerifyArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Check this backup only
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
#[command(after_help = "Examples:
  loginson backup prune s3://bucket/web1 --keep 24h/7d/12w/24m --dry-run
  loginson backup prune /mnt/backups --name before-upgrade

--keep 7d/12w keeps the newest backup of each of the last 7 days and 12 weeks that have any (also h, m for months, y), and
always the newest one. What only deleted backups have is deleted with them, and so is what backups left that broke off.")]
pub struct PruneArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Which backups stay [default: all but those of --name]
    #[arg(long, value_name = "RULE", required_unless_present = "name")]
    keep: Option<Keep>,
    /// Delete the backup of this name; may be repeated
    #[arg(long, value_name = "NAME")]
    name: Vec<String>,
    /// Only say what would be deleted
    #[arg(long)]
    dry_run: bool,
}

/// `loginson backup list PLACE`
pub fn list(args: &PlaceArgs, json: bool) -> Result<()> {
    let destination = args.open()?;
    if !destination.holds_backups()? {
        bail!("{destination} holds no backups; check its name");
    }
    let (readable, faults) = destination.readable()?;
    for backup in readable {
        if json {
            let told = json!({
                "name": backup.name,
                "created": backup.created,
                "lines": backup.lines,
                "files": backup.files.len(),
                "bytes": backup.bytes,
                "version": backup.version,
            });
            println!("{told}");
        } else {
            println!(
                "{}  {}  {} lines  {}",
                backup.name,
                escaped(&backup.created),
                backup.lines,
                show_bytes(backup.bytes)
            );
        }
    }
    if !faults.is_empty() {
        bail!("{}", escaped(&faults.join("; ")));
    }
    Ok(())
}

/// `loginson backup verify`
pub fn verify(args: &VerifyArgs) -> Result<()> {
    let destination = args.place.open()?;
    let verified = watched("checking", |progress| {
        destination::verify(&destination, args.name.as_deref(), progress, |fault| match args.json {
            true => println!("{}", json!({ "fault": fault })),
            false => println!("{}", escaped(&fault)),
        })
    })?;
    let summary = format!(
        "{} backups in {destination}, {} objects, {}",
        verified.backups,
        verified.pieces,
        show_bytes(verified.bytes)
    );
    if args.json {
        println!(
            "{}",
            json!({
                "backups": verified.backups,
                "objects": verified.pieces,
                "bytes": verified.bytes,
                "faults": verified.faults,
            })
        );
    }
    match verified.faults {
        0 => eprintln!("{summary}: no fault"),
        1 => bail!(
            "{summary}: 1 fault; the next `loginson backup send` sends again what the store still has"
        ),
        faults => {
            bail!(
                "{summary}: {faults} faults; the next `loginson backup send` sends again what the store still has"
            )
        }
    }
    Ok(())
}

/// `loginson backup prune`
pub fn prune(args: &PruneArgs) -> Result<()> {
    let destination = args.place.open()?;
    let by = "`loginson backup prune`";
    let now_ns = RealClock::new().now_ns();
    let keep = args.keep.as_ref().map(|keep| (keep, now_ns));
    let pruned = destination::prune(&destination, by, keep, &args.name, args.dry_run)?;
    for name in &pruned.deleted {
        println!("{name}");
    }
    eprintln!(
        "{} of {} backups {}, {} objects with {}",
        pruned.deleted.len(),
        pruned.deleted.len() + pruned.kept.len(),
        if args.dry_run { "would be deleted" } else { "deleted" },
        pruned.pieces,
        show_bytes(pruned.bytes)
    );
    Ok(())
}

/// Shows the progress of `work` until it ends.
pub fn watched<T>(what: &'static str, work: impl FnOnce(&Progress) -> Result<T>) -> Result<T> {
    let (progress, bar) = (Progress::default(), bytes_bar(what, 0));
    let (ended, ends) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let (progress, shown): (&Progress, ProgressBar) = (&progress, bar.clone());
        scope.spawn(move || {
            let waiting = std::sync::mpsc::RecvTimeoutError::Timeout;
            while ends.recv_timeout(SHOWN_EVERY) == Err(waiting) {
                shown.set_length(progress.bytes_total.load(Relaxed));
                shown.set_position(progress.bytes_done.load(Relaxed));
            }
        });
        let done = work(progress);
        drop(ended);
        bar.finish_and_clear();
        done
    })
}
