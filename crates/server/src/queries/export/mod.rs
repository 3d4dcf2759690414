//! Rows of a query as bytes: for answers of the API, and for files.
//!
//! All of it works row by row in bounded memory, and knows neither HTTP nor files. The first line
//! of CSV names the columns; which there are, the query says itself, or it is asked before
//! ([`columns`]).

mod csv;
mod cursor;
mod parquet;

use std::collections::HashSet;
use std::ops::ControlFlow;

use clap::ValueEnum;
use query::source::Source;
use query::{Change, Context, Pipe, Query, Rows, RunError, Scratch, TimeOrder};

pub use self::csv::COLUMNS_MAX;
use self::csv::CsvWriter;
pub use self::cursor::{Cursor, checksum};
use self::parquet::ParquetWriter;

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The lines as they were sent, each followed by a newline
    Raw,
    /// One JSON object a row
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

/// Why rows cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// Rows that were made by a pipe, where lines were asked for.
    #[error(
        "the query makes rows that are no lines, so they have no raw form; leave the pipe out or take format jsonl"
    )]
    NoLine,
    /// A field for which there is no column.
    #[error(
        "a row has the field '{0}', which is none of the columns; name the columns by `| fields` at the end of the query"
    )]
    NoColumn(String),
}

/// Writes rows in a format.
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
    /// What writes that format; CSV with these columns, and with a header if `first` says that no
    /// rows came before.
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

    /// Bytes of memory that writing row `index` takes, about.
    pub fn text_bytes(&mut self, rows: &Rows, index: usize) -> usize {
        match self.form {
            Form::Raw => rows.raw(index).map_or(0, <[u8]>::len),
            Form::Jsonl => rows.text_bytes(index, &mut self.scratch),
            // Values are put into their columns first.
            Form::Csv(_) | Form::Parquet(_) => 2 * rows.text_bytes(index, &mut self.scratch),
        }
    }

    /// The same of all rows.
    pub fn text_bytes_of_all(&mut self, rows: &Rows) -> usize {
        (0..rows.len()).map(|index| self.text_bytes(rows, index)).sum()
    }

    /// Appends what comes before the first row.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if let Form::Csv(writer) = &mut self.form {
            writer.header(out);
        }
    }

    /// Takes rows, and appends to `out` what is ready: at once, or for Parquet by row groups. `out`
    /// is given empty, or as the last call left it.
    pub fn push(&mut self, rows: &Rows, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match &mut self.form {
            Form::Parquet(writer) => writer.push(rows, &mut self.scratch, out),
            _ => (0..rows.len()).try_for_each(|index| self.push_row(rows, index, out))?,
        }
        Ok(())
    }

    /// Appends row `index`; not for Parquet.
    pub fn push_row(
        &mut self,
        rows: &Rows,
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

    /// Appends what is left, behind the last row.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if let Form::Parquet(writer) = &mut self.form {
            writer.finish(out);
        }
    }

    /// Appends the end of an answer that is not complete, if the format can say so.
    pub fn fail(&mut self, error: &str, out: &mut Vec<u8>) -> bool {
        let can_say = matches!(self.form, Form::Jsonl);
        if can_say {
            out.extend_from_slice(&error_line(error));
        }
        can_say
    }
}

/// How a line of JSON begins that says why there are no more. Values of rows are texts
/// ([`write_json`]), this one is an object: no line of a log looks like it, whatever its fields are
/// called.
pub const ERROR_LINE_BEGIN: &[u8] = b"{\"_error\":{";
/// The same of a line that says how many lines a tail has left out.
pub const SKIPPED_LINE_BEGIN: &[u8] = b"{\"_skipped\":{";

/// A line of JSON that says why there are no more.
pub fn error_line(message: &str) -> Vec<u8> {
    format!("{}\n", serde_json::json!({ "_error": { "message": message } })).into_bytes()
}

/// A line of JSON that says how many lines a tail has left out here.
pub fn skipped_line(lines: u64) -> Vec<u8> {
    format!("{}\n", serde_json::json!({ "_skipped": { "lines": lines } })).into_bytes()
}

/// The message of [`error_line`]; none when the line is a row.
pub fn error_of(line: &[u8]) -> Option<String> {
    if !line.starts_with(ERROR_LINE_BEGIN) {
        return None;
    }
    let error: serde_json::Value = serde_json::from_slice(line).unwrap_or_default();
    Some(error["_error"]["message"].as_str().unwrap_or("the server says no reason").to_owned())
}

/// Appends row `index` as one line of JSON, values as text.
pub fn write_json(rows: &Rows, index: usize, scratch: &mut Scratch, out: &mut Vec<u8>) {
    let mut before = b'{';
    rows.visit(index, scratch, |name, value| {
        out.push(before);
        before = b',';
        write_text(name, out);
        out.push(b':');
        write_text(&String::from_utf8_lossy(value), out);
    });
    // A row without any field is no row of the answer, as in VictoriaLogs.
    if before == b',' {
        out.extend_from_slice(b"}\n");
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("writing to memory");
}

/// The computed fields that rows of an export have, when `wanted` was asked for.
pub fn fields(format: Format, mut wanted: Vec<String>) -> Vec<String> {
    match format {
        Format::Raw => return vec!["_line".into()],
        Format::Jsonl | Format::Csv => {}
        // A table is joined and compared by time of arrival, and the column takes little.
        Format::Parquet => wanted.push("_received".into()),
    }
    wanted
}

/// Why columns are not known.
#[derive(Debug, thiserror::Error)]
pub enum ColumnsError {
    /// There are too many.
    #[error(
        "the rows have more than {COLUMNS_MAX} fields; name those wanted by `| fields` at the end of the query"
    )]
    TooMany,
    /// The query ended before they were known.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// The columns of a query's rows: those that its last pipe names, if it is `fields`; else those
/// that a run finds. They are the same for the same rows.
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
    // What is counted is the run that gives the rows. An export that goes on has the columns of the
    // whole: of the same lines, also of those behind it, and of none that came later.
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
        let place = |name: &str| ours.iter().position(|n| *n == name).unwrap_or(ours.len());
        names.sort_by_cached_key(|name| (place(name), name.clone()));
    }
    Ok(names)
}
