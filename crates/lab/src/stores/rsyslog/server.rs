//! rsyslog, from the system's package: it takes lines over TCP and writes them into a file. Nothing
//! is done with a line, and its queue waits rather than drops when it is full.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;

use crate::driver::collector;
use crate::driver::{Driver, OpenError, StoreSpec};
use crate::options::{Known, Options};
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
        &[
            Known { name: "port", default: "19614", help: "of the first node; the others follow" },
            Known { name: "queue", default: "200000", help: "lines that wait in memory" },
            Known { name: "batch", default: "2048", help: "lines that are written at once" },
        ]
    }

    fn install(&self, site: &Site, _: &Options, say: &Say) -> Result<(), ServerError> {
        match debian::program(PROGRAM) {
            Some(_) => Ok(()),
            None => debian::install(site, &["rsyslog"], say),
        }
    }

    fn nodes(&self, site: &Site, options: &Options, nodes: u32) -> Result<Vec<Node>, ServerError> {
        let first = options.number("port", 1024, u16::MAX - nodes as u16)?;
        let queue = options.number("queue", 1_000, 10_000_000)?;
        let batch = options.number("batch", 1, 100_000)?;
        let program = debian::program(PROGRAM).unwrap_or_else(|| PROGRAM.into());
        let node = |index: u32| {
            let port = first + index as u16;
            let name = format!("rsyslog{}", index + 1);
            let data = site.data.join(&name);
            let file = site.run.join(format!("{name}.conf"));
            let settings = vec![
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
                    collectors::output(&data).join("lines").display()
                ),
            ];
            let paths = [file.clone(), data.join("pid")].map(|path| path.display().to_string());
            let [conf, pid] = paths;
            Node {
                endpoint: format!("127.0.0.1:{port}"),
                listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port))],
                files: vec![(file, settings.join("\n") + "\n")],
                launch: Launch::new(
                    &program,
                    ["-n".to_owned(), "-f".to_owned(), conf, "-i".to_owned(), pid],
                ),
                configuration: settings,
                name,
                data,
            }
        };
        Ok((0..nodes).map(node).collect())
    }

    fn prepare(&self, _: &Site, node: &Node) -> Result<(), ServerError> {
        collectors::prepare(node)
    }

    async fn answers(&self, node: &Node, _: &[Node]) -> Result<(), String> {
        collectors::answers(node).await
    }

    fn driver_options(&self, nodes: &[Node]) -> Vec<(&'static str, String)> {
        collectors::driver_options(nodes, &["-v"])
    }
}
