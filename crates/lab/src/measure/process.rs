//! Processor time, memory and disk of processes and of the host, from `/proc`.
//!
//! A process can be measured with all its descendants, for servers that fork for each connection. A
//! later descendant counts from its start; what one did between the last sample and its end is
//! missed. Memory that processes of one server share, like the buffers of PostgreSQL, counts once:
//! that of the process with the most. Values that `/proc` does not let us read (disk counters of
//! another user) are 0.

use std::collections::BTreeMap;

use procfs::net::DeviceStatus;
use procfs::process::Status;
use procfs::{CpuTime, Current, CurrentSI, DiskStat, KernelStats, Meminfo};

use crate::proc::trees;
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
    interrupt_ticks: u64,
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
    let interrupt_ticks = now.interrupt_ticks.saturating_sub(before.interrupt_ticks);
    sum.interrupts_s += interrupt_ticks as f64 / TICKS_PER_S;
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
    let process = crate::proc::process(pid)?;
    let stat = process.stat().ok()?;
    // Another user's disk counters cannot be read.
    let (disk_read_bytes, disk_write_bytes) =
        process.io().map_or((0, 0), |io| (io.read_bytes, io.write_bytes));
    let status = process.status().ok();
    let bytes = |kib: Option<u64>| kib.unwrap_or(0) * 1024;
    let memory = |of: fn(&Status) -> Option<u64>| bytes(status.as_ref().and_then(of));
    let counters = Counters {
        cpu_ticks: stat.utime + stat.stime,
        interrupt_ticks: 0,
        memory_bytes: memory(|status| status.rssanon),
        shared_bytes: memory(|status| status.rssfile) + memory(|status| status.rssshmem),
        disk_read_bytes,
        disk_write_bytes,
        network_bytes: 0,
    };
    Some((stat.starttime, counters))
}

fn host() -> Counters {
    let memory = Meminfo::current().ok();
    let memory_bytes = memory.map_or(0, |memory| {
        memory.mem_total.saturating_sub(memory.mem_available.unwrap_or(memory.mem_free))
    });
    let is_disk =
        |name: &str| std::path::Path::new("/sys/block").join(name).join("device").exists();
    let (disk_read_bytes, disk_write_bytes) =
        disk_bytes(&procfs::diskstats().unwrap_or_default(), is_disk);
    let (cpu_ticks, interrupt_ticks) =
        KernelStats::current().map_or((0, 0), |stats| busy_ticks(&stats.total));
    Counters {
        cpu_ticks,
        interrupt_ticks,
        memory_bytes,
        shared_bytes: 0,
        disk_read_bytes,
        disk_write_bytes,
        network_bytes: network_bytes(procfs::net::dev_status().unwrap_or_default().values()),
    }
}

/// Ticks in which a processor was neither idle nor waiting for a disk, and those of them in
/// interrupts. `guest` is within `user`; what another virtual machine took counts as busy.
fn busy_ticks(time: &CpuTime) -> (u64, u64) {
    let interrupts: u64 = [time.irq, time.softirq].into_iter().flatten().sum();
    (time.user + time.nice + time.system + time.steal.unwrap_or(0) + interrupts, interrupts)
}

/// Bytes read and written by whole disks; partitions and stacked devices would count twice.
fn disk_bytes(disks: &[DiskStat], is_disk: impl Fn(&str) -> bool) -> (u64, u64) {
    disks.iter().filter(|disk| is_disk(&disk.name)).fold((0, 0), |(read, written), disk| {
        (read + disk.sectors_read * SECTOR_BYTES, written + disk.sectors_written * SECTOR_BYTES)
    })
}

/// Bytes received and sent by all interfaces. Loopback traffic is both received and sent, and
/// counts once.
fn network_bytes<'d>(interfaces: impl IntoIterator<Item = &'d DeviceStatus>) -> u64 {
    let bytes = |device: &DeviceStatus| match device.name.as_str() {
        "lo" => device.recv_bytes,
        _ => device.recv_bytes + device.sent_bytes,
    };
    interfaces.into_iter().map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use crate::proc::Stat;
    use procfs::FromRead;
    use procfs::net::InterfaceDeviceStatus;

    use super::*;

    #[test]
    fn counters_of_the_host_are_read() {
        let host = host();
        assert!(host.cpu_ticks > 0 && host.memory_bytes > 0, "{host:?}");
        let disk = |line| DiskStat::from_line(line).unwrap();
        let disks =
            [disk("8 0 sda 1 0 10 0 1 0 20 0 0 0 0"), disk("8 1 sda1 1 0 10 0 1 0 20 0 0 0 0")];
        assert_eq!(disk_bytes(&disks, |name| name == "sda"), (5120, 10240));
        let network = "Inter-| Receive\n face |bytes\n    lo: 100 1 0 0 0 0 0 0 100 1 0 0 0 0 0 0\n  eth0: 5 1 0 0 0 0 0 0 6 1 0 0 0 0 0 0\n";
        let devices = InterfaceDeviceStatus::from_read(network.as_bytes()).unwrap().0;
        assert_eq!(network_bytes(devices.values()), 111);
    }

    #[test]
    fn memory_that_processes_share_counts_once() {
        // Two programs with the same library.
        let mut shell =
            std::process::Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap();
        let whole = Watched { name: "sh".into(), pids: vec![shell.id()], descendants: true };
        let waits = |pid: &u32| Stat::of(*pid).is_some_and(|stat| stat.state == 'S');
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
    fn this_process_and_the_host_are_seen() {
        let whole = Watched { name: "store".to_owned(), descendants: true, ..Watched::generator() };
        let mut sampler = Sampler::new(vec![Watched::generator(), whole], true);
        let mut work = 1u64;
        // On a busy machine it takes a while to get processor time.
        let ticks = || process(std::process::id()).unwrap().1.cpu_ticks;
        let before = ticks();
        while ticks() < before + 2 {
            work = work.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        }
        let sample = sampler.sample(3);
        let names: Vec<_> = sample.iter().map(|r| (r.second, r.process.as_str())).collect();
        assert_eq!(names, [(3, "generator"), (3, "store"), (3, "host")], "{work}");
        assert!(sample[0].cpu_s > 0.0 && sample[2].cpu_s > 0.0, "{sample:?}");
        // Other tests run in this process, whose memory is not the same twice.
        assert!(sample[0].memory_bytes > 0 && sample[1].memory_bytes > 0, "{sample:?}");
    }
}
