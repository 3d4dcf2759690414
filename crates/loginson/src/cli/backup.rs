//! `loginson backup`: copies everything, as it is at one moment, from a running server or from a
//! directory at rest.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use platform::{Clock, RealClock, RealDisk};
use serde_json::Value;
use text::size::show_bytes;

use crate::cli::ServerArgs;
use crate::cli::client::{Client, Refusal};
use node::data_dir::BACKUPS_FOLDER;
use node::storage::backup;

#[derive(Args)]
#[command(after_help = "Examples:
  loginson backup                                     of the running server, named by the time
  loginson backup before-upgrade
  loginson backup --list
  loginson backup --delete before-upgrade
  loginson backup --data-dir /var/lib/loginson        of a data directory at rest
  loginson backup --data-dir /var/lib/loginson --to /mnt/backups

A running server makes backups in the directory backups of its data directory. Files are shared with it (hard links), so a
backup takes no space at first; a file that the server deletes stays on the disk as long as a backup contains it. Copy backups
to another disk or machine: they do not survive the loss of this disk. `loginson restore` makes a data directory from a backup.")]
pub struct BackupArgs {
    /// Name of the backup [default: the time]
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Back up this data directory, which no server may be using, instead of a running server
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Directory to make the backup in [default: backups in the data directory]
    #[arg(long, value_name = "DIR", requires = "data_dir")]
    to: Option<PathBuf>,
    /// List the backups
    #[arg(long, conflicts_with_all = ["name", "delete"])]
    list: bool,
    /// Delete the backup with that name
    #[arg(long, value_name = "NAME", conflicts_with = "name")]
    delete: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs the command.
pub fn run(args: BackupArgs) -> Result<()> {
    match &args.data_dir {
        Some(dir) => at_rest(&args, dir),
        None => by_server(&args),
    }
}

fn at_rest(args: &BackupArgs, data_dir: &Path) -> Result<()> {
    let backups = args.to.clone().unwrap_or_else(|| data_dir.join(BACKUPS_FOLDER));
    if args.list {
        for manifest in backup::list(&backups)? {
            let path = backups.join(&manifest.name);
            show(&path.display().to_string(), &manifest.created, manifest.lines);
        }
        return Ok(());
    }
    if let Some(name) = &args.delete {
        if !backup::delete(&backups, name)? {
            bail!("there is no backup '{name}' in {}", backups.display());
        }
        return Ok(());
    }
    let now_ns = RealClock::new().now_ns();
    let name = args.name.clone().unwrap_or_else(|| backup::name_of_time(now_ns));
    let made = backup::of_directory(&RealDisk, data_dir, &backups, &name, now_ns)?;
    println!("{}", backups.join(&made.name).display());
    tell(made.lines, made.files.len() as u64, made.files_linked, made.bytes_copied);
    Ok(())
}

fn by_server(args: &BackupArgs) -> Result<()> {
    let client = Client::new(&args.server)?;
    let failure =
        |refusal: Refusal| anyhow!("{}", crate::cli::terminal::escaped(&refusal.message()));
    if args.list {
        let answer = client.get_json("/api/v1/backups")?;
        for backup in answer["backups"].as_array().into_iter().flatten() {
            show(text(backup, "path"), text(backup, "created"), number(backup, "lines"));
        }
        return Ok(());
    }
    if let Some(name) = &args.delete {
        backup::check_name(name)?;
        client.delete_json(&format!("/api/v1/backups/{name}"))?;
        return Ok(());
    }
    let form: Vec<_> = args.name.iter().map(|name| ("name", name.clone())).collect();
    let mut response = client.post_form("/api/v1/backups", &form)?.map_err(failure)?;
    let answer = response.body_mut().read_to_string().context("the server's answer was cut off")?;
    let made: Value = serde_json::from_str(&answer).context("the server's answer is not JSON")?;
    println!("{}", crate::cli::terminal::escaped(text(&made, "path")));
    let [lines, files, linked, copied] =
        ["lines", "files", "files_linked", "bytes_copied"].map(|name| number(&made, name));
    tell(lines, files, linked, copied);
    Ok(())
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_default()
}

fn show(path: &str, created: &str, lines: u64) {
    let escaped = crate::cli::terminal::escaped;
    println!("{}  {}  {lines} lines", escaped(path), escaped(created));
}

fn tell(lines: u64, files: u64, linked: u64, copied: u64) {
    eprintln!(
        "{lines} lines in {files} files, of which {linked} are shared with the store and {} were copied",
        show_bytes(copied)
    );
}
