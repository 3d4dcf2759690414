//! Reads every piece of backups, and compares each with its name.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Result, ensure};

use super::contents::{Contents, Sum};
use super::{BACKUPS, Destination, PIECE_BYTES, Progress, sum_of};

/// Backups that are named with a damaged piece.
const NAMED_MAX: usize = 5;

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Backups whose lists were read.
    pub backups: u64,
    /// Pieces that were read; one that several backups have is read once.
    pub pieces: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Pieces and lists that are missing or damaged.
    pub faults: u64,
}

/// Checks one backup, or all of them. `fault` is told each fault as a sentence.
///
/// Errors: there are no backups, or none of this name; the place does not answer.
pub fn verify(
    destination: &Destination,
    name: Option<&str>,
    progress: &Progress,
    mut fault: impl FnMut(String),
) -> Result<Verified> {
    destination.need_place()?;
    let mut verified = Verified::default();
    let mut backups: Vec<Contents> = Vec::new();
    let wanted = name.map(Contents::object);
    for (object, _) in destination.names(BACKUPS)? {
        if wanted.as_ref().is_some_and(|wanted| *wanted != object) {
            continue;
        }
        match destination.contents(&object) {
            Ok(contents) => backups.push(contents),
            Err(error) => {
                verified.faults += 1;
                fault(crate::process::log::one_line(&error));
            }
        }
    }
    ensure!(
        !backups.is_empty() || verified.faults > 0,
        "{destination} has no backup{}; `loginson backup list` shows all",
        name.map(|name| format!(" '{name}'")).unwrap_or_default()
    );
    verified.backups = backups.len() as u64;
    // Of each piece its length, and where it is used first.
    let mut pieces: HashMap<Sum, (u64, usize, usize)> = HashMap::new();
    for (at, backup) in backups.iter().enumerate() {
        for (file, contents) in backup.files.iter().enumerate() {
            for (sum, bytes) in contents.pieces() {
                pieces.entry(sum).or_insert((bytes, at, file));
            }
        }
    }
    progress.bytes_total.store(pieces.values().map(|(bytes, _, _)| bytes).sum(), Relaxed);
    let mut pieces: Vec<_> = pieces.into_iter().collect();
    pieces.sort_unstable_by_key(|(sum, (_, at, file))| (*at, *file, *sum));
    for (sum, (bytes, at, file)) in pieces {
        if let Err(why) = destination.piece(sum, bytes) {
            verified.faults += 1;
            let has =
                |backup: &&Contents| backup.files.iter().any(|file| file.pieces.contains(&sum));
            let mut users: Vec<&str> =
                backups.iter().filter(has).map(|backup| backup.name.as_str()).collect();
            let more = users.len().saturating_sub(NAMED_MAX);
            users.truncate(NAMED_MAX);
            let more = if more > 0 { format!(" and {more} others") } else { String::new() };
            fault(format!(
                "{}: {why:#}; it is a piece of {} in {}{more}",
                sum.object(),
                backups[at].files[file].file,
                users.join(", ")
            ));
        }
        verified.pieces += 1;
        verified.bytes += bytes;
        progress.advance(bytes)?;
    }
    Ok(verified)
}

impl Destination {
    /// The bytes of a piece, if they are those that its name stands for.
    pub(super) fn piece(&self, sum: Sum, bytes: u64) -> Result<Vec<u8>> {
        let found = self.read(&sum.object(), PIECE_BYTES)?;
        ensure!(
            found.len() as u64 == bytes && sum_of(&found) == sum,
            "it is damaged: expected {bytes} bytes with the SHA-256 {sum}, found {} with {}",
            found.len(),
            sum_of(&found)
        );
        Ok(found)
    }
}
