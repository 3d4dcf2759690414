//! The server of a store of the user's own: this program, which starts the user's for each
//! connection.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use async_trait::async_trait;

use super::description::leak;
use super::{driver, process};
use crate::options::{Known, Options};
use crate::servers::{Launch, Node, Say, Server, ServerError, Site, driver_answers, home};

/// The port of the first node of the first store of the user's own.
const PORT: usize = 19_800;
/// Ports between two stores: more than the nodes of one.
const PORTS_APART: usize = 20;

/// See the module.
pub(crate) struct OwnServer {
    name: &'static str,
    program: PathBuf,
    options: &'static [Known],
}

impl OwnServer {
    /// For the store of this name, the `place`th that was added.
    pub fn new(name: &'static str, program: PathBuf, place: usize) -> OwnServer {
        let port = Known {
            name: "port",
            default: leak(&(PORT + place * PORTS_APART).to_string()),
            help: "port of the first node; further nodes use the ports after it",
        };
        OwnServer { name, program, options: vec![port].leak() }
    }
}

#[async_trait]
impl Server for OwnServer {
    fn name(&self) -> &'static str {
        self.name
    }

    fn options(&self) -> &'static [Known] {
        self.options
    }

    fn install(&self, _: &Site, _: &Options, _: &Say) -> Result<(), ServerError> {
        Ok(())
    }

    fn nodes(&self, site: &Site, options: &Options, nodes: u32) -> Result<Vec<Node>, ServerError> {
        let first = options.number("port", 1024, u16::MAX - nodes as u16)?;
        let lab = home::program()?;
        let node = |index: u32| {
            let port = first + index as u16;
            let name = format!("{}{}", self.name, index + 1);
            let data = site.data.join(&name);
            let endpoint = format!("127.0.0.1:{port}");
            let (folder, program) = (data.display(), self.program.display());
            let arguments = [
                process::COMMAND.to_owned(),
                format!("--listen={endpoint}"),
                format!("--data={folder}"),
                format!("--starts={program}"),
            ];
            Node {
                listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port))],
                files: Vec::new(),
                launch: Launch::new(&lab, arguments),
                configuration: Vec::new(),
                name,
                endpoint,
                data,
            }
        };
        Ok((0..nodes).map(node).collect())
    }

    async fn answers(&self, node: &Node, _: &[Node]) -> Result<(), String> {
        driver_answers(driver::open, self.name, node).await
    }
}
