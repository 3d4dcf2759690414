//! Describes the machine of a run, from `/proc` and `/etc/os-release`. Values that cannot be read
//! are empty.

use crate::results::Machine;

/// This machine.
pub fn describe() -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    Machine {
        processor: field(&read("/proc/cpuinfo"), "model name").to_owned(),
        cores: std::thread::available_parallelism().map_or(0, |n| n.get() as u32),
        memory_bytes: kilobytes(&read("/proc/meminfo"), "MemTotal"),
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

/// The value of a line `NAME : value`.
fn field<'a>(text: &'a str, name: &str) -> &'a str {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map_or("", |(_, value)| value.trim())
}

/// Bytes of a line `NAME: number kB`.
pub fn kilobytes(text: &str, name: &str) -> u64 {
    let number = field(text, name).split_whitespace().next();
    number.and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) * 1024
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

    #[test]
    fn lines_are_found_by_their_whole_name() {
        let text = "MemTotal:       16 kB\nMem:  1 kB\nmodel name\t: A: B\n";
        assert_eq!(kilobytes(text, "MemTotal"), 16 * 1024);
        assert_eq!(kilobytes(text, "Mem"), 1024);
        assert_eq!(kilobytes(text, "Swap"), 0);
        assert_eq!(field(text, "model name"), "A: B");
    }
}
