//! A control group for a server on the host, of version 1 or 2, whichever the machine has.
//!
//! The group is made directly below the root of the hierarchy, where LXC makes those of its
//! containers. The process enters it before its program starts, so that nothing is used outside.
//! Source: the kernel's documents admin-guide/cgroup-v1 and admin-guide/cgroup-v2.rst.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Limits, PERIOD_US, ServerError};

/// Where the system mounts control groups.
const ROOT: &str = "/sys/fs/cgroup";

/// The file that tells the controllers of a group of version 2, and exists only there.
const CONTROLLERS: &str = "cgroup.controllers";

/// Attempts to remove a group, after which it stays for the next start.
const REMOVALS_MAX: u32 = 20;

/// Time between two of them.
const REMOVAL_WAIT: Duration = Duration::from_millis(50);

/// Enters the groups that are named before `--`, and becomes the command that follows.
const ENTER: &str = "while [ \"$1\" != -- ]; do echo $$ >\"$1/cgroup.procs\" || exit 125; shift; \
                     done; shift; exec \"$@\"";

/// The groups of a server and the files that set its limits, in the order of writing.
#[derive(Debug, PartialEq, Eq)]
struct Groups {
    directories: Vec<PathBuf>,
    files: Vec<(PathBuf, String)>,
}

/// Makes the groups of a server; the result is the beginning of the command that enters them.
pub(super) fn prepare(name: &str, limits: &Limits) -> Result<Vec<String>, ServerError> {
    let groups = groups(Path::new(ROOT), name, limits);
    for directory in &groups.directories {
        std::fs::create_dir_all(directory).map_err(|e| not_writable(directory, &e))?;
    }
    for (path, text) in &groups.files {
        std::fs::write(path, text).map_err(|e| not_writable(path, &e))?;
    }
    let mut words = ["sh", "-c", ENTER, "sh"].map(str::to_owned).to_vec();
    words.extend(groups.directories.iter().map(|directory| directory.display().to_string()));
    words.push("--".to_owned());
    Ok(words)
}

/// Removes the groups. The kernel takes a moment to forget a process that has ended.
pub(super) fn release(name: &str) {
    let root = Path::new(ROOT);
    let mut directories = groups(root, name, &Limits::default()).directories;
    directories.push(root.join("cpuset").join(name));
    for _ in 0..REMOVALS_MAX {
        directories.retain(|directory| {
            let is_busy = |e: std::io::Error| e.kind() != std::io::ErrorKind::NotFound;
            std::fs::remove_dir(directory).is_err_and(is_busy)
        });
        if directories.is_empty() {
            return;
        }
        std::thread::sleep(REMOVAL_WAIT);
    }
}

/// Whether the control groups below `root` are of version 2.
pub(super) fn is_version_2(root: &Path) -> bool {
    root.join(CONTROLLERS).exists()
}

/// Whether those of this machine are.
pub(super) fn has_version_2() -> bool {
    is_version_2(Path::new(ROOT))
}

fn groups(root: &Path, name: &str, limits: &Limits) -> Groups {
    if is_version_2(root) {
        let group = root.join(name);
        let mut files = vec![(root.join("cgroup.subtree_control"), "+cpu +memory".to_owned())];
        if limits.cores.is_some() {
            files.push((root.join("cgroup.subtree_control"), "+cpuset".to_owned()));
        }
        let set = settings_2(limits);
        files.extend(set.into_iter().map(|(file, text)| (group.join(file), text)));
        return Groups { directories: vec![group], files };
    }
    let of = |controller: &str| root.join(controller).join(name);
    let mut directories = vec![of("cpu"), of("memory")];
    let mut files = Vec::new();
    if limits.cores.is_some() {
        directories.push(of("cpuset"));
        // A group without memory nodes takes no process.
        let nodes = std::fs::read_to_string(root.join("cpuset/cpuset.mems")).unwrap_or_default();
        files.push((of("cpuset").join("cpuset.mems"), nodes.trim().to_owned()));
    }
    for (file, text) in settings_1(limits) {
        let controller = file.split('.').next().unwrap_or_default();
        files.push((of(controller).join(file), text));
    }
    Groups { directories, files }
}

