//! All groups with their states: evaluates those that are due, and says who is to be told.
//!
//! One lock guards the states. No query runs and nothing is written while it is held, so views of
//! the API never wait for either. A group is evaluated by one thread at a time.
//!
//! What is kept for the next start is written after the changes went out: a crash between the two
//! gives the same changes once more. It is written before notifications go out, with what they say:
//! after a crash, whoever may have got one is told the end.

mod state;
mod view;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use sinks::{Clock, Stop};

use crate::alert::State;
use crate::engine::{Engine, Output};
use crate::evaluation::record;
use crate::notify::{Notification, Notifier, due};
use crate::rule::{Group, Kind, Rule, RuleFile};
use crate::silence::{Silence, SilenceError, Silences};
use crate::snapshot;
use state::{Evaluation, GroupState, Inner};

pub use view::{AlertView, GroupView, RuleView, Totals};

/// Rules of all files.
///
/// limits.md, Alerts: rules of a file; of all files | 1,000; {} | refused, with the remedy
const RULES_MAX: usize = 5_000;
/// Alerts of a notification of which a line is read as an example.
///
/// limits.md, Alerts: alerts of a notification with an example line | {} | the others have none
const LINES_MAX: usize = 3;
/// How often an idle thread looks for a group that is due.
const LOOK: Duration = Duration::from_secs(1);

/// Rules, their states, silences and notifiers.
pub struct Alerts {
    external_url: String,
    clock: Arc<dyn Clock>,
    /// Locked before `inner`, by whoever needs both.
    notifiers: RwLock<Vec<Notifier>>,
    inner: Mutex<Inner>,
}

impl Alerts {
    /// Alerts without rules. `external_url` is the address of the page, for links; empty if it is
    /// not known.
    pub fn new(
        external_url: String,
        silences: Silences,
        notifiers: Vec<Notifier>,
        clock: Arc<dyn Clock>,
    ) -> Alerts {
        let inner = Inner { silences, ..Inner::default() };
        Alerts { external_url, clock, notifiers: RwLock::new(notifiers), inner: Mutex::new(inner) }
    }

    /// Takes a notifier, in the place of the one of its name if there is one. What the one before
    /// delivered counts as told, the rest is due again after the next evaluation. Blocks until the
    /// attempt has ended that the one before is at.
    pub fn put_notifier(&self, notifier: Notifier) {
        let mut notifiers = self.notifiers.write().unwrap_or_else(PoisonError::into_inner);
        let name = &notifier.policy().name;
        let before = match notifiers.iter().position(|one| one.policy().name == *name) {
            Some(index) => Some(std::mem::replace(&mut notifiers[index], notifier)),
            None => {
                notifiers.push(notifier);
                None
            }
        };
        // Its thread is waited for without the lock.
        drop(notifiers);
        if let Some(before) = before {
            before.end();
            self.take_deliveries(&before);
        }
    }

    /// Ends all notifiers, notes what they delivered, and gives out each state that changed. Blocks
    /// until the attempts have ended that they are at. Nothing may be evaluated any more.
    pub fn close(&self, output: &dyn Output) {
        let notifiers = self.lock_notifiers();
        notifiers.iter().for_each(Notifier::request_end);
        for notifier in notifiers.iter() {
            notifier.end();
            self.take_deliveries(notifier);
        }
        drop(notifiers);
        let ids: Vec<String> = self.lock().groups.keys().cloned().collect();
        for id in ids {
            self.keep(&id, output);
        }
    }

    /// Notes what a notifier delivered since the last call.
    fn take_deliveries(&self, notifier: &Notifier) {
        let mut inner = self.lock();
        for delivery in notifier.take_ended() {
            inner.take_delivery(&notifier.policy().name, &delivery);
        }
    }

    /// Ends the notifier of a name; none if there is none. Blocks as
    /// [`put_notifier`](Self::put_notifier).
    pub fn remove_notifier(&self, name: &str) {
        let mut notifiers = self.notifiers.write().unwrap_or_else(PoisonError::into_inner);
        let found = notifiers.iter().position(|one| one.policy().name == name);
        let removed = found.map(|index| notifiers.remove(index));
        drop(notifiers);
        drop(removed);
    }

    fn lock_notifiers(&self) -> RwLockReadGuard<'_, Vec<Notifier>> {
        self.notifiers.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that [`set_rules`](Self::set_rules) takes these files.
    ///
    /// # Errors
    /// There are too many rules.
    pub fn check_rules(files: &[RuleFile]) -> Result<(), String> {
        let groups = files.iter().flat_map(|file| &file.groups);
        let rules: usize = groups.map(|group| group.rules.len()).sum();
        match rules > RULES_MAX {
            true => Err(format!("there are {rules} rules, and at most {RULES_MAX}; remove some")),
            false => Ok(()),
        }
    }

