//! Cassandra, from its published jars. Several nodes form one cluster, each with a loopback address
//! of its own, because Cassandra uses the same ports on every node; they join one after another.
//!
//! There is no authentication. By default writes are acknowledged from the commit log's buffer,
//! which is written to disk every 10 s, as in the 2015 study (option `commitlog_sync`). Other
//! settings are
//! the defaults too, except for memory, which is bounded, and for time limits, which are longer,
//! because a machine that also runs the generator may be slow. The number of nodes of a cluster is
//! fixed; wipe it to reduce it.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use async_trait::async_trait;
use scylla::client::session_builder::SessionBuilder;

use crate::driver::Open;
use crate::options::{Known, Options, known};
use crate::servers::{Launch, Node, Say, Server, ServerError, Site, maven};

/// The modules of Java 17 that have to be opened to it; the list is that of the server's own start
/// script.
const MODULES: &[&str] = &[
    "--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/java.lang.ref=ALL-UNNAMED",
    "--add-exports=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-exports=java.management.rmi/com.sun.jmx.remote.internal.rmi=ALL-UNNAMED",
    "--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED",
    "--add-exports=java.rmi/sun.rmi.server=ALL-UNNAMED",
    "--add-exports=java.rmi/sun.rmi.transport.tcp=ALL-UNNAMED",
    "--add-exports=java.sql/java.sql=ALL-UNNAMED",
    "--add-exports=jdk.attach/sun.tools.attach=ALL-UNNAMED",
    "--add-exports=jdk.compiler/com.sun.tools.javac.file=ALL-UNNAMED",
    "--add-exports=jdk.unsupported/sun.misc=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.module=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-opens=java.base/java.net=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent.atomic=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.loader=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.math=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.module=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.reflect=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.util.jar=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.rmi/sun.rmi.transport.tcp=ALL-UNNAMED",
    "--add-opens=jdk.management/com.sun.management.internal=ALL-UNNAMED",
];

const LOGBACK: &str = r#"<configuration>
<appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
<encoder><pattern>%-5level %date{HH:mm:ss.SSS} %logger{0} %msg%n</pattern></encoder>
</appender>
<root level="INFO"><appender-ref ref="OUT"/></root>
</configuration>
"#;

/// The log of nodetool is not needed.
const LOGBACK_OFF: &str = "<configuration><root level=\"OFF\"/></configuration>\n";

/// Settings of every node.
const SETTINGS: &str = "\
cluster_name: lab
num_tokens: 16
allocate_tokens_for_local_replication_factor: 1
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
disk_optimization_strategy: ssd
memtable_heap_space: 192MiB
memtable_offheap_space: 128MiB
file_cache_size: 128MiB
networking_cache_size: 64MiB
key_cache_size: 32MiB
concurrent_compactors: 1
compaction_throughput: 64MiB/s
request_timeout: 20s
read_request_timeout: 20s
range_request_timeout: 30s
write_request_timeout: 20s
truncate_request_timeout: 60s
auto_snapshot: false
";

/// Name of the file that Java reads nodetool's arguments from, without the host.
const NODETOOL: &str = "nodetool-";

pub(crate) struct Cassandra;

