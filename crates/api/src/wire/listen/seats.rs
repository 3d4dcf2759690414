//! Decides which HTTP connections are kept when there are too many.
//!
//! Every incoming connection is accepted at once and gets a seat, or is closed. When all regular
//! seats are taken, or one address has its share, the connection that has waited longest for a
//! request gives up its seat; if none waits, the connection with the slowest body does. If none can
//! give way, a new connection gets one of a few reserved seats, on which only `/health`, `/ready`
//! and `/metrics` are answered: so an operator can see what happens while strangers hold all
//! others.
//!
//! Invariant: a connection in the middle of a response never loses its seat to another.
//!
//! Left out: limits on requests per second. A client that sends many requests gets many responses.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// HTTP connections, including those reserved for `/health`, `/ready` and `/metrics`.
pub const HTTP_CONNECTIONS_MAX: usize = 1024 + 64;
/// Regular seats. Beyond, a connection gives way, or the new one gets a reserved seat.
#[cfg(test)]
const SEATS_MAX: usize = HTTP_CONNECTIONS_MAX - RESERVED_MAX;
/// Seats of one address (of IPv6, one /64): three of four. Beyond, a connection of the same address
/// gives way. A proxy in front of all clients has one address, so this leaves it most seats.
///
/// limits.md, Lines on their way in: connections of HTTP | 1,024; {} of one address | the
/// connection that has waited longest for a request is closed, else the request whose body comes
/// most slowly is ended; while all work, `/health`, `/ready` and `/metrics` are answered on
/// {RESERVED_MAX} further connections. All of them are fewer where the limit on open files is low
const ADDRESS_SEATS_MAX: usize = 768;
/// Seats for `/health`, `/ready` and `/metrics` besides the regular ones. When they are taken too,
/// the one that has waited longest for a request is closed.
const RESERVED_MAX: usize = 64;
/// A younger body is not judged to be slow.
const BODY_AGE_MIN: Duration = Duration::from_secs(2);

/// All seats of a listener. Clones share them.
#[derive(Clone, Debug)]
pub struct Seats(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    regular: usize,
    reserved: usize,
    table: Mutex<Table>,
    closed_idle: AtomicU64,
    closed_slow: AtomicU64,
    refused: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    /// By number, so that the oldest is first.
    seats: BTreeMap<u64, Arc<Seat>>,
    /// Regular seats by address.
    by_address: HashMap<IpAddr, usize>,
    reserved: usize,
}

/// The seat of one connection.
#[derive(Debug)]
pub struct Seat {
    number: u64,
    address: IpAddr,
    /// Only the requests of `ANSWERED_ALWAYS` are answered on it.
    pub is_reserved: bool,
    state: Mutex<State>,
    /// Closes the connection: it waits for a request.
    closing: Notify,
    /// Ends the body that is being read.
    ending: Notify,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Waits for a request since that time.
    Idle(Instant),
    /// Handles a request.
    Busy,
    /// Waits for more of a body that began at that time; `bytes` of it have arrived.
    Receiving { begun: Instant, bytes: u64 },
    /// Gave up its seat.
    Gone,
}

/// Holds a seat until it is dropped.
pub struct Held {
    /// The seat.
    pub seat: Arc<Seat>,
    seats: Seats,
}

impl Seats {
    /// Seats for so many connections, of which one of eight, and at most [`RESERVED_MAX`], are
    /// reserved.
    pub fn new(connections_max: usize) -> Seats {
        let reserved = (connections_max / 8).clamp(1, RESERVED_MAX);
        let regular = connections_max.saturating_sub(reserved).max(1);
        Seats(Arc::new(Shared { regular, reserved, ..Shared::default() }))
    }

    /// How many are not reserved.
    pub fn regular(&self) -> usize {
        self.0.regular
    }

    /// A seat for a connection of this address; `None` if even the reserved ones cannot give way.
    pub fn take(&self, address: IpAddr) -> Option<Held> {
        let address = network(address);
        let mut table = lock(&self.0.table);
        let full = table.seats.len() - table.reserved >= self.0.regular;
        let share = address_seats(self.0.regular);
        let greedy = table.by_address.get(&address).is_some_and(|&n| n >= share);
        let of = match (greedy, full) {
            (true, _) => Some(address),
            (false, true) => table.most_seated(),
            (false, false) => None,
        };
        let is_reserved = match of {
            None => false,
            // If no connection of the greediest address can give way and all seats are taken, one
            // of any other address does.
            Some(of) => {
                let gave_way = self
                    .give_way(&mut table, |seat| seat.address == of && !seat.is_reserved)
                    || (!greedy && self.give_way(&mut table, |seat| !seat.is_reserved));
                !gave_way
            }
        };
        if is_reserved
            && table.reserved >= self.0.reserved
            && !self.give_way(&mut table, |seat| seat.is_reserved)
        {
            self.0.refused.fetch_add(1, Relaxed);
            return None;
        }
        let seat = Arc::new(Seat {
            number: table.next,
            address,
            is_reserved,
            state: Mutex::new(State::Idle(Instant::now())),
            closing: Notify::new(),
            ending: Notify::new(),
        });
        table.next += 1;
        table.add(Arc::clone(&seat));
        Some(Held { seat, seats: self.clone() })
    }