    /// Replaces all rules. A rule that was there before keeps its state; that of a new group comes
    /// from `kept`, which returns what [`Output::keep`] was given for its id. The alerts of rules
    /// that are no more end, without a notification: their changes go to `output`. Returns states
    /// that could not be read; their rules begin anew. An error changes nothing.
    pub fn set_rules(
        &self,
        files: Vec<RuleFile>,
        kept: &dyn Fn(&str) -> Option<Vec<u8>>,
        output: &dyn Output,
    ) -> Result<Vec<String>, String> {
        Alerts::check_rules(&files)?;
        let groups: Vec<Group> = files.into_iter().flat_map(|file| file.groups).collect();
        let mut faults = Vec::new();
        let mut restored = BTreeMap::new();
        let known: Vec<String> = self.lock().groups.keys().cloned().collect();
        for group in groups.iter().filter(|group| !known.contains(&group.id)) {
            match kept(&group.id).map(|bytes| snapshot::read(&bytes)) {
                Some(Ok(states)) => {
                    restored.insert(group.id.clone(), states);
                }
                Some(Err(fault)) => faults.push(format!("group '{}': {fault}", group.name)),
                None => {}
            }
        }
        let now_ns = self.clock.now_ns();
        let mut inner = self.lock();
        let mut old = std::mem::take(&mut inner.groups);
        let mut ended = Vec::new();
        for group in groups {
            let before = old.remove(&group.id);
            ended.extend(before.iter().flat_map(|before| before.ended(Some(&group), now_ns)));
            let id = group.id.clone();
            let states = restored.remove(&id).unwrap_or_default();
            inner.groups.insert(id, GroupState::new(group, before, states));
        }
        drop(inner);
        ended.extend(old.values().flat_map(|before| before.ended(None, now_ns)));
        if !ended.is_empty() {
            output.changes(&ended);
        }
        for id in old.keys() {
            // What stays of it is used again if the group comes back, and costs nothing else.
            let _ = output.keep(id, None);
        }
        Ok(faults)
    }

    /// Takes a silence under `id`, once `keep` has kept all silences. Only one change may be made
    /// at a time.
    pub fn put_silence<E: From<SilenceError>>(
        &self,
        silence: Silence,
        id: &str,
        keep: impl FnOnce(&Silences) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut all = self.lock().silences.clone();
        all.put(silence, id, self.clock.now_ns())?;
        keep(&all)?;
        self.lock().silences = all;
        Ok(())
    }

    /// Ends a silence, once `keep` has kept all silences. Only one change may be made at a time.
    pub fn end_silence<E: From<SilenceError>>(
        &self,
        id: &str,
        keep: impl FnOnce(&Silences) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut all = self.lock().silences.clone();
        all.end(id, self.clock.now_ns())?;
        keep(&all)?;
        self.lock().silences = all;
        Ok(())
    }

    /// Evaluates groups when they are due, until `stop` is requested. Several threads may call
    /// this.
    pub fn run(&self, engine: &dyn Engine, output: &dyn Output, stop: &Stop) {
        while !stop.is_requested() {
            if !self.evaluate_next(engine, output, stop) {
                self.clock.wait(LOOK, stop);
            }
        }
    }

    /// Evaluates the group that is due for the longest time; returns whether there was one.
    pub fn evaluate_next(&self, engine: &dyn Engine, output: &dyn Output, stop: &Stop) -> bool {
        let Some((group, time_ns)) = self.lock().take_due(self.clock.now_ns()) else {
            return false;
        };
        let _running = Running { alerts: self, group_id: &group.id };
        for rule in &group.rules {
            if stop.is_requested() {
                break;
            }
            self.evaluate(&group, rule, time_ns, engine, output);
        }
        self.tell(&group.id, time_ns, engine, output);
        true
    }

    fn evaluate(
        &self,
        group: &Group,
        rule: &Rule,
        time_ns: i64,
        engine: &dyn Engine,
        output: &dyn Output,
    ) {
        let start = Instant::now();
        let found = engine.rows(&rule.expr, time_ns, group.interval, group.series_max);
        let took = start.elapsed();
        let rows = found.as_ref().map_or(0, Vec::len);
        let url = &self.external_url;
        let (mut changes, mut recorded) = (Vec::new(), Vec::new());
        let mut guard = self.lock();
        let inner = &mut *guard;
        // The rule may have been removed while its query ran.
        let Some(state) = inner.groups.get_mut(&group.id) else { return };
        let Some(status) = state.rules.get_mut(&rule.id) else { return };
        let result = found.and_then(|rows| match rule.kind {
            Kind::Alert => {
                let step = status.state.step(group, rule, &rows, time_ns, url)?;
                state.is_changed |= step.is_changed;
                changes = step.changes;
                Ok(())
            }
            Kind::Record => {
                recorded = record(group, rule, &rows, time_ns, url)?;
                Ok(())
            }
        });
        inner.evaluations += 1;
        inner.failures += u64::from(result.is_err());
        status.evaluation = Some(Evaluation { time_ns, took, rows, error: result.err() });
        drop(guard);
        if !recorded.is_empty() {
            output.recorded(&recorded);
        }
        if !changes.is_empty() {
            output.changes(&changes);
        }
    }

