//! `loginson encryption`: makes a master key, shows which files of a data directory are encrypted,
//! and rewrites files and data keys of one that no server is using.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};
use platform::encryption::{EncryptedDisk, Keyring, MasterKey};
use platform::{Access, AlignedBuffer, Disk, RealDisk};
use store::SEGMENTS_DIR;
use text::size::show_bytes;

use crate::cli::open_at_rest;
use crate::cli::progress::bytes_bar;
use node::storage::encryption::{EncryptionOptions, KeySource, plain_files, stored_files};

/// The master key of a data directory at rest.
#[derive(Args, Clone, Debug)]
pub struct KeyArgs {
    /// File with the master key, if files are encrypted
    #[arg(long, value_name = "FILE", env = "LOGINSON_ENCRYPTION_KEY_FILE")]
    encryption_key_file: Option<PathBuf>,
}

impl KeyArgs {
    fn options(&self) -> EncryptionOptions {
        let key = self.encryption_key_file.clone().map(KeySource::File);
        EncryptionOptions { key, ..EncryptionOptions::default() }
    }

    /// The disk of a data directory or backup, to read it.
    ///
    /// Errors: it is encrypted, and the key is missing or another one.
    pub fn disk(&self, directory: &Path) -> Result<Arc<dyn Disk>> {
        let disk = self.options().disk_to_read(directory);
        disk.map_err(|error| match self.encryption_key_file {
            None => error.context("name the file of the master key by --encryption-key-file"),
            Some(_) => error,
        })
    }

    /// The disk of a segment file: its data keys are beside the folder of segments.
    ///
    /// Errors: as [`disk`](Self::disk).
    pub fn disk_of_file(&self, file: &Path) -> Result<Arc<dyn Disk>> {
        let folder = file.parent().unwrap_or(Path::new("."));
        let directory = match folder.file_name() {
            Some(name) if name == SEGMENTS_DIR => folder.parent().unwrap_or(folder),
            _ => folder,
        };
        self.disk(directory)
    }
}

#[derive(Args)]
#[command(after_help = "Examples:
  loginson encryption new-key /etc/loginson/master.key
  loginson encryption show /var/lib/loginson
  loginson encryption rotate /var/lib/loginson --encryption-key-file old.key --to new.key
  loginson encryption rotate /var/lib/loginson --encryption-key-file m.key --to m.key --new-data-key
  loginson encryption rewrite /var/lib/loginson --encryption-key-file m.key

A server encrypts new files once [encryption] of its configuration names a master key. Files that were there stay as they are
until they are merged; `rewrite` encrypts them. `rotate` encrypts the small file of data keys with another master key, so it
takes a moment, however many files there are; a server does the same at its start with old_key_files. --new-data-key adds a
data key for new files, and `rewrite` then encrypts the others with it. Keep a copy of the master key elsewhere: without it
nobody reads the lines. docs/encryption.md says what is encrypted and what is not.")]
pub struct EncryptionArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Write a new random master key to a file, which must not exist
    NewKey {
        /// The file; only its owner can read it
        file: PathBuf,
    },
    /// Show which files of a data directory are encrypted, also while a server runs
    Show {
        /// The data directory
        #[arg(value_name = "DIR")]
        data_dir: PathBuf,
        #[command(flatten)]
        key: KeyArgs,
    },
    /// Encrypt the data keys with another master key
    Rotate {
        /// The data directory, which no server may be using
        #[arg(value_name = "DIR")]
        data_dir: PathBuf,
        #[command(flatten)]
        key: KeyArgs,
        /// File with the new master key
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
        /// Add a data key too, for files that are written from now on
        #[arg(long)]
        new_data_key: bool,
    },
    /// Encrypt all files that are not, or are with an older key, and refuse plain ones from then on
    Rewrite {
        /// The data directory, which no server may be using
        #[arg(value_name = "DIR")]
        data_dir: PathBuf,
        #[command(flatten)]
        key: KeyArgs,
        /// Write them without encryption instead, and forget the data keys
        #[arg(long)]
        decrypt: bool,
        /// Take in files without encryption although all files of the directory were encrypted
        #[arg(long)]
        accept_plain: bool,
    },
}

