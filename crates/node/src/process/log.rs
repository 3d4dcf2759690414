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

/// An error and its causes on one line. A cause is left out if the text already contains
/// it.
pub fn one_line(error: &anyhow::Error) -> String {
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
