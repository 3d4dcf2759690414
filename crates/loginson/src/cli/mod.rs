//! The commands. `loginson` alone is `loginson serve`.

mod accounts;
mod backup;
mod check_config;
mod client;
mod cluster;
mod collect;
mod compare_copies;
mod delete;
mod doctor;
mod encryption;
mod export;
mod finding;
mod help_pages;
mod import;
mod inspect;
mod kibana_objects;
mod machine;
mod mcp;
mod migrate;
mod program;
mod progress;
mod queries;
mod query;
mod region;
mod reload;
mod restore;
mod secrets;
mod serve;
mod sizing;
mod status;
mod summarise;
mod tail;
mod terminal;
mod top;
mod variables;
mod verify;
mod zoneless;

pub use terminal::escaped_lines;

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::{Args, Parser, Subcommand};
use platform::Disk;
use store::{AtRest, StoreError};

#[derive(Parser)]
#[command(
    name = "loginson",
    version,
    about = "Collects logs, keeps every line, summarises them live, and drills down to the raw lines",
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  loginson                                        start with data in ./loginson-data; the page is at http://127.0.0.1:9514
  logger -n 127.0.0.1 -P 5514 -T 'hello'          send it a line by syslog
  loginson query 'error _time:5m'                 lines of the last five minutes with the word error
  loginson query '* | stats by (hostname) count()'
  loginson query --background '_level:error'      run now, fetch rows later: loginson queries
  loginson tail '_level:error'                    follow errors as they arrive
  loginson import --type access access.log.gz     send files to the server
  loginson export --format parquet -o all.parquet every row as a table, for DuckDB and pandas
  loginson backup                                 a copy of everything while the server runs
  loginson generate                               send generated logs, for a first look
  loginson status                                 is it well, how long does the disk last, what is to do

Help on one command: loginson query --help. The query language and the settings are described in docs/."
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: serve::ServeArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Collect, store, summarise and answer queries (the default)
    #[command(visible_alias = "store")]
    Serve(serve::ServeArgs),
    /// Collect without a store, and deliver to stores on other machines
    Collect(collect::CollectArgs),
    /// Query a running server; the rows go to standard output
    Query(query::QueryArgs),
    /// List, cancel, pause and resume queries, and fetch the rows of background queries
    Queries(queries::QueriesArgs),
    /// Follow lines as they arrive
    Tail(tail::TailArgs),
    /// Delete lines by a filter, on a running server
    Delete(delete::DeleteArgs),
    /// Summarise a past interval again, on a running server
    Summarise(summarise::SummariseArgs),
    /// Try out a program of your own, which makes summary rows of lines
    Program(program::ProgramArgs),
    /// Print a dashboard of Kibana or OpenSearch Dashboards for rows that a sink delivers
    KibanaObjects(kibana_objects::KibanaObjectsArgs),
    /// Let an assistant ask a running server, by the Model Context Protocol
    Mcp(mcp::McpArgs),
    /// Show the stores that a running server answers for
    Cluster(cluster::ClusterArgs),
    /// Compare copies of all lines on running stores; the exit code is 1 if they differ
    CompareCopies(compare_copies::CompareCopiesArgs),
    /// Send files to a running server
    Import(import::ImportArgs),
    /// Take the lines of VictoriaLogs, Loki, Elasticsearch or of files over, each once
    Migrate(migrate::MigrateArgs),
    /// Write all rows of a query to a file: lines, JSON, CSV or Parquet
    Export(export::ExportArgs),
    /// Make a copy of everything while the server runs
    Backup(backup::BackupArgs),
    /// Make a data directory from a backup
    Restore(restore::RestoreArgs),
    /// Check every checksum and every count
    Verify(verify::VerifyArgs),
    /// Show what is in a segment file, and how well it is compressed
    Inspect(inspect::InspectArgs),
    /// Say whether a running server is well, how long its disk lasts, and what to do
    Status(status::StatusArgs),
    /// Show what a running server is busy with: hosts, types, sources, queries
    Top(top::TopArgs),
    /// Say whether this machine suits a server, and what to do if not
    Doctor(doctor::DoctorArgs),
    /// Measure how much this machine takes, and what disk and memory that needs
    Sizing(sizing::SizingArgs),
    /// Show all mistakes of a configuration file
    CheckConfig(check_config::CheckConfigArgs),
    /// Have a running server read its settings again
    Reload(reload::ReloadArgs),
    /// Write pages of man and completions of shells, for packages
    #[command(hide = true)]
    HelpPages(help_pages::HelpPagesArgs),
    /// Print the hash of a password, for [[users]] of the configuration
    HashPassword(secrets::HashPasswordArgs),
    /// Make a token for a program and print its hash, for [[tokens]] of the configuration
    MakeToken(secrets::MakeTokenArgs),
    /// List and change users of a running server
    User(accounts::UserArgs),
    /// List, make, rotate and revoke tokens of a running server
    Token(accounts::TokenArgs),
    /// Make and rotate the master key of encrypted files, and encrypt what is there
    Encryption(encryption::EncryptionArgs),
    /// Generate logs of a small shop, with an incident, and send them
    Generate(generator::GenerateArgs),
}

