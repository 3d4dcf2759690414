//! The variables of the environment that Loginson knows, and warnings about others that begin like
//! them.

use std::ffi::OsString;

use clap::{Command, CommandFactory};
use text::nearest::nearest;

use crate::cli::Cli;
use crate::config::{INTEGRITY_VARIABLE, SECRET_VARIABLE};
use node::process::log;

/// What all of them begin with.
const PREFIX: &str = "LOGINSON_";
/// Those that no flag has.
const WITHOUT_FLAG: [&str; 5] =
    [log::VARIABLE, SECRET_VARIABLE, INTEGRITY_VARIABLE, "LOGINSON_TOKEN", "LOGINSON_PASSWORD"];

/// Warns about variables of the environment that look like settings and are none. `configuration`
/// is the text of the configuration file.
pub fn warn(configuration: &str) {
    for warning in unknown(std::env::vars_os(), configuration) {
        tracing::warn!("{warning}");
    }
}

/// A warning for each unknown variable. The text of the configuration may name some: its keys that
/// end in `_env` say which variables hold a secret.
fn unknown(
    variables: impl Iterator<Item = (OsString, OsString)>,
    configuration: &str,
) -> Vec<String> {
    let mut known: Vec<String> = WITHOUT_FLAG.map(str::to_owned).to_vec();
    collect(&Cli::command(), &mut known);
    let mut warnings: Vec<String> = variables
        .filter_map(|(name, value)| {
            let name = name.into_string().ok().filter(|name| name.starts_with(PREFIX))?;
            let is_known = known.contains(&name)
                || configuration.contains(&name)
                || is_of_kubernetes(&name, &value.to_string_lossy());
            if is_known {
                return None;
            }
            let hint = match nearest(&name, known.iter().map(String::as_str)) {
                Some(word) => format!("did you mean {word}?"),
                None => "docs/configuration.md lists those that are; all other settings are keys \
                         of the configuration file"
                    .to_owned(),
            };
            Some(format!(
                "the variable {name} of the environment is ignored, as it is not known; {hint}"
            ))
        })
        .collect();
    warnings.sort();
    warnings
}

fn collect(command: &Command, known: &mut Vec<String>) {
    let named = command.get_arguments().filter_map(|argument| argument.get_env()?.to_str());
    known.extend(named.map(str::to_owned));
    command.get_subcommands().for_each(|command| collect(command, known));
}

/// Kubernetes tells every container about a service with the name `loginson` by such variables.
fn is_of_kubernetes(name: &str, value: &str) -> bool {
    name.contains("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || ["tcp://", "udp://"].iter().any(|scheme| value.starts_with(scheme))
        || ["_TCP", "_UDP"].iter().any(|part| name.contains(&format!("{part}_")))
            && name.contains("_PORT_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_variables_are_named_with_the_nearest_known_one() {
        for (name, value, expected) in [
            ("LOGINSON_DATA_DIR", "x", None),
            ("LOGINSON_SPOOL_DIR", "x", None),
            ("LOGINSON_LOG", "info", None),
            ("LOGINSON_NODE_SECRET", "x", None),
            ("LOGINSON_TOKEN", "x", None),
            ("LOGINSON_SERVER", "x", None),
            ("HOME", "x", None),
            ("LOGINSON_DATADIR", "x", Some("did you mean LOGINSON_DATA_DIR?")),
            ("LOGINSON_LOG_LEVEL", "x", Some("LOGINSON_LOG_LEVEL of the environment is ignored")),
            ("LOGINSON_RETENTION_AGE", "1d", Some("keys of the configuration file")),
            ("LOGINSON_SMTP_PASSWORD", "x", None),
            ("LOGINSON_SERVICE_HOST", "10.0.0.1", None),
            ("LOGINSON_SERVICE_PORT_HTTP", "9514", None),
            ("LOGINSON_PORT", "tcp://10.0.0.1:9514", None),
            ("LOGINSON_PORT_9514_TCP", "tcp://10.0.0.1:9514", None),
            ("LOGINSON_PORT_9514_TCP_ADDR", "10.0.0.1", None),
        ] {
            let configuration = "password_env = 'LOGINSON_SMTP_PASSWORD'";
            let found = unknown([(name.into(), value.into())].into_iter(), configuration);
            assert_eq!(found.len(), usize::from(expected.is_some()), "{name}: {found:?}");
            assert!(found.first().is_none_or(|said| said.contains(expected.unwrap())), "{found:?}");
        }
    }
}