    /// Takes a seat from one of the connections for which `may` holds; returns whether there was
    /// one.
    fn give_way(&self, table: &mut Table, may: impl Fn(&Seat) -> bool) -> bool {
        let candidates = || table.seats.values().filter(|seat| may(seat));
        let idle = candidates().filter_map(|seat| match *lock(&seat.state) {
            State::Idle(since) => Some((since, seat)),
            _ => None,
        });
        if let Some((_, seat)) = idle.min_by_key(|(since, seat)| (*since, seat.number)) {
            let seat = Arc::clone(seat);
            *lock(&seat.state) = State::Gone;
            seat.closing.notify_one();
            table.remove(&seat);
            self.0.closed_idle.fetch_add(1, Relaxed);
            return true;
        }
        let slowest = slowest(candidates()).cloned();
        let Some(seat) = slowest.filter(|seat| seat.end_body()) else { return false };
        table.remove(&seat);
        self.0.closed_slow.fetch_add(1, Relaxed);
        true
    }

    /// Connections that are open.
    pub fn open(&self) -> u64 {
        lock(&self.0.table).seats.len() as u64
    }

    /// Idle connections that were closed because their seat was needed.
    pub fn closed_idle(&self) -> u64 {
        self.0.closed_idle.load(Relaxed)
    }

    /// Connections with a slow body that were closed because their seat was needed.
    pub fn closed_slow(&self) -> u64 {
        self.0.closed_slow.load(Relaxed)
    }

    /// Connections that found no seat, and requests that are not answered on reserved seats.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Relaxed)
    }

    /// Counts a request that is not answered on a reserved seat.
    pub fn count_refused(&self) {
        self.0.refused.fetch_add(1, Relaxed);
    }
}

impl Table {
    fn add(&mut self, seat: Arc<Seat>) {
        match seat.is_reserved {
            true => self.reserved += 1,
            false => *self.by_address.entry(seat.address).or_default() += 1,
        }
        self.seats.insert(seat.number, seat);
    }

    fn remove(&mut self, seat: &Seat) {
        if self.seats.remove(&seat.number).is_none() {
            return;
        }
        if seat.is_reserved {
            self.reserved -= 1;
        } else if let Some(count) = self.by_address.get_mut(&seat.address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&seat.address);
            }
        }
    }

    fn most_seated(&self) -> Option<IpAddr> {
        self.by_address.iter().max_by_key(|(_, count)| **count).map(|(address, _)| *address)
    }
}

/// Among the connections that wait for more of a body, the one with the slowest body so far.
pub fn slowest<'a>(seats: impl Iterator<Item = &'a Arc<Seat>>) -> Option<&'a Arc<Seat>> {
    let rated = seats.filter_map(|seat| Some((seat.bytes_per_s()?, seat)));
    rated.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, seat)| seat)
}

impl Seat {
    /// A request has arrived, or more of its body.
    pub fn works(&self) {
        self.set(State::Busy);
    }

    /// The response is sent.
    pub fn waits(&self) {
        self.set(State::Idle(Instant::now()));
    }

    /// Waits for more of a body. Returns when the body is to be ended because the seat is needed.
    pub async fn receives(&self, begun: Instant, bytes: u64) {
        self.set(State::Receiving { begun, bytes });
        self.ending.notified().await;
    }

    /// Returns when the connection is to be closed.
    pub async fn closed(&self) {
        self.closing.notified().await;
    }

    /// Ends the body that is awaited; false if there is none.
    pub fn end_body(&self) -> bool {
        let mut state = lock(&self.state);
        let receives = matches!(*state, State::Receiving { .. });
        if receives {
            *state = State::Gone;
            self.ending.notify_one();
        }
        receives
    }

    fn set(&self, new: State) {
        let mut state = lock(&self.state);
        if *state == State::Gone {
            // The response with the reason is sent, so the connection can be closed now.
            if matches!(new, State::Idle(_)) {
                self.closing.notify_one();
            }
            return;
        }
        *state = new;
    }

