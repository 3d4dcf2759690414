//! Apache Kafka, from Maven, without ZooKeeper: every node is broker and controller.

use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::driver::VERSION as VERSION_OPTION;
use crate::options::{Known, Options, port};
use crate::servers::{Launch, Node, Place, Say, Server, ServerError, Site, home, maven, places};

const VERSION: &str = "3.9.0";

/// All brokers of a cluster have the same id, 16 bytes in base64.
const CLUSTER: &str = "bG9naW5zb24tdGVzdHMtMQ";

/// Ports between a broker and its controller.
const CONTROLLER_APART: u16 = 50;

pub(crate) struct Broker;

#[async_trait]
impl Server for Broker {
    fn name(&self) -> &'static str {
        "kafka"
    }

    fn options(&self) -> &'static [Known] {
        const {
            &[
                port("19692"),
                Known {
                    name: "flush_messages",
                    default: "0",
                    help: "records until a broker syncs its log to disk: 0 leaves that to the system",
                },
                maven::HEAP,
                maven::JAVA,
            ]
        }
    }

    fn install(&self, site: &Site, options: &Options, say: &Say) -> Result<(), ServerError> {
        maven::java(options, &[11, 17])?;
        home::once(&software(site), |part| {
            let artifact = format!("org.apache.kafka:kafka_2.13:{VERSION}");
            maven::copy_with_dependencies(site, part, &[&artifact], say)
        })
    }

    fn nodes(&self, site: &Site, options: &Options, nodes: u32) -> Result<Vec<Node>, ServerError> {
        let places = places("kafka", site, options, nodes, &[CONTROLLER_APART])?;
        let places: Vec<Place> = places.collect();
        let flush: u64 = options.number("flush_messages", 0, 1_000_000_000)?;
        let java = maven::java(options, &[11, 17])?;
        let heap = maven::memory(options, "heap")?;
        let voters = (1..).zip(&places).map(|(id, place)| format!("{id}@{}", place.listen[1]));
        let voters: Vec<String> = voters.collect();
        let node = |(id, place): (u32, Place)| {
            let [broker, controller] = [place.listen[0], place.listen[1]];
            let log = site.run.join(format!("{}.log4j.properties", place.name));
            let copies = nodes.min(3);
            let mut settings = vec![
                "process.roles=broker,controller".to_owned(),
                format!("node.id={id}"),
                format!("controller.quorum.voters={}", voters.join(",")),
                "controller.listener.names=CONTROLLER".to_owned(),
                format!("listeners=PLAINTEXT://{broker},CONTROLLER://{controller}"),
                format!("advertised.listeners=PLAINTEXT://{broker}"),
                "inter.broker.listener.name=PLAINTEXT".to_owned(),
                format!("log.dirs={}", place.data.join("log").display()),
                format!("offsets.topic.replication.factor={copies}"),
                format!("transaction.state.log.replication.factor={copies}"),
                "transaction.state.log.min.isr=1".to_owned(),
                "auto.create.topics.enable=false".to_owned(),
                // A table that is deleted gives its space back at once.
                "log.segment.delete.delay.ms=0".to_owned(),
            ];
            if flush > 0 {
                settings.push(format!("log.flush.interval.messages={flush}"));
            }
            let arguments = [
                format!("-Xms{heap}"),
                format!("-Xmx{heap}"),
                "-XX:+UseG1GC".to_owned(),
                "-XX:+ExitOnOutOfMemoryError".to_owned(),
                format!("-Dlog4j.configuration=file:{}", log.display()),
                "-cp".to_owned(),
                classes(site),
                "kafka.Kafka".to_owned(),
                properties(site, &place.name).display().to_string(),
            ];
            let mut configuration = vec![format!("heap {heap}")];
            configuration.extend(settings.clone());
            let own = (properties(site, &place.name), settings.join("\n") + "\n");
            let files = vec![own, (log, LOG.to_owned())];
            Node { files, ..place.node(Launch::new(&java, arguments), configuration) }
        };
        Ok((1..).zip(places).map(node).collect())
    }

    fn prepare(&self, site: &Site, node: &Node) -> Result<(), ServerError> {
        let directory = node.data.join("log");
        if directory.join("meta.properties").exists() {
            return Ok(());
        }
        let format = [
            "-cp".to_owned(),
            classes(site),
            "kafka.tools.StorageTool".to_owned(),
            "format".to_owned(),
            "-t".to_owned(),
            CLUSTER.to_owned(),
            "-c".to_owned(),
            properties(site, &node.name).display().to_string(),
        ];
        let log = site.log.join(format!("{}-format.log", node.name));
        Launch::new(&node.launch.program, format).run(&log, &node.data)
    }

    fn driver_options(&self, _: &[Node]) -> Vec<(&'static str, String)> {
        vec![(VERSION_OPTION, format!("Apache Kafka {VERSION}"))]
    }
}

/// Warnings, on standard error.
const LOG: &str = "log4j.rootLogger=WARN, E\n\
log4j.appender.E=org.apache.log4j.ConsoleAppender\n\
log4j.appender.E.Target=System.err\n\
log4j.appender.E.layout=org.apache.log4j.PatternLayout\n\
log4j.appender.E.layout.ConversionPattern=%d %p %c: %m%n\n";

fn software(site: &Site) -> PathBuf {
    site.software.join(VERSION)
}

fn classes(site: &Site) -> String {
    format!("{}/*", software(site).display())
}

fn properties(site: &Site, node: &str) -> PathBuf {
    Path::new(&site.run).join(format!("{node}.properties"))
}
