//! `loginson cluster follow` and `promote`: a second region of a cluster.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use clap::Args;
use text::size::show_bytes;

use crate::cli::terminal::escaped;
use crate::settings::Settings;
use node::cluster::engines::EngineOptions;
use node::cluster::follow::{self, FollowOptions, Follower, Promotion, Round};

#[derive(Args)]
pub struct Follow {
    /// Configuration of this region: [cluster] with its bucket and its database, and
    /// [cluster.follows] with those of the other one
    #[arg(long, value_name = "FILE.toml", env = "LOGINSON_CONFIG")]
    config: PathBuf,
    /// Copy once, and end
    #[arg(long)]
    once: bool,
}

#[derive(Args)]
pub struct Promote {
    /// Configuration of this region, as for `follow`
    #[arg(long, value_name = "FILE.toml", env = "LOGINSON_CONFIG")]
    config: PathBuf,
    /// The other region, or one of its engines, cannot be reached, and never will be: what it
    /// published last is lost
    #[arg(long)]
    first_is_lost: bool,
    /// cluster.kafka is the Kafka of the other region, with its messages
    #[arg(long)]
    same_kafka: bool,
}

fn options(file: &Path) -> Result<(EngineOptions, FollowOptions)> {
    let config = Settings::new(Some(file.to_owned()), |_| {}).load()?.config;
    let engines = config.node.engines.with_context(|| {
        format!("{} has no [cluster] that names a bucket and a database", file.display())
    })?;
    let follows = engines.follows.clone().with_context(|| {
        format!(
            "{} has no [cluster.follows] that names the bucket and the database of the other region",
            file.display()
        )
    })?;
    Ok((engines, follows))
}

/// Copies another region into this one: once, or until the process is ended.
pub fn follow(args: &Follow) -> Result<()> {
    let (engines, follows) = options(&args.config)?;
    let follower = Follower::open(&engines, &follows);
    if args.once {
        say(&follower?.round(&AtomicBool::new(false))?);
        return Ok(());
    }
    // Settings that are wrong end it; an engine that does not answer later does not.
    let follower = follower?;
    let mut said = String::new();
    let mut missing = 0;
    loop {
        match follower.round(&AtomicBool::new(false)) {
            Ok(round) => {
                said.clear();
                if round.copied + round.deleted > 0 || round.missing != missing {
                    say(&round);
                }
                missing = round.missing;
            }
            Err(error) => {
                let error = format!("{error:#}");
                if said != error {
                    eprintln!("{}; it is tried again", escaped(&error));
                    said = error;
                }
            }
        }
        std::thread::sleep(follower.every());
    }
}

fn say(round: &Round) {
    let Round { copied, bytes, missing, deleted, at_ns } = round;
    let lost = match missing {
        0 => String::new(),
        _ => format!(", {missing} are missing in both regions and are looked for again"),
    };
    println!(
        "as of {}: {copied} segments with {} copied, {deleted} deleted{lost}",
        text::time::format_time(*at_ns),
        show_bytes(*bytes)
    );
}

/// Has this region go on in the place of the other one.
pub fn promote(args: &Promote) -> Result<()> {
    let (engines, follows) = options(&args.config)?;
    let promotion = Promotion { is_first_lost: args.first_is_lost, is_same_log: args.same_kafka };
    let promoted = follow::promote(&engines, &follows, promotion)?;
    let at = text::time::format_time(promoted.at_ns);
    let but = match promoted.missing.len() {
        0 => String::new(),
        count => format!(", but for {count} segments whose objects are missing"),
    };
    match promoted.is_last {
        true if promoted.is_whole() => {
            println!("this region has everything that the other one published, up to {at}");
        }
        true => println!("this region has what the other one published, up to {at}{but}"),
        false => println!(
            "this region has what the other one had published by {at}{but}; what it published after that is not here"
        ),
    }
    for name in &promoted.missing {
        println!("missing: {}", escaped(name));
    }
    if !promoted.missing.is_empty() {
        println!(
            "queries say that these are missing; an object that is found again is read once it is in the bucket of this \
             region under its name"
        );
    }
    match args.same_kafka {
        true => println!("what is in Kafka and was not published is read on from there"),
        false => println!(
            "what the Kafka of the other region had and was not published is not here; spools of collectors have \
             what it did not take"
        ),
    }
    println!("start stores here with this configuration, and send collectors to this Kafka");
    Ok(())
}
