//! Results on disk, kept raw so that a report can be written again: a directory per run, with
//! `run.json` and one file of JSON lines per trial.
//!
//! A trial's file is written as `NAME.jsonl.part` and gets its name when its last line,
//! [`Line::End`], is on disk: a resumed run repeats trials without a file of that name. Times are
//! seconds from the start of the measured part; a histogram is an HDR histogram of microseconds in
//! the V2 format, compressed, in base64, which other tools can read.

pub mod archive;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::driver::durability::Promise;
use crate::histogram;
use crate::trial::Trial;
use crate::workload::READ_MODIFY_WRITE;

/// Version of this format: files of other versions are refused.
pub const FORMAT: u32 = 1;

/// `run.json`: the data that all trials share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`FORMAT`].
    pub format: u32,
    /// Name of the study's definition.
    pub study: String,
    /// The whole definition, as it was parsed.
    pub definition: String,
    /// `paper`, `small` or `smoke`.
    pub scale: String,
    /// The seed of all random choices.
    pub seed: u64,
    /// When it began, RFC 3339.
    pub started: String,
    /// The command line.
    pub command: Vec<String>,
    /// The version of this program, with the commit that it was built from.
    pub lab_version: String,
    /// The number of planned trials, without those that load data: a run with fewer results is
    /// partial. 0 in runs of older versions, which do not say it.
    #[serde(default)]
    pub trials_planned: u32,
    /// The machine of the generator.
    pub machine: Machine,
    /// The stores, in the given order.
    pub stores: Vec<StoreInfo>,
    /// Stores whose trials were made again after the run, in that order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub again: Vec<Again>,
}

/// Trials that were made again after the others, with `resume --again`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Again {
    /// The name of the store.
    pub store: String,
    /// When that began, RFC 3339.
    pub started: String,
    /// The version of this program, with the commit that it was built from.
    pub lab_version: String,
    /// The machine of the generator.
    pub machine: Machine,
}

/// A machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Model name of the processor.
    pub processor: String,
    /// Logical processors.
    pub cores: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Name and release of the kernel.
    pub kernel: String,
    /// Name of the distribution.
    pub system: String,
}

/// A store as it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoreInfo {
    /// [`StoreSpec::label`](crate::driver::StoreSpec::label).
    pub label: String,
    /// The version that the server reports.
    pub version: String,
    /// Notes on this store that matter for its numbers, for example that its version was never
    /// tested.
    #[serde(default)]
    pub note: Option<String>,
    /// When an acknowledged row is on disk; `None` for a server that the lab did not start and
    /// whose settings it does not know.
    #[serde(default)]
    pub durability: Option<Promise>,
    /// Sentences on the state of the store, such as whether its data is sealed.
    #[serde(default)]
    pub states: Vec<String>,
    /// Whether a program beside the generator asks it: the store's own client in Java.
    #[serde(default)]
    pub has_foreign_client: bool,
    /// Options of the driver.
    pub options: BTreeMap<String, String>,
    /// The configuration that the lab set: lines of a file, or arguments.
    pub configuration: Vec<String>,
}

/// A line of a trial's file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum Line {
    /// The first line.
    Header(Box<Header>),
    /// One second of one label of operations, written when the second is over.
    Second(Second),
    /// One second of one process.
    Resource(Resource),
    /// A value of the whole trial, such as `delay_ms` or `table_bytes_flushed`.
    Value {
        /// Its name, unit last.
        name: String,
        /// The value, in the unit of the name.
        value: f64,
    },
    /// A note for the report, for example that the generator was the bottleneck.
    Note {
        /// A sentence.
        text: String,
    },
    /// The last line.
    End(End),
}

impl Line {
    /// Why its numbers cannot be those of a trial; `None` if they can.
    fn fault(&self) -> Option<&'static str> {
        let is_time = |seconds: f64| (0.0..=TRIAL_S_MAX).contains(&seconds);
        match self {
            Line::Second(second) if !is_time(second.second.into()) => Some("no trial is so long"),
            Line::Second(second) if i64::try_from(second.count).is_err() => {
                Some("no trial has so many operations")
            }
            Line::Resource(resource) if !is_time(resource.second.into()) => {
                Some("no trial is so long")
            }
            Line::End(end) if !is_time(end.seconds) => Some("no trial is so long"),
            _ => None,
        }
    }
}

