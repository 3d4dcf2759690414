//! A container of LXC.
//!
//! `lxc-execute` stays in the foreground, passes signals on, and ends with the server; if it is
//! killed, the kernel kills the container. The container has namespaces of its own for processes,
//! mounts, names and messages; the network is the host's. Source: lxc.container.conf(5).

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::{Isolation, Launch, ServerError, cgroup, root};
use crate::servers::io;

/// The program that runs a container in the foreground.
pub(super) const PROGRAM: &str = "lxc-execute";

/// Makes the root and the configuration of the container; the result is the beginning of the
/// command that runs in it.
pub(super) fn prepare(isolation: &Isolation, launch: &Launch) -> Result<Vec<String>, ServerError> {
    let mounted = root::make(isolation)?;
    let state = containers(isolation);
    std::fs::create_dir_all(&state).map_err(io(&state))?;
    let shared = root::shared(isolation);
    let path = isolation.directory.join("config");
    let text = configuration(isolation, launch, (&mounted, &shared), cgroup::has_version_2());
    std::fs::write(&path, text).map_err(io(&path))?;
    let words = [
        PROGRAM.to_owned(),
        "-P".to_owned(),
        state.display().to_string(),
        "-n".to_owned(),
        isolation.name.clone(),
        "-f".to_owned(),
        path.display().to_string(),
        "--".to_owned(),
    ];
    Ok(words.to_vec())
}

/// Removes the files of the container. Its mounts went with its namespace.
pub(super) fn release(isolation: &Isolation) {
    let _ = std::fs::remove_dir_all(&isolation.directory);
}

/// Where LXC keeps what it knows of the container.
fn containers(isolation: &Isolation) -> PathBuf {
    isolation.directory.join("lxc")
}

fn configuration(
    isolation: &Isolation,
    launch: &Launch,
    (mounted, shared): (&[&str], &[&(PathBuf, bool)]),
    is_version_2: bool,
) -> String {
    let mut text = format!(
        "lxc.uts.name = lab\n\
         lxc.rootfs.path = dir:{}\n\
         lxc.net.0.type = none\n\
         lxc.apparmor.profile = unconfined\n\
         lxc.mount.auto = proc:mixed sys:ro\n\
         lxc.mount.entry = tmpfs tmp tmpfs nosuid,nodev,size=512m 0 0\n\
         lxc.mount.entry = tmpfs dev/shm tmpfs nosuid,nodev,create=dir 0 0\n",
        root::of(isolation).display()
    );
    let mut line = |name: &str, value: &str| {
        writeln!(text, "{name} = {value}").expect("a string takes all");
    };
    for name in mounted {
        line("lxc.mount.entry", &format!("/{name} {name} none rbind,ro 0 0"));
    }
    for (path, writable) in shared {
        let path = escaped(path);
        let mode = if *writable { "rw" } else { "ro" };
        let inside = path.trim_start_matches('/');
        line("lxc.mount.entry", &format!("{path} {inside} none bind,{mode},create=dir 0 0"));
    }
    for (name, value) in &launch.environment {
        line("lxc.environment", &format!("{name}={value}"));
    }
    let (prefix, settings) = match is_version_2 {
        true => ("lxc.cgroup2", cgroup::settings_2(&isolation.limits)),
        false => ("lxc.cgroup", cgroup::settings_1(&isolation.limits)),
    };
    for (file, value) in settings {
        line(&format!("{prefix}.{file}"), &value);
    }
    text
}

/// A path in the format of fstab(5), which separates fields by blanks.
fn escaped(path: &Path) -> String {
    let text = path.display().to_string();
    text.replace('\\', "\\134").replace(' ', "\\040").replace('\t', "\\011").replace('\n', "\\012")
}

#[cfg(test)]
mod tests {
    use super::super::{Container, Limits};
    use super::*;

    #[test]
    fn the_configuration_names_root_mounts_and_limits() {
        let isolation = Isolation {
            container: Container::Lxc,
            name: "x".to_owned(),
            limits: Limits {
                quota_us: Some(50_000),
                cores: Some("1".to_owned()),
                memory_bytes: Some(1 << 20),
            },
            directory: "/home/lab/x.container".into(),
            shared: Vec::new(),
        };
        let shared = [("/home/my data".into(), true), ("/home/software".into(), false)];
        let shared: Vec<_> = shared.iter().collect();
        let launch = Launch::new("/usr/bin/true", [""; 0]).variable("HEAP", "1g");
        let text = configuration(&isolation, &launch, (&["usr", "lib"], &shared), false);
        for expected in [
            "lxc.rootfs.path = dir:/home/lab/x.container/root\n",
            "lxc.net.0.type = none\n",
            "lxc.mount.entry = /usr usr none rbind,ro 0 0\n",
            "lxc.mount.entry = /lib lib none rbind,ro 0 0\n",
            "= /home/my\\040data home/my\\040data none bind,rw,create=dir 0 0\n",
            "= /home/software home/software none bind,ro,create=dir 0 0\n",
            "lxc.environment = HEAP=1g\n",
            "lxc.cgroup.cpu.cfs_quota_us = 50000\n",
            "lxc.cgroup.cpuset.cpus = 1\n",
            "lxc.cgroup.memory.limit_in_bytes = 1048576\n",
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
        let text = configuration(&isolation, &launch, (&["usr"], &shared), true);
        assert!(text.contains("lxc.cgroup2.cpu.max = 50000 100000\n"), "{text}");
        assert!(text.contains("lxc.cgroup2.memory.max = 1048576\n"), "{text}");
    }
}
