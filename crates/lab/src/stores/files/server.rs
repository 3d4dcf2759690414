//! The process that keeps files: this program itself, with `ripgrep` from the system's package.

use std::net::{Ipv4Addr, SocketAddr};

use async_trait::async_trait;

use crate::options::{Known, Options};
use crate::servers::{Launch, Node, Say, Server, ServerError, Site, debian, driver_answers, home};

pub(crate) struct Files;

/// The hidden command of `loginson-lab` that is this server.
pub(crate) const COMMAND: &str = "files-server";

#[async_trait]
impl Server for Files {
    fn name(&self) -> &'static str {
        "files"
    }

    fn options(&self) -> &'static [Known] {
        &[Known {
            name: "port",
            default: "19714",
            help: "port of the first node; further nodes use the ports after it",
        }]
    }

    fn install(&self, site: &Site, _: &Options, say: &Say) -> Result<(), ServerError> {
        match debian::program("rg") {
            Some(_) => Ok(()),
            None => debian::install(site, &["ripgrep"], say),
        }
    }

    fn nodes(&self, site: &Site, options: &Options, nodes: u32) -> Result<Vec<Node>, ServerError> {
        let first = options.number("port", 1024, u16::MAX - nodes as u16)?;
        let program = home::program()?;
        let node = |index: u32| {
            let port = first + index as u16;
            let name = format!("files{}", index + 1);
            let data = site.data.join(&name);
            let endpoint = format!("127.0.0.1:{port}");
            let arguments = [COMMAND, "--listen", &endpoint, "--data", &data.display().to_string()];
            Node {
                listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port))],
                files: Vec::new(),
                launch: Launch::new(&program, arguments),
                configuration: Vec::new(),
                name,
                endpoint,
                data,
            }
        };
        Ok((0..nodes).map(node).collect())
    }

    async fn answers(&self, node: &Node, _: &[Node]) -> Result<(), String> {
        driver_answers(super::driver::open, self.name(), node).await
    }
}
