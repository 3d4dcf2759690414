//! HBase 2.5, from its published jars: one process with the master, ZooKeeper and all region
//! servers.
//!
//! Files are in the local file system. Hadoop 2.10 cannot sync a local file: a write is
//! acknowledged once the system has it, and the system writes it to disk within 35 s.
//!
//! There is no authentication; all ports are on loopback, and those between the master and the
//! region servers are chosen by the system.

use std::net::{Ipv4Addr, SocketAddr};

use async_trait::async_trait;

use crate::driver::Open;
use crate::options::{Known, Options, known};
use crate::servers::{
    Launch, Node, Say, Server, ServerError, Site, driver_answers, listens, maven,
};

/// The version of the server.
const VERSION: &str = "2.5.8";

/// The modules of Java 17 that have to be opened to it and to its client; the list is that of the
/// server's own start script.
pub(super) const MODULES: &[&str] = &[
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

/// Its settings.
const SETTINGS: &[(&str, &str)] = &[
    ("hbase.cluster.distributed", "false"),
    ("hbase.localcluster.assign.random.ports", "true"),
    ("hbase.master.hostname", "localhost"),
    ("hbase.master.info.port", "-1"),
    ("hbase.master.ipc.address", "127.0.0.1"),
    ("hbase.regionserver.hostname", "localhost"),
    ("hbase.regionserver.info.port", "-1"),
    ("hbase.regionserver.ipc.address", "127.0.0.1"),
    // The local file system declares no guarantees; see the head of this module.
    ("hbase.unsafe.stream.capability.enforce", "false"),
    ("hbase.zookeeper.property.admin.enableServer", "false"),
    ("hbase.zookeeper.property.clientPortAddress", "127.0.0.1"),
    ("hbase.zookeeper.quorum", "127.0.0.1"),
];

/// Name of the process.
const NAME: &str = "hbase";

pub(crate) struct HBase;

#[async_trait]
impl Server for HBase {
    fn name(&self) -> &'static str {
        "hbase"
    }

    fn options(&self) -> &'static [Known] {
        const {
            &[
                known("port", "12181", "port of ZooKeeper, which clients ask first"),
                known("heap", "1g", "heap of the master and all region servers"),
                Known { name: "direct", default: "512m", help: "memory outside the heap" },
                maven::JAVA,
            ]
        }
    }

    fn install(&self, site: &Site, options: &Options, say: &Say) -> Result<(), ServerError> {
        super::driver::CLIENT.install(say)?;
        maven::java(options, &[17])?;
        let artifact = format!("org.apache.hbase:hbase-server:{VERSION}");
        maven::copy_once(site, &site.software.join(VERSION), &artifact, say)
    }

    fn nodes(&self, site: &Site, options: &Options, nodes: u32) -> Result<Vec<Node>, ServerError> {
        let java = maven::java(options, &[17])?;
        let jars = site.software.join(VERSION).join("*");
        let port: u16 = options.number("port", 1024, u16::MAX)?;
        let (heap, direct) = (maven::memory(options, "heap")?, maven::memory(options, "direct")?);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let data = site.data.join(NAME);
        let (path, temporary, conf) = (data.display(), data.join("tmp"), data.join("conf"));
        let own = [
            ("hbase.rootdir", format!("file://{path}/root")),
            ("hbase.tmp.dir", temporary.display().to_string()),
            ("hbase.zookeeper.property.clientPort", port.to_string()),
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
        arguments.extend([
            "org.apache.hadoop.hbase.master.HMaster".to_owned(),
            format!("--localRegionServers={nodes}"),
            "start".to_owned(),
        ]);
        let settings = SETTINGS.iter().map(|(name, value)| format!("{name}: {value}"));
        let memory = [format!("heap: {heap}"), format!("direct memory: {direct}")];
        Ok(vec![Node {
            endpoint: address.to_string(),
            listen: vec![address],
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
            configuration: settings.chain(memory).collect(),
            name: NAME.to_owned(),
            data,
        }])
    }

    /// Once all tables are open, those of an earlier start included.
    async fn answers(&self, open: Open, node: &Node, _: &[Node]) -> Result<(), String> {
        listens(node).await?;
        driver_answers(open, self.name(), std::slice::from_ref(node)).await
    }

    fn start_s_max(&self) -> u64 {
        600
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
