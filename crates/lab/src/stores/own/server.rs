//! The server of a store of the user's own: this program, which starts the user's for each
//! connection.

use std::path::PathBuf;

use async_trait::async_trait;

use super::description::leak;
use super::process;
use crate::options::{Known, Options};
use crate::servers::{Launch, Node, Place, Say, Server, ServerError, Site, home, places};

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
        let places = places(self.name, site, options, nodes, &[])?;
        let lab = home::program()?;
        let node = |place: Place| {
            let (endpoint, folder) = (place.listen[0], place.data.display());
            let program = self.program.display();
            let arguments = [
                process::COMMAND.to_owned(),
                format!("--listen={endpoint}"),
                format!("--data={folder}"),
                format!("--starts={program}"),
            ];
            place.node(Launch::new(&lab, arguments), Vec::new())
        };
        Ok(places.map(node).collect())
    }
}
