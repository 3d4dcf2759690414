//! Layouts: how a line is assembled from its columns.
//!
//! The parser reports the position of each value in a line. The text between the values is either
//! *literal*, which many lines share (`[`, `]: `, `","level":"`), or it varies (a time) and becomes
//! a column of its own: a *gap*. A *layout* is the order of all these, together with the values
//! that many rows share (type, level, facility). A block of syslog has some dozens of layouts, and
//! a row refers to its layout by one number.
//!
//! ```text
//! line      <86>Jan 31 12:00:00 web1 sshd[4711]: Accepted publickey …
//! layout    "<" priority gap(>…time… ) hostname " " app_name "[" proc_id "]: " _msg   type=syslog level=info …
//! ```
//!
//! Rows of one stem (the same host, application, process …) have the same values in most of their
//! fields. If a batch has many rows of a stem, those values are *folded*: they are literals in the
//! layout, joined with the literals between them, and not in columns. Such a line is compared with
//! two or three texts, and split into time and message.
//!
//! ```text
//! folded    <«30»  gap(>…time… )  «web1» «sshd»[«4711»]:  _msg   type=syslog level=info …
//! ```
//!
//! A value that contains others (`_msg` of an access line is the whole line) opens before them and
//! closes behind them. A value that partly overlaps another cannot be represented like this: it is
//! kept apart, as if the parser had made it. The same is done with every value of lines whose parts
//! occur in ever new orders.

mod alike;
mod gap;
mod in_batch;
mod layouts;
mod numbered;
mod shape;
mod steps;

pub(crate) use in_batch::BatchShapes;
pub(crate) use layouts::Layouts;

use record::{FieldId, Place};

/// A part of a line, or a marker in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Element {
    /// The same text in all lines of the layout.
    Literal(Box<[u8]>),
    /// The next value of a column that is not a field.
    Gap(u32),
    /// The next value of a column, which is the field with this index in [`Layout::fields`].
    Value { field: u16, column: u32 },
    /// A field begins here.
    Open(u16),
    /// The field ends here.
    Close(u16),
}

/// Where a field's value comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FieldKind {
    /// Given by the elements.
    InLine,
    /// One value for all rows of the layout: a number in [`Layouts::shared`].
    Shared(u32),
    /// The next value of a column; it is not part of the line.
    Made(u32),
    /// Present and empty.
    Empty,
}

/// How lines of one kind are assembled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Layout {
    pub(crate) elements: Vec<Element>,
    /// Number of the name, and kind of the field, in the order of the parser.
    pub(crate) fields: Vec<(u32, FieldKind)>,
}

/// What a column holds. Names are numbers in [`Layouts::names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ColumnKey {
    /// A field that is part of the line.
    Field(u32),
    /// A field that is not part of the line.
    Made(u32),
    /// The text between two fields; [`EDGE`] for the ends of the line.
    Gap(u32, u32),
}

/// Stands for the beginning or the end of a line in place of a field.
pub(crate) const EDGE: u32 = u32::MAX;

/// Takes the values of a row.
pub(crate) trait Sink {
    /// The next value of a field.
    fn value(&mut self, column: u32, value: &[u8]);
    /// The next text between two fields.
    fn gap(&mut self, column: u32, text: &[u8]);
}

/// A value of a row: its field, its position, and its length.
type Part = (FieldId, Place, u32);
