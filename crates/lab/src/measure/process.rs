//! Processor time, memory and disk of processes and of the host, from `/proc`.
//!
//! A process can be measured with all its descendants, for servers that fork for each connection or
//! run programs. A later descendant counts from its start. One that ends between two samples counts
//! as well: the kernel adds what it used to the counters of the parent that waits for it. Memory
//! that processes of one server share, like the buffers of PostgreSQL, counts once: that of the
//! process with the most. Values that `/proc` does not let us read (disk counters of another user)
//! are 0.

use std::collections::BTreeMap;

use procfs::net::DeviceStatus;
use procfs::process::Status;
use procfs::{CpuTime, Current, CurrentSI, DiskStat, KernelStats, Meminfo};

use crate::proc::trees;
use crate::results::{GENERATOR, HOST, Resource};

/// Ticks per second in `/proc`: the same on every supported architecture (USER_HZ).
const TICKS_PER_S: f64 = 100.0;

/// The signal of ended children in the masks of `/proc/PID/status`. A process that ignores it does
/// not inherit their counters.
const SIGCHLD_BIT: u64 = 1 << 16;

/// Bytes of a sector in `/proc/diskstats`, whatever the disk's sector size.
const SECTOR_BYTES: u64 = 512;

/// Processes that are summed under one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// As in [`Resource::process`].
    pub name: String,
    /// Their ids.
    pub pids: Vec<u32>,
    /// Whether their descendants are included; otherwise they are this process, and the clients of
    /// stores that it has started are included.
    pub descendants: bool,
}

impl Watched {
    /// This process and its clients of stores, without the servers that it started.
    pub fn generator() -> Watched {
        let (name, pids) = (GENERATOR.to_owned(), vec![std::process::id()]);
        Watched { name, pids, descendants: false }
    }
}

/// Counters that only grow, and the current memory.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Counters {
    /// The number of the parent.
    parent: u32,
    /// Whether it waits for its children, so that their counters are added to its own.
    inherits: bool,
    cpu_ticks: u64,
    interrupt_ticks: u64,
    /// Of the whole machine: what other virtual machines took.
    stolen_ticks: u64,
    /// Memory of the process alone.
    memory_bytes: u64,
    /// Memory that other processes may share.
    shared_bytes: u64,
    disk_read_bytes: u64,
    disk_write_bytes: u64,
    /// Of the whole machine: writes that its disks completed.
    disk_writes: u64,
    network_bytes: u64,
}

/// Counters of processes, by number and start time: a number that is used again has another one.
type Processes = BTreeMap<(u32, u64), Counters>;

/// Samples all watched processes repeatedly.
pub struct Sampler {
    watched: Vec<Tracked>,
    /// Whether the whole machine is measured too.
    host: Option<Counters>,
}

/// Watched processes between two samples.
struct Tracked {
    watched: Watched,
    /// Their counters at the last sample.
    last: Processes,
    /// What was counted too much: a child had ended, and its parent was read before it inherited
    /// the counters of the child. It is subtracted from the next sample.
    too_much: Used,
}

impl Sampler {
    /// Starts now; with the whole machine under the name `host`, or without.
    pub fn new(watched: Vec<Watched>, with_host: bool) -> Sampler {
        let tracked =
            |watched| Tracked { watched, last: Processes::new(), too_much: Used::default() };
        let watched = watched.into_iter().map(tracked).collect();
        let mut sampler = Sampler { watched, host: with_host.then(Counters::default) };
        sampler.restart();
        sampler
    }

    /// Discards everything before now.
    pub fn restart(&mut self) {
        for Tracked { watched, last, too_much } in &mut self.watched {
            *last = watched.roots().iter().flat_map(|root| watched.processes(*root)).collect();
            *too_much = Used::default();
        }
        if let Some(last) = &mut self.host {
            *last = host();
        }
    }

