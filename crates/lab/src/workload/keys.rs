//! Chooses the record of an operation: the choosers of YCSB, by the published definitions of its
//! core workload.
//!
//! A chooser returns the number of a record, from 0. The distributions are YCSB's: zipfian with the
//! constant 0.99 after Gray et al., "Quickly Generating Billion-Record Synthetic Databases" (SIGMOD
//! 1994), scattered over the records by FNV-1a; latest is the same skew counted back from the
//! newest record; hotspot and exponential as named. YCSB sums zeta term by term; here the sum of
//! many terms is computed with the Euler-Maclaurin formula, which agrees to ten digits and takes no
//! time.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use crate::sending::Share;

/// The skew of all zipfian choosers.
pub const ZIPFIAN_CONSTANT: f64 = 0.99;

/// Items of the zipfian distribution that YCSB scatters over the records, independent of their
/// number.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;

/// YCSB's hash of a number: FNV-1a of its eight bytes, the lowest first, without the sign.
pub fn hash(number: u64) -> u64 {
    let hash = number.to_le_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, octet| {
        (hash ^ u64::from(*octet)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (hash as i64).unsigned_abs()
}

/// The sum of 1/i^0.99 for i from 1 to `n`.
pub fn zeta(n: u64) -> f64 {
    const SUMMED: u64 = 1000;
    const THETA: f64 = ZIPFIAN_CONSTANT;
    let term = |i: f64| i.powf(-THETA);
    // The chooser of the latest records recomputes it whenever a record is inserted.
    static HEAD: LazyLock<f64> =
        LazyLock::new(|| (1..=SUMMED).map(|i| (i as f64).powf(-THETA)).sum());
    if n <= SUMMED {
        return (1..=n).map(|i| term(i as f64)).sum();
    }
    // Terms after the first thousand: their integral, half of the difference of the ends, and the
    // first correction.
    let (a, b) = (SUMMED as f64, n as f64);
    let integral = (b.powf(1.0 - THETA) - a.powf(1.0 - THETA)) / (1.0 - THETA);
    let ends = (term(b) - term(a)) / 2.0;
    let slopes = THETA * (term(a) / a - term(b) / b) / 12.0;
    *HEAD + integral + ends + slopes
}

/// Numbers from 0; smaller ones are more frequent.
#[derive(Debug, Clone)]
pub struct Zipfian {
    items: u64,
    zeta: f64,
    eta: f64,
}

impl Zipfian {
    /// Over `items` numbers, at least one.
    pub fn new(items: u64) -> Zipfian {
        let items = items.max(1);
        let zeta_n = zeta(items);
        let eta =
            (1.0 - (2.0 / items as f64).powf(1.0 - ZIPFIAN_CONSTANT)) / (1.0 - zeta(2) / zeta_n);
        Zipfian { items, zeta: zeta_n, eta }
    }

    /// The next number.
    pub fn next(&self, random: &mut fastrand::Rng) -> u64 {
        let u = random.f64();
        let uz = u * self.zeta;
        if uz < 1.0 || self.items == 1 {
            return 0;
        }
        if uz < 1.0 + 0.5f64.powf(ZIPFIAN_CONSTANT) {
            return 1;
        }
        let spread = (self.eta * u - self.eta + 1.0).powf(1.0 / (1.0 - ZIPFIAN_CONSTANT));
        ((self.items as f64 * spread) as u64).min(self.items - 1)
    }
}

/// The records that can be read: those that were loaded, and those inserted and acknowledged since.
///
/// Several generators insert interleaved numbers; each reads only its own, because it does not know
/// which of the others were acknowledged.
#[derive(Debug)]
pub struct Records {
    loaded: u64,
    share: Share,
    /// Number of inserts begun.
    begun: AtomicU64,
    /// All inserts before this one have ended.
    ended: AtomicU64,
    some_failed: AtomicBool,
    pending: Mutex<Pending>,
}

#[derive(Debug, Default)]
struct Pending {
    /// Whether each insert from `ended` on has ended: at most as many as there are threads.
    ended: VecDeque<bool>,
    /// Inserts that were not acknowledged, and are never read.
    failed: BTreeSet<u64>,
}

impl Records {
    /// With the numbers below `loaded` present, at least one.
    pub fn new(loaded: u64, share: Share) -> Records {
        Records {
            loaded,
            share,
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            some_failed: AtomicBool::new(false),
            pending: Mutex::default(),
        }
    }

    /// The number of the `k`th insert of this generator.
    fn number(&self, k: u64) -> u64 {
        self.loaded + k * u64::from(self.share.of) + u64::from(self.share.index)
    }

    /// Begins an insert; returns its number.
    pub fn insert(&self) -> u64 {
        self.number(self.begun.fetch_add(1, Ordering::Relaxed))
    }

    /// Ends the insert of `number`.
    pub fn inserted(&self, number: u64, acknowledged: bool) {
        let k = (number - self.loaded) / u64::from(self.share.of);
        let mut pending = self.pending.lock().expect("nothing panics here");
        let ended = self.ended.load(Ordering::Relaxed);
        let place = (k - ended) as usize;
        if pending.ended.len() <= place {
            pending.ended.resize(place + 1, false);
        }
        pending.ended[place] = true;
        if !acknowledged {
            pending.failed.insert(k);
            self.some_failed.store(true, Ordering::Relaxed);
        }
        let mut done = 0;
        while pending.ended.front() == Some(&true) {
            pending.ended.pop_front();
            done += 1;
        }
        self.ended.store(ended + done, Ordering::Release);
    }

    /// The number of positions: readable records have the positions below it.
    pub fn places(&self) -> u64 {
        self.loaded + self.ended.load(Ordering::Acquire)
    }

    /// The record at a position; `None` if its insert was not acknowledged.
    fn at(&self, place: u64) -> Option<u64> {
        let Some(k) = place.checked_sub(self.loaded) else { return Some(place) };
        if self.some_failed.load(Ordering::Relaxed)
            && self.pending.lock().expect("nothing panics here").failed.contains(&k)
        {
            return None;
        }
        Some(self.number(k))
    }

    /// Whether a record was loaded.
    pub fn is_loaded(&self, number: u64) -> bool {
        number < self.loaded
    }
}

/// Draws for one choice. Where a store refuses insert after insert, the newest records are none
/// that can be read, and an exponential chooser would draw for ever.
const DRAWS_MAX: u32 = 1000;

/// The distribution of choices.
#[derive(Debug, Clone)]
pub enum Chooser {
    /// Each of `count` records from `from` on with the same probability.
    Uniform {
        /// The first.
        from: u64,
        /// Number of records.
        count: u64,
    },
    /// Some records far more often than others, scattered over `count` positions from `from` on.
    /// Positions that are not inserted yet are skipped, so that the popular records stay the same
    /// while records are inserted.
    Zipfian {
        /// The first.
        from: u64,
        /// Records and those expected to be inserted.
        count: u64,
        /// Over YCSB's fixed number of items.
        zipfian: Zipfian,
    },
    /// The newest most frequently.
    Latest {
        /// Over as many items as there were records when it was last computed.
        zipfian: Zipfian,
    },
    /// The first `hot` of `count` records in a share of the operations, each with the same
    /// probability; likewise the rest.
    Hotspot {
        /// The first.
        from: u64,
        /// Number of records.
        count: u64,
        /// Number of hot records among them.
        hot: u64,
        /// Share of the operations on the hot records.
        share: f64,
    },
    /// Sequentially, over all threads together, and again from the beginning.
    Sequential {
        /// The first.
        from: u64,
        /// Number of records.
        count: u64,
        /// Shared by all threads.
        next: Arc<AtomicU64>,
    },
    /// The newest most frequently, with an exponential decrease.
    Exponential {
        /// The inverse of the mean distance.
        gamma: f64,
    },
}

impl Chooser {
    /// YCSB's zipfian over `count` positions.
    pub fn zipfian(from: u64, count: u64) -> Chooser {
        Chooser::Zipfian { from, count, zipfian: Zipfian::new(SCRAMBLED_ITEMS) }
    }

    /// The exponential with `percentile` % of the operations on the newest `range` records.
    pub fn exponential(percentile: f64, range: f64) -> Chooser {
        Chooser::Exponential { gamma: -(1.0 - percentile / 100.0).ln() / range }
    }

    /// The number of a readable record; any of those that were loaded, with the same probability,
    /// if [`DRAWS_MAX`] draws find none.
    pub fn next(&mut self, records: &Records, random: &mut fastrand::Rng) -> u64 {
        for _ in 0..DRAWS_MAX {
            let places = records.places();
            let place = self.place(places, random);
            if place < places
                && let Some(number) = records.at(place)
            {
                return number;
            }
        }
        random.u64(0..records.loaded)
    }

    fn place(&mut self, places: u64, random: &mut fastrand::Rng) -> u64 {
        match self {
            Chooser::Uniform { from, count } => *from + random.u64(0..*count),
            Chooser::Zipfian { from, count, zipfian } => {
                *from + hash(zipfian.next(random)) % *count
            }
            Chooser::Latest { zipfian } => {
                if zipfian.items != places {
                    *zipfian = Zipfian::new(places);
                }
                places - 1 - zipfian.next(random)
            }
            Chooser::Hotspot { from, count, hot, share } => {
                let is_hot = random.f64() < *share;
                match (is_hot && *hot > 0) || *hot == *count {
                    true => *from + random.u64(0..*hot),
                    false => *from + random.u64(*hot..*count),
                }
            }
            Chooser::Sequential { from, count, next } => {
                *from + next.fetch_add(1, Ordering::Relaxed) % *count
            }
            Chooser::Exponential { gamma } => {
                // 1 - u is never 0, whose logarithm would be infinite.
                let back = -(1.0 - random.f64()).ln() / *gamma;
                // Further back than the oldest record: draw again.
                match (back as u64) < places {
                    true => places - 1 - back as u64,
                    false => places,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use statrs::distribution::{ChiSquared, ContinuousCDF};

    use super::*;

    fn random() -> fastrand::Rng {
        fastrand::Rng::with_seed(20)
    }

    /// Pearson's test; the draws are seeded, so that it never fails by chance.
    fn check_shape(name: &str, drawn: &[u64], expected_shares: &[f64]) {
        let total: u64 = drawn.iter().sum();
        let statistic: f64 = drawn
            .iter()
            .zip(expected_shares)
            .map(|(got, share)| {
                (*got as f64 - share * total as f64).powi(2) / (share * total as f64)
            })
            .sum();
        let degrees = (drawn.len() - 1) as f64;
        let p = 1.0 - ChiSquared::new(degrees).unwrap().cdf(statistic);
        assert!(p > 0.001, "{name}: chi-squared {statistic:.1} at {degrees} degrees, p {p:.5}");
    }

    fn draw(chooser: &mut Chooser, records: &Records, count: usize) -> Vec<u64> {
        let (mut random, mut drawn) = (random(), vec![0; records.places() as usize]);
        for _ in 0..count {
            drawn[chooser.next(records, &mut random) as usize] += 1;
        }
        drawn
    }

    #[test]
    fn zeta_is_the_published_constant_and_the_sum() {
        // ScrambledZipfianGenerator.ZETAN of YCSB, for 10^10 items.
        assert!((zeta(SCRAMBLED_ITEMS) - 26.469_028_201_783_02).abs() < 1e-7);
        for n in [1, 2, 999, 1000, 1001, 100_000] {
            let sum: f64 = (1..=n).map(|i| (i as f64).powf(-0.99)).sum();
            assert!((zeta(n) - sum).abs() < 1e-9, "{n}");
        }
    }

    #[test]
    fn hashes_are_fnv_of_the_octets_without_their_sign() {
        // From the definition, computed independently with Python's integers.
        assert_eq!(hash(0), 6_284_781_860_667_377_211);
        assert_eq!(hash(1), 8_517_097_267_634_966_620);
        assert_eq!(hash(999), 2_071_219_101_098_386_137);
    }

    #[test]
    fn zipfian_numbers_have_the_share_of_their_rank() {
        // Gray's method is exact for the first two ranks and approximate for the others: compared
        // in groups of ranks.
        let (zipfian, mut random) = (Zipfian::new(1000), random());
        let mut drawn = [0u64; 4];
        for _ in 0..200_000 {
            let group = match zipfian.next(&mut random) {
                0 => 0,
                1 => 1,
                2..=99 => 2,
                100..=999 => 3,
                other => panic!("{other}"),
            };
            drawn[group] += 1;
        }
        let whole = zeta(1000);
        let of = |from: u64, to: u64| (zeta(to) - zeta(from)) / whole;
        check_shape(
            "head",
            &[drawn[0], drawn[1], drawn[2] + drawn[3]],
            &[of(0, 1), of(1, 2), of(2, 1000)],
        );
        let share = drawn[2] as f64 / 200_000.0;
        assert!((share - of(2, 100)).abs() < 0.02, "{share}");
    }

    #[test]
    fn uniform_hotspot_and_sequential_have_their_shapes() {
        let records = Records::new(100, Share::default());
        let mut uniform = Chooser::Uniform { from: 0, count: 100 };
        check_shape("uniform", &draw(&mut uniform, &records, 100_000), &[0.01; 100]);
        let mut hotspot = Chooser::Hotspot { from: 0, count: 100, hot: 20, share: 0.8 };
        let mut shares = [0.04; 100];
        shares[20..].fill(0.0025);
        check_shape("hotspot", &draw(&mut hotspot, &records, 100_000), &shares);
        let mut sequential =
            Chooser::Sequential { from: 0, count: 100, next: Arc::new(AtomicU64::new(0)) };
        assert_eq!(draw(&mut sequential, &records, 300), vec![3; 100]);
    }

    #[test]
    fn exponential_has_its_share_in_its_range() {
        let records = Records::new(1000, Share::default());
        let drawn = draw(&mut Chooser::exponential(95.0, 200.0), &records, 100_000);
        let newest: u64 = drawn[800..].iter().sum();
        check_shape("exponential", &[newest, 100_000 - newest], &[0.95, 0.05]);
    }

    #[test]
    fn scattered_favourites_hold_their_share() {
        let records = Records::new(10_000, Share::default());
        let drawn = draw(&mut Chooser::zipfian(0, 10_000), &records, 100_000);
        let favourite = hash(0) % 10_000;
        let share = drawn[favourite as usize] as f64 / 100_000.0;
        assert!((share - 1.0 / 26.469).abs() < 0.003, "{share}");
        assert_eq!(drawn.iter().max(), Some(&drawn[favourite as usize]));
    }

    #[test]
    fn latest_follows_what_is_acknowledged() {
        let records = Records::new(10, Share { index: 1, of: 3 });
        let mut latest = Chooser::Latest { zipfian: Zipfian::new(1) };
        let mut random = random();
        let numbers: Vec<_> = (0..4).map(|_| records.insert()).collect();
        assert_eq!(numbers, [11, 14, 17, 20]);
        let mut newest =
            |records: &Records| (0..500).map(|_| latest.next(records, &mut random)).max().unwrap();
        assert_eq!(newest(&records), 9);
        records.inserted(14, true);
        assert_eq!(newest(&records), 9, "11 is not acknowledged yet");
        records.inserted(11, false);
        assert_eq!(newest(&records), 14);
        records.inserted(20, true);
        records.inserted(17, true);
        assert_eq!(newest(&records), 20);
        let seen: BTreeSet<_> = (0..2000).map(|_| latest.next(&records, &mut random)).collect();
        assert!(!seen.contains(&11) && seen.contains(&14), "a failed insert is never read");
    }

    #[test]
    fn a_store_that_refuses_all_inserts_is_still_read() {
        let records = Records::new(1, Share::default());
        for _ in 0..1000 {
            records.inserted(records.insert(), false);
        }
        let mut random = random();
        for mut chooser in [
            Chooser::exponential(95.0, 0.857),
            Chooser::Latest { zipfian: Zipfian::new(1) },
            Chooser::zipfian(0, 1_000_000),
        ] {
            assert_eq!(chooser.next(&records, &mut random), 0, "{chooser:?}");
        }
    }

    proptest! {
        #[test]
        fn only_acknowledged_records_are_chosen(
            loaded in 1u64..50,
            ends in proptest::collection::vec((0usize..8, any::<bool>()), 0..100),
            kind in 0..4,
            seed: u64,
        ) {
            let records = Records::new(loaded, Share::default());
            let mut chooser = match kind {
                0 => Chooser::zipfian(0, loaded + 200),
                1 => Chooser::Latest { zipfian: Zipfian::new(loaded) },
                2 => Chooser::exponential(95.0, loaded as f64 * 0.857),
                _ => Chooser::Uniform { from: 0, count: loaded },
            };
            let mut random = fastrand::Rng::with_seed(seed);
            let mut there: BTreeSet<u64> = (0..loaded).collect();
            let mut open: Vec<u64> = (0..8).map(|_| records.insert()).collect();
            for (at, acknowledged) in ends {
                let number = std::mem::replace(&mut open[at], records.insert());
                records.inserted(number, acknowledged);
                if acknowledged {
                    there.insert(number);
                }
                prop_assert!(there.contains(&chooser.next(&records, &mut random)));
            }
        }
    }
}