/// Runs the command.
pub fn run(args: EncryptionArgs) -> Result<()> {
    match args.action {
        Action::NewKey { file } => new_key(&file),
        Action::Show { data_dir, key } => show(&data_dir, &key),
        Action::Rotate { data_dir, key, to, new_data_key } => {
            rotate(&data_dir, &key, to, new_data_key)
        }
        Action::Rewrite { data_dir, key, decrypt, accept_plain } => {
            rewrite(&data_dir, &key, decrypt, accept_plain)
        }
    }
}

fn new_key(file: &Path) -> Result<()> {
    let cannot = || format!("cannot write {}", file.display());
    let key = MasterKey::random()?;
    let mut options = OpenOptions::new();
    let mut out =
        options.write(true).create_new(true).mode(0o400).open(file).with_context(cannot)?;
    out.write_all(key.to_text().as_bytes()).and_then(|()| out.sync_all()).with_context(cannot)?;
    println!("{}", key.id());
    eprintln!("keep a copy of {} elsewhere: without it nobody reads the lines", file.display());
    Ok(())
}

/// How the segments of a directory are stored.
#[derive(Default)]
struct Counts {
    current: u64,
    older: u64,
    plain: u64,
}

fn segments(data_dir: &Path) -> Result<Vec<PathBuf>> {
    let dir = data_dir.join(SEGMENTS_DIR);
    let names = RealDisk.list(&dir).with_context(|| format!("cannot list {}", dir.display()))?;
    let is_segment = |name: &String| store::SegmentKind::of_file(name).is_some();
    Ok(names.iter().filter(|name| is_segment(name)).map(|name| dir.join(name)).collect())
}

fn count(disk: Option<&EncryptedDisk>, data_dir: &Path) -> Result<Counts> {
    let mut counts = Counts::default();
    for path in segments(data_dir)? {
        let Some(disk) = disk else {
            counts.plain += 1;
            continue;
        };
        let found = disk.is_encrypted(&path).and_then(|is| Ok((is, is && disk.is_current(&path)?)));
        match found {
            // The server has removed it.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
            Ok((true, true)) => counts.current += 1,
            Ok((true, false)) => counts.older += 1,
            Ok((false, _)) => counts.plain += 1,
        }
    }
    Ok(counts)
}

fn keyring(data_dir: &Path, key: &KeyArgs) -> Result<Keyring> {
    let masters = key.options().masters()?;
    let keys = Keyring::read(&RealDisk, data_dir, &masters)?;
    keys.with_context(|| {
        format!(
            "{} has no data keys: nothing is encrypted; start the server with [encryption] key_file",
            data_dir.display()
        )
    })
}

fn show(data_dir: &Path, key: &KeyArgs) -> Result<()> {
    let Some(master) = Keyring::master_of(&RealDisk, data_dir)? else {
        let Counts { plain, .. } = count(None, data_dir)?;
        println!("no encryption: {plain} segments can be read by whoever reads the disk");
        return Ok(());
    };
    println!("master key          {master}");
    if key.encryption_key_file.is_none() {
        eprintln!("--encryption-key-file FILE shows the segments, too");
        return Ok(());
    }
    let keys = keyring(data_dir, key)?;
    println!("data keys           {}", keys.count());
    println!("version of the list {}", keys.version());
    println!("plain files         {}", if keys.refuses_plain() { "refused" } else { "read" });
    let disk = EncryptedDisk::new(Arc::new(RealDisk), Arc::new(keys));
    let Counts { current, older, plain } = count(Some(&disk), data_dir)?;
    println!("encrypted           {current} segments");
    println!("by older data keys  {older} segments");
    println!("not encrypted       {plain} segments");
    Ok(())
}

fn rotate(data_dir: &Path, key: &KeyArgs, to: PathBuf, new_data_key: bool) -> Result<()> {
    // From before they are read, no server and no other command has them.
    let _at_rest = open_at_rest(&*key.disk(data_dir)?, data_dir)?;
    let mut keys = keyring(data_dir, key)?;
    let master = KeySource::File(to).read()?;
    let before = keys.master().to_owned();
    keys.rotate(&RealDisk, data_dir, &master, new_data_key)?;
    eprintln!(
        "the {} data keys are encrypted with the master key {} (before: {before}); keep the old one as long as backups \
         need it",
        keys.count(),
        keys.master()
    );
    Ok(())
}

