//! The report of a run, made from the raw results alone: one document ([`mod@document`]) of
//! verdicts, methods and data, as a page of Markdown with a figure, and as one self-contained HTML
//! file that also has the details.
//!
//! The samples of all trials are collected ([`mod@read`]) into a [`summary`]; they are ranked and
//! tested ([`ranking`]), and faults of the measurement are looked for (`doubts`). The sections form
//! the document, which [`markdown`] and [`html`] write.

mod charts;
mod conclusion;
mod costs;
mod csv;
pub mod document;
mod doubts;
mod gigabyte;
pub mod html;
mod instances;
pub mod markdown;
mod names;
pub(crate) mod papers;
mod plot;
pub mod ranking;
pub mod read;
mod sections;
pub mod sizes;
pub mod summary;
mod tables;
mod verdicts;
mod ycsb_text;

pub use doubts::GENERATOR_SHARE_MAX;
pub use sections::{WORDS_MAX, document};

use std::path::{Path, PathBuf};

use crate::reference;
use crate::results::{Directory, Line, ResultsError, archive};
use crate::samples::TrialError;
use crate::trial::Role;
use summary::Summary;

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The results cannot be read.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// A trial's results are inconsistent.
    #[error(transparent)]
    Trial(#[from] TrialError),
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

    use super::{Path, PathBuf, ReportError, archive, write, write_full, ycsb_text};

    /// Writes the report of a run again: report.html (all of it), report.md (a page with the
    /// answer) with its figure verdicts.svg, and samples.csv
    #[derive(Debug, clap::Args)]
    pub struct Args {
        /// The directory of the run
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
        /// Also write all of the report as Markdown: report-full.md
        #[arg(long)]
        pub full: bool,
    }

    /// Writes the report and prints its path.
    pub fn run(args: &Args) -> Result<(), ReportError> {
        if args.ycsb {
            // A reader that has ended, as `head` does, is no error.
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
        if args.full {
            println!("{}", write_full(&args.directory, out)?.display());
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
        let text = ycsb_text::text(&lines)
            .map_err(|e| TrialError { trial: trial.clone(), reason: e.to_string() })?;
        out += &format!("# {trial}\n{text}");
    }
    Ok(out)
}

/// Writes the report of the run in `directory` into `out`: all of it as HTML, its page as Markdown
/// with a figure, and the samples. Returns the files, in the order in which they are named here.
pub fn write(directory: &Path, out: &Path) -> Result<Vec<PathBuf>, ReportError> {
    let mut summary = read(directory)?;
    summary.shorten_names();
    let document = of(&summary);
    let figure = document.blocks.iter().find_map(|block| match block {
        document::Block::Verdicts(figure) => Some((verdicts::NAME, verdicts::svg(figure))),
        _ => None,
    });
    let mut files = vec![
        ("report.html", html::write(&document)),
        ("report.md", markdown::write(&document.page())),
        (csv::NAME, csv::write(&summary)),
    ];
    files.extend(figure);
    files.into_iter().map(|(name, text)| write_file(out.join(name), &text)).collect()
}

/// Writes all of the report of the run in `directory` into `out` as Markdown; returns the file.
pub fn write_full(directory: &Path, out: &Path) -> Result<PathBuf, ReportError> {
    let mut summary = read(directory)?;
    summary.shorten_names();
    let document = of(&summary);
    write_file(out.join("report-full.md"), &markdown::write(&document))
}

fn of(summary: &Summary) -> document::Document {
    document(summary, reference::load(&summary.run.study).as_ref())
}

/// Writes a file whole or not at all; its directory is made.
fn write_file(path: PathBuf, text: &str) -> Result<PathBuf, ReportError> {
    let part = path.with_extension("part");
    let write = || {
        std::fs::create_dir_all(path.parent().expect("a file is in a directory"))?;
        std::fs::write(&part, text)?;
        std::fs::rename(&part, &path)
    };
    match write() {
        Ok(()) => Ok(path),
        Err(source) => Err(ReportError::Io { path: path.display().to_string(), source }),
    }
}
