//! An incident whose cause is in another log than its symptom.
//!
//! A dump job on `db1` fills the disk; the kernel and then PostgreSQL complain; PostgreSQL runs out
//! of connections; the `orders` service gets none and fails; nginx answers `/api/orders` with 500
//! for some ninety seconds, until somebody deletes the dump. An operator sees the burst of 500s
//! first, and has to find the way back.

use std::time::Duration;

use super::clock::{SECOND_NS, append};
use super::templates::Template;
use super::world::{Context, HOSTS, Said, Severity, facility, place};
use super::{database, orders, web};

/// When incidents happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Never.
    None,
    /// One per period, the first [`FIRST_AFTER`] after the start; also in the history before it.
    Every(Duration),
    /// One 22 minutes before the start, the next three minutes after it, and so on every 25
    /// minutes.
    Demo,
    /// Once, this long after the start; negative: in the history.
    At(i64),
}

/// Time from the start to the first incident of [`Plan::Every`].
const FIRST_AFTER: Duration = Duration::from_secs(180);
/// Period of [`Plan::Demo`].
const DEMO_PERIOD: Duration = Duration::from_secs(25 * 60);
/// Shortest period: an incident ends before the next begins.
const PERIOD_MIN: Duration = Duration::from_secs(300);

/// Parses a plan: `none`, `demo`, `every 15m`, `at 2m`, `at -20m`.
pub fn parse_plan(text: &str) -> Result<Plan, String> {
    let duration = |text: &str| text::duration::parse_setting(text);
    match text.trim() {
        "none" => Ok(Plan::None),
        "demo" => Ok(Plan::Demo),
        text => match text.split_once(' ') {
            Some(("every", period)) => match duration(period)? {
                period if period < PERIOD_MIN => {
                    Err("an incident takes up to five minutes; give a period of at least 5m".into())
                }
                period => Ok(Plan::Every(period)),
            },
            Some(("at", after)) => {
                let (sign, after) = match after.trim().strip_prefix('-') {
                    Some(before) => (-1, before),
                    None => (1, after),
                };
                let ns = i64::try_from(duration(after)?.as_nanos()).map_err(|_| "too long")?;
                Ok(Plan::At(sign * ns))
            }
            _ => Err(format!(
                "'{text}' is not a plan; write none, demo, 'every 15m', 'at 2m' or 'at -20m'"
            )),
        },
    }
}

/// The time when the database is out of order, relative to the full disk.
const FAILING_NS: std::ops::Range<i64> = 4 * SECOND_NS..92 * SECOND_NS;

/// Lines that each incident has once: the time in milliseconds after the full disk, the host, and
/// the template.
const SCRIPT: [(i64, &str, Template); 15] = [
    (-150_000, "db1", dump_begins),
    (-148_500, "db1", dump_says),
    (-90_000, "db1", disk_91),
    (-45_000, "db1", disk_96),
    (-10_000, "db1", disk_99),
    (0, "db1", kernel_full),
    (300, "db1", database::cannot_extend),
    (900, "db1", database::cannot_extend),
    (2_000, "db1", database::no_slots),
    (2_400, "db1", database::no_slots),
    (82_000, "db1", dump_deleted),
    (84_000, "db1", disk_61),
    (86_000, "db1", database::recovered),
    (92_100, "app1", orders::recovered),
    (92_700, "app2", orders::recovered),
];
const SCRIPT_BEGINS_NS: i64 = SCRIPT[0].0 * 1_000_000;
const SCRIPT_ENDS_NS: i64 = SCRIPT[SCRIPT.len() - 1].0 * 1_000_000;

/// Failed orders in a hundred lines while the database is out of order, each followed by nginx's
/// line.
const FAILED_ORDERS_PERCENT: u32 = 10;
/// The same for lines of the database.
const DATABASE_PERCENT: u32 = 3;

/// Follows the plan over time.
pub struct Incident {
    plan: Plan,
    live_ns: i64,
    /// The current incident, by the time of its full disk, and the next line of its script.
    playing: Option<(i64, usize)>,
    /// The order whose failure nginx has not logged yet.
    failed_order: Option<u32>,
}

/// A line of an incident.
pub enum Line {
    /// On this host (index in [`HOSTS`]), by this template.
    Template(usize, Template),
    /// nginx on this host, for this order.
    FailedOrder(usize, u32),
    /// `orders` on this host, for this order.
    NoConnection(usize, u32),
}