/// Rewrites all files. What was planted beside encrypted files is not taken in unasked.
fn rewrite(data_dir: &Path, key: &KeyArgs, decrypt: bool, accept_plain: bool) -> Result<()> {
    let masters = key.options().masters()?;
    ensure!(!masters.is_empty(), "name the file of the master key by --encryption-key-file");
    let opened = key.disk(data_dir)?;
    let _at_rest = open_at_rest(&*opened, data_dir)?;
    let mut keys = match decrypt {
        true => keyring(data_dir, key)?,
        false => Keyring::open(&RealDisk, data_dir, &masters)?.context("there is a key")?,
    };
    let disk = EncryptedDisk::new(Arc::new(RealDisk), Arc::new(keys.clone()));
    if keys.refuses_plain() && !accept_plain {
        let plain = plain_files(&disk, data_dir)?;
        let names: Vec<String> = plain.iter().map(|path| path.display().to_string()).collect();
        ensure!(
            plain.is_empty(),
            "these are not encrypted, although all files of this directory were: {}; move them away, or take them in by \
             --accept-plain if you put them there",
            names.join(", ")
        );
    }
    if decrypt && keys.refuses_plain() {
        // What is rewritten would be refused if this ends half-way.
        keys.set_refuses_plain(&RealDisk, data_dir, &masters, false)?;
    }
    let disk = EncryptedDisk::new(Arc::new(RealDisk), Arc::new(keys.clone())).reading_plain();
    let to: &dyn Disk = if decrypt { &RealDisk } else { &disk };
    let (mut files, mut bytes, mut damaged) = (0, 0, Vec::new());
    let paths = stored_files(data_dir).context("cannot list the files")?;
    let length = |path: &PathBuf| disk.file_bytes(path).unwrap_or(0);
    let bar = bytes_bar("rewriting", paths.iter().map(length).sum());
    for path in &paths {
        let is_done = match decrypt {
            true => !disk.is_encrypted(path)?,
            false => disk.is_current(path)?,
        };
        let length = length(path);
        if !is_done {
            let is_whole = rewrite_file(&disk, to, path)
                .with_context(|| format!("cannot rewrite {}", path.display()))?;
            match is_whole {
                true => (files, bytes) = (files + 1, bytes + length),
                false => damaged.push(path.display().to_string()),
            }
        }
        bar.inc(length);
    }
    let folders: BTreeSet<&Path> = paths.iter().filter_map(|path| path.parent()).collect();
    folders.into_iter().try_for_each(|folder| RealDisk.sync_dir(folder))?;
    bar.finish_and_clear();
    ensure!(
        damaged.is_empty(),
        "left as they are, because they are damaged: {}",
        damaged.join(", ")
    );
    if decrypt {
        for name in [platform::encryption::KEYS_FILE, platform::encryption::KEYS_COPY_FILE] {
            let from = data_dir.join(name);
            match RealDisk.rename(&from, &from.with_added_extension("old")) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    bail!("cannot rename {}: {error}", from.display())
                }
                _ => {}
            }
        }
        RealDisk.sync_dir(data_dir)?;
    } else if !keys.refuses_plain() {
        keys.set_refuses_plain(&RealDisk, data_dir, &masters, true)?;
        eprintln!("files without encryption are refused from now on");
    }
    eprintln!("{files} of {} files rewritten, {}", paths.len(), show_bytes(bytes));
    if files > 0 && !decrypt {
        eprintln!(
            "the old bytes may remain on the medium until they are overwritten, and in backups and snapshots"
        );
    }
    Ok(())
}

/// Bytes read and written at once.
const COPY_BYTES: usize = 1 << 20;

/// Writes a file again, whole, under a name of its own, which then replaces it. False: it is
/// damaged, and left as it is.
fn rewrite_file(from: &EncryptedDisk, to: &dyn Disk, path: &Path) -> std::io::Result<bool> {
    let part = path.with_added_extension("rewrite");
    let _ = RealDisk.remove(&part);
    let (source, target) = (from.open(path, Access::Read)?, to.open(&part, Access::Create)?);
    let (bytes, damage) = (source.bytes()?, from.damaged_pieces());
    let mut buffer = AlignedBuffer::new(COPY_BYTES);
    let mut at = 0;
    while at < bytes {
        let wanted = (bytes - at).min(COPY_BYTES as u64) as usize;
        let read = source.read_at(&mut buffer[..wanted], at)?;
        if read < wanted {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        target.write_at(&buffer[..wanted], at)?;
        at += wanted as u64;
    }
    target.truncate(bytes)?;
    target.sync_data()?;
    if from.damaged_pieces() > damage {
        RealDisk.remove(&part)?;
        return Ok(false);
    }
    to.rename(&part, path)?;
    Ok(true)
}
