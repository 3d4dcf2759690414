//! All programs: those of the configuration and those of the folder, and the threads of those that
//! run.
//!
//! A file of the folder is a program: `NAME.awk` or `NAME.logsql`. Saving, deleting and reloading
//! change what runs: a program whose text has changed is stopped and started anew, with the buckets
//! that it had not computed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use platform::Clock;
use platform::placement::Role;
use programs::{Definition, DefinitionError, Language, Loaded, PROGRAM_BYTES_MAX, load_files};

use super::compiled::Compiled;
use super::compute::Engine;
use super::runner::{RowWriter, Runner};
use crate::data_dir::Documents;
use crate::process::stages::{StageThread, Stages, lock};

/// Programs that run at a time, each with a thread.
///
/// limits.md, Programs of users: programs that run | {} | further ones are `invalid`, and say so
pub const RUNNING_MAX: usize = 100;

/// All programs; see the module.
pub struct Registry {
    engine: Arc<Engine>,
    writer: Arc<RowWriter>,
    clock: Arc<dyn Clock>,
    stages: Arc<Stages>,
    delay_s: u64,
    folder: Arc<dyn Documents>,
    configured: Vec<Loaded>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: BTreeMap<String, Entry>,
    disabled: BTreeSet<String>,
    /// Event times that an earlier run had not computed, of programs that were not read yet.
    pending: BTreeMap<String, Vec<(i64, i64)>>,
    /// Whether the folder was read.
    is_read: bool,
    /// Why it could not be read the last time, which is logged once.
    folder_error: String,
    is_closed: bool,
}

/// A program, running or not.
struct Entry {
    loaded: Loaded,
    is_configured: bool,
    compiled: Result<Arc<Compiled>, DefinitionError>,
    running: Option<Running>,
}

struct Running {
    runner: Arc<Runner>,
    thread: StageThread,
}

/// A program, as the API tells of it.
pub struct Listed {
    /// Name and text.
    pub loaded: Loaded,
    /// The program, or why it is none.
    pub compiled: Result<Arc<Compiled>, DefinitionError>,
    /// Whether it stands in the configuration, where the API cannot change it.
    pub is_configured: bool,
    /// Whether an operator disabled it.
    pub is_disabled: bool,
    /// Its thread.
    pub runner: Option<Arc<Runner>>,
}

/// Why a program cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// There is none of this name.
    #[error("there is no program '{0}'")]
    NotFound(String),
    /// The text is none.
    #[error("{}", .0.problem)]
    Invalid(DefinitionError),
    /// The configuration has it.
    #[error("the program '{0}' stands in the configuration file; change it there, and restart")]
    Configured(String),
    /// The folder cannot be written or read.
    #[error("{0}")]
    Folder(#[source] std::io::Error),
}

impl Registry {
    /// All programs of `configured` and of `folder`, which need not exist; started with what was
    /// pending.
    pub fn open(
        (engine, writer, clock): (Arc<Engine>, Arc<RowWriter>, Arc<dyn Clock>),
        stages: Arc<Stages>,
        delay_s: u64,
        folder: Arc<dyn Documents>,
        configured: Vec<Loaded>,
        disabled: BTreeSet<String>,
        pending: BTreeMap<String, Vec<(i64, i64)>>,
    ) -> Registry {
        let registry = Registry {
            engine,
            writer,
            clock,
            stages,
            delay_s,
            folder,
            configured,
            state: Mutex::new(State { disabled, pending, ..State::default() }),
        };
        // A folder that cannot be read is in the log, and reloading says it again.
        let _ = registry.load(&mut lock(&registry.state));
        registry
    }

    /// Whether the folder could be read. If it could not, this tries again.
    pub fn is_read(&self) -> bool {
        let mut state = lock(&self.state);
        state.is_read || self.load(&mut state).is_ok()
    }

    /// Reads the folder again. Returns how many programs there are, and how many of them cannot
    /// run.
    pub fn reload(&self) -> Result<(usize, usize), ChangeError> {
        let mut state = lock(&self.state);
        self.load(&mut state)?;
        let invalid = state.entries.values().filter(|entry| entry.compiled.is_err()).count();
        Ok((state.entries.len(), invalid))
    }

