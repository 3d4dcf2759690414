//! MySQL 5.5, from the database files that its makers published for Java programs. Several nodes
//! are independent servers: the driver's shards.
//!
//! MariaDB is started almost the same: [`plan`] is for both.

use std::fs::Permissions;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use crate::options::{Known, Options, port};
use crate::servers::home::once;
use crate::servers::{
    Launch, Node, Place, Say, Server, ServerError, Site, debian, io, maven, places,
};

/// The size of the pages in memory.
pub(crate) const BUFFER_POOL: Known =
    Known { name: "innodb_buffer_pool_size", default: "256M", help: "cache of data of each node" };
/// When a commit is on disk.
pub(crate) const FLUSH_LOG: Known = Known {
    name: "innodb_flush_log_at_trx_commit",
    default: "1",
    help: "when a commit is on disk: 1, before it is acknowledged; 2 and 0, within 1 s",
};
/// Limit of connections.
pub(crate) const MAX_CONNECTIONS: Known = Known {
    name: "max_connections",
    default: "250",
    help: "connections of all generators together",
};

/// The same for both, whatever their own defaults are.
const SETTINGS: &[(&str, &str)] = &[
    ("innodb_file_per_table", "1"),
    // The default of MariaDB. MySQL's own of 5 MB makes it write pages all the time.
    ("innodb_log_file_size", "96M"),
    ("character_set_server", "utf8mb4"),
    ("max_allowed_packet", "64M"),
    // No answer from a cache of whole answers.
    ("query_cache_type", "0"),
    ("query_cache_size", "0"),
];

/// The release, and its jar with programs for several systems.
const VERSION: &str = "5.5.9";
const ARTIFACT: &str = "mysql:mysql-connector-mxj-db-files:5.0.12";

/// The files that are taken from the jar: the program for this system, the directory that a new
/// server begins with, and messages and character sets.
const PROGRAM: &str = "5-5-9/Linux-x86_64/mysqld";
const DATA: &str = "5-5-9/data_dir.jar";
const SHARE: &str = "5-5-9/share_dir.jar";

pub(crate) struct Mysql;

#[async_trait]
impl Server for Mysql {
    fn name(&self) -> &'static str {
        "mysql"
    }

    fn options(&self) -> &'static [Known] {
        const { &[port("13306"), BUFFER_POOL, FLUSH_LOG, MAX_CONNECTIONS] }
    }

    fn install(&self, site: &Site, _: &Options, say: &Say) -> Result<(), ServerError> {
        super::driver::CLIENT.install(say)?;
        if std::env::consts::ARCH != "x86_64" {
            return Err(ServerError::Missing {
                what: format!("there is no MySQL {VERSION} for {}", std::env::consts::ARCH),
                remedy: "measure mariadb, or a MySQL that runs already: --endpoint mysql=HOST:PORT"
                    .to_owned(),
            });
        }
        if debian::program("unzip").is_none() {
            debian::install(site, &["unzip"], say)?;
        }
        once(&software(site), |part| {
            maven::copy_with_dependencies(site, part, &[ARTIFACT], say)?;
            let jar = part.join(jar_name());
            unzip(site, &jar, &["-j"], &[PROGRAM, DATA, SHARE], part)?;
            unzip(site, &part.join("share_dir.jar"), &[], &[], part)?;
            // The jar has no permissions.
            let program = part.join("mysqld");
            let permissions = Permissions::from_mode(0o755);
            std::fs::set_permissions(&program, permissions).map_err(io(&program))?;
            // The archive holds the programs of nine systems.
            std::fs::remove_file(&jar).map_err(io(&jar))
        })
    }

    fn nodes(&self, site: &Site, options: &Options, nodes: u32) -> Result<Vec<Node>, ServerError> {
        let software = software(site);
        let share = software.join("share");
        let own = [
            format!("--basedir={}", software.display()),
            format!("--lc-messages-dir={}", share.display()),
            format!("--character-sets-dir={}", share.join("charsets").display()),
        ];
        plan(self.name(), site, options, nodes, &software.join("mysqld"), &own)
    }

    fn prepare(&self, site: &Site, node: &Node) -> Result<(), ServerError> {
        fill_once(node, |data| {
            unzip(
                site,
                &software(site).join("data_dir.jar"),
                &[],
                &["mysql/*", "performance_schema/*"],
                data,
            )
        })
    }
}

/// The nodes of MySQL or of MariaDB: `program` with the arguments that both have, and `own` ones.
pub(crate) fn plan(
    name: &str,
    site: &Site,
    options: &Options,
    nodes: u32,
    program: &Path,
    own: &[String],
) -> Result<Vec<Node>, ServerError> {
    let places = places(name, site, options, nodes, &[])?;
    options.number(MAX_CONNECTIONS.name, 1, 10_000)?;
    options.choice(FLUSH_LOG.name, &["0", "1", "2"])?;
    let chosen = [BUFFER_POOL, FLUSH_LOG, MAX_CONNECTIONS];
    let chosen = chosen.iter().map(|known| (known.name, options.text(known.name)));
    let settings: Vec<String> =
        chosen.chain(SETTINGS.iter().copied()).map(|(k, v)| format!("{k}={v}")).collect();
    let node = |place: Place| {
        let data = &place.data;
        let mut arguments = vec!["--no-defaults".to_owned()];
        arguments.extend(own.iter().cloned());
        arguments.extend([
            format!("--datadir={}", data.display()),
            format!("--pid-file={}", data.join("server.pid").display()),
            // TCP only: the length of a socket's path is limited.
            "--socket=".to_owned(),
            "--skip-name-resolve".to_owned(),
            format!("--bind-address={}", Ipv4Addr::LOCALHOST),
            format!("--port={}", place.port),
        ]);
        arguments.extend(settings.iter().map(|setting| format!("--{setting}")));
        place.node(Launch::new(program, arguments).refuses_root(), settings.clone())
    };
    Ok(places.map(node).collect())
}

/// Makes the system tables of a node before its first start. They are removed again if that fails.
pub(crate) fn fill_once(
    node: &Node,
    fill: impl FnOnce(&Path) -> Result<(), ServerError>,
) -> Result<(), ServerError> {
    let tables = node.data.join("mysql");
    if tables.exists() {
        return Ok(());
    }
    let filled = fill(&node.data);
    if filled.is_err() {
        // The first error is the one to report.
        let _ = std::fs::remove_dir_all(&tables);
    }
    filled
}

fn software(site: &Site) -> PathBuf {
    site.software.join(VERSION)
}

/// The file that Maven makes of the artifact.
fn jar_name() -> String {
    let mut parts = ARTIFACT.split(':').skip(1);
    let (name, version) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    format!("{name}-{version}.jar")
}

/// Extracts files of an archive, or all of them, into a directory.
fn unzip(
    site: &Site,
    archive: &Path,
    how: &[&str],
    files: &[&str],
    directory: &Path,
) -> Result<(), ServerError> {
    let mut arguments = vec!["-q", "-o"];
    arguments.extend(how);
    let (archive, to) = (archive.display().to_string(), directory.display().to_string());
    arguments.push(&archive);
    arguments.extend(files);
    arguments.extend(["-d", to.as_str()]);
    Launch::new("unzip", arguments).run(&site.log.join("unzip.log"), directory)
}
