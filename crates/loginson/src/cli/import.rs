//! `loginson import`: sends files to a running server, batch by batch.
//!
//! A batch is sent again only if the server said how much of it was kept (busy, disk full). If a
//! connection breaks, that is unknown, so the command ends and says from which line to resume.

pub mod dump;
mod journal;
pub mod source;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use node::ingest::format::message_format;
use platform::pauses::Pauses;
use platform::{Clock, RealClock};
use record::Hints;
use record::frame::LINE_BYTES_MAX;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, fstatfs};
use text::size::show_bytes;
use text::utf16::{MARK_BYTES, Order};

use crate::cli::ServerArgs;
use crate::cli::client::{Client, NotReached, Refusal};
use crate::cli::zoneless::Zoneless;
use crate::config::zones;
use source::{Batch, Reading, Source};

/// A batch is sent once it has this size. Each is acknowledged when it is durable.
const BATCH_BYTES_TARGET: usize = 4 << 20;
/// Fields that name the streams of a batch of a dump; the server takes no more.
const STREAM_FIELDS_MAX: usize = 64;
/// Attempts to send one batch while the server is busy or its disk full: about 4 minutes, with the
/// pauses between them. Then the import ends with an error.
const ATTEMPTS_MAX: u32 = 12;
/// Pauses between two attempts.
const PAUSES: Pauses = Pauses::new(Duration::from_secs(1), Duration::from_secs(30));
/// The largest window of a zstd stream that is accepted, as a power of two: the one of `zstd
/// --long`.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

#[derive(Args)]
#[command(after_help = "Examples:
  loginson import /var/log/syslog
  loginson import --type access access.log access.log.1.gz access.log.2.zst
  loginson import --timezone Europe/Berlin app.log
  loginson import --format logfmt --time-field when --level-field sev app.log
  journalctl -o export | loginson import -
  logcli query '{app=\"cart\"}' -o jsonl | loginson import -

Stack traces and other lines that continue the line before them become one record with it. Dumps of
Elasticsearch, Loki, VictoriaLogs, Splunk, CloudWatch and of systemd's journal are recognised; of them,
--skip-lines counts records. Plain, gzip and zstd files are recognised by their first bytes, and so is
UTF-16, which becomes UTF-8. A failed import says how many lines were
acknowledged; repeat the command with the file that failed and those after it, and with --skip-lines.")]
pub struct ImportArgs {
    /// Files to send; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Type of the lines, instead of the one by the rules for types
    #[arg(long = "type", value_name = "TYPE")]
    log_type: Option<String>,
    /// How lines are parsed, instead of detecting it from the text
    #[arg(long, value_name = "FORMAT", value_parser = ["auto", "plain", "json", "access", "logfmt"])]
    format: Option<String>,
    /// Keys of JSON or logfmt that hold the time, in order of preference
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    time_field: Vec<String>,
    /// Keys that hold the message
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    msg_field: Vec<String>,
    /// Keys that hold the level
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    level_field: Vec<String>,
    /// Keys that name the stream of a line
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    stream_fields: Vec<String>,
    /// Whether lines that belong together become one record: traces or off
    #[arg(long, value_name = "WORD", default_value = "traces", value_parser = ["traces", "off"])]
    multiline: String,
    /// Zone of times that name none: Europe/Berlin, +02:00, UTC, or local for that of this machine
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// Number of lines of the first file to skip, because they were acknowledged before
    #[arg(long, value_name = "LINES", default_value_t = 0)]
    skip_lines: u64,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs the command.
pub fn run(args: ImportArgs) -> Result<()> {
    let client = Client::new(&args.server)?;
    let started = Instant::now();
    let (mut lines, mut bytes) = (0, 0);
    let format = args.format.unwrap_or_default();
    let reading = Reading {
        joins: args.multiline == "traces",
        knows_dumps: matches!(format.as_str(), "" | "auto" | "json"),
    };
    let timezone = args.timezone.as_deref().unwrap_or_default();
    let timezone = zones::name("--timezone", timezone)?;
    let mut zoneless = timezone.is_none().then(|| {
        let hints = Hints {
            log_type: args.log_type.clone(),
            format: message_format(&format).ok(),
            time_fields: args.time_field.clone(),
            ..Hints::default()
        };
        Zoneless::new(hints, RealClock::new().now_ns())
    });
    let options = [
        ("timezone", timezone.unwrap_or_default()),
        ("type", args.log_type.unwrap_or_default()),
        ("format", format),
        ("_time_field", args.time_field.join(",")),
        ("_msg_field", args.msg_field.join(",")),
        ("_level_field", args.level_field.join(",")),
        ("_stream_fields", args.stream_fields.join(",")),
        ("line_break", "vt".to_owned()),
    ];
    for (i, path) in args.files.iter().enumerate() {
        let skip = if i == 0 { args.skip_lines } else { 0 };
        let mut import = Import {
            client: &client,
            path,
            options: &options,
            reading,
            zoneless: zoneless.as_mut(),
            bar: ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()),
            lines_kept: 0,
            bytes_kept: 0,
        };
        let result = import.run(skip);
        import.bar.finish_and_clear();
        result.with_context(|| {
            let (path, kept) = (path.display(), import.lines_kept);
            match (i, kept) {
                (0, 0) => format!("{path}"),
                (_, 0) => format!(
                    "{path}: no line of it was acknowledged; the files before it are kept. To resume, give it and those \
                     after it again"
                ),
                _ => format!(
                    "{path}: {kept} lines of it were acknowledged; to resume, give it and the files after it with \
                     --skip-lines {kept}"
                ),
            }
        })?;
        lines += import.lines_kept - skip;
        bytes += import.bytes_kept;
    }
    let seconds = started.elapsed().as_secs_f64().max(0.001);
    eprintln!(
        "{lines} lines, {} in {seconds:.1} s ({:.0} lines/s), acknowledged as durable",
        show_bytes(bytes),
        lines as f64 / seconds
    );
    if let Some(zoneless) = zoneless.filter(|zoneless| zoneless.lines > 0) {
        eprintln!(
            "{} of these lines have a time without a zone, which the server read as UTC unless its configuration has \
             another zone for them; the option --timezone says which zone it is, for example --timezone Europe/Berlin",
            zoneless.lines
        );
    }
    Ok(())
}

