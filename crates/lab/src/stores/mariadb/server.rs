//! MariaDB, from the system's package. Several nodes are independent servers: the driver's shards.

use async_trait::async_trait;

use crate::options::{Known, Options, port};
use crate::servers::{Launch, Node, Say, Server, ServerError, Site, debian};
use crate::stores::mysql::server::{BUFFER_POOL, FLUSH_LOG, MAX_CONNECTIONS, fill_once, plan};

const PROGRAM: &str = "mariadbd";

/// Makes the system tables.
const INSTALL: &str = "mariadb-install-db";

/// Without a service; the second has a helper of [`INSTALL`].
const PACKAGES: &[&str] = &["mariadb-server-core", "mariadb-client-core"];

pub(crate) struct Mariadb;

#[async_trait]
impl Server for Mariadb {
    fn name(&self) -> &'static str {
        "mariadb"
    }

    fn options(&self) -> &'static [Known] {
        const { &[port("13406"), BUFFER_POOL, FLUSH_LOG, MAX_CONNECTIONS] }
    }

    fn install(&self, site: &Site, _: &Options, say: &Say) -> Result<(), ServerError> {
        crate::stores::mysql::driver::CLIENT.install(say)?;
        let programs = [PROGRAM, INSTALL, "my_print_defaults"];
        match programs.iter().all(|name| debian::program(name).is_some()) {
            true => Ok(()),
            false => debian::install(site, PACKAGES, say),
        }
    }

    fn nodes(&self, site: &Site, options: &Options, nodes: u32) -> Result<Vec<Node>, ServerError> {
        let program = debian::program(PROGRAM).ok_or_else(|| ServerError::Missing {
            what: format!("there is no {PROGRAM}"),
            remedy: format!("install it: sudo apt-get install {}", PACKAGES.join(" ")),
        })?;
        plan(self.name(), site, options, nodes, &program, &[])
    }

    fn prepare(&self, site: &Site, node: &Node) -> Result<(), ServerError> {
        fill_once(node, |data| {
            let arguments = [
                "--no-defaults".to_owned(),
                format!("--datadir={}", data.display()),
                // The account `root` without a password, instead of one for Unix sockets.
                "--auth-root-authentication-method=normal".to_owned(),
                "--skip-test-db".to_owned(),
            ];
            let launch = Launch::new(INSTALL, arguments).refuses_root();
            launch.run(&site.log.join("install-db.log"), data)
        })
    }
}
