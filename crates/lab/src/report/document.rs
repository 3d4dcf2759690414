//! The content of a report, independent of its format: headings, sentences, tables and figures.
//!
//! All texts are plain text. The writers (Markdown, HTML) escape every one of them, so that a name
//! or a message of a server is never taken for markup, and number tables and figures.

use crate::statistics::BoxPlot;

/// A report, or a part of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// The title.
    pub title: String,
    /// The pieces, in order.
    pub blocks: Vec<Block>,
}

/// A piece of a document.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// A heading of level 2 or 3.
    Heading(u8, String),
    /// A paragraph.
    Text(String),
    /// A warning.
    Warning(String),
    /// A list.
    List(Vec<String>),
    /// A table.
    Table(Table),
    /// Preformatted lines with a caption.
    Code(String, Vec<String>),
    /// The figure of the verdicts, which a page has too.
    Verdicts(Verdicts),
    /// A figure.
    Figure(Figure),
    /// Pieces that are shown on request, under a title.
    Details(String, Vec<Block>),
    /// A file beside the report: its name and its text.
    File(String, String),
}

/// A table. The first column holds names and the others numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// The caption.
    pub caption: String,
    /// Names of the columns.
    pub head: Vec<String>,
    /// Rows, each with as many cells as the head.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(caption: impl Into<String>, head: &[&str]) -> Table {
        Table {
            caption: caption.into(),
            head: head.iter().map(|name| (*name).to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// The table with these columns alone, as far as it has them.
    pub fn only(&self, columns: &[&str]) -> Table {
        let kept = |at: &usize| columns.contains(&&*self.head[*at]);
        let kept: Vec<usize> = (0..self.head.len()).filter(kept).collect();
        let select = |row: &Vec<String>| kept.iter().map(|at| row[*at].clone()).collect();
        Table {
            caption: self.caption.clone(),
            head: select(&self.head),
            rows: self.rows.iter().map(select).collect(),
        }
    }

    /// Removes the columns after the first that are empty in every row.
    pub fn compact(mut self) -> Table {
        let used: Vec<bool> = (0..self.head.len())
            .map(|at| at == 0 || self.rows.iter().any(|row| !row[at].is_empty()))
            .collect();
        let keep = |row: &mut Vec<String>| {
            let mut used = used.iter();
            row.retain(|_| *used.next().expect("a row is as long as the head"));
        };
        self.rows.iter_mut().for_each(keep);
        keep(&mut self.head);
        self
    }
}

/// How many times worse than the best each store is, experiment by experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdicts {
    /// The caption.
    pub caption: String,
    /// The names of the columns.
    pub stores: Vec<String>,
    /// The experiments, each with a cell for every store.
    pub rows: Vec<(String, Vec<Cell>)>,
}

/// A cell of [`Verdicts`].
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The ratio.
    pub text: String,
    /// Its colour.
    pub grade: Grade,
}

/// How far a store is from the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grade {
    /// It is the best, or not significantly worse.
    First,
    /// It is up to twice as slow.
    Twice,
    /// It is up to ten times as slow.
    Tenfold,
    /// It is slower than that, or loses rows.
    Worse,
    /// It has no number.
    None,
}

/// A figure of small panels.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The caption.
    pub caption: String,
    /// The names of colours, for the legend; none if the panels name everything.
    pub legend: Vec<(usize, String)>,
    /// The panels, row by row.
    pub panels: Vec<Panel>,
}

/// A panel of a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// Its title.
    pub title: String,
    /// Its data.
    pub data: PanelData,
}

/// The data of a panel.
#[derive(Debug, Clone, PartialEq)]
pub enum PanelData {
    /// Lines over a numeric axis.
    Lines {
        /// The x axis.
        x: Axis,
        /// The y axis.
        y: Axis,
        /// The lines.
        series: Vec<Series>,
    },
    /// Means with intervals, and box plots, one below the other.
    Rows {
        /// The axis of the values.
        axis: Axis,
        /// From top to bottom.
        rows: Vec<Row>,
    },
}

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// The label, with the unit.
    pub label: String,
    /// Whether the axis is logarithmic; values that are not above 0 are then left out.
    pub log: bool,
}

impl Axis {
    /// A linear axis.
    pub fn linear(label: &str) -> Axis {
        Axis { label: label.into(), log: false }
    }

    /// A logarithmic axis.
    pub fn log(label: &str) -> Axis {
        Axis { label: label.into(), log: true }
    }
}

/// A line of a panel.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// The number of its colour.
    pub colour: usize,
    /// Points in the order of x.
    pub points: Vec<Point>,
}

/// A point of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Across.
    pub x: f64,
    /// Up.
    pub y: f64,
    /// The interval of y, drawn as a bar.
    pub interval: Option<(f64, f64)>,
}

/// A row of a panel.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The label next to it.
    pub name: String,
    /// The number of its colour.
    pub colour: usize,
    /// The mean.
    pub mean: f64,
    /// Its interval.
    pub interval: Option<(f64, f64)>,
    /// The box plot of the sample.
    pub plot: Option<BoxPlot>,
}

impl Document {
    /// Adds a heading of level 2.
    pub fn heading(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Heading(2, text.into()));
    }

    /// Adds a paragraph.
    pub fn text(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Text(text.into()));
    }

    /// Adds a list, if it is not empty.
    pub fn list(&mut self, points: Vec<String>) {
        if !points.is_empty() {
            self.blocks.push(Block::List(points));
        }
    }

    /// Adds a table, if it has rows.
    pub fn table(&mut self, table: Table) {
        assert!(table.rows.iter().all(|row| row.len() == table.head.len()), "{}", table.caption);
        if !table.rows.is_empty() {
            self.blocks.push(Block::Table(table));
        }
    }

    /// Adds the figure of the verdicts, if it has rows.
    pub fn verdicts(&mut self, figure: Verdicts) {
        if !figure.rows.is_empty() {
            self.blocks.push(Block::Verdicts(figure));
        }
    }

    /// The page: everything but what is shown on request, as small figures and details.
    pub fn page(&self) -> Document {
        let is_shown = |block: &&Block| {
            use Block::{Code, Details, Figure, File};
            !matches!(block, Code(..) | Details(..) | Figure(..) | File(..))
        };
        Document {
            title: self.title.clone(),
            blocks: self.blocks.iter().filter(is_shown).cloned().collect(),
        }
    }

    /// Adds a figure of the panels that are not empty, if there are any.
    pub fn figure(
        &mut self,
        caption: impl Into<String>,
        legend: Vec<(usize, String)>,
        panels: Vec<Panel>,
    ) {
        let filled = |panel: &Panel| match &panel.data {
            PanelData::Lines { series, .. } => series.iter().any(|line| !line.points.is_empty()),
            PanelData::Rows { rows, .. } => !rows.is_empty(),
        };
        let panels: Vec<Panel> = panels.into_iter().filter(filled).collect();
        if !panels.is_empty() {
            self.blocks.push(Block::Figure(Figure { caption: caption.into(), legend, panels }));
        }
    }

    /// Adds the blocks of `inner` under a title that opens them, if there are any.
    pub fn details(&mut self, title: impl Into<String>, inner: Document) {
        if !inner.blocks.is_empty() {
            self.blocks.push(Block::Details(title.into(), inner.blocks));
        }
    }
}
