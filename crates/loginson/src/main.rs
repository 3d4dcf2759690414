//! Loginson: collects the logs of an infrastructure, keeps every line, summarises them live and
//! drills down.
//!
//! This crate is the binary: [`cli`] holds the commands, [`config`] reads and checks the settings,
//! and [`server`] runs a node and the API over it. The crate `node` has the stages, `api` the
//! requests.

mod cli;
mod collect;
mod config;
mod notify;
mod reload;
mod server;
mod settings;

use std::process::ExitCode;

use node::process::log::one_line;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == node::programs::stage::SANDBOX_COMMAND) {
        // Before any thread is started or file opened: it closes the files that it inherited.
        return programs::sandbox::main(arguments);
    }
    match cli::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loginson: {}", cli::escaped_lines(&one_line(&error)));
            ExitCode::FAILURE
        }
    }
}
