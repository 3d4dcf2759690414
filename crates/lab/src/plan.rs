//! Plans the trials of a run from a study, in the order of execution.
//!
//! Stores take turns: the first repetition of every store precedes the second of any, each
//! repetition begins with another store, and even ones go backwards, so that changes of the machine
//! over an hour affect all of them, and no store always follows the same one. Experiments follow
//! each other; where the study starts the servers again for each repetition, a repetition has all
//! experiments instead. The plan depends only on its arguments: a resumed run has the same plan.

use std::collections::{BTreeMap, BTreeSet};

use crate::definition::{Dataset, Experiment, Fill, Study};
use crate::driver::{Ability, StoreSpec};
use crate::row::Schema;
use crate::trial::{Role, Share, Trial, WARM_UP_S_MAX, Work};

/// How long the servers of a store take to start, about, s.
const START_S: f64 = 10.0;

/// How long the answers of a trial are checked behind it, about, s.
const CHECK_S: f64 = 2.0;

/// How long the limit of the generator is measured, about, s.
const LIMIT_S: f64 = 3.0;

/// How long a trial takes that only its operations end, about, s.
const UNLIMITED_S: f64 = 10.0;

/// Records that stores load in a second, about.
const LOADED_PER_S: f64 = 10_000.0;

/// A store of a run, before it is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreChoice {
    /// Name of the driver.
    pub name: String,
    /// The instance of its servers, if it has several in the run.
    pub instance: Option<String>,
    /// Options of the driver.
    pub options: BTreeMap<String, String>,
}

impl StoreChoice {
    /// Parses `cassandra`, `cassandra+index=none+consistency=quorum`, or, for one of several
    /// instances of the servers, `cassandra@lxc+index=none`.
    pub fn parse(text: &str) -> Result<StoreChoice, String> {
        let mut parts = text.split('+');
        let server = parts.next().unwrap_or_default();
        let (name, instance) = match server.split_once('@') {
            None => (server, None),
            Some((name, instance)) => (name, Some(instance.to_owned())),
        };
        let plain = |name: &str| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        };
        if let Some(instance) = instance.as_ref().filter(|instance| !plain(instance)) {
            return Err(format!(
                "`{instance}` in `{text}` is no name of an instance; it has small letters and digits, as cassandra@lxc"
            ));
        }
        let name = name.to_owned();
        let mut options = BTreeMap::new();
        for part in parts {
            let (option, value) = part.split_once('=').ok_or_else(|| {
                format!(
                    "`{part}` in `{text}` is no option; write STORE+OPTION=VALUE, as cassandra+index=none"
                )
            })?;
            options.insert(option.to_owned(), value.to_owned());
        }
        Ok(StoreChoice { name, instance, options })
    }

    /// The name of its servers: that of the driver, with the instance.
    pub fn server(&self) -> String {
        let instance = self.instance.as_ref().map(|instance| format!("@{instance}"));
        self.name.clone() + &instance.unwrap_or_default()
    }

    /// Its label in reports.
    pub fn label(&self) -> String {
        let options = self.options.iter().map(|(option, value)| format!(" {option}={value}"));
        self.server() + &options.collect::<String>()
    }
}

/// One step of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Name of its file; begins with its position.
    pub name: String,
    /// Its position in the run, from 1.
    pub order: u32,
    /// The trial. Endpoints are filled in when the store runs.
    pub trial: Trial,
    /// The data set it needs.
    pub dataset: String,
    /// Whether the data set is created again for it.
    pub fresh: bool,
    /// The target rate is this share of the rate that its store reached in another experiment.
    pub share_of: Option<(String, f64)>,
    /// Pause before it, s.
    pub rest_s: f64,
    /// Whether the servers of its store are started again for it.
    pub restart: bool,
}

/// Restrictions and changes of a study.
#[derive(Debug, Clone, Default)]
pub struct Choices {
    /// Limits it to these experiments.
    pub experiments: Option<Vec<String>>,
    /// Number of repetitions, instead of that of the study.
    pub repetitions: Option<u32>,
    /// The seed of all random choices.
    pub seed: u64,
    /// Options of drivers in all experiments, by store; those of a store's choice override them.
    pub options: BTreeMap<String, BTreeMap<String, String>>,
}

