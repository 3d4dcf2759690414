//! VoltDB 10.0, the community edition, from its published jar. Several nodes form one cluster; they
//! are started together, because none answers before all are there.
//!
//! Data is in memory only: this edition has no log of commands, and every start makes a new
//! database. There is no authentication, and all ports are on loopback. Partitions are few, because
//! each takes a processor while it works.

use std::net::{Ipv4Addr, SocketAddr};

use async_trait::async_trait;

use crate::driver::Open;
use crate::options::{Known, Options};
use crate::servers::{
    Launch, Node, Say, Server, ServerError, Site, driver_answers, home, io, listens, maven,
};

/// The version of the server and of this list.
const VERSION: &str = "10.0";

/// The server, and libraries that it needs and does not declare.
const ARTIFACTS: &[&str] = &[
    "org.voltdb:voltdb:10.0",
    "com.fasterxml.jackson.core:jackson-databind:2.9.10.5",
    "com.sun.xml.bind:jaxb-core:2.3.0.1",
    "com.sun.xml.bind:jaxb-impl:2.3.1",
    "javax.activation:activation:1.1.1",
    "javax.xml.bind:jaxb-api:2.3.1",
    "log4j:log4j:1.2.17",
    "net.java.dev.jna:jna:4.5.2",
    "net.sf.supercsv:super-csv:2.1.0",
    "org.aeonbits.owner:owner-java8:1.0.12",
    "org.apache.calcite:calcite-core:1.23.0",
    "org.apache.felix:org.apache.felix.framework:5.6.10",
    "org.eclipse.jetty:jetty-servlet:9.4.31.v20200723",
    "org.slf4j:slf4j-log4j12:1.7.25",
    "org.snmp4j:snmp4j:2.5.2",
    "org.xerial.snappy:snappy-java:1.1.1.7",
];

/// The modules of Java 17 that have to be opened to it.
pub(super) const MODULES: &[&str] = &[
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.net=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
];

const LOG4J: &str = "\
log4j.rootLogger=WARN,OUT
log4j.logger.CONSOLE=INFO
log4j.appender.OUT=org.apache.log4j.ConsoleAppender
log4j.appender.OUT.layout=org.apache.log4j.PatternLayout
log4j.appender.OUT.layout.ConversionPattern=%d %-5p %c{1}: %m%n
";

/// The names of a node's ports, which follow each other: for clients, between nodes, for their
/// coordination, for administration, and for replication.
const PORTS: [&str; 5] = ["port", "internalport", "zkport", "adminport", "replicationport"];

/// Name of the file with Java's arguments that make an empty database.
const INITIALIZE: &str = "initialize.args";

/// The word before the directory of a node, and the name of the database's directory in it.
const ROOT: &str = "voltdbroot";

pub(crate) struct VoltDb;