    /// Saves a program in the folder and runs it.
    pub fn save(&self, name: &str, language: Language, text: &str) -> Result<(), ChangeError> {
        let definition = Definition::parse_as(name, language, text);
        definition.and_then(Compiled::new).map_err(ChangeError::Invalid)?;
        let mut state = lock(&self.state);
        self.check_folder_has(&state, name)?;
        let file = |extension: &str| format!("{name}.{extension}");
        let written = self.folder.replace(&file(language.name()), text.as_bytes());
        written.map_err(|error| self.folder_error("cannot be written", &error))?;
        let earlier = state.entries.get(name).map(|entry| entry.loaded.extension);
        let others = Language::ALL.into_iter().map(Language::name).chain(earlier);
        for other in others.filter(|other| *other != language.name()) {
            let removed = self.folder.remove(&file(other));
            removed.map_err(|error| self.folder_error("cannot be changed", &error))?;
        }
        self.load(&mut state)
    }

    /// Removes a program from the folder; its rows stay.
    pub fn delete(&self, name: &str) -> Result<(), ChangeError> {
        let mut state = lock(&self.state);
        self.check_folder_has(&state, name)?;
        let entry = state.entries.get(name);
        let entry = entry.ok_or_else(|| ChangeError::NotFound(name.to_owned()))?;
        let file = format!("{name}.{}", entry.loaded.extension);
        let removed = self.folder.remove(&file);
        removed.map_err(|error| self.folder_error("cannot be changed", &error))?;
        state.disabled.remove(name);
        self.load(&mut state)
    }

    /// Enables or disables a program. While it is disabled, no lines are noted for it.
    pub fn set_enabled(&self, name: &str, is_enabled: bool) -> Result<(), ChangeError> {
        let mut state = lock(&self.state);
        if !state.entries.contains_key(name) {
            return Err(ChangeError::NotFound(name.to_owned()));
        }
        match is_enabled {
            true => state.disabled.remove(name),
            false => state.disabled.insert(name.to_owned()),
        };
        self.load(&mut state)
    }

    /// The programs, by name.
    pub fn list(&self) -> Vec<Listed> {
        let state = lock(&self.state);
        let listed = |(name, entry): (&String, &Entry)| Listed {
            loaded: entry.loaded.clone(),
            compiled: entry.compiled.clone(),
            is_configured: entry.is_configured,
            is_disabled: state.disabled.contains(name),
            runner: entry.running.as_ref().map(|running| Arc::clone(&running.runner)),
        };
        state.entries.iter().map(listed).collect()
    }

    /// One program.
    pub fn get(&self, name: &str) -> Result<Listed, ChangeError> {
        let found = self.list().into_iter().find(|listed| listed.loaded.name == name);
        found.ok_or_else(|| ChangeError::NotFound(name.to_owned()))
    }

    /// The programs that run.
    pub fn runners(&self) -> Vec<Arc<Runner>> {
        let state = lock(&self.state);
        let running = state.entries.values().filter_map(|entry| entry.running.as_ref());
        running.map(|running| Arc::clone(&running.runner)).collect()
    }

    /// Names of disabled programs.
    pub fn disabled(&self) -> BTreeSet<String> {
        lock(&self.state).disabled.clone()
    }

    /// Folder of the programs, for people.
    pub fn folder(&self) -> String {
        self.folder.place("")
    }

    /// Stops all programs. What they had not computed stays noted; programs that are saved later do
    /// not run.
    pub fn close(&self) {
        let mut state = lock(&self.state);
        state.is_closed = true;
        for entry in state.entries.values() {
            if let Some(running) = &entry.running {
                running.runner.stop();
            }
        }
        for entry in state.entries.values_mut() {
            if let Some(running) = &entry.running {
                running.thread.join();
            }
        }
    }

