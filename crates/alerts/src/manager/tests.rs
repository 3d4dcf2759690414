//! Groups over time: notifications, silences, restarts, changed rules, missed evaluations.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicI64, Ordering};

use super::*;
use crate::matcher::Matcher;
use crate::notify::{Channel, Notification, Policy, Sent};
use crate::rule::Defaults;
use crate::testing::{FakeEngine, FakeOutput, row};

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;

#[derive(Default)]
struct FakeClock(AtomicI64);

impl FakeClock {
    fn set_minute(&self, minute: i64) {
        // The delay of evaluation is five seconds.
        self.0.store(minute * MINUTE + 6 * SECOND, Ordering::SeqCst);
    }
}

impl Clock for FakeClock {
    fn now_ns(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    fn wait(&self, _: Duration, _: &Stop) {
        std::thread::yield_now();
    }
}

/// Keeps what it is sent; fails while a test says so. What is in `2` is answered first, and then it
/// has the alerts at the places in `3`.
#[derive(Clone, Default)]
struct Mailbox(Arc<Mutex<Contents>>);

type Contents = (Vec<Notification>, bool, VecDeque<Sent>, BTreeSet<usize>);

impl Channel for Mailbox {
    fn send(&mut self, notification: &Notification) -> Sent {
        let mut state = self.0.lock().unwrap();
        if let Some(answer) = state.2.pop_front() {
            return answer;
        }
        if state.1 {
            return Sent::Failed { fault: sinks::Fault::new("down", ""), retry_after: None };
        }
        state.0.push(notification.clone());
        Sent::Accepted
    }

    fn taken(&self) -> BTreeSet<usize> {
        self.0.lock().unwrap().3.clone()
    }
}

struct World {
    clock: Arc<FakeClock>,
    engine: FakeEngine,
    output: FakeOutput,
    alerts: Alerts,
    mailbox: Mailbox,
    minute: i64,
}

impl World {
    fn new() -> World {
        World::with(false)
    }

    /// With a receiver that keeps incidents, or with one that does not.
    fn with(is_of_incidents: bool) -> World {
        World::over(Policy {
            name: "mail".to_owned(),
            matchers: vec![Matcher::parse("severity!=low").unwrap()],
            repeat_interval: Duration::from_secs(600),
            sends_resolved: true,
            sends_acknowledged: is_of_incidents,
            tells_each: is_of_incidents,
            wants_line: is_of_incidents,
        })
    }

    fn over(policy: Policy) -> World {
        let clock = Arc::new(FakeClock::default());
        let mailbox = Mailbox::default();
        let notifier = Notifier::start(
            policy,
            Box::new(mailbox.clone()),
            Arc::new(sinks::SystemClock),
            Box::new(|| 0.5),
        );
        let alerts = Alerts::new(
            "http://logs".to_owned(),
            Silences::default(),
            vec![notifier.unwrap()],
            clock.clone(),
        );
        World {
            clock,
            engine: FakeEngine::default(),
            output: FakeOutput::default(),
            alerts,
            mailbox,
            minute: 0,
        }
    }

    /// A world after a restart at this time, with what was kept, and with rules.
    fn restarted(&self, rules: &str) -> World {
        let mut next = World::new();
        *next.output.kept.lock().unwrap() = self.output.kept.lock().unwrap().clone();
        next.minute = self.minute;
        assert!(next.set_rules(rules).is_empty());
        next
    }

    fn set_rules(&self, text: &str) -> Vec<String> {
        let file = RuleFile::parse("f.yml", text, &Defaults::default(), &self.engine).unwrap();
        let kept = |id: &str| self.output.kept.lock().unwrap().get(id).cloned();
        self.alerts.set_rules(vec![file], &kept, &self.output).unwrap()
    }

