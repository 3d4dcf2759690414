//! `loginson restore`: makes a data directory from a backup.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use platform::RealDisk;
use text::size::show_bytes;

use crate::cli::progress::bytes_bar;
use crate::cli::verify::Reporter;
use node::storage::backup::{self, Manifest};

#[derive(Args)]
#[command(after_help = "Examples:
  loginson restore loginson-data/backups/nightly --data-dir /var/lib/loginson
  loginson restore /mnt/backups/nightly --data-dir ./restored && loginson --data-dir ./restored

Every checksum and every count of the backup is checked first. The directory must be empty, or not exist.")]
pub struct RestoreArgs {
    /// Directory of the backup
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// Data directory to make
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Restore a damaged backup too, as far as it can be read
    #[arg(long)]
    allow_damage: bool,
}

/// Runs the command.
pub fn run(args: RestoreArgs) -> Result<()> {
    let expected = Manifest::read(&args.backup)?;
    let length =
        |file: &str| std::fs::metadata(args.backup.join(file)).map_or(0, |file| file.len());
    let bytes = expected.files.iter().map(|file| length(&file.file)).sum();
    let mut reporter = Reporter::new(bytes_bar("checking", bytes), false);
    let checked = backup::verify_backup(&RealDisk, &args.backup, &mut reporter);
    let faults = reporter.end();
    let (manifest, checked) = checked?;
    if faults > 0 && !args.allow_damage {
        bail!(
            "{}: {faults} faults; --allow-damage restores everything that can be read",
            args.backup.display()
        );
    }
    let bar = bytes_bar("restoring", bytes);
    let restored = backup::restore(&args.backup, &manifest, &args.data_dir, |bytes| bar.inc(bytes));
    bar.finish_and_clear();
    restored?;
    eprintln!(
        "{} lines, {} restored; start it with: loginson --data-dir {}",
        checked.lines,
        show_bytes(checked.bytes),
        args.data_dir.display()
    );
    eprintln!(
        "it is the store that the backup was made of, so start it in the place of that one only; to fill another store \
         from it, start it at a port of its own, and run: loginson cluster repair --from ITS-URL --to STORE-URL"
    );
    Ok(())
}