    /// Notes what the notifiers delivered, keeps the state of a group if it changed, and hands what
    /// is due of it to the notifiers.
    fn tell(&self, group_id: &str, time_ns: i64, engine: &dyn Engine, output: &dyn Output) {
        let found = self.due(group_id, time_ns);
        // It may arrive, and nobody learn that: the ends that are owed then are kept before.
        self.keep(group_id, output);
        let Some((group, mut due)) = found else { return };
        // Lines are read without a lock. The rules of a group are told by one thread at a time.
        for due in due.iter_mut().filter(|due| due.wants_line) {
            let news = due.notification.alerts.iter_mut();
            for notice in news.filter(|one| one.is_due && one.is_firing).take(LINES_MAX) {
                let expr = &group.rules[due.rule].expr;
                notice.line = engine.line(expr, time_ns, group.interval, &notice.labels);
            }
        }
        let notifiers = self.lock_notifiers();
        for due in due {
            // One that was removed meanwhile is told nothing.
            let notifier = notifiers.iter().find(|one| one.policy().name == due.notifier);
            if let Some(notifier) = notifier {
                notifier.hand_over(due.notification);
            }
        }
    }

    /// What is due of a group, for each notifier and rule; none if the group is no more.
    fn due(&self, group_id: &str, time_ns: i64) -> Option<(Arc<Group>, Vec<Due>)> {
        let notifiers = self.lock_notifiers();
        let mut guard = self.lock();
        let inner = &mut *guard;
        for notifier in notifiers.iter() {
            for delivery in notifier.take_ended() {
                inner.take_delivery(&notifier.policy().name, &delivery);
            }
        }
        let state = inner.groups.get_mut(group_id)?;
        let group = state.group.clone();
        let mut all = Vec::new();
        for (index, rule) in group.rules.iter().enumerate() {
            if rule.kind != Kind::Alert {
                continue;
            }
            let Some(status) = state.rules.get_mut(&rule.id) else { continue };
            for alert in status.state.alerts_mut() {
                let has_ended = alert.state == State::Inactive;
                // Nobody waits for the end: the notifier is no more, or does not tell ends.
                alert.told.retain(|name, _| {
                    let notifier = notifiers.iter().find(|n| n.policy().name == *name);
                    notifier.is_some_and(|n| !has_ended || n.policy().sends_resolved)
                });
            }
            state.is_changed |= status.hold(&inner.silences, time_ns);
            for notifier in notifiers.iter().filter(|n| n.may_tell(&rule.id, time_ns)) {
                let alerts = status.state.alerts();
                let policy = notifier.policy();
                let silences = &inner.silences;
                let url = &self.external_url;
                if let Some(due) = due(policy, &group, rule, alerts, silences, time_ns, url) {
                    state.is_changed |= status.hand_over(&policy.name, &due);
                    all.push(Due {
                        notifier: policy.name.clone(),
                        wants_line: policy.wants_line,
                        rule: index,
                        notification: due,
                    });
                }
            }
        }
        Some((group, all))
    }

    /// Gives the state of a group out, if it changed. What cannot be kept is given out again by the
    /// next call.
    fn keep(&self, group_id: &str, output: &dyn Output) {
        let bytes = self.lock().groups.get_mut(group_id).and_then(|state| {
            let rules = state.rules.iter().map(|(id, status)| (id.as_str(), &status.state));
            std::mem::take(&mut state.is_changed).then(|| snapshot::write(rules))
        });
        let Some(bytes) = bytes else { return };
        if output.keep(group_id, Some(&bytes)) {
            return;
        }
        if let Some(state) = self.lock().groups.get_mut(group_id) {
            state.is_changed = true;
        }
    }
}

/// A notification that is due.
struct Due {
    /// The name of the notifier.
    notifier: String,
    wants_line: bool,
    /// The place of the rule in its group.
    rule: usize,
    notification: Notification,
}

/// Lets a group be evaluated again when this is dropped, also by a panic.
struct Running<'a> {
    alerts: &'a Alerts,
    group_id: &'a str,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(state) = self.alerts.lock().groups.get_mut(self.group_id) {
            state.is_running = false;
        }
    }
}

#[cfg(test)]
mod tests;
