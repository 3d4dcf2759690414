//! `loginson-lab stores …`: the commands for servers.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};

use crate::measure::directory_bytes;
use crate::options::Known;
use crate::servers::{Home, Logs, Say, Servers, isolation};
use crate::stores;

/// The directory of servers, for all commands that use them.
#[derive(Debug, Clone, Args)]
pub struct HomeArgs {
    /// Directory of the servers: their software, data and logs [default: ~/.cache/loginson-lab]
    #[arg(long, env = "LOGINSON_LAB_HOME", value_name = "DIRECTORY", global = true)]
    pub home: Option<PathBuf>,
}

impl HomeArgs {
    /// The servers in the given directory, or in the default one.
    pub fn servers(&self) -> anyhow::Result<Servers> {
        let home = match &self.home {
            Some(path) => Home::new(path).with_context(|| path.display().to_string()),
            None => Home::usual().context(
                "there is no home directory; name a directory for servers with --home DIRECTORY",
            ),
        };
        Ok(stores::servers(home?))
    }
}

/// The stores of the user's own, for all commands that use stores.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
pub struct ProgramArgs {
    /// A store of your own: its name, and the program that knows it (docs/lab/own-store.md)
    #[arg(long = "program", value_name = "NAME=PROGRAM", global = true)]
    #[serde(default)]
    pub programs: Vec<String>,
}

impl ProgramArgs {
    /// Makes the stores known to this process.
    pub async fn add(&self) -> anyhow::Result<()> {
        for text in &self.programs {
            stores::add(text).await.map_err(anyhow::Error::msg)?;
        }
        Ok(())
    }
}

/// Settings of a server.
#[derive(Debug, Clone, Args)]
pub struct StoreArgs {
    /// The store
    pub name: String,
    /// An option of the server; `loginson-lab stores options` lists them
    #[arg(long = "set", value_name = "OPTION=VALUE", value_parser = pair)]
    pub set: Vec<(String, String)>,
}

impl StoreArgs {
    fn options(&self) -> BTreeMap<String, String> {
        self.set.iter().cloned().collect()
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write OPTION=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// `loginson-lab stores`.
#[derive(Debug, Clone, Subcommand)]
pub enum StoresCommand {
    /// Install the software of a store
    Install {
        /// The store
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Start a store on loopback, and wait until it answers
    Start {
        /// The store
        #[command(flatten)]
        store: StoreArgs,
        /// Number of nodes of its cluster, or of independent servers if it has no clusters
        #[arg(long, default_value_t = 1)]
        nodes: u32,
    },
    /// Stop a store; its data stays
    Stop {
        /// The store
        name: String,
    },
    /// Show the running stores
    Status,
    /// Stop a store and remove its data and logs; the software stays
    Wipe {
        /// The store
        name: String,
    },
    /// List all options of all servers
    Options,
}

/// Runs the command.
pub async fn run(command: StoresCommand, servers: &Servers) -> anyhow::Result<()> {
    match command {
        StoresCommand::Install { store } => {
            let shown = Shown::new(&store.name);
            servers.install(&store.name, &store.options(), &shown.say).await?;
            shown.end("is installed");
        }
        StoresCommand::Start { store, nodes } => {
            let shown = Shown::new(&store.name);
            let running = servers.start(&store.name, nodes, &store.options(), &shown.say).await?;
            shown.end(&format!("answers at {}", running.spec().endpoints.join(", ")));
        }
        StoresCommand::Stop { name } => {
            let shown = Shown::new(&name);
            servers.stop(&name, &shown.say).await?;
            shown.end("does not run");
        }
        StoresCommand::Wipe { name } => {
            let shown = Shown::new(&name);
            servers.wipe(&name, Logs::Remove, &shown.say).await?;
            shown.end("has no data; the software stays");
        }
        StoresCommand::Status => status(servers)?,
        StoresCommand::Options => options(servers)?,
    }
    Ok(())
}

fn status(servers: &Servers) -> anyhow::Result<()> {
    for name in servers.names() {
        let Some(running) = servers.running(name)? else {
            println!("{name}: does not run");
            continue;
        };
        for (node, process) in &running.nodes {
            let disk_mib = directory_bytes(&node.data).unwrap_or(0) >> 20;
            let endpoint = match &*node.endpoint {
                "" => "for its nodes",
                endpoint => endpoint,
            };
            println!("{}: {endpoint}, pid {}, {disk_mib} MiB on disk", node.name, process.pid);
        }
    }
    Ok(())
}

fn options(servers: &Servers) -> anyhow::Result<()> {
    let list = |options: &[Known]| {
        for option in options {
            println!("    {}={}  {}", option.name, option.default, option.help);
        }
    };
    println!("options of servers, given with --set STORE.OPTION=VALUE\n\nevery store");
    list(isolation::OPTIONS);
    for name in servers.names() {
        println!("{name}");
        list(servers.find(name)?.options());
    }
    println!("\noptions of drivers, given behind the name of a store, as STORE+OPTION=VALUE\n");
    for store in stores::all().iter().filter(|store| !store.options.is_empty()) {
        println!("{}", store.name);
        list(store.options);
    }
    Ok(())
}

/// Shows progress, in one line that changes on a terminal, and as lines elsewhere.
struct Shown {
    name: String,
    bar: Option<ProgressBar>,
    say: Say,
}

impl Shown {
    fn new(name: &str) -> Shown {
        let bar = std::io::stderr().is_terminal().then(ProgressBar::new_spinner);
        if let Some(bar) = &bar {
            bar.enable_steady_tick(std::time::Duration::from_millis(100));
        }
        let (to, prefix) = (bar.clone(), name.to_owned());
        let say: Say = Arc::new(move |line| match &to {
            Some(bar) => bar.set_message(format!("{prefix}: {line}")),
            None => eprintln!("{prefix}: {line}"),
        });
        Shown { name: name.to_owned(), bar, say }
    }

    fn end(&self, line: &str) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        println!("{}: {line}", self.name);
    }
}
