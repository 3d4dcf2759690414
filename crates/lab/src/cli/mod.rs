//! The commands of `loginson-lab`.

mod run;
mod shown;
mod sizes;
mod stores;
mod studies;

use std::io::Write;

use anyhow::Context;
use clap::{Parser, Subcommand};

use crate::scale::Scale;
use stores::{HomeArgs, ProgramArgs, StoresCommand};

#[derive(Parser)]
#[command(
    name = "loginson-lab",
    version,
    about = "Measures the stores people keep logs and measurements in, and says with statistics which one fits",
    after_help = "Examples:
  loginson-lab list                                          the studies there are
  loginson-lab run study1 --scale smoke --stores postgres    does it all work here? Fetches and starts PostgreSQL
  loginson-lab run study1 --scale small                      half an hour to three hours; the report is beside the results
  loginson-lab run ycsb --endpoint redis=db7:6379 --stores redis     a server that runs already
  loginson-lab run logstores --stores sqlite,loginson --program sqlite=./sqlite.py    a store of your own
  loginson-lab run ./workloada -p threadcount=64 --stores redis      a property file of YCSB, as it is
  loginson-lab sizes logstores --amounts 1gb,4gb,16gb        how do queries grow with the lines?
  loginson-lab resume lab-results/study1-small               go on after Ctrl-C
  loginson-lab report lab-results/study1-small               make the report again
  loginson-lab compare OLD NEW                               is the new one really faster?"
)]
struct Cli {
    #[command(flatten)]
    home: HomeArgs,
    #[command(flatten)]
    programs: ProgramArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the studies
    List,
    /// Show what a study measures at a scale
    Show {
        /// Name of a study, a definition of your own (./mine.toml), or a property file of YCSB
        study: String,
        /// Sizes of the paper, sizes for minutes on 2 cores, or sizes for seconds
        #[arg(long, value_enum, default_value = "small")]
        scale: Scale,
        /// Print the definition as TOML
        #[arg(long)]
        definition: bool,
    },
    /// Run a study and make its report
    Run(Box<run::RunArgs>),
    /// Run the queries of a study on several amounts of lines, with memory in proportion, and carry
    /// their times on to a larger one; the same command resumes it
    Sizes(Box<sizes::SizesArgs>),
    /// Resume a run that was stopped
    Resume(run::ResumeArgs),
    /// Install, start, stop and remove the servers of stores
    Stores {
        #[command(subcommand)]
        command: StoresCommand,
    },
    /// Write the report of a run again
    Report(crate::report::cli::Args),
    /// Compare two runs of one study, or a run with the figures of the paper
    Compare(crate::compare::cli::Args),
    /// Generate a share of the load for a run on another machine, which names this one with
    /// --agents
    Agent {
        /// Address to listen on
        #[arg(long, default_value = "127.0.0.1:9614", value_name = "HOST:PORT")]
        listen: String,
        /// A file with a secret that the coordinator has to know; needed on other addresses than
        /// loopback. It is not encrypted on its way: use it in a network of your own
        #[arg(long, value_name = "FILE")]
        secret_file: Option<std::path::PathBuf>,
        /// Ends with its standard input: for the program that starts it
        #[arg(long, hide = true)]
        until_input_ends: bool,
    },
    /// Keep files for the store `files`
    #[command(name = crate::stores::files::server::COMMAND, hide = true)]
    Files {
        /// Address to listen on
        #[arg(long)]
        listen: String,
        /// Directory of the files
        #[arg(long)]
        data: std::path::PathBuf,
    },
    /// Start a program of the user's own for each connection
    #[command(name = crate::stores::own::process::COMMAND, hide = true)]
    Own {
        /// Address to listen on
        #[arg(long)]
        listen: String,
        /// Directory of the store
        #[arg(long)]
        data: std::path::PathBuf,
        /// The program
        #[arg(long)]
        starts: std::path::PathBuf,
    },
}

/// Runs the command of the command line. Returns whether everything succeeded.
pub async fn main() -> anyhow::Result<bool> {
    let Cli { home, programs, command } = Cli::parse();
    programs.add().await?;
    match command {
        Command::List => print(&studies::list()?),
        Command::Show { study, scale, definition } => {
            print(&studies::show(&study, scale, definition)?);
        }
        Command::Run(args) => return run::run(*args, programs, home.servers()?).await,
        Command::Sizes(args) => return sizes::run(*args, programs, &home).await,
        Command::Resume(args) => return run::resume(args, &home).await,
        Command::Stores { command } => stores::run(command, &home.servers()?).await?,
        Command::Report(args) => crate::report::cli::run(&args)?,
        Command::Compare(args) => crate::compare::cli::run(&args)?,
        Command::Agent { listen, secret_file, until_input_ends } => {
            if until_input_ends {
                std::thread::spawn(|| {
                    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
                    std::process::exit(0);
                });
            }
            // Clients of stores are kept where servers are.
            home.servers()?;
            agent(&listen, secret_file.as_deref()).await?;
        }
        Command::Files { listen, data } => files(&listen, &data).await?,
        Command::Own { listen, data, starts } => own(&listen, &data, &starts).await?,
    }
    Ok(true)
}

/// The arguments of a run, from its command line.
fn of_run(command: &[String]) -> anyhow::Result<run::RunArgs> {
    match Cli::try_parse_from(command)?.command {
        Command::Run(args) => Ok(*args),
        _ => anyhow::bail!("`{}` is no run", command.join(" ")),
    }
}

/// Prints text. It is not an error if the reader has ended, as `head` does.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Keeps files until it is killed.
async fn files(listen: &str, data: &std::path::Path) -> anyhow::Result<()> {
    use crate::stores::files::process::{Tables, serve};
    let listener =
        tokio::net::TcpListener::bind(listen).await.with_context(|| listen.to_owned())?;
    Ok(serve(listener, std::sync::Arc::new(Tables::new(data))).await?)
}

/// Starts the program for each connection, until SIGTERM.
async fn own(
    listen: &str,
    data: &std::path::Path,
    program: &std::path::Path,
) -> anyhow::Result<()> {
    let listener =
        tokio::net::TcpListener::bind(listen).await.with_context(|| listen.to_owned())?;
    Ok(crate::stores::own::process::serve(listener, program, data).await?)
}

/// Runs trials until Ctrl-C. The first line of output is its address.
async fn agent(listen: &str, secret_file: Option<&std::path::Path>) -> anyhow::Result<()> {
    let secret = secret_file.map(crate::agent::read_secret).transpose()?;
    let listener =
        tokio::net::TcpListener::bind(listen).await.with_context(|| listen.to_owned())?;
    let address = listener.local_addr()?;
    if secret.is_none() && !address.ip().is_loopback() {
        anyhow::bail!(
            "other machines reach {address}, and an agent does what it is told: give it and the run the same secret with \
             --secret-file FILE"
        );
    }
    print(&format!("{address}\n"));
    std::io::stdout().flush()?;
    crate::agent::serve(listener, crate::stores::open, secret, run::stop_on_signal()).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn arguments_are_declared_without_contradiction() {
        Cli::command().debug_assert();
    }
}
