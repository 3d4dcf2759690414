//! `loginson export`: every row of a query into a file, from a running server or from a directory
//! at rest.
//!
//! With `--cursor-file` the server sends the rows in pieces, each ending with a cursor. Rows are
//! appended to the output, and the cursor file records the length of the output behind the last
//! complete piece. A resumed export truncates the output to that length. So each row is written
//! once, wherever an export broke off.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, IsTerminal, Read, Write};
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use clap::Args;
use platform::{Clock, RealClock};
use query::source::TimeRange;
use query::time::parse_time;
use query::{Context, Limits, Query, TimeOrder};
use record::{Parser, ParserConfig};
use serde::{Deserialize, Serialize};

use crate::cli::ServerArgs;
use crate::cli::client::{Client, explain_query_refusal};
use crate::cli::encryption::KeyArgs;
use crate::cli::progress::{Watch, bytes_bar};
use crate::cli::terminal::Harmless;
use crate::settings::Settings;
use node::queries::export::{self, EncodeError, Encoder, Format};
use node::storage::at_rest::RestSource;
use node::storage::stored::Parsers;

/// Limit of the line in front of each piece.
const HEAD_BYTES_MAX: u64 = 64 << 10;
/// Bytes kept of the end of a response, to see whether it ends with an error.
const TAIL_BYTES_MAX: usize = 64 << 10;

#[derive(Args)]
#[command(after_help = "Examples:
  loginson export --format raw > all.log                       every line of the running server, byte for byte
  loginson export --format parquet --query '_type:access' --start 2026-01-01 --end 2026-02-01 -o january.parquet
  loginson export --format jsonl --query '_level:error | fields _time, hostname, _msg' | gzip > errors.jsonl.gz
  loginson export --format csv --query '_type:access | fields _time, client_ip, status' -o access.csv --cursor-file access.cursor
  loginson export --data-dir /var/lib/loginson --format raw    from a data directory at rest, or a backup

  duckdb -c \"SELECT hostname, count(*) FROM 'january.parquet' GROUP BY ALL\"
  python3 -c \"import pandas; print(pandas.read_parquet('january.parquet'))\"

Rows are in the order of time, the oldest first. An incomplete file is removed; with --cursor-file it stays, and the same
command resumes where it broke off. Once the export is complete, the same command appends what has arrived since.")]
pub struct ExportArgs {
    /// Format of the rows
    #[arg(long, value_enum)]
    format: Format,
    /// Rows to export, in LogsQL
    #[arg(long, value_name = "LOGSQL", allow_hyphen_values = true, value_parser = crate::cli::query_text, default_value = "*")]
    query: String,
    /// Earliest time: 2026-01-31T12:00Z, a Unix time, or a while ago such as 15m
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    start: Option<String>,
    /// Time up to which rows are exported, itself excluded
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    end: Option<String>,
    /// Computed fields to add to rows of jsonl and parquet: _line_id, _line, _received
    #[arg(long, value_name = "FIELD", value_delimiter = ',', value_parser = ["_line_id", "_line", "_received"])]
    include: Vec<String>,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Resume behind the cursor in this file, if the file exists, and keep it up to date; for raw,
    /// jsonl and csv, from a server
    #[arg(long, value_name = "FILE", conflicts_with = "data_dir")]
    cursor_file: Option<PathBuf>,
    /// Data directory that no server is using, or a backup, instead of a running server
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Export the rest where lines are damaged or stores are away, and say what is missing
    #[arg(long, conflicts_with_all = ["data_dir", "cursor_file"])]
    allow_partial: bool,
    /// Configuration file with the rules for types; with --data-dir
    #[arg(long, value_name = "FILE.toml", requires = "data_dir")]
    config: Option<PathBuf>,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    key: KeyArgs,
}

/// Runs the command.
pub fn run(args: ExportArgs) -> Result<()> {
    if let Some(file) = &args.cursor_file {
        return match in_pieces(&args, file) {
            Err(error) if broken_pipe(&error) => Ok(()),
            result => result,
        };
    }
    let mut output = Output::open(args.output.as_deref(), args.format)?;
    let result = match &args.data_dir {
        Some(dir) => at_rest(&args, dir, &mut output),
        None => by_server(&args, &mut output),
    };
    match result {
        Err(error) if broken_pipe(&error) => Ok(()),
        Err(error) => Err(error),
        Ok(()) => output.finish(),
    }
}

