//! `loginson user` and `loginson token`: users and tokens of a running server, which keeps them in
//! its data directory. Changes are in force at once.

use std::path::PathBuf;

use anyhow::{Error, Result, anyhow};
use api::access::users::check_name;
use clap::{Args, Subcommand};
use serde_json::Value;

use crate::cli::ServerArgs;
use crate::cli::client::Client;
use crate::cli::secrets::{new_password, write_token};
use crate::cli::terminal::escaped;

#[derive(Args)]
#[command(after_help = "Examples:
  loginson user add ann --role admin        asks for the password twice, without echo
  loginson user list
  loginson user password ann
  loginson user role ann read
  loginson user restrict ann --filter '_type:=access' --hide-fields client_ip
  loginson user remove ann

Roles: ingest, read, auditor, node, operate, admin; docs/access.md. Users of the configuration file are changed there.")]
pub struct UserArgs {
    #[command(subcommand)]
    what: UserCommand,
}

#[derive(Subcommand)]
enum UserCommand {
    /// Add a user; the password is prompted for, or is the first line of standard input
    Add {
        /// Name of the user
        name: String,
        /// Role of the user
        #[arg(long)]
        role: String,
        #[command(flatten)]
        restrictions: RestrictionArgs,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Remove a user, and end the user's sessions
    Remove {
        /// Name of the user
        name: String,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Set another password, and end the user's sessions
    Password {
        /// Name of the user
        name: String,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Give a user another role
    Role {
        /// Name of the user
        name: String,
        /// The new role
        role: String,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Change which lines and fields a user of the role read sees, and limits of its queries
    Restrict {
        /// Name of the user
        name: String,
        #[command(flatten)]
        restrictions: RestrictionArgs,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// List users and their roles
    List {
        #[command(flatten)]
        server: ServerArgs,
    },
}

/// What a user or a token of the role `read` sees, and limits of its queries.
#[derive(Args)]
struct RestrictionArgs {
    /// Lines that are seen, as a filter of LogsQL; an empty one: all
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,
    /// Fields that are not seen, separated by commas; NAME* hides all that begin with a name
    #[arg(long, value_name = "NAMES")]
    hide_fields: Option<String>,
    /// Tenant whose lines are written and seen, by name or id; named: each request names one; all
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// Limit of its queries, such as queries_max=2 or run_max=10s; an empty value: the default
    #[arg(long, value_name = "NAME=VALUE", value_parser = limit)]
    limit: Vec<(String, String)>,
}

/// A limit of the command line.
fn limit(text: &str) -> Result<(String, String), String> {
    let known = || api::access::limits::NAMES.join(", ");
    match text.split_once('=') {
        Some((name, value)) if api::access::limits::NAMES.contains(&name) => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(format!("write NAME=VALUE, NAME being one of {}", known())),
    }
}

impl RestrictionArgs {
    /// The fields of a form.
    fn form(&self) -> Vec<(&str, String)> {
        let filter = self.filter.iter().map(|filter| ("filter", filter.clone()));
        let hidden = self.hide_fields.iter().map(|names| ("hide_fields", names.clone()));
        let tenant = self.tenant.iter().map(|tenant| ("tenant", tenant.clone()));
        let limits = self.limit.iter().map(|(name, value)| (name.as_str(), value.clone()));
        filter.chain(hidden).chain(tenant).chain(limits).collect()
    }
}

#[derive(Args)]
#[command(after_help = "Examples:
  loginson token add shipper --role ingest --expires 90d
  loginson token add grafana --role read --file grafana.token
  loginson token list                                 with the time of the last use
  loginson token rotate shipper --overlap 1h          a new token; the old one is valid for an hour more
  loginson token revoke shipper

A token is shown once, when it is made. Tokens of the configuration file are changed there.")]
pub struct TokenArgs {
    #[command(subcommand)]
    what: TokenCommand,
}

#[derive(Subcommand)]
enum TokenCommand {
    /// Make a token for a program
    Add {
        /// Name of the token
        name: String,
        /// Role of the token
        #[arg(long)]
        role: String,
        #[command(flatten)]
        restrictions: RestrictionArgs,
        /// Time after which it is no longer valid, such as 90d [default: never]
        #[arg(long, value_name = "DURATION")]
        expires: Option<String>,
        /// File to write the token to, instead of standard output; it must not exist yet
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Replace a token by a new one
    Rotate {
        /// Name of the token
        name: String,
        /// Time for which the old token stays valid; 0 ends it at once
        #[arg(long, value_name = "DURATION", default_value = "10m")]
        overlap: String,
        /// File to write the token to, instead of standard output; it must not exist yet
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Revoke a token at once
    Revoke {
        /// Name of the token
        name: String,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// List tokens, their roles, and when they were used last
    List {
        #[command(flatten)]
        server: ServerArgs,
    },
}

/// Runs `loginson user`.
pub fn user(args: UserArgs) -> Result<()> {
    match args.what {
        UserCommand::Add { name, role, restrictions, server } => {
            let client = Client::new(&server)?;
            let password = new_password(&format!("Password for {name}: "))?;
            let mut form = vec![("name", name.clone()), ("role", role), ("password", password)];
            form.extend(restrictions.form());
            let made = post(&client, "/api/v1/users", &form)?;
            println!("user {name} added with the role {}", text(&made["role"]));
        }
        UserCommand::Remove { name, server } => {
            Client::new(&server)?.delete_json(&path("users", &name, "")?)?;
            println!("user {name} removed");
        }
        UserCommand::Password { name, server } => {
            let (client, path) = (Client::new(&server)?, path("users", &name, "")?);
            let password = new_password(&format!("New password for {name}: "))?;
            post(&client, &path, &[("password", password)])?;
            println!("user {name} has another password");
        }
        UserCommand::Role { name, role, server } => {
            let path = path("users", &name, "")?;
            let changed = post(&Client::new(&server)?, &path, &[("role", role)])?;
            println!("user {name} has the role {}", text(&changed["role"]));
        }
        UserCommand::Restrict { name, restrictions, server } => {
            let form = restrictions.form();
            if form.is_empty() {
                return Err(anyhow!(
                    "say what changes: --filter FILTER, --hide-fields NAMES, or --limit NAME=VALUE"
                ));
            }
            post(&Client::new(&server)?, &path("users", &name, "")?, &form)?;
            println!("user {name} has other restrictions or limits from now on");
        }
        UserCommand::List { server } => {
            let listed = Client::new(&server)?.get_json("/api/v1/users")?;
            for user in listed["users"].as_array().into_iter().flatten() {
                let [name, role, from] = ["name", "role", "from"].map(|key| text(&user[key]));
                let mut shown = format!("{name:<24} {role:<8} {from:<13}");
                if let Some(sees) = restrictions(user) {
                    shown += &format!(" {sees}");
                }
                println!("{}", shown.trim_end());
            }
        }
    }
    Ok(())
}

/// Runs `loginson token`.
pub fn token(args: TokenArgs) -> Result<()> {
    match args.what {
        TokenCommand::Add { name, role, restrictions, expires, file, server } => {
            let mut form = vec![("name", name), ("role", role)];
            form.extend(expires.map(|expires| ("expires", expires)));
            form.extend(restrictions.form());
            give(&post(&Client::new(&server)?, "/api/v1/tokens", &form)?, file)
        }
        TokenCommand::Rotate { name, overlap, file, server } => {
            let path = path("tokens", &name, "/rotate")?;
            give(&post(&Client::new(&server)?, &path, &[("overlap", overlap)])?, file)
        }
        TokenCommand::Revoke { name, server } => {
            Client::new(&server)?.delete_json(&path("tokens", &name, "")?)?;
            println!("token {name} revoked");
            Ok(())
        }
        TokenCommand::List { server } => {
            let listed = Client::new(&server)?.get_json("/api/v1/tokens")?;
            for token in listed["tokens"].as_array().into_iter().flatten() {
                let [name, role, from] = ["name", "role", "from"].map(|key| text(&token[key]));
                let mut more = Vec::new();
                match token["last_used"].as_str() {
                    Some(time) => more.push(format!("used {}", escaped(time))),
                    None => more.push("never used".to_owned()),
                }
                if let Some(time) = token["expires"].as_str() {
                    let is_over = token["expired"].as_bool() == Some(true);
                    let word = if is_over { "expired" } else { "expires" };
                    more.push(format!("{word} {}", escaped(time)));
                }
                if let Some(time) = token["previous_valid_until"].as_str() {
                    more.push(format!("the one before is valid until {}", escaped(time)));
                }
                more.extend(restrictions(token));
                println!("{name:<24} {role:<8} {from:<13} {}", more.join(", "));
            }
            Ok(())
        }
    }
}

/// What a listed user or token sees, if it is restricted.
fn restrictions(listed: &Value) -> Option<String> {
    let hidden = listed["hide_fields"].as_array().into_iter().flatten().map(text);
    let hidden = hidden.collect::<Vec<_>>().join(",");
    let filter = listed["filter"].as_str().map(|filter| format!("sees {}", escaped(filter)));
    let hidden = (!hidden.is_empty()).then(|| format!("without {hidden}"));
    let tenant = listed["tenant"].as_str().map(|tenant| format!("tenant {}", escaped(tenant)));
    let all: Vec<String> = filter.into_iter().chain(hidden).chain(tenant).collect();
    (!all.is_empty()).then(|| all.join(" "))
}

/// Prints a new token, or writes it to a file.
fn give(made: &Value, file: Option<PathBuf>) -> Result<()> {
    let token = made["token"].as_str().ok_or_else(|| anyhow!("the server sent no token"))?;
    match file {
        Some(file) => write_token(&file, token)?,
        None => println!("{}", escaped(token)),
    }
    if let Some(time) = made["previous_valid_until"].as_str() {
        eprintln!("the token before is valid until {}", escaped(time));
    }
    Ok(())
}

fn post(client: &Client, path: &str, form: &[(&str, String)]) -> Result<Value> {
    match client.post_form(path, form)? {
        Ok(mut response) => Ok(serde_json::from_str(&response.body_mut().read_to_string()?)?),
        Err(refusal) => Err(anyhow!(escaped(&refusal.message()))),
    }
}

/// The path of a user or a token. Names have no characters that a path could misunderstand.
fn path(kind: &str, name: &str, call: &str) -> Result<String> {
    check_name(name).map_err(Error::msg)?;
    Ok(format!("/api/v1/{kind}/{name}{call}"))
}

fn text(value: &Value) -> String {
    escaped(value.as_str().unwrap_or_default())
}
