//! `loginson hash-password` and `loginson make-token`, which make the hashes of `[[users]]` and
//! `[[tokens]]`.
//!
//! Secrets are never arguments, because every user of a machine can read the arguments of all
//! processes.

use std::fs::OpenOptions;
use std::io::{self, BufRead, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, bail, ensure};
use clap::Args;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

use api::access::secrets::{PASSWORD_BYTES_MAX, check_password, hash_password, hex, new_token};

/// The byte of Ctrl-C. While a password is typed, it ends the line instead of the process.
const INTERRUPT: u8 = 3;

#[derive(Args)]
#[command(after_help = "Examples:
  loginson hash-password                                prompts for it twice, without echo
  pass logs/ann | loginson hash-password                the first line of standard input
  loginson hash-password > /etc/loginson/ann.hash       for password_hash_file

The hash belongs in the configuration:
  [[users]]
  name = \"ann\"
  password_hash = \"$argon2id$…\"
  role = \"read\"            # ingest, read, auditor, node, operate or admin; docs/access.md")]
pub struct HashPasswordArgs {}

#[derive(Args)]
#[command(after_help = "Examples:
  loginson make-token                        prints a token, and its hash
  loginson make-token --file shipper.token   writes the token to a private file, prints the hash

The hash belongs in the configuration; give the token to the program that uses it:
  [[tokens]]
  name = \"shipper\"
  sha256 = \"…\"
  role = \"ingest\"          # ingest, read, auditor, node, operate or admin; docs/access.md
  curl -H 'Authorization: Bearer lgs_…' …")]
pub struct MakeTokenArgs {
    /// File to write the token to, instead of standard output; it must not exist yet
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Prints the hash of a password.
pub fn print_hash(_: HashPasswordArgs) -> Result<()> {
    let password = new_password("Password: ")?;
    println!("{}", hash_password(&password).map_err(Error::msg)?);
    Ok(())
}

/// A password that somebody chooses: read twice at a terminal, once elsewhere.
pub fn new_password(prompt: &str) -> Result<String> {
    let is_prompted = io::stdin().is_terminal();
    let password = read_password(prompt)?;
    check_password(&password).map_err(Error::msg)?;
    if is_prompted {
        ensure!(read_password("Once more: ")? == password, "the two passwords differ");
    }
    Ok(password)
}

/// Prints a token and its hash.
pub fn make_token(args: MakeTokenArgs) -> Result<()> {
    let (token, hash) = new_token().map_err(Error::msg)?;
    let hash = hex(&hash);
    match args.file {
        None => println!("token:  {token}\nsha256: {hash}"),
        Some(file) => {
            write_token(&file, &token)?;
            println!("sha256: {hash}");
        }
    }
    Ok(())
}

/// Writes a token to a file that only its owner can read, and that did not exist.
pub fn write_token(file: &Path, token: &str) -> Result<()> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    opened
        .and_then(|mut out| writeln!(out, "{token}"))
        .with_context(|| format!("cannot write {}", file.display()))
}

/// Reads a line of standard input. At a terminal it shows `prompt` and switches the echo off.
pub fn read_password(prompt: &str) -> Result<String> {
    let stdin = io::stdin();
    let silent = match stdin.is_terminal() {
        true => {
            // Before the prompt, so that a password typed at once is not echoed.
            let silent = Silent::begin().context("cannot switch off the echo of the terminal")?;
            eprint!("{prompt}");
            Some(silent)
        }
        false => None,
    };
    let mut line = Vec::new();
    // Reads more than a password may have, so that the caller can refuse a longer one.
    let most = (PASSWORD_BYTES_MAX as u64).saturating_mul(2);
    io::Read::take(&mut stdin.lock(), most).read_until(b'\n', &mut line)?;
    if silent.is_some() {
        drop(silent);
        eprintln!();
    }
    if line.last() == Some(&INTERRUPT) {
        bail!("interrupted");
    }
    let line = line.strip_suffix(b"\n").unwrap_or(&line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    String::from_utf8(line.to_vec()).map_err(|_| anyhow::anyhow!("the password is not UTF-8"))
}

/// Switches the echo of the terminal off until it is dropped. Ctrl-C ends the line instead of the
/// process, which would leave the terminal without echo.
struct Silent {
    before: Termios,
}

impl Silent {
    fn begin() -> io::Result<Silent> {
        let before = tcgetattr(io::stdin())?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
        silent.special_codes[SpecialCodeIndex::VEOL] = INTERRUPT;
        tcsetattr(io::stdin(), OptionalActions::Flush, &silent)?;
        Ok(Silent { before })
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        // An error means that the terminal is gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}
