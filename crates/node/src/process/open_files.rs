//! The system's limit on open files, and what all listeners together may need of it.
//!
//! A connection is an open file. If listeners may together have more connections than the process
//! may have files, then one day neither they nor the store could open any. So the limit is raised
//! at the start as far as permitted; if that is not enough, syslog, which has by far the most
//! connections, gets fewer, then HTTP, so that half of the files are left for everything else, and
//! the log says so. With fewer files than [`FILES_MIN`] the process does not start: it would find
//! out later, with lines in its hands.

use std::fmt::Write as _;

use anyhow::{Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files besides connections: segments and their rewriting, followed files, results, backups,
/// libraries.
const OTHER_FILES: u64 = 2_048;
/// The fewest open files that a process can work with.
///
/// limits.md, Lines on their way in: open files of the process | at least {} (`ulimit -n`) | with
/// fewer, Loginson does not start; with fewer than all connections need, there are fewer
/// connections, and the log says how many
const FILES_MIN: u64 = 256;
/// Connections that each listener of syslog keeps before those of HTTP are lowered.
const SYSLOG_CONNECTIONS_MIN: usize = 64;
/// The fewest connections of a listener.
const CONNECTIONS_MIN: usize = 16;

/// The connections that listeners may have.
#[derive(Clone, Copy, Debug)]
pub struct Connections {
    /// Of HTTP.
    pub http: usize,
    /// Of the listener for collectors.
    pub nodes: usize,
    /// Listeners of syslog that accept connections.
    pub syslog_listeners: usize,
    /// Of each of those.
    pub each_syslog: usize,
}

/// Raises the soft limit as far as the hard one permits. Returns how many connections the listeners
/// may have: as many as are wanted, or fewer.
///
/// Errors: too few files can be open.
pub fn allow(wanted: Connections) -> Result<Connections> {
    let limit = getrlimit(Resource::Nofile);
    let needed = wanted.files();
    let files = limit.maximum.unwrap_or_else(|| needed.max(limit.current.unwrap_or(0)));
    let mut current = limit.current.unwrap_or(u64::MAX);
    if current < files {
        match setrlimit(Resource::Nofile, Rlimit { current: Some(files), ..limit }) {
            Ok(()) => current = files,
            Err(error) => tracing::warn!("the limit on open files stays at {current}: {error}"),
        }
    }
    let (allowed, warning) = fit(wanted, current)?;
    if let Some(warning) = warning {
        tracing::warn!("{warning}");
    }
    Ok(allowed)
}

/// Number of open files, and their limit.
pub fn now() -> (u64, u64) {
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64);
    (open, getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
}

impl Connections {
    /// Open files that are needed if every listener has all its connections.
    fn files(self) -> u64 {
        (self.http + self.nodes + self.syslog_listeners * self.each_syslog) as u64 + OTHER_FILES
    }
}

/// The connections for which `allowed` open files are enough, and a warning if those are fewer than
/// wanted.
fn fit(wanted: Connections, allowed: u64) -> Result<(Connections, Option<String>)> {
    let needed = wanted.files();
    let raise = format!(
        "raise the limit: ulimit -n {needed}, or LimitNOFILE={needed} in a unit of systemd"
    );
    ensure!(
        allowed >= FILES_MIN,
        "at most {allowed} files can be open, and Loginson needs {FILES_MIN} at least, {needed} for \
         all connections; {raise}"
    );
    if needed <= allowed {
        return Ok((wanted, None));
    }
    let listeners = wanted.syslog_listeners;
    let count = |files: u64| usize::try_from(files).unwrap_or(usize::MAX);
    let others = Connections { each_syslog: 0, ..wanted }.files();
    let share = count(allowed.saturating_sub(others)).checked_div(listeners);
    let mut fitting = wanted;
    fitting.each_syslog = share.map_or(0, |share| share.max(SYSLOG_CONNECTIONS_MIN));
    if share.is_none_or(|share| share < SYSLOG_CONNECTIONS_MIN) {
        // Half of the files are for connections: a quarter of these for syslog, the rest for HTTP.
        let half = count(allowed / 2);
        let least = (half / 4).checked_div(listeners).unwrap_or(0).max(CONNECTIONS_MIN);
        fitting.each_syslog = SYSLOG_CONNECTIONS_MIN.min(least);
        let rest = half.saturating_sub(listeners * fitting.each_syslog + wanted.nodes);
        fitting.http = rest.max(CONNECTIONS_MIN).min(wanted.http);
    }
    fitting.each_syslog = fitting.each_syslog.min(wanted.each_syslog);
    let mut warning = format!(
        "at most {allowed} files can be open, but {needed} are needed if all allowed connections \
         are open"
    );
    if listeners > 0 {
        let (each, most) = (fitting.each_syslog, wanted.each_syslog);
        let _ = write!(warning, "; so syslog.tcp_connections_max is {each} instead of {most}");
    }
    if fitting.http < wanted.http {
        let (http, most) = (fitting.http, wanted.http);
        let _ = write!(warning, "; HTTP takes {http} connections instead of {most}");
    }
    let _ = write!(warning, "; {raise}");
    Ok((fitting, Some(warning)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_all_listeners_counts() {
        let most = 16_384;
        let wanted = Connections { http: 1_088, nodes: 0, syslog_listeners: 1, each_syslog: most };
        let off = Connections { syslog_listeners: 0, ..wanted };
        assert_eq!(wanted.files() - off.files(), most as u64);

        let check = |allowed: u64, http: usize, expected: usize| {
            let (fitting, warning) = fit(wanted, allowed).unwrap();
            assert_eq!((fitting.http, fitting.each_syslog), (http, expected), "{allowed}");
            assert_eq!(warning.is_none(), expected == most, "{warning:?}");
            warning.unwrap_or_default()
        };
        let needed = wanted.files();
        check(needed, 1_088, most);
        check(u64::MAX, 1_088, most);
        check(needed - 1, 1_088, most - 1);
        let warning = check(needed - 10_000, 1_088, most - 10_000);
        assert!(warning.contains("tcp_connections_max is 6384 instead of 16384"), "{warning}");
        assert!(warning.contains(&format!("LimitNOFILE={needed}")), "{warning}");
        check(1_088 + OTHER_FILES + 64, 1_088, 64);
        check(1_088 + OTHER_FILES + 63, 1_088, 64);
        let warning = check(1_024, 448, 64);
        assert!(warning.contains("HTTP takes 448 connections instead of 1088"), "{warning}");
        check(FILES_MIN, 96, 32);
        let error = fit(wanted, FILES_MIN - 1).unwrap_err().to_string();
        assert!(error.contains("at most 255 files") && error.contains("needs 256"), "{error}");
    }

    #[test]
    fn half_of_few_files_is_left_for_everything_but_connections() {
        for nodes in [0, 64] {
            for syslog_listeners in 0..=2 {
                let wanted =
                    Connections { http: 1_088, nodes, syslog_listeners, each_syslog: 16_384 };
                for allowed in (FILES_MIN..4_000).step_by(7) {
                    let (fitting, _) = fit(wanted, allowed).unwrap();
                    let connections = fitting.files() - OTHER_FILES;
                    // Beside the least of each, which is more with the listener for collectors.
                    let most = (allowed - OTHER_FILES.min(allowed / 2)).max(allowed / 2);
                    assert!(connections <= most.max(128), "{allowed} {nodes} {syslog_listeners}");
                    assert!(fitting.http >= CONNECTIONS_MIN);
                }
            }
        }
    }
}
