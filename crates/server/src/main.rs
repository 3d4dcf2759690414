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
mod data_dir;
mod http;
mod ingest;
mod nearest;
mod pipeline;
mod process;
mod programs;
mod queries;
mod saved_views;
mod server;
mod sinks;
mod storage;

use std::process::ExitCode;

use process::log::one_line;

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
