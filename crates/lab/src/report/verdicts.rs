//! The figure of the verdicts: a row for each experiment, a cell for each store, and in it how many
//! times worse than the best the store is.
//!
//! The figure is as wide as the screen of a phone ([`WIDTH_MIN`]) and its letters are as large as
//! those of the text around it, so that nobody has to zoom. With more than eight stores it is
//! wider.

use std::fmt::Write;

use super::conclusion::verdicts;
use super::document::{Cell, Document, Grade, Verdicts};
use super::html::escape;
use super::ranking::ranked;
use super::summary::{Experiment, Group, Summary};
use crate::number::plain;
use crate::results::LOST_ROWS;
use crate::samples::Measure;

/// The name of the figure beside a page of Markdown.
pub const NAME: &str = "verdicts.svg";

/// The width of the figure, in CSS pixels, if it has few stores.
const WIDTH_MIN: usize = 360;

/// The least width of a cell, px.
const CELL_MIN: usize = 42;

/// The size of letters, px.
const LETTERS: usize = 13;

/// The space around everything, the height of a cell and of a row with its title, px.
const EDGE: usize = 8;
const CELL: usize = 22;
const ROW: usize = CELL + 24;

/// Letters of the name of a store, and of a title for each pixel; the tables have whole names.
const NAME_LETTERS_MAX: usize = 22;
const PIXELS_PER_LETTER: usize = 7;

/// A larger ratio is not told exactly.
const RATIO_MAX: f64 = 999.0;

/// Adds the figure, if there are stores to compare.
pub fn figure(document: &mut Document, summary: &Summary) {
    let measured: Vec<&Experiment> =
        summary.experiments.iter().filter(|experiment| !experiment.prepares).collect();
    let is_measured =
        |store: &&str| measured.iter().any(|e| e.groups.iter().any(|group| group.store == *store));
    let stores = summary.run.stores.iter().map(|store| store.label.as_str());
    let stores: Vec<&str> = stores.filter(is_measured).collect();
    if stores.len() < 2 {
        return;
    }
    document.verdicts(Verdicts {
        caption: "How many times worse than the best each store is. Of an experiment with several sizes or rates it is the last."
            .into(),
        rows: measured.iter().filter_map(|experiment| row(experiment, &stores)).collect(),
        stores: stores.into_iter().map(str::to_owned).collect(),
    });
}

/// The title and the cells of an experiment; of one with several sizes or rates those of the last,
/// which is the hardest.
fn row(experiment: &Experiment, stores: &[&str]) -> Option<(String, Vec<Cell>)> {
    let set: &[Group] = experiment.sets().pop()?;
    let all = ranked(set, &experiment.measure);
    let best = all.first()?.estimate.mean;
    let verdict = (all.len() > 1).then(|| verdicts(experiment).pop()).flatten();
    let cell = |store: &&str| {
        let Some(entry) = all.iter().find(|entry| entry.group.store == *store) else {
            return Cell { text: "–".into(), grade: Grade::None };
        };
        let mean = entry.estimate.mean;
        if experiment.measure == Measure::Value(LOST_ROWS.into()) {
            let grade = if mean > 0.0 { Grade::Worse } else { Grade::First };
            let text = if mean > 0.0 { "lost" } else { "0" };
            return Cell { text: text.into(), grade };
        }
        let ratio = if experiment.measure.more_is_better() { best / mean } else { mean / best };
        let is_level = verdict.as_ref().is_some_and(|verdict| {
            verdict.tested && verdict.groups.first().is_some_and(|g| g.iter().any(|s| s == store))
        });
        Cell { text: times(ratio), grade: Grade::of(ratio, is_level) }
    };
    let name = set[0].name(experiment.has_sizes(), experiment.has_targets());
    let place = name.strip_prefix(&set[0].store).unwrap_or_default();
    Some((format!("{}{place}", experiment.title), stores.iter().map(cell).collect()))
}

/// A ratio in at most four letters.
fn times(ratio: f64) -> String {
    match ratio {
        few if few < 9.95 => plain((few * 10.0).round() / 10.0),
        some if some <= RATIO_MAX => format!("{some:.0}"),
        _ => format!("{RATIO_MAX}+"),
    }
}

impl Grade {
    fn of(ratio: f64, is_level: bool) -> Grade {
        match ratio {
            _ if is_level => Grade::First,
            1.0 => Grade::First,
            few if few <= 2.0 => Grade::Twice,
            some if some <= 10.0 => Grade::Tenfold,
            _ => Grade::Worse,
        }
    }

    /// Ground and ink.
    fn colours(self) -> [&'static str; 2] {
        match self {
            Grade::First => ["#0b62a4", "#ffffff"],
            Grade::Twice => ["#cfe5f7", "#1b1f24"],
            Grade::Tenfold => ["#fde3c4", "#1b1f24"],
            Grade::Worse => ["#f6b9a3", "#1b1f24"],
            Grade::None => ["#f4f6f8", "#59636e"],
        }
    }
}

/// The legend, each entry with the line on which it stands.
const LEGEND: [(Grade, &str, usize); 4] = [
    (Grade::First, "the best, or not significantly worse", 0),
    (Grade::Twice, "up to 2 times", 1),
    (Grade::Tenfold, "up to 10", 1),
    (Grade::Worse, "more", 1),
];

