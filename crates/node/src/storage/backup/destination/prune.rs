//! Deletes backups, and the pieces that none of the others has.

use std::collections::HashSet;

use anyhow::{Context, Result, ensure};

use super::contents::{Contents, Sum};
use super::{BACKUPS, Destination, Keep, PIECES};

/// What was deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Names of backups.
    pub deleted: Vec<String>,
    /// Names of the others.
    pub kept: Vec<String>,
    /// Pieces that were deleted.
    pub pieces: u64,
    /// Bytes of these.
    pub bytes: u64,
}

/// Deletes the backups of `names`, and those that `keep` does not keep at its time, nanoseconds
/// since 1970 UTC; then all pieces that no other backup has. With `dry_run` it only says what it
/// would delete.
///
/// Errors: a list cannot be read, so that it is not known which pieces it has; nothing is deleted
/// then. A name of `names` is not there. Somebody is at work in the place, or took it over.
pub fn prune(
    destination: &Destination,
    holder: &str,
    keep: Option<(&Keep, i64)>,
    names: &[String],
    dry_run: bool,
) -> Result<Pruned> {
    destination.need_place()?;
    let lock = destination.lock(holder)?;
    let unknown = "nothing is deleted, because it is not known which pieces each backup has";
    // One list at a time is in memory: each names all pieces of the store.
    let mut backups: Vec<(i64, String)> = Vec::new();
    for (object, _) in destination.names(BACKUPS)? {
        lock.keep()?;
        let contents = destination.contents(&object).context(unknown)?;
        backups.push((contents.created_ns(), contents.name));
    }
    backups.sort();
    for name in names {
        let is_there = backups.iter().any(|(_, other)| other == name);
        ensure!(is_there, "{destination} has no backup '{name}'; `loginson backup list` shows all");
    }
    let created: Vec<i64> = backups.iter().map(|(created_ns, _)| *created_ns).collect();
    let by_age = keep.map(|(keep, now_ns)| keep.kept(&created, now_ns));
    let (mut pruned, mut named) = (Pruned::default(), HashSet::new());
    for (at, (_, name)) in backups.into_iter().enumerate() {
        let stays = by_age.as_ref().is_none_or(|kept| kept[at]) && !names.contains(&name);
        if stays {
            lock.keep()?;
            let contents = destination.contents(&Contents::object(&name)).context(unknown)?;
            named.extend(contents.files.iter().flat_map(|file| &file.pieces).copied());
            pruned.kept.push(name);
        } else {
            pruned.deleted.push(name);
        }
    }
    if !dry_run {
        for name in &pruned.deleted {
            lock.check()?;
            destination.delete(&Contents::object(name))?;
        }
    }
    for (name, bytes) in destination.names(PIECES)? {
        // What is none of ours stays.
        if Sum::of_object(&name).is_some_and(|sum| !named.contains(&sum)) {
            if !dry_run {
                // A backup of somebody else may rely on a piece that no list names yet.
                lock.check()?;
                destination.delete(&name)?;
            }
            pruned.pieces += 1;
            pruned.bytes += bytes;
        }
    }
    Ok(pruned)
}
