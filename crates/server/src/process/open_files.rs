//! The system's limit on open files, and what all listeners together may need of it.
//!
//! A connection is an open file. If listeners may together have more connections than the process
//! may have files, then one day neither they nor the store could open any. So the limit is raised
//! at the start as far as permitted; if that is not enough, syslog, which has by far the most
//! connections, gets fewer, and the log says so.

use std::fmt::Write as _;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::{Config, HTTP_CONNECTIONS_MAX};

/// Files besides connections: segments and their rewriting, followed files, results, backups,
/// libraries.
const OTHER_FILES: u64 = 2_048;
/// Connections that syslog keeps, however low the limit is.
const SYSLOG_CONNECTIONS_MIN: usize = 64;

/// Raises the soft limit as far as the hard one permits, and lowers configured limits that exceed
/// it.
pub fn allow(config: &mut Config) {
    let limit = getrlimit(Resource::Nofile);
    let needed = needed(config);
    let wanted = limit.maximum.unwrap_or_else(|| needed.max(limit.current.unwrap_or(0)));
    let mut current = limit.current.unwrap_or(u64::MAX);
    if current < wanted {
        match setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit }) {
            Ok(()) => current = wanted,
            Err(error) => tracing::warn!("the limit on open files stays at {current}: {error}"),
        }
    }
    if let Some(warning) = fit(config, current) {
        tracing::warn!("{warning}");
    }
}

/// Number of open files, and their limit.
pub fn now() -> (u64, u64) {
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64);
    (open, getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
}

/// Open files that are needed if every listener has all its connections.
fn needed(config: &Config) -> u64 {
    let listeners = syslog_listeners(config);
    let nodes = match config.node_listen {
        Some(_) => collector::node::CONNECTIONS_MAX,
        None => 0,
    };
    let connections = HTTP_CONNECTIONS_MAX + nodes + listeners * config.syslog_tcp.connections_max;
    connections as u64 + OTHER_FILES
}

fn syslog_listeners(config: &Config) -> usize {
    config.listen.streams() + usize::from(config.syslog_tls.is_some())
}

/// Lowers the connections of syslog until `allowed` open files are enough; returns a warning if it
/// did.
fn fit(config: &mut Config, allowed: u64) -> Option<String> {
    let needed_before = needed(config);
    if needed_before <= allowed {
        return None;
    }
    let mut warning = format!(
        "at most {allowed} files can be open, but {needed_before} are needed if all allowed \
         connections are \
         open"
    );
    let (listeners, most) = (syslog_listeners(config), config.syslog_tcp.connections_max);
    if listeners > 0 {
        let others = needed_before - (listeners * most) as u64;
        let each =
            usize::try_from(allowed.saturating_sub(others)).unwrap_or(usize::MAX) / listeners;
        let each = each.max(SYSLOG_CONNECTIONS_MIN).min(most);
        config.syslog_tcp.connections_max = each;
        let _ = write!(warning, "; so syslog.tcp_connections_max is {each} instead of {most}");
    }
    let _ = write!(
        warning,
        "; raise the limit: ulimit -n {needed_before}, or LimitNOFILE={needed_before} in a unit \
        of systemd"
    );
    Some(warning)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RawConfig;

    #[test]
    fn the_sum_of_all_listeners_counts() {
        let config = || Config::try_from(RawConfig::default()).unwrap();
        let most = config().syslog_tcp.connections_max;
        assert!(needed(&config()) > (most + HTTP_CONNECTIONS_MAX) as u64);
        let mut off = config();
        off.listen.syslog_tcp = None;
        assert_eq!(needed(&config()) - needed(&off), most as u64);

        let check = |allowed: u64, expected: usize| {
            let mut config = config();
            let warning = fit(&mut config, allowed);
            assert_eq!(config.syslog_tcp.connections_max, expected);
            assert_eq!(warning.is_none(), expected == most, "{warning:?}");
            warning.unwrap_or_default()
        };
        let needed = needed(&config());
        check(needed, most);
        check(u64::MAX, most);
        check(needed - 1, most - 1);
        let warning = check(needed - 10_000, most - 10_000);
        assert!(warning.contains("tcp_connections_max is 6384 instead of 16384"), "{warning}");
        assert!(warning.contains(&format!("LimitNOFILE={needed}")), "{warning}");
        check(0, SYSLOG_CONNECTIONS_MIN);
    }
}
