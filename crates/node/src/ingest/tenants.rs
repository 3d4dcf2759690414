//! Tenants of the configuration: their names, their limits, and what each has sent.
//!
//! Without `[[tenants]]` all of this is off, and costs nothing. With it, only the tenants of the
//! configuration exist, and the default one; so everything that is kept for each has a bound.
//!
//! A tenant beyond its rate is pushed back: requests over HTTP are refused before their body is
//! read, connections wait, and datagrams, whose senders cannot be pushed back, are left out and
//! counted. Frames of one listener wait together, whoever's lines they hold.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use collector::{Deliver, KeepError, OnDurable, Patience};
use record::frame::LineChange;
use record::{Frame, Tenant, Transport};
use serde::{Deserialize, Serialize};

/// Tenants of a configuration. More are an error when it is read.
///
/// limits.md, Lines on their way in: tenants | {} | the configuration is refused
pub const TENANTS_MAX: usize = 1_000;
/// Length of a tenant's name.
pub const NAME_BYTES_MAX: usize = 64;
/// The name of the default tenant, unless the configuration gives it another.
pub const DEFAULT_NAME: &str = "default";
/// Days of which it is kept what each tenant used. Older ones are forgotten.
///
/// limits.md, Lines on their way in: days of which the use of each tenant is kept | {} | older days
/// are forgotten
pub const DAYS_MAX: usize = 62;
/// Nanoseconds of a day.
const DAY_NS: i64 = 86_400 * 1_000_000_000;
/// How much more than its rate a tenant may send at once: what it may send in this time.
const BURST: Duration = Duration::from_secs(1);

/// The listeners whose lines can be those of a tenant, as the configuration calls them.
pub const LISTENERS: [(&str, Transport); 9] = [
    ("syslog_udp", Transport::SyslogUdp),
    ("syslog_tcp", Transport::SyslogTcp),
    ("syslog_tls", Transport::SyslogTls),
    ("fluent", Transport::Fluent),
    ("beats", Transport::Beats),
    ("relp", Transport::Relp),
    ("statsd", Transport::Statsd),
    ("kafka", Transport::Kafka),
    ("journald", Transport::Journald),
];

/// A tenant, as the configuration describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantOptions {
    /// Its numbers.
    pub id: Tenant,
    /// Its name.
    pub name: Option<String>,
    /// Listeners whose lines are those of this tenant.
    pub listeners: Vec<Transport>,
    /// How many bytes of lines it may send a second; none: any.
    pub bytes_per_s: Option<u64>,
    /// How many lines it may send a second; none: any.
    pub lines_per_s: Option<u64>,
    /// How many queries of its lines may run or wait at once; none: any.
    pub queries_max: Option<usize>,
    /// Memory of a query of its lines; none: as of all others.
    pub query_memory_bytes_max: Option<u64>,
    /// How many tails of its lines may run at once; none: any.
    pub tails_max: Option<usize>,
    /// How many background queries of its lines may wait, run or be paused; none: any.
    pub background_max: Option<usize>,
    /// Bytes of the results of its background queries, beyond which no other begins; none: any.
    pub results_bytes_max: Option<u64>,
    /// Bytes of disk that its sealed lines may take, beyond which the oldest go; none: any.
    pub disk_bytes_max: Option<u64>,
}

/// The tenants of a configuration.
#[derive(Debug, Default)]
pub struct Tenants {
    /// Empty if there are no tenants.
    known: Vec<Known>,
    by_id: HashMap<Tenant, usize, foldhash::fast::RandomState>,
    by_name: BTreeMap<String, usize>,
    closing: Mutex<bool>,
    closed: Condvar,
}

#[derive(Debug)]
struct Known {
    options: TenantOptions,
    rate: Mutex<Rate>,
    counts: TenantCounts,
    /// Queries that run or wait, and tails that run, by [`QueryKind`].
    queries: [AtomicUsize; 2],
    /// By days since 1970 UTC.
    days: Mutex<BTreeMap<i64, DayUse>>,
}

/// What a tenant used in a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DayUse {
    /// Lines that were taken, by their arrival.
    pub lines: u64,
    /// Bytes of these lines, with their newlines.
    pub bytes: u64,
    /// Queries of its lines alone that ended.
    pub queries: u64,
    /// Lines that these looked at.
    pub lines_scanned: u64,
    /// Bytes that these looked at.
    pub bytes_scanned: u64,
}