/// The first line of a trial's file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The trial.
    pub trial: Trial,
    /// Its position in the run, from 1.
    pub order: u32,
    /// When it began, RFC 3339.
    pub started: String,
}

/// One second of one label of operations (`insert`, `read`, `query_a`, …).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// From 0, by the time of the answers.
    pub second: u32,
    /// The label of the operations in the report.
    pub label: String,
    /// Right answers.
    pub count: u64,
    /// Operations without a right answer, by kind; the kind `wrong` is an answer that differs from
    /// the known one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
    /// Latencies of right answers, µs.
    pub histogram: String,
    /// Threads at work.
    pub threads: u32,
}

impl Second {
    /// Whether its operations are also recorded under the labels of their parts: then they are left
    /// out of sums over labels.
    pub fn is_of_parts(&self) -> bool {
        self.label == READ_MODIFY_WRITE
    }

    /// Its contribution to the number of operations of a trial: two parts were counted for one
    /// operation.
    pub fn operations(&self) -> i64 {
        let count = i64::try_from(self.count).expect("no trial has so many");
        if self.is_of_parts() { -count } else { count }
    }
}

/// The name of the value with the number of rows that were written in batches.
pub const WRITTEN_ROWS: &str = "written_rows";

/// The name of the value with the size of these rows as lines of text: what figures per gigabyte
/// refer to.
pub const WRITTEN_TEXT_BYTES: &str = "written_text_bytes";

/// Rows a second until the store had parsed and sealed the last one, of a trial that lasts until
/// all are visible.
pub const PROCESSED_ROWS_PER_S: &str = "processed_rows_per_s";

/// Acknowledged rows that were read again after a trial, and had what was written last.
pub const READ_BACK_ROWS: &str = "read_back_rows";

/// Acknowledged rows that should have been read again.
pub const READ_BACK_PLANNED: &str = "read_back_planned";

/// The name of the value with the number of rows that were acknowledged before a kill.
pub const ACKNOWLEDGED_ROWS: &str = "acknowledged_rows";

/// The name of the value by which stores are ranked after a kill: acknowledged rows that are lost,
/// at least.
pub const LOST_ROWS: &str = "lost_rows";

/// The name for resources of generators on this machine.
pub const GENERATOR: &str = "generator";

/// The name for resources of generators on other machines.
pub const GENERATOR_ELSEWHERE: &str = "generator elsewhere";

/// The name for resources of the whole machine.
pub const HOST: &str = "host";

/// Whether resources with this name are those of a store's servers.
pub fn is_server(process: &str) -> bool {
    ![GENERATOR, GENERATOR_ELSEWHERE, HOST].contains(&process)
}

/// One second of one process, or of several that serve one store (summed).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Resource {
    /// From 0.
    pub second: u32,
    /// [`GENERATOR`], [`GENERATOR_ELSEWHERE`], [`HOST`], or the label of the store.
    pub process: String,
    /// Processor time in this second, s.
    pub cpu_s: f64,
    /// The part of it that interrupts took, s: counted for the whole machine only, most of it for
    /// the network between generator and servers.
    #[serde(default)]
    pub interrupts_s: f64,
    /// The part of it that other virtual machines took, s: counted for the whole machine only, and
    /// not by results of older versions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stolen_s: f64,
    /// Resident memory.
    pub memory_bytes: u64,
    /// Bytes read from disk in this second.
    pub disk_read_bytes: u64,
    /// Bytes written to disk in this second.
    pub disk_write_bytes: u64,
    /// Writes that disks completed in this second: counted for the whole machine only, and not by
    /// results of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_writes: Option<u64>,
    /// Network bytes in this second, in both directions; unknown, and 0, for a process on the same
    /// machine.
    pub network_bytes: u64,
}

fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}

impl Resource {
    /// Whether it belongs to a trial of this length, s. An operation may fail long after the end;
    /// what is used until then is not part of the trial.
    pub fn is_within(&self, seconds: f64) -> bool {
        f64::from(self.second) < seconds.ceil().max(1.0)
    }
}

/// How a trial ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// The outcome.
    pub outcome: Outcome,
    /// Length of the measured part, s.
    pub seconds: f64,
}

