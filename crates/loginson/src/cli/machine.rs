//! What `check-config` and `doctor` look at on this machine. Nothing is changed: ports are bound
//! for a moment, files are looked at but not written.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use platform::memory::machine_bytes;
use rustix::fs::{Access, access, statfs, statvfs};
use rustix::process::{Resource, geteuid, getrlimit};
use text::size::show_bytes;
use toml::{Table, Value};

use crate::cli::finding::Finding;
use crate::config::Config;

/// The receive buffer that the source of datagrams asks the kernel for.
const UDP_BUFFER_BYTES: u64 = 64 << 20;
/// Open files that all connections together need.
const FILES_MIN: u64 = 8192;
/// Memory below which a server is slow and refuses queries.
const MEMORY_BYTES_MIN: u64 = 512 << 20;
/// 2026-01-01: a clock before it is wrong.
const CLOCK_S_MIN: u64 = 1_767_225_600;

/// Whether every address can be listened on. `running`: the server runs and has them itself.
pub fn ports(config: &Config, running: bool) -> Vec<Finding> {
    let sources = &config.node.sources;
    let listen = &sources.listen;
    let answered = |of: &Option<node::ingest::options::AnsweredListen>| of.map(|l| l.address);
    let mut tcp = vec![
        ("http_listen", Some(config.http_listen)),
        ("syslog_tcp_listen", listen.syslog_tcp),
        ("syslog_tls_listen", sources.syslog_tls.as_ref().map(|tls| tls.listen)),
        ("fluent_listen", answered(&listen.fluent)),
        ("beats_listen", answered(&listen.beats)),
        ("relp_listen", answered(&listen.relp)),
        ("node_listen", sources.node_listen),
    ];
    tcp.extend(config.otlp_listen.iter().map(|address| ("otlp_listen", Some(*address))));
    let udp = [("syslog_udp_listen", listen.syslog_udp), ("statsd_listen", listen.statsd)];
    let tcp = tcp.into_iter().filter_map(|(key, address)| {
        let address = address?;
        port(key, address, "t", TcpListener::bind(address).err(), running)
    });
    let udp = udp.into_iter().filter_map(|(key, address)| {
        let address = address?;
        port(key, address, "u", UdpSocket::bind(address).err(), running)
    });
    tcp.chain(udp).collect()
}

fn port(
    key: &str,
    address: SocketAddr,
    letter: &str,
    error: Option<std::io::Error>,
    running: bool,
) -> Option<Finding> {
    let error = error?;
    let remedy = match error.kind() {
        ErrorKind::AddrInUse if running => return None,
        ErrorKind::AddrInUse => format!(
            "`ss -{letter}lnp 'sport = :{}'` names the process; all is well if it is this server",
            address.port()
        ),
        ErrorKind::PermissionDenied => format!(
            "ports below 1024 need AmbientCapabilities=CAP_NET_BIND_SERVICE in the unit; or take one above, such as {}",
            address.port() + 5000
        ),
        ErrorKind::AddrNotAvailable => {
            "no interface of this machine has the address; `ip address` lists those that are there"
                .into()
        }
        _ => "choose another address".into(),
    };
    Some(Finding::warning("port", format!("{key}: cannot listen on {address}: {error}"), remedy))
}

/// Whether files that a configuration names as secrets are there, and unreadable for others.
pub fn secrets(text: &str) -> Vec<Finding> {
    let mut files = BTreeSet::new();
    if let Ok(table) = text.parse::<Table>() {
        collect(&table, &mut files);
    }
    files.iter().filter_map(|(key, file)| secret(key, Path::new(file))).collect()
}

/// Files of keys, and of keys whose name ends in `_file`.
fn collect(table: &Table, files: &mut BTreeSet<(String, String)>) {
    for (key, value) in table {
        let tables: Vec<&Table> = match value {
            Value::String(file) if file != "off" && (key.ends_with("_file") || key == "key") => {
                files.insert((key.clone(), file.clone()));
                continue;
            }
            Value::Table(table) => vec![table],
            Value::Array(array) => array.iter().filter_map(Value::as_table).collect(),
            _ => continue,
        };
        tables.into_iter().for_each(|table| collect(table, files));
    }
}

fn secret(key: &str, file: &Path) -> Option<Finding> {
    let shown = file.display();
    let metadata = match fs::metadata(file) {
        Ok(metadata) => metadata,
        Err(error) => {
            return Some(Finding::warning(
                "secret",
                format!("{key}: cannot look at {shown}: {error}"),
                "create it, and let only the user of the server read it",
            ));
        }
    };
    // Not the hash of a password, which a reader can do little with; yet others need not have it.
    (metadata.permissions().mode() & 0o007 != 0).then(|| {
        Finding::warning(
            "secret",
            format!("{key}: every user of this machine can read {shown}"),
            format!("chmod 640 {shown}, and chgrp it to the group of the server"),
        )
    })
}

