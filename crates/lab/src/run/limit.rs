//! The limit of the generator, behind the own client of each store: after the first completed trial
//! of a store in an experiment, the same work is sent to a [`Sink`] in the place of the store.
//!
//! The client of a store does most of the generator's work where rows are sent in batches, and its
//! protocol decides what one of its requests costs. So a limit holds for one store alone, and is
//! counted in the unit of the experiment. A sink holds no rows: work that adds rows has a table of
//! its own meanwhile, in which reads find nothing, so that this limit is an upper bound.
//!
//! Of a store that is reached through a program ([`crate::servers::client`]) the sink takes the
//! place of the program: the limit is that of the pipe to it, without the work of the program.
//!
//! Several generators have a limit where all of them can reach the sink and no program is between
//! them and the store: as processes of this machine. Left out, with an unknown limit: agents on
//! other machines, brokers of Kafka on another machine, work at rates of its own, and kills.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::ready::address;
use super::{LINES_WAITING_MAX, RunError, Runner, Store, Watch};
use crate::driver::Ability;
use crate::plan::Step;
use crate::results::Outcome;
use crate::servers::client::Detour;
use crate::sink::{Sink, Wire};
use crate::stores;
use crate::trial::{Load, RealTime, Role, Trial, Work};

/// Length of a trial of the limit; a measured trial that is shorter is its own length, s.
const LIMIT_S: f64 = 2.0;

/// Operations of each thread whose answers the sink keeps.
const RECORDED_OPERATIONS: u64 = 20;

/// Time for them at most, s.
const RECORDING_S_MAX: f64 = 10.0;

/// Added to the name of the table of work that adds rows.
const TABLE_SUFFIX: &str = "_limit";

/// The option of drivers with addresses of their own for streams of lines.
const SYSLOG: &str = "syslog";

impl Runner<'_> {
    /// Measures the limit for the store of a step whose trial was completed, once for each
    /// experiment, store and number of nodes. A limit that cannot be measured has the reason in its
    /// file.
    pub(super) async fn limit(
        &mut self,
        step: &Step,
        watch: &mut dyn Watch,
    ) -> Result<(), RunError> {
        let trial = &step.trial;
        let of = (trial.experiment.clone(), trial.store.label.clone(), trial.nodes);
        let wire = stores::find(&trial.store.name).expect("its driver is open").wire;
        let is_reached = match stores::client(&trial.store.name) {
            // Other processes have programs of their own.
            Some(_) => self.generators.is_here_alone(),
            None => self.generators.are_on_this_machine(),
        };
        let is_wanted = trial.role == Role::Measure
            && trial.crash_after_s.is_none()
            && !trial.work.is_paced()
            && is_reached;
        if !is_wanted || !self.limited.insert(of) {
            return Ok(());
        }
        let mut trial = Trial { role: Role::Limit, ..trial.clone() };
        self.forget_rows(&trial);
        let Ok(up) = self.up(trial.store.server(), trial.nodes).await? else { return Ok(()) };
        address(&mut trial.store, &up);
        let is_stream = trial.work.needs().contains(&Ability::Stream);
        // Sinks of lines pass none of them on; brokers take a topic of any name.
        let has_own_table = trial.work.inserts() && (!is_stream || wire == Wire::Kafka);
        if has_own_table {
            trial.schema.table += TABLE_SUFFIX;
            let made = match stores::open(&trial.store) {
                Ok(driver) => driver.create(&trial.schema).await.map_err(|e| e.to_string()),
                Err(error) => Err(error.to_string()),
            };
            if made.is_err() {
                return Ok(());
            }
        }
        let emptied = (trial.store.clone(), trial.schema.clone());
        if let Ok((sinks, replaying)) = self.recorded(trial, wire).await {
            let mut writer = self.begin(&format!("{}-limit", step.name), step, &replaying.trial)?;
            let store = Store { driver: replaying.driver, up: None };
            let measured = self.measure(&store, &replaying.trial, &mut writer, watch).await?;
            drop(sinks);
            if let Some(measured) = measured {
                writer.end(measured.end)?;
            }
        }
        if has_own_table {
            // A store that tells only the size of all its tables would count it.
            let (spec, schema) = emptied;
            if let Ok(driver) = stores::open(&spec) {
                let _ = driver.create(&schema).await;
            }
        }
        Ok(())
    }

    /// Records a few answers of the store, and returns what replays them: the trial of the limit,
    /// and the driver for it.
    async fn recorded(
        &self,
        mut trial: Trial,
        wire: Wire,
    ) -> Result<(Vec<Sink>, Replaying), String> {
        let open = |trial: &Trial| stores::open(&trial.store).map_err(|e| e.to_string());
        let (mut sinks, mut detour) = (Vec::new(), None);
        let client = stores::client(&trial.store.name);
        let mut before = async |endpoints: &[String], wire| {
            let sink = Sink::before(endpoints, wire).await.map_err(|e| e.to_string())?;
            let replaced = sink.endpoints();
            sinks.push(sink);
            Ok::<_, String>(replaced)
        };
        match client {
            None => trial.store.endpoints = before(&trial.store.endpoints, wire).await?,
            Some(client) => {
                let address = tokio::task::spawn_blocking(move || client.address()).await;
                let address = address.map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
                detour = before(&[address], wire).await?.pop().map(|sink| client.detour(sink));
            }
        }
        if let Some(addresses) = trial.store.options.get_mut(SYSLOG) {
            let all: Vec<String> = addresses.split(',').map(str::to_owned).collect();
            *addresses = before(&all, Wire::Lines).await?.join(",");
        }
        let few = Trial { work: few(&trial.work), ..trial.clone() };
        let (sender, mut lines) = mpsc::channel(LINES_WAITING_MAX);
        let sending = self.generators.run(open(&few)?, &few, None, None, sender, self.stop.clone());
        let drained = async { while lines.recv().await.is_some() {} };
        let (ended, ()) = tokio::join!(sending, drained);
        match ended.map(|(end, _)| end.outcome) {
            Some(Outcome::Completed) => {}
            outcome => return Err(format!("{outcome:?}")),
        }
        sinks.iter().for_each(Sink::replay);
        trial.work = unbounded(&trial.work);
        let driver = open(&trial)?;
        Ok((sinks, Replaying { trial, driver, _detour: detour }))
    }
}