    /// The rate of the body that is awaited; `None` if there is none, or it is too young to tell.
    fn bytes_per_s(&self) -> Option<f64> {
        match *lock(&self.state) {
            State::Receiving { begun, bytes } if begun.elapsed() >= BODY_AGE_MIN => {
                Some(bytes as f64 / begun.elapsed().as_secs_f64())
            }
            _ => None,
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        lock(&self.seats.0.table).remove(&self.seat);
    }
}

/// Seats of one address among so many: [`ADDRESS_SEATS_MAX`] of all.
fn address_seats(regular: usize) -> usize {
    (regular - regular / 4).min(ADDRESS_SEATS_MAX)
}

/// The unit that counts as one address: for IPv6, the network of one customer.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn is_notified(notify: &Notify) -> bool {
        use std::future::Future;
        let mut waiting = std::pin::pin!(notify.notified());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        waiting.as_mut().poll(&mut context).is_ready()
    }

    fn take(seats: &Seats, last: u8, count: usize) -> Vec<Held> {
        (0..count).map(|_| seats.take(address(last)).unwrap()).collect()
    }

    #[test]
    fn the_longest_idle_connection_gives_way() {
        let seats = Seats::new(HTTP_CONNECTIONS_MAX);
        let others = take(&seats, 1, SEATS_MAX - ADDRESS_SEATS_MAX);
        let greedy = take(&seats, 2, ADDRESS_SEATS_MAX);
        assert_eq!(seats.open(), SEATS_MAX as u64);
        greedy[0].seat.works();
        // All seats are taken: the address with the most loses one, not the one that has waited
        // longest.
        let more = seats.take(address(3)).unwrap();
        assert!(!more.seat.is_reserved && is_notified(&greedy[1].seat.closing));
        assert!(!is_notified(&greedy[0].seat.closing) && !is_notified(&others[0].seat.closing));
        // It has its share, so it displaces one of its own.
        greedy[2].seat.works();
        greedy[2].seat.waits();
        let again = take(&seats, 2, 2);
        assert!(again.iter().all(|held| !held.seat.is_reserved));
        assert!(is_notified(&greedy[3].seat.closing) && !is_notified(&greedy[2].seat.closing));
        assert_eq!((seats.open(), seats.closed_idle()), (SEATS_MAX as u64, 3));
        drop((others, greedy, more, again));
        assert_eq!(seats.open(), 0);
        let table = lock(&seats.0.table);
        assert!(table.by_address.is_empty() && table.reserved == 0);
    }

    #[test]
    fn reserved_seats_are_left_when_all_connections_are_busy() {
        let seats = Seats::new(HTTP_CONNECTIONS_MAX);
        let all: Vec<Held> = (1..=2).flat_map(|n| take(&seats, n, SEATS_MAX / 2)).collect();
        all.iter().for_each(|held| held.seat.works());
        let reserved = take(&seats, 3, RESERVED_MAX);
        assert!(reserved.iter().all(|held| held.seat.is_reserved));
        let more = seats.take(address(1)).unwrap();
        assert!(more.seat.is_reserved && is_notified(&reserved[0].seat.closing));
        reserved.iter().chain([&more]).for_each(|held| held.seat.works());
        assert!(seats.take(address(4)).is_none());
        assert_eq!(seats.refused(), 1);
        // One request is done.
        all[7].seat.waits();
        assert!(!seats.take(address(4)).unwrap().seat.is_reserved);
    }

    #[test]
    fn with_few_connections_some_are_still_reserved() {
        let seats = Seats::new(HTTP_CONNECTIONS_MAX);
        assert_eq!((seats.0.regular, seats.0.reserved), (SEATS_MAX, RESERVED_MAX));
        assert_eq!(address_seats(seats.regular()), ADDRESS_SEATS_MAX);
        let seats = Seats::new(16);
        let mut all = take(&seats, 1, 10);
        all.extend(take(&seats, 2, 4));
        all.iter().for_each(|held| held.seat.works());
        let reserved = take(&seats, 3, 2);
        assert!(reserved.iter().all(|held| held.seat.is_reserved));
        reserved.iter().for_each(|held| held.seat.works());
        assert!(seats.take(address(4)).is_none());
    }

    #[test]
    fn the_slowest_body_gives_way() {
        let seats = Seats::new(HTTP_CONNECTIONS_MAX);
        // The first address has the most seats, so one of its own is taken.
        let most = [(1, SEATS_MAX / 2 + 1), (2, SEATS_MAX / 2 - 1)];
        let all: Vec<Held> =
            most.into_iter().flat_map(|(n, count)| take(&seats, n, count)).collect();
        all.iter().for_each(|held| held.seat.works());
        let begun = Instant::now() - 2 * BODY_AGE_MIN;
        for (held, bytes) in [(&all[3], 500), (&all[5], 400), (&all[9], 450), (&all[700], 300)] {
            held.seat.set(State::Receiving { begun, bytes });
        }
        // A moment ago, also when this takes seconds.
        let begun = Instant::now() + Duration::from_secs(3_600);
        all[6].seat.set(State::Receiving { begun, bytes: 0 });
        let more = seats.take(address(3)).unwrap();
        assert!(!more.seat.is_reserved && is_notified(&all[5].seat.ending));
        assert!(!is_notified(&all[5].seat.ending), "it gets the reason first");
        all[5].seat.works();
        all[5].seat.waits();
        assert!(is_notified(&all[5].seat.closing));
        assert_eq!((seats.closed_slow(), seats.closed_idle()), (1, 0));
    }

    #[test]
    fn what_counts_as_one_address() {
        let seats = Seats::new(HTTP_CONNECTIONS_MAX);
        let held: Vec<Held> = (0..=ADDRESS_SEATS_MAX as u16)
            .map(|n| seats.take(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, n).into()).unwrap())
            .collect();
        assert!(is_notified(&held[0].seat.closing));
        assert_eq!(network("::ffff:10.0.0.1".parse().unwrap()), address(1));
    }
}
