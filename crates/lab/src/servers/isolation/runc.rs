//! A container of runc, the runtime of Docker.
//!
//! `runc run` stays in the foreground, passes signals on, and ends with the server. If it is
//! killed, the container runs until [`release`] deletes it. The container has namespaces of its
//! own for processes, mounts, names and messages; the network is the host's. It has no filter of
//! system calls, as the container of LXC has none. Source: the runtime specification of the Open
//! Container Initiative, 1.0.2.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{Isolation, Launch, PERIOD_US, ServerError, root};
use crate::servers::io;

/// The runtime.
pub(super) const PROGRAM: &str = "runc";

/// Variables of the lab's own environment that a server may need: the others may hold secrets, and
/// the configuration is a file.
const VARIABLES: [&str; 4] = ["PATH", "HOME", "LANG", "JAVA_HOME"];

/// What servers may do as root: change files, users and limits. With their numbers in
/// capabilities(7).
const CAPABILITIES: [(u32, &str); 14] = [
    (0, "CAP_CHOWN"),
    (1, "CAP_DAC_OVERRIDE"),
    (3, "CAP_FOWNER"),
    (4, "CAP_FSETID"),
    (5, "CAP_KILL"),
    (6, "CAP_SETGID"),
    (7, "CAP_SETUID"),
    (8, "CAP_SETPCAP"),
    (10, "CAP_NET_BIND_SERVICE"),
    (14, "CAP_IPC_LOCK"),
    (21, "CAP_SYS_ADMIN"),
    (23, "CAP_SYS_NICE"),
    (24, "CAP_SYS_RESOURCE"),
    (31, "CAP_SETFCAP"),
];

/// Makes the root and the configuration of the container, in which the server's command is;
/// returns the command that runs the container.
pub(super) fn prepare(
    isolation: &Isolation,
    launch: &Launch,
    command: &[String],
) -> Result<Vec<String>, ServerError> {
    if state(isolation).join(&isolation.name).exists() {
        // The earlier one was killed, not stopped.
        delete(isolation);
    }
    let mounted = root::make(isolation)?;
    let path = isolation.directory.join("config.json");
    let text = configuration(isolation, launch, command, (&mounted, &root::shared(isolation)));
    std::fs::write(&path, text.to_string()).map_err(io(&path))?;
    let mut words = runtime(isolation);
    let bundle = isolation.directory.display().to_string();
    words.extend(["run".to_owned(), "--bundle".to_owned(), bundle, isolation.name.clone()]);
    Ok(words)
}

/// Ends the container if it is there, and removes its files. Its mounts went with its namespace.
pub(super) fn release(isolation: &Isolation) {
    delete(isolation);
    let _ = std::fs::remove_dir_all(&isolation.directory);
}

/// Ends the container and its control group. Fails, which does not matter, where `runc run` ended
/// by itself and has deleted it.
fn delete(isolation: &Isolation) {
    let words = runtime(isolation);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).args(["delete", "--force", &isolation.name]);
    let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// Where the runtime keeps what it knows of the container.
fn state(isolation: &Isolation) -> PathBuf {
    isolation.directory.join("state")
}

/// The beginning of each command.
fn runtime(isolation: &Isolation) -> Vec<String> {
    vec![PROGRAM.to_owned(), "--root".to_owned(), state(isolation).display().to_string()]
}

fn configuration(
    isolation: &Isolation,
    launch: &Launch,
    command: &[String],
    (mounted, shared): (&[&str], &[&(PathBuf, bool)]),
) -> Value {
    let own =
        VARIABLES.iter().filter_map(|name| Some(format!("{name}={}", std::env::var(name).ok()?)));
    let given = launch.environment.iter().map(|(name, value)| format!("{name}={value}"));
    let mut mounts = vec![
        json!({ "destination": "/proc", "type": "proc", "source": "proc" }),
        json!({
            "destination": "/dev", "type": "tmpfs", "source": "tmpfs",
            "options": ["nosuid", "strictatime", "mode=755", "size=64m"],
        }),
        json!({
            "destination": "/dev/shm", "type": "tmpfs", "source": "tmpfs",
            "options": ["nosuid", "nodev", "mode=1777"],
        }),
        json!({
            "destination": "/sys", "type": "sysfs", "source": "sysfs",
            "options": ["nosuid", "noexec", "nodev", "ro"],
        }),
        json!({
            "destination": "/tmp", "type": "tmpfs", "source": "tmpfs",
            "options": ["nosuid", "nodev", "mode=1777", "size=512m"],
        }),
    ];
    mounts.extend(mounted.iter().map(|name| {
        let path = format!("/{name}");
        json!({ "destination": path, "type": "bind", "source": path, "options": ["rbind", "ro"] })
    }));
    mounts.extend(shared.iter().map(|(path, writable)| {
        let mode = if *writable { "rw" } else { "ro" };
        json!({ "destination": path, "type": "bind", "source": path, "options": ["bind", mode] })
    }));
    let namespaces = ["pid", "mount", "uts", "ipc"].map(|kind| json!({ "type": kind }));
    let environment: Vec<String> = own.chain(given).collect();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let capabilities = capabilities(&status);
    json!({
        "ociVersion": "1.0.2",
        "hostname": "lab",
        "root": { "path": root::of(isolation) },
        "process": {
            "cwd": "/",
            "user": { "uid": 0, "gid": 0 },
            "args": command,
            "env": environment,
            "capabilities": {
                "bounding": capabilities, "effective": capabilities, "permitted": capabilities,
            },
        },
        "mounts": mounts,
        "linux": {
            "cgroupsPath": format!("/{}", isolation.name),
            "namespaces": namespaces,
            "resources": resources(isolation),
        },
    })
}