impl Incident {
    /// A plan, with the time when the live lines start.
    pub fn new(plan: Plan, live_ns: i64) -> Self {
        Incident { plan, live_ns, playing: None, failed_order: None }
    }

    /// Whether the database is out of order at `time_ns`.
    pub fn is_failing(&self, time_ns: i64) -> bool {
        self.near(time_ns).is_some_and(|full_ns| FAILING_NS.contains(&(time_ns - full_ns)))
    }

    /// The line of an incident at `time_ns`, instead of an ordinary one. Call it in order of time.
    pub fn line(&mut self, time_ns: i64, rng: &mut fastrand::Rng) -> Option<Line> {
        let full_ns = self.near(time_ns)?;
        let since_full_ns = time_ns - full_ns;
        let next = match self.playing {
            Some((playing, next)) if playing == full_ns => next,
            // Begun in the middle: the earlier lines of the script come first.
            _ => 0,
        };
        self.playing = Some((full_ns, next));
        if let Some(&(at_ms, host, template)) = SCRIPT.get(next)
            && at_ms * 1_000_000 <= since_full_ns
        {
            self.playing = Some((full_ns, next + 1));
            return Some(Line::Template(place(host), template));
        }
        if let Some(order) = self.failed_order.take() {
            let host = ["web1", "web1", "web2", "web3"][rng.usize(..4)];
            return Some(Line::FailedOrder(place(host), order));
        }
        if !FAILING_NS.contains(&since_full_ns) {
            return None;
        }
        match rng.u32(..100) {
            n if n < FAILED_ORDERS_PERCENT => {
                let order = rng.u32(10_000..99_999);
                self.failed_order = Some(order);
                let host = if rng.bool() { "app1" } else { "app2" };
                Some(Line::NoConnection(place(host), order))
            }
            n if n < FAILED_ORDERS_PERCENT + DATABASE_PERCENT => {
                Some(Line::Template(place("db1"), database::out_of_order))
            }
            _ => None,
        }
    }

    /// The incident that `time_ns` falls into, by the time of its full disk. Its script may still
    /// have lines that are a little late.
    fn near(&self, time_ns: i64) -> Option<i64> {
        let late_ns = 20 * SECOND_NS;
        let full_ns = match self.plan {
            Plan::None => return None,
            Plan::At(after_ns) => self.live_ns.saturating_add(after_ns),
            Plan::Every(period) => self.near_period(time_ns, period),
            Plan::Demo => {
                let full_ns = self.near_period(time_ns, DEMO_PERIOD);
                // One incident in the history is enough.
                if full_ns < self.live_ns - DEMO_PERIOD.as_nanos() as i64 {
                    return None;
                }
                full_ns
            }
        };
        let begun = time_ns >= full_ns.saturating_add(SCRIPT_BEGINS_NS);
        let over = time_ns > full_ns.saturating_add(SCRIPT_ENDS_NS + late_ns);
        (begun && !over).then_some(full_ns)
    }

    /// The last incident of a period whose script has begun at `time_ns`.
    fn near_period(&self, time_ns: i64, period: Duration) -> i64 {
        let period_ns = period.as_nanos() as i64;
        let first_ns = self.live_ns + FIRST_AFTER.as_nanos() as i64;
        let since_ns = time_ns - SCRIPT_BEGINS_NS - first_ns;
        first_ns + since_ns.div_euclid(period_ns) * period_ns
    }
}

impl Line {
    /// The host of the line, as an index in [`HOSTS`].
    pub fn host(&self) -> usize {
        match *self {
            Line::Template(host, _) | Line::FailedOrder(host, _) | Line::NoConnection(host, _) => {
                host
            }
        }
    }

