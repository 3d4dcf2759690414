//! Loginson: collects the logs of an infrastructure, keeps every line, summarises them live and drills down.
//!
//! This crate is the binary. [`pipeline`] wires the stages in order and is the place to start reading;
//! [`http`] answers requests, [`cli`] holds the commands, [`config`] what the server is told.

mod cli;
mod config;
mod delivery;
mod http;
mod log;
mod pipeline;
mod server;
mod stored;
mod summaries;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loginson: {error:#}");
            ExitCode::FAILURE
        }
    }
}
