//! The page of a report: the answer of a run in at most [`WORDS_MAX`] words, to be read in a
//! repository or a terminal.
//!
//! The page has the abstract, the groups of stores that do not differ, doubts, and a ranking of
//! each experiment. Left out are figures, tests of pairs, percentiles, resources, costs and the
//! figures of papers: the HTML has them, and so has the full Markdown.

use super::conclusion::sentences;
use super::document::{Document, Table};
use super::summary::{Experiment, Summary};
use super::{doubts, markdown, sections, tables};

/// Limit of a page, in words as `wc -w` counts them. A run with so many experiments that its page
/// would be longer gets a page that tells less of each.
pub const WORDS_MAX: usize = 5_000;

/// How much a page tells of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// Its ranking, and sentences that follow from the tests.
    Sentences,
    /// Its ranking.
    Ranking,
    /// Its row in the table of groups.
    Groups,
}

/// The page of a run.
pub fn page(summary: &Summary) -> Document {
    let details = [Detail::Sentences, Detail::Ranking];
    let pages = details.into_iter().map(|detail| with(summary, detail));
    let mut short = pages.filter(|page| words(page) <= WORDS_MAX);
    short.next().unwrap_or_else(|| with(summary, Detail::Groups))
}

fn words(page: &Document) -> usize {
    markdown::write(page).split_whitespace().count()
}

fn with(summary: &Summary, detail: Detail) -> Document {
    let mut document = sections::titled(summary);
    sections::front(&mut document, summary);
    document.table(sections::verdict_table(&sections::all_verdicts(summary)));
    let mut doubts = doubts::table(summary);
    doubts.caption = "What to doubt, by kind; the whole report says how much".into();
    document.table(doubts);
    if detail != Detail::Groups {
        for experiment in sections::measured(summary) {
            chapter(&mut document, summary, experiment, detail);
        }
    }
    document.heading("Stores");
    let stores = sections::stores(summary);
    document.table(only(stores, &["store", "version", "durability", "a crash loses"]));
    document.heading("The whole report");
    document.text(
        "A number is the geometric mean of the repetitions, with its 95% interval by Student's t of \
         the logarithms. Stores are compared in pairs by repetition, and all pairs of an experiment \
         are corrected together after Holm.",
    );
    document.text(
        "loginson-lab report DIRECTORY makes report.html from the trials. It also has the figures, \
         the tests of all pairs, percentiles, resources, what casts doubt on each number, what \
         loading and storing cost, the figures of the paper beside these, methods, threats to \
         validity and configurations. With --full it writes the same as Markdown.",
    );
    document
}

fn chapter(document: &mut Document, summary: &Summary, experiment: &Experiment, detail: Detail) {
    document.heading(&experiment.title);
    if !experiment.about.is_empty() {
        document.text(&experiment.about);
    }
    if detail == Detail::Sentences {
        document.list(sentences(experiment));
    }
    let name = experiment.measure.name();
    let columns = [
        "store",
        &name,
        "95% interval",
        tables::PROCESSED,
        "relative to the best",
        "reached per second",
    ];
    document.table(only(tables::ranking(summary, experiment, None), &columns));
}

/// The table with these columns alone, as far as it has them.
fn only(table: Table, columns: &[&str]) -> Table {
    let kept = |at: &usize| columns.contains(&&*table.head[*at]);
    let kept: Vec<usize> = (0..table.head.len()).filter(kept).collect();
    let select = |row: &Vec<String>| kept.iter().map(|at| row[*at].clone()).collect();
    Table {
        head: select(&table.head),
        rows: table.rows.iter().map(select).collect(),
        caption: table.caption.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_keeps_the_columns_that_it_has() {
        let mut table = Table::new("Rates", &["store", "per second", "spread"]);
        table.rows.push(vec!["redis".into(), "9".into(), "1%".into()]);
        let kept = only(table, &["store", "spread", "errors"]);
        assert_eq!(
            (kept.head, kept.rows),
            (
                vec!["store".to_owned(), "spread".to_owned()],
                vec![vec!["redis".to_owned(), "1%".to_owned()]],
            )
        );
    }
}
