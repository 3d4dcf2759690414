//! HBase 2.5, from its published jars: one process with the master, ZooKeeper and the region
//! servers, and a Thrift gateway for each region server, because HBase's own protocol is for Java.
//!
//! Files are in the local file system. Hadoop 2.10 cannot sync a local file: a write is
//! acknowledged once the system has it, and the system writes it to disk within 35 s.
//!
//! There is no authentication; all ports are on loopback, and those between the master and the
//! region servers are chosen by the system.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use async_trait::async_trait;
use tokio::net::TcpStream;

use super::gateway::Gateway;
use crate::options::{Known, Options};
use crate::servers::{Launch, Node, Say, Server, ServerError, Site, home, maven};

/// The version of the server.
const VERSION: &str = "2.5.8";

/// The modules of Java 17 that have to be opened to it; the list is that of the server's own start
/// script.
const MODULES: &[&str] = &[
    "--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-opens=java.base/java.net=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
];

const LOG4J: &str = "\
log4j.rootLogger=WARN,OUT
log4j.appender.OUT=org.apache.log4j.ConsoleAppender
log4j.appender.OUT.layout=org.apache.log4j.PatternLayout
log4j.appender.OUT.layout.ConversionPattern=%d %-5p %c{1}: %m%n
";

/// Settings of all processes.
const SETTINGS: &[(&str, &str)] = &[
    ("hbase.cluster.distributed", "false"),
    ("hbase.localcluster.assign.random.ports", "true"),
    ("hbase.master.hostname", "localhost"),
    ("hbase.master.info.port", "-1"),
    ("hbase.master.ipc.address", "127.0.0.1"),
    ("hbase.regionserver.hostname", "localhost"),
    ("hbase.regionserver.info.port", "-1"),
    ("hbase.regionserver.ipc.address", "127.0.0.1"),
    ("hbase.thrift.info.port", "-1"),
    // The local file system declares no guarantees; see the head of this module.
    ("hbase.unsafe.stream.capability.enforce", "false"),
    ("hbase.zookeeper.property.admin.enableServer", "false"),
    ("hbase.zookeeper.property.clientPortAddress", "127.0.0.1"),
    ("hbase.zookeeper.quorum", "127.0.0.1"),
];

/// How long one look for open tables may take. The master answers none before it has replayed the
/// logs of a killed server, and calls that were given up pile up in the gateway.
const LOOK_MAX: Duration = Duration::from_secs(60);

/// Name of the process with the master and the region servers.
const SERVERS: &str = "hbase";

pub(crate) struct HBase;

