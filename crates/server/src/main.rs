//! Loginson: collects the logs of an infrastructure, keeps every line, summarises them live and
//! drills down.
//!
//! This crate is the binary. [`pipeline`] wires the stages in order and is the place to start
//! reading; [`http`] answers requests, [`cli`] holds the commands, and [`config`] reads and checks
//! the settings.

mod alerts;
mod cli;
mod cluster;
mod collect;
mod config;
mod dashboards;
mod http;
mod ingest;
mod links;
mod pipeline;
mod process;
mod programs;
mod queries;
mod server;
mod sinks;
mod storage;

use std::process::ExitCode;

/// An error and its causes on one line. A cause is left out if the text already contains
/// it.
fn one_line(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !text.contains(&cause) {
            let separator = if text.is_empty() { "" } else { ": " };
            text.push_str(separator);
            text.push_str(&cause);
        }
    }
    text
}

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == programs::stage::SANDBOX_COMMAND) {
        // Before any thread is started or file opened: it closes the files that it inherited.
        return ::programs::sandbox::main(arguments);
    }
    match cli::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loginson: {}", cli::escaped_lines(&one_line(&error)));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_cause_is_shown_once() {
        let error = anyhow::anyhow!("no such file")
            .context("cannot open x: no such file")
            .context("at start");
        assert_eq!(super::one_line(&error), "at start: cannot open x: no such file");
    }
}
