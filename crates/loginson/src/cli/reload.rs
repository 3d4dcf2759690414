//! `loginson reload`: has a running server read its settings again.

use anyhow::Result;
use clap::Args;
use serde_json::Value;

use crate::cli::ServerArgs;
use crate::cli::client::Client;
use crate::cli::terminal::escaped;

#[derive(Args)]
#[command(after_help = "Examples:
  loginson check-config /etc/loginson/loginson.toml && loginson reload
  loginson reload --user admin
  systemctl reload loginson                       the same without credentials; the log says what changed

With any mistake in the file, nothing changes. Users, tokens, rules at ingest, lookups, macros, names of fields, retention and
limits of queries change at once; what changes at a restart only is named. Certificates are read by themselves, within ten
seconds after their files changed, and at the signal SIGHUP (systemctl reload), which reads programs again as well. A token or
user needs the role admin. A collector reads its file again at SIGHUP.")]
pub struct ReloadArgs {
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs the command.
pub fn run(args: &ReloadArgs) -> Result<()> {
    let answer = Client::new(&args.server)?.post_json("/api/v1/config/reload")?;
    print!("{}", told(&answer));
    Ok(())
}

fn told(answer: &Value) -> String {
    let texts = |name: &str| -> Vec<String> {
        let list = answer[name].as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter().filter_map(Value::as_str).map(escaped).collect()
    };
    let mut text: String = texts("changed").iter().map(|line| format!("{line}\n")).collect();
    if text.is_empty() {
        text.push_str("nothing changed\n");
    }
    let keys = texts("needs_restart");
    if !keys.is_empty() {
        text += &format!("changed, but only after a restart: {}\n", keys.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_changed_is_told() {
        let check = |answer: Value, expected: &str| assert_eq!(told(&answer), expected);
        check(json!({ "changed": [], "needs_restart": [] }), "nothing changed\n");
        check(
            json!({ "changed": ["user a added"], "needs_restart": ["http_listen", "data_dir"] }),
            "user a added\nchanged, but only after a restart: http_listen, data_dir\n",
        );
    }
}
