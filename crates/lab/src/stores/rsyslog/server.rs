//! rsyslog, from the system's package: it takes lines over TCP and writes them into a file. Nothing
//! is done with a line, and its queue waits rather than drops when it is full.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

use crate::driver::collector;
use crate::driver::{Driver, Open, OpenError, StoreSpec};
use crate::options::{Known, Options, port};
use crate::servers::{Launch, Node, Say, Server, ServerError, Site, collectors, debian};

const PROGRAM: &str = "rsyslogd";

pub(crate) fn open(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    collector::open(spec, &["rsyslogd 8.2302."])
}

pub(crate) struct Rsyslog;

#[async_trait]
impl Server for Rsyslog {
    fn name(&self) -> &'static str {
        "rsyslog"
    }

    fn options(&self) -> &'static [Known] {
        const {
            &[
                port("19614"),
                Known { name: "queue", default: "200000", help: "lines that wait in memory" },
                Known { name: "batch", default: "2048", help: "lines that are written at once" },
            ]
        }
    }

    fn install(&self, site: &Site, _: &Options, say: &Say) -> Result<(), ServerError> {
        match debian::program(PROGRAM) {
            Some(_) => Ok(()),
            None => debian::install(site, &["rsyslog"], say),
        }
    }

    fn nodes(&self, site: &Site, options: &Options, nodes: u32) -> Result<Vec<Node>, ServerError> {
        let queue = options.number("queue", 1_000, 10_000_000)?;
        let batch = options.number("batch", 1, 100_000)?;
        let program = debian::program(PROGRAM).unwrap_or_else(|| PROGRAM.into());
        let settings = |port: u16, data: &Path| {
            vec![
                "global(maxMessageSize=\"16k\")".to_owned(),
                format!(
                    "main_queue(queue.type=\"FixedArray\" queue.size=\"{queue}\" \
                     queue.dequeueBatchSize=\"{batch}\" queue.timeoutEnqueue=\"60000\")"
                ),
                "module(load=\"imtcp\")".to_owned(),
                format!("input(type=\"imtcp\" port=\"{port}\" address=\"127.0.0.1\")"),
                "template(name=\"line\" type=\"string\" string=\"%rawmsg%\\n\")".to_owned(),
                format!(
                    "action(type=\"omfile\" file=\"{}\" template=\"line\" ioBufferSize=\"256k\")",
                    collectors::output(data).join("lines").display()
                ),
            ]
        };
        let launch = |data: &Path, file: &Path| {
            let paths = [file, &data.join("pid")].map(|path| path.display().to_string());
            let [conf, pid] = paths;
            Launch::new(&program, ["-n".to_owned(), "-f".to_owned(), conf, "-i".to_owned(), pid])
        };
        collectors::nodes("rsyslog", site, options, nodes, settings, launch)
    }

    fn prepare(&self, _: &Site, node: &Node) -> Result<(), ServerError> {
        collectors::prepare(node)
    }

    async fn answers(&self, _: Open, node: &Node, _: &[Node]) -> Result<(), String> {
        collectors::answers(node).await
    }

    fn driver_options(&self, nodes: &[Node]) -> Vec<(&'static str, String)> {
        collectors::driver_options(nodes, &["-v"])
    }
}
