//! Elasticsearch 7, as published for integration tests: the whole server without scripts, ingest
//! and language analysers. Several nodes form one cluster.
//!
//! There is no authentication, it listens on loopback only, and the disk watermarks are off,
//! because the disks of test machines are often fuller than they permit. The number of nodes of a
//! cluster is fixed; wipe it to reduce it.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use async_trait::async_trait;

use crate::driver::Open;
use crate::driver::http::plain_client;
use crate::options::{Known, Options, known, port};
use crate::servers::{Launch, Node, Place, Say, Server, ServerError, Site, maven, places};

/// Time after which a node of an incomplete cluster answers; it is then polled again.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);

/// The configuration of logs: to the standard output.
pub(crate) const LOG4J: &str = "\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d][%p][%c{1.}] %m%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
";

/// Java's arguments in the start scripts of Elasticsearch and OpenSearch.
pub(crate) const JAVA: &[&str] = &[
    "-XX:+UseG1GC",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:-OmitStackTraceInFastThrow",
    "-Xss1m",
    "-Djava.awt.headless=true",
    "-Dfile.encoding=UTF-8",
    "-Djna.nosys=true",
    "-Dio.netty.noUnsafe=true",
    "-Dio.netty.noKeySetOptimization=true",
    "-Dio.netty.recycler.maxCapacityPerThread=0",
    "-Dio.netty.allocator.numDirectArenas=0",
    "-Dlog4j.shutdownHookEnabled=false",
    "-Dlog4j2.disable.jmx=true",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
];

/// Arguments of Java for Elasticsearch, and not for OpenSearch.
const JAVA_OF_ELASTICSEARCH: &[&str] = &[
    "-Djava.locale.providers=SPI,COMPAT",
    "-Des.distribution.flavor=default",
    "-Des.distribution.type=zip",
    "-Des.bundled_jdk=false",
];

pub(crate) struct Elasticsearch;

#[async_trait]
impl Server for Elasticsearch {
    fn name(&self) -> &'static str {
        "elasticsearch"
    }

    fn options(&self) -> &'static [Known] {
        const {
            &[
                Known { name: "version", default: "7.17.28", help: "a release 7" },
                port("19200"),
                known("transport_port", "19300", "port between nodes, of the first node"),
                maven::HEAP,
                maven::DIRECT,
                maven::JAVA,
            ]
        }
    }

    fn install(&self, site: &Site, options: &Options, say: &Say) -> Result<(), ServerError> {
        maven::java(options, &[17])?;
        let version = options.text("version");
        let artifact =
            format!("org.elasticsearch.distribution.integ-test-zip:elasticsearch:{version}:zip");
        maven::unpack_once(site, &site.software.join(version), &artifact, say)
    }

    fn nodes(&self, site: &Site, options: &Options, nodes: u32) -> Result<Vec<Node>, ServerError> {
        let version = options.text("version");
        let software = site.software.join(version).join(format!("elasticsearch-{version}"));
        let java = maven::java(options, &[17])?;
        let places = cluster("elasticsearch", site, options, nodes)?;
        let heap = maven::memory(options, "heap")?;
        let direct = maven::memory(options, "direct")?;
        let names: Vec<&str> = places.iter().map(|place| place.name.as_str()).collect();
        let seeds = places.iter().map(|place| format!("\"{}\"", place.listen[1]));
        let seeds: Vec<String> = seeds.collect();
        let settings = [
            "cluster.name: lab".to_owned(),
            "network.host: 127.0.0.1".to_owned(),
            format!("discovery.seed_hosts: [{}]", seeds.join(", ")),
            format!("cluster.initial_master_nodes: [{}]", names.join(", ")),
            "cluster.routing.allocation.disk.threshold_enabled: false".to_owned(),
            "bootstrap.system_call_filter: false".to_owned(),
            "xpack.security.enabled: false".to_owned(),
        ];
        let node = |place: Place| {
            let [http, transport] = [place.listen[0], place.listen[1]];
            let (name, data) = (&place.name, &place.data);
            let conf = data.join("conf");
            let (path, temporary) = (data.display(), data.join("tmp"));
            let yml = format!(
                "{}\nnode.name: {name}\npath.data: {path}/data\npath.logs: {path}/logs\nhttp.port: {}\ntransport.port: {}\n",
                settings.join("\n"),
                http.port(),
                transport.port(),
            );
            let mut arguments = vec![
                format!("-Xms{heap}"),
                format!("-Xmx{heap}"),
                format!("-XX:MaxDirectMemorySize={direct}"),
                format!("-Djava.io.tmpdir={}", temporary.display()),
                format!("-Des.path.home={}", software.display()),
                format!("-Des.path.conf={}", conf.display()),
            ];
            let java_arguments = JAVA.iter().chain(JAVA_OF_ELASTICSEARCH);
            arguments.extend(java_arguments.map(|argument| (*argument).to_owned()));
            arguments.extend(["-cp".to_owned(), format!("{}/lib/*", software.display())]);
            arguments.push("org.elasticsearch.bootstrap.Elasticsearch".to_owned());
            let mut configuration = settings.to_vec();
            configuration.extend([format!("heap: {heap}"), format!("direct memory: {direct}")]);
            let files = vec![
                (conf.join("elasticsearch.yml"), yml),
                (conf.join("log4j2.properties"), LOG4J.to_owned()),
                // Java's directory for temporary files must exist.
                (temporary.join("README"), "Temporary files of this node.\n".to_owned()),
            ];
            let launch = Launch::new(&java, arguments)
                .refuses_root()
                .variable("LIBFFI_TMPDIR", temporary.display().to_string());
            Node { files, ..place.node(launch, configuration) }
        };
        Ok(places.into_iter().map(node).collect())
    }

    async fn answers(&self, _: Open, node: &Node, nodes: &[Node]) -> Result<(), String> {
        complete(node, nodes).await
    }

    fn start_s_max(&self) -> u64 {
        240
    }
}

/// The places of the nodes of a cluster. The second address of each is for the others.
pub(crate) fn cluster(
    name: &str,
    site: &Site,
    options: &Options,
    nodes: u32,
) -> Result<Vec<Place>, ServerError> {
    let first: u16 = options.number("transport_port", 1024, u16::MAX - nodes as u16)?;
    let mut places: Vec<Place> = places(name, site, options, nodes, &[])?.collect();
    for (place, port) in places.iter_mut().zip(first..) {
        place.listen.push(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    Ok(places)
}

/// Asks a node for the health of its cluster: good once all nodes and all primary shards are
/// available.
pub(crate) async fn complete(node: &Node, nodes: &[Node]) -> Result<(), String> {
    let url = format!(
        "http://{}/_cluster/health?wait_for_nodes=>={}&wait_for_status=yellow&timeout={}s",
        node.endpoint,
        nodes.len(),
        HEALTH_TIMEOUT.as_secs(),
    );
    let client = plain_client().timeout(HEALTH_TIMEOUT * 5).build();
    let answer = client.map_err(|e| e.to_string())?.get(url).send().await;
    let status = answer.map_err(|e| e.to_string())?.status();
    match status.is_success() {
        true => Ok(()),
        false => Err(format!("the cluster is not complete ({status})")),
    }
}
