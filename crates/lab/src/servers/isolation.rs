//! Starts a server under limits: in a control group of the host, or in a container of LXC or runc.
//!
//! The options are those of every server ([`OPTIONS`]). A control group only limits; a container
//! has limits by the same control groups and namespaces besides. All keep the network of the host,
//! so a server has the same addresses everywhere.
//!
//! Left out on purpose: containers with images or networks of their own, and users without root:
//! neither control groups nor containers can be made without permission of the administrator.

mod cgroup;
mod lxc;
mod root;
mod runc;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::disk::Disk;
use super::{Launch, Node, Say, ServerError, Site, debian};
use crate::options::{Known, OptionError, Options, known};

/// The options of every server.
pub const OPTIONS: &[Known] = &[
    Known {
        name: "container",
        default: "none",
        help: "where it runs: none, cgroup (under limits on the host), lxc or runc (in a container)",
    },
    Known { name: "cpus", default: "", help: "limit of processor time, in processors, as 1.5" },
    Known { name: "cores", default: "", help: "the processors that it may use, as 0-1,3" },
    known("memory", "", "limit of memory with the page cache, as 3000m or 3g"),
    Known {
        name: "disk",
        default: "plain",
        help: "forgetful: a killed server loses what it had not synced, as by a loss of power",
    },
];

/// Limit of the option `cpus`.
const CPUS_MAX: f64 = 4096.0;

/// The period in which processor time is limited, µs: the kernel's default.
const PERIOD_US: u64 = 100_000;

/// What holds the processes of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Container {
    /// A control group of the host.
    Cgroup,
    /// A container of LXC.
    Lxc,
    /// A container of runc.
    Runc,
}

/// The limits of one node. A limit that is not given is not set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Limits {
    /// Processor time in each period of [`PERIOD_US`], µs.
    quota_us: Option<u64>,
    /// Numbers of processors, as the kernel writes them.
    cores: Option<String>,
    /// Bytes with the page cache.
    memory_bytes: Option<u64>,
}

/// The isolation of one process, as it is kept in its record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Isolation {
    container: Container,
    /// Name of the control group or the container, which no other process of this machine has.
    name: String,
    limits: Limits,
    /// The directory of a container's root and configuration.
    directory: PathBuf,
    /// Directories that a container sees at the same path, and whether it may write to them.
    shared: Vec<(PathBuf, bool)>,
}

/// The options of [`OPTIONS`] of one store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    container: Option<Container>,
    limits: Limits,
    /// Whether the disk forgets what was not synced.
    forgets: bool,
    /// For the report.
    configuration: Vec<String>,
}

impl Settings {
    /// Splits the options of a server into those of every server and its own.
    pub fn split(
        store: &str,
        given: &BTreeMap<String, String>,
    ) -> Result<(Settings, BTreeMap<String, String>), OptionError> {
        let is_common = |name: &str| OPTIONS.iter().any(|known| known.name == name);
        let (common, own) =
            given.clone().into_iter().partition(|(name, _): &(String, String)| is_common(name));
        let options = Options::read(store, OPTIONS, &common)?;
        let container = match options.choice("container", &["none", "cgroup", "lxc", "runc"])? {
            "cgroup" => Some(Container::Cgroup),
            "lxc" => Some(Container::Lxc),
            "runc" => Some(Container::Runc),
            _ => None,
        };
        let set = |name: &str| Some(options.text(name)).filter(|text| !text.is_empty());
        let quota = |_| {
            let cpus: f64 = options.number("cpus", 0.01, CPUS_MAX)?;
            Ok::<_, OptionError>((cpus * PERIOD_US as f64).round() as u64)
        };
        let limits = Limits {
            quota_us: set("cpus").map(quota).transpose()?,
            cores: set("cores").map(|text| cores(&options, text)).transpose()?,
            memory_bytes: set("memory").map(|text| memory(&options, text)).transpose()?,
        };
        if container.is_none() && limits != Limits::default() {
            let reason = "a limit needs container = cgroup, lxc or runc";
            return Err(options.wrong("container", reason));
        }
        let forgets = options.choice("disk", &["plain", "forgetful"])? == "forgetful";
        let is_used = |known: &&Known| match known.name {
            "disk" => forgets,
            _ => container.is_some(),
        };
        let shown = OPTIONS.iter().filter(is_used);
        let shown = shown.filter_map(|known| Some(format!("{}: {}", known.name, set(known.name)?)));
        Ok((Settings { container, limits, forgets, configuration: shown.collect() }, own))
    }

    /// Installs the software that the container needs. Fast if it is installed already.
    pub fn install(&self, site: &Site, say: &Say) -> Result<(), ServerError> {
        if self.forgets {
            Disk::install(site, say)?;
        }
        let (program, package) = match self.container {
            Some(Container::Lxc) => (lxc::PROGRAM, "lxc"),
            Some(Container::Runc) => (runc::PROGRAM, "runc"),
            Some(Container::Cgroup) | None => return Ok(()),
        };
        match debian::program(program) {
            Some(_) => Ok(()),
            None => debian::install(site, &[package], say),
        }
    }