/// How a trial ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// Everything was done, and every answer was right; errors were counted.
    Completed,
    /// The store lacks an ability that the experiment needs.
    NotSupported {
        /// The ability.
        ability: String,
    },
    /// An answer was wrong: its numbers do not count.
    Wrong {
        /// The request, the answer, and what was expected.
        message: String,
    },
    /// The store died, its disk was full, or similar; what was measured until then is kept and does
    /// not count.
    Failed {
        /// The reason and the remedy.
        message: String,
    },
}

/// Why results could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// An I/O error.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The error.
        source: std::io::Error,
    },
    /// The file is not of the lab, or damaged.
    #[error("{path}: line {number}: {reason}")]
    Line {
        /// The file.
        path: String,
        /// The line, from 1.
        number: usize,
        /// The error.
        reason: String,
    },
    /// The file is of another version of the lab.
    #[error(
        "{path} has format {format}, this version reads format {FORMAT}: use the version that made it"
    )]
    Format {
        /// The file.
        path: String,
        /// Its format.
        format: u32,
    },
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> ResultsError + '_ {
    move |source| ResultsError::Io { path: path.display().to_string(), source }
}

/// The longest line that is read: a line of a trial has some kilobytes.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// The longest trial, s: two months, because a load takes a month at most.
const TRIAL_S_MAX: f64 = 5_356_800.0;

/// The lines of a file, each of them of at most [`LINE_BYTES_MAX`]; a longer one is an error.
fn limited_lines(mut read: impl BufRead) -> impl Iterator<Item = std::io::Result<String>> {
    std::iter::from_fn(move || {
        let mut line = String::new();
        match (&mut read).take(LINE_BYTES_MAX).read_line(&mut line) {
            Err(error) => Some(Err(error)),
            Ok(0) => None,
            Ok(_) if line.len() as u64 == LINE_BYTES_MAX => {
                let message = format!("it is longer than {LINE_BYTES_MAX} bytes");
                Some(Err(std::io::Error::new(std::io::ErrorKind::InvalidData, message)))
            }
            Ok(_) => Some(Ok(line.trim_end_matches(['\r', '\n']).to_owned())),
        }
    })
}

/// Whether a trial has to be measured again.
enum State {
    Done,
    Failed,
    /// The file has no header, no end, or a histogram that cannot be read.
    Damaged,
}

impl State {
    fn of(lines: &[Line]) -> State {
        let is_whole = |line: &Line| match line {
            Line::Second(second) => {
                histogram::add(&mut histogram::new(), &second.histogram).is_ok()
            }
            _ => true,
        };
        match lines {
            [Line::Header(_), rest @ .., Line::End(end)] if rest.iter().all(is_whole) => {
                match end.outcome {
                    Outcome::Failed { .. } => State::Failed,
                    _ => State::Done,
                }
            }
            _ => State::Damaged,
        }
    }
}

