//! The process that keeps files: this program itself, with `ripgrep` from the system's package.

use async_trait::async_trait;

use crate::options::{Known, Options, port};
use crate::servers::{Launch, Node, Place, Say, Server, ServerError, Site, debian, home, places};

pub(crate) struct Files;

/// The hidden command of `loginson-lab` that is this server.
pub(crate) const COMMAND: &str = "files-server";

#[async_trait]
impl Server for Files {
    fn name(&self) -> &'static str {
        "files"
    }

    fn options(&self) -> &'static [Known] {
        const { &[port("19714")] }
    }

    fn install(&self, site: &Site, _: &Options, say: &Say) -> Result<(), ServerError> {
        match debian::program("rg") {
            Some(_) => Ok(()),
            None => debian::install(site, &["ripgrep"], say),
        }
    }

    fn nodes(&self, site: &Site, options: &Options, nodes: u32) -> Result<Vec<Node>, ServerError> {
        let places = places("files", site, options, nodes, &[])?;
        let program = home::program()?;
        let node = |place: Place| {
            let (endpoint, data) = (place.listen[0].to_string(), place.data.display().to_string());
            let arguments = [COMMAND, "--listen", &endpoint, "--data", &data];
            place.node(Launch::new(&program, arguments), Vec::new())
        };
        Ok(places.map(node).collect())
    }
}
