//! `loginson-lab run` and `resume`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::shown::Shown;
use super::stores::{HomeArgs, ProgramArgs};
use super::studies::expectation;
use crate::definition::{self, Study};
use crate::driver::durability::{Durability, Level};
use crate::fleet::Fleet;
use crate::generate::{GeneratorArgs, Generators};
use crate::options::OptionPairs;
use crate::plan::{Choices, Step, StoreChoice, keep_places, plan};
use crate::results::{Again, Directory, FORMAT, Run};
use crate::run::{Runner, now};
use crate::scale::Scale;
use crate::servers::{Servers, store_of};
use crate::stores;

/// The arguments of a run.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct RunArgs {
    /// A study (`loginson-lab list`), a definition of your own (./mine.toml), or a property file of
    /// YCSB (./workloada)
    pub(super) study: String,
    /// A property that overrides the YCSB file: recordcount=100000, threadcount=64
    #[arg(short = 'p', long = "property", value_name = "NAME=VALUE", value_parser = pair)]
    #[serde(default)]
    pub(super) properties: Vec<(String, String)>,
    /// Sizes of the paper, sizes for minutes on 2 cores, or sizes for seconds
    #[arg(long, value_enum, default_value = "small")]
    pub(super) scale: Scale,
    /// The stores, optionally with options of their drivers, or with several instances of their
    /// servers: postgres,cassandra+index=none,redis@host,redis@lxc [default: those of the study]
    #[arg(long, value_delimiter = ',', value_name = "STORE[@INSTANCE][+OPTION=VALUE]")]
    stores: Vec<String>,
    /// Only these experiments [default: all]
    #[arg(long, value_delimiter = ',')]
    experiments: Vec<String>,
    /// Number of repetitions [default: the number of the study]
    #[arg(long)]
    repetitions: Option<u32>,
    /// Seed of all random choices: the same seed sends the same operations
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A server that runs already; its tables are replaced: redis=db7:6379,db8:6379
    #[arg(long = "endpoint", value_name = "STORE=HOST:PORT[,…]", value_parser = pair)]
    endpoints: Vec<(String, String)>,
    /// When an acknowledged write is on disk: `each` (before it is acknowledged), `interval` or
    /// `none`, for all stores or for one: each,redis=interval; `default` for that of each store's
    /// defaults [default: the level of the study, for stores that have it]
    #[arg(long, value_delimiter = ',', value_name = "[STORE=]LEVEL")]
    #[serde(default)]
    durability: Vec<String>,
    /// An option of a server that the lab starts: cassandra.heap=2g (`loginson-lab stores options`)
    #[arg(long = "set", value_name = "STORE.OPTION=VALUE", value_parser = pair)]
    pub(super) settings: Vec<(String, String)>,
    #[command(flatten)]
    generators: GeneratorArgs,
    /// Directory for results [default: lab-results/STUDY-SCALE]
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) out: Option<PathBuf>,
    /// Leave the servers running at the end; their data is below DIRECTORY/servers
    #[arg(long)]
    keep_servers: bool,
    /// Kept, so that a run that is resumed knows them
    #[arg(skip)]
    #[serde(default)]
    pub(super) own: ProgramArgs,
}