/// The directory of one run.
#[derive(Debug, Clone)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Makes the directory of a new run.
    pub fn create(path: &Path, run: &Run) -> Result<Directory, ResultsError> {
        let trials = path.join("trials");
        std::fs::create_dir_all(&trials).map_err(io(&trials))?;
        let directory = Directory { path: path.to_owned() };
        directory.write_run(run)?;
        Ok(directory)
    }

    /// Opens a directory that a run made; the trials of a published one are unpacked first.
    pub fn open(path: &Path) -> Result<(Directory, Run), ResultsError> {
        let file = path.join("run.json");
        let bytes = std::fs::read(&file).map_err(io(&file))?;
        let wrong = |e: serde_json::Error| ResultsError::Line {
            path: file.display().to_string(),
            number: e.line(),
            reason: e.to_string(),
        };
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let version: Version = serde_json::from_slice(&bytes).map_err(wrong)?;
        if version.format != FORMAT {
            return Err(ResultsError::Format {
                path: file.display().to_string(),
                format: version.format,
            });
        }
        let run = serde_json::from_slice(&bytes).map_err(wrong)?;
        archive::unpack(path)?;
        Ok((Directory { path: path.to_owned() }, run))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces `run.json`.
    pub fn write_run(&self, run: &Run) -> Result<(), ResultsError> {
        let (part, file) = (self.path.join("run.json.part"), self.path.join("run.json"));
        let text = serde_json::to_string_pretty(run).expect("a run is plain data");
        std::fs::write(&part, text + "\n").map_err(io(&part))?;
        std::fs::rename(&part, &file).map_err(io(&file))
    }

    /// Whether the trial with this name was completed.
    pub fn has(&self, trial: &str) -> bool {
        self.trial_path(trial).exists()
    }

    /// Creates the file of a trial, and discards what an interrupted one left.
    pub fn begin(&self, trial: &str) -> Result<TrialWriter, ResultsError> {
        let path = self.trial_path(trial);
        let part = path.with_extension("jsonl.part");
        let file = std::fs::File::create(&part).map_err(io(&part))?;
        Ok(TrialWriter { out: BufWriter::new(file), part, path })
    }

    /// Names of the completed trials, and of those that were [set aside](Directory::set_aside).
    pub fn known(&self) -> Result<Vec<String>, ResultsError> {
        let mut names = self.trials()?;
        for entry in std::fs::read_dir(&self.path).map_err(io(&self.path))? {
            let folder = entry.map_err(io(&self.path))?.path();
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with("replaced-") {
                names.extend(trials_in(&folder)?);
            }
        }
        Ok(names)
    }

    /// Names of the completed trials, sorted.
    pub fn trials(&self) -> Result<Vec<String>, ResultsError> {
        trials_in(&self.path.join("trials"))
    }

    /// Removes failed trials, and renames damaged files to `NAME.jsonl.damaged`, so that a resumed
    /// run repeats them. Returns their number.
    pub fn forget_failed(&self) -> Result<u32, ResultsError> {
        let mut forgotten = 0;
        for name in self.trials()? {
            let path = self.trial_path(&name);
            match self.read(&name).map(|lines| State::of(&lines)) {
                Ok(State::Done) => continue,
                Ok(State::Failed) => std::fs::remove_file(&path).map_err(io(&path))?,
                Ok(State::Damaged) | Err(ResultsError::Line { .. }) => {
                    let kept = path.with_extension("jsonl.damaged");
                    std::fs::rename(&path, &kept).map_err(io(&path))?;
                }
                Err(error) => return Err(error),
            }
            forgotten += 1;
        }
        Ok(forgotten)
    }

    /// Moves all trials of a store, with those that load its data, to the folder `replaced-STORE`
    /// beside `trials`, so that a resumed run makes them again. `store` is the name of a driver, or
    /// of one of its instances. Returns their number. Where it was interrupted, it can be repeated;
    /// what an earlier repetition of the run replaced is removed.
    pub fn set_aside(&self, store: &str) -> Result<usize, ResultsError> {
        let replaced = self.path.join(format!("replaced-{store}"));
        let part = replaced.with_extension("part");
        std::fs::create_dir_all(&part).map_err(io(&part))?;
        for name in self.trials()? {
            let lines = self.read(&name)?;
            let Some(Line::Header(header)) = lines.first() else { continue };
            let of = &header.trial.store;
            if of.name == store || of.server() == store {
                let path = self.trial_path(&name);
                std::fs::rename(&path, part.join(format!("{name}.jsonl"))).map_err(io(&path))?;
            }
        }
        let moved = std::fs::read_dir(&part).map_err(io(&part))?.count();
        if moved == 0 {
            std::fs::remove_dir(&part).map_err(io(&part))?;
            return Ok(0);
        }
        if replaced.exists() {
            std::fs::remove_dir_all(&replaced).map_err(io(&replaced))?;
        }
        std::fs::rename(&part, &replaced).map_err(io(&part))?;
        Ok(moved)
    }

    /// All lines of a trial. A number that no trial can have is an error, as is a line that is none
    /// of the lab's.
    pub fn read(&self, trial: &str) -> Result<Vec<Line>, ResultsError> {
        let path = self.trial_path(trial);
        let file = std::fs::File::open(&path).map_err(io(&path))?;
        let mut lines = Vec::new();
        for (at, text) in limited_lines(BufReader::new(file)).enumerate() {
            let damaged = |reason: String| ResultsError::Line {
                path: path.display().to_string(),
                number: at + 1,
                reason,
            };
            let text = text.map_err(|error| match error.kind() {
                std::io::ErrorKind::InvalidData => damaged(error.to_string()),
                _ => io(&path)(error),
            })?;
            let line: Line = serde_json::from_str(&text).map_err(|e| damaged(e.to_string()))?;
            if let Some(fault) = line.fault() {
                return Err(damaged(fault.to_owned()));
            }
            lines.push(line);
        }
        Ok(lines)
    }

    fn trial_path(&self, trial: &str) -> PathBuf {
        self.path.join("trials").join(format!("{trial}.jsonl"))
    }
}