/// All steps of a run.
pub fn plan(study: &Study, stores: &[StoreChoice], choices: &Choices) -> Vec<Step> {
    let mut steps = Vec::new();
    let wanted = |experiment: &&Experiment| {
        choices.experiments.as_ref().is_none_or(|names| names.contains(&experiment.name))
    };
    let mut sizes: Vec<u32> =
        study.experiments.iter().filter(wanted).flat_map(|e| e.nodes.clone()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    // Another cluster size requires a restart of the servers, so all trials with one size are done
    // together.
    for nodes in sizes {
        let begin = steps.len();
        for experiment in study.experiments.iter().filter(wanted) {
            if experiment.nodes.contains(&nodes) {
                add(study, experiment, nodes, stores, choices, &mut steps);
            }
        }
        if study.restart_servers {
            by_repetition(&mut steps[begin..]);
        }
    }
    for (at, step) in steps.iter_mut().enumerate() {
        step.order = u32::try_from(at + 1).expect("a study has fewer steps");
        step.name = format!("{:04}-{}", step.order, step.name);
    }
    steps
}

/// Gives steps the names and places of `known` trials of the same work: earlier versions planned
/// trials of the generator's limit too, so that places differ.
pub fn keep_places(steps: &mut [Step], known: &[String]) {
    let parts = known.iter().filter_map(|name| {
        let (place, work) = name.split_once('-')?;
        Some((work, (name, place.parse().ok()?)))
    });
    let parts: BTreeMap<&str, (&String, u32)> = parts.collect();
    for step in steps {
        let work = step.name.split_once('-').map_or("", |(_, work)| work);
        if let Some((name, order)) = parts.get(work) {
            (step.name, step.order) = ((*name).clone(), *order);
        }
    }
}

/// Puts all experiments of a repetition together, with new processes of each server at its
/// beginning.
fn by_repetition(steps: &mut [Step]) {
    // The sort is stable: within a repetition, experiments and stores keep their order.
    steps.sort_by_key(|step| step.trial.repetition);
    let mut begun = BTreeSet::new();
    for step in steps {
        let server = step.trial.store.server().to_owned();
        step.restart = begun.insert((step.trial.repetition, server));
    }
}

fn add(
    study: &Study,
    experiment: &Experiment,
    nodes: u32,
    stores: &[StoreChoice],
    choices: &Choices,
    steps: &mut Vec<Step>,
) {
    let dataset = study.dataset(&experiment.dataset).expect("checked when it was read");
    let (schema, options) = (study.schema(dataset), &choices.options);
    let maker = Maker { experiment, dataset, schema, nodes, options };
    let named = |store: &StoreChoice| {
        experiment.stores.as_ref().is_none_or(|names| names.contains(&store.name))
            && !experiment.without.contains(&store.name)
    };
    let stores: Vec<&StoreChoice> = stores.iter().filter(|store| named(store)).collect();
    if stores.is_empty() {
        return;
    }
    for repetition in 1..=choices.repetitions.unwrap_or(experiment.repetitions) {
        for (rate_at, rate) in (0..).zip(maker.rates()) {
            // The same operations for every store, others in each repetition and at each rate: an
            // update that writes what the trial before it wrote would change nothing.
            let seed = (rate_at << 32) + u64::from(repetition);
            let seed = choices.seed.wrapping_mul(1_000_003).wrapping_add(seed);
            let (first, all) = (repetition as usize - 1, stores.len());
            for turn in 0..all {
                // Backwards in even repetitions: what a store still does behind its trial does
                // not always meet the same next one.
                let turn = if repetition % 2 == 0 { all - turn % all } else { turn };
                let store = stores[(first + turn) % all];
                steps.push(maker.step(store, rate.clone(), repetition, seed));
            }
        }
    }
}

/// A rate at which an experiment is made.
#[derive(Debug, Clone)]
enum Rate {
    Free,
    Target(f64),
    Share(String, f64),
}

struct Maker<'a> {
    experiment: &'a Experiment,
    dataset: &'a Dataset,
    schema: Schema,
    nodes: u32,
    options: &'a BTreeMap<String, BTreeMap<String, String>>,
}