/// The data directory: that it is there, whose it is, who can read it, what kind of disk it is on.
pub fn data_dir(dir: &Path) -> Vec<Finding> {
    let shown = dir.display();
    let metadata = match fs::metadata(dir) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let found = format!("{shown} is not there yet; the first start creates it");
            return vec![Finding::ok("directory", found)];
        }
        Err(error) => {
            return vec![Finding::error(
                "directory",
                format!("cannot look at {shown}: {error}"),
                "run this as the user of the server, for example by `sudo -u loginson`",
            )];
        }
    };
    let mut findings = Vec::new();
    let mode = metadata.permissions().mode() & 0o7777;
    if !metadata.is_dir() {
        findings.push(Finding::error(
            "directory",
            format!("{shown} is no directory"),
            "set data_dir",
        ));
        return findings;
    }
    if access(dir, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        findings.push(Finding::error(
            "directory",
            format!("{shown} belongs to user {} and cannot be written", metadata.uid()),
            "run this as the user of the server, for example by `sudo -u loginson`; if it is that user: chown -R it",
        ));
    } else if geteuid().is_root() && metadata.uid() != 0 {
        let found = format!("{shown} belongs to user {}", metadata.uid());
        findings.push(Finding::ok("directory", found));
    } else if mode & 0o077 != 0 {
        findings.push(Finding::warning(
            "directory",
            format!("other users can read {shown} (mode {mode:o})"),
            format!("chmod 700 {shown}; the next start does it too"),
        ));
    } else {
        findings.push(Finding::ok("directory", format!("{shown} belongs to this user alone")));
    }
    findings
}

/// The disk below a directory that may not be there yet.
pub fn disk(dir: &Path, free_bytes_min: u64) -> Vec<Finding> {
    let there = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let Some(there) = there.ancestors().find(|dir| dir.exists()) else { return Vec::new() };
    let mut findings = Vec::new();
    if let Ok(space) = statvfs(there) {
        let (free, total) = (space.f_bavail * space.f_frsize, space.f_blocks * space.f_frsize);
        let found = format!("{} of {} free", show_bytes(free), show_bytes(total));
        findings.push(if free <= free_bytes_min {
            let found = format!(
                "{found}; the server takes no lines with less than {}",
                show_bytes(free_bytes_min)
            );
            Finding::error("disk", found, "make room, or lower store.disk_free_bytes_min")
        } else if free < total / 20 {
            Finding::warning("disk", found, "make room, or set retention.age or retention.bytes")
        } else {
            Finding::ok("disk", found)
        });
        if space.f_files > 0 && space.f_favail < 10_000 {
            findings.push(Finding::warning(
                "disk",
                format!("only {} more files can be created", space.f_favail),
                "delete small files on this file system",
            ));
        }
    }
    let kind = statfs(there).ok().and_then(|file_system| unsuitable(file_system.f_type));
    if let Some((name, why)) = kind {
        findings.push(Finding::warning(
            "disk",
            format!("{} is on {name}: {why}", dir.display()),
            "put data_dir on a local disk (ext4, XFS)",
        ));
    }
    findings
}

/// File systems that keep no promise of durability, by their numbers in statfs(2).
fn unsuitable(kind: i64) -> Option<(&'static str, &'static str)> {
    Some(match kind & 0xffff_ffff {
        0x0102_1994 => ("tmpfs", "all lines are gone after a restart of the machine"),
        0x6969 => ("NFS", "it is slow to sync, and locks may not hold"),
        0xff53_4d42 | 0xfe53_4d42 => ("SMB", "it is slow to sync, and locks may not hold"),
        0x794c_7630 => ("overlayfs", "it goes with its container; mount a volume"),
        0x6573_5546 => ("FUSE", "it may be slow to sync"),
        _ => return None,
    })
}

