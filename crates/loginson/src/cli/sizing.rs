//! `loginson sizing`: measures how much this machine takes, on a server of its own with generated
//! lines, and what that means for disk and memory.
//!
//! The server is this program, started on free ports of loopback in a directory that is deleted at
//! the end. The sender runs on the same machine, so a machine with a network in front of it takes
//! more. Left out: queries beside the load; `docs/benchmarks` has those.

use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use serde_json::{Value, json};
use text::duration::parse_setting;
use text::size::{parse_setting as parse_size, show_bytes};

use crate::cli::ServerArgs;
use crate::cli::client::Client;

#[derive(Args)]
#[command(after_help = "Examples:
  loginson sizing
  loginson sizing --dir /var/lib --time 1m        on the disk that the server will have
  loginson sizing --daily 20GiB --days 90         what that many lines need
  loginson sizing --replay app.log                lines like yours, in place of generated ones

While it runs, processors and disk are busy; some GiB are written each minute, and deleted at the end (not after Ctrl-C). A
machine should not take more than half of what it can, so that bursts, queries and a restart find room.")]
pub struct SizingArgs {
    /// How long lines are sent
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = parse_setting)]
    time: Duration,
    /// Directory on the disk to measure; a directory is created in it and deleted at the end
    /// [default: that of temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Text a day, to say what it needs [default: half of what the machine takes]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    daily: Option<u64>,
    /// Days that lines are kept
    #[arg(long, value_name = "NUMBER", default_value_t = 30)]
    days: u64,
    /// Send lines of these files instead of generated ones
    #[arg(long, value_name = "FILE", num_args = 1..)]
    replay: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How long the server may take to start, and to compress what it has.
const START_TIME_MAX: Duration = Duration::from_secs(60);
const SEAL_TIME_MAX: Duration = Duration::from_secs(600);
/// The longest measurement: it fills the disk.
const TIME_MAX: Duration = Duration::from_secs(600);
/// How often the server is asked.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// A process that is killed when it is no longer needed.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A directory that is deleted at the end.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// What was measured.
#[derive(Debug, PartialEq)]
struct Measured {
    seconds: f64,
    lines: u64,
    text_bytes: u64,
    disk_bytes: u64,
    memory_bytes: u64,
}

/// Runs the command.
pub fn run(args: &SizingArgs) -> Result<()> {
    ensure!(!args.time.is_zero() && args.time <= TIME_MAX, "--time must be between 1s and 10m");
    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let dir = parent.join(format!("loginson-sizing-{}", std::process::id()));
    fs::create_dir(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let scratch = Scratch(dir);
    let measured = measure(args, &scratch.0)?;
    match args.json {
        true => println!("{}", as_json(&measured, args)),
        false => print!("{}", told(&measured, args.daily, args.days)),
    }
    Ok(())
}

fn measure(args: &SizingArgs, dir: &Path) -> Result<Measured> {
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    let (data, ready) = (dir.join("data"), dir.join("ready.json"));
    let mut server = Command::new(&program);
    server.args(["serve", "--http-listen", "127.0.0.1:0", "--syslog-udp-listen", "off"]);
    server.args(["--syslog-tcp-listen", "127.0.0.1:0"]);
    server.arg("--data-dir").arg(&data).arg("--ready-file").arg(&ready);
    let mut server = Running(start(&mut server)?);
    let addresses: Value = loop_until(START_TIME_MAX, || {
        if let Some(status) = server.0.try_wait()? {
            bail!("the server that is measured ended ({status}); `loginson doctor` may say why");
        }
        Ok(fs::read(&ready).ok().and_then(|text| serde_json::from_slice(&text).ok()))
    })?
    .context("the server that is measured did not start in time")?;
    let address = |name: &str| {
        addresses[name].as_str().map(str::to_owned).with_context(|| format!("no address of {name}"))
    };
    let client = Client::new(&ServerArgs::on_this_machine(&address("http")?))?;
    progress("sending lines…");
    let mut sender = Command::new(&program);
    sender.args(["generate", "--rate", "0", "--quiet", "--seed", "1", "--incident", "none"]);
    sender.arg("--to").arg(format!("tcp://{}", address("syslog_tcp")?));
    sender.arg("--duration").arg(format!("{}ms", args.time.as_millis()));
    if !args.replay.is_empty() {
        sender.arg("--replay").args(&args.replay);
    }
    let begin = Instant::now();
    let status = Running(start(&mut sender)?).0.wait()?;
    ensure!(status.success(), "sending lines failed ({status})");
    // The clock runs until the last line is durable.
    let kept = loop_until(SEAL_TIME_MAX, || {
        let status = client.get_json("/api/v1/status")?;
        let tcp = of_source(&status, "syslog_tcp");
        let is_kept = tcp["lines_in_flight"] == 0 && tcp["connections_open"] == 0;
        Ok(is_kept.then_some(tcp))
    })?
    .context("the server did not keep the lines in time")?;
    let seconds = begin.elapsed().as_secs_f64();
    progress("compressing them…");
    client.post_json("/api/v1/seal")?;
    let store = loop_until(SEAL_TIME_MAX, || {
        let store = client.get_json("/api/v1/status")?["store"].clone();
        Ok((store["sealing"]["lag_segments"] == 0).then_some(store))
    })?
    .context("compressing took too long; measure with a shorter --time")?;
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let (sealed_raw, sealed_disk) =
        (number(&store["sealed_bytes_raw"]), number(&store["sealed_bytes_disk"]));
    let text_bytes = number(&kept["bytes_kept"]);
    ensure!(text_bytes > 0 && sealed_raw > 0, "no line arrived; measure with a longer --time");
    Ok(Measured {
        seconds,
        lines: number(&kept["lines_kept"]),
        text_bytes,
        disk_bytes: (text_bytes as f64 * sealed_disk as f64 / sealed_raw as f64) as u64,
        memory_bytes: memory(server.0.id())?,
    })
}

fn start(command: &mut Command) -> Result<Child> {
    // Settings of this machine's server are not those of the measured one.
    let own =
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LOGINSON_"));
    own.for_each(|(name, _)| {
        command.env_remove(name);
    });
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().context("cannot start this program once more")
}

/// Asks until there is an answer; `None` if there is none in time.
fn loop_until<T>(
    time_max: Duration,
    mut ask: impl FnMut() -> Result<Option<T>>,
) -> Result<Option<T>> {
    let begin = Instant::now();
    while begin.elapsed() < time_max {
        if let Some(answer) = ask()? {
            return Ok(Some(answer));
        }
        std::thread::sleep(ASK_EVERY);
    }
    Ok(None)
}

fn of_source(status: &Value, name: &str) -> Value {
    let sources = status["ingest"].as_array().map(Vec::as_slice).unwrap_or_default();
    sources.iter().find(|source| source["source"] == name).cloned().unwrap_or_default()
}

/// The most memory that a process had.
fn memory(pid: u32) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    Ok(kib.ok_or_else(|| anyhow!("/proc does not say how much memory the server took"))? << 10)
}