fn by_server(args: &ExportArgs, output: &mut Output) -> Result<()> {
    let Answer { mut body, missing, _watch, id, client } = request(args, form(args))?;
    let mut buffer = vec![0; 256 << 10];
    let mut tail = Vec::new();
    loop {
        let read = body.read(&mut buffer).map_err(|error| {
            let why = id.as_deref().and_then(|id| reason(&client, id));
            let why = why.unwrap_or_else(|| format!("the server ended it: {error}"));
            anyhow!("the export is not complete: {why}")
        })?;
        if read == 0 {
            break;
        }
        output.write(&buffer[..read])?;
        tail.extend_from_slice(&buffer[..read]);
        tail.drain(..tail.len().saturating_sub(TAIL_BYTES_MAX));
    }
    let last = tail.strip_suffix(b"\n").unwrap_or(&tail);
    let last = &last[memchr::memrchr(b'\n', last).map_or(0, |at| at + 1)..];
    if let Some(error) = export::error_of(last).filter(|_| args.format == Format::Jsonl) {
        bail!("the export is not complete: {}", crate::cli::terminal::escaped(&error));
    }
    if !missing.is_empty() {
        output.keep()?;
        bail!("the rest was exported: {}", crate::cli::terminal::escaped(&missing.join("; ")));
    }
    Ok(())
}

/// Why a query ended, as the server tells afterwards: a body of lines has no place for it.
fn reason(client: &Client, id: &str) -> Option<String> {
    let entry = client.get_json(&format!("/api/v1/queries/{id}")).ok()?;
    let error = entry["error"].as_str().filter(|error| !error.is_empty())?;
    Some(crate::cli::terminal::escaped(error).to_string())
}

/// The parameters of the request.
fn form(args: &ExportArgs) -> Vec<(&'static str, String)> {
    let format = match args.format {
        Format::Raw => "raw",
        Format::Jsonl => "jsonl",
        Format::Csv => "csv",
        Format::Parquet => "parquet",
    };
    let mut form = vec![("query", args.query.clone()), ("format", format.to_owned())];
    if args.allow_partial {
        form.push(("allow_partial_response", "1".to_owned()));
    }
    form.extend(args.start.clone().map(|start| ("start", start)));
    form.extend(args.end.clone().map(|end| ("end", end)));
    form.extend(args.include.iter().map(|field| ("include", field.clone())));
    form
}

/// The response as it arrives, and the display of its progress.
struct Answer {
    body: Box<dyn Read>,
    /// What the answer lacks, in the words of the server.
    missing: Vec<String>,
    client: Client,
    /// The id of the query.
    id: Option<String>,
    _watch: Watch,
}

fn request(args: &ExportArgs, form: Vec<(&'static str, String)>) -> Result<Answer> {
    let client = Client::new(&args.server)?;
    let response = match client.post_form("/api/v1/export", &form)? {
        Ok(response) => response,
        Err(refusal) => return Err(explain_query_refusal(&refusal)),
    };
    let header = |name: &str| {
        let value = response.headers().get(name).and_then(|value| value.to_str().ok());
        value.map(str::to_owned)
    };
    let id = header("x-loginson-query-id");
    let stores = header("x-loginson-missing-stores");
    let stores = stores.map(|stores| format!("the lines of these stores are missing: {stores}"));
    let missing = stores.into_iter().chain(header("x-loginson-missing-lines")).collect();
    let _watch = Watch::start(&client, id.clone());
    let body = Box::new(response.into_body().into_reader());
    Ok(Answer { body, missing, client, id, _watch })
}

/// The content of a cursor file.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Progress {
    /// The parameters of the export: another export does not resume here.
    #[serde(rename = "asked")]
    parameters: Vec<(String, String)>,
    /// Length of the output behind the last complete piece; none for standard output.
    bytes: Option<u64>,
    /// Resumes behind that piece; empty before the first one.
    cursor: String,
}

impl Progress {
    fn read(path: &Path, parameters: &[(String, String)]) -> Result<Option<Progress>> {
        let bytes = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            bytes => bytes.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let progress: Progress = serde_json::from_slice(&bytes).with_context(|| {
            format!("{} is not a cursor file; remove it to begin again", path.display())
        })?;
        if progress.parameters != parameters {
            bail!(
                "{} belongs to another export; use the same --query, --format, --start, --end and --include, or another file",
                path.display()
            );
        }
        Ok(Some(progress))
    }

