//! Processor time, memory and disk of processes and of the host, from `/proc`.
//!
//! A process can be measured with all its descendants, for servers that fork for each connection. A
//! later descendant counts from its start; what one did between the last sample and its end is
//! missed. Memory that processes of one server share, like the buffers of PostgreSQL, counts once:
//! that of the process with the most. Values that `/proc` does not let us read (disk counters of
//! another user) are 0.

use std::collections::BTreeMap;

use super::machine::kilobytes;
use crate::proc::{Stat, trees};
use crate::results::Resource;

/// Ticks per second in `/proc`: the same on every supported architecture (USER_HZ).
const TICKS_PER_S: f64 = 100.0;

/// Bytes of a sector in `/proc/diskstats`, whatever the disk's sector size.
const SECTOR_BYTES: u64 = 512;

/// Processes that are summed under one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// As in [`Resource::process`].
    pub name: String,
    /// Their ids.
    pub pids: Vec<u32>,
    /// Whether their descendants are included.
    pub descendants: bool,
}

impl Watched {
    /// This process, without the servers that it started.
    pub fn generator() -> Watched {
        Watched { name: "generator".to_owned(), pids: vec![std::process::id()], descendants: false }
    }
}

/// Counters that only grow, and the current memory.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Counters {
    cpu_ticks: u64,
    /// Memory of the process alone.
    memory_bytes: u64,
    /// Memory that other processes may share.
    shared_bytes: u64,
    disk_read_bytes: u64,
    disk_write_bytes: u64,
    network_bytes: u64,
}

/// Samples all watched processes repeatedly.
pub struct Sampler {
    watched: Vec<Watched>,
    /// Counters of each process at the last sample. A reused id has another start time.
    last: BTreeMap<(u32, u64), Counters>,
    /// Whether the whole machine is measured too.
    host: Option<Counters>,
}

impl Sampler {
    /// Starts now; with the whole machine under the name `host`, or without.
    pub fn new(watched: Vec<Watched>, with_host: bool) -> Sampler {
        let mut sampler = Sampler { watched, last: BTreeMap::new(), host: None };
        sampler.restart();
        if with_host {
            sampler.host = Some(host());
        }
        sampler
    }

    /// Discards everything before now.
    pub fn restart(&mut self) {
        for watched in &self.watched {
            for pid in watched.pids.iter().flat_map(|root| members(watched, *root)) {
                if let Some((start, counters)) = process(pid) {
                    self.last.insert((pid, start), counters);
                }
            }
        }
        if self.host.is_some() {
            self.host = Some(host());
        }
    }

    /// The resources used since the last sample.
    pub fn sample(&mut self, second: u32) -> Vec<Resource> {
        let mut resources = Vec::new();
        for watched in &self.watched {
            let mut sum = Resource { second, process: watched.name.clone(), ..Resource::default() };
            for root in &watched.pids {
                let mut shared_bytes = 0;
                for pid in members(watched, *root) {
                    let Some((start, now)) = process(pid) else { continue };
                    let before = self.last.insert((pid, start), now).unwrap_or_default();
                    add(&mut sum, before, now);
                    shared_bytes = shared_bytes.max(now.shared_bytes);
                }
                sum.memory_bytes += shared_bytes;
            }
            resources.push(sum);
        }
        if let Some(before) = &mut self.host {
            let now = host();
            let mut sum = Resource { second, process: "host".to_owned(), ..Resource::default() };
            add(&mut sum, *before, now);
            *before = now;
            resources.push(sum);
        }
        resources
    }
}

fn add(sum: &mut Resource, before: Counters, now: Counters) {
    sum.cpu_s += now.cpu_ticks.saturating_sub(before.cpu_ticks) as f64 / TICKS_PER_S;
    sum.memory_bytes += now.memory_bytes;
    sum.disk_read_bytes += now.disk_read_bytes.saturating_sub(before.disk_read_bytes);
    sum.disk_write_bytes += now.disk_write_bytes.saturating_sub(before.disk_write_bytes);
    sum.network_bytes += now.network_bytes.saturating_sub(before.network_bytes);
}

/// One of the watched processes, and, if they are included, its current descendants.
fn members(watched: &Watched, root: u32) -> Vec<u32> {
    if watched.descendants { trees(&[root]) } else { vec![root] }
}

fn process(pid: u32) -> Option<(u64, Counters)> {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).ok();
    let stat = Stat::of(pid)?;
    let io = read("io").unwrap_or_default();
    let number = |name: &str| {
        let line = io.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
    };
    let status = read("status").unwrap_or_default();
    let counters = Counters {
        cpu_ticks: stat.cpu_ticks,
        memory_bytes: kilobytes(&status, "RssAnon"),
        shared_bytes: kilobytes(&status, "RssFile") + kilobytes(&status, "RssShmem"),
        disk_read_bytes: number("read_bytes:"),
        disk_write_bytes: number("write_bytes:"),
        network_bytes: 0,
    };
    Some((stat.began_ticks, counters))
}