#[async_trait]
impl Server for HBase {
    fn name(&self) -> &'static str {
        "hbase"
    }

    fn options(&self) -> &'static [Known] {
        &[
            Known {
                name: "port",
                default: "19090",
                help: "port of the first gateway; further gateways use the ports after it",
            },
            Known { name: "zk_port", default: "12181", help: "port of ZooKeeper" },
            Known {
                name: "connections",
                default: "256",
                help: "threads of each gateway: further connections wait until one is closed",
            },
            Known { name: "gateway_heap", default: "256m", help: "heap of each gateway" },
            Known {
                name: "heap",
                default: "1g",
                help: "heap of the master and all region servers",
            },
            Known { name: "direct", default: "512m", help: "memory outside each heap" },
            maven::JAVA,
        ]
    }

    fn install(&self, site: &Site, options: &Options, say: &Say) -> Result<(), ServerError> {
        maven::java(options, &[17])?;
        let artifacts = ["hbase-server", "hbase-thrift"]
            .map(|name| format!("org.apache.hbase:{name}:{VERSION}"));
        let artifacts: Vec<&str> = artifacts.iter().map(String::as_str).collect();
        home::once(&site.software.join(VERSION), |part| {
            maven::copy_with_dependencies(site, part, &artifacts, say)
        })
    }

    fn nodes(&self, site: &Site, options: &Options, nodes: u32) -> Result<Vec<Node>, ServerError> {
        let java = maven::java(options, &[17])?;
        let jars = site.software.join(VERSION).join("*");
        let first: u16 = options.number("port", 1024, u16::MAX - nodes as u16)?;
        let zk_port: u16 = options.number("zk_port", 1024, u16::MAX)?;
        let connections: u32 = options.number("connections", 1, 10_000)?;
        let direct = maven::memory(options, "direct")?;
        let heaps = ["heap", "gateway_heap"].map(|name| maven::memory(options, name));
        let [heap, gateway_heap] = heaps;
        let (heap, gateway_heap) = (heap?, gateway_heap?);
        let at = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let process = |name: String, port: u16, heap: &str, main: &[String]| {
            let data = site.data.join(&name);
            let (path, temporary) = (data.display(), data.join("tmp"));
            let conf = data.join("conf");
            let own = [
                ("hbase.rootdir", format!("file://{path}/root")),
                ("hbase.thrift.minWorkerThreads", connections.to_string()),
                ("hbase.tmp.dir", temporary.display().to_string()),
                ("hbase.zookeeper.property.clientPort", zk_port.to_string()),
                ("hbase.zookeeper.property.dataDir", format!("{path}/zookeeper")),
            ];
            let shared = SETTINGS.iter().map(|(name, value)| (*name, (*value).to_owned()));
            let properties: String = shared.chain(own).map(property).collect();
            let mut arguments = vec![
                format!("-Xmx{heap}"),
                format!("-XX:MaxDirectMemorySize={direct}"),
                "-XX:+UseG1GC".to_owned(),
                "-XX:+ExitOnOutOfMemoryError".to_owned(),
                "-Djava.net.preferIPv4Stack=true".to_owned(),
                format!("-Djava.io.tmpdir={}", temporary.display()),
                format!("-Dhadoop.home.dir={path}"),
            ];
            arguments.extend(MODULES.iter().map(|module| (*module).to_owned()));
            arguments.extend(["-cp".to_owned(), format!("{}:{}", conf.display(), jars.display())]);
            arguments.extend_from_slice(main);
            let settings = SETTINGS.iter().map(|(name, value)| format!("{name}: {value}"));
            let mut configuration: Vec<String> = settings.collect();
            configuration.push(format!("heap: {heap}"));
            configuration.push(format!("direct memory: {direct}"));
            Node {
                // Drivers talk to gateways alone.
                endpoint: if name == SERVERS { String::new() } else { at(port).to_string() },
                listen: vec![at(port)],
                files: vec![
                    (
                        conf.join("hbase-site.xml"),
                        format!("<configuration>\n{properties}</configuration>\n"),
                    ),
                    (conf.join("log4j.properties"), LOG4J.to_owned()),
                    // Java's directory for temporary files must exist.
                    (temporary.join("README"), "Temporary files of this process.\n".to_owned()),
                ],
                launch: Launch::new(&java, arguments),
                configuration,
                name,
                data,
            }
        };
        let master = [
            "org.apache.hadoop.hbase.master.HMaster".to_owned(),
            format!("--localRegionServers={nodes}"),
            "start".to_owned(),
        ];
        let servers = process(SERVERS.to_owned(), zk_port, heap, &master);
        let gateway = |index: u32| {
            let port = first + index as u16;
            let main = [
                "org.apache.hadoop.hbase.thrift2.ThriftServer",
                "-b",
                "127.0.0.1",
                "-p",
                &port.to_string(),
                "start",
            ]
            .map(str::to_owned);
            process(format!("thrift{}", index + 1), port, gateway_heap, &main)
        };
        Ok(std::iter::once(servers).chain((0..nodes).map(gateway)).collect())
    }

    /// The servers once their ZooKeeper listens; a gateway once it finds all tables open, those of
    /// an earlier start included.
    async fn answers(&self, node: &Node, _: &[Node]) -> Result<(), String> {
        if node.name == SERVERS {
            let stream = TcpStream::connect(&node.listen[..]).await;
            return stream.map(|_| ()).map_err(|e| e.to_string());
        }
        let (host, port) = node.endpoint.rsplit_once(':').expect("an address has a port");
        let place = (host.to_owned(), port.parse().expect("an address has a port"));
        let ask = async { Gateway::open(self.name(), &place, LOOK_MAX).await?.unavailable().await };
        match crate::driver::within(self.name(), LOOK_MAX, ask).await {
            Ok(None) => Ok(()),
            Ok(Some(table)) => Err(format!("table {table} is not open yet")),
            Err(error) => Err(error.to_string()),
        }
    }

    fn in_turn(&self) -> bool {
        true
    }

    fn start_s_max(&self) -> u64 {
        600
    }

    /// The gateway does not tell the version of the servers.
    fn driver_options(&self, _: &[Node]) -> Vec<(&'static str, String)> {
        vec![("release", VERSION.to_owned())]
    }
}

fn property((name, value): (&str, String)) -> String {
    let value = value.replace('&', "&amp;").replace('<', "&lt;");
    format!("<property><name>{name}</name><value>{value}</value></property>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped() {
        assert_eq!(
            property(("hbase.tmp.dir", "/a&b<c".to_owned())),
            "<property><name>hbase.tmp.dir</name><value>/a&amp;b&lt;c</value></property>\n"
        );
    }
}