    fn write(&self, path: &Path) -> Result<()> {
        let part = path.with_added_extension("part");
        fs::write(&part, serde_json::to_vec(self)?)
            .and_then(|()| fs::rename(&part, path))
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Exports in pieces, behind those that an earlier call wrote.
fn in_pieces(args: &ExportArgs, cursor_file: &Path) -> Result<()> {
    let mut form = form(args);
    let parameters = form.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let parameters: Vec<(String, String)> = parameters.collect();
    let before = Progress::read(cursor_file, &parameters)?;
    form.push(("cursors", "1".into()));
    let behind = before.iter().filter(|before| !before.cursor.is_empty());
    form.extend(behind.map(|before| ("cursor", before.cursor.clone())));
    let mut progress = before.unwrap_or_else(|| Progress { parameters, ..Progress::default() });
    let mut output: Box<dyn Write> = match &args.output {
        None => standard_output(args.format)?,
        Some(path) => {
            let bytes = progress.bytes;
            progress.bytes = Some(bytes.unwrap_or(0));
            Box::new(continued(path, cursor_file, bytes)?)
        }
    };
    let Answer { body, _watch, .. } = request(args, form)?;
    let mut body = BufReader::new(body);
    if progress.cursor.is_empty() {
        // From here on, the output is known as ours, also after a crash in the first piece.
        progress.write(cursor_file)?;
    }
    loop {
        let Piece { bytes, cursor, last } = Piece::read(&mut body)?;
        output
            .write_all(&bytes)
            .and_then(|()| output.flush())
            .context("cannot write the export")?;
        progress.bytes = progress.bytes.map(|before| before + bytes.len() as u64);
        progress.cursor = cursor;
        progress.write(cursor_file)?;
        if last {
            return Ok(());
        }
    }
}

/// Opens the output of an export in pieces behind its first `bytes`, which are those of complete
/// pieces. Without a number, no piece was written to it, so it must be new or empty: anything else
/// is not ours to cut off.
fn continued(path: &Path, cursor_file: &Path, bytes: Option<u64>) -> Result<File> {
    let cannot = || format!("cannot write {}", path.display());
    let file = File::options().create(true).append(true).open(path).with_context(cannot)?;
    let length = file.metadata().with_context(cannot)?.len();
    match bytes {
        None => ensure!(
            length == 0,
            "{} exists, and {} does not say that it is a part of this export; remove it or give another --output to begin \
             again, or the --cursor-file with which it was written to go on",
            path.display(),
            cursor_file.display()
        ),
        Some(bytes) => {
            ensure!(
                length >= bytes,
                "{} is shorter than {} says; remove both to begin again",
                path.display(),
                cursor_file.display()
            );
            file.set_len(bytes).with_context(cannot)?;
        }
    }
    Ok(file)
}

/// Rows, and the cursor behind them.
struct Piece {
    bytes: Vec<u8>,
    cursor: String,
    last: bool,
}

impl Piece {
    fn read(body: &mut impl BufRead) -> Result<Piece> {
        let broken = || "the export is not complete; the same command resumes where it broke off";
        let mut head = String::new();
        body.by_ref().take(HEAD_BYTES_MAX).read_line(&mut head).with_context(broken)?;
        if let Some(message) = head.strip_prefix("! ") {
            bail!("{}: {}", broken(), crate::cli::terminal::escaped(message.trim_end()));
        }
        let parts = head.strip_suffix('\n').and_then(|head| head.split_once(' '));
        let parts = parts.and_then(|(bytes, cursor)| Some((bytes.parse::<u64>().ok()?, cursor)));
        let (length, cursor) = parts.with_context(broken)?;
        let mut bytes = Vec::new();
        let read = body.take(length).read_to_end(&mut bytes).with_context(broken)?;
        ensure!(read as u64 == length, broken());
        Ok(Piece { bytes, cursor: cursor.to_owned(), last: length == 0 })
    }
}

fn at_rest(args: &ExportArgs, dir: &Path, output: &mut Output) -> Result<()> {
    let now_ns = RealClock::new().now_ns();
    let query = Query::parse(&args.query, now_ns)?;
    let time = |flag: &str, text: &Option<String>, default| match text {
        None => Ok(default),
        Some(text) => parse_time(text, now_ns).map(|instants| instants.start_ns).ok_or_else(|| {
            anyhow!("{flag}: '{text}' is not a time; write for example 2026-01-31T12:00:00Z or 15m")
        }),
    };
    let range = TimeRange {
        start_ns: time("--start", &args.start, i64::MIN)?,
        end_ns: time("--end", &args.end, i64::MAX)?,
    };
    let bar = bytes_bar("exporting", 0);
    let shown = bar.clone();
    let disk = args.key.disk(dir)?;
    let directory = crate::cli::open_at_rest(&*disk, dir)?;
    let source = RestSource::new(disk, directory, parsers(args)?, move |bytes| {
        shown.inc(bytes);
    });
    bar.set_length(source.bytes(range));
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let limits =
        Limits { run_time: Duration::MAX, rows_max: u64::MAX, threads, ..Limits::default() };
    let include = export::fields(args.format, args.include.clone());
    let order = Some(TimeOrder::default());
    let context = Context { range, order, include, limits, ..Context::default() };
    let columns = match args.format {
        Format::Csv => export::columns(&query, &source, &context)?,
        _ => Vec::new(),
    };
    let mut encoder = Encoder::new(args.format, columns, true);
    let mut bytes = Vec::new();
    encoder.begin(&mut bytes);
    output.write(&bytes)?;
    let mut failed: Option<anyhow::Error> = None;
    let ran = query::run(&query, &source, &context, &mut |rows| {
        bytes.clear();
        let pushed = encoder.push(&rows, &mut bytes).map_err(|error: EncodeError| error.into());
        match pushed.and_then(|()| output.write(&bytes)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    });
    bar.finish_and_clear();
    if let Some(error) = failed {
        return Err(error);
    }
    ran?;
    bytes.clear();
    encoder.finish(&mut bytes);
    output.write(&bytes)?;
    let faults = source.faults();
    for fault in &faults {
        eprintln!("loginson: left out: {}", crate::cli::terminal::escaped(fault));
    }
    if !faults.is_empty() {
        output.keep()?;
        bail!(
            "{} parts of {} could not be read; the rest was exported",
            faults.len(),
            dir.display()
        );
    }
    Ok(())
}

/// The parsers that a server with that configuration uses: other rules would give lines other
/// types.
fn parsers(args: &ExportArgs) -> Result<Parsers> {
    let config = Settings::new(args.config.clone(), |_| {}).load()?.config;
    let parser = Parser::new(&ParserConfig {
        types: config.node.types,
        zone: config.node.zone,
        no_server_fields: config.node.no_server_fields,
    });
    Ok(Parsers::new(parser.context("[[types]] of the configuration")?))
}

/// Standard output. If it is a terminal, control characters are escaped.
fn standard_output(format: Format) -> Result<Box<dyn Write>> {
    let out = BufWriter::new(io::stdout());
    if !io::stdout().is_terminal() {
        return Ok(Box::new(out));
    }
    if format == Format::Parquet {
        bail!("Parquet cannot be written to a terminal; give a file with --output");
    }
    Ok(Box::new(Harmless::new(out)))
}

/// Where an export is written. A file gets its name only when it is complete.
enum Output {
    Standard(Box<dyn Write>),
    File { file: File, part: PathBuf, whole: PathBuf, complete: bool },
}

impl Output {
    fn open(path: Option<&Path>, format: Format) -> Result<Output> {
        let Some(whole) = path else {
            return standard_output(format).map(Output::Standard);
        };
        let part = whole.with_added_extension("part");
        let file =
            File::create(&part).with_context(|| format!("cannot write {}", part.display()))?;
        Ok(Output::File { file, part, whole: whole.to_owned(), complete: false })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Output::Standard(out) => out.write_all(bytes).context("cannot write the export"),
            Output::File { file, part, .. } => {
                file.write_all(bytes).with_context(|| format!("cannot write {}", part.display()))
            }
        }
    }

    /// Gives the file its name.
    fn keep(&mut self) -> Result<()> {
        match self {
            Output::Standard(out) => out.flush().context("cannot write the export"),
            Output::File { file, part, whole, complete } => {
                file.sync_all()
                    .and_then(|()| fs::rename(&*part, &*whole))
                    .with_context(|| format!("cannot write {}", whole.display()))?;
                *complete = true;
                Ok(())
            }
        }
    }

    fn finish(mut self) -> Result<()> {
        match self.keep() {
            Err(error) if broken_pipe(&error) => Ok(()),
            kept => kept,
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Output::File { part, complete: false, .. } = self {
            let _ = fs::remove_file(part);
        }
    }
}

/// Whether the reader of our output went away (`| head`), which is not an error.
fn broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>());
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_part_of_an_export_stays_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let (output, cursor) =
            (directory.path().join("lines.jsonl"), directory.path().join("cursor"));
        continued(&output, &cursor, None).unwrap().write_all(b"a\nb\nhalf").unwrap();
        let error = continued(&output, &cursor, None).unwrap_err();
        assert!(error.to_string().contains("does not say"), "{error}");
        assert_eq!(fs::read(&output).unwrap(), b"a\nb\nhalf");
        // What a piece that broke off left is cut off.
        continued(&output, &cursor, Some(4)).unwrap().write_all(b"c\n").unwrap();
        assert_eq!(fs::read(&output).unwrap(), b"a\nb\nc\n");
        let error = continued(&output, &cursor, Some(7)).unwrap_err();
        assert!(error.to_string().contains("shorter"), "{error}");
    }
}