/// The capabilities of [`CAPABILITIES`] that a process with this `/proc/PID/status` has: it can
/// give no others, and a machine may keep some from root.
fn capabilities(status: &str) -> Vec<&'static str> {
    let mask = status.lines().find_map(|line| line.strip_prefix("CapPrm:"));
    let mask = mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or_default();
    let has = |number: u32| mask >> number & 1 == 1;
    CAPABILITIES.iter().filter(|(number, _)| has(*number)).map(|(_, name)| *name).collect()
}

/// The limits, which the runtime writes into the same files as the control group of the host.
fn resources(isolation: &Isolation) -> Value {
    let limits = &isolation.limits;
    let (mut processor, mut resources) = (serde_json::Map::new(), serde_json::Map::new());
    if let Some(quota) = limits.quota_us {
        processor.insert("quota".to_owned(), quota.into());
        processor.insert("period".to_owned(), PERIOD_US.into());
    }
    if let Some(cores) = &limits.cores {
        processor.insert("cpus".to_owned(), cores.clone().into());
    }
    if !processor.is_empty() {
        resources.insert("cpu".to_owned(), processor.into());
    }
    if let Some(bytes) = limits.memory_bytes {
        resources.insert("memory".to_owned(), json!({ "limit": bytes }));
    }
    resources.into()
}

#[cfg(test)]
mod tests {
    use super::super::{Container, Limits};
    use super::*;

    fn isolation(limits: Limits) -> Isolation {
        Isolation {
            container: Container::Runc,
            name: "x".to_owned(),
            limits,
            directory: "/home/lab/x.container".into(),
            shared: Vec::new(),
        }
    }

    #[test]
    fn the_configuration_has_the_command_mounts_and_limits() {
        let limits = Limits {
            quota_us: Some(50_000),
            cores: Some("0-1".to_owned()),
            memory_bytes: Some(1 << 20),
        };
        let shared = [("/home/my data".into(), true), ("/home/software".into(), false)];
        let shared: Vec<_> = shared.iter().collect();
        let launch = Launch::new("/usr/bin/true", [""; 0]).variable("HEAP", "1g");
        let command = ["/usr/bin/true".to_owned(), "a b".to_owned()];
        let made = configuration(&isolation(limits), &launch, &command, (&["usr"], &shared));
        assert_eq!(made["root"]["path"], "/home/lab/x.container/root");
        assert_eq!(made["process"]["args"], json!(["/usr/bin/true", "a b"]));
        assert!(made["process"]["env"].as_array().unwrap().contains(&"HEAP=1g".into()));
        let mounts = made["mounts"].as_array().unwrap();
        for (path, options) in [
            ("/usr", json!(["rbind", "ro"])),
            ("/home/my data", json!(["bind", "rw"])),
            ("/home/software", json!(["bind", "ro"])),
        ] {
            let found = mounts.iter().find(|mount| mount["destination"] == path).unwrap();
            assert_eq!((&found["options"], &found["source"]), (&options, &path.into()));
        }
        assert_eq!(
            made["linux"]["resources"],
            json!({
                "cpu": { "quota": 50_000, "period": 100_000, "cpus": "0-1" },
                "memory": { "limit": 1 << 20 },
            })
        );
        assert_eq!(made["linux"]["cgroupsPath"], "/x");
    }

    #[test]
    fn a_container_gets_no_capability_that_the_lab_has_not() {
        let all = "Name:\tlab\nCapPrm:\t000001ffffffffff\n";
        assert_eq!(capabilities(all).len(), CAPABILITIES.len());
        let some = capabilities("CapPrm:\t000001fffeffffff");
        assert!(!some.contains(&"CAP_SYS_RESOURCE") && some.contains(&"CAP_SETFCAP"), "{some:?}");
        assert_eq!(capabilities("CapPrm:\t1"), ["CAP_CHOWN"]);
        assert_eq!(capabilities(""), [""; 0]);
    }

    #[test]
    fn a_limit_that_is_not_given_is_not_set() {
        assert_eq!(resources(&isolation(Limits::default())), json!({}));
    }
}
