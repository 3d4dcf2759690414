//! `loginson-lab sizes`: the queries of a study on several amounts of lines, one run after another,
//! each with the memory of the servers limited to the same share of its lines.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;

use super::run::{Ended, RunArgs, begin, resume_at, stop_on_signal};
use super::stores::{HomeArgs, ProgramArgs};
use crate::definition::sized::amount;
use crate::definition::{self, Study};
use crate::options::Known;
use crate::report::sizes::{Asked, Prices, write};
use crate::stores;

/// The fewest amounts: two are always on a line.
const AMOUNTS_MIN: usize = 3;

/// Bytes of a mebibyte.
const MIB: u64 = 1 << 20;

/// Options of servers that bound their memory: none may have more than its part of the limit.
const BOUNDS: [(&str, u64); 5] =
    [("heap", 2), ("direct", 4), ("memory_mb", 2), ("cache_bytes_max", 4), ("memory_bytes_max", 4)];

/// The arguments.
#[derive(Debug, Clone, Args)]
pub struct SizesArgs {
    #[command(flatten)]
    run: RunArgs,
    /// The amounts of lines, at least three
    #[arg(long, value_delimiter = ',', default_value = "1gb,4gb,16gb", value_parser = bytes)]
    amounts: Vec<u64>,
    /// The memory of each store, with the page cache, as a share of the lines; 0 for no limit.
    /// Limits need root
    #[arg(long, default_value_t = 0.25, value_name = "SHARE")]
    memory_share: f64,
    /// The least memory: with less some stores do not start
    #[arg(long, default_value = "512mb", value_parser = bytes)]
    memory_min: u64,
    /// The amount to carry the times on to, such as a month of lines
    #[arg(long, default_value = "1000gb", value_parser = bytes)]
    carry_to: u64,
    /// The price of a processor for an hour
    #[arg(long, requires_all = ["disk_price", "memory_price"])]
    processor_price: Option<f64>,
    /// The price of a gigabyte of disk for a month
    #[arg(long, requires = "processor_price")]
    disk_price: Option<f64>,
    /// The price of a gigabyte of memory for a month
    #[arg(long, requires = "processor_price")]
    memory_price: Option<f64>,
}

fn bytes(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let split = lower.strip_suffix("gb").map(|number| (number, 1_000_000_000));
    let split = split.or(lower.strip_suffix("mb").map(|number| (number, 1_000_000)));
    split
        .and_then(|(number, unit)| number.parse::<u64>().ok()?.checked_mul(unit))
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| {
            format!("`{text}` is no amount: write megabytes or gigabytes, as 500mb or 4gb")
        })
}

/// Runs what was not run yet, and writes the report over all amounts. Returns whether everything
/// succeeded.
pub async fn run(args: SizesArgs, own: ProgramArgs, home: &HomeArgs) -> anyhow::Result<bool> {
    let mut amounts = args.amounts.clone();
    amounts.sort_unstable();
    amounts.dedup();
    if amounts.len() < AMOUNTS_MIN {
        bail!(
            "--amounts: it takes {AMOUNTS_MIN} different ones at least: two are always on a line"
        );
    }
    if !(0.0..=4.0).contains(&args.memory_share) {
        bail!("--memory-share {}: it takes 0 to 4 times the lines", args.memory_share);
    }
    let text = definition::text(&args.run.study, &args.run.properties)?;
    let study = Study::parse(&args.run.study, &text, args.run.scale)?;
    let out = args.run.out.clone().unwrap_or_else(|| {
        let name = format!("{}-{}-sizes", study.name, args.run.scale.name());
        Path::new("lab-results").join(name)
    });
    let stop = stop_on_signal();
    let (mut directories, mut is_well) = (Vec::new(), true);
    for bytes in amounts {
        let directory = out.join(amount(bytes));
        let servers = home.servers()?;
        let ended = match directory.join("run.json").exists() {
            true => resume_at(&directory, servers, stop.clone()).await?,
            false => {
                let sized = study.sized(bytes)?;
                let mut run = limited(&args, &study, bytes, &directory)?;
                run.own = own.clone();
                let text = toml::to_string(&sized).context("a study is made of what TOML has")?;
                begin(run, text, servers, stop.clone()).await?
            }
        };
        match ended {
            Ended::Stopped => {
                eprintln!("continue with the same command, which resumes what was stopped");
                return Ok(false);
            }
            Ended::Well(well) => is_well &= well,
        }
        directories.push(directory);
    }
    let asked = Asked {
        bytes: args.carry_to as f64,
        memory_share: args.memory_share,
        prices: args.prices(),
    };
    for path in write(&directories, &asked, &out)? {
        println!("{}", path.display());
    }
    Ok(is_well)
}

