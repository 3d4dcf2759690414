//! The limit on memory of the control groups that this process is in (cgroups(7)): version 1 and
//! version 2, at the root of their hierarchy or nested, on the machine or in a container.

use std::path::{Path, PathBuf};

/// The least limit of the groups of this process and of their parents, bytes; `None` if they have
/// none, or if nothing is known of them.
pub fn memory_limit_bytes() -> Option<u64> {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let groups = read(Path::new("/proc/self/cgroup"))?;
    let mounts = read(Path::new("/proc/self/mountinfo"))?;
    limit(&groups, &mounts, &|file| read(file)?.trim().parse().ok())
}

/// The same from the text of `/proc/self/cgroup` and of `/proc/self/mountinfo`; `number` reads a
/// file that holds one. A group without a limit holds `max` in version 2, and a number that no
/// machine reaches in version 1.
fn limit(groups: &str, mounts: &str, number: &dyn Fn(&Path) -> Option<u64>) -> Option<u64> {
    let mut least = None;
    for line in mounts.lines() {
        let Some(mount) = Mount::parse(line) else { continue };
        let Some(group) = mount.group_of(groups) else { continue };
        for ancestor in mount.inside(group).ancestors() {
            let limit = number(&mount.point.join(ancestor).join(mount.file()));
            least = [least, limit].into_iter().flatten().min();
        }
    }
    least
}

/// A hierarchy of control groups that limits memory, as it is mounted.
struct Mount<'t> {
    is_unified: bool,
    /// The group that the mount point shows: in a container, often that of the container.
    root: &'t str,
    point: PathBuf,
}

impl<'t> Mount<'t> {
    /// Reads a line of `/proc/self/mountinfo` (proc_pid_mountinfo(5)): fields, some of which are
    /// optional, then ` - `, type, source and options.
    fn parse(line: &'t str) -> Option<Mount<'t>> {
        let (fields, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let is_unified = match kind.next()? {
            "cgroup2" => true,
            "cgroup" if kind.nth(1)?.split(',').any(|option| option == "memory") => false,
            _ => return None,
        };
        let mut fields = fields.split(' ').skip(3);
        Some(Mount { is_unified, root: fields.next()?, point: fields.next()?.into() })
    }

    /// The group of the process in this hierarchy, from the text of `/proc/self/cgroup`:
    /// `NUMBER:CONTROLLERS:GROUP`, with no controllers in version 2.
    fn group_of<'g>(&self, groups: &'g str) -> Option<&'g str> {
        groups.lines().find_map(|line| {
            let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
            let is_it = match self.is_unified {
                true => controllers.is_empty(),
                false => controllers.split(',').any(|controller| controller == "memory"),
            };
            is_it.then_some(group)
        })
    }

    /// A group as a path below the mount point; the mount point itself for a group that it does not
    /// show.
    fn inside<'g>(&self, group: &'g str) -> &'g Path {
        Path::new(group.strip_prefix(self.root).unwrap_or("").trim_start_matches('/'))
    }

    fn file(&self) -> &'static str {
        if self.is_unified { "memory.max" } else { "memory.limit_in_bytes" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIFIED: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw";
    const MEMORY: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory";
    const CPU: &str = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu";

    fn found(groups: &str, mounts: &str, files: &[(&str, u64)]) -> Option<u64> {
        limit(groups, mounts, &|file| {
            files.iter().find(|(name, _)| Path::new(name) == file).map(|(_, limit)| *limit)
        })
    }

    #[test]
    fn the_least_limit_of_a_group_and_its_parents_counts() {
        let nested = "0::/system.slice/loginson.service\n";
        let service = "/sys/fs/cgroup/system.slice/loginson.service/memory.max";
        let slice = "/sys/fs/cgroup/system.slice/memory.max";
        assert_eq!(found(nested, UNIFIED, &[(service, 9), (slice, 5)]), Some(5));
        assert_eq!(found(nested, UNIFIED, &[(service, 4), (slice, 5)]), Some(4));
        assert_eq!(found(nested, UNIFIED, &[(slice, 5)]), Some(5));
        assert_eq!(found(nested, UNIFIED, &[("/sys/fs/cgroup/memory.max", 3)]), Some(3));
        assert_eq!(found(nested, UNIFIED, &[]), None);
    }

    #[test]
    fn a_group_of_version_1_is_found_below_its_mount() {
        let groups = "8:pids:/\n4:memory:/a/b\n1:cpu:/a\n0::/\n";
        let mounts = [CPU, MEMORY].join("\n");
        let own = "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes";
        let cpu = "/sys/fs/cgroup/cpu/a/memory.limit_in_bytes";
        assert_eq!(found(groups, &mounts, &[(own, 7), (cpu, 1)]), Some(7));
        let together = "4:cpu,memory:/a/b\n";
        assert_eq!(found(together, &mounts, &[(own, 7)]), Some(7));
    }

    #[test]
    fn a_container_sees_its_own_group_at_the_mount_point() {
        // Without a namespace of groups, the group has its name on the machine.
        let mount = MEMORY.replace(" / /sys", " /docker/f00d /sys");
        let own = "/sys/fs/cgroup/memory/memory.limit_in_bytes";
        let nested = "/sys/fs/cgroup/memory/app/memory.limit_in_bytes";
        assert_eq!(found("4:memory:/docker/f00d\n", &mount, &[(own, 7)]), Some(7));
        assert_eq!(found("4:memory:/docker/f00d/app\n", &mount, &[(nested, 6)]), Some(6));
        assert_eq!(found("4:memory:/elsewhere\n", &mount, &[(own, 7)]), Some(7));
    }

    #[test]
    fn other_texts_give_no_limit() {
        assert_eq!(found("", "", &[]), None);
        assert_eq!(found("0::/a\n", MEMORY, &[]), None);
        assert_eq!(found("4:memory\n:\n", "1 2 - cgroup\n - \n x - cgroup2", &[]), None);
    }
}