struct Import<'a> {
    client: &'a Client,
    path: &'a Path,
    /// Parameters that are the same for all files, without empty ones.
    options: &'a [(&'static str, String)],
    reading: Reading,
    /// Counts lines without a zone, if none was given.
    zoneless: Option<&'a mut Zoneless>,
    bar: ProgressBar,
    /// Lines of the file known to be durable, those of an earlier import included.
    lines_kept: u64,
    /// Bytes of lines acknowledged by this import.
    bytes_kept: u64,
}

impl Import<'_> {
    fn run(&mut self, skip_lines: u64) -> Result<()> {
        let mut source = Source::open(self.open()?, self.reading, skip_lines)?;
        self.lines_kept = skip_lines;
        loop {
            let (batch, result) = source.next();
            let at_end = batch.is_none();
            if let Some(batch) = batch {
                self.send(batch)?;
            }
            result?;
            if at_end {
                return Ok(());
            }
        }
    }

    /// Opens the file. The progress bar counts the bytes read of it, before decompression.
    fn open(&self) -> Result<Box<dyn BufRead>> {
        let plain: Box<dyn Read> = if self.path == Path::new("-") {
            Box::new(io::stdin())
        } else {
            let (file, length) = open_file(self.path).context("cannot open it")?;
            length.into_iter().for_each(|length| self.bar.set_length(length));
            Box::new(file)
        };
        let style = if self.bar.length().is_some() {
            "{prefix} {bar:30} {percent:>3}%  {bytes} of {total_bytes}  {msg}  {eta} left"
        } else {
            "{prefix} {spinner}  {bytes}  {msg}"
        };
        self.bar
            .set_style(ProgressStyle::with_template(style).expect("the template is well formed"));
        self.bar.set_prefix(crate::cli::terminal::escaped(&self.path.to_string_lossy()));
        decoded(Box::new(self.bar.wrap_read(plain))).context("cannot read it")
    }

    /// Sends a batch until it is durable as a whole.
    fn send(&mut self, mut batch: Batch) -> Result<()> {
        if let Some(zoneless) = &mut self.zoneless {
            zoneless.count(&batch.body);
        }
        let mut pauses = PAUSES;
        for attempt in 1.. {
            let refusal = match self.post(&batch)? {
                Ok((records, bytes)) => {
                    let expected = batch.records();
                    if records != expected {
                        bail!(
                            "the server counted {records} lines in a batch of {expected}; its version may differ"
                        );
                    }
                    self.acknowledged(batch.lines(records), bytes);
                    return Ok(());
                }
                Err(refusal) => refusal,
            };
            // The part of the batch that became durable is not sent again.
            let kept = refusal.body["lines"].as_u64().unwrap_or(0);
            let bytes = refusal.body["bytes"].as_u64().unwrap_or(0);
            self.acknowledged(batch.lines(kept), bytes);
            batch.drop_front(kept);
            if batch.body.is_empty() {
                return Ok(());
            }
            if !matches!(refusal.status, 503 | 507) || attempt >= ATTEMPTS_MAX {
                bail!("{}", crate::cli::terminal::escaped(&refusal.message()));
            }
            let pause = pauses.pause();
            self.bar.suspend(|| {
                let message = crate::cli::terminal::escaped(&refusal.message());
                eprintln!("loginson: {message}; trying again in {} s", pause.as_secs());
            });
            thread::sleep(pause);
        }
        unreachable!("the last attempt returns")
    }

    fn acknowledged(&mut self, lines: u64, bytes: u64) {
        self.lines_kept += lines;
        self.bytes_kept += bytes;
        let rate = self.lines_kept as f64 / self.bar.elapsed().as_secs_f64().max(0.001);
        self.bar.set_message(format!("{} lines, {rate:.0}/s", self.lines_kept));
    }

    fn post(&self, batch: &Batch) -> Result<Result<(u64, u64), Refusal>> {
        let file = self.path.to_string_lossy();
        let mut params = vec![("file", file.as_ref())];
        let given = self.options.iter().filter(|(_, value)| !value.is_empty());
        params.extend(given.map(|(name, value)| (*name, value.as_str())));
        let streams: Vec<&str> =
            batch.stream_fields.iter().take(STREAM_FIELDS_MAX).map(String::as_str).collect();
        let streams = streams.join(",");
        if !streams.is_empty() && params.iter().all(|(name, _)| *name != "_stream_fields") {
            params.push(("_stream_fields", &streams));
        }
        let answer = self.client.post_bytes("/insert/lines", &params, &batch.body).map_err(|error| {
            if error.is::<NotReached>() {
                return error;
            }
            error.context(
                "the last batch may have been kept or not; look for its first line before you resume",
            )
        })?;
        let mut response = match answer {
            Ok(response) => response,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let text =
            response.body_mut().read_to_string().context("the server's answer was cut off")?;
        let counts: serde_json::Value =
            serde_json::from_str(&text).context("the server's answer is not JSON")?;
        let number = |name: &str| {
            counts[name].as_u64().ok_or_else(|| anyhow!("the server's answer lacks '{name}'"))
        };
        Ok(Ok((number("lines")?, number("bytes")?)))
    }
}

