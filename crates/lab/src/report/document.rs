//! The content of a report, independent of its format: headings, sentences, tables and charts.
//!
//! All texts are plain text. The writers (Markdown, HTML) escape every one of them, so that a name
//! or a message of a server is never taken for markup.

use crate::statistics::{BoxPlot, Estimate};

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
    /// A chart.
    Chart(Chart),
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
}

/// A chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// The caption.
    pub caption: String,
    /// Its data.
    pub data: Data,
}

/// The data of a chart.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// Lines over a numeric axis.
    Lines {
        /// The x axis.
        x: Axis,
        /// The y axis.
        y: Axis,
        /// The lines.
        series: Vec<Series>,
    },
    /// Box plots, one below the other.
    Boxes {
        /// The axis of the values.
        axis: Axis,
        /// From top to bottom.
        boxes: Vec<Boxed>,
    },
}

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// The label, with the unit.
    pub label: String,
    /// Whether the axis is logarithmic; values must then be above 0.
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

/// A line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The label in the legend.
    pub name: String,
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

/// A box of a box plot.
#[derive(Debug, Clone, PartialEq)]
pub struct Boxed {
    /// The label next to it.
    pub name: String,
    /// The box.
    pub plot: BoxPlot,
    /// The mean and its interval, drawn on the box.
    pub mean: Estimate,
}

impl Document {
    /// Adds a heading of level 2.
    pub fn heading(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Heading(2, text.into()));
    }

    /// Adds a heading of level 3.
    pub fn subheading(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Heading(3, text.into()));
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

    /// Adds a chart, if it is not empty.
    pub fn chart(&mut self, caption: impl Into<String>, data: Data) {
        let empty = match &data {
            Data::Lines { series, .. } => series.iter().all(|series| series.points.is_empty()),
            Data::Boxes { boxes, .. } => boxes.is_empty(),
        };
        if !empty {
            self.blocks.push(Block::Chart(Chart { caption: caption.into(), data }));
        }
    }
}