    /// Writes the message.
    pub fn write(&self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Said {
        match *self {
            Line::Template(_, template) => template(cx, out),
            Line::FailedOrder(_, order) => web::failed_order(cx, out, order),
            Line::NoConnection(_, order) => orders::failed(cx, out, order),
        }
    }
}

fn dump_begins(cx: &mut Context<'_>, out: &mut Vec<u8>) -> Said {
    append(
        out,
        format_args!(
            "(postgres) CMD (/usr/local/bin/dump-shop --all --to /var/lib/postgresql/dumps)"
        ),
    );
    let pid = cx.pid("cron") + 11;
    Said { app: "CRON", pid, facility: facility::CRON, severity: Severity::Info }
}

fn dump_says(cx: &mut Context<'_>, out: &mut Vec<u8>) -> Said {
    append(
        out,
        format_args!(
            "dumping 412 tables to /var/lib/postgresql/dumps/shop-full.sql (uncompressed)"
        ),
    );
    let pid = cx.pid("cron") + 12;
    Said { app: "dump-shop", pid, facility: facility::DAEMON, severity: Severity::Info }
}

fn disk(cx: &Context<'_>, out: &mut Vec<u8>, percent: u32, severity: Severity) -> Said {
    append(out, format_args!("/var on {} is {percent}% full", HOSTS[cx.host].name));
    Said { app: "disk-watch", pid: cx.pid("disk-watch"), facility: facility::DAEMON, severity }
}

fn disk_91(cx: &mut Context<'_>, out: &mut Vec<u8>) -> Said {
    disk(cx, out, 91, Severity::Warning)
}

fn disk_96(cx: &mut Context<'_>, out: &mut Vec<u8>) -> Said {
    disk(cx, out, 96, Severity::Warning)
}

fn disk_99(cx: &mut Context<'_>, out: &mut Vec<u8>) -> Said {
    disk(cx, out, 99, Severity::Critical)
}

fn disk_61(cx: &mut Context<'_>, out: &mut Vec<u8>) -> Said {
    disk(cx, out, 61, Severity::Notice)
}

fn kernel_full(cx: &mut Context<'_>, out: &mut Vec<u8>) -> Said {
    cx.stamp.uptime(out);
    append(
        out,
        format_args!(
            " EXT4-fs (dm-2): Delayed block allocation failed for inode 1311042 at logical offset 8192 with max blocks 2048 with error 28"
        ),
    );
    Said { app: "kernel", pid: 0, facility: facility::KERN, severity: Severity::Critical }
}

fn dump_deleted(cx: &mut Context<'_>, out: &mut Vec<u8>) -> Said {
    append(
        out,
        format_args!(
            "anna : TTY=pts/0 ; PWD=/root ; USER=root ; COMMAND=/usr/bin/rm /var/lib/postgresql/dumps/shop-full.sql"
        ),
    );
    Said {
        app: "sudo",
        pid: cx.pid("sshd") + 77,
        facility: facility::AUTHPRIV,
        severity: Severity::Notice,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_NS: i64 = 60 * SECOND_NS;

    #[test]
    fn plans() {
        for (text, expected) in [
            ("none", Some(Plan::None)),
            ("demo", Some(Plan::Demo)),
            ("every 15m", Some(Plan::Every(Duration::from_secs(900)))),
            ("every 5m", Some(Plan::Every(PERIOD_MIN))),
            ("every 299s", None),
            ("at 2m", Some(Plan::At(2 * MINUTE_NS))),
            ("at -20m", Some(Plan::At(-20 * MINUTE_NS))),
            ("15m", None),
            ("every", None),
            ("", None),
        ] {
            assert_eq!(parse_plan(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn the_demo_has_an_incident_in_its_history_and_one_soon() {
        let live_ns = 1_000_000 * SECOND_NS;
        let incident = Incident::new(parse_plan("demo").unwrap(), live_ns);
        for (minutes, failing) in [
            (-48, false),
            (-46, false),
            (-25, false),
            (-21, true),
            (-19, false),
            (0, false),
            (4, true),
            (6, false),
        ] {
            assert_eq!(incident.is_failing(live_ns + minutes * MINUTE_NS), failing, "{minutes}");
        }
    }

    #[test]
    fn an_incident_at_a_time_is_played_once() {
        let mut incident = Incident::new(Plan::At(5 * MINUTE_NS), 0);
        let mut rng = fastrand::Rng::with_seed(1);
        let mut lines = 0;
        for second in -600..1_200 {
            let mut said = false;
            while let Some(line) = incident.line(second * SECOND_NS, &mut rng) {
                // In reality there is one call per line; here it is repeated until nothing is due.
                said = true;
                lines += i32::from(matches!(line, Line::Template(host, _) if host == place("db1")));
                if incident.is_failing(second * SECOND_NS) {
                    break;
                }
            }
            assert!(!said || (145..=420).contains(&second), "{second}");
        }
        assert!(lines >= 13, "{lines}");
    }
}
