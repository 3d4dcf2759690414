//! `loginson verify`: checks data directories, backups and single files.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use indicatif::ProgressBar;
use platform::{Disk, RealDisk};
use serde_json::json;
use store::{AtRest, StoreError};
use text::size::show_bytes;

use crate::cli::backup::S3Args;
use crate::cli::encryption::KeyArgs;
use crate::cli::progress::bytes_bar;
use node::storage::backup::destination::Destination;
use node::storage::backup::{self, MANIFEST_FILE};
use node::storage::integrity::{self, PublicKey};
use node::storage::verify::{
    Checked, Fault, Observer, single_file, verify_directory, verify_segment,
};

#[derive(Args)]
#[command(after_help = "Examples:
  loginson verify ./loginson-data                     a data directory at rest
  loginson verify loginson-data/backups/nightly       a backup, also while the server runs
  loginson verify loginson-data/segments/17.sealed    one file
  loginson verify --json /mnt/backups/*
  loginson verify --chain /var/lib/loginson --public-key loginson.pub --copies s3://audit/web1

Reads every byte and changes none. Each fault is a line: file, byte, what was expected and what was found. The exit code is 1
if there is a fault. --chain
checks the chain of [integrity] instead: its links, signatures and copies, and every sealed file that it names, also while the
server runs.")]
pub struct VerifyArgs {
    /// Data directories, backups, segment files
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Print one JSON object per fault, and one with the summary
    #[arg(long)]
    json: bool,
    /// Check the chain of hashes over sealed segments
    #[arg(long)]
    chain: bool,
    /// Who must have signed the chain: a file, or 64 digits [default: whoever signed first]
    #[arg(long, value_name = "KEY", requires = "chain")]
    public_key: Option<String>,
    /// Second place that heads of the chain were written to: a directory, or s3://BUCKET/PREFIX
    #[arg(long, value_name = "PLACE", requires = "chain")]
    copies: Option<String>,
    #[command(flatten)]
    s3: S3Args,
    #[command(flatten)]
    key: KeyArgs,
}

/// Runs the command.
pub fn run(args: VerifyArgs) -> Result<()> {
    if args.chain {
        return chains(&args);
    }
    let started = Instant::now();
    let (mut all, mut faults) = (Checked::default(), 0);
    for path in &args.paths {
        let mut reporter = Reporter::new(bytes_bar("checking", bytes_below(path)), args.json);
        match verify(path, &args.key, &mut reporter) {
            Ok(checked) => {
                all.files += checked.files;
                all.lines += checked.lines;
                all.lines_own += checked.lines_own;
                all.bytes += checked.bytes;
                all.bytes_raw += checked.bytes_raw;
            }
            Err(error) if args.paths.len() > 1 => reporter.fault(Fault {
                file: path.clone(),
                offset: None,
                part: "it cannot be checked".into(),
                expected: String::new(),
                found: node::process::log::one_line(&error),
            }),
            Err(error) => {
                reporter.end();
                return Err(error);
            }
        }
        faults += reporter.end();
    }
    let Checked { files, lines_own, bytes, bytes_raw, .. } = all;
    let lines = all.lines - lines_own;
    let seconds = started.elapsed().as_secs_f64();
    if args.json {
        let summary = json!({ "files": files, "lines": lines, "lines_own": lines_own, "bytes": bytes, "bytes_raw": bytes_raw, "faults": faults });
        println!("{summary}");
    }
    let summary = format!(
        "{lines} lines and {lines_own} rows of the summary in {files} segments, {} in {seconds:.1} s",
        show_bytes(bytes)
    );
    match faults {
        0 => eprintln!("{summary}: no fault"),
        1 => bail!("{summary}: 1 fault"),
        _ => bail!("{summary}: {faults} faults"),
    }
    Ok(())
}

/// Time after which a running server has linked what went before.
const LINKED_WITHIN: Duration = Duration::from_secs(15);

fn chains(args: &VerifyArgs) -> Result<()> {
    let key = args.public_key.as_deref().map(|text| {
        let pem = match Path::new(text).exists() {
            true => std::fs::read_to_string(text)?,
            false => text.to_owned(),
        };
        PublicKey::parse(&pem).context("--public-key")
    });
    let key = key.transpose()?;
    let copies =
        args.copies.as_deref().map(|place| Destination::open(&args.s3.address(Some(place))?));
    let copies = copies.transpose()?;
    let mut faults_of_all = 0;
    for path in &args.paths {
        let look = || {
            let mut faults = Vec::new();
            let verified =
                integrity::verify(path, key, copies.as_ref(), |fault| faults.push(fault))?;
            anyhow::Ok((verified, faults))
        };
        // No server starts meanwhile. Hashes are of files as they are, so no key is needed.
        let (at_rest, is_running) = match AtRest::open(&RealDisk, path) {
            Ok(at_rest) => (Some(at_rest), false),
            Err(StoreError::Locked { .. }) => (None, true),
            Err(error) => return Err(error.into()),
        };
        let (mut verified, mut faults) = look()?;
        if is_running && !faults.is_empty() {
            // The server may have removed a segment, and not have linked that yet.
            std::thread::sleep(LINKED_WITHIN);
            (verified, faults) = look()?;
        }
        drop(at_rest);
        for fault in &faults {
            match args.json {
                true => println!("{}", json!({ "path": path, "fault": fault })),
                false => println!("{}", crate::cli::terminal::escaped(fault)),
            }
        }
        faults_of_all += verified.faults;
        let signer = verified.key.map_or("nobody".to_owned(), |key| key.to_string());
        if args.json {
            let summary = json!({
                "path": path, "links": verified.links, "heads": verified.heads, "segments": verified.segments,
                "unsigned": verified.unsigned, "unlinked": verified.unlinked, "copies": verified.copies, "key": signer,
                "faults": verified.faults,
            });
            println!("{summary}");
        }
        eprintln!(
            "{}: {} links, {} signatures of {signer}, {} segments as they were sealed, {} copies of heads; not vouched for yet: \
             {} links, {} segments",
            path.display(),
            verified.links,
            verified.heads,
            verified.segments,
            verified.copies,
            verified.unsigned,
            verified.unlinked
        );
    }
    match faults_of_all {
        0 => Ok(()),
        1 => bail!("1 fault"),
        faults => bail!("{faults} faults"),
    }
}

fn verify(path: &Path, key: &KeyArgs, reporter: &mut Reporter) -> Result<Checked> {
    if path.is_file() {
        // Whoever names a link means the file behind it.
        let file = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let disk = key.disk_of_file(&file)?;
        let segment = match single_file(&*disk, &file) {
            Ok(segment) => segment,
            Err(error) => {
                reporter.fault(error.into());
                return Ok(Checked { files: 1, ..Checked::default() });
            }
        };
        return Ok(verify_segment(&*disk, &segment, reporter));
    }
    let disk = key.disk(path)?;
    if path.join(MANIFEST_FILE).exists() {
        return Ok(backup::verify_backup(&*disk, path, reporter)?.1);
    }
    let at_rest = crate::cli::open_at_rest(&*disk, path)?;
    Ok(verify_directory(&*disk, &at_rest, reporter, |_, _| {}))
}

/// Bytes that will be read, to estimate the remaining time. An upper bound: it includes files that
/// verification skips.
fn bytes_below(path: &Path) -> u64 {
    let dir = path.join(store::SEGMENTS_DIR);
    match RealDisk.list(&dir) {
        Ok(names) => {
            names.iter().map(|name| RealDisk.file_bytes(&dir.join(name)).unwrap_or(0)).sum()
        }
        Err(_) => RealDisk.file_bytes(path).unwrap_or(0),
    }
}

/// Prints faults as they are found.
pub struct Reporter {
    bar: ProgressBar,
    json: bool,
    faults: u64,
}

impl Reporter {
    /// Prints faults as text or JSON, above the progress bar.
    pub fn new(bar: ProgressBar, json: bool) -> Self {
        Reporter { bar, json, faults: 0 }
    }

    /// Removes the bar; returns the number of faults.
    pub fn end(self) -> u64 {
        self.bar.finish_and_clear();
        self.faults
    }
}

impl Observer for Reporter {
    fn advanced(&mut self, bytes: u64) {
        self.bar.inc(bytes);
    }

    fn fault(&mut self, fault: Fault) {
        self.faults += 1;
        let line = match self.json {
            true => json!({
                "file": fault.file,
                "offset": fault.offset,
                "part": fault.part,
                "expected": fault.expected,
                "found": fault.found,
            })
            .to_string(),
            false => crate::cli::terminal::escaped(&fault.to_string()),
        };
        self.bar.suspend(|| println!("{line}"));
    }

    fn note(&mut self, note: String) {
        self.bar.suspend(|| eprintln!("loginson: {}", crate::cli::terminal::escaped(&note)));
    }
}
