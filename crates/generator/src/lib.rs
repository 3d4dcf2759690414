//! `loginson generate`: generated logs of a small shop, for a demonstration or as load.
//!
//! One loop takes due lines from the [schedule](clock), has them written by the [incident], by the
//! [templates] or from [files](replay), and [sends](send) them in batches. The same seed and start
//! give the same lines. Left out: several connections; for more load, start the command several
//! times.

mod clock;
mod database;
mod envelope;
mod incident;
mod mail;
mod network;
mod orders;
mod replay;
mod send;
mod system;
mod templates;
mod web;
mod world;

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use fastrand::Rng;
use text::duration::parse_setting;
use text::size::show_bytes;

use self::clock::{Due, Schedule, Stamp, now_ns};
use self::envelope::Format;
use self::incident::{Incident, Plan};
use self::replay::Replay;
use self::send::{Framing, Lines, Sender, Target};
use self::templates::Mix;
use self::world::{Context, HOSTS, Pids};

/// A batch is sent when it has this size, or when no further line is due. Over HTTP each request
/// waits until its lines are durable, so small batches are slow.
const BATCH_BYTES: usize = 1 << 20;
/// The longest sleep until the next line; Ctrl-C is checked afterwards.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// How often the progress line is updated.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// Arguments of `loginson generate`.
#[derive(Args)]
#[command(after_help = "Examples:
  loginson generate                                         100 lines a second by syslog to the server on this machine
  loginson generate --rate 200 --backfill 1h                an hour of history first, with an incident in it
  loginson generate --to udp://logs.example:514 --format rfc3164
  loginson generate --to http://127.0.0.1:9514 --format json
  loginson generate --rate 0 --lines 1000000                as fast as possible
  loginson generate --to - --lines 20 --seed 7              have a look at the lines
  loginson generate --replay access.log app.log --rate 500  lines of files instead of made-up ones

The lines are those of a small shop: web servers, an application that logs JSON, databases, a mail server, a load
balancer and a router. In an incident a full disk on db1 makes the application fail, and /api/orders answers with 500.")]
pub struct GenerateArgs {
    /// Target: tcp://HOST:PORT, udp://HOST:PORT, http://HOST:PORT, or - for standard output
    #[arg(long, value_name = "TARGET", default_value = "tcp://127.0.0.1:5514")]
    to: Target,
    /// Lines per second; 0: as fast as possible
    #[arg(long, value_name = "LINES", default_value_t = 100)]
    rate: u64,
    /// End after this number of lines, including those of the history
    #[arg(long, value_name = "LINES")]
    lines: Option<u64>,
    /// End after this time
    #[arg(long, value_name = "DURATION", value_parser = parse_setting)]
    duration: Option<Duration>,
    /// Send a history of this length first, as fast as possible, with times in the past; it needs
    /// --format rfc5424 or json
    #[arg(long, value_name = "DURATION", value_parser = parse_setting)]
    backfill: Option<Duration>,
    /// Seed of the random numbers: the same seed and start give the same lines [default: random]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Start time as Unix seconds, instead of now; with --seed, the lines can be reproduced
    #[arg(long, value_name = "SECONDS")]
    start: Option<u32>,
    /// Format of the lines; default: json over HTTP, else rfc5424
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// How lines are framed on a TCP connection
    #[arg(long, value_enum, default_value_t = Framing::Newline)]
    framing: Framing,
    /// When incidents happen: none, demo (22 minutes before the start, 3 minutes after it, then
    /// every 25 minutes), 'every 15m', 'at 2m', 'at -20m'
    #[arg(long, value_name = "PLAN", default_value = "demo", value_parser = incident::parse_plan, allow_hyphen_values = true)]
    incident: Plan,
    /// Send lines of these files instead, with new random digits in identifiers
    #[arg(long, value_name = "FILE", num_args = 1..)]
    replay: Vec<PathBuf>,
    /// Show no progress on standard error
    #[arg(long)]
    quiet: bool,
}

/// Runs the command.
pub fn run(args: GenerateArgs) -> Result<()> {
    let stop = stop_on_ctrl_c()?;
    let format = args.format.unwrap_or(match args.to {
        Target::Http(_) => Format::Json,
        _ => Format::Rfc5424,
    });
    let live_ns = args.start.map_or_else(now_ns, |s| i64::from(s) * clock::SECOND_NS);
    let history_ns = args.backfill.map_or(0, text::duration::ns);
    let end_ns = args.duration.map_or(i64::MAX, |d| live_ns.saturating_add(text::duration::ns(d)));
    let mut schedule =
        Schedule::new(live_ns, history_ns, args.rate).until(args.lines.unwrap_or(u64::MAX), end_ns);
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    let replay = match args.replay.is_empty() {
        true => None,
        false => Some(Replay::open(&args.replay)?),
    };
    let mut generator = Generator::new(seed, live_ns, args.incident, replay);
    let mut sender = Sender::connect(args.to, format, args.framing, &stop)?;
    let mut progress = Progress::new(args.quiet);
    let mut lines = Lines::default();
    let mut is_over = false;
    while !is_over && !stop.load(Ordering::Relaxed) {
        let asked_ns = now_ns();
        let mut sleep = Duration::ZERO;
        let mut reached_ns = asked_ns;
        while lines.bytes().len() < BATCH_BYTES {
            match schedule.next(asked_ns) {
                Due::Line(time_ns) => {
                    reached_ns = time_ns;
                    lines.push(|out| generator.line(time_ns, format, out));
                }
                Due::At(due_ns) => {
                    sleep = Duration::from_nanos(due_ns.abs_diff(asked_ns)).min(SLEEP_MAX);
                    break;
                }
                Due::Over => {
                    is_over = true;
                    break;
                }
            }
        }
        if lines.len() > 0 {
            if !sender.send(&lines)? {
                break;
            }
            progress.sent(&lines, schedule.history_done(reached_ns));
            lines.clear();
        }
        if !is_over {
            thread::sleep(sleep);
        }
    }
    let trouble = sender.trouble;
    sender.finish()?;
    progress.finish(trouble);
    Ok(())
}

