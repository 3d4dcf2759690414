//! `loginson backup`: copies everything, as it is at one moment, from a running server or from a
//! directory at rest; lists, checks and deletes backups in another place.

mod place;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Subcommand};
use platform::{Clock, Disk, RealClock};
use serde_json::Value;
use text::size::show_bytes;

use crate::cli::ServerArgs;
use crate::cli::client::{Client, Refusal};
use crate::cli::encryption::KeyArgs;
use node::data_dir::BACKUPS_FOLDER;
use node::storage::backup;
use node::storage::backup::destination::{Destination, Snapshot};

pub use place::{PlaceArgs, S3Args, watched};

#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  loginson backup                                     of the running server, named by the time
  loginson backup before-upgrade
  loginson backup --list
  loginson backup --delete before-upgrade
  loginson backup --data-dir /var/lib/loginson        of a data directory at rest
  loginson backup --data-dir /var/lib/loginson --to /mnt/backups
  loginson backup send                                to the place that backup.to of the configuration names
  loginson backup list s3://bucket/web1
  loginson backup verify s3://bucket/web1
  loginson backup prune s3://bucket/web1 --keep 7d/12w

A running server makes backups in the directory backups of its data directory. Files are shared with it (hard links), so a
backup takes no space at first; a file that the server deletes stays on the disk as long as a backup contains it. Such backups
do not survive the loss of this disk: `send` sends one to another disk or to S3 storage, where it takes space for what is
new. `loginson restore` makes a data directory from a backup."
)]
pub struct BackupArgs {
    #[command(subcommand)]
    action: Option<Action>,
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
    #[command(flatten)]
    key: KeyArgs,
}

#[derive(Subcommand)]
enum Action {
    /// Send a backup to another disk or to S3 storage; what is there is not sent again
    Send(SendArgs),
    /// List the backups of a running server, or in another place
    List(ListArgs),
    /// Read every byte of backups in another place, and compare checksums
    Verify(place::VerifyArgs),
    /// Delete backups in another place, and what only they have
    Prune(place::PruneArgs),
}

#[derive(Args)]
#[command(after_help = "Examples:
  loginson backup send                                by the running server, to backup.to of its configuration
  loginson backup send before-upgrade
  loginson backup send --data-dir /var/lib/loginson --to s3://bucket/web1

The command ends when the backup is complete. One that broke off resumes when it is given again: what was sent is not sent
again. Secrets of S3 storage are in files, or in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.")]
struct SendArgs {
    /// Name of the backup [default: the time]
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Send this data directory, which no server may be using, instead of that of a running server
    #[arg(long, value_name = "DIR", requires = "to")]
    data_dir: Option<PathBuf>,
    /// Where to: a directory, or s3://BUCKET/PREFIX
    #[arg(long, value_name = "PLACE", requires = "data_dir")]
    to: Option<String>,
    #[command(flatten)]
    s3: S3Args,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    key: KeyArgs,
}

#[derive(Args)]
struct ListArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// How often a server is asked whether a backup is complete.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// Runs the command.
pub fn run(args: BackupArgs) -> Result<()> {
    match &args.action {
        Some(Action::Send(args)) => return send(args),
        Some(Action::List(args)) if args.place.is_given() => {
            return place::list(&args.place, args.json);
        }
        Some(Action::List(args)) => return list_of_server(args),
        Some(Action::Verify(args)) => return place::verify(args),
        Some(Action::Prune(args)) => return place::prune(args),
        None => {}
    }
    match &args.data_dir {
        Some(dir) => at_rest(&args, dir),
        None => by_server(&args),
    }
}

fn send(args: &SendArgs) -> Result<()> {
    let now_ns = RealClock::new().now_ns();
    let name = args.name.clone().unwrap_or_else(|| backup::name_of_time(now_ns));
    backup::check_name(&name)?;
    let (Some(data_dir), Some(to)) = (&args.data_dir, &args.to) else {
        return send_by_server(args, &name);
    };
    let destination = Destination::open(&args.s3.address(Some(to))?)?;
    let backups = data_dir.join(BACKUPS_FOLDER);
    let disk = args.key.disk(data_dir)?;
    tell_missing(&*disk, data_dir)?;
    let snapshot = Snapshot::take(&backups, &name, |folder| {
        backup::of_directory(&disk, data_dir, folder, &name, now_ns, &mut tell_damaged)
    })?;
    let by = format!("`loginson backup send` of {}", data_dir.display());
    let sent = watched("sending", |progress| {
        backup::destination::send(&destination, &snapshot, &by, &backups, progress)
    })?;
    println!("{}", sent.name);
    tell_sent(&destination.to_string(), sent.lines, sent.bytes, sent.bytes_sent);
    Ok(())
}