#[async_trait]
impl Server for VoltDb {
    fn name(&self) -> &'static str {
        "voltdb"
    }

    fn options(&self) -> &'static [Known] {
        &[
            Known {
                name: "port",
                default: "21212",
                help: "port of the first node; each node takes five ports, one after another",
            },
            Known { name: "sites", default: "2", help: "partitions of each node" },
            Known { name: "kfactor", default: "0", help: "copies of each partition, less one" },
            Known {
                name: "memory_gb",
                default: "3",
                help: "memory of each node with its heap, GB; beyond it the database only reads",
            },
            maven::HEAP,
            maven::DIRECT,
            maven::JAVA,
        ]
    }

    fn install(&self, site: &Site, options: &Options, say: &Say) -> Result<(), ServerError> {
        super::driver::CLIENT.install(say)?;
        maven::java(options, &[17])?;
        home::once(&site.software.join(VERSION), |part| {
            maven::copy_with_dependencies(site, part, ARTIFACTS, say)
        })
    }

    fn nodes(&self, site: &Site, options: &Options, nodes: u32) -> Result<Vec<Node>, ServerError> {
        let java = maven::java(options, &[17])?;
        let jars = site.software.join(VERSION).join("*");
        let first = options.number("port", 1024, u16::MAX - PORTS.len() as u16 * nodes as u16)?;
        let sites: u32 = options.number("sites", 1, 64)?;
        let kfactor = options.number("kfactor", 0, nodes - 1)?;
        let memory_gb: u32 = options.number("memory_gb", 1, 1024)?;
        let heap = maven::memory(options, "heap")?;
        let direct = maven::memory(options, "direct")?;
        let ports = |index: u32| -> Vec<SocketAddr> {
            let own = (first + PORTS.len() as u16 * index as u16..).take(PORTS.len());
            own.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port))).collect()
        };
        let mesh: Vec<String> = (0..nodes).map(|index| ports(index)[1].to_string()).collect();
        let deployment = format!(
            "<deployment>\n\
             <cluster hostcount=\"{nodes}\" sitesperhost=\"{sites}\" kfactor=\"{kfactor}\"/>\n\
             <httpd enabled=\"false\"/>\n\
             <snapshot enabled=\"false\" prefix=\"auto\"/>\n\
             <systemsettings><resourcemonitor frequency=\"5\">\
             <memorylimit size=\"{memory_gb}\"/></resourcemonitor></systemsettings>\n\
             </deployment>\n"
        );
        let node = |index: u32| {
            let name = format!("voltdb{}", index + 1);
            let data = site.data.join(&name);
            let ports = ports(index);
            let (path, temporary) = (data.display().to_string(), data.join("tmp"));
            let log4j = data.join("log4j.properties");
            let java_arguments = |heap: &str| {
                let mut arguments = vec![
                    format!("-Xmx{heap}"),
                    format!("-XX:MaxDirectMemorySize={direct}"),
                    "-XX:+UseG1GC".to_owned(),
                    "-XX:+ExitOnOutOfMemoryError".to_owned(),
                    "-Djava.net.preferIPv4Stack=true".to_owned(),
                    format!("-Djava.io.tmpdir={}", temporary.display()),
                    format!("-Dlog4j.configuration=file:{}", log4j.display()),
                ];
                arguments.extend(MODULES.iter().map(|module| (*module).to_owned()));
                arguments.extend(["-cp".to_owned(), jars.display().to_string()]);
                arguments.push("org.voltdb.VoltDB".to_owned());
                arguments
            };
            let deployment_file = data.join("deployment.xml").display().to_string();
            let mut initialize = java_arguments("256m");
            let words = ["initialize", ROOT, &path, "deployment", &deployment_file];
            initialize.extend(words.map(str::to_owned));
            let mut arguments = java_arguments(heap);
            arguments.extend(["probe", ROOT, &path, "mesh"].map(str::to_owned));
            arguments.extend([mesh.join(","), "hostcount".to_owned(), nodes.to_string()]);
            for interface in ["externalinterface", "internalinterface"] {
                arguments.extend([interface.to_owned(), Ipv4Addr::LOCALHOST.to_string()]);
            }
            for (name, address) in PORTS.into_iter().zip(&ports) {
                let value = match name {
                    "zkport" => address.to_string(),
                    _ => address.port().to_string(),
                };
                arguments.extend([name.to_owned(), value]);
            }
            Node {
                endpoint: ports[0].to_string(),
                listen: ports,
                files: vec![
                    (data.join("deployment.xml"), deployment.clone()),
                    (log4j.clone(), LOG4J.to_owned()),
                    (data.join(INITIALIZE), maven::argument_file(&initialize)),
                    // Java's directory for temporary files must exist.
                    (temporary.join("README"), "Temporary files of this node.\n".to_owned()),
                ],
                launch: Launch::new(&java, arguments),
                configuration: vec![
                    format!("sites per host: {sites}"),
                    format!("k-factor: {kfactor}"),
                    format!("memory limit: {memory_gb} GB"),
                    format!("heap: {heap}"),
                    format!("direct memory: {direct}"),
                ],
                name,
                data,
            }
        };
        Ok((0..nodes).map(node).collect())
    }

    /// Makes an empty database: an earlier one cannot be continued.
    fn prepare(&self, site: &Site, node: &Node) -> Result<(), ServerError> {
        let root = node.data.join(ROOT);
        match std::fs::remove_dir_all(&root) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(io(&root)(e)),
            _ => {}
        }
        let arguments = format!("@{}", node.data.join(INITIALIZE).display());
        let log = site.log.join(format!("{}-initialize.log", node.name));
        Launch::new(&node.launch.program, [arguments]).run(&log, &node.data)
    }

    /// Once all nodes run, as one of them tells.
    async fn answers(&self, open: Open, node: &Node, nodes: &[Node]) -> Result<(), String> {
        listens(node).await?;
        driver_answers(open, self.name(), nodes).await
    }

    fn start_s_max(&self) -> u64 {
        180
    }

    fn keeps_data(&self, _: &Options) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_partitions_needs_a_node() {
        let most = |nodes: u32| {
            let given = [("kfactor".to_owned(), "1".to_owned())].into();
            let options = Options::read("voltdb", VoltDb.options(), &given).unwrap();
            options.number("kfactor", 0, nodes - 1)
        };
        assert!(most(1).is_err());
        assert_eq!(most(2), Ok(1));
    }
}
