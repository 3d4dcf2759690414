//! Rows of a query as bytes: for answers of the API, and for files.
//!
//! All of it works row by row in bounded memory, and knows neither HTTP nor files. CSV is left out: its first line names the
//! columns, and which there are is known behind the last row only; Parquet is for those who want a table.

mod parquet;

use clap::ValueEnum;
use query::{Rows, Scratch};

use self::parquet::ParquetWriter;

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The lines as they were sent, each followed by a newline
    Raw,
    /// One JSON object a row
    Jsonl,
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
            Format::Parquet => "application/vnd.apache.parquet",
        }
    }
}

/// Rows that were made by a pipe, where lines were asked for.
#[derive(Debug, thiserror::Error)]
#[error(
    "the query makes rows that are no lines, so they have no raw form; leave the pipe out or take format jsonl"
)]
pub struct NoLine;

/// Writes rows in a format.
pub struct Encoder {
    form: Form,
    scratch: Scratch,
}

enum Form {
    Raw,
    Jsonl,
    Parquet(Box<ParquetWriter>),
}

impl Encoder {
    /// What writes that format.
    pub fn new(format: Format) -> Self {
        let form = match format {
            Format::Raw => Form::Raw,
            Format::Jsonl => Form::Jsonl,
            Format::Parquet => Form::Parquet(Box::new(ParquetWriter::new())),
        };
        Encoder { form, scratch: Scratch::default() }
    }

    /// Takes rows, and appends to `out` what is ready: at once, or for Parquet by row groups. `out` is given empty, or as the
    /// last call left it.
    pub fn push(&mut self, rows: &Rows, out: &mut Vec<u8>) -> Result<(), NoLine> {
        match &mut self.form {
            Form::Raw => {
                for index in 0..rows.len() {
                    out.extend_from_slice(rows.raw(index).ok_or(NoLine)?);
                    out.push(b'\n');
                }
            }
            Form::Jsonl => {
                (0..rows.len()).for_each(|i| write_json(rows, i, &mut self.scratch, out))
            }
            Form::Parquet(writer) => writer.push(rows, &mut self.scratch, out),
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
            out.extend_from_slice(
                format!("{}\n", serde_json::json!({ "_error": error })).as_bytes(),
            );
        }
        can_say
    }
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
    if before == b'{' {
        out.push(b'{');
    }
    out.extend_from_slice(b"}\n");
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("writing to memory");
}

/// The computed fields that rows of an export have, when `wanted` was asked for.
pub fn fields(format: Format, mut wanted: Vec<String>) -> Vec<String> {
    match format {
        Format::Raw => return vec!["_raw".into()],
        Format::Jsonl => {}
        // A table is joined and compared by time of arrival, and the column takes little.
        Format::Parquet => wanted.push("_received".into()),
    }
    wanted
}
