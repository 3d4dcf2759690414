//! What the process takes of the machine: processor time, memory, threads.

use procfs::WithCurrentSystemInfo;
use procfs::process::Process;

/// What a process has taken since its start, and holds now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    /// Processor time of all threads, in the kernel too, seconds.
    pub cpu_s: f64,
    /// Memory that is in use, bytes.
    pub resident_bytes: u64,
    /// Addresses that are reserved, bytes.
    pub virtual_bytes: u64,
    /// Threads.
    pub threads: u64,
}

/// The usage of this process. `None`: the system does not tell.
pub fn now() -> Option<Usage> {
    let stat = Process::myself().and_then(|process| process.stat()).ok()?;
    Some(Usage {
        cpu_s: (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64,
        resident_bytes: stat.rss_bytes().get(),
        virtual_bytes: stat.vsize,
        threads: u64::try_from(stat.num_threads).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_process_takes_something() {
        let usage = super::now().unwrap();
        assert!(usage.resident_bytes > 0 && usage.virtual_bytes >= usage.resident_bytes);
        assert!(usage.cpu_s >= 0.0 && usage.threads >= 1);
    }
}
