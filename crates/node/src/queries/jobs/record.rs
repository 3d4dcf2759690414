//! What persists of a background query: its parameters and its state. One small JSON file per
//! query.

use std::io;
use std::path::{Path, PathBuf};

use platform::{Access, Disk};
use query::{LineSet, QueryState};
use serde::{Deserialize, Serialize};

/// Version of the files that this program writes, and the only one it reads.
const VERSION: u32 = 1;
/// Limit of a file: ten times the longest query.
const BYTES_MAX: u64 = 4 << 20;

/// The parameters of a query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Submission {
    /// LogsQL.
    pub query: String,
    /// The time that relative times in it refer to, nanoseconds since 1970 UTC.
    pub now_ns: i64,
    /// First event time, nanoseconds since 1970 UTC.
    pub start_ns: i64,
    /// End of the range of event times, itself excluded.
    pub end_ns: i64,
    /// Only the newest `limit` rows.
    pub limit: Option<usize>,
    /// `json`, `raw` or `csv`.
    pub format: String,
    /// Computed fields to add.
    pub include: Vec<String>,
    /// Limit of its run time.
    pub run_time_ms: u64,
    /// The client that submitted it.
    pub client: String,
    /// The restriction of that client, which is a part of the query, as text; empty: none.
    #[serde(default)]
    pub seen: String,
    /// The id of the tenant whose lines alone it reads; empty: of several, or there are no tenants.
    #[serde(default)]
    pub tenant: String,
    /// Limit of the memory of a query of its tenant.
    #[serde(default)]
    pub memory_bytes_max: Option<u64>,
    /// The limits of the user, token or address that submitted it.
    #[serde(default)]
    pub own: OwnLimits,
}

/// Limits of the queries of one user, token or address; none: only those of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OwnLimits {
    /// Run time. [`Submission::run_time_ms`] is never above it.
    pub run_ms: Option<u64>,
    /// Memory.
    pub memory_bytes: Option<u64>,
    /// Rows of all runs together.
    pub rows: Option<u64>,
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    version: u32,
    /// Id of the query.
    pub id: u64,
    /// The parameters.
    #[serde(rename = "asked")]
    pub submission: Submission,
    /// When it was submitted, nanoseconds since 1970 UTC.
    pub started_ns: i64,
    /// Its state when this was written.
    pub state: String,
    /// How often it ran from the start: rows of different runs must not be mixed.
    pub run: u32,
    /// The lines that belong to the answer; set by the first run.
    pub within: Option<RecordedLines>,
    /// The columns of CSV; set by the first run.
    pub columns: Option<Vec<String>>,
    /// When it ended, nanoseconds since 1970 UTC.
    pub ended_ns: Option<i64>,
    /// Why it failed.
    pub error: Option<String>,
    /// Its counters when it ended.
    pub done: Done,
}

/// [`LineSet`] in serialised form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedLines {
    through: u64,
    missing: Vec<u64>,
}

impl From<LineSet> for RecordedLines {
    fn from(LineSet { through, missing }: LineSet) -> RecordedLines {
        RecordedLines { through, missing }
    }
}

impl From<RecordedLines> for LineSet {
    fn from(RecordedLines { through, missing }: RecordedLines) -> LineSet {
        LineSet { through, missing }
    }
}

/// Counters of a query that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Time in the queue.
    pub wait_ms: u64,
    /// Run time.
    pub run_ms: u64,
    /// Rows that are kept.
    pub rows: u64,
    /// Blocks and frames to read.
    pub blocks_planned: u64,
    /// Those that were read.
    pub blocks_done: u64,
    /// Bytes of raw lines to read.
    pub bytes_planned: u64,
    /// Those that were read.
    pub bytes_scanned: u64,
    /// Lines that were read.
    pub lines_scanned: u64,
}

impl Record {
    /// The record of a new query.
    pub fn new(id: u64, submission: Submission, started_ns: i64) -> Record {
        Record {
            version: VERSION,
            id,
            submission,
            started_ns,
            state: QueryState::Waiting.name().into(),
            run: 0,
            within: None,
            columns: None,
            ended_ns: None,
            error: None,
            done: Done::default(),
        }
    }

    /// The name of the file of a query.
    pub fn path(dir: &Path, id: u64) -> PathBuf {
        dir.join(format!("{id}.json"))
    }

    /// Reads a file.
    ///
    /// I/O errors, and files that are invalid or of another version.
    pub fn read(disk: &dyn Disk, path: &Path) -> io::Result<Record> {
        let record: Record = serde_json::from_slice(&read(disk, path)?)?;
        match record.version {
            VERSION => Ok(record),
            other => Err(io::Error::other(format!(
                "the file has version {other}, and this program reads version {VERSION}: use the release of Loginson that wrote it, \
                 or move it away"
            ))),
        }
    }

