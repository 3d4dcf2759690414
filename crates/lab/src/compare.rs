//! Compares two results of one study: Welch's test of logarithms between the older and the newer
//! repetitions for every experiment and store; or one result with the figures of the paper.
//!
//! Results of different studies or scales are refused, because they measured other things.
//! Machines, versions and definitions may differ, because their effect is what is compared; such
//! differences are listed first.

use std::path::PathBuf;

use crate::number;
use crate::reference::{self, Reference};
use crate::report::document::{Document, Table};
use crate::report::ranking::{Pair, Ranked, adjust, apart, ranked};
use crate::report::summary::{Experiment, Group, Summary};
use crate::report::{ReportError, markdown, papers, read};
use crate::statistics::SAMPLE_WARNING;

/// Why two results cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A result cannot be read.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// Different studies.
    #[error(
        "{old} is of study `{old_study}` and {new} of `{new_study}`: only results of one study are compared"
    )]
    Study {
        /// The first directory.
        old: String,
        /// Its study.
        old_study: String,
        /// The second directory.
        new: String,
        /// Its study.
        new_study: String,
    },
    /// Different scales.
    #[error(
        "{old} is of scale `{old_scale}` and {new} of `{new_scale}`: scales are never mixed, run the study again with \
         --scale {old_scale}"
    )]
    Scale {
        /// The first directory.
        old: String,
        /// Its scale.
        old_scale: String,
        /// The second directory.
        new: String,
        /// Its scale.
        new_scale: String,
    },
    /// The paper published no figures.
    #[error("no paper published figures of study `{study}`")]
    NoPaper {
        /// The study.
        study: String,
    },
    /// Neither a second directory nor `--paper` was given.
    #[error("compare with what? name a second directory, or --paper")]
    Nothing,
}

/// The command line of `loginson-lab compare`.
pub mod cli {
    use super::{CompareError, PathBuf, markdown, of_directories, with_paper};

    /// Compares two results of one study and scale, or one with the figures of the paper. Prints
    /// Markdown.
    #[derive(Debug, clap::Args)]
    pub struct Args {
        /// The older result.
        pub old: PathBuf,
        /// The newer result.
        pub new: Option<PathBuf>,
        /// Compare with the figures of the study's paper.
        #[arg(long, conflicts_with = "new")]
        pub paper: bool,
    }

    /// Compares and prints.
    pub fn run(args: &Args) -> Result<(), CompareError> {
        let document = match &args.new {
            Some(new) => of_directories(&args.old, new)?,
            None if args.paper => with_paper(&args.old)?,
            None => return Err(CompareError::Nothing),
        };
        print!("{}", markdown::write(&document));
        Ok(())
    }
}

/// Compares two results.
pub fn of_directories(
    old: &std::path::Path,
    new: &std::path::Path,
) -> Result<Document, CompareError> {
    let (one, other) = (read(old)?, read(new)?);
    let (old, new) = (old.display().to_string(), new.display().to_string());
    let (a, b) = (&one.run, &other.run);
    if a.study != b.study {
        let (old_study, new_study) = (a.study.clone(), b.study.clone());
        return Err(CompareError::Study { old, old_study, new, new_study });
    }
    if a.scale != b.scale {
        let (old_scale, new_scale) = (a.scale.clone(), b.scale.clone());
        return Err(CompareError::Scale { old, old_scale, new, new_scale });
    }
    Ok(compared(&one, &other))
}