/// Kinds of queries that a tenant has so many of at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryKind {
    /// Queries that somebody waits for.
    Awaited,
    /// Live tails.
    Tail,
}

impl QueryKind {
    /// The key of the limit.
    pub fn key(self) -> &'static str {
        match self {
            QueryKind::Awaited => "queries_max",
            QueryKind::Tail => "tails_max",
        }
    }
}

/// What a tenant has sent since the start.
#[derive(Debug, Default)]
pub struct TenantCounts {
    /// Lines that were taken.
    pub lines: AtomicU64,
    /// Bytes of these lines, with their newlines.
    pub bytes: AtomicU64,
    /// Requests that were refused because the tenant was beyond its rate.
    pub refused_requests: AtomicU64,
    /// Lines of datagrams that were left out for the same reason.
    pub dropped_lines: AtomicU64,
    /// Milliseconds that connections waited for the same reason.
    pub waited_ms: AtomicU64,
    /// Queries, tails and background queries that were refused because the tenant had as many as
    /// it may.
    pub refused_queries: AtomicU64,
    /// Lines that were chosen to be deleted because the tenant was beyond its limit of disk.
    pub evicted_lines: AtomicU64,
    /// Bytes of these lines, with their newlines.
    pub evicted_bytes: AtomicU64,
}

/// How far a tenant is ahead of its rate, each as the time that it takes to be on it again.
#[derive(Debug, Default)]
struct Rate {
    bytes: Duration,
    lines: Duration,
    at: Option<Instant>,
}

impl Rate {
    fn pass(&mut self, now: Instant) {
        let passed = self.at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.at = Some(now);
        self.bytes = self.bytes.saturating_sub(passed);
        self.lines = self.lines.saturating_sub(passed);
    }

    /// How long the tenant has to wait.
    fn wait(&mut self, now: Instant) -> Option<Duration> {
        self.pass(now);
        self.bytes.max(self.lines).checked_sub(BURST).filter(|wait| !wait.is_zero())
    }

    fn take(&mut self, options: &TenantOptions, lines: u64, bytes: u64, now: Instant) {
        self.pass(now);
        let time = |count: u64, per_s: Option<u64>| match per_s {
            Some(per_s) => Duration::from_secs_f64(count as f64 / per_s.max(1) as f64),
            None => Duration::ZERO,
        };
        self.bytes += time(bytes, options.bytes_per_s);
        self.lines += time(lines, options.lines_per_s);
    }
}

/// Lines and bytes of a tenant in a frame.
type Share = (Tenant, u64, u64);

impl Tenants {
    /// These tenants. The default one is added if it is not among them, unless there are none.
    ///
    /// # Errors
    /// Which of them is wrong, and what to change.
    pub fn new(options: Vec<TenantOptions>) -> Result<Tenants, String> {
        let mut all = options;
        if all.len() > TENANTS_MAX {
            return Err(format!("{} tenants, but there can be {TENANTS_MAX}", all.len()));
        }
        if !all.is_empty() && all.iter().all(|tenant| !tenant.id.is_default()) {
            all.push(TenantOptions::default());
        }
        let mut tenants = Tenants::default();
        let mut listeners: Vec<Transport> = Vec::new();
        for (index, mut options) in all.into_iter().enumerate() {
            let id = options.id;
            if id.is_default() && options.name.is_none() {
                options.name = Some(DEFAULT_NAME.to_owned());
            }
            if tenants.by_id.insert(id, index).is_some() {
                return Err(format!("the tenant {id} is there twice"));
            }
            if let Some(name) = &options.name {
                check_name(name)?;
                if tenants.by_name.insert(name.clone(), index).is_some() {
                    return Err(format!("two tenants have the name '{name}'"));
                }
            }
            if options.bytes_per_s == Some(0)
                || options.lines_per_s == Some(0)
                || options.queries_max == Some(0)
                || options.query_memory_bytes_max == Some(0)
                || options.tails_max == Some(0)
                || options.background_max == Some(0)
                || options.results_bytes_max == Some(0)
                || options.disk_bytes_max == Some(0)
            {
                return Err(format!("a limit of the tenant {id} is 0; leave it out for no limit"));
            }
            for listener in &options.listeners {
                if listeners.contains(listener) {
                    let named = LISTENERS.iter().find(|(_, transport)| transport == listener);
                    let name = named.map_or("?", |(name, _)| *name);
                    return Err(format!(
                        "the listener {name} is given to two tenants; tell their lines apart by \
                         [[rules]] with 'tenant' instead"
                    ));
                }
                listeners.push(*listener);
            }
            let (rate, counts) = (Mutex::default(), TenantCounts::default());
            let (queries, days) = (Default::default(), Mutex::default());
            tenants.known.push(Known { options, rate, counts, queries, days });
        }
        Ok(tenants)
    }

