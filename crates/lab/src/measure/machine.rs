//! Describes the machine of a run, from `/proc` and `/etc/os-release`. Values that cannot be read
//! are empty.

use procfs::{CpuInfo, Current, Meminfo};

use crate::results::Machine;

/// This machine.
pub fn describe() -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let processor = CpuInfo::current().ok();
    Machine {
        processor: processor
            .and_then(|info| info.model_name(0).map(str::to_owned))
            .unwrap_or_default(),
        cores: std::thread::available_parallelism().map_or(0, |n| n.get() as u32),
        memory_bytes: Meminfo::current().map_or(0, |memory| memory.mem_total),
        kernel: format!(
            "{} {}",
            read("/proc/sys/kernel/ostype").trim(),
            read("/proc/sys/kernel/osrelease").trim()
        ),
        system: read("/etc/os-release")
            .lines()
            .find_map(|line| line.strip_prefix("PRETTY_NAME="))
            .unwrap_or_default()
            .trim_matches('"')
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let machine = describe();
        assert!(machine.cores >= 1 && machine.memory_bytes > 1 << 20, "{machine:?}");
        assert!(machine.kernel.starts_with("Linux "), "{machine:?}");
    }
}
