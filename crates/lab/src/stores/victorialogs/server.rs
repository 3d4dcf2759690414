//! VictoriaLogs, built from its Go module, or a program that is given by path. Several nodes are
//! independent servers: the driver's shards.

use std::net::SocketAddr;
use std::path::PathBuf;

use async_trait::async_trait;

use super::driver::{SYSLOG, TABLE, UTC, ZONE};
use crate::driver::stream;
use crate::options::{Known, Options, port};
use crate::servers::{Launch, Node, Place, Say, Server, ServerError, Site, go, places};

const PROGRAM: go::Program = go::Program {
    package: "github.com/VictoriaMetrics/VictoriaLogs/app/victoria-logs",
    version_variable: "github.com/VictoriaMetrics/VictoriaMetrics/lib/buildinfo.Version",
    go: "1.26",
};

/// What the driver needs: times of all years, deletion of tables, empty messages that stay empty,
/// and time to read all lines of a stream.
const NEEDED: &[&str] = &[
    "-retentionPeriod=100y",
    "-futureRetention=100y",
    "-delete.enable",
    "-defaultMsgValue=",
    "-search.maxQueryDuration=10m",
];

/// Distance between the port of HTTP and the port of syslog.
const SYSLOG_APART: u16 = 50;

pub(crate) struct VictoriaLogs;

#[async_trait]
impl Server for VictoriaLogs {
    fn name(&self) -> &'static str {
        "victorialogs"
    }

    fn options(&self) -> &'static [Known] {
        const {
            &[
                Known { name: "version", default: "v1.52.1", help: "version of the Go module" },
                port("19428"),
                Known {
                    name: "bin",
                    default: "",
                    help: "a program to run instead of building one",
                },
                Known {
                    name: "memory_allowed",
                    default: "1GiB",
                    help: "limit of the caches of each node (-memory.allowedBytes)",
                },
                Known {
                    name: "flush_interval",
                    default: "5s",
                    help: "time from one write of rows in memory to disk to the next, at least 1s",
                },
            ]
        }
    }

    fn install(&self, site: &Site, options: &Options, say: &Say) -> Result<(), ServerError> {
        match options.text("bin") {
            "" => {
                let version = options.text("version");
                go::build_once(site, &site.software.join(version), &PROGRAM, version, say)
            }
            path if PathBuf::from(path).is_file() => Ok(()),
            path => Err(ServerError::Missing {
                what: format!("{path} is not there"),
                remedy: "give the path of victoria-logs, or leave the option `bin` away".to_owned(),
            }),
        }
    }

    fn nodes(&self, site: &Site, options: &Options, nodes: u32) -> Result<Vec<Node>, ServerError> {
        let places = places("victorialogs", site, options, nodes, &[SYSLOG_APART])?;
        let program = match options.text("bin") {
            "" => site.software.join(options.text("version")).join("victoria-logs"),
            path => std::path::absolute(path).map_err(crate::servers::io(path.as_ref()))?,
        };
        let mut settings = vec![
            format!("-memory.allowedBytes={}", options.text("memory_allowed")),
            format!("-inmemoryDataFlushInterval={}", options.text("flush_interval")),
        ];
        settings.extend(NEEDED.iter().map(|flag| (*flag).to_owned()));
        let node = |place: Place| {
            let mut arguments = vec![
                format!("-httpListenAddr={}", place.listen[0]),
                format!("-storageDataPath={}", place.data.display()),
                // The table of streams.
                format!("-syslog.listenAddr.tcp={}", place.listen[1]),
                format!("-syslog.extraFields.tcp={{\"{TABLE}\":\"{}\"}}", stream::TABLE),
                format!("-syslog.streamFields.tcp=[\"{TABLE}\",\"hostname\",\"app_name\"]"),
                format!("-syslog.timezone={UTC}"),
            ];
            arguments.extend(settings.clone());
            place.node(Launch::new(&program, arguments), settings.clone())
        };
        Ok(places.map(node).collect())
    }

    fn driver_options(&self, nodes: &[Node]) -> Vec<(&'static str, String)> {
        let syslog = nodes.iter().filter_map(|node| node.listen.get(1));
        let syslog: Vec<String> = syslog.map(SocketAddr::to_string).collect();
        vec![(SYSLOG, syslog.join(",")), (ZONE, UTC.to_owned())]
    }
}