/// A flag that Ctrl-C sets; the second Ctrl-C ends the process at once.
fn stop_on_ctrl_c() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .context("cannot listen for Ctrl-C")?;
    thread::spawn(move || {
        runtime.block_on(async {
            if tokio::signal::ctrl_c().await.is_ok() {
                flag.store(true, Ordering::Relaxed);
                if tokio::signal::ctrl_c().await.is_ok() {
                    std::process::exit(130);
                }
            }
        });
    });
    Ok(stop)
}

/// Makes lines, one time after the other.
struct Generator {
    rng: Rng,
    pids: Pids,
    stamp: Stamp,
    mix: Mix,
    incident: Incident,
    replay: Option<Replay>,
    message: Vec<u8>,
}

impl Generator {
    fn new(seed: u64, live_ns: i64, plan: Plan, replay: Option<Replay>) -> Self {
        Generator {
            rng: Rng::with_seed(seed),
            pids: Pids::new(seed),
            stamp: Stamp::default(),
            mix: Mix::new(),
            incident: Incident::new(plan, live_ns),
            replay,
            message: Vec::new(),
        }
    }

    /// Appends the line of a time, without a newline.
    fn line(&mut self, time_ns: i64, format: Format, out: &mut Vec<u8>) {
        self.stamp.set(time_ns);
        self.message.clear();
        let (host, said) = match &mut self.replay {
            Some(replay) => replay.line(&mut self.rng, &self.pids, HOSTS.len(), &mut self.message),
            None => self.made_up(time_ns),
        };
        envelope::write(format, &self.stamp, HOSTS[host].name, said, &self.message, out);
    }

    fn made_up(&mut self, time_ns: i64) -> (usize, world::Said) {
        let line = self.incident.line(time_ns, &mut self.rng);
        let (host, template) = match &line {
            Some(line) => (line.host(), None),
            None => {
                let (host, template) = self.mix.draw(&mut self.rng);
                (host, Some(template))
            }
        };
        let mut cx = Context {
            rng: &mut self.rng,
            stamp: &self.stamp,
            host,
            pids: &self.pids,
            is_failing: self.incident.is_failing(time_ns),
        };
        let said = match (line, template) {
            (Some(line), _) => line.write(&mut cx, &mut self.message),
            (None, Some(template)) => template(&mut cx, &mut self.message),
            (None, None) => unreachable!("a template was drawn"),
        };
        (host, said)
    }
}

/// The progress line on standard error.
struct Progress {
    shown: bool,
    begin: Instant,
    lines: u64,
    bytes: u64,
    since: (Instant, u64),
}

impl Progress {
    fn new(quiet: bool) -> Self {
        let begin = Instant::now();
        let shown = !quiet && std::io::stderr().is_terminal();
        Progress { shown, begin, lines: 0, bytes: 0, since: (begin, 0) }
    }

    fn sent(&mut self, lines: &Lines, history_done: Option<f64>) {
        self.lines += lines.len() as u64;
        self.bytes += lines.bytes().len() as u64;
        let (since, before) = self.since;
        if !self.shown || since.elapsed() < PROGRESS_EVERY {
            return;
        }
        let rate = (self.lines - before) as f64 / since.elapsed().as_secs_f64();
        let phase = match history_done {
            Some(done) => format!("history {:3.0}%", done * 100.0),
            None => "live".to_owned(),
        };
        eprint!(
            "\r\x1b[K{phase}: {} lines, {rate:.0} lines/s, {}",
            self.lines,
            show_bytes(self.bytes)
        );
        std::io::stderr().flush().ok();
        self.since = (Instant::now(), self.lines);
    }

    fn finish(&self, trouble: send::Trouble) {
        let seconds = self.begin.elapsed().as_secs_f64().max(0.001);
        let clear = if self.shown { "\r\x1b[K" } else { "" };
        eprintln!(
            "{clear}sent {} lines, {} in {seconds:.1} s: {:.0} lines/s",
            self.lines,
            show_bytes(self.bytes),
            self.lines as f64 / seconds
        );
        if trouble.retries > 0 {
            eprintln!(
                "{} times a connection was reopened or a request repeated; lines may be missing around a broken TCP connection",
                trouble.retries
            );
        }
        if trouble.refused > 0 {
            eprintln!(
                "{} of them could not be sent; start a server with `loginson`, or give the address of another with --to",
                trouble.refused
            );
        }
    }
}

#[cfg(test)]
mod tests;
