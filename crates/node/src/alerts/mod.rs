//! Alerts: rule files, the threads that evaluate them, and what is kept for the next start.
//!
//! Rules come from files of a folder, which the administrator writes, and from files that are saved
//! over the API. Crate `alerts` evaluates them; this module gives it lines ([`engine`]) and keeps
//! what it makes ([`output`]): rows of type `alert` ([`rows`]), the state of each group, silences.
//!
//! Receivers of notifications come from the configuration, or are made over the API
//! ([`receivers`]).
//!
//! A file of the folder with a mistake is left out at the start, and reported; a change over the
//! API with a mistake changes nothing.

pub mod engine;
mod logged;
mod options;
mod output;
mod receivers;
pub mod rows;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, TryLockError};

use alerts::{
    Alerts, Counts, Defaults, LastError, Matcher, Notifier, NotifierConfig, NotifierOptions,
    RuleError, RuleFile, Silence, SilenceError, Silences,
};
use anyhow::{Context as _, Result, anyhow};
use platform::memory::Budget;
use platform::placement::Role;
use sinks::{Clock as _, Fault, Stop, SystemClock, system_random};

use crate::cluster::QueriedLines;
use crate::data_dir::Documents;
use crate::process::stages::{StageThread, Stages, lock};
use crate::storage::row_store::RowStore;
use engine::StoreEngine;
use logged::LoggedChannel;
pub use options::AlertOptions;
use output::RowOutput;
use receivers::{RECEIVERS_MAX, Receivers};

/// Files of rules that are kept, and that are read of the folder.
///
/// limits.md, Alerts: rule files; bytes of one | {}; {FILE_BYTES_MAX} | a new one is refused; one
/// of the folder is left out, and the log says so
pub const FILES_MAX: usize = 200;
/// Bytes of a rule file.
const FILE_BYTES_MAX: usize = 1 << 20;
/// Characters of the name of a file.
const NAME_CHARS_MAX: usize = 100;
/// The document of all silences.
const SILENCES: &str = "silences.json";

/// What alerts need of the rest of the node.
pub struct Parts<'a> {
    /// How rules are evaluated, and who is told.
    pub options: &'a AlertOptions,
    /// What the queries of rules read.
    pub lines: QueriedLines,
    /// The memory that the queries share with all others.
    pub memory: &'a Arc<Budget>,
    /// Limits of one query.
    pub query_limits: query::Limits,
    /// Where changes of states are kept, as lines.
    pub rows: Arc<dyn RowStore>,
    /// Rule files that were saved over the API.
    pub rules: Arc<dyn Documents>,
    /// States and silences.
    pub state: Arc<dyn Documents>,
    /// Receivers that were made over the API.
    pub receivers: Arc<dyn Documents>,
    /// Where the thread of the evaluation is registered.
    pub stages: &'a Arc<Stages>,
}

/// Alerts that are evaluated.
pub struct AlertStage {
    alerts: Arc<Alerts>,
    engine: Arc<StoreEngine>,
    output: Arc<RowOutput>,
    /// Those of the configuration.
    notifiers: Vec<NotifierOptions>,
    /// Those that were made over the API.
    receivers: Receivers,
    /// Held while receivers change: an old one is waited for.
    changing_receivers: Mutex<()>,
    /// Held while a notifier is tested.
    testing: Mutex<()>,
    defaults: Defaults,
    folder: Option<PathBuf>,
    rules: Arc<dyn Documents>,
    state: Arc<dyn Documents>,
    /// The files whose rules run, as they were read.
    running: Mutex<Vec<RuleFile>>,
    /// Files that could not be used, each with its error.
    invalid: Mutex<Vec<RuleError>>,
    /// Held while files or silences change.
    changing: Mutex<()>,
    stop: Arc<Stop>,
    cancelled: Arc<AtomicBool>,
    threads: Vec<StageThread>,
}