#[async_trait]
impl Server for Cassandra {
    fn name(&self) -> &'static str {
        "cassandra"
    }

    fn options(&self) -> &'static [Known] {
        const {
            &[
                Known { name: "version", default: "5.0.2", help: "a release 4.1 or 5.0" },
                Known {
                    name: "address",
                    default: "127.0.0.1",
                    help: "address of the first node; further nodes have the addresses after it",
                },
                Known { name: "port", default: "9042", help: "port of CQL, on every node" },
                known("storage_port", "7000", "port between nodes, on every node"),
                Known {
                    name: "jmx_port",
                    default: "7199",
                    help: "port of JMX on 127.0.0.1, of the first node; further nodes use the ports after it",
                },
                Known {
                    name: "commitlog_sync",
                    default: "periodic",
                    help: "when a write is on disk: periodic (within 10 s) or batch (before it is acknowledged)",
                },
                maven::HEAP,
                maven::DIRECT,
                maven::JAVA,
            ]
        }
    }

    fn install(&self, site: &Site, options: &Options, say: &Say) -> Result<(), ServerError> {
        maven::java(options, &[17])?;
        let version = options.text("version");
        let artifact = format!("org.apache.cassandra:cassandra-all:{version}");
        maven::copy_once(site, &site.software.join(version), &artifact, say)
    }

    fn nodes(&self, site: &Site, options: &Options, nodes: u32) -> Result<Vec<Node>, ServerError> {
        let java = maven::java(options, &[17])?;
        let jars = site.software.join(options.text("version")).join("*");
        let first: Ipv4Addr = match options.text("address").parse() {
            Ok(first) if Ipv4Addr::is_loopback(&first) => first,
            _ => return Err(options.wrong("address", "it takes one of 127.0.0.0/8").into()),
        };
        let port: u16 = options.number("port", 1024, u16::MAX)?;
        let storage_port: u16 = options.number("storage_port", 1024, u16::MAX)?;
        let first_jmx = options.number("jmx_port", 1024, u16::MAX - nodes as u16)?;
        let sync = match options.choice("commitlog_sync", &["periodic", "batch"])? {
            "batch" => "commitlog_sync: batch\n",
            _ => "commitlog_sync: periodic\ncommitlog_sync_period: 10000ms\n",
        };
        let heap = maven::memory(options, "heap")?;
        let direct = maven::memory(options, "direct")?;
        let node = |index: u32| {
            let name = format!("cassandra{}", index + 1);
            let host = Ipv4Addr::from_bits(first.to_bits() + index);
            let jmx = SocketAddr::from((Ipv4Addr::LOCALHOST, first_jmx + index as u16));
            let data = site.data.join(&name);
            let conf = data.join("conf");
            let yaml = conf.join("cassandra.yaml");
            let path = data.display();
            let text = format!(
                "{SETTINGS}{sync}\
                seed_provider:\n  - class_name: org.apache.cassandra.locator.SimpleSeedProvider\n    \
                parameters: [{{seeds: \"{first}:{storage_port}\"}}]\n\
                listen_address: {host}\nrpc_address: {host}\n\
                storage_port: {storage_port}\nnative_transport_port: {port}\n\
                hints_directory: {path}/hints\ndata_file_directories: [{path}/data]\n\
                commitlog_directory: {path}/commitlog\ncdc_raw_directory: {path}/cdc\n\
                saved_caches_directory: {path}/saved_caches\n"
            );
            let common = |log: &str| {
                let mut arguments: Vec<String> =
                    MODULES.iter().map(|module| (*module).to_owned()).collect();
                arguments.extend([
                    format!("-Dcassandra.config=file://{}", yaml.display()),
                    format!("-Dlogback.configurationFile={}", conf.join(log).display()),
                    format!("-Djava.io.tmpdir={path}"),
                    "-cp".to_owned(),
                    jars.display().to_string(),
                ]);
                arguments
            };
            let mut arguments = vec![
                format!("-Xms{heap}"),
                format!("-Xmx{heap}"),
                format!("-XX:MaxDirectMemorySize={direct}"),
                "-Xss512k".to_owned(),
                "-XX:+UseG1GC".to_owned(),
                "-XX:+ExitOnOutOfMemoryError".to_owned(),
                "-Djava.net.preferIPv4Stack=true".to_owned(),
                format!("-Dcassandra.jmx.local.port={}", jmx.port()),
                format!("-Dcassandra.storagedir={path}"),
                format!("-Dcassandra.logdir={path}"),
                // Nodes on loopback find each other at once.
                "-Dcassandra.ring_delay_ms=2000".to_owned(),
                "-Dcassandra.skip_wait_for_gossip_to_settle=0".to_owned(),
                "-Dcassandra.superuser_setup_delay_ms=0".to_owned(),
                "-Djdk.attach.allowAttachSelf=true".to_owned(),
                "-Dio.netty.tryReflectionSetAccessible=true".to_owned(),
                "-Djna.nosys=true".to_owned(),
            ];
            arguments.extend(common("logback.xml"));
            arguments.push("org.apache.cassandra.service.CassandraDaemon".to_owned());
            // `nodetool` runs only briefly, so optimising its code would take longer.
            let quick = ["-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"];
            let mut nodetool: Vec<String> = quick.map(str::to_owned).to_vec();
            // `nodetool` writes a history of its commands there.
            nodetool.push(format!("-Duser.home={path}"));
            nodetool.extend(common("logback-off.xml"));
            nodetool.push("org.apache.cassandra.tools.NodeTool".to_owned());
            nodetool.extend(["-h", "127.0.0.1", "-p"].map(str::to_owned));
            nodetool.push(jmx.port().to_string());
            let mut configuration: Vec<String> =
                SETTINGS.lines().chain(sync.lines()).map(str::to_owned).collect();
            configuration.extend([format!("heap: {heap}"), format!("direct memory: {direct}")]);
            Node {
                endpoint: format!("{host}:{port}"),
                listen: vec![
                    SocketAddr::from((host, port)),
                    SocketAddr::from((host, storage_port)),
                    jmx,
                ],
                files: vec![
                    (yaml.clone(), text),
                    (conf.join("logback.xml"), LOGBACK.to_owned()),
                    (conf.join("logback-off.xml"), LOGBACK_OFF.to_owned()),
                    (site.data.join(format!("{NODETOOL}{host}")), maven::argument_file(&nodetool)),
                ],
                launch: Launch::new(&java, arguments),
                configuration,
                name,
                data,
            }
        };
        Ok((0..nodes).map(node).collect())
    }

    /// Once this node and the earlier ones know each other.
    async fn answers(&self, _: Open, node: &Node, nodes: &[Node]) -> Result<(), String> {
        let place = nodes.iter().position(|other| other.name == node.name);
        let begun = &nodes[..=place.expect("a node is one of them")];
        for other in begun {
            let session = SessionBuilder::new()
                .known_node(&other.endpoint)
                .connection_timeout(Duration::from_secs(2))
                .fetch_schema_metadata(false)
                .build()
                .await
                .map_err(|e| e.to_string())?;
            let known = session.get_cluster_state().get_nodes_info().len();
            if known < begun.len() {
                return Err(format!("{} knows of {known} nodes", other.name));
            }
        }
        Ok(())
    }

    fn in_turn(&self) -> bool {
        true
    }

    fn start_s_max(&self) -> u64 {
        240
    }

    /// The command with which the driver flushes, merges and reads sizes: Java with a file of
    /// arguments for each node.
    fn driver_options(&self, nodes: &[Node]) -> Vec<(&'static str, String)> {
        let Some(directory) = nodes.first().and_then(|node| node.data.parent()) else {
            return Vec::new();
        };
        let java = nodes[0].launch.program.display();
        let file = directory.join(format!("{NODETOOL}{{host}}"));
        vec![("nodetool", format!("{java} @{}", file.display()))]
    }
}