    /// Makes what runs equal to what is on disk.
    fn load(&self, state: &mut State) -> Result<(), ChangeError> {
        let folder = match self.folder.list(PROGRAM_BYTES_MAX) {
            Ok(files) => load_files(&self.folder(), files),
            Err(error) => {
                let error = self.folder_error("cannot be read", &error);
                if error.to_string() != state.folder_error {
                    tracing::error!("programs: {error}");
                    state.folder_error = error.to_string();
                }
                return Err(error);
            }
        };
        state.is_read = true;
        state.folder_error.clear();
        let pending = std::mem::take(&mut state.pending);
        let configured = self.configured.iter().map(|loaded| (loaded.clone(), true));
        let folder = folder.into_iter().map(|loaded| (loaded, false));
        let mut before = std::mem::take(&mut state.entries);
        let mut running = 0;
        for (loaded, is_configured) in configured.chain(folder) {
            if state.entries.contains_key(&loaded.name) {
                tracing::warn!(
                    "there are several programs with the name {}; the first one runs",
                    loaded.name
                );
                continue;
            }
            let name = loaded.name.clone();
            let mut compiled = loaded.definition.clone().and_then(Compiled::new).map(Arc::new);
            let earlier = before.remove(&name);
            let is_enabled = !state.disabled.contains(&name) && !state.is_closed;
            let kept = earlier.as_ref().filter(|entry| {
                entry.loaded.text == loaded.text
                    && entry.loaded.extension == loaded.extension
                    && entry.running.is_some() == is_enabled
            });
            if kept.is_some() {
                running += usize::from(is_enabled);
                state.entries.insert(name, earlier.expect("it was just looked at"));
                continue;
            }
            if let Err(error) = &compiled {
                tracing::warn!("program {error}");
            } else if is_enabled && running >= RUNNING_MAX {
                let problem = format!("{RUNNING_MAX} programs run already; this one does not");
                compiled = Err(DefinitionError { name: name.clone(), line: 1, problem });
            }
            let mut noted = pending.get(&name).cloned().unwrap_or_default();
            if let Some(stopped) = earlier.and_then(|entry| entry.running) {
                noted.extend(stop(stopped));
            }
            let started = match &compiled {
                Ok(compiled) if is_enabled => self.start(compiled, &noted),
                _ => None,
            };
            running += usize::from(started.is_some());
            let entry = Entry { loaded, is_configured, compiled, running: started };
            state.entries.insert(name, entry);
        }
        for (_, entry) in before {
            if let Some(running) = entry.running {
                stop(running);
            }
        }
        Ok(())
    }

    fn start(&self, compiled: &Arc<Compiled>, pending_ns: &[(i64, i64)]) -> Option<Running> {
        let runner = Arc::new(Runner::new(
            Arc::clone(compiled),
            Arc::clone(&self.engine),
            Arc::clone(&self.writer),
            Arc::clone(&self.clock),
            self.delay_s,
            pending_ns,
        ));
        let (run, stages) = (Arc::clone(&runner), Arc::clone(&self.stages));
        let name = format!("program-{}", compiled.definition.name);
        let thread = StageThread::start_as(Role::Query, &name.clone(), move || {
            stages.run(&name, || run.run())
        });
        match thread {
            Ok(thread) => Some(Running { runner, thread }),
            Err(error) => {
                tracing::error!("program {}: {error:#}", compiled.definition.name);
                None
            }
        }
    }

    fn check_folder_has(&self, state: &State, name: &str) -> Result<(), ChangeError> {
        match state.entries.get(name).is_some_and(|entry| entry.is_configured) {
            true => Err(ChangeError::Configured(name.to_owned())),
            false => Ok(()),
        }
    }

    fn folder_error(&self, what: &str, error: &std::io::Error) -> ChangeError {
        let text = format!("the folder of programs, {}, {what}: {error}", self.folder());
        ChangeError::Folder(std::io::Error::new(error.kind(), text))
    }
}

/// Stops a program; returns what it had not computed.
fn stop(running: Running) -> Vec<(i64, i64)> {
    running.runner.stop();
    running.thread.join();
    running.runner.pending_ns()
}
