//! `loginson mcp`: a server of the Model Context Protocol on standard input and output, by which
//! assistants ask a running Loginson.
//!
//! `session` speaks the protocol, `tools` is the table of what can be asked, `ask` runs queries and
//! bounds their answers, `compare` has the two tools that compute times by themselves.
//!
//! Invariants: no tool changes anything, because each of them only sends calls that the role `read`
//! covers; a call that is cancelled closes its connection, which cancels its queries; every answer
//! is bounded. Text of logs is data: it stands in a block of its own, behind the block in which
//! Loginson says what it is. Left out: HTTP as a transport, prompts, and the protocol without a
//! handshake of 2026, which clients leave by themselves when it is refused.

mod ask;
mod compare;
mod session;
mod tools;

use std::io::{self, BufRead, BufReader};

use anyhow::{Result, ensure};
use clap::Args;

use crate::cli::ServerArgs;
use crate::cli::client::{Client, explain_query_refusal};
use ask::Ask;
use session::{Cancel, Server};

#[derive(Args)]
#[command(after_help = "Examples:
  claude mcp add loginson -- loginson mcp --server http://127.0.0.1:9514
  loginson mcp --server https://logs.example.org --token-file ~/.config/loginson/token

An assistant starts this command by itself, speaks to it by standard input and output, and can only
read. docs/mcp.md has the settings of Claude Desktop, Cursor and VS Code.")]
pub struct McpArgs {
    #[command(flatten)]
    server: ServerArgs,
}

/// Serves the client at standard input until that ends.
pub fn run(args: McpArgs) -> Result<()> {
    let has_password = std::env::var_os("LOGINSON_PASSWORD").is_some_and(|text| !text.is_empty());
    ensure!(
        args.server.user.is_none() || has_password,
        "standard input belongs to the assistant, so the password cannot be asked for there: set LOGINSON_PASSWORD, or \
         better give a token of the role read with --token-file"
    );
    let running = Running { client: Client::new(&args.server)? };
    session::serve(io::stdin().lock(), io::stdout(), running)?;
    Ok(())
}

/// A running Loginson.
struct Running {
    client: Client,
}

impl Server for Running {
    fn asker(&self, cancel: &Cancel) -> Box<dyn Ask> {
        let client = self.client.apart();
        let ended = client.clone();
        cancel.end_by(move || ended.shut_down());
        Box::new(client)
    }
}

impl Ask for Client {
    fn ask(&self, path: &str, form: &[(&str, String)]) -> Result<Box<dyn BufRead>, String> {
        let answer = if path.starts_with("/api/") {
            let params: Vec<_> = form.iter().map(|(name, text)| (*name, text.as_str())).collect();
            self.get(path, &params)
        } else {
            self.post_form(path, form)
        };
        match answer.map_err(|error| format!("{error:#}"))? {
            Ok(response) => Ok(Box::new(BufReader::new(response.into_body().into_reader()))),
            Err(refusal) => Err(match refusal.status {
                401 => format!(
                    "{}; whoever set up this MCP server has to give it a token of the role read: --token-file FILE, or \
                     LOGINSON_TOKEN in its environment",
                    refusal.message()
                ),
                _ => explain_query_refusal(&refusal).to_string(),
            }),
        }
    }
}