impl Maker<'_> {
    fn rates(&self) -> Vec<Rate> {
        if let Some(of) = &self.experiment.shares_of {
            let share = |share: &f64| Rate::Share(of.experiment.clone(), *share);
            return of.shares.iter().map(share).collect();
        }
        match &self.experiment.targets_per_s[..] {
            [] => vec![Rate::Free],
            targets => targets.iter().map(|target| Rate::Target(*target)).collect(),
        }
    }

    fn step(&self, store: &StoreChoice, rate: Rate, repetition: u32, seed: u64) -> Step {
        let mut work = match (&self.experiment.workload, &self.experiment.load) {
            (Some(workload), Some(load)) => {
                Work::Load { workload: workload.clone(), load: load.clone() }
            }
            _ => {
                let real_time = self.experiment.real_time.clone();
                Work::RealTime(real_time.expect("checked when it was read"))
            }
        };
        let mut name = format!("{}-{}-n{}", self.experiment.name, file_name(store), self.nodes);
        let mut share_of = None;
        match rate {
            Rate::Free => {}
            Rate::Target(target) => {
                if let Work::Load { load, .. } = &mut work {
                    load.target_per_s = Some(target);
                }
                name += &format!("-t{target}");
            }
            Rate::Share(base, share) => {
                name += &format!("-s{:.0}", share * 100.0);
                share_of = Some((base, share));
            }
        }
        let mut trial = self.trial(store, work, repetition, seed);
        trial.target_share = share_of.as_ref().map(|(_, share)| *share);
        self.wrap(format!("{name}-r{repetition:02}"), trial, share_of)
    }

    fn trial(&self, store: &StoreChoice, work: Work, repetition: u32, seed: u64) -> Trial {
        let mut schema = self.schema.clone();
        let of = |options: &BTreeMap<String, BTreeMap<String, String>>| {
            options.get(&store.name).cloned().unwrap_or_default()
        };
        let shared = of(&self.experiment.options).into_iter().chain(of(self.options));
        let used =
            StoreChoice { options: shared.chain(store.options.clone()).collect(), ..store.clone() };
        if !used.options.is_empty() && !work.needs().contains(&Ability::Stream) {
            // Variants of one store are measured in turn on the same servers: each has tables of
            // its own. Lines of syslog have one table, which is made again for each trial.
            schema.table += &format!("_{}", file_name(&used).replace('-', "_"));
        }
        Trial {
            experiment: self.experiment.name.clone(),
            role: Role::Measure,
            store: StoreSpec {
                name: store.name.clone(),
                label: store.label(),
                endpoints: Vec::new(),
                options: used.options,
            },
            nodes: self.nodes,
            schema,
            work,
            repetition,
            seed,
            target_share: None,
            share: Share::default(),
            cold: self.experiment.cold,
            crash_after_s: self.experiment.crash_after_s,
        }
    }

    fn wrap(&self, name: String, trial: Trial, share_of: Option<(String, f64)>) -> Step {
        Step {
            name,
            order: 0,
            trial,
            dataset: self.dataset.name.clone(),
            fresh: self.experiment.fresh,
            share_of,
            rest_s: self.experiment.rest_s,
            restart: false,
        }
    }
}

/// How long a run of these steps takes, roughly: no less and no more than this, s. `logstores` took
/// half of the planned time at scale `small`, because many of its trials end early.
pub fn expected_s(study: &Study, steps: &[Step]) -> (f64, f64) {
    let planned = planned_s(study, steps);
    (0.5 * planned, 1.2 * planned)
}

