//! `loginson migrate`: takes the lines of another store over, or those of files, each once.
//!
//! The lines are moved in slices: intervals of time, or parts of a file. A slice is first written
//! to the state directory as a whole, then sent. All its lines get the name of the slice as
//! `_file`, so after a kill the target itself tells how many of them are durable, and the rest is
//! sent. The source counts each slice before, the target after; then the bytes of all lines are
//! read back and compared.
//!
//! Bounded: the lines of a slice, by splitting its interval; memory, to a batch. Left out: what
//! arrives at the source meanwhile, which another run moves.

mod carrier;
mod origin;
mod state;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use platform::{Clock, RealClock};
use text::duration::DAY_NS;
use text::size::show_bytes;
use text::time::{format_time, parse_period};

use crate::cli::ServerArgs;
use crate::cli::client::Client;
use crate::cli::import::decoded_file;
use crate::cli::import::source::{Reading, Source};
use carrier::{Carrier, Spool};
use origin::{Elasticsearch, Http, Loki, Origin, VictoriaLogs};
use state::{Slice, State};

/// Lines of a slice. An interval with more is split, down to a millisecond.
const SLICE_LINES_MAX: u64 = 500_000;
/// The shortest and the longest interval of a slice.
const STEP_NS_MIN: i64 = 1_000_000;
const STEP_NS_MAX: i64 = 7 * DAY_NS;
/// Attempts at reading a slice of a source that fails, or that counts other lines than it gives.
const ATTEMPTS_MAX: u32 = 4;