/// Draws the figure as SVG, on white ground, so that it is the same in the dark.
pub fn svg(figure: &Verdicts) -> String {
    let columns = figure.stores.len().max(1);
    let width = WIDTH_MIN.max(2 * EDGE + columns * CELL_MIN);
    let cell_width = (width - 2 * EDGE) / columns;
    let longest =
        figure.stores.iter().map(|name| cut(name, NAME_LETTERS_MAX).chars().count()).max();
    let head = EDGE + longest.unwrap_or(0) * PIXELS_PER_LETTER;
    let legend = head + figure.rows.len() * ROW + EDGE;
    let height = legend + 3 * ROW / 2;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         role=\"img\" aria-label=\"{}\" font-family=\"system-ui, sans-serif\" font-size=\"{LETTERS}\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n",
        escape(&figure.caption)
    );
    let mut text = |place: String, ink: &str, text: &str| {
        writeln!(out, "<text {place} fill=\"{ink}\">{}</text>", escape(text)).expect("a string");
    };
    for (at, name) in figure.stores.iter().enumerate() {
        let (x, y) = (EDGE + at * cell_width + cell_width / 2 + LETTERS / 3, head - 2);
        let place = format!("transform=\"translate({x} {y}) rotate(-90)\"");
        text(place, "#1b1f24", &cut(name, NAME_LETTERS_MAX));
    }
    for (number, (title, _)) in figure.rows.iter().enumerate() {
        let y = head + number * ROW + 16;
        let title = cut(title, (width - 2 * EDGE) / PIXELS_PER_LETTER);
        text(format!("x=\"{EDGE}\" y=\"{y}\""), "#1b1f24", &title);
    }
    let mut box_of = |grade: Grade, (x, y): (usize, usize), width: usize, text: &str| {
        let [ground, ink] = grade.colours();
        let (middle, line) = (x + width / 2, y + CELL - 6);
        writeln!(
            out,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{CELL}\" fill=\"{ground}\"/>\
             <text x=\"{middle}\" y=\"{line}\" text-anchor=\"middle\" fill=\"{ink}\">{}</text>",
            escape(text)
        )
        .expect("a string");
    };
    for (number, (_, cells)) in figure.rows.iter().enumerate() {
        let y = head + number * ROW + 20;
        for (at, cell) in cells.iter().enumerate() {
            box_of(cell.grade, (EDGE + at * cell_width, y), cell_width - 2, &cell.text);
        }
    }
    let mut x = [EDGE; 2];
    for (grade, meaning, line) in LEGEND {
        let wide = (meaning.chars().count() + 2) * PIXELS_PER_LETTER;
        box_of(grade, (x[line], legend + line * (CELL + 6)), wide, meaning);
        x[line] += wide + EDGE;
    }
    out + "</svg>\n"
}

fn cut(text: &str, letters_max: usize) -> String {
    match text.chars().count() > letters_max {
        false => text.to_owned(),
        true => text.chars().take(letters_max - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grades_follow_from_the_ratio_and_the_tests() {
        for (ratio, is_level, text, grade) in [
            (1.0, false, "1", Grade::First),
            (1.44, true, "1.4", Grade::First),
            (1.44, false, "1.4", Grade::Twice),
            (9.96, false, "10", Grade::Tenfold),
            (10.1, false, "10", Grade::Worse),
            (12_345.0, false, "999+", Grade::Worse),
        ] {
            assert_eq!((times(ratio), Grade::of(ratio, is_level)), (text.to_owned(), grade));
        }
    }

    #[test]
    fn names_are_text_and_long_ones_are_cut() {
        let cell = Cell { text: "<b>".into(), grade: Grade::None };
        let figure = Verdicts {
            caption: "\"<i>".into(),
            stores: vec!["<script>".repeat(9)],
            rows: vec![("x".repeat(400), vec![cell])],
        };
        let drawn = svg(&figure);
        assert!(!drawn.contains("<script") && !drawn.contains("<b>") && !drawn.contains("\"<i>"));
        assert!(drawn.contains("…") && !drawn.contains(&"x".repeat(80)), "{drawn}");
    }

    /// Every text stays within the figure, whose letters are not smaller on a phone.
    #[test]
    fn a_phone_shows_up_to_eight_stores_without_zooming() {
        let stores: Vec<String> = (0..8).map(|at| format!("store{at}")).collect();
        let cells = || stores.iter().map(|_| Cell { text: "999+".into(), grade: Grade::Worse });
        let rows = vec![("An experiment".to_owned(), cells().collect())];
        let drawn = svg(&Verdicts { caption: String::new(), stores: stores.clone(), rows });
        assert!(drawn.contains("viewBox=\"0 0 360 "), "{drawn}");
        let x = drawn.split("<rect x=\"").skip(1).map(|rest| {
            let number = |text: &str| text.split('"').next().unwrap().parse::<usize>().unwrap();
            number(rest) + number(rest.split_once(" width=\"").unwrap().1)
        });
        assert!(x.max().unwrap() <= 360, "{drawn}");
    }
}