/// What the kernel permits, and the machine has.
pub fn limits() -> Vec<Finding> {
    let mut findings = Vec::new();
    let files = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    findings.push(if files < FILES_MIN {
        Finding::warning(
            "files",
            format!("a process of this user may open {files} files, so there are fewer connections"),
            format!("LimitNOFILE=65536 in the unit, or `ulimit -Hn {FILES_MIN}` or more in the shell that starts it"),
        )
    } else {
        Finding::ok("files", "enough can be open for all connections")
    });
    let buffer = fs::read_to_string("/proc/sys/net/core/rmem_max");
    if let Some(bytes) = buffer.ok().and_then(|text| text.trim().parse::<u64>().ok()) {
        findings.push(if bytes < UDP_BUFFER_BYTES {
            Finding::warning(
                "datagrams",
                format!("the kernel buffers {} of datagrams, so bursts may be dropped", show_bytes(bytes)),
                format!(
                    "echo net.core.rmem_max={UDP_BUFFER_BYTES} > /etc/sysctl.d/60-loginson.conf && sysctl --system"
                ),
            )
        } else {
            Finding::ok("datagrams", "the kernel buffers bursts of them")
        });
    }
    if let Some(bytes) = machine_bytes() {
        let found = format!("{} of memory", show_bytes(bytes));
        findings.push(if bytes < MEMORY_BYTES_MIN {
            Finding::warning(
                "memory",
                found,
                "give it 1 GiB or more; with less, queries are refused",
            )
        } else {
            Finding::ok("memory", found)
        });
    }
    findings
}

/// Whether the clock can be right.
pub fn clock() -> Finding {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    if now.map_or(0, |now| now.as_secs()) < CLOCK_S_MIN {
        return Finding::error("clock", "it is years behind", "set it: `timedatectl set-ntp true`");
    }
    let keepers = [
        "/run/systemd/timesync/synchronized",
        "/run/chrony/chronyd.pid",
        "/run/chronyd.pid",
        "/run/ntpd.pid",
        "/run/openntpd.pid",
    ];
    match keepers.into_iter().find(|path| Path::new(path).exists()) {
        Some(_) => Finding::ok("clock", "a time server keeps it right"),
        None => Finding::warning(
            "clock",
            "nothing on this machine seems to keep it right",
            "`timedatectl set-ntp true`, or install chrony; in a container the host keeps it",
        ),
    }
}

/// The path of the configuration: as given, or that of the package if it is there.
pub fn configuration(given: Option<&Path>) -> Option<PathBuf> {
    let packaged = Path::new("/etc/loginson/loginson.toml");
    given.map(Path::to_owned).or_else(|| packaged.exists().then(|| packaged.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::finding::Level;
    use crate::config::RawConfig;

    #[test]
    fn a_port_in_use_is_a_warning() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let raw = RawConfig {
            http_listen: tcp.local_addr().unwrap().to_string(),
            syslog_udp_listen: udp.local_addr().unwrap().to_string(),
            syslog_tcp_listen: "off".into(),
            ..RawConfig::default()
        };
        let config = Config::try_from(raw).unwrap();
        let found = ports(&config, false);
        assert_eq!(found.len(), 2, "{found:#?}");
        assert!(found[0].found.starts_with("http_listen: cannot listen on 127.0.0.1:"));
        assert!(found[0].remedy.contains("ss -tlnp") && found[1].remedy.contains("ss -ulnp"));
        assert_eq!(ports(&config, true), []);
    }

    #[test]
    fn secrets_that_others_can_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, mode: u32| {
            let path = dir.path().join(name);
            fs::write(&path, "x").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path.display().to_string()
        };
        let text = format!(
            "node_secret_file = '{}'\nfluent_shared_key_file = 'off'\n[tls]\nkey = '{}'\ncertificate = '/c'\n\
             [[users]]\npassword_hash_file = '/nothing/there'\n",
            file("a", 0o640),
            file("b", 0o644)
        );
        let found = secrets(&text);
        assert_eq!(found.len(), 2, "{found:#?}");
        assert!(found[0].found.starts_with("key: every user"), "{found:#?}");
        assert!(found[1].found.starts_with("password_hash_file: cannot look at"), "{found:#?}");
        assert_eq!(secrets("["), []);
    }

    #[test]
    fn the_data_directory() {
        let dir = tempfile::tempdir().unwrap();
        let level = |path: &Path| data_dir(path)[0].level;
        assert_eq!(level(&dir.path().join("none")), Level::Ok);
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(level(dir.path()), Level::Warning);
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(level(dir.path()), Level::Ok);
        fs::write(dir.path().join("file"), "").unwrap();
        assert_eq!(level(&dir.path().join("file")), Level::Error);
        let found = disk(&dir.path().join("not/yet"), u64::MAX);
        assert_eq!(found[0].level, Level::Error, "{found:#?}");
        assert!(unsuitable(0xef53).is_none() && unsuitable(0x6969).is_some());
    }
}