fn progress(what: &str) {
    if std::io::stderr().is_terminal() {
        eprintln!("{what}");
    }
}

impl Measured {
    fn bytes_a_day(&self) -> u64 {
        (self.text_bytes as f64 / self.seconds * 86_400.0) as u64
    }

    /// Bytes on the disk for each byte of text.
    fn share(&self) -> f64 {
        self.disk_bytes as f64 / self.text_bytes as f64
    }

    fn disk_for(&self, daily: u64, days: u64) -> u64 {
        (daily as f64 * days as f64 * self.share()) as u64
    }
}

fn told(measured: &Measured, daily: Option<u64>, days: u64) -> String {
    let most = measured.bytes_a_day();
    let daily = daily.unwrap_or(most / 2);
    let verdict = match daily {
        _ if daily > most => "more than this machine takes: add machines (docs/several-stores.md)",
        _ if daily > most / 2 => {
            "more than half of what it takes: bursts and queries find little room"
        }
        _ => "this machine takes it",
    };
    format!(
        "takes     {:.0} lines/s, {}/s: {} a day at most, measured with {} lines in {:.0} s\n\
         disk      {:.1} % of the text\n\
         memory    {}\n\
         {} a day: {verdict}; {days} days need {} of disk\n",
        measured.lines as f64 / measured.seconds,
        show_bytes((measured.text_bytes as f64 / measured.seconds) as u64),
        show_bytes(most),
        measured.lines,
        measured.seconds,
        100.0 * measured.share(),
        show_bytes(measured.memory_bytes),
        show_bytes(daily),
        show_bytes(measured.disk_for(daily, days)),
    )
}

fn as_json(measured: &Measured, args: &SizingArgs) -> Value {
    let daily = args.daily.unwrap_or(measured.bytes_a_day() / 2);
    json!({
        "seconds": measured.seconds,
        "lines": measured.lines,
        "text_bytes": measured.text_bytes,
        "disk_bytes": measured.disk_bytes,
        "memory_peak_bytes": measured.memory_bytes,
        "text_bytes_a_day_max": measured.bytes_a_day(),
        "text_bytes_a_day": daily,
        "days": args.days,
        "disk_bytes_needed": measured.disk_for(daily, args.days),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_told_with_what_it_means() {
        let gib = 1 << 30;
        let measured = Measured {
            seconds: 8.64,
            lines: 864,
            text_bytes: gib,
            disk_bytes: gib / 10,
            memory_bytes: gib,
        };
        let check = |daily: Option<u64>, parts: &[&str]| {
            let text = told(&measured, daily, 30);
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        };
        check(
            None,
            &["100 lines/s", "10.0 % of the text", "this machine takes it", "30 days need"],
        );
        check(Some(6000 * gib), &["more than half"]);
        check(Some(20_000 * gib), &["more than this machine takes"]);
        check(Some(100 * gib), &["100.0 GiB a day: this machine takes it; 30 days need 300.0 GiB"]);
    }
}
