//! Rows of a query as bytes: for responses of the API, and for files.
//!
//! Everything works row by row in bounded memory, and depends neither on HTTP nor on files. The
//! first line of CSV names the columns; they are given by the query, or found by a run before
//! ([`columns`]).

mod csv;
mod cursor;
mod parquet;

use std::collections::HashSet;
use std::ops::ControlFlow;

use clap::ValueEnum;
use query::source::Source;
use query::{Change, Context, Pipe, Query, ResultRows, RunError, Scratch, TimeOrder};
use text::json::write_text;

pub use self::csv::COLUMNS_MAX;
use self::csv::CsvWriter;
pub use self::cursor::{Cursor, checksum};
use self::parquet::ParquetWriter;

/// Format of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The lines as they were sent, each followed by a newline
    Raw,
    /// One JSON object per row
    Jsonl,
    /// A table as text, RFC 4180; its first line names the columns
    Csv,
    /// A Parquet file
    Parquet,
}

impl Format {
    /// The format with that name in the API.
    pub fn named(name: &str) -> Option<Format> {
        <Format as ValueEnum>::from_str(name, false).ok()
    }

    /// Its media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Format::Raw => "application/octet-stream",
            Format::Jsonl => "application/stream+json",
            Format::Csv => "text/csv; charset=utf-8; header=present",
            Format::Parquet => "application/vnd.apache.parquet",
        }
    }
}

/// Why rows cannot be encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// Rows made by a pipe, where lines are required.
    #[error(
        "the query makes rows that are not lines, so they have no raw form; leave the pipe out or use format jsonl"
    )]
    NoLine,
    /// A field without a column.
    #[error(
        "a row has the field '{0}', which is not one of the columns; name the columns with `| fields` at the end of the query"
    )]
    NoColumn(String),
}

/// Encodes rows in a format.
pub struct Encoder {
    form: Form,
    scratch: Scratch,
}

enum Form {
    Raw,
    Jsonl,
    Csv(CsvWriter),
    Parquet(Box<ParquetWriter>),
}

impl Encoder {
    /// An encoder for that format; for CSV with these columns, and with a header if this is the
    /// `first` part of the output.
    pub fn new(format: Format, columns: Vec<String>, first: bool) -> Self {
        let form = match format {
            Format::Raw => Form::Raw,
            Format::Jsonl => Form::Jsonl,
            Format::Csv => Form::Csv(CsvWriter::new(columns, first)),
            Format::Parquet => Form::Parquet(Box::new(ParquetWriter::new())),
        };
        Encoder { form, scratch: Scratch::default() }
    }

    /// The format.
    pub fn format(&self) -> Format {
        match self.form {
            Form::Raw => Format::Raw,
            Form::Jsonl => Format::Jsonl,
            Form::Csv(_) => Format::Csv,
            Form::Parquet(_) => Format::Parquet,
        }
    }

    /// Memory that encoding row `index` takes, about.
    pub fn text_bytes(&mut self, rows: &ResultRows, index: usize) -> usize {
        match self.form {
            Form::Raw => rows.raw(index).map_or(0, <[u8]>::len),
            Form::Jsonl => rows.text_bytes(index, &mut self.scratch),
            // Values are first copied into their columns.
            Form::Csv(_) | Form::Parquet(_) => 2 * rows.text_bytes(index, &mut self.scratch),
        }
    }

    /// The same for all rows.
    pub fn text_bytes_of_all(&mut self, rows: &ResultRows) -> usize {
        (0..rows.len()).map(|index| self.text_bytes(rows, index)).sum()
    }

    /// Appends what precedes the first row.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if let Form::Csv(writer) = &mut self.form {
            writer.header(out);
        }
    }

    /// Encodes rows, and appends to `out` what is ready: at once, or for Parquet by row groups.
    /// `out` must be empty, or as the last call left it.
    pub fn push(&mut self, rows: &ResultRows, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match &mut self.form {
            Form::Parquet(writer) => writer.push(rows, &mut self.scratch, out),
            _ => (0..rows.len()).try_for_each(|index| self.push_row(rows, index, out))?,
        }
        Ok(())
    }

    /// Appends row `index`; not for Parquet.
    pub fn push_row(
        &mut self,
        rows: &ResultRows,
        index: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        match &mut self.form {
            Form::Raw => {
                out.extend_from_slice(rows.raw(index).ok_or(EncodeError::NoLine)?);
                out.push(b'\n');
            }
            Form::Jsonl => write_json(rows, index, &mut self.scratch, out),
            Form::Csv(writer) => {
                writer.header(out);
                let written = writer.row(rows, index, &mut self.scratch, out);
                written.map_err(EncodeError::NoColumn)?;
            }
            Form::Parquet(_) => unreachable!("Parquet is written by row groups"),
        }
        Ok(())
    }

    /// Appends what follows the last row.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if let Form::Parquet(writer) = &mut self.form {
            writer.finish(out);
        }
    }

    /// Appends the end of an incomplete response, if the format can express it.
    pub fn fail(&mut self, error: &str, out: &mut Vec<u8>) -> bool {
        let can_say = matches!(self.form, Form::Jsonl);
        if can_say {
            out.extend_from_slice(&error_line(error));
        }
        can_say
    }
}