/// What is measured against sinks.
struct Replaying {
    trial: Trial,
    driver: Arc<dyn crate::driver::Driver>,
    /// Sessions are made with the sink.
    _detour: Option<Detour>,
}

/// A few operations of the same work.
fn few(work: &Work) -> Work {
    match work {
        Work::RealTime(real_time) => {
            let records = RECORDED_OPERATIONS * u64::from(real_time.threads);
            Work::RealTime(RealTime {
                records: records.min(real_time.records),
                ..real_time.clone()
            })
        }
        Work::Load { workload, load } => {
            let load = Load {
                operations: Some(RECORDED_OPERATIONS * u64::from(load.threads)),
                seconds: Some(RECORDING_S_MAX),
                ..as_fast_as_it_goes(load)
            };
            Work::Load { workload: workload.clone(), load }
        }
    }
}

/// The same work for a short time, as fast as it goes. The real-time experiment has a rate of its
/// own, and its measure is a time.
fn unbounded(work: &Work) -> Work {
    match work {
        Work::RealTime(_) => work.clone(),
        Work::Load { workload, load } => {
            let seconds = Some(load.seconds.map_or(LIMIT_S, |all| all.min(LIMIT_S)));
            let load = Load { seconds, ..as_fast_as_it_goes(load) };
            // A few queries are over in milliseconds; rows that are added have their number.
            let operations = load.operations.filter(|_| work.inserts());
            Work::Load { workload: workload.clone(), load: Load { operations, ..load } }
        }
    }
}

fn as_fast_as_it_goes(load: &Load) -> Load {
    Load {
        ramp_s: 0.0,
        operations_per_thread: None,
        target_per_s: None,
        warm_up_s: 0.0,
        until_visible: false,
        ..load.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;

    #[test]
    fn the_limit_is_of_the_same_work_without_its_rate() {
        let load = Load {
            threads: 4,
            ramp_s: 3.0,
            operations: Some(9_000),
            operations_per_thread: Some(5),
            seconds: Some(30.0),
            target_per_s: Some(100.0),
            warm_up_s: 1.0,
            batch_rows: 7,
            until_visible: true,
        };
        let work = Work::Load { workload: Workload::LogWrites { records: 10 }, load };
        let Work::Load { load, .. } = unbounded(&work) else { panic!() };
        assert_eq!((load.seconds, load.operations), (Some(LIMIT_S), Some(9_000)));
        assert_eq!((load.target_per_s, load.until_visible, load.batch_rows), (None, false, 7));
        let Work::Load { load, .. } = few(&work) else { panic!() };
        assert_eq!(load.operations, Some(4 * RECORDED_OPERATIONS));
        let reads = Work::Load { workload: Workload::LogReads { records: 10 }, load };
        let Work::Load { load, .. } = unbounded(&reads) else { panic!() };
        assert_eq!(load.operations, None);
    }
}
