//! `loginson hash-password` and `loginson make-token`, which make the hashes of `[[users]]` and
//! `[[tokens]]`.
//!
//! Secrets are never arguments, because every user of a machine can read the arguments of all
//! processes.

use std::fs::OpenOptions;
use std::io::{self, BufRead, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use argon2::password_hash::PasswordHasher;
use argon2::{Argon2, Params};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::Args;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

use api::PASSWORD_BYTES_MAX;

/// The least number of characters of a password.
const PASSWORD_CHARS_MIN: usize = 8;
const SALT_BYTES: usize = 16;
/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;
/// The first characters of every token, so that scanners find tokens that leaked into other files.
const TOKEN_PREFIX: &str = "lgs_";
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
  role = \"read\"            # ingest, read, node, operate or admin; docs/access.md")]
pub struct HashPasswordArgs {}

#[derive(Args)]
#[command(after_help = "Examples:
  loginson make-token                        prints a token, and its hash
  loginson make-token --file shipper.token   writes the token to a private file, prints the hash

The hash belongs in the configuration; give the token to the program that uses it:
  [[tokens]]
  name = \"shipper\"
  sha256 = \"…\"
  role = \"ingest\"          # ingest, read, node, operate or admin; docs/access.md
  curl -H 'Authorization: Bearer lgs_…' …")]
pub struct MakeTokenArgs {
    /// File to write the token to, instead of standard output; it must not exist yet
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Prints the hash of a password.
pub fn hash_password(_: HashPasswordArgs) -> Result<()> {
    let is_prompted = io::stdin().is_terminal();
    let password = read_password("Password: ")?;
    ensure!(
        password.chars().count() >= PASSWORD_CHARS_MIN,
        "a password needs at least {PASSWORD_CHARS_MIN} characters"
    );
    ensure!(
        password.len() <= PASSWORD_BYTES_MAX,
        "a password may have at most {PASSWORD_BYTES_MAX} bytes"
    );
    if is_prompted {
        ensure!(read_password("Once more: ")? == password, "the two passwords differ");
    }
    println!("{}", hashed(&password)?);
    Ok(())
}

fn hashed(password: &str) -> Result<String> {
    let salt = random::<SALT_BYTES>()?;
    let argon2 = Argon2::from(Params::default());
    let hash = argon2.hash_password_with_salt(password.as_bytes(), &salt);
    Ok(hash.map_err(|error| anyhow::anyhow!("cannot compute the hash: {error}"))?.to_string())
}

/// Prints a token and its hash.
pub fn make_token(args: MakeTokenArgs) -> Result<()> {
    let (token, hash) = token()?;
    let Some(file) = args.file else {
        println!("token:  {token}\nsha256: {hash}");
        return Ok(());
    };
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file);
    opened
        .and_then(|mut out| writeln!(out, "{token}"))
        .with_context(|| format!("cannot write {}", file.display()))?;
    println!("sha256: {hash}");
    Ok(())
}

/// A token, and its hash in hexadecimal.
fn token() -> Result<(String, String)> {
    let token = format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(random::<TOKEN_BYTES>()?));
    let hash = digest(&SHA256, token.as_bytes());
    let hash = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok((token, hash))
}

fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| anyhow::anyhow!("the system provides no random numbers"))?;
    Ok(bytes)
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

#[cfg(test)]
mod tests {
    use argon2::password_hash::PasswordVerifier;
    use argon2::password_hash::phc::PasswordHash;

    use super::*;

    #[test]
    fn a_hash_is_of_its_password() {
        let hash = hashed("correct horse").unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert_ne!(hash, hashed("correct horse").unwrap());
        let parsed = PasswordHash::new(&hash).unwrap();
        let verify = |password: &[u8]| Argon2::default().verify_password(password, &parsed).is_ok();
        assert!(verify(b"correct horse") && !verify(b"correct horse "));
    }

    #[test]
    fn tokens_are_long_and_different() {
        let ((first, hash), (second, _)) = (token().unwrap(), token().unwrap());
        assert!(first.starts_with(TOKEN_PREFIX) && first.len() == TOKEN_PREFIX.len() + 43);
        assert!(first != second && hash.len() == 64);
    }
}