fn compared(old: &Summary, new: &Summary) -> Document {
    let (a, b) = (&old.run, &new.run);
    let title =
        format!("{}, scale {}: {} compared with {}", a.study, a.scale, b.started, a.started);
    let mut document = Document { title, ..Document::default() };
    let mut differences = Vec::new();
    let mut differ = |what: &str, one: &str, other: &str| {
        if one != other {
            differences.push(format!("{what}: {one}, now {other}"));
        }
    };
    differ("Processor", &a.machine.processor, &b.machine.processor);
    differ("Logical processors", &a.machine.cores.to_string(), &b.machine.cores.to_string());
    differ("Kernel", &a.machine.kernel, &b.machine.kernel);
    differ("Version of the lab", &a.lab_version, &b.lab_version);
    differ("Seed", &a.seed.to_string(), &b.seed.to_string());
    for store in &b.stores {
        if let Some(before) = a.stores.iter().find(|before| before.label == store.label) {
            differ(&format!("Version of {}", store.label), &before.version, &store.version);
            if before.configuration != store.configuration || before.options != store.options {
                differ(&format!("Configuration of {}", store.label), "one", "another");
            }
        }
    }
    if a.definition != b.definition {
        differences.push(
            "The definition of the study is another: what is compared may not be the same work."
                .into(),
        );
    }
    document.list(differences);
    let mut pairs: Vec<(&Experiment, Pair<'_>)> = Vec::new();
    let mut missing = Vec::new();
    for experiment in old.experiments.iter().filter(|experiment| !experiment.prepares) {
        let later =
            new.experiments.iter().find(|later| !later.prepares && later.name == experiment.name);
        for group in &experiment.groups {
            let same = |other: &&Group| {
                other.store == group.store
                    && other.nodes == group.nodes
                    && other.has_target_of(group)
            };
            let now = later.and_then(|later| later.groups.iter().find(same));
            let has_no_number = |group: &'_ Group| {
                ranked(std::slice::from_ref(group), &experiment.measure).is_empty()
            };
            match now {
                Some(now) if !has_no_number(group) && !has_no_number(now) => {
                    let of = |group| ranked(std::slice::from_ref(group), &experiment.measure).pop();
                    let both: Option<(Ranked<'_>, Ranked<'_>)> = of(now).zip(of(group));
                    pairs.extend(both.map(|(now, before)| (experiment, apart(now, before))));
                }
                _ => missing.push(format!(
                    "{}: {} has no number in {}.",
                    experiment.title,
                    experiment.name_of(group),
                    if has_no_number(group) { "the older result" } else { "the newer result" }
                )),
            }
        }
    }
    let mut only: Vec<Pair<'_>> = pairs.iter().map(|(_, pair)| pair.clone()).collect();
    adjust(&mut only);
    let mut table = Table::new(
        "Newer beside older, with Welch's test of logarithms; p after Holm takes all rows together",
        &[
            "experiment and store",
            "measure",
            "older",
            "newer",
            "change",
            "95% interval of the change",
            "p",
            "p after Holm",
            "verdict",
        ],
    );
    for ((experiment, _), pair) in pairs.iter().zip(&only) {
        let (now, before) = (&pair.first, &pair.second);
        let change = |ratio: f64| signed(ratio - 1.0);
        let better = (pair.ratio() > 1.0) == experiment.measure.more_is_better();
        table.rows.push(vec![
            format!("{}: {}", experiment.title, experiment.name_of(now.group)),
            experiment.measure.name(),
            number::plain(before.estimate.mean),
            number::plain(now.estimate.mean),
            change(pair.ratio()),
            pair.test.map_or(String::new(), |test| {
                format!("{} to {}", change(test.interval.0), change(test.interval.1))
            }),
            pair.test.map_or(String::new(), |test| number::probability(test.p)),
            pair.p_adjusted.map_or(String::new(), number::probability),
            match pair.significant() {
                Some(true) if better => "better",
                Some(true) => "worse",
                Some(false) => "no significant change",
                None => "not tested",
            }
            .into(),
        ]);
    }
    let few = only.iter().map(|pair| pair.first.sample.len().min(pair.second.sample.len())).min();
    document.table(table);
    document.list(missing);
    if let Some(few) = few.filter(|few| *few < SAMPLE_WARNING) {
        document.text(format!(
            "Small sample: {few} repetitions; tests of so few find only large differences."
        ));
    }
    document
}

fn signed(share: f64) -> String {
    format!("{}{}", if share < 0.0 { "−" } else { "+" }, number::percent(share))
}

/// Compares a result with the figures of the study's paper.
pub fn with_paper(directory: &std::path::Path) -> Result<Document, CompareError> {
    let summary = read(directory)?;
    let study = &summary.run.study;
    let published =
        reference::load(study).ok_or_else(|| CompareError::NoPaper { study: study.clone() })?;
    Ok(beside(&summary, &published))
}

fn beside(summary: &Summary, published: &Reference) -> Document {
    let run = &summary.run;
    let mut document = Document {
        title: format!("{}, scale {}: beside {}", run.study, run.scale, published.title),
        ..Document::default()
    };
    document.text(format!("The paper measured on {}.", published.machine));
    if run.scale != "paper" {
        document.text(format!(
            "The sizes are others too: those here are of scale {}, those of the paper are its own.",
            run.scale
        ));
    }
    if !papers::section(&mut document, summary, published) {
        document.text("The paper has no figure for any store that was measured here.");
    }
    document
}