    /// The resources used since the last sample.
    pub fn sample(&mut self, second: u32) -> Vec<Resource> {
        let mut resources = Vec::new();
        for Tracked { watched, last, too_much } in &mut self.watched {
            let mut sum = Resource { second, process: watched.name.clone(), ..Resource::default() };
            let mut all = Processes::new();
            for root in watched.roots() {
                let tree = watched.processes(root);
                let shared_bytes = tree.iter().map(|(_, process)| process.shared_bytes).max();
                sum.memory_bytes += shared_bytes.unwrap_or(0);
                all.extend(tree);
            }
            sum.memory_bytes += all.values().map(|process| process.memory_bytes).sum::<u64>();
            let runs = |pid: u32, start: u64| {
                crate::proc::Stat::of(pid).is_some_and(|stat| stat.began_ticks == start)
            };
            let used = used(last, &all, runs).minus(*too_much);
            used.put_into(&mut sum);
            *too_much = used.too_much();
            *last = all;
            resources.push(sum);
        }
        if let Some(last) = &mut self.host {
            let now = host();
            let mut sum = Resource { second, process: HOST.to_owned(), ..Resource::default() };
            sum.memory_bytes = now.memory_bytes;
            let since = |now: u64, last: u64| now.saturating_sub(last) as f64 / TICKS_PER_S;
            sum.interrupts_s = since(now.interrupt_ticks, last.interrupt_ticks);
            sum.stolen_s = since(now.stolen_ticks, last.stolen_ticks);
            sum.network_bytes = now.network_bytes.saturating_sub(last.network_bytes);
            sum.disk_writes = Some(now.disk_writes.saturating_sub(last.disk_writes));
            now.used().minus(last.used()).put_into(&mut sum);
            *last = now;
            resources.push(sum);
        }
        resources
    }
}

impl Watched {
    /// The watched processes that are not descendants of others, with which they are counted.
    fn roots(&self) -> Vec<u32> {
        let below = |root: &u32| trees(&[*root]).split_off(1);
        if !self.descendants {
            return self.pids.iter().copied().chain(crate::proc::clients()).collect();
        }
        let counted: Vec<u32> = self.pids.iter().flat_map(below).collect();
        self.pids.iter().copied().filter(|pid| !counted.contains(pid)).collect()
    }

    /// The counters of one root, and, if they are included, of its current descendants.
    fn processes(&self, root: u32) -> Vec<((u32, u64), Counters)> {
        let pids = if self.descendants { trees(&[root]) } else { vec![root] };
        pids.into_iter().filter_map(|pid| process(pid, self.descendants)).collect()
    }
}

/// What processes used between two samples.
///
/// The counters of a parent rise by all that an ended child ever used. What was already counted
/// while the child ran is subtracted, unless nobody inherited it: the parent is not measured, or
/// does not wait for its children, or the child `runs` and has got another parent.
fn used(before: &Processes, now: &Processes, runs: impl Fn(u32, u64) -> bool) -> Used {
    let mut sum = Used::default();
    for (process, counters) in now {
        let last = before.get(process).map(Counters::used).unwrap_or_default();
        sum = sum.plus(counters.used().minus(last));
    }
    let inherits = |parent: u32| {
        let known = now.iter().chain(before).find(|((pid, _), _)| *pid == parent);
        known.is_some_and(|(_, counters)| counters.inherits)
    };
    for ((pid, start), counters) in before {
        let is_here = now.contains_key(&(*pid, *start)) || runs(*pid, *start);
        if !is_here && inherits(counters.parent) {
            sum = sum.minus(counters.used());
        }
    }
    sum
}

impl Counters {
    fn used(&self) -> Used {
        let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        Used {
            cpu_ticks: signed(self.cpu_ticks),
            disk_read_bytes: signed(self.disk_read_bytes),
            disk_write_bytes: signed(self.disk_write_bytes),
        }
    }
}

/// What was used of resources whose counters ended processes leave to their parents.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Used {
    cpu_ticks: i64,
    disk_read_bytes: i64,
    disk_write_bytes: i64,
}

impl Used {
    fn each(self, other: Used, of: impl Fn(i64, i64) -> i64) -> Used {
        Used {
            cpu_ticks: of(self.cpu_ticks, other.cpu_ticks),
            disk_read_bytes: of(self.disk_read_bytes, other.disk_read_bytes),
            disk_write_bytes: of(self.disk_write_bytes, other.disk_write_bytes),
        }
    }

    fn plus(self, other: Used) -> Used {
        self.each(other, i64::saturating_add)
    }

    fn minus(self, other: Used) -> Used {
        self.each(other, i64::saturating_sub)
    }

    /// How far it is below 0.
    fn too_much(self) -> Used {
        self.each(Used::default(), |value, _| value.min(0).saturating_neg())
    }

    /// What is above 0.
    fn put_into(self, sum: &mut Resource) {
        let above = |value: i64| u64::try_from(value).unwrap_or(0);
        sum.cpu_s = above(self.cpu_ticks) as f64 / TICKS_PER_S;
        sum.disk_read_bytes = above(self.disk_read_bytes);
        sum.disk_write_bytes = above(self.disk_write_bytes);
    }
}