    /// Writes the file, durably.
    ///
    /// I/O errors; also if the file would be too large to be read.
    pub fn write(&self, disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        let bytes = serde_json::to_vec(self).expect("numbers and texts only");
        if bytes.len() as u64 > BYTES_MAX {
            return Err(io::Error::other(
                "the query and the names of its columns are too long to be stored; select fewer fields with `| fields`",
            ));
        }
        write(disk, &Record::path(dir, self.id), &bytes)
    }
}

/// The greatest id that was ever issued.
pub struct LastId;

impl LastId {
    const FILE: &str = "last-id";

    /// Reads it; 0 if there is none, or if it is damaged: the records have greater ids then.
    pub fn read(disk: &dyn Disk, dir: &Path) -> io::Result<u64> {
        let path = dir.join(LastId::FILE);
        match read(disk, &path) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).trim().parse().unwrap_or(0)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(named(&path, &error)),
        }
    }

    /// Writes it, durably.
    pub fn write(disk: &dyn Disk, dir: &Path, id: u64) -> io::Result<()> {
        write(disk, &dir.join(LastId::FILE), format!("{id}\n").as_bytes())
    }
}

/// The error with the path of its file.
pub fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn read(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path, Access::Read)?;
    let length = file.bytes()?;
    if length > BYTES_MAX {
        return Err(io::Error::other(format!(
            "it has {length} bytes, and a file of its kind has at most {BYTES_MAX}; move it away"
        )));
    }
    let mut bytes = vec![0; length as usize];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Replaces a file atomically.
fn write(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let part = path.with_added_extension("part");
    match disk.remove(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = disk.open(&part, Access::Create)?;
    file.write_at(bytes, 0)?;
    file.sync_data()?;
    disk.rename(&part, path)?;
    disk.sync_dir(path.parent().expect("it is in a directory"))
}

#[cfg(test)]
mod tests {
    use platform::SimDisk;

    use super::*;

    fn record() -> Record {
        let submission = Submission {
            query: "error \"ä\n\"".into(),
            now_ns: 1,
            start_ns: i64::MIN,
            end_ns: i64::MAX,
            limit: Some(5),
            format: "json".into(),
            include: vec!["_line_id".into()],
            run_time_ms: 3,
            client: "127.0.0.1:1".into(),
            seen: String::new(),
            tenant: String::new(),
            memory_bytes_max: None,
            own: OwnLimits { rows: Some(3), ..OwnLimits::default() },
        };
        Record::new(7, submission, -5)
    }

    #[test]
    fn what_is_written_is_read() {
        let (disk, dir) = (SimDisk::new(1), Path::new("q"));
        disk.create_dir_all(dir).unwrap();
        let mut record = record();
        record.within = Some(LineSet { through: u64::MAX, missing: vec![3, 5] }.into());
        for run in 1..3 {
            record.run = run;
            record.write(&disk, dir).unwrap();
            assert_eq!(Record::read(&disk, &Record::path(dir, 7)).unwrap(), record);
        }
        assert_eq!(LastId::read(&disk, dir).unwrap(), 0);
        LastId::write(&disk, dir, 12).unwrap();
        assert_eq!(LastId::read(&disk, dir).unwrap(), 12);
        assert_eq!(disk.list(dir).unwrap(), ["7.json", "last-id"]);
    }

    #[test]
    fn a_record_of_an_earlier_release_has_no_limits_of_a_user() {
        let mut value = serde_json::to_value(record()).unwrap();
        value["asked"].as_object_mut().unwrap().remove("own").unwrap();
        let read: Record = serde_json::from_value(value).unwrap();
        assert_eq!(read.submission.own, OwnLimits::default());
    }

    #[test]
    fn records_that_could_not_be_read_are_not_written() {
        let (disk, dir) = (SimDisk::new(1), Path::new("q"));
        disk.create_dir_all(dir).unwrap();
        let with = |bytes: usize| Record { columns: Some(vec!["a".repeat(bytes)]), ..record() };
        let rest = serde_json::to_vec(&with(0)).unwrap().len();
        let longest = with(BYTES_MAX as usize - rest);
        longest.write(&disk, dir).unwrap();
        assert_eq!(Record::read(&disk, &Record::path(dir, 7)).unwrap(), longest);
        assert!(with(BYTES_MAX as usize - rest + 1).write(&disk, dir).is_err());
        assert_eq!(Record::read(&disk, &Record::path(dir, 7)).unwrap(), longest);
    }

    #[test]
    fn invalid_records_are_reported() {
        let (disk, dir) = (SimDisk::new(1), Path::new("q"));
        disk.create_dir_all(dir).unwrap();
        let text = serde_json::to_string(&record()).unwrap();
        let newer = text.replace("\"version\":1", "\"version\":2");
        for (text, expected) in [("", "EOF"), (&text[1..], "invalid"), (&newer, "has version 2")] {
            write(&disk, &dir.join("7.json"), text.as_bytes()).unwrap();
            let error = Record::read(&disk, &dir.join("7.json")).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