/// The server of a client command, and the credentials.
#[derive(Args)]
struct ServerArgs {
    /// Address of the server
    #[arg(
        long,
        value_name = "URL",
        env = "LOGINSON_SERVER",
        default_value = "http://127.0.0.1:9514"
    )]
    server: String,
    /// Certificate of the server or of its CA, if the system does not trust it
    #[arg(long, value_name = "FILE.pem", env = "LOGINSON_CA")]
    ca: Option<PathBuf>,
    /// File with a token; LOGINSON_TOKEN can hold the token itself
    #[arg(long, value_name = "FILE", env = "LOGINSON_TOKEN_FILE", conflicts_with = "user")]
    token_file: Option<PathBuf>,
    /// Name of a user; the password is prompted for, or read from LOGINSON_PASSWORD
    #[arg(long, value_name = "NAME", env = "LOGINSON_USER")]
    user: Option<String>,
}

impl ServerArgs {
    /// A server on this machine that asks for no credentials.
    fn on_this_machine(address: &str) -> ServerArgs {
        ServerArgs { server: format!("http://{address}"), ca: None, token_file: None, user: None }
    }
}

/// Opens a data directory or backup that no server is using.
fn open_at_rest(disk: &dyn Disk, dir: &Path) -> Result<AtRest> {
    AtRest::open(disk, dir).map_err(|error| match error {
        StoreError::Locked { .. } => {
            anyhow!("{error}; while it runs, make a copy with `loginson backup` and use that")
        }
        error => error.into(),
    })
}

/// A query. It may begin with one minus, but not with two: that is a mistyped flag.
fn query_text(text: &str) -> Result<String, String> {
    match text.starts_with("--") {
        true => Err("there is no such flag; see --help".into()),
        false => Ok(text.to_owned()),
    }
}

/// Runs the command that the arguments of the process name.
pub fn run() -> Result<()> {
    let cli = Cli::parse();
    let keeps_logs = matches!(
        &cli.command,
        None | Some(
            Command::Serve(_)
                | Command::Collect(_)
                | Command::Backup(_)
                | Command::Migrate(_)
                | Command::Restore(_)
                | Command::Verify(_)
                | Command::Encryption(_)
        )
    );
    if keeps_logs {
        node::process::private::own_files();
    }
    match cli.command {
        None => serve::run(cli.serve),
        Some(Command::Serve(args)) => serve::run(args),
        Some(Command::Collect(args)) => collect::run(args),
        Some(Command::Query(args)) => query::run(args),
        Some(Command::Queries(args)) => queries::run(args),
        Some(Command::Tail(args)) => tail::run(args),
        Some(Command::Delete(args)) => delete::run(args),
        Some(Command::Summarise(args)) => summarise::run(args),
        Some(Command::Program(args)) => program::run(args),
        Some(Command::KibanaObjects(args)) => kibana_objects::run(args),
        Some(Command::Mcp(args)) => mcp::run(args),
        Some(Command::Cluster(args)) => cluster::run(args),
        Some(Command::CompareCopies(args)) => compare_copies::run(args),
        Some(Command::Import(args)) => import::run(args),
        Some(Command::Migrate(args)) => migrate::run(args),
        Some(Command::Export(args)) => export::run(args),
        Some(Command::Backup(args)) => backup::run(args),
        Some(Command::Restore(args)) => restore::run(args),
        Some(Command::Verify(args)) => verify::run(args),
        Some(Command::Inspect(args)) => inspect::run(args),
        Some(Command::Status(args)) => status::run(&args),
        Some(Command::Top(args)) => top::run(&args),
        Some(Command::Doctor(args)) => doctor::run(&args),
        Some(Command::Sizing(args)) => sizing::run(&args),
        Some(Command::CheckConfig(args)) => check_config::run(&args),
        Some(Command::Reload(args)) => reload::run(&args),
        Some(Command::HelpPages(args)) => help_pages::run(&args),
        Some(Command::HashPassword(args)) => secrets::print_hash(args),
        Some(Command::MakeToken(args)) => secrets::make_token(args),
        Some(Command::User(args)) => accounts::user(args),
        Some(Command::Token(args)) => accounts::token(args),
        Some(Command::Encryption(args)) => encryption::run(args),
        Some(Command::Generate(args)) => generator::run(args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    /// What Loginson says of a line has an underscore: `type:access` finds nothing.
    #[test]
    fn examples_name_fields_that_lines_have() {
        for command in Cli::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for field in ["type:", "level:"] {
                for (at, _) in help.match_indices(field) {
                    assert!(help[..at].ends_with('_'), "{}: {field}", command.get_name());
                }
            }
        }
    }

    #[test]
    fn a_query_may_begin_with_one_minus() {
        let parsed = |arguments: &[&str]| {
            Cli::try_parse_from([&["loginson", "query"], arguments].concat()).map(|cli| match cli {
                Cli { command: Some(Command::Query(args)), .. } => args.query,
                _ => unreachable!("it is a query"),
            })
        };
        assert_eq!(parsed(&["-level:info", "--limit", "1"]).unwrap(), "-level:info");
        assert_eq!(parsed(&["--limit", "1", "-hostname:=a"]).unwrap(), "-hostname:=a");
        let error = parsed(&["--lmit=1"]).unwrap_err().to_string();
        assert!(error.contains("--lmit") && error.contains("no such flag"), "{error}");
    }
}
