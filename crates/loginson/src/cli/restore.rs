//! `loginson restore`: makes a data directory from a backup.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use text::size::show_bytes;

use crate::cli::backup::{S3Args, watched};
use crate::cli::encryption::KeyArgs;
use crate::cli::progress::bytes_bar;
use crate::cli::verify::Reporter;
use crate::settings::Settings;
use node::storage::backup::destination::{self, Contents, Destination};
use node::storage::backup::{self, Manifest};

#[derive(Args)]
#[command(after_help = "Examples:
  loginson restore loginson-data/backups/nightly --data-dir /var/lib/loginson
  loginson restore /mnt/backups/nightly --data-dir ./restored && loginson --data-dir ./restored
  loginson restore s3://bucket/web1 --data-dir ./restored                 the newest backup that was sent there
  loginson restore s3://bucket/logs --config node.toml                    of a cluster, into its empty bucket and database
  loginson restore s3://bucket/web1 --at 2026-11-22T00:00:00Z --data-dir ./restored

From a place that backups were sent to, --at takes the newest one that was made until then. A restore that broke off resumes
when the same command is given again.
Every checksum and every count of the backup is checked first. The directory must be empty, or not exist.")]
pub struct RestoreArgs {
    /// Directory of the backup, or the place that backups were sent to: a directory, or
    /// s3://BUCKET/PREFIX
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// Name of the backup in such a place [default: the newest one]
    #[arg(long, value_name = "NAME", conflicts_with = "at")]
    name: Option<String>,
    /// The newest backup in such a place that was made at this time or before
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    #[command(flatten)]
    s3: S3Args,
    /// Data directory to make; of a cluster none is made
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Restore a damaged backup too, as far as it can be read
    #[arg(long)]
    allow_damage: bool,
    #[command(flatten)]
    key: KeyArgs,
}

/// Runs the command.
pub fn run(args: RestoreArgs) -> Result<()> {
    let place = args.backup.to_str().filter(|text| text.starts_with("s3://"));
    let is_place = place.is_some() || Destination::is_at(&args.backup);
    if !is_place {
        if args.name.is_some() || args.at.is_some() {
            bail!(
                "{} is no place that backups were sent to, so --name and --at choose nothing; name the backup itself",
                args.backup.display()
            );
        }
        return from_directory(&args);
    }
    let at_ns = args.at.as_deref().map(|at| {
        text::time::parse_period(at).map(|period| period.start_ns).with_context(|| {
            format!("--at: '{}' is no time; write 2026-11-22T00:00:00Z", at.escape_default())
        })
    });
    let destination = Destination::open(&args.s3.address(args.backup.to_str())?)?;
    let chosen = destination::chosen(&destination, args.name.as_deref(), at_ns.transpose()?)?;
    if chosen.is_of_cluster() {
        return cluster(&args, &destination, &chosen);
    }
    let data_dir =
        args.data_dir.clone().context("name the data directory to make: --data-dir DIR")?;
    if backup::finish_restore(&data_dir, &chosen.name, &chosen.created)? {
        tell(&data_dir, chosen.lines, chosen.bytes);
        return Ok(());
    }
    let fetched = backup::fetch_directory(&data_dir, &chosen.name)?;
    eprintln!("the backup '{}' of {}", chosen.name, chosen.created);
    watched("fetching", |progress| destination::fetch(&destination, &chosen, &fetched, progress))?;
    from_directory(&RestoreArgs { backup: fetched, ..args })
}

/// Restores a backup of a cluster into the bucket and the database of the configuration.
fn cluster(args: &RestoreArgs, destination: &Destination, chosen: &Contents) -> Result<()> {
    let file = args.s3.config().context(
        "this is the backup of a cluster: give --config FILE.toml, whose [cluster] names an empty bucket and an empty database",
    )?;
    let config = Settings::new(Some(file.to_owned()), |_| {}).load()?.config;
    let engines = config.node.engines.with_context(|| {
        format!("{} has no [cluster] that names a bucket and a database", file.display())
    })?;
    watched("restoring", |progress| {
        node::cluster::backup::restore(&engines, destination, chosen, progress)
    })?;
    eprintln!(
        "{} lines, {} restored; start the nodes of the cluster with this bucket, this database and the Kafka that the cluster had: \
         it has the lines that came after the backup",
        chosen.lines,
        show_bytes(chosen.bytes)
    );
    Ok(())
}

/// Restores a backup that is a directory.
fn from_directory(args: &RestoreArgs) -> Result<()> {
    let data_dir =
        args.data_dir.as_deref().context("name the data directory to make: --data-dir DIR")?;
    let expected = Manifest::read(&args.backup)?;
    let length =
        |file: &str| std::fs::metadata(args.backup.join(file)).map_or(0, |file| file.len());
    let bytes = expected.files.iter().map(|file| length(&file.file)).sum();
    if backup::finish_restore(data_dir, &expected.name, &expected.created)? {
        tell(data_dir, expected.lines, bytes);
        return Ok(());
    }
    let disk = args.key.disk(&args.backup)?;
    let mut reporter = Reporter::new(bytes_bar("checking", bytes), false);
    let checked = backup::verify_backup(&*disk, &args.backup, &mut reporter);
    let faults = reporter.end();
    let (manifest, checked) = checked?;
    if faults > 0 && !args.allow_damage {
        bail!(
            "{}: {faults} faults; --allow-damage restores everything that can be read",
            args.backup.display()
        );
    }
    let bar = bytes_bar("restoring", bytes);
    let restored = backup::restore(&args.backup, &manifest, data_dir, |bytes| bar.inc(bytes));
    bar.finish_and_clear();
    restored?;
    tell(data_dir, checked.lines, checked.bytes);
    Ok(())
}

fn tell(data_dir: &Path, lines: u64, bytes: u64) {
    eprintln!(
        "{lines} lines, {} restored; start it with: loginson --data-dir {}",
        show_bytes(bytes),
        data_dir.display()
    );
    eprintln!(
        "it is the store that the backup was made of, so start it in the place of that one only; to fill another store \
         from it, start it at a port of its own, and run: loginson cluster repair --from ITS-URL --to STORE-URL"
    );
}