fn send_by_server(args: &SendArgs, name: &str) -> Result<()> {
    let client = Client::new(&args.server)?;
    let form = [("name", name.to_owned()), ("send", "1".to_owned())];
    client.post_form("/api/v1/backups", &form)?.map_err(|refusal: Refusal| {
        anyhow!("{}", crate::cli::terminal::escaped(&refusal.message()))
    })?;
    loop {
        let state = client.get_json("/api/v1/backups")?["destination"].take();
        if state["running"].is_null() && state["waiting"].is_null() {
            let last = &state["last"];
            if last["name"] == name {
                println!("{}", crate::cli::terminal::escaped(name));
                let [lines, bytes, sent] =
                    ["lines", "bytes", "bytes_sent"].map(|key| number(last, key));
                tell_sent(text(&state, "to"), lines, bytes, sent);
                return Ok(());
            }
            let why = text(&state["failed"], "why");
            bail!(
                "no backup was made: {}; what was sent is not sent again",
                if why.is_empty() { "the server ended" } else { why }
            );
        }
        std::thread::sleep(ASK_EVERY);
    }
}

fn tell_sent(to: &str, lines: u64, bytes: u64, sent: u64) {
    eprintln!(
        "{lines} lines, {} in {}, of which {} were sent",
        show_bytes(bytes),
        crate::cli::terminal::escaped(to),
        show_bytes(sent)
    );
}

fn list_of_server(args: &ListArgs) -> Result<()> {
    let answer = Client::new(&args.server)?.get_json("/api/v1/backups")?;
    if args.json {
        println!("{answer}");
        return Ok(());
    }
    for backup in answer["backups"].as_array().into_iter().flatten() {
        show(text(backup, "path"), text(backup, "created"), number(backup, "lines"));
    }
    for backup in answer["damaged"].as_array().into_iter().flatten() {
        show_damaged(text(backup, "name"), text(backup, "why"));
    }
    let state = &answer["destination"];
    let (to, last) = (crate::cli::terminal::escaped(text(state, "to")), &state["last"]);
    match (state.is_null(), last.is_null()) {
        (true, _) => {}
        (_, true) => eprintln!("no backup was sent to {to} yet"),
        _ => eprintln!(
            "the last one sent to {to}: '{}' of {}; `loginson backup list {to}` shows all",
            crate::cli::terminal::escaped(text(last, "name")),
            crate::cli::terminal::escaped(text(last, "created"))
        ),
    }
    Ok(())
}

fn at_rest(args: &BackupArgs, data_dir: &Path) -> Result<()> {
    let backups = args.to.clone().unwrap_or_else(|| data_dir.join(BACKUPS_FOLDER));
    if args.list {
        let found = backup::list(&backups)?;
        for manifest in found.readable {
            let path = backups.join(&manifest.name);
            show(&path.display().to_string(), &manifest.created, manifest.lines);
        }
        found.damaged.iter().for_each(|(name, why)| show_damaged(name, why));
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
    let disk = args.key.disk(data_dir)?;
    tell_missing(&*disk, data_dir)?;
    let made = backup::of_directory(&disk, data_dir, &backups, &name, now_ns, &mut tell_damaged)?;
    println!("{}", backups.join(&made.name).display());
    tell(made.lines, made.files.len() as u64, made.files_linked, made.bytes_copied);
    Ok(())
}

/// Names the segments that the catalog knows and that no backup can have, since their files are not
/// there.
fn tell_missing(disk: &dyn Disk, data_dir: &Path) -> Result<()> {
    for (id, row) in &crate::cli::open_at_rest(disk, data_dir)?.missing {
        eprintln!(
            "loginson: segment {id} with {} lines is missing, and is not in the backup: there is no {}",
            row.lines,
            crate::cli::terminal::escaped(&row.file)
        );
    }
    Ok(())
}

/// Tells of a segment that is damaged.
fn tell_damaged(why: &str) {
    eprintln!("loginson: {}", crate::cli::terminal::escaped(why));
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
        for backup in answer["damaged"].as_array().into_iter().flatten() {
            show_damaged(text(backup, "name"), text(backup, "why"));
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

fn show_damaged(name: &str, why: &str) {
    let escaped = crate::cli::terminal::escaped;
    eprintln!("the backup '{}' cannot be used: {}", escaped(name), escaped(why));
}

fn tell(lines: u64, files: u64, linked: u64, copied: u64) {
    eprintln!(
        "{lines} lines in {files} files, of which {linked} are shared with the store and {} were copied",
        show_bytes(copied)
    );
}
