//! Loginson's own log, on standard error. `LOGINSON_LOG` chooses what is shown, as `RUST_LOG` does
//! elsewhere: `debug`, or `info,store=debug`.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts logging. A filter that cannot be read is said and the default taken.
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
            "LOGINSON_LOG={wanted:?} is not understood ({error}); logging at level info"
        );
    }
}
