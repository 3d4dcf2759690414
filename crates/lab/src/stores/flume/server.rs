//! Apache Flume, from Maven: a source of syslog over TCP, a channel in memory, and a sink into a
//! file, as in the 2017 study.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

use crate::driver::collector;
use crate::driver::{Driver, Open, OpenError, StoreSpec};
use crate::options::{Known, Options, port};
use crate::servers::{Launch, Node, Say, Server, ServerError, Site, collectors, maven};

const VERSION: &str = "1.11.0";

pub(crate) fn open(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    collector::open(spec, &["Apache Flume 1.11."])
}

pub(crate) struct Flume;

#[async_trait]
impl Server for Flume {
    fn name(&self) -> &'static str {
        "flume"
    }

    fn options(&self) -> &'static [Known] {
        const {
            &[
                port("19674"),
                Known { name: "channel", default: "1000000", help: "lines that wait in memory" },
                Known { name: "batch", default: "1000", help: "lines that are written at once" },
                maven::HEAP,
                maven::JAVA,
            ]
        }
    }

    fn install(&self, site: &Site, options: &Options, say: &Say) -> Result<(), ServerError> {
        maven::java(options, &[11, 17])?;
        let artifact = format!("org.apache.flume:flume-ng-node:{VERSION}");
        maven::copy_once(site, &site.software.join(VERSION), &artifact, say)
    }

    fn nodes(&self, site: &Site, options: &Options, nodes: u32) -> Result<Vec<Node>, ServerError> {
        let channel = options.number("channel", 10_000, 100_000_000)?;
        let batch = options.number("batch", 1, 10_000)?;
        let java = maven::java(options, &[11, 17])?;
        let heap = maven::memory(options, "heap")?;
        let settings = |port: u16, data: &Path| {
            vec![
                "agent.sources = lines".to_owned(),
                "agent.channels = memory".to_owned(),
                "agent.sinks = file".to_owned(),
                "agent.sources.lines.type = syslogtcp".to_owned(),
                "agent.sources.lines.host = 127.0.0.1".to_owned(),
                format!("agent.sources.lines.port = {port}"),
                "agent.sources.lines.eventSize = 16384".to_owned(),
                "agent.sources.lines.keepFields = all".to_owned(),
                "agent.sources.lines.channels = memory".to_owned(),
                "agent.channels.memory.type = memory".to_owned(),
                format!("agent.channels.memory.capacity = {channel}"),
                format!("agent.channels.memory.transactionCapacity = {}", batch.max(1_000)),
                "agent.sinks.file.type = file_roll".to_owned(),
                format!("agent.sinks.file.sink.directory = {}", collectors::output(data).display()),
                "agent.sinks.file.sink.rollInterval = 0".to_owned(),
                format!("agent.sinks.file.sink.batchSize = {batch}"),
                "agent.sinks.file.channel = memory".to_owned(),
            ]
        };
        let launch = |_: &Path, file: &Path| {
            let arguments = [
                format!("-Xms{heap}"),
                format!("-Xmx{heap}"),
                "-cp".to_owned(),
                format!("{}/*", site.software.join(VERSION).display()),
                "org.apache.flume.node.Application".to_owned(),
                "--no-reload-conf".to_owned(),
                "-n".to_owned(),
                "agent".to_owned(),
                "-f".to_owned(),
                file.display().to_string(),
            ];
            Launch::new(&java, arguments)
        };
        let mut all = collectors::nodes("flume", site, options, nodes, settings, launch)?;
        for node in &mut all {
            node.configuration.push(format!("heap {heap}"));
        }
        Ok(all)
    }

    fn prepare(&self, _: &Site, node: &Node) -> Result<(), ServerError> {
        collectors::prepare(node)
    }

    async fn answers(&self, _: Open, node: &Node, _: &[Node]) -> Result<(), String> {
        collectors::answers(node).await
    }

    fn driver_options(&self, nodes: &[Node]) -> Vec<(&'static str, String)> {
        collectors::options_with(nodes, format!("Apache Flume {VERSION}"))
    }
}
