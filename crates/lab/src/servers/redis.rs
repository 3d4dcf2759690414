//! Redis, as the system packages it. Several nodes are servers that know nothing of each other: the driver's shards.

use std::net::{Ipv4Addr, SocketAddr};

use async_trait::async_trait;

use super::{Launch, Node, Say, Server, ServerError, Site, debian};
use crate::options::{Known, Options};

pub(super) struct Redis;

#[async_trait]
impl Server for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn options(&self) -> &'static [Known] {
        &[
            Known { name: "port", default: "16379", help: "of the first node; the others follow" },
            Known {
                name: "maxmemory",
                default: "1gb",
                help: "data of each node; beyond it inserts are refused",
            },
            Known {
                name: "appendonly",
                default: "no",
                help: "yes keeps a log of all changes on disk",
            },
            Known {
                name: "appendfsync",
                default: "everysec",
                help: "when that log is on disk: always, everysec or no",
            },
        ]
    }

    fn install(&self, site: &Site, _: &Options, say: &Say) -> Result<(), ServerError> {
        match debian::program("redis-server") {
            Some(_) => Ok(()),
            None => debian::install(site, &["redis-server"], say),
        }
    }

    fn nodes(&self, site: &Site, options: &Options, nodes: u32) -> Result<Vec<Node>, ServerError> {
        let first = options.number("port", 1024, u16::MAX - nodes as u16)?;
        options.choice("appendonly", &["yes", "no"])?;
        options.choice("appendfsync", &["always", "everysec", "no"])?;
        // No snapshots while it is measured: the driver asks for one where a study does.
        let mut settings = vec![("save", ""), ("maxmemory-policy", "noeviction")];
        let given = ["maxmemory", "appendonly", "appendfsync"];
        settings.extend(given.iter().map(|name| (*name, options.text(name))));
        let node = |index: u32| {
            let port = first + index as u16;
            let name = format!("redis{}", index + 1);
            let data = site.data.join(&name);
            let fixed = [
                ("port", port.to_string()),
                ("bind", Ipv4Addr::LOCALHOST.to_string()),
                ("dir", data.display().to_string()),
                ("daemonize", "no".to_owned()),
            ];
            let chosen = settings.iter().map(|(name, value)| (*name, (*value).to_owned()));
            let pairs = fixed.into_iter().chain(chosen);
            let arguments = pairs.flat_map(|(name, value)| [format!("--{name}"), value]);
            Node {
                endpoint: format!("127.0.0.1:{port}"),
                listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port))],
                files: Vec::new(),
                launch: Launch::new("redis-server", arguments),
                configuration: settings
                    .iter()
                    .map(|(name, value)| format!("{name} {value:?}"))
                    .collect(),
                name,
                data,
            }
        };
        Ok((0..nodes).map(node).collect())
    }

    async fn answers(&self, node: &Node, _: &[Node]) -> Result<(), String> {
        // It refuses this while it reads its files.
        super::driver_answers(self.name(), node).await
    }
}
