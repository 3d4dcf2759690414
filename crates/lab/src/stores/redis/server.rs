//! Redis, from the system's package. Several nodes are independent servers: the driver's shards.

use std::net::Ipv4Addr;

use async_trait::async_trait;

use crate::driver::Open;
use crate::options::{Known, Options, known, port};
use crate::servers::{Launch, Node, Place, Say, Server, ServerError, Site, debian, places};

pub(crate) struct Redis;

#[async_trait]
impl Server for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn options(&self) -> &'static [Known] {
        const {
            &[
                port("16379"),
                Known {
                    name: "maxmemory",
                    default: "2gb",
                    help: "limit of the data of each node; beyond it inserts are refused",
                },
                known("appendonly", "no", "yes keeps a log of all changes on disk"),
                Known {
                    name: "appendfsync",
                    default: "everysec",
                    help: "when that log is on disk: always, everysec or no",
                },
            ]
        }
    }

    fn install(&self, site: &Site, _: &Options, say: &Say) -> Result<(), ServerError> {
        match debian::program("redis-server") {
            Some(_) => Ok(()),
            None => debian::install(site, &["redis-server"], say),
        }
    }

    fn nodes(&self, site: &Site, options: &Options, nodes: u32) -> Result<Vec<Node>, ServerError> {
        let places = places("redis", site, options, nodes, &[])?;
        options.choice("appendonly", &["yes", "no"])?;
        options.choice("appendfsync", &["always", "everysec", "no"])?;
        // No snapshots during measurement: the driver requests one when a study needs it.
        let mut settings = vec![("save", ""), ("maxmemory-policy", "noeviction")];
        let given = ["maxmemory", "appendonly", "appendfsync"];
        settings.extend(given.iter().map(|name| (*name, options.text(name))));
        let node = |place: Place| {
            let fixed = [
                ("port", place.port.to_string()),
                ("bind", Ipv4Addr::LOCALHOST.to_string()),
                ("dir", place.data.display().to_string()),
                ("daemonize", "no".to_owned()),
            ];
            let chosen = settings.iter().map(|(name, value)| (*name, (*value).to_owned()));
            let pairs = fixed.into_iter().chain(chosen);
            let arguments = pairs.flat_map(|(name, value)| [format!("--{name}"), value]);
            let settings = settings.iter().map(|(name, value)| format!("{name} {value:?}"));
            place.node(Launch::new("redis-server", arguments), settings.collect())
        };
        Ok(places.map(node).collect())
    }

    /// Redis answers `INFO` while it still loads its files, and refuses data until it has loaded
    /// them.
    async fn answers(&self, _: Open, node: &Node, _: &[Node]) -> Result<(), String> {
        let client = redis::Client::open(format!("redis://{}", node.endpoint));
        let client = client.map_err(|e| e.to_string())?;
        let connection = client.get_multiplexed_async_connection().await;
        let mut connection = connection.map_err(|e| e.to_string())?;
        let info: Result<String, _> =
            redis::cmd("INFO").arg("persistence").query_async(&mut connection).await;
        ready(&info.map_err(|e| e.to_string())?)
    }

    /// Only a log of changes preserves its memory: snapshots are taken when a study settles its
    /// data, and lack later changes.
    fn keeps_data(&self, options: &Options) -> bool {
        options.text("appendonly") == "yes"
    }
}

/// Whether a server with this `INFO persistence` accepts data.
fn ready(info: &str) -> Result<(), String> {
    let loading = info.lines().find_map(|line| line.trim().strip_prefix("loading:"));
    match loading {
        Some("0") => Ok(()),
        Some(_) => Err("it still reads its files".to_owned()),
        None => Err("INFO persistence without `loading`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_reads_its_files_is_not_ready() {
        assert_eq!(ready("# Persistence\r\nloading:0\r\nasync_loading:0\r\n"), Ok(()));
        let busy = ready("# Persistence\r\nloading:1\r\nloading_start_time:1\r\n");
        assert!(busy.unwrap_err().contains("reads its files"));
        assert!(ready("# Persistence\r\n").is_err());
    }

    #[test]
    fn data_stays_over_a_restart_only_with_a_log_of_changes() {
        let options = |value: &str| {
            let given = [("appendonly".to_owned(), value.to_owned())].into();
            Options::read("redis", Redis.options(), &given).unwrap()
        };
        assert!(Redis.keeps_data(&options("yes")) && !Redis.keeps_data(&options("no")));
    }
}