    /// Only the default tenant.
    pub fn of_default() -> Tenants {
        let only = Tenants::new(vec![TenantOptions::default()]);
        only.expect("nothing is wrong with the default tenant")
    }

    /// Whether there are no tenants: all lines are those of the default one, and nobody is
    /// restricted.
    pub fn is_off(&self) -> bool {
        self.known.is_empty()
    }

    /// The tenant of that name or id.
    ///
    /// # Errors
    /// There is none.
    pub fn find(&self, text: &str) -> Result<Tenant, String> {
        let index = match self.by_name.get(text) {
            Some(index) => Some(*index),
            None => text.parse().ok().and_then(|id: Tenant| self.by_id.get(&id).copied()),
        };
        index.map(|index| self.known[index].options.id).ok_or_else(|| {
            format!("there is no tenant '{text}'; [[tenants]] of the configuration lists all")
        })
    }

    /// A place for a query of the lines of a tenant, until it is dropped.
    ///
    /// # Errors
    /// So many run or wait, which is the limit. The query counts as refused.
    pub fn begin_query(
        self: &Arc<Self>,
        tenant: Tenant,
        kind: QueryKind,
    ) -> Result<QueryPlace, usize> {
        let Some(index) = self.by_id.get(&tenant).copied() else { return Ok(QueryPlace(None)) };
        let known = &self.known[index];
        let place = QueryPlace(Some((Arc::clone(self), index, kind)));
        let before = known.queries[kind as usize].fetch_add(1, Relaxed);
        let limit = match kind {
            QueryKind::Awaited => known.options.queries_max,
            QueryKind::Tail => known.options.tails_max,
        };
        match limit {
            Some(limit) if before >= limit => {
                self.note_refusal(tenant);
                Err(limit)
            }
            _ => Ok(place),
        }
    }

    /// Counts a query of the lines of a tenant that was refused by one of its limits.
    pub fn note_refusal(&self, tenant: Tenant) {
        if let Some(known) = self.of(tenant) {
            known.counts.refused_queries.fetch_add(1, Relaxed);
        }
    }

    /// Queries of that kind that run or wait.
    pub fn queries_now(&self, tenant: Tenant, kind: QueryKind) -> usize {
        self.of(tenant).map_or(0, |known| known.queries[kind as usize].load(Relaxed))
    }

    /// What the configuration says of a tenant.
    pub fn options(&self, tenant: Tenant) -> Option<&TenantOptions> {
        self.of(tenant).map(|known| &known.options)
    }

    /// Notes that a query of the lines of a tenant has ended.
    pub fn note_query(&self, tenant: Tenant, now_ns: i64, lines: u64, bytes: u64) {
        self.count(tenant, now_ns, |used| {
            used.queries += 1;
            used.lines_scanned += lines;
            used.bytes_scanned += bytes;
        });
    }

    fn count(&self, tenant: Tenant, now_ns: i64, change: impl FnOnce(&mut DayUse)) {
        let Some(known) = self.of(tenant) else { return };
        let mut days = lock(&known.days);
        change(days.entry(now_ns.div_euclid(DAY_NS)).or_default());
        while days.len() > DAYS_MAX {
            days.pop_first();
        }
    }

    /// What a tenant used, by days since 1970 UTC.
    pub fn days(&self, tenant: Tenant) -> BTreeMap<i64, DayUse> {
        self.of(tenant).map(|known| lock(&known.days).clone()).unwrap_or_default()
    }