    /// Lets a minute pass, and evaluates what is due then; the subjects of new mails.
    fn minute(&mut self) -> Vec<String> {
        self.minute += 1;
        self.clock.set_minute(self.minute);
        let stop = Stop::default();
        while self.alerts.evaluate_next(&self.engine, &self.output, &stop) {}
        // The thread of the notifier empties its queue; what failed is given up at the end.
        while self.alerts.lock_notifiers()[0].is_busy_with_any() {
            std::thread::yield_now();
        }
        let sent = std::mem::take(&mut self.mailbox.0.lock().unwrap().0);
        sent.iter()
            .map(|notification| {
                let alerts = notification.alerts.iter().map(|notice| {
                    format!("{}{}", if notice.is_firing { "+" } else { "-" }, notice.labels["h"])
                });
                format!("{}:{}", notification.rule, alerts.collect::<String>())
            })
            .collect()
    }

    fn series(&self, hosts: &[&str]) {
        let rows = hosts.iter().map(|host| row(&[("h", host)], 1.0));
        self.engine.answer("x", Ok(rows.collect()));
    }

    fn put_silence(&self, silence: Silence, id: &str) {
        self.alerts.put_silence(silence, id, |_| Ok::<(), SilenceError>(())).unwrap();
    }

    fn states(&self) -> Vec<(String, State, bool)> {
        let groups = self.alerts.groups();
        let alerts = groups.iter().flat_map(|group| &group.rules).flat_map(|rule| &rule.alerts);
        alerts
            .map(|view| {
                let alert = &view.alert;
                (alert.labels["h"].clone(), alert.state, !view.silenced_by.is_empty())
            })
            .collect()
    }
}

const RULES: &str = "groups:\n- name: g\n  rules:\n  - alert: A\n    expr: x\n    for: 1m\n";

#[test]
fn changes_are_told_once_and_repeated() {
    let mut world = World::new();
    world.set_rules(RULES);
    world.series(&["a", "b"]);
    assert!(world.minute().is_empty());
    assert_eq!(world.minute(), ["A:+a+b"]);
    assert!(world.minute().is_empty());
    world.series(&["b"]);
    assert_eq!(world.minute(), ["A:-a+b"]);
    for _ in 0..9 {
        assert!(world.minute().is_empty());
    }
    assert_eq!(world.minute(), ["A:+b"]);
    world.engine.answer("x", Err("the query takes too much memory; filter more".to_owned()));
    assert!(world.minute().is_empty());
    let group = &world.alerts.groups()[0];
    assert!(group.rules[0].error.as_ref().unwrap().contains("filter more"));
    assert_eq!(group.rules[0].state(), State::Firing);
    world.series(&[]);
    assert_eq!(world.minute(), ["A:-b"]);
    let changes = world.output.changes.lock().unwrap().len();
    assert_eq!(changes, 6);
    let totals = world.alerts.totals();
    assert_eq!((totals.evaluations, totals.failures, totals.missed), (16, 1, 0));
}

#[test]
fn what_could_not_be_delivered_is_told_later() {
    let mut world = World::new();
    world.set_rules(RULES);
    world.series(&["a"]);
    world.minute();
    world.mailbox.0.lock().unwrap().1 = true;
    let stop = Stop::default();
    world.minute = 2;
    world.clock.set_minute(2);
    assert!(world.alerts.evaluate_next(&world.engine, &world.output, &stop));
    while world.alerts.notifiers().iter().any(|(_, counts)| counts.failed_attempts == 0) {
        std::thread::yield_now();
    }
    // What is on its way is not sent a second time.
    world.clock.set_minute(3);
    world.minute = 3;
    assert!(world.alerts.evaluate_next(&world.engine, &world.output, &stop));
    let (_, counts) = world.alerts.notifiers().remove(0);
    assert_eq!(counts.waiting, 0);
    assert_eq!(counts.last_error.unwrap().message, "down");
    world.mailbox.0.lock().unwrap().1 = false;
    assert_eq!(world.minute(), ["A:+a"]);
    assert!(world.minute().is_empty());
}

#[test]
fn silenced_alerts_are_not_told() {
    let mut world = World::new();
    world.set_rules(RULES);
    world.series(&["a", "b"]);
    world.minute();
    let silence = Silence {
        id: String::new(),
        matchers: vec![Matcher::parse("h=a").unwrap()],
        starts_at_ns: 0,
        ends_at_ns: 5 * MINUTE,
        created_by: String::new(),
        comment: String::new(),
    };
    world.put_silence(silence, "s1");
    assert_eq!(world.minute(), ["A:+b"]);
    let states = world.states();
    assert_eq!(states[0], ("a".to_owned(), State::Firing, true));
    assert!(!states[1].2);
    for _ in 0..2 {
        assert!(world.minute().is_empty());
    }
    assert_eq!(world.minute(), ["A:+a+b"]);
}

#[test]
fn alerts_that_do_not_match_are_not_told() {
    let mut world = World::new();
    world.set_rules(&format!("{RULES}    labels: {{severity: low}}\n"));
    world.series(&["a"]);
    for _ in 0..3 {
        assert!(world.minute().is_empty());
    }
    assert_eq!(world.states()[0].1, State::Firing);
}

#[test]
fn states_are_there_again_after_a_restart() {
    let mut world = World::new();
    world.set_rules(RULES);
    world.series(&["a"]);
    world.minute();
    world.minute();
    world.series(&["a", "b"]);
    world.minute();
    let kept = world.output.kept.lock().unwrap().clone();
    let mut next = World::new();
    *next.output.kept.lock().unwrap() = kept;
    next.minute = world.minute;
    assert!(next.set_rules(RULES).is_empty());
    let states = next.states();
    assert_eq!(states[0].1, State::Firing);
    assert_eq!(states[1].1, State::Pending);
    // `a` was told before the restart, and `b` goes on with its `for`.
    next.series(&["a", "b"]);
    assert_eq!(next.minute(), ["A:+a+b"]);
    assert_eq!(next.alerts.groups()[0].rules[0].alerts[1].alert.active_at_ns, 3 * MINUTE);
}

#[test]
fn a_broken_state_is_reported_and_begins_anew() {
    let world = World::new();
    let id = RuleFile::parse("f.yml", RULES, &Defaults::default(), &world.engine).unwrap().groups
        [0]
    .id
    .clone();
    world.output.keep(&id, Some(b"{\"version\":7,\"rules\":{}}"));
    assert!(world.set_rules(RULES)[0].contains("version 7"));
    assert!(world.states().is_empty());
}

#[test]
fn rules_that_stay_keep_their_state_and_others_end() {
    let mut world = World::new();
    world.set_rules(&format!("{RULES}  - alert: B\n    expr: x\n"));
    world.series(&["a"]);
    world.minute();
    world.minute();
    assert_eq!(world.states().len(), 2);
    let before = world.output.changes.lock().unwrap().len();
    world.set_rules(RULES);
    assert_eq!(world.states(), [("a".to_owned(), State::Firing, false)]);
    let changes = world.output.changes.lock().unwrap();
    assert_eq!((changes.len(), changes[before].rule.as_str()), (before + 1, "B"));
    assert_eq!(changes[before].to, State::Inactive);
    drop(changes);
    let stop = Stop::default();
    let kept = |_: &str| None;
    world.alerts.set_rules(Vec::new(), &kept, &world.output).unwrap();
    assert!(world.output.kept.lock().unwrap().is_empty());
    assert!(!world.alerts.evaluate_next(&world.engine, &world.output, &stop));
}

#[test]
fn rows_of_recording_rules_are_given_out() {
    let mut world = World::new();
    world.set_rules(
        "groups:\n- name: g\n  rules:\n  - record: n\n    expr: x\n    labels: {team: ops}\n",
    );
    world.series(&["a"]);
    world.minute();
    let recorded = world.output.recorded.lock().unwrap();
    assert_eq!((recorded[0].record.as_str(), recorded[0].value), ("n", 1.0));
    assert_eq!(recorded[0].labels.get("team").map(String::as_str), Some("ops"));
    assert_eq!(recorded[0].time_ns, MINUTE);
}

#[test]
fn times_of_evaluation_are_aligned_and_counted_when_missed() {
    let mut world = World::new();
    world.set_rules(
        "groups:\n- name: a\n  interval: 5m\n  eval_offset: 2m\n  rules: [{record: n, expr: x}]\n\
         - name: b\n  interval: 5m\n  eval_delay: 1m\n  rules: [{record: n, expr: y}]\n",
    );
    world.minute = 9;
    for minute in [10, 11, 12, 17, 30] {
        world.minute = minute - 1;
        world.minute();
    }
    let mut times: Vec<i64> =
        world.engine.times.lock().unwrap().iter().map(|time_ns| time_ns / MINUTE).collect();
    times.sort_unstable();
    // Group a: 7, 12, 17, 27; group b, a minute and six seconds behind: 5, 10, 15, 25.
    assert_eq!(times, [5, 7, 10, 12, 15, 17, 25, 27]);
    assert_eq!(world.alerts.totals().missed, 2);
    // The clock is set back by an hour: evaluation goes on at once.
    world.minute = -31;
    world.minute();
    assert_eq!(world.engine.times.lock().unwrap().len(), 10);
}

#[test]
fn who_works_on_an_alert_is_told_to_a_service_of_incidents() {
    for is_of_incidents in [true, false] {
        let mut world = World::with(is_of_incidents);
        world.set_rules(RULES);
        world.series(&["a", "b"]);
        world.minute();
        assert_eq!(world.minute(), ["A:+a+b"]);
        let silence = |comment: &str, host: &str| Silence {
            id: String::new(),
            matchers: vec![Matcher::parse(&format!("h={host}")).unwrap()],
            starts_at_ns: 0,
            ends_at_ns: i64::MAX,
            created_by: "ann".to_owned(),
            comment: comment.to_owned(),
        };
        world.put_silence(silence("Acknowledged", "a"), "s1");
        world.put_silence(silence("upgrade", "b"), "s2");
        // The acknowledgement is told once, and the end of the alert as well.
        let told = if is_of_incidents { vec!["A:+a"] } else { vec![] };
        assert_eq!(world.minute(), told);
        assert!(world.minute().is_empty());
        world.series(&[]);
        let told = if is_of_incidents { vec!["A:-a"] } else { vec![] };
        assert_eq!(world.minute(), told);
        assert!(world.minute().is_empty());
    }
}

#[test]
fn notifications_have_a_line_where_one_is_wanted_and_a_link_to_the_time() {
    for is_wanted in [true, false] {
        let mut world = World::with(is_wanted);
        world.set_rules(RULES);
        world.series(&["a"]);
        world.minute();
        world.minute += 1;
        world.clock.set_minute(world.minute);
        let stop = Stop::default();
        while world.alerts.evaluate_next(&world.engine, &world.output, &stop) {}
        while world.alerts.lock_notifiers()[0].is_busy_with_any() {
            std::thread::yield_now();
        }
        let sent = std::mem::take(&mut world.mailbox.0.lock().unwrap().0);
        let notice = &sent[0].alerts[0];
        assert_eq!(notice.line.as_deref(), is_wanted.then_some("a line of a"));
        // It was seen first at minute 1, over the minute before; it fires at minute 2.
        assert_eq!(
            notice.source_url,
            "http://logs/?query=x&from=1970-01-01T00%3A00%3A00Z&to=1970-01-01T00%3A02%3A00Z"
        );
    }
}

#[test]
fn notifiers_come_and_go_while_rules_run() {
    let mut world = World::new();
    world.set_rules(RULES);
    world.series(&["a"]);
    world.minute();
    assert_eq!(world.minute(), ["A:+a"]);
    let policy = |name: &str, repeat_s: u64| Policy {
        name: name.to_owned(),
        matchers: Vec::new(),
        repeat_interval: Duration::from_secs(repeat_s),
        sends_resolved: true,
        sends_acknowledged: false,
        tells_each: false,
        wants_line: false,
    };
    let start = |policy, mailbox: &Mailbox| {
        let clock = Arc::new(sinks::SystemClock);
        Notifier::start(policy, Box::new(mailbox.clone()), clock, Box::new(|| 0.5)).unwrap()
    };
    // Another one is told at once what fires; the one before is told nothing again.
    let other = Mailbox::default();
    world.alerts.put_notifier(start(policy("other", 600), &other));
    assert!(world.minute().is_empty());
    while world.alerts.lock_notifiers()[1].is_busy_with_any() {
        std::thread::yield_now();
    }
    assert_eq!(other.0.lock().unwrap().0.len(), 1);
    // One in the place of another keeps what was told.
    world.alerts.put_notifier(start(policy("mail", 600), &world.mailbox));
    assert!(world.minute().is_empty());
    assert_eq!(world.alerts.notifiers().len(), 2);
    world.alerts.remove_notifier("other");
    world.alerts.remove_notifier("absent");
    world.series(&[]);
    assert_eq!(world.minute(), ["A:-a"]);
    assert_eq!(world.alerts.notifiers().len(), 1);
    assert_eq!(other.0.lock().unwrap().0.len(), 1);
}

#[test]
fn what_is_refused_is_no_news_that_was_told() {
    let mut world = World::new();
    world.set_rules(RULES);
    world.series(&["a"]);
    world.minute();
    let fault = sinks::Fault::new("answered 400", "");
    world.mailbox.0.lock().unwrap().2.push_back(Sent::Refused(fault));
    assert!(world.minute().is_empty());
    let (_, counts) = world.alerts.notifiers().remove(0);
    assert_eq!((counts.refused, counts.sent), (1, 0));
    assert_eq!(counts.last_error.unwrap().message, "answered 400");
    // The next minute is soon enough for a receiver that refuses.
    let rule_id = world.alerts.groups()[0].group.rules[0].id.clone();
    let notifiers = world.alerts.lock_notifiers();
    assert_eq!(notifiers[0].take_ended().len(), 1);
    assert!(!notifiers[0].may_tell(&rule_id, 2 * MINUTE + 59 * SECOND));
    assert!(notifiers[0].may_tell(&rule_id, 3 * MINUTE));
    drop(notifiers);
    assert_eq!(world.minute(), ["A:+a"]);
    assert!(world.minute().is_empty());
    assert_eq!(world.alerts.notifiers()[0].1.last_error, None);
}

#[test]
fn of_a_notification_that_is_refused_in_part_the_rest_is_told_again() {
    let mut world = World::with(true);
    world.set_rules(RULES);
    world.series(&["a", "b"]);
    world.minute();
    let mut mailbox = world.mailbox.0.lock().unwrap();
    mailbox.2.push_back(Sent::InPart);
    mailbox.2.push_back(Sent::Refused(sinks::Fault::new("answered 400", "")));
    mailbox.3 = BTreeSet::from([0]);
    drop(mailbox);
    assert!(world.minute().is_empty());
    assert_eq!(world.minute(), ["A:+b"]);
    assert!(world.minute().is_empty());
    world.series(&[]);
    assert_eq!(world.minute(), ["A:-a-b"]);
}

#[test]
fn more_alerts_than_a_message_has_are_all_told() {
    for is_of_incidents in [false, true] {
        let mut world = World::with(is_of_incidents);
        world.set_rules(RULES);
        let hosts: Vec<String> = (0..501).map(|n| format!("h{n:03}")).collect();
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        world.series(&hosts);
        world.minute();
        let in_it = if is_of_incidents { 501 } else { 500 };
        for (sign, is_there) in [('+', true), ('-', false)] {
            let series: &[&str] = if is_there { &hosts } else { &[] };
            world.series(series);
            let told = world.minute();
            assert_eq!(told.len(), 1);
            assert_eq!(told[0].matches(sign).count(), in_it);
            assert!(world.minute().is_empty());
        }
    }
}

#[test]
fn news_come_before_what_is_known() {
    let mut world = World::new();
    world.set_rules(RULES);
    let hosts: Vec<String> = (0..500).map(|n| format!("h{n:03}")).collect();
    let mut hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    world.series(&hosts);
    world.minute();
    assert_eq!(world.minute().len(), 1);
    hosts.push("z");
    world.series(&hosts);
    assert!(world.minute().is_empty());
    let told = world.minute();
    assert!(told.len() == 1 && told[0].starts_with("A:+z+"), "{told:?}");
    assert!(world.minute().is_empty());
}

#[test]
fn an_alert_that_ends_during_a_restart_is_told_as_ended() {
    let mut world = World::new();
    world.set_rules(RULES);
    world.series(&["a", "b"]);
    world.minute();
    assert_eq!(world.minute(), ["A:+a+b"]);
    // A crash: that it was delivered is not kept, and that it was sent is.
    let mut crashed = world.restarted(RULES);
    crashed.series(&["b"]);
    assert_eq!(crashed.minute(), ["A:-a+b"]);
    // An orderly end: nothing is told twice.
    world.alerts.close(&world.output);
    let mut next = world.restarted(RULES);
    next.series(&["a", "b"]);
    assert!(next.minute().is_empty());
    let mut next = world.restarted(RULES);
    next.series(&[]);
    assert_eq!(next.minute(), ["A:-a-b"]);
    assert!(next.minute().is_empty());
}

#[test]
fn the_end_is_told_of_what_may_have_arrived() {
    let mut world = World::new();
    world.set_rules(RULES);
    world.series(&["a"]);
    world.minute();
    // It may have arrived, and the answer was lost.
    let fault = sinks::Fault::new("answered 400", "");
    world.mailbox.0.lock().unwrap().2.push_back(Sent::Refused(fault));
    assert!(world.minute().is_empty());
    world.series(&[]);
    assert_eq!(world.minute(), ["A:-a"]);
    assert!(world.minute().is_empty());
}

#[test]
fn a_state_that_cannot_be_kept_is_kept_later() {
    let mut world = World::new();
    world.set_rules(RULES);
    world.series(&["a"]);
    world.output.is_full.store(true, Ordering::SeqCst);
    world.minute();
    assert!(world.output.kept.lock().unwrap().is_empty());
    world.output.is_full.store(false, Ordering::SeqCst);
    world.alerts.close(&world.output);
    assert_eq!(world.restarted(RULES).states()[0].1, State::Pending);
}

#[test]
fn the_end_of_an_alert_is_told_behind_a_silence_of_days() {
    let mut world = World::new();
    world.set_rules(RULES);
    world.series(&["a"]);
    world.minute();
    assert_eq!(world.minute(), ["A:+a"]);
    let silence = Silence {
        id: String::new(),
        matchers: vec![Matcher::parse("h=a").unwrap()],
        starts_at_ns: 0,
        ends_at_ns: 40 * 60 * MINUTE,
        created_by: String::new(),
        comment: String::new(),
    };
    world.put_silence(silence, "s1");
    world.series(&[]);
    for hour in 1..40 {
        world.minute = hour * 60 - 1;
        assert!(world.minute().is_empty());
    }
    world.minute = 40 * 60;
    assert_eq!(world.minute(), ["A:-a"]);
    assert!(world.minute().is_empty());
}

#[test]
fn what_a_notifier_delivered_counts_when_another_takes_its_place() {
    let mut world = World::new();
    world.set_rules(RULES);
    world.series(&["a"]);
    world.minute();
    assert_eq!(world.minute(), ["A:+a"]);
    let policy = world.alerts.lock_notifiers()[0].policy().clone();
    let clock = Arc::new(sinks::SystemClock);
    let channel = Box::new(world.mailbox.clone());
    let other = Notifier::start(policy, channel, clock, Box::new(|| 0.5)).unwrap();
    world.alerts.put_notifier(other);
    assert!(world.minute().is_empty());
}

#[test]
fn a_silence_that_cannot_be_kept_silences_nothing() {
    let world = World::new();
    let silence = Silence {
        id: String::new(),
        matchers: vec![Matcher::parse("h=a").unwrap()],
        starts_at_ns: 0,
        ends_at_ns: i64::MAX,
        created_by: String::new(),
        comment: String::new(),
    };
    let full = |_: &Silences| Err(SilenceError::Full);
    world.alerts.put_silence(silence.clone(), "s1", full).unwrap_err();
    assert!(world.alerts.silences().is_empty());
    world.put_silence(silence, "s1");
    world.alerts.end_silence("s1", full).unwrap_err();
    assert_eq!(world.alerts.silences()[0].ends_at_ns, i64::MAX);
}
