//! The report of a run: one self-contained HTML file, and Markdown, both made from the raw results
//! alone.
//!
//! Lines of trials are read ([`mod@read`]) into samples ([`summary`]); samples are ranked and
//! tested ([`ranking`]); what casts doubt on them is looked for (`doubts`); the sections form a
//! [`document`], which [`markdown`] and [`html`] write.

mod charts;
mod conclusion;
mod costs;
pub mod document;
mod doubts;
mod gigabyte;
pub mod html;
mod instances;
pub mod markdown;
mod measure;
pub(crate) mod number;
pub(crate) mod papers;
mod plot;
pub mod ranking;
pub mod read;
mod samples;
mod sections;
pub mod summary;
mod tables;

pub use doubts::GENERATOR_SHARE_MAX;
pub use sections::document;
pub use tables::PERCENTILES;

use std::path::{Path, PathBuf};

use crate::reference;
use crate::results::archive;
use crate::results::{Directory, Line, ResultsError};
use crate::trial::Role;
use crate::workload::ycsb;
use summary::Summary;

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The results cannot be read.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// A trial's results are inconsistent.
    #[error("trial {trial}: {reason}; measure it again: loginson-lab resume --retry-failed")]
    Trial {
        /// Its name.
        trial: String,
        /// The error.
        reason: String,
    },
    /// No trial was completed.
    #[error("{path} has no finished trial yet: resume the run first")]
    Empty {
        /// The run.
        path: String,
    },
    /// The report cannot be written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The error.
        source: std::io::Error,
    },
}

/// The command line of `loginson-lab report`.
pub mod cli {
    use std::io::Write;

    use super::{Path, PathBuf, ReportError, archive, write, ycsb_text};

    /// Writes the report of a run again: report.html, report.md and samples.csv.
    #[derive(Debug, clap::Args)]
    pub struct Args {
        /// The directory of the run.
        pub directory: PathBuf,
        /// Directory for the report [default: the directory of the run]
        #[arg(long)]
        pub out: Option<PathBuf>,
        /// Print each trial in the text format of YCSB instead
        #[arg(long, conflicts_with = "out")]
        pub ycsb: bool,
        /// Also compress the raw results into one file, trials.jsonl.zst, to publish them: in the
        /// directory of the run
        #[arg(long)]
        pub pack: bool,
    }

    /// Writes the report and prints its path.
    pub fn run(args: &Args) -> Result<(), ReportError> {
        if args.ycsb {
            // It is not an error if the reader has ended, as `head` does.
            let _ = std::io::stdout().write_all(ycsb_text(&args.directory)?.as_bytes());
            return Ok(());
        }
        if args.pack {
            archive::pack(&args.directory)?;
        }
        let out: &Path = args.out.as_deref().unwrap_or(&args.directory);
        for file in write(&args.directory, out)? {
            println!("{}", file.display());
        }
        Ok(())
    }
}

/// Reads a run with completed trials.
pub fn read(directory: &Path) -> Result<Summary, ReportError> {
    let (results, run) = Directory::open(directory)?;
    let summary = Summary::read(&results, run)?;
    if summary.experiments.is_empty() {
        return Err(ReportError::Empty { path: directory.display().to_string() });
    }
    Ok(summary)
}

/// All trials of a store in the text format of YCSB, each after a line with its name.
pub fn ycsb_text(directory: &Path) -> Result<String, ReportError> {
    let (results, _) = Directory::open(directory)?;
    let mut out = String::new();
    let mut trials = results.trials()?;
    // The data of a trial is loaded before it.
    trials.sort_by_key(|name| match name.strip_suffix("-load") {
        Some(measured) => (measured.to_owned(), false),
        None => (name.clone(), true),
    });
    for trial in trials {
        let lines = results.read(&trial)?;
        let limit = |line: &Line| matches!(line, Line::Header(header) if matches!(header.trial.role, Role::Limit | Role::WarmUp));
        if lines.first().is_some_and(limit) {
            continue;
        }
        let text = ycsb::text(&lines)
            .map_err(|e| ReportError::Trial { trial: trial.clone(), reason: e.to_string() })?;
        out += &format!("# {trial}\n{text}");
    }
    Ok(out)
}

/// Writes the report of the run in `directory` into `out`; returns the files.
pub fn write(directory: &Path, out: &Path) -> Result<[PathBuf; 3], ReportError> {
    let summary = read(directory)?;
    let published = reference::load(&summary.run.study);
    let document = document(&summary, published.as_ref());
    let io = |path: &Path| {
        let path = path.display().to_string();
        move |source| ReportError::Io { path, source }
    };
    std::fs::create_dir_all(out).map_err(io(out))?;
    let files = [
        (out.join("report.html"), html::write(&document)),
        (out.join("report.md"), markdown::write(&document)),
        (out.join(samples::NAME), samples::csv(&summary)),
    ];
    for (path, text) in &files {
        let part = path.with_extension("part");
        std::fs::write(&part, text).map_err(io(&part))?;
        std::fs::rename(&part, path).map_err(io(path))?;
    }
    Ok(files.map(|(path, _)| path))
}