/// Why rules cannot be changed. The text is for the user.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum AlertError {
    #[error("{0}")]
    Rule(#[from] RuleError),
    #[error("{0}")]
    Invalid(String),
    #[error("there is no rule file '{0}'")]
    NotFound(String),
    #[error("the rule file '{0}' is in the folder `alerts.rules`; change it there, then reload")]
    Provisioned(String),
    #[error("there are {FILES_MAX} rule files already; delete some")]
    Full,
    #[error("there is no notifier '{0}'")]
    NoNotifier(String),
    #[error("the notifier '{0}' is in the configuration file; change it there, then restart")]
    ProvidedNotifier(String),
    #[error("there are {RECEIVERS_MAX} receivers already; delete some")]
    TooManyReceivers,
    #[error("receivers are not made over the API here; set `alerts.receivers` to \"on\"")]
    NoReceivers,
    #[error("a notifier is being tested; try again when it is done")]
    Testing,
    #[error("the rules cannot be kept: {0}")]
    Kept(#[from] io::Error),
    #[error("{0}")]
    Silence(#[from] SilenceError),
    #[error("the silences cannot be kept: {0}")]
    SilencesKept(io::Error),
}

/// A notifier as APIs show it.
#[derive(Debug)]
pub struct ToldNotifier {
    /// Its name.
    pub name: String,
    /// The kind of its receiver.
    pub kind: &'static str,
    /// Conditions on the labels of the alerts that it tells, all of which have to match.
    pub matchers: Vec<Matcher>,
    /// What it did so far.
    pub counts: Counts,
    /// Whether the configuration file has it; else it can be changed over the API.
    pub is_provided: bool,
}

/// A receiver as it can be changed.
#[derive(Debug)]
pub struct ReceiverView {
    /// Everything but its secrets.
    pub config: NotifierConfig,
    /// The names of the secrets that it has.
    pub secrets: Vec<String>,
}

/// The text of a rule file, and where it comes from.
struct Text {
    name: String,
    text: String,
    is_provisioned: bool,
}

impl AlertStage {
    /// Reads the rules and the state, and starts to evaluate.
    ///
    /// Errors: a notifier cannot be made, what is kept cannot be read, a thread cannot be started.
    pub fn start(parts: Parts<'_>) -> Result<AlertStage> {
        let options = parts.options;
        let clock: Arc<dyn sinks::Clock> = Arc::new(SystemClock);
        let mut notifiers = Vec::new();
        for notifier in &options.notifiers {
            let name = &notifier.policy.name;
            let channel = notifier
                .channel()
                .map_err(|fault| anyhow!("the notifier '{name}' of [alerts]: {fault}"))?;
            notifiers.push(started(notifier, channel).context("cannot start a thread")?);
        }
        let is_taken =
            |name: &str| options.notifiers.iter().any(|notifier| notifier.policy.name == name);
        let url = &options.external_url;
        let receivers = Receivers::open(parts.receivers, options.receivers, url, is_taken)
            .context("reading the receivers of alerts")?;
        for notifier in receivers.all().into_iter().filter_map(|kept| kept.options.ok()) {
            let name = &notifier.policy.name;
            match notifier.channel() {
                Ok(channel) => {
                    notifiers.push(started(&notifier, channel).context("cannot start a thread")?);
                }
                Err(fault) => tracing::error!("the receiver {name} is told nothing: {fault}"),
            }
        }
        let silences = silences(&*parts.state)?;
        let cancelled = Arc::<AtomicBool>::default();
        let engine = Arc::new(StoreEngine::new(
            parts.lines,
            Arc::clone(parts.memory),
            parts.query_limits,
            Arc::clone(&cancelled),
        ));
        let alerts = Alerts::new(options.external_url.clone(), silences, notifiers, clock);
        let output = Arc::new(RowOutput::new(parts.rows, Arc::clone(&parts.state)));
        let mut stage = AlertStage {
            alerts: Arc::new(alerts),
            engine,
            output,
            notifiers: options.notifiers.clone(),
            receivers,
            changing_receivers: Mutex::default(),
            testing: Mutex::default(),
            defaults: options.defaults,
            folder: options.folder.clone(),
            rules: parts.rules,
            state: parts.state,
            running: Mutex::default(),
            invalid: Mutex::default(),
            changing: Mutex::default(),
            stop: Arc::default(),
            cancelled,
            threads: Vec::new(),
        };
        stage.load()?;
        for number in 1..=options.threads {
            let name = format!("alerts-{number}");
            let (alerts, stages) = (Arc::clone(&stage.alerts), Arc::clone(parts.stages));
            let (engine, output) = (Arc::clone(&stage.engine), Arc::clone(&stage.output));
            let stop = Arc::clone(&stage.stop);
            let thread = StageThread::start_as(Role::Query, &name.clone(), move || {
                stages.run(&name, || alerts.run(&*engine, &*output, &stop));
            })?;
            stage.threads.push(thread);
        }
        Ok(stage)
    }

    /// Rules, states and notifiers.
    pub fn alerts(&self) -> &Alerts {
        &self.alerts
    }

    /// The notifiers: those of the configuration in their order, then those that were made over the
    /// API by name.
    pub fn notifiers(&self) -> Vec<ToldNotifier> {
        let mut counts: BTreeMap<String, Counts> = self.alerts.notifiers().into_iter().collect();
        let mut told = |options: &NotifierOptions, is_provided| ToldNotifier {
            name: options.policy.name.clone(),
            kind: options.kind(),
            matchers: options.policy.matchers.clone(),
            counts: counts.remove(&options.policy.name).unwrap_or_default(),
            is_provided,
        };
        let mut all: Vec<ToldNotifier> =
            self.notifiers.iter().map(|options| told(options, true)).collect();
        let now_ns = SystemClock.now_ns();
        all.extend(self.receivers.all().into_iter().map(|kept| match &kept.options {
            Ok(options) => told(options, false),
            Err(why) => {
                let last_error = Some(LastError { time_ns: now_ns, message: why.clone() });
                ToldNotifier {
                    name: kept.config.name.clone(),
                    kind: kept.config.kinds().first().copied().unwrap_or("unknown"),
                    matchers: Vec::new(),
                    counts: Counts { last_error, ..Counts::default() },
                    is_provided: false,
                }
            }
        }));
        all
    }

    /// A receiver that was made over the API, without its secrets.
    ///
    /// Errors: there is none of this name, or the configuration file has it.
    pub fn receiver(&self, name: &str) -> Result<ReceiverView, AlertError> {
        self.check_own(name)?;
        let kept = self.receivers.get(name);
        let kept = kept.ok_or_else(|| AlertError::NoNotifier(name.to_owned()))?;
        let secrets = kept.secret_names().map(str::to_owned).collect();
        Ok(ReceiverView { config: kept.config, secrets })
    }

    /// Makes or changes a receiver; the text is JSON as the API takes it. Blocks until the attempt
    /// at a notification has ended that the receiver is at.
    ///
    /// Errors: the text is wrong, or the receiver cannot be kept; nothing changed then.
    pub fn save_receiver(&self, name: &str, sent: &str) -> Result<(), AlertError> {
        self.check_own(name)?;
        let _guard = lock(&self.changing_receivers);
        let receiver = self.receivers.checked(name, sent)?;
        let options = receiver.options.clone().map_err(AlertError::Invalid)?;
        let channel = options.channel().map_err(|fault| AlertError::Invalid(fault.to_string()))?;
        // What can fail is done before anything changes.
        let notifier = started(&options, channel)?;
        self.receivers.keep(receiver)?;
        self.alerts.put_notifier(notifier);
        Ok(())
    }

    /// Deletes a receiver. Blocks as [`save_receiver`](Self::save_receiver).
    ///
    /// Errors: there is none that was made over the API, or it cannot be deleted.
    pub fn delete_receiver(&self, name: &str) -> Result<(), AlertError> {
        let _guard = lock(&self.changing_receivers);
        let is_configured = self.check_own(name);
        // One that the configuration file hides can be deleted all the same.
        if !self.receivers.remove(name)? {
            is_configured?;
            return Err(AlertError::NoNotifier(name.to_owned()));
        }
        if is_configured.is_ok() {
            self.alerts.remove_notifier(name);
        }
        Ok(())
    }

    /// Refuses to change what is in the configuration file.
    fn check_own(&self, name: &str) -> Result<(), AlertError> {
        match self.notifiers.iter().any(|notifier| notifier.policy.name == name) {
            true => Err(AlertError::ProvidedNotifier(name.to_owned())),
            false => Ok(()),
        }
    }

    /// Sends a test to the receiver of a notifier; the inner error is why it did not take it.
    /// Blocks for seconds.
    pub fn test_notifier(&self, name: &str) -> Result<Result<(), Fault>, AlertError> {
        let configured = self.notifiers.iter().find(|notifier| notifier.policy.name == name);
        let notifier = match (configured, self.receivers.get(name)) {
            (Some(configured), _) => configured.clone(),
            (None, Some(kept)) => match kept.options {
                Ok(options) => options,
                Err(why) => return Ok(Err(Fault::new(why, ""))),
            },
            (None, None) => return Err(AlertError::NoNotifier(name.to_owned())),
        };
        let _one = match self.testing.try_lock() {
            Ok(one) => one,
            // A test that ended in a bug is over, too.
            Err(TryLockError::Poisoned(one)) => one.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(AlertError::Testing),
        };
        Ok(notifier.test(SystemClock.now_ns()))
    }

    /// The receivers that take mails, by name: those by whose servers dashboards can be sent.
    pub fn mail_receivers(&self) -> Vec<NotifierOptions> {
        let made = self.receivers.all().into_iter().filter_map(|kept| kept.options.ok());
        let is_hidden = |made: &NotifierOptions| {
            self.notifiers.iter().any(|notifier| notifier.policy.name == made.policy.name)
        };
        let all = self.notifiers.iter().cloned().chain(made.filter(|made| !is_hidden(made)));
        all.filter(NotifierOptions::sends_mail).collect()
    }

    /// Files that could not be used.
    pub fn invalid(&self) -> Vec<RuleError> {
        lock(&self.invalid).clone()
    }

    /// Rows and states that could not be kept, since the start.
    pub fn lost(&self) -> u64 {
        self.output.lost()
    }

    /// Ends evaluation and notifiers, and keeps what they delivered. What they did not is due again
    /// after the next start. Blocks until the attempts have ended that they are at.
    pub fn close(&self) {
        self.cancelled.store(true, Relaxed);
        self.stop.request();
        for thread in &self.threads {
            thread.join();
        }
        self.alerts.close(&*self.output);
    }

    /// Reads the files at the start; those with mistakes are left out.
    ///
    /// Errors: the files or the state of a group cannot be read. A group that began anew then would
    /// forget who is owed the end of an alert.
    fn load(&self) -> Result<()> {
        let mut files = Vec::new();
        let mut invalid = Vec::new();
        for text in self.texts()? {
            match self.parse(&text.name, &text.text) {
                Ok(file) => files.push(file),
                Err(error) => {
                    tracing::error!("a file of alert rules is left out: {error}");
                    invalid.push(error);
                }
            }
        }
        for group in files.iter().flat_map(|file| &file.groups) {
            self.output.read(&group.id)?;
        }
        *lock(&self.invalid) = invalid;
        Ok(self.set(files)?)
    }

    /// Reads all files again. With a mistake in any of them, all rules stay as they are.
    pub fn reload(&self) -> Result<usize, AlertError> {
        let _guard = lock(&self.changing);
        let texts = self.texts()?;
        let files = texts.iter().map(|text| self.parse(&text.name, &text.text));
        let files = files.collect::<Result<Vec<RuleFile>, RuleError>>()?;
        let count = files.len();
        self.set(files)?;
        lock(&self.invalid).clear();
        Ok(count)
    }

    /// The text of a file.
    pub fn text(&self, name: &str) -> Result<String, AlertError> {
        let found = self.texts()?.into_iter().find(|text| text.name == name);
        found.map(|text| text.text).ok_or_else(|| AlertError::NotFound(name.to_owned()))
    }

    /// The names of all files, and whether each is in the folder.
    pub fn files(&self) -> Result<Vec<(String, bool)>, AlertError> {
        Ok(self.texts()?.into_iter().map(|text| (text.name, text.is_provisioned)).collect())
    }

    /// Saves a file. With a mistake in it, or if it cannot be kept, nothing changes. Other files
    /// are not read again: their rules go on as they are.
    pub fn save(&self, name: &str, text: &str) -> Result<(), AlertError> {
        check_name(name)?;
        let file = self.parse(name, text)?;
        let _guard = lock(&self.changing);
        let texts = self.texts()?;
        if texts.iter().any(|other| other.name == name && other.is_provisioned) {
            return Err(AlertError::Provisioned(name.to_owned()));
        }
        if texts.len() >= FILES_MAX && !texts.iter().any(|other| other.name == name) {
            return Err(AlertError::Full);
        }
        let mut files = self.others(name);
        files.push(file);
        Alerts::check_rules(&files).map_err(AlertError::Invalid)?;
        self.rules.replace(name, text.as_bytes())?;
        self.set(files)?;
        lock(&self.invalid).retain(|error| error.file != name);
        Ok(())
    }

    /// Deletes a file that was saved over the API; its alerts end.
    pub fn delete(&self, name: &str) -> Result<(), AlertError> {
        let _guard = lock(&self.changing);
        let texts = self.texts()?;
        match texts.iter().find(|text| text.name == name) {
            None => return Err(AlertError::NotFound(name.to_owned())),
            Some(text) if text.is_provisioned => {
                return Err(AlertError::Provisioned(name.to_owned()));
            }
            Some(_) => {}
        }
        self.rules.remove(name)?;
        self.set(self.others(name))?;
        lock(&self.invalid).retain(|error| error.file != name);
        Ok(())
    }

    /// Takes a silence; returns its id. If it cannot be kept, nothing changes.
    pub fn put_silence(&self, silence: Silence) -> Result<String, AlertError> {
        let id = format!("{:016x}", fastrand::u64(..));
        let _guard = lock(&self.changing);
        self.alerts.put_silence(silence, &id, |all| self.keep_silences(all))?;
        Ok(id)
    }

    /// Ends a silence. If that cannot be kept, nothing changes.
    pub fn end_silence(&self, id: &str) -> Result<(), AlertError> {
        let _guard = lock(&self.changing);
        self.alerts.end_silence(id, |all| self.keep_silences(all))
    }

    fn keep_silences(&self, all: &Silences) -> Result<(), AlertError> {
        let body = serde_json::to_vec(all).map_err(|error| {
            AlertError::SilencesKept(io::Error::other(format!("they cannot be written: {error}")))
        })?;
        self.state.replace(SILENCES, &body).map_err(AlertError::SilencesKept)
    }

    /// Reads a rule file.
    pub fn parse(&self, name: &str, text: &str) -> Result<RuleFile, RuleError> {
        RuleFile::parse(name, text, &self.defaults, &*self.engine)
    }

    /// The files whose rules run, but `without`.
    fn others(&self, without: &str) -> Vec<RuleFile> {
        lock(&self.running).iter().filter(|file| file.name != without).cloned().collect()
    }

    fn set(&self, files: Vec<RuleFile>) -> Result<(), AlertError> {
        let kept = |id: &str| self.output.kept(id);
        let faults = self.alerts.set_rules(files.clone(), &kept, &*self.output);
        for fault in faults.map_err(AlertError::Invalid)? {
            tracing::error!("alerts begin anew: {fault}");
        }
        *lock(&self.running) = files;
        Ok(())
    }

    /// The texts of all files, those of the folder first.
    fn texts(&self) -> io::Result<Vec<Text>> {
        let mut texts = Vec::new();
        if let Some(folder) = &self.folder {
            let folder = crate::data_dir::DocumentFolder::provided(folder);
            read_texts(&folder, true, &mut texts)?;
        }
        read_texts(&*self.rules, false, &mut texts)?;
        Ok(texts)
    }
}

/// Starts to tell the receiver of `options`.
fn started(options: &NotifierOptions, channel: Box<dyn alerts::Channel>) -> io::Result<Notifier> {
    let policy = options.policy.clone();
    let channel = Box::new(LoggedChannel::new(&policy.name, channel));
    Notifier::start(policy, channel, Arc::new(SystemClock), system_random())
}

fn read_texts(keep: &dyn Documents, is_provisioned: bool, texts: &mut Vec<Text>) -> io::Result<()> {
    for (name, body) in keep.list(FILE_BYTES_MAX)? {
        if !name.ends_with(".yml") && !name.ends_with(".yaml") {
            continue;
        }
        if texts.iter().any(|text: &Text| text.name == name) {
            tracing::warn!("{} is hidden by a file of the same name", keep.place(&name));
            continue;
        }
        if texts.len() >= FILES_MAX {
            tracing::error!("there are more than {FILES_MAX} rule files; {name} is left out");
            continue;
        }
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", keep.place(&name)))
        };
        let text = String::from_utf8(body.map_err(named)?)
            .map_err(|_| io::Error::other(format!("{} is not UTF-8 text", keep.place(&name))))?;
        texts.push(Text { name, text, is_provisioned });
    }
    Ok(())
}

/// Names of others would be names of files elsewhere.
fn check_name(name: &str) -> Result<(), AlertError> {
    let stem = name.strip_suffix(".yml").or_else(|| name.strip_suffix(".yaml"));
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    match stem {
        Some(stem)
            if (1..=NAME_CHARS_MAX).contains(&stem.len()) && stem.chars().all(is_allowed) =>
        {
            Ok(())
        }
        _ => Err(AlertError::Invalid(format!(
            "the name of a rule file has 1 to {NAME_CHARS_MAX} letters, digits, '-' and '_', and \
             ends with .yml"
        ))),
    }
}

fn silences(state: &dyn Documents) -> Result<Silences> {
    let read = state.read(SILENCES);
    let read = read.with_context(|| format!("reading {}", state.place(SILENCES)))?;
    let Some(body) = read else { return Ok(Silences::default()) };
    serde_json::from_slice(&body).or_else(|error| {
        // The next silence replaces the document.
        let aside = format!("{SILENCES}.damaged");
        let kept = match state.read(&aside) {
            Ok(None) => state.replace(&aside, &body),
            _ => Ok(()),
        };
        let (place, aside) = (state.place(SILENCES), state.place(&aside));
        kept.with_context(|| format!("{place} is damaged, and cannot be kept as {aside}"))?;
        tracing::error!(
            "{place} cannot be read: {error}; there are no silences, and it is kept as {aside}"
        );
        Ok(Silences::default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_dir::DocumentFolder;

    #[test]
    fn damaged_silences_are_kept_aside() {
        let directory = tempfile::tempdir().unwrap();
        let state = DocumentFolder::new(directory.path());
        let aside = format!("{SILENCES}.damaged");
        state.replace(SILENCES, b"[{\"id\":").unwrap();
        assert!(silences(&state).is_ok());
        assert_eq!(state.read(&aside).unwrap().as_deref(), Some(&b"[{\"id\":"[..]));
        // What was kept first stays.
        state.replace(SILENCES, b"other").unwrap();
        assert!(silences(&state).is_ok());
        assert_eq!(state.read(&aside).unwrap().as_deref(), Some(&b"[{\"id\":"[..]));
    }
}