#[derive(Args)]
#[command(after_help = "Examples:
  loginson migrate victorialogs http://old:9428 --from 2026-01-01 --to 2026-11-01
  loginson migrate loki http://old:3100 --query '{env=\"prod\"}' --from 2026-01-01
  loginson migrate elasticsearch http://old:9200 --index 'logs-*' --from 2026-01-01
  loginson migrate files /srv/archive/*.ndjson.zst

A migration that was killed resumes when the same command is given again, and moves each line once. Its state is in the
directory of --state, and so is report.jsonl: for each slice what the source counted, what arrived, and whether the bytes are
equal. Rules of the target that drop or change lines make the two differ; switch them off meanwhile.")]
pub struct MigrateArgs {
    #[command(subcommand)]
    from: From,
}

#[derive(Subcommand)]
enum From {
    /// From VictoriaLogs, or another server with its query API
    Victorialogs(VictoriaLogsArgs),
    /// From Grafana Loki
    Loki(LokiArgs),
    /// From Elasticsearch or OpenSearch
    Elasticsearch(ElasticsearchArgs),
    /// From files: JSON lines, text, dumps; plain, gzip and zstd
    Files(FilesArgs),
}

#[derive(Args)]
struct VictoriaLogsArgs {
    /// Address of the source
    #[arg(value_name = "URL")]
    url: String,
    /// Filter in LogsQL, without pipes
    #[arg(long, default_value = "*")]
    query: String,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    how: HowArgs,
}

#[derive(Args)]
struct LokiArgs {
    /// Address of the source
    #[arg(value_name = "URL")]
    url: String,
    /// Streams and filters in LogQL
    #[arg(long, default_value = "{service_name=~\".+\"}")]
    query: String,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    how: HowArgs,
}

#[derive(Args)]
struct ElasticsearchArgs {
    /// Address of the source
    #[arg(value_name = "URL")]
    url: String,
    /// Names of indices, with * for any text
    #[arg(long, default_value = "*")]
    index: String,
    /// Filter, as in the search field of Kibana (query_string)
    #[arg(long, default_value = "*")]
    query: String,
    /// Field of the documents that holds the time
    #[arg(long, value_name = "FIELD", default_value = "@timestamp")]
    time_field: String,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    how: HowArgs,
}

#[derive(Args)]
struct FilesArgs {
    /// Files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    how: HowArgs,
}

#[derive(Args)]
struct SourceArgs {
    /// First instant that is moved
    #[arg(long, value_name = "TIME")]
    from: String,
    /// First instant that is not moved any more [default: now, when the migration is begun]
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// File with headers for the source, each a line: Authorization, X-Scope-OrgID, AccountID …
    #[arg(long, value_name = "FILE")]
    source_headers: Option<PathBuf>,
    /// Certificate of the source or of its CA, if the system does not trust it
    #[arg(long, value_name = "FILE.pem")]
    source_ca: Option<PathBuf>,
}

#[derive(Args)]
struct HowArgs {
    /// Directory of the state, from which a killed migration resumes
    #[arg(long, value_name = "DIR", default_value = "loginson-migration")]
    state: PathBuf,
    /// Most lines a second
    #[arg(long, value_name = "LINES")]
    rate: Option<u64>,
    /// Do not read back and compare what arrived; it is counted all the same
    #[arg(long)]
    no_compare: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs the command.
pub fn run(args: MigrateArgs) -> Result<()> {
    match args.from {
        From::Victorialogs(args) => {
            let mut origin = VictoriaLogs::new(http(&args.url, &args.source)?, &args.query);
            of_times(&mut origin, &args.source, &args.how)
        }
        From::Loki(args) => {
            let mut origin = Loki::new(http(&args.url, &args.source)?, &args.query);
            of_times(&mut origin, &args.source, &args.how)
        }
        From::Elasticsearch(args) => {
            let http = http(&args.url, &args.source)?;
            let mut origin = Elasticsearch::new(http, &args.index, &args.query, &args.time_field);
            of_times(&mut origin, &args.source, &args.how)
        }
        From::Files(args) => of_files(&args),
    }
}

fn http(url: &str, source: &SourceArgs) -> Result<Http> {
    Http::new(url, source.source_headers.as_deref(), source.source_ca.as_deref())
}

fn instant(flag: &str, text: &str) -> Result<i64> {
    parse_period(text).map(|period| period.start_ns).with_context(|| {
        format!(
            "{flag}: '{}' is no time; write 2026-01-01 or 2026-01-01T12:00:00Z",
            text.escape_default()
        )
    })
}

/// Moves what a store has of an interval.
fn of_times(origin: &mut dyn Origin, source: &SourceArgs, how: &HowArgs) -> Result<()> {
    let from_ns = instant("--from", &source.from)?;
    let given_to = source.to.as_deref().map(|to| instant("--to", to)).transpose()?;
    let what = origin.describe();
    let now_ns = RealClock::new().now_ns();
    let mut state =
        State::open(&how.state, || State::begin(&what, from_ns, given_to.unwrap_or(now_ns)))?;
    ensure!(
        state.what == what
            && state.from_ns == from_ns
            && given_to.is_none_or(|to| to == state.to_ns),
        "{} holds another migration: {} from {} to {}; give its command again, or another directory with --state",
        how.state.display(),
        state.what,
        format_time(state.from_ns),
        format_time(state.to_ns)
    );
    ensure!(state.from_ns < state.to_ns, "--from must be before --to");
    let total = count_all(origin, &state)?;
    let unseen = with_retries("count the lines", || origin.without_time())?;
    let mut carrier = carrier(how)?;
    let bar = lines_bar(total, state.lines);
    while let Some(slice) = next_slice(origin, &mut state)? {
        let (start, end) = (slice.start, slice.end);
        let read = |spool: &mut Spool| origin.read(start, end, &mut |record| spool.add(record));
        move_slice(&mut carrier, &mut state, slice, &bar, origin_params(&what), read)?;
    }
    bar.finish_and_clear();
    let again = count_all(origin, &state)?;
    if again != state.lines {
        bail!(
            "{} lines were moved, and the source counts {again} from {} to {}: lines arrived or were deleted there meanwhile; \
             move what is missing by another migration, with another --state, or compare both by {}",
            state.lines,
            format_time(state.from_ns),
            format_time(state.to_ns),
            state.report_path().display()
        );
    }
    if unseen > 0 {
        eprintln!(
            "{unseen} documents of the source have no time in the field that --time-field names, and were not moved"
        );
    }
    tell(&state)
}

/// Lines of the whole interval. Sources refuse to look at a long time at once.
fn count_all(origin: &dyn Origin, state: &State) -> Result<u64> {
    let (mut start, mut lines) = (state.from_ns, 0);
    while start < state.to_ns {
        let end = start.saturating_add(STEP_NS_MAX).min(state.to_ns);
        lines += with_retries("count the lines", || origin.count(start, end))?;
        start = end;
    }
    Ok(lines)
}

/// Parameters of the target for lines of a source.
fn origin_params(what: &str) -> Vec<(&'static str, String)> {
    match what.strip_prefix("elasticsearch ").and_then(|rest| rest.split_whitespace().nth(1)) {
        Some(time_field) => vec![("_time_field", format!("{time_field},_time"))],
        None => Vec::new(),
    }
}

/// The slice that is under way, or the next one; none at the end. Intervals without lines are
/// passed over, and those with too many are split.
fn next_slice(origin: &mut dyn Origin, state: &mut State) -> Result<Option<Slice>> {
    if let Some(slice) = &state.current {
        return Ok(Some(slice.clone()));
    }
    while state.next_ns < state.to_ns {
        let start = state.next_ns;
        let mut end = start.saturating_add(state.step_ns).min(state.to_ns);
        let mut lines = with_retries("count the lines", || origin.count(start, end))?;
        while lines > SLICE_LINES_MAX && end - start > STEP_NS_MIN {
            end = start + (end - start) / 2;
            state.step_ns = end - start;
            lines = with_retries("count the lines", || origin.count(start, end))?;
        }
        if lines < SLICE_LINES_MAX / 4 {
            state.step_ns = state.step_ns.saturating_mul(2).min(STEP_NS_MAX);
        }
        if lines > 0 {
            let slice = Slice { start, end, expected: Some(lines), tag: state.tag(start) };
            state.current = Some(slice.clone());
            state.save()?;
            return Ok(Some(slice));
        }
        state.next_ns = end;
        state.save()?;
    }
    Ok(None)
}

/// Moves one slice; `read` writes its lines.
fn move_slice(
    carrier: &mut Carrier,
    state: &mut State,
    slice: Slice,
    bar: &ProgressBar,
    params: Vec<(&'static str, String)>,
    mut read: impl FnMut(&mut Spool) -> Result<()>,
) -> Result<()> {
    let (spool, is_begun) = match Spool::complete(state.directory(), &slice.tag)? {
        Some(spool) => (spool, true),
        None => {
            let mut attempt = 1;
            loop {
                let mut spool = Spool::begin(state.directory(), &slice.tag)?;
                let outcome = read(&mut spool).and_then(|()| {
                    let expected = slice.expected.unwrap_or(spool.lines());
                    ensure!(
                        spool.lines() == expected,
                        "the source counts {expected} lines from {} to {}, and gave {}; lines may still arrive there: give a \
                         --to that is some minutes ago, or look whether the source limits its answers",
                        format_time(slice.start),
                        format_time(slice.end),
                        spool.lines()
                    );
                    Ok(())
                });
                match outcome {
                    Ok(()) => break (spool.finish()?, false),
                    Err(error) if attempt >= ATTEMPTS_MAX => {
                        return Err(error.context(
                            "a slice cannot be read; give the same command again to resume",
                        ));
                    }
                    Err(error) => carrier::pause(attempt, &error),
                }
                attempt += 1;
            }
        }
    };
    settle(carrier, state, &slice, spool, is_begun, &params, bar)
}

/// Sends a slice that is on the disk, compares it, and notes that it is done.
fn settle(
    carrier: &mut Carrier,
    state: &mut State,
    slice: &Slice,
    spool: Spool,
    is_begun: bool,
    params: &[(&'static str, String)],
    bar: &ProgressBar,
) -> Result<()> {
    carrier.carry(&spool, is_begun, params, bar)?;
    let report = carrier.compare(&spool)?;
    state.note(slice, &spool, report)?;
    spool.delete()
}

/// Moves files, in parts.
fn of_files(args: &FilesArgs) -> Result<()> {
    let names: Vec<String> = args
        .files
        .iter()
        .map(|file| {
            std::fs::canonicalize(file).with_context(|| format!("cannot open {}", file.display()))
        })
        .map(|file| file.map(|file| file.to_string_lossy().into_owned()))
        .collect::<Result<_>>()?;
    let what = format!("files {}", names.join(" "));
    let mut state = State::open(&args.how.state, || State::begin(&what, 0, 0))?;
    ensure!(
        state.what == what,
        "{} holds another migration: {}; give its command again, or another directory with --state",
        args.how.state.display(),
        state.what
    );
    let mut carrier = carrier(&args.how)?;
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_style(
        ProgressStyle::with_template("{spinner} {pos} lines  {per_sec}  {msg}")
            .expect("well formed"),
    );
    bar.set_position(state.lines);
    while let Some(file) = args.files.get(state.file) {
        bar.set_message(crate::cli::terminal::escaped(&file.to_string_lossy()));
        one_file(&mut carrier, &mut state, file, &bar)
            .with_context(|| format!("{}", file.display()))?;
        (state.file, state.next_ns) = (state.file + 1, 0);
        state.save()?;
    }
    bar.finish_and_clear();
    tell(&state)
}

/// Moves the rest of a file. `next_ns` of the state counts the lines that are done.
fn one_file(
    carrier: &mut Carrier,
    state: &mut State,
    file: &Path,
    bar: &ProgressBar,
) -> Result<()> {
    // A part that is complete in the state directory is not read again.
    if let Some(slice) = state.current.take()
        && let Some(spool) = Spool::complete(state.directory(), &slice.tag)?
    {
        settle(carrier, state, &slice, spool, true, &[], bar)?;
    }
    let reading = Reading { joins: false, knows_dumps: true };
    let mut source = Source::open(decoded_file(file)?, reading, state.next_ns.unsigned_abs())?;
    loop {
        let start = state.next_ns;
        let tag = state.tag(start);
        let mut spool = Spool::begin(state.directory(), &tag)?;
        let mut at_end = false;
        while spool.lines() < SLICE_LINES_MAX {
            let (batch, result) = source.next();
            at_end = batch.is_none();
            if let Some(batch) = batch {
                spool.add_lines(&batch.body, &batch.stream_fields)?;
            }
            result?;
            if at_end {
                break;
            }
        }
        let lines = spool.lines();
        if lines > 0 {
            let end = start + i64::try_from(lines)?;
            let slice = Slice { start, end, expected: Some(lines), tag };
            state.current = Some(slice.clone());
            state.save()?;
            let spool = spool.finish()?;
            settle(carrier, state, &slice, spool, false, &[], bar)?;
        }
        if at_end {
            return Ok(());
        }
    }
}

fn carrier(how: &HowArgs) -> Result<Carrier> {
    let client = Client::new(&how.server)?;
    ensure!(how.rate != Some(0), "--rate must be above zero");
    Ok(Carrier::new(client, how.rate, !how.no_compare))
}

/// Calls a source until it answers, some times.
fn with_retries<T>(what: &str, mut call: impl FnMut() -> Result<T>) -> Result<T> {
    let mut attempt = 1;
    loop {
        match call() {
            Ok(done) => return Ok(done),
            Err(error) if attempt >= ATTEMPTS_MAX || error.is::<origin::Refused>() => {
                return Err(error.context(format!("the source does not {what}")));
            }
            Err(error) => carrier::pause(attempt, &error),
        }
        attempt += 1;
    }
}

fn lines_bar(total: u64, done: u64) -> ProgressBar {
    let style = "{bar:30} {percent:>3}%  {pos} of {len} lines  {per_sec}  {eta} left";
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template(style).expect("the template is well formed"));
    // The rate is that of this run.
    bar.set_position(done);
    bar.reset_elapsed();
    bar
}

fn tell(state: &State) -> Result<()> {
    let report = state.report_path();
    eprintln!(
        "{} lines, {} in {} slices: the source counted {}, {} arrived, {} were read back and are equal; see {}",
        state.lines,
        show_bytes(state.bytes),
        state.slices,
        state.expected,
        state.arrived,
        state.compared,
        report.display()
    );
    if state.unequal > 0 {
        return Err(anyhow!(
            "{} slices differ from their source; {} names them. Rules of the target that drop or change lines do that",
            state.unequal,
            report.display()
        ));
    }
    Ok(())
}