    /// What all tenants used, as a document.
    pub fn days_document(&self) -> Vec<u8> {
        let all = self
            .known
            .iter()
            .map(|known| (known.options.id.to_string(), lock(&known.days).clone()));
        let all: BTreeMap<String, BTreeMap<i64, DayUse>> = all.collect();
        serde_json::to_vec(&all).expect("it is plain values")
    }

    /// Continues with what tenants used before. Tenants that are no more are left out.
    ///
    /// # Errors
    /// It is not such a document; then nothing is known of before.
    pub fn resume_days(&self, document: &[u8]) -> Result<(), String> {
        let all: BTreeMap<String, BTreeMap<i64, DayUse>> =
            serde_json::from_slice(document).map_err(|error| error.to_string())?;
        for (id, days) in all {
            if let Some(known) = id.parse().ok().and_then(|id| self.of(id)) {
                *lock(&known.days) = days;
            }
        }
        Ok(())
    }

    /// All tenants with what each has sent.
    pub fn all(&self) -> impl Iterator<Item = (&TenantOptions, &TenantCounts)> {
        self.known.iter().map(|known| (&known.options, &known.counts))
    }

    fn of(&self, tenant: Tenant) -> Option<&Known> {
        self.by_id.get(&tenant).map(|index| &self.known[*index])
    }

    /// How long the sender of a request has to wait, because its tenant is beyond its rate. The
    /// request counts as refused.
    pub fn refusal(&self, tenant: Tenant, now: Instant) -> Option<Duration> {
        let known = self.of(tenant)?;
        let wait = lock(&known.rate).wait(now)?;
        known.counts.refused_requests.fetch_add(1, Relaxed);
        Some(wait)
    }

    fn wait(&self, tenant: Tenant, now: Instant) -> Option<Duration> {
        lock(&self.of(tenant)?.rate).wait(now)
    }

    fn take(&self, &(tenant, lines, bytes): &Share, now: Instant) {
        let Some(known) = self.of(tenant) else { return };
        lock(&known.rate).take(&known.options, lines, bytes, now);
        known.counts.lines.fetch_add(lines, Relaxed);
        known.counts.bytes.fetch_add(bytes, Relaxed);
    }

    /// Waits until all these tenants are on their rates, or the process stops.
    fn wait_for(&self, shares: &[Share]) {
        let longest = |now| {
            let waits = shares.iter().filter_map(|share| Some((self.wait(share.0, now)?, share.0)));
            waits.max()
        };
        while let Some((wait, tenant)) = longest(Instant::now()) {
            let closing = lock(&self.closing);
            if *closing {
                return;
            }
            let began = Instant::now();
            let waited = self.closed.wait_timeout(closing, wait);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
            if let Some(known) = self.of(tenant) {
                known.counts.waited_ms.fetch_add(began.elapsed().as_millis() as u64, Relaxed);
            }
        }
    }

    /// Nobody waits any more: the process stops.
    pub fn close(&self) {
        *lock(&self.closing) = true;
        self.closed.notify_all();
    }

    /// The tenant of lines that arrive at a listener.
    fn of_listener(&self, transport: Transport) -> Option<Tenant> {
        let mut known = self.known.iter();
        let known = known.find(|known| known.options.listeners.contains(&transport))?;
        Some(known.options.id)
    }
}

/// The place of a query of a tenant.
#[derive(Debug)]
pub struct QueryPlace(Option<(Arc<Tenants>, usize, QueryKind)>);