/// The counters of a process, with or without those of children that it waited for.
fn process(pid: u32, with_children: bool) -> Option<((u32, u64), Counters)> {
    let process = crate::proc::process(pid)?;
    let stat = process.stat().ok()?;
    // Another user's disk counters cannot be read. They always hold those of ended children.
    let (disk_read_bytes, disk_write_bytes) =
        process.io().map_or((0, 0), |io| (io.read_bytes, io.write_bytes));
    let children_ticks = match with_children {
        true => u64::try_from(stat.cutime + stat.cstime).unwrap_or(0),
        false => 0,
    };
    let status = process.status().ok();
    let bytes = |kib: Option<u64>| kib.unwrap_or(0) * 1024;
    let memory = |of: fn(&Status) -> Option<u64>| bytes(status.as_ref().and_then(of));
    let counters = Counters {
        parent: u32::try_from(stat.ppid).unwrap_or(0),
        inherits: status.as_ref().is_none_or(|status| status.sigign & SIGCHLD_BIT == 0),
        cpu_ticks: stat.utime + stat.stime + children_ticks,
        interrupt_ticks: 0,
        stolen_ticks: 0,
        memory_bytes: memory(|status| status.rssanon),
        shared_bytes: memory(|status| status.rssfile) + memory(|status| status.rssshmem),
        disk_read_bytes,
        disk_write_bytes,
        disk_writes: 0,
        network_bytes: 0,
    };
    Some(((pid, stat.starttime), counters))
}

fn host() -> Counters {
    let memory = Meminfo::current().ok();
    let memory_bytes = memory.map_or(0, |memory| {
        memory.mem_total.saturating_sub(memory.mem_available.unwrap_or(memory.mem_free))
    });
    // Partitions and stacked devices would count twice.
    let is_disk =
        |name: &str| std::path::Path::new("/sys/block").join(name).join("device").exists();
    let mut disks = procfs::diskstats().unwrap_or_default();
    disks.retain(|disk| is_disk(&disk.name));
    let (disk_read_bytes, disk_write_bytes) = disk_bytes(&disks);
    let time = KernelStats::current().ok().map(|stats| stats.total);
    let ticks = |of: fn(&CpuTime) -> u64| time.as_ref().map_or(0, of);
    Counters {
        parent: 0,
        inherits: false,
        cpu_ticks: ticks(busy_ticks),
        interrupt_ticks: ticks(interrupt_ticks),
        stolen_ticks: ticks(|time| time.steal.unwrap_or(0)),
        memory_bytes,
        shared_bytes: 0,
        disk_read_bytes,
        disk_write_bytes,
        disk_writes: disks.iter().map(|disk| disk.writes).sum(),
        network_bytes: network_bytes(procfs::net::dev_status().unwrap_or_default().values()),
    }
}

/// Ticks in which a processor was neither idle nor waiting for a disk. `guest` is within `user`;
/// what another virtual machine took counts as busy.
fn busy_ticks(time: &CpuTime) -> u64 {
    time.user + time.nice + time.system + time.steal.unwrap_or(0) + interrupt_ticks(time)
}

fn interrupt_ticks(time: &CpuTime) -> u64 {
    [time.irq, time.softirq].into_iter().flatten().sum()
}

