//! The generators of a run: this process, other processes of this machine, or agents on other
//! machines.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::agent::{self, Processes};
use crate::driver::Driver;
use crate::load::{self, LineSender, ReadBack, Setting, Stop};
use crate::measure::process::Watched;
use crate::results::End;
use crate::trial::{Role, Trial, Work};
use crate::workload::Earlier;

/// The choice of generators.
#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize)]
pub struct GeneratorArgs {
    /// Generators on other machines, each started with `loginson-lab agent`; they share every trial
    #[arg(long, value_delimiter = ',', value_name = "HOST:PORT")]
    pub agents: Vec<String>,
    /// A file with the secret of these agents, if they have one
    #[arg(long, requires = "agents", value_name = "FILE")]
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
    /// Number of processes on this machine that share every trial
    #[arg(long, conflicts_with = "agents", value_name = "N")]
    pub processes: Option<u32>,
}

/// The generators of a run.
pub struct Generators {
    agents: Vec<String>,
    secret: Option<String>,
    /// The agents, where they are processes of this machine; stopped at the end of the run.
    processes: Option<Processes>,
}

impl Generators {
    /// Starts the requested processes, which know the stores of the user's own in `programs`.
    pub async fn start(args: &GeneratorArgs, programs: &[String]) -> std::io::Result<Generators> {
        let secret = args.secret_file.as_deref().map(agent::read_secret).transpose()?;
        let Some(count) = args.processes.filter(|count| *count > 1) else {
            return Ok(Generators { agents: args.agents.clone(), secret, processes: None });
        };
        let program: PathBuf = std::env::current_exe()?;
        let own: Vec<String> = programs.iter().map(|own| format!("--program={own}")).collect();
        let starting = tokio::task::spawn_blocking(move || Processes::start(&program, count, &own));
        let processes = starting.await.map_err(std::io::Error::other)??;
        let agents = processes.addresses().to_vec();
        Ok(Generators { agents, secret, processes: Some(processes) })
    }

    /// Whether trials are sent from this process alone.
    pub fn is_here_alone(&self) -> bool {
        self.agents.is_empty()
    }

    /// Whether trials are sent from this machine alone.
    pub fn are_on_this_machine(&self) -> bool {
        self.is_here_alone() || self.processes.is_some()
    }

    /// Sends the operations of `trial`, and writes its measurements and the resources of `store`,
    /// the generator and the host to `lines`. `earlier` is what rows of its table have, which
    /// agents do not get. Returns the outcome, and what to read back later, or `None` if it was
    /// stopped. Agents read back by themselves, right after the trial. Data is always loaded from
    /// here, and the delay of new rows, which needs one clock, is measured from here.
    pub async fn run(
        &self,
        driver: Arc<dyn Driver>,
        trial: &Trial,
        store: Option<Watched>,
        earlier: Option<Arc<Earlier>>,
        lines: LineSender,
        stop: Stop,
    ) -> Option<(End, Option<ReadBack>)> {
        let watched = store.into_iter().chain([Watched::generator()]).collect();
        let here = trial.role == Role::Prepare
            || trial.crash_after_s.is_some()
            || matches!(trial.work, Work::RealTime(_));
        if here || self.agents.is_empty() {
            let place = Arc::default();
            let read_back = Some(Arc::clone(&place));
            let setting = Setting { watched, read_back, earlier, ..Setting::default() };
            let end = load::run_in(setting, driver, trial, lines, stop).await?;
            let read_back = place.lock().expect("nothing panics here").take();
            return Some((end, read_back));
        }
        let secret = self.secret.as_deref();
        let end = agent::run(&self.agents, secret, trial, watched, lines, stop).await?;
        Some((end, None))
    }
}