impl Drop for QueryPlace {
    fn drop(&mut self) {
        if let Some((tenants, index, kind)) = &self.0 {
            tenants.known[*index].queries[*kind as usize].fetch_sub(1, Relaxed);
        }
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphabetic());
    match begins_well && name.len() <= NAME_BYTES_MAX && name.chars().all(is_letter) {
        true if !["all", "named"].contains(&name) => Ok(()),
        _ => Err(format!(
            "'{name}' is not the name of a tenant: it begins with a letter, and has letters, \
             digits, '.', '_' or '-', at most {NAME_BYTES_MAX}; 'all' and 'named' have a meaning \
             of their own"
        )),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives lines of listeners their tenants, and hands frames on.
struct AssigningDelivery {
    to: Arc<dyn Deliver>,
    tenants: Arc<Tenants>,
}

/// Counts the lines of each tenant, keeps tenants to their rates, and hands frames on.
struct MeteredDelivery {
    to: Arc<dyn Deliver>,
    tenants: Arc<Tenants>,
}

impl AssigningDelivery {
    /// Delivers to `to`; in front of the rules at ingest.
    fn new(to: Arc<dyn Deliver>, tenants: Arc<Tenants>) -> AssigningDelivery {
        AssigningDelivery { to, tenants }
    }
}

impl MeteredDelivery {
    /// Delivers to `to`; behind the rules at ingest.
    fn new(to: Arc<dyn Deliver>, tenants: Arc<Tenants>) -> MeteredDelivery {
        MeteredDelivery { to, tenants }
    }
}

impl Deliver for AssigningDelivery {
    fn next_sequence(&self) -> (u32, u64) {
        self.to.next_sequence()
    }

    fn mark(&self) -> u64 {
        self.to.mark()
    }

    fn deliver(
        &self,
        mut frame: Frame,
        on_durable: OnDurable,
        patience: Patience,
    ) -> Result<(), KeepError> {
        // A token or a rule may have said before whose lines they are.
        frame.assign_tenants(|origin| match origin.hints.tenant.is_default() {
            true => self.tenants.of_listener(origin.transport),
            false => None,
        });
        self.to.deliver(frame, on_durable, patience)
    }

    fn has_room(&self) -> bool {
        self.to.has_room()
    }

    fn is_spooling(&self) -> bool {
        self.to.is_spooling()
    }

    fn refusal(&self) -> Option<KeepError> {
        self.to.refusal()
    }
}

impl Deliver for MeteredDelivery {
    fn next_sequence(&self) -> (u32, u64) {
        self.to.next_sequence()
    }

    fn mark(&self) -> u64 {
        self.to.mark()
    }

    fn deliver(
        &self,
        frame: Frame,
        on_durable: OnDurable,
        patience: Patience,
    ) -> Result<(), KeepError> {
        let mut shares = shares(&frame);
        let arrived_ns = frame.header().received_max_ns;
        let transports = || frame.origins().iter().map(|origin| origin.transport);
        let is_datagram = |t| matches!(t, Transport::SyslogUdp | Transport::Statsd);
        // Requests were refused before their lines were read, if need be.
        let is_request = |t| matches!(t, Transport::Http | Transport::File);
        let mut left = Some(frame.clone());
        if transports().any(is_datagram) {
            let now = Instant::now();
            let (over, kept): (Vec<Share>, Vec<Share>) =
                shares.iter().partition(|share| self.tenants.wait(share.0, now).is_some());
            if !over.is_empty() {
                left = without(&frame, &over);
            }
            for (tenant, lines, _) in over {
                if let Some(known) = self.tenants.of(tenant) {
                    known.counts.dropped_lines.fetch_add(lines, Relaxed);
                }
            }
            shares = kept;
        } else if patience == Patience::Unlimited || !transports().all(is_request) {
            self.tenants.wait_for(&shares);
        }
        drop(frame);
        let now = Instant::now();
        for share in &shares {
            self.tenants.take(share, now);
            self.tenants.count(share.0, arrived_ns, |used| {
                used.lines += share.1;
                used.bytes += share.2;
            });
        }
        match left {
            Some(frame) => self.to.deliver(frame, on_durable, patience),
            None => {
                on_durable(Ok(()));
                Ok(())
            }
        }
    }

    fn has_room(&self) -> bool {
        self.to.has_room()
    }

    fn is_spooling(&self) -> bool {
        self.to.is_spooling()
    }

    fn refusal(&self) -> Option<KeepError> {
        self.to.refusal()
    }
}

/// The way of frames to `to`: lines of listeners get their tenants, then `ruled` makes what stands
/// between, then tenants are kept to their rates. Without tenants, only the middle is there.
pub fn delivery(
    to: Arc<dyn Deliver>,
    tenants: &Arc<Tenants>,
    ruled: impl FnOnce(Arc<dyn Deliver>) -> Arc<dyn Deliver>,
) -> Arc<dyn Deliver> {
    if tenants.is_off() {
        return ruled(to);
    }
    let metered = Arc::new(MeteredDelivery::new(to, Arc::clone(tenants)));
    Arc::new(AssigningDelivery::new(ruled(metered), Arc::clone(tenants)))
}

/// Lines and bytes of each tenant in a frame.
fn shares(frame: &Frame) -> Vec<Share> {
    let mut shares: Vec<Share> = Vec::new();
    for run in frame.runs() {
        let tenant = frame.origins()[usize::from(run.origin)].hints.tenant;
        let (lines, bytes) = (u64::from(run.lines), u64::from(run.bytes));
        match shares.iter_mut().find(|share| share.0 == tenant) {
            Some(share) => (share.1, share.2) = (share.1 + lines, share.2 + bytes),
            None => shares.push((tenant, lines, bytes)),
        }
    }
    shares
}

/// The frame without the lines of these tenants; none if no line is left.
fn without(frame: &Frame, over: &[Share]) -> Option<Frame> {
    let dropped = LineChange { dropped: true, ..LineChange::default() };
    let is_over = |tenant: Tenant| over.iter().any(|share| share.0 == tenant);
    let lines = frame.lines().filter(|line| is_over(line.origin.hints.tenant));
    let indexes: Vec<u32> = lines.map(|line| line.index).collect();
    frame.rewritten(indexes.into_iter().map(|index| (index, &dropped)))
}

#[cfg(test)]
mod tests {
    use record::{Format, FrameBuilder, Hints, Origin};

    use super::*;

    const SHOP: Tenant = Tenant { account: 12, project: 3 };
    const BANK: Tenant = Tenant { account: 13, project: 0 };

    fn options(id: Tenant, name: &str) -> TenantOptions {
        TenantOptions { id, name: Some(name.to_owned()), ..TenantOptions::default() }
    }

    #[test]
    fn tenants_are_found_by_name_and_id() {
        let tenants = Tenants::new(vec![options(SHOP, "shop")]).unwrap();
        for (text, expected) in [
            ("shop", Some(SHOP)),
            ("12:3", Some(SHOP)),
            ("default", Some(Tenant::DEFAULT)),
            ("0:0", Some(Tenant::DEFAULT)),
            ("0", Some(Tenant::DEFAULT)),
            ("12", None),
            ("bank", None),
            ("", None),
        ] {
            assert_eq!(tenants.find(text).ok(), expected, "{text}");
        }
        assert!(!tenants.is_off() && Tenants::new(Vec::new()).unwrap().is_off());
        assert!(Tenants::default().find("0:0").is_err());
    }

    #[test]
    fn mistakes_are_named() {
        let listens =
            |id, name| TenantOptions { listeners: vec![Transport::Beats], ..options(id, name) };
        let slow = TenantOptions { lines_per_s: Some(0), ..options(SHOP, "shop") };
        for (tenants, expected) in [
            (vec![options(SHOP, "a"), options(SHOP, "b")], "12:3 is there twice"),
            (vec![options(SHOP, "a"), options(BANK, "a")], "two tenants have the name 'a'"),
            (vec![options(SHOP, "all")], "'all' is not the name"),
            (vec![options(SHOP, "12")], "'12' is not the name"),
            (vec![options(SHOP, "")], "'' is not the name"),
            (vec![options(SHOP, "a b")], "'a b' is not the name"),
            (vec![listens(SHOP, "a"), listens(BANK, "b")], "the listener beats"),
            (vec![slow], "a limit of the tenant 12:3 is 0"),
            (vec![options(SHOP, "a"); TENANTS_MAX + 1], "1001 tenants"),
        ] {
            let error = Tenants::new(tenants).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_tenant_is_pushed_back_until_it_is_on_its_rate() {
        let limited = TenantOptions {
            bytes_per_s: Some(1_000),
            lines_per_s: Some(10),
            ..options(SHOP, "shop")
        };
        let tenants = Tenants::new(vec![limited]).unwrap();
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        let wait_ms = |ms| tenants.wait(SHOP, at(ms)).map(|wait| wait.as_millis() as u64);
        assert_eq!(wait_ms(0), None);
        // What it may send in a second may come at once.
        tenants.take(&(SHOP, 1, 1_000), begin);
        assert_eq!(wait_ms(0), None);
        tenants.take(&(SHOP, 1, 500), begin);
        assert_eq!((wait_ms(0), wait_ms(400), wait_ms(501)), (Some(500), Some(100), None));
        // The tighter one of both limits counts.
        tenants.take(&(SHOP, 30, 1), at(10_000));
        assert_eq!(wait_ms(10_000), Some(2_000));
        assert_eq!(tenants.refusal(SHOP, at(11_000)), Some(Duration::from_secs(1)));
        assert_eq!(tenants.refusal(Tenant::DEFAULT, at(11_000)), None);
        let (_, counts) = tenants.all().find(|(options, _)| options.id == SHOP).unwrap();
        assert_eq!(counts.lines.load(Relaxed), 32);
        assert_eq!(counts.bytes.load(Relaxed), 1_501);
        assert_eq!(counts.refused_requests.load(Relaxed), 1);
    }

    #[test]
    fn queries_of_a_tenant_have_places() {
        let limited =
            TenantOptions { queries_max: Some(2), tails_max: Some(1), ..options(SHOP, "shop") };
        let tenants = Arc::new(Tenants::new(vec![limited]).unwrap());
        let begin = |tenant| tenants.begin_query(tenant, QueryKind::Awaited);
        let first = begin(SHOP).unwrap();
        let second = begin(SHOP).unwrap();
        assert_eq!(begin(SHOP).unwrap_err(), 2);
        assert_eq!(begin(SHOP).unwrap_err(), 2, "a refusal takes no place");
        let tail = tenants.begin_query(SHOP, QueryKind::Tail).unwrap();
        assert_eq!(tenants.begin_query(SHOP, QueryKind::Tail).unwrap_err(), 1);
        assert_eq!(tenants.known[0].counts.refused_queries.load(Relaxed), 3);
        let others: Vec<_> = (0..5).map(|_| begin(Tenant::DEFAULT).unwrap()).collect();
        drop((first, others));
        let third = begin(SHOP).unwrap();
        assert_eq!(begin(SHOP).unwrap_err(), 2);
        assert_eq!(tenants.queries_now(SHOP, QueryKind::Awaited), 2);
        drop((second, third, tail));
        for kind in [QueryKind::Awaited, QueryKind::Tail] {
            assert_eq!(tenants.queries_now(SHOP, kind), 0);
        }
    }

    #[test]
    fn what_a_tenant_used_is_kept_by_day() {
        let tenants = Tenants::new(vec![options(SHOP, "shop")]).unwrap();
        for day in 0..DAYS_MAX as i64 + 3 {
            tenants.note_query(SHOP, day * DAY_NS + 5, 10, 100);
            tenants.note_query(SHOP, day * DAY_NS + 6, 1, 1);
        }
        tenants.note_query(BANK, 0, 1, 1);
        let days = tenants.days(SHOP);
        assert_eq!(days.len(), DAYS_MAX);
        let expected =
            DayUse { queries: 2, lines_scanned: 11, bytes_scanned: 101, ..DayUse::default() };
        assert_eq!(days.first_key_value(), Some((&3, &expected)));
        let again = Tenants::new(vec![options(SHOP, "shop")]).unwrap();
        again.resume_days(&tenants.days_document()).unwrap();
        assert_eq!(again.days(SHOP), days);
        assert!(again.resume_days(b"[]").is_err());
        assert_eq!(Tenants::new(vec![options(BANK, "b")]).unwrap().days(SHOP).len(), 0);
    }

    /// Remembers the lines that it got.
    #[derive(Default)]
    struct Kept(Mutex<Vec<(Tenant, String)>>);

    impl Deliver for Kept {
        fn next_sequence(&self) -> (u32, u64) {
            (1, 1)
        }

        fn deliver(&self, frame: Frame, told: OnDurable, _: Patience) -> Result<(), KeepError> {
            let line = |line: record::Line<'_>| {
                let text = String::from_utf8_lossy(line.bytes).into_owned();
                (line.origin.hints.tenant, text)
            };
            lock(&self.0).extend(frame.lines().map(line));
            told(Ok(()));
            Ok(())
        }

        fn refusal(&self) -> Option<KeepError> {
            None
        }
    }

    fn frame(lines: &[(Transport, Tenant, &str)]) -> Frame {
        let mut builder = FrameBuilder::new();
        for (transport, tenant, line) in lines {
            let hints = Arc::new(Hints { tenant: *tenant, ..Hints::default() });
            let origin = Origin { hints, ..Origin::new(*transport, Format::Auto, None) };
            builder.push_line(&origin, 1, line.as_bytes(), false);
        }
        builder.finish(1, 1).unwrap()
    }

    #[test]
    fn lines_of_a_listener_are_those_of_its_tenant() {
        let of_udp = TenantOptions {
            listeners: vec![Transport::SyslogUdp, Transport::Beats],
            ..options(SHOP, "shop")
        };
        let tenants = Arc::new(Tenants::new(vec![of_udp, options(BANK, "bank")]).unwrap());
        let kept = Arc::new(Kept::default());
        let assigning = AssigningDelivery::new(Arc::clone(&kept) as _, tenants);
        let lines = [
            (Transport::SyslogUdp, Tenant::DEFAULT, "one"),
            (Transport::SyslogTcp, Tenant::DEFAULT, "two"),
            (Transport::SyslogUdp, BANK, "three"),
            (Transport::Beats, Tenant::DEFAULT, "four"),
        ];
        assigning.deliver(frame(&lines), Box::new(|_| {}), Patience::Unlimited).unwrap();
        let expected = [(SHOP, "one"), (Tenant::DEFAULT, "two"), (BANK, "three"), (SHOP, "four")];
        assert_eq!(*lock(&kept.0), expected.map(|(tenant, line)| (tenant, line.to_owned())));
    }

    #[test]
    fn datagrams_beyond_the_rate_are_left_out_and_counted() {
        let limited = TenantOptions { lines_per_s: Some(1), ..options(SHOP, "shop") };
        let tenants = Arc::new(Tenants::new(vec![limited]).unwrap());
        let kept = Arc::new(Kept::default());
        let metered = MeteredDelivery::new(Arc::clone(&kept) as _, Arc::clone(&tenants));
        tenants.take(&(SHOP, 10_000, 1), Instant::now());
        let (udp, default) = (Transport::SyslogUdp, Tenant::DEFAULT);
        for lines in [&[(udp, SHOP, "a"), (udp, default, "b")][..], &[(udp, SHOP, "c")]] {
            let told = Arc::new(AtomicU64::new(0));
            let tell = Arc::clone(&told);
            let on_durable = Box::new(move |result: Result<(), KeepError>| {
                tell.fetch_add(u64::from(result.is_ok()), Relaxed);
            });
            metered.deliver(frame(lines), on_durable, Patience::Unlimited).unwrap();
            assert_eq!(told.load(Relaxed), 1);
        }
        assert_eq!(*lock(&kept.0), [(default, "b".to_owned())]);
        let counts = |id| tenants.all().find(|(options, _)| options.id == id).unwrap().1;
        assert_eq!(counts(SHOP).dropped_lines.load(Relaxed), 2);
        assert_eq!(counts(default).lines.load(Relaxed), 1);
    }

    #[test]
    fn connections_wait_until_the_process_stops() {
        let limited = TenantOptions { lines_per_s: Some(1), ..options(SHOP, "shop") };
        let tenants = Arc::new(Tenants::new(vec![limited]).unwrap());
        let kept = Arc::new(Kept::default());
        let metered = MeteredDelivery::new(Arc::clone(&kept) as _, Arc::clone(&tenants));
        tenants.take(&(SHOP, 10_000, 1), Instant::now());
        let http = frame(&[(Transport::Http, SHOP, "request")]);
        metered.deliver(http, Box::new(|_| {}), Patience::Awaited).unwrap();
        assert_eq!(lock(&kept.0).len(), 1, "requests do not wait here");
        std::thread::scope(|scope| {
            let tcp = frame(&[(Transport::SyslogTcp, SHOP, "line")]);
            let waiting =
                scope.spawn(|| metered.deliver(tcp, Box::new(|_| {}), Patience::Unlimited));
            // Without a stop it would take hours.
            tenants.close();
            waiting.join().unwrap().unwrap();
        });
        assert_eq!(lock(&kept.0).len(), 2);
    }
}