/// The arguments of `resume`.
#[derive(Debug, Clone, Args)]
pub struct ResumeArgs {
    /// The directory of its results
    directory: PathBuf,
    /// Repeat failed trials
    #[arg(long)]
    retry_failed: bool,
    /// Make all trials of this store again, also those of a published run: kafka. The old ones are
    /// kept in DIRECTORY/replaced-STORE. If that is stopped, resume without this option
    #[arg(long, value_name = "STORE")]
    again: Option<String>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl RunArgs {
    pub(super) fn stores(&self, study: &Study) -> anyhow::Result<Vec<StoreChoice>> {
        let texts = if self.stores.is_empty() { &study.stores } else { &self.stores };
        let stores: Result<Vec<StoreChoice>, String> =
            texts.iter().map(|text| StoreChoice::parse(text)).collect();
        let stores = stores.map_err(anyhow::Error::msg)?;
        for (at, store) in stores.iter().enumerate() {
            let known = stores::find(&store.name)?;
            if known.server.is_none() && !self.external().contains_key(&store.server()) {
                bail!(
                    "the lab cannot start {0}: name a server that runs already with --endpoint {0}=HOST:PORT",
                    store.name
                );
            }
            if stores[..at].contains(store) {
                bail!("{} is named twice", store.label());
            }
        }
        Ok(stores)
    }

    fn choices(&self, study: &Study) -> anyhow::Result<Choices> {
        let known: Vec<&str> = study.experiments.iter().map(|e| &*e.name).collect();
        if let Some(name) = self.experiments.iter().find(|name| !known.contains(&&***name)) {
            bail!("{} has no experiment `{name}`; it has {}", study.name, known.join(", "));
        }
        let experiments = (!self.experiments.is_empty()).then(|| self.experiments.clone());
        let levels = self.durability(study, &self.stores(study)?)?;
        let of_driver = |level: &Level| pairs(level.driver);
        let options = levels.iter().map(|(store, level)| (store.clone(), of_driver(level)));
        Ok(Choices {
            experiments,
            repetitions: self.repetitions,
            seed: self.seed,
            options: options.collect(),
        })
    }

    /// The requested levels of durability, by store.
    fn durability(
        &self,
        study: &Study,
        stores: &[StoreChoice],
    ) -> anyhow::Result<BTreeMap<String, Level>> {
        let mut levels = BTreeMap::new();
        if self.durability.is_empty() {
            // Servers that run already keep the level that they have.
            let external = self.external();
            let ours = stores.iter().filter(|store| !external.contains_key(&store.server()));
            for store in ours {
                let kind = stores::find(&store.name).expect("checked when it was read");
                let level = study.durability.and_then(|durability| kind.level(durability));
                levels.extend(level.map(|level| (store.name.clone(), *level)));
            }
            return Ok(levels);
        }
        if self.durability == ["default"] {
            return Ok(levels);
        }
        for text in &self.durability {
            let (only, name) = match text.split_once('=') {
                Some((store, name)) => (Some(store), name),
                None => (None, text.as_str()),
            };
            let durability = Durability::named(name)
                .with_context(|| format!("--durability {text}: it takes {}", level_names()))?;
            if let Some(store) = only.filter(|store| stores.iter().all(|s| s.name != *store)) {
                bail!("--durability {text}: {store} is not measured in this run");
            }
            let wanted = |store: &&StoreChoice| only.is_none_or(|only| only == store.name);
            for store in stores.iter().filter(wanted) {
                let kind = stores::find(&store.name).expect("checked when it was read");
                let level = kind.level(durability).with_context(|| {
                    let known = kind.durability.iter().map(|level| level.durability.name());
                    let known: Vec<&str> = known.collect();
                    format!(
                        "{0} has no durability `{name}`; it has {1}: give it one with --durability {0}={2}",
                        store.name,
                        known.join(", "),
                        known.first().unwrap_or(&"LEVEL")
                    )
                });
                // The common level comes first in the list. A store that does not have it may be
                // given another one after it, so that this is no fault yet.
                let own = self
                    .durability
                    .iter()
                    .any(|text| text.split_once('=').is_some_and(|(other, _)| other == store.name));
                if only.is_some() || !own {
                    levels.insert(store.name.clone(), *level?);
                }
            }
        }
        Ok(levels)
    }

    pub(super) fn external(&self) -> BTreeMap<String, Vec<String>> {
        let split = |list: &String| list.split(',').map(str::to_owned).collect();
        self.endpoints.iter().map(|(store, list)| (store.clone(), split(list))).collect()
    }

    /// The options of servers, by the name of the servers: those of the command line for an
    /// instance, else those for the store, else those of the study for the instance, else those of
    /// the durability asked for.
    fn settings(
        &self,
        study: &Study,
        stores: &[StoreChoice],
        servers: &Servers,
    ) -> anyhow::Result<BTreeMap<String, BTreeMap<String, String>>> {
        let mut settings: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        for (name, value) in &self.settings {
            let (store, option) = name.split_once('.').with_context(|| {
                format!("--set {name}={value}: write STORE.OPTION=VALUE, as cassandra.heap=2g")
            })?;
            settings.entry(store.to_owned()).or_default().insert(option.to_owned(), value.clone());
        }
        let levels = self.durability(study, stores)?;
        let external = self.external();
        let mut seen: Vec<String> = Vec::new();
        let given = std::mem::take(&mut settings);
        for store in stores {
            let server = store.server();
            if seen.contains(&server) {
                continue;
            }
            let is_ours = !external.contains_key(&server);
            let place = seen.iter().filter(|name| store_of(name) == store.name).count();
            // The first that has an option decides.
            let instance = store.instance.as_ref().filter(|_| is_ours);
            let of_level = levels.get(&store.name).map(|level| pairs(level.server));
            let sources = [
                given.get(&server).cloned(),
                given.get(&store.name).cloned(),
                instance.and_then(|name| study.instances.get(name)).cloned(),
                of_level,
            ];
            let mut options = BTreeMap::new();
            for (option, value) in sources.into_iter().flatten().flatten() {
                options.entry(option).or_insert(value);
            }
            if is_ours {
                servers.shift_ports(&store.name, u16::try_from(place)?, &mut options)?;
            }
            if !options.is_empty() {
                settings.insert(server.clone(), options);
            }
            seen.push(server);
        }
        if let Some(name) = given.keys().find(|name| {
            stores.iter().all(|store| store.server() != **name && store.name != **name)
        }) {
            bail!("--set {name}.…: {name} is not measured in this run");
        }
        Ok(settings)
    }

    /// Refuses options that a driver or a server does not have, or whose value it does not accept:
    /// otherwise a long run would fail at its first use of them.
    fn check(&self, study: &Study, servers: &Servers) -> anyhow::Result<()> {
        let stores = self.stores(study)?;
        let (settings, external) = (self.settings(study, &stores, servers)?, self.external());
        for step in plan(study, &stores, &self.choices(study)?) {
            let mut spec = step.trial.store;
            if spec.endpoints.is_empty() {
                spec.endpoints = vec!["127.0.0.1:1".to_owned()];
            }
            stores::open(&spec)?;
        }
        for (name, given) in &settings {
            if external.contains_key(name) {
                bail!("{name} runs already: its own configuration has the options of its server");
            }
            servers.check(name, given)?;
        }
        Ok(())
    }
}

fn pairs(pairs: OptionPairs) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn level_names() -> String {
    Durability::ALL.map(Durability::name).join(", ")
}

/// The command line, without the directory of the program, which says nothing to others.
fn command() -> Vec<String> {
    let mut words: Vec<String> = std::env::args().collect();
    if let Some(program) = words.first_mut() {
        let name = Path::new(program).file_name().and_then(|name| name.to_str());
        *program = name.unwrap_or("loginson-lab").to_owned();
    }
    words
}

/// The version of this program, with the commit that it was built from.
fn version() -> String {
    match env!("LOGINSON_LAB_COMMIT") {
        "" => env!("CARGO_PKG_VERSION").to_owned(),
        commit => format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
    }
}

/// How a run ended.
pub enum Ended {
    /// Somebody stopped it before its end.
    Stopped,
    /// All trials were made; whether all of them succeeded.
    Well(bool),
}

impl Ended {
    fn is_well(&self) -> bool {
        matches!(self, Ended::Well(true))
    }
}

/// Runs a study from the beginning.
pub async fn run(args: RunArgs, own: ProgramArgs, servers: Servers) -> anyhow::Result<bool> {
    let text = definition::text(&args.study, &args.properties)?;
    let ended = begin(RunArgs { own, ..args }, text, servers, stop_on_signal()).await?;
    Ok(ended.is_well())
}

/// Runs the study of a definition from the beginning.
pub async fn begin(
    args: RunArgs,
    text: String,
    servers: Servers,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<Ended> {
    let study = Study::parse(&args.study, &text, args.scale)?;
    let out = args.out.clone().unwrap_or_else(|| {
        Path::new("lab-results").join(format!("{}-{}", study.name, args.scale.name()))
    });
    if out.join("run.json").exists() {
        bail!(
            "{0} has results already: continue that run with loginson-lab resume {0}, or name another directory with --out",
            out.display()
        );
    }
    args.check(&study, &servers)?;
    let run = Run {
        format: FORMAT,
        study: study.name.clone(),
        definition: text,
        scale: args.scale.name().to_owned(),
        seed: args.seed,
        started: now(),
        command: command(),
        lab_version: version(),
        machine: crate::measure::machine::describe(),
        stores: Vec::new(),
        trials_planned: 0,
        again: Vec::new(),
    };
    let directory = Directory::create(&out, &run)?;
    let kept = serde_json::to_string_pretty(&args)?;
    std::fs::write(arguments(&out), kept).with_context(|| arguments(&out).display().to_string())?;
    go_on(&args, directory, run, servers, stop).await
}

/// Resumes a run that was stopped.
pub async fn resume(args: ResumeArgs, home: &HomeArgs) -> anyhow::Result<bool> {
    let (directory, mut run) = Directory::open(&args.directory)?;
    if let Some(store) = &args.again {
        let moved = directory.set_aside(store)?;
        if moved == 0 {
            let known: Vec<&str> = run.stores.iter().map(|store| &*store.label).collect();
            bail!("no trial of this run is of the store {store}; it has {}", known.join(", "));
        }
        eprintln!("{moved} trials of {store} are made again; the old ones are in replaced-{store}");
        run.again.push(Again {
            store: store.clone(),
            started: now(),
            lab_version: version(),
            machine: crate::measure::machine::describe(),
        });
        directory.write_run(&run)?;
    }
    if args.retry_failed {
        let forgotten = directory.forget_failed()?;
        eprintln!("{forgotten} trials that failed are repeated");
    }
    let ended = resume_at(&args.directory, home.servers()?, stop_on_signal()).await?;
    Ok(ended.is_well())
}

/// Resumes the run of a directory.
pub async fn resume_at(
    path: &Path,
    servers: Servers,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<Ended> {
    let (directory, run) = Directory::open(path)?;
    let kept = kept_arguments(path, &run)?;
    kept.own.add().await?;
    go_on(&kept, directory, run, servers, stop).await
}

/// The arguments of a run: those that it kept, or, of a published run, those of its command line.
fn kept_arguments(directory: &Path, run: &Run) -> anyhow::Result<RunArgs> {
    let path = arguments(directory);
    match std::fs::read(&path) {
        Ok(kept) => serde_json::from_slice(&kept).with_context(|| path.display().to_string()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => super::of_run(&run.command)
            .with_context(|| {
                format!(
                    "{} is missing, and the command line in run.json is not understood",
                    path.display()
                )
            }),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

fn arguments(directory: &Path) -> PathBuf {
    directory.join("arguments.json")
}

async fn go_on(
    args: &RunArgs,
    directory: Directory,
    run: Run,
    servers: Servers,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<Ended> {
    let study = Study::parse(&run.study, &run.definition, args.scale)?;
    let stores = args.stores(&study)?;
    let mut steps = plan(&study, &stores, &args.choices(&study)?);
    keep_places(&mut steps, &directory.known()?);
    let run = Run { trials_planned: u32::try_from(steps.len())?, ..run };
    directory.write_run(&run)?;
    let mut shown = Shown::new();
    let todo: Vec<Step> = steps.iter().filter(|step| !directory.has(&step.name)).cloned().collect();
    if !todo.is_empty() {
        shown.say(&expectation(&study, &todo));
    }
    let server_files = directory.path().join("servers");
    let servers = servers.apart(&server_files)?;
    let settings = args.settings(&study, &stores, &servers)?;
    let mut fleet = Fleet::new(servers, args.external(), settings, shown.sayer());
    let generators = Generators::start(&args.generators, &args.own.programs).await?;
    let mut runner = Runner::new(&study, &directory, run, &mut fleet, &generators, stop);
    let outcome = runner.steps(&steps, &mut shown).await;
    let down = match args.keep_servers {
        true => Ok(()),
        false => fleet.down_all().await,
    };
    // The reason why the run ended is reported first: servers that cannot be stopped may be a
    // consequence.
    let tally = outcome?;
    down?;
    let at = directory.path().display();
    if tally.stopped {
        shown.say(&format!("the run was stopped; continue it with: loginson-lab resume {at}"));
        return Ok(Ended::Stopped);
    }
    if !args.keep_servers {
        remove_data(&server_files)?;
        let external = args.external();
        crate::run::forget_removed(&directory, |store| external.contains_key(store))?;
    }
    for path in crate::report::write(directory.path(), directory.path())? {
        println!("{}", path.display());
    }
    let kinds = [("note", &tally.notes), ("wrong answer", &tally.wrong), ("failed", &tally.failed)];
    for (kind, list) in kinds {
        for text in list {
            shown.say(&format!("{kind}: {text}"));
        }
    }
    if !tally.failed.is_empty() {
        shown.say(&format!("repeat the failed trials: loginson-lab resume --retry-failed {at}"));
    }
    Ok(Ended::Well(tally.wrong.is_empty() && tally.failed.is_empty()))
}

/// Removes the data of servers that are no longer needed. Their logs stay: messages of failed
/// trials name them.
fn remove_data(servers: &Path) -> anyhow::Result<()> {
    let removed = |result: std::io::Result<()>, path: &Path| match result {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| path.display().to_string())
        }
        _ => Ok(()),
    };
    let entries = match std::fs::read_dir(servers) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.with_context(|| servers.display().to_string())?,
    };
    for entry in entries {
        let store = entry.with_context(|| servers.display().to_string())?;
        if stores::find(store_of(&store.file_name().to_string_lossy())).is_err() {
            continue;
        }
        for part in ["data", "run"].map(|part| store.path().join(part)) {
            removed(std::fs::remove_dir_all(&part), &part)?;
        }
    }
    Ok(())
}

/// Becomes true at the first Ctrl-C or SIGTERM; a second one ends the program at once.
pub fn stop_on_signal() -> watch::Receiver<bool> {
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        let mut terminate = signal(SignalKind::terminate()).ok();
        loop {
            let terminated = async {
                match &mut terminate {
                    Some(terminate) => terminate.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                pressed = tokio::signal::ctrl_c() => if pressed.is_err() { return },
                _ = terminated => {}
            }
            if *sender.borrow() {
                std::process::exit(130);
            }
            eprintln!(
                "the run stops; Ctrl-C again ends the program at once and leaves servers running"
            );
            let _ = sender.send(true);
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::Home;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: RunArgs,
    }

    /// Servers that are never started.
    fn nowhere() -> Servers {
        stores::servers(Home::new(Path::new("/nowhere")).unwrap())
    }

    fn checked(arguments: &[&str]) -> Result<RunArgs, String> {
        let words = ["run", "study1", "--scale", "smoke"].iter().chain(arguments);
        let Line { args } = clap::Parser::try_parse_from(words).map_err(|e| e.to_string())?;
        let text = definition::text("study1", &[]).unwrap();
        let study = Study::parse("study1", &text, args.scale).unwrap();
        args.check(&study, &nowhere()).map_err(|e| format!("{e:#}"))?;
        Ok(args)
    }

    #[test]
    fn instances_have_options_and_ports_of_their_own() {
        let of = |sets: &[&str]| {
            let words = ["run", "containers", "--scale", "smoke"].into_iter();
            let words = words.chain(sets.iter().flat_map(|set| ["--set", set]));
            let Line { args } = clap::Parser::try_parse_from(words).unwrap();
            let text = definition::text("containers", &[]).unwrap();
            let study = Study::parse("containers", &text, args.scale).unwrap();
            let stores = args.stores(&study).unwrap();
            args.settings(&study, &stores, &nowhere()).map_err(|e| e.to_string())
        };
        let settings = of(&["cassandra.cpus=1", "cassandra@lxc.memory=1g"]).unwrap();
        let (host, lxc) = (&settings["cassandra@host"], &settings["cassandra@lxc"]);
        let value = |options: &BTreeMap<String, String>, name: &str| options.get(name).cloned();
        let both = |name: &str| [value(host, name), value(lxc, name)];
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(both("container"), [some("cgroup"), some("lxc")]);
        assert_eq!(both("cpus"), [some("1"), some("1")], "of the store, before the study's");
        assert_eq!(both("memory"), [some("3g"), some("1g")], "of the instance, before all others");
        assert_eq!(both("port"), [None, some("9142")]);
        assert_eq!(both("jmx_port"), [None, some("7299")]);
        assert!(of(&["cassandra@none.cpus=1"]).unwrap_err().contains("is not measured"));
    }

    /// Before anything is started.
    #[test]
    fn wrong_options_are_refused() {
        for (arguments, said) in [
            (&["--stores", "postgres+sync=off"][..], "there are: timeout_s"),
            (&["--stores", "cassandra+index=b"], "one of: 2i, sai, none"),
            (&["--stores", "redis", "--set", "redis.fsync=no"], "appendfsync"),
            (&["--stores", "redis", "--set", "redis.appendfsync=now"], "always, everysec, no"),
            (&["--stores", "redis", "--set", "postgres.port=7000"], "not measured"),
            (&["--stores", "loginson", "--durability", "none"], "it has each"),
            (&["--stores", "redis", "--durability", "some"], "each, interval, none"),
            (&["--stores", "redis", "--durability", "postgres=each"], "not measured"),
            (
                &["--stores", "redis", "--endpoint", "redis=db:1", "--durability", "each"],
                "its own configuration",
            ),
        ] {
            let error = checked(arguments).map(|_| ()).unwrap_err();
            assert!(error.contains(said), "{arguments:?}: {error}");
        }
    }

    /// Their trials have the names that a resumed run gives them, so that it repeats none of them.
    #[test]
    fn published_runs_can_be_resumed() {
        // The definition of logstores has what this version does not know any more.
        let name = "collectors-small";
        let folder = tempfile::tempdir().unwrap();
        for file in ["run.json", "trials.jsonl.zst"] {
            let from = Path::new("../../docs/lab").join(name).join(file);
            std::fs::copy(from, folder.path().join(file)).unwrap();
        }
        let (directory, run) = Directory::open(folder.path()).unwrap();
        let args = kept_arguments(folder.path(), &run).unwrap();
        let study = Study::parse(&run.study, &run.definition, args.scale).unwrap();
        let stores = args.stores(&study).unwrap();
        let mut steps = plan(&study, &stores, &args.choices(&study).unwrap());
        keep_places(&mut steps, &directory.known().unwrap());
        let missing = |directory: &Directory| {
            let missing = steps.iter().filter(|step| !directory.has(&step.name));
            missing.map(|step| step.trial.store.name.clone()).collect::<Vec<String>>()
        };
        assert_eq!(missing(&directory), [""; 0], "{name}");
        let moved = directory.set_aside("kafka").unwrap();
        let of_kafka = steps.iter().filter(|step| step.trial.store.name == "kafka").count();
        assert_eq!((missing(&directory).len(), moved > 0), (of_kafka, of_kafka > 0), "{name}");
        assert!(missing(&directory).iter().all(|store| store == "kafka"), "{name}");
        assert!(moved >= of_kafka, "with those that warm it up: {moved}");
        let names: Vec<String> = steps.iter().map(|step| step.name.clone()).collect();
        keep_places(&mut steps, &directory.known().unwrap());
        assert!(steps.iter().map(|step| &step.name).eq(&names), "{name}: they keep their places");
    }

    #[test]
    fn durability_is_set_for_all_stores_or_for_one() {
        let stores = ["--stores", "postgres,redis,elasticsearch"];
        let given = |durability: &str| {
            let arguments = [stores[0], stores[1], "--durability", durability];
            let args = checked(&arguments).unwrap();
            let text = definition::text("study1", &[]).unwrap();
            let study = Study::parse("study1", &text, args.scale).unwrap();
            let stores = args.stores(&study).unwrap();
            let settings = args.settings(&study, &stores, &nowhere()).unwrap();
            (settings, args.choices(&study).unwrap().options)
        };
        let (settings, options) = given("each");
        assert_eq!(settings["redis"]["appendfsync"], "always");
        assert_eq!(settings["postgres"]["fsync"], "on");
        assert_eq!(options["elasticsearch"]["translog"], "request");
        let (settings, options) = given("interval,redis=none");
        assert_eq!(settings["redis"]["appendonly"], "no");
        assert_eq!(options["postgres"]["synchronous_commit"], "off");
        // The common level is one that Elasticsearch has not.
        let arguments = [stores[0], stores[1], "--durability", "none,elasticsearch=interval"];
        assert!(checked(&arguments).is_ok());
    }
}
