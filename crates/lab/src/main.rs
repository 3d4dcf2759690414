//! `loginson-lab`: the command line of the lab.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    match lab::cli::main().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(error) => {
            eprintln!("loginson-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}