impl SizesArgs {
    fn prices(&self) -> Option<Prices> {
        Some(Prices {
            processor_hour: self.processor_price?,
            disk_gigabyte_month: self.disk_price?,
            memory_gigabyte_month: self.memory_price?,
        })
    }
}

/// The arguments of the run on `bytes` of lines.
fn limited(
    args: &SizesArgs,
    study: &Study,
    bytes: u64,
    directory: &Path,
) -> anyhow::Result<RunArgs> {
    let mut run = args.run.clone();
    run.out = Some(PathBuf::from(directory));
    if args.memory_share == 0.0 {
        return Ok(run);
    }
    let memory = ((bytes as f64 * args.memory_share) as u64).max(args.memory_min);
    let external = run.external();
    for store in run.stores(study)? {
        let server = stores::find(&store.name)?.server;
        let Some(server) = server.filter(|_| !external.contains_key(&store.server())) else {
            continue;
        };
        let mut options =
            vec![("container", "cgroup".to_owned()), ("memory", format!("{}m", memory / MIB))];
        options.extend(bounds(server.options(), memory));
        for (option, value) in options {
            let given =
                [format!("{}.{option}", store.server()), format!("{}.{option}", store.name)];
            if !run.settings.iter().any(|(name, _)| given.contains(name)) {
                let [of_server, _] = given;
                run.settings.push((of_server, value));
            }
        }
    }
    Ok(run)
}

/// The options that must be smaller than their defaults to fit into this memory.
fn bounds(known: &[Known], memory: u64) -> Vec<(&'static str, String)> {
    let bound = |option: &Known| {
        let (_, part) = BOUNDS.iter().find(|(name, _)| *name == option.name)?;
        let number = option.default.trim_end_matches(|c: char| !c.is_ascii_digit());
        let unit = &option.default[number.len()..];
        let default = number.parse::<u64>().ok()?;
        let mebibytes = if ["g", "GiB"].contains(&unit) { default * 1024 } else { default };
        let most = (memory / MIB / part).max(1);
        let unit = if unit == "GiB" {
            "MiB"
        } else if unit == "g" {
            "m"
        } else {
            unit
        };
        (mebibytes > most).then(|| (option.name, format!("{most}{unit}")))
    };
    known.iter().filter_map(bound).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::Scale;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: SizesArgs,
    }

    fn parsed(words: &[&str]) -> Result<SizesArgs, String> {
        let words = ["sizes", "logstores"].iter().chain(words);
        clap::Parser::try_parse_from(words).map(|Line { args }| args).map_err(|e| e.to_string())
    }

    #[test]
    fn memory_is_a_share_of_the_lines_and_options_fit_into_it() {
        let text = definition::text("logstores", &[]).unwrap();
        let study = Study::parse("logstores", &text, Scale::Small).unwrap();
        let settings = |words: &[&str], bytes: u64| {
            let run = limited(&parsed(words).unwrap(), &study, bytes, Path::new("/x")).unwrap();
            run.settings.into_iter().collect::<std::collections::BTreeMap<String, String>>()
        };
        let of = settings(&["--stores", "elasticsearch,loginson,files"], 4_000_000_000);
        assert_eq!(of["files.memory"], "953m");
        assert_eq!(of["files.container"], "cgroup");
        assert_eq!(of["elasticsearch.heap"], "476m");
        assert_eq!(of["loginson.cache_bytes_max"], "238MiB");
        let of = settings(&["--stores", "elasticsearch", "--set", "elasticsearch.heap=300m"], 1);
        assert_eq!(
            (of["elasticsearch.memory"].as_str(), of["elasticsearch.heap"].as_str()),
            ("488m", "300m")
        );
        let of = settings(&["--stores", "loginson"], 64_000_000_000);
        assert_eq!(of.get("loginson.cache_bytes_max"), None, "the default is small enough");
        assert!(settings(&["--memory-share", "0"], 1_000_000_000).is_empty());
    }

    #[test]
    fn wrong_amounts_are_refused() {
        assert_eq!(bytes("500mb"), Ok(500_000_000));
        for wrong in ["4", "x gb", "0gb", "99999999999999gb"] {
            assert!(bytes(wrong).unwrap_err().contains("as 500mb"), "{wrong}");
        }
        assert!(parsed(&["--processor-price", "1"]).unwrap_err().contains("disk-price"));
    }
}