/// The beginning of a JSON line with the reason why no more lines follow. Values of rows are
/// strings ([`write_json`]), but here the value is an object: no row looks like it, whatever the
/// names of its fields.
pub const ERROR_LINE_BEGIN: &[u8] = b"{\"_error\":{";
/// The same for a line with the number of lines that a tail skipped.
pub const SKIPPED_LINE_BEGIN: &[u8] = b"{\"_skipped\":{";

/// A JSON line with the reason why no more lines follow.
pub fn error_line(message: &str) -> Vec<u8> {
    format!("{}\n", serde_json::json!({ "_error": { "message": message } })).into_bytes()
}

/// A JSON line with the number of lines that a tail skipped here.
pub fn skipped_line(lines: u64) -> Vec<u8> {
    format!("{}\n", serde_json::json!({ "_skipped": { "lines": lines } })).into_bytes()
}

/// The message of [`error_line`]; `None` if the line is a row.
pub fn error_of(line: &[u8]) -> Option<String> {
    if !line.starts_with(ERROR_LINE_BEGIN) {
        return None;
    }
    let error: serde_json::Value = serde_json::from_slice(line).unwrap_or_default();
    Some(error["_error"]["message"].as_str().unwrap_or("the server gives no reason").to_owned())
}

/// Appends row `index` as one JSON line, values as strings.
pub fn write_json(rows: &ResultRows, index: usize, scratch: &mut Scratch, out: &mut Vec<u8>) {
    let mut before = b'{';
    rows.visit(index, scratch, |name, value| {
        out.push(before);
        before = b',';
        write_text(name.as_bytes(), out);
        out.push(b':');
        write_text(value, out);
    });
    // A row without fields is not part of the answer, as in VictoriaLogs.
    if before == b',' {
        out.extend_from_slice(b"}\n");
    }
}

/// The computed fields that rows of an export have, if the request asks for `wanted`.
pub fn fields(format: Format, mut wanted: Vec<String>) -> Vec<String> {
    match format {
        Format::Raw => return vec!["_line".into()],
        Format::Jsonl | Format::Csv => {}
        // Tables are joined and compared by arrival time, and the column is small.
        Format::Parquet => wanted.push("_received".into()),
    }
    wanted
}

/// Why the columns are not known.
#[derive(Debug, thiserror::Error)]
pub enum ColumnsError {
    /// There are too many.
    #[error(
        "the rows have more than {COLUMNS_MAX} fields; select fewer with `| fields` at the end of the query"
    )]
    TooMany,
    /// The query ended before all columns were known.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// The columns of a query's rows: those that its last pipe names, if it is `fields`; else those
/// that a run finds. The same rows have the same columns.
pub fn columns(
    query: &Query,
    source: &dyn Source,
    context: &Context,
) -> Result<Vec<String>, ColumnsError> {
    if let Some(Change::Keep(names)) = query.pipes().last().and_then(Pipe::get)
        && names.iter().all(|pattern| !pattern.prefix)
    {
        let mut names: Vec<String> = names.iter().map(|pattern| pattern.name.clone()).collect();
        names.extend(context.include.iter().cloned());
        let mut seen = HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
        return Ok(names);
    }
    // The run that returns the rows counts the memory. A resumed export has the columns of the
    // whole export: the same lines, including those before its cursor, and none that arrived later.
    let order = context.order.clone().map(|order| TimeOrder { after: None, ..order });
    let order = order.filter(|order| *order != TimeOrder::default());
    let progress = Default::default();
    let context = Context { order, limit: None, offset: 0, progress, ..context.clone() };
    let mut seen: HashSet<String> = HashSet::new();
    let mut names: Vec<String> = Vec::new();
    let mut scratch = Scratch::default();
    query::run(query, source, &context, &mut |rows| {
        for index in 0..rows.len() {
            rows.visit(index, &mut scratch, |name, _| {
                if !seen.contains(name) && names.len() <= COLUMNS_MAX {
                    seen.insert(name.to_owned());
                    names.push(name.to_owned());
                }
            });
        }
        if names.len() > COLUMNS_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if names.len() > COLUMNS_MAX {
        return Err(ColumnsError::TooMany);
    }
    if query.pipes().iter().all(Pipe::is_row_wise) {
        let ours = ["_time", "_stream", "_msg"];
        let position = |name: &str| ours.iter().position(|n| *n == name).unwrap_or(ours.len());
        names.sort_by_cached_key(|name| (position(name), name.clone()));
    }
    Ok(names)
}
