//! `loginson program test`: what a program makes of sample lines, without a server.

use std::io::{Read, Write, stdin, stdout};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::{Args, Subcommand};
use platform::{Clock, RealClock};
use programs::{Helper, Interpreter, Launcher, Limits, Loaded, NoInterpreter, RunSpec};
use record::{Parser, ParserConfig};

use super::escaped_lines;
use crate::config::Config;
use crate::settings::Settings;
use node::programs::compiled::Compiled;
use node::programs::stage::SANDBOX_COMMAND;
use node::programs::trial::{self, SAMPLE_LINES_MAX, Trial};

/// Bytes of the sample.
const SAMPLE_BYTES_MAX: u64 = 64 << 20;

#[derive(Args)]
#[command(after_help = "Examples:
  tail -1000 access.log | loginson program test access-status.awk --type access
  loginson query --limit 1000 --format raw '_type:access' > sample; loginson program test p.awk < sample
  loginson program test errors.logsql < sample                 a query in LogsQL that ends in stats

docs/programs.md describes programs.")]
pub struct ProgramArgs {
    #[command(subcommand)]
    command: ProgramCommand,
}

#[derive(Subcommand)]
enum ProgramCommand {
    /// Run a program on sample lines from standard input, as on one bucket, and print its rows
    Test(TestArgs),
}

#[derive(Args)]
struct TestArgs {
    /// The program, NAME.awk or NAME.logsql
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Type of the sample lines [default: that of the program, else found out line by line]
    #[arg(long = "type", value_name = "TYPE")]
    log_type: Option<String>,
    /// Configuration file, for its rules of types, its zone and its [awk]
    #[arg(long, value_name = "FILE.toml", env = "LOGINSON_CONFIG")]
    config: Option<PathBuf>,
    /// The AWK to use [default: the best one of this machine]
    #[arg(long, value_name = "PATH")]
    interpreter: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: ProgramArgs) -> Result<()> {
    let ProgramCommand::Test(args) = args.command;
    test(&args)
}

fn test(args: &TestArgs) -> Result<()> {
    let loaded = Loaded::read(&args.file)
        .ok_or_else(|| anyhow!("{} is not NAME.awk or NAME.logsql", args.file.display()))?;
    let compiled = Compiled::new(loaded.definition?)?;
    let (limits, interpreter, parsing) = match &args.config {
        None => (Limits::default(), None, ParserConfig::default()),
        Some(path) => {
            let config = Settings::new(Some(path.clone()), |_| {}).load()?.config;
            let parsing = parsing(&config);
            (config.node.programs.limits, config.node.programs.interpreter, parsing)
        }
    };
    let interpreter: Result<Interpreter, NoInterpreter> =
        match args.interpreter.as_ref().or(interpreter.as_ref()) {
            Some(path) => Interpreter::at(path),
            None => Interpreter::find(&Interpreter::system_folders()),
        };
    let is_awk = compiled.definition.language == programs::Language::Awk;
    if let (Err(error), true) = (&interpreter, is_awk) {
        bail!("{error}");
    }
    let mut sample = Vec::new();
    stdin().take(SAMPLE_BYTES_MAX + 1).read_to_end(&mut sample).context("reading the sample")?;
    ensure!(
        sample.len() as u64 <= SAMPLE_BYTES_MAX,
        "the sample has more than 64 MiB; give some thousand lines"
    );
    let lines: Vec<&[u8]> = sample
        .strip_suffix(b"\n")
        .unwrap_or(&sample)
        .split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .collect();
    if lines.len() > SAMPLE_LINES_MAX {
        eprintln!(
            "note: the sample has {} lines; the first {SAMPLE_LINES_MAX} are used",
            lines.len()
        );
    }
    let mut parser = Parser::new(&parsing)?;
    let log_type = args.log_type.as_deref().or(compiled.definition.log_type.as_deref());
    let now_ns = RealClock::new().now_ns();
    let batch = match sample.is_empty() {
        true => None,
        false => trial::parse(&mut parser, log_type, lines.iter().copied(), now_ns),
    };
    let launcher = Launcher::new(Helper::own_binary(SANDBOX_COMMAND))?;
    let tried = trial::run(&compiled, batch, &launcher, |variables| {
        Some(RunSpec {
            interpreter: interpreter.ok()?,
            definition: compiled.definition.clone(),
            limits,
            variables,
        })
    })?;
    print(&tried, lines.len())
}

/// How a server with this configuration parses lines.
fn parsing(config: &Config) -> ParserConfig {
    ParserConfig {
        types: config.node.types.clone(),
        zone: config.node.zone,
        no_server_fields: config.node.no_server_fields,
    }
}

/// Rows go to standard output, everything else to standard error.
fn print(tried: &Trial, lines: usize) -> Result<()> {
    let mut out = stdout().lock();
    for row in &tried.rows {
        let mut text = Vec::new();
        row.write_json(&mut text);
        text.push(b'\n');
        out.write_all(&text)?;
    }
    out.flush()?;
    for warning in &tried.warnings {
        eprintln!("warning: {warning}");
    }
    for fault in &tried.faults {
        let place = |what: &str, line: Option<u64>| {
            line.map(|line| format!("{what} line {line}: ")).unwrap_or_default()
        };
        let program = place("program", fault.program_line);
        let input = place("sample", fault.input_line);
        eprintln!("{program}{input}{}", escaped_lines(&fault.message));
    }
    for rejected in &tried.rejected.first {
        eprintln!("{}", escaped_lines(&rejected.to_string()));
    }
    let cpu = Duration::from_secs_f64(tried.cpu_ms / 1e3);
    eprintln!(
        "{} rows of {} lines, of which {} are for the program{}",
        tried.rows.len(),
        lines.min(SAMPLE_LINES_MAX),
        tried.lines_matching,
        tried.interpreter.map(|awk| format!("; {awk} took {cpu:.1?}")).unwrap_or_default()
    );
    if let Some(error) = &tried.error {
        bail!("{error}");
    }
    ensure!(tried.rejected.lines == 0, "{} lines of output are no rows", tried.rejected.lines);
    Ok(())
}

#[cfg(test)]
mod tests {
    use record::Zone;

    use super::*;
    use crate::config::RawConfig;

    #[test]
    fn sample_lines_are_parsed_as_the_server_parses_them() {
        let raw = RawConfig::parse("syslog.zone = '+02:00'\nparse.fields = false\n").unwrap();
        let parsing = parsing(&Config::try_from(raw).unwrap());
        assert_eq!(parsing.zone, Zone::parse("+02:00").unwrap());
        assert!(parsing.no_server_fields);
    }
}
