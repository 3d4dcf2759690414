//! The list of the contents of a backup, as JSON.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use platform::{read_all, read_regular};
use serde::{Deserialize, Serialize};
use store::SegmentKind;

use crate::data_dir::is_state;

/// Name of its file in the backup.
pub const MANIFEST_FILE: &str = "backup.json";
/// Version of the list and of the directory's layout.
const FORMAT: u32 = 1;

/// Length of the list: that of some hundred thousand segments.
const BYTES_MAX: u64 = 256 << 20;

/// The contents of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this list.
    pub format: u32,
    /// Name of the backup.
    pub name: String,
    /// The program that made it.
    pub version: String,
    /// When it was made: RFC 3339.
    pub created: String,
    /// Lines in it.
    pub lines: u64,
    /// Files that were shared with the store when the backup was made.
    pub files_linked: u64,
    /// Bytes that were copied.
    pub bytes_copied: u64,
    /// All files except this one.
    pub files: Vec<ManifestFile>,
}

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFile {
    /// Its name, from the backup's directory.
    pub file: String,
    /// Its length. `None` for a shared hot segment: the index behind its frames may still have been
    /// written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Lines in it, if it is a segment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
}

impl ManifestFile {
    /// The kind and number of the segment, if the file is one.
    pub fn segment(&self) -> Option<(SegmentKind, u64)> {
        SegmentKind::of_file(self.file.strip_prefix(store::SEGMENTS_DIR)?.strip_prefix('/')?)
    }
}

impl Manifest {
    /// A list of `files`.
    pub fn new(
        name: &str,
        created_ns: i64,
        files: Vec<ManifestFile>,
        files_linked: u64,
        bytes_copied: u64,
    ) -> Self {
        Manifest {
            format: FORMAT,
            name: name.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            created: text::time::format_time(created_ns),
            lines: files.iter().filter_map(|file| file.lines).sum(),
            files_linked,
            bytes_copied,
            files,
        }
    }

    /// Reads the list of a backup.
    pub fn read(backup: &Path) -> Result<Manifest> {
        let path = Manifest::path(backup);
        let text = read_regular(&path).and_then(|file| read_all(file, BYTES_MAX));
        let text = text.with_context(|| {
            format!("cannot read {}; every complete backup has this file", path.display())
        })?;
        let manifest: Manifest = serde_json::from_slice(&text)
            .with_context(|| format!("{} is damaged", path.display()))?;
        if manifest.format != FORMAT {
            bail!(
                "{}: format {} is not known; this program reads format {FORMAT}: use the release of Loginson that made the backup",
                path.display(),
                manifest.format
            );
        }
        let known = |file: &ManifestFile| {
            file.file == store::CATALOG_FILE || is_state(&file.file) || file.segment().is_some()
        };
        if let Some(file) = manifest.files.iter().find(|file| !known(file)) {
            bail!("{}: '{}' is not a file of a backup", path.display(), file.file.escape_default());
        }
        Ok(manifest)
    }

    /// Writes the list into a backup, durably.
    pub fn write(&self, backup: &Path) -> Result<()> {
        let path = Manifest::path(backup);
        let mut text = serde_json::to_vec_pretty(self).expect("plain values");
        text.push(b'\n');
        fs::write(&path, text)
            .and_then(|()| fs::File::open(&path)?.sync_all())
            .with_context(|| format!("cannot write {}", path.display()))
    }

    fn path(backup: &Path) -> PathBuf {
        backup.join(MANIFEST_FILE)
    }
}