/// Names of the trials in a folder, sorted.
fn trials_in(folder: &Path) -> Result<Vec<String>, ResultsError> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io(folder))? {
        let name = entry.map_err(io(folder))?.file_name();
        if let Some(name) = name.to_str().and_then(|name| name.strip_suffix(".jsonl")) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Writes the file of one trial.
pub struct TrialWriter {
    out: BufWriter<std::fs::File>,
    part: PathBuf,
    path: PathBuf,
}

impl TrialWriter {
    /// Adds a line.
    pub fn write(&mut self, line: &Line) -> Result<(), ResultsError> {
        serde_json::to_writer(&mut self.out, line)
            .map_err(std::io::Error::from)
            .and_then(|()| self.out.write_all(b"\n"))
            .map_err(io(&self.part))
    }

    /// Adds the last line, and gives the file its name.
    pub fn end(mut self, end: End) -> Result<(), ResultsError> {
        self.write(&Line::End(end))?;
        self.out.flush().and_then(|()| self.out.get_ref().sync_all()).map_err(io(&self.part))?;
        std::fs::rename(&self.part, &self.path).map_err(io(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::Load;
    use crate::workload::Workload;

    /// A run with one trial of these lines.
    fn run(lines: &[String]) -> (tempfile::TempDir, Directory) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("trials")).unwrap();
        let directory = Directory { path: folder.path().to_owned() };
        std::fs::write(directory.trial_path("0001-x"), lines.concat()).unwrap();
        (folder, directory)
    }

    fn text(line: &Line) -> String {
        serde_json::to_string(line).unwrap() + "\n"
    }

    fn header() -> String {
        let load: Load = toml::from_str("threads = 1\noperations = 1").unwrap();
        let trial = Trial::example("redis", Workload::LogWrites { records: 1 }, load);
        let started = "2026-01-02T03:04:05Z".to_owned();
        text(&Line::Header(Box::new(Header { trial, order: 1, started })))
    }

    fn second(second: u32, count: u64, histogram: &str) -> String {
        let (label, histogram) = ("insert".to_owned(), histogram.to_owned());
        let errors = BTreeMap::new();
        text(&Line::Second(Second { second, label, count, errors, histogram, threads: 1 }))
    }

    fn end(outcome: Outcome, seconds: f64) -> String {
        text(&Line::End(End { outcome, seconds }))
    }

    #[test]
    fn failed_and_damaged_trials_are_measured_again() {
        let good = histogram::encode(&histogram::new());
        let done = end(Outcome::Completed, 1.0);
        let failed = end(Outcome::Failed { message: "full".into() }, 1.0);
        let cut = second(0, 1, &good)[..20].to_owned();
        let kept = |lines: &[String]| {
            let (_folder, directory) = run(lines);
            let forgotten = directory.forget_failed().unwrap();
            let damaged = directory.path.join("trials/0001-x.jsonl.damaged").exists();
            (forgotten, directory.has("0001-x"), damaged)
        };
        assert_eq!(kept(&[header(), second(0, 1, &good), done.clone()]), (0, true, false));
        assert_eq!(kept(&[header(), failed]), (1, false, false));
        for damaged in [
            vec![header(), second(0, 1, &good)],
            vec![header(), cut],
            vec![second(0, 1, &good), done.clone()],
            vec![header(), second(0, 1, "rubbish"), done.clone()],
            vec!["\u{0}\n".to_owned()],
            Vec::new(),
        ] {
            assert_eq!(kept(&damaged), (1, false, true), "{damaged:?}");
        }
    }

    #[test]
    fn numbers_that_no_trial_has_are_errors() {
        let good = histogram::encode(&histogram::new());
        for (line, reason) in [
            (second(u32::MAX, 1, &good), "so long"),
            (second(0, u64::MAX, &good), "so many"),
            (end(Outcome::Completed, 1e300), "so long"),
            (end(Outcome::Completed, -1.0), "so long"),
            (" ".repeat(LINE_BYTES_MAX as usize), "longer than"),
        ] {
            let (_folder, directory) = run(&[header(), line]);
            let error = directory.read("0001-x").unwrap_err().to_string();
            assert!(error.contains("line 2") && error.contains(reason), "{error}");
        }
    }
}
