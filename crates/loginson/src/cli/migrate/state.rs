//! What a migration knows between two runs.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use node::data_dir::{DocumentFolder, Documents};
use serde::{Deserialize, Serialize};
use serde_json::json;
use text::duration::HOUR_NS;

use super::carrier::{Compared, Spool};

const STATE_FILE: &str = "state.json";
const REPORT_FILE: &str = "report.jsonl";
/// Version of the state.
const FORMAT: u32 = 1;

/// Lines that are moved together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// The first instant, nanoseconds since 1970 UTC; of a file its first line.
    pub start: i64,
    /// The first one behind it.
    pub end: i64,
    /// Lines as the source counts them.
    pub expected: Option<u64>,
    /// The name that its lines have as `_file`.
    pub tag: String,
}

/// The state, which is written after each slice.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    format: u32,
    /// Distinguishes the lines of this migration from those of all others.
    run: String,
    /// What is moved.
    pub what: String,
    /// The interval.
    pub from_ns: i64,
    /// The first instant behind it.
    pub to_ns: i64,
    /// Where the next slice begins.
    pub next_ns: i64,
    /// Its length.
    pub step_ns: i64,
    /// The file that is moved.
    pub file: usize,
    /// The slice under way.
    pub current: Option<Slice>,
    /// Slices that are done.
    pub slices: u64,
    /// Lines of these.
    pub lines: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Lines as the source counted them.
    pub expected: u64,
    /// Lines as the target counts them.
    pub arrived: u64,
    /// Lines that were read back and are equal.
    pub compared: u64,
    /// Slices that differ.
    pub unequal: u64,
    #[serde(skip)]
    directory: PathBuf,
    #[serde(skip)]
    lock: Option<std::sync::Arc<File>>,
}

impl State {
    /// The state of a migration that begins, with a new name.
    pub fn begin(what: &str, from_ns: i64, to_ns: i64) -> State {
        State {
            format: FORMAT,
            run: format!("{:012x}", std::process::id() as u64 ^ random()),
            what: what.to_owned(),
            from_ns,
            to_ns,
            next_ns: from_ns,
            step_ns: HOUR_NS,
            file: 0,
            current: None,
            slices: 0,
            lines: 0,
            bytes: 0,
            expected: 0,
            arrived: 0,
            compared: 0,
            unequal: 0,
            directory: PathBuf::new(),
            lock: None,
        }
    }

    /// The state in a directory, which is made if need be, else `new`.
    ///
    /// Errors: another process uses the directory.
    pub fn open(directory: &Path, new: impl FnOnce() -> State) -> Result<State> {
        let shown = directory.display();
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot make the directory {shown}"))?;
        let lock = File::create(directory.join("lock"))
            .with_context(|| format!("cannot write to {shown}"))?;
        ensure!(
            lock.try_lock().is_ok(),
            "another `loginson migrate` uses {shown}; wait for it, or give another directory with --state"
        );
        let kept = DocumentFolder::new(directory).read(STATE_FILE);
        let mut state = match kept.with_context(|| format!("cannot read {shown}"))? {
            Some(text) => serde_json::from_slice::<State>(&text).with_context(|| {
                format!("{shown}/{STATE_FILE} is damaged; begin anew with another directory")
            })?,
            None => new(),
        };
        ensure!(
            state.format == FORMAT,
            "{shown} is of another release of Loginson; end the migration with that one"
        );
        state.directory = directory.to_owned();
        state.lock = Some(std::sync::Arc::new(lock));
        state.save()?;
        Ok(state)
    }

    /// Where spools are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where each slice has a line.
    pub fn report_path(&self) -> PathBuf {
        self.directory.join(REPORT_FILE)
    }

    /// The name of the slice that begins at `start`.
    pub fn tag(&self, start: i64) -> String {
        format!("migration/{}/{}-{start}", self.run, self.file)
    }

    /// Writes the state, durably.
    pub fn save(&self) -> Result<()> {
        let text = serde_json::to_vec_pretty(self).expect("plain values");
        let written = DocumentFolder::new(&self.directory).replace(STATE_FILE, &text);
        written.with_context(|| format!("cannot write the state to {}", self.directory.display()))
    }

    /// Notes that a slice is done.
    pub fn note(&mut self, slice: &Slice, spool: &Spool, report: Compared) -> Result<()> {
        let line = json!({
            "slice": slice.tag,
            "start": slice.start,
            "end": slice.end,
            "counted": slice.expected,
            "sent": spool.lines(),
            "arrived": report.arrived,
            "equal": report.equal,
        });
        let path = self.report_path();
        let cannot = || format!("cannot write {}", path.display());
        let mut file =
            OpenOptions::new().create(true).append(true).open(&path).with_context(cannot)?;
        writeln!(file, "{line}").with_context(cannot)?;
        self.slices += 1;
        self.lines += spool.lines();
        self.bytes += spool.bytes();
        self.expected += slice.expected.unwrap_or(spool.lines());
        self.arrived += report.arrived;
        match report.equal {
            Some(true) => self.compared += spool.lines(),
            None if report.arrived == spool.lines() => {}
            _ => self.unequal += 1,
        }
        self.current = None;
        self.next_ns = slice.end;
        self.save()
    }
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    let filled = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes);
    filled.expect("the system has random numbers");
    u64::from_le_bytes(bytes) >> 16
}