    /// Isolates a planned node. Has no side effects.
    pub fn apply(&self, site: &Site, node: &mut Node) {
        node.configuration.extend(self.configuration.clone());
        node.launch.disk = self.forgets.then(|| Disk::at(&node.data));
        let Some(container) = self.container else { return };
        let directory = site.run.join(format!("{}.container", node.name));
        let name = format!("loginson-lab-{:08x}-{}", short_hash(&site.run), node.name);
        let mut shared = vec![(node.data.clone(), true), (site.software.clone(), false)];
        let outside = node.files.iter().filter_map(|(path, _)| path.parent());
        let program = node.launch.program.parent().map(|parent| match parent.file_name() {
            // Software in Java finds its files from the directory above.
            Some(name) if name == "bin" => parent.parent().unwrap_or(parent),
            _ => parent,
        });
        for path in outside.chain(program) {
            let is_there = shared.iter().any(|(known, _)| path.starts_with(known));
            if !is_there && path.is_absolute() && !root::is_of_system(path) {
                shared.push((path.to_owned(), false));
            }
        }
        // A directory within another is mounted after it; otherwise it would be hidden.
        shared.sort_by_key(|(path, _)| path.components().count());
        let limits = self.limits.clone();
        node.launch.isolation = Some(Isolation { container, name, limits, directory, shared });
    }
}

impl Isolation {
    /// Makes the control group or the files of the container for `command`, which starts `launch`.
    /// Returns the command that starts it there.
    pub(super) fn prepare(
        &self,
        launch: &Launch,
        command: Vec<String>,
    ) -> Result<Vec<String>, ServerError> {
        let before = match self.container {
            Container::Cgroup => cgroup::prepare(&self.name, &self.limits)?,
            Container::Lxc => lxc::prepare(self, launch)?,
            Container::Runc => return runc::prepare(self, launch, &command),
        };
        Ok(before.into_iter().chain(command).collect())
    }

    /// Removes what [`Isolation::prepare`] made, after the process has ended. What cannot be
    /// removed is used again by the next start. Blocks.
    pub(super) fn release(&self) {
        match self.container {
            Container::Cgroup => cgroup::release(&self.name),
            Container::Lxc => lxc::release(self),
            Container::Runc => runc::release(self),
        }
    }
}

/// FNV-1a: names must not change with the version of a library, because records hold them.
fn short_hash(path: &Path) -> u32 {
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes
        .iter()
        .fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Checks a list of processors: numbers and ranges, separated by commas.
fn cores(options: &Options, text: &str) -> Result<String, OptionError> {
    let number = |text: &str| text.parse::<u16>().ok();
    let is_part = |part: &str| match part.split_once('-') {
        Some((from, to)) => number(from).zip(number(to)).is_some_and(|(from, to)| from <= to),
        None => number(part).is_some(),
    };
    match text.split(',').all(is_part) {
        true => Ok(text.to_owned()),
        false => Err(options.wrong("cores", "it takes numbers of processors, as 0-1,3")),
    }
}

/// Parses `3000m` or `3g`.
fn memory(options: &Options, text: &str) -> Result<u64, OptionError> {
    let unit = match text.bytes().last() {
        Some(b'm') => 1 << 20,
        Some(b'g') => 1 << 30,
        _ => 0,
    };
    let number = text.get(..text.len() - 1).and_then(|digits| digits.parse::<u32>().ok());
    match number.map(|number| u64::from(number) * unit) {
        Some(bytes @ 1..) => Ok(bytes),
        _ => Err(options.wrong("memory", "it takes megabytes or gigabytes, as 512m or 2g")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(given: &[(&str, &str)]) -> Result<(Settings, BTreeMap<String, String>), String> {
        let given = given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Settings::split("store", &given).map_err(|e| e.to_string())
    }

    #[test]
    fn options_of_every_server_are_split_off() {
        let given = [("port", "1"), ("container", "lxc"), ("cpus", "1.5"), ("memory", "2g")];
        let (settings, own) = split(&given).unwrap();
        assert_eq!(own, BTreeMap::from([("port".to_owned(), "1".to_owned())]));
        let expected = Limits { quota_us: Some(150_000), cores: None, memory_bytes: Some(2 << 30) };
        assert_eq!((settings.container, settings.limits), (Some(Container::Lxc), expected));
        assert_eq!(settings.configuration, ["container: lxc", "cpus: 1.5", "memory: 2g"]);
        let (settings, _) = split(&[]).unwrap();
        assert_eq!((settings.container, settings.configuration.len()), (None, 0));
    }

    #[test]
    fn wrong_limits_are_refused() {
        for (given, said) in [
            (&[("cpus", "1")][..], "needs container = cgroup"),
            (&[("container", "docker")], "one of: none, cgroup, lxc, runc"),
            (&[("container", "lxc"), ("cpus", "none")], "a number from 0.01"),
            (&[("container", "lxc"), ("cpus", "NaN")], "a number from 0.01"),
            (&[("container", "lxc"), ("cores", "0-1,")], "numbers of processors"),
            (&[("container", "lxc"), ("cores", "3-1")], "numbers of processors"),
            (&[("container", "lxc"), ("memory", "2")], "as 512m"),
            (&[("container", "lxc"), ("memory", "0m")], "as 512m"),
            (&[("container", "lxc"), ("memory", "–")], "as 512m"),
        ] {
            let error = split(given).map(|_| ()).unwrap_err();
            assert!(error.contains(said), "{given:?}: {error}");
        }
    }

    #[test]
    fn names_differ_between_homes() {
        let (one, other) = (Path::new("/a/redis/run"), Path::new("/b/redis/run"));
        assert_ne!(short_hash(one), short_hash(other));
        // The published value of FNV-1a for "a".
        assert_eq!(short_hash(Path::new("a")), 0xe40c_292c);
    }
}