fn host() -> Counters {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let meminfo = read("/proc/meminfo");
    let memory =
        kilobytes(&meminfo, "MemTotal").saturating_sub(kilobytes(&meminfo, "MemAvailable"));
    let is_disk =
        |name: &str| std::path::Path::new("/sys/block").join(name).join("device").exists();
    let (disk_read_bytes, disk_write_bytes) = parse_diskstats(&read("/proc/diskstats"), is_disk);
    Counters {
        cpu_ticks: parse_busy(&read("/proc/stat")),
        memory_bytes: memory,
        shared_bytes: 0,
        disk_read_bytes,
        disk_write_bytes,
        network_bytes: parse_network(&read("/proc/net/dev")),
    }
}

/// Ticks in which a processor was neither idle nor waiting for a disk.
fn parse_busy(stat: &str) -> u64 {
    let Some(line) = stat.lines().find_map(|line| line.strip_prefix("cpu ")) else { return 0 };
    // User, nice, system, idle, iowait, irq, softirq, steal; guests are within user.
    let ticks = line.split_whitespace().take(8).enumerate();
    ticks
        .filter(|(at, _)| !matches!(at, 3 | 4))
        .filter_map(|(_, ticks)| ticks.parse::<u64>().ok())
        .sum()
}

/// Bytes read and written by whole disks; partitions and stacked devices would count twice.
fn parse_diskstats(text: &str, is_disk: impl Fn(&str) -> bool) -> (u64, u64) {
    let mut bytes = (0, 0);
    for line in text.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if let [_, _, name, _, _, read, _, _, _, written, ..] = fields.as_slice()
            && is_disk(name)
        {
            bytes.0 += read.parse::<u64>().unwrap_or(0) * SECTOR_BYTES;
            bytes.1 += written.parse::<u64>().unwrap_or(0) * SECTOR_BYTES;
        }
    }
    bytes
}

/// Bytes received and sent by all interfaces. Loopback traffic is both received and sent, and
/// counts once.
fn parse_network(text: &str) -> u64 {
    let interfaces = text.lines().filter_map(|line| line.split_once(':'));
    interfaces
        .map(|(name, counters)| {
            let numbers: Vec<u64> =
                counters.split_whitespace().map(|number| number.parse().unwrap_or(0)).collect();
            let at = |place: usize| numbers.get(place).copied().unwrap_or(0);
            if name.trim() == "lo" { at(0) } else { at(0) + at(8) }
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_the_host_are_read() {
        assert_eq!(parse_busy("cpu  1 2 3 100 200 4 5 6 7 8\ncpu0 9 9 9\n"), 21);
        let disks = "8 0 sda 1 0 10 0 1 0 20 0 0\n8 1 sda1 1 0 10 0 1 0 20 0 0\n";
        assert_eq!(parse_diskstats(disks, |name| name == "sda"), (5120, 10240));
        let network = "Inter-| Receive\n face |bytes\n    lo: 100 1 0 0 0 0 0 0 100 1\n  eth0: 5 1 0 0 0 0 0 0 6 1\n";
        assert_eq!(parse_network(network), 111);
    }

    #[test]
    fn memory_that_processes_share_counts_once() {
        // Two programs with the same library.
        let mut shell =
            std::process::Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap();
        let whole = Watched { name: "sh".into(), pids: vec![shell.id()], descendants: true };
        let waits = |pid: &u32| Stat::of(*pid).is_some_and(|stat| stat.state == b'S');
        let is_sleep = |pid: &u32| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n")
        };
        let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
        let both = loop {
            let both = members(&whole, shell.id());
            if both.len() == 2 && is_sleep(&both[1]) && both.iter().all(waits) {
                break both;
            }
            assert!(std::time::Instant::now() < until, "{both:?}");
            std::thread::yield_now();
        };
        let counted: Vec<Counters> = both.iter().map(|pid| process(*pid).unwrap().1).collect();
        let sampled = Sampler::new(vec![whole], false).sample(0)[0].memory_bytes;
        let kill = std::process::Command::new("kill").arg(both[1].to_string()).status();
        assert!(kill.unwrap().success());
        shell.wait().unwrap();
        let own: u64 = counted.iter().map(|one| one.memory_bytes).sum();
        let shared = counted.iter().map(|one| one.shared_bytes);
        assert!(shared.clone().all(|bytes| bytes > 0), "{counted:?}");
        assert_eq!(sampled, own + shared.max().unwrap(), "{counted:?}");
    }

    #[test]
    fn this_process_and_a_child_are_seen() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let whole = Watched { name: "store".to_owned(), descendants: true, ..Watched::generator() };
        let mut sampler = Sampler::new(vec![Watched::generator(), whole], true);
        let mut work = 1u64;
        let until = std::time::Instant::now() + std::time::Duration::from_millis(50);
        while std::time::Instant::now() < until {
            work = work.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        }
        let sample = sampler.sample(3);
        child.kill().unwrap();
        child.wait().unwrap();
        let names: Vec<_> = sample.iter().map(|r| (r.second, r.process.as_str())).collect();
        assert_eq!(names, [(3, "generator"), (3, "store"), (3, "host")], "{work}");
        assert!(sample[0].cpu_s > 0.0 && sample[2].cpu_s > 0.0, "{sample:?}");
        assert!(sample[1].memory_bytes > sample[0].memory_bytes, "{sample:?}");
    }
}
