//! Loginson's own log, on standard error. `LOGINSON_LOG` chooses what is written: a level, and
//! others for single crates, as in `info,store=debug`.
//!
//! A word that is neither is refused at the start: as the name of a part of the program, which it
//! could be, it would silence everything else.

use std::io::IsTerminal;

use anyhow::{Result, anyhow, ensure};
use text::nearest::nearest;
use tracing_subscriber::EnvFilter;

/// The variable of the environment.
pub const VARIABLE: &str = "LOGINSON_LOG";
/// What a level may be called, and as what it counts.
const LEVELS: [(&str, &str); 7] = [
    ("off", "off"),
    ("error", "error"),
    ("warn", "warn"),
    ("warning", "warn"),
    ("info", "info"),
    ("debug", "debug"),
    ("trace", "trace"),
];
/// The level of what has no other.
const DEFAULT: &str = "info";

/// Starts logging.
///
/// Errors: the variable has a level that does not exist.
pub fn start() -> Result<()> {
    let wanted = std::env::var(VARIABLE).unwrap_or_default();
    let filter = EnvFilter::try_new(directives(&wanted)?)
        .map_err(|error| anyhow!("{VARIABLE}: '{wanted}' cannot be understood: {error}"))?;
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(filter)
        .with_target(false)
        .init();
    Ok(())
}

/// The filter in the words of [`EnvFilter`].
fn directives(wanted: &str) -> Result<String> {
    let mut own = Vec::new();
    let mut has_level = false;
    for part in wanted.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (of, level) = match part.rsplit_once('=') {
            Some((of, level)) => (Some(of.trim()), level.trim()),
            None => (None, part),
        };
        let lower = level.to_ascii_lowercase();
        let known = LEVELS.iter().find(|(name, _)| *name == lower);
        let Some((_, level)) = known else {
            let names = LEVELS.iter().map(|(name, _)| *name);
            let hint = nearest(&lower, names.clone())
                .map_or_else(String::new, |word| format!("did you mean '{word}'? "));
            let names: Vec<&str> = names.collect();
            return Err(anyhow!(
                "{VARIABLE}: '{level}' is not a level; {hint}Write one of {}, or for one crate for \
                 example info,store=debug",
                names.join(", ")
            ));
        };
        match of {
            Some(of) => {
                ensure!(!of.is_empty(), "{VARIABLE}: '{part}' names no crate before the '='");
                own.push(format!("{of}={level}"));
            }
            None => {
                has_level = true;
                own.push((*level).to_owned());
            }
        }
    }
    if !has_level {
        // Without this, everything else would be silent.
        own.insert(0, DEFAULT.to_owned());
    }
    Ok(own.join(","))
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
    fn levels_are_levels_and_nothing_is_silenced_by_a_typo() {
        for (wanted, expected) in [
            ("", "info"),
            (" ", "info"),
            ("info", "info"),
            ("WARNING", "warn"),
            ("Warn", "warn"),
            ("off", "off"),
            ("info,store=debug", "info,store=debug"),
            ("store=DEBUG", "info,store=debug"),
            ("store=debug, off", "store=debug,off"),
        ] {
            assert_eq!(super::directives(wanted).unwrap(), expected, "{wanted}");
        }
        for (wanted, expected) in [
            ("wanr", "'wanr' is not a level; did you mean 'warn'?"),
            ("store", "'store' is not a level"),
            ("info,store=all", "'all' is not a level"),
            ("critical", "off, error, warn, warning, info, debug, trace"),
            ("=debug", "names no crate"),
        ] {
            let error = super::directives(wanted).unwrap_err().to_string();
            assert!(error.contains(expected) && error.starts_with("LOGINSON_LOG"), "{error}");
        }
    }

    #[test]
    fn each_cause_is_shown_once() {
        let error = anyhow::anyhow!("no such file")
            .context("cannot open x: no such file")
            .context("at start");
        assert_eq!(super::one_line(&error), "at start: cannot open x: no such file");
    }
}