/// Opens a file, and returns its length; None for a pipe that is open already, as of a shell's
/// `<(zcat access.log.gz)`. Nothing else is opened: a named pipe would wait, without a word, for
/// whoever writes to it, and a device may have no end.
fn open_file(path: &Path) -> Result<(File, Option<u64>)> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = File::options();
    let file = options.read(true).custom_flags(flags.bits() as i32).open(path)?;
    let found = file.metadata()?;
    if found.is_file() {
        return Ok((file, Some(found.len())));
    }
    // A named pipe is on the file system of its name.
    let is_open_pipe = found.file_type().is_fifo() && fstatfs(&file)?.f_type == PIPE_FILE_SYSTEM;
    if is_open_pipe {
        fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
        return Ok((file, None));
    }
    let what = match found.file_type() {
        found if found.is_dir() => "a directory; name the files in it",
        found if found.is_fifo() => {
            "a named pipe; give its lines through standard input, with - in place of its name"
        }
        _ => "a device; give its lines through standard input, with - in place of its name",
    };
    bail!("it is {what}")
}

/// Opens a file that is read as it would be imported.
pub fn decoded_file(path: &Path) -> Result<Box<dyn BufRead>> {
    let (file, _) = open_file(path).context("cannot open it")?;
    decoded(Box::new(file)).context("cannot read it")
}

/// The type of the file system of pipes without a name (PIPEFS_MAGIC in linux/magic.h).
const PIPE_FILE_SYSTEM: i64 = 0x5049_5045;

/// Decompresses a file whose first bytes are those of a known compression, and makes UTF-8 of one
/// that is in UTF-16.
fn decoded(plain: Box<dyn Read>) -> io::Result<Box<dyn BufRead>> {
    let mut reader = decompressed(plain)?;
    let order = Order::of(reader.fill_buf()?);
    Ok(match order {
        Some(order) => {
            reader.consume(MARK_BYTES);
            let utf16 = Utf16 { reader, order, held: Vec::new(), text: Vec::new(), given: 0 };
            Box::new(BufReader::with_capacity(64 << 10, utf16))
        }
        None => reader,
    })
}

