//! The list of a backup in its place.

use std::fmt;

use anyhow::{Context, Result, bail, ensure};
use cluster::ObjectName;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{BACKUPS, FORMAT, PIECE_BYTES, PIECES, sum_of};
use crate::data_dir::is_state;
use crate::storage::backup::{Manifest, ManifestFile, check_name};

/// The part that has the rows of the catalog of a cluster.
pub const CLUSTER_CATALOG: &str = "cluster-catalog.jsonl";

/// Length of a list: that of some 30 TiB.
pub(super) const BYTES_MAX: u64 = 512 << 20;

/// A SHA-256, which names a piece.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sum(pub [u8; 32]);

impl Sum {
    /// The sum that 64 digits stand for.
    pub fn parse(text: &str) -> Option<Sum> {
        let is_plain = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if text.len() != 64 || !text.bytes().all(is_plain) {
            return None;
        }
        let mut sum = [0; 32];
        for (byte, digits) in sum.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = text::hex::byte(digits)?;
        }
        Some(Sum(sum))
    }

    /// The name of the piece.
    pub(super) fn object(self) -> String {
        let text = self.to_string();
        format!("{PIECES}{}/{text}", &text[..2])
    }

    /// The sum of a piece by its name.
    pub(super) fn of_object(name: &str) -> Option<Sum> {
        let sum = Sum::parse(name.rsplit('/').next()?)?;
        (sum.object() == name).then_some(sum)
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Sum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Sum, D::Error> {
        let text = String::deserialize(deserializer)?;
        Sum::parse(&text).ok_or_else(|| de::Error::custom("a SHA-256 has 64 digits, a to f small"))
    }
}

/// What a backup consists of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// Version of this list.
    pub format: u32,
    /// Its name.
    pub name: String,
    /// The number of the store.
    pub store: u32,
    /// The program that made it.
    pub version: String,
    /// The moment of the store that it holds: RFC 3339.
    pub created: String,
    /// Lines in it.
    pub lines: u64,
    /// Bytes of all its files.
    pub bytes: u64,
    /// Bytes of each piece but the last one of a file.
    pub piece_bytes: u64,
    /// Its files.
    pub files: Vec<FileContents>,
}

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileContents {
    /// Its name, from the directory of the backup.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// Lines in it, if it is a segment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
    /// Its pieces, in order.
    pub pieces: Vec<Sum>,
}

impl FileContents {
    /// Its pieces with the length of each.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (Sum, u64)> + '_ {
        let bytes = |at: usize| (self.bytes - at as u64 * PIECE_BYTES).min(PIECE_BYTES);
        self.pieces.iter().enumerate().map(move |(at, sum)| (*sum, bytes(at)))
    }
}

impl Contents {
    /// The list of a backup of these files.
    pub(super) fn new(manifest: &Manifest, store: u32, files: Vec<FileContents>) -> Contents {
        Contents {
            format: FORMAT,
            name: manifest.name.clone(),
            store,
            version: manifest.version.clone(),
            created: manifest.created.clone(),
            lines: manifest.lines,
            bytes: files.iter().map(|file| file.bytes).sum(),
            piece_bytes: PIECE_BYTES,
            files,
        }
    }

    /// Whether it is of a cluster on engines, and not of a data directory.
    pub fn is_of_cluster(&self) -> bool {
        self.files.iter().any(|file| file.file == CLUSTER_CATALOG)
    }

    /// When it was made, nanoseconds since 1970 UTC.
    pub fn created_ns(&self) -> i64 {
        text::time::parse_timestamp(self.created.as_bytes()).unwrap_or(0)
    }

    /// The name of its object.
    pub(super) fn object(name: &str) -> String {
        format!("{BACKUPS}{name}.json")
    }

    /// The list as bytes: a line of JSON, and the SHA-256 of that line.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec(self).expect("plain values");
        text.push(b'\n');
        let sum = sum_of(&text);
        text.extend_from_slice(format!("{sum}\n").as_bytes());
        text
    }

    /// Reads the list that the object `object` is.
    pub(super) fn parse(object: &str, bytes: &[u8]) -> Result<Contents> {
        let damaged = "the list of the backup is damaged; other backups are not affected: delete this object by the tools \
                       of the storage";
        let end = bytes.iter().position(|byte| *byte == b'\n').context(damaged)? + 1;
        let (text, sum) = bytes.split_at(end);
        let sum = std::str::from_utf8(sum).ok().and_then(|sum| Sum::parse(sum.trim_end()));
        ensure!(sum == Some(sum_of(text)), "{damaged}");
        let contents: Contents = serde_json::from_slice(text).context(damaged)?;
        if contents.format != FORMAT || contents.piece_bytes != PIECE_BYTES {
            bail!(
                "format {} is not known; this program reads format {FORMAT}: use the release of Loginson that made the backup",
                contents.format
            );
        }
        check_name(&contents.name)?;
        ensure!(Contents::object(&contents.name) == object, "the list is of another backup");
        for file in &contents.files {
            let is_known = file.file == store::CATALOG_FILE
                || is_state(&file.file)
                || file.file == CLUSTER_CATALOG
                || file.file.parse::<ObjectName>().is_ok()
                || file.as_listed().segment().is_some();
            ensure!(is_known, "'{}' is not a file of a backup", file.file.escape_default());
            ensure!(
                file.pieces.len() as u64 == file.bytes.div_ceil(PIECE_BYTES),
                "{damaged}: {} has {} bytes and {} pieces",
                file.file,
                file.bytes,
                file.pieces.len()
            );
        }
        Ok(contents)
    }

    /// The list of the directory that is restored from.
    pub(super) fn manifest(&self) -> Manifest {
        let files: Vec<ManifestFile> = self.files.iter().map(FileContents::as_listed).collect();
        let mut manifest = Manifest::new(&self.name, self.created_ns(), files, 0, self.bytes);
        manifest.version.clone_from(&self.version);
        manifest
    }
}

impl FileContents {
    pub(super) fn as_listed(&self) -> ManifestFile {
        ManifestFile { file: self.file.clone(), bytes: Some(self.bytes), lines: self.lines }
    }
}
