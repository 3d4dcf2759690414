//! The system's limit on open files, and what all listeners together may need of it.
//!
//! A connection is an open file. If listeners may together have more connections than the process
//! may have files, then one day neither they nor the store could open any. So the limit is raised
//! at the start as far as permitted; if that is not enough, syslog, which has by far the most
//! connections, gets fewer, and the log says so.

use std::fmt::Write as _;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files besides connections: segments and their rewriting, followed files, results, backups,
/// libraries.
const OTHER_FILES: u64 = 2_048;
/// Connections that syslog keeps, however low the limit is.
const SYSLOG_CONNECTIONS_MIN: usize = 64;

/// The connections that listeners may have.
#[derive(Clone, Copy, Debug)]
pub struct Connections {
    /// Of all listeners besides those of syslog.
    pub others: usize,
    /// Listeners of syslog that accept connections.
    pub syslog_listeners: usize,
    /// Of each of those.
    pub each_syslog: usize,
}

/// Raises the soft limit as far as the hard one permits. Returns how many connections each listener
/// of syslog may have: as many as are wanted, or fewer.
pub fn allow(wanted: Connections) -> usize {
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
    let (each, warning) = fit(wanted, current);
    if let Some(warning) = warning {
        tracing::warn!("{warning}");
    }
    each
}

/// Number of open files, and their limit.
pub fn now() -> (u64, u64) {
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64);
    (open, getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
}

impl Connections {
    /// Open files that are needed if every listener has all its connections.
    fn files(self) -> u64 {
        (self.others + self.syslog_listeners * self.each_syslog) as u64 + OTHER_FILES
    }
}

/// The connections of each listener of syslog for which `allowed` open files are enough, and a
/// warning if those are fewer than wanted.
fn fit(wanted: Connections, allowed: u64) -> (usize, Option<String>) {
    let (needed, most) = (wanted.files(), wanted.each_syslog);
    if needed <= allowed {
        return (most, None);
    }
    let mut warning = format!(
        "at most {allowed} files can be open, but {needed} are needed if all allowed connections \
         are open"
    );
    let mut each = most;
    let others = Connections { each_syslog: 0, ..wanted }.files();
    let left = usize::try_from(allowed.saturating_sub(others)).unwrap_or(usize::MAX);
    if let Some(share) = left.checked_div(wanted.syslog_listeners) {
        each = share.max(SYSLOG_CONNECTIONS_MIN).min(most);
        let _ = write!(warning, "; so syslog.tcp_connections_max is {each} instead of {most}");
    }
    let _ = write!(
        warning,
        "; raise the limit: ulimit -n {needed}, or LimitNOFILE={needed} in a unit of systemd"
    );
    (each, Some(warning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_all_listeners_counts() {
        let most = 16_384;
        let wanted = Connections { others: 1_088, syslog_listeners: 1, each_syslog: most };
        let off = Connections { syslog_listeners: 0, ..wanted };
        assert_eq!(wanted.files() - off.files(), most as u64);

        let check = |allowed: u64, expected: usize| {
            let (each, warning) = fit(wanted, allowed);
            assert_eq!(each, expected);
            assert_eq!(warning.is_none(), expected == most, "{warning:?}");
            warning.unwrap_or_default()
        };
        let needed = wanted.files();
        check(needed, most);
        check(u64::MAX, most);
        check(needed - 1, most - 1);
        let warning = check(needed - 10_000, most - 10_000);
        assert!(warning.contains("tcp_connections_max is 6384 instead of 16384"), "{warning}");
        assert!(warning.contains(&format!("LimitNOFILE={needed}")), "{warning}");
        check(0, SYSLOG_CONNECTIONS_MIN);
        assert!(fit(off, 0).1.is_some());
    }
}