/// Reads UTF-16 as UTF-8.
struct Utf16 {
    reader: Box<dyn BufRead>,
    order: Order,
    /// Bytes that are less than a character.
    held: Vec<u8>,
    /// Text of which `given` bytes were given.
    text: Vec<u8>,
    given: usize,
}

impl Read for Utf16 {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.given == self.text.len() {
            let available = self.reader.fill_buf()?;
            let is_end = available.is_empty();
            let taken = available.len().min(64 << 10);
            self.held.extend_from_slice(&available[..taken]);
            self.reader.consume(taken);
            self.text.clear();
            self.given = 0;
            let decoded = self.order.decode(&self.held, is_end, &mut self.text);
            self.held.drain(..decoded);
            if is_end {
                break;
            }
        }
        let rest = &self.text[self.given..];
        let bytes = rest.len().min(into.len());
        into[..bytes].copy_from_slice(&rest[..bytes]);
        self.given += bytes;
        Ok(bytes)
    }
}

/// Decompresses a file whose first bytes are those of a known compression.
fn decompressed(plain: Box<dyn Read>) -> io::Result<Box<dyn BufRead>> {
    let mut reader = BufReader::with_capacity(1 << 20, plain);
    let start = reader.fill_buf()?;
    if start.starts_with(&[0x1f, 0x8b]) {
        let gzip = flate2::bufread::MultiGzDecoder::new(reader);
        return Ok(Box::new(BufReader::with_capacity(1 << 20, gzip)));
    }
    if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let mut zstd = zstd::stream::read::Decoder::with_buffer(reader)?;
        zstd.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
        return Ok(Box::new(BufReader::with_capacity(1 << 20, zstd)));
    }
    Ok(Box::new(reader))
}

/// Appends the next line with its newline to `batch`; false at the end of the file. A line above
/// the limit is cut one byte behind it, so that memory is bounded and the server still counts the
/// line as oversized.
fn read_line(reader: &mut impl BufRead, batch: &mut Vec<u8>) -> io::Result<bool> {
    let start = batch.len();
    loop {
        let available = match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            available => available?,
        };
        if available.is_empty() {
            return Ok(batch.len() > start && batch.last() == Some(&b'\n'));
        }
        let newline = memchr::memchr(b'\n', available);
        let piece = &available[..newline.unwrap_or(available.len())];
        let room = (LINE_BYTES_MAX + 1).saturating_sub(batch.len() - start);
        batch.extend_from_slice(&piece[..piece.len().min(room)]);
        let used = piece.len() + usize::from(newline.is_some());
        reader.consume(used);
        if newline.is_some() {
            batch.push(b'\n');
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn lines_of(bytes: Vec<u8>) -> Vec<Vec<u8>> {
        let mut reader = decompressed(Box::new(io::Cursor::new(bytes))).unwrap();
        let mut lines = Vec::new();
        loop {
            let mut line = Vec::new();
            let more = read_line(&mut reader, &mut line).unwrap();
            if !line.is_empty() {
                lines.push(line);
            }
            if !more {
                return lines;
            }
        }
    }

    #[test]
    fn lines_of_each_compression() {
        let text = b"one\n\ntwo\r\nlast without newline";
        let expected: Vec<Vec<u8>> =
            [&b"one\n"[..], b"\n", b"two\r\n", b"last without newline"].map(<[u8]>::to_vec).into();
        assert_eq!(lines_of(text.to_vec()), expected);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text[..5]).unwrap();
        let mut two_members = gzip.finish().unwrap();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text[5..]).unwrap();
        two_members.extend(gzip.finish().unwrap());
        assert_eq!(lines_of(two_members), expected);
        assert_eq!(lines_of(zstd::encode_all(&text[..], 1).unwrap()), expected);
        assert_eq!(lines_of(Vec::new()), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn a_line_is_cut_one_byte_above_the_limit() {
        for (length, kept) in [
            (LINE_BYTES_MAX, LINE_BYTES_MAX),
            (LINE_BYTES_MAX + 1, LINE_BYTES_MAX + 1),
            (LINE_BYTES_MAX + 9, LINE_BYTES_MAX + 1),
        ] {
            let mut text = vec![b'x'; length];
            text.extend_from_slice(b"\nnext\n");
            let lines = lines_of(text);
            assert_eq!((lines[0].len(), lines[1].as_slice()), (kept + 1, &b"next\n"[..]));
        }
    }
}
