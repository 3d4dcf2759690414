//! `loginson-sql`: SQL over the lines of a running Loginson, for clients of PostgreSQL.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use tokio::net::TcpListener;

use loginson_sql::client::Client;
use loginson_sql::schema::Tables;
use loginson_sql::serve::{Server, context, tls};
use loginson_sql::table::Access;

/// Answers SQL over the lines of a running Loginson, in PostgreSQL's protocol
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Address of Loginson
    #[arg(
        long,
        value_name = "URL",
        env = "LOGINSON_SERVER",
        default_value = "http://127.0.0.1:9514"
    )]
    server: String,
    /// Certificate of Loginson or of its CA, if it is no public one
    #[arg(long, value_name = "FILE.pem", env = "LOGINSON_CA")]
    ca: Option<PathBuf>,
    /// File with a token for Loginson that may query; LOGINSON_TOKEN can hold the token itself
    #[arg(long, value_name = "FILE", env = "LOGINSON_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// Address for clients
    #[arg(
        long,
        value_name = "IP:PORT",
        env = "LOGINSON_SQL_LISTEN",
        default_value = "127.0.0.1:5433"
    )]
    listen: SocketAddr,
    /// File with the password that clients have to give; whoever has it sees what the token may see
    #[arg(long, value_name = "FILE", env = "LOGINSON_SQL_PASSWORD_FILE")]
    password_file: Option<PathBuf>,
    /// Certificate for clients that connect with TLS
    #[arg(long, value_name = "FILE.pem", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// Key of that certificate
    #[arg(long, value_name = "FILE.pem", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Memory for sorting, grouping and joining, of all statements together, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    memory: usize,
    /// Rows that a statement may fetch of a table
    #[arg(long, value_name = "ROWS", default_value_t = 10_000_000)]
    rows_max: usize,
    /// Connections at once
    #[arg(long, value_name = "N", default_value_t = 64)]
    connections_max: usize,
    /// Seconds after which tables and columns are looked up again
    #[arg(long, value_name = "SECONDS", default_value = "60")]
    refresh: NonZeroU64,
    /// Fetch all rows and compute everything here: slow, for comparison
    #[arg(long)]
    no_pushdown: bool,
}

fn main() -> Result<()> {
    let _ = log::set_logger(&Log).map(|()| log::set_max_level(log::LevelFilter::Info));
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run(Args::parse()))
}

async fn run(args: Args) -> Result<()> {
    // Both sides need one cryptographic library, which is chosen for the process.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let token = match &args.token_file {
        Some(file) => Some(secret("--token-file", file)?),
        None => std::env::var("LOGINSON_TOKEN").ok().filter(|token| !token.is_empty()),
    };
    let client = Client::new(&args.server, args.ca.as_deref(), token.as_deref())?;
    let access = Access { client, rows_max: args.rows_max, pushes_down: !args.no_pushdown };
    let tables = Arc::new(Tables::new(Arc::new(access)));
    let first = Arc::clone(&tables);
    tokio::task::spawn_blocking(move || first.refresh()).await??;
    let password = args.password_file.as_deref();
    let server = Server {
        context: Arc::new(context(Arc::clone(&tables), args.memory.saturating_mul(1 << 20))?),
        password: password.map(|file| secret("--password-file", file)).transpose()?,
        tls: match (&args.tls_certificate, &args.tls_key) {
            (Some(certificate), Some(key)) => Some(tls(certificate, key)?),
            _ => None,
        },
        connections_max: args.connections_max,
    };
    server.check(args.listen)?;
    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("--listen: cannot listen on {}", args.listen))?;
    log::info!("PostgreSQL clients may connect to {}", listener.local_addr()?);
    tokio::spawn(tables.keep_fresh(Duration::from_secs(args.refresh.get())));
    tokio::select! {
        served = server.serve(listener) => served,
        _ = stopped() => Ok(()),
    }
}

/// Waits for SIGINT or SIGTERM.
async fn stopped() -> Result<()> {
    let mut terminated = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        _ = terminated.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    Ok(())
}

/// A secret in a file, without the newline behind it.
fn secret(option: &str, file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("{option}: cannot read {}", file.display()))?;
    let secret = text.trim();
    ensure!(!secret.is_empty(), "{option}: {} is empty", file.display());
    Ok(secret.to_owned())
}

/// Writes what this program and the libraries report to standard error: own messages from `info`
/// on, those of libraries from `warn` on.
struct Log;

impl log::Log for Log {
    fn enabled(&self, metadata: &log::Metadata) -> bool {
        let own = metadata.target().starts_with("loginson_sql");
        metadata.level() <= if own { log::Level::Info } else { log::Level::Warn }
    }

    fn log(&self, record: &log::Record) {
        if self.enabled(record.metadata()) {
            eprintln!("{}: {}", record.level().as_str().to_lowercase(), record.args());
        }
    }

    fn flush(&self) {}
}
