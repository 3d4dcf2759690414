//! Loginson's own log, on standard error. `LOGINSON_LOG` filters it, like `RUST_LOG` of other
//! programs: `debug`, or `info,store=debug`.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts logging. An invalid filter is reported, and the default is used.
pub fn start() {
    let wanted = std::env::var("LOGINSON_LOG").unwrap_or_else(|_| "info".into());
    let (filter, error) = match EnvFilter::try_new(&wanted) {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new("info"), Some(error)),
    };
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(filter)
        .with_target(false)
        .init();
    if let Some(error) = error {
        tracing::warn!(
            "LOGINSON_LOG={wanted:?} is not a valid filter ({error}); logging at level info"
        );
    }
}