/// Bytes read and written by disks.
fn disk_bytes(disks: &[DiskStat]) -> (u64, u64) {
    disks.iter().fold((0, 0), |(read, written), disk| {
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
            [disk("8 0 sda 1 0 10 0 1 0 20 0 0 0 0"), disk("8 16 sdb 1 0 1 0 1 0 2 0 0 0 0")];
        assert_eq!(disk_bytes(&disks), (11 * 512, 22 * 512));
        let network = "Inter-| Receive\n face |bytes\n    lo: 100 1 0 0 0 0 0 0 100 1 0 0 0 0 0 0\n  eth0: 5 1 0 0 0 0 0 0 6 1 0 0 0 0 0 0\n";
        let devices = InterfaceDeviceStatus::from_read(network.as_bytes()).unwrap().0;
        assert_eq!(network_bytes(devices.values()), 111);
    }

    #[test]
    fn memory_that_processes_share_counts_once() {
        // Two programs with the same library.
        let mut shell =
            std::process::Command::new("sh").args(["-c", "sleep infinity & wait"]).spawn().unwrap();
        let whole = Watched { name: "sh".into(), pids: vec![shell.id()], descendants: true };
        let waits = |pid: &u32| Stat::of(*pid).is_some_and(|stat| stat.state == 'S');
        let is_sleep = |pid: &u32| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n")
        };
        let both = loop {
            let both = trees(&[shell.id()]);
            if both.len() == 2 && is_sleep(&both[1]) && both.iter().all(waits) {
                break both;
            }
            std::thread::yield_now();
        };
        let counted: Vec<Counters> =
            both.iter().map(|pid| process(*pid, true).unwrap().1).collect();
        let sampled = Sampler::new(vec![whole], false).sample(0)[0].memory_bytes;
        // A container is known by the program that runs it, and by the server within it.
        let twice = Watched { name: "sh".into(), pids: both.clone(), descendants: true };
        let sampled_twice = Sampler::new(vec![twice], false).sample(0)[0].memory_bytes;
        let kill = std::process::Command::new("kill").arg(both[1].to_string()).status();
        assert!(kill.unwrap().success());
        shell.wait().unwrap();
        let own: u64 = counted.iter().map(|one| one.memory_bytes).sum();
        let shared = counted.iter().map(|one| one.shared_bytes);
        assert!(shared.clone().all(|bytes| bytes > 0), "{counted:?}");
        assert_eq!(sampled, own + shared.max().unwrap(), "{counted:?}");
        assert_eq!(sampled_twice, sampled, "{counted:?}");
    }

    #[test]
    fn processes_that_end_count_once() {
        let counters = |parent, cpu_ticks| Counters {
            parent,
            inherits: true,
            cpu_ticks,
            ..Counters::default()
        };
        let ticks = |before: &Processes, now: &Processes| used(before, now, |_, _| false).cpu_ticks;
        let before = Processes::from([
            ((2, 1), counters(1, 100)),
            ((3, 7), counters(2, 40)),
            ((4, 8), counters(2, 5)),
        ]);
        // Process 3 used 2 more, ended, and its parent used 1; process 5 came and went unseen.
        let unseen = 9;
        let parent = counters(1, 100 + 1 + 42 + unseen);
        let now = Processes::from([((2, 1), parent), ((4, 8), counters(2, 6))]);
        assert_eq!(ticks(&before, &now), 1 + 2 + unseen as i64 + 1);
        // The parent was read before it inherited: the next sample has the rest.
        let early = Processes::from([((2, 1), counters(1, 101)), ((4, 8), counters(2, 6))]);
        let first = used(&before, &early, |_, _| false);
        assert_eq!((first.cpu_ticks, first.too_much().cpu_ticks), (2 - 40, 38));
        assert_eq!(ticks(&early, &now) - first.too_much().cpu_ticks, 2 + 2 + unseen as i64);
        // A child that has another parent now took nothing with it.
        assert_eq!(used(&before, &early, |_, _| true).cpu_ticks, 2);
        // Nobody inherits from a server that was started again, with the same number or another.
        let again = Processes::from([((2, 900), counters(1, 3))]);
        let alone = Processes::from([((2, 1), counters(1, 100))]);
        assert_eq!(ticks(&alone, &again), 3);
        let other = Processes::from([((9, 900), counters(1, 3))]);
        assert_eq!(ticks(&alone, &other), 3);
    }

    #[test]
    fn a_program_that_ends_between_samples_counts() {
        let own = Watched { name: "store".to_owned(), descendants: true, ..Watched::generator() };
        let mut sampler = Sampler::new(vec![own], true);
        // The shell ends by the limit of its processor time, so its use is known.
        let mut busy = std::process::Command::new("sh");
        busy.args(["-c", "ulimit -t 1; while :; do :; done"]);
        assert!(!busy.status().unwrap().success());
        let sample = sampler.sample(0);
        // The limit counts what the kernel measures, the sample what its clock ticks saw.
        assert!(sample[0].cpu_s >= 0.5, "{sample:?}");
    }

    #[test]
    fn this_process_and_the_host_are_seen() {
        let whole = Watched { name: "store".to_owned(), descendants: true, ..Watched::generator() };
        let mut sampler = Sampler::new(vec![Watched::generator(), whole], true);
        let mut work = 1u64;
        // On a busy machine it takes a while to get processor time.
        let ticks = || process(std::process::id(), false).unwrap().1.cpu_ticks;
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