/// The files of a group of version 1, which begin with their controller, and their contents.
pub(super) fn settings_1(limits: &Limits) -> Vec<(&'static str, String)> {
    let mut settings = Vec::new();
    if let Some(quota) = limits.quota_us {
        settings.push(("cpu.cfs_period_us", PERIOD_US.to_string()));
        settings.push(("cpu.cfs_quota_us", quota.to_string()));
    }
    if let Some(bytes) = limits.memory_bytes {
        settings.push(("memory.limit_in_bytes", bytes.to_string()));
    }
    settings.extend(limits.cores.iter().map(|cores| ("cpuset.cpus", cores.clone())));
    settings
}

/// The files of a group of version 2, and their contents.
pub(super) fn settings_2(limits: &Limits) -> Vec<(&'static str, String)> {
    let mut settings = Vec::new();
    if let Some(quota) = limits.quota_us {
        settings.push(("cpu.max", format!("{quota} {PERIOD_US}")));
    }
    if let Some(bytes) = limits.memory_bytes {
        settings.push(("memory.max", bytes.to_string()));
    }
    settings.extend(limits.cores.iter().map(|cores| ("cpuset.cpus", cores.clone())));
    settings
}

fn not_writable(path: &Path, error: &std::io::Error) -> ServerError {
    ServerError::Missing {
        what: format!("the control group {} cannot be made: {error}", path.display()),
        remedy: "run as root on a machine (or in a container) whose control groups can be \
                 written, or measure without limits: --set STORE.container=none"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            quota_us: Some(150_000),
            cores: Some("0-1".to_owned()),
            memory_bytes: Some(1 << 30),
        }
    }

    fn shown(root: &Path, groups: &Groups) -> Vec<String> {
        let below = |path: &Path| path.strip_prefix(root).unwrap().display().to_string();
        let files = groups.files.iter().map(|(path, text)| format!("{} = {text}", below(path)));
        groups.directories.iter().map(|path| below(path)).chain(files).collect()
    }

    #[test]
    fn groups_of_version_1_are_one_for_each_controller() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("cpuset")).unwrap();
        std::fs::write(root.path().join("cpuset/cpuset.mems"), "0\n").unwrap();
        assert_eq!(
            shown(root.path(), &groups(root.path(), "x", &limits())),
            [
                "cpu/x",
                "memory/x",
                "cpuset/x",
                "cpuset/x/cpuset.mems = 0",
                "cpu/x/cpu.cfs_period_us = 100000",
                "cpu/x/cpu.cfs_quota_us = 150000",
                "memory/x/memory.limit_in_bytes = 1073741824",
                "cpuset/x/cpuset.cpus = 0-1",
            ]
        );
        assert_eq!(
            shown(root.path(), &groups(root.path(), "x", &Limits::default())),
            ["cpu/x", "memory/x"]
        );
    }

    #[test]
    fn a_group_of_version_2_is_one() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join(CONTROLLERS), "cpu memory cpuset\n").unwrap();
        assert_eq!(
            shown(root.path(), &groups(root.path(), "x", &limits())),
            [
                "x",
                "cgroup.subtree_control = +cpu +memory",
                "cgroup.subtree_control = +cpuset",
                "x/cpu.max = 150000 100000",
                "x/memory.max = 1073741824",
                "x/cpuset.cpus = 0-1",
            ]
        );
    }

    #[test]
    fn a_hierarchy_that_cannot_be_written_is_told_with_a_remedy() {
        let error = not_writable(Path::new("/x"), &std::io::Error::from_raw_os_error(13));
        let text = error.to_string();
        assert!(text.contains("Permission denied") && text.contains("container=none"), "{text}");
    }
}
