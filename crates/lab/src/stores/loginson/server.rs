//! Loginson's own server: a program that was built next to this one, or is given by path. Several
//! nodes are independent servers: the driver's shards.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;

use super::driver::SYSLOG;
use crate::driver::Open;
use crate::driver::http::plain_client;
use crate::driver::stream::TABLE;
use crate::options::{Known, Options, known, port};
use crate::servers::{Launch, Node, Place, Say, Server, ServerError, Site, debian, home, places};

/// The environment variable with the path of the program.
const PROGRAM: &str = "LOGINSON_BIN";

/// Time limit of one readiness request.
const READY_MAX: Duration = Duration::from_secs(5);

/// Distance between the port of HTTP and the port of syslog.
const SYSLOG_APART: u16 = 50;

pub(crate) struct Loginson;

#[async_trait]
impl Server for Loginson {
    fn name(&self) -> &'static str {
        "loginson"
    }

    fn options(&self) -> &'static [Known] {
        const {
            &[
                port("19514"),
                known("bin", "", "the program; else LOGINSON_BIN, beside this program, or in PATH"),
                known("cache_bytes_max", "512MiB", "size of the cache (key in [store])"),
                known("memory_bytes_max", "512MiB", "memory of queries (key in [query])"),
                Known {
                    name: "answers_bytes_max",
                    default: "0",
                    help: "memory for results of blocks that repeated queries take (key in [query]); \
                       none, because other stores keep none",
                },
            ]
        }
    }

    fn install(&self, _: &Site, options: &Options, _: &Say) -> Result<(), ServerError> {
        program(options).map(|_| ())
    }

    fn nodes(&self, site: &Site, options: &Options, nodes: u32) -> Result<Vec<Node>, ServerError> {
        let places = places("loginson", site, options, nodes, &[SYSLOG_APART])?;
        let program = program(options)?;
        let settings = [
            "[store]".to_owned(),
            format!("cache_bytes_max = {:?}", options.text("cache_bytes_max")),
            "[query]".to_owned(),
            format!("memory_bytes_max = {:?}", options.text("memory_bytes_max")),
            format!("answers_bytes_max = {:?}", options.text("answers_bytes_max")),
        ];
        let node = |place: Place| {
            let file = site.run.join(format!("{}.toml", place.name));
            let mut lines = vec![
                format!("data_dir = {:?}", place.data.join("store").display().to_string()),
                format!("http_listen = \"{}\"", place.listen[0]),
                "syslog_udp_listen = \"off\"".to_owned(),
                format!("syslog_tcp_listen = \"{}\"", place.listen[1]),
            ];
            lines.extend(settings.clone());
            // The table of streams: see the driver.
            lines.push("[[types]]".to_owned());
            lines.push(format!("name = \"{TABLE}\""));
            lines.push("remote_ip = [\"127.0.0.1\"]".to_owned());
            let arguments = ["--config".to_owned(), file.display().to_string()];
            let files = vec![(file, lines.join("\n") + "\n")];
            Node { files, ..place.node(Launch::new(&program, arguments), settings.to_vec()) }
        };
        Ok(places.map(node).collect())
    }

    async fn answers(&self, _: Open, node: &Node, _: &[Node]) -> Result<(), String> {
        let client = plain_client().timeout(READY_MAX).build();
        let request =
            client.map_err(|e| e.to_string())?.get(format!("http://{}/ready", node.endpoint));
        match request.send().await {
            Ok(response) if response.status().is_success() => Ok(()),
            Ok(response) => Err(format!("status {}", response.status())),
            Err(error) => Err(error.to_string()),
        }
    }

    fn driver_options(&self, nodes: &[Node]) -> Vec<(&'static str, String)> {
        let all: Vec<String> = nodes.iter().filter_map(syslog).collect();
        vec![(SYSLOG, all.join(","))]
    }
}

/// The address of a node for syslog.
fn syslog(node: &Node) -> Option<String> {
    node.listen.get(1).map(SocketAddr::to_string)
}

/// The program to start, as an absolute path.
fn program(options: &Options) -> Result<PathBuf, ServerError> {
    let named = match options.text("bin") {
        "" => std::env::var_os(PROGRAM).map(PathBuf::from),
        path => Some(PathBuf::from(path)),
    };
    let missing = |what: String| ServerError::Missing {
        what,
        remedy: format!(
            "build it with `cargo build --release`, or name it: --set bin=PATH, {PROGRAM}=PATH"
        ),
    };
    let found = match named {
        Some(path) if path.is_file() => Some(path),
        Some(path) => return Err(missing(format!("{} is not there", path.display()))),
        None => home::beside("loginson").or_else(|| debian::program("loginson")),
    };
    let found = found.ok_or_else(|| missing("there is no program loginson".to_owned()))?;
    std::path::absolute(&found).map_err(crate::servers::io(&found))
}