/// What trials, warm-ups, loads and starts of servers may take, about, s.
pub fn planned_s(study: &Study, steps: &[Step]) -> f64 {
    let (mut sum, mut servers, mut warm, mut loaded) =
        (0.0, BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for step in steps {
        let (trial, store) = (&step.trial, &step.trial.store);
        let trial_s = trial.work.seconds_max().unwrap_or(UNLIMITED_S) + CHECK_S;
        let load_s = load_s(study, &step.dataset);
        sum += trial_s;
        if step.restart || servers.insert((store.server(), trial.nodes)) {
            sum += START_S;
        }
        if step.fresh || loaded.insert((&step.dataset, &store.label, trial.nodes)) {
            sum += load_s;
        }
        if warm.insert((&trial.experiment, &store.label, trial.nodes)) {
            let of = study.experiments.iter().find(|of| of.name == trial.experiment);
            let trials = f64::from(of.map_or(0, |of| of.warm_up_trials_max));
            let load_s = if step.fresh { load_s } else { 0.0 };
            sum += trials * (trial_s.min(WARM_UP_S_MAX + CHECK_S) + load_s) + LIMIT_S;
        }
    }
    sum
}

/// How long a data set takes to load, about, s.
fn load_s(study: &Study, dataset: &str) -> f64 {
    let fill = study.dataset(dataset).and_then(|dataset| dataset.fill.as_ref());
    let work = fill.map(|Fill { workload, load, .. }| Work::Load {
        workload: workload.clone(),
        load: load.clone(),
    });
    work.and_then(|work| work.records()).map_or(0.0, |records| records as f64 / LOADED_PER_S)
}

/// The label of a store as part of the name of a file.
pub fn file_name(store: &StoreChoice) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    store.label().chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::definition::STUDIES;
    use crate::scale::Scale;

    fn planned(study: usize, scale: Scale, stores: &[&str]) -> Vec<Step> {
        let (name, text) = STUDIES[study];
        let study = Study::parse(name, text, scale).unwrap();
        let stores: Vec<StoreChoice> =
            stores.iter().map(|store| StoreChoice::parse(store).unwrap()).collect();
        plan(&study, &stores, &Choices::default())
    }

    #[test]
    fn a_larger_scale_is_expected_to_take_longer() {
        for (at, (name, _)) in STUDIES.iter().enumerate() {
            let (mut before, scales) = (0.0, [Scale::Smoke, Scale::Small, Scale::Paper]);
            let expected = |scale: Scale| {
                let study = Study::parse(STUDIES[at].0, STUDIES[at].1, scale).unwrap();
                expected_s(&study, &planned(at, scale, &["redis"]))
            };
            for (least, most) in scales.map(expected) {
                assert!(before < least && least < most, "{name}: {before} s, {least} to {most} s");
                before = least;
            }
        }
    }

    #[test]
    fn stores_take_turns_and_begin_in_turn() {
        let steps = planned(0, Scale::Small, &["postgres", "elasticsearch", "loginson"]);
        let reads: Vec<String> = steps
            .iter()
            .filter(|step| step.trial.experiment == "reads")
            .take(6)
            .map(|step| format!("{}{}", step.trial.store.name, step.trial.repetition))
            .collect();
        let expected = [
            "postgres1",
            "elasticsearch1",
            "loginson1",
            "elasticsearch2",
            "postgres2",
            "loginson2",
        ];
        assert_eq!(reads, expected);
        let seeds: HashSet<u64> = steps
            .iter()
            .filter(|step| step.trial.experiment == "reads" && step.trial.repetition == 2)
            .map(|step| step.trial.seed)
            .collect();
        assert_eq!(seeds.len(), 1, "every store gets the same operations");
    }

    #[test]
    fn every_step_has_a_name_of_its_own_and_sizes_of_clusters_come_together() {
        for study in 0..STUDIES.len() {
            let stores = ["postgres", "elasticsearch", "cassandra", "cassandra+index=none"];
            let steps = planned(study, Scale::Paper, &stores);
            let names: HashSet<&str> = steps.iter().map(|step| &*step.name).collect();
            assert_eq!(names.len(), steps.len());
            assert!(steps.is_sorted_by_key(|step| step.trial.nodes));
            assert!(steps.is_sorted_by_key(|step| &*step.name), "files sort in their order");
        }
    }

    #[test]
    fn steps_are_named_by_experiment_store_nodes_and_rate() {
        let steps = planned(1, Scale::Small, &["redis"]);
        assert_eq!(steps[0].name, "0001-load-redis-n1-r01");
        let targeted = steps.iter().find(|step| step.name.ends_with("-a-redis-n1-t4000-r01"));
        let Work::Load { load, .. } = &targeted.unwrap().trial.work else { panic!() };
        assert_eq!(load.target_per_s, Some(4_000.0));
    }

    #[test]
    fn a_repetition_has_all_experiments_where_servers_are_started_again_for_it() {
        let steps = planned(4, Scale::Small, &["redis@host", "redis@lxc", "redis@lxc+scans=off"]);
        assert!(steps.is_sorted_by_key(|step| step.trial.repetition));
        let first = |repetition: u32| {
            let of = steps.iter().filter(move |step| step.trial.repetition == repetition);
            of.map(|step| (&*step.trial.experiment, &*step.trial.store.label, step.restart))
                .take(4)
                .collect::<Vec<_>>()
        };
        let (host, lxc, variant) = ("redis@host", "redis@lxc", "redis@lxc scans=off");
        let one = [
            ("write-100", host, true),
            ("write-100", lxc, true),
            // A variant has the servers of its store.
            ("write-100", variant, false),
            ("read-100", host, false),
        ];
        assert_eq!(first(1), one);
        assert_eq!(first(2)[0], ("write-100", lxc, true));
        assert_eq!(steps.iter().filter(|step| step.restart).count(), 2 * 8);
    }

    #[test]
    fn options_of_an_experiment_make_tables_of_their_own_and_give_way_to_those_of_the_user() {
        let steps = planned(0, Scale::Small, &["elasticsearch", "elasticsearch+shards=3"]);
        let of = |experiment: &str, label: &str| {
            let step = steps.iter().find(|step| {
                step.trial.experiment == experiment && step.trial.store.label == label
            });
            let trial = &step.unwrap().trial;
            (trial.store.options.get("shards").cloned(), trial.schema.table.clone())
        };
        let (none, plain) = of("reads", "elasticsearch");
        let (six, clustered) = of("cluster-reads", "elasticsearch");
        let (three, own) = of("cluster-reads", "elasticsearch shards=3");
        assert_eq!((none, six, three), (None, Some("6".into()), Some("3".into())));
        assert!(plain != clustered && clustered != own, "{plain} {clustered} {own}");
    }

    #[test]
    fn variants_of_a_store_send_lines_of_syslog_to_one_table() {
        let at = STUDIES.iter().position(|(name, _)| *name == "collectors").unwrap();
        let stores = ["victorialogs", "victorialogs+syslog=127.0.0.1:514"];
        let steps = planned(at, Scale::Smoke, &stores);
        let sends = |step: &&Step| step.trial.work.needs().contains(&Ability::Stream);
        let tables: Vec<&str> =
            steps.iter().filter(sends).map(|step| &*step.trial.schema.table).collect();
        assert!(tables.len() > 2, "{tables:?}");
        assert!(tables.iter().all(|table| *table == crate::driver::stream::TABLE), "{tables:?}");
    }

    #[test]
    fn a_store_that_an_experiment_leaves_out_has_no_trial_of_it() {
        let at = STUDIES.iter().position(|(name, _)| *name == "ycsb").unwrap();
        let steps = planned(at, Scale::Smoke, &["ferretdb", "redis"]);
        let has = |experiment: &str, store: &str| {
            steps
                .iter()
                .any(|step| step.trial.experiment == experiment && step.trial.store.name == store)
        };
        assert!(has("d", "ferretdb") && has("e", "redis") && !has("e", "ferretdb"));
    }

    #[test]
    fn choices_of_stores() {
        let choice = StoreChoice::parse("cassandra+index=none+consistency=one").unwrap();
        assert_eq!(choice.label(), "cassandra consistency=one index=none");
        assert_eq!(file_name(&choice), "cassandra-consistency-one-index-none");
        assert!(StoreChoice::parse("redis+aof").unwrap_err().contains("STORE+OPTION=VALUE"));
        let choice = StoreChoice::parse("redis@lxc+scans=off").unwrap();
        assert_eq!((&*choice.name, &*choice.server()), ("redis", "redis@lxc"));
        assert_eq!(choice.label(), "redis@lxc scans=off");
        assert!(StoreChoice::parse("redis@").unwrap_err().contains("cassandra@lxc"));
        assert!(StoreChoice::parse("redis@../x").unwrap_err().contains("small letters"));
    }
}
